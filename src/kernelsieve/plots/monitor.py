"""Plots of a monitor's statistics, and of the inputs that a model depends on."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from ..arrays import on_host, to_numpy
from ..fit.parameters import check_component, two_whole_numbers, whole_number
from ..monitor.estimator import MonitorStatistics
from ..monitor.statistics import smoothed
from .style import (
    COLORS,
    ROW_COLOR,
    Axes,
    axes_or_new,
    checked_image_shape,
    dense,
    feature_names,
    few_ticks,
    fitted_itself,
    heat_map,
    plain_log_axis,
    tidy,
)


def monitor_chart(
    monitor: Any, X: Any, *, fault: tuple[int, int] | int | None = None, axes: Sequence[Axes] | None = None
) -> np.ndarray:
    """SPE and T2 of rows over time, with their limits; alarms are marked, and a known fault is shaded.

    Parameters
    ----------
    monitor : fitted KernelMonitor
    X : rows, in the order of time; a row with a missing value is a gap in both lines
    fault : int or (int, int), optional
        The number of the first row of a known fault, or that and the number of the row after its last.
    axes : two matplotlib Axes, optional
        Axes for SPE and for T2; by default those of a new figure.

    Returns
    -------
    array of two matplotlib Axes
    """
    fitted_itself(monitor, "monitor_chart", "statistics", "limits_")
    found = _statistics_with_gaps(monitor, X)
    span = _fault_span(fault, len(found.spe))
    upper, lower = _pair(axes)
    _chart(upper, found.spe, found.spe_limit, "SPE", span, logarithmic=False)
    _chart(lower, found.t2, found.t2_limit, "T²", span, logarithmic=True)
    alarms = np.flatnonzero(found.alarm)
    label = f"alarm ({len(alarms)} rows)"
    upper.plot(alarms, found.spe[alarms], "^", color=COLORS[3], markersize=3.5, label=label)
    upper.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, borderaxespad=0.2)
    lower.set_xlabel("row")
    return np.array([upper, lower])


def _statistics_with_gaps(monitor: Any, X: Any) -> MonitorStatistics:
    """SPE and T2 of each row, with missing values treated as `KernelMonitor.update` treats them.

    A row with a missing value has no statistic, no window contains it, and smoothing continues after it.
    """
    whole = None if monitor._encoder is not None else _rows_without_gaps(X)  # an encoder handles gaps itself
    if whole is None or whole.all():
        found: MonitorStatistics = monitor.statistics(X)
        return found
    spe, t2 = np.full((2, len(whole)), np.nan)
    limits = monitor.limits_["spe"], monitor.limits_["t2"]
    if not whole.any():
        return MonitorStatistics(spe, t2, *limits)
    labels = np.cumsum(~whole)[whole]  # rows before and after a gap count as different series
    t2[whole], spe[whole] = monitor._statistics_unsmoothed(_safe_indexing(X, np.flatnonzero(whole)), labels)[0].T
    return MonitorStatistics(smoothed(spe, monitor._fitted_smoothing, monitor.spe_mean_), t2, *limits)


def _rows_without_gaps(X: Any) -> np.ndarray | None:
    """For each row, whether none of its values is missing; None if X is not a table of numbers in memory."""
    if not (isinstance(X, list | np.ndarray) or hasattr(X, "columns")) or hasattr(X, "dask"):
        return None
    try:
        values = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return None if values.ndim != 2 else np.asarray(~np.isnan(values).any(axis=1))


def _fault_span(fault: tuple[int, int] | int | None, n_rows: int) -> tuple[int, int] | None:
    """The number of a fault's first row and that of the row after its last; None if no fault is given."""
    if fault is None:
        return None
    if isinstance(fault, Integral) and not isinstance(fault, bool):
        first, end = int(fault), n_rows
    else:
        first, end = two_whole_numbers("fault", fault)
    if not 0 <= first < end <= n_rows:
        raise ValueError(
            f"fault={fault} is no stretch of the {n_rows} rows of X: give its first row, counted from 0, or (first, "
            f"end) with 0 <= first < end <= {n_rows}"
        )
    return int(first), int(end)


def _pair(axes: Sequence[Axes] | None) -> tuple[Axes, Axes]:
    if axes is not None:
        given = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
        if len(given) != 2:
            raise ValueError(f"axes holds {len(given)}: give two matplotlib Axes, for SPE and T2, or none")
        return axes_or_new(given[0]), axes_or_new(given[1])
    first = axes_or_new(None)
    figure = first.figure
    first.remove()
    figure.set_size_inches(8, 4.8)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    return upper, lower


def _chart(
    ax: Axes, values: np.ndarray, limit: float, name: str, fault: tuple[int, int] | None, *, logarithmic: bool
) -> None:
    ax.plot(np.arange(len(values)), values, color=COLORS[0], linewidth=0.9, label=name)
    ax.axhline(limit, color=ROW_COLOR, linewidth=1.3, linestyle="--", label="limit")
    if fault is not None:
        ax.axvspan(fault[0] - 0.5, fault[1] - 0.5, color=COLORS[1], alpha=0.15, linewidth=0, label="fault")
    if logarithmic and np.nanmin(values, initial=np.inf) > 0:
        plain_log_axis(ax, "y")
    else:
        ax.set_ylim(bottom=0)
    ax.set_ylabel(name)
    ax.margins(x=0.01)
    tidy(ax, grid="y")


