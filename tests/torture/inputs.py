"""Random rows as people have them, and as they should not: shapes, distributions, scales, containers, weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse


@dataclass(frozen=True)
class Given:
    """Rows in the container in which a fit gets them, and as plain numbers for the oracle."""

    X: Any
    dense: np.ndarray | None  # (n, d) float64; None where they are no numbers
    weights: Any
    words: str  # what they are

    @property
    def single(self) -> bool:
        return "float32" in self.words


def choose(rng: np.random.Generator, options: Any, p: Any = None) -> Any:
    """One of the options (numpy's choice would make an array of them)."""
    options = list(options)
    return options[rng.choice(len(options), p=p)]


DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    "normal": lambda rng, n, d: rng.standard_normal((n, d)),
    "clusters": lambda rng, n, d: 4 * rng.standard_normal((4, d))[rng.integers(0, 4, n)] + rng.standard_normal((n, d)),
    "heavy tails": lambda rng, n, d: rng.standard_t(1.5, (n, d)),
    "lognormal": lambda rng, n, d: np.exp(2 * rng.standard_normal((n, d))),
    "binary": lambda rng, n, d: (rng.random((n, d)) < 0.5).astype(float),
    "counts": lambda rng, n, d: rng.poisson(1.0, (n, d)).astype(float),
    "few kinds": lambda rng, n, d: rng.standard_normal((7, d))[rng.integers(0, rng.integers(1, 8), n)],
    "low rank": lambda rng, n, d: rng.standard_normal((n, 2)) @ rng.standard_normal((2, d)),
    "mixed scales": lambda rng, n, d: rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-6, 6, d),
    "constant columns": lambda rng, n, d: np.where(rng.random(d) < 0.6, 3.7, rng.standard_normal((n, d))),
    "an outlier": lambda rng, n, d: rng.standard_normal((n, d)) + 1e6 * (np.arange(n) == n // 2)[:, None],
    "sorted": lambda rng, n, d: np.sort(rng.standard_normal((n, d)), axis=0),
    "constant": lambda rng, n, d: np.full((n, d), choose(rng, [0.0, 1.0, -2.5])),
}
USUAL = [0.14, 0.1, 0.1, 0.06, 0.08, 0.06, 0.1, 0.1, 0.1, 0.06, 0.04, 0.03, 0.03]


def random_rows(rng: np.random.Generator) -> tuple[np.ndarray, str]:
    """Numbers (n, d), and what they are."""
    name = choose(rng, DISTRIBUTIONS, USUAL)
    n = int(
        choose(rng, [rng.integers(1, 6), rng.integers(6, 40), rng.integers(40, 130), 600], [0.06, 0.34, 0.58, 0.02])
    )
    d = int(choose(rng, [1, rng.integers(2, 8), rng.integers(8, 30), 200], [0.1, 0.6, 0.27, 0.03]))
    rows = DISTRIBUTIONS[name](rng, n, d)
    scale, offset = 1.0, 0.0
    match choose(rng, ["as is", "units", "extreme", "offset", "a wild column"], [0.5, 0.15, 0.17, 0.1, 0.08]):
        case "units":
            scale = 10.0 ** float(rng.uniform(-8, 8))
        case "extreme":
            scale = 10.0 ** float(rng.uniform(-300, 300))
        case "offset":
            offset = 10.0 ** float(rng.uniform(2, 9))
        case "a wild column":
            rows[:, int(rng.integers(d))] *= 10.0 ** float(rng.uniform(-300, 300))
    return rows * scale + offset, f"{name} {n} x {d}, times {scale:.3g}, plus {offset:.3g}"


def spoiled(rng: np.random.Generator, rows: np.ndarray) -> tuple[Any, str]:
    """Rows that are none."""
    i, j = int(rng.integers(rows.shape[0])), int(rng.integers(rows.shape[1]))
    match choose(rng, ["nan", "inf", "complex", "text", "no rows", "no columns", "flat", "cube", "ragged", "object"]):
        case "nan":
            rows[i, j] = np.nan
            return rows, "with nan"
        case "inf":
            rows[i, j] = choose(rng, [np.inf, -np.inf])
            return rows, "with inf"
        case "complex":
            return rows + 1j, "complex"
        case "text":
            return np.where(rows > 0, "yes", "no"), "text"
        case "no rows":
            return rows[:0], "no rows"
        case "no columns":
            return rows[:, :0], "no columns"
        case "flat":
            return rows[:, 0], "flat"
        case "cube":
            return rows[None], "cube"
        case "ragged":
            return [[1.0, 2.0], [3.0]], "ragged"
    return np.array([[None, {}]] * 5, dtype=object), "objects"


