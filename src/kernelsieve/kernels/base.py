"""What a kernel is, and the products of rows and points that most are made of."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import scipy.sparse

from ..arrays import Array, as_float64, is_numpy, like, namespace, take_rows

CrossGram = Callable[[Array], Array]

# Sparse points up to so many elements (64 MB) are made dense for products, which are several times faster then.
MAX_DENSE_POINTS = 2**23
# OpenBLAS multiplies few points by many wide float64 rows a quarter faster than the other way round.
WIDE_ROWS = 128
# By the bytes of a number: the largest that distances of rows (rows/memory.py) can be multiplied by.
LARGEST_PARAMETER = {4: 1e30, 8: 1e130}


class Kernel(ABC):
    """A kernel function on blocks of rows, and everything that the rest of the library asks about it.

    Values and the diagonal are enough to fit on rows.  `differentiable` kernels also have `pullback`, by which points
    are moved; what else is here either follows from these or says what such a kernel cannot do.
    """

    name: str
    linear_in_rows = False  # k(x, y) = phi(x)'phi(y) with phi(x) a multiple of x
    differentiable = False  # in its points: they can be moved
    stationary = False  # a function of x - y: rows may be shifted together, and k(x, x) is the same for all
    isotropic = False  # a function of x'x, x'y and y'y: the same in any orthonormal coordinates of rows and points
    factors = False  # for points in a subspace, k(x, s) = c k(x_r, s_r) with x_r the part of x in it (`row_scale`)
    lifts = False  # and the gradient in directions outside of it is known there (`lift`)
    in_row_space = False  # few rows of very many columns are fitted in the space that they span (rows/row_space.py)
    bounded = False  # |k| <= 1: a float32 gram loses nothing that matters
    definite: bool | None = True  # positive semi-definite; None where it is not known
    uses_gamma = False  # and so sees the scales of the columns
    metric = "euclidean"  # of the distances that its width is measured by
    precomputed = False  # "rows" are kernel values, and points cannot be anything but rows
    # how rows are found for scores: "fixed-point", "linear", "ridge"; None where there are none
    preimage: str | None = "ridge"
    not_exported = ""  # why a model with this kernel cannot leave Python
    needs_double = False  # whatever the rows are, exports compute it in float64

    # Values

    @abstractmethod
    def bind(self, points: Array) -> CrossGram:
        """The map rows -> k(rows, points), with all that depends on the points done once."""

    def is_near(self, rows: Array) -> bool:
        """Whether k(x, y) of these rows, and of any points near them, loses no digits without a look at the points."""
        return True

    def bind_near(self, points: Array) -> CrossGram:
        """`bind` for points among rows that are near: on a device nothing is asked that it would have to answer."""
        return self.bind(points)

    @abstractmethod
    def diagonal(self, rows: Array) -> Array:
        """k(x, x) for every row."""

    def __call__(self, rows: Array, points: Array) -> Array:
        return self.bind(points)(rows)

    def diagonal_of(self, X: Array) -> Array:
        """k(x, x) of all training rows X, which for a precomputed kernel are its gram."""
        return self.diagonal(X)

    def far_exponents(self, rows: np.ndarray, points: np.ndarray) -> np.ndarray | None:
        """log k(x, s), (n, m), of rows so far from all points that k itself is zero; None where it never is."""
        return None

    def linear_features(self, rows: Array) -> Array:
        """phi(x) itself, for kernels that are `linear_in_rows`."""
        raise TypeError(f"the {self.name} kernel has no features that could be written down")

    def agrees_with_sklearn(self, rows: Array, points: Array) -> bool:
        """Whether scikit-learn has this kernel by its name, and computes it on these rows to all digits."""
        return False

    # Points that stand for rows

    def at(self, X: Array, indices: Array) -> tuple[Kernel, Array]:
        """This kernel and the points that stand for rows `indices` of X."""
        return self, take_rows(X, indices)

    def part(self, points: Array, places: Array) -> tuple[Kernel, Array]:
        """This kernel and, of points that stand for rows, those at `places`."""
        return self, take_rows(points, places)

    def of_rows(self, n_rows: int) -> Kernel:
        """This kernel for points that are the rows 0 to n_rows - 1."""
        return self

    # Derivatives

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        """sum_n weights_nj dk(x_n, s_j)/ds_j, (m, d); proportional to the given cross-gram, which may be scaled."""
        raise TypeError(f"the {self.name} kernel has no derivative in its points")

    def slopes(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> tuple[Array, Array | None]:
        """`pullback`, and what a move off a kink costs, (m, d), where points are on kinks of the kernel; else None."""
        return self.pullback(rows, points, cross_gram, weights), None

    def gradients(self, rows: Array, points: Array, cross_gram: Array, coef: Array) -> Array:
        """d/dx_n of sum_i coef_ik k(x_n, s_i), (n, M, d): kernels are symmetric, and a row is moved as a point is."""
        xp = namespace(cross_gram)
        parts = [
            self.pullback(points, rows, cross_gram.T, xp.broadcast_to(coef[:, k], cross_gram.shape).T)
            for k in range(coef.shape[1])
        ]
        return xp.stack(parts, axis=1)

    def diagonal_gradient(self, rows: Array) -> Array | None:
        """dk(x, x)/dx, (n, d), or None where k(x, x) is constant."""
        raise TypeError(f"the {self.name} kernel has no derivative: contributions need one")

    def tangents(self, points: Array, gram: Array) -> Array | None:
        """<dphi(s_i), dphi(s_j)> (m, m): how two points' features turn together as both move along a coordinate.

        The part that is the same for every coordinate; positive semi-definite.  None where it is not known.
        """
        return None

    def fixed(self, rows: Array, row_scale: Array | None) -> FixedRows:
        """The rows, each with a factor for its kernel values, for points that are moved about among them."""
        return FixedRows(self, rows, row_scale)

    # Coordinates in which points are moved

    def unit(self, rows: Array) -> tuple[float, Kernel]:
        """(c, kernel_1) with k(x, s) proportional to kernel_1(c x, c s), numbers of order one."""
        return 1.0, self

    def row_scale(self, inside: Array, outside: Array) -> Array | None:
        """For points in a subspace, c of every row in k(x, s) = c k(x_r, s_r); None where it is one for all.

        `inside` is |x_r|^2, `outside` the squared length of the rest of the row.  For kernels with `factors`.
        """
        return None

    def lift(self, rows: Array, cross_gram: Array, weights: Array) -> Array:
        """`pullback` in coordinates in which all points are zero and rows have these values, for kernels that `lift`.

        The cross-gram is that of the whole rows.
        """
        raise TypeError(f"the {self.name} kernel is not known outside of a subspace")

    # Outside of Python

    def forward(self, ops: Any, rows: Any, points: Any) -> Any:
        """k(rows, points), (n, m), in the vocabulary of an export (export/ops.py): numpy, torch, ONNX or C."""
        raise TypeError(f"a model with a {self.name} kernel cannot be exported")

    def forward_diagonal(self, ops: Any, rows: Any) -> Any:
        """k(x, x), (n,), in that vocabulary; a number where it is constant."""
        raise TypeError(f"a model with a {self.name} kernel cannot be exported")

    # Files

    def params(self) -> dict[str, Any]:
        """The kernel's own parameters, as JSON can hold them."""
        return asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Kernel:
        """The inverse of `params`."""
        return cls(**params)

    def numbers(self) -> list[Any]:
        """What of `params` must be numbers for the kernel to be one."""
        return list(self.params().values())


