"""Passes over rows on an accelerator, through the array namespace.

What an accelerator wants is few, large operations and no waiting: blocks are as large as memory allows, sums stay
on the device until the pass is over, and only then is it asked whether all rows were finite.  Where memory runs out,
the pass is made again with smaller blocks.

Rows on the host (`device="cuda"`) are copied block by block on a stream of their own, each while the one before is
worked on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.sparse

from ..arrays import Array, itemsize, take_rows, to_numpy
from .rows import ArrayRows, Rows, Summand, device_blocks, with_smaller_blocks
from .sampling import SampledRows
from .streams import StreamRows


def copied_blocks(X: np.ndarray, ranges: list[slice], device: Any) -> Iterator[tuple[int, Array]]:
    """Blocks of host rows on a torch device, each copied while the last is worked on."""
    import torch

    if device.type != "cuda":
        for rows in ranges:
            yield rows.start, torch.as_tensor(np.ascontiguousarray(X[rows])).to(device)
        return
    copying, working = torch.cuda.Stream(device), torch.cuda.current_stream(device)
    largest = max(rows.stop - rows.start for rows in ranges)
    dtype = torch.float32 if X.dtype == np.float32 else torch.float64
    staging = [torch.empty((largest, X.shape[1]), dtype=dtype, pin_memory=True) for _ in range(2)]
    free: list[Any] = [None, None]  # events after which a staging buffer may be filled again

    def copy(number: int) -> tuple[int, Any, Any]:
        rows, buffer = ranges[number], staging[number % 2]
        if free[number % 2] is not None:
            free[number % 2].synchronize()
        host = buffer[: rows.stop - rows.start]
        host.copy_(torch.from_numpy(np.asarray(X[rows])))
        with torch.cuda.stream(copying):
            block = host.to(device, non_blocking=True)
            done = torch.cuda.Event()
            done.record(copying)
        free[number % 2] = done
        return rows.start, block, done

    following = copy(0)
    for number in range(len(ranges)):
        start, block, done = following
        working.wait_event(done)
        block.record_stream(working)
        yield start, block
        if number + 1 < len(ranges):
            following = copy(number + 1)


def named_device(name: str) -> Any:
    """The torch device of that name, be it here or on other machines."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"device={name!r} needs torch: pip install torch") from error
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device={name!r} cannot be used here: {error}") from error


def checked_device(name: str) -> Any:
    """The torch device of that name, where it is there."""
    device = named_device(name)
    import torch

    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device={name!r} cannot be used here: {error}") from error
    return device


class DeviceRows(Rows):
    """Training rows on the host, summed up on a device."""

    def __init__(self, rows: Rows, device: Any) -> None:
        self.rows = rows
        self.device = device
        self.weights = rows.weights

    @property
    def n_samples(self) -> int:  # type: ignore[override]
        return self.rows.n_samples

    @property
    def n_features(self) -> int:  # type: ignore[override]
        return self.rows.n_features

    @property
    def single_precision(self) -> bool:  # type: ignore[override]
        return self.rows.single_precision

    @property
    def names(self) -> tuple[str, ...] | None:  # type: ignore[override]
        return self.rows.names

    @property
    def length_known(self) -> bool:
        return self.rows.length_known

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
        return torch.as_tensor(np.ascontiguousarray(rows), device=self.device)

    def each(self, function: Callable[[Array], Array], n_columns: int, n_threads: int) -> np.ndarray:
        return self.rows.each(lambda rows: to_numpy(function(self._to_device(rows))), n_columns, 1)

    def weighted(self, weights: np.ndarray) -> Self:
        return type(self)(self.rows.weighted(weights), self.device)

    def add_up(self, summand: Summand, n_threads: int) -> Any:
        return with_smaller_blocks(
            lambda halvings: summand.over_blocks(self._blocks(summand.width, halvings), self.weights)
        )

    def _blocks(self, width: int, halvings: int) -> Iterator[tuple[int, Array]]:
        if isinstance(self.rows, ArrayRows):
            yield from self._copied(self.rows.X, 0, width, halvings)
            return
        assert isinstance(self.rows, StreamRows)
        for start, block in self.rows.blocks():
            yield from self._copied(block, start, width, halvings)

    def _copied(self, X: np.ndarray, first: int, width: int, halvings: int) -> Iterator[tuple[int, Array]]:
        ranges = device_blocks(X.shape[0], width, itemsize(X), halvings)
        for start, block in copied_blocks(X, ranges, self.device):
            yield first + start, block


def on_device(function: Callable[[Array], Array], X: np.ndarray, width: int, device: Any) -> np.ndarray:
    """function(rows), `width` numbers a row, of host rows, computed on a device."""

    def attempt(halvings: int) -> np.ndarray:
        out = np.empty((X.shape[0], width), dtype=X.dtype)
        ranges = device_blocks(X.shape[0], X.shape[1] + width, itemsize(X), halvings)
        for start, block in copied_blocks(X, ranges, device):
            out[start : start + block.shape[0]] = to_numpy(function(block))
        return out

    return with_smaller_blocks(attempt)
