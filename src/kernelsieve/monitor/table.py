"""Raw tables in a monitor: their rows are encoded, judged if possible, and explained in terms of the table's columns.

encoder      a TableEncoder without trend encodes text, gaps and dates; identifiers, constants and counters are left out
judged       a row is judged unless it lacks a value that every normal row had: such a gap has no indicator in the
             encoding, so the row would look normal
by column    the contributions of encoded columns are added up for each column of the table
left out     counters and constants are not judged; if their values differ from those in the fit, a note says so

Causes say in words why a row is odd: what a column holds, and what it usually holds in normal rows.  The causes are the
columns with the largest shares of SPE.  A number outside the middle 90 % of normal rows is reported with that range, a
text with the text that most normal rows have, or if there is none, with the share of normal rows that have it.  If a
value is usual by itself, the cause says so: then the combination of values is odd.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np

from ..arrays import Array
from ..rows.frames import (
    BOOLEAN,
    DATE,
    OTHER,
    TEXT,
    Block,
    Texts,
    block_of,
    collected,
    column_names,
    is_frame,
    with_text_names,
)
from ..tables.calendar import CYCLE, JOINED, with_date
from ..tables.columns import NOT_ENCODED, encoded_rows
from ..tables.encoder import TableEncoder
from ..tables.plan import COUNTER, LEFT_OUT, infinite_value
from .series import ArraySeries

N_TOP = 3  # number of columns named as causes
LEAST_SHARE = 0.05  # columns with a smaller share of SPE are not causes, except for the first
USUAL = (0.05, 0.95)  # a number between these quantiles of the normal rows is usual
LOOKED_AT = 50_000  # largest number of normal rows, evenly spaced, from which these quantiles are computed

Words = Callable[[int, int], str]  # (row, column) -> what the column holds there, and what it usually holds


@dataclass(frozen=True)
class UsualValues:
    """The usual values of the columns in normal rows; NaN, or an empty text, if a column has no such value."""

    low: Annotated[np.ndarray, "float[d]~"]  # (d,) 5 % quantile of numbers
    high: Annotated[np.ndarray, "float[d]~"]  # (d,) 95 % quantile of numbers
    lowest: Annotated[np.ndarray, "float[d]~"]  # (d,) smallest number
    highest: Annotated[np.ndarray, "float[d]~"]  # (d,) largest number
    missing: Annotated[np.ndarray, "float[d]"]  # (d,) share of rows without a value
    kinds: Annotated[np.ndarray, "strings[d]"]  # (d,) kinds of the columns, as in `Block.kinds`
    labels: Annotated[np.ndarray, "strings[d]"]  # (d,) the text that more than half of the rows have
    # Each text that at least 1 % of the rows have: its column, the text itself, and the share of the rows.
    common_columns: Annotated[np.ndarray, "int[t]"]  # (t,)
    common_texts: Annotated[np.ndarray, "strings[t]"]  # (t,)
    common_shares: Annotated[np.ndarray, "float[t]"]  # (t,)

    _file_sizes = ("d",)

    @classmethod
    def of(cls, block: Block) -> UsualValues:
        """The usual values of a table's columns."""
        width = len(block.names)
        low, high, lowest, highest = np.full((4, width), np.nan)
        missing, labels = np.zeros(width), np.full(width, "", dtype=object)
        common: list[tuple[int, str, float]] = []
        for place, j in enumerate(block.measured):
            values = block.numbers[:, place]
            present = values[np.isfinite(values)]
            missing[j] = 1 - len(present) / block.n_rows
            if len(present):
                lowest[j], highest[j] = present.min(), present.max()
                low[j], high[j] = np.quantile(present[:: -(-len(present) // LOOKED_AT)], USUAL, method="nearest")
        for j, texts in block.texts.items():
            counts = np.bincount(texts.codes[texts.codes >= 0], minlength=len(texts.labels))
            missing[j] = float(np.mean(texts.codes < 0))
            if len(counts) and 2 * counts.max() > block.n_rows:
                labels[j] = texts.labels[int(counts.argmax())]
            often = np.flatnonzero(100 * counts >= block.n_rows)
            common += [(j, texts.labels[k], counts[k] / block.n_rows) for k in often]
        columns, said, shares = np.array(common, dtype=object).reshape(-1, 3).T
        shared = columns.astype(np.int64), said, shares.astype(np.float64)
        return cls(low, high, lowest, highest, missing, np.array(block.kinds, dtype=object), labels, *shared)

    def words(self, block: Block) -> Words:
        """The function that describes the values of these rows in words."""
        places = {int(j): place for place, j in enumerate(block.measured)}

        def said(row: int, j: int) -> str:
            name, kind = block.names[j], self.kinds[j]
            if j in block.texts:
                texts = block.texts[j]
                value = None if texts.codes[row] < 0 else texts.labels[texts.codes[row]]
            else:
                number = float(block.numbers[row, places[j]]) if j in places else np.nan
                value = None if number != number else number
            if value is None:
                return f"{name} is missing, {among_normal(self.missing[j])}"
            if kind == TEXT:
                text = value if isinstance(value, str) else f"{value:g}"
                if not self.labels[j]:
                    return f"{name} is {text}, {among_normal(self._share(j, text))}"
                usual = "which is usual by itself" if text == self.labels[j] else f"usually {self.labels[j]}"
                return f"{name} is {text}, {usual}"
            if isinstance(value, str):
                return f"{name} is {value}"
            return f"{name} is {shown(value, kind)}, {self._usual_number(j, value, kind)}"

        return said

    def _share(self, j: int, text: str) -> float:
        """The share of normal rows that have this text in this column; zero if it is below 1 %."""
        return float(self.common_shares[(self.common_columns == j) & (self.common_texts == text)].sum())

    def _usual_number(self, j: int, value: float, kind: str) -> str:
        low, high = self.low[j], self.high[j]
        if not np.isfinite(low) or low <= value <= high:
            return "which is usual by itself"
        if low == high:
            return f"usually {shown(low, kind)}"
        return f"usually {shown(low, kind)} to {shown(high, kind)}"


def among_normal(share: float) -> str:
    """The words for a share of normal rows."""
    return f"as in {'less than 1 %' if share < 0.01 else f'{100 * share:.0f} %'} of normal rows"


def shown(value: float, kind: str = "number") -> str:
    """A number for display, with four digits or all digits of an integer; a date as a date, a boolean as a boolean."""
    if kind == BOOLEAN:
        return str(bool(value)).lower()
    if kind == DATE:
        stamp = np.datetime64(round(value * 86_400), "s").item()
        return f"{stamp:%Y-%m-%d %H:%M}".removesuffix(" 00:00")
    if abs(value) < 1e9 and value == round(value):
        return str(round(value)) if abs(value) < 10_000 else f"{value:,.0f}"
    return f"{value:.4g}"


def causes_of(parts: np.ndarray) -> list[tuple[int, float]]:
    """The columns that contribute most to a row's SPE, the largest first, with their shares of it."""
    total = float(parts.sum())
    if not total > 0:
        return []
    order = np.argsort(-parts, kind="stable")[:N_TOP]
    found = [(int(j), float(parts[j] / total)) for j in order]
    return found[:1] + [(j, share) for j, share in found[1:] if share >= LEAST_SHARE]


def percent(share: float) -> str:
    """A share as text, such as "62 %"."""
    return f"{share:.0%}".replace("%", " %")


def is_raw_table(X: Any) -> bool:
    """Whether X is a frame with text, dates or gaps, which need an encoder."""
    if not is_frame(X):
        return False
    block = block_of(X)
    return bool({TEXT, DATE, OTHER} & set(block.kinds)) or not np.isfinite(block.numbers).all()


def table_block(X: Any) -> Block:
    """A frame or an array as a block; lazy frames are collected, and column names converted to text."""
    return block_of(with_text_names(collected(X)))


def row_block(encoder: TableEncoder, values: list[Any]) -> Block:
    """One row, given as a list of values in the order of the columns, as a block."""
    names = column_names(encoder)
    columns = {name: [value] for name, value in zip(names, values, strict=True)}
    if encoder.library_ == "pandas":
        import pandas as pd

        return block_of(pd.DataFrame(columns))
    if encoder.library_ in ("polars", "pyarrow"):
        import polars as pl

        return block_of(pl.DataFrame(columns, strict=False))
    return replace(block_of(np.array([values], dtype=object)), names=tuple(names))


def rows_of_block(block: Block, rows: np.ndarray) -> Block:
    """Some rows of a block."""
    texts = {j: Texts(texts.codes[rows], texts.labels) for j, texts in block.texts.items()}
    return replace(block, numbers=block.numbers[rows], texts=texts)


def judged_rows(encoder: TableEncoder, block: Block) -> np.ndarray:
    """Whether each row can be judged: it has a value wherever every normal row had one, and none is infinite."""
    dated = with_date(block, encoder.joined_)
    needed = [j for j, kind in enumerate(encoder.kinds_) if kind not in NOT_ENCODED and not encoder.n_missing_[j]]
    judged = ~np.isinf(dated.numbers).any(axis=1)
    places = {int(j): place for place, j in enumerate(dated.measured)}
    for j in needed:
        if j in dated.texts:
            judged &= dated.texts[j].codes >= 0
        elif j in places:
            judged &= ~np.isnan(dated.numbers[:, places[j]])
    return judged


def without_infinity(block: Block) -> Block:
    """The block unchanged; raise if a value is infinite, because it must not be treated as a gap."""
    for row, place in np.argwhere(np.isinf(block.numbers))[:1]:
        raise infinite_value(block.names[block.measured[place]], int(row))
    return block


def encoded_or_missing(encoder: TableEncoder, block: Block) -> np.ndarray:
    """The encoded rows of a block; rows that cannot be judged are NaN."""
    if len(block.names) != encoder.n_features_in_:
        raise ValueError(f"rows of {encoder.n_features_in_} columns are needed: got {len(block.names)}")
    judged = judged_rows(encoder, block)
    found = np.full((block.n_rows, encoder._n_features_out), np.nan)
    if judged.any():
        rows = np.flatnonzero(judged)
        found[rows] = encoded_rows(encoder, rows_of_block(block, rows) if len(rows) < len(found) else block, 0)
    return found


class TableSeries(ArraySeries):
    """Encoded rows of a table; no window contains a row that cannot be judged."""

    def __init__(self, encoded: np.ndarray, lags: int, labels: np.ndarray | None) -> None:
        self.judged = ~np.isnan(encoded).any(axis=1)
        self.given_labels, n_rows = labels, len(encoded)
        if labels is not None and len(labels) != n_rows:
            raise ValueError(f"series has {len(labels)} labels, X has {n_rows} rows")
        if not self.judged.all():
            gaps = np.cumsum(~self.judged)
            both = gaps if labels is None else np.cumsum(np.concatenate([[0], np.diff(labels) != 0])) + gaps
            labels, encoded = both[self.judged], encoded[self.judged]
        super().__init__(encoded, lags, labels)

    def each(self, function: Callable[[Array], np.ndarray], width: int) -> np.ndarray:
        found = np.full((len(self.judged), width), np.nan)
        if self.judged.any():
            found[self.judged] = super().each(function, width)
        self.labels = self.given_labels  # the labels of all rows, judged or not, which the caller reads
        return found


def column_sums(encoder: TableEncoder) -> np.ndarray:
    """The 0/1 matrix (n_encoded, n_columns) that adds up the encoded columns of each column of the table."""
    sources = encoder.source_columns()
    return np.asarray(sources[:, None] == np.arange(encoder.n_features_in_), dtype=np.float64)


def without_calendar(encoder: TableEncoder, parts: np.ndarray) -> np.ndarray:
    """Contributions with those of dates, hours, months and weekdays set to zero, unless there are no others.

    Frost in June contributes to SPE along the season as much as along the temperature, but the season is not the cause.
    """
    causes = ~np.isin(encoder.kinds_, (DATE, CYCLE, JOINED))
    kept = parts * causes
    return kept if kept.any() else parts


@dataclass
class LeftOutColumns:
    """Collects, block by block, the values of new rows in columns that a monitor leaves out: counters and constants."""

    encoder: TableEncoder
    usual: UsualValues
    n_rows: int = 0
    lowest: dict[int, float] = field(default_factory=dict)
    highest: dict[int, float] = field(default_factory=dict)
    changed: dict[int, tuple[int, int, str]] = field(default_factory=dict)  # number of rows, the first, its value

    def add(self, block: Block) -> None:
        """Add the next block of rows."""
        places = {int(j): place for place, j in enumerate(block.measured)}
        for j in self._watched():
            if j in places:
                self._add_numbers(j, block.numbers[:, places[j]])
            elif j in block.texts:
                texts = block.texts[j]
                other = np.flatnonzero([c >= 0 and texts.labels[c] != self.usual.labels[j] for c in texts.codes])
                self._changed(j, other, lambda row, texts=texts: texts.labels[texts.codes[row]])
        self.n_rows += block.n_rows

    def _watched(self) -> list[int]:
        """The numbers of counters, constants, and the year of a joined date whose time the encoder leaves out."""
        constant = self.encoder.reasons_
        found = [j for j, why in enumerate(constant) if why == COUNTER or why.startswith("the same in every row")]
        year = self.encoder.joined_.get("year")
        return sorted({*found, *([] if year is None or self.encoder.trend else [year])})

    def _add_numbers(self, j: int, values: np.ndarray) -> None:
        present = values[np.isfinite(values)]
        if not len(present):
            return
        self.lowest[j] = min(self.lowest.get(j, np.inf), float(present.min()))
        self.highest[j] = max(self.highest.get(j, -np.inf), float(present.max()))
        if self.encoder.kinds_[j] == LEFT_OUT and self.usual.lowest[j] == self.usual.highest[j]:
            other = np.flatnonzero(np.isfinite(values) & (values != self.usual.lowest[j]))
            self._changed(j, other, lambda row: shown(float(values[row]), self.usual.kinds[j]))

    def _changed(self, j: int, rows: np.ndarray, value: Any) -> None:
        if not len(rows):
            return
        count, first, held = self.changed.get(j, (0, self.n_rows + int(rows[0]), value(int(rows[0]))))
        self.changed[j] = (count + len(rows), first, held)

    def sentences(self) -> list[str]:
        """A sentence for each column whose values differ from those in the fit; it counts rows from 1."""
        names, usual, found = column_names(self.encoder), self.usual, []
        for j in self._watched():
            kind = usual.kinds[j]
            if j in self.changed:
                count, first, held = self.changed[j]
                was = usual.labels[j] or shown(usual.lowest[j], kind)
                found.append(
                    f"{names[j]} is {was} in all normal rows, and so is not judged; here it is not in {count:,} of "
                    f"{self.n_rows:,} rows (first {held}, in row {first + 1})"
                )
            elif j in self.lowest and not usual.lowest[j] <= self.lowest[j] <= self.highest[j] <= usual.highest[j]:
                before = _span(usual.lowest[j], usual.highest[j], kind)
                now = _span(self.lowest[j], self.highest[j], kind)
                found.append(f"{names[j]} has left its range, {before} in the normal rows and {now} here: not judged")
        return found


def _span(low: float, high: float, kind: str) -> str:
    return shown(low, kind) if low == high else f"{shown(low, kind)} to {shown(high, kind)}"
