"""Paths: the results of a method for many values of the parameter that is hard to choose, from one pass over the rows.

elastic_net_path    for each alpha: how many rows have nonzero coefficients, and how much variance they capture
likelihood_path     for each noise variance: number of vectors, likelihood, and captured variance
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from ..fit.parameters import MOST_POINTS, instance_of, some_numbers, whole_number
from ..fit.span import Span
from ..solvers.likelihood import LikelihoodFit
from ..solvers.path import descend
from ..threads import one_blas_thread
from .elastic_net import ElasticNetKernelPCA
from .elastic_net_problem import Start, in_row_order, unit_components
from .likelihood import LikelihoodKernelPCA, axes_of, check_not_tiny, likelihood_on
from .robust import RobustSparseKernelPCA

SMALLEST_ALPHA = 0.01  # the default path ends at this share of alpha_max


@dataclass(frozen=True)
class ElasticNetPath:
    """The components for every alpha, from the largest to the smallest.

    Attributes
    ----------
    alpha : ndarray of shape (n_alphas,)
        The values of alpha, as shares of alpha_max.
    alpha_max : ndarray of shape (n_components,)
        The smallest absolute alpha at which each component is zero.
    n_nonzero : ndarray of shape (n_alphas, n_components)
        Number of nonzero coefficients of each component.
    n_support : ndarray of shape (n_alphas,)
        Number of rows that have a nonzero coefficient in any component.
    captured_ratio : ndarray of shape (n_alphas,)
        Variance captured by the components, made orthonormal, divided by that of kernel PCA on the dictionary.
    refit_ratio : ndarray of shape (n_alphas,)
        The captured ratio of the best components on the same rows, as refit=True gives them.
    coefs : list of ndarray of shape (n_support, n_components)
        Coefficients of the components, scaled to unit length, over the rows in `support`.
    support : list of ndarray
        Numbers of the rows that have a nonzero coefficient.
    dual_gap : ndarray of shape (n_alphas, n_components)
        Duality gaps, relative to the objective.
    """

    alpha: np.ndarray
    alpha_max: np.ndarray
    n_nonzero: np.ndarray
    n_support: np.ndarray
    captured_ratio: np.ndarray
    refit_ratio: np.ndarray
    coefs: list[np.ndarray]
    support: list[np.ndarray]
    dual_gap: np.ndarray


def elastic_net_path(
    estimator: ElasticNetKernelPCA | RobustSparseKernelPCA,
    X: Any,
    *,
    alpha: Sequence[float] | None = None,
    n_alphas: int = 40,
    sample_weight: Any = None,
) -> ElasticNetPath:
    """Numbers of nonzeros, captured ratios and coefficients for many alphas, from one pass over the rows.

    The solution for each alpha is the starting point for the next smaller one.

    Parameters
    ----------
    estimator : ElasticNetKernelPCA or RobustSparseKernelPCA
        Gives the kernel, n_components, l2, sparsity, dictionary and all other parameters, and is not fitted itself.
        Its alpha, n_nonzero and solver are ignored: every point of the path is a single pass that starts at the
        components of kernel PCA, solved by the active-set method.  The robust estimator weights the rows and excludes
        outliers from the support, as in its fit.
    X : array-like or sparse matrix of shape (n_samples, n_features)
    alpha : sequence of float, optional
        Shares of alpha_max, between 0 and 1; by default `n_alphas` values from 1 down to 0.01 in equal ratios.
    n_alphas : int, default=40
    sample_weight : array-like of shape (n_samples,), optional

    Returns
    -------
    ElasticNetPath
        `kernelsieve.plots.path` draws it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernelsieve import ElasticNetKernelPCA, elastic_net_path
    >>> path = elastic_net_path(ElasticNetKernelPCA(2), load_iris().data, n_alphas=5)
    >>> path.n_nonzero.shape, bool(path.captured_ratio[-1] > 0.9)
    ((5, 2), True)
    """
    instance_of("estimator", estimator, (ElasticNetKernelPCA, RobustSparseKernelPCA))
    model = clone(estimator)
    model._validate_params()
    net, relative = model._net(), _relative(alpha, n_alphas)
    with one_blas_thread():
        choice, span = model._path_span(X, sample_weight)
        start = net.start(span, model._penalty(choice, span))
        coefs, gaps = _solutions(start, relative, net.joint, net.tol)
        points = [_point(span, start, coef) for coef in coefs]
    assert span.indices is not None
    return ElasticNetPath(
        relative,
        net.largest_alphas(start),
        np.array([np.count_nonzero(coef, axis=0) for coef in coefs]),
        np.array([len(point.active) for point in points]),
        np.array([point.captured for point in points]),
        np.array([point.refitted for point in points]),
        [point.coef for point in points],
        [span.indices[point.active] for point in points],
        gaps,
    )


def _relative(given: Sequence[float] | None, n_alphas: int) -> np.ndarray:
    if given is None:
        return np.geomspace(1.0, SMALLEST_ALPHA, whole_number("n_alphas", n_alphas, 1, MOST_POINTS))
    relative = np.sort(some_numbers("alpha", given, "values between 0 and 1, shares of alpha_max"))[::-1]
    if not np.all((relative > 0) & (relative <= 1)):
        raise ValueError("alpha must hold values between 0 and 1, shares of alpha_max")
    return relative


def _solutions(start: Start, relative: np.ndarray, joint: bool, tol: float) -> tuple[list[np.ndarray], np.ndarray]:
    """Coefficients (r, M) and relative gaps (M,) for every alpha."""
    if joint:
        results = list(descend(start.joint_quadratic, relative * start.joint_alpha_max, weights=start.penalty, tol=tol))
        gaps = np.array([[found.gap / found.objective] * start.directions.shape[1] for found in results])
        return [found.coef for found in results], gaps
    columns = [
        list(descend(quadratic, relative * largest, weights=start.penalty, tol=tol))
        for quadratic, largest in zip(start.quadratics, start.alpha_max, strict=True)
    ]
    gaps = np.array([[found.gap / found.objective for found in column] for column in columns]).T
    return [np.stack([found.coef for found in row], axis=1) for row in zip(*columns, strict=True)], gaps


@dataclass(frozen=True)
class _Point:
    active: np.ndarray
    coef: np.ndarray
    captured: float
    refitted: float


def _point(span: Span, start: Start, coef: np.ndarray) -> _Point:
    exact = float(np.trace(start.directions.T @ span.covariance @ start.directions))
    active = in_row_order(span, coef)
    if not active.size:
        return _Point(active, np.zeros((0, coef.shape[1])), 0.0, 0.0)
    unit = unit_components(span, active, coef[active])
    refitted = span.best_at(active, coef.shape[1])
    captured, best = (span.captured(c, active) / exact for c in (unit, refitted))
    return _Point(active, unit, captured, best)


# The largest and the smallest default noise variance, as shares of the upper limit.
FIRST_SHARE, LAST_SHARE = 0.95, 0.01


@dataclass(frozen=True)
class LikelihoodPath:
    """The support and components for every noise variance.

    Attributes
    ----------
    noise_variance : ndarray of shape (n_points,)
        The noise variances, from the largest to the smallest.
    noise_variance_limit : float
        The upper limit of admissible noise variances.
    n_support : ndarray of shape (n_points,)
        Number of representing vectors.
    log_likelihood : ndarray of shape (n_points,)
        Log-likelihood of the training rows, up to a constant that depends on the noise variance.
    explained_variance_ratio : ndarray of shape (n_points,)
        Share of the total variance that lies along the axes of the model.
    support : list of ndarray
        Row numbers of the representing vectors.
    converged : ndarray of shape (n_points,)
    """

    noise_variance: np.ndarray
    noise_variance_limit: float
    n_support: np.ndarray
    log_likelihood: np.ndarray
    explained_variance_ratio: np.ndarray
    support: list[np.ndarray]
    converged: np.ndarray


def likelihood_path(
    estimator: LikelihoodKernelPCA,
    X: Any,
    *,
    noise_variance: Sequence[float] | None = None,
    n_points: int = 20,
    sample_weight: Any = None,
) -> LikelihoodPath:
    """Representing vectors, likelihood and captured variance for many noise variances, from one pass over the rows.

    With update="coordinate", the solution for each noise variance is the starting point for the next smaller one.

    Parameters
    ----------
    estimator : LikelihoodKernelPCA
        Gives the kernel, dictionary, update rule and all other parameters except the noise variance; it is not fitted.
    X : array-like or sparse matrix of shape (n_samples, n_features)
    noise_variance : sequence of float, optional
        By default, `n_points` values from 0.95 down to 0.01 times the upper limit, in equal ratios.
    n_points : int, default=20
    sample_weight : array-like of shape (n_samples,), optional

    Returns
    -------
    LikelihoodPath
        `kernelsieve.plots.likelihood_path` draws it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernelsieve import LikelihoodKernelPCA, likelihood_path
    >>> path = likelihood_path(LikelihoodKernelPCA(random_state=0), load_iris().data, n_points=5)
    >>> bool(path.n_support[0] < path.n_support[-1])
    True
    """
    instance_of("estimator", estimator, LikelihoodKernelPCA)
    model = clone(estimator)
    model._validate_params()
    with one_blas_thread():
        _, span = model._path_span(X, sample_weight)
        likelihood = likelihood_on(span)
        limit = likelihood.largest_noise_variance
        values = _noise_variances(noise_variance, n_points, limit)
        fits: list[LikelihoodFit] = []
        for value in values:
            fits.append(model._solve(likelihood, float(value), fits[-1].weights if fits else None))
        axes = [axes_of(span, found, model.n_components) for found in fits]
    assert span.indices is not None
    return LikelihoodPath(
        values,
        limit,
        np.array([len(a.places) for a in axes]),
        np.array([found.log_likelihood[-1] for found in fits]),
        np.array([a.variances.sum() for a in axes]) / span.total_variance,
        [span.indices[a.places] for a in axes],
        np.array([found.converged for found in fits]),
    )


def _noise_variances(given: Sequence[float] | None, n_points: int, limit: float) -> np.ndarray:
    if given is None:
        return np.geomspace(FIRST_SHARE, LAST_SHARE, whole_number("n_points", n_points, 1, MOST_POINTS)) * limit
    values = np.sort(
        some_numbers("noise_variance", given, f"values between 0 and {limit:.6g}, the upper end on these rows")
    )[::-1]
    if not np.all((values > 0) & (values < limit)):
        raise ValueError(f"noise_variance must hold values between 0 and {limit:.6g}, the upper end on these rows")
    check_not_tiny(float(values[-1]), limit)
    return values
