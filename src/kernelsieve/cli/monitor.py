"""`kernelsieve monitor`: normal rows in, alarms about new rows out.

0    no alarm
3    alarm: a scheduler can act on it
4    not one row could be judged: all have gaps, or too few rows before them
1    the data are not what is needed         2    the command was not understood
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from rich.console import Console
from rich.table import Table as Screen

from ..errors import TableError, TooFewRows, warn
from ..tables.files import checked_format
from . import options
from .inputs import STDIN, Applied, naming_file, read_input
from .messages import Exit, clean, counted, percent
from .options import check_share, check_weight, given_options, names_of, parse_gamma, word
from .outputs import STDOUT, check_output, write_frames

SHOWN = 10  # stretches of alarms on the screen
JUDGED_ROWS = 2**14  # rows judged and written at a time
ALARM_COLUMNS = ("row", "alarm", "missing", "causes", "spe", "limit", "t2", "t2_limit")
# Parameters of KernelMonitor and the options that set them; a saved monitor keeps its own.
FITTED = {"n_components": "components", "n_support": "support", "random_state": "seed"}
FITTED |= {name: name for name in ("kernel", "gamma", "whiten", "lags", "smoothing", "false_alarm_rate")}


def kernels() -> Iterable[str]:
    """The names of the kernels that have a distance in feature space."""
    from ..kernels import names_of_kernels

    return names_of_kernels(lambda kind: kind.definite is not False and not kind.precomputed)


def parse_rule(text: str) -> tuple[int, int]:
    """Turn a rule such as "2/3" into (2, 3)."""
    needed, slash, of = text.partition("/")
    if not (slash and needed.isdigit() and of.isdigit() and 1 <= int(needed) <= int(of)):
        raise typer.BadParameter(f"{text!r} is not a rule such as 2/3: alarm when 2 of the last 3 rows are above")
    return int(needed), int(of)


def check_gamma(text: str) -> float | str | None:
    """Turn --gamma into a width; "auto" is refused, because it tries models on the held-out rows."""
    if text.lower() == "auto":
        raise typer.BadParameter("auto tries models on held-out rows, which a monitor needs for its limit: give median")
    return parse_gamma(text)


@options.asking()
def monitor(
    context: typer.Context,
    normal: Annotated[
        Path,
        typer.Argument(metavar="NORMAL", help="Normal rows in the order of time, or a monitor that --save wrote."),
    ],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Rows to judge, in the order of time; - for input.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="OUT", help="Where to write the alarms; - to print them.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Write every row, not only alarms.")] = False,
    save: Annotated[Path | None, typer.Option(metavar="MODEL", help="Keep the fitted monitor.")] = None,
    components: Annotated[
        int,
        typer.Option(
            "--components",
            "-c",
            min=1,
            metavar="N",
            help="Components; for a linear or cosine kernel on few columns, half their number.",
        ),
    ] = 30,
    support: Annotated[int, typer.Option("--support", "-s", min=2, metavar="N", help="Support points.")] = 60,
    kernel: Annotated[
        str, word(kernels, "--kernel", "-k", help="As in fit; a kernel that gives no distances is refused.")
    ] = "rbf",
    gamma: Annotated[
        str,
        typer.Option(
            "--gamma", "-g", callback=check_gamma, metavar="G", help="A number, median, scale, or none (1/columns)."
        ),
    ] = "median",
    whiten: Annotated[bool, typer.Option("--whiten", help="For many linearly related sensors.")] = False,
    lags: Annotated[int, typer.Option(min=0, metavar="N", help="Judge a row together with the N rows before it.")] = 0,
    smoothing: Annotated[
        float | None,
        typer.Option(callback=check_weight, metavar="W", help="Weight of the newest row in a running mean."),
    ] = None,
    false_alarm_rate: Annotated[
        float,
        typer.Option(
            "--false-alarm-rate", "-a", callback=check_share, metavar="SHARE", help="Of normal rows above the limit."
        ),
    ] = 0.05,
    scale: options.Scale = "standard",
    no_calendar: options.NoCalendar = False,
    rule: Annotated[
        str, typer.Option(callback=parse_rule, metavar="K/N", help="Alarm when K of the last N rows are above.")
    ] = "1/1",
    columns: options.Columns = None,
    exclude: options.Exclude = None,
    *,
    asked: options.FileOptions,
    seed: options.Seed = 0,
    guard_formulas: options.GuardFormulas = False,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Learn what normal rows are like, judge new ones, and say why a row is flagged.

    Tables are taken as `fit` takes them: text, dates and gaps are fine, and
    identifiers, constants and counters are left out.  A counter or a year that
    leaves its range is mentioned once.  A new row that lacks a value which every
    normal row had is not judged.  `report --model` draws the monitor's page.

    Exit code 0: no alarm; 3: alarm; 4: not one row could be judged; 1: bad data;
    2: bad usage.
    Rows are counted from 1.  A saved monitor keeps the options it was made with,
    except --rule.

    \b
    Examples
      kernelsieve monitor normal.csv today.csv -o alarms.csv
      kernelsieve monitor normal.csv today.csv --rule 3/5 --save plant.ks
      kernelsieve monitor plant.ks tomorrow.csv -o alarms.csv
      kernelsieve report tomorrow.csv --model plant.ks -o page.html
    """
    params, given = context.params, given_options(context)
    if output is not None:
        check_output(output, [normal, new], kind="table", force=force, names=ALARM_COLUMNS, guard=guard_formulas)
    if save is not None:
        check_output(save, [normal, new], kind="model", force=force)
    model = _fitted(normal, asked, params, given) if _is_table(normal) else _loaded(normal, params, given)
    found = Judged(model, everything, saved=not _is_table(normal))
    write_frames(output, found.frames(read_input(new, asked, model=found.model)), ALARM_COLUMNS, guard=guard_formulas)
    if save is not None:
        model.restart().save(save)
    if as_json and output != STDOUT:
        print(json.dumps(found.facts()))
    elif output != STDOUT:
        found.show(new, output)
    if not found.n_judged:
        typer.echo(f"error: {found.why_none(new)}", err=True)
        raise typer.Exit(Exit.NOT_JUDGED)
    if found.n_alarms:
        raise typer.Exit(Exit.ALARM)


