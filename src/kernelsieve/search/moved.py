"""Free support points: moved to where they capture the most variance.

The race.  Points are moved from several starts in parallel.  k-means centres are good for wide kernels.  For narrow
kernels they fall between the rows, and rows by the targeted rule are better.  If tails are heavy, rows by randomly
pivoted Cholesky are a third start.  After a share of the steps, only the leader goes on.  If all its steps gained
nothing over a start that consists of rows, these rows are kept.  Most steps are taken on a part of the sample and the
last steps on all of it, because how many rows the points are moved for matters more than how far they are moved.

The exchange.  If no point is near the rows that carry a component, nothing of the component is captured, and no step
leads there, because the gradient of captured variance falls off like the kernel itself.  The least useful points are
then exchanged for rows that explain what is missing.  With s_k the share of exact component k, of variance lambda_k,
that is in the span of the points, and mu the variances of the points' own components, this promises

    sum over k with s_k < missed  of  lambda_k - max(s_k lambda_k, mu_M)

because a new component replaces either its own partial version or the weakest component.

On small data, every rule chooses rows as well, and the best of these choices is moved, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..arrays import TINY, Array, as_float64, is_accelerated, is_numpy, is_torch, like, namespace, take_rows, to_numpy
from ..fit.plan import SearchPlan
from ..fit.rowset import RowSet, carried_variance, draw, tails
from ..fit.sample import Sample
from ..rules.base import gram_of_sample
from ..rules.distances import as_rows_in, kmeans_centers
from ..rules.registry import rows_by_each_rule
from ..rules.residual import randomly_pivoted_cholesky
from ..rules.targeted import targeted_rows
from ..spectrum.whitening import whiten
from ..threads import cached_property, ordered_map
from .lbfgs import Ascent
from .objective import CapturedVariance
from .objective_cuda import CapturedOnDevice
from .subspace import Coordinates, lifted, principal_points

NO_ROWS = np.empty(0, dtype=np.intp)


@dataclass(frozen=True)
class Candidate:
    """The points that a search has found, in the search's coordinates, and how it found them."""

    points: Array  # (m, r)
    captured: float
    rows: np.ndarray | None  # places in the sample, if the points are rows because moving them gained nothing
    n_steps: int
    converged: bool
    starts: dict[str, float]  # variance captured from each start when the winner was chosen
    winner: str
    seeds: np.ndarray  # places in the sample of the rows that points were started from
    enough: bool = False  # the points capture so much that nothing else is tried

    @property
    def n_support(self) -> int:
        return int(self.points.shape[0])


@dataclass(frozen=True)
class Race:
    """The starts, and the ascents from them after their first steps."""

    objective: CapturedVariance  # the objective of the first steps
    starts: dict[str, Array]
    rows: dict[str, np.ndarray]  # places in the sample, for starts that are rows
    runners: dict[str, Ascent]
    unmoved: dict[str, float]  # captured variance of the starts before any step

    @property
    def reached(self) -> dict[str, float]:
        """The variance captured from each start after its first steps."""
        return {name: runner.value for name, runner in self.runners.items()}

    @property
    def leader(self) -> str:
        """The name of the start from which most is captured after the first steps."""
        return max(self.runners, key=lambda name: self.runners[name].value)


