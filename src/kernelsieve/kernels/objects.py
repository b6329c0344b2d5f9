"""Kernels of rows that are not vectors: strings, lists of tokens, graphs, trees, series of different lengths.

Such rows are an array (n, 1) of Python objects that only the kernel looks into.  Objects cannot be added, scaled or
averaged, so points are always rows.  The kernel declares that rows are objects; this is never guessed from X:

    SparseKernelPCA(kernel=of_objects(f)).fit(["a list", "of objects"])

The kernels of this library have two methods: `prepared` computes whatever depends on one object alone, and `between`
computes the values of all pairs of prepared objects.
"""

from __future__ import annotations

import reprlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array
from .base import CrossGram, Kernel, check_count, check_real
from .blocks import dense

# Fewer pairs than this are computed in this process, because sending them to other processes would take as long.
PAIRS_FOR_PROCESSES = 256


class ObjectKernel(Kernel):
    """A kernel of rows that are Python objects."""

    of_objects = True
    rows_only = True
    costly = True
    has_own_diagonal = False
    definite: bool | None = None
    preimage = None
    not_exported = "a kernel of objects is code"

    def prepared(self, objects: list[Any]) -> Any:
        """The objects in the form that `between` takes, which is made once for all pairs of an object."""
        return objects

    @abstractmethod
    def between(self, left: Any, right: Any) -> np.ndarray:
        """k of all pairs of prepared objects, (n, m)."""

    def lengths(self, objects: list[Any]) -> np.ndarray:
        """k(x, x) for each object, (n,)."""
        each = (self.prepared([one]) for one in objects)
        return np.array([self.between(one, one)[0, 0] for one in each], dtype=np.float64)

    def fault(self, one: Any) -> str | None:
        """The reason why the kernel has no values for an object; None if it has values."""
        return None

    def check(self, objects: Sequence[Any]) -> None:
        """Raise an error if the kernel has no values for one of the objects; the error names the row."""
        for number, one in enumerate(objects):
            if (fault := self.fault(one)) is not None:
                raise ValueError(f"row {number} is {shown(one)}: {fault}")

    def bind(self, points: Array) -> CrossGram:
        right = objects_of(points)
        prepared = self.prepared(right)

        def cross_gram(rows: Array) -> Array:
            left = objects_of(rows)
            block = self.between(prepared if rows is points else self.prepared(left), prepared)
            return checked_values(block, left, right)

        return cross_gram

    def diagonal(self, rows: Array) -> Array:
        objects = objects_of(rows)
        values = np.asarray(self.lengths(objects), dtype=np.float64)
        if values.shape != (len(objects),):
            raise ValueError(f"the kernel's diagonal has shape {values.shape}, expected ({len(objects)},)")
        if not np.all(np.isfinite(values)):
            one = shown(objects[int(np.argmin(np.isfinite(values)))])
            raise ValueError(f"the kernel gives no number for k({one}, {one})")
        return values


class UnitObjects(ObjectKernel):
    """A positive semi-definite kernel of objects with k(x, x) = 1."""

    definite: bool | None = True

    def lengths(self, objects: list[Any]) -> np.ndarray:
        self.check(objects)
        return np.ones(len(objects))


def objects_of(rows: Array) -> list[Any]:
    """The objects in an array of rows."""
    found: list[Any] = rows[:, 0].tolist()
    return found


def shown(one: Any) -> str:
    """An object as text for an error message; of a row of numbers, only the first six."""
    return reprlib.repr(one.tolist() if isinstance(one, np.ndarray) else one)


def checked_values(block: Any, left: list[Any], right: list[Any]) -> np.ndarray:
    """A block of values, after checking that there is one finite number for each pair."""
    check_real(block)
    values = np.asarray(dense(block), dtype=np.float64)
    if values.shape != (len(left), len(right)):
        raise ValueError(
            f"the kernel returned shape {values.shape} for {len(left)} and {len(right)} objects, expected "
            f"({len(left)}, {len(right)}); the first pair is {shown(left[0])}, {shown(right[0])}"
        )
    if not np.all(np.isfinite(values)):
        i, j = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(f"the kernel returned {values[i, j]} for the pair {shown(left[i])}, {shown(right[j])}")
    return values


