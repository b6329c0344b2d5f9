"""Sparse kernel PCA by maximum likelihood (Tipping 2000).

Features are modelled as a Gaussian whose covariance is built on r dictionary points d_i,

    phi(x) ~ N(0, C),        C = s2 I + sum_i w_i phi(d_i) phi(d_i)',        w_i >= 0

and the weights w maximise the likelihood of the rows for a given noise variance s2 per direction.  Most weights of the
maximum are zero.  With K = k(D, D), k_n = k(D, x_n), N = sum of the rows' own weights, and W = diag(w),

    Sigma = W^1/2 (I + W^1/2 K W^1/2 / s2)^-1 W^1/2                    posterior covariance, by Cholesky of the bracket
    log-likelihood = -1/2 [ N logdet(I + W^1/2 K W^1/2 / s2) + sum_n (k_nn - k_n' Sigma k_n / s2) / s2 ]

up to a constant that depends on the (possibly infinite) dimension of feature space.  The likelihood depends on the rows
only through sum_n k_n k_n' = F F' and sum_n k_nn.

There are three algorithms, and no step of any of them lowers the likelihood.  With r dictionary points, of which m have
a weight above zero,

    coordinate   starts from an empty model; a step sets the weight that gains most to its best value.  O(r m) a step.
    em           w_i <- mean_n mu_ni^2 + Sigma_ii,  mu_n = Sigma k_n / s2.  O(m^3) a sweep.  Hardly any weights become
                 zero.
    fast         w_i <- sum_n mu_ni^2 / (N (1 - Sigma_ii / w_i)).  O(m^3) a sweep.  If this would lower the likelihood,
                 an EM sweep replaces it.

A coordinate step uses S_i = phi_i' C^-1 phi_i and Q_i = sum_n (phi_i' C^-1 phi_n)^2.  With f = 1 - w_i S_i,
s = S_i / f and q = Q_i / (N f^2) are S_i and Q_i / N for C without point i.  Then the best value of w_i, with the other
weights fixed, is

    w_i = max(0, (q - s) / s^2)

Points that are near-copies exchange weight in ever smaller steps.  So at intervals all m weights are changed together,
by Fisher scoring: with g = (Q - N S) / 2 and B_ij = N (phi_i' C^-1 phi_j)^2 / 2, the new weights are

    argmin_{v >= 0} (v - w)' B (v - w) / 2 - g'(v - w)

a nonnegative least squares problem, which costs O(m^3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.optimize

from ..threads import cached_property
from .path import most_within

# One in this many steps is a joint step of all weights.  It also computes S, Q and Sigma from scratch, which single
# steps only update.
STEPS_BETWEEN_JOINT_STEPS = 16


@dataclass(frozen=True)
class Likelihood:
    """The likelihood, and all that it depends on: the dictionary's gram and the rows' second moments over it."""

    gram: np.ndarray  # (r, r), K
    features: np.ndarray  # (r, p), F with F F' = sum_n k_n k_n'
    weight: float  # N, the sum of the rows' own weights
    length: float  # sum_n k_nn

    @cached_property
    def largest_noise_variance(self) -> float:
        """max_i mean_n k_in^2 / k_ii; if the noise variance is larger than this, the best model is empty."""
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
    """Sigma = half' half, and logdet(I + W^1/2 K W^1/2 / s2)."""

    half: np.ndarray  # (m, m)
    logdet: float


