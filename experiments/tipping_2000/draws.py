"""Draws of the three clusters, and both models of one."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelsieve import KernelPCA, LikelihoodKernelPCA

from ..datasets import CLUSTER_SPREAD, three_clusters

ROWS_A_CLUSTER = 30
GAMMA, NOISE = 1 / 0.25**2, 0.0625
N_PANELS = 9  # the paper draws nine components, and as many vectors remain
NOISE_VARIANCES = (0.2, 0.15, 0.1, 0.08, NOISE, 0.05, 0.03, 0.02, 0.01)
SEEDS = range(10)
RULE_SEEDS = range(3)  # fewer: 10,000 sweeps of EM take seconds each
RULES = ("coordinate", "fast", "em")
ALIKE = 0.9  # cosine of two axes that count as the same, share of the squared scores that counts as all
FAR = 4 * CLUSTER_SPREAD  # from every centre


def sparse_clusters(seed: int, noise_variance: float = NOISE, **options: Any) -> Any:
    """Tipping's model of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the tables show what collapsed or did not converge
        return LikelihoodKernelPCA(noise_variance=noise_variance, gamma=GAMMA, **options).fit(three_clusters(seed))


@dataclass(frozen=True)
class Pair:
    """Both models of one draw of the rows."""

    seed: int
    rows: np.ndarray
    exact: Any
    sparse: Any

    @classmethod
    def of(cls, seed: int) -> Pair:
        rows = three_clusters(seed)
        exact = KernelPCA(N_PANELS, kernel="rbf", gamma=GAMMA, center=False).fit(rows)
        return cls(seed, rows, exact, sparse_clusters(seed))

    @property
    def cosines(self) -> np.ndarray:
        """Of exact with sparse axes, (exact, sparse)."""
        found: np.ndarray = self.exact.transform(self.sparse.support_vectors_).T @ self.sparse.dual_coef_
        return found


def left_over(model: Any) -> float:
    """Share of the features' mean square that lies outside the model's axes."""
    return 1.0 - float(model.explained_variance_ratio_.sum())
