"""ElasticNetPCA: sparse PCA as Zou, Hastie & Tibshirani published it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import _fit_context

from ..arrays import as_float64
from ..fit.parameters import estimator, one_of, parameter, unchanged_on_failure
from ..rows import weights_of
from ..rows.dispatch import validate_rows
from ..rows.memory import LARGEST, SMALLEST, ScaleError, unit_of, unit_of_variances
from ..threads import one_blas_thread
from .components import LinearComponents
from .fitting import Request, SparseComponents, fit_components, warn_about
from .scatter import GramScatter, row_mean, scatter_of

# A covariance may miss symmetry, or have negative eigenvalues, by this share of its largest: rounding, as in float32.
ROUNDING = 1e-6
SMALLEST_VARIANCE, LARGEST_VARIANCE = SMALLEST[8] ** 2, LARGEST[8] ** 2  # of the rows that are taken


@estimator
class ElasticNetPCA(LinearComponents):
    """Sparse PCA: principal components with few nonzero loadings, by elastic nets.

    Minimises, over axes A with A A' = I and loadings B, for centred rows x_i,

        sum_i |x_i - A'B x_i|^2 + sum_j (l2 |b_j|^2 + alpha_j |b_j|_1)

    and gives the rows of B, normalised, as components (Zou, Hastie & Tibshirani 2006, criterion 3.12, without
    halves).  `sklearn.decomposition.SparsePCA` solves another problem: it makes a dictionary sparse, has no
    explained variance, and its alpha changes its meaning with the units of the data; here alpha is by default
    relative to the value that empties a component, so that rescaling the data changes nothing.

    The l1 penalty shrinks loadings as well as picking them; `refit=True` finds them again without it on the supports
    it picked, which at equal nonzeros is closer to the truth.  The problem is not convex: the start is PCA, and the
    end a stationary point, the same on every run.

    Cost: O(n p^2) once and O(p^2 M) a step for p <= n; O(n p M) a step for p > n, without any p x p matrix.

    Parameters
    ----------
    n_components : int, default=2
        Number of components M.
    mode : {"simultaneous", "sequential"}, default="simultaneous"
        All components together, as published, or one after another (SpaSM), where the first do not depend on the
        number of those that follow.  For a small alpha sequential components come close to PCA's, simultaneous ones to
        a rotation of them with smaller loadings.
    deflation : {"axes", "projection", "hotelling", "schur", "orthogonalized"}, default="axes"
        With mode="sequential", how a component is kept from finding the earlier ones again.  "axes": its axis is
        orthogonal to theirs, as in SpaSM.  The others take the earlier loadings v out of S = X'X (Mackey 2008):
        "projection" (I - v v') S (I - v v'), "hotelling" S - v v'(v'S v), "schur" S - S v v'S / (v'S v), and
        "orthogonalized" the projection along the part of v that is orthogonal to all earlier loadings.  "hotelling"
        makes S, p x p, and needs l2=inf: what it leaves can have negative variances.
    alpha : float or array-like of shape (n_components,), optional
        The l1 penalty, one for all components or one each; 0.2 (relative) where neither it nor `n_nonzero` is given.
    n_nonzero : int or array-like of shape (n_components,), optional
        The number of nonzero loadings of each component, in place of `alpha`.
    alpha_scale : {"relative", "absolute"}, default="relative"
        "relative": in units of alpha_max = 2 max_i |X'X a_j|_i, from which on component j is empty; 0 is PCA.
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
        Unit rows with exact zeros, the largest loading positive; a row of zeros where alpha leaves nothing.
    mean_ : ndarray of shape (n_features,)
    n_nonzero_ : ndarray of shape (n_components,)
        Nonzero loadings reached.
    explained_variance_ : ndarray of shape (n_components,)
        What each component adds to those before it (QR-adjusted), per row.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Its share of the total variance.
    alpha_ : ndarray of shape (n_components,)
        The absolute alpha of each component at the end; for `n_nonzero` the one at which the next variable would enter.
    objective_ : float
        The criterion at the end, before any refit; for l2=inf that of the limit,
        sum_j |b_j|^2 - 2 a_j'X'X b_j + alpha_j |b_j|_1.  Where loadings are deflated, each component's terms have the
        X'X that was left to it.
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
            unit = unit_of(X)  # of numbers of order one, nothing that is squared again and again overflows
            rows, request = X if unit == 1 else as_float64(X) / unit, self._request(unit)
            mean = row_mean(rows, weights)
            found = fit_components(scatter_of(rows, weights, mean, products_only=math.isinf(request.l2)), request)
            warn_about(found, request)
            self._store(
                found.times(unit, request.l2), unit * mean, float(X.shape[0] if weights is None else weights.sum())
            )
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_covariance(self, C: Any) -> Self:
        """Find the components of a covariance or correlation matrix: all that sparse PCA sees of the rows.

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
            request = self._request(unit)
            found = fit_components(GramScatter(covariance), request)
            warn_about(found, request)
            self._store(found.times(unit, request.l2), np.zeros(len(covariance)), 1.0)
        return self

    def _request(self, unit: float) -> Request:
        return replace(Request.of(self), deflation=self.deflation).over(unit)

    def _store(self, found: SparseComponents, mean: np.ndarray, weight: float) -> None:
        super()._store(found, mean, weight)
        self.objective_ = found.objective

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def checked_covariance(C: np.ndarray) -> tuple[np.ndarray, float]:
    """C made exactly symmetric, after making sure that it is a covariance; and the unit of rows that it is counted in.

    The unit, whose square is that of the variances, brings them to order one where they are far from it.
    """
    if C.shape[0] != C.shape[1]:
        raise ValueError(f"a covariance is square, this matrix is {C.shape[0]} x {C.shape[1]}: rows go to fit(X)")
    largest = float(np.abs(C).max())
    if 0 < largest < SMALLEST_VARIANCE or largest > LARGEST_VARIANCE:
        size = "small" if largest < 1 else "large"
        column = int(np.argmax(np.abs(C).max(axis=0)))
        raise ScaleError(
            column, f"has a largest covariance of {largest:.3g}, too {size} to compute with: scale the rows"
        )
    unit = unit_of_variances(largest)
    scaled, largest = C / unit**2, largest / unit**2
    gap = np.abs(scaled - scaled.T)
    if gap.max() > ROUNDING * largest:
        i, j = np.unravel_index(np.argmax(gap), C.shape)
        raise ValueError(f"the covariance is not symmetric: C[{i}, {j}] = {C[i, j]:.6g}, C[{j}, {i}] = {C[j, i]:.6g}")
    symmetric = (scaled + scaled.T) / 2
    smallest = float(np.linalg.eigvalsh(symmetric)[0])
    if smallest < -ROUNDING * largest:
        raise ValueError(
            f"the covariance is not positive semi-definite: its smallest eigenvalue is {smallest * unit**2:.3g}. Was "
            "it made from pairs of columns with missing values? Use complete rows, or clip its spectrum at zero"
        )
    return symmetric, unit
