"""The random rows that a fit looks at: drawn from an array or a stream, copies merged, and reduced to few columns.

A sampled row has three numbers, which must not be confused: its *place* in the sample (0 .. n-1), its *index* in the
array X that the sample was drawn from, and its *number* among all training rows.  Index and number are the same if X
holds all training rows.

Few rows of very many columns are cheaper to process in the space that they span.  Many kernels depend on rows only
through distances and inner products, which N coordinates are enough to represent for N rows.  Let c be an origin (zero
for kernels that depend on the lengths of rows).  With the N x N gram of X - c,

    (X - c)(X - c)' = U L U',      Z = U L^1/2,      |z_i - z_j| = |x_i - x_j|

so a fit on Z gives the same result as a fit on X, and its points are mapped back by  p = c + z L^-1/2 U' (X - c).
That reads the rows twice; the fit on X would read them about twenty times.

If the number of rows is not known, `SkipSample` draws the lengths of skips instead of a random number for each row
(Li 1994, algorithm L).  The first k rows fill k places.  Imagine that every row drew a uniform number, and that the k
rows with the smallest numbers were kept.  With w the largest number of a kept row, and u and u' uniform on (0, 1),

    rows skipped before the next one that is kept    floor(ln u / ln(1 - w))
    w after that row                                 w u'^(1/k)

and the kept row replaces the row in a random place.  n rows cost k ln(n / k) draws.  Which rows are kept depends only
on the seed and on the row numbers, not on how the rows are divided into blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise

import numpy as np
import scipy.sparse

from ..arrays import Array, is_numpy, itemsize, origin_of, take_rows, to_numpy, top_eigh
from ..threads import block_rows, cached_property, row_ranges
from .checks import finite
from .kinds import key_of
from .reservoir import stacked

# For at most FEW_WIDE_ROWS rows of at least WIDE_ROW columns, computing the gram costs less than reading the rows again
# and again.  The gram is summed over blocks of WIDE_ROW columns.
FEW_WIDE_ROWS, WIDE_ROW = 1000, 4096
# The rounding error of distances in the span is relative to the largest eigenvalue of the gram.  If that eigenvalue is
# at most this many squared kernel widths, distances are exact to 1e-10 of a width.
MOST_WIDTHS = 1e4
# The projections of equal rows differ by less than this share of the largest projection that is possible.
ROUNDING_OF_PROJECTIONS = 1e-13


@dataclass(frozen=True)
class SampledRows:
    """Rows of X, in random order, and their weights, before a kernel is known."""

    X: Array
    indices: np.ndarray  # (n,)
    weights: np.ndarray | None  # (n,), None if all rows weigh the same
    whole: bool  # whether the sample has all training rows
    numbers: np.ndarray | None = None  # (len(X),) numbers of X's rows among all training rows, None if X is whole
    same_weight: float = 1.0  # the weight of each row, if all have the same
    turned: np.ndarray | None = None  # the rows of X as coordinates in the space that they span
    fresh: SampledRows | None = None  # further rows, on which points chosen from this sample are evaluated

    def at(self, places: np.ndarray) -> SampledRows:
        """The rows at these places of the sample."""
        weights = None if self.weights is None else self.weights[places]
        return replace(self, indices=self.indices[places], weights=weights)

    def split(self, size: int, all_up_to: int) -> SampledRows:
        """The first `size` rows, and as `fresh` the others, or all rows if they are at most `all_up_to`."""
        places = np.arange(len(self.indices))
        if size >= len(places):
            return self
        few = self.whole and len(places) <= all_up_to
        fresh = self if few else replace(self.at(places[size:]), whole=False)
        return replace(self.at(places[:size]), whole=False, fresh=fresh)

    def numbers_of(self, indices: np.ndarray) -> np.ndarray:
        """The numbers, among all training rows, of the rows at these indices of X."""
        return indices if self.numbers is None else self.numbers[indices]

    @property
    def counts(self) -> np.ndarray | None:
        """The weight with which each row counts; None if each counts once."""
        if self.weights is None and self.same_weight != 1:
            return np.full(len(self.indices), self.same_weight)
        return self.weights

    def first(self, n_rows: int) -> Array:
        """The first `n_rows` rows, or all of them."""
        return self.values if n_rows >= len(self.indices) else take_rows(self.X, self.indices[:n_rows])

    @cached_property
    def values(self) -> Array:
        """All rows, (n, d)."""
        return take_rows(self.X, self.indices)


def sample_rows(
    X: Array, size: int, rng: np.random.Generator, weights: np.ndarray | None, *, merge: bool
) -> SampledRows:
    """`size` random rows of X, in random order; if X has no more, all of them, with copies merged if `merge` is set.

    Merging adds the weights of equal rows and sorts the rows by their values.  So the sample is the same whether a row
    is repeated or has a larger weight, and for any order of the rows of X.
    """
    chosen = chosen_rows(X.shape[0], size, rng, weights)
    if chosen is not None:
        return weighed(X, chosen, None if weights is None else weights[chosen], whole=False)
    candidates = np.arange(X.shape[0]) if weights is None else np.flatnonzero(weights > 0)
    if not merge:
        indices = candidates[rng.permutation(len(candidates))]
        return weighed(X, indices, None if weights is None else weights[indices], whole=True)
    distinct, mass = _merge_copies(X, candidates, weights)
    order = rng.permutation(len(distinct))
    return weighed(X, distinct[order], mass[order], whole=True)


def chosen_rows(n_samples: int, size: int, rng: np.random.Generator, weights: np.ndarray | None) -> np.ndarray | None:
    """`size` random numbers of rows with positive weight; None if there are no more than `size` such rows."""
    if weights is None:
        return rng.choice(n_samples, size, replace=False) if n_samples > size else None
    candidates = np.flatnonzero(weights > 0)
    return candidates[rng.choice(len(candidates), size, replace=False)] if len(candidates) > size else None


def weighed(
    X: Array, indices: np.ndarray, weights: np.ndarray | None, *, whole: bool, numbers: np.ndarray | None = None
) -> SampledRows:
    """Rows of X with their weights, which are stored as a single number if they are all equal."""
    if weights is None or np.ptp(weights) == 0:
        return SampledRows(X, indices, None, whole, numbers, 1.0 if weights is None else float(weights[0]))
    return SampledRows(X, indices, weights, whole, numbers)


def unit_weights(weights: np.ndarray | None, n_rows: int) -> np.ndarray:
    """omega, the share of the total weight that each row has: (n_rows,), sum 1."""
    return np.full(n_rows, 1.0 / n_rows) if weights is None else weights / weights.sum()


def _merge_copies(X: Array, candidates: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The index and the summed weight of each distinct row, in an order that does not depend on the order of X."""
    order = _order_of_distinct(X, candidates) if is_numpy(X) and X.dtype != object else None
    if order is not None:
        distinct = candidates[order]
        return distinct, np.ones(len(distinct)) if weights is None else weights[distinct].astype(np.float64)
    first: dict[bytes, tuple[int, float]] = {}
    mass: dict[bytes, float] = {}
    for part in row_ranges(len(candidates), block_rows(1, X.shape[1], itemsize(X))):
        rows = take_rows(X, candidates[part])
        for i, key, projection in zip(candidates[part], row_keys(rows), row_projections(rows), strict=True):
            first.setdefault(key, (i, projection))
            mass[key] = mass.get(key, 0.0) + (1.0 if weights is None else float(weights[i]))
    keys = sorted(first)
    distinct, masses = np.array([first[key][0] for key in keys], dtype=np.intp), np.array([mass[key] for key in keys])
    order = np.argsort([first[key][1] for key in keys], kind="stable")
    return distinct[order], masses[order]


