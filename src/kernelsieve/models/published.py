"""Published methods: components over rows that a published rule chooses, or over a dictionary.

    DissimilarityKernelPCA    ESKPCA, whose nodes are far from each other, as printed in Xu et al. (2011)
    ImprovedKernelPCA         IKPCA (Xu et al. 2007), whose nodes give the largest eigenvalues, as in Xu et al. (2011)
    KernelFeatureAnalysis     SKFA and AKFA, which make one feature from each chosen row

The components of a published method need be neither of unit length nor orthogonal in feature space.  So the captured
variance of a component is what it adds to the components before it.  Xu et al. choose nodes S among the rows.  With
K' = k(S, X), their components v = sum_i g_i phi(s_i) solve

    ESKPCA       K' K'^T g = lambda g                     |g| = 1           ("coefficients")
    IKPCA        K' K'^T g = lambda (K_SS + ridge I) g    |v| = 1           ("feature")

and the features of a row x are g'k(S, x)/sqrt(lambda).
"""

from __future__ import annotations

from abc import abstractmethod
from math import ceil
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from ..arrays import cholesky, solve_lower, to_numpy, top_eigh
from ..errors import TooFewPoints, TooManyComponents
from ..fit.parameters import SHARE, BlockParameters, at_least, estimator, more_than, one_of, parameter
from ..fit.problem import Problem
from ..fit.span import Components, PointSpan, Span, quadratic_forms
from ..numerics import FEW_ROUNDINGS
from ..rows.checks import finite
from ..rows.rows import ArrayRows, Rows
from ..rules.base import Choice, KernelGram
from ..rules.distances import dissimilar_nodes
from ..rules.registry import IMPROVED_RIDGE, gain
from ..search.chooser import dictionary
from ..spectrum.top import component_signs
from ..spectrum.whitening import DROPPED_WITH_NEGATIVE, check_kernel_values
from .base import Found, KernelTransformer, Policy, RowRequest


def check_values(problem: Problem) -> None:
    """Raise if rows, or kernel values of the sample, are not finite; published rules do not check this."""
    if isinstance(problem.rows, ArrayRows):
        finite(problem.rows.X)
    check_kernel_values(problem.sample.evaluation.gram)


def gained(problem: Problem, n_nodes: int, n_samples: int | None, rule: str, **options: Any) -> Choice:
    """Nodes chosen by the rule `gain`, from `n_samples` rows if the user gives that number."""
    if n_samples is not None and not problem.sample.rows.whole and n_samples < n_nodes:
        raise ValueError(
            f"n_optimization_samples={n_samples} rows are too few to choose {n_nodes} nodes from: give at least as many"
        )
    check_values(problem)
    problem = problem.for_points(n_nodes, n_samples)
    return Choice(gain(problem.sample, n_nodes, problem.rng, **options), problem).noting(rule=rule)


def check_nodes(span: PointSpan, n_components: int) -> None:
    """Raise if there are fewer nodes than components."""
    if span.n_support < n_components:
        raise TooManyComponents(
            n_components,
            span.n_support,
            "needs as many nodes",
            f"these rows have {span.n_support} that are different to this kernel",
        )


def too_many(choice: Choice, n_components: int, why: str) -> ValueError:
    """The error for more components than directions; it says so if an indefinite kernel has lost its negative part."""
    if choice.problem.sample.indefiniteness:
        return TooManyComponents(n_components, None, "is too many", DROPPED_WITH_NEGATIVE)
    return TooManyComponents(n_components, None, "is more than the rank allows", why)


def found_on_nodes(choice: Choice, span: PointSpan, coef: np.ndarray, eigenvalues: np.ndarray) -> Found:
    """The result of a fit whose components have these coefficients over the nodes."""
    # Components of tiny variance are refused only under an indefinite kernel, because the publications refuse none.
    floor = choice.problem.sample.indefiniteness
    n_real = int(np.sum(eigenvalues > floor * eigenvalues.max())) if floor else len(eigenvalues)
    if n_real < len(eigenvalues):
        why = f"on these rows and {span.n_support} nodes the kernel has {n_real} directions of variance"
        raise too_many(choice, len(eigenvalues), f"{why} that are not rounding")
    coef = coef * component_signs(coef)
    variances, history = span.variances(coef), choice.history
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
    """Parameters and eigenproblem of the two methods of Xu et al., a mixin for KernelTransformer."""

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
        """The leading eigenvalues (M,), in descending order, and the coefficients (m, M) of their components."""


