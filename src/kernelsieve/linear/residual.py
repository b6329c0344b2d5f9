"""Wang & Cheng's robust sparse PCA (2012), repaired as little as it takes to have a solution.

For one component after another, on the rows X as the earlier ones left them, the paper repeats

    e = X a - X b                                  the residual of each row
    w_i = 1 / (1 + exp(mu (e_i^2 - delta)))        delta the tau-quantile of e^2, mu = c / delta  (8)
    b = argmin |W^1/2 (X a - X b)|^2 + l2 |b|^2 + gamma1 |b|_1                                   (13)
    a = argmin |W^1/2 (X a - X b)|^2 + l2_alpha |a|^2 + gamma2 |a|_1                             (14)

and deflates, X <- X - X b b' (12).  As printed the two problems together are convex and a = b = 0 is their minimum,
which the iteration reaches.  Repaired: a has unit length; the deflation takes b of unit length, which makes it a
projection; both gammas are relative to the values that empty b and a.  With l2_alpha = inf and gamma2 = 0, the
default, a = X'WX b / |X'WX b|, which is its best value in sum_i w_i |x_i - a b'x_i|^2.

What repair cannot change is that e measures how much b was shrunk, not how far a row is off: rows with large scores
lose weight, outliers among them or not.  Here for reproduction; `robust` is the form to use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from .alternation import SparseSolution, refit, unit_rows
from .elastic_net import Penalty, solve_loadings
from .fitting import Request, make_penalty, starting_axes
from .robust import STEEPNESS
from .scatter import Scatter, scatter_of

# Weights and loadings chase each other: what has not settled by then circles.
MAX_STEPS = 100


@dataclass(frozen=True)
class ResidualForm:
    """The parameters of the paper's scheme that no other form has, with the paper's values where they can be had."""

    tau: float = 0.5  # delta is this quantile of e^2
    c: float = STEEPNESS  # mu delta
    gamma2: float = 0.0  # l1 weight of a, in the scale of the request's alpha
    l2_alpha: float = math.inf  # l2 weight of a

    def over(self, unit: float, scale: str) -> ResidualForm:
        """The same of rows that are counted in this unit."""
        gamma2 = self.gamma2 / unit**2 if scale == "absolute" else self.gamma2
        return replace(self, gamma2=gamma2, l2_alpha=self.l2_alpha / unit**2)

    def weights(self, residuals: np.ndarray) -> np.ndarray:
        """Equation (8), with delta and mu as in the paper's section 4."""
        squared = residuals**2
        count = max(int(self.tau * len(squared)), 1)
        delta = float(np.partition(squared, count - 1)[count - 1])
        return expit(self.c * (1.0 - squared / delta)) if delta > 0 else np.ones(len(squared))

    def axis(self, scatter: Scatter, loadings: np.ndarray, images: np.ndarray, scale: str) -> np.ndarray:
        """Equation (14), not yet of unit length; (1, p) as `loadings` and their images X'WX b."""
        if not self.gamma2 and math.isinf(self.l2_alpha):
            return images
        amount = np.array([self.gamma2])
        penalty = Penalty(self.l2_alpha, **{"share" if scale == "relative" else "alpha": amount})
        return solve_loadings(scatter, penalty, loadings, np.zeros_like(loadings)).values


@dataclass(frozen=True)
class ResidualComponents:
    """Components, and the weights that each was fitted with."""

    components: np.ndarray  # (M, p) unit rows
    weights: np.ndarray  # (n, M)
    alpha: np.ndarray  # (M,) absolute
    n_iter: int
    converged: bool


def residual_components(rows: np.ndarray, request: Request, form: ResidualForm) -> ResidualComponents:
    """The paper's components of centred rows."""
    found = []
    for j in range(request.n_components):
        found.append(_one_component(rows, _only(request, j), form))
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


def _one_component(rows: np.ndarray, request: Request, form: ResidualForm) -> ResidualComponents:
    origin = np.zeros(rows.shape[1])
    axes = starting_axes(scatter_of(rows, None, origin), 1)
    loadings = np.zeros_like(axes)
    predicted = rows.mean(axis=1)
    converged, n_iter = False, 0
    while not converged and n_iter < min(request.stop.max_iter, MAX_STEPS):
        n_iter += 1
        weights = form.weights(rows @ axes[0] - predicted)
        scatter = scatter_of(rows, weights, origin)
        solved = solve_loadings(scatter, make_penalty(scatter.n_features, request), axes, loadings)
        change = float(np.linalg.norm(solved.values - loadings))
        loadings, predicted = solved.values, rows @ solved.values[0]
        converged = change <= request.stop.tol * float(np.linalg.norm(loadings))
        axis = form.axis(scatter, loadings, solved.images, request.alpha_scale)
        length = float(np.linalg.norm(axis))
        if length > 0:
            axes = axis / length
    if request.refit:
        solution = SparseSolution(axes, loadings, solved.images, solved.alpha, n_iter, converged)
        loadings = refit(scatter, solution, request.l2, sequential=False, stop=request.stop).loadings
    return ResidualComponents(unit_rows(loadings), weights[:, None], solved.alpha, n_iter, converged)
