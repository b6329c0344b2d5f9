"""`--gamma auto`: the width of the kernel that lets held-out rows be told best from their scores.

For widths around the median distance a small model is fitted to some rows, and other rows are sent through it and back:

    error(gamma) = mean over held-out rows of |x - preimage(scores(x))|^2

A kernel too narrow sees every row alone and cannot say where a new one lies; one too wide sees only what linear PCA
sees.  The smallest error decides.  (M. A. Alam and K. Fukumizu, "Hyperparameter selection in kernel principal
component analysis", Journal of Computer Science 10 (2014) 1139-1150, who validate the reconstruction of rows so.)
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

FACTORS = (1 / 16, 1 / 4, 1 / 2, 1, 2, 4, 16)  # of the median width's gamma
MAX_ROWS = 2000  # that the small models are fitted to; as many again are held out
FEWEST_POINTS, POINTS_A_COMPONENT = 30, 5  # support points of the small models


@dataclass(frozen=True)
class Width:
    """A gamma that was tried, and the share of the held-out rows' variance that it could not tell."""

    gamma: float
    error: float


def tried_widths(rows: np.ndarray, kernel: str, n_components: int, seed: int) -> list[Width]:
    """Every gamma tried, with its error; rows as the estimator is given them."""
    from .. import SparseKernelPCA

    rng = np.random.default_rng(seed)
    order = rng.permutation(len(rows))[: 2 * MAX_ROWS]
    half = max(2, len(order) // 2)
    train, test = rows[order[:half]].astype(np.float64), rows[order[half:]].astype(np.float64)
    if len(test) < 2:
        raise ValueError(f"{len(rows)} rows are too few to choose the width of the kernel: give --gamma median")
    total = float(np.square(test - train.mean(axis=0)).sum())
    widths = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some widths are meant to be bad
        points = min(max(FEWEST_POINTS, POINTS_A_COMPONENT * n_components), len(np.unique(train, axis=0)))
        options: dict[str, Any] = {"n_support": points, "selection": "kmeans", "kernel": kernel, "random_state": seed}
        median = float(SparseKernelPCA(n_components, gamma="median", **options).fit(train).gamma_)
        for factor in FACTORS:
            model = SparseKernelPCA(n_components, gamma=factor * median, **options).fit(train)
            back = model.inverse_transform(model.transform(test))
            error = float(np.square(test - back).sum()) / total if total > 0 else 0.0
            widths.append(Width(factor * median, error))
    return widths


def best_width(widths: list[Width]) -> float:
    """The gamma with the smallest error; of nearly equal ones the widest kernel."""
    smallest = min(width.error for width in widths)
    return min(width.gamma for width in widths if width.error <= 1.001 * smallest)
