"""Kernels of distances, with what keeps them true far from the origin: k(x, y) from |x - y|.

Their width, the unit in which they count distances, is read off the rows by one of three rules:

"median"   1 / (2 median^2) over the pairs of a random sample of rows, median Euclidean distance;
           for the Laplacian kernel, whose distance is the sum of absolute differences, 1 / median
"scale"    1 / (d var(X)), as scikit-learn's SVC
None       1 / d, as scikit-learn's KernelPCA
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from scipy.spatial.distance import cdist
from sklearn.utils.sparsefuncs import mean_variance_axis

from ..arrays import (
    Array,
    as_float64,
    at_most_zero,
    exp_in_place,
    inner,
    is_accelerated,
    is_foreign,
    is_numpy,
    itemsize,
    namespace,
    origin_of,
    row_dot,
    to_numpy,
)
from ..threads import matmul
from .base import (
    LARGEST_PARAMETER,
    CrossGram,
    FixedRows,
    Kernel,
    check_size,
    constant_diagonal,
    dense,
    inner_products,
    kernel_type,
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
# Distances are taken in float32: below this share of |x|^2 + |y|^2 they are rounding, of a row and its copies.
SAME_ROW = 1e-6
FARTHEST_LIGHT = 1e15  # the largest number in the rows' own unit: float32 holds its square, and sums of them
MAX_DENSE = 2**25  # elements of sparse rows that are made dense where it must be
# By the bytes of a number: the largest width read off the rows, whose distances it brings to order one.
LARGEST_FOUND = {4: 1e37, 8: 1e300}
MEDIAN_ROWS = 800  # 160,000 pairs: the median is known to about a percent


@dataclass(frozen=True)
class DistanceKernel(Kernel):
    """exp(-gamma distance(x, y)): one at its top, k(x, x), and zero far away."""

    gamma: float
    differentiable = True
    stationary = True
    bounded = True
    uses_gamma = True

    def diagonal(self, rows: Array) -> Array:
        return constant_diagonal(rows, 1.0)


@dataclass(frozen=True)
class RBF(DistanceKernel):
    """exp(-gamma |x - y|^2)."""

    name = "rbf"
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


def manhattan(rows: Array, points: Array) -> Array:
    """sum_j |x_j - y_j| for all pairs of rows and points."""
    if scipy.sparse.issparse(rows) or scipy.sparse.issparse(points) or is_numpy(rows):
        from sklearn.metrics.pairwise import manhattan_distances

        if scipy.sparse.issparse(points) and not scipy.sparse.issparse(rows):
            points = points.toarray()
        return manhattan_distances(rows, points).astype(rows.dtype, copy=False)
    xp = namespace(rows)
    return xp.stack([xp.sum(xp.abs(rows - points[j, :]), axis=1) for j in range(points.shape[0])], axis=1)


def resolve_gamma(
    gamma: float | str | None,
    kernel: type[Kernel] | str,
    rows: Array,
    weights: np.ndarray | None = None,
    n_threads: int = 1,
) -> float:
    """The number that `gamma` stands for on these (already sampled) rows."""
    if gamma is None:
        return 1.0 / int(rows.shape[1])
    if not isinstance(gamma, str):
        check_size(float(gamma), LARGEST_PARAMETER, f"gamma={gamma:.3g}", rows, ", or 'median'")
        return float(gamma)
    kind = kernel_type(kernel) if isinstance(kernel, str) else kernel
    if not kind.uses_gamma:
        return 1.0
    found = _median_rule(rows, weights, kind.metric, n_threads) if gamma == "median" else _scale_rule(rows)
    check_size(found, LARGEST_FOUND, f"gamma={gamma!r}, which is {found:.3g} here,", rows)
    return found


def _scale_rule(rows: Array) -> float:
    rows = as_float64(rows)
    if scipy.sparse.issparse(rows):
        mean, variance = mean_variance_axis(rows.tocsr(), axis=0)
        total = float(variance.mean() + mean.var())
    else:
        total = float(namespace(rows).var(rows))
    return 1.0 / (rows.shape[1] * total) if total > 0 else 1.0


def _median_rule(rows: Array, weights: np.ndarray | None, metric: str, n_threads: int) -> float:
    left, right, pair_weights = _pairs(rows, weights)
    if metric == "manhattan":
        distances = to_numpy(manhattan(left, right))
        median = _median_of(distances, distances > 0, pair_weights)
        return 1.0 / median if median > 0 else 1.0
    distances, apart, unit = squared_distances(left, right, n_threads)
    if right is left and is_numpy(apart):  # sums over very many columns leave a row a little apart from itself
        np.fill_diagonal(apart, False)
    if is_accelerated(distances) and pair_weights is None:
        squared = _median_on_device(distances, apart) * unit**2
    else:
        squared = _median_of(to_numpy(distances), to_numpy(apart), pair_weights) * unit**2
    return 1.0 / (2.0 * squared) if squared > 0 else 1.0


def _pairs(rows: Array, weights: np.ndarray | None) -> tuple[Array, Array, np.ndarray | None]:
    """All pairs of few rows, or one half of the rows against the other half."""
    n = min(rows.shape[0], MEDIAN_ROWS)
    left, right = (slice(0, n), slice(0, n)) if n < MEDIAN_ROWS else (slice(0, n // 2), slice(n // 2, n))
    first = rows[left, :]
    second = first if left == right else rows[right, :]
    if weights is None or np.ptp(weights[:n]) == 0:
        return first, second, None
    return first, second, weights[left, None] * weights[right]


def squared_distances(left: Array, right: Array, n_threads: int = 1) -> tuple[Array, Array, float]:
    """|x_i - y_j|^2 for all pairs, whether each is more than rounding, and the unit that x and y are counted in.

    In float32, but seen from among them and in a unit in which most are of order one: both are taken in float64, where
    rows far from the origin, of 1e19 or of 1e-23 lose nothing, and neither do most rows beside one that is far out.
    Sparse rows stay where they are, and are made dense where their distances would be lost beside their lengths.
    """
    if scipy.sparse.issparse(left):
        left, right = as_float64(left), as_float64(right)
        block, lengths = _from_products(left, right)
        if left.shape[0] * left.shape[1] > MAX_DENSE or not _lost(block, row_dot(left, left)):
            return block, block > SAME_ROW * lengths, 1.0
        left, right = left.toarray(), right.toarray()
    alike = right is left
    left, right = as_float64(left), as_float64(right)
    origin = origin_of(left)
    left = left - origin
    unit = _usual_size(left)
    light = _light(left, unit)
    block, lengths = _from_products(light, light if alike else _light(right - origin, unit), n_threads)
    return block, block > SAME_ROW * lengths, unit


def _usual_size(rows: Array) -> float:
    """The median over rows of the largest |x_j|; the largest of all where most rows are zero."""
    xp = namespace(rows)
    sizes = to_numpy(xp.maximum(xp.max(rows, axis=1), -xp.min(rows, axis=1)))
    return float(np.median(sizes)) or float(sizes.max()) or 1.0


def _light(rows: Array, unit: float) -> Array:
    """The rows, which are overwritten, in this unit and in float32; those too far out for it are far out still."""
    if is_numpy(rows):  # in one sweep, and another one over half as many bytes
        with np.errstate(over="ignore"):
            light = np.divide(rows, unit, out=np.empty(rows.shape, dtype=np.float32), casting="same_kind")
        if not np.vdot(light, light) < FARTHEST_LIGHT**2:
            np.clip(light, -FARTHEST_LIGHT, FARTHEST_LIGHT, out=light)
        return light
    xp = namespace(rows)
    rows /= unit
    if max(float(xp.max(rows)), -float(xp.min(rows))) > FARTHEST_LIGHT:
        rows = xp.clip(rows, -FARTHEST_LIGHT, FARTHEST_LIGHT)
    return xp.astype(rows, xp.float32)


def _from_products(left: Array, right: Array, n_threads: int = 1) -> tuple[Array, Array]:
    """|x - y|^2 = |x|^2 + |y|^2 - 2 x'y, and |x|^2 + |y|^2, by whose rounding it is wrong."""
    own = row_dot(left, left)
    lengths = own[:, None] + (own if right is left else row_dot(right, right))
    block = matmul(left, right.T, n_threads) if is_numpy(left) else inner_products(left, right.T)
    block *= -2.0
    block += lengths
    return block, lengths


