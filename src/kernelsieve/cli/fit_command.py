"""`kernelsieve fit`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from . import options, plain_errors
from .options import names_of


@plain_errors
@options.asking()
def fit(
    context: typer.Context,
    data: options.Data,
    output: options.ModelOutput,
    *,
    asked: options.ModelOptions,
    follow: Annotated[bool, typer.Option(help="Follow a CSV that grows, or stdin; write as rows come.")] = False,
    every: Annotated[int, typer.Option(min=1, help="With --follow: write the model after so many rows.")] = 1000,
    half_life: Annotated[
        float | None, typer.Option(metavar="ROWS", help="With --follow: rows after which one weighs half.")
    ] = None,
    idle: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="With --follow: end where none comes for so long.")
    ] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Fit kernel PCA to a table and write the model.

    The table is taken as it is: numbers are scaled, categories encoded,
    gaps filled in, columns that only name rows left out, and all of it is
    kept in the model.  Files larger than memory are read in blocks.

    \b
    Examples
      kernelsieve fit sales.csv -o sales.ks
      kernelsieve fit sales.csv -x price -c 10 --scale robust -o sales.ks
      kernelsieve fit large.parquet --batch-size 100000 -o model.ks
      kernelsieve fit rows.npy --method exact --gamma auto -o model.ks
      zcat rows.csv.gz | kernelsieve fit - -o model.ks
      tail -n +1 -F log.csv | kernelsieve fit - --follow --every 500 -o m.ks
    """
    from .fitting import fit_table, given_options, notes, save_model
    from .tables import read_asked
    from .writing import STDOUT, check_output

    request = request_of(asked, given_options(context))
    check_output(output, [data], kind="model", force=force)
    if follow:
        from .follow import Following, follow_table

        follow_table(request, data, output, Following(every, idle, half_life, not asked.no_header))
        return
    table = read_asked(data, asked, whole=asked.kernel == "precomputed")
    fitted = fit_table(request, table)
    save_model(fitted.model, output)
    if output != STDOUT:
        show_fit(fitted, output, notes(fitted), as_json)


def request_of(asked: options.ModelOptions, given: set[str]) -> Any:
    """What the user asked for, from the options of a command."""
    from .fitting import Request
    from .methods import PARAMETERS

    return Request(
        asked.method,
        {name: getattr(asked, name) for name in PARAMETERS},
        given & set(PARAMETERS),
        asked.scale,
        asked.missing,
        names_of(asked.columns),
        names_of(asked.exclude),
    )


def show_fit(fitted: Any, output: Path, told: list[str], as_json: bool) -> None:
    """What came out: a table for people, or JSON."""
    from .describe import as_data, describe
    from .wording import clean, duration

    if as_json:
        widths = {"gamma_tried": [vars(width) for width in fitted.widths]} if fitted.widths else {}
        print(json.dumps(as_data(fitted.model, output) | {"fit_seconds": fitted.seconds, "notes": told} | widths))
        return
    Console().print(describe(fitted.model, output))
    for note in told:
        print(f"note: {clean(note)}")
    print(f"fitted in {duration(fitted.seconds)}, written to {clean(str(output))}")
