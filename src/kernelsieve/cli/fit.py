"""`kernelsieve fit`, and the fit that `report` makes: a table in, a pipeline out.

With --follow the table is a CSV file that grows, or standard input.  The first block of rows decides how columns are
encoded and scaled; every further block is encoded in the same way and goes to `partial_fit`, after which the model is
written.  Every line is one row; a line that is still being written is left until it is complete.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console

from ..errors import TableError, TooManyComponents, warn
from ..tables.csv import CsvError, rows_like
from ..tables.files import Table, columns_named, numbers_of, open_table
from . import options
from .describe import as_data, describe
from .inputs import TRANSFORMED_ROWS, counted, naming_file, read_input, row_progress
from .messages import clean, duration
from .options import READS_BLOCKS, Request, given_options, make_estimator, names_of
from .outputs import STDOUT, check_output, save_model

if TYPE_CHECKING:
    from ..search.auto_width import TriedGamma


import sys
import tempfile
import time

from .inputs import STDIN


@options.asking()
def fit(
    context: typer.Context,
    data: options.Data,
    output: options.ModelOutput,
    *,
    asked: options.ModelOptions,
    follow: Annotated[bool, typer.Option(help="Follow a CSV that grows, or stdin; write as rows come.")] = False,
    every: Annotated[
        int, typer.Option(min=1, metavar="ROWS", help="With --follow: how often to write the model.")
    ] = 1000,
    half_life: Annotated[
        float | None, typer.Option(metavar="ROWS", help="With --follow: rows after which one weighs half.")
    ] = None,
    idle: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="With --follow: stop if no row comes for this long.")
    ] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Fit kernel PCA to a table and write the model.

    The table needs no preparation: numbers are scaled, categories encoded,
    gaps filled in and identifiers left out, and new rows are later treated
    in the same way.  Files larger than memory are read in blocks.

    \b
    Examples
      kernelsieve fit sales.csv -o sales.ks
      kernelsieve fit sales.csv -x price -c 10 --scale robust -o sales.ks
      kernelsieve fit census.xlsx --weights fnlwgt -o census.ks
      kernelsieve fit large.parquet --batch-size 100000 -o model.ks
      kernelsieve fit rows.npy --method exact --gamma auto -o model.ks
      zcat rows.csv.gz | kernelsieve fit - -o model.ks
      tail -n +1 -F log.csv | kernelsieve fit - --follow --every 500 -o m.ks
    """
    request = Request(asked, given_options(context))
    check_output(output, [data], kind="model", force=force)
    if follow:
        how = Following(every, idle, half_life, not asked.no_header, names_of(asked.names), names_of(asked.na))
        follow_table(request, data, output, how)
        return
    table = read_input(data, asked, whole=asked.kernel == "precomputed")
    fitted = fit_table(request, table)
    save_model(fitted.model, output)
    if output != STDOUT:
        show_fit(fitted, output, notes(fitted), as_json)


def show_fit(fitted: Fitted, output: Path, remarks: list[str], as_json: bool) -> None:
    """Print a description of the fitted model, as a table or as JSON."""
    if as_json:
        widths = {"gamma_tried": [asdict(width) for width in fitted.widths]} if fitted.widths else {}
        print(json.dumps(as_data(fitted.model, output) | {"fit_seconds": fitted.seconds, "notes": remarks} | widths))
        return
    Console().print(describe(fitted.model, output))
    for note in remarks:
        print(f"note: {clean(note)}")
    print(f"fitted in {duration(fitted.seconds)}, written to {clean(str(output))}")


@dataclass(frozen=True)
class Fitted:
    """A fitted model, and facts about its fit."""

    model: Any
    seconds: float
    names: list[str]  # columns of the table that it was fitted to
    widths: list[TriedGamma] = field(default_factory=list)  # widths that `--gamma auto` tried


def fit_table(request: Request, table: Table) -> Fitted:
    """Fit to a table, whole or in blocks."""
    _warn_of_many_components(request)
    estimator = make_estimator(request.asked.method, _without_auto(request), request.given)
    names, weights = _features_and_weights(request, table, estimator)
    if request.asked.kernel == "precomputed":
        rows = table.numbers(names)
        start = perf_counter()
        return Fitted(watched_fit(estimator, rows, weights), perf_counter() - start, names)
    from sklearn.pipeline import make_pipeline

    start = perf_counter()
    encoder = request.asked.encoder([name for name in names if request.columns], table.dates)
    with naming_file(table):
        if table.data is None and request.asked.method in READS_BLOCKS:
            with row_progress("looking at columns", table.n_rows) as advance:
                encoder.fit_blocks(counted(table.blocks(names, TRANSFORMED_ROWS), advance))
            rows = _stream(encoder, table, names)
        else:
            frame = table.selected(table.whole(), names)
            rows = encoder.fit(frame)._transform(frame, 0)
        widths = _choose_width(request, estimator, rows, weights)
        fitted = _fitted_as_asked(request, estimator, rows, weights)
    return Fitted(make_pipeline(encoder, fitted), perf_counter() - start, names, widths)


