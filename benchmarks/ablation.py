"""Each number of the search switched off in turn: what is it worth, held out and in time?

    python -m benchmarks.ablation [--jobs 16] [--only TEXT]

Every line of the table gives the search a plan in which one number does nothing, or is half or twice as much, and fits
the same cells as the plain search.  It reports the mean and the worst change of the variance captured on held-out rows
(by the scores of a model, whose components are unit vectors), relative to the plain search, and the change of processor
time.  Cells are tables (raw, heavy-tailed, few rows, many columns) x widths x components and points, and the number of
points left to "auto".
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import replace
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
from kernelsieve.fit.plan import PLAN, SearchPlan

INF = float("inf")
# Fields of the SearchPlan, and values that switch them off or make them twice or half as much.
SWITCHES: list[tuple[str, Any]] = [
    ("search_rows", 2000),
    ("search_rows_per_point", 25),
    ("evaluation_rows", 500),
    ("evaluation_rows_per_point", 2),
    ("full_price_points", 10**9),
    ("all_evaluated", 1000),
    ("pool_per_evaluation_row", 1),
    ("uneven_tails", INF),
    ("heavy_tails", INF),
    ("fresh_rows", 500),
    ("fresh_rows_of_callable", 1000),
    ("rows_to_choose_from", 4),
    ("kmeans_steps", 1),
    ("race_share", 0.0),
    ("many_points", 30),
    ("many_points", 10**9),
    ("coarse_share", 0.0),
    ("least_gain", 0.0),
    ("kept_enough", 1.0),
    ("least_missed", INF),
    ("missed", 0.0),
    ("worth_a_try", 0.0),
    ("exchange_share", 0.25),
    ("close_behind", 0.0),
    ("any_rule_work", 0.0),
    ("rows_lead", INF),
    ("min_features", 10**9),
    ("max_lost_exponent", 0.2),
    ("wide_kernel", INF),
    ("lost_of_wide", 0.2),
    ("directions_per_component", 0),
    ("extra_directions", 0),
    ("first_extra_points", 16),
    ("many_carriers", 0.0),
    ("few_carriers", 1.0),
    ("first_exponent", 1.0),
    ("exponents", (0.05, 20.0)),
    ("growing_exponent", 0.0),
    ("aim_low", 1.0),
    ("max_sizes", 10),
    ("growth", (1.0, 10.0)),
    ("close_enough", 1.05),
    ("far_beyond", INF),
    ("grows_enough", 1.0),
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


def fit_cell(cell: tuple[str, str, float, int, int | str], plan: SearchPlan) -> tuple[float, float, int] | None:
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
    model._plan = plan
    start = time.process_time()
    try:
        model.fit(train)
    except ValueError:
        return None
    seconds = time.process_time() - start
    return float(np.var(model.transform(test), axis=0).sum()), seconds, int(model.n_support_)


def run(switch: tuple[str, Any] | None, cell: Any) -> tuple[float, float, int] | None:
    warnings.simplefilter("ignore")
    return fit_cell(cell, PLAN if switch is None else replace(PLAN, **{switch[0]: switch[1]}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="numbers whose name has this text")
    arguments = parser.parse_args()
    chosen = [None, None, *(s for s in SWITCHES if arguments.only in s[0])]
    every = cells()
    with suppress(MissingData):
        table("USPS")
    with ProcessPoolExecutor(arguments.jobs) as pool:
        futures = [[pool.submit(run, switch, cell) for cell in every] for switch in chosen]
        found = [[future.result() for future in row] for row in futures]
    plain = found[0]
    print(
        "| number | given | cells changed | mean loss | worst loss | cells that lose > .001 | points of auto | time |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for switch, row in zip(chosen[1:], found[1:], strict=True):
        both = [(a, b, cell) for a, b, cell in zip(plain, row, every, strict=True) if a and b]
        losses = np.array([(a[0] - b[0]) / a[0] for a, b, _ in both])
        missing = sum(a is not None and b is None for a, b in zip(plain, row, strict=True))
        worst = int(np.argmax(losses))
        auto = [b[2] / a[2] for a, b, cell in both if cell[4] == "auto"]
        name, off = ("(nothing: noise)", "") if switch is None else (switch[0], str(switch[1]))
        seconds = sum(b[1] for _, b, _ in both) / sum(a[1] for a, _, _ in both)
        where = "/".join(map(str, both[worst][2]))
        line = [name, off, f"{int(np.sum(losses != 0))} of {len(both)}", f"{losses.mean():+.5f}"]
        line += [f"{losses[worst]:+.4f} ({where})", f"{int(np.sum(losses > 0.001))}"]
        line += [f"{np.exp(np.mean(np.log(auto))):.3f}x", f"{seconds:.3f}x", f"{missing} fail" if missing else ""]
        print("| " + " | ".join(line) + " |")


if __name__ == "__main__":
    main()
