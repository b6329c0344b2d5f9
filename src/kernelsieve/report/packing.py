"""Arrays and texts in the form a page can hold: little, exact enough for what is drawn, and safe inside a script.

scores    two bytes each, between the smallest and the largest
numbers   whole ones as integers, others in single precision
classes   a number a row, and the list of what the numbers stand for
pictures  one byte a pixel
"""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np

from .frames import Column

MAX_LEVELS = 1000  # more different texts than this are not classes
MAX_TEXT = 40  # characters of one text
STEPS = 2**16 - 2  # that a score can take between its smallest and its largest

JSON = dict[str, Any]


def packed(values: np.ndarray, kind: str) -> JSON:
    """An array of numbers as base64, with the name of the type it has in JavaScript's terms."""
    array = np.ascontiguousarray(values, dtype=np.dtype(kind).newbyteorder("<"))
    return {"type": kind, "data": base64.b64encode(array.tobytes()).decode("ascii")}


def packed_scores(scores: np.ndarray) -> JSON:
    """One component's scores, to 1/65534 of their range."""
    low, high = (float(scores.min()), float(scores.max())) if len(scores) else (0.0, 0.0)
    steps = np.zeros(len(scores)) if high <= low else (scores - low) / (high - low) * STEPS
    return {**packed(np.round(steps), "u2"), "low": low, "high": high, "steps": STEPS}


def packed_column(column: Column, used: bool) -> JSON:
    """One column of the rows that are shown."""
    about = {"name": column.name, "kind": column.kind, "used": used, "missing": int(column.missing.sum())}
    if column.kind == "class":
        levels = column.levels
        if len(levels) > MAX_LEVELS or is_text(column):
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
    """Whether, by a few of its rows, a column holds texts, most of them different, and no classes."""
    return column.kind == "class" and len(column.levels) > len(column.values) / 2 > 10


def column_bytes(column: Column) -> float:
    """About what one row of a column takes in the page."""
    if column.kind == "class":
        lengths = [len(shortened(level).encode()) for level in column.levels] if is_text(column) else []
        return 4 + sum(lengths) / len(lengths) if lengths else 2.7
    return 10.7 if column.kind == "date" else 5.4


def packed_pictures(rows: np.ndarray, shape: tuple[int, int], low: float, high: float) -> JSON:
    """Rows as pictures between black and white."""
    span = high - low if high > low else 1.0
    gray = np.clip(np.round((rows - low) / span * 255), 0, 255)
    return {**packed(gray, "u1"), "height": shape[0], "width": shape[1], "count": len(rows)}


def shortened(text: str) -> str:
    """A text that fits a cell of a table."""
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def cell(value: Any) -> Any:
    """A value of a small table: a float of six digits, a short text, None where it is missing."""
    if value is None:
        return None
    if isinstance(value, str):
        return shortened(value)
    number = float(value)
    return float(f"{number:.6g}") if math.isfinite(number) else None


def cells(values: Any) -> list[Any]:
    """Many of them."""
    return [cell(value) for value in values]


def as_script(contents: JSON) -> str:
    """JSON that can stand inside a script element: no text in it can end the element."""
    text = json.dumps(contents, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
