"""Gradient rules: components that follow Sanger's rule in feature space.

Components psi_k = sum_i a_ik phi(s_i), scores y = psi' (phi(x) - mean), step eta_t = eta_0 / (1 + t / t_0):

    psi_k += eta y_k (phi(x) - mean - sum_{l <= k} y_l psi_l)
    A     += eta ((b - c) y' - A UT[y y'])          b: phi(x) over the points, c: the mean over them

The mean is that of the rows so far; <psi, mean> and |mean|^2 are updated as well, so that no gram is needed.  A step
is no longer than 1 / |y|^2: beyond that the rule diverges.

The kernel Hebbian algorithm (Kim, Franz & Schoelkopf 2005) keeps every row, with b its unit vector; with a budget, the
row with the smallest coefficients is removed.

Online kernel PCA with a coherence dictionary (Honeine 2012) admits a row if it is similar to none of the points,

    max_d |k(x, d)| / sqrt(k(x, x) k(d, d)) <= mu_0

(such a dictionary is finite on a compact set); otherwise the row is replaced by its projection, b = K_DD^-1 k(D, x).
The first rows, as many as components, are admitted in any case.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...arrays import solve_lower
from .base import Change, Rule, RuleSolution, coherence_with, entered


@dataclass
class Sanger(Rule):
    """Components that follow Sanger's rule, from the first rows that are independent of each other."""

    lower: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # of the first rows, or of the dictionary
    coef: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # A
    mean_coef: np.ndarray = field(default_factory=lambda: np.zeros(0))  # c
    mean_scores: np.ndarray = field(default_factory=lambda: np.zeros(0))  # <psi, mean>
    mean_square: float = 0.0  # |mean|^2
    weight: float = 0.0
    n_steps: int = 0

    @property
    def ready(self) -> bool:
        return self.coef.shape[1] == self.settings.n_components

    def solution(self) -> RuleSolution:
        return RuleSolution(self.coef, self.mean_coef if self.settings.center else None, False)

    def start(self, inside: np.ndarray, length: float, weight: float) -> bool:
        """Build a basis from the first independent rows, one for each component; return whether this row is among
        them."""
        lower = entered(self.lower, inside, length)
        if lower is None:
            return False
        self.lower, m = lower, len(lower)
        self.weight += weight
        self.mean_coef = np.append(self.mean_coef * (1 - weight / self.weight), weight / self.weight)
        if m == self.settings.n_components:
            self.coef = solve_lower(lower, np.eye(m), transpose=True)
            mean = lower.T @ self.mean_coef
            self.mean_scores, self.mean_square = mean.copy(), float(mean @ mean)
        return True

    def grow(self) -> None:
        """Add room for one more point."""
        self.coef = np.vstack([self.coef, np.zeros(self.settings.n_components)])
        self.mean_coef = np.append(self.mean_coef, 0.0)

    def learn(self, row: np.ndarray, cross: np.ndarray, length: float, weight: float) -> None:
        """One step; `row` are the row's coefficients over the points, `length` is k(x, x), `cross` its kernel values
        with them."""
        s = self.settings
        self.n_steps += 1
        scores, with_mean = cross @ self.coef, float(cross @ self.mean_coef)
        if s.center:
            self.weight = self.weight * s.kept_share + weight
            step = weight / self.weight
            self.mean_coef = (1 - step) * self.mean_coef + step * row
            self.mean_scores = (1 - step) * self.mean_scores + step * scores
            self.mean_square = (1 - step) ** 2 * self.mean_square + 2 * step * (1 - step) * with_mean + step**2 * length
            scores = scores - self.mean_scores
            with_mean = (1 - step) * with_mean + step * length
        rate = weight * s.learning_rate / (1 + self.n_steps / s.learning_decay)
        rate = min(rate, 1.0 / max(float(scores @ scores), 1e-300))  # a longer step would overshoot and diverge
        mixing = rate * np.triu(np.outer(scores, scores))
        change = row - self.mean_coef if s.center else row
        self.coef = self.coef + rate * np.outer(change, scores) - self.coef @ mixing
        if s.center:
            along = rate * scores * (with_mean - self.mean_square)
            self.mean_scores = self.mean_scores + along - self.mean_scores @ mixing


@dataclass
class Hebbian(Sanger):
    """Every row is a point."""

    gram: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # of the points, if there is a budget

    def step(self, cross: np.ndarray, length: float, weight: float) -> Change:
        if not self.ready:
            started = self.start(solve_lower(self.lower, cross) if len(cross) else cross, length, weight)
            if started and self.settings.budget is not None:
                self.gram = _grown(self.gram, cross, length)
            return Change(enters=started)
        self.grow()
        row = np.zeros(len(cross) + 1)
        row[-1] = 1.0
        with_itself = np.append(cross, length)
        self.learn(row, with_itself, length, weight)
        if self.settings.budget is None:
            return Change(enters=True)
        self.gram = _grown(self.gram, cross, length)
        if len(self.gram) <= self.settings.budget:
            return Change(enters=True)
        return Change(enters=True, leaves=(self._leave(),))

    def _leave(self) -> int:
        """Remove the point that contributes least to the components."""
        place = int(np.argmin(np.einsum("ij,ij->i", self.coef, self.coef) * np.diagonal(self.gram)))
        self.gram = np.delete(np.delete(self.gram, place, axis=0), place, axis=1)
        self.coef, self.mean_coef = np.delete(self.coef, place, axis=0), np.delete(self.mean_coef, place)
        total = self.mean_coef.sum()
        if total > 0:
            self.mean_coef = self.mean_coef / total
        products = self.gram @ self.mean_coef
        self.mean_scores, self.mean_square = products @ self.coef, float(products @ self.mean_coef)
        return place


def _grown(gram: np.ndarray, cross: np.ndarray, length: float) -> np.ndarray:
    return np.block([[gram, cross[:, None]], [cross, np.array([length])]]) if len(cross) else np.array([[length]])


@dataclass
class Coherence(Sanger):
    """Sanger's rule over a dictionary of mutually dissimilar rows."""

    def step(self, cross: np.ndarray, length: float, weight: float) -> Change:
        inside = solve_lower(self.lower, cross) if len(cross) else cross
        room = self.settings.budget is None or len(cross) < self.settings.budget
        if not self.ready:
            return Change(enters=self.start(inside, length, weight))
        unlike = room and coherence_with(cross, length, self.lower) <= self.settings.coherence
        lower = entered(self.lower, inside, length) if unlike else None
        if lower is None:
            row = solve_lower(self.lower, inside, transpose=True)
            self.learn(row, cross, float(inside @ inside), weight)
            return Change()
        self.lower = lower
        self.grow()
        row = np.zeros(len(lower))
        row[-1] = 1.0
        self.learn(row, np.append(cross, length), length, weight)
        return Change(enters=True)
