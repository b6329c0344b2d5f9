"""Elastic-net sparse kernel PCA by exact alternation (Wang & Tanaka 2016), in coordinates.

With candidates' coordinates G (n x q), K = G G', and the training rows' scatter M (see `quadratic`), component k is

    a-step:  a = argmin J(u, a),   J = 1/2 (u - G'a)'M(u - G'a) + (l2/2)|G'a|^2 + alpha sum_i w_i |a_i|
    b-step:  u ~ M G'a - sum_{j<k} u_j (u_j'M G'a),   |u| = 1

from u = the k-th eigenvector of M, which is kernel PCA's component.  With u = G'b this is the paper's p = K^1/2 b
without a root or an inverse: M G'a = G'(K a), u_j'M G'a = b_j'K K a.

J is the printed criterion.  The b-step maximises u'M G'a, that is, it minimises the left side of the paper's (10),

    J + (tr M - u'M u)/2

(the printed equality forgets the last term), so this `criterion` falls from pass to pass and J itself need not.

Here one component follows after the other; `simultaneous` has those whose directions move together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import top_eigh
from .lasso import TOLERANCE, LassoResult, lasso
from .quadratic import FactorQuadratic, elastic_net_quadratic

# The alternation has settled when a pass lowers the criterion by no more than this share.
SETTLED = 1e-6


@dataclass(frozen=True)
class Problem:
    """What every pass of every component shares, and when the passes end."""

    coordinates: np.ndarray  # (n, q), G: of the candidates
    moment: np.ndarray  # (q, q), M: of the training rows
    l2: float
    weights: np.ndarray | None = None  # (n,) penalty weights; infinity bars a candidate
    max_iter: int = 1  # passes; 1 is the single a-step at kernel PCA
    tol: float = TOLERANCE  # duality gap of every a-step, relative to its objective
    settled: float = SETTLED  # relative fall of the criterion at which a component's passes end

    def a_step(self, directions: np.ndarray) -> tuple[FactorQuadratic, dict[str, Any]]:
        """The quadratic at u, or at several at once, and what else its solver is told."""
        quadratic = elastic_net_quadratic(self.coordinates, self.moment, directions, self.l2)
        return quadratic, {"weights": self.weights, "tol": self.tol}

    def component(self, directions: np.ndarray, k: int, alpha: float) -> Passes:
        """Passes of component k; column k of `directions` follows its u."""
        passes = Passes(self)
        start = None
        while passes.more():
            quadratic, options = self.a_step(directions[:, k])
            result = lasso(quadratic, alpha, start=start, **options)
            passes.add([result], quadratic.target_square)
            start = result.coef
            in_coordinates = self.coordinates[result.active].T @ result.coef[result.active]
            directions[:, k] = _b_step(self.moment @ in_coordinates, directions, k)
        return passes


@dataclass(frozen=True)
class Alternation:
    """Sparse coefficients of all components, as the a-step leaves them: v_k = sum_i coef_ik phi(x_i) is not of unit
    length (the lasso shrinks it); divide by |G'coef_k|."""

    coef: np.ndarray  # (n, n_components), exactly zero off the supports
    directions: np.ndarray  # (q, n_components): u after the last b-step
    objective: np.ndarray  # (n_passes,): J summed over components, each at its a-step
    criterion: np.ndarray  # (n_passes,): the same with (tr M - u'M u)/2 for each component; never rises
    gap: np.ndarray  # of each last a-step, relative to its objective: (n_components,), or (1,) for one support
    n_iter: int  # passes of the component that took most
    exact: bool  # every a-step reached its duality gap
    settled: bool  # the alternation came to rest; True when a single pass was asked for

    @property
    def converged(self) -> bool:
        return self.exact and self.settled


def kernel_pca_directions(moment: np.ndarray, n_components: int) -> np.ndarray:
    """The top eigenvectors of M, (q, n_components): kernel PCA's components in coordinates."""
    return top_eigh(moment, n_components)[1]


def alternate(problem: Problem, directions: np.ndarray, alphas: Sequence[float] | np.ndarray) -> Alternation:
    """One component after the other, each by up to `max_iter` passes of a-step and b-step.

    Parameters
    ----------
    problem : Problem
    directions : ndarray of shape (q, n_components)
        Where each u starts: `kernel_pca_directions(moment, n_components)`.
    alphas : sequence of n_components floats
        Absolute: `largest_alpha` of the quadratic at a direction makes its component zero.

    Examples
    --------
    >>> import numpy as np
    >>> G = np.random.default_rng(0).standard_normal((60, 5))
    >>> M = G.T @ G
    >>> found = alternate(Problem(G, M, l2=0.1, max_iter=20), kernel_pca_directions(M, 2), [5.0, 5.0])
    >>> found.coef.shape, found.converged, bool(np.all(np.diff(found.criterion) <= 0))
    ((60, 2), True, True)
    """
    directions = np.array(directions, dtype=np.float64)
    components = [problem.component(directions, k, float(alpha)) for k, alpha in enumerate(alphas)]
    last = [component.results[-1] for component in components]
    return Alternation(
        np.stack([result.coef for result in last], axis=1),
        directions,
        _summed([component.objective for component in components]),
        _summed([component.criterion for component in components]),
        np.array([result.gap / result.objective for result in last]),
        max(len(component.objective) for component in components),
        all(component.exact for component in components),
        all(component.settled for component in components),
    )


class Passes:
    """What the passes so far have reached."""

    results: Sequence[LassoResult]  # of the a-steps of the last pass

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.trace = float(np.trace(problem.moment))
        self.objective: list[float] = []
        self.criterion: list[float] = []
        self.exact = True
        self.settled = True

    def add(self, results: Sequence[LassoResult], target_square: float) -> None:
        """A pass of one or several a-steps; `target_square` is u'M u summed over them."""
        self.results = results
        self.objective.append(sum(result.objective for result in results))
        self.criterion.append(self.objective[-1] + (self.trace - target_square) / 2)
        self.exact &= all(result.converged for result in results)

    def reached(self, coef: np.ndarray, directions: np.ndarray) -> Alternation:
        """These components, as all passes together have made them."""
        return Alternation(
            coef,
            directions,
            np.array(self.objective),
            np.array(self.criterion),
            np.array([result.gap / result.objective for result in self.results]),
            len(self.objective),
            self.exact,
            self.settled,
        )

    def more(self) -> bool:
        """Whether another pass is due; notes whether the passes settled."""
        if len(self.criterion) > 1:
            fall = self.criterion[-2] - self.criterion[-1]
            self.settled = fall <= self.problem.settled * self.criterion[-2]
            return not self.settled and len(self.criterion) < self.problem.max_iter
        return len(self.criterion) < self.problem.max_iter


def _b_step(image: np.ndarray, directions: np.ndarray, k: int) -> np.ndarray:
    """M G'a made orthogonal to the earlier directions and of unit length; the old one where nothing is left."""
    earlier = directions[:, :k]
    rest = image - earlier @ (earlier.T @ image)
    rest -= earlier @ (earlier.T @ rest)
    length = np.linalg.norm(rest)
    return rest / length if length > 0 else directions[:, k]


def _summed(histories: list[list[float]]) -> np.ndarray:
    """Sum over components, pass by pass; a component that has ended keeps its last value."""
    n_passes = max(len(history) for history in histories)
    return np.array([sum(history[min(i, len(history) - 1)] for history in histories) for i in range(n_passes)])
