"""What all plots share: axes, colours, and checks of arguments."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from sklearn.exceptions import NotFittedError

from ..arrays import on_host, to_numpy
from ..errors import needed
from ..fit.parameters import two_whole_numbers
from ..kernels import blocks
from ..rows.frames import column_names

Axes: TypeAlias = Any  # stands for matplotlib.axes.Axes, because matplotlib is not imported here

# Okabe and Ito's colours, then four of Tol's.  Black and yellow are left out: on dark and white pages they vanish.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#999933", "#AA4499", "#7F7F7F", "#44AA99")
MARKERS = "osD^vP*X<>"
ROW_COLOR = "#4D4D4D"
MARGIN = 0.1  # margin of a contour plot, as a share of the range of the rows
IMAGE_GAP = 1  # pixels between the images of a grid


def axes_or_new(ax: Axes | None) -> Axes:
    """`ax` itself, or the Axes of a new figure."""
    if ax is not None:
        if not hasattr(ax, "imshow"):
            raise TypeError(f"ax must be a matplotlib Axes, not a {type(ax).__name__}")
        return ax
    plt = needed("matplotlib.pyplot", "plots need matplotlib")
    return plt.subplots(figsize=(6, 4), layout="constrained")[1]


def tidy(ax: Axes, grid: str | None = None) -> Axes:
    """Remove the frame on the right and above, and draw a faint grid along the axis `grid`, if given."""
    ax.spines[["top", "right"]].set_visible(False)
    if grid is not None:
        ax.grid(axis=grid, color="#7F7F7F", alpha=0.25, linewidth=0.8)
        ax.set_axisbelow(True)
    return ax


def grid(rows: np.ndarray, resolution: int) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates along both axes of a grid that covers the rows and a margin around them."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    margin = MARGIN * np.where(high > low, high - low, 1.0)
    across, up = (np.linspace(a, b, resolution) for a, b in zip(low - margin, high + margin, strict=True))
    return across, up


def draw_component(ax: Axes, model: Any, component: int, across: np.ndarray, up: np.ndarray) -> None:
    """Draw filled contours of a component's scores; the colour scale is symmetric, so that white is a score of zero."""
    plane = np.stack(np.meshgrid(across, up), axis=-1)
    values = transform_unnamed(model, plane.reshape(-1, 2))[:, component].reshape(plane.shape[:2])
    largest = float(np.abs(values).max()) or 1.0
    levels = np.linspace(-largest, largest, 25)
    filled = ax.contourf(across, up, values, levels=levels, cmap="PuOr_r", alpha=0.75)
    ax.contour(across, up, values, levels=levels[::2], colors="#4D4D4D", linewidths=0.5, linestyles="solid", alpha=0.6)
    ax.figure.colorbar(filled, ax=ax, label="score", format="%g", ticks=few_ticks(5))


def transform_unnamed(model: Any, rows: np.ndarray) -> np.ndarray:
    """Scores of rows without column names; no warning if the model was fitted to named columns."""
    if not hasattr(model, "feature_names_in_"):
        return to_numpy(model.transform(rows))
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return to_numpy(model.transform(rows))


def heat_map(
    ax: Axes, values: np.ndarray, label: str, *, low: Any = None, high: Any = None, extend: Any = None
) -> None:
    """Draw a matrix of numbers as colours, with a colour bar labelled `label`."""
    image = ax.imshow(values, aspect="auto", cmap="viridis", interpolation="nearest", vmin=low, vmax=high)
    ax.figure.colorbar(image, ax=ax, label=label, extend=extend)


