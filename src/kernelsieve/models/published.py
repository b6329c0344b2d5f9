"""What the estimators of published methods share: components over rows that a published rule chooses, or a dictionary.

The components of a published method need be neither of unit length nor orthogonal in feature space: the variance that
each captures is what it adds to those before it.  Xu et al. choose nodes S among the rows; with K' = k(S, X), their
components v = sum_i g_i phi(s_i) come from

    ESKPCA       K' K'^T g = lambda g                     |g| = 1           ("coefficients")
    IKPCA        K' K'^T g = lambda (K_SS + ridge I) g    |v| = 1           ("feature")

with features g'k(S, x)/sqrt(lambda).
"""

from __future__ import annotations

from abc import abstractmethod
from math import ceil
from numbers import Integral
from typing import Any

import numpy as np

from ..errors import TooFewPoints, TooManyComponents
from ..fit.parameters import SHARE, BlockParameters, at_least, estimator, parameter
from ..fit.problem import Problem, nothing_to_explain
from ..fit.span import Components, PointSpan, Span
from ..numerics import DEPENDENT, FEW_ROUNDINGS
from ..rows import Rows
from ..rows.checks import finite
from ..rows.rows import ArrayRows
from ..rules.base import Choice, Selection
from ..rules.registry import gain
from ..search.chooser import dictionary
from ..spectrum.top import component_signs
from ..spectrum.whitening import DROPPED_WITH_NEGATIVE, check_kernel_values
from .base import Found, Policy, RowRequest


def check_values(problem: Problem) -> None:
    """Refuse rows, or kernel values of the sample, that are not finite, because published rules do not check them."""
    if isinstance(problem.rows, ArrayRows):
        finite(problem.rows.X)
    check_kernel_values(problem.sample.evaluation.gram)


def gained(problem: Problem, n_nodes: int, n_samples: int | None, rule: str, **options: Any) -> Choice:
    """Nodes chosen by `gain`, among `n_samples` rows if the user gives that number."""
    if n_samples is not None and not problem.sample.rows.whole and n_samples < n_nodes:
        raise ValueError(
            f"n_optimization_samples={n_samples} rows are too few to choose {n_nodes} nodes from: give at least as many"
        )
    check_values(problem)
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
    """The error for more components than directions, of which an indefinite kernel loses some with its
    negative part."""
    if choice.problem.sample.indefiniteness:
        return TooManyComponents(n_components, None, "is too many", DROPPED_WITH_NEGATIVE)
    return TooManyComponents(n_components, None, "is more than the rank allows", why)


def found_on_nodes(choice: Choice, span: PointSpan, coef: np.ndarray, eigenvalues: np.ndarray) -> Found:
    """Components with these coefficients over the nodes."""
    # only for an indefinite kernel are components refused, because the publications refuse none
    floor = choice.problem.sample.indefiniteness
    n_real = int(np.sum(eigenvalues > floor * eigenvalues.max())) if floor else len(eigenvalues)
    if n_real < len(eigenvalues):
        why = f"on these rows and {span.n_support} nodes the kernel has {n_real} directions of variance"
        raise too_many(choice, len(eigenvalues), f"{why} that are not rounding")
    coef = coef * component_signs(coef)
    variances, history = span.variances(coef), dict(choice.selection.history)
    nodes = {"nodes_": history.pop("nodes")} if "nodes" in history else {}
    return Found(
        span.expansion(Components(coef, variances), orthogonal=False),
        choice.selection.indices,
        variances,
        eigenvalues,
        captured=span.variances_in_order(coef),
        attributes={"selection_report_": history, **nodes},
    )


@estimator
class NodeParameters:
    """Parameters and the eigenproblem of both of Xu's methods; every `self` here is a KernelTransformer."""

    _policy = Policy(judges_kernel=False)

    n_nodes: int | float = parameter(50, at_least(1), SHARE)
    whiten: bool = parameter(True, "boolean")
    center: bool = parameter(False, "boolean")

    def _n_nodes(self: Any, n_samples: int) -> int:
        asked: Any = self.n_nodes
        wanted = int(asked) if isinstance(asked, Integral) else ceil(asked * n_samples)
        if wanted < self.n_components:
            raise TooFewPoints(
                "n_nodes",
                self.n_nodes,
                f"({wanted} nodes) is too few for n_components={self.n_components}",
                f"give at least {self.n_components}",
            )
        return wanted

    def _components(self: Any, choice: Choice, span: Span) -> Found:
        assert isinstance(span, PointSpan)
        check_nodes(span, self.n_components)
        eigenvalues, coef = self._eigenproblem(span)
        n_real = int(np.sum(eigenvalues > FEW_ROUNDINGS * eigenvalues[0]))
        if n_real < self.n_components:
            why = f"on these rows and {span.n_support} nodes the eigenproblem has {n_real} eigenvalues above rounding"
            raise too_many(choice, self.n_components, why)
        return found_on_nodes(choice, span, coef / np.sqrt(eigenvalues) if self.whiten else coef, eigenvalues)

    @abstractmethod
    def _eigenproblem(self, span: PointSpan) -> tuple[np.ndarray, np.ndarray]:
        """The leading eigenvalues (M,), descending, and their coefficients (m, M)."""


@estimator
class OnDictionary(BlockParameters):
    """Support among all rows of small data, otherwise among `n_dictionary`; every `self` is a KernelTransformer."""

    n_dictionary: int | None = parameter(None, at_least(1), None)

    def _request(self: Any, rows: Rows) -> RowRequest:
        return RowRequest(self._plan.rows_for_dictionary(self.n_dictionary), self.n_components)

    def _points(self, problem: Problem) -> Choice:
        return Choice(dictionary(problem, self.n_dictionary), problem)

    def _span(self: Any, choice: Choice) -> Span:
        span: Span = super()._span(choice)  # type: ignore[misc]
        if not span.total_variance > DEPENDENT * span.mean_length:
            raise ValueError(nothing_to_explain(choice.problem.sample.evaluation))
        return span

    def _path_span(self: Any, X: Any, sample_weight: Any) -> tuple[Choice, Span]:
        """The rows to choose from and their span, for functions that follow a path of penalties."""
        choice = self._points(self._problem(X, sample_weight))
        return choice, self._span(choice)
