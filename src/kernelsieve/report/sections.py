"""Sections of the page below the map: what components mean, what is odd, the points, what was done to the columns."""

from __future__ import annotations

import numpy as np

from . import meaning, odd, points
from .material import MAX_COLUMNS, Material
from .packing import JSON, cell, cells, packed_pictures

MAX_LISTED = 12  # columns in the explanation of a component
MAX_REASONS, MIN_REASON = 4, 0.03  # columns that make a row odd: how many are named, and the least share of one
MAX_NAMED = 20  # columns that are left out, by name
N_RETURNS = 10  # pictures shown with what their scores give back


def meaning_section(material: Material) -> JSON:
    """Sensitivity and walks, as tables or as pictures."""
    reader, found = material.reader, meaning.walks(material.subject, material.reader)
    sensitivity = material.sensitivity
    shown: JSON = {"sensitivity": None, "walks": []}
    if material.pictures is not None:
        return {**shown, **_in_pictures(material, found)}
    if sensitivity is not None:
        loudest = np.argsort(-sensitivity.max(axis=0), kind="stable")[:MAX_COLUMNS]
        heard = [int(place) for place in loudest if sensitivity[:, place].max() > 0]
        shown["sensitivity"] = {
            "columns": [reader.names[place] for place in heard],
            "values": [cells(line[heard]) for line in sensitivity],
        }
    for walk in found:
        order = np.argsort(-walk.moved, kind="stable")[:MAX_LISTED]
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


def _in_pictures(material: Material, found: list[meaning.Walk]) -> JSON:
    shape = material.pictures
    assert shape is not None
    low, high = material.gray_range
    shown: JSON = {
        "walks": [
            {"positions": cells(walk.positions), "pictures": packed_pictures(walk.rows, shape, low, high)}
            for walk in found
        ]
    }
    shown["returns"] = _returns(material)
    if material.sensitivity is not None:
        largest = np.maximum(material.sensitivity.max(axis=1, keepdims=True), 1e-300)
        shown["listening"] = packed_pictures(material.sensitivity / largest, shape, 0.0, 1.0)
    return shown


def _returns(material: Material) -> JSON | None:
    """A few rows, one of each class where classes are known, and after each what its scores give back."""
    subject = material.subject
    rows = subject.some_rows(N_RETURNS)
    classes = [column for column in material.beside if column.kind == "class" and len(column.levels) <= N_RETURNS]
    if classes:
        rows = np.array([np.flatnonzero(classes[0].values == level)[0] for level in classes[0].levels])
    back = subject.preimages(subject.scores[rows])
    if back is None or material.pictures is None:
        return None
    both = np.stack([subject.encoded_rows(rows), back], axis=1).reshape(-1, back.shape[1])
    return packed_pictures(both, material.pictures, *material.gray_range)


def odd_section(material: Material, worst: np.ndarray, shown: np.ndarray) -> list[JSON]:
    """The worst rows with the columns that make them so; `shown` are the rows on the map."""
    subject, reader = material.subject, material.reader
    explained = odd.explain_odd(subject, reader, worst)
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
        if material.pictures is None:
            line["columns"] = _reasons(material, row)
        found.append(line)
    if material.pictures is not None:
        low, high = material.gray_range
        expected = subject.preimages(subject.scores[worst])
        for place, line in enumerate(found):
            both = [subject.encoded_rows(worst[[place]])[0]] + ([] if expected is None else [expected[place]])
            line["pictures"] = packed_pictures(np.array(both), material.pictures, low, high)
    return found


def _reasons(material: Material, row: odd.OddRow) -> list[JSON]:
    """The columns that make a row odd: what stands there, what was expected, and the share in the difference."""
    subject, reader = material.subject, material.reader
    at = np.array([row.row])
    found: list[JSON] = []
    for column in np.argsort(-row.shares, kind="stable")[:MAX_REASONS]:
        values = subject.frame.column(column, at).values if reader.raw else subject.encoded_rows(at)[:, column]
        value, expected = cell(values[0]), cell(row.expected[column])
        if (row.shares[column] >= MIN_REASON or not found) and value != expected:  # a class can have the same label
            about = {"name": reader.names[column], "kind": reader.kinds[column], "share": cell(row.shares[column])}
            found.append({**about, "value": value, "expected": expected})
    return found


def points_section(material: Material) -> JSON:
    """The support points, as rows of the table or as pictures."""
    found = points.support_points(material.subject, material.reader)
    shown: JSON = {
        "n_all": found.n_all,
        "shares": cells(found.shares),
        "rows": None if found.rows is None else [int(row) for row in found.rows],
    }
    if material.pictures is not None:
        return {**shown, "pictures": packed_pictures(found.encoded, material.pictures, *material.gray_range)}
    used = [place for place, group in enumerate(material.reader.groups) if len(group)]
    if material.sensitivity is not None and len(used) > MAX_COLUMNS:
        weight = material.sensitivity.max(axis=0)
        used = sorted(sorted(used, key=lambda place: -weight[place])[:MAX_COLUMNS])
    return {
        **shown,
        "columns": [{"name": material.reader.names[place], "kind": material.reader.kinds[place]} for place in used],
        "values": [cells(found.values[place]) for place in used],
    }


def handling_section(material: Material) -> list[tuple[str, str]]:
    """What was done to the columns before the model saw them, in words."""
    subject, reader = material.subject, material.reader
    if subject.front is None:
        return [("columns", "as they are: the model was fitted to these numbers directly")]
    told: list[tuple[str, str]] = []
    for name, step in subject.front.steps:
        if hasattr(step, "describe"):
            told += [(str(heading), str(text)) for heading, text in step.describe()]
        else:
            told.append((name, repr(step)))
    unused = [name for name, used in zip(reader.names, reader.used(), strict=True) if not used]
    if reader.raw and unused and not any(heading == "left out" for heading, _ in told):
        rest = f" and {len(unused) - MAX_NAMED} more" if len(unused) > MAX_NAMED else ""
        told.append(("left out", ", ".join(unused[:MAX_NAMED]) + rest))
    return told
