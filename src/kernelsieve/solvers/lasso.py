"""The lasso by an exact active set.

    min_a  1/2 a'H a - a'linear + alpha sum_i w_i |a_i|            (`quadratic` has H, linear and the constant)

For a given support A and signs s, the minimiser solves a linear system.  It is the lasso's solution if its signs are s
and if no other candidate violates |c_j| <= alpha w_j, with c = linear - H a.  So the candidate that violates this most
enters the support, and the coefficients move towards the solution of the linear system,

    H_AA d = c_A - alpha w_A s_A,        a_A <- a_A + t d,        t the largest in (0, 1] that changes no sign

Members that reach zero leave the support, and this is repeated until t = 1.  Every such move lowers the objective, so
no support occurs twice.  While the support is small, candidates enter one at a time, because those that violate most
are near-copies of each other.  When it is large, they enter in batches (it grows from 11 to 300 members in 26 steps).
If the column x_e of a candidate e is in the span of the support's columns, the candidate cannot be added.  It replaces
a member instead, by a move along the direction that leaves the quadratic unchanged.

Only few of the n candidates take part.  The active set is solved on a working set, which consists of the support and
some violators, and the gradient over all candidates, O(n q), is computed once for each working set.  The iterations end
when the duality gap of the whole problem is small.

The Cholesky factor H_AA = L L' is updated with the support.  Members that enter add rows at the end.  When members
leave, only the block below and to the right of the first of them changes:

    entering E:   R = L^-1 H_AE,   S = H_EE - R'R = C C',   L <- [[L, 0], [R', C]]
    leaving:      their rows of L are removed; the rest T of that block is replaced by the Cholesky factor of T T'

A candidate e is in the span of A if S_ee is only rounding.  S_ee = |x_e - X_A z|^2, z = H_AA^-1 H_Ae, is computed with
cancellation, so its rounding error is proportional to H_ee + sum_i z_i^2 H_ii.  If A is ill-conditioned, this is far
more than H_ee.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dpstrf, dtrtrs

from ..numerics import DEPENDENT, FEW_ROUNDINGS
from .quadratic import HessianQuadratic, Quadratic, certify, checked_penalty

TOLERANCE = 1e-6  # the duality gap at which iterations end, relative to the objective
MAX_ITER = 10_000  # cap on steps; a support of 300 usually takes 30 steps, one of 15 among near-copies takes 100
NOBODY = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True)
class LassoResult:
    """Coefficients of the lasso or the group lasso, with a bound on how far their objective is above the minimum."""

    coef: np.ndarray  # (n,), or (n, n_components) of a group lasso: exactly zero off the support
    active: np.ndarray  # (m,) the support, ascending
    n_iter: int  # number of steps, each of which solves a linear system on the support
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

    This is the a-step of Wang & Tanaka (2016).  With a support of m among n candidates in q coordinates, a step costs
    O(m^2) on the support and O(m) for each member of the working set.  Each working set costs O(n q) once.

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
        # The start need not be optimal on its support, so the objective must decrease only after the first round.
        if n_iter:
            lowest = found.objective
        working = _working_set(gradient, alpha * weights, support.members)
        problem = _DenseProblem(quadratic, alpha, weights, working)
        n_iter += problem.solve(support, 0.3 * tol * found.objective, max_iter - n_iter)
    coef = np.zeros(n)
    coef[support.members] = support.values
    return LassoResult(coef, np.flatnonzero(coef), n_iter, found.objective, found.gap, converged=found.within(tol))


def batch_size(n_members: int) -> int:
    """The number of candidates that enter a support of this size together: one if it is small."""
    return max(1, (n_members - 10) // 2)


def _working_set(gradient: np.ndarray, thresholds: np.ndarray, active: np.ndarray) -> np.ndarray:
    """The working set, ascending: the support, the candidates that violate most, and a sample of all violators."""
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
    """The lasso over a working set of candidates, which is small enough for its whole Hessian to be computed."""

    def __init__(self, quadratic: Quadratic, alpha: float, weights: np.ndarray, working: np.ndarray) -> None:
        self.working = working
        self.alpha = alpha
        self.weights = weights[working]
        self.thresholds = alpha * self.weights
        hessian = quadratic.block(working, working)
        self.quadratic = HessianQuadratic(hessian, quadratic.linear[working], quadratic.target_square)

    def solve(self, support: Support, gap: float, max_iter: int) -> int:
        """Move `support` to the minimum over the working set, up to a duality gap; return the number of steps."""
        support.members = np.searchsorted(self.working, support.members)
        n_iter = support.optimize(self._pull(support, self._gradient(support)))
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
            # If rounding keeps the objective from decreasing, let candidates enter one at a time; if one did, bar it.
            if not found.objective < lowest:
                batches = False
                may_enter[entering[:1]] = len(entering) > 1
            lowest = min(lowest, found.objective)
            size = batch_size(len(support.members)) if batches else 1
            pulls[support.members] = 0.0
            entering = self._steepest(pulls if may_enter.all() else pulls * may_enter, size)
            if not len(entering):
                break
            self._enter(support, entering, gradient)
            # New members have the coefficient zero, so the gradient is still valid.
            n_iter += support.optimize(self._pull(support, gradient))
        support.members = self.working[support.members]
        return n_iter

    def _gradient(self, support: Support) -> np.ndarray:
        return self.quadratic.linear - self.quadratic.dot(support.members, support.values)

    def _pull(self, support: Support, gradient: np.ndarray) -> np.ndarray:
        return gradient[support.members] - self.thresholds[support.members] * support.signs

    def _steepest(self, pulls: np.ndarray, size: int) -> np.ndarray:
        """Up to `size` violators with the largest pulls |c_j|/w_j; candidates that may not enter have a pull of 0."""
        threshold = self.alpha * (1 + DEPENDENT)
        if size > 1:
            size = min(size, int(np.count_nonzero(pulls > threshold)))
            return np.argpartition(-pulls, size)[:size] if size else NOBODY
        steepest = pulls.argmax()
        return np.array([steepest]) if pulls[steepest] > threshold else NOBODY

    def _enter(self, support: Support, rows: np.ndarray, gradient: np.ndarray) -> None:
        """Add those of `rows` that are linearly independent to the support; if none is, the first replaces a member."""
        if len(rows) > 1:
            cross, block = self.quadratic.block(support.members, rows), self.quadratic.block(rows, rows)
            if support.enter(rows, np.sign(gradient[rows]), cross, block, 1e-4):  # 1e-4 keeps near-copies out
                return
        steepest = int(rows[0])
        column = self.quadratic.hessian[steepest]
        cross, own, sign = column[support.members], float(column[steepest]), float(np.sign(gradient[steepest]))
        if not support.enter_one(steepest, sign, cross, own):
            support.exchange(steepest, sign, cross, own)


class Support:
    """The members of the support, their coefficients and signs, and the Cholesky factor of H over them."""

    def __init__(self) -> None:
        self.members = np.zeros(0, dtype=np.intp)
        self.values = np.zeros(0)
        self.signs = np.zeros(0)
        self.factor = ActiveCholesky()

    @classmethod
    def of(cls, quadratic: Quadratic, start: np.ndarray | None, weights: np.ndarray) -> Support:
        """The support of `start`, without candidates that are barred or linearly dependent on the others."""
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
        """Add those of `rows` that are outside the span of the support, with coefficient 0; return how many."""
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

    def optimize(self, pull: np.ndarray) -> int:
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
            # A new member that would move against its sign has the value zero, and ends the step at length zero.
            values = self.values[crossing]
            reach = np.divide(-values, move[crossing], out=np.zeros(len(values)), where=values != 0)
            step = reach.min()
            self.values = self.values + step * move
            # After the share `step` of the whole move, the pull is 1 - step times what it was: the gradient is linear.
            pull = (1 - step) * pull
            keep = _all_but(crossing[reach <= step], len(move))
            pull = pull[keep]
            self.leave(keep)
        return n_steps

    def exchange(self, row: int, sign: float, cross: np.ndarray, own: float) -> bool:
        """Replace a member by `row`, which is in the span of the support; return whether that was possible.

        With x_row = X_A z, a move along (1, -z) leaves the quadratic unchanged and lowers the penalty.  It ends when a
        member reaches zero and leaves.  False if no member reaches zero, or if rounding keeps the row out.
        """
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
    """A mask of `count` places that is false at these places."""
    keep = np.ones(count, dtype=bool)
    keep[places] = False
    return keep


class ActiveCholesky:
    """The lower triangular L with L L' = H_AA, updated as members enter and leave."""

    def __init__(self) -> None:
        self.lower = np.zeros((0, 0), order="F")

    def __len__(self) -> int:
        return len(self.lower)

    def enter(self, cross: np.ndarray, block: np.ndarray, tolerance: float = FEW_ROUNDINGS) -> np.ndarray:
        """Append members with H_AE = `cross` and H_EE = `block`; return the places of those that entered, in order.

        A candidate e stays out if S_ee, its squared length outside the span of the members, is at most `tolerance`
        times H_ee + sum_i z_i^2 H_ii (see the module's text).
        """
        m = len(self.lower)
        reduced, scale = cross, np.diagonal(block)
        if m:
            reduced = dtrtrs(self.lower, cross, lower=1)[0]
            halves = dtrtrs(self.lower, reduced, lower=1, trans=1)[0]
            scale = scale + np.einsum("ij,ij->i", self.lower, self.lower) @ halves**2
        order, corner = _independent(block - reduced.T @ reduced if m else block, tolerance * scale)
        size = m + len(order)
        lower = np.zeros((size, size), order="F")
        lower[:m, :m] = self.lower
        lower[m:, :m] = reduced[:, order].T
        lower[m:, m:] = corner
        self.lower = lower
        return order

    def enter_one(self, cross: np.ndarray, own: float, tolerance: float = FEW_ROUNDINGS) -> bool:
        """`enter` for a single candidate e with H_Ae = `cross` and H_ee = `own`, which needs no factorisation."""
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
        """Remove the members for which the mask `keep` is false."""
        first = int(keep.argmin())
        kept = self.lower[keep]
        lower = np.zeros((len(kept), len(kept)), order="F")
        lower[:, :first] = kept[:, :first]
        if len(kept) > first:
            behind = kept[first:, first:]
            # L with L L' = T T', for T = `behind`.  Forming the product squares the condition number, so this can fail;
            # QR cannot, but is slower.
            factor, failed = dpotrf(behind @ behind.T, lower=1, clean=1)
            lower[first:, first:] = np.linalg.qr(behind.T)[1].T if failed else factor
        self.lower = lower

    def solve(self, right: np.ndarray) -> np.ndarray:
        """H_AA^-1 right."""
        return dpotrs(self.lower, right, lower=1)[0] if len(right) else right


def _independent(schur: np.ndarray, floor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The places in a positive semi-definite Schur complement whose pivots are above `floor`, and their factor."""
    above = np.flatnonzero(np.diagonal(schur) > floor)
    if len(above) <= 1:
        return above, np.sqrt(schur[above[:, None], above])
    if len(above) == len(schur):  # usually all are independent, which an unpivoted factor shows in half the time
        corner, failed = dpotrf(schur, lower=1, clean=1)
        # Without pivoting, rounding errors grow, so only pivots far above `floor` are reliable.
        if not failed and np.min(np.diagonal(corner)) ** 2 > 1e4 * floor.max():
            return above, corner
    factor, order, rank, _ = dpstrf(schur[above[:, None], above], lower=1, tol=floor[above].max())
    return above[order[:rank] - 1], np.tril(factor[:rank, :rank])
