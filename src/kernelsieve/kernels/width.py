"""The width of a kernel, the unit in which it counts distances, read off the rows by one of three rules.

"median"   1 / (2 median^2) over the pairs of a random sample of rows, median Euclidean distance;
           for the Laplacian kernel, whose distance is the sum of absolute differences, 1 / median
"scale"    1 / (d var(X)), as scikit-learn's SVC
None       1 / d, as scikit-learn's KernelPCA
"""

from __future__ import annotations

import numpy as np
import scipy.sparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from ..arrays import Array, as_float64, is_accelerated, is_numpy, namespace, origin_of, row_dot, to_numpy
from ..threads import matmul
from .base import LARGEST_PARAMETER, Kernel, check_size, inner_products
from .laplacian import manhattan
from .registry import kernel_type

# Distances are taken in float32: below this share of |x|^2 + |y|^2 they are rounding, of a row and its copies.
SAME_ROW = 1e-6
FARTHEST_LIGHT = 1e15  # the largest number in the rows' own unit: float32 holds its square, and sums of them
MAX_DENSE = 2**25  # elements of sparse rows that are made dense where it must be
# By the bytes of a number: the largest width read off the rows, whose distances it brings to order one.
LARGEST_FOUND = {4: 1e37, 8: 1e300}
MEDIAN_ROWS = 800  # 160,000 pairs: the median is known to about a percent


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
