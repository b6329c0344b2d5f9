"""KernelMonitor: is this row normal, and if not, which variables say so."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from ..arrays import Array
from ..fit.outliers import JudgesRows
from ..fit.parameters import (
    INNER_SHARE,
    MeantParameters,
    at_least,
    estimator,
    more_than,
    one_of,
    parameter,
    unchanged_on_failure,
)
from ..fit.saving import SavesItself
from ..kernels import names_of_kernels
from ..rows import settle_columns
from ..threads import one_blas_thread
from .fitting import SAMPLE_ROWS, cell_rows, checked_folds
from .inputs import summed_over_lags
from .steps import MonitorSteps
from .updates import LiveMixin

LEAST_SMOOTHING = 1e-6  # a mean over a million rows: fewer say nothing of its limit, and a count of 1/w overflows


@dataclass(frozen=True)
class MonitorStatistics:
    """Both statistics of rows, with their limits."""

    spe: np.ndarray  # (n,) squared distance to the reconstruction, smoothed where the monitor smooths
    t2: np.ndarray  # (n,) Hotelling's statistic of the scores
    spe_limit: float
    t2_limit: float

    @property
    def alarm(self) -> np.ndarray:
        """Whether SPE is above its limit; never where a row has no whole window."""
        return np.asarray(self.spe > self.spe_limit)


@estimator
class KernelMonitor(JudgesRows, SavesItself, MonitorSteps, LiveMixin, MeantParameters, OutlierMixin, BaseEstimator):
    """Novelty detection and process monitoring by sparse kernel PCA, with limits that hold and causes that are named.

    A kernel PCA of normal rows is fitted on a few support points.  A new row is judged by how far it lies off the
    components in feature space, and by how far along them:

        SPE = |phi(x) - mean - V z|^2          T2 = sum_k z_k^2 / lambda_k

    SPE decides; T2 is shown beside it (for a Gaussian kernel it falls again far from all rows).  The limit is a
    quantile of SPE on *held-out* contiguous folds, because the training rows' own quantile alarms several times too
    often.  `contributions` divides SPE among the inputs.

    Cost: O(N m (d + m)) to fit, in one pass over more than 20,000 rows; below that, cv + 1 fits.  m (d + M) a row to
    score, about twice that with contributions.

    Parameters
    ----------
    n_components : int, default=30
        Number of components M; fewer where the rows have no more directions (`n_components_`).
    n_support : int, default=60
        Number of support points m, at most the number of rows.
    kernel : str or callable, default="rbf"
        As in SparseKernelPCA, without "precomputed" and "sigmoid": SPE is a distance, so the kernel must be positive
        semi-definite.
    gamma : float, "median", "scale" or None, default="median"
        As in SparseKernelPCA, for rows after standardising or whitening.
    standardize : bool, default=True
        Bring each column to unit variance.  Constant columns keep their own unit.
    whiten : bool, default=False
        Bring all input directions to unit variance, so that the kernel sees Mahalanobis distances.  It finds changes in
        the *correlations* of many linearly related sensors (all that is gained on the Tennessee Eastman process), and
        hurts where normal rows lie on a curve in few variables.
    lags : int, default=0
        Judge each row together with so many rows before it.  The first `lags` rows of X then have no statistic (NaN,
        predicted +1).
    smoothing : float or None, default=None
        Weight of the newest row in an exponentially weighted mean of SPE over time, from 1e-6 to 1; None for
        none.
    false_alarm_rate : float, default=0.05
        Share of normal rows that may lie above the limit.
    cv : int or "prefit", default=5
        Contiguous folds for the held-out limit.  "prefit": `estimator` is fitted, stays as it is, and the rows given to
        `fit`, which it should not have seen, set the limits.
    alarm_rule : tuple (k, n), default=(1, 1)
        For `update`: alarm when k of the last n rows, the newest among them, lie above the limit.
    half_life : float or None, default=None
        For `update`: follow slow drift with a memory of so many rows.  Rows above the limit do not enter.
    estimator : kernel estimator of this package, optional
        Monitor this instead of SparseKernelPCA(n_components, n_support): it is cloned and fitted to the prepared rows.
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Threads, as in SparseKernelPCA.
    batch_size : int or None, default=None
        Rows read at once from files and arrays on disk.

    Attributes
    ----------
    limits_ : dict
        "spe" and "t2": the held-out limits.
    training_limits_ : dict
        The quantiles of the training rows themselves, for comparison.
    offset_ : float
        -limits_["spe"]: ``decision_function = score_samples - offset_``.
    false_alarm_rate_ : float
        Expected share of new normal rows above the limit, by the held-out rows.
    false_alarm_interval_ : tuple of two floats
        That holds the share with probability 0.9: wide where the held-out rows are few, or follow each other so closely
        (slow processes, `smoothing`) that they count as few.
    n_held_out_ : int
    estimator_ : the fitted estimator
    expansion_ : KernelExpansion
        Over rows that have gone through `input_map_`.
    input_map_ : InputMap
        u = (x - center) * factor, or (x - center) @ factor where whitened; x a row and its lags, the newest first.
    explained_variance_ : ndarray of shape (M,)
        Variances of the scores, by which T2 divides.
    spe_mean_ : float
        Mean held-out SPE, from which smoothing starts.
    n_components_, n_support_, n_samples_seen_, n_features_in_ : int

    References
    ----------
    Lee, Yoo, Choi, Vanrolleghem & Lee (2004), Nonlinear process monitoring using kernel principal component analysis.
    Hoffmann (2007), Kernel PCA for novelty detection.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelsieve import KernelMonitor
    >>> rng = np.random.default_rng(0)
    >>> normal = rng.standard_normal((500, 2)) @ rng.standard_normal((2, 6)) + 0.1 * rng.standard_normal((500, 6))
    >>> monitor = KernelMonitor(n_components=5, n_support=20, random_state=0).fit(normal)
    >>> fault = normal[:3] + np.array([0, 0, 0, 4.0, 0, 0])
    >>> monitor.predict(fault)
    array([-1, -1, -1])
    >>> monitor.contributions(fault).argmax(axis=1)
    array([3, 3, 3])
    """

    n_components: int = parameter(30, at_least(1), positional=True)
    n_support: int = parameter(60, at_least(2), positional=True)
    kernel: Any = parameter("rbf", one_of(*names_of_kernels(lambda kind: not kind.precomputed)), callable)
    gamma: float | str | None = parameter("median", more_than(0), one_of("median", "scale"), None)
    standardize: bool = parameter(True, "boolean")
    whiten: bool = parameter(False, "boolean")
    lags: int = parameter(0, at_least(0))
    smoothing: float | None = parameter(None, Interval(Real, LEAST_SMOOTHING, 1, closed="both"), None)
    false_alarm_rate: float = parameter(0.05, INNER_SHARE)
    cv: int | str = parameter(5, at_least(2), one_of("prefit"))
    alarm_rule: tuple[int, int] = parameter((1, 1), tuple, list)
    half_life: float | None = parameter(None, more_than(0), None)
    estimator: Any = parameter(None, object, None)
    random_state: Any = parameter(None, "random_state")
    n_jobs: int | None = parameter(None, Integral, None)
    batch_size: int | None = parameter(None, at_least(1), None)

    def _validate_params(self) -> None:
        super()._validate_params()
        self._check_rule()

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, series: Any = None) -> Self:
        """Learn what normal rows are like, and the limits that they keep to.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Normal rows, in the order of time where `lags`, `smoothing` or the contiguous folds are to mean anything.
            All that SparseKernelPCA takes: frames, memmaps, torch and cupy arrays, dask, rows in blocks.
        y : ignored
        series : array-like of shape (n_samples,), optional
            Which series each row belongs to: neighbours with different labels have a gap between them, that no window
            of `lags` reaches over.

        Returns
        -------
        self
        """
        self._check_options()
        with unchanged_on_failure(self), one_blas_thread():
            rows = self._series(X, series, reset=True)
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            sample = rows.sample(SAMPLE_ROWS, cell_rows(self.lags, self.smoothing), seed)
            if self.cv != "prefit":  # before anything is said of windows that are too few to tell
                checked_folds(sample, int(self.lags), int(self.cv))
            if rows.columns is not None:  # else scikit-learn has looked at them
                settle_columns(self, *rows.columns)
            self._warn_about_columns(sample.windows)
            self._store(self._fitted(rows, sample, self._recipe(seed)))
        return self

    def statistics(self, X: Any, *, series: Any = None) -> MonitorStatistics:
        """SPE and T2 of each row, with their limits.

        Parameters
        ----------
        X : rows, as in `fit`; with `lags` or `smoothing`, in the order of time
        series : array-like of shape (n_samples,), optional
            As in `fit`.

        Returns
        -------
        MonitorStatistics
            With `spe`, `t2` (n_samples,), `spe_limit`, `t2_limit` and `alarm`; NaN for rows without a whole window.
        """
        check_is_fitted(self)
        t2, spe, labels = self._row_statistics(X, series)
        if self._fitted_smoothing is not None:
            spe = self._smoothed_series(spe, labels)
        return MonitorStatistics(spe, t2, self.limits_["spe"], self.limits_["t2"])

    def score_samples(self, X: Any) -> np.ndarray:
        """-SPE: low for rows unlike the training rows.

        Parameters
        ----------
        X : rows, as in `fit`

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return -self.statistics(X).spe

    @property
    def _least_score(self) -> float:
        return self.offset_

    def contributions(self, X: Any, *, series: Any = None) -> Any:
        """How much of each row's SPE comes from each input.

        Squared slope of SPE along an input, per unit of kernel distance, scaled such that a row adds up to its SPE (not
        smoothed); the lags of an input are added up.

        Parameters
        ----------
        X : rows, as in `fit`
        series : array-like of shape (n_samples,), optional
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            A frame with the names of the columns where X is one of pandas or polars.
        """
        check_is_fitted(self)
        rows = self._series(X, series, reset=False)
        detector, n_features, n_threads = self._detector, self.n_features_in_, self._n_threads()

        def parts(windows: Array) -> np.ndarray:
            return summed_over_lags(detector.contributions(windows, n_threads)[2], n_features)

        return self._framed_like(X, rows.each(parts, n_features))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
