"""`kernelsieve monitor`: normal rows in, alarms about new rows out.

0    no alarm
3    alarm: a scheduler can act on it
1    the data are not what is needed         2    the command was not understood
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Screen

from . import plain_errors
from .options import Columns, Exclude, Gamma, Kernel, Key, NoHeader, Seed, names_of

ALARM = 3  # exit code
SHOWN = 10  # alarms on the screen
MODEL_SUFFIXES = (".csv", ".tsv", ".parquet", ".npy", ".npz")  # tables; anything else is a saved monitor
ADVICE = "leave out with --exclude {0}, or name the columns to use with --columns"


def parse_rule(text: str) -> tuple[int, int]:
    """ "2/3" as (2, 3)."""
    needed, slash, of = text.partition("/")
    if not (slash and needed.isdigit() and of.isdigit() and 1 <= int(needed) <= int(of)):
        raise typer.BadParameter(f"{text!r} is no rule such as 2/3: alarm when 2 of the last 3 rows are above")
    return int(needed), int(of)


@plain_errors
def monitor(
    normal: Annotated[
        Path,
        typer.Argument(metavar="NORMAL", help="Normal rows in the order of time, or a monitor that --save wrote."),
    ],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Rows to judge, in the order of time.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="OUT", help="Where to write the alarms: .csv, .parquet.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Write every row, not only alarms.")] = False,
    save: Annotated[Path | None, typer.Option(metavar="MODEL", help="Keep the fitted monitor.")] = None,
    components: Annotated[int, typer.Option("--components", "-c", min=1, metavar="N", help="Components.")] = 30,
    support: Annotated[int, typer.Option("--support", "-s", min=2, metavar="N", help="Support points.")] = 60,
    kernel: Kernel = "rbf",
    gamma: Gamma = "median",
    whiten: Annotated[bool, typer.Option("--whiten", help="For many linearly related sensors.")] = False,
    lags: Annotated[int, typer.Option(min=0, metavar="N", help="Judge a row with so many rows before it.")] = 0,
    smoothing: Annotated[
        float | None, typer.Option(metavar="W", help="Weight of the newest row in a running mean.")
    ] = None,
    false_alarm_rate: Annotated[
        float, typer.Option("--false-alarm-rate", "-a", metavar="SHARE", help="Of normal rows above the limit.")
    ] = 0.05,
    rule: Annotated[
        str, typer.Option(callback=parse_rule, metavar="K/N", help="Alarm when K of the last N rows are above.")
    ] = "1/1",
    columns: Columns = None,
    exclude: Exclude = None,
    key: Key = None,
    no_header: NoHeader = False,
    seed: Seed = 0,
) -> None:
    """Learn what normal rows are like, judge new ones, and name the variables behind each alarm.

    Exit code 0: no alarm; 3: alarm; 1: bad data; 2: bad usage.
    A new row with a missing value is reported as missing and gives no alarm.

    \b
    Examples
      kernelsieve monitor normal.csv today.csv -o alarms.csv
      kernelsieve monitor normal.csv today.csv --whiten -a 0.01 --rule 3/5 --save plant.ks
      kernelsieve monitor plant.ks tomorrow.csv -o alarms.csv
    """
    from .. import KernelMonitor
    from .tables import read_table
    from .writing import check_output

    for path in (output, save):
        if path is not None:
            if any(path.exists() and path.samefile(given) for given in (normal, new) if given.exists()):
                raise ValueError(f"{path} is an input: give another file to write to")
            check_output(path)
    if normal.suffix.lower() in MODEL_SUFFIXES:
        table = read_table(normal, key=key, header=not no_header)
        names = table.pick(names_of(columns), names_of(exclude))
        model = KernelMonitor(
            components,
            support,
            kernel=kernel,
            gamma=gamma,
            whiten=whiten,
            lags=lags,
            smoothing=smoothing,
            false_alarm_rate=false_alarm_rate,
            alarm_rule=rule,  # type: ignore[arg-type]  # made a pair by its callback
            random_state=seed,
        )
        model.fit(_named(table.numbers(names, ADVICE), names if table.named else None))
    else:
        model = _loaded(normal)
    records = _judged(model, read_table(new, key=key, header=not no_header))
    if save is not None:
        model.restart().save(save)
    if output is not None:
        _write(output, records if everything else [record for record in records if record.alarm])
    if _show(model, records, new, output):
        raise typer.Exit(ALARM)


def _loaded(path: Path) -> Any:
    from .. import KernelMonitor, load

    model = load(path)
    if not isinstance(model, KernelMonitor):
        raise ValueError(f"{path} holds a {type(model).__name__}, not a monitor: `monitor --save` writes one")
    return model.restart()


def _named(values: Any, names: list[str] | None) -> Any:
    """Rows with their column names, as a frame."""
    if names is None:
        return values
    import polars as pl

    return pl.DataFrame(values, schema=names)


def _judged(model: Any, table: Any) -> list[Any]:
    """A record for each new row; the model's columns are found by name where both have names."""
    import numpy as np

    names = getattr(model, "feature_names_in_", None)
    if names is not None and table.named:
        wanted = [str(name) for name in names]
        table.require(wanted, "the monitor")
    else:
        if names is not None:
            warnings.warn(f"{table.path} has no column names: they are taken in the monitor's order", stacklevel=2)
        wanted = list(table.names)
        if len(wanted) != model.n_features_in_:
            raise ValueError(f"{table.path} has {len(wanted)} columns, the monitor needs {model.n_features_in_}")
    columns = [_numbers(name, column, table.path) for name, column in table.columns(wanted).items()]
    return list(model.update(np.column_stack(columns)))


