"""`kernelsieve compare`: this library, scikit-learn's exact kernel PCA and Nystroem + PCA on held-out rows.

The scores of all three are projections on orthonormal directions of feature space (for Nystroem + PCA because its
features are coordinates in an orthonormal basis of the sampled points' span).  So one number compares them:

    captured = sum_k var(score_k) over rows that no method has seen

Its share of the total feature-space variance of those rows, mean k(x, x) - mean k(x, y), says how much of the data
the components explain; its share of exact kernel PCA's says how much is lost by keeping fewer points.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from . import options
from .inputs import naming_file, read_input
from .messages import clean, duration
from .options import names_of

HELD_OUT = 1 / 3  # share of the rows that no method is fitted to
MAX_TOTAL_ROWS = 2000  # the gram of this many rows gives the total variance to far less than a percent
QUICK_SECONDS = 1.0  # a fit that takes less is repeated: the first one also pays for imports and cold caches
REPEATS = 3


@options.asking(components=10, without=("method", "alpha", "batch_size", "weights", "keep_stream"))
def compare(
    data: options.Data,
    *,
    asked: options.ModelOptions,
    max_gram: Annotated[float, typer.Option(metavar="GB", help="Largest gram that exact kernel PCA may build.")] = 2.0,
    as_json: options.AsJson = False,
) -> None:
    """Compare with scikit-learn's KernelPCA and Nystroem + PCA on your own rows.

    All are fitted to a random two thirds of the rows with the same gamma,
    and measured on the other third.

    \b
    Examples
      kernelsieve compare sales.csv --exclude price
      kernelsieve compare rows.npy -c 10 -s 50
    """
    if asked.kernel == "precomputed":
        raise typer.BadParameter(f"compare needs rows, not a {asked.kernel} kernel", param_hint="--kernel")
    train, test = _split(data, asked)
    gamma: Any = asked.gamma
    if gamma == "auto":
        from ..search.auto_width import best_width, tried_widths

        gamma = best_width(tried_widths(train, asked.kernel, asked.components, asked.seed))
    setting = Setting(asked.components, asked.kernel, gamma, asked.degree, asked.coef0, asked.seed)
    with Console(stderr=True).status("fitting"):
        own, model = measured(
            ours(setting, asked.support, selection=asked.selection, variance=asked.variance), train, test
        )
        setting = replace(setting, gamma=float(model.gamma_))
        reference = Result("exact KernelPCA", len(train), note=_why_no_exact(len(train), max_gram))
        if not reference.note:
            reference = measured(exact(setting, train), train, test)[0]
        sampled = measured(nystroem(setting, min(own.n_points, len(train))), train, test)[0]
    _show([reference, own, sampled], setting, data.name, train, test, as_json)


def _split(data: Path, asked: options.ModelOptions) -> tuple[Any, Any]:
    """A random two thirds of the rows, encoded, and the rest, encoded in the same way."""
    columns, table = names_of(asked.columns), read_input(data, asked, whole=True)
    frame = table.selected(table.whole(), table.pick(columns, names_of(asked.exclude)))
    order = np.random.default_rng(asked.seed).permutation(len(frame))
    n_test = round(HELD_OUT * len(frame))
    if n_test < 2:
        raise ValueError(f"{len(frame)} rows are too few to hold a third of them out")
    train, test = frame[np.sort(order[n_test:])], frame[np.sort(order[:n_test])]
    with naming_file(table):
        encoder = asked.encoder(columns, table.dates).fit(train)
        return encoder.transform(train), encoder.transform(test)


def _why_no_exact(n_train: int, limit_gb: float) -> str:
    """Why exact kernel PCA is left out; empty if its gram is small enough."""
    size = 8 * n_train**2 / 1e9
    if size <= limit_gb:
        return ""
    size_text = f"{size:,.0f} GB" if size >= 10 else f"{size:.2g} GB"
    return f"left out: its gram of {n_train:,} x {n_train:,} takes {size_text}, allowed are {limit_gb:g} (--max-gram)"


def _show(results: list[Result], setting: Setting, name: str, train: Any, test: Any, as_json: bool) -> None:
    total = total_variance(setting, test)
    if as_json:
        numbers = [{key: None if value != value else value for key, value in asdict(one).items()} for one in results]
        print(json.dumps({"results": numbers, "gamma": setting.gamma, "total_variance": total}))
        return
    title = f"{clean(name)}: {len(train):,} rows to fit, {len(test):,} held out, {train.shape[1]} columns"
    Console().print(comparison_table(results, total, len(test), title))
    with_gamma = f", gamma = {setting.gamma:.4g} for all" if "gamma" in setting.kernel_parameters() else ""
    print(f"{setting.n_components} components, {setting.kernel} kernel{with_gamma}")
    for result in results:
        if result.note:
            print(f"{result.name} {result.note}")


# --- the methods ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """Components, kernel and seed of all methods."""

    n_components: int
    kernel: str
    gamma: float | str | None  # must be a number for scikit-learn's methods
    degree: float = 3
    coef0: float = 1
    seed: int = 0

    def kernel_parameters(self) -> dict[str, Any]:
        """The parameters that this kernel has; scikit-learn gives them the same names."""
        from ..kernels import kernel_of

        return {name: getattr(self, name) for name in kernel_of(self.kernel).get_params() if hasattr(self, name)}

    def gram(self, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Kernel values of two sets of rows."""
        from ..kernels import named_kernel

        return np.asarray(named_kernel(self.kernel, **self.kernel_parameters())(rows, others))


