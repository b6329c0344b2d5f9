"""Swaps after a targeted choice: of all pairs (a row that goes, a row that comes), the one that gains most.

The chosen rows S span a space with orthonormal basis functions F (n, m), in which the targets have coordinates C
(m, M); the residual kernel has diagonal d, and T (n, M) is what is left of the targets.  What of the space belongs to
row i alone is the direction orthogonal to all other rows of S, with values g_i = F q_i on the rows,

    q_i = y_i / |y_i|,      y_i the columns of F_S^-1,      b_i = q_i' C

so without row i the targets lose |b_i|^2, and row j then brings them

    |T_j + g_ij b_i|^2 / (d_j + g_ij^2)

A reflection that moves q_i to the last place turns "remove i" into "drop the last column"; being orthogonal, it costs
no digits, however often.  The explained part of the targets rises with every swap, so there is an end to them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg

from ..solvers.greedy import Residual, append

NO_GAIN = 1e-9  # a swap that gains less, as a share of what is explained, is none


def swap(state: Residual, column: Callable[[int], np.ndarray], n_swaps: int) -> int:
    """Up to `n_swaps` swaps, in place; their number.  Each costs a kernel column and O(n m (m + M))."""
    for count in range(n_swaps if state.chosen else 0):
        place, j, direction = _best_pair(state)
        if direction is None:
            return count
        _remove(state, place, direction)
        pivot = float(np.sqrt(state.diagonal[j]))
        append(state, j, (column(j) - state.filled @ state.filled[j]) / pivot, pivot)
    return n_swaps


def _best_pair(state: Residual) -> tuple[int, int, np.ndarray | None]:
    """The place that goes, the row that comes, and the direction of the former; None where no pair gains."""
    assert state.targets is not None
    assert state.target_coef is not None
    basis, coef, left = state.filled[state.chosen], state.target_coef[: len(state.chosen)], state.targets
    inverse, *_ = scipy.linalg.lstsq(basis, np.eye(len(basis)), check_finite=False)
    directions = inverse / np.linalg.norm(inverse, axis=0)
    lost = directions.T @ coef  # b, (m, M)
    loss = np.einsum("ij,ij->i", lost, lost)
    own = state.filled @ directions  # g, (n, m)
    brought = own * (2.0 * (left @ lost.T) + own * loss) + np.einsum("ij,ij->i", left, left)[:, None]
    diagonal = state.diagonal[:, None] + own * own
    gain = np.where(diagonal > state.floor, brought / np.maximum(diagonal, state.floor), 0.0) - loss
    gain[state.chosen] = -np.inf
    j, place = np.unravel_index(int(np.argmax(gain)), gain.shape)
    worthwhile = gain[j, place] > NO_GAIN * float(np.sum(coef**2))
    return int(place), int(j), directions[:, place] if worthwhile else None


def _remove(state: Residual, place: int, direction: np.ndarray) -> None:
    """The row at `place` goes, and its direction leaves the basis."""
    assert state.targets is not None
    assert state.target_coef is not None
    last = len(state.chosen) - 1
    mirror = direction.copy()
    mirror[last] += np.copysign(1.0, direction[last])
    mirror /= np.linalg.norm(mirror)
    factor, coef = state.filled, state.target_coef[: last + 1]
    factor -= np.outer(factor @ mirror, 2.0 * mirror)
    coef -= np.outer(2.0 * mirror, mirror @ coef)
    dropped = factor[:, last]
    state.targets += dropped[:, None] * coef[last]
    state.diagonal += dropped * dropped
    state.chosen.pop(place)
    state.diagonal[state.chosen] = 0.0
