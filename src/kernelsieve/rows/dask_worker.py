"""What a dask worker does with a chunk of rows: look at it, add it up, give its scores.

A chunk that is an array of torch or cupy is worked on where it is.  With a device, a chunk in the worker's memory is
copied there first, whole, and looked at there: with one worker a GPU, as many GPUs work as there are workers.  What
comes and goes is numpy's: points and whitening on the way in, m x m sums, sampled rows and scores on the way out.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import array_api_compat
import numpy as np
import scipy.sparse

from ..arrays import Array, as_float64, float64_like, is_foreign, take_rows, to_numpy
from ..threads import row_ranges
from .device import checked_device
from .memory import Summand, finite, finite_rows, projection_of_columns
from .streams import Fingerprint, fingerprint, fingerprint_of

Record = TypeVar("Record")

ROWS_AT_ONCE = 2**18  # that are made float64 on a device to take their fingerprint


def moved(record: Record, move: Callable[[Array], Array]) -> Record:
    """A dataclass with all its arrays elsewhere, as by `to_numpy`."""
    assert dataclasses.is_dataclass(record)
    assert not isinstance(record, type)
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    arrays = {name: move(value) for name, value in values.items() if array_api_compat.is_array_api_obj(value)}
    return dataclasses.replace(record, **arrays)


def worker_device(name: str) -> Any:
    """The torch device of that name on this worker; an error says which worker has none."""
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
    except (ImportError, ValueError):  # another scheduler: no workers but this process
        return "the process that works on the dask chunks"


def on_worker(block: Any, device: str | None) -> Array:
    """The rows of a chunk: where they are if they are on a device, else on the device of that name."""
    if scipy.sparse.issparse(block):
        raise TypeError(
            "the chunks of the dask array are sparse, and chunks must be dense: give X.map_blocks(lambda chunk: "
            "chunk.toarray()), or all rows as one scipy.sparse matrix"
        )
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
    """What a chunk must be: these rows of all, as wide as the others, and those that it had before."""

    start: int
    stop: int
    n_features: int
    fingerprint: Fingerprint | None  # None where no pass has come by yet
    device: str | None = None  # of the worker's, where it is to be worked on

    def check(self, block: Any) -> tuple[Array, Fingerprint]:
        """Its rows, if they are that, and their fingerprint."""
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


def _fingerprint_there(rows: Array, start: int) -> Fingerprint:
    """`fingerprint` of rows on a device, of which one number a row comes to the host."""
    direction = float64_like(projection_of_columns(rows.shape[1]), rows)
    parts = [to_numpy(as_float64(rows[part, :]) @ direction) for part in row_ranges(rows.shape[0], ROWS_AT_ONCE)]
    return fingerprint_of(np.concatenate(parts), start)


def chunk_rows(chunk: Chunk, block: Any, chosen: np.ndarray) -> tuple[np.ndarray, Fingerprint]:
    """Some rows of a chunk, and its fingerprint."""
    rows, found = chunk.check(block)
    return to_numpy(take_rows(rows, chosen)), found


def chunk_sum(summand: Summand, chunk: Chunk, block: Any, weights: np.ndarray | None) -> Any:
    """The sum over a chunk."""
    rows = chunk.check(block)[0]
    if not is_foreign(rows):
        return summand.over(rows, weights, 1)
    return moved(moved(summand, lambda array: float64_like(array, rows)).over(rows, weights, 1), to_numpy)


def chunk_values(block: Any, function: Callable[[Array], Array], device: str | None) -> np.ndarray:
    """function(rows) of a chunk."""
    rows = on_worker(block, device)
    return to_numpy(function(finite(rows))) if is_foreign(rows) else function(rows)
