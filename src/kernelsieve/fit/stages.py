"""How far a fit has come: its stages, and the rows of every pass over blocks.

scikit-learn's callbacks are told, and with `verbose` lines are printed.  To a callback each stage is a subtask of the
fit, each pass ("rows") one of its stage, and each hundredth of the pass one of that; where the length of the stream is
not known, there are ten of these whenever the number of rows has doubled.  `metadata` has `n_rows`, `n_total` (None if
it is not known) and `rows_per_second`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from time import perf_counter
from typing import Any

from ..rows import RowRules, watched
from ..rows.sources import Advance

__all__ = ["CallbackSupportMixin", "Stages", "printing"]

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""


SUBTASKS = 100  # of a pass
LINES = 10  # that `verbose` prints of a pass


class Stages:
    """The stages of one fit."""

    def __init__(self, estimator: Any, n_stages: int, X: Any, y: Any = None) -> None:
        self._estimator = estimator
        self._context: Any = None
        self._stage: Any = None
        self._name, self._verbose = "", bool(getattr(estimator, "verbose", False))
        self.watched = self._verbose or bool(getattr(estimator, "_skl_callbacks", ()))  # whether anybody wants to know
        if hasattr(estimator, "_init_callback_context"):
            self._context = estimator._init_callback_context(max_subtasks=n_stages)
            self._context.call_on_fit_task_begin(estimator=estimator, X=X, y=y)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """One stage, from begin to end."""
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
        """A pass over blocks; gives what is to be called with the number of rows of each block that is done."""
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
        """The whole fit is done."""
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self._estimator, X=X, y=y, reconstruction_attributes={})


@contextmanager
def printed_pass(estimator: Any, stage: str, n_total: int | None) -> Iterator[Advance]:
    """A pass of which lines are printed."""
    count = Count(n_total, LINES)

    def advance(n_rows: int) -> None:
        if count.passed(n_rows):
            print(f"{type(estimator).__name__}: {stage}: {count}", flush=True)

    yield advance


def printing(estimator: Any, X: Any, rules: RowRules, stage: str) -> Any:
    """X, of whose blocks lines are printed if the estimator is `verbose`."""
    watch = partial(printed_pass, estimator, stage)
    return watched(X, rules, watch, once=True) if estimator.verbose else X


class Count:
    """The rows of a pass that have been read, and the marks that they have passed."""

    def __init__(self, n_total: int | None, n_marks: int) -> None:
        self.n_total, self.n_marks = n_total, n_marks
        self.n_rows = self._marks = 0
        self._start = perf_counter()

    def passed(self, n_rows: int) -> int:
        """How many marks so many more rows have passed: shares of a known length, else a tenth of them a doubling."""
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
        """What callbacks are given."""
        return {"n_rows": self.n_rows, "n_total": self.n_total, "rows_per_second": self.rows_per_second}

    def __str__(self) -> str:
        rate = self.rows_per_second
        if self.n_total is None:
            return f"{self.n_rows:,} rows, {rate:,.0f} rows a second"
        left = f", {(self.n_total - self.n_rows) / rate:.1f} s left" if self.n_rows < self.n_total else ""
        share = 100 * self.n_rows // self.n_total
        return f"{self.n_rows:,} of {self.n_total:,} rows ({share} %), {rate:,.0f} rows a second{left}"
