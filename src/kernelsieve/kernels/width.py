"""The width of a kernel, its unit of distance, found on the rows by a rule.  The rules for gamma are:

"median"       1 / (2 median^2), with the median Euclidean distance of pairs of rows in a random sample;
               for a kernel with a distance of its own, the gamma whose width is the median of that distance
"0.3 median"   0.3 times that gamma, or any other multiple; for grids of widths
"scale"        1 / (d var(X)), as in scikit-learn's SVC
None           1 / d, as in scikit-learn's KernelPCA
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from ..arrays import (
    Array,
    as_float64,
    is_accelerated,
    is_numpy,
    like,
    namespace,
    origin_of,
    row_dot,
    to_numpy,
)
from ..errors import quoted
from ..numerics import ROUNDING
from ..threads import matmul
from .blocks import LARGEST_PARAMETER, check_size, columns_of, dense, inner_products

if TYPE_CHECKING:
    from .base import Kernel

# Largest coordinate of rows in units of their usual size.  float32 can represent its square, and sums of such squares.
FARTHEST_LIGHT = 1e15
MAX_DENSE = 2**25  # largest number of elements of sparse rows that are made dense if necessary
# The largest gamma that a rule may find, for rows of 4 and 8 bytes a number.  It may be larger than one that the user
# gives, because it brings the distances of these rows to order one.
LARGEST_FOUND = {4: 1e37, 8: 1e300}
MEDIAN_ROWS = 800  # with one half against the other these are 160,000 pairs, whose median is accurate to about 1 %


@dataclass(frozen=True)
class KernelRows:
    """The rows that a kernel is settled on, already sampled, with their weights and the names of their columns."""

    rows: Array
    weights: np.ndarray | None = None
    n_threads: int = 1
    names: tuple[str, ...] | None = None

    @property
    def n_columns(self) -> int:
        return int(self.rows.shape[1])

    def gamma(self, rule: float | str | None, kernel: Kernel) -> float:
        """The value of gamma that `rule` gives on these rows."""
        return resolve_gamma(rule, kernel, self.rows, self.weights, self.n_threads)

    def of_columns(self, columns: tuple[int, ...]) -> KernelRows:
        """These rows with only these columns."""
        names = None if self.names is None else tuple(self.names[column] for column in columns)
        return replace(self, rows=columns_of(self.rows, columns), names=names)

    def stretched(self, factors: tuple[float, ...]) -> KernelRows:
        """The rows with their columns multiplied by these factors."""
        if scipy.sparse.issparse(self.rows):
            return replace(self, rows=(self.rows @ scipy.sparse.diags_array(np.asarray(factors))).tocsr())
        return replace(self, rows=self.rows * like(np.asarray(factors), self.rows))

    def column_factors(self) -> tuple[float, ...]:
        """A factor for every column that makes the median of the nonzero differences between two rows one."""
        rows = as_float64(to_numpy(dense(self.rows)))
        left, right, weights = _pairs(rows, self.weights)
        found = []
        for j in range(self.n_columns):
            apart = np.abs(left[:, j, None] - right[:, j])
            median = _median_of(apart, apart > 0, weights)
            found.append(1.0 / median if median > 0 else 1.0)
        return tuple(found)


def column_numbers(columns: Any, n_columns: int, names: Sequence[Any] | None, who: str) -> tuple[int, ...]:
    """The numbers of columns that are given by number, by name or as a slice; error messages begin with `who`."""
    if isinstance(columns, slice):
        columns = tuple(range(n_columns))[columns]
        if not columns:
            raise ValueError(f"{who} takes an empty slice of the {n_columns} columns")
    return tuple(number for column in columns for number in _numbers_of(column, n_columns, names, who))


def _numbers_of(column: Any, n_columns: int, names: Sequence[Any] | None, who: str) -> list[int]:
    """The number of a column; for a name, all columns it names: "colour" includes "colour=red" and "colour=blue"."""
    if isinstance(column, Integral) and not isinstance(column, bool):
        if not -n_columns <= int(column) < n_columns:
            raise ValueError(f"{who} names column {column}, and the rows have {n_columns} columns")
        return [int(column) % n_columns]
    if names is None:
        raise ValueError(
            f"{who} names column {column!r}, and the rows have no names: give a frame, or numbers; in a pipeline, "
            'TableEncoder().set_output(transform="pandas")'
        )
    found = [number for number, name in enumerate(names) if name == column]
    found = found or [number for number, name in enumerate(names) if str(name).startswith(f"{column}=")]
    if not found:
        raise ValueError(f"{who} names column {column!r}, and the rows have {quoted(names)}")
    return found


def multiple_of_median(gamma: str) -> float | None:
    """The factor in a rule: 0.3 for "0.3 median", 1 for "median"; None for any other word."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)?\s*\*?\s*median\s*", gamma, re.IGNORECASE)
    if found is None:
        return None
    factor = float(found[1] or 1)
    return factor if 0 < factor < math.inf else None


def resolve_gamma(
    gamma: float | str | None,
    kernel: Kernel,
    rows: Array,
    weights: np.ndarray | None = None,
    n_threads: int = 1,
) -> float:
    """The value of gamma on these (already sampled) rows, if `gamma` is a rule; otherwise `gamma` itself, checked."""
    if gamma is None:
        return 1.0 / int(rows.shape[1])
    if not isinstance(gamma, str):
        check_size(float(gamma), LARGEST_PARAMETER, f"gamma={gamma:.3g}", rows, ", or 'median'")
        return float(gamma)
    if not kernel.uses_gamma:
        return 1.0
    factor = multiple_of_median(gamma)
    found = _scale_rule(rows) if factor is None else factor * _median_rule(rows, weights, kernel, n_threads)
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


