"""Weights that take outliers out of PCA: the sound form of Wang & Cheng's logistic weighting.

A row far off the plane of the first M components, at orthogonal distance r, gets the weight

    w(r) = 1 / (1 + exp(mu (r^2 - delta)))          1 near the plane, 0 far off, 1/2 at r^2 = delta

which is rho'(r) / r of the bounded loss

    rho(r) = -(1 / 2 mu) [log(1 + exp(mu delta - mu r^2)) - log(1 + exp(mu delta))]

so that weighted PCA, reweighted until it stands still, lowers  sum_i rho(r_i)  in every step (delta and mu are fixed
before the first).  That finds the nearest minimum, so the start must be free of outliers already: the half of the rows
that looks least outlying along any of many directions (Stahel 1981, Donoho 1982), then a few concentration steps, each
PCA of the half that was nearest to the last plane.  Directions run through pairs of rows: among them are those along
which a cluster stands apart, which random directions miss.

The loss must not be minimised together with an l1 penalty: being bounded, it lets go of ever more rows while the
loadings shrink, down to none of either.  Weights are found first, and sparse PCA runs on frozen ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from ..arrays import top_eigh
from ..errors import warn

STEEPNESS = 8.0  # mu delta: the paper's c
# r^(2/3) of normal noise is nearly normal (Wilson & Hilferty): its upper 1.25 % lie this many deviations up.
CUTOFF_DEVIATIONS = 2.24
MAD_TO_DEVIATION = 1.4826
CONCENTRATION_STEPS = 5
# Reweighting ends when no weight changes by more than this.
WEIGHT_TOLERANCE, MAX_REWEIGHTINGS = 1e-4, 200
# Directions along which the middle half of the rows coincides, to this share of their length, measure nothing.
NO_SPREAD = 1e-6
# More rows ruled out than this, and a majority of outliers looks just the same.
MANY_OUTLIERS = 1 / 3
# Squared distances to the plane below this share of those to the centre are rounding.
IN_PLANE = 1e-14


def without_rounding(to_plane: np.ndarray, to_mean: np.ndarray) -> np.ndarray:
    """Squared distances to a plane, zero where they are rounding of the squared distance to its centre."""
    return np.where(to_plane > IN_PLANE * to_mean, to_plane, 0.0)


@dataclass(frozen=True)
class Plane:
    """A point and M orthonormal axes through it."""

    location: np.ndarray  # (q,)
    axes: np.ndarray  # (q, M)

    def squared_distances(self, rows: np.ndarray) -> np.ndarray:
        """r^2 of each row."""
        centred = rows - self.location
        along = centred @ self.axes
        length = np.einsum("ij,ij->i", centred, centred)
        return without_rounding(length - np.einsum("ij,ij->i", along, along), length)


@dataclass(frozen=True)
class LogisticLoss:
    """rho and its weight, for one delta."""

    delta: float

    def weights(self, squared: np.ndarray) -> np.ndarray:
        """w = rho'(r) / r, from r^2."""
        if not self.delta > 0:  # most rows lie in the plane exactly: those that do not are the outliers
            return (squared == 0).astype(np.float64)
        return expit(STEEPNESS * (1.0 - squared / self.delta))

    def value(self, squared: np.ndarray) -> float:
        """sum rho(r), from r^2."""
        mu = STEEPNESS / self.delta
        parts = np.logaddexp(0.0, STEEPNESS - mu * squared) - np.logaddexp(0.0, STEEPNESS)
        return -float(parts.sum()) / (2 * mu)


@dataclass(frozen=True)
class RobustWeights:
    """Weights of the rows, and how they were reached."""

    values: np.ndarray  # (n,)
    losses: list[float]  # sum rho before each reweighting: falls
    converged: bool
    delta: float  # of the loss; 0 where most rows lie in the plane exactly


def warn_if_many(share: float) -> None:
    """Say what weights that rule out so large a share of the rows are worth."""
    if share > MANY_OUTLIERS:
        warn(
            f"the weights rule out {share:.0%} of the rows: with that many, rows and outliers may have changed places. "
            "Look at weights_, or at the rows themselves"
        )


