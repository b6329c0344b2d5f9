"""The ways to compress: each gives a support of any size, and one that is good enough for a target.

All but moved points choose among candidates, points of the original that targeted greedy selection has left.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import numpy as np

from ..arrays import to_numpy
from ..fit.expansion import KernelExpansion
from ..fit.indefinite import is_indefinite
from ..fit.moments import gram_of
from ..rules.kmeans import kmeans_centers
from ..search.subspace import Coordinates
from ..solvers.greedy import best_for_targets, greedy
from ..threads import cached_property
from .descent import move
from .error import ExpansionError, LeastSquares, ReducedPoints, Refit, chosen
from .orders import l1_path, prefix_errors, removal_order

MAX_POOL = 2000  # points of the original that are looked at: of more, a random part


@dataclass(frozen=True)
class ReducedSet:
    """A support with its refit, and how it was found."""

    support: ReducedPoints
    refit: Refit
    n_steps: int = 1
    converged: bool = True


@dataclass(frozen=True)
class Candidates:
    """Points of the original that a compression may keep."""

    error: ExpansionError
    support: ReducedPoints

    @property
    def size(self) -> int:
        return self.support.size

    @cached_property
    def problem(self) -> LeastSquares:
        return self.error.least_squares(self.support)

    @cached_property
    def gram(self) -> np.ndarray:
        return to_numpy(gram_of(self.support.kernel, self.support.points))

    def kept(self, places: np.ndarray) -> ReducedSet:
        """The refit on some of them."""
        assert self.support.indices is not None
        support = chosen(self.error.source, np.sort(self.support.indices[places]))
        return ReducedSet(support, self.error.refit(support))


def find_candidates(error: ExpansionError, most: int, rng: np.random.Generator) -> Candidates:
    """Up to `most` of the original's points, by targeted greedy selection: copies and their like are left out."""
    source = error.source
    most = min(most, error.largest_support)
    pool = _random_points(source, MAX_POOL, rng)
    support = chosen(source, pool)
    gram = to_numpy(gram_of(support.kernel, support.points))
    if is_indefinite(source.kernel, gram):  # residuals of such a kernel mean nothing: any points will do
        return Candidates(error, chosen(source, _random_points(source, most, rng)))
    values = to_numpy(source.transform(source.points[pool], error.n_threads)) + source.offset
    order = greedy(lambda j: gram[:, j], np.diagonal(gram), min(most, len(pool)), best_for_targets, targets=values)
    return Candidates(error, chosen(source, pool[order]))


def _random_points(source: KernelExpansion, most: int, rng: np.random.Generator) -> np.ndarray:
    n_points = source.n_support
    return np.arange(n_points) if n_points <= most else np.sort(rng.choice(n_points, most, replace=False))


@dataclass
class Nested:
    """Prefixes of one order of the candidates: every size is known at once."""

    candidates: Candidates
    order: np.ndarray
    enough_is_fewest: ClassVar[bool] = True  # no size below that of `enough` reaches its target

    @cached_property
    def curve(self) -> np.ndarray:
        """Relative error on the first 0, 1, ..., r candidates."""
        return prefix_errors(self.candidates.problem, self.order)

    def at(self, n_support: int) -> ReducedSet:
        """A support of that size; smaller where fewer points already say everything."""
        return self.candidates.kept(self.order[:n_support])

    def enough(self, target: float) -> ReducedSet | None:
        """A support whose error is at most `target`, or None: the curve says where to look, the refit decides."""
        first = int(np.argmax(self.curve <= target)) if np.any(self.curve <= target) else len(self.order)
        return _first_within(target, (self.at(m) for m in range(max(first, 1), len(self.order) + 1)))


