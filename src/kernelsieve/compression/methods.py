"""The ways to compress: each gives a support of any size, and one that is good enough for a target."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np

from ..rules.kmeans import kmeans_centers
from ..search.subspace import Coordinates
from ..threads import cached_property
from .candidates import Candidates, ReducedSet
from .descent import move
from .error import Support
from .orders import l1_path, prefix_errors, removal_order

KMEANS_STEPS = 3  # a start need not be converged: the points are moved on from there
# A try with more than MANY_MOVED points takes seconds.  If moving FEWER_SHARE of the rows that are enough lowers their
# error by less than LITTLE_GAIN of it, as where all rows are unlike each other, fewer are not tried; and the fewest are
# found to within a share CLOSE.
MANY_MOVED, FEWER_SHARE, LITTLE_GAIN, CLOSE = 100, 0.9, 0.01, 0.02


class Method(Protocol):
    """A way to compress."""

    candidates: Candidates

    @property
    def enough_is_fewest(self) -> bool:
        """Whether no size below that of `enough` reaches its target."""

    def at(self, n_support: int) -> ReducedSet:
        """A support of that size; smaller where fewer points already say everything."""

    def enough(self, target: float) -> ReducedSet | None:
        """A support whose error is at most `target`, or None."""


@dataclass
class Nested:
    """Prefixes of one order of the candidates: every size is known at once."""

    candidates: Candidates
    order: np.ndarray
    enough_is_fewest: ClassVar[bool] = True

    @cached_property
    def curve(self) -> np.ndarray:
        """Relative error on the first 0, 1, ..., r candidates."""
        return prefix_errors(self.candidates.problem, self.order)

    def at(self, n_support: int) -> ReducedSet:
        return self.candidates.kept(self.order[:n_support])

    def enough(self, target: float) -> ReducedSet | None:
        """The smallest prefix; the curve says where to look, the refit decides."""
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
        support = Support(error.source.kernel, c.points(found.points), None)
        refit = error.refit(support)
        if not refit.total < rows.refit.total:
            return ReducedSet(rows.support, rows.refit, found.n_steps, found.converged)
        self.known[n_support] = found.points
        return ReducedSet(support, refit, found.n_steps, found.converged)

    def enough(self, target: float) -> ReducedSet | None:
        """The rows that are enough, or fewer points that are, where the rows are many."""
        found = self.rows.enough(target)
        if found is None or found.support.size <= MANY_MOVED:
            return found
        n_support = round(FEWER_SHARE * found.support.size)
        tried, unmoved = self.at(n_support), self.rows.at(n_support)
        self.enough_is_fewest = tried.refit.total > max(target, (1 - LITTLE_GAIN) * unmoved.refit.total)
        return tried if tried.refit.total <= target else found

    def _starts(self, rows: ReducedSet, n_support: int) -> list[np.ndarray]:
        starts = [self.coordinates.inside(rows.support.points)]
        if n_support <= len(self.coordinates.rows):
            starts.append(kmeans_centers(self.coordinates.rows, n_support, KMEANS_STEPS, self.rng))
        larger = min((m for m in self.known if m > n_support), default=None)
        if larger is not None:
            starts.append(self._shrunk(self.known[larger], n_support))
        return starts

    def _shrunk(self, points: np.ndarray, n_support: int) -> np.ndarray:
        """The points less those whose removal costs least."""
        error = self.candidates.error
        problem = error.least_squares(Support(error.source.kernel, self.coordinates.points(points), None))
        return points[np.sort(removal_order(problem)[:n_support])]


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
    while enough - failing > max(1, int(CLOSE * enough)):
        middle = max(failing + 1, min(round(math.sqrt(max(failing, 1) * enough)), enough - 1))
        tried = method.at(middle)
        if tried.refit.total <= target:
            found, enough = tried, tried.support.size
        else:
            failing = middle
    return found


def _first_within(target: float, tries: Iterable[ReducedSet]) -> ReducedSet | None:
    return next((found for found in tries if found.refit.total <= target), None)
