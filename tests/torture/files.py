"""Model files: bytes changed at random, and contents changed on purpose and sealed with the right digests.

A file that was changed without its digests must be refused, or give the same scores to the last bit.  A sealed one
holds what somebody chose to put there, so that its scores may be others; but it must be refused at `load` or work
in every method: nothing may fail late, and what follows a stream must go on with more rows (`partial_fit`, `update`).
And nothing may ever be executed: an audit hook listens.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import pickle
import sys
import tempfile
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import kernelsieve

from .campaign import CLEAR, FAULT, OK, Attempt, Outcome
from .inputs import choose
from .invariants import unclear
from .models import answer_of, fitted, rows_of

HEADER = "header.json"
LIVE = ("_stream", "_settled", "_online", "_kept", "_live", "_drift", "_detector")  # what goes on when more rows come
SEALED = 0.6  # of the cases
# What must never happen while a file is loaded.
FORBIDDEN = ("exec", "os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen", "socket.connect")
FORBIDDEN += ("pickle.find_class", "ctypes.dlopen", "os.remove", "os.rename", "shutil.rmtree")

_listening: list[str] | None = None


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    if _listening is None:
        return
    writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
    if event in FORBIDDEN or writes or (event == "import" and arguments[0] not in sys.modules):
        _listening.append(f"{event} {str(arguments)[:80]}")


@contextlib.contextmanager
def listening() -> Iterator[list[str]]:
    """What forbidden things happen inside."""
    global _listening
    events: list[str] = []
    _listening = events
    try:
        yield events
    finally:
        _listening = None


@dataclass(frozen=True)
class Written:
    """A saved model with what it must answer."""

    name: str
    data: bytes
    scores: np.ndarray


@contextlib.contextmanager
def session() -> Iterator[Attempt]:
    """Every model written once; every class loaded once, so that all modules are in."""
    rows = rows_of()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.ks")
        written = []
        for model in fitted():
            model.save(path)
            with open(path, "rb") as file:
                data = file.read()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _use(kernelsieve.load(path), rows, folder)
                written.append(Written(type(model).__name__, data, answer_of(model, rows)))
        sys.addaudithook(_listen)

        def attempt(rng: np.random.Generator) -> Outcome:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return _attempt(rng, choose(rng, written), rows, folder)

        yield attempt


def _attempt(rng: np.random.Generator, one: Written, rows: np.ndarray, folder: str) -> Outcome:
    sealed = rng.random() < SEALED
    data, words = _resealed(rng, one.data) if sealed else _damaged(rng, one.data)
    words = f"{one.name}, {words}"
    path = os.path.join(folder, "changed.ks")
    with open(path, "wb") as file:
        file.write(data)
    try:
        with listening() as events:
            model = kernelsieve.load(path)
    except kernelsieve.io.ModelFileError:
        return Outcome(FAULT, f"executed {events[0]} [{words}]") if events else Outcome(CLEAR)
    except Exception as error:
        return Outcome(FAULT, f"load raised {type(error).__name__}: {error} [{words}]")
    if events:
        return Outcome(FAULT, f"executed {events[0]} [{words}]")
    if not sealed and not np.array_equal(answer_of(model, rows), one.scores):
        return Outcome(FAULT, f"silently other scores [{words}]")
    try:
        _use(model, rows, folder)
    except Exception as error:
        complaint = next(unclear(error), None) or f"{type(error).__name__}: {error}"
        return Outcome(FAULT, f"failed late: {complaint} [{words}]\n{traceback.format_exc()}")
    return Outcome(OK)


def _use(model: Any, rows: np.ndarray, folder: str) -> None:
    """Every public method and attribute; then more rows, where a model takes them."""
    _read(model, rows, folder)
    if _follows(model):
        more = rows[::-1] + 0.1
        model.partial_fit(more[:7]).partial_fit(more)
        _read(model, rows, folder)
    if isinstance(model, kernelsieve.SparseKernelPCA) and model._stream is not None:
        (model + model).transform(rows)
        if model._enough(model._stream.reservoir):  # for as many points as its parameters now ask for
            model.refresh().transform(rows)
    if hasattr(model, "update") and callable(model.update):
        told = [model.update(rows[0]), *model.update(rows[1:20])]
        if not np.isfinite([record.spe for record in told[_lags(model) :]]).all():
            raise ArithmeticError("a record is not finite")
        model.restart().update(rows[:5])


def _follows(model: Any) -> bool:
    """Whether it was in the middle of a stream."""
    return getattr(model, "_stream", None) is not None


def _read(model: Any, rows: np.ndarray, folder: str) -> None:
    judges = () if _of_an_older_version(model) else ("decision_function", "predict")
    for name in ("reconstruction_error", "score", "score_samples", *judges):
        # the first rows of a monitor with lags end no window
        if hasattr(model, name) and not np.isfinite(np.atleast_1d(getattr(model, name)(rows)))[_lags(model) :].all():
            raise ArithmeticError(f"{name} is not finite")
    if hasattr(model, "transform"):
        scores = model.transform(rows)
        assert isinstance(scores, np.ndarray), type(scores)
        assert scores.shape == (len(rows), len(model.get_feature_names_out())), scores.shape
        if not np.isfinite(scores).all():
            raise ArithmeticError("scores are not finite")
        with contextlib.suppress(*_no_way_back(model)):
            model.inverse_transform(scores)
        model.set_output(transform="default")
    else:
        model.statistics(rows), model.contributions(rows)
    repr(model), model.get_params(), model.__sklearn_tags__()
    for name in dir(type(model)):
        if name.endswith("_") and not name.startswith("_"):
            with contextlib.suppress(AttributeError):
                getattr(model, name)
    for name in [name for name in vars(model) if name.endswith("_")]:
        value = getattr(model, name)
        if callable(value) or callable(getattr(type(model), name, None)):
            raise TypeError(f"{name} shadows a method")
    model.save(os.path.join(folder, "again.ks"))


def _of_an_older_version(model: Any) -> bool:
    """Whether it is a model that says, when asked to judge rows, that its version could not."""
    return isinstance(model, kernelsieve.LikelihoodKernelPCA) and not hasattr(model, "threshold_")


def _lags(model: Any) -> int:
    return int(getattr(model, "_fitted_lags", 0))


def _no_way_back(model: Any) -> tuple[type[Exception], ...]:
    """What inverse_transform says where there is no way back: it was not asked for, or none was learned."""
    from sklearn.exceptions import NotFittedError

    if isinstance(model, kernelsieve.KernelPCA):
        return (NotFittedError,)
    kernel = getattr(getattr(model, "expansion_", None), "kernel", None)
    learned = getattr(kernel, "preimage", None) == "ridge"
    return (ValueError,) if learned and model._inverse_map is None else ()


# Damage


def _damaged(rng: np.random.Generator, data: bytes) -> tuple[bytes, str]:
    changed = bytearray(data)
    place = int(rng.integers(len(data)))
    match choose(rng, ["flip", "bytes", "cut", "insert", "delete", "swap", "append", "zero", "member"]):
        case "flip":
            changed[place] ^= 1 << int(rng.integers(8))
            return bytes(changed), "a bit flipped"
        case "bytes":
            for where in rng.integers(len(data), size=int(rng.integers(1, 20))):
                changed[where] = int(rng.integers(256))
            return bytes(changed), "some bytes changed"
        case "cut":
            return data[:place], "cut"
        case "insert":
            return data[:place] + rng.bytes(int(rng.integers(1, 50))) + data[place:], "bytes inserted"
        case "delete":
            return data[:place] + data[place + int(rng.integers(1, 50)) :], "bytes deleted"
        case "swap":
            other = int(rng.integers(len(data)))
            a, b = sorted((place, other))
            return data[:a] + data[b:] + data[a:b], "parts swapped"
        case "append":
            return data + rng.bytes(int(rng.integers(1, 200))), "bytes appended"
        case "zero":
            stop = min(len(data), place + int(rng.integers(1, 600)))
            changed[place:stop] = bytes(stop - place)
            return bytes(changed), "zeroed"
    members = _members(data)
    name = choose(rng, members)
    members[name] = _other_bytes(rng, members[name])
    return _zipped(members), "a member changed"


def _other_bytes(rng: np.random.Generator, data: bytes) -> bytes:
    changed = bytearray(data)
    changed[int(rng.integers(len(data)))] = int(rng.integers(256))
    return bytes(changed)


# Contents, sealed again


def _members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def _zipped(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def sealed(header: dict[str, Any], members: dict[str, bytes]) -> bytes:
    """The file that says of itself that it is whole."""
    arrays = header.get("arrays")
    for name, about in arrays.items() if isinstance(arrays, dict) else ():
        if isinstance(about, dict) and f"{name}.npy" in members:
            about["sha256"] = hashlib.sha256(members[f"{name}.npy"]).hexdigest()
    rest = {key: value for key, value in header.items() if key != "sha256"}
    header["sha256"] = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
    return _zipped({**members, HEADER: json.dumps(header).encode()})


def _resealed(rng: np.random.Generator, data: bytes) -> tuple[bytes, str]:
    members = _members(data)
    header = json.loads(members.pop(HEADER))
    change: Callable[..., str] = choose(rng, CHANGES)
    words = change(rng, header, members)
    return sealed(header, members), f"sealed: {words}"


def _nodes(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, Any, tuple[Any, ...]]]:
    """(container, key, path) of every node of a JSON tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield tree, key, (*path, key)
        yield from _nodes(value, (*path, key))