def contributions(monitor: Any, X: Any, row: int | None = None, *, n_top: int = 12, ax: Axes | None = None) -> Axes:
    """How much each input contributes to SPE: bars for one row, or a heat map over time for all rows.

    Parameters
    ----------
    monitor : fitted KernelMonitor
    X : rows, in the order of time
    row : int, optional
        Draw the contributions of this row as bars, the largest on top; by default, all rows are drawn as a heat map.
    n_top : int, default=12
        Number of variables to show: those that contribute most.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib Axes
    """
    fitted_itself(monitor, "contributions", "contributions", "limits_")
    n_top = whole_number("n_top", n_top)
    parts = np.asarray(on_host(monitor.contributions(X)), dtype=np.float64)
    names = np.array(monitor.variable_names_)
    if row is not None and (not isinstance(row, Integral) or isinstance(row, bool)):
        raise TypeError(f"row={row!r} must be a whole number, that of a row of X")
    if row is not None and not -len(parts) <= row < len(parts):
        raise ValueError(f"row={row} does not exist: X has {len(parts)} rows, numbered from 0")
    total = np.nansum(parts, axis=0) if row is None else np.nan_to_num(parts[row])
    top = np.argsort(-total, kind="stable")[:n_top]
    ax = axes_or_new(ax)
    if row is not None:
        share = total / (total.sum() or 1.0)
        ax.barh(np.arange(len(top)), 100 * share[top], color=COLORS[0], height=0.7)
        ax.set_yticks(np.arange(len(top)), names[top])
        ax.invert_yaxis()
        ax.set(xlabel="share of SPE in %", title=f"row {row % len(parts)}")
        return tidy(ax, grid="x")
    # The colour scale ends at the 99th percentile: up to the maximum, ordinary values could not be told apart.
    ceiling = float(np.nanquantile(parts[:, top], 0.99)) or 1.0
    heat_map(ax, parts[:, top].T, "contribution to SPE", low=0.0, high=ceiling, extend="max")
    ax.set_yticks(np.arange(len(top)), names[top])
    ax.xaxis.set_major_locator(few_ticks(8, integer=True))
    ax.set_xlabel("row")
    return ax


def sensitivity(model: Any, X: Any, ax: Axes | None = None) -> Axes:
    """How strongly each component depends on each input, as a heat map, scaled to a largest value of one per component.

    Parameters
    ----------
    model : fitted kernel estimator
    X : array-like of shape (n_samples, n_features)
        Rows to average over.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib Axes
    """
    fitted_itself(model, "sensitivity", "sensitivity", "expansion_")
    values = to_numpy(model.sensitivity(X))
    largest = values.max(axis=1, keepdims=True)
    values = values / np.where(largest > 0, largest, 1.0)
    names = feature_names(model)
    named = hasattr(model, "feature_names_in_") and len(names) <= 30  # more names do not fit beside the map
    ax = axes_or_new(ax)
    # Inputs with names are the rows of the map, so that their names can be read from left to right beside it.
    heat_map(ax, values.T if named else values, "sensitivity, relative", low=0.0, high=1.0)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(few_ticks(10, integer=True))
    if named:
        ax.set_yticks(np.arange(len(names)), names)
        ax.set_xlabel("component")
    else:
        ax.set(xlabel="feature", ylabel="component")
    return ax


def traversal(
    model: Any,
    component: int = 0,
    *,
    n_steps: int = 9,
    span: float = 2.0,
    row: Any = None,
    image_shape: tuple[int, int] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """How a row changes as one component grows, as images, or as lines of the inputs that change most.

    Parameters
    ----------
    model : fitted kernel estimator
    component : int, default=0
    n_steps, span, row
        As in the `traversal` method of the model.
    image_shape : (height, width), optional
        Shape of the image that each row is drawn as.  Without it, the inputs that change most are drawn as lines.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib Axes
    """
    fitted_itself(model, "traversal", "traversal", "explained_variance_ratio_")
    component = check_component(component, len(model.explained_variance_ratio_))
    image_shape = checked_image_shape(image_shape, model.n_features_in_, "rows")
    n_steps = whole_number("n_steps", n_steps, 2)
    n_steps = n_steps if image_shape is not None else max(n_steps, 25)
    walk = model.traversal(component, n_steps=n_steps, span=span, row=row)
    own_figure = ax is None
    ax = axes_or_new(ax)
    if image_shape is None:
        return _traversal_lines(ax, model, walk)
    if own_figure:  # give the figure the proportions of the strip of images
        ax.figure.set_size_inches(8, 8 * image_shape[0] / (n_steps * image_shape[1]) + 0.6)
    _film(ax, walk.rows.reshape(-1, *image_shape))
    ax.set_title(f"component {component + 1}, score {walk.scores[0]:.2g} to {walk.scores[-1]:.2g}")
    return ax


def _film(ax: Axes, images: np.ndarray) -> None:
    """Draw images side by side in one line, with gaps of one pixel."""
    gap = np.full((images.shape[1], 1), np.nan)
    strip = np.hstack([part for image in images for part in (gap, image)][1:])
    ax.imshow(strip, cmap="gray_r", interpolation="nearest")
    ax.set_axis_off()


def _traversal_lines(ax: Axes, model: Any, walk: Any) -> Axes:
    """Draw the inputs that change most, each in units of its standard deviation over the support points."""
    spread = dense(model.support_vectors_).std(axis=0)
    change = (walk.rows - walk.rows[len(walk.rows) // 2]) / np.where(spread > 0, spread, 1.0)
    names = feature_names(model)
    top = np.argsort(-np.ptp(change, axis=0), kind="stable")[:8]
    for number, feature in enumerate(top):
        style = "-" if number < 4 else "--"
        ax.plot(walk.scores, change[:, feature], style, color=COLORS[number], linewidth=1.8, label=names[feature])
    ax.axhline(0.0, color=ROW_COLOR, linewidth=0.8, zorder=0)
    ax.xaxis.set_major_locator(few_ticks(5))
    ax.set(xlabel=f"score of component {walk.component + 1}", ylabel="change, in standard deviations")
    ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.0)
    return tidy(ax, grid="y")
