"""From the parameters of a monitor to a fit: checks, the choice of estimator, and how its limits are found.

If the limit is uncertain or meaningless, the fit ends with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ..arrays import Array, to_numpy
from ..errors import PoorComponentsWarning
from ..kernels import kernel_object, kernel_of
from ..models.sparse import SparseKernelPCA
from ..rows.streams import same_columns
from ..threads import effective_n_threads
from .crossfit import MonitorFit, Recipe, fit_as_given, fit_by_moments, fit_by_refits, fit_final_on_all
from .inputs import constant_columns
from .series import Series, WindowSample
from .statistics import Limit

if TYPE_CHECKING:
    from .online import Drift

ROWS_A_COMPONENT = 3  # that a monitor which follows drift must remember
# Whitening divides by the rows' own covariance: with fewer rows for each column this is too inaccurate, models without
# a fold differ from the final one, and the limit alarms at ten times its rate or never.
WHITENING_ROWS = 5


def about_limit(spe: Limit, found: MonitorFit, rate: float, smoothing: float | None) -> str | None:
    """The most serious warning about the limit of SPE, or None."""
    (low, high), n_rows = spe.interval, spe.n_held_out
    if spe.value <= found.rounding:
        return (
            f"n_components={found.detector.expansion.n_components} leaves nothing over of these rows: their SPE is "
            "rounding, and a limit on it means nothing. Give a smaller n_components, or another kernel"
        )
    if smoothing is None and spe.value >= found.detector.farthest:
        return (
            f"a row unlike all others would not alarm: its SPE is {found.detector.farthest:.4g}, and the limit, of "
            f"held-out rows that are unlike the others too, {spe.value:.4g}. Give more rows, or a smaller gamma"
        )
    if spe.rate > rate:
        return (
            f"{n_rows} held-out rows are too few for false_alarm_rate={rate}: the limit is the largest of them, which "
            f"about {spe.rate:.2g} of new rows exceed"
        )
    if spe.n_effective * rate < 1:
        return (
            f"SPE of neighbouring held-out rows is so alike that {n_rows} of them count as "
            f"{max(1, round(spe.n_effective))}, too few for false_alarm_rate={rate}: the true rate may be anything "
            f"from {low:.2g} to {high:.2g}. Give more rows{', or less smoothing' if smoothing else ''}"
        )
    return None


def about_constants(windows: Array, names: list[str], *, whiten: bool) -> str | None:
    """A warning about columns that do not vary, or None."""
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
    """A warning about a memory that is too short for the model, or None."""
    if drift.remembered >= ROWS_A_COMPONENT * n_components:
        return None
    return (
        f"half_life={drift.half_life:g} remembers about {drift.remembered:.0f} rows, too few for {n_components} "
        "components: normal rows will alarm. Give a longer half_life"
    )


def check_rule(rule: Any) -> None:
    """Raise unless an alarm rule is two whole numbers, k of n."""
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
    if not hasattr(given, "input_gradient"):  # all kernel estimators have it, and no linear one
        raise ValueError(
            f"estimator={type(given).__name__} is no kernel estimator of this package (for scikit-learn's "
            "KernelPCA give kernelsieve.KernelPCA)"
        )
    if monitor.half_life is not None:
        raise ValueError("half_life follows drift by moments of SparseKernelPCA: give estimator=None")
    if hasattr(given, "kernel") and kernel_of(given.kernel).precomputed:
        raise ValueError("a monitor needs rows: an estimator with a precomputed kernel has none")


def recipe_of(monitor: Any, seed: int, *, encoded: bool) -> Recipe:
    """How each model is made; encoded rows of a table are scaled already, and not standardised again."""
    if monitor.cv == "prefit":  # a prefitted estimator must already know these columns
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
    """The detector and its held-out values, by the method that suits the rows and the estimator."""
    n_threads = effective_n_threads(monitor.n_jobs)
    if recipe.prefit is not None:
        return fit_as_given(sample, recipe, n_threads)
    own = monitor.estimator is None
    fit = fit_by_refits if sample.whole else fit_by_moments if own else fit_final_on_all
    with warnings.catch_warnings():
        if own:
            # Warnings about a model for its own sake are omitted. Here the held-out limit makes up for components that
            # follow single rows or explain little, and the number of steps is not the user's choice.
            warnings.simplefilter("ignore", PoorComponentsWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(rows, sample, recipe, int(monitor.cv), n_threads)