def draw_images(ax: Axes, images: np.ndarray) -> Axes:
    """Draw all images in a grid, as one image with gaps."""
    count, height, width = images.shape
    columns = n_columns(count, height, width)
    lines = -(-count // columns)
    mosaic = np.full((lines * (height + IMAGE_GAP) - IMAGE_GAP, columns * (width + IMAGE_GAP) - IMAGE_GAP), np.nan)
    for number, image in enumerate(images):
        top, left = (number // columns) * (height + IMAGE_GAP), (number % columns) * (width + IMAGE_GAP)
        mosaic[top : top + height, left : left + width] = image
    ax.imshow(mosaic, interpolation="nearest", **_white_background(images))
    ax.set_facecolor("white")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.set_title(f"{count} support points")
    return ax


def _white_background(images: np.ndarray) -> dict[str, Any]:
    """A colour scale in which the most frequent pixel value is white, whether it is near the smallest or the largest.

    Points that were moved freely reach a little beyond the range of the data.  On a scale between their extreme values,
    the background of the images would be grey.
    """
    counts, edges = np.histogram(images, bins=40)
    background = float(edges[np.argmax(counts)] + edges[np.argmax(counts) + 1]) / 2
    low, high = float(images.min()), float(images.max())
    if background - low <= high - background:
        return {"cmap": "gray_r", "vmin": background, "vmax": high}
    return {"cmap": "gray", "vmin": low, "vmax": background}


def n_columns(count: int, height: int, width: int) -> int:
    """The number of columns of a grid of images: about 1.6 times as wide as high, with few empty places at its end."""
    most = max(1, min(count, round((1.6 * count * height / width) ** 0.5)))
    return min(range(max(1, most - 2), most + 1), key=lambda columns: ((-count) % columns, -columns))


def plain_log_axis(ax: Axes, which: str) -> None:
    """Make an axis ("x" or "y") logarithmic, with ticks at 1, 2 and 5 times powers of ten, written as plain numbers."""
    ax.set(**{f"{which}scale": "log"})
    low, high = getattr(ax, f"get_{which}lim")()
    ticks = [step * 10**decade for decade in range(10) for step in (1, 2, 5) if low <= step * 10**decade <= high]
    axis = getattr(ax, f"{which}axis")
    axis.set_ticks(ticks, [f"{tick:,}" for tick in ticks])
    axis.set_ticks([], minor=True)


def few_ticks(most: int, *, integer: bool = False) -> Any:
    """A tick locator that gives at most `most` intervals between ticks."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(most, integer=integer)


def percent(value: float, position: Any = None) -> str:
    """A share in per cent, as text; `position` is ignored, so that this can format ticks."""
    return f"{100 * value:.4g} %"


def dense(rows: Any) -> np.ndarray:
    """Rows as a dense array of float64."""
    return np.asarray(blocks.dense(on_host(rows)), dtype=np.float64)


def feature_names(model: Any) -> list[str]:
    """The names of the model's columns; "feature 0" and so on if they have none."""
    return column_names(model, "feature ")


def fitted(model: Any, *needed: str) -> Any:
    """The estimator to draw: `model`, or the last step of a pipeline; raise if it lacks an attribute in `needed`."""
    if isinstance(model, type):
        raise TypeError(f"{model.__name__} is a class: give an estimator fitted by {model.__name__}(...).fit(X)")
    steps = getattr(model, "steps", None)
    last = steps[-1][1] if steps else model
    name = type(last).__name__
    if all(hasattr(last, attribute) for attribute in needed):
        return last
    if hasattr(last, "fit") and not hasattr(last, "n_features_in_"):
        raise NotFittedError(f"this {name} is not fitted yet: call fit(X) before drawing it")
    missing = ", ".join(attribute for attribute in needed if not hasattr(last, attribute))
    raise TypeError(f"{name} cannot be drawn like this, it has no {missing}: give a fitted estimator of kernelsieve")


def fitted_itself(model: Any, drawing: str, *needed: str) -> Any:
    """`fitted`, but raise for a pipeline, whose columns are not the model's inputs that the plot shows."""
    if fitted(model, *needed) is not model:
        raise TypeError(
            f"{drawing} draws what a model itself sees: give the pipeline's last step, and rows as it gets them"
        )
    return model


def component_title(model: Any, component: int) -> str:
    """The number of a component and its share of the variance, as text."""
    share = float(model.explained_variance_ratio_[component])
    return f"component {component + 1} ({100 * share:.1f} % of variance)"


def set_apart(values: np.ndarray, gap: float) -> np.ndarray:
    """Heights for labels: in the order of `values` and close to them, but no two closer than `gap`."""
    order = np.argsort(values)
    heights = np.asarray(values, dtype=np.float64)[order]
    for upper in range(1, len(heights)):
        heights[upper] = max(heights[upper], heights[upper - 1] + gap)
    # So far heights were only moved upwards: move all of them down by the mean shift.
    heights -= np.mean(heights - np.asarray(values)[order])
    apart = np.empty_like(heights)
    apart[order] = heights
    return apart


def checked_image_shape(shape: Any, n_features: int, what: str) -> tuple[int, int] | None:
    """The shape of images, or None; raise unless it has as many pixels as rows have features."""
    if shape is None:
        return None
    height, width = two_whole_numbers("image_shape", shape, 1)
    if height * width != n_features:
        raise ValueError(
            f"image_shape={(height, width)} has {height * width} pixels, the {what} have {n_features} features"
        )
    return height, width
