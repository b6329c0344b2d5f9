"""CSV files, read whole or in blocks by the same rules.

A file is cut into blocks of whole records.  A record ends at a line break outside quotes.  Records and cells are found
by a few operations on arrays of bytes:

    inside(i)  = parity of the quotes up to byte i          xor, accumulated
    end(i)     = byte i is a line break and not inside      records
    cells(r)   = separators outside quotes in record r, + 1

The number of cells shows which rows have too few or too many; a parser would silently fill them up or cut them off.
Blank lines are skipped, except in a table of a single column, where they are missing values.

Polars parses each block.  If a column has different types in two blocks, they are combined: integers and floats become
floats, dates and times become times, anything else becomes text.  A cell is missing only if it is empty or one of
`MISSING`.

Dates such as 3/4/2024 may have the day or the month first.  All cells of a column decide together: if one number of a
cell is above 12, it is the day.  If no cell has such a number, or cells contradict each other, the column stays text.

A sheet of an .xlsx workbook is first written out as tab-separated text, so that its cells follow the same rules.
"""

from __future__ import annotations

import codecs
import csv
import datetime
import gzip
import io
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import TableError, quoted, warn

# Bytes of a file read at a time: large enough for polars to be fast, small compared with the memory of any machine.
CSV_BLOCK_BYTES = 2**25
MAX_RECORD = 2**28  # bytes; a longer record can only come from a quote that is opened and never closed
SEPARATORS = (",", ";", "\t", "|")
GZIP, UTF16 = b"\x1f\x8b", (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# Texts that R, pandas, spreadsheets, databases and the UCI archive write for a missing value.
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "-nan", "NULL", "null", "None", "<NA>", "?", "NaT")
# Unambiguous forms of dates; 3/4/2021 is ambiguous (see ORDERS).  %B is a month, in full or its first three letters.
DATES = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%B %d, %Y", "%d %B %Y", "%d-%B-%Y")
TIMES = tuple(f"{date}{gap}%H:%M{rest}" for date in DATES for gap in (" ", "T") for rest in ("", ":%S", ":%S%.f"))
TIMES += tuple(f"{date} %I:%M{rest} %p" for date in DATES for rest in ("", ":%S"))
NUMBERED_MONTH = r"^\d{4}[-/]\d{1,2}[-/]\d{1,2}|^\d{1,2}\.\d{1,2}\.\d{4}"
NAMED_MONTH = r"^[A-Z][a-z]+ \d{1,2}, \d{4}|^\d{1,2}[ -][A-Z][a-z]+[ -]\d{4}"
SLASHED_DATE = r"^\d{1,2}/\d{1,2}/\d{2}(\d{2})?($|[ T,])"
FULL_SLASHED_DATE = r"^(\d{1,2})/(\d{1,2})/(\d{4})($|[ T])"
# The orders that FULL_SLASHED_DATE may have, each with the text of year, month and day that replaces it.
DAY_FIRST, MONTH_FIRST = "day first", "month first"
ORDERS = {DAY_FIRST: "$3-$2-$1$4", MONTH_FIRST: "$3-$1-$2$4"}
DATE_LIKE = f"{NUMBERED_MONTH}|{NAMED_MONTH}"

# $12.50, -12.50 $ and 12,50 €: the currency sign is removed if all numbers of a column have the same one.
CURRENCY = r"^([+-]?)[$€£¥]\s*|\s*[$€£¥]$"
# Numbers with marks between thousands, in English notation (1,234.50) and in European notation (1.234,50).
THOUSANDS = r"^[+-]?([1-9]\d{0,2}(,\d{3})+|\d+)(\.\d+)?$"
THOUSANDS_WITH_FRACTION = r"^[+-]?([1-9]\d{0,2}(,\d{3})+|\d+)\.\d+$"
EUROPEAN = r"^[+-]?([1-9]\d{0,2}(\.\d{3})+|\d+)(,\d+)?$"
# Cells that show the decimal mark of a file: 12,5 has a decimal comma, 12.5 a decimal point; 1.234 may have either.
COMMA_CELL = re.compile(rb"[+-]?(\d{1,3}(\.\d{3})+|\d+),\d+")
POINT_CELL = re.compile(rb"[+-]?\d+\.\d+")
GROUPED_CELL = re.compile(rb"[+-]?[1-9]\d{0,2}([.,]\d{3})+")
HEAD_BYTES = 2**16  # bytes at the head of a file, from which its dialect is recognised
MIN_NUMBERS = 5  # if a column has at least 5 distinct numbers and one word, the word may stand for a missing value


