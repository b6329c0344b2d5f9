"""This library against scikit-learn's exact kernel PCA and Nystroem + PCA, measured on held-out rows.

All three end in scores that are projections on orthonormal directions of feature space (for Nystroem + PCA because
its features are coordinates in an orthonormal basis of the sampled points' span).  So one number compares them:

    captured = sum_k var(score_k) over rows that no method has seen

Its share of the total feature-space variance of those rows, mean k(x, x) - mean k(x, y), says how much of the data
the components tell; its share of exact kernel PCA's says what the fewer points cost.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from time import perf_counter
from typing import Any, Self

import numpy as np

from ..kernels import NAMED_KERNELS, kernel_type, named_kernel
from .wording import duration

# Rows whose gram gives the total variance: its mean is known to far less than a percent.
MAX_TOTAL_ROWS = 2000
# Exact kernel PCA holds the gram and, for a moment, a copy of it.
MEMORY_SHARE = 0.5
REPEATS = 3  # of what is timed, where it is quick
QUICK_SECONDS = 1.0
ENOUGH_SECONDS, MAX_REPEATS = 0.1, 50
# Of the kernels that are functions of rows, their own parameters, which scikit-learn calls the same.
KINDS = [kernel_type(name) for name in NAMED_KERNELS if not kernel_type(name).precomputed]
KERNEL_KEYWORDS = {kind.name: [field.name for field in fields(kind)] for kind in KINDS}  # type: ignore[arg-type]


@dataclass(frozen=True)
class Setting:
    """What all methods share."""

    n_components: int
    kernel: str
    gamma: float | str | None  # a number wherever scikit-learn is to understand it
    degree: float = 3
    coef0: float = 1
    seed: int = 0

    def scikit_kernel(self) -> dict[str, Any]:
        """Keywords of scikit-learn's kernel estimators, the kernel's own parameters only."""
        return {"kernel": self.kernel, **{name: getattr(self, name) for name in KERNEL_KEYWORDS[self.kernel]}}


@dataclass(frozen=True)
class Method:
    """A name, the kernel evaluations that a row costs, and what makes an unfitted estimator."""

    name: str
    n_points: int
    make: Callable[[], Any]


@dataclass(frozen=True)
class Result:
    """What a method reached; `note` instead of numbers where it was left out."""

    name: str
    n_points: int
    captured: float = float("nan")
    fit_seconds: float = float("nan")
    transform_seconds: float = float("nan")
    note: str = ""


def exact(setting: Setting, n_train: int) -> Method:
    """scikit-learn's KernelPCA with its fast solver: "auto" would go dense and flatter us."""
    return Method("exact KernelPCA", n_train, lambda: ExactKernelPCA(setting))


class ExactKernelPCA:
    """scikit-learn's KernelPCA for any named kernel; its own names are fewer than its kernel functions."""

    def __init__(self, setting: Setting) -> None:
        from sklearn.decomposition import KernelPCA

        keywords = setting.scikit_kernel()
        self._gram: Callable[[Any, Any], Any] | None = None
        if setting.kernel not in KernelPCA._parameter_constraints["kernel"][0].options:
            self._gram = partial(_gram, setting)
            keywords = {"kernel": "precomputed"}
        self._model = KernelPCA(setting.n_components, eigen_solver="arpack", random_state=setting.seed, **keywords)

    def fit(self, rows: np.ndarray) -> Self:
        """Fit to rows, or to their gram."""
        self._rows = rows
        self._model.fit(rows if self._gram is None else self._gram(rows, rows))
        return self

    def transform(self, rows: np.ndarray) -> np.ndarray:
        """Scores."""
        return np.asarray(self._model.transform(rows if self._gram is None else self._gram(rows, self._rows)))


