"""make peers: kernelsieve against other ways to do kernel PCA, in a race that anyone can run again.

    python -m benchmarks.peers [--data FOLDER] [--only TEXT ...]
    python -m benchmarks.peers --page
    python -m benchmarks.peers --compare ONE.json [OTHER.json]

For each table, each contestant of peers_methods.py and each number of points: held-out captured variance as a share of
exact kernel PCA's, processor seconds of fit and transform, latency of one row, bytes of the pickled model, peak memory
of a fit.  All are given the same rows and the same gamma, on one thread, in turns: a turn fits every contestant with
the turn's seed.  The share is the mean over turns; a time is the best of all turns, and what takes milliseconds is
repeated within a turn.

Results are kept in PEERS.json, from which peers_page.py writes docs/peers.md and its pictures; `--page` does only that.
`--only` runs some tables again and keeps the others.  A run ends with how much the ratios to kernelsieve's times, and
the shares, differ from the results that were kept before, the largest differences with their cells; `--compare` prints
the same for two runs (one file: against PEERS.json).
"""

from __future__ import annotations

import argparse
import importlib.metadata
import inspect
import json
import os
import pickle
import pkgutil
import platform
import shutil
import subprocess
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # processor seconds of one thread, for everyone

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split

import kernelsieve
from experiments.datasets import MissingData, Split, digits, median_gamma, mnist, usps
from kernelsieve import SparseKernelPCA

from . import peers_page
from .frontier import captured_variances
from .frontier_data import diamonds, ida_split, spam, split, standardised
from .peers_methods import BESIDE, PEERS, Components, Peer, Task, last_words
from .peers_page import RESULTS

ALL_ROWS = 0  # stands for the number of points where it cannot be chosen
SIZES = (15, 20, 30, 50, 100, 200, 500, 1000)
TURNS = 3
SHORT = 0.1  # seconds: what takes less is repeated within a turn, for about so long
MOST_ROWS = 4000
MOST_OF_THE_ROWS = 0.5  # with more points than this share of the rows, exact kernel PCA is the thing to do
# A fit that took longer has no third turn, and a size at which a fit must be expected to take longer than the second
# limit is not run, so that the whole race stays short.  The page says where.
LONG, TOO_LONG = 1.5, 6.0  # processor seconds
MEMORY_SIZE = 50  # points of the fit whose memory is traced
SINGLE_ROWS = 100  # rows transformed one by one for the latency; as many as take SHORT where that is fewer, but
FEWEST_ROWS = 10  # so many, for a mean
MANY_ROWS = 1_000_000
MANY_ROWS_SIZES = (20, 50, 100)


def cancer() -> Split:
    from sklearn.datasets import load_breast_cancer

    return standardised(split("cancer", load_breast_cancer().data))


