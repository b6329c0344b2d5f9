"""What estimators share that choose rows by a published rule and give components over them.

All of a fit follows from whitened moments over the chosen rows S, one pass over all rows: k(S, x) = B f(x), B = K_SS W.
The components of a published method need be neither of unit length nor orthogonal in feature space: what each captures
is what it adds to those before it (by QR of B'A).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import _fit_context

from ..arrays import Array
from ..fit.expansion import KernelExpansion, component_signs
from ..fit.moments import check_kernel_values, gram_of, whiten
from ..fit.sample import Sample, default_reference_rows, default_sample_size, sample_rows
from ..kernels import Kernel
from ..rows.blocks import finite
from ..rows.memory import ArraySource
from ..selection.base import Selection
from ..selection.choose import points_for
from ..threads import one_blas_thread
from .base import KernelTransformer
from .progress import Stages

# A component with less than this share of its length outside those before it is a combination of them.
DEPENDENT = 1e-8


@dataclass(frozen=True)
class Problem:
    """Training rows under a kernel."""

    source: ArraySource
    kernel: Kernel
    gamma: float
    sample: Sample
    rng: np.random.Generator


@dataclass(frozen=True)
class Span:
    """The nodes' span, and the training rows' second moments in it."""

    kernel: Kernel
    points: Array  # (m, d)
    gram: np.ndarray  # (m, m), K_SS
    whitening: np.ndarray  # (m, q)
    mean: np.ndarray  # (q,)
    covariance: np.ndarray  # (q, q) of whitened features; second moment when not centred
    weight: float
    total_variance: float

    @property
    def coordinates(self) -> np.ndarray:
        """B, (m, q): k(S, x) = B f(x)."""
        return self.gram @ self.whitening

    @property
    def products(self) -> np.ndarray:
        """K' K'^T, (m, m); of centred kernel values where the features are."""
        return self.weight * self.coordinates @ self.covariance @ self.coordinates.T


class NodeTransformer(KernelTransformer):
    """What estimators share whose components are given over chosen rows and need not be orthonormal."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the nodes and find the components on them.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows; the square gram for a precomputed kernel.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight 2 counts as two rows, one of weight 0 not at all.

        Returns
        -------
        self
        """
        with self._unchanged_on_failure():
            stages = Stages(self, 3, X, y)
            with stages.stage("choose nodes"), one_blas_thread():
                problem = self._problem(X, sample_weight)
                nodes = self._choose(problem)
                self._check_enough(nodes)
            with stages.stage("components"), one_blas_thread():
                span = self._span(problem, nodes)
                coef, eigenvalues = self._components(span)
            with stages.stage("report"), one_blas_thread():
                self._store(problem, nodes, span, coef, eigenvalues)
            stages.finish(X, y)
        return self

    @abstractmethod
    def _n_nodes(self, n_samples: int) -> int:
        """Nodes wanted."""

    @abstractmethod
    def _choose(self, problem: Problem) -> Selection:
        """The nodes."""

    @abstractmethod
    def _components(self, span: Span) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (m, M) and eigenvalues (M,) of the components."""

    def _sample_size(self, n_nodes: int) -> int:
        return default_sample_size(n_nodes)

    def _problem(self, X: Any, sample_weight: Any) -> Problem:
        X, weights = self._validate(X, sample_weight)
        finite(X)
        n_nodes, rng = self._n_nodes(X.shape[0]), self._rng()
        size = self._sample_size(min(n_nodes, X.shape[0]))
        rows = sample_rows(X, size, rng, weights, merge=self.kernel != "precomputed")
        if not rows.whole and size < n_nodes:
            raise ValueError(
                f"n_optimization_samples={size} rows are too few to choose {n_nodes} nodes from: give at least as many"
            )
        kernel, gamma = self._kernel_on(rows)
        reference = default_reference_rows(n_nodes)
        sample = Sample(rows, kernel, self.n_components, self.center, self._n_threads(), reference)
        check_kernel_values(sample.gram)
        return Problem(ArraySource(X, weights), kernel, gamma, sample, rng)

    def _check_enough(self, nodes: Selection) -> None:
        if nodes.n_support < self.n_components:
            raise ValueError(
                f"n_components={self.n_components} needs as many nodes: these rows have {nodes.n_support} that are "
                "different to this kernel"
            )

    def _span(self, problem: Problem, nodes: Selection) -> Span:
        points = points_for(nodes, problem.source.X)
        gram = gram_of(nodes.kernel, points)
        whitening = whiten(gram, max(problem.source.rank_tolerance, problem.sample.indefiniteness))
        moments = problem.source.moments(nodes.kernel, points, whitening.matrix, problem.sample.n_threads)
        self._warn_if_indefinite(max(whitening.negative_share, problem.sample.indefiniteness))
        covariance = moments.covariance(self.center)
        total = max(moments.total_variance(self.center), float(np.trace(covariance)))
        return Span(nodes.kernel, points, gram, whitening.matrix, moments.mean, covariance, moments.weight, total)

    def _store(self, problem: Problem, nodes: Selection, span: Span, coef: np.ndarray, eigenvalues: np.ndarray) -> None:
        coef = coef * component_signs(coef)
        offset, mean_coef = np.zeros(self.n_components), None
        if self.center:
            offset, mean_coef = span.coordinates @ span.mean @ coef, span.whitening @ span.mean
        inside = span.coordinates.T @ coef  # the components in the whitened coordinates
        self.expansion_ = KernelExpansion(span.kernel, span.points, coef, offset, mean_coef, orthogonal=False)
        self.support_ = nodes.indices
        self.eigenvalues_ = eigenvalues
        self.explained_variance_ = quadratic_forms(span.covariance, inside)
        captured = quadratic_forms(span.covariance, orthonormal_in_order(inside))
        self.explained_variance_ratio_ = captured / span.total_variance
        self.selection_report_ = dict(nodes.history)
        self.gamma_ = problem.gamma
        self.n_samples_seen_ = problem.source.n_samples
        self._store_captured_ratio(problem.sample)


def quadratic_forms(matrix: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """v'Mv for every column v."""
    return np.sum(vectors * (matrix @ vectors), axis=0)


def orthonormal_in_order(inside: np.ndarray) -> np.ndarray:
    """Q of inside = Q R; a column that depends on those before it is zero in Q."""
    basis, mixing = np.linalg.qr(inside)
    missing = inside.shape[1] - basis.shape[1]
    if missing:
        basis, mixing = np.pad(basis, ((0, 0), (0, missing))), np.pad(mixing, ((0, missing), (0, 0)))
    dependent = np.abs(np.diagonal(mixing)) <= DEPENDENT * np.linalg.norm(inside, axis=0)
    basis[:, dependent] = 0.0
    return basis
