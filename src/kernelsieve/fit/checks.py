"""Parameters that scikit-learn's constraints let by, though no user means them."""

from __future__ import annotations

from numbers import Integral
from typing import Any

# Integers up to this are sizes and counts; beyond, numpy refuses them in words of its own.
LARGEST_COUNT = 2**31


def check_meant(estimator: Any) -> None:
    """Refuse True and False where a number is asked for, and numbers that nothing can be counted by.

    Python's booleans are integers: `n_components=True` would be one component, somewhere, and an error elsewhere.
    """
    constraints = estimator._parameter_constraints
    for name, value in estimator.get_params(deep=False).items():
        allowed = [c for c in constraints.get(name, ()) if isinstance(c, str)]
        if isinstance(value, bool) and not {"boolean", "verbose"} & set(allowed):
            raise ValueError(f"The {name!r} parameter of {type(estimator).__name__} must not be a bool. Got {value!r}")
        counts = isinstance(value, Integral) and name != "random_state"
        if counts and not isinstance(value, bool) and abs(int(value)) > LARGEST_COUNT:
            raise ValueError(
                f"The {name!r} parameter of {type(estimator).__name__} must be at most {LARGEST_COUNT}. Got {value!r}"
            )
