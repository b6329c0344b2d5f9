"""Rows in dask arrays and dataframes: sampled, summed up and transformed where they are.

One task a chunk gives its sum; a tree of tasks adds them up, `FAN_IN` at a time, so that what reaches the client is
one sum however many chunks there are.  What the sum needs (points, whitening) goes to the workers once.
Whatever scheduler is active runs the tasks: threads by default, a cluster where there is a client, which also
repeats the tasks of a worker that is lost.  A chunk may be computed anew on every pass; each time its fingerprint is
taken, so that one that does not come out the same is an error, not an answer.

With a device every worker copies its chunks to its own (`dask_worker`).  The client chooses points: on its device of
that name if it has one, else on its cores.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from concurrent.futures import CancelledError
from functools import reduce
from typing import Any

import numpy as np

from ..arrays import Array, take_rows, to_numpy
from .dask_worker import Chunk, chunk_rows, chunk_sum, chunk_values, moved
from .device import DeviceRows, checked_device, named_device
from .memory import Rows, Summand
from .reservoir import stacked
from .streams import Fingerprint, same_columns

FAN_IN = 8  # results added up in one task


class DaskRows(Rows):
    """Training rows in a dask array or dataframe."""

    def __init__(
        self,
        X: Any,
        weights: np.ndarray | None,
        *,
        merge_copies: bool = True,
        device: str | None = None,
        least: int = 2,
    ) -> None:
        self.names, self.array = _as_array(X)
        self.device = device  # of the workers'
        self.merge_copies = merge_copies
        self.weights = weights
        self.n_features = int(self.array.shape[1])
        self.single_precision = self.array.dtype == np.float32
        self._blocks = list(self.array.to_delayed().ravel())
        self._fingerprints: dict[int, Fingerprint] = {}  # of chunks, by number
        lengths = self.array.chunks[0]
        if np.isnan(lengths).any():
            import dask

            lengths = _computed([dask.delayed(len)(block) for block in self._blocks])
        self._starts = np.concatenate([[0], np.cumsum(np.asarray(lengths, dtype=np.intp))])
        self.n_samples = int(self._starts[-1])
        if self.n_samples < least:
            raise ValueError(f"the dask array has {self.n_samples} rows, at least {least} are needed")
        if weights is not None and len(weights) != self.n_samples:
            raise ValueError(f"sample_weight has {len(weights)} values, the dask array has {self.n_samples} rows")

    def _chunk(self, number: int) -> Chunk:
        start, stop = int(self._starts[number]), int(self._starts[number + 1])
        return Chunk(start, stop, self.n_features, self._fingerprints.get(number), self.device)

    def take(self, numbers: np.ndarray) -> Array:
        import dask

        order = np.argsort(numbers, kind="stable")
        ordered = np.asarray(numbers)[order]
        bounds = np.searchsorted(ordered, self._starts)
        visited = np.flatnonzero(np.diff(bounds))
        tasks = []
        for number in visited.tolist():
            chosen = ordered[bounds[number] : bounds[number + 1]] - self._starts[number]
            tasks.append(dask.delayed(chunk_rows)(self._chunk(number), self._blocks[number], chosen))
        parts, fingerprints = zip(*_computed(tasks), strict=True)
        self._fingerprints.update(zip(visited.tolist(), fingerprints, strict=True))
        return take_rows(stacked(list(parts)), np.argsort(order, kind="stable"))

    def each(self, function: Callable[[Array], Array], n_columns: int, n_threads: int) -> np.ndarray:
        return self.each_on(function, None)

    def each_on(self, function: Callable[[Array], Array], device: str | None) -> np.ndarray:
        """`each`, of rows on the workers' devices of that name."""
        import dask

        work, shared = dask.delayed(chunk_values, pure=False), dask.delayed(function, pure=False, traverse=False)
        return np.concatenate(_computed([work(block, shared, device) for block in self._blocks]))

    def add_up(self, summand: Summand, n_threads: int) -> Any:
        import dask

        shared = dask.delayed(summand, pure=True, traverse=False)
        parts = []
        for number, block in enumerate(self._blocks):
            chunk = self._chunk(number)
            if chunk.start == chunk.stop:
                continue
            weights = None if self.weights is None else self.weights[chunk.start : chunk.stop]
            parts.append(dask.delayed(chunk_sum)(shared, chunk, block, weights))
        return _computed([added_up(parts)])[0]


