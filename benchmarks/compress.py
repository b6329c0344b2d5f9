"""compress: a scikit-learn KernelPCA of 5,000 rows on 50 points."""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.decomposition import KernelPCA as SklearnKernelPCA

from experiments.datasets import median_gamma, usps
from kernelsieve import CompressedKernelPCA, compress

from .report import Report
from .timing import race

N_ROWS, N_SUPPORT, M = 5000, 50, 10
SEEDS = range(5)
# Relative error of the scores, by gamma as a multiple of the median rule's.
TARGETS = {1: 0.01, 10: 0.08}


def score_error(model: SklearnKernelPCA, small: CompressedKernelPCA, rows: np.ndarray) -> tuple[float, float]:
    """|z - z'| / |z - mean z| of all components together, and of the worst one."""
    scores = model.transform(rows)
    squares = np.sum((scores - small.transform(rows)) ** 2, axis=0)
    variation = np.sum((scores - scores.mean(axis=0)) ** 2, axis=0)
    return float(np.sqrt(squares.sum() / variation.sum())), float(np.sqrt(squares / variation).max())


def compressed_scores(report: Report) -> None:
    report.section(
        "Compress",
        f"scikit-learn's KernelPCA of the first {N_ROWS} USPS training rows, {M} components, on {N_SUPPORT} points. "
        "Error: |z - z'| / |z - mean z| of all components together, on the held-out rows; mean of 5 random_states. "
        "Default settings; removal, for comparison, keeps rows of the model.",
    )
    data = usps()
    train = data.train[:N_ROWS]
    for multiple, target in TARGETS.items():
        gamma = multiple * median_gamma(train)
        model = SklearnKernelPCA(M, kernel="rbf", gamma=gamma, eigen_solver="arpack", random_state=0).fit(train)
        found = [compress(model, N_SUPPORT, random_state=seed) for seed in SEEDS]
        held_out = [score_error(model, small, data.test) for small in found]
        seen = np.mean([small.compression_["total_error"] for small in found])
        rows, _ = score_error(model, compress(model, N_SUPPORT, method="removal", random_state=0), data.test)
        worst = max(component for _, component in held_out)
        note = f" (training rows {seen:.4f}; worst component {worst:.4f}; removal {rows:.4f})"
        width = "median width" if multiple == 1 else f"{multiple} x gamma"
        total = float(np.mean([error for error, _ in held_out]))
        report.at_most(f"{width}: scores' relative error", total, target, "{:.4f}", note)
        times = race({"compress": partial(compress, model, N_SUPPORT, random_state=0)}, 3)
        report.at_most(f"{width}: time to compress", times["compress"], 5.0, "{:.2f} s")
        times = race(
            {"small": partial(found[0].transform, data.train), "large": partial(model.transform, data.train)}, 5
        )
        note = f" ({len(data.train)} rows: {times['small'] * 1e3:.1f} ms against {times['large'] * 1e3:.0f} ms)"
        report.at_least(f"{width}: transform faster", times["large"] / times["small"], 50.0, "{:.0f}x", note)
