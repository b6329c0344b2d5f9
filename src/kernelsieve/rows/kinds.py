"""The kind of a block of rows: library, device, dtype and columns, which are the same for all blocks of a stream.

numpy, memmap, scipy.sparse       as they are, integers and the like as float64
torch on the host                 read as numpy's, where they lie
torch and cupy on a device        where they are
frames, record batches of arrow   as numpy's, with the names of their columns
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import array_api_compat
import numpy as np
import scipy.sparse
from sklearn.utils.validation import _get_feature_names, check_array

from ..arrays import FLOATS, Array, is_foreign, is_torch, namespace, on_host
from .frames import collected, is_frame


@dataclass(frozen=True)
class BlockKind:
    """What a block of rows is."""

    words: str  # library and device, for messages
    dtype: str  # float32 or float64
    n_features: int
    from_torch: bool = False  # a tensor on the host, whose memory is read as numpy's
    names: tuple[str, ...] | None = None  # of the columns, if the block has them

    def check_like(self, first: BlockKind, start: int, last: int) -> None:
        """Refuse a block of the rows from `start` to `last` that is not what the first block is."""
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


def host_block(block: Any, *, copy: bool = False) -> tuple[BlockKind, Array]:
    """The kind of a block, and its rows as floats: a numpy array for data on the host, otherwise where they are.

    `copy`: the block will be overwritten while it is used, so it is copied.  On a device this is unnecessary, because
    later operations there wait.
    """
    words, given = _words(block), block
    if from_torch := is_torch(block) and is_on_host(block):
        block = floats_there(block).numpy()
    if is_foreign(block):
        rows = floats_there(block)
        return BlockKind(words, str(rows.dtype).removeprefix("torch."), int(rows.shape[1])), rows
    names = None if from_torch else _get_feature_names(collected(given))
    rows = check_array(
        on_host(collected(block)),
        accept_sparse="csr",
        dtype=FLOATS,
        copy=copy,
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
    """Library and device of a block."""
    if is_torch(block):
        return f"torch tensor on {block.device}"
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
    """Whether numpy can read an array in place; not asked of subclasses of tensors, which may be anything."""
    if not is_torch(array):
        return not array_api_compat.is_cupy_array(array)
    import torch

    return type(array) in (torch.Tensor, torch.nn.Parameter) and array.device.type == "cpu"


def floats_there(block: Array) -> Array:
    """The rows of a block of another library, as floats, where they are."""
    xp = namespace(block)
    if "complex" in str(block.dtype):
        raise ValueError(f"Complex data not supported: a block has dtype {block.dtype}")
    if block.ndim != 2:
        raise ValueError(f"Expected 2D array, got a block of shape {tuple(block.shape)}")
    block = block.detach() if is_torch(block) else block
    return block if block.dtype in (xp.float32, xp.float64) else xp.astype(block, xp.float64)
