"""What estimators share that give components over chosen rows by a published rule.

The components of a published method need be neither of unit length nor orthogonal in feature space: what each captures
is what it adds to those before it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import TooManyComponents
from ..fit.problem import Problem
from ..fit.span import Components, PointSpan
from ..rows.memory import ArrayRows, finite
from ..selection.base import Choice, Selection
from ..selection.rules import gain
from ..solvers.spectrum import DROPPED_WITH_NEGATIVE, check_kernel_values, component_signs
from .base import Found

FLOAT64 = 1e-10  # a larger rank tolerance means float32 rows, or a kernel that is not positive semi-definite


class AsPublished:
    """An estimator that follows a publication: no advice on its kernel, whose values on the sample are checked."""

    _judges_kernel = False

    def _check_problem(self, problem: Problem) -> None:
        if isinstance(problem.rows, ArrayRows):
            finite(problem.rows.X)
        check_kernel_values(problem.sample.gram)


def gained(problem: Problem, n_nodes: int, n_samples: int | None, rule: str, **options: Any) -> Choice:
    """Nodes by `gain`, among `n_samples` rows where the user says so many."""
    if n_samples is not None and not problem.sample.rows.whole and n_samples < n_nodes:
        raise ValueError(
            f"n_optimization_samples={n_samples} rows are too few to choose {n_nodes} nodes from: give at least as many"
        )
    problem = problem.for_points(n_nodes, n_samples)
    selection: Selection = gain(problem.sample, n_nodes, problem.rng, **options)
    selection.history["rule"] = rule
    return Choice(selection, problem)


def check_nodes(span: PointSpan, n_components: int) -> None:
    """Refuse more components than nodes."""
    if span.n_support < n_components:
        raise TooManyComponents(
            n_components,
            span.n_support,
            "needs as many nodes",
            f"these rows have {span.n_support} that are different to this kernel",
        )


def too_many(choice: Choice, n_components: int, why: str) -> ValueError:
    """The error for more components than directions; an indefinite kernel's go with its negative part."""
    if choice.problem.sample.indefiniteness:
        return TooManyComponents(n_components, None, "is too many", DROPPED_WITH_NEGATIVE)
    return TooManyComponents(n_components, None, "is more than the rank allows", why)


def found_on_nodes(choice: Choice, span: PointSpan, coef: np.ndarray, eigenvalues: np.ndarray) -> Found:
    """Components with these coefficients over the nodes."""
    rounding = choice.problem.rank_tolerance  # of float64 rows no component is refused: the publications refuse none
    n_real = int(np.sum(eigenvalues > rounding * eigenvalues.max())) if rounding > FLOAT64 else len(eigenvalues)
    if n_real < len(eigenvalues):
        why = f"on these rows and {span.n_support} nodes the kernel has {n_real} directions of variance"
        raise too_many(choice, len(eigenvalues), f"{why} that are not rounding")
    coef = coef * component_signs(coef)
    variances = span.variances(coef)
    return Found(
        span.expansion(Components(coef, variances), orthogonal=False),
        choice.selection.indices,
        variances,
        eigenvalues,
        captured=span.variances_in_order(coef),
        attributes={"selection_report_": dict(choice.selection.history)},
    )
