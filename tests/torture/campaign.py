"""Running a campaign: cases spread over processes, each process replaced when a case crashes or hangs it."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

OK, CLEAR, FAULT = "ok", "clear error", "fault"
CPU_LIMIT = 30.0  # seconds of processor time for one case: the slowest honest one takes five
STUCK = 240.0  # seconds of the clock after which a case is hung, however busy the machine is


@dataclass(frozen=True)
class Outcome:
    """How a case ended."""

    kind: str
    detail: str = ""


Attempt = Callable[[np.random.Generator], Outcome]
Session = Callable[[], AbstractContextManager[Attempt]]


@dataclass
class Tally:
    """What a campaign came to."""

    name: str
    counts: Counter[str] = field(default_factory=Counter)
    faults: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    examples: dict[str, str] = field(default_factory=dict)

    @property
    def tried(self) -> int:
        return sum(self.counts.values())

    def add(self, number: int, outcome: Outcome) -> None:
        self.counts[outcome.kind] += 1
        if outcome.kind == FAULT:
            first = outcome.detail.splitlines()[0]
            kind = without_numbers(first)
            self.faults[kind].append(number)
            self.examples.setdefault(kind, outcome.detail)
            print(f"    {self.name} {number}, of {self.tried} so far: {first}", file=sys.stderr, flush=True)

    def lines(self, seed: int) -> Iterator[str]:
        counts = self.counts
        yield (
            f"{self.name:<12} tried {self.tried:>6}   ok {counts[OK]:>6}   clear error {counts[CLEAR]:>5}   "
            f"faults {counts[FAULT]:>4}   seed {seed}"
        )
        for kind, numbers in sorted(self.faults.items(), key=lambda item: -len(item[1])):
            yield f"    {len(numbers)} x {self.examples[kind].splitlines()[0]}"
            yield f"        --seed {seed} --only {','.join(map(str, sorted(numbers)))}"


def without_numbers(text: str) -> str:
    """Faults that differ in their numbers, or in what is said of the case in brackets at the end, are of one kind."""
    text = re.sub(r" \[.*\]$", "", text)
    return re.sub(r"[-+]?\d+(\.\d*)?(e[-+]?\d+)?|\bnan\b|\binf\b", "#", text)


class TooLong(BaseException):
    """A case used up its processor time; no `except Exception` may swallow it."""


@contextmanager
def limited_time(seconds: float) -> Iterator[None]:
    """Raise TooLong after so many seconds of this process's processor time."""

    def ring(*_: Any) -> None:
        raise TooLong(f"over {seconds:g} s of processor time")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def case_rng(name: str, seed: int, number: int) -> np.random.Generator:
    """The random numbers of one case: a function of its name alone."""
    return np.random.default_rng([*name.encode(), seed, number])


def run_case(name: str, attempt: Attempt, seed: int, number: int) -> Outcome:
    """One case; whatever it raises is a fault."""
    try:
        with limited_time(CPU_LIMIT):
            return attempt(case_rng(name, seed, number))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(last.filename)}:{last.name}"
        return Outcome(FAULT, f"{type(error).__name__} in {where}: {error}\n{traceback.format_exc()}")


def _work(name: str, seed: int, connection: Connection) -> None:
    session: Session = import_module(f"{__package__}.{name}").session
    with session() as attempt:
        connection.send(("ready", -1, None))
        while (number := connection.recv()) is not None:
            connection.send(("done", number, run_case(name, attempt, seed, number)))


class _Worker:
    """A process that runs cases one after another."""

    def __init__(self, name: str, seed: int) -> None:
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(name, seed, theirs))
        self.process.start()
        theirs.close()
        self.number: int | None = None
        self.since = time.monotonic()
        self.ready = False

    def give(self, number: int | None) -> None:
        self.number, self.since = number, time.monotonic()
        self.connection.send(number)

    def stop(self, *, kill: bool) -> None:
        if kill:
            self.process.kill()
        self.process.join(30)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.connection.close()


def run_campaign(name: str, seed: int, numbers: list[int], n_processes: int, seconds: float | None = None) -> Tally:
    """All cases of `numbers`, or as many as `seconds` allow."""
    tally, waiting = Tally(name), iter(numbers)
    deadline = None if seconds is None else time.monotonic() + seconds
    workers = [_Worker(name, seed) for _ in range(min(n_processes, len(numbers)))]
    while workers:
        wait([worker.connection for worker in workers], timeout=1.0)
        for worker in list(workers):
            replacement = _look_at(worker, tally)
            if replacement is None:
                continue
            if not replacement:
                workers.remove(worker)
                worker = _Worker(name, seed)
                workers.append(worker)
                continue
            over = deadline is not None and time.monotonic() > deadline
            number = None if over else next(waiting, None)
            worker.give(number)
            if number is None:
                workers.remove(worker)
                worker.stop(kill=False)
    return tally


def _look_at(worker: _Worker, tally: Tally) -> bool | None:
    """True: it waits for a case.  False: it is gone, its case counted.  None: it is at work."""
    try:
        while worker.connection.poll():
            _, number, outcome = worker.connection.recv()
            if outcome is not None:
                tally.add(number, outcome)
            worker.number = None
            worker.ready = True
            return True
        if worker.process.is_alive() and time.monotonic() - worker.since < STUCK:
            return None
        reason = f"hung for {STUCK:g} s" if worker.process.is_alive() else "the process died"
    except (EOFError, ConnectionError):
        reason = "the process died"
    worker.stop(kill=True)
    if not worker.ready:
        raise RuntimeError(f"campaign {tally.name} cannot start: {reason} before the first case")
    if worker.number is not None:
        tally.add(worker.number, Outcome(FAULT, f"{reason} (exit code {worker.process.exitcode})"))
    return False
