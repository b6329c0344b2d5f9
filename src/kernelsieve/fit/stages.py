"""Progress reports of a fit: its stages, and the rows read in every pass over blocks.

scikit-learn's callbacks are called, and with `verbose` lines are printed.  To a callback, each stage is a subtask of
the fit, each pass over the rows (named "rows") is a subtask of its stage, and each hundredth of the pass is a subtask
of the pass.  If the length of the stream is unknown, a pass has at most ten subtasks for each doubling of the number of
rows instead.  `metadata` has `n_rows`, `n_total` (None if unknown) and `rows_per_second`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from time import perf_counter
from typing import Any

from ..rows.dispatch import RowRules, watched
from ..rows.sources import Advance

__all__ = ["CallbackSupportMixin", "Stages", "printing"]

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Replaces the class of this name in versions of scikit-learn without callbacks."""


SUBTASKS = 100  # subtasks that a pass over the rows has for callbacks
LINES = 10  # lines that `verbose` prints during a pass over the rows


class Stages:
    """The stages of one fit."""

    def __init__(self, estimator: Any, n_stages: int, X: Any, y: Any = None) -> None:
        self._estimator = estimator
        self._context: Any = None
        self._stage: Any = None
        self._name, self._verbose = "", bool(getattr(estimator, "verbose", False))
        self.watched = self._verbose or bool(getattr(estimator, "_skl_callbacks", ()))  # whether progress is reported
        if hasattr(estimator, "_init_callback_context"):
            self._context = estimator._init_callback_context(max_subtasks=n_stages)
            self._context.call_on_fit_task_begin(estimator=estimator, X=X, y=y)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Report the begin and the end of one stage."""
        start, self._name = perf_counter(), name
        if self._context is not None:
            self._stage = self._context.subcontext(task_name=name, max_subtasks=None)
            self._stage.call_on_fit_task_begin(estimator=self._estimator)
        yield
        if self._stage is not None:
            self._stage.call_on_fit_task_end(estimator=self._estimator)
        if self._verbose:
            print(f"{type(self._estimator).__name__}: {name} took {perf_counter() - start:.2f} s", flush=True)

    @contextmanager
    def reading(self, n_total: int | None) -> Iterator[Advance]:
        """Report a pass over blocks; yields a function to call with the number of rows of each finished block."""
        with ExitStack() as passes:
            told = []
            if self._verbose:
                told.append(passes.enter_context(printed_pass(self._estimator, self._name, n_total)))
            if self._stage is not None:
                told.append(passes.enter_context(self._subtasks(n_total)))

            def advance(n_rows: int) -> None:
                for tell in told:
                    tell(n_rows)

            yield advance

    @contextmanager
    def _subtasks(self, n_total: int | None) -> Iterator[Advance]:
        count = Count(n_total, SUBTASKS)
        context = self._stage.subcontext(task_name="rows", max_subtasks=n_total and SUBTASKS)
        context.call_on_fit_task_begin(estimator=self._estimator, metadata=count.as_metadata)

        def advance(n_rows: int) -> None:
            marks = count.passed(n_rows)
            for _ in range(marks if n_total else min(marks, 1)):
                part = context.subcontext(task_name="")
                part.call_on_fit_task_begin(estimator=self._estimator)
                part.call_on_fit_task_end(estimator=self._estimator, metadata=count.as_metadata)

        yield advance
        context.call_on_fit_task_end(estimator=self._estimator, metadata=count.as_metadata)

    def finish(self, X: Any, y: Any = None) -> None:
        """Report the end of the whole fit."""
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self._estimator, X=X, y=y, reconstruction_attributes={})


@contextmanager
def printed_pass(estimator: Any, stage: str, n_total: int | None) -> Iterator[Advance]:
    """A pass over blocks that prints lines of progress."""
    count = Count(n_total, LINES)

    def advance(n_rows: int) -> None:
        if count.passed(n_rows):
            print(f"{type(estimator).__name__}: {stage}: {count}", flush=True)

    yield advance


def printing(estimator: Any, X: Any, rules: RowRules, stage: str) -> Any:
    """X; if the estimator is `verbose`, reading its blocks prints lines of progress."""
    watch = partial(printed_pass, estimator, stage)
    return watched(X, rules, watch, once=True) if estimator.verbose else X


class Count:
    """The number of rows read in a pass, and the progress marks reached by it."""

    def __init__(self, n_total: int | None, n_marks: int) -> None:
        self.n_total, self.n_marks = n_total, n_marks
        self.n_rows = self._marks = 0
        self._start = perf_counter()

    def passed(self, n_rows: int) -> int:
        """Count `n_rows` more rows; return how many new marks are reached.

        If the length is known, `n_marks` marks divide it evenly; otherwise each doubling has a tenth as many.
        """
        self.n_rows += n_rows
        if self.n_total is None:
            marks = 1 + int(self.n_marks / 10 * math.log2(self.n_rows))
        else:
            marks = min(self.n_rows, self.n_total) * self.n_marks // self.n_total
        new, self._marks = marks - self._marks, marks
        return new

    @property
    def rows_per_second(self) -> float:
        return self.n_rows / max(perf_counter() - self._start, 1e-9)

    def as_metadata(self) -> dict[str, Any]:
        """The metadata that callbacks receive."""
        return {"n_rows": self.n_rows, "n_total": self.n_total, "rows_per_second": self.rows_per_second}

    def __str__(self) -> str:
        rate = self.rows_per_second
        if self.n_total is None:
            return f"{self.n_rows:,} rows, {rate:,.0f} rows a second"
        left = f", {(self.n_total - self.n_rows) / rate:.1f} s left" if self.n_rows < self.n_total else ""
        share = 100 * self.n_rows // self.n_total
        return f"{self.n_rows:,} of {self.n_total:,} rows ({share} %), {rate:,.0f} rows a second{left}"
