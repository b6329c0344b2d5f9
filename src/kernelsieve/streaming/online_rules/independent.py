"""Points for a kernel that is not positive semi-definite: the rows that are independent of those before them.

Such a kernel is the inner product of a space with a signature.  Its gram has a factor with signs J, and a row has
coordinates as before:

    K_DD = L J L',      f(x) = J L^-1 k(D, x),      rest = k(x, x) - f'J f

A rest of either sign is a direction outside the span of the points.  The published rules need a positive rest, and a
coherence |k(x, d)| / sqrt(k(x, x) k(d, d)) of at most one: with such kernels they would keep a few points whose best
components are wrong by up to twelve times the variance.  So this rule only chooses the points; if there are as many as
the budget allows, and the stream forgets, the oldest is removed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ...arrays import solve_lower
from ...numerics import DEPENDENT
from .base import Change, OnlineChooser


@dataclass
class Independent(OnlineChooser):
    """Points with the signed factor of their gram."""

    lower: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # L
    signs: np.ndarray = field(default_factory=lambda: np.zeros(0))  # the diagonal of J

    @property
    def ready(self) -> bool:
        return len(self.signs) >= self.settings.n_components

    @property
    def gram(self) -> np.ndarray:
        """K_DD."""
        return (self.lower * self.signs) @ self.lower.T

    def step(self, cross: np.ndarray, length: float, weight: float) -> Change:
        budget = self.settings.budget
        full = budget is not None and len(self.signs) >= budget
        if (full and self.settings.rate == 0) or not self._enter(cross, length):
            return Change()
        return Change(enters=True, leaves=self._without_oldest() if full else ())

    def _enter(self, cross: np.ndarray, length: float) -> bool:
        """Whether the row is independent of the points; if so, it becomes one of them."""
        m = len(self.signs)
        inside = self.signs * solve_lower(self.lower, cross) if m else cross
        rest = length - float(inside @ (self.signs * inside))
        if not abs(rest) > DEPENDENT * max(abs(length), float(inside @ inside)):
            return False
        grown = np.zeros((m + 1, m + 1))
        grown[:m, :m], grown[m, :m], grown[m, m] = self.lower, inside, math.sqrt(abs(rest))
        self.lower, self.signs = grown, np.append(self.signs, math.copysign(1.0, rest))
        return True

    def _without_oldest(self) -> tuple[int, ...]:
        """Remove the oldest point, and any points that depend on the others without it; return their places."""
        gram = self.gram
        self.lower, self.signs = np.zeros((0, 0)), np.zeros(0)
        kept: list[int] = []
        for place in range(1, len(gram)):
            if self._enter(gram[place, kept], float(gram[place, place])):
                kept.append(place)
        return tuple(int(i) for i in np.setdiff1d(np.arange(len(gram)), kept))
