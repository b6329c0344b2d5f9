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
    KERNEL_TYPES,
    CrossGram,
    FixedRows,
    Kernel,
    constant_diagonal,
    inner_products,
    kernel_from_params,
    kernel_type,
    named_kernel,
    overwritten_blocks,
    overwritten_product,
    uphill,
)
from .distances import RBF, manhattan
from .given import CallableKernel, Precomputed, bind_callable
from .laplacian import Laplacian
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

KERNEL_TYPES |= {kind.name: kind for kind in (RBF, Polynomial, Linear, Sigmoid, Cosine, Laplacian, Precomputed)}
NAMED_KERNELS = tuple(KERNEL_TYPES)
KERNEL_TYPES[callable] = CallableKernel
