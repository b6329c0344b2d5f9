"""Sparse PCA for a range of penalties, from empty components to dense ones, each fit started from the last."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import _get_feature_names

from ..arrays import FLOATS, on_host
from ..errors import ScaleError
from ..fit.parameters import MOST_POINTS, instance_of, some_numbers, whole_number
from ..rows.checks import check_spread, finite
from ..rows.dispatch import weights_of
from ..threads import one_blas_thread
from .alternation import SparseRequest, describe, make_penalty, refitted, sparse_pca, starting_axes
from .estimators import ElasticNetPCA, checked_covariance, scaled_scatter
from .scatter import GramScatter, Scatter


@dataclass(frozen=True)
class SparsePCAPath:
    """Components for a falling sequence of alphas.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
        Descending, on the scale that was asked for.
    components : ndarray of shape (n_alphas, n_components, n_features)
        Unit rows with exact zeros.
    n_nonzero : ndarray of shape (n_alphas, n_components)
    explained_variance_ratio : ndarray of shape (n_alphas, n_components)
        QR-adjusted, as in `ElasticNetPCA`.
    n_iter : ndarray of shape (n_alphas,)
        Steps of the alternation for each alpha, from the solution for the alpha before it.
    converged : ndarray of bool of shape (n_alphas,)
    feature_names : tuple of str or None
        The columns' names, where X has them: `kernelsieve.plots.loading_path` writes them beside the lines.
    """

    alphas: np.ndarray
    components: np.ndarray
    n_nonzero: np.ndarray
    explained_variance_ratio: np.ndarray
    n_iter: np.ndarray
    converged: np.ndarray
    feature_names: tuple[str, ...] | None = None


def sparse_pca_path(
    X: Any,
    n_components: int = 2,
    *,
    alphas: Any = 30,
    alpha_scale: str = "relative",
    mode: str = "simultaneous",
    l2: float = math.inf,
    refit: bool = False,
    covariance: bool = False,
    sample_weight: Any = None,
    max_iter: int = 1000,
    tol: float = 1e-6,
) -> SparsePCAPath:
    """Sparse PCA for many alphas, warm-started from large to small.

    The objective for each alpha is `ElasticNetPCA`'s (Zou, Hastie & Tibshirani 2006).  One pass over the rows serves
    all alphas.  If the problem has several stationary points, a warm start may lead to another one than a separate fit;
    at alpha = 0 every rotation of the principal axes is a stationary point.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Rows, or with ``covariance=True`` their covariance or correlation matrix.
    n_components : int, default=2
    alphas : int or array-like, default=30
        How many alphas, evenly spaced on a logarithmic scale from 1 to 0.01 (relative), or the alphas themselves.
    alpha_scale, mode, l2, refit, max_iter, tol
        As in `ElasticNetPCA`.
    covariance : bool, default=False
        Whether X is a covariance matrix.
    sample_weight : array-like of shape (n_samples,), optional

    Returns
    -------
    SparsePCAPath

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler
    >>> from kernelsieve import sparse_pca_path
    >>> X = StandardScaler().fit_transform(load_wine().data)
    >>> path = sparse_pca_path(X, n_components=2, alphas=[0.9, 0.5, 0.1])
    >>> path.n_nonzero
    array([[ 2,  1],
           [ 9,  4],
           [12,  9]])
    """
    model = ElasticNetPCA(
        n_components, mode=mode, alpha_scale=alpha_scale, l2=l2, refit=refit, max_iter=max_iter, tol=tol
    )
    model._validate_params()
    instance_of("covariance", covariance, (bool, np.bool_))
    grid = _alpha_grid(alphas, alpha_scale)
    names = _get_feature_names(X)
    try:
        with one_blas_thread():
            path = _follow(*_scatter(X, covariance, sample_weight), grid, SparseRequest.of(model))
    except ScaleError as error:
        raise error.named(names) from error
    return path if names is None else replace(path, feature_names=tuple(str(name) for name in names))


def _alpha_grid(alphas: Any, alpha_scale: str) -> np.ndarray:
    if np.ndim(alphas) == 0:
        if alpha_scale == "absolute":
            raise ValueError('alpha_scale="absolute" needs the alphas themselves: their number alone implies no scale')
        return np.geomspace(1.0, 0.01, whole_number("alphas", alphas, 1, MOST_POINTS))
    grid = np.sort(some_numbers("alphas", alphas, "a whole number, or a sequence of finite numbers"))[::-1]
    if not np.isfinite(grid).all() or grid[-1] < 0:
        raise ValueError(f"alphas={alphas} must be a sequence of finite numbers, none negative")
    return grid


def _scatter(X: Any, covariance: bool, sample_weight: Any) -> tuple[Scatter, float]:
    """The scatter of rows divided by a unit that brings them to order one, and the unit."""
    if covariance:
        if sample_weight is not None:
            raise ValueError("sample_weight belongs to rows: a covariance has its weights in it already")
        matrix, unit = checked_covariance(check_array(on_host(X), dtype=np.float64))
        return GramScatter(matrix), unit
    X = check_array(on_host(X), accept_sparse="csr", dtype=FLOATS, ensure_min_samples=2)
    check_spread(finite(X))
    return scaled_scatter(X, weights_of(X, sample_weight))[:2]


def _follow(scatter: Scatter, unit: float, grid: np.ndarray, request: SparseRequest) -> SparsePCAPath:
    axes = starting_axes(scatter, request.n_components)
    loadings = np.zeros_like(axes)
    found = []
    for alpha in grid:
        asked = replace(request, alpha=float(alpha)).over(unit)
        penalty = make_penalty(scatter.n_features, asked)
        solution = sparse_pca(scatter, penalty, axes, sequential=request.sequential, stop=request.stop, warm=loadings)
        axes, loadings = solution.axes, solution.loadings
        found.append(describe(scatter, solution, refitted(scatter, solution, asked), asked))
    return SparsePCAPath(
        grid,
        np.array([f.components for f in found]),
        np.array([f.n_nonzero for f in found]),
        np.array([f.variance / f.total_variance for f in found]),
        np.array([f.n_iter for f in found]),
        np.array([f.converged for f in found]),
    )
