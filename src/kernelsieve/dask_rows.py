"""Rows in dask arrays and dataframes: sampled, summed up and transformed where they are.

One task a chunk gives its moments; a tree of tasks adds them up, `FAN_IN` at a time, so that what reaches the
client is one Moments of O(r^2) numbers however many chunks there are.  Points and whitening go to the workers once.
Whatever scheduler is active runs the tasks: threads by default, a cluster where there is a client, which also
repeats the tasks of a worker that is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ._array import Array, take_rows
from .blocks import finite
from .expansion import KernelExpansion
from .kernels import Kernel
from .moments import Moments, accumulate
from .reservoir import stacked
from .sample import Rows, chosen_rows, sample_rows
from .sources import Source
from .streams import same_rows

FAN_IN = 8  # moments added up in one task


class DaskSource(Source):
    """Training rows in a dask array or dataframe."""

    def __init__(self, X: Any, weights: np.ndarray | None) -> None:
        self.names, self.array = _as_array(X)
        self.weights = weights
        self.n_features = int(self.array.shape[1])
        self.single_precision = self.array.dtype == np.float32
        self._blocks = list(self.array.to_delayed().ravel())
        lengths = self.array.chunks[0]
        if any(np.isnan(length) for length in lengths):
            import dask

            lengths = dask.compute(*[dask.delayed(len)(block) for block in self._blocks])
        self._starts = np.concatenate([[0], np.cumsum(np.asarray(lengths, dtype=np.intp))])
        self.n_samples = int(self._starts[-1])
        self._sum: float | None = None
        if self.n_samples < 2:
            raise ValueError(f"the dask array has {self.n_samples} rows, at least 2 are needed")
        if weights is not None and len(weights) != self.n_samples:
            raise ValueError(f"sample_weight has {len(weights)} values, the dask array has {self.n_samples} rows")

    def sample(self, size: int, rng: np.random.Generator, *, merge: bool) -> Rows:
        numbers = chosen_rows(self.n_samples, size, rng, self.weights)
        if numbers is None:  # all rows: few enough to be held
            return sample_rows(self.take(np.arange(self.n_samples)), size, rng, self.weights, merge=merge)
        weights = None if self.weights is None else self.weights[numbers]
        weights = None if weights is None or np.ptp(weights) == 0 else weights
        return Rows(self.take(numbers), np.arange(len(numbers)), weights, False, numbers)

    def take(self, numbers: np.ndarray) -> Array:
        import dask

        order = np.argsort(numbers, kind="stable")
        ordered = np.asarray(numbers)[order]
        bounds = np.searchsorted(ordered, self._starts)
        parts = [
            dask.delayed(_checked_rows)(block, start, ordered[low:high] - start, self.n_features)
            for block, start, low, high in zip(self._blocks, self._starts, bounds[:-1], bounds[1:], strict=False)
            if high > low
        ]
        return take_rows(stacked(list(dask.compute(*parts))), np.argsort(order, kind="stable"))

    def each(self, function: Callable[[Array], Array], n_columns: int, n_threads: int) -> np.ndarray:
        import dask

        work = dask.delayed(function, pure=False)
        return np.concatenate(dask.compute(*[work(block) for block in self._blocks]))

    def weighted(self, weights: np.ndarray) -> Source:
        return DaskSource(self.array, weights)

    def moments(self, kernel: Kernel, points: Array, whitening: Array, n_threads: int) -> Moments:
        import dask

        shared = dask.delayed((kernel, points, whitening), pure=True, traverse=False)
        parts = []
        for number, block in enumerate(self._blocks):
            start, stop = int(self._starts[number]), int(self._starts[number + 1])
            weights = None if self.weights is None else self.weights[start:stop]
            parts.append(dask.delayed(_chunk_moments)(shared, block, start, stop, weights))
        moments, total = dask.compute(added_up(parts))[0]
        self._sum = total if self._sum is None else self._sum
        if not same_rows(total, self._sum, self.n_samples):
            raise ValueError("the rows changed between two passes: their values add up to another sum")
        return moments


def added_up(parts: list[Any]) -> Any:
    """The task that adds up the (moments, sum) of all tasks in `parts`, through a tree."""
    import dask

    while len(parts) > 1:
        groups = [parts[i : i + FAN_IN] for i in range(0, len(parts), FAN_IN)]
        parts = [dask.delayed(_added)(group) if len(group) > 1 else group[0] for group in groups]
    return parts[0]


def lazy_scores(expansion: KernelExpansion, X: Any, n_features: int) -> Any:
    """Scores as a lazy dask array, chunked as X is."""
    _, array = _as_array(X)
    if array.shape[1] != n_features:
        raise ValueError(f"X has {array.shape[1]} features, but the model is expecting {n_features} features as input")
    return array.map_blocks(
        _chunk_scores,
        expansion,
        dtype=array.dtype,
        chunks=(array.chunks[0], (expansion.n_components,)),
        meta=np.empty((0, 0), dtype=array.dtype),
    )


def _as_array(X: Any) -> tuple[tuple[str, ...] | None, Any]:
    """Column names where there are any, and a dask array of floats whose rows are whole."""
    names = None
    if hasattr(X, "to_dask_array"):
        names = tuple(str(name) for name in X.columns)
        X = X.to_dask_array()
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D dask array instead")
    if not np.issubdtype(X.dtype, np.number) and X.dtype != bool:
        raise ValueError(f"the dask array must hold numbers, it has dtype {X.dtype}")
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    return names, X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def _checked_rows(block: Array, start: int, chosen: np.ndarray, n_features: int) -> Array:
    if block.ndim != 2 or block.shape[1] != n_features:
        raise ValueError(f"the chunk from row {start} on has shape {block.shape}, {n_features} columns were expected")
    return _finite_rows(take_rows(np.asarray(block), chosen), start, start + len(block))


def _finite_rows(rows: Array, start: int, stop: int) -> Array:
    try:
        return finite(rows)
    except ValueError as error:
        raise ValueError(f"rows {start} to {stop - 1}: {error}") from error


def _chunk_moments(
    shared: tuple[Kernel, Array, Array], block: Array, start: int, stop: int, weights: np.ndarray | None
) -> tuple[Moments, float]:
    kernel, points, whitening = shared
    rows = _finite_rows(np.asarray(block), start, stop)
    if len(rows) != stop - start:
        raise ValueError(f"the chunk from row {start} on has {len(rows)} rows, it had {stop - start} before")
    part = accumulate(kernel, points.astype(rows.dtype, copy=False), whitening, rows, sample_weight=weights)
    return part, float(rows.sum(dtype=np.float64))


def _added(parts: list[tuple[Moments, float]]) -> tuple[Moments, float]:
    moments, total = parts[0]
    for other, other_total in parts[1:]:
        moments, total = moments + other, total + other_total
    return moments, total


def _chunk_scores(block: np.ndarray, expansion: KernelExpansion) -> np.ndarray:
    return expansion.transform(np.ascontiguousarray(block))
