"""Model files: JSON and arrays in one zip, and nothing in it that could run.

    header.json     {"format", "version", "kernelsieve", "class", "params", "state", "arrays", "sha256"}
    <name>.npy      one member an array, as numpy.save writes it

A model is what its constructor was given (`params`) and what `fit` left in it (`state`, all other attributes).
Both are trees of JSON values; what JSON has no word for is a dict with one key that starts with "$":

    {"$array": name}   {"$csr": ...}   {"$scalar": [dtype, value]}   {"$kernel": ...}   {"$record": ...}   ...

An array that is in the model twice is in the file once.  Reading looks classes up in the fixed tables below: no name
in a file is ever imported, no pickle ever read.  Members are stored, not compressed, so that a file cannot
unfold to more than its size; the bytes of a file depend on the model alone.  Digests find damage and careless
edits; they are no signature.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import secrets
import stat
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from numbers import Integral
from typing import Any, BinaryIO

import array_api_compat
import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import KernelCenterer
from sklearn.utils.validation import check_is_fitted

from ._array import to_numpy
from .estimators.base import ExpansionMixin
from .estimators.exact import Uncentered
from .expansion import KernelExpansion
from .kernels import Kernel, Precomputed, kernel_from_params
from .moments import Moments
from .preimage import RidgeMap

FORMAT, VERSION = "kernelsieve-model", 1
HEADER = "header.json"
MAX_NPY_HEADER = 1024  # numpy writes 128 bytes for every array that a model has
EPOCH = (1980, 1, 1, 0, 0, 0)  # of zip: files made at different times are the same

# The only classes, besides kernels and the estimators themselves, that a file can make.
RECORDS: dict[str, type] = {c.__name__: c for c in (KernelExpansion, Moments, RidgeMap, KernelCenterer, Uncentered)}
SPARSE: dict[str, type] = {c.__name__: c for c in (scipy.sparse.csr_matrix, scipy.sparse.csr_array)}
DTYPES = {"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"}
# What scikit-learn hangs on an estimator that is no part of the model.
NOT_STATE = ("_skl_", "_callback", "_parent_callback", "_metadata_request")


class ModelFileError(ValueError):
    """A file that is no model, or not any more."""


# --- from a model to a file ------------------------------------------------------------------------------------


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted kernelsieve estimator to one file, atomically.

    The file is complete or it is not there: an error on the way, a full disk included, leaves an older file at
    `path` as it was.  Not kept: a `random_state` that is a generator (saved as None), and a callable `selection`,
    which is replaced by what it chose (row numbers, or points where they are no rows).

    Parameters
    ----------
    model : fitted estimator of this package
        With a named kernel: a callable one is code, which a model file cannot hold.
    path : str or path-like
    """
    check_is_fitted(model)
    name = type(model).__name__
    if _estimators().get(name) is not type(model):
        raise TypeError(f"{name} cannot be saved: only kernelsieve's own estimators can, and this is another class")
    encoder = _Encoder(name)
    params = {key: encoder.encode(value, f"params.{key}") for key, value in _params(model).items()}
    state = {key: encoder.encode(value, key) for key, value in _state(model).items()}
    header = {"format": FORMAT, "version": VERSION, "kernelsieve": _version(), "class": name}
    header |= {"params": params, "state": state}
    _replace(os.path.realpath(os.fsdecode(path)), lambda file: _write(file, header, encoder.arrays))


def _estimators() -> dict[str, type]:
    """The public estimators by name."""
    import kernelsieve

    public = {name: getattr(kernelsieve, name) for name in kernelsieve.__all__}
    return {name: c for name, c in public.items() if isinstance(c, type) and issubclass(c, BaseEstimator)}


def _version() -> str:
    import kernelsieve

    return kernelsieve.__version__


def _params(model: Any) -> dict[str, Any]:
    params = model.get_params(deep=False)
    if callable(params.get("kernel")):
        raise TypeError(
            f"a {type(model).__name__} with a callable kernel cannot be saved: a model file holds no code. Use a named "
            "kernel, or kernel='precomputed' and keep the function yourself"
        )
    if not isinstance(params.get("random_state"), Integral | None):
        params["random_state"] = None
    if callable(params.get("selection")):
        params["selection"] = model.expansion_.points if model.support_ is None else model.support_
    return dict(sorted(params.items()))


def _state(model: Any) -> dict[str, Any]:
    names = sorted(set(vars(model)) - set(model.get_params(deep=False)))
    return {name: vars(model)[name] for name in names if not name.startswith(NOT_STATE)}


