"""Small fitted models, one of every class and more: what files, kills and interrupts work on."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse

import kernelsieve as ks

from .invariants import to_numpy


def rows_of(n: int = 60, d: int = 4, seed: int = 0) -> np.ndarray:
    """A few clusters."""
    rng = np.random.default_rng(seed)
    return 2 * rng.standard_normal((5, d))[rng.integers(5, size=n)] + rng.standard_normal((n, d))


def answer_of(model: Any, rows: Any) -> np.ndarray:
    """What a model says of rows: its scores, or a monitor's, whose first rows end no window."""
    return to_numpy(model.transform(rows) if hasattr(model, "transform") else model.score_samples(rows)[model.lags :])


def unfitted() -> list[Any]:
    """One estimator of every class, some of them twice."""
    return [
        ks.SparseKernelPCA(2, n_support=8, random_state=0),
        ks.SparseKernelPCA(2, n_support=8, kernel="laplacian", selection="targeted", random_state=0),
        ks.SparseKernelPCA(2, n_support=8, kernel="poly", center=False, random_state=0),
        ks.KernelPCA(2, kernel="rbf", gamma="median", random_state=0),
        ks.KernelPCA(2, kernel="rbf", gamma=0.1, fit_inverse_transform=True, random_state=0),
        ks.ElasticNetKernelPCA(2, n_nonzero=8, random_state=0),
        ks.LikelihoodKernelPCA(2, random_state=0),
        ks.DissimilarityKernelPCA(2, n_nodes=8, random_state=0),
        ks.ImprovedKernelPCA(2, n_nodes=8, random_state=0),
        ks.KernelFeatureAnalysis(2, random_state=0),
        ks.RobustSparseKernelPCA(2, n_directions=50, random_state=0),
        ks.CompressedKernelPCA(2, n_support=6, max_iter=10, random_state=0),
        ks.ElasticNetPCA(2, n_nonzero=2),
        ks.RobustElasticNetPCA(2, n_nonzero=2, n_directions=50, random_state=0),
        ks.OnlineKernelPCA(2, budget=20, random_state=0),
        ks.OnlineKernelPCA(2, rule="incremental", budget=20, random_state=0),
        ks.KernelMonitor(2, 8, random_state=0),
    ]


def streams() -> list[Any]:
    """Estimators that follow a stream: all rows kept, a sample of them, rows that fade, every online rule."""
    sparse = {"n_support": 8, "random_state": 0}
    rules = ("coherence", "hebbian", "subset", "incremental")
    return [
        ks.SparseKernelPCA(2, **sparse),
        ks.SparseKernelPCA(2, n_optimization_samples=40, half_life=30.0, kernel="poly", **sparse),
        *(ks.OnlineKernelPCA(2, rule=rule, budget=20, random_state=0) for rule in rules),
        ks.OnlineKernelPCA(2, budget=6, half_life=20.0, center=False, random_state=0),
    ]


def _streamed(model: Any, rows: np.ndarray) -> Any:
    return model.partial_fit(rows[:40]).partial_fit(rows[40:])


def fitted() -> list[Any]:
    """All of them, fitted; one to sparse rows, one to float32, one to named columns."""
    import pandas as pd

    rows = rows_of()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = [model.fit(rows) for model in unfitted()]
        models.append(ks.SparseKernelPCA(2, n_support=8, random_state=0).fit(rows.astype(np.float32)))
        models.append(
            ks.SparseKernelPCA(2, n_support=8, selection="uniform", random_state=0).fit(scipy.sparse.csr_matrix(rows))
        )
        models.append(ks.SparseKernelPCA(2, n_support=8, random_state=0).fit(pd.DataFrame(rows, columns=list("abcd"))))
        models += [_streamed(model, rows) for model in streams()]
        monitor = ks.KernelMonitor(2, 8, lags=2, smoothing=0.3, alarm_rule=(2, 3), half_life=100.0, random_state=0)
        monitor.fit(rows).update(rows[:7])
        models.append(monitor)
    return models
