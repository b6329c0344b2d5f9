"""A Cholesky factor that follows a set: H_AA = L L' while members enter and leave A.

Entering members add rows at the end; when some leave, only the block behind the first of them changes:

    entering E:   R = L^-1 H_AE,   S = H_EE - R'R = C C',   L <- [[L, 0], [R', C]]
    leaving:      rows of L without theirs; T, what is left behind the first of them, makes way for the factor of T T'

Pivots never fall below `DEPENDENT` H_jj: entering asks for it, and leaving can only raise those behind.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrs, dpstrf, dtrtrs

# Share of a member's own H_jj that must be left of it outside the span of the others: less is rounding.
DEPENDENT = 1e-12


class ActiveCholesky:
    """L with L L' = H_AA, lower triangular."""

    def __init__(self) -> None:
        self.lower = np.zeros((0, 0), order="F")

    def __len__(self) -> int:
        return len(self.lower)

    def enter(self, cross: np.ndarray, block: np.ndarray, tolerance: float = DEPENDENT) -> np.ndarray:
        """Append members with H_AE = `cross` and H_EE = `block`; those that entered, in the order they did.

        A member of which no more than the share `tolerance` is outside the span of the others stays out.
        """
        m = len(self.lower)
        reduced = dtrtrs(self.lower, cross, lower=1)[0] if m else cross
        schur = block - reduced.T @ reduced if m else block
        order, corner = _independent(schur, tolerance * np.diagonal(block))
        size = m + len(order)
        lower = np.zeros((size, size), order="F")
        lower[:m, :m] = self.lower
        lower[m:, :m] = reduced[:, order].T
        lower[m:, m:] = corner
        self.lower = lower
        return order

    def leave(self, keep: np.ndarray) -> None:
        """Drop the members that the mask `keep` leaves out."""
        first = int(np.argmin(keep))
        kept = self.lower[keep]
        lower = np.zeros((len(kept), len(kept)), order="F")
        lower[:, :first] = kept[:, :first]
        if len(kept) > first:
            behind = kept[first:, first:]
            lower[first:, first:] = np.linalg.cholesky(behind @ behind.T)
        self.lower = lower

    def solve(self, right: np.ndarray) -> np.ndarray:
        """H_AA^-1 right."""
        return dpotrs(self.lower, right, lower=1)[0] if len(right) else right


def _independent(schur: np.ndarray, floor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Members of a (positive semi-definite) Schur complement with pivots above `floor`, and their factor."""
    enough = np.diagonal(schur).max() > floor.max()  # of the first pivot LAPACK does not ask this
    if len(schur) == 1 or not enough:
        return np.arange(int(enough)), np.sqrt(schur) if enough else np.zeros((0, 0))
    factor, order, rank, _ = dpstrf(schur, lower=1, tol=floor.max())
    return order[:rank] - 1, np.tril(factor[:rank, :rank])
