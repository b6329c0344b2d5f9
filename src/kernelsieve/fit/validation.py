"""Arguments of functions, at which no estimator's constraints look: what was given, what is needed, said at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_array

from ..arrays import FLOATS, on_host
from .parameters import LARGEST_COUNT

MOST_POINTS = 100_000  # of a path


def whole_number(name: str, value: Any, least: int = 1, most: int = LARGEST_COUNT) -> int:
    """`value` as an int, if it is a whole number from `least` to `most`."""
    whole = isinstance(value, Integral) and not isinstance(value, bool | np.bool_)
    if not whole or not least <= int(value) <= most:
        upper = "" if most == LARGEST_COUNT else f" to {most}"
        raise _error(whole, f"{name}={_shown(value)} must be a whole number from {least}{upper}")
    return int(value)


def check_component(component: Any, count: int, what: str = "model") -> int:
    """The number of a component, if there are so many."""
    if not isinstance(component, Integral) or isinstance(component, bool):
        raise TypeError(f"component={_shown(component)} must be a whole number")
    if not 0 <= int(component) < count:
        raise ValueError(f"component={component} does not exist: the {what} has {count}, numbered from 0")
    return int(component)


def positive_number(name: str, value: Any) -> float:
    """`value` as a float, if it is a finite number above zero."""
    real = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    if not real or not 0 < float(value) < math.inf:
        raise _error(real, f"{name}={_shown(value)} must be a finite number above 0")
    return float(value)


def two_whole_numbers(name: str, value: Any, least: int = 0) -> tuple[int, int]:
    """`value` as two ints."""
    listed = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) and np.ndim(value) == 1
    if not listed or len(value) != 2:
        raise _error(listed, f"{name}={_shown(value)} must be two whole numbers")
    first, second = (whole_number(name, part, least) for part in value)
    return first, second


def some_numbers(name: str, values: Any, what: str) -> np.ndarray:
    """`values` as an array of floats, (n,), if they are some numbers; `what` says which."""
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}={_shown(values)} must be {what}") from error
    if found.ndim != 1 or not found.size:
        raise ValueError(f"{name}={_shown(values)} must be {what}")
    return found


def checked_scores(X: Any, n_components: int) -> np.ndarray:
    """Scores to find rows for, one column for each component."""
    scores = check_array(on_host(X), dtype=FLOATS)
    if scores.shape[1] != n_components:
        raise ValueError(f"scores have {scores.shape[1]} columns, the model has {n_components} components")
    return scores


def instance_of(name: str, value: Any, kinds: type | tuple[type, ...]) -> None:
    """Raise unless `value` is an instance of one of these classes."""
    if isinstance(value, kinds):
        return
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    wanted = " or ".join(kind.__name__ for kind in kinds)
    is_class = isinstance(value, type)
    given = f"the class {value.__name__}" if is_class else f"a {type(value).__name__}"
    raise TypeError(f"{name} must be {'an instance of ' if is_class else 'of '}{wanted}, not {given}")


def _error(right_type: bool, message: str) -> Exception:
    return ValueError(message) if right_type else TypeError(message)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
