"""Kernel PCA on nodes, as Xu et al. print it: DissimilarityKernelPCA (ESKPCA) and ImprovedKernelPCA (IKPCA).

Nodes S are chosen among the rows, K' = k(S, X), and components v = sum_i g_i phi(s_i) come from

    ESKPCA       K' K'^T g = lambda g                     |g| = 1           ("coefficients")
    IKPCA        K' K'^T g = lambda (K_SS + ridge I) g    |v| = 1           ("feature")

with features g'k(S, x)/sqrt(lambda).
"""

from __future__ import annotations

from abc import abstractmethod
from math import ceil
from numbers import Integral
from typing import Any

import numpy as np
import scipy.linalg

from ..arrays import to_numpy, top_eigh
from ..errors import TooFewPoints
from ..fit.estimator import SHARE, BlockParameters, at_least, estimator, more_than, one_of, parameter
from ..fit.problem import Problem
from ..fit.sample import default_sample_size
from ..fit.span import PointSpan, Span, quadratic_forms
from ..rows import Rows
from ..rows.memory import ArrayRows
from ..selection.base import Choice
from ..selection.distances import dissimilar_nodes
from ..selection.gram import KernelGram
from ..selection.rules import IMPROVED_RIDGE
from .base import Found, KernelTransformer
from .over_nodes import AsPublished, check_nodes, found_on_nodes, gained, too_many

# Eigenvalues below this share of the largest are rounding: the nodes have no such component.
NO_EIGENVALUE = 1e-14


@estimator
class NodeParameters(AsPublished):
    """Parameters and the eigenproblem that both of Xu's methods have; every `self` here is a KernelTransformer."""

    n_nodes: int | float = parameter(50, at_least(1), SHARE)
    whiten: bool = parameter(True, "boolean")
    center: bool = parameter(False, "boolean")

    def _n_nodes(self: Any, n_samples: int) -> int:
        asked: Any = self.n_nodes
        wanted = int(asked) if isinstance(asked, Integral) else ceil(asked * n_samples)
        if wanted < self.n_components:
            raise TooFewPoints(
                "n_nodes",
                self.n_nodes,
                f"({wanted} nodes) is too few for n_components={self.n_components}",
                f"give at least {self.n_components}",
            )
        return wanted

    def _components(self: Any, choice: Choice, span: Span) -> Found:
        assert isinstance(span, PointSpan)
        check_nodes(span, self.n_components)
        eigenvalues, coef = self._eigenproblem(span)
        n_real = int(np.sum(eigenvalues > NO_EIGENVALUE * eigenvalues[0]))
        if n_real < self.n_components:
            why = f"on these rows and {span.n_support} nodes the eigenproblem has {n_real} eigenvalues above rounding"
            raise too_many(choice, self.n_components, why)
        return found_on_nodes(choice, span, coef / np.sqrt(eigenvalues) if self.whiten else coef, eigenvalues)

    @abstractmethod
    def _eigenproblem(self, span: PointSpan) -> tuple[np.ndarray, np.ndarray]:
        """The leading eigenvalues (M,), descending, and their coefficients (m, M)."""


