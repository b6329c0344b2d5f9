"""Elastic-net sparse kernel PCA by exact alternation (Wang & Tanaka 2016), in coordinates.

With candidates' coordinates G (n x q), K = G G', and the training rows' scatter M (see `quadratic`), component k is

    a-step:  a = argmin J(u, a),   J = 1/2 (u - G'a)'M(u - G'a) + (l2/2)|G'a|^2 + alpha sum_i w_i |a_i|
    b-step:  u ~ M G'a - sum_{j<k} u_j (u_j'M G'a),   |u| = 1

from u = the k-th eigenvector of M, which is kernel PCA's component.  With u = G'b this is the paper's p = K^1/2 b
without a root or an inverse: M G'a = G'(K a), u_j'M G'a = b_j'K K a.

J is the printed criterion.  The b-step maximises u'M G'a, that is, it minimises the left side of the paper's (10),

    J + (tr M - u'M u)/2

(the printed equality omits the last term), so this `criterion` decreases from pass to pass, while J itself need not.

`alternate` computes one component after the other.  If all are updated together, the U-step is for U = [u_1 ... u_M]

    M G'A = Y D V'   ->   U = Y V'

The polar factor Y V' is the orthonormal U with the largest tr U'(M G'A), and so the one that minimises the left side
of (10) for all components together, as in Zou, Hastie & Tibshirani's sparse PCA.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from ..arrays import top_eigh
from ..spectrum.whitening import RANK_TOLERANCE
from .lasso import TOLERANCE, LassoResult
from .path import solve
from .quadratic import elastic_net_quadratic

Move: TypeAlias = Callable[[np.ndarray, np.ndarray], np.ndarray]  # (M G'A, old directions) -> new directions


@dataclass(frozen=True)
class ImitationProblem:
    """The data that all passes share, and the stopping rules."""

    coordinates: np.ndarray  # (n, q), G: of the candidates
    moment: np.ndarray  # (q, q), M: of the training rows
    l2: float
    weights: np.ndarray | None = None  # (n,) penalty weights; infinity bars a candidate
    max_iter: int = 1  # passes; 1 is the single a-step at kernel PCA
    tol: float = TOLERANCE  # duality gap of every a-step, relative to its objective
    settled: float = 1e-6  # relative decrease of the criterion at which a component's passes end


@dataclass(frozen=True)
class Alternation:
    """Sparse coefficients of all components, as the a-step leaves them: v_k = sum_i coef_ik phi(x_i) is not of unit
    length (the lasso shrinks it); divide by |G'coef_k|."""

    coef: np.ndarray  # (n, n_components), exactly zero off the supports
    directions: np.ndarray  # (q, n_components): u after the last b-step
    objective: np.ndarray  # (n_passes,): J summed over components, each at its a-step
    criterion: np.ndarray  # (n_passes,): J + (tr M - u'M u)/2 of each component, summed; never rises
    gap: np.ndarray  # of each last a-step, relative to its objective: (n_components,), or (1,) for one support
    n_iter: int  # the largest number of passes of any component
    exact: bool  # every a-step reached its duality gap
    settled: bool  # the alternation came to rest; True when a single pass was asked for

    @property
    def converged(self) -> bool:
        return self.exact and self.settled


def kernel_pca_directions(moment: np.ndarray, n_components: int) -> np.ndarray:
    """The top eigenvectors of M, (q, n_components): kernel PCA's components in coordinates."""
    return top_eigh(moment, n_components)[1]


