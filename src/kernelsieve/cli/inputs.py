"""What the commands read: tables and models, from files or standard input, and a model applied to a table."""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from ..errors import ColumnError, TableError
from ..tables.files import Table, numbers_of, open_table
from .options import FileOptions, names_of

STDIN = Path("-")
MAGIC = {b"PAR1": ".parquet", b"\x93NUM": ".npy", b"PK\x03\x04": ".npz"}  # first bytes of formats other than CSV
TRANSFORMED_ROWS = 2**16  # rows transformed at a time: with a hundred points, their kernel values take 50 MB
_spooled: dict[str, Any] = {}  # standard input can be read only once, so a command keeps what it read


def spooled_input() -> Path:
    """Standard input as a file, which is removed when the command ends."""
    if "path" not in _spooled:
        if sys.stdin is None or sys.stdin.isatty():
            raise TableError("nothing is sent to standard input: pipe a table into the command, or name a file")
        folder = tempfile.TemporaryDirectory(prefix="kernelsieve-")
        plain = Path(folder.name) / "standard-input"
        with plain.open("wb") as file:
            while piece := sys.stdin.buffer.read(2**20):
                file.write(piece)
        with plain.open("rb") as file:
            suffix = MAGIC.get(file.read(4), ".csv")
        _spooled.update(folder=folder, path=plain.rename(plain.with_suffix(suffix)))
    return Path(_spooled["path"])


def forget_input() -> None:
    """Remove what `spooled_input` kept."""
    folder = _spooled.pop("folder", None)
    _spooled.clear()
    if folder is not None:
        folder.cleanup()


def read_input(path: Path, asked: FileOptions, *, whole: bool = False, model: Any = None) -> Table:
    """The table in a file, or in standard input, read as the options of a command ask for.

    For a fitted model, dates such as 3/4/2024 are read in the order that they had in the fit.
    """
    called = Path("standard input") if path == STDIN else path
    return open_table(
        spooled_input() if path == STDIN else path,
        called=called,
        key=asked.key,
        header=not asked.no_header,
        names=names_of(asked.names),
        na=names_of(asked.na),
        dates=getattr(encoder_of(model), "date_order", None),
        batch_size=getattr(asked, "batch_size", None),
        whole=whole,
    )


@contextmanager
def naming_file(table: Table) -> Iterator[None]:
    """Add the file to errors about its columns."""
    try:
        yield
    except ColumnError as error:
        raise TableError(f"{table.path}: {error}") from error


def load_model(path: Path, data: Path | None = None) -> Any:
    """The model in a file, or in standard input if the table `data` does not come from there."""
    from .. import load
    from .outputs import Refused

    if path == STDIN and data == STDIN:
        raise Refused("only one of the model and the table can come from standard input")
    return load(spooled_input() if path == STDIN else path)


def core_of(model: Any) -> Any:
    """The estimator at the end of a pipeline, or the model itself."""
    return model[-1] if hasattr(model, "steps") else model


def encoder_of(model: Any) -> Any:
    """The step that turns a table into numbers; None if the model has no such step."""
    from ..tables.encoder import TableEncoder

    if not hasattr(model, "steps"):
        return getattr(model, "encoder_", None)  # the encoder of a monitor
    return model[0] if isinstance(model[0], TableEncoder) else None


def is_precomputed(model: Any) -> bool:
    """Whether the model takes kernel values in place of rows."""
    return getattr(core_of(model), "kernel", None) == "precomputed"


def matched_columns(
    table: Table, names: Sequence[str] | None, sizes: Sequence[int], needed_by: str, others: Sequence[str] = ()
) -> list[str]:
    """The columns of a table that a model takes: by name if both have names, else all except `others`, in order."""
    if names is not None and (table.named or set(names) <= set(table.names)):
        return table.require(names, needed_by)
    if names is not None:
        warnings.warn(
            f"{table.path} has no column names: its columns are taken in the order of {needed_by}", stacklevel=3
        )
    columns = [name for name in table.names if name not in others]
    if len(columns) not in sizes:
        surplus = len(columns) - sizes[0]
        more = f": name the other {surplus if surplus > 1 else 'one'} with --exclude" if surplus > 0 else ""
        raise TableError(f"{table.path} has {len(columns)} columns, {needed_by} needs {sizes[0]}{more}")
    return columns


