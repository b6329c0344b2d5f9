"""Rows in the order in which they came: windows over them, block by block, for every kind of rows.

A monitor needs four methods of its rows, for every kind that `rows` recognises:

    windows()        the windows of all rows, in order; those of a block reach back into the blocks before
    sample()         some windows in whole cells of consecutive rows: those with the smallest of one random key a cell,
                     so that the same rows give the same sample in memory, in blocks and on a cluster
    fold_moments()   the moments of the windows of each contiguous fold, over given points: one pass
    each()           a few numbers for every row, NaN where it has no whole window

A window has the number of its last row.  No window crosses from one series of rows into the next.
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
from ..kernels.base import dense
from ..rows.checks import finite
from ..rows.rows import ArrayRows, Rows
from ..rows.sources import Stream
from ..rows.streams import StreamRows, same_columns
from ..threads import cached_property
from .statistics import InputMap, fold_of, runs_of, windows_of

WINDOW_BLOCK_ROWS = 2**15  # of an array, processed at once
MAX_DENSE_ELEMENTS = 2**27  # elements of sparse rows that may be made dense: 1 GB

Columns: TypeAlias = tuple[int, Any]  # number of columns, and their names if they have any


@dataclass(frozen=True)
class WindowSample:
    """Windows of some rows, in order."""

    windows: Array  # (n, q)
    ends: np.ndarray  # (n,) the number of each window's last row
    runs: np.ndarray  # (n,) the unbroken run of rows that each window ends in
    n_rows: int  # of the whole series
    whole: bool  # whether these are all windows there are


class Series:
    """Rows in blocks; this class itself handles anything that can be read repeatedly."""

    n_rows: int  # known after a pass

    def __init__(
        self, open_blocks: Callable[[], Iterator[tuple[int, Array]]], lags: int, labels: np.ndarray | None = None
    ) -> None:
        self.open_blocks = open_blocks
        self.lags = lags
        self.labels = labels  # (n,) which series each row belongs to, None for one series

    @property
    def columns(self) -> Columns | None:
        """The columns of rows that scikit-learn has not validated, known after a pass."""
        return None

    def windows(self) -> Iterator[tuple[np.ndarray, Array]]:
        """Row numbers and windows, block by block; rows too close to the start of their series have none."""
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
            # with fewer rows than lags all are kept, because a window may span several blocks
            tail = rows[max(0, rows.shape[0] - self.lags) :] if self.lags else None
        self.n_rows = start + int(block.shape[0])
        self._check_labels(self.n_rows)

    def _inside(self, ends: np.ndarray) -> np.ndarray:
        """Whether the windows that end there lie within one series."""
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
        """About `size` windows, in cells of `cell` consecutive rows."""
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
        """All windows mapped by `inputs`, as rows that an estimator can be fitted to."""
        return Stream(lambda: (inputs(windows) for _, windows in self.windows()))

    def each(self, function: Callable[[Array], np.ndarray], width: int) -> np.ndarray:
        """function(windows), `width` numbers each, for every row of the series; NaN for rows without a window."""
        found = [(ends, function(windows)) for ends, windows in self.windows()]
        if len(found) == 1 and len(found[0][0]) == self.n_rows:  # every row has a window: no copy is needed
            return found[0][1]
        out = np.full((self.n_rows, width), np.nan)
        for ends, values in found:
            out[ends] = values
        return out


class _KeptCells:
    """The windows of the cells with the smallest keys, so far."""

    def __init__(self, size: int, cell: int) -> None:
        self.size, self.n_cells = size, -(-size // cell)
        self.parts: list[tuple[np.ndarray, np.ndarray, Array]] = []  # keys, row numbers, windows
        self._threshold = np.uint64(2**64 - 1)

    def add(self, keys: np.ndarray, ends: np.ndarray, windows: Array) -> None:
        chosen = np.flatnonzero(keys <= self._threshold)
        if len(chosen):
            self.parts.append((keys[chosen], ends[chosen], take_rows(windows, chosen)))
        if sum(len(part[1]) for part in self.parts) > 2 * self.size:  # rare enough to cost almost nothing
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
    """Rows in one array, whose slices are views."""

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
    """Rows that come in blocks; if columns are expected, those of the blocks must agree."""

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
    """Rows in a dask array: windows are its shifted slices side by side, processed by the workers."""

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
        """A window for every row but the first few, as a dask array."""
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
    """The series of some rows; if columns are expected, theirs must agree."""
    if isinstance(rows, ArrayRows):
        return ArraySeries(rows.X, lags, labels)
    if isinstance(rows, StreamRows):
        return StreamSeries(rows, lags, labels, expected)
    return DaskSeries(rows, lags, labels, expected)


def numbered(labels: Any) -> np.ndarray:
    """Labels of any kind as numbers, the same for the same label."""
    numbers: dict[Any, int] = {}
    # NaN as a label equals any other NaN
    found = (None if label != label else label for label in np.asarray(labels).ravel().tolist())
    return np.array([numbers.setdefault(label, len(numbers)) for label in found], dtype=np.intp)
