"""Tables for the command line: CSV, Parquet, .npy and .npz, whole or in blocks, from files or standard input.

A `Table` has named columns and gives its rows as polars frames (arrays stay arrays), all at once or block by block;
either way by the same rules.  What a model is to be given is asked for by name.
"""

from __future__ import annotations

import os
import stat
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from .csv_records import RecordError
from .csv_types import CsvFile, open_csv
from .options import ModelOptions, TableOptions
from .parquet import ParquetRows, parquet_shape, read_parquet
from .standard_input import STDIN, spooled_input
from .wording import TableError, columns_named, listed

FORMATS = (".csv", ".tsv", ".txt", ".parquet", ".npy", ".npz")
STREAMED_BYTES = 2**27  # files larger than this are read in blocks, asked or not
DEFAULT_KEY = "X"  # of the table in an .npz file
CHOOSE_COLUMNS = "leave out with --exclude {0}, or name the columns to use with --columns"
CHECKED_ROWS = 65536  # a time, when looking for missing values
# What readers of packed files, and of headers of arrays, raise where they are damaged.
DAMAGED = (EOFError, zipfile.BadZipFile, zlib.error, tokenize.TokenError)


@dataclass(frozen=True)
class Table:
    """Rows with named columns."""

    path: Path  # as the user called it
    names: tuple[str, ...]
    named: bool  # False when `names` only count the columns
    n_rows: int
    data: Any = None  # polars DataFrame, or ndarray of shape (n_rows, n_columns); None where rows come in blocks
    source: Any = field(default=None, repr=False)  # a CsvFile or a ParquetRows, where rows come in blocks
    batch_size: int | None = None

    def whole(self) -> Any:
        """All rows in one frame or array."""
        if self.data is not None:
            return self.data
        import polars as pl

        return pl.concat(list(self.source.frames()))

    def blocks(self, names: Sequence[str], size: int) -> Iterator[Any]:
        """The named columns, some rows at a time."""
        parts = [self.data] if self.data is not None else self.source.frames()
        for part in parts:
            for start in range(0, len(part), self.batch_size or size):
                yield self.selected(part[start : start + (self.batch_size or size)], names)

    def selected(self, rows: Any, names: Sequence[str]) -> Any:
        """The named columns of some of its rows."""
        if isinstance(rows, np.ndarray):
            return rows if tuple(names) == self.names else rows[:, [self.names.index(name) for name in names]]
        return rows.select(names)

    def require(self, names: Sequence[str], needed_by: str) -> list[str]:
        """These columns as the table calls them; an error where one is not there, or named twice."""
        # columns of an array go by number, or as scikit-learn calls them
        found = [f"x{name}" if not self.named and f"x{name}" in self.names else name for name in names]
        missing = [name for name in found if name not in self.names]
        if missing:
            raise TableError(
                f"{self.path} has no {columns_named(missing)}, which {needed_by} needs; it has {listed(self.names)}"
            )
        twice = sorted({name for name in found if found.count(name) > 1})
        if twice:
            raise TableError(f"{needed_by} names {columns_named(twice)} twice")
        return found

    def pick(self, columns: Sequence[str] = (), exclude: Sequence[str] = ()) -> list[str]:
        """The column names that `--columns` and `--exclude` leave, in the order of `columns` or of the table."""
        wanted, unwanted = self.require(columns, "--columns"), self.require(exclude, "--exclude")
        chosen = [name for name in (wanted or self.names) if name not in unwanted]
        if not chosen:
            raise TableError(f"no columns are left of the {len(self.names)} in {self.path}")
        return chosen

    def columns(self, names: Sequence[str]) -> dict[str, Any]:
        """The named columns as they are."""
        rows = self.whole()
        if isinstance(rows, np.ndarray):
            return {name: rows[:, self.names.index(name)] for name in names}
        return {name: rows[name] for name in names}

    def numbers(self, names: Sequence[str], advice: str = CHOOSE_COLUMNS) -> np.ndarray:
        """The named columns as a finite float array; `advice` ends the message when they are no numbers."""
        return numbers_of(self.selected(self.whole(), names), names, self.path, advice)


