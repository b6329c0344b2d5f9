"""What every rule for choosing points takes and gives.

A selector is a function

    select(sample, n_support, rng) -> Selection

of a `Sample` (rows, kernel, weights, exact kernel PCA when asked for), the number of points wanted, and a
random generator.  It returns at most `n_support` points: fewer when the rows have no more to give.  The history of a
greedy rule has "unexplained", the share of tr K that is left after each row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..arrays import Array
from ..fit.captured_ratio import CapturedRatio, SeenPoints
from ..fit.problem import Problem
from ..fit.sample import Sample
from ..fit.span import Points, Span


@dataclass(frozen=True)
class Selection(Points):
    """Chosen points and how they were found."""

    history: dict[str, Any] = field(default_factory=dict)
    nested: bool = False  # every prefix is the selection of that size
    n_steps: int = 0
    converged: bool = True

    def prefix(self, n_support: int) -> Selection:
        """The first `n_support` points of a nested selection."""
        assert self.nested
        assert self.indices is not None
        kernel, points = self.kernel.part(self.points, np.arange(min(n_support, self.n_support)))
        history = dict(self.history)
        if "unexplained" in history:
            history["unexplained"] = history["unexplained"][:n_support]
        return replace(self, kernel=kernel, points=points, indices=self.indices[:n_support], history=history)


@dataclass(frozen=True)
class Choice:
    """A selection, the problem whose sample it was chosen on, and its captured ratio if that has been measured."""

    selection: Selection
    problem: Problem
    ratio: CapturedRatio | None = None
    span: Span | None = None  # of the selection, if it was computed while choosing
    seen: SeenPoints | None = None  # the features of the evaluation rows over the selection, if they have been computed

    @classmethod
    def measured(cls, selection: Selection, problem: Problem, *, last: bool = False) -> Choice:
        """The choice with its ratio; also with its span if it is the `last` one and there are threads for both."""
        seen = problem.seen(selection)
        ratio, span = problem.ratio_and_span(seen, selection) if last else (problem.ratio(seen, selection), None)
        return cls(selection, problem, ratio, span, seen)


Selector = Callable[[Sample, int, np.random.Generator], Selection]


def select_rows(
    sample: Sample, chosen: Array, *, nested: bool, by_evaluation: bool = False, history: dict[str, Any] | None = None
) -> Selection:
    """The selection of the rows at the places `chosen` of the sample."""
    indices = sample.rows.indices[np.asarray(chosen, dtype=np.intp)]
    kernel, points = sample.kernel.at(sample.rows.X, indices)
    numbers = sample.rows.numbers_of(indices)
    return Selection(kernel, points, numbers, history or {}, nested=nested, by_evaluation=by_evaluation)
