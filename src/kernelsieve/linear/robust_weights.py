"""Weights that remove outliers from PCA: a sound form of Wang & Cheng's logistic weighting.

A row far off the plane of the first M components, at orthogonal distance r, gets the weight

    w(r) = 1 / (1 + exp(mu (r^2 - delta)))          1 near the plane, 0 far off, 1/2 at r^2 = delta

which is rho'(r) / r of the bounded loss

    rho(r) = -(1 / 2 mu) [log(1 + exp(mu delta - mu r^2)) - log(1 + exp(mu delta))]

so that reweighted PCA lowers  sum_i rho(r_i)  in every step until it converges (delta and mu are fixed before the first
step).  It finds the nearest minimum, so the start must be free of outliers already: the half of the rows that is
least outlying along any of many directions (Stahel 1981, Donoho 1982), then a few concentration steps, each PCA of the
half that was nearest to the last plane.  Directions run through pairs of rows: among them are those along which a
cluster is separated, which random directions miss.

The loss must not be minimised together with an l1 penalty: because the loss is bounded, more and more rows lose their
weight as the loadings shrink, until neither rows nor loadings are left.  So weights are computed first, and
sparse PCA uses them unchanged.

The paper's own scheme (2012), repaired as little as it takes to have a solution, is here for reproduction
(`residual_components`).  For one component after another, on the rows X as the earlier ones left them, it repeats

    e = X a - X b                                  the residual of each row
    w_i = 1 / (1 + exp(mu (e_i^2 - delta)))        delta the tau-quantile of e^2, mu = c / delta  (8)
    b = argmin |W^1/2 (X a - X b)|^2 + l2 |b|^2 + gamma1 |b|_1                                   (13)
    a = argmin |W^1/2 (X a - X b)|^2 + l2_alpha |a|^2 + gamma2 |a|_1                             (14)

and deflates, X <- X - X b b' (12).  As printed, the two problems together are convex and have their minimum at
a = b = 0, which the iteration reaches.  Repaired here: a has unit length; the deflation takes b of unit length, which
makes it a projection; both gammas are relative to the values that empty b and a.  With l2_alpha = inf and gamma2 = 0,
the default, a = X'WX b / |X'WX b|, which is its best value in sum_i w_i |x_i - a b'x_i|^2.  What repair cannot change
is that e measures how much b was shrunk, not how far a row is off: rows with large scores lose weight, outliers or not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from ..arrays import top_eigh
from ..errors import warn
from .alternation import SparseRequest, SparseSolution, make_penalty, refit, starting_axes, together, unit_rows
from .regression import Penalty, solve_loadings
from .scatter import Scatter, scatter_of

STEEPNESS = 8.0  # mu delta: the paper's c


def without_rounding(to_plane: np.ndarray, to_mean: np.ndarray) -> np.ndarray:
    """Squared distances to a plane, set to zero if they are only rounding of the squared distance to its centre."""
    return np.where(to_plane > 1e-14 * to_mean, to_plane, 0.0)


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
    """The loss rho and its weight, for one delta."""

    delta: float

    def weights(self, squared: np.ndarray) -> np.ndarray:
        """w = rho'(r) / r, from r^2."""
        if not self.delta > 0:  # most rows lie exactly in the plane, and all others are outliers
            return (squared == 0).astype(np.float64)
        return expit(STEEPNESS * (1.0 - squared / self.delta))

    def value(self, squared: np.ndarray) -> float:
        """sum rho(r), from r^2."""
        mu = STEEPNESS / self.delta
        parts = np.logaddexp(0.0, STEEPNESS - mu * squared) - np.logaddexp(0.0, STEEPNESS)
        return -float(parts.sum()) / (2 * mu)


@dataclass(frozen=True)
class RobustWeights:
    """Weights of the rows, and how the iteration that found them went."""

    values: np.ndarray  # (n,)
    losses: list[float]  # sum rho before each reweighting, decreasing
    converged: bool
    delta: float  # delta of the loss; 0 if most rows lie exactly in the plane


