"""The frontier: on every table, at every width, is the default as good as the best other rule, and is it honest?

    python -m benchmarks.frontier [--slice 8] [--jobs 2] [--cache FOLDER] [--again default] [--only TEXT ...]
    python -m benchmarks.frontier --auto [--seeds 10]

A cell is a table, a kernel with its width, M components and m points.  In each the default and every other rule fit
the training rows; captured variance is measured by a generalised eigenproblem of its own (never by what the model
says), on training and on held-out rows, against exact kernel PCA in float64.  Cells that are done are kept in the
cache folder, so a run that was stopped goes on where it was; `--again` does some rules again, `--slice k` takes every
k-th cell.  With `--auto` the number of points is left to the fit: what it keeps, over `--seeds` seeds, and what
finding the number costs beside a fit that is given it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # one process a core, one BLAS thread each

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.metrics import pairwise

from experiments.datasets import MissingData, Split, median_gamma
from kernelsieve import SparseKernelPCA

from .frontier_data import DATA
from .frontier_summary import summarise

RULES = ("targeted", "gain", "rpcholesky", "kmeans", "residual", "leverage", "uniform", "farthest", "dissimilar")
SIZES = {2: (3, 20, 50), 10: (11, 20, 50, 100, 200), 30: (31, 50, 100, 200)}
FEW_SIZES = {2: (3, 20), 10: (11, 20, 50)}
# Sparse rows, of which more points must never keep less.
SPARSE_SIZES = {20: (20, 50, 100, 200, 400, 1000)}
SPARSE = {"few words": ("rbf 1", "cosine"), "words": ("rbf 1", "cosine")}
MOST_COMPONENTS = max(SIZES)
# (kernel, width in medians, further parameters); the Gaussian at every size, the others at a few.
KERNELS: dict[str, tuple[str, float, dict[str, Any]]] = {
    **{f"rbf {width:g}": ("rbf", width, {}) for width in (0.25, 1.0, 2.0, 4.0, 8.0, 16.0)},
    "laplacian 1": ("laplacian", 1.0, {}),
    "laplacian 4": ("laplacian", 4.0, {}),
    "poly 2": ("poly", 1.0, {"degree": 2}),
    "poly 3": ("poly", 1.0, {"degree": 3}),
    "sigmoid 0": ("sigmoid", 1.0, {"coef0": 0.0}),
    "sigmoid 1": ("sigmoid", 4.0, {"coef0": 1.0}),
    "linear": ("linear", 1.0, {}),
    "cosine": ("cosine", 1.0, {}),
}


@dataclass(frozen=True)
class Cell:
    data: str
    kernel: str
    n_components: int
    n_support: int | str
    seed: int = 0
    single: bool = False  # float32 rows

    @property
    def key(self) -> str:
        return "|".join(str(value) for value in asdict(self).values())


def cells(every: int, automatic: bool, n_seeds: int = 1) -> list[Cell]:
    """All cells, or every so many of them, the same ones in every run, each with so many seeds."""
    found = []
    for data in DATA:
        for kernel in SPARSE.get(data, KERNELS):
            sizes = SPARSE_SIZES if data in SPARSE else SIZES if kernel.startswith("rbf") else FEW_SIZES
            for n_components, numbers in sizes.items():
                for n_support in ("auto",) if automatic else numbers:
                    cell = Cell(data, kernel, n_components, n_support)
                    cell = Cell(*list(asdict(cell).values())[:4], single=zlib.crc32(cell.key.encode()) % 4 == 0)
                    found.append(cell)
    chosen = [cell for cell in found if zlib.crc32(("slice" + cell.key).encode()) % every == 0]
    return [replace(cell, seed=seed) for cell in chosen for seed in range(n_seeds)]


@cache
def table(name: str) -> Split | None:
    try:
        return DATA[name]()
    except MissingData:
        return None


def kernel_function(data: Split, kernel: str) -> tuple[dict[str, Any], Any]:
    """Parameters of the estimators, and k(X, Y) by scikit-learn."""
    name, width, more = KERNELS[kernel]
    params = dict(more)
    if name == "laplacian":
        few = data.train[np.random.default_rng(0).choice(len(data.train), min(len(data.train), 800), replace=False)]
        params["gamma"] = 1 / (np.median(pdist(few, "cityblock")) * width)
    elif name not in ("linear", "cosine"):
        params["gamma"] = median_gamma(data.train) / width**2
    if name == "poly":
        params["coef0"] = 1.0
    function = {
        "rbf": pairwise.rbf_kernel,
        "laplacian": pairwise.laplacian_kernel,
        "poly": pairwise.polynomial_kernel,
        "sigmoid": pairwise.sigmoid_kernel,
        "linear": pairwise.linear_kernel,
        "cosine": pairwise.cosine_similarity,
    }[name]
    return {"kernel": name, **params}, lambda X, Y: function(X, Y, **params)


@dataclass(frozen=True)
class Exact:
    """Exact kernel PCA of the training rows."""

    variances: np.ndarray  # (M,) on the training rows
    test_scores: np.ndarray  # (n, M)


@cache
def exact(data: str, kernel: str, folder: str) -> Exact:
    path = Path(folder) / f"exact {data} {kernel}.npz"
    if path.is_file():
        with np.load(path) as kept:
            return Exact(kept["variances"], kept["test_scores"])
    split = table(data)
    assert split is not None
    _, function = kernel_function(split, kernel)
    gram = function(split.train, split.train)
    n, means = len(gram), gram.mean(axis=0)
    gram -= means
    gram -= (means - means.mean())[:, None]
    count = min(MOST_COMPONENTS, n - 1)
    if n <= 1500:
        values, vectors = scipy.linalg.eigh(gram, subset_by_index=(n - count, n - 1))
    else:
        start = np.random.default_rng(0).standard_normal(n)
        values, vectors = scipy.sparse.linalg.eigsh(gram, count, which="LA", v0=start, tol=1e-9)
    order = np.argsort(-values)
    values, vectors = values[order], vectors[:, order]
    positive = values > 1e-12 * values[0]
    values, vectors = values[positive], vectors[:, positive]
    coef = vectors / np.sqrt(values)
    coef -= coef.mean(axis=0)
    scores = function(split.test, split.train) @ coef
    found = Exact(values / n, scores - means @ coef)
    np.savez(path, variances=found.variances, test_scores=found.test_scores)
    return found


def captured_variances(model: Any, function: Any, rows: np.ndarray) -> np.ndarray:
    """Variances of the rows along the model's components, made orthonormal in feature space in float64; descending."""
    points, coef = model.support_vectors_.astype(np.float64), np.asarray(model.dual_coef_, dtype=np.float64)
    scores = function(rows, points) @ coef
    scores -= scores.mean(axis=0)
    metric = coef.T @ function(points, points) @ coef
    return scipy.linalg.eigh(scores.T @ scores / len(scores), (metric + metric.T) / 2, eigvals_only=True)[::-1]


