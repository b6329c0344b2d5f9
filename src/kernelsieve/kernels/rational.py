"""Kernels that decay as powers of the distance, so that even far rows are slightly similar.

rational quadratic    (1 + |x - y|^2 / (2 alpha width^2))^-alpha        a mixture of Gaussians of all widths
Cauchy                1 / (1 + |x - y|^2 / width^2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .radial import Radial


@dataclass(frozen=True, repr=False)
class RationalQuadratic(Radial):
    """(1 + |x - y|^2 / (2 alpha width^2))^-alpha: a mixture of Gaussians, of the more widths the smaller alpha is.

    Positive definite on all rows.  Rasmussen & Williams (2006), Gaussian processes for machine learning, section 4.2.

    Parameters
    ----------
    alpha : float, default=1.0
        Above zero; the larger, the nearer to a Gaussian.
    width : float, sequence of floats, "median" or "median per column", optional
        The length scale; the median distance of rows by default.
    gamma : float, "median" or "scale", optional
        1 / (2 width^2), instead of the width.
    """

    alpha: float = 1.0
    name = "rational_quadratic"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.alpha, bool) or not 0 < self.alpha < np.inf:
            raise ValueError(f"alpha={self.alpha!r} of RationalQuadratic must be a positive number")

    def of_square(self, ops: Any, t: Any) -> Any:
        return (1.0 + t * (1 / self.alpha)) ** -self.alpha

    def ratio(self, ops: Any, t: Any) -> Any:
        return 1.0 / (1.0 + t * (1 / self.alpha))

    def log_of_square(self, t: np.ndarray) -> np.ndarray:
        return -self.alpha * np.log1p(t / self.alpha)


@dataclass(frozen=True, repr=False)
class Cauchy(Radial):
    """1 / (1 + |x - y|^2 / width^2).

    Positive definite on all rows: it is the Laplace transform of a measure at |x - y|^2 (Schoenberg 1938).

    Parameters
    ----------
    width : float, sequence of floats, "median" or "median per column", optional
        The distance at which rows are half alike; the median distance of rows by default.
    gamma : float, "median" or "scale", optional
        1 / (2 width^2), instead of the width.
    """

    name = "cauchy"

    def of_square(self, ops: Any, t: Any) -> Any:
        return 1.0 / (1.0 + 2.0 * t)

    def ratio(self, ops: Any, t: Any) -> Any:
        return 2.0 / (1.0 + 2.0 * t)

    def log_of_square(self, t: np.ndarray) -> np.ndarray:
        return -np.log1p(2.0 * t)
