"""The support of a lasso while members enter and leave it: coefficients, signs and a Cholesky factor of H over them.

Moves keep the signs: a coefficient that reaches zero leaves.  `lasso` decides which candidates enter.

The factor follows the set A, H_AA = L L'.  Entering members add rows at the end; when some leave, only the block behind
the first of them changes:

    entering E:   R = L^-1 H_AE,   S = H_EE - R'R = C C',   L <- [[L, 0], [R', C]]
    leaving:      their rows of L are removed; T, what is left behind the first of them, is replaced by a factor of T T'

A candidate e is in the span of A if S_ee is rounding.  S_ee = |x_e - X_A z|^2, z = H_AA^-1 H_Ae, is computed with
cancellation, so its rounding error is that of H_ee + sum_i z_i^2 H_ii, which is far more than H_ee's if A is
ill-conditioned.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dpstrf, dtrtrs

from ..numerics import FEW_ROUNDINGS
from .quadratic import Quadratic


class Support:
    """Members, their coefficients and signs, and the Cholesky factor of H over them."""

    def __init__(self) -> None:
        self.members = np.zeros(0, dtype=np.intp)
        self.values = np.zeros(0)
        self.signs = np.zeros(0)
        self.factor = ActiveCholesky()

    @classmethod
    def of(cls, quadratic: Quadratic, start: np.ndarray | None, weights: np.ndarray) -> Support:
        """The support of `start`, without candidates that are barred or depend on the others."""
        support = cls()
        if start is None:
            return support
        rows = np.flatnonzero((start != 0) & np.isfinite(weights))
        if len(rows):
            values = start[rows]
            support.enter(rows, np.sign(values), np.zeros((0, len(rows))), quadratic.block(rows, rows))
            support.values = start[support.members]
        return support

    def enter(
        self,
        rows: np.ndarray,
        signs: np.ndarray,
        cross: np.ndarray,
        block: np.ndarray,
        tolerance: float = FEW_ROUNDINGS,
    ) -> int:
        """Add those of `rows` that are outside the span of the support, with coefficient 0; return their number."""
        order = self.factor.enter(cross, block, tolerance)
        self.members = np.concatenate([self.members, rows[order]])
        self.values = np.concatenate([self.values, np.zeros(len(order))])
        self.signs = np.concatenate([self.signs, signs[order]])
        return len(order)

    def enter_one(self, row: int, sign: float, cross: np.ndarray, own: float) -> bool:
        """`enter` for a single row, the most frequent case; return whether it entered."""
        if not self.factor.enter_one(cross, own):
            return False
        self.members = np.append(self.members, row)
        self.values = np.append(self.values, 0.0)
        self.signs = np.append(self.signs, sign)
        return True

    def leave(self, keep: np.ndarray) -> None:
        self.members, self.values, self.signs = self.members[keep], self.values[keep], self.signs[keep]
        self.factor.leave(keep)

    def settle(self, pull: np.ndarray) -> int:
        """Move to the minimiser on the support, given `pull` = c_A - alpha w_A s_A; members that reach zero leave."""
        n_steps = 0
        while len(pull):
            n_steps += 1
            move = self.factor.solve(pull)
            target = self.values + move
            crossing = (target * self.signs <= 0).nonzero()[0]
            if not crossing.size:
                self.values = target
                break
            values = self.values[crossing]  # zero for new members that would move against their sign
            reach = np.divide(-values, move[crossing], out=np.zeros(len(values)), where=values != 0)
            step = reach.min()
            self.values = self.values + step * move
            # the quadratic is exact, so the pull shrinks in proportion to the length of the step
            pull = (1 - step) * pull
            keep = _all_but(crossing[reach <= step], len(move))
            pull = pull[keep]
            self.leave(keep)
        return n_steps

    def exchange(self, row: int, sign: float, cross: np.ndarray, own: float) -> bool:
        """Let `row`, in the span of the support, take a member's place: x_row = X_A z, so moving along (1, -z) leaves
        the quadratic alone and lowers the penalty until a member is at zero.  False where none gets there."""
        move = sign * self.factor.solve(cross)
        towards_zero = (self.values * move > 0).nonzero()[0]
        if not towards_zero.size:
            return False
        reach = self.values[towards_zero] / move[towards_zero]
        step = reach.min()
        self.values = self.values - step * move
        keep = _all_but(towards_zero[reach <= step], len(move))
        self.leave(keep)
        if not self.enter_one(row, sign, cross[keep], own):
            return False
        self.values[-1] = sign * step
        return True


def _all_but(places: np.ndarray, count: int) -> np.ndarray:
    """All of `count` places but these, ascending."""
    keep = np.ones(count, dtype=bool)
    keep[places] = False
    return keep


class ActiveCholesky:
    """L with L L' = H_AA, lower triangular."""

    def __init__(self) -> None:
        self.lower = np.zeros((0, 0), order="F")

    def __len__(self) -> int:
        return len(self.lower)

    def enter(self, cross: np.ndarray, block: np.ndarray, tolerance: float = FEW_ROUNDINGS) -> np.ndarray:
        """Append members with H_AE = `cross` and H_EE = `block`; return those that entered, in order.

        A candidate stays out if at most the share `tolerance` of it is outside the span of the members.
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

    def enter_one(self, cross: np.ndarray, own: float, tolerance: float = FEW_ROUNDINGS) -> bool:
        """`enter` for a single candidate e, with H_Ae = `cross` and H_ee = `own`, without a factorisation."""
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
    # forming the product squares the condition number; QR is slower
    return np.linalg.qr(matrix.T)[1].T if failed else lower


def _independent(schur: np.ndarray, floor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Members of a (positive semi-definite) Schur complement with pivots above `floor`, and their factor."""
    above = np.flatnonzero(np.diagonal(schur) > floor)
    if len(above) <= 1:
        return above, np.sqrt(schur[above[:, None], above])
    if len(above) == len(schur):  # usually all are independent, which an unpivoted factor shows in half of the time
        corner, failed = dpotrf(schur, lower=1, clean=1)
        # Pivots far above rounding are reliable without pivoting; others are not, because rounding grows.
        if not failed and np.min(np.diagonal(corner)) ** 2 > 1e4 * floor.max():
            return above, corner
    factor, order, rank, _ = dpstrf(schur[above[:, None], above], lower=1, tol=floor[above].max())
    return above[order[:rank] - 1], np.tril(factor[:rank, :rank])
