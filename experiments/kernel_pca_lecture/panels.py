"""Components as functions of the plane: a curve and three clusters; and three algorithms for one result."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from kernelsieve import KernelPCA, SparseKernelPCA

from ..datasets import three_clusters
from ..report import Report, span

SEEDS = range(10)
POLYNOMIAL = {"kernel": "poly", "degree": 2, "gamma": 1.0, "coef0": 1.0}
EXACT, FEW = "kernel PCA, all rows", "6 points"
ALIKE = 0.9  # correlation from which on a component counts as the quantity


# A curve


def curve(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """300 rows near a parabola, and the place of each along it."""
    rng = np.random.default_rng(seed)
    place = rng.uniform(-1, 1, 300)
    return np.column_stack([place, place**2]) + 0.03 * rng.standard_normal((300, 2)), place


def curve_models(X: np.ndarray) -> dict[str, Any]:
    return {
        "PCA": PCA(2).fit(X),
        EXACT: KernelPCA(2, **POLYNOMIAL).fit(X),
        FEW: SparseKernelPCA(2, n_support=6, random_state=0, **POLYNOMIAL).fit(X),
    }


def arc_length(place: np.ndarray) -> np.ndarray:
    """Of y = x^2 from its centre, with the sign of x."""
    return place * np.sqrt(1 + 4 * place**2) / 2 + np.arcsinh(2 * place) / 4


def spread_at_the_ends(model: Any) -> float:
    """How far apart PC1 puts two points near an end of the curve, over two as far from each other in its middle."""
    places = np.array([0.8, 1.0, -0.1, 0.1])
    scores = model.transform(np.column_stack([places, places**2]))[:, 0]
    lengths = arc_length(places)
    ends, middle = (abs((scores[i + 1] - scores[i]) / (lengths[i + 1] - lengths[i])) for i in (0, 2))
    return float(ends / middle)


def parabola(report: Report) -> None:
    report.text("## A curve, polynomial kernel of degree 2")
    seeds = report.some(SEEDS, 2)
    found: dict[str, list[tuple[float, float, float]]] = {}
    for seed in seeds:
        X, place = curve(seed)
        for name, model in curve_models(X).items():
            scores = model.transform(X)
            along = abs(np.corrcoef(scores[:, 0], arc_length(place))[0, 1])
            across = abs(np.corrcoef(scores[:, 1], arc_length(place) ** 2)[0, 1])
            found.setdefault(name, []).append((float(along), float(across), spread_at_the_ends(model)))
    columns = {name: list(zip(*values, strict=True)) for name, values in found.items()}
    report.table(
        ("model", "PC1: correlation with the place", "PC2: with its square", "spread at the ends over the middle"),
        [(name, *(span(values) for values in column)) for name, column in columns.items()],
    )
    report.text(
        f"Places are lengths along the curve from its centre; {len(seeds)} seeds. Where the curve rises faster than it "
        "runs (y = 2.1 x^2 and more) neither PCA's nor kernel PCA's first component is the place: both arms fall on "
        "the same scores."
    )
    X, place = curve(0)
    contour_panels(report, X, curve_models(X), "parabola", "The curve's components as functions of the plane")
    pca, exact = columns["PCA"], columns[EXACT]
    tried = f"{len(seeds)} seeds"
    report.verdict(
        "slides 4-6",
        "PCA cannot capture the curvature: points at the ends are put close together",
        found=f"PC1 spreads the ends {span(pca[2])} times as wide as the middle, at equal length along the curve",
        holds=[value < 1 for value in pca[2]],
        tried=tried,
    )
    report.verdict(
        "example, slide 14",
        "polynomial kernel: those points are further apart",
        found=f"kernel PCA's PC1 spreads them {span(exact[2])} times as wide as the middle",
        holds=[ours > 1.2 * plain for ours, plain in zip(exact[2], pca[2], strict=True)],
        tried=tried,
    )
    claims = (
        ("14", "PC1 corresponds to the location along the curve", "correlation {}; PCA has {} as well"),
        ("15", "PC2 corresponds to the distance from the centre", "correlation with the squared length {}; PCA {}"),
    )
    for (slide, claim, found_as), ours, plain in zip(claims, exact, pca, strict=False):
        holds = [value > ALIKE for value in ours]
        report.verdict(
            f"example, slide {slide}", claim, found=found_as.format(span(ours), span(plain)), holds=holds, tried=tried
        )


def contour_panels(report: Report, X: np.ndarray, models: dict[str, Any], name: str, caption: str) -> None:
    """Components over the plane, one model a column; the rows coloured by their scores."""
    shape = 2, len(models)
    figure, axes = plt.subplots(
        *shape, figsize=(4.1 * shape[1] + 0.6, 7.4), sharex=True, sharey=True, layout="constrained"
    )
    low, high = X.min(axis=0), X.max(axis=0)
    margin = 0.1 * (high - low)
    across, up = (np.linspace(a, b, 101) for a, b in zip(low - margin, high + margin, strict=True))
    grid = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
    for column, (title, model) in enumerate(models.items()):
        over_plane, of_rows = model.transform(grid), model.transform(X)
        for k, ax in enumerate(axes[:, column]):
            sign = np.sign(np.corrcoef(of_rows[:, k], X[:, 0] if k == 0 else X[:, 1])[0, 1])
            surface, largest = sign * over_plane[:, k].reshape(101, 101), np.abs(of_rows[:, k]).max()
            levels = np.linspace(-1, 1, 16)
            ax.contour(across, up, surface / largest, levels=levels, colors="0.55", linewidths=0.8, linestyles="dashed")
            drawn = ax.scatter(*X.T, s=16, c=sign * of_rows[:, k] / largest, cmap="PuOr_r", vmin=-1, vmax=1)
            drawn.set(edgecolors="0.35", linewidths=0.3)
            if hasattr(model, "support_vectors_") and model.n_support_ < len(X):
                points = model.support_vectors_
                ax.scatter(*points.T, s=70, facecolors="none", edgecolors="black", linewidths=1.5, zorder=4)
            ax.set_title(f"{title}: PC{k + 1}")
    for ax in axes[:, 0]:
        ax.set_ylabel("x2")
    for ax in axes[-1]:
        ax.set_xlabel("x1")
    figure.colorbar(drawn, ax=axes, label="score / largest |score|", shrink=0.6)
    report.picture(figure, name, f"{caption}: contours dashed, rows coloured by score, support points circled")


# Feature map with SVD, with PCA, and the kernel trick


def three_algorithms(report: Report) -> None:
    report.text("## Feature map + SVD, feature map + PCA, kernel trick")
    rows, differences = [], []
    for seed in report.some(SEEDS, 2):
        X, _ = curve(seed)
        x, y = X.T
        root = np.sqrt(2)
        features = np.column_stack([np.ones(len(X)), root * x, root * y, x**2, y**2, root * x * y])
        centred = features - features.mean(axis=0)
        U, S, _ = np.linalg.svd(centred, full_matrices=False)
        vectors = np.linalg.eigh(centred.T @ centred / len(X))[1]
        kernel = KernelPCA(2, **POLYNOMIAL).fit_transform(X)
        found = {
            "feature map + SVD: Z = U S": U[:, :2] * S[:2],
            "feature map + PCA: eigenvectors of the 6 x 6 covariance": centred @ vectors[:, ::-1][:, :2],
            "kernel PCA: eigenvectors of the 300 x 300 gram": kernel,
        }
        signs = [np.sign(np.sum(scores * kernel, axis=0)) for scores in found.values()]
        gaps = [np.abs(s * z - kernel).max() for s, z in zip(signs, found.values(), strict=True)]
        differences.append(float(max(gaps)))
        if seed == 0:
            rows = [
                (name, *(f"{v:.6f}" for v in np.var(scores, axis=0)), f"{gap:.0e}")
                for (name, scores), gap in zip(found.items(), gaps, strict=True)
            ]
    report.table(("algorithm", "variance of PC1", "variance of PC2", "largest difference of a score"), rows)
    report.text(
        "phi(x) = (1, sqrt2 x1, sqrt2 x2, x1^2, x2^2, sqrt2 x1 x2), for which phi(x)'phi(y) = (x'y + 1)^2. The "
        "slides' SVD algorithm does not say that phi(X) must be centred first: it must, or its Z are not the others'."
    )
    report.agreement(
        "algorithms, slides 8-13",
        "PCA of the covariance in feature space and of the centred kernel matrix are equivalent",
        "scores of both, and of the SVD of the centred feature map, agree",
        differences,
        1e-9,
    )


# Clusters


def clusters(report: Report) -> None:
    report.text("## Three clusters, RBF kernel")
    seeds, truth = report.some(SEEDS, 2), np.repeat(np.arange(3), 100)
    indices: dict[str, list[float]] = {}
    explained: dict[str, list[float]] = {}
    for seed in seeds:
        X = three_clusters(seed, 100)
        models = {
            EXACT: KernelPCA(2, kernel="rbf", gamma=10.0).fit(X),
            FEW: SparseKernelPCA(2, n_support=6, gamma=10.0, random_state=0).fit(X),
        }
        for name, model in models.items():
            split = KMeans(3, n_init=10, random_state=0).fit_predict(model.transform(X))
            indices.setdefault(name, []).append(float(adjusted_rand_score(truth, split)))
            explained.setdefault(name, []).append(float(model.explained_variance_ratio_.sum()))
        if seed == 0:
            contour_panels(report, X, {"PCA": PCA(2).fit(X), **models}, "clusters", "Three clusters")
    report.table(
        ("model", "adjusted Rand index of 3-means on two PCs", "explained variance"),
        [(name, span(values), span(explained[name])) for name, values in indices.items()],
    )
    report.verdict(
        "RBF kernel, slides 16-17",
        "the first two PCs split the data into three clusters",
        found=f"adjusted Rand index of 3-means on them {span(indices[EXACT])}; with 6 points {span(indices[FEW])}",
        holds=[value > ALIKE for value in indices[EXACT]],
        tried=f"{len(seeds)} seeds",
    )
