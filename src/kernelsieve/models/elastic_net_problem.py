"""The elastic net on the coefficients of kernel PCA, on the span of candidate rows (Wang & Tanaka 2016).

In the coordinates of the span, with K = G G', a component v = sum_i a_i phi(x_i) is G'a.  Given the directions u_k of
kernel PCA,

    min_a  1/2 sum_n w_n <phi(x_n), u_k - v>^2 + (l2/2) |v|^2 + alpha_k sum_i penalty_i |a_i|

is a lasso for each component; for components that share one support, it becomes a group lasso.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import TooManyComponents
from ..fit.rowset import INDEFINITE
from ..fit.span import Span
from ..solvers.alternation import (
    ImitationProblem,
    alternate,
    alternate_jointly,
    alternate_simultaneously,
    kernel_pca_directions,
)
from ..solvers.path import alpha_for_nonzeros
from ..solvers.quadratic import FactorQuadratic, elastic_net_quadratic, largest_alpha
from ..spectrum.top import component_signs
from ..spectrum.whitening import DROPPED_WITH_NEGATIVE, RANK_TOLERANCE

LARGEST_L2 = 1e100  # largest l2, relative to the largest scatter; products of larger numbers overflow


@dataclass(frozen=True)
class Start:
    """The components of kernel PCA in the coordinates of the span, and the problems of approximating them."""

    directions: np.ndarray  # (q, M)
    l2: float  # absolute weight of the l2 penalty
    quadratics: list[FactorQuadratic]
    joint_quadratic: FactorQuadratic
    penalty: np.ndarray | None = None  # (r,) factor of alpha for each candidate; infinity excludes it

    @property
    def alpha_max(self) -> np.ndarray:
        """(M,) smallest absolute alpha at which each component is zero."""
        return np.array([largest_alpha(quadratic, self.penalty) for quadratic in self.quadratics])

    @property
    def joint_alpha_max(self) -> float:
        """The smallest alpha that makes all components zero if they share one support."""
        return largest_alpha(self.joint_quadratic, self.penalty)


@dataclass(frozen=True)
class Solution:
    """Coefficients that a solver found, and whether it converged."""

    coef: np.ndarray  # (r, M), not of unit length
    alphas: np.ndarray  # (M,) absolute alphas
    objective: np.ndarray
    gap: np.ndarray  # (M,)
    n_iter: int
    problems: list[str]  # reasons why the solver has not converged; empty if it has
    centred_features: bool = False  # whether coef is over centred features; over the features, it is then H coef

    @property
    def row_coef(self) -> np.ndarray:
        """(r, M) coefficients over the features of the rows, which are not centred."""
        return self.coef - self.coef.mean(axis=0) if self.centred_features else self.coef


@dataclass(frozen=True)
class ElasticNet:
    """The objective and the algorithm, given by the parameters of ElasticNetKernelPCA of the same names."""

    n_components: int
    alpha: float | Sequence[float]
    l2: float
    alpha_scale: str
    n_nonzero: int | Sequence[int] | None
    sparsity: str
    mode: str
    max_iter: int
    tol: float

    @property
    def joint(self) -> bool:
        """Whether all components share one support."""
        return self.sparsity == "joint"

    def check(self) -> None:
        """Raise if parameters are incompatible."""
        sized = self.n_nonzero is not None
        self.per_component("alpha", self.alpha, float)
        if self.joint and not (np.isscalar(self.alpha) and (not sized or np.isscalar(self.n_nonzero))):
            raise ValueError("sparsity='joint' has one support for all components: give one alpha, or one n_nonzero")
        if sized and self.max_iter > 1:
            raise ValueError("n_nonzero is reached at kernel PCA's own components: give max_iter=1 with it, or alpha")

    def per_component(self, name: str, values: Any, kind: type) -> np.ndarray:
        """(M,) values, one for each component; raise unless all are positive."""
        array = np.asarray(values)
        if array.ndim > 1 or (array.ndim == 1 and len(array) != self.n_components):
            raise ValueError(
                f"{name} has shape {array.shape}: give one number, or {self.n_components}, one for each component"
            )
        if not np.issubdtype(array.dtype, np.number) or not np.all(array > 0) or not np.all(np.isfinite(array)):
            raise ValueError(f"{name} must be positive, got {values!r}")
        if kind is int and np.any(array != np.round(array)):
            raise ValueError(f"{name} must be whole numbers, got {values!r}")
        return np.full(self.n_components, array, dtype=kind)

    def start(self, span: Span, penalty: np.ndarray | None = None) -> Start:
        """The components of kernel PCA, which are the first M eigenvectors of the second moment, and their problems."""
        coordinates, moment = span.coordinates, span.moment
        directions = kernel_pca_directions(moment, min(self.n_components, len(moment)))
        scatter = np.einsum("ik,ik->k", directions, moment @ directions)
        n_real = int(np.sum(scatter > RANK_TOLERANCE * scatter[0]))
        if n_real < self.n_components:
            if span.negative_share > INDEFINITE:
                raise TooManyComponents(self.n_components, None, "is too many", DROPPED_WITH_NEGATIVE)
            raise TooManyComponents(
                self.n_components,
                n_real,
                f"is more than the rank of the kernel on these rows, {n_real}",
                "ask for fewer components",
            )
        l2 = self.l2 * float(scatter[0]) if self.alpha_scale == "relative" else self.l2
        if l2 > LARGEST_L2 * float(scatter[0]):
            raise ValueError(f"l2={self.l2:.3g} is too large to compute with: compared with it the rows vanish")
        quadratics = [elastic_net_quadratic(coordinates, moment, u, l2) for u in directions.T]
        joint_quadratic = elastic_net_quadratic(coordinates, moment, directions, l2)
        return Start(directions, l2, quadratics, joint_quadratic, penalty)

    def alphas(self, start: Start) -> np.ndarray:
        """(M,) absolute alphas."""
        alphas = self.per_component("alpha", self.alpha, float)
        return alphas * self.largest_alphas(start) if self.alpha_scale == "relative" else alphas

    def largest_alphas(self, start: Start) -> np.ndarray:
        """(M,) smallest absolute alpha at which each component is zero."""
        return np.full(self.n_components, start.joint_alpha_max if self.joint else start.alpha_max)

    def solve(self, span: Span, start: Start) -> Solution:
        """The minimiser, by the active-set method."""
        if self.n_nonzero is not None:
            return self._of_size(start)
        alphas = self.alphas(start)
        problem = ImitationProblem(span.coordinates, span.moment, start.l2, start.penalty, self.max_iter, self.tol)
        if self.joint:
            found = alternate_jointly(problem, start.directions, float(alphas[0]))
        else:
            passes = alternate if self.mode == "sequential" else alternate_simultaneously
            found = passes(problem, start.directions, alphas)
        problems = [] if found.exact else [self._inexact]
        if not found.passes_converged:
            problems.append(f"the components were still moving after max_iter={self.max_iter} passes")
        gap = np.broadcast_to(found.gap, alphas.shape).copy()
        return Solution(found.coef, alphas, found.objective, gap, found.n_iter, problems)

    @property
    def _inexact(self) -> str:
        return f"a duality gap of tol={self.tol} was not reached"

    def _of_size(self, start: Start) -> Solution:
        """The solution with the most nonzeros among those with at most `n_nonzero`.

        It is not computed again: another solution for the same alpha, equal up to `tol`, could have more nonzeros.
        """
        sizes = self.per_component("n_nonzero", self.n_nonzero, int)
        quadratics = [start.joint_quadratic] if self.joint else start.quadratics
        found = [
            alpha_for_nonzeros(q, int(n), weights=start.penalty, tol=self.tol)
            for q, n in zip(quadratics, sizes, strict=False)
        ]
        results = [solution.result for solution in found]
        return Solution(
            np.column_stack([result.coef for result in results]),
            np.full(self.n_components, [solution.alpha for solution in found]),
            np.array([sum(result.objective for result in results)]),
            np.full(self.n_components, [result.gap / result.objective for result in results]),
            1,
            [] if all(result.converged for result in results) else [self._inexact],
        )


def in_row_order(span: Span, coef: np.ndarray) -> np.ndarray:
    """Places of the candidates with a nonzero coefficient in any component, in the order of the rows."""
    assert span.indices is not None
    active = np.flatnonzero(coef.any(axis=1))
    return active[np.argsort(span.indices[active])]


def unit_components(span: Span, places: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """Coefficients over the rows at `places`, with each component scaled to unit length unless it is zero."""
    lengths = np.linalg.norm(span.directions(coef, places), axis=0)
    coef = coef / np.where(lengths > 0, lengths, 1.0)
    return coef * component_signs(coef)
