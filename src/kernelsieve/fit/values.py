"""Kernel values that a fit remembers: if the kernel is a user's code, computing its values is the main cost of a fit.

A fit needs some values several times: choosing points, measuring them, and the pass over all rows use the same pairs.
`RememberedKernel` replaces the kernel during a fit.  It keeps all computed values between sampled rows, which are the
rows that the fit uses before its pass, so that

    each pair of sampled rows is computed once: k(x, y) and k(y, x) are one value
    values of rows that appear only in the pass are computed there and not kept

It also counts the values computed.  Rows are recognised by their content, or objects by their identity, so the rest of
a fit need not know that values are remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from threading import Lock
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse

from ..arrays import Array, as_float64, is_numpy, like, to_numpy
from ..kernels import CrossGram, Kernel
from ..kernels.objects import shown
from ..rows.checks import ASYMMETRY
from ..rows.kinds import key_of
from ..rows.sampling import SampledRows, row_keys

# Kernel values between at most this many rows are kept: a table of 512 MB, whose unused parts take no memory.
MOST_ROWS = 8192
# A function of vectors is costly if the gram of the sampled rows would take more than PATIENCE seconds. This is
# estimated by timing the values of TIMED_ROWS rows with TIMED_ROWS others.
PATIENCE = 60.0
TIMED_ROWS = 16
CHECKED_ROWS = 4  # number of rows on which `diagonal=` of the user is compared with k(x, x)


class KernelValues:
    """A table of kernel values between some rows, each computed when it is first needed, and a count of them."""

    def __init__(self, kernel: Kernel, rows: Array) -> None:
        self.kernel = kernel
        self.n_evaluations = 0
        self._places: dict[Hashable, int] = {}
        self._kept = rows  # objects known by their identity must stay alive
        for key in keys_of(rows[:MOST_ROWS]):
            self._places.setdefault(key, len(self._places))
        size = len(self._places)
        self._table = np.zeros((size, size))  # a pair of rows may have its value at (i, j), at (j, i), or both
        self._known = np.zeros((size, size), dtype=bool)
        # k(x, x) is not kept in the table: a block with some known values is computed in several smaller blocks, which
        # takes more calls.
        self._diagonal = np.full(size, np.nan)
        self._last: tuple[Array, np.ndarray] = (None, np.empty(0, dtype=np.intp))
        self._lock = Lock()

    def places(self, rows: Array) -> np.ndarray:
        """(n,) places of the rows in the table; -1 for rows that are not in it."""
        return np.fromiter(map(self._places.get, keys_of(rows), repeat(-1)), dtype=np.intp, count=rows.shape[0])

    def _places_of(self, rows: Array) -> np.ndarray:
        """As `places`; the last result is kept, because rules need many columns of the gram of one array of rows."""
        last, places = self._last
        if last is not rows:
            places = self.places(rows)
            self._last = rows, places
        return places

    def block(self, rows: Array, points: Array, at: np.ndarray) -> np.ndarray:
        """k(rows, points); `at` are the places of the points."""
        places = at if rows is points else self._places_of(rows)
        if rows is points or (np.array_equal(places, at) and np.all(at >= 0)):
            return self._square(rows, places)
        inside, columns = np.flatnonzero(places >= 0), np.flatnonzero(at >= 0)
        if not len(inside) or not len(columns):
            return self._computed(rows, points)
        if len(inside) == len(places) and len(columns) == len(at):
            return self._rectangle(rows, points, places, at)
        block = np.empty((len(places), len(at)))
        new, others = np.flatnonzero(places < 0), np.flatnonzero(at < 0)
        if len(new):
            block[new] = self._computed(rows[new], points)
        if len(others):
            block[np.ix_(inside, others)] = self._computed(rows[inside], points[others])
        block[np.ix_(inside, columns)] = self._rectangle(rows[inside], points[columns], places[inside], at[columns])
        return block

    def diagonal(self, rows: Array) -> np.ndarray:
        """k(x, x) of rows."""
        places = self.places(rows)
        inside = places >= 0
        values = np.full(len(places), np.nan)
        values[inside] = self._diagonal[places[inside]]
        # A diagonal that the kernel defines itself may differ from k(x, x) in a block, for instance by a noise term.
        if not self.kernel.has_own_diagonal:
            known = inside & self._known[places, places]
            values[known] = self._table[places[known], places[known]]
        missing = np.flatnonzero(np.isnan(values))
        if len(missing):
            values[missing] = to_numpy(self.kernel.diagonal(rows[missing]))
            self._diagonal[places[inside]] = values[inside]
            self._count(len(missing) * (1 if self.kernel.has_own_diagonal else self.kernel.least_square))
        return values

    def _rectangle(self, rows: Array, points: Array, places: np.ndarray, at: np.ndarray) -> np.ndarray:
        """k(rows, points) for rows and points that are all in the table."""
        block, known = self._looked_up(places, at)
        if known.all():
            return block
        if known.any():
            for some, columns in rectangles(~known):
                block[np.ix_(some, columns)] = self._computed(rows[some], points[columns])
        else:
            block = self._computed(rows, points)
        self._keep(places, at, block)
        return block

    def _square(self, rows: Array, places: np.ndarray) -> np.ndarray:
        """k(rows, rows), with each pair computed only once."""
        if np.any(places < 0):
            block = np.empty((len(places), len(places)))
            self._fill_square(block, rows)
            return block
        block, known = self._looked_up(places, places)
        if known.all():
            return block
        if known.any():
            for some, columns in rectangles(np.triu(~known)):
                values = self._computed(rows[some], rows[columns])
                block[np.ix_(some, columns)] = values
                block[np.ix_(columns, some)] = values.T
        else:
            self._fill_square(block, rows)
        self._keep(places, places, block)
        return block

    def _looked_up(self, places: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values from the table, and which of them are known; a value may be stored for the swapped pair."""
        one, other = _elements(places, at), _elements(at, places)
        known = np.array(self._known[one])
        block = np.array(self._table[one])
        if not known.all() and (mirrored := self._known[other].T & ~known).any():
            block[mirrored] = self._table[other].T[mirrored]
            known |= mirrored
        return block, known

    def _keep(self, places: np.ndarray, at: np.ndarray, block: np.ndarray) -> None:
        elements = _elements(places, at)
        self._table[elements] = block
        self._known[elements] = True

    def _fill_square(self, block: np.ndarray, rows: Array) -> None:
        """Compute k(rows, rows) by recursive halving: values between two halves are computed once and stored twice."""
        n = rows.shape[0]
        if n <= self.kernel.least_square:
            block[:] = self._computed(rows, rows)
            return
        half = n // 2
        first, second = slice(0, half), slice(half, n)
        block[second, first] = self._computed(rows[second], rows[first])
        block[first, second] = block[second, first].T
        self._fill_square(block[first, first], rows[first])
        self._fill_square(block[second, second], rows[second])

    def check_diagonal(self) -> None:
        """Raise if the diagonal that the user states differs from k(x, x) on the first few rows."""
        if not self.kernel.states_diagonal:
            return
        few = self._kept[:CHECKED_ROWS]
        stated = to_numpy(self.kernel.diagonal(few))
        rounding = ASYMMETRY[8] * np.abs(stated).max()
        for i, value in enumerate(stated):
            own = float(self._computed(few[i : i + 1], few[i : i + 1])[0, 0])
            if abs(value - own) > rounding:
                x = shown(few[i, 0])
                raise ValueError(f"diagonal= gives {value:.6g} for {x}, and k({x}, {x}) is {own:.6g}: they must agree")

    def _computed(self, rows: Array, points: Array) -> np.ndarray:
        n_rows, n_points = rows.shape[0], points.shape[0]
        self._count(n_rows * n_points + self.kernel.row_values * (n_rows + n_points))
        return to_numpy(self.kernel(rows, points))

    def _count(self, n_values: int) -> None:
        with self._lock:
            self.n_evaluations += n_values


