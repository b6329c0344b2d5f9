"""Checks where rows enter: numbers that are finite and can be squared, weights, and a precomputed gram.

Kernels square the rows' differences, and moments and solvers multiply variances with each other.  The size of the
numbers is therefore checked once, in this module:

    |x|              <= 1e60 (float32: 1e15)     so that |x|^2, and products of two variances, are finite
    largest spread   >= 1e-60 (float32: 1e-15)   over all columns, so that its square does not underflow

Rows outside these limits are refused, and the error names the column to rescale.  Within them the result does not
depend on the unit of the rows.

A precomputed gram must be square and symmetric.  From any other matrix, such as one triangle of a gram or the kernel
values between two sets of rows, solvers would compute different models: some read one triangle, others the symmetric
part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils import assert_all_finite

from ..arrays import FLOATS, Array, is_foreign, is_numpy, itemsize, namespace, to_numpy
from ..errors import ScaleError
from ..kernels.blocks import dense
from ..threads import block_rows, row_ranges

FIRST_GAP_ROWS = 10_000  # rows searched at a time for the first NaN
FAR_FROM_ONE = 1e6  # rows whose largest number lies between 1 / FAR_FROM_ONE and FAR_FROM_ONE are not rescaled
LARGEST = {4: 1e15, 8: 1e60}  # the largest number allowed; the key is the size of the dtype in bytes
SMALLEST = {4: 1e-15, 8: 1e-60}  # the smallest spread allowed, with the same keys
# Differences |k(x, y) - k(y, x)| up to this share of the largest kernel value count as rounding; keys as in LARGEST.
ASYMMETRY = {4: 1e-3, 8: 1e-6}


class NotFiniteError(ValueError):
    """Rows hold NaN or infinity."""


@contextmanager
def naming_gaps(X: Any, names: Any = None) -> Iterator[None]:
    """Add to an error about NaN or infinity the row and column of the first such value, if X is in memory.

    The checks see blocks and samples while these are in the cache, without their position in X.  So X is searched for
    the position only after an error.
    """
    try:
        yield
    except NotFiniteError as error:
        raise with_first_gap(error, X, names) from error


def with_first_gap(error: Exception, X: Any, names: Any = None) -> Exception:
    """The error, extended by the row and column of the first NaN or infinity in X; unchanged if X has none."""
    place = _first_gap(X)
    if place is None:
        return error
    row, column = place
    names = getattr(X, "columns", None) if names is None else names
    named = f"column {column}" if names is None else f"column {str(names[column])!r}"
    return NotFiniteError(
        f"{str(error).splitlines()[0].rstrip('.')}: the first is in {named} of row {row} (rows count from 0). Fill it "
        "in or drop the row; TableEncoder fills gaps in"
    )


def _first_gap(X: Any) -> tuple[int, int] | None:
    """Row and column of the first number that is not finite; None if all are, or X is not an array or pandas frame."""
    if scipy.sparse.issparse(X):
        entries = X.tocoo()
        bad = np.flatnonzero(~np.isfinite(entries.data))
        return min((int(entries.row[i]), int(entries.col[i])) for i in bad) if len(bad) else None
    foreign = is_foreign(X)
    if not (foreign or isinstance(X, np.ndarray) or hasattr(X, "iloc")) or len(X.shape) != 2:
        return None
    for part in row_ranges(X.shape[0], FIRST_GAP_ROWS):
        some = to_numpy(X[part, :]) if foreign else X[part] if isinstance(X, np.ndarray) else X.iloc[part]
        places = np.argwhere(~np.isfinite(np.asarray(some, dtype=np.float64)))
        if len(places):
            return part.start + int(places[0, 0]), int(places[0, 1])
    return None


def finite(block: Array) -> Array:
    """Return the block unchanged if its numbers are finite and can be squared, else raise.

    If the block is used right before or after, it is in the cache, and the check needs no read from memory.
    """
    values = block.data if scipy.sparse.issparse(block) else block
    if values.dtype == object or 0 in values.shape or within(values, LARGEST[itemsize(values)]):
        return block
    try:
        assert_all_finite(to_numpy(values), input_name="X")
    except ValueError as error:
        raise NotFiniteError(str(error)) from None
    column = _largest_column(block)
    largest = float(np.abs(to_numpy(values)).max())
    raise ScaleError(column, too_large(largest, LARGEST[itemsize(values)]))


def finite_rows(block: Array, start: int) -> Array:
    """`finite` for a block whose first row has number `start`; an error names the block's rows and the first NaN or
    infinity in them."""
    try:
        return finite(block)
    except ValueError as error:
        rows, place = f"rows {start} to {start + block.shape[0] - 1}: {error}", _first_gap(block)
        if place is not None:
            rows = f"{rows.rstrip('.')}: the first is in column {place[1]} of row {start + place[0]}"
        raise ValueError(rows) from error


class FiniteCheck:
    """A check of every block during a pass: its numbers must be finite and small enough to be squared.

    On the host a block is checked at once.  On a device only the largest and the smallest number of each block are
    computed, and these are checked after the pass: reading a value earlier would make the host wait for the device.
    """

    def __init__(self) -> None:
        # First row, last row + 1, largest and smallest number of each block on a device; NaN if the block has one.
        self._extremes: list[tuple[int, int, Array, Array]] = []

    def __call__(self, block: Array, start: int) -> Array:
        """The block, whose first row has number `start`, unchanged."""
        if not is_foreign(block):
            return self.on_host(block, start)
        self.on_device(block, start)
        xp = namespace(block)
        self._extremes.append((start, start + int(block.shape[0]), xp.max(block), xp.min(block)))
        return block

    def on_host(self, block: Array, start: int) -> Array:
        """The block, checked now."""
        return finite(block)

    def on_device(self, block: Array, start: int) -> None:
        """What else is computed of a block on a device."""

    def finish(self) -> None:
        """Raise if a block on a device had a value that cannot be used; the error names the rows of that block."""
        if not self._extremes:
            return
        starts, stops, largest, smallest = zip(*self._extremes, strict=True)
        values = to_numpy(namespace(largest[0]).stack([*largest, *smallest]))
        limit = LARGEST[itemsize(values)]
        for start, stop, value in zip(starts, stops, np.abs(values).reshape(2, -1).max(axis=0), strict=True):
            if not np.isfinite(value):
                raise NotFiniteError(f"rows {start} to {stop - 1}: Input X contains NaN, infinity or a value too large")
            if value > limit:
                raise NotFiniteError(f"rows {start} to {stop - 1}: X {too_large(float(value), limit)}")


def too_large(value: float, limit: float) -> str:
    """What is wrong with a value beyond the limit, and what to do."""
    wider = " or give float64" if limit == LARGEST[4] else ""
    return f"reaches {value:.3g}, whose square is too large to compute with: scale it{wider}"


def within(values: Array, limit: float) -> bool:
    """Whether all values lie between -limit and limit; False if one is NaN."""
    if is_numpy(values):
        # If the sum of squares (one BLAS call) is below limit^2, so is every square; the factor 1/2 allows for
        # rounding.  Only float32 and float64 are tested like this: in float16, for example, the sum would overflow.
        if values.flags.c_contiguous and values.dtype in FLOATS and np.vdot(values, values) < limit**2 / 2:
            return True
        return float(values.max()) <= limit and float(values.min()) >= -limit
    return bool(namespace(values).max(namespace(values).abs(values)) <= limit)


def unit_of(rows: Array) -> float:
    """A power of two; divided by it, the largest number is of order one.  It is 1 where FAR_FROM_ONE allows."""
    values = rows.data if scipy.sparse.issparse(rows) else rows
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    return 1.0 if largest < SMALLEST[8] else unit_of_variances(largest**2)


def unit_of_variances(largest: float) -> float:
    """The unit of rows whose largest variance is given: divided by its square, variances are of order one.

    The unit is a power of two, so the division is exact.
    """
    if largest == 0 or FAR_FROM_ONE**-2 < largest < FAR_FROM_ONE**2:
        return 1.0
    return 2.0 ** round(math.log2(largest) / 2)


def checked_weights(weights: np.ndarray) -> np.ndarray:
    """Return the weights unchanged if they can be summed and squared, else raise."""
    largest = float(weights.max(initial=0.0))
    if largest > LARGEST[8] or 0 < largest < SMALLEST[8]:
        raise ValueError(
            f"the largest sample_weight is {largest:.3g}, too {'large' if largest > 1 else 'small'} to compute with: "
            "only their ratios and their sum count, so scale them"
        )
    return weights


def _largest_column(block: Array) -> int:
    if scipy.sparse.issparse(block):
        entries = block.tocoo()
        return int(entries.col[np.argmax(np.abs(entries.data))])
    return int(np.argmax(np.abs(to_numpy(block)).max(axis=0)))


def check_spread(rows: Array) -> None:
    """Refuse rows that differ, but by so little that the squares of their differences underflow."""
    if 0 in rows.shape:
        return
    if scipy.sparse.issparse(rows):
        rows = rows.tocsc()
        spread = (rows.max(axis=0) - rows.min(axis=0)).toarray().ravel()
    else:
        xp = namespace(rows)
        spread = to_numpy(xp.max(rows, axis=0) - xp.min(rows, axis=0))
    what = "varies by"
    if not spread.any():  # all rows are equal, so kernel values depend only on the length of that one row
        what = "is away from zero by"
        spread = np.abs(to_numpy(dense(rows[:1, :])).ravel())
    column = int(np.argmax(spread))
    largest = float(spread[column])
    if 0 < largest < SMALLEST[itemsize(rows)]:
        wider = " or give float64" if itemsize(rows) == 4 else ""
        raise ScaleError(
            column,
            f"{what} {largest:.3g}, no other column by more, and its square is too small to compute with: scale "
            f"the columns{wider}",
        )


def check_gram(gram: Array) -> None:
    """Refuse a gram that is not square or not symmetric: the error names two entries that should be equal."""
    if gram.shape[0] != gram.shape[1]:
        raise ValueError(
            f"Precomputed matrix must be a square matrix. Input is a {gram.shape[0]}x{gram.shape[1]} matrix."
        )
    found = asymmetry(gram)
    if found is not None:
        raise ValueError(f"{found}. Give k(x, y) for all pairs of training rows, or (K + K.T) / 2")


def asymmetry(gram: Array) -> str | None:
    """A sentence naming two entries of a square gram that differ by more than rounding; None if it is symmetric."""
    values = gram.data if scipy.sparse.issparse(gram) else gram
    allowed = ASYMMETRY[itemsize(values)] * _largest(values)
    n = gram.shape[0]
    for rows in row_ranges(n, block_rows(n, n, itemsize(values))):  # in blocks, to need no second matrix of this size
        # Compare entries below the diagonal with their mirror images.  A NaN passes here; `finite` refuses it later.
        with np.errstate(invalid="ignore"):
            apart = abs(gram[rows, : rows.stop] - gram[: rows.stop, rows].T)
        if _largest(apart) > allowed:
            apart = to_numpy(dense(apart))
            i, j = np.unravel_index(np.argmax(apart), apart.shape)
            i += rows.start
            pair = f"K[{i}, {j}] is {float(gram[i, j]):.6g} and K[{j}, {i}] is {float(gram[j, i]):.6g}"
            return f"a precomputed kernel matrix must be symmetric: {pair}"
    return None


def _largest(values: Array) -> float:
    """The largest absolute value; zero if there are no values."""
    if 0 in values.shape:
        return 0.0
    xp = namespace(values)
    return max(float(xp.max(values)), -float(xp.min(values)))
