"""Rows in one array: numpy's, a memmap, scipy.sparse rows, or any namespace's on its device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays import Array, take_rows, to_numpy
from .base import Rows, Summand
from .blocks import map_row_blocks
from .sampled import SampledRows, sample_rows
from .scale import finite


class ArrayRows(Rows):
    """Training rows in one array."""

    def __init__(self, X: Array, weights: np.ndarray | None = None, *, merge_copies: bool = True) -> None:
        self.X = X
        self.n_samples, self.n_features = X.shape
        self.weights = weights
        self.single_precision = "32" in str(X.dtype)
        self.merge_copies = merge_copies

    def sample(self, size: int, rng: np.random.Generator) -> SampledRows:
        return sample_rows(self.X, size, rng, self.weights, merge=self.merge_copies)

    def take(self, numbers: np.ndarray) -> Array:
        return take_rows(self.X, numbers)

    def add_up(self, summand: Summand, n_threads: int) -> Any:
        return summand.over(self.X, self.weights, n_threads)

    def each(self, function: Callable[[Array], Array], n_columns: int, n_threads: int) -> np.ndarray:
        blocks = map_row_blocks(lambda rows: to_numpy(function(finite(self.X[rows, :]))), self.X, n_columns, n_threads)
        return np.concatenate(list(blocks))

    def weighted(self, weights: np.ndarray) -> Rows:
        return ArrayRows(self.X, weights, merge_copies=self.merge_copies)