def _elements(places: np.ndarray, at: np.ndarray) -> tuple[Any, ...]:
    """An index of the submatrix (places, at), made of slices for consecutive places, because slices are faster."""
    lines, columns = _run(places), _run(at)
    if lines is None and columns is None:
        return np.ix_(places, at)
    return places if lines is None else lines, at if columns is None else columns


def _run(places: np.ndarray) -> slice | None:
    first, n = int(places[0]), len(places)
    return slice(first, first + n) if n == 1 or np.array_equal(places, np.arange(first, first + n)) else None


@dataclass(frozen=True, eq=False)
class RememberedKernel(Kernel):
    """A kernel that computes each of its values at most once during a fit."""

    plain: Kernel
    store: KernelValues

    def __post_init__(self) -> None:
        for fact in ("name", "definite", "of_objects", "rows_only", "preimage"):
            object.__setattr__(self, fact, getattr(self.plain, fact))

    def bind(self, points: Array) -> CrossGram:
        if not is_remembered(points):
            return self.plain.bind(points)
        exact = as_float64(points)
        at = self.store.places(exact)

        def cross_gram(rows: Array) -> Array:
            block = self.store.block(exact if rows is points else as_float64(rows), exact, at)
            return like(block, rows)

        return cross_gram

    def diagonal(self, rows: Array) -> Array:
        if not is_remembered(rows):
            return self.plain.diagonal(rows)
        return like(self.store.diagonal(as_float64(rows)), rows)

    def __reduce__(self) -> Any:
        """Pickle the kernel without its remembered values, which would be sent to every worker."""
        return _itself, (self.plain,)