def _order_of_distinct(X: np.ndarray, candidates: np.ndarray) -> np.ndarray | None:
    """The order of rows by their projections; None if two projections are so close that their rows may be equal."""
    projections, largest = np.empty(len(candidates)), 0.0
    for part in row_ranges(len(candidates), block_rows(1, X.shape[1], itemsize(X))):
        rows = finite(X[part] if len(candidates) == len(X) else X[candidates[part]])
        projections[part] = row_projections(rows)
        largest = max(largest, float(rows.max(initial=0.0)), -float(rows.min(initial=0.0)))
    order = np.argsort(projections)
    nearest = float(np.diff(projections[order]).min(initial=np.inf))
    reach = largest * float(np.abs(projection_of_columns(X.shape[1])).sum())
    return order if nearest > ROUNDING_OF_PROJECTIONS * reach else None


@lru_cache(maxsize=8)
def projection_of_columns(n_features: int) -> np.ndarray:
    """A fixed random direction u: rows with different projections x'u are different."""
    return np.random.default_rng(0).standard_normal(n_features)


def row_projections(rows: Array) -> np.ndarray:
    """x'u in float64 for each row x: it sorts the same rows alike, dense or sparse, in float32 or float64."""
    direction = projection_of_columns(rows.shape[1])
    if scipy.sparse.issparse(rows):
        return np.asarray(rows.astype(np.float64) @ direction)
    return np.einsum("ij,j->i", to_numpy(rows), direction, dtype=np.float64)


