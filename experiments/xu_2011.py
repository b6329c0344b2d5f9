"""Xu et al. (2011), Evaluate dissimilarity of samples in feature space for improving KPCA: ESKPCA, and IKPCA beside it.

    Table 8       shares of the leading eigenvalues: comes out to the printed digit
    Tables 2-7    errors of the nearest neighbour on the features: by the paper's protocol, and by an honest one
    Figs. 1-3     a toy set, kernel PCA of it, and ESKPCA with 30 % of its rows as nodes
    Table 1       what choosing nodes costs, measured
    frontier      what the tables hide: the variance that every choice of rows really captures

sigma^2 is the squared largest eigenvalue of the covariance of the first training subset, not its Frobenius norm as
printed: with that norm Table 8 misses by up to 44 points.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import scipy.linalg
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from kernelsieve import DissimilarityKernelPCA, ImprovedKernelPCA, KernelPCA, SparseKernelPCA, plots
from kernelsieve.kernels import RBF
from kernelsieve.selection.distances import dissimilar_nodes
from kernelsieve.selection.gain import LargestGain
from kernelsieve.selection.gram import Gram, KernelGram
from kernelsieve.selection.rpcholesky import randomly_pivoted_cholesky
from kernelsieve.solvers.greedy import best_for_targets, greedy, worst_explained
from kernelsieve.threads import one_blas_thread

from .datasets import MissingData, Realisations, ida, thyroid
from .report import Report

METHODS = ("naive KPCA", "ESKPCA", "IKPCA")

# Table 8: nodes of ESKPCA and of IKPCA, then the three shares of naive KPCA, ESKPCA and IKPCA.  Two slips of the paper:
# German/ESKPCA has 56 nodes, not 75, and Cancer/IKPCA 40, not 56.
TABLE_8 = {
    "image": ((95, 95), (78.32, 93.09, 97.44), (96.49, 99.77, 99.97), (78.42, 93.20, 97.55)),
    "breast_cancer": ((56, 40), (26.62, 51.36, 65.36), (61.62, 86.05, 93.88), (32.11, 61.46, 77.53)),
    "heart": ((40, 40), (31.80, 52.31, 65.06), (78.56, 92.11, 96.65), (39.92, 64.84, 79.21)),
    "banana": ((40, 40), (45.15, 89.80, 98.25), (54.51, 98.02, 99.97), (45.18, 89.84, 98.29)),
    "thyroid": ((20, 20), (76.32, 92.53, 97.57), (89.68, 99.07, 99.93), (76.96, 93.24, 98.15)),
    "german": ((56, 75), (11.21, 20.55, 28.28), (50.89, 61.73, 70.07), (24.13, 42.95, 57.73)),
}

# Tables 2-7: mean errors (%) of naive KPCA, ESKPCA and IKPCA for each number of features.
ERRORS = {
    "image": {95: (1.31, 1.44, 5.24), 85: (1.31, 1.15, 5.85), 75: (1.35, 1.19, 5.13), 65: (1.35, 1.31, 4.23)},
    "breast_cancer": {
        56: (8.53, 8.78, 8.75),
        48: (9.01, 8.78, 9.44),
        40: (9.82, 9.58, 8.97),
        32: (10.17, 8.44, 9.70),
        24: (10.17, 8.08, 9.82),
    },
    "heart": {
        40: (7.26, 8.78, 9.15),
        35: (8.03, 8.15, 10.05),
        30: (8.03, 8.96, 9.42),
        25: (8.03, 8.70, 9.15),
        20: (7.35, 8.69, 10.09),
    },
    "banana": {
        40: (13.80, 13.80, 13.92),
        30: (13.80, 13.68, 13.51),
        20: (13.8, 13.87, 13.48),
        10: (13.7, 13.87, 13.69),
    },
    "thyroid": {20: (0.99, 1.44, 1.95), 15: (0.99, 0.51, 2.29), 10: (0.99, 0.99, 1.47)},
    "german": {
        75: (9.00, 8.33, 10.13),
        65: (9.50, 9.09, 9.89),
        55: (9.46, 8.07, 10.91),
        45: (9.26, 8.43, 10.35),
        35: (9.38, 9.67, 10.39),
        25: (9.64, 9.78, 9.80),
    },
}
N_SUBSETS = {"image": 20}  # of the benchmark; 100 for the others
THYROID_TRAIN, THYROID_SPLITS = 140, 10  # rows of its training subsets; splits of our own, for none are to be had

N_COMPONENTS = 10
SIZES = (12, 20, 35, 60, 100)
SEEDS = range(3)
LEAST_MISSING, CEILING = 1e-4, 99.99  # the pictures end there


def run(report: Report) -> None:
    """All of it; data sets whose files are missing are named and left out."""
    report.text("# ESKPCA and IKPCA: Xu et al. (2011)")
    sets = available(report)
    figures_1_to_3(report)
    if sets:
        table_8(report, sets)
        tables_2_to_7(report, sets)
        frontier(report, sets)
    table_1(report)


def available(report: Report) -> dict[str, Realisations]:
    """The data sets whose files are there."""
    sets = {}
    for name in TABLE_8:
        try:
            sets[name] = simulated_thyroid() if name == "thyroid" else ida(name)
        except MissingData as missing:
            report.text(f"Left out: {name}, which needs {missing}.")
    return sets


def simulated_thyroid() -> Realisations:
    rows, labels = thyroid()
    splits = [
        train_test_split(np.arange(len(rows)), train_size=THYROID_TRAIN, random_state=seed)
        for seed in range(THYROID_SPLITS)
    ]
    train, test = (np.array(part) for part in zip(*splits, strict=True))
    return Realisations("thyroid", rows, labels, train, test)


def published_gamma(rows: np.ndarray) -> float:
    """1/(2 sigma^2), sigma the largest eigenvalue of the covariance."""
    return float(1 / (2 * np.linalg.eigvalsh(np.cov(rows.T))[-1] ** 2))


# Table 8


def table_8(report: Report, sets: dict[str, Realisations]) -> None:
    report.text("## Table 8: share of the first, first five and first ten eigenvalues, in percent")
    lines, worst = [], 0.0
    for name, data in sets.items():
        nodes, *printed = TABLE_8[name]
        found = eigenvalue_shares(data.train_rows(0), nodes)
        for method, shares, measured in zip(METHODS, printed, found, strict=True):
            deviation = float(np.abs(measured - shares).max())
            worst = worst if name == "thyroid" else max(worst, deviation)
            lines.append(
                (name, method, " ".join(f"{s:.2f}" for s in shares), " ".join(f"{m:.3f}" for m in measured), deviation)
            )
    report.table(("set", "method", "printed", "measured", "largest deviation"), lines)
    report.text(
        f"Largest deviation where the paper's subset is to be had: {worst:.4f}. Thyroid is a split of our own. The "
        "shares compare differently normalised eigenvalues: those of K for naive KPCA, of K'K'^T (which are squares) "
        "for ESKPCA, of (K_SS + 0.001 I)^-1 K'K'^T for IKPCA. That ESKPCA's are larger says nothing about the variance "
        "it captures."
    )


def eigenvalue_shares(X: np.ndarray, nodes: tuple[int, int]) -> list[np.ndarray]:
    gamma = published_gamma(X)
    models = (
        KernelPCA(len(X), kernel="rbf", gamma=gamma, center=False, eigen_solver="dense"),
        DissimilarityKernelPCA(nodes[0], n_nodes=nodes[0], gamma=gamma),
        ImprovedKernelPCA(nodes[1], n_nodes=nodes[1], gamma=gamma),
    )
    spectra = [model.fit(X).eigenvalues_ for model in models]
    return [100 * np.cumsum(values)[[0, 4, 9]] / values.sum() for values in spectra]


# Tables 2-7


def extractors(n_features: int, gamma: float) -> tuple[Any, ...]:
    return (
        KernelPCA(n_features, kernel="rbf", gamma=gamma, center=False),
        DissimilarityKernelPCA(n_features, n_nodes=n_features, gamma=gamma),
        ImprovedKernelPCA(n_features, n_nodes=n_features, gamma=gamma),
    )


def wrong(features: np.ndarray, labels: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Whether the nearest training row has another label, for every row."""
    nearest = KNeighborsClassifier(1, algorithm="brute").fit(features[train], labels[train])
    return nearest.predict(features) != labels


