"""Exact kernel PCA: scikit-learn's own, with its model also written as a kernel expansion.

scikit-learn keeps unit eigenvectors u_k of the centred gram H K H, eigenvalues l_k, and transforms by centring
the new kernel rows.  With a_k = H u_k / sqrt(l_k), H = I - 11'/N, the same scores are

    z(x) = k(x, X) A - mean over training rows of k(., X) A

to rounding for any eigenvectors, because H moves from the kernel rows to the coefficients: this is the form of every
model of this package, with all N rows as support.  This file has that rewriting, `center=False`, and a few more ways
to specify a kernel; the fit is scikit-learn's, with the repairs of `sklearn_kernel_pca.py` where its numbers fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

from ..arrays import FLOATS, Array, canonical, is_foreign, on_host
from ..fit.captured_ratio import CapturedRatio
from ..fit.expansion import KernelExpansion
from ..fit.parameters import SavesItself, at_least, estimator, forget_fit, one_of, parameter, unchanged_on_failure
from ..kernels import NAMED_KERNELS, Kernel, is_function, kernel_of, named_kernel
from ..rows import in_blocks, mapped
from ..rows.dispatch import text_columns_named, validate_rows
from ..rows.kinds import floats_there, is_on_host
from ..rows.rows import is_out_of_memory
from .expansion_api import FittedExpansion, MeasuresAgreement
from .sklearn_kernel_pca import GuardedKernelPCA, floating


@contextmanager
def fits_on_the_device(X: Any) -> Iterator[None]:
    """Replace a device's out-of-memory error by advice."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        n_rows = int(X.shape[0])
        raise MemoryError(
            f"exact kernel PCA needs the gram of all {n_rows:,} rows, {n_rows**2 * 8 / 1e9:,.1f} GB in float64, and "
            "the device has no memory for it and its decomposition: give SparseKernelPCA, which makes no gram, or "
            "fewer rows"
        ) from error


SKLEARN = GuardedKernelPCA._parameter_constraints  # the constraints on scikit-learn's own parameters