def _csr(rng: np.random.Generator, rows: np.ndarray) -> Any:
    """Sparse rows as they come: sometimes unsorted, with explicit zeros, with entries given in two parts."""
    sparse = scipy.sparse.csr_matrix(rows if rng.random() < 0.5 else np.where(rng.random(rows.shape) < 0.6, rows, 0))
    if rng.random() < 0.3 and sparse.nnz:
        for start, stop in zip(sparse.indptr[:-1], sparse.indptr[1:], strict=True):  # unsorted
            sparse.indices[start:stop] = sparse.indices[start:stop][::-1].copy()
            sparse.data[start:stop] = sparse.data[start:stop][::-1].copy()
        sparse.has_sorted_indices = False
    if rng.random() < 0.2 and sparse.nnz:  # the same entry in two halves
        halves = scipy.sparse.coo_matrix(sparse)
        twice = np.concatenate([halves.row, halves.row]), np.concatenate([halves.col, halves.col])
        order = np.argsort(twice[0], kind="stable")
        data = np.concatenate([halves.data / 2, halves.data / 2])[order]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(twice[0], minlength=rows.shape[0]))])
        sparse = scipy.sparse.csr_matrix((data, twice[1][order].copy(), indptr), shape=rows.shape)
    return sparse


def _strided(rows: np.ndarray) -> np.ndarray:
    return np.repeat(np.repeat(rows, 2, axis=0), 2, axis=1)[::2, ::2]


def _frozen(rows: np.ndarray) -> np.ndarray:
    rows = rows.copy()
    rows.flags.writeable = False
    return rows


def _cut(rng: np.random.Generator, rows: Any) -> list[Any]:
    bounds = np.unique([0, rows.shape[0], *rng.integers(0, rows.shape[0] + 1, 3).tolist()])
    return [rows[a:b] for a, b in pairwise(bounds)]


# Containers, the share of cases that comes in each, and whether float32 is tried in it.
CONTAINERS: dict[str, float] = {
    "array": 0.44,
    "csr": 0.16,
    "fortran": 0.04,
    "strided": 0.04,
    "frozen": 0.04,
    "integers": 0.04,
    "frame": 0.05,
    "blocks": 0.05,
    "function": 0.05,
    "tensor": 0.06,
    "dask": 0.03,
}


def contained(rng: np.random.Generator, rows: np.ndarray) -> tuple[Any, np.ndarray, str]:
    """The rows in some container; the numbers that are in it; what it is."""
    name = choose(rng, CONTAINERS, list(CONTAINERS.values()))
    if rng.random() < 0.25 and name != "integers":
        with np.errstate(over="ignore", under="ignore"):
            rows = rows.astype(np.float32)
    dtype = str(rows.dtype)
    match name:
        case "csr":
            X = _csr(rng, rows)
            return X, np.asarray(X.toarray(), dtype=np.float64), f"csr {dtype}"
        case "integers":
            kind = choose(rng, [np.int64, np.int32, np.int8])
            limit = 2.0 ** min(40, 8 * np.dtype(kind).itemsize - 2)
            X = np.clip(np.nan_to_num(np.round(rows)), -limit, limit).astype(kind)
            return X, X.astype(np.float64), str(X.dtype)
        case "fortran":
            X = np.asfortranarray(rows)
        case "strided":
            X = _strided(rows)
        case "frozen":
            X = _frozen(rows)
        case "frame":
            import pandas as pd

            X = pd.DataFrame(rows, columns=[f"column {j}" for j in range(rows.shape[1])])
        case "blocks":
            X = _cut(rng, rows)
        case "function":
            parts = _cut(rng, rows)
            X = lambda: iter(parts)  # noqa: E731
        case "tensor":
            import torch
            from stand_in import on_device

            X = torch.as_tensor(rows.copy())
            if rng.random() < 0.5:
                X, name = on_device(X), "tensor as on a device"
        case "dask":
            import dask.array as da

            X = da.from_array(rows, chunks=(max(1, rows.shape[0] // 3), rows.shape[1]))
        case _:
            X = rows
    return X, rows.astype(np.float64), f"{name} {dtype}"


def random_weights(rng: np.random.Generator, n: int) -> tuple[Any, str]:
    """Weights of n rows, some of them none."""
    options: dict[str, Callable[[], Any]] = {
        "ones": lambda: np.ones(n),
        "counts": lambda: rng.integers(0, 4, n),
        "uniform": lambda: rng.random(n),
        "huge": lambda: rng.random(n) * 10.0 ** rng.uniform(10, 308),
        "tiny": lambda: rng.random(n) * 10.0 ** rng.uniform(-300, -10),
        "wide": lambda: 10.0 ** rng.uniform(-12, 12, n),
        "one too many": lambda: np.ones(n + 1),
        "negative": lambda: -np.ones(n),
        "nan": lambda: np.full(n, np.nan),
        "zero": lambda: np.zeros(n),
        "text": lambda: ["a"] * n,
    }
    name = choose(rng, options, [0.1, 0.25, 0.2, 0.1, 0.1, 0.1, 0.03, 0.03, 0.03, 0.03, 0.03])
    return options[name](), f"weights {name}"


def random_input(rng: np.random.Generator) -> Given:
    """Rows and weights for one fit."""
    rows, words = random_rows(rng)
    if rng.random() < 0.04:
        X, how = spoiled(rng, rows)
        return Given(X, None, None, f"{words}, {how}")
    X, dense, container = contained(rng, rows)
    weights, weighted = random_weights(rng, len(dense)) if rng.random() < 0.2 else (None, "no weights")
    return Given(X, dense, weights, f"{words}, {container}, {weighted}")
