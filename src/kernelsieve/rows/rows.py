"""Training rows: the methods that a fit calls, and their implementation for rows in one array.

    sample(size, rng)        random rows, from which points and the kernel's width are chosen
    take(numbers)            the rows with these numbers
    add_up(summand)          a sum over all rows, such as the moments over some points: one pass
    each(function)           one number for every row: one pass

A fit uses rows only through these methods.  So the same code fits rows in memory (numpy, a memmap, scipy.sparse, any
array library on its device), in files, in streams and on a cluster.

A pass works on blocks.  On the host a block fits in the cache, and threads share the blocks
(`threads.map_row_groups`).  On a device blocks are as large as memory allows: if it runs out, the pass is repeated with
blocks of half the size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from ..arrays import Array, is_foreign, is_numpy, itemsize, take_rows, to_numpy
from ..threads import map_row_groups, row_ranges
from .checks import FiniteCheck, finite
from .sampling import SampledRows, chosen_rows, sample_rows, weighed

Result = TypeVar("Result")

ROWS_IN_TURN = 1000  # number of rows in a block of `Rows.blocks`, for methods that process one row after another
# Size of a block on a device: work on it takes much longer than a kernel launch, and a small GPU can hold a few blocks.
DEVICE_BLOCK_BYTES = 2**30
BLOCK_HALVINGS = 6  # how often the size of blocks on a device is halved, if memory runs out


class Summand(Protocol):
    """A quantity that is summed over rows; partial sums are added with `+`."""

    @property
    def width(self) -> int:
        """How many numbers are computed for each row (kernel values and features); it determines the size of blocks."""

    def over(self, X: Array, weights: np.ndarray | None, n_threads: int) -> Any:
        """The sum over the rows of an array, computed by threads on the host, or on the array's device."""

    def over_blocks(
        self,
        blocks: Iterable[tuple[int, Array]],
        weights: np.ndarray | None,
        n_threads: int = 1,
        check: FiniteCheck | None = None,
    ) -> Any:
        """The sum over blocks, each given with the number of its first row; `check` is called on every block."""


class Rows(ABC):
    """All training rows of a fit, wherever they are stored."""

    n_samples: int
    n_features: int
    weights: np.ndarray | None  # (n_samples,)
    single_precision: bool  # whether the rows are float32
    names: tuple[str, ...] | None = None  # of the columns, if they have any
    in_memory = False  # True if a pass neither runs the user's code nor starts a thread of its own
    merge_copies = True  # whether `sample`, if it takes all rows, replaces equal rows by one with their summed weight

    @property
    def length_known(self) -> bool:
        """Whether `n_samples` is known without a pass over the rows."""
        return True

    def sample(self, size: int, rng: np.random.Generator) -> SampledRows:
        """`size` random rows; if there are no more than that, all rows, with copies merged if `merge_copies` is set.

        If the number of rows is known, row numbers are drawn as for rows in memory, so the sample is the same wherever
        the rows are.
        """
        numbers = chosen_rows(self.n_samples, size, rng, self.weights)
        if numbers is None:
            everything = self.take(np.arange(self.n_samples))
            return sample_rows(everything, size, rng, self.weights, merge=self.merge_copies)
        weights = None if self.weights is None else self.weights[numbers]
        return weighed(self.take(numbers), np.arange(size), weights, whole=False, numbers=numbers)

    @abstractmethod
    def take(self, numbers: np.ndarray) -> Array:
        """The rows with these numbers; for a precomputed kernel, whole rows of the gram."""

    @abstractmethod
    def add_up(self, summand: Summand, n_threads: int) -> Any:
        """The summand's sum over all rows: one pass."""

    @abstractmethod
    def each(self, function: Callable[[Array], Array], n_columns: int, n_threads: int) -> np.ndarray:
        """function(rows), one number a row, for all rows: one pass, in blocks for `n_columns` kernel values a row."""

    def blocks(self) -> Iterator[tuple[int, Array]]:
        """All rows in order, as pairs: the number of a block's first row, and the block."""
        for part in row_ranges(self.n_samples, ROWS_IN_TURN):
            yield part.start, self.take(np.arange(part.start, part.stop))

    def weighted(self, weights: np.ndarray) -> Self:
        """These rows with other weights."""
        other = copy(self)
        other.weights = weights
        return other