def _is_table(path: Path) -> bool:
    """Whether the file is a table; anything else is a saved monitor."""
    try:
        return path == STDIN or bool(checked_format(path))
    except TableError:
        return False


def _fitted(normal: Path, asked: options.FileOptions, params: dict[str, Any], given: set[str]) -> Any:
    """A monitor that is fitted to the rows of a table."""
    from .. import KernelMonitor, TableEncoder
    from ..kernels import kernel_of

    table = read_input(normal, asked)
    names = table.pick(names_of(params["columns"]), names_of(params["exclude"]))
    frame = table.selected(table.whole(), names)
    keep = names if params["columns"] else None
    encoder = TableEncoder(
        params["scale"], keep=keep, calendar=not params["no_calendar"], trend=False, date_order=table.dates or None
    )
    chosen = {name: params[option] for name, option in FITTED.items()}
    with naming_file(table):
        if kernel_of(params["kernel"]).linear_in_rows:  # it has no more directions than the rows have columns
            chosen["n_components"] = _fewer_than_directions(encoder.fit_transform(frame), params, given)
        try:
            return KernelMonitor(alarm_rule=params["rule"], encoder=encoder, **chosen).fit(frame)
        except TooFewRows as few:
            raise TableError(
                f"{few.n_rows} rows are too few: each of {few.n_folds} parts held out in turn needs a row{few.window}. "
                f"Give more rows (at least {few.needed}){', or fewer lags' if few.window else ''}"
            ) from few


