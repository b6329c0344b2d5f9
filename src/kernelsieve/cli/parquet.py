"""Parquet files: whole through polars, in blocks through pyarrow; damaged ones are said to be so in one line."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .wording import TableError


@dataclass(frozen=True)
class ParquetRows:
    """A Parquet file whose rows are read some at a time."""

    path: Path
    called: Path
    batch_size: int

    def frames(self) -> Iterator[Any]:
        """All rows, as polars frames."""
        import polars as pl
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile

        try:
            with ParquetFile(self.path, buffer_size=2**16, pre_buffer=False) as file:
                for batch in file.iter_batches(self.batch_size, use_threads=False):
                    with no_panics(self.called):
                        frame = pl.from_arrow(batch)
                    yield frame
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{self.called} cannot be read as PARQUET: {_first_sentence(error)}") from error


def parquet_shape(path: Path, called: Path) -> tuple[tuple[str, ...], int]:
    """The columns and the number of rows, which a Parquet file says at its end."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            return tuple(file.schema_arrow.names), int(file.metadata.num_rows)
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{called} cannot be read as PARQUET: {_first_sentence(error)}") from error


def read_parquet(path: Path, called: Path) -> Any:
    """All rows, in one polars frame."""
    import polars as pl

    try:
        with no_panics(called):
            return pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise TableError(f"{called} cannot be read as PARQUET: {_first_sentence(error)}") from error


def _first_sentence(error: BaseException) -> str:
    return " ".join(str(error).split(". ")[0].split()) or type(error).__name__


@contextlib.contextmanager
def no_panics(called: Path) -> Iterator[None]:
    """What polars cannot make sense of is a damaged file, said in one line."""
    try:
        with quiet_panics():
            yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # no Exception, and without a name of its own to catch
            raise
        raise TableError(f"{called} cannot be read as PARQUET: it is damaged") from None


@contextlib.contextmanager
def quiet_panics() -> Iterator[None]:
    """The reader of damaged files prints its panics itself, past Python: they are said in one line instead."""
    sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # there is no standard error to keep quiet
        yield
        return
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