def _lost(distances: np.ndarray, lengths: np.ndarray) -> bool:
    """Whether the usual squared distance is rounding beside the squared lengths that it is the difference of."""
    return bool(np.median(distances) < SAME_ROW * np.median(lengths))


def _median_on_device(distances: Array, apart: Array) -> float:
    """The same where a device sorts sooner than the host looks through: what is not apart comes last."""
    xp = namespace(distances)
    count = int(xp.sum(xp.astype(apart, xp.int64)))
    ordered = xp.sort(xp.reshape(xp.where(apart, distances, xp.full_like(distances, xp.inf)), (-1,)))
    return float((ordered[(count - 1) // 2] + ordered[count // 2]) / 2) if count else 0.0


def _median_of(distances: np.ndarray, apart: np.ndarray, pair_weights: np.ndarray | None) -> float:
    """The (weighted) median over pairs of rows that are apart: a row and its copies are not a distance."""
    weights = None if pair_weights is None else pair_weights[apart]
    distances = distances[apart]
    if not distances.size:
        return 0.0
    if weights is None:  # np.median, which would look for what is not there, too: NaN
        middle, odd = divmod(distances.size, 2)
        distances = np.partition(distances, middle)
        return float(distances[middle] if odd else (distances[:middle].max() + distances[middle]) / 2)
    order = np.argsort(distances)
    cumulative = np.cumsum(weights[order])
    return float(distances[order][np.searchsorted(cumulative, cumulative[-1] / 2)])
