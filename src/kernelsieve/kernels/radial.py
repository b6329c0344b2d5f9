"""Kernels of the Euclidean distance alone: k(x, y) = f(t) with t = gamma |x - y|^2, f(0) = 1.

With  q = -f'/f  the derivative in a point is that of a Gaussian whose values are multiplied by q,

    dk/ds = 2 gamma q k (x - s)

so such a kernel is defined by its f and its q.  `gamma` is 1 / (2 width^2) for all of them, as for a Gaussian.
Distances are computed so that they stay accurate far from the origin.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from scipy.spatial.distance import cdist

from ..arrays import Array, at_most_zero, inner, is_foreign, is_numpy, namespace, origin_of, row_dot
from .base import (
    CrossGram,
    Kernel,
    Stationary,
    dense,
    identity_like,
    inner_products,
    transposed,
    weighted_rows,
    with_norms,
)

# Rows are shifted to the points' own origin when rounding of |x|^2 + |s|^2 - 2 x's would exceed this
# multiple of the dtype's own rounding.
MAX_CANCELLATION = 64.0
# gamma |x|^2, by the bytes of a number, above which the rounding of |x|^2 + |s|^2 - 2 x's exceeds 1e-4 of a squared
# width in float32, 1e-7 in float64: distances of such rows are computed from differences.
FAR = {4: 1e3, 8: 1e8}
# t is kept between these: exp(-1e30) is zero, and float32 can represent 1e30. In exported programs infinity times zero
# would be NaN, and a square root has no derivative at zero.
NEAREST, FARTHEST = 1e-30, 1e30
# gamma |s|^2 of points, by the bytes of a number, above which products with them overflow.
OVERFLOWING = {4: 1e30, 8: 1e250}


@dataclass(frozen=True, repr=False)
class Radial(Stationary):
    """f(gamma |x - y|^2)."""

    isotropic = True
    in_row_space = True
    of_differences = True
    preimage = "fixed-point"

    @abstractmethod
    def of_square(self, ops: Any, t: Any) -> Any:
        """f(t), in the elementwise functions of `ops`: an array namespace, or the operations of an export."""

    @abstractmethod
    def ratio(self, ops: Any, t: Any) -> Any:
        """q = -f'(t) / f(t)."""

    def log_of_square(self, t: np.ndarray) -> np.ndarray | None:
        """log f(t), if f can underflow; otherwise None."""
        return None

    def stretched(self, factors: tuple[float, ...]) -> Kernel:
        alike = len(set(factors)) == 1
        return replace(self, gamma=self.gamma * factors[0] ** 2) if alike else super().stretched(factors)

    def bind(self, points: Array) -> CrossGram:
        exponents = self.bind_exponents(points)
        return lambda rows: self._of_exponents(exponents(rows))

    def _of_exponents(self, block: Array) -> Array:
        """f(t) for a block of -t, which may be overwritten."""
        return self.of_square(namespace(block), -block)

    def bind_exponents(self, points: Array) -> CrossGram:
        """The map rows -> -gamma |x - s|^2, a new block that is never above zero nor below -FARTHEST."""
        shift = self._shift(points)
        if shift is not None:
            points = dense(points) - shift
        if is_foreign(points):
            return self._bind_on_device(points, shift)
        with np.errstate(over="ignore"):
            right_norms = self.gamma * row_dot(points, points)
        if not right_norms.max(initial=0.0) <= OVERFLOWING[right_norms.dtype.itemsize]:
            return lambda rows: self._exponents(rows if shift is None else dense(rows) - shift, points)
        right = transposed(points, 2 * self.gamma)
        extended = is_numpy(points) and points.shape[1] < points.shape[0]
        if extended:  # a product with two more columns is cheaper than two passes over the block
            right = np.concatenate([right, np.full_like(right_norms, -self.gamma)[None, :], -right_norms[None, :]])
        limit = FAR[right_norms.dtype.itemsize] / self.gamma if self.gamma else np.inf

        def exponents(rows: Array) -> Array:
            # Every call on a block hands the interpreter from one thread to another, so few calls are best.
            if shift is not None:
                rows = dense(rows) - shift
            # happens only for far rows, whose values are computed again
            with np.errstate(over="ignore", invalid="ignore"):
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
            return at_most_zero(block)  # rounding must not make a far point a near one

        return exponents

    def _exponents(self, rows: Array, points: Array) -> np.ndarray:
        """-gamma |x - s|^2 from the differences themselves, bounded below by what float32 can represent."""
        with np.errstate(over="ignore"):
            squares = cdist(dense(rows), dense(points), "sqeuclidean")
            return -np.minimum(self.gamma * squares, FARTHEST).astype(rows.dtype, copy=False)

    def is_near(self, rows: Array) -> bool:
        xp = namespace(rows)
        return float(xp.max(row_dot(rows, rows))) * self.gamma <= FAR[xp.finfo(rows.dtype).bits // 8]

    def bind_near(self, points: Array) -> CrossGram:
        if not is_foreign(points):
            return self.bind(points)
        exponents = self._bind_on_device(points, None, near=True)
        return lambda rows: self._of_exponents(exponents(rows))

    def _bind_on_device(self, points: Array, shift: Array | None, *, near: bool = False) -> CrossGram:
        """On a device a product with two more columns is cheaper than two passes over the block."""
        xp = namespace(points)
        ones = xp.ones_like(points[:, :1])
        norms = row_dot(points, points)[:, None]
        right = xp.concat([2 * self.gamma * points, -self.gamma * norms, -self.gamma * ones], axis=1).T
        # a row can be near a far point only if it is far out itself, so only the points need checking
        limit = FAR[xp.finfo(points.dtype).bits // 8] / self.gamma if self.gamma else np.inf
        any_far = not near and float(xp.max(norms)) > limit
        far = [j for j in range(points.shape[0]) if float(norms[j, 0]) > limit] if any_far else []

        def exponents(rows: Array) -> Array:
            if shift is not None:
                rows = rows - shift
            extended = xp.concat([rows, xp.ones_like(rows[:, :1]), row_dot(rows, rows)[:, None]], axis=1)
            block = extended @ right
            for j in far:
                apart = rows - points[j, :]
                block[:, j] = xp.clip(-self.gamma * row_dot(apart, apart), -FARTHEST, 0.0)
            return at_most_zero(block)

        return exponents

    def _shift(self, points: Array) -> Array | None:
        """The points' own origin if the distances would otherwise cancel, otherwise None.

        Sparse rows that are all far from the origin have few zeros: they are shifted as dense blocks.
        """
        if not scipy.sparse.issparse(points):  # the origin is no further out than the mean, which is faster to compute
            mean = namespace(points).mean(points, axis=0)
            if self.gamma * inner(mean, mean) <= MAX_CANCELLATION:
                return None
        origin = origin_of(points)
        return origin if self.gamma * inner(origin, origin) > MAX_CANCELLATION else None

    def attraction(self, rows: Array, points: Array, cross_gram: Array) -> Array:
        """q k, (n, m), of a cross-gram that may be scaled."""
        t = -self.bind_exponents(points)(rows)
        if rows is points:  # the square root would magnify the rounding at distance zero
            t = t * (1 - identity_like(t))
        return cross_gram * self.ratio(namespace(t), t)

    def far_exponents(self, rows: np.ndarray, points: np.ndarray) -> np.ndarray | None:
        return self.log_of_square(self.gamma * cdist(rows, points, "sqeuclidean"))

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        pull = weights * self.attraction(rows, points, cross_gram)
        mass = namespace(pull).sum(pull, axis=0)
        return 2 * self.gamma * (weighted_rows(pull, rows) - mass[:, None] * points)

    def gradients(self, rows: Array, points: Array, cross_gram: Array, coef: Array) -> Array:
        # in one product: 2 gamma (sum_i A_ik q k(x, s_i) s_i - (sum_i A_ik q k(x, s_i)) x)
        pull = self.attraction(rows, points, cross_gram)
        pulls = (coef[:, :, None] * dense(points)[:, None, :]).reshape((coef.shape[0], -1))
        gradient = (pull @ pulls).reshape((rows.shape[0], coef.shape[1], rows.shape[1]))
        gradient -= (pull @ coef)[:, :, None] * rows[:, None, :]
        gradient *= 2 * self.gamma
        return gradient

    def tangents(self, points: Array, gram: Array) -> Array | None:
        return 2 * self.gamma * self.attraction(points, points, gram)

    def unit(self, rows: Array) -> tuple[float, Kernel]:
        return self.gamma**0.5, replace(self, gamma=1.0)

    def forward(self, ops: Any, rows: Any, points: Any) -> Any:
        t = self.gamma * ops.squared_distances(rows, points)
        return self.of_square(ops, ops.minimum(ops.maximum(t, NEAREST), FARTHEST))
