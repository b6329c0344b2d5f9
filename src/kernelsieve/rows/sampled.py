"""Sampled rows: which rows of X, what each weighs, and what they are called among all training rows.

Three ways to speak of a row are kept apart: its *place* in the sample (0 .. n-1), its *index* in the array X that the
sample was drawn from, and its *number* among all training rows, which is the index where X is all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise

import numpy as np
import scipy.sparse

from ..arrays import Array, take_rows, to_numpy
from ..threads import cached_property, row_ranges
from .scale import finite

VALUES_AT_ONCE = 2**20  # that are looked at together: they stay in the cache
LONG_ROW = 4096  # bytes of a row beyond which a digest stands for them


@dataclass(frozen=True)
class SampledRows:
    """Rows of X before a kernel is known, in random order, and their weights."""

    X: Array
    indices: np.ndarray  # (n,)
    weights: np.ndarray | None  # (n,), None where all rows weigh the same
    whole: bool  # the sample is all there is
    numbers: np.ndarray | None = None  # (len(X),) of X's rows among all training rows, where X is not all of them
    same_weight: float = 1.0  # of each row, where all weigh the same

    def at(self, places: np.ndarray) -> SampledRows:
        """The same rows in another order, or some of them."""
        weights = None if self.weights is None else self.weights[places]
        return replace(self, indices=self.indices[places], weights=weights)

    def numbers_of(self, indices: np.ndarray) -> np.ndarray:
        """The numbers, among all training rows, of the rows at these indices of X."""
        return indices if self.numbers is None else self.numbers[indices]

    @property
    def counts(self) -> np.ndarray | None:
        """How often each row counts, None where each does once."""
        if self.weights is None and self.same_weight != 1:
            return np.full(len(self.indices), self.same_weight)
        return self.weights

    def first(self, n_rows: int) -> Array:
        """The first so many rows."""
        return self.values if n_rows >= len(self.indices) else take_rows(self.X, self.indices[:n_rows])

    @cached_property
    def values(self) -> Array:
        """All rows, (n, d)."""
        return take_rows(self.X, self.indices)


def sample_rows(
    X: Array, size: int, rng: np.random.Generator, weights: np.ndarray | None, *, merge: bool
) -> SampledRows:
    """`size` random rows of X, in random order; all of them, copies merged, when X has no more.

    Merging copies (their weights added, the rows in an order of their own) makes the result the same
    whether a row is repeated or weighted, and whatever order the rows come in.
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
    """`size` random row numbers among rows of positive weight, or None where there are no more than that."""
    if weights is None:
        return rng.choice(n_samples, size, replace=False) if n_samples > size else None
    candidates = np.flatnonzero(weights > 0)
    return candidates[rng.choice(len(candidates), size, replace=False)] if len(candidates) > size else None


def weighed(
    X: Array, indices: np.ndarray, weights: np.ndarray | None, *, whole: bool, numbers: np.ndarray | None = None
) -> SampledRows:
    """Rows of X with a weight each; weights that are all the same are one number."""
    if weights is None or np.ptp(weights) == 0:
        return SampledRows(X, indices, None, whole, numbers, 1.0 if weights is None else float(weights[0]))
    return SampledRows(X, indices, weights, whole, numbers)


def shares_of(weights: np.ndarray | None, n_rows: int) -> np.ndarray:
    """omega, what share each row has of the weight of all: (n_rows,), sum 1."""
    return np.full(n_rows, 1.0 / n_rows) if weights is None else weights / weights.sum()


def _merge_copies(X: Array, candidates: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """A row number and the summed weight for each distinct row, in an order that the order of X does not change."""
    first: dict[bytes, tuple[int, float]] = {}
    mass: dict[bytes, float] = {}
    for part in row_ranges(len(candidates), max(1, VALUES_AT_ONCE // X.shape[1])):
        rows = take_rows(X, candidates[part])
        for i, key, projection in zip(candidates[part], row_bytes(rows), row_projections(rows), strict=True):
            first.setdefault(key, (i, projection))
            mass[key] = mass.get(key, 0.0) + (1.0 if weights is None else float(weights[i]))
    keys = sorted(first)
    distinct, masses = np.array([first[key][0] for key in keys], dtype=np.intp), np.array([mass[key] for key in keys])
    order = np.argsort([first[key][1] for key in keys], kind="stable")
    return distinct[order], masses[order]


def projection_of_columns(n_features: int) -> np.ndarray:
    """The random direction that rows are told apart by, the same for all."""
    return np.random.default_rng(0).standard_normal(n_features)


def row_projections(rows: Array) -> np.ndarray:
    """A number for each row that orders rows alike, be they dense or sparse, in float32 or in float64."""
    direction = projection_of_columns(rows.shape[1])
    if scipy.sparse.issparse(rows):
        return np.asarray(rows.astype(np.float64) @ direction)
    return np.einsum("ij,j->i", to_numpy(rows), direction, dtype=np.float64)


def row_bytes(rows: Array) -> Iterator[bytes]:
    """The bytes of each row, or a digest of many, the same for equal rows and only for those."""
    if not scipy.sparse.issparse(rows):
        values = to_numpy(finite(rows)) + 0.0  # -0.0 is 0.0
        long = values.shape[1] * values.itemsize > LONG_ROW
        yield from ((blake2b(row).digest() if long else row.tobytes()) for row in np.ascontiguousarray(values))
        return
    canonical = rows.tocsr(copy=True)
    canonical.sum_duplicates()
    canonical.eliminate_zeros()
    for start, stop in pairwise(canonical.indptr):
        entries = slice(start, stop)
        yield canonical.indices[entries].astype(np.int64).tobytes() + b"|" + canonical.data[entries].tobytes()
