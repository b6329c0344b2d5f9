"""Rows in blocks: small enough for the cache, spread over threads, added up in a fixed order.

A pass over N rows is a list of row ranges.  Their number depends on the shapes alone, never on the
number of threads, and results come back in order: the same data give the same bits on any machine
size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TypeVar

import numpy as np
import scipy.sparse
from sklearn.utils import assert_all_finite

from ..arrays import Array, is_numpy, itemsize, namespace, to_numpy
from ..threads import one_blas_thread, ordered_map

Result = TypeVar("Result")

# A block's kernel values and rows stay in the cache that cores share, where they are read several times (product,
# norms, exponential, whitening); smaller blocks would spend their time in being handed to threads.
BLOCK_BYTES = 2**21  # of kernel values
ROW_BYTES = 2**22
MIN_BLOCK_ROWS, MAX_BLOCK_ROWS = 128, 4096
# Multiplications below which handing a product to threads costs more than it saves.
MIN_THREADED_WORK = 2**26
# On an accelerator one launch costs as much as a thousand rows: blocks are limited by memory only.
DEVICE_BLOCK_BYTES = 2**28


def block_rows(n_columns: int, n_features: int, itemsize: int, *, on_host: bool = True) -> int:
    """Rows in a block of `n_features` features whose kernel values have `n_columns` columns."""
    if not on_host:
        return max(MIN_BLOCK_ROWS, DEVICE_BLOCK_BYTES // max(1, n_columns * itemsize))
    rows = min(BLOCK_BYTES // max(1, n_columns * itemsize), ROW_BYTES // max(1, n_features * itemsize))
    return min(MAX_BLOCK_ROWS, max(MIN_BLOCK_ROWS, rows))


def row_ranges(n_rows: int, size: int) -> list[slice]:
    """[0, n_rows) cut into slices of nearly equal length, none longer than `size`."""
    count = max(1, -(-n_rows // size))
    bounds = [n_rows * i // count for i in range(count + 1)]
    return [slice(a, b) for a, b in pairwise(bounds)]


def finite(block: Array) -> Array:
    """The block itself, after making sure that it holds neither NaN nor infinity.

    Done on blocks that are about to be used, this costs a read from the cache, not from memory.
    """
    if scipy.sparse.issparse(block):
        finite(block.data)
    elif block.size if is_numpy(block) else block.shape[0]:
        xp = namespace(block)
        if not bool(xp.isfinite(xp.sum(block))):
            assert_all_finite(to_numpy(block), input_name="X")
    return block


def map_row_blocks(function: Callable[[slice], Result], X: Array, n_columns: int, n_threads: int) -> Iterator[Result]:
    """function(range) for every block of rows of X, in order, over `n_threads` threads."""
    on_host = is_numpy(X) or not hasattr(X, "device") or str(X.device) == "cpu"
    size = block_rows(n_columns, X.shape[1], itemsize(X), on_host=on_host)
    blocks = row_ranges(X.shape[0], size)
    with one_blas_thread():
        yield from ordered_map(function, blocks, n_threads if on_host else 1)


def matmul(a: Array, b: Array, n_threads: int) -> Array:
    """a @ b, the rows of a spread over threads."""
    work = a.shape[0] * a.shape[1] * b.shape[1]
    if n_threads == 1 or not is_numpy(a) or work < MIN_THREADED_WORK:
        return a @ b
    out = np.empty((a.shape[0], b.shape[1]), dtype=np.result_type(a, b))
    parts = row_ranges(a.shape[0], -(-a.shape[0] // n_threads))
    with one_blas_thread():
        list(ordered_map(lambda rows: np.matmul(a[rows], b, out=out[rows]), parts, n_threads))
    return out
