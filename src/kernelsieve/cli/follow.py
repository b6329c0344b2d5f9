"""`kernelsieve fit --follow`: a CSV file that grows, or standard input.

The first block of rows decides how columns are encoded and scaled; every further block is encoded in the same way and
goes to `partial_fit`, after which the model is written.  A record is a line; one that is still being written waits.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import TableError
from .inputs import STDIN
from .messages import clean
from .options import Request, make_estimator
from .outputs import save_model

POLL_SECONDS = 0.2  # between looks at a file that has not grown


@dataclass(frozen=True)
class Following:
    """How a stream is followed."""

    every: int  # rows in a block
    idle: float | None = None  # seconds without a new row after which a file has ended; None for never
    half_life: float | None = None
    header: bool = True


def follow_table(request: Request, data: Path, output: Path, how: Following) -> int:
    """Fit to rows until the input ends or the user interrupts; return their number."""
    from sklearn.pipeline import make_pipeline

    if request.method != "sparse":
        raise TableError(f"--follow adds rows to a model, which --method {request.method} cannot: use --method sparse")
    if request.weights is not None:
        raise TableError(
            "--weights and --follow do not go together: fit the rows that are there, and update with others"
        )
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
    from ..tables.encoder import TableEncoder

    keep = list(request.columns) or None
    return TableEncoder(request.scale, missing=request.missing, keep=keep, calendar=request.calendar).fit(frame)


def _lines(data: Path, how: Following) -> Iterator[str | None]:
    """Lines as they are written; None while there is no new one.  An interrupt ends them."""
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
    """Blocks of `every` rows, the last one shorter, with the columns asked for."""
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
