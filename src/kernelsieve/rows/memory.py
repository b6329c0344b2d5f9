"""Training rows, wherever they are: what a fit asks of them is a sample, some rows by number, and moments.

A source answers

    sample(size, rng)                   random rows, to choose points and settle the kernel by
    take(numbers)                       these rows
    moments(kernel, points, whitening)  what one pass over all rows leaves behind

and so the same fit runs on rows in memory and on rows that are not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from ..arrays import Array, take_rows, to_numpy
from ..fit.moments import RANK_TOLERANCE, RANK_TOLERANCE_FLOAT32, Moments, accumulate
from ..fit.sample import Rows, chosen_rows, sample_rows, weighed
from ..kernels import Kernel, Precomputed
from .blocks import finite, map_row_blocks


class Source(ABC):
    """All training rows."""

    n_samples: int
    n_features: int
    weights: np.ndarray | None  # (n_samples,)
    single_precision: bool  # float32 rows
    names: tuple[str, ...] | None = None  # of the columns, where the rows bring them

    @property
    def length_known(self) -> bool:
        """Whether `n_samples` is known without a pass over the rows."""
        return True

    def sample(self, size: int, rng: np.random.Generator, *, merge: bool) -> Rows:
        """`size` random rows; all of them, copies merged where asked, when there are no more.

        Rows of known number are chosen as rows in memory are, so that the sample is the same wherever they lie.
        """
        numbers = chosen_rows(self.n_samples, size, rng, self.weights)
        if numbers is None:
            return sample_rows(self.take(np.arange(self.n_samples)), size, rng, self.weights, merge=merge)
        weights = None if self.weights is None else self.weights[numbers]
        return weighed(self.take(numbers), np.arange(size), weights, whole=False, numbers=numbers)

    @abstractmethod
    def take(self, numbers: np.ndarray) -> Array:
        """The rows of these numbers; for a precomputed kernel, all their values."""

    @abstractmethod
    def moments(self, kernel: Kernel, points: Array, whitening: Array, n_threads: int) -> Moments:
        """Moments of all rows over `points`: one pass."""

    @abstractmethod
    def each(self, function: Callable[[Array], Array], n_columns: int, n_threads: int) -> np.ndarray:
        """function(rows), one number a row, for all rows: one pass; blocks are sized for `n_columns` kernel values."""

    @abstractmethod
    def weighted(self, weights: np.ndarray) -> Source:
        """The same rows with these weights."""

    @property
    def rank_tolerance(self) -> float:
        """Share of the largest eigenvalue of K_SS below which others are rounding."""
        return RANK_TOLERANCE_FLOAT32 if self.single_precision else RANK_TOLERANCE


class ArraySource(Source):
    """Rows in one array: numpy's, a memmap, scipy.sparse rows, or any namespace's."""

    def __init__(self, X: Array, weights: np.ndarray | None) -> None:
        self.X = X
        self.n_samples, self.n_features = X.shape
        self.weights = weights
        self.single_precision = "32" in str(X.dtype)

    def sample(self, size: int, rng: np.random.Generator, *, merge: bool) -> Rows:
        return sample_rows(self.X, size, rng, self.weights, merge=merge)

    def take(self, numbers: np.ndarray) -> Array:
        return take_rows(self.X, numbers)

    def each(self, function: Callable[[Array], Array], n_columns: int, n_threads: int) -> np.ndarray:
        blocks = map_row_blocks(lambda rows: to_numpy(function(finite(self.X[rows, :]))), self.X, n_columns, n_threads)
        return np.concatenate(list(blocks))

    def weighted(self, weights: np.ndarray) -> Source:
        return ArraySource(self.X, weights)

    def moments(self, kernel: Kernel, points: Array, whitening: Array, n_threads: int) -> Moments:
        return accumulate(
            kernel,
            points,
            whitening,
            self.X,
            sample_weight=self.weights,
            diagonal=self.X.diagonal() if isinstance(kernel, Precomputed) else None,
            n_threads=n_threads,
        )
