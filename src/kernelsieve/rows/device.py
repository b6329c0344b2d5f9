"""Passes over rows on an accelerator, through the array namespace.

An accelerator is fast with few, large operations and when the host does not wait for it.  So blocks are as large as
memory allows, sums stay on the device until the pass is over, and only then does the host check that all rows were
finite.  If memory runs out, the pass is repeated with smaller blocks.

Rows on the host (`device="cuda"`) are copied block by block on a separate CUDA stream, so that one block is copied
while the block before it is processed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, Self

import numpy as np
import scipy.sparse

from ..arrays import Array, is_foreign, is_torch, itemsize, take_rows, to_numpy
from ..errors import needed
from ..threads import row_ranges
from .checks import FiniteCheck
from .rows import ArrayRows, Rows, Summand, cut_for_device, rows_on_device, with_smaller_blocks
from .sampling import SampledRows
from .streams import StreamRows

PINNED_BYTES = 2**25  # size of each of two pinned buffers: small enough to pin quickly, large enough to fill the bus


def copied_blocks(
    blocks: Iterable[tuple[int, Array]], n_columns: int, halvings: int, device: Any, n_rows: int | None = None
) -> Iterator[tuple[int, Array]]:
    """Blocks on a torch device, cut or joined to a suitable size; one is copied while the one before is processed.

    `n_rows` is the total number of rows, if it is known; blocks then have nearly equal size.
    """
    copier = _Copier(device)
    first, target, filled = 0, None, 0
    for start, block in blocks:
        if is_foreign(block):
            yield from cut_for_device([(start, block.to(device))], n_columns, halvings)
            continue
        place = 0
        while place < len(block):
            if target is None:
                size = rows_on_device(n_columns, itemsize(block), halvings)
                if n_rows is not None:
                    size = -(-n_rows // -(-n_rows // size))
                first, target, filled = start + place, copier.room((size, block.shape[1]), block.dtype), 0
            n_copied = min(target.shape[0] - filled, len(block) - place)
            copier.copy(block[place : place + n_copied], target[filled : filled + n_copied])
            place, filled = place + n_copied, filled + n_copied
            if filled == target.shape[0]:
                yield first, copier.ready(target)
                target = None
    if target is not None:
        yield first, copier.ready(target)[:filled]


class _Copier:
    """Copies rows from the host to a device; for CUDA through pinned memory, on a separate stream."""

    def __init__(self, device: Any) -> None:
        import torch

        self.torch, self.device = torch, device
        self.asynchronous = device.type == "cuda"
        if self.asynchronous:
            self.copying, self.working = torch.cuda.Stream(device), torch.cuda.current_stream(device)
            self._pinned = deque(
                (torch.empty(PINNED_BYTES, dtype=torch.uint8, pin_memory=True), None) for _ in range(2)
            )

    def _on_own_stream(self) -> Any:
        return self.torch.cuda.stream(self.copying) if self.asynchronous else nullcontext()

    def room(self, shape: tuple[int, int], dtype: Any) -> Any:
        """Uninitialised memory on the device, to copy rows into."""
        dtype = self.torch.float32 if dtype == np.float32 else self.torch.float64
        with self._on_own_stream():
            return self.torch.empty(shape, dtype=dtype, device=self.device)

    def copy(self, rows: np.ndarray, target: Any) -> None:
        """Copy rows to memory on the device; the rows may be overwritten afterwards."""
        if not self.asynchronous:
            target.copy_(self._tensor(rows))
            return
        size = max(1, PINNED_BYTES // (rows.shape[1] * rows.itemsize))
        for part in row_ranges(len(rows), size):
            memory, copied = self._pinned.popleft()
            if copied is not None:
                copied.synchronize()
            piece = target[part]
            pinned = memory.view(target.dtype)[: piece.numel()].view(piece.shape)
            pinned.copy_(self._tensor(rows[part]))
            with self._on_own_stream():
                piece.copy_(pinned, non_blocking=True)
                copied = self.torch.cuda.Event()
                copied.record(self.copying)
            self._pinned.append((memory, copied))

    def _tensor(self, rows: np.ndarray) -> Any:
        """Rows as a host tensor, without a copy if torch can read their memory."""
        readable = rows.flags.writeable and rows.flags.c_contiguous
        return self.torch.from_numpy(rows if readable else np.array(rows))

    def ready(self, target: Any) -> Any:
        """This memory, which later work on the device uses only after the copies into it have finished."""
        if self.asynchronous:
            self.working.wait_stream(self.copying)
            target.record_stream(self.working)
        return target


def named_device(name: str) -> Any:
    """The torch device of that name; this machine need not have it, because it may be a worker's."""
    torch = needed("torch", f"device={name!r} needs torch")
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device={name!r} cannot be used here: {error}") from error


