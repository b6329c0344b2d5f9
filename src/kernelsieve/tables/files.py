"""Tables in files: CSV, Parquet, .xlsx, .npy and .npz, read whole or block by block.

`read_table` reads a file into one polars frame.  It and the command line call `open_table`, which returns a `Table`:
its rows are polars frames (arrays for .npy and .npz files), whole or in blocks, read by the same rules.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import TableError, quoted, warn
from .csv import CsvError, names_look_like_data, open_csv, unique_names

FORMATS = (".csv", ".tsv", ".txt", ".parquet", ".npy", ".npz")
READABLE = (*FORMATS, ".xlsx")  # .xlsx can be read, but not written
STREAMED_BYTES = 2**27  # a table that takes more than this in memory is read in blocks
PARQUET_ROWS = 2**16  # default number of rows read at a time
DEFAULT_KEY = "X"  # default name of the array in an .npz file
CHOOSE_COLUMNS = "leave out with exclude='{0}', or name the columns to use with columns="
# Errors that readers of compressed files and of numpy headers raise if a file is damaged.
DAMAGED = (EOFError, zipfile.BadZipFile, zlib.error, tokenize.TokenError)


def read_table(
    path: str | os.PathLike[str],
    *,
    header: bool = True,
    names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    key: str | None = None,
    na: str | Sequence[str] = (),
    dates: Mapping[str, str] | None = None,
) -> Any:
    """Read a table from a file, as the command line does.

    In CSV files the separator (comma, semicolon, tab or bar), decimal commas, marks between thousands, quotes, gzip,
    and the encodings UTF-8 (with or without a byte order mark), UTF-16 and Windows-1252 are recognised.  Empty cells,
    `?`, `NA`, `NaN`, `NULL` and the like are missing values.  Numbers may have blanks, a per cent sign or a currency
    sign around them; a column of dates becomes dates.  Dates such as 3/25/2024 have the day or the month first, as all
    cells of the column together decide; if they do not, the column stays text, with a warning.  A row with too few or
    too many cells raises an error that names the row.

    Parameters
    ----------
    path : str or path-like
        A file whose name ends in .csv, .tsv, .txt (also compressed: .csv.gz), .parquet, .npy or .npz; or in .xlsx, if
        openpyxl is installed.
    header : bool, default=True
        Whether the first line of a CSV file or sheet names the columns; if not, they are column_1, column_2, ...
    names : sequence of str, optional
        Names for the columns of a CSV file or sheet, in place of those in its first line.
    columns : sequence of str, optional
        The columns to return, in this order; all of them by default.
    exclude : sequence of str, optional
        Columns to leave out.
    key : str, optional
        For an .npz file the name of the array, by default "X" or else the only 2-D array; for an .xlsx file the name
        of the sheet, by default the first.
    na : str or sequence of str, optional
        Further texts that stand for a missing value in a CSV file or sheet, such as "unknown".
    dates : dict of str to {"day first", "month first"}, optional
        The order of dates such as 3/4/2024, by column, for a CSV file or sheet that does not decide it.

    Returns
    -------
    polars.DataFrame
        The columns of an array are called x0, x1, ...

    Raises
    ------
    kernelsieve.errors.TableError
        If the file is not a table, or lacks one of the columns.

    Examples
    --------
    >>> import os, tempfile
    >>> import kernelsieve
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "rows.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("size; cut; price\\n1,5; a; 3\\n?; b; 4\\n2,5; a; 5\\n")
    ...     frame = kernelsieve.read_table(path, exclude=["price"])
    >>> frame["size"].to_list(), frame["cut"].to_list()
    ([1.5, None, 2.5], ['a', 'b', 'a'])
    """
    if find_spec("polars") is None:
        raise ImportError("tables are read with polars: pip install polars")
    import polars as pl

    missing = (na,) if isinstance(na, str) else na
    table = open_table(Path(path), key=key, header=header, names=names or (), na=missing, dates=dates, whole=True)
    chosen = table.pick(columns or (), exclude or ())
    rows = table.selected(table.whole(), chosen)
    return pl.DataFrame(np.asarray(rows), schema=chosen) if isinstance(rows, np.ndarray) else rows


@dataclass(frozen=True)
class Table:
    """An opened table: its rows in memory, or the source from which they are read in blocks."""

    path: Path  # as the user gave it, for messages
    names: tuple[str, ...]
    named: bool  # False if the file has no column names, so that `names` are made up
    n_rows: int
    data: Any = None  # polars DataFrame, or ndarray of shape (n_rows, n_columns); None if rows are read in blocks
    source: Any = field(default=None, repr=False)  # for rows in blocks: an object with a method `frames()`
    batch_size: int | None = None
    dates: dict[str, str] = field(default_factory=dict)  # the order of dates such as 3/25/2024, by column

    def whole(self) -> Any:
        """All rows in one frame or array."""
        if self.data is not None:
            return self.data
        import polars as pl

        return pl.concat(list(self.source.frames()))

    def blocks(self, names: Sequence[str], size: int) -> Iterator[Any]:
        """The named columns, at most `size` rows at a time."""
        parts = [self.data] if self.data is not None else self.source.frames()
        for part in parts:
            for start in range(0, len(part), self.batch_size or size):
                yield self.selected(part[start : start + (self.batch_size or size)], names)

    def selected(self, rows: Any, names: Sequence[str]) -> Any:
        """The named columns of `rows`, a frame or array with all columns of the table."""
        if isinstance(rows, np.ndarray):
            if tuple(names) == self.names:
                return rows
            # Rows are contiguous, as in the array that a frame gives, so that results do not differ by rounding.
            return np.ascontiguousarray(rows[:, [self.names.index(name) for name in names]])
        return rows.select(names)

    def require(self, names: Sequence[str], needed_by: str) -> list[str]:
        """The table's names for these columns; raise if a column is missing or named twice."""
        # A column of an array may be given by its number, 0, or by scikit-learn's name for it, x0.
        found = [f"x{name}" if not self.named and f"x{name}" in self.names else name for name in names]
        missing = [name for name in found if name not in self.names]
        if missing:
            has = quoted(self.names)
            raise TableError(f"{self.path} has no {columns_named(missing)}, which {needed_by} needs; it has {has}")
        twice = sorted({name for name in found if found.count(name) > 1})
        if twice:
            raise TableError(f"{needed_by} names {columns_named(twice)} twice")
        return found

    def pick(self, columns: Sequence[str] = (), exclude: Sequence[str] = ()) -> list[str]:
        """The columns to use: `columns`, by default all columns of the table, without those in `exclude`."""
        wanted, unwanted = self.require(columns, "columns="), self.require(exclude, "exclude=")
        chosen = [name for name in (wanted or self.names) if name not in unwanted]
        if not chosen:
            raise TableError(f"no columns are left of the {len(self.names)} in {self.path}")
        return chosen

    def columns(self, names: Sequence[str]) -> dict[str, Any]:
        """The named columns, each with the type that it has in the table."""
        rows = self.whole()
        return {name: self.selected(rows, [name])[:, 0] for name in names}

    def numbers(self, names: Sequence[str], advice: str = CHOOSE_COLUMNS) -> np.ndarray:
        """The named columns as an array of finite floats; `advice` ends the error message for other columns."""
        return numbers_of(self.selected(self.whole(), names), names, self.path, advice)


