"""The error of a compression as a function of the positions of its points, with its gradient.

With B at its minimum for every position of the points, the error's derivative is the partial one (variable
projection).  On rows, with R = Y - F B the residuals of the scores,

    d |R|^2 = -2 sum_nj (R B')_nj dk(x_n, s_j)

and in feature space, with A the original's coefficients on its points x_n,

    d sum |v - v'|^2 = -2 sum_nj (A B')_nj dk(x_n, s_j) + sum_ij (B B')_ij dk(s_i, s_j)

so every differentiable kernel needs only its own pull-back.

The points are moved by L-BFGS on that error: a few steps from every start, then the best to the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from ..arrays import Array, add_to_diagonal
from ..kernels import Kernel
from ..search.lbfgs import Ascent, Evaluation


@dataclass(frozen=True)
class ScoreObjective:
    """|Y - F B|^2 on rows, B at its minimum, relative to the scores' variation."""

    kernel: Kernel
    rows: np.ndarray  # (n, r)
    row_scale: np.ndarray  # (n,)
    target: np.ndarray  # (n, M)
    center: bool
    scale: float

    def __call__(self, points: np.ndarray) -> tuple[float, np.ndarray]:
        plain = self.kernel(self.rows, points)
        features = plain * self.row_scale[:, None]
        if self.center:
            features -= features.mean(axis=0)
        coef = _solve(features.T @ features, features.T @ self.target)
        residual = self.target - features @ coef
        pull = (residual * (-2.0 * self.row_scale)[:, None]) @ coef.T
        gradient = self.kernel.pullback(self.rows, points, plain, pull)
        return float(np.sum(residual**2)) / self.scale, gradient / self.scale

    def part(self, n_rows: int) -> ScoreObjective:
        """This objective on about `n_rows` of the rows, evenly spaced."""
        rows = slice(None, None, max(1, round(len(self.rows) / n_rows)))
        target = self.target[rows]
        target = target - target.mean(axis=0) if self.center else target
        scale = self.scale * len(target) / len(self.target)
        return replace(self, rows=self.rows[rows], row_scale=self.row_scale[rows], target=target, scale=scale)


@dataclass(frozen=True)
class FeatureObjective:
    """sum |v - v'|^2, B at its minimum, relative to sum |v|^2."""

    kernel: Kernel
    rows: np.ndarray  # (m, r), the original's points
    source_coef: np.ndarray  # (m, M)
    scale: float

    def __call__(self, points: np.ndarray) -> tuple[float, np.ndarray]:
        plain, gram = self.kernel(self.rows, points), self.kernel(points, points)
        inner = plain.T @ self.source_coef
        coef = _solve(gram, inner)
        gradient = self.kernel.pullback(self.rows, points, plain, -2.0 * (self.source_coef @ coef.T))
        gradient += 2.0 * self.kernel.pullback(points, points, gram, coef @ coef.T)
        value = self.scale - 2.0 * float(np.sum(inner * coef)) + float(np.sum(coef * (gram @ coef)))
        return value / self.scale, gradient / self.scale

    def part(self, n_rows: int) -> FeatureObjective:
        """Itself, because the original has few points."""
        return self


Objective: TypeAlias = ScoreObjective | FeatureObjective


def _solve(normal: np.ndarray, right: np.ndarray) -> np.ndarray:
    mean = float(np.mean(np.diagonal(normal)))
    if mean < 1e-200:  # points so far from all rows explain nothing of them, and dividing by the values would overflow
        return np.zeros_like(right)
    return np.linalg.solve(add_to_diagonal(normal, 1e-11 * mean), right)  # points may coincide


@dataclass(frozen=True)
class Moved:
    """Where the points ended, in the search's coordinates."""

    points: np.ndarray  # (m, r)
    errors: list[float]  # relative, before every step and after the last
    finished: bool  # no further step gains anything

    @property
    def n_steps(self) -> int:
        return len(self.errors) - 1

    @property
    def converged(self) -> bool:
        """Whether the last quarter of the steps lowered the relative error by no more than .005."""
        return self.finished or self.errors[3 * self.n_steps // 4] - self.errors[-1] <= 5e-3


def move(objective: Objective, starts: Sequence[np.ndarray], max_iter: int) -> Moved:
    """A fifth of the steps from every start, on some 2,000 rows; then the best goes to the end, on all rows."""
    part = objective.part(2000)
    runs = [descend(part, start, max(1, round(0.2 * max_iter))) for start in starts]
    best = min(runs, key=lambda run: run.errors[-1])
    rest = descend(objective, best.points, max_iter - best.n_steps)
    return Moved(rest.points, best.errors[:-1] + rest.errors, rest.finished)


def descend(objective: Objective, start: np.ndarray, n_steps: int) -> Moved:
    """Up to `n_steps` of L-BFGS on the share of the start's squared error that is gone, which needs no units."""
    gone = ErrorGone(objective, max(objective(start)[0], np.finfo(np.float64).tiny))
    ascent = LongAscent(gone, start)
    squares = [gone.first]
    while len(squares) <= n_steps and not ascent.converged:
        before = ascent.n_steps
        ascent.run(1, 1e-9)  # a step that gains less of the first error is the last
        if ascent.n_steps > before:
            squares.append(max((1.0 - ascent.value) * gone.first, 0.0))
    return Moved(ascent.points, [float(np.sqrt(square)) for square in squares], ascent.converged)


class LongAscent(Ascent):
    """L-BFGS that remembers more steps than usual: they cost nothing beside the kernel values."""

    MEMORY = 20


@dataclass(frozen=True)
class ErrorGone:
    """1 - squared error / that of the start: what `Ascent` maximises."""

    objective: Objective
    first: float

    @np.errstate(over="ignore", invalid="ignore")  # a trial may move points to where the kernel overflows
    def evaluate(self, points: np.ndarray, basis: Array | None = None) -> Evaluation:
        """The share of the error that is gone at these points, and its gradient."""
        value, gradient = self.objective(points)
        return Evaluation(1.0 - value / self.first, gradient / -self.first)

    @property
    def exact(self) -> ErrorGone:
        """Itself, because it is computed in float64."""
        return self
