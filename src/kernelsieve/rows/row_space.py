"""Few rows of very many columns, in the space that the rows themselves span.

Distances and inner products are all that many kernels see of rows, and N rows have them in N coordinates.  With c an
origin (zero where lengths count, too) and the gram of X - c, N x N,

    (X - c)(X - c)' = U L U',      Z = U L^1/2,      |z_i - z_j| = |x_i - x_j|

so a fit on Z is one on X, and its points are brought back by  p = c + z L^-1/2 U' (X - c).  The rows are read once to
get there and once to come back, in place of some twenty times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, origin_of, take_rows, top_eigh
from ..threads import row_ranges

COLUMNS_AT_ONCE = 4096  # which stay in the cache
# Distances are rounded by the largest eigenvalue: by so many squared widths, and they are off by 1e-10 of one.
MOST_WIDTHS = 1e4


@dataclass(frozen=True)
class ShortSide:
    """Rows in their own space, and the way back from it."""

    X: np.ndarray  # (N, d)
    origin: np.ndarray | None  # (d,)
    rows: np.ndarray  # (N, r), Z
    mixing: np.ndarray  # (N, r), U L^-1/2
    largest: float  # eigenvalue

    def lifted(self, points: Array, support: np.ndarray | None) -> Array:
        """Points as rows of d columns: the rows themselves where they are rows."""
        if support is not None:
            return take_rows(self.X, support)
        weights = np.asarray(points, dtype=np.float64) @ self.mixing.T  # (m, N)
        lifted = weights @ self.X
        if self.origin is not None:
            lifted += (1.0 - weights.sum(axis=1))[:, None] * self.origin
        return lifted.astype(points.dtype, copy=False)


def short_side(X: np.ndarray, *, about_origin: bool) -> ShortSide | None:
    """Rows in their own space, or None where they have none; `about_origin` where only differences count."""
    n, d = X.shape
    origin = origin_of(X) if about_origin else None
    gram = np.zeros((n, n))
    for part in row_ranges(d, COLUMNS_AT_ONCE):
        block = X[:, part] - (0.0 if origin is None else origin[part])
        gram += block @ block.T
    values, vectors = top_eigh(gram)
    real = values > n * np.finfo(np.float64).eps * max(float(values[0]), 0.0)
    if not real.any() or not np.isfinite(values[0]):
        return None
    roots = np.sqrt(values[real])
    return ShortSide(X, origin, vectors[:, real] * roots, vectors[:, real] / roots, float(values[0]))