@dataclass(frozen=True)
class FunctionOfObjects(ObjectKernel):
    """The kernel that `of_objects` makes of a user's function of two objects, or of two lists of objects."""

    function: Callable[[Any, Any], Any]
    blocks: bool = False
    own_diagonal: Callable[[list[Any]], Any] | float | None = None
    definite: bool | None = None
    n_processes: int = 1
    name = "objects"

    def between(self, left: list[Any], right: list[Any]) -> np.ndarray:
        if self.blocks:
            return self.function(left, right)
        if self.n_processes == 1 or len(left) * len(right) < PAIRS_FOR_PROCESSES:
            return values_of_pairs(self.function, left, right)
        from sklearn.utils.parallel import Parallel, delayed  # joblib's classes, with scikit-learn's settings

        parts = np.array_split(np.arange(len(left)), min(4 * self.n_processes, len(left)))
        found = Parallel(n_jobs=self.n_processes)(
            delayed(values_of_pairs)(self.function, [left[i] for i in part], right) for part in parts
        )
        return np.concatenate(list(found))

    @property
    def states_diagonal(self) -> bool:  # type: ignore[override]
        return self.own_diagonal is not None

    def lengths(self, objects: list[Any]) -> np.ndarray:
        if self.own_diagonal is None:
            return super().lengths(objects)
        if callable(self.own_diagonal):
            return np.asarray(self.own_diagonal(objects), dtype=np.float64)
        return np.full(len(objects), float(self.own_diagonal))

    def params(self) -> dict[str, Any]:
        raise TypeError("a function of objects has no parameters that a file could hold")


def values_of_pairs(function: Callable[[Any, Any], Any], left: list[Any], right: list[Any]) -> np.ndarray:
    """The function's value for every pair; if there is none, the error names the pair."""
    block = np.empty((len(left), len(right)))
    for i, x in enumerate(left):
        for j, y in enumerate(right):
            try:
                block[i, j] = float(function(x, y))
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"the kernel gives no number for the pair {shown(x)}, {shown(y)}: {error}. A function of two lists "
                    "of objects is given with blocks=True"
                ) from error
            except Exception as error:
                error.add_note(f"raised by the kernel for the pair {shown(x)}, {shown(y)}")
                raise
    return block


def of_objects(
    function: Callable[[Any, Any], Any],
    *,
    blocks: bool = False,
    diagonal: Callable[[list[Any]], Any] | float | None = None,
    definite: bool | None = None,
    n_processes: int = 1,
) -> FunctionOfObjects:
    """A kernel of rows that are Python objects, from a function of yours.

    Computing the kernel's values is the main cost of a fit.  Each is computed once, `n_evaluations_` counts them, and
    `max_evaluations` limits them.  Scoring a new object takes one value for each support point.

    Parameters
    ----------
    function : callable
        ``f(x, y) -> float``, symmetric; with `blocks`, ``f(list, list) -> (n, m)``.
    blocks : bool, default=False
        Whether the function takes two lists of objects.
    diagonal : callable or float, optional
        k(x, x), if it is cheaper than calling the function: ``d(list) -> (n,)``, or one number for all objects.  A fit
        checks it against the function on a few objects.
    definite : bool, optional
        True if the kernel is known to be positive semi-definite, False if it is known not to be.  By default a fit
        finds out from the gram of a sample.
    n_processes : int, default=1
        Number of processes that compute pairs, for a function that holds the interpreter's lock.  The function and the
        objects must be picklable.

    Returns
    -------
    Kernel

    Examples
    --------
    >>> from difflib import SequenceMatcher
    >>> from kernelsieve import SparseKernelPCA
    >>> from kernelsieve.kernels import of_objects
    >>> alike = of_objects(lambda a, b: SequenceMatcher(None, *sorted((a, b))).ratio(), diagonal=1.0)
    >>> words = ["sand", "band", "hand", "handle", "candle", "stone", "stones", "bone", "phone", "phones"]
    >>> model = SparseKernelPCA(2, n_support=5, kernel=alike, random_state=0).fit(words)
    >>> model.transform(["land", "tone"]).shape
    (2, 2)
    >>> len(model.support_objects_)
    5
    """
    check_count("of_objects", "n_processes", n_processes)
    if not callable(function):
        raise TypeError(f"of_objects needs a function of two objects, got {shown(function)}")
    return FunctionOfObjects(function, blocks, diagonal, definite, n_processes)
