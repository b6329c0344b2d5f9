"""Sparse PCA in input space: the base of its estimators, and ElasticNetPCA, of Zou, Hastie & Tibshirani."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Real
from typing import Annotated, Any, Self

import numpy as np
import scipy.linalg
import scipy.sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from ..arrays import FLOATS, Array, as_float64, on_host, row_dot
from ..errors import ScaleError
from ..fit.parameters import (
    MeantParameters,
    SavesItself,
    at_least,
    checked_scores,
    estimator,
    one_of,
    parameter,
    unchanged_on_failure,
)
from ..kernels.blocks import dense
from ..rows.checks import LARGEST, SMALLEST, check_spread, finite, unit_of, unit_of_variances
from ..rows.dispatch import validate_rows, weights_of
from ..threads import one_blas_thread
from .alternation import SparseComponents, SparseRequest, fit_components, warn_about
from .scatter import GramScatter, Scatter, cancels, row_mean, scatter_of

POSITIVE_OR_INFINITE = Interval(Real, 0, None, closed="both")


@estimator
class SparsityParameters:
    """Parameters of every sparse PCA."""

    n_components: int = parameter(2, at_least(1), positional=True)
    mode: str = parameter("simultaneous", one_of("simultaneous", "sequential"))
    alpha: Any = parameter(None, at_least(0, Real), "array-like", None)
    n_nonzero: Any = parameter(None, at_least(1), "array-like", None)
    alpha_scale: str = parameter("relative", one_of("relative", "absolute"))
    l2: float = parameter(math.inf, POSITIVE_OR_INFINITE)
    refit: bool = parameter(False, "boolean")
    transform_method: str = parameter("least-squares", one_of("least-squares", "projection"))
    max_iter: int = parameter(1000, at_least(1))
    tol: float = parameter(1e-6, at_least(0, Real))


class LinearComponents(
    SavesItself, SparsityParameters, MeantParameters, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Methods of fitted components: unit rows V (M, p) about a mean, not orthogonal to each other."""

    n_features_in_: Annotated[int, "int=d"]
    feature_names_in_: Annotated[np.ndarray, "strings[d] optional"]
    components_: Annotated[np.ndarray, "float[M, d]"]
    mean_: Annotated[np.ndarray, "float[d]"]
    n_nonzero_: Annotated[np.ndarray, "int[M]"]
    explained_variance_: Annotated[np.ndarray, "float[M]~"]
    explained_variance_ratio_: Annotated[np.ndarray, "float[M]~"]
    alpha_: Annotated[Any, "float | float[M]~"]  # in units of squares of the rows
    n_iter_: Annotated[int, "int"]
    converged_: Annotated[bool, "bool"]

    def _training_rows(self, X: Any) -> Array:
        """Check the rows to be fitted, and take the number and names of columns from them."""
        rows = validate_rows(self, on_host(X), accept_sparse=self._takes_sparse, dtype=FLOATS, ensure_min_samples=2)
        check_spread(finite(rows))
        return rows

    def _store(self, found: SparseComponents, mean: np.ndarray, weight: float) -> None:
        self.components_ = found.components
        self.mean_ = mean
        self.n_nonzero_ = found.n_nonzero
        self.explained_variance_ = found.variance / weight
        self.explained_variance_ratio_ = found.variance / found.total_variance
        self.alpha_ = found.alpha
        self.n_iter_ = found.n_iter
        self.converged_ = found.converged

    def transform(self, X: Any) -> np.ndarray:
        """Scores of the rows of X.

        ``transform_method="least-squares"``: the z for which mean + z V comes closest to x, (x - mean) V'(V V')^+.
        ``"projection"``: (x - mean) V', the plain products with the components; if these are not orthogonal, what two
        of them share is in both scores.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        rows = self._rows(X)
        weights = self.components_.T
        if self.transform_method == "least-squares":
            weights = weights @ self._inverse_overlap()
        return self._centred_product(rows, weights)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Rows from scores: mean + z V for least-squares scores, mean + z (V V')^+ V for projections.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        scores = checked_scores(X, len(self.components_))
        back = self.components_
        if self.transform_method == "projection":
            back = self._inverse_overlap() @ back
        return scores @ back.astype(scores.dtype, copy=False) + self.mean_.astype(scores.dtype, copy=False)

    def reconstruction_error(self, X: Any) -> np.ndarray:
        """Squared distance of each row to the plane mean + span(V).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        return self._squared_distances(self._rows(X))[1]

    def score(self, X: Any, y: Any = None) -> float:
        """The share of the variance of X about the training mean that lies in the plane of the components.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        float
        """
        check_is_fitted(self)
        to_mean, to_plane = self._squared_distances(self._rows(X))
        total = float(to_mean.sum(dtype=np.float64))
        return 1.0 - float(to_plane.sum(dtype=np.float64)) / total if total > 0 else 1.0

    def _rows(self, X: Any) -> Array:
        return finite(validate_rows(self, on_host(X), reset=False, accept_sparse=self._takes_sparse, dtype=FLOATS))

    @property
    def _takes_sparse(self) -> str | bool:
        return "csr" if self.__sklearn_tags__().input_tags.sparse else False

    def _inverse_overlap(self) -> np.ndarray:
        """(V V')^+, which gives empty components a score of zero."""
        return np.linalg.pinv(self.components_ @ self.components_.T, hermitian=True)

    def _centred_product(self, rows: Array, weights: np.ndarray) -> np.ndarray:
        """(x - mean) weights, in float64, because the mean may be large compared with the difference."""
        if scipy.sparse.issparse(rows):
            return (rows.astype(np.float64) @ weights - self.mean_ @ weights).astype(rows.dtype, copy=False)
        return ((rows - self.mean_) @ weights).astype(rows.dtype, copy=False)

    def _squared_distances(self, rows: Array) -> tuple[np.ndarray, np.ndarray]:
        """Squared distances of each row to the mean and to the plane."""
        dtype, rows = rows.dtype, rows.astype(np.float64, copy=False)
        basis = scipy.linalg.orth(self.components_.T)
        along = self._centred_product(rows, basis)
        if scipy.sparse.issparse(rows) and not cancels(rows, self.mean_):
            to_mean = row_dot(rows, rows) - 2 * (rows @ self.mean_) + self.mean_ @ self.mean_
            return to_mean.astype(dtype), np.maximum(to_mean - row_dot(along, along), 0).astype(dtype)
        centred = dense(rows) - self.mean_
        off_plane = centred - along @ basis.T
        return row_dot(centred, centred).astype(dtype), row_dot(off_plane, off_plane).astype(dtype)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@estimator
