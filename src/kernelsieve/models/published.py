"""Published methods: components over rows that a published rule chooses, or over a dictionary.

    DissimilarityKernelPCA    ESKPCA: nodes far from each other, as Xu et al. (2011) print it
    ImprovedKernelPCA         IKPCA: nodes of largest eigenvalues (Xu et al. 2007), as Xu et al. (2011) run it
    KernelFeatureAnalysis     SKFA and AKFA: one row, one feature

The components of a published method need be neither of unit length nor orthogonal in feature space: the variance that
each captures is what it adds to those before it.  Xu et al. choose nodes S among the rows; with K' = k(S, X), their
components v = sum_i g_i phi(s_i) come from

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

from ..arrays import cholesky, solve_lower, to_numpy, top_eigh
from ..errors import TooFewPoints, TooManyComponents
from ..fit.parameters import SHARE, BlockParameters, at_least, estimator, more_than, one_of, parameter
from ..fit.problem import Problem, nothing_to_explain
from ..fit.span import Components, PointSpan, Span, quadratic_forms
from ..numerics import DEPENDENT, FEW_ROUNDINGS
from ..rows import Rows
from ..rows.checks import finite
from ..rows.rows import ArrayRows
from ..rules.base import Choice, KernelGram, Selection
from ..rules.distances import dissimilar_nodes
from ..rules.registry import IMPROVED_RIDGE, gain
from ..search.chooser import dictionary
from ..spectrum.top import component_signs
from ..spectrum.whitening import DROPPED_WITH_NEGATIVE, check_kernel_values
from .base import Found, KernelTransformer, Policy, RowRequest


def check_values(problem: Problem) -> None:
    """Refuse rows, or kernel values of the sample, that are not finite, because published rules do not check them."""
    if isinstance(problem.rows, ArrayRows):
        finite(problem.rows.X)
    check_kernel_values(problem.sample.evaluation.gram)


def gained(problem: Problem, n_nodes: int, n_samples: int | None, rule: str, **options: Any) -> Choice:
    """Nodes chosen by `gain`, among `n_samples` rows if the user gives that number."""
    if n_samples is not None and not problem.sample.rows.whole and n_samples < n_nodes:
        raise ValueError(
            f"n_optimization_samples={n_samples} rows are too few to choose {n_nodes} nodes from: give at least as many"
        )
    check_values(problem)
    problem = problem.for_points(n_nodes, n_samples)
    selection: Selection = gain(problem.sample, n_nodes, problem.rng, **options)
    selection.history["rule"] = rule
    return Choice(selection, problem)


def check_nodes(span: PointSpan, n_components: int) -> None:
    """Refuse more components than nodes."""
    if span.n_support < n_components:
        raise TooManyComponents(
            n_components,
            span.n_support,
            "needs as many nodes",
            f"these rows have {span.n_support} that are different to this kernel",
        )


def too_many(choice: Choice, n_components: int, why: str) -> ValueError:
    """The error for more components than directions, of which an indefinite kernel loses some with its
    negative part."""
    if choice.problem.sample.indefiniteness:
        return TooManyComponents(n_components, None, "is too many", DROPPED_WITH_NEGATIVE)
    return TooManyComponents(n_components, None, "is more than the rank allows", why)


def found_on_nodes(choice: Choice, span: PointSpan, coef: np.ndarray, eigenvalues: np.ndarray) -> Found:
    """Components with these coefficients over the nodes."""
    # only for an indefinite kernel are components refused, because the publications refuse none
    floor = choice.problem.sample.indefiniteness
    n_real = int(np.sum(eigenvalues > floor * eigenvalues.max())) if floor else len(eigenvalues)
    if n_real < len(eigenvalues):
        why = f"on these rows and {span.n_support} nodes the kernel has {n_real} directions of variance"
        raise too_many(choice, len(eigenvalues), f"{why} that are not rounding")
    coef = coef * component_signs(coef)
    variances, history = span.variances(coef), dict(choice.selection.history)
    nodes = {"nodes_": history.pop("nodes")} if "nodes" in history else {}
    return Found(
        span.expansion(Components(coef, variances), orthogonal=False),
        choice.selection.indices,
        variances,
        eigenvalues,
        captured=span.variances_in_order(coef),
        attributes={"selection_report_": history, **nodes},
    )


@estimator
class NodeParameters:
    """Parameters and the eigenproblem of both of Xu's methods; every `self` here is a KernelTransformer."""

    _policy = Policy(judges_kernel=False)

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
        n_real = int(np.sum(eigenvalues > FEW_ROUNDINGS * eigenvalues[0]))
        if n_real < self.n_components:
            why = f"on these rows and {span.n_support} nodes the eigenproblem has {n_real} eigenvalues above rounding"
            raise too_many(choice, self.n_components, why)
        return found_on_nodes(choice, span, coef / np.sqrt(eigenvalues) if self.whiten else coef, eigenvalues)

    @abstractmethod
    def _eigenproblem(self, span: PointSpan) -> tuple[np.ndarray, np.ndarray]:
        """The leading eigenvalues (M,), descending, and their coefficients (m, M)."""


@estimator
class OnDictionary(BlockParameters):
    """Support among all rows of small data, otherwise among `n_dictionary`; every `self` is a KernelTransformer."""

    n_dictionary: int | None = parameter(None, at_least(1), None)

    def _request(self: Any, rows: Rows) -> RowRequest:
        return RowRequest(self._plan.rows_for_dictionary(self.n_dictionary), self.n_components)

    def _points(self, problem: Problem) -> Choice:
        return Choice(dictionary(problem, self.n_dictionary), problem)

    def _span(self: Any, choice: Choice) -> Span:
        span: Span = super()._span(choice)  # type: ignore[misc]
        if not span.total_variance > DEPENDENT * span.mean_length:
            raise ValueError(nothing_to_explain(choice.problem.sample.evaluation))
        return span

    def _path_span(self: Any, X: Any, sample_weight: Any) -> tuple[Choice, Span]:
        """The rows to choose from and their span, for functions that follow a path of penalties."""
        choice = self._points(self._problem(X, sample_weight))
        return choice, self._span(choice)


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
