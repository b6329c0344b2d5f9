"""`kernelsieve score`: how well rows fit a model, row by row and in one table of the worst."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from ..errors import TableError
from . import options
from .inputs import core_of, load_model
from .messages import Exit, clean, percent
from .outputs import STDOUT, check_output, check_written, scored, write_frames
from .transform import applied_to

WORST = 5  # number of worst rows that are shown
QUANTILE = 0.95  # `--normal` sets the limit at this quantile of the errors of normal rows
FEW_NORMAL = 60  # with fewer normal rows, alarms may be twice as frequent as the quantile says


@options.asking()
def score(
    model: options.ModelFile,
    data: options.Data,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="OUT", help="Where to write the numbers; - to print them.")
    ] = None,
    normal: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Rows that are normal: the limit is what 95 % of them stay below."),
    ] = None,
    alarm_above: Annotated[
        float | None,
        typer.Option(
            "--alarm-above",
            min=0.0,
            max=1.0,
            metavar="SHARE",
            help="Exit with status 3 if a larger share of rows is odd.",
        ),
    ] = None,
    *,
    asked: options.TableOptions,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Say how well the rows of a table fit the model.

    \b
    t2        squared distance from the centre along the components, each in
              units of its standard deviation
    spe       squared distance to the components, in the kernel's feature space
    error     mean squared difference between a row and what its scores
              give back, in the units the model works in
    decision  positive for a normal row, negative for an odd one: where the
              model has a limit of its own, or --normal gives one

    \b
    Examples
      kernelsieve score model.ks new.csv
      kernelsieve score model.ks new.csv --normal train.csv -o odd.csv --keep id
      kernelsieve score model.ks new.csv --normal train.csv --alarm-above 0.1
    """
    fitted = load_model(model, data)
    applied = applied_to(fitted, data, asked)
    core = core_of(fitted)
    if not hasattr(core, "transform"):
        raise TableError(f"{model} holds a {type(core).__name__}: new rows are judged by `kernelsieve monitor`")
    limit = None if normal is None else _limit(fitted, normal, replace(asked, keep=None, batch_size=None))
    names = _measures(core, limit)
    if alarm_above is not None and "decision" not in names:
        raise typer.BadParameter("--alarm-above needs a limit, which this model lacks: give --normal FILE")
    if output is not None:
        check_written(output, names, applied.kept)
        inputs = [data, model, *([normal] if normal else [])]
        columns, guard = [*applied.kept, *names], asked.guard_formulas
        check_output(output, inputs, kind="table", force=force, names=columns, guard=guard)
    worst = Worst(names)
    frames = (
        scored(worst.seen(first, measured(core, rows, names, limit)), names, kept)
        for first, rows, kept in applied.blocks("score")
    )
    write_frames(output, frames, names, guard=asked.guard_formulas)
    if output != STDOUT:
        worst.show(output, as_json, limit)
    if alarm_above is not None and worst.n_odd > alarm_above * worst.n_rows:
        raise typer.Exit(Exit.ALARM)


def _measures(core: Any, limit: float | None) -> list[str]:
    names = ["t2", "spe"] if hasattr(core, "expansion_") else ["t2"]
    expansion = getattr(core, "expansion_", None)
    no_way_back = getattr(core, "fit_inverse_transform", True) is False
    no_way_back |= expansion is not None and expansion.kernel.precomputed
    if hasattr(core, "inverse_transform") and not no_way_back:
        names.append("error")
    if limit is not None or hasattr(core, "decision_function"):
        names.append("decision")
    return names


def measured(core: Any, rows: Any, names: list[str], limit: float | None) -> np.ndarray:
    """The measures of `names` for some rows, one column each."""
    scores = np.asarray(core.transform(rows), dtype=np.float64)
    spread = np.maximum(np.asarray(core.explained_variance_, dtype=np.float64), np.finfo(float).tiny)
    values = {"t2": (np.square(scores) / spread).sum(axis=1)}
    if "spe" in names:
        values["spe"] = np.asarray(core.reconstruction_error(rows), dtype=np.float64)
    if "error" in names:
        values["error"] = np.square(np.asarray(rows) - core.inverse_transform(scores)).mean(axis=1)
    if "decision" in names:
        own = hasattr(core, "decision_function")
        values["decision"] = np.asarray(core.decision_function(rows)) if own else limit - values["spe"]
    return np.stack([values[name] for name in names], axis=1)


def _limit(model: Any, path: Path, asked: options.TableOptions) -> float:
    core = core_of(model)
    if not hasattr(core, "expansion_"):
        raise TableError(f"--normal needs a kernel model: this is a {type(core).__name__}")
    applied = applied_to(model, path, asked)
    errors = [np.asarray(core.reconstruction_error(rows)) for _, rows, _ in applied.blocks("normal rows")]
    spe = np.concatenate(errors)
    if len(spe) < FEW_NORMAL:
        _warn_of_few(len(spe), path)
    return float(np.quantile(spe, QUANTILE))


def _warn_of_few(n_rows: int, path: Path) -> None:
    """Warn of a limit from few rows: the share of rows above the k-th of n follows Beta(n + 1 - k, k)."""
    from scipy.stats import beta

    place = 1 + QUANTILE * (n_rows - 1)  # k of `np.quantile`, which may lie between two rows
    low, high = beta.ppf([0.05, 0.95], n_rows + 1 - place, place)
    warnings.warn(
        f"a limit from {n_rows} normal row{'s' if n_rows > 1 else ''} ({path.name}) means little: in place of "
        f"{percent(1 - QUANTILE)}, anything from {percent(low)} to {percent(high)} of normal rows may lie above it. "
        f"Give at least {FEW_NORMAL}, which the model was not fitted to",
        stacklevel=2,
    )


class Worst:
    """The rows that fit worst and the sums over all rows, gathered block by block."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.by = "spe" if "spe" in names else names[-1]
        self.n_rows = self.n_odd = 0
        self.totals = np.zeros(len(names))
        self.rows: list[tuple[float, int, list[float]]] = []

    def seen(self, first: int, values: np.ndarray) -> np.ndarray:
        """Add the measures of a block, and return them unchanged."""
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
        """Print the rows that fit worst and the means, as a table or as JSON."""
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
            table.add_row(f"{row}", *(f"{value:.4g}" for value in values))
        table.add_section()
        table.add_row("mean", *(f"{value:.4g}" for value in means.values()))
        console.print(table)
        if "decision" in self.names:
            share = percent(self.n_odd / self.n_rows)
            print(f"{self.n_odd:,} of {self.n_rows:,} rows are odd ({share})")
        if output is not None:
            print(f"written to {clean(str(output))}")