class ArrayRows(Rows):
    """Training rows in one array."""

    in_memory = True

    def __init__(self, X: Array, weights: np.ndarray | None = None, *, merge_copies: bool = True) -> None:
        self.X = X
        self.n_samples, self.n_features = X.shape
        self.weights = weights
        self.single_precision = "32" in str(X.dtype)
        self.merge_copies = merge_copies and X.dtype != object

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


def map_row_blocks(function: Callable[[slice], Result], X: Array, n_columns: int, n_threads: int) -> Iterator[Result]:
    """function(range) for every block of rows of X, in order, by `n_threads` threads or on the device that holds X."""
    if not is_numpy(X) and hasattr(X, "device") and str(X.device) != "cpu":
        yield from with_smaller_blocks(
            lambda halvings: [function(r) for r in device_blocks(X.shape[0], n_columns, itemsize(X), halvings)]
        )
        return
    for results in map_row_groups(lambda ranges: [function(r) for r in ranges], X, n_columns, n_threads):
        yield from results


def in_one_array(
    function: Callable[[slice], Any], X: Array, width: int, n_columns: int, n_threads: int, dtype: Any = np.float64
) -> np.ndarray:
    """The results of `map_row_blocks`, arrays with `width` columns, one below the other."""
    out = np.empty((X.shape[0], width), dtype=dtype)

    def fill(rows: slice) -> None:
        out[rows] = function(rows)

    for _ in map_row_blocks(fill, X, n_columns, n_threads):
        pass
    return out


def device_blocks(n_rows: int, n_columns: int, itemsize: int, halvings: int = 0) -> list[slice]:
    """Consecutive ranges of rows, each as long as `rows_on_device` says."""
    return row_ranges(n_rows, rows_on_device(n_columns, itemsize, halvings))


def rows_on_device(n_columns: int, itemsize: int, halvings: int = 0) -> int:
    """Number of rows in a block on a device, if each row has `n_columns` kernel values."""
    return max(1, DEVICE_BLOCK_BYTES // max(1, n_columns * itemsize) >> halvings)


def cut_for_device(
    blocks: Iterable[tuple[int, Array]], n_columns: int, halvings: int = 0
) -> Iterator[tuple[int, Array]]:
    """Cut blocks on a device into parts of `rows_on_device` rows; yield blocks on the host unchanged."""
    for start, block in blocks:
        if not is_foreign(block):
            yield start, block
            continue
        for rows in device_blocks(block.shape[0], n_columns, itemsize(block), halvings):
            yield start + rows.start, block[rows, :]


def with_smaller_blocks(attempt: Callable[[int], Result]) -> Result:
    """attempt(halvings), called again with blocks of half the size as long as the device runs out of memory."""
    for halvings in range(BLOCK_HALVINGS + 1):
        try:
            return attempt(halvings)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            _free_memory(error)
    raise MemoryError(
        "the device is out of memory even for small blocks of rows: free some, give fewer support points, or fit on "
        "the host (device=None)"
    )


def is_out_of_memory(error: Exception) -> bool:
    """Whether this is the error that torch or cupy raises if the memory of a device is full."""
    return type(error).__name__ in ("OutOfMemoryError", "CUDARuntimeError") and "memory" in str(error).lower()


def _free_memory(error: Exception) -> None:
    error.__traceback__ = None  # the traceback keeps the arrays of the failed attempt alive
    if type(error).__module__.startswith("torch"):
        import torch

        torch.cuda.empty_cache()
