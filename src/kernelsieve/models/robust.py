"""RobustSparseKernelPCA: sparse kernel PCA that is robust to outliers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Self

import numpy as np

from ..arrays import Array, as_float64, namespace, row_dot, to_numpy
from ..fit.moments import gram_of
from ..fit.outliers import JudgesKernelRows, of_each
from ..fit.parameters import at_least, estimator, parameter
from ..fit.problem import Problem
from ..fit.span import AllRowsSpan, Span
from ..kernels import Kernel
from ..linear.robust_weights import LogisticLoss, cutoff, fit_plane, two_stage_weights, warn_if_many
from ..numerics import HALF_THE_DIGITS
from ..rules.base import Choice, Selection
from ..search.chooser import dictionary
from ..spectrum.whitening import whiten
from .base import Found, KernelTransformer, Policy
from .elastic_net import NetParameters
from .published import OnDictionary

OUTLIER = 0.5  # rows with a smaller weight are outliers


@estimator
class RobustSparseKernelPCA(JudgesKernelRows, NetParameters, OnDictionary, KernelTransformer):
    """Sparse kernel PCA that is robust to outliers: rows far from the majority get small weights.

    In feature space, a row at distance r from the plane of the first M components gets the weight

        w(r) = 1 / (1 + exp(mu (r^2 - delta)))

    The weights are found as in `RobustElasticNetPCA`: weighted kernel PCA is repeated until it converges, starting from
    the half of the rows that is least outlying along directions through pairs of rows.  With these weights fixed,

        min_a  1/2 sum_n w_n <phi(x_n), u_k - v>^2 + (l2/2) |v|^2 + alpha_k sum_i sqrt(k(x_i, x_i)) |a_i|

    gives sparse components v = sum_i a_i phi(x_i), as in `ElasticNetKernelPCA`.  Rows with a weight below one half
    cannot be support points.  Without the factor sqrt(k(x_i, x_i)), rows far from the origin would need smaller
    coefficients and so be penalised less.

    Use it with unbounded kernels (polynomial, linear), under which a single far row can change every component.  Under
    a bounded kernel (rbf, laplacian, cosine), all far rows have the same distance from the others, and ordinary kernel
    PCA withstands a few of them; then `SparseKernelPCA` is the better choice.  Many outliers in one place, a tenth of
    the rows or more, are to a bounded kernel a cluster like any other, which takes a component of its own.

    Cost: that of `ElasticNetKernelPCA`, and O(n q (n_directions + q)) time for n sampled rows in q coordinates.  Rows
    that do not fit into memory are read three times: for a sample, for their weights, and for the weighted moments.

    Parameters
    ----------
    n_components : int, default=2
    alpha, l2, alpha_scale, n_nonzero, sparsity, mode, max_iter, tol
        As in ElasticNetKernelPCA.
    refit : bool, default=True
        Replace the components by the best components for the weighted rows on the support points that were found.
    n_directions : int, default=500
        Number of directions through pairs of rows along which the start measures how outlying rows are.
    kernel, gamma, degree, coef0, kernel_params, center, random_state, n_jobs, batch_size, device, verbose
        As in SparseKernelPCA; the default kernel is a polynomial of degree 2.
    n_dictionary : int or None, default=None
        As in ElasticNetKernelPCA.

    Attributes
    ----------
    weights_ : ndarray of shape (n_samples,)
        The weight of each row.
    outliers_ : ndarray of bool of shape (n_samples,)
        Rows of weight below one half.
    cutoff_ : float
        Rows farther than this from the plane of the components, in feature space, are outliers to `predict`.
    explained_variance_, explained_variance_ratio_, eigenvalues_, captured_ratio_
        As in SparseKernelPCA, for the weighted rows.
    n_nonzero_, alpha_, alpha_max_, l2_, objective_, dual_gap_, n_iter_, converged_, expansion_, support_, ...
        As in ElasticNetKernelPCA.

    References
    ----------
    Wang & Cheng (2012), Robust sparse PCA via weighted elastic net, for the weights; Wang & Tanaka (2016) for the net.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelsieve import RobustSparseKernelPCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2)) * [2.0, 0.3]
    >>> X[:20] = [0.0, 30.0] + rng.standard_normal((20, 2))
    >>> model = RobustSparseKernelPCA(2, gamma=1.0, random_state=0).fit(X)
    >>> bool(model.outliers_[:20].all()), bool((model.support_ >= 20).all())
    (True, True)
    >>> model.predict(X[:2])
    array([-1, -1])
    """

    _file_layout = {"n_nonzero_": "int[M]", "weights_": "float[n]", "outliers_": "bool[n]", "cutoff_": "float~"}

    _policy = Policy(
        needs_variance=True, merges_copies=False
    )  # weights_ has one weight for every row, including copies

    refit: bool = parameter(True, "boolean")
    n_directions: int = parameter(500, at_least(1))
    kernel: Any = parameter("poly", *KernelTransformer._parameter_constraints["kernel"])
    degree: float = parameter(2, *KernelTransformer._parameter_constraints["degree"])

    def _weights_of_fit(self, sample_weight: Any) -> np.ndarray:
        return self.weights_

    def fit(self, X: Any, y: Any = None) -> Self:
        """Determine the weights of the rows and find sparse components of the weighted rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows of any kind that SparseKernelPCA accepts; for a precomputed kernel their square gram.
        y : ignored

        Returns
        -------
        self
        """
        return super().fit(X, y)

    def _points(self, problem: Problem) -> Choice:
        selection = dictionary(problem, self.n_dictionary)
        span, weights = self._weighed(problem, selection)
        warn_if_many(float(np.mean(weights < OUTLIER)))
        rows = problem.sample.rows
        sample = replace(problem.sample, rows=replace(rows, weights=weights[rows.numbers_of(rows.indices)]))
        weighted = replace(problem, rows=problem.rows.weighted(weights), sample=sample)
        return Choice(selection, weighted, span=span or weighted.span(selection))

    def _weighed(self, problem: Problem, selection: Selection) -> tuple[Span | None, np.ndarray]:
        """The span of the weighted rows, if it had to be computed for the weights, and the weight of every row."""
        rng, n_threads = problem.rng, problem.sample.n_threads
        if selection.exhaustive:
            plain = problem.span(selection)
            assert isinstance(plain, AllRowsSpan)
            found = two_stage_weights(plain.coordinates, self.n_components, self.n_directions, rng)
            return plain.reweighted(found.values), found.values
        features = Features(selection.kernel, selection.points, problem.rank_tolerance)
        sampled = features(problem.sample.rows.values)
        found = two_stage_weights(sampled, self.n_components, self.n_directions, rng)
        plane = fit_plane(sampled, found.values, self.n_components)
        # If most rows lie exactly in the plane, delta is zero. A small positive value is used instead, so that rounding
        # errors of the distances, which depend on the block, do not decide about the weights.
        furthest = float(np.square(sampled - plane.location).sum(axis=1).max())
        loss = LogisticLoss(found.delta or HALF_THE_DIGITS * furthest)
        weights = problem.rows.each(
            lambda rows: loss.weights(plane.squared_distances(features(rows))), selection.n_support, n_threads
        )
        return None, weights

    def _penalty(self, choice: Choice, span: Span) -> np.ndarray:
        weights = choice.problem.rows.weights
        assert weights is not None
        lengths = np.sqrt(np.einsum("ij,ij->i", span.coordinates, span.coordinates))
        return np.where((weights[span.indices] < OUTLIER) | ~(lengths > 0), np.inf, lengths)

    def _components(self, choice: Choice, span: Span) -> Found:
        found, sample, weights = super()._components(choice, span), choice.problem.sample, choice.problem.rows.weights
        assert weights is not None
        diagonal = sample.diagonal[: sample.n_evaluation] if sample.kernel.precomputed else None
        error = found.expansion.reconstruction_error(sample.evaluation.given, diagonal)
        own = {
            "weights_": weights,
            "outliers_": weights < OUTLIER,
            "cutoff_": math.sqrt(cutoff(to_numpy(error).astype(float))),
        }
        return replace(found, attributes=found.attributes | own)

    def score_samples(self, X: Any, *, diagonal: Any = None) -> Array:
        """Minus the feature-space distance of each row from the plane of the components; outliers have low scores.

        Parameters
        ----------
        X, diagonal
            As in `reconstruction_error`.

        Returns
        -------
        ndarray of shape (n_samples,)
            For rows in blocks, an iterator of such arrays, one for each block.
        """
        errors = self.reconstruction_error(X, diagonal=diagonal)
        return of_each(lambda squared: -namespace(squared).sqrt(squared), errors)

    @property
    def _least_score(self) -> float:
        return -self.cutoff_


class Features:
    """Features of rows over a dictionary: their coordinates in its span, and the length of their part outside it."""

    def __init__(self, kernel: Kernel, points: Array, tolerance: float) -> None:
        self._kernel, self._points = kernel, points
        self._whitening = whiten(gram_of(kernel, points), tolerance).matrix

    def __call__(self, rows: Array) -> np.ndarray:
        inside = to_numpy(as_float64(self._kernel(rows, self._points)) @ self._whitening)
        if self._kernel.precomputed:
            return inside  # k(x, x) is not known, so the part outside the span is ignored
        lengths = to_numpy(self._kernel.diagonal(rows)).astype(np.float64)
        outside = np.sqrt(np.maximum(lengths - row_dot(inside, inside), 0.0))
        return np.column_stack([inside, outside])