def paper_error(mistakes: np.ndarray, data: Realisations) -> float:
    """Expected mean error (%) over all test subsets: the first is known, the others are random rows of the set."""
    n_subsets = N_SUBSETS.get(data.name, 100)
    return float(100 * ((1 - 1 / n_subsets) * mistakes.mean() + mistakes[data.test[0]].mean() / n_subsets))


def honest_errors(data: Realisations, n_features: int) -> list[float]:
    """Mean errors (%) on test rows that were not trained on, over the realisations: each method, then the rows."""
    errors = []
    for train, test in zip(data.train, data.test, strict=True):
        X = data.rows[train]
        features = [model.fit(X).transform(data.rows) for model in extractors(n_features, published_gamma(X))]
        errors.append([wrong(f, data.labels, train)[test].mean() for f in (*features, data.rows)])
    return [float(e) for e in 100 * np.mean(errors, axis=0)]


def rescaled(model: ImprovedKernelPCA, features: np.ndarray) -> dict[str, np.ndarray]:
    """IKPCA's features in all four scalings that the paper's wording allows."""
    roots = np.sqrt(model.eigenvalues_)
    lengths = np.linalg.norm(model.dual_coef_ * roots, axis=0)
    return {
        "unit components, / sqrt(lambda)": features,
        "unit components": features * roots,
        "unit coefficients, / sqrt(lambda)": features / lengths,
        "unit coefficients": features * roots / lengths,
    }


