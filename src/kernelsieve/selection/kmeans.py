"""k-means centres: where the rows are dense.  Lloyd's iteration on any array namespace."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, like, namespace, row_dot, take_rows, to_numpy


def kmeans_centers(
    rows: Array, n_centers: int, n_steps: int, rng: np.random.Generator, weights: Array | None = None
) -> Array:
    """`n_steps` of Lloyd's iteration from distinct random rows; a centre left empty stays where it was."""
    xp = namespace(rows)
    n = rows.shape[0]
    probability = None if weights is None else to_numpy(weights) / to_numpy(weights).sum()
    start = rng.choice(n, n_centers, replace=False, p=probability)
    centers = take_rows(rows, start)
    each = xp.arange(n_centers)
    for _ in range(n_steps):
        distances = row_dot(centers, centers) - 2 * (rows @ centers.T)
        nearest = xp.argmin(distances, axis=1)
        member = xp.astype(nearest[:, None] == like(each, nearest), rows.dtype)
        if weights is not None:
            member = member * weights[:, None]
        mass = xp.sum(member, axis=0)
        sums = member.T @ rows
        occupied = mass > 0
        centers = xp.where(occupied[:, None], sums / xp.where(occupied, mass, xp.ones_like(mass))[:, None], centers)
    return centers