def _fewer_than_directions(rows: Any, params: dict[str, Any], given: set[str]) -> int:
    """A number of components below a linear kernel's number of directions: rows are judged by what is left over."""
    n_varying, lags = int(np.linalg.matrix_rank(rows - rows.mean(axis=0))), int(params["lags"])
    n_directions, n_components = n_varying * (lags + 1), int(params["components"])
    if n_components < n_directions or not n_directions:  # if all rows are equal, the fit refuses them
        return n_components
    if n_directions > 1 and "components" not in given:
        return n_directions // 2
    columns = f"{n_varying} column{'s' if n_varying > 1 else ''} that var{'y' if n_varying > 1 else 'ies'}"
    raise ValueError(
        f"--components {n_components} leave nothing over to judge rows by: a {params['kernel']} kernel of {columns}"
        f"{f' and --lags {lags}' if lags else ''} has no more than {n_directions}. "
        + (f"Give --components {n_directions // 2}" if n_directions > 1 else "Give more columns")
        + ", or --kernel rbf"
    )


def _loaded(path: Path, params: dict[str, Any], given: set[str]) -> Any:
    """A monitor from its file, at the start of a new series."""
    from .. import KernelMonitor, load

    model = load(path)
    if not isinstance(model, KernelMonitor):
        raise ValueError(f"{path} holds a {type(model).__name__}, not a monitor: `monitor --save` writes one")
    fixed = sorted(
        option for option in (*FITTED.values(), "scale", "no_calendar", "columns", "exclude") if option in given
    )
    if fixed:
        options = ", ".join("--" + option.replace("_", "-") for option in fixed)
        raise typer.BadParameter(f"{path} is a saved monitor, with options of its own: leave out {options}")
    if "rule" in given:
        model.set_params(alarm_rule=params["rule"])
    warn(model._unreachable)  # a fit has warned of it already
    return model.restart()


@dataclass
class Stretch:
    """Consecutive rows that alarm, counted from 1, and the record of the worst of them."""

    first: int
    last: int
    worst_row: int
    worst: Any

    def __str__(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first} to {self.last}"


