"""A Cholesky factor that follows a set: H_AA = L L' while members enter and leave A.

Entering members add rows at the end; when some leave, only the block behind the first of them changes:

    entering E:   R = L^-1 H_AE,   S = H_EE - R'R = C C',   L <- [[L, 0], [R', C]]
    leaving:      rows of L without theirs; T, what is left behind the first of them, makes way for the factor of T T'

A candidate e is in the span of A where S_ee is rounding.  S_ee = |x_e - X_A z|^2, z = H_AA^-1 H_Ae, is what is left
when the terms have cancelled, so its rounding is that of H_ee + sum_i z_i^2 H_ii: far more than H_ee's where A is
ill-conditioned.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dpstrf, dtrtrs

# Share of H_ee + sum_i z_i^2 H_ii that must be left of a candidate outside the span of the others: less is rounding.
DEPENDENT = 1e-14
# Pivots so many times above what is rounding need no pivoting to be trusted: without it rounding grows.
CLEARLY_ABOVE = 1e4


class ActiveCholesky:
    """L with L L' = H_AA, lower triangular."""

    def __init__(self) -> None:
        self.lower = np.zeros((0, 0), order="F")

    def __len__(self) -> int:
        return len(self.lower)

    def enter(self, cross: np.ndarray, block: np.ndarray, tolerance: float = DEPENDENT) -> np.ndarray:
        """Append members with H_AE = `cross` and H_EE = `block`; those that entered, in the order they did.

        One stays out of which no more than the share `tolerance` is outside the span of the others.
        """
        m = len(self.lower)
        reduced, scale = cross, np.diagonal(block)
        if m:
            reduced = dtrtrs(self.lower, cross, lower=1)[0]
            shares = dtrtrs(self.lower, reduced, lower=1, trans=1)[0]
            scale = scale + np.einsum("ij,ij->i", self.lower, self.lower) @ shares**2
        order, corner = _independent(block - reduced.T @ reduced if m else block, tolerance * scale)
        size = m + len(order)
        lower = np.zeros((size, size), order="F")
        lower[:m, :m] = self.lower
        lower[m:, :m] = reduced[:, order].T
        lower[m:, m:] = corner
        self.lower = lower
        return order

    def enter_one(self, cross: np.ndarray, own: float, tolerance: float = DEPENDENT) -> bool:
        """`enter` for a single candidate e, of H_Ae = `cross` and H_ee = `own`: no matrix to look through."""
        m = len(self.lower)
        row, left, scale = cross, own, own
        if m:
            row = dtrtrs(self.lower, cross, lower=1)[0]
            share = dtrtrs(self.lower, row, lower=1, trans=1)[0]
            left = own - row @ row
            scale = own + np.einsum("ij,ij,i", self.lower, self.lower, share**2)
        if not left > tolerance * scale:
            return False
        lower = np.zeros((m + 1, m + 1), order="F")
        lower[:m, :m] = self.lower
        lower[m, :m] = row
        lower[m, m] = np.sqrt(left)
        self.lower = lower
        return True

    def leave(self, keep: np.ndarray) -> None:
        """Drop the members that the mask `keep` leaves out."""
        first = int(keep.argmin())
        kept = self.lower[keep]
        lower = np.zeros((len(kept), len(kept)), order="F")
        lower[:, :first] = kept[:, :first]
        if len(kept) > first:
            behind = kept[first:, first:]
            lower[first:, first:] = _factor_of_product(behind)
        self.lower = lower

    def solve(self, right: np.ndarray) -> np.ndarray:
        """H_AA^-1 right."""
        return dpotrs(self.lower, right, lower=1)[0] if len(right) else right


def _factor_of_product(matrix: np.ndarray) -> np.ndarray:
    """L with L L' = T T', T = `matrix`."""
    lower, failed = dpotrf(matrix @ matrix.T, lower=1, clean=1)
    return np.linalg.qr(matrix.T)[1].T if failed else lower  # the product squares the condition; QR is slower


def _independent(schur: np.ndarray, floor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Members of a (positive semi-definite) Schur complement with pivots above `floor`, and their factor."""
    above = np.flatnonzero(np.diagonal(schur) > floor)
    if len(above) <= 1:
        return above, np.sqrt(schur[above[:, None], above])
    if len(above) == len(schur):  # mostly they are all independent, which the plain factor shows several times faster
        corner, failed = dpotrf(schur, lower=1, clean=1)
        if not failed and np.min(np.diagonal(corner)) ** 2 > CLEARLY_ABOVE * floor.max():
            return above, corner
    factor, order, rank, _ = dpstrf(schur[above[:, None], above], lower=1, tol=floor[above].max())
    return above[order[:rank] - 1], np.tril(factor[:rank, :rank])
