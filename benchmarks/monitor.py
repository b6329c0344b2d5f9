"""KernelMonitor: what statistics, contributions and gradients cost beside a transform, and a million rows."""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.decomposition import KernelPCA as SklearnKernelPCA

from kernelsieve import KernelMonitor, SparseKernelPCA

from .report import Report
from .timing import race

N_VARIABLES, N_SUPPORT, N_COMPONENTS = 52, 50, 10


def plant(n_rows: int, seed: int = 0) -> np.ndarray:
    """Correlated sensors, as many as Tennessee Eastman has."""
    mixing = np.random.default_rng(1).standard_normal((12, N_VARIABLES))
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n_rows, 12)) @ mixing + 0.5 * rng.standard_normal((n_rows, N_VARIABLES))


def statistics_speed(report: Report) -> None:
    report.section(
        "Monitor: statistics and contributions",
        "100,000 x 52 rows, m = 50, M = 10, whitened; exact is scikit-learn's KernelPCA on 500 rows, transform alone.",
    )
    train, rows = plant(500), plant(100_000, seed=1)
    monitor = KernelMonitor(N_COMPONENTS, N_SUPPORT, whiten=True, random_state=0).fit(train)
    prepared = monitor.input_map_(rows)
    gamma = monitor.estimator_.gamma_
    exact = SklearnKernelPCA(N_COMPONENTS, kernel="rbf", gamma=gamma, eigen_solver="arpack")
    exact.fit(monitor.input_map_(train))
    times = race(
        {
            "transform": partial(monitor.estimator_.transform, prepared),
            "statistics": partial(monitor.statistics, rows),
            "contributions": partial(monitor.contributions, rows),
            "exact": partial(exact.transform, prepared),
        },
        5,
    )
    told = {name: f" ({seconds * 1000:.0f} ms)" for name, seconds in times.items()}
    report.at_most(
        "statistics / transform", times["statistics"] / times["transform"], 3.0, "{:.2f}x", told["statistics"]
    )
    report.at_most(
        "contributions / statistics",
        times["contributions"] / times["statistics"],
        3.0,
        "{:.2f}x",
        told["contributions"],
    )
    report.at_least("exact KernelPCA / statistics", times["exact"] / times["statistics"], 8.0, "{:.1f}x", told["exact"])


def gradient_cost(report: Report) -> None:
    report.section(
        "Interpretation: gradients",
        "10,000 x 52 rows, m = 50: kernel values computed, and time, against one transform.",
    )
    rows = plant(10_000)
    model = SparseKernelPCA(5, n_support=N_SUPPORT, random_state=0).fit(rows)
    counted = {name: kernel_values(model, work, rows) for name, work in gradient_work(model, rows).items()}
    times = race(gradient_work(model, rows), 5)
    for name in ("input_gradient", "sensitivity"):
        values = counted[name] / counted["transform"]
        report.at_most(f"{name}: kernel values / transform's", values, 1.0, "{:.2f}x")
        report.line(
            f"{name} of 5 components: time / transform's", "a few", f"{times[name] / times['transform']:.1f}x", None
        )


def gradient_work(model: SparseKernelPCA, rows: np.ndarray) -> dict[str, partial]:
    return {
        "transform": partial(model.transform, rows),
        "input_gradient": partial(model.input_gradient, rows),
        "sensitivity": partial(model.sensitivity, rows),
    }


def kernel_values(model: SparseKernelPCA, work: partial, rows: np.ndarray) -> int:
    """Kernel values that `work` computes, counted where they are made."""
    kernel, counts = type(model.expansion_.kernel), []
    bind = kernel.bind

    def counting(self, points):
        cross_gram = bind(self, points)

        def counted(block):
            counts.append(block.shape[0] * points.shape[0])
            return cross_gram(block)

        return counted

    kernel.bind = counting
    try:
        work()
    finally:
        kernel.bind = bind
    return sum(counts)


def million_rows(report: Report) -> None:
    report.section("Monitor: a million rows", "1,000,000 x 20 float32, M = 10, m = 50: against SparseKernelPCA's fit.")
    rows = plant(1_000_000)[:, :20].astype(np.float32)
    times = race(
        {
            "plain": partial(SparseKernelPCA(N_COMPONENTS, n_support=N_SUPPORT, random_state=0).fit, rows),
            "monitor": partial(KernelMonitor(N_COMPONENTS, N_SUPPORT, random_state=0).fit, rows),
        },
        3,
    )
    note = f" ({times['monitor']:.2f} s, {times['plain']:.2f} s)"
    report.at_most("fit / SparseKernelPCA's fit", times["monitor"] / times["plain"], 3.0, "{:.2f}x", note)
