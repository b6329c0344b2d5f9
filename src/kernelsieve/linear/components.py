"""What every sparse PCA shares: its parameters, scores, rows from scores, errors."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from ..arrays import FLOATS, Array, on_host, row_dot
from ..fit.parameters import MeantParameters, at_least, estimator, one_of, parameter
from ..fit.saving import SavesItself
from ..fit.validation import checked_scores
from ..kernels.base import dense
from ..rows.dispatch import validate_rows
from ..rows.memory import check_spread, finite
from .fitting import SparseComponents
from .scatter import cancels

POSITIVE_OR_INFINITE = Interval(Real, 0, None, closed="both")


@estimator
class SparsityParameters:
    """What every sparse PCA takes."""

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
    """Use of fitted components: unit rows V (M, p) about a mean, not orthogonal to each other."""

    _file_layout = {
        "n_features_in_": "int=d",
        "feature_names_in_": "strings[d] optional",
        "components_": "float[M, d]",
        "mean_": "float[d]",
        "n_nonzero_": "int[M]",
        "explained_variance_": "float[M]~",
        "explained_variance_ratio_": "float[M]~",
        "alpha_": "float | float[M]~",  # of the size of the rows' squares
        "n_iter_": "int",
        "converged_": "bool",
    }

    components_: np.ndarray
    mean_: np.ndarray

    def _training_rows(self, X: Any) -> Array:
        """Rows to be fitted to, checked, with the number of columns and their names settled by them."""
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
        ``"projection"``: (x - mean) V', the scores whose variances sparse PCA is about; where components are not
        orthogonal they count what two components share twice.

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
        """(V V')^+: empty components get none of the score."""
        return np.linalg.pinv(self.components_ @ self.components_.T, hermitian=True)

    def _centred_product(self, rows: Array, weights: np.ndarray) -> np.ndarray:
        """(x - mean) weights, in float64: the mean may be large, and what is left after it small."""
        if scipy.sparse.issparse(rows):
            return (rows.astype(np.float64) @ weights - self.mean_ @ weights).astype(rows.dtype, copy=False)
        return ((rows - self.mean_) @ weights).astype(rows.dtype, copy=False)

    def _squared_distances(self, rows: Array) -> tuple[np.ndarray, np.ndarray]:
        """Of each row, to the mean and to the plane."""
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
