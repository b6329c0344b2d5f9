"""Numbers that can be worked with: what is squared, multiplied and summed up must neither overflow nor vanish.

Kernels square the rows' differences, and moments and solvers multiply variances with each other.  Where rows enter,
and nowhere else, their size is looked at:

    |x|              <= 1e60 (float32: 1e15)     so that |x|^2, and products of two variances, are finite
    largest spread   >= 1e-60 (float32: 1e-15)   of a column, so that they are not lost below the smallest number

Rows beyond are refused by the name of their column: they are in some other unit than anybody counts in.  All rows
between give the answer that they give in other units.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils import assert_all_finite

from ..arrays import Array, is_numpy, itemsize, namespace, to_numpy

FAR_FROM_ONE = 1e6
LARGEST = {4: 1e15, 8: 1e60}  # by the bytes of a number
SMALLEST = {4: 1e-15, 8: 1e-60}


class ScaleError(ValueError):
    """Columns whose numbers are too large or too small to be squared."""

    def __init__(self, column: int, problem: str) -> None:
        self.column = column
        self.problem = problem
        super().__init__(f"column {column} of X {problem}")

    def named(self, names: Any) -> ScaleError:
        """The same, with the column's name where there is one."""
        if names is None or self.column >= len(names):
            return self
        named = ScaleError(self.column, self.problem)
        named.args = (f"column {str(names[self.column])!r} {self.problem}",)
        return named


def finite(block: Array) -> Array:
    """The block itself, after making sure that its numbers are finite and can be squared.

    Done on blocks that are about to be used, this costs a read from the cache, not from memory.
    """
    values = block.data if scipy.sparse.issparse(block) else block
    if 0 in values.shape or within(values, LARGEST[itemsize(values)]):
        return block
    assert_all_finite(to_numpy(values), input_name="X")
    column = _largest_column(block)
    largest = float(np.abs(to_numpy(values)).max())
    wider = " or give float64" if itemsize(values) == 4 else ""
    raise ScaleError(column, f"reaches {largest:.3g}, whose square is too large to compute with: scale it{wider}")


def within(values: Array, limit: float) -> bool:
    """Whether all are from -limit to limit; not where one is NaN."""
    if is_numpy(values):
        return float(values.max()) <= limit and float(values.min()) >= -limit
    return bool(namespace(values).max(namespace(values).abs(values)) <= limit)


def unit_of(rows: Array) -> float:
    """A power of two in which the numbers are of order one; 1 where they are not far from it anyway."""
    values = rows.data if scipy.sparse.issparse(rows) else rows
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    return (
        1.0 if largest < SMALLEST[8] or 1 / FAR_FROM_ONE < largest < FAR_FROM_ONE else 2.0 ** round(math.log2(largest))
    )


def unit_of_variances(largest: float) -> float:
    """`unit_of` rows whose largest variance this is: in its square, variances are of order one, and exact."""
    if largest == 0 or FAR_FROM_ONE**-2 < largest < FAR_FROM_ONE**2:
        return 1.0
    return 2.0 ** round(math.log2(largest) / 2)


def checked_weights(weights: np.ndarray) -> np.ndarray:
    """The weights themselves, after making sure that they, too, can be summed up and squared."""
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
    """Refuse rows that differ, but by so little that the squares of their differences vanish."""
    if 0 in rows.shape:
        return
    if scipy.sparse.issparse(rows):
        rows = rows.tocsc()
        spread = (rows.max(axis=0) - rows.min(axis=0)).toarray().ravel()
    else:
        xp = namespace(rows)
        spread = to_numpy(xp.max(rows, axis=0) - xp.min(rows, axis=0))
    what = "varies by"
    if not spread.any():  # all rows are one: its own length is what kernels see
        what = "is away from zero by"
        spread = np.abs((rows[:1].toarray() if scipy.sparse.issparse(rows) else to_numpy(rows[:1, :])).ravel())
    column = int(np.argmax(spread))
    largest = float(spread[column])
    if 0 < largest < SMALLEST[itemsize(rows)]:
        wider = " or give float64" if itemsize(rows) == 4 else ""
        raise ScaleError(
            column,
            f"{what} {largest:.3g} and no other by more, whose square is too small to compute with: scale "
            f"the columns{wider}",
        )
