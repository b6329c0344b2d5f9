"""Why a row is odd, in words: what a column holds, and what it usually holds in normal rows.

A column is a cause by its share of SPE.  A value outside the middle 90 % of normal rows is reported with that range, a
text with the one that most rows have, if there is one; a value that is usual by itself is reported as such, because
then the combination is odd.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..rows.frames import BOOLEAN, DATE, TEXT, Block

N_TOP = 3  # columns that are named
LEAST_SHARE = 0.05  # columns with a smaller share of SPE are not causes, except for the first
USUAL = (0.05, 0.95)  # quantiles between which a number is usual
LOOKED_AT = 50_000  # normal rows, evenly spread, on which the usual values are measured

Words = Callable[[int, int], str]  # (row, column) -> what the column holds there, and what it usually holds


@dataclass(frozen=True)
class UsualValues:
    """The usual values of the columns in normal rows; NaN, or an empty text, if a column has no such value."""

    low: np.ndarray  # (d,) the middle 90 % of numbers
    high: np.ndarray  # (d,)
    lowest: np.ndarray  # (d,)
    highest: np.ndarray  # (d,)
    missing: np.ndarray  # (d,) share of rows without a value
    kinds: np.ndarray  # (d,) of columns, as a block has them
    labels: np.ndarray  # (d,) the text that more than half of the rows have

    _file_sizes = ("d",)
    _file_layout = {
        "low": "float[d]~",
        "high": "float[d]~",
        "lowest": "float[d]~",
        "highest": "float[d]~",
        "missing": "float[d]",
        "kinds": "strings[d]",
        "labels": "strings[d]",
    }

    @classmethod
    def of(cls, block: Block) -> UsualValues:
        """The usual values of a table's columns."""
        width = len(block.names)
        low, high, lowest, highest = np.full((4, width), np.nan)
        missing, labels = np.zeros(width), np.full(width, "", dtype=object)
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
        return cls(low, high, lowest, highest, missing, np.array(block.kinds, dtype=object), labels)

    def words(self, block: Block) -> Words:
        """These rows' values in words."""
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
                return f"{name} is missing, as in {self.missing[j]:.0%} of normal rows".replace("%", " %")
            if kind == TEXT:
                text = value if isinstance(value, str) else f"{value:g}"
                if not self.labels[j]:
                    return f"{name} is {text}"
                usual = "which is usual by itself" if text == self.labels[j] else f"usually {self.labels[j]}"
                return f"{name} is {text}, {usual}"
            if isinstance(value, str):
                return f"{name} is {value}"
            return f"{name} is {shown(value, kind)}, {self._usual_number(j, value, kind)}"

        return said

    def _usual_number(self, j: int, value: float, kind: str) -> str:
        low, high = self.low[j], self.high[j]
        if not np.isfinite(low) or low <= value <= high:
            return "which is usual by itself"
        if low == high:
            return f"usually {shown(low, kind)}"
        return f"usually {shown(low, kind)} to {shown(high, kind)}"


def shown(value: float, kind: str = "number") -> str:
    """A number for display: four digits, all digits of a whole number, a date as such."""
    if kind == BOOLEAN:
        return str(bool(value)).lower()
    if kind == DATE:
        stamp = np.datetime64(round(value * 86_400), "s").item()
        return f"{stamp:%Y-%m-%d %H:%M}".removesuffix(" 00:00")
    if abs(value) < 1e9 and value == round(value):
        return str(round(value)) if abs(value) < 10_000 else f"{value:,.0f}"
    return f"{value:.4g}"


def causes_of(parts: np.ndarray) -> list[tuple[int, float]]:
    """The columns that a row's SPE comes from, the largest first, with their shares of it."""
    total = float(parts.sum())
    if not total > 0:
        return []
    order = np.argsort(-parts, kind="stable")[:N_TOP]
    found = [(int(j), float(parts[j] / total)) for j in order]
    return found[:1] + [(j, share) for j, share in found[1:] if share >= LEAST_SHARE]


def percent(share: float) -> str:
    """62 %."""
    return f"{share:.0%}".replace("%", " %")
