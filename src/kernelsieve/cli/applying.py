"""A model from a file, applied to a table: the right columns, in the right order, block by block."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from .standard_input import STDIN, spooled_input
from .tables import Table, TableError, numbers_of

BLOCK_ROWS = 2**16  # worked on at a time
ADVICE = "the model needs numbers there"


def load_model(path: Path) -> Any:
    """The model in a file, or in standard input."""
    from .. import load

    return load(spooled_input() if path == STDIN else path)


def core_of(model: Any) -> Any:
    """The estimator at the end of a pipeline, or the model itself."""
    return model[-1] if hasattr(model, "steps") else model


def encoder_of(model: Any) -> Any:
    """The step that makes numbers of a table, None where there is none."""
    from ..tables import TableEncoder

    return model[0] if hasattr(model, "steps") and isinstance(model[0], TableEncoder) else None


class Applied:
    """A model and the columns of a table that it is given."""

    def __init__(self, model: Any, table: Table, kept: Sequence[str] = ()) -> None:
        self.model, self.table = model, table
        self.encoder = encoder_of(model)
        self.kept = table.require(kept, "--keep")
        self.absent: list[str] = []  # that the encoder has seen and does not use
        self.columns = self._columns()

    def _columns(self) -> list[str]:
        """The columns that the model needs: by name where both have names, else by place."""
        table, names = self.table, getattr(self.model, "feature_names_in_", None)
        if names is not None and table.named:
            wanted = [str(name) for name in names]
            if self.encoder is not None:
                used = {name for name, reason in zip(wanted, self.encoder.reasons_, strict=True) if not reason}
                self.absent = [name for name in wanted if name not in used and name not in table.names]
            needed = [name for name in wanted if name not in self.absent]
            table.require(needed, "the model")
            return needed
        if names is not None:
            warnings.warn(f"{table.path} has no column names: its columns are taken in the model's order", stacklevel=2)
        columns = [name for name in table.names if name not in self.kept]
        expected = self.model.n_features_in_
        few = getattr(core_of(self.model), "kernel", None) == "precomputed" and core_of(self.model).n_support_
        if len(columns) not in (expected, few):
            raise TableError(f"{table.path} has {len(columns)} columns, the model needs {expected}")
        return columns

    def rows(self, block: Any, first: int) -> Any:
        """Rows of the table as the estimator at the end takes them; `first` is the number of the first."""
        if self.encoder is not None:
            return self._through_steps(self.encoder._transform(self._ordered(block), first), 1)
        named = hasattr(self.model, "feature_names_in_") and not isinstance(block, np.ndarray)
        if hasattr(self.model, "steps") and named:
            return self._through_steps(block, 0)
        numbers = numbers_of(block, self.columns, self.table.path, ADVICE, first)
        return self._through_steps(numbers, 0) if hasattr(self.model, "steps") else numbers

    def _ordered(self, block: Any) -> Any:
        """A frame with the encoder's columns in its order; those that it leaves out may be missing."""
        names = getattr(self.encoder, "feature_names_in_", None)
        if isinstance(block, np.ndarray):
            return block
        if names is None:
            return numbers_or_objects(block)
        import polars as pl

        return block.with_columns(pl.lit(None).alias(name) for name in self.absent).select([str(n) for n in names])

    def _through_steps(self, rows: Any, start: int) -> Any:
        for _, step in self.model.steps[start:-1]:
            rows = step.transform(rows)
        return rows

    def blocks(self, doing: str) -> Iterator[tuple[int, Any, Any]]:
        """Number of the first row, rows for the estimator, and the kept columns, block by block, with progress."""
        wanted = [*self.columns, *(name for name in self.kept if name not in self.columns)]
        first = 0
        with row_progress() as progress:
            task = progress.add_task(doing, total=self.table.n_rows)
            for block in self.table.blocks(wanted, BLOCK_ROWS):
                part = block[:, : len(self.columns)] if isinstance(block, np.ndarray) else block.select(self.columns)
                yield first, self.rows(part, first), self._copied_columns(block, wanted)
                first += len(block)
                progress.advance(task, len(block))

    def _copied_columns(self, block: Any, wanted: Sequence[str]) -> Any:
        import polars as pl

        if isinstance(block, np.ndarray):
            return pl.DataFrame({name: block[:, wanted.index(name)] for name in self.kept})
        return block.select(self.kept)


def numbers_or_objects(frame: Any) -> np.ndarray:
    """A frame without names, for an encoder that was fitted to an array."""
    return frame.to_numpy() if all(dtype.is_numeric() for dtype in frame.dtypes) else frame.to_numpy().astype(object)


def scored_frames(
    applied: Applied, function: Callable[[Any], np.ndarray], names: list[str], doing: str
) -> Iterator[Any]:
    """Frames of the kept columns with what `function` makes of the rows beside them."""
    from .writing import scored

    for _, rows, kept in applied.blocks(doing):
        yield scored(np.asarray(function(rows)), names, kept)


def row_progress() -> Any:
    """A rich progress bar that counts rows, for whoever looks at a terminal."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} rows"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
