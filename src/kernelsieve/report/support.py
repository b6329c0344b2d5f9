"""The support points, which are all that the model keeps of the data, as rows that people can read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .limits import PAGE
from .model_view import ColumnReader, ModelView
from .page_data import JSON, PageData, cells, packed_pictures


@dataclass(frozen=True)
class SupportPoints:
    """Support points, those that stand for most rows first."""

    encoded: np.ndarray  # (n_points, n_encoded)
    values: list[np.ndarray]  # for each column, as people read it
    shares: np.ndarray  # (n_points,) of the rows to which this point is the nearest
    rows: np.ndarray | None  # the row numbers they are, None for points that were moved
    n_all: int


def support_points(view: ModelView, reader: ColumnReader) -> SupportPoints:
    """The points, in the raw columns' own units."""
    model = view.model
    points = view.points
    # |x - s|^2 is smallest where x's - |s|^2 / 2 is largest
    nearest = np.argmax(view.sample @ points.T - (points**2).sum(axis=1) / 2, axis=1)
    shares = np.bincount(nearest, minlength=len(points)) / len(nearest)
    order = np.argsort(-shares, kind="stable")[: PAGE.max_shown_points]
    rows = getattr(model, "support_", None)
    # the numbers are of training rows: they say something only where those are the rows at hand
    known = rows is not None and view.n_rows == getattr(model, "n_samples_seen_", -1)
    places = np.asarray(rows)[order] if known else None
    return SupportPoints(points[order], reader.read(points[order]), shares[order], places, len(points))


def support_section(data: PageData) -> JSON:
    """The support points, as rows of the table or as pictures."""
    found = support_points(data.view, data.reader)
    shown: JSON = {
        "n_all": found.n_all,
        "shares": cells(found.shares),
        "rows": None if found.rows is None else [int(row) for row in found.rows],
    }
    if data.pictures is not None:
        return {**shown, "pictures": packed_pictures(found.encoded, data.pictures, *data.gray_range)}
    used = [place for place, group in enumerate(data.reader.groups) if len(group)]
    if data.sensitivity is not None and len(used) > PAGE.max_columns:
        weight = data.sensitivity.max(axis=0)
        used = sorted(sorted(used, key=lambda place: -weight[place])[: PAGE.max_columns])
    return {
        **shown,
        "columns": [{"name": data.reader.names[place], "kind": data.reader.kinds[place]} for place in used],
        "values": [cells(found.values[place]) for place in used],
    }
