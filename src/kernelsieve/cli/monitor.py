"""`kernelsieve monitor`: normal rows in, alarms about new rows out.

0    no alarm
3    alarm: a scheduler can act on it
4    not one row could be judged: all have gaps, or too few rows before them
1    the data are not what is needed         2    the command was not understood
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from . import plain_errors
from .options import AsJson, Columns, Exclude, Force, Key, NoHeader, Seed, check_share, names_of, parse_gamma, word

ALARM, NOT_JUDGED = 3, 4  # exit codes
# Parameters of KernelMonitor, and the options that set them: a saved monitor has its own.
FITTED = {
    "n_components": "components",
    "n_support": "support",
    "kernel": "kernel",
    "gamma": "gamma",
    "whiten": "whiten",
    "lags": "lags",
    "smoothing": "smoothing",
    "false_alarm_rate": "false_alarm_rate",
    "random_state": "seed",
}


def kernels() -> Iterable[str]:
    """The names of the kernels that have distances."""
    from ..kernels import names_of_kernels

    return names_of_kernels(lambda kind: kind.definite is not False and not kind.precomputed)


def parse_rule(text: str) -> tuple[int, int]:
    """ "2/3" as (2, 3)."""
    needed, slash, of = text.partition("/")
    if not (slash and needed.isdigit() and of.isdigit() and 1 <= int(needed) <= int(of)):
        raise typer.BadParameter(f"{text!r} is no rule such as 2/3: alarm when 2 of the last 3 rows are above")
    return int(needed), int(of)


def check_gamma(text: str) -> float | str | None:
    """A width that is known before any model is tried."""
    if text.lower() == "auto":
        raise typer.BadParameter("auto tries models on held-out rows, which a monitor needs for its limit: give median")
    return parse_gamma(text)


@plain_errors
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
            help="Components; few columns of a linear or cosine kernel: half of them.",
        ),
    ] = 30,
    support: Annotated[int, typer.Option("--support", "-s", min=2, metavar="N", help="Support points.")] = 60,
    kernel: Annotated[str, word(kernels, "--kernel", "-k", help="As in fit, where k(x, x) has distances.")] = "rbf",
    gamma: Annotated[
        str,
        typer.Option(
            "--gamma", "-g", callback=check_gamma, metavar="G", help="A number, median, scale, or none (1/columns)."
        ),
    ] = "median",
    whiten: Annotated[bool, typer.Option("--whiten", help="For many linearly related sensors.")] = False,
    lags: Annotated[int, typer.Option(min=0, metavar="N", help="Judge a row with so many rows before it.")] = 0,
    smoothing: Annotated[
        float | None,
        typer.Option(callback=check_share, metavar="W", help="Weight of the newest row in a running mean."),
    ] = None,
    false_alarm_rate: Annotated[
        float,
        typer.Option(
            "--false-alarm-rate", "-a", callback=check_share, metavar="SHARE", help="Of normal rows above the limit."
        ),
    ] = 0.05,
    rule: Annotated[
        str, typer.Option(callback=parse_rule, metavar="K/N", help="Alarm when K of the last N rows are above.")
    ] = "1/1",
    columns: Columns = None,
    exclude: Exclude = None,
    key: Key = None,
    no_header: NoHeader = False,
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Learn what normal rows are like, judge new ones, and name the variables behind each alarm.

    Exit code 0: no alarm; 3: alarm; 4: not one row could be judged; 1: bad data;
    2: bad usage.
    A new row with a missing value is reported as missing and gives no alarm.
    Rows are counted from 1.  A saved monitor keeps the options it was made with,
    but for --rule.

    \b
    Examples
      kernelsieve monitor normal.csv today.csv -o alarms.csv
      kernelsieve monitor normal.csv today.csv --rule 3/5 --save plant.ks
      kernelsieve monitor plant.ks tomorrow.csv -o alarms.csv
    """
    from .fitting import given_options
    from .judging import WRITTEN, Judged
    from .tables import read_table
    from .writing import STDOUT, check_output, write_frames

    params, given = context.params, given_options(context)
    if output is not None:
        check_output(output, [normal, new], kind="table", force=force, names=WRITTEN)
    if save is not None:
        check_output(save, [normal, new], kind="model", force=force)
    model = (_fitted if _is_table(normal) else _loaded)(normal, params, given)
    found = Judged(model, everything)
    frames = found.frames(read_table(new, key=key, header=not no_header))
    write_frames(output, frames, WRITTEN)
    if save is not None:
        model.restart().save(save)
    if as_json and output != STDOUT:
        print(json.dumps(found.facts()))
    elif output != STDOUT:
        found.show(new, output)
    if not found.n_judged:
        typer.echo(f"error: {found.why_none(new)}", err=True)
        raise typer.Exit(NOT_JUDGED)
    if found.n_alarms:
        raise typer.Exit(ALARM)


def _is_table(path: Path) -> bool:
    """Whether the file is one of rows; anything else is a saved monitor."""
    from .standard_input import STDIN
    from .tables import TableError, checked_format

    try:
        return path == STDIN or bool(checked_format(path))
    except TableError:
        return False


def _fitted(normal: Path, params: dict[str, Any], given: set[str]) -> Any:
    """A monitor of the rows in a table."""
    from .. import KernelMonitor
    from ..kernels import kernel_type
    from .judging import named
    from .tables import read_table

    table = read_table(normal, key=params["key"], header=not params["no_header"])
    names = table.pick(names_of(params["columns"]), names_of(params["exclude"]))
    rows = table.numbers(names)
    chosen = {name: params[option] for name, option in FITTED.items()}
    if kernel_type(params["kernel"]).linear_in_rows:  # no more directions than the rows have columns
        chosen["n_components"] = _fewer_than_directions(rows, params, given)
    model = KernelMonitor(alarm_rule=params["rule"], **chosen)
    return model.fit(named(rows, names) if table.named else rows)


def _fewer_than_directions(rows: Any, params: dict[str, Any], given: set[str]) -> int:
    """So many components that a kernel, linear in its rows, leaves a direction over to judge new rows by."""
    from ..monitor.inputs import constant_columns

    n_varying, lags = int((~constant_columns(rows)).sum()), int(params["lags"])
    n_directions, n_components = n_varying * (lags + 1), int(params["components"])
    if n_components < n_directions or not n_directions:  # rows that are all the same are for the fit to refuse
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
    fixed = sorted(option for option in (*FITTED.values(), "columns", "exclude") if option in given)
    if fixed:
        options = ", ".join("--" + option.replace("_", "-") for option in fixed)
        raise typer.BadParameter(f"{path} is a saved monitor, with options of its own: leave out {options}")
    if "rule" in given:
        model.set_params(alarm_rule=params["rule"])
    return model.restart()
