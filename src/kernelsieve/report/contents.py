"""Everything that a page shows, computed and packed: one dictionary, section by section.

    rows        scores, columns and errors of the rows that are shown
    amount      scree, captured share, widths
    meaning     sensitivity, walks along components
    odd         the worst reconstructed rows
    points      the support points
    handling    what was scaled, encoded, left out; facts of the fit; code
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import amount, meaning, odd, points, recipe
from .frames import Column, Frame, as_column
from .packing import JSON, cell, cells, column_bytes, is_text, packed, packed_column, packed_pictures, packed_scores
from .reading import Reader, reader_of
from .subject import Subject
from .widths import Width, widths

MAX_COLUMNS = 60  # of the table that are put into the page
MAX_SIDE_COMPONENTS = 10  # that the other widths bring
MAX_TEXTS = 6  # of them that hold texts
FEW_ROWS = 200  # that tell what a column is like
MAX_LISTED = 12  # columns in the explanation of a component
MAX_REASONS, MIN_REASON = 4, 0.03  # columns that make a row odd: how many are named, and the least share of one
ROW_BYTES = 3_200_000  # that rows and columns may take in the page, of 5 MB with the chart library
PICTURE_BYTES = 700_000
N_RETURNS = 10  # pictures shown with what their scores give back


@dataclass(frozen=True)
class Options:
    """What the caller chose."""

    title: str | None = None
    max_rows: int = 5000
    image_shape: tuple[int, int] | None = None
    source: str | None = None
    fit_seconds: float | None = None
    lead: str | None = None  # a paragraph below the title
    tables: tuple[JSON, ...] = ()  # further tables: title, head, rows, note
    curves: Mapping[str, JSON] | None = None  # captured share against points, by name, instead of the model's own
    code: str | None = None  # instead of the code that makes the model


@dataclass(frozen=True)
class Material:
    """What the sections are made from."""

    subject: Subject
    reader: Reader
    sensitivity: np.ndarray | None  # (M, n_columns)
    beside: list[Column]  # further columns of all rows
    options: Options

    @property
    def pictures(self) -> tuple[int, int] | None:
        return self.options.image_shape


def contents_of(model: Any, X: Any, beside: Any, options: Options, seed: int) -> JSON:
    """The whole page as data."""
    subject = Subject.of(model, X, seed)
    reader = reader_of(subject)
    _check_image_shape(options.image_shape, subject)
    further = beside_columns(beside, subject.n_rows)
    material = Material(subject, reader, meaning.sensitivity(subject, reader), further, options)
    worst = odd.odd_rows(subject)
    columns = _shown_columns(material)
    shown = _shown_rows(material, columns, worst)
    return {
        **_heading(material, len(shown)),
        **_rows(material, columns, shown),
        **_amount(material, shown),
        **_meaning(material),
        "odd": _odd(material, worst, shown),
        "points": _points(material),
        "handling": _handling(material),
        "facts": recipe.facts(subject, options.fit_seconds),
        "code": options.code or recipe.code(subject, options.source),
        "tables": list(options.tables),
    }


def _check_image_shape(shape: tuple[int, int] | None, subject: Subject) -> None:
    if shape is None:
        return
    if len(shape) != 2 or shape[0] * shape[1] != subject.encoded.shape[1]:
        raise ValueError(f"image_shape={tuple(shape)} does not fit rows of {subject.encoded.shape[1]} columns")


def beside_columns(beside: Any, n_rows: int) -> list[Column]:
    """Columns that are not the model's, to colour and to compare by: one array, a mapping of names, or a frame."""
    if beside is None:
        return []
    if isinstance(beside, Mapping):
        found = [as_column(str(name), _listed(values)) for name, values in beside.items()]
    elif hasattr(beside, "shape") and len(beside.shape) == 2 or type(beside).__name__ == "LazyFrame":
        frame = Frame(beside)
        found = [frame.column(place, np.arange(frame.n_rows)) for place in range(frame.n_columns)]
    else:
        found = [as_column(str(getattr(beside, "name", None) or "label"), _listed(beside))]
    for column in found:
        if len(column.values) != n_rows:
            raise ValueError(f"beside: {column.name!r} has {len(column.values)} values, X has {n_rows} rows")
    return found


def _listed(values: Any) -> np.ndarray:
    array = np.asarray(values)
    return array if array.ndim == 1 else array.reshape(len(array), -1)[:, 0]


