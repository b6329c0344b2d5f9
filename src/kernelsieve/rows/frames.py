"""Tables of any library in two forms: a `Block` (a matrix of numbers, and texts as codes), or columns for display.

Columns that can be measured become columns of floats, with NaN for missing values:

    numbers    unchanged                dates       days since 1970-01-01
    booleans   0 and 1                  durations   days;  times of day: hours

Texts and categories become codes, which index a list of the different texts; -1 is a missing value.  Frames of pandas,
polars (lazy ones are collected) and arrow are read through narwhals, which scikit-learn 1.9 installs.  Arrays are read
without it.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_array

from ..arrays import on_host
from ..errors import needed, quoted
from ..threads import cached_property

DAY = 86_400 * 10**6  # microseconds
FEW_LEVELS = 10  # a class with at most this many levels is drawn with a colour for each level
NUMBER, BOOLEAN, DATE, TEXT, OTHER = "number", "boolean", "date", "text", "other"


@dataclass(frozen=True)
class Texts:
    """A column of texts: labels[codes[i]] is the text of row i; code -1 means missing."""

    codes: np.ndarray
    labels: list[str]


@dataclass(frozen=True)
class Block:
    """Some rows of a table."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]  # for each column, one of the five kinds above
    integers: tuple[bool, ...]  # of each column: whether its type in the table is an integer
    numbers: np.ndarray  # (n_rows, n): the n columns of numbers, booleans and dates, in the order of the table
    texts: dict[int, Texts]  # the columns of text, by column number
    library: str  # of the table: "pandas", "polars", "pyarrow" or "numpy"
    others: dict[int, str]  # for each column of kind OTHER, by number: the name of the type that it holds
    units: dict[int, str] = field(default_factory=dict)  # of durations and times of day, by column number
    zoned: frozenset[int] = frozenset()  # numbers of the date columns with a time zone; their days are those of UTC

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.numbers.shape[0])

    @property
    def measured(self) -> np.ndarray:
        """For each column of `numbers`, its position in the table."""
        return np.flatnonzero([kind in (NUMBER, BOOLEAN, DATE) for kind in self.kinds])


def is_frame(X: Any) -> bool:
    """Whether X is a table of pandas, polars or arrow."""
    module, name = type(X).__module__.partition(".")[0], type(X).__name__
    return module in ("pandas", "polars", "pyarrow") and name in ("DataFrame", "LazyFrame", "Table", "RecordBatch")


def collected(X: Any) -> Any:
    """Compute a lazy frame, and turn a record batch into a table, as narwhals needs; return anything else unchanged."""
    if not is_frame(X) or type(X).__name__ not in ("LazyFrame", "RecordBatch"):
        return X
    if type(X).__name__ == "LazyFrame":
        return X.collect()
    import pyarrow as pa

    return pa.Table.from_batches([X])


def column_names(model: Any, unnamed: str = "x") -> list[str]:
    """The names of the columns that a model was fitted to; x0, x1, ... if they have none."""
    names = getattr(model, "feature_names_in_", None)
    return [f"{unnamed}{j}" for j in range(model.n_features_in_)] if names is None else [str(name) for name in names]


def with_text_names(X: Any) -> Any:
    """A frame with its column names converted to text, refused if two are the same; anything else unchanged.

    In pandas a name can be any object, such as a number, and both pandas and arrow accept the same name twice.
    """
    if not is_frame(X):
        return X
    given = X.column_names if type(X).__name__ == "Table" else X.columns
    names = [str(name) for name in given]
    twice = sorted({name for name, count in Counter(names).items() if count > 1})
    if twice:
        raise ValueError(
            f"{len(twice)} column name(s) occur more than once: {quoted(twice)}; each column needs a name of its own: "
            "rename or drop these"
        )
    if all(isinstance(name, str) for name in given):
        return X
    renamed = X.copy(deep=False)  # X is a pandas frame: only there can a name be anything but text
    renamed.columns = names
    return renamed


def block_of(X: Any) -> Block:
    """A frame or an array as a block."""
    return _from_frame(X) if is_frame(X) else _from_array(X)


