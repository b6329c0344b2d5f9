"""The group lasso: one support for all components.

    min_A  1/2 tr A'H A - tr A'linear + alpha sum_i w_i |A_i.|          A (n x n_components), whose rows may be zero

A row j outside the support enters if it violates |c_j| <= alpha w_j, c = linear - H A.  Rows enter one at a time while
the support is small, and in batches when it is large.  The first value of a row i that enters is the optimal one for
fixed other rows: with g = c_i + H_ii A_i,

    A_i = (1 - alpha w_i/|g|)_+ g / H_ii

On the support no row is zero, so the objective is smooth there, and a Newton step moves all rows at once.  With
n_i = A_i/|A_i|, d_i = alpha w_i/|A_i| and D = diag(d), the second derivative maps a matrix V to (H + D) V - D Z, where
Z has the rows n_i n_i'V_i.  Its first term is the same m x m matrix H + D for every component, and the second term has
rank m, so Woodbury's formula inverts the sum.  With B = (H + D)^-1 and N the matrix with the rows n_i, the step is

    P = B (c - D A),    S = D^-1 - B o (N N'),    S z = (n_i'P_i)_i,    step = P + B diag(z) N

where o is the elementwise product.  It costs O(m^3 + m^2 n_components).

If a step would carry a row through zero, n_i'(A_i + step_i) < 0, it ends where the row is zero, and the row leaves,
provided that the objective decreases; with one component, this is the lasso's active set.  Otherwise the length of the
step is the best along its direction.  If Newton steps gain nothing, a sweep sets one row after the other to its best
value.  The iterations end when the duality gap of the whole problem is small.
"""

from __future__ import annotations

import numpy as np

from ..arrays import cholesky, solve_factored, solve_lower
from ..numerics import DEPENDENT
from .lasso import MAX_ITER, TOLERANCE, LassoResult, batch_size
from .quadratic import HessianQuadratic, Quadratic, certify, checked_penalty, row_norms


def group_lasso(
    quadratic: Quadratic,
    alpha: float,
    *,
    weights: np.ndarray | None = None,
    start: np.ndarray | None = None,
    tol: float = TOLERANCE,
    max_iter: int = MAX_ITER,
) -> LassoResult:
    """The minimiser of 1/2 tr A'H A - tr A'linear + alpha sum_i w_i |A_i.|, exact to a duality gap.

    This is Wang & Tanaka's a-step with the l2,1 penalty, with which all components share one support.  The arguments
    are those of `lasso`, but the linear term and the start have the shape (n, n_components).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelsieve.solvers.quadratic import HessianQuadratic
    >>> linear = np.array([[3.0, 4.0], [0.3, 0.4]])
    >>> group_lasso(HessianQuadratic(np.eye(2), linear, target_square=25.25), alpha=1.0).coef
    array([[2.4, 3.2],
           [0. , 0. ]])
    """
    linear = quadratic.linear
    weights = checked_penalty(alpha, weights, len(linear))
    coef = np.zeros_like(linear) if start is None else np.array(start, dtype=np.float64)
    coef[~np.isfinite(weights)] = 0.0
    active = np.flatnonzero(row_norms(coef))
    n_iter, lowest = 0, np.inf
    while True:
        gradient = linear - quadratic.dot(active, coef[active])
        found = certify(quadratic, alpha, weights, active, coef[active], gradient)
        if found.within(tol) or n_iter >= max_iter or not found.objective < lowest:
            break
        lowest = found.objective
        entering = _entering(gradient, alpha * weights, active)
        rows = np.concatenate([active, entering])
        support = _Support(quadratic, alpha, weights, rows, coef[rows])
        support.relax(np.arange(len(active), len(rows)))
        n_iter += support.optimize(0.1 * tol * found.objective, max_iter - n_iter)
        coef[rows] = 0.0
        coef[rows[support.members]] = support.values
        active = np.flatnonzero(row_norms(coef))
    return LassoResult(coef, active, n_iter, found.objective, found.gap, converged=found.within(tol))


def _entering(gradient: np.ndarray, thresholds: np.ndarray, active: np.ndarray) -> np.ndarray:
    """The next rows to enter: those outside the support that violate |c_j| <= alpha w_j most."""
    violation = row_norms(gradient) / thresholds
    violation[active] = 0.0
    violators = np.flatnonzero(violation > 1 + DEPENDENT)
    return violators[np.argsort(-violation[violators])[: batch_size(len(active))]]