def warn_if_many(share: float) -> None:
    """Warn if weights exclude such a large share of the rows that they cannot be trusted."""
    if share > 1 / 3:  # with more, outliers may be the majority, which looks the same
        warn(
            f"the weights rule out {share:.0%} of the rows: with that many, rows and outliers may have changed places. "
            "Look at weights_, or at the rows themselves"
        )


def two_stage_weights(
    rows: np.ndarray, n_components: int, n_directions: int, rng: np.random.Generator
) -> RobustWeights:
    """Weights for dense rows: from a start that outliers do not affect, by weighted PCA until it converges.

    Cost: O(n q (n_directions + q)) for q = min(n, p), after O(n q p) for the coordinates.
    """
    rows = isometric_coordinates(rows)
    inner = nearest_half(outlyingness(rows, n_directions, rng), n_components)
    for _ in range(5):  # concentration steps
        plane = fit_plane(rows[inner], np.ones(len(inner)), n_components)
        inner = nearest_half(plane.squared_distances(rows), n_components)
    found = reweight(rows, fit_plane(rows[inner], np.ones(len(inner)), n_components))
    if not found.converged:
        warn(f"weights had not settled after {len(found.losses)} reweightings", ConvergenceWarning)
    return found


def isometric_coordinates(rows: np.ndarray) -> np.ndarray:
    """Centred rows; if p > n, in coordinates of the space that they span, which keeps all distances."""
    centred = rows - rows.mean(axis=0)
    n_samples, n_features = rows.shape
    if n_features <= n_samples:
        return centred
    values, vectors = top_eigh(centred @ centred.T)
    real = values > len(values) * np.finfo(np.float64).eps * values[0]
    return vectors[:, real] * np.sqrt(values[real])


def outlyingness(rows: np.ndarray, n_directions: int, rng: np.random.Generator) -> np.ndarray:
    """max over directions d of |x'd - median| / MAD for each row x; directions join random pairs of rows."""
    n_samples = len(rows)
    first = rng.integers(n_samples, size=n_directions)
    second = (first + 1 + rng.integers(n_samples - 1, size=n_directions)) % n_samples
    # in a unit in which float32 can represent the squares of the rows
    rows = rows / (float(np.abs(rows).max(initial=0.0)) or 1.0)
    directions = rows[first] - rows[second]
    # directions need not have unit length, which cancels in the ratio, and float32 is precise enough for ranks
    projections = directions.astype(np.float32) @ rows.T.astype(np.float32)
    projections -= _upper_median(projections)
    np.abs(projections, out=projections)
    spreads = _upper_median(projections)
    # a direction along which the middle half of the rows coincides measures nothing
    useful = spreads[:, 0] > 1e-6 * np.einsum("ij,ij->i", directions, directions)
    if not useful.any():
        return np.einsum("ij,ij->i", rows, rows)
    return (projections[useful] / spreads[useful]).max(axis=0)


def _upper_median(values: np.ndarray) -> np.ndarray:
    """The median of each row, as a column: the middle value, or the larger of the two middle ones."""
    middle = values.shape[1] // 2
    return np.partition(values, middle, axis=1)[:, middle, None]


