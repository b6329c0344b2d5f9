"""`kernelsieve transform`, `score`, `inverse` and `compress`: what is done with a model and new rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from . import plain_errors
from .applying import Applied, core_of, encoder_of, load_model, row_progress, scored_frames
from .options import AsJson, BatchSize, Data, Force, Keep, Key, ModelFile, ModelOutput, NoHeader, TableOutput, names_of
from .tables import STDIN, TableError, read_table
from .wording import clean, listed, percent
from .writing import STDOUT, Refused, check_output, check_written, scored, write_frames

WORST = 5  # rows with the largest error that `score` shows
QUANTILE = 0.95  # of normal rows' errors: the limit of `score --normal`


@plain_errors
def transform(
    model: ModelFile,
    data: Data,
    output: TableOutput,
    keep: Keep = None,
    key: Key = None,
    no_header: NoHeader = False,
    batch_size: BatchSize = None,
    force: Force = False,
    as_json: AsJson = False,
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
    fitted = _loaded(model, data)
    if not hasattr(fitted, "transform"):
        raise TableError(f"{model} holds a {type(core_of(fitted)).__name__} at its end, which gives no scores")
    applied = _applied(fitted, data, keep, key, no_header, batch_size)
    names = [str(name) for name in fitted.get_feature_names_out()]
    check_written(output, names, applied.kept)
    check_output(output, [data, model], kind="table", force=force, names=[*applied.kept, *names])
    n_rows = write_frames(output, scored_frames(applied, core_of(fitted).transform, names, "transform"), names)
    _tell(output, as_json, f"{n_rows:,} rows, {len(names)} components", rows=n_rows, columns=names)


@plain_errors
def score(
    model: ModelFile,
    data: Data,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="OUT", help="Where to write the numbers; - to print them.")
    ] = None,
    normal: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Rows that are normal: the limit is what 95 % of them stay below."),
    ] = None,
    keep: Keep = None,
    key: Key = None,
    no_header: NoHeader = False,
    batch_size: BatchSize = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Say how well the rows of a table fit the model.

    \b
    t2        distance from the centre along the components, each in its own spread
    spe       squared distance to the components, in the kernel's feature space
    error     mean squared difference between a row and what its scores
              tell of it, in the units the model works in
    decision  positive for a normal row, negative for an odd one: where the
              model has a limit of its own, or --normal gives one

    \b
    Examples
      kernelsieve score model.ks new.csv
      kernelsieve score model.ks new.csv --normal train.csv -o odd.csv --keep id
    """
    fitted = _loaded(model, data)
    applied = _applied(fitted, data, keep, key, no_header, batch_size)
    core = core_of(fitted)
    if not hasattr(core, "transform"):
        raise TableError(f"{model} holds a {type(core).__name__}: new rows are judged by `kernelsieve monitor`")
    limit = None if normal is None else _limit(fitted, normal, key, no_header)
    names = _measures(core, limit)
    if output is not None:
        check_written(output, names, applied.kept)
        inputs = [data, model, *([normal] if normal else [])]
        check_output(output, inputs, kind="table", force=force, names=[*applied.kept, *names])
    worst = Worst(names)
    frames = (
        scored(worst.seen(first, measured(core, rows, names, limit)), names, kept)
        for first, rows, kept in applied.blocks("score")
    )
    if output is not None:
        write_frames(output, frames, names)
    else:
        for _ in frames:
            pass
    if output != STDOUT:
        worst.show(output, as_json, limit)


def _measures(core: Any, limit: float | None) -> list[str]:
    names = ["t2", "spe"] if hasattr(core, "expansion_") else ["t2"]
    expansion = getattr(core, "expansion_", None)
    no_way_back = getattr(core, "fit_inverse_transform", True) is False
    no_way_back |= expansion is not None and expansion.kernel.name == "precomputed"
    if hasattr(core, "inverse_transform") and not no_way_back:
        names.append("error")
    if limit is not None or hasattr(core, "decision_function"):
        names.append("decision")
    return names


def measured(core: Any, rows: Any, names: list[str], limit: float | None) -> np.ndarray:
    """The measures of `names` for some rows, one column each."""
    scores = np.asarray(core.transform(rows), dtype=np.float64)
    spread = np.maximum(np.asarray(core.explained_variance_, dtype=np.float64), np.finfo(float).tiny)
    values = {"t2": (np.square(scores - _center(core, scores)) / spread).sum(axis=1)}
    if "spe" in names:
        values["spe"] = np.asarray(core.reconstruction_error(rows), dtype=np.float64)
    if "error" in names:
        values["error"] = np.square(np.asarray(rows) - core.inverse_transform(scores)).mean(axis=1)
    if "decision" in names:
        own = hasattr(core, "decision_function")
        values["decision"] = np.asarray(core.decision_function(rows)) if own else limit - values["spe"]
    return np.stack([values[name] for name in names], axis=1)


def _center(core: Any, scores: np.ndarray) -> float:
    """Scores are centred; those of an uncentred model are measured from the origin that it has."""
    return 0.0