class CsvError(ValueError):
    """A file that cannot be read as CSV."""


@dataclass(frozen=True)
class Dialect:
    """How the cells of a file are written."""

    separator: str
    decimal_comma: bool  # if true, 1.234 is more than a thousand, in the whole file
    missing: tuple[str, ...] = MISSING  # texts of cells that count as missing values


@dataclass(frozen=True)
class Slashed:
    """The type of a column of dates such as 3/4/2024, as long as not all of its blocks have been seen."""

    kind: Any  # the polars type of dates or times
    orders: frozenset[str]  # those in which all cells can be read
    example: str


@dataclass(frozen=True)
class CsvFile:
    """A CSV file that has been read once, so that the names and types of its columns are known."""

    path: Path
    dialect: Dialect
    names: tuple[str, ...]
    header: bool
    types: dict[str, Any]  # polars data types; None for a column without values
    n_rows: int
    orders: dict[str, str]  # for each column of dates such as 3/25/2024: DAY_FIRST or MONTH_FIRST

    def frames(self) -> Iterator[Any]:
        """All rows, block by block, as polars frames with the same schema."""
        import polars as pl

        text = [name for name, kind in self.types.items() if kind == pl.String]
        for frame in _parsed_blocks(self.path, self.dialect, self.names, self.header, text):
            yield _cast(frame, self.types, self.dialect, self.orders)


def open_csv(
    path: Path,
    *,
    header: bool,
    names: Sequence[str] = (),
    na: Sequence[str] = (),
    dates: Mapping[str, str] | None = None,
) -> tuple[CsvFile, Any]:
    """The file, and its rows as one frame if they fit into one block, else None.

    `names` replace those in the first line, or column_1, column_2, ... in a file without a header.  Cells that hold one
    of `na` count as missing, too.  `dates` gives the order of dates such as 3/4/2024 in some columns, by name.
    """
    dialect = _dialect(path, na)
    called = _names(path, dialect.separator, header, names)
    types: dict[str, Any] = {}
    n_rows, first = 0, None
    orders = dict(dates or {})
    for number, frame in enumerate(_parsed_blocks(path, dialect, called, header, ())):
        found = _types(frame, dialect, orders)
        types = _joined(types, found) if number else found
        n_rows += frame.height
        first = frame if number == 0 else None
        if number == 0:
            _warn_of_words(frame, types, dialect)
    types, orders = _with_orders(types, orders)
    file = CsvFile(path, dialect, called, header, types, n_rows, orders)
    return file, None if first is None else _cast(first, types, dialect, orders)


def rows_like(file: CsvFile, path: Path) -> Any:
    """The rows of another file, which has no header, read like those of `file`: with its names, dialect and types."""
    import polars as pl

    texts = [name for name, kind in file.types.items() if kind == pl.String]
    frames = []
    for frame in _parsed_blocks(path, file.dialect, file.names, False, texts):
        types = _joined(file.types, _types(frame, file.dialect, file.orders))
        for name, kind in file.types.items():
            if kind is None:  # the first rows had no value there, so its type is not known
                frame, types = frame.with_columns(pl.lit(None, pl.Float64).alias(name)), types | {name: None}
            elif kind != pl.String and types[name] == pl.String:
                raise CsvError(f"column {name!r} holds values of another kind than in the first rows")
        frames.append(_cast(frame, types, file.dialect, file.orders))
    return pl.concat(frames, how="vertical_relaxed")


