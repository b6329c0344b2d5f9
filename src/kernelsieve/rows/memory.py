"""Training rows: what a fit asks of them, and its answer for rows in one array.

    sample(size, rng)        random rows, to choose points and settle the kernel by
    take(numbers)            these rows
    add_up(summand)          a sum over all rows, one pass (the moments over some points are one)
    each(function)           one number a row, one pass

and so the same fit runs on rows in memory (numpy's, a memmap, scipy.sparse, any namespace's on its device) and on rows
that are not.

Three ways to speak of a sampled row are kept apart: its *place* in the sample (0 .. n-1), its *index* in the array X
that the sample was drawn from, and its *number* among all training rows, which is the index where X is all of them.

Kernels square the rows' differences, and moments and solvers multiply variances with each other.  Where rows enter,
and nowhere else, their size is looked at:

    |x|              <= 1e60 (float32: 1e15)     so that |x|^2, and products of two variances, are finite
    largest spread   >= 1e-60 (float32: 1e-15)   of a column, so that they are not lost below the smallest number

Rows beyond are refused by the name of their column: they are in some other unit than anybody counts in.  All rows
between give the answer that they give in other units.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Protocol, Self

import numpy as np
import scipy.sparse
from sklearn.utils import assert_all_finite

from ..arrays import FLOATS, Array, is_numpy, itemsize, namespace, take_rows, to_numpy
from ..kernels.base import dense
from ..threads import cached_property, row_ranges
from .blocks import map_row_blocks

FAR_FROM_ONE = 1e6
LARGEST = {4: 1e15, 8: 1e60}  # by the bytes of a number
SMALLEST = {4: 1e-15, 8: 1e-60}
NEARLY_ALL = 0.99  # of the square of a limit: sums of squares that are less, rounded, have none beyond it


class ScaleError(ValueError):
    """Columns whose numbers are too large or too small to be squared."""

    def __init__(self, column: int, problem: str) -> None:
        self.column = column
        self.problem = problem
        super().__init__(f"column {column} of X {problem}")

    def named(self, names: Any) -> ScaleError:
        """The same, with the column's name where there is one."""
        if names is None or self.column >= len(names):
            return self
        named = ScaleError(self.column, self.problem)
        named.args = (f"column {str(names[self.column])!r} {self.problem}",)
        return named


def finite(block: Array) -> Array:
    """The block itself, after making sure that its numbers are finite and can be squared.

    Done on blocks that are about to be used, this costs a read from the cache, not from memory.
    """
    values = block.data if scipy.sparse.issparse(block) else block
    if 0 in values.shape or within(values, LARGEST[itemsize(values)]):
        return block
    assert_all_finite(to_numpy(values), input_name="X")
    column = _largest_column(block)
    largest = float(np.abs(to_numpy(values)).max())
    wider = " or give float64" if itemsize(values) == 4 else ""
    raise ScaleError(column, f"reaches {largest:.3g}, whose square is too large to compute with: scale it{wider}")


def finite_rows(block: Array, start: int) -> Array:
    """`finite`, of rows number `start` and on, which an error names."""
    try:
        return finite(block)
    except ValueError as error:
        raise ValueError(f"rows {start} to {start + block.shape[0] - 1}: {error}") from error


def within(values: Array, limit: float) -> bool:
    """Whether all are from -limit to limit; not where one is NaN."""
    if is_numpy(values):
        # the sum of all squares, of numbers that BLAS knows: of others it would be rounded to their few bits
        if values.flags.c_contiguous and values.dtype in FLOATS and np.vdot(values, values) < NEARLY_ALL * limit**2:
            return True
        return float(values.max()) <= limit and float(values.min()) >= -limit
    return bool(namespace(values).max(namespace(values).abs(values)) <= limit)


def unit_of(rows: Array) -> float:
    """A power of two in which the numbers are of order one; 1 where they are not far from it anyway."""
    values = rows.data if scipy.sparse.issparse(rows) else rows
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    return (
        1.0 if largest < SMALLEST[8] or 1 / FAR_FROM_ONE < largest < FAR_FROM_ONE else 2.0 ** round(math.log2(largest))
    )