def tables_2_to_7(report: Report, sets: dict[str, Realisations]) -> None:
    report.text(
        "## Tables 2-7: errors of the nearest neighbour, in percent\n\nThe paper trains on the first subset and tests "
        "on all test subsets, which hold rows of that training subset, whose nearest neighbour is themselves. Of the "
        "other subsets only nine can be had, so the mean over all of them is computed as an expectation: R subsets, "
        "the first known, the others random rows. Printed -> measured."
    )
    lines, deviations, scalings = [], [], []
    for name, data in sets.items():
        X, train = data.train_rows(0), data.train[0]
        for n_features, printed in ERRORS[name].items():
            models = extractors(n_features, published_gamma(X))
            features = [model.fit(X).transform(data.rows) for model in models]
            measured = [paper_error(wrong(f, data.labels, train), data) for f in features]
            lines.append((name, n_features, *(f"{p:.2f} -> {m:.2f}" for p, m in zip(printed, measured, strict=True))))
            if name != "thyroid":
                deviations.append(np.abs(np.subtract(measured, printed)))
                forms = rescaled(models[2], features[2])
                errors = {form: paper_error(wrong(f, data.labels, train), data) for form, f in forms.items()}
                scalings.append({form: abs(error - printed[2]) for form, error in errors.items()})
    report.table(("set", "features", *METHODS), lines)
    naive, dissimilar, improved = np.mean(deviations, axis=0)
    report.text(
        f"Mean deviation without thyroid (splits of our own): naive KPCA {naive:.2f}, ESKPCA {dissimilar:.2f}, IKPCA "
        f"{improved:.2f} points. IKPCA's printed errors come out under none of the scalings that the wording allows:"
    )
    report.table(
        ("IKPCA's features", "mean deviation", "largest"),
        [(form, float(np.mean([s[form] for s in scalings])), max(s[form] for s in scalings)) for form in scalings[0]],
    )
    report.text("Honest: test rows apart from the training rows, mean over ten realisations, the most features.")
    report.table(
        ("set", "features", *METHODS, "the rows themselves"),
        [(name, max(ERRORS[name]), *honest_errors(data, max(ERRORS[name]))) for name, data in sets.items()],
    )


