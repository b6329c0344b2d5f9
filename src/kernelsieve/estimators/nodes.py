"""Kernel PCA on nodes, as Xu et al. print it: DissimilarityKernelPCA (ESKPCA) and ImprovedKernelPCA (IKPCA).

Nodes S are chosen among the rows, K' = k(S, X), and components v = sum_i g_i phi(s_i) come from

    ESKPCA       K' K'^T g = lambda g                     |g| = 1           ("coefficients")
    IKPCA        K' K'^T g = lambda (K_SS + ridge I) g    |v| = 1           ("feature")

with features g'k(S, x)/sqrt(lambda).  All of it follows from whitened moments over the nodes, one pass over the rows:
k(S, x) = B f(x), B = K_SS W.  The components of ESKPCA are neither of unit length nor orthogonal in feature space, so
what they capture is measured on an orthonormal basis of their span, taken in their order (QR of B'G).
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import dataclass
from math import ceil
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import scipy.linalg
import scipy.sparse
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_array, check_is_fitted

from .._array import Array, like, top_eigh
from .._progress import Stages
from .._threads import one_blas_thread
from ..blocks import finite
from ..captured import captured_ratio
from ..expansion import KernelExpansion, component_signs
from ..kernels import Kernel, Precomputed
from ..moments import RANK_TOLERANCE, RANK_TOLERANCE_FLOAT32, accumulate, check_kernel_values, gram_of, whiten
from ..sample import Sample, default_reference_rows, default_sample_size, sample_rows
from ..selection.base import Selection
from ..selection.choose import points_for
from ..selection.distances import central_row, far_rows, mean_of
from ..selection.gram import KernelGram
from ..selection.rules import IMPROVED_RIDGE, gain
from .base import FLOATS, KernelTransformer

# Eigenvalues below this share of the largest are rounding: the nodes have no such component.
NO_EIGENVALUE = 1e-14
# A component with less than this share of its length outside those before it is a combination of them.
DEPENDENT = 1e-8


@dataclass(frozen=True)
class Problem:
    """Training rows under a kernel."""

    X: Array
    weights: np.ndarray | None
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
        kernel, gamma = self._kernel_on(rows)
        reference = default_reference_rows(n_nodes)
        sample = Sample(rows, kernel, self.n_components, self.center, self._n_threads(), reference)
        check_kernel_values(sample.gram)
        return Problem(X, weights, kernel, gamma, sample, rng)

    def _check_enough(self, nodes: Selection) -> None:
        if nodes.n_support < self.n_components:
            raise ValueError(
                f"n_components={self.n_components} needs as many nodes: these rows have {nodes.n_support} that are "
                "different to this kernel"
            )

    def _span(self, problem: Problem, nodes: Selection) -> Span:
        X, points = problem.X, points_for(nodes, problem.X)
        gram = gram_of(nodes.kernel, points)
        rounding = RANK_TOLERANCE_FLOAT32 if X.dtype == np.float32 else RANK_TOLERANCE
        whitening = whiten(gram, max(rounding, problem.sample.indefiniteness))
        moments = accumulate(
            nodes.kernel,
            points,
            whitening.matrix,
            X,
            sample_weight=problem.weights,
            diagonal=X.diagonal() if isinstance(nodes.kernel, Precomputed) else None,
            n_threads=problem.sample.n_threads,
        )
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
        basis, mixing = _orthonormal_in_order(inside)
        self.expansion_ = KernelExpansion(span.kernel, span.points, coef, offset, mean_coef)
        self._projection = KernelExpansion(
            span.kernel,
            span.points,
            span.whitening @ basis,
            span.mean @ basis if self.center else np.zeros(self.n_components),
            mean_coef,
        )
        self._unmixing = np.linalg.pinv(mixing)
        self.support_ = nodes.indices
        self.eigenvalues_ = eigenvalues
        self.explained_variance_ = np.einsum("ik,ij,jk->k", inside, span.covariance, inside)
        captured = np.einsum("ik,ij,jk->k", basis, span.covariance, basis)
        self.explained_variance_ratio_ = captured / span.total_variance
        self.selection_report_ = dict(nodes.history)
        self.gamma_ = problem.gamma
        self.n_samples_seen_ = problem.X.shape[0]
        ratio = captured_ratio(problem.sample, self._projection, self.n_samples_seen_)
        self.captured_ratio_ = ratio.value
        self.captured_ratio_kind_ = ratio.kind
        self.captured_ratio_n_samples_ = ratio.n_samples
        self._inverse_map = self._learned_inverse(self._projection, problem.sample)

    # What is captured is measured, and undone, in an orthonormal basis of the components' span.

    def _through_projection(self) -> Self:
        check_is_fitted(self)
        model = copy.copy(self)
        model.expansion_ = self._projection
        return model

    def reconstruction_error(self, X: Any, *, diagonal: Any = None) -> Array:
        """Squared feature-space distance of each row to the span of the components.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows; for a precomputed kernel their kernel values.
        diagonal : array-like of shape (n_samples,), optional
            k(x, x) of each row.  Needed only for a precomputed kernel.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return KernelTransformer.reconstruction_error(self._through_projection(), X, diagonal=diagonal)

    def score(self, X: Any, y: Any = None, *, diagonal: Any = None) -> float:
        """The share of the variance of X about the training mean (of its mean square when not centred) captured.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows; for a precomputed kernel their kernel values.
        y : ignored
        diagonal : array-like of shape (n_samples,), optional
            k(x, x) of each row.  Needed only for a precomputed kernel.

        Returns
        -------
        float
        """
        return KernelTransformer.score(self._through_projection(), X, diagonal=diagonal)

    def inverse_transform(self, X: Any) -> Array:
        """Rows whose features come closest to what the scores stand for.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Scores, as `transform` gives them.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        model = self._through_projection()
        scores = check_array(X, dtype=FLOATS)
        if scores.shape[1] != len(self._unmixing):
            raise ValueError(f"scores have {scores.shape[1]} columns, the model has {len(self._unmixing)} components")
        rows = KernelTransformer.inverse_transform(model, scores.astype(np.float64) @ self._unmixing)
        return rows.astype(scores.dtype, copy=False)


def _orthonormal_in_order(inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(Q, R) with Q R = inside; a column that depends on those before it is zero in Q."""
    basis, mixing = np.linalg.qr(inside)
    missing = inside.shape[1] - basis.shape[1]
    if missing:
        basis, mixing = np.pad(basis, ((0, 0), (0, missing))), np.pad(mixing, ((0, missing), (0, 0)))
    lengths = np.linalg.norm(inside, axis=0)
    dependent = np.abs(np.diagonal(mixing)) <= DEPENDENT * lengths
    basis[:, dependent] = 0.0
    mixing[dependent] = 0.0
    return basis, mixing