def _warn_of_many_components(request: Request) -> None:
    from ..fit.plan import PLAN

    asked, many = request.asked.components, PLAN.many_points
    if request.asked.method == "sparse" and asked > 2 * many:
        warn(
            f"{asked:,} components need at least as many support points: the fit may take {(asked / many) ** 3:,.0f} "
            f"times as long as with {many}, which takes seconds"
        )


def _features_and_weights(request: Request, table: Table, estimator: Any) -> tuple[list[str], np.ndarray | None]:
    """The columns that the model is fitted to, and the weights of the rows if a column of weights was named."""
    if request.asked.weights is None:
        return table.pick(request.columns, request.exclude), None
    if "sample_weight" not in inspect.signature(estimator.fit).parameters:
        raise typer.BadParameter(f"does not apply to --method {request.asked.method}", param_hint="--weights")
    (column,) = table.require([request.asked.weights], "--weights")
    left_out = list(dict.fromkeys([*request.exclude, column]))
    parts = [
        numbers_of(block, [column], table.path, "weights are numbers")
        for block in table.blocks([column], TRANSFORMED_ROWS)
    ]
    weights = check_weights(np.concatenate(parts)[:, 0].astype(np.float64), column, table.path)
    return table.pick(request.columns, left_out), weights


def check_weights(weights: np.ndarray, column: str, path: Path, first: int = 0) -> np.ndarray:
    """Return the weights if none is negative, else raise; `first` is the number of the first row."""
    if (weights < 0).any():
        row = int(np.argmax(weights < 0))
        raise TableError(
            f"{path}: --weights {column} is {weights[row]:g} in row {first + row + 1}: weights are 0 or positive"
        )
    return weights


def _fitted_as_asked(request: Request, estimator: Any, rows: Any, weights: np.ndarray | None) -> Any:
    """Fit; if the rows have too few directions for the default number of components, take as many as there are."""
    try:
        return watched_fit(estimator, rows, weights)
    except TooManyComponents as error:
        if "components" in request.given or error.asked < 2:
            raise
        fewer = error.asked - 1 if error.rank is None else min(error.asked, error.rank) - 1
        return _fitted_as_asked(request, estimator.set_params(n_components=max(1, fewer)), rows, weights)


def _without_auto(request: Request) -> dict[str, Any]:
    if request.asked.gamma != "auto":
        return request.options
    from ..kernels import names_of_kernels

    with_width = names_of_kernels(lambda kind: kind.stationary)
    if request.asked.kernel not in with_width:
        raise TableError(f"--gamma auto chooses the width of {' and '.join(with_width)} kernels only")
    return request.options | {"gamma": "median"}


def _stream(encoder: Any, table: Table, names: list[str]) -> Any:
    """The encoded rows of a table in blocks, which every pass reads again."""
    from ..rows.sources import Stream

    def blocks() -> Iterator[np.ndarray]:
        first = 0
        for block in table.blocks(names, TRANSFORMED_ROWS):
            yield encoder._transform(block, first)
            first += len(block)

    return Stream(blocks, table.n_rows)


def _choose_width(request: Request, estimator: Any, rows: Any, weights: np.ndarray | None) -> list[TriedGamma]:
    asked = request.asked
    if asked.gamma != "auto":
        return []
    some = rows if isinstance(rows, np.ndarray) else next(iter(rows.open()))
    from ..search.auto_width import best_width, tried_widths

    few = None if weights is None else weights[: len(some)]
    widths = tried_widths(some, asked.kernel, asked.components, asked.seed, few)
    estimator.set_params(gamma=best_width(widths))
    return widths


