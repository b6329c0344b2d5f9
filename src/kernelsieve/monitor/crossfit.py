"""Fits a detector to a series of rows, and computes the held-out values that set its limits.

With at most `SAMPLE_WINDOWS` windows, input map, points and components are all refitted without each fold.  With more
windows, a sample of them determines the input map and the points, and one pass over all rows computes the moments of
each fold over those points.  The model without a fold is then computed from the sum of the other folds' moments, so no
row is read twice.  In that case only the windows of the sample have held-out values.

This module also checks the parameters of a monitor, makes its estimator, and warns if the limit is uncertain or
meaningless.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ..arrays import Array, itemsize, take_rows, to_numpy
from ..errors import PoorComponentsWarning, TooFewPoints, TooFewRows, TooManyComponents
from ..fit.expansion import KernelExpansion
from ..fit.indefinite import is_indefinite
from ..fit.moments import Moments, MomentSum, gram_of
from ..fit.span import PointSpan
from ..kernels import kernel_object, kernel_of
from ..models.sparse import SparseKernelPCA
from ..rows.streams import same_columns
from ..spectrum.whitening import RANK_TOLERANCES, whiten
from ..threads import effective_n_threads
from .series import Series, WindowSample
from .statistics import Detector, InputMap, Limit, constant_columns, fold_of, learn_map, no_map, run_bounds

if TYPE_CHECKING:
    from .online import Drift

SAMPLE_WINDOWS = 20_000  # enough for a limit: with a false alarm rate of 1 %, 200 windows lie above it
CELL_ROWS = 256  # consecutive rows that are sampled together if lags or smoothing connect neighbouring rows
CHECKED_POINTS = 500  # at most this many points are used to check that a user's kernel is positive semi-definite
CELL_MEMORIES = 20  # least length of a cell, in memories (1 / weight) of smoothing, so that its start has no effect


@dataclass(frozen=True)
class Recipe:
    """How one model is made: its input map and its estimator."""

    make: Callable[[int, int], Any] | None  # (largest number of components + 1, number of rows) -> unfitted estimator
    standardize: bool
    whiten: bool
    shift: bool = True  # whether standardising subtracts the mean; not for kernels of nonnegative numbers
    prefit: Any = None  # a fitted estimator, used unchanged

    def fit(self, windows: Array) -> tuple[Any, InputMap]:
        """An estimator fitted to these windows, and the input map applied before it."""
        if self.prefit is not None:
            return self.prefit, no_map(windows.shape[1])
        assert self.make is not None
        inputs = learn_map(windows, standardize=self.standardize, whiten=self.whiten, shift=self.shift)
        return fitted_with_rank(self.make, inputs(windows)), inputs


@dataclass(frozen=True)
class HeldOut:
    """Statistics of windows, in order, under models that were fitted without them."""

    t2: np.ndarray
    spe: np.ndarray
    bounds: np.ndarray  # where each unbroken run of rows begins, and the end; smoothing continues within a run


@dataclass(frozen=True)
class MonitorFit:
    """The result of a fit."""

    estimator: Any
    detector: Detector
    held_out: HeldOut
    training: HeldOut  # statistics of the same windows under the final model
    rounding: float  # rounding error of SPE
    moments: Moments | None  # of the windows, over the final model's points
    n_rows: int


def fitted_with_rank(make: Callable[[int, int], Any], rows: Array) -> Any:
    """An estimator fitted to the rows, with fewer components than asked for if the rows span fewer directions."""
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
            if make(smaller + 1, n_rows).n_components == asked:  # the user gave the estimator, so its number is fixed
                raise
            most = smaller + 1


def detector_of(estimator: Any, inputs: InputMap) -> Detector:
    """The detector of a fitted estimator."""
    check_distances(estimator.expansion_)
    return Detector(estimator.expansion_, np.asarray(estimator.explained_variance_, dtype=np.float64), inputs)


def check_distances(expansion: KernelExpansion) -> None:
    """Refuse a kernel that is not positive semi-definite: SPE would be no squared distance, and alarms random."""
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
    """The final model, and held-out statistics of every fold under a model that is fitted without it."""
    estimator, inputs = recipe.fit(sample.windows)
    detector = detector_of(estimator, inputs)
    folds = checked_folds(sample, series.lags, n_folds)
    t2, spe = np.full((2, len(folds)), np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit of the final model has given these warnings already
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
    """The result of a fit: the held-out statistics, and those of the same windows under the final model."""
    inside = np.flatnonzero(folds >= 0)
    # Smoothing continues from one fold into the next, because it averages values of SPE, not rows.
    bounds = run_bounds(sample.runs[inside])
    own_t2, own_spe = detector.statistics(take_rows(sample.windows, inside), n_threads)
    held_out, training = HeldOut(t2[inside], spe[inside], bounds), HeldOut(own_t2, own_spe, bounds)
    rounding = detector.rounding(sample.windows)
    return MonitorFit(estimator, detector, held_out, training, rounding, moments, sample.n_rows)


def fit_final_on_all(series: Series, sample: WindowSample, recipe: Recipe, n_folds: int, n_threads: int) -> MonitorFit:
    """For a user's estimator, which has no moments of folds: refits on the sample, and a final model of all rows."""
    found = fit_by_refits(series, sample, recipe, n_folds, n_threads)
    inputs = found.detector.inputs
    estimator = clone(found.estimator).fit(series.prepared(inputs))
    return replace(found, estimator=estimator, detector=detector_of(estimator, inputs))