def _shown_columns(material: Material) -> list[int]:
    """The columns of the table that go into the page: those that the components listen to first."""
    if material.pictures is not None:
        return []
    frame, reader = material.subject.frame, material.reader
    if frame.n_columns <= MAX_COLUMNS:
        return _without_many_texts(material, range(frame.n_columns))
    weight = np.var(material.subject.sample, axis=0) if material.sensitivity is None else material.sensitivity.max(axis=0)
    if not reader.raw or len(weight) != frame.n_columns:
        return _without_many_texts(material, range(MAX_COLUMNS))
    return _without_many_texts(material, sorted(np.argsort(-weight, kind="stable")[:MAX_COLUMNS].tolist()))


def _without_many_texts(material: Material, places: Iterable[int]) -> list[int]:
    """Columns of long texts, each row its own, are no more than a few: they take the room of ten others."""
    kept, n_texts = [], 0
    for place in places:
        column = material.subject.frame.column(place, material.subject.some_rows(FEW_ROWS))
        n_texts += is_text(column)
        if n_texts <= MAX_TEXTS or not is_text(column):
            kept.append(place)
    return kept


def _shown_rows(material: Material, columns: list[int], worst: np.ndarray) -> np.ndarray:
    """As many random rows as the page has room for, the odd ones among them."""
    subject = material.subject
    few = subject.some_rows(FEW_ROWS)
    a_row = sum(column_bytes(subject.frame.column(place, few)) for place in columns) + 2.7 * len(material.beside)
    a_row += 2.7 * (subject.n_components + 8 * min(subject.n_components, MAX_SIDE_COMPONENTS)) + 12
    count = max(1, min(material.options.max_rows, int(ROW_BYTES / a_row)))
    if count >= subject.n_rows:
        return np.arange(subject.n_rows)
    others = np.setdiff1d(subject.some_rows(count), worst)
    rng = np.random.default_rng(subject.seed)
    return np.union1d(rng.choice(others, max(0, count - len(worst)), replace=False), worst)


def _heading(material: Material, n_shown: int) -> JSON:
    subject, options = material.subject, material.options
    from .. import __version__

    model = subject.model
    captured = getattr(model, "captured_ratio_", None)
    return {
        "title": options.title or (options.source or "Kernel PCA report").rsplit("/", 1)[-1],
        "lead": options.lead,
        "version": __version__,
        "n_rows": subject.n_rows,
        "n_shown": n_shown,
        "n_columns": subject.frame.n_columns,
        "n_used": int(material.reader.used().sum()),
        "n_components": subject.n_components,
        "n_support": int(model.n_support_),
        "shares": cells(getattr(model, "explained_variance_ratio_", [])),
        "captured_ratio": None if captured is None else cell(captured),
        "kernel": subject.model.expansion_.kernel.name,
    }


