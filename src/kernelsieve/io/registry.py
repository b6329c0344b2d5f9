"""The classes that a file can contain, and how each is saved and restored.

Our own classes describe themselves (`_file_layout`, and optionally `_before_saving` and `_resumed`); for
scikit-learn's, `scikit` does.
"""

from __future__ import annotations

import re
import warnings
from functools import cache
from numbers import Integral
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..kernels import is_function, kernel_object
from . import scikit
from .container import ModelFileError
from .layout import check_names, check_state, file_state, from_file_state, layout_of

DEVICE = re.compile(r"(cpu|cuda|hip|hpu|mps|mtia|xla|xpu)(:\d{1,4})?")  # the types of torch devices that compute


@cache
def own_estimators() -> dict[str, type]:
    """The public estimators by name."""
    import kernelsieve

    public = {name: getattr(kernelsieve, name) for name in kernelsieve.__all__}
    return {name: c for name, c in public.items() if isinstance(c, type) and issubclass(c, BaseEstimator)}


def is_known(model: Any) -> bool:
    """Whether a file can hold this estimator."""
    name, cls = type(model).__name__, type(model)
    return own_estimators().get(name) is cls or (name in scikit.CLASSES and scikit.CLASSES[name].cls is cls)


def parts_of(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and state of a fitted estimator, checked, because what cannot be loaded must not be saved."""
    cls = type(model)
    if own_estimators().get(cls.__name__) is cls:
        state, layout = file_state(model), layout_of(cls)
        unplaced = [name for name in state if name.startswith("_") and name not in layout]
        if unplaced:
            raise TypeError(f"{cls.__name__} cannot be saved: its _file_layout has no place for {', '.join(unplaced)}")
        return _own_params(model), state
    return scikit.CLASSES[cls.__name__].parts(model)


def _own_params(model: Any) -> dict[str, Any]:
    params = model.get_params(deep=False)
    if "kernel" in params and (found := kernel_object(params["kernel"])) is not None:
        params["kernel"] = found
    elif is_function(params.get("kernel")):
        raise TypeError(
            f"a {type(model).__name__} with a callable kernel cannot be saved: a model file holds no code. Use a named "
            "kernel, or kernel='precomputed' and keep the function yourself"
        )
    if not isinstance(params.get("random_state"), Integral | None):
        params["random_state"] = None
    if callable(params.get("selection")):
        params["selection"] = model.expansion_.points if model.support_ is None else model.support_
    return dict(sorted(params.items()))


def rebuilt(content: dict[str, Any], decoder: Any) -> Any:
    """The estimator that {"class", "params", "state"} describe."""
    name = content["class"]
    if name in own_estimators():
        cls: Any = own_estimators()[name]
        layout = layout_of(cls)
    elif name in scikit.CLASSES:
        cls, layout = scikit.CLASSES[name].cls, scikit.CLASSES[name].layout
    else:
        raise ModelFileError(f"holds a {name!r}, which this kernelsieve cannot make")
    if content["state"] and not isinstance(content["state"], dict):
        raise ModelFileError("damaged model file: its attributes have no names")
    if content["state"]:  # an estimator without state is an unfitted one among the parameters of another
        check_names(cls, layout, content["state"])  # before any data, possibly large, are decoded
    params, state = decoder.decode(content["params"]), decoder.decode(content["state"])
    checked_params(cls, params)
    if any(key in params for key in state):
        raise ModelFileError("attributes in the file have names that no model has")
    if not state:
        return cls(**params) if name in own_estimators() else scikit.CLASSES[name].unfitted(params)
    check_state(cls, layout, state)
    if name in own_estimators():
        return from_file_state(cls, params, state)
    return scikit.CLASSES[name].make(params, state)


def check_fitted(model: Any) -> None:
    """Raise unless an estimator, and every one that it holds and works with, is fitted."""
    parts = [model]
    if type(model) is Pipeline:
        parts = [step for _, step in model.steps]
    elif type(model) is ColumnTransformer:
        parts = [part for _, part, _ in model.transformers_]
    for part in parts:
        if part is None or part in ("drop", "passthrough"):
            continue
        try:
            check_is_fitted(part)
        except (NotFittedError, TypeError) as error:
            raise ModelFileError("the model in the file is not fitted") from error
        if part is not model:
            check_fitted(part)


def checked_params(cls: Any, params: Any) -> BaseEstimator:
    """An unfitted estimator with these parameters, if it accepts them."""
    try:
        model = cls(**params)
    except TypeError as error:
        raise ModelFileError(f"parameters do not fit {cls.__name__}: {error}") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model._validate_params()
    except ValueError as error:  # scikit-learn's InvalidParameterError, and our own
        raise ModelFileError(f"parameters do not fit {cls.__name__}: {error}") from error
    device = params.get("device")
    # two values that scikit-learn's constraints allow, but with which nothing works
    if params.get("n_jobs") == 0 or not DEVICE.fullmatch("cpu" if device is None else device):
        raise ModelFileError(f"parameters do not fit {cls.__name__}: n_jobs or device")
    return model