def unit_of_variances(largest: float) -> float:
    """`unit_of` rows whose largest variance this is: in its square, variances are of order one, and exact."""
    if largest == 0 or FAR_FROM_ONE**-2 < largest < FAR_FROM_ONE**2:
        return 1.0
    return 2.0 ** round(math.log2(largest) / 2)


def checked_weights(weights: np.ndarray) -> np.ndarray:
    """The weights themselves, after making sure that they, too, can be summed up and squared."""
    largest = float(weights.max(initial=0.0))
    if largest > LARGEST[8] or 0 < largest < SMALLEST[8]:
        raise ValueError(
            f"the largest sample_weight is {largest:.3g}, too {'large' if largest > 1 else 'small'} to compute with: "
            "only their ratios and their sum count, so scale them"
        )
    return weights


def _largest_column(block: Array) -> int:
    if scipy.sparse.issparse(block):
        entries = block.tocoo()
        return int(entries.col[np.argmax(np.abs(entries.data))])
    return int(np.argmax(np.abs(to_numpy(block)).max(axis=0)))


def check_spread(rows: Array) -> None:
    """Refuse rows that differ, but by so little that the squares of their differences vanish."""
    if 0 in rows.shape:
        return
    if scipy.sparse.issparse(rows):
        rows = rows.tocsc()
        spread = (rows.max(axis=0) - rows.min(axis=0)).toarray().ravel()
    else:
        xp = namespace(rows)
        spread = to_numpy(xp.max(rows, axis=0) - xp.min(rows, axis=0))
    what = "varies by"
    if not spread.any():  # all rows are one: its own length is what kernels see
        what = "is away from zero by"
        spread = np.abs(to_numpy(dense(rows[:1, :])).ravel())
    column = int(np.argmax(spread))
    largest = float(spread[column])
    if 0 < largest < SMALLEST[itemsize(rows)]:
        wider = " or give float64" if itemsize(rows) == 4 else ""
        raise ScaleError(
            column,
            f"{what} {largest:.3g} and no other by more, whose square is too small to compute with: scale "
            f"the columns{wider}",
        )


VALUES_AT_ONCE = 2**20  # that are looked at together: they stay in the cache
ROWS_IN_TURN = 1000  # handed over at a time to methods that look at one row after another
LONG_ROW = 4096  # bytes of a row beyond which a digest stands for them
# Rows so few that their gram costs less than to read them again and again, of so many columns.
FEW, WIDE, COLUMNS_PER_ROW = 1000, 4096, 8


@dataclass(frozen=True)
class SampledRows:
    """Rows of X before a kernel is known, in random order, and their weights."""

    X: Array
    indices: np.ndarray  # (n,)
    weights: np.ndarray | None  # (n,), None where all rows weigh the same
    whole: bool  # the sample is all there is
    numbers: np.ndarray | None = None  # (len(X),) of X's rows among all training rows, where X is not all of them
    same_weight: float = 1.0  # of each row, where all weigh the same
    turned: np.ndarray | None = None  # X in fewer columns, and of the same distances

    def at(self, places: np.ndarray) -> SampledRows:
        """The same rows in another order, or some of them."""
        weights = None if self.weights is None else self.weights[places]
        return replace(self, indices=self.indices[places], weights=weights)

    def numbers_of(self, indices: np.ndarray) -> np.ndarray:
        """The numbers, among all training rows, of the rows at these indices of X."""
        return indices if self.numbers is None else self.numbers[indices]

    @property
    def counts(self) -> np.ndarray | None:
        """How often each row counts, None where each does once."""
        if self.weights is None and self.same_weight != 1:
            return np.full(len(self.indices), self.same_weight)
        return self.weights

    def first(self, n_rows: int) -> Array:
        """The first so many rows."""
        return self.values if n_rows >= len(self.indices) else take_rows(self.X, self.indices[:n_rows])

    @cached_property
    def values(self) -> Array:
        """All rows, (n, d)."""
        return take_rows(self.X, self.indices)


