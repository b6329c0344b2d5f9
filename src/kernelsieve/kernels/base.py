"""The base class of kernels.

A kernel can be written before there are any rows, `RBF(width="median").on(["load"]) + 0.1 * Linear()`.  It is then
`settled` on rows, which replaces rules for widths and names of columns by numbers.  It is a frozen dataclass: two
kernels are equal if their fields are, and the `repr` is valid code.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from numbers import Integral, Real
from operator import add
from typing import Any, ClassVar

import numpy as np

from ..arrays import Array, as_float64, namespace, take_rows
from .blocks import LARGEST_PARAMETER, check_size, constant_diagonal
from .width import KernelRows

CrossGram = Callable[[Array], Array]

PER_COLUMN = "median per column"
POSSIBLE_WIDTHS = (1e-150, 1e150)  # the smallest and largest width: float64 can represent their squares
WIDTH_RULES = {"width": ("median", PER_COLUMN), "gamma": ("median", "scale")}
# Every kernel class, by its name in model files.
KERNEL_TYPES: dict[str, type[Kernel]] = {}


class Kernel(ABC):
    """A kernel function on blocks of rows, and everything that the rest of the library needs to know about it.

    A kernel must define `bind` and `diagonal`, which is enough for fits with rows as points.  `differentiable` kernels
    also define `pullback`, the derivative that moves points.  The other methods have defaults that follow from these,
    or that raise an error.

    Kernels add, multiply and act on some of the columns: ``k1 + k2``, ``k1 * k2``, ``2.0 * k``, ``k.on(columns)``.
    """

    name: ClassVar[str]
    linear_in_rows = False  # k(x, y) = phi(x)'phi(y), where phi is linear in x up to a factor for each row
    differentiable = False  # with respect to points
    moves = True  # a differentiable kernel's points can be moved: its derivatives are not zero everywhere
    unit_length = False  # k(x, x) = 1 for all rows
    stationary = False  # a function of x - y: rows may be shifted together, and k(x, x) is the same for all
    isotropic = False  # a function of x'x, x'y and y'y: the same in any orthonormal coordinates of rows and points
    # For points s in a subspace, k(x, s) = c k(x_r, s_r): x_r is the part of x in the subspace, and the factor c
    # depends on x alone (`row_scale`).
    factors = False
    lifts = False  # `factors`, and the gradient in directions outside the subspace is known (`lift`)
    in_row_space = False  # few rows of very many columns are fitted in the space that they span (rows/sampling.py)
    bounded = False  # |k| is at most a moderate constant, so the rounding of a float32 gram does not matter
    definite: bool | None = True  # positive semi-definite; None where it is not known
    uses_gamma = False  # the kernel has a gamma or a width, so its values depend on the scales of the columns
    metric = "euclidean"  # the distance in whose units the width is measured
    precomputed = False  # the "rows" are kernel values
    of_objects = False  # rows are Python objects, in an array of shape (n, 1) (kernels/objects.py)
    rows_only = False  # only rows can be points
    # The kernel's values are computed by the user's code, so a fit computes each once and counts them (fit/values.py).
    costly = False
    least_square = 1  # number of rows whose k(x, x) are computed together, as the diagonal of one block
    row_values = 0  # calls of the user's function for each row and point of a block, besides one for each pair
    # k(x, x) is computed separately, one value for each row.  It may include a noise term that blocks of k(x, y) lack.
    has_own_diagonal = True
    states_diagonal = False  # the user gives k(x, x) separately from k, and the two may contradict each other
    # How pre-images are computed (a row for given scores): "fixed-point", "linear" or "ridge"; None if there are none.
    preimage: str | None = "ridge"
    # The kernel depends on rows only through |x - y|^2 or |x - y|_1, so an export can merge a scaler with it.
    of_differences = False
    not_exported = ""  # why models with this kernel cannot be exported from Python; empty if they can
    needs_double = False  # float32 loses significant digits of its values, whatever the rows are
    stretches = True  # columns can have a factor, and so a width, each
    nonnegative = False  # the kernel is defined only for rows without negative numbers
    binds = 3  # operator precedence of its repr: 1 for a sum, 2 for a product, 3 for all others

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if isinstance(getattr(cls, "name", None), str):
            KERNEL_TYPES[cls.name] = cls

    # Writing and combining kernels.

    def settled(self, on: KernelRows) -> Kernel:
        """This kernel with numbers in place of the rules for its widths and the names of its columns."""
        return self

    def numbered(self, names: Sequence[str] | None, n_columns: int) -> Kernel:
        """This kernel with column numbers in place of column names."""
        return self

    def stretched(self, factors: tuple[float, ...]) -> Kernel:
        """k(f x, f y), where every column of x and y is multiplied by its own factor in f."""
        if all(factor == 1 for factor in factors):
            return self
        return KERNEL_TYPES["stretched"](self, factors)  # type: ignore[call-arg]

    def on(self, columns: Any) -> Kernel:
        """This kernel applied to some of the columns only.

        Parameters
        ----------
        columns : int, str, slice, or a list of ints or of strs
            Numbers of columns, or names of the columns of a frame.

        Returns
        -------
        Kernel

        Examples
        --------
        >>> import numpy as np
        >>> from kernelsieve.kernels import RBF
        >>> RBF(width=1.0).on([0])(np.array([[0.0, 5.0]]), np.array([[1.0, 7.0]])).round(4)
        array([[0.6065]])
        """
        self.check_combines()
        return KERNEL_TYPES["columns"](self, columns)  # type: ignore[call-arg]

    def __add__(self, other: Any) -> Kernel:
        return self._combined("sum", self, other)

    def __radd__(self, other: Any) -> Kernel:
        return self._combined("sum", other, self)

    def __mul__(self, other: Any) -> Kernel:
        return self._combined("product", self, other)

    def __rmul__(self, other: Any) -> Kernel:
        return self._combined("product", other, self)

    @staticmethod
    def _combined(how: str, left: Any, right: Any) -> Any:
        parts = [KERNEL_TYPES["constant"](part) if isinstance(part, Real) else part for part in (left, right)]  # type: ignore[call-arg]
        if not all(isinstance(part, Kernel) for part in parts):
            return NotImplemented
        for part in parts:
            part.check_combines()
        return KERNEL_TYPES[how](*parts)

    def check_combines(self) -> None:
        """Raise an error if this is a kernel of objects: only kernels of vectors can be combined."""
        if self.of_objects:
            raise TypeError(
                f"{self!r} is a kernel of objects, and only kernels of vectors have sums, products, multiples, on() "
                "and normalized(): combine the values in a function of your own and give it to of_objects"
            )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The fields by name; with `deep`, also the fields of kernels among them, under names such as ``k1__width``."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        parts = {name: value for name, value in found.items() if deep and isinstance(value, Kernel)}
        inner = {f"{name}__{key}": value for name, part in parts.items() for key, value in part.get_params().items()}
        return found | inner

    def with_params(self, **params: Any) -> Kernel:
        """This kernel with other values of some fields, which are named as in `get_params`."""
        own, inner, known = {}, {}, self.get_params(deep=False)  # type: ignore[var-annotated]
        for key, value in params.items():
            name, _, rest = key.partition("__")
            if name not in known or (rest and not isinstance(known[name], Kernel)):
                raise ValueError(
                    f"Invalid parameter {key!r} for {self!r}: it has {', '.join(sorted(self.get_params()))}"
                )
            if rest:
                inner.setdefault(name, {})[rest] = value
            else:
                own[name] = value
        parts = {name: own.get(name, known[name]).with_params(**values) for name, values in inner.items()}
        return replace(self, **own | parts)  # type: ignore[type-var]

    def __sklearn_clone__(self) -> Kernel:
        return self  # a kernel is immutable

    def __repr__(self) -> str:
        given = [(f.name, getattr(self, f.name)) for f in fields(self) if getattr(self, f.name) != f.default]  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given)})"

    @property
    def title(self) -> str:
        """The kernel in a few words, for messages: its name, or an expression if it is composed of others."""
        return self.name

    # Values

    @abstractmethod
    def bind(self, points: Array) -> CrossGram:
        """The map rows -> k(rows, points), with everything that depends only on the points computed once."""

    def is_near(self, rows: Array) -> bool:
        """Whether k(x, s) loses no digits for these rows and any points s near them, which then need no check."""
        return True

    def bind_near(self, points: Array) -> CrossGram:
        """`bind` for points near the rows, without a check of the points, for which a device's values would be read."""
        return self.bind(points)

    @abstractmethod
    def diagonal(self, rows: Array) -> Array:
        """k(x, x) for every row."""

    def __call__(self, rows: Array, points: Array | None = None) -> Array:
        kernel = self if self.is_settled else self.settled(KernelRows(rows))
        return kernel.bind(rows if points is None else points)(rows)

    def diagonal_of(self, X: Array) -> Array:
        """k(x, x) of all training rows X; a precomputed kernel reads it from the gram X."""
        return self.diagonal(X)

    def within(self, points: Array) -> Array:
        """The points, or the nearest ones at which the kernel has values, if they were moved where it has none."""
        return points

    def still_columns(self, n_columns: int) -> tuple[int, ...]:
        """Columns in which points cannot be moved, because the kernel is a step function of them."""
        return ()

    def far_exponents(self, rows: np.ndarray, points: np.ndarray) -> np.ndarray | None:
        """log k(x, s), (n, m), for rows so far from all points that k itself underflows; None if k never underflows."""
        return None

    def linear_features(self, rows: Array) -> Array:
        """The features phi(x) themselves, for kernels that are `linear_in_rows`."""
        raise TypeError(f"the {self.name} kernel has no explicit features")

    def with_features(self, features: Array) -> Array:
        """Points whose `linear_features` are these."""
        return features

    def agrees_with_sklearn(self, rows: Array, points: Array) -> bool:
        """Whether scikit-learn has a kernel of this name and computes it without loss of digits on these rows."""
        return False

    @property
    def thrifty(self) -> Kernel:
        """A version of this kernel that computes as few values as possible, even if that takes more calls."""
        return self

    # Points that are rows.

    def at(self, X: Array, indices: Array) -> tuple[Kernel, Array]:
        """The rows `indices` of X as points, and the kernel to use with them (a precomputed one stores the indices)."""
        return self, take_rows(X, indices)

    def part(self, points: Array, places: Array) -> tuple[Kernel, Array]:
        """The points at `places`, which represent rows, and the kernel to use with them."""
        return self, take_rows(points, places)

    def of_rows(self, n_rows: int) -> Kernel:
        """This kernel for points that are the rows 0 to n_rows - 1."""
        return self

    # Derivatives

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        """sum_n weights_nj dk(x_n, s_j)/ds_j, (m, d).

        The result is proportional to the given cross-gram, whose values may be scaled.
        """
        raise TypeError(f"the {self.name} kernel has no derivative in its points")

    def slopes(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> tuple[Array, Array | None]:
        """`pullback`, and how much is lost by moving points off the kernel's kinks, (m, d); None without kinks."""
        return self.pullback(rows, points, cross_gram, weights), None

    def gradients(self, rows: Array, points: Array, cross_gram: Array, coef: Array) -> Array:
        """d/dx_n of sum_i coef_ik k(x_n, s_i), (n, M, d).

        Kernels are symmetric, so `pullback` computes it with rows and points exchanged.
        """
        xp = namespace(cross_gram)
        parts = [
            self.pullback(points, rows, cross_gram.T, xp.broadcast_to(coef[:, k], cross_gram.shape).T)
            for k in range(coef.shape[1])
        ]
        return xp.stack(parts, axis=1)

    def diagonal_gradient(self, rows: Array) -> Array | None:
        """dk(x, x)/dx, (n, d), or None if k(x, x) is constant."""
        raise TypeError(f"the {self.name} kernel has no derivative: contributions need one")

    def tangents(self, points: Array, gram: Array) -> Array | None:
        """<dphi(s_i), dphi(s_j)> (m, m): inner products of the features' derivatives along one coordinate.

        The result is only that part of the inner products that is the same for every coordinate; it is positive
        semi-definite.  None if it is not known.
        """
        return None

    def fixed(self, rows: Array, row_scale: Array | None) -> FixedRows:
        """The rows, with a factor for the kernel values of each, prepared once for points that move."""
        return FixedRows(self, rows, row_scale)

    # Coordinates in which points are moved.

    def unit(self, rows: Array) -> tuple[float, Kernel]:
        """(c, kernel_1) such that k(x, s) is proportional to kernel_1(c x, c s), and c x is of order one."""
        return 1.0, self

    def unit_scales(self, rows: Array) -> tuple[float, ...]:
        """Factors that bring every column to order one; zero if the kernel does not depend on the scale."""
        return (float(self.unit(rows)[0]),) * rows.shape[1]

    def row_scale(self, inside: Array, outside: Array) -> Array | None:
        """The factors c in k(x, s) = c k(x_r, s_r), for points in a subspace; None if all are one.

        `inside` is |x_r|^2, and `outside` is the squared length of the rest of the row.  Kernels with `factors` have
        this method.
        """
        return None

    def lift(self, rows: Array, cross_gram: Array, weights: Array) -> Array:
        """Gradient in directions outside the subspace, in which points are zero and rows have the values `rows`.

        The values in `cross_gram` are those of the full rows.
        """
        raise TypeError(f"the {self.name} kernel has no gradient outside of a subspace")

    # Exports

    def forward(self, ops: Any, rows: Any, points: Any) -> Any:
        """k(rows, points), (n, m), by the operations `ops` of an export to numpy, torch, ONNX or C (export/ops.py)."""
        raise TypeError(f"a model with a {self.name} kernel cannot be exported")

    def forward_diagonal(self, ops: Any, rows: Any) -> Any:
        """k(x, x), (n,), by the operations `ops` of an export; a number if it is constant."""
        raise TypeError(f"a model with a {self.name} kernel cannot be exported")

    # Files

    def params(self) -> dict[str, Any]:
        """The kernel's own parameters, for a model file."""
        return {name: value for name, value in self.get_params(deep=False).items() if value is not None}

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Kernel:
        """The inverse of `params`."""
        return cls(**params)

    def numbers(self) -> list[Any]:
        """The parameters that are numbers once the kernel is settled."""
        found: list[Any] = []
        for value in self.params().values():
            found += value.numbers() if isinstance(value, Kernel) else value if isinstance(value, tuple) else [value]
        return [value for value in found if not isinstance(value, str | slice)]

    @property
    def is_settled(self) -> bool:
        """Whether all parameters that depend on rows are numbers."""
        return True

    @property
    def names_columns(self) -> bool:
        """Whether the kernel, or a part of it, acts on columns that are given by name."""
        return False


@dataclass(frozen=True, repr=False)
class Wide(Kernel):
    """A kernel with a width or a gamma: a number, or a rule that finds it on rows; widths may differ by column."""

    gamma_power: ClassVar[int] = 2  # the kernel depends on gamma times differences of rows to this power
    width: Any = field(default=None, kw_only=True)
    gamma: Any = field(default=None, kw_only=True)
    uses_gamma = True

    def __post_init__(self) -> None:
        if self.width is not None and self.gamma is not None:
            raise ValueError(f"{type(self).__name__} takes width={self.width!r} or gamma={self.gamma!r}, not both")
        if isinstance(self.width, list | np.ndarray):
            object.__setattr__(self, "width", tuple(np.asarray(self.width, dtype=float).tolist()))
        if isinstance(self.width, tuple) or self.width == PER_COLUMN:
            object.__setattr__(self, "in_row_space", False)
            if not self.stretches:
                raise ValueError(f"{type(self).__name__} has one width for all columns: got width={self.width!r}")
        for name, value in (("width", self.width), ("gamma", self.gamma)):
            check_width(name, value)

    @classmethod
    def gamma_of(cls, width: float) -> float:
        """gamma for a width: 1 / (2 width^2), as for a Gaussian, or 1 / width if gamma multiplies plain differences."""
        return 1.0 / (2.0 * width**2) if cls.gamma_power == 2 else 1.0 / width

    def stretched(self, factors: tuple[float, ...]) -> Kernel:
        if len(set(factors)) > 1:
            return super().stretched(factors)
        return replace(self, gamma=self.gamma * factors[0] ** self.gamma_power)

    def unit(self, rows: Array) -> tuple[float, Kernel]:
        return self.gamma ** (1 / self.gamma_power), replace(self, gamma=1.0)

    def distances(self, rows: Array, points: Array) -> Array | None:
        """The distances of all pairs, of which the width is the median by default; None if they are Euclidean."""
        return None

    def settled(self, on: KernelRows) -> Kernel:
        if self.width == PER_COLUMN:
            factors = on.column_factors()
            return self._with_gamma(on.stretched(factors).gamma("median", self)).stretched(factors)
        if isinstance(self.width, tuple):
            if len(self.width) != on.n_columns:
                raise ValueError(f"width has {len(self.width)} numbers for {on.n_columns} columns: {self!r}")
            return self._with_gamma(self.gamma_of(1.0)).stretched(tuple(1.0 / width for width in self.width))
        if isinstance(self.width, Real):
            return self._with_gamma(on.gamma(self.gamma_of(float(self.width)), self))
        rule = self.width if self.gamma is None else self.gamma
        return self._with_gamma(on.gamma("median" if rule is None else rule, self))

    @property
    def is_settled(self) -> bool:
        return self.width is None and isinstance(self.gamma, Real)

    def _with_gamma(self, gamma: float) -> Wide:
        return replace(self, width=None, gamma=gamma)


def check_count(kernel: str, name: str, value: Any, least: int = 1) -> None:
    """Raise an error for a kernel parameter that is not a whole number, or is too small."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name}={value!r} of {kernel} must be a whole number, at least {least}")


def check_real(block: Any) -> None:
    """Raise an error for complex values, because a conversion would drop their imaginary part."""
    dtype = getattr(block, "dtype", None)
    if dtype.kind == "c" if isinstance(dtype, np.dtype) else "complex" in str(dtype):
        raise ValueError("the kernel returned complex numbers: kernel PCA needs real ones")


def as_real(value: Any) -> float:
    """A real number as a float: infinite where it is too large for one, NaN for anything that is no number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def check_positive(kernel: str, name: str, value: Any, most: float = sys.float_info.max) -> None:
    """Raise an error for a kernel parameter that is not a positive number, or is too large."""
    if not 0 < as_real(value) <= most:
        limit = "" if most == sys.float_info.max else f", at most {most:g}"
        raise ValueError(f"{name}={value!r} of {kernel} must be a positive number{limit}")


def check_width(name: str, value: Any) -> None:
    """Raise an error unless the value is a positive number, a rule, or (for a width) a number for each column."""
    rules = WIDTH_RULES[name]
    numbers = value if isinstance(value, tuple) and name == "width" else (value,)
    words = " or ".join(map(repr, rules))
    for number in numbers:
        if number is None or (isinstance(number, str) and number in rules and not isinstance(value, tuple)):
            continue
        if not 0 <= as_real(number) < np.inf:
            raise ValueError(f"{name}={value!r} of a kernel must be a positive number, or {words}")
        if name == "width" and number == 0:
            raise ValueError(f"{name}={value!r} of a kernel must be above zero")
        least, most = POSSIBLE_WIDTHS
        if name == "width" and not least <= float(number) <= most:
            raise ValueError(f"{name}={value!r} of a kernel must lie between {least:g} and {most:g}")


class UnitLength(Kernel):
    """A kernel with k(x, x) = 1 for every row."""

    bounded = unit_length = True

    def diagonal(self, rows: Array) -> Array:
        return constant_diagonal(rows, 1.0)

    def diagonal_gradient(self, rows: Array) -> Array | None:
        return None

    def forward_diagonal(self, ops: Any, rows: Any) -> Any:
        return 1.0


@dataclass(frozen=True, repr=False)
class Stationary(UnitLength, Wide):
    """A bounded function of x - y, scaled by a width, that is one at x = y."""

    differentiable = True
    stationary = True


def check_coef0(coef0: float, kernel: Kernel, rows: Array) -> None:
    """Raise an error for a coef0 that is too large to be added to products of these rows."""
    if "coef0" in getattr(kernel, "__dataclass_fields__", {}):
        check_size(abs(coef0), LARGEST_PARAMETER, f"coef0={coef0:.3g}", rows)


@dataclass(frozen=True)
class FixedRows:
    """c k(x, s) and its derivative in s, for fixed rows x with factors c, and points s that move."""

    kernel: Kernel
    rows: Array  # (n, d)
    row_scale: Array | None  # (n,), the factors c; None if all are one

    def bind(self, points: Array) -> Callable[[slice], Array]:
        """The map from a block of rows to c k(x, s) of these rows and the points."""
        cross_gram, scale = self.kernel.bind(points), self.row_scale
        if scale is None:
            return lambda part: cross_gram(self.rows[part, :])
        return lambda part: cross_gram(self.rows[part, :]) * scale[part, None]

    def slopes(self, part: slice, points: Array, values: Array, weights: Array) -> tuple[Array, Array | None]:
        """`Kernel.slopes` of a block of rows, given the block's values; the weights may be overwritten."""
        rows = self.rows[part, :]
        if self.row_scale is None:
            return self.kernel.slopes(rows, points, values, weights)
        return self.kernel.slopes(rows, points, self.kernel(rows, points), weights * self.row_scale[part, None])


def uphill(slopes: list[tuple[Array, Array | None]], own: tuple[Array, Array | None]) -> Array:
    """The gradient: the sum of the `slopes` from blocks of rows and of the points' `own` slopes among themselves.

    On a kink, the slope to either side is the gradient minus the loss from leaving the kink.  The gradient of a point
    that would lose on both sides is set to zero.
    """
    gradient = as_float64(reduce(add, (slope for slope, _ in slopes))) + own[0]
    costs = [kink for _, kink in slopes if kink is not None]
    if not costs or own[1] is None:
        return gradient
    xp = namespace(gradient)
    left = xp.abs(gradient) - (as_float64(reduce(add, costs)) + own[1])
    return xp.sign(gradient) * xp.where(left > 0, left, xp.zeros_like(left))