def numbers_of(rows: Any, names: Sequence[str], path: Path, advice: str, first: int = 0) -> np.ndarray:
    """Rows of a frame or array as finite floats; `first` is the number of the first row."""
    if isinstance(rows, np.ndarray):
        kept = rows.dtype in (np.float32, np.float64)
        values = rows if kept else rows.astype(np.float32 if rows.dtype == np.float16 else np.float64)
    else:
        values = _frame_numbers(rows, path, advice)
    check_finite(values, names, path, first)
    return values


def _frame_numbers(frame: Any, path: Path, advice: str) -> np.ndarray:
    import polars as pl

    text = [name for name, dtype in frame.schema.items() if not (dtype.is_numeric() or dtype == pl.Boolean)]
    if text:
        column = frame[text[0]].drop_nulls()
        held = f" (first {str(column[0])!r})" if len(column) else " (it is empty)"
        verb = "is" if len(text) == 1 else "are"
        raise TableError(f"{path}: {columns_named(text)} {verb} not numeric{held}: {advice.format(','.join(text))}")
    single = all(dtype == pl.Float32 for dtype in frame.dtypes)
    frame = frame.cast(pl.Float32 if single else pl.Float64)
    return frame.fill_null(float("nan")).to_numpy(order="c")


def check_finite(values: np.ndarray, names: Sequence[str], path: Path, first: int = 0) -> None:
    """Raise where a value is missing or infinite, and say where."""
    for start in range(0, len(values), CHECKED_ROWS):
        bad = ~np.isfinite(values[start : start + CHECKED_ROWS])
        if bad.any():
            row, column = (int(i) for i in np.argwhere(bad)[0])
            what = "missing (NaN)" if np.isnan(values[start + row, column]) else "infinite"
            place = first + start + row + 1
            raise TableError(f"{path}: column {names[column]!r} is {what} in row {place}: fill or drop such rows first")


def read_table(
    path: Path, *, key: str | None = None, header: bool = True, batch_size: int | None = None, whole: bool = False
) -> Table:
    """Read a table; the format is told by the extension, that of standard input by its first bytes.

    Parameters
    ----------
    path : file to read, "-" for standard input
    key : name of the array in an .npz file; by default "X", or the only 2-D array
    header : whether the first line of a CSV file names the columns
    batch_size : rows to be had at a time from a CSV or Parquet file
    whole : never in blocks, however large
    """
    called = path
    if path == STDIN:
        called, path = Path("standard input"), spooled_input()
    else:
        check_regular(path)
    extension = checked_format(path)
    if extension in (".npy", ".npz"):
        return _array_table(called, _read_array(path, called, key))
    in_blocks = not whole and (batch_size is not None or path.stat().st_size > STREAMED_BYTES)
    if extension == ".parquet":
        return _parquet_table(path, called, batch_size, in_blocks)
    return _csv_table(path, called, header, batch_size, in_blocks)


def read_asked(path: Path, asked: ModelOptions | TableOptions, *, whole: bool = False) -> Table:
    """The table that the options of a command ask for."""
    return read_table(path, key=asked.key, header=not asked.no_header, batch_size=asked.batch_size, whole=whole)


