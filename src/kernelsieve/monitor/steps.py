"""The steps of KernelMonitor.fit: what it is asked, what its rows are, what it keeps."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ..arrays import Array
from ..errors import PoorComponentsWarning, warn
from ..fit.expansion import KernelExpansion
from ..kernels import kernel_type
from ..models.sparse import SparseKernelPCA
from ..rows import RowRules, new_rows, rows_of
from ..rows.files import is_dask, stream_of
from ..rows.frames import column_names
from ..rows.streams import StreamRows, same_columns
from ..threads import effective_n_threads
from .advice import about_constants, about_limit, about_memory, about_whitening
from .fitting import HeldOut, MonitorFit, Recipe, fit_as_given, fit_by_moments, fit_by_refits, fit_final_on_all
from .inputs import InputMap
from .limits import Limit, limit_of, run_bounds, runs_of, smoothed_runs
from .live import Drift, LiveState, started
from .series import ArraySeries, DaskSeries, Series, StreamSeries, WindowSample, numbered
from .statistics import Detector


class MonitorSteps:
    """What KernelMonitor, which every `self` here is, does behind its public methods."""

    _file_layout = {
        "n_features_in_": "int=d",
        "feature_names_in_": "strings[d] optional",
        "n_samples_seen_": "int",
        "limits_": "dict",
        "training_limits_": "dict",
        "spe_mean_": "float",
        "offset_": "float",
        "false_alarm_rate_": "float~",
        "false_alarm_interval_": "list",
        "n_held_out_": "int",
        "estimator_": "data",
        "_detector": "Detector[m, w, M]",
        "_live": "LiveState[d]",
        "_drift": "Drift[m]?",
        "_smoothing": "positive? optional",  # that of the fit, whose limits are those of smoothed values
    }

    _detector: Detector
    _drift: Drift | None
    n_features_in_: int

    @property
    def expansion_(self) -> KernelExpansion:
        """The kernel expansion, over rows that have gone through `input_map_`."""
        return self._detector.expansion

    @property
    def input_map_(self) -> InputMap:
        """What happens to a row (and its lags) before the kernel sees it: an affine map."""
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
        """Names of the inputs: of the columns where they have any, else x0, x1, ..."""
        return column_names(self)

    def _smoothed_series(self: Any, spe: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
        bounds = run_bounds(runs_of(np.arange(len(spe)), labels))
        return smoothed_runs(spe, bounds, self._fitted_smoothing, self.spe_mean_)

    def check_loaded(self: Any, error: type[ValueError]) -> None:
        """Raise `error` unless what was read from a file fits together."""
        inputs = self._detector.inputs
        columns = int(self.n_features_in_) * max(1, self._fitted_lags + 1)
        width = self.expansion_.points.shape[1]
        widths = {"center": (len(inputs.center), columns), "points": (width, inputs.factor.shape[-1])}
        for name, (found, wanted) in widths.items():  # all else the layouts have looked at
            if found != wanted:
                raise error(f"arrays do not fit together: {name} of {found} columns, where {wanted} are expected")
        waiting = [] if self._drift is None else self._drift.waiting
        if not all(isinstance(one, np.ndarray) and one.shape[1:] == (columns,) for one in waiting):
            raise error("the rows that wait to enter the monitor in the file are no rows")
        if self._live is not None and not all(isinstance(one, bool) for one in self._live.recent):
            raise error("the monitor in the file does not know its last rows")
        if set(self.limits_) != {"spe", "t2"} or not all(isinstance(v, float) for v in self.limits_.values()):
            raise error("the monitor in the file has no limits")

    def _n_threads(self: Any) -> int:
        return effective_n_threads(self.n_jobs)

    @property
    def _fitted_lags(self) -> int:
        """Of the fit, whatever the parameter has been set to since."""
        return len(self._detector.inputs.center) // self.n_features_in_ - 1

    @property
    def _fitted_smoothing(self: Any) -> float | None:
        """Of the fit, whose limits are limits of values so smoothed; files of old do not tell."""
        return vars(self).get("_smoothing", self.smoothing)

    def _check_rule(self: Any) -> None:
        rule = self.alarm_rule
        whole = len(rule) == 2 and all(isinstance(n, Integral) and not isinstance(n, bool) for n in rule)
        if not whole or not 1 <= rule[0] <= rule[1]:
            raise ValueError(f"alarm_rule={rule!r} must be two whole numbers (k, n), 1 <= k <= n: k of n rows")

    def _check_options(self: Any) -> None:
        if self.cv == "prefit":
            if self.estimator is None or not hasattr(self.estimator, "expansion_"):
                raise ValueError('cv="prefit" needs estimator=, a fitted kernel estimator')
            if self.whiten or self.lags:
                raise ValueError('a fitted estimator (cv="prefit") sees rows as they are: give whiten=False, lags=0')
        if self.estimator is not None:
            self._check_estimator()

    def _check_estimator(self: Any) -> None:
        given = self.estimator
        if isinstance(given, type):
            raise ValueError(f"estimator={given.__name__} is a class: give an instance, {given.__name__}(...)")
        if not hasattr(given, "input_gradient"):  # which all kernel estimators have, and no linear one
            raise ValueError(
                f"estimator={type(given).__name__} is no kernel estimator of this package (for scikit-learn's "
                "KernelPCA give kernelsieve.KernelPCA)"
            )
        if self.half_life is not None:
            raise ValueError("half_life follows drift by moments of SparseKernelPCA: give estimator=None")
        if hasattr(given, "kernel") and kernel_type(given.kernel).precomputed:
            raise ValueError("a monitor needs rows: an estimator with a precomputed kernel has none")

    def _series(self: Any, X: Any, labels: Any, *, reset: bool) -> Series:
        """The rows in order, checked as far as they can be before they are read."""
        known = None if labels is None else numbered(labels)
        lags = int(self.lags) if reset else self._fitted_lags
        kernel = kernel_type(self.kernel) if reset else type(self.expansion_.kernel)
        rules = RowRules(self, kernel, self.batch_size)
        expected = None if reset else rules.columns
        if is_dask(X):
            return DaskSeries(X, lags, known, expected)
        stream = stream_of(X, self.batch_size, fits=reset)
        if stream is not None:
            return StreamSeries(StreamRows(stream), lags, known, expected)
        rows: Any = rows_of(X, rules) if reset else None
        return ArraySeries(new_rows(X, rules) if rows is None else rows.X, lags, known)

    def _row_statistics(self: Any, X: Any, series: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """T2 and SPE of each row, not smoothed, and the series that it is of."""
        rows = self._series(X, series, reset=False)
        detector, n_threads = self._detector, self._n_threads()
        found = rows.each(lambda windows: np.stack(detector.statistics(windows, n_threads), axis=1), 2)
        return found[:, 0], found[:, 1], rows.labels

    def _recipe(self: Any, seed: int) -> Recipe:
        if self.cv == "prefit":  # it must have seen the columns that set its limits
            names, known = (getattr(model, "feature_names_in_", None) for model in (self, self.estimator))
            same_columns(self.n_features_in_, names, self.estimator.n_features_in_, known)
            return Recipe(None, False, False, prefit=self.estimator)
        make = self._default_estimator(seed) if self.estimator is None else lambda *_: clone(self.estimator)
        return Recipe(make, self.standardize, self.whiten)

    def _default_estimator(self: Any, seed: int) -> Callable[[int, int], Any]:
        def make(most: int, n_rows: int) -> SparseKernelPCA:
            n_components = max(1, min(self.n_components, most - 1))
            n_support = min(max(self.n_support, n_components + 1), n_rows)
            return SparseKernelPCA(
                n_components,
                n_support=n_support,
                kernel=self.kernel,
                gamma=self.gamma,
                random_state=seed,
                n_jobs=self.n_jobs,
            )

        return make

    def _fitted(self: Any, rows: Series, sample: WindowSample, recipe: Recipe) -> MonitorFit:
        n_threads = self._n_threads()
        if recipe.prefit is not None:
            return fit_as_given(sample, recipe, n_threads)
        fit = fit_by_refits if sample.whole else fit_by_moments if self.estimator is None else fit_final_on_all
        with warnings.catch_warnings():
            if self.estimator is None:
                # Advice on a model of the rows for its own sake.  Here the held-out limit makes up for components that
                # follow single rows or explain little, and the number of steps is not the user's to choose.
                warnings.simplefilter("ignore", PoorComponentsWarning)
                warnings.simplefilter("ignore", ConvergenceWarning)
            return fit(rows, sample, recipe, int(self.cv), n_threads)

    def _store(self: Any, found: MonitorFit) -> None:
        limits = {name: self._limit(found.held_out, name) for name in ("t2", "spe")}
        spe = limits["spe"]
        said = about_limit(spe, found, self.false_alarm_rate, self.smoothing)
        if said:
            warn(said)
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
            said = about_memory(self._drift, self.n_components_)
            if said:
                warn(said)

    def _limit(self: Any, values: HeldOut, name: str) -> Limit:
        if name == "t2":
            return limit_of(values.t2, self.false_alarm_rate)
        spe = smoothed_runs(values.spe, values.bounds, self.smoothing, float(values.spe.mean()))
        return limit_of(spe, self.false_alarm_rate, self.smoothing)

    def _warn_about_columns(self: Any, windows: Array) -> None:
        constant = about_constants(windows, self.variable_names_, whiten=self.whiten)
        if constant and (self.standardize or self.whiten) and self.cv != "prefit":
            warn(constant)
        few = about_whitening(windows, self.n_features_in_) if self.whiten else None
        if few:
            warn(few)

    def _framed_like(self: Any, X: Any, values: np.ndarray) -> Any:
        """Values, one row a row of X, as a frame where X is one."""
        module = type(X).__module__.partition(".")[0]
        if module == "pandas":
            import pandas as pd

            return pd.DataFrame(values, index=X.index, columns=self.variable_names_)
        if module == "polars":
            import polars as pl

            return pl.DataFrame(values, schema=self.variable_names_)
        return values
