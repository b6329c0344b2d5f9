"""Rows as points: few with a marker for each class, many small and shuffled, very many as a density; or as images."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..fit.validation import two_whole_numbers
from .style import COLORS, MARKERS, Axes

# More different numbers than this among the labels are a scale, not classes.
MAX_CLASSES = len(COLORS)
OTHER_COLOR = "#BBBBBB"  # of rows whose class has no colour of its own, or is missing
FEW_ROWS = 2000  # up to which every class has its own marker
DENSITY_ROWS = 10_000  # above which rows without labels are counted, not drawn
DENSITY_CELLS = 90  # hexagons across
LARGEST_INK = 30_000.0  # points squared that all markers together may cover before each is made smaller


def point_style(n_rows: int, size: float, alpha: float) -> dict[str, Any]:
    """Size and opacity of one of so many points: the more, the smaller and the fainter."""
    crowding = min(1.0, LARGEST_INK / (n_rows * size))
    return {
        "s": max(size * crowding, 1.2),
        "alpha": max(alpha * crowding**0.25, 0.3),
        "rasterized": n_rows > FEW_ROWS,  # thousands of vector points make a file that no viewer opens
    }


def draw_density(ax: Axes, values: np.ndarray) -> None:
    """How many rows lie where, on a logarithmic scale so that single rows are still seen."""
    drawn = ax.hexbin(*values.T, gridsize=DENSITY_CELLS, bins="log", mincnt=1, cmap="viridis_r", linewidths=0.1)
    ax.figure.colorbar(drawn, ax=ax, label="rows")


def draw_labelled(ax: Axes, values: np.ndarray, labels: np.ndarray) -> None:
    """Rows in the colour (and few in the marker) of their class, or coloured by a number."""
    if labels.dtype.kind == "f":
        _draw_scale(ax, values, labels)
        return
    names, counts = np.unique(labels[labels != ""], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    kept = np.sort(names[order[: MAX_CLASSES - (len(names) > MAX_CLASSES)]])
    if len(values) <= FEW_ROWS:
        own_marker = _draw_markers(ax, values, labels, kept)
    else:
        own_marker = False
        _draw_shuffled(ax, values, labels, kept)
    n_others = len(names) - len(kept)
    told = [f"{n_others} others"] * bool(n_others) + ["missing"] * bool((labels == "").any())
    if told:
        ax.scatter([], [], color=OTHER_COLOR, s=18, label=", ".join(told))
    if told or not own_marker:
        ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.0)


def _draw_scale(ax: Axes, values: np.ndarray, labels: np.ndarray) -> None:
    missing = np.isnan(labels)
    style = point_style(len(values), 14, 0.85)
    if missing.any():
        ax.scatter(*values[missing].T, color=OTHER_COLOR, linewidths=0, label="missing", **style)
    order = _shuffled(np.flatnonzero(~missing))
    drawn = ax.scatter(*values[order].T, c=labels[order], cmap="viridis", linewidths=0, **style)
    bar = ax.figure.colorbar(drawn, ax=ax, label="label")
    bar.solids.set_alpha(1.0)


def _draw_markers(ax: Axes, values: np.ndarray, labels: np.ndarray, kept: np.ndarray) -> bool:
    """One marker a class; whether the markers are the labels themselves."""
    others = ~np.isin(labels, kept)
    ax.scatter(*values[others].T, color=OTHER_COLOR, s=18, alpha=0.85)
    own_marker = all(len(name) == 1 and name.isascii() and name.isalnum() for name in kept)
    for name, color, marker in zip(kept, COLORS, MARKERS, strict=False):
        style = {"marker": f"${name}$", "s": 26, "linewidths": 0.2} if own_marker else {"marker": marker, "s": 18}
        ax.scatter(*values[labels == name].T, color=color, alpha=0.85, label=str(name), **style)
    return own_marker


def _draw_shuffled(ax: Axes, values: np.ndarray, labels: np.ndarray, kept: np.ndarray) -> None:
    """All classes in one random order: drawn one after the other, the last would cover the first."""
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
    """One label a row: floats where they are a scale, else texts, "" where missing."""
    values = np.asarray(labels)
    if values.shape != (n_rows,):
        raise ValueError(f"labels have shape {values.shape}, expected ({n_rows},): one for each row of X")
    if values.dtype.kind in "iuf":
        numbers = values.astype(np.float64)
        if len(np.unique(numbers[~np.isnan(numbers)])) > MAX_CLASSES:
            return numbers
        return np.array(["" if number != number else f"{number:.12g}" for number in numbers])
    missing = [value is None or value != value or type(value).__name__ == "NAType" for value in values.tolist()]
    return np.array(["" if gone else str(value) for gone, value in zip(missing, values.tolist(), strict=True)])


def checked_image_shape(shape: Any, n_features: int, what: str) -> tuple[int, int] | None:
    """The shape of images, if there is one and it has as many pixels as rows have features."""
    if shape is None:
        return None
    height, width = two_whole_numbers("image_shape", shape, 1)
    if height * width != n_features:
        raise ValueError(
            f"image_shape={(height, width)} has {height * width} pixels, the {what} have {n_features} features"
        )
    return height, width