def row_keys(rows: Array) -> Iterator[bytes]:
    """A key for each row, which is the same for equal rows and only for those."""
    if is_numpy(rows) and rows.dtype == object:
        yield from (repr(key_of(one)).encode() for one in rows[:, 0])
        return
    if not scipy.sparse.issparse(rows):
        values = to_numpy(finite(rows)) + 0.0  # turns -0.0 into 0.0, so that equal rows have equal bytes
        yield from (blake2b(row).digest() for row in np.ascontiguousarray(values))
        return
    canonical = rows.tocsr(copy=True)
    canonical.sum_duplicates()
    canonical.eliminate_zeros()
    for start, stop in pairwise(canonical.indptr):
        entries = slice(start, stop)
        yield canonical.indices[entries].astype(np.int64).tobytes() + b"|" + canonical.data[entries].tobytes()


@dataclass(frozen=True)
class ShortSide:
    """Rows as coordinates in the space that they span, and the map back to all columns."""

    X: np.ndarray  # (N, d)
    origin: np.ndarray | None  # (d,)
    rows: np.ndarray  # (N, r), Z
    mixing: np.ndarray  # (N, r), U L^-1/2
    largest: float  # the largest eigenvalue of the gram

    def lifted(self, points: Array, support: np.ndarray | None) -> Array:
        """Points mapped back to all d columns; if they are rows, with numbers `support`, the rows themselves."""
        if support is not None:
            return take_rows(self.X, support)
        weights = np.asarray(points, dtype=np.float64) @ self.mixing.T  # (m, N)
        lifted = weights @ self.X
        if self.origin is not None:
            lifted += (1.0 - weights.sum(axis=1))[:, None] * self.origin
        return lifted.astype(points.dtype, copy=False)


def has_short_side(X: Array) -> bool:
    """Whether rows are so few, and columns so many, that work in the span of the rows is cheaper.

    Rows in float32 are not mapped to their span: there, every result would have a rounding error in proportion to the
    lengths of the rows.
    """
    return X.shape[0] <= FEW_WIDE_ROWS and X.shape[1] >= WIDE_ROW and is_numpy(X) and X.dtype == np.float64