# --- bytes and records ---------------------------------------------------------------------------------------------


def _chunks(path: Path, size: int) -> Iterator[bytes]:
    """The bytes of a file as UTF-8, unpacked and without a byte order mark."""
    with path.open("rb") as file:
        packed = file.read(2) == GZIP
    unpacked: Any = gzip.open if packed else open
    with unpacked(path, "rb") as file:
        piece = file.read(size)
        decoder = codecs.getincrementaldecoder("utf-16")() if piece[:2] in UTF16 else None
        piece = piece.removeprefix(codecs.BOM_UTF8)
        old_breaks = b"\n" not in piece and b"\r" in piece  # old Macintoshes and some instruments end lines so
        while piece:
            text = decoder.decode(piece).encode() if decoder else piece
            yield text.replace(b"\r", b"\n") if old_breaks else text
            piece = file.read(size)


def _dialect(path: Path, na: Sequence[str]) -> Dialect:
    """The separator (a tab for .tsv, else the most frequent one in the first line), and the decimal mark.

    As many semicolons as commas, as in 1,5;2,5;a without a header, are separators between decimal commas.
    """
    head = next(_chunks(path, HEAD_BYTES), b"")
    line = head.split(b"\n")[0]
    tabs = ".tsv" in [suffix.lower() for suffix in path.suffixes]
    count = {one: line.count(one.encode()) for one in SEPARATORS}
    separator = "\t" if tabs else max(SEPARATORS, key=lambda one: (count[one], count[one] and one != ","))
    return Dialect(separator, separator != "," and _has_decimal_commas(head, separator), (*MISSING, *na))


def _has_decimal_commas(head: bytes, separator: str) -> bool:
    """Whether at least one number has a decimal comma, and none has a decimal point."""
    cells = {cell.strip(b' "\r%') for cell in head.replace(b"\n", separator.encode()).split(separator.encode())}
    grouped = {cell for cell in cells if GROUPED_CELL.fullmatch(cell)}
    points = any(POINT_CELL.fullmatch(cell) for cell in cells - grouped)
    return not points and any(COMMA_CELL.fullmatch(cell) for cell in cells - grouped)


def _record_blocks(path: Path, size: int = 0) -> Iterator[bytes]:
    """The file in blocks of whole records, without the blank lines at its end."""
    pending = b""
    for chunk in _chunks(path, size or CSV_BLOCK_BYTES):
        pending += chunk
        cut = _last_end(pending)
        if cut == 0 and len(pending) > MAX_RECORD:
            raise CsvError("a quote is opened and not closed, or a line has no end")
        block, pending = pending[:cut], pending[cut:]
        kept = block.rstrip(b"\r\n")
        if kept:  # blank lines after this block are held back, as the file may end with them
            end = len(kept) + (2 if block[len(kept) : len(kept) + 2] == b"\r\n" else 1)
            yield block[:end]
            block = block[end:]
        pending = block + pending
    rest = pending.rstrip(b"\r\n")
    if rest:
        if rest.count(b'"') % 2:
            raise CsvError("a quote is opened and never closed")
        yield rest + b"\n"


def _last_end(data: bytes) -> int:
    """The position after the last line break outside quotes; 0 if there is none."""
    if b'"' not in data:
        return data.rfind(b"\n") + 1
    array = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero((array == ord("\n")) & _outside_quotes(array))
    return int(ends[-1]) + 1 if len(ends) else 0


def _outside_quotes(data: np.ndarray) -> np.ndarray:
    return ~np.logical_xor.accumulate(data == ord('"'))


