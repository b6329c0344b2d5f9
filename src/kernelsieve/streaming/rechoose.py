"""Choosing again: the current points, moved on, compete with a fresh choice.

A choice from a later sample of the same stream need not start from nothing.  But it must not start from the old points
alone, because it would stay near places that were good for earlier rows.  Both are moved and measured on the same
evaluation rows, and the better one is taken.

Only points that the search itself moves are moved here: those given by the user stay where they are, and those of a
rule are chosen again by that rule.
"""

from __future__ import annotations

import scipy.sparse

from ..arrays import Array
from ..fit.captured_ratio import captured_on
from ..rules.base import Choice, Selection
from ..search.chooser import Effort
from ..search.moved import FreePoints
from ..search.subspace import coordinates


def against_current(choice: Choice, points: Array, effort: Effort) -> Choice:
    """The fresh choice of moved points, or the current points moved on where these capture more."""
    fresh, problem = choice.selection, choice.problem
    if fresh.indices is not None or fresh.exhaustive or scipy.sparse.issparse(points):
        return choice  # the fresh points are rows, and the current ones are not among the rows at hand
    if points.shape[0] != fresh.n_support:
        return choice
    sample = problem.sample
    found = problem.coordinates or coordinates(sample)
    search = FreePoints(sample, found, effort.max_iter, effort.tol, problem.rng)
    start = found.inside(points)
    runner = search.start(search.objective, start).run(
        search.n_steps(fresh.n_support), sample.plan.least_gain * effort.tol**2
    )
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
