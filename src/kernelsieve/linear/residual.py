"""Wang & Cheng's robust sparse PCA (2012), repaired as little as it takes to have a solution.

For one component after another, on the rows X as the earlier ones left them, the paper repeats

    e = X a - X b                                  the residual of each row
    w_i = 1 / (1 + exp(mu (e_i^2 - delta)))        delta the median of e^2, mu = 8 / delta        (8)
    b = argmin |W^1/2 (X a - X b)|^2 + l2 |b|^2 + gamma |b|_1                                    (13)
    a = argmin |W^1/2 (X a - X b)|^2 + l2 |a|^2 + gamma |a|_1                                    (14)

and deflates, X <- X - X b b' (12).  As printed the two problems together are convex and a = b = 0 is their minimum,
which the iteration reaches.  Repaired: a has unit length, a = X'WX b / |X'WX b|, which is its best value in
sum_i w_i |x_i - a b'x_i|^2; the deflation takes b of unit length, which makes it a projection; gamma is relative to
the value that empties the component.

What repair cannot change is that e measures how much b was shrunk, not how far a row is off: rows with large scores
lose weight, outliers among them or not.  Here for reproduction; `robust` is the form to use.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from .alternation import SparseSolution, refit, unit_rows
from .elastic_net import solve_loadings
from .fitting import Request, make_penalty, starting_axes
from .robust import STEEPNESS
from .scatter import scatter_of

MEDIAN_SHARE = 0.5  # the paper's tau: delta is this quantile of e^2
# Weights and loadings chase each other: what has not settled by then circles.
MAX_STEPS = 100


@dataclass(frozen=True)
class ResidualComponents:
    """Components, and the weights that each was fitted with."""

    components: np.ndarray  # (M, p) unit rows
    weights: np.ndarray  # (n, M)
    alpha: np.ndarray  # (M,) absolute
    n_iter: int
    converged: bool


def residual_components(rows: np.ndarray, request: Request) -> ResidualComponents:
    """The paper's components of centred rows."""
    found = []
    for j in range(request.n_components):
        found.append(_one_component(rows, _only(request, j)))
        direction = found[-1].components[0]
        rows = rows - np.outer(rows @ direction, direction)
    return ResidualComponents(
        np.concatenate([f.components for f in found]),
        np.concatenate([f.weights for f in found], axis=1),
        np.concatenate([f.alpha for f in found]),
        max(f.n_iter for f in found),
        all(f.converged for f in found),
    )


def _only(request: Request, component: int) -> Request:
    """The request for one component."""

    def part(value: object) -> object:
        values = np.asarray(value)
        return value if value is None or values.ndim == 0 else values[component]

    return replace(request, n_components=1, alpha=part(request.alpha), n_nonzero=part(request.n_nonzero))


def residual_weights(residuals: np.ndarray) -> np.ndarray:
    """Equation (8), with delta and mu as in the paper's section 4."""
    squared = residuals**2
    count = max(int(MEDIAN_SHARE * len(squared)), 1)
    delta = float(np.partition(squared, count - 1)[count - 1])
    return expit(STEEPNESS * (1.0 - squared / delta)) if delta > 0 else np.ones(len(squared))


def _one_component(rows: np.ndarray, request: Request) -> ResidualComponents:
    origin = np.zeros(rows.shape[1])
    axes = starting_axes(scatter_of(rows, None, origin), 1)
    loadings = np.zeros_like(axes)
    predicted = rows.mean(axis=1)
    converged, n_iter = False, 0
    while not converged and n_iter < min(request.stop.max_iter, MAX_STEPS):
        n_iter += 1
        weights = residual_weights(rows @ axes[0] - predicted)
        scatter = scatter_of(rows, weights, origin)
        solved = solve_loadings(scatter, make_penalty(scatter.n_features, request), axes, loadings)
        change = float(np.linalg.norm(solved.values - loadings))
        loadings, predicted = solved.values, rows @ solved.values[0]
        converged = change <= request.stop.tol * float(np.linalg.norm(loadings))
        length = float(np.linalg.norm(solved.images))
        if length > 0:
            axes = solved.images / length
    if request.refit:
        solution = SparseSolution(axes, loadings, solved.images, solved.alpha, n_iter, converged)
        loadings = refit(scatter, solution, request.l2, sequential=False, stop=request.stop).loadings
    return ResidualComponents(unit_rows(loadings), weights[:, None], solved.alpha, n_iter, converged)
