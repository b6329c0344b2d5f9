"""The best of several rules, where points cannot be moved: each chooses, and what is measured decides.

A kernel that is positive semi-definite needs few rules.  Where it may be indefinite none is to be trusted: if what the
first few keep is not nearly all, every rule is tried, and those that depend on chance more than once.
"""

from __future__ import annotations

from dataclasses import replace

from ..arrays import as_float64, is_numpy, to_numpy
from ..fit.problem import Problem
from ..fit.sample import Sample
from ..rules.base import Choice, Selection
from ..rules.registry import UNSWAPPED, selector

ROW_RULES = ("targeted", UNSWAPPED, "rpcholesky")
GOOD_ENOUGH = 0.998  # kept by the first few rules: no others are tried
NOT_SEEN_INDEFINITE = 0.97  # the same for a callable that may be indefinite and is not on these rows
OTHER_RULES = ("residual", "leverage", "farthest", "dissimilar", "uniform")
CHANCE_RULES, TRIES, KMEANS_TRIES = ("leverage", "uniform", "gain", "rpcholesky"), 3, 8
DEFAULT_SWAPS = 5
GAIN_WORK = 3e7  # residuals that "gain" may update to be one of them
TRY_ALL_WORK = 3e6  # the same, for rows so few that all rules are tried whether or not an indefinite kernel shows


def best_of_rules(problem: Problem, n_support: int, n_swaps: int = 0, *, thorough: bool = True) -> Selection:
    """So many points by the best of a few rules; `thorough` tries them all where the kernel may be indefinite."""
    sample = problem.sample
    work = sample.size * sample.n_evaluation * n_support
    names = (*ROW_RULES, "kmeans") if _centres_may_do(sample) else ROW_RULES
    if work <= GAIN_WORK:
        names = (*names, "gain")
    found = _best_of(names, problem, n_support, n_swaps)
    doubtful = bool(sample.indefiniteness) or work <= TRY_ALL_WORK
    enough = GOOD_ENOUGH if doubtful else NOT_SEEN_INDEFINITE
    if thorough and not sample.kernel.definite and merit(found) < (sample.n_components, enough):
        chance = [name for name in CHANCE_RULES if name in (*names, *OTHER_RULES)] * TRIES if doubtful else []
        centres = ["kmeans"] * KMEANS_TRIES if doubtful and "kmeans" in names else []
        found = max(found, _best_of((*OTHER_RULES, *chance, *centres), problem, n_support, n_swaps), key=merit)
    return replace(found.selection, nested=False)


def _centres_may_do(sample: Sample) -> bool:
    """Whether points that are no rows are worth a try: of kernels that have values there, and may be indefinite."""
    if sample.kernel.precomputed:
        return False
    return bool(sample.indefiniteness) or (sample.kernel.definite is False and is_numpy(sample.rows.X))


def _best_of(names: tuple[str, ...], problem: Problem, n_support: int, n_swaps: int) -> Choice:
    """The best of what these rules choose; what has no positive part only where nothing has one."""
    tried = []
    for name in names:
        options = {"n_swaps": n_swaps or DEFAULT_SWAPS} if name == "targeted" else {}
        rule = selector("targeted" if name == UNSWAPPED else name, **options)
        chosen = rule(problem.sample, n_support, problem.rng)
        tried.append(replace(chosen, history={**chosen.history, "winner": name}))
    tried = [one for one in tried if _has_positive_part(one)] or [one for one in tried if one.n_support] or tried
    return max((Choice.measured(one, problem) for one in tried), key=merit)


def _has_positive_part(chosen: Selection) -> bool:
    """Whether k(s, s) > 0 for some point: of an indefinite kernel, a rule may choose none such."""
    if chosen.kernel.definite or chosen.kernel.precomputed:
        return True
    return bool(to_numpy(chosen.kernel.diagonal(as_float64(chosen.points))).max(initial=0.0) > 0)


def merit(choice: Choice) -> tuple[int, float]:
    """By which choices are compared: all components first, then what they capture."""
    assert choice.ratio is not None
    return choice.ratio.n_directions, choice.ratio.value
