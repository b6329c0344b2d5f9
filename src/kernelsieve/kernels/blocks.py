"""Blocks of kernel values: products of rows and points, in memory that is reused from block to block."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse
from scipy.spatial.distance import cdist

from ..arrays import Array, as_float64, is_numpy, like, namespace, take_columns

# Sparse points of at most this many elements (64 MB) are made dense, which makes products several times faster.
MAX_DENSE_POINTS = 2**23
# OpenBLAS multiplies few points by many wide float64 rows a quarter faster than in the opposite order.
WIDE_ROWS = 128
# Number of (row, point) pairs in a tile, whose terms are computed column by column.  256 KB in float64 fit the cache.
CACHED_VALUES = 2**15
# In operations of a block with a single row or column, numpy first copies the row or column into its buffer, if it fits
# there several times.  The copy takes longer than the arithmetic.  A buffer of this size is too small to hold two rows.
SMALL_BUFFER = 1024
# The largest factor by which distances of rows may be multiplied, for numbers of 4 and 8 bytes (rows/checks.py).
LARGEST_PARAMETER = {4: 1e30, 8: 1e130}


def check_size(value: float, limits: dict[int, float], words: str, rows: Array, otherwise: str = "") -> None:
    """Raise an error for a kernel parameter that is too large for the dtype of the rows."""
    single = "32" in str(rows.dtype)
    largest = limits[4 if single else 8]
    if value > largest:
        wider = ", or float64 rows" if single else ""
        raise ValueError(
            f"{words} is too large to compute with for {rows.dtype} rows: give at most {largest:g}{otherwise}{wider}"
        )


def transposed(points: Array, scale: float = 1.0) -> Array:
    """scale * points', in the layout in which products rows @ points' are fastest."""
    if scipy.sparse.issparse(points):
        if points.shape[0] * points.shape[1] > MAX_DENSE_POINTS:
            return (points * scale).T.tocsc()
        points = points.toarray()
    return (points * scale).T


class _Scratch(threading.local):
    """Memory that a thread reuses from block to block, because new memory pages cost as much as the arithmetic."""

    in_use = False
    buffers: dict[str, np.ndarray]

    def __init__(self) -> None:
        self.buffers = {}

    def array(self, name: str, shape: tuple[int, int], dtype: Any) -> np.ndarray:
        size = shape[0] * shape[1]
        buffer = self.buffers.get(name)
        if buffer is None or buffer.size < size or buffer.dtype != dtype:
            buffer = self.buffers[name] = np.empty(size, dtype=dtype)
        return buffer[:size].reshape(shape)

    def before_ones(self, shape: tuple[int, int], dtype: Any) -> np.ndarray:
        """An array whose last column is ones and whose others are to be filled; the ones are kept between blocks."""
        buffer = self.buffers.get("ones") if self.in_use else None
        if buffer is None or buffer.shape[0] < shape[0] or buffer.shape[1] != shape[1] or buffer.dtype != dtype:
            buffer = np.empty(shape, dtype=dtype)
            buffer[:, -1] = 1.0
            if self.in_use:
                self.buffers["ones"] = buffer
        return buffer[: shape[0]]


_scratch = _Scratch()


@contextmanager
def overwritten_blocks() -> Iterator[None]:
    """In this context, every kernel block of this thread overwrites the previous one, so callers must not keep any."""
    before, _scratch.in_use = _scratch.in_use, True
    try:
        yield
    finally:
        _scratch.in_use = before


@contextmanager
def direct_broadcasts() -> Iterator[None]:
    """In this context, numpy does not copy a row or column that is joined with a block: up to three times faster."""
    before = np.setbufsize(SMALL_BUFFER)
    try:
        yield
    finally:
        np.setbufsize(before)


def overwritten_product(block: Array, matrix: Array, name: str = "product") -> Array:
    """block @ matrix, in memory that the next product of the same `name` in this thread overwrites.

    numpy's `dot` hands the interpreter's lock on; its `matmul` keeps the lock if the result is small, however long that
    takes.
    """
    if not (is_numpy(block) and is_numpy(matrix) and block.dtype == matrix.dtype):
        return block @ matrix
    return np.dot(block, matrix, out=_scratch.array(name, (block.shape[0], matrix.shape[1]), block.dtype))


def overwritten_float64(rows: Array) -> Array:
    """Rows in float64; a copy is in memory that the next copy in this thread overwrites, if `overwritten_blocks`."""
    if not (_scratch.in_use and is_numpy(rows) and rows.dtype == np.float32):
        return as_float64(rows)
    out = _scratch.array("float64", rows.shape, np.float64)
    out[...] = rows
    return out


def product(left: np.ndarray, right: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """left @ right, with numpy's warning for overflow but not the one for invalid values.

    BLAS can set the "invalid" flag although all numbers are finite, because of register contents that are not part of
    the matrices.  Invalid values are found by checks of the rows.
    """
    with np.errstate(invalid="ignore"):
        return np.matmul(left, right, out=out)


def with_norms(rows: np.ndarray) -> np.ndarray:
    """(x, |x|^2, 1) for every row x; within `overwritten_blocks`, the next call overwrites the result."""
    out = _scratch.before_ones((rows.shape[0], rows.shape[1] + 2), rows.dtype)
    out[:, :-2] = rows
    np.vecdot(rows, rows, out=out[:, -2])
    return out


def inner_products(rows: Array, points_transposed: Array) -> Array:
    """rows @ points' as a dense block, for any mix of dense and sparse inputs; see `overwritten_blocks`."""
    if is_numpy(rows) and is_numpy(points_transposed) and rows.dtype == points_transposed.dtype:
        left, right = rows, points_transposed
        wide = rows.dtype == np.float64 and rows.shape[1] >= WIDE_ROWS
        if wide:
            left, right = points_transposed.T, rows.T
        shape = (left.shape[0], right.shape[1])
        out = _scratch.array("block", shape, rows.dtype) if _scratch.in_use else None
        block = product(left, right, out)
        return block.T if wide else block
    block = rows @ points_transposed
    return dense(block)


