"""Kernels of inner products: k(x, y) from x'y."""

from __future__ import annotations

import sys
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse

from ..arrays import Array, as_float64, namespace, row_dot
from .base import CrossGram, Kernel, Wide, as_real
from .blocks import inner_products, transposed

# scikit-learn's cosine kernel may treat a row as zero if it is shorter than ten times the rounding of float32.
SHORT_ROW = 1e-5


class InnerProduct(Kernel):
    """A function of x'y: for points in a subspace, it depends only on the part of a row in the subspace."""

    differentiable = True
    isotropic = True
    factors = True

    def agrees_with_sklearn(self, rows: Array, points: Array) -> bool:
        return True

    def unit(self, rows: Array) -> tuple[float, Kernel]:
        return unit_length(rows), self


def check_number(kernel: Kernel, name: str, least: float = -sys.float_info.max) -> None:
    """Raise an error for a kernel parameter that is not a finite number, or is too small."""
    value = getattr(kernel, name)
    if not least <= as_real(value) < np.inf:
        limit = "" if least < 0 else f", at least {least:g}"
        raise ValueError(f"{name}={value!r} of {type(kernel).__name__} must be a number{limit}")


@dataclass(frozen=True, repr=False)
class AffineProduct(Wide, InnerProduct):
    """A function of gamma x'y + coef0."""

    coef0: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "coef0")

    @abstractmethod
    def _of(self, products: Array) -> Array:
        """The kernel, given gamma x'y + coef0."""

    @abstractmethod
    def of_product(self, ops: Any, t: Any) -> Any:
        """The kernel, given t = gamma x'y + coef0, in the operations of an export."""

    def forward(self, ops: Any, rows: Any, points: Any) -> Any:
        return self.of_product(ops, ops.products(rows, points, self.gamma) + self.coef0)

    def forward_diagonal(self, ops: Any, rows: Any) -> Any:
        return self.of_product(ops, self.gamma * ops.squares(rows) + self.coef0)

    @abstractmethod
    def _slope(self, products: Array) -> Array:
        """The kernel's derivative in t = gamma x'y + coef0."""

    def bind(self, points: Array) -> CrossGram:
        right = transposed(points, self.gamma)

        def cross_gram(rows: Array) -> Array:
            block = inner_products(rows, right)
            block += self.coef0
            return self._of(block)

        return cross_gram

    def diagonal(self, rows: Array) -> Array:
        return self._of(self.gamma * row_dot(rows, rows) + self.coef0)

    def diagonal_gradient(self, rows: Array) -> Array | None:
        squares = row_dot(rows, rows)[:, None]
        return 2 * self.gamma * self._slope(self.gamma * squares + self.coef0) * rows


@dataclass(frozen=True, repr=False)
class Polynomial(AffineProduct):
    """(gamma x'y + coef0)^degree."""

    degree: float = 3
    name = "poly"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "degree", least=0)

    @property
    def definite(self) -> bool:  # type: ignore[override]
        """True for whole degrees and coef0 >= 0: then the kernel is a sum of products of x'y and constants."""
        return self.coef0 >= 0 and float(self.degree).is_integer()

    def _of(self, products: Array) -> Array:
        return _power(products, self.degree)

    def of_product(self, ops: Any, t: Any) -> Any:
        return ops.power(t, self.degree)

    def _slope(self, products: Array) -> Array:
        return self.degree * _power(products, self.degree - 1)

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        # dk/ds = degree gamma (gamma x's + coef0)^(degree - 1) x
        base = inner_products(rows, transposed(points, self.gamma)) + self.coef0
        slope = weights * _power(base, self.degree - 1)
        return self.degree * self.gamma * (slope.T @ rows)

    def tangents(self, points: Array, gram: Array) -> Array | None:
        base = inner_products(points, transposed(points, self.gamma)) + self.coef0
        return self.degree * self.gamma * _power(base, self.degree - 1)


