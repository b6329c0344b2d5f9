"""The lasso by an exact active set.

    min_a  1/2 a'H a - a'linear + alpha sum_i w_i |a_i|            (`quadratic` has H, linear and the constant)

Given a support A and signs s the minimiser solves a linear system, and it is the lasso's if its signs are s and no
other candidate violates |c_j| <= alpha w_j, with c = linear - H a.  So the candidate that violates this most enters,
and the coefficients move towards the solution of

    H_AA d = c_A - alpha w_A s_A,        a_A <- a_A + t d,        t the largest in (0, 1] that changes no sign

where members that reach zero leave, until t = 1.  Every such move lowers the objective, so no support occurs twice.
Candidates enter one at a time while the support is small, because the steepest ones are near-copies of each other, and
in batches when it is large (from 11 to 300 members that is 26 steps).  A candidate in the span of the support cannot
enter beside it: it replaces a member, moving along the direction that leaves the quadratic unchanged.

Few of n candidates are ever looked at: the active set is solved on a working set, the support with some violators, and
the gradient over all candidates, O(n q), is computed once for each working set.  The iterations end when the duality
gap of the whole problem is small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..numerics import DEPENDENT
from .active_set import Support
from .quadratic import HessianQuadratic, Quadratic, certify, checked_penalty

TOLERANCE = 1e-6  # of the duality gap, relative to the objective
MAX_ITER = 10_000  # steps: a support of 300 takes 30, one of 15 among near-copies 100
NOBODY = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True)
class LassoResult:
    """Coefficients of the lasso or the group lasso, with a bound on their distance from the optimum."""

    coef: np.ndarray  # (n,), or (n, n_components) of a group lasso: exactly zero off the support
    active: np.ndarray  # (m,) the support, ascending
    n_iter: int  # steps: linear systems solved for a support
    objective: float
    gap: float  # the objective is at most this much above the minimum
    converged: bool


def lasso(
    quadratic: Quadratic,
    alpha: float,
    *,
    weights: np.ndarray | None = None,
    start: np.ndarray | None = None,
    tol: float = TOLERANCE,
    max_iter: int = MAX_ITER,
) -> LassoResult:
    """The minimiser of 1/2 a'H a - a'linear + alpha sum_i w_i |a_i|, exact to a duality gap.

    The a-step of Wang & Tanaka (2016).  With a support of m among n candidates in q coordinates a step costs
    O(m^2) on the support and O(m) for each member of the working set, and O(n q) once for each working set.

    Parameters
    ----------
    quadratic : Quadratic
        H, linear term (n,) and constant: `FactorQuadratic` or `HessianQuadratic`.
    alpha : float
        Positive; from `largest_alpha(quadratic, weights)` on the result is zero.
    weights : ndarray of shape (n,), optional
        Penalty weights; infinity bars a candidate.
    start : ndarray of shape (n,), optional
        Coefficients to start from.
    tol : float, default=1e-6
        Duality gap to reach, relative to the objective.
    max_iter : int
        Cap on the number of steps.

    Returns
    -------
    LassoResult

    Examples
    --------
    >>> import numpy as np
    >>> from kernelsieve.solvers.quadratic import HessianQuadratic
    >>> problem = HessianQuadratic(np.eye(3), linear=np.array([3.0, -0.5, -2.0]), target_square=13.25)
    >>> lasso(problem, alpha=1.0).coef
    array([ 2.,  0., -1.])
    """
    n = len(quadratic.linear)
    weights = checked_penalty(alpha, weights, n)
    support = Support.of(quadratic, start, weights)
    n_iter, lowest = 0, np.inf
    while True:
        gradient = quadratic.linear - quadratic.dot(support.members, support.values)
        found = certify(quadratic, alpha, weights, support.members, support.values, gradient)
        if found.within(tol) or n_iter >= max_iter or not found.objective < lowest:
            break
        # the start need not be optimal on its support, so the objective must decrease only from the next step on
        if n_iter:
            lowest = found.objective
        working = _working_set(gradient, alpha * weights, support.members)
        problem = _DenseProblem(quadratic, alpha, weights, working)
        n_iter += problem.solve(support, 0.3 * tol * found.objective, max_iter - n_iter)
    coef = np.zeros(n)
    coef[support.members] = support.values
    return LassoResult(coef, np.flatnonzero(coef), n_iter, found.objective, found.gap, converged=found.within(tol))


def batch_size(n_members: int) -> int:
    """How many candidates enter a support of this size at once: one if it is small."""
    return max(1, (n_members - 10) // 2)


def _working_set(gradient: np.ndarray, thresholds: np.ndarray, active: np.ndarray) -> np.ndarray:
    """The support, the steepest violators, and some that are spread over all violators; ascending."""
    violation = np.abs(gradient) / thresholds
    violation[active] = 0.0
    violators = np.flatnonzero(violation > 1.0)
    half = max(100, len(active)) // 2
    chosen = np.zeros(len(gradient), dtype=bool)
    chosen[active] = True
    if len(violators) > 2 * half:
        chosen[violators[np.argpartition(-violation[violators], half)[:half]]] = True
        violators = violators[:: len(violators) // half]
    chosen[violators] = True
    return np.flatnonzero(chosen)


class _DenseProblem:
    """The lasso over a working set of candidates, whose Hessian is small enough to be computed whole."""

    def __init__(self, quadratic: Quadratic, alpha: float, weights: np.ndarray, working: np.ndarray) -> None:
        self.working = working
        self.alpha = alpha
        self.weights = weights[working]
        self.thresholds = alpha * self.weights
        hessian = quadratic.block(working, working)
        self.quadratic = HessianQuadratic(hessian, quadratic.linear[working], quadratic.target_square)

    def solve(self, support: Support, gap: float, max_iter: int) -> int:
        """Bring `support` to the minimum over the working set, to a duality gap; return the number of steps."""
        support.members = np.searchsorted(self.working, support.members)
        n_iter = support.settle(self._pull(support, self._gradient(support)))
        may_enter = np.ones(len(self.working), dtype=bool)
        entering, lowest, batches = support.members[:0], np.inf, True
        while n_iter < max_iter:
            gradient = self._gradient(support)
            pulls = np.abs(gradient) / self.weights
            found = certify(
                self.quadratic, self.alpha, self.weights, support.members, support.values, gradient, float(pulls.max())
            )
            if found.gap <= gap:
                break
            if not found.objective < lowest:  # because of rounding: continue with single candidates, and bar this one
                batches = False
                may_enter[entering[:1]] = len(entering) > 1
            lowest = min(lowest, found.objective)
            size = batch_size(len(support.members)) if batches else 1
            pulls[support.members] = 0.0
            entering = self._steepest(pulls if may_enter.all() else pulls * may_enter, size)
            if not len(entering):
                break
            self._enter(support, entering, gradient)
            n_iter += support.settle(self._pull(support, gradient))  # new members are at zero: same gradient
        support.members = self.working[support.members]
        return n_iter

    def _gradient(self, support: Support) -> np.ndarray:
        return self.quadratic.linear - self.quadratic.dot(support.members, support.values)

    def _pull(self, support: Support, gradient: np.ndarray) -> np.ndarray:
        return gradient[support.members] - self.thresholds[support.members] * support.signs

    def _steepest(self, pulls: np.ndarray, size: int) -> np.ndarray:
        """Up to `size` violators with the largest pulls |c_j|/w_j; the pull of those that may not enter is 0."""
        threshold = self.alpha * (1 + DEPENDENT)
        if size > 1:
            size = min(size, int(np.count_nonzero(pulls > threshold)))
            return np.argpartition(-pulls, size)[:size] if size else NOBODY
        steepest = pulls.argmax()
        return np.array([steepest]) if pulls[steepest] > threshold else NOBODY

    def _enter(self, support: Support, rows: np.ndarray, gradient: np.ndarray) -> None:
        """Let the independent ones of `rows` enter; if none is independent, the first replaces a member."""
        if len(rows) > 1:
            cross, block = self.quadratic.block(support.members, rows), self.quadratic.block(rows, rows)
            if support.enter(rows, np.sign(gradient[rows]), cross, block, 1e-4):  # near-copies of others stay out
                return
        steepest = int(rows[0])
        column = self.quadratic.hessian[steepest]
        cross, own, sign = column[support.members], float(column[steepest]), float(np.sign(gradient[steepest]))
        if not support.enter_one(steepest, sign, cross, own):
            support.exchange(steepest, sign, cross, own)
