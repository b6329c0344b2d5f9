"""From the user's request to chosen points: any rule, and any way of giving the number of points.

`n_support="auto"` searches for the smallest number of points whose captured variance, on the sample, reaches a given
share of exact kernel PCA's on the same rows.  The search at each number starts from the points found for the last one.

When points are chosen again from a later sample of the same stream, there are two candidates: points found from new
starts, and the current points moved on.  The current points alone would stay near places that were good for earlier
rows.  `against_current` measures both on the same evaluation rows and takes the better ones.  Points given by the user
are kept, and rows chosen by a rule are chosen again by that rule.

An estimator that finds its support among candidate rows gets them from `dictionary`: all rows of small data, otherwise
rows chosen by randomly pivoted Cholesky from a sample.

A user may give row numbers, points, or a function that chooses either.

For points that cannot be moved, several rules choose rows, and the choice with the best captured ratio is taken.  For a
positive semi-definite kernel a few rules are enough.  For a kernel that may be indefinite, no single rule is reliable:
if the first few do not keep nearly all of the variance, all other rules are tried as well, the random ones several
times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse

from ..arrays import Array, as_float64, is_numpy, namespace, to_numpy
from ..errors import warn
from ..fit.agreement import agreement_of_scores, exact_scores, scores_on_points
from ..fit.captured_ratio import captured_on, carriers, n_real
from ..fit.problem import Problem
from ..fit.rowset import gram_times
from ..fit.sample import Sample
from ..fit.span import SolvedRows
from ..kernels import Kernel
from ..kernels.blocks import dense
from ..rows.sampling import unit_weights
from ..rules.base import Choice, Selection, Selector
from ..rules.registry import ALIASES, RULE_OPTIONS, SELECTORS, UNSWAPPED, selector, takers
from ..spectrum.top import ExactComponents
from ..threads import cached_property
from .how_many import Fewest
from .moved import Candidate, FreePoints
from .subspace import Coordinates, coordinates, movable

ROW_RULES = ("targeted", UNSWAPPED, "rpcholesky")
OTHER_RULES = ("gain", "residual", "farthest", "dissimilar")
CHANCE_RULES = ("leverage", "uniform", "rpcholesky", "kmeans")


def best_of_rules(problem: Problem, n_support: int, n_swaps: int = 0, *, thorough: bool = True) -> Selection:
    """The best of a few rules' choices; `thorough` tries all rules if the kernel may be indefinite."""
    sample = problem.sample
    # With costly kernel values one rule must do, because each further rule would need values of its own.
    if sample.plan.all_evaluate and not sample.rows.whole:
        return replace(_chosen_by("targeted", problem, n_support, n_swaps), nested=False)
    names = (*ROW_RULES, "kmeans") if _centres_may_do(sample) else ROW_RULES
    found = _best_of(names, problem, n_support, n_swaps)
    if thorough and not sample.kernel.definite and merit(found) < (sample.n_components, sample.plan.nearly_all_kept):
        chance = [name for name in CHANCE_RULES if name != "kmeans" or name in names]
        others = (*OTHER_RULES, *chance * (sample.plan.tries if sample.indefiniteness else 1))
        found = max(found, _best_of(others, problem, n_support, n_swaps), key=merit)
    return replace(found.selection, nested=False)


def _centres_may_do(sample: Sample) -> bool:
    """Whether k-means centres are worth a try as points, which needs a kernel that has values at any point.

    A user's function usually has values at any vector.  But rows of one or two whole numbers may be indices of objects,
    for which centres mean nothing.
    """
    if sample.kernel.rows_only or sample.plan.all_evaluate:  # costly values at centres would exceed the budget
        return False
    if sample.kernel.definite is None:
        values = dense(sample.evaluation.given)
        return int(values.shape[1]) > 2 or bool(np.any(to_numpy(values) % 1 != 0))
    return bool(sample.indefiniteness) or (sample.kernel.definite is False and is_numpy(sample.rows.X))


def _best_of(names: tuple[str, ...], problem: Problem, n_support: int, n_swaps: int) -> Choice:
    """The best of these rules' choices; choices without a point with k(s, s) > 0 count only if there are no others."""
    tried = [_chosen_by(name, problem, n_support, n_swaps) for name in names]
    tried = [one for one in tried if _has_positive_part(one)] or [one for one in tried if one.n_support] or tried
    return max((Choice.measured(one, problem) for one in tried), key=merit)