def _some_node(rng: np.random.Generator, header: dict[str, Any]) -> tuple[Any, Any, str]:
    part = choose(rng, ["params", "state", "state", "live", "live"])
    tree = header["params" if part == "params" else "state"]
    nodes = list(_nodes(tree))
    kept = [node for node in nodes if node[2][0] in LIVE] if part == "live" else []
    container, key, path = choose(rng, kept or nodes)
    return container, key, f"{part}.{'.'.join(map(str, path))}"


VALUES = [None, True, 0, -1, 1.5, 1e308, 10**30, "", "text", [], {}, [1, 2], {"$array": "none"}, {"$float": "nan"}]
VALUES += [
    {"$tuple": [1]},
    {"$scalar": ["<f8", 2.0]},
    {"$strings": ["a"]},
    {"$record": {"class": "Moments", "fields": {}}},
]
VALUES += [1, 2, 1_000_000, -1_000_000, 1e-300, "nan", False, {"$float": "inf"}, {"rule": {}}, [0.5, "x"]]
VALUES += [{"$kernel": {"name": "rbf", "params": {"gamma": 1.0}}}, {"$kernel": {"name": "linear", "params": {}}}, "rbf"]


def _replace_value(rng: np.random.Generator, header: dict[str, Any], members: dict[str, bytes]) -> str:
    container, key, where = _some_node(rng, header)
    container[key] = choose(rng, VALUES)
    return f"{where} = {container[key]}"


