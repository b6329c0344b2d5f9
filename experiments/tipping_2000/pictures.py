"""Pictures of the experiments in tipping_2000."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from kernelsieve import LikelihoodKernelPCA, likelihood_path, plots

from ..report import Report, span

if TYPE_CHECKING:
    from .diabetes import Curves
    from .draws import Pair

EXTENT = (-1.15, 1.15), (-0.85, 1.2)  # of the plane that is drawn


def plane() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coordinates along both axes, and all points of the grid."""
    across, up = (np.linspace(*limits, 121) for limits in EXTENT)
    return across, up, np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)


def draw_rows(ax: Any, X: np.ndarray, circled: np.ndarray | None) -> None:
    ax.scatter(*X.T, s=6, color=plots.ROW_COLOR, linewidths=0, zorder=3)
    if circled is not None:
        ax.scatter(*circled.T, s=44, facecolors="none", edgecolors="black", linewidths=1.4, zorder=4)
    ax.set(xlim=EXTENT[0], ylim=EXTENT[1], aspect="equal", xticks=(-0.5, 0, 0.5), yticks=(-0.5, 0, 0.5, 1))


def components(report: Report, drawn: Pair, n_panels: int) -> None:
    """Contours of the components of both models, the eigenvalues above them."""
    exact, sparse = drawn.exact, drawn.sparse
    titles = [f"component {k + 1}: {value:.3f}" for k, value in enumerate(exact.explained_variance_)]
    caption = f"Fig. 1: kernel PCA, {len(drawn.rows)} kernels"
    panels(report, drawn.rows, exact.transform(plane()[2]), titles, "kernel_pca", f"{caption}; eigenvalues / N above")
    titles = [
        f"component {k + 1}: {value:.3f} (scores {score:.3f})"
        for k, (value, score) in enumerate(zip(sparse.eigenvalues_, sparse.explained_variance_, strict=True))
    ]
    signs = np.ones(len(titles))
    diagonal = np.diagonal(drawn.cosines)
    signs[: len(diagonal)] = np.sign(diagonal)
    caption = f"Fig. 2: sparse kernel PCA, the {sparse.n_support_} circled kernels; the model's eigenvalues above"
    values = sparse.transform(plane()[2])[:, :n_panels] * signs[:n_panels]
    panels(report, drawn.rows, values, titles, "sparse", caption, sparse.support_vectors_)


def panels(
    report: Report,
    X: np.ndarray,
    values: np.ndarray,
    titles: list[str],
    name: str,
    caption: str,
    circled: np.ndarray | None = None,
) -> None:
    across, up, _ = plane()
    shape = (1, 2) if report.quick else (3, 3)
    figure, axes = plt.subplots(*shape, figsize=(9.4, 8), sharex=True, sharey=True, layout="constrained")
    levels = np.linspace(-1, 1, 18)  # an even number: none at zero, where far from the rows all is rounding
    for k, ax in enumerate(axes.flat):
        if k >= values.shape[1]:
            ax.set_axis_off()
            continue
        surface = values[:, k].reshape(len(up), len(across)) / np.abs(values[:, k]).max()
        filled = ax.contourf(across, up, surface, levels=levels, cmap="PuOr_r", alpha=0.75)
        ax.contour(across, up, surface, levels=levels, colors="#4D4D4D", linewidths=0.5, linestyles="solid", alpha=0.6)
        draw_rows(ax, X, circled)
        ax.set_title(titles[k], fontsize=9)
    figure.colorbar(filled, ax=axes, label="score / largest |score|", ticks=(-1, -0.5, 0, 0.5, 1), shrink=0.6)
    report.picture(figure, name, caption)


