"""Incremental kernel PCA (Chin & Suter 2007): an eigenspace with a mean, into which rows are merged one by one.

With U an orthonormal basis, lambda the eigenvalues of the scatter kept, m the mean, n the weight, a row f, d = f - m:

    p = U'd,   rho = |d - U p|,   the scatter in [U, (d - U p)/rho] is   diag(lambda, 0) + n w/(n + w) [p; rho][p; rho]'

whose leading `rank` eigenpairs are the new ones; m += w/(n + w) d.  If none are cut off this is exact kernel PCA.
Every row becomes a point; if there are more than the budget allows, those are removed that change eigenspace and mean
least (the reduced set), a fifth of them at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ...arrays import solve_lower, top_eigh
from ...numerics import ROUNDING
from .base import Change, Rule, RuleSolution, entered, kept

SLACK = 0.2  # share of the budget removed at a time, so that not every row requires a new reduced set


@dataclass
class Incremental(Rule):
    """Eigenspace and mean in the coordinates of the points."""

    lower: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    mean: np.ndarray = field(default_factory=lambda: np.zeros(0))
    basis: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # (m, r), orthonormal columns
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (r,) eigenvalues of the scatter, descending
    weight: float = 0.0

    @property
    def ready(self) -> bool:
        return len(self.values) >= self.settings.n_components

    def step(self, cross: np.ndarray, length: float, weight: float) -> Change:
        inside = solve_lower(self.lower, cross) if len(cross) else cross
        lower = entered(self.lower, inside, length)
        if lower is not None:
            self.lower, inside = lower, lower[-1]
            self.mean = np.append(self.mean, 0.0)
            self.basis = np.pad(self.basis, ((0, 1), (0, 0)))
        self._merge(inside, weight)
        return Change(enters=lower is not None, leaves=self._reduce())

    def solution(self) -> RuleSolution:
        basis, mean = self.basis[:, : self.settings.n_components], None
        if self.settings.center:
            mean = solve_lower(self.lower, self.mean, transpose=True)
        return RuleSolution(solve_lower(self.lower, basis, transpose=True), mean, True)

    def _merge(self, inside: np.ndarray, weight: float) -> None:
        before = self.weight * self.settings.kept_share
        self.values = self.values * self.settings.kept_share
        self.weight = before + weight
        if weight == 0:
            return
        step, share = inside, weight
        if self.settings.center:
            step, share = inside - self.mean, before * weight / self.weight
            self.mean = self.mean + (weight / self.weight) * step
        if share == 0:
            return
        along = self.basis.T @ step
        outside = step - self.basis @ along
        # orthogonalised twice, so that the basis stays orthonormal over very many rows
        correction = self.basis.T @ outside
        along, outside = along + correction, outside - self.basis @ correction
        distance = float(np.linalg.norm(outside))
        basis, values = self.basis, self.values
        if distance > ROUNDING[8] * max(float(np.linalg.norm(inside)), math.ulp(1.0)):
            basis = np.column_stack([basis, outside / distance])
            values, along = np.append(values, 0.0), np.append(along, distance)
        found, rotation = top_eigh(np.diag(values) + share * np.outer(along, along), self.settings.rank)
        self.basis, self.values = basis @ rotation, np.maximum(found, 0.0)

    def _reduce(self) -> tuple[int, ...]:
        """Remove points if the budget is exceeded; return their places."""
        s, m = self.settings, len(self.lower)
        if s.budget is None or m <= s.budget:
            return ()
        assert s.order is not None
        n_left = max(s.budget - int(SLACK * s.budget), min(s.budget, s.n_components + 1))
        target = np.column_stack([self.basis * np.sqrt(self.values), np.sqrt(self.weight) * self.mean])
        places = np.sort(s.order(self.lower.T, target)[:n_left])
        self.lower, projection = kept(self.lower, places)
        self.mean = projection @ self.mean
        left, lengths, _ = np.linalg.svd(projection @ (self.basis * np.sqrt(self.values)), full_matrices=False)
        self.basis, self.values = left, lengths**2
        return tuple(int(i) for i in np.setdiff1d(np.arange(m), places))