def fit_as_given(sample: WindowSample, recipe: Recipe, n_threads: int) -> MonitorFit:
    """For an estimator that is already fitted: its limits are set by the given rows, which it should not have seen."""
    estimator, inputs = recipe.fit(sample.windows)
    detector = detector_of(estimator, inputs)
    found = HeldOut(*detector.statistics(sample.windows, n_threads), run_bounds(sample.runs))
    return MonitorFit(estimator, detector, found, found, detector.rounding(sample.windows), None, sample.n_rows)


def fit_by_moments(series: Series, sample: WindowSample, recipe: Recipe, n_folds: int, n_threads: int) -> MonitorFit:
    """Choose points on the sample, and compute the moments of each fold in one pass; they determine every model."""
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
    """The detector with its components recomputed: the best ones on its points for these moments, as many as before."""
    span = span_over(detector.expansion, moments)
    best = span.best(detector.expansion.n_components)
    return Detector(span.expansion(best), best.variances, detector.inputs)


def store_components(estimator: Any, detector: Detector, moments: Moments) -> None:
    """Store the components for all rows in an estimator that was fitted to a sample."""
    variances = detector.variances
    estimator.expansion_ = detector.expansion
    estimator.explained_variance_ = variances
    estimator.eigenvalues_ = variances * moments.weight
    estimator.explained_variance_ratio_ = variances / span_over(detector.expansion, moments).total_variance
    estimator.n_samples_seen_ = int(moments.weight)


def span_over(expansion: KernelExpansion, moments: Moments) -> PointSpan:
    """The span of a fitted model's points, with these moments."""
    return PointSpan(expansion.kernel, expansion.points, None, expansion.mean_coef is not None, moments)


def moment_sum(expansion: KernelExpansion, windows: Array) -> MomentSum:
    """The summand that computes moments over the points of a fitted model; `windows` only sets the precision."""
    gram = gram_of(expansion.kernel, expansion.points)
    whitening = whiten(gram, RANK_TOLERANCES[itemsize(windows)]).matrix
    return MomentSum(expansion.kernel, expansion.points, whitening)


def checked_folds(sample: WindowSample, lags: int, n_folds: int) -> np.ndarray:
    """The fold of each window, -1 if its rows belong to two folds; raise if a fold has no window."""
    if n_folds <= sample.n_rows:  # folds beyond the number of rows would be empty
        first = fold_of(sample.ends - lags, sample.n_rows, n_folds)
        folds = fold_of(sample.ends, sample.n_rows, n_folds)
        folds = np.where(first == folds, folds, -1)
        sizes = np.bincount(folds[folds >= 0], minlength=n_folds)
    if n_folds > sample.n_rows or sizes.min() < 1 or sizes.sum() - sizes.max() < 2:
        n_windows = len(sample.ends)
        left = f"only {n_windows} such window{' is' if n_windows == 1 else 's are'} left"
        window = f" of {lags + 1} consecutive rows (lags={lags}), and {left}" if lags else ""
        needed = n_folds * (lags + 1 if n_folds > 2 else lags + 2)  # of two folds, each must suffice for a fit
        raise TooFewRows(sample.n_rows, n_folds, needed, window)
    return folds


