"""The Gaussian kernel, exp(-gamma |x - y|^2), with what keeps it true far from the origin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from scipy.spatial.distance import cdist

from ..arrays import (
    Array,
    as_float64,
    at_most_zero,
    exp_in_place,
    inner,
    is_foreign,
    is_numpy,
    itemsize,
    namespace,
    origin_of,
    row_dot,
)
from .base import (
    CrossGram,
    FixedRows,
    Kernel,
    Stationary,
    dense,
    inner_products,
    transposed,
    weighted_rows,
    with_norms,
)

# Rows are shifted to the points' own origin when rounding of |x|^2 + |s|^2 - 2 x's would exceed this
# multiple of the dtype's own rounding.
MAX_CANCELLATION = 64.0
# gamma |x|^2, by the bytes of a number, from which on the rounding of |x|^2 + |s|^2 - 2 x's is more than 1e-4 of a
# squared width in float32, 1e-7 in float64: such rows' distances are taken by differences, one by one.
FAR = {4: 1e3, 8: 1e8}
FARTHEST = 1e30  # exp(-1e30) is zero, and float32 holds it
# gamma |s|^2 of points, by the bytes of a number, from which on products with them overflow.
OVERFLOWING = {4: 1e30, 8: 1e250}
# gamma |x|^2 from which on scikit-learn's distances, which are |x|^2 + |s|^2 - 2 x's, lose 1e-9 of a width or more.
LOST_BY_SKLEARN = 1e6


@dataclass(frozen=True)
class RBF(Stationary):
    """exp(-gamma |x - y|^2)."""

    name = "rbf"
    isotropic = True
    factors = True
    lifts = True
    in_row_space = True
    preimage = "fixed-point"

    def bind(self, points: Array) -> CrossGram:
        shift = self._shift(points)
        if shift is not None:
            points = dense(points) - shift
        if is_foreign(points):
            return self._bind_on_device(points, shift)
        with np.errstate(over="ignore"):
            right_norms = self.gamma * row_dot(points, points)
        if not right_norms.max(initial=0.0) <= OVERFLOWING[right_norms.dtype.itemsize]:
            return lambda rows: self._by_differences(rows if shift is None else dense(rows) - shift, points)
        right = transposed(points, 2 * self.gamma)
        extended = is_numpy(points) and points.shape[1] < points.shape[0]
        if extended:  # a product of two columns more is cheaper than two sweeps over the block
            right = np.concatenate([right, np.full_like(right_norms, -self.gamma)[None, :], -right_norms[None, :]])
        limit = FAR[right_norms.dtype.itemsize] / self.gamma if self.gamma else np.inf

        def cross_gram(rows: Array) -> Array:
            # Many threads hand the interpreter from one to the next at every call on a block: the fewer, the better.
            if shift is not None:
                rows = dense(rows) - shift
            with np.errstate(over="ignore", invalid="ignore"):  # only of far rows, whose values are made again
                if extended and is_numpy(rows):
                    left = with_norms(rows)
                    norms, block = left[:, -2], inner_products(left, right)
                else:
                    norms = row_dot(rows, rows)
                    block = inner_products(rows, right[: rows.shape[1]] if extended else right)
                    block -= (self.gamma * norms)[:, None]
                    block -= right_norms
            if not float(norms.max(initial=0.0)) <= limit:
                far = norms.astype(np.float64) > limit
                block[far] = self._exponents(rows[far], points)
            return exp_in_place(at_most_zero(block))  # rounding must not make a far point a near one

        return cross_gram

    def _exponents(self, rows: Array, points: Array) -> np.ndarray:
        """-gamma |x - s|^2 from the differences themselves, and no less than what float32 holds."""
        with np.errstate(over="ignore"):
            return -np.minimum(self.gamma * cdist(dense(rows), dense(points), "sqeuclidean"), FARTHEST)

    def _by_differences(self, rows: Array, points: Array) -> np.ndarray:
        return np.exp(self._exponents(rows, points)).astype(rows.dtype, copy=False)

    def far_exponents(self, rows: np.ndarray, points: np.ndarray) -> np.ndarray:
        return -self.gamma * cdist(rows, points, "sqeuclidean")

    def agrees_with_sklearn(self, rows: Array, points: Array) -> bool:
        points = as_float64(points)
        return self.gamma * float(row_dot(points, points).max()) <= LOST_BY_SKLEARN

    def is_near(self, rows: Array) -> bool:
        xp = namespace(rows)
        return float(xp.max(row_dot(rows, rows))) * self.gamma <= FAR[xp.finfo(rows.dtype).bits // 8]

    def bind_near(self, points: Array) -> CrossGram:
        return self._bind_on_device(points, None, near=True) if is_foreign(points) else self.bind(points)

    def _bind_on_device(self, points: Array, shift: Array | None, *, near: bool = False) -> CrossGram:
        """On a device a product of two columns more is cheaper than two sweeps over the block."""
        xp = namespace(points)
        ones = xp.ones_like(points[:, :1])
        norms = row_dot(points, points)[:, None]
        right = xp.concat([2 * self.gamma * points, -self.gamma * norms, -self.gamma * ones], axis=1).T
        # a row is near a far point only where it is far out itself: the points are all that need be looked at
        limit = FAR[xp.finfo(points.dtype).bits // 8] / self.gamma if self.gamma else np.inf
        any_far = not near and float(xp.max(norms)) > limit
        far = [j for j in range(points.shape[0]) if float(norms[j, 0]) > limit] if any_far else []

        def cross_gram(rows: Array) -> Array:
            if shift is not None:
                rows = rows - shift
            extended = xp.concat([rows, xp.ones_like(rows[:, :1]), row_dot(rows, rows)[:, None]], axis=1)
            block = extended @ right
            for j in far:
                apart = rows - points[j, :]
                block[:, j] = xp.clip(-self.gamma * row_dot(apart, apart), -FARTHEST, 0.0)
            return exp_in_place(at_most_zero(block))

        return cross_gram

    def _shift(self, points: Array) -> Array | None:
        """The points' own origin where the distances would otherwise cancel, else None.

        Sparse rows that are all far from the origin have few zeros: they are shifted as dense blocks.
        """
        if not scipy.sparse.issparse(points):  # the origin is no further out than the mean, which is quicker to find
            mean = namespace(points).mean(points, axis=0)
            if self.gamma * inner(mean, mean) <= MAX_CANCELLATION:
                return None
        origin = origin_of(points)
        return origin if self.gamma * inner(origin, origin) > MAX_CANCELLATION else None

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        # dk/ds = 2 gamma (x - s) k
        pull = weights * cross_gram
        mass = namespace(pull).sum(pull, axis=0)
        return 2 * self.gamma * (weighted_rows(pull, rows) - mass[:, None] * points)

    def gradients(self, rows: Array, points: Array, cross_gram: Array, coef: Array) -> Array:
        # in one product: 2 gamma (sum_i A_ik k(x, s_i) s_i - (sum_i A_ik k(x, s_i)) x)
        pulls = (coef[:, :, None] * dense(points)[:, None, :]).reshape((coef.shape[0], -1))
        gradient = (cross_gram @ pulls).reshape((rows.shape[0], coef.shape[1], rows.shape[1]))
        gradient -= (cross_gram @ coef)[:, :, None] * rows[:, None, :]
        gradient *= 2 * self.gamma
        return gradient

    def tangents(self, points: Array, gram: Array) -> Array | None:
        return 2 * self.gamma * gram

    def fixed(self, rows: Array, row_scale: Array | None) -> FixedRows:
        xp = namespace(rows)
        norms, mean = self.gamma * row_dot(rows, rows), xp.mean(rows, axis=0)
        if not (float(xp.max(norms)) <= FAR[itemsize(rows)] and self.gamma * inner(mean, mean) <= MAX_CANCELLATION):
            return FixedRows(self, rows, row_scale)
        with np.errstate(divide="ignore"):  # log 0: such a row is like no point
            exponents = -norms if row_scale is None else xp.log(row_scale) - norms
        extended = xp.concat([rows, xp.ones_like(rows[:, :1]), exponents[:, None]], axis=1)
        return NearRows(self, rows, row_scale, self.gamma, extended)

    def unit(self, rows: Array) -> tuple[float, Kernel]:
        return self.gamma**0.5, RBF(1.0)

    def row_scale(self, inside: Array, outside: Array) -> Array | None:
        return np.exp(-self.gamma * outside)

    def lift(self, rows: Array, cross_gram: Array, weights: Array) -> Array:
        return 2 * self.gamma * ((weights * cross_gram).T @ rows)


@dataclass(frozen=True)
class NearRows(FixedRows):
    """Rows near the origin under a Gaussian, with all that depends on them done once: for a row with the factor c

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
