"""From a series of rows to a detector and its held-out values.

With up to `SAMPLE_WINDOWS` windows everything is refitted without each fold: input map, points, components.  With
more, a sample of them determines the input map and the points, one pass over all rows gives the moments of each fold
over those points, and a fold's model is that of the sum of the other folds' moments, for which no row is read twice.
The held-out values are then those of the sample.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from sklearn.base import clone

from ..arrays import Array, take_rows
from ..errors import TooFewPoints, TooFewRows, TooManyComponents
from ..fit.expansion import KernelExpansion
from ..fit.indefinite import is_indefinite
from ..fit.moments import Moments, MomentSum, gram_of
from ..fit.span import PointSpan
from ..spectrum.whitening import RANK_TOLERANCE, RANK_TOLERANCE_FLOAT32, whiten
from .inputs import InputMap, learn_map, no_map
from .series import Series, WindowSample
from .statistics import Detector, fold_of, run_bounds

SAMPLE_WINDOWS = 20_000  # with 1 % false alarms, 200 of them lie above the limit
CELL_ROWS = 256  # consecutive rows that are sampled together, if windows or smoothing connect them
CHECKED_POINTS = 500  # points whose gram shows whether a user's function is positive semi-definite
CELL_MEMORIES = 20  # least length of a cell, in memories of the smoothing, so that its starting value has no effect


@dataclass(frozen=True)
class Recipe:
    """How one model is made: its input map and its estimator."""

    make: Callable[[int, int], Any] | None  # (most components + 1, number of rows) -> an unfitted estimator
    standardize: bool
    whiten: bool
    shift: bool = True  # standardised columns have mean zero; not those of a kernel of nonnegative numbers
    prefit: Any = None  # a fitted estimator, used unchanged

    def fit(self, windows: Array) -> tuple[Any, InputMap]:
        """A fitted estimator and the map in front of it."""
        if self.prefit is not None:
            return self.prefit, no_map(windows.shape[1])
        assert self.make is not None
        inputs = learn_map(windows, standardize=self.standardize, whiten=self.whiten, shift=self.shift)
        return fitted_with_rank(self.make, inputs(windows)), inputs


@dataclass(frozen=True)
class HeldOut:
    """Statistics of windows under models that have not seen them, in order."""

    t2: np.ndarray
    spe: np.ndarray
    bounds: np.ndarray  # of unbroken runs of rows, within which smoothing continues


@dataclass(frozen=True)
class MonitorFit:
    """The result of a fit."""

    estimator: Any
    detector: Detector
    held_out: HeldOut
    training: HeldOut  # of the same windows under the final model
    rounding: float  # of SPE
    moments: Moments | None  # over the final model's points
    n_rows: int


def fitted_with_rank(make: Callable[[int, int], Any], rows: Array) -> Any:
    """A fitted estimator, with fewer components if the rows have fewer directions."""
    most = n_rows = int(rows.shape[0])
    while True:
        estimator = make(most, n_rows)
        try:
            return estimator.fit(rows)
        except (TooManyComponents, TooFewPoints):
            asked = getattr(estimator, "n_components", None)
            if not isinstance(asked, int) or asked < 2:
                raise
            smaller = asked * 2 // 3 if asked > 4 else asked - 1
            if make(smaller + 1, n_rows).n_components == asked:  # an estimator given by the user
                raise
            most = smaller + 1


def detector_of(estimator: Any, inputs: InputMap) -> Detector:
    """The statistics' view of a fitted estimator."""
    check_distances(estimator.expansion_)
    return Detector(estimator.expansion_, np.asarray(estimator.explained_variance_, dtype=np.float64), inputs)


def check_distances(expansion: KernelExpansion) -> None:
    """Refuse a kernel that is not positive semi-definite: SPE is a squared distance, and would alarm at random."""
    kernel, points = expansion.kernel, expansion.points[:CHECKED_POINTS]
    known = kernel.definite is not None
    if kernel.definite if known else not is_indefinite(kernel, gram_of(kernel, points)):
        return
    others = '"rbf", "matern", "laplacian", "cosine", "linear", or "poly" with a whole degree and coef0 >= 0'
    raise ValueError(
        f"a monitor needs distances in feature space, and the {kernel.name} kernel, not being positive semi-definite, "
        f"has none. Give kernel={'Spectrum(3), or another definite kernel of objects' if kernel.of_objects else others}"
    )


def cell_rows(lags: int, smoothing: float | None) -> int:
    """Number of consecutive rows that must be sampled together."""
    if not lags and smoothing is None:
        return 1
    return max(CELL_ROWS, lags + 1, round(CELL_MEMORIES / (smoothing or 1.0)))


