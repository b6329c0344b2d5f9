"""Rows in dask arrays and dataframes: sampled, summed up and transformed by the workers that hold them.

One task for each chunk computes its sum; a tree of tasks adds the sums up, `FAN_IN` at a time, so that the client
receives a single sum however many chunks there are.  The arrays that all these tasks need (points, whitening) are sent
to the workers once.  The active scheduler runs the tasks: threads by default, or a cluster if there is a client; a
cluster repeats the tasks of a worker that is lost.  dask may recompute a chunk on every pass, so its fingerprint is
taken each time, and a chunk that has changed is an error.

If a device is given, every worker copies its chunks to its own device: with one worker for each GPU, all GPUs work.
Chunks that are arrays of torch or cupy are processed on their device.  Only numpy arrays travel: points and whitening
to the workers; m x m sums, sampled rows and scores back.  The client chooses points, on its own device of that name if
it has one, otherwise on its CPU.
"""

from __future__ import annotations

import dataclasses
import operator
import os
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar

import array_api_compat
import numpy as np
import scipy.sparse

from ..arrays import Array, as_float64, float64_like, is_foreign, take_rows, to_numpy
from .checks import finite, finite_rows
from .device import DeviceRows, checked_device, named_device
from .reservoir import stacked
from .rows import Rows, Summand, device_blocks
from .sampling import projection_of_columns
from .sources import SPARSE_CHUNKS
from .streams import PassFingerprint, fingerprint, fingerprint_of, same_columns

Record = TypeVar("Record")

FAN_IN = 8  # number of results that one task adds up


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
        self.device = device  # name of the workers' device; None if they compute on the CPU
        self.merge_copies = merge_copies
        self.weights = weights
        self.n_features = int(self.array.shape[1])
        self.single_precision = self.array.dtype == np.float32
        self._blocks = list(self.array.to_delayed().ravel())
        self._fingerprints: dict[int, PassFingerprint] = {}  # by the number of the chunk
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
        """`each`, with rows on the workers' devices of that name."""
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
    """Dask rows on devices: sums and values are computed on the workers' devices, the sample is on the client's."""

    rows: DaskRows

    def add_up(self, summand: Summand, n_threads: int) -> Any:
        found = self.rows.add_up(moved(summand, to_numpy), n_threads)
        return moved(found, self._to_device)

    def each(self, function: Callable[[Array], Array], n_columns: int, n_threads: int) -> np.ndarray:
        return self.rows.each_on(function, self.rows.device)


def on_devices(X: Any, weights: np.ndarray | None, name: str, *, merge_copies: bool) -> Rows:
    """Dask rows to be summed up on the workers' devices of that name; the name is checked before anything is read."""
    named_device(name)
    rows = DaskRows(X, weights, merge_copies=merge_copies, device=name)
    try:
        return DaskDeviceRows(rows, checked_device(name))
    except ValueError:  # the client of a GPU cluster may have no GPU itself
        return rows


def added_up(parts: list[Any]) -> Any:
    """The task that adds up the results of all tasks in `parts`, through a tree."""
    import dask

    while len(parts) > 1:
        groups = [parts[i : i + FAN_IN] for i in range(0, len(parts), FAN_IN)]
        parts = [dask.delayed(reduce)(operator.add, group) if len(group) > 1 else group[0] for group in groups]
    return parts[0]


