"""Random estimators: every class, every kernel, parameters from their whole range and from outside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from scipy.spatial.distance import cdist

import kernelsieve as ks
from kernelsieve import kernels

from .inputs import choose

ROW_RULES = ["targeted", "gain", "improved", "skfa", "residual", "rpcholesky", "leverage", "dissimilar", "farthest"]


def block_kernel(X: Any, Y: Any) -> np.ndarray:
    """A user's kernel of two blocks of rows; by differences, for one that rounds is no function of two rows."""
    X, Y = (np.asarray(rows.toarray() if scipy.sparse.issparse(rows) else rows) for rows in (X, Y))
    return np.exp(-0.3 * cdist(X, Y, "sqeuclidean"))


def pair_kernel(x: np.ndarray, y: np.ndarray) -> float:
    """A user's kernel of two rows, which may be sparse: a difference of sparse rows takes longer than all else."""
    x, y = (row.toarray() if scipy.sparse.issparse(row) else row for row in (x, y))
    return float(np.exp(-0.3 * np.abs(np.asarray(x - y)).sum()))


COMPOSED = [
    kernels.Matern(nu=2.5) + 0.1 * kernels.Linear(),
    kernels.RBF().on(0) * kernels.Laplacian(),
    kernels.RBF(width="median per column") + 1.0,
    kernels.normalized(kernels.Polynomial(degree=2)),
    kernels.ANOVA(degree=2),
    kernels.Hamming().on([0]) * kernels.RationalQuadratic(),
    2.0 * kernels.Periodic(period=3.0) + kernels.Cauchy(),
    kernels.Tanimoto(),
    kernels.GlobalAlignment(width=2.0),  # every row an object, a series of its columns
]


def random_kernel(rng: np.random.Generator) -> dict[str, Any]:
    """Kernel, gamma, degree, coef0 and centring."""
    name = choose(
        rng,
        ["rbf", "laplacian", "poly", "linear", "cosine", "sigmoid", block_kernel, pair_kernel, choose(rng, COMPOSED)],
        [0.35, 0.08, 0.13, 0.11, 0.07, 0.07, 0.04, 0.02, 0.13],
    )
    gamma = choose(rng, ["median", "scale", None, 10.0 ** float(rng.uniform(-4, 4))], [0.6, 0.1, 0.1, 0.2])
    options = {"kernel": name, "gamma": gamma}
    if name in ("poly", "sigmoid") and rng.random() < 0.5:
        options |= {"degree": choose(rng, [1, 2, 3, 2.5, 5]), "coef0": choose(rng, [0.0, 1.0, -1.0, 10.0])}
    if rng.random() < 0.25:
        options["center"] = bool(rng.random() < 0.5)
    return options


def _components(rng: np.random.Generator) -> int:
    return int(choose(rng, [1, 2, 3, 5, 10], [0.2, 0.45, 0.2, 0.1, 0.05]))


def _sparse(rng: np.random.Generator) -> Any:
    selection = choose(rng, ["optimized", "kmeans", "uniform", *ROW_RULES], [0.5, 0.08, 0.06, *[0.04] * 9])
    n_support = choose(rng, ["auto", int(rng.integers(1, 30)), float(rng.uniform(0.05, 1))], [0.4, 0.5, 0.1])
    options = {"selection": selection, "n_support": n_support}
    if rng.random() < 0.15:
        options["n_optimization_samples"] = int(rng.integers(2, 200))
    return ks.SparseKernelPCA(_components(rng), **options, **random_kernel(rng))


def _exact(rng: np.random.Generator) -> Any:
    options = random_kernel(rng)
    if rng.random() < 0.2:
        options["fit_inverse_transform"] = True
    if rng.random() < 0.2:
        options["eigen_solver"] = choose(rng, ["dense", "arpack", "randomized"])
    return ks.KernelPCA(choose(rng, [None, 1, 2, 3], [0.2, 0.3, 0.3, 0.2]), **options)


def _sparsity(rng: np.random.Generator, most: int) -> dict[str, Any]:
    """A number of nonzeros below `most`, an alpha, or neither."""
    if rng.random() < 0.4:
        return {"n_nonzero": int(rng.integers(1, most))}
    return {"alpha": float(10.0 ** rng.uniform(-4, 0.2))} if rng.random() < 0.5 else {}


def _elastic_net(rng: np.random.Generator) -> Any:
    options: dict[str, Any] = {"refit": bool(rng.random() < 0.4), "sparsity": choose(rng, ["component", "joint"])}
    options |= _sparsity(rng, 20)
    if rng.random() < 0.2:
        options["max_iter"] = 20
    if rng.random() < 0.2:
        options["n_dictionary"] = int(rng.integers(2, 60))
    if rng.random() < 0.08:
        options = {"solver": "admm", "alpha": options.get("alpha", 0.1)}
    return ks.ElasticNetKernelPCA(_components(rng), **options, **random_kernel(rng))


