"""Kernels from distances: the negative of a distance, taken relative to one row, is positive semi-definite.

If a distance d is of negative type,

    k(x, y) = (d(x, x0) + d(x0, y) - d(x, y)) / 2

is positive semi-definite, whichever row x0 is.  Distances of negative type are |x - y|^p with 0 < p <= 2, sums of
absolute differences, and the chi-square distance (Schoenberg 1938); many edit distances nearly are.  Centring removes
x0 again: centred kernel PCA of k is that of -d / 2, which is classical scaling of the distances.

The rows may be objects, such as strings with the edit distance: a block of k then takes one more distance for each of
its rows and points, that from x0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from ..arrays import Array, is_numpy, like, namespace, to_numpy
from ..numerics import ROUNDING
from .base import CrossGram, Kernel, check_positive
from .blocks import dense, manhattan
from .columnwise import check_nonnegative
from .objects import ObjectKernel, checked_values, objects_of, shown
from .strings import Edits
from .width import KernelRows

DISTANCES = ("euclidean", "manhattan", "chi2")
MEDOID_OF = 8  # x0 of objects is the one of this many whose distances from the others have the smallest sum
# The largest power for which a distance is of negative type.
LARGEST_POWER = {"euclidean": 2.0, "manhattan": 1.0, "chi2": 1.0}


@dataclass(frozen=True, repr=False)
class FromDistance(Kernel):
    """(d(x, x0) + d(x0, y) - d(x, y)) / 2, made by `from_distance`."""

    distance: Any = "euclidean"
    power: float = 1.0
    origin: tuple[float, ...] | None = field(default=None, repr=False)  # x0, a row that `settled` chooses
    name = "distance"
    metric = "manhattan"
    needs_double = True  # taking a small power magnifies the rounding of a distance
    not_exported = "a kernel of distances is not known outside of Python"

    def __post_init__(self) -> None:
        named = isinstance(self.distance, str) and self.distance in DISTANCES
        if not named and not callable(self.distance):
            names = ", ".join((*DISTANCES, "levenshtein"))
            raise ValueError(f"distance={self.distance!r} must be one of {names}, or a function")
        check_positive("a distance", "power", self.power)
        sure = named and self.power <= LARGEST_POWER[self.distance]
        object.__setattr__(self, "definite", True if sure else None)
        object.__setattr__(self, "differentiable", self.distance == "euclidean")
        object.__setattr__(self, "nonnegative", self.distance == "chi2")

    def __repr__(self) -> str:
        power = "" if self.power == 1 else f", power={self.power!r}"
        return f"from_distance({self.distance!r}{power})"

    @property
    def is_settled(self) -> bool:
        return self.origin is not None

    def settled(self, on: KernelRows) -> Kernel:
        """Choose x0: the row nearest to the median of the columns, so that it lies in the middle of the rows."""
        rows = to_numpy(dense(on.rows)).astype(np.float64)
        if callable(self.distance):
            _check_distance(self.distance, dense(on.rows)[:4, :])
        row = rows[int(np.argmin(np.abs(rows - np.median(rows, axis=0)).sum(axis=1)))]
        return FromDistance(self.distance, self.power, tuple(row.tolist()))

    def _distances(self, rows: Array, points: Array) -> Array:
        rows, points = dense(rows), dense(points)
        if self.distance == "euclidean":
            return _euclidean(rows, points) ** self.power
        if self.distance == "manhattan":
            return manhattan(rows, points) ** self.power
        if self.distance == "chi2":
            from sklearn.metrics.pairwise import additive_chi2_kernel

            for block in (rows, points):
                check_nonnegative(repr(self), block)
            found = like(-additive_chi2_kernel(to_numpy(rows), to_numpy(points)), rows)
            return found**self.power
        return _called(self.distance, rows, points) ** self.power

    def _origin(self, rows: Array) -> Array:
        return like(np.asarray(self.origin)[None, :], dense(rows)[:1, :])

    def bind(self, points: Array) -> CrossGram:
        from_origin = self._distances(points, self._origin(points))[:, 0]

        def cross_gram(rows: Array) -> Array:
            return (self._distances(rows, self._origin(rows)) + from_origin - self._distances(rows, points)) / 2

        return cross_gram

    def diagonal(self, rows: Array) -> Array:
        return self._distances(rows, self._origin(rows))[:, 0]

    def pullback(self, rows: Array, points: Array, cross_gram: Array, weights: Array) -> Array:
        # d|s - x|^p / ds = p |s - x|^(p - 2) (s - x)
        xp, points = namespace(points), dense(points)
        to_origin = self._origin(points) - points
        from_rows = self._pulls(rows, points, weights)
        own = self._pull(xp.sqrt(xp.sum(to_origin**2, axis=1))) * xp.sum(weights, axis=0)
        return (from_rows - own[:, None] * to_origin) / 2

    def _pulls(self, rows: Array, points: Array, weights: Array) -> Array:
        pull = weights * self._pull(_euclidean(dense(rows), points))
        return pull.T @ rows - namespace(pull).sum(pull, axis=0)[:, None] * points

    def _pull(self, lengths: Array) -> Array:
        """p |v|^(p - 2), or zero for a row that coincides with a point: the distance may have a kink there."""
        xp = namespace(lengths)
        apart = lengths > ROUNDING[8] ** 0.5 * xp.max(lengths)
        return xp.where(apart, self.power * xp.where(apart, lengths, xp.ones_like(lengths)) ** (self.power - 2), 0.0)

    def diagonal_gradient(self, rows: Array) -> Array | None:
        xp = namespace(rows)
        apart = rows - self._origin(rows)
        return self._pull(xp.sqrt(xp.sum(apart**2, axis=1)))[:, None] * apart

    def params(self) -> dict[str, Any]:
        if callable(self.distance):
            raise TypeError("a kernel of a distance that is a function cannot be saved: a model file holds no code")
        return super().params()


def _euclidean(rows: Array, points: Array) -> Array:
    if is_numpy(rows):
        return cdist(rows, points).astype(rows.dtype, copy=False)
    xp = namespace(rows)
    return xp.stack([xp.sqrt(xp.sum((rows - points[j, :]) ** 2, axis=1)) for j in range(points.shape[0])], axis=1)


def _called(function: Callable[..., Any], rows: Array, points: Array) -> Array:
    block = function(rows, points)
    if tuple(np.shape(block)) != (rows.shape[0], points.shape[0]):
        raise ValueError(
            f"the distance returned shape {tuple(np.shape(block))}, expected ({rows.shape[0]}, {points.shape[0]}): "
            "give a function of two blocks of rows, d(X, Y) -> (n, m)"
        )
    block = like(block, rows)
    xp = namespace(block)
    if not bool(xp.all(xp.isfinite(block))) or bool(xp.any(block < 0)):
        raise ValueError("the distance returned NaN, infinity or a negative number")
    return block


def _check_distance(function: Callable[..., Any], few: Array) -> None:
    """Raise an error if, on a few rows, the function is not symmetric or a row's distance from itself is not zero."""
    _check_distances(to_numpy(_called(function, few, few)), to_numpy(few))


