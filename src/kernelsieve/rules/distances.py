"""Rules that read distances between rows.

Two rules choose the row that is farthest from the rows chosen before, by squared distances in feature space,

    d^2(x, s) = k(x, x) + k(s, s) - 2 k(x, s)

One takes the largest sum of distances to the chosen rows: the node choice of ESKPCA (Xu et al. 2011).  The other takes
the largest minimum: the k-centre rule of Gonzalez (1985), whose radius is at most twice the optimal one.  Both need one
kernel column for each row chosen: n m kernel values, O(n m) time, O(n) memory.

A third rule takes the centres of k-means, by Lloyd's iteration on any array namespace.  They are points, not rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse

from ..arrays import Array, as_float64, is_numpy, like, namespace, on_host, row_dot, take_rows, to_numpy
from ..fit.sample import Sample
from ..threads import ordered_map, row_ranges
from .base import KernelGram, Selection

# Two rows are copies of each other if their squared distance is at most this share of the sum of their squared lengths.
COPIES = {4: 1e-6, 8: 1e-13}

Combine = np.ufunc  # np.add or np.minimum, applied to the distances from the rows so far and from a new row


def far_rows(
    column: Callable[[int], np.ndarray],
    diagonal: np.ndarray,
    distances: np.ndarray,
    n_rows: int,
    combine: Combine,
    tolerance: float = COPIES[8],
) -> np.ndarray:
    """Up to `n_rows` rows, each the farthest from those before it; fewer if only copies of chosen rows are left.

    `distances` are the squared distances to a first point; `combine` is np.add or np.minimum.
    """
    far = np.where(distances > tolerance * diagonal, distances, -np.inf)
    largest = diagonal.max(initial=0.0)
    chosen: list[int] = []
    while len(chosen) < n_rows:
        j = int(np.argmax(far))
        if far[j] == -np.inf:
            break
        chosen.append(j)
        if len(chosen) == n_rows:
            break
        distance = np.multiply(column(j), -2.0, dtype=np.float64)
        distance += diagonal
        distance += diagonal[j]
        distance[j] = np.inf
        combine(far, distance, out=far)
        if distance.min() <= tolerance * (largest + diagonal[j]):
            far[distance <= tolerance * (diagonal + diagonal[j])] = -np.inf
        far[j] = -np.inf
    return np.asarray(chosen, dtype=np.intp)


def spread_rows(sample: Sample, n_rows: int, combine: Combine) -> np.ndarray:
    """Places in the sample: first of the row nearest to the mean, then of rows that are far from those before them."""
    first, diagonal = central_row_of(sample), sample.diagonal
    column = sample.column(first)
    distances = diagonal + diagonal[first] - 2.0 * column
    distances[first] = 0.0
    others = far_rows(sample.column, diagonal, distances, n_rows - 1, combine, copies_tolerance(column))
    return np.append(first, others)


def copies_tolerance(values: Array) -> float:
    """The tolerance for copies of a row, given rows or kernel values, whose precision decides it."""
    return COPIES[4 if values.dtype == np.float32 else 8]


def mean_of(rows: Array, weights: np.ndarray | None) -> np.ndarray:
    """The (weighted) mean of the rows, (d,)."""
    rows = as_float64(on_host(rows))
    if weights is None:
        return np.asarray(rows.mean(axis=0)).ravel()
    return np.asarray((weights / weights.sum()) @ rows).ravel()


def central_row(rows: Array, weights: np.ndarray | None) -> int:
    """The number of the row (of positive weight) nearest to the mean of the rows."""
    mean = mean_of(rows, weights)
    if scipy.sparse.issparse(rows):
        return _smallest(row_dot(rows, rows) - 2.0 * (rows @ mean), weights)
    offsets = to_numpy(rows) - mean
    return _smallest(row_dot(offsets, offsets), weights)


def central_of_gram(gram: Array, weights: np.ndarray | None) -> int:
    """The number of the row nearest to the mean of the rows in feature space, computed from their gram."""
    mass = np.ones(gram.shape[0]) if weights is None else weights
    return _smallest(gram.diagonal() - 2.0 * np.asarray(gram @ mass).ravel() / mass.sum(), weights)


def _central(gram: KernelGram, weights: np.ndarray | None) -> int:
    """The number of the row nearest to the mean of the rows; for rows without a mean, to the mean of their features."""
    if not gram.kernel.rows_only:
        return central_row(gram.rows, weights)
    whole = gram.rows if gram.kernel.precomputed else gram.among(np.arange(gram.rows.shape[0]))
    return central_of_gram(whole, weights)


def _smallest(distances: np.ndarray, weights: np.ndarray | None) -> int:
    return int(np.argmin(distances if weights is None else np.where(weights > 0, distances, np.inf)))


def central_row_of(sample: Sample) -> int:
    """The place of the sampled row nearest to the mean; for rows without a mean, to the mean of their features."""
    weights = sample.rows.weights
    if not sample.kernel.rows_only:
        return central_row(sample.all_values, weights)
    return central_of_gram(to_numpy(sample.evaluation.gram), sample.evaluation.weights)


def dissimilar_nodes(gram: KernelGram, n_nodes: int, weights: np.ndarray | None, *, mean: bool) -> Selection:
    """ESKPCA's nodes: first the mean of the rows or the row nearest to it, then far rows by sums of distances."""
    rows, diagonal = gram.rows, gram.diagonal
    mean = mean and not gram.kernel.rows_only
    if mean:
        point = like(mean_of(rows, weights)[None, :], rows)
        point = type(rows)(point) if scipy.sparse.issparse(rows) else point
        first = -1
        distances = diagonal + float(gram.kernel.diagonal(point)[0]) - 2.0 * gram.at_point(point)
    else:
        first = _central(gram, weights)
        distances = diagonal + diagonal[first] - 2.0 * gram.column(first)
        distances[first] = 0.0
    if weights is not None:
        distances[weights == 0] = 0.0
    others = far_rows(gram.column, diagonal, distances, n_nodes - 1, np.add, copies_tolerance(rows))
    nodes = np.append(first, others)
    kernel, points = gram.kernel.at(rows, nodes[1:] if mean else nodes)
    if mean:
        stack = scipy.sparse.vstack if scipy.sparse.issparse(rows) else namespace(rows).concat
        points = stack([point, points])
    return Selection(kernel, points, None if mean else nodes, {"rule": "dissimilar", "nodes": nodes})