@estimator
class OnDictionary(BlockParameters):
    """Methods whose support is a subset of candidate rows, the dictionary; a mixin for KernelTransformer."""

    _policy: ClassVar[Policy] = Policy(needs_variance=True)

    n_dictionary: int | None = parameter(None, at_least(1), None)

    def _request(self: Any, rows: Rows) -> RowRequest:
        return RowRequest(self._plan.rows_for_dictionary(self.n_dictionary), self.n_components)

    def _points(self, problem: Problem) -> Choice:
        return Choice(dictionary(problem, self.n_dictionary), problem)

    def _path_span(self: Any, X: Any, sample_weight: Any) -> tuple[Choice, Span]:
        """The dictionary and its span, for functions that follow a path of penalties."""
        choice = self._points(self._problem(X, sample_weight))
        return choice, self._span(choice)


@estimator
class KernelFeatureAnalysis(BlockParameters, KernelTransformer):
    """Sparse kernel feature analysis: one feature from each chosen row (Smola et al. 1999, Jiang et al. 2006).

    Each step chooses a row and makes a component from the part of it that earlier rows do not explain.  With R the
    kernel of the unexplained parts, it chooses the row with the largest

        |R_.i|^2 / R_ii   (accelerated: the exact fall of tr R)      or      |R_.i|^2   (as first published)

    and its component is the normalised residual v_k = sum_j A_jk phi(s_j), where A = L^-T is upper triangular and
    K_SS = L L'.  The components are orthonormal, feature k takes k kernel values, and a model with fewer features has
    the first features of a larger one.

    Cost: for n sampled rows, of which r are evaluation rows (all of up to 2000, otherwise max(1000, 4 M)), the choice
    of rows takes n r kernel values and O(n M (r + M)) time; the procedure of the paper takes O(n^2 M).  Then one pass
    over all rows takes N M kernel values.

    Parameters
    ----------
    n_components : int, default=2
        Number of features M, which is also the number of support points.
    accelerated : bool, default=True
        True for the criterion of AKFA, False for that of SKFA.
    n_candidates : int or None, default=None
        Number of random rows compared in each step; None for all rows.
    kernel, gamma, degree, coef0, kernel_params
        As in SparseKernelPCA.
    center : bool, default=False
        Subtract the mean of the features over the training rows.  This does not change the choice of rows.
    n_optimization_samples : int, optional
        Number of sampled rows to choose from; by default max(5000, 54 M).
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Threads for passes over the rows, as in SparseKernelPCA.
    batch_size, device, verbose
        As in SparseKernelPCA.

    Attributes
    ----------
    support_ : ndarray of shape (M,)
        Row numbers of the support points, in the order in which they were chosen.
    eigenvalues_ : ndarray of shape (M,)
        Sum of squares of each feature over the training rows (about its mean, if centred).  Without centring, this is
        the amount by which the row lowered tr R.
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
    """Whether a row lies in the span of earlier ones up to rounding, so that its component would be noise."""
    pivots = np.diagonal(factor) ** 2
    return bool(np.any(pivots <= tolerance * np.sum(factor**2, axis=1)))


@estimator
class ImprovedKernelPCA(NodeParameters, BlockParameters, KernelTransformer):
    """IKPCA: kernel PCA on nodes that give the largest eigenvalues (Xu et al. 2007), as used in Xu et al. (2011).

    Each step adds the row that most raises the sum of the eigenvalues of

        K' K'^T g = lambda (K_SS + ridge I) g,    K' = k(S, X),        feature  g'k(S, x)/sqrt(lambda)

    With the residual kernel R = K - K_NS (K_SS + ridge I)^-1 K_SN, this is the row with the largest
    |R_.i|^2 / (R_ii + ridge), which takes O(N) time per candidate and step; the procedure of the paper takes O(s^2 N).

    Cost: for n sampled rows, of which r are evaluation rows (all of up to 2000, otherwise max(1000, 4 s)), the choice
    of nodes takes n r kernel values and O(n s (r + s)) time.  The eigenproblem takes N s kernel values and O(N s^2)
    time; a transform takes O(s (d + M)) time per row.

    Parameters
    ----------
    n_components : int, default=2
        Number of components M.
    n_nodes : int or float, default=50
        Number of nodes s, or this number as a fraction of the rows.  There are fewer nodes if fewer rows are different.
    ridge : float, default=1e-3
        Added to the diagonal of K_SS, both in the choice of nodes and in the eigenproblem.
    normalize : {"feature", "coefficients", "generalized"}, default="feature"
        "feature": components of unit length, |v| = 1.  "coefficients": coefficients of unit length, |g| = 1.
        "generalized": g'(K_SS + ridge I) g = 1, as solvers of the generalised eigenproblem scale their vectors.
    whiten : bool, default=True
        Divide each feature by the square root of its eigenvalue.
    kernel, gamma, degree, coef0, kernel_params
        As in SparseKernelPCA.
    center : bool, default=False
        Centre the features in the eigenproblem.  The published method does not.
    n_optimization_samples : int, optional
        Number of sampled rows to choose nodes from; by default max(5000, 54 s).
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Threads for passes over the rows, as in SparseKernelPCA.
    batch_size, device, verbose
        As in SparseKernelPCA.

    Attributes
    ----------
    support_ : ndarray of shape (s,)
        Row numbers of the nodes, in the order in which they were chosen.
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
        # With g = W a, the matrices of the two sides become weight C and I + ridge W'W. They are small and well scaled
        # even if the gram of the nodes is singular.
        whitening = span.whitening
        with np.errstate(over="ignore", invalid="ignore"):
            right = np.eye(whitening.shape[1]) + self.ridge * whitening.T @ whitening
        if not np.all(np.isfinite(right)):
            raise ValueError(f"ridge={self.ridge!r} is too large to compute with")
        values, vectors = scipy.linalg.eigh(span.moment, right, check_finite=False)
        values, coef = values[::-1][: self.n_components], whitening @ vectors[:, ::-1][:, : self.n_components]
        if self.normalize == "generalized":
            return values, coef  # eigh makes a'(I + ridge W'W) a = 1, and this is g'(K_SS + ridge I) g
        if self.normalize == "coefficients":
            return values, coef / np.linalg.norm(coef, axis=0)
        return values, coef / np.sqrt(quadratic_forms(to_numpy(span.point_gram), coef))


