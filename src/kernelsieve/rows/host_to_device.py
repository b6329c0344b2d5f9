"""Rows on the host, worked on by an accelerator: `device="cuda"` for rows in memory or in a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse

from ..arrays import Array, itemsize, take_rows, to_numpy
from ..fit.expansion import KernelExpansion
from ..fit.moments import Moments, moments_of
from ..fit.sample import Rows
from ..kernels import Kernel
from .device import copied_blocks, device_blocks, device_sums, with_smaller_blocks
from .memory import ArraySource, Source
from .streams import StreamSource


def checked_device(name: str) -> Any:
    """The torch device of that name, where it is there."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"device={name!r} needs torch: pip install 'kernelsieve[torch]'") from error
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device={name!r} cannot be used here: {error}") from error
    return device


class DeviceSource(Source):
    """Training rows on the host, summed up on a device."""

    def __init__(self, rows: Source, device: Any) -> None:
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

    def sample(self, size: int, rng: np.random.Generator, *, merge: bool) -> Rows:
        rows = self.rows.sample(size, rng, merge=merge)
        order = np.argsort(rows.indices)
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        chosen = rows.indices[order]
        there = self._there(take_rows(rows.X, chosen))
        return replace(rows, X=there, indices=places, numbers=rows.numbers_of(chosen))

    def take(self, numbers: np.ndarray) -> Array:
        return self._there(self.rows.take(numbers))

    def _there(self, rows: Array) -> Array:
        import torch

        if scipy.sparse.issparse(rows):
            raise ValueError("sparse rows stay on the host: give device=None, or dense rows")
        return torch.as_tensor(np.ascontiguousarray(rows), device=self.device)

    def each(self, function: Callable[[Array], Array], n_columns: int, n_threads: int) -> np.ndarray:
        return self.rows.each(lambda rows: to_numpy(function(self._there(rows))), n_columns, 1)

    def weighted(self, weights: np.ndarray) -> Source:
        return DeviceSource(self.rows.weighted(weights), self.device)

    def moments(self, kernel: Kernel, points: Array, whitening: Array, n_threads: int) -> Moments:
        width = whitening.shape[0] + whitening.shape[1]

        def attempt(halvings: int) -> Moments:
            blocks = self._blocks(width, points, halvings)
            return moments_of(device_sums(kernel, points, whitening, blocks, self.weights, None))

        return with_smaller_blocks(attempt)

    def _blocks(self, width: int, points: Array, halvings: int) -> Iterator[tuple[int, Array]]:
        if isinstance(self.rows, ArraySource):
            yield from _copied(self.rows.X, 0, width, points, halvings)
            return
        assert isinstance(self.rows, StreamSource)
        for start, block in self.rows.blocks():
            yield from _copied(block, start, width, points, halvings)


def _copied(X: np.ndarray, first: int, width: int, points: Array, halvings: int) -> Iterator[tuple[int, Array]]:
    ranges = device_blocks(X.shape[0], width, itemsize(X), halvings)
    for start, block in copied_blocks(X, ranges, points):
        yield first + start, block


def to_host(expansion: KernelExpansion) -> KernelExpansion:
    """The same expansion in numpy arrays."""
    return KernelExpansion(
        expansion.kernel,
        to_numpy(expansion.points),
        to_numpy(expansion.coef),
        to_numpy(expansion.offset),
        None if expansion.mean_coef is None else to_numpy(expansion.mean_coef),
        expansion.orthogonal,
    )


def scores_by_device(expansion: KernelExpansion, X: np.ndarray, device: Any) -> np.ndarray:
    """`expansion.transform` of host rows, computed on a device."""
    import torch

    def attempt(halvings: int) -> np.ndarray:
        out = np.empty((X.shape[0], expansion.n_components), dtype=X.dtype)
        example = torch.empty((0, X.shape[1]), dtype=torch.float32 if X.dtype == np.float32 else torch.float64)
        ranges = device_blocks(X.shape[0], expansion.n_support, itemsize(X), halvings)
        for start, block in copied_blocks(X, ranges, example.to(device)):
            out[start : start + block.shape[0]] = to_numpy(expansion.transform(block))
        return out

    return with_smaller_blocks(attempt)
