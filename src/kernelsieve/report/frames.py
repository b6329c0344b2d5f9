"""The user's table, whatever library holds it: names, rows by number, and columns as three kinds of values.

    number   floats, NaN where missing
    date     days since 1970 as floats, NaN where missing
    class    strings, None where missing: texts, categories, booleans

Frames of pandas, polars (lazy ones are collected) and arrow, arrays and sparse matrices go in.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils import _safe_indexing

from ..rows.frames import is_missing
from ..threads import cached_property

Places = np.ndarray  # row numbers
FEW_LEVELS = 10  # of a class, that each have a colour of their own


@dataclass(frozen=True)
class Column:
    """One column of some rows."""

    name: str
    kind: str  # "number", "date" or "class"
    values: np.ndarray  # float64, or str and None

    @property
    def missing(self) -> np.ndarray:
        """Which values are missing."""
        if self.kind == "class":
            return np.array([value is None for value in self.values], dtype=bool)
        return np.isnan(self.values)

    @cached_property
    def levels(self) -> list[str]:
        """Different values of a class: few in their own order, many with the most frequent first."""
        values, counts = np.unique([value for value in self.values if value is not None], return_counts=True)
        if len(values) <= FEW_LEVELS:
            return [str(value) for value in sorted(values, key=_natural)]
        return [str(values[place]) for place in np.argsort(-counts, kind="stable")]


def _natural(text: str) -> list[tuple[bool, float, str]]:
    """Texts with numbers in them in the order of the numbers: row 2 before row 10."""
    parts = re.split(r"(\d+)", text)
    return [(not part.isdecimal(), float(part) if part.isdecimal() else 0.0, part) for part in parts if part]


class Frame:
    """A table of which rows and columns can be asked."""

    def __init__(self, table: Any, names: list[str] | None = None) -> None:
        if type(table).__name__ == "LazyFrame":
            table = table.collect()
        if isinstance(table, list | tuple):
            table = np.asarray(table)
        if not hasattr(table, "shape") or len(table.shape) != 2:
            shape = getattr(table, "shape", None)
            given = f"an array of shape {shape}" if shape is not None else f"{type(table).__name__}"
            raise ValueError(f"the report needs a table in memory, rows by columns: {given} was given")
        if callable(getattr(table, "compute", None)):
            raise ValueError("the report needs a table in memory: give it some of the rows, e.g. X.head(100_000)")
        self.table = table
        self.n_rows, self.n_columns = map(int, table.shape)
        own = getattr(table, "column_names", None)  # arrow
        own = getattr(table, "columns", None) if own is None or callable(own) else own
        self.named = own is not None
        if own is not None:
            self.names = [str(name) for name in own]
        else:
            self.names = names or [f"feature {place}" for place in range(self.n_columns)]

    def rows(self, places: Places) -> Any:
        """Some rows, as a table of the same kind."""
        return _safe_indexing(self.table, np.asarray(places))

    def column(self, place: int, rows: Places) -> Column:
        """One column of some rows."""
        return as_column(self.names[place], _values(self.table, int(place), np.asarray(rows)))

    def gather(self, rows: np.ndarray) -> Any:
        """A table whose value in line i and column j is the one of row rows[i, j]."""
        table = self.table
        if isinstance(table, np.ndarray):
            return table[rows, np.arange(self.n_columns)]
        if scipy.sparse.issparse(table):
            columns = [table[:, [place]].tocsr()[rows[:, place]] for place in range(self.n_columns)]
            return scipy.sparse.hstack(columns, format="csr")
        if hasattr(table, "iloc"):
            columns = [table.iloc[rows[:, place], [place]].reset_index(drop=True) for place in range(self.n_columns)]
            return columns[0].join(columns[1:]) if len(columns) > 1 else columns[0]
        if hasattr(table, "take"):  # arrow
            parts = [table.column(place).take(rows[:, place]) for place in range(self.n_columns)]
            return type(table).from_arrays(parts, names=self.names)
        return type(table)({name: table[name][rows[:, place]] for place, name in enumerate(self.names)})


def _values(table: Any, place: int, rows: Places) -> np.ndarray:
    if scipy.sparse.issparse(table):
        return np.asarray(table[:, [place]].tocsr()[rows].toarray())[:, 0]
    if hasattr(table, "iloc"):
        return np.asarray(table.iloc[:, place].iloc[rows])
    if hasattr(table, "column_names"):
        column = table.column(place).take(rows)
        if hasattr(column.type, "value_type"):  # a dictionary, whose missing values its to_numpy would invent
            return _objects(column.to_pylist())
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if hasattr(table, "columns"):
        return np.asarray(table[table.columns[place]][rows].to_numpy())
    return np.asarray(table[rows, place])


def as_column(name: str, values: np.ndarray) -> Column:
    """Values of any type as one of the three kinds."""
    kind = values.dtype.kind
    if kind == "b":
        return Column(name, "class", _texts(values))
    if kind in "iuf":
        return Column(name, "number", values.astype(np.float64))
    if kind == "M":
        return Column(name, "date", _days(values))
    if kind == "m":
        return Column(name, "number", np.where(np.isnat(values), np.nan, values / np.timedelta64(1, "s")))
    if kind in "US":
        return Column(name, "class", _texts(values))
    present = [value for value in values if not is_missing(value)]
    if present and all(isinstance(value, int | float | Decimal | np.number) for value in present):
        if not any(isinstance(value, bool) for value in present):
            return Column(name, "number", _each(values, float))
    elif present and all(isinstance(value, datetime.date) for value in present):
        return Column(name, "date", _each(values, _day))
    return Column(name, "class", _texts(values))


def _each(values: np.ndarray, as_float: Any) -> np.ndarray:
    return np.array([np.nan if is_missing(value) else as_float(value) for value in values], dtype=np.float64)


def _texts(values: np.ndarray) -> np.ndarray:
    read = (value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in values.tolist())
    return _objects([None if is_missing(value) else str(value) for value in read])


def _objects(values: list[Any]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _days(values: np.ndarray) -> np.ndarray:
    days = (values - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")
    return np.where(np.isnat(values), np.nan, days).astype(np.float64)


def _day(value: datetime.date) -> float:
    if isinstance(value, datetime.datetime):  # as the clock on the wall shows it
        return (value.replace(tzinfo=None) - datetime.datetime(1970, 1, 1)).total_seconds() / 86400
    return float(value.toordinal() - datetime.date(1970, 1, 1).toordinal())
