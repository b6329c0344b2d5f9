"""The picture of the home page and of the README, on a light and on a dark page.

    PYTHONPATH=docs/scripts python docs/home_picture.py

Left: what m points keep of exact kernel PCA's variance, on rows that were held out.  Right: twenty such points.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pictures
import shown

from kernelsieve import KernelPCA, SparseKernelPCA
from kernelsieve.plots import COLORS, MARKERS
from kernelsieve.plots.style import draw_images, percent, plain_log_axis, tidy

SIZES = (12, 16, 20, 30, 50, 80, 120, 200)
SEEDS = range(3)
INK = {"light": "#1f2328", "dark": "#e6edf3"}


def kept(data: shown.Images) -> dict[str, list[float]]:
    """Held-out captured variance over exact kernel PCA's, for both ways and each number of points."""
    exact = KernelPCA(10, kernel="rbf", gamma="median", random_state=0).fit(data.train)
    best = exact.score(data.test)
    curves: dict[str, list[float]] = {"kernelsieve": [], "Nystroem + PCA": []}
    for size in SIZES:
        ours, theirs = [], []
        for seed in SEEDS:
            shared = {"n_support": size, "gamma": exact.gamma_, "random_state": seed}
            ours.append(SparseKernelPCA(10, **shared).fit(data.train).score(data.test) / best)
            # Nystroem is SparseKernelPCA on uniformly drawn rows: the same span, the same principal components.
            theirs.append(SparseKernelPCA(10, selection="uniform", **shared).fit(data.train).score(data.test) / best)
        curves["kernelsieve"].append(float(np.mean(ours)))
        curves["Nystroem + PCA"].append(float(np.mean(theirs)))
    return curves


def draw(curves: dict[str, list[float]], model: SparseKernelPCA, data: shown.Images, theme: str) -> plt.Figure:
    """Both halves of the picture, in the ink of a theme."""
    ink = INK[theme]
    look = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), ink)
    with plt.rc_context({**look, "figure.facecolor": "none", "axes.facecolor": "none", "font.size": 11}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained", width_ratios=(1.25, 1))
        names = (("kernelsieve", "#2f8fd0"), ("Nystroem + PCA", COLORS[1]))
        for (name, color), marker in zip(names, MARKERS, strict=False):
            left.plot(SIZES, curves[name], color=color, marker=marker, label=name, linewidth=2)
        left.set(xlabel="support points", title=f"variance kept of exact kernel PCA ({len(data.train):,} points)")
        left.yaxis.set_major_formatter(percent)
        plain_log_axis(left, "x")
        left.legend(loc="lower right")
        tidy(left, "y")
        draw_images(right, np.clip(model.support_vectors_, 0, 1).reshape(-1, *data.shape))
        share = 100 * curves["kernelsieve"][SIZES.index(20)]
        right.set_title(f"20 points that keep {share:.1f} %")
    return figure


def main() -> None:
    """Write the three files."""
    folder = Path(__file__).with_name("_static")
    data = shown.digits()
    curves = kept(data)
    model = SparseKernelPCA(10, n_support=20, random_state=0).fit(data.train)
    for theme in INK:
        figure = draw(curves, model, data, theme)
        figure.savefig(folder / f"home-{theme}.png", dpi=130, transparent=True)
    figure = draw(curves, model, data, "light")
    figure.set_facecolor("white")
    figure.savefig(folder / "readme.png", dpi=110, facecolor="white")


if __name__ == "__main__":
    pictures.reset_for_example(None, "home")
    main()