def _change_number(rng: np.random.Generator, header: dict[str, Any], members: dict[str, bytes]) -> str:
    numbers = [
        (container, key, path)
        for container, key, path in _nodes({"params": header["params"], "state": header["state"]})
        if isinstance(container[key], int | float) and not isinstance(container[key], bool)
    ]
    container, key, path = choose(rng, numbers)
    container[key] = choose(rng, [-container[key], container[key] + 1, container[key] * 10, 0, float(container[key])])
    return f"{'.'.join(map(str, path))} = {container[key]}"


def _drop(rng: np.random.Generator, header: dict[str, Any], members: dict[str, bytes]) -> str:
    container, key, where = _some_node(rng, header)
    del container[key]
    return f"without {where}"


def _swap_arrays(rng: np.random.Generator, header: dict[str, Any], members: dict[str, bytes]) -> str:
    nodes = [(c, k, p) for c, k, p in _nodes(header["state"]) if k == "$array"]
    if len(nodes) < 2:
        return _drop(rng, header, members)
    (a, i, p), (b, j, q) = choose(rng, nodes), choose(rng, nodes)
    a[i], b[j] = b[j], a[i]
    return f"{'.'.join(map(str, p))} and {'.'.join(map(str, q))} exchanged"


def _add_attribute(rng: np.random.Generator, header: dict[str, Any], members: dict[str, bytes]) -> str:
    names = ["transform", "fit", "save", "__class__", "_rows", "expansion_", "support_vectors_", "n_support_", "score"]
    names += ["coef_", "dual_coef_", "offset_", "_n_threads", "get_params", "extra_", "feature_names_in_", "_stream"]
    name = choose(rng, [*names, "inverse_transform", "set_output", "__dict__", "_sklearn_output_config", "_density"])
    header[choose(rng, ["state", "state", "params"])][name] = choose(rng, VALUES)
    return f"{name} added"


