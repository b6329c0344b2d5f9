"""`--gamma auto`: the width of the kernel with which held-out rows are reconstructed best from their scores.

For widths around the median distance a small model is fitted to some rows, and other rows are sent through it and back:

    error(gamma) = mean over held-out rows of |x - preimage(scores(x))|^2

With a kernel that is too narrow every row is like no other, and a new one cannot be placed; one that is too wide does
no better than linear PCA.  The gamma with the smallest error is taken.  (M. A. Alam and K. Fukumizu, "Hyperparameter
selection in kernel principal component analysis", Journal of Computer Science 10 (2014) 1139-1150.)
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

FACTORS = (1 / 16, 1 / 4, 1 / 2, 1, 2, 4, 16)  # multiples of the median rule's gamma
MAX_ROWS = 2000  # to fit the small models to; as many again are held out
FEWEST_POINTS, POINTS_A_COMPONENT = 30, 5  # support points of the small models


@dataclass(frozen=True)
class TriedGamma:
    """A gamma that was tried, and the share of the held-out rows' variance that was lost with it."""

    gamma: float
    error: float


def tried_widths(rows: np.ndarray, kernel: str, n_components: int, seed: int) -> list[TriedGamma]:
    """The gammas that were tried, with their errors, for encoded rows."""
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
        warnings.simplefilter("ignore")  # some gammas are bound to fit badly
        points = min(max(FEWEST_POINTS, POINTS_A_COMPONENT * n_components), len(np.unique(train, axis=0)))
        options: dict[str, Any] = {"n_support": points, "selection": "kmeans", "kernel": kernel, "random_state": seed}
        median = float(SparseKernelPCA(n_components, gamma="median", **options).fit(train).gamma_)
        for factor in FACTORS:
            model = SparseKernelPCA(n_components, gamma=factor * median, **options).fit(train)
            back = model.inverse_transform(model.transform(test))
            error = float(np.square(test - back).sum()) / total if total > 0 else 0.0
            widths.append(TriedGamma(factor * median, error))
    return widths


def best_width(widths: list[TriedGamma]) -> float:
    """The gamma with the smallest error, or the widest kernel among those that are nearly as good."""
    smallest = min(width.error for width in widths)
    return min(width.gamma for width in widths if width.error <= 1.001 * smallest)
