"""What a model file must hold, asked of the model itself.

A class says in `_file_layout` what `fit` leaves in it: a name, and what may stand there in a few words,

    "float"  "int"  "bool"  "str"       one value; numbers are finite
    "count"                             a whole number that is not negative
    "kernel"                            a kernel of rows
    "positive"                          a number above zero; in an array, "positive[M]", zero may be too
    "float[m, M]"  "int[m]"             an array of that shape; "rows[m, d]" may be sparse, "strings[d]" holds names
    "float[*]"                          of any length
    "int=d"                             a number that is a size: every "d" of the layout must be it
    "KernelExpansion[m, p, M]"          a record, with the sizes that its own layout goes by
    "list"  "dict"  "empty"             plain data; a list of nothing
    "float[M]~"                         NaN and infinity may be in it
    "RidgeMap[M, d]?"                   or None
    "... optional"                      may be absent
    "KernelCenterer[m] | Uncentered"    either

Sizes named m, d and M mean the same throughout; layouts of base classes are added up.  A public attribute of plain
data that no layout names is kept too; what is private must be named.  What its layout cannot say a record, or a model,
looks after itself, in `check_loaded`; and a model whose parameters say what a "dict" of it holds has `_dict_layouts`.
"""

from __future__ import annotations

from typing import Any

from ..fit.parameters import AS_GIVEN
from .container import ModelFileError
from .layout import check_dict, restored

# What scikit-learn hangs on an estimator that is no part of the model; and parameters, which have their own place.
NOT_STATE = ("_skl_", "_callback", "_parent_callback", "_metadata_request", AS_GIVEN)


# What `set_output` asked for is the one thing that scikit-learn hangs on an estimator and that is kept.
OUTPUT = {"_sklearn_output_config": "output optional"}


def file_state(model: Any) -> dict[str, Any]:
    """All that `fit` left: what the file must hold besides the constructor's parameters.

    That is what the model stores, and what its layout names and it finds only when it is read.
    """
    if hasattr(model, "_before_saving"):
        model._before_saving()
    cls, layout = type(model), layout_of(type(model))
    # an attribute of the class that is None stands for one that the model does not have
    found_when_read = {name for name in layout if hasattr(model, name) and getattr(cls, name, 0) is not None}
    stored = set(vars(model)) - ({"_stream"} - set(layout))  # a layout without the state itself names its parts
    names = sorted((stored | found_when_read) - set(model.get_params(deep=False)))
    return {name: getattr(model, name) for name in names if not name.startswith(NOT_STATE)}


def from_file_state(cls: Any, params: dict[str, Any], state: dict[str, Any]) -> Any:
    """The model that was saved; `state` has been checked.

    A class that follows streams takes up the one in the file in `_resumed`, and says what else is to be stored.
    """
    if callable(params.get("kernel")):
        raise ModelFileError("damaged model file: its kernel is no name, and a file holds no code")
    model = cls(**params)
    if hasattr(model, "_dict_layouts"):
        for name, layout in model._dict_layouts(state).items():
            check_dict(name, state[name], layout, {"d": int(state["n_features_in_"])})
    if hasattr(model, "_resumed"):
        state = model._resumed(state, ModelFileError)
    restored(model, state)
    if hasattr(model, "check_loaded"):
        model.check_loaded(ModelFileError)
    return model


def layout_of(cls: type) -> dict[str, str]:
    """The layout of a class, those of its bases included."""
    merged: dict[str, str] = dict(OUTPUT)
    for base in reversed(cls.__mro__):
        merged |= getattr(base, "_file_layout", {})
    return merged
