"""What is odd: the rows that the components reconstruct worst, and the columns that make them so.

A row x has scores z, and z stands for a row x' that the model would have expected (its pre-image).  The squared
distance between the two is a sum over columns, so that each column has its share in it:

    |x - x'|^2 = sum_j sum_{e in group j} (x_e - x'_e)^2

Shares are taken in the units the kernel sees, scaled and encoded; values are shown as the table has them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .reading import Reader
from .subject import Subject

N_ODD = 12


@dataclass(frozen=True)
class OddRow:
    """One row that does not fit."""

    row: int
    error: float
    times: float  # the median error
    shares: np.ndarray  # (n_columns,) of its distance to what was expected; empty without a pre-image
    expected: list[object]  # for each column; empty without a pre-image


def odd_rows(subject: Subject) -> np.ndarray:
    """Numbers of the rows with the largest reconstruction error, the worst first."""
    count = min(N_ODD, subject.n_rows)
    largest = np.argpartition(-subject.errors, count - 1)[:count]
    return largest[np.argsort(-subject.errors[largest], kind="stable")]


def explain_odd(subject: Subject, reader: Reader, rows: np.ndarray) -> list[OddRow]:
    """For each of these rows what was expected instead, and the share of each column in the difference."""
    median = float(np.median(subject.errors)) or 1.0
    expected = subject.preimages(subject.scores[rows])
    if expected is None or not np.isfinite(expected).all():
        return [
            OddRow(int(row), float(subject.errors[row]), subject.errors[row] / median, np.array([]), []) for row in rows
        ]
    squares = reader.by_column((subject.encoded_rows(rows) - expected) ** 2)
    shares = squares / np.maximum(squares.sum(axis=1, keepdims=True), 1e-300)
    read = reader.read(expected)
    return [
        OddRow(
            int(row),
            float(subject.errors[row]),
            float(subject.errors[row]) / median,
            shares[place],
            [values[place] for values in read],
        )
        for place, row in enumerate(rows)
    ]