def _checked(block: bytes, separator: str, width: int, first: int) -> tuple[bytes, int]:
    """The block without blank lines, and its number of records; raises if a record does not have `width` cells.

    `first` is the number of rows before the block, so that the error can name the row.
    """
    data = np.frombuffer(block, np.uint8)
    breaks, separators = data == ord("\n"), data == ord(separator)
    if b'"' in block:
        outside = _outside_quotes(data)
        breaks &= outside
        separators &= outside
    ends = np.flatnonzero(breaks)
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts
    lengths -= (lengths > 0) & (data[np.maximum(ends - 1, 0)] == ord("\r"))
    blank = lengths == 0
    if width > 1 and blank.any():
        keep = np.ones(len(data), dtype=bool)
        for start, end in zip(starts[blank], ends[blank], strict=True):
            keep[start : end + 1] = False
        return _checked(data[keep].tobytes(), separator, width, first) if keep.any() else (b"", 0)
    counts = np.add.reduceat(separators, starts) + 1 if len(starts) else np.empty(0)
    wrong = np.flatnonzero(counts != width)
    if len(wrong):
        row, cells = first + int(wrong[0]) + 1, int(counts[wrong[0]])
        one = "; if lines of text come before the column names, delete them" if width == 1 else ""
        raise CsvError(
            f"row {row} has {cells} cell{'s' * (cells > 1)} where the table has {width} column{'s' * (width > 1)}{one}"
        )
    return block, len(ends)


# --- names and types -----------------------------------------------------------------------------------------------


def _names(path: Path, separator: str, header: bool, given: Sequence[str]) -> tuple[str, ...]:
    import polars as pl

    first = next(_record_blocks(path, 2**16), None)
    if first is None:
        raise CsvError("it is empty")
    # Parse only the first record; it may hold line breaks in quotes, so it may be more than one line.
    frame = pl.read_csv(
        io.BytesIO(_utf8(first, path)), separator=separator, has_header=False, n_rows=1, infer_schema=False,
        truncate_ragged_lines=True,
    )  # fmt: skip
    if given and len(given) != frame.width:
        raise CsvError(f"{len(given)} names were given for its {frame.width} columns")
    if given or not header:
        return tuple(given) or tuple(f"column_{number}" for number in range(1, frame.width + 1))
    return unique_names(frame.row(0), path.name)


def names_look_like_data(file: CsvFile) -> bool:
    """Whether the names look like data: those of numeric columns are numbers, but no regular series such as years."""
    import polars as pl

    named: list[float] = []
    for number, (name, kind) in enumerate(file.types.items(), start=1):
        text = name.split("_duplicated")[0]
        if kind is None or not kind.is_numeric() or text == f"column_{number}":  # a blank cell was given this name
            continue
        read = _read_text(pl.Series([text]), file.dialect)
        if not _is_numeric(read):
            return False
        named += read.drop_nulls().to_list()
    if not named or len(named) == 1 < len(file.names):
        return False
    steps = np.diff(named)
    counts = (steps == steps[0]).all() and (steps[0] == 1 or len(named) > 2) if len(steps) else True
    return not (counts and all(float(number).is_integer() for number in named))


def unique_names(given: Sequence[str | None], file: str) -> tuple[str, ...]:
    """A unique name for every column: a third column without a name becomes column_3, a second "a" a_duplicated_0."""
    names = [(name or "").strip() for name in given]
    found: list[str] = []
    for number, name in enumerate(names, start=1):
        called, copies = name or f"column_{number}", 0
        while called in found or (called != name and called in names):
            called = f"{name}_duplicated_{copies}" if name else f"{called}_"
            copies += 1
        found.append(called)
    doubles = [found[place] for place, name in enumerate(names) if name and name in names[:place]]
    if doubles:
        warn(f"{file} names columns more than once: the later ones are called {quoted(doubles)} here")
    return tuple(found)


