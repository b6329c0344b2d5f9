"""The lasso for many alphas: down a grid from alpha_max, each solution the start of the next.

The number of nonzeros mostly grows as alpha falls, but not always, and some numbers never occur: asked for a support of
a given size, the answer is the largest found that is no larger.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .group_lasso import group_lasso
from .lasso import TOLERANCE, LassoResult, lasso
from .quadratic import Quadratic, largest_alpha

# Where a support of given size is looked for: alphas down to this share of alpha_max, so many to a factor of ten.
SMALLEST_SEARCHED = 1e-6
SEARCHED_PER_DECADE = 8
REFINEMENTS = 12  # bisections between the last alpha that gave too few nonzeros and the first that gave too many


@dataclass(frozen=True)
class SizedSolution:
    """The solution with the largest support up to a given size."""

    alpha: float
    result: LassoResult
    n_nonzero: int  # reached


def alpha_for_nonzeros(
    quadratic: Quadratic, n_nonzero: int, *, weights: np.ndarray | None = None, tol: float = TOLERANCE
) -> SizedSolution:
    """The solution with `n_nonzero` nonzeros, or the most found below that; `n_nonzero` of the result says which.

    Where the linear term is a matrix, the group lasso's: `n_nonzero` rows for all components.

    Down a grid from alpha_max until the support is as large as asked for; where it has become larger between two
    alphas, by bisection between them.

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
    search = _Search(n_nonzero)
    n_alphas = 1 + round(-np.log10(SMALLEST_SEARCHED) * SEARCHED_PER_DECADE)
    alphas = largest * np.geomspace(1.0, SMALLEST_SEARCHED, n_alphas)
    for alpha, result in zip(alphas, descend(quadratic, alphas, weights, tol), strict=True):
        if search.record(float(alpha), result):
            break
    while not search.reached and search.too_many and search.n_refinements < REFINEMENTS:
        search.n_refinements += 1
        alpha = float(np.sqrt(search.too_few * search.too_many))
        search.record(alpha, solve(quadratic, alpha, weights=weights, start=search.best.coef, tol=tol))
    return SizedSolution(search.alpha, search.best, len(search.best.active))


class _Search:
    """The best solution so far, and the alphas between which a better one is."""

    best: LassoResult

    def __init__(self, n_nonzero: int) -> None:
        self.n_nonzero = n_nonzero
        self.alpha = self.too_few = np.inf
        self.too_many = 0.0  # none yet
        self.n_refinements = 0

    def record(self, alpha: float, result: LassoResult) -> bool:
        """Take note of a solution; whether it has at least as many nonzeros as asked for."""
        n_found = len(result.active)
        if n_found > self.n_nonzero:
            self.too_many = alpha
            return True
        self.too_few = alpha
        if not np.isfinite(self.alpha) or n_found >= len(self.best.active):
            self.alpha, self.best = alpha, result
        return n_found == self.n_nonzero

    @property
    def reached(self) -> bool:
        return len(self.best.active) == self.n_nonzero


def solve(
    quadratic: Quadratic, alpha: float, *, weights: np.ndarray | None, start: np.ndarray | None, tol: float
) -> LassoResult:
    """The lasso, or the group lasso where the linear term is a matrix."""
    if quadratic.linear.ndim == 1:
        return lasso(quadratic, alpha, weights=weights, start=start, tol=tol)
    return group_lasso(quadratic, alpha, weights=weights, start=start, tol=tol)


def descend(
    quadratic: Quadratic, alphas: np.ndarray, weights: np.ndarray | None = None, tol: float = TOLERANCE
) -> Iterator[LassoResult]:
    """Solutions for descending alphas, each the start of the next."""
    start = None
    for alpha in alphas:
        result = solve(quadratic, float(alpha), weights=weights, start=start, tol=tol)
        start = result.coef
        yield result