def watched_fit(estimator: Any, rows: Any, weights: np.ndarray | None = None) -> Any:
    """Fit; if standard error is a terminal, a bar shows the stage of the fit and counts the rows of a pass."""
    console = Console(stderr=True)
    keywords = {} if weights is None else {"sample_weight": weights}
    if not console.is_terminal:
        return estimator.fit(rows, **keywords)
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    texts = TextColumn("{task.description}"), TextColumn("{task.fields[rows]}")
    columns = (SpinnerColumn(), texts[0], BarColumn(bar_width=30), texts[1], TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = FitBar(progress)
        if not hasattr(estimator, "set_callbacks"):  # scikit-learn before 1.9
            return estimator.fit(rows, **keywords)
        estimator.set_callbacks(bar)
        try:
            return estimator.fit(rows, **keywords)
        finally:
            estimator.set_callbacks()


class FitBar:
    """A scikit-learn callback that shows the stage of a fit, and beneath it how many rows of a pass have been read."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._stage = progress.add_task("fitting", total=None, rows="")

    def setup(self, estimator: Any, context: Any) -> None:
        """Nothing to prepare."""

    def on_fit_task_begin(self, estimator: Any, context: Any, *, metadata: Any = None) -> None:
        """Show the name of the stage that begins, or a bar for the pass over blocks of rows that begins."""
        if metadata is not None:
            self._rows = self._progress.add_task("reading", total=metadata["n_total"], rows="")
        elif context.task_name:
            self._progress.update(self._stage, description=context.task_name)

    def on_fit_task_end(self, estimator: Any, context: Any, *, metadata: Any = None) -> None:
        """Show how many rows have been read; remove the bar when all of them have been."""
        if metadata is None:
            return
        rows = "{n_rows:,} rows, {rows_per_second:,.0f} a second".format(**metadata)
        self._progress.update(self._rows, completed=metadata["n_rows"], rows=rows)
        if context.task_name == "rows":  # the end of the whole pass
            self._progress.remove_task(self._rows)

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing to tidy up."""


def notes(fitted: Fitted) -> list[str]:
    """Remarks after a fit that the user may want to act on."""
    found = []
    encoder = fitted.model[0] if hasattr(fitted.model, "steps") else None
    if encoder is not None and encoder.heavy_tails_ and encoder.scale == "standard":
        many = len(encoder.heavy_tails_) > 1
        found.append(
            f"a few rows make most of the spread of {columns_named(encoder.heavy_tails_)}: --scale robust keeps "
            f"{'them' if many else 'it'} from outweighing the rest"
        )
    if fitted.widths:
        tried = ", ".join(f"{width.gamma:.3g} ({100 * width.error:.1f} %)" for width in fitted.widths)
        found.append(f"gamma tried, with the share of held-out rows' variance that was lost: {tried}")
    return found


POLL_SECONDS = 0.2  # pause before a file that has not grown is read again


@dataclass(frozen=True)
class Following:
    """How a stream is followed."""

    every: int  # rows in a block
    idle: float | None = None  # a file is taken to have ended after this many seconds without a new row; None: never
    half_life: float | None = None
    header: bool = True
    names: Sequence[str] = ()
    na: Sequence[str] = ()


def follow_table(request: Request, data: Path, output: Path, how: Following) -> int:
    """Fit to rows until the input ends or the user interrupts; return their number."""
    from sklearn.pipeline import make_pipeline

    method = request.asked.method
    if method != "sparse":
        raise TableError(f"--follow adds rows to a model, which --method {method} cannot: use --method sparse")
    if request.asked.weights is not None:
        raise TableError(
            "--weights and --follow do not go together: fit the rows that are there, and update with others"
        )
    if request.asked.gamma == "auto":
        raise TableError("--gamma auto looks at all rows, which --follow never has: give a number, or median")
    estimator = make_estimator(method, request.options, request.given).set_params(half_life=how.half_life)
    encoder: Any = None
    n_rows = 0
    for frame, dates in _frames(_lines(data, how), how, request, data):
        if encoder is None:
            encoder = request.asked.encoder([name for name in frame.columns if request.columns], dates).fit(frame)
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


def _lines(data: Path, how: Following) -> Iterator[str | None]:
    """The lines of the input as they are written; None while there is no new one.  An interrupt ends the iteration."""
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


def _frames(
    lines: Iterator[str | None], how: Following, request: Request, data: Path
) -> Iterator[tuple[Any, dict[str, str]]]:
    """Tables of `every` rows, the last one perhaps shorter, with the columns asked for, read as `read_table` does.

    With each comes the order of dates such as 3/25/2024, by column, which the first rows decide for all.
    """
    called = Path("standard input") if data == STDIN else data
    with tempfile.TemporaryDirectory(prefix="kernelsieve-") as folder:
        path = Path(folder) / f"rows{'.tsv' if '.tsv' in data.suffixes else '.csv'}"
        first: Any = None
        n_rows = 0
        for text in _texts(lines, how):
            path.write_text(text, encoding="utf-8", newline="")
            if first is None:
                first = open_table(path, called=called, header=how.header, names=how.names, na=how.na, whole=True)
                frame, columns = first.whole(), first.pick(request.columns, request.exclude)
            else:
                try:
                    frame = rows_like(first.source, path)
                except CsvError as error:
                    raise TableError(f"{called}, after its first {n_rows:,} rows: {error}") from error
            n_rows += len(frame)
            yield frame.select(columns), first.dates


def _texts(lines: Iterator[str | None], how: Following) -> Iterator[str]:
    """The text of `every` rows at a time, the first with the line of column names if there is one."""
    block: list[str] = []
    left = how.every + how.header
    for line in lines:
        if line is None or not line.strip():
            continue
        block.append(line)
        left -= 1
        if left == 0:
            yield "".join(block)
            block, left = [], how.every
    if left < how.every:
        yield "".join(block)