class NodeKernelPCA(NodeTransformer):
    """Parameters that both of Xu's methods have."""

    _parameter_constraints: dict[str, Any] = {
        **KernelTransformer._parameter_constraints,
        "n_nodes": [Interval(Integral, 1, None, closed="left"), Interval(Real, 0, 1, closed="right")],
        "normalize": [StrOptions({"coefficients", "feature"})],
        "whiten": ["boolean"],
    }
    n_nodes: int | float
    normalize: str
    whiten: bool

    def _n_nodes(self, n_samples: int) -> int:
        asked: Any = self.n_nodes
        wanted = int(asked) if isinstance(asked, Integral) else ceil(asked * n_samples)
        if wanted < self.n_components:
            raise ValueError(
                f"n_nodes={self.n_nodes} ({wanted} nodes) is too few for n_components={self.n_components}: give at "
                f"least {self.n_components}"
            )
        return wanted

    def _components(self, span: Span) -> tuple[np.ndarray, np.ndarray]:
        eigenvalues, coef = self._eigenproblem(span)
        n_real = int(np.sum(eigenvalues > NO_EIGENVALUE * eigenvalues[0]))
        if n_real < self.n_components:
            raise ValueError(
                f"n_components={self.n_components} is more than the rank allows: on these rows and {len(span.gram)} "
                f"nodes the eigenproblem has {n_real} eigenvalues above rounding"
            )
        return coef / np.sqrt(eigenvalues) if self.whiten else coef, eigenvalues

    @abstractmethod
    def _eigenproblem(self, span: Span) -> tuple[np.ndarray, np.ndarray]:
        """The leading eigenvalues (M,), descending, and their coefficients (m, M)."""


