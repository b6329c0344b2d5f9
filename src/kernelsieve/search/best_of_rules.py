"""The best of several rules, for points that cannot be moved: each rule chooses, and the measured ratio decides.

A positive semi-definite kernel needs only a few rules.  For a kernel that may be indefinite no single rule can be
trusted: if the first few do not keep nearly all of the variance, every other rule is tried as well, and the random
ones several times.
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
CHANCE_RULES = ("leverage", "uniform", "rpcholesky", "kmeans")


def best_of_rules(problem: Problem, n_support: int, n_swaps: int = 0, *, thorough: bool = True) -> Selection:
    """The best of a few rules' choices; `thorough` tries all rules if the kernel may be indefinite."""
    sample = problem.sample
    # each further rule would have to compute kernel values of its own
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
    """Whether points that are not rows are worth a try, which needs a kernel that has values there.

    A user's function of vectors has them; but rows of one or two whole numbers may be indices of objects, which have
    no centres.
    """
    if sample.kernel.rows_only or sample.plan.all_evaluate:  # values at centres would exceed the budget
        return False
    if sample.kernel.definite is None:
        values = dense(sample.evaluation.given)
        return int(values.shape[1]) > 2 or bool(np.any(to_numpy(values) % 1 != 0))
    return bool(sample.indefiniteness) or (sample.kernel.definite is False and is_numpy(sample.rows.X))


def _best_of(names: tuple[str, ...], problem: Problem, n_support: int, n_swaps: int) -> Choice:
    """The best of these rules' choices; one without a positive part is taken only if none has any."""
    tried = [_chosen_by(name, problem, n_support, n_swaps) for name in names]
    tried = [one for one in tried if _has_positive_part(one)] or [one for one in tried if one.n_support] or tried
    return max((Choice.measured(one, problem) for one in tried), key=merit)


def _chosen_by(name: str, problem: Problem, n_support: int, n_swaps: int) -> Selection:
    options = {"n_swaps": n_swaps or problem.sample.plan.default_swaps} if name == "targeted" else {}
    rule = selector("targeted" if name == UNSWAPPED else name, **options)
    chosen = rule(problem.sample, n_support, problem.rng)
    return replace(chosen, history={**chosen.history, "winner": name})


def _has_positive_part(chosen: Selection) -> bool:
    """Whether k(s, s) > 0 for some point; under an indefinite kernel a rule may choose only others."""
    if chosen.kernel.definite or chosen.kernel.precomputed:
        return True
    return bool(to_numpy(chosen.kernel.diagonal(as_float64(chosen.points))).max(initial=0.0) > 0)


def merit(choice: Choice) -> tuple[int, float]:
    """Sort key of choices: how many components they have, then how much these capture."""
    assert choice.ratio is not None
    return choice.ratio.n_directions, choice.ratio.value
