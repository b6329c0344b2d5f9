"""Elastic-net sparse kernel PCA whose components move together, in the coordinates of `alternation`.

    a-step:  for each column of U = [u_1 ... u_M], or for all at once on one support, the (group) lasso of `alternation`
    U-step:  M G'A = Y D V'   ->   U = Y V'

The polar factor Y V' is the orthonormal U with the largest tr U'(M G'A), and so the one that minimises the left side
of the paper's (10) for all components together, as in Zou, Hastie & Tibshirani's sparse PCA.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..spectrum.whitening import RANK_TOLERANCE
from .alternation import Alternation, Passes, Problem
from .group_lasso import group_lasso
from .lasso import LassoResult, lasso


def alternate_jointly(problem: Problem, directions: np.ndarray, alpha: float) -> Alternation:
    """All components at once on one support: the penalty is alpha sum_i w_i |A_i.|."""
    directions = np.array(directions, dtype=np.float64)
    passes = Passes(problem)
    start = None
    while passes.more():
        quadratic, options = problem.a_step(directions)
        result = group_lasso(quadratic, alpha, start=start, **options)
        passes.add([result], quadratic.target_square)
        start = result.coef
        directions = _polar(problem.moment @ (problem.coordinates.T @ result.coef), directions)
    return passes.reached(result.coef, directions)


def alternate_simultaneously(
    problem: Problem, directions: np.ndarray, alphas: Sequence[float] | np.ndarray
) -> Alternation:
    """All components at once, each with its own alpha and support.

    The criterion J[P, Q] of the paper, which its Algorithm 1 does not minimise: there a component never gives way to a
    later one.
    """
    directions = np.array(directions, dtype=np.float64)
    passes = Passes(problem)
    results: list[LassoResult] = []
    while passes.more():
        steps = [problem.a_step(u) for u in directions.T]
        starts: list[np.ndarray | None] = [result.coef for result in results] or [None] * len(steps)
        results = [
            lasso(quadratic, float(alpha), start=start, **options)
            for (quadratic, options), alpha, start in zip(steps, alphas, starts, strict=True)
        ]
        passes.add(results, sum(quadratic.target_square for quadratic, _ in steps))
        coef = np.stack([result.coef for result in results], axis=1)
        directions = _polar(problem.moment @ (problem.coordinates.T @ coef), directions)
    return passes.reached(coef, directions)


def _polar(images: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """The orthonormal U with the largest tr U'(M G'A).

    Where components are zero or repeat each other images are rank deficient and U is not settled by them: what they
    leave open is filled from the old directions, made orthogonal to it.
    """
    left, values, right = np.linalg.svd(images, full_matrices=False)
    real = values > RANK_TOLERANCE * values[0]
    if real.all():
        return left @ right
    settled, free = left[:, real], right[~real]  # free: combinations of components without an image
    open_ = directions @ free.T
    open_ -= settled @ (settled.T @ open_)
    filled, _, turned = np.linalg.svd(open_, full_matrices=False)
    return settled @ right[real] + filled @ turned @ free