class DissimilarityKernelPCA(NodeKernelPCA):
    """ESKPCA: kernel PCA on nodes that are far from each other (Xu et al. 2011), as published.

    The first node is the mean of the rows; then, again and again, comes the row with the largest sum of squared
    feature-space distances to the nodes there are, copies of a node left out.  The components v = sum_i g_i phi(s_i)
    maximise the mean square of their values g'k(S, x) over all g of unit length:

        K' K'^T g = lambda g,    K' = k(S, X),        feature  g'k(S, x)/sqrt(lambda)

    With N rows and s nodes it costs N s kernel values to choose the nodes and as many for the eigenproblem, O(N s) time
    and then O(N s^2), O(N) memory; s (d + M) a row to transform.  No cheaper rule looks at all rows.  But the rule
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

    _parameter_constraints: dict[str, Any] = {
        **NodeKernelPCA._parameter_constraints,
        "first": [StrOptions({"mean", "row"})],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_nodes: int | float = 50,
        first: str = "mean",
        normalize: str = "coefficients",
        whiten: bool = True,
        kernel: Any = "rbf",
        gamma: float | str | None = "median",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        center: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_nodes = n_nodes
        self.first = first
        self.normalize = normalize
        self.whiten = whiten
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.center = center
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _choose(self, problem: Problem) -> Selection:
        gram = KernelGram(problem.kernel, problem.X, problem.sample.n_threads)
        nodes = dissimilar_nodes(gram, self._n_nodes(problem.X.shape[0]), problem.weights, mean=self.first == "mean")
        self.nodes_ = nodes.history.pop("nodes")
        return nodes

    def _eigenproblem(self, span: Span) -> tuple[np.ndarray, np.ndarray]:
        if self.normalize == "coefficients":
            return top_eigh(span.products, self.n_components)
        values, vectors = top_eigh(span.weight * span.covariance, self.n_components)
        return values, span.whitening @ vectors


def dissimilar_nodes(gram: KernelGram, n_nodes: int, weights: np.ndarray | None, *, mean: bool) -> Selection:
    """The mean of the rows, or the row nearest to it, and the rows farthest in sum from the nodes before them."""
    rows, diagonal = gram.rows, gram.diagonal
    mean = mean and not isinstance(gram.kernel, Precomputed)
    if mean:
        point = like(mean_of(rows, weights)[None, :], rows)
        point = type(rows)(point) if scipy.sparse.issparse(rows) else point
        first = -1
        distances = diagonal + float(gram.kernel.diagonal(point)[0]) - 2.0 * gram.at_point(point)
    else:
        first = _central(gram, weights)
        distances = diagonal + diagonal[first] - 2.0 * gram.column(first)
        distances[first] = 0.0
    if weights is not None:
        distances[weights == 0] = 0.0
    nodes = np.append(first, far_rows(gram.column, diagonal, distances, n_nodes - 1, np.add))
    kernel, points = gram.kernel.at(rows, nodes[1:] if mean else nodes)
    if mean:
        stack = scipy.sparse.vstack if scipy.sparse.issparse(rows) else np.vstack
        points = stack([point, points])
    return Selection(kernel, points, None if mean else nodes, {"rule": "dissimilar", "nodes": nodes})


def _central(gram: KernelGram, weights: np.ndarray | None) -> int:
    if not isinstance(gram.kernel, Precomputed):
        return central_row(gram.rows, weights)
    mass = np.ones(len(gram.diagonal)) if weights is None else weights
    distances = gram.diagonal - 2.0 * np.asarray(gram.rows @ mass).ravel() / mass.sum()
    return int(np.argmin(np.where(mass > 0, distances, np.inf)))


class ImprovedKernelPCA(NodeKernelPCA):
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
    explained_variance_ : ndarray of shape (M,)
        Mean square (variance when centred) of the scores on the training rows.
    explained_variance_ratio_ : ndarray of shape (M,)
        Share of the total feature-space mean square (variance) that each component adds to those before it.
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

    _parameter_constraints: dict[str, Any] = {
        **NodeKernelPCA._parameter_constraints,
        "ridge": [Interval(Real, 0, None, closed="neither")],
        "n_optimization_samples": [Interval(Integral, 2, None, closed="left"), None],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_nodes: int | float = 50,
        ridge: float = IMPROVED_RIDGE,
        normalize: str = "feature",
        whiten: bool = True,
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
        self.n_nodes = n_nodes
        self.ridge = ridge
        self.normalize = normalize
        self.whiten = whiten
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.center = center
        self.n_optimization_samples = n_optimization_samples
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _sample_size(self, n_nodes: int) -> int:
        return self.n_optimization_samples or default_sample_size(n_nodes)

    def _choose(self, problem: Problem) -> Selection:
        n_nodes = self._n_nodes(problem.X.shape[0])
        selection = gain(problem.sample, n_nodes, problem.rng, ridge=self.ridge)
        selection.history["rule"] = "improved"
        return selection

    def _eigenproblem(self, span: Span) -> tuple[np.ndarray, np.ndarray]:
        # for g = W a the two sides are weight C and I + ridge W'W, small and well scaled, whatever the nodes' rank
        right = np.eye(span.whitening.shape[1]) + self.ridge * span.whitening.T @ span.whitening
        values, vectors = scipy.linalg.eigh(span.weight * span.covariance, right, check_finite=False)
        values, coef = values[::-1][: self.n_components], span.whitening @ vectors[:, ::-1][:, : self.n_components]
        if self.normalize == "coefficients":
            return values, coef / np.linalg.norm(coef, axis=0)
        return values, coef / np.sqrt(np.einsum("ik,ij,jk->k", coef, span.gram, coef))
