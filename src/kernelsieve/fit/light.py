"""Sampled rows about their origin, in float32 where the kernel is bounded.

What is computed from them steers the fit or measures it to five digits; the fit itself is done on the rows as given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse

from ..arrays import Array, as_float64, is_numpy, origin_of, take_rows
from ..kernels import Kernel
from ..rows.sampled import SampledRows
from ..rows.scale import LARGEST, SMALLEST, finite
from ..threads import cached_property, row_ranges

EXACT_ROWS = 500  # samples no larger than this are kept in their own precision
POOL_PER_REFERENCE = 2  # rows that a reference row is drawn from, where the sample is not all there is
ROWS_AT_ONCE = 250  # fresh memory costs more than arithmetic


@dataclass(frozen=True)
class LightRows:
    """The rows of a sample: `all`, those that the reference is taken from (`pool`), or `some`."""

    sampled: SampledRows
    kernel: Kernel
    n_reference: int
    in_float64: bool  # no shortcut in precision

    def with_reference(self, sampled: SampledRows, n_reference: int) -> LightRows:
        """The rows (perhaps in another order) with others as the reference, seen from the same origin."""
        again = replace(self, sampled=sampled, n_reference=n_reference)
        vars(again)["origin"] = self.origin
        if sampled is self.sampled:
            vars(again)["pool"] = self.pool
        return again

    @property
    def n_pool(self) -> int:
        """Rows that the reference is taken from: the first so many."""
        size = len(self.sampled.indices)
        return size if self.sampled.whole else min(POOL_PER_REFERENCE * self.n_reference, size // 2)

    @cached_property
    def reference(self) -> Array:
        """The reference rows as given."""
        return self.sampled.first(self.n_reference)

    @cached_property
    def origin(self) -> Array | None:
        """Where the rows are seen from, when only their differences count."""
        if not self.kernel.stationary or scipy.sparse.issparse(self.sampled.X):
            return None
        return origin_of(as_float64(self.reference))

    @cached_property
    def pool(self) -> Array:
        """The rows that the reference is taken from."""
        return self.some(slice(0, self.n_pool))

    @cached_property
    def all(self) -> Array:
        """All rows."""
        size = len(self.sampled.indices)
        return self.pool if self.n_pool == size else self.some(slice(0, size))

    def some(self, rows: slice) -> Array:
        """Some rows: who can do with a few at a time asks for them."""
        if "pool" in vars(self) and rows.stop <= self.n_pool:
            return self.pool[rows, :]
        X, origin, indices = self.sampled.X, self.origin, self.sampled.indices[rows]
        if not self._in_float32:
            values = self.sampled.values if len(indices) == len(self.sampled.indices) else take_rows(X, indices)
            values = as_float64(values) if self.in_float64 or origin is not None else values
            return finite(values if origin is None else values - origin)
        light = np.empty((len(indices), X.shape[1]), dtype=np.float32)
        for part in row_ranges(len(indices), ROWS_AT_ONCE):
            # subtracted in float64, rounded once
            np.subtract(X[indices[part]], 0.0 if origin is None else origin, out=light[part], casting="same_kind")
            finite(light[part])
        return light

    @cached_property
    def _in_float32(self) -> bool:
        """Whether float32 will do, in which the reference rows, about their origin, can be squared."""
        X, size = self.sampled.X, len(self.sampled.indices)
        if self.in_float64 or not is_numpy(X) or not self.kernel.bounded or size <= EXACT_ROWS:
            return False
        origin = 0.0 if self.origin is None else self.origin
        away = np.maximum(self.reference.max(axis=0) - origin, origin - self.reference.min(axis=0))
        return bool(SMALLEST[4] < away.max(initial=0.0) < LARGEST[4])
