"""Sparse kernel PCA by maximum likelihood (Tipping 2000).

Features are modelled as a Gaussian whose covariance is built on r dictionary points d_i,

    phi(x) ~ N(0, C),        C = s2 I + sum_i w_i phi(d_i) phi(d_i)',        w_i >= 0

and the weights w maximise the likelihood of the rows for a given noise variance s2 per direction.  Most end at zero.
With K = k(D, D), k_n = k(D, x_n), N = sum of the rows' own weights, and W = diag(w),

    Sigma = W^1/2 (I + W^1/2 K W^1/2 / s2)^-1 W^1/2                    posterior covariance, by Cholesky of the bracket
    log-likelihood = -1/2 [ N logdet(I + W^1/2 K W^1/2 / s2) + sum_n (k_nn - k_n' Sigma k_n / s2) / s2 ]

up to a constant that the (possibly infinite) dimension of feature space gives.  The rows enter through
sum_n k_n k_n' = F F' and sum_n k_nn alone.

Three ways uphill, each step of each of them never down:

    coordinate   the one weight that gains most, to its best value (`coordinate_ascent`).  O(r m) a step.
    em           w_i <- mean_n mu_ni^2 + Sigma_ii,  mu_n = Sigma k_n / s2.  O(m^3) a sweep; prunes next to nothing.
    fast         w_i <- sum_n mu_ni^2 / (N (1 - Sigma_ii / w_i)), an EM step where this one would go down.
                 O(m^3) a sweep.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg

from ..threads import cached_property

# Looking for a noise variance: how far down at once, how often (to 1e-6), and how often the last step is halved.
NOISE_STEP, MAX_DESCENTS, BISECTIONS = 0.6, 27, 8


@dataclass(frozen=True)
class Likelihood:
    """What the likelihood needs of the rows: the gram of the dictionary and second moments over it."""

    gram: np.ndarray  # (r, r), K
    features: np.ndarray  # (r, p), F with F F' = sum_n k_n k_n'
    weight: float  # N
    length: float  # sum_n k_nn

    @cached_property
    def largest_noise_variance(self) -> float:
        """max_i mean_n k_in^2 / k_ii: from here on no single point is worth its weight."""
        energy, diagonal = np.einsum("ij,ij->i", self.features, self.features), np.diagonal(self.gram)
        return float(np.max(energy[diagonal > 0] / diagonal[diagonal > 0], initial=0.0)) / self.weight

    def posterior(self, active: np.ndarray, weights: np.ndarray, noise_variance: float) -> Posterior:
        """Sigma over the active points, and logdet(I + W^1/2 K W^1/2 / s2)."""
        if not active.size:
            return Posterior(np.empty((0, 0)), 0.0)
        root = np.sqrt(weights[active])
        bracket = root[:, None] * self.gram[np.ix_(active, active)] * (root / noise_variance)
        bracket[np.diag_indices_from(bracket)] += 1.0
        factor = scipy.linalg.cholesky(bracket, lower=True, overwrite_a=True, check_finite=False)
        half = scipy.linalg.solve_triangular(factor, np.diag(root), lower=True, check_finite=False)
        return Posterior(half, 2.0 * float(np.log(np.diagonal(factor)).sum()))

    def log_likelihood(self, weights: np.ndarray, noise_variance: float) -> float:
        """The log-likelihood of the rows, up to its constant."""
        active = np.flatnonzero(weights)
        posterior = self.posterior(active, weights, noise_variance)
        return self.value(
            posterior.logdet, float(np.sum((posterior.half @ self.features[active]) ** 2)), noise_variance
        )

    def value(self, logdet: float, explained: float, noise_variance: float) -> float:
        """The log-likelihood, given logdet(I + W^1/2 K W^1/2 / s2) and sum_n k_n' Sigma k_n."""
        return -0.5 * (self.weight * logdet + (self.length - explained / noise_variance) / noise_variance)


class Posterior(NamedTuple):
    """Sigma = half' half, and the log-determinant that comes with it."""

    half: np.ndarray  # (m, m)
    logdet: float


@dataclass(frozen=True)
class LikelihoodFit:
    """Weights at (or on the way to) a maximum of the likelihood."""

    weights: np.ndarray  # (r,)
    log_likelihood: np.ndarray  # before the first step and after each
    noise_variance: float
    converged: bool

    @property
    def active(self) -> np.ndarray:
        return np.flatnonzero(self.weights)

    @property
    def n_iter(self) -> int:
        return len(self.log_likelihood) - 1


