"""The best of several rules, where points cannot be moved: each chooses, and what is measured decides.

A kernel that is positive semi-definite needs few rules.  Where it may be indefinite none is to be trusted: if the first
few do not keep nearly all, every other rule is tried as well, and those that depend on chance several times.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..arrays import as_float64, is_numpy, to_numpy
from ..fit.problem import Problem
from ..fit.sample import Sample
from ..kernels.base import dense
from ..rules.base import Choice, Selection
from ..rules.registry import UNSWAPPED, selector

ROW_RULES = ("targeted", UNSWAPPED, "rpcholesky")
OTHER_RULES = ("gain", "residual", "farthest", "dissimilar")
CHANCE_RULES, TRIES = ("leverage", "uniform", "rpcholesky", "kmeans"), 5
NEARLY_ALL_KEPT = 0.998  # by the first few rules: no others are tried
DEFAULT_SWAPS = 5


def best_of_rules(problem: Problem, n_support: int, n_swaps: int = 0, *, thorough: bool = True) -> Selection:
    """So many points by the best of a few rules; `thorough` tries them all where the kernel may be indefinite."""
    sample = problem.sample
    if sample.plan.all_evaluate and not sample.rows.whole:  # each further rule would be measured on values of its own
        return replace(_chosen_by("targeted", problem, n_support, n_swaps), nested=False)
    names = (*ROW_RULES, "kmeans") if _centres_may_do(sample) else ROW_RULES
    found = _best_of(names, problem, n_support, n_swaps)
    if thorough and not sample.kernel.definite and merit(found) < (sample.n_components, NEARLY_ALL_KEPT):
        chance = [name for name in CHANCE_RULES if name != "kmeans" or name in names]
        others = (*OTHER_RULES, *chance * (TRIES if sample.indefiniteness else 1))
        found = max(found, _best_of(others, problem, n_support, n_swaps), key=merit)
    return replace(found.selection, nested=False)


def _centres_may_do(sample: Sample) -> bool:
    """Whether points that are no rows are worth a try: of kernels that have values there.

    A user's function of vectors has them; but rows of one or two whole numbers may be numbers of objects, which have no
    centres.
    """
    if sample.kernel.rows_only or sample.plan.all_evaluate:  # values at centres would be beyond a budget
        return False
    if sample.kernel.definite is None:
        values = dense(sample.evaluation.given)
        return int(values.shape[1]) > 2 or bool(np.any(to_numpy(values) % 1 != 0))
    return bool(sample.indefiniteness) or (sample.kernel.definite is False and is_numpy(sample.rows.X))


def _best_of(names: tuple[str, ...], problem: Problem, n_support: int, n_swaps: int) -> Choice:
    """The best of what these rules choose; what has no positive part only where nothing has one."""
    tried = [_chosen_by(name, problem, n_support, n_swaps) for name in names]
    tried = [one for one in tried if _has_positive_part(one)] or [one for one in tried if one.n_support] or tried
    return max((Choice.measured(one, problem) for one in tried), key=merit)


def _chosen_by(name: str, problem: Problem, n_support: int, n_swaps: int) -> Selection:
    options = {"n_swaps": n_swaps or DEFAULT_SWAPS} if name == "targeted" else {}
    rule = selector("targeted" if name == UNSWAPPED else name, **options)
    chosen = rule(problem.sample, n_support, problem.rng)
    return replace(chosen, history={**chosen.history, "winner": name})


def _has_positive_part(chosen: Selection) -> bool:
    """Whether k(s, s) > 0 for some point: of an indefinite kernel, a rule may choose none such."""
    if chosen.kernel.definite or chosen.kernel.precomputed:
        return True
    return bool(to_numpy(chosen.kernel.diagonal(as_float64(chosen.points))).max(initial=0.0) > 0)


def merit(choice: Choice) -> tuple[int, float]:
    """By which choices are compared: all components first, then what they capture."""
    assert choice.ratio is not None
    return choice.ratio.n_directions, choice.ratio.value
