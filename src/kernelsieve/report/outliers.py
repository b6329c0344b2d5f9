"""Outliers: the rows with the largest reconstruction errors, grouped by the column that is the main reason.

From the scores z of a row x, the model expects the row x', the pre-image of z.  The squared distance between the two is
a sum over columns, so each column has a share of it:

    |x - x'|^2 = sum_j sum_{e in group j} (x_e - x'_e)^2

Shares are computed from scaled and encoded values, the inputs of the kernel; values are shown in the units of the
table.  A value that most rows have is never a reason, however large its share is.

A row is odd if its error is above Tukey's fence, the third quartile of all errors plus 1.5 interquartile ranges.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from .limits import PAGE
from .model_view import ColumnReader, ModelView
from .page_data import JSON, PageData, cell, packed_pictures


@dataclass(frozen=True)
class Outlier:
    """A row with a large reconstruction error."""

    row: int
    error: float
    times: float  # the error as a multiple of the median error
    shares: np.ndarray  # (n_columns,) shares of |x - x'|^2; empty without a pre-image
    expected: list[object]  # for each column, its value in x'; empty without a pre-image


def fence(errors: np.ndarray) -> float:
    """The error above which a row is odd."""
    low, high = np.quantile(errors, [0.25, 0.75])
    return float(high + PAGE.fence * (high - low))


def worst_rows(view: ModelView) -> np.ndarray:
    """Numbers of the rows with the largest errors, the worst first.

    These are all odd rows, but at most `PAGE.max_explained`, and at least `PAGE.n_outliers` rows, odd or not.
    """
    n_odd = int(np.sum(view.errors > fence(view.errors)))
    count = min(max(PAGE.n_outliers, min(n_odd, PAGE.max_explained)), view.n_rows)
    largest = np.argpartition(-view.errors, count - 1)[:count]
    return largest[np.argsort(-view.errors[largest], kind="stable")]


def explained_rows(view: ModelView, reader: ColumnReader, rows: np.ndarray) -> list[Outlier]:
    """For each of these rows, the expected row and the share of each column in the difference from it."""
    median = float(np.median(view.errors)) or 1.0
    expected = view.preimages(view.scores[rows])
    if expected is None or not np.isfinite(expected).all():
        return [Outlier(int(row), float(view.errors[row]), view.errors[row] / median, np.array([]), []) for row in rows]
    squares = reader.by_column((view.encoded_rows(rows) - expected) ** 2)
    shares = squares / np.maximum(squares.sum(axis=1, keepdims=True), 1e-300)
    read = reader.read(expected)
    return [
        Outlier(
            int(row),
            float(view.errors[row]),
            float(view.errors[row]) / median,
            shares[place],
            [values[place] for values in read],
        )
        for place, row in enumerate(rows)
    ]


def outlier_section(data: PageData, worst: np.ndarray, shown: np.ndarray) -> JSON:
    """The section about outliers: how many rows are odd, the limit, and a card for each group of similar odd rows."""
    view = data.view
    limit = fence(view.errors)
    found: JSON = {
        "limit": cell(limit),
        "n_odd": int(np.sum(view.errors > limit)),
        "n_explained": len(worst),
        "median": cell(float(np.median(view.errors))),
        "most": None,
        "advice": None,
    }
    places = {int(row): place for place, row in enumerate(shown)}
    if data.pictures is not None:
        return found | {"cards": _pictures(data, worst[: PAGE.n_outliers], places)}
    explained = explained_rows(view, data.reader, worst)
    reasons = _Reasons(data).of(explained)
    groups = grouped(explained, reasons)
    cards = [_card(rows, reasons, places) for rows in groups[: PAGE.n_outliers]]
    if view.of_objects:
        cards = [{**card, "text": cell(view.frame.table[card["row"], 0])} for card in cards]
    blamed = Counter(reasons[row.row][0]["name"] for row in explained if row.error > limit and reasons[row.row])
    most = [list(pair) for pair in blamed.most_common(1) if pair[1] > 1]
    return found | {
        "cards": cards,
        "n_groups": len(groups),
        "most": most[0] if most else None,
        "advice": _advice(data, blamed),
    }


def grouped(explained: list[Outlier], reasons: dict[int, list[JSON]]) -> list[list[Outlier]]:
    """Groups of rows with the same first reason; the group with the worst row comes first.

    The first reason is a column in which the number is above (or below) the expected one, or the label is the same.  If
    most of the rows in such a group have the same number, these form a group of their own.
    """
    firsts = {row.row: reasons[row.row][0] for row in explained if reasons[row.row]}
    values = Counter((first["name"], first["value"]) for first in firsts.values())
    sides = Counter(_side(first) for first in firsts.values())
    groups: dict[tuple[Any, ...], list[Outlier]] = {}
    for row in explained:
        first = firsts.get(row.row)
        key: tuple[Any, ...] = (row.row,)  # a row without a reason is a group of its own
        if first is not None:
            key, same = _side(first), values[first["name"], first["value"]]
            if same >= PAGE.same_value and 2 * same > sides[key]:
                key = first["name"], first["value"]
        groups.setdefault(key, []).append(row)
    parts = [part for rows in groups.values() for part in _without_gaps(rows, firsts)]
    return sorted(parts, key=lambda rows: -max(row.error for row in rows))


def _without_gaps(rows: list[Outlier], firsts: dict[int, JSON]) -> list[list[Outlier]]:
    """The rows of a group, split if their values form clusters far apart, such as 13 to 17 and 60 to 69."""
    if len(rows) < 2 or firsts[rows[0].row]["kind"] == "class" or firsts[rows[0].row]["value"] is None:
        return [rows]
    ordered = sorted(rows, key=lambda row: float(firsts[row.row]["value"]))
    values = np.array([float(firsts[row.row]["value"]) for row in ordered])
    gaps = np.diff(values)
    if not gaps.max() > PAGE.value_gap * (values[-1] - values[0]):
        return [rows]
    cut = int(np.argmax(gaps)) + 1
    return [*_without_gaps(ordered[:cut], firsts), *_without_gaps(ordered[cut:], firsts)]


def _side(first: JSON) -> tuple[Any, ...]:
    """The name of a reason's column, with its label, or for a number whether it is above or below the expected one."""
    name, value, expected = first["name"], first["value"], first["expected"]
    if first["kind"] == "class" or value is None or expected is None:
        return name, value
    return name, "above" if value > expected else "below", first["kind"]