@dataclass(frozen=True, eq=False)
class FreePoints:
    """The search for any number of free points on one sample."""

    sample: Sample
    coordinates: Coordinates  # the coordinates in which points are moved
    max_iter: int
    tol: float
    rng: np.random.Generator

    @property
    def plan(self) -> SearchPlan:
        """The numbers that steer the search."""
        return self.sample.plan

    @cached_property
    def objective(self) -> CapturedVariance:
        """The objective on the search rows."""
        return self._of_sample(self.sample.unit_weights).part(self.sample.search)

    @cached_property
    def _evaluation(self) -> CapturedVariance:
        """The objective on the evaluation rows, whose exact kernel PCA is known."""
        rows = self.sample.evaluation
        of_rows = None if rows.weights is None else np.pad(rows.unit_weights, (0, self.sample.size - rows.size))
        return self._of_sample(of_rows).part(slice(0, rows.size))

    @property
    def _enough(self) -> float:
        """Points that capture this much variance of the evaluation rows are moved no further."""
        return self.plan.kept_enough * self.sample.evaluation.exact.captured

    def _of_sample(self, unit_weights: np.ndarray | None) -> CapturedVariance:
        """The objective on all rows of the sample, with weights that sum to one."""
        c, sample = self.coordinates, self.sample
        omega = None if unit_weights is None else like(unit_weights, c.rows)
        kind = CapturedOnDevice if is_torch(c.rows) else CapturedVariance
        return kind(c.kernel, c.rows, c.row_scale, omega, sample.n_components, sample.center, sample.n_threads)

    def search(self, n_support: int) -> Candidate:
        """The points found from the best start, after an exchange if they miss too much variance."""
        if self.coordinates.kernel.linear_in_rows:
            return self._principal(n_support)
        found, exact = self._raced(n_support), self.sample.evaluation.exact
        if found.enough:
            return found
        missed = exact.captured - self._evaluated(found)
        return self._bettered(found, missed) if missed > (1 - self.plan.kept_enough) * exact.captured else found

    def _evaluated(self, found: Candidate) -> float:
        """The variance of the evaluation rows that these points capture."""
        return found.captured if self.sample.evaluation.is_all else self.captured(self._evaluation, found.points)

    def _centers(self, n_support: int) -> Array:
        """k-means centres of the rows that early steps use."""
        plan, (objective, _) = self.plan, self._coarse(n_support)
        n_threads = self.sample.n_threads if is_numpy(objective.rows) else 1
        centers = kmeans_centers(objective.rows, n_support, plan.kmeans_steps, self.rng, objective.weights, n_threads)
        return as_rows_in(centers, objective.rows, self.sample.held_columns)

    def _bettered(self, found: Candidate, missed: float) -> Candidate:
        """The points found, or better ones after an exchange or from another rule.

        `missed` is how much less of the evaluation rows' variance the points capture than exact kernel PCA.
        """
        rows = self.sample.evaluation
        if missed >= self.plan.least_missed * float(rows.exact.variances[-1]):
            found = exchanged(self, found)
        few = rows.is_all and rows.size**2 * found.n_support <= self.plan.any_rule_work
        return from_any_rule(self, found) if few and not is_torch(rows.gram) else found

    def _raced(self, n_support: int) -> Candidate:
        """Run the race, then the leader's remaining steps; if a start that consists of rows captures more, move it.

        Nothing is moved if k-means centres capture enough of exact kernel PCA's variance.  No further steps are taken
        if the leader's points capture enough after the race.
        """
        centers = self._centers(n_support)
        captured = self.captured(self._evaluation, centers)
        if captured >= self._enough:
            return Candidate(centers, captured, None, 0, True, {"kmeans": captured}, "kmeans", NO_ROWS, enough=True)
        many = n_support > self.plan.many_points
        only = self._race(n_support // self.plan.raced_fraction).leader if many else None
        race = self._race(n_support, only, centers)
        (_, n_coarse), best = self._coarse(n_support), race.runners[race.leader]
        seeds = race.rows.get(race.leader, NO_ROWS)
        known = self.sample.evaluation.is_all and race.objective is self.objective
        captured = best.value if known else self.captured(self._evaluation, best.points)
        if captured >= self._enough:
            steps, reached = best.n_steps, race.reached
            return Candidate(best.points, captured, None, steps, True, reached, race.leader, seeds, enough=True)
        n_race, best = best.n_steps, best.run(n_coarse - best.n_steps, self._least_gain(race.objective))
        best, converged = self.finish(best, self.n_steps(n_support) - max(n_coarse, n_race))
        moved = Candidate(best.points, best.value, None, best.n_steps, converged, race.reached, race.leader, seeds)
        # Unmoved rows that capture nearly as much are compared with the moved points on the rows of the last steps.
        close = [name for name in race.rows if race.unmoved[name] > self.plan.close_behind * race.reached[race.leader]]
        plain = {name: self.captured(self.objective, race.starts[name]) for name in close}
        first = max(close, key=lambda name: plain[name], default="")
        if not first or plain[first] <= moved.captured:
            return moved
        rows = race.rows[first]
        led = replace(moved, points=race.starts[first], captured=plain[first], rows=rows, seeds=rows)
        return self.from_rows(led, first)

    def points(self, moved: Array) -> Array:
        """Points in input space, after a last step in the directions that the search's coordinates leave out."""
        found = self.coordinates
        if found.basis is None or found.row_scale is None or not is_numpy(self.sample.rows.X):
            return found.points(moved)
        return lifted(self.sample, found, self.objective, moved)

    def _race(self, n_support: int, only: str | None = None, centers: Array = None) -> Race:
        """Take the first steps from every start, or from the start `only` if one is named."""
        plan, (objective, _) = self.plan, self._coarse(n_support)
        rows, n_threads = self._row_starts(n_support, only), self.sample.n_threads if is_numpy(objective.rows) else 1
        starts = {name: self.rows_at(places) for name, places in rows.items()}
        if only in (None, "kmeans"):
            starts = {"kmeans": self._centers(n_support) if centers is None else centers} | starts
        n_race = max(1, round(plan.race_share * self.n_steps(n_support)))

        def run(points: Array) -> tuple[float, Ascent]:
            runner = self.start(objective, points)
            return runner.value, runner.run(n_race, self._least_gain(objective))

        ran = dict(zip(starts, ordered_map(run, list(starts.values()), n_threads), strict=True))
        runners = {name: runner for name, (_, runner) in ran.items()}
        return Race(objective, starts, rows, runners, {name: value for name, (value, _) in ran.items()})

    def from_rows(self, plain: Candidate, rule: str, least: float = 0.0) -> Candidate:
        """Move the rows of `plain`, chosen by `rule`, with all search rows; keep the rows if that gains nothing.

        If `least` is given, give up when the remaining steps, at the mean gain of the last two, would not capture it.
        """
        runner, n_left = self.start(self.objective, plain.points), self.max_iter
        values, least_gain = [runner.value], self._least_gain(self.objective)
        while least and n_left > round(self.max_iter / 4) and not runner.converged:
            n_left, values = n_left - 1, [*values[-2:], runner.run(1, least_gain).value]
            if len(values) == 3 and values[2] + n_left * (values[2] - values[0]) / 2 < least:
                n_steps = plain.n_steps + runner.n_steps
                return replace(plain, points=runner.points, n_steps=n_steps, captured=runner.value, rows=None)
        runner, converged = self.finish(runner, n_left)
        n_steps = plain.n_steps + runner.n_steps
        if runner.value <= plain.captured:
            return replace(plain, n_steps=n_steps, converged=converged, winner="rows")
        return Candidate(runner.points, runner.value, None, n_steps, converged, plain.starts, rule, plain.seeds)

    def _row_starts(self, n_support: int, only: str | None) -> dict[str, np.ndarray]:
        """Places in the sample of the rows to start from; filled up at random if a rule finds fewer."""
        found = {"targeted": targeted_rows(self.sample.evaluation, n_support)} if only in (None, "targeted") else {}
        if only == "rpcholesky" or (only is None and self._heavy_tailed):
            sample = self.sample.in_float64
            state = randomly_pivoted_cholesky(gram_of_sample(sample), n_support, self.rng, weights=sample.rows.weights)
            found["rpcholesky"] = np.asarray(state.chosen, dtype=np.intp)
        return {name: self.filled_up(rows, n_support) for name, rows in found.items()}

    def filled_up(self, rows: np.ndarray, n_support: int) -> np.ndarray:
        """These rows, and random ones if there are fewer than `n_support`."""
        if len(rows) == n_support:
            return rows
        others = np.setdiff1d(np.arange(self.sample.size), rows)
        return np.concatenate([rows, self.rng.choice(others, n_support - len(rows), replace=False)])

    def rows_at(self, places: np.ndarray) -> Array:
        return take_rows(self.coordinates.rows, places)

    @cached_property
    def _carried(self) -> np.ndarray:
        """The variance that each search row carries (see fit/rowset.py)."""
        o = self.objective
        return carried_variance(o.kernel, o.rows, self._weights, o.row_scale)

    @property
    def _weights(self) -> np.ndarray | None:
        """Weights of the search rows, on the host."""
        return None if self.objective.weights is None else to_numpy(self.objective.weights)

    @cached_property
    def _heavy_tailed(self) -> bool:
        return tails(self._carried, self._weights) > self.plan.heavy_tails

    def _principal(self, n_support: int) -> Candidate:
        """The best points for a kernel that is linear in rows, plus random rows if the rows span fewer dimensions."""
        points = principal_points(self.objective, n_support)
        others = self.rows_at(self.filled_up(NO_ROWS, n_support - points.shape[0]))
        points = namespace(points).concat([points, others], axis=0)
        value = self.objective.captured(points)
        return Candidate(points, value, None, 1, True, {}, "principal directions", NO_ROWS)

    def resize(self, previous: Candidate, n_support: int) -> Candidate:
        """Change the number of points found, and move them again.

        To have fewer points, the least useful are dropped; to have more, rows by the targeted rule are added.
        """
        if self.coordinates.kernel.linear_in_rows:
            return self._principal(n_support)
        change, seeds = n_support - previous.n_support, previous.seeds
        if change < 0:
            order = np.argsort(-to_numpy(self.usefulness(previous.points)[1]), kind="stable")
            points = take_rows(previous.points, np.sort(order[:n_support]))
        else:
            points, added = self.with_rows(previous.points, change, self.sample.evaluation)
            seeds = np.union1d(seeds, added)
        coarse, n_coarse = self._coarse(n_support)
        runner = self.start(coarse, points).run(n_coarse, self._least_gain(coarse))
        runner, converged = self.finish(runner, self.n_steps(n_support) - n_coarse)
        starts = {**previous.starts, "resized": runner.value}
        return Candidate(runner.points, runner.value, None, runner.n_steps, converged, starts, "resized", seeds)

    def with_rows(self, points: Array, count: int, among: RowSet) -> tuple[Array, np.ndarray]:
        """The points and `count` more rows, and the places of these rows in the sample.

        The targeted rule chooses the rows for the part of the targets that the points do not explain.
        """
        found = self.coordinates
        features = found.cross_gram(points, slice(0, among.size)) @ whiten(found.kernel(points, points)).matrix
        rows = self.filled_up(targeted_rows(among, count, to_numpy(features)), count)
        return namespace(points).concat([points, self.rows_at(rows)], axis=0), rows

    def n_steps(self, n_support: int) -> int:
        """The number of steps allowed for this many points."""
        share = self.plan.device_share if is_accelerated(self.objective.rows) else 1.0
        return max(2, round(share * self.max_iter * min(1.0, self.plan.many_points / n_support) ** 2))

    def _coarse(self, n_support: int) -> tuple[CapturedVariance, int]:
        """The objective of the early steps, on a part of the search rows if these are many; and the number of steps."""
        n_rows = max(self.plan.coarse_rows, self.plan.coarse_rows_per_point * n_support)
        if self.objective.n_rows < 2 * n_rows or is_accelerated(self.objective.rows):
            return self.objective, 0
        n_steps = round(self.plan.coarse_share * self.n_steps(n_support))
        if not self._heavy_tailed and self.sample.drawn is None:
            # The last rows, because the first may be evaluation rows, which should not guide what they measure.
            return self.objective.part(slice(self.objective.n_rows - n_rows, None)), n_steps
        weights = self._weights
        drawn = draw(self._carried[::-1], None if weights is None else weights[::-1], n_rows)
        return self.objective.drawn(self.objective.n_rows - 1 - drawn.places, drawn.weights), n_steps

    def start(self, objective: CapturedVariance, points: Array) -> Ascent:
        """An ascent that begins at these points."""
        return self._light(objective, points).ascent(points, self._exact_on(points, objective))

    def _light(self, objective: CapturedVariance, points: Array) -> CapturedVariance:
        """The objective in float32, if that is precise enough for points that capture as much as exact kernel PCA."""
        return objective.light(points, self.sample.evaluation.exact.captured)

    def captured(self, objective: CapturedVariance, points: Array) -> float:
        """The variance that these points capture."""
        return objective.captured(points, self._exact_on(points, objective))

    def _exact_on(self, points: Array, objective: CapturedVariance) -> Array | None:
        """Exact kernel PCA's components over these points, to start the eigensolver; None if there are few points."""
        if not objective.has_many(points):
            return None
        return self.coordinates.images_of_exact(points, self.sample.evaluation)[1]

    def _least_gain(self, objective: CapturedVariance) -> float:
        """A step that gains a smaller share than this is not worth its time: it is the last on the objective's rows."""
        coarse = objective.n_rows < self.objective.n_rows
        return (self.plan.coarse_gain if coarse else self.plan.least_gain) * self.tol**2

    def finish(self, runner: Ascent, n_steps: int) -> tuple[Ascent, bool]:
        """Take the last steps, on all search rows; return the ascent and whether it has converged.

        It has converged if the last steps, at most max_iter / 4 of them, together gained no more than `tol`.
        """
        assert isinstance(runner.objective, CapturedVariance)
        if runner.objective.n_rows < self.objective.n_rows:
            runner.continue_on(self._light(self.objective, runner.points))
        last = max(1, min(n_steps, round(self.max_iter / 4)))
        before = runner.finish(n_steps, last, self._least_gain(self.objective))
        return runner, runner.converged or runner.value - before <= self.tol * abs(runner.value)

    def usefulness(self, points: Array) -> tuple[Array, Array]:
        """The variances mu of the best components, and the usefulness of each point.

        Without point i, component k is projected on the span of the other points, which lowers its squared length by
        g_ik^2 / (K^-1)_ii.  The usefulness is the sum of these losses, weighted by mu_k.
        """
        xp = namespace(points)
        values, coef = self.objective.components(points)
        inverse = xp.sum(whiten(self.coordinates.kernel(points, points)).matrix ** 2, axis=1)
        lost = xp.sum(coef**2 * values, axis=1)
        # A point whose (K^-1)_ii is zero contributes nothing but rounding, so it gets usefulness 0.
        return values, xp.where(inverse > 0, lost / xp.where(inverse > 0, inverse, 1.0), 0.0)


def exchanged(search: FreePoints, found: Candidate) -> Candidate:
    """The points found or, if they miss components and it pays, points of which the least useful have been exchanged.

    Rows that carry the missing components replace them, and then all points are moved again.
    """
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
    # These steps use all search rows: on a part of them, losses at the other points would cancel what the new points
    # gain.
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
    """The points found or, if these capture more, points moved from the rows that the best of all rules chooses."""
    plain: dict[str, Candidate] = {}
    for name, chosen in rows_by_each_rule(search.sample, found.n_support, search.rng).items():
        rows = search.filled_up(chosen, found.n_support)
        points = search.rows_at(rows)
        value = search.captured(search.objective, points)
        plain[name] = replace(found, points=points, captured=value, rows=rows, seeds=rows)
    leader = max(plain, key=lambda name: plain[name].captured)
    if plain[leader].captured <= search.plan.close_behind * found.captured:
        return found
    moved = search.from_rows(plain[leader], leader, found.captured)
    best = max(found, moved, key=lambda candidate: candidate.captured)
    return replace(best, starts=found.starts | {leader: moved.captured})


def _shares_of_components(search: FreePoints, points: Array) -> np.ndarray:
    """(M,) the share of each exact component's squared length that lies in the span of the points."""
    rows, coordinates = search.sample.evaluation, search.coordinates
    coef, xp = rows.exact.row_coef, namespace(rows.exact.row_coef)
    lengths = as_float64(to_numpy(xp.sum(coef * like(rows.targets, coef), axis=0)))
    images, _ = coordinates.images_of_exact(points, rows)
    inside = to_numpy(whiten(coordinates.kernel(points, points)).matrix.T @ images) ** 2
    return np.asarray(inside.sum(axis=0) / np.maximum(lengths, TINY))
