"""The Gaussian kernel, exp(-gamma |x - y|^2), the only one that factorises over coordinates in any rotation.

So for points in a subspace the part of a row outside it is a single factor, and points can be lifted out of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array, as_float64, at_most_zero, exp_in_place, inner, itemsize, namespace, row_dot
from .base import FixedRows, inner_products
from .radial import FAR, MAX_CANCELLATION, Radial

# gamma |x|^2 above which scikit-learn's distances, computed as |x|^2 + |s|^2 - 2 x's, lose 1e-9 of a width or more.
LOST_BY_SKLEARN = 1e6


@dataclass(frozen=True, repr=False)
class RBF(Radial):
    """exp(-gamma |x - y|^2)."""

    name = "rbf"
    factors = True
    lifts = True

    def of_square(self, ops: Any, t: Any) -> Any:
        return ops.exp(-t)

    def _of_exponents(self, block: Array) -> Array:
        return exp_in_place(block)

    def ratio(self, ops: Any, t: Any) -> Any:
        return 1.0

    def log_of_square(self, t: np.ndarray) -> np.ndarray:
        return -t

    def agrees_with_sklearn(self, rows: Array, points: Array) -> bool:
        points = as_float64(points)
        return self.gamma * float(row_dot(points, points).max()) <= LOST_BY_SKLEARN

    def attraction(self, rows: Array, points: Array, cross_gram: Array) -> Array:
        return cross_gram

    def fixed(self, rows: Array, row_scale: Array | None) -> FixedRows:
        xp = namespace(rows)
        norms, mean = self.gamma * row_dot(rows, rows), xp.mean(rows, axis=0)
        if not (float(xp.max(norms)) <= FAR[itemsize(rows)] and self.gamma * inner(mean, mean) <= MAX_CANCELLATION):
            return FixedRows(self, rows, row_scale)
        with np.errstate(divide="ignore"):  # log 0: such a row is similar to no point
            exponents = -norms if row_scale is None else xp.log(row_scale) - norms
        extended = xp.concat([rows, xp.ones_like(rows[:, :1]), exponents[:, None]], axis=1)
        return NearRows(self, rows, row_scale, self.gamma, extended)

    def row_scale(self, inside: Array, outside: Array) -> Array | None:
        return np.exp(-self.gamma * outside)

    def lift(self, rows: Array, cross_gram: Array, weights: Array) -> Array:
        return 2 * self.gamma * ((weights * cross_gram).T @ rows)


@dataclass(frozen=True)
class NearRows(FixedRows):
    """Rows near the origin under a Gaussian, with everything that depends only on them precomputed: a row with factor
    c has

    c k(x, s) = exp( (x, 1, log c - gamma |x|^2)' (2 gamma s, -gamma |s|^2, 1) )
    """

    gamma: float
    extended: Array  # (n, d + 2)

    def bind(self, points: Array) -> Callable[[slice], Array]:
        xp, norms = namespace(points), row_dot(points, points)[:, None]
        right = xp.concat([2 * self.gamma * points, -self.gamma * norms, xp.ones_like(norms)], axis=1).T
        return lambda part: exp_in_place(at_most_zero(inner_products(self.extended[part, :], right)))

    def slopes(self, part: slice, points: Array, values: Array, weights: Array) -> tuple[Array, Array | None]:
        weights *= values
        pulled = weights.T @ self.extended[part, :-1]
        return 2 * self.gamma * (pulled[:, :-1] - pulled[:, -1:] * points), None
