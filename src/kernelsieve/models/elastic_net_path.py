"""elastic_net_path: how many rows each penalty leaves, and how much they capture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from ..fit.parameters import MOST_POINTS, instance_of, some_numbers, whole_number
from ..fit.span import Span
from ..solvers.path import descend
from ..threads import one_blas_thread
from .elastic_net import ElasticNetKernelPCA
from .elastic_net_problem import Start, in_row_order, unit_components
from .robust import RobustSparseKernelPCA

SMALLEST_ALPHA = 0.01  # relative to alpha_max, where a path ends


@dataclass(frozen=True)
class ElasticNetPath:
    """The components for every alpha, from the largest down.

    Attributes
    ----------
    alpha : ndarray of shape (n_alphas,)
        Relative to alpha_max.
    alpha_max : ndarray of shape (n_components,)
        Absolute alphas from which on a component is zero.
    n_nonzero : ndarray of shape (n_alphas, n_components)
        Nonzero coefficients of each component.
    n_support : ndarray of shape (n_alphas,)
        Rows that any component uses.
    captured_ratio : ndarray of shape (n_alphas,)
        Variance captured by the components, made orthonormal, over kernel PCA's on the dictionary.
    refit_ratio : ndarray of shape (n_alphas,)
        The same for the best components on the same rows, as refit=True gives them.
    coefs : list of ndarray of shape (n_support, n_components)
        Coefficients of components of unit length, over the rows in `support`.
    support : list of ndarray
        Row numbers.
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
    """Nonzeros, captured variance and coefficients for many alphas, each solution the start of the next.

    One pass over the rows serves them all.

    Parameters
    ----------
    estimator : ElasticNetKernelPCA or RobustSparseKernelPCA
        Kernel, components, l2, sparsity, dictionary and the rest; its own alpha, n_nonzero and solver do not matter:
        every point is the single step at kernel PCA's components, by the active set.  It is not fitted.  The robust
        estimator weighs the rows itself and keeps outliers from being support, here as in its fit.
    X : array-like or sparse matrix of shape (n_samples, n_features)
    alpha : sequence of float, optional
        Relative to alpha_max, between 0 and 1; by default `n_alphas` of them, from 1 down to 0.01 in equal ratios.
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
    net, shares = model._net(), _shares(alpha, n_alphas)
    with one_blas_thread():
        choice, span = model._path_span(X, sample_weight)
        start = net.start(span, model._penalty(choice, span))
        coefs, gaps = _solutions(start, shares, net.joint, net.tol)
        points = [_point(span, start, coef) for coef in coefs]
    assert span.indices is not None
    return ElasticNetPath(
        shares,
        net.largest_alphas(start),
        np.array([np.count_nonzero(coef, axis=0) for coef in coefs]),
        np.array([len(point.active) for point in points]),
        np.array([point.captured for point in points]),
        np.array([point.refitted for point in points]),
        [point.coef for point in points],
        [span.indices[point.active] for point in points],
        gaps,
    )


def _shares(given: Sequence[float] | None, n_alphas: int) -> np.ndarray:
    if given is None:
        return np.geomspace(1.0, SMALLEST_ALPHA, whole_number("n_alphas", n_alphas, 1, MOST_POINTS))
    shares = np.sort(some_numbers("alpha", given, "values between 0 and 1, shares of alpha_max"))[::-1]
    if not np.all((shares > 0) & (shares <= 1)):
        raise ValueError("alpha must hold values between 0 and 1, shares of alpha_max")
    return shares


def _solutions(start: Start, shares: np.ndarray, joint: bool, tol: float) -> tuple[list[np.ndarray], np.ndarray]:
    """Coefficients (r, M) and relative gaps (M,) for every alpha."""
    if joint:
        results = list(descend(start.joint_quadratic, shares * start.joint_alpha_max, weights=start.penalty, tol=tol))
        gaps = np.array([[found.gap / found.objective] * start.directions.shape[1] for found in results])
        return [found.coef for found in results], gaps
    columns = [
        list(descend(quadratic, shares * largest, weights=start.penalty, tol=tol))
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
