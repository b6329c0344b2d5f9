"""Exact kernel PCA: scikit-learn's own, with its model also written as a kernel expansion.

scikit-learn keeps unit eigenvectors u_k of the centred gram H K H, eigenvalues l_k, and transforms by centring
the new kernel rows.  With a_k = H u_k / sqrt(l_k), H = I - 11'/N, the same scores are

    z(x) = k(x, X) A - mean over training rows of k(., X) A

to rounding for any eigenvectors, because H moves from the kernel rows onto the coefficients: the form that every
model of this package has, with all N rows as support.  What is here is that rewriting, `center=False`, and a few
more ways to name a kernel; the fit is scikit-learn's.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, Self

import numpy as np
import scipy.sparse
from scipy.linalg import LinAlgWarning
from scipy.sparse.linalg import ArpackError
from sklearn.decomposition import KernelPCA as _KernelPCA
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.preprocessing import KernelCenterer
from sklearn.utils import check_array, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import svd_flip
from sklearn.utils.validation import _check_psd_eigenvalues

from ..arrays import FLOATS, Array, as_float64, canonical, row_dot, top_eigh
from ..fit.advice import SHOWS_ROUNDING, warn_of_rounding
from ..fit.expansion import KernelExpansion
from ..fit.sample import default_sample_size
from ..fit.unchanged import unchanged_on_failure
from ..kernels import (
    NAMED_KERNELS,
    RBF,
    CallableKernel,
    Cosine,
    Kernel,
    Precomputed,
    bind_callable,
    kernel_type,
    named_kernel,
)
from ..kernels.width import resolve_gamma
from ..rows.memory import ArrayRows
from ..rows.scale import check_spread, finite
from ..rows.text_columns import text_columns_named, validate_rows
from ..solvers.whitening import check_finite_kernel
from ..warn import KernelWarning, warn
from .fitted import FittedExpansion

# gamma |x|^2 from which on distances are taken about the rows' centre, or by differences.
FAR_OUT = 1e6
SHORT_ROW = 1e-5  # scikit-learn's cosine takes rows for zero that are shorter than ten roundings of float32


class KernelPCA(FittedExpansion, _KernelPCA):
    """Exact kernel PCA: a drop-in for scikit-learn's, and the reference for every sparse model here.

    Finds the M components v_k = sum_i A_ik phi(x_i), v_k' v_l = delta_kl, over all N training rows that maximise
    the captured variance sum_k var(v_k' phi(x)): the leading eigenvectors of the centred N x N gram.

    Every argument, default, attribute and method of `sklearn.decomposition.KernelPCA` is there and does what it
    does there; `center`, the "laplacian" kernel, vectorised callables, gamma "median" and "scale", the attributes
    of a kernel expansion, `reconstruction_error`, `score` and `save` are added.

    Cost: O(N^2 (d + M)) to fit ("arpack"; O(N^3) "dense") and N^2 numbers of memory; N (d + M) a row to transform.
    `SparseKernelPCA` is the model for more rows than that allows.

    Parameters
    ----------
    n_components : int, default=None
        Number of components; None keeps all of nonzero variance.
    kernel : str or callable, default="linear"
        "linear", "poly", "rbf", "sigmoid", "cosine", "laplacian", "precomputed", or a callable: on two rows,
        ``k(x, y) -> float``, or vectorised, ``k(X, Y) -> (n, m)``.
    gamma : float, "median", "scale" or None, default=None
        Kernel coefficient.  None: 1/n_features; "median": 1/(2 median distance^2) over a random sample of rows;
        "scale": 1/(n_features * X.var()).
    degree, coef0 : float, default=3, 1
        Of the "poly" (and "sigmoid") kernel.
    kernel_params : dict, default=None
        Keyword arguments of a callable kernel.
    alpha : float, default=1.0
        Ridge of the inverse map, when `fit_inverse_transform=True`.
    fit_inverse_transform : bool, default=False
        Learn the map from scores to rows that `inverse_transform` needs.
    eigen_solver : {"auto", "dense", "arpack", "randomized"}, default="auto"
    tol : float, default=0
        Of arpack.
    max_iter : int, default=None
        Of arpack.
    iterated_power : int or "auto", default="auto"
        Of the randomized solver.
    remove_zero_eig : bool, default=False
        Drop components of zero variance (always done when `n_components=None`).
    random_state : int, RandomState or None, default=None
        Of arpack, the randomized solver, and the sample that gamma="median" looks at.
    copy_X : bool, default=True
        Keep a copy of X; with False, a reference, and a precomputed gram may be written to.
    n_jobs : int, default=None
        Parallel jobs for kernel values.
    center : bool, default=True
        Centre the features; with False, components of the raw gram, as `SparseKernelPCA(center=False)`.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (M,)
        Of the centred gram, descending.
    eigenvectors_ : ndarray of shape (n_samples, M)
        Of the centred gram, of unit length.
    dual_coef_ : ndarray
        With `fit_inverse_transform=True` scikit-learn's: coefficients of the *inverse* map, (n_samples,
        n_features).  Otherwise, as in all estimators here, those of the components over the support,
        (n_samples, M).  `expansion_.coef` is the latter in both cases.
    X_transformed_fit_ : ndarray of shape (n_samples, M)
        Scores of the training rows; only with `fit_inverse_transform=True`.
    X_fit_ : {ndarray, sparse matrix} of shape (n_samples, n_features)
        The training rows.  For a precomputed kernel the gram itself, to rounding (scikit-learn leaves it centred).
    gamma_ : float
    expansion_ : KernelExpansion
        The fitted model, all training rows as support.  Its points are `X_fit_`, not a copy.
    support_vectors_ : the points of `expansion_`
    support_ : ndarray of shape (n_samples,)
        0, ..., n_samples - 1.
    n_support_ : int
    offset_ : ndarray of shape (M,)
    explained_variance_ : ndarray of shape (M,)
        Variance of the scores on the training rows, ``eigenvalues_ / n_samples``.
    explained_variance_ratio_ : ndarray of shape (M,)
        Its share of the total feature-space variance; 0 where there is none.
    captured_ratio_ : float
        1.0: this is the reference.
    captured_ratio_kind_ : "exact"
    captured_ratio_n_samples_, n_samples_seen_, n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names

    References
    ----------
    Schoelkopf, Smola & Mueller (1998), Nonlinear component analysis as a kernel eigenvalue problem.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from kernelsieve import KernelPCA
    >>> X = load_iris().data
    >>> model = KernelPCA(n_components=2, kernel="rbf", gamma="median").fit(X)
    >>> model.transform(X).shape
    (150, 2)
    >>> bool(np.allclose(model.expansion_.transform(X), model.transform(X)))
    True
    >>> round(float(model.explained_variance_ratio_.sum()), 2) == round(model.score(X), 2)
    True
    """

    _file_layout = {
        "X_fit_": "rows[m, p]",
        "eigenvalues_": "positive[M]",
        "eigenvectors_": "float[m, M]",
        "dual_coef_": "rows[m, *] optional",
        "X_transformed_fit_": "float[m, M] optional",
        "_centerer": "KernelCenterer[m] | Uncentered",
        "_vectorized": "none optional",
    }

    _parameter_constraints: dict[str, Any] = {
        **_KernelPCA._parameter_constraints,
        "kernel": [StrOptions(set(NAMED_KERNELS)), callable],
        "gamma": [Interval(Real, 0, None, closed="left"), StrOptions({"median", "scale"}), None],
        "center": ["boolean"],
    }
    _centerer: Any  # scikit-learn's KernelCenterer, or Uncentered
    _vectorized: CallableKernel | None = None  # a callable kernel that takes blocks of rows

    def __init__(
        self,
        n_components: int | None = None,
        *,
        kernel: Any = "linear",
        gamma: float | str | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        alpha: float = 1.0,
        fit_inverse_transform: bool = False,
        eigen_solver: str = "auto",
        tol: float = 0,
        max_iter: int | None = None,
        iterated_power: int | str = "auto",
        remove_zero_eig: bool = False,
        random_state: Any = None,
        copy_X: bool = True,
        n_jobs: int | None = None,
        center: bool = True,
    ) -> None:
        super().__init__(
            n_components,
            kernel=kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            kernel_params=kernel_params,
            alpha=alpha,
            fit_inverse_transform=fit_inverse_transform,
            eigen_solver=eigen_solver,
            tol=tol,
            max_iter=max_iter,
            iterated_power=iterated_power,
            remove_zero_eig=remove_zero_eig,
            random_state=random_state,
            copy_X=copy_X,
            n_jobs=n_jobs,
        )
        self.center = center

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components of the rows of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; the square gram for a precomputed kernel.
        y : ignored

        Returns
        -------
        self
        """
        with unchanged_on_failure(self):
            self._kernel_open = True  # to be settled at the first kernel values, which are those of the rows
            with text_columns_named(self, X):
                super().fit(canonical(X) if scipy.sparse.issparse(X) and X.format == "csr" else X, y)
            self.__dict__.pop("_kernel_open", None)
            self._store()
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Scores of the rows of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        with text_columns_named(self, X):
            return super().transform(X)

    def _get_kernel(self, X: Any, Y: Any = None) -> np.ndarray:
        X = finite(canonical(X))
        if self.__dict__.pop("_kernel_open", False):
            if self.kernel != "precomputed":
                check_spread(X)
            self._vectorized = _bind_vectorized(self.kernel, self.kernel_params, X)
            if isinstance(self.gamma, str):
                self.gamma_ = self._gamma(X)
        if self.kernel == "rbf" and self._loses_distances(X if Y is None else Y):
            return RBF(float(self.gamma_))(_floating(X), _floating(X if Y is None else Y))
        if self.kernel == "cosine" and (_has_short_rows(X) or (Y is not None and _has_short_rows(Y))):
            return Cosine()(_floating(X), _floating(X if Y is None else Y))
        if self._vectorized is None and kernel_type(self.kernel).metric != "manhattan":
            return super()._get_kernel(X, Y)
        rows = _floating(X)
        points = rows if Y is None else _floating(Y)
        if self._vectorized is not None:
            return np.array(self._vectorized(rows, points))  # a copy: it is centred in place later
        block = super()._get_kernel(_narrow_indices(rows), _narrow_indices(points))
        return block.astype(np.result_type(rows.dtype, points.dtype), copy=False)  # float64 for any rows

    def _loses_distances(self, points: Array) -> bool:
        """Whether scikit-learn's distances, |x|^2 + |s|^2 - 2 x's, lose 1e-9 of a width or more to rounding."""
        rows = as_float64(_floating(points))
        return float(self.gamma_) * float(row_dot(rows, rows).max()) > FAR_OUT

    def _gamma(self, X: Array) -> float:
        if not kernel_type(self.kernel).uses_gamma:
            return 1.0
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        rows = ArrayRows(_floating(X)).sample(default_sample_size(0), rng)
        return resolve_gamma(self.gamma, kernel_type(self.kernel), rows.values, rows.weights)

    def _fit_transform_in_place(self, K: np.ndarray) -> np.ndarray:
        if not self.center:
            self._centerer = Uncentered()
        restore = kernel_type(self.kernel).precomputed and self.center
        row_means = np.reshape(K.mean(axis=1), (-1, 1)) if restore else 0.0
        length = 0.0
        if self.kernel != "precomputed":  # a gram that was given is checked by whoever centres it
            check_finite_kernel(K)
            length = float(np.abs(np.diagonal(K)).max())
        K = self._decomposed(K)
        self.explained_variance_ = self.eigenvalues_ / K.shape[0]
        # An indefinite kernel's trace is less than what its positive part holds.
        total = max(float(np.trace(K, dtype=np.float64)) / K.shape[0], float(self.explained_variance_.sum()))
        self.explained_variance_ratio_ = self.explained_variance_ / (total if total > 0 else 1.0)
        if total <= SHOWS_ROUNDING[K.dtype.itemsize] * length:
            warn_of_rounding(total / length if length > 0 else 0.0)
        if restore:
            # K may be X itself, about to become X_fit_ and the expansion's points: the gram that was given
            K += self._centerer.K_fit_rows_
            K += row_means
            K -= self._centerer.K_fit_all_
        return K

    def _decomposed(self, K: np.ndarray) -> np.ndarray:
        """scikit-learn's fit to the gram, whose errors and warnings speak of the solver that was asked for."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="k >= N", category=RuntimeWarning)  # a dense solver steps in
            try:
                K = super()._fit_transform_in_place(K)
            except ArpackError as error:
                raise ValueError(
                    f"eigen_solver='arpack' cannot decompose the gram of these rows ({error}): give "
                    "eigen_solver='dense'"
                ) from error
            except ValueError as error:  # LAPACK's subsets lose members of a cluster of equal eigenvalues, here all
                if "zero-size" not in str(error):
                    raise
                self._decompose_whole(K)
        if len(self.eigenvalues_) < self._n_wanted(K) and not (self.remove_zero_eig or self.n_components is None):
            self._decompose_whole(K)
        return K

    def _n_wanted(self, K: np.ndarray) -> int:
        return K.shape[0] if self.n_components is None else min(K.shape[0], self.n_components)

    def _decompose_whole(self, K: np.ndarray) -> None:
        """All eigenvectors of the centred gram, of which the leading ones are kept."""
        values, vectors = top_eigh(K, self._n_wanted(K))
        self.eigenvalues_ = _check_psd_eigenvalues(values, enable_warnings=False)
        self.eigenvectors_ = svd_flip(u=vectors, v=None)[0]

    def _fit_inverse_transform(self, X_transformed: np.ndarray, X: Any) -> None:
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", LinAlgWarning)
                super()._fit_inverse_transform(X_transformed, X)
        except (np.linalg.LinAlgError, ValueError) as error:  # singular, or kernel values of the scores that overflow
            raise ValueError(
                f"the inverse map cannot be found with alpha={self.alpha}, the ridge on the gram of the scores: give a "
                "larger one, or fit_inverse_transform=False"
            ) from error
        for one in caught:
            if not issubclass(one.category, LinAlgWarning):
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
                continue
            warn(
                f"the inverse map is badly determined: with alpha={self.alpha}, the ridge on it, the gram of the "
                "scores has hardly an inverse. Give a larger alpha",
                KernelWarning,
            )

    def _store(self) -> None:
        n_samples = self.X_fit_.shape[0]
        nonzero = self.eigenvalues_ > 0
        coef = np.zeros(self.eigenvectors_.shape)
        coef[:, nonzero] = self.eigenvectors_[:, nonzero] / np.sqrt(self.eigenvalues_[nonzero])
        offset, mean_coef = np.zeros(coef.shape[1]), None
        if self.center:
            # H u = u for a true eigenvector; for one of nearly zero eigenvalue only this makes z(x) theirs
            coef -= coef.mean(axis=0)
            offset = self._centerer.K_fit_rows_.astype(np.float64) @ coef
            mean_coef = np.full(n_samples, 1.0 / n_samples)
        self.expansion_ = KernelExpansion(self._expansion_kernel(), _floating(self.X_fit_), coef, offset, mean_coef)
        if not self.fit_inverse_transform:
            self.dual_coef_ = coef
        self.support_ = np.arange(n_samples)
        self.captured_ratio_ = 1.0
        self.captured_ratio_interval_ = (1.0, 1.0)
        self.captured_ratio_kind_ = "exact"
        self.captured_ratio_n_samples_ = n_samples
        self.n_samples_seen_ = n_samples

    def check_loaded(self, error: type[ValueError]) -> None:
        """Raise `error` unless what was read from a file has the inverse map that its parameters promise."""
        if not self.fit_inverse_transform:
            return
        found = [getattr(vars(self).get(name), "shape", None) for name in ("X_transformed_fit_", "dual_coef_")]
        n_samples, n_components = self.expansion_.coef.shape
        if found != [(n_samples, n_components), (n_samples, self.n_features_in_)]:
            raise error(f"the KernelPCA in the file has no inverse map of its rows: its parts have shapes {found}")

    def _expansion_kernel(self) -> Kernel:
        if self._vectorized is not None:
            return self._vectorized
        if callable(self.kernel):  # scikit-learn's row-pair form, its conventions for sparse rows included
            return CallableKernel(partial(pairwise_kernels, metric=self.kernel), dict(self.kernel_params or {}))
        if kernel_type(self.kernel).precomputed:
            n_samples = self.X_fit_.shape[0]
            return Precomputed(tuple(range(n_samples)), n_samples)
        return named_kernel(self.kernel, gamma=self.gamma_, degree=self.degree, coef0=self.coef0)

    def _rows(self, X: Any) -> Array:
        return validate_rows(self, X, reset=False, accept_sparse="csr", dtype=FLOATS)


@dataclass(frozen=True)
class Uncentered:
    """Stands where scikit-learn has a KernelCenterer, and leaves kernel values as they are."""

    def fit(self, K: np.ndarray) -> Self:
        KernelCenterer().fit(K)  # for its checks: square, dense, finite
        return self

    def transform(self, K: np.ndarray, copy: bool = True) -> np.ndarray:
        return check_array(K, dtype=FLOATS)


def _floating(X: Array) -> Array:
    """X itself where it is float32 or float64, else a float64 copy: products of small integers overflow."""
    X = X if scipy.sparse.issparse(X) else np.asarray(X)
    return X if X.dtype in FLOATS else as_float64(X)


def _has_short_rows(X: Array) -> bool:
    """Whether scikit-learn's cosine would take a row for zero that is not."""
    rows = as_float64(_floating(X))
    squares = row_dot(rows, rows)
    return bool(np.any((squares > 0) & (squares < SHORT_ROW**2)))


def _narrow_indices(X: Any) -> Any:
    """Sparse rows with 32-bit indices where they fit: scikit-learn's Manhattan distance knows no others."""
    if not scipy.sparse.issparse(X) or max(X.nnz, *X.shape) > np.iinfo(np.int32).max:
        return X
    return type(X)((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)


def _bind_vectorized(kernel: Any, keywords: dict[str, Any] | None, X: Array) -> CallableKernel | None:
    """The kernel as a function of two blocks of rows, or None where it is not one."""
    if not callable(kernel):
        return None
    try:
        bound = bind_callable(kernel, keywords, _floating(X))
    except ValueError:
        return None  # scikit-learn calls it row by row, and shows the user's own error
    return bound if bound.vectorized else None
