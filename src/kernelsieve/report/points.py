"""The support points as rows that people can read: the whole of what the model keeps of the data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .reading import Reader
from .subject import Subject

MAX_POINTS = 100  # shown; the model may keep more


@dataclass(frozen=True)
class Points:
    """Support points, those that stand for most rows first."""

    encoded: np.ndarray  # (n_points, n_encoded)
    values: list[np.ndarray]  # for each column, as people read it
    shares: np.ndarray  # (n_points,) of the rows to which this point is the nearest
    rows: np.ndarray | None  # the row numbers they are, None for points that were moved
    n_all: int


def support_points(subject: Subject, reader: Reader) -> Points:
    """The points, in the raw columns' own units."""
    model = subject.model
    points = subject.points
    # |x - s|^2 is smallest where x's - |s|^2 / 2 is largest
    nearest = np.argmax(subject.sample @ points.T - (points**2).sum(axis=1) / 2, axis=1)
    shares = np.bincount(nearest, minlength=len(points)) / len(nearest)
    order = np.argsort(-shares, kind="stable")[:MAX_POINTS]
    rows = getattr(model, "support_", None)
    # the numbers are of training rows: they say something only where those are the rows at hand
    known = rows is not None and subject.n_rows == getattr(model, "n_samples_seen_", -1)
    places = np.asarray(rows)[order] if known else None
    return Points(points[order], reader.read(points[order]), shares[order], places, len(points))
