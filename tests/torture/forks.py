"""Forks while other threads fit: the child fits, too, and does not wait for a thread that it does not have."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
from sklearn.base import clone

import kernelsieve as ks

from .campaign import FAULT, OK, Attempt, Outcome
from .inputs import choose
from .models import rows_of

PATIENCE = 60.0  # seconds for a fit that takes a few hundredths
HUNG, WRONG = 99, 3


@contextmanager
def session() -> Iterator[Attempt]:
    """Two threads that fit all the time."""
    rows = rows_of(2500, 5)
    options = {"n_support": 10, "random_state": 0, "n_jobs": 2}
    estimators = [
        ks.SparseKernelPCA(3, selection=rule, **options) for rule in ("optimized", "targeted", "uniform", "rpcholesky")
    ]
    estimators += [ks.LikelihoodKernelPCA(3, n_dictionary=40, n_jobs=2, random_state=0)]
    done = threading.Event()

    def fit_for_ever(estimator: Any) -> None:
        while not done.is_set():
            clone(estimator).fit(rows)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [clone(model).fit(rows).transform(rows[:9]) for model in estimators]
        threads = [threading.Thread(target=fit_for_ever, args=[estimators[i]], daemon=True) for i in (0, 1)]
        for thread in threads:
            thread.start()

        def attempt(rng: np.random.Generator) -> Outcome:
            time.sleep(float(rng.uniform(0, 0.5)))
            which = int(choose(rng, range(len(estimators))))
            child = os.fork()
            if child == 0:
                _fit_and_exit(estimators[which], rows, expected[which])
            code = _exit_code(child)
            words = {HUNG: "hung", WRONG: "another answer"}.get(code, f"exit code {code}")
            return (
                Outcome(OK)
                if code == 0
                else Outcome(FAULT, f"the child {words} [{type(estimators[which]).__name__} {which}]")
            )

        yield attempt
        done.set()
        for thread in threads:
            thread.join()


def _fit_and_exit(estimator: Any, rows: np.ndarray, expected: np.ndarray) -> NoReturn:
    code = 1
    try:
        scores = clone(estimator).fit(rows).transform(rows[:9])
        code = 0 if np.allclose(scores, expected, rtol=1e-8, atol=1e-10) else WRONG
    finally:
        os._exit(code)


def _exit_code(child: int) -> int:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return HUNG
