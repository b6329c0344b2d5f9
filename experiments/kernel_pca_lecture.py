"""Kernel PCA as a lecture teaches it: a parabola, three clusters, handwritten digits.

Three claims, each checked with exact kernel PCA and with a few support points:

    parabola, polynomial kernel    component 1 is the place along the curve, component 2 the distance from its centre
    three clusters, RBF kernel     two components split three clusters
    8 x 8 digits                   logistic regression does better on kernel PCA's features than on PCA's or on pixels
"""

from __future__ import annotations

from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import spearmanr
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelsieve import KernelPCA, SparseKernelPCA, plots

from .report import Report

SEEDS = range(5)
COMPONENTS = (1, 2, 3, 5, 8, 12, 16, 20, 25, 30, 40, 50, 60)


def run(report: Report) -> None:
    """All three experiments."""
    report.text("# Kernel PCA: the lecture's three experiments")
    parabola(report)
    clusters(report)
    digits(report)


def parabola(report: Report) -> None:
    report.text("## A parabola, polynomial kernel of degree 2")
    rng = np.random.default_rng(0)
    place = rng.uniform(-1, 1, 300)
    X = np.column_stack([place, place**2]) + 0.03 * rng.standard_normal((300, 2))
    kernel = {"kernel": "poly", "degree": 2, "gamma": 1.0, "coef0": 1.0}
    models = {
        "PCA": PCA(2).fit(X),
        "kernel PCA, 300 points": KernelPCA(2, **kernel).fit(X),
        "6 points": SparseKernelPCA(2, n_support=6, random_state=0, **kernel).fit(X),
    }
    rows = []
    for name, model in models.items():
        scores = model.transform(X)
        along = abs(spearmanr(scores[:, 0], place).statistic)
        across = abs(spearmanr(scores[:, 1], np.abs(place)).statistic)
        rows.append((name, float(along), float(across)))
    report.table(("model", "rank correlation: PC1, place along the curve", "PC2, distance from the centre"), rows)
    report.text(
        "On a curve as shallow as this one plain PCA orders the points as well: what changes is PC1 and PC2 as "
        "functions of the plane, which follow the curve (below)."
    )
    contour_panels(report, X, {k: m for k, m in models.items() if k != "PCA"}, "parabola", "Components on a parabola")


def clusters(report: Report) -> None:
    report.text("## Three clusters, RBF kernel")
    rng = np.random.default_rng(0)
    centers = np.array([(-0.5, -0.2), (0.0, 0.6), (0.5, 0.0)])
    truth = np.repeat(np.arange(3), 100)
    X = centers[truth] + 0.1 * rng.standard_normal((300, 2))
    models = {
        "kernel PCA, 300 points": KernelPCA(2, kernel="rbf", gamma=10.0).fit(X),
        "6 points": SparseKernelPCA(2, n_support=6, gamma=10.0, random_state=0).fit(X),
    }
    rows = []
    for name, model in models.items():
        found = KMeans(3, n_init=10, random_state=0).fit_predict(model.transform(X))
        rows.append((name, float(adjusted_rand_score(truth, found)), float(model.explained_variance_ratio_.sum())))
    report.table(("model", "adjusted Rand index of 3-means on two PCs", "explained variance"), rows)
    contour_panels(report, X, models, "clusters", "Two components split three clusters")


def contour_panels(report: Report, X: np.ndarray, models: dict[str, Any], name: str, caption: str) -> None:
    figure, axes = plt.subplots(2, len(models), figsize=(4.6 * len(models), 8), squeeze=False, layout="constrained")
    for column, (title, model) in enumerate(models.items()):
        for component in range(2):
            ax = plots.contours(model, X, component, ax=axes[component, column])
            ax.set_title(f"{title}: PC{component + 1}")
    report.picture(figure, name, caption)


def digits(report: Report) -> None:
    report.text("## 8 x 8 digits: logistic regression on 1 .. 60 components")
    data = load_digits()
    accuracy: dict[str, np.ndarray] = {}
    raw = []
    for seed in SEEDS:
        split = train_test_split(data.data / 16, data.target, test_size=1 / 3, random_state=seed, stratify=data.target)
        raw.append(classify(*split))
        for name, model in feature_extractors(seed).items():
            features = model.fit_transform(split[0]), model.transform(split[1])
            curve = [classify(features[0][:, :k], features[1][:, :k], *split[2:]) for k in COMPONENTS]
            accuracy[name] = accuracy.get(name, 0.0) + np.array(curve) / len(SEEDS)
    report.table(
        ("features", *(str(k) for k in COMPONENTS)),
        [(name, *(float(v) for v in curve)) for name, curve in accuracy.items()],
    )
    best = {name: float(curve.max()) for name, curve in accuracy.items()}
    report.text(
        f"Raw pixels: {np.mean(raw):.4f}. Best over the number of components: "
        + ", ".join(f"{name} {value:.4f}" for name, value in best.items())
        + f". Means over {len(SEEDS)} stratified splits; test accuracy."
    )
    accuracy_picture(report, accuracy, float(np.mean(raw)))


def feature_extractors(seed: int) -> dict[str, Any]:
    n = max(COMPONENTS)
    return {
        "PCA": PCA(n),
        "kernel PCA, all rows": KernelPCA(n, kernel="rbf", gamma="median"),
        "kernelsieve, 120 points": SparseKernelPCA(n, n_support=120, random_state=seed),
    }


def classify(train: np.ndarray, test: np.ndarray, train_labels: np.ndarray, test_labels: np.ndarray) -> float:
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    return float(model.fit(train, train_labels).score(test, test_labels))


def accuracy_picture(report: Report, accuracy: dict[str, np.ndarray], raw: float) -> None:
    figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for (name, curve), color, marker in zip(accuracy.items(), plots.COLORS, "sov", strict=False):
        ax.plot(COMPONENTS, curve, marker=marker, ms=4, color=color, label=name)
    ax.axhline(raw, color="0.4", ls="--", lw=1, label="raw pixels (64)")
    ax.set(xlabel="number of components", ylabel="test accuracy", title="Logistic regression on digits", ylim=(0.84, 1))
    ax.grid(alpha=0.3)
    ax.legend()
    report.picture(figure, "digits", "Test accuracy against number of components")