def _likelihood(rng: np.random.Generator) -> Any:
    options: dict[str, Any] = {}
    match choose(rng, ["fraction", "variance", "support", "nothing"]):
        case "fraction":
            options["noise_fraction"] = float(rng.uniform(0.01, 0.9))
        case "variance":
            options["noise_variance"] = float(10.0 ** rng.uniform(-12, 4))
        case "support":
            options["n_support"] = int(rng.integers(1, 20))
    if rng.random() < 0.2:
        options["n_dictionary"] = int(rng.integers(2, 60))
    return ks.LikelihoodKernelPCA(choose(rng, [None, 1, 2, 3]), **options, **random_kernel(rng))


def _nodes(rng: np.random.Generator) -> Any:
    kind = choose(rng, [ks.DissimilarityKernelPCA, ks.ImprovedKernelPCA])
    nodes = choose(rng, [int(rng.integers(1, 40)), float(rng.uniform(0.05, 1))])
    return kind(_components(rng), n_nodes=nodes, whiten=bool(rng.random() < 0.7), **random_kernel(rng))


def _features(rng: np.random.Generator) -> Any:
    options = {"accelerated": bool(rng.random() < 0.5)}
    if rng.random() < 0.3:
        options["n_optimization_samples"] = int(rng.integers(2, 100))
    return ks.KernelFeatureAnalysis(_components(rng), **options, **random_kernel(rng))


def _robust(rng: np.random.Generator) -> Any:
    options: dict[str, Any] = {"n_directions": 50, "sparsity": choose(rng, ["component", "joint"])}
    if rng.random() < 0.4:
        options["n_nonzero"] = int(rng.integers(1, 20))
    if rng.random() < 0.5:
        options |= random_kernel(rng)
    return ks.RobustSparseKernelPCA(_components(rng), **options)


def _compressed(rng: np.random.Generator) -> Any:
    options = {"n_support": choose(rng, ["auto", int(rng.integers(1, 20))]), "max_iter": 10}
    options["method"] = choose(rng, ["auto", "optimized", "removal", "l1"], [0.7, 0.1, 0.1, 0.1])
    return ks.CompressedKernelPCA(_components(rng), **options, **random_kernel(rng))


def _linear(rng: np.random.Generator) -> Any:
    options: dict[str, Any] = {"refit": bool(rng.random() < 0.5), "mode": choose(rng, ["simultaneous", "sequential"])}
    options |= _sparsity(rng, 9)
    if rng.random() < 0.4:
        options["l2"] = float(10.0 ** rng.uniform(-4, 4))
    if rng.random() < 0.3:
        return ks.RobustElasticNetPCA(_components(rng), n_directions=50, **options)
    return ks.ElasticNetPCA(_components(rng), **options)


def _online(rng: np.random.Generator) -> Any:
    options: dict[str, Any] = {"rule": choose(rng, ["subset", "hebbian", "incremental", "coherence"])}
    options["budget"] = choose(rng, [None, int(rng.integers(1, 40)), 100])
    if rng.random() < 0.3:
        options["half_life"] = float(10.0 ** rng.uniform(0, 3))
    return ks.OnlineKernelPCA(_components(rng), **options, **random_kernel(rng))


def _monitor(rng: np.random.Generator) -> Any:
    options: dict[str, Any] = {"whiten": bool(rng.random() < 0.3), "lags": int(choose(rng, [0, 0, 0, 1, 3]))}
    if rng.random() < 0.2:
        options["smoothing"] = float(rng.uniform(0.1, 0.9))
    if rng.random() < 0.2:
        options["standardize"] = False
    return ks.KernelMonitor(_components(rng), int(rng.integers(5, 30)), **options)


MAKERS: dict[Callable[[np.random.Generator], Any], float] = {
    _sparse: 0.27,
    _exact: 0.1,
    _elastic_net: 0.11,
    _likelihood: 0.09,
    _online: 0.06,
    _monitor: 0.03,
    _nodes: 0.08,
    _features: 0.05,
    _robust: 0.06,
    _compressed: 0.05,
    _linear: 0.1,
}
WRONG = [True, -1, 0, 1.5, float("nan"), "nonsense", [0.1], {"a": 1}, 10**30, None, 1e308, -0.0]


def random_estimator(rng: np.random.Generator) -> Any:
    """Some estimator, in one case of twenty with a parameter that may be wrong."""
    model = choose(rng, MAKERS, list(MAKERS.values()))(rng)
    if "random_state" in model.get_params():
        model.set_params(random_state=int(rng.integers(1000)))
    if "n_jobs" in model.get_params() and rng.random() < 0.1:
        model.set_params(n_jobs=2)
    if rng.random() < 0.05:
        name = choose(rng, sorted(set(model.get_params()) - {"device", "n_jobs"}))
        value = choose(rng, WRONG)
        if name != "iterated_power" or value != 10**30:  # who asks for so many iterations gets them
            model.set_params(**{name: value})
    return model
