"""Plots of rows, support points and components in the plane."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_array

from ..arrays import on_host, to_numpy
from ..fit.parameters import check_component, two_whole_numbers, whole_number
from .style import (
    COLORS,
    MARKERS,
    ROW_COLOR,
    Axes,
    axes_or_new,
    checked_image_shape,
    component_title,
    dense,
    draw_component,
    draw_images,
    feature_names,
    few_ticks,
    fitted,
    fitted_itself,
    grid,
    heat_map,
    tidy,
)

MAX_CLASSES = len(COLORS)  # labels that are more different numbers than this are drawn on a colour scale
OTHER_COLOR = "#BBBBBB"  # colour of rows whose class is missing, or has no colour of its own
MOST_NAMED = 20  # largest number of columns in the heat map if they have names: more names would not be legible
MARKED_ROWS = 2000  # with more rows, all classes have the same marker and differ only by colour


def contours(model: Any, X: Any = None, component: int = 0, *, resolution: int = 200, ax: Axes | None = None) -> Axes:
    """One component as a function on the plane, with the rows and the support points.

    Parameters
    ----------
    model : fitted estimator with two input features
    X : array-like of shape (n_samples, 2), optional
        Rows to draw.  The plot covers them and the support points.
    component : int, default=0
        Number of the component.
    resolution : int, default=200
        Number of grid points along each axis.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib Axes
    """
    fitted_itself(model, "contours", "support_vectors_", "explained_variance_ratio_")
    component = check_component(component, len(model.explained_variance_ratio_))
    resolution = whole_number("resolution", resolution, 2, 5000)  # at most 25 million scores
    if model.n_features_in_ != 2:
        raise ValueError(
            f"contours needs a model of 2 features, this one has {model.n_features_in_}: "
            "draw scores(model, X), or fit on two columns"
        )
    rows = None if X is None else check_array(on_host(X), accept_sparse="csr", dtype=np.float64, ensure_min_samples=0)
    if rows is not None and rows.shape[1] != 2:
        raise ValueError(f"contours draws rows of the model's 2 features: X has {rows.shape[1]}")
    rows = None if rows is None else dense(rows)
    ax = axes_or_new(ax)
    points = dense(model.support_vectors_)
    covered = points if rows is None else np.vstack([rows, points])
    draw_component(ax, model, component, *grid(covered, resolution))
    if rows is not None:
        ax.scatter(*rows.T, s=9, color=ROW_COLOR, alpha=0.7, linewidths=0, label="rows", zorder=3)
    if rows is None or len(points) < len(rows):  # no marks if every row is a support point
        ax.scatter(*points.T, s=60, facecolors="none", edgecolors="white", linewidths=3.5, zorder=4)
        ax.scatter(*points.T, s=60, facecolors="none", edgecolors="black", linewidths=1.6, label="support", zorder=5)
    names = feature_names(model)
    ax.set(xlabel=names[0], ylabel=names[1], title=f"component {component + 1}")
    ax.legend(loc="upper right", framealpha=0.85, edgecolor="none")  # "best" is slow for many rows
    return ax


def scores(
    model: Any, X: Any, components: tuple[int, int] = (0, 1), labels: Any = None, ax: Axes | None = None
) -> Axes:
    """The rows by their scores in two of the components.

    If there are many rows, markers are smaller and fainter, and rows are drawn in random order so that no class covers
    the others.  More than 10,000 rows without labels are drawn as a density.

    Parameters
    ----------
    model : fitted estimator, or a fitted pipeline that ends in one
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Rows to transform and draw.
    components : pair of int, default=(0, 1)
        Components along the two axes.
    labels : array-like of shape (n_samples,), optional
        Up to ten classes are drawn in different colours, with different markers if there are few rows; labels of one
        character are their own markers.  If there are more classes, the nine largest have colours and the others are
        grey.  More than ten different numbers are drawn on a colour scale from their 1 % to their 99 % quantile.  The
        name of a pandas or polars series is the title of the legend.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib Axes
    """
    last = fitted(model, "transform", "explained_variance_ratio_")
    across, up = two_whole_numbers("components", components)
    for component in (across, up):
        check_component(component, len(last.explained_variance_ratio_))
    values = to_numpy(model.transform(X))[:, [across, up]]
    classes = None if labels is None else checked_labels(labels, len(values))
    ax = axes_or_new(ax)
    if classes is not None:
        draw_labelled(ax, values, classes, getattr(labels, "name", None))
    elif len(values) > 10_000:  # a density, logarithmic so that single rows are still visible
        drawn = ax.hexbin(*values.T, gridsize=90, bins="log", mincnt=1, cmap="viridis_r", linewidths=0.1)
        ax.figure.colorbar(drawn, ax=ax, label="rows")
    else:
        ax.scatter(*values.T, color=COLORS[0], linewidths=0, **point_style(len(values), 14, 0.7))
    ax.set(xlabel=component_title(last, across), ylabel=component_title(last, up))
    return tidy(ax)


def support(model: Any, image_shape: tuple[int, int] | None = None, ax: Axes | None = None) -> Axes:
    """The support points, as images, as points in the plane, or as the rows of a heat map.

    Parameters
    ----------
    model : fitted estimator
    image_shape : (height, width), optional
        Shape of the image that each point is drawn as.  Without it, points with two features are drawn in the plane,
        and all others as the rows of a heat map.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib Axes
    """
    model = fitted(model, "support_vectors_")
    if model.expansion_.kernel.of_objects:
        raise TypeError("these support points are objects, which support_objects_ lists and report(model, X) shows")
    points = dense(model.support_vectors_)
    image_shape = checked_image_shape(image_shape, points.shape[1], "support points")
    ax = axes_or_new(ax)
    if image_shape is not None:
        return draw_images(ax, points.reshape(-1, *image_shape))
    names = feature_names(model)
    if points.shape[1] == 2:
        ax.scatter(*points.T, s=40, color=COLORS[0])
        ax.set(xlabel=names[0], ylabel=names[1], title=f"{len(points)} support points")
        return tidy(ax)
    named = hasattr(model, "feature_names_in_")
    shown = np.sort(np.argsort(-np.ptp(points, axis=0), kind="stable")[: MOST_NAMED if named else None])
    heat_map(ax, points[:, shown], "value")
    of_all = f"the {MOST_NAMED} of {len(names)} columns that differ most" if len(shown) < len(names) else "feature"
    ax.set(xlabel=of_all, ylabel="support point")
    ax.yaxis.set_major_locator(few_ticks(10, integer=True))
    ax.yaxis.set_major_formatter(lambda place, _: f"{place + 1:.0f}")  # people count from 1
    if named:
        ax.set_xticks(range(len(shown)), [names[column] for column in shown], rotation=45, ha="right")
    return ax


def point_style(n_rows: int, size: float, alpha: float) -> dict[str, Any]:
    """Size and opacity of markers: the more rows, the smaller and fainter they are."""
    crowding = min(1.0, 30_000 / (n_rows * size))  # markers shrink if their total area exceeds 30,000 points^2
    return {
        "s": max(size * crowding, 1.2),
        "alpha": max(alpha * crowding**0.25, 0.3),
        "rasterized": n_rows > MARKED_ROWS,  # a file with thousands of vector markers is too slow to view
    }


def draw_labelled(ax: Axes, values: np.ndarray, labels: np.ndarray, name: Any = None) -> None:
    """Draw rows coloured by a number or by class; if there are few rows, each class also has its own marker."""
    if labels.dtype.kind == "f":
        _draw_scale(ax, values, labels, name)
        return
    names, counts = np.unique(labels[labels != ""], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    kept = np.sort(names[order[: MAX_CLASSES - (len(names) > MAX_CLASSES)]])
    if len(values) <= MARKED_ROWS:
        own_marker = _draw_markers(ax, values, labels, kept)
    else:
        own_marker = False
        _draw_shuffled(ax, values, labels, kept)
    n_others = len(names) - len(kept)
    rest = [f"{n_others} others"] * bool(n_others) + ["missing"] * bool((labels == "").any())
    if rest:
        ax.scatter([], [], color=OTHER_COLOR, s=18, label=", ".join(rest))
    if rest or not own_marker:
        ax.legend(title=name, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.0)


def _draw_scale(ax: Axes, values: np.ndarray, labels: np.ndarray, name: Any) -> None:
    missing = np.isnan(labels)
    style = point_style(len(values), 14, 0.85)
    if missing.any():
        ax.scatter(*values[missing].T, color=OTHER_COLOR, linewidths=0, label="missing", **style)
    order = _shuffled(np.flatnonzero(~missing))
    low, high = np.quantile(labels[order], [0.01, 0.99])  # else one extreme number would give all others one colour
    drawn = ax.scatter(*values[order].T, c=labels[order], cmap="viridis", linewidths=0, vmin=low, vmax=high, **style)
    beyond = (labels[order].min() < low, labels[order].max() > high)
    ends = {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}
    bar = ax.figure.colorbar(drawn, ax=ax, label="label" if name is None else str(name), extend=ends[beyond])
    bar.solids.set_alpha(1.0)


def _draw_markers(ax: Axes, values: np.ndarray, labels: np.ndarray, kept: np.ndarray) -> bool:
    """Draw each class with its own marker; return whether the markers are the labels themselves."""
    others = ~np.isin(labels, kept)
    ax.scatter(*values[others].T, color=OTHER_COLOR, s=18, alpha=0.85)
    own_marker = all(len(name) == 1 and name.isascii() and name.isalnum() for name in kept)
    for name, color, marker in zip(kept, COLORS, MARKERS, strict=False):
        style = {"marker": f"${name}$", "s": 26, "linewidths": 0.2} if own_marker else {"marker": marker, "s": 18}
        ax.scatter(*values[labels == name].T, color=color, alpha=0.85, label=str(name), **style)
    return own_marker


def _draw_shuffled(ax: Axes, values: np.ndarray, labels: np.ndarray, kept: np.ndarray) -> None:
    """Draw the rows of all classes in random order: drawn class by class, the last class would cover the others."""
    colors = np.array([*COLORS[: len(kept)], OTHER_COLOR])
    place = np.searchsorted(kept, labels).clip(max=len(kept) - 1) if len(kept) else np.zeros(len(labels), int)
    place = np.where(kept[place] == labels, place, len(kept)) if len(kept) else place
    order = _shuffled(np.arange(len(values)))
    ax.scatter(*values[order].T, c=colors[place[order]], linewidths=0, **point_style(len(values), 14, 0.85))
    for name, color in zip(kept, COLORS, strict=False):
        ax.scatter([], [], color=color, s=18, label=str(name))


def _shuffled(places: np.ndarray) -> np.ndarray:
    return np.random.default_rng(0).permutation(places)


def checked_labels(labels: Any, n_rows: int) -> np.ndarray:
    """The labels as floats if they are to be drawn on a colour scale, else as texts, with "" for a missing label."""
    values = np.asarray(on_host(labels))
    if values.shape != (n_rows,):
        raise ValueError(f"labels have shape {values.shape}, expected ({n_rows},): one for each row of X")
    if values.dtype.kind in "iuf":
        numbers = values.astype(np.float64)
        if len(np.unique(numbers[~np.isnan(numbers)])) > MAX_CLASSES:
            return numbers
        return np.array(["" if number != number else f"{number:.12g}" for number in numbers])
    missing = [value is None or value != value or type(value).__name__ == "NAType" for value in values.tolist()]
    return np.array(["" if gone else str(value) for gone, value in zip(missing, values.tolist(), strict=True)])
