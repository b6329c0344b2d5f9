"""The error of a compression as a function of where its points are, with the derivative in them.

With B at its minimum for every position of the points, the error's derivative is the partial one (variable
projection).  On rows, with R = Y - F B the residuals of the scores,

    d |R|^2 = -2 sum_nj (R B')_nj dk(x_n, s_j)

and in feature space, with A the original's coefficients on its points x_n,

    d sum |v - v'|^2 = -2 sum_nj (A B')_nj dk(x_n, s_j) + sum_ij (B B')_ij dk(s_i, s_j)

so every differentiable kernel needs only its own pull-back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from ..arrays import add_to_diagonal
from ..kernels import Kernel

RIDGE = 1e-11  # added to the normal equations, relative to their mean diagonal: points may coincide
NO_LENGTH = 1e-200  # squared: kernel values so small have lost their digits, and what is divided by them overflows


@dataclass(frozen=True)
class ScoreObjective:
    """|Y - F B|^2 on rows, B at its minimum, relative to the scores' variation."""

    kernel: Kernel
    rows: np.ndarray  # (n, r)
    row_scale: np.ndarray  # (n,)
    target: np.ndarray  # (n, M)
    center: bool
    scale: float

    def __call__(self, points: np.ndarray) -> tuple[float, np.ndarray]:
        plain = self.kernel(self.rows, points)
        features = plain * self.row_scale[:, None]
        if self.center:
            features -= features.mean(axis=0)
        coef = _solve(features.T @ features, features.T @ self.target)
        residual = self.target - features @ coef
        pull = (residual * (-2.0 * self.row_scale)[:, None]) @ coef.T
        gradient = self.kernel.pullback(self.rows, points, plain, pull)
        return float(np.sum(residual**2)) / self.scale, gradient / self.scale

    def part(self, n_rows: int) -> ScoreObjective:
        """The same on about so many of the rows."""
        rows = slice(None, None, max(1, round(len(self.rows) / n_rows)))
        target = self.target[rows]
        target = target - target.mean(axis=0) if self.center else target
        scale = self.scale * len(target) / len(self.target)
        return replace(self, rows=self.rows[rows], row_scale=self.row_scale[rows], target=target, scale=scale)


@dataclass(frozen=True)
class FeatureObjective:
    """sum |v - v'|^2, B at its minimum, relative to sum |v|^2."""

    kernel: Kernel
    rows: np.ndarray  # (m, r), the original's points
    source_coef: np.ndarray  # (m, M)
    scale: float

    def __call__(self, points: np.ndarray) -> tuple[float, np.ndarray]:
        plain, gram = self.kernel(self.rows, points), self.kernel(points, points)
        inner = plain.T @ self.source_coef
        coef = _solve(gram, inner)
        gradient = self.kernel.pullback(self.rows, points, plain, -2.0 * (self.source_coef @ coef.T))
        gradient += 2.0 * self.kernel.pullback(points, points, gram, coef @ coef.T)
        value = self.scale - 2.0 * float(np.sum(inner * coef)) + float(np.sum(coef * (gram @ coef)))
        return value / self.scale, gradient / self.scale

    def part(self, n_rows: int) -> FeatureObjective:
        """Itself: the original's points are few."""
        return self


Objective: TypeAlias = ScoreObjective | FeatureObjective


def _solve(normal: np.ndarray, right: np.ndarray) -> np.ndarray:
    mean = float(np.mean(np.diagonal(normal)))
    if mean < NO_LENGTH:  # points that are like none of the rows explain nothing of them
        return np.zeros_like(right)
    return np.linalg.solve(add_to_diagonal(normal, RIDGE * mean), right)
