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

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import scipy.sparse

from ._array import Array, exp_in_place, is_numpy, like, namespace, row_dot, take_rows, to_numpy

CrossGram = Callable[[Array], Array]

# Sparse points are made dense for products up to this many elements (64 MB): a dense right side is
# several times faster than sparse times sparse.
MAX_DENSE_POINTS = 2**23
# OpenBLAS multiplies few points by many wide float64 rows a quarter faster than the other way round.
WIDE_ROWS = 128
# Rows are shifted to the points' centre when rounding of |x|^2 + |s|^2 - 2 x's would exceed this
# multiple of the dtype's own rounding.
MAX_CANCELLATION = 64.0


class Kernel(ABC):
    """A kernel function on blocks of rows."""

    name: str
    differentiable = False
    bounded = False  # |k| <= 1: a float32 gram loses nothing that matters
    definite: bool | None = True  # positive semi-definite; None where it is not known

    @abstractmethod
    def bind(self, points: Array) -> CrossGram:
        """The map rows -> k(rows, points), with all that depends on the points done once."""

    @abstractmethod
    def diagonal(self, rows: Array) -> Array:
        """k(x, x) for every row."""

    def __call__(self, rows: Array, points: Array) -> Array:
        return self.bind(points)(rows)

    def at(self, X: Array, indices: Array) -> tuple[Kernel, Array]:
        """This kernel and the points that stand for rows `indices` of X."""
        return self, take_rows(X, indices)

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        """sum_n weights_nj dk(x_n, s_j)/ds_j, (m, d)."""
        raise TypeError(f"the {self.name} kernel has no derivative in its points")

    def unit(self, rows: Array) -> tuple[float, Kernel]:
        """(c, kernel_1) with k(x, s) proportional to kernel_1(c x, c s), numbers of order one."""
        return 1.0, self

    def params(self) -> dict[str, Any]:
        """The kernel's own parameters, as JSON can hold them."""
        return asdict(self)  # type: ignore[call-overload]


def _transposed(points: Array, scale: float = 1.0) -> Array:
    """scale * points', laid out for products rows @ points'."""
    if scipy.sparse.issparse(points):
        if points.shape[0] * points.shape[1] > MAX_DENSE_POINTS:
            return (points * scale).T.tocsc()
        points = points.toarray()
    return (points * scale).T


def inner_products(rows: Array, points_transposed: Array) -> Array:
    """rows @ points' as a dense block of its own, whatever mix of dense and sparse comes in."""
    if is_numpy(rows) and rows.dtype == np.float64 and rows.shape[1] >= WIDE_ROWS and is_numpy(points_transposed):
        return (points_transposed.T @ rows.T).T
    product = rows @ points_transposed
    return product.toarray() if scipy.sparse.issparse(product) else product


def _dense(points: Array) -> Array:
    return points.toarray() if scipy.sparse.issparse(points) else points


def _weighted_rows(weights: Array, rows: Array) -> Array:
    """weights' @ rows, (m, d), dense."""
    return (rows.T @ weights).T if scipy.sparse.issparse(rows) else weights.T @ rows


def _constant_diagonal(rows: Array, value: float) -> Array:
    if scipy.sparse.issparse(rows) or is_numpy(rows):
        return np.full(rows.shape[0], value, dtype=rows.dtype)
    return namespace(rows).full_like(rows[:, 0], value)


