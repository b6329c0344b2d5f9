"""Tables for the command line: rows with column names, from and to CSV, Parquet, .npy and .npz.

A `Table` keeps what was read as it was read (a polars DataFrame, or an array whose columns are named by
their numbers) and gives out what is asked for: numbers for the model, checked, or columns as they are, to
be kept beside the scores.  Files are written whole or not at all.
"""

from __future__ import annotations

import io
import os
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..io.atomic import replacing

FORMATS = (".csv", ".tsv", ".parquet", ".npy", ".npz")
SEPARATORS = (",", ";", "\t")
DEFAULT_KEY = "X"  # of the table in an .npz file
MAX_NAMES = 5  # column names spelled out in a message
CHECKED_ROWS = 65536  # a time, when looking for missing values


class TableError(ValueError):
    """A file that is no table, or not the table that is needed."""


@dataclass(frozen=True)
class Table:
    """Rows with named columns."""

    path: Path
    names: tuple[str, ...]
    named: bool  # False when `names` are only column numbers
    data: Any  # polars DataFrame, or ndarray of shape (n_rows, n_columns)

    @property
    def n_rows(self) -> int:
        return int(self.data.shape[0])

    def require(self, names: Sequence[str], needed_by: str) -> None:
        """Raise unless all `names` are columns."""
        missing = [name for name in names if name not in self.names]
        if missing:
            raise TableError(
                f"{self.path} has no {_columns(missing)}, which {needed_by} needs; it has {_listed(self.names)}"
            )

    def pick(self, columns: Sequence[str] = (), exclude: Sequence[str] = ()) -> list[str]:
        """The column names that `--columns` and `--exclude` leave, in the order of `columns` or of the table."""
        self.require(columns, "--columns")
        self.require(exclude, "--exclude")
        chosen = [name for name in (columns or self.names) if name not in exclude]
        if not chosen:
            raise TableError(f"no columns are left of the {len(self.names)} in {self.path}")
        return chosen

    def numbers(self, names: Sequence[str], advice: str) -> np.ndarray:
        """The named columns as a finite float array; `advice` ends the message when they are no numbers."""
        if isinstance(self.data, np.ndarray):
            values = _array_numbers(self, names)
        else:
            values = _frame_numbers(self, names, advice)
        check_finite(values, names, self.path)
        return values

    def columns(self, names: Sequence[str]) -> dict[str, Any]:
        """The named columns as they are."""
        if isinstance(self.data, np.ndarray):
            return {name: self.data[:, self.names.index(name)] for name in names}
        return {name: self.data[name] for name in names}


def _array_numbers(table: Table, names: Sequence[str]) -> np.ndarray:
    values = table.data
    if tuple(names) != table.names:
        values = values[:, [table.names.index(name) for name in names]]
    if values.dtype in (np.float32, np.float64):
        return values
    return values.astype(np.float32 if values.dtype == np.float16 else np.float64)


def _frame_numbers(table: Table, names: Sequence[str], advice: str) -> np.ndarray:
    import polars as pl

    frame = table.data.select(names)
    text = [name for name, dtype in frame.schema.items() if not (dtype.is_numeric() or dtype == pl.Boolean)]
    if text:
        example = _first_text(frame[text[0]])
        verb = "is" if len(text) == 1 else "are"
        raise TableError(f"{table.path}: {_columns(text)} {verb} not numeric{example}: {advice.format(','.join(text))}")
    single = all(dtype == pl.Float32 for dtype in frame.dtypes)
    frame = frame.cast(pl.Float32 if single else pl.Float64)
    return frame.fill_null(float("nan")).to_numpy(order="c")


def _first_text(column: Any) -> str:
    """The first value that is no number, for the message."""
    import polars as pl

    if column.dtype != pl.String:
        return f" (it holds {column.dtype})"
    text = column.filter(column.cast(pl.Float64, strict=False).is_null() & column.is_not_null())
    return f" (first {text[0]!r})" if len(text) else " (it is empty)"


def check_finite(values: np.ndarray, names: Sequence[str], path: Path, first: int = 0) -> None:
    """Raise where a value is missing or infinite, and say where; `first` is the number of the first row."""
    for start in range(0, len(values), CHECKED_ROWS):
        bad = ~np.isfinite(values[start : start + CHECKED_ROWS])
        if bad.any():
            row, column = (int(i) for i in np.argwhere(bad)[0])
            what = "missing (NaN)" if np.isnan(values[start + row, column]) else "infinite"
            place = first + start + row + 1
            raise TableError(f"{path}: column {names[column]!r} is {what} in row {place}: fill or drop such rows first")


