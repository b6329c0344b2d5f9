"""KernelFeatureAnalysis: one row, one feature (SKFA and AKFA)."""

from __future__ import annotations

import numpy as np

from ..arrays import cholesky, solve_lower, to_numpy
from ..fit.parameters import BlockParameters, at_least, estimator, parameter
from ..fit.problem import Problem
from ..fit.span import PointSpan, Span
from ..rows import Rows
from ..rules.base import Choice
from .base import Found, KernelTransformer, Policy, RowRequest
from .published import check_nodes, found_on_nodes, gained, too_many


@estimator
class KernelFeatureAnalysis(BlockParameters, KernelTransformer):
    """Sparse kernel feature analysis: features from one row after another (Smola et al. 1999, Jiang et al. 2006).

    Each step takes a row and makes a component of the part of it that earlier rows do not explain.  With R the kernel
    of the unexplained parts, the row chosen is the one with the largest

        |R_.i|^2 / R_ii   (accelerated: the exact fall of tr R)      or      |R_.i|^2   (as first published)

    and its component is the normalised residual: v_k = sum_j A_jk phi(s_j), A = L^-T upper triangular for
    K_SS = L L'.  The components are orthonormal, feature k needs k kernel values, and the first of M features are
    those of a smaller model.

    Cost: for n rows looked at, of which r count (all of up to 2000, else max(1000, 4 M)), n r kernel values and
    O(n M (r + M)) time, where the paper's procedure takes O(n^2 M); then N M kernel values in one pass over all rows.

    Parameters
    ----------
    n_components : int, default=2
        Number of features M, and of rows they are made of.
    accelerated : bool, default=True
        AKFA's criterion; False for SKFA's.
    n_candidates : int or None, default=None
        Look at this many random rows a step, not at all of them.
    kernel, gamma, degree, coef0, kernel_params
        As in SparseKernelPCA.
    center : bool, default=False
        Subtract the features' mean over the training rows.  The choice of rows is the same.
    n_optimization_samples : int, optional
        Rows that the choice looks at; by default max(5000, 54 M).
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Threads for passes over the rows, as in SparseKernelPCA.
    batch_size, device, verbose
        As in SparseKernelPCA.

    Attributes
    ----------
    support_ : ndarray of shape (M,)
        Row numbers in the order of extraction.
    eigenvalues_ : ndarray of shape (M,)
        Sum of squares of each feature over the training rows (about their mean when centred): by how much its row
        lowered tr R.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (M,)
        Mean square (variance when centred) of the scores on the training rows, and its share of the total.
    expansion_, support_vectors_, n_support_, dual_coef_, offset_, gamma_, captured_ratio_, captured_ratio_kind_,
    captured_ratio_n_samples_, selection_report_, n_samples_seen_
        As in SparseKernelPCA.

    References
    ----------
    Smola, Mangasarian & Schoelkopf (1999), Sparse kernel feature analysis.
    Jiang, Motai, Snapp & Zhu (2006), Accelerated kernel feature analysis.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernelsieve import KernelFeatureAnalysis
    >>> X = load_iris().data
    >>> model = KernelFeatureAnalysis(n_components=5).fit(X)
    >>> model.transform(X).shape, model.n_support_
    ((150, 5), 5)
    """

    _policy = Policy(judges_kernel=False)

    accelerated: bool = parameter(True, "boolean")
    n_candidates: int | None = parameter(None, at_least(1), None)
    center: bool = parameter(False, "boolean")
    n_optimization_samples: int | None = parameter(None, at_least(2), None)

    def _request(self, rows: Rows) -> RowRequest:
        return RowRequest(self.n_optimization_samples or self._plan.sample_size(self.n_components), self.n_components)

    def _points(self, problem: Problem) -> Choice:
        return gained(
            problem,
            self.n_components,
            self.n_optimization_samples,
            rule="gain" if self.accelerated else "skfa",
            n_candidates=self.n_candidates,
            divided=self.accelerated,
        )

    def _components(self, choice: Choice, span: Span) -> Found:
        assert isinstance(span, PointSpan)
        check_nodes(span, self.n_components)
        factor = cholesky(to_numpy(span.point_gram))
        if factor is None or _dependent(factor, choice.problem.rank_tolerance):
            raise too_many(choice, self.n_components, "the rows taken are dependent on each other to this kernel")
        coef = solve_lower(factor, np.eye(len(factor)), transpose=True)
        return found_on_nodes(choice, span, coef, span.variances(coef) * span.weight)


def _dependent(factor: np.ndarray, tolerance: float) -> bool:
    """Whether a row lies in the span of earlier ones, to rounding: its component would be noise."""
    pivots = np.diagonal(factor) ** 2
    return bool(np.any(pivots <= tolerance * np.sum(factor**2, axis=1)))