def _rows(material: Material, columns: list[int], shown: np.ndarray) -> JSON:
    subject = material.subject
    used = material.reader.used() if material.reader.raw else np.ones(subject.frame.n_columns, dtype=bool)
    own = [packed_column(subject.frame.column(place, shown), bool(used[place])) for place in columns]
    further = [packed_column(Column(c.name, c.kind, c.values[shown]), False) for c in material.beside]
    found: JSON = {
        "columns": further + own,
        "n_columns_left_off": subject.frame.n_columns - len(columns) if material.pictures is None else 0,
        "rows": packed(shown, "i4"),
        "scores": [packed_scores(subject.scores[shown, place]) for place in range(subject.n_components)],
        "errors": packed(subject.errors[shown], "f4"),
    }
    if material.pictures is not None:
        count = max(1, min(len(shown), PICTURE_BYTES // subject.encoded.shape[1]))
        low, high = _gray_range(material)
        every = np.linspace(0, len(shown) - 1, count).astype(int)
        rows = subject.encoded_rows(shown[every])
        found["pictures"] = {**packed_pictures(rows, material.pictures, low, high), "rows": packed(every, "i4")}
    return found


def _gray_range(material: Material) -> tuple[float, float]:
    sample = material.subject.sample
    return float(sample.min()), float(sample.max())


def _amount(material: Material, shown: np.ndarray) -> JSON:
    subject = material.subject
    found = amount.scree(subject, material.reader)
    curve = amount.captured(subject)
    tried = widths(subject, shown)
    chosen = [place for place, width in enumerate(tried) if width.factor == 1.0]
    curves = [{"name": "this model", "sizes": curve.sizes, "shares": cells(curve.shares)}]
    if material.options.curves is not None:
        curves = [{"name": name, **values} for name, values in material.options.curves.items()]
    return {
        "scree": None if found is None else _scree(found),
        "captured": {"chosen": int(subject.model.n_support_), "curves": curves},
        "widths": {"chosen": chosen[0] if chosen else 0, "tried": [_width(width) for width in tried]},
    }


def _scree(found: amount.Scree) -> JSON:
    return {
        "shares": cells(found.shares),
        "low": cells(found.low),
        "high": cells(found.high),
        "n_rows": found.n_rows,
        "n_above": found.n_above,
    }


def _width(width: Width) -> JSON:
    kept = range(min(width.scores.shape[1], MAX_SIDE_COMPONENTS)) if width.factor != 1.0 else range(0)
    return {
        "factor": width.factor,
        "gamma": cell(width.gamma),
        "explained": cell(width.explained),
        "agreement": cell(width.agreement),
        "scores": [packed_scores(width.scores[:, place]) for place in kept],
    }


def _meaning(material: Material) -> JSON:
    reader, found = material.reader, meaning.walks(material.subject, material.reader)
    sensitivity = material.sensitivity
    shown: JSON = {"sensitivity": None, "walks": []}
    if material.pictures is not None:
        return {**shown, **_meaning_in_pictures(material, found)}
    if sensitivity is not None:
        order = np.argsort(-sensitivity.max(axis=0), kind="stable")[:MAX_COLUMNS]
        order = [int(place) for place in order if sensitivity[:, place].max() > 0]
        shown["sensitivity"] = {
            "columns": [reader.names[place] for place in order],
            "values": [cells(line[order]) for line in sensitivity],
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


def _meaning_in_pictures(material: Material, found: list[meaning.Walk]) -> JSON:
    shape = material.pictures
    assert shape is not None
    low, high = _gray_range(material)
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
    return packed_pictures(both, material.pictures, *_gray_range(material))


def _odd(material: Material, worst: np.ndarray, shown: np.ndarray) -> list[JSON]:
    subject, reader = material.subject, material.reader
    explained = odd.explain_odd(subject, reader, worst)
    found = []
    for place, row in enumerate(explained):
        line: JSON = {
            "row": row.row,
            "shown": int(np.searchsorted(shown, row.row)),
            "error": cell(row.error),
            "times": cell(row.times),
            "columns": [],
        }
        for column in np.argsort(-row.shares, kind="stable")[:MAX_REASONS] if material.pictures is None else []:
            if row.shares[column] >= MIN_REASON:
                at = worst[[place]]
                actual = subject.frame.column(column, at).values if reader.raw else subject.encoded_rows(at)[:, column]
                line["columns"].append(
                    {
                        "name": reader.names[column],
                        "kind": reader.kinds[column],
                        "value": cell(actual[0]),
                        "expected": cell(row.expected[column]),
                        "share": cell(row.shares[column]),
                    }
                )
        found.append(line)
    if material.pictures is not None:
        low, high = _gray_range(material)
        expected = subject.preimages(subject.scores[worst])
        for place, line in enumerate(found):
            both = [subject.encoded_rows(worst[[place]])[0]] + ([] if expected is None else [expected[place]])
            line["pictures"] = packed_pictures(np.array(both), material.pictures, low, high)
    return found


def _points(material: Material) -> JSON:
    found = points.support_points(material.subject, material.reader)
    shown: JSON = {
        "n_all": found.n_all,
        "shares": cells(found.shares),
        "rows": None if found.rows is None else [int(row) for row in found.rows],
    }
    if material.pictures is not None:
        return {**shown, "pictures": packed_pictures(found.encoded, material.pictures, *_gray_range(material))}
    used = [place for place, group in enumerate(material.reader.groups) if len(group)]
    if material.sensitivity is not None and len(used) > MAX_COLUMNS:
        weight = material.sensitivity.max(axis=0)
        used = sorted(sorted(used, key=lambda place: -weight[place])[:MAX_COLUMNS])
    return {
        **shown,
        "columns": [{"name": material.reader.names[place], "kind": material.reader.kinds[place]} for place in used],
        "values": [cells(found.values[place]) for place in used],
    }


def _handling(material: Material) -> list[tuple[str, str]]:
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
        told.append(("left out", ", ".join(unused[:20]) + (f" and {len(unused) - 20} more" if len(unused) > 20 else "")))
    return told