def _change_array(rng: np.random.Generator, header: dict[str, Any], members: dict[str, bytes]) -> str:
    name = choose(rng, sorted(header["arrays"]))
    array = np.load(io.BytesIO(members[f"{name}.npy"]))
    kind = choose(
        rng, ["nan", "inf", "longer", "shorter", "flat", "float32", "int", "negative", "huge", "empty", "other"]
    )
    with np.errstate(all="ignore"):
        match kind:
            case "nan" | "inf":
                array = np.array(array, dtype=float)
                array.reshape(-1)[: 1 + array.size // 3] = np.nan if kind == "nan" else np.inf
            case "longer":
                array = np.concatenate([array, array])
            case "shorter":
                array = array[:-1]
            case "flat":
                array = array.reshape(-1) if array.ndim > 1 else array[:, None]
            case "float32":
                array = array.astype(np.float32)
            case "int":
                array = np.nan_to_num(array).astype(np.int64)
            case "negative":
                array = -np.asarray(array, dtype=float) if array.dtype.kind == "f" else -array.astype(np.int64) - 1
            case "huge":
                array = array.astype(float) * 1e300 if array.dtype.kind == "f" else array.astype(np.int64) + 2**40
            case "empty":
                array = array[:0]
            case "other":
                array = rng.standard_normal(array.shape)
    _store(header, members, name, array)
    return f"array {name} {kind}"


def _store(header: dict[str, Any], members: dict[str, bytes], name: str, array: np.ndarray) -> None:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.ascontiguousarray(array), version=(1, 0))
    members[f"{name}.npy"] = file.getvalue()
    header["arrays"][name] = {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": ""}


class _Bomb:
    """Runs when unpickled."""

    def __reduce__(self) -> Any:
        return os.system, ("echo executed",)


def _pickle_inside(rng: np.random.Generator, header: dict[str, Any], members: dict[str, bytes]) -> str:
    name = choose(rng, sorted(header["arrays"]))
    file = io.BytesIO()
    objects = np.empty(2, dtype=object)
    objects[:] = [_Bomb(), _Bomb()]
    if rng.random() < 0.5:
        np.lib.format.write_array(file, objects, version=(1, 0), allow_pickle=True)
    else:
        file.write(pickle.dumps(_Bomb()))
    members[f"{name}.npy"] = file.getvalue()
    header["arrays"][name] = {"dtype": choose(rng, ["|O", "<f8"]), "shape": [2], "sha256": ""}
    return f"array {name} a pickle"


def _other_class(rng: np.random.Generator, header: dict[str, Any], members: dict[str, bytes]) -> str:
    names = ["KernelPCA", "SparseKernelPCA", "ElasticNetPCA", "LikelihoodKernelPCA", "CompressedKernelPCA", "Popen"]
    header["class"] = choose(rng, [*names, "KernelExpansion", "os.system", "", None, 3])
    return f"class {header['class']}"


def _other_header(rng: np.random.Generator, header: dict[str, Any], members: dict[str, bytes]) -> str:
    key = choose(rng, sorted(header))
    if rng.random() < 0.3:
        del header[key]
        return f"header without {key}"
    header[key] = choose(rng, VALUES)
    return f"header's {key} = {header[key]}"


CHANGES = [_replace_value, _replace_value, _change_number, _drop, _drop, _swap_arrays, _add_attribute]
CHANGES += [_change_array, _change_array, _pickle_inside, _other_class, _other_header]
