"""Tables larger than memory: CSV and Parquet files in blocks of rows, through pyarrow.

The first rows are read as those of any table are, and say what the columns are called and which of them hold numbers.
All rows then come, block by block, from a pyarrow dataset of the columns that are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from ..rows.files import Stream, batch_numbers, dataset_batches, stream_of
from .tables import Table, TableError, check_finite, read_table, separator_of

STREAMED_FORMATS = (".csv", ".tsv", ".parquet")
STREAMED_BYTES = 2**27  # files larger than this are read in blocks, asked or not
HEAD_ROWS = 10_000  # that say what the columns hold
DEFAULT_BATCH = 2**16  # rows transformed at a time


def is_streamed(path: Path, batch_size: int | None) -> bool:
    """Whether a table is to be read in blocks: where it is asked for, or large."""
    large = path.is_file() and path.stat().st_size > STREAMED_BYTES
    if path.suffix.lower() not in STREAMED_FORMATS or not (large or batch_size):
        return False
    if find_spec("pyarrow") is not None:
        return True
    if batch_size:
        raise ImportError("--batch-size needs pyarrow: pip install 'kernelsieve[files]'")
    return False  # it may yet fit in memory


@dataclass(frozen=True)
class StreamedTable:
    """A table of which only the first rows are in memory."""

    head: Table
    batch_size: int | None

    @classmethod
    def open(cls, path: Path, *, header: bool, batch_size: int | None) -> StreamedTable:
        """Read the first rows."""
        return cls(read_table(path, header=header, n_rows=HEAD_ROWS), batch_size)

    def stream(self, names: Sequence[str], advice: str) -> Stream:
        """The named columns as a stream of finite numbers; `advice` as in `Table.numbers`."""
        self.head.numbers(names, advice)
        with self._named_errors():
            numbers = stream_of(self._dataset(names), self.batch_size)
        assert numbers is not None

        def blocks() -> Iterator[np.ndarray]:
            start = 0
            with self._named_errors():
                for block in numbers.open():
                    check_finite(block, names, self.head.path, start)
                    yield block
                    start += len(block)

        return Stream(blocks, numbers.n_samples, tuple(names) if self.head.named else None)

    def blocks(self, names: Sequence[str], kept: Sequence[str], advice: str) -> Iterator[tuple[np.ndarray, Any]]:
        """Blocks of rows: the named columns as finite numbers, and the kept ones as they are, in a polars frame."""
        import polars as pl

        dtype, start = self.head.numbers(names, advice).dtype, 0
        dataset = self._dataset(names, [name for name in kept if name not in names])
        with self._named_errors():
            for batch in dataset_batches(dataset, self.batch_size or DEFAULT_BATCH):
                numbers = batch_numbers(batch.select(names), dtype)
                check_finite(numbers, names, self.head.path, start)
                yield numbers, pl.from_arrow(batch.select(kept))
                start += len(numbers)

    def count_rows(self) -> int:
        """The number of rows, which for a CSV file takes a look at all of it."""
        return int(self._dataset(self.head.names[:1]).count_rows())

    def _dataset(self, names: Sequence[str], kept: Sequence[str] = ()) -> Any:
        """A pyarrow dataset of these columns; numbers are declared float, so that a late decimal point is no error."""
        import pyarrow as pa
        import pyarrow.dataset as ds

        path, schema = self.head.path, self.head.data.to_arrow().schema
        fields = [(name, _number_type(schema.field(name).type)) for name in names]
        fields += [(name, schema.field(name).type) for name in kept]
        file_format = "parquet" if path.suffix.lower() == ".parquet" else self._csv_format()
        return ds.dataset(path, format=file_format, schema=pa.schema(fields))

    def _csv_format(self) -> Any:
        """As polars reads CSV: its names of columns, nothing but an empty cell is missing."""
        import pyarrow.dataset as ds
        from pyarrow import csv

        header_lines = int(self.head.named)
        return ds.CsvFileFormat(
            csv.ParseOptions(delimiter=separator_of(self.head.path), newlines_in_values=True),
            read_options=csv.ReadOptions(column_names=list(self.head.names), skip_rows=header_lines),
            convert_options=csv.ConvertOptions(null_values=[""], strings_can_be_null=True),
        )

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Errors of the reader with the name of the file."""
        import pyarrow as pa

        try:
            yield
        except pa.ArrowInvalid as error:
            raise TableError(f"{self.head.path} cannot be read: {error}") from error


def _number_type(kind: Any) -> Any:
    import pyarrow as pa

    return kind if pa.types.is_float32(kind) or pa.types.is_boolean(kind) else pa.float64()


def row_progress(console: Any) -> Any:
    """A rich progress bar that counts rows, for whoever looks at a terminal."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} rows"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def watched(stream: Stream, progress: Any) -> Stream:
    """The same stream, each pass of which moves a bar of its own."""
    passes = count(1)

    def blocks() -> Iterator[np.ndarray]:
        task = progress.add_task(f"pass {next(passes)}", total=stream.n_samples)
        for block in stream.open():
            yield block
            progress.advance(task, len(block))

    return replace(stream, open=blocks)
