"""compress and CompressedKernelPCA: fitted models reduced to fewer points, with nearly the same scores."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.base import _fit_context
from sklearn.decomposition import KernelPCA as SklearnKernelPCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils import assert_all_finite
from sklearn.utils._param_validation import validate_parameter_constraints
from sklearn.utils.validation import check_is_fitted

from ..arrays import Array, on_host, take_rows
from ..compression.error import ExpansionError
from ..compression.methods import (
    COMPRESSION_METHODS,
    Compression,
    CompressionRequest,
    compress_expansion,
    error_on,
    unchanged,
)
from ..errors import CompressionWarning, warn
from ..fit.captured_ratio import CAPTURED, CapturedRatio
from ..fit.expansion import KernelExpansion
from ..fit.interpret import RidgeMap, learned_preimage
from ..fit.parameters import INNER_SHARE, at_least, estimator, one_of, parameter, unchanged_on_failure
from ..kernels import kernel_of
from ..rows.checks import finite
from ..rows.dispatch import RowRules, rows_of
from ..rows.rows import ArrayRows
from ..threads import one_blas_thread
from .base import SETTLING_ROWS, KernelTransformer
from .kernel_pca import KernelPCA
from .sklearn_kernel_pca import bound_callable

# Scores are compared on at most COMPARED_ROWS rows, or COMPARED_ROWS_PER_POINT rows for each point if that is more.
COMPARED_ROWS, COMPARED_ROWS_PER_POINT = 5000, 50
# Attributes of the original that remain valid, because the compressed model reproduces its scores.
OF_ANY_FIT = ("n_features_in_", "feature_names_in_", "gamma_", "eigenvalues_")
INHERITED = (*OF_ANY_FIT, "n_samples_seen_", "explained_variance_", "explained_variance_ratio_")
LEAST_R2 = 0.9  # users are warned of scores with a smaller R^2
MAX_NAMED = 8  # largest number of components that a warning names
OF_KERNEL_PCA = ("kernel", "gamma", "degree", "coef0", "kernel_params", "center")  # common to all kernel PCA models
# Attributes of a fitted KernelPCA of scikit-learn.
SKLEARN_STATE = (*OF_ANY_FIT, "eigenvectors_", "X_fit_", "_centerer")


@estimator
class CompressedKernelPCA(KernelTransformer):
    """Exact kernel PCA compressed to a few points: the estimator that `compress` returns.

    Finds points S and coefficients B such that the scores k(x, S) B - b come closest to those of the original model,

        min  sum_n |z(x_n) - k(x_n, S) B + b|^2         on rows, or, without any,         sum_k |v_k - v'_k|^2

    `fit` runs exact kernel PCA on the rows and compresses the result; `compress` takes a model that is already fitted.
    Compression preserves the scores, up to the error in `compression_`.  It does not preserve the components as well:
    they are no longer unit vectors and may be much farther from the original ones than the scores are.  A few points
    can reproduce the scores of all rows to 2 % and yet capture only two thirds of the variance.  `score`,
    `reconstruction_error` and `captured_ratio_` show this loss, because they are measured along the components after
    these have been made orthonormal.

    Cost: `fit` computes exact kernel PCA, which takes O(N^2 (d + M)) time and stores N^2 numbers.  `SparseKernelPCA`
    avoids both.  The main use of this class is `compress`, for models that are already fitted.

    Parameters
    ----------
    n_components : int or None, default=2
        Number of components; None keeps all components of nonzero variance.
    n_support : int or "auto", default="auto"
        Number of support points; "auto" takes the fewest that reach `target_error`.
    target_error : float, default=0.05
        Largest relative error of the scores that n_support="auto" allows.
    method : {"auto", "optimized", "removal", "l1", "eigen-removal"}, default="auto"
        As in `compress`.
    kernel : str or callable, default="rbf"
    gamma : float, "median", "scale" or None, default="median"
    degree, coef0 : float, default=3, 1
    kernel_params : dict, optional
    center : bool, default=True
        The parameters from `kernel` to `center` have the same meaning as in `KernelPCA`.
    max_iter : int, default=50
        Largest number of L-BFGS steps if points are moved.
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Number of threads for passes over the rows.

    Attributes
    ----------
    compression_ : dict
        A summary of the compression: ``method``; ``n_support_before`` and ``n_support_after``; ``error``, the relative
        error |z - z'| / |z - mean z| of each component's scores; ``total_error``, that of all scores together; ``r2``,
        1 - error^2 for each component; ``explained_before`` and ``explained``, the shares of the total variance that
        the original components explained and the compressed ones explain; ``measured_on``, "training rows", "X",
        "support points" or "feature space" (without rows: then the error is |v - v'| / |v|, and ``explained`` is a
        lower bound); ``n_rows``, the number of these rows; and, for "removal", ``curve``, the errors with the first 0,
        1, 2, ... points.
    expansion_, support_vectors_, n_support_, dual_coef_, offset_ : as in all models
    support_ : ndarray of shape (m,) or None
        Row numbers of the support points; None if the points are not rows.
    eigenvalues_, explained_variance_, explained_variance_ratio_ : ndarray of shape (M,)
        Those of the original model; `compression_` says how much of them is left.
    captured_ratio_, captured_ratio_kind_, captured_ratio_n_samples_
        Captured variance divided by that of exact kernel PCA: the ratio of the original model times the share of its
        captured variance that is left along the compressed components, made orthonormal.  Available only if the error
        was measured on rows.
    gamma_, n_samples_seen_, n_features_in_, feature_names_in_ : those of the original model
    n_iter_ : int
    converged_ : bool

    References
    ----------
    Schoelkopf, Mika, Burges, Knirsch, Mueller, Raetsch & Smola (1999), Input space versus feature space in kernel-based
    methods.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kernelsieve import CompressedKernelPCA
    >>> X = load_digits().data[:500]
    >>> model = CompressedKernelPCA(n_components=5, n_support=20, random_state=0).fit(X)
    >>> model.n_support_, bool(model.compression_["total_error"] < 0.03)
    (20, True)
    """

    _file_layout = {"compression_": "dict"}

    n_components: int | None = parameter(2, at_least(1), None, positional=True)
    n_support: int | str = parameter("auto", at_least(1), one_of("auto"))
    target_error: float = parameter(0.05, INNER_SHARE)
    method: str = parameter("auto", one_of("auto", *COMPRESSION_METHODS))
    max_iter: int = parameter(50, at_least(1))

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute exact kernel PCA of the rows of X, and compress it.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows; for a precomputed kernel their square gram.
        y : ignored

        Returns
        -------
        self
        """
        with unchanged_on_failure(self):
            rows = rows_of(X, RowRules.of(self))
            if not isinstance(rows, ArrayRows):
                raise TypeError("CompressedKernelPCA fits exact kernel PCA first, of rows in memory: give one array")
            shared = {name: getattr(self, name) for name in ("n_components", *OF_KERNEL_PCA, "random_state", "n_jobs")}
            if not kernel_of(self.kernel).precomputed:
                # The kernel is determined here first, because the errors are clearer than scikit-learn's, and because
                # gamma may name a rule that KernelPCA does not have.
                _, gamma = self._kernel_for(finite(rows.X[:SETTLING_ROWS]), None)
                if isinstance(self.gamma, str) and self.gamma not in ("median", "scale"):
                    shared["gamma"] = gamma
            self._compress(KernelPCA(**shared).fit(rows.X), None)
        self._warn()
        return self

    def _compress(self, model: Any, X: Any) -> None:
        """Compress a fitted model, and store the result in this estimator."""
        expansion, rng = model.expansion_, self._rng()
        if not expansion.n_components:
            raise ValueError("the model has no components of nonzero variance: there is nothing to compress")
        n_support = None if isinstance(self.n_support, str) else self.n_support
        rows, kind = _comparison_rows(model, X, n_support or 0, rng)
        with one_blas_thread():
            error = error_on(expansion, rows, kind, self._n_threads())
            if n_support is not None and n_support >= expansion.n_support:
                found = unchanged(expansion)
            else:
                _check_number_of_rows(error, n_support)
                target = None if n_support is not None else self.target_error
                found = compress_expansion(
                    expansion, error, CompressionRequest(self.method, n_support, target, self.max_iter), rng
                )
            self._adopt(model, error, found)

    def _warn(self) -> None:
        """Warn if the search had not converged, and of components whose scores are no longer close to the original."""
        if not self.converged_:
            warn(
                f"moving the points had not converged after max_iter={self.max_iter} steps: more would still lower the "
                "error of the scores",
                ConvergenceWarning,
            )
        r2 = self.compression_["r2"]
        lost = np.flatnonzero(r2 < LEAST_R2)
        if not len(lost):
            return
        named = ", ".join(f"{number + 1} ({r2[number]:.2f})" for number in lost[:MAX_NAMED])
        n_support, n_components = self.expansion_.n_support, len(r2)
        few = " You have fewer points than components." if n_support < n_components else ""
        warn(
            f"{n_support} points keep little of component{'s' if len(lost) > 1 else ''} {named}"
            f"{', ...' if len(lost) > MAX_NAMED else ''}, with R^2 in brackets.{few} Keep more points, or give "
            "target_error in place of their number",
            CompressionWarning,
        )

    def _adopt(self, model: Any, error: ExpansionError, found: Compression) -> None:
        for name in INHERITED + (CAPTURED if found.expansion is model.expansion_ else ()):
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))
        self.expansion_ = found.expansion
        kept_rows = model.support_ is not None and found.indices is not None
        self.support_ = np.asarray(model.support_)[found.indices] if kept_rows else None
        self.n_iter_ = found.n_steps
        self.converged_ = found.converged
        self.compression_ = {
            "method": found.method,
            "n_support_before": model.n_support_,
            "n_support_after": found.expansion.n_support,
            "error": found.error,
            "total_error": found.total_error,
            "measured_on": error.kind,
            "n_rows": error.n_rows,
        }
        self.compression_ |= _kept(found, getattr(model, "explained_variance_ratio_", None))
        if found.curve is not None:
            self.compression_["curve"] = found.curve
        if found.captured_share is not None and hasattr(model, "captured_ratio_"):
            before = (model.captured_ratio_, *getattr(model, "captured_ratio_interval_", (0.0, 1.0)))
            value, low, high = (min(ratio * found.captured_share, 1.0) for ratio in before)
            kind = "all rows" if error.n_rows == model.n_samples_seen_ else error.kind
            CapturedRatio(value, kind, error.n_rows, (low, high), len(found.error)).store(self)
        self._inverse_map = getattr(model, "_inverse_map", None) or _inverse_map(found.expansion, error)


