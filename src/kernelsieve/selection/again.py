"""Points chosen again: those that are there, moved on, race with a fresh choice.

A choice from a later sample of the same stream need not start from nothing, and must not start from the old points
alone, which stay where they were good once.  Both ways end on the same reference rows, and the better one is taken.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse

from ..arrays import Array, as_float64
from ..fit.captured_ratio import captured_on
from ..rules.base import Choice, Selection
from ..search.chooser import Effort
from ..search.lbfgs import Ascent
from ..search.moved import NO_GAIN, FreePoints
from ..search.subspace import Coordinates, coordinates_for


def against_current(choice: Choice, points: Array, effort: Effort) -> Choice:
    """The fresh choice, or the current points moved on where these capture more."""
    fresh, problem = choice.selection, choice.problem
    if fresh.indices is not None or fresh.exhaustive or scipy.sparse.issparse(points):
        return choice  # rows were asked for, and current points are none of the rows at hand
    if points.shape[0] != fresh.n_support:
        return choice
    sample = problem.sample
    coordinates = problem.coordinates or coordinates_for(sample, fresh.n_support)
    search = FreePoints(sample, coordinates, effort.max_iter, effort.tol, problem.rng)
    start = moved_to(coordinates, points)
    objective = search.objective
    runner = Ascent(objective.light(start), start).run(effort.max_iter, NO_GAIN)
    current = Selection(
        fresh.kernel,
        search.points(runner.points),
        None,
        {**fresh.history, "winner": "current"},
        n_steps=runner.n_steps,
        converged=True,
    )
    ours, theirs = (captured_on(sample.evaluation, chosen) for chosen in (current, fresh))
    return choice if theirs >= ours else Choice(current, problem)


def moved_to(coordinates: Coordinates, points: Array) -> Array:
    """Points of input space in the coordinates in which they are moved: the inverse of `Coordinates.points`."""
    inside: np.ndarray = as_float64(points)
    if coordinates.origin is not None:
        inside = inside - coordinates.origin
    if coordinates.basis is not None:
        inside = inside @ coordinates.basis
    return inside * coordinates.scale