# Figs. 1-3


def figures_1_to_3(report: Report) -> None:
    report.text("## Figs. 1-3: a toy set of two classes")
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 100)
    ring = np.column_stack([np.cos(angle), np.sin(angle)]) * (2 + 0.15 * rng.standard_normal((100, 1)))
    X = np.vstack([ring, 0.5 * rng.standard_normal((100, 2))])
    labels = np.repeat([0, 1], 100)
    naive = KernelPCA(2, kernel="rbf", gamma=0.5, center=False).fit(X)
    sparse = DissimilarityKernelPCA(2, n_nodes=0.3, gamma=0.5, whiten=False).fit(X)
    panels = {
        "Fig. 1: the rows": X,
        "Fig. 2: naive KPCA": naive.transform(X),
        f"Fig. 3: ESKPCA, {sparse.n_support_} of 200 nodes": sparse.transform(X),
    }
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    for ax, (title, points) in zip(axes, panels.items(), strict=True):
        for label, marker in ((0, "o"), (1, "s")):
            color, rows = plots.COLORS[label], points[labels == label]
            ax.scatter(*rows.T, s=14, marker=marker, color=color, label=f"class {label}")
        if points is X:
            ax.scatter(*sparse.support_vectors_.T, s=60, facecolors="none", edgecolors="0.3", label="nodes")
            ax.set(xlabel="x1", ylabel="x2", aspect="equal", ylim=(-3.2, 2.5))
            ax.legend(loc="lower center", ncols=3)
        else:
            ax.set(xlabel="feature 1", ylabel="feature 2")
        ax.set_title(title)
    report.picture(figure, "toy", "Two classes, their first two features by naive KPCA and by ESKPCA")


# Table 1


@dataclass(frozen=True)
class Cost:
    """A way of choosing nodes, what the paper says it costs, and where to measure it."""

    name: str
    printed: str
    choose: Callable[[np.ndarray, int], Any]  # (rows, number of nodes)
    n_rows: tuple[int, ...]
    n_nodes: tuple[int, ...]

    def exponents(self) -> tuple[float, float, float]:
        """(of N, of s, seconds at the largest of both): fitted on log time, the other held at its largest."""
        rows = {N: np.random.default_rng(0).standard_normal((N, 5)) for N in self.n_rows}
        largest = self.n_rows[-1], self.n_nodes[-1]
        over_rows = [self._seconds(rows[N], largest[1]) for N in self.n_rows]
        over_nodes = [self._seconds(rows[largest[0]], s) for s in self.n_nodes[:-1]] + over_rows[-1:]
        fit_rows = np.polyfit(np.log(self.n_rows), np.log(over_rows), 1)[0]
        fit_nodes = np.polyfit(np.log(self.n_nodes), np.log(over_nodes), 1)[0] if len(self.n_nodes) > 1 else np.nan
        return float(fit_rows), float(fit_nodes), over_rows[-1]

    def _seconds(self, X: np.ndarray, n_nodes: int) -> float:
        best = np.inf
        with one_blas_thread():
            for _ in range(3):
                start = time.perf_counter()
                self.choose(X, n_nodes)
                best = min(best, time.perf_counter() - start)
        return best


KERNEL = RBF(0.1)


def by_columns(rule: Callable[[KernelGram, int], Any]) -> Callable[[np.ndarray, int], Any]:
    return lambda X, s: rule(KernelGram(KERNEL, X), s)


def by_gain(ridge: float, divided: bool) -> Callable[[np.ndarray, int], Any]:
    def choose(X: np.ndarray, s: int) -> Any:
        gram = rbf_kernel(X, gamma=KERNEL.gamma)
        rule = LargestGain(gram, None, ridge, divided)
        return greedy(lambda j: gram[:, j], np.diagonal(gram), s, rule, ridge=ridge)

    return choose