@dataclass(frozen=True)
class Method:
    """A method: its name, the number of kernel values for a new row, and a function that makes the estimator."""

    name: str
    n_points: int
    make: Callable[[], Any]


@dataclass(frozen=True)
class Result:
    """The result of one method, or a note why it was left out."""

    name: str
    n_points: int
    captured: float = float("nan")
    fit_seconds: float = float("nan")
    transform_seconds: float = float("nan")
    note: str = ""


def exact(setting: Setting, train: np.ndarray) -> Method:
    """The method of scikit-learn's KernelPCA, with its fast solver, on the gram, so that any kernel of ours will do."""
    from sklearn.decomposition import KernelPCA
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    def make() -> Any:
        gram = FunctionTransformer(lambda rows: setting.gram(rows, train))
        options = {"kernel": "precomputed", "eigen_solver": "arpack", "random_state": setting.seed}
        return make_pipeline(gram, KernelPCA(setting.n_components, **options))

    return Method("exact KernelPCA", len(train), make)


def ours(setting: Setting, n_support: int | float | str, **keywords: Any) -> Method:
    """The method of this library, SparseKernelPCA."""
    from .. import SparseKernelPCA

    given = {name: value for name, value in asdict(setting).items() if name != "seed"} | keywords
    make = lambda: SparseKernelPCA(n_support=n_support, random_state=setting.seed, **given)  # noqa: E731
    return Method("kernelsieve", n_support if isinstance(n_support, int) else 0, make)


def nystroem(setting: Setting, n_points: int) -> Method:
    """The method of scikit-learn's Nystroem features, followed by PCA."""
    from sklearn.decomposition import PCA
    from sklearn.kernel_approximation import Nystroem
    from sklearn.pipeline import make_pipeline

    def make() -> Any:
        kernel = {"kernel": setting.kernel, **setting.kernel_parameters()}
        features = Nystroem(n_components=n_points, random_state=setting.seed, **kernel)
        return make_pipeline(features, PCA(setting.n_components, random_state=setting.seed))

    return Method("Nystroem + PCA", n_points, make)


# --- measurements --------------------------------------------------------------------------------------------------


def captured_variance(model: Any, rows: np.ndarray) -> float:
    """The variance of the rows along the model's components."""
    return float(np.var(np.asarray(model.transform(rows)), axis=0, dtype=np.float64).sum())


def total_variance(setting: Setting, rows: np.ndarray) -> float:
    """The feature-space variance of the rows, from at most `MAX_TOTAL_ROWS` of them."""
    chosen = rows[np.random.default_rng(setting.seed).permutation(len(rows))[:MAX_TOTAL_ROWS]]
    gram = setting.gram(chosen, chosen)
    return float(np.diagonal(gram).mean() - gram.mean())


def measured(method: Method, train: np.ndarray, test: np.ndarray, repeats: int = REPEATS) -> tuple[Result, Any]:
    """The result and the model of a method; times are the best of `repeats` runs, but a slow fit is run only once."""
    fits: list[float] = []
    transforms: list[float] = []
    while len(fits) < repeats and (not fits or fits[0] < QUICK_SECONDS):
        start = perf_counter()
        model = method.make().fit(train)
        fits.append(perf_counter() - start)
        for _ in range(repeats):
            start = perf_counter()
            model.transform(test)
            transforms.append(perf_counter() - start)
    n_points = getattr(model, "n_support_", method.n_points)
    return Result(method.name, n_points, captured_variance(model, test), min(fits), min(transforms)), model


def comparison_table(
    results: Sequence[Result], total: float, n_test: int, title: str, points: str = "support\npoints"
) -> Table:
    """A table of results; shares are relative to the first one, exact kernel PCA, if that was fitted."""
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    table.add_column("method")
    for heading in (points, "captured\nheld out", "of exact", "fit", f"transform\n{n_test:,} rows"):
        table.add_column(heading, justify="right")
    for result in results:
        cells = result_cells(result, total, results[0].captured)
        table.add_row(*cells, style="bold" if result.name == "kernelsieve" else None)
    return table


def result_cells(result: Result, total: float, reference: float) -> list[str]:
    """The cells of a result's line: name, points, shares of the total and of exact kernel PCA, times."""
    cells = [result.name, f"{result.n_points:,}"]
    if result.note:
        return [*cells, "-", "-", "-", "-"]
    of_exact = "-" if np.isnan(reference) else f"{100 * result.captured / reference:.1f} %"
    shares = [f"{100 * result.captured / total:.1f} %", of_exact]
    return cells + shares + [duration(result.fit_seconds), duration(result.transform_seconds)]