def many_rows() -> Split:
    """Rows near a curved sheet, for everyone: five columns bend with five others."""
    rng = np.random.default_rng(0)
    flat = rng.standard_normal((MANY_ROWS + MOST_ROWS // 2, 5))
    rows = np.hstack([flat, np.sin(2 * flat) + 0.3 * rng.standard_normal(flat.shape)])
    return Split("many rows", rows[:MANY_ROWS], rows[MANY_ROWS:])


@dataclass(frozen=True)
class Table:
    """A table, the number of components that everyone finds in it, and who takes part with how many points."""

    load: Callable[[], Split]
    n_components: int = 10
    most_rows: int = MOST_ROWS
    sizes: tuple[int, ...] = SIZES
    only: tuple[str, ...] = ()  # everyone where empty


# Images as they are, tables standardised.
DATA = {
    "cancer": Table(cancer),
    "digits": Table(digits),
    "image": Table(lambda: standardised(ida_split("image"))),
    "diamonds": Table(lambda: standardised(diamonds())),
    "spam": Table(lambda: standardised(spam())),
    "USPS": Table(usps),
    "MNIST": Table(lambda: mnist(MOST_ROWS)),
    "digits, 100 components": Table(digits, n_components=100),
    "a million rows": Table(
        many_rows,
        most_rows=MANY_ROWS,
        sizes=MANY_ROWS_SIZES,
        only=("kernelsieve", "Nystroem + PCA", "mini-batch k-means", "scikit-matter FPS"),
    ),
}


def best_seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """Least processor seconds of a call, repeated until its calls have taken SHORT; and what the last one returned."""
    spent, best = 0.0, np.inf
    while spent < SHORT:
        start = time.process_time()
        result = run()
        seconds = time.process_time() - start
        spent, best = spent + seconds, min(best, seconds)
    return best, result


class Race:
    """One table: its rows, its kernel, and what exact kernel PCA captures of the held-out rows."""

    def __init__(self, name: str, table: Table):
        self.name, self.table, data = name, table, table.load()
        self.train, self.test = (np.ascontiguousarray(part, dtype=np.float64) for part in (data.train, data.test))
        self.train = self.train[: table.most_rows]
        few = self.train[:MOST_ROWS]  # exact kernel PCA of more rows is out of reach
        self.task = Task(median_gamma(few), table.n_components)
        self.gram = rbf_kernel(few, gamma=self.task.gamma)
        exact = next(peer for peer in PEERS if peer.name == "KernelPCA, arpack")
        model = exact.fit(few, ALL_ROWS, self.task, 0)
        self.exact_variance = captured_variances(exact.components(model, few), self.kernel, self.test).sum()

    def kernel(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return self.gram if A is self.train and B is self.train else rbf_kernel(A, B, gamma=self.task.gamma)

    def share(self, components: Components) -> float:
        """Held-out variance along the components, made orthonormal, over exact kernel PCA's."""
        return float(captured_variances(components, self.kernel, self.test).sum() / self.exact_variance)

    def turn(self, peer: Peer, m: int, seed: int) -> dict[str, float]:
        """The best fit, the best transform, one row at a time."""
        fit, model = best_seconds(lambda: peer.fit(self.train, m, self.task, seed))
        return {
            "share": self.share(peer.components(model, self.train)),
            "fit": fit,
            "transform": best_seconds(lambda: peer.transform(model, self.test))[0],
            "row": self.latency(lambda rows: peer.transform(model, rows)),
            **self.size(model),
        }

    def latency(self, transform: Callable[[np.ndarray], Any]) -> float:
        start = time.process_time()
        transform(self.test[:1])
        one = max(time.process_time() - start, 1e-6)  # the clock of some systems is coarse
        rows = self.test[: int(np.clip(SHORT / one, FEWEST_ROWS, SINGLE_ROWS))]
        return best_seconds(lambda: [transform(row[None, :]) for row in rows])[0] / len(rows)

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
            peer.fit(self.train, m, self.task, 0)
            return float(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()


def sizes_of(peer: Peer, race: Race) -> tuple[int, ...]:
    if not peer.sized:
        return (ALL_ROWS,)
    least, most = race.task.n_components, MOST_OF_THE_ROWS * len(race.train)
    return tuple(m for m in race.table.sizes if least < m <= most)


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
    peers = [peer for peer in peers if not race.table.only or peer.name in race.table.only]
    for m in (ALL_ROWS, *SIZES):
        found: dict[str, list[dict[str, float]]] = {}
        for seed in range(TURNS):
            for peer in peers:
                done = found.get(peer.name, [])
                if m not in sizes_of(peer, race) or (len(done) >= 2 and done[0]["fit"] > LONG):
                    continue
                key = {"data": race.name, "peer": peer.name, "points": m}
                if expected.get(peer.name, 0.0) * m > TOO_LONG:
                    if seed == 0:
                        cells.append({**key, "error": f"over {TOO_LONG:.0f} s to be expected, not run"})
                    continue
                try:
                    turn = race.turn(peer, m, seed)
                except Exception as error:
                    if seed == 0:
                        cells.append({**key, "error": last_words(f"{type(error).__name__}: {error}")})
                else:
                    found.setdefault(peer.name, []).append(turn)
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


def beside(race: Race) -> list[dict[str, Any]]:
    """What is fitted beside the race."""
    cells: list[dict[str, Any]] = []
    for other in BESIDE:
        cell: dict[str, Any] = {"data": race.name, "peer": other.name}
        try:
            other.measure(race.train[:300], race.task)  # UMAP compiles what it needs in its first fit
            found = [other.measure(race.train, race.task)]
            while len(found) < TURNS and found[0].seconds < LONG:
                found.append(other.measure(race.train, race.task))
            cell["fit"] = min(measured.seconds for measured in found)
            if found[0].components is not None:
                cell["share"] = race.share(found[0].components)
            if found[0].transform is not None:
                cell["row"] = race.latency(found[0].transform)
        except Exception as error:
            cell["error"] = last_words(f"{type(error).__name__}: {error}")
        cells.append(cell)
        print(f"{race.name:10} {other.name:24} {cell}", flush=True)
    return cells


def docstrings() -> list[str]:
    """A text for everyone: what the functions and classes of four packages say of themselves."""
    import numpy
    import pandas
    import scipy
    import sklearn

    texts = set()
    for package in (numpy, scipy, sklearn, pandas):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            loaded = sys.modules.get(module.name)  # importing all of them would take longer than the race
            texts |= {inspect.getdoc(thing) or "" for thing in vars(loaded).values()} if loaded else set()
    return sorted(text for text in texts if len(text) > 200)


def sparse_text() -> list[dict[str, Any]]:
    """Ten components of tf-idf rows, for which nothing but a linear kernel is needed."""
    from sklearn.decomposition import PCA, TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = docstrings()
    words = TfidfVectorizer().fit_transform(texts)
    train, test = train_test_split(words, test_size=1 / 3, random_state=0)
    contestants = {
        "PCA": (lambda: PCA(10, svd_solver="arpack", random_state=0), '`PCA(10, svd_solver="arpack")` of sparse rows'),
        "TruncatedSVD": (lambda: TruncatedSVD(10, random_state=0), "`TruncatedSVD(10)`: not centred"),
    }
    for m in (50, 200):
        contestants[f"kernelsieve, {m} points"] = (
            lambda m=m: SparseKernelPCA(10, n_support=m, kernel="linear", random_state=0, n_jobs=1),
            f'`SparseKernelPCA(10, n_support={m}, kernel="linear")`',
        )
    cells = []
    for name, (make, setting) in contestants.items():
        found = [best_seconds(lambda make=make: make().fit(train)) for _ in range(TURNS)]
        model = found[-1][1]
        row = best_seconds(lambda model=model: [model.transform(test[i : i + 1]) for i in range(SINGLE_ROWS)])[0]
        captured = float(np.var(model.transform(test), axis=0).sum())
        fit = min(seconds for seconds, _ in found)
        cells.append({"peer": name, "setting": setting, "fit": fit, "row": row / SINGLE_ROWS, "captured": captured})
        print(cells[-1], flush=True)
    return [{**cell, "rows": train.shape[0], "columns": train.shape[1]} for cell in cells]


def installed(peers: tuple[Peer, ...]) -> tuple[list[Peer], dict[str, str]]:
    """Those that can be imported and fit a small table, which also warms them up; the message of the others."""
    rows = np.random.default_rng(0).standard_normal((200, 5))
    ready, missing = [], {}
    for peer in peers:
        try:
            model = peer.fit(rows, 20, Task(0.1), 0)
            peer.transform(model, rows)
            ready.append(peer)
        except Exception as error:
            missing[peer.name] = last_words(f"{type(error).__name__}: {error}")
    return ready, missing


def described() -> dict[str, Any]:
    """When and with what the race was run."""
    packages = ("numpy", "scipy", "scikit-learn", "nystrompca", "skmatter", "pyod", "mlpack", "umap-learn", "pykeops")
    versions = {}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    if shutil.which("Rscript"):
        asked = ["Rscript", "-e", 'cat(R.version$major, R.version$minor, format(packageVersion("kernlab")))']
        said = subprocess.run(asked, capture_output=True, text=True).stdout.split()
        versions |= {"R": ".".join(said[:2]), "kernlab": said[2] if len(said) > 2 else "not installed"}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cores": cores,
        "machine": platform.machine(),
        "python": platform.python_version(),
        "kernelsieve": kernelsieve.__version__,
        "versions": versions,
    }


MEASURES = ("fit", "transform", "row", "bytes", "memory")
LARGEST = 5  # changes of each measure that a comparison names


def changes(one: dict[str, Any], other: dict[str, Any]) -> dict[str, list[tuple[float, str]]]:
    """For each measure, by what factor each ratio to ours, at the same table and number of points, has changed."""

    def ratios(results: dict[str, Any], measure: str) -> dict[tuple[str, str, int], float]:
        cells = {(c["data"], c["peer"], c["points"]): c[measure] for c in results["cells"] if measure in c}
        ours = {(data, m): value for (data, peer, m), value in cells.items() if peer == "kernelsieve"}
        exact_beside = 50  # points of ours that contestants without a number of points are compared with
        return {
            key: value / ours[key[0], key[2] or exact_beside]
            for key, value in cells.items()
            if key[1] != "kernelsieve" and (key[0], key[2] or exact_beside) in ours
        }

    found = {}
    for measure in MEASURES:
        first, second = ratios(one, measure), ratios(other, measure)
        both = sorted(first.keys() & second.keys())
        factors = [max(first[key] / second[key], second[key] / first[key]) for key in both]
        found[measure] = sorted(zip(factors, (", ".join(map(str, key)) for key in both), strict=True))
    return found


def share_changes(one: dict[str, Any], other: dict[str, Any]) -> list[tuple[float, str]]:
    """By how much each share kept has changed."""
    first, second = (
        {(c["data"], c["peer"], c["points"]): c["share"] for c in results["cells"] if "share" in c}
        for results in (one, other)
    )
    both = sorted(first.keys() & second.keys())
    return sorted((abs(first[key] - second[key]), ", ".join(map(str, key))) for key in both)


def comparison(one: dict[str, Any], other: dict[str, Any]) -> str:
    """A line for each measure: how many ratios two runs have in common, how much they differ, and where most."""
    lines = []
    for measure, found in changes(one, other).items():
        if found:
            factors = np.array([factor for factor, _ in found])
            most = "; ".join(f"{where} {factor - 1:.1%}" for factor, where in found[: -LARGEST - 1 : -1])
            lines.append(
                f"{measure}: {len(found)} ratios, median change {np.median(factors) - 1:.1%}, nine tenths below "
                f"{np.quantile(factors, 0.9) - 1:.1%}, {np.sum(factors >= peers_page.CLEARLY)} by a tenth or more; "
                f"most: {most}"
            )
    shares = share_changes(one, other)
    most = "; ".join(f"{where} {change:.4f}" for change, where in shares[: -LARGEST - 1 : -1])
    over = sum(change > peers_page.CLEARLY_MORE for change, _ in shares)
    lines.append(f"share: {len(shares)} cells, {over} by over {peers_page.CLEARLY_MORE:g}; most: {most}")
    return "\n".join(lines)


def run_table(name: str, ready: list[Peer]) -> dict[str, Any]:
    """What is kept of one table."""
    start = time.perf_counter()
    try:
        race = Race(name, DATA[name])
    except MissingData as absent:
        return {"skipped": {name: str(absent)}}
    rows, columns = race.train.shape
    about = {"name": name, "rows": rows, "columns": columns, "held_out": len(race.test), "gamma": race.task.gamma}
    cells = raced(race, ready)
    others = [] if race.table.only or race.table.n_components != 10 else beside(race)
    minutes = (time.perf_counter() - start) / 60
    about |= {"components": race.task.n_components, "few": bool(race.table.only)}
    about |= {"minutes": minutes, "date": str(date.today())}
    return {"data": [about], "cells": cells, "beside": others}


def kept_without(names: list[str]) -> dict[str, Any]:
    """Results of an earlier run, but for some tables."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    results["data"] = [about for about in results["data"] if about["name"] not in names]
    for kind in ("cells", "beside"):
        results[kind] = [cell for cell in results.get(kind, []) if cell["data"] not in names]
    results["skipped"] = {name: why for name, why in results["skipped"].items() if name not in names}
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description="Race kernelsieve against other ways to do kernel PCA.")
    parser.add_argument("--data", help="folder with the data files (default: KERNELSIEVE_DATA)")
    parser.add_argument("--only", nargs="*", choices=DATA, help="run these tables; results of the others are kept")
    parser.add_argument("--page", action="store_true", help="only write the page of the results that are kept")
    parser.add_argument("--compare", nargs="+", type=Path, help="results of one or two runs: how much they differ")
    arguments = parser.parse_args()
    if arguments.compare:
        one, other, *_ = (json.loads(path.read_text(encoding="utf-8")) for path in (*arguments.compare, RESULTS))
        return print(comparison(one, other))
    if arguments.page:
        return peers_page.write(json.loads(RESULTS.read_text(encoding="utf-8")))
    if arguments.data:
        os.environ["KERNELSIEVE_DATA"] = arguments.data
    warnings.simplefilter("ignore")
    names = arguments.only or list(DATA)
    before = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"cells": []}
    results = kept_without(names) if arguments.only else {"data": [], "cells": [], "beside": [], "skipped": {}}
    ready, missing = installed(PEERS)
    for name in names:
        for kind, found in run_table(name, ready).items():
            results[kind] = {**results[kind], **found} if kind == "skipped" else [*results[kind], *found]
    if not arguments.only:
        results["text"] = sparse_text()
    results["data"].sort(key=lambda about: list(DATA).index(about["name"]))
    results |= {"run": described(), "missing": missing}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    peers_page.write(results)
    again = [{"cells": [cell for cell in run["cells"] if cell["data"] in names]} for run in (before, results)]
    print(f"against the results that were kept before:\n{comparison(*again)}")


if __name__ == "__main__":
    main()
