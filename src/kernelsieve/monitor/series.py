"""Rows in the order of time, of any kind that `rows` recognises, and windows over them, block by block.

A monitor calls four methods:

    windows()        the windows of all rows, in order; windows of one block reach back into earlier blocks
    sample()         windows of random cells of consecutive rows.  Every cell has a random key, and the cells with the
                     smallest keys are taken; so the sample is the same in memory, in blocks and on a cluster
    fold_moments()   the moments of the windows of each contiguous fold over given points: one pass
    each()           a few numbers for every row, NaN if it has no whole window

The number of a window is that of its last row.  The rows of a window all belong to one series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse

from ..arrays import Array, namespace, scrambled, take_rows
from ..fit.moments import Moments, MomentSum
from ..kernels.blocks import dense
from ..rows.checks import finite
from ..rows.rows import ArrayRows, Rows
from ..rows.sources import Stream
from ..rows.streams import StreamRows, same_columns
from ..threads import cached_property
from .statistics import InputMap, fold_of, runs_of, windows_of

WINDOW_BLOCK_ROWS = 2**15  # number of rows of an array that are processed at once
MAX_DENSE_ELEMENTS = 2**27  # largest size of sparse rows that may be converted to dense ones: 1 GB

Columns: TypeAlias = tuple[int, Any]  # number of columns, and their names if they have any


@dataclass(frozen=True)
class WindowSample:
    """A sample of windows, in order."""

    windows: Array  # (n, q)
    ends: np.ndarray  # (n,) the number of each window's last row
    runs: np.ndarray  # (n,) number of the unbroken run of rows in which each window ends
    n_rows: int  # number of rows in the whole series
    whole: bool  # whether the sample has all windows


class Series:
    """Rows in order, read from a function that opens an iterator of blocks; subclasses wrap other sources."""

    n_rows: int  # set by the first pass

    def __init__(
        self, open_blocks: Callable[[], Iterator[tuple[int, Array]]], lags: int, labels: np.ndarray | None = None
    ) -> None:
        self.open_blocks = open_blocks
        self.lags = lags
        self.labels = labels  # (n,) number of the series that each row belongs to; None if there is one series

    @property
    def columns(self) -> Columns | None:
        """The columns, after a pass; None for rows whose columns scikit-learn has already validated."""
        return None

    def windows(self) -> Iterator[tuple[np.ndarray, Array]]:
        """Row numbers and windows, block by block; the first `lags` rows of a series have no window."""
        tail = None
        for start, block in self.open_blocks():
            block = finite(dense(block))
            rows = block if tail is None else namespace(block).concat([tail, block], axis=0)
            first = start + block.shape[0] - rows.shape[0] + self.lags
            n_windows = rows.shape[0] - self.lags
            if n_windows > 0:
                ends = np.arange(first, first + n_windows)
                windows, inside = windows_of(rows, self.lags), self._inside(ends)
                if not inside.all():
                    ends, windows = ends[inside], take_rows(windows, np.flatnonzero(inside))
                if len(ends):
                    yield ends, windows
            # Keep all rows if there are fewer than `lags`, because a window may span several blocks.
            tail = rows[max(0, rows.shape[0] - self.lags) :] if self.lags else None
        self.n_rows = start + int(block.shape[0])
        self._check_labels(self.n_rows)

    def _inside(self, ends: np.ndarray) -> np.ndarray:
        """For each row number in `ends`, whether its window lies within one series."""
        if self.labels is None:
            return np.ones(len(ends), dtype=bool)
        self._check_labels(int(ends[-1]) + 1, at_least=True)
        run = np.cumsum(np.concatenate([[0], np.diff(self.labels) != 0]))
        return np.asarray(run[ends] == run[ends - self.lags])

    def _check_labels(self, n_rows: int, *, at_least: bool = False) -> None:
        if self.labels is None or len(self.labels) == n_rows or (at_least and len(self.labels) > n_rows):
            return
        raise ValueError(f"series has {len(self.labels)} labels, X has {n_rows}{' or more' if at_least else ''} rows")

    def sample(self, size: int, cell: int, seed: int) -> WindowSample:
        """A random sample of about `size` windows, in cells of `cell` consecutive rows."""
        kept = _KeptCells(size, cell)
        n_windows = 0
        for ends, windows in self.windows():
            n_windows += len(ends)
            kept.add(scrambled(ends // cell, seed), ends, windows)
        kept.prune()
        if not kept.parts:
            raise ValueError(
                f"no {self.lags + 1} consecutive rows: lags={self.lags} needs more rows, in one series, than X has"
            )
        ((_, ends, windows),) = kept.parts
        runs = runs_of(ends, None if self.labels is None else self.labels[ends])
        return WindowSample(windows, ends, runs, self.n_rows, len(ends) == n_windows)

    def fold_moments(
        self, moments: MomentSum, inputs: InputMap, n_rows: int, n_folds: int, n_threads: int
    ) -> list[Moments]:
        """Moments of the windows of each nonempty fold: one pass over all rows."""
        found: dict[int, Moments] = {}
        for ends, windows in self.windows():
            prepared = inputs(windows)
            bounds = np.searchsorted(fold_of(ends, n_rows, n_folds), np.arange(n_folds + 1))
            for fold, (low, high) in enumerate(pairwise(bounds.tolist())):
                if high > low:
                    part = moments.over(prepared[low:high, :], None, n_threads)
                    found[fold] = found[fold] + part if fold in found else part
        return [found[fold] for fold in sorted(found)]

    def prepared(self, inputs: InputMap) -> Any:
        """All windows mapped by `inputs`, in a form that an estimator's `fit` takes."""
        return Stream(lambda: (inputs(windows) for _, windows in self.windows()))

    def each(self, function: Callable[[Array], np.ndarray], width: int) -> np.ndarray:
        """function(windows), `width` numbers for every row; NaN for rows without a window."""
        found = [(ends, function(windows)) for ends, windows in self.windows()]
        if len(found) == 1 and len(found[0][0]) == self.n_rows:  # every row has a window: no copy is needed
            return found[0][1]
        out = np.full((self.n_rows, width), np.nan)
        for ends, values in found:
            out[ends] = values
        return out


