"""Pictures of the experiments in wang_tanaka_2016."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np

from kernelsieve import plots

from ..report import Report

if TYPE_CHECKING:
    from .limits import LongRun
    from .problems import Solution

RESOLUTION = 101  # grid points along each axis of a contour plot
MARGIN = 0.25  # of the range of the rows, around them
LEVELS = np.linspace(-1, 1, 18)  # an even number: none at zero, where far from the rows all is rounding


def component_panels(
    report: Report, solutions: Sequence[Solution], numbers: Sequence[int], name: str, caption: str
) -> None:
    """Kernel PCA's components above, each solution's below, the rows that it uses circled."""
    problem, numbers = solutions[0].problem, report.some(numbers)
    across, up, points = plane(problem.rows)
    block = problem.cross_gram(points)
    coefs = {"kernel PCA": problem.kernel_pca} | {found.name: found.coef for found in solutions}
    shape = len(coefs), len(numbers)
    figure, axes = plt.subplots(
        *shape,
        figsize=(2.7 * shape[1] + 1.1, 2.5 * shape[0]),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for row, (label, coef) in enumerate(coefs.items()):
        for column, k in enumerate(numbers):
            ax = axes[row, column]
            values = (block @ coef[:, k]).reshape(len(up), len(across))
            filled = draw_surface(ax, across, up, values)
            used = np.flatnonzero(coef[:, k])
            draw_rows(ax, problem.rows, used)
            ax.set_title(f"component {k + 1}: {len(used)} rows", fontsize=10)
        axes[row, 0].set_ylabel(label, fontsize=11)
    figure.colorbar(filled, ax=axes, label="score / largest |score|", ticks=(-1, -0.5, 0, 0.5, 1), shrink=0.6)
    report.picture(figure, name, caption)


def plane(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coordinates along both axes, and all points of the grid."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    margin = MARGIN * (high - low)
    across, up = (np.linspace(a, b, RESOLUTION) for a, b in zip(low - margin, high + margin, strict=True))
    return across, up, np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)


def draw_surface(ax: Any, across: np.ndarray, up: np.ndarray, values: np.ndarray) -> Any:
    scaled = values / (float(np.abs(values).max()) or 1.0)
    filled = ax.contourf(across, up, scaled, levels=LEVELS, cmap="PuOr_r", alpha=0.75)
    ax.contour(across, up, scaled, levels=LEVELS, colors="#4D4D4D", linewidths=0.5, linestyles="solid", alpha=0.6)
    return filled


def draw_rows(ax: Any, rows: np.ndarray, used: np.ndarray) -> None:
    ax.scatter(*rows.T, s=4, color=plots.ROW_COLOR, alpha=0.6, linewidths=0, zorder=3)
    if len(used) < len(rows):  # when every row is used there is nothing to point out
        ax.scatter(*rows[used].T, s=34, facecolors="none", edgecolors="white", linewidths=2.6, zorder=4)
        ax.scatter(*rows[used].T, s=34, facecolors="none", edgecolors="black", linewidths=1.2, zorder=5)


def coefficient_panels(report: Report, solutions: Sequence[Solution]) -> None:
    """Coefficients of each component against the row number."""
    problem = solutions[0].problem
    coefs = {"kernel PCA": problem.kernel_pca} | {found.name: found.coef for found in solutions}
    shape = problem.n_components, len(coefs)
    figure, axes = plt.subplots(*shape, figsize=(11, 6.6), sharex=True, sharey="row", layout="constrained")
    for column, (label, coef) in enumerate(coefs.items()):
        for k, ax in enumerate(axes[:, column]):
            used = np.flatnonzero(coef[:, k])
            ax.axhline(0, color=plots.ROW_COLOR, linewidth=0.6)
            ax.vlines(used, 0, coef[used, k], color=plots.COLORS[column], linewidth=0.9)
            ax.set_title(f"{label}: {len(used)} nonzeros", fontsize=10)
            ax.spines[["top", "right"]].set_visible(False)
    for k, ax in enumerate(axes[:, 0]):
        ax.set_ylabel(f"component {k + 1}")
    for ax in axes[-1]:
        ax.set_xlabel("training row")
    figure.supylabel("coefficient")
    report.picture(figure, "fig3", "Fig. 3: coefficients of three components on MNIST, components of unit length")


def error_curves(report: Report, curves: Mapping[tuple[str, str], np.ndarray]) -> None:
    """Mean squared error against the number of components, training rows and test rows."""
    places, methods = (list(dict.fromkeys(names)) for names in zip(*curves, strict=True))
    figure, axes = plt.subplots(1, len(places), figsize=(10, 4.2), layout="constrained")
    # Kernel PCA and the minimiser coincide: the one is drawn as a broad band behind the other.
    styles = ({"linewidth": 6, "alpha": 0.35, "markersize": 12}, *[{"linewidth": 1.7, "markersize": 6}] * 3)
    for ax, where in zip(axes, places, strict=True):
        for name, color, marker, style in zip(methods, plots.COLORS, plots.MARKERS, styles, strict=False):
            curve = curves[where, name]
            ax.plot(np.arange(1, len(curve) + 1), curve, color=color, marker=marker, label=name, **style)
        ax.set(title=where, xlabel="number of components", xticks=(1, 2, 3))
        tidy(ax, "y")
    axes[0].set_ylabel("mean squared error")
    axes[0].legend(frameon=False)
    report.picture(figure, "fig4", "Fig. 4: mean squared error in feature space on MNIST, and on the test rows")


def long_runs(report: Report, found: Sequence[LongRun]) -> None:
    """Nonzeros and excess of the criterion against ADMM iterations."""
    figure, axes = plt.subplots(2, len(found), figsize=(11.5, 6.4), sharex=True, sharey="row", layout="constrained")
    for (above, below), run in zip(axes.T, found, strict=True):
        for name, color, style in zip(run.n_nonzero, plots.COLORS, ("-", "--"), strict=False):
            counts, excess = run.n_nonzero[name], run.excess[name]
            iterations = np.arange(1, len(counts) + 1)
            line = {"color": color, "linestyle": style, "linewidth": 1.7, "label": name}
            above.plot(iterations, np.where(counts > 0, counts, np.nan), **line)
            below.plot(iterations, excess, **line)
        above.axhline(run.n_nonzero_minimiser, color=plots.COLORS[2], linewidth=1.4, linestyle="-.", label="minimiser")
        for ax in (above, below):
            ax.axvline(run.n_paper, color="black", linewidth=1, linestyle=":", label="the paper stops")
            ax.set(xscale="log", yscale="log")
            tidy(ax, "both")
        above.set_title(run.name)
        below.set_xlabel("ADMM iterations")
    axes[0, 0].set_ylabel("nonzeros, first component")
    axes[1, 0].set_ylabel("J over its minimum, less one")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    caption = "What ADMM has after so many iterations, first component; no line while all coefficients are zero"
    report.picture(figure, "long_runs", caption)


def paths(report: Report, drawn: Mapping[str, Any]) -> None:
    """The elastic net's path for each data set, by its title."""
    figure, axes = plt.subplots(1, len(drawn), figsize=(6.4 * len(drawn), 4.6), squeeze=False, layout="constrained")
    figure.get_layout_engine().set(wspace=0.06)
    for ax, (title, path) in zip(axes[0], drawn.items(), strict=True):
        plots.path(path, ax)
        ax.set_title(title, pad=44)
    report.picture(figure, "path", "Nonzeros and captured variance along the path from alpha_max down")


def tidy(ax: Any, grid: str) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis=grid, alpha=0.25)
    ax.set_axisbelow(True)
