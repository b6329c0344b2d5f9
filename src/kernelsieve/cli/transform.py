"""`kernelsieve transform`, `inverse` and `compress`: from rows to scores, back to rows, and to a smaller model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from ..errors import TableError
from . import options
from .describe import as_data, describe
from .inputs import Applied, core_of, encoder_of, is_precomputed, load_model, read_input, row_progress
from .messages import clean
from .options import names_of
from .outputs import STDOUT, check_output, check_written, save_model, say_written, scored, write_frames

INVERSE_ROWS = 4096  # scores turned back at a time: each pre-image is compared with every point, several times


@options.asking()
def transform(
    model: options.ModelFile,
    data: options.Data,
    output: options.TableOutput,
    *,
    asked: options.TableOptions,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Write the scores of the rows of a table.

    The model's columns are found by name, in any order; others are ignored.
    Without names all columns are taken, in their order, except those of --keep
    and --exclude.
    CSV and Parquet files larger than memory are read and written in blocks.

    \b
    Examples
      kernelsieve transform model.ks new.csv -o scores.csv
      kernelsieve transform model.ks new.parquet -o scores.parquet --keep id,label
      cat new.csv | kernelsieve transform model.ks - -o - | head
    """
    fitted = load_model(model, data)
    if not hasattr(fitted, "transform"):
        raise TableError(f"{model} holds a {type(core_of(fitted)).__name__} at its end, which gives no scores")
    applied = applied_to(fitted, data, asked)
    names = [str(name) for name in fitted.get_feature_names_out()]
    check_written(output, names, applied.kept)
    columns, guard = [*applied.kept, *names], asked.guard_formulas
    check_output(output, [data, model], kind="table", force=force, names=columns, guard=guard)
    scores = core_of(fitted).transform
    frames = (scored(np.asarray(scores(rows)), names, kept) for _, rows, kept in applied.blocks("transform"))
    n_rows = write_frames(output, frames, names, guard=asked.guard_formulas)
    say_written(output, as_json, f"{n_rows:,} rows, {len(names)} components", rows=n_rows, columns=names)


@options.asking()
def inverse(
    model: options.ModelFile,
    scores: Annotated[Path, typer.Argument(metavar="SCORES", help="Scores that `transform` wrote; - for input.")],
    output: options.TableOutput,
    *,
    asked: options.FileOptions,
    guard_formulas: options.GuardFormulas = False,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Turn scores back into rows of a table.

    Numbers come back in their own units, categories as the likeliest label
    ("other values" stands for the labels too rare for one of their own).
    Columns that the model leaves out do not come back.

    \b
    Example
      kernelsieve inverse model.ks scores.csv -o rows.csv
    """
    fitted = load_model(model, scores)
    table = read_input(scores, asked)
    names = [str(name) for name in fitted.get_feature_names_out()]
    chosen = names if table.named and set(names) <= set(table.names) else list(table.names)
    if len(chosen) != len(names):
        raise TableError(f"{table.path} has {len(chosen)} columns, the model has {len(names)} components")
    check_output(output, [scores, model], kind="table", force=force, names=_row_names(fitted), guard=guard_formulas)
    values = table.numbers(chosen, "scores are numbers")
    with row_progress("inverse", len(values)) as advance:
        n_rows = write_frames(output, _rows_back(fitted, values, advance), _row_names(fitted), guard=guard_formulas)
    say_written(output, as_json, f"{n_rows:,} rows", rows=n_rows)


def _row_names(model: Any) -> list[str]:
    from ..rows.frames import column_names

    encoder = encoder_of(model)
    if encoder is not None:
        return [name for name, reason in zip(column_names(encoder), encoder.reasons_, strict=True) if not reason]
    return column_names(model)


def _rows_back(model: Any, values: np.ndarray, advance: Any) -> Iterator[Any]:
    import polars as pl

    core = core_of(model)
    if not hasattr(core, "inverse_transform"):
        raise TableError(f"this model, a {type(core).__name__}, cannot turn scores back into rows")
    for start in range(0, len(values), INVERSE_ROWS):
        rows = core.inverse_transform(values[start : start + INVERSE_ROWS])
        for _, step in reversed(getattr(model, "steps", [(None, core)])[:-1]):
            rows = step.inverse_transform(rows)
        framed = isinstance(rows, pl.DataFrame)
        yield rows if framed else pl.DataFrame(np.asarray(rows), schema=_row_names(model), orient="row")
        advance(len(rows))


@options.asking()
def compress(
    model: options.ModelFile,
    output: options.ModelOutput,
    *,
    asked: options.FileOptions,
    rows: Annotated[
        Path | None,
        typer.Option(
            metavar="DATA", help="Rows like those fitted: their scores are kept, and errors measured on them."
        ),
    ] = None,
    support: Annotated[
        int | None,
        typer.Option("--support", "-s", min=1, metavar="N", help="Points to keep; without it --error decides."),
    ] = None,
    error: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Largest error of the scores, as a share of their spread.")
    ] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Squeeze a model to fewer support points, keeping its scores.

    The summary says what was lost: the error and R^2 of each score, and how
    much of the variance is still explained. Without --rows they are measured
    on the components in feature space, which is the stricter measure.

    \b
    Examples
      kernelsieve compress model.ks -s 20 -o small.ks
      kernelsieve compress model.ks -s 20 --rows sales.csv -o small.ks
      kernelsieve compress model.ks --error 0.01 -o small.ks
    """
    from sklearn.pipeline import Pipeline

    from .. import KernelMonitor
    from .. import compress as compressed

    if (support is None) == (error is None):
        raise typer.BadParameter("give one of --support and --error", param_hint="--support")
    check_output(output, [model, *([rows] if rows else [])], kind="model", force=force)
    fitted = load_model(model, rows)
    core = core_of(fitted)
    if not hasattr(core, "expansion_") or isinstance(core, KernelMonitor):
        raise TableError(f"only kernel PCA can be compressed, and {model} holds a {type(core).__name__}")
    encoded = None
    if rows is not None:
        applied = Applied(fitted, read_input(rows, asked, whole=is_precomputed(fitted), model=fitted))
        encoded = np.concatenate([np.asarray(part) for _, part, _ in applied.blocks("reading")])
    small = compressed(core, support, target_error=error, X=encoded)
    if hasattr(fitted, "steps"):
        small = Pipeline([*fitted.steps[:-1], ("compressedkernelpca", small)])
    save_model(small, output)
    if output == STDOUT:
        return
    if as_json:
        print(json.dumps(as_data(small, output)))
        return
    Console().print(describe(small, output))
    before, after = core.expansion_.n_support, core_of(small).n_support_
    print(f"{before:,} support points became {after:,}, written to {clean(str(output))}")


def applied_to(model: Any, data: Path, asked: options.TableOptions) -> Applied:
    """A model and the table that it is to be applied to."""
    table = read_input(data, asked, whole=is_precomputed(model), model=model)
    return Applied(model, table, names_of(asked.keep), names_of(asked.exclude))
