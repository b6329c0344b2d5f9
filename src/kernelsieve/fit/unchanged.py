"""What a fit may leave behind: a whole model of finite numbers, or the estimator as it was before.

Here, around every fit, is the one place where an estimator gets its attributes back when something goes wrong, where
columns get their names in an error, and where results that are no numbers are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..rows.scale import ScaleError

# Results that must be numbers, whatever the method.
RESULTS = ["explained_variance_", "explained_variance_ratio_", "eigenvalues_", "captured_ratio_", "objective_"]
RESULTS += ["components_", "mean_", "gamma_", "alpha_"]


@contextmanager
def unchanged_on_failure(estimator: Any) -> Iterator[None]:
    """Give the estimator its attributes back where what is inside fails, is interrupted, or finds no numbers."""
    before = dict(vars(estimator))
    try:
        yield
        _refuse_what_is_not_finite(estimator)
    except BaseException as error:
        state = vars(estimator)
        # scikit-learn still has to tear its callbacks down
        callbacks = {name: value for name, value in state.items() if "callback" in name}
        estimator.__dict__ = before | callbacks  # at one stroke: a second interrupt finds the old model or the new one
        if isinstance(error, ScaleError):
            raise error.named(state.get("feature_names_in_")) from error
        if isinstance(error, np.linalg.LinAlgError):
            raise ValueError(
                f"the rows are too badly conditioned for {type(estimator).__name__} with these parameters ({error}): "
                "scale the columns, or ask for fewer components, a wider kernel or a larger noise or ridge"
            ) from error
        raise


def _refuse_what_is_not_finite(estimator: Any) -> None:
    found = {name: vars(estimator).get(name) for name in RESULTS}
    expansion = vars(estimator).get("expansion_")
    if expansion is not None:
        found |= {"dual_coef_": expansion.coef, "offset_": expansion.offset}
    for name, value in found.items():
        if isinstance(value, float | np.ndarray) and not np.all(np.isfinite(value)):
            raise ValueError(
                f"these rows and parameters give no finite {name}: scale the columns (and weights) to sizes near one, "
                "or give other parameters of the kernel"
            )
