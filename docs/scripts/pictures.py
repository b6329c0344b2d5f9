"""What the pictures of the pages share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from kernelsieve.plots import COLORS, MARKERS, contours
from kernelsieve.plots.style import tidy

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
    ours = [name.startswith("ours") for name in names]
    colors = [COLORS[0] if own or not any(ours) else COLORS[8] for own in ours]
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
    """Rows as pictures in one line, dark on white."""
    pixels = np.asarray(rows, dtype=np.float64).reshape(-1, *shape)
    line = np.hstack([np.pad(image, ((0, 0), (0, 1))) for image in pixels])
    ax.imshow(line, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
    ax.set(title=title, xticks=[], yticks=[])
    ax.spines[:].set_visible(False)


def component_rows(X: np.ndarray, models: dict[str, Any], resolution: int, count: int = 4) -> None:
    """The first components of several models over the plane, a line of panels for each model."""
    _, axes = panels(count, 2.9, 2.5, rows=len(models))
    for line, (name, model) in enumerate(models.items()):
        for component in range(count):
            ax = axes[line * count + component]
            contours(model, X, component=component, resolution=resolution, ax=ax)
            ax.figure.axes[-1].remove()  # the scale: eight of them say less than the room they take
            ax.get_legend().remove()
            ax.set_title(f"{name}, component {component}", fontsize=9)
            ax.set(xlabel="", ylabel="", xticks=[], yticks=[])


QUESTIONS = (
    ("a few hundred rows,\nand time to spare?", "KernelPCA (exact)"),
    ("is this row normal?", "KernelMonitor"),
    ("a fitted scikit-learn model\nthat is too slow?", "compress(model, 50)"),
    ("outliers, and an\nunbounded kernel?", "RobustSparseKernelPCA"),
    ("sparse loadings on\nthe input columns?", "ElasticNetPCA\nRobustElasticNetPCA"),
    ("a published method,\nto compare with?", "ElasticNetKernelPCA\nLikelihoodKernelPCA\n... and four more"),
)


def decision() -> None:
    """Which estimator: questions from top to bottom, an answer beside each."""
    _, (ax,) = panels(1, 6.4, 6.8)
    arrow = {"arrowstyle": "-|>", "color": "#5a6570", "linewidth": 1.2}
    look = {"ha": "center", "va": "center", "fontsize": 9.5}

    def box(place: tuple[float, float], text: str, color: str, family: str | None = None) -> None:
        frame = {"boxstyle": "round,pad=0.45", "facecolor": color, "edgecolor": "#5a6570"}
        ax.text(*place, text, bbox=frame, family=family, **look)

    for level, (question, answer) in enumerate(QUESTIONS):
        ax.annotate("", (2.6, -level), (0.95, -level), arrowprops=arrow)
        ax.annotate("", (0, -level - 0.68), (0, -level - 0.3), arrowprops=arrow)
        ax.text(1.75, -level + 0.1, "yes", fontsize=9, ha="center")
        box((0, -level), question, "#f4f1e8")
        box((3.6, -level), answer, "#dcebf7", "monospace")
    ax.text(0.12, -len(QUESTIONS) + 0.45, "none of these", fontsize=9, ha="left")
    box((0, -len(QUESTIONS)), "SparseKernelPCA", "#dcebf7", "monospace")
    ax.set(xlim=(-1.1, 4.8), ylim=(-len(QUESTIONS) - 0.4, 0.5), title="Which estimator? Go down until a question fits")
    ax.axis("off")


def curve(ax: Any, x: Sequence[float], curves: dict[str, Sequence[float]], xlabel: str, ylabel: str) -> None:
    """Lines with markers, told apart by both."""
    for number, (name, values) in enumerate(curves.items()):
        ax.plot(x, values, color=COLORS[number], marker=MARKERS[number], markersize=5, label=name)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    if len(curves) > 1:
        ax.legend(fontsize=9)
    tidy(ax, "y")