class Applied:
    """A model and the columns of a table that it is given."""

    def __init__(
        self,
        model: Any,
        table: Table,
        kept: Sequence[str] = (),
        left_out: Sequence[str] = (),
        needed_by: str = "--keep",  # the option that names the kept columns
    ) -> None:
        self.model, self.table = model, table
        self.encoder = encoder_of(model)
        self.kept = table.require(kept, needed_by)
        names = getattr(model, "feature_names_in_", None)
        self.names = None if names is None else [str(name) for name in names]
        self.absent = self._not_needed()
        needed = None if self.names is None else [name for name in self.names if name not in self.absent]
        sizes = [model.n_features_in_, *([core_of(model).n_support_] if is_precomputed(model) else [])]
        unused = [*self.kept, *table.require(left_out, "--exclude")]
        self.columns = matched_columns(table, needed, sizes, "the model", unused)

    def _not_needed(self) -> list[str]:
        """Columns that the table lacks, and that are not needed, because the encoder leaves them out."""
        if self.encoder is None or self.names is None or not self.table.named:
            return []
        seen = zip(self.names, self.encoder.reasons_, strict=True)
        return [name for name, reason in seen if reason and name not in self.table.names]

    def rows(self, block: Any, first: int) -> Any:
        """A block of the table as rows for the last estimator of the model; `first` is the number of its first row."""
        steps = [step for _, step in getattr(self.model, "steps", [(None, None)])[:-1]]
        block = self.in_order(block)
        if self.encoder is not None:
            with naming_file(self.table):
                rows = self.encoder._transform(block, first)
                self._refuse_too_large(rows, block, first)
            steps = steps[1:]
        elif steps and self.names is not None and not isinstance(block, np.ndarray):
            rows = block
        else:
            rows = numbers_of(block, self.columns, self.table.path, "the model needs numbers there", first)
        for step in steps:
            rows = step.transform(rows)
        return rows

    def _refuse_too_large(self, rows: np.ndarray, block: Any, first: int) -> None:
        """Raise if a number of the block cannot be squared once it is scaled; the models know only encoded columns."""
        from ..rows.checks import LARGEST, within
        from ..rows.frames import column_names

        if within(rows, LARGEST[rows.itemsize]):
            return
        row, place = (int(at) for at in np.unravel_index(np.argmax(np.abs(rows)), rows.shape))
        column = int(self.encoder.source_columns()[place])
        name, value = column_names(self.encoder)[column], block[row, column]
        problem = f"is {value:g} in row {first + row + 1}, too large to compute with: correct it or drop the row"
        raise ColumnError(name, first + row, f"column {name!r} {problem}")

    def in_order(self, block: Any) -> Any:
        """Columns selected and ordered as the model expects; an array if the encoder was fitted to one."""
        import polars as pl

        if isinstance(block, np.ndarray) or (self.names is None and self.encoder is None):
            return block
        if self.names is None:
            numeric = all(dtype.is_numeric() for dtype in block.dtypes)
            return block.to_numpy() if numeric else block.to_numpy().astype(object)
        if not self.absent:  # columns of a file without names have been matched by place: rename them
            block = block.rename(dict(zip(self.columns, self.names, strict=True)))
        return block.with_columns(pl.lit(None).alias(name) for name in self.absent).select(self.names)

    def blocks(self, doing: str) -> Iterator[tuple[int, Any, Any]]:
        """For each block: the number of its first row, its rows for the estimator, its kept columns; shows progress."""
        import polars as pl

        wanted = [*self.columns, *(name for name in self.kept if name not in self.columns)]
        first = 0
        with row_progress(doing, self.table.n_rows) as advance:
            for block in self.table.blocks(wanted, TRANSFORMED_ROWS):
                if isinstance(block, np.ndarray):
                    part = block[:, : len(self.columns)]
                    kept = pl.DataFrame({name: block[:, wanted.index(name)] for name in self.kept})
                else:
                    part, kept = block.select(self.columns), block.select(self.kept)
                yield first, self.rows(part, first), kept
                first += len(block)
                advance(len(block))


@contextmanager
def row_progress(doing: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar that counts rows, if standard error is a terminal; yields a function to call with every number of rows."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda n_rows: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    counted = TextColumn("{task.completed:,.0f} of {task.total:,.0f} rows")
    columns = (TextColumn("{task.description}"), BarColumn(), counted, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(doing, total=total)
        yield lambda n_rows: progress.advance(task, n_rows)


def counted(blocks: Iterator[Any], advance: Callable[[int], None]) -> Iterator[Any]:
    """The blocks, unchanged; when one has been used, `advance` is called with its number of rows."""
    for block in blocks:
        yield block
        advance(len(block))
