"""A fitted monitor in use: it judges one row or block after another, and keeps the state that connects calls.

    windows      the last `lags` rows are kept, so that windows reach back to rows of earlier calls
    smoothing    the exponentially weighted mean of SPE continues from its last value
    alarm rule   alarm if k of the last n rows, the newest among them, are above the limit
    drift        rows at or below the limit are added to the moments.  When n rows are added, old weight and scatter are
                 multiplied by lam^n, lam = 2^(-1/half_life), and the centre of the inputs moves at the same rate.  Rows
                 above the limit are not added, so that a monitor follows slow drift, but does not adapt to a fault.

A row with a missing value (in a table: a value that every normal row had) is not judged.  It gives no alarm, no window
contains it, and it leaves all other state unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import _check_feature_names, check_is_fitted, validate_data

from ..arrays import is_foreign, to_numpy
from ..fit.moments import Moments, MomentSum, forgotten
from ..fit.parameters import unchanged_on_failure
from ..rows.checks import LARGEST
from ..rows.frames import Block, block_of, is_frame
from ..rows.kinds import check_like, object_rows
from ..rows.sources import stream_of
from ..threads import effective_n_threads, one_blas_thread
from .crossfit import check_rule, refitted
from .statistics import Detector, smoothed, summed_over_lags, windows_of
from .table import Words, causes_of, encoded_or_missing, percent, row_block, table_block, without_calendar

DRIFT_STEPS = 20  # how often the components are recomputed in one half-life


@dataclass(frozen=True)
class Record:
    """The result of a monitor for one row."""

    number: int  # number of rows that `update` has seen before this one
    spe: float  # smoothed if the monitor smooths; NaN if the row has no whole window
    limit: float
    t2: float
    t2_limit: float
    exceeded: bool  # whether `spe` is above its limit
    alarm: bool  # whether the k-of-n rule gives an alarm
    missing: bool  # whether the row was not judged, because a value is missing or its window is incomplete
    # The variables that contribute most to SPE, with their shares; calendar columns are left out.
    top: tuple[tuple[str, float], ...]
    # For a row above its limit, the same variables in words: "flow is 9, usually 2 to 4 (80 %)".
    causes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.missing:
            return f"row {self.number}: not judged (missing values)"
        state = "ALARM" if self.alarm else "above the limit" if self.exceeded else "normal"
        causes = "; ".join(self.causes) or ", ".join(f"{name} {percent(share)}" for name, share in self.top)
        return f"row {self.number}: {state}, SPE {self.spe:.4g} of {self.limit:.4g}; {causes}"


@dataclass(frozen=True)
class LiveState:
    """The state that a monitor keeps between calls of `update`."""

    number: Annotated[int, "count"] = 0
    tail: Annotated[np.ndarray | None, "float[*, d]?"] = None  # the last rows of the current unbroken series
    smoothed: Annotated[float | None, "float?"] = None  # the last value of the smoothed SPE
    recent: Annotated[tuple[bool, ...], "list"] = ()  # whether each of the last n judged rows was above the limit

    _file_sizes = ("d",)


@dataclass(frozen=True)
class Drift:
    """Moments with forgetting, and the rows that will be added at the next update."""

    moments: Annotated[Moments, "Moments[m]"]
    half_life: Annotated[float, "positive"]
    waiting: Annotated[list[np.ndarray], "list"] = field(default_factory=list)

    _file_sizes = ("m",)

    @property
    def step(self) -> int:
        """The number of added rows after which the components are recomputed."""
        return max(1, round(self.half_life / DRIFT_STEPS))

    @property
    def remembered(self) -> float:
        """The total weight of the rows of a long stream, 1 / (1 - lam)."""
        return remembered_rows(self.half_life)

    def forget(self, n_rows: int) -> float:
        """lam^n, the factor by which n new rows multiply old weights."""
        return float(2.0 ** (-n_rows / self.half_life))


def started(moments: Moments, half_life: float) -> Drift:
    """The drift after a fit; the total weight of the training rows is at most that of a long stream's rows."""
    return Drift(forgotten(moments, min(1.0, remembered_rows(half_life) / moments.weight)), half_life)


def remembered_rows(half_life: float) -> float:
    """1 / (1 - lam), the total weight of the rows of a long stream."""
    return -1.0 / math.expm1(-math.log(2.0) / half_life)


