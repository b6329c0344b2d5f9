"""Kernels that are sums over columns:  k(x, y) = f(t),  t = sum_j h(x_j, y_j).

With h' the derivative of h in its second argument,  dk/ds_j = f'(t) h'(x_j, s_j).  Such a kernel is defined by h, h',
f and f'.  The values of n rows and m points take n m d evaluations of h, which cost many times as much as a matrix
product.  They are computed column by column, for tiles of rows and points that are small enough for the cache.

The Laplacian kernel, exp(-gamma sum_j |x_j - y_j|), has a kink wherever a point and a row are equal in a column.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from scipy.spatial.distance import cdist

from ..arrays import Array, exp_in_place, is_numpy, namespace
from ..errors import OutsideDomain
from ..threads import row_ranges
from .base import CrossGram, Kernel, Stationary, Wide, check_count, check_positive
from .blocks import CACHED_VALUES, constant_diagonal, dense, direct_broadcasts, identity_like, manhattan
from .radial import RBF

LONG_LOOP = 2048  # rows of a tile; many, because numpy starts one loop over the rows for each point of the tile
# An ANOVA kernel of at most this degree is bounded: float32 can represent the squares of its values on 10^6 columns.
LARGEST_DEGREE = 3
ROOT_OF_HALF = 0.5**0.5
NEARLY_ZERO = 1e-30  # added to denominators that may be zero; float32 can represent this number


class NonNegative(Kernel):
    """A kernel for rows without negative numbers: counts, shares, histograms."""

    nonnegative = True

    def within(self, points: Array) -> Array:
        if scipy.sparse.issparse(points):  # sparse points are rows, which have been checked
            return points
        xp = namespace(points)
        return xp.where(points > 0, points, xp.zeros_like(points))

    def checked(self, rows: Array, points: Array) -> Array:
        """The rows, after a check that none is negative; negative numbers of points that are moved count as zero."""
        if rows is points and not scipy.sparse.issparse(rows):
            return self.within(rows)
        check_nonnegative(type(self).__name__, rows)
        return rows


def check_nonnegative(kernel: str, rows: Array) -> None:
    """Raise an error for rows with a negative number; the error names its column."""
    values = rows.data if scipy.sparse.issparse(rows) else rows
    if math.prod(values.shape) and float(namespace(values).min(values)) < 0:
        if scipy.sparse.issparse(rows):
            lowest = np.asarray(rows.min(axis=0).todense()).ravel()
        else:
            lowest = namespace(rows).min(rows, axis=0)
        column = int(namespace(lowest).argmin(lowest))
        raise OutsideDomain(
            column,
            f"has {float(lowest[column]):.4g}, and {kernel} is a kernel of rows without negative numbers: shift or "
            "clip that column, or take another kernel for it with on()",
        )


class Columnwise(Kernel):
    """A kernel f(sum_j h(x_j, y_j)), for functions f and h that each kernel defines."""

    differentiable = True
    metric = "columns"

    @abstractmethod
    def term(self, ops: Any, x: Any, s: Any) -> Any:
        """h(x, s), in the elementwise functions of `ops`: an array namespace, or the operations of an export."""

    @abstractmethod
    def slope(self, ops: Any, x: Any, s: Any) -> Any:
        """h'(x, s), the derivative of h in s."""

    @abstractmethod
    def of_sum(self, ops: Any, t: Any) -> Any:
        """f(t), the kernel's value, given the sum t of its terms."""

    @abstractmethod
    def of_sum_slope(self, values: Array) -> Any:
        """f'(t), the derivative of f, given the kernel's values f(t)."""

    def values(self, rows: Array, points: Array) -> Array:
        """The kernel's values f(t) for all pairs of rows and points, (n, m)."""
        return self.of_sum(namespace(points), _sums(self.term, rows, points))

    def checked(self, rows: Array, points: Array) -> Array:
        """The rows, after a check that the kernel has values for them and these points."""
        return rows

    def bind(self, points: Array) -> CrossGram:
        inside = self.within(dense(points))
        return lambda rows: self.values(dense(self.checked(rows, points)), inside)

    def diagonal(self, rows: Array) -> Array:
        rows = self.within(dense(rows))
        xp = namespace(rows)
        return self.of_sum(xp, xp.sum(self.term(xp, rows, rows), axis=1))

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        rows, points = dense(self.checked(rows, points)), self.within(dense(points))
        xp, pull = namespace(points), weights * self.of_sum_slope(cross_gram)
        if is_numpy(points):
            return _pulled(self.slope, rows, points, pull)
        return xp.stack([pull[:, j] @ self.slope(xp, rows, points[j, :]) for j in range(points.shape[0])])

    def forward(self, ops: Any, rows: Any, points: Any) -> Any:
        return self.of_sum(ops, ops.column_sums(self.term, rows, points))

    def forward_diagonal(self, ops: Any, rows: Any) -> Any:
        return self.of_sum(ops, ops.column_sums(self.term, rows, None))