DISTANCES_AT_ONCE = 2**18  # distances that a thread computes at once, so that they stay in its cache


def kmeans_centers(
    rows: Array,
    n_centers: int,
    n_steps: int,
    rng: np.random.Generator,
    weights: Array | None = None,
    n_threads: int = 1,
) -> Array:
    """`n_steps` of Lloyd's iteration from distinct random rows; the centre of an empty cluster does not move."""
    probability = None if weights is None else to_numpy(weights) / to_numpy(weights).sum()
    start = rng.choice(rows.shape[0], n_centers, replace=False, p=probability)
    centers = take_rows(rows, start)
    xp = namespace(rows)
    found = NearestOnHost.of(rows, weights, n_threads) if is_numpy(rows) else NearestOnDevice(rows, weights)
    for _ in range(n_steps):
        sums, mass = found.gathered(centers)
        occupied = mass > 0
        centers = xp.where(occupied[:, None], sums / xp.where(occupied, mass, xp.ones_like(mass))[:, None], centers)
    return centers


def as_rows_in(centers: Array, rows: Array, columns: tuple[int, ...]) -> Array:
    """The centres, with the values in these columns replaced by those of the row nearest to each centre."""
    if not columns:
        return centers
    xp = namespace(centers)
    distances = row_dot(rows, rows) - 2 * (centers @ rows.T)
    nearest = take_rows(rows, xp.argmin(distances, axis=1))
    mask = np.zeros(centers.shape[1], dtype=bool)
    mask[list(columns)] = True
    return xp.where(like(mask, centers, xp.bool), nearest, centers)


@dataclass(frozen=True)
class NearestOnHost:
    """Finds the nearest centre of each row on the host, in float32.

    So that float32 suffices, the rows' mean is subtracted and the result divided by its largest absolute value.
    """

    rows: np.ndarray
    weights: np.ndarray
    shift: np.ndarray
    scale: float
    light: np.ndarray
    n_threads: int

    @classmethod
    def of(cls, rows: np.ndarray, weights: np.ndarray | None, n_threads: int) -> NearestOnHost:
        shift = rows.mean(axis=0)
        light = rows - shift
        scale = float(np.abs(light).max(initial=0.0)) or 1.0
        light /= scale
        weights = np.ones(len(rows), dtype=rows.dtype) if weights is None else weights
        return cls(rows, weights, shift, scale, light.astype(np.float32, copy=False), n_threads)

    def gathered(self, centers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each centre, the weighted sum of the rows nearest to it, and their total weight."""
        light = ((centers - self.shift) / self.scale).astype(np.float32)
        norms, right = row_dot(light, light), -2 * light.T

        def nearest(part: slice) -> np.ndarray:
            distances = self.light[part] @ right
            distances += norms
            return distances.argmin(axis=1)

        n, m = len(self.rows), len(centers)
        parts = row_ranges(n, max(1, DISTANCES_AT_ONCE // m))
        labels = np.concatenate(list(ordered_map(nearest, parts, self.n_threads)))
        members = scipy.sparse.csr_array((self.weights, labels, np.arange(n + 1)), shape=(n, m))
        return members.T @ self.rows, np.bincount(labels, self.weights, minlength=m)


@dataclass(frozen=True)
class NearestOnDevice:
    """Finds the nearest centre of each row on a device, where sums over clusters are products with a 0/1 matrix."""

    rows: Array
    weights: Array | None

    def gathered(self, centers: Array) -> tuple[Array, Array]:
        """For each centre, the weighted sum of the rows nearest to it, and their total weight."""
        xp = namespace(self.rows)
        nearest = xp.argmin(row_dot(centers, centers) - 2 * (self.rows @ centers.T), axis=1)
        members = xp.astype(nearest[:, None] == like(xp.arange(centers.shape[0]), nearest), self.rows.dtype)
        if self.weights is not None:
            members = members * self.weights[:, None]
        return members.T @ self.rows, xp.sum(members, axis=0)
