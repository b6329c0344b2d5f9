"""Turns values into JSON and arrays, and back: only data, and instances of a few listed classes."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import array_api_compat
import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.preprocessing import KernelCenterer

from ..arrays import to_numpy
from ..fit.agreement import Agreement
from ..fit.expansion import KernelExpansion
from ..fit.interpret import RidgeMap
from ..fit.moments import Moments
from ..kernels import Kernel, kernel_from_params
from ..models.sklearn_kernel_pca import Uncentered
from ..monitor.online import Drift, LiveState
from ..monitor.statistics import Detector, InputMap
from ..monitor.table import UsualValues
from ..rows.reservoir import Reservoir
from ..streaming.state import StreamState
from .container import FILE_DTYPES, ModelFileError
from .layout import record_layout, restored
from .registry import is_known, parts_of, rebuilt

# The only classes, besides kernels and the estimators themselves, that a file can make.
RECORDS: dict[str, type] = {
    c.__name__: c
    for c in (
        KernelExpansion,
        Moments,
        Reservoir,
        Agreement,
        RidgeMap,
        StreamState,
        KernelCenterer,
        Uncentered,
        InputMap,
        Detector,
        LiveState,
        Drift,
        UsualValues,
    )
}
# types of values in a column of mixed types, such as categories with gaps
SCALARS = (str, bool, int, float, type(None))
SPARSE: dict[str, type] = {c.__name__: c for c in (scipy.sparse.csr_matrix, scipy.sparse.csr_array)}


class Encoder:
    """Turns values into JSON, and collects their arrays in `arrays`."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.arrays: dict[str, np.ndarray] = {}
        self._names: dict[int, str] = {}

    def estimator(self, model: Any, name: str = "") -> dict[str, Any]:
        """Class, parameters and state of a fitted (or, among parameters, an unfitted) estimator."""
        place = f"{name}." if name else ""
        params, state = parts_of(model)
        return {
            "class": type(model).__name__,
            "params": {key: self.encode(value, f"{place}params.{key}") for key, value in params.items()},
            "state": {key: self.encode(value, f"{place}{key}") for key, value in state.items()},
        }

    def encode(self, value: Any, name: str) -> Any:
        """JSON for a value; `name` is its path in the model, and names its arrays."""
        if isinstance(value, str):
            return str(value)
        if isinstance(value, np.generic):
            return {"$scalar": [self._dtype(value, name), self.encode(value.item(), name)]}
        if isinstance(value, float) and not math.isfinite(value):
            return {"$float": repr(value)}
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, list):
            return [self.encode(item, f"{name}.{i}") for i, item in enumerate(value)]
        if isinstance(value, tuple):
            return {"$tuple": self.encode(list(value), name)}
        if isinstance(value, dict):
            return self._dict(value, name)
        if isinstance(value, Kernel):
            return {"$kernel": {"name": value.name, "params": self._dict(value.params(), name)}}
        if type(value) in RECORDS.values():
            return {"$record": {"class": type(value).__name__, "fields": self._dict(_fields(value), name)}}
        if isinstance(value, BaseEstimator):
            return {"$estimator": self._nested(value, name)}
        if isinstance(value, slice):
            return {"$slice": [self.encode(part, name) for part in (value.start, value.stop, value.step)]}
        if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
            return {"$dtype" if isinstance(value, np.dtype) else "$type": self._type(np.dtype(value), name)}
        if scipy.sparse.issparse(value):
            return {"$csr": self._csr(value.tocsr(), name)}
        if array_api_compat.is_array_api_obj(value) or hasattr(value, "__array__"):
            return self._array(to_numpy(value), name)
        raise TypeError(f"{self.owner} cannot be saved: {name} is a {type(value).__name__}, which is not data")

    def _nested(self, value: Any, name: str) -> dict[str, Any]:
        if not is_known(value):
            raise TypeError(
                f"{self.owner} cannot be saved: {name} is a {type(value).__name__}, which is neither one of ours nor "
                "one of the scikit-learn classes that a model file can hold"
            )
        return self.estimator(value, name)

    def _type(self, dtype: Any, name: str) -> str:
        return "|O" if dtype.kind == "O" else self._dtype(np.empty(0, dtype), name)

    def _dict(self, value: Mapping[Any, Any], name: str) -> Any:
        encoded = {key: self.encode(item, f"{name}.{key}") for key, item in value.items()}
        if all(isinstance(key, str) and not key.startswith("$") for key in encoded):
            return encoded
        return {"$dict": [[self.encode(key, name), item] for key, item in encoded.items()]}

    def _csr(self, value: Any, name: str) -> dict[str, Any]:
        container = type(value).__name__ if type(value).__name__ in SPARSE else "csr_matrix"
        parts = {part: self._array(getattr(value, part), f"{name}.{part}") for part in ("data", "indices", "indptr")}
        return {"container": container, "shape": [int(n) for n in value.shape], **parts}

    def _array(self, value: np.ndarray, name: str) -> dict[str, Any]:
        if value.dtype.kind == "U" and value.ndim == 1:
            return {"$unicode": [str(item) for item in value]}
        if value.dtype == object and value.ndim == 1:
            if all(isinstance(item, str) for item in value):
                return {"$strings": [str(item) for item in value]}
            if all(isinstance(item, SCALARS) for item in value) and any(item is None for item in value):
                return {"$objects": [self.encode(item, name) for item in value]}
            if all(isinstance(item, SCALARS) for item in value) and len({type(item) for item in value} - {float}) < 2:
                return {"$objects": [self.encode(item, name) for item in value]}
        if value.dtype == object and value.ndim == 2 and value.shape[1] == 1:
            return {"$objects_in_rows": [self._object(one, name) for one in value[:, 0]]}
        dtype = self._dtype(value, name)
        if id(value) in self._names:
            return {"$array": self._names[id(value)]}
        name = "".join(letter if letter.isprintable() else "_" for letter in name)  # a zip truncates names at a NUL
        while name in self.arrays:
            name += "_"
        self.arrays[name] = value.astype(dtype, copy=False)
        self._names[id(self.arrays[name])] = name
        return {"$array": name}

    def _object(self, one: Any, name: str) -> Any:
        if isinstance(one, bytes):
            return {"$bytes": base64.b64encode(one).decode("ascii")}
        if isinstance(one, SCALARS):
            return self.encode(one, name)
        raise TypeError(
            f"{self.owner} cannot be saved: {name} holds a {type(one).__name__}, but rows that are objects can only be "
            "strings, bytes or numbers in a model file: pickle the model"
        )

    def _dtype(self, value: Any, name: str) -> str:
        dtype = str(value.dtype.newbyteorder("<").str)
        if dtype not in FILE_DTYPES:
            raise TypeError(f"{self.owner} cannot be saved: {name} has dtype {value.dtype}, which a file cannot hold")
        return dtype