def _from_array(X: Any) -> Block:
    if scipy.sparse.issparse(X):
        raise TypeError(
            "a sparse matrix was given, and a TableEncoder needs a dense table: for sparse rows use scikit-learn's "
            "MaxAbsScaler, or no scaling"
        )
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "biuf" or X.ndim != 2:
        X = check_array(on_host(X), dtype=None, ensure_all_finite=False, ensure_min_samples=0)
    names = tuple(f"x{j}" for j in range(X.shape[1]))
    if X.dtype.kind in "biuf":
        kind = BOOLEAN if X.dtype.kind == "b" else NUMBER
        numbers = X.astype(X.dtype if X.dtype in (np.float32, np.float64) else np.float64, copy=False)
        integers = (X.dtype.kind in "iu",) * len(names)
        return Block(names, (kind,) * len(names), integers, numbers, {}, "numpy", {})
    return _assembled(names, [_objects(X[:, j].tolist()) for j in range(X.shape[1])], len(X), "numpy")


def _narwhals() -> Any:
    # scikit-learn installs it only from version 1.9 on
    return needed("narwhals", "tables of pandas, polars and arrow need narwhals")


def _from_frame(X: Any) -> Block:
    nw = _narwhals()
    frame = nw.from_native(with_text_names(collected(X)), eager_only=True)
    names = tuple(frame.columns)
    columns = [_series(nw, frame[name]) for name in frame.columns]
    units = {j: unit for j, name in enumerate(names) if (unit := _unit(nw, frame[name].dtype))}
    zoned = frozenset(j for j, name in enumerate(names) if getattr(frame[name].dtype, "time_zone", None) is not None)
    block = _assembled(names, columns, frame.shape[0], str(frame.implementation.value))
    return replace(block, units=units, zoned=zoned)


# A column: its kind, whether its type is an integer, and its content: floats, Texts, or the name of another type.
_Column = tuple[str, bool, Any]


def _assembled(names: tuple[str, ...], columns: Sequence[_Column], n_rows: int, library: str) -> Block:
    kinds = tuple(kind for kind, _, _ in columns)
    measured = [values for kind, _, values in columns if kind in (NUMBER, BOOLEAN, DATE)]
    single = bool(measured) and all(values.dtype == np.float32 for values in measured)
    numbers = np.empty((n_rows, len(measured)), dtype=np.float32 if single else np.float64)
    for place, values in enumerate(measured):
        numbers[:, place] = values
    texts = {j: values for j, (kind, _, values) in enumerate(columns) if kind == TEXT}
    others = {j: values for j, (kind, _, values) in enumerate(columns) if kind == OTHER}
    return Block(names, kinds, tuple(whole for _, whole, _ in columns), numbers, texts, library, others)


def _series(nw: Any, series: Any) -> _Column:
    """One column of a frame: its kind, whether it holds integers, and its content."""
    dtype = series.dtype
    if dtype.is_numeric():
        single = dtype == nw.Float32
        values = series if dtype.is_float() else series.cast(nw.Float64)
        return NUMBER, dtype.is_integer(), _floats(values, np.float32 if single else np.float64)
    if dtype == nw.Boolean:
        return BOOLEAN, False, _floats(series.cast(nw.Float64))
    if dtype == nw.Date or isinstance(dtype, nw.Datetime):
        stamps = series.cast(nw.Datetime("us")) if dtype == nw.Date else series
        return DATE, False, _floats(stamps.dt.timestamp("us").cast(nw.Float64)) / DAY
    if isinstance(dtype, nw.Duration):
        return NUMBER, False, _floats(series.dt.total_microseconds().cast(nw.Float64)) / DAY
    if dtype == nw.Time:
        return NUMBER, False, _hours(series.to_list())
    if dtype in (nw.String, nw.Categorical) or isinstance(dtype, nw.Enum):
        return TEXT, False, texts_of(series.to_list())
    if dtype in (nw.Object, nw.Unknown):
        return _objects(series.to_list())
    return OTHER, False, str(dtype).lower()


def _unit(nw: Any, dtype: Any) -> str:
    """The unit of a column that `_series` converts to numbers and that is not a date; otherwise an empty text."""
    if isinstance(dtype, nw.Duration):
        return "days"
    return "hours since midnight" if dtype == nw.Time else ""