def _median_rule(rows: Array, weights: np.ndarray | None, kernel: Any, n_threads: int) -> float:
    left, right, pair_weights = _pairs(rows, weights)
    own = kernel.distances(left, right) if hasattr(kernel, "distances") else None
    if own is not None:
        distances = to_numpy(own)
        median = _median_of(distances, distances > 0, pair_weights)
        return float(kernel.gamma_of(median)) if median > 0 else 1.0
    distances, apart, unit = squared_distances(left, right, n_threads)
    if right is left and is_numpy(apart):  # each pair once; after rounding, a row may have a distance from itself
        apart &= np.tri(len(apart), k=-1, dtype=bool)
    if is_accelerated(distances) and pair_weights is None:
        squared = _median_on_device(distances, apart) * unit**2
    else:
        squared = _median_of(to_numpy(distances), to_numpy(apart), pair_weights) * unit**2
    return 1.0 / (2.0 * squared) if squared > 0 else 1.0


def _pairs(rows: Array, weights: np.ndarray | None) -> tuple[Array, Array, np.ndarray | None]:
    """Two blocks of rows whose pairs are compared, and weights of the pairs.

    Few rows are compared with each other, many rows one half with the other half.
    """
    n = min(rows.shape[0], MEDIAN_ROWS)
    left, right = (slice(0, n), slice(0, n)) if n < MEDIAN_ROWS else (slice(0, n // 2), slice(n // 2, n))
    first = rows[left, :]
    second = first if left == right else rows[right, :]
    if weights is None or np.ptp(weights[:n]) == 0:
        return first, second, None
    return first, second, weights[left, None] * weights[right]


def squared_distances(left: Array, right: Array, n_threads: int = 1) -> tuple[Array, Array, float]:
    """|x_i - y_j|^2 / unit^2 for all pairs, whether each is above rounding, and the unit.

    Dense rows are shifted to an origin among them and divided by a unit that makes most of them of order one.  Both
    are done in float64, and the distances are computed in float32.  So no digits are lost if rows are far from zero, or
    of size 1e19 or 1e-23, nor if a single row is far from the others.  Sparse rows are neither shifted nor scaled; they
    are made dense only if their distances would otherwise be lost to rounding.
    """
    if scipy.sparse.issparse(left):
        left, right = as_float64(left), as_float64(right)
        block, lengths = _from_products(left, right)
        if left.shape[0] * left.shape[1] > MAX_DENSE or not _lost(block, row_dot(left, left)):
            return block, block > ROUNDING[4] * lengths, 1.0
        left, right = left.toarray(), right.toarray()
    alike = right is left
    left, right = as_float64(left), as_float64(right)
    origin = origin_of(left)
    left = left - origin
    unit = _usual_size(left)
    light = _light(left, unit)
    block, lengths = _from_products(light, light if alike else _light(right - origin, unit), n_threads)
    return block, block > ROUNDING[4] * lengths, unit


def _usual_size(rows: Array) -> float:
    """The median over rows of the largest |x_j| in a row; the largest of all rows if most rows are zero."""
    xp = namespace(rows)
    sizes = to_numpy(xp.maximum(xp.max(rows, axis=1), -xp.min(rows, axis=1)))
    return float(np.median(sizes)) or float(sizes.max()) or 1.0


def _light(rows: Array, unit: float) -> Array:
    """The rows divided by `unit`, in float32, with coordinates clipped to +-FARTHEST_LIGHT; overwrites the rows."""
    xp = namespace(rows)
    rows /= unit
    if max(float(xp.max(rows)), -float(xp.min(rows))) > FARTHEST_LIGHT:
        rows = xp.clip(rows, -FARTHEST_LIGHT, FARTHEST_LIGHT)
    return xp.astype(rows, xp.float32)


def _from_products(left: Array, right: Array, n_threads: int = 1) -> tuple[Array, Array]:
    """|x - y|^2 = |x|^2 + |y|^2 - 2 x'y, and |x|^2 + |y|^2, which determines its rounding error."""
    own = row_dot(left, left)
    lengths = own[:, None] + (own if right is left else row_dot(right, right))
    block = matmul(left, right.T, n_threads) if is_numpy(left) else inner_products(left, right.T)
    block *= -2.0
    block += lengths
    return block, lengths


def _lost(distances: np.ndarray, lengths: np.ndarray) -> bool:
    """Whether most squared distances are rounding errors, because they are differences of much larger lengths."""
    return bool(np.median(distances) < ROUNDING[4] * np.median(lengths))


def _median_on_device(distances: Array, apart: Array) -> float:
    """The median of distances, computed by sorting on the device; those between equal rows are moved to the end."""
    xp = namespace(distances)
    count = int(xp.sum(xp.astype(apart, xp.int64)))
    ordered = xp.sort(xp.reshape(xp.where(apart, distances, xp.full_like(distances, xp.inf)), (-1,)))
    return float((ordered[(count - 1) // 2] + ordered[count // 2]) / 2) if count else 0.0


def _median_of(distances: np.ndarray, apart: np.ndarray, pair_weights: np.ndarray | None) -> float:
    """The (weighted) median over pairs of different rows: the distance between copies of a row does not count."""
    weights = None if pair_weights is None else pair_weights[apart]
    distances = distances[apart]
    if not distances.size:
        return 0.0
    if weights is None:  # this is faster than np.median, which also checks for NaN
        middle, odd = divmod(distances.size, 2)
        distances = np.partition(distances, middle)
        return float(distances[middle] if odd else (distances[:middle].max() + distances[middle]) / 2)
    order = np.argsort(distances)
    cumulative = np.cumsum(weights[order])
    return float(distances[order][np.searchsorted(cumulative, cumulative[-1] / 2)])
