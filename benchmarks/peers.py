"""make peers: kernelsieve against other ways to do kernel PCA, in a race that anyone can run again.

    python -m benchmarks.peers [--data FOLDER] [--only TEXT ...]
    python -m benchmarks.peers --page
    python -m benchmarks.peers --compare OTHER.json

For each table, each contestant of peers_methods.py and each number of points: held-out captured variance as a share of
exact kernel PCA's, processor seconds of fit and transform, latency of one row, bytes of the pickled model, peak memory
of a fit.  All are given the same rows and the same gamma, on one thread, in turns: a turn fits every contestant once
with the turn's seed.  The share is the mean over turns, a time the best of them.

Results are kept in PEERS.json, from which peers_page.py writes docs/peers.md and its pictures; `--page` does only that.
`--compare` says by how much the ratios to kernelsieve's times differ between two runs.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import pickle
import platform
import time
import tracemalloc
import warnings
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # processor seconds of one thread, for everyone

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

import kernelsieve
from experiments.datasets import MissingData, Split, digits, median_gamma, mnist, usps

from . import peers_page
from .frontier import captured_variances
from .frontier_data import diamonds, ida_split, spam, split, standardised
from .peers_methods import PEERS, TIME_ONLY, Peer, last_words

RESULTS = Path(__file__).with_name("PEERS.json")
ALL_ROWS = 0  # stands for the number of points where it cannot be chosen
SIZES = (15, 20, 30, 50, 100, 200, 500, 1000)
TURNS = 3
MOST_ROWS = 4000
MOST_OF_THE_ROWS = 0.5  # with more points than this share of the rows, exact kernel PCA is the thing to do
# A fit that took longer is not repeated, and a size at which a fit must be expected to take longer than the second
# limit is not run, so that the whole race stays short.  The page says where.
LONG, TOO_LONG = 1.5, 6.0  # processor seconds
MEMORY_SIZE = 50  # points of the fit whose memory is traced
SINGLE_ROWS = 100  # rows transformed one by one for the latency


def cancer() -> Split:
    from sklearn.datasets import load_breast_cancer

    return standardised(split("cancer", load_breast_cancer().data))


# Images as they are, tables standardised.
DATA: dict[str, Callable[[], Split]] = {
    "cancer": cancer,
    "digits": digits,
    "image": lambda: standardised(ida_split("image")),
    "diamonds": lambda: standardised(diamonds()),
    "spam": lambda: standardised(spam()),
    "USPS": usps,
    "MNIST": lambda: mnist(MOST_ROWS),
}


class Race:
    """One table: its rows, its kernel, and what exact kernel PCA captures of the held-out rows."""

    def __init__(self, name: str, data: Split):
        self.name = name
        self.train, self.test = (np.ascontiguousarray(part, dtype=np.float64) for part in (data.train, data.test))
        self.train = self.train[:MOST_ROWS]
        self.gamma = median_gamma(self.train)
        self.gram = rbf_kernel(self.train, gamma=self.gamma)
        exact = next(peer for peer in PEERS if peer.name == "KernelPCA, arpack")
        model = exact.fit(self.train, ALL_ROWS, self.gamma, 0)
        self.exact_variance = captured_variances(exact.components(model, self.train), self.kernel, self.test).sum()

    def kernel(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return self.gram if A is self.train and B is self.train else rbf_kernel(A, B, gamma=self.gamma)

    def share(self, peer: Peer, model: Any) -> float:
        """Held-out variance along the contestant's components, made orthonormal, over exact kernel PCA's."""
        components = peer.components(model, self.train)
        return float(captured_variances(components, self.kernel, self.test).sum() / self.exact_variance)

    def turn(self, peer: Peer, m: int, seed: int) -> dict[str, float]:
        """One fit, one transform, one row at a time."""
        start = time.process_time()
        model = peer.fit(self.train, m, self.gamma, seed)
        fitted = time.process_time()
        peer.transform(model, self.test)
        transformed = time.process_time()
        for row in self.test[:SINGLE_ROWS]:
            peer.transform(model, row[None, :])
        single = (time.process_time() - transformed) / SINGLE_ROWS
        return {
            "share": self.share(peer, model),
            "fit": fitted - start,
            "transform": transformed - fitted,
            "row": single,
            **self.size(model),
        }

    @staticmethod
    def size(model: Any) -> dict[str, float]:
        try:
            return {"bytes": len(pickle.dumps(model))}
        except Exception:
            return {}  # a model that cannot be pickled

    def memory(self, peer: Peer, m: int) -> float:
        """Peak bytes beyond the rows that numpy and Python ask for during a fit."""
        tracemalloc.start()
        try:
            peer.fit(self.train, m, self.gamma, 0)
            return float(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()


def sizes_of(peer: Peer, n_rows: int) -> tuple[int, ...]:
    if not peer.sized:
        return (ALL_ROWS,)
    return tuple(m for m in SIZES if m <= MOST_OF_THE_ROWS * n_rows)


def merged(turns: list[dict[str, float]]) -> dict[str, Any]:
    """Mean share with its range, best times."""
    shares = [turn["share"] for turn in turns]
    found: dict[str, Any] = {"share": float(np.mean(shares)), "worst": min(shares), "best": max(shares)}
    found["turns"] = len(turns)
    for key in ("fit", "transform", "row", "bytes"):
        values = [turn[key] for turn in turns if key in turn]
        if values:
            found[key] = min(values)
    return found


def raced(race: Race, peers: list[Peer]) -> list[dict[str, Any]]:
    """Every contestant at every size; at each size in turns."""
    cells: list[dict[str, Any]] = []
    expected: dict[str, float] = {}  # seconds a point of the last size
    for m in (ALL_ROWS, *SIZES):
        found: dict[str, list[dict[str, float]]] = {}
        for seed in range(TURNS):
            for peer in peers:
                done = found.get(peer.name, [])
                if m not in sizes_of(peer, len(race.train)) or any(turn["fit"] > LONG for turn in done):
                    continue
                key = {"data": race.name, "peer": peer.name, "points": m}
                if expected.get(peer.name, 0.0) * m > TOO_LONG:
                    if seed == 0:
                        cells.append({**key, "error": f"over {TOO_LONG:.0f} s to be expected, not run"})
                    continue
                try:
                    found.setdefault(peer.name, []).append(race.turn(peer, m, seed))
                except Exception as error:
                    if seed == 0:
                        cells.append({**key, "error": last_words(f"{type(error).__name__}: {error}")})
        for name, turns in found.items():
            cells.append({"data": race.name, "peer": name, "points": m, **merged(turns)})
            expected[name] = min(turn["fit"] for turn in turns) / max(m, 1)
            print(f"{race.name:10} {name:24} {m:5} {cells[-1]['share']:.4f} {cells[-1]['fit']:.3f} s", flush=True)
    for peer in peers:
        m = MEMORY_SIZE if peer.sized else ALL_ROWS
        cell = next((c for c in cells if c["peer"] == peer.name and c["points"] == m and "fit" in c), None)
        if cell is not None:
            cell["memory"] = race.memory(peer, m)
    return cells


def timed(race: Race) -> list[dict[str, Any]]:
    """Methods that are raced for time only."""
    cells: list[dict[str, Any]] = []
    for name, _, seconds in TIME_ONLY:
        key = {"data": race.name, "peer": name}
        try:
            seconds(race.train[:300], race.gamma)  # UMAP compiles what it needs in its first fit
            times = [seconds(race.train, race.gamma)]
            while len(times) < TURNS and times[0] < LONG:
                times.append(seconds(race.train, race.gamma))
            cells.append({**key, "fit": min(times)})
        except Exception as error:
            cells.append({**key, "error": last_words(f"{type(error).__name__}: {error}")})
        print(f"{race.name:10} {name:24} {cells[-1]}", flush=True)
    return cells


def installed(peers: tuple[Peer, ...]) -> tuple[list[Peer], dict[str, str]]:
    """Those that can be imported and fit a small table, which also warms them up; the message of the others."""
    rows = np.random.default_rng(0).standard_normal((200, 5))
    ready, missing = [], {}
    for peer in peers:
        try:
            model = peer.fit(rows, 20, 0.1, 0)
            peer.transform(model, rows)
            ready.append(peer)
        except Exception as error:
            missing[peer.name] = last_words(f"{type(error).__name__}: {error}")
    return ready, missing


def described() -> dict[str, Any]:
    """When and with what the race was run."""
    packages = ("numpy", "scipy", "scikit-learn", "nystrompca", "skmatter", "pyod", "mlpack", "umap-learn")
    versions = {}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "date": str(date.today()),
        "cores": cores,
        "machine": platform.machine(),
        "python": platform.python_version(),
        "kernelsieve": kernelsieve.__version__,
        "versions": versions,
    }


def differences(one: dict[str, Any], other: dict[str, Any]) -> dict[str, np.ndarray]:
    """For fit and transform, |log| of the change of each ratio to our time at the same table and number of points."""

    def ratios(results: dict[str, Any], measure: str) -> dict[tuple[str, str, int], float]:
        cells = {(c["data"], c["peer"], c["points"]): c[measure] for c in results["cells"] if measure in c}
        ours = {(data, m): time for (data, peer, m), time in cells.items() if peer == "kernelsieve"}
        exact_beside = 50  # points of ours that contestants without a number of points are compared with
        return {
            key: time / ours[key[0], key[2] or exact_beside]
            for key, time in cells.items()
            if key[1] != "kernelsieve" and (key[0], key[2] or exact_beside) in ours
        }

    found = {}
    for measure in ("fit", "transform"):
        first, second = ratios(one, measure), ratios(other, measure)
        both = sorted(first.keys() & second.keys())
        found[measure] = np.abs(np.log([first[key] / second[key] for key in both]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Race kernelsieve against other ways to do kernel PCA.")
    parser.add_argument("--data", help="folder with the data files (default: KERNELSIEVE_DATA)")
    parser.add_argument("--only", nargs="*", default=[], help="tables with one of these in their name; nothing is kept")
    parser.add_argument("--page", action="store_true", help="only write the page of the results that are kept")
    parser.add_argument("--compare", help="results of another run: how much ratios of times differ")
    arguments = parser.parse_args()
    if arguments.compare:
        kept, other = (json.loads(Path(path).read_text(encoding="utf-8")) for path in (RESULTS, arguments.compare))
        for measure, logs in differences(kept, other).items():
            middle, most = np.expm1(np.quantile(logs, [0.5, 0.9]))
            within = np.mean(logs < np.log(1.1))
            print(
                f"{measure}: {len(logs)} ratios, median change {middle:.1%}, nine tenths below {most:.1%}, "
                f"{within:.0%} within a tenth"
            )
        return
    if arguments.page:
        peers_page.write(json.loads(RESULTS.read_text(encoding="utf-8")))
        return
    if arguments.data:
        os.environ["KERNELSIEVE_DATA"] = arguments.data
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    ready, missing = installed(PEERS)
    results: dict[str, Any] = {"run": described(), "missing": missing, "skipped": {}, "data": [], "cells": []}
    results["time_only"] = []
    for name, load in DATA.items():
        if arguments.only and not any(text in name for text in arguments.only):
            continue
        try:
            race = Race(name, load())
        except MissingData as absent:
            results["skipped"][name] = str(absent)
            continue
        rows, columns = race.train.shape
        about = {"name": name, "rows": rows, "columns": columns, "held_out": len(race.test), "gamma": race.gamma}
        results["data"].append(about)
        results["cells"] += raced(race, ready)
        results["time_only"] += timed(race)
    results["run"]["minutes"] = round((time.perf_counter() - start) / 60, 1)
    if not arguments.only:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        peers_page.write(results)


if __name__ == "__main__":
    main()
