"""Rows, points and components as pictures of the plane."""

from __future__ import annotations

from typing import Any

import numpy as np

from .style import (
    COLORS,
    ROW_COLOR,
    Axes,
    axes_or_new,
    check_component,
    checked_labels,
    dense,
    draw_component,
    draw_images,
    draw_labelled,
    feature_names,
    few_ticks,
    grid,
    tidy,
)


def contours(model: Any, X: Any = None, component: int = 0, *, resolution: int = 200, ax: Axes | None = None) -> Axes:
    """One component as a function on the plane, with the rows and the support points.

    Parameters
    ----------
    model : fitted estimator with two input features
    X : array-like of shape (n_samples, 2), optional
        Rows to draw; they also set the limits.  Without them the support points do.
    component : int, default=0
        Which component.
    resolution : int, default=200
        Grid points along each axis.
    ax : matplotlib Axes, optional
        Where to draw; a new figure's without it.

    Returns
    -------
    matplotlib Axes
    """
    check_component(model, component)
    if model.n_features_in_ != 2:
        raise ValueError(
            f"contours needs a model of 2 features, this one has {model.n_features_in_}: "
            "draw scores(model, X), or fit on two columns"
        )
    ax = axes_or_new(ax)
    points = dense(model.support_vectors_)
    rows = None if X is None else dense(X)
    draw_component(ax, model, component, *grid(points if rows is None else rows, resolution))
    if rows is not None:
        ax.scatter(*rows.T, s=9, color=ROW_COLOR, alpha=0.7, linewidths=0, label="rows", zorder=3)
    if rows is None or len(points) < len(rows):  # when every row is support there is nothing to point out
        ax.scatter(*points.T, s=60, facecolors="none", edgecolors="white", linewidths=3.5, zorder=4)
        ax.scatter(*points.T, s=60, facecolors="none", edgecolors="black", linewidths=1.6, label="support", zorder=5)
    names = feature_names(model)
    ax.set(xlabel=names[0], ylabel=names[1], title=f"component {component}")
    ax.legend(loc="upper right", framealpha=0.85, edgecolor="none")  # "best" would look at every row
    return ax


def scores(
    model: Any, X: Any, components: tuple[int, int] = (0, 1), labels: Any = None, ax: Axes | None = None
) -> Axes:
    """Rows in two of the components.

    Parameters
    ----------
    model : fitted estimator
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Rows to transform and draw.
    components : pair of int, default=(0, 1)
        Components along the two axes.
    labels : array-like of shape (n_samples,), optional
        Up to ten classes are told apart by colour and marker (labels of one character are their own
        marker); more different numbers than that by a colour scale.
    ax : matplotlib Axes, optional
        Where to draw; a new figure's without it.

    Returns
    -------
    matplotlib Axes
    """
    across, up = components
    for component in (across, up):
        check_component(model, component)
    values = np.asarray(model.transform(X))[:, [across, up]]
    classes = None if labels is None else checked_labels(labels, len(values))
    ax = axes_or_new(ax)
    if classes is None:
        ax.scatter(*values.T, s=14, color=COLORS[0], alpha=0.7, linewidths=0)
    else:
        draw_labelled(ax, values, classes)
    ax.set(xlabel=f"component {across}", ylabel=f"component {up}")
    return tidy(ax)


def support(model: Any, image_shape: tuple[int, int] | None = None, ax: Axes | None = None) -> Axes:
    """The support points.

    Parameters
    ----------
    model : fitted estimator
    image_shape : (height, width), optional
        Draws each point as an image of this shape.  Without it points of the plane are drawn as points,
        all others as the rows of a heat map.
    ax : matplotlib Axes, optional
        Where to draw; a new figure's without it.

    Returns
    -------
    matplotlib Axes
    """
    points = dense(model.support_vectors_)
    if image_shape is not None and image_shape[0] * image_shape[1] != points.shape[1]:
        raise ValueError(
            f"image_shape={tuple(image_shape)} has {image_shape[0] * image_shape[1]} pixels, "
            f"the support points have {points.shape[1]} features"
        )
    ax = axes_or_new(ax)
    if image_shape is not None:
        return draw_images(ax, points.reshape(-1, *image_shape))
    names = feature_names(model)
    if points.shape[1] == 2:
        ax.scatter(*points.T, s=40, color=COLORS[0])
        ax.set(xlabel=names[0], ylabel=names[1], title=f"{len(points)} support points")
        return tidy(ax)
    image = ax.imshow(points, aspect="auto", cmap="viridis", interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label="value")
    ax.set(xlabel="feature", ylabel="support point")
    ax.yaxis.set_major_locator(few_ticks(10, integer=True))
    if hasattr(model, "feature_names_in_") and len(names) <= 20:
        ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
    return ax