class _Support:
    """The rows that may be nonzero, their values, and the problem restricted to them."""

    def __init__(
        self, quadratic: Quadratic, alpha: float, weights: np.ndarray, rows: np.ndarray, values: np.ndarray
    ) -> None:
        self.hessian = quadratic.block(rows, rows)
        self.linear = quadratic.linear[rows]
        self.target_square = quadratic.target_square
        self.alpha = alpha
        self.weights = weights[rows]
        self.members = np.arange(len(rows))
        self.values = values
        self.flat_gap = np.inf  # the duality gap after the last step that did not lower the objective

    def relax(self, rows: np.ndarray) -> None:
        """Set each of `rows` in turn to its best value, with the other rows fixed."""
        values, gradient = self.values.copy(), self._gradient()
        for i in rows:
            curvature = self.hessian[i, i]
            alone = gradient[i] + curvature * values[i]
            share = max(0.0, 1 - self.alpha * self.weights[i] / row_norms(alone[None])[0])
            move = share / curvature * alone - values[i]
            values[i] += move
            gradient -= self.hessian[:, i, None] * move
        self.values = values
        self._keep(row_norms(values) > 0)

    def optimize(self, gap: float, max_iter: int) -> int:
        """Take Newton steps until the duality gap over these rows is at most `gap`; return the number of steps."""
        n_iter, swept = 0, False
        while n_iter < max_iter and self._gap(self.values) > gap:
            n_iter += 1
            if self._step():
                swept = False
            elif swept:
                break
            else:  # rows that are nearly zero limit the step, so a sweep sets them to their best length, or to zero
                self.relax(np.arange(len(self.members)))
                swept = True
        return n_iter

    def _gap(self, values: np.ndarray) -> float:
        if not len(values):
            return 0.0
        problem = HessianQuadratic(self.hessian, self.linear, self.target_square)
        gradient = self.linear - self.hessian @ values
        return certify(problem, self.alpha, self.weights, np.arange(len(values)), values, gradient).gap

    def _step(self) -> bool:
        """Take a Newton step that lowers the objective and carries no row through zero; False if it gains nothing."""
        lengths = row_norms(self.values)
        directions, ridge = self.values / lengths[:, None], self.alpha * self.weights / lengths
        move = _newton_step(self.hessian, ridge, directions, self._gradient() - ridge[:, None] * self.values)
        approach = -np.einsum("ij,ij->i", directions, move) / lengths
        first = int(approach.argmax())
        before = self._value(self.values)
        if approach[first] >= 1:
            trial = self.values + move / approach[first]
            trial[first] = 0.0
            if self._value(trial) < before:
                self.values = trial
                self._keep(np.arange(len(trial)) != first)
                return True
        trial = self.values + self._best_size(move) * move
        if not self._value(trial) < before:
            # Near its minimum the objective is flat: the last steps change it by less than rounding, and still reduce
            # the duality gap.  Each such step must halve the smallest gap so far, because otherwise they could cycle.
            gap = self._gap(trial)
            if not gap < min(self.flat_gap, self._gap(self.values)) / 2:
                return False
            self.flat_gap = gap
        self.values = trial
        if not row_norms(trial).all():  # some row has reached exactly zero
            self._keep(row_norms(trial) > 0)
        return True

    def _best_size(self, move: np.ndarray) -> float:
        """The t in (0, 1] for which A + t move has the lowest objective, found by bisection of its slope."""
        straight = float(np.vdot(move, self.hessian @ self.values - self.linear))
        curvature = float(np.vdot(move, self.hessian @ move))

        def slope(size: float) -> float:
            moved = self.values + size * move
            lengths = np.maximum(row_norms(moved), np.finfo(np.float64).tiny)
            bend = self.weights @ (np.einsum("ij,ij->i", moved, move) / lengths)
            return straight + size * curvature + self.alpha * float(bend)

        if slope(1.0) <= 0:
            return 1.0
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if slope(middle) <= 0 else (low, middle)
        return high

    def _keep(self, keep: np.ndarray) -> None:
        self.members, self.values, self.weights = self.members[keep], self.values[keep], self.weights[keep]
        self.linear, self.hessian = self.linear[keep], self.hessian[keep][:, keep]

    def _gradient(self) -> np.ndarray:
        return self.linear - self.hessian @ self.values

    def _value(self, values: np.ndarray) -> float:
        smooth = np.vdot(values, 0.5 * (self.hessian @ values) - self.linear)
        return float(smooth + self.alpha * (self.weights @ row_norms(values)))


def _newton_step(hessian: np.ndarray, ridge: np.ndarray, directions: np.ndarray, pull: np.ndarray) -> np.ndarray:
    """The inverse of the second derivative, applied to `pull` by Woodbury's formula."""
    lower = np.linalg.cholesky(hessian + np.diag(ridge))
    half = solve_lower(lower, np.eye(len(ridge)))
    inverse = half.T @ half
    first = inverse @ pull
    schur = cholesky(np.diag(1 / ridge) - inverse * (directions @ directions.T))
    # If rounding makes S indefinite, take the step without its term.  This step minimises an upper bound, in which each
    # |A_i| is replaced by a parabola, so it goes downhill but is shorter.
    if schur is None:
        return first
    along = np.einsum("ij,ij->i", directions, first)
    share = solve_factored(schur, along)
    return first + inverse @ (share[:, None] * directions)
