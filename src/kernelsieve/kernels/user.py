"""Kernels whose values the user supplies: a gram, a function, values by row numbers, or values with landmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse

from ..arrays import Array, is_foreign, is_numpy, is_torch, like, namespace, take_rows, to_numpy
from .base import CrossGram, Kernel, check_real
from .blocks import dense
from .objects import ObjectKernel, shown
from .products import Linear
from .views import View
from .width import KernelRows

# For k(x, x), a vectorised function is called with blocks of this many rows, and only the diagonals are kept.  Larger
# blocks take fewer calls, but more values for each row.
DIAGONAL_SQUARE = 4


@dataclass(frozen=True, repr=False)
class Precomputed(Kernel):
    """A kernel whose rows *are* kernel values: a row x is given by k(x, y) for the training rows y.

    `columns` are the numbers of the support points among the `n_columns` training rows.  The points are represented by
    their gram K_SS.  Rows may have all `n_columns` values or only those with the support points.
    """

    columns: tuple[int, ...] = ()
    n_columns: int = 0
    name = "precomputed"
    definite = None
    precomputed = True
    rows_only = True
    preimage = None
    not_exported = "a precomputed kernel has no points"

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
            return dense(block)

        return cross_gram

    def at(self, X: Array, indices: Array) -> tuple[Kernel, Array]:
        rows = to_numpy(indices)
        kernel = Precomputed(tuple(int(i) for i in rows), X.shape[1])
        return kernel, kernel.bind(None)(take_rows(X, rows))

    def part(self, points: Array, places: Array) -> tuple[Kernel, Array]:
        chosen = to_numpy(places)
        columns = tuple(self.columns[int(i)] for i in chosen)
        return Precomputed(columns, self.n_columns), take_rows(take_rows(points, chosen).T, chosen).T

    def of_rows(self, n_rows: int) -> Kernel:
        return Precomputed(tuple(range(n_rows)), n_rows)

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Kernel:
        return cls(**{**params, "columns": tuple(params["columns"])})

    def numbers(self) -> list[Any]:
        return [*self.columns, self.n_columns]

    def diagonal_of(self, X: Array) -> Array:
        return X.diagonal() if is_numpy(X) or scipy.sparse.issparse(X) else namespace(X).linalg.diagonal(X)

    def diagonal(self, rows: Array) -> Array:
        raise ValueError(
            "k(x, x) of new rows is not in a precomputed cross-gram: give it as diagonal=, or use a named kernel"
        )


@dataclass(frozen=True, repr=False)
class CallableKernel(Kernel):
    """A user's function: either vectorised, k(X, Y) -> (n, m), or of a pair of rows, k(x, y) -> float."""

    function: Callable[..., Any]
    keywords: Mapping[str, Any] = field(default_factory=dict)
    vectorized: bool = True
    square: int = DIAGONAL_SQUARE  # rows whose k(x, x) are computed together, as the diagonal of one block
    name = "callable"
    definite = None
    costly = True
    not_exported = "a callable kernel is code"

    by_autograd: bool = False  # the function is written with torch, which computes its derivative
    on_host: bool = False  # the function was first called with rows on the host, and so it always is

    def __post_init__(self) -> None:
        object.__setattr__(self, "differentiable", self.by_autograd)

    def is_near(self, rows: Array) -> bool:
        return False  # the device would have to wait wherever the user's function copies values to the host

    def unit(self, rows: Array) -> tuple[float, Kernel]:
        xp = namespace(rows)
        spread = float(xp.mean(xp.std(rows, axis=0))) if self.by_autograd else 1.0
        scale = 1.0 / spread if spread > 0 else 1.0
        return scale, self.stretched((1.0 / scale,) * rows.shape[1])

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        if not self.by_autograd:
            return super().pullback(rows, points, cross_gram, weights)
        return _torch_gradient(lambda s: (self.function(rows.detach(), s, **self.keywords) * weights).sum(), points)

    def diagonal_gradient(self, rows: Array) -> Array | None:
        if not self.by_autograd:
            return super().diagonal_gradient(rows)

        # By symmetry this is twice the derivative in the second argument.  Blocks of 16 rows take few calls.
        def of_square(x: Any) -> Any:
            return _torch_gradient(lambda s: 2 * self.function(x, s, **self.keywords).diagonal().sum(), x)

        squares = [rows[i : i + 16, :] for i in range(0, rows.shape[0], 16)]
        return namespace(rows).concat([of_square(square) for square in squares], axis=0)

    def _given(self, rows: Array) -> Array:
        """The rows as the function is called with them."""
        return to_numpy(rows) if self.on_host and is_foreign(rows) else rows

    def bind(self, points: Array) -> CrossGram:
        given_points = self._given(points)

        def cross_gram(rows: Array) -> Array:
            shape = (rows.shape[0], points.shape[0])
            given = given_points if rows is points else self._given(rows)
            if self.vectorized:
                block = self.function(given, given_points, **self.keywords)
            else:
                block = self._pairs(given, given_points)
            return _checked_block(block, shape, rows, points)

        return cross_gram

    def _pairs(self, rows: Array, points: Array) -> np.ndarray:
        """The block computed value by value, in float64; if rows are the points, one half is computed and mirrored."""
        block = np.empty((rows.shape[0], points.shape[0]))
        columns, mirrored = each_row(points), rows is points
        for i, x in enumerate(columns if mirrored else each_row(rows)):
            from_here = i if mirrored else 0
            block[i, from_here:] = [float(self.function(x, y, **self.keywords)) for y in columns[from_here:]]
            if mirrored:
                block[i:, i] = block[i, i:]
        return block

    @property
    def least_square(self) -> int:  # type: ignore[override]
        return self.square if self.vectorized else 1

    @property
    def has_own_diagonal(self) -> bool:  # type: ignore[override]
        return self.vectorized and hasattr(self.function, "diag")  # Gaussian-process kernels have this method

    def diagonal(self, rows: Array) -> Array:
        if not self.vectorized:
            values = np.asarray([float(self.function(x, x, **self.keywords)) for x in each_row(self._given(rows))])
        elif self.has_own_diagonal:
            values = np.asarray(self.function.diag(self._given(rows)))  # type: ignore[attr-defined]
        else:
            squares = (rows[i : i + self.square] for i in range(0, rows.shape[0], self.square))
            values = np.concatenate([np.diagonal(to_numpy(self(square, square))) for square in squares])
        return like(values, rows)

    @property
    def thrifty(self) -> CallableKernel:
        """This kernel with its diagonal computed one row at a time: one value and one call for each."""
        return replace(self, square=1)

    def params(self) -> dict[str, Any]:
        raise TypeError("a callable kernel has no parameters that a file could hold")

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Kernel:
        raise ValueError("unknown kernel 'callable': a file holds no code")


