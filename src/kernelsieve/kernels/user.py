"""Kernels that the user brings: as a matrix, or as a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse

from ..arrays import Array, is_numpy, like, namespace, take_rows, to_numpy
from .base import CrossGram, Kernel, dense


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
    precomputed = True
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


@dataclass(frozen=True)
class CallableKernel(Kernel):
    """A user's function: vectorised, k(X, Y) -> (n, m), or on a pair of rows, k(x, y) -> float."""

    function: Callable[..., Any]
    keywords: Mapping[str, Any] = field(default_factory=dict)
    vectorized: bool = True
    name = "callable"
    definite = None
    not_exported = "a callable kernel is code"

    def bind(self, points: Array) -> CrossGram:
        def cross_gram(rows: Array) -> Array:
            shape = (rows.shape[0], points.shape[0])
            if self.vectorized:
                block = self.function(rows, points, **self.keywords)
            else:
                block = self._pairs(rows, points)
            return _checked_block(block, shape, rows)

        return cross_gram

    def _pairs(self, rows: Array, points: Array) -> np.ndarray:
        """Value by value, in float64; of rows with themselves one half, which the other half mirrors."""
        block = np.empty((rows.shape[0], points.shape[0]))
        columns, mirrored = each_row(points), rows is points
        for i, x in enumerate(columns if mirrored else each_row(rows)):
            from_here = i if mirrored else 0
            block[i, from_here:] = [float(self.function(x, y, **self.keywords)) for y in columns[from_here:]]
            if mirrored:
                block[i:, i] = block[i, i:]
        return block

    def diagonal(self, rows: Array) -> Array:
        if not self.vectorized:
            values = np.asarray([float(self.function(x, x, **self.keywords)) for x in each_row(rows)])
        elif hasattr(self.function, "diag"):  # Gaussian-process kernels know theirs
            values = np.asarray(self.function.diag(rows))
        else:
            # small squares: n * 16 evaluations instead of n^2
            squares = (rows[i : i + 16] for i in range(0, rows.shape[0], 16))
            values = np.concatenate([np.diagonal(self(square, square)) for square in squares])
        return like(values, rows)

    def params(self) -> dict[str, Any]:
        raise TypeError("a callable kernel has no parameters that a file could hold")


def each_row(rows: Array) -> list[Array]:
    """The rows one by one; sparse ones stay 1 x d, as scikit-learn hands them to such a function."""
    return [rows[[i]] for i in range(rows.shape[0])] if scipy.sparse.issparse(rows) else list(rows)


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