def _power(base: Array, exponent: float) -> Array:
    """base^exponent; small whole exponents are computed by repeated products, which are faster than pow()."""
    if exponent != int(exponent) or not 0 <= exponent <= 8:
        return base**exponent
    if exponent == 0:
        return namespace(base).ones_like(base)
    result, remaining = base, int(exponent) - 1
    while remaining:
        result = result * base
        remaining -= 1
    return result


@dataclass(frozen=True, repr=False)
class Linear(InnerProduct):
    """x'y, the kernel of linear PCA."""

    name = "linear"
    linear_in_rows = True
    in_row_space = True
    preimage = "linear"

    def bind(self, points: Array) -> CrossGram:
        right = transposed(points)
        return lambda rows: inner_products(rows, right)

    def diagonal(self, rows: Array) -> Array:
        return row_dot(rows, rows)

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        return weights.T @ rows

    def diagonal_gradient(self, rows: Array) -> Array | None:
        return 2 * rows

    def linear_features(self, rows: Array) -> Array:
        return rows

    def forward(self, ops: Any, rows: Any, points: Any) -> Any:
        return ops.products(rows, points)

    def forward_diagonal(self, ops: Any, rows: Any) -> Any:
        return ops.squares(rows)

    def tangents(self, points: Array, gram: Array) -> Array | None:
        return namespace(gram).ones_like(gram)


@dataclass(frozen=True, repr=False)
class Sigmoid(AffineProduct):
    """tanh(gamma x'y + coef0); not positive semi-definite in general."""

    name = "sigmoid"
    definite = False
    # The product of a long row with a point nearly orthogonal to it has a large rounding error, which tanh preserves.
    needs_double = True

    def _of(self, products: Array) -> Array:
        return namespace(products).tanh(products)

    def of_product(self, ops: Any, t: Any) -> Any:
        return ops.tanh(t)

    def _slope(self, products: Array) -> Array:
        return 1 - self._of(products) ** 2

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        return self.gamma * ((weights * (1 - cross_gram**2)).T @ rows)


@dataclass(frozen=True, repr=False)
class Cosine(InnerProduct):
    """x'y / (|x| |y|), zero where a row is zero."""

    name = "cosine"
    linear_in_rows = True
    bounded = True

    def bind(self, points: Array) -> CrossGram:
        right = transposed(points)
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
        along = (weights * _inverse_norms(rows)[:, None]).T @ rows
        return along * inverse[:, None] - (mass * inverse**2)[:, None] * points

    def agrees_with_sklearn(self, rows: Array, points: Array) -> bool:
        squares = [row_dot(block, block) for block in (as_float64(rows), as_float64(points))]
        return not any(np.any((square > 0) & (square < SHORT_ROW**2)) for square in squares)

    def diagonal_gradient(self, rows: Array) -> Array | None:
        return None

    def row_scale(self, inside: Array, outside: Array) -> Array | None:
        lengths = inside + outside
        return np.sqrt(inside / np.where(lengths > 0, lengths, 1.0))

    def forward(self, ops: Any, rows: Any, points: Any) -> Any:
        return ops.cosines(rows, points)

    def forward_diagonal(self, ops: Any, rows: Any) -> Any:
        return ops.nonzero(rows)

    def linear_features(self, rows: Array) -> Array:
        if scipy.sparse.issparse(rows):
            return scipy.sparse.diags_array(_inverse_norms(rows)) @ rows
        return rows * _inverse_norms(rows)[:, None]

    def tangents(self, points: Array, gram: Array) -> Array | None:
        inverse = _inverse_norms(points)
        return inverse[:, None] * inverse


def unit_length(rows: Array) -> float:
    """The factor that scales rows to a mean square length of one."""
    mean_square = float(namespace(rows).mean(row_dot(rows, rows)))
    return mean_square**-0.5 if mean_square > 0 else 1.0


def _inverse_norms(rows: Array) -> Array:
    xp = namespace(rows)
    norms = xp.sqrt(row_dot(rows, rows))
    return xp.where(norms > 0, 1 / xp.where(norms > 0, norms, xp.ones_like(norms)), xp.zeros_like(norms))