@dataclass(frozen=True)
class Stationary(Kernel):
    """A function of gamma and x - y: one at its top, k(x, x), and zero far away."""

    gamma: float
    differentiable = True
    stationary = True
    bounded = True
    uses_gamma = True

    def diagonal(self, rows: Array) -> Array:
        return constant_diagonal(rows, 1.0)

    def diagonal_gradient(self, rows: Array) -> Array | None:
        return None

    def forward_diagonal(self, ops: Any, rows: Any) -> Any:
        return 1.0


def check_coef0(coef0: float, kernel: type[Kernel], rows: Array) -> None:
    """Refuse a coef0 that cannot be added to products of these rows."""
    if "coef0" in getattr(kernel, "__dataclass_fields__", {}):
        check_size(abs(coef0), LARGEST_PARAMETER, f"coef0={coef0:.3g}", rows)


def check_size(value: float, limits: dict[int, float], words: str, rows: Array, otherwise: str = "") -> None:
    """Refuse a parameter of a kernel that is too large for the numbers that rows are in."""
    single = "32" in str(rows.dtype)
    largest = limits[4 if single else 8]
    if value > largest:
        wider = ", or float64 rows" if single else ""
        raise ValueError(
            f"{words} is too large to compute with for {rows.dtype} rows: give at most {largest:g}{otherwise}{wider}"
        )


@dataclass(frozen=True)
class FixedRows:
    """Rows that stay while points move: c k(x, s) for a row x with the factor c, and how it changes with s."""

    kernel: Kernel
    rows: Array  # (n, d)
    row_scale: Array | None  # (n,), c; None where it is one

    def bind(self, points: Array) -> Callable[[slice], Array]:
        """The map from a block of rows to their values with the points."""
        cross_gram, scale = self.kernel.bind(points), self.row_scale
        if scale is None:
            return lambda part: cross_gram(self.rows[part, :])
        return lambda part: cross_gram(self.rows[part, :]) * scale[part, None]

    def slopes(self, part: slice, points: Array, values: Array, weights: Array) -> tuple[Array, Array | None]:
        """`Kernel.slopes` of a block of rows from their values; the weights may be overwritten."""
        rows = self.rows[part, :]
        if self.row_scale is None:
            return self.kernel.slopes(rows, points, values, weights)
        return self.kernel.slopes(rows, points, self.kernel(rows, points), weights * self.row_scale[part, None])


