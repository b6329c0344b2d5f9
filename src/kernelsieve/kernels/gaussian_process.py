"""scikit-learn's Gaussian-process kernels converted to ours where possible, so that points move and models can be
saved.

    RBF, Matern (nu = 1/2, 3/2, 5/2, infinite), RationalQuadratic     of the same name; length_scale is the width
    ConstantKernel, DotProduct                                        a number; a number and Linear
    DotProduct ** p                                                   Polynomial
    Sum, Product                                                      sums and products

All others (ExpSineSquared, PairwiseKernel, ...) are called, as any function is.  So is a sum with WhiteKernel, with a
warning that its noise is not part of any component.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import warn
from .algebra import Constant
from .base import Kernel
from .matern import SMOOTHNESS, Matern
from .products import Linear, Polynomial
from .radial import Radial
from .rational import RationalQuadratic
from .rbf import RBF

MODULE = "sklearn.gaussian_process.kernels"


def translated(given: Any) -> Kernel | None:
    """Our equivalent of a scikit-learn Gaussian-process kernel; None if there is none."""
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
        case "Exponentiation" if type(given.kernel).__name__ == "DotProduct" and given.exponent >= 0:
            return Polynomial(float(given.exponent), gamma=1.0, coef0=float(given.kernel.sigma_0) ** 2)
    return _radial(given)


def warn_about_noise(given: Any) -> None:
    """Warn that noise, which is only on the diagonal, is not a feature that a component could have."""
    parts = given.get_params().values() if type(given).__module__ == MODULE else ()
    if any(type(part).__name__ == "WhiteKernel" for part in (given, *parts)):
        warn(
            "WhiteKernel adds noise to k(x, x) alone: different rows, and new ones, share nothing of it, so that no "
            "component has it and it counts at most in the total variance. Leave it out of the kernel"
        )


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
