"""What the columns of a CSV file hold, told from all of its rows.

Every block is parsed by polars, which tells numbers; what two blocks say of a column is joined:

    whole numbers, numbers -> numbers       dates, times of dates -> times of dates       anything else -> text

Nothing but an empty cell or one of `MISSING` is missing.  Numbers may stand in blanks, and with a decimal comma where
semicolons separate.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .csv_records import RecordError, checked_block, record_blocks, separator_of
from .wording import listed

# What R, pandas, spreadsheets, databases and the UCI archive write where nothing is known.
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "-nan", "NULL", "null", "None", "<NA>", "?", "NaT")
FIRST_ROWS = 1000  # that mostly tell the types: all rows are asked only where those were wrong
# Forms of dates that cannot be mistaken; 3/4/2021 can.
DATES = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y")
TIMES = tuple(f"{date}{gap}%H:%M{rest}" for date in DATES for gap in (" ", "T") for rest in ("", ":%S", ":%S%.f"))
DATE_LIKE = r"^\d{4}[-/]\d{1,2}[-/]\d{1,2}|^\d{1,2}\.\d{1,2}\.\d{4}"


@dataclass(frozen=True)
class CsvFile:
    """A CSV file whose columns are known; its rows come block by block."""

    path: Path
    separator: str
    names: tuple[str, ...]
    header: bool
    types: dict[str, Any]  # polars data types
    n_rows: int

    def frames(self) -> Iterator[Any]:
        """All rows, as polars frames of one schema."""
        import polars as pl

        text = [name for name, kind in self.types.items() if kind == pl.String]
        for frame in _parsed_blocks(self.path, self.separator, self.names, self.header, text):
            yield _conformed(frame, self.types, self.separator)


def open_csv(path: Path, *, header: bool) -> tuple[CsvFile, Any]:
    """The file, and its rows in one frame where they come in one block, else None."""
    separator = separator_of(path)
    names = _names(path, separator, header)
    types: dict[str, Any] = {}
    n_rows, first = 0, None
    for number, frame in enumerate(_parsed_blocks(path, separator, names, header, ())):
        types = _joined(types, _types(frame, separator)) if number else _types(frame, separator)
        n_rows += frame.height
        first = frame if number == 0 else None
    file = CsvFile(path, separator, names, header, types, n_rows)
    return file, None if first is None else _conformed(first, types, separator)


def _names(path: Path, separator: str, header: bool) -> tuple[str, ...]:
    """The names of the columns: from the first record, or column_1, column_2, ..."""
    import polars as pl

    first = next(record_blocks(path, 2**16), None)
    if first is None:
        raise RecordError("it is empty")
    # the first record alone, which may hold line breaks in quotes
    frame = pl.read_csv(
        io.BytesIO(_utf8(first, path)), separator=separator, has_header=False, n_rows=1, infer_schema=False,
        truncate_ragged_lines=True,
    )  # fmt: skip
    if not header:
        return tuple(f"column_{number}" for number in range(1, frame.width + 1))
    given = [(name or "").strip() for name in frame.row(0)]
    names = _unique(given)
    doubles = [names[place] for place, name in enumerate(given) if name and name in given[:place]]
    if doubles:
        warnings.warn(
            f"{path.name} names columns more than once: the later ones are called {listed(doubles)} here", stacklevel=2
        )
    return names


def _unique(names: list[str]) -> tuple[str, ...]:
    """The names; a column without one is called by its number, and one that is there already gets a number, too."""
    found: list[str] = []
    for number, name in enumerate(names, start=1):
        called = name or f"column_{number}"
        copies = 0
        while called in found or (called != name and called in names):
            called = f"{name}_duplicated_{copies}" if name else f"{called}_"
            copies += 1
        found.append(called)
    return tuple(found)


def _parsed_blocks(
    path: Path, separator: str, names: tuple[str, ...], header: bool, text: Sequence[str]
) -> Iterator[Any]:
    """Every block of the file as polars reads it; columns in `text` are left as text."""
    import polars as pl

    n_rows = 0
    skip = int(header)
    for raw in record_blocks(path):
        block, count = checked_block(raw, separator, len(names), n_rows - skip)
        if count <= skip:
            n_rows += count
            skip -= count
            continue
        options: dict[str, Any] = {
            "separator": separator,
            "has_header": False,
            "skip_rows": skip,
            "new_columns": list(names),
            "null_values": list(MISSING),
            "schema_overrides": dict.fromkeys(text, pl.String),
        }
        content = _utf8(block, path)
        try:
            frame = pl.read_csv(io.BytesIO(content), infer_schema_length=FIRST_ROWS, **options)
        except pl.exceptions.ComputeError:  # a later row is of another type, as a late decimal point is
            frame = pl.read_csv(io.BytesIO(content), infer_schema_length=None, **options)
        n_rows += count - skip
        skip = 0
        yield frame


def _utf8(block: bytes, path: Path) -> bytes:
    """The block itself where it is UTF-8, else taken for the Windows encoding that spreadsheets write."""
    try:
        block.decode("utf-8")
    except UnicodeDecodeError:
        warnings.warn(f"{path.name} is not in UTF-8: it is read as Windows-1252", stacklevel=2)
        return block.decode("cp1252", errors="replace").encode()
    return block


def _types(frame: Any, separator: str) -> dict[str, Any]:
    """The types of a block's columns; None where it has no value that would tell."""
    import polars as pl

    found: dict[str, Any] = {}
    for column in frame.iter_columns():
        kind = column.dtype
        if column.null_count() == len(column):
            kind = None
        elif kind == pl.String:
            read = _read_text(column, separator)
            kind = pl.String if read is None else read.dtype
        elif kind.is_numeric() and kind != pl.Int64:
            kind = pl.Float64  # whole numbers beyond 64 bits, too
        found[column.name] = kind
    return found


