"""Pictures of fitted models, each drawn on an Axes and returned as one.

    contours        a component over the plane, with the rows and the support points (the papers' figures)
    scores          rows in two components
    support         the support points: as images, as points of the plane, or as a heat map
    captured_curve  captured variance against the number of support points
    spectrum        explained variance of each component, and their sum
    likelihood_path representing vectors and explained variance against the noise variance
    path            nonzero coefficients and captured variance along an elastic net's path
    loading_path    the loadings of a sparse component as its penalty falls

Nothing here is needed to fit or to use a model, so matplotlib is imported only when a picture is drawn.
Colours are told apart by the colour-blind, and never carry a meaning alone: markers or labels repeat it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any, TypeAlias

import numpy as np

Axes: TypeAlias = Any  # matplotlib.axes.Axes, which is not imported here

# Okabe and Ito's colours without black and yellow, which vanish on dark and on white pages, then four of Tol's.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#999933", "#AA4499", "#7F7F7F", "#44AA99")
MARKERS = "osD^vP*X<>"
ROW_COLOR = "#4D4D4D"
# More different numbers than this among the labels are a scale, not classes.
MAX_CLASSES = len(COLORS)
MARGIN = 0.1  # of the range of the rows, around a contour plot
N_LEVELS = 12  # of a contour plot
IMAGE_GAP = 1  # pixels between images of a grid


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
    _check_component(model, component)
    if model.n_features_in_ != 2:
        raise ValueError(
            f"contours needs a model of 2 features, this one has {model.n_features_in_}: "
            "draw scores(model, X), or fit on two columns"
        )
    ax = _axes(ax)
    points = _dense(model.support_vectors_)
    rows = None if X is None else _dense(X)
    _draw_component(ax, model, component, *_grid(points if rows is None else rows, resolution))
    if rows is not None:
        ax.scatter(*rows.T, s=9, color=ROW_COLOR, alpha=0.7, linewidths=0, label="rows", zorder=3)
    if rows is None or len(points) < len(rows):  # when every row is support there is nothing to point out
        ax.scatter(*points.T, s=60, facecolors="none", edgecolors="white", linewidths=3.5, zorder=4)
        ax.scatter(*points.T, s=60, facecolors="none", edgecolors="black", linewidths=1.6, label="support", zorder=5)
    names = _feature_names(model)
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
        _check_component(model, component)
    values = np.asarray(model.transform(X))[:, [across, up]]
    classes = None if labels is None else _checked_labels(labels, len(values))
    ax = _axes(ax)
    if classes is None:
        ax.scatter(*values.T, s=14, color=COLORS[0], alpha=0.7, linewidths=0)
    else:
        _draw_labelled(ax, values, classes)
    ax.set(xlabel=f"component {across}", ylabel=f"component {up}")
    return _tidy(ax)


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
    points = _dense(model.support_vectors_)
    if image_shape is not None and image_shape[0] * image_shape[1] != points.shape[1]:
        raise ValueError(
            f"image_shape={tuple(image_shape)} has {image_shape[0] * image_shape[1]} pixels, "
            f"the support points have {points.shape[1]} features"
        )
    ax = _axes(ax)
    if image_shape is not None:
        return _draw_images(ax, points.reshape(-1, *image_shape))
    names = _feature_names(model)
    if points.shape[1] == 2:
        ax.scatter(*points.T, s=40, color=COLORS[0])
        ax.set(xlabel=names[0], ylabel=names[1], title=f"{len(points)} support points")
        return _tidy(ax)
    image = ax.imshow(points, aspect="auto", cmap="viridis", interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label="value")
    ax.set(xlabel="feature", ylabel="support point")
    ax.yaxis.set_major_locator(_few_ticks(10, integer=True))
    if hasattr(model, "feature_names_in_") and len(names) <= 20:
        ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
    return ax


def captured_curve(
    n_support: Sequence[int],
    curves: Mapping[str, Sequence[float]],
    exact: float | None = 1.0,
    target: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Captured variance against the number of support points.

    Parameters
    ----------
    n_support : sequence of int
        Numbers of support points.
    curves : dict of name to sequence of float
        For each method the captured variance at those numbers; NaN where it was not measured.
    exact : float or None, default=1.0
        What exact kernel PCA captures, drawn as a line.
    target : float, optional
        A share to reach, drawn as a line.
    ax : matplotlib Axes, optional
        Where to draw; a new figure's without it.

    Returns
    -------
    matplotlib Axes
    """
    for name, values in curves.items():
        if len(values) != len(n_support):
            raise ValueError(f"curve {name!r} has {len(values)} values for {len(n_support)} numbers of points")
    ax = _axes(ax)
    for (name, values), color, marker in zip(curves.items(), cycle(COLORS), cycle(MARKERS), strict=False):
        ax.plot(n_support, values, color=color, marker=marker, markersize=4.5, linewidth=1.8, label=name)
    if exact is not None:
        ax.axhline(exact, color="#7F7F7F", linewidth=1.2, linestyle="--", label="exact kernel PCA", zorder=1)
    if target is not None:
        ax.axhline(target, color="#7F7F7F", linewidth=1.2, linestyle=":", label=f"target {_percent(target)}", zorder=1)
    _plain_log_axis(ax, "x")
    ax.yaxis.set_major_formatter(_percent)
    ax.set(xlabel="support points", ylabel="captured variance")
    ax.legend(frameon=False)
    return _tidy(ax, grid="y")


