"""The kernels by name, and the only place that interprets an estimator's `kernel` parameter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from .base import KERNEL_TYPES, Kernel
from .gaussian_process import translated
from .user import CallableKernel

# Kernels that an estimator accepts by name, with its own gamma, degree and coef0; others are given as objects.
NAMED_KERNELS = ("rbf", "matern", "laplacian", "poly", "linear", "cosine", "sigmoid", "precomputed")


def names_of_kernels(wanted: Callable[[Kernel], bool]) -> tuple[str, ...]:
    """The named kernels that satisfy a condition."""
    return tuple(name for name in NAMED_KERNELS if wanted(KERNEL_TYPES[name]()))


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
    return KERNEL_TYPES[given]()


def kernel_object(given: Any) -> Kernel | None:
    """The kernel that is given as an object, ours or a scikit-learn one that we have; None for anything else."""
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
    """The inverse of (kernel.name, kernel.params())."""
    if name not in KERNEL_TYPES:
        raise ValueError(f"unknown kernel {name!r}")
    return KERNEL_TYPES[name].from_params(params)
