"""KernelFeatureAnalysis: one row, one feature (SKFA and AKFA)."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval

from ..arrays import cholesky, solve_lower
from ..fit.sample import default_sample_size
from ..selection.base import Selection
from ..selection.rules import gain
from .base import KernelTransformer
from .node_base import NodeTransformer, Problem, Span, quadratic_forms


class KernelFeatureAnalysis(NodeTransformer):
    """Sparse kernel feature analysis: features from one row after another (Smola et al. 1999, Jiang et al. 2006).

    Each step takes a row and makes a component of what the rows before it do not explain of it.  With R the kernel of
    what is unexplained, it is the row with the largest

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
        Look at so many random rows a step, not at all.
    kernel, gamma, degree, coef0, kernel_params
        As in SparseKernelPCA.
    center : bool, default=False
        Subtract the features' mean over the training rows.  The choice of rows is the same.
    n_optimization_samples : int, optional
        Rows that the choice looks at; by default max(5000, 54 M).
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Threads for passes over the rows, as in SparseKernelPCA.

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

    _parameter_constraints: dict[str, Any] = {
        **KernelTransformer._parameter_constraints,
        "accelerated": ["boolean"],
        "n_candidates": [Interval(Integral, 1, None, closed="left"), None],
        "n_optimization_samples": [Interval(Integral, 2, None, closed="left"), None],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        accelerated: bool = True,
        n_candidates: int | None = None,
        kernel: Any = "rbf",
        gamma: float | str | None = "median",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        center: bool = False,
        n_optimization_samples: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.accelerated = accelerated
        self.n_candidates = n_candidates
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.center = center
        self.n_optimization_samples = n_optimization_samples
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _n_nodes(self, n_samples: int) -> int:
        return self.n_components

    def _sample_size(self, n_nodes: int) -> int:
        return self.n_optimization_samples or default_sample_size(n_nodes)

    def _choose(self, problem: Problem) -> Selection:
        selection = gain(
            problem.sample,
            self.n_components,
            problem.rng,
            n_candidates=self.n_candidates,
            divided=self.accelerated,
        )
        selection.history["rule"] = "gain" if self.accelerated else "skfa"
        return selection

    def _components(self, span: Span) -> tuple[np.ndarray, np.ndarray]:
        factor = cholesky(span.gram)
        if factor is None:
            raise ValueError(
                f"n_components={self.n_components} is more than the rank allows: the rows taken are dependent on each "
                "other to this kernel"
            )
        coef = solve_lower(factor, np.eye(len(factor)), transpose=True)
        return coef, quadratic_forms(span.products, coef)