@dataclass
class Lasso:
    """The heaviest candidates at the first alpha of the group lasso's path that keeps enough of them."""

    candidates: Candidates
    enough_is_fewest: ClassVar[bool] = False

    @cached_property
    def path(self) -> list[np.ndarray]:
        return list(l1_path(self.candidates.problem))

    def at(self, n_support: int) -> ReducedSet:
        long_enough = (choice for choice in self.path if len(choice) >= n_support)
        return self.candidates.kept(next(long_enough, self.path[-1])[:n_support])

    def enough(self, target: float) -> ReducedSet | None:
        return _first_within(target, (self.candidates.kept(choice) for choice in self.path))


@dataclass
class Moving:
    """Points that are moved, from the candidates that removal leaves, from k-means centres, or from more points."""

    candidates: Candidates
    coordinates: Coordinates
    max_iter: int
    rng: np.random.Generator
    known: dict[int, np.ndarray] = field(default_factory=dict)  # points found so far, by their number
    enough_is_fewest: bool = False

    @cached_property
    def rows(self) -> Nested:
        return Nested(self.candidates, removal_order(self.candidates.problem))

    def at(self, n_support: int) -> ReducedSet:
        n_support = min(n_support, self.candidates.size)
        rows, error, c = self.rows.at(n_support), self.candidates.error, self.coordinates
        found = move(error.objective(c), self._starts(rows, n_support), self.max_iter)
        support = ReducedPoints(error.source.kernel, c.points(found.points), None)
        refit = error.refit(support)
        if not refit.total < rows.refit.total:
            return ReducedSet(rows.support, rows.refit, found.n_steps, found.converged)
        self.known[n_support] = found.points
        return ReducedSet(support, refit, found.n_steps, found.converged)

    def enough(self, target: float) -> ReducedSet | None:
        """The rows that are enough, or fewer points that are, where the rows are many."""
        found = self.rows.enough(target)
        if found is None or found.support.size <= 100:
            return found
        # A try with more points takes seconds.  Where moving nine tenths of them lowers their error by less than one
        # percent, as it does where all rows are unlike each other, fewer are not tried.
        n_support = round(0.9 * found.support.size)
        tried, unmoved = self.at(n_support), self.rows.at(n_support)
        self.enough_is_fewest = tried.refit.total > max(target, 0.99 * unmoved.refit.total)
        return tried if tried.refit.total <= target else found

    def _starts(self, rows: ReducedSet, n_support: int) -> list[np.ndarray]:
        # the centres need not be converged: they are moved on from there
        centers = kmeans_centers(self.coordinates.rows, n_support, 3, self.rng)
        starts = [self.coordinates.inside(rows.support.points), centers]
        larger = min((m for m in self.known if m > n_support), default=None)
        if larger is not None:
            starts.append(self._shrunk(self.known[larger], n_support))
        return starts

    def _shrunk(self, points: np.ndarray, n_support: int) -> np.ndarray:
        """The points less those whose removal costs least."""
        error = self.candidates.error
        problem = error.least_squares(ReducedPoints(error.source.kernel, self.coordinates.points(points), None))
        return points[np.sort(removal_order(problem)[:n_support])]


Method: TypeAlias = Nested | Lasso | Moving


def fewest_within(method: Method, target: float) -> ReducedSet:
    """The fewest points whose error is at most `target`: the order of a nested method says, others are tried."""
    found = method.enough(target)
    if found is None:
        reached = method.at(method.candidates.size)
        raise ValueError(
            f"target_error={target:.3g} is not reached: {reached.support.size} points leave an error of "
            f"{reached.refit.total:.3g}, and more are not tried. Give a larger target_error, or n_support"
        )
    if method.enough_is_fewest:
        return found
    failing, enough = 0, found.support.size
    while enough - failing > max(1, int(0.02 * enough)):  # the fewest to within two percent
        middle = max(failing + 1, min(round(math.sqrt(max(failing, 1) * enough)), enough - 1))
        tried = method.at(middle)
        if tried.refit.total <= target:
            found, enough = tried, tried.support.size
        else:
            failing = middle
    return found


def _first_within(target: float, tries: Iterable[ReducedSet]) -> ReducedSet | None:
    return next((found for found in tries if found.refit.total <= target), None)