def _parsed_blocks(
    path: Path, dialect: Dialect, names: tuple[str, ...], header: bool, text: Sequence[str]
) -> Iterator[Any]:
    """Every block as polars parses it.

    Columns in `text` stay text.  In a file with decimal commas, so do columns that polars would read as floats, because
    their points separate thousands.
    """
    import polars as pl

    n_rows, skip = 0, int(header)
    for raw in _record_blocks(path):
        block, count = _checked(raw, dialect.separator, len(names), n_rows - skip)
        n_rows += count
        if count > skip:
            options: dict[str, Any] = {
                "separator": dialect.separator,
                "has_header": False,
                "skip_rows": skip,
                "new_columns": list(names),
                "null_values": list(dialect.missing),
                "schema_overrides": dict.fromkeys(text, pl.String),
            }
            content = _utf8(block, path)
            try:
                frame = pl.read_csv(io.BytesIO(content), infer_schema_length=1000, **options)
            except pl.exceptions.ComputeError:  # a later row has another type, such as the first decimal point
                options["schema_overrides"] |= dict.fromkeys(_too_long_for_integers(content, options), pl.Float64)
                frame = pl.read_csv(io.BytesIO(content), infer_schema_length=None, **options)
            if dialect.decimal_comma and pl.Float64 in frame.dtypes:
                pointed = [name for name, kind in frame.schema.items() if kind == pl.Float64]
                options["schema_overrides"] |= dict.fromkeys(pointed, pl.String)
                frame = pl.read_csv(io.BytesIO(content), infer_schema_length=None, **options)
            yield frame
        n_rows -= min(skip, count)
        skip -= min(skip, count)


def _too_long_for_integers(content: bytes, options: dict[str, Any]) -> list[str]:
    """Columns of numbers that hold an integer of 19 or more digits, which polars may refuse to read as an integer."""
    import polars as pl

    texts = pl.read_csv(io.BytesIO(content), infer_schema=False, **options)
    long = (column for column in texts if column.str.contains(r"^\s*[+-]?\d{19,}\s*$").any())
    return [one.name for one in long if one.cast(pl.Float64, strict=False).null_count() == one.null_count()]


def _utf8(block: bytes, path: Path) -> bytes:
    try:
        block.decode("utf-8")
    except UnicodeDecodeError:  # most likely Windows-1252, which spreadsheets write
        warn(f"{path.name} is not in UTF-8: it is read as Windows-1252")
        return block.decode("cp1252", errors="replace").encode()
    return block


def _types(frame: Any, dialect: Dialect, orders: Mapping[str, str]) -> dict[str, Any]:
    """The polars types of a block's columns; None for a column without values, Slashed for 3/4/2024 in no known order.

    `orders` are those that are known, by column.
    """
    import polars as pl

    found: dict[str, Any] = {}
    for column in frame.iter_columns():
        kind = column.dtype
        if column.null_count() == len(column):
            kind = None
        elif kind == pl.String:
            possible = _possible_orders(_stripped(column, dialect.missing).drop_nulls())
            known = orders.get(column.name)
            order = known if known in possible else next(iter(possible), None)
            read = _read_text(column, dialect, order)
            kind = pl.String if read is None or (possible and known not in (None, order)) else read.dtype
            if possible and known is None and kind != pl.String:
                kind = Slashed(kind, possible, column.drop_nulls()[0])
        elif kind.is_numeric() and kind != pl.Int64:
            kind = pl.Float64  # also for integers of more than 64 bits
        found[column.name] = kind
    return found


def _possible_orders(text: Any) -> frozenset[str]:
    """The orders in which all of these texts may be dates such as 3/4/2024; none if they are anything else."""
    if not text[:100].str.contains(FULL_SLASHED_DATE).all() or not text.str.contains(FULL_SLASHED_DATE).all():
        return frozenset()
    first, second = (text.str.extract(FULL_SLASHED_DATE, number).cast(int) for number in (1, 2))
    return frozenset(
        order for order, months in ((DAY_FIRST, second), (MONTH_FIRST, first)) if len(text) and (months <= 12).all()
    )