class _Encoder:
    """Values as JSON, arrays set aside."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
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


def _replace(path: str, write: Callable[[BinaryIO], None]) -> None:
    """Write beside `path`, and put it there when it is safely on disk."""
    existing = os.stat(path) if os.path.exists(path) else None
    if existing is not None and not stat.S_ISREG(existing.st_mode):
        code = errno.EISDIR if stat.S_ISDIR(existing.st_mode) else errno.EEXIST
        raise OSError(code, "a model cannot be written here, where something is that is not a file", path)
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name[:40]}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if existing is not None:
            os.chmod(temporary, stat.S_IMODE(existing.st_mode))
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, error.strerror, path) from error  # the name that the user knows
        raise
    _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    """So that the new name, too, survives a power cut; some systems cannot."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write(file: BinaryIO, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    described = {}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in sorted(arrays.items()):
            with archive.open(_member(f"{name}.npy"), "w", force_zip64=array.nbytes > 2**30) as member:
                writer = _Digesting(member)
                np.lib.format.write_array(writer, array, version=(1, 0), allow_pickle=False)
            described[name] = {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": writer.digest}
        header = {**header, "arrays": described}
        header["sha256"] = _header_digest(header)
        archive.writestr(_member(HEADER), json.dumps(header, allow_nan=False))


def _member(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, EPOCH)
    info.create_system = 3  # whatever the system
    info.external_attr = 0o644 << 16
    return info


def _header_digest(header: dict[str, Any]) -> str:
    rest = {key: value for key, value in header.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, allow_nan=False, sort_keys=True).encode()).hexdigest()


class _Digesting:
    """A file that remembers the digest of what was written to it."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()

    def write(self, data: Any) -> int:
        self._sha256.update(data)
        return int(self._file.write(data))

    @property
    def digest(self) -> str:
        return self._sha256.hexdigest()


# --- from a file to a model ------------------------------------------------------------------------------------


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `model.save(path)` wrote.  Nothing in the file is executed.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    fitted estimator
        Of the class that was saved; its `transform` gives the same numbers, to the last bit.

    Raises
    ------
    ModelFileError
        Where the file is no model, is damaged, was edited, or is of a newer version than this one can read.

    Examples
    --------
    >>> import os, tempfile
    >>> import kernelsieve
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> model = kernelsieve.KernelPCA(2, kernel="rbf").fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(os.path.join(folder, "iris.ks"))
    ...     loaded = kernelsieve.load(os.path.join(folder, "iris.ks"))
    >>> bool((loaded.transform(X) == model.transform(X)).all())
    True
    """
    name = os.fsdecode(path)
    if os.path.isdir(name):
        raise ModelFileError(f"{name}: a folder, not a model file")
    with open(name, "rb") as file:
        try:
            return _rebuild(*_read(file))
        except ModelFileError as error:
            raise ModelFileError(f"{name}: {error}") from error
        except MemoryError:
            raise
        except Exception as error:
            # Any bytes can come in here, and the parsers below raise a dozen types on them: all say the same.
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
                raise
            raise ModelFileError(f"{name}: damaged model file ({type(error).__name__}: {error})") from error


def _read(file: BinaryIO) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    start = file.read(4)
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        if start == b"PK\x03\x04":
            raise ModelFileError("truncated or damaged model file: its end is missing") from error
        raise ModelFileError("not a kernelsieve model file (model.save(path) writes one)") from error
    with archive:
        members = {info.filename: info for info in archive.infolist()}
        if HEADER not in members:
            kind = "a NumPy .npz" if all(name.endswith(".npy") for name in members) else "some other zip"
            raise ModelFileError(f"not a kernelsieve model file but {kind} file")
        _check_stored(archive, os.fstat(file.fileno()).st_size)
        header = _read_header(archive.read(HEADER))
        described = header["arrays"]
        if set(members) != {HEADER, *(f"{name}.npy" for name in described)}:
            raise ModelFileError("members are missing from the file, or others were added to it")
        return header, {name: _read_array(archive, name, about) for name, about in described.items()}


def _check_stored(archive: zipfile.ZipFile, size: int) -> None:
    infos = archive.infolist()
    stored = all(i.compress_type == zipfile.ZIP_STORED and i.file_size == i.compress_size for i in infos)
    if not stored or sum(i.file_size for i in infos) > size or len({i.filename for i in infos}) < len(infos):
        raise ModelFileError("members are compressed or overlap, as kernelsieve never writes them: refused")


