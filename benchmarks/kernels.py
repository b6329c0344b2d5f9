"""Kernels as objects and rows that are not vectors: time against RBF, moved points against rows, values asked for."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import kernels as gp

from experiments.datasets import load_file, mnist, usps
from kernelsieve import SparseKernelPCA
from kernelsieve import kernels as k
from kernelsieve.kernels.width import KernelRows

from .report import Report

M = 5
BUDGETS = (1.1, 1.5, 3.0)  # in N m
N_STRINGS, N_EXACT = 20_000, 2_000


def processor_times(contestants: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """The least processor time of each, taken in turns."""
    best = dict.fromkeys(contestants, np.inf)
    for _ in range(repeats):
        for name, function in contestants.items():
            start = time.process_time()
            function()
            best[name] = min(best[name], time.process_time() - start)
    return best


def fit(X: Any, kernel: Any, n_support: float = 50, **options: Any) -> SparseKernelPCA:
    """A model of the rows, on one thread."""
    model = SparseKernelPCA(M, n_support=n_support, kernel=kernel, random_state=0, n_jobs=1, **options)
    return model.fit(X)


def fit_times(X: np.ndarray, kernels: dict[str, Any], repeats: int = 5) -> dict[str, float]:
    """Processor time of a fit with each of the kernels."""
    return processor_times({name: partial(fit, X, kernel) for name, kernel in kernels.items()}, repeats)


def held_out(model: Any, rows: Any) -> float:
    """Variance of held-out rows along the model's components."""
    return float(model.transform(rows).var(axis=0).sum())


def ten_columns(n_rows: int = 10_000) -> np.ndarray:
    """Rows of ten related columns without negative numbers."""
    rng = np.random.default_rng(0)
    X = np.abs(rng.standard_normal((n_rows, 10)) @ rng.standard_normal((10, 10)))
    return np.asarray(X / X.max(axis=0))


def times(report: Report) -> None:
    """A fit with every kernel that has a gradient, against one with RBF."""
    report.section(
        "Kernels: time of a fit against RBF",
        "10,000 rows of 10 columns, m = 50, M = 5, one thread; least processor time of five fits, in turns.",
    )
    found = fit_times(
        ten_columns(),
        {
            "RBF": k.RBF(),
            "RBF, a width for every column": k.RBF(width="median per column"),
            "Matern 3/2": k.Matern(),
            "Matern 1/2": k.Matern(nu=0.5),
            "RationalQuadratic": k.RationalQuadratic(),
            "Cauchy": k.Cauchy(),
            "Polynomial": k.Polynomial(),
            "Tanimoto": k.Tanimoto(),
            "Laplacian": k.Laplacian(),
            "Periodic": k.Periodic(period=2.0),
            "Chi2": k.Chi2(),
            "HistogramIntersection": k.HistogramIntersection(),
            "Jaccard": k.Jaccard(),
            "ANOVA": k.ANOVA(),
            "ANOVA, degree 2": k.ANOVA(degree=2),
            "Spline": k.Spline(),
            "Bessel": k.Bessel(),
            "RBF + Linear": k.RBF() + 0.1 * k.Linear(),
            "RBF.on * Matern.on": k.RBF().on([0, 1, 2]) * k.Matern().on(slice(3, 10)),
            "normalized(Polynomial)": k.normalized(k.Polynomial()),
            "from_distance": k.from_distance("euclidean"),
        },
    )
    reference = found.pop("RBF")
    report.line("RBF", "", f"{1000 * reference:.0f} ms", None)
    for name, seconds in found.items():
        report.at_most(f"{name} / RBF", seconds / reference, 2.0)


