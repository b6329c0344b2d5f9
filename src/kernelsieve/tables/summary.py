"""What a pass over a table leaves behind: enough to decide about every column, however the rows are divided.

numbers   count, mean, sum of squares about it, smallest, largest      added up (Chan, Golub & LeVeque 1983)
order     whether each column only rises, or only falls, from row to row
texts     how often each occurs
missing   how many, and the first row
sample    the rows whose numbers, hashed, are smallest: the same ones whether the table came whole or in blocks;
          quartiles and different values are counted on it, and it is all rows where there are few
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..arrays import scrambled
from ..errors import ColumnError
from ..rows.frames import OTHER, TEXT, Block

SAMPLE_ROWS = 50_000  # enough to know quartiles to a percent of the spread
SAMPLE_VALUES = 2**24  # for tables with very many columns: keeps the sample below 128 MB
MAX_TEXTS = 100_000  # a column with more different texts is never a category, so they are not counted


@dataclass
class TextCounts:
    """How often each text of a column occurs."""

    counts: dict[str, int] = field(default_factory=dict)
    n_missing: int = 0
    first_missing: int = -1

    def add(self, codes: np.ndarray, labels: list[str], start: int) -> None:
        """Count the texts of a block whose first row has the number `start`."""
        gaps = np.flatnonzero(codes < 0)
        if len(gaps) and self.first_missing < 0:
            self.first_missing = start + int(gaps[0])
        self.n_missing += len(gaps)
        if len(self.counts) > MAX_TEXTS:
            return
        for label, count in zip(labels, np.bincount(codes[codes >= 0], minlength=len(labels)), strict=True):
            self.counts[label] = self.counts.get(label, 0) + int(count)


class TableSummary:
    """Sums over the rows of a table; `add` takes the next block."""

    def __init__(self, first: Block) -> None:
        self.names, self.kinds, self.integers = first.names, first.kinds, first.integers
        self.library, self.others, self.measured = first.library, first.others, first.measured
        self.units, self.zoned = first.units, first.zoned
        self.single = first.numbers.dtype == np.float32
        self.texts = {j: TextCounts() for j, kind in enumerate(first.kinds) if kind == TEXT}
        width = len(self.measured)
        self.n_rows = 0
        self.count = np.zeros(width)
        self.mean = np.zeros(width)
        self.squares = np.zeros(width)
        self.lowest = np.full(width, np.inf)
        self.highest = np.full(width, -np.inf)
        self.rising, self.falling = np.ones((2, width), dtype=bool)
        self.first_missing = np.full(width, -1)
        self._most = max(1, min(SAMPLE_ROWS, SAMPLE_VALUES // max(1, width)))
        self._keys = np.empty(0, dtype=np.uint64)
        self.sample = np.empty((0, width))
        self.add(first)

    def add(self, block: Block) -> None:
        """Add the next block of rows."""
        if block.names != self.names or block.kinds != self.kinds:
            raise ValueError("the blocks of a table must all have the same columns of the same kinds")
        check_zones(block, self.zoned)
        start = self.n_rows
        self.n_rows += block.n_rows
        if not block.n_rows:
            return
        for j, texts in block.texts.items():
            self.texts[j].add(texts.codes, texts.labels, start)
        self._check_infinite(block, start)
        self._follow_order(block.numbers)
        self._add_numbers(block.numbers, start)
        self._add_sample(block.numbers, start)

    def _check_infinite(self, block: Block, start: int) -> None:
        infinite = np.isinf(block.numbers)
        if infinite.any():
            row, place = (int(i) for i in np.argwhere(infinite)[0])
            raise infinite_value(self.names[self.measured[place]], start + row)

    def _follow_order(self, numbers: np.ndarray) -> None:
        """A column only rises if no value is below the largest before it; gaps are skipped."""
        with np.errstate(invalid="ignore"):
            before = np.fmax.accumulate(np.vstack([self.highest, numbers]), axis=0)[:-1]
            self.rising &= ~(numbers < before).any(axis=0)
            before = np.fmin.accumulate(np.vstack([self.lowest, numbers]), axis=0)[:-1]
            self.falling &= ~(numbers > before).any(axis=0)

    def _add_numbers(self, numbers: np.ndarray, start: int) -> None:
        missing = np.isnan(numbers)
        new = np.flatnonzero(missing.any(axis=0) & (self.first_missing < 0))
        self.first_missing[new] = start + missing[:, new].argmax(axis=0)
        count = (~missing).sum(axis=0)
        values = np.where(missing, 0.0, numbers.astype(np.float64, copy=False))
        with np.errstate(over="ignore", invalid="ignore"):  # columns too large to be scaled are reported later
            mean = values.sum(axis=0) / np.maximum(count, 1)
            values -= mean
            values[missing] = 0.0
            total = self.count + count
            shift = mean - self.mean
            part = np.divide(count, total, out=np.zeros(len(total)), where=total > 0)
            self.squares += np.square(values).sum(axis=0) + np.square(shift) * self.count * part
            self.mean += shift * part
        self.count = total
        self.lowest = np.minimum(self.lowest, np.where(missing, np.inf, numbers).min(axis=0))
        self.highest = np.maximum(self.highest, np.where(missing, -np.inf, numbers).max(axis=0))

    def _add_sample(self, numbers: np.ndarray, start: int) -> None:
        keys = scrambled(np.arange(start + 1, start + 1 + len(numbers)), 0)
        if len(self._keys) == self._most:  # in a long table this drops most rows at once
            near = np.flatnonzero(keys < self._keys.max())
            keys, numbers = keys[near], numbers[near]
        keys = np.concatenate([self._keys, keys])
        chosen = np.sort(np.argpartition(keys, self._most)[: self._most]) if len(keys) > self._most else slice(None)
        self.sample = np.concatenate([self.sample, numbers])[chosen]
        self._keys = keys[chosen]

    def n_missing(self) -> np.ndarray:
        """The number of missing values in each column."""
        found = np.zeros(len(self.names), dtype=np.int64)
        found[self.measured] = self.n_rows - self.count.astype(np.int64)
        for j, texts in self.texts.items():
            found[j] = texts.n_missing
        return found

    def first_gap(self, column: int) -> int:
        """The number of the first row in which a column is missing."""
        if column in self.texts:
            return self.texts[column].first_missing
        return int(self.first_missing[np.searchsorted(self.measured, column)])

    def unreadable(self, column: int) -> str | None:
        """What a column holds if it holds neither numbers nor text."""
        return self.others.get(column) if self.kinds[column] == OTHER else None


def check_zones(block: Block, zoned: frozenset[int]) -> None:
    """Refuse dates with a time zone after dates without one, or the reverse: they would be off by hours."""
    for j in sorted(block.zoned ^ zoned):
        now, before = ("a", "none") if j in block.zoned else ("no", "one")
        raise ColumnError(
            block.names[j],
            None,
            f"the dates of column {block.names[j]!r} have {now} time zone, and had {before} in the rows before: give "
            "them all alike, in one zone or in none",
        )


def infinite_value(name: str, row: int) -> ColumnError:
    """The error for an infinite value; its message counts rows from 1, as people do."""
    return ColumnError(name, row, f"column {name!r} is infinite in row {row + 1}: correct or drop such rows first")


def missing_value(name: str, row: int) -> ColumnError:
    """The error for a missing value where none is allowed."""
    advice = "fill or drop such rows, or give missing='impute'"
    return ColumnError(name, row, f"column {name!r} is missing (NaN) in row {row + 1}: {advice}")