def _read_header(data: bytes) -> dict[str, Any]:
    header = json.loads(data)
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ModelFileError("not a kernelsieve model file: its header.json is of something else")
    version = header.get("version")
    if not isinstance(version, int) or version < 1:
        raise ModelFileError(f"damaged model file: version {version!r}")
    if version > VERSION:
        raise ModelFileError(
            f"written by a newer kernelsieve ({header.get('kernelsieve')}, file version {version}); this one "
            f"({_version()}) reads up to version {VERSION}: upgrade kernelsieve"
        )
    if header.get("sha256") != _header_digest(header):
        raise ModelFileError("header.json was changed after it was written (its digest does not match)")
    return header


def _read_array(archive: zipfile.ZipFile, name: str, about: dict[str, Any]) -> np.ndarray:
    dtype, shape = about["dtype"], tuple(about["shape"])
    if dtype not in DTYPES or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise ModelFileError(f"array {name}: dtype {dtype!r} or shape {shape} is none that a model has")
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    info = archive.getinfo(f"{name}.npy")
    if not n_bytes < info.file_size <= n_bytes + MAX_NPY_HEADER:
        raise ModelFileError(f"array {name}: {info.file_size} bytes are no array of shape {shape} and dtype {dtype}")
    data = archive.read(info)
    if hashlib.sha256(data).hexdigest() != about["sha256"]:
        raise ModelFileError(f"array {name} was changed after it was written (its digest does not match)")
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ModelFileError(f"array {name} is of another .npy version")
    found_shape, _, found = np.lib.format.read_array_header_1_0(stream)
    if (found_shape, found.str) != (shape, dtype) or len(data) - stream.tell() != n_bytes:
        raise ModelFileError(f"array {name} is {found} {found_shape}, but the header says {dtype} {shape}")
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)


def _rebuild(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    known = _estimators()
    if header["class"] not in known:
        raise ModelFileError(f"holds a {header['class']!r}; this kernelsieve knows {', '.join(known)}")
    decoder = _Decoder(arrays)
    params, state = decoder.decode(header["params"]), decoder.decode(header["state"])
    try:
        model = known[header["class"]](**params)
    except TypeError as error:
        raise ModelFileError(f"parameters do not fit {header['class']}: {error}") from error
    if any(not name.isidentifier() or name.startswith("__") or name in params for name in state):
        raise ModelFileError("attributes in the file have names that no model has")
    vars(model).update(state)
    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise ModelFileError("the model in the file is not fitted") from error
    if isinstance(model, ExpansionMixin):
        _check_shapes(model)
    return model


class _Decoder:
    """The inverse of _Encoder: makes data, and records of the classes listed above, and nothing else."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
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
        }

    def decode(self, node: Any) -> Any:
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

    def _record(self, content: dict[str, Any]) -> Any:
        made = RECORDS[content["class"]]
        values = self.decode(content["fields"])
        if is_dataclass(made):
            return made(**values)
        record = made()
        vars(record).update(values)
        return record


def _check_shapes(model: Any) -> None:
    """Arrays that belong together are of one size: what a wrong one would break comes late, and obscurely."""
    state = vars(model)
    expansion, features = state.get("expansion_"), state.get("n_features_in_")
    if not isinstance(expansion, KernelExpansion) or not isinstance(expansion.kernel, Kernel):
        raise ModelFileError("the model in the file has no kernel expansion")
    m, d = expansion.points.shape
    (M,) = expansion.offset.shape
    if isinstance(expansion.kernel, Precomputed):
        columns, d = expansion.kernel.columns, expansion.kernel.n_columns
        if len(columns) != m or not all(isinstance(c, int) and 0 <= c < d for c in columns):
            raise ModelFileError(f"the precomputed kernel's columns do not fit {m} points of {d}")
    pairs: list[tuple[str, Any, tuple[Any, ...]]]
    pairs = [("points", (m, d), (m, features)), ("coef", expansion.coef.shape, (m, M))]
    if expansion.mean_coef is not None:
        pairs.append(("mean_coef", expansion.mean_coef.shape, (m,)))
    inverse = state.get("_inverse_map")
    if inverse is not None:
        n_centers = len(inverse.centers)
        pairs.append(("inverse map's centers", inverse.centers.shape, (n_centers, M)))
        pairs.append(("inverse map's coef", inverse.coef.shape, (1 + M + n_centers, features)))
    expected = {"support_": (m,), "feature_names_in_": (features,), "X_fit_": expansion.points.shape}
    expected |= {"eigenvectors_": (m, M), "eigenvalues_": (M,)}
    expected |= {"explained_variance_": (M,), "explained_variance_ratio_": (M,)}
    pairs += [(name, state[name].shape, shape) for name, shape in expected.items() if state.get(name) is not None]
    for name, found, wanted in pairs:
        if tuple(found) != wanted:
            raise ModelFileError(f"arrays do not fit together: {name} has shape {tuple(found)}, expected {wanted}")