def n_different(rows: Any) -> int:
    return rows.shape[0] if scipy.sparse.issparse(rows) else len(np.unique(rows, axis=0))


def fit_cell(cell: Cell, rule: str, folder: str) -> dict[str, Any] | None:
    split = table(cell.data)
    if split is None:
        return None
    truth = exact(cell.data, cell.kernel, folder)
    m = cell.n_support
    if len(truth.variances) < cell.n_components or (isinstance(m, int) and m >= n_different(split.train)):
        return None
    params, function = kernel_function(split, cell.kernel)
    train = split.train.astype(np.float32) if cell.single else split.train
    selection = "optimized" if rule == "default" else rule
    model = SparseKernelPCA(
        cell.n_components, n_support=m, selection=selection, random_state=cell.seed, n_jobs=1, **params
    )
    result: dict[str, Any] = {"cell": cell.key, **asdict(cell), "rule": rule}
    start = time.perf_counter()
    try:
        model.fit(train)
    except ValueError as error:
        return {**result, "error": str(error)}
    result["seconds"] = time.perf_counter() - start
    if m == "auto":
        given = clone(model).set_params(n_support=model.n_support_)
        start = time.perf_counter()
        with suppress(ValueError):
            given.fit(train)
            result["seconds_given"] = time.perf_counter() - start
    variances, test_scores = truth.variances[: cell.n_components], truth.test_scores[:, : cell.n_components]
    found, total = captured_variances(model, function, split.train), variances.sum()
    # no component of a definite kernel explains more than exact kernel PCA's, and this is the plain ratio; those of an
    # indefinite one may, and a sum in which too much makes up for too little would show nothing
    result["train"] = 1 - np.abs(found - variances).sum() / total
    result["sum"] = found.sum() / total
    result["test"] = captured_variances(model, function, split.test).sum() / test_scores.var(axis=0).sum()
    result["says"] = float(model.explained_variance_.sum() / total)
    result["ratio"] = float(model.captured_ratio_)
    result["kind"] = model.captured_ratio_kind_
    result["interval"] = [float(end) for end in getattr(model, "captured_ratio_interval_", ())]
    result["n_support_"] = int(model.n_support_)
    result["winner"] = model.selection_report_.get("winner")
    if rule == "default":
        result["correlation"] = component_correlation(np.asarray(model.transform(split.test)), test_scores)
    return result


