"""What estimators share that give components over chosen rows by a published rule.

The components of a published method need be neither of unit length nor orthogonal in feature space: what each captures
is what it adds to those before it.
"""

from __future__ import annotations

import numpy as np

from ..fit.expansion import component_signs
from ..fit.point_span import PointSpan
from ..fit.problem import Problem
from ..fit.span import Components
from ..rows.blocks import finite
from ..rows.memory import ArrayRows
from ..selection.base import Choice
from ..solvers.whitening import check_kernel_values
from .base import Found

FLOAT64 = 1e-10  # what is known to better than this share is known in float64, by a definite kernel


def checked_values(problem: Problem) -> None:
    """Refuse rows that are not finite, and kernels that say nothing of them."""
    if isinstance(problem.rows, ArrayRows):
        finite(problem.rows.X)
    check_kernel_values(problem.sample.gram)


def enough_for(problem: Problem, n_nodes: int, n_samples: int | None) -> int | None:
    """`n_samples`, the rows that the user wants looked at, where that is at least as many as nodes."""
    if n_samples is not None and not problem.sample.rows.whole and n_samples < n_nodes:
        raise ValueError(
            f"n_optimization_samples={n_samples} rows are too few to choose {n_nodes} nodes from: give at least as many"
        )
    return n_samples


def check_nodes(span: PointSpan, n_components: int) -> None:
    """Refuse more components than nodes."""
    if span.n_support < n_components:
        raise ValueError(
            f"n_components={n_components} needs as many nodes: these rows have {span.n_support} that are different to "
            "this kernel"
        )


def found_on_nodes(choice: Choice, span: PointSpan, coef: np.ndarray, eigenvalues: np.ndarray) -> Found:
    """Components with these coefficients over the nodes."""
    rounding = choice.problem.rank_tolerance  # in float64 the published methods go as far down as they were published
    n_real = int(np.sum(eigenvalues > rounding * eigenvalues.max())) if rounding > FLOAT64 else len(eigenvalues)
    if n_real < len(eigenvalues):
        raise ValueError(
            f"n_components={len(eigenvalues)} is more than the rank allows: on these rows and {span.n_support} nodes "
            f"the kernel has {n_real} directions of variance that are not rounding"
        )
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
