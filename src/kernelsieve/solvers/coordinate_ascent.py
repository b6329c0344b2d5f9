"""Maximum likelihood one weight at a time, always the one that gains most (the model is that of `likelihood`).

With S_i = phi_i' C^-1 phi_i, Q_i = sum_n (phi_i' C^-1 phi_n)^2, and w_i taken out of C by f = 1 - w_i S_i, s = S_i / f,
q = Q_i / (N f^2), the best value of one weight, the others as they are, is known:

    w_i = max(0, (q - s) / s^2)

Take the i that gains most, from an empty model.  O(r m) a step.  Near-copies hand weight to one another in ever smaller
steps, so now and then all m weights move at once, by Fisher scoring: with g = (Q - N S) / 2 and
B_ij = N (phi_i' C^-1 phi_j)^2 / 2,

    min_{v >= 0} (v - w)' B (v - w) / 2 - g'(v - w)

which is a nonnegative least squares problem.  O(m^3).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.optimize

from .likelihood import Likelihood, LikelihoodFit

# Steps of one weight between steps of all; as many rank-one updates are made before S, Q and Sigma are made anew.
STEPS_BETWEEN_JOINT_STEPS = 16
# Share of the largest noise variance below which the squares of Q are summed the long way.
TINY_NOISE = 1e-6
# A model that ends with m points has had at most 3.3 m on the way (seven tables, four widths, four noise levels).
NEVER_SHED = 4, 50
HALVINGS = 10  # of a joint step, before it is given up
RELATIVE_JITTER = 1e-10  # of the diagonal of the information matrix, which copies of a point make singular


def coordinate_ascent(
    likelihood: Likelihood,
    noise_variance: float,
    start: np.ndarray | None = None,
    *,
    max_iter: int = 10_000,
    tol: float = 1e-8,
    max_support: int | None = None,
) -> LikelihoodFit:
    """One weight at a time, always the one that gains most; done when none gains more than `tol` a row.

    The first step is taken whatever it gains: no model is empty below the largest noise variance.  A model that is
    wanted with at most `max_support` points is given up once it has many times as many: on its way it sheds some, never
    nearly as many.
    """
    state = _CoordinateState(likelihood, noise_variance, start)
    history = [likelihood.log_likelihood(state.weights, noise_variance)]
    safe = state.weights.copy(), history[0]  # weights whose likelihood is known free of the steps' rounding
    converged = False
    too_many = np.inf if max_support is None else NEVER_SHED[0] * max_support + NEVER_SHED[1]
    for step in range(max_iter):
        if state.active.size > too_many:
            break
        if step % STEPS_BETWEEN_JOINT_STEPS == STEPS_BETWEEN_JOINT_STEPS - 1:
            gain = state.joint_step(tol * likelihood.weight)
            value = state.value(state.weights)
            converged = not value > safe[1]  # the noise is so small that steps follow rounding
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
    return LikelihoodFit(weights, np.minimum(history, value), noise_variance, converged)  # gains carry rounding


class _CoordinateState:
    """S and Q of every point, kept up to date by rank-one updates as weights change.

    For the active points A are kept: columns K_.A and E_.A of K and of E = F F', and Sigma.  With z = Sigma K_Ai / s2,
    inner products of all points with point i under C^-1, and under C^-1 (sum_n phi_n phi_n') C^-1, are

        t = (K_.i - K_.A z) / s2        x = (E_.i - E_.A z - K_.A Sigma (E_Ai - E_AA z) / s2) / s2^2

    and raising w_i by delta gives, with c = delta / (1 + delta S_i),  S <- S - c t^2,  Q <- Q - c t (2 x - c t x_i).
    """

    def __init__(self, likelihood: Likelihood, noise_variance: float, start: np.ndarray | None) -> None:
        self.likelihood = likelihood
        self.s2 = noise_variance
        n_points = len(likelihood.gram)
        self.weights = np.zeros(n_points) if start is None else np.array(start, dtype=np.float64)
        self.active = np.flatnonzero(self.weights)
        self._lengths = np.einsum("ij,ij->i", likelihood.features, likelihood.features)
        self._tiny_noise = noise_variance < TINY_NOISE * likelihood.largest_noise_variance
        self._columns = likelihood.gram[:, self.active]
        self._energies = likelihood.features @ likelihood.features[self.active].T
        self.refresh()

    def refresh(self) -> None:
        """Sigma, S and Q from the weights alone."""
        likelihood, s2 = self.likelihood, self.s2
        half, _ = likelihood.posterior(self.active, self.weights, s2)
        self._sigma = half.T @ half
        shrunk = self._columns @ self._sigma / s2  # K_.A Sigma / s2
        self.S = (np.diagonal(likelihood.gram) - np.einsum("ij,ij->i", shrunk, self._columns)) / s2
        self.Q = self._squares_left(shrunk) / s2**2

    def _squares_left(self, shrunk: np.ndarray) -> np.ndarray:
        """sum_n (k_in - K_iA Sigma k_An / s2)^2 of every point i."""
        features = self.likelihood.features
        if self._tiny_noise:  # the short form cancels
            self._left = features - shrunk @ features[self.active]
            return np.einsum("ij,ij->i", self._left, self._left)
        inner = self._energies - 0.5 * shrunk @ self._energies[self.active]
        return self._lengths - 2.0 * np.einsum("ij,ij->i", shrunk, inner)

    def proposals(self) -> tuple[np.ndarray, np.ndarray]:
        """For every point its best weight, the others as they are, and what that would gain."""
        weights, n = self.weights, self.likelihood.weight
        left = 1.0 - weights * self.S
        usable = (self.S > 0) & (self.S**2 > 0) & (left > 0)  # a point without length cannot carry weight
        left = np.where(usable, left, 1.0)
        s = np.where(usable, self.S / left, 1.0)
        q = np.where(usable, np.maximum(self.Q, 0.0) / (n * left**2), 0.0)
        proposed = np.maximum((q - s) / s**2, 0.0)
        gains = 0.5 * n * (_value(proposed, s, q) - _value(weights, s, q))
        return proposed, np.where(usable, gains, -np.inf)

    def change(self, i: int, weight: float) -> None:
        """Give point i another weight: add it, change it, or delete it."""
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
        elif bend := 1.0 / weight - 1.0 / before:  # a step so short that it is none changes nothing
            row = self._sigma[place]
            self._sigma = self._sigma - np.outer(row, row / (1.0 / bend + row[place]))

    def joint_step(self, worth: float = 0.0) -> float:
        """Move all active weights at once, as far as the likelihood rises; what it gained, none if not `worth` it."""
        target = self._scoring_target(worth)
        gain = 0.0
        if target is not None:
            before, now = self.weights[self.active], self.value(self.weights)
            for halvings in range(HALVINGS):
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

        None where it cannot be found, or where it promises less than `worth`: all that is left then is rounding.
        """
        n, active, s2 = self.likelihood.weight, self.active, self.s2
        gram, weights = self._columns[active], self.weights[active]
        information = 0.5 * n * ((gram - gram @ self._sigma @ gram / s2) / s2) ** 2
        information[np.diag_indices_from(information)] *= 1.0 + RELATIVE_JITTER
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
        """The log-likelihood, for weights on active points alone."""
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
    """2/N times what a weight adds to the log-likelihood of the model without it."""
    return weights * q / (1.0 + weights * s) - np.log1p(weights * s)
