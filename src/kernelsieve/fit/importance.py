"""Samples that do not miss heavy rows.

Under heavy tails a few rows carry far more of the variance than others.  A row contributes its squared distance from
the mean in feature space, which is approximated by its distance from the feature of the mean row c,

    b_n = k(x_n, x_n) - 2 k(x_n, c) + k(c, c)

exact for a linear kernel and a good guide for others, at the cost of one kernel column.  A sample drawn evenly misses
rows that are few and carry much.  Rows drawn with probabilities

        p_n = min(1, size (1/2 omega_n / sum omega + 1/2 omega_n b_n / sum omega b)),      counted omega_n / p_n times,

include the heaviest rows for certain and the others in proportion; sums over them are unbiased, whatever the tails.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, like, namespace, to_numpy
from ..kernels import Kernel
from ..rows.sampling import shares_of


@dataclass(frozen=True)
class Half:
    """Half of some rows, by their places, and how much each counts."""

    places: np.ndarray
    weights: np.ndarray | None


@dataclass(frozen=True)
class Drawn:
    """Rows drawn with chances that grow with the variance they carry."""

    places: np.ndarray  # (size,), ascending
    weights: np.ndarray  # (size,) how much each counts
    chances: np.ndarray  # probability of being drawn; 1 for rows so heavy that every draw takes them

    def halves(self, *, of_all: bool) -> list[Half]:
        """Two halves, whose rows count twice.

        Rows drawn from all rows (`of_all`) that are so heavy that every draw takes them are in both halves, and count
        once. If only some of the rows were drawn from, rows as heavy as these may be among the others, so none is in
        both.
        """
        certain, others = np.flatnonzero(self.chances >= 1.0), np.flatnonzero(self.chances < 1.0)
        if not of_all:
            parts = [np.concatenate([certain[i::2], others[i::2]]) for i in (0, 1)]
            return [Half(part, 2 * self.weights[part]) for part in parts]
        return [
            Half(np.concatenate([certain, part]), np.concatenate([self.weights[certain], 2 * self.weights[part]]))
            for part in (others[::2], others[1::2])
        ]


def carried_variance(
    kernel: Kernel, rows: Array, weights: np.ndarray | None, row_scale: Array | None = None
) -> np.ndarray:
    """b, the variance that each row carries; `row_scale` multiplies the kernel values of a row with others."""
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


def tails(carried: np.ndarray, weights: np.ndarray | None) -> float:
    """n sum (w b)^2 / (sum w b)^2: 1 where all rows carry the same, 2 where what they carry is exponential."""
    mass = shares_of(weights, len(carried)) * carried  # a row of large weight is heavy, like one that is far out
    total = float(mass.sum())
    return len(mass) * float(np.sum((mass / total) ** 2)) if total > 0 else 0.0


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