def reconstruction(report: Report, drawn: Pair, n_panels: int) -> None:
    """Errors over the plane: sparse, exact, and those of linear PCA's one component."""
    across, up, points = plane()
    linear = PCA(1).fit(drawn.rows)
    off_line = np.sum((points - linear.inverse_transform(linear.transform(points))) ** 2, axis=1)
    sparse, exact = drawn.sparse, drawn.exact
    surfaces = (
        (f"Sparse: {sparse.n_support_} kernels, circled", sparse.reconstruction_error(points), sparse.support_vectors_),
        (f"Kernel PCA: {len(drawn.rows)} kernels, {n_panels} PCs", exact.reconstruction_error(points), None),
        ("Linear PCA: 1 of 2 PCs", off_line / np.sum(np.var(drawn.rows, axis=0)), None),
    )
    figure, axes = plt.subplots(1, 3, figsize=(13.6, 4.2), sharey=True, layout="constrained")
    levels = np.linspace(0, 1, 11)
    for ax, (title, error, circled) in zip(axes, surfaces, strict=True):
        surface = error.reshape(len(up), len(across))
        filled = ax.contourf(across, up, surface, levels=levels, cmap="Blues", alpha=0.8, extend="max")
        ax.contour(across, up, surface, levels=levels, colors="#4D4D4D", linewidths=0.5, alpha=0.7)
        draw_rows(ax, drawn.rows, circled)
        ax.set_title(title, fontsize=11)
    figure.colorbar(filled, ax=axes, label="squared error, the rows' total variance being 1")
    caption = "Fig. 3: rows, representing vectors, contours of the reconstruction error; beside it linear PCA's"
    report.picture(figure, "reconstruction", caption)


def mean_curve(averaged: list[dict[str, Curves]], name: str, what: str) -> np.ndarray:
    """Over the random subsets; NaN where one of their models has not so many components."""
    mean: np.ndarray = np.mean([getattr(subset[name], what) for subset in averaged], axis=0)
    return mean


def curves(report: Report, published: dict[str, Curves], averaged: list[dict[str, Curves]]) -> None:
    figure, axes = plt.subplots(2, 2, figsize=(9.6, 7.2), sharex=True, sharey="col", layout="constrained")
    numbers = np.arange(1, len(published[next(iter(published))].train_rms) + 1)
    whole = [name for name in published if not np.isnan(published[name].train_rms).any()]  # as Fig. 4 draws them
    for name, color, marker in zip(whole, plots.COLORS, plots.MARKERS, strict=False):
        style = {"color": color, "marker": marker, "markersize": 4, "linewidth": 1.6}
        counts = [subset[name].n_support for subset in averaged]
        labels = f"{name}: {published[name].n_support} kernels", f"{name}: {span(counts)} kernels"
        for column, what in enumerate(("train_rms", "test_errors")):
            axes[0, column].plot(numbers, getattr(published[name], what), label=labels[0], **style)
            axes[1, column].plot(numbers, mean_curve(averaged, name, what), label=labels[1], **style)
    for row, where in enumerate(("Ripley's split", f"mean of {len(averaged)} random subsets")):
        axes[row, 0].set(title=f"Reconstruction, {where}", ylabel="RMS reconstruction error", ylim=(0, None))
        axes[row, 1].set(title=f"Linear SVM, {where}", ylabel="test errors of 332")
        axes[row, 0].legend(frameon=False, fontsize=9)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", alpha=0.25)
        ax.set_axisbelow(True)
    for ax in axes[1]:
        ax.set_xlabel("number of components")
    report.picture(figure, "pima", "Pima: reconstruction error of the training rows, and test errors")


def path(
    report: Report,
    X: np.ndarray,
    gamma: float,
    noise_variance: float,
    name: str,
    title: str,
) -> None:
    """The path with the paper's noise variance."""
    path = likelihood_path(LikelihoodKernelPCA(gamma=gamma), X, n_points=8 if report.quick else 30)
    figure, ax = plt.subplots(figsize=(6.6, 4.2), layout="constrained")
    plots.likelihood_path(path, ax)
    ax.axvline(noise_variance, color="black", linewidth=1, linestyle=":")
    place = {"xycoords": ("data", "axes fraction"), "xytext": (4, 0), "textcoords": "offset points"}
    ax.annotate(f"{noise_variance:g}", (noise_variance, 0.35), **place)
    figure.suptitle(title)
    report.picture(figure, name, f"{title}: vectors and explained variance against the noise variance")