@dataclass(frozen=True)
class RBF(Kernel):
    """exp(-gamma |x - y|^2)."""

    gamma: float
    name = "rbf"
    differentiable = True
    bounded = True

    def bind(self, points: Array) -> CrossGram:
        shift = self._shift(points)
        if shift is not None:
            points = points - shift
        right = _transposed(points, 2 * self.gamma)
        right_norms = self.gamma * row_dot(points, points)

        def cross_gram(rows: Array) -> Array:
            if shift is not None:
                rows = rows - shift
            block = inner_products(rows, right)
            block -= (self.gamma * row_dot(rows, rows))[:, None]
            block -= right_norms
            return exp_in_place(block)

        return cross_gram

    def _shift(self, points: Array) -> Array | None:
        """The points' centre where the distances would otherwise cancel, else None."""
        if scipy.sparse.issparse(points):
            return None
        xp = namespace(points)
        center = xp.mean(points, axis=0)
        rounding = self.gamma * float(xp.vecdot(center, center))
        return center if rounding > MAX_CANCELLATION else None

    def diagonal(self, rows: Array) -> Array:
        return _constant_diagonal(rows, 1.0)

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        # dk/ds = 2 gamma (x - s) k
        pull = weights * cross_gram
        mass = namespace(pull).sum(pull, axis=0)
        return 2 * self.gamma * (_weighted_rows(pull, rows) - mass[:, None] * points)

    def unit(self, rows: Array) -> tuple[float, Kernel]:
        return self.gamma**0.5, RBF(1.0)


@dataclass(frozen=True)
class Laplacian(Kernel):
    """exp(-gamma |x - y|_1)."""

    gamma: float
    name = "laplacian"
    differentiable = True
    bounded = True

    def bind(self, points: Array) -> CrossGram:
        def cross_gram(rows: Array) -> Array:
            block = manhattan(rows, points)
            block *= -self.gamma
            return exp_in_place(block)

        return cross_gram

    def diagonal(self, rows: Array) -> Array:
        return _constant_diagonal(rows, 1.0)

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        # dk/ds = gamma sign(x - s) k, almost everywhere; one feature at a time keeps it at n x m.
        xp = namespace(points)
        rows = _dense(rows)
        pull = weights * cross_gram
        columns = [xp.sum(pull * xp.sign(rows[:, j][:, None] - points[:, j]), axis=0) for j in range(points.shape[1])]
        return self.gamma * xp.stack(columns, axis=1)

    def unit(self, rows: Array) -> tuple[float, Kernel]:
        return self.gamma, Laplacian(1.0)


def manhattan(rows: Array, points: Array) -> Array:
    """sum_j |x_j - y_j| for all pairs of rows and points."""
    if scipy.sparse.issparse(rows) or scipy.sparse.issparse(points) or is_numpy(rows):
        from sklearn.metrics.pairwise import manhattan_distances

        if scipy.sparse.issparse(points) and not scipy.sparse.issparse(rows):
            points = points.toarray()
        return manhattan_distances(rows, points).astype(rows.dtype, copy=False)
    xp = namespace(rows)
    return xp.stack([xp.sum(xp.abs(rows - points[j, :]), axis=1) for j in range(points.shape[0])], axis=1)


@dataclass(frozen=True)
class Polynomial(Kernel):
    """(gamma x'y + coef0)^degree."""

    gamma: float
    degree: float
    coef0: float
    name = "poly"
    differentiable = True

    def bind(self, points: Array) -> CrossGram:
        right = _transposed(points, self.gamma)

        def cross_gram(rows: Array) -> Array:
            block = inner_products(rows, right)
            block += self.coef0
            return _power(block, self.degree)

        return cross_gram

    def diagonal(self, rows: Array) -> Array:
        return _power(self.gamma * row_dot(rows, rows) + self.coef0, self.degree)

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        # dk/ds = degree gamma (gamma x's + coef0)^(degree - 1) x
        base = inner_products(rows, _transposed(points, self.gamma)) + self.coef0
        slope = weights * _power(base, self.degree - 1)
        return self.degree * self.gamma * _weighted_rows(slope, rows)

    def unit(self, rows: Array) -> tuple[float, Kernel]:
        return self.gamma**0.5, Polynomial(1.0, self.degree, self.coef0)


