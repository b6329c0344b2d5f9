"""L-BFGS for maximisation: an objective of points, and an ascent that can be paused, compared and resumed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..arrays import Array, inner, namespace, numbers, row_dot, solve_factored, solve_lower
from ..numerics import ROUNDING

LITTLE = 5e-3  # a search has converged if the last quarter of its steps together gained no more than this share


@dataclass(frozen=True)
class Evaluation:
    """The value, gradient and curvature of an objective at some points."""

    value: float
    gradient: Array  # (m, r)
    metric: Array | None = None  # lower Cholesky factor of the curvature matrix B (m, m); None if it is unknown
    reliable: bool = True  # False if the ascent would follow rounding errors and should go on with `objective.exact`
    basis: Array | None = (
        None  # (m, p) coefficients near those of the components, from which the eigensolver starts at nearby points
    )

    def by_metric(self, direction: Array) -> Array:
        """B^-1 direction, or the direction itself if B is unknown."""
        if self.metric is None:
            return direction
        return solve_factored(self.metric, direction)


@dataclass(frozen=True)
class Ahead:
    """A direction, and the length of the first step to try along it."""

    direction: Array  # (m, r)
    slope: float  # directional derivative of the objective
    end: Evaluation | None = None  # the objective at the end of that step, if it is known already


class Objective(Protocol):
    """A function to maximise."""

    def evaluate(self, points: Array, basis: Array | None = None) -> Evaluation:
        """The objective at these points; the eigensolver starts from the `basis` of an evaluation at nearby points."""

    @property
    def exact(self) -> Objective:
        """This objective in full precision."""


class Memory:
    """The last steps s_i, rows of S, and the changes y_i of the gradient along them, rows of Y.

    They approximate H, the inverse of minus the second derivative, which is H_0 before any steps.  Here the two-loop
    recursion (Nocedal 1980) for H g is written as two triangular solves: with the upper triangle U of S Y' and its
    diagonal D,

        U a = S g,      r = H_0 (g - Y'a),      U'b = D a - Y r,      H g = r + S'b

    So the large arrays take part only in products with all steps at once, which on a device needs no synchronisation.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._moves: Array = None  # (k, m r)
        self._changes: Array = None  # (k, m r)
        self._products: Array = None  # (k, k), <s_i, y_j>

    def __bool__(self) -> bool:
        return self._moves is not None

    def add(self, move: Array, change: Array) -> None:
        """Remember a step if the objective is concave along it; if there are too many, the oldest is dropped."""
        xp = namespace(move)
        move, change = xp.reshape(move, (1, -1)), xp.reshape(change, (1, -1))
        moves, changes = move, change
        if self:
            kept = slice(max(0, self._moves.shape[0] + 1 - self.size), None)
            moves = xp.concat([self._moves[kept, :], move], axis=0)
            changes = xp.concat([self._changes[kept, :], change], axis=0)
        products = xp.concat([moves, change], axis=0) @ changes.T
        bend, length = numbers(products[-2, -1], products[-1, -1])
        if bend > ROUNDING[8] * length:
            self._moves, self._changes, self._products = moves, changes, products[:-1, :]

    def direction(self, gradient: Array, metric: Callable[[Array], Array]) -> Array:
        """H g, where `metric` applies H_0 up to a factor."""
        xp, (m, r) = namespace(gradient), gradient.shape
        lower = xp.triu(self._products).T
        curvatures = xp.linalg.diagonal(lower)[:, None]
        weights = solve_lower(lower, self._moves @ xp.reshape(gradient, (-1, 1)), transpose=True)
        rest = gradient - xp.reshape(weights.T @ self._changes, (m, r))
        latest = self._changes[-1:, :]
        both = metric(xp.concat([rest, xp.reshape(latest, (m, r))], axis=1))
        scale = curvatures[-1:, :] / (latest @ xp.reshape(both[:, r:], (-1, 1)))
        rest = scale * both[:, :r]
        steps = solve_lower(lower, curvatures * weights - self._changes @ xp.reshape(rest, (-1, 1)))
        return rest + xp.reshape(steps.T @ self._moves, (m, r))


class Ascent:
    """L-BFGS on an objective to be maximised, which can be paused, compared with others, and resumed.

    The first step uses the objective's own curvature, if it has one; later steps correct it by the last `MEMORY` steps.
    A step is accepted if the objective increases enough.  Otherwise it is shortened to the maximum of a parabola
    through the known values.  Steps along which the objective is not concave are not remembered.
    """

    MEMORY = 10  # number of steps that are remembered
    SUFFICIENT = 1e-4  # a step must gain at least this share of what the slope at its start promises
    MAX_TRIALS = 12  # lengths of a step that are tried before the ascent ends
    FIRST_MOVE = 0.2  # root-mean-square move of a point in the first step without a metric, in kernel widths
    FIRST_MOVE_AT_MOST = 0.4  # largest move of a point in the first step with a metric, which is only accurate nearby
    # Largest move of a point in all other steps, in units of one kernel width plus the root-mean-square length of the
    # points.  Further away, kernel values are nearly zero and do not show where to go.
    MAX_MOVE = 2.0
    GRADIENT_TOLERANCE = 1e-10  # the ascent ends if a step promises no more than this share of the value

    def __init__(self, objective: Objective, points: Array, basis: Array | None = None) -> None:
        self.objective = objective
        self.points = points
        self.at = self._evaluate(points, basis)
        self.n_steps = 0
        self.n_evaluations = 1
        self.converged = False
        self._memory = self._new_memory()

    @property
    def value(self) -> float:
        """The objective at the current points."""
        return self.at.value

    def run(self, n_steps: int, tolerance: float = 0.0) -> Ascent:
        """Take up to `n_steps` more steps; stop when a step gains no more than `tolerance` of the value."""
        for _ in range(n_steps):
            before = self.value
            if self.converged or not self._step():
                self.converged = True
                break
            if not self.at.reliable:
                self.continue_on(self.objective.exact)
            else:
                self.converged = self.value - before <= tolerance * abs(self.value)
        return self

    def finish(self, n_steps: int, last: int, tolerance: float = 0.0) -> float:
        """Take up to `n_steps` more steps; return the value before the `last` of them, to judge convergence by."""
        before = self.run(n_steps - last, tolerance).value
        self.run(last, tolerance)
        return before

    def continue_on(self, objective: Objective) -> None:
        """Continue from these points with another form of the objective; the remembered steps are kept."""
        self.objective, self.converged = objective, False
        self.at = self._evaluate(self.points, self.at.basis)
        self.n_evaluations += 1

    def _evaluate(self, points: Array, basis: Array | None) -> Evaluation:
        found = self.objective.evaluate(points, basis)
        if not found.reliable:
            self.objective = self.objective.exact
            found = self.objective.evaluate(points, found.basis)
        return found

    def _step(self) -> bool:
        """Take one step that increases the objective; False if none is found."""
        ahead = self._ahead()
        if not ahead.slope > self.GRADIENT_TOLERANCE * abs(self.value):
            return False
        length, found = 1.0, ahead.end
        for _ in range(self.MAX_TRIALS):
            points = self.points + length * ahead.direction
            if found is None:
                found = self.objective.evaluate(points, self.at.basis)
            self.n_evaluations += 1
            if found.value >= self.value + self.SUFFICIENT * length * ahead.slope:
                self._remember(ahead, length, found)
                self.points, self.at = points, found
                self.n_steps += 1
                return True
            curvature = 2 * (self.value + length * ahead.slope - found.value)
            shorter = ahead.slope * length**2 / curvature if np.isfinite(found.value) else 0.1 * length
            length, found = min(0.5 * length, max(0.1 * length, shorter)), None
        return False

    def _new_memory(self) -> Memory:
        return Memory(self.MEMORY)

    def _remember(self, ahead: Ahead, length: float, found: Evaluation) -> None:
        """Remember the step of this length along the direction; `found` is the evaluation at its end."""
        self._memory.add(length * ahead.direction, self.at.gradient - found.gradient)

    def _ahead(self) -> Ahead:
        """The next direction and its first step length."""
        direction = self._off_kinks(self._direction())
        xp = namespace(direction)
        furthest, lengths, slope = numbers(
            xp.max(row_dot(direction, direction)),
            xp.sum(self.points * self.points),
            xp.sum(direction * self.at.gradient),
        )
        shorter = self._longest_move(lengths) / furthest**0.5 if furthest > 0 else 1.0
        return Ahead(direction * shorter, slope * shorter) if shorter < 1 else Ahead(direction, slope)

    def _longest_move(self, lengths: float) -> float:
        """The largest distance that a point may move in one step, given the sum of the points' squared lengths."""
        if not self._memory and self.at.metric is not None:
            return self.FIRST_MOVE_AT_MOST
        return self.MAX_MOVE * (1 + (lengths / self.points.shape[0]) ** 0.5)

    def _direction(self) -> Array:
        """The gradient times H, the approximate inverse of minus the second derivative."""
        direction = self.at.gradient
        if self._memory:
            return self._memory.direction(direction, self.at.by_metric)
        if self.at.metric is not None:
            return self.at.by_metric(direction)
        norm = inner(direction, direction) ** 0.5
        return direction * (self.FIRST_MOVE * direction.shape[0] ** 0.5 / norm if norm > 0 else 0.0)

    def _off_kinks(self, direction: Array) -> Array:
        """The direction with zeros where the gradient is zero: on a kink, a move to either side loses."""
        xp = namespace(direction)
        return xp.where(self.at.gradient == 0, xp.zeros_like(direction), direction)
