"""Kernels that depend on the Euclidean distance alone: k(x, y) = f(t) with t = gamma |x - y|^2, f(0) = 1.

With  q = -f'/f  the derivative in a point is that of a Gaussian whose values are multiplied by q,

    dk/ds = 2 gamma q k (x - s)

so such a kernel is defined by its f and its q.  `gamma` is 1 / (2 width^2) for all of them, as for a Gaussian.
Distances are computed so that they stay accurate far from the origin.

    RBF                  exp(-t)
    Matern               polynomial of r times exp(-r), r = 2 sqrt(nu t); smoother for larger nu
    RationalQuadratic    (1 + t / alpha)^-alpha       falls as a power, so that even far rows are slightly similar
    Cauchy               1 / (1 + 2 t)                falls as a power, too
    Epanechnikov         1 - 2 t, and zero beyond the width
    Bessel               (J_order(r) / r^order)^degree up to a factor, r = sqrt(2 t)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np
import scipy.sparse
from scipy.spatial.distance import cdist
from scipy.special import hyp0f1, j0, j1

from ..arrays import (
    Array,
    as_float64,
    at_most_zero,
    exp_at_most_one,
    inner,
    is_foreign,
    is_numpy,
    itemsize,
    like,
    namespace,
    origin_of,
    row_dot,
    to_numpy,
)
from .base import CrossGram, FixedRows, Stationary, check_count, check_positive
from .blocks import dense, identity_like, inner_products, transposed, with_norms

# Rows and points are shifted to an origin among the points if the rounding error of |x|^2 + |s|^2 - 2 x's would
# otherwise exceed this multiple of the dtype's own rounding.
MAX_CANCELLATION = 64.0
# A row is far if its gamma |x|^2 is above this number (for 4 and 8 bytes a number).  The rounding of
# |x|^2 + |s|^2 - 2 x's then exceeds 1e-4 of a squared width in float32, 1e-7 in float64, so distances of far rows are
# computed from differences.
FAR = {4: 1e3, 8: 1e8}
# t is kept between these limits: in exported programs, infinity times zero would be NaN, and a square root has no
# derivative at zero.  exp(-1e30) is zero, and float32 can represent 1e30.
NEAREST, FARTHEST = 1e-30, 1e30
# If gamma |s|^2 of a point is above this number (for 4 and 8 bytes a number), products with the point overflow.
OVERFLOWING = {4: 1e30, 8: 1e250}


@dataclass(frozen=True, repr=False)
class Radial(Stationary):
    """f(gamma |x - y|^2), for a function f that each kernel defines."""

    isotropic = True
    in_row_space = True
    of_differences = True
    preimage = "fixed-point"

    @abstractmethod
    def of_square(self, ops: Any, t: Any) -> Any:
        """f(t), in the elementwise functions of `ops`: an array namespace, or the operations of an export."""

    @abstractmethod
    def ratio(self, ops: Any, t: Any) -> Any:
        """q = -f'(t) / f(t)."""

    def log_of_square(self, t: np.ndarray) -> np.ndarray | None:
        """log f(t), if f can underflow; otherwise None."""
        return None

    def bind(self, points: Array) -> CrossGram:
        exponents = self._bind_rounded(points)
        return lambda rows: self._of_rounded(exponents(rows))

    def _of_rounded(self, block: Array) -> Array:
        """f(t) for a block of -t, which may be overwritten, and in which rounding may have left values above zero."""
        return self.of_square(namespace(block), -at_most_zero(block))

    def bind_exponents(self, points: Array) -> CrossGram:
        """The map from rows to a block of -gamma |x - s|^2, whose values are at most zero."""
        exponents = self._bind_rounded(points)
        return lambda rows: at_most_zero(exponents(rows))

    def _bind_rounded(self, points: Array) -> CrossGram:
        """`bind_exponents`, but rounding can leave values above zero."""
        shift = self._shift(points)
        if shift is not None:
            points = dense(points) - shift
        if is_foreign(points):
            return self._bind_on_device(points, shift)
        with np.errstate(over="ignore"):
            right_norms = self.gamma * row_dot(points, points)
        if not right_norms.max(initial=0.0) <= OVERFLOWING[right_norms.dtype.itemsize]:
            return lambda rows: self._exponents(rows if shift is None else dense(rows) - shift, points)
        right = transposed(points, 2 * self.gamma)
        extended = is_numpy(points) and points.shape[1] < points.shape[0]
        if extended:  # a product with two more columns is cheaper than two passes over the block
            right = np.concatenate([right, np.full_like(right_norms, -self.gamma)[None, :], -right_norms[None, :]])
        limit = FAR[right_norms.dtype.itemsize] / self.gamma if self.gamma else np.inf

        def exponents(rows: Array) -> Array:
            # Every numpy call on a block may hand the interpreter's lock to another thread, so few calls are best.
            if shift is not None:
                rows = dense(rows) - shift
            # only far rows overflow, and their values are computed again below
            with np.errstate(over="ignore", invalid="ignore"):
                if extended and is_numpy(rows):
                    left = with_norms(rows)
                    norms, block = left[:, -2], inner_products(left, right)
                else:
                    norms = row_dot(rows, rows)
                    block = inner_products(rows, right[: rows.shape[1]] if extended else right)
                    block -= (self.gamma * norms)[:, None]
                    block -= right_norms
            if not float(norms.max(initial=0.0)) <= limit:
                far = norms.astype(np.float64) > limit
                block[far] = self._exponents(rows[far], points)
            return block

        return exponents

    def _exponents(self, rows: Array, points: Array) -> np.ndarray:
        """-gamma |x - s|^2 computed from the differences x - s, and at least -FARTHEST."""
        with np.errstate(over="ignore"):
            squares = cdist(dense(rows), dense(points), "sqeuclidean")
            return -np.minimum(self.gamma * squares, FARTHEST).astype(rows.dtype, copy=False)

    def is_near(self, rows: Array) -> bool:
        xp = namespace(rows)
        return float(xp.max(row_dot(rows, rows))) * self.gamma <= FAR[xp.finfo(rows.dtype).bits // 8]

    def bind_near(self, points: Array) -> CrossGram:
        if not is_foreign(points):
            return self.bind(points)
        exponents = self._bind_on_device(points, None, near=True)
        return lambda rows: self._of_rounded(exponents(rows))

    def _bind_on_device(self, points: Array, shift: Array | None, *, near: bool = False) -> CrossGram:
        """`_bind_rounded` on a device; points that are `near` the rows are not checked.

        Norms are added by two more columns of the product, which is cheaper than two more passes over the block.
        """
        xp = namespace(points)
        ones = xp.ones_like(points[:, :1])
        norms = row_dot(points, points)[:, None]
        right = xp.concat([2 * self.gamma * points, -self.gamma * norms, -self.gamma * ones], axis=1).T
        # Only points are checked: a far row loses digits only if a point is near it, and such a point is far itself.
        limit = FAR[xp.finfo(points.dtype).bits // 8] / self.gamma if self.gamma else np.inf
        any_far = not near and float(xp.max(norms)) > limit
        far = [j for j in range(points.shape[0]) if float(norms[j, 0]) > limit] if any_far else []

        def exponents(rows: Array) -> Array:
            if shift is not None:
                rows = rows - shift
            extended = xp.concat([rows, xp.ones_like(rows[:, :1]), row_dot(rows, rows)[:, None]], axis=1)
            block = extended @ right
            for j in far:
                apart = rows - points[j, :]
                block[:, j] = xp.clip(-self.gamma * row_dot(apart, apart), -FARTHEST, 0.0)
            return block

        return exponents

    def _shift(self, points: Array) -> Array | None:
        """The origin to shift rows and points to, if their distances would lose digits to cancellation; else None.

        Sparse rows that are all far from zero have few zeros, so they are shifted as dense blocks.
        """
        if not scipy.sparse.issparse(points):  # the mean is faster to compute, and no nearer to zero than the origin
            mean = namespace(points).mean(points, axis=0)
            if self.gamma * inner(mean, mean) <= MAX_CANCELLATION:
                return None
        origin = origin_of(points)
        return origin if self.gamma * inner(origin, origin) > MAX_CANCELLATION else None

    def attraction(self, rows: Array, points: Array, cross_gram: Array) -> Array:
        """q k, (n, m), for a cross-gram of values k that may be scaled."""
        t = -self.bind_exponents(points)(rows)
        if rows is points:  # set t(s, s) to exactly zero, because a square root in q would magnify its rounding
            t = t * (1 - identity_like(t))
        return cross_gram * self.ratio(namespace(t), t)

    def far_exponents(self, rows: np.ndarray, points: np.ndarray) -> np.ndarray | None:
        return self.log_of_square(self.gamma * cdist(rows, points, "sqeuclidean"))

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        pull = weights * self.attraction(rows, points, cross_gram)
        mass = namespace(pull).sum(pull, axis=0)
        return 2 * self.gamma * (pull.T @ rows - mass[:, None] * points)

    def gradients(self, rows: Array, points: Array, cross_gram: Array, coef: Array) -> Array:
        # 2 gamma (sum_i A_ik q k(x, s_i) s_i - (sum_i A_ik q k(x, s_i)) x), with the first sum as one matrix product
        pull = self.attraction(rows, points, cross_gram)
        pulls = (coef[:, :, None] * dense(points)[:, None, :]).reshape((coef.shape[0], -1))
        gradient = (pull @ pulls).reshape((rows.shape[0], coef.shape[1], rows.shape[1]))
        gradient -= (pull @ coef)[:, :, None] * rows[:, None, :]
        gradient *= 2 * self.gamma
        return gradient

    def tangents(self, points: Array, gram: Array) -> Array | None:
        return 2 * self.gamma * self.attraction(points, points, gram)

    def forward(self, ops: Any, rows: Any, points: Any) -> Any:
        t = self.gamma * ops.squared_distances(rows, points)
        return self.of_square(ops, ops.minimum(ops.maximum(t, NEAREST), FARTHEST))


# If gamma |x|^2 exceeds this, scikit-learn's distances, computed as |x|^2 + |s|^2 - 2 x's, are off by at least 1e-9 of
# a width.
LOST_BY_SKLEARN = 1e6


@dataclass(frozen=True, repr=False)
class RBF(Radial):
    """exp(-gamma |x - y|^2), the Gaussian.

    It is a product over coordinates, in any orthonormal basis.  So for points in a subspace, the part of a row outside
    the subspace contributes a single factor, and the gradient outside the subspace is known.
    """

    name = "rbf"
    factors = True
    lifts = True

    def of_square(self, ops: Any, t: Any) -> Any:
        return ops.exp(-t)

    def _of_rounded(self, block: Array) -> Array:
        return exp_at_most_one(block)

    def ratio(self, ops: Any, t: Any) -> Any:
        return 1.0

    def log_of_square(self, t: np.ndarray) -> np.ndarray:
        return -t

    def agrees_with_sklearn(self, rows: Array, points: Array) -> bool:
        points = as_float64(points)
        return self.gamma * float(row_dot(points, points).max()) <= LOST_BY_SKLEARN

    def attraction(self, rows: Array, points: Array, cross_gram: Array) -> Array:
        return cross_gram

    def fixed(self, rows: Array, row_scale: Array | None) -> FixedRows:
        xp = namespace(rows)
        norms, mean = self.gamma * row_dot(rows, rows), xp.mean(rows, axis=0)
        if not (float(xp.max(norms)) <= FAR[itemsize(rows)] and self.gamma * inner(mean, mean) <= MAX_CANCELLATION):
            return FixedRows(self, rows, row_scale)
        with np.errstate(divide="ignore"):  # a row with c = 0 has log c = -inf: it is similar to no point
            exponents = -norms if row_scale is None else xp.log(row_scale) - norms
        extended = xp.concat([rows, xp.ones_like(rows[:, :1]), exponents[:, None]], axis=1)
        return NearRows(self, rows, row_scale, self.gamma, extended)

    def row_scale(self, inside: Array, outside: Array) -> Array | None:
        return np.exp(-self.gamma * outside)

    def lift(self, rows: Array, cross_gram: Array, weights: Array) -> Array:
        return 2 * self.gamma * ((weights * cross_gram).T @ rows)


@dataclass(frozen=True)
class NearRows(FixedRows):
    """Rows near the origin under a Gaussian, with everything that depends only on them computed once.

    For a row x with the factor c,

        c k(x, s) = exp( (x, 1, log c - gamma |x|^2)' (2 gamma s, -gamma |s|^2, 1) )

    and `extended` holds the first of these two vectors for every row.
    """

    gamma: float
    extended: Array  # (n, d + 2)

    def bind(self, points: Array) -> Callable[[slice], Array]:
        xp, norms = namespace(points), row_dot(points, points)[:, None]
        right = xp.concat([2 * self.gamma * points, -self.gamma * norms, xp.ones_like(norms)], axis=1).T
        return lambda part: exp_at_most_one(inner_products(self.extended[part, :], right))

    def slopes(self, part: slice, points: Array, values: Array, weights: Array) -> tuple[Array, Array | None]:
        weights *= values
        pulled = weights.T @ self.extended[part, :-1]
        return 2 * self.gamma * (pulled[:, :-1] - pulled[:, -1:] * points), None


@dataclass(frozen=True, repr=False)
class RationalQuadratic(Radial):
    """(1 + |x - y|^2 / (2 alpha width^2))^-alpha: a mixture of Gaussians of different widths.

    Positive definite on all rows.  Rasmussen & Williams (2006), Gaussian processes for machine learning, section 4.2.

    Parameters
    ----------
    alpha : float, default=1.0
        Above zero.  The smaller alpha, the more the widths of the mixture differ; for large alpha the kernel is nearly
        a Gaussian.
    width : float, sequence of floats, "median" or "median per column", optional
        The length scale; the median distance of rows by default.
    gamma : float, "median" or "scale", optional
        1 / (2 width^2), instead of the width.
    """

    alpha: float = 1.0
    name = "rational_quadratic"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("RationalQuadratic", "alpha", self.alpha)

    def of_square(self, ops: Any, t: Any) -> Any:
        return (1.0 + t * (1 / self.alpha)) ** -self.alpha

    def ratio(self, ops: Any, t: Any) -> Any:
        return 1.0 / (1.0 + t * (1 / self.alpha))

    def log_of_square(self, t: np.ndarray) -> np.ndarray:
        return -self.alpha * np.log1p(t / self.alpha)


@dataclass(frozen=True, repr=False)
class Cauchy(Radial):
    """1 / (1 + |x - y|^2 / width^2).

    Positive definite on all rows, because it is a function of |x - y|^2 that is the Laplace transform of a positive
    measure (Schoenberg 1938).

    Parameters
    ----------
    width : float, sequence of floats, "median" or "median per column", optional
        The distance at which the kernel has the value 1/2; the median distance of rows by default.
    gamma : float, "median" or "scale", optional
        1 / (2 width^2), instead of the width.
    """

    name = "cauchy"

    def of_square(self, ops: Any, t: Any) -> Any:
        return 1.0 / (1.0 + 2.0 * t)

    def ratio(self, ops: Any, t: Any) -> Any:
        return 2.0 / (1.0 + 2.0 * t)

    def log_of_square(self, t: np.ndarray) -> np.ndarray:
        return -np.log1p(2.0 * t)


SMOOTHNESS = (0.5, 1.5, 2.5)


@dataclass(frozen=True, repr=False)
class Matern(Radial):
    """The Matern kernel of smoothness nu, between the kink of exp(-|x - y|) and the analytic Gaussian.

        nu = 1/2    exp(-r)                    r = sqrt(2 nu) |x - y| / width
        nu = 3/2    (1 + r) exp(-r)
        nu = 5/2    (1 + r + r^2 / 3) exp(-r)

    Functions in the kernel's space have nu - 1/2 continuous derivatives.  Positive definite on all rows.  Rasmussen &
    Williams (2006), Gaussian processes for machine learning, section 4.2.

    Parameters
    ----------
    nu : 0.5, 1.5 or 2.5, default=1.5
        The smoothness; 0.5 gives exp(-|x - y| / width) with the Euclidean distance, which is kernlab's laplacedot.
    width : float, sequence of floats, "median" or "median per column", optional
        The length scale; the median distance of rows by default.
    gamma : float, "median" or "scale", optional
        1 / (2 width^2), instead of the width.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernelsieve import SparseKernelPCA
    >>> from kernelsieve.kernels import Matern
    >>> model = SparseKernelPCA(2, n_support=10, kernel=Matern(nu=2.5), random_state=0).fit(load_iris().data)
    >>> bool(model.captured_ratio_ > 0.99)
    True
    """

    nu: float = 1.5
    name = "matern"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nu not in SMOOTHNESS:
            raise ValueError(f"nu={self.nu!r} of Matern must be one of {', '.join(map(str, SMOOTHNESS))}")

    def _radius(self, ops: Any, t: Any) -> Any:
        return ops.sqrt(4.0 * self.nu * t)

    def of_square(self, ops: Any, t: Any) -> Any:
        r = self._radius(ops, t)
        if self.nu == 0.5:
            return ops.exp(-r)
        if self.nu == 1.5:
            return (1.0 + r) * ops.exp(-r)
        return (1.0 + r * (1.0 + r * (1 / 3))) * ops.exp(-r)

    def ratio(self, ops: Any, t: Any) -> Any:
        r = self._radius(ops, t)
        if self.nu == 0.5:  # the kernel has a kink at t = 0, where q is set to zero
            return ops.where(t > NEAREST, 1.0 / ops.maximum(r, ops.full_like(r, NEAREST**0.5)), 0.0 * r)
        if self.nu == 1.5:
            return 3.0 / (1.0 + r)
        return 5 / 3 * (1.0 + r) / (1.0 + r * (1.0 + r * (1 / 3)))

    def tangents(self, points: Array, gram: Array) -> Array | None:
        # for nu = 1/2 the features have no derivative
        return None if self.nu == 0.5 else super().tangents(points, gram)

    def log_of_square(self, t: np.ndarray) -> np.ndarray:
        r = self._radius(np, t)
        polynomial = {0.5: 0.0 * r, 1.5: r, 2.5: r + r**2 / 3}[self.nu]
        return np.log1p(polynomial) - r


@dataclass(frozen=True, repr=False)
class Epanechnikov(Radial):
    """max(0, 1 - |x - y|^2 / width^2): rows further apart than the width are not similar at all.

    Not positive semi-definite, because its Fourier transform changes sign: a fit keeps the positive part.  It equals
    mlpack's EpanechnikovKernel, whose bandwidth is the width.  Epanechnikov (1969), Non-parametric estimation of a
    multivariate probability density.

    Parameters
    ----------
    width : float, sequence of floats, "median" or "median per column", optional
        The distance from which on the kernel is zero; the median distance of rows by default.
    gamma : float, "median" or "scale", optional
        1 / (2 width^2), instead of the width.
    """

    name = "epanechnikov"
    definite = False
    preimage = "ridge"

    def of_square(self, ops: Any, t: Any) -> Any:
        apart = 1.0 - 2.0 * t
        return 0.5 * (apart + ops.abs(apart))

    def ratio(self, ops: Any, t: Any) -> Any:
        raise TypeError("the Epanechnikov kernel is zero beyond its width, where a ratio to it is not defined")

    def attraction(self, rows: Array, points: Array, cross_gram: Array) -> Array:
        # q k is computed as -df/dt, which is 2 within the width, and zero beyond it
        t = -self.bind_exponents(points)(rows)
        return like(2.0 * namespace(t).astype(t < 0.5, t.dtype), cross_gram)


# Below this t, the difference g_1 - g_0 in `_base` loses digits.  There g_2 is computed from the first ten terms of its
# series, sum_k (-t / 2)^k / (k! 3 4 ... (k + 2)), which are enough for full precision.
CANCELLING = 0.5
SERIES = [(-0.5) ** k * 2 / (factorial(k) * factorial(k + 2)) for k in range(10)]


@dataclass(frozen=True, repr=False)
class Bessel(Radial):
    """(Gamma(order + 1) 2^order J_order(r) / r^order)^degree with r = |x - y| / width, which is kernlab's besseldot.

    Positive definite on rows of up to 2 order + 2 columns, because J_order(r) / r^order is then the Fourier transform
    of a measure on the sphere; for more columns this is not guaranteed.  Karatzoglou, Smola, Hornik & Zeileis
    (2004), kernlab: an S4 package for kernel methods in R.

    Parameters
    ----------
    order : int, default=1
        The order of the Bessel function of the first kind.
    degree : int, default=1
        The power that the function is raised to.
    width : float, sequence of floats, "median" or "median per column", optional
        The width, which is 1 / sigma of kernlab; the median distance of rows by default.
    gamma : float, "median" or "scale", optional
        1 / (2 width^2), instead of the width.
    """

    order: int = 1
    degree: int = 1
    name = "bessel"
    definite = None
    preimage = "ridge"
    not_exported = "the Bessel kernel has no function in ONNX, C or torch"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("Bessel", "order", self.order, least=0)
        check_count("Bessel", "degree", self.degree)

    def of_square(self, ops: Any, t: Any) -> Any:
        return like(_base(t, self.order) ** self.degree, t)

    def ratio(self, ops: Any, t: Any) -> Any:
        raise TypeError("the Bessel kernel crosses zero, where a ratio to it is infinite")

    def attraction(self, rows: Array, points: Array, cross_gram: Array) -> Array:
        # q k is computed as -df/dt, because q itself is infinite where the kernel is zero.  Here f = g^degree and
        # g = 0F1(order + 1, -t / 2), so g' = -0F1(order + 2, -t / 2) / (2 order + 2).
        t = -self.bind_exponents(points)(rows)
        slope = _base(t, self.order + 1) / (2 * self.order + 2)
        return like(self.degree * _base(t, self.order) ** (self.degree - 1) * slope, cross_gram)


def _base(t: Array, order: int) -> np.ndarray:
    """g_order = Gamma(order + 1) 2^order J_order(r) / r^order with r^2 = 2 t, which is 0F1(order + 1, -t / 2).

    Up to order 2 it is computed from J_0 and J_1, which cost a seventh of the hypergeometric function 0F1:
    g_2 = 8 (g_1 - g_0) / r^2, where this difference does not lose digits.
    """
    t = to_numpy(t).astype(np.float64)
    if order > 2:
        return np.asarray(hyp0f1(order + 1, -0.5 * t))
    square = np.maximum(2.0 * t, NEAREST)
    r = np.sqrt(square)
    if order == 0:
        return np.asarray(j0(r))
    first = 2.0 * j1(r) / r
    if order == 1:
        return np.asarray(first)
    found, near = 8.0 * (first - j0(r)) / square, t < CANCELLING
    found[near] = np.polynomial.polynomial.polyval(t[near], SERIES)
    return found
