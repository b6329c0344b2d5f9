"""scikit-learn's KernelPCA, corrected where it is numerically wrong.

There are four such cases: rows far from the origin, whose distances |x|^2 + |s|^2 - 2 x's are lost to rounding; rows so
short that scikit-learn's cosine kernel treats them as zero; clusters of equal eigenvalues, some of which LAPACK's
subset solver misses; and a singular inverse map.  Also added are kernels that take blocks of rows, `center=False`, and
widths determined from the data.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any, Self

import numpy as np
import scipy.sparse
from scipy.linalg import LinAlgWarning
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, eigsh
from sklearn.decomposition import KernelPCA
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.preprocessing import KernelCenterer
from sklearn.utils import check_array, check_random_state
from sklearn.utils.extmath import svd_flip
from sklearn.utils.validation import _check_psd_eigenvalues

from ..arrays import (
    FLOATS,
    Array,
    arpack_restarts,
    as_float64,
    canonical,
    is_foreign,
    itemsize,
    namespace,
    to_numpy,
    top_eigh,
)
from ..errors import KernelWarning, warn
from ..fit.parameters import MeantParameters, generator_of
from ..fit.plan import PLAN
from ..fit.problem import SHOWS_ROUNDING, warn_of_rounding
from ..fit.values import check_symmetry
from ..kernels import Kernel, bind_callable, is_function, kernel_object, kernel_of, named_kernel
from ..kernels.registry import warn_about_noise
from ..kernels.width import KernelRows, resolve_gamma
from ..rows.checks import asymmetry, check_spread, finite
from ..rows.rows import ArrayRows
from ..spectrum.top import converged_pairs, is_large
from ..spectrum.whitening import check_finite_kernel
from ..threads import effective_n_threads

# Eigenpairs on a device are accepted if |K v - lambda v| is below this share of the largest eigenvalue, because their
# eigenvalues are then exact up to rounding.  The keys are the bytes of a number.
CONVERGED_ON_DEVICE = {4: 1e-5, 8: 1e-10}


class GuardedKernelPCA(MeantParameters, KernelPCA):
    """scikit-learn's KernelPCA with correct kernel values, eigenvectors and inverse map for all finite rows."""

    center: bool
    _centerer: Any  # scikit-learn's KernelCenterer, or Uncentered
    eigenvalues_: np.ndarray
    eigenvectors_: np.ndarray
    _kernel_open = False  # True until kernel values of the training rows are computed, which determines gamma
    _there: Array | None = None  # training rows on a device, during a fit
    _callable: Kernel | None = None  # the kernel, if the user gives it as an object or a function

    def _get_kernel(self, X: Any, Y: Any = None) -> np.ndarray:
        X = finite(canonical(X))
        if self._kernel_open:
            del self._kernel_open
            # scikit-learn raises this error only after the decomposition.
            if self.fit_inverse_transform and scipy.sparse.issparse(X):
                raise NotImplementedError("Inverse transform not implemented for sparse matrices!")
            if kernel_of(self.kernel).precomputed:
                _warn_of_asymmetry(X)
            else:
                check_spread(floating(X))  # differences of booleans and small integers overflow
            self._callable = self._bound(X)
            if self._callable is not None:
                check_symmetry(self._callable, floating(X)[:4])
            if kernel_object(self.kernel) is not None:
                self.gamma_ = getattr(self._callable, "gamma", 1.0)
            elif isinstance(self.gamma, str):
                self.gamma_ = self._gamma(X)
            elif kernel_of(self.kernel).uses_gamma:  # called only to refuse a gamma that overflows
                resolve_gamma(self.gamma, kernel_of(self.kernel), floating(X))
        rows = floating(X)
        points = rows if Y is None else floating(Y)
        if self._there is not None and Y is None and (kernel := self._callable or self._kernel_in_use()) is not None:
            rows_there = self._there
            del self._there
            return kernel(rows_there, rows_there)
        if self._callable is not None:
            return np.array(self._callable(rows, points))  # a copy, because it is centred in place later
        kernel = self._kernel_in_use()
        if kernel is None:
            name, parameters = self.kernel, dict(self.kernel_params or {})
        elif kernel.precomputed or kernel.agrees_with_sklearn(rows, points):
            name, parameters = kernel.name, {} if kernel.precomputed else kernel.params()
        else:
            return kernel(rows, points)
        n_jobs = None if self.n_jobs is None else effective_n_threads(self.n_jobs)
        compute = partial(pairwise_kernels, metric=name, filter_params=True, n_jobs=n_jobs, **parameters)
        if kernel is None or kernel.metric != "manhattan":
            return compute(X, Y)
        block = compute(_narrow_indices(rows), _narrow_indices(points))
        # The Manhattan distance is computed in float64 and converted back to the precision of the rows.
        return block.astype(np.result_type(rows.dtype, points.dtype), copy=False)

    def _bound(self, X: Array) -> Kernel | None:
        """The kernel bound to these rows, if it is given as an object or a function; None if it is a name."""
        given, names = kernel_object(self.kernel), getattr(self, "feature_names_in_", None)
        if given is None:
            warn_about_noise(self.kernel)
            return bound_callable(self.kernel, self.kernel_params, X)
        rows = ArrayRows(floating(X)).sample(PLAN.sample_size(0), generator_of(self.random_state))
        return given.settled(KernelRows(rows.values, rows.weights, 1, None if names is None else tuple(names)))

    def _kernel_in_use(self) -> Kernel | None:
        """The kernel of the fitted model, even if the parameter has changed since; None for an unbound callable."""
        model = getattr(self, "expansion_", None)
        if model is not None:
            kernel: Kernel = model.kernel
            return kernel
        if is_function(self.kernel):
            return None
        return named_kernel(self.kernel, gamma=self.gamma_, degree=self.degree, coef0=self.coef0)

    def _gamma(self, X: Array) -> float:
        if not kernel_of(self.kernel).uses_gamma:
            return 1.0
        rows = ArrayRows(floating(X)).sample(PLAN.sample_size(0), generator_of(self.random_state))
        return resolve_gamma(self.gamma, kernel_of(self.kernel), rows.values, rows.weights)

    def _fit_transform_in_place(self, K: Array) -> Array:
        if not self.center:
            self._centerer = Uncentered()
        if is_foreign(K):
            return self._fit_on_device(K)
        given = kernel_of(self.kernel).precomputed
        restore = given and self.center
        row_means = np.reshape(K.mean(axis=1), (-1, 1)) if restore else 0.0
        length = 0.0
        if not given:  # a given gram is checked when it is centred
            check_finite_kernel(K)
            length = float(np.abs(np.diagonal(K)).max())
        K = self._decomposed(K)
        self._explain(float(np.trace(K, dtype=np.float64)), K.shape[0], length, K.dtype.itemsize)
        if restore:
            # K may be the user's gram itself, centred in place. Centring is undone, because X_fit_ and the points of
            # the expansion must hold the gram as given.
            K += self._centerer.K_fit_rows_
            K += row_means
            K -= self._centerer.K_fit_all_
        return K

    def _explain(self, trace: float, n_rows: int, length: float, itemsize: int) -> None:
        """Store variances and their shares of the total, from the trace of the centred gram.

        `length` is the largest k(x, x), or 0 if it is unknown.
        """
        self.explained_variance_ = self.eigenvalues_ / n_rows
        # The trace of an indefinite kernel is less than the sum of its positive eigenvalues.
        total = max(trace / n_rows, float(self.explained_variance_.sum()))
        self.explained_variance_ratio_ = self.explained_variance_ / (total if total > 0 else 1.0)
        if total <= SHOWS_ROUNDING[itemsize] * length:
            warn_of_rounding(total / length if length > 0 else 0.0)

    def _fit_on_device(self, K: Array) -> Array:
        """Centre the gram and compute its leading eigenpairs on the device; copy the results to the host."""
        xp, n, n_wanted = namespace(K), int(K.shape[0]), self._n_wanted(K)
        means = xp.mean(K, axis=0)
        check_finite_kernel(means * n)
        length = float(xp.max(xp.abs(xp.linalg.diagonal(K))))
        if self.center:
            mean = xp.mean(means)
            K -= means
            K -= (means - mean)[:, None]
            self._centerer.K_fit_rows_, self._centerer.K_fit_all_ = to_numpy(means), to_numpy(mean)[()]
            self._centerer.n_features_in_ = n
        tolerance = max(self.tol, CONVERGED_ON_DEVICE[itemsize(K)])
        found = None
        if self.eigen_solver != "dense" and is_large(n, n_wanted):
            found = converged_pairs(K, n_wanted, tolerance)
        values, vectors = top_eigh(K, n_wanted) if found is None else found
        self._keep(to_numpy(values), to_numpy(vectors))
        self._explain(float(xp.sum(as_float64(xp.linalg.diagonal(K)))), n, length, itemsize(K))
        return K

    def _decomposed(self, K: np.ndarray) -> np.ndarray:
        """Compute and store the leading eigenpairs of the centred gram, and return this gram."""
        if self._by_arpack(K):
            K = self._centerer.fit(K).transform(K, copy=False)
            self._keep(*self._arpack(K))
        else:
            try:
                K = super()._fit_transform_in_place(K)
            except ValueError:
                # LAPACK's subset solver can miss members of a cluster of equal eigenvalues, and scikit-learn fails if
                # it misses all of them. The full solver finds them.
                if len(getattr(self, "eigenvalues_", (0.0,))):
                    raise
                self._keep(*top_eigh(K, self._n_wanted(K)))
        if len(self.eigenvalues_) < self._n_wanted(K) and not (self.remove_zero_eig or self.n_components is None):
            self._keep(*top_eigh(K, self._n_wanted(K)))
        return K

    def _by_arpack(self, K: np.ndarray) -> bool:
        if self.eigen_solver == "auto":  # the rule by which scikit-learn chooses
            return K.shape[0] > 200 and self._n_wanted(K) < 10
        return bool(self.eigen_solver == "arpack")

    def _n_wanted(self, K: np.ndarray) -> int:
        return K.shape[0] if self.n_components is None else min(K.shape[0], self.n_components)

    def _arpack(self, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Leading eigenpairs by ARPACK, called as in scikit-learn but with fixed random numbers and limited restarts.

        ARPACK continues from a random vector when its Krylov space is exhausted.  This happens if the gram has few
        different eigenvalues, for instance when there are many equal rows, or few columns.  With numbers that are not
        fixed, the eigenvectors of equal eigenvalues would change from call to call, and so would the last digits of
        others.

        If the eigenvalues hardly differ (when all rows are unlike each other, the gram is nearly the identity), ARPACK
        would restart up to ten times for every row.  Unless the user sets the limit, it stops when it has cost as much
        as the dense decomposition, which then replaces it.
        """
        start = check_random_state(self.random_state).uniform(-1, 1, K.shape[0])
        seeded = {"rng": np.random.default_rng(0)} if "rng" in signature(eigsh).parameters else {}
        n_wanted = self._n_wanted(K)
        limit = arpack_restarts(K.shape[0], n_wanted) if self.max_iter is None else self.max_iter
        with warnings.catch_warnings():
            # eigsh warns that it uses a dense solver if all eigenpairs are wanted.
            warnings.filterwarnings("ignore", message="k >= N", category=RuntimeWarning)
            try:
                return eigsh(K, n_wanted, which="LA", tol=self.tol, maxiter=limit, v0=start, **seeded)
            except ArpackError as error:
                if self.max_iter is None and isinstance(error, ArpackNoConvergence):
                    return top_eigh(K, n_wanted)
                raise ValueError(
                    f"eigen_solver='arpack' cannot decompose the gram of these rows ({error}): give "
                    "eigen_solver='dense'"
                ) from error

    def _keep(self, values: np.ndarray, vectors: np.ndarray) -> None:
        """Store eigenpairs as scikit-learn does: descending, none negative, largest entry of each vector positive."""
        order = values.argsort()[::-1]
        values = _check_psd_eigenvalues(values[order], enable_warnings=False)
        vectors = svd_flip(u=vectors[:, order], v=None)[0]
        wanted = values > 0 if self.remove_zero_eig or self.n_components is None else slice(None)
        self.eigenvalues_, self.eigenvectors_ = values[wanted], vectors[:, wanted]

    def _fit_inverse_transform(self, X_transformed: np.ndarray, X: Any) -> None:
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", LinAlgWarning)
                super()._fit_inverse_transform(X_transformed, X)
        except (np.linalg.LinAlgError, ValueError) as error:  # singular gram, or overflow in its values
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


@dataclass(frozen=True)
class Uncentered:
    """Replaces scikit-learn's KernelCenterer if center=False, and leaves kernel values unchanged."""

    def fit(self, K: np.ndarray) -> Self:
        KernelCenterer().fit(K)  # only to check that K is square, dense and finite
        return self

    def transform(self, K: np.ndarray, copy: bool = True) -> np.ndarray:
        return check_array(K, dtype=FLOATS)


def floating(X: Array) -> Array:
    """X itself if it is float32 or float64, otherwise a float64 copy, because products of small integers overflow."""
    X = X if scipy.sparse.issparse(X) else np.asarray(X)
    return X if X.dtype in FLOATS else as_float64(X)


def _warn_of_asymmetry(gram: Array) -> None:
    """Warn of an asymmetric gram, for which the result depends on the solver: some read one triangle, others both.

    scikit-learn's KernelPCA accepts such a gram, so it is not refused here as in the other estimators.
    """
    square = gram.ndim == 2 and gram.shape[0] == gram.shape[1]  # any other shape is refused when the gram is centred
    problem = asymmetry(floating(gram)) if square else None
    if problem is not None:
        warn(f"{problem}. What is found depends on eigen_solver: give (K + K.T) / 2", KernelWarning)


def _narrow_indices(X: Any) -> Any:
    """Sparse rows with 32-bit indices if possible, because scikit-learn's Manhattan distance requires them."""
    if not scipy.sparse.issparse(X) or max(X.nnz, *X.shape) > np.iinfo(np.int32).max:
        return X
    return type(X)((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)


def bound_callable(kernel: Any, keywords: dict[str, Any] | None, X: Array) -> Kernel | None:
    """A user's function as a kernel bound to the rows X; None if it is not a function or cannot be bound."""
    if not callable(kernel):
        return None
    try:
        return bind_callable(kernel, keywords, floating(X))
    except ValueError:
        return None  # scikit-learn calls it row by row, and shows the user's own error
