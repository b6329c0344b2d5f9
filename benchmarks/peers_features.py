"""What each contestant can do, tried: a cell is "yes" only where the code below ran and its claim held.

    python -m benchmarks.peers_features

Every probe is one line of the peer's documented interface.  `needs(thing, name)` is a "no" where the peer has no such
method, attribute or argument; any other failure is a "no", too, and its message is kept in PEERS_FEATURES.json.  What
an exact method need not say is "exact".  Where a contestant is not installed, its answers of an earlier run stay.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).with_name("PEERS_FEATURES.json")
NOT_TRIED, EXACT = "not tried", "exact"
Answers = dict[str, dict[str, dict[str, str]]]  # by feature and contestant: the answer, and what it rests on
FIT_NYSTROEM = "make_pipeline(Nystroem(n_components=20, random_state=0), PCA(3)).fit(X)"

# Contestants: name, what it is, and the imports of its probes.
WHO: dict[str, str] = {
    "kernelsieve": "from kernelsieve import SparseKernelPCA, KernelMonitor, kernels, export, save, load",
    "KernelPCA": "from sklearn.decomposition import KernelPCA",
    "Nystroem + PCA": "from sklearn.kernel_approximation import Nystroem; from sklearn.decomposition import PCA, "
    "IncrementalPCA; from sklearn.pipeline import make_pipeline",
    "scikit-matter": "from skmatter.decomposition import KernelPCovR; from skmatter.sample_selection import FPS",
    "nystrompca": "from nystrompca import NystromKPCA, calculate_bound",
    "PyOD": "from pyod.models.kpca import KPCA",
    "mlpack": "from mlpack import kernel_pca",
    "kernlab": "",
    "UMAP": "from umap import UMAP",
}
OURS = "SparseKernelPCA(3, n_support=20, random_state=0)"
GP_KERNEL = "from sklearn.gaussian_process.kernels import RBF, DotProduct; k = RBF() + DotProduct() * RBF()"
ON_COLUMNS = "lambda x, y: float(np.exp(-np.sum((x[:2] - y[:2]) ** 2)) * (x[2] == y[2]))"
PCOVR = 'KernelPCovR(mixing=1.0, n_components=3, kernel="rbf", gamma=0.1)'

PROBES: dict[str, dict[str, str]] = {
    "scores of new rows": {
        "kernelsieve": f"assert {OURS}.fit(X).transform(new).shape == (50, 3)",
        "KernelPCA": 'assert KernelPCA(3, kernel="rbf").fit(X).transform(new).shape == (50, 3)',
        "Nystroem + PCA": f"assert {FIT_NYSTROEM}.transform(new).shape == (50, 3)",
        "scikit-matter": f"assert {PCOVR}.fit(X, X[:, :1]).transform(new).shape == (50, 3)",
        "nystrompca": "m = NystromKPCA(n_components=3, m_subset=20); m.fit_transform(X); "
        "assert m.transform(new).shape[0] == 50",
        "PyOD": "assert KPCA(n_components=3).fit(X).decision_function(new).shape == (50,)",
        "mlpack": 'needs(kernel_pca, "test")',
        "kernlab": "R: m <- kpca(X, features=3); stopifnot(all(dim(predict(m, X[1:50,])) == c(50, 3)))",
        "UMAP": "assert UMAP(n_components=3).fit(X).transform(new).shape == (50, 3)",
    },
    "a model that does not grow with the rows": {
        "kernelsieve": f"assert size({OURS}.fit(X)) * 1.2 > size({OURS}.fit(twice))",
        "KernelPCA": 'assert size(KernelPCA(3, kernel="rbf").fit(X)) * 1.2 > size(KernelPCA(3, kernel="rbf").fit(twice))',
        "Nystroem + PCA": f"assert size({FIT_NYSTROEM}) * 1.2 > size({FIT_NYSTROEM.replace('fit(X)', 'fit(twice)')})",
        "scikit-matter": f"assert size({PCOVR}.fit(X, X[:, :1])) * 1.2 > size({PCOVR}.fit(twice, twice[:, :1]))",
        "nystrompca": "m = NystromKPCA(n_components=3, m_subset=20); m.fit_transform(X); assert m.X.shape[0] <= 20",
        "PyOD": "assert size(KPCA(n_components=3).fit(X)) * 1.2 > size(KPCA(n_components=3).fit(twice))",
        "UMAP": "assert size(UMAP(n_components=3).fit(X)) * 1.2 > size(UMAP(n_components=3).fit(twice))",
        "kernlab": "R: s <- function(n) length(serialize(kpca(X[1:n,], features=3), NULL)); stopifnot(s(100) * 1.2 > s(200))",
    },
    "a kernel of your own": {
        "kernelsieve": "assert SparseKernelPCA(3, n_support=20, kernel=chi2, random_state=0).fit(abs(X)).n_support_ == 20",
        "KernelPCA": 'assert KernelPCA(3, kernel="precomputed").fit(chi2(abs(X), abs(X))).eigenvalues_[0] > 0',
        "Nystroem + PCA": "assert Nystroem(kernel=pair, n_components=20).fit(X).components_.shape[0] == 20",
        "scikit-matter": 'assert KernelPCovR(mixing=1.0, n_components=3, kernel="precomputed").fit(chi2(abs(X), abs(X)), X[:, :1])',
        "nystrompca": "NystromKPCA(n_components=3, m_subset=20, kernel=pair).fit_transform(X)",
        "PyOD": "KPCA(n_components=3, kernel=pair).fit(X)",
        "mlpack": "kernel_pca(input_=X, kernel=pair, new_dimensionality=3)",
        "kernlab": "R: k <- function(x, y) sum(x * y) + 1; class(k) <- 'kernel'; stopifnot(ncol(rotated(kpca(X, kernel=k, features=3))) == 3)",
        "UMAP": "needs(UMAP, 'kernel')",
    },
    "kernels that add and multiply": {
        "kernelsieve": "k = kernels.RBF() * kernels.Matern() + kernels.Linear(); "
        "SparseKernelPCA(3, n_support=20, kernel=k, random_state=0).fit(X)",
        "KernelPCA": f"{GP_KERNEL}; KernelPCA(3, kernel=k).fit(X)",
        "Nystroem + PCA": f"{GP_KERNEL}; Nystroem(kernel=k, n_components=20).fit(X)",
        "scikit-matter": f"{GP_KERNEL}; KernelPCovR(mixing=1.0, n_components=3, kernel=k).fit(X, X[:, :1])",
        "nystrompca": f"{GP_KERNEL}; NystromKPCA(n_components=3, m_subset=20, kernel=k).fit_transform(X)",
        "PyOD": f"{GP_KERNEL}; KPCA(n_components=3, kernel=k).fit(X)",
        "kernlab": "R: r <- rbfdot(0.1); v <- vanilladot(); k <- function(x, y) r(x, y) + v(x, y); class(k) <- 'kernel'; "
        "stopifnot(ncol(rotated(kpca(X, kernel=k, features=3))) == 3)",
    },
    "kernels on some of the columns": {
        "kernelsieve": "k = kernels.RBF().on([0, 1]) * kernels.Hamming().on([2]); "
        "SparseKernelPCA(3, n_support=20, kernel=k, random_state=0).fit(np.round(X))",
        "KernelPCA": f"KernelPCA(3, kernel={ON_COLUMNS}).fit(np.round(X))",
        "scikit-matter": f"KernelPCovR(mixing=1.0, n_components=3, kernel={ON_COLUMNS}).fit(np.round(X), X[:, :1])",
        "PyOD": f"KPCA(n_components=3, kernel={ON_COLUMNS}).fit(np.round(X))",
        "kernlab": "R: r <- rbfdot(0.5); k <- function(x, y) r(x[1:2], y[1:2]) * (x[3] == y[3]); class(k) <- 'kernel'; "
        "stopifnot(ncol(rotated(kpca(round(X), kernel=k, features=3))) == 3)",
        "Nystroem + PCA": "from sklearn.compose import make_column_transformer; make_column_transformer("
        "(Nystroem(n_components=20), [0, 1]), (Nystroem(kernel='linear', n_components=1), [2])).fit(X)",
    },
    "support points that are not rows, moved to where they count": {
        "kernelsieve": f"assert {OURS}.fit(X).support_ is None",
        "Nystroem + PCA": "points = Nystroem(n_components=20, random_state=0).fit(X).components_; "
        "assert not any((X == row).all(axis=1).any() for row in points)",
        "scikit-matter": "points = X[FPS(n_to_select=20).fit(X).selected_idx_]; "
        "assert not any((X == row).all(axis=1).any() for row in points)",
    },
    "partial_fit": {
        "kernelsieve": f"m = {OURS}; m.partial_fit(X[:100]).partial_fit(X[100:]); assert m.n_samples_seen_ == 200",
        "KernelPCA": 'needs(KernelPCA, "partial_fit")',
        "Nystroem + PCA": "N = Nystroem(n_components=20, random_state=0).fit(X); P = IncrementalPCA(3); "
        "P.partial_fit(N.transform(X[:100])).partial_fit(N.transform(X[100:]))",
        "scikit-matter": "needs(KernelPCovR, 'partial_fit')",
        "nystrompca": "needs(NystromKPCA, 'partial_fit')",
        "PyOD": "needs(KPCA, 'partial_fit')",
        "kernlab": "R: m <- kha(X[1:100,], features=2, maxiter=5); update(m, X[101:200,])",
        "UMAP": "UMAP(n_components=3).fit(X).update(new)",
    },
    "rows in blocks, which are never in memory together": {
        "kernelsieve": f"assert {OURS}.fit(lambda: iter(np.array_split(X, 4))).n_samples_seen_ == 200",
        "KernelPCA": 'KernelPCA(3, kernel="rbf").fit(lambda: iter(np.array_split(X, 4)))',
        "Nystroem + PCA": "N = Nystroem(n_components=20, random_state=0).fit(X[:50]); P = IncrementalPCA(3); "
        "[P.partial_fit(N.transform(block)) for block in np.array_split(X, 4)]",
        "nystrompca": "NystromKPCA(n_components=3, m_subset=20).fit_transform(lambda: iter(np.array_split(X, 4)))",
        "PyOD": "KPCA(n_components=3).fit(lambda: iter(np.array_split(X, 4)))",
    },
    "sample weights": {
        "kernelsieve": f"differs({OURS}.fit(X, sample_weight=weights), {OURS}.fit(X))",
        "KernelPCA": 'KernelPCA(3, kernel="rbf").fit(X, sample_weight=weights)',
        "Nystroem + PCA": "PCA(3).fit(X, sample_weight=weights)",
        "scikit-matter": "KernelPCovR(mixing=1.0, n_components=3).fit(X, X[:, :1], sample_weight=weights)",
        "PyOD": "KPCA(n_components=3).fit(X, sample_weight=weights)",
        "UMAP": "differs(UMAP(n_components=3, random_state=0).fit(X, sample_weight=weights), "
        "UMAP(n_components=3, random_state=0).fit(X))",
    },
    "sparse rows": {
        "kernelsieve": f"assert {OURS}.fit(sparse).transform(sparse).shape == (200, 3)",
        "KernelPCA": 'assert KernelPCA(3, kernel="rbf").fit(sparse).transform(sparse).shape == (200, 3)',
        "Nystroem + PCA": f"assert {FIT_NYSTROEM.replace('fit(X)', 'fit(sparse)')}.transform(sparse).shape == (200, 3)",
        "scikit-matter": f"{PCOVR}.fit(sparse, X[:, :1])",
        "nystrompca": "NystromKPCA(n_components=3, m_subset=20).fit_transform(sparse)",
        "PyOD": "KPCA(n_components=3).fit(sparse)",
        "mlpack": "kernel_pca(input_=sparse, kernel='gaussian', new_dimensionality=3)",
        "UMAP": "assert UMAP(n_components=3).fit(sparse).transform(sparse).shape == (200, 3)",
    },
    "arrays of other libraries in and out, by the array API": {
        "kernelsieve": f"assert type({OURS}.fit_transform(strict)) is type(strict)",
        "KernelPCA": "with dispatched: assert type(KernelPCA(3, kernel='rbf').fit_transform(strict)) is type(strict)",
        "Nystroem + PCA": f"with dispatched: {FIT_NYSTROEM.replace('fit(X)', 'fit(strict)')}",
        "scikit-matter": f"with dispatched: assert type({PCOVR}.fit(strict, X[:, :1]).transform(strict)) is type(strict)",
        "nystrompca": "assert type(NystromKPCA(n_components=3, m_subset=20).fit_transform(strict)) is type(strict)",
        "PyOD": "with dispatched: assert type(KPCA(n_components=3).fit(strict).decision_scores_) is type(strict)",
        "mlpack": "found = kernel_pca(input_=strict, kernel='gaussian', new_dimensionality=3); "
        "assert type(found['output']) is type(strict)",
        "UMAP": "assert type(UMAP(n_components=3).fit_transform(strict)) is type(strict)",
    },
    "a precomputed gram": {
        "kernelsieve": 'SparseKernelPCA(3, n_support=20, kernel="precomputed", random_state=0).fit(gram)',
        "KernelPCA": 'KernelPCA(3, kernel="precomputed").fit(gram)',
        "Nystroem + PCA": 'assert Nystroem(kernel="precomputed", n_components=20).fit(gram).transform(gram).shape == (200, 20)',
        "scikit-matter": 'KernelPCovR(mixing=1.0, n_components=3, kernel="precomputed").fit(gram, X[:, :1])',
        "nystrompca": "NystromKPCA(n_components=3, m_subset=20, kernel='precomputed').fit_transform(gram)",
        "PyOD": 'KPCA(n_components=3, kernel="precomputed").fit(gram)',
        "kernlab": "R: K <- kernelMatrix(rbfdot(0.1), X); stopifnot(ncol(rotated(kpca(K, features=3))) == 3)",
        "UMAP": 'UMAP(n_components=3, metric="precomputed").fit(1 - gram)',
    },
    "rows that are strings": {
        "kernelsieve": "SparseKernelPCA(3, n_support=20, kernel=kernels.Spectrum(3), random_state=0).fit(words)",
        "KernelPCA": "KernelPCA(3, kernel=lambda a, b: float(a == b)).fit(words)",
        "Nystroem + PCA": "Nystroem(kernel=lambda a, b: float(a == b), n_components=20).fit(words)",
        "kernlab": "R: w <- as.list(replicate(40, paste(sample(letters, 30, TRUE), collapse=''))); "
        "stopifnot(ncol(rotated(kpca(w, kernel='stringdot', kpar=list(length=2, lambda=0.5, type='spectrum', normalized=TRUE), features=2))) == 2)",
        "UMAP": "UMAP(n_components=3, metric=lambda a, b: float(a == b)).fit(words)",
    },
    "rows back from scores": {
        "kernelsieve": f"m = {OURS}.fit(X); assert m.inverse_transform(m.transform(new)).shape == new.shape",
        "KernelPCA": 'm = KernelPCA(3, kernel="rbf", fit_inverse_transform=True).fit(X); '
        "assert m.inverse_transform(m.transform(new)).shape == new.shape",
        "Nystroem + PCA": "needs(Nystroem, 'inverse_transform')",
        "scikit-matter": 'm = KernelPCovR(mixing=1.0, n_components=3, kernel="rbf", fit_inverse_transform=True).fit(X, X[:, :1]); '
        "assert m.inverse_transform(m.transform(new)).shape == new.shape",
        "nystrompca": "needs(NystromKPCA, 'inverse_transform')",
        "PyOD": "needs(KPCA, 'inverse_transform')",
        "UMAP": "m = UMAP(n_components=2).fit(X); assert m.inverse_transform(m.transform(new)).shape == new.shape",
    },
    "says how much of exact kernel PCA it keeps": {
        "kernelsieve": f"assert 0.5 < {OURS}.fit(X).captured_ratio_ <= 1",
        "KernelPCA": EXACT,
        "scikit-matter": EXACT,
        "mlpack": EXACT,
        "kernlab": EXACT,
        "Nystroem + PCA": "needs(Nystroem(n_components=20).fit(X), 'captured_ratio_')",
        "nystrompca": "m = NystromKPCA(n_components=3, m_subset=20); m.fit_transform(X); assert len(m.get_subset_errors())",
        "PyOD": "needs(KPCA(n_components=3, sampling=True, subset_size=20).fit(X), 'captured_ratio_')",
    },
    "with an interval or a bound": {
        "KernelPCA": EXACT,
        "scikit-matter": EXACT,
        "mlpack": EXACT,
        "kernlab": EXACT,
        "kernelsieve": f"low, high = {OURS}.fit(X).captured_ratio_interval_; assert low <= high",
        "nystrompca": "assert calculate_bound(X[:20], 200, 'rbf', sigma=1.0)[0] > 0",
    },
    "a standard file for other runtimes (ONNX)": {
        "kernelsieve": f"export.to_onnx({OURS}.fit(X)).SerializeToString()",
        "KernelPCA": 'from skl2onnx import to_onnx; to_onnx(KernelPCA(3, kernel="rbf").fit(X), X[:1])',
        "Nystroem + PCA": f"from skl2onnx import to_onnx; to_onnx({FIT_NYSTROEM}, X[:1])",
        "UMAP": "from skl2onnx import to_onnx; to_onnx(UMAP(n_components=3).fit(X), X[:1])",
        "PyOD": "from skl2onnx import to_onnx; to_onnx(KPCA(n_components=3).fit(X), X[:1])",
    },
    "a C program without a runtime": {
        "kernelsieve": f"export.to_c({OURS}.fit(X), folder + '/m.h')",
    },
    "model files that run no code when they are read": {
        "kernelsieve": f"save({OURS}.fit(X), folder + '/m.ks'); load(folder + '/m.ks').transform(new)",
        "KernelPCA": "skops.dump(KernelPCA(3, kernel='rbf').fit(X), folder + '/m'); skops.load(folder + '/m').transform(new)",
        "Nystroem + PCA": f"skops.dump({FIT_NYSTROEM}, folder + '/m'); skops.load(folder + '/m').transform(new)",
        "scikit-matter": f"skops.dump({PCOVR}.fit(X, X[:, :1]), folder + '/m'); skops.load(folder + '/m').transform(new)",
        "PyOD": "skops.dump(KPCA(n_components=3).fit(X), folder + '/m'); skops.load(folder + '/m').predict(new)",
    },
    "alarms with a limit for new rows": {
        "kernelsieve": "assert KernelMonitor(3, 20, random_state=0).fit(X).predict(new).shape == (50,)",
        "PyOD": "assert KPCA(n_components=3).fit(X).predict(new).shape == (50,)",
        "KernelPCA": "needs(KernelPCA, 'predict')",
        "nystrompca": "needs(NystromKPCA, 'predict')",
        "UMAP": "needs(UMAP, 'predict')",
    },
    "gradients of the scores": {
        "kernelsieve": f"assert {OURS}.fit(X).input_gradient(new).shape == (50, 3, 6)",
        "KernelPCA": "needs(KernelPCA, 'input_gradient')",
        "UMAP": "needs(UMAP, 'input_gradient')",
    },
    "how much each column moves a component": {
        "kernelsieve": f"assert {OURS}.fit(X).sensitivity(X).shape == (3, 6)",
        "KernelPCA": "needs(KernelPCA, 'sensitivity')",
        "PyOD": "needs(KPCA, 'explain_outlier')",
        "nystrompca": "needs(NystromKPCA, 'sensitivity')",
        "UMAP": "needs(UMAP, 'sensitivity')",
    },
    "a place in a scikit-learn pipeline": {
        "kernelsieve": f"pipeline({OURS})",
        "KernelPCA": 'pipeline(KernelPCA(3, kernel="rbf"))',
        "Nystroem + PCA": "pipeline(Nystroem(n_components=20))",
        "scikit-matter": f"pipeline({PCOVR})",
        "nystrompca": "pipeline(NystromKPCA(n_components=3, m_subset=20))",
        "PyOD": "pipeline(KPCA(n_components=3))",
        "UMAP": "pipeline(UMAP(n_components=3))",
    },
}


class No(Exception):
    """The peer has no such thing."""


def needs(thing: Any, name: str) -> None:
    """Raise unless `thing` has an attribute, or takes an argument, of this name."""
    has = hasattr(thing, name) or (callable(thing) and name in inspect.signature(thing).parameters)
    if not has:
        raise No(f"{getattr(thing, '__name__', type(thing).__name__)} has no {name}")


def differs(weighted: Any, plain: Any) -> None:
    """The weights must have changed something: a fit may swallow arguments that it does not know."""
    rows = np.random.default_rng(1).standard_normal((20, 6))
    assert not np.allclose(weighted.transform(rows), plain.transform(rows))


def pipeline(step: Any) -> None:
    """Scores of a step feed a classifier, inside a search over nothing."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline

    rows = np.random.default_rng(0).standard_normal((120, 6))
    scores = cross_val_score(make_pipeline(step, LogisticRegression()), rows, rows[:, 0] > 0, error_score="raise")
    assert len(scores) == 5


