"""Progress of a fit through scikit-learn's callbacks, where the installed version has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["CallbackSupportMixin", "Stages"]

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""


class Stages:
    """The stages of one fit, each a subtask of it."""

    def __init__(self, estimator: Any, n_stages: int, X: Any, y: Any = None) -> None:
        self._estimator = estimator
        self._context = None
        if hasattr(estimator, "_init_callback_context"):
            self._context = estimator._init_callback_context(max_subtasks=n_stages)
            self._context.call_on_fit_task_begin(estimator=estimator, X=X, y=y)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """One stage, from begin to end."""
        if self._context is None:
            yield
            return
        context = self._context.subcontext(task_name=name)
        context.call_on_fit_task_begin(estimator=self._estimator)
        yield
        context.call_on_fit_task_end(estimator=self._estimator)

    def finish(self, X: Any, y: Any = None) -> None:
        """The whole fit is done."""
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self._estimator, X=X, y=y, reconstruction_attributes={})
