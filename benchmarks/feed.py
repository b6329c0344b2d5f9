"""What it costs to feed sixteen threads with blocks, on a machine of any size: work on the rows is replaced by a sleep.

Threads that sleep need no cores, so only what is serial is left to take time: reading, copying, handing out and
combining.  The checks of the rows are made, and are the one thing that more cores would make faster.

A section of `python -m benchmarks.flow feed`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

from kernelsieve import SparseKernelPCA
from kernelsieve.fit.moments import MomentSum
from kernelsieve.rows.rows import ArrayRows
from kernelsieve.rows.sources import stream_of
from kernelsieve.rows.streams import StreamRows

from .report import Report
from .timing import race

THREADS = 16
FEATURES = 64
ROW_SECONDS = 1.9e-6  # what a row takes one thread of the machine with 16 cores: moments pass with 200 points, float32
SCORE_SECONDS = 0.6e-6  # the same for transform


class SleepingKernel:
    """A kernel whose values are zeros, after a sleep for every row."""

    precomputed, stationary = False, True

    def bind(self, points: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        def cross_gram(rows: np.ndarray) -> np.ndarray:
            time.sleep(ROW_SECONDS * len(rows))
            return np.zeros((len(rows), len(points)), dtype=rows.dtype)

        return cross_gram

    def diagonal(self, rows: np.ndarray) -> np.ndarray:
        return np.ones(len(rows))


class SleepingSum(MomentSum):
    """Moments over one point, in blocks as for 200."""

    width = 400  # type: ignore[assignment]


def sleeping_model(n_jobs: int) -> SparseKernelPCA:
    asleep = False

    def kernel(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        if asleep:
            time.sleep(SCORE_SECONDS * len(X))
            return np.zeros((len(X), len(Y)), dtype=X.dtype)
        return np.exp(-0.01 * ((X[:, None] - Y[None]) ** 2).sum(axis=2))

    rows = np.random.default_rng(0).standard_normal((200, FEATURES), dtype=np.float32)
    model = SparseKernelPCA(2, kernel=kernel, selection=np.arange(20), n_support=20, n_jobs=n_jobs).fit(rows)
    asleep = True
    return model


def slowly(blocks: list[np.ndarray], pause: float) -> Iterator[np.ndarray]:
    for block in blocks:
        time.sleep(pause)
        yield block


def feed(report: Report, n_rows: int, n_blocks: int) -> None:
    block_rows = n_rows // n_blocks
    what = f"{n_rows:,} x {FEATURES} float32 in blocks of {block_rows:,} rows, {THREADS} threads that sleep; best of 2"
    report.section("Feeding blocks to threads", what)
    X = np.ones((n_rows, FEATURES), dtype=np.float32)
    blocks = [X[start : start + block_rows] for start in range(0, n_rows, block_rows)]
    ideal = n_rows * ROW_SECONDS / THREADS
    work: Any = SleepingSum(SleepingKernel(), X[:1], np.ones((1, 1)))  # type: ignore[arg-type]
    sources: dict[str, Any] = {
        "list": blocks,
        "function": lambda: iter(blocks),
        "function as slow as the work": lambda: slowly(blocks, ideal / n_blocks),
    }

    def rows_of(source: Any) -> Any:
        return ArrayRows(source) if source is X else StreamRows(stream_of(source), n_threads=THREADS)

    with mock.patch("kernelsieve.threads._available_cores", return_value=THREADS):
        calls = {name: lambda s=s: rows_of(s).add_up(work, THREADS) for name, s in {"one": X, **sources}.items()}
        compare(report, "moments pass", race(calls, 2))
        model = sleeping_model(THREADS)
        kinds = {"one": X, "list": blocks, "function": sources["function"]}
        calls = {name: lambda s=s: used_up(model.transform(s)) for name, s in kinds.items()}
        compare(report, "transform", race(calls, 2))


def used_up(values: Any) -> None:
    if isinstance(values, Iterator):
        for _ in values:
            pass


def compare(report: Report, what: str, times: dict[str, float]) -> None:
    for name, seconds in list(times.items())[1:]:
        note = f" ({seconds:.3f} s; one {times['one']:.3f} s)"
        report.at_most(f"{what}, {name} / one array", seconds / times["one"], 1.15, "{:.2f}x", note)
