"""Kills: a process that saves again and again is killed at a random moment.

What is at the path afterwards must be one whole model, the old or a new one, and the next save or load must leave
nothing beside it.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

import kernelsieve

from .campaign import FAULT, OK, Attempt, Outcome
from .inputs import choose
from .models import rows_of

LONGEST = 0.15  # seconds to the kill: several saves of a few megabytes each


@contextmanager
def session() -> Iterator[Attempt]:
    """Two models to be saved in turn, with what they answer."""
    rows = rows_of(700, 40)
    models = [kernelsieve.KernelPCA(3, kernel="rbf", gamma=gamma).fit(rows) for gamma in (0.01, 0.02)]
    answers = [model.transform(rows[:5]) for model in models]

    def attempt(rng: np.random.Generator) -> Outcome:
        with tempfile.TemporaryDirectory() as folder:
            return _attempt(rng, os.path.join(folder, "model.ks"), models, answers, rows[:5])

    yield attempt


def _attempt(rng: np.random.Generator, path: str, models: Any, answers: Any, rows: np.ndarray) -> Outcome:
    models[0].save(path)
    child = os.fork()
    if child == 0:
        _save_for_ever(models, path)
    time.sleep(float(rng.uniform(0, LONGEST)))
    how = choose(rng, [signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])
    os.kill(child, how)
    os.waitpid(child, 0)
    found = kernelsieve.load(path).transform(rows) if rng.random() < 0.5 else None
    if found is None:
        kernelsieve_model = models[1]
        kernelsieve_model.save(path)
        found = kernelsieve.load(path).transform(rows)
    if not any(np.array_equal(found, answer) for answer in answers):
        return Outcome(FAULT, "the file holds neither model")
    left = sorted(set(os.listdir(os.path.dirname(path))) - {"model.ks"})
    if left:
        return Outcome(FAULT, f"{how.name}: {len(left)} file(s) left after the next load or save")
    return Outcome(OK)


def _save_for_ever(models: Any, path: str) -> NoReturn:
    """In the child; it never returns to the parent's code."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        while True:
            for model in models:
                model.save(path)
    finally:
        os._exit(1)
