"""What the pictures of the pages share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from kernelsieve.plots import COLORS, MARKERS
from kernelsieve.plots.style import draw_images, tidy

STYLE = {
    "figure.dpi": 110,
    "savefig.dpi": 110,
    "figure.facecolor": "white",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.prop_cycle": plt.cycler(color=COLORS),
    "legend.frameon": False,
    "lines.linewidth": 1.8,
}
plt.rcParams.update(STYLE)


def reset_for_example(gallery_conf: Any, name: str) -> None:
    """Before each example: no figure is open, and the style is ours."""
    plt.close("all")
    plt.rcdefaults()
    plt.rcParams.update(STYLE)


def panels(columns: int, width: float = 3.6, height: float = 3.2, rows: int = 1) -> tuple[Any, np.ndarray]:
    """A figure with a grid of axes, always as an array of one dimension."""
    size = (width * columns, height * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    return figure, axes.ravel()


def classes(ax: Any, points: np.ndarray, labels: np.ndarray, title: str, legend: bool = False) -> None:
    """Points in the plane; each class has a colour and a marker."""
    for number, label in enumerate(np.unique(labels)):
        chosen = labels == label
        style = {"color": COLORS[number % len(COLORS)], "marker": MARKERS[number % len(MARKERS)]}
        ax.scatter(points[chosen, 0], points[chosen, 1], s=13, alpha=0.75, linewidths=0, label=str(label), **style)
    ax.set(title=title, xticks=[], yticks=[])
    if legend:
        ax.legend(fontsize=8, markerscale=1.6, handletextpad=0.2, borderpad=0.2)


def bars(ax: Any, names: Sequence[str], values: Sequence[float], label: str, form: str = "{:.3g}") -> None:
    """Horizontal bars with their numbers beside them, first on top."""
    places = np.arange(len(names))[::-1]
    colors = [COLORS[0] if name.startswith("ours") or "kernelsieve" in name else COLORS[8] for name in names]
    ax.barh(places, values, color=colors, height=0.65)
    for place, value in zip(places, values, strict=True):
        ax.annotate(
            form.format(value), (value, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=9
        )
    ax.set_yticks(places, names)
    ax.set_xlabel(label)
    ax.margins(x=0.18)
    tidy(ax)


def images(ax: Any, rows: np.ndarray, shape: tuple[int, int], title: str) -> None:
    """Rows as pictures side by side."""
    draw_images(ax, np.asarray(rows, dtype=np.float64).reshape(-1, *shape))
    ax.set_title(title)


def curve(ax: Any, x: Sequence[float], curves: dict[str, Sequence[float]], xlabel: str, ylabel: str) -> None:
    """Lines with markers, told apart by both."""
    for number, (name, values) in enumerate(curves.items()):
        ax.plot(x, values, color=COLORS[number], marker=MARKERS[number], markersize=5, label=name)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    if len(curves) > 1:
        ax.legend(fontsize=9)
    tidy(ax, "y")