@estimator
class DissimilarityKernelPCA(NodeParameters, KernelTransformer):
    """ESKPCA: kernel PCA on nodes that are far from each other (Xu et al. 2011), as published.

    The first node is the mean of the rows; then, again and again, comes the row with the largest sum of squared
    feature-space distances to the nodes there are, copies of a node left out.  The components v = sum_i g_i phi(s_i)
    maximise the mean square of their values g'k(S, x) over all g of unit length:

        K' K'^T g = lambda g,    K' = k(S, X),        feature  g'k(S, x)/sqrt(lambda)

    With N rows and s nodes it costs N s kernel values to choose the nodes and as many for the eigenproblem, O(N s) time
    and then O(N s^2), O(N) memory; s (d + M) a row to transform.  `captured_ratio_` takes n^2 more, n all rows of up to
    2000 and else max(1000, 4 s).  No cheaper rule looks at all rows.  But the rule
    seeks outliers: at equal s nearly every other choice of rows captures more variance (`captured_ratio_`), and
    `SparseKernelPCA` is what to use unless this very method is wanted.

    Parameters
    ----------
    n_components : int, default=2
        Number of components M.
    n_nodes : int or float, default=50
        Nodes s, the mean among them, or their number as a fraction of the rows; fewer where fewer rows are different.
    first : {"mean", "row"}, default="mean"
        The first node: the mean of the rows, or the row nearest to it, which the paper recommends where the mean lies
        outside the data.  A precomputed kernel has no mean of rows: there it is the row nearest to the mean in feature
        space.
    normalize : {"coefficients", "feature"}, default="coefficients"
        |g| = 1 as published; or unit components, |v| = 1, orthogonal to each other: then they are the best there are
        in the span of the nodes.
    whiten : bool, default=True
        Divide features by the square root of their eigenvalue, as published.
    kernel, gamma, degree, coef0, kernel_params
        As in SparseKernelPCA.
    center : bool, default=False
        Centre the features.  The published method does not.
    random_state : int, RandomState or None, default=None
        For what is sampled: gamma="median", and the rows on which `captured_ratio_` is measured.
    n_jobs : int or None, default=None
        Threads for passes over the rows, as in SparseKernelPCA.

    Attributes
    ----------
    nodes_ : ndarray of shape (s,)
        Row numbers of the nodes in the order of choice; -1 for the mean.
    support_ : ndarray of shape (s,) or None
        The same where all nodes are rows, else None.
    eigenvalues_ : ndarray of shape (M,)
        Lambda of the eigenproblem above.
    explained_variance_ : ndarray of shape (M,)
        Mean square (variance when centred) of the scores on the training rows.
    explained_variance_ratio_ : ndarray of shape (M,)
        Share of the total feature-space mean square (variance) that each component adds to those before it.
    expansion_, support_vectors_, n_support_, dual_coef_, offset_, gamma_, captured_ratio_, captured_ratio_kind_,
    captured_ratio_n_samples_, selection_report_, n_samples_seen_
        As in SparseKernelPCA.

    References
    ----------
    Xu, Zhang, Yang, Jin & Yang (2011), Evaluate dissimilarity of samples in feature space for improving KPCA.
    International Journal of Information Technology & Decision Making 10(3).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernelsieve import DissimilarityKernelPCA
    >>> X = load_iris().data
    >>> model = DissimilarityKernelPCA(n_components=3, n_nodes=20).fit(X)
    >>> model.transform(X).shape
    (150, 3)
    >>> int(model.nodes_[0]), model.n_support_
    (-1, 20)
    """

    _file_layout = {"nodes_": "int[*] optional"}

    first: str = parameter("mean", one_of("mean", "row"))
    normalize: str = parameter("coefficients", one_of("coefficients", "feature"))

    def _sample_size(self, rows: Rows) -> int:
        if not isinstance(rows, ArrayRows):
            raise TypeError(
                "DissimilarityKernelPCA looks at all rows for every node, so they must be in memory: give one array, "
                "or use SparseKernelPCA(selection='dissimilar'), which looks at a sample"
            )
        return default_sample_size(min(self._n_nodes(rows.n_samples), rows.n_samples))

    def _points(self, problem: Problem) -> Choice:
        rows = problem.rows
        assert isinstance(rows, ArrayRows)
        n_nodes = self._n_nodes(rows.n_samples)
        gram = KernelGram(problem.kernel, rows.X, problem.sample.n_threads)
        nodes = dissimilar_nodes(gram, n_nodes, rows.weights, mean=self.first == "mean")
        self.nodes_ = nodes.history.pop("nodes")
        return Choice(nodes, problem.for_points(n_nodes))

    def _eigenproblem(self, span: PointSpan) -> tuple[np.ndarray, np.ndarray]:
        if self.normalize == "coefficients":
            products = span.coordinates @ span.moment @ span.coordinates.T  # K' K'^T
            return top_eigh(products, self.n_components)
        values, vectors = top_eigh(span.moment, self.n_components)
        return values, span.whitening @ vectors


@estimator
class ImprovedKernelPCA(NodeParameters, BlockParameters, KernelTransformer):
    """IKPCA: kernel PCA on nodes whose eigenvalues are largest (Xu et al. 2007), as Xu et al. (2011) run it.

    Again and again the row comes that most raises the sum of the eigenvalues of

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
    normalize : {"feature", "coefficients"}, default="feature"
        Unit components, |v| = 1, or unit coefficients, |g| = 1.
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
    normalize: str = parameter("feature", one_of("coefficients", "feature"))
    n_optimization_samples: int | None = parameter(None, at_least(2), None)

    def _sample_size(self, rows: Rows) -> int:
        n_nodes = self._n_nodes(rows.n_samples)
        return self.n_optimization_samples or default_sample_size(min(n_nodes, rows.n_samples))

    def _points(self, problem: Problem) -> Choice:
        n_nodes = self._n_nodes(problem.rows.n_samples)
        return gained(problem, n_nodes, self.n_optimization_samples, "improved", ridge=self.ridge)

    def _eigenproblem(self, span: PointSpan) -> tuple[np.ndarray, np.ndarray]:
        # for g = W a the two sides are weight C and I + ridge W'W, small and well scaled, whatever the nodes' rank
        whitening = span.whitening
        right = np.eye(whitening.shape[1]) + self.ridge * whitening.T @ whitening
        values, vectors = scipy.linalg.eigh(span.moment, right, check_finite=False)
        values, coef = values[::-1][: self.n_components], whitening @ vectors[:, ::-1][:, : self.n_components]
        if self.normalize == "coefficients":
            return values, coef / np.linalg.norm(coef, axis=0)
        return values, coef / np.sqrt(quadratic_forms(to_numpy(span.point_gram), coef))
