"""The points a choice starts from, and the least-squares problem on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import to_numpy
from ..fit.expansion import KernelExpansion
from ..fit.indefinite import is_indefinite
from ..fit.moments import gram_of
from ..solvers.greedy import best_for_targets, greedy
from ..threads import cached_property
from .error import ExpansionError, LeastSquares, Refit, Support, chosen

MAX_POOL = 2000  # points looked at: a random part of more


@dataclass(frozen=True)
class ReducedSet:
    """A support with its refit, and how it was come by."""

    support: Support
    refit: Refit
    n_steps: int = 1
    converged: bool = True


@dataclass(frozen=True)
class Candidates:
    """Points of the original that a compression may keep."""

    error: ExpansionError
    support: Support

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
    if is_indefinite(source.kernel, gram):  # residuals of such a kernel mean nothing: any points may serve
        return Candidates(error, chosen(source, _random_points(source, most, rng)))
    values = to_numpy(source.transform(source.points[pool], error.n_threads)) + source.offset
    order = greedy(lambda j: gram[:, j], np.diagonal(gram), min(most, len(pool)), best_for_targets, targets=values)
    return Candidates(error, chosen(source, pool[order]))


def _random_points(source: KernelExpansion, most: int, rng: np.random.Generator) -> np.ndarray:
    n_points = source.n_support
    return np.arange(n_points) if n_points <= most else np.sort(rng.choice(n_points, most, replace=False))