def sample_rows(
    X: Array, size: int, rng: np.random.Generator, weights: np.ndarray | None, *, merge: bool
) -> SampledRows:
    """`size` random rows of X, in random order; all of them, copies merged, when X has no more.

    Merging copies (their weights added, the rows in an order of their own) makes the result the same
    whether a row is repeated or weighted, and whatever order the rows come in.
    """
    chosen = chosen_rows(X.shape[0], size, rng, weights)
    if chosen is not None:
        return weighed(X, chosen, None if weights is None else weights[chosen], whole=False)
    candidates = np.arange(X.shape[0]) if weights is None else np.flatnonzero(weights > 0)
    if not merge:
        indices = candidates[rng.permutation(len(candidates))]
        return weighed(X, indices, None if weights is None else weights[indices], whole=True)
    distinct, mass = _merge_copies(X, candidates, weights)
    order = rng.permutation(len(distinct))
    return weighed(X, distinct[order], mass[order], whole=True)


def chosen_rows(n_samples: int, size: int, rng: np.random.Generator, weights: np.ndarray | None) -> np.ndarray | None:
    """`size` random row numbers among rows of positive weight, or None where there are no more than that."""
    if weights is None:
        return rng.choice(n_samples, size, replace=False) if n_samples > size else None
    candidates = np.flatnonzero(weights > 0)
    return candidates[rng.choice(len(candidates), size, replace=False)] if len(candidates) > size else None


def weighed(
    X: Array, indices: np.ndarray, weights: np.ndarray | None, *, whole: bool, numbers: np.ndarray | None = None
) -> SampledRows:
    """Rows of X with a weight each; weights that are all the same are one number."""
    if weights is None or np.ptp(weights) == 0:
        return SampledRows(X, indices, None, whole, numbers, 1.0 if weights is None else float(weights[0]))
    return SampledRows(X, indices, weights, whole, numbers)


def shares_of(weights: np.ndarray | None, n_rows: int) -> np.ndarray:
    """omega, what share each row has of the weight of all: (n_rows,), sum 1."""
    return np.full(n_rows, 1.0 / n_rows) if weights is None else weights / weights.sum()