def ranges_of(rows: list[int]) -> list[list[int]]:
    """Row numbers as ranges: 4, 5, 6, 9 become [4, 6], [9, 9]."""
    ordered = sorted(rows)
    cuts = [0, *(place + 1 for place, (one, next_) in enumerate(pairwise(ordered)) if next_ > one + 1), len(ordered)]
    return [[ordered[start], ordered[stop - 1]] for start, stop in pairwise(cuts)]


def _card(rows: list[Outlier], reasons: dict[int, list[JSON]], places: dict[int, int]) -> JSON:
    """The card of a group: a single row with all its reasons, or several with the first and its range of values."""
    worst = max(rows, key=lambda row: row.error)
    named = [dict(reason) for reason in reasons[worst.row]]
    if len(rows) > 1 and named:
        firsts = [reasons[row.row][0] for row in rows]
        named = named[:1]
        for part in ("value", "expected"):
            values = [first[part] for first in firsts if first[part] is not None]
            if values and named[0]["kind"] != "class":
                named[0][part], named[0][f"{part}_to"] = min(values), max(values)
        named[0]["share"] = cell(float(np.mean([first["share"] for first in firsts])))
    ranges = ranges_of([row.row for row in rows])
    return {
        "row": worst.row,
        "n_rows": len(rows),
        "ranges": ranges[: PAGE.max_ranges],
        "n_more": sum(stop - start + 1 for start, stop in ranges[PAGE.max_ranges :]),
        "shown": [places[row.row] for row in rows if row.row in places],
        "error": cell(worst.error),
        "times": cell(worst.times),
        "explained": len(worst.shares) > 0,
        "columns": named,
    }


def _pictures(data: PageData, worst: np.ndarray, places: dict[int, int]) -> list[JSON]:
    """Cards for rows as pictures, each with the expected row as a second picture."""
    view, (low, high) = data.view, data.gray_range
    expected = view.preimages(view.scores[worst])
    found = []
    for place, row in enumerate(worst):
        both = [view.encoded_rows(worst[[place]])[0]] + ([] if expected is None else [expected[place]])
        pictures = packed_pictures(np.array(both), data.pictures or (1, 1), low, high)
        shown = [places[int(row)]] if int(row) in places else []
        found.append(
            {"row": int(row), "n_rows": 1, "shown": shown, "error": cell(view.errors[row]), "pictures": pictures}
        )
    return found


def _advice(data: PageData, blamed: Counter[str]) -> JSON | None:
    """The heavy-tailed columns that make many rows odd, for which a robust scale would help; None without any."""
    steps = [] if data.view.front is None else [step for _, step in data.view.front.steps]
    standard = [step for step in steps if getattr(step, "scale", "") == "standard"]
    heavy = {str(name) for step in standard for name in getattr(step, "heavy_tails_", [])}
    named = [name for name in sorted(heavy) if blamed[name] >= max(1, PAGE.blamed * blamed.total())]
    return {"columns": named, "n_rows": sum(blamed[name] for name in named)} if named else None


class _Reasons:
    """Finds the columns that make rows odd."""

    def __init__(self, data: PageData) -> None:
        self.view, self.reader = data.view, data.reader
        self._sample = self.view.some_rows(PAGE.common_rows)
        self._known: dict[int, np.ndarray] = {}

    def of(self, rows: list[Outlier]) -> dict[int, list[JSON]]:
        """The reasons of each row, by its number: columns with value, expected value, and share in the difference."""
        return {row.row: self._row(row) for row in rows}

    def _row(self, row: Outlier) -> list[JSON]:
        at, reader = np.array([row.row]), self.reader
        found: list[JSON] = []
        for column in np.argsort(-row.shares, kind="stable"):
            if len(found) == PAGE.max_reasons or row.shares[column] < (PAGE.min_reason if found else 0.0):
                break
            raw = self._values(column, at)[0]
            value, expected = cell(raw), cell(row.expected[column])
            if isinstance(value, str):  # x' may have the same label as x, or both one of the rare labels
                decoded = reader.decoders[column](self.view.encoded_rows(at)[:, reader.groups[column]])[0]
                value = value if cell(decoded) != expected else expected
            if value != expected and not self._is_common(column, raw):
                about = {"name": reader.names[column], "kind": reader.kinds[column], "share": cell(row.shares[column])}
                found.append({**about, "value": value, "expected": expected})
        return found

    def _values(self, column: int, rows: np.ndarray) -> np.ndarray:
        if self.reader.raw:
            return np.asarray(self.view.frame.column(column, rows).values)
        return self.view.encoded_rows(rows)[:, column]

    def _is_common(self, column: int, value: object) -> bool:
        """Whether most rows have this value in this column."""
        if column not in self._known:
            self._known[column] = self._values(column, self._sample)
        return bool(np.mean(self._known[column] == value) > PAGE.common_share)