def _kept(found: Compression, explained: np.ndarray | None) -> dict[str, Any]:
    """R^2 of each component, and the shares of the total variance that the components explained before and explain now.

    On rows, the variance explained now is sum_k lambda_k R^2_k, the variance of the original scores that the new ones
    reproduce.  Without rows, the compressed components are projections of the original ones, v' = P v, and the same sum
    is a lower bound.  With C the covariance, lambda_k the variance along v_k, and Q an orthonormal basis of the new
    components, these capture tr(Q'CQ) >= sum_k lambda_k |Q'v_k|^2 = sum_k lambda_k R^2_k.
    """
    r2 = np.maximum(1.0 - np.minimum(found.error, 1.0) ** 2, 0.0)
    if explained is None:
        return {"r2": r2}
    return {"r2": r2, "explained": float(explained @ r2), "explained_before": float(np.sum(explained))}


def _comparison_rows(model: Any, X: Any, n_support: int, rng: np.random.Generator) -> tuple[Array | None, str]:
    """Rows on which scores are compared (a sample, if there are many), and a word for where they come from."""
    if X is not None:
        rows, kind = on_host(model._rows(X)), "X"
        assert_all_finite(rows.data if scipy.sparse.issparse(rows) else rows, input_name="X")
    elif hasattr(model, "X_fit_"):  # for exact kernel PCA the points are its training rows
        rows, kind = model.expansion_.points, "training rows"
    else:
        return None, "feature space"
    most = max(COMPARED_ROWS, COMPARED_ROWS_PER_POINT * n_support)
    if rows.shape[0] > most:
        rows = take_rows(rows, np.sort(rng.choice(rows.shape[0], most, replace=False)))
    return rows, kind