ROWS_A_COMPONENT = 3  # a monitor that follows drift should remember at least this many rows for each component
# Whitening needs at least this many rows for each column.  With fewer, the covariance of the rows is so inaccurate that
# models fitted without a fold differ from the final one, which then alarms ten times too often, or never.
WHITENING_ROWS = 5


# Folds are contiguous, so a fold of a sorted table is unlike the other folds.
SHUFFLE = "shuffle the rows if they are sorted by anything but time"


def about_limit(spe: Limit, found: MonitorFit, rate: float, smoothing: float | None) -> str | None:
    """The most serious warning about the limit of SPE, or None."""
    (low, high), n_rows = spe.interval, spe.n_held_out
    if spe.value <= found.rounding:
        return (
            f"n_components={found.detector.expansion.n_components} leaves nothing over of these rows: their SPE is "
            "rounding, and a limit on it means nothing. Give a smaller n_components, or another kernel"
        )
    if unreachable := about_reach(spe.value, found.detector):
        return unreachable
    if spe.rate > rate:
        return (
            f"{n_rows} held-out rows are too few for false_alarm_rate={rate}: the limit is the largest of them, which "
            f"about {spe.rate:.2g} of new rows exceed"
        )
    if spe.n_effective * rate < 1:
        cure = ", or less smoothing" if smoothing else f", or {SHUFFLE}"
        return (
            f"SPE of neighbouring held-out rows is so similar that {n_rows:,} of them count as "
            f"{max(1, round(spe.n_effective))}, too few for false_alarm_rate={rate}: the true rate may be anything "
            f"from {100 * low:.1f} % to {100 * high:.1f} %. Give more rows{cure}"
        )
    return None


def about_reach(limit: float, detector: Detector) -> str | None:
    """A warning about a limit of SPE that a row far from all others does not exceed, or None."""
    if limit < detector.farthest:
        return None
    return (
        f"a row unlike all others would not alarm: its SPE is {detector.farthest:.4g}, and the limit is {limit:.4g}, "
        "because held-out rows were unlike the others, too. Fit the monitor to more rows, with a smaller gamma or a "
        f"larger false_alarm_rate, or {SHUFFLE}"
    )


def about_constants(windows: Array, names: list[str], *, whiten: bool) -> str | None:
    """A warning about columns that do not vary, or None; raise if no column varies."""
    constant = np.flatnonzero(constant_columns(to_numpy(windows))[: len(names)])
    if not len(constant):
        return None
    if len(constant) == len(names):
        raise ValueError("all rows are the same: there is no variance to monitor")
    listed = ", ".join(names[j] for j in constant[:5]) + (", ..." if len(constant) > 5 else "")
    fate = "whitening leaves them out, so a change in them is not seen" if whiten else "they keep their own unit"
    return f"{len(constant)} constant column{'s' if len(constant) > 1 else ''} ({listed}): {fate}"


def about_whitening(windows: Array, n_features: int) -> str | None:
    """A warning about too few rows for whitening, or None."""
    n_windows, n_columns = (int(size) for size in windows.shape)
    if n_windows >= WHITENING_ROWS * n_columns:
        return None
    lagged = f" ({n_features} with lags={n_columns // n_features - 1})" if n_columns > n_features else ""
    return (
        f"whiten=True with {n_windows} rows for {n_columns} columns{lagged}: below {WHITENING_ROWS} rows a column the "
        "limit does not hold. Give more rows, or whiten=False"
    )


def about_memory(drift: Drift, n_components: int) -> str | None:
    """A warning about a `half_life` that is too short for the number of components, or None."""
    if drift.remembered >= ROWS_A_COMPONENT * n_components:
        return None
    return (
        f"half_life={drift.half_life:g} remembers about {drift.remembered:.0f} rows, too few for {n_components} "
        "components: normal rows will alarm. Give a longer half_life"
    )


def check_rule(rule: Any) -> None:
    """Raise unless an alarm rule is a pair of integers (k, n) with 1 <= k <= n."""
    whole = len(rule) == 2 and all(isinstance(n, Integral) and not isinstance(n, bool) for n in rule)
    if not whole or not 1 <= rule[0] <= rule[1]:
        raise ValueError(f"alarm_rule={rule!r} must be two whole numbers (k, n), 1 <= k <= n: k of n rows")


