"""The kernels by name, and the only place that interprets an estimator's `kernel` parameter.

scikit-learn's Gaussian-process kernels are converted to ours where possible, so that points can be moved and models
saved.

    RBF, Matern (nu = 1/2, 3/2, 5/2), RationalQuadratic     the kernel of the same name; its width is length_scale
    Matern (nu infinite)                                    RBF
    ConstantKernel                                          Constant
    DotProduct                                              Linear plus a constant
    DotProduct ** p                                         Polynomial
    PairwiseKernel                                          the kernel of the metric's name
    Sum, Product, whole powers                              sum and product

All others (ExpSineSquared, ...) are called like any function of the user.  A sum with WhiteKernel is
called, too, and a warning says that its noise is not part of any component.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import reduce
from importlib import import_module
from operator import mul
from typing import Any

import numpy as np

from ..errors import warn
from .algebra import Constant
from .base import KERNEL_TYPES, Kernel
from .products import Linear, Polynomial
from .radial import RBF, SMOOTHNESS, Matern, Radial, RationalQuadratic
from .user import CallableKernel

# Kernels that an estimator accepts by name, with its own gamma, degree and coef0; others are given as objects.
NAMED_KERNELS = ("rbf", "matern", "laplacian", "poly", "linear", "cosine", "sigmoid", "precomputed")

# Families that few fits need, and their public names: imported when one of these, or a name in a file, asks for it.
FAMILIES = {
    "columnwise": ("ANOVA", "Chi2", "Laplacian", "Periodic", "Spline"),
    "distance": ("from_distance",),
    "sets": ("Hamming", "HistogramIntersection", "Jaccard", "Tanimoto"),
    "strings": ("Levenshtein", "Spectrum", "Subsequence"),
    "structures": ("Fingerprint", "GlobalAlignment", "WeisfeilerLehman"),
}


def kernel_type(name: str) -> type[Kernel]:
    """The class of the kernel that has this name in files and among `NAMED_KERNELS`."""
    if name not in KERNEL_TYPES:
        for family in FAMILIES:
            import_module(f"{__package__}.{family}")
    if name not in KERNEL_TYPES:
        raise ValueError(f"unknown kernel {name!r}")
    return KERNEL_TYPES[name]


def names_of_kernels(wanted: Callable[[Kernel], bool]) -> tuple[str, ...]:
    """The named kernels that satisfy a condition."""
    return tuple(name for name in NAMED_KERNELS if wanted(kernel_type(name)()))


def kernel_of(given: Any) -> Kernel:
    """The kernel for a name, an object or a function, to query its properties before it is settled on rows."""
    found = kernel_object(given)
    if found is not None:
        return found
    if callable(given):
        return CallableKernel(given)
    if given not in NAMED_KERNELS:
        raise ValueError(
            f"unknown kernel {given!r}: give one of {', '.join(NAMED_KERNELS)}, a kernel of kernelsieve.kernels, or a "
            "callable"
        )
    return kernel_type(given)()


def kernel_object(given: Any) -> Kernel | None:
    """The kernel that is given as an object, ours or an equivalent one of scikit-learn; None for anything else."""
    if isinstance(given, type) and issubclass(given, Kernel):
        raise TypeError(f"kernel={given.__name__} is a class: give an instance, {given.__name__}(...)")
    return given if isinstance(given, Kernel) else translated(given)


def is_function(given: Any) -> bool:
    """Whether a kernel is the user's code, rather than a name or one of our objects."""
    return callable(given) and kernel_object(given) is None


def named_kernel(name: str, *, gamma: float = 1.0, degree: float = 3, coef0: float = 1.0) -> Kernel:
    """The named kernel; parameters that it does not have are ignored, as in scikit-learn."""
    kind = type(kernel_of(name))
    given = {"gamma": gamma, "degree": degree, "coef0": coef0}
    return kind(**{f.name: float(given[f.name]) for f in fields(kind) if f.name in given})  # type: ignore[arg-type]


def kernel_from_params(name: str, params: Mapping[str, Any]) -> Kernel:
    """The kernel whose name and `params()` these are."""
    return kernel_type(name).from_params(params)


MODULE = "sklearn.gaussian_process.kernels"
# Metrics of PairwiseKernel, and our names for them.
PAIRWISE = {name: name for name in ("rbf", "laplacian", "poly", "linear", "cosine", "sigmoid", "chi2")}
PAIRWISE["polynomial"] = "poly"


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
        case "ConstantKernel" if isinstance(given.constant_value, Kernel):  # scikit-learn wraps our part of a sum
            return given.constant_value
        case "ConstantKernel":
            return Constant(float(given.constant_value))
        case "DotProduct":
            return Linear() + float(given.sigma_0) ** 2 if given.sigma_0 else Linear()
        case "Exponentiation" if type(given.kernel).__name__ == "DotProduct" and given.exponent >= 0:
            return Polynomial(float(given.exponent), gamma=1.0, coef0=float(given.kernel.sigma_0) ** 2)
        case "Exponentiation" if given.exponent >= 1 and given.exponent == int(given.exponent):
            base = translated(given.kernel)
            return None if base is None else reduce(mul, [base] * int(given.exponent))
        case "PairwiseKernel" if given.metric in PAIRWISE and not given.pairwise_kernels_kwargs:
            kind = kernel_type(PAIRWISE[given.metric])
            return kind(gamma=float(given.gamma)) if kind.uses_gamma else kind()  # type: ignore[call-arg]
    return _radial(given)


def warn_about_noise(given: Any) -> None:
    """Warn about a WhiteKernel: its noise is only in k(x, x), so no component contains it."""
    parts = given.get_params().values() if type(given).__module__ == MODULE else ()
    if any(type(part).__name__ == "WhiteKernel" for part in (given, *parts)):
        warn(
            "WhiteKernel adds noise to k(x, x) alone: different rows do not share it, so no component contains it, and "
            "it counts at most in the total variance. Leave it out of the kernel"
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