def fit_by_refits(series: Series, sample: WindowSample, recipe: Recipe, n_folds: int, n_threads: int) -> MonitorFit:
    """Values of every fold under a model that was made without it."""
    estimator, inputs = recipe.fit(sample.windows)
    detector = detector_of(estimator, inputs)
    folds = checked_folds(sample, series.lags, n_folds)
    t2, spe = np.full((2, len(folds)), np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the final model has given all warnings
        for fold in range(n_folds):
            others = np.flatnonzero((folds != fold) & (folds >= 0))
            own = np.flatnonzero(folds == fold)
            try:
                without = detector_of(*recipe.fit(take_rows(sample.windows, others)))
            except ValueError as error:
                fold_rows = f"rows {sample.ends[own[0]]} to {sample.ends[own[-1]]}, fold {fold + 1} of cv={n_folds}"
                raise ValueError(f"no model without {fold_rows}: {error}") from error
            t2[own], spe[own] = without.statistics(take_rows(sample.windows, own), n_threads)
    moments = moment_sum(detector.expansion, sample.windows).over(inputs(sample.windows), None, n_threads)
    return _both_ways(estimator, detector, sample, folds, t2, spe, moments, n_threads)


def _both_ways(
    estimator: Any,
    detector: Detector,
    sample: WindowSample,
    folds: np.ndarray,
    t2: np.ndarray,
    spe: np.ndarray,
    moments: Moments,
    n_threads: int,
) -> MonitorFit:
    """Held-out statistics, and those of the same windows under the final model."""
    inside = np.flatnonzero(folds >= 0)
    # smoothing continues across folds, because it remembers values and not rows
    bounds = run_bounds(sample.runs[inside])
    own_t2, own_spe = detector.statistics(take_rows(sample.windows, inside), n_threads)
    held_out, training = HeldOut(t2[inside], spe[inside], bounds), HeldOut(own_t2, own_spe, bounds)
    rounding = detector.rounding(sample.windows)
    return MonitorFit(estimator, detector, held_out, training, rounding, moments, sample.n_rows)


def fit_final_on_all(series: Series, sample: WindowSample, recipe: Recipe, n_folds: int, n_threads: int) -> MonitorFit:
    """Limits by refits on the sample, the final model on all rows: for estimators without moments of folds."""
    found = fit_by_refits(series, sample, recipe, n_folds, n_threads)
    inputs = found.detector.inputs
    estimator = clone(found.estimator).fit(series.prepared(inputs))
    return replace(found, estimator=estimator, detector=detector_of(estimator, inputs))


def fit_as_given(sample: WindowSample, recipe: Recipe, n_threads: int) -> MonitorFit:
    """A fitted estimator, and rows that it has not seen, to set its limits by."""
    estimator, inputs = recipe.fit(sample.windows)
    detector = detector_of(estimator, inputs)
    found = HeldOut(*detector.statistics(sample.windows, n_threads), run_bounds(sample.runs))
    return MonitorFit(estimator, detector, found, found, detector.rounding(sample.windows), None, sample.n_rows)


def fit_by_moments(series: Series, sample: WindowSample, recipe: Recipe, n_folds: int, n_threads: int) -> MonitorFit:
    """Points from the sample, then one pass: the moments of each fold, and from them every model."""
    estimator, inputs = recipe.fit(sample.windows)
    moments = moment_sum(estimator.expansion_, sample.windows)
    parts = series.fold_moments(moments, inputs, sample.n_rows, n_folds, n_threads)
    if len(parts) < n_folds:
        raise ValueError(f"cv={n_folds} folds, of which some have no window of rows: give a smaller cv")
    total = reduce(Moments.__add__, parts)
    detector = refitted(detector_of(estimator, inputs), total)
    store_components(estimator, detector, total)
    folds = checked_folds(sample, series.lags, n_folds)
    t2, spe = np.full((2, len(folds)), np.nan)
    for fold in range(n_folds):
        others = reduce(Moments.__add__, [part for number, part in enumerate(parts) if number != fold])
        own = np.flatnonzero(folds == fold)
        t2[own], spe[own] = refitted(detector, others).statistics(take_rows(sample.windows, own), n_threads)
    return _both_ways(estimator, detector, sample, folds, t2, spe, total, n_threads)


def refitted(detector: Detector, moments: Moments) -> Detector:
    """The best components on the detector's points, as many as it has, for these moments."""
    span = span_over(detector.expansion, moments)
    best = span.best(detector.expansion.n_components)
    return Detector(span.expansion(best), best.variances, detector.inputs)


def store_components(estimator: Any, detector: Detector, moments: Moments) -> None:
    """Turn an estimator that was fitted to a sample into the model of all rows."""
    variances = detector.variances
    estimator.expansion_ = detector.expansion
    estimator.explained_variance_ = variances
    estimator.eigenvalues_ = variances * moments.weight
    estimator.explained_variance_ratio_ = variances / span_over(detector.expansion, moments).total_variance
    estimator.n_samples_seen_ = int(moments.weight)


def span_over(expansion: KernelExpansion, moments: Moments) -> PointSpan:
    """The span of a fitted model's points with these moments over it."""
    return PointSpan(expansion.kernel, expansion.points, None, expansion.mean_coef is not None, moments)


def moment_sum(expansion: KernelExpansion, windows: Array) -> MomentSum:
    """The sum over windows of this dtype that gives their moments over the points of a fitted model."""
    tolerance = RANK_TOLERANCE_FLOAT32 if "32" in str(windows.dtype) else RANK_TOLERANCE
    whitening = whiten(gram_of(expansion.kernel, expansion.points), tolerance).matrix
    return MomentSum(expansion.kernel, expansion.points, whitening)


def checked_folds(sample: WindowSample, lags: int, n_folds: int) -> np.ndarray:
    """The fold of each window, -1 if it crosses from one into the next."""
    if n_folds <= sample.n_rows:  # folds beyond the number of rows would be empty
        first = fold_of(sample.ends - lags, sample.n_rows, n_folds)
        folds = fold_of(sample.ends, sample.n_rows, n_folds)
        folds = np.where(first == folds, folds, -1)
        sizes = np.bincount(folds[folds >= 0], minlength=n_folds)
    if n_folds > sample.n_rows or sizes.min() < 1 or sizes.sum() - sizes.max() < 2:
        n_windows = len(sample.ends)
        left = f"only {n_windows} such window{' is' if n_windows == 1 else 's are'} left"
        window = f" of {lags + 1} consecutive rows (lags={lags}), and {left}" if lags else ""
        needed = n_folds * (lags + 1 if n_folds > 2 else lags + 2)  # of two folds, one alone must make a model
        raise TooFewRows(sample.n_rows, n_folds, needed, window)
    return folds
