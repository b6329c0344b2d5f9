"""scikit-learn's Gaussian-process kernels as ours, where we have them: then points move and models can be saved.

    RBF, Matern (nu = 1/2, 3/2, 5/2, infinite), RationalQuadratic     of the same name; length_scale is the width
    ConstantKernel, DotProduct                                        a number; a number and Linear
    Sum, Product                                                      sums and products

All others (WhiteKernel, ExpSineSquared, PairwiseKernel, ...) are called, as any function is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .algebra import Constant
from .base import Kernel
from .matern import SMOOTHNESS, Matern
from .products import Linear
from .radial import Radial
from .rational import RationalQuadratic
from .rbf import RBF

MODULE = "sklearn.gaussian_process.kernels"


def translated(given: Any) -> Kernel | None:
    """Our kernel for one of scikit-learn's Gaussian-process kernels; None for those that we do not have."""
    if type(given).__module__ != MODULE:
        return None
    match type(given).__name__:
        case "Sum" | "Product":
            left, right = translated(given.k1), translated(given.k2)
            if left is None or right is None:
                return None
            return left + right if type(given).__name__ == "Sum" else left * right
        case "ConstantKernel":
            return Constant(float(given.constant_value))
        case "DotProduct":
            return Linear() + float(given.sigma_0) ** 2 if given.sigma_0 else Linear()
    return _radial(given)


def _radial(given: Any) -> Radial | None:
    width: Any = getattr(given, "length_scale", 1.0)
    width = tuple(np.asarray(width, dtype=float).tolist()) if np.ndim(width) else width
    match type(given).__name__:
        case "RBF":
            return RBF(width=width)
        case "Matern" if given.nu in SMOOTHNESS:
            return Matern(nu=given.nu, width=width)
        case "Matern" if np.isinf(given.nu):
            return RBF(width=width)
        case "RationalQuadratic":
            return RationalQuadratic(alpha=given.alpha, width=width)
    return None
