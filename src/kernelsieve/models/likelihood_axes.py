"""From the weights of a likelihood to principal axes, and the noise variance at which they explain enough.

The model's covariance is sum_i w_i phi(x_i) phi(x_i)' and noise.  With W^1/2 K W^1/2 = U Lam U' over the vectors of
positive weight, its axes have the coefficients W^1/2 U Lam^-1/2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..arrays import top_eigh
from ..fit.span import Span
from ..numerics import DEPENDENT, SOLVED
from ..solvers.likelihood import Likelihood, LikelihoodFit, coordinate_ascent
from ..spectrum.top import component_signs

# Without a parameter for sparsity, the noise variance is lowered in steps of this factor until the vectors explain this
# share of the variance about the mean, or are this many.
ENOUGH, MOST_VECTORS = 0.95, 60
NOISE_STEP_DOWN, MAX_STEPS_DOWN = 0.3, 20
SMALLEST_NOISE = 1e-100  # share of the largest admissible noise variance: dividing by the square of less overflows


@dataclass(frozen=True)
class Axes:
    """The principal axes of a model."""

    places: np.ndarray  # (m,) of the vectors among the candidates, in the order of the rows
    coef: np.ndarray  # (m, M), orthonormal in feature space
    eigenvalues: np.ndarray  # (M,) of sum_i w_i phi_i phi_i'
    variances: np.ndarray  # (M,) of the training rows' scores


def sufficient(likelihood: Likelihood, span: Span, *, max_iter: int = 10_000, tol: float = 1e-8) -> LikelihoodFit:
    """The first model on the way down from the largest noise variance that explains enough, of not too many vectors.

    What is explained is measured against the variance about the mean, also where features are not centred: else the
    mean alone, which one vector of a wide kernel explains, would do.
    """
    spread = max(span.mean_length - span.mean_square, DEPENDENT * span.mean_length)
    best: LikelihoodFit | None = None
    for step in range(1, MAX_STEPS_DOWN + 1):
        noise_variance = likelihood.largest_noise_variance * NOISE_STEP_DOWN**step
        start = None if best is None else best.weights
        found = coordinate_ascent(likelihood, noise_variance, start, max_iter=max_iter, tol=tol)
        if best is not None and len(found.active) > MOST_VECTORS:
            return best
        best = found
        explained = float(axes_of(span, found, None).variances.sum())
        if span.total_variance - explained <= (1 - ENOUGH) * spread or len(found.active) >= MOST_VECTORS:
            return best
    assert best is not None
    return best


def likelihood_on(span: Span) -> Likelihood:
    """The likelihood of all rows, as a function of the candidate rows' weights."""
    return Likelihood(span.gram, span.features, span.weight, span.weight * span.total_variance)


def _orthonormalised(coef: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """Coefficients made orthonormal once more, in order; under a wide kernel only those that rounding allows."""
    factor = np.linalg.cholesky(coef.T @ gram @ coef)
    coef = scipy.linalg.solve_triangular(factor, coef.T, lower=True).T
    off = np.abs(coef.T @ gram @ coef - np.eye(coef.shape[1]))
    within = np.maximum.accumulate(np.maximum(np.tril(off).max(axis=1), np.triu(off).max(axis=0))) <= SOLVED
    return coef[:, : max(1, int(within.sum()))]


def axes_of(span: Span, found: LikelihoodFit, n_components: int | None) -> Axes:
    """W^1/2 K W^1/2 = U Lam U' over the vectors: coefficients W^1/2 U Lam^-1/2, orthonormalised once more."""
    assert span.indices is not None
    places = found.active[np.argsort(span.indices[found.active])]
    gram, root = span.gram_at(places), np.sqrt(found.weights[places])
    if not len(places):
        raise ValueError(
            "the likelihood leaves no vector on these rows: give a larger noise_variance, or a noise_fraction"
        )
    values, vectors = top_eigh(root[:, None] * gram * root)
    n_axes = int(np.sum(values > DEPENDENT * values[0]))
    n_axes = n_axes if n_components is None else min(n_components, n_axes)
    coef = root[:, None] * vectors[:, :n_axes] / np.sqrt(values[:n_axes])
    coef = _orthonormalised(coef, gram)
    coef = coef * component_signs(coef)
    scores = coef.T @ span.features[places]
    return Axes(places, coef, values[: coef.shape[1]], np.einsum("ij,ij->i", scores, scores) / span.weight)


def check_not_tiny(noise_variance: float, limit: float) -> None:
    """Refuse a noise variance so small beside the largest admissible one that its square underflows."""
    if noise_variance < SMALLEST_NOISE * limit:
        raise ValueError(
            f"noise_variance={noise_variance:.6g} is too small to compute with beside the variance of these rows, of "
            f"which at most {limit:.6g} is noise: give a larger noise_variance, or a noise_fraction, or n_support"
        )