def _merge_copies(X: Array, candidates: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """A row number and the summed weight for each distinct row, in an order that the order of X does not change."""
    first: dict[bytes, tuple[int, float]] = {}
    mass: dict[bytes, float] = {}
    for part in row_ranges(len(candidates), max(1, VALUES_AT_ONCE // X.shape[1])):
        rows = take_rows(X, candidates[part])
        for i, key, projection in zip(candidates[part], row_bytes(rows), row_projections(rows), strict=True):
            first.setdefault(key, (i, projection))
            mass[key] = mass.get(key, 0.0) + (1.0 if weights is None else float(weights[i]))
    keys = sorted(first)
    distinct, masses = np.array([first[key][0] for key in keys], dtype=np.intp), np.array([mass[key] for key in keys])
    order = np.argsort([first[key][1] for key in keys], kind="stable")
    return distinct[order], masses[order]


def projection_of_columns(n_features: int) -> np.ndarray:
    """The random direction that rows are told apart by, the same for all."""
    return np.random.default_rng(0).standard_normal(n_features)


def row_projections(rows: Array) -> np.ndarray:
    """A number for each row that orders rows alike, be they dense or sparse, in float32 or in float64."""
    direction = projection_of_columns(rows.shape[1])
    if scipy.sparse.issparse(rows):
        return np.asarray(rows.astype(np.float64) @ direction)
    return np.einsum("ij,j->i", to_numpy(rows), direction, dtype=np.float64)


def row_bytes(rows: Array) -> Iterator[bytes]:
    """The bytes of each row, or a digest of many, the same for equal rows and only for those."""
    if not scipy.sparse.issparse(rows):
        values = to_numpy(finite(rows)) + 0.0  # -0.0 is 0.0
        long = values.shape[1] * values.itemsize > LONG_ROW
        yield from ((blake2b(row).digest() if long else row.tobytes()) for row in np.ascontiguousarray(values))
        return
    canonical = rows.tocsr(copy=True)
    canonical.sum_duplicates()
    canonical.eliminate_zeros()
    for start, stop in pairwise(canonical.indptr):
        entries = slice(start, stop)
        yield canonical.indices[entries].astype(np.int64).tobytes() + b"|" + canonical.data[entries].tobytes()


class Summand(Protocol):
    """What is added up over the rows; its results add with `+`."""

    @property
    def width(self) -> int:
        """Kernel values and features a row, which the size of blocks is measured by."""

    def over(self, X: Array, weights: np.ndarray | None, n_threads: int) -> Any:
        """The sum over the rows of an array, by threads on the host or on the device it is on."""

    def over_blocks(self, blocks: Iterable[tuple[int, Array]], weights: np.ndarray | None) -> Any:
        """The sum over blocks that are on a device, each with the number of its first row."""


class Rows(ABC):
    """All training rows."""

    n_samples: int
    n_features: int
    weights: np.ndarray | None  # (n_samples,)
    single_precision: bool  # float32 rows
    names: tuple[str, ...] | None = None  # of the columns, where the rows bring them
    merge_copies = True  # whether equal rows of a whole sample become one row of their summed weight

    @property
    def length_known(self) -> bool:
        """Whether `n_samples` is known without a pass over the rows."""
        return True

    def sample(self, size: int, rng: np.random.Generator) -> SampledRows:
        """`size` random rows; all of them, copies merged unless `merge_copies` is off, when there are no more.

        Rows of known number are chosen as rows in memory are, so that the sample is the same wherever they lie.
        """
        numbers = chosen_rows(self.n_samples, size, rng, self.weights)
        if numbers is None:
            everything = self.take(np.arange(self.n_samples))
            return sample_rows(everything, size, rng, self.weights, merge=self.merge_copies)
        weights = None if self.weights is None else self.weights[numbers]
        return weighed(self.take(numbers), np.arange(size), weights, whole=False, numbers=numbers)

    @abstractmethod
    def take(self, numbers: np.ndarray) -> Array:
        """The rows of these numbers; for a precomputed kernel, all their values."""

    @abstractmethod
    def add_up(self, summand: Summand, n_threads: int) -> Any:
        """The summand's sum over all rows: one pass."""

    @abstractmethod
    def each(self, function: Callable[[Array], Array], n_columns: int, n_threads: int) -> np.ndarray:
        """function(rows), one number a row, for all rows: one pass; blocks are sized for `n_columns` kernel values."""

    def blocks(self) -> Iterator[tuple[int, Array]]:
        """All rows in their order: the number of the first row of each block, and the block."""
        for part in row_ranges(self.n_samples, ROWS_IN_TURN):
            yield part.start, self.take(np.arange(part.start, part.stop))

    def weighted(self, weights: np.ndarray) -> Self:
        """The same rows with these weights."""
        other = copy(self)
        other.weights = weights
        return other


class ArrayRows(Rows):
    """Training rows in one array."""

    def __init__(self, X: Array, weights: np.ndarray | None = None, *, merge_copies: bool = True) -> None:
        self.X = X
        self.n_samples, self.n_features = X.shape
        self.weights = weights
        self.single_precision = "32" in str(X.dtype)
        self.merge_copies = merge_copies

    @property
    def wide(self) -> bool:
        """Whether these are few rows of very many columns, which are best looked at in the space that they span.

        Rows in float32 are not: their scores are rounded by their own length, and so is what is told of them.
        """
        n, d = self.X.shape
        return n <= FEW and d >= max(WIDE, COLUMNS_PER_ROW * n) and is_numpy(self.X) and self.X.dtype == np.float64

    def sample(self, size: int, rng: np.random.Generator) -> SampledRows:
        return sample_rows(self.X, size, rng, self.weights, merge=self.merge_copies)

    def take(self, numbers: np.ndarray) -> Array:
        return take_rows(self.X, numbers)

    def blocks(self) -> Iterator[tuple[int, Array]]:
        return ((part.start, self.X[part, :]) for part in row_ranges(self.n_samples, ROWS_IN_TURN))

    def add_up(self, summand: Summand, n_threads: int) -> Any:
        return summand.over(self.X, self.weights, n_threads)

    def each(self, function: Callable[[Array], Array], n_columns: int, n_threads: int) -> np.ndarray:
        blocks = map_row_blocks(lambda rows: to_numpy(function(finite(self.X[rows, :]))), self.X, n_columns, n_threads)
        return np.concatenate(list(blocks))