def check_options(monitor: Any) -> None:
    """Raise if parameters of a monitor contradict each other."""
    given = monitor.estimator
    if monitor.cv == "prefit":
        if given is None or not hasattr(given, "expansion_"):
            raise ValueError('cv="prefit" needs estimator=, a fitted kernel estimator')
        if monitor.whiten or monitor.lags:
            raise ValueError('a fitted estimator (cv="prefit") sees rows as they are: give whiten=False, lags=0')
    kernel = kernel_object(getattr(monitor if given is None else given, "kernel", None))
    if kernel is not None and kernel.of_objects and (monitor.whiten or monitor.lags):
        raise ValueError("rows that are objects have no columns to whiten or to join: give whiten=False, lags=0")
    if given is None:
        return
    if isinstance(given, type):
        raise ValueError(f"estimator={given.__name__} is a class: give an instance, {given.__name__}(...)")
    if not hasattr(given, "input_gradient"):  # only kernel estimators of this package have it
        raise ValueError(
            f"estimator={type(given).__name__} is no kernel estimator of this package (for scikit-learn's "
            "KernelPCA give kernelsieve.KernelPCA)"
        )
    if monitor.half_life is not None:
        raise ValueError("half_life follows drift by moments of SparseKernelPCA: give estimator=None")
    if hasattr(given, "kernel") and kernel_of(given.kernel).precomputed:
        raise ValueError("a monitor needs rows: an estimator with a precomputed kernel has none")


def recipe_of(monitor: Any, seed: int, *, encoded: bool) -> Recipe:
    """How each model is made; `encoded` rows of a table are already scaled, so they are not standardised again."""
    if monitor.cv == "prefit":  # the estimator must have been fitted to these columns
        names, known = (getattr(model, "feature_names_in_", None) for model in (monitor, monitor.estimator))
        same_columns(monitor.n_features_in_, names, monitor.estimator.n_features_in_, known)
        return Recipe(None, False, False, prefit=monitor.estimator)
    make = _default_estimator(monitor, seed) if monitor.estimator is None else lambda *_: clone(monitor.estimator)
    names = None if monitor.whiten else monitor._window_names

    def numbered(most: int, n_rows: int) -> Any:
        estimator = make(most, n_rows)
        kernel = kernel_object(getattr(estimator, "kernel", None))
        if kernel is None or names is None:
            return estimator
        return estimator.set_params(kernel=kernel.numbered(names, len(names)))

    kernel = kernel_object(getattr(monitor if monitor.estimator is None else monitor.estimator, "kernel", None))
    if monitor.whiten and kernel is not None and kernel.names_columns:
        raise ValueError(f"whiten=True mixes all columns, and {kernel!r} names some: leave whiten=False, or on() out")
    shift = kernel is None or not kernel.nonnegative
    return Recipe(numbered, monitor.standardize and not encoded, monitor.whiten, shift)


def _default_estimator(monitor: Any, seed: int) -> Callable[[int, int], Any]:
    def make(most: int, n_rows: int) -> SparseKernelPCA:
        n_components = max(1, min(monitor.n_components, most - 1))
        return SparseKernelPCA(
            n_components,
            n_support=min(max(monitor.n_support, n_components + 1), n_rows),
            kernel=monitor.kernel,
            gamma=monitor.gamma,
            random_state=seed,
            n_jobs=monitor.n_jobs,
        )

    return make


def fitted(monitor: Any, rows: Series, sample: WindowSample, recipe: Recipe) -> MonitorFit:
    """The detector and its held-out values, computed by the method that suits the rows and the estimator."""
    n_threads = effective_n_threads(monitor.n_jobs)
    if recipe.prefit is not None:
        return fit_as_given(sample, recipe, n_threads)
    own = monitor.estimator is None
    fit = fit_by_refits if sample.whole else fit_by_moments if own else fit_final_on_all
    with warnings.catch_warnings():
        if own:
            # These warnings concern kernel PCA for its own sake.  Here the held-out limit allows for components that
            # follow single rows or explain little, and the user cannot set the number of steps.
            warnings.simplefilter("ignore", PoorComponentsWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(rows, sample, recipe, int(monitor.cv), n_threads)
