"""Values as JSON and arrays, and back: data, and records of a few listed classes, and nothing else."""

from __future__ import annotations

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
from ..fit.expansion import KernelExpansion
from ..fit.moments import Moments
from ..fit.preimage import RidgeMap
from ..kernels import Kernel, kernel_from_params
from ..models.exact import Uncentered
from ..models.incremental import StreamState
from ..monitor.inputs import InputMap
from ..monitor.live import Drift, LiveState
from ..monitor.statistics import Detector
from ..rows.reservoir import Reservoir
from .container import DTYPES, ModelFileError

# The only classes, besides kernels and the estimators themselves, that a file can make.
RECORDS: dict[str, type] = {
    c.__name__: c
    for c in (
        KernelExpansion,
        Moments,
        Reservoir,
        RidgeMap,
        StreamState,
        KernelCenterer,
        Uncentered,
        InputMap,
        Detector,
        LiveState,
        Drift,
    )
}
SPARSE: dict[str, type] = {c.__name__: c for c in (scipy.sparse.csr_matrix, scipy.sparse.csr_array)}


class Encoder:
    """Values as JSON, arrays set aside."""

    def __init__(self, owner: str, describe: Callable[[Any], tuple[str, dict[str, Any], dict[str, Any]]]) -> None:
        self.owner = owner
        self._describe = describe  # class name, parameters and state of an estimator inside another
        self.arrays: dict[str, np.ndarray] = {}
        self._names: dict[int, str] = {}

    def encode(self, value: Any, name: str) -> Any:
        """JSON for a value; `name` says where it is, and names its arrays."""
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
            made, params, state = self._describe(value)
            return {"$estimator": {"class": made, "params": self._dict(params, name), "state": self._dict(state, name)}}
        if scipy.sparse.issparse(value):
            return {"$csr": self._csr(value.tocsr(), name)}
        if array_api_compat.is_array_api_obj(value) or hasattr(value, "__array__"):
            return self._array(to_numpy(value), name)
        raise TypeError(f"{self.owner} cannot be saved: {name} is a {type(value).__name__}, which is no data")

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
        if value.dtype.kind in "OU" and value.ndim == 1 and all(isinstance(item, str) for item in value):
            return {"$strings": [str(item) for item in value]}
        dtype = self._dtype(value, name)
        if id(value) in self._names:
            return {"$array": self._names[id(value)]}
        while name in self.arrays:
            name += "_"
        self.arrays[name] = value.astype(dtype, copy=False)
        self._names[id(self.arrays[name])] = name
        return {"$array": name}

    def _dtype(self, value: Any, name: str) -> str:
        dtype = str(value.dtype.newbyteorder("<").str)
        if dtype not in DTYPES:
            raise TypeError(f"{self.owner} cannot be saved: {name} has dtype {value.dtype}, which no model file holds")
        return dtype


def _fields(record: Any) -> dict[str, Any]:
    if is_dataclass(record):
        return {field.name: getattr(record, field.name) for field in fields(record)}
    return dict(vars(record))


class Decoder:
    """The inverse of Encoder."""

    def __init__(
        self, arrays: dict[str, np.ndarray], rebuild: Callable[[str, dict[str, Any], dict[str, Any]], Any]
    ) -> None:
        self._rebuild = rebuild  # an estimator inside another, of a class name, parameters and state
        self.tags: dict[str, Callable[[Any], Any]] = {
            "$array": lambda name: arrays[name],
            "$csr": self._csr,
            "$scalar": self._scalar,
            "$float": {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}.__getitem__,
            "$tuple": lambda items: tuple(self.decode(items)),
            "$dict": lambda pairs: {self.decode(key): self.decode(value) for key, value in pairs},
            "$strings": lambda items: np.array([str(item) for item in items], dtype=object),
            "$kernel": self._kernel,
            "$record": self._record,
            "$estimator": self._model,
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

    def _scalar(self, pair: list[Any]) -> Any:
        dtype, value = pair
        if dtype not in DTYPES:
            raise ModelFileError(f"a number has dtype {dtype!r}, which no model has")
        return np.dtype(dtype).type(self.decode(value))

    def _csr(self, parts: dict[str, Any]) -> Any:
        data, indices, indptr = (self.decode(parts[part]) for part in ("data", "indices", "indptr"))
        value = SPARSE[parts["container"]]((data, indices, indptr), shape=tuple(parts["shape"]))
        value.check_format(full_check=True)  # scipy's compiled code trusts the indices
        return value

    def _kernel(self, content: dict[str, Any]) -> Kernel:
        params = self.decode(content["params"])
        kernel = kernel_from_params(content["name"], params)
        numbers = [n for value in params.values() for n in (value if isinstance(value, tuple) else [value])]
        if not all(isinstance(n, int | float) and math.isfinite(n) for n in numbers):
            raise ModelFileError(f"parameters of the {content['name']} kernel are not numbers")
        return kernel

    def _model(self, content: dict[str, Any]) -> Any:
        return self._rebuild(content["class"], self.decode(content["params"]), self.decode(content["state"]))

    def _record(self, content: dict[str, Any]) -> Any:
        made = RECORDS[content["class"]]
        values = self.decode(content["fields"])
        if is_dataclass(made):
            return made(**values)
        record = made()
        vars(record).update(values)
        return record
