"""How each column of a table is encoded; this is decided once, from a summary of all rows.

Kernels depend on squared distances between rows, to which every variable should contribute equally.  A standardised
number contributes 2 on average: E |x - y|^2 = 2 var(x) = 2.  A category has one indicator for each label; if a label
occurs in a share p of the rows, the indicators have the total variance  sum p (1 - p).  Divided by the square root of
this, they also contribute 2 together, however many labels there are: a category counts as one column.

    standard   (x - mean) / standard deviation
    robust     z = (x - median) / (q75 - q25), then z / sqrt(1 + (z / 3)^2): smooth, monotone, never beyond 3
               (Holzmueller, Grinsztajn & Steinwart 2024; also skrub's SquashingScaler)
    none       numbers unchanged; two rows with different labels of a category are at distance 1, and so are opposite
               points of a circle

Module `calendar` encodes dates and calendar columns.

One pass over a table collects a summary, from which every column can be decided.  The summary is the same however the
table is divided into blocks:

numbers   count, mean, sum of squares about the mean, smallest, largest      (added as in Chan, Golub & LeVeque 1983)
order     whether each column only rises, or only falls, from row to row
texts     how often each text occurs
missing   how many values are missing, and the first row without a value
sample    the rows with the smallest hashed row numbers, or all rows of a short table; quartiles and the number of
          different values are computed on it
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from ..arrays import scrambled
from ..errors import ColumnError
from ..rows.frames import BOOLEAN, DATE, NUMBER, OTHER, TEXT, Block
from .calendar import CYCLE, CYCLE_PERIODS, FEW_POSITIONS, TIME, calendar_role, date_circles, holds_role

SAMPLE_ROWS = 50_000  # enough to estimate quartiles to a percent of the spread
SAMPLE_VALUES = 2**24  # limit of rows x columns in the sample, which keeps it below 128 MB
MAX_TEXTS = 100_000  # a column with more different texts is never a category, so counting stops there


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
    """The summary of the rows of a table (see above); `add` takes the next block."""

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
        """Update whether each column only rises (no value is below one before it) or only falls; gaps are skipped."""
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
        with np.errstate(over="ignore", invalid="ignore"):  # too large numbers are reported later
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
        if len(self._keys) == self._most:  # discards most rows of a long table before they are copied
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
        """The number of the first row without a value in a column."""
        if column in self.texts:
            return self.texts[column].first_missing
        return int(self.first_missing[np.searchsorted(self.measured, column)])

    def unreadable(self, column: int) -> str | None:
        """The type of the values of a column that holds neither numbers nor text; None for other columns."""
        return self.others.get(column) if self.kinds[column] == OTHER else None


def check_zones(block: Block, zoned: frozenset[int]) -> None:
    """Refuse dates with a time zone after dates without one, or the reverse: times would be wrong by hours."""
    for j in sorted(block.zoned ^ zoned):
        now, before = ("a", "none") if j in block.zoned else ("no", "one")
        raise ColumnError(
            block.names[j],
            None,
            f"the dates of column {block.names[j]!r} have {now} time zone, and had {before} in the rows before: give "
            "them all alike, in one zone or in none",
        )


def infinite_value(name: str, row: int) -> ColumnError:
    """The error for an infinite value in row number `row`; its message counts rows from 1."""
    return ColumnError(name, row, f"column {name!r} is infinite in row {row + 1}: correct or drop such rows first")


def missing_value(name: str, row: int) -> ColumnError:
    """The error for a missing value in row number `row`, if missing values are not allowed."""
    advice = "fill or drop such rows, or give missing='impute'"
    return ColumnError(name, row, f"column {name!r} is missing (NaN) in row {row + 1}: {advice}")


CATEGORY, LEFT_OUT = "category", "left out"
SQUASHED = 3.0  # bound of robustly scaled values
MAX_CATEGORIES = 30  # default for the largest number of indicators for the labels of a category
FEW_TEXTS = 20  # a column with at most this many different texts is a category even if most occur once
MOST_TEXTS = 0.5  # with more different texts than this share of the rows, a column holds names, notes or keys
COUNTER_LEVELS = 10  # a column that only rises, or only falls, is a counter if it has this many different values
COUNTER = "a counter: it only rises, or only falls, from row to row"
DATE_ONLY = "a date without circles: it only tells how late a row is"
SAME_DATE_DAYS = 1.0  # two columns that never differ by more hold the same date, perhaps in two time zones
MANY_NUMBERS = 300  # at least this many consecutive numbers, each occurring once, number the rows; fewer may be years
HEAVY_REACH = 2.0  # a column of eight or more values within this many standard deviations has no heavy tail
IDENTIFIER = re.compile(r"(^|[\W_])(id|uid|uuid|guid|key|index|rownum|row[ _]?id|nr|no|number)$|^unnamed|^$", re.I)
UNNAMED = re.compile(r"column_\d+_*")  # the name that `read_table` gives to a column without one


@dataclass
class Plan:
    """How the columns are encoded; lists have one entry for each column, unless said otherwise."""

    kinds: list[str]
    reasons: list[str]  # why a column is left out; empty if it is not
    center: np.ndarray
    scale: np.ndarray
    fill: np.ndarray  # the value that replaces a missing number
    categories: list[np.ndarray] = field(default_factory=list)  # for each categorical column, its labels
    has_other: list[bool] = field(default_factory=list)  # for each of them: whether rarer labels share an indicator
    heavy: list[str] = field(default_factory=list)  # names of columns most of whose variance comes from a few rows
    calendar: list[str] = field(default_factory=list)  # the parts that dates and cycles are encoded as


@dataclass(frozen=True)
class PlanOptions:
    """The parameters of a TableEncoder that a plan depends on."""

    scale: str
    keep: frozenset[str]  # columns that are used even if they look like identifiers
    max_categories: int
    calendar: bool
    trend: bool


def planned(summary: TableSummary, options: PlanOptions, joined: dict[str, int]) -> Plan:
    """The plan for a table with this summary, and with these columns joined into a date, by role."""
    width, scale, keep = len(summary.names), options.scale, options.keep
    plan = Plan(list(summary.kinds), [""] * width, np.zeros(width), np.ones(width), np.zeros(width))
    plan.calendar = [""] * width
    for j, name in enumerate(summary.names):
        if j in summary.texts:
            _plan_text(plan, summary, j, scale, name in keep, options.max_categories)
        elif (held := summary.unreadable(j)) is not None:
            _leave_out(plan, j, f"made of {held}, neither numbers nor text")
    _plan_numbers(plan, summary, options)
    if joined and not options.keep & {summary.names[j] for j in joined.values()}:
        _leave_out_repeated_date(plan, summary, joined)
    return plan


def _leave_out(plan: Plan, j: int, reason: str) -> None:
    plan.kinds[j], plan.reasons[j] = LEFT_OUT, reason


def _plan_text(plan: Plan, summary: TableSummary, j: int, scale: str, keep: bool, max_categories: int) -> None:
    texts = summary.texts[j]
    n_present = summary.n_rows - texts.n_missing
    reason = _why_no_category(texts, n_present, keep)
    if reason:
        _leave_out(plan, j, reason)
        return
    by_count = sorted(texts.counts, key=lambda label: (-texts.counts[label], label))
    shown = by_count if len(by_count) <= max_categories else by_count[: max_categories - 1]
    labels = sorted(shown)
    shares = [texts.counts[label] / summary.n_rows for label in labels]
    rest = 1 - sum(shares)  # rarer labels, which share an indicator, and gaps, which have another
    gaps = texts.n_missing / summary.n_rows
    variance = 1 - sum(share**2 for share in [*shares, gaps, max(rest - gaps, 0.0)])
    plan.kinds[j] = CATEGORY
    plan.scale[j] = _bounded(np.sqrt(variance), scale) if scale != "none" else np.sqrt(2)
    plan.categories.append(np.array(labels, dtype=object))
    plan.has_other.append(len(labels) < len(by_count))


def _why_no_category(texts: TextCounts, n_present: int, keep: bool) -> str:
    n_different = len(texts.counts)
    if not n_different:
        return "empty"
    if n_different == 1 and not texts.n_missing:
        return f"the same in every row ({next(iter(texts.counts))!r})"
    if n_different > MAX_TEXTS:
        return f"text with more than {MAX_TEXTS:,} different values"
    if keep:
        return ""
    if n_different == n_present and n_present > 2:
        return "identifier-like: a different text in every row"
    if n_different > max(FEW_TEXTS, MOST_TEXTS * n_present):
        return f"text with {n_different:,} different values in {n_present:,} rows"
    return ""


def _bounded(spread: float, scale: str) -> float:
    """The scale of an indicator: robustly scaled numbers stay within 3, so an indicator, 1 / scale, must, too."""
    return max(float(spread), 1 / SQUASHED) if scale == "robust" else float(spread)


def _plan_numbers(plan: Plan, summary: TableSummary, options: PlanOptions) -> None:
    if not len(summary.measured):
        return
    empty = summary.count == 0
    constant = (summary.lowest == summary.highest) & ~empty
    gaps = summary.count < summary.n_rows
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = np.sqrt(summary.squares / np.maximum(summary.count, 1))
    quartiles = _quartiles(summary)
    reach = np.maximum(summary.highest - summary.mean, summary.mean - summary.lowest)
    for place, j in enumerate(summary.measured):
        name, kind, kept = summary.names[j], summary.kinds[j], summary.names[j] in options.keep
        if empty[place]:
            _leave_out(plan, j, "empty")
        elif constant[place] and not gaps[place]:
            _leave_out(plan, j, f"the same in every row ({_shown(summary.lowest[place], kind)})")
        elif not kept and _is_identifier(summary, int(j), place):
            _leave_out(plan, j, "identifier-like: a different whole number in every row")
        elif not (kept or options.trend) and _is_counter(summary, int(j), place):
            _leave_out(plan, j, COUNTER)
        else:
            _scale_number(plan, summary, int(j), place, quartiles[:, place], deviation[place], options.scale)
            _plan_calendar(plan, summary, int(j), place, options)
            _check_scale(plan, j, name)
            far = reach[place] > HEAVY_REACH * deviation[place]
            if plan.kinds[j] == NUMBER and far and _is_heavy(summary.sample[:, place]):
                plan.heavy.append(name)


def _scale_number(
    plan: Plan, summary: TableSummary, j: int, place: int, quartiles: np.ndarray, deviation: float, scale: str
) -> None:
    """Set the centre and the scale of a column of numbers, and the value that fills its gaps."""
    kind, low, high = summary.kinds[j], summary.lowest[place], summary.highest[place]
    q25, median, q75 = quartiles
    plan.fill[j] = median if kind != BOOLEAN else float(median > 0.5)
    if low == high:  # then only the indicator of gaps carries information
        plan.center[j] = low
    elif scale != "none" and (kind == BOOLEAN or scale == "standard"):
        plan.center[j], plan.scale[j] = summary.mean[place], _bounded(deviation, scale)
    elif scale == "robust":
        plan.center[j], plan.scale[j] = median, q75 - q25 if q75 > q25 else (high - low) / 2


def _plan_calendar(plan: Plan, summary: TableSummary, j: int, place: int, options: PlanOptions) -> None:
    """Set the parts that a date is encoded as; recognise an hour, a weekday or a month in a column of numbers."""
    values, role = summary.sample[:, place], calendar_role(summary.names[j])
    if summary.kinds[j] == DATE:
        parts = [TIME] * options.trend + (date_circles(values) if options.calendar else [])
        if not parts:
            _leave_out(plan, j, DATE_ONLY)
        elif options.scale != "none":
            plan.scale[j] *= np.sqrt(len(parts))  # so that all parts of a date together have the weight of one column
        plan.calendar[j] = " ".join(parts)
    elif options.calendar and summary.kinds[j] == NUMBER and role in CYCLE_PERIODS and holds_role(role, values):
        positions = np.unique(values[~np.isnan(values)])
        if len(positions) >= FEW_POSITIONS:
            plan.kinds[j], plan.calendar[j] = CYCLE, role
            plan.center[j], plan.scale[j] = positions[0], 1.0  # the smallest value: 0 or 1


def _leave_out_repeated_date(plan: Plan, summary: TableSummary, joined: dict[str, int]) -> None:
    """Leave out the columns of the joined date if a column of dates holds this date, too, at least as finely."""
    if plan.kinds[joined["year"]] != DATE:
        return
    days = summary.sample[:, np.searchsorted(summary.measured, joined["year"])]
    known = ~np.isnan(days)
    for j, kind in enumerate(plan.kinds):
        if kind != DATE or j == joined["year"]:
            continue
        other = summary.sample[:, np.searchsorted(summary.measured, j)]
        finer = len(np.unique(other[known])) >= len(np.unique(days[known]))
        if finer and (np.abs(other - days)[known] <= SAME_DATE_DAYS).all():
            for part in joined.values():
                _leave_out(plan, part, f"a part of the date in {summary.names[j]}")
                plan.calendar[part] = ""
            return


def _is_counter(summary: TableSummary, j: int, place: int) -> bool:
    """Whether a column only rises, or only falls, from row to row, so that future rows will be outside its range."""
    if summary.kinds[j] != NUMBER or not (summary.rising[place] or summary.falling[place]):
        return False
    values = summary.sample[:, place]
    return calendar_role(summary.names[j]) == "year" or len(np.unique(values[~np.isnan(values)])) >= COUNTER_LEVELS


def _is_heavy(values: np.ndarray) -> bool:
    """Whether 1 % of the rows make most of the variance of a column that has more than two different values."""
    present = values[~np.isnan(values)]
    if len(np.unique(present)) < 3:
        return False
    squares = np.square(present - present.mean())
    n_few = max(1, len(squares) // 100)
    return bool(np.partition(squares, -n_few)[-n_few:].sum() > squares.sum() / 2)


def _check_scale(plan: Plan, j: int, name: str) -> None:
    if not (np.isfinite(plan.center[j]) and np.isfinite(plan.scale[j]) and plan.scale[j] > 0):
        message = f"column {name!r} holds numbers too large or too small to be scaled: rescale or leave it out"
        raise ColumnError(name, None, message)


def _quartiles(summary: TableSummary) -> np.ndarray:
    """q25, median and q75, (3, n), of the n measured columns, over the sampled rows without gaps in the column."""
    missing = np.isnan(summary.sample)
    if not missing.any():
        return np.asarray(np.quantile(summary.sample, [0.25, 0.5, 0.75], axis=0))
    found = np.zeros((3, summary.sample.shape[1]))
    for place in range(summary.sample.shape[1]):
        present = summary.sample[~missing[:, place], place]
        # If a column has values only in few rows of a long table, the sample may contain none of them.
        found[:, place] = np.quantile(present, [0.25, 0.5, 0.75]) if len(present) else summary.mean[place]
    return found


def _is_identifier(summary: TableSummary, j: int, place: int) -> bool:
    """Whether a column of integers only identifies rows.

    It does if every integer of a range occurs once, or if all are different and the name is one of a key, such as "id".
    Among columns with names, one without a name holds row numbers, perhaps with gaps, if they begin below the number of
    rows: years, for example, do not.
    """
    if not summary.integers[j] or summary.count[place] < summary.n_rows or summary.n_rows < 3:
        return False
    low, high = summary.lowest[place], summary.highest[place]
    counts_rows = (low in (0, 1) or summary.n_rows >= MANY_NUMBERS) and high - low == summary.n_rows - 1
    unnamed = [UNNAMED.fullmatch(name) is not None for name in summary.names]
    numbers_rows = unnamed[j] and not all(unnamed) and 0 <= low <= summary.n_rows
    if not counts_rows and not numbers_rows and not IDENTIFIER.search(summary.names[j]):
        return False
    values = summary.sample[:, place]
    return len(np.unique(values)) == len(values)


def _shown(value: float, kind: str) -> str:
    if kind == DATE:
        return str(np.datetime64(0, "D") + np.timedelta64(int(value), "D"))
    return str(bool(value)).lower() if kind == BOOLEAN else f"{value:g}"