@dataclass(frozen=True)
class LikelihoodFit:
    """The weights at a maximum of the likelihood, or where the iterations were stopped."""

    weights: np.ndarray  # (r,)
    log_likelihood: np.ndarray  # its values before the first step and after each step
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
    """Update all weights at once, by the algorithm `fast` or `em`, from w = 1/r unless there is a `start`.

    The iterations have converged when a sweep gains no more than `tol` a row.  Points with w_i k_ii < prune_tol s2 are
    removed for good, if removing all of them does not lower the likelihood.
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
    """A model, with everything that the next sweep needs to know of it."""

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
        """The model without points of negligible weight, or this model if their removal lowers the likelihood."""
        active = self.weights[self.active]
        shares = active * np.diagonal(self.likelihood.gram)[self.active]
        small = shares < prune_tol * self.s2
        small[np.argmax(shares)] = False  # at least one point stays, whatever its weight
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
    """The model with the most points, up to `n_support`, among those found for noise variances below `limit`.

    solve(noise_variance, start) fits a model, from the weights `start` or from none.
    """
    noise_variances = limit * 0.6 ** np.arange(1.0, 28)  # down to a millionth of the limit
    found = most_within(
        n_support, limit, noise_variances, lambda noise, best: solve(noise, None if best is None else best.weights), 8
    )
    if found is None:
        raise ValueError(
            f"no noise variance was found that leaves as few as n_support={n_support} vectors: give more, or a "
            f"noise_variance close to its upper end {limit:.6g}"
        )
    return found[1]


def coordinate_ascent(
    likelihood: Likelihood,
    noise_variance: float,
    start: np.ndarray | None = None,
    *,
    max_iter: int = 10_000,
    tol: float = 1e-8,
    max_support: int | None = None,
) -> LikelihoodFit:
    """Update one weight at a time, always the one that gains most, until none gains more than `tol` a row.

    The first step is taken if it gains anything, because below the largest noise variance the best model is not empty.
    If at most `max_support` points are wanted, the iterations stop at several times as many, because later steps would
    not remove enough of them.
    """
    state = _CoordinateState(likelihood, noise_variance, start)
    history = [likelihood.log_likelihood(state.weights, noise_variance)]
    safe = state.weights.copy(), history[0]  # weights whose likelihood was computed from scratch
    converged = False
    # On seven tables, with four widths and four noise levels, models with m points at the end had at most 3.3 m before.
    too_many = np.inf if max_support is None else 4 * max_support + 50
    for step in range(max_iter):
        if state.active.size > too_many:
            break
        if step % STEPS_BETWEEN_JOINT_STEPS == STEPS_BETWEEN_JOINT_STEPS - 1:
            gain = state.joint_step(tol * likelihood.weight)
            value = state.value(state.weights)
            converged = not value > safe[1]  # the likelihood has not increased: steps only follow rounding errors
            if converged:
                break
            safe = state.weights.copy(), value
            if gain > 0:
                history.append(history[-1] + gain)
                continue
        proposed, gains = state.proposals()
        best = int(np.argmax(gains))
        converged = not gains[best] > tol * likelihood.weight
        if converged and (state.active.size or not gains[best] > 0):
            break
        state.change(best, float(proposed[best]))
        history.append(history[-1] + float(gains[best]))
    weights, value = state.weights, likelihood.log_likelihood(state.weights, noise_variance)
    if value < safe[1]:
        weights, value = safe
    history[-1] = value
    # The sum of gains has rounding errors, so it may exceed the final value.
    return LikelihoodFit(weights, np.minimum(history, value), noise_variance, converged)


class _CoordinateState:
    """S and Q of every point, with rank-one updates when a weight changes.

    For the active points A, the state also has Sigma and the columns K_.A and E_.A of K and of E = F F'.  With
    z = Sigma K_Ai / s2, the inner products of all points with point i under C^-1 (called t) and under
    C^-1 (sum_n phi_n phi_n') C^-1 (called x) are

        t = (K_.i - K_.A z) / s2        x = (E_.i - E_.A z - K_.A Sigma (E_Ai - E_AA z) / s2) / s2^2

    If w_i grows by delta, then with c = delta / (1 + delta S_i),  S <- S - c t^2,  Q <- Q - c t (2 x - c t x_i).
    """

    def __init__(self, likelihood: Likelihood, noise_variance: float, start: np.ndarray | None) -> None:
        self.likelihood = likelihood
        self.s2 = noise_variance
        n_points = len(likelihood.gram)
        self.weights = np.zeros(n_points) if start is None else np.array(start, dtype=np.float64)
        self.active = np.flatnonzero(self.weights)
        self._lengths = np.einsum("ij,ij->i", likelihood.features, likelihood.features)
        self._tiny_noise = noise_variance < 1e-6 * likelihood.largest_noise_variance
        self._columns = likelihood.gram[:, self.active]
        self._energies = likelihood.features @ likelihood.features[self.active].T
        self.refresh()

    def refresh(self) -> None:
        """Compute Sigma, S and Q from the weights alone, which removes the errors of earlier updates."""
        likelihood, s2 = self.likelihood, self.s2
        half, _ = likelihood.posterior(self.active, self.weights, s2)
        self._sigma = half.T @ half
        shrunk = self._columns @ self._sigma / s2  # K_.A Sigma / s2
        self.S = (np.diagonal(likelihood.gram) - np.einsum("ij,ij->i", shrunk, self._columns)) / s2
        self.Q = self._squares_left(shrunk) / s2**2

    def _squares_left(self, shrunk: np.ndarray) -> np.ndarray:
        """sum_n (k_in - K_iA Sigma k_An / s2)^2 for every point i."""
        features = self.likelihood.features
        if self._tiny_noise:  # the shorter formula below would lose digits to cancellation
            self._left = features - shrunk @ features[self.active]
            return np.einsum("ij,ij->i", self._left, self._left)
        inner = self._energies - 0.5 * shrunk @ self._energies[self.active]
        return self._lengths - 2.0 * np.einsum("ij,ij->i", shrunk, inner)

    def proposals(self) -> tuple[np.ndarray, np.ndarray]:
        """For every point, its best weight given the other weights, and the gain in likelihood from it."""
        weights, n = self.weights, self.likelihood.weight
        left = 1.0 - weights * self.S
        usable = (self.S > 0) & (self.S**2 > 0) & (left > 0)  # a point of zero length has no best weight
        left = np.where(usable, left, 1.0)
        s = np.where(usable, self.S / left, 1.0)
        q = np.where(usable, np.maximum(self.Q, 0.0) / (n * left**2), 0.0)
        proposed = np.maximum((q - s) / s**2, 0.0)
        gains = 0.5 * n * (_value(proposed, s, q) - _value(weights, s, q))
        return proposed, np.where(usable, gains, -np.inf)

    def change(self, i: int, weight: float) -> None:
        """Change the weight of point i, which may add the point to the model or remove it."""
        s2, before = self.s2, float(self.weights[i])
        if before == 0.0:
            column, energy = self.likelihood.gram[:, i], self.likelihood.features @ self.likelihood.features[i]
        else:
            place = int(np.flatnonzero(self.active == i)[0])
            column, energy = self._columns[:, place], self._energies[:, place]
        z = self._sigma @ column[self.active] / s2
        leftover = energy - self._energies @ z
        y = self._sigma @ leftover[self.active] / s2
        t = (column - self._columns @ z) / s2
        x = (leftover - self._columns @ y) / s2**2
        delta = weight - before
        c = delta / (1.0 + delta * t[i])
        precision = 1.0 / weight + t[i] if before == 0.0 else 0.0
        self.S -= c * t**2
        if self._tiny_noise:
            self._left -= np.outer(c * t, self._left[i])
            self.Q = np.einsum("ij,ij->i", self._left, self._left) / s2**2
        else:
            self.Q -= c * t * (2.0 * x - c * t * x[i])
        self.weights[i] = weight
        if before == 0.0:
            self._border(i, z, precision, column, energy)
        elif weight == 0.0:
            self._delete(place)
        elif bend := 1.0 / weight - 1.0 / before:  # it is zero if the change is smaller than rounding
            row = self._sigma[place]
            self._sigma = self._sigma - np.outer(row, row / (1.0 / bend + row[place]))

    def joint_step(self, worth: float = 0.0) -> float:
        """Change all active weights at once by Fisher scoring, halving the step until the likelihood increases.

        Return the gain; 0 if there is none, or if the step promises no more than `worth`.
        """
        target = self._scoring_target(worth)
        gain = 0.0
        if target is not None:
            before, now = self.weights[self.active], self.value(self.weights)
            for halvings in range(10):
                trial = self.weights.copy()
                trial[self.active] = before + (target - before) / 2**halvings
                gain = self.value(trial) - now
                if gain > 0:
                    self.weights = trial
                    break
        kept = self.weights[self.active] > 0
        self.active, self._columns, self._energies = self.active[kept], self._columns[:, kept], self._energies[:, kept]
        self.refresh()
        return max(gain, 0.0)

    def _scoring_target(self, worth: float) -> np.ndarray | None:
        """argmin_{v >= 0} (v - w)' B (v - w) / 2 - g'(v - w) over the active weights.

        None if it cannot be computed, or if it promises no more than `worth`, because such a gain is rounding.
        """
        n, active, s2 = self.likelihood.weight, self.active, self.s2
        gram, weights = self._columns[active], self.weights[active]
        information = 0.5 * n * ((gram - gram @ self._sigma @ gram / s2) / s2) ** 2
        information[np.diag_indices_from(information)] *= 1.0 + 1e-10  # copies of a point would make it singular
        gradient = 0.5 * (self.Q[active] - n * self.S[active])
        try:
            root = scipy.linalg.cholesky(information, check_finite=False)
            wanted = scipy.linalg.solve_triangular(root, gradient + information @ weights, trans=1, check_finite=False)
            target: np.ndarray = scipy.optimize.nnls(root, wanted)[0]
        except (np.linalg.LinAlgError, RuntimeError):
            return None
        step = target - weights
        return target if float(gradient @ step) - 0.5 * float(step @ information @ step) > worth else None

    def value(self, weights: np.ndarray) -> float:
        """The log-likelihood of `weights` (r,), which are zero for all points that are not active."""
        if self._tiny_noise:
            return self.likelihood.log_likelihood(weights, self.s2)
        energy, used = self._energies[self.active], weights[self.active] > 0
        half, logdet = self.likelihood.posterior(self.active[used], weights, self.s2)
        explained = float(np.einsum("ij,ij->", half @ energy[np.ix_(used, used)], half))
        return self.likelihood.value(logdet, explained, self.s2)

    def _border(self, i: int, z: np.ndarray, precision: float, column: np.ndarray, energy: np.ndarray) -> None:
        edge = -z / precision
        self._sigma = np.block([[self._sigma - np.outer(z, edge), edge[:, None]], [edge, np.full(1, 1.0 / precision)]])
        self.active = np.append(self.active, i)
        self._columns = np.column_stack([self._columns, column])
        self._energies = np.column_stack([self._energies, energy])

    def _delete(self, place: int) -> None:
        row = self._sigma[place]
        sigma = self._sigma - np.outer(row, row / row[place])
        kept = np.arange(len(self.active)) != place
        self._sigma = sigma[np.ix_(kept, kept)]
        self.active = self.active[kept]
        self._columns, self._energies = self._columns[:, kept], self._energies[:, kept]


def _value(weights: np.ndarray, s: np.ndarray, q: np.ndarray) -> np.ndarray:
    """2/N times the gain in log-likelihood from adding each point with this weight to the model without it."""
    return weights * q / (1.0 + weights * s) - np.log1p(weights * s)
