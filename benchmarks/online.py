"""Streams: where partial_fit ends, how it follows drift, what it costs, and that the size of calls does not matter."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from experiments.datasets import median_gamma, mnist, usps
from experiments.streams import captured, in_both_orders, labelled, turning_usps
from kernelsieve import KernelPCA, SparseKernelPCA

from .report import Report
from .timing import in_new_process

M, POINTS = 10, 50


def model(gamma: float | str, n_kept: int = 2000, **options: Any) -> SparseKernelPCA:
    return SparseKernelPCA(M, n_support=POINTS, gamma=gamma, n_optimization_samples=n_kept, random_state=0, **options)


def fed(followed: SparseKernelPCA, rows: np.ndarray, first: int = 100, step: int = 100) -> SparseKernelPCA:
    """After the rows have gone by, the first call of `first` rows and the others of `step`."""
    for block in np.split(rows, [first, *range(first + step, len(rows), step)]):
        followed.partial_fit(block)
    return followed


def streams(report: Report) -> None:
    report.section(
        "Streams", "partial_fit, 100 rows a call, 2000 rows kept: held-out captured variance / exact kernel PCA's."
    )
    targets = {"USPS": {"shuffled": 0.992, "sorted": 0.991}, "MNIST-7000": {"shuffled": 0.989, "sorted": 0.988}}
    for name, wanted in targets.items():
        data, labels = labelled(name)
        gamma = median_gamma(data.train)
        exact = captured(KernelPCA(M, kernel="rbf", gamma=gamma, eigen_solver="arpack").fit(data.train), data.test)
        batch = captured(SparseKernelPCA(M, n_support=POINTS, gamma=gamma, random_state=0).fit(data.train), data.test)
        for order, rows in in_both_orders(data, labels).items():
            followed = fed(model(gamma), rows)
            before = captured(followed, data.test) / exact
            note = f" (before refresh {before:.4f}; batch {batch / exact:.4f})"
            report.at_least(
                f"{name}, {order}, after refresh",
                captured(followed.refresh(), data.test) / exact,
                wanted[order],
                note=note,
            )


def drift(report: Report) -> None:
    report.section(
        "Drift", "USPS turning from 0 to 120 degrees; against exact kernel PCA of the moment, 7 checkpoints."
    )
    stream = turning_usps(M)
    followed, start = model(stream.gamma, 500, half_life=250), 0
    ratios, batch = [], []
    for place, held_out, exact in zip(stream.places, stream.held_out, stream.exact, strict=True):
        fed(followed, stream.rows[start:place])
        last = SparseKernelPCA(M, n_support=POINTS, gamma=stream.gamma, random_state=0)
        last.fit(stream.rows[max(0, place - 1000) : place])
        start = place
        ratios.append(captured(followed, held_out) / exact)
        batch.append(captured(last, held_out) / exact)
    note = f" (batch on the last 1000 rows {np.mean(batch):.4f})"
    report.at_least("half_life = 250, 500 rows kept, mean of 7", float(np.mean(ratios)), 0.93, note=note)


def cuts(report: Report) -> None:
    report.section("The size of calls", "USPS, shuffled, 2000 rows kept, gamma='median' settled by the stream.")
    data, labels = labelled("USPS")
    rows = in_both_orders(data, labels)["shuffled"]
    ends = []
    for first in (1, 100, 1000):
        followed = fed(model("median"), rows, first, 500)
        exact = KernelPCA(M, kernel="rbf", gamma=followed.gamma_, eigen_solver="arpack").fit(data.train[:3000])
        ends.append(captured(followed, data.test) / captured(exact, data.test))
    report.at_most("first call of 1, 100, 1000 rows: spread at the end", float(np.ptp(ends)), 0.002, "{:.5f}")
    points = rows[:POINTS] + 0.01
    gamma = median_gamma(rows)
    ages = np.arange(2000)[::-1]
    given = SparseKernelPCA(M, selection=points, gamma=gamma)
    batch = given.fit(rows[:2000], sample_weight=0.5 ** (ages / 300)).eigenvalues_
    worst = 0.0
    for step in (1, 7, 100, 2000):
        followed = SparseKernelPCA(M, selection=points, gamma=gamma, half_life=300)
        for start in range(0, 2000, step):
            followed.partial_fit(rows[start : min(start + step, 2000)])
        worst = max(worst, float(np.abs(followed.eigenvalues_ / batch - 1).max()))
    report.at_most("fixed points, calls of 1, 7, 100, 2000: off the weighted batch", worst, 1e-12, "{:.1e}")


def cost(report: Report) -> None:
    report.section("Cost of a call", "partial_fit / transform of the same rows, between two choices of points; USPS.")
    rows = usps().train
    for size, target in ((100, 2.5), (1, 7.0)):
        followed = model("median").partial_fit(rows[:3300])
        times: dict[str, list[float]] = {"partial_fit": [], "transform": []}
        for start in range(3300, 6300 if size > 1 else 4300, size):
            block = rows[start : start + size]
            began = time.perf_counter()
            followed.partial_fit(block)
            times["partial_fit"].append(time.perf_counter() - began)
            followed.transform(block)  # finds the components
            began = time.perf_counter()
            followed.transform(block)
            times["transform"].append(time.perf_counter() - began)
        ratio = float(np.median(times["partial_fit"]) / np.median(times["transform"]))
        note = f" ({1e6 * np.median(times['partial_fit']):.0f} us)"
        report.at_most(f"{size} row{'s' if size > 1 else ''} a call", ratio, target, "{:.2f}x", note)


LARGE_MEMORY = """
import resource, sys
import numpy as np
from kernelsieve import SparseKernelPCA
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
model = SparseKernelPCA(10, n_support=50, n_optimization_samples=2000, random_state=0)
rng = np.random.default_rng(0)
for n in range(200):
    model.partial_fit(rng.standard_normal((500, 256)))
    if n == 20:
        before = peak()
print(peak() - before)
"""


def large(report: Report) -> None:
    report.section(
        "A long stream", "MNIST-60000 in one pass of 500 rows a call, against a batch fit with those points."
    )
    data = mnist(60_000)
    gamma = median_gamma(data.train)
    batch = captured(SparseKernelPCA(M, n_support=POINTS, gamma=gamma, random_state=0).fit(data.train), data.test)
    followed = fed(SparseKernelPCA(M, n_support=POINTS, gamma=gamma, random_state=0), data.train, 500, 500)
    ratio = captured(followed, data.test) / batch
    report.at_least("captured / batch's", ratio, 0.995)
    grown = float(in_new_process(LARGE_MEMORY))
    report.at_most("memory grown between 10,000 and 100,000 rows, 2000 kept (4 MB)", grown, 24.0, "{:.0f} MB")