class ElasticNetPCA(LinearComponents):
    """Sparse PCA: principal components with few nonzero loadings, by elastic nets.

    Minimises, over axes A with A A' = I and loadings B, for centred rows x_i,

        sum_i |x_i - A'B x_i|^2 + sum_j (l2 |b_j|^2 + alpha_j |b_j|_1)

    and gives the rows of B, normalised, as components (Zou, Hastie & Tibshirani 2006, criterion 3.12, without
    halves).  `sklearn.decomposition.SparsePCA` solves another problem: it makes a dictionary sparse, has no
    explained variance, and its alpha changes its meaning with the units of the data; here alpha is by default
    relative to the value that empties a component, so that rescaling the data changes nothing.

    The l1 penalty not only selects loadings but also shrinks them; `refit=True` finds them again without the penalty,
    on the selected supports, which for equal numbers of nonzeros is closer to the truth.  The problem is not convex:
    the alternation starts from PCA and ends at a stationary point, the same in every run.

    Cost: O(n p^2) once and O(p^2 M) a step for p <= n; O(n p M) a step for p > n, without any p x p matrix.

    Parameters
    ----------
    n_components : int, default=2
        Number of components M.
    mode : {"simultaneous", "sequential"}, default="simultaneous"
        All components together, as published, or one after another (SpaSM), where the first ones do not depend on how
        many follow.  For a small alpha, sequential components are close to PCA's, and simultaneous ones to a rotation
        of PCA's with smaller loadings.
    deflation : {"axes", "projection", "hotelling", "schur", "orthogonalized"}, default="axes"
        With mode="sequential", how a component is kept from finding the earlier ones again.  "axes": its axis is
        orthogonal to theirs, as in SpaSM.  The others remove the earlier loadings v from S = X'X (Mackey 2008):
        "projection" (I - v v') S (I - v v'), "hotelling" S - v v'(v'S v), "schur" S - S v v'S / (v'S v), and
        "orthogonalized" the projection along the part of v that is orthogonal to all earlier loadings.  "hotelling"
        computes S, p x p, and needs l2=inf, because it can leave negative variances.
    alpha : float or array-like of shape (n_components,), optional
        The l1 penalty, one for all components or one each; 0.2 (relative) if neither it nor `n_nonzero` is given.
    n_nonzero : int or array-like of shape (n_components,), optional
        The number of nonzero loadings of each component, in place of `alpha`.
    alpha_scale : {"relative", "absolute"}, default="relative"
        "relative": in units of alpha_max = 2 max_i |X'X a_j|_i, at which component j becomes empty; 0 is PCA.
        "absolute": as in the criterion above, which refers to X'X in `fit` and to C in `fit_covariance`.
    l2 : float, default=inf
        The ridge.  Infinity is the limit in which the elastic net is a soft threshold, B = soft(A X'X, alpha / 2):
        the fastest and, at equal nonzeros, mostly the most accurate.  Zou et al. use 0 for p < n.
    refit : bool, default=False
        Find the loadings again, without l1 penalty, on the supports.
    transform_method : {"least-squares", "projection"}, default="least-squares"
        What `transform` gives: coordinates of the best reconstruction, or plain products with the components.
    max_iter : int, default=1000
    tol : float, default=1e-6
        The alternation ends when the loadings change by less than this share.  Loose values (1e-2) end on wrong
        supports.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Unit rows with exact zeros, the largest loading positive; a row of zeros for a component that alpha empties.
    mean_ : ndarray of shape (n_features,)
    n_nonzero_ : ndarray of shape (n_components,)
        The number of nonzero loadings of each component.
    explained_variance_ : ndarray of shape (n_components,)
        The variance, per row, that each component adds to those before it (QR-adjusted).
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Its share of the total variance.
    alpha_ : ndarray of shape (n_components,)
        The absolute alpha of each component at the end; for `n_nonzero`, that at which the next variable would enter.
    objective_ : float
        The criterion at the end, before any refit; for l2=inf that of the limit,
        sum_j |b_j|^2 - 2 a_j'X'X b_j + alpha_j |b_j|_1.  With a deflation, the terms of each component have the X'X
        that earlier components left.
    n_iter_ : int
    converged_ : bool
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names

    References
    ----------
    Zou, Hastie & Tibshirani (2006), Sparse principal component analysis.
    Sjoestrand, Clemmensen, Larsen & Ersboell (2012), SpaSM: a Matlab toolbox for sparse statistical modeling.
    Mackey (2008), Deflation methods for sparse PCA.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler
    >>> from kernelsieve import ElasticNetPCA
    >>> X = StandardScaler().fit_transform(load_wine().data)
    >>> model = ElasticNetPCA(n_components=2, n_nonzero=5, refit=True).fit(X)
    >>> model.n_nonzero_
    array([5, 5])
    >>> model.explained_variance_ratio_.round(2)
    array([0.26, 0.17])
    >>> model.transform(X).shape
    (178, 2)
    """

    _file_layout = {"objective_": "float~"}

    deflation: str = parameter("axes", one_of("axes", "projection", "hotelling", "schur", "orthogonalized"))

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the components of the rows of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight 2 counts as two rows, one of weight 0 not at all.

        Returns
        -------
        self
        """
        with unchanged_on_failure(self), one_blas_thread():
            X = self._training_rows(X)
            weights = weights_of(X, sample_weight)
            scatter, unit, mean = scaled_scatter(X, weights, products_only=math.isinf(self.l2))
            self._fit(scatter, unit, mean, float(X.shape[0] if weights is None else weights.sum()))
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_covariance(self, C: Any) -> Self:
        """Find the components of a covariance or correlation matrix, which is all that sparse PCA needs of the rows.

        Parameters
        ----------
        C : array-like of shape (n_features, n_features)
            Symmetric, positive semi-definite.

        Returns
        -------
        self
            `mean_` is zero: `transform` takes rows that are centred (and, for a correlation matrix, scaled) already.
        """
        with unchanged_on_failure(self), one_blas_thread():
            covariance, unit = checked_covariance(validate_rows(self, C, dtype=np.float64))
            self._fit(GramScatter(covariance), unit, np.zeros(len(covariance)), 1.0)
        return self

    def _fit(self, scatter: Scatter, unit: float, mean: np.ndarray, weight: float) -> None:
        """Fit the components of a scatter; its rows, and their mean, have been divided by `unit`."""
        request = replace(SparseRequest.of(self), deflation=self.deflation).over(unit)
        found = fit_components(scatter, request)
        warn_about(found, request)
        found = found.times(unit, request.l2)
        self._store(found, unit * mean, weight)
        self.objective_ = found.objective

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def scaled_scatter(
    X: Array, weights: np.ndarray | None, *, products_only: bool = False
) -> tuple[Scatter, float, np.ndarray]:
    """The scatter of rows divided by a unit, the unit, and the mean of the divided rows.

    The unit brings rows to order one, so that they do not overflow when they are squared repeatedly.
    """
    unit = unit_of(X)
    rows = X if unit == 1 else as_float64(X) / unit
    mean = row_mean(rows, weights)
    return scatter_of(rows, weights, mean, products_only=products_only), unit, mean


def checked_covariance(C: np.ndarray) -> tuple[np.ndarray, float]:
    """Check that C is a covariance; return it exactly symmetric, divided by the square of a unit, and the unit.

    The unit brings variances to order one if they are far from it.
    """
    if C.shape[0] != C.shape[1]:
        raise ValueError(f"a covariance is square, this matrix is {C.shape[0]} x {C.shape[1]}: rows go to fit(X)")
    largest = float(np.abs(C).max())
    if 0 < largest < SMALLEST[8] ** 2 or largest > LARGEST[8] ** 2:  # squares of the limits for rows
        size = "small" if largest < 1 else "large"
        column = int(np.argmax(np.abs(C).max(axis=0)))
        raise ScaleError(
            column, f"has a largest covariance of {largest:.3g}, too {size} to compute with: scale the rows"
        )
    unit = unit_of_variances(largest)
    scaled, largest = C / unit**2, largest / unit**2
    gap, rounding = np.abs(scaled - scaled.T), 1e-6 * largest  # of float32
    if gap.max() > rounding:
        i, j = np.unravel_index(np.argmax(gap), C.shape)
        raise ValueError(f"the covariance is not symmetric: C[{i}, {j}] = {C[i, j]:.6g}, C[{j}, {i}] = {C[j, i]:.6g}")
    symmetric = (scaled + scaled.T) / 2
    smallest = float(np.linalg.eigvalsh(symmetric)[0])
    if smallest < -rounding:
        raise ValueError(
            f"the covariance is not positive semi-definite: its smallest eigenvalue is {smallest * unit**2:.3g}. Was "
            "it made from pairs of columns with missing values? Use complete rows, or clip its spectrum at zero"
        )
    return symmetric, unit
