"""SparseKernelPCA over threads: passes, whole fits and large numbers of points, against one thread and the peers.

python -m benchmarks.scaling             threads 1, 2, 4, 8, 16 as far as there are cores; meant for 16
python -m benchmarks.scaling --small     a tenth of the rows
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from kernelsieve import SparseKernelPCA
from kernelsieve.fit.moments import MomentSum, gram_of
from kernelsieve.spectrum.whitening import whiten

from .report import Report

FEATURES, COMPONENTS = 64, 20
SIZES = (50, 200, 500, 1000)


def rows(n_rows: int, seed: int = 0) -> np.ndarray:
    """Rows near an eight-dimensional subspace, float32, made piece by piece."""
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((8, FEATURES)).astype(np.float32)
    out = np.empty((n_rows, FEATURES), dtype=np.float32)
    for start in range(0, n_rows, 500_000):
        part = out[start : start + 500_000]
        rng.standard_normal(dtype=np.float32, out=part)
        part *= 0.3
        part += rng.standard_normal((len(part), 8), dtype=np.float32) @ mixing
    return out


def threads() -> list[int]:
    """1, 2, 4, 8, 16, as far as there are cores."""
    cores = len(os.sched_getaffinity(0))
    return [n for n in (1, 2, 4, 8, 16) if n <= cores]


def best(function: Callable[[], Any], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def over_threads(work: Callable[[int], Any], repeats: int = 3) -> dict[int, float]:
    """Best seconds for each number of threads, the numbers alternating."""
    counts = threads()
    seconds = dict.fromkeys(counts, np.inf)
    for _ in range(repeats):
        for n in counts:
            seconds[n] = min(seconds[n], best(lambda n=n: work(n), 1))
    return seconds


def report_line(report: Report, what: str, seconds: dict[int, float], target: float | None) -> None:
    """Times by threads, and how many times faster the most threads are."""
    most = max(seconds)
    note = " (" + " / ".join(f"{n}: {s:.3f} s" for n, s in seconds.items()) + ")"
    slower = [n for n, m in zip(list(seconds)[1:], seconds, strict=False) if seconds[n] > 1.05 * seconds[m]]
    note += f" slower with {slower}" if slower else ""
    ratio = seconds[1] / seconds[most]
    if target is None or most < 16:
        report.line(f"{what}: {most} threads / 1", "", f"{ratio:.1f}x{note}", None)
    else:
        report.at_least(f"{what}: {most} threads / 1", ratio, target, "{:.1f}x", note)


def moment_sum(model: SparseKernelPCA) -> MomentSum:
    """The pass over rows of a fitted model."""
    kernel, points = model.expansion_.kernel, model.expansion_.points
    return MomentSum(kernel, points, whiten(gram_of(kernel, points), 1e-6).matrix)


def of_processes(n_processes: int, n_rows: int) -> float:
    """Seconds of a moments pass that so many processes, each with rows of its own and one thread, make side by side.

    They share nothing: no threads of one process can be quicker than so many times one of them.
    """
    context = multiprocessing.get_context("spawn")
    barrier, seconds = context.Barrier(n_processes), context.SimpleQueue()
    workers = [context.Process(target=_one_process, args=(n_rows, barrier, seconds)) for _ in range(n_processes)]
    for worker in workers:
        worker.start()
    times = [seconds.get() for _ in workers]
    for worker in workers:
        worker.join()
    return float(np.max(times, axis=0).min())


def _one_process(n_rows: int, barrier: Any, seconds: Any) -> None:
    X, times = rows(n_rows), []
    with threadpool_limits(1):
        model = SparseKernelPCA(COMPONENTS, n_support=200, selection="targeted", random_state=0).fit(X[:5000])
        work = moment_sum(model)
        for _ in range(6):
            barrier.wait()
            times.append(best(lambda: work.over(X, None, 1), 1))
    seconds.put(times)


def passes(report: Report, n_rows: int) -> None:
    report.section("Passes over rows", f"{n_rows:,} x {FEATURES} float32, m = 200, M = {COMPONENTS}; best of 3.")
    most = max(threads())
    alone, together = (of_processes(n, n_rows // 80) for n in (1, most))
    note = f" ({alone:.3f} s, {most} at once {together:.3f} s): no number of threads can do more"
    report.line(f"{most} processes that share nothing / 1", "", f"{most * alone / together:.1f}x{note}", None)
    X = rows(n_rows)
    model = SparseKernelPCA(COMPONENTS, n_support=200, random_state=0).fit(X[:100_000])
    work, fifth = moment_sum(model), X[: n_rows // 5]
    report_line(report, "moments pass of a fifth", over_threads(lambda n: work.over(fifth, None, n)), 11)
    report_line(report, "transform", over_threads(lambda n: model.expansion_.transform(X, n)), 10)
    report_line(report, "whole fit", over_threads(lambda n: fit(X, 200, n), 2), 9)


def fit(X: np.ndarray, n_support: int, n_jobs: int) -> SparseKernelPCA:
    return SparseKernelPCA(COMPONENTS, n_support=n_support, random_state=0, n_jobs=n_jobs).fit(X)


def many_points(report: Report, n_rows: int) -> None:
    report.section("Many points", f"Whole fit of {n_rows:,} x {FEATURES} float32; best of 3.")
    X = rows(n_rows)
    for m in SIZES:
        seconds = over_threads(lambda n, m=m: fit(X, m, n))
        report_line(report, f"m = {m}", seconds, None)
        if m == 1000 and n_rows == 100_000:
            for n, target in ((2, 6.0), (16, 1.2)):
                if n in seconds:
                    report.at_most(f"m = 1000, {n} threads", seconds[n], target, "{:.2f} s")


def peers(report: Report, n_rows: int) -> None:
    most = max(threads())
    report.section("Against PCA", f"{n_rows:,} x 784 float32 like MNIST, m = 50, M = 10, {most} threads; best of 5.")
    rng = np.random.default_rng(0)
    X = np.maximum(rng.standard_normal((n_rows, 30)) @ rng.standard_normal((30, 784)), 0.0).astype(np.float32)
    ours, pca, nystroem = np.inf, np.inf, np.inf
    gamma = SparseKernelPCA(10, n_support=50, random_state=0).fit(X[:5000]).gamma_
    for _ in range(5):
        ours = min(ours, best(lambda: SparseKernelPCA(10, n_support=50, random_state=0, n_jobs=most).fit(X), 1))
        with threadpool_limits(most):
            pca = min(pca, best(lambda: PCA(10, random_state=0).fit(X), 1))
            both = make_pipeline(Nystroem(gamma=gamma, n_components=50, random_state=0), PCA(10, random_state=0))
            nystroem = min(nystroem, best(partial(both.fit, X), 1))
    for name, other in (("PCA(10)", pca), ("Nystroem + PCA", nystroem)):
        note = f" ({ours:.3f} s; {other:.3f} s)"
        if most < 16:
            report.line(f"fit / {name}", "", f"{ours / other:.2f}x{note}", None)
        else:
            report.at_most(f"fit / {name}", ours / other, 0.6, "{:.2f}x", note)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a tenth of the rows")
    small = parser.parse_args().small
    warnings.simplefilter("ignore")
    report = Report()
    print(f"{max(threads())} threads of {os.cpu_count()} cores, numpy {np.__version__}")
    peers(report, 6_000 if small else 60_000)
    many_points(report, 10_000 if small else 100_000)
    passes(report, 10**6 if small else 10**7)
    print(f"\n{report.missed} line(s) missed" if report.missed else "\nall lines reached")


if __name__ == "__main__":
    main()