def _chosen_by(name: str, problem: Problem, n_support: int, n_swaps: int) -> Selection:
    options = {"n_swaps": n_swaps or problem.sample.plan.default_swaps} if name == "targeted" else {}
    rule = selector("targeted" if name == UNSWAPPED else name, **options)
    chosen = rule(problem.sample, n_support, problem.rng)
    return replace(chosen, history={**chosen.history, "winner": name})


def _has_positive_part(chosen: Selection) -> bool:
    """Whether k(s, s) > 0 for some point; under an indefinite kernel, a rule may choose points without such values."""
    if chosen.kernel.definite or chosen.kernel.precomputed:
        return True
    return bool(to_numpy(chosen.kernel.diagonal(as_float64(chosen.points))).max(initial=0.0) > 0)


def merit(choice: Choice) -> tuple[int, float]:
    """Sort key of choices: first the number of components with any variance, then the captured ratio."""
    assert choice.ratio is not None
    return choice.ratio.n_real, choice.ratio.value


# Rules that only maximise captured variance, so that some of the components may end up with no variance at all.
BY_VARIANCE = ("optimized", "targeted", "gain")


@dataclass(frozen=True)
class Effort:
    """How much work the search does, as given by parameters of SparseKernelPCA."""

    n_samples: int | None  # size of the sample (n_optimization_samples); None for the default
    max_iter: int
    tol: float
    options: Mapping[str, Any] = field(default_factory=lambda: RULE_OPTIONS)  # options of the rule

    def check(self, name: str) -> None:
        """Raise an error if an option is given that the named rule does not have."""
        for option, value in self.options.items():
            if value != RULE_OPTIONS[option] and name not in (names := takers(option)):
                right = ", ".join(map(repr, names))
                raise ValueError(f"{option}={value} means nothing to selection={name!r}: it is for {right}")


