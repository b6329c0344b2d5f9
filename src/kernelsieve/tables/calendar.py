"""Dates for kernels: the time of a row, and its position in the year, the week and the day.

A date is a number t of days since 1970.  As numbers, 23:00 is far from 0:00, and December from January, though they are
neighbours in the day and in the year.  So for each period p that the rows cover at least once, the position in the
period is also encoded as a point on a circle, in two columns:

    sin(2 pi t / p),  cos(2 pi t / p)           p = 365.2425 days (season), 7 (weekday), 1 (hour)

The time and the circles of a date together have the weight of one column, as the indicators of a category do.  Year,
month, day, hour, ... in columns of their own are joined into one date.  An hour, a month or a weekday that is not part
of such a date is encoded as a circle alone.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from ..errors import ColumnError
from ..rows.frames import DATE, NUMBER, Block

# Kinds of columns: one that is encoded as a circle alone, and a part of a date, joined into the column of the year.
CYCLE, JOINED = "cycle", "joined"
TIME, SEASON, WEEKDAY, HOUR, MONTH = "time", "season", "weekday", "hour", "month"
DATE_PERIODS = {SEASON: 365.2425, WEEKDAY: 7.0, HOUR: 1.0}  # in days
CYCLE_PERIODS = {HOUR: 24.0, WEEKDAY: 7.0, MONTH: 12.0}  # in the unit of the column itself
FEW_POSITIONS = 3  # with fewer different times of day, week or year, a circle is not worth its two columns
# Names of calendar columns, and the smallest and largest value that they may hold.
CALENDAR_NAMES = {
    "year": (re.compile(r"year|yr|yyyy", re.I), 1000, 2999),
    "month": (re.compile(r"month|mon|mnth", re.I), 1, 12),
    "day": (re.compile(r"day|mday|day[ _]?of[ _]?month", re.I), 1, 31),
    "hour": (re.compile(r"hour|hr|hour[ _]?of[ _]?day", re.I), 0, 24),
    "minute": (re.compile(r"minutes?", re.I), 0, 59),
    "second": (re.compile(r"seconds?", re.I), 0, 60),
    "weekday": (re.compile(r"weekday|wday|dow|day[ _]?of[ _]?week", re.I), 0, 7),
}
DATE_PARTS = ("year", "month", "day", "hour", "minute", "second")
FEWEST_PARTS = 2  # a date needs at least a year and a month
DAYS_A_UNIT = {"hour": 1 / 24, "minute": 1 / 1440, "second": 1 / 86_400}
# The column to which a part of a joined date is credited: the first of these that exists.
CREDITED = {TIME: ("year",), SEASON: ("month",), WEEKDAY: ("day", "month"), HOUR: ("hour", "day")}


def calendar_role(name: str) -> str | None:
    """The calendar role ("year", "month", ...) of a column with this name; None if it has none."""
    return next((role for role, (pattern, _, _) in CALENDAR_NAMES.items() if pattern.fullmatch(name.strip())), None)


def holds_role(role: str, values: np.ndarray) -> bool:
    """Whether all values that are not missing are whole numbers in the range of this calendar role."""
    return bool(_in_range(role, values[~np.isnan(values)]).all())


def date_columns(block: Block) -> dict[str, int]:
    """The numbers of the columns that can be joined into a date, by role: year, month, day, hour, ...

    The roles end before the first that no column, or more than one column, has.  Empty if the year or the month is not
    among them, or if the values of a row are not a date, such as a 30th of February.
    """
    by_role: dict[str, list[int]] = {}
    places = {int(j): place for place, j in enumerate(block.measured)}
    for j, (name, kind) in enumerate(zip(block.names, block.kinds, strict=True)):
        role = calendar_role(name)
        if kind == NUMBER and role is not None and holds_role(role, block.numbers[:, places[j]]):
            by_role.setdefault(role, []).append(j)
    found: dict[str, int] = {}
    for role in DATE_PARTS:
        if len(by_role.get(role, ())) != 1:
            break
        found[role] = by_role[role][0]
    if len(found) < FEWEST_PARTS:
        return {}
    days, whole = _days(block, found)
    return found if not np.isnan(days[whole]).any() else {}


def with_date(block: Block, joined: dict[str, int], first: int = 0) -> Block:
    """The block with a date in the column of the year, and without the columns that were joined into it."""
    if not joined:
        return block
    for j in joined.values():
        if block.kinds[j] not in (NUMBER, "boolean"):
            message = f"column {block.names[j]!r} is not numeric: the model joins it into a date"
            raise ColumnError(block.names[j], None, message)
    days, whole = _days(block, joined)
    wrong = np.flatnonzero(whole & np.isnan(days))
    if len(wrong):
        names = ", ".join(repr(block.names[j]) for j in joined.values())
        row = first + int(wrong[0])
        raise ColumnError(block.names[joined["year"]], row, f"columns {names} give no valid date in row {row + 1}")
    kinds = list(block.kinds)
    for role, j in joined.items():
        kinds[j] = DATE if role == "year" else JOINED
    numbers = block.numbers.astype(np.float64)
    numbers[:, np.searchsorted(block.measured, joined["year"])] = days
    kept = [place for place, j in enumerate(block.measured) if kinds[j] != JOINED]
    return replace(block, kinds=tuple(kinds), numbers=numbers[:, kept])


def _days(block: Block, joined: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """For each row, its days since 1970 (NaN if its values are not a date), and whether it has all values."""
    values = {role: block.numbers[:, np.searchsorted(block.measured, j)] for role, j in joined.items()}
    whole = ~np.any([np.isnan(column) for column in values.values()], axis=0)
    right = whole & np.all([_in_range(role, column) for role, column in values.items()], axis=0)
    parts = {role: np.where(right, column, 1).astype(np.int64) for role, column in values.items()}
    months = (parts["year"] - 1970) * 12 + parts["month"] - 1
    starts = months.astype("datetime64[M]")
    days = starts.astype("datetime64[D]") + (parts.get("day", np.ones_like(months)) - 1)
    right &= days.astype("datetime64[M]") == starts
    total = days.astype(np.int64).astype(np.float64)
    for role, share in DAYS_A_UNIT.items():
        if role in parts:
            total += parts[role] * share
    return np.where(right, total, np.nan), whole


def _in_range(role: str, values: np.ndarray) -> np.ndarray:
    _, low, high = CALENDAR_NAMES[role]
    return (values >= low) & (values <= high) & (values == np.floor(values))


def split_date(days: np.ndarray, roles: list[str]) -> dict[str, np.ndarray]:
    """Days since 1970 split into year, month, ..., as joined before; rounded to the smallest unit in `roles`."""
    unit = 86_400 if roles[-1] in ("year", "month", "day") else round(86_400 * DAYS_A_UNIT[roles[-1]])
    known = np.isfinite(days)
    seconds = np.round(np.where(known, np.clip(days, -300_000, 300_000), 0) * 86_400 / unit).astype(np.int64) * unit
    stamps = seconds.astype("datetime64[s]")
    whole_days, months = stamps.astype("datetime64[D]"), stamps.astype("datetime64[M]")
    of_day = seconds - whole_days.astype(np.int64) * 86_400
    found = {
        "year": stamps.astype("datetime64[Y]").astype(np.int64) + 1970,
        "month": months.astype(np.int64) % 12 + 1,
        "day": (whole_days - months.astype("datetime64[D]")).astype(np.int64) + 1,
        "hour": of_day // 3600,
        "minute": of_day // 60 % 60,
        "second": of_day % 60,
    }
    return {role: np.where(known, found[role], np.nan) for role in roles}


def date_circles(days: np.ndarray) -> list[str]:
    """The circles worth encoding: those that the dates cover at least once, and in at least FEW_POSITIONS positions."""
    days = days[~np.isnan(days)]
    if not len(days):
        return []
    span = float(days.max() - days.min())
    found = []
    for name, period in DATE_PERIODS.items():
        # Rows of exactly one period span a little less than it: hourly rows of a day span 23 of its 24 hours.
        goes_round = span >= period * (1 - 1 / 24)
        positions = np.unique(np.floor(days % period * (24 if period <= 1 else 1)))
        if goes_round and len(positions) >= FEW_POSITIONS and not (name == WEEKDAY and _monthly(days)):
            found.append(name)
    return found


def _monthly(days: np.ndarray) -> bool:
    """Whether all dates are the first day of a month, so that their weekday carries no information."""
    stamps = np.floor(days).astype(np.int64).astype("datetime64[D]")
    return bool((stamps == stamps.astype("datetime64[M]")).all())


def circle_phases(center: float, period: float) -> tuple[float, float]:
    """The phases of sine and cosine, in turns, at the centre; the cosine is a quarter turn ahead of the sine."""
    return center / period % 1.0, (center / period + 0.25) % 1.0


def circle(values: np.ndarray, center: float, period: float, radius: float) -> np.ndarray:
    """The sine and cosine of each value, times the radius, (n, 2).

    Turns are counted from the centre, as in exported models, so that both have the same rounding errors.
    """
    turns = (values - center) * (1 / period)
    return radius * np.sin(2 * np.pi * (turns[:, None] + np.array(circle_phases(center, period))))


def on_circle(encoded: np.ndarray, period: float) -> np.ndarray:
    """The values in [0, period) that have these sines and cosines, (n, 2)."""
    return np.asarray(np.arctan2(encoded[:, 0], encoded[:, 1]) / (2 * np.pi) * period % period)