def sweeps(
    likelihood: Likelihood,
    noise_variance: float,
    start: np.ndarray | None = None,
    *,
    fast: bool = True,
    max_iter: int = 10_000,
    tol: float = 1e-8,
    prune_tol: float = 1e-3,
) -> LikelihoodFit:
    """All weights at once by the published rules, from w = 1/r; done when a sweep gains no more than `tol` a row.

    A point leaves for good when w_i k_ii < prune_tol s2 and the likelihood does not fall by its leaving.
    """
    n_points = len(likelihood.gram)
    weights = np.full(n_points, 1.0 / n_points) if start is None else np.array(start, dtype=np.float64)
    current = _Sweep(likelihood, noise_variance, weights)
    history = [current.log_likelihood]
    converged = False
    for _ in range(max_iter):
        best = _Sweep(likelihood, noise_variance, current.fast_weights()) if fast else None
        if best is None or best.log_likelihood < current.log_likelihood:
            best = _Sweep(likelihood, noise_variance, current.em_weights())
        pruned = best.pruned(prune_tol)
        converged = best.log_likelihood - current.log_likelihood <= tol * likelihood.weight and pruned is best
        current = pruned
        history.append(current.log_likelihood)
        if converged:
            break
    return LikelihoodFit(current.weights, np.array(history), noise_variance, converged)


class _Sweep:
    """A model with all that one sweep needs of it."""

    def __init__(self, likelihood: Likelihood, noise_variance: float, weights: np.ndarray) -> None:
        self.likelihood, self.s2, self.weights = likelihood, noise_variance, weights
        self.active = np.flatnonzero(weights)
        posterior = likelihood.posterior(self.active, weights, noise_variance)
        half, features = posterior.half, likelihood.features[self.active]
        scores = half @ features
        self.log_likelihood = likelihood.value(posterior.logdet, float(np.sum(scores**2)), noise_variance)
        means = half.T @ scores / noise_variance
        self.mean_square = np.einsum("ij,ij->i", means, means) / likelihood.weight  # mean_n mu_ni^2
        self.variance = np.einsum("ij,ij->j", half, half)  # Sigma_ii

    def em_weights(self) -> np.ndarray:
        return self._scattered(self.mean_square + self.variance)

    def fast_weights(self) -> np.ndarray:
        determined = 1.0 - self.variance / self.weights[self.active]
        return self._scattered(self.mean_square / np.maximum(determined, np.finfo(float).tiny))

    def pruned(self, prune_tol: float) -> _Sweep:
        """Without the points whose weight is next to nothing, where that costs no likelihood."""
        active = self.weights[self.active]
        shares = active * np.diagonal(self.likelihood.gram)[self.active]
        small = shares < prune_tol * self.s2
        small[np.argmax(shares)] = False  # one is left, whatever its weight
        if not small.any():
            return self
        weights = self.weights.copy()
        weights[self.active[small]] = 0.0
        without = _Sweep(self.likelihood, self.s2, weights)
        return without if without.log_likelihood >= self.log_likelihood else self

    def _scattered(self, active_weights: np.ndarray) -> np.ndarray:
        weights = np.zeros_like(self.weights)
        weights[self.active] = active_weights
        return weights


def largest_within(
    n_support: int, limit: float, solve: Callable[[float, np.ndarray | None], LikelihoodFit]
) -> LikelihoodFit:
    """The model with the most, but at most `n_support`, points that is met on the way down from the upper `limit`.

    solve(noise_variance, start) fits; counts are not monotone in the noise variance, and some never occur.
    """
    best: LikelihoodFit | None = None
    high = limit
    for low in limit * NOISE_STEP ** np.arange(1.0, MAX_DESCENTS + 1):
        found = solve(float(low), None if best is None else best.weights)
        if len(found.active) > n_support:
            break
        high = low
        if best is None or len(found.active) >= len(best.active):
            best = found
        if len(found.active) == n_support:
            return best
    for _ in range(BISECTIONS if high > low else 0):
        middle = float(np.sqrt(high * low))
        found = solve(middle, None if best is None else best.weights)
        if len(found.active) > n_support:
            low = middle
            continue
        high = middle
        if best is None or len(found.active) >= len(best.active):
            best = found
        if len(found.active) == n_support:
            break
    if best is None:
        raise ValueError(
            f"no noise variance was found that leaves as few as n_support={n_support} vectors: give more, or a "
            f"noise_variance close to its upper end {limit:.6g}"
        )
    return best