@dataclass(frozen=True)
class Chooser:
    """Chooses support points for all training rows by one rule."""

    problem: Problem
    effort: Effort
    rule: Any  # the name of a rule; or points, row numbers or a function that the user gives instead

    def __post_init__(self) -> None:
        if self.effort.options != RULE_OPTIONS:  # to know the rule may cost a projection of the rows
            self.effort.check(self.rule_name)

    @cached_property
    def rule_name(self) -> str:
        """The name of the rule that runs: "targeted" replaces "optimized" if points cannot be moved."""
        if not isinstance(self.rule, str):
            return "callable" if callable(self.rule) else "given"
        if self.rule == "optimized" and not movable(self.problem.sample, lambda: self._coordinates):
            return "targeted"
        return ALIASES.get(self.rule, self.rule)

    @cached_property
    def _coordinates(self) -> Coordinates:
        """The coordinates of the first sample, which for sparse rows decide whether points can be moved at all."""
        return self.problem.coordinates or coordinates(self.problem.sample)

    @property
    def _most_moved(self) -> int:
        """The largest number of points that may be moved: moved points are dense, even if the rows are sparse."""
        X, most = self.problem.sample.rows.X, self.problem.sample.plan.most_dense_values
        return most // X.shape[1] if scipy.sparse.issparse(X) else most

    @property
    def _max_residual(self) -> float | None:
        value: float | None = self.effort.options["max_residual"]
        return value

    def _search(self, problem: Problem) -> FreePoints:
        """The search for free points on a problem's sample."""
        known = self._coordinates if problem.sample is self.problem.sample else coordinates(problem.sample)
        return FreePoints(problem.sample, known, self.effort.max_iter, self.effort.tol, problem.rng)

    @property
    def _selector(self) -> Selector:
        return selector(self.rule_name, **self.effort.options)

    def fixed(self, n_support: int) -> Choice:
        """A choice of `n_support` points."""
        problem = self._problem_for(self.problem, n_support)
        sample = problem.sample
        if n_support >= sample.size and sample.rows.whole and self._max_residual is None:
            return Choice(everything(problem), problem)
        if self.rule_name == "optimized" and n_support <= self._most_moved:
            search = self._search(problem)
            return self._measured(problem, _moved(problem, search, search.search(n_support)), last=True)
        return self._measured(problem, self._select(problem, n_support), last=True)

    def _select(self, problem: Problem, n_support: int, *, thorough: bool = True) -> Selection:
        """`n_support` points by the rule, or by the best of a few rules if points should be moved but cannot be."""
        if self.rule != "optimized":
            found = self._selector(problem.sample, n_support, problem.rng)
            exact = problem.sample.in_float64
            if found.n_support >= n_support or exact is problem.sample or self._max_residual is not None:
                return found
            # Rounding in float32 ended a greedy rule too soon, so repeat it in float64.
            return self._selector(exact, n_support, problem.rng)
        return best_of_rules(problem, n_support, self.effort.options["n_swaps"], thorough=thorough)

    def automatic(self, variance: float, agreement: float | None = None) -> Choice:
        """A choice of the fewest points that keep the share `variance` of what exact kernel PCA keeps.

        With `agreement`, every component must also agree with its exact counterpart to that degree.  If the option
        `max_residual` is set, points are added until no sampled row has a larger residual.
        """
        if self._max_residual is not None:
            return self._until_explained(self._max_residual)
        sample = self.problem.sample
        n_components, center, plan = sample.n_components, sample.center, sample.plan
        # Points that can be moved anywhere carry components that are linear in the rows one by one.
        one_by_one = sample.kernel.linear_in_rows and self.rule == "optimized"
        first = n_components + (int(center) if one_by_one else plan.first_extra_points)
        problem = self._problem_for(self.problem, first)
        whole = problem.sample.rows.whole
        n_rows = problem.sample.size if whole else problem.rows.n_samples
        if first >= n_rows:
            return Choice(everything(problem), problem)
        few = whole and n_rows <= plan.max_auto_exact
        largest = min(n_rows, plan.max_auto_support)
        if self.effort.n_samples and not whole:
            largest = min(largest, self.effort.n_samples // plan.rows_to_choose_from)
        target = _target_on_sample(problem.sample, variance)
        # Points among sparse rows move in a few directions only, and miss more than what is certain.
        allowed = (1 - target) * (plan.missed_by_sparse if scipy.sparse.issparse(sample.rows.X) else 1.0)
        if few and largest < n_rows and problem.sample.evaluation.misses_more(allowed, plan.hopeless * first, n_rows):
            return Choice(everything(problem), problem)
        free = self.rule_name == "optimized"
        largest = min(largest, self._most_moved) if free else largest
        at = self._free_sizes(problem) if free else self._rule_sizes(problem)
        missed = None if agreement is None else Agreed(agreement).missed
        least, else_all = n_components + int(center), few and free
        tried = Fewest(at, least, largest, target, plan, costly=free, else_all=else_all, missed=missed).search(first)
        curve = [*tried.ratios]
        best = tried.best or (Choice(everything(problem), problem) if few else at(largest))
        if best.ratio is not None and best.ratio.value < variance:
            curve.append((largest, best.ratio.value))
            warn(
                f"n_support='auto' stopped at {largest} points, which keep {best.ratio.value:.1%} of what exact kernel "
                f"PCA keeps, not variance={variance}: {_advice(problem.kernel)}"
            )
        if missed is not None and tried.best is None and best.ratio is not None and missed(best) > 1:
            warn(
                f"n_support='auto' stopped at {largest} points, with which not every component agrees with exact "
                f"kernel PCA's to agreement={agreement}: give fewer n_components, or n_support as a number"
            )
        return best.noting(curve=curve)

    def _until_explained(self, limit: float) -> Choice:
        """Add points until no sampled row has a residual above `limit`."""
        sample = self.problem.sample
        least = sample.n_components + int(sample.center)
        problem = self._problem_for(self.problem, least)
        selection = self._select(problem, sample.plan.max_auto_support)
        left = selection.history["largest_residual"]
        if selection.n_support < least:
            raise ValueError(
                f"max_residual={limit} is reached by {selection.n_support} points, at least {least} are needed: give "
                "a smaller one"
            )
        if left > limit:
            warn(
                f"max_residual={limit} was not reached by {selection.n_support} points, which leave {left:.3g}: give "
                "a larger one, a smaller gamma, or n_support as a number"
            )
        return self._measured(problem, selection)

    def _problem_for(self, problem: Problem, n_support: int) -> Problem:
        """The problem with a sample that is large enough for `n_support` points."""
        asked, least = self.effort.n_samples, problem.sample.plan.rows_to_choose_from * n_support
        if asked and not problem.sample.rows.whole and asked < least:
            raise ValueError(
                f"n_optimization_samples={asked} rows are too few to choose {n_support} points from: give at least "
                f"{least}"
            )
        return problem.for_points(n_support, asked)

    def _measured(self, problem: Problem, selection: Selection, *, last: bool = False) -> Choice:
        """The choice with its ratio; if it is the `last` one and there are threads for both, also with its span.

        If points that maximise captured variance lack components, rows by the residual rule may replace them.
        """
        choice = Choice.measured(_as_rows_hold_it(problem, selection), problem, last=last)
        selection, ratio = choice.selection, choice.ratio
        assert ratio is not None
        if self.rule_name not in BY_VARIANCE or ratio.n_real >= problem.sample.n_components:
            return choice
        # Components with hardly any variance do not influence a choice by captured variance.  The residual rule chooses
        # rows that differ most from each other, which span these components, too.
        rows = SELECTORS["residual"](problem.sample.in_float64, selection.n_support, problem.rng)
        rows = replace(rows, history={**selection.history, "winner": "rows"}, by_evaluation=False)
        ours, theirs = (_n_real(problem, chosen) for chosen in (selection, rows))
        if ours >= theirs:
            return choice
        other = Choice.measured(rows, problem)
        assert other.ratio is not None
        return replace(other, ratio=replace(other.ratio, n_real=theirs))

    def _free_sizes(self, problem: Problem) -> Callable[[int], Choice]:
        """A function that chooses any number of free points.

        Each search starts from the result of the last one, as long as the sample is the same.
        """
        search: FreePoints | None = None
        last: Candidate | None = None
        rows_for = 0

        def at(n_support: int) -> Choice:
            nonlocal problem, search, last, rows_for
            if n_support > problem.sample.plan.grows_enough * rows_for:
                problem, rows_for = self._problem_for(problem, n_support), n_support
            # If many rows are copies, all distinct rows may be fewer than the points wanted.
            if problem.sample.rows.whole and n_support >= problem.sample.size:
                return self._measured(problem, everything(problem))
            if search is None or last is None or search.sample is not problem.sample:
                search = self._search(problem)
                last = search.search(n_support)
            else:
                last = search.resize(last, n_support)
            return self._measured(problem, _moved(problem, search, last))

        return at

    def _rule_sizes(self, problem: Problem) -> Callable[[int], Choice]:
        """A function that chooses any number of points by a rule.

        A nested selection contains every smaller one, so the rule runs only if more points are wanted than before.
        """
        longest: Selection | None = None

        def at(n_support: int) -> Choice:
            nonlocal problem, longest
            problem = self._problem_for(problem, n_support)
            if problem.sample.rows.whole and n_support >= problem.sample.size:
                return self._measured(problem, everything(problem))
            if longest is None or longest.n_support < n_support or not longest.nested:
                longest = self._select(problem, n_support, thorough=False)
            return self._measured(problem, longest.prefix(n_support) if longest.nested else longest)

        return at


@dataclass
class Agreed:
    """Compares the components on chosen points with those of exact kernel PCA, on the rows of the sample."""

    wanted: float
    known: tuple[Sample, np.ndarray] | None = None  # a sample, and the scores of exact kernel PCA on its rows

    def missed(self, choice: Choice) -> float:
        """1 - agreement of the component that agrees least, divided by the value of 1 - agreement that is allowed."""
        sample, chosen = choice.problem.sample, choice.selection
        if chosen.exhaustive:
            return 0.0
        rows, n, center = sample.rows, sample.n_components, sample.center
        if self.known is None or self.known[0] is not sample:
            self.known = sample, exact_scores(rows, sample.kernel, n, center=center, n_threads=sample.n_threads)
        scores = scores_on_points(rows, chosen, n, center=center)
        omega = unit_weights(rows.weights, len(rows.indices))
        found, _ = agreement_of_scores(scores, self.known[1], omega, center=center)
        return float(1 - found.min()) / (1 - self.wanted)


def _as_rows_hold_it(problem: Problem, selection: Selection) -> Selection:
    """The selection with its moved points rounded to float32 if the rows are float32.

    A model's points have the precision of its rows.  Far from the origin, rounding changes points noticeably, so they
    are rounded before they are measured.
    """
    if selection.indices is not None or not problem.rows.single_precision or scipy.sparse.issparse(selection.points):
        return selection
    xp = namespace(selection.points)
    return replace(selection, points=as_float64(xp.astype(selection.points, xp.float32)))


def _target_on_sample(sample: Sample, variance: float) -> float:
    """The captured ratio to reach on the sample, so that points keep about `variance` on other rows, too.

    Points capture more of the variance of the rows that they were chosen for than of other rows.  The fewer rows carry
    the variance, the larger is the difference.
    """
    n_rows, plan = carriers(sample), sample.plan
    return 1 - (1 - variance) * (n_rows / (n_rows + plan.many_carriers)) ** plan.few_carriers


def _advice(kernel: Kernel) -> str:
    if kernel.stationary:
        return "the kernel is too narrow for few points. Give a smaller gamma, or n_support as a number"
    return "few points do not carry these components. Give fewer n_components, or n_support as a number"


def everything(problem: Problem) -> Selection:
    """The selection of all distinct rows, which makes the model exact kernel PCA."""
    rows, seen = problem.sample.rows, problem.sample.evaluation
    order = np.argsort(rows.indices)
    kernel, points = problem.kernel.at(rows.X, rows.indices[order])
    solved = None
    if seen.is_all and seen.is_exact:
        found, mean = seen.exact, gram_times(seen.gram, seen.unit_weights)
        solved = SolvedRows(ExactComponents(found.variances, to_numpy(found.row_coef)[order]), mean[order])
    return Selection(
        kernel,
        points,
        rows.numbers_of(rows.indices[order]),
        {"winner": "all rows"},
        exhaustive=True,
        counts=None if rows.counts is None else rows.counts[order],
        solved=solved,
    )


def _n_real(problem: Problem, selection: Selection) -> int:
    """The number of components whose variance on all rows is more than rounding."""
    return n_real(problem.span(selection).best(problem.sample.n_components).variances)


def _moved(problem: Problem, search: FreePoints, found: Candidate) -> Selection:
    """The selection that a search found: points in input space, or rows if moving them gained nothing."""
    sample = problem.sample
    history = {"winner": found.winner, "starts": found.starts}
    if found.rows is not None:
        indices = sample.rows.indices[found.rows]
        kernel, points = sample.kernel.at(sample.rows.X, indices)
        numbers = sample.rows.numbers_of(indices)
        return Selection(
            kernel, points, numbers, history, n_steps=found.n_steps, converged=found.converged, by_evaluation=True
        )
    points = search.points(found.points)
    seeds = found.seeds[found.seeds < sample.n_evaluation]
    moved = Selection(
        sample.kernel,
        points,
        None,
        history,
        n_steps=found.n_steps,
        converged=found.converged,
        optimal=search.coordinates.kernel.linear_in_rows,
        seeds=seeds,
    )
    if search.coordinates.lost_exponent <= sample.plan.max_lost_exponent:
        return moved
    # The points could be moved only in some directions, so rows, which have components in all, may capture more.
    rows = SELECTORS["targeted"](sample, found.n_support, problem.rng)
    if captured_on(sample.evaluation, rows) <= sample.plan.rows_lead * captured_on(sample.evaluation, moved):
        return moved
    return replace(rows, history={**history, "winner": "rows"}, n_steps=found.n_steps, converged=True)


def against_current(choice: Choice, points: Array, effort: Effort) -> Choice:
    """The better of two choices on the same sample: the fresh one, or the `points` of the current model moved on."""
    fresh, problem = choice.selection, choice.problem
    if fresh.indices is not None or fresh.exhaustive or scipy.sparse.issparse(points):
        return choice  # either choice consists of rows, so there is no point to move on
    if points.shape[0] != fresh.n_support:
        return choice
    sample = problem.sample
    found = problem.coordinates or coordinates(sample)
    search = FreePoints(sample, found, effort.max_iter, effort.tol, problem.rng)
    start = search.start(search.objective, found.inside(points))
    runner, converged = search.finish(start, search.n_steps(fresh.n_support))
    current = Selection(
        fresh.kernel,
        search.points(runner.points),
        None,
        {**fresh.history, "winner": "current"},
        n_steps=runner.n_steps,
        converged=converged,
    )
    ours, theirs = (captured_on(sample.evaluation, chosen) for chosen in (current, fresh))
    if theirs >= ours:
        return choice
    return replace(choice, selection=current, ratio=None, span=None, on_evaluation=None)


def dictionary(problem: Problem, n_dictionary: int | None) -> Selection:
    """A dictionary of `n_dictionary` rows; by default all rows of small data, otherwise the plan's `dictionary_size`.

    If the kernel is not known to be definite, a dictionary of all rows is not marked as exhaustive.  It is then treated
    like a part of the rows, for which the negative part of the spectrum is found and dropped.
    """
    sample, plan = problem.sample, problem.sample.plan
    few = sample.rows.whole and sample.size <= plan.whole_dictionary
    size = n_dictionary or (plan.whole_dictionary if few else plan.dictionary_size)
    if not (sample.rows.whole and sample.size <= size):
        return SELECTORS["rpcholesky"](sample, size, problem.rng)
    return replace(everything(problem), exhaustive=problem.kernel.definite is True)


def own_points(selection: Any, problem: Problem, n_support: int | None) -> Selection:
    """Points given by the user: row numbers, points, or a function that chooses either."""
    kernel = problem.kernel
    if callable(selection):
        selection = selection(problem.sample.rows.X, n_support, kernel=kernel, rng=problem.rng)
        if np.ndim(selection) == 1:  # row numbers among the rows that the function was given
            selection = problem.sample.rows.numbers_of(np.asarray(selection))
    if scipy.sparse.issparse(selection):
        points = selection.tocsr()
    else:
        points = to_numpy(selection) if hasattr(selection, "shape") else np.asarray(selection)
    if points.ndim == 1:
        return _own_rows(points, problem)
    if kernel.rows_only:
        raise ValueError(f"selection must be row numbers with a {kernel.name} kernel: its points cannot be given")
    n_features = problem.rows.n_features
    if points.ndim != 2 or points.shape[1] != n_features:
        raise ValueError(f"selection has shape {points.shape}: give row numbers (m,), or points (m, {n_features})")
    if not np.issubdtype(points.dtype, np.number):
        raise ValueError(f"selection points must be numbers, got dtype {points.dtype}")
    values = points.data if scipy.sparse.issparse(points) else points
    if not np.all(np.isfinite(values)):
        raise ValueError("selection points contain NaN or infinity")
    # astype makes a copy, so later changes of the user's array do not change the model
    return Selection(kernel, points.astype(np.float64), None, {"winner": "given points"})


def _own_rows(rows: np.ndarray, problem: Problem) -> Selection:
    n, weights = problem.rows.n_samples, problem.rows.weights
    if rows.dtype == bool and rows.shape[0] == n:
        rows = np.flatnonzero(rows)
    if not np.issubdtype(rows.dtype, np.integer):
        raise ValueError(f"selection row numbers must be integers, got dtype {rows.dtype}")
    if rows.size == 0 or rows.min() < -n or rows.max() >= n:
        raise ValueError(f"selection row numbers must lie in [0, {n})")
    rows = rows % n
    if len(np.unique(rows)) != len(rows):
        raise ValueError("selection names a row more than once")
    sampled = problem.sample.rows
    # If the sample's array X is all training rows, row numbers are indices of X.  This is always so for a precomputed
    # kernel, whose points are columns of its gram.
    in_sample = sampled.numbers is None
    kernel, points = problem.kernel.at(sampled.X, rows) if in_sample else (problem.kernel, problem.rows.take(rows))
    return Selection(
        kernel,
        points,
        rows,
        {"winner": "given rows"},
        exhaustive=len(rows) == n,
        counts=None if weights is None else weights[rows],
    )