def _power(base: Array, exponent: float) -> Array:
    """base^exponent; by products for the small whole exponents that pow() is slow at."""
    if exponent != int(exponent) or not 0 <= exponent <= 8:
        return base**exponent
    if exponent == 0:
        return namespace(base).ones_like(base)
    result, remaining = base, int(exponent) - 1
    while remaining:
        result = result * base
        remaining -= 1
    return result


@dataclass(frozen=True)
class Linear(Kernel):
    """x'y."""

    name = "linear"
    differentiable = True

    def bind(self, points: Array) -> CrossGram:
        right = _transposed(points)
        return lambda rows: inner_products(rows, right)

    def diagonal(self, rows: Array) -> Array:
        return row_dot(rows, rows)

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        return _weighted_rows(weights, rows)

    def unit(self, rows: Array) -> tuple[float, Kernel]:
        mean_square = float(namespace(rows).mean(row_dot(rows, rows)))
        return (mean_square**-0.5 if mean_square > 0 else 1.0), self


@dataclass(frozen=True)
class Sigmoid(Kernel):
    """tanh(gamma x'y + coef0); not positive semi-definite in general."""

    gamma: float
    coef0: float
    name = "sigmoid"
    differentiable = True
    definite = False

    def bind(self, points: Array) -> CrossGram:
        right = _transposed(points, self.gamma)

        def cross_gram(rows: Array) -> Array:
            block = inner_products(rows, right)
            block += self.coef0
            return namespace(block).tanh(block)

        return cross_gram

    def diagonal(self, rows: Array) -> Array:
        return namespace(rows).tanh(self.gamma * row_dot(rows, rows) + self.coef0)

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        return self.gamma * _weighted_rows(weights * (1 - cross_gram**2), rows)

    def unit(self, rows: Array) -> tuple[float, Kernel]:
        return self.gamma**0.5, Sigmoid(1.0, self.coef0)


@dataclass(frozen=True)
class Cosine(Kernel):
    """x'y / (|x| |y|), zero where a row is zero."""

    name = "cosine"
    differentiable = True
    bounded = True

    def bind(self, points: Array) -> CrossGram:
        right = _transposed(points)
        right_inverse = _inverse_norms(points)

        def cross_gram(rows: Array) -> Array:
            block = inner_products(rows, right)
            block *= _inverse_norms(rows)[:, None]
            block *= right_inverse
            return block

        return cross_gram

    def diagonal(self, rows: Array) -> Array:
        xp = namespace(rows)
        squares = row_dot(rows, rows)
        return xp.astype(squares > 0, squares.dtype)

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        # dk/ds = x/(|x||s|) - k s/|s|^2
        inverse = _inverse_norms(points)
        mass = namespace(weights).sum(weights * cross_gram, axis=0)
        along = _weighted_rows(weights * _inverse_norms(rows)[:, None], rows)
        return along * inverse[:, None] - (mass * inverse**2)[:, None] * points


def _inverse_norms(rows: Array) -> Array:
    xp = namespace(rows)
    norms = xp.sqrt(row_dot(rows, rows))
    return xp.where(norms > 0, 1 / xp.where(norms > 0, norms, xp.ones_like(norms)), xp.zeros_like(norms))


@dataclass(frozen=True)
class Precomputed(Kernel):
    """The rows *are* kernel values: columns `columns` of the n_columns training columns.

    The points of a precomputed kernel are its gram K_SS; rows may bring all `n_columns` columns or
    just those of the support.
    """

    columns: tuple[int, ...] = ()
    n_columns: int = 0
    name = "precomputed"
    definite = None

    def bind(self, points: Array) -> CrossGram:
        columns = np.asarray(self.columns, dtype=np.intp)

        def cross_gram(rows: Array) -> Array:
            if rows.shape[1] == self.n_columns:
                block = rows[:, columns] if is_numpy(rows) else take_rows(rows.T, columns).T
            elif rows.shape[1] == len(columns):
                block = rows
            else:
                raise ValueError(
                    f"a precomputed kernel needs k(x, y) against all {self.n_columns} training rows, or "
                    f"against the {len(columns)} rows of support_: got {rows.shape[1]} columns"
                )
            return _dense(block)

        return cross_gram

    def at(self, X: Array, indices: Array) -> tuple[Kernel, Array]:
        rows = to_numpy(indices)
        kernel = Precomputed(tuple(int(i) for i in rows), X.shape[1])
        return kernel, kernel.bind(None)(take_rows(X, rows))

    def diagonal(self, rows: Array) -> Array:
        raise ValueError(
            "k(x, x) of new rows is not in a precomputed cross-gram: give it as diagonal=, or use a named kernel"
        )


