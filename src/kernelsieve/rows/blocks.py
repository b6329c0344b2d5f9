"""Rows in blocks, on the host (`threads.map_row_groups`) or on a device, whose memory may run out on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from ..arrays import Array, is_numpy, itemsize
from ..threads import map_row_groups, row_ranges

Result = TypeVar("Result")

# On an accelerator launches cost nothing against so many kernel values, and a small card still holds a few blocks.
DEVICE_BLOCK_BYTES = 2**30
MIN_DEVICE_BLOCK_ROWS = 256
HALVINGS = 6  # of the blocks, where memory runs out


def device_blocks(n_rows: int, n_columns: int, itemsize: int, halvings: int = 0) -> list[slice]:
    """Ranges of rows whose kernel values, `n_columns` a row, fill a block."""
    rows = DEVICE_BLOCK_BYTES // max(1, n_columns * itemsize) >> halvings
    return row_ranges(n_rows, max(MIN_DEVICE_BLOCK_ROWS, rows))


def with_smaller_blocks(attempt: Callable[[int], Result]) -> Result:
    """attempt(halvings), with ever smaller blocks while the device is out of memory."""
    for halvings in range(HALVINGS + 1):
        try:
            return attempt(halvings)
        except Exception as error:
            if not _out_of_memory(error):
                raise
            _free_memory(error)
    raise MemoryError(
        "the device is out of memory even for small blocks of rows: free some, give fewer support points, or fit on "
        "the host (device=None)"
    )


def _out_of_memory(error: Exception) -> bool:
    return type(error).__name__ in ("OutOfMemoryError", "CUDARuntimeError") and "memory" in str(error).lower()


def _free_memory(error: Exception) -> None:
    error.__traceback__ = None  # it holds the arrays of the failed attempt
    if type(error).__module__.startswith("torch"):
        import torch

        torch.cuda.empty_cache()


def map_row_blocks(function: Callable[[slice], Result], X: Array, n_columns: int, n_threads: int) -> Iterator[Result]:
    """function(range) for every block of rows of X, in order: over `n_threads` threads, or on the device X is on."""
    if not is_numpy(X) and hasattr(X, "device") and str(X.device) != "cpu":
        yield from with_smaller_blocks(
            lambda halvings: [function(r) for r in device_blocks(X.shape[0], n_columns, itemsize(X), halvings)]
        )
        return
    for results in map_row_groups(lambda ranges: [function(r) for r in ranges], X, n_columns, n_threads):
        yield from results