@estimator
class KernelPCA(MeasuresAgreement, FittedExpansion, SavesItself, GuardedKernelPCA):
    """Exact kernel PCA: a drop-in for scikit-learn's, and the reference for every sparse model here.

    Finds the M components v_k = sum_i A_ik phi(x_i), v_k' v_l = delta_kl, over all N training rows that maximise
    the captured variance sum_k var(v_k' phi(x)): the leading eigenvectors of the centred N x N gram.

    Every argument, default, attribute and method of `sklearn.decomposition.KernelPCA` is there and does what it
    does there; `center`, the "laplacian" and "matern" kernels, vectorised callables, gamma "median" and "scale", the
    attributes of a kernel expansion, `reconstruction_error`, `score` and `save` are added.

    Cost: O(N^2 (d + M)) to fit ("arpack"; O(N^3) "dense") and N^2 numbers of memory; N (d + M) a row to transform.
    `SparseKernelPCA` is the model for more rows than that allows.

    Parameters
    ----------
    n_components : int, default=None
        Number of components; None keeps all of nonzero variance.
    kernel : str or callable, default="linear"
        "linear", "poly", "rbf", "matern", "sigmoid", "cosine", "laplacian", "precomputed", or a callable: on two rows,
        ``k(x, y) -> float``, or vectorised, ``k(X, Y) -> (n, m)``.
    gamma : float, "median", "scale" or None, default=None
        Kernel coefficient.  None: 1/n_features; "median": 1/(2 median distance^2) over a random sample of rows;
        "scale": 1/(n_features * X.var()).
    degree, coef0 : float, default=3, 1
        Of the "poly" (and "sigmoid") kernel.
    kernel_params : dict, default=None
        Keyword arguments of a callable kernel; refused with any other, which scikit-learn would not read them for.
    alpha : float, default=1.0
        Ridge of the inverse map, when `fit_inverse_transform=True`.
    fit_inverse_transform : bool, default=False
        Learn the map from scores to rows that `inverse_transform` needs.
    eigen_solver : {"auto", "dense", "arpack", "randomized"}, default="auto"
    tol : float, default=0
        Of arpack.
    max_iter : int, default=None
        Of arpack.  None: restarts that cost no more than the dense solver, which then takes its place.
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

    _stale = ("_callable", "_there")
    _file_layout = {
        "X_fit_": "rows[m, p]",
        "eigenvalues_": "positive[M]",
        "eigenvectors_": "float[m, M]",
        "dual_coef_": "rows[m, *] optional",
        "X_transformed_fit_": "float[m, M] optional",
        "_centerer": "KernelCenterer[m] | Uncentered",
        "_callable": "kernel? optional",
        "_vectorized": "none optional",  # its name in files of 0.1.0
    }

    n_components: int | None = parameter(None, *SKLEARN["n_components"], positional=True)
    kernel: Any = parameter("linear", one_of(*NAMED_KERNELS), callable)
    gamma: float | str | None = parameter(None, at_least(0, Real), one_of("median", "scale"), None)
    degree: float = parameter(3, *SKLEARN["degree"])
    coef0: float = parameter(1, *SKLEARN["coef0"])
    kernel_params: dict[str, Any] | None = parameter(None, *SKLEARN["kernel_params"])
    alpha: float = parameter(1.0, *SKLEARN["alpha"])
    fit_inverse_transform: bool = parameter(False, *SKLEARN["fit_inverse_transform"])
    eigen_solver: str = parameter("auto", *SKLEARN["eigen_solver"])
    tol: float = parameter(0, *SKLEARN["tol"])
    max_iter: int | None = parameter(None, *SKLEARN["max_iter"])
    iterated_power: int | str = parameter("auto", *SKLEARN["iterated_power"])
    remove_zero_eig: bool = parameter(False, *SKLEARN["remove_zero_eig"])
    random_state: Any = parameter(None, *SKLEARN["random_state"])
    copy_X: bool = parameter(True, *SKLEARN["copy_X"])
    n_jobs: int | None = parameter(None, *SKLEARN["n_jobs"])
    center: bool = parameter(True, "boolean")

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components of the rows of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; the square gram for a precomputed kernel.  Of rows on a device (torch, cupy) the gram, its centring
            and its leading eigenvectors are found there, unless the kernel is a function; results are on the host.
        y : ignored

        Returns
        -------
        self
        """
        with unchanged_on_failure(self):
            forget_fit(self)
            self._kernel_open = True
            if kernel_of(self.kernel).of_objects:
                raise ValueError(
                    "KernelPCA, as scikit-learn's, takes rows of numbers: for objects give SparseKernelPCA with "
                    "n_support=1.0, which is exact kernel PCA, or their gram with kernel='precomputed'"
                )
            computed = not (is_function(self.kernel) or kernel_of(self.kernel).precomputed)
            if computed and is_foreign(X) and not is_on_host(X):
                self._there = floats_there(X)
            X = on_host(X)
            with text_columns_named(self, X), fits_on_the_device(X):
                super().fit(canonical(X) if scipy.sparse.issparse(X) and X.format == "csr" else X, y)
            self._store()
        return self

    def transform(self, X: Any) -> Array:
        """Scores of the rows of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Or rows in blocks.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            For rows on a device an array there; for rows in blocks an iterator of blocks of scores.
        """
        check_is_fitted(self)
        rules = self._new_row_rules
        if in_blocks(X, rules) is not None or (is_foreign(X) and not is_on_host(X)):
            return mapped(X, rules, self.expansion_.transform, self.expansion_.n_components)
        X = on_host(X)
        with text_columns_named(self, X):
            return super().transform(X)

    def _store(self) -> None:
        n_samples = self.X_fit_.shape[0]
        nonzero = self.eigenvalues_ > 0
        coef = np.zeros_like(self.eigenvectors_, dtype=np.float64)
        coef[:, nonzero] = self.eigenvectors_[:, nonzero] / np.sqrt(self.eigenvalues_[nonzero])
        offset, mean_coef = np.zeros(coef.shape[1]), None
        if self.center:
            # H u = u if the eigenvalue is not zero; for zero eigenvalues centring u gives scikit-learn's scores
            coef -= coef.mean(axis=0)
            offset = self._centerer.K_fit_rows_.astype(np.float64) @ coef
            mean_coef = np.full(n_samples, 1.0 / n_samples)
        self.expansion_ = KernelExpansion(self._expansion_kernel(), floating(self.X_fit_), coef, offset, mean_coef)
        if not self.fit_inverse_transform:
            self.dual_coef_ = coef
        self.support_ = np.arange(n_samples)
        CapturedRatio.known(1.0, "exact", n_samples, coef.shape[1]).store(self)
        self.n_samples_seen_ = n_samples

    def check_loaded(self, error: type[ValueError]) -> None:
        """Raise `error` unless the model read from a file has the inverse map that its parameters imply."""
        if float(getattr(self.expansion_.kernel, "gamma", self.gamma_)) != float(self.gamma_):
            raise error("the kernel of the KernelPCA in the file has another gamma than its fit settled")
        if not self.fit_inverse_transform:
            return
        found = [getattr(getattr(self, name, None), "shape", None) for name in ("X_transformed_fit_", "dual_coef_")]
        n_samples, n_components = self.expansion_.coef.shape
        if found != [(n_samples, n_components), (n_samples, self.n_features_in_)]:
            raise error(f"the KernelPCA in the file has no inverse map of its rows: its parts have shapes {found}")

    def _expansion_kernel(self) -> Kernel:
        if self._callable is not None:
            return self._callable
        kernel = named_kernel(self.kernel, gamma=self.gamma_, degree=self.degree, coef0=self.coef0)
        return kernel.of_rows(self.X_fit_.shape[0])

    def _rows(self, X: Any) -> Array:
        return validate_rows(self, X, reset=False, accept_sparse="csr", dtype=FLOATS)
