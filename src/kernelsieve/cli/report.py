"""`kernelsieve report` and `plot`: pages and pictures."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..errors import TableError
from ..tables.files import Table
from . import options
from .fit import fit_table
from .inputs import Applied, core_of, encoder_of, load_model, read_input
from .messages import clean
from .options import Request, given_options, names_of, word
from .outputs import MARK, Refused, check_output

PICTURES = (".png", ".svg", ".pdf")
KINDS = ("scores", "spectrum", "support", "contours")
MAX_POINTS = 50_000  # at most this many rows are drawn: more would only hide each other


@options.asking(
    components=5, without=("variance", "degree", "coef0", "selection", "alpha", "batch_size", "keep_stream")
)
def report(
    context: typer.Context,
    data: options.Data,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="PAGE", help="The page to write.")] = Path(
        "report.html"
    ),
    model: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="A model to show the rows in, instead of fitting one.")
    ] = None,
    *,
    asked: options.ModelOptions,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Write one page that shows what is in a table.

    The page needs no network and can be sent to anyone: a map of the rows
    to brush and to colour by any column, what sets groups apart, which
    columns matter, which rows are odd, and the code that makes the model.
    Columns that are left out of the model can still colour the map.
    For a monitor that `monitor --save` wrote, the page shows its statistics
    over time, the alarms and why, and how precisely its limit is known.

    \b
    Examples
      kernelsieve report sales.csv -o report.html
      kernelsieve report sales.csv --exclude price -o report.html
      kernelsieve report new.csv --model sales.ks -o new.html
      kernelsieve report today.csv --model plant.ks -o alarms.html
    """
    import kernelsieve

    from ..report.model_view import is_kernel_estimator

    check_output(output, [data, *([model] if model else [])], kind="page", force=force)
    fitted = None if model is None else load_model(model, data)
    table = read_input(data, asked, whole=True, model=fitted)
    if model is not None and asked.weights is not None:
        raise typer.BadParameter("is for the model that report fits, and --model gives one", param_hint="--weights")
    if model is None:
        found = fit_table(Request(asked, given_options(context)), table)
        fitted, seconds, names = found.model, found.seconds, found.names
    else:
        seconds = None
        applied = Applied(fitted, table)
        names = applied.columns
    if not is_kernel_estimator(core_of(fitted)) and not hasattr(fitted, "limits_"):  # `limits_` marks a monitor
        kind = type(core_of(fitted)).__name__
        raise TableError(f"a report shows kernel models, which a {kind} is not: see `kernelsieve score`")
    rows = table.selected(table.whole(), names)
    beside = table.columns([name for name in table.names if name not in names])
    page = kernelsieve.report(
        fitted,
        rows if model is None else applied.in_order(rows),
        beside=beside or None,
        source=table.path.name,
        fit_seconds=seconds,
        random_state=asked.seed,
        read_options=_read_options(asked, table, names),
        weights=None if asked.weights is None else table.require([asked.weights], "--weights")[0],
        model_file=None if model is None else model.name,
    )
    page.save(output)
    if as_json:
        print(json.dumps({"output": str(output), "rows": table.n_rows, "bytes": output.stat().st_size}))
        return
    n_bytes = output.stat().st_size
    size = f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e5 else f"{n_bytes / 1e3:.0f} kB"
    print(f"{clean(str(output))}: {table.n_rows:,} rows, {size}: open it in a browser")


def _read_options(asked: options.ModelOptions, table: Table, names: list[str]) -> dict[str, Any]:
    """The keywords with which `read_table` reads these columns from the file."""
    found: dict[str, Any] = {"key": asked.key} if asked.key is not None else {}
    if asked.no_header:
        found["header"] = False
    if asked.names:
        found["names"] = names_of(asked.names)
    if asked.na:
        found["na"] = names_of(asked.na)
    if table.dates:
        found["dates"] = table.dates
    left_out = [name for name in table.names if name not in names]
    if names == [name for name in table.names if name not in left_out]:
        return found | ({"exclude": left_out} if left_out else {})
    return found | {"columns": names}


