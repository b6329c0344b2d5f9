"""The lasso for many alphas: they decrease along a grid from alpha_max, and each solution starts from the last.

The number of nonzeros usually increases as alpha decreases, but not always, and some numbers never occur.  If a support
of a given size is wanted, the result is the largest support found that is not larger than that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from .group_lasso import group_lasso
from .lasso import TOLERANCE, LassoResult, lasso
from .quadratic import Quadratic, largest_alpha


class _Sized(Protocol):
    @property
    def active(self) -> np.ndarray: ...  # the support


Found = TypeVar("Found", bound=_Sized)


@dataclass(frozen=True)
class SizedSolution:
    """The solution with the largest support up to a given size."""

    alpha: float
    result: LassoResult
    n_nonzero: int  # the size of its support


def alpha_for_nonzeros(
    quadratic: Quadratic, n_nonzero: int, *, weights: np.ndarray | None = None, tol: float = TOLERANCE
) -> SizedSolution:
    """The solution with `n_nonzero` nonzeros or, if none is found, with the largest number below that.

    If the linear term is a matrix, this is the group lasso, with `n_nonzero` rows for all components.  alpha decreases
    along a grid from alpha_max until the support is large enough.  If it is then too large, the search continues by
    bisection between the last two alphas.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelsieve.solvers.quadratic import HessianQuadratic
    >>> problem = HessianQuadratic(np.eye(3), linear=np.array([3.0, -0.5, -2.0]), target_square=13.25)
    >>> found = alpha_for_nonzeros(problem, 2)
    >>> found.n_nonzero, bool(0.5 <= found.alpha < 2.0)
    (2, True)
    """
    if n_nonzero < 1:
        raise ValueError(f"n_nonzero={n_nonzero}: a component needs at least one nonzero coefficient")
    largest = largest_alpha(quadratic, weights)
    if not largest > 0:
        raise ValueError("the component to imitate is zero on all candidates: there is nothing to select")
    alphas = largest * np.geomspace(1.0, 1e-6, 49)  # eight steps for each factor of ten
    found = most_within(
        n_nonzero,
        largest,
        alphas,
        lambda alpha, best: solve(
            quadratic, alpha, weights=weights, start=None if best is None else best.coef, tol=tol
        ),
        12,
    )
    assert found is not None  # because at the largest alpha the support is empty
    alpha, result = found
    return SizedSolution(alpha, result, len(result.active))


def most_within(
    n_most: int,
    limit: float,
    values: Iterable[float],
    solve: Callable[[float, Found | None], Found],
    n_bisections: int,
) -> tuple[float, Found] | None:
    """The solution with the largest support, up to `n_most` members, among those found for values below `limit`.

    solve(value, best solution so far) is called for decreasing values until the support is too large, and then for
    values between the last two, by bisection.  Returns the value and the solution; None if all supports are too large.
    """
    best: tuple[float, Found] | None = None
    fits, too_many, falling = limit, None, iter(values)
    while n_bisections:
        if too_many is None:
            value = float(next(falling, 0.0))
            if value == 0:
                break
        else:
            n_bisections -= 1
            value = math.sqrt(fits * too_many)
        found = solve(value, None if best is None else best[1])
        n_found = len(found.active)
        if n_found > n_most:
            too_many = value
            continue
        fits = value
        if best is None or n_found >= len(best[1].active):
            best = value, found
        if n_found == n_most:
            break
    return best


def solve(
    quadratic: Quadratic, alpha: float, *, weights: np.ndarray | None, start: np.ndarray | None, tol: float
) -> LassoResult:
    """The lasso, or the group lasso if the linear term is a matrix."""
    if quadratic.linear.ndim == 1:
        return lasso(quadratic, alpha, weights=weights, start=start, tol=tol)
    return group_lasso(quadratic, alpha, weights=weights, start=start, tol=tol)


def descend(
    quadratic: Quadratic, alphas: np.ndarray, weights: np.ndarray | None = None, tol: float = TOLERANCE
) -> Iterator[LassoResult]:
    """Solutions for decreasing alphas, each starting from the last."""
    start = None
    for alpha in alphas:
        result = solve(quadratic, float(alpha), weights=weights, start=start, tol=tol)
        start = result.coef
        yield result
