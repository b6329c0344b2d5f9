"""Choosing points: kernel values counted, time and memory at 100,000 rows."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from kernelsieve.kernels import RBF, CallableKernel
from kernelsieve.rules.base import KernelGram
from kernelsieve.rules.distances import dissimilar_nodes
from kernelsieve.rules.residual import PROPOSALS, randomly_pivoted_cholesky
from kernelsieve.solvers.greedy import Residual, best_for_targets, greedy, worst_explained
from kernelsieve.threads import effective_n_threads, one_blas_thread

from .report import Report
from .timing import race

N, FEATURES = 100_000, 10
KERNEL = RBF(gamma=1 / (4 * FEATURES))  # about the median width of standard normal rows
N_TARGETS = 10


def rows() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((N, FEATURES))


def gram_of(X: np.ndarray) -> KernelGram:
    return KernelGram(KERNEL, X, effective_n_threads(None))


class Counter:
    """The kernel as a function that counts the values it gives."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        self.count += len(X) * len(Y)
        return KERNEL(X, Y)

    def diag(self, X: np.ndarray) -> np.ndarray:
        return np.ones(len(X))


def evaluations(X: np.ndarray, choose: Callable[[KernelGram], Any]) -> int:
    counter = Counter()
    with one_blas_thread():
        choose(KernelGram(CallableKernel(counter), X))
    return counter.count


def nodes(report: Report) -> None:
    s = 100
    report.section("Nodes of ESKPCA", f"{N:,} x {FEATURES} rows, {s} nodes, against KMeans({s}, n_init=1, max_iter=3).")
    X = rows()

    def choose(gram: KernelGram) -> None:
        dissimilar_nodes(gram, s, None, mean=True)

    def ours() -> None:
        with one_blas_thread():
            choose(gram_of(X))

    def peer() -> None:
        KMeans(s, n_init=1, max_iter=3, random_state=0).fit(X)

    report.at_most("kernel values / (N s)", evaluations(X, choose) / (N * s), 1.0, "{:.3f}")
    times = race({"ours": ours, "peer": peer}, 5)
    note = f" ({times['ours']:.2f} s; KMeans {times['peer']:.2f} s)"
    report.at_most("time / KMeans", times["ours"] / times["peer"], 1.0, "{:.2f}x", note)


def targeted(gram: KernelGram, m: int) -> Any:
    targets = np.random.default_rng(0).standard_normal((len(gram.rows), N_TARGETS))  # any cost the same
    return greedy(gram.column, gram.diagonal, m, best_for_targets, targets=targets)


RULES: dict[str, Callable[[KernelGram, int], Any]] = {
    "residual": lambda gram, m: greedy(gram.column, gram.diagonal, m, worst_explained),
    "rpcholesky": lambda gram, m: randomly_pivoted_cholesky(gram, m, np.random.default_rng(0)),
    "targeted": targeted,
}


def seconds(choose: Callable[[KernelGram, int], Any], X: np.ndarray, m: int) -> float:
    def run() -> None:
        with one_blas_thread():
            choose(gram_of(X), m)

    return race({"ours": run}, 2)["ours"]


def columns(report: Report) -> None:
    m = 200
    report.section(
        "Greedy rules by kernel columns",
        f"{N:,} x {FEATURES} rows. O(N m^2) time: twice the points in at most four times the time; O(N m) memory: at "
        f"most twice the factor's 8 N m bytes; kernel values beyond the N m of the columns are the small grams of "
        f"{PROPOSALS} proposals.",
    )
    X = rows()
    for name, choose in RULES.items():
        count = evaluations(X, lambda gram, choose=choose: choose(gram, m))
        report.at_most(f"{name}: kernel values / (N m), m = {m}", count / (N * m), 1.01, "{:.4f}")
        half, whole = seconds(choose, X, m // 2), seconds(choose, X, m)
        report.at_most(f"{name}: time m = {m} / m = {m // 2}", whole / half, 4.0, "{:.1f}x", f" ({whole:.2f} s)")
        tracemalloc.start()
        with one_blas_thread():
            choose(gram_of(X), m)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        report.at_most(f"{name}: peak memory / (8 N m)", peak / (8 * N * m), 2.0, "{:.2f}")


def by_residual(rng: np.random.Generator, state: Residual, eligible: np.ndarray) -> int:
    """A random row, with probability proportional to its residual."""
    cumulative = np.cumsum(state.diagonal[eligible])
    return int(eligible[np.searchsorted(cumulative, rng.random() * cumulative[-1])])


def blocks(report: Report) -> None:
    m = 500
    report.section(
        "Randomly pivoted Cholesky in blocks",
        f"{N:,} x {FEATURES} rows, m = {m}, the same threads, against drawing one row after another.",
    )
    X = rows()
    best = {"blocks": np.inf, "columns": np.inf}
    for _ in range(2):
        for name in best:
            gram, rng = gram_of(X), np.random.default_rng(0)
            start = time.perf_counter()
            with one_blas_thread():
                if name == "blocks":
                    randomly_pivoted_cholesky(gram, m, rng)
                else:
                    greedy(gram.column, gram.diagonal, m, partial(by_residual, rng))
            best[name] = min(best[name], time.perf_counter() - start)
    note = f" ({best['blocks']:.2f} s; {best['columns']:.2f} s)"
    report.at_least("times faster", best["columns"] / best["blocks"], 3.0, "{:.1f}x", note)