def columns_named(names: Sequence[str]) -> str:
    """The names after the word column or columns: "column 'a'", or "columns 'a', 'b'"."""
    return f"column{'s' if len(names) > 1 else ''} {quoted(names)}"


def numbers_of(rows: Any, names: Sequence[str], path: Path, advice: str, first: int = 0) -> np.ndarray:
    """Rows of a frame or array as finite floats; `first`, the number of the first row, is for error messages."""
    if isinstance(rows, np.ndarray):
        kept = rows.dtype in (np.float32, np.float64)
        values = rows if kept else rows.astype(np.float32 if rows.dtype == np.float16 else np.float64)
    else:
        values = _frame_numbers(rows, path, advice)
    for start in range(0, len(values), PARQUET_ROWS):  # in parts, to need no mask as large as the array
        bad = ~np.isfinite(values[start : start + PARQUET_ROWS])
        if bad.any():
            row, column = (int(i) for i in np.argwhere(bad)[0])
            what = "missing (NaN)" if np.isnan(values[start + row, column]) else "infinite"
            place = f"column {names[column]!r} is {what} in row {first + start + row + 1}"
            raise TableError(f"{path}: {place}: fill or drop such rows first")
    return values


def _frame_numbers(frame: Any, path: Path, advice: str) -> np.ndarray:
    import polars as pl

    from ..rows.frames import NUMBER, first_unlike

    text = [name for name, dtype in frame.schema.items() if not (dtype.is_numeric() or dtype == pl.Boolean)]
    if text:
        column = frame[text[0]].drop_nulls()
        texts = [str(value) for value in column]
        held = f" (first {texts[first_unlike(texts, NUMBER)]!r})" if texts else " (it is empty)"
        verb = "is" if len(text) == 1 else "are"
        raise TableError(f"{path}: {columns_named(text)} {verb} not numeric{held}: {advice.format(','.join(text))}")
    single = all(dtype == pl.Float32 for dtype in frame.dtypes)
    return frame.cast(pl.Float32 if single else pl.Float64).fill_null(float("nan")).to_numpy(order="c")


