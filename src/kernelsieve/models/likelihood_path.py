"""likelihood_path: what remains at each noise variance, which is hard to choose otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from ..fit.parameters import MOST_POINTS, instance_of, some_numbers, whole_number
from ..solvers.likelihood import LikelihoodFit
from ..threads import one_blas_thread
from .likelihood import LikelihoodKernelPCA, axes_of, check_not_tiny, likelihood_on

# The default noise variances, as shares of the upper end.
FIRST_SHARE, LAST_SHARE = 0.95, 0.01


@dataclass(frozen=True)
class LikelihoodPath:
    """The support and components for every noise variance.

    Attributes
    ----------
    noise_variance : ndarray of shape (n_points,)
        From the largest down.
    noise_variance_limit : float
        Its admissible upper end.
    n_support : ndarray of shape (n_points,)
        Representing vectors.
    log_likelihood : ndarray of shape (n_points,)
        Of the training rows, up to a constant that differs from one noise variance to the next.
    explained_variance_ratio : ndarray of shape (n_points,)
        Share of the total variance along the model's axes.
    support : list of ndarray
        Row numbers of the representing vectors.
    converged : ndarray of shape (n_points,)
    """

    noise_variance: np.ndarray
    noise_variance_limit: float
    n_support: np.ndarray
    log_likelihood: np.ndarray
    explained_variance_ratio: np.ndarray
    support: list[np.ndarray]
    converged: np.ndarray


def likelihood_path(
    estimator: LikelihoodKernelPCA,
    X: Any,
    *,
    noise_variance: Sequence[float] | None = None,
    n_points: int = 20,
    sample_weight: Any = None,
) -> LikelihoodPath:
    """Vectors, likelihood and captured variance against the noise variance.

    One pass over the rows serves all points; with update="coordinate" each starts from the one before.

    Parameters
    ----------
    estimator : LikelihoodKernelPCA
        Kernel, dictionary, update rule and the rest; its own noise variance does not matter.  It is not fitted.
    X : array-like or sparse matrix of shape (n_samples, n_features)
    noise_variance : sequence of float, optional
        Noise variances; by default `n_points` of them, from 0.95 of the upper end down to 0.01 in equal ratios.
    n_points : int, default=20
    sample_weight : array-like of shape (n_samples,), optional

    Returns
    -------
    LikelihoodPath
        `kernelsieve.plots.likelihood_path` draws it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernelsieve import LikelihoodKernelPCA, likelihood_path
    >>> path = likelihood_path(LikelihoodKernelPCA(random_state=0), load_iris().data, n_points=5)
    >>> bool(path.n_support[0] < path.n_support[-1])
    True
    """
    instance_of("estimator", estimator, LikelihoodKernelPCA)
    model = clone(estimator)
    model._validate_params()
    with one_blas_thread():
        _, span = model._path_span(X, sample_weight)
        likelihood = likelihood_on(span)
        limit = likelihood.largest_noise_variance
        values = _noise_variances(noise_variance, n_points, limit)
        fits: list[LikelihoodFit] = []
        for value in values:
            fits.append(model._solve(likelihood, float(value), fits[-1].weights if fits else None))
        axes = [axes_of(span, found, model.n_components) for found in fits]
    assert span.indices is not None
    return LikelihoodPath(
        values,
        limit,
        np.array([len(a.places) for a in axes]),
        np.array([found.log_likelihood[-1] for found in fits]),
        np.array([a.variances.sum() for a in axes]) / span.total_variance,
        [span.indices[a.places] for a in axes],
        np.array([found.converged for found in fits]),
    )


def _noise_variances(given: Sequence[float] | None, n_points: int, limit: float) -> np.ndarray:
    if given is None:
        return np.geomspace(FIRST_SHARE, LAST_SHARE, whole_number("n_points", n_points, 1, MOST_POINTS)) * limit
    values = np.sort(
        some_numbers("noise_variance", given, f"values between 0 and {limit:.6g}, the upper end on these rows")
    )[::-1]
    if not np.all((values > 0) & (values < limit)):
        raise ValueError(f"noise_variance must hold values between 0 and {limit:.6g}, the upper end on these rows")
    check_not_tiny(float(values[-1]), limit)
    return values