@estimator
class DissimilarityKernelPCA(NodeParameters, KernelTransformer):
    """ESKPCA: kernel PCA on nodes that are far from each other (Xu et al. 2011), as published.

    The first node is the mean of the rows.  Each further node is the row with the largest sum of squared feature-space
    distances to the nodes so far, except copies of a node.  The components v = sum_i g_i phi(s_i) maximise the mean
    square of their values g'k(S, x) over all g of unit length:

        K' K'^T g = lambda g,    K' = k(S, X),        feature  g'k(S, x)/sqrt(lambda)

    Cost: for N rows and s nodes, choosing the nodes takes N s kernel values and O(N s) time, the eigenproblem as many
    kernel values and O(N s^2) time, and both O(N) memory.  A transform takes O(s (d + M)) time per row.
    `captured_ratio_` takes n^2 further kernel values, where n is the number of rows up to 2000, and max(1000, 4 s) for
    more rows.

    No rule that compares all rows is cheaper.  But this rule chooses outliers: with as many points, nearly every other
    choice of rows captures more variance (see `captured_ratio_`).  Use `SparseKernelPCA` unless you need this method
    itself.

    Parameters
    ----------
    n_components : int, default=2
        Number of components M.
    n_nodes : int or float, default=50
        Number of nodes s, including the mean, or this number as a fraction of the rows.  There are fewer nodes if fewer
        rows are different.
    first : {"mean", "row"}, default="mean"
        The first node: the mean of the rows, or the row nearest to the mean, which the paper recommends if the mean
        lies outside the data.  With a precomputed kernel, which has no mean of rows, it is always the row nearest to
        the mean in feature space.
    normalize : {"coefficients", "feature"}, default="coefficients"
        "coefficients": coefficients of unit length, |g| = 1, as published.  "feature": orthogonal components of unit
        length, |v| = 1, which are the best components in the span of the nodes.
    whiten : bool, default=True
        Divide each feature by the square root of its eigenvalue, as published.
    kernel, gamma, degree, coef0, kernel_params
        As in SparseKernelPCA.
    center : bool, default=False
        Centre the features.  The published method does not.
    random_state : int, RandomState or None, default=None
        Seed of the sample that determines gamma="median", and of the sample on which `captured_ratio_` is measured.
    n_jobs : int or None, default=None
        Threads for passes over the rows, as in SparseKernelPCA.

    Attributes
    ----------
    nodes_ : ndarray of shape (s,)
        Row numbers of the nodes, in the order in which they were chosen; -1 for the mean.
    support_ : ndarray of shape (s,) or None
        Row numbers of the nodes if all of them are rows, otherwise None.
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
