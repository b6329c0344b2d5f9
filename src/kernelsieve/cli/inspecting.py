"""`kernelsieve info` and `compare`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from . import options, plain_errors
from .options import names_of
from .wording import clean

HELD_OUT = 1 / 3  # of the rows, in `compare`


@plain_errors
def info(model: options.ModelFile, as_json: options.AsJson = False) -> None:
    """Say what a model file holds.

    \b
    Examples
      kernelsieve info model.ks
      kernelsieve info model.ks --json
    """
    from .applying import load_model
    from .describe import as_data, describe

    fitted = load_model(model)
    if as_json:
        print(json.dumps(as_data(fitted, model)))
    else:
        Console().print(describe(fitted, model))


@plain_errors
@options.asking(components=10, without=("method", "alpha", "batch_size"))
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
    from .comparison import KERNEL_KEYWORDS, Setting, compare_methods

    if asked.kernel not in KERNEL_KEYWORDS:
        raise typer.BadParameter(f"compare needs rows, not a {asked.kernel} kernel", param_hint="--kernel")
    train, test = _split(data, asked)
    gamma: Any = asked.gamma
    if gamma == "auto":
        from .widths import best_width, tried_widths

        gamma = best_width(tried_widths(train, asked.kernel, asked.components, asked.seed))
    setting = Setting(asked.components, asked.kernel, gamma, asked.degree, asked.coef0, asked.seed)
    choice = {"selection": asked.selection, "variance": asked.variance}
    with Console(stderr=True).status("fitting") as status:
        comparison = compare_methods(setting, asked.support, train, test, max_gram, status.update, **choice)
    _show(comparison, data.name, train, test, asked, as_json)


def _show(comparison: Any, name: str, train: Any, test: Any, asked: options.ModelOptions, as_json: bool) -> None:
    from .comparison import KERNEL_KEYWORDS, comparison_table

    if as_json:
        results = [vars(result) for result in comparison.results]
        results = [{key: value if value == value else None for key, value in result.items()} for result in results]
        print(json.dumps({"results": results, "gamma": comparison.gamma, "total_variance": comparison.total}))
        return
    title = f"{clean(name)}: {len(train):,} rows to fit, {len(test):,} held out, {train.shape[1]} columns"
    Console().print(comparison_table(comparison.results, comparison.total, len(test), title))
    settings = f"{asked.components} components, {asked.kernel} kernel"
    if "gamma" in KERNEL_KEYWORDS[asked.kernel]:
        settings += f", gamma = {comparison.gamma:.4g} for all"
    print(settings)
    for result in comparison.results:
        if result.note:
            print(f"{result.name} {result.note}")


def _split(data: Path, asked: options.ModelOptions) -> tuple[Any, Any]:
    """A random two thirds of the rows, encoded as they say, and the rest, encoded the same way."""
    import numpy as np

    from ..tables import TableEncoder
    from .fitting import in_words
    from .tables import read_asked

    columns, table = names_of(asked.columns), read_asked(data, asked, whole=True)
    names = table.pick(columns, names_of(asked.exclude))
    frame = table.selected(table.whole(), names)
    order = np.random.default_rng(asked.seed).permutation(len(frame))
    n_test = round(HELD_OUT * len(frame))
    if n_test < 2:
        raise ValueError(f"{len(frame)} rows are too few to hold a third of them out")
    train, test = frame[np.sort(order[n_test:])], frame[np.sort(order[:n_test])]
    with in_words(table):
        encoder = TableEncoder(asked.scale, missing=asked.missing, keep=columns or None).fit(train)
        return encoder.transform(train), encoder.transform(test)
