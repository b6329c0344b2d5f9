"""Kernels of sets, counts and categories: how much two rows share.

    Tanimoto                  x'y / (|x|^2 + |y|^2 - x'y)                 smooth; for any rows
    Jaccard                   sum_j min(x_j, y_j) / sum_j max(x_j, y_j)   equals Tanimoto on rows of 0 and 1
    HistogramIntersection     sum_j min(x_j, y_j)
    Hamming                   exp(-(number of columns that differ) / width)

Sums of minima are computed from absolute differences, also for sparse rows:
sum_j min(x_j, y_j) = (sum_j x_j + sum_j y_j - |x - y|_1) / 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from scipy.spatial.distance import cdist

from ..arrays import Array, is_numpy, namespace, row_dot
from .base import CrossGram, Kernel, UnitLength, Wide
from .blocks import dense, identity_like, inner_products, manhattan, transposed
from .columnwise import NonNegative, sides
from .products import unit_length


@dataclass(frozen=True, repr=False)
class Tanimoto(UnitLength):
    """x'y / (|x|^2 + |y|^2 - x'y): for rows of 0 and 1, the ones that both have over the ones that either has.

    Two rows of zeros have similarity one.  Positive definite on all rows, because 1 / (|x|^2 + |y|^2) is positive
    definite and k is a power series in x'y / (|x|^2 + |y|^2) with positive coefficients.
    Ralaivola, Swamidass, Saigo & Baldi (2005), Graph kernels for chemical informatics.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelsieve.kernels import Tanimoto
    >>> Tanimoto()(np.array([[1.0, 1.0, 0.0]]), np.array([[1.0, 0.0, 1.0], [1.0, 1.0, 0.0]])).round(3)
    array([[0.333, 1.   ]])
    """

    name = "tanimoto"
    differentiable = True
    isotropic = True

    def bind(self, points: Array) -> CrossGram:
        right, squares = transposed(points), row_dot(points, points)

        def cross_gram(rows: Array) -> Array:
            products = inner_products(rows, right)
            return _quotient(products, row_dot(rows, rows)[:, None] + squares - products)

        return cross_gram

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        # with t = |x|^2 + |s|^2 and k = x's / (t - x's):  dk/ds = (1 + k) ((1 + k) x - 2 k s) / t
        lengths = row_dot(rows, rows)[:, None] + row_dot(points, points)
        share = _quotient(weights * (1 + cross_gram), lengths, 0.0)
        mass = namespace(share).sum(share * cross_gram, axis=0)
        return (share * (1 + cross_gram)).T @ rows - 2 * mass[:, None] * dense(points)

    def unit(self, rows: Array) -> tuple[float, Kernel]:
        return unit_length(rows), self

    def stretched(self, factors: tuple[float, ...]) -> Kernel:
        return self if len(set(factors)) == 1 else super().stretched(factors)

    def forward(self, ops: Any, rows: Any, points: Any) -> Any:
        products = ops.keep(ops.products(rows, points))
        return _exported_quotient(ops, products, ops.keep(ops.square_sums(rows, points) - products))


def _quotient(above: Array, below: Array, otherwise: float = 1.0) -> Array:
    """above / below, or `otherwise` in place of 0 / 0, which occurs if both rows are zero."""
    xp = namespace(below)
    if is_numpy(below) and below.min(initial=1.0) > 0:
        return above / below
    return xp.where(below > 0, above / xp.where(below > 0, below, xp.ones_like(below)), otherwise * xp.ones_like(below))


def _exported_quotient(ops: Any, above: Any, below: Any) -> Any:
    """above / below, and 1 where both are zero."""
    empty = ops.equal(below, 0.0)
    return (above + empty) / (below + empty)


class Overlap(NonNegative):
    """A function of sum_j min(x_j, y_j), whose slope in s_j is 1 where s_j < x_j and 0 where s_j > x_j."""

    differentiable = True
    metric = "manhattan"

    def _of(self, shared: Array, sizes: Array) -> Array:
        """The kernel, given sum_j min(x_j, y_j) and sum_j x_j + sum_j y_j for each pair of rows."""
        raise NotImplementedError

    def bind(self, points: Array) -> CrossGram:
        inside = self.within(points)
        own = _row_sums(inside)

        def cross_gram(rows: Array) -> Array:
            rows = self.checked(rows, points)
            sizes = _row_sums(rows)[:, None] + own
            return self._of(0.5 * (sizes - manhattan(rows, inside)), sizes)

        return cross_gram

    def _pulled(self, rows: Array, points: Array, pull: Array) -> tuple[Array, Array]:
        """sum_n pull_nj d min(x_n, s_j)/ds_j, with the slope 1/2 on a kink, and the loss from moving off the kinks."""
        above, ties = sides(dense(rows), points, pull)
        ties = ties / 2
        if rows is points:  # a point has no kink at its own value, which moves with it
            return above + ties, ties - namespace(pull).sum(pull * identity_like(pull), axis=0)[:, None] / 2
        return above + ties, ties

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        return self.slopes(rows, points, cross_gram, weights)[0]

    def unit(self, rows: Array) -> tuple[float, Kernel]:
        sums = _row_sums(rows)
        mean = float(namespace(sums).mean(sums))
        return (1.0 / mean if mean > 0 else 1.0), self


def _row_sums(rows: Array) -> Array:
    if scipy.sparse.issparse(rows):
        return np.asarray(rows.sum(axis=1)).ravel()
    return rows @ namespace(rows).ones_like(rows[0, :])  # for short rows, a product is faster than a sum


def _least(ops: Any, x: Any, s: Any) -> Any:
    return 0.5 * (x + s - ops.abs(x - s))


@dataclass(frozen=True, repr=False)
class HistogramIntersection(Overlap):
    """sum_j min(x_j, y_j), for rows without negative numbers: what two histograms have in common.

    Positive definite on such rows.  Swain & Ballard (1991), Color indexing; Barla, Odone & Verri (2003), Histogram
    intersection kernel for image classification.
    """

    name = "histogram_intersection"

    def _of(self, shared: Array, sizes: Array) -> Array:
        return shared

    def diagonal(self, rows: Array) -> Array:
        return _row_sums(rows)

    def diagonal_gradient(self, rows: Array) -> Array | None:
        return namespace(rows).ones_like(rows)

    def slopes(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> tuple[Array, Array | None]:
        inside = self.within(dense(points))
        return self._pulled(inside if rows is points else rows, inside, weights)

    def forward(self, ops: Any, rows: Any, points: Any) -> Any:
        return ops.column_sums(_least, rows, points)

    def forward_diagonal(self, ops: Any, rows: Any) -> Any:
        return ops.column_sums(_least, rows, None)


@dataclass(frozen=True, repr=False)
class Jaccard(UnitLength, Overlap):
    """sum_j min(x_j, y_j) / sum_j max(x_j, y_j), for sets (rows of 0 and 1), counts and shares.

    Two rows of zeros have similarity one.  Positive definite on rows without negative numbers.  Ralaivola,
    Swamidass, Saigo & Baldi (2005), Graph kernels for chemical informatics, where it is the MinMax kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelsieve.kernels import Jaccard
    >>> Jaccard()(np.array([[2.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]))
    array([[0.5, 0. ],
           [0. , 1. ]])
    """

    name = "jaccard"

    def _of(self, shared: Array, sizes: Array) -> Array:
        return _quotient(shared, sizes - shared)

    def slopes(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> tuple[Array, Array | None]:
        # with m = sum_j min(x_j, s_j) and t = sum_j x_j + sum_j s_j, k = m / (t - m) and
        # dk/ds = (1 + k) ((1 + k) dm/ds - k) / t
        inside = self.within(dense(points))
        rows = inside if rows is points else rows
        sizes = _row_sums(rows)[:, None] + _row_sums(inside)
        share = _quotient(weights * (1 + cross_gram), sizes, 0.0)
        slopes, kinks = self._pulled(rows, inside, share * (1 + cross_gram))
        return slopes - namespace(share).sum(share * cross_gram, axis=0)[:, None], kinks

    def forward(self, ops: Any, rows: Any, points: Any) -> Any:
        shared = ops.keep(ops.column_sums(_least, rows, points))
        sizes = ops.column_sums(lambda _, x, s: x + s, rows, points)
        return _exported_quotient(ops, shared, ops.keep(sizes - shared))


@dataclass(frozen=True, repr=False)
class Hamming(UnitLength, Wide):
    """exp(-(number of columns that differ) / width), for categories that are given as numbers.

    Only equality of the numbers matters.  Positive definite, because it is a product of kernels of single columns, each
    1 or exp(-1 / width); it equals a Gaussian of one-hot columns.  Points are not moved in its columns.  Couto (2005),
    Kernel k-means for categorical data.

    Parameters
    ----------
    width : float or "median", optional
        The median number of columns in which rows differ by default.
    gamma : float or "median", optional
        1 / width, instead of the width.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelsieve.kernels import Hamming
    >>> Hamming(width=1.0)(np.array([[3.0, 1.0]]), np.array([[3.0, 1.0], [3.0, 2.0]])).round(3)
    array([[1.   , 0.368]])
    """

    name = "hamming"
    differentiable = True
    moves = False
    stretches = False
    metric = "columns"
    gamma_power = 1

    def distances(self, rows: Array, points: Array) -> Array | None:
        rows, points = dense(rows), dense(points)
        if is_numpy(rows):
            return (cdist(rows, points, "hamming") * rows.shape[1]).astype(rows.dtype, copy=False)
        xp = namespace(rows)
        differ = [xp.sum(xp.astype(rows != points[j, :], rows.dtype), axis=1) for j in range(points.shape[0])]
        return xp.stack(differ, axis=1)

    def bind(self, points: Array) -> CrossGram:
        return lambda rows: namespace(rows).exp(-self.gamma * self.distances(rows, points))

    def far_exponents(self, rows: np.ndarray, points: np.ndarray) -> np.ndarray | None:
        return -self.gamma * np.asarray(self.distances(rows, points))

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        return namespace(points).zeros_like(points)

    def tangents(self, points: Array, gram: Array) -> Array | None:
        return namespace(gram).zeros_like(gram)

    def still_columns(self, n_columns: int) -> tuple[int, ...]:
        return tuple(range(n_columns))

    def unit(self, rows: Array) -> tuple[float, Kernel]:
        return 1.0, self

    def unit_scales(self, rows: Array) -> tuple[float, ...]:
        return (0.0,) * rows.shape[1]

    def stretched(self, factors: tuple[float, ...]) -> Kernel:
        return self

    def forward(self, ops: Any, rows: Any, points: Any) -> Any:
        return ops.exp(-self.gamma * ops.column_sums(lambda inner, x, s: 1.0 - inner.equal(x, s), rows, points))
