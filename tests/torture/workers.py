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
    """The rows' own answers; each attempt has a cluster of its own, for a nanny may not get over a kill."""
    rows = rows_of(2000, 5)
    options = {"n_support": 10, "random_state": 0, "n_optimization_samples": 400}
    estimators = [
        ks.SparseKernelPCA(3, **options),
        ks.SparseKernelPCA(3, selection="targeted", **options),
        ks.LikelihoodKernelPCA(3, n_dictionary=40, random_state=0),
        ks.ElasticNetKernelPCA(3, n_nonzero=8, n_dictionary=40, random_state=0),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [model.fit(rows).transform(rows) for model in estimators]

        def attempt(rng: np.random.Generator) -> Outcome:
            which = int(rng.integers(len(estimators)))
            scores = _scores_after_a_kill(estimators[which], rows, rng)
            gap = float(np.abs(scores - expected[which]).max() / np.abs(expected[which]).max())
            name = type(estimators[which]).__name__
            return Outcome(OK) if gap <= SAME else Outcome(FAULT, f"{name}: another answer, by {gap:.3g}")

        yield attempt


def _scores_after_a_kill(estimator: Any, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A fit on two workers, of which one is killed meanwhile."""
    import dask.array as da
    from distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, Client(cluster) as client:
        client.run(lambda: __import__("kernelsieve").SparseKernelPCA)
        chunks = da.from_array(rows, chunks=(100, rows.shape[1])).map_blocks(_slowly, dtype=rows.dtype)
        killer = threading.Timer(float(rng.uniform(0.05, 1.2)), _kill_one, [client, int(rng.integers(2))])
        killer.start()
        scores = estimator.fit(chunks).transform(rows)
        killer.join()
    return np.asarray(scores)


def _kill_one(client: Any, which: int) -> None:
    workers = client.scheduler_info(n_workers=-1)["workers"]
    pids = client.run(os.getpid, workers=[sorted(workers)[which % len(workers)]])
    os.kill(choose(np.random.default_rng(0), pids.values()), signal.SIGKILL)