def world(folder: str) -> dict[str, Any]:
    """The names that probes use."""
    import pickle

    import array_api_strict
    import scipy.sparse
    import skops.io
    from sklearn import config_context
    from sklearn.metrics.pairwise import chi2_kernel, rbf_kernel

    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 6))
    return {
        "np": np,
        "X": X,
        "twice": np.vstack([X, rng.standard_normal((200, 6))]),
        "strict": array_api_strict.asarray(X),
        "dispatched": config_context(array_api_dispatch=True),
        "new": rng.standard_normal((50, 6)),
        "weights": rng.random(200),
        "sparse": scipy.sparse.random(200, 60, 0.1, format="csr", random_state=0),
        "gram": rbf_kernel(X, gamma=0.1),
        "words": ["".join(rng.choice(list("abcd"), 12)) for _ in range(60)],
        "chi2": chi2_kernel,
        "skops": skops.io,
        "pair": lambda x, y: float(np.exp(-0.1 * np.sum((x - y) ** 2))),
        "size": lambda model: len(pickle.dumps(model)),
        "needs": needs,
        "differs": differs,
        "pipeline": pipeline,
        "folder": folder,
    }


def in_r(code: str) -> None:
    """Run a line of R with kernlab and 200 rows X; No with R's message where it fails."""
    start = "suppressMessages(library(kernlab)); set.seed(0); X <- matrix(rnorm(1200), 200); "
    done = subprocess.run(["Rscript", "-e", start + code], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise No(next((line for line in done.stderr.splitlines() if line.startswith("Error")), "R ended in an error"))


def tried(who: str, probe: str | None, folder: str) -> dict[str, str]:
    """One cell: its answer, and the code or the message behind it."""
    if probe is None:
        return {"answer": "no", "because": "it has no way to say so"}
    if probe == EXACT:
        return {"answer": EXACT, "because": "it is exact kernel PCA"}
    if who == "kernlab" and shutil.which("Rscript") is None:
        return {"answer": NOT_TRIED, "because": "Rscript is not installed"}
    module = WHO[who].split()[1].split(".")[0] if WHO[who] else ""
    if module and importlib.util.find_spec(module) is None:
        return {"answer": NOT_TRIED, "because": f"{module} is not installed"}
    try:
        if probe.startswith("R: "):
            in_r(probe.removeprefix("R: "))
        else:
            names = world(folder)
            exec(WHO[who], names)
            exec(probe, names)
    except AssertionError:
        return {"answer": "no", "because": f"{probe} does not hold"}
    except Exception as error:
        return {"answer": "no", "because": f"{type(error).__name__}: {str(error).splitlines()[0]}"[:160]}
    return {"answer": "yes", "because": probe.removeprefix("R: ")}


def all_tried(folder: str) -> Answers:
    """Every feature by every contestant."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            feature: {who: tried(who, probes.get(who), folder) for who in WHO} for feature, probes in PROBES.items()
        }


def with_earlier(found: Answers, earlier: Answers) -> Answers:
    """Answers of an earlier run for what could not be tried in this one."""
    return {
        feature: {
            who: earlier.get(feature, {}).get(who, cell) if cell["answer"] == NOT_TRIED else cell
            for who, cell in cells.items()
        }
        for feature, cells in found.items()
    }


def main() -> None:
    os.environ["SCIPY_ARRAY_API"] = "1"  # which scikit-learn asks for, before scipy is imported, to take other arrays
    with tempfile.TemporaryDirectory() as folder:
        found = all_tried(folder)
    if RESULTS.exists():
        found = with_earlier(found, json.loads(RESULTS.read_text(encoding="utf-8")))
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for feature, cells in found.items():
        print(f"{feature:52}", *(f"{who}: {cell['answer']}" for who, cell in cells.items()), sep="  ")


if __name__ == "__main__":
    main()
