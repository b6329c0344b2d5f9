"""What estimators share that find their support among the rows of a dictionary."""

from __future__ import annotations

from typing import Any

from ..fit.estimator import BlockParameters, at_least, estimator, parameter
from ..fit.problem import Problem, nothing_to_explain
from ..fit.span import Span
from ..rows import Rows
from ..selection.base import Choice
from ..selection.dictionary import dictionary, rows_to_choose_from

# Variance below this share of the mean k(x, x) is rounding.
NO_VARIANCE = 1e-10


@estimator
class OnDictionary(BlockParameters):
    """Support among all rows, where they are few, or among `n_dictionary`; every `self` is a KernelTransformer."""

    n_dictionary: int | None = parameter(None, at_least(1), None)

    def _sample_size(self, rows: Rows) -> int:
        return rows_to_choose_from(self.n_dictionary)

    def _points(self, problem: Problem) -> Choice:
        return Choice(dictionary(problem, self.n_dictionary), problem)

    def _span(self: Any, choice: Choice) -> Span:
        span: Span = super()._span(choice)  # type: ignore[misc]
        if not span.total_variance > NO_VARIANCE * span.mean_length:
            raise ValueError(nothing_to_explain(choice.problem.sample))
        return span

    def _path_span(self: Any, X: Any, sample_weight: Any) -> Span:
        """The span for functions that go through many penalties and fit none."""
        return self._span(self._points(self._problem(X, sample_weight)))