def spectrum(model: Any, ax: Axes | None = None) -> Axes:
    """Explained variance ratio of each component, with the cumulative line.

    Parameters
    ----------
    model : fitted estimator
    ax : matplotlib Axes, optional
        Where to draw; a new figure's without it.

    Returns
    -------
    matplotlib Axes
    """
    ratios = np.asarray(model.explained_variance_ratio_)
    ax = _axes(ax)
    numbers = np.arange(len(ratios))
    ax.bar(numbers, ratios, color=COLORS[0], width=0.7, label="each")
    ax.plot(numbers, np.cumsum(ratios), color=COLORS[3], marker="o", markersize=4.5, linewidth=1.8, label="together")
    ax.xaxis.set_major_locator(_few_ticks(12, integer=True))
    ax.yaxis.set_major_formatter(_percent)
    ax.set(xlabel="component", ylabel="explained variance")
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False)
    return _tidy(ax, grid="y")


def path(path: Any, ax: Axes | None = None) -> Axes:
    """Nonzero coefficients of each component, and what the components capture, against alpha.

    Parameters
    ----------
    path : ElasticNetPath
        What `kernelsieve.elastic_net_path` returns.
    ax : matplotlib Axes, optional
        Where to draw the numbers, with a twin for the variance; a new figure's without it.

    Returns
    -------
    matplotlib Axes
    """
    ax = _axes(ax)
    n_nonzero, n_support = (np.where(counts > 0, counts, np.nan) for counts in (path.n_nonzero, path.n_support))
    each = ax.plot(path.alpha, n_nonzero, color=COLORS[5], linewidth=1.2)
    together = ax.plot(path.alpha, n_support, color=COLORS[0], marker="o", markersize=4, linewidth=1.8)
    share = ax.twinx()
    captured = share.plot(path.alpha, path.captured_ratio, color=COLORS[3], marker="s", markersize=4, linewidth=1.8)
    refitted = share.plot(path.alpha, path.refit_ratio, color=COLORS[3], linestyle="--", linewidth=1.4)
    ax.set_xscale("log")
    _plain_log_axis(ax, "y")
    share.yaxis.set_major_formatter(_percent)
    share.set_ylim(0, 1.02)
    ax.set(xlabel="alpha / alpha_max", ylabel="rows with nonzero coefficients")
    share.set_ylabel("captured variance, of kernel PCA's")
    for axes in (ax, share):
        axes.spines["top"].set_visible(False)
    lines, names = (
        [each[0], *captured, *together, *refitted],
        ["each component", "captured", "together", "after a refit"],
    )
    share.legend(lines, names, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return ax


def likelihood_path(path: Any, ax: Axes | None = None) -> Axes:
    """Representing vectors, and the variance they explain, against the noise variance.

    Parameters
    ----------
    path : LikelihoodPath
        What `kernelsieve.likelihood_path` returns.
    ax : matplotlib Axes, optional
        Where to draw the number of vectors, with a twin for the variance; a new figure's without it.

    Returns
    -------
    matplotlib Axes
    """
    ax = _axes(ax)
    vectors = ax.plot(path.noise_variance, path.n_support, color=COLORS[0], marker="o", markersize=4.5, linewidth=1.8)
    share = ax.twinx()
    explained = share.plot(
        path.noise_variance, path.explained_variance_ratio, color=COLORS[3], marker="s", markersize=4, linewidth=1.8
    )
    limit = ax.axvline(path.noise_variance_limit, color="#7F7F7F", linewidth=1.2, linestyle="--")
    ax.set_xscale("log")
    _plain_log_axis(ax, "y")
    share.yaxis.set_major_formatter(_percent)
    share.set_ylim(0, 1.02)
    share.spines["top"].set_visible(False)
    ax.spines["top"].set_visible(False)
    ax.set(xlabel="noise variance", ylabel="representing vectors")
    share.set_ylabel("explained variance")
    lines, names = [*vectors, *explained, limit], ["vectors", "explained variance", "upper end"]
    share.legend(lines, names, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    return ax


def loading_path(
    path: Any, component: int = 0, feature_names: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Loadings of one sparse component against alpha, the largest at the end with their names.

    Parameters
    ----------
    path : SparsePCAPath
        As `sparse_pca_path` returns it.
    component : int, default=0
        Which component.
    feature_names : sequence of str, optional
        Of all features; numbers without it.
    ax : matplotlib Axes, optional
        Where to draw; a new figure's without it.

    Returns
    -------
    matplotlib Axes
    """
    n_components, n_features = path.components.shape[1:]
    if not 0 <= component < n_components:
        raise ValueError(f"component={component} does not exist: the path has {n_components}, numbered from 0")
    if feature_names is not None and len(feature_names) != n_features:
        raise ValueError(f"{len(feature_names)} feature_names for {n_features} features")
    ax = _axes(ax)
    loadings = path.components[:, component]
    last = loadings[-1]
    named = np.argsort(-np.abs(last))[: len(COLORS)]
    for feature in np.flatnonzero(loadings.any(axis=0)):
        ax.plot(path.alphas, loadings[:, feature], color="#BBBBBB", linewidth=1.0, zorder=1)
    for feature, color in zip(named, COLORS, strict=False):
        ax.plot(path.alphas, loadings[:, feature], color=color, linewidth=1.8, zorder=2)
    ax.axhline(0.0, color="#4D4D4D", linewidth=0.8, zorder=0)
    ax.invert_xaxis()
    names = [f"feature {i}" for i in range(n_features)] if feature_names is None else list(map(str, feature_names))
    heights = _set_apart(last[named], 0.055 * float(np.ptp(ax.get_ylim())))
    for feature, color, height in zip(named, COLORS, heights, strict=False):
        ax.annotate(
            names[feature],
            (path.alphas[-1], last[feature]),
            xytext=(1.03, height),
            textcoords=ax.get_yaxis_transform(),
            color=color,
            fontsize="small",
            va="center",
            arrowprops={"arrowstyle": "-", "color": color, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0},
        )
    ax.set(xlabel="alpha", ylabel="loading", title=f"component {component}")
    return _tidy(ax)


def _axes(ax: Axes | None) -> Axes:
    """`ax` itself, or the Axes of a new figure."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'kernelsieve[plots]'") from error
    return plt.subplots(figsize=(6, 4), layout="constrained")[1]


def _tidy(ax: Axes, grid: str | None = None) -> Axes:
    """No frame on the right and above, and at most a faint grid behind the data."""
    ax.spines[["top", "right"]].set_visible(False)
    if grid is not None:
        ax.grid(axis=grid, color="#7F7F7F", alpha=0.25, linewidth=0.8)
        ax.set_axisbelow(True)
    return ax


def _grid(rows: np.ndarray, resolution: int) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates along both axes, a margin beyond the rows."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    margin = MARGIN * np.where(high > low, high - low, 1.0)
    across, up = (np.linspace(a, b, resolution) for a, b in zip(low - margin, high + margin, strict=True))
    return across, up


def _draw_component(ax: Axes, model: Any, component: int, across: np.ndarray, up: np.ndarray) -> None:
    """Filled contours on a scale symmetric about zero, so that white is the component's mean."""
    plane = np.stack(np.meshgrid(across, up), axis=-1)
    values = _transform_unnamed(model, plane.reshape(-1, 2))[:, component].reshape(plane.shape[:2])
    largest = float(np.abs(values).max()) or 1.0
    levels = np.linspace(-largest, largest, 2 * N_LEVELS + 1)
    filled = ax.contourf(across, up, values, levels=levels, cmap="PuOr_r", alpha=0.75)
    ax.contour(across, up, values, levels=levels[::2], colors="#4D4D4D", linewidths=0.5, linestyles="solid", alpha=0.6)
    ax.figure.colorbar(filled, ax=ax, label="score", format="%g", ticks=_few_ticks(5))


def _transform_unnamed(model: Any, rows: np.ndarray) -> np.ndarray:
    """Scores of rows without column names, also from a model that has them."""
    if not hasattr(model, "feature_names_in_"):
        return np.asarray(model.transform(rows))
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return np.asarray(model.transform(rows))


def _draw_labelled(ax: Axes, values: np.ndarray, labels: np.ndarray) -> None:
    classes = np.unique(labels)
    if len(classes) > MAX_CLASSES:
        drawn = ax.scatter(*values.T, c=labels, s=14, cmap="viridis", linewidths=0)
        ax.figure.colorbar(drawn, ax=ax, label="label")
        return
    names = [str(name) for name in classes]
    own_marker = all(len(name) == 1 and name.isalnum() for name in names)
    for value, name, color, marker in zip(classes, names, COLORS, MARKERS, strict=False):
        chosen = values[labels == value]
        style = {"marker": f"${name}$", "s": 26, "linewidths": 0.2} if own_marker else {"marker": marker, "s": 18}
        ax.scatter(*chosen.T, color=color, alpha=0.85, label=name, **style)
    if not own_marker:
        ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.0)


def _draw_images(ax: Axes, images: np.ndarray) -> Axes:
    """All images side by side, in rows, as one image with gaps."""
    count, height, width = images.shape
    columns = _n_columns(count, height, width)
    lines = -(-count // columns)
    mosaic = np.full((lines * (height + IMAGE_GAP) - IMAGE_GAP, columns * (width + IMAGE_GAP) - IMAGE_GAP), np.nan)
    for number, image in enumerate(images):
        top, left = (number // columns) * (height + IMAGE_GAP), (number % columns) * (width + IMAGE_GAP)
        mosaic[top : top + height, left : left + width] = image
    ax.imshow(mosaic, cmap="gray_r", interpolation="nearest")
    ax.set_axis_off()
    ax.set_title(f"{count} support points")
    return ax


def _n_columns(count: int, height: int, width: int) -> int:
    """Columns for a grid about half as high again as wide, without a lone image in the last row."""
    most = max(1, min(count, round((1.6 * count * height / width) ** 0.5)))
    return min(range(max(1, most - 2), most + 1), key=lambda columns: ((-count) % columns, -columns))


def _plain_log_axis(ax: Axes, which: str) -> None:
    """A logarithmic axis ("x" or "y") with plain numbers, 1, 2 and 5 of each decade."""
    ax.set(**{f"{which}scale": "log"})
    low, high = getattr(ax, f"get_{which}lim")()
    ticks = [step * 10**decade for decade in range(10) for step in (1, 2, 5) if low <= step * 10**decade <= high]
    axis = getattr(ax, f"{which}axis")
    axis.set_ticks(ticks, [f"{tick:,}" for tick in ticks])
    axis.set_ticks([], minor=True)


def _few_ticks(most: int, *, integer: bool = False) -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(most, integer=integer)


def _percent(value: float, position: Any = None) -> str:
    return f"{100 * value:.4g} %"


def _dense(rows: Any) -> np.ndarray:
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)


def _feature_names(model: Any) -> list[str]:
    names = getattr(model, "feature_names_in_", None)
    return [f"feature {i}" for i in range(model.n_features_in_)] if names is None else [str(name) for name in names]


def _check_component(model: Any, component: int) -> None:
    count = len(model.explained_variance_ratio_)
    if not 0 <= component < count:
        raise ValueError(f"component={component} does not exist: the model has {count}, numbered from 0")


def _checked_labels(labels: Any, n_rows: int) -> np.ndarray:
    values = np.asarray(labels)
    if values.shape != (n_rows,):
        raise ValueError(f"labels have shape {values.shape}, expected ({n_rows},): one for each row of X")
    n_classes = len(np.unique(values))
    if n_classes > MAX_CLASSES and not np.issubdtype(values.dtype, np.number):
        raise ValueError(f"labels have {n_classes} classes, at most {MAX_CLASSES} can be told apart")
    return values


def _set_apart(values: np.ndarray, gap: float) -> np.ndarray:
    """Heights in the order of `values`, near them, no two closer than `gap`."""
    order = np.argsort(values)
    heights = np.asarray(values, dtype=np.float64)[order]
    for upper in range(1, len(heights)):
        heights[upper] = max(heights[upper], heights[upper - 1] + gap)
    heights -= np.mean(heights - np.asarray(values)[order])  # pushed up only: back to where they belong on average
    apart = np.empty_like(heights)
    apart[order] = heights
    return apart
