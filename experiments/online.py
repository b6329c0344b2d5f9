"""Online kernel PCA: the published rules and `partial_fit`, on streams that are shuffled, sorted, and that turn.

    shuffled, sorted    one pass over digits and USPS; held-out captured variance over exact kernel PCA's at the end
    turning             USPS from 0 to 120 degrees; against exact kernel PCA of the moment, at seven checkpoints
    cost                points kept, and kernel evaluations a row, all choices of points included

Rules that know no forgetting are run without; the others with the half-life that partial_fit has.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from kernelsieve import KernelPCA, OnlineKernelPCA, SparseKernelPCA, plots
from kernelsieve.kernels import RBF

from .datasets import LabelledSplit, MissingData, Split, median_gamma
from .report import Report
from .streams import Turning, captured, in_both_orders, labelled, turning_usps

M, POINTS, BLOCK, HALF_LIFE = 10, 50, 100, 250
MOST_ROWS = 4000  # of a set: the kernel Hebbian rule takes its time
RULES: dict[str, dict[str, Any]] = {
    "coherence (Honeine 2012)": {"rule": "coherence", "budget": POINTS, "coherence": 0.7},
    "coherence, 300 points": {"rule": "coherence", "budget": 300, "coherence": 0.8},
    "hebbian (Kim et al. 2005), 300 points": {"rule": "hebbian", "budget": 300},
    "subset (Washizawa, Tanaka)": {"rule": "subset", "budget": POINTS, "coherence": 0.7},
    "subset, 300 points": {"rule": "subset", "budget": 300, "coherence": 0.8},
    "incremental (Chin & Suter 2007)": {"rule": "incremental", "budget": POINTS},
    "incremental, 150 points": {"rule": "incremental", "budget": 150, "rank": 40},
}


class Count:
    """Kernel evaluations so far."""

    evaluations = 0


@contextmanager
def counted() -> Iterator[Count]:
    """Count the evaluations of Gaussian kernels, whoever asks for them."""
    count, bind = Count(), RBF.bind

    def counting(self: RBF, points: Any) -> Any:
        cross_gram = bind(self, points)

        def wrapped(rows: Any) -> Any:
            count.evaluations += int(rows.shape[0]) * int(points.shape[0])
            return cross_gram(rows)

        return wrapped

    RBF.bind = counting  # type: ignore[method-assign,assignment]
    try:
        yield count
    finally:
        RBF.bind = bind  # type: ignore[method-assign]


def contestants(gamma: float, n_kept: int, half_life: float | None) -> dict[str, Any]:
    """Every rule, and partial_fit."""
    options: dict[str, Any] = {"gamma": gamma, "random_state": 0, "half_life": half_life}
    ours = SparseKernelPCA(M, n_support=POINTS, n_optimization_samples=n_kept, **options)
    rules = {name: OnlineKernelPCA(M, **rule, **options) for name, rule in RULES.items()}
    return {"SparseKernelPCA.partial_fit": ours} | rules


def feed(model: Any, rows: np.ndarray) -> None:
    for start in range(0, len(rows), BLOCK):
        model.partial_fit(rows[start : start + BLOCK])


def digits() -> LabelledSplit:
    data = load_digits()
    train, test, labels, test_labels = train_test_split(data.data / 16, data.target, test_size=1 / 3, random_state=0)
    return LabelledSplit("digits", train, test, labels, test_labels)


def one_pass(report: Report, data: Split, labels: np.ndarray) -> None:
    """Shuffled and sorted by class."""
    chosen = np.random.default_rng(0).permutation(len(data.train))[:MOST_ROWS]
    data, labels = Split(data.name, data.train[chosen], data.test), labels[chosen]
    gamma, n_kept = median_gamma(data.train), len(data.train) // 3
    exact = captured(KernelPCA(M, kernel="rbf", gamma=gamma, eigen_solver="arpack").fit(data.train), data.test)
    batch = SparseKernelPCA(M, n_support=POINTS, gamma=gamma, random_state=0).fit(data.train)
    ends: dict[str, list[Any]] = {"batch": [captured(batch, data.test) / exact] * 2 + [POINTS, ""]}
    refreshed = []
    for order, rows in in_both_orders(data, labels).items():
        for name, model in contestants(gamma, n_kept, None).items():
            with counted() as count:
                feed(model, rows)
            ends.setdefault(name, []).append(captured(model, data.test) / exact)
            if order == "sorted":
                cost = getattr(model, "n_evaluations_", count.evaluations) / len(rows)
                ends[name] += [model.n_support_, f"{cost:.0f}"]
            if isinstance(model, SparseKernelPCA):
                refreshed.append(captured(model.refresh(), data.test) / exact)
    ours = "SparseKernelPCA.partial_fit"
    first = {"batch": ends.pop("batch"), ours: ends.pop(ours), "... and refresh": [*refreshed, POINTS, ""]}
    report.text(f"## {data.name}: {len(data.train)} rows, {n_kept} kept by partial_fit\n")
    lines = [[name, *end] for name, end in (first | ends).items()]
    report.table(["", "shuffled", "sorted", "points", "evaluations a row"], lines)


def turning(report: Report, stream: Turning) -> None:
    """Captured share over time, while digits turn."""
    shares: dict[str, list[float]] = {}
    points: dict[str, int] = {}
    every = contestants(stream.gamma, 2 * HALF_LIFE, HALF_LIFE) | {
        "partial_fit that never forgets": contestants(stream.gamma, 2 * HALF_LIFE, None)["SparseKernelPCA.partial_fit"]
    }
    every["SparseKernelPCA.partial_fit"].set_params(record_drift=True)
    for name, model in every.items():
        start, shares[name] = 0, []
        for place, held_out, exact in zip(stream.places, stream.held_out, stream.exact, strict=True):
            feed(model, stream.rows[start:place])
            start = place
            shares[name].append(captured(model, held_out) / exact)
        points[name] = model.n_support_
    last = SparseKernelPCA(M, n_support=POINTS, gamma=stream.gamma, random_state=0)
    windows = zip(stream.places, stream.held_out, stream.exact, strict=True)
    shares["batch on the last 1000 rows"] = [
        captured(last.fit(stream.rows[max(0, place - 1000) : place]), held_out) / exact
        for place, held_out, exact in windows
    ]
    points["batch on the last 1000 rows"] = POINTS
    report.text(f"## USPS turning by 120 degrees, half-life {HALF_LIFE} rows, {2 * HALF_LIFE} kept\n")
    report.table(
        ["", "mean of 7", "worst", "points"],
        [[name, float(np.mean(s)), float(np.min(s)), points[name]] for name, s in shares.items()],
    )
    figure, ax = plt.subplots(figsize=(8, 4.5))
    for i, (name, share) in enumerate(shares.items()):
        ax.plot(stream.places, share, marker=plots.MARKERS[i], color=plots.COLORS[i], label=name, linewidth=1.3)
    ax.set(xlabel="rows so far", ylabel="captured, share of exact kernel PCA of the moment", ylim=(None, 1.0))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    report.picture(figure, "turning", "Captured share while the digits turn by 120 degrees")
    figure, ax = plt.subplots(figsize=(8, 3))
    plots.drift(every["SparseKernelPCA.partial_fit"], ax=ax)
    report.picture(figure, "drift", "How far partial_fit's components turn between two choices of points")


def run(report: Report) -> None:
    warnings.simplefilter("ignore")
    report.title("Online kernel PCA", "Held-out captured variance over exact kernel PCA's, 10 components.")
    small = digits()
    one_pass(report, small, small.train_labels)
    try:
        data, labels = labelled("USPS")
    except MissingData as missing:
        report.text(f"USPS skipped: needs {missing}.")
        return
    one_pass(report, data, labels)
    turning(report, turning_usps(M))
