"""Dask on one machine: processes against threads of one process and against IncrementalPCA, and what a chunk costs.

A section of `python -m benchmarks.flow dask`; needs dask[distributed].
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import IncrementalPCA

from kernelsieve import SparseKernelPCA

from .report import Report
from .timing import race

FEATURES = 64
CHUNKS = (16, 64, 256)  # of all rows
OPTIONS: dict[str, Any] = {"n_components": 20, "n_support": 200, "gamma": 0.005, "random_state": 0}


def rows_of(number: int, n_rows: int) -> np.ndarray:
    """The rows of one part, near an eight-dimensional subspace."""
    mixing = np.random.default_rng(0).standard_normal((8, FEATURES)).astype(np.float32)
    rng = np.random.default_rng([1, number])
    return rng.standard_normal((n_rows, 8), dtype=np.float32) @ mixing + 0.3 * rng.standard_normal(
        (n_rows, FEATURES), dtype=np.float32
    )


def chunked(n_rows: int, n_chunks: int) -> Any:
    """The rows as a dask array whose chunks are made where they are needed."""
    import dask
    import dask.array as da

    size = n_rows // n_chunks
    parts = [dask.delayed(rows_of)(number, size) for number in range(n_chunks)]
    return da.concatenate([da.from_delayed(part, (size, FEATURES), np.float32) for part in parts])


def write_parquet(folder: str, n_rows: int, n_files: int) -> None:
    """The rows in Parquet files, one for each chunk."""
    import pyarrow as pa
    from pyarrow import parquet

    for number in range(n_files):
        columns = np.ascontiguousarray(rows_of(number, n_rows // n_files).T)
        table = pa.table({f"x{j:02}": column for j, column in enumerate(columns)})
        parquet.write_table(table, Path(folder, f"{number:03}.parquet"))


def from_parquet(report: Report, n_rows: int, expected: np.ndarray, one: float) -> None:
    """Files read by the workers, twice, against the same files read by one process."""
    import dask.dataframe
    import pyarrow.dataset

    model = SparseKernelPCA(**OPTIONS)
    with tempfile.TemporaryDirectory() as folder:
        write_parquet(folder, n_rows, 64)
        sources = {
            "processes": dask.dataframe.read_parquet(folder),
            "one process": pyarrow.dataset.dataset(folder),
        }
        seconds = race({name: lambda rows=rows: model.fit(rows) for name, rows in sources.items()}, 1)
        off = float(np.abs(model.fit(sources["processes"]).eigenvalues_ / expected - 1).max())
    words = f"{seconds['processes']:.2f} s, in one process {seconds['one process']:.2f} s, in memory {one:.2f} s"
    report.line("from 64 Parquet files", "", f"{words}; eigenvalues off by {off:.0e}", None)


def against_threads(report: Report, n_rows: int) -> None:
    """The table of docs/scale.md."""
    from distributed import Client, LocalCluster, wait

    n_workers = len(os.sched_getaffinity(0))
    report.section("Dask", f"{n_rows:,} x {FEATURES} float32, m = 200, {n_workers} processes; best of 2.")
    X = np.concatenate([rows_of(number, n_rows // 64) for number in range(64)])
    model = SparseKernelPCA(**OPTIONS)
    one = race({"": lambda: model.fit(X)}, 2)[""]
    report.line(f"one process, {n_workers} threads", "", f"{one:.2f} s", None)

    def incremental() -> None:
        pca = IncrementalPCA(20)
        for part in np.array_split(X, 64):
            pca.partial_fit(part)

    report.line("IncrementalPCA(20), 64 chunks", "", f"{race({'': incremental}, 1)['']:.2f} s", None)
    expected, X = model.eigenvalues_, X[:0]
    local = LocalCluster(n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None)
    with local as cluster, Client(cluster) as client:
        client.run(lambda: __import__("kernelsieve").SparseKernelPCA)
        for n_chunks in CHUNKS:
            rows = chunked(n_rows, n_chunks).persist()
            wait(rows)
            seconds = race({"": lambda rows=rows: model.fit(rows)}, 2)[""]
            what = f"{n_workers} processes, {n_chunks} chunks, persisted / threads of one process"
            note = f" ({seconds:.2f} s)"
            report.at_most(what, seconds / one, 1.3, "{:.2f}x", note)
            if n_chunks == 64:
                off = float(np.abs(model.eigenvalues_ / expected - 1).max())
                report.at_most("eigenvalues, off by", off, 1e-3, "{:.0e}")
        lazy = chunked(n_rows, 64)
        report.line("chunks made anew on each pass", "", f"{race({'': lambda: model.fit(lazy)}, 1)['']:.2f} s", None)
        from_parquet(report, n_rows, expected, one)
        rows = chunked(n_rows, 64).persist()
        wait(rows)
        victim = next(iter(cluster.workers.values()))
        killer = threading.Timer(0.5 * seconds, lambda: os.kill(victim.pid, signal.SIGKILL))
        start = time.perf_counter()
        killer.start()
        model.fit(rows)
        took = time.perf_counter() - start
        off = float(np.abs(model.eigenvalues_ / expected - 1).max())
        report.line("a worker is killed in the middle", "", f"{took:.2f} s, eigenvalues off by {off:.0e}", None)
