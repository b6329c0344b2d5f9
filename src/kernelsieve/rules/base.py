"""The interface of all rules for choosing points.

A selector is a function

    select(sample, n_support, rng) -> Selection

of a `Sample` (rows, kernel, weights, exact kernel PCA on request), the number of points wanted, and a random
generator.  It returns at most `n_support` points: fewer if the rows do not allow more.  In the history of a greedy
rule, "unexplained" is the share of tr K that is left after each row.

Rules read the gram of a large sample through `KernelGram`, which computes columns on demand, because few are used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..arrays import Array, to_numpy
from ..fit.captured_ratio import CapturedRatio, PointsOnRows
from ..fit.problem import Problem
from ..fit.sample import Sample
from ..fit.span import Points, Span
from ..kernels import Kernel
from ..rows.rows import in_one_array
from ..solvers.greedy import Gram, StoredGram
from ..threads import cached_property


@dataclass(frozen=True)
class Selection(Points):
    """Chosen points and how they were found."""

    history: Mapping[str, Any] = field(default_factory=dict)  # how, for `selection_report_`
    nested: bool = False  # the first m points are what the rule would have chosen if asked for m
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
    """A selection, the problem on whose sample it was chosen, and its captured ratio if that has been measured."""

    selection: Selection
    problem: Problem
    ratio: CapturedRatio | None = None
    span: Span | None = None  # the selection's span, if it was computed while choosing
    on_evaluation: PointsOnRows | None = None  # the points' kernel values at the evaluation rows, if computed
    notes: Mapping[str, Any] = field(default_factory=dict)  # what is known of the choice beside the selection's history

    @property
    def history(self) -> dict[str, Any]:
        """How the points were found."""
        return {**self.selection.history, **self.notes}

    def noting(self, **notes: Any) -> Choice:
        """This choice with more notes."""
        return replace(self, notes={**self.notes, **notes})

    @classmethod
    def measured(cls, selection: Selection, problem: Problem, *, last: bool = False) -> Choice:
        """The choice with its ratio; if it is the `last` one and there are threads for both, also with its span."""
        on_rows = problem.on_evaluation(selection)
        ratio, span = problem.ratio_and_span(on_rows, selection) if last else (problem.ratio(on_rows, selection), None)
        return cls(selection, problem, ratio, span, on_rows)


Selector = Callable[[Sample, int, np.random.Generator], Selection]


def select_rows(
    sample: Sample, chosen: Array, *, nested: bool, by_evaluation: bool = False, history: dict[str, Any] | None = None
) -> Selection:
    """The selection of the rows that are at the places `chosen` in the sample."""
    indices = sample.rows.indices[np.asarray(chosen, dtype=np.intp)]
    kernel, points = sample.kernel.at(sample.rows.X, indices)
    numbers = sample.rows.numbers_of(indices)
    return Selection(kernel, points, numbers, history or {}, nested=nested, by_evaluation=by_evaluation)


# Fewer columns than this are computed in one thread, because handing them to several would take longer.
COLUMNS_FOR_THREADS = 8


@dataclass(frozen=True)
class KernelGram:
    """A gram whose columns are computed on demand; for a precomputed kernel, `rows` is the whole gram."""

    kernel: Kernel
    rows: Array  # (n, d)
    n_threads: int = 1

    @cached_property
    def diagonal(self) -> np.ndarray:
        return to_numpy(self.kernel.diagonal_of(self.rows)).astype(np.float64)

    def column(self, j: int) -> np.ndarray:
        return self.columns(np.array([j]))[:, 0]

    def columns(self, chosen: np.ndarray) -> np.ndarray:
        return self._whole(self.bind(chosen), len(chosen))

    def bind(self, chosen: np.ndarray) -> Callable[[slice], np.ndarray]:
        return self._bind(*self.kernel.at(self.rows, chosen))

    def among(self, chosen: np.ndarray) -> np.ndarray:
        kernel, points = self.kernel.at(self.rows, chosen)
        return to_numpy(points if kernel.precomputed else kernel(points, points))

    def at_point(self, point: Array) -> np.ndarray:
        """k(x, point) for a point (1, d) that need not be a row, (n,)."""
        return self._whole(self._bind(self.kernel, point), 1)[:, 0]

    def _bind(self, kernel: Kernel, points: Array) -> Callable[[slice], np.ndarray]:
        cross_gram = kernel.bind(points)
        return lambda block: to_numpy(cross_gram(self.rows[block, :]))

    def _whole(self, part: Callable[[slice], np.ndarray], n_columns: int) -> np.ndarray:
        n_threads = self.n_threads if n_columns >= COLUMNS_FOR_THREADS else 1
        return in_one_array(part, self.rows, n_columns, n_columns, n_threads)


def gram_of_sample(sample: Sample) -> Gram:
    """The gram of the sampled rows: stored if the sample has computed it, otherwise with columns on demand."""
    if sample.n_evaluation == sample.size:
        return StoredGram(sample.evaluation.gram_on_host)
    if sample.kernel.precomputed:
        return StoredGram(to_numpy(sample.kernel.at(sample.rows.X, sample.rows.indices)[1]))
    return KernelGram(sample.kernel, sample.all_values, sample.n_threads)