def _floats(series: Any, dtype: Any = np.float64) -> np.ndarray:
    """A series of floats as an array, NaN for missing values."""
    return np.asarray(series.to_numpy(), dtype=dtype)


def _hours(values: Sequence[Any]) -> np.ndarray:
    return np.array(
        [np.nan if t is None else t.hour + t.minute / 60 + (t.second + t.microsecond / 1e6) / 3600 for t in values]
    )


def _objects(values: list[Any]) -> _Column:
    """A column of Python objects: numbers or booleans if all values are, OTHER if all are containers, else texts."""
    present = [value for value in values if not is_missing(value)]
    if not present:
        return NUMBER, False, np.full(len(values), np.nan)
    if all(isinstance(value, bool | np.bool_) for value in present):
        return BOOLEAN, False, np.array([np.nan if is_missing(value) else float(value) for value in values])
    if all(isinstance(value, int | float | Decimal | np.number) for value in present):
        whole = all(isinstance(value, int | np.integer) for value in present)
        return NUMBER, whole, np.array([np.nan if is_missing(value) else float(value) for value in values])
    if all(isinstance(value, list | tuple | dict | set | np.ndarray) for value in present):
        return OTHER, False, type(present[0]).__name__
    return TEXT, False, texts_of(None if is_missing(value) else value for value in values)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or pandas' NA or NaT (recognised by name, as pandas may not be installed)."""
    return (
        value is None or (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType")
    )


def _whole_text(value: Any) -> str:
    text = str(value)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def texts_of(values: Iterable[Any]) -> Texts:
    """Texts as codes; every different value is converted to text only once.

    An unpaired surrogate, which neither frames nor files accept, is replaced by its escape sequence.
    """
    numbers: dict[Any, int] = {}
    try:
        raw = np.fromiter((numbers.setdefault(value, len(numbers)) for value in values), dtype=np.int64)
    except TypeError as error:  # a cell holds a list, dict, set or array
        raise ValueError(
            f"a cell of a text column holds something else ({error}): give text, a number or a date in every cell"
        ) from None
    labels: dict[str, int] = {}  # different values, such as 1 and "1", can give the same text
    codes = [-1 if is_missing(value) else labels.setdefault(_whole_text(value), len(labels)) for value in numbers]
    return Texts(np.array(codes, dtype=np.int64)[raw], list(labels))


def first_unlike(texts: Sequence[str], kind: str) -> int:
    """The place of the first text that is not a number, or for kind DATE not an ISO date; 0 if there is none."""
    for place, text in enumerate(texts):
        try:
            if kind == DATE:
                datetime.datetime.fromisoformat(text.strip())
            else:
                float(text.strip(" %$€£¥").replace(",", ""))  # marks that a table file may have in its numbers
        except ValueError:
            return place
    return 0


# --- column by column ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """One column of some rows, for display."""

    name: str
    kind: str  # "number", "date" (days since 1970) or "class" (text, categories, booleans)
    values: np.ndarray  # float64, or str; a missing value is NaN or None

    @property
    def missing(self) -> np.ndarray:
        """Which values are missing."""
        if self.kind == "class":
            return np.array([value is None for value in self.values], dtype=bool)
        return np.isnan(self.values)

    @cached_property
    def levels(self) -> list[str]:
        """The different values of a class: in natural order if they are few, else the most frequent first."""
        values, counts = np.unique([value for value in self.values if value is not None], return_counts=True)
        if len(values) <= FEW_LEVELS:
            return [str(value) for value in sorted(values, key=_natural)]
        return [str(values[place]) for place in np.argsort(-counts, kind="stable")]


def _natural(text: str) -> list[tuple[bool, float, str]]:
    """A sort key that puts "row 2" before "row 10"."""
    parts = re.split(r"(\d+)", text)
    return [(not part.isdecimal(), float(part) if part.isdecimal() else 0.0, part) for part in parts if part]


class Frame:
    """A table in memory whose rows and columns are accessed by number."""

    def __init__(self, table: Any, names: list[str] | None = None) -> None:
        table = np.asarray(on_host(table)) if isinstance(table, list | tuple) else on_host(collected(table))
        if not hasattr(table, "shape") or len(table.shape) != 2:
            shape = getattr(table, "shape", None)
            given = f"an array of shape {shape}" if shape is not None else f"{type(table).__name__}"
            raise ValueError(f"the report needs a table in memory, rows by columns: {given} was given")
        if callable(getattr(table, "compute", None)):
            raise ValueError("the report needs a table in memory: give it some of the rows, e.g. X.head(100_000)")
        self.table = table
        self.n_rows, self.n_columns = map(int, table.shape)
        self._columns = _narwhals().from_native(table, eager_only=True) if is_frame(table) else None
        self.named = self._columns is not None
        if self._columns is not None:
            self.names = [str(name) for name in self._columns.columns]
        else:
            self.names = names or [f"feature {place}" for place in range(self.n_columns)]

    def column(self, place: int, rows: np.ndarray) -> Column:
        """Column number `place`, for the given rows."""
        if self._columns is not None:
            return _column_of_series(self.names[place], self._columns[:, int(place)][np.asarray(rows)])
        if scipy.sparse.issparse(self.table):
            return as_column(self.names[place], self.table[:, [place]].tocsr()[rows].toarray()[:, 0])
        return as_column(self.names[place], np.asarray(self.table[np.asarray(rows), int(place)]))

    def gather(self, rows: np.ndarray) -> Any:
        """A table that holds, in row i and column j, the value of column j in row rows[i, j] of this table."""
        places = range(self.n_columns)
        if self._columns is not None:
            nw = _narwhals()
            parts = [nw.maybe_reset_index(self._columns[:, place][rows[:, place]]).to_frame() for place in places]
            return nw.concat(parts, how="horizontal").to_native()
        if scipy.sparse.issparse(self.table):
            columns = [self.table[:, [place]].tocsr()[rows[:, place]] for place in places]
            return scipy.sparse.hstack(columns, format="csr")
        return self.table[rows, np.arange(self.n_columns)]


def _column_of_series(name: str, series: Any) -> Column:
    nw = _narwhals()
    if getattr(series.dtype, "time_zone", None) is not None:
        series = series.dt.replace_time_zone(None)  # a time is displayed as the clocks of its zone showed it
    kind, _, values = _series(nw, series)
    if kind == OTHER or series.dtype in (nw.Object, nw.Unknown):
        return as_column(name, np.fromiter(series.to_list(), dtype=object, count=len(series)))
    return _as_people_read(name, kind, values)


def as_column(name: str, values: np.ndarray) -> Column:
    """An array of any type as a column."""
    kind = values.dtype.kind
    if kind in "Mm":
        unit = np.timedelta64(1, "D")
        days = (values - np.datetime64("1970-01-01")) / unit if kind == "M" else values / unit
        return Column(name, "date" if kind == "M" else "number", np.where(np.isnat(values), np.nan, days))
    if kind in "iuf":
        return Column(name, "number", values.astype(np.float64))
    listed: list[Any] = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in values.tolist()]
    present = [value for value in listed if not is_missing(value)]
    if present and all(isinstance(value, datetime.date) for value in present):
        return Column(name, "date", np.array([np.nan if is_missing(value) else _day(value) for value in listed]))
    found = _objects([str(v) if isinstance(v, list | tuple | dict | set | np.ndarray) else v for v in listed])
    return _as_people_read(name, found[0] if present else TEXT, found[2] if present else texts_of(listed))


def _as_people_read(name: str, kind: str, values: Any) -> Column:
    """A column for display: booleans and texts become classes, in which a missing value is None."""
    if kind in (NUMBER, DATE):
        return Column(name, "date" if kind == DATE else "number", np.asarray(values, dtype=np.float64))
    texts = texts_of([None if v != v else str(bool(v)) for v in values.tolist()]) if kind == BOOLEAN else values
    return Column(name, "class", np.array([*texts.labels, None], dtype=object)[texts.codes])


def _day(value: datetime.date) -> float:
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - datetime.datetime(1970, 1, 1)).total_seconds() / 86_400
    return float(value.toordinal() - datetime.date(1970, 1, 1).toordinal())
