"""KernelMonitor: is a row normal, and if not, which variables make it unusual?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin, _fit_context, clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_feature_names, check_is_fitted

from ..arrays import Array, to_numpy
from ..errors import warn
from ..fit.expansion import KernelExpansion
from ..fit.outliers import JudgesRows
from ..fit.parameters import (
    INNER_SHARE,
    MeantParameters,
    SavesItself,
    at_least,
    estimator,
    more_than,
    one_of,
    parameter,
    unchanged_on_failure,
)
from ..kernels import kernel_of, names_of_kernels
from ..rows.checks import naming_gaps
from ..rows.dispatch import RowRules, ordered_rows, store_columns
from ..rows.frames import block_of, column_names
from ..tables.encoder import TableEncoder
from ..threads import effective_n_threads, one_blas_thread
from .crossfit import (
    SAMPLE_WINDOWS,
    HeldOut,
    MonitorFit,
    about_constants,
    about_limit,
    about_memory,
    about_reach,
    about_whitening,
    cell_rows,
    check_options,
    check_rule,
    checked_folds,
    fitted,
    recipe_of,
)
from .online import LiveState, OnlineMonitor, started
from .series import Series, numbered, series_of
from .statistics import InputMap, Limit, limit_of, run_bounds, runs_of, smoothed_runs, summed_over_lags
from .table import (
    LeftOutColumns,
    TableSeries,
    UsualValues,
    column_sums,
    encoded_or_missing,
    is_raw_table,
    table_block,
    without_infinity,
)

# The smallest weight w for smoothing, which averages about 1/w rows.  With a smaller weight, no series would have
# enough rows to set a limit, and 1/w could overflow.
LEAST_SMOOTHING = 1e-6


@dataclass(frozen=True)
class MonitorStatistics:
    """SPE and T2 of rows, with their limits."""

    spe: np.ndarray  # (n,) squared distance to the reconstruction; smoothed if the monitor smooths
    t2: np.ndarray  # (n,) Hotelling's statistic of the scores
    spe_limit: float
    t2_limit: float

    @property
    def alarm(self) -> np.ndarray:
        """(n,) whether SPE is above its limit; False for a row without a whole window."""
        return np.asarray(self.spe > self.spe_limit)


@estimator
class KernelMonitor(JudgesRows, SavesItself, OnlineMonitor, MeantParameters, OutlierMixin, BaseEstimator):
    """Novelty detection and process monitoring by sparse kernel PCA, with reliable limits and named causes.

    A kernel PCA of normal rows is fitted on a few support points.  A new row is judged by how far it lies off the
    components in feature space, and by how far along them:

        SPE = |phi(x) - mean - V z|^2          T2 = sum_k z_k^2 / lambda_k

    Alarms depend on SPE alone.  T2 is reported for comparison, because for a Gaussian kernel it becomes small again far
    from all training rows.  The limit is a quantile of SPE on *held-out* contiguous folds: a quantile of the training
    rows themselves would alarm several times too often.  `contributions` divides SPE among the inputs.

    Cost: O(N m (d + m)) to fit, in one pass if there are more than 20,000 rows, otherwise in cv + 1 fits.  Scoring a
    row costs m (d + M), about twice that with contributions.

    Parameters
    ----------
    n_components : int, default=30
        Number of components M; fewer if the rows span fewer directions (see `n_components_`).
    n_support : int, default=60
        Number of support points m, at most the number of rows.
    kernel : str or callable, default="rbf"
        As in SparseKernelPCA, without "precomputed" and "sigmoid": SPE is a distance, so the kernel must be positive
        semi-definite.
    gamma : float, "median", "scale" or None, default="median"
        As in SparseKernelPCA, for rows after standardising or whitening.
    standardize : bool, default=True
        Bring each column to mean zero and unit variance.  For kernels of nonnegative numbers, such as `Chi2`, columns
        are only divided by their standard deviation.  Constant columns keep their own unit.
    whiten : bool, default=False
        Bring all input directions to unit variance, so that the kernel depends on Mahalanobis distances.  This detects
        changes in the *correlations* of many linearly related sensors (the whole gain on the Tennessee Eastman
        process), but makes detection worse if normal rows lie on a curve in few variables.
    lags : int, default=0
        Judge each row together with this many rows before it.  The first `lags` rows of X then have no statistic (NaN,
        predicted +1).
    smoothing : float or None, default=None
        Weight of the newest row in an exponentially weighted mean of SPE over time, from 1e-6 to 1; None: no
        smoothing.
    false_alarm_rate : float, default=0.05
        Share of normal rows that may lie above the limit.
    cv : int or "prefit", default=5
        Number of contiguous folds for the held-out limit.  "prefit": `estimator` is already fitted and is not changed;
        the rows given to `fit`, which it should not have seen, set the limits.
    alarm_rule : tuple (k, n), default=(1, 1)
        For `update`: alarm when k of the last n rows, the newest among them, lie above the limit.
    half_life : float or None, default=None
        For `update`: follow slow drift, with weights of past rows that halve every `half_life` rows.  Rows above the
        limit are not learned from.
    estimator : kernel estimator of this package, optional
        Used instead of SparseKernelPCA(n_components, n_support): it is cloned and fitted to the prepared rows.
    encoder : "auto", TableEncoder or None, default="auto"
        Turns a raw table into numbers.  "auto": frames with text, dates or gaps are encoded by
        ``TableEncoder(trend=False)``, which also leaves out identifiers, constants and counters; rows of numbers are
        not encoded.  A TableEncoder given here is cloned, fitted and used for rows of every kind; its scaling replaces
        `standardize`.  None: rows must be numbers.
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Number of threads, as in SparseKernelPCA.
    batch_size : int or None, default=None
        Number of rows to read at once from files and arrays on disk.

    Attributes
    ----------
    limits_ : dict
        "spe" and "t2": the held-out limits.
    training_limits_ : dict
        The limits that the training rows themselves would give, for comparison.
    offset_ : float
        -limits_["spe"]: ``decision_function = score_samples - offset_``.
    false_alarm_rate_ : float
        Expected share of new normal rows above the limit, estimated from the held-out rows.
    false_alarm_interval_ : tuple of two floats
        An interval that contains this share with probability 0.9.  It is wide if there are few held-out rows, or if
        neighbouring rows are so similar (slow processes, `smoothing`) that they count as few.
    n_held_out_ : int
        Number of held-out rows that set the limit.
    estimator_ : the fitted estimator
    encoder_ : TableEncoder or None
        The fitted encoder of a raw table; `encoder_.describe()` says in words how each column is encoded.
    expansion_ : KernelExpansion
        The kernel expansion; its inputs are rows mapped by `input_map_`.
    input_map_ : InputMap
        u = (x - center) * factor, or (x - center) @ factor if whitened; x is a row and its lags, the newest first.
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

    A table with text and gaps, and the first cause of an odd row in words:

    >>> import pandas as pd
    >>> table = pd.DataFrame({"flow": normal[:, 0], "valve": np.where(normal[:, 0] > 0, "open", "shut")})
    >>> table.loc[::50, "flow"] = np.nan
    >>> monitor = KernelMonitor(n_components=5, n_support=20, random_state=0).fit(table)
    >>> monitor.update({"flow": 9.0, "valve": "shut"}).causes[0]
    'flow is 9, usually -2.632 to 2.326 (81 %)'
    """

    _file_layout = {
        "n_features_in_": "int=d",
        "feature_names_in_": "strings[d] optional",
        "n_samples_seen_": "count",
        "limits_": "dict",
        "training_limits_": "dict",
        "spe_mean_": "float",
        "offset_": "float",
        "false_alarm_rate_": "float~",
        "false_alarm_interval_": "list",
        "n_held_out_": "int",
        "estimator_": "data",
        "encoder_": "data optional",  # None for rows of numbers
        "_usual": "UsualValues[d] optional",
        "_smoothing": "positive? optional",  # the smoothing at the time of the fit, for which the limits hold
    }

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
    encoder: Any = parameter("auto", one_of("auto"), TableEncoder, None)
    random_state: Any = parameter(None, "random_state")
    n_jobs: int | None = parameter(None, Integral, None)
    batch_size: int | None = parameter(None, at_least(1), None)

    def _validate_params(self) -> None:
        super()._validate_params()
        check_rule(self.alarm_rule)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, series: Any = None) -> Self:
        """Learn normal behaviour from rows, and set the limits.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Normal rows, in the order of time: `lags`, `smoothing` and the contiguous folds rely on it.  Any type that
            SparseKernelPCA takes: frames, memmaps, torch and cupy arrays, dask, rows in blocks.  A frame may hold text,
            dates and gaps (see `encoder`).
        y : ignored
        series : array-like of shape (n_samples,), optional
            A label of the series that each row belongs to.  Rows with different labels are not connected in time, so
            no window of `lags` contains both.

        Returns
        -------
        self
        """
        check_options(self)
        with unchanged_on_failure(self), one_blas_thread(), naming_gaps(X):
            self.encoder_ = self._fitted_encoder(X)
            rows = self._series(X, series, fits=True)
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            sample = rows.sample(SAMPLE_WINDOWS, cell_rows(self.lags, self.smoothing), seed)
            if self.cv != "prefit":  # raise an error about too few windows before any warning
                checked_folds(sample, int(self.lags), int(self.cv))
            if rows.columns is not None:  # None if scikit-learn's validation has already set the columns
                store_columns(self, *rows.columns)
            self._warn_about_columns(sample.windows)
            self._usual = self._usual_values(X, sample.windows)
            self._store(fitted(self, rows, sample, recipe_of(self, seed, encoded=self.encoder_ is not None)))
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
            With `spe`, `t2` and `alarm`, (n_samples,), and `spe_limit` and `t2_limit`.  SPE and T2 are NaN for rows
            without a whole window, and for rows of a table that lack a value which every normal row had.
        """
        check_is_fitted(self)
        found, labels = self._statistics_unsmoothed(X, series)
        t2, spe = found.T
        if self._fitted_smoothing is not None:
            bounds = run_bounds(runs_of(np.arange(len(spe)), labels))
            spe = smoothed_runs(spe, bounds, self._fitted_smoothing, self.spe_mean_)
        return MonitorStatistics(spe, t2, self.limits_["spe"], self.limits_["t2"])

    def score_samples(self, X: Any) -> np.ndarray:
        """The negative SPE of each row: low for rows unlike the training rows.

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

        The contribution of an input is the squared slope of SPE along it, per unit of kernel distance, scaled so that
        the contributions of a row add up to its SPE without smoothing.  Contributions of the lags of an input are added
        up, and so are those of the encoded columns of one column of a table.

        Parameters
        ----------
        X : rows, as in `fit`
        series : array-like of shape (n_samples,), optional
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            A frame with the names of the columns if X is a frame of pandas or polars.
        """
        check_is_fitted(self)
        detector, n_threads, width = self._detector, effective_n_threads(self.n_jobs), self._width

        def parts(windows: Array) -> np.ndarray:
            return self._by_column(summed_over_lags(detector.contributions(windows, n_threads)[2], width))

        return self._framed_like(X, self._each(X, series, parts, self.n_features_in_)[0])

    def notes(self, X: Any) -> list[str]:
        """Remarks about a whole table, rather than about single rows.

        If the limit is so high that a row unlike all others would not alarm, the first sentence says so.  A monitor of
        tables leaves out counters, the year of a date, and columns that never changed.  If the values of such a column
        in X differ from those in the normal rows, a sentence says so.

        Parameters
        ----------
        X : rows, as in `fit`

        Returns
        -------
        list of str
            Empty if there is nothing to report.
        """
        check_is_fitted(self)
        blind = [] if self._unreachable is None else [self._unreachable]
        if self._encoder is None:
            return blind
        watched = LeftOutColumns(self._encoder, self._usual)
        watched.add(table_block(X))
        return blind + watched.sentences()

    @property
    def _unreachable(self) -> str | None:
        """A sentence for a monitor whose limit a row unlike all others does not reach, else None."""
        return about_reach(self.limits_["spe"], self._detector)

    @property
    def expansion_(self) -> KernelExpansion:
        """The kernel expansion; its inputs are rows mapped by `input_map_`."""
        return self._detector.expansion

    @property
    def input_map_(self) -> InputMap:
        """The affine map that is applied to a row (and its lags) before the kernel."""
        return self._detector.inputs

    @property
    def explained_variance_(self) -> np.ndarray:
        """Variances of the training scores."""
        return self._detector.variances

    @property
    def n_components_(self) -> int:
        """The number of components."""
        return self._detector.expansion.n_components

    @property
    def n_support_(self) -> int:
        """The number of support points."""
        return self._detector.expansion.n_support

    @property
    def variable_names_(self) -> list[str]:
        """Names of the inputs: the column names if there are any, else x0, x1, ..."""
        return column_names(self)

    def check_loaded(self, error: type[ValueError]) -> None:
        """Raise `error` unless the attributes that were read from a file are consistent."""
        inputs = self._detector.inputs
        columns = self._width * max(1, self._fitted_lags + 1)
        width = self.expansion_.points.shape[1]
        widths = {"center": (len(inputs.center), columns), "points": (width, inputs.factor.shape[-1])}
        for name, (found, wanted) in widths.items():  # reading the file has checked all other shapes
            if found != wanted:
                raise error(f"arrays do not fit together: {name} of {found} columns, where {wanted} are expected")
        waiting = [] if self._drift is None else self._drift.waiting
        if not all(isinstance(one, np.ndarray) and one.shape[1:] == (columns,) for one in waiting):
            raise error("damaged model file: the monitor's waiting rows have the wrong shape")
        encoder, tail = self._encoder, self._live.tail
        if encoder is not None and (type(encoder) is not TableEncoder or encoder.n_features_in_ != self.n_features_in_):
            raise error("the encoder of the monitor in the file does not fit its table")
        whole = tail is None or tail.shape[1] == self._width
        if not whole or not all(isinstance(one, bool) for one in self._live.recent):
            raise error("the last rows that the monitor in the file has kept do not fit it")
        if set(self.limits_) != {"spe", "t2"} or not all(isinstance(v, float) for v in self.limits_.values()):
            raise error("the monitor in the file has no limits")

    @property
    def _encoder(self) -> TableEncoder | None:
        """The encoder of a table, None for rows of numbers; model files of older versions lack the attribute."""
        return getattr(self, "encoder_", None)

    @property
    def _window_names(self) -> list[str] | None:
        """Names of the columns of a window, as the detector sees it; None if the rows have no names."""
        if self._encoder is None and not hasattr(self, "feature_names_in_"):
            return None
        names = self.variable_names_ if self._encoder is None else list(self._encoder.get_feature_names_out())
        return names * (1 + int(self.lags))

    @property
    def _width(self) -> int:
        """The number of columns of a row as the detector sees it: encoded, and without lags."""
        return self.n_features_in_ if self._encoder is None else self._encoder._n_features_out

    @property
    def _fitted_lags(self) -> int:
        """The value of `lags` in the fit, even if the parameter has been changed since."""
        return len(self._detector.inputs.center) // self._width - 1

    @property
    def _fitted_smoothing(self) -> float | None:
        """The value of `smoothing` in the fit, for which the limits hold.

        Model files of version 0.1.0 lack it; then the parameter is used.
        """
        return getattr(self, "_smoothing", self.smoothing)

    def _fitted_encoder(self, X: Any) -> TableEncoder | None:
        """The encoder that turns a raw table into numbers; None for rows of numbers."""
        if self.encoder is None or self.cv == "prefit" or (self.encoder == "auto" and not is_raw_table(X)):
            return None
        own = TableEncoder("standard" if self.standardize else "none", trend=False)
        return (own if self.encoder == "auto" else clone(self.encoder)).fit(X)

    def _usual_values(self, X: Any, windows: Array) -> UsualValues:
        """The usual values of each column: in the whole table, or for rows of numbers in the sampled windows."""
        table = table_block(X) if self.encoder_ is not None else block_of(to_numpy(windows[:, : self.n_features_in_]))
        return UsualValues.of(table)

    def _series(self, X: Any, labels: Any, *, fits: bool) -> Series:
        """The rows in the order of time, for one pass; a table is encoded, with NaN for rows that cannot be judged."""
        lags, known = int(self.lags) if fits else self._fitted_lags, None if labels is None else numbered(labels)
        if self._encoder is not None:
            _check_feature_names(self, X, reset=fits)
            if fits:
                self.n_features_in_ = self._encoder.n_features_in_
            return TableSeries(encoded_or_missing(self._encoder, without_infinity(table_block(X))), lags, known)
        asked = getattr(self.estimator, "kernel", self.kernel)
        kernel = kernel_of(asked) if fits else self.expansion_.kernel
        rules = RowRules(self, kernel, self.batch_size)
        return series_of(ordered_rows(X, rules, fits=fits), lags, known, None if fits else rules.columns)

    def _each(
        self, X: Any, series: Any, function: Callable[[Array], np.ndarray], width: int
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """function(windows), `width` numbers for each row, NaN for rows without a window; and the rows' labels."""
        rows = self._series(X, series, fits=False)
        return rows.each(function, width), rows.labels

    def _statistics_unsmoothed(self, X: Any, series: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """T2 and SPE of each row, (n, 2), and the rows' labels."""
        detector, n_threads = self._detector, effective_n_threads(self.n_jobs)
        return self._each(X, series, lambda rows: np.stack(detector.statistics(rows, n_threads), axis=1), 2)

    def _by_column(self, parts: np.ndarray) -> np.ndarray:
        """Contributions of the detector's inputs; for a table, added up for each of its columns."""
        return parts if self._encoder is None else parts @ column_sums(self._encoder)

    def _store(self, found: MonitorFit) -> None:
        limits = {name: self._limit(found.held_out, name) for name in ("t2", "spe")}
        spe = limits["spe"]
        warn(about_limit(spe, found, self.false_alarm_rate, self.smoothing))
        self.spe_mean_ = float(found.held_out.spe.mean())
        self.limits_ = {name: limit.value for name, limit in limits.items()}
        self.training_limits_ = {name: self._limit(found.training, name).value for name in limits}
        self.false_alarm_rate_, self.false_alarm_interval_, self.n_held_out_ = spe.rate, spe.interval, spe.n_held_out
        self.offset_ = -spe.value
        self.estimator_ = found.estimator
        self.n_samples_seen_ = found.n_rows
        self._detector = found.detector
        self._live, self._smoothing = LiveState(), self.smoothing
        self._drift = None
        if self.half_life is not None and found.moments is not None:
            self._drift = started(found.moments, float(self.half_life))
            warn(about_memory(self._drift, self.n_components_))

    def _limit(self, values: HeldOut, name: str) -> Limit:
        if name == "t2":
            return limit_of(values.t2, self.false_alarm_rate)
        spe = smoothed_runs(values.spe, values.bounds, self.smoothing, float(values.spe.mean()))
        return limit_of(spe, self.false_alarm_rate, self.smoothing)

    def _warn_about_columns(self, windows: Array) -> None:
        if self.encoder_ is None:
            constant = about_constants(windows, self.variable_names_, whiten=self.whiten)
            if (self.standardize or self.whiten) and self.cv != "prefit":
                warn(constant)
        if self.whiten:
            warn(about_whitening(windows, self._width))

    def _framed_like(self, X: Any, values: np.ndarray) -> Any:
        """Values, a row of them for each row of X, as a frame if X is one."""
        module = type(X).__module__.partition(".")[0]
        if module == "pandas":
            import pandas as pd

            return pd.DataFrame(values, index=X.index, columns=self.variable_names_)
        if module == "polars":
            import polars as pl

            return pl.DataFrame(values, schema=self.variable_names_)
        return values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