@dataclass
class Judged:
    """New rows as the monitor judges them, block by block, and the totals that are printed at the end."""

    model: Any
    everything: bool  # write every row, not only alarms
    saved: bool = False  # whether the monitor was read from a file
    n_rows: int = 0
    n_alarms: int = 0
    n_missing: int = 0
    stretches: list[Stretch] = field(default_factory=list)
    first: list[tuple[int, Any]] = field(default_factory=list)  # the first alarms: row from 1, record
    notes: list[str] = field(default_factory=list)

    def frames(self, table: Any) -> Iterator[Any]:
        """The lines to write for each block of a table."""
        applied, watched = Applied(self.model, table), None
        if applied.encoder is not None:
            from ..monitor.table import LeftOutColumns, table_block

            watched = LeftOutColumns(applied.encoder, self.model._usual)
        for block in table.blocks(applied.columns, JUDGED_ROWS):
            with naming_file(table):
                if watched is None:
                    rows: Any = _numbers(block, applied.columns, table.path)
                else:
                    rows = applied.in_order(block)
                    watched.add(table_block(rows))
                yield self._judge(rows)
        self.notes = [] if watched is None else watched.sentences()

    def _judge(self, rows: Any) -> Any:
        records = list(enumerate(self.model.update(rows), start=self.n_rows + 1))
        alarms = [(row, record) for row, record in records if record.alarm]
        self.n_rows += len(records)
        self.n_alarms += len(alarms)
        self.n_missing += sum(record.missing for _, record in records)
        self.first += alarms[: SHOWN - len(self.first)]
        for row, record in alarms:
            last = self.stretches[-1] if self.stretches else None
            if last is None or last.last != row - 1:
                self.stretches.append(Stretch(row, row, row, record))
                continue
            last.last = row
            if record.spe > last.worst.spe:
                last.worst_row, last.worst = row, record
        return _frame(records if self.everything else alarms)

    @property
    def n_judged(self) -> int:
        """Rows that have a statistic."""
        return self.n_rows - self.n_missing

    def why_none(self, path: Path) -> str:
        """The message if no row could be judged."""
        lags = self.model._fitted_lags
        before = f", or fewer than {lags} whole rows before it (--lags {lags})" if lags else ""
        return f"{clean(path.name)}: not one of {self.n_rows:,} rows could be judged: each has a missing value{before}"

    def facts(self) -> dict[str, Any]:
        """The result for JSON."""
        return {
            "rows": self.n_rows,
            "judged": self.n_judged,
            "alarms": self.n_alarms,
            "stretches": len(self.stretches),
            "missing": self.n_missing,
            "limit": self.model.limits_["spe"],
            "false_alarm_rate": self.model.false_alarm_rate_,
            "false_alarm_interval": list(self.model.false_alarm_interval_),
            "first": [
                {"row": row, "spe": record.spe, "causes": record.top, "words": list(record.causes)}
                for row, record in self.first
            ],
            "notes": [*filter(None, [self.model._unreachable]), *self.notes],
        }

    def show(self, path: Path, output: Path | None) -> None:
        """Print the result as a table."""
        name, shown = clean(path.name), self.stretches[:SHOWN]
        if shown:
            rest = f", the first {SHOWN} of {len(self.stretches):,} stretches" if len(self.stretches) > SHOWN else ""
            screen = Screen(title=f"{name}: alarms{rest}")
            for column in ("rows", "worst", "SPE", "limit", "why"):
                screen.add_column(column, justify="left" if column == "why" else "right")
            for one in shown:
                spe, limit = f"{one.worst.spe:.4g}", f"{one.worst.limit:.4g}"
                screen.add_row(str(one), f"{one.worst_row}", spe, limit, clean(_causes(one.worst, "\n")))
            Console().print(screen, markup=False)
        if self.model._encoder is not None and not self.saved:
            told = dict(self.model._encoder.describe())
            for heading in ("calendar", "left out"):
                if heading in told:
                    print(f"{heading}: {clean(re.sub(r'^[0-9,]+: ', '', told[heading]))}")
        for note in self.notes:
            print(f"note: {clean(note)}")
        written = f"; written to {clean(str(output))}" if output else ""
        n_stretches = (
            f" in {counted(len(self.stretches), 'stretch', 'stretches')}" if len(self.stretches) < self.n_alarms else ""
        )
        missing = f"{self.n_missing:,} not judged (missing values)"
        alarms = counted(self.n_alarms, "alarm", "alarms")
        print(f"{name}: {self.n_rows:,} rows, {alarms}{n_stretches}, {missing}{written}")
        low, high = self.model.false_alarm_interval_
        rate, low, high = percent(self.model.false_alarm_rate_), percent(low), percent(high)
        print(f"about {rate} of normal rows lie above the limit (90 % sure: {low} to {high})")


def _numbers(block: Any, names: list[str], path: Path) -> Any:
    """Rows of floats, NaN where a value is missing, for a monitor that was fitted to numbers."""
    if isinstance(block, np.ndarray):
        return block.astype(np.float64)
    for name, dtype in block.schema.items():
        if not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)):
            raise ValueError(f"{path}: column {name!r} is not numeric, and the monitor needs it")
    return block.select(names).cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _frame(records: list[tuple[int, Any]]) -> Any:
    """A frame of rows and their records."""
    types = {"row": pl.Int64, "alarm": pl.Boolean, "missing": pl.Boolean, "causes": pl.String}
    values = [
        (row, record.alarm, record.missing, _causes(record, "; "), record.spe, record.limit, record.t2, record.t2_limit)
        for row, record in records
    ]
    return pl.DataFrame(values, schema={name: types.get(name, pl.Float64) for name in ALARM_COLUMNS}, orient="row")


def _causes(record: Any, between: str) -> str:
    return between.join(record.causes or [f"{name} {percent(share)}" for name, share in record.top])
