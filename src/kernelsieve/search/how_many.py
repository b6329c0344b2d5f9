"""How many points: the fewest whose captured ratio reaches a target.

The missing share falls like a power of m, 1 - ratio ~ m^-exponent.  So the next size to try is predicted by a secant of
log(1 - ratio) against log m, through the two sizes whose ratios are nearest to the target.  If each size costs a whole
search for points, the first size that is enough is taken as soon as the secant predicts that a size smaller by the
factor `close_enough` would fail, because confirming this would cost another search.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..fit.plan import SearchPlan
from ..rules.base import Choice


@dataclass(frozen=True)
class Tried:
    """Sizes that have been tried, and the smallest choice among them that reaches the target."""

    target: float
    curve: tuple[tuple[int, float], ...] = ()  # sizes, each with the value that is compared with the target
    ratios: tuple[tuple[int, float], ...] = ()  # sizes, each with its captured ratio
    best: Choice | None = None

    def with_choice(self, size: int, choice: Choice, reached: float, ratio: float) -> Tried:
        """These sizes and one more, whose choice has reached this value and this captured ratio."""
        best = self.best
        if reached >= self.target and (best is None or size < best.selection.n_support):
            best = choice
        return Tried(self.target, (*self.curve, (size, reached)), (*self.ratios, (size, ratio)), best)

    @property
    def nearest(self) -> list[tuple[int, float]]:
        """The one or two sizes whose values are nearest to the target."""
        return sorted(self.curve, key=lambda size: abs(_missing(size[1]) - _missing(self.target)))[:2]


@dataclass(frozen=True)
class Fewest:
    """Searches for the smallest number of points whose captured ratio reaches the target."""

    at: Callable[[int], Choice]  # a choice of this many points
    least: int
    largest: int
    target: float
    plan: SearchPlan
    costly: bool  # each size costs a search for points, so a size that is expected to fail is not tried
    else_all: bool = False  # if no size is enough, all rows are taken, which costs less than trying a large size
    # A second target: by how much a choice misses it, as a multiple of what is allowed.
    missed: Callable[[Choice], float] | None = None

    def search(self, first: int) -> Tried:
        """The sizes tried; none of them reaches the target if it needs the largest size or more."""
        size: int | None = first
        tried = Tried(self.target)
        while size is not None and (len(tried.curve) < self.plan.max_sizes or tried.best is None):
            tried = self._with(size, tried)
            if self.costly and tried.best is not None and self._spare(tried) <= math.log(self.plan.close_enough):
                break
            size, lost = self._next_size(tried), self.else_all and tried.best is None and self._is_far(tried)
            if size is not None and (size >= self.largest or lost):
                break
        return tried

    def _with(self, size: int, tried: Tried) -> Tried:
        choice = self.at(size)
        assert choice.ratio is not None
        if choice.ratio.n_real < choice.problem.sample.n_components:
            return tried.with_choice(size, choice, 0.0, 0.0)
        return tried.with_choice(size, choice, self._reached(choice), choice.ratio.value)

    def _reached(self, choice: Choice) -> float:
        """The value to compare with the target: the captured ratio, lowered if the second target is missed.

        A choice that misses the second target by some factor counts as if its missing share were too large by the same
        factor.
        """
        assert choice.ratio is not None
        if self.missed is None or choice.ratio.value < self.target:
            return choice.ratio.value
        return min(choice.ratio.value, 1 - (1 - self.target) * self.missed(choice))

    def _next_size(self, tried: Tried) -> int | None:
        """The next size to try; None if the fewest points are known closely enough.

        It is where the secant meets the target or, if there is no secant or a size costs little, the geometric mean of
        the largest size that failed and the smallest that was enough.
        """
        failing = max((m for m, ratio in tried.curve if ratio < self.target), default=self.least - 1)
        enough = min((m for m, ratio in tried.curve if ratio >= self.target), default=self.largest)
        if tried.best is None:
            guess, (least, most) = self._where_growing(tried), self.plan.growth
            return min(math.ceil(min(max(guess, least * failing), most * failing)), self.largest)
        if enough - failing <= 1 or enough <= self.plan.close_enough * max(failing, 1):
            return None
        # A size with too few components has the value 0, which gives no secant.
        by_halves = not self.costly or dict(tried.curve).get(failing) == 0
        guess = math.sqrt(failing * enough) if by_halves else self._where(tried, self._exponent(tried))
        return min(max(round(guess), failing + 1), enough - 1)

    def _is_far(self, tried: Tried) -> bool:
        """Whether the secant through two sizes predicts that far more than the largest size would be needed."""
        return len(tried.curve) > 1 and self._where_growing(tried) > self.plan.far_beyond * self.largest

    def _spare(self, tried: Tried) -> float:
        """log(m / m'), with m the smallest size known to be enough and m' the size predicted to be just enough."""
        _, ratio = min(size for size in tried.curve if size[1] >= self.target)
        return (_missing(self.target) - _missing(ratio)) / self._exponent(tried)

    def _where_growing(self, tried: Tried) -> float:
        """The size at which the target is expected if the missing share falls faster than the secant says."""
        return self._where(tried, self._exponent(tried) + self.plan.growing_exponent)

    def _where(self, tried: Tried, exponent: float) -> float:
        """The size at which the missing share is expected to be a little below the share that the target allows."""
        m, ratio = tried.nearest[0]
        aimed = _missing(self.target) - math.log(self.plan.aim_low)
        return m * math.exp((_missing(ratio) - aimed) / exponent)

    def _exponent(self, tried: Tried) -> float:
        """The exponent in 1 - ratio ~ m^-exponent, from the two sizes whose ratios are nearest to the target."""
        if len(tried.nearest) < 2:
            return self.plan.first_exponent
        (m, ratio), (other, other_ratio) = tried.nearest
        exponent = (_missing(ratio) - _missing(other_ratio)) / (math.log(other) - math.log(m))
        smallest, largest = self.plan.exponents
        return min(max(exponent, smallest), largest)


def _missing(ratio: float) -> float:
    return math.log(max(1.0 - ratio, 1e-9))
