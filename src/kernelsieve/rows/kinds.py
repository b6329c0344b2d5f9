"""The kind of a block of rows: library, device, dtype and columns, which must be the same for all blocks of a stream.

numpy, memmap, scipy.sparse       unchanged if float32 or float64, otherwise converted to float64
torch on the host                 read as a numpy array, without a copy
torch and cupy on a device        stay on the device
frames, record batches of arrow   converted to a numpy array, with the names of their columns
Python objects                    an array of shape (n, 1), which numerical code passes on without looking inside
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import array_api_compat
import numpy as np
import scipy.sparse
from scipy.sparse import issparse
from sklearn.utils.validation import _get_feature_names, check_array

from ..arrays import FLOATS, Array, is_foreign, is_torch, namespace, on_host
from ..kernels.objects import shown
from .frames import collected, is_frame


@dataclass(frozen=True)
class BlockKind:
    """The properties of a block of rows in which all blocks of a stream agree."""

    words: str  # library and device, for messages
    dtype: str  # float32 or float64
    n_features: int
    from_torch: bool = False  # whether the block was a tensor on the host, read as a numpy array
    names: tuple[str, ...] | None = None  # of the columns, if the block has any

    def check_like(self, first: BlockKind, start: int, last: int) -> None:
        """Raise unless this kind, of the block of rows `start` to `last`, agrees with that of the first block."""
        for ours, theirs, words in (
            (self.words, first.words, "are a {}, the first block is a {}: give blocks of one kind"),
            (self.n_features, first.n_features, "have {} columns, the first block has {}"),
            (self.dtype, first.dtype, "are {}, the first block is {}: give blocks of one dtype"),
        ):
            if ours != theirs:
                raise ValueError(f"rows {start} to {last} {words.format(ours, theirs)}")

    def given_back(self, values: Array) -> Array:
        """A result computed from a block, as an array of the block's library."""
        if not self.from_torch or not isinstance(values, np.ndarray):
            return values
        import torch

        return torch.from_numpy(values)


class Copies:
    """Copies of blocks on the host, for sources that overwrite a block while it is in use.

    When no array refers to a copy any more, its memory is used for another one: new memory, which the system has to
    clear first, would take longer than the copy itself.
    """

    def __init__(self) -> None:
        self._free: list[memoryview] = []

    def copy(self, block: np.ndarray) -> np.ndarray:
        if not block.flags.c_contiguous or block.size == 0:
            return np.array(block)
        memory = self._free.pop() if self._free else memoryview(b"")
        if memory.nbytes < block.nbytes:
            memory = np.empty(block.nbytes, dtype=np.uint8).data
        # All views of the copy refer to `whole`, because it is the array that the memory view was given to.
        whole = np.frombuffer(memory, dtype=block.dtype, count=block.size)
        weakref.finalize(whole, self._free.append, memory).atexit = False
        copied = whole.reshape(block.shape)
        copied[...] = block
        return copied


def host_block(block: Any, copies: Copies | None = None) -> tuple[BlockKind, Array]:
    """The kind of a block, and its rows as floats: a numpy or sparse array for data on the host, else on their device.

    With `copies`, a block on the host is copied, because its source will overwrite it while it is in use.  On a device
    this is unnecessary: operations there run in the order in which they were queued.
    """
    words, given = _words(block), block
    if from_torch := is_torch(block) and is_on_host(block):
        block = floats_there(block).numpy()
    if is_foreign(block):
        rows = floats_there(block)
        return BlockKind(words, str(rows.dtype).removeprefix("torch."), int(rows.shape[1])), rows
    usual = type(block) is np.ndarray and block.ndim == 2 and block.shape[1] > 0
    if usual and block.dtype in FLOATS and block.dtype.isnative:
        # scikit-learn's checks would change nothing, and on a small block would take longer than the work itself
        rows = block if copies is None else copies.copy(block)
        return BlockKind(words, rows.dtype.name, rows.shape[1], bool(from_torch)), rows
    names = None if from_torch else _get_feature_names(collected(given))
    rows = check_array(
        on_host(collected(block)),
        accept_sparse="csr",
        dtype=FLOATS,
        copy=copies is not None,
        ensure_all_finite=False,
        ensure_min_samples=0,
        input_name="X",
    )
    kind = BlockKind(
        words,
        str(rows.dtype),
        int(rows.shape[1]),
        bool(from_torch),
        None if names is None else tuple(str(name) for name in names),
    )
    return kind, rows


