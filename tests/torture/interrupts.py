"""Interrupts: Ctrl-C at a random moment of a fit, a stream, a save.

Afterwards the estimator is what it was before, or, where the interrupt came as the call was ending, what the call
makes of it; never a mixture.  No thread stays, BLAS has its threads back, and the next call works.
"""

from __future__ import annotations

import gc
import os
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

import kernelsieve as ks

from .campaign import CLEAR, FAULT, OK, Attempt, Outcome
from .inputs import choose
from .invariants import Surroundings, changed, state_of
from .models import answer_of, rows_of, unfitted

STOPPED = 2.0  # seconds that a reader may take to end after the interrupt


@dataclass(frozen=True)
class Call:
    """Something to interrupt: what it is, how to make it, and how long it takes."""

    name: str
    estimator: Any
    call: Callable[[Any], Any]
    seconds: float


@contextmanager
def session() -> Iterator[Attempt]:
    """Calls of every kind, timed once."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = [_timed(*call) for call in _calls(folder)]

        def attempt(rng: np.random.Generator) -> Outcome:
            return _attempt(rng, choose(rng, calls))

        yield attempt


def _blocks(rows: np.ndarray, n_blocks: int) -> Callable[[], Iterator[np.ndarray]]:
    return lambda: iter(np.array_split(rows, n_blocks))


def _calls(folder: str) -> Iterator[tuple[str, Any, Callable[[Any], Any]]]:
    rows, many = rows_of(300), rows_of(6000)
    for estimator in unfitted():
        yield f"{type(estimator).__name__}.fit", estimator, lambda model: model.fit(rows)
    small = ks.SparseKernelPCA(2, n_support=8, selection="uniform", random_state=0, n_optimization_samples=400)
    yield "fit of a stream", small, lambda model: model.fit(_blocks(many, 60))
    yield "fit of a stream, again", small, lambda model: model.fit(_blocks(many, 200))
    yield "fit in threads", clone(small).set_params(n_jobs=2), lambda model: model.fit(np.tile(many, (4, 1)))
    yield "partial_fit", clone(small), lambda model: [model.partial_fit(part) for part in np.array_split(rows, 5)]
    online = ks.OnlineKernelPCA(2, rule="coherence", random_state=0)
    yield "online partial_fit", online, lambda model: [model.partial_fit(part) for part in np.array_split(rows, 5)]
    monitor = ks.KernelMonitor(2, 8, lags=1, random_state=0)
    yield (
        "monitor's update",
        monitor,
        lambda model: (model if hasattr(model, "limits_") else model.fit(rows)).update(rows),
    )
    path = os.path.join(folder, "model.ks")
    yield "save", clone(small), lambda model: (clone(model).fit(rows).save(path), ks.load(path))
    yield "transform of a stream", clone(small), lambda model: list(clone(model).fit(rows).transform(_blocks(many, 60)))


def _timed(name: str, estimator: Any, call: Callable[[Any], Any]) -> Call:
    call(clone(estimator))
    started = time.perf_counter()
    call(clone(estimator))
    return Call(name, estimator, call, time.perf_counter() - started)


def _attempt(rng: np.random.Generator, one: Call) -> Outcome:
    rows = rows_of(60, seed=9)
    model = clone(one.estimator)
    refit = rng.random() < 0.6
    if refit:
        model.fit(rows)
    before, scores = state_of(model), answer_of(model, rows) if refit else None
    around = Surroundings()
    interrupted = _interrupted(lambda: one.call(model), float(rng.uniform(0, 1.05 * one.seconds)))
    complaints = [*_complaints(one, model, before, scores, rows), *_surroundings(around)]
    if complaints:
        return Outcome(FAULT, f"{one.name}: {complaints[0]}" + "".join(f"\n    {c}" for c in complaints[1:]))
    return Outcome(CLEAR if interrupted else OK)


def _interrupted(call: Callable[[], Any], after: float) -> bool:
    """Whether the interrupt came in time; any other error is raised."""

    def ring(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, ring)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, max(after, 1e-4))
            call()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    except KeyboardInterrupt:
        return True
    finally:
        signal.signal(signal.SIGALRM, before)
    return False


def _complaints(one: Call, model: Any, before: dict[str, Any], scores: Any, rows: np.ndarray) -> Iterator[str]:
    if next(changed(model, before), None) is not None:
        # not what it was: then it must be what the call makes of it
        whole = clone(one.estimator)
        if scores is not None:
            whole.fit(rows)
        one.call(whole)
        if set(state_of(whole)) != set(state_of(model)):
            yield f"half done: {sorted(set(state_of(whole)) ^ set(state_of(model)))}"
            return
        if "partial_fit" not in one.name and not np.array_equal(answer_of(whole, rows), answer_of(model, rows)):
            yield "neither the old model nor the new one"
    elif scores is not None and not np.array_equal(answer_of(model, rows), scores):
        yield "the same attributes with other scores"
    again = clone(one.estimator)
    one.call(again)  # and the next call works


def _surroundings(around: Surroundings) -> list[str]:
    """A reader ends by itself, shortly."""
    deadline = time.monotonic() + STOPPED
    gc.collect()
    while (complaints := list(around.complaints())) and time.monotonic() < deadline:
        time.sleep(0.01)
    return complaints