def _numbers(name: str, column: Any, path: Path) -> Any:
    """A column of floats, NaN where a value is missing."""
    import numpy as np

    if isinstance(column, np.ndarray):
        return column.astype(np.float64)
    import polars as pl

    if not (column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null)):
        raise ValueError(f"{path}: column {name!r} is not numeric, and the monitor needs it")
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _write(path: Path, records: list[Any]) -> None:
    import numpy as np

    from .writing import write_table

    names = ["spe", "limit", "t2", "t2_limit"]
    values = np.array([[getattr(record, name) for name in names] for record in records]).reshape(-1, len(names))
    kept = {
        "row": np.array([record.number for record in records], dtype=np.int64),
        "alarm": [record.alarm for record in records],
        "missing": [record.missing for record in records],
        "causes": ["; ".join(f"{name} {share:.0%}" for name, share in record.top) for record in records],
    }
    write_table(path, values, names, kept)


def _show(model: Any, records: list[Any], path: Path, output: Path | None) -> int:
    """Say what there was; the number of alarms."""
    console = Console()
    alarms = [record for record in records if record.alarm]
    missing = sum(record.missing for record in records)
    low, high = model.false_alarm_interval_
    if alarms:
        screen = Screen(title=f"{path.name}: the first {min(SHOWN, len(alarms))} of {len(alarms):,} alarms")
        for name in ("row", "SPE", "limit", "variables"):
            screen.add_column(name, justify="left" if name == "variables" else "right")
        for record in alarms[:SHOWN]:
            causes = ", ".join(f"{name} {share:.0%}" for name, share in record.top)
            screen.add_row(str(record.number), f"{record.spe:.4g}", f"{record.limit:.4g}", causes)
        console.print(screen)
    told = f"{path.name}: {len(records):,} rows, {len(alarms):,} alarms, {missing:,} without a statistic"
    console.print(told + (f"; written to {output}" if output else ""), highlight=False, soft_wrap=True)
    rate = f"about {model.false_alarm_rate_:.1%} of normal rows lie above the limit ({low:.1%} to {high:.1%})"
    console.print(rate, highlight=False, soft_wrap=True)
    return len(alarms)
