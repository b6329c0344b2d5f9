"""Outliers: the rows that the model reconstructs worst, and the columns that make them so.

The scores z of a row x stand for a row x' that the model would have expected, the pre-image of z.  The squared
distance between the two is a sum over columns, of which each column has its share:

    |x - x'|^2 = sum_j sum_{e in group j} (x_e - x'_e)^2

Shares are those of scaled and encoded values, as the kernel sees them; values are shown as the table has them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .model_view import ColumnReader, ModelView
from .page_data import JSON, PageData, cell, packed_pictures

N_OUTLIERS = 12
MAX_REASONS, MIN_REASON = 4, 0.03  # columns named for a row, and the least share that one of them has


@dataclass(frozen=True)
class Outlier:
    """A row that the model reconstructs badly."""

    row: int
    error: float
    times: float  # the median error
    shares: np.ndarray  # (n_columns,) of its distance to what was expected; empty without a pre-image
    expected: list[object]  # for each column; empty without a pre-image


def worst_rows(view: ModelView) -> np.ndarray:
    """Numbers of the rows with the largest reconstruction error, the worst first."""
    count = min(N_OUTLIERS, view.n_rows)
    largest = np.argpartition(-view.errors, count - 1)[:count]
    return largest[np.argsort(-view.errors[largest], kind="stable")]


def explained_rows(view: ModelView, reader: ColumnReader, rows: np.ndarray) -> list[Outlier]:
    """What was expected in place of each of these rows, and the share of each column in the difference."""
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


def outlier_section(data: PageData, worst: np.ndarray, shown: np.ndarray) -> list[JSON]:
    """The worst rows with the columns that make them so; `shown` are the rows on the map."""
    view, reader = data.view, data.reader
    explained = explained_rows(view, reader, worst)
    found = []
    for row in explained:
        line: JSON = {
            "row": row.row,
            "shown": int(np.searchsorted(shown, row.row)) if row.row in shown else None,
            "error": cell(row.error),
            "times": cell(row.times),
            "explained": len(row.shares) > 0,
            "columns": [],
        }
        if data.pictures is None:
            line["columns"] = _reasons(data, row)
        found.append(line)
    if data.pictures is not None:
        low, high = data.gray_range
        expected = view.preimages(view.scores[worst])
        for place, line in enumerate(found):
            both = [view.encoded_rows(worst[[place]])[0]] + ([] if expected is None else [expected[place]])
            line["pictures"] = packed_pictures(np.array(both), data.pictures, low, high)
    return found


def _reasons(data: PageData, row: Outlier) -> list[JSON]:
    """The columns that make a row an outlier: value, expected value, and share in the difference."""
    view, reader = data.view, data.reader
    at = np.array([row.row])
    found: list[JSON] = []
    for column in np.argsort(-row.shares, kind="stable")[:MAX_REASONS]:
        values = view.frame.column(column, at).values if reader.raw else view.encoded_rows(at)[:, column]
        value, expected = cell(values[0]), cell(row.expected[column])
        if (row.shares[column] >= MIN_REASON or not found) and value != expected:  # a class can have the same label
            about = {"name": reader.names[column], "kind": reader.kinds[column], "share": cell(row.shares[column])}
            found.append({**about, "value": value, "expected": expected})
    return found
