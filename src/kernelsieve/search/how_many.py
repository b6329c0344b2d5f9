"""How many points: the fewest whose captured ratio reaches a target.

The share missing falls like a power of m, 1 - ratio ~ m^-exponent, so the search is a secant on log(1 - ratio) against
log m through the two sizes nearest the target.  Where a size costs a search, one that is enough is taken as soon as the
secant says that one smaller by CLOSE_ENOUGH would not be: to see it fail would cost another.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..rules.base import Choice

FIRST_EXPONENT = 1.5  # of 1 - ratio ~ m^-exponent, before two sizes are known
MIN_EXPONENT, MAX_EXPONENT = 0.2, 5.0
# An exponent so small between sizes that are so many times apart means that no few points will do.
HOPELESS, FAR_APART = 0.2, 3.0
MAX_SIZES = 5
FAR_BEYOND = 2.0  # times the largest size is too far, where all rows are taken else
MIN_GROWTH, MAX_GROWTH = 1.12, 3.5  # of the size while none is enough
CLOSE_ENOUGH = math.log(1.16)  # stop when a size that fails, or would, is within this factor of the one that is enough
SAFE_SIDE = 0.05  # log, by which less than may be missing is aimed at: a size that just fails is a search for nothing
GROWING = 0.25  # is what the exponent is larger by beyond the sizes known

Curve = list[tuple[int, float]]  # sizes tried, each with its ratio


def fewest(
    at: Callable[[int], Choice],
    first: int,
    least: int,
    largest: int,
    target: float,
    *,
    costly: bool,
    else_all: bool = False,
) -> tuple[Curve, Choice | None]:
    """The sizes tried with their ratios, and the smallest choice that reached the target, if one did.

    `costly` sizes are not tried only to see them fail.  Where no size will do, `else_all` rows are taken, which costs
    less than a size: they are as soon as the largest is far from enough by the sizes known.
    """
    curve: Curve = []
    best: Choice | None = None
    m = first
    while len(curve) < MAX_SIZES or best is None:
        found = at(m)
        assert found.ratio is not None
        all_there = found.ratio.n_directions >= found.problem.sample.n_components
        curve.append((m, found.ratio.value if all_there else 0.0))
        if curve[-1][1] >= target and (best is None or m < best.selection.n_support):
            best = found
        if costly and best is not None and _spare(curve, target) <= CLOSE_ENOUGH:
            break
        following = _next_size(curve, least, largest, target, by_halves=not costly)
        if following is None:
            break
        if following >= largest or (else_all and best is None and _is_far(curve, largest, target)):
            return curve, best
        m = following
    return curve, best


def _next_size(curve: Curve, least: int, largest: int, target: float, *, by_halves: bool) -> int | None:
    """Where the secant through the two nearest sizes meets the target, or the middle of what is still open."""
    failing = max((m for m, ratio in curve if ratio < target), default=least - 1)
    enough = min((m for m, ratio in curve if ratio >= target), default=largest)
    exponent = _exponent(curve, target)
    if all(ratio < target for _, ratio in curve):
        if _is_hopeless(curve):
            return largest
        guess = _where(curve, target, exponent + GROWING)
        return min(math.ceil(min(max(guess, MIN_GROWTH * failing), MAX_GROWTH * failing)), largest)
    still_open = math.log(enough / max(failing, 1))
    if enough - failing <= 1 or still_open <= CLOSE_ENOUGH:
        return None
    guess = _where(curve, target, exponent)
    if by_halves or dict(curve).get(failing) == 0:  # where components were missing there is no secant
        guess = math.sqrt(failing * enough)
    return min(max(round(guess), failing + 1), enough - 1)


def _is_hopeless(curve: Curve) -> bool:
    """Whether several times more points have hardly bettered the ratio; of nearby sizes chance alone may say so."""
    (few, first), (many, last) = min(curve), max(curve)
    apart = many >= FAR_APART * few and last > 0
    return apart and _missing(first) - _missing(last) <= HOPELESS * math.log(many / few)


def _is_far(curve: Curve, largest: int, target: float) -> bool:
    """Whether a multiple of the largest size would be needed, by sizes that are apart and an exponent that grows."""
    apart = max(curve)[0] >= FAR_APART * min(curve)[0]
    return apart and _where(curve, target, _exponent(curve, target) + GROWING) > FAR_BEYOND * largest


def _spare(curve: Curve, target: float) -> float:
    """How much smaller, log m, the smallest size that is enough is expected to be able to be."""
    _, ratio = min(size for size in curve if size[1] >= target)
    return (_missing(target) - _missing(ratio)) / _exponent(curve, target)


def _where(curve: Curve, target: float, exponent: float) -> float:
    """The size at which the share missing is expected to be a little less than the target's."""
    m, ratio = _nearest(curve, target)[0]
    return m * math.exp((_missing(ratio) - _missing(target) + SAFE_SIDE) / exponent)


def _exponent(curve: Curve, target: float) -> float:
    """How fast what is missing falls: 1 - ratio ~ m^-exponent between the two sizes nearest the target."""
    nearest = _nearest(curve, target)
    if len(nearest) < 2:
        return FIRST_EXPONENT
    (m, ratio), (other, other_ratio) = nearest
    exponent = (_missing(ratio) - _missing(other_ratio)) / (math.log(other) - math.log(m))
    return min(max(exponent, MIN_EXPONENT), MAX_EXPONENT)


def _nearest(curve: Curve, target: float) -> Curve:
    return sorted(curve, key=lambda size: abs(_missing(size[1]) - _missing(target)))[:2]


def _missing(ratio: float) -> float:
    return math.log(max(1.0 - ratio, 1e-9))