def _with_orders(types: dict[str, Any], orders: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The types of whole columns, and the orders of dates; warn of dates that stay text because they have no order."""
    import polars as pl

    types, orders = dict(types), dict(orders)
    for name, kind in types.items():
        if isinstance(kind, Slashed):
            types[name] = kind.kind if len(kind.orders) == 1 else pl.String
            if len(kind.orders) == 1:
                (orders[name],) = kind.orders
            else:
                _warn_undecided(name, kind.example)
    return types, orders


def _warn_undecided(name: str, example: str) -> None:
    warn(
        f"column {name!r} is read as text: dates such as {example!r} do not say whether the day or the month comes "
        "first. Write them as 2024-03-05, or leave the column out"
    )


def _joined(known: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    import polars as pl

    def joined(one: Any, other: Any) -> Any:
        if one is None or other is None or one == other:
            return other if one is None else one
        if isinstance(one, Slashed) and isinstance(other, Slashed):
            return Slashed(joined(one.kind, other.kind), one.orders & other.orders, one.example)
        if isinstance(one, Slashed) or isinstance(other, Slashed):
            return pl.String
        if one.is_numeric() and other.is_numeric():
            return pl.Float64
        if one.is_temporal() and other.is_temporal() and pl.Time not in (one, other):
            return pl.Datetime("us")
        return pl.String

    return {name: joined(known[name], kind) for name, kind in found.items()}


def _read_text(column: Any, dialect: Dialect, order: str | None = None) -> Any:
    """A column of text as numbers, truth values or dates if all its values can be read so; otherwise None.

    Numbers may have blanks around them, a per cent sign or the same currency sign in all rows, marks between thousands,
    and a decimal comma if the cells of the file are not separated by commas.  Dates such as 3/4/2024 have this order.
    """
    import polars as pl

    text = _stripped(column, dialect.missing)
    n_missing = text.null_count()
    if n_missing == len(text):
        return text.cast(pl.Float64)
    for attempt in _as_numbers(_without_signs(text), dialect):
        numbers = attempt.cast(pl.Float64, strict=False)
        if numbers.null_count() == n_missing:
            return numbers
    if text.is_in(["true", "false"]).sum() == len(text) - n_missing:
        return text == "true"
    if order is not None:
        text = text.str.replace(FULL_SLASHED_DATE, ORDERS[order])
    if not text.drop_nulls()[:100].str.contains(DATE_LIKE).all():  # rules out dates quickly in most columns
        return None
    plain = text.str.strip_suffix("Z")
    for form in (*DATES, *TIMES):
        kind: Any = pl.Date if form in DATES else pl.Datetime("us")
        dates = plain.str.strptime(kind, form, strict=False, exact=True)
        if dates.null_count() == n_missing:
            return dates
    return None


def _without_signs(text: Any) -> Any:
    """The text without its per cent signs or currency signs, if all values have the same one."""
    if text.str.ends_with("%").all():
        return text.str.strip_suffix("%").str.strip_chars()
    signs = text.str.extract("([$€£¥])").drop_nulls()
    if len(signs) == text.count() and signs.n_unique() == 1:
        return text.str.replace(CURRENCY, "$1")
    return text


def _as_numbers(text: Any, dialect: Dialect) -> Iterator[Any]:
    """Readings of the text as numbers in English notation, the most likely first.

    They differ in what commas and points mean, which `dialect` and the column suggest: 1.234 is more than a thousand if
    the file, or another number of the column, has a decimal comma; otherwise it is a decimal fraction.
    """
    semicolons = dialect.separator == ";"
    commas = dialect.decimal_comma or (semicolons and text.str.contains(",", literal=True).any())
    if commas and text.str.contains(EUROPEAN).all():
        yield text.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
    yield text
    if semicolons or dialect.decimal_comma:
        yield text.str.replace(",", ".", literal=True)
    # If the separator is not a comma, 1,234 may have a decimal comma: then a decimal point must show that it has none.
    if text.str.contains(THOUSANDS if dialect.separator == "," else THOUSANDS_WITH_FRACTION).all():
        yield text.str.replace_all(",", "", literal=True)


def _warn_of_words(frame: Any, types: dict[str, Any], dialect: Dialect) -> None:
    """Warn of text columns of dates such as 3/4/2021, or of numbers with a single word among them."""
    import polars as pl

    for column in frame.iter_columns():
        if column.dtype != pl.String or types[column.name] != pl.String:
            continue
        text = _stripped(column, dialect.missing).drop_nulls()
        if len(text) and text.str.contains(SLASHED_DATE).all():
            _warn_undecided(column.name, text[0])
        words = text.filter(~text.str.contains(r"\d")).unique()
        numbers = text.filter(text.str.contains(r"\d"))
        if len(words) == 1 and numbers.n_unique() >= MIN_NUMBERS and _is_numeric(_read_text(numbers, dialect)):
            warn(
                f"column {column.name!r} holds numbers and the word {words[0]!r}, and is read as text: if the word "
                f"stands for a missing value, give na={words[0]!r}",
            )


def _is_numeric(column: Any) -> bool:
    return column is not None and column.dtype.is_numeric()


def _stripped(column: Any, missing: Sequence[str]) -> Any:
    """The text without blanks around it; null where the rest is one of the texts for a missing value."""
    text = column.str.strip_chars()
    return text.set(text.is_in(list(missing)), None)


def _cast(frame: Any, types: dict[str, Any], dialect: Dialect, orders: Mapping[str, str]) -> Any:
    """A block with its columns converted to the types that they have in the whole file."""
    import polars as pl

    columns = []
    for column in frame.iter_columns():
        wanted = types[column.name] or pl.Float64
        if column.dtype == pl.String and wanted != pl.String and column.null_count() < len(column):
            column = _read_text(column, dialect, orders.get(column.name))
        elif column.dtype == pl.String and wanted == pl.String:
            column = _stripped(column, dialect.missing)
        columns.append(column if column.dtype == wanted else column.cast(wanted))
    return pl.DataFrame(columns)


# Texts of spreadsheet cells whose formula failed, which count as missing.
FAILED_CELLS = ("#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!")


def write_sheet(path: Path, called: Path, sheet: str | None, output: Path) -> None:
    """Write a sheet of a workbook, by default the first, to `output`, tab-separated.

    Empty rows, and empty columns on the right, are omitted.  A formula is replaced by its last computed value.
    """
    if find_spec("openpyxl") is None:
        raise ImportError(
            f"{called}: .xlsx files are read with openpyxl, which is not installed: pip install openpyxl, or save the "
            "sheet as .csv"
        )
    rows = [[_text(cell) for cell in row] for row in _cells(path, called, sheet)]
    rows = [row for row in rows if any(row)]
    width = max((number + 1 for row in rows for number, cell in enumerate(row) if cell), default=0)
    with output.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t", lineterminator="\n").writerows(
            [*row[:width], *[""] * (width - len(row))] for row in rows
        )


def _cells(path: Path, called: Path, sheet: str | None) -> list[tuple[Any, ...]]:
    from openpyxl import load_workbook
    from openpyxl.utils.exceptions import InvalidFileException

    try:
        book = load_workbook(path, read_only=True, data_only=True)
    except (InvalidFileException, zipfile.BadZipFile, KeyError, ValueError, EOFError) as error:
        raise TableError(f"{called} cannot be read as XLSX: it is damaged, or another kind of file") from error
    try:
        if sheet is not None and sheet not in book.sheetnames:
            raise TableError(f"{called} has no sheet {sheet!r}, only {quoted(book.sheetnames)}")
        return list(book[sheet or book.sheetnames[0]].iter_rows(values_only=True))
    finally:
        book.close()


def _text(cell: Any) -> str:
    """The text of a cell as a CSV file would hold it."""
    if cell is None or cell in FAILED_CELLS:
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, datetime.datetime):
        day = cell.time() == datetime.time()
        return cell.date().isoformat() if day else cell.isoformat(" ", "seconds" if not cell.microsecond else "auto")
    return repr(cell) if isinstance(cell, float) else str(cell)
