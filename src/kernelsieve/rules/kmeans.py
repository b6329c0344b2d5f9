"""Centres of k-means by Lloyd's iteration, on any array namespace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse

from ..arrays import Array, is_numpy, like, namespace, row_dot, take_rows, to_numpy
from ..threads import ordered_map, row_ranges

DISTANCES_AT_ONCE = 2**18  # distances that a thread computes at once, so that they stay in its cache


def kmeans_centers(
    rows: Array,
    n_centers: int,
    n_steps: int,
    rng: np.random.Generator,
    weights: Array | None = None,
    n_threads: int = 1,
) -> Array:
    """`n_steps` of Lloyd's iteration from distinct random rows; the centre of an empty cluster stays where it was."""
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
    """The centres, with these columns replaced by those of each centre's nearest row."""
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
    """Nearest centres of rows on the host, in float32 after subtracting the mean and dividing by the largest value."""

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
        """Sum and weight of the rows nearest to each centre."""
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
    """Nearest centres of rows on a device, where sums over clusters are products with a 0/1 matrix."""

    rows: Array
    weights: Array | None

    def gathered(self, centers: Array) -> tuple[Array, Array]:
        """Sum and weight of the rows nearest to each centre."""
        xp = namespace(self.rows)
        nearest = xp.argmin(row_dot(centers, centers) - 2 * (self.rows @ centers.T), axis=1)
        members = xp.astype(nearest[:, None] == like(xp.arange(centers.shape[0]), nearest), self.rows.dtype)
        if self.weights is not None:
            members = members * self.weights[:, None]
        return members.T @ self.rows, xp.sum(members, axis=0)
