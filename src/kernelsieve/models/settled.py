"""Parameters that a stream is begun with, and that what is kept of it is made of.

The moments of rows under one kernel say nothing of them under another, so that neither kernel, centring nor memory can
change between two calls of `partial_fit`: a model that was asked to is refused, whatever the moment, and says what to
do.  What is found only when it is read is found with the parameters that the stream was begun with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..rows.reservoir import Reservoir, forgetting_rate

KERNEL = ("kernel", "gamma", "degree", "coef0", "kernel_params")
SETTLED = (*KERNEL, "center", "n_components", "half_life", "rule", "budget")  # the last two are OnlineKernelPCA's


def settle(model: Any) -> None:
    """Note the parameters that a stream begins with."""
    model._settled = {name: getattr(model, name) for name in SETTLED if hasattr(model, name)}


def check_settled(model: Any, error: type[ValueError] = ValueError) -> None:
    """Raise where a parameter is not what the stream was begun with."""
    for name, begun in vars(model).get("_settled", {}).items():
        now = getattr(model, name, None)
        if not same_value(begun, now):
            raise error(
                f"{name}={now!r}, but the rows so far were taken in with {name}={begun!r}, which what is kept of them "
                f"depends on: set it back, or call fit, or partial_fit of a new {type(model).__name__}, on all rows"
            )


def check_settled_file(model: Any, reservoir: Reservoir, error: type[ValueError]) -> None:
    """Raise `error` where a model from a file is not what its stream was begun with; older files do not tell."""
    check_settled(model, error)
    if reservoir.rate != forgetting_rate(model.half_life):
        raise error(f"the sample of rows in the file was not drawn with half_life={model.half_life!r}")
    settle(model)


@contextmanager
def as_settled(model: Any) -> Iterator[None]:
    """The model with the parameters that its stream was begun with, whatever has been set since."""
    begun = vars(model).get("_settled", {})
    now = {name: vars(model)[name] for name in begun}
    vars(model).update(begun)
    try:
        yield
    finally:
        vars(model).update(now)


def same_value(one: Any, other: Any) -> bool:
    """Whether two parameters are the same, arrays among them too."""
    if one is other:
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_value(one[key], other[key]) for key in one)
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return bool(np.array_equal(one, other))
    return bool(one == other)