def read_table(path: Path, *, key: str | None = None, header: bool = True, n_rows: int | None = None) -> Table:
    """Read a table; the format is told by the extension.

    Parameters
    ----------
    path : file to read
    key : name of the array in an .npz file; by default "X", or the only 2-D array
    header : whether the first line of a CSV file names the columns
    n_rows : read only so many rows of a CSV or Parquet file
    """
    extension = checked_format(path)
    if not path.exists():
        raise FileNotFoundError(f"no such file: {path}")
    if path.is_dir():
        raise TableError(f"{path} is a folder, a file is needed")
    if extension in (".npy", ".npz"):
        return _array_table(path, _read_array(path, key))
    return _read_frame(path, extension, header, n_rows)


def checked_format(path: Path) -> str:
    """The extension, if it is one of `FORMATS`."""
    extension = path.suffix.lower()
    if extension not in FORMATS:
        raise TableError(f"{path}: unknown format {extension!r}: the name must end in one of {', '.join(FORMATS)}")
    return extension


def _read_frame(path: Path, extension: str, header: bool, n_rows: int | None) -> Table:
    import polars as pl

    try:
        if extension == ".parquet":
            frame = pl.read_parquet(path, n_rows=n_rows)
        else:
            source = path if n_rows is None else io.BytesIO(_first_lines(path, n_rows + int(header)))
            # the types of columns are told from all rows: a late decimal point must not be an error
            frame = pl.read_csv(source, separator=separator_of(path), has_header=header, infer_schema_length=None)
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split(". ")[0].split())
        raise TableError(f"{path} cannot be read as {extension[1:].upper()}: {reason}") from error
    if not frame.height:
        raise TableError(f"{path} has no rows")
    if extension != ".parquet" and header and _look_like_data(frame.columns):
        warnings.warn(
            f"the first line of {path} was read as column names and looks like data: if it is, give --no-header",
            stacklevel=4,
        )
    return Table(path, tuple(frame.columns), header or extension == ".parquet", frame)


def _first_lines(path: Path, n_lines: int) -> bytes:
    """The first lines of a file, and those that it takes to close a quoted cell: polars would hold far more."""
    lines: list[bytes] = []
    n_quotes = 0
    with path.open("rb") as file:
        for line in islice(file, 2 * n_lines):
            lines.append(line)
            n_quotes += line.count(b'"')
            if len(lines) >= n_lines and n_quotes % 2 == 0:
                break
    return b"".join(lines)


def separator_of(path: Path) -> str:
    """A tab for .tsv, else what splits the first line into most cells."""
    if path.suffix.lower() == ".tsv":
        return "\t"
    with path.open(encoding="utf-8", errors="replace") as file:
        line = file.readline(2**20)
    return max(SEPARATORS, key=line.count)


def _look_like_data(names: Sequence[str]) -> bool:
    """Whether column names are numbers, and not just 0, 1, 2, ... or 1, 2, 3, ..."""
    try:
        numbers = [float(name.split("_duplicated")[0]) for name in names]
    except ValueError:
        return False
    return any(number != numbers[0] + place for place, number in enumerate(numbers))


def _read_array(path: Path, key: str | None) -> Any:
    try:
        # rows of an .npy file stay on disk until they are used
        loaded = np.load(path, allow_pickle=False, mmap_mode="r" if path.suffix.lower() == ".npy" else None)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            return loaded[_key(path, loaded, key)]
    except TableError:
        raise
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        objects = "allow_pickle" in str(error) or "Python objects" in str(error)
        reason = "it holds Python objects" if objects else "damaged or not a NumPy file"
        raise TableError(f"{path} cannot be read: {reason}") from error


def _key(path: Path, loaded: Any, key: str | None) -> str:
    """Which array of an .npz file is the table."""
    if key is None and DEFAULT_KEY not in loaded.files:
        tables = [name for name in loaded.files if loaded[name].ndim == 2]
        if len(tables) == 1:
            return str(tables[0])
        raise TableError(f"{path} holds {_listed(loaded.files)}: say which array with --key")
    chosen = DEFAULT_KEY if key is None else key
    if chosen not in loaded.files:
        raise TableError(f"{path} holds no array {chosen!r}, only {_listed(loaded.files)}")
    return chosen


def _array_table(path: Path, values: Any) -> Table:
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        raise TableError(
            f"{path} holds a {values.dtype} array of shape {values.shape}: a 2-D array of numbers is needed"
        )
    if 0 in values.shape:
        raise TableError(f"{path} is empty: its array has shape {values.shape}")
    return Table(path, tuple(str(number) for number in range(values.shape[1])), False, values)


