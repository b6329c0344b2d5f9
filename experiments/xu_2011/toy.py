"""Figs. 1-3: two classes, and their first two features by naive kernel PCA and by ESKPCA."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from kernelsieve import DissimilarityKernelPCA, KernelPCA, plots

from ..report import Report, span

SEEDS = range(10)
GAMMA, NODES = 0.5, 0.3
SIMILAR = 0.9  # correlation of two features that count as similar
LABELS = np.repeat([0, 1], 100)


def toy_rows(seed: int) -> np.ndarray:
    """A ring and what it surrounds; the paper's own rows are not known."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, 100)
    ring = np.column_stack([np.cos(angle), np.sin(angle)]) * (2 + 0.15 * rng.standard_normal((100, 1)))
    return np.vstack([ring, 0.5 * rng.standard_normal((100, 2))])


def both(X: np.ndarray) -> tuple[KernelPCA, DissimilarityKernelPCA]:
    """Naive kernel PCA and ESKPCA."""
    naive = KernelPCA(2, kernel="rbf", gamma=GAMMA, center=False).fit(X)
    return naive, DissimilarityKernelPCA(2, n_nodes=NODES, gamma=GAMMA, whiten=False).fit(X)


def figures_1_to_3(report: Report) -> None:
    report.text("## Figs. 1-3: a toy set of two classes")
    seeds, alike = report.some(SEEDS, 2), []
    for seed in seeds:
        X = toy_rows(seed)
        naive, sparse = both(X)
        pairs = zip(naive.transform(X).T, sparse.transform(X).T, strict=True)
        alike.append(min(abs(float(np.corrcoef(*pair)[0, 1])) for pair in pairs))
    draw(report, toy_rows(0))
    report.verdict(
        "Figs. 1-3",
        "ESKPCA with 30 % of the samples and naive KPCA produce a similar distribution of the first two features",
        found=f"the two features of one and of the other correlate by at least {span(alike)}; scales differ, for one "
        "method's coefficients and the other's components are of unit length",
        holds=[value > SIMILAR for value in alike],
        tried=f"{len(seeds)} draws of a ring and its inside",
    )


def draw(report: Report, X: np.ndarray) -> None:
    naive, sparse = both(X)
    panels = {
        "Fig. 1: the rows": X,
        "Fig. 2: naive KPCA": naive.transform(X),
        f"Fig. 3: ESKPCA, {sparse.n_support_} of 200 nodes": sparse.transform(X),
    }
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.6), layout="constrained")
    for ax, (title, points) in zip(axes, panels.items(), strict=True):
        for label, marker in ((0, "o"), (1, "s")):
            rows = points[label == LABELS]
            ax.scatter(*rows.T, s=14, marker=marker, color=plots.COLORS[label], label=f"class {label}")
        if points is X:
            ax.scatter(*sparse.support_vectors_.T, s=60, facecolors="none", edgecolors="0.3", label="nodes")
            ax.set(xlabel="x1", ylabel="x2", aspect="equal")
        else:
            ax.set(xlabel="feature 1", ylabel="feature 2")
        ax.set_title(title)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    report.picture(figure, "toy", "Two classes, their first two features by naive KPCA and by ESKPCA")
