"""The Matern kernel of smoothness 3/2, between the Laplacian's kinks and the Gaussian's analytic functions.

    k(x, y) = (1 + r) exp(-r),   r = sqrt(3) |x - y| / width = sqrt(6 gamma) |x - y|

Functions of its space have one derivative (Rasmussen and Williams 2006, section 4.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .radial import Radial


@dataclass(frozen=True)
class Matern(Radial):
    """(1 + r) exp(-r) with r = sqrt(6 gamma) |x - y|."""

    name = "matern"

    def of_square(self, ops: Any, t: Any) -> Any:
        r = ops.sqrt(6.0 * t)
        return (1.0 + r) * ops.exp(-r)

    def ratio(self, ops: Any, t: Any) -> Any:
        return 3.0 / (1.0 + ops.sqrt(6.0 * t))

    def log_of_square(self, t: np.ndarray) -> np.ndarray:
        r = np.sqrt(6.0 * t)
        return np.log1p(r) - r