@dataclass(frozen=True)
class CallableKernel(Kernel):
    """A user's function: vectorised, k(X, Y) -> (n, m), or on a pair of rows, k(x, y) -> float."""

    function: Callable[..., Any]
    keywords: Mapping[str, Any] = field(default_factory=dict)
    vectorized: bool = True
    name = "callable"
    definite = None

    def bind(self, points: Array) -> CrossGram:
        def cross_gram(rows: Array) -> Array:
            shape = (rows.shape[0], points.shape[0])
            if self.vectorized:
                block = self.function(rows, points, **self.keywords)
            else:
                block = [[float(self.function(x, y, **self.keywords)) for y in points] for x in rows]
                block = np.reshape(np.asarray(block), shape)
            return _checked_block(block, shape, rows)

        return cross_gram

    def diagonal(self, rows: Array) -> Array:
        if not self.vectorized:
            values = np.asarray([float(self.function(x, x, **self.keywords)) for x in rows])
        elif hasattr(self.function, "diag"):  # Gaussian-process kernels know theirs
            values = np.asarray(self.function.diag(rows))
        else:
            # small squares: n * 16 evaluations instead of n^2
            squares = (rows[i : i + 16] for i in range(0, rows.shape[0], 16))
            values = np.concatenate([np.diagonal(self(square, square)) for square in squares])
        return like(values, rows)

    def params(self) -> dict[str, Any]:
        raise TypeError("a callable kernel has no parameters that a file could hold")


def _checked_block(block: Any, shape: tuple[int, int], rows: Array) -> Array:
    if tuple(np.shape(block)) != shape:
        raise ValueError(f"the kernel callable returned shape {np.shape(block)}, expected {shape}")
    block = like(block, rows)
    if not bool(namespace(block).all(namespace(block).isfinite(block))):
        raise ValueError("the kernel callable returned NaN or infinity")
    return block


def bind_callable(function: Callable[..., Any], keywords: Mapping[str, Any] | None, rows: Array) -> CallableKernel:
    """Tell the two callable forms apart, once, on five rows.

    Two rows against three: a function of row pairs cannot return a (2, 3) block from them.
    """
    keywords = dict(keywords or {})
    few = rows[np.arange(5) % rows.shape[0]]
    try:
        block = function(few[:2], few[2:], **keywords)
        if np.shape(block) == (2, 3):
            return CallableKernel(function, keywords, vectorized=True)
        problem = f"k(X[:2], X[2:5]) returned shape {np.shape(block)}, not (2, 3)"
    except Exception as error:
        problem = f"k(X[:2], X[2:5]) raised {type(error).__name__}: {error}"
    try:
        value = function(few[0], few[2], **keywords)
        if np.ndim(value) == 0:
            float(value)
            return CallableKernel(function, keywords, vectorized=False)
        problem += f"; k(X[0], X[2]) returned shape {np.shape(value)}, not a number"
    except Exception as error:
        problem += f"; k(X[0], X[2]) raised {type(error).__name__}: {error}"
    raise ValueError(
        "the kernel callable is neither vectorised, k(X, Y) -> (n, m), nor a function of two rows, "
        f"k(x, y) -> float: {problem}"
    )


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
