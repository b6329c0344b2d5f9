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
from typing import Any

from .base import CrossGram, Kernel, inner_products, product_in_scratch, reused_blocks
from .given import CallableKernel, Precomputed, bind_callable
from .named import RBF, Cosine, Laplacian, Linear, Polynomial, Sigmoid, manhattan

__all__ = [
    "NAMED_KERNELS",
    "RBF",
    "CallableKernel",
    "Cosine",
    "CrossGram",
    "Kernel",
    "Laplacian",
    "Linear",
    "Polynomial",
    "Precomputed",
    "Sigmoid",
    "bind_callable",
    "inner_products",
    "kernel_from_params",
    "manhattan",
    "named_kernel",
    "product_in_scratch",
    "reused_blocks",
]

NAMED_KERNELS: tuple[str, ...] = ("rbf", "poly", "linear", "sigmoid", "cosine", "laplacian", "precomputed")


def named_kernel(name: str, *, gamma: float = 1.0, degree: float = 3, coef0: float = 1.0) -> Kernel:
    """The kernel of that name; parameters it does not have are ignored, as in scikit-learn."""
    match name:
        case "rbf":
            return RBF(float(gamma))
        case "laplacian":
            return Laplacian(float(gamma))
        case "poly":
            return Polynomial(float(gamma), float(degree), float(coef0))
        case "sigmoid":
            return Sigmoid(float(gamma), float(coef0))
        case "linear":
            return Linear()
        case "cosine":
            return Cosine()
        case "precomputed":
            return Precomputed()
    raise ValueError(f"unknown kernel {name!r}: give one of {', '.join(NAMED_KERNELS)}, or a callable")


def kernel_from_params(name: str, params: Mapping[str, Any]) -> Kernel:
    """The inverse of (kernel.name, kernel.params())."""
    classes = {k.name: k for k in (RBF, Laplacian, Polynomial, Linear, Sigmoid, Cosine, Precomputed)}
    if name not in classes:
        raise ValueError(f"unknown kernel {name!r}")
    if name == "precomputed":
        params = {**params, "columns": tuple(params["columns"])}
    return classes[name](**params)
