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
from .laplacian import Laplacian, manhattan
from .matern import Matern
from .products import Cosine, Linear, Polynomial, Sigmoid
from .rbf import RBF
from .registry import KERNEL_TYPES, NAMED_KERNELS, kernel_from_params, kernel_type, named_kernel, names_of_kernels
from .user import CallableKernel, Precomputed, bind_callable

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
    "Matern",
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
    "names_of_kernels",
    "overwritten_blocks",
    "overwritten_product",
    "uphill",
]
