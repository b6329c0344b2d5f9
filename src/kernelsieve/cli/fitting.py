"""`kernelsieve fit`, and the fit that `report` and `compare` make: a table in, a pipeline out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console

from .applying import BLOCK_ROWS
from .methods import READS_BLOCKS, make_estimator
from .tables import Table, TableError
from .widths import Width, best_width, tried_widths


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    method: str
    options: dict[str, Any]  # values by the names of the options
    given: set[str]  # options that were written and not left at their defaults
    scale: str = "standard"
    missing: str = "impute"
    columns: Sequence[str] = ()
    exclude: Sequence[str] = ()


@dataclass(frozen=True)
class Fitted:
    """A fitted model, and how it came about."""

    model: Any
    seconds: float
    names: list[str]  # columns of the table that went in
    widths: list[Width] = field(default_factory=list)  # that `--gamma auto` tried


def fit_table(request: Request, table: Table) -> Fitted:
    """Fit to a table, whole or in blocks."""
    estimator = make_estimator(request.method, _without_auto(request), request.given)
    names = table.pick(request.columns, request.exclude)
    if request.options["kernel"] == "precomputed":
        rows = table.numbers(names)
        start = perf_counter()
        return Fitted(watched_fit(estimator, rows), perf_counter() - start, names)
    from sklearn.pipeline import make_pipeline

    from ..tables import TableEncoder

    start = perf_counter()
    keep = [name for name in names if request.columns]
    encoder = TableEncoder(request.scale, missing=request.missing, keep=keep or None)
    with in_words(table):
        if table.data is None and request.method in READS_BLOCKS:
            encoder.fit_blocks(table.blocks(names, BLOCK_ROWS))
            rows = _stream(encoder, table, names)
        else:
            frame = table.selected(table.whole(), names)
            rows = encoder.fit(frame)._transform(frame, 0)
        widths = _choose_width(request, estimator, rows)
        fitted = watched_fit(estimator, rows)
    return Fitted(make_pipeline(encoder, fitted), perf_counter() - start, names, widths)


def _without_auto(request: Request) -> dict[str, Any]:
    if request.options["gamma"] != "auto":
        return request.options
    from ..kernels import names_of_kernels

    with_width = names_of_kernels(lambda kind: kind.stationary)
    if request.options["kernel"] not in with_width:
        raise TableError(f"--gamma auto chooses the width of {' and '.join(with_width)} kernels only")
    return request.options | {"gamma": "median"}


@contextmanager
def in_words(table: Table) -> Iterator[None]:
    """Errors about a column, with the file that it is in."""
    try:
        yield
    except ValueError as error:
        if isinstance(error, TableError) or not str(error).startswith(("column ", "no column ")):
            raise
        text = str(error).replace(", or have gaps imputed", ", or give --missing impute")
        raise TableError(f"{table.path}: {text}") from error


def _stream(encoder: Any, table: Table, names: list[str]) -> Any:
    """Encoded rows, as often as they are asked for."""
    from ..rows.files import Stream

    def blocks() -> Iterator[np.ndarray]:
        first = 0
        for block in table.blocks(names, BLOCK_ROWS):
            yield encoder._transform(block, first)
            first += len(block)

    return Stream(blocks, table.n_rows)


def _choose_width(request: Request, estimator: Any, rows: Any) -> list[Width]:
    if request.options["gamma"] != "auto":
        return []
    some = rows if isinstance(rows, np.ndarray) else next(iter(rows.open()))
    widths = tried_widths(some, request.options["kernel"], request.options["components"], request.options["seed"])
    estimator.set_params(gamma=best_width(widths))
    return widths


def watched_fit(estimator: Any, rows: Any) -> Any:
    """Fit; whoever looks at a terminal sees what is being done and for how long."""
    console = Console(stderr=True)
    if not console.is_terminal:
        return estimator.fit(rows)
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=30), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("fitting", total=None)  # a bar that moves until it is over
        with _told(estimator, lambda text: progress.update(task, description=text)):
            return estimator.fit(rows)


@contextmanager
def _told(estimator: Any, tell: Callable[[str], Any]) -> Iterator[None]:
    """Hear the names of the stages of a fit, where scikit-learn has callbacks and the estimator tells them."""
    if not hasattr(estimator, "set_callbacks"):
        yield
        return
    estimator.set_callbacks(StageNames(tell))
    try:
        yield
    finally:
        estimator.set_callbacks()


class StageNames:
    """A callback of scikit-learn's that hears what a fit is about to do."""

    def __init__(self, tell: Callable[[str], Any]) -> None:
        self._tell = tell

    def setup(self, estimator: Any, context: Any) -> None:
        """Nothing to prepare."""

    def on_fit_task_begin(self, estimator: Any, context: Any, **_: Any) -> None:
        """A stage begins."""
        self._tell(str(getattr(context, "task_name", "") or "fitting"))

    def on_fit_task_end(self, estimator: Any, context: Any, **_: Any) -> None:
        """A stage is over."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing to tidy up."""


def given_options(context: Any) -> set[str]:
    """The options that the user wrote."""
    return {name for name in context.params if str(context.get_parameter_source(name)).endswith("COMMANDLINE")}


def notes(fitted: Fitted) -> list[str]:
    """What the user may want to know of a fit, and can act on."""
    found = []
    encoder = fitted.model[0] if hasattr(fitted.model, "steps") else None
    if encoder is not None and encoder.heavy_tails_ and encoder.scale == "standard":
        from .wording import columns_named

        many = len(encoder.heavy_tails_) > 1
        found.append(
            f"a few rows make most of the spread of {columns_named(encoder.heavy_tails_)}: --scale robust keeps "
            f"{'them' if many else 'it'} from outweighing the rest"
        )
    if fitted.widths:
        tried = ", ".join(f"{width.gamma:.3g} ({100 * width.error:.1f} %)" for width in fitted.widths)
        found.append(f"gamma tried, with the share of held-out rows' variance that was lost: {tried}")
    return found


def save_model(model: Any, path: Path) -> None:
    """To a file, or to standard output."""
    from .. import save
    from .writing import STDOUT

    if path != STDOUT:
        save(model, path)
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="kernelsieve-") as folder:
        file = Path(folder) / "model.ks"
        save(model, file)
        sys.stdout.buffer.write(file.read_bytes())
        sys.stdout.buffer.flush()