def _check_distances(block: np.ndarray, few: Any) -> None:
    # The square root of float32's rounding, because a distance may be a square root, like the Euclidean one.
    rounding = ROUNDING[4] ** 0.5 * block.max(initial=0.0)
    off = np.argwhere(np.abs(block - block.T) > rounding)
    if len(off):
        i, j = off[0]
        x, y = shown(few[i]), shown(few[j])
        raise ValueError(
            f"the distance is not symmetric: d({x}, {y}) is {block[i, j]:.6g}, but d({y}, {x}) is {block[j, i]:.6g}"
        )
    if np.any(np.diagonal(block) > rounding):
        i = int(np.argmax(np.diagonal(block)))
        raise ValueError(f"the distance of {shown(few[i])} from itself is {block[i, i]:.6g}, and not zero")


@dataclass(frozen=True, repr=False)
class FromDistanceOfObjects(ObjectKernel):
    """(d(x, x0) + d(x0, y) - d(x, y)) / 2 for objects x and y, made by `from_distance`."""

    distance: ObjectKernel
    power: float = 1.0
    origin: Any = field(default=None, repr=False)  # x0, a row that `settled` chooses
    name = "distance of objects"
    row_values = 1

    def __post_init__(self) -> None:
        check_positive("a distance", "power", self.power)
        object.__setattr__(self, "definite", self.distance.definite)

    def __repr__(self) -> str:
        distance = "'levenshtein'" if isinstance(self.distance, Edits) else repr(self.distance)
        return f"from_distance({distance}{'' if self.power == 1 else f', power={self.power!r}'})"

    @property
    def is_settled(self) -> bool:
        return self.origin is not None

    def settled(self, on: KernelRows) -> Kernel:
        few = objects_of(on.rows[:MEDOID_OF])
        prepared = self.distance.prepared(few)
        block = self._distances(prepared, prepared, few, few)
        _check_distances(block, few)
        return replace(self, origin=few[int(np.argmin(block.sum(axis=0)))])

    def fault(self, one: Any) -> str | None:
        return self.distance.fault(one)

    def _distances(self, left: Any, right: Any, rows: list[Any], points: list[Any]) -> np.ndarray:
        """d^power of all pairs of prepared objects, which are those of `rows` and `points`."""
        block = checked_values(self.distance.between(left, right), rows, points)
        if np.any(block < 0):
            i, j = np.argwhere(block < 0)[0]
            raise ValueError(f"the distance of {shown(rows[i])} from {shown(points[j])} is {block[i, j]:.6g}")
        return np.asarray(block**self.power)

    def prepared(self, objects: list[Any]) -> tuple[list[Any], Any, np.ndarray]:
        """The objects, prepared for their distance, and their distances from x0."""
        prepared = self.distance.prepared(objects)
        origin = self.distance.prepared([self.origin])
        return objects, prepared, self._distances(prepared, origin, objects, [self.origin])[:, 0]

    def between(self, left: Any, right: Any) -> np.ndarray:
        (rows, x, from_rows), (points, y, from_points) = left, right
        return np.asarray((from_rows[:, None] + from_points - self._distances(x, y, rows, points)) / 2)

    def lengths(self, objects: list[Any]) -> np.ndarray:
        return self.prepared(objects)[2]

    def params(self) -> dict[str, Any]:
        if not isinstance(self.distance, Edits):
            raise TypeError("a kernel of a distance that is a function cannot be saved: a model file holds no code")
        return super().params()


