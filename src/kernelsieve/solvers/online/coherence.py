"""Online kernel PCA with a coherence dictionary (Honeine 2012).

A row is admitted to the dictionary where it is like none of the points in it,

    max_d |k(x, d)| / sqrt(k(x, x) k(d, d)) <= mu_0

(a dictionary so made is finite on a compact set); else it is its projection, b = K_DD^-1 k(D, x).  The coefficients
follow Sanger's rule (see `hebbian.py`) with that b.  The first rows, as many as components, are admitted in any case.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...arrays import solve_lower
from .base import Change, coherence_with, entered
from .hebbian import Sanger


@dataclass
class Coherence(Sanger):
    """Sanger's rule over a dictionary of rows that are unlike each other."""

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