def literal_improved(X: np.ndarray, s: int) -> list[int]:
    """IKPCA as the paper words it: for every candidate the eigenvalues are computed afresh."""
    gram, nodes = rbf_kernel(X, gamma=KERNEL.gamma), []
    for _ in range(s):
        scores = np.full(len(X), -np.inf)
        for i in np.setdiff1d(np.arange(len(X)), nodes):
            tried = [*nodes, i]
            inner = gram[np.ix_(tried, tried)] + 1e-3 * np.eye(len(tried))
            scores[i] = scipy.linalg.eigh(gram[tried] @ gram[tried].T, inner, eigvals_only=True).sum()
        nodes.append(int(np.argmax(scores)))
    return nodes


def targeted(gram: Gram, s: int) -> Any:
    targets = gram.columns(np.arange(N_COMPONENTS))  # any will do for the time it takes
    return greedy(gram.column, gram.diagonal, s, best_for_targets, targets=targets)


COSTS = (
    Cost(
        "naive KPCA: all eigenvectors",
        "N^3",
        lambda X, s: scipy.linalg.eigh(rbf_kernel(X, gamma=KERNEL.gamma)),
        (400, 800, 1600),
        (1,),
    ),
    Cost("SKFA, by followed norms", "s^2 N^2", by_gain(0.0, False), (500, 1000, 2000), (40, 80, 160)),
    Cost("AKFA (gain), by followed norms", "s N^2", by_gain(0.0, True), (500, 1000, 2000), (40, 80, 160)),
    Cost("IKPCA as worded", "(N - s) s^2 N", literal_improved, (100, 200, 400), (4, 8, 16)),
    Cost("IKPCA, by followed norms", "(N - s) s^2 N", by_gain(1e-3, True), (500, 1000, 2000), (40, 80, 160)),
    Cost(
        "Franc & Hlavac (residual)",
        "s^3 N",
        by_columns(lambda gram, s: greedy(gram.column, gram.diagonal, s, worst_explained)),
        (5000, 10_000, 20_000),
        (50, 100, 200),
    ),
    Cost(
        "ESKPCA (dissimilar)",
        "s N kernel values; s^2 N in all",
        by_columns(lambda gram, s: dissimilar_nodes(gram, s, None, mean=True)),
        (10_000, 20_000, 40_000),
        (25, 50, 100),
    ),
    Cost(
        "rpcholesky, in blocks",
        "",
        by_columns(lambda gram, s: randomly_pivoted_cholesky(gram, s, np.random.default_rng(0))),
        (5000, 10_000, 20_000),
        (50, 100, 200),
    ),
    Cost("targeted, targets given", "", by_columns(targeted), (5000, 10_000, 20_000), (50, 100, 200)),
)


def table_1(report: Report) -> None:
    report.text(
        "## Table 1: what choosing s of N nodes costs\n\nTime, one thread, best of three, fitted as N^a at the largest "
        "s and as s^b at the largest N; 5 features. Followed norms keep |R_.i|^2 up to date, so that neither SKFA nor "
        "IKPCA costs what the paper says; IKPCA as worded is out of reach beyond sizes at which its many small "
        "matrices cost more to call for than to compute, which is why its exponents are still low."
    )
    lines = []
    for cost in COSTS:
        a, b, seconds = cost.exponents()
        where = f"N = {cost.n_rows[-1]}" + (f", s = {cost.n_nodes[-1]}" if len(cost.n_nodes) > 1 else "")
        fitted = f"N^{a:.2f}" + (f" s^{b:.2f}" if len(cost.n_nodes) > 1 else "")
        lines.append((cost.name, cost.printed, fitted, f"{1e3 * seconds:.0f} ms", where))
    report.table(("method", "printed", "measured", "time", "at"), lines)


# The frontier


