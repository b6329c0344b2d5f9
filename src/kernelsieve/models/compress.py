"""compress: a fitted model on fewer points, with the same scores; scikit-learn's models are adopted first."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.decomposition import KernelPCA as SklearnKernelPCA
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import validate_parameter_constraints
from sklearn.utils.validation import check_is_fitted

from ..errors import warn
from ..fit.estimator import at_least
from ..kernels import kernel_type
from .compressed import SHARED, CompressedKernelPCA
from .exact import KernelPCA
from .guarded import bound_callable

# What scikit-learn's KernelPCA has after `fit`.
SKLEARN_STATE = (
    "n_features_in_",
    "feature_names_in_",
    "gamma_",
    "eigenvalues_",
    "eigenvectors_",
    "X_fit_",
    "_centerer",
)


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
    """The same scores from fewer points: any fitted kernel PCA made cheap to use, without refitting it.

    Finds points S and coefficients B that minimise the error of the scores on rows,

        sum_n |z(x_n) - k(x_n, S) B + b|^2

    on the training rows where the model holds them (exact kernel PCA does), or on `X`; without any, the error of the
    components in feature space, sum_k |v_k - v'_k|^2.  The error that is reported is that on the rows looked at: on
    others it is a little larger, and several times larger where the kernel is narrow and the rows are few.

    Cost, for n rows (at most 5000, or 50 a point), N original points and r = max(200, 4 m) candidates: n N kernel
    values for the scores to be kept, O(n r^2 + r^3) for the choice, and for "optimized" n m (d + m) a step.

    Parameters
    ----------
    model : fitted estimator
        Of this package, or scikit-learn's `KernelPCA`.
    n_support : int, optional
        Number of points to keep.
    target_error : float, optional
        Instead of `n_support`: the fewest points whose relative error is at most this.
    method : {"auto", "optimized", "removal", "l1", "eigen-removal"}, default="auto"
        "optimized": points moved freely by L-BFGS on the error; "removal": points of the model, by backward elimination
        with the exact increase of the error; "l1": points of the model, by a group lasso; "eigen-removal": points of
        the model, by the smallest-eigenvector rule of Schoelkopf et al. (1999), for comparison.  "auto" is "optimized"
        where the kernel has a gradient, else "removal".
    X : array-like or sparse matrix of shape (n_samples, n_features), optional
        Rows on which scores are to be kept; kernel values for a precomputed kernel.
    random_state : int, RandomState or None, default=None
    max_iter : int, default=50
        L-BFGS steps of "optimized".
    n_jobs : int or None, default=None
        Threads for passes over the rows.

    Returns
    -------
    CompressedKernelPCA
        Fitted, with the error in `compression_`.

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
        **{name: getattr(original, name) for name in SHARED},
    )
    if target_error is not None:
        compressed.target_error = target_error
    compressed._compress(original, X)
    compressed._warn_unless_converged()
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
    constraints["n_support"] = [at_least(1)]  # a number: "auto" is what target_error stands for
    for name, value in given.items():
        if isinstance(value, bool | np.bool_):
            raise ValueError(f"The {name!r} parameter of compress must not be a bool. Got {value!r}")
    asked = {name: value for name, value in given.items() if value is not None or name in ("method", "max_iter")}
    validate_parameter_constraints(constraints, asked, caller_name="compress")


def _original(model: Any) -> Any:
    """The fitted model as one of this package's."""
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
    """scikit-learn's fitted KernelPCA as this package's, which shares its arrays."""
    adopted = KernelPCA()
    adopted.set_params(**{name: getattr(model, name) for name in adopted.get_params() if hasattr(model, name)})
    for name in SKLEARN_STATE:
        if hasattr(model, name):
            setattr(adopted, name, getattr(model, name))
    if kernel_type(model.kernel).precomputed:
        # scikit-learn has centred the gram in its place
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
