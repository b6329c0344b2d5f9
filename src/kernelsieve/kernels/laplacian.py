"""The Laplacian kernel, exp(-gamma sum_j |x_j - y_j|), which has a kink wherever a point and a row share a value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from ..arrays import Array, exp_in_place, is_numpy, namespace
from ..threads import row_ranges
from .base import CrossGram, Kernel, Stationary, dense, identity_like, manhattan
from .blocks import CACHED_VALUES


@dataclass(frozen=True, repr=False)
class Laplacian(Stationary):
    """exp(-gamma |x - y|_1)."""

    name = "laplacian"
    metric = "manhattan"
    of_differences = True

    @staticmethod
    def gamma_of(width: float) -> float:
        return 1.0 / width

    def distances(self, rows: Array, points: Array) -> Array | None:
        return manhattan(rows, points)

    def stretched(self, factors: tuple[float, ...]) -> Kernel:
        alike = len(set(factors)) == 1
        return replace(self, gamma=self.gamma * factors[0]) if alike else super().stretched(factors)

    def bind(self, points: Array) -> CrossGram:
        def cross_gram(rows: Array) -> Array:
            block = manhattan(rows, points)
            with np.errstate(over="ignore"):  # exp(-inf) is zero, as it should be
                block *= -self.gamma
            return exp_in_place(block)

        return cross_gram

    def far_exponents(self, rows: np.ndarray, points: np.ndarray) -> np.ndarray:
        return -self.gamma * cdist(rows, points, "cityblock")

    def agrees_with_sklearn(self, rows: Array, points: Array) -> bool:
        return True

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        return self.slopes(rows, points, cross_gram, weights)[0]

    def slopes(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> tuple[Array, Array | None]:
        # dk/ds = gamma sign(x - s) k; where x = s the kernel has its maximum, and a move to either side loses gamma k
        pull = weights * cross_gram
        if rows is points:  # k(s, s) is one wherever s moves, so the kink of a point at itself does not count
            pull = pull - namespace(pull).linalg.diagonal(pull) * identity_like(pull)
        above, ties = sides(dense(rows), points, pull)
        mass = namespace(pull).sum(pull, axis=0)[:, None]
        return self.gamma * (2 * above + ties - mass), self.gamma * ties

    def tangents(self, points: Array, gram: Array) -> Array | None:
        return 2 * self.gamma**2 * gram

    def forward(self, ops: Any, rows: Any, points: Any) -> Any:
        return ops.exp(-self.gamma * ops.absolute_distances(rows, points))

    def unit(self, rows: Array) -> tuple[float, Kernel]:
        return self.gamma, Laplacian(gamma=1.0)


def sides(rows: Array, points: Array, pull: Array) -> tuple[Array, Array]:
    """sum_n pull_nj over the rows above point j, feature by feature, and over those equal to it; (m, d) both."""
    xp = namespace(points)
    above, ties = xp.zeros_like(points), xp.zeros_like(points)
    if is_numpy(points):
        rows, pull = np.ascontiguousarray(rows.T), np.ascontiguousarray(pull.T)
        for part in row_ranges(points.shape[0], max(1, CACHED_VALUES // rows.size)):
            here, weights = points[part, :, None], pull[part, :, None]
            above[part] = ((rows > here).astype(pull.dtype) @ weights)[:, :, 0]
            level = rows == here
            if np.count_nonzero(level):  # almost never for points that have been moved
                ties[part] = (level.astype(pull.dtype) @ weights)[:, :, 0]
        return above, ties
    for j in range(points.shape[0]):
        above[j, :] = pull[:, j] @ xp.astype(rows > points[j, :], pull.dtype)
        ties[j, :] = pull[:, j] @ xp.astype(rows == points[j, :], pull.dtype)
    return above, ties