def _itself(kernel: Kernel) -> Kernel:
    return kernel


def remembered(kernel: Kernel, rows: SampledRows) -> Kernel:
    """The kernel with a memory for values between these rows if it is a user's function, else the kernel itself."""
    if not kernel.costly or kernel.differentiable or not is_remembered(rows.X):
        return kernel
    parts = [rows.values] if rows.fresh is None else [rows.values, rows.fresh.values]
    stack = scipy.sparse.vstack(parts, format="csr") if scipy.sparse.issparse(rows.X) else np.concatenate(parts)
    store = KernelValues(kernel, as_float64(stack))
    check_symmetry(kernel, store._kept, store._computed)
    store.check_diagonal()
    return RememberedKernel(kernel, store)


def check_symmetry(kernel: Kernel, rows: Array, compute: Callable[[Array, Array], Array] | None = None) -> None:
    """Raise if a user's kernel depends on the order of its arguments, judged by four pairs of the first rows."""
    if not kernel.costly or rows.shape[0] < 4:
        return
    left, right = rows[:2], rows[2:4]
    compute = compute or kernel
    # These values are not kept: a square block with some known values is computed in parts, which takes more calls.
    values, swapped = to_numpy(compute(left, right)), to_numpy(compute(right, left)).T
    off = np.abs(values - swapped) > ASYMMETRY[values.dtype.itemsize] * np.abs(values).max()
    if off.any():
        i, j = np.argwhere(off)[0]
        x, y = (shown(row[0] if kernel.of_objects else row) for row in (left[i], right[j]))
        raise ValueError(
            f"the kernel is not symmetric: k({x}, {y}) is {values[i, j]:.6g} and k({y}, {x}) is {swapped[i, j]:.6g}"
        )


def is_slow(kernel: Kernel, few: Array, n_values: float) -> bool:
    """Whether `n_values` kernel values would take longer than PATIENCE, judged by timing the values of a few rows."""
    limit = PATIENCE * TIMED_ROWS**2 / n_values

    def seconds() -> float:
        start = perf_counter()
        kernel(few[:TIMED_ROWS], few[TIMED_ROWS : 2 * TIMED_ROWS])
        return perf_counter() - start

    return seconds() > limit and seconds() > limit  # the first call may load what the function needs


def is_remembered(rows: Array) -> bool:
    """Whether these rows can be recognised by their content, which requires them to be on the host."""
    return is_numpy(rows) or scipy.sparse.issparse(rows)


def keys_of(rows: Array) -> Iterable[Hashable]:
    """A key for each row; equal rows have equal keys."""
    if not is_numpy(rows):
        return row_keys(rows)
    if rows.dtype == object:
        return [key_of(one) for one in rows[:, 0]]
    content = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1] * rows.itemsize)))
    return content.ravel().tolist()


def rectangles(wanted: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield rows and columns of disjoint blocks that cover all true elements of a matrix, and no others."""
    in_row, in_column = wanted.any(axis=1), wanted.any(axis=0)
    rows, columns = np.flatnonzero(in_row), np.flatnonzero(in_column)
    if np.count_nonzero(wanted) == len(rows) * len(columns):
        if len(rows):
            yield rows, columns
        return
    alike: dict[Hashable, list[int]] = {}
    for i, pattern in enumerate(keys_of(np.packbits(wanted, axis=1))):
        alike.setdefault(pattern, []).append(i)
    for rows in map(np.array, alike.values()):
        columns = np.flatnonzero(wanted[rows[0]])
        if len(columns):
            yield rows, columns
