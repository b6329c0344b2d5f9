"""Training rows, wherever they are: what a fit asks of them is a sample, some rows by number, and sums over all.

    sample(size, rng)        random rows, to choose points and settle the kernel by
    take(numbers)            these rows
    add_up(summand)          a sum over all rows, one pass (the moments over some points are one)
    each(function)           one number a row, one pass

and so the same fit runs on rows in memory and on rows that are not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np

from ..arrays import Array
from .sampled import SampledRows, chosen_rows, sample_rows, weighed


class Summand(Protocol):
    """What is added up over the rows; its results add with `+`."""

    @property
    def width(self) -> int:
        """Kernel values and features a row, which the size of blocks is measured by."""

    def over(self, X: Array, weights: np.ndarray | None, n_threads: int) -> Any:
        """The sum over the rows of an array, by threads on the host or on the device it is on."""

    def over_blocks(self, blocks: Iterable[tuple[int, Array]], weights: np.ndarray | None) -> Any:
        """The sum over blocks that are on a device, each with the number of its first row."""


class Rows(ABC):
    """All training rows."""

    n_samples: int
    n_features: int
    weights: np.ndarray | None  # (n_samples,)
    single_precision: bool  # float32 rows
    names: tuple[str, ...] | None = None  # of the columns, where the rows bring them
    merge_copies = True  # whether equal rows of a whole sample become one row of their summed weight

    @property
    def length_known(self) -> bool:
        """Whether `n_samples` is known without a pass over the rows."""
        return True

    def sample(self, size: int, rng: np.random.Generator) -> SampledRows:
        """`size` random rows; all of them, copies merged unless `merge_copies` is off, when there are no more.

        Rows of known number are chosen as rows in memory are, so that the sample is the same wherever they lie.
        """
        numbers = chosen_rows(self.n_samples, size, rng, self.weights)
        if numbers is None:
            everything = self.take(np.arange(self.n_samples))
            return sample_rows(everything, size, rng, self.weights, merge=self.merge_copies)
        weights = None if self.weights is None else self.weights[numbers]
        return weighed(self.take(numbers), np.arange(size), weights, whole=False, numbers=numbers)

    @abstractmethod
    def take(self, numbers: np.ndarray) -> Array:
        """The rows of these numbers; for a precomputed kernel, all their values."""

    @abstractmethod
    def add_up(self, summand: Summand, n_threads: int) -> Any:
        """The summand's sum over all rows: one pass."""

    @abstractmethod
    def each(self, function: Callable[[Array], Array], n_columns: int, n_threads: int) -> np.ndarray:
        """function(rows), one number a row, for all rows: one pass; blocks are sized for `n_columns` kernel values."""

    @abstractmethod
    def weighted(self, weights: np.ndarray) -> Rows:
        """The same rows with these weights."""
