"""KernelPCA: scikit-learn's exact kernel PCA, with the model also written as a kernel expansion.

scikit-learn keeps unit eigenvectors u_k of the centred gram H K H, eigenvalues l_k, and transforms by centring
the new kernel rows.  With a_k = H u_k / sqrt(l_k), H = I - 11'/N, the same scores are

    z(x) = k(x, X) A - mean over training rows of k(., X) A

up to rounding, because H can be moved from the kernel rows to the coefficients.  This is the form of every model of
this package, here with all N rows as support points.  This file adds that rewriting, `center=False`, and a few more
ways to specify a kernel.  The fit is scikit-learn's, with corrections where it is numerically wrong
(`sklearn_kernel_pca.py`).
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
from ..rows.dispatch import in_blocks, mapped, text_columns_named, validate_rows
from ..rows.kinds import floats_there, is_on_host
from ..rows.rows import is_out_of_memory
from .expansion_api import FittedExpansion, MeasuresAgreement
from .sklearn_kernel_pca import GuardedKernelPCA, floating


@contextmanager
def fits_on_the_device(X: Any) -> Iterator[None]:
    """Replace an out-of-memory error of a device by one that gives advice."""
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


SKLEARN = GuardedKernelPCA._parameter_constraints  # scikit-learn's constraints on its parameters


@estimator
class KernelPCA(MeasuresAgreement, FittedExpansion, SavesItself, GuardedKernelPCA):
    """Exact kernel PCA: a drop-in replacement for scikit-learn's, and the reference for every sparse model here.

    Finds the M components v_k = sum_i A_ik phi(x_i), v_k' v_l = delta_kl, over all N training rows that maximise
    the captured variance sum_k var(v_k' phi(x)): the leading eigenvectors of the centred N x N gram.

    Every argument, default, attribute and method of `sklearn.decomposition.KernelPCA` exists here with the same
    meaning.  Added are `center`, the "laplacian" and "matern" kernels, vectorised callables, gamma="median" and
    gamma="scale", the attributes of a kernel expansion, `reconstruction_error`, `score` and `save`.

    Cost: a fit takes O(N^2 (d + M)) time with "arpack", O(N^3) with "dense", and stores N^2 numbers; a transform takes
    O(N (d + M)) time per row.  For more rows than this allows, use `SparseKernelPCA`.

    Parameters
    ----------
    n_components : int, default=None
        Number of components; None keeps all components of nonzero variance.
    kernel : str or callable, default="linear"
        "linear", "poly", "rbf", "matern", "sigmoid", "cosine", "laplacian" or "precomputed"; or a callable, either on
        two rows, ``k(x, y) -> float``, or vectorised, ``k(X, Y) -> (n, m)``.
    gamma : float, "median", "scale" or None, default=None
        Kernel coefficient.  None: 1/n_features; "median": 1/(2 median distance^2) over a random sample of rows;
        "scale": 1/(n_features * X.var()).
    degree, coef0 : float, default=3, 1
        `degree` is the degree of the "poly" kernel, `coef0` the constant term of the "poly" and "sigmoid" kernels.
    kernel_params : dict, default=None
        Keyword arguments of a callable kernel.  For other kernels, where scikit-learn ignores them, they are an error.
    alpha : float, default=1.0
        Ridge penalty of the inverse map, if `fit_inverse_transform=True`.
    fit_inverse_transform : bool, default=False
        Learn the map from scores to rows that `inverse_transform` needs.
    eigen_solver : {"auto", "dense", "arpack", "randomized"}, default="auto"
    tol : float, default=0
        Tolerance of the arpack solver.
    max_iter : int, default=None
        Number of restarts of the arpack solver.  With None, it may restart until it has cost as much as the dense
        solver, which then replaces it.
    iterated_power : int or "auto", default="auto"
        Number of power iterations of the randomized solver.
    remove_zero_eig : bool, default=False
        Drop components of zero variance, as n_components=None always does.
    random_state : int, RandomState or None, default=None
        Seed of the arpack and randomized solvers, and of the sample that determines gamma="median".
    copy_X : bool, default=True
        Keep a copy of X.  With False, a reference is kept, and a precomputed gram may be overwritten.
    n_jobs : int, default=None
        Number of parallel jobs for kernel values.
    center : bool, default=True
        Centre the features.  With False, the components are those of the uncentred gram, as with
        `SparseKernelPCA(center=False)`.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (M,)
        Eigenvalues of the centred gram, in descending order.
    eigenvectors_ : ndarray of shape (n_samples, M)
        Unit eigenvectors of the centred gram.
    dual_coef_ : ndarray
        With `fit_inverse_transform=True`, as in scikit-learn, the coefficients of the *inverse* map, of shape
        (n_samples, n_features).  Otherwise, as in all estimators here, the coefficients of the components over the
        support points, of shape (n_samples, M); these are always available as `expansion_.coef`.
    X_transformed_fit_ : ndarray of shape (n_samples, M)
        Scores of the training rows; only with `fit_inverse_transform=True`.
    X_fit_ : {ndarray, sparse matrix} of shape (n_samples, n_features)
        The training rows.  For a precomputed kernel, the gram as given, up to rounding (scikit-learn keeps the centred
        gram).
    gamma_ : float
    expansion_ : KernelExpansion
        The fitted model, with all training rows as support points.  Its points are `X_fit_`, not a copy.
    support_vectors_ : the points of `expansion_`
    support_ : ndarray of shape (n_samples,)
        0, ..., n_samples - 1.
    n_support_ : int
    offset_ : ndarray of shape (M,)
    explained_variance_ : ndarray of shape (M,)
        Variance of the scores on the training rows, ``eigenvalues_ / n_samples``.
    explained_variance_ratio_ : ndarray of shape (M,)
        Share of each component in the total feature-space variance; 0 if there is no variance.
    captured_ratio_ : float
        Always 1.0, because this model is the reference.
    captured_ratio_kind_ : "exact"
    captured_ratio_n_samples_, n_samples_seen_, n_features_in_ : int
    feature_names_in_ : ndarray of str, if X has column names

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
        "_vectorized": "none optional",  # the name of `_callable` in files of version 0.1.0
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
            Rows; for a precomputed kernel their square gram.  For rows on a device (torch, cupy), the gram is computed,
            centred and decomposed there, unless the kernel is a function; the results are on the host.
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
            Rows, or rows in blocks.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            For rows on a device, an array on that device; for rows in blocks, an iterator of blocks of scores.
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
            # H u = u holds unless the eigenvalue is zero; in that case, centring u gives scikit-learn's scores.
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