def _fields(record: Any) -> dict[str, Any]:
    if is_dataclass(record):
        return {
            field.name: getattr(record, field.name) for field in fields(record) if field.metadata.get("saved", True)
        }
    return {name: getattr(record, name) for name in record_layout(type(record))[1] if hasattr(record, name)}


class Decoder:
    """The inverse of Encoder."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.tags: dict[str, Callable[[Any], Any]] = {
            "$array": lambda name: arrays[name],
            "$csr": self._csr,
            "$scalar": self._scalar,
            "$float": {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}.__getitem__,
            "$tuple": lambda items: tuple(self.decode(items)),
            "$dict": lambda pairs: {self.decode(key): self.decode(value) for key, value in pairs},
            "$strings": lambda items: np.array([str(item) for item in items], dtype=object),
            "$unicode": lambda items: np.array([str(item) for item in items], dtype=np.str_),
            "$objects": self._objects,
            "$objects_in_rows": lambda items: self._objects(items)[:, None],
            "$bytes": lambda text: base64.b64decode(text, validate=True),
            "$slice": lambda parts: slice(*(self.decode(part) for part in parts)),
            "$dtype": self._type,
            "$type": lambda name: self._type(name).type,
            "$estimator": lambda content: rebuilt(content, self),
            "$kernel": self._kernel,
            "$record": self._record,
        }

    def decode(self, node: Any) -> Any:
        """The value that a JSON tree stands for."""
        if isinstance(node, list):
            return [self.decode(item) for item in node]
        if not isinstance(node, dict):
            return node
        if len(node) == 1 and next(iter(node)) in self.tags:
            ((tag, content),) = node.items()
            return self.tags[tag](content)
        return {key: self.decode(value) for key, value in node.items()}

    def _objects(self, items: list[Any]) -> np.ndarray:
        values = np.empty(len(items), dtype=object)
        for place, item in enumerate(items):
            values[place] = self.decode(item)
            if not isinstance(values[place], (*SCALARS, bytes)):
                raise ModelFileError("an array holds something that is not data")
        return values

    def _type(self, name: str) -> Any:
        if name not in FILE_DTYPES and name != "|O":
            raise ModelFileError(f"{name!r} is a type of numbers that no model has")
        return np.dtype(name)

    def _scalar(self, pair: list[Any]) -> Any:
        dtype, value = pair
        if dtype not in FILE_DTYPES:
            raise ModelFileError(f"a number has dtype {dtype!r}, which no model has")
        return np.dtype(dtype).type(self.decode(value))

    def _csr(self, parts: dict[str, Any]) -> Any:
        data, indices, indptr = (self.decode(parts[part]) for part in ("data", "indices", "indptr"))
        for places in (indices, indptr):
            # scipy takes the sign of differences to check that pointers ascend: unsigned numbers have no such sign
            if not (isinstance(places, np.ndarray) and places.ndim == 1 and places.dtype in (np.int32, np.int64)):
                raise ModelFileError("places of sparse rows are not whole numbers")
        value = SPARSE[parts["container"]]((data, indices, indptr), shape=tuple(parts["shape"]))
        value.check_format(full_check=True)  # scipy's compiled code trusts the indices
        return value

    def _kernel(self, content: dict[str, Any]) -> Kernel:
        params = self.decode(content["params"])
        kernel = kernel_from_params(content["name"], params)
        numbers = kernel.numbers()
        # no kernel accepts a larger gamma (kernels/base.py), and NaN fails the comparison
        if not all(isinstance(n, int | float) and abs(n) < 1e131 for n in numbers):
            raise ModelFileError(f"parameters of the {content['name']} kernel are not numbers")
        return kernel

    def _record(self, content: dict[str, Any]) -> Any:
        made = RECORDS[content["class"]]
        values = self.decode(content["fields"])
        if is_dataclass(made):
            return made(**values)
        if not set(values) <= set(record_layout(made)[1]):  # an attribute of another name could replace a method
            raise ModelFileError(f"a {content['class']} in the file has attributes that it cannot have")
        return restored(made(), values)