def _check_number_of_rows(error: ExpansionError, n_support: int | None) -> None:
    least = 2 if n_support is None else n_support + 1
    if error.n_rows < least and error.on_rows:
        raise ValueError(
            f"the scores of {error.n_rows} rows of X do not settle the coefficients of {least - 1} points: give "
            f"at least {least} rows, or no X"
        )


def _inverse_map(expansion: KernelExpansion, error: ExpansionError) -> RidgeMap | None:
    """The ridge map from scores to rows, if the error was measured on rows and the kernel has no better pre-image."""
    if not error.on_rows:
        return None
    rows = error.search_rows
    return learned_preimage(expansion, rows[:: -(-rows.shape[0] // SETTLING_ROWS)], None)


def compress(
    model: Any,
    n_support: int | None = None,
    *,
    target_error: float | None = None,
    method: str = "auto",
    X: Any = None,
    random_state: Any = None,
    max_iter: int = 50,
    n_jobs: int | None = None,
) -> CompressedKernelPCA:
    """Reduce a fitted kernel PCA to fewer points with nearly the same scores, without fitting it again.

    Finds points S and coefficients B that minimise the error of the scores on rows,

        sum_n |z(x_n) - k(x_n, S) B + b|^2

    These are the training rows if the model holds them, as exact kernel PCA does, or the rows `X`.  Without rows, the
    error of the components in feature space is minimised, sum_k |v_k - v'_k|^2.  The reported error is measured on the
    same rows.  On other rows it is a little larger; with a narrow kernel and few rows, it is several times larger.

    Cost: n is the number of rows (at most 5000, or 50 per point if that is more), N that of the original points, and
    r = max(200, 4 m) that of candidates.  The original scores take n N kernel values, the choice of points takes
    O(n r^2 + r^3) time, and each step of "optimized" O(n m (d + m)).

    Parameters
    ----------
    model : fitted estimator
        A kernel PCA of this package, or scikit-learn's `KernelPCA`.
    n_support : int, optional
        Number of points to keep.
    target_error : float, optional
        Largest relative error of the scores; instead of `n_support`, the fewest points that reach it are kept.
    method : {"auto", "optimized", "removal", "l1", "eigen-removal"}, default="auto"
        "optimized" moves points freely by L-BFGS to minimise the error.  The other methods keep some of the points of
        the model: "removal" by backward elimination with the exact increase of the error, "l1" by a group lasso, and
        "eigen-removal", for comparison, by the smallest-eigenvector rule of Schoelkopf et al. (1999).  "auto" is
        "optimized" if the kernel has a gradient, otherwise "removal".
    X : array-like or sparse matrix of shape (n_samples, n_features), optional
        Rows on which the scores should stay the same; for a precomputed kernel, their kernel values.
    random_state : int, RandomState or None, default=None
    max_iter : int, default=50
        Largest number of L-BFGS steps of "optimized".
    n_jobs : int or None, default=None
        Number of threads for passes over the rows.

    Returns
    -------
    CompressedKernelPCA
        A fitted estimator, whose `compression_` has the error.

    References
    ----------
    Schoelkopf, Mika, Burges, Knirsch, Mueller, Raetsch & Smola (1999), Input space versus feature space in kernel-based
    methods.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.decomposition import KernelPCA
    >>> from kernelsieve import compress
    >>> X = load_digits().data / 16
    >>> model = KernelPCA(n_components=5, kernel="rbf").fit(X)
    >>> small = compress(model, 20, random_state=0)
    >>> small.compression_["n_support_before"], small.n_support_
    (1797, 20)
    >>> bool(small.compression_["total_error"] < 0.01)
    True
    """
    _check_request(n_support, target_error, method, random_state, max_iter, n_jobs)
    original = _original(model)
    if n_support is not None and n_support > original.n_support_:
        warn(f"the model has {original.n_support_} points, no more than n_support={n_support}: it is returned as it is")
    compressed = CompressedKernelPCA(
        original.expansion_.n_components,
        n_support="auto" if n_support is None else n_support,
        method=method,
        max_iter=max_iter,
        random_state=random_state,
        n_jobs=n_jobs,
        **{name: getattr(original, name) for name in OF_KERNEL_PCA},
    )
    if target_error is not None:
        compressed.target_error = target_error
    compressed._compress(original, X)
    compressed._warn()
    return compressed


def _check_request(
    n_support: Any, target_error: Any, method: Any, random_state: Any, max_iter: Any, n_jobs: Any
) -> None:
    if (n_support is None) == (target_error is None):
        raise ValueError(
            "say how far to compress: give n_support, a number of points, or target_error, the relative error that the "
            "scores may have" + ("" if n_support is None else ", and not both")
        )
    given = {"n_support": n_support, "target_error": target_error, "method": method}
    given |= {"random_state": random_state, "max_iter": max_iter, "n_jobs": n_jobs}
    constraints = {name: CompressedKernelPCA._parameter_constraints[name] for name in given}
    constraints["n_support"] = [at_least(1)]  # not "auto", which target_error stands for
    for name, value in given.items():
        if isinstance(value, bool | np.bool_):
            raise ValueError(f"The {name!r} parameter of compress must not be a bool. Got {value!r}")
    asked = {name: value for name, value in given.items() if value is not None or name in ("method", "max_iter")}
    validate_parameter_constraints(constraints, asked, caller_name="compress")


def _original(model: Any) -> Any:
    """The fitted model as an estimator of this package."""
    if isinstance(model, Pipeline):
        raise TypeError(
            "compress takes the kernel PCA itself, not the pipeline it stands in: give its last step, pipeline[-1], "
            "and put the result in its place"
        )
    ours = hasattr(type(model), "support_vectors_")
    if not ours and not isinstance(model, SklearnKernelPCA):
        raise TypeError(
            f"compress takes a fitted model of kernelsieve or scikit-learn's KernelPCA, not {type(model).__name__}"
        )
    check_is_fitted(model)
    return model if ours else adopt(model)


def adopt(model: SklearnKernelPCA) -> KernelPCA:
    """A KernelPCA of this package that shares the arrays of scikit-learn's fitted KernelPCA."""
    adopted = KernelPCA()
    adopted.set_params(**{name: getattr(model, name) for name in adopted.get_params() if hasattr(model, name)})
    for name in SKLEARN_STATE:
        if hasattr(model, name):
            setattr(adopted, name, getattr(model, name))
    if kernel_of(model.kernel).precomputed:
        # scikit-learn has centred the gram in place, which is undone here.
        means = model._centerer.K_fit_rows_
        adopted.X_fit_ = model.X_fit_ + means + means[:, None] - model._centerer.K_fit_all_
    adopted._callable = bound_callable(model.kernel, model.kernel_params, model.X_fit_)
    adopted._store()
    expansion = adopted.expansion_
    diagonal = expansion.kernel.diagonal_of(expansion.points)
    total = float(np.mean(diagonal, dtype=np.float64)) - float(model._centerer.K_fit_all_)
    adopted.explained_variance_ = model.eigenvalues_ / expansion.n_support
    adopted.explained_variance_ratio_ = adopted.explained_variance_ / (total if total > 0 else np.nan)
    return adopted
