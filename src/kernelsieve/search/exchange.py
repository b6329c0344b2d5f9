"""Exchange: idle points replaced by other rows after the ascent, or all points started again from other rows.

If no point is near the rows that carry a component, nothing of it is captured, and no step leads there, because the
gradient of captured variance falls off like the kernel itself.  The least useful points are then exchanged for rows
that explain what is missing.  With s_k the share of exact component k, of variance lambda_k, that is in the span of
the points, and mu the variances of the points' own components, this promises

    sum over k with s_k < missed  of  lambda_k - max(s_k lambda_k, mu_M)

because a new component replaces either its own partial version or the weakest component.  If there are few rows, every
rule chooses some, and the best choice is moved as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..arrays import TINY, Array, like, namespace, take_rows, to_numpy
from ..rules.registry import rows_by_each_rule
from ..spectrum.whitening import whiten

if TYPE_CHECKING:
    from .moved import Candidate, FreePoints


def exchanged(search: FreePoints, found: Candidate) -> Candidate:
    """The points found or, if they miss a component, those with the least useful replaced by rows that carry it."""
    rows = search.sample.evaluation
    exact, share = rows.exact, _shares_of_components(search, found.points)
    missed = share < search.plan.missed
    count = int(missed.sum())
    if not count:
        return found
    values, useful = (to_numpy(part) for part in search.usefulness(found.points))
    order = np.argsort(-useful, kind="stable")
    promise = exact.variances[missed] - np.maximum(share[missed] * exact.variances[missed], values[-1])
    if promise.sum() - useful[order[-count:]].sum() < search.plan.worth_a_try * exact.captured:
        return found
    points, added = search.with_rows(take_rows(found.points, np.sort(order[:-count])), count, rows)
    # on all rows, like the last steps: on a part of them the other points would lose what these gain
    n_steps = max(1, round(search.plan.exchange_share * search.n_steps(found.n_support)))
    runner, converged = search.finish(search.start(search.objective, points), n_steps)
    found = replace(found, starts=found.starts | {"exchanged": runner.value})
    if runner.value <= found.captured:
        return found
    return replace(
        found,
        points=runner.points,
        captured=runner.value,
        rows=None,
        n_steps=found.n_steps + runner.n_steps,
        converged=converged,
        winner="exchanged",
        seeds=np.union1d(found.seeds, added),
    )


def from_any_rule(search: FreePoints, found: Candidate) -> Candidate:
    """The points found, or better ones: the rows chosen by the best of all rules, moved."""
    plain: dict[str, Candidate] = {}
    for name, chosen in rows_by_each_rule(search.sample, found.n_support, search.rng).items():
        rows = search.filled_up(chosen, found.n_support)
        points = search.rows_at(rows)
        value = search.captured(search.objective, points)
        plain[name] = replace(found, points=points, captured=value, rows=rows, seeds=rows)
    leader = max(plain, key=lambda name: plain[name].captured)
    if plain[leader].captured <= search.plan.close_behind * found.captured:
        return found
    moved = search.from_rows(plain[leader], leader)
    best = max(found, moved, key=lambda candidate: candidate.captured)
    return replace(best, starts=found.starts | {leader: moved.captured})


def _shares_of_components(search: FreePoints, points: Array) -> np.ndarray:
    """(M,) the share of each exact component's direction that is in the span of the points."""
    rows, coordinates = search.sample.evaluation, search.coordinates
    directions, xp = rows.exact.directions, namespace(rows.exact.directions)
    lengths = to_numpy(xp.sum(directions * like(rows.targets, directions), axis=0))
    images, _ = coordinates.images_of_exact(points, rows)
    inside = to_numpy(whiten(coordinates.kernel(points, points)).matrix.T @ images) ** 2
    return np.asarray(inside.sum(axis=0) / np.maximum(lengths, TINY))