def _computed(tasks: list[Any]) -> tuple[Any, ...]:
    """The tasks' results, computed by the active scheduler."""
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
    """function(rows), `width` numbers for each row, as a lazy dask array chunked like X; its columns are checked now.

    If a device is given, every worker computes on its own device; the resulting chunks are numpy arrays.
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
    """Column names (None for an array), and a dask array of floats in which no chunk holds only a part of its rows."""
    if not hasattr(type(X), "ndim"):  # on the class, because a Delayed object seems to have any attribute
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
    """The dataframe with all columns as floats: float32 if all are float32, otherwise float64."""
    text = [str(name) for name, dtype in frame.dtypes.items() if getattr(dtype, "kind", "O") not in "biuf"]
    if text:
        raise ValueError(f"columns {', '.join(map(repr, text[:5]))} of the dask dataframe are not numeric: drop them")
    return frame.astype(np.float32 if (frame.dtypes == np.float32).all() else np.float64)


# --- on a worker -----------------------------------------------------------------------------------------------------


def moved(record: Record, move: Callable[[Array], Array]) -> Record:
    """A dataclass with all its arrays moved, for example by `to_numpy`."""
    assert dataclasses.is_dataclass(record)
    assert not isinstance(record, type)
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    arrays = {name: move(value) for name, value in values.items() if array_api_compat.is_array_api_obj(value)}
    return dataclasses.replace(record, **arrays)


def worker_device(name: str) -> Any:
    """The torch device of that name on this worker; if it has none, the error names the worker."""
    try:
        return checked_device(name)
    except (ImportError, ValueError) as error:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        sees = "not set" if visible is None else repr(visible)
        raise type(error)(
            f"{_this_worker()} (CUDA_VISIBLE_DEVICES {sees}): {error}. Every worker needs a device of its own: start "
            "one worker a GPU, or give device=None"
        ) from error


def _this_worker() -> str:
    try:
        from distributed import get_worker

        return f"the dask worker {get_worker().address}"
    except (ImportError, ValueError):  # another scheduler, which works in this process
        return "the process that works on the dask chunks"


def on_worker(block: Any, device: str | None) -> Array:
    """The rows of a chunk on the device of that name; without a name, and for cupy arrays, where they are."""
    if scipy.sparse.issparse(block):
        raise TypeError(SPARSE_CHUNKS)
    if not is_foreign(block):
        rows = np.ascontiguousarray(block)
        if device is None:
            return rows
        import torch

        return torch.as_tensor(rows if rows.flags.writeable else rows.copy(), device=worker_device(device))
    if device is not None and array_api_compat.is_torch_array(block):
        return block.to(worker_device(device))
    return block


@dataclass(frozen=True)
class Chunk:
    """What a chunk must be: its row numbers, its number of columns, and its fingerprint of the last pass."""

    start: int
    stop: int
    n_features: int
    fingerprint: PassFingerprint | None  # None before the first pass
    device: str | None = None  # the worker's device to use, if any

    def check(self, block: Any) -> tuple[Array, PassFingerprint]:
        """Check shape and finiteness, and that nothing changed since the last pass; return rows and fingerprint."""
        rows, where = on_worker(block, self.device), f"rows {self.start} to {self.stop - 1}"
        if tuple(rows.shape) != (self.stop - self.start, self.n_features):
            raise ValueError(
                f"the dask chunk of {where} has shape {tuple(rows.shape)}, ({self.stop - self.start}, "
                f"{self.n_features}) was expected: each pass must give the same rows"
            )
        finite_rows(rows, self.start)
        found = _fingerprint_there(rows, self.start) if is_foreign(rows) else fingerprint(rows, self.start)
        if self.fingerprint is not None and not found.matches(self.fingerprint):
            raise ValueError(f"{where} changed between two passes: each pass must give the same rows")
        return rows, found


def _fingerprint_there(rows: Array, start: int) -> PassFingerprint:
    """`fingerprint` of rows on a device; one number for each row is copied to the host."""
    direction = float64_like(projection_of_columns(rows.shape[1]), rows)
    parts = [to_numpy(as_float64(rows[part, :]) @ direction) for part in device_blocks(rows.shape[0], rows.shape[1], 8)]
    return fingerprint_of(np.concatenate(parts), start)


def chunk_rows(chunk: Chunk, block: Any, chosen: np.ndarray) -> tuple[np.ndarray, PassFingerprint]:
    """The chosen rows of a chunk, and the fingerprint of the chunk."""
    rows, found = chunk.check(block)
    return to_numpy(take_rows(rows, chosen)), found


def chunk_sum(summand: Summand, chunk: Chunk, block: Any, weights: np.ndarray | None) -> Any:
    """The summand's sum over the rows of a chunk."""
    rows = chunk.check(block)[0]
    if not is_foreign(rows):
        return summand.over(rows, weights, 1)
    return moved(moved(summand, lambda array: float64_like(array, rows)).over(rows, weights, 1), to_numpy)


def chunk_values(block: Any, function: Callable[[Array], Array], device: str | None) -> np.ndarray:
    """function(rows) for the rows of a chunk, as a numpy array."""
    rows = on_worker(block, device)
    return to_numpy(function(finite(rows))) if is_foreign(rows) else function(rows)
