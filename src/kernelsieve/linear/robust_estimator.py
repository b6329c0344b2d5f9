"""RobustElasticNetPCA: sparse PCA of rows that are weighted so that outliers do not count."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Real
from typing import Any, Self, TypeAlias

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils.validation import check_is_fitted

from ..errors import TooManyComponents
from ..fit.outliers import JudgesRows
from ..fit.parameters import (
    SHARE,
    at_least,
    estimator,
    generator_of,
    more_than,
    one_of,
    parameter,
    unchanged_on_failure,
)
from ..rows.checks import unit_of
from ..threads import one_blas_thread
from .alternation import SparseComponents, SparseRequest, describe, fit_components, warn_about
from .estimators import POSITIVE_OR_INFINITE, LinearComponents
from .robust_weights import ResidualForm, cutoff, residual_components, two_stage_weights, warn_if_many, without_rounding
from .scatter import row_mean, scatter_of

WeightedFit: TypeAlias = tuple[SparseComponents, np.ndarray, np.ndarray, bool]  # and weights, location, converged


@estimator
class RobustElasticNetPCA(JudgesRows, LinearComponents):
    """Sparse PCA that resists outliers: weights first, then `ElasticNetPCA` of the weighted rows.

    Each row gets the weight w = 1 / (1 + exp(mu (r^2 - delta))), where r is its distance to the plane of the first M
    components.  This is the weight of the bounded loss rho of Wang & Cheng (2012): reweighted PCA minimises
    sum_i rho(r_i), from a start that is free of outliers.  Then, with w fixed and axes A A' = I,

        sum_i w_i |x_i - A'B x_i|^2 + sum_j (l2 |b_j|^2 + alpha_j |b_j|_1)

    is minimised as in `ElasticNetPCA`, and the loadings are found again on their supports.  The paper's own algorithm,
    which puts loss and penalty in one objective, has the trivial solution B = 0.

    Withstands about 30 % of outliers off the plane, clustered or scattered.  Outliers within the plane (far along a
    component) keep their weight, because they do not turn the plane.

    Cost: that of `ElasticNetPCA`, and O(n q (n_directions + q)) for the weights, q = min(n, p).

    Parameters
    ----------
    n_components : int, default=2
    weights : {"two-stage", "residual"}, default="two-stage"
        "two-stage": as above.  "residual": the paper's scheme, repaired so that it has a solution, to reproduce the
        paper; it finds one component after another, whatever `mode` is, and hardly protects against outliers.
    mode : {"simultaneous", "sequential"}, default="simultaneous"
    alpha, n_nonzero, alpha_scale, l2, transform_method, max_iter, tol
        As in `ElasticNetPCA`; an absolute alpha refers to the weighted X'WX.
    refit : bool, default=True
        Find the loadings again, without l1 penalty, on the supports.
    n_directions : int, default=500
        The number of directions, through random pairs of rows, along which outliers are looked for at the start.
    tau, c : float, default=0.5, 8
        For weights="residual": the quantile of the squared residuals at which a row weighs one half, and how steeply
        the weights fall there (the paper's delta and mu = c / delta).
    gamma2, l2_alpha : float, default=0, inf
        For weights="residual": l1 and l2 weight of the paper's alpha (its equation 14), gamma2 in the scale of `alpha`.
        The paper has gamma2 = gamma1; the default takes the alpha that is best for the loadings.
    random_state : int, RandomState or None, default=None
        The seed of the random directions.

    Attributes
    ----------
    components_, n_nonzero_, alpha_, n_iter_, converged_ :
        As in `ElasticNetPCA`.
    location_ : ndarray of shape (n_features,)
        The centre: the weighted mean ("two-stage") or the mean ("residual").  `mean_` is the same.
    weights_ : ndarray of shape (n_samples,)
        The weight of each row; for "residual" its mean over the components, each of which has its own weights.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,)
        Variances of the weighted rows, QR-adjusted.
    orthogonal_distance_ : ndarray of shape (n_samples,)
        Distance of each row to the plane of the sparse components.
    cutoff_ : float
        (median z + 2.24 * 1.4826 MAD z)^(3/2) of z = orthogonal_distance_^(2/3).
    outliers_ : ndarray of bool of shape (n_samples,)
        Rows beyond the cutoff.
    offset_ : float
        -cutoff_: `decision_function` is `score_samples` less this, as in scikit-learn's outlier detectors.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names

    References
    ----------
    Wang & Cheng (2012), Robust sparse PCA via weighted elastic net.
    Hubert, Rousseeuw & Vanden Branden (2005), ROBPCA: a new approach to robust principal component analysis.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelsieve import RobustElasticNetPCA
    >>> rng = np.random.default_rng(0)
    >>> X = 0.1 * rng.standard_normal((100, 8))
    >>> X[:, :3] += rng.standard_normal((100, 1))
    >>> X[:20, 7] = 50.0
    >>> model = RobustElasticNetPCA(n_components=1, random_state=0).fit(X)
    >>> model.components_.round(1)
    array([[0.6, 0.6, 0.6, 0. , 0. , 0. , 0. , 0. ]])
    >>> np.flatnonzero(model.outliers_)[[0, -1]]
    array([ 0, 19])
    """

    _file_layout = {
        "location_": "float[d]",
        "weights_": "float[n]",
        "outliers_": "bool[n]",
        "orthogonal_distance_": "float[n]",
        "cutoff_": "float",
        "offset_": "float",
    }

    weights: str = parameter("two-stage", one_of("two-stage", "residual"))
    refit: bool = parameter(True, "boolean")
    n_directions: int = parameter(500, at_least(1))
    tau: float = parameter(0.5, SHARE)
    c: float = parameter(8.0, more_than(0))
    gamma2: float = parameter(0.0, at_least(0, Real))
    l2_alpha: float = parameter(math.inf, POSITIVE_OR_INFINITE)
    random_state: Any = parameter(None, "random_state")

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Weight the rows of X, and find the components of the weighted rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
        """
        with unchanged_on_failure(self), one_blas_thread():
            X = self._training_rows(X)
            unit = unit_of(X)
            rows, request = X.astype(np.float64, copy=False) / unit, SparseRequest.of(self).over(unit)
            form = self._residual_form().over(unit, self.alpha_scale)
            fit = self._two_stage(rows, request) if self.weights == "two-stage" else _residual(rows, request, form)
            found, weights, location, weights_converged = fit
            warn_about(found, request)
            found = replace(found.times(unit, request.l2), converged=found.converged and weights_converged)
            self._store(found, unit * location, weights.sum())
            self.location_, self.weights_ = self.mean_, weights
            self._find_outliers(X.astype(np.float64, copy=False))
        return self

    def _residual_form(self) -> ResidualForm:
        form = ResidualForm(self.tau, self.c, self.gamma2, self.l2_alpha)
        if self.weights == "two-stage" and form != ResidualForm():
            raise ValueError(
                "tau, c, gamma2 and l2_alpha are parameters of the paper's own scheme: give weights='residual' with "
                "them, or leave them as they are"
            )
        return form

    def _two_stage(self, rows: np.ndarray, request: SparseRequest) -> WeightedFit:
        """Robust weights, and sparse PCA of the weighted rows."""
        rng = generator_of(self.random_state)
        if min(rows.shape) < self.n_components:
            sizes = f"n_samples={rows.shape[0]}, n_features={rows.shape[1]}"
            raise TooManyComponents(self.n_components, min(rows.shape), "is more than the data have", sizes)
        found = two_stage_weights(rows, self.n_components, self.n_directions, rng)
        location = row_mean(rows, found.values)
        scatter = scatter_of(rows, found.values, location, products_only=math.isinf(request.l2))
        return fit_components(scatter, request), found.values, location, found.converged

    def _find_outliers(self, rows: np.ndarray) -> None:
        self.orthogonal_distance_ = self._distances(rows)
        self.cutoff_ = math.sqrt(cutoff(self.orthogonal_distance_**2))
        self.offset_ = -self.cutoff_
        self.outliers_ = self.orthogonal_distance_ > self.cutoff_
        if self.weights == "two-stage":
            warn_if_many(float(np.mean(self.weights_ < 0.5)))

    def _distances(self, rows: np.ndarray) -> np.ndarray:
        to_mean, to_plane = self._squared_distances(rows)
        return np.sqrt(without_rounding(to_plane, to_mean))

    def score_samples(self, X: Any) -> np.ndarray:
        """Minus the distance of each row to the plane of the components: the lower, the more of an outlier.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        return -self._distances(self._rows(X).astype(np.float64, copy=False))

    @property
    def _least_score(self) -> float:
        return self.offset_

    def fit_predict(self, X: Any, y: Any = None) -> np.ndarray:
        """Fit to X, and return +1 for each normal row and -1 for each outlier.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        ndarray of int of shape (n_samples,)
        """
        return self.fit(X).predict(X)


def _residual(rows: np.ndarray, request: SparseRequest, form: ResidualForm) -> WeightedFit:
    """Components by the paper's own scheme, each with its own weights; the mean of these is returned."""
    location = row_mean(rows, None)
    found, own_weights = residual_components(rows - location, request, form)
    weights = own_weights.mean(axis=1)
    return describe(scatter_of(rows, weights, location), found, found, request), weights, location, True
