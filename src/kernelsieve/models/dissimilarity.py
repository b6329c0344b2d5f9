"""DissimilarityKernelPCA: ESKPCA, kernel PCA on nodes that are far from each other, as Xu et al. (2011) print it."""

from __future__ import annotations

import numpy as np

from ..arrays import top_eigh
from ..fit.parameters import estimator, one_of, parameter
from ..fit.problem import Problem
from ..fit.span import PointSpan
from ..rows import Rows
from ..rows.rows import ArrayRows
from ..rules.base import Choice, KernelGram
from ..rules.farthest import dissimilar_nodes
from .base import KernelTransformer, RowRequest
from .published import NodeParameters, check_values


@estimator
class DissimilarityKernelPCA(NodeParameters, KernelTransformer):
    """ESKPCA: kernel PCA on nodes that are far from each other (Xu et al. 2011), as published.

    The first node is the mean of the rows; each further node is the row with the largest sum of squared feature-space
    distances to the nodes so far, copies of a node left out.  The components v = sum_i g_i phi(s_i) maximise the mean
    square of their values g'k(S, x) over all g of unit length:

        K' K'^T g = lambda g,    K' = k(S, X),        feature  g'k(S, x)/sqrt(lambda)

    With N rows and s nodes it costs N s kernel values to choose the nodes and as many for the eigenproblem, O(N s)
    time and then O(N s^2), O(N) memory; s (d + M) a row to transform.  `captured_ratio_` takes n^2 more, where n is
    all rows up to 2000, otherwise max(1000, 4 s).  No rule that looks at all rows is cheaper.  But this one picks
    outliers: for the same s nearly every other choice of rows captures more variance (`captured_ratio_`), so use
    `SparseKernelPCA` unless you need this method itself.

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

    def _request(self, rows: Rows) -> RowRequest:
        if not isinstance(rows, ArrayRows):
            raise TypeError(
                "DissimilarityKernelPCA looks at all rows for every node, so they must be in memory: give one array, "
                "or use SparseKernelPCA(selection='dissimilar'), which looks at a sample"
            )
        n_nodes = min(self._n_nodes(rows.n_samples), rows.n_samples)
        return RowRequest(self._plan.sample_size(n_nodes), self.n_components)

    def _points(self, problem: Problem) -> Choice:
        check_values(problem)
        rows = problem.rows
        assert isinstance(rows, ArrayRows)
        n_nodes = self._n_nodes(rows.n_samples)
        gram = KernelGram(problem.kernel, rows.X, problem.sample.n_threads)
        nodes = dissimilar_nodes(gram, n_nodes, rows.weights, mean=self.first == "mean")
        return Choice(nodes, problem.for_points(n_nodes))

    def _eigenproblem(self, span: PointSpan) -> tuple[np.ndarray, np.ndarray]:
        if self.normalize == "coefficients":
            products = span.coordinates @ span.moment @ span.coordinates.T  # K' K'^T
            return top_eigh(products, self.n_components)
        values, vectors = top_eigh(span.moment, self.n_components)
        return values, span.whitening @ vectors