def _sums(term: Any, rows: Array, points: Array) -> Array:
    """sum_j h(x_j, s_j) for all pairs of rows and points, (n, m); `term` is h."""
    xp = namespace(points)
    if is_numpy(points):
        return _joined(np.add, term, rows, points)
    return xp.stack([xp.sum(term(xp, rows, points[j, :]), axis=1) for j in range(points.shape[0])], axis=1)


def _tiles(rows: np.ndarray, points: np.ndarray) -> Iterator[tuple[slice, slice]]:
    """Tiles of rows and points whose pairs fit the cache: many rows, along which numpy's loops run, and few points."""
    for part in row_ranges(rows.shape[0], LONG_LOOP):
        for some in row_ranges(points.shape[0], max(1, CACHED_VALUES // (part.stop - part.start))):
            yield part, some


@direct_broadcasts()
def _joined(join: np.ufunc, term: Any, rows: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The terms of all columns, added or multiplied by `join`, for all pairs of rows and points, (n, m)."""
    columns = np.ascontiguousarray(rows.T)
    out = np.empty((points.shape[0], rows.shape[0]), dtype=np.result_type(rows, points))
    for part, some in _tiles(rows, points):
        block = term(np, columns[0, part], points[some, 0, None])
        for j in range(1, len(columns)):
            join(block, term(np, columns[j, part], points[some, j, None]), out=block)
        out[some, part] = block
    return out.T


@direct_broadcasts()
def _pulled(slope: Any, rows: np.ndarray, points: np.ndarray, pull: np.ndarray) -> np.ndarray:
    """sum_n pull_nj h'(x_n, s_j) in every column, (m, d); `slope` is h'."""
    columns, pull = np.ascontiguousarray(rows.T), np.ascontiguousarray(pull.T)
    out = np.zeros(points.shape, dtype=pull.dtype)
    for part, some in _tiles(rows, points):
        for j in range(len(columns)):
            out[some, j] += np.vecdot(pull[some, part], slope(np, columns[j, part], points[some, j, None]))
    return out


@dataclass(frozen=True, repr=False)
class Chi2(NonNegative, Columnwise, Stationary):
    """exp(-sum_j (x_j - y_j)^2 / (x_j + y_j) / width), for rows without negative numbers.

    Positive definite on such rows.  Zhang, Marszalek, Lazebnik & Schmid (2007), Local features and kernels for
    classification of texture and object categories.  It equals scikit-learn's `chi2_kernel` with the same gamma.

    Parameters
    ----------
    width : float or "median", optional
        1 / gamma; the median chi-square distance of rows by default.
    gamma : float or "median", optional
        1 / width, instead of the width.
    """

    name = "chi2"
    stationary = False  # the kernel depends on x + y as well as on x - y
    gamma_power = 1

    def distances(self, rows: Array, points: Array) -> Array | None:
        return _sums(self.term, dense(self.checked(rows, points)), self.within(dense(points)))

    def term(self, ops: Any, x: Any, s: Any) -> Any:
        apart = x - s
        return apart * apart / (x + (s + NEARLY_ZERO))

    def slope(self, ops: Any, x: Any, s: Any) -> Any:
        share = x / (x + (s + NEARLY_ZERO))
        return 1.0 - 4.0 * share * share

    def of_sum(self, ops: Any, t: Any) -> Any:
        return ops.exp(-self.gamma * t)

    def of_sum_slope(self, values: Array) -> Any:
        return -self.gamma * values


@dataclass(frozen=True, repr=False)
class Periodic(Columnwise, Stationary):
    """exp(-2 sum_j sin^2(pi (x_j - y_j) / period) / width^2): a Gaussian of columns that are wrapped around circles.

    Positive definite on all rows.  MacKay (1998), Introduction to Gaussian processes.  On one column it equals
    scikit-learn's ExpSineSquared.  On several columns, ExpSineSquared takes the sine of the Euclidean distance instead,
    and is indefinite.

    Parameters
    ----------
    period : float, default=1.0
        Columns are wrapped around circles of this circumference.
    width : float or "median", optional
        The width of the Gaussian, for circles of radius one; the median distance of rows on their circles by default.
    gamma : float or "median", optional
        1 / (2 width^2), instead of the width.
    """

    period: float = 1.0
    name = "periodic"
    stretches = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("Periodic", "period", self.period)

    @property
    def kernel(self) -> RBF:
        """The Gaussian kernel of the wrapped rows, which `see` computes."""
        return RBF(gamma=self.gamma)

    def see(self, rows: Array) -> Array:
        """The rows wrapped around circles: the cosines and sines of all columns.

        Squared distances of wrapped rows are sum_j 4 sin^2(pi (x_j - y_j) / period).  Whole periods are subtracted
        first, which is exact, because the angles of large numbers would be inaccurate.  Signs are kept, because a small
        negative number would lose its digits if a period were added to it.
        """
        rows = dense(rows)
        xp = namespace(rows)
        rest = xp.remainder(xp.abs(rows), xp.full_like(rows[:1, :], self.period))
        angles = (2 * np.pi / self.period) * xp.sign(rows) * rest
        return xp.concat([xp.cos(angles), xp.sin(angles)], axis=1)

    def back(self, slopes: Array, like_points: Array) -> Array:
        """Derivatives with respect to positions on the circles, converted to derivatives with respect to the points."""
        circles, n = self.see(like_points), like_points.shape[1]
        return (2 * np.pi / self.period) * (slopes[:, n:] * circles[:, :n] - slopes[:, :n] * circles[:, n:])

    def bind(self, points: Array) -> CrossGram:
        bound = self.kernel.bind(self.see(points))
        return lambda rows: bound(self.see(rows))

    def is_near(self, rows: Array) -> bool:
        return self.kernel.is_near(self.see(rows))

    def bind_near(self, points: Array) -> CrossGram:
        bound = self.kernel.bind_near(self.see(points))
        return lambda rows: bound(self.see(rows))

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        return self.back(self.kernel.pullback(self.see(rows), self.see(points), cross_gram, weights), points)

    def distances(self, rows: Array, points: Array) -> Array | None:
        return _sums(self.term, dense(rows), dense(points)) ** 0.5

    def stretched(self, factors: tuple[float, ...]) -> Kernel:
        if len(set(factors)) > 1:
            return Kernel.stretched(self, factors)
        return replace(self, period=self.period / factors[0])

    def unit(self, rows: Array) -> tuple[float, Kernel]:
        return 2 * np.pi / self.period, replace(self, period=2 * np.pi)

    def term(self, ops: Any, x: Any, s: Any) -> Any:
        half = ops.sin((np.pi / self.period) * (x - s))
        return 4.0 * half * half

    def slope(self, ops: Any, x: Any, s: Any) -> Any:
        return -4.0 * (np.pi / self.period) * ops.sin((2 * np.pi / self.period) * (x - s))

    def of_sum(self, ops: Any, t: Any) -> Any:
        return ops.exp(-self.gamma * t)

    def of_sum_slope(self, values: Array) -> Any:
        return -self.gamma * values


@dataclass(frozen=True, repr=False)
class ANOVA(Columnwise, Wide):
    """(sum_j exp(-gamma (x_j - y_j)^2))^degree: a sum of Gaussians of up to `degree` columns each.

    Positive definite on all rows.  Stitson, Gammerman, Vapnik, Vovk, Watkins & Weston (1999), Support vector regression
    with ANOVA decomposition kernels.  It equals kernlab's anovadot, whose sigma is gamma.

    Parameters
    ----------
    degree : int, default=1
        The power of the sum: the largest number of columns that interact.
    width : float or "median", optional
        By default the median, over pairs of rows, of the root mean square difference of their columns.
    gamma : float or "median", optional
        1 / (2 width^2), instead of the width.
    """

    degree: int = 1
    name = "anova"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("ANOVA", "degree", self.degree)
        object.__setattr__(self, "bounded", self.degree <= LARGEST_DEGREE)

    def distances(self, rows: Array, points: Array) -> Array | None:
        return (_sums(lambda ops, x, s: (x - s) ** 2, dense(rows), dense(points)) / rows.shape[1]) ** 0.5

    def term(self, ops: Any, x: Any, s: Any) -> Any:
        apart = x - s
        return ops.exp((-self.gamma * apart) * apart)

    def slope(self, ops: Any, x: Any, s: Any) -> Any:
        apart = x - s
        return apart * ops.exp((-self.gamma * apart) * apart)  # the factor 2 gamma is in `of_sum_slope`

    def of_sum(self, ops: Any, t: Any) -> Any:
        return t if self.degree == 1 else t**self.degree

    def of_sum_slope(self, values: Array) -> Any:
        return 2 * self.gamma * self.degree * values ** (1 - 1 / self.degree)

    def diagonal(self, rows: Array) -> Array:
        return constant_diagonal(rows, float(rows.shape[1]) ** self.degree)

    def diagonal_gradient(self, rows: Array) -> Array | None:
        return None


@dataclass(frozen=True, repr=False)
class Spline(NonNegative, Columnwise):
    """prod_j 1 + x y + x y min(x, y) - (x + y) min(x, y)^2 / 2 + min(x, y)^3 / 3, for rows without negative numbers.

    Positive definite on such rows: it is the linear spline with an infinite number of knots.  Gunn (1998), Support
    vector machines for classification and regression.  It equals kernlab's splinedot.  Its values grow with those of
    the columns, so scale the columns to [0, 1].
    """

    name = "spline"

    def term(self, ops: Any, x: Any, s: Any) -> Any:
        below, above = _branches(x, s)
        return ops.log(0.5 * (below + above + ops.abs(below - above)))

    def values(self, rows: Array, points: Array) -> Array:
        if not is_numpy(points):
            return super().values(rows, points)
        return _joined(np.multiply, lambda xp, x, s: xp.maximum(*_branches(x, s)), rows, points)

    def slope(self, ops: Any, x: Any, s: Any) -> Any:
        # The derivative of a factor is x + x s - s^2 / 2 for s < x, and x + x^2 / 2 for s > x.  Both are
        # x + x^2 / 2 - max(x - s, 0)^2 / 2.
        level = ROOT_OF_HALF * s
        over = ops.maximum(ROOT_OF_HALF * x, level) - level
        return ((x + 0.5 * x * x) - over * over) / ops.maximum(*_branches(x, s))

    def of_sum(self, ops: Any, t: Any) -> Any:
        return ops.exp(t)

    def of_sum_slope(self, values: Array) -> Any:
        return values

    def diagonal_gradient(self, rows: Array) -> Array | None:
        xp, values = namespace(rows), self.diagonal(rows)
        rows = dense(rows)
        return 2 * self.of_sum_slope(values)[:, None] * self.slope(xp, rows, rows)

    def unit(self, rows: Array) -> tuple[float, Kernel]:
        return 1.0, self


def _branches(x: Any, s: Any) -> tuple[Any, Any]:
    """The formulas for a factor of the spline kernel that hold for s < x and for s > x.

    The valid one is the larger, by |x - s|^3 / 6.  Each formula is linear in x or in s, so a block of x and s takes one
    product and one sum.
    """
    below = (1.0 - s * s * s * (1 / 6)) + x * (s + 0.5 * s * s)
    above = (1.0 - x * x * x * (1 / 6)) + s * (x + 0.5 * x * x)
    return below, above


@dataclass(frozen=True, repr=False)
class Laplacian(Stationary):
    """exp(-gamma |x - y|_1), with the sum of absolute differences |x - y|_1."""

    name = "laplacian"
    metric = "manhattan"
    of_differences = True
    gamma_power = 1

    def distances(self, rows: Array, points: Array) -> Array | None:
        return manhattan(rows, points)

    def bind(self, points: Array) -> CrossGram:
        def cross_gram(rows: Array) -> Array:
            block = manhattan(rows, points)
            with np.errstate(over="ignore"):  # if this overflows, exp(-inf) is zero, as it should be
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
        # dk/ds = gamma sign(x - s) k.  Where x = s, the kernel has its maximum in this column: per unit of length, a
        # move to either side loses gamma k.
        pull = weights * cross_gram
        if rows is points:  # k(s, s) stays one when s moves, so a point has no kink at its own value
            pull = pull - namespace(pull).linalg.diagonal(pull) * identity_like(pull)
        above, ties = sides(dense(rows), points, pull)
        mass = namespace(pull).sum(pull, axis=0)[:, None]
        return self.gamma * (2 * above + ties - mass), self.gamma * ties

    def tangents(self, points: Array, gram: Array) -> Array | None:
        return 2 * self.gamma**2 * gram

    def forward(self, ops: Any, rows: Any, points: Any) -> Any:
        return ops.exp(-self.gamma * ops.absolute_distances(rows, points))


@direct_broadcasts()
def sides(rows: Array, points: Array, pull: Array) -> tuple[Array, Array]:
    """sum_n pull_nj over the rows above point j, and over the rows equal to it, for each column; both (m, d)."""
    xp = namespace(points)
    above, ties = xp.zeros_like(points), xp.zeros_like(points)
    if is_numpy(points):
        rows, pull = np.ascontiguousarray(rows.T), np.ascontiguousarray(pull.T)
        for part in row_ranges(points.shape[0], max(1, CACHED_VALUES // rows.size)):
            here, weights = points[part, :, None], pull[part, :, None]
            above[part] = ((rows > here).astype(pull.dtype) @ weights)[:, :, 0]
            level = rows == here
            if np.count_nonzero(level):  # almost never happens for points that have been moved
                ties[part] = (level.astype(pull.dtype) @ weights)[:, :, 0]
        return above, ties
    for j in range(points.shape[0]):
        above[j, :] = pull[:, j] @ xp.astype(rows > points[j, :], pull.dtype)
        ties[j, :] = pull[:, j] @ xp.astype(rows == points[j, :], pull.dtype)
    return above, ties