def short_side(X: np.ndarray, *, about_origin: bool) -> ShortSide | None:
    """Rows in the space that they span; None if they are all zero, or if their gram is not finite.

    With `about_origin`, for kernels of differences, the rows are first shifted to a common origin.
    """
    n, d = X.shape
    origin = origin_of(X) if about_origin else None
    gram = np.zeros((n, n))
    for part in row_ranges(d, WIDE_ROW):
        block = X[:, part] - (0.0 if origin is None else origin[part])
        gram += block @ block.T
    values, vectors = top_eigh(gram)
    real = values > n * np.finfo(np.float64).eps * max(float(values[0]), 0.0)
    if not real.any() or not np.isfinite(values[0]):
        return None
    roots = np.sqrt(values[real])
    return ShortSide(X, origin, vectors[:, real] * roots, vectors[:, real] / roots, float(values[0]))


DRAWN_AT_ONCE = 4096  # how many rows to keep are drawn in one vectorised step
NO_ROW = 2.0**60  # stands for any larger row number; no stream is this long


class SkipSample:
    """A sample of at most `size` of the rows added so far, each kept with the same probability."""

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self.n_seen = 0
        self._rng = np.random.default_rng(seed)
        self._log_share = 0.0  # ln w
        self._last = float(size - 1)  # number of the last row that has been drawn to be kept
        self._coming = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)  # their numbers and places
        self._parts: list[tuple[np.ndarray, np.ndarray, Array]] = []  # places, numbers, rows

    @property
    def whole(self) -> bool:
        """Whether the sample still holds all rows."""
        return self.n_seen <= self.size

    def add(self, block: Array) -> None:
        """Add the next block of rows."""
        start, stop = self.n_seen, self.n_seen + int(block.shape[0])
        first = np.arange(start, min(stop, self.size))
        later, places = self._kept_before(stop)
        numbers = np.concatenate([first, later])
        if len(numbers):
            self._parts.append((np.concatenate([first, places]), numbers, take_rows(block, numbers - start)))
        self.n_seen = stop
        if sum(len(part[0]) for part in self._parts) > 3 * self.size:  # so that pruning is rare and costs little
            self._prune()

    def _kept_before(self, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """The numbers and places of the next rows to keep before row `stop`, other than the first `size` rows."""
        while self._last < stop:
            self._draw()
        count = int(np.searchsorted(self._coming[0], stop))
        found = self._coming[0][:count], self._coming[1][:count]
        self._coming = self._coming[0][count:], self._coming[1][count:]
        return found

    def _draw(self) -> None:
        u, shrink = self._rng.random((2, DRAWN_AT_ONCE))
        with np.errstate(divide="ignore", over="ignore"):
            log_shares = self._log_share + np.cumsum(np.log(shrink)) / self.size
            skips = np.floor(np.log(u) / np.log1p(-np.exp(log_shares)))
        numbers = np.minimum(self._last + np.cumsum(np.minimum(skips, NO_ROW) + 1.0), NO_ROW)
        places = self._rng.integers(self.size, size=DRAWN_AT_ONCE)
        self._log_share, self._last = float(log_shares[-1]), float(numbers[-1])
        self._coming = (
            np.concatenate([self._coming[0], numbers.astype(np.int64)]),
            np.concatenate([self._coming[1], places]),
        )

    def _prune(self) -> None:
        """Merge the parts into one, which holds the last row put in each place, in the order of places."""
        places, numbers = (np.concatenate([part[i] for part in self._parts]) for i in (0, 1))
        kept = len(places) - 1 - np.unique(places[::-1], return_index=True)[1]
        rows = take_rows(stacked([part[2] for part in self._parts]), kept)
        self._parts = [(places[kept], numbers[kept], rows)]

    def rows(self) -> tuple[np.ndarray, Array]:
        """The numbers and the rows of the sample: in their own order if it holds all rows, else in random order."""
        self._prune()
        _, numbers, rows = self._parts[0]
        if self.whole:
            return numbers, rows
        order = self._rng.permutation(self.size)
        return numbers[order], take_rows(rows, order)
