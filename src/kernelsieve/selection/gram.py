"""The gram of some rows, read by columns: rules never ask for more of it than they use.

`column(j)` and `columns(chosen)` are k(x, x_j) for all rows, `bind(chosen)` the same block of rows by block of rows,
`among(chosen)` the small gram of a few rows, and `diagonal` is k(x, x).  Kernel evaluations are what a rule costs: n
for a column, b^2 for the gram of b rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..arrays import Array, to_numpy
from ..fit.sample import Sample
from ..kernels import Kernel
from ..rows.blocks import map_row_blocks
from ..threads import cached_property

# Fewer columns than this cost less than handing them to threads.
COLUMNS_FOR_THREADS = 8


class Gram(Protocol):
    """What a rule may read."""

    @property
    def n_threads(self) -> int:
        """Threads that blocks of rows may be spread over."""

    @property
    def diagonal(self) -> np.ndarray:
        """k(x, x), (n,)."""

    def column(self, j: int) -> np.ndarray:
        """k(x, x_j), (n,)."""

    def columns(self, chosen: np.ndarray) -> np.ndarray:
        """k(x, x_j) for the chosen j, (n, b)."""

    def bind(self, chosen: np.ndarray) -> Callable[[slice], np.ndarray]:
        """The map from a block of rows to its part of `columns(chosen)`."""

    def among(self, chosen: np.ndarray) -> np.ndarray:
        """k(x_i, x_j) for the chosen i and j, (b, b)."""


@dataclass(frozen=True)
class StoredGram:
    """A gram that is there already."""

    matrix: np.ndarray  # (n, n)
    n_threads: int = 1

    @cached_property
    def diagonal(self) -> np.ndarray:
        return np.diagonal(self.matrix).astype(np.float64)

    def column(self, j: int) -> np.ndarray:
        return self.matrix[:, j]

    def columns(self, chosen: np.ndarray) -> np.ndarray:
        return self.matrix[:, chosen]

    def bind(self, chosen: np.ndarray) -> Callable[[slice], np.ndarray]:
        return lambda block: self.matrix[block, chosen]

    def among(self, chosen: np.ndarray) -> np.ndarray:
        return self.matrix[np.ix_(chosen, chosen)]


@dataclass(frozen=True)
class KernelGram:
    """A gram whose columns are computed when they are asked for; with a precomputed kernel, `rows` are all of it."""

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
    """The gram of the sampled rows: what the sample has of it, else its kernel's columns."""
    if sample.n_reference == sample.size:
        return StoredGram(sample.gram_on_host)
    if sample.kernel.precomputed:
        return StoredGram(to_numpy(sample.kernel.at(sample.rows.X, sample.rows.indices)[1]))
    return KernelGram(sample.kernel, sample.light.all, sample.n_threads)
