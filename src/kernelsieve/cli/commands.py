"""The commands: fit, transform, monitor, info, compare, demo.

Each reads its files, calls the library, and writes or prints; whatever takes time to import is imported
where it is used, so that `--help` is quick.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.console import Console

from . import plain_errors
from .describe import describe
from .export import register as register_export
from .monitor import monitor
from .options import (
    BatchSize,
    Coef0,
    Columns,
    Components,
    Data,
    Degree,
    Exclude,
    Gamma,
    Kernel,
    Key,
    ModelFile,
    NoHeader,
    Seed,
    Selection,
    Support,
    Variance,
    names_of,
)

# Rows transformed at a time, between two steps of the progress bar.
CHUNK_ROWS = 65536
HELD_OUT = 1 / 3  # of the rows, in `compare`
MODEL_ADVICE = "the model needs numbers there"
ARRAY_ADVICE = "leave out with --exclude {0}, or name the columns to use with --columns"

app = typer.Typer(
    name="kernelsieve",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        typer.echo(f"kernelsieve {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Kernel PCA that keeps only the few points that carry it.

    \b
    Examples
      kernelsieve demo
      kernelsieve fit rows.csv -o model.ks
      kernelsieve transform model.ks new.csv -o scores.csv
    """


@app.command()
@plain_errors
def fit(
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="Where to write the model.")],
    components: Components = 2,
    support: Support = "auto",
    variance: Variance = 0.99,
    kernel: Kernel = "rbf",
    gamma: Gamma = "median",
    degree: Degree = 3,
    coef0: Coef0 = 1,
    selection: Selection = "optimized",
    seed: Seed = 0,
    columns: Columns = None,
    exclude: Exclude = None,
    key: Key = None,
    no_header: NoHeader = False,
    batch_size: BatchSize = None,
) -> None:
    """Fit kernel PCA to a table and write the model.

    CSV and Parquet files larger than memory are read in blocks, twice.

    \b
    Examples
      kernelsieve fit rows.csv -o model.ks
      kernelsieve fit large.parquet --batch-size 100000 -o model.ks
      kernelsieve fit rows.parquet --exclude id,label -c 10 -s 50 -o model.ks
      kernelsieve fit rows.npy -c 10 --variance 0.999 -o model.ks
      kernelsieve fit rows.csv -k poly --degree 2 --selection targeted -o model.ks
    """
    from .. import SparseKernelPCA
    from .comparison import duration
    from .streaming import StreamedTable, is_streamed
    from .tables import check_output

    model = SparseKernelPCA(
        components,
        n_support=support,
        selection=selection,
        variance=variance,
        kernel=kernel,
        gamma=gamma,
        degree=degree,
        coef0=coef0,
        random_state=seed,
        batch_size=batch_size,
    )
    check_output(output)
    start = perf_counter()
    if kernel != "precomputed" and is_streamed(data, batch_size):
        table = StreamedTable.open(data, header=not no_header, batch_size=batch_size)
        names = table.head.pick(names_of(columns), names_of(exclude))
        _fit_stream(model, table.stream(names, ARRAY_ADVICE))
    else:
        names, values = _read_numbers(data, columns, exclude, key, no_header)
        start = perf_counter()
        _fit_with_progress(model, values)
        if names is not None and kernel != "precomputed":
            _setnames_of(model, names)
    seconds = perf_counter() - start
    model.save(output)
    console = Console()
    console.print(describe(model, output))
    console.print(f"fitted in {duration(seconds)}, written to {output}", highlight=False, soft_wrap=True)


@app.command()
@plain_errors
def transform(
    model: ModelFile,
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT", help="Where to write the scores.")],
    keep: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Columns of DATA to copy beside the scores.")
    ] = None,
    key: Key = None,
    no_header: NoHeader = False,
    batch_size: BatchSize = None,
) -> None:
    """Write the scores of the rows of a table.

    The model's columns are found by name, in any order; others are ignored.
    Without names all columns are taken, in their order, but those of --keep.
    CSV and Parquet files larger than memory are read and written in blocks.

    \b
    Examples
      kernelsieve transform model.ks new.csv -o scores.csv
      kernelsieve transform model.ks new.parquet -o scores.parquet --keep id,label
      kernelsieve transform model.ks new.npy -o scores.npy
    """
    from .. import load
    from .streaming import StreamedTable, is_streamed
    from .tables import check_output, check_written, read_table, write_blocks, write_table

    fitted = load(model)
    check_output(output)
    streamed = fitted.kernel != "precomputed" and is_streamed(data, batch_size)
    source = StreamedTable.open(data, header=not no_header, batch_size=batch_size) if streamed else None
    table = source.head if source else read_table(data, key=key, header=not no_header)
    kept = names_of(keep)
    table.require(kept, "--keep")
    names = [str(name) for name in fitted.get_feature_names_out()]
    check_written(output, names, kept)
    columns = _model_columns(fitted, table, kept)
    if source:
        n_rows = write_blocks(output, _scored_blocks(fitted, source, columns, kept), names)
    else:
        scores = _transform_with_progress(fitted, table.numbers(columns, MODEL_ADVICE))
        write_table(output, scores, names, table.columns(kept))
        n_rows = len(scores)
    Console().print(f"{output}: {n_rows:,} rows, {len(names)} components", highlight=False, soft_wrap=True)


app.command()(monitor)


@app.command()
@plain_errors
def info(model: ModelFile) -> None:
    """Say what a model file holds.

    \b
    Example
      kernelsieve info model.ks
    """
    from .. import load

    Console().print(describe(load(model), model))