def _gram(setting: Setting, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    keywords = setting.scikit_kernel()
    return np.asarray(named_kernel(keywords.pop("kernel"), **keywords)(rows, others))


def ours(setting: Setting, n_support: int | float | str, **keywords: Any) -> Method:
    """SparseKernelPCA."""
    from .. import SparseKernelPCA

    def make() -> Any:
        return SparseKernelPCA(
            setting.n_components,
            n_support=n_support,
            kernel=setting.kernel,
            gamma=setting.gamma,
            degree=setting.degree,
            coef0=setting.coef0,
            random_state=setting.seed,
            **keywords,
        )

    return Method("kernelsieve", n_support if isinstance(n_support, int) else 0, make)


def nystroem(setting: Setting, n_points: int) -> Method:
    """scikit-learn's Nystroem features, then PCA."""
    from sklearn.decomposition import PCA
    from sklearn.kernel_approximation import Nystroem
    from sklearn.pipeline import make_pipeline

    def make() -> Any:
        features = Nystroem(n_components=n_points, random_state=setting.seed, **setting.scikit_kernel())
        return make_pipeline(features, PCA(setting.n_components, random_state=setting.seed))

    return Method("Nystroem + PCA", n_points, make)


@dataclass(frozen=True)
class Comparison:
    """Results of all methods, the gamma they shared, and the total variance of the held-out rows."""

    results: list[Result]
    gamma: float
    total: float


def compare_methods(
    setting: Setting,
    n_support: int | float | str,
    train: np.ndarray,
    test: np.ndarray,
    max_gram_gb: float,
    tell: Callable[[str], Any],
    **keywords: Any,
) -> Comparison:
    """Exact kernel PCA where its gram fits, ours, and Nystroem + PCA with as many points as ours."""
    tell("fitting kernelsieve")
    own, model = measure_quick(ours(setting, n_support, **keywords), train, test)
    setting = replace(setting, gamma=float(model.gamma_))
    exact_method = exact(setting, len(train))
    note = why_no_exact(len(train), max_gram_gb)
    tell(f"fitting {exact_method.name}")
    reference = Result(exact_method.name, len(train), note=note)
    if not note:
        reference = measure_quick(exact_method, train, test)[0]
    sampled = nystroem(setting, min(own.n_points, len(train)))
    tell(f"fitting {sampled.name}")
    results = [reference, own, measure_quick(sampled, train, test)[0]]
    return Comparison(results, float(model.gamma_), total_variance(setting, test))


def captured_variance(model: Any, rows: np.ndarray) -> float:
    """The variance of the rows along the model's components."""
    return float(np.var(np.asarray(model.transform(rows)), axis=0, dtype=np.float64).sum())


def total_variance(setting: Setting, rows: np.ndarray) -> float:
    """The feature-space variance of the rows, from at most `MAX_TOTAL_ROWS` of them."""
    chosen = rows[np.random.default_rng(setting.seed).permutation(len(rows))[:MAX_TOTAL_ROWS]]
    gram = _gram(setting, chosen, chosen)
    return float(np.diagonal(gram).mean() - gram.mean())


def measure(methods: Sequence[Method], train: np.ndarray, test: np.ndarray, repeats: int = 1) -> list[Result]:
    """Fit and time all methods, best of `repeats`, taking turns so that a busy moment hits all alike."""
    results = [measure_one(method, train, test)[0] for method in methods]
    for _ in range(repeats - 1):
        again = [measure_one(method, train, test)[0] for method in methods]
        results = [_better(*both) for both in zip(results, again, strict=True)]
    return results


def measure_one(method: Method, train: np.ndarray, test: np.ndarray) -> tuple[Result, Any]:
    """Fit and time one method; the model comes with the result."""
    start = perf_counter()
    model = method.make().fit(train)
    fit_seconds = perf_counter() - start
    transform_seconds = _best_seconds(model.transform, test)
    n_points = getattr(model, "n_support_", method.n_points)
    return Result(method.name, n_points, captured_variance(model, test), fit_seconds, transform_seconds), model


def measure_quick(method: Method, train: np.ndarray, test: np.ndarray) -> tuple[Result, Any]:
    """As `measure_one`, again while that is quick: a first fit also pays for imports and cold caches."""
    result, model = measure_one(method, train, test)
    for _ in range(REPEATS - 1):
        if result.fit_seconds < QUICK_SECONDS:
            result = _better(result, measure_one(method, train, test)[0])
    return result, model


def _better(first: Result, second: Result) -> Result:
    """One result with the shorter times of two runs."""
    return replace(
        first,
        fit_seconds=min(first.fit_seconds, second.fit_seconds),
        transform_seconds=min(first.transform_seconds, second.transform_seconds),
    )


def _best_seconds(function: Callable[[Any], Any], argument: Any) -> float:
    """The best of three runs, and of more while they take no time: short ones suffer most from a busy moment."""
    times: list[float] = []
    while len(times) < REPEATS or (sum(times) < ENOUGH_SECONDS and len(times) < MAX_REPEATS):
        start = perf_counter()
        function(argument)
        times.append(perf_counter() - start)
    return min(times)


def why_no_exact(n_train: int, limit_gb: float) -> str:
    """Why exact kernel PCA is left out, or nothing where its gram fits."""
    n_bytes = 8 * n_train**2
    available = available_memory()
    size = f"its gram of {n_train:,} x {n_train:,} takes {gigabytes(n_bytes)}"
    if n_bytes > limit_gb * 1e9:
        return f"left out: {size}, allowed are {limit_gb:g} (--max-gram)"
    if available is not None and n_bytes > MEMORY_SHARE * available:
        return f"left out: {size}, twice over, and {gigabytes(available)} of memory are free"
    return ""


def gigabytes(n_bytes: float) -> str:
    """A size in GB, small ones with two digits."""
    size = n_bytes / 1e9
    return f"{size:,.0f} GB" if size >= 10 else f"{size:.2g} GB"


def available_memory() -> int | None:
    """Bytes of memory that can be had now, where the system tells."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def comparison_table(
    results: Sequence[Result], total: float, n_test: int, title: str, points: str = "support\npoints"
) -> Any:
    """A rich Table of results, exact kernel PCA's first; shares of what that captured where it ran."""
    from rich.table import Table

    reference = results[0].captured
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    table.add_column("method")
    for heading in (points, "captured\nheld out", "of exact", "fit", f"transform\n{n_test:,} rows"):
        table.add_column(heading, justify="right")
    for result in results:
        table.add_row(*_cells(result, total, reference), style="bold" if result.name == "kernelsieve" else None)
    return table


def _cells(result: Result, total: float, reference: float) -> list[str]:
    cells = [result.name, f"{result.n_points:,}"]
    if result.note:
        return [*cells, "-", "-", "-", "-"]
    of_exact = "-" if np.isnan(reference) else f"{100 * result.captured / reference:.1f} %"
    shares = [f"{100 * result.captured / total:.1f} %", of_exact]
    return cells + shares + [duration(result.fit_seconds), duration(result.transform_seconds)]
