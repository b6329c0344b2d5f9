"""A precomputed gram where it enters: square, and k(x, y) = k(y, x).

Half of a gram, or kernel values of one set of rows with another, would be read as a kernel that nobody has: eigenvalues
of its symmetric part, or of one triangle, depending on who looks.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse

from ..arrays import Array, is_numpy, itemsize, namespace, to_numpy
from ..kernels.base import dense
from ..threads import row_ranges

# |k(x, y) - k(y, x)|, as a share of the largest kernel value, that counts as rounding, by the bytes of a number.
ASYMMETRY = {4: 1e-3, 8: 1e-6}
BLOCK_ROWS = 256  # compared at a time: nothing of the size of the gram is made


def check_gram(gram: Array) -> None:
    """Refuse a gram that is not square, or not symmetric: the error names two entries that should be equal."""
    if gram.shape[0] != gram.shape[1]:
        raise ValueError(
            f"Precomputed matrix must be a square matrix. Input is a {gram.shape[0]}x{gram.shape[1]} matrix."
        )
    told = asymmetry(gram)
    if told is not None:
        raise ValueError(f"{told}. Give k(x, y) for all pairs of training rows, or (K + K.T) / 2")


def asymmetry(gram: Array) -> str | None:
    """In words, two entries of a square gram that should be equal and differ by more than rounding; None without."""
    values = gram.data if scipy.sparse.issparse(gram) else gram
    allowed = ASYMMETRY[itemsize(values)] * _largest(values)
    for rows in row_ranges(gram.shape[0], BLOCK_ROWS):
        # below the diagonal against beyond it; NaN is not larger than anything, and refused in its own words later
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
    """The largest absolute value, zero where there is none."""
    if scipy.sparse.issparse(values):
        values = values.data
    if 0 in values.shape:
        return 0.0
    if is_numpy(values):
        return max(float(values.max()), -float(values.min()))
    xp = namespace(values)
    return float(xp.max(xp.abs(values)))
