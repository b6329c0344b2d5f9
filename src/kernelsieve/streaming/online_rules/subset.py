"""Adaptive subset kernel PCA (Washizawa 2009, 2012; Tanaka 2015): the moments of all rows over a dictionary.

With f(x) = L^-1 k(D, x), the best components in span(phi(D)) are the leading eigenvectors of the covariance C of f,
coefficients A = L^-T V.  They are orthonormal in feature space, A' K_DD A = I, and their scores are uncorrelated, V' C
V diagonal: the double orthogonality.  Mean and covariance are updated row by row, with forgetting; a row dissimilar to
all in the dictionary enters it (see `sanger.py`; the first rows, which the components need, enter in any case).  If
the dictionary is full and the stream forgets, such a row replaces the point whose removal loses least,

    min_i sum_k lambda_k a_ik^2 / (K_DD^-1)_ii

On a fixed dictionary this is subset kernel PCA of all rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...arrays import solve_lower, top_eigh
from ...numerics import DEPENDENT
from .base import Change, Rule, RuleSolution, coherence_with, entered, kept


@dataclass
class Subset(Rule):
    """Mean and scatter in the coordinates of the dictionary."""

    lower: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    mean: np.ndarray = field(default_factory=lambda: np.zeros(0))
    scatter: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    weight: float = 0.0

    @property
    def ready(self) -> bool:
        n_points, n_components = len(self.lower), self.settings.n_components
        if n_points != n_components or not self.settings.center:
            return n_points >= n_components
        # enough as soon as there are as many points as components, if they span all features
        values, _ = self._components()
        return bool(values[-1] > DEPENDENT * values[0])

    @property
    def _filling(self) -> bool:
        """Whether every row still becomes a point, as the first ones do; centring needs one more."""
        return len(self.lower) < self.settings.n_components + int(self.settings.center)

    def step(self, cross: np.ndarray, length: float, weight: float) -> Change:
        inside = solve_lower(self.lower, cross) if len(cross) else cross
        change = self._admit(cross, inside, length)
        if change.enters:
            inside = self.lower[-1]
            if change.leaves:
                inside = self._leave(change.leaves[0])
        self._follow(inside, weight)
        return change

    def solution(self) -> RuleSolution:
        _, vectors = self._components()
        coef = solve_lower(self.lower, vectors, transpose=True)
        mean = solve_lower(self.lower, self.mean, transpose=True) if self.settings.center else None
        return RuleSolution(coef, mean, True)

    def _components(self) -> tuple[np.ndarray, np.ndarray]:
        covariance = self.scatter / self.weight
        if not self.settings.center:
            covariance = covariance + np.outer(self.mean, self.mean)
        values, vectors = top_eigh(covariance, self.settings.n_components)
        return np.maximum(values, 0.0), vectors

    def _admit(self, cross: np.ndarray, inside: np.ndarray, length: float) -> Change:
        """Whether the row enters the dictionary, adding a coordinate, and which point is removed for it."""
        s = self.settings
        full = s.budget is not None and len(cross) >= s.budget
        if full and s.rate == 0:
            return Change()
        if not self._filling and coherence_with(cross, length, self.lower) > s.coherence:
            return Change()
        lower = entered(self.lower, inside, length)
        if lower is None:
            return Change()
        leaves = (self._least_missed(),) if full else ()
        self.lower = lower
        self.mean, self.scatter = np.append(self.mean, 0.0), np.pad(self.scatter, (0, 1))
        return Change(enters=True, leaves=leaves)

    def _least_missed(self) -> int:
        values, vectors = self._components()
        inverse = solve_lower(self.lower, np.eye(len(self.lower)))
        coef = inverse.T @ vectors
        return int(np.argmin((coef**2 @ values) / np.einsum("ij,ij->j", inverse, inverse)))

    def _leave(self, place: int) -> np.ndarray:
        """Remove a point and project the moments on the others; return the newest row in their coordinates."""
        places = np.delete(np.arange(len(self.lower)), place)
        self.lower, projection = kept(self.lower, places)
        self.mean = projection @ self.mean
        self.scatter = projection @ self.scatter @ projection.T
        return self.lower[-1]

    def _follow(self, inside: np.ndarray, weight: float) -> None:
        before = self.weight * self.settings.kept_share
        self.weight = before + weight
        if self.weight == 0:
            return
        step = inside - self.mean
        self.mean = self.mean + (weight / self.weight) * step
        self.scatter = self.settings.kept_share * self.scatter + (before * weight / self.weight) * np.outer(step, step)
