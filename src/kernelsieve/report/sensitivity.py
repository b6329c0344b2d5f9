"""What the components mean: how strongly each depends on the columns, and what changes along it.

sensitivity   root mean square gradient of a score, times the column's standard deviation; the encoded columns of one
              raw column are combined
walk          pre-images of several positions along one component, with all other scores at their mean, decoded to the
              units of the table
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .limits import PAGE
from .model_view import ColumnReader, ModelView, quietly
from .page_data import JSON, PageData, cell, cells, packed_pictures


def sensitivity(view: ModelView, reader: ColumnReader) -> np.ndarray | None:
    """How far a standard deviation of each column moves each score, (M, n_columns); None without gradients."""
    if view.of_objects:
        return None
    rows = view.encoded_rows(view.some_rows(PAGE.gradient_rows))
    try:
        with quietly():
            encoded = np.asarray(view.model.sensitivity(rows))
    except (TypeError, AttributeError):  # a callable kernel has no gradients
        return None
    return np.sqrt(reader.by_column(encoded**2))


@dataclass(frozen=True)
class Walk:
    """Pre-images of several positions along one component."""

    positions: np.ndarray  # (n_steps,) scores in that component
    rows: np.ndarray  # (n_steps, n_encoded) the pre-images, as encoded rows
    moved: np.ndarray  # (n_columns,) how far each column moves, in units of its standard deviation
    values: list[np.ndarray]  # for each column, its decoded values (n_steps,)


def walks(view: ModelView, reader: ColumnReader) -> list[Walk]:
    """A walk along each of the leading components; empty if the kernel has no pre-images."""
    if view.of_objects:
        return []
    spread = np.sqrt(reader.by_column(np.var(view.sample, axis=0)))
    found = []
    for component in range(min(view.n_components, PAGE.max_walks)):
        try:
            with quietly():
                along = view.model.traversal(component, n_steps=PAGE.walk_steps)
        except (ValueError, TypeError, AttributeError):
            return []
        if not np.isfinite(along.rows).all():
            return []
        ranges = np.sqrt(reader.by_column(np.ptp(along.rows, axis=0) ** 2))
        moved = np.divide(ranges, spread, out=np.zeros_like(ranges), where=spread > 0)
        found.append(Walk(along.scores, along.rows, moved, reader.read(along.rows)))
    return found


def sensitivity_section(data: PageData) -> JSON:
    """The section about the components: sensitivities and walks, as tables or as pictures."""
    reader, found, measured = data.reader, walks(data.view, data.reader), data.sensitivity
    shown: JSON = {"sensitivity": None, "walks": []}
    if data.pictures is not None:
        return {**shown, **_in_pictures(data, found)}
    if measured is not None:
        loudest = np.argsort(-measured.max(axis=0), kind="stable")[: PAGE.max_columns]
        heard = [int(place) for place in loudest if measured[:, place].max() > 0]
        shown["sensitivity"] = {
            "columns": [reader.names[place] for place in heard],
            "values": [cells(line[heard]) for line in measured],
        }
    for walk in found:
        order = np.argsort(-walk.moved, kind="stable")[: PAGE.max_listed]
        columns = [
            {
                "name": reader.names[place],
                "kind": reader.kinds[place],
                "moved": cell(walk.moved[place]),
                "values": cells(walk.values[place]),
            }
            for place in order
            if walk.moved[place] > 0
        ]
        shown["walks"].append({"positions": cells(walk.positions), "columns": columns})
    return shown


def _in_pictures(data: PageData, found: list[Walk]) -> JSON:
    shape = data.pictures
    assert shape is not None
    low, high = data.gray_range
    shown: JSON = {
        "walks": [
            {"positions": cells(walk.positions), "pictures": packed_pictures(walk.rows, shape, low, high)}
            for walk in found
        ]
    }
    shown["returns"] = _returns(data)
    if data.sensitivity is not None:
        largest = np.maximum(data.sensitivity.max(axis=1, keepdims=True), 1e-300)
        shown["listening"] = packed_pictures(data.sensitivity / largest, shape, 0.0, 1.0)
    return shown


def _returns(data: PageData) -> JSON | None:
    """Pictures of a few rows (one of each class if classes are known), each followed by its reconstruction."""
    view = data.view
    rows = view.some_rows(PAGE.n_returns)
    classes = [column for column in data.beside if column.kind == "class" and len(column.levels) <= PAGE.n_returns]
    if classes:
        rows = np.array([np.flatnonzero(classes[0].values == level)[0] for level in classes[0].levels])
    back = view.preimages(view.scores[rows])
    if back is None or data.pictures is None:
        return None
    both = np.stack([view.encoded_rows(rows), back], axis=1).reshape(-1, back.shape[1])
    return packed_pictures(both, data.pictures, *data.gray_range)