def from_distance(distance: Any, power: float = 1.0) -> Kernel:
    """The kernel of a distance: minus the distance, made positive semi-definite by taking it relative to one row.

    ``-d`` alone is only *conditionally* positive definite, which is enough for centred kernel PCA: the components are
    those of classical scaling.  Without centring (``center=False``) they depend on the reference row.

    Parameters
    ----------
    distance : "euclidean", "manhattan", "chi2", "levenshtein", callable or Kernel
        "levenshtein" is the edit distance of strings.  A callable is ``d(X, Y) -> (n, m)``; a distance of objects is
        given as ``of_objects(d)``.  These distances may or may not be of negative type: if the gram is indefinite, a
        fit warns, and says how much of it was dropped.
    power : float, default=1.0
        The power that the distance is raised to.  The kernel is positive semi-definite for powers up to 2 of the
        Euclidean distance (2 gives the linear kernel), and up to 1 of the other distances.

    Returns
    -------
    Kernel

    References
    ----------
    Schoenberg (1938), Metric spaces and positive definite functions.
    Schoelkopf (2001), The kernel trick for distances.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernelsieve import SparseKernelPCA
    >>> from kernelsieve.kernels import from_distance
    >>> X = load_iris().data
    >>> model = SparseKernelPCA(2, n_support=10, kernel=from_distance("euclidean"), random_state=0).fit(X)
    >>> bool(model.captured_ratio_ > 0.95)
    True
    """
    if isinstance(distance, str) and distance == "levenshtein":
        distance = Edits()
    return (
        FromDistanceOfObjects(distance, power) if isinstance(distance, ObjectKernel) else FromDistance(distance, power)
    )