def check_output(path: Path) -> None:
    """Raise now what writing `path` at the end of a long run would raise then."""
    folder = path.parent
    if path.exists() and not path.is_file():
        raise TableError(f"cannot write {path}: it is {'a folder' if path.is_dir() else 'not a plain file'}")
    if not folder.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"cannot write {path}: no permission to write in {folder}")


def check_written(path: Path, names: Sequence[str], kept: Sequence[str]) -> None:
    """Raise if a file of this format cannot hold columns `kept` beside scores of these names."""
    extension = checked_format(path)
    if extension == ".npy" and kept:
        raise TableError(f"{path}: .npy holds scores alone; to keep {_columns(kept)} write .csv, .parquet or .npz")
    clash = [name for name in kept if name in ([DEFAULT_KEY] if extension == ".npz" else names)]
    if clash:
        raise TableError(f"{path}: {_columns(clash)} cannot be kept: the scores go by that name")


def write_table(path: Path, scores: np.ndarray, names: Sequence[str], kept: Mapping[str, Any]) -> None:
    """Write scores, kept columns before them; the format is told by the extension.

    A CSV or Parquet file gets one column a name.  An .npz file gets the scores as "X" and each kept column under
    its name, an .npy file the scores alone.
    """
    check_written(path, names, list(kept))
    extension = checked_format(path)
    check_output(path)
    with replacing(path) as temporary:
        if extension in (".npy", ".npz"):
            _write_arrays(temporary, extension, scores, kept)
        else:
            _write_frame(temporary, extension, scores, names, kept)


def write_blocks(path: Path, blocks: Iterable[tuple[np.ndarray, Any]], names: Sequence[str]) -> int:
    """Write blocks of scores and of kept columns (polars frames) as they come, CSV and Parquet without holding them.

    The number of rows written; like `write_table`, all or none.
    """
    extension = checked_format(path)
    check_output(path)
    with replacing(path) as temporary:
        if extension in (".npy", ".npz"):
            scores, kept = _gathered(blocks)
            _write_arrays(temporary, extension, scores, kept)
            return len(scores)
        frames = (_frame(scores, names, kept.to_dict()) for scores, kept in blocks)
        if extension == ".parquet":
            return _write_parquet(temporary, frames)
        return _write_csv(temporary, frames, extension)


def _gathered(blocks: Iterable[tuple[np.ndarray, Any]]) -> tuple[np.ndarray, dict[str, Any]]:
    import polars as pl

    scores, kept = zip(*blocks, strict=True)
    return np.concatenate(scores), pl.concat(kept).to_dict()


def _write_parquet(path: Path, frames: Iterator[Any]) -> int:
    from pyarrow.parquet import ParquetWriter

    first = next(frames).to_arrow()
    n_rows = first.num_rows
    with ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for frame in frames:
            writer.write_table(frame.to_arrow())
            n_rows += frame.height
    return n_rows


def _write_csv(path: Path, frames: Iterator[Any], extension: str) -> int:
    n_rows = 0
    with path.open("wb") as file:
        for frame in frames:
            frame.write_csv(file, separator=_written_separator(extension), include_header=n_rows == 0)
            n_rows += frame.height
    return n_rows


def _written_separator(extension: str) -> str:
    return "\t" if extension == ".tsv" else ","


def _write_arrays(path: Path, extension: str, scores: np.ndarray, kept: Mapping[str, Any]) -> None:
    with path.open("wb") as file:
        if extension == ".npy":
            np.save(file, scores)
        else:
            columns = {name: _plain_array(column) for name, column in kept.items()}
            np.savez(file, allow_pickle=False, **{DEFAULT_KEY: scores}, **columns)


def _plain_array(column: Any) -> np.ndarray:
    """A column as an array without Python objects."""
    values = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
    return values.astype(np.str_) if values.dtype == object else values


def _write_frame(path: Path, extension: str, scores: np.ndarray, names: Sequence[str], kept: Mapping[str, Any]) -> None:
    frame = _frame(scores, names, kept)
    if extension == ".parquet":
        frame.write_parquet(path)
    else:
        frame.write_csv(path, separator=_written_separator(extension))


def _frame(scores: np.ndarray, names: Sequence[str], kept: Mapping[str, Any]) -> Any:
    import polars as pl

    return pl.DataFrame({**kept, **{name: scores[:, place] for place, name in enumerate(names)}})


def _columns(names: Sequence[str]) -> str:
    return f"column{'s' if len(names) > 1 else ''} {_listed(names)}"


def _listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(repr(str(name)) for name in names[:MAX_NAMES])
    return shown + (f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else "")