def _torch_gradient(function: Callable[[Any], Any], points: Any) -> Any:
    """The derivative of a function of points whose value is one number, computed by torch."""
    import torch

    with torch.enable_grad():
        moving = points.detach().clone().requires_grad_(True)
        (found,) = torch.autograd.grad(function(moving), moving)
    return found


def _has_torch_gradient(function: Callable[..., Any], rows: Array, keywords: Mapping[str, Any]) -> bool:
    """Whether torch can differentiate a function of two blocks of tensors with respect to the second block."""
    if not is_torch(rows):
        return False
    try:
        gradient = _torch_gradient(lambda s: function(rows[:2], s, **keywords).sum(), rows[2:])
        return bool(gradient.isfinite().all())
    except (RuntimeError, TypeError, AttributeError):
        return False  # the function computes with something other than torch


def each_row(rows: Array) -> list[Array]:
    """A list of the rows; sparse rows are 1 x d matrices, as scikit-learn passes them to a kernel function."""
    return [rows[[i]] for i in range(rows.shape[0])] if scipy.sparse.issparse(rows) else list(rows)


def _checked_block(block: Any, shape: tuple[int, int], rows: Array, points: Array) -> Array:
    if tuple(np.shape(block)) != shape:
        raise ValueError(f"the kernel callable returned shape {np.shape(block)}, expected {shape}")
    check_real(block)
    block = like(dense(block), rows)
    if not bool(namespace(block).all(namespace(block).isfinite(block))):
        values = to_numpy(block)
        i, j = np.argwhere(~np.isfinite(values))[0]
        x, y = (shown(to_numpy(dense(row))) for row in (rows[[i], :][0], points[[j], :][0]))
        raise ValueError(f"the kernel callable returned {values[i, j]} for the pair {x}, {y}")
    return block


def bind_callable(function: Callable[..., Any], keywords: Mapping[str, Any] | None, rows: Array) -> CallableKernel:
    """The kernel of a user's function.

    Five rows are used to find out whether the function is vectorised, and whether torch can differentiate it.
    """
    keywords = dict(keywords or {})
    few = rows[np.arange(5) % rows.shape[0]]
    found = _told_apart(function, keywords, few)
    by_autograd = found.vectorized and _has_torch_gradient(function, few, keywords)
    return replace(found, by_autograd=by_autograd, on_host=not is_foreign(rows))