@app.command()
@plain_errors
def compare(
    data: Data,
    components: Components = 10,
    support: Support = "auto",
    variance: Variance = 0.99,
    kernel: Kernel = "rbf",
    gamma: Gamma = "median",
    degree: Degree = 3,
    coef0: Coef0 = 1,
    selection: Selection = "optimized",
    seed: Seed = 0,
    columns: Columns = None,
    exclude: Exclude = None,
    key: Key = None,
    no_header: NoHeader = False,
    max_gram: Annotated[float, typer.Option(metavar="GB", help="Largest gram that exact kernel PCA may build.")] = 2.0,
) -> None:
    """Compare with scikit-learn's KernelPCA and Nystroem + PCA on your own rows.

    All are fitted to a random two thirds of the rows with the same gamma,
    and measured on the other third.

    \b
    Examples
      kernelsieve compare rows.csv --exclude label
      kernelsieve compare rows.npy -c 10 -s 50
    """
    from .comparison import KERNEL_KEYWORDS, Setting, compare_methods, comparison_table

    if kernel not in KERNEL_KEYWORDS:
        raise typer.BadParameter(f"compare needs rows, not a {kernel} kernel", param_hint="--kernel")
    setting = Setting(components, kernel, gamma, degree, coef0, seed)
    _, values = _read_numbers(data, columns, exclude, key, no_header)
    train, test = _split(values, seed)
    console = Console()
    with Console(stderr=True).status("fitting") as status:
        comparison = compare_methods(
            setting, support, train, test, max_gram, status.update, selection=selection, variance=variance
        )
    title = f"{data.name}: {len(train):,} rows to fit, {len(test):,} held out, {values.shape[1]} columns"
    console.print(comparison_table(comparison.results, comparison.total, len(test), title))
    settings = f"{components} components, {kernel} kernel"
    if "gamma" in KERNEL_KEYWORDS[kernel]:
        settings += f", gamma = {comparison.gamma:.4g} for all"
    console.print(settings, highlight=False)
    for result in comparison.results:
        if result.note:
            console.print(f"{result.name} {result.note}", highlight=False, soft_wrap=True)


@app.command()
@plain_errors
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The page to write.")] = Path(
        "kernelsieve-demo.html"
    ),
) -> None:
    """Fit handwritten digits, print a comparison and write a page with pictures.

    \b
    Example
      kernelsieve demo --out demo.html
    """
    from .demo import run_demo

    run_demo(out, Console())


register_export(app)


def _read_numbers(
    data: Path, columns: str | None, exclude: str | None, key: str | None, no_header: bool
) -> tuple[Any, Any]:
    """Column names (None for an array) and the numbers of the chosen columns."""
    from .tables import read_table

    table = read_table(data, key=key, header=not no_header)
    names = table.pick(names_of(columns), names_of(exclude))
    return names if table.named else None, table.numbers(names, ARRAY_ADVICE)


def _model_columns(model: Any, table: Any, kept: list[str]) -> list[str]:
    """The columns that the model needs: by name where both have names, else by place."""
    names = getattr(model, "feature_names_in_", None)
    if names is not None and table.named:
        needed = [str(name) for name in names]
        table.require(needed, "the model")
        return needed
    if names is not None:
        warnings.warn(f"{table.path} has no column names: its columns are taken in the model's order", stacklevel=2)
    columns = [name for name in table.names if name not in kept]
    expected = model.n_features_in_
    precomputed = getattr(model, "kernel", None) == "precomputed"
    if len(columns) != expected and not (precomputed and len(columns) == model.n_support_):
        from .tables import TableError

        raise TableError(f"{table.path} has {len(columns)} columns, the model needs {expected}")
    return columns


def _setnames_of(model: Any, names: list[str]) -> None:
    """Column names, as scikit-learn keeps them for a DataFrame."""
    import numpy as np

    model.feature_names_in_ = np.asarray(names, dtype=object)


def _fit_with_progress(model: Any, values: Any) -> None:
    """Fit, with scikit-learn's progress bar where there is one and someone to see it."""
    try:
        from sklearn.callback import ProgressBar
    except ImportError:  # scikit-learn before 1.9
        ProgressBar = None
    if ProgressBar is None or not sys.stdout.isatty():
        model.fit(values)
        return
    model.set_callbacks(ProgressBar()).fit(values)
    model.set_callbacks()


def _fit_stream(model: Any, stream: Any) -> None:
    from .streaming import row_progress, watched

    with row_progress(Console(stderr=True)) as progress:
        model.fit(watched(stream, progress))


def _scored_blocks(model: Any, source: Any, columns: list[str], kept: list[str]) -> Iterator[tuple[Any, Any]]:
    """Blocks of scores, and of the kept columns beside them."""
    from .streaming import row_progress

    with row_progress(Console(stderr=True)) as progress:
        task = None if progress.disable else progress.add_task("transform", total=source.count_rows())
        for numbers, beside in source.blocks(columns, kept, MODEL_ADVICE):
            yield model.transform(numbers), beside
            if task is not None:
                progress.advance(task, len(numbers))


def _transform_with_progress(model: Any, values: Any) -> Any:
    import numpy as np
    from rich.progress import track

    starts = range(0, len(values), CHUNK_ROWS)
    console = Console(stderr=True)
    quiet = len(starts) < 2 or not console.is_terminal
    steps = track(starts, description="transform", console=console, disable=quiet, transient=True)
    return np.concatenate([np.asarray(model.transform(values[start : start + CHUNK_ROWS])) for start in steps])


def _split(values: Any, seed: int) -> tuple[Any, Any]:
    """A random two thirds of the rows, and the rest."""
    import numpy as np

    order = np.random.default_rng(seed).permutation(len(values))
    n_test = round(HELD_OUT * len(values))
    if n_test < 2:
        raise ValueError(f"{len(values)} rows are too few to hold a third of them out")
    return values[np.sort(order[n_test:])], values[np.sort(order[:n_test])]
