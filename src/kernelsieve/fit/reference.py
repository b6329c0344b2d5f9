"""The rows that stand for a sample: light ones, and samples that miss no heavy ones.

Light: about their origin, and in float32 where the kernel is bounded.  What is computed from them steers the fit or
measures it to five digits; the fit itself is done on the rows as given.

Heavy tails are rows that carry far more of the variance than others.  What a row brings to the variance is its squared
distance from the mean in feature space, for which that from the feature of the mean row c stands here,

    b_n = k(x_n, x_n) - 2 k(x_n, c) + k(c, c)

exact for a linear kernel and a good guide for others, at one kernel column.  A sample drawn evenly misses rows that are
few and carry much.  Rows drawn with chances

    p_n = min(1, size (1/2 omega_n / sum omega + 1/2 omega_n b_n / sum omega b))        and counted omega_n / p_n times

take the heaviest for certain and the others in proportion; sums over them are right on average, whatever the tails.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse

from ..arrays import Array, as_float64, is_numpy, like, namespace, origin_of, take_rows, to_numpy
from ..kernels import Kernel
from ..rows.memory import LARGEST, SMALLEST, SampledRows, finite, shares_of
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
        origin = origin_of(as_float64(self.reference))
        # a number that float32 rows could have: subtracted from them in float32 it leaves nothing to round twice
        return as_float64(origin.astype(np.float32)) if self.sampled.X.dtype == np.float32 else origin

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
        away = X.dtype.type(0) if origin is None else origin.astype(X.dtype, copy=False)
        for part in row_ranges(len(indices), ROWS_AT_ONCE):
            # subtracted in the rows' own precision, rounded once
            np.subtract(X[indices[part]], away, out=light[part], casting="same_kind")
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


# n sum b^2 / (sum b)^2 from which on tails are heavy: 1 for rows alike, 2 for an exponential distribution of b.
HEAVY = 3.0


@dataclass(frozen=True)
class Half:
    """Half of some rows, by their places, and how much each counts."""

    places: np.ndarray
    weights: np.ndarray | None


@dataclass(frozen=True)
class Drawn:
    """Rows drawn by what they carry."""

    places: np.ndarray  # (size,), ascending
    weights: np.ndarray  # (size,) how much each counts
    chances: np.ndarray  # (size,) of being drawn; 1 for rows so heavy that every draw takes them

    @property
    def halves(self) -> list[Half]:
        """Two halves; rows that no draw could have missed are in both, and the others count twice."""
        certain, others = np.flatnonzero(self.chances >= 1.0), np.flatnonzero(self.chances < 1.0)
        return [
            Half(np.concatenate([certain, part]), np.concatenate([self.weights[certain], 2 * self.weights[part]]))
            for part in (others[::2], others[1::2])
        ]


def carried_variance(
    kernel: Kernel, rows: Array, weights: np.ndarray | None, row_scale: Array | None = None
) -> np.ndarray:
    """b, what each row carries; `row_scale` multiplies the kernel values of a row with others."""
    xp = namespace(rows)
    if weights is None:
        center = xp.mean(rows, axis=0)
    else:
        center = like(weights / weights.sum(), rows) @ rows
    center = center[None, :]
    cross = kernel(rows, center)[:, 0]
    if row_scale is not None:
        cross = cross * row_scale
    return np.maximum(to_numpy(kernel.diagonal(rows) - 2 * cross + kernel.diagonal(center)[0]), 0.0).astype(np.float64)


def heavy_tailed(carried: np.ndarray, weights: np.ndarray | None, level: float = HEAVY) -> bool:
    """Whether few rows carry much of the variance."""
    omega = shares_of(weights, len(carried))
    mean = float(omega @ carried)
    return mean > 0 and float(omega @ (carried / mean) ** 2) > level


def draw(carried: np.ndarray, weights: np.ndarray | None, size: int) -> Drawn:
    """About `size` rows by systematic sampling in the order they are in, which is taken to be random."""
    omega = np.ones(len(carried)) if weights is None else np.asarray(weights, dtype=np.float64)
    mass = omega / omega.sum() / 2 + omega * carried / (2 * float(omega @ carried))
    chance = _chances(mass, size)
    ends = np.floor(np.cumsum(chance) + 0.5 + 1e-9)
    places = np.flatnonzero(np.diff(ends, prepend=0.0) > 0)
    return Drawn(places, omega[places] / chance[places], chance[places])


def _chances(mass: np.ndarray, size: int) -> np.ndarray:
    """min(1, c mass) with sum `size`."""
    size = min(size, len(mass))
    certain = np.zeros(len(mass), dtype=bool)
    while True:
        left = size - int(certain.sum())
        rest = float(mass[~certain].sum())
        chance = np.where(certain, 1.0, mass * (left / rest if rest > 0 else 0.0))
        more = ~certain & (chance >= 1.0)
        if not more.any():
            return chance
        certain |= more
