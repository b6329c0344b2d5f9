"""ImprovedKernelPCA: IKPCA, kernel PCA on nodes of largest eigenvalues (Xu et al. 2007), as Xu et al. (2011) run it."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from ..arrays import to_numpy
from ..fit.parameters import BlockParameters, at_least, estimator, more_than, one_of, parameter
from ..fit.problem import Problem
from ..fit.span import PointSpan, quadratic_forms
from ..rows import Rows
from ..rules.base import Choice
from ..rules.registry import IMPROVED_RIDGE
from .base import KernelTransformer, RowRequest
from .published import NodeParameters, gained


@estimator
class ImprovedKernelPCA(NodeParameters, BlockParameters, KernelTransformer):
    """IKPCA: kernel PCA on nodes whose eigenvalues are largest (Xu et al. 2007), as Xu et al. (2011) run it.

    Each step adds the row that most raises the sum of the eigenvalues of

        K' K'^T g = lambda (K_SS + ridge I) g,    K' = k(S, X),        feature  g'k(S, x)/sqrt(lambda)

    By the residual kernel R = K - K_NS (K_SS + ridge I)^-1 K_SN that is the row with the largest
    |R_.i|^2 / (R_ii + ridge), O(N) a candidate and step, where the paper's procedure takes O(s^2 N).

    Cost: for n rows looked at, of which r count (all of up to 2000, else max(1000, 4 s)), n r kernel values and
    O(n s (r + s)) time; then N s kernel values and O(N s^2) time for the eigenproblem; s (d + M) a row to transform.

    Parameters
    ----------
    n_components : int, default=2
        Number of components M.
    n_nodes : int or float, default=50
        Nodes s, or their number as a fraction of the rows; fewer where fewer rows are different.
    ridge : float, default=1e-3
        Added to the diagonal of K_SS, in the choice of nodes and in the eigenproblem.
    normalize : {"feature", "coefficients", "generalized"}, default="feature"
        Unit components, |v| = 1; unit coefficients, |g| = 1; or g'(K_SS + ridge I) g = 1, the length that a solver of
        the generalised eigenproblem gives its vectors.
    whiten : bool, default=True
        Divide features by the square root of their eigenvalue.
    kernel, gamma, degree, coef0, kernel_params
        As in SparseKernelPCA.
    center : bool, default=False
        Centre the features in the eigenproblem.  The published method does not.
    n_optimization_samples : int, optional
        Rows that the choice of nodes looks at; by default max(5000, 54 s).
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Threads for passes over the rows, as in SparseKernelPCA.
    batch_size, device, verbose
        As in SparseKernelPCA.

    Attributes
    ----------
    support_ : ndarray of shape (s,)
        Row numbers of the nodes in the order of choice.
    eigenvalues_ : ndarray of shape (M,)
        Lambda of the eigenproblem above.
    explained_variance_, explained_variance_ratio_
        As in DissimilarityKernelPCA.
    expansion_, support_vectors_, n_support_, dual_coef_, offset_, gamma_, captured_ratio_, captured_ratio_kind_,
    captured_ratio_n_samples_, selection_report_, n_samples_seen_
        As in SparseKernelPCA.

    References
    ----------
    Xu, Zhang, Song, Yang, Jing & Li (2007), A method for speeding up feature extraction based on KPCA.
    Neurocomputing 70.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernelsieve import ImprovedKernelPCA
    >>> X = load_iris().data
    >>> model = ImprovedKernelPCA(n_components=3, n_nodes=20).fit(X)
    >>> model.transform(X).shape
    (150, 3)
    """

    ridge: float = parameter(IMPROVED_RIDGE, more_than(0))
    normalize: str = parameter("feature", one_of("coefficients", "feature", "generalized"))
    n_optimization_samples: int | None = parameter(None, at_least(2), None)

    def _request(self, rows: Rows) -> RowRequest:
        n_nodes = min(self._n_nodes(rows.n_samples), rows.n_samples)
        return RowRequest(self.n_optimization_samples or self._plan.sample_size(n_nodes), self.n_components)

    def _points(self, problem: Problem) -> Choice:
        n_nodes = self._n_nodes(problem.rows.n_samples)
        return gained(problem, n_nodes, self.n_optimization_samples, "improved", ridge=self.ridge)

    def _eigenproblem(self, span: PointSpan) -> tuple[np.ndarray, np.ndarray]:
        # for g = W a the two sides are weight C and I + ridge W'W, small and well scaled, whatever the nodes' rank
        whitening = span.whitening
        right = np.eye(whitening.shape[1]) + self.ridge * whitening.T @ whitening
        values, vectors = scipy.linalg.eigh(span.moment, right, check_finite=False)
        values, coef = values[::-1][: self.n_components], whitening @ vectors[:, ::-1][:, : self.n_components]
        if self.normalize == "generalized":
            return values, coef  # eigh gives a'(I + ridge W'W) a = 1, which is g'(K_SS + ridge I) g
        if self.normalize == "coefficients":
            return values, coef / np.linalg.norm(coef, axis=0)
        return values, coef / np.sqrt(quadratic_forms(to_numpy(span.point_gram), coef))
