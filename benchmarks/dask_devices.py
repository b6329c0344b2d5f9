"""Dask rows on the workers' devices, against the same rows in one array.

python -m benchmarks.dask_devices [device [rows]]      needs torch and dask; with distributed, a worker process too

One GPU shows that the chunks' sums come out the same and what handing them over costs; workers with a GPU each
(dask_cuda.LocalCUDACluster) run the same lines.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec

import dask
import dask.array as da
import numpy as np
import torch

from kernelsieve import SparseKernelPCA

from .report import Report
from .timing import race

FEATURES, CHUNKS = 64, 8
OPTIONS = {"n_components": 20, "n_support": 200, "gamma": 0.005, "random_state": 0}


@contextmanager
def scheduler(name: str) -> Iterator[None]:
    """Threads of this process, or a cluster of one worker process."""
    if name != "cluster":
        with dask.config.set(scheduler=name):
            yield
        return
    from distributed import Client, LocalCluster

    local = LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None)
    with local as cluster, Client(cluster):
        yield


def on_device(X: np.ndarray, device: str) -> da.Array:
    """The rows in chunks that are on the device already."""
    parts = np.array_split(X, CHUNKS)
    kept = [dask.delayed(torch.as_tensor(part, device=device), pure=False, traverse=False) for part in parts]
    return da.concatenate([da.from_delayed(k, p.shape, p.dtype) for k, p in zip(kept, parts, strict=True)])


def main(device: str, n_rows: int) -> None:
    report = Report()
    report.section(
        f"Dask on {device}", f"{n_rows:,} x {FEATURES} float32, {CHUNKS} chunks, m = 200; best of 3, in turns."
    )
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((n_rows, 8)) @ rng.standard_normal((8, FEATURES))).astype(np.float32)
    expected = SparseKernelPCA(**OPTIONS, device=device).fit(X)
    chunked = da.from_array(X, chunks=(n_rows // CHUNKS, FEATURES))
    names = ["synchronous", "threads"] + ["cluster"] * (find_spec("distributed") is not None)
    for name in names:
        with scheduler(name):
            model = SparseKernelPCA(**OPTIONS, device=device)
            contestants = {"array": partial(model.fit, X), "dask": partial(model.fit, chunked)}
            if name != "cluster":
                contestants["in place"] = partial(model.fit, on_device(X, device))
            times = race(contestants, 3)
            found = SparseKernelPCA(**OPTIONS, device=device).fit(chunked)
            scores = found.transform(chunked[: n_rows // CHUNKS]).compute()
        off = np.abs(found.eigenvalues_ / expected.eigenvalues_ - 1).max()
        note = " (" + "; ".join(f"{key} {seconds:.2f} s" for key, seconds in times.items()) + ")"
        report.at_most(f"{name}: time / one array", times["dask"] / times["array"], 3.0, "{:.2f}x", note)
        report.at_most(f"{name}: eigenvalues off by", float(off), 1e-4, "{:.1e}")
        theirs = expected.transform(X[: n_rows // CHUNKS])
        report.at_most(f"{name}: scores off by", float(np.abs(scores - theirs).max()), 1e-3, "{:.1e}")


if __name__ == "__main__":
    given = dict(enumerate(sys.argv))
    main(given.get(1, "cuda"), int(given.get(2, 2_000_000)))
