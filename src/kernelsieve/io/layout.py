"""What a model file must hold, as declared by the model's class, and the check of a state against it.

A class says what `fit` leaves in it: the name of each attribute, and in a few words what it may be.  It says so in
`_file_layout` or, as records do, in the annotations of its attributes, `Annotated[type, words]`:

    "float"  "int"  "bool"  "str"       one value; numbers are finite
    "count"                             a whole number that is not negative
    "kernel"                            a kernel of rows
    "positive"                          a number above zero; in an array, "positive[M]", zero may be too
    "float[m, M]"  "int[m]"             an array of that shape; "rows[m, d]" may be sparse, "strings[d]" holds names
    "float[*]"                          of any length
    "int=d"                             a number that is a size: every "d" of the layout must equal it
    "KernelExpansion[m, p, M]"          a record, with the sizes of its own layout in their order
    "list"  "dict"  "empty"             plain data; "empty" is an empty list
    "float[M]~"                         NaN and infinity may be in it
    "RidgeMap[M, d]?"                   or None
    "... optional"                      may be absent
    "KernelCenterer[m] | Uncentered"    either

Sizes named m, d and M mean the same throughout; the layouts of base classes are included.  A public attribute of plain
data that no layout names is kept too; a private one must be named.  What a layout cannot express is checked by the
record or the model itself, in `check_loaded`.  If what a "dict" holds depends on the model, the model gives the layout
of the dict in `_dict_layouts`.

What a file holds is checked against the layout (names, types, shapes and finiteness) before any object is made from
it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from inspect import get_annotations
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.preprocessing import KernelCenterer

from ..fit.parameters import AS_GIVEN
from ..kernels import Kernel, is_function
from .container import ModelFileError

SPEC = re.compile(r"(?P<kind>\w+)(\[(?P<shape>[^\]]*)\])?(=(?P<size>\w+))?(?P<any>~)?(?P<none>\?)?")
# The configuration of `set_output` is the only attribute kept of those that scikit-learn adds to an estimator.
OUTPUT = {"_sklearn_output_config": "output optional"}
OUTPUTS_ASKED = [{}, *({"transform": kind} for kind in ("default", "pandas", "polars"))]
# Attributes that scikit-learn adds and that are not part of the model; and parameters, which are stored separately.
NOT_STATE = ("_skl_", "_callback", "_parent_callback", "_metadata_request", AS_GIVEN)
# Kinds of numpy's types; arrays that further rows are added to must be "real".
ARRAYS = {"float": "fiu", "positive": "fiu", "real": "f", "int": "iu", "bool": "b"}


def file_state(model: Any) -> dict[str, Any]:
    """The attributes that `fit` left, which the file must hold besides the constructor's parameters.

    They are those that the model stores, and properties that its layout names, which are computed when they are read.
    """
    if hasattr(model, "_before_saving"):
        model._before_saving()
    cls, layout = type(model), layout_of(type(model))
    # A class attribute that is None stands for an attribute that this model has not been given.
    found_when_read = {name for name in layout if hasattr(model, name) and getattr(cls, name, 0) is not None}
    # A class whose layout does not name `_stream` saves the parts of that state under names of their own.
    stored = set(vars(model)) - ({"_stream"} - set(layout))
    names = sorted((stored | found_when_read) - set(model.get_params(deep=False)))
    return {name: getattr(model, name) for name in names if not name.startswith(NOT_STATE)}


def from_file_state(cls: Any, params: dict[str, Any], state: dict[str, Any]) -> Any:
    """The model that was saved; `state` has been checked.

    A class that can follow a stream restores it in `_resumed`, which returns the other attributes.
    """
    if is_function(params.get("kernel")):
        raise ModelFileError("damaged model file: its kernel is not given by a name, and a file holds no code")
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
    """The layout of a class, together with the layouts of its base classes."""
    merged: dict[str, str] = dict(OUTPUT)
    for base in reversed(cls.__mro__):
        merged |= getattr(base, "_file_layout", {}) | _annotated(base)
    return merged


@cache
def _annotated(cls: type) -> dict[str, str]:
    """What the annotations of a class, without its base classes, say of attributes in files."""
    if not any(str(annotation).startswith("Annotated[") for annotation in get_annotations(cls).values()):
        return {}  # other annotations may name types that are imported only for type checkers
    hints = get_annotations(cls, eval_str=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if hasattr(hint, "__metadata__")}


def restored(instance: Any, state: Mapping[str, Any]) -> Any:
    """Set these attributes of the instance, and return it."""
    for name, value in state.items():
        setattr(instance, name, value)
    return instance


def check_state(cls: type, layout: Mapping[str, str], state: Mapping[str, Any]) -> None:
    """Raise unless `state` holds the attributes that an instance of `cls` must have, and none that it cannot have."""
    check_names(cls, layout, state)
    sizes: dict[str, int] = {}
    for name, spec in layout.items():
        if name in state:
            check_value(name, state[name], spec, sizes)
    for name in set(state) - set(layout):
        _check_plain(name, state[name])
    expansion = state.get("expansion_")
    if expansion is not None and "expansion_" in layout:
        _check_columns(expansion, sizes)


def check_names(cls: type, layout: Mapping[str, str], state: Mapping[str, Any]) -> None:
    """Raise if a name is missing, would hide a member of the class, or is unknown."""
    needed = [name for name, spec in layout.items() if not spec.endswith("optional") and not hasattr(cls, name)]
    absent = [name for name in needed if name not in state]
    if "expansion_" in absent:
        raise ModelFileError("the model in the file has no kernel expansion")
    if absent:
        raise ModelFileError(f"damaged model file: a {cls.__name__} must have {', '.join(absent)}")
    if len(state) > 1_000:  # ours have some twenty
        raise ModelFileError(f"damaged model file: {len(state):,} attributes, more than any model has")
    for name in state:
        odd = not isinstance(name, str) or not name.isidentifier() or not (name.endswith("_") or name in layout)
        if odd or (name not in layout and (name.startswith("_") or hasattr(cls, name))):
            raise ModelFileError(f"attributes in the file have names that no model has ({str(name)[:40]!r})")


def _check_plain(name: str, value: Any) -> None:
    """Raise unless a value that no layout names is plain data: a callable could replace a method."""
    if isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            _check_plain(name, item)
    elif not (value is None or isinstance(value, str | Real | np.generic | np.ndarray) or scipy.sparse.issparse(value)):
        raise _wrong(name, value, "plain data")


def check_dict(name: str, value: Any, layout: Mapping[str, Any], sizes: dict[str, int]) -> None:
    """Raise unless a dict holds exactly the keys of a layout, each as the layout says; layouts may be nested."""
    if not isinstance(value, dict) or set(value) != set(layout):
        raise ModelFileError(f"damaged model file: {name} must hold {', '.join(layout)}")
    for key, spec in layout.items():
        if isinstance(spec, str):
            check_value(f"{name}.{key}", value[key], spec, sizes)
        else:
            check_dict(f"{name}.{key}", value[key], spec, sizes)


def check_value(name: str, value: Any, spec: str, sizes: dict[str, int]) -> None:
    """Raise unless `value` is one of the alternatives of `spec`; sizes that occur for the first time are recorded."""
    failure: ModelFileError | None = None
    for alternative in spec.removesuffix("optional").strip().split(" | "):
        tried = dict(sizes)
        try:
            _check_one(name, value, alternative, tried)
        except ModelFileError as error:
            failure = failure or error
        else:
            sizes |= tried
            return
    assert failure is not None
    raise failure


def _check_one(name: str, value: Any, spec: str, sizes: dict[str, int]) -> None:
    match = SPEC.fullmatch(spec)
    assert match is not None, spec
    kind, any_number = match["kind"], bool(match["any"])
    if value is None:
        if not (match["none"] or kind in ("none", "data")):
            told = "the model in the file has no kernel expansion" if name == "expansion_" else f"{name} is missing"
            raise ModelFileError(told)
        return
    if kind == "strings":
        _check_strings(name, value)
    elif match["shape"] is not None and kind in (*ARRAYS, "rows", "labels"):
        _check_array(name, value, kind, any_number)
    elif match["shape"] is not None:
        _check_record(name, value, kind, match["shape"], sizes)
        return
    else:
        _check_scalar(name, value, kind, any_number)
    if match["shape"] is not None:
        _check_shape(name, tuple(value.shape), match["shape"], sizes)
    if match["size"] is not None:
        _note_size(name, match["size"], int(value), sizes)


def _wrong(name: str, value: Any, wanted: str) -> ModelFileError:
    return ModelFileError(f"damaged model file: {name} is a {type(value).__name__}, {wanted} is needed")


def _check_scalar(name: str, value: Any, kind: str, any_number: bool) -> None:
    is_bool = isinstance(value, bool | np.bool_)
    right = {
        "float": isinstance(value, Real | np.number) and not is_bool,
        "positive": isinstance(value, Real | np.number) and not is_bool and float(value) > 0,
        "int": isinstance(value, Integral) and not is_bool,
        "count": isinstance(value, Integral) and not is_bool and 0 <= int(value) < 2**63,
        "bool": is_bool,
        "str": isinstance(value, str),
        "list": isinstance(value, list | tuple),
        "empty": isinstance(value, list | tuple) and not value,
        "dict": isinstance(value, dict),
        "output": isinstance(value, dict) and value in OUTPUTS_ASKED,
        "dtype": isinstance(value, np.dtype | type),
        "kernel": isinstance(value, Kernel),
        "data": True,
        "none": False,
    }
    if kind not in right:  # a record without sizes, or an estimator
        if type(value).__name__ != kind:
            raise _wrong(name, value, f"a {kind}")
        return
    if not right[kind]:
        raise _wrong(name, value, kind)
    if kind in ("float", "positive") and not any_number and not np.isfinite(float(value)):
        raise ModelFileError(f"damaged model file: {name} is not finite")


def _check_strings(name: str, value: Any) -> None:
    if not isinstance(value, np.ndarray) or not all(isinstance(item, str) for item in value.ravel()):
        raise _wrong(name, value, "an array of names")


def _check_array(name: str, value: Any, kind: str, any_number: bool) -> None:
    sparse = kind == "rows" and scipy.sparse.issparse(value)
    if not sparse and not isinstance(value, np.ndarray):
        raise _wrong(name, value, "an array")
    if kind == "labels":
        return
    if kind == "rows" and value.dtype == object:  # objects of a kernel of objects; the decoder accepts only data
        return
    if value.dtype.kind not in ARRAYS.get(kind, ARRAYS["float"]):
        raise ModelFileError(f"damaged model file: {name} holds {value.dtype}, {kind} is needed")
    numbers = value.data if sparse else value
    if kind == "positive" and not np.all(numbers >= 0):  # NaN fails the comparison
        raise ModelFileError(f"damaged model file: {name} holds negative numbers or NaN")
    if any_number or value.dtype.kind != "f" or not numbers.size:
        return
    # no fit produces larger numbers, because their squares overflow; NaN fails the comparison, too
    if not float(np.abs(numbers).max()) < 1e154:
        raise ModelFileError(f"damaged model file: {name} holds numbers that are not finite, or too large")


def _check_shape(name: str, found: tuple[int, ...], spec: str, sizes: dict[str, int]) -> None:
    wanted = [part.strip() for part in spec.split(",")]
    if len(found) != len(wanted):
        raise ModelFileError(f"arrays do not fit together: {name} has shape {found}, expected ({spec})")
    for number, part in zip(found, wanted, strict=True):
        if part.isidentifier():
            _note_size(name, part, number, sizes)
        elif part != "*" and number != sum(int(term) if term.isdigit() else sizes[term] for term in part.split("+")):
            raise ModelFileError(f"arrays do not fit together: {name} has shape {found}, expected ({spec})")


def _note_size(name: str, size: str, number: int, sizes: dict[str, int]) -> None:
    if sizes.setdefault(size, number) != number:
        raise ModelFileError(f"arrays do not fit together: {name} has {number} where {size} is {sizes[size]}")


def _check_record(name: str, value: Any, kind: str, shape: str, sizes: dict[str, int]) -> None:
    """Check a record by its own layout, whose sizes are given by position."""
    if type(value).__name__ != kind:
        told = "the model in the file has no kernel expansion" if name == "expansion_" else None
        raise ModelFileError(told) if told else _wrong(name, value, f"a {kind}")
    outer = [part.strip() for part in shape.split(",")]
    inner_names, layout = record_layout(type(value))
    inner = {own: sizes[theirs] for own, theirs in zip(inner_names, outer, strict=True) if theirs in sizes}
    for part, spec in layout.items():
        if not hasattr(value, part):
            if spec.endswith("optional"):
                continue
            raise ModelFileError(f"damaged model file: {name} has no {part}")
        check_value(f"{name}.{part}", getattr(value, part), spec, inner)
    if hasattr(value, "check_loaded"):
        value.check_loaded(ModelFileError)
    if isinstance(value, KernelCenterer):
        _check_centerer(name, value)
    if kind == "KernelExpansion" and not isinstance(value.kernel, Kernel):
        raise ModelFileError("the model in the file has no kernel expansion")
    for own, theirs in zip(inner_names, outer, strict=True):
        if own in inner:
            _note_size(name, theirs, inner[own], sizes)


def record_layout(cls: type) -> tuple[tuple[str, ...], dict[str, str]]:
    """The names of a record's sizes, and its layout, which is that of the annotations of its fields.

    scikit-learn's KernelCenterer has none, so they are given here.
    """
    if cls is KernelCenterer:
        layout = {"K_fit_rows_": "float[m]", "K_fit_all_": "float", "n_features_in_": "int=m"}
        return ("m",), layout | OUTPUT
    return cls._file_sizes, _annotated(cls)  # type: ignore[attr-defined]


def _check_centerer(name: str, centerer: Any) -> None:
    """Check that the mean of all kernel values is that of the column means, and that their sum does not overflow."""
    means = np.asarray(centerer.K_fit_rows_, dtype=np.float64)
    with np.errstate(all="ignore"):
        off = abs(float(centerer.K_fit_all_) - float(means.mean()))
    if not off <= 1e-3 * float(np.abs(means).max()):  # the error that float32 means may have
        raise ModelFileError(f"damaged model file: {name}.K_fit_all_ is not the mean of {name}.K_fit_rows_")


def _check_columns(expansion: Any, sizes: dict[str, int]) -> None:
    """Check that points have as many columns as rows; for a precomputed kernel, that they fit the gram's columns."""
    m, p, d = sizes["m"], sizes["p"], sizes["d"]
    if not expansion.kernel.precomputed:
        if p != d:
            raise ModelFileError(f"arrays do not fit together: points of {p} columns, rows of {d}")
        return
    columns, n_columns = expansion.kernel.columns, expansion.kernel.n_columns
    if len(columns) != m or not all(isinstance(c, int) and 0 <= c < n_columns for c in columns):
        raise ModelFileError(f"the precomputed kernel's columns do not fit {m} points of {n_columns}")
    if n_columns != d or p not in (m, n_columns):
        raise ModelFileError(f"arrays do not fit together: a gram of {n_columns} columns, rows of {d}")