def _told_apart(function: Callable[..., Any], keywords: dict[str, Any], few: Array) -> CallableKernel:
    """The kernel of a function that is vectorised or takes a pair of rows, whichever works.

    It is called with two rows and three rows: only a vectorised function returns a (2, 3) block for these.
    """
    try:
        block = function(few[:2], few[2:], **keywords)
        if np.shape(block) == (2, 3):
            return CallableKernel(function, keywords, vectorized=True)
        problem = f"k(X[:2], X[2:5]) returned shape {np.shape(block)}, not (2, 3)"
    except Exception as error:
        problem = f"k(X[:2], X[2:5]) raised {type(error).__name__}: {error}"
    try:
        x, _, y, *_ = each_row(few)
        value = function(x, y, **keywords)
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


@dataclass(frozen=True)
class GramByNumber(ObjectKernel):
    """A kernel of row numbers 0 .. N-1, whose values are read from an array or computed; made by `gram_by_number`.

    `kernel="precomputed"` needs all N x N values in memory.  Here only values that a fit needs are read or computed:
    those among the rows of its sample, and N x m for the pass over all rows.
    """

    source: Any
    definite: bool | None = None
    name = "gram by number"

    def fault(self, one: Any) -> str | None:
        if isinstance(one, bool) or not isinstance(one, Integral) or one < 0:
            return "a gram by number needs whole numbers of rows, from 0 on"
        n_rows = None if callable(self.source) else self.source.shape[0]
        return None if n_rows is None or one < n_rows else f"the gram has {n_rows} rows"

    def prepared(self, objects: list[Any]) -> np.ndarray:
        return np.array([int(one) for one in objects], dtype=np.intp)

    def between(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        if callable(self.source):
            block = self.source(left, right)
        elif hasattr(self.source, "oindex"):  # a zarr array, which reads only the chunks with these rows and columns
            block = self.source.oindex[left, right]
        else:
            block = self.source[left][:, right]
        check_real(block)
        return np.asarray(dense(block), dtype=np.float64)

    def lengths(self, objects: list[Any]) -> np.ndarray:
        numbers = self.prepared(objects)
        if callable(self.source) or hasattr(self.source, "oindex"):
            return super().lengths(objects)
        return np.asarray(dense(self.source[numbers, numbers]), dtype=np.float64).ravel()

    def params(self) -> dict[str, Any]:
        raise TypeError("a gram by number has no parameters that a file could hold")


def gram_by_number(source: Any, *, definite: bool | None = None) -> GramByNumber:
    """A kernel of rows that are numbers 0 .. N-1, whose values are read from an array or computed by a function.

    Parameters
    ----------
    source : array of shape (N, N), or callable
        A memory map, a zarr array or any other array of two dimensions, of which only the values that are needed are
        read; or a function ``f(numbers, numbers) -> (n, m)`` of two arrays of row numbers.
    definite : bool, optional
        True if the gram is known to be positive semi-definite, False if it is known not to be.

    Returns
    -------
    Kernel

    Examples
    --------
    >>> import numpy as np
    >>> from kernelsieve import SparseKernelPCA
    >>> from kernelsieve.kernels import gram_by_number
    >>> angles = np.linspace(0, 6, 300)
    >>> kernel = gram_by_number(lambda i, j: np.exp(np.cos(angles[i][:, None] - angles[j]) - 1))
    >>> model = SparseKernelPCA(2, n_support=6, kernel=kernel, random_state=0).fit(np.arange(300))
    >>> model.transform([0, 299]).shape
    (2, 2)
    """
    if hasattr(source, "to_numpy"):  # a frame, in whose brackets there are names
        source = source.to_numpy()
    if not callable(source) and len(getattr(source, "shape", ())) != 2:
        raise TypeError("gram_by_number needs an array of two dimensions or a function of two arrays of row numbers")
    if not callable(source) and source.shape[0] != source.shape[1]:
        raise ValueError(f"a gram must be square, and this one has shape {tuple(source.shape)}")
    return GramByNumber(source, definite)


# How much k(s, t) and k(t, s) may differ, relative to the largest value, and how far below zero an eigenvalue may be,
# relative to the largest; for numbers of 4 and 8 bytes.
LANDMARK_ROUNDING = {4: 1e-4, 8: 1e-8}


@dataclass(frozen=True, repr=False, eq=False)
class Landmarks(View):
    """k(x, S) k(S, S)^-1 k(S, y), for rows that are given by their values k(x, S) with landmarks S; see `landmarks`.

    The values k(x, S) determine the projection of phi(x) on the span of the landmarks' features, and the formula is the
    inner product of two such projections (Williams & Seeger 2001).  It equals k(x, y) if x or y is a landmark.  It is a
    linear kernel of rows expressed in an orthonormal basis of that span.  A fit needs only k(x, S) and k(S, S).
    """

    kernel: Kernel
    gram: Any
    name = "landmarks"
    of_all = ("differentiable",)
    linear_in_rows = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "not_exported", "its kernel values come from elsewhere")
        gram = self.gram
        if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or not gram.size:
            raise ValueError(f"landmarks() needs k(S, S), a square matrix, and this one has shape {gram.shape}")
        if not np.all(np.isfinite(gram)):
            i, j = np.argwhere(~np.isfinite(gram))[0]
            raise ValueError(f"k(S, S) of landmarks() has {gram[i, j]} for the pair {i}, {j}")
        rounding = LANDMARK_ROUNDING[gram.dtype.itemsize]
        off = np.abs(gram - gram.T) > rounding * np.abs(gram).max()
        if off.any():
            i, j = np.argwhere(off)[0]
            raise ValueError(
                f"k(S, S) of landmarks() is not symmetric: {gram[i, j]:.6g} and {gram[j, i]:.6g} at {i}, {j}"
            )
        values, vectors = np.linalg.eigh(gram.astype(np.float64))
        if not values[-1] > 0 or values[0] < -rounding * values[-1]:
            raise ValueError(
                f"k(S, S) of landmarks() has the eigenvalue {values[0]:.3g} beside {values[-1]:.3g}: the kernel must "
                "be positive semi-definite on the landmarks, and not zero"
            )
        real = values > len(gram) * np.finfo(gram.dtype).eps * values[-1]
        object.__setattr__(self, "whitening", vectors[:, real] / np.sqrt(values[real]))

    def __repr__(self) -> str:
        return f"landmarks(<k(S, S) of {len(self.gram)}>)"

    def settled(self, on: KernelRows) -> Kernel:
        if scipy.sparse.issparse(on.rows):
            raise ValueError("landmarks() needs dense rows: give k(x, S) as an array")
        if on.n_columns != len(self.gram):
            raise ValueError(
                f"rows have {on.n_columns} values, and k(S, S) of landmarks() is of {len(self.gram)} landmarks: rows "
                "are k(x, S), one value for each"
            )
        return self

    def stretched(self, factors: tuple[float, ...]) -> Kernel:
        return Kernel.stretched(self, factors)

    def _basis(self, rows: Array) -> Array:
        return like(self.whitening, rows)  # type: ignore[attr-defined]

    def see(self, rows: Array) -> Array:
        return rows @ self._basis(rows)

    def back(self, slopes: Array, like_points: Array) -> Array:
        return slopes @ self._basis(slopes).T

    def linear_features(self, rows: Array) -> Array:
        return self.see(rows)

    def with_features(self, features: Array) -> Array:
        return features @ like(np.linalg.pinv(self.whitening), features)  # type: ignore[attr-defined]

    def unit(self, rows: Array) -> tuple[float, Kernel]:
        return 1.0, self

    def numbers(self) -> list[Any]:
        return [float(np.abs(self.gram).max())]


