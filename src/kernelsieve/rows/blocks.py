"""Rows in blocks: small enough for the cache, spread over threads, added up in a fixed order.

A pass over N rows is a list of row ranges, and a thread takes a group of neighbouring ones at a time: it adds up what
it finds in memory of its own, and few results are left to be put together.  The numbers of ranges and groups depend on
the shapes alone, never on the number of threads, and results come back in order: the same data give the same bits on
any machine size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from ..arrays import Array, is_numpy, itemsize
from ..threads import one_blas_thread, ordered_map, row_ranges

Result = TypeVar("Result")

# A block's kernel values and rows stay in the cache that cores share, where they are read several times (product,
# norms, exponential, whitening); smaller blocks would spend their time in being handed to threads.
BLOCK_BYTES = 2**23  # of kernel values
ROW_BYTES = 2**24
MIN_BLOCK_ROWS, MAX_BLOCK_ROWS = 128, 16384
GROUPS = 64  # of blocks in a pass: four for each of sixteen threads, so that none waits long for the last
LEAST_ROWS_OF_A_GROUP = 1024  # fewer are not worth a thread's start
# On an accelerator launches cost nothing against so many kernel values, and a small card still holds a few blocks.
DEVICE_BLOCK_BYTES = 2**30
MIN_DEVICE_BLOCK_ROWS = 256
HALVINGS = 6  # of the blocks, where memory runs out


def block_rows(n_rows: int, n_columns: int, n_features: int, itemsize: int) -> int:
    """Rows in a block, on the host, of `n_features` features whose kernel values have `n_columns` columns."""
    cached = min(BLOCK_BYTES // max(1, n_columns * itemsize), ROW_BYTES // max(1, n_features * itemsize))
    return min(MAX_BLOCK_ROWS, max(MIN_BLOCK_ROWS, cached), max(LEAST_ROWS_OF_A_GROUP, -(-n_rows // GROUPS)))


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


def map_row_groups(
    function: Callable[[list[slice]], Result], X: Array, n_columns: int, n_threads: int
) -> Iterator[Result]:
    """function(ranges) for every group of neighbouring blocks of host rows X, in order, over `n_threads` threads."""
    blocks = row_ranges(X.shape[0], block_rows(X.shape[0], n_columns, X.shape[1], itemsize(X)))
    groups = [blocks[part] for part in row_ranges(len(blocks), -(-len(blocks) // GROUPS))]
    with one_blas_thread():
        yield from ordered_map(function, groups, n_threads)


def map_row_blocks(function: Callable[[slice], Result], X: Array, n_columns: int, n_threads: int) -> Iterator[Result]:
    """function(range) for every block of rows of X, in order: over `n_threads` threads, or on the device X is on."""
    if not is_numpy(X) and hasattr(X, "device") and str(X.device) != "cpu":
        yield from with_smaller_blocks(
            lambda halvings: [function(r) for r in device_blocks(X.shape[0], n_columns, itemsize(X), halvings)]
        )
        return
    for results in map_row_groups(lambda ranges: [function(r) for r in ranges], X, n_columns, n_threads):
        yield from results
