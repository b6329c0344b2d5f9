"""Passes over rows on an accelerator, through the array namespace.

What an accelerator wants is few, large operations and no waiting: blocks are as large as memory allows, sums stay
on the device until the pass is over, and only then is it asked whether all rows were finite.  Where memory runs out,
the pass is made again with smaller blocks.

Rows on the host are copied block by block on a stream of their own, each while the one before is worked on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import array_api_compat
import numpy as np

from ..arrays import Array, like, namespace, to_numpy
from ..kernels import Kernel
from .blocks import row_ranges

Result = TypeVar("Result")

# A block's kernel values: launches cost nothing against so many, and a small card still holds a few of them.
BLOCK_BYTES = 2**29
MIN_BLOCK_ROWS = 256
HALVINGS = 6  # of the blocks, where memory runs out


def device_blocks(n_rows: int, n_columns: int, itemsize: int, halvings: int = 0) -> list[slice]:
    """Ranges of rows whose kernel values, `n_columns` a row, fill a block."""
    rows = BLOCK_BYTES // max(1, n_columns * itemsize) >> halvings
    return row_ranges(n_rows, max(MIN_BLOCK_ROWS, rows))


def with_smaller_blocks(attempt: Callable[[int], Result]) -> Result:
    """attempt(halvings), with ever smaller blocks while the device is out of memory."""
    for halvings in range(HALVINGS + 1):
        try:
            return attempt(halvings)
        except Exception as error:
            if not _out_of_memory(error):
                raise
            _free_memory(error)
    raise MemoryError(
        "the device is out of memory even for small blocks of rows: free some, give fewer support points, or fit on "
        "the host (device=None)"
    )


def _out_of_memory(error: Exception) -> bool:
    return type(error).__name__ in ("OutOfMemoryError", "CUDARuntimeError") and "memory" in str(error).lower()


def _free_memory(error: Exception) -> None:
    error.__traceback__ = None  # it holds the arrays of the failed attempt
    if type(error).__module__.startswith("torch"):
        import torch

        torch.cuda.empty_cache()


class Sums:
    """What a pass adds up: weight, features, their products, k(x, x), all on the device.

    Products are taken about a shift: zero in float64, where the mean costs no digits that matter (whitened features
    are no longer than phi(x)), the first block's mean in float32.
    """

    def __init__(self, whitening: Array) -> None:
        xp = namespace(whitening)
        self.whitening = whitening
        self.weight = 0.0
        self.total = xp.zeros_like(whitening[0, :])
        self.products = xp.zeros_like(whitening.T @ whitening)
        self.trace = xp.sum(xp.zeros_like(whitening[0, :]))
        self.shift: Array | None = None
        self.checks: list[tuple[int, int, Array]] = []  # first and last row of each block, and the sum of its values

    def add(self, features: Array, diagonal: Array, weights: Array | None) -> None:
        """One block's whitened features."""
        xp = namespace(features)
        if features.dtype != self.whitening.dtype:
            if self.shift is None:
                self.shift = xp.mean(features, axis=0)
            features = features - self.shift
        if weights is None:
            self.weight += float(features.shape[0])
            self.trace = self.trace + xp.sum(diagonal, dtype=self.whitening.dtype)
            self.total = self.total + xp.sum(features, axis=0, dtype=self.whitening.dtype)
        else:
            weights = like(weights, features)
            self.weight += float(xp.sum(weights))
            self.trace = self.trace + xp.sum(weights * diagonal, dtype=self.whitening.dtype)
            self.total = self.total + like(weights @ features, self.whitening)
            features = features * xp.sqrt(weights)[:, None]
        self.products = self.products + like(features.T @ features, self.whitening)

    def check(self, start: int, block: Array) -> None:
        """Note a block's sum, to be looked at when the pass is over."""
        self.checks.append((start, start + int(block.shape[0]), namespace(block).sum(block)))

    def raise_if_not_finite(self) -> None:
        """Name the rows of the first block that holds NaN or infinity."""
        xp = namespace(self.whitening)
        sums = to_numpy(xp.stack([total for _, _, total in self.checks]))
        for (start, stop, _), total in zip(self.checks, sums, strict=True):
            if not np.isfinite(total):
                raise ValueError(f"rows {start} to {stop - 1}: Input X contains NaN, infinity or a value too large")

    def mean_and_scatter(self) -> tuple[Array, Array]:
        """The mean of all features, and their products about it."""
        mean = self.total / (self.weight or 1.0)
        scatter = self.products - self.weight * (mean[:, None] * mean)
        if self.shift is not None:
            mean = mean + like(self.shift, mean)
        return mean, scatter


def device_sums(
    kernel: Kernel,
    points: Array,
    whitening: Array,
    blocks: Iterable[tuple[int, Array]],
    sample_weight: Array | None,
    diagonal: Array | None,
) -> Sums:
    """The sums of one pass over blocks that are (or will shortly be) on the device."""
    cross_gram = kernel.bind(points)
    block_whitening = like(whitening, points)
    sums = Sums(whitening)
    for start, block in blocks:
        rows = slice(start, start + int(block.shape[0]))
        sums.check(start, block)
        weights = None if sample_weight is None else sample_weight[rows]
        lengths = kernel.diagonal(block) if diagonal is None else like(diagonal[rows], block)
        sums.add(cross_gram(block) @ block_whitening, lengths, weights)
    sums.raise_if_not_finite()
    return sums


def copied_blocks(X: np.ndarray, ranges: list[slice], example: Any) -> Iterator[tuple[int, Array]]:
    """Blocks of host rows on the device of `example` (a torch tensor), each copied while the last is worked on."""
    import torch

    device = array_api_compat.device(example)
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
