"""Dask workers that die in the middle of a fit: the answer is the one that the rows in memory give."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import kernelsieve as ks

from .campaign import FAULT, OK, Attempt, Outcome
from .inputs import choose
from .models import rows_of

SAME = 1e-10
PAUSE = 0.03  # seconds that a chunk takes to come, so that a fit lasts long enough to be killed in


def _slowly(block: np.ndarray) -> np.ndarray:
    time.sleep(PAUSE)
    return block


@contextmanager
def session() -> Iterator[Attempt]:
    """A cluster of two processes; a worker that dies is started again."""
    import dask.array as da
    from distributed import Client, LocalCluster

    rows = rows_of(2000, 5)
    options = {"n_support": 10, "random_state": 0, "n_optimization_samples": 400}
    estimators = [
        ks.SparseKernelPCA(3, **options),
        ks.SparseKernelPCA(3, selection="targeted", **options),
        ks.LikelihoodKernelPCA(3, n_dictionary=40, random_state=0),
        ks.ElasticNetKernelPCA(3, n_nonzero=8, n_dictionary=40, random_state=0),
    ]
    with (
        warnings.catch_warnings(),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        warnings.simplefilter("ignore")
        client.run(lambda: __import__("kernelsieve").SparseKernelPCA)
        expected = [model.fit(rows).transform(rows) for model in estimators]
        chunks = da.from_array(rows, chunks=(100, 5)).map_blocks(_slowly, dtype=rows.dtype)

        def attempt(rng: np.random.Generator) -> Outcome:
            _two_workers(client)
            which = int(rng.integers(len(estimators)))
            killer = threading.Timer(float(rng.uniform(0.05, 1.2)), _kill_one, [client, int(rng.integers(2))])
            killer.start()
            scores = estimators[which].fit(chunks).transform(rows)
            killer.join()
            gap = float(np.abs(scores - expected[which]).max() / np.abs(expected[which]).max())
            name = type(estimators[which]).__name__
            return Outcome(OK) if gap <= SAME else Outcome(FAULT, f"{name}: another answer, by {gap:.3g}")

        yield attempt


def _two_workers(client: Any) -> None:
    """Both workers; where dask has not started the killed one again by itself, the cluster is started anew."""
    try:
        client.wait_for_workers(2, timeout=20)
    except TimeoutError:
        client.restart(timeout=60)
        client.wait_for_workers(2, timeout=60)


def _kill_one(client: Any, which: int) -> None:
    workers = client.scheduler_info(n_workers=-1)["workers"]
    pids = client.run(os.getpid, workers=[sorted(workers)[which % len(workers)]])
    os.kill(choose(np.random.default_rng(0), pids.values()), signal.SIGKILL)