def dense(rows: Array) -> Array:
    """Sparse rows as a dense array; dense rows unchanged."""
    return rows.toarray() if scipy.sparse.issparse(rows) else rows


def columns_of(rows: Array, columns: tuple[int, ...]) -> Array:
    """Some columns of rows; no copy if they are adjacent."""
    first, last = columns[0], columns[-1]
    if columns == tuple(range(first, last + 1)):
        return rows[:, first : last + 1]
    return rows[:, list(columns)] if scipy.sparse.issparse(rows) else take_columns(rows, np.asarray(columns))


def constant_diagonal(rows: Array, value: float) -> Array:
    """`value` for every row."""
    if scipy.sparse.issparse(rows) or is_numpy(rows):
        return np.full(rows.shape[0], value, dtype=rows.dtype)
    return namespace(rows).full_like(rows[:, 0], value)


def identity_like(square: Array) -> Array:
    """The identity matrix with the shape, dtype and device of a square matrix."""
    return like(namespace(square).eye(square.shape[0], dtype=square.dtype), square)


def manhattan(rows: Array, points: Array) -> Array:
    """sum_j |x_j - y_j| for all pairs of rows and points."""
    if scipy.sparse.issparse(rows):
        from sklearn.metrics.pairwise import manhattan_distances

        return manhattan_distances(rows, points).astype(rows.dtype, copy=False)
    points = dense(points)
    if is_numpy(rows):
        return cdist(rows, points, "cityblock").astype(rows.dtype, copy=False)
    xp = namespace(rows)
    return xp.stack([xp.sum(xp.abs(rows - points[j, :]), axis=1) for j in range(points.shape[0])], axis=1)
