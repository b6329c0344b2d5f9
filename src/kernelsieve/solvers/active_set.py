"""The support of a lasso while members enter and leave it: coefficients, signs and a factor of H over them.

Moves keep the signs: a coefficient that reaches zero leaves.  `lasso` says who enters.
"""

from __future__ import annotations

import numpy as np

from .cholesky import DEPENDENT, ActiveCholesky
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
        """The support of `start`, less what is barred or in the span of the rest of it."""
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
        self, rows: np.ndarray, signs: np.ndarray, cross: np.ndarray, block: np.ndarray, tolerance: float = DEPENDENT
    ) -> int:
        """Take in those of `rows` that are outside the span of the support, with coefficient 0; how many they are."""
        order = self.factor.enter(cross, block, tolerance)
        self.members = np.concatenate([self.members, rows[order]])
        self.values = np.concatenate([self.values, np.zeros(len(order))])
        self.signs = np.concatenate([self.signs, signs[order]])
        return len(order)

    def enter_one(self, row: int, sign: float, cross: np.ndarray, own: float) -> bool:
        """`enter` for a single row, which is most of them; whether it did."""
        if not self.factor.enter_one(cross, own):
            return False
        self.members = _appended(self.members, row)
        self.values = _appended(self.values, 0.0)
        self.signs = _appended(self.signs, sign)
        return True

    def leave(self, keep: np.ndarray) -> None:
        self.members, self.values, self.signs = self.members[keep], self.values[keep], self.signs[keep]
        self.factor.leave(keep)

    def settle(self, pull: np.ndarray) -> int:
        """Move to the minimiser on the support, given `pull` = c_A - alpha w_A s_A; who reaches zero leaves."""
        n_steps = 0
        while len(pull):
            n_steps += 1
            move = self.factor.solve(pull)
            target = self.values + move
            crossing = (target * self.signs <= 0).nonzero()[0]
            if not crossing.size:
                self.values = target
                break
            values = self.values[crossing]  # zero for those of a batch that entered and would go the wrong way
            reach = np.divide(-values, move[crossing], out=np.zeros(len(values)), where=values != 0)
            step = reach.min()
            self.values = self.values + step * move
            pull = (1 - step) * pull  # the quadratic is exact: what is left to go is left of the pull
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


def _appended(array: np.ndarray, value: float) -> np.ndarray:
    """The array and one number more: a third of the time that numpy's own way takes for a dozen numbers."""
    longer = np.empty(len(array) + 1, dtype=array.dtype)
    longer[:-1] = array
    longer[-1] = value
    return longer


def _all_but(places: np.ndarray, count: int) -> np.ndarray:
    """All of `count` places but these, ascending."""
    keep = np.ones(count, dtype=bool)
    keep[places] = False
    return keep