def _limit(model: Any, path: Path, key: str | None, no_header: bool) -> float:
    core = core_of(model)
    if not hasattr(core, "expansion_"):
        raise TableError(f"--normal needs a kernel model: this is a {type(core).__name__}")
    applied = _applied(model, path, None, key, no_header, None)
    errors = [np.asarray(core.reconstruction_error(rows)) for _, rows, _ in applied.blocks("normal rows")]
    return float(np.quantile(np.concatenate(errors), QUANTILE))


class Worst:
    """The rows that fit worst, and sums over all, as blocks go by."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.by = "spe" if "spe" in names else names[-1]
        self.n_rows = self.n_odd = 0
        self.totals = np.zeros(len(names))
        self.rows: list[tuple[float, int, list[float]]] = []

    def seen(self, first: int, values: np.ndarray) -> np.ndarray:
        """Take note of a block, and hand it on."""
        self.n_rows += len(values)
        self.totals += values.sum(axis=0)
        if "decision" in self.names:
            self.n_odd += int((values[:, self.names.index("decision")] < 0).sum())
        column = values[:, self.names.index(self.by)]
        worst = np.argsort(-column)[:WORST]
        found = [(float(column[i]), first + int(i) + 1, values[i].tolist()) for i in worst]
        self.rows = sorted(self.rows + found, key=lambda row: (-row[0], row[1]))[:WORST]
        return values

    def show(self, output: Path | None, as_json: bool, limit: float | None) -> None:
        """Print the rows that fit worst, and what holds for all."""
        means = {name: float(total / self.n_rows) for name, total in zip(self.names, self.totals, strict=True)}
        if as_json:
            worst = [{"row": row} | dict(zip(self.names, values, strict=True)) for _, row, values in self.rows]
            facts = {"rows": self.n_rows, "means": means, "worst": worst, "limit": limit}
            print(json.dumps(facts | ({"odd": self.n_odd} if "decision" in self.names else {})))
            return
        from rich.table import Table

        console = Console()
        console.print(f"[bold]the rows that fit worst, of {self.n_rows:,}[/bold]", highlight=False)
        table = Table()
        for name in ("row", *self.names):
            table.add_column(name, justify="right")
        for _, row, values in self.rows:
            table.add_row(f"{row:,}", *(f"{value:.4g}" for value in values))
        table.add_section()
        table.add_row("mean", *(f"{value:.4g}" for value in means.values()))
        console.print(table)
        if "decision" in self.names:
            share = percent(self.n_odd / self.n_rows)
            console.print(f"{self.n_odd:,} of {self.n_rows:,} rows are odd ({share})", highlight=False)
        if output is not None:
            console.print(f"written to {clean(str(output))}", highlight=False, soft_wrap=True, markup=False)


@plain_errors
def inverse(
    model: ModelFile,
    scores: Annotated[Path, typer.Argument(metavar="SCORES", help="Scores that `transform` wrote; - for input.")],
    output: TableOutput,
    key: Key = None,
    no_header: NoHeader = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Turn scores back into rows of a table.

    Numbers come back in their own units, categories as the likeliest label.
    Columns that the model leaves out do not come back.

    \b
    Example
      kernelsieve inverse model.ks scores.csv -o rows.csv
    """
    fitted = _loaded(model, scores)
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
    encoder = encoder_of(model)
    if encoder is not None:
        return [name for name, reason in zip(encoder._names(), encoder.reasons_, strict=True) if not reason]
    names = getattr(model, "feature_names_in_", None)
    return [f"x{j}" for j in range(model.n_features_in_)] if names is None else [str(name) for name in names]


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
    model: ModelFile,
    output: ModelOutput,
    support: Annotated[
        int | None, typer.Option("--support", "-s", min=1, metavar="N", help="Points to keep; else --error decides.")
    ] = None,
    error: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Largest error of the scores, as a share of their spread.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
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
    console = Console()
    console.print(describe(small, output))
    before = core.expansion_.n_support
    text = f"{before:,} points became {core_of(small).n_support_:,}, written to {clean(str(output))}"
    console.print(text, highlight=False, soft_wrap=True, markup=False)


def _loaded(model: Path, data: Path) -> Any:
    if model == STDIN and data == STDIN:
        raise Refused("only one of the model and the table can come from standard input")
    return load_model(model)


def _applied(
    model: Any, data: Path, keep: str | None, key: str | None, no_header: bool, batch_size: int | None
) -> Applied:
    whole = getattr(core_of(model), "kernel", None) == "precomputed"
    table = read_table(data, key=key, header=not no_header, batch_size=batch_size, whole=whole)
    return Applied(model, table, names_of(keep))


def _tell(output: Path, as_json: bool, text: str, **facts: Any) -> None:
    if output == STDOUT:
        return
    if as_json:
        print(json.dumps({"output": str(output)} | facts))
    else:
        Console().print(f"{clean(str(output))}: {text}", highlight=False, soft_wrap=True, markup=False)


__all__ = ["compress", "inverse", "listed", "measured", "score", "transform"]
