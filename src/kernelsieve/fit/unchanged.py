"""Whatever goes wrong in a fit, the estimator is what it was before, fitted or not; and columns have their names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..rows.scale import ScaleError


@contextmanager
def unchanged_on_failure(estimator: Any) -> Iterator[None]:
    """Give the estimator its attributes back where what is inside fails or is interrupted."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException as error:
        names = vars(estimator).get("feature_names_in_")
        # scikit-learn still has to tear its callbacks down
        callbacks = {name: value for name, value in vars(estimator).items() if "callback" in name}
        estimator.__dict__ = before | callbacks  # at one stroke: a second interrupt finds the old model or the new one
        if isinstance(error, ScaleError):
            raise error.named(names) from error
        raise
