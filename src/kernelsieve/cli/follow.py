"""`kernelsieve fit --follow`: a CSV that grows, or standard input; the model is written every so many rows.

The first rows settle the columns, their encoding and their scales; every further block is encoded alike and goes to
`partial_fit`.  A record is a line: a line that has no end yet is left until it has one.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .fitting import Request, save_model
from .methods import make_estimator
from .standard_input import STDIN
from .tables import TableError
from .wording import clean

POLL_SECONDS = 0.2  # between looks at a file that has not grown


@dataclass(frozen=True)
class Following:
    """How a stream is followed."""

    every: int  # rows a block, after each of which the model is written
    idle: float | None = None  # seconds without a new row after which a file has ended; None: never
    half_life: float | None = None
    header: bool = True


def follow_table(request: Request, data: Path, output: Path, how: Following) -> int:
    """Fit to rows as they come, until the input ends or the user interrupts; the number of rows."""
    from sklearn.pipeline import make_pipeline

    if request.method != "sparse":
        raise TableError(f"--follow adds rows to a model, which --method {request.method} cannot: use --method sparse")
    if request.options["gamma"] == "auto":
        raise TableError("--gamma auto looks at all rows, which --follow never has: give a number, or median")
    estimator = make_estimator(request.method, request.options, request.given).set_params(half_life=how.half_life)
    encoder: Any = None
    n_rows = 0
    for frame in _frames(_lines(data, how), how, request):
        if encoder is None:
            encoder = _encoder(request, frame)
        estimator.partial_fit(encoder._transform(frame, n_rows))
        n_rows += len(frame)
        if not estimator.__sklearn_is_fitted__():
            continue
        save_model(make_pipeline(encoder, estimator), output)
        print(f"{n_rows:,} rows, model written to {clean(str(output))}", file=sys.stderr)
    if encoder is None:
        raise TableError(f"{data}: no rows came")
    if not estimator.__sklearn_is_fitted__():
        raise TableError(f"{data}: {n_rows} rows came, too few to choose points from; nothing was written")
    return n_rows


def _encoder(request: Request, frame: Any) -> Any:
    from ..tables import TableEncoder

    keep = list(request.columns) or None
    return TableEncoder(request.scale, missing=request.missing, keep=keep).fit(frame)


def _lines(data: Path, how: Following) -> Iterator[str | None]:
    """Lines as they come; None where there is none for the moment, and at the end.  An interrupt is an end."""
    try:
        if data == STDIN:
            yield from sys.stdin
        else:
            yield from _growing(data, how.idle)
    except KeyboardInterrupt:
        return


def _growing(path: Path, idle: float | None) -> Iterator[str | None]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        begun, last = "", time.monotonic()
        while True:
            line = file.readline()
            if line:
                last = time.monotonic()
                begun += line
                if begun.endswith("\n"):
                    yield begun
                    begun = ""
                continue
            if idle is not None and time.monotonic() - last >= idle:
                if begun:
                    yield begun
                return
            yield None
            time.sleep(POLL_SECONDS)


def _frames(lines: Iterator[str | None], how: Following, request: Request) -> Iterator[Any]:
    """Blocks of `every` rows, and what is left at the end, as tables of the columns asked for."""
    import polars

    schema: Any = None
    head, block = None if how.header else "", list[str]()

    def frame() -> Any:
        nonlocal schema
        text = io.StringIO((head or "") + "".join(block))
        try:
            table = polars.read_csv(text, has_header=how.header, schema=schema, infer_schema_length=None)
        except polars.exceptions.PolarsError as error:
            raise TableError(
                f"a row does not fit the columns of the first ones: {str(error).splitlines()[0]}"
            ) from error
        schema = table.schema
        names = list(request.columns) or [name for name in table.columns if name not in request.exclude]
        missing = [name for name in names if name not in table.columns]
        if missing:
            raise TableError(f"no column {missing[0]!r}: there are {', '.join(table.columns[:10])}")
        return table.select(names)

    for line in lines:
        if line is None or not line.strip():
            continue
        if head is None:
            head = line
            continue
        block.append(line)
        if len(block) >= how.every:
            yield frame()
            block = []
    if block:
        yield frame()
