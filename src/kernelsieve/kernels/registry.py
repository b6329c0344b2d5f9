"""The kernels by name: the one list that estimators, files and the command line read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from .base import Kernel
from .laplacian import Laplacian
from .matern import Matern
from .products import Cosine, Linear, Polynomial, Sigmoid
from .rbf import RBF
from .user import CallableKernel, Precomputed

KERNEL_TYPES: dict[str, type[Kernel]] = {
    kind.name: kind for kind in (RBF, Matern, Laplacian, Polynomial, Linear, Cosine, Sigmoid, Precomputed)
}
NAMED_KERNELS = tuple(KERNEL_TYPES)


def names_of_kernels(wanted: Callable[[type[Kernel]], bool]) -> tuple[str, ...]:
    """The names of the kernels that are wanted."""
    return tuple(name for name, kind in KERNEL_TYPES.items() if wanted(kind))


def kernel_type(kernel: Any) -> type[Kernel]:
    """The type of kernel that a name or a function stands for, to be asked what it can do before it is made."""
    if callable(kernel):
        return CallableKernel
    if kernel not in KERNEL_TYPES:
        raise ValueError(f"unknown kernel {kernel!r}: give one of {', '.join(KERNEL_TYPES)}, or a callable")
    return KERNEL_TYPES[kernel]


def named_kernel(name: str, *, gamma: float = 1.0, degree: float = 3, coef0: float = 1.0) -> Kernel:
    """The kernel of that name; parameters it does not have are ignored, as in scikit-learn."""
    kind = kernel_type(name)
    given = {"gamma": gamma, "degree": degree, "coef0": coef0}
    return kind(**{f.name: float(given[f.name]) for f in fields(kind) if f.name in given})  # type: ignore[arg-type]


def kernel_from_params(name: str, params: Mapping[str, Any]) -> Kernel:
    """The inverse of (kernel.name, kernel.params())."""
    return kernel_type(name).from_params(params)
