"""Kernels of transformed rows: of some columns, of scaled columns, or with columns in which points do not move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse

from ..arrays import Array, like, namespace
from ..errors import OutsideDomain
from .algebra import Composite, Slopes
from .base import CrossGram, Kernel
from .blocks import columns_of
from .width import KernelRows, column_numbers


class View(Composite):
    """A kernel applied to transformed rows; its derivatives are transformed back."""

    kernel: Kernel

    def see(self, rows: Array) -> Array:
        """The transformed rows, which the inner kernel is applied to."""
        raise NotImplementedError

    def back(self, slopes: Array, like_points: Array) -> Array:
        """Derivatives with respect to transformed points, converted to derivatives with respect to the points."""
        raise NotImplementedError

    def is_near(self, rows: Array) -> bool:
        return False  # a view holds arrays on the host, and copying them makes a device wait

    def bind(self, points: Array) -> CrossGram:
        inner = self.see(points)
        bound = self.kernel.bind(inner)

        def cross_gram(rows: Array) -> Array:
            try:
                return bound(inner if rows is points else self.see(rows))
            except OutsideDomain as error:
                raise error.among(self.original_columns(rows.shape[1])) from None

        return cross_gram

    def original_columns(self, n_columns: int) -> tuple[int, ...]:
        """For each column of the transformed rows, the number of the same column of the rows."""
        return tuple(range(n_columns))

    def diagonal(self, rows: Array) -> Array:
        return self.kernel.diagonal(self.see(rows))

    def slopes(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Slopes:
        inner = self.see(points)
        slopes, kinks = self.kernel.slopes(inner if rows is points else self.see(rows), inner, cross_gram, weights)
        return self.back(slopes, points), None if kinks is None else self.back(kinks, points)

    def diagonal_gradient(self, rows: Array) -> Array | None:
        found = self.kernel.diagonal_gradient(self.see(rows))
        return None if found is None else self.back(found, rows)

    def tangents(self, points: Array, gram: Array) -> Array | None:
        return self.kernel.tangents(self.see(points), gram)

    def far_exponents(self, rows: np.ndarray, points: np.ndarray) -> np.ndarray | None:
        return self.kernel.far_exponents(np.asarray(self.see(rows)), np.asarray(self.see(points)))


@dataclass(frozen=True, repr=False)
class OnColumns(View):
    """A kernel applied to some of the columns only; made by ``kernel.on(columns)``.

    Parameters
    ----------
    kernel : Kernel
    columns : int, str, slice, or a sequence of ints or strs
        Numbers of columns, or names of the columns of a frame.
    """

    kernel: Kernel
    columns: Any = ()
    name = "columns"
    of_all = ("differentiable", "stationary", "bounded")
    of_any = ("needs_double", "nonnegative")

    def __post_init__(self) -> None:
        super().__post_init__()
        columns = self.columns
        if isinstance(columns, slice):
            ends = (columns.start, columns.stop, columns.step)
            valid = all(end is None or isinstance(end, Integral) for end in ends) and columns.step != 0
        else:
            columns = tuple(columns) if np.iterable(columns) and not isinstance(columns, str) else (columns,)
            columns = tuple(int(c) if isinstance(c, Integral) and not isinstance(c, bool) else c for c in columns)
            object.__setattr__(self, "columns", columns)
            valid = bool(columns) and all(type(column) in (int, str) for column in columns)
        if not valid:
            raise ValueError(f"on() needs numbers or names of columns, or a slice: got {self.columns!r}")

    def __repr__(self) -> str:
        inner = repr(self.kernel)
        columns = repr(self.columns if isinstance(self.columns, slice) else list(self.columns))
        return f"{f'({inner})' if self.kernel.binds < 3 else inner}.on({columns})"

    def numbered(self, names: Sequence[str] | None, n_columns: int) -> Kernel:
        columns = column_numbers(self.columns, n_columns, names, "the kernel's on()")
        inner = None if names is None else [names[column] for column in columns]
        return OnColumns(self.kernel.numbered(inner, len(columns)), columns)

    def settled(self, on: KernelRows) -> Kernel:
        found = self.numbered(on.names, on.n_columns)
        assert isinstance(found, OnColumns)
        try:
            return OnColumns(found.kernel.settled(on.of_columns(found.columns)), found.columns)
        except OutsideDomain as error:
            raise error.among(found.columns) from None

    def stretched(self, factors: tuple[float, ...]) -> Kernel:
        return OnColumns(self.kernel.stretched(tuple(factors[column] for column in self.columns)), self.columns)

    def see(self, rows: Array) -> Array:
        return columns_of(rows, self.columns)

    def original_columns(self, n_columns: int) -> tuple[int, ...]:
        return tuple(self.columns)

    def back(self, slopes: Array, like_points: Array) -> Array:
        places = np.zeros((len(self.columns), like_points.shape[1]))
        places[np.arange(len(self.columns)), list(self.columns)] = 1.0
        return slopes @ like(places, slopes)

    def within(self, points: Array) -> Array:
        inner = self.see(points)
        moved = self.kernel.within(inner)
        return points if moved is inner else points + self.back(moved - inner, points)

    def still_columns(self, n_columns: int) -> tuple[int, ...]:
        return tuple(self.columns[place] for place in self.kernel.still_columns(len(self.columns)))

    def unit_scales(self, rows: Array) -> tuple[float, ...]:
        scales = np.zeros(rows.shape[1])
        np.maximum.at(scales, list(self.columns), self.kernel.unit_scales(self.see(rows)))
        return tuple(float(scale) for scale in scales)

    def forward(self, ops: Any, rows: Any, points: Any) -> Any:
        return self.kernel.forward(*ops.on_columns(rows, points, self.columns))

    def forward_diagonal(self, ops: Any, rows: Any) -> Any:
        return self.kernel.forward_diagonal(*ops.on_columns(rows, None, self.columns)[:2])

    @property
    def names_columns(self) -> bool:
        return isinstance(self.columns, tuple) and any(isinstance(column, str) for column in self.columns)

    @property
    def is_settled(self) -> bool:
        numbered = isinstance(self.columns, tuple) and all(isinstance(c, int) and c >= 0 for c in self.columns)
        return numbered and self.kernel.is_settled


@dataclass(frozen=True, repr=False)
class Stretched(View):
    """A kernel applied to columns that are multiplied by one factor each, which implements a width for every column.

    Parameters
    ----------
    kernel : Kernel
    column_factors : tuple of floats
    """

    kernel: Kernel
    column_factors: tuple[float, ...] = ()
    name = "stretched"
    of_all = ("differentiable", "stationary", "bounded")

    def __repr__(self) -> str:
        inner = repr(self.kernel)
        return f"{f'({inner})' if self.kernel.binds < 3 else inner}.stretched({self.column_factors!r})"

    def stretched(self, factors: tuple[float, ...]) -> Kernel:
        return self.kernel.stretched(tuple(a * b for a, b in zip(self.column_factors, factors, strict=True)))

    def _factors(self, rows: Array) -> Array:
        return like(np.asarray(self.column_factors), rows)

    def see(self, rows: Array) -> Array:
        if scipy.sparse.issparse(rows):
            return (rows @ scipy.sparse.diags_array(np.asarray(self.column_factors, dtype=rows.dtype))).tocsr()
        return rows * self._factors(rows)

    def back(self, slopes: Array, like_points: Array) -> Array:
        return slopes * self._factors(slopes)

    def within(self, points: Array) -> Array:
        inner = self.see(points)
        moved = self.kernel.within(inner)
        return (
            points if moved is inner else namespace(points).where(moved == inner, points, moved / self._factors(points))
        )

    def unit_scales(self, rows: Array) -> tuple[float, ...]:
        inner = self.kernel.unit_scales(self.see(rows))
        return tuple(a * b for a, b in zip(inner, self.column_factors, strict=True))

    def forward(self, ops: Any, rows: Any, points: Any) -> Any:
        return self.kernel.forward(*ops.with_factors(rows, points, np.asarray(self.column_factors)))

    def forward_diagonal(self, ops: Any, rows: Any) -> Any:
        return self.kernel.forward_diagonal(*ops.with_factors(rows, None, np.asarray(self.column_factors))[:2])


@dataclass(frozen=True, repr=False)
class Held(View):
    """A kernel whose derivatives are zero in some columns, so that points do not move in them."""

    kernel: Kernel
    columns: tuple[int, ...] = ()
    name = "held"

    def see(self, rows: Array) -> Array:
        return rows

    def back(self, slopes: Array, like_points: Array) -> Array:
        mask = np.ones(like_points.shape[1])
        mask[list(self.columns)] = 0.0
        return slopes * like(mask, slopes)


def held(kernel: Kernel, columns: tuple[int, ...]) -> Kernel:
    """The kernel with derivatives of zero in these columns, so that points do not move in them."""
    return Held(kernel, columns)
