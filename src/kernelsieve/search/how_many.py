"""How many points: the fewest whose captured ratio reaches a target.

The missing share falls like a power of m, 1 - ratio ~ m^-exponent.  So the next size to try is predicted by a secant of
log(1 - ratio) against log m, through the two sizes whose ratios are nearest to the target.  If each size costs a whole
search for points, the first size that is enough is taken as soon as the secant predicts that a size smaller by the
factor `close_enough` would fail, because confirming this would cost another search.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from ..fit.plan import SearchPlan
from ..rules.base import Choice


@dataclass
class Fewest:
    """Searches for the smallest number of points whose captured ratio reaches the target."""

    at: Callable[[int], Choice]  # a choice of this many points
    least: int
    largest: int
    target: float
    plan: SearchPlan
    costly: bool  # each size costs a search for points, so a size that is expected to fail is not tried
    else_all: bool = False  # if no size is enough, all rows are taken, which costs less than trying a large size
    agreed: Callable[[Choice], float] | None = (
        None  # a second target: by how much a choice misses it, as a multiple of what is allowed
    )
    # sizes tried, each with the value that is compared with the target
    curve: list[tuple[int, float]] = field(default_factory=list)
    ratios: list[tuple[int, float]] = field(default_factory=list)  # sizes tried, each with its captured ratio
    best: Choice | None = None  # the smallest choice so far that reaches the target

    def search(self, first: int) -> Choice | None:
        """The smallest choice tried that reaches the target; None if the target needs the largest size or more."""
        size: int | None = first
        while size is not None and (len(self.curve) < self.plan.max_sizes or self.best is None):
            self._try(size)
            if self.costly and self.best is not None and self._spare <= math.log(self.plan.close_enough):
                break
            size = self._next_size()
            if size is not None and (size >= self.largest or (self.else_all and self.best is None and self._is_far())):
                break
        return self.best

    def _try(self, size: int) -> None:
        found = self.at(size)
        assert found.ratio is not None
        all_there = found.ratio.n_directions >= found.problem.sample.n_components
        self.curve.append((size, self._reached(found) if all_there else 0.0))
        self.ratios.append((size, found.ratio.value if all_there else 0.0))
        if self.curve[-1][1] >= self.target and (self.best is None or size < self.best.selection.n_support):
            self.best = found

    def _reached(self, found: Choice) -> float:
        """The value to compare with the target: the captured ratio, lowered if the second target is missed.

        A choice that misses the second target by some factor counts as if its missing share were too large by the same
        factor.
        """
        assert found.ratio is not None
        if self.agreed is None or found.ratio.value < self.target:
            return found.ratio.value
        return min(found.ratio.value, 1 - (1 - self.target) * self.agreed(found))

    def _next_size(self) -> int | None:
        """The next size to try; None if the fewest points are known closely enough.

        It is where the secant meets the target or, if there is no secant or a size costs little, the geometric mean of
        the largest size that failed and the smallest that was enough.
        """
        failing = max((m for m, ratio in self.curve if ratio < self.target), default=self.least - 1)
        enough = min((m for m, ratio in self.curve if ratio >= self.target), default=self.largest)
        if self.best is None:
            guess, (least, most) = self._where(self._exponent + self.plan.growing_exponent), self.plan.growth
            return min(math.ceil(min(max(guess, least * failing), most * failing)), self.largest)
        if enough - failing <= 1 or enough <= self.plan.close_enough * max(failing, 1):
            return None
        # A size with too few components has the value 0, which gives no secant.
        by_halves = not self.costly or dict(self.curve).get(failing) == 0
        guess = math.sqrt(failing * enough) if by_halves else self._where(self._exponent)
        return min(max(round(guess), failing + 1), enough - 1)

    def _is_far(self) -> bool:
        """Whether the secant through two sizes predicts that far more than the largest size would be needed."""
        needed = self._where(self._exponent + self.plan.growing_exponent)
        return len(self.curve) > 1 and needed > self.plan.far_beyond * self.largest

    @property
    def _spare(self) -> float:
        """log(m / m'), with m the smallest size known to be enough and m' the size predicted to be just enough."""
        _, ratio = min(size for size in self.curve if size[1] >= self.target)
        return (_missing(self.target) - _missing(ratio)) / self._exponent

    def _where(self, exponent: float) -> float:
        """The size at which the missing share is expected to be a little below the share that the target allows."""
        m, ratio = self._nearest[0]
        aimed = _missing(self.target) - math.log(self.plan.aim_low)
        return m * math.exp((_missing(ratio) - aimed) / exponent)

    @property
    def _exponent(self) -> float:
        """The exponent in 1 - ratio ~ m^-exponent, from the two sizes whose ratios are nearest to the target."""
        if len(self._nearest) < 2:
            return self.plan.first_exponent
        (m, ratio), (other, other_ratio) = self._nearest
        exponent = (_missing(ratio) - _missing(other_ratio)) / (math.log(other) - math.log(m))
        smallest, largest = self.plan.exponents
        return min(max(exponent, smallest), largest)

    @property
    def _nearest(self) -> list[tuple[int, float]]:
        return sorted(self.curve, key=lambda size: abs(_missing(size[1]) - _missing(self.target)))[:2]


def _missing(ratio: float) -> float:
    return math.log(max(1.0 - ratio, 1e-9))