def component_correlation(scores: np.ndarray, truth: np.ndarray) -> float:
    """The least, over exact components, of their correlation with the model's scores regressed on all of them."""
    scores, truth = scores - scores.mean(axis=0), truth - truth.mean(axis=0)
    predicted = scores @ np.linalg.lstsq(scores, truth, rcond=None)[0]
    lengths = np.linalg.norm(predicted, axis=0) * np.linalg.norm(truth, axis=0)
    return float((np.sum(predicted * truth, axis=0) / np.maximum(lengths, 1e-300)).min())


def fit_group(group: list[Cell], rules: tuple[str, ...], done: set[str], folder: str) -> list[dict[str, Any]]:
    """The cells of one table under one kernel, in one process."""
    warnings.simplefilter("ignore")
    found = []
    for cell in group:
        for rule in rules:
            if f"{cell.key}|{rule}" not in done:
                result = fit_cell(cell, rule, folder)
                if result is not None:
                    found.append(result)
    return found


def read(path: Path) -> Iterator[dict[str, Any]]:
    if path.is_file():
        with path.open() as lines:
            yield from map(json.loads, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slice", type=int, default=1, help="take every so many cells")
    parser.add_argument("--auto", action="store_true", help="cells of n_support='auto' instead of given numbers")
    parser.add_argument("--seeds", type=int, default=1, help="fits of every cell, each with a seed of its own")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--cache", default="build/frontier")
    parser.add_argument("--again", nargs="*", default=[], help="rules to do again")
    parser.add_argument("--rules", nargs="*", help="rules to run (default: all)")
    parser.add_argument("--only", nargs="*", default=[], help="cells whose name has one of these texts")
    arguments = parser.parse_args()
    folder = Path(arguments.cache)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "results.jsonl"
    rules = tuple(arguments.rules or (("default",) if arguments.auto else ("default", *RULES)))
    every = cells(arguments.slice, arguments.auto, arguments.seeds)
    chosen = [c for c in every if not arguments.only or any(t in c.key for t in arguments.only)]
    keys = {cell.key for cell in chosen}
    kept = {f"{r['cell']}|{r['rule']}": r for r in read(path)}
    done = {k for k, r in kept.items() if not (r["rule"] in arguments.again and r["cell"] in keys)}
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in chosen:
        groups.setdefault((cell.data, cell.kernel), []).append(cell)
    with ProcessPoolExecutor(arguments.jobs) as pool, path.open("a") as out:
        futures = [pool.submit(fit_group, group, rules, done, str(folder)) for group in groups.values()]
        for future in as_completed(futures):
            for result in future.result():
                kept[f"{result['cell']}|{result['rule']}"] = result
                out.write(json.dumps(result) + "\n")
            out.flush()
    summarise([r for r in kept.values() if r["cell"] in keys])


if __name__ == "__main__":
    main()