def open_table(
    path: Path,
    *,
    called: Path | None = None,
    key: str | None = None,
    batch_size: int | None = None,
    whole: bool = False,
    **written: Any,
) -> Table:
    """Open a table; the extension of its name says which format it has.

    Parameters
    ----------
    path : file to read
    called : name of the file in messages, if it is not `path`
    key : as in `read_table`
    batch_size : number of rows to read at a time from a CSV or Parquet file
    whole : whether to read the table at once, however large it is
    written : header, names, na and dates, as in `read_table`: how a CSV file or sheet is written
    """
    called = called or path
    check_regular(path)
    extension = checked_format(path, READABLE)
    if extension in (".npy", ".npz"):
        return _array_table(called, _read_array(path, called, key))
    if extension == ".xlsx":
        return _sheet_table(path, called, key, batch_size, **written)
    if extension == ".parquet":
        return _parquet_table(path, called, batch_size, whole)
    return _csv_table(path, called, batch_size, whole, **written)


def check_regular(path: Path) -> None:
    """Raise unless `path` is a file that can be read more than once."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise FileNotFoundError(f"no such file: {path}") from None
    if stat.S_ISDIR(mode):
        raise TableError(f"{path} is a folder, a file is needed")
    if not stat.S_ISREG(mode):
        raise TableError(f"{path} is a pipe or a device: give - and have it sent to standard input")


def checked_format(path: Path, formats: Sequence[str] = FORMATS) -> str:
    """The extension of a file, without .gz; raise unless it is one of `formats`."""
    extension = path.suffix.lower()
    if extension == ".gz" and Path(path.stem).suffix.lower() in (".csv", ".tsv", ".txt"):
        return Path(path.stem).suffix.lower()
    if extension not in formats:
        known = ", ".join(formats)
        raise TableError(f"{path}: unknown format {extension!r}: the name must end in one of {known}")
    return extension


# --- CSV -----------------------------------------------------------------------------------------------------------


def _csv_table(
    path: Path,
    called: Path,
    batch_size: int | None,
    whole: bool,
    *,
    header: bool = True,
    names: Sequence[str] = (),
    **options: Any,
) -> Table:
    import polars as pl

    try:
        file, frame = open_csv(path, header=header, names=names, **options)
        if not file.n_rows:
            raise TableError(f"{called} has no rows")
        # The size in memory: a compressed file, or one of short numbers, is much smaller on disk.
        n_bytes = max(path.stat().st_size, 8 * file.n_rows * len(file.names))
        in_blocks = not whole and (batch_size is not None or n_bytes > STREAMED_BYTES)
        if frame is None and not in_blocks:
            frame = pl.concat(list(file.frames()))
    except (CsvError, pl.exceptions.PolarsError, UnicodeDecodeError, *DAMAGED) as error:
        raise TableError(f"{called} cannot be read as CSV: {_first_sentence(error)}") from error
    if header and not names and names_look_like_data(file):
        warn(
            f"the first line of {called} was read as column names and looks like data: if it is, give header=False",
        )
    data = None if in_blocks else frame
    return Table(called, file.names, header or bool(names), file.n_rows, data, file, batch_size, file.orders)


def _sheet_table(path: Path, called: Path, key: str | None, batch_size: int | None, **options: Any) -> Table:
    """The table in a sheet of a workbook, which is first saved as a tab-separated file."""
    from .csv import write_sheet

    with tempfile.TemporaryDirectory(prefix="kernelsieve-") as folder:
        saved = Path(folder) / "sheet.tsv"
        write_sheet(path, called, key, saved)
        return replace(_csv_table(saved, called, batch_size, True, **options), source=None)


def _first_sentence(error: BaseException) -> str:
    return " ".join(str(error).split(". ")[0].split()) or type(error).__name__


# --- Parquet -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ParquetRows:
    """A Parquet file that pyarrow reads in batches of rows."""

    path: Path
    called: Path
    names: tuple[str, ...]
    batch_size: int

    def frames(self) -> Iterator[Any]:
        """All rows, batch by batch, as polars frames."""
        import polars as pl
        from pyarrow.parquet import ParquetFile

        with _damage_in_one_line(self.called), ParquetFile(self.path, buffer_size=2**16, pre_buffer=False) as file:
            for batch in file.iter_batches(self.batch_size, use_threads=False):
                with _quiet_panics():
                    frame = pl.from_arrow(batch.rename_columns(list(self.names)))
                yield frame


def _parquet_table(path: Path, called: Path, batch_size: int | None, whole: bool) -> Table:
    import polars as pl

    if find_spec("pyarrow") is None:
        if batch_size and not whole:
            raise ImportError("batch_size= for Parquet needs pyarrow: pip install pyarrow")
        about: tuple[tuple[str, ...], int, int] = (), 1, 0  # size unknown: assume that the table fits in memory
    else:
        about = _parquet_footer(path, called)
    names, n_rows, n_bytes = about
    names_differ = len(set(names)) == len(names)  # polars cannot read a file in which two columns have one name
    names = unique_names(names, called.name)
    frame = source = None
    if names_differ and (whole or not (batch_size or n_bytes > STREAMED_BYTES)):
        with _damage_in_one_line(called), _quiet_panics():
            frame = pl.read_parquet(path)
        frame.columns = list(names or unique_names(frame.columns, called.name))
        names, n_rows = tuple(frame.columns), frame.height
    else:
        source = ParquetRows(path, called, names, batch_size or PARQUET_ROWS)
    if not n_rows:
        raise TableError(f"{called} has no rows")
    return Table(called, names, True, n_rows, frame, source, batch_size)


def _parquet_footer(path: Path, called: Path) -> tuple[tuple[str, ...], int, int]:
    """Column names, number of rows, and size in memory, from the footer of a Parquet file.

    The footer states the size without compression, but repeated values may still be encoded compactly in it.  So the
    size in memory is taken to be at least 8 bytes a value.
    """
    from pyarrow.parquet import ParquetFile

    with _damage_in_one_line(called), ParquetFile(path) as file:
        about, names = file.metadata, tuple(file.schema_arrow.names)
        stated = sum(about.row_group(number).total_byte_size for number in range(about.num_row_groups))
        return names, int(about.num_rows), max(stated, 8 * about.num_rows * about.num_columns)


@contextlib.contextmanager
def _damage_in_one_line(called: Path) -> Iterator[None]:
    """Turn any error of the readers for a damaged Parquet file into a TableError."""
    import polars as pl

    expected: tuple[type[BaseException], ...] = (pl.exceptions.PolarsError, OSError)
    if find_spec("pyarrow") is not None:
        import pyarrow as pa

        expected = (*expected, pa.ArrowException)
    try:
        yield
    except expected as error:
        raise TableError(f"{called} cannot be read as PARQUET: {_first_sentence(error)}") from error
    except BaseException as error:
        # polars' PanicException is a BaseException without a public name, so its class cannot be named here.
        if type(error).__name__ != "PanicException":
            raise
        raise TableError(f"{called} cannot be read as PARQUET: it is damaged") from None


@contextlib.contextmanager
def _quiet_panics() -> Iterator[None]:
    """Hide the messages of polars' panics, which it writes directly to the process's standard error."""
    sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # there is no standard error
        yield
        return
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


# --- arrays --------------------------------------------------------------------------------------------------------


def _read_array(path: Path, called: Path, key: str | None) -> Any:
    try:
        # An .npy file is memory-mapped, so its rows stay on disk until they are used.
        loaded = np.load(path, allow_pickle=False, mmap_mode="r" if path.suffix.lower() == ".npy" else None)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            return loaded[_key(called, loaded, key)]
    except TableError:
        raise
    except (ValueError, *DAMAGED) as error:
        raise TableError(f"{called} cannot be read: damaged, of Python objects, or not a NumPy file") from error


def _key(called: Path, loaded: Any, key: str | None) -> str:
    """The name of the array of an .npz file that is the table."""
    if key is None and DEFAULT_KEY not in loaded.files:
        tables = [name for name in loaded.files if loaded[name].ndim == 2]
        if len(tables) == 1:
            return str(tables[0])
        raise TableError(f"{called} holds {quoted(loaded.files)}: say which array with key=")
    chosen = DEFAULT_KEY if key is None else key
    if chosen not in loaded.files:
        raise TableError(f"{called} holds no array {chosen!r}, only {quoted(loaded.files)}")
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