def gaussian_processes(report: Report) -> None:
    """scikit-learn's kernel objects against ours of the same name, and by call."""
    report.section("Kernels: those of scikit-learn's Gaussian processes", "As above; a fit against ours.")
    X, width = ten_columns(), 0.5
    pairs = {
        "RBF": (gp.RBF(width), k.RBF(width=width)),
        "Matern 5/2": (gp.Matern(width, nu=2.5), k.Matern(2.5, width=width)),
        "RationalQuadratic": (gp.RationalQuadratic(width, 0.7), k.RationalQuadratic(0.7, width=width)),
        "2 * RBF + DotProduct": (
            gp.ConstantKernel(2.0) * gp.RBF(width) + gp.DotProduct(0.1),
            2.0 * k.RBF(width=width) + (k.Linear() + 0.01),
        ),
    }
    for name, (theirs, ours) in pairs.items():
        found = fit_times(X, {"theirs": theirs, "ours": ours})
        report.at_most(f"{name} / ours", found["theirs"] / found["ours"], 1.2)
    by_call = gp.Matern(width, nu=2.5)
    found = processor_times(
        {
            rule: partial(fit, X, lambda a, b: by_call(a, b), selection=rule)
            for rule in ("optimized", "targeted", "kmeans")
        },
        3,
    )
    report.at_most("by call: optimized / targeted", found["optimized"] / found["targeted"], 1.5)


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Three tables, standardised, in two halves."""
    images = usps()
    found = {"USPS": (images.train, images.test)}
    for name in ("spam", "tep_braatz"):
        arrays = load_file(name)
        X = np.asarray(
            arrays["x"] if "x" in arrays else np.vstack([arrays[f"d{i:02}_te"] for i in range(22)]), dtype=float
        )
        X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
        order = np.random.default_rng(0).permutation(len(X))[:6000]
        found[name] = X[order[::2]], X[order[1::2]]
    return found


def moved_points(report: Report) -> None:
    """What moved points keep against rows, held out."""
    report.section(
        "Kernels: moved points against rows",
        "Held-out captured variance of moved points over that of targeted rows, M = 5; the kernels' median width.",
    )
    for name, (train, test) in tables().items():
        half = train.shape[1] // 2
        kernels = {
            "Matern 3/2": k.Matern(),
            "Matern 5/2": k.Matern(nu=2.5),
            "RationalQuadratic": k.RationalQuadratic(),
            "RBF.on * Matern.on": k.RBF().on(slice(0, half)) * k.Matern().on(slice(half, None)),
            "RBF, a width for every column": k.RBF(width="median per column"),
        }
        for title, kernel in kernels.items():
            for n_support in (20, 50):
                rows = held_out(fit(train, kernel, n_support, selection="targeted"), test)
                gain = held_out(fit(train, kernel, n_support), test) / rows
                report.at_least(f"{name}, {title}, m = {n_support}", gain, 1.0)


def values_of_a_callable(report: Report) -> None:
    """Kernel values that a fit asks a function for, and what they buy."""
    report.section(
        "Kernels: values that a fit asks a function for",
        "10,000 rows, m = 50, M = 5, targeted rows; captured variance of 2,000 held-out rows over that of a fit "
        "without a budget, mean of five random_states.",
    )
    images = mnist(12_000).train
    for name, X in {"ten columns": ten_columns(12_000), "MNIST": images}.items():
        train, test = X[:10_000], X[-2_000:]
        gamma = k.RBF().settled(KernelRows(train[:800])).gamma
        kernel = partial(_gaussian, gamma)
        kept, asked = [], []
        for seed in range(5):
            free, bound = (
                SparseKernelPCA(
                    M, n_support=50, kernel=kernel, selection="targeted", max_evaluations=budget, random_state=seed
                ).fit(train)
                for budget in (None, 1.3)
            )
            kept.append(held_out(bound, test) / held_out(free, test))
            asked.append(bound.n_evaluations_ / (10_000 * 50))
        report.at_most(f"{name}: values, N m", max(asked), 1.3, form="{:.3f}")
        report.at_least(f"{name}: captured", float(np.mean(kept)), 0.97, note=f" (least {min(kept):.4f})")


def _gaussian(gamma: float, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.exp(-gamma * cdist(x, y, "sqeuclidean"))


def intervals(report: Report) -> None:
    """How often the interval of the ratio holds the truth, which exact kernel PCA of all rows knows."""
    n_rows, n_support, n_fits = 2000, 20, 40
    report.section(
        "Kernels: intervals of the ratio under a budget",
        f"Five tables of {n_rows:,} rows, m = {n_support}, M = {M}, {n_fits} random_states each: fits whose 90 % "
        "interval holds the ratio to exact kernel PCA of all rows. More than .95 means that it is too wide.",
    )
    tables = {
        "ten columns": ten_columns(n_rows),
        "MNIST": mnist(n_rows).train[:n_rows],
        "USPS": usps().train[:n_rows],
        "Student's t": np.random.default_rng(7).standard_t(3, (n_rows, 5)),
    }
    grams = {name: _gaussian(k.RBF().settled(KernelRows(X[:800])).gamma, X, X) for name, X in tables.items()}
    strings = np.array(names()[:n_rows], dtype=object)[:, None]
    grams["Unicode names, Spectrum(2)"] = k.Spectrum(2)(strings, strings)
    held: dict[float, list[bool]] = {budget: [] for budget in BUDGETS}
    for gram in grams.values():
        means = gram.mean(axis=0)
        centred = gram - means - means[:, None] + means.mean()
        exact = eigh(centred, eigvals_only=True, subset_by_index=[n_rows - M, n_rows - 1]).sum() / n_rows
        kernel = k.gram_by_number(gram, definite=True)
        for budget in BUDGETS:
            for seed in range(n_fits):
                model = SparseKernelPCA(
                    M, n_support=n_support, kernel=kernel, max_evaluations=budget, random_state=seed, n_jobs=1
                ).fit(np.arange(n_rows))
                low, high = model.captured_ratio_interval_
                held[budget].append(bool(low <= model.explained_variance_.sum() / exact <= high))
    for budget, found in held.items():
        share = float(np.mean(found))
        report.line(
            f"{budget} N m: intervals that hold the truth",
            ".85-.95",
            f"{sum(found)} of {len(found)}",
            0.85 <= share <= 0.95,
        )


def names() -> list[str]:
    """Names of characters, of up to 40 letters: strings that come with Python."""
    found = (unicodedata.name(chr(i), "") for i in range(0x30000))
    strings = [one for one in found if 3 <= len(one) <= 40 and not any(letter.isdigit() for letter in one)]
    order = np.random.default_rng(0).permutation(len(strings))
    return [strings[i] for i in order[: N_STRINGS + N_EXACT]]


def ink_profiles() -> list[np.ndarray]:
    """How much ink is in each column of MNIST's digits, without the empty columns: series of different lengths."""
    images = mnist(N_STRINGS + N_EXACT).train.reshape(-1, 28, 28)
    return [one[one > 0] for one in images.sum(axis=1) / images.max() / 10]