def nearest_half(distances: np.ndarray, n_components: int) -> np.ndarray:
    """Numbers of the rows with the smallest distances: half of all rows, or as many as a plane needs."""
    count = max(len(distances) // 2, min(n_components + 1, len(distances)))
    return np.argpartition(distances, count - 1)[:count]


def fit_plane(rows: np.ndarray, weights: np.ndarray, n_components: int) -> Plane:
    """The plane of the first components by weighted PCA."""
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
    deviation = 1.4826 * float(np.median(np.abs(z - center)))
    # r^(2/3) of normal noise is nearly normal (Wilson & Hilferty): 1.25 % of it lie more than 2.24 deviations up
    return (center + 2.24 * deviation) ** 3


def reweight(rows: np.ndarray, plane: Plane) -> RobustWeights:
    """Weighted PCA and new weights in turn, from a given plane, which also determines delta: minimises sum rho(r)."""
    n_components = plane.axes.shape[1]
    squared = plane.squared_distances(rows)
    delta = cutoff(squared)
    loss = LogisticLoss(delta)
    weights = loss.weights(squared)
    if not delta > 0:
        return RobustWeights(weights, [], True, 0.0)
    losses, converged = [loss.value(squared)], False
    while not converged and len(losses) <= 200:
        squared = fit_plane(rows, weights, n_components).squared_distances(rows)
        before, weights = weights, loss.weights(squared)
        losses.append(loss.value(squared))
        converged = float(np.abs(weights - before).max()) <= 1e-4
    return RobustWeights(weights, losses, converged, delta)


@dataclass(frozen=True)
class ResidualForm:
    """The parameters of the paper's own scheme, by default with the paper's values where it gives them."""

    tau: float = 0.5  # delta is this quantile of e^2
    c: float = STEEPNESS  # mu delta
    gamma2: float = 0.0  # l1 weight of a, in the scale of the request's alpha
    l2_alpha: float = math.inf  # l2 weight of a

    def over(self, unit: float, scale: str) -> ResidualForm:
        """These parameters for rows that are divided by `unit`."""
        gamma2 = self.gamma2 / unit**2 if scale == "absolute" else self.gamma2
        return replace(self, gamma2=gamma2, l2_alpha=self.l2_alpha / unit**2)

    def weights(self, residuals: np.ndarray) -> np.ndarray:
        """The weights of the rows by the paper's equation (8), with delta and mu as in its section 4."""
        squared = residuals**2
        count = max(int(self.tau * len(squared)), 1)
        delta = float(np.partition(squared, count - 1)[count - 1])
        return expit(self.c * (1.0 - squared / delta)) if delta > 0 else np.ones(len(squared))

    def axis(self, scatter: Scatter, loadings: np.ndarray, scale: str) -> np.ndarray:
        """The axis (1, p) by the paper's equation (14) for these loadings, before it is divided by its length."""
        amount = np.array([self.gamma2])
        penalty = Penalty(self.l2_alpha, **{"share" if scale == "relative" else "alpha": amount})
        return solve_loadings(scatter, penalty, loadings, np.zeros_like(loadings)).values


def residual_components(
    rows: np.ndarray, request: SparseRequest, form: ResidualForm
) -> tuple[SparseSolution, np.ndarray]:
    """The paper's components of centred rows, and the weights (n, M) that each was fitted with."""
    found, weights = [], []
    for j in range(request.n_components):
        solution, own_weights = _one_component(rows, _only(request, j), form)
        found.append(solution)
        weights.append(own_weights)
        direction = unit_rows(solution.loadings)[0]
        rows = rows - np.outer(rows @ direction, direction)
    return together(found), np.stack(weights, axis=1)


def _only(request: SparseRequest, component: int) -> SparseRequest:
    """The request for one component."""

    def part(value: object) -> object:
        values = np.asarray(value)
        return value if value is None or values.ndim == 0 else values[component]

    return replace(request, n_components=1, alpha=part(request.alpha), n_nonzero=part(request.n_nonzero))


def _one_component(rows: np.ndarray, request: SparseRequest, form: ResidualForm) -> tuple[SparseSolution, np.ndarray]:
    origin, stop = np.zeros(rows.shape[1]), request.stop
    axes = starting_axes(scatter_of(rows, None, origin), 1)
    loadings = np.zeros_like(axes)
    predicted = rows.mean(axis=1)
    converged, n_iter = False, 0
    while not converged and n_iter < min(stop.max_iter, 100):  # without convergence by then, it cycles
        n_iter += 1
        weights = form.weights(rows @ axes[0] - predicted)
        scatter = scatter_of(rows, weights, origin)
        solved = solve_loadings(scatter, make_penalty(scatter.n_features, request), axes, loadings)
        converged = stop.reached(loadings, solved.values)
        loadings, predicted = solved.values, rows @ solved.values[0]
        axis = form.axis(scatter, loadings, request.alpha_scale)
        length = float(np.linalg.norm(axis))
        if length > 0:
            axes = axis / length
    solution = SparseSolution(axes, loadings, solved.images, solved.alpha, n_iter, converged)
    if request.refit:
        loadings = refit(scatter, solution, request.l2, sequential=False, stop=stop).loadings
        solution = replace(solution, loadings=loadings)
    return solution, weights
