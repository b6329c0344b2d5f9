"""The data of a page: the rows and columns that it has room for, packed in the form in which it holds them.

scores    two bytes each, as steps between the smallest and the largest
numbers   integers if all are whole, otherwise single precision (double for dates and extreme numbers)
classes   an integer for each row, and the list of labels that the integers stand for
pictures  one byte for each pixel
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..rows.frames import Column
from .limits import PAGE
from .model_view import ColumnReader, ModelView

JSON = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """The options of `report`."""

    title: str | None = None
    max_rows: int = 5000
    image_shape: tuple[int, int] | None = None
    source: str | None = None
    fit_seconds: float | None = None
    read_options: Mapping[str, Any] = field(default_factory=dict)  # keywords of `read_table` with which X was read
    model_file: str | None = None  # the file that the model was loaded from
    weights: str | None = None  # column of the source that holds the weights of the rows
    lead: str | None = None  # the paragraph below the title; None for the usual one
    tables: tuple[JSON, ...] = ()  # further tables: title, head, rows, note
    curves: Mapping[str, JSON] | None = None  # by name, curves of captured shares, instead of the model's own
    code: str | None = None  # replaces the code that makes the model
    show: Callable[[Any], str] | None = None  # turns an object into text


@dataclass(frozen=True)
class PageData:
    """The data that the sections of a page are computed from."""

    view: ModelView
    reader: ColumnReader
    sensitivity: np.ndarray | None  # (M, n_columns)
    beside: list[Column]  # further columns of all rows
    options: Options

    @property
    def pictures(self) -> tuple[int, int] | None:
        return self.options.image_shape

    @property
    def gray_range(self) -> tuple[float, float]:
        """The smallest and the largest value in pictures, which are the two ends of their gray scale."""
        sample = self.view.sample
        return float(sample.min()), float(sample.max())


def shown_columns(data: PageData) -> list[int]:
    """The columns of the table that the page shows; if there are many, those that the components depend on most."""
    if data.pictures is not None:
        return []
    frame, reader = data.view.frame, data.reader
    if frame.n_columns <= PAGE.max_columns:
        return _without_many_texts(data, range(frame.n_columns))
    weight = np.var(data.view.sample, axis=0) if data.sensitivity is None else data.sensitivity.max(axis=0)
    if not reader.raw or len(weight) != frame.n_columns:
        return _without_many_texts(data, range(PAGE.max_columns))
    return _without_many_texts(data, sorted(np.argsort(-weight, kind="stable")[: PAGE.max_columns].tolist()))


def _without_many_texts(data: PageData, places: Sequence[int]) -> list[int]:
    """These columns, but only the first `PAGE.max_text_columns` columns of text among them."""
    few = data.view.some_rows(PAGE.glance_rows)
    texts = [place for place in places if is_text(data.view.frame.column(place, few))]
    return [place for place in places if place not in texts[PAGE.max_text_columns :]]


def few_beside(columns: list[Column], few: np.ndarray) -> list[Column]:
    """The columns of `beside` that the page has room for; `few` are row numbers, by which columns are judged."""
    texts = [column.name for column in columns if is_text(Column(column.name, column.kind, column.values[few]))]
    return [column for column in columns if column.name not in texts[PAGE.max_text_columns :]][: PAGE.max_beside]


def shown_rows(data: PageData, columns: list[int], worst: np.ndarray) -> np.ndarray:
    """Numbers of the rows that the page shows: as many as it has room for, the worst ones and random others."""
    view = data.view
    few = view.some_rows(PAGE.glance_rows)
    a_row = sum(column_bytes(view.frame.column(place, few)) for place in columns) + sum(
        column_bytes(Column(column.name, column.kind, column.values[few])) for column in data.beside
    )
    a_row += 2.7 * (view.n_components + 8 * min(view.n_components, PAGE.max_side_components)) + 12
    count = max(1, min(data.options.max_rows, int(PAGE.row_bytes / a_row)))
    if count >= view.n_rows:
        return np.arange(view.n_rows)
    worst = worst[: max(1, count // 2)]
    others = np.setdiff1d(view.some_rows(count), worst)
    rng = np.random.default_rng(view.seed)
    return np.union1d(rng.choice(others, max(0, count - len(worst)), replace=False), worst)


def packed(values: np.ndarray, kind: str) -> JSON:
    """An array of numbers, encoded as base64, with its type."""
    array = np.ascontiguousarray(values, dtype=np.dtype(kind).newbyteorder("<"))
    return {"type": kind, "data": base64.b64encode(array.tobytes()).decode("ascii")}


def packed_scores(scores: np.ndarray) -> JSON:
    """The scores in one component, rounded to 1/65534 of their range."""
    low, high = (float(scores.min()), float(scores.max())) if len(scores) else (0.0, 0.0)
    steps = np.zeros(len(scores)) if high <= low else (scores - low) / (high - low) * PAGE.score_steps
    return {**packed(np.round(steps), "u2"), "low": low, "high": high, "steps": PAGE.score_steps}


def packed_column(column: Column, used: bool) -> JSON:
    """One column of the rows that are shown; `used` says whether the model uses it."""
    about = {"name": column.name, "kind": column.kind, "used": used, "missing": int(column.missing.sum())}
    if column.kind == "class":
        levels = column.levels
        if len(levels) > PAGE.max_levels or is_text(column):
            texts = [None if value is None else shortened(value) for value in column.values]
            return {**about, "kind": "text", "texts": texts}
        place = {level: number for number, level in enumerate(levels)}
        codes = np.array([-1 if value is None else place[value] for value in column.values])
        return {**about, "levels": [shortened(level) for level in levels], **packed(codes, "i2")}
    values = column.values
    finite = values[np.isfinite(values)]
    whole = column.kind == "number" and len(finite) == len(values) and bool(np.all(finite == np.round(finite)))
    largest = float(np.abs(finite).max(initial=0.0))
    if whole and largest < 2**31:
        return {**about, **packed(values, "i2" if largest < 2**15 else "i4"), "whole": True}
    exact = column.kind == "date" or largest > 3e38 or 0 < largest < 1e-37
    return {**about, **packed(values, "f8" if exact else "f4")}


def is_text(column: Column) -> bool:
    """Whether a column holds texts that mostly differ, rather than a few classes."""
    return column.kind == "class" and len(column.levels) > len(column.values) / 2 > 10


def column_bytes(column: Column) -> float:
    """The approximate number of bytes that one value of this column takes on the page."""
    if column.kind == "class":
        lengths = [len(shortened(level).encode()) for level in column.levels] if is_text(column) else []
        return 4 + sum(lengths) / len(lengths) if lengths else 2.7
    return 10.7 if column.kind == "date" else 5.4


def packed_pictures(rows: np.ndarray, shape: tuple[int, int], low: float, high: float) -> JSON:
    """Rows as gray pictures, with `low` and `high` as the ends of the gray scale."""
    span = high - low if high > low else 1.0
    gray = np.clip(np.round((rows - low) / span * 255), 0, 255)
    return {**packed(gray, "u1"), "height": shape[0], "width": shape[1], "count": len(rows)}


def shortened(text: str) -> str:
    """The text, cut off if it is too long for a cell of a table."""
    return text if len(text) <= PAGE.max_text else text[: PAGE.max_text - 1] + "…"


def cell(value: Any) -> Any:
    """A value of a small table: a float of six digits, a short text, or None if it is missing."""
    if value is None:
        return None
    if isinstance(value, str):
        return shortened(value)
    number = float(value)
    return float(f"{number:.6g}") if math.isfinite(number) else None


def cells(values: Any) -> list[Any]:
    """Values of a small table, as `cell` gives them."""
    return [cell(value) for value in values]


def as_script(contents: JSON) -> str:
    """JSON for a script element, escaped so that no text in it can end the element."""
    text = json.dumps(contents, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
