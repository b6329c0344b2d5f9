"""Many rows: time, memory and rows a second from 10^4 to 10^7, files larger than memory, dask workers.

Sections of bench.py; they need pyarrow and dask[array,distributed].
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from .report import Report
from .timing import in_new_process

SIZES = (10**4, 10**5, 10**6, 10**7)
# Rows near a curved sheet, float32, ten features.
ROWS = """
import numpy as np, json, threading, time, warnings
warnings.simplefilter("ignore")
from kernelsieve import SparseKernelPCA
def rows(n, d=10, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    X = np.empty((n, d), dtype=dtype)
    mix = rng.standard_normal((3, d))
    for start in range(0, n, 10**6):
        part = slice(start, min(n, start + 10**6))
        X[part] = np.tanh(rng.standard_normal((part.stop - part.start, 3)) @ mix)
        X[part] += 0.1 * rng.standard_normal((part.stop - part.start, d))
    return X
def anonymous():
    return int(next(l for l in open("/proc/self/status") if l.startswith("RssAnon")).split()[1]) / 1024
class Peak:
    "The largest anonymous memory while it is open, beyond what there was before; the page cache does not count."
    def __enter__(self):
        self.before = self.most = anonymous()
        self.done = False
        self.thread = threading.Thread(target=self.watch); self.thread.start()
        return self
    def watch(self):
        while not self.done:
            self.most = max(self.most, anonymous()); time.sleep(0.005)
    def __exit__(self, *_):
        self.done = True
        self.thread.join()
        self.megabytes = self.most - self.before
def fit(X, m=100, **options):
    return SparseKernelPCA(10, n_support=m, random_state=0, **options).fit(X)
fit(rows(2000), 20)
"""


def sizes(report: Report) -> None:
    report.section("Rows", "d = 10, float32 in memory, m = 100, M = 10: whole fit, best of 3, a new process a size.")
    seconds = []
    for n_rows in SIZES:
        code = (
            ROWS
            + f"""
X = rows({n_rows})
best = 9e9
with Peak() as peak:
    for _ in range(3):
        start = time.perf_counter(); fit(X); best = min(best, time.perf_counter() - start)
print(json.dumps([best, peak.megabytes]))
"""
        )
        best, megabytes = json.loads(in_new_process(code))
        seconds.append(best)
        report.line(
            f"{n_rows:,} rows", "", f"{best:.3f} s, {megabytes:.0f} MB beyond them, {n_rows / best:,.0f} rows/s", None
        )
    chosen = np.array(SIZES) >= 10**5
    exponent = np.polyfit(np.log(np.array(SIZES)[chosen]), np.log(np.array(seconds)[chosen]), 1)[0]
    report.at_most("exponent of time in N, 10^5 to 10^7", float(exponent), 1.05, "{:.3f}")


def memmap(report: Report) -> None:
    report.section("A file larger than memory need be", "10,000,000 x 10 float32 in a .npy file of 400 MB, by memmap.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        in_new_process(ROWS + f"np.save({str(path)!r}, rows(10**7))")
        code = (
            ROWS
            + f"""
X = np.load({str(path)!r}, mmap_mode="r")
with Peak() as peak:
    start = time.perf_counter(); fit(X); seconds = time.perf_counter() - start
print(json.dumps([seconds, peak.megabytes]))
"""
        )
        seconds, megabytes = json.loads(in_new_process(code))
    report.at_most("memory beyond the page cache", megabytes, 500.0, "{:.0f} MB", f" ({seconds:.1f} s)")


def parquet(report: Report) -> None:
    limit = 100
    report.section("Parquet", f"A file of {5 * limit} MB of float64 rows, read in blocks of 25,000 rows.")
    n_rows = 5 * limit * 2**20 // 80
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        make = f"""
import pyarrow as pa, pyarrow.parquet as pq
X = rows({n_rows}, dtype=np.float64)
pq.write_table(pa.table({{f"c{{j}}": X[:, j] for j in range(10)}}), {str(path)!r}, row_group_size=100_000)
"""
        in_new_process(ROWS + make)
        code = (
            ROWS
            + f"""
import pyarrow.dataset
data = pyarrow.dataset.dataset({str(path)!r})
with Peak() as peak:
    start = time.perf_counter(); streamed = fit(data, batch_size=25_000); seconds = time.perf_counter() - start
X = data.to_table().to_pandas().to_numpy()
here = fit(X)
off = float(np.abs(streamed.transform(X[:1000]) - here.transform(X[:1000])).max())
print(json.dumps([seconds, peak.megabytes, off]))
"""
        )
        seconds, megabytes, off = json.loads(in_new_process(code))
    report.at_most("memory beyond the start", megabytes, float(limit), "{:.0f} MB", f" ({seconds:.1f} s)")
    report.at_most("scores, streamed and in memory, largest difference", off, 1e-8, "{:.0e}")


def workers(report: Report) -> None:
    import dask.array as da
    from dask.distributed import Client, LocalCluster, wait

    from kernelsieve import SparseKernelPCA

    report.section(
        "Dask", "1,000,000 x 32 float64 in 16 chunks, persisted on single-threaded processes; m = 200; best of 3."
    )
    model = SparseKernelPCA(10, n_support=200, gamma=0.01, random_state=0, n_jobs=1)
    X = np.random.default_rng(0).standard_normal((10**6, 32))
    times: dict[str, float] = {}
    times["memory"] = min(_seconds(lambda: model.fit(X)) for _ in range(3))
    scores = model.transform(X[:1000])
    for n_workers in (1, 2):
        with (
            LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster),
        ):
            rows = da.from_array(X, chunks=(62_500, 32)).persist()
            wait(rows)
            times[str(n_workers)] = min(_seconds(lambda rows=rows: model.fit(rows)) for _ in range(3))
            off = float(np.abs(model.transform(X[:1000]) - scores).max())
    note = f" ({times['1']:.2f} s and {times['2']:.2f} s)"
    report.at_least("two workers, times faster than one", times["1"] / times["2"], 1.5, "{:.2f}x", note)
    note = f" ({times['memory']:.2f} s in memory with one thread)"
    report.at_most("one worker / in memory", times["1"] / times["memory"], 1.5, "{:.2f}x", note)
    report.at_most("scores, dask and in memory, largest difference", off, 1e-8, "{:.0e}")


CHUNK_SECONDS, CHUNKS_PER_WORKER = 0.25, 8
NETWORK = 1e9  # bytes a second between two machines


def reduction(report: Report) -> None:
    """Workers that only wait stand in for machines; the moments that they hand on and add up are real."""
    report.section(
        "Reduction tree",
        f"Simulated cluster: k workers with {CHUNKS_PER_WORKER} chunks each, whose work is to wait {CHUNK_SECONDS} s; "
        "the moments (m = 200) that they add up are real, and each hand-over waits as its bytes would at 1 GB/s. Time "
        "with the tree over time without it.",
    )
    for n_workers in (4, 16, 64):
        alone = min(_seconds(lambda k=n_workers: _simulate(k, tree=False)) for _ in range(3))
        tree = min(_seconds(lambda k=n_workers: _simulate(k, tree=True)) for _ in range(3))
        note = f" ({tree:.2f} s and {alone:.2f} s; waiting alone takes {CHUNK_SECONDS * CHUNKS_PER_WORKER:.0f} s)"
        report.at_most(f"{n_workers} workers", tree / alone, 1.15, "{:.2f}x", note)


def _simulate(n_workers: int, *, tree: bool) -> None:
    import dask

    from kernelsieve.rows.dask import added_up

    parts = [dask.delayed(_waited, pure=False)(number) for number in range(CHUNKS_PER_WORKER * n_workers)]
    tasks = [added_up(parts)] if tree else parts
    dask.compute(*tasks, scheduler="threads", num_workers=n_workers)


def _waited(number: int) -> Any:
    from kernelsieve.fit.moments import Moments

    moments = Moments(np.eye(200), 1000.0, np.zeros(200), np.eye(200), 1000.0)
    time.sleep(CHUNK_SECONDS + (moments.scatter.nbytes + moments.whitening.nbytes) / NETWORK)
    return moments


def _seconds(function: Any) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