def landmarks(gram: Any) -> Landmarks:
    """A kernel for rows that are kernel values with m landmarks S: the rows are k(x, S), and k(S, S) is given here.

    It is for kernels that are computed elsewhere or read from a file.  A fit needs only N x m values for N rows, and a
    new row only m values.  The results depend on the landmarks: the part of a row outside the landmarks' span in
    feature space is unknown, and is not counted by `explained_variance_ratio_`, `captured_ratio_`, `score` or the
    reconstruction error.

    Parameters
    ----------
    gram : array of shape (m, m)
        k(S, S), positive semi-definite, in the precision of the rows.

    Returns
    -------
    Kernel

    Examples
    --------
    >>> import numpy as np
    >>> from kernelsieve import SparseKernelPCA
    >>> from kernelsieve.kernels import landmarks
    >>> X = np.random.default_rng(0).standard_normal((500, 3))
    >>> S = X[:40]
    >>> def k(A, B):
    ...     return np.exp(-((A[:, None] - B) ** 2).sum(axis=2) / 4)
    >>> model = SparseKernelPCA(2, n_support=10, kernel=landmarks(k(S, S)), random_state=0).fit(k(X, S))
    >>> model.transform(k(X[:5], S)).shape
    (5, 2)
    """
    values = np.asarray(dense(gram))
    return Landmarks(Linear(), values if values.dtype == np.float32 else values.astype(np.float64))