@options.asking()
def plot(
    model: options.ModelFile,
    data: Annotated[Path | None, typer.Argument(metavar="[DATA]", help="Rows to draw; - for standard input.")] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PICTURE", help="The picture: .png, .svg or .pdf.")
    ] = Path("plot.png"),
    kind: Annotated[str, word(KINDS, metavar="KIND")] = "scores",
    components: Annotated[
        str, typer.Option("--components", "-c", metavar="I,J", help="Which two, counted from 1.")
    ] = "1,2",
    color: Annotated[str | None, typer.Option(metavar="COLUMN", help="A column of DATA to colour the rows by.")] = None,
    *,
    asked: options.FileOptions,
    force: options.Force = False,
) -> None:
    """Draw a model, or the rows of a table in its components.

    \b
    Examples
      kernelsieve plot model.ks sales.csv --color region -o map.png
      kernelsieve plot model.ks --kind spectrum -o spectrum.svg
    """
    if find_spec("matplotlib") is None:
        raise ImportError("pictures are drawn with matplotlib: pip install matplotlib")
    if output.suffix.lower() not in PICTURES:
        raise Refused(f"{output} cannot be written as a picture: the name must end in one of {', '.join(PICTURES)}")
    check_output(output, [model, *([data] if data else [])], kind="picture", force=force)
    fitted = load_model(model, data)
    _check_kind(kind, core_of(fitted), data)
    pair = _pair(components, core_of(fitted))
    rows = None
    if data is not None and kind not in ("spectrum", "support"):
        rows = _rows(fitted, read_input(data, asked, model=fitted), color)
    _draw(output, fitted, kind, pair, rows)
    print(f"{clean(str(output))}: {kind}")


def _check_kind(kind: str, core: Any, data: Path | None) -> None:
    if kind in ("scores", "contours") and data is None:
        raise typer.BadParameter(f"--kind {kind} needs rows: name a table after the model", param_hint="DATA")
    if kind == "contours" and core.n_features_in_ != 2:
        raise TableError(f"contours are drawn over a plane, and the model works on {core.n_features_in_} columns")
    if kind in ("support", "contours") and not hasattr(core, "expansion_"):
        raise TableError(f"a {type(core).__name__} has no support points to draw")


def _pair(text: str, core: Any) -> tuple[int, int]:
    """The places, from 0, of two components that the user counts from 1."""
    numbers = text.split(",")
    n_components = len(core.explained_variance_)
    if len(numbers) != 2 or not all(number.strip().isdigit() for number in numbers):
        raise typer.BadParameter(f"{text!r} is not two components, such as 1,2", param_hint="--components")
    first, second = (int(number) - 1 for number in numbers)
    if not all(0 <= number < n_components for number in (first, second)):
        raise typer.BadParameter(f"the model has components 1 to {n_components}", param_hint="--components")
    return first, second


def _draw(output: Path, model: Any, kind: str, pair: tuple[int, int], drawn: tuple[Any, Any] | None) -> None:
    """Write the picture; `drawn` are rows and their colours."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    from .. import plots
    from ..io.container import replacing

    core = core_of(model)
    figure, axes = plt.subplots(figsize=(7, 5.5), layout="constrained")
    if kind == "spectrum":
        plots.spectrum(core, ax=axes)
    elif kind == "support":
        plots.support(_named(core, model), ax=axes)
    else:
        assert drawn is not None
        rows, labels = drawn
        if kind == "scores":
            plots.scores(core, rows, pair, labels, ax=axes)
        else:
            plots.contours(core, rows, pair[0], ax=axes)
    keyword = {"png": "Software", "svg": "Creator", "pdf": "Creator"}[output.suffix.lower()[1:]]
    with replacing(output) as temporary:
        figure.savefig(temporary, format=output.suffix.lower()[1:], dpi=150, metadata={keyword: MARK.decode()})
    plt.close(figure)


def _named(core: Any, model: Any) -> Any:
    """The estimator with the names of its columns, which a pipeline does not pass on to it."""
    encoder = encoder_of(model)
    if encoder is None or hasattr(core, "feature_names_in_"):
        return core
    from copy import copy

    named = copy(core)
    named.feature_names_in_ = encoder.get_feature_names_out()
    return named


def _rows(model: Any, table: Table, color: str | None) -> tuple[Any, Any]:
    """Rows as the estimator takes them, and the values to colour them by; a random `MAX_POINTS` if there are more."""
    import polars as pl

    applied = Applied(model, table, [color] if color else [], needed_by="--color")
    parts, labels = [], []
    for _, rows, kept in applied.blocks("reading"):
        parts.append(np.asarray(rows))
        if color:
            column = kept.to_series(0)
            labels.append(column if column.dtype.is_numeric() else column.cast(str).fill_null("missing"))
    rows = np.concatenate(parts)
    colors = pl.concat(labels) if color else None
    if len(rows) > MAX_POINTS:
        chosen = np.random.default_rng(0).permutation(len(rows))[:MAX_POINTS]
        return rows[chosen], None if colors is None else colors[chosen]
    return rows, colors
