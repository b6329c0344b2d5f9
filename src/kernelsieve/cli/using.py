"""`kernelsieve transform`, `inverse` and `compress`: what is done with a model and new rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from . import options, plain_errors
from .applying import Applied, core_of, encoder_of, load_model, row_progress, scored_frames
from .options import names_of
from .standard_input import STDIN
from .tables import TableError, read_asked, read_table
from .wording import clean
from .writing import STDOUT, Refused, check_output, check_written, write_frames


@plain_errors
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
    Without names all columns are taken, in their order, but those of --keep.
    CSV and Parquet files larger than memory are read and written in blocks.

    \b
    Examples
      kernelsieve transform model.ks new.csv -o scores.csv
      kernelsieve transform model.ks new.parquet -o scores.parquet --keep id,label
      cat new.csv | kernelsieve transform model.ks - -o - | head
    """
    fitted = loaded(model, data)
    if not hasattr(fitted, "transform"):
        raise TableError(f"{model} holds a {type(core_of(fitted)).__name__} at its end, which gives no scores")
    applied = applied_to(fitted, data, asked)
    names = [str(name) for name in fitted.get_feature_names_out()]
    check_written(output, names, applied.kept)
    check_output(output, [data, model], kind="table", force=force, names=[*applied.kept, *names])
    n_rows = write_frames(output, scored_frames(applied, core_of(fitted).transform, names, "transform"), names)
    _tell(output, as_json, f"{n_rows:,} rows, {len(names)} components", rows=n_rows, columns=names)


@plain_errors
def inverse(
    model: options.ModelFile,
    scores: Annotated[Path, typer.Argument(metavar="SCORES", help="Scores that `transform` wrote; - for input.")],
    output: options.TableOutput,
    key: options.Key = None,
    no_header: options.NoHeader = False,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Turn scores back into rows of a table.

    Numbers come back in their own units, categories as the likeliest label.
    Columns that the model leaves out do not come back.

    \b
    Example
      kernelsieve inverse model.ks scores.csv -o rows.csv
    """
    fitted = loaded(model, scores)
    table = read_table(scores, key=key, header=not no_header)
    names = [str(name) for name in fitted.get_feature_names_out()]
    chosen = names if table.named and set(names) <= set(table.names) else list(table.names)
    if len(chosen) != len(names):
        raise TableError(f"{table.path} has {len(chosen)} columns, the model has {len(names)} components")
    check_output(output, [scores, model], kind="table", force=force, names=_row_names(fitted))
    values = table.numbers(chosen, "scores are numbers")
    with row_progress() as progress:
        task = progress.add_task("inverse", total=len(values))
        frames = _rows_back(fitted, values, lambda n: progress.advance(task, n))
        n_rows = write_frames(output, frames, _row_names(fitted))
    _tell(output, as_json, f"{n_rows:,} rows", rows=n_rows)


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
        raise TableError(f"this model, a {type(core).__name__}, knows no way back")
    for start in range(0, len(values), 4096):
        rows = core.inverse_transform(values[start : start + 4096])
        for _, step in reversed(getattr(model, "steps", [(None, core)])[:-1]):
            rows = step.inverse_transform(rows)
        if isinstance(rows, pl.DataFrame):
            yield rows
        else:
            yield pl.DataFrame(np.asarray(rows), schema=_row_names(model), orient="row")
        advance(len(rows))


@plain_errors
def compress(
    model: options.ModelFile,
    output: options.ModelOutput,
    support: Annotated[
        int | None, typer.Option("--support", "-s", min=1, metavar="N", help="Points to keep; else --error decides.")
    ] = None,
    error: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Largest error of the scores, as a share of their spread.")
    ] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Squeeze a model to fewer support points, keeping its scores.

    \b
    Examples
      kernelsieve compress model.ks -s 20 -o small.ks
      kernelsieve compress model.ks --error 0.01 -o small.ks
    """
    from sklearn.pipeline import Pipeline

    from .. import compress as compressed
    from .describe import as_data, describe
    from .fitting import save_model

    if (support is None) == (error is None):
        raise typer.BadParameter("give one of --support and --error", param_hint="--support")
    check_output(output, [model], kind="model", force=force)
    fitted = load_model(model)
    core = core_of(fitted)
    if not hasattr(core, "expansion_"):
        raise TableError(f"only kernel models can be compressed, and {model} holds a {type(core).__name__}")
    small = compressed(core, support, target_error=error)
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
    print(f"{before:,} points became {after:,}, written to {clean(str(output))}")


def loaded(model: Path, data: Path) -> Any:
    """The model, for use on a table; only one of the two can be standard input."""
    if model == STDIN and data == STDIN:
        raise Refused("only one of the model and the table can come from standard input")
    return load_model(model)


def applied_to(model: Any, data: Path, asked: options.TableOptions) -> Applied:
    """A model and the table that it is to be applied to."""
    whole = getattr(core_of(model), "kernel", None) == "precomputed"
    return Applied(model, read_asked(data, asked, whole=whole), names_of(asked.keep))


def _tell(output: Path, as_json: bool, text: str, **facts: Any) -> None:
    if output == STDOUT:
        return
    if as_json:
        print(json.dumps({"output": str(output)} | facts))
    else:
        print(f"{clean(str(output))}: {text}")