def alternate(problem: ImitationProblem, directions: np.ndarray, alphas: Sequence[float] | np.ndarray) -> Alternation:
    """One component after the other, each by up to `max_iter` passes of a-step and b-step.

    Parameters
    ----------
    problem : ImitationProblem
    directions : ndarray of shape (q, n_components)
        Where each u starts: `kernel_pca_directions(moment, n_components)`.
    alphas : sequence of n_components floats
        Absolute: `largest_alpha` of the quadratic at a direction makes its component zero.

    Examples
    --------
    >>> import numpy as np
    >>> G = np.random.default_rng(0).standard_normal((60, 5))
    >>> M = G.T @ G
    >>> found = alternate(ImitationProblem(G, M, l2=0.1, max_iter=20), kernel_pca_directions(M, 2), [5.0, 5.0])
    >>> found.coef.shape, found.converged, bool(np.all(np.diff(found.criterion) <= 0))
    ((60, 2), True, True)
    """
    directions, parts = np.array(directions, dtype=np.float64), []
    for k, alpha in enumerate(alphas):
        parts.append(_passes(problem, directions, [k], [alpha], partial(_b_step, k=k)))
        directions = parts[-1].directions
    return Alternation(
        np.concatenate([part.coef for part in parts], axis=1),
        directions,
        _summed([part.objective for part in parts]),
        _summed([part.criterion for part in parts]),
        np.concatenate([part.gap for part in parts]),
        max(part.n_iter for part in parts),
        all(part.exact for part in parts),
        all(part.settled for part in parts),
    )


def alternate_jointly(problem: ImitationProblem, directions: np.ndarray, alpha: float) -> Alternation:
    """All components at once on one support: the penalty is alpha sum_i w_i |A_i.|."""
    return _passes(problem, np.asarray(directions, dtype=np.float64), [slice(None)], [alpha], _polar)


def alternate_simultaneously(
    problem: ImitationProblem, directions: np.ndarray, alphas: Sequence[float] | np.ndarray
) -> Alternation:
    """All components at once, each with its own alpha and support.

    The criterion J[P, Q] of the paper, which its Algorithm 1 does not minimise: in the algorithm no component is
    changed in favour of a later one.
    """
    return _passes(problem, np.asarray(directions, dtype=np.float64), range(len(alphas)), alphas, _polar)


def _passes(
    problem: ImitationProblem,
    directions: np.ndarray,
    blocks: Sequence[int | slice],
    alphas: Sequence[float] | np.ndarray,
    move: Move,
) -> Alternation:
    """A-steps and moves of the directions in turn; the columns of a block share one support."""
    trace = float(np.trace(problem.moment))
    objective: list[float] = []
    criterion: list[float] = []
    results: list[LassoResult] = []
    exact = settled = True
    while len(criterion) < problem.max_iter:
        at = [elastic_net_quadratic(problem.coordinates, problem.moment, directions[:, b], problem.l2) for b in blocks]
        starts: list[np.ndarray | None] = [result.coef for result in results] or [None] * len(at)
        results = [
            solve(quadratic, float(alpha), weights=problem.weights, start=start, tol=problem.tol)
            for quadratic, alpha, start in zip(at, alphas, starts, strict=True)
        ]
        objective.append(sum(result.objective for result in results))
        criterion.append(objective[-1] + (trace - sum(quadratic.target_square for quadratic in at)) / 2)
        exact = exact and all(result.converged for result in results)
        coef = np.column_stack([result.coef for result in results])
        rows = np.flatnonzero(coef.any(axis=1))
        directions = move(problem.moment @ (problem.coordinates[rows].T @ coef[rows]), directions)
        if len(criterion) > 1:
            settled = criterion[-2] - criterion[-1] <= problem.settled * criterion[-2]
            if settled:
                break
    gap = np.array([result.gap / result.objective for result in results])
    return Alternation(coef, directions, np.array(objective), np.array(criterion), gap, len(objective), exact, settled)


def _b_step(image: np.ndarray, directions: np.ndarray, k: int) -> np.ndarray:
    """The directions with M G'a as the k-th, made orthogonal to the earlier ones and of unit length, unless it is
    zero."""
    earlier, moved = directions[:, :k], directions.copy()
    rest = image[:, 0] - earlier @ (earlier.T @ image[:, 0])
    rest -= earlier @ (earlier.T @ rest)
    length = np.linalg.norm(rest)
    if length > 0:
        moved[:, k] = rest / length
    return moved


def _summed(histories: list[np.ndarray]) -> np.ndarray:
    """Sum over components, pass by pass; a component that has converged contributes its last value."""
    n_passes = max(map(len, histories))
    return np.sum([np.pad(history, (0, n_passes - len(history)), mode="edge") for history in histories], axis=0)


def _polar(images: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """The orthonormal U with the largest tr U'(M G'A).

    If components are zero or repeat each other, the images are rank deficient and do not determine U: the undetermined
    part is taken from the old directions, made orthogonal to the rest.
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
