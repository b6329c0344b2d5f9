"""Matern kernels, whose smoothness lies between the kink of exp(-|x - y|) and the analytic Gaussian.

    nu = 1/2    exp(-r)                    r = sqrt(2 nu) |x - y| / width
    nu = 3/2    (1 + r) exp(-r)
    nu = 5/2    (1 + r + r^2 / 3) exp(-r)

Functions of the kernel's space have nu - 1/2 derivatives (Rasmussen and Williams 2006, section 4.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array
from .radial import NEAREST, Radial

SMOOTHNESS = (0.5, 1.5, 2.5)


@dataclass(frozen=True, repr=False)
class Matern(Radial):
    """The Matern kernel of smoothness nu: (1 + r) exp(-r) with r = sqrt(3) |x - y| / width for nu = 3/2.

    Positive definite on all rows.  Rasmussen & Williams (2006), Gaussian processes for machine learning, section 4.2.

    Parameters
    ----------
    nu : 0.5, 1.5 or 2.5, default=1.5
        0.5 is exp(-|x - y| / width), with the Euclidean distance: kernlab's laplacedot.
    width : float, sequence of floats, "median" or "median per column", optional
        The length scale; the median distance of rows by default.
    gamma : float, "median" or "scale", optional
        1 / (2 width^2), instead of the width.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernelsieve import SparseKernelPCA
    >>> from kernelsieve.kernels import Matern
    >>> model = SparseKernelPCA(2, n_support=10, kernel=Matern(nu=2.5), random_state=0).fit(load_iris().data)
    >>> bool(model.captured_ratio_ > 0.99)
    True
    """

    nu: float = 1.5
    name = "matern"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nu not in SMOOTHNESS:
            raise ValueError(f"nu={self.nu!r} of Matern must be one of {', '.join(map(str, SMOOTHNESS))}")

    def _radius(self, ops: Any, t: Any) -> Any:
        return ops.sqrt(4.0 * self.nu * t)

    def of_square(self, ops: Any, t: Any) -> Any:
        r = self._radius(ops, t)
        if self.nu == 0.5:
            return ops.exp(-r)
        if self.nu == 1.5:
            return (1.0 + r) * ops.exp(-r)
        return (1.0 + r * (1.0 + r * (1 / 3))) * ops.exp(-r)

    def ratio(self, ops: Any, t: Any) -> Any:
        r = self._radius(ops, t)
        if self.nu == 0.5:  # a row that coincides with a point does not pull it
            return ops.where(t > NEAREST, 1.0 / ops.maximum(r, ops.full_like(r, NEAREST**0.5)), 0.0 * r)
        if self.nu == 1.5:
            return 3.0 / (1.0 + r)
        return 5 / 3 * (1.0 + r) / (1.0 + r * (1.0 + r * (1 / 3)))

    def tangents(self, points: Array, gram: Array) -> Array | None:
        return None if self.nu == 0.5 else super().tangents(points, gram)  # features for nu = 1/2 have no derivative

    def log_of_square(self, t: np.ndarray) -> np.ndarray:
        r = self._radius(np, t)
        polynomial = {0.5: 0.0 * r, 1.5: r, 2.5: r + r**2 / 3}[self.nu]
        return np.log1p(polynomial) - r