def two_stage_weights(
    rows: np.ndarray, n_components: int, n_directions: int, rng: np.random.Generator
) -> RobustWeights:
    """Weights for dense rows: a start that outliers do not reach, then weighted PCA until it stands still.

    Cost: O(n q (n_directions + q)) for q = min(n, p), after O(n q p) to get there.
    """
    rows = isometric_coordinates(rows)
    inner = nearest_half(outlyingness(rows, n_directions, rng), n_components)
    for _ in range(CONCENTRATION_STEPS):
        plane = fit_plane(rows[inner], np.ones(len(inner)), n_components)
        inner = nearest_half(plane.squared_distances(rows), n_components)
    found = reweight(rows, fit_plane(rows[inner], np.ones(len(inner)), n_components))
    if not found.converged:
        warn(f"weights had not settled after {len(found.losses)} reweightings", ConvergenceWarning)
    return found


def isometric_coordinates(rows: np.ndarray) -> np.ndarray:
    """Centred rows; where p > n, in coordinates of the space that they span, which keeps all distances."""
    centred = rows - rows.mean(axis=0)
    n_samples, n_features = rows.shape
    if n_features <= n_samples:
        return centred
    values, vectors = top_eigh(centred @ centred.T)
    real = values > len(values) * np.finfo(np.float64).eps * values[0]
    return vectors[:, real] * np.sqrt(values[real])


def outlyingness(rows: np.ndarray, n_directions: int, rng: np.random.Generator) -> np.ndarray:
    """max over directions d of |x'd - median| / MAD, the directions through random pairs of rows."""
    n_samples = len(rows)
    first = rng.integers(n_samples, size=n_directions)
    second = (first + 1 + rng.integers(n_samples - 1, size=n_directions)) % n_samples
    rows = rows / (float(np.abs(rows).max(initial=0.0)) or 1.0)  # in a unit in which float32 can hold their squares
    directions = rows[first] - rows[second]
    # neither side needs unit length, and ranks need no more digits than float32 has
    projections = directions.astype(np.float32) @ rows.T.astype(np.float32)
    projections -= _upper_median(projections)
    np.abs(projections, out=projections)
    spreads = _upper_median(projections)
    useful = spreads[:, 0] > NO_SPREAD * np.einsum("ij,ij->i", directions, directions)
    if not useful.any():
        return np.einsum("ij,ij->i", rows, rows)
    return (projections[useful] / spreads[useful]).max(axis=0)


def _upper_median(values: np.ndarray) -> np.ndarray:
    """Of each row, as a column: the middle value, or the upper of the two."""
    middle = values.shape[1] // 2
    return np.partition(values, middle, axis=1)[:, middle, None]


def nearest_half(distances: np.ndarray, n_components: int) -> np.ndarray:
    """Numbers of the rows with the smaller distances: half of them, and enough for a plane."""
    count = max(len(distances) // 2, min(n_components + 1, len(distances)))
    return np.argpartition(distances, count - 1)[:count]


def fit_plane(rows: np.ndarray, weights: np.ndarray, n_components: int) -> Plane:
    """Weighted PCA."""
    location = weights @ rows / weights.sum()
    centred = np.sqrt(weights)[:, None] * (rows - location)
    if centred.shape[0] >= centred.shape[1]:
        return Plane(location, top_eigh(centred.T @ centred, n_components)[1])
    values, vectors = top_eigh(centred @ centred.T, n_components)
    return Plane(location, centred.T @ (vectors / np.sqrt(np.maximum(values, np.finfo(np.float64).tiny))))


def cutoff(squared: np.ndarray) -> float:
    """delta, the r^2 beyond which rows are outliers: (median z + 2.24 deviations of z)^3 with z = r^(2/3)."""
    z = np.cbrt(squared)
    center = float(np.median(z))
    deviation = MAD_TO_DEVIATION * float(np.median(np.abs(z - center)))
    return (center + CUTOFF_DEVIATIONS * deviation) ** 3


def reweight(rows: np.ndarray, plane: Plane) -> RobustWeights:
    """Weighted PCA and weights in turn, from a plane on: minimises sum rho(r) with delta set by that plane."""
    n_components = plane.axes.shape[1]
    squared = plane.squared_distances(rows)
    delta = cutoff(squared)
    if not delta > 0:  # most rows lie in the plane exactly: those that do not are the outliers
        return RobustWeights((squared == 0).astype(np.float64), [], True, 0.0)
    loss = LogisticLoss(delta)
    weights, losses, converged = loss.weights(squared), [loss.value(squared)], False
    while not converged and len(losses) <= MAX_REWEIGHTINGS:
        squared = fit_plane(rows, weights, n_components).squared_distances(rows)
        before, weights = weights, loss.weights(squared)
        losses.append(loss.value(squared))
        converged = float(np.abs(weights - before).max()) <= WEIGHT_TOLERANCE
    return RobustWeights(weights, losses, converged, delta)
