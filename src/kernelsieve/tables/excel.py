"""Sheets of .xlsx workbooks, written out as tab-separated text, so that their cells follow the rules of CSV files."""

from __future__ import annotations

import csv
import datetime
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import TableError, quoted

# What a cell shows whose formula failed: it has no value.
FAILED_CELLS = ("#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!")


def write_sheet(path: Path, called: Path, sheet: str | None, output: Path) -> None:
    """Write a sheet of a workbook, by default the first, to `output`, tab-separated.

    Empty rows, and empty columns to the right, are left away.  Formulas count as the values last computed.
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
    """A cell as a CSV file would have it."""
    if cell is None or cell in FAILED_CELLS:
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, datetime.datetime):
        day = cell.time() == datetime.time()
        return cell.date().isoformat() if day else cell.isoformat(" ", "seconds" if not cell.microsecond else "auto")
    return repr(cell) if isinstance(cell, float) else str(cell)