class DaskDeviceRows(DeviceRows):
    """The same on devices: a sample on the client's own, sums and values on the workers'."""

    rows: DaskRows

    def add_up(self, summand: Summand, n_threads: int) -> Any:
        found = self.rows.add_up(moved(summand, to_numpy), n_threads)
        return moved(found, self._to_device)

    def each(self, function: Callable[[Array], Array], n_columns: int, n_threads: int) -> np.ndarray:
        return self.rows.each_on(function, self.rows.device)


def on_devices(X: Any, weights: np.ndarray | None, name: str, *, merge_copies: bool) -> Rows:
    """Training rows in dask, to be summed up on the workers' devices of that name; none is read before it is known."""
    named_device(name)
    rows = DaskRows(X, weights, merge_copies=merge_copies, device=name)
    try:
        return DaskDeviceRows(rows, checked_device(name))
    except ValueError:  # a client without a GPU, of a cluster that has some
        return rows


def added_up(parts: list[Any]) -> Any:
    """The task that adds up the results of all tasks in `parts`, through a tree."""
    import dask

    while len(parts) > 1:
        groups = [parts[i : i + FAN_IN] for i in range(0, len(parts), FAN_IN)]
        parts = [dask.delayed(reduce)(operator.add, group) if len(group) > 1 else group[0] for group in groups]
    return parts[0]


def _computed(tasks: list[Any]) -> tuple[Any, ...]:
    """The tasks' results, by whatever scheduler is active."""
    import dask

    try:
        return dask.compute(*tasks)
    except Exception as error:
        if type(error).__module__.startswith("distributed") or isinstance(error, CancelledError):
            raise RuntimeError(
                f"the dask cluster did not finish the fit ({type(error).__name__}: {error}): are its scheduler and "
                "workers still there, and have the workers enough memory?"
            ) from error
        raise


def lazily(
    function: Callable[[Array], Array], X: Any, width: int, expected: tuple[int, Any], device: str | None = None
) -> Any:
    """function(rows), `width` numbers a row, as a lazy dask array chunked as X is; its columns are checked now.

    With a device every worker computes on its own; the chunks that come out are numpy's.
    """
    if device is not None:
        named_device(device)
    names, array = _as_array(X)
    same_columns(array.shape[1], names, *expected)
    return array.map_blocks(
        chunk_values,
        function,
        device,
        dtype=array.dtype,
        chunks=(array.chunks[0], (width,)),
        meta=np.empty((0, 0), dtype=array.dtype),
    )


def _as_array(X: Any) -> tuple[tuple[str, ...] | None, Any]:
    """Column names where there are any, and a dask array of floats whose rows are whole."""
    if not hasattr(type(X), "ndim"):  # a Delayed has every attribute that is asked for, its class has not
        raise TypeError(f"a dask array or dataframe is needed, not a dask {type(X).__name__}")
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D dask array instead")
    names = None
    if hasattr(X, "to_dask_array"):
        names = tuple(str(name) for name in X.columns)
        X = _numeric_frame(X).to_dask_array()
    if X.dtype.kind not in "biuf":
        raise ValueError(f"the dask array must hold real numbers, it has dtype {X.dtype}")
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    return names, X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def _numeric_frame(frame: Any) -> Any:
    """The dataframe with columns of floats, float32 where they all are."""
    text = [str(name) for name, dtype in frame.dtypes.items() if getattr(dtype, "kind", "O") not in "biuf"]
    if text:
        raise ValueError(f"columns {', '.join(map(repr, text[:5]))} of the dask dataframe are not numeric: drop them")
    return frame.astype(np.float32 if (frame.dtypes == np.float32).all() else np.float64)