def uphill(slopes: list[tuple[Array, Array | None]], own: tuple[Array, Array | None]) -> Array:
    """The gradient from its parts: those of blocks of rows, and that of the points among themselves.

    On a kink of the kernel the slope to either side is what the gradient says less what leaving the kink costs; a
    point that would lose on both sides stays.
    """
    gradient = as_float64(reduce(add, (slope for slope, _ in slopes))) + own[0]
    costs = [kink for _, kink in slopes if kink is not None]
    if not costs or own[1] is None:
        return gradient
    xp = namespace(gradient)
    left = xp.abs(gradient) - (as_float64(reduce(add, costs)) + own[1])
    return xp.sign(gradient) * xp.where(left > 0, left, xp.zeros_like(left))


def transposed(points: Array, scale: float = 1.0) -> Array:
    """scale * points', laid out for products rows @ points'."""
    if scipy.sparse.issparse(points):
        if points.shape[0] * points.shape[1] > MAX_DENSE_POINTS:
            return (points * scale).T.tocsc()
        points = points.toarray()
    return (points * scale).T


class _Scratch(threading.local):
    """Memory that a thread writes one block after another into: fresh pages cost as much as the arithmetic."""

    in_use = False
    buffers: dict[str, np.ndarray]

    def __init__(self) -> None:
        self.buffers = {}

    def array(self, name: str, shape: tuple[int, int], dtype: Any) -> np.ndarray:
        size = shape[0] * shape[1]
        buffer = self.buffers.get(name)
        if buffer is None or buffer.size < size or buffer.dtype != dtype:
            buffer = self.buffers[name] = np.empty(size, dtype=dtype)
        return buffer[:size].reshape(shape)

    def before_ones(self, shape: tuple[int, int], dtype: Any) -> np.ndarray:
        """Room before a last column of ones, which nobody writes into: in use, they stay from block to block."""
        buffer = self.buffers.get("ones") if self.in_use else None
        if buffer is None or buffer.shape[0] < shape[0] or buffer.shape[1] != shape[1] or buffer.dtype != dtype:
            buffer = np.empty(shape, dtype=dtype)
            buffer[:, -1] = 1.0
            if self.in_use:
                self.buffers["ones"] = buffer
        return buffer[: shape[0]]


_scratch = _Scratch()


@contextmanager
def overwritten_blocks() -> Iterator[None]:
    """Within, every block that a kernel makes in this thread overwrites the one before: keep nothing of it."""
    before, _scratch.in_use = _scratch.in_use, True
    try:
        yield
    finally:
        _scratch.in_use = before


def overwritten_product(block: Array, matrix: Array, name: str = "product") -> Array:
    """block @ matrix, in memory that this thread's next product of that `name` overwrites: use it up, keep nothing."""
    if not (is_numpy(block) and is_numpy(matrix) and block.dtype == matrix.dtype):
        return block @ matrix
    return product(block, matrix, _scratch.array(name, (block.shape[0], matrix.shape[1]), block.dtype))


def product(left: np.ndarray, right: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """left @ right, of which overflow is told, and no invalid values: whether there are any is asked of the rows.

    BLAS leaves that flag behind where registers hold what is no part of the matrices, though all numbers are finite.
    """
    with np.errstate(invalid="ignore"):
        return np.matmul(left, right, out=out)


def with_norms(rows: np.ndarray) -> np.ndarray:
    """(x, |x|^2, 1) of every row x, in memory that the next such rows overwrite where blocks do."""
    out = _scratch.before_ones((rows.shape[0], rows.shape[1] + 2), rows.dtype)
    out[:, :-2] = rows
    np.vecdot(rows, rows, out=out[:, -2])
    return out


def inner_products(rows: Array, points_transposed: Array) -> Array:
    """rows @ points' as a dense block of its own, whatever mix of dense and sparse comes in."""
    if is_numpy(rows) and is_numpy(points_transposed) and rows.dtype == points_transposed.dtype:
        left, right = rows, points_transposed
        wide = rows.dtype == np.float64 and rows.shape[1] >= WIDE_ROWS
        if wide:
            left, right = points_transposed.T, rows.T
        shape = (left.shape[0], right.shape[1])
        out = _scratch.array("block", shape, rows.dtype) if _scratch.in_use else None
        block = product(left, right, out)
        return block.T if wide else block
    block = rows @ points_transposed
    return dense(block)


def dense(rows: Array) -> Array:
    """Sparse rows as a dense array; any others as they are."""
    return rows.toarray() if scipy.sparse.issparse(rows) else rows


def weighted_rows(weights: Array, rows: Array) -> Array:
    """weights' @ rows, (m, d), dense."""
    return (rows.T @ weights).T if scipy.sparse.issparse(rows) else weights.T @ rows


def constant_diagonal(rows: Array, value: float) -> Array:
    """`value` for every row."""
    if scipy.sparse.issparse(rows) or is_numpy(rows):
        return np.full(rows.shape[0], value, dtype=rows.dtype)
    return namespace(rows).full_like(rows[:, 0], value)


def identity_like(square: Array) -> Array:
    """The identity matrix in the shape, the dtype and the place of a square one."""
    return like(namespace(square).eye(square.shape[0], dtype=square.dtype), square)
