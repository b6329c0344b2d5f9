"""The pictures of the home page, on a light and on a dark page, and that of the README: python docs/home_picture.py

First: what m support points keep of exact kernel PCA's variance on held-out rows.  Second: twenty such points.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from kernelsieve import KernelPCA, SparseKernelPCA
from kernelsieve.plots import COLORS, MARKERS
from kernelsieve.plots.style import draw_images, percent, plain_log_axis, tidy

SIZES = (12, 16, 20, 30, 50, 80, 120, 200)
SEEDS = range(3)
INK = {"light": "#1f2328", "dark": "#e6edf3"}
STATIC = Path(__file__).with_name("_static")


def kept(train: np.ndarray, test: np.ndarray) -> dict[str, list[float]]:
    """Held-out captured variance over exact kernel PCA's, for both ways and each number of points."""
    exact = KernelPCA(10, kernel="rbf", gamma="median", random_state=0).fit(train)
    best = exact.score(test)
    # Nystroem is SparseKernelPCA on uniformly drawn rows: the same span, the same principal components.
    rules = {"kernelsieve": "optimized", "Nystroem + PCA": "uniform"}
    curves: dict[str, list[float]] = {}
    for name, rule in rules.items():
        curves[name] = []
        for size in SIZES:
            settings = {"n_support": size, "selection": rule, "gamma": exact.gamma_}
            models = [SparseKernelPCA(10, random_state=seed, **settings).fit(train) for seed in SEEDS]
            curves[name].append(float(np.mean([model.score(test) / best for model in models])))
    return curves


def draw_curve(ax: plt.Axes, curves: dict[str, list[float]]) -> None:
    """What each number of points keeps."""
    for (name, values), color, marker in zip(curves.items(), ("#2f8fd0", COLORS[1]), MARKERS, strict=False):
        ax.plot(SIZES, values, color=color, marker=marker, label=name, linewidth=2)
    ax.set(xlabel="support points", title="variance kept of exact kernel PCA")
    ax.yaxis.set_major_formatter(percent)
    plain_log_axis(ax, "x")
    ax.legend(loc="lower right")
    tidy(ax, "y")


def draw_points(ax: plt.Axes, curves: dict[str, list[float]], points: np.ndarray) -> None:
    """Twenty points as pictures."""
    draw_images(ax, np.clip(points, 0, 1).reshape(-1, 8, 8))
    share = 100 * curves["kernelsieve"][SIZES.index(20)]
    ax.set_title(f"20 points that keep {share:.1f} %")


def main() -> None:
    """Write the five files."""
    train, test = train_test_split(load_digits().data / 16, test_size=1 / 3, random_state=0)
    curves = kept(train, test)
    points = SparseKernelPCA(10, n_support=20, random_state=0).fit(train).support_vectors_
    for theme, ink in INK.items():
        look = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), ink)
        with plt.rc_context({**look, "axes.facecolor": "none", "font.size": 11, "legend.frameon": False}):
            for name, draw in (("curve", lambda ax: draw_curve(ax, curves)), ("points", None)):
                figure, ax = plt.subplots(figsize=(4.5, 3.3), layout="constrained")
                draw(ax) if draw else draw_points(ax, curves, points)
                figure.savefig(STATIC / f"home-{name}-{theme}.png", dpi=160, transparent=True)
    with plt.rc_context({"font.size": 11, "legend.frameon": False}):
        figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained", width_ratios=(1.25, 1))
        draw_curve(axes[0], curves)
        draw_points(axes[1], curves, points)
        figure.savefig(STATIC / "readme.png", dpi=110, facecolor="white")


if __name__ == "__main__":
    main()
