"""How many points: the fewest whose captured ratio reaches a target.

The share missing falls like a power of m, 1 - ratio ~ m^-exponent, so the search is a secant on log(1 - ratio) against
log m through the two sizes nearest the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .base import Choice

FIRST_EXPONENT = 1.5  # of 1 - ratio ~ m^-exponent, before two sizes are known
MAX_EXPONENT = 5.0
HOPELESS = 0.2  # an exponent so small means that no few points will do
MAX_SIZES = 5
MIN_GROWTH, MAX_GROWTH = 1.15, 4.0  # of the size while none is enough
CLOSE_ENOUGH = 1.12  # stop when the size that fails is within this factor of the one that does

Curve = list[tuple[int, float]]  # sizes tried, each with its ratio


def fewest(
    at: Callable[[int], Choice], first: int, least: int, largest: int, target: float
) -> tuple[Curve, Choice | None]:
    """The sizes tried with their ratios, and the smallest choice that reached the target, if one did."""
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
        following = _next_size(curve, least, largest, target)
        if following is None:
            break
        if following >= largest:
            return curve, best
        m = following
    return curve, best


def _next_size(curve: Curve, least: int, largest: int, target: float) -> int | None:
    """Where the secant through the two nearest sizes meets the target, well inside what is still open."""
    failing = max((m for m, ratio in curve if ratio < target), default=least - 1)
    enough = min((m for m, ratio in curve if ratio >= target), default=largest)
    exponent = _exponent(curve, target)
    m, ratio = _nearest(curve, target)[0]
    guess = m * math.exp((_missing(ratio) - _missing(target)) / max(exponent, HOPELESS))
    if all(ratio < target for _, ratio in curve):
        if exponent <= HOPELESS:
            return largest
        return min(math.ceil(min(max(guess, MIN_GROWTH * failing), MAX_GROWTH * failing)), largest)
    if enough - failing <= 1 or enough <= CLOSE_ENOUGH * failing:
        return None
    low, high = failing**0.75 * enough**0.25, failing**0.25 * enough**0.75
    return min(max(round(min(max(guess, low), high)), failing + 1), enough - 1)


def _exponent(curve: Curve, target: float) -> float:
    """How fast what is missing falls: 1 - ratio ~ m^-exponent between the two sizes nearest the target."""
    nearest = _nearest(curve, target)
    if len(nearest) < 2:
        return FIRST_EXPONENT
    (m, ratio), (other, other_ratio) = nearest
    return min((_missing(ratio) - _missing(other_ratio)) / (math.log(other) - math.log(m)), MAX_EXPONENT)


def _nearest(curve: Curve, target: float) -> Curve:
    return sorted(curve, key=lambda size: abs(_missing(size[1]) - _missing(target)))[:2]


def _missing(ratio: float) -> float:
    return math.log(max(1.0 - ratio, 1e-9))