class _KeptCells:
    """The windows of the cells with the smallest keys among all rows so far."""

    def __init__(self, size: int, cell: int) -> None:
        self.size, self.n_cells = size, -(-size // cell)
        self.parts: list[tuple[np.ndarray, np.ndarray, Array]] = []  # keys, row numbers, windows
        self._threshold = np.uint64(2**64 - 1)

    def add(self, keys: np.ndarray, ends: np.ndarray, windows: Array) -> None:
        chosen = np.flatnonzero(keys <= self._threshold)
        if len(chosen):
            self.parts.append((keys[chosen], ends[chosen], take_rows(windows, chosen)))
        if sum(len(part[1]) for part in self.parts) > 2 * self.size:  # so that pruning is rare and costs little
            self.prune()

    def prune(self) -> None:
        """Merge all parts into one, keeping only the `n_cells` cells with the smallest keys."""
        if not self.parts:
            return
        keys, ends = (np.concatenate([part[place] for part in self.parts]) for place in (0, 1))
        windows = namespace(self.parts[0][2]).concat([part[2] for part in self.parts], axis=0)
        different = np.unique(keys)
        if len(different) > self.n_cells:
            self._threshold = different[self.n_cells - 1]
            still = np.flatnonzero(keys <= self._threshold)
            keys, ends, windows = keys[still], ends[still], take_rows(windows, still)
        self.parts = [(keys, ends, windows)]


class ArraySeries(Series):
    """Rows in one array; blocks are slices of it."""

    def __init__(self, X: Array, lags: int, labels: np.ndarray | None = None) -> None:
        if scipy.sparse.issparse(X) and X.shape[0] * X.shape[1] > MAX_DENSE_ELEMENTS:
            raise ValueError(
                f"sparse rows are made dense here, and {X.shape[0]} x {X.shape[1]} are too many: reduce the columns "
                "first, e.g. by TruncatedSVD"
            )
        super().__init__(self._blocks, lags, labels)
        self.X = X
        self._check_labels(X.shape[0])

    def prepared(self, inputs: InputMap) -> Any:
        blocks = [inputs(windows) for _, windows in self.windows()]
        return namespace(blocks[0]).concat(blocks, axis=0)

    def _blocks(self) -> Iterator[tuple[int, Array]]:
        for start in range(0, self.X.shape[0], WINDOW_BLOCK_ROWS):
            yield start, self.X[start : start + WINDOW_BLOCK_ROWS, :]


class StreamSeries(Series):
    """Rows that are read from a stream; with `expected` columns, the blocks must have them."""

    def __init__(
        self, source: StreamRows, lags: int, labels: np.ndarray | None = None, expected: Columns | None = None
    ) -> None:
        super().__init__(self._blocks, lags, labels)
        self.source = source
        self.expected = expected

    def _blocks(self) -> Iterator[tuple[int, Array]]:
        for start, block in self.source.blocks():
            if self.expected is not None:
                same_columns(self.source.n_features, self.source.names, *self.expected)
            yield start, block

    @property
    def columns(self) -> Columns | None:
        return self.source.n_features, self.source.names


class DaskSeries(Series):
    """Rows in a dask array; windows are shifted slices of it, side by side, and the workers process them."""

    def __init__(self, rows: Any, lags: int, labels: np.ndarray | None = None, expected: Columns | None = None) -> None:
        super().__init__(self._blocks, lags, labels)
        self._names, self.array = rows.names, rows.array
        if np.isnan(self.array.chunks[0]).any():
            self.array = self.array.compute_chunk_sizes()
        if expected is not None:
            same_columns(*self.columns, *expected)
        self._check_labels(int(self.array.shape[0]))

    @cached_property
    def lagged(self) -> Any:
        """The windows of all rows but the first `lags`, as a dask array."""
        return windows_of(self.array, self.lags).rechunk({1: -1}) if self.lags else self.array

    @cached_property
    def ends(self) -> np.ndarray:
        """The numbers of the rows whose window lies in one series."""
        ends = np.arange(self.lags, self.array.shape[0])
        return ends[self._inside(ends)]

    def _blocks(self) -> Iterator[tuple[int, Array]]:
        from ..rows.dask import on_worker

        start = 0
        for block in self.array.blocks:
            rows = on_worker(block.compute(), None)
            yield start, rows
            start += len(rows)

    def fold_moments(
        self, moments: MomentSum, inputs: InputMap, n_rows: int, n_folds: int, n_threads: int
    ) -> list[Moments]:
        from ..rows.dask import DaskRows

        prepared, folds = self._mapped(inputs, inputs.factor.shape[-1]), fold_of(self.ends, n_rows, n_folds)
        parts = []
        for fold in range(n_folds):
            rows = self.ends[folds == fold] - self.lags
            if len(rows):
                consecutive = rows[-1] - rows[0] + 1 == len(rows)
                part = prepared[rows[0] : rows[-1] + 1] if consecutive else prepared[rows]
                parts.append(DaskRows(part, None).add_up(moments, n_threads))
        return parts

    @property
    def columns(self) -> Columns:
        return int(self.array.shape[1]), self._names

    def prepared(self, inputs: InputMap) -> Any:
        mapped = self._mapped(inputs, inputs.factor.shape[-1])
        return mapped if len(self.ends) == mapped.shape[0] else mapped[self.ends - self.lags]

    def _mapped(self, function: Callable[[Array], Any], width: int) -> Any:
        """function(windows), `width` numbers each, as a dask array."""
        return self.lagged.map_blocks(function, dtype=self.lagged.dtype, chunks=(self.lagged.chunks[0], (width,)))

    def each(self, function: Callable[[Array], np.ndarray], width: int) -> np.ndarray:
        out = np.full((int(self.array.shape[0]), width), np.nan)
        if len(out) > self.lags:
            out[self.ends] = self._mapped(function, width).compute()[self.ends - self.lags]
        return out


def series_of(rows: Rows, lags: int, labels: np.ndarray | None, expected: Columns | None) -> Series:
    """The Series for rows of any kind; with `expected` columns, the rows must have them."""
    if isinstance(rows, ArrayRows):
        return ArraySeries(rows.X, lags, labels)
    if isinstance(rows, StreamRows):
        return StreamSeries(rows, lags, labels, expected)
    return DaskSeries(rows, lags, labels, expected)


def numbered(labels: Any) -> np.ndarray:
    """Labels of any type as integers; equal labels become equal integers."""
    numbers: dict[Any, int] = {}
    # None replaces NaN, so that all NaN labels are equal.
    found = (None if label != label else label for label in np.asarray(labels).ravel().tolist())
    return np.array([numbers.setdefault(label, len(numbers)) for label in found], dtype=np.intp)
