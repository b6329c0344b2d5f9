"""Pivoted Cholesky: a kernel matrix as coordinates of its rows, from a few of its columns.

    K = G G' + R,    R positive semi-definite,    max R_ii <= tol max K_ii

Each step takes the row j with the largest residual diagonal,

    g = (K_.j - G G_j')/sqrt(R_jj),    G <- [G, g],    diag R <- diag R - g^2

so row i of G holds the coordinates of phi(x_i) in an orthonormal basis of the span of the chosen phi(x_j).  With q
columns it reads n q kernel values and costs O(n q^2); nothing n x n is ever formed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# Residual diagonal, relative to the largest k(x, x), at which the rest of the kernel is left out.
TOLERANCE = 1e-10
FIRST_CAPACITY = 128  # columns made room for at first; doubled when they do not suffice


@dataclass(frozen=True)
class PivotedFactor:
    """K = G G' up to a residual whose diagonal is known."""

    factor: np.ndarray  # (n, q), C-contiguous: G
    pivots: np.ndarray  # (q,) rows in order of choice
    residual: np.ndarray  # (n,) diagonal of K - G G', at least 0


def pivoted_cholesky(
    column: Callable[[int], np.ndarray],
    diagonal: np.ndarray,
    *,
    tol: float = TOLERANCE,
    max_rank: int | None = None,
) -> PivotedFactor:
    """Factor of a positive semi-definite matrix that is known by its diagonal and, on demand, its columns.

    Parameters
    ----------
    column : callable
        column(j) is the j-th column of K, of shape (n,).
    diagonal : ndarray of shape (n,)
    tol : float
        Stop when the residual diagonal is nowhere above this share of the largest diagonal value.
    max_rank : int, optional
        Stop at this many columns.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).standard_normal((50, 3))
    >>> gram = rows @ rows.T
    >>> found = pivoted_cholesky(lambda j: gram[:, j], np.diagonal(gram))
    >>> found.factor.shape
    (50, 3)
    >>> bool(np.allclose(found.factor @ found.factor.T, gram))
    True
    """
    residual = np.array(diagonal, dtype=np.float64)
    if not residual.max(initial=0.0) > 0:
        raise ValueError("the kernel is zero or negative on every row's own diagonal: nothing to factorise")
    n = len(residual)
    floor = tol * residual.max()
    max_rank = n if max_rank is None else min(max_rank, n)
    factor = np.empty((n, min(max_rank, FIRST_CAPACITY)), order="F")
    pivots: list[int] = []
    while (k := len(pivots)) < max_rank:
        j = int(residual.argmax())
        if residual[j] <= floor:
            break
        if k == factor.shape[1]:
            factor = _with_room(factor, min(max_rank, 2 * k))
        g = column(j) - factor[:, :k] @ factor[j, :k]
        g /= np.sqrt(residual[j])
        factor[:, k] = g
        residual -= g * g
        residual[j] = 0.0
        pivots.append(j)
    rows = np.asarray(pivots, dtype=np.intp)
    return PivotedFactor(np.ascontiguousarray(factor[:, : len(rows)]), rows, np.maximum(residual, 0.0))


def _with_room(factor: np.ndarray, capacity: int) -> np.ndarray:
    wider = np.empty((factor.shape[0], capacity), order="F")
    wider[:, : factor.shape[1]] = factor
    return wider