RANDOM = {"rpcholesky", "leverage", "uniform", "kmeans", "optimized"}
RULES: dict[str, dict[str, Any]] = {
    "optimized": {"selection": "optimized"},
    "kmeans": {"selection": "kmeans"},
    "targeted + swaps": {"selection": "targeted", "n_swaps": 50},
    "targeted": {"selection": "targeted"},
    "gain (SGMA, AKFA)": {"selection": "gain"},
    "improved (IKPCA)": {"selection": "improved"},
    "skfa": {"selection": "skfa"},
    "rpcholesky": {"selection": "rpcholesky"},
    "leverage": {"selection": "leverage"},
    "uniform": {"selection": "uniform"},
    "residual (Franc)": {"selection": "residual"},
    "farthest": {"selection": "farthest"},
    "dissimilar (ESKPCA)": {"selection": "dissimilar"},
}


def frontier(report: Report, sets: dict[str, Realisations]) -> None:
    report.text(
        f"## What the tables hide: captured variance\n\nVariance along the components / exact kernel PCA's, "
        f"{N_COMPONENTS} components, centred, median width, first training subset; the same optimal refit on whatever "
        f"points a rule chooses; random rules averaged over {len(SEEDS)} seeds."
    )
    curves = {name: captured_curves(data.train_rows(0)) for name, data in sets.items()}
    for name, curve in curves.items():
        frontier_picture(report, name, curve)
    report.table(
        ("rule", *(f"m = {m}" for m in SIZES)),
        [
            (rule, *(f"{100 * np.mean([curve[rule][i] for curve in curves.values()]):.1f}" for i in range(len(SIZES))))
            for rule in RULES
        ],
    )
    report.text(
        "Mean over the sets, in percent. The sum of distances seeks outliers: on the mean ESKPCA's nodes capture "
        "less than rows drawn blindly, `targeted` is the choice where rows are wanted, and `optimized` where points "
        "may be anywhere; swapped rows get ahead of points moved by the default steps, by more than 0.1 % "
        f"somewhere, on: {', '.join(name for name, curve in curves.items() if overtakes(curve)) or 'no set'}."
    )


def overtakes(curve: dict[str, list[float]]) -> bool:
    return bool(np.any(np.subtract(curve["targeted + swaps"], curve["optimized"]) > 1e-3))


def captured_curves(X: np.ndarray) -> dict[str, list[float]]:
    return {rule: [captured(X, m, rule) for m in SIZES] for rule in RULES}


def captured(X: np.ndarray, n_support: int, rule: str) -> float:
    seeds = SEEDS if RULES[rule]["selection"] in RANDOM else SEEDS[:1]
    models = [SparseKernelPCA(N_COMPONENTS, n_support=n_support, random_state=seed, **RULES[rule]) for seed in seeds]
    return float(np.mean([model.fit(X).captured_ratio_ for model in models]))


def frontier_picture(report: Report, name: str, curve: dict[str, list[float]]) -> None:
    figure, ax = plt.subplots(figsize=(8.5, 5), layout="constrained")
    for i, (rule, ratios) in enumerate(curve.items()):
        style = {"ls": "-" if i < len(plots.COLORS) else "--", "marker": plots.MARKERS[i % len(plots.MARKERS)], "ms": 5}
        missing = np.maximum(1 - np.array(ratios), LEAST_MISSING)
        ax.plot(SIZES, missing, color=plots.COLORS[i % len(plots.COLORS)], label=rule, **style)
    ax.set(xscale="log", yscale="log", xlabel="support points m", ylabel="captured / exact kernel PCA (%)")
    ax.invert_yaxis()
    ax.set_xticks(SIZES, [str(m) for m in SIZES])
    most, least = ax.get_ylim()
    ticks = [t for t in (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 5e-3, 2e-3, 1e-3, LEAST_MISSING) if least <= t <= most]
    ax.set_yticks(ticks, [f"{100 * (1 - t):.4g}" for t in ticks])
    ax.minorticks_off()
    ax.grid(alpha=0.3)
    ax.set_title(f"{name}: captured variance against number of points")
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=9)
    report.picture(
        figure, f"frontier_{name}", f"Captured variance on {name}, every rule; {CEILING} % stands for more too"
    )
