"""Each number of the search switched off in turn: what is it worth, held out and in time?

    python -m benchmarks.ablation [--jobs 16] [--only TEXT]

Every line of the table sets one constant to the value that makes it do nothing, fits the same cells as the plain
search, and reports the mean and the worst change of the variance captured on held-out rows (by the scores of
a model, whose components are unit vectors), relative to the plain search, and the change of processor time.  Cells are
tables (raw, heavy-tailed, few rows, many columns) x widths x components and points, and the number left to "auto".
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.metrics import pairwise

from experiments.datasets import MissingData, usps
from kernelsieve import SparseKernelPCA

INF = float("inf")
# module of kernelsieve, constant, the value that switches it off
SWITCHES: list[tuple[str, str, Any]] = [
    ("search.moved", "KMEANS_STEPS", 1),
    ("search.moved", "RACE_SHARE", 0.0),
    ("search.moved", "COARSE_SHARE", 0.0),
    ("search.moved", "COARSE_GAIN", 0.0),
    ("search.moved", "NEARLY_ALL", 0.0),
    ("search.moved", "LEAST_MISSED", INF),
    ("search.moved", "ANY_RULE_WORK", 0),
    ("search.exchange", "MISSED", 0.0),
    ("search.exchange", "WORTH_A_TRY", 0.0),
    ("search.exchange", "CLOSE_BEHIND", 0.0),
    ("search.subspace", "MIN_FEATURES", 10**9),
    ("search.subspace", "WIDE", INF),
    ("search.subspace", "SHORT_SIDE", 0),
    ("search.subspace", "SHORT_DIRECTIONS", 0),
    ("search.subspace", "DIRECTIONS_PER_COMPONENT", 0),
    ("search.objective", "FLOAT32_PIVOT", INF),
    ("search.objective", "METRIC_RIDGE", 0.001),
    ("search.objective", "MAX_ROUNDING", INF),
    ("search.how_many", "GROWING", 0.0),
    ("search.how_many", "FAR_BEYOND", INF),
    ("search.how_many", "HOPELESS", -1.0),
    ("search.how_many", "MIN_GROWTH", 1.0),
    ("search.chooser", "GROWS_ENOUGH", 1.0),
    ("search.chooser", "SEEN_ROWS", 0.0),
    ("fit.sample", "UNEVEN", INF),
    ("fit.sample", "EXACT_ROWS", 10**9),
    ("fit.importance", "HEAVY", INF),
    ("search.best_of_rules", "GOOD_ENOUGH", 0.0),
    ("search.best_of_rules", "NOT_SEEN_INDEFINITE", 0.0),
    ("search.best_of_rules", "TRY_ALL_WORK", 0.0),
    ("search.best_of_rules", "TRIES", 1),
    ("search.best_of_rules", "KMEANS_TRIES", 1),
    ("search.best_of_rules", "DEFAULT_SWAPS", 0),
    ("search.best_of_rules", "GAIN_WORK", 0.0),
]
WIDTHS = (0.25, 1.0, 4.0, 16.0)
SIZES = ((2, 10), (10, 20), (10, 50), (30, 60))


def standardised(rows: np.ndarray) -> np.ndarray:
    return (rows - rows.mean(axis=0)) / np.where(rows.std(axis=0) > 0, rows.std(axis=0), 1.0)


def made(seed: int, make: Callable[[np.random.Generator], np.ndarray]) -> np.ndarray:
    return make(np.random.default_rng(seed))


TABLES: dict[str, Callable[[], np.ndarray]] = {
    "digits": lambda: load_digits().data,
    "USPS": lambda: np.concatenate([usps().train, usps().test])[:5000],
    "iris": lambda: load_iris().data,
    "wine": lambda: load_wine().data,
    "cancer": lambda: standardised(load_breast_cancer().data),
    "heavy": lambda: made(0, lambda r: r.standard_t(2, (5000, 4)) @ r.standard_normal((4, 12))),
    "lognormal": lambda: standardised(made(1, lambda r: np.exp(r.standard_normal((5000, 12))))),
    "curved": lambda: made(2, lambda r: np.sin(r.uniform(0, 3, (6000, 3)) @ r.standard_normal((3, 20)))),
    "columns": lambda: made(
        3, lambda r: r.standard_normal((3000, 9)) @ r.standard_normal((9, 200)) + 0.4 * r.standard_normal((3000, 200))
    ),
    "wide": lambda: made(
        4,
        lambda r: (
            r.standard_normal((300, 40)) @ r.standard_normal((40, 1500)) / 40 + 0.02 * r.standard_normal((300, 1500))
        ),
    ),
}


@cache
def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    rows = TABLES[name]()
    order = np.random.default_rng(0).permutation(len(rows))
    rows = rows[order]
    return rows[: 2 * len(rows) // 3], rows[2 * len(rows) // 3 :]


def cells() -> list[tuple[str, str, float, int, int | str]]:
    found: list[tuple[str, str, float, int, int | str]] = []
    for name in TABLES:
        found += [(name, "rbf", w, M, m) for w in WIDTHS for M, m in SIZES]
        found += [(name, "rbf", w, 5, "auto") for w in (1.0, 4.0)]
    found += [(name, "sigmoid", 4.0, 5, m) for name in ("digits", "wine", "iris", "cancer") for m in (12, 30, "auto")]
    found += [(name, "callable", 1.0, 5, m) for name in ("digits", "curved") for m in (12, 30)]
    return found


def fit_cell(cell: tuple[str, str, float, int, int | str]) -> tuple[float, float, int] | None:
    name, kernel, width, n_components, n_support = cell
    train, test = table(name)
    gamma = 1 / (2 * (width * np.median(pdist(train[:600]))) ** 2)
    options = {"gamma": gamma, "coef0": 0.2} if kernel == "sigmoid" else {"gamma": gamma}
    values = getattr(pairwise, "sigmoid_kernel" if kernel == "sigmoid" else "rbf_kernel")

    def k(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return values(X, Y, **options)

    model = SparseKernelPCA(
        n_components, n_support=n_support, kernel=k if kernel == "callable" else kernel, random_state=0
    )
    if kernel != "callable":
        model.set_params(**options)
    start = time.process_time()
    try:
        model.fit(train)
    except ValueError:
        return None
    seconds = time.process_time() - start
    return float(np.var(model.transform(test), axis=0).sum()), seconds, int(model.n_support_)


def run(switch: tuple[str, str, Any] | None, cell: Any) -> tuple[float, float, int] | None:
    warnings.simplefilter("ignore")
    if switch is None:
        return fit_cell(cell)
    module = importlib.import_module(f"kernelsieve.{switch[0]}")
    before = getattr(module, switch[1])
    setattr(module, switch[1], switch[2])
    try:
        return fit_cell(cell)
    finally:
        setattr(module, switch[1], before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="constants whose name has this text")
    arguments = parser.parse_args()
    chosen = [None, None, *(s for s in SWITCHES if arguments.only in f"{s[0]}.{s[1]}")]
    every = cells()
    with suppress(MissingData):
        table("USPS")
    with ProcessPoolExecutor(arguments.jobs) as pool:
        futures = [[pool.submit(run, switch, cell) for cell in every] for switch in chosen]
        found = [[future.result() for future in row] for row in futures]
    plain = found[0]
    print(
        "| constant | off | cells changed | mean loss | worst loss | cells that lose > .001 | points of auto | time |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for switch, row in zip(chosen[1:], found[1:], strict=True):
        both = [(a, b, cell) for a, b, cell in zip(plain, row, every, strict=True) if a and b]
        losses = np.array([(a[0] - b[0]) / a[0] for a, b, _ in both])
        missing = sum(a is not None and b is None for a, b in zip(plain, row, strict=True))
        worst = int(np.argmax(losses))
        auto = [b[2] / a[2] for a, b, cell in both if cell[4] == "auto"]
        name, off = ("(nothing: noise)", "") if switch is None else (f"{switch[0]}.{switch[1]}", str(switch[2]))
        seconds = sum(b[1] for _, b, _ in both) / sum(a[1] for a, _, _ in both)
        where = "/".join(map(str, both[worst][2]))
        line = [name, off, f"{int(np.sum(losses != 0))} of {len(both)}", f"{losses.mean():+.5f}"]
        line += [f"{losses[worst]:+.4f} ({where})", f"{int(np.sum(losses > 0.001))}"]
        line += [f"{np.exp(np.mean(np.log(auto))):.3f}x", f"{seconds:.3f}x", f"{missing} fail" if missing else ""]
        print("| " + " | ".join(line) + " |")


if __name__ == "__main__":
    main()
