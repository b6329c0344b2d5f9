"""Moving the points: L-BFGS on the error, a few steps from every start and then the best to the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from ..arrays import Array, as_float64
from ..fit.sample import Sample
from ..kernels.base import dense
from ..rows.memory import SampledRows
from ..search.lbfgs import Ascent, Evaluation
from ..search.subspace import MAX_LOST_FOR_GOOD, Coordinates, coordinates, movable
from .error import ExpansionError
from .objective import Objective

RACE_SHARE, RACE_ROWS = 0.2, 2000  # of the steps are run from every start, on so many rows
NO_GAIN = 1e-9  # a step that gains less, of the squared error of the best start, is the last
CONVERGED_GAIN = 5e-3  # the last quarter of the steps lowered the relative error by no more than this


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
        """Whether the last quarter of the steps gained next to nothing."""
        return self.finished or self.errors[3 * self.n_steps // 4] - self.errors[-1] <= CONVERGED_GAIN


def coordinates_for(error: ExpansionError) -> Coordinates | None:
    """The coordinates in which points are moved, or None where the kernel does not allow that."""
    rows, kernel = error.search_rows, error.source.kernel
    sampled = SampledRows(rows, np.arange(rows.shape[0]), None, True)
    sample = Sample.of(sampled, kernel, error.source.n_components, center=True)
    if not kernel.differentiable or (scipy.sparse.issparse(rows) and not movable(sample)):
        return None
    return coordinates(sample, MAX_LOST_FOR_GOOD, for_good=True)


def in_coordinates(points: Array, coordinates: Coordinates) -> np.ndarray:
    """Points of input space, projected on the coordinates' subspace."""
    values = as_float64(points)
    if coordinates.origin is not None:
        values = values - coordinates.origin
    values = values * coordinates.scale
    if coordinates.basis is not None:
        values = values @ coordinates.basis
    return np.asarray(dense(values))


def move(objective: Objective, starts: Sequence[np.ndarray], max_iter: int) -> Moved:
    """A few steps from every start, on a part of the rows; then the best goes to the end, on all of them."""
    part = objective.part(RACE_ROWS)
    runs = [descend(part, start, max(1, round(RACE_SHARE * max_iter))) for start in starts]
    best = min(runs, key=lambda run: run.errors[-1])
    rest = descend(objective, best.points, max_iter - best.n_steps)
    return Moved(rest.points, best.errors[:-1] + rest.errors, rest.finished)


def descend(objective: Objective, start: np.ndarray, n_steps: int) -> Moved:
    """Up to `n_steps` of L-BFGS, on the share of the start's squared error that is gone: tolerances mean something."""
    gone = ErrorGone(objective, max(objective(start)[0], np.finfo(np.float64).tiny))
    ascent = LongAscent(gone, start)
    squares = [gone.first]
    while len(squares) <= n_steps and not ascent.converged:
        before = ascent.n_steps
        ascent.run(1, NO_GAIN)
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

    @np.errstate(over="ignore", invalid="ignore")  # of points where the kernel has no value: a trial is no answer yet
    def evaluate(self, points: np.ndarray, basis: Array | None = None, known: Any = None) -> Evaluation:
        """What is gone at these points, and its gradient."""
        value, gradient = self.objective(points)
        return Evaluation(1.0 - value / self.first, gradient / -self.first)

    @property
    def exact(self) -> ErrorGone:
        """Itself: it is in float64."""
        return self