def checked_device(name: str) -> Any:
    """The torch device of that name; raise if this machine does not have it."""
    device = named_device(name)
    import torch

    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device={name!r} cannot be used here: {error}") from error
    return device


class DeviceRows(Rows):
    """Training rows that lie on the host; passes over them are computed on a device."""

    def __init__(self, rows: Rows, device: Any) -> None:
        self.rows = rows
        self.device = device
        self.weights = rows.weights

    # Of rows in blocks, these are known only after a pass.
    n_samples: Any = property(attrgetter("rows.n_samples"))
    n_features: Any = property(attrgetter("rows.n_features"))
    single_precision: Any = property(attrgetter("rows.single_precision"))
    names: Any = property(attrgetter("rows.names"))
    length_known: Any = property(attrgetter("rows.length_known"))
    in_memory: Any = property(attrgetter("rows.in_memory"))

    def sample(self, size: int, rng: np.random.Generator) -> SampledRows:
        rows = self.rows.sample(size, rng)
        order = np.argsort(rows.indices)
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        chosen = rows.indices[order]
        there = self._to_device(take_rows(rows.X, chosen))
        return replace(rows, X=there, indices=places, numbers=rows.numbers_of(chosen))

    def take(self, numbers: np.ndarray) -> Array:
        return self._to_device(self.rows.take(numbers))

    def _to_device(self, rows: Array) -> Array:
        import torch

        if scipy.sparse.issparse(rows):
            raise ValueError("sparse rows stay on the host: give device=None, or dense rows")
        return (
            rows.to(self.device) if is_torch(rows) else torch.as_tensor(np.ascontiguousarray(rows), device=self.device)
        )

    def each(self, function: Callable[[Array], Array], n_columns: int, n_threads: int) -> np.ndarray:
        return self.rows.each(lambda rows: to_numpy(function(self._to_device(rows))), n_columns, 1)

    def weighted(self, weights: np.ndarray) -> Self:
        return type(self)(self.rows.weighted(weights), self.device)

    def add_up(self, summand: Summand, n_threads: int) -> Any:
        through = partial(copied_blocks, device=self.device)
        if isinstance(self.rows, StreamRows):
            return self.rows.add_up(summand, n_threads, through)
        assert isinstance(self.rows, ArrayRows)
        X = [(0, self.rows.X)]

        def attempt(halvings: int) -> Any:
            check = FiniteCheck()
            blocks = through(X, summand.width, halvings, n_rows=self.n_samples)
            found = summand.over_blocks(blocks, self.weights, 1, check)
            check.finish()
            return found

        return with_smaller_blocks(attempt)


def on_device(function: Callable[[Array], Array], X: np.ndarray, width: int, device: Any) -> np.ndarray:
    """function(rows), `width` numbers for each row, for rows on the host, computed on a device."""

    def attempt(halvings: int) -> np.ndarray:
        out = np.empty((X.shape[0], width), dtype=X.dtype)

        def fill(start: int, values: Array) -> None:
            out[start : start + values.shape[0]] = to_numpy(values)

        last = None
        for start, block in copied_blocks([(0, X)], X.shape[1] + width, halvings, device, len(X)):
            values = function(block)
            if last is not None:  # the host waits for these values only now, while the device copies the next block
                fill(*last)
            last = start, values
        if last is not None:
            fill(*last)
        return out

    return with_smaller_blocks(attempt)