class OnlineMonitor:
    """The part of KernelMonitor that judges rows one after another; every `self` here is a KernelMonitor."""

    _detector: Annotated[Detector, "Detector[m, w, M]"]
    _live: Annotated[LiveState, "LiveState[e]"]
    _drift: Annotated[Drift | None, "Drift[m]?"]

    def update(self: Any, X: Any) -> Any:
        """Judge the next row, or the next rows, of a running process.

        Windows, smoothing and the k-of-n rule continue from call to call, so the records do not depend on how the rows
        are divided among calls.  With `half_life` they may differ slightly, as the model is then updated at other rows.

        Parameters
        ----------
        X : array-like of shape (n_features,) or (n_samples, n_features)
            One row, a block of rows, or several blocks (a list, an iterator, a loader).  One row may also be a dict or
            a pandas Series that maps the names of the columns to values.  Rows that are objects are given in a list; a
            single string may be given without one.  A row with a missing or infinite value is not judged.  A row of a
            table is not judged if it lacks a value that every normal row had.

        Returns
        -------
        Record, or list of Record for a block
            With `spe`, `limit`, `t2`, `exceeded`, `alarm` and `missing`.  `top` has the names of the variables that
            contribute most, with their shares of SPE; calendar columns, such as the month, are left out.  For rows
            above the limit, `causes` says in words what these variables are and what they usually are.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelsieve import KernelMonitor
        >>> normal = np.random.default_rng(0).standard_normal((500, 3))
        >>> monitor = KernelMonitor(n_components=5, n_support=20, alarm_rule=(2, 3), random_state=0).fit(normal)
        >>> [monitor.update(row).alarm for row in ([0, 0, 0], [0, 9, 0], [0, np.nan, 0], [0, 9, 0])]
        [False, False, False, True]
        >>> monitor.update([0, 9, 0]).top[0][0]
        'x1'
        """
        check_is_fitted(self)
        check_rule(self.alarm_rule)
        of_objects = self._detector.expansion.kernel.of_objects
        if not of_objects and (stream := stream_of(X, once=True)) is not None:
            with unchanged_on_failure(self):
                return [record for block in stream.open() for record in self.update(block)]
        rows, words, single = self._live_objects(X) if of_objects else self._live_rows(X)
        step = len(rows) if self._drift is None else self._drift.step
        records: list[Record] = []
        with unchanged_on_failure(self), one_blas_thread():
            for start in range(0, len(rows), max(1, step)):
                records += self._judged(rows[start : start + step], words, start)
        return records[0] if single else records

    def restart(self: Any) -> Any:
        """Forget the preceding rows, for instance after a gap: windows, smoothing and the k-of-n rule begin again.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self._live = LiveState(number=self._live.number)
        return self

    def _live_objects(self: Any, X: Any) -> tuple[np.ndarray, Words, bool]:
        """`_live_rows` for objects, which have no columns to describe."""
        single = isinstance(X, str | bytes)
        rows = object_rows([X] if single else X)
        check_like(rows, self._detector.expansion.points)
        return rows, lambda row, j: "", single

    def _live_rows(self: Any, X: Any) -> tuple[np.ndarray, Words, bool]:
        """Rows for the detector (NaN if not judged), how to describe their values, and whether X was a single row."""
        if is_foreign(X):
            X = to_numpy(X)
        if scipy.sparse.issparse(X):
            X = X.toarray()
        if self._encoder is not None:
            block, single = self._table_rows(X)
            return encoded_or_missing(self._encoder, block), self._words(block), single
        if hasattr(X, "columns"):  # a frame: its columns are matched by name
            rows = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite=False)
            return rows, self._words(block_of(rows)), False
        try:
            rows = np.ma.filled(np.ma.asarray(self._by_name(X), dtype=np.float64), np.nan)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"a row must be {self.n_features_in_} numbers (NaN where one is missing): {error}"
            ) from error
        single = rows.ndim == 1
        if rows.ndim not in (1, 2) or rows.shape[-1] != self.n_features_in_:
            raise ValueError(
                f"rows of {self.n_features_in_} values are needed, ({self.n_features_in_},) or (n, "
                f"{self.n_features_in_}): got shape {rows.shape}"
            )
        rows = rows.reshape(-1, self.n_features_in_)
        return rows, self._words(block_of(rows)), single

    def _table_rows(self: Any, X: Any) -> tuple[Block, bool]:
        """Rows of a raw table as a block, and whether it was a single row."""
        if is_frame(X):
            _check_feature_names(self, X, reset=False)
            return table_block(X), False
        values = self._by_name(X)
        if not isinstance(values, np.ndarray) or values.ndim != 2:
            listed = list(values)
            if len(listed) != self.n_features_in_:
                raise ValueError(f"a row of {self.n_features_in_} values is needed: got {len(listed)}")
            return row_block(self._encoder, listed), True
        return table_block(values), False

    def _words(self: Any, block: Block) -> Words:
        """Descriptions of the values of a block.

        For model files of older versions, which lack the usual values, a description is only the name of the column.
        """
        names, usual = tuple(self.variable_names_), getattr(self, "_usual", None)
        return (lambda row, j: names[j]) if usual is None else usual.words(replace(block, names=names))

    def _by_name(self: Any, X: Any) -> Any:
        """The values of a row given by name, in the order of the columns, NaN if missing; anything else unchanged."""
        if not isinstance(X, Mapping):
            labelled = hasattr(X, "to_dict") and hasattr(X, "index") and hasattr(self, "feature_names_in_")
            if not labelled or not any(isinstance(label, str) for label in X.index):
                return X
            X = X.to_dict()
        names = self.variable_names_
        unknown = [name for name in X if name not in names]
        if unknown or not X:
            raise ValueError(f"a row of {len(names)} values by name has no place for {unknown}: the names are {names}")
        return [np.nan if X.get(name) is None else X[name] for name in names]

    def _judged(self: Any, rows: np.ndarray, words: Words, first: int) -> list[Record]:
        whole = np.ones(len(rows), dtype=bool)
        if rows.dtype != object:
            whole = np.isfinite(rows).all(axis=1)
            rows = np.clip(rows, -LARGEST[8], LARGEST[8])  # a broken sensor may give any value
        t2, spe = np.full((2, len(rows)), np.nan)
        parts = np.zeros((len(rows), self.n_features_in_))
        breaks = np.flatnonzero(np.diff(whole)) + 1
        for run in np.split(np.arange(len(rows)), breaks):
            if not len(run) or not whole[run[0]]:
                self._live = replace(self._live, tail=None)
                continue
            windows = self._windows_ending(rows[run])
            with_window = run[len(run) - len(windows) :]
            if len(windows):
                t2[with_window], spe[with_window], parts[with_window] = self._statistics_and_parts(windows)
                smooth = self._smoothed_on(spe[with_window])
                normal = windows[smooth <= self.limits_["spe"]]
                if self._drift is not None and len(normal):
                    self._drift = replace(self._drift, waiting=[*self._drift.waiting, normal])
                spe[with_window] = smooth
        records = self._records(t2, spe, parts, lambda row, j: words(first + row, j))
        self._follow_drift()
        return records

    def _statistics_and_parts(self: Any, windows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """T2, SPE and the contributions of the inputs, which are zero if the kernel has no derivative."""
        detector, n_threads = self._detector, effective_n_threads(self.n_jobs)
        if not detector.expansion.kernel.differentiable:
            return *detector.statistics(windows, n_threads), np.zeros((len(windows), self.n_features_in_))
        t2, spe, found = detector.contributions(windows, n_threads)
        return t2, spe, self._by_column(summed_over_lags(found, self._width))

    def _windows_ending(self: Any, rows: np.ndarray) -> np.ndarray:
        """The windows that end at these rows; the first rows of a series have no window."""
        tail, lags = self._live.tail, self._fitted_lags
        joined = rows if tail is None else np.concatenate([tail, rows])
        if lags:
            self._live = replace(self._live, tail=joined[-lags:])
        if len(joined) <= lags:
            return np.zeros((0, self._width * (lags + 1)))
        return np.asarray(windows_of(joined, lags)[-len(rows) :])

    def _smoothed_on(self: Any, spe: np.ndarray) -> np.ndarray:
        if self._fitted_smoothing is None:
            return spe
        start = self.spe_mean_ if self._live.smoothed is None else self._live.smoothed
        found = smoothed(spe, self._fitted_smoothing, start)
        self._live = replace(self._live, smoothed=float(found[-1]))
        return found

    def _records(self: Any, t2: np.ndarray, spe: np.ndarray, parts: np.ndarray, words: Words) -> list[Record]:
        names, limits = self.variable_names_, self.limits_
        needed, remembered = self.alarm_rule
        parts = parts if self._encoder is None else without_calendar(self._encoder, parts)
        recent, number, records = list(self._live.recent), self._live.number, []
        for row, (one_t2, one_spe) in enumerate(zip(t2.tolist(), spe.tolist(), strict=True)):
            missing = one_spe != one_spe
            exceeded = bool(one_spe > limits["spe"])
            if not missing:
                recent = [*recent, exceeded][-remembered:]
            found = [] if missing else causes_of(parts[row])
            top = tuple((names[j], share) for j, share in found)
            causes = tuple(f"{words(row, j)} ({percent(share)})" for j, share in found) if exceeded else ()
            alarm = exceeded and sum(recent) >= needed
            judged = (one_spe, limits["spe"], one_t2, limits["t2"], exceeded, alarm, missing)
            records.append(Record(number, *judged, top, causes))
            number += 1
        self._live = replace(self._live, number=number, recent=tuple(recent))
        return records

    def _follow_drift(self: Any) -> None:
        """Once enough rows wait, add them to the moments and the centre of the inputs, and recompute the components."""
        drift, detector = self._drift, self._detector
        if drift is None or sum(map(len, drift.waiting)) < drift.step:
            return
        windows = np.concatenate(drift.waiting)
        keep, expansion = drift.forget(len(windows)), detector.expansion
        entering = MomentSum(expansion.kernel, expansion.points, drift.moments.whitening)
        moments = forgotten(drift.moments, keep) + entering.over(
            detector.inputs(windows), None, effective_n_threads(self.n_jobs)
        )
        inputs = detector.inputs
        if windows.dtype != object:
            inputs = inputs.moved(keep * inputs.center + (1 - keep) * windows.mean(axis=0))
        self._detector = replace(refitted(detector, moments), inputs=inputs)
        self._drift = replace(drift, moments=moments, waiting=[])
