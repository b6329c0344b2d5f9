"""How each column is encoded: decided once, from the summary of all rows.

Kernels see squared distances between rows, so every variable should contribute equally.  A standardised number
contributes 2 on average, E |x - y|^2 = 2 var(x).  A category with one indicator for each label, which occurs in a
share p of the rows, has the total variance  sum p (1 - p);  divided by its root it also contributes 2, however many
labels there are, so it counts as one column.

    standard   (x - mean) / standard deviation
    robust     z = (x - median) / (q75 - q25), then z / sqrt(1 + (z / 3)^2): smooth, monotone, never beyond 3
               (Holzmueller, Grinsztajn & Steinwart 2024, whose transform skrub's SquashingScaler is)
    none       numbers as they are; rows with different labels of a category are at distance 1, and so are opposite
               points of a circle

`calendar` has the encoding of dates and calendar columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from ..errors import ColumnError
from ..rows.frames import BOOLEAN, DATE, NUMBER, TEXT
from .calendar import CYCLE, CYCLE_PERIODS, FEW_POSITIONS, JOINED, TIME, calendar_role, date_circles, holds_role
from .summary import MAX_TEXTS, TableSummary, TextCounts

CATEGORY, LEFT_OUT = "category", "left out"
SQUASHED = 3.0  # no robustly scaled value is larger
MAX_CATEGORIES = 30  # labels of a category with an indicator of their own; the others share one
FEW_TEXTS = 20  # a column with at most this many different texts is a category even if most occur once
MOST_TEXTS = 0.5  # with more different texts than this share of the rows, a column holds names, notes or keys
COUNTER_LEVELS = 10  # a column that only rises, or only falls, is a counter if it has this many different values
COUNTER = "a counter: it only rises, or only falls, from row to row"
DATE_ONLY = "a date that covers no whole day: it only tells how late a row is"
HEAVY_REACH = 2.0  # in standard deviations: within it, no row can make half of the variance of eight or more
IDENTIFIER = re.compile(r"(^|[\W_])(id|uid|uuid|guid|key|index|rownum|row[ _]?id|nr|no|number)$|^unnamed|^$", re.I)


@dataclass
class Plan:
    """How the columns are encoded: one entry for each."""

    kinds: list[str]
    reasons: list[str]  # why a column is left out; empty if it is not
    center: np.ndarray
    scale: np.ndarray
    fill: np.ndarray  # the value that replaces a missing number
    categories: list[np.ndarray] = field(default_factory=list)  # labels of each category
    has_other: list[bool] = field(default_factory=list)  # whether rarer labels share an indicator
    heavy: list[str] = field(default_factory=list)  # columns most of whose variance comes from a few rows
    calendar: list[str] = field(default_factory=list)  # of dates and cycles: the parts that they are encoded as


@dataclass(frozen=True)
class PlanOptions:
    """The parameters of a TableEncoder that decide about columns."""

    scale: str
    keep: frozenset[str]  # columns that are used even if they look like identifiers
    max_categories: int
    calendar: bool
    trend: bool


def planned(summary: TableSummary, options: PlanOptions) -> Plan:
    """The plan for a table."""
    width, scale, keep = len(summary.names), options.scale, options.keep
    plan = Plan(list(summary.kinds), [""] * width, np.zeros(width), np.ones(width), np.zeros(width))
    plan.calendar = [""] * width
    for j, name in enumerate(summary.names):
        if j in summary.texts:
            _plan_text(plan, summary, j, scale, name in keep, options.max_categories)
        elif (held := summary.unreadable(j)) is not None:
            _leave_out(plan, j, f"made of {held}, neither numbers nor text")
    _plan_numbers(plan, summary, options)
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
    rest = 1 - sum(shares)  # rarer labels and gaps, which have indicators of their own
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
    """With the robust scale numbers stay within 3, and so must the indicator of a rare label."""
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
    """The value that fills gaps in a column of numbers, its centre and its scale."""
    kind, low, high = summary.kinds[j], summary.lowest[place], summary.highest[place]
    q25, median, q75 = quartiles
    plan.fill[j] = median if kind != BOOLEAN else float(median > 0.5)
    if low == high:  # only its gaps carry information
        plan.center[j] = low
    elif scale != "none" and (kind == BOOLEAN or scale == "standard"):
        plan.center[j], plan.scale[j] = summary.mean[place], _bounded(deviation, scale)
    elif scale == "robust":
        plan.center[j], plan.scale[j] = median, q75 - q25 if q75 > q25 else (high - low) / 2


def _plan_calendar(plan: Plan, summary: TableSummary, j: int, place: int, options: PlanOptions) -> None:
    """The parts that a date is encoded as; and whether a column of whole numbers is an hour, a weekday or a month."""
    values, role = summary.sample[:, place], calendar_role(summary.names[j])
    if summary.kinds[j] == DATE:
        parts = [TIME] * options.trend + (date_circles(values) if options.calendar else [])
        if not parts:
            _leave_out(plan, j, DATE_ONLY)
        elif options.scale != "none":
            plan.scale[j] *= np.sqrt(len(parts))  # so that the parts of a date together weigh as one column
        plan.calendar[j] = " ".join(parts)
    elif options.calendar and summary.kinds[j] == NUMBER and role in CYCLE_PERIODS and holds_role(role, values):
        positions = np.unique(values[~np.isnan(values)])
        if len(positions) >= FEW_POSITIONS:
            plan.kinds[j], plan.calendar[j] = CYCLE, role
            plan.center[j], plan.scale[j] = positions[0], 1.0  # the smallest of its numbers: 0 or 1


def _is_counter(summary: TableSummary, j: int, place: int) -> bool:
    """Whether a column only rises, or only falls, from row to row, so that future rows will leave its range."""
    if summary.kinds[j] != NUMBER or not (summary.rising[place] or summary.falling[place]):
        return False
    values = summary.sample[:, place]
    return calendar_role(summary.names[j]) == "year" or len(np.unique(values[~np.isnan(values)])) >= COUNTER_LEVELS


def _is_heavy(values: np.ndarray) -> bool:
    """Whether 1 % of the rows make most of the variance, in a column that is not just a rare yes among noes."""
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
    """q25, median and q75 of every measured column, over the sampled rows in which it has a value."""
    missing = np.isnan(summary.sample)
    if not missing.any():
        return np.asarray(np.quantile(summary.sample, [0.25, 0.5, 0.75], axis=0))
    found = np.zeros((3, summary.sample.shape[1]))
    for place in range(summary.sample.shape[1]):
        present = summary.sample[~missing[:, place], place]
        # the sample of a long table may have missed the few rows in which a column has a value
        found[:, place] = np.quantile(present, [0.25, 0.5, 0.75]) if len(present) else summary.mean[place]
    return found


def _is_identifier(summary: TableSummary, j: int, place: int) -> bool:
    """Whether whole numbers only identify rows: 1, 2, 3, ..., or all different in a column named like a key."""
    if not summary.integers[j] or summary.count[place] < summary.n_rows or summary.n_rows < 3:
        return False
    low, high = summary.lowest[place], summary.highest[place]
    counts_rows = low in (0, 1) and high - low == summary.n_rows - 1
    if not counts_rows and not IDENTIFIER.search(summary.names[j]):
        return False
    values = summary.sample[:, place]
    return len(np.unique(values)) == len(values)


def _shown(value: float, kind: str) -> str:
    if kind == DATE:
        return str(np.datetime64(0, "D") + np.timedelta64(int(value), "D"))
    return str(bool(value)).lower() if kind == BOOLEAN else f"{value:g}"


__all__ = [
    "BOOLEAN",
    "CATEGORY",
    "CYCLE",
    "DATE",
    "JOINED",
    "LEFT_OUT",
    "MAX_CATEGORIES",
    "NUMBER",
    "SQUASHED",
    "TEXT",
    "Plan",
    "PlanOptions",
    "planned",
]