def _words(block: Any) -> str:
    """The library and device of a block in words, for messages."""
    if is_torch(block):
        usual = type(block).__name__ in ("Tensor", "Parameter")
        return f"torch {'tensor' if usual else type(block).__name__} on {block.device}"
    if array_api_compat.is_cupy_array(block):
        return f"cupy array on device {block.device.id}"
    if isinstance(block, np.ndarray):
        return "numpy array"
    if scipy.sparse.issparse(block):
        return "sparse matrix"
    if is_frame(block):
        return f"{type(block).__module__.partition('.')[0]} table"
    return type(block).__name__


def is_on_host(array: Any) -> bool:
    """Whether numpy can read an array in place; False for subclasses of Tensor, which may store anything."""
    if not is_torch(array):
        return not array_api_compat.is_cupy_array(array)
    import torch

    return type(array) in (torch.Tensor, torch.nn.Parameter) and array.device.type == "cpu"


def floats_there(block: Array) -> Array:
    """The rows of a block of another array library as floats, on the device where they are."""
    xp = namespace(block)
    if "complex" in str(block.dtype):
        raise ValueError(f"Complex data not supported: a block has dtype {block.dtype}")
    if block.ndim != 2:
        raise ValueError(f"Expected 2D array, got a block of shape {tuple(block.shape)}")
    block = block.detach() if is_torch(block) else block
    return block if block.dtype in (xp.float32, xp.float64) else xp.astype(block, xp.float64)


def object_rows(X: Any, least: int = 1) -> np.ndarray:
    """A list, tuple, array or column of objects of one kind as an array of rows, (n, 1)."""
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 2 and X.shape[1] == 1:
        objects = X[:, 0].tolist()
    else:
        objects = _listed(X)
    if len(objects) < least:
        raise ValueError(f"X has {len(objects)} objects, at least {least} are needed")
    _check_kind(objects)
    rows = np.empty((len(objects), 1), dtype=object)
    for number, one in enumerate(objects):  # one by one, since numpy would turn lists of equal length into a table
        rows[number, 0] = one
    return rows


def key_of(one: Any) -> Any:
    """A key that is equal for equal objects: texts and numbers compare by value, all else by identity."""
    return one if isinstance(one, str | bytes | Real) else id(one)


def check_like(rows: np.ndarray, known: np.ndarray) -> None:
    """Refuse rows of another type than the model's points: both must be text, bytes, numbers, or other objects."""
    expected = _kind(known[0, 0])
    for number, one in enumerate(rows[:, 0]):
        if _kind(one) is not expected:
            raise ValueError(f"row {number} is {shown(one)}, and the model was fitted to such as {shown(known[0, 0])}")


def _kind(one: Any) -> type:
    return next((kind for kind in (str, bytes, Real) if isinstance(one, kind)), object)


def _listed(X: Any) -> list[Any]:
    """The objects that X holds."""
    # A set is not accepted, because its order is arbitrary, nor a sparse matrix, whose __len__ raises.
    listed = all(hasattr(X, name) for name in ("__len__", "__iter__", "__getitem__")) and not issparse(X)
    if isinstance(X, str | bytes | dict) or not listed:
        raise TypeError(f"X is {shown(X)}: a kernel of objects needs them in a list, or another sequence")
    if hasattr(X, "columns"):  # of several columns, it would be a guess which one holds the objects
        if len(X.columns) != 1:
            raise ValueError(f"X is a frame of {len(X.columns)} columns: give the column that holds the objects")
        X = X[X.columns[0]]
    X = on_host(X) if is_foreign(X) else X
    if isinstance(X, np.ndarray) and X.ndim > 1:
        return list(X)  # the objects are slices along the first axis, such as series or tables
    if hasattr(X, "tolist"):
        return list(X.tolist())
    if hasattr(X, "to_list"):
        return list(X.to_list())
    return list(X) if isinstance(X, Sequence) else [X[i] for i in range(len(X))]


def _check_kind(objects: list[Any]) -> None:
    """Refuse objects of mixed types, such as None among strings, or numbers among lists."""
    kinds: dict[type, int] = {}
    for number, one in enumerate(objects):
        if type(one) not in kinds:
            kinds[type(one)] = number
            if one is None:
                raise ValueError(f"row {number} is None: leave out rows without an object")
    if len(kinds) < 2 or all(issubclass(kind, Real) for kind in kinds):
        return
    first, *others = kinds
    for other in others:
        if not (set(first.__mro__) & set(other.__mro__)) - {object}:
            i, j = kinds[first], kinds[other]
            raise ValueError(
                f"objects of different kinds: row {i} is {shown(objects[i])} ({first.__name__}), row {j} is "
                f"{shown(objects[j])} ({other.__name__})"
            )
