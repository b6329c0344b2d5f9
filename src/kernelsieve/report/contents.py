"""Everything that a page shows, computed and packed: one dictionary, section by section.

rows        scores, columns and errors of the rows that are shown
amount      scree, captured share, widths
meaning     sensitivity, walks along components
odd         the worst reconstructed rows
points      the support points
handling    what was scaled, encoded, left out; facts of the fit; code
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import amount, meaning, odd, recipe
from .frames import Column, Frame, as_column
from .material import FEW_ROWS, MAX_SIDE_COMPONENTS, Material, Options, few_beside, shown_columns, shown_rows
from .packing import JSON, cell, cells, packed, packed_column, packed_pictures, packed_scores
from .reading import reader_of
from .sections import handling_section, meaning_section, odd_section, points_section
from .subject import Subject
from .widths import Width, widths

PICTURE_BYTES = 700_000  # that pictures of rows may take in the page


def contents_of(model: Any, X: Any, beside: Any, options: Options, seed: int) -> JSON:
    """The whole page as data."""
    subject = Subject.of(model, X, seed)
    reader = reader_of(subject)
    _check_image_shape(options.image_shape, subject)
    further = few_beside(beside_columns(beside, subject.n_rows), subject.some_rows(FEW_ROWS))
    material = Material(subject, reader, meaning.sensitivity(subject, reader), further, options)
    worst = odd.odd_rows(subject)
    columns = shown_columns(material)
    shown = shown_rows(material, columns, worst)
    return {
        **_heading(material, len(shown)),
        **_rows(material, columns, shown),
        **_amount(material, shown),
        **meaning_section(material),
        "odd": odd_section(material, worst, shown),
        "points": points_section(material),
        "handling": handling_section(material),
        "facts": recipe.facts(subject, options.fit_seconds),
        "code": options.code or recipe.code(subject, options.source),
        "tables": list(options.tables),
    }


def _check_image_shape(shape: tuple[int, int] | None, subject: Subject) -> None:
    if shape is None:
        return
    if shape[0] * shape[1] != subject.encoded.shape[1]:
        raise ValueError(f"image_shape={tuple(shape)} does not fit rows of {subject.encoded.shape[1]} columns")


def beside_columns(beside: Any, n_rows: int) -> list[Column]:
    """Columns that are not the model's, to colour and to compare by: one array, a mapping of names, or a frame."""
    if beside is None:
        return []
    if isinstance(beside, Mapping):
        found = [as_column(str(name), _listed(values)) for name, values in beside.items()]
    elif (hasattr(beside, "shape") and len(beside.shape) == 2) or type(beside).__name__ == "LazyFrame":
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
    if array.ndim == 0:
        raise TypeError(f"beside must hold one value for each row of X, not a {type(values).__name__}")
    return array if array.ndim == 1 else array.reshape(len(array), -1)[:, 0]


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
        low, high = material.gray_range
        every = np.linspace(0, len(shown) - 1, count).astype(int)
        rows = subject.encoded_rows(shown[every])
        found["pictures"] = {**packed_pictures(rows, material.pictures, low, high), "rows": packed(every, "i4")}
    return found


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
