"""Kernels: blocks of k(X, S), their diagonal, and their derivative in the points S.

A kernel is *bound* to points once (norms, transposes and scalings are paid once) and then maps blocks
of rows to blocks of the cross-gram:

    cross_gram = kernel.bind(points)        rows (n, d) -> k(rows, points) (n, m)

Differentiable kernels also have the pull-back that free support points need,

    pullback(rows, points, cross_gram, weights)_j = sum_n weights_nj dk(x_n, s_j)/ds_j        (m, d)

and `unit()`, the same kernel in coordinates where its width is one, so that an optimiser sees numbers
of order one whatever the units of the data.  Rows and points share one namespace and dtype; rows may be
scipy.sparse everywhere, points too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from .base import (
    CrossGram,
    FixedRows,
    Kernel,
    constant_diagonal,
    inner_products,
    overwritten_blocks,
    overwritten_product,
    uphill,
)
from .distances import RBF, Laplacian, manhattan
from .given import CallableKernel, Precomputed, bind_callable
from .products import Cosine, Linear, Polynomial, Sigmoid

__all__ = [
    "KERNEL_TYPES",
    "NAMED_KERNELS",
    "RBF",
    "CallableKernel",
    "Cosine",
    "CrossGram",
    "FixedRows",
    "Kernel",
    "Laplacian",
    "Linear",
    "Polynomial",
    "Precomputed",
    "Sigmoid",
    "bind_callable",
    "constant_diagonal",
    "inner_products",
    "kernel_from_params",
    "kernel_type",
    "manhattan",
    "named_kernel",
    "overwritten_blocks",
    "overwritten_product",
    "uphill",
]

KERNEL_TYPES: dict[str, type[Kernel]] = {
    kind.name: kind for kind in (RBF, Polynomial, Linear, Sigmoid, Cosine, Laplacian, Precomputed)
}
NAMED_KERNELS = tuple(KERNEL_TYPES)


def kernel_type(kernel: Any) -> type[Kernel]:
    """The type of kernel that a name or a function stands for, to be asked what it can do before it is made."""
    if callable(kernel):
        return CallableKernel
    if kernel not in KERNEL_TYPES:
        raise ValueError(f"unknown kernel {kernel!r}: give one of {', '.join(NAMED_KERNELS)}, or a callable")
    return KERNEL_TYPES[kernel]


def named_kernel(name: str, *, gamma: float = 1.0, degree: float = 3, coef0: float = 1.0) -> Kernel:
    """The kernel of that name; parameters it does not have are ignored, as in scikit-learn."""
    kind = kernel_type(name)
    given = {"gamma": gamma, "degree": degree, "coef0": coef0}
    return kind(**{f.name: float(given[f.name]) for f in fields(kind) if f.name in given})  # type: ignore[arg-type]


def kernel_from_params(name: str, params: Mapping[str, Any]) -> Kernel:
    """The inverse of (kernel.name, kernel.params())."""
    kind = kernel_type(name)
    if kind.precomputed:
        params = {**params, "columns": tuple(params["columns"])}
    return kind(**params)
