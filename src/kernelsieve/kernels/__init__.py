"""Kernels: blocks of k(X, S), the diagonal k(x, x), and derivatives in S; kernels add, multiply and act on columns.

A kernel is *bound* to points once.  Binding computes norms, transposes and scalings; the bound kernel maps blocks of
rows to blocks of the cross-gram:

    cross_gram = kernel.bind(points)        rows (n, d) -> k(rows, points) (n, m)

Differentiable kernels also have the pull-back that free support points need,

    pullback(rows, points, cross_gram, weights)_j = sum_n weights_nj dk(x_n, s_j)/ds_j        (m, d)

and `unit()`, the same kernel in coordinates where its width is one, so that an optimiser sees numbers of order one
whatever the units of the data.  Rows and points have the same array namespace and dtype; both may be scipy.sparse.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .algebra import Constant, normalized
from .base import KERNEL_TYPES, CrossGram, FixedRows, Kernel, uphill
from .blocks import inner_products, overwritten_blocks, overwritten_product
from .objects import ObjectKernel, of_objects
from .products import Cosine, Linear, Polynomial, Sigmoid
from .radial import RBF, Bessel, Cauchy, Epanechnikov, Matern, RationalQuadratic
from .registry import (
    FAMILIES,
    NAMED_KERNELS,
    is_function,
    kernel_from_params,
    kernel_object,
    kernel_of,
    named_kernel,
    names_of_kernels,
)
from .user import CallableKernel, Precomputed, bind_callable, gram_by_number, landmarks
from .views import held

if TYPE_CHECKING:
    from .columnwise import ANOVA, Chi2, Laplacian, Periodic, Spline
    from .distance import from_distance
    from .sets import Hamming, HistogramIntersection, Jaccard, Tanimoto
    from .strings import Levenshtein, Spectrum, Subsequence
    from .structures import Fingerprint, GlobalAlignment, WeisfeilerLehman

# Names that users write kernels with.
__all__ = [
    "ANOVA",
    "RBF",
    "Bessel",
    "Cauchy",
    "Chi2",
    "Constant",
    "Cosine",
    "Epanechnikov",
    "Fingerprint",
    "GlobalAlignment",
    "Hamming",
    "HistogramIntersection",
    "Jaccard",
    "Kernel",
    "Laplacian",
    "Levenshtein",
    "Linear",
    "Matern",
    "Periodic",
    "Polynomial",
    "RationalQuadratic",
    "Sigmoid",
    "Spectrum",
    "Spline",
    "Subsequence",
    "Tanimoto",
    "WeisfeilerLehman",
    "from_distance",
    "gram_by_number",
    "landmarks",
    "normalized",
    "of_objects",
]
PUBLIC = tuple(__all__)
# Used only by the rest of the library.
__all__ += [
    "KERNEL_TYPES",
    "NAMED_KERNELS",
    "PUBLIC",
    "CallableKernel",
    "CrossGram",
    "FixedRows",
    "ObjectKernel",
    "Precomputed",
    "bind_callable",
    "held",
    "inner_products",
    "is_function",
    "kernel_from_params",
    "kernel_object",
    "kernel_of",
    "named_kernel",
    "names_of_kernels",
    "overwritten_blocks",
    "overwritten_product",
    "uphill",
]


def __getattr__(name: str) -> Any:
    family = next((family for family, names in FAMILIES.items() if name in names), None)
    if family is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f".{family}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