def check_regular(path: Path) -> None:
    """Raise unless `path` is a file that can be read, and read again."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise FileNotFoundError(f"no such file: {path}") from None
    if stat.S_ISDIR(mode):
        raise TableError(f"{path} is a folder, a file is needed")
    if not stat.S_ISREG(mode):
        raise TableError(f"{path} is a pipe or a device: give - and have it sent to standard input")


def checked_format(path: Path) -> str:
    """The extension, if it is one of `FORMATS`; that of an unpacked file where gzip packed it."""
    extension = path.suffix.lower()
    if extension == ".gz" and Path(path.stem).suffix.lower() in (".csv", ".tsv", ".txt"):
        return Path(path.stem).suffix.lower()
    if extension not in FORMATS:
        known = ", ".join(FORMATS)
        raise TableError(f"{path}: unknown format {extension!r}: the name must end in one of {known}")
    return extension


def _csv_table(path: Path, called: Path, header: bool, batch_size: int | None, in_blocks: bool) -> Table:
    import polars as pl

    try:
        file, frame = open_csv(path, header=header)
        if not file.n_rows:
            raise TableError(f"{called} has no rows")
        if frame is None and not in_blocks:
            frame = pl.concat(list(file.frames()))
    except (RecordError, pl.exceptions.PolarsError, UnicodeDecodeError, *DAMAGED) as error:
        reason = " ".join(str(error).split(". ")[0].split())
        raise TableError(f"{called} cannot be read as CSV: {reason}") from error
    if header and _look_like_data(file.names):
        warnings.warn(
            f"the first line of {called} was read as column names and looks like data: if it is, give --no-header",
            stacklevel=4,
        )
    return Table(called, file.names, header, file.n_rows, None if in_blocks else frame, file, batch_size)


def _look_like_data(names: Sequence[str]) -> bool:
    """Whether column names are numbers, and not just 0, 1, 2, ... or 1, 2, 3, ..."""
    try:
        numbers = [float(name.split("_duplicated")[0]) for name in names]
    except ValueError:
        return False
    return any(number != numbers[0] + place for place, number in enumerate(numbers))


PARQUET_ROWS = 2**16  # read at a time, unless --batch-size says how many


def _parquet_table(path: Path, called: Path, batch_size: int | None, in_blocks: bool) -> Table:
    if in_blocks and find_spec("pyarrow") is None:
        if batch_size:
            raise ImportError("--batch-size needs pyarrow: pip install 'kernelsieve[files]'")
        in_blocks = False  # it may yet fit in memory
    frame = None if in_blocks else read_parquet(path, called)
    if frame is not None:
        names, n_rows, source = tuple(frame.columns), frame.height, None
    else:
        names, n_rows = parquet_shape(path, called)
        source = ParquetRows(path, called, batch_size or PARQUET_ROWS)
    if not n_rows:
        raise TableError(f"{called} has no rows")
    return Table(called, names, True, n_rows, frame, source, batch_size)


def _read_array(path: Path, called: Path, key: str | None) -> Any:
    try:
        # rows of an .npy file stay on disk until they are used
        loaded = np.load(path, allow_pickle=False, mmap_mode="r" if path.suffix.lower() == ".npy" else None)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            return loaded[_key(called, loaded, key)]
    except TableError:
        raise
    except (ValueError, *DAMAGED) as error:
        objects = "allow_pickle" in str(error) or "Python objects" in str(error)
        reason = "it holds Python objects" if objects else "damaged or not a NumPy file"
        raise TableError(f"{called} cannot be read: {reason}") from error


def _key(called: Path, loaded: Any, key: str | None) -> str:
    """Which array of an .npz file is the table."""
    if key is None and DEFAULT_KEY not in loaded.files:
        tables = [name for name in loaded.files if loaded[name].ndim == 2]
        if len(tables) == 1:
            return str(tables[0])
        raise TableError(f"{called} holds {listed(loaded.files)}: say which array with --key")
    chosen = DEFAULT_KEY if key is None else key
    if chosen not in loaded.files:
        raise TableError(f"{called} holds no array {chosen!r}, only {listed(loaded.files)}")
    return chosen


def _array_table(called: Path, values: Any) -> Table:
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        raise TableError(
            f"{called} holds a {values.dtype} array of shape {values.shape}: a 2-D array of numbers is needed"
        )
    if 0 in values.shape:
        raise TableError(f"{called} is empty: its array has shape {values.shape}")
    names = tuple(f"x{number}" for number in range(values.shape[1]))
    return Table(called, names, False, len(values), values)


__all__ = ["CsvFile", "Table", "TableError", "check_finite", "numbers_of", "read_table"]