def strings(report: Report) -> None:
    """20,000 strings and series, against exact kernel PCA of 2,000 of them."""
    report.section(
        "Kernels: rows that are not vectors",
        f"{N_STRINGS:,} rows, m = 100, M = 5, max_evaluations=1.3: variance of {N_EXACT:,} held-out rows against "
        f"exact kernel PCA of {N_EXACT:,} rows; processor time against that of all N (N + 1) / 2 values.",
    )
    cases: dict[str, tuple[Callable[[], Sequence[Any]], Any]] = {
        "Unicode names, Spectrum(2)": (names, k.Spectrum(2)),
        "Unicode names, Levenshtein(10)": (names, k.Levenshtein(10.0)),
        "ink profiles, GlobalAlignment(1)": (ink_profiles, k.GlobalAlignment(1.0)),
    }
    for name, (load, kernel) in cases.items():
        objects = load()
        if len(objects) < N_STRINGS + N_EXACT:
            report.skip(name, f"there are {len(objects):,} of them")
            continue
        train, test = list(objects[:N_STRINGS]), list(objects[N_STRINGS:])
        start = time.process_time()
        model = fit(train, kernel, 100, max_evaluations=1.3)
        ours = time.process_time() - start
        start = time.process_time()
        exact = fit(train[:N_EXACT], kernel, 1.0)
        whole = (time.process_time() - start) * (N_STRINGS / N_EXACT) ** 2
        report.at_least(f"{name}: captured", held_out(model, test) / held_out(exact, test), 0.95)
        report.at_most(f"{name}: values, N m", model.n_evaluations_ / (N_STRINGS * 100), 1.3, form="{:.3f}")
        report.line(f"{name}: seconds, against N^2", "", f"{ours:.0f} against {whole:.0f}", ours < whole)