def _joined(known: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    import polars as pl

    def joined(one: Any, other: Any) -> Any:
        if one is None or other is None or one == other:
            return other if one is None else one
        if one.is_numeric() and other.is_numeric():
            return pl.Float64
        if one.is_temporal() and other.is_temporal() and pl.Time not in (one, other):
            return pl.Datetime("us")
        return pl.String

    return {name: joined(known[name], kind) for name, kind in found.items()}


def _read_text(column: Any, separator: str) -> Any:
    """Text as numbers, truths or dates where all of it is; else None.

    Numbers may stand in blanks, or have a decimal comma between semicolons.
    """
    import polars as pl

    text = _stripped(column)
    if text.null_count() == len(text):
        return text.cast(pl.Float64)
    for attempt in [text] + ([text.str.replace(",", ".", literal=True)] if separator == ";" else []):
        numbers = attempt.cast(pl.Float64, strict=False)
        if numbers.null_count() == text.null_count():
            return numbers
    if text.is_in(["true", "false"]).sum() == len(text) - text.null_count():
        return text == "true"
    return _as_dates(text)


def _as_dates(text: Any) -> Any:
    import polars as pl

    present = text.drop_nulls()
    if not present[:100].str.contains(DATE_LIKE).all():  # nearly always, and at once
        return None
    plain = text.str.strip_suffix("Z")
    for form in (*DATES, *TIMES):
        kind: Any = pl.Date if form in DATES else pl.Datetime("us")
        dates = plain.str.strptime(kind, form, strict=False, exact=True)
        if dates.null_count() == text.null_count():
            return dates
    return None


def _stripped(column: Any) -> Any:
    """Text without blanks around it; what then says that it is missing is."""
    import polars as pl

    text = column.str.strip_chars()
    return text.set(text.is_in(pl.Series(MISSING)), None)


def _conformed(frame: Any, types: dict[str, Any], separator: str) -> Any:
    """A block with the types of the file."""
    import polars as pl

    columns = []
    for column in frame.iter_columns():
        wanted = types[column.name] or pl.Float64
        if column.dtype == pl.String and wanted != pl.String and column.null_count() < len(column):
            column = _read_text(column, separator)
        elif column.dtype == pl.String and wanted == pl.String:
            column = _stripped(column)
        columns.append(column if column.dtype == wanted else column.cast(wanted))
    return pl.DataFrame(columns)
