"""Sums, products and normalised kernels; kernels of some columns and of scaled columns are in views.py.

Sums and products of positive semi-definite kernels are positive semi-definite, and so is f(x) k(x, y) f(y).  The
properties of a combination follow from those of its parts, and so do its derivatives,

    d(k1 + k2) = dk1 + dk2,      d(k1 k2) = k2 dk1 + k1 dk2

so `slopes` of a combination calls `slopes` of each part with the weights; for a product, the weights are first
multiplied by the values of the other part.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from ..arrays import Array, like, namespace
from .base import CrossGram, Kernel, as_real
from .blocks import constant_diagonal
from .width import KernelRows

Slopes = tuple[Array, Array | None]


class Composite(Kernel):
    """A kernel whose fields are other kernels; its properties follow from those of its parts."""

    # A property in `of_all` holds if it holds for all parts, one in `of_any` if it holds for at least one part.
    of_all: ClassVar[tuple[str, ...]] = ("differentiable", "stationary", "isotropic", "bounded")
    of_any: ClassVar[tuple[str, ...]] = ("uses_gamma", "needs_double", "nonnegative")

    @property
    def parts(self) -> tuple[Kernel, ...]:
        """The kernels that this one is made of."""
        return tuple(value for value in self.get_params(deep=False).values() if isinstance(value, Kernel))

    def __post_init__(self) -> None:
        for one in fields(self):  # type: ignore[arg-type]  # its subclasses are dataclasses
            part = getattr(self, one.name)
            if one.type == "Kernel" and not isinstance(part, Kernel):
                raise ValueError(f"{one.name}={part!r} of a kernel must be one of kernelsieve.kernels, such as RBF()")
            if isinstance(part, Kernel) and part.precomputed:
                raise ValueError("a precomputed kernel cannot be part of another kernel: combine the grams instead")
        for fact in self.of_all:
            object.__setattr__(self, fact, all(getattr(part, fact) for part in self.parts))
        object.__setattr__(self, "moves", self.differentiable and any(part.moves for part in self.parts))
        for fact in self.of_any:
            object.__setattr__(self, fact, any(getattr(part, fact) for part in self.parts))
        signs = [part.definite for part in self.parts]
        object.__setattr__(self, "definite", False if False in signs else None if None in signs else True)
        object.__setattr__(self, "not_exported", next((p.not_exported for p in self.parts if p.not_exported), ""))
        wide = any(part.metric != "euclidean" for part in self.parts)
        object.__setattr__(self, "metric", "manhattan" if wide else "euclidean")

    @property
    def title(self) -> str:
        return repr(self)

    def _with(self, change: Any) -> Kernel:
        """This kernel with `change(part)` for every part."""
        parts = {name: value for name, value in self.get_params(deep=False).items() if isinstance(value, Kernel)}
        return replace(self, **{name: change(part) for name, part in parts.items()})  # type: ignore[type-var]

    @property
    def is_settled(self) -> bool:
        return all(part.is_settled for part in self.parts)

    @property
    def names_columns(self) -> bool:
        return any(part.names_columns for part in self.parts)

    def settled(self, on: KernelRows) -> Kernel:
        return self._with(lambda part: part.settled(on))

    def numbered(self, names: Sequence[str] | None, n_columns: int) -> Kernel:
        return self._with(lambda part: part.numbered(names, n_columns))

    def stretched(self, factors: tuple[float, ...]) -> Kernel:
        return self._with(lambda part: part.stretched(factors))

    def within(self, points: Array) -> Array:
        return reduce(lambda moved, part: part.within(moved), self.parts, points)

    def still_columns(self, n_columns: int) -> tuple[int, ...]:
        return tuple(sorted({column for part in self.parts for column in part.still_columns(n_columns)}))

    def is_near(self, rows: Array) -> bool:
        return all(part.is_near(rows) for part in self.parts)

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        return self.slopes(rows, points, cross_gram, weights)[0]

    def unit(self, rows: Array) -> tuple[Any, Kernel]:
        scales = np.asarray(self.unit_scales(rows))
        scales = np.where(scales > 0, scales, 1.0)
        # The kernel is a step function of these columns, so their values must not change in any bit.
        scales[list(self.still_columns(len(scales)))] = 1.0
        unit = self.stretched(tuple(1.0 / float(scale) for scale in scales))
        return (float(scales[0]) if np.ptp(scales) == 0 else like(scales, rows)), unit

    def unit_scales(self, rows: Array) -> tuple[float, ...]:
        """Factors that bring every column to order one: in each column, that of the narrowest part."""
        found = np.max([part.unit_scales(rows) for part in self.parts], axis=0)
        return tuple(float(scale) for scale in found)


class Pair(Composite):
    """A combination of two kernels."""

    k1: Kernel
    k2: Kernel
    sign: ClassVar[str]
    joined: ClassVar[staticmethod[[Any, Any], Any]]  # combines the values of the two parts
    joined_in_place: ClassVar[staticmethod[[Any, Any], Any]]

    def __repr__(self) -> str:
        number = not (isinstance(self.k1, Constant) and isinstance(self.k2, Constant))
        left, right = (
            repr(part.value) if number and isinstance(part, Constant) else repr(part) for part in (self.k1, self.k2)
        )
        left = f"({left})" if self.k1.binds < self.binds else left
        right = f"({right})" if self.k2.binds <= self.binds else right
        return f"{left} {self.sign} {right}"

    def bind_with(self, left: CrossGram, right: CrossGram) -> CrossGram:
        """The map from rows to values of this kernel, given the maps of its two parts."""
        # A copy of the first block is changed, because computing the next block may overwrite this one.
        return lambda rows: self.joined_in_place(left(rows) + 0.0, right(rows))

    def diagonal(self, rows: Array) -> Array:
        return self.joined(self.k1.diagonal(rows), self.k2.diagonal(rows))

    def forward(self, ops: Any, rows: Any, points: Any) -> Any:
        return self.joined(self.k1.forward(ops, rows, points), self.k2.forward(ops, rows, points))

    def forward_diagonal(self, ops: Any, rows: Any) -> Any:
        return self.joined(self.k1.forward_diagonal(ops, rows), self.k2.forward_diagonal(ops, rows))

    def bind(self, points: Array) -> CrossGram:
        return self.bind_with(self.k1.bind(points), self.k2.bind(points))

    def bind_near(self, points: Array) -> CrossGram:
        return self.bind_with(self.k1.bind_near(points), self.k2.bind_near(points))


@dataclass(frozen=True, repr=False)
class Sum(Pair):
    """k1(x, y) + k2(x, y), written ``k1 + k2``: rows are similar if either part finds them similar."""

    k1: Kernel
    k2: Kernel
    name = "sum"
    sign = "+"
    joined, joined_in_place = staticmethod(operator.add), staticmethod(operator.iadd)
    binds = 1

    def slopes(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Slopes:
        return _added([part.slopes(rows, points, part(rows, points) + 0.0, weights) for part in self.parts])

    def diagonal_gradient(self, rows: Array) -> Array | None:
        found = [slope for slope in (part.diagonal_gradient(rows) for part in self.parts) if slope is not None]
        return reduce(operator.add, found) if found else None

    def tangents(self, points: Array, gram: Array) -> Array | None:
        found = [part.tangents(points, part(points, points)) for part in self.parts]
        return None if any(one is None for one in found) else reduce(operator.add, found)

    def far_exponents(self, rows: np.ndarray, points: np.ndarray) -> np.ndarray | None:
        left, right = (part.far_exponents(rows, points) for part in self.parts)
        return None if left is None or right is None else np.logaddexp(left, right)


@dataclass(frozen=True, repr=False)
class Product(Pair):
    """k1(x, y) k2(x, y), written ``k1 * k2``: rows are similar if both parts find them similar."""

    k1: Kernel
    k2: Kernel
    name = "product"
    sign = "*"
    joined, joined_in_place = staticmethod(operator.mul), staticmethod(operator.imul)
    binds = 2

    def slopes(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Slopes:
        first, second = self.k1(rows, points) + 0.0, self.k2(rows, points) + 0.0
        return _added(
            [
                self.k1.slopes(rows, points, first, weights * second),
                self.k2.slopes(rows, points, second, weights * first),
            ]
        )

    def diagonal_gradient(self, rows: Array) -> Array | None:
        first, second = (part.diagonal_gradient(rows) for part in self.parts)
        left = None if first is None else first * self.k2.diagonal(rows)[:, None]
        right = None if second is None else second * self.k1.diagonal(rows)[:, None]
        return right if left is None else left if right is None else left + right

    def tangents(self, points: Array, gram: Array) -> Array | None:
        # The features are phi_1 x phi_2.  The inner products of dphi_1 x phi_2 with phi_1 x dphi_2 are neglected.
        first, second = (part(points, points) + 0.0 for part in self.parts)
        left, right = self.k1.tangents(points, first), self.k2.tangents(points, second)
        return None if left is None or right is None else left * second + first * right

    def far_exponents(self, rows: np.ndarray, points: np.ndarray) -> np.ndarray | None:
        left, right = (part.far_exponents(rows, points) for part in self.parts)
        return None if left is None or right is None else left + right


def _added(slopes: list[Slopes]) -> Slopes:
    kinks = [kink for _, kink in slopes if kink is not None]
    return reduce(operator.add, (slope for slope, _ in slopes)), reduce(operator.add, kinks) if kinks else None


@dataclass(frozen=True, repr=False)
class Constant(Kernel):
    """A kernel with the same value for all pairs of rows, such as the number in ``2.0 * k`` or ``k + 1.0``.

    Parameters
    ----------
    value : float, default=1.0
        The value, above zero.
    """

    value: float = 1.0
    name = "constant"
    differentiable = stationary = isotropic = bounded = True
    moves = False

    def __post_init__(self) -> None:
        if not 0 < as_real(self.value) < np.inf:
            raise ValueError(f"a kernel is multiplied by, or added to, a positive number: got {self.value!r}")
        if isinstance(self.value, np.number):  # its repr would not read back
            object.__setattr__(self, "value", self.value.item())

    def stretched(self, factors: tuple[float, ...]) -> Kernel:
        return self

    def unit_scales(self, rows: Array) -> tuple[float, ...]:
        return (0.0,) * rows.shape[1]

    def bind(self, points: Array) -> CrossGram:
        return lambda rows: constant_diagonal(rows, self.value)[:, None] + 0.0 * constant_diagonal(points, 1.0)

    def diagonal(self, rows: Array) -> Array:
        return constant_diagonal(rows, self.value)

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        return namespace(points).zeros_like(points)

    def diagonal_gradient(self, rows: Array) -> Array | None:
        return None

    def tangents(self, points: Array, gram: Array) -> Array | None:
        return namespace(gram).zeros_like(gram)

    def far_exponents(self, rows: np.ndarray, points: np.ndarray) -> np.ndarray | None:
        return np.full((len(rows), len(points)), np.log(self.value))

    def forward(self, ops: Any, rows: Any, points: Any) -> Any:
        return ops.for_all_points(self.value, points)

    def forward_diagonal(self, ops: Any, rows: Any) -> Any:
        return self.value


@dataclass(frozen=True, repr=False)
class Normalized(Composite):
    """k(x, y) / sqrt(k(x, x) k(y, y)): features are scaled to length one; rows with k(x, x) = 0 keep length zero.

    Parameters
    ----------
    kernel : Kernel
    """

    kernel: Kernel
    name = "normalized"
    of_all = ("differentiable", "stationary", "isotropic")
    bounded = True

    def __repr__(self) -> str:
        return f"normalized({self.kernel!r})"

    def _inverse_lengths(self, rows: Array) -> Array:
        squares = self.kernel.diagonal(rows)
        xp = namespace(squares)
        ones = xp.ones_like(squares)
        return xp.where(squares > 0, xp.sqrt(1 / xp.where(squares > 0, squares, ones)), xp.zeros_like(squares))

    def bind(self, points: Array) -> CrossGram:
        bound, inverse = self.kernel.bind(points), self._inverse_lengths(points)

        def cross_gram(rows: Array) -> Array:
            block = bound(rows) * inverse
            block *= self._inverse_lengths(rows)[:, None]
            return block

        return cross_gram

    def diagonal(self, rows: Array) -> Array:
        squares = self.kernel.diagonal(rows)
        return namespace(squares).astype(squares > 0, squares.dtype)

    def diagonal_gradient(self, rows: Array) -> Array | None:
        return None

    def slopes(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Slopes:
        # d(k / sqrt(k_x k_s)) = dk / sqrt(k_x k_s) - (k / sqrt(k_x k_s)) dk_s / (2 k_s)
        inverse = self._inverse_lengths(points)
        weighted = weights * self._inverse_lengths(rows)[:, None] * inverse
        slopes, kinks = self.kernel.slopes(rows, points, self.kernel(rows, points), weighted)
        own = self.kernel.diagonal_gradient(points)
        if own is not None:
            mass = namespace(weights).sum(weights * cross_gram, axis=0)
            slopes = slopes - 0.5 * (mass * inverse**2)[:, None] * own
        return slopes, kinks

    def forward(self, ops: Any, rows: Any, points: Any) -> Any:
        return self.kernel.forward(ops, rows, points) * ops.inverse_lengths(self.kernel, rows, points)

    def forward_diagonal(self, ops: Any, rows: Any) -> Any:
        own = self.kernel.forward_diagonal(ops, rows)
        return 1.0 if isinstance(own, float) else 1.0 - ops.equal(own, 0.0)


def normalized(kernel: Kernel) -> Kernel:
    """The kernel k(x, y) / sqrt(k(x, x) k(y, y)), for which all rows have length one in feature space.

    Parameters
    ----------
    kernel : Kernel

    Returns
    -------
    Kernel

    Examples
    --------
    >>> import numpy as np
    >>> from kernelsieve.kernels import Linear, normalized
    >>> normalized(Linear())(np.array([[3.0, 4.0]]), np.array([[1.0, 0.0]])).round(2)
    array([[0.6]])
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(f"normalized() needs a kernel of kernelsieve.kernels, as in normalized(RBF()): got {kernel!r}")
    kernel.check_combines()
    return Normalized(kernel)
