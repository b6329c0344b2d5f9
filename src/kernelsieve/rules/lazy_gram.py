"""A lazy gram: columns are computed on demand, because rules use only a few of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..arrays import Array, to_numpy
from ..fit.sample import Sample
from ..kernels import Kernel
from ..rows.rows import map_row_blocks
from ..solvers.greedy import Gram, StoredGram
from ..threads import cached_property

# Fewer columns than this cost less than handing them to threads.
COLUMNS_FOR_THREADS = 8


@dataclass(frozen=True)
class KernelGram:
    """A gram whose columns are computed on demand; for a precomputed kernel, `rows` is the whole gram."""

    kernel: Kernel
    rows: Array  # (n, d)
    n_threads: int = 1

    @cached_property
    def diagonal(self) -> np.ndarray:
        return to_numpy(self.kernel.diagonal_of(self.rows)).astype(np.float64)

    def column(self, j: int) -> np.ndarray:
        return self.columns(np.array([j]))[:, 0]

    def columns(self, chosen: np.ndarray) -> np.ndarray:
        return self._whole(self.bind(chosen), len(chosen))

    def bind(self, chosen: np.ndarray) -> Callable[[slice], np.ndarray]:
        return self._bind(*self.kernel.at(self.rows, chosen))

    def among(self, chosen: np.ndarray) -> np.ndarray:
        kernel, points = self.kernel.at(self.rows, chosen)
        return to_numpy(points if kernel.precomputed else kernel(points, points))

    def at_point(self, point: Array) -> np.ndarray:
        """k(x, point) for a point (1, d) that need not be a row, (n,)."""
        return self._whole(self._bind(self.kernel, point), 1)[:, 0]

    def _bind(self, kernel: Kernel, points: Array) -> Callable[[slice], np.ndarray]:
        cross_gram = kernel.bind(points)
        return lambda block: to_numpy(cross_gram(self.rows[block, :]))

    def _whole(self, part: Callable[[slice], np.ndarray], n_columns: int) -> np.ndarray:
        out = np.empty((self.rows.shape[0], n_columns))

        def fill(block: slice) -> None:
            out[block] = part(block)

        n_threads = self.n_threads if n_columns >= COLUMNS_FOR_THREADS else 1
        for _ in map_row_blocks(fill, self.rows, n_columns, n_threads):
            pass
        return out


def gram_of_sample(sample: Sample) -> Gram:
    """The gram of the sampled rows: the one that the sample holds, or else columns on demand."""
    if sample.n_evaluation == sample.size:
        return StoredGram(sample.evaluation.gram_on_host)
    if sample.kernel.precomputed:
        return StoredGram(to_numpy(sample.kernel.at(sample.rows.X, sample.rows.indices)[1]))
    return KernelGram(sample.kernel, sample.all_values, sample.n_threads)
