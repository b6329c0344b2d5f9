"""Computes everything that a page shows, and collects it in one dictionary, section by section.

rows        scores, columns and errors of the rows that are shown
amount      scree, captured share, widths
meaning     sensitivity, and walks along the components
odd         the rows with the largest reconstruction errors
points      the support points
handling    what was scaled, encoded or left out; facts about the fit; code

A row that is an object is shown as a text, by default `str` of the object.  A kernel value of two objects may take a
millisecond.  So a page of objects computes only the m kernel values that every row needs for its score and its error;
sections that need the gram of a sample, or further fits, are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..rows.frames import Column, Frame, as_column
from ..rows.kinds import object_rows
from . import code
from .choices import Scree, Width, captured, scree, widths
from .limits import PAGE
from .model_view import ColumnReader, ModelView, reader_of, split
from .outliers import outlier_section, worst_rows
from .page_data import (
    JSON,
    Options,
    PageData,
    cell,
    cells,
    few_beside,
    packed,
    packed_column,
    packed_pictures,
    packed_scores,
    shortened,
    shown_columns,
    shown_rows,
)
from .sensitivity import sensitivity, sensitivity_section

COLUMN = "object"  # name of the only column, in a page of objects
ROWS_A_POINT = 10  # rows per point in the sample that shows how many rows are nearest to each point


@dataclass(frozen=True)
class ObjectView(ModelView):
    """A fitted model and the objects that the page shows as rows; `encoded` holds the objects, (n_rows, 1)."""

    @classmethod
    def showing(cls, model: Any, X: Any, seed: int, show: Callable[[Any], str] | None) -> ObjectView:
        """Check a model and its rows, and turn the rows into texts."""
        front, estimator = split(model)
        objects = object_rows(X if front is None else front.transform(X))
        return cls(front, estimator, Frame(texts_of(objects, show)[:, None], [COLUMN]), objects, seed)

    @property
    def lead(self) -> str | None:
        return (
            f"Kernel PCA of {self.n_rows:,} objects: the {self.n_components} directions in which they differ most, "
            f"from {self.model.n_support_:,} of them."
        )

    @property
    def kernel_settings(self) -> dict[str, float]:
        return {}

    def encoded_rows(self, places: np.ndarray) -> np.ndarray:
        return np.asarray(self.encoded[places])

    @property
    def points(self) -> np.ndarray:
        return np.asarray(self.model.expansion_.points)

    def nearest_points(self) -> np.ndarray:
        # |phi(x) - phi(s)|^2 is smallest for the point s with the largest 2 k(x, s) - k(s, s).
        kernel, rows = self.model.expansion_.kernel, self.encoded_rows(self.some_rows(ROWS_A_POINT * len(self.points)))
        return np.asarray(np.argmax(2 * kernel(rows, self.points) - kernel.diagonal(self.points), axis=1))


def texts_of(objects: np.ndarray, show: Callable[[Any], str] | None) -> np.ndarray:
    """Objects, (n, 1), as texts, (n,), short enough for a cell of a table."""
    write = str if show is None else show
    return np.array([shortened(str(write(one))) for one in objects[:, 0]], dtype=object)


def reader_of_objects(show: Callable[[Any], str] | None) -> ColumnReader:
    """The reader for rows that are objects."""
    return ColumnReader([COLUMN], ["class"], [np.array([0])], [lambda objects: texts_of(objects, show)])


@dataclass(frozen=True)
class SupportPoints:
    """Support points, ordered by the number of rows that they represent."""

    encoded: np.ndarray  # (n_points, n_encoded)
    values: list[np.ndarray]  # for each column of the table, its values in the units of the table
    shares: np.ndarray  # (n_points,) share of the rows to which the point is nearest
    rows: np.ndarray | None  # row numbers of the points; None if they were moved, or are not rows of the page
    n_all: int  # number of all support points


def support_points(view: ModelView, reader: ColumnReader) -> SupportPoints:
    """The support points that are shown, in the units of the table."""
    model = view.model
    points = view.points
    nearest = view.nearest_points()
    shares = np.bincount(nearest, minlength=len(points)) / len(nearest)
    order = np.argsort(-shares, kind="stable")[: PAGE.max_shown_points]
    rows = getattr(model, "support_", None)
    # Row numbers refer to the training rows, so they are shown only if these are the rows of the page.
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


def contents_of(model: Any, X: Any, beside: Any, options: Options, seed: int) -> JSON:
    """The contents of the whole page, as data."""
    if split(model)[1].expansion_.kernel.of_objects:
        view: ModelView = ObjectView.showing(model, X, seed, options.show)
        reader = reader_of_objects(options.show)
    else:
        view = ModelView.of(model, X, seed)
        reader = reader_of(view)
    _check_image_shape(options.image_shape, view)
    further = few_beside(beside_columns(beside, view.n_rows), view.some_rows(PAGE.glance_rows))
    data = PageData(view, reader, sensitivity(view, reader), further, options)
    worst = worst_rows(view)
    columns = shown_columns(data)
    shown = shown_rows(data, columns, worst)
    meaning, odd = sensitivity_section(data), outlier_section(data, worst, shown)
    return {
        **_heading(data, len(shown)),
        "summary": summary(meaning, odd, view.n_rows),
        **_rows(data, columns, shown),
        **_amount(data, shown),
        **meaning,
        "odd": odd,
        "points": support_section(data),
        "handling": handling_section(data),
        "facts": code.facts(view, options.fit_seconds),
        "code": options.code or code.code(view, options),
        "tables": list(options.tables),
    }


def summary(meaning: JSON, odd: JSON, n_rows: int) -> str:
    """One or two sentences: which columns change most along the first components, and how many rows are odd."""
    # Of each component, the columns that change at least half as much as the first.
    along = [
        [column["name"] for column in columns if column["moved"] >= columns[0]["moved"] / 2][: PAGE.max_movers]
        for columns in (walk.get("columns") for walk in meaning["walks"][:2])
        if columns
    ]
    found = []
    if along:
        further = [name for name in along[1] if name not in along[0]] if len(along) > 1 else []
        second = f", then in {joined(further)}" if further else ""
        found.append(f"The rows differ most in {joined(along[0])}{second}.")
    if odd["n_odd"]:
        whose = "them" if odd["n_odd"] <= odd["n_explained"] else f"the {odd['n_explained']:,} worst"
        why = f", {odd['most'][1]:,} of {whose} because of {odd['most'][0]}" if odd["most"] else ""
        are = "row is" if odd["n_odd"] == 1 else "rows are"
        found.append(f"{odd['n_odd']:,} of {n_rows:,} {are} odd{why}.")
    return " ".join(found)


def joined(names: list[str]) -> str:
    """Names joined for a sentence: "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _check_image_shape(shape: tuple[int, int] | None, view: ModelView) -> None:
    if shape is None:
        return
    if shape[0] * shape[1] != view.encoded.shape[1]:
        raise ValueError(f"image_shape={tuple(shape)} does not fit rows of {view.encoded.shape[1]} columns")


def beside_columns(beside: Any, n_rows: int) -> list[Column]:
    """The columns of `beside` (an array, a mapping or a frame), which the model does not use but the page shows."""
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


def _heading(data: PageData, n_shown: int) -> JSON:
    view, options = data.view, data.options
    from .. import __version__

    model = view.model
    captured = getattr(model, "captured_ratio_", None)
    return {
        "title": options.title or (options.source or "Kernel PCA report").rsplit("/", 1)[-1],
        "lead": options.lead or view.lead,
        "version": __version__,
        "n_rows": view.n_rows,
        "n_shown": n_shown,
        "n_columns": view.frame.n_columns,
        "n_used": int(data.reader.used().sum()),
        "n_components": view.n_components,
        "n_support": int(model.n_support_),
        "shares": cells(getattr(model, "explained_variance_ratio_", [])),
        "captured_ratio": None if captured is None else cell(captured),
        "kernel": view.model.expansion_.kernel.name,
    }


def _rows(data: PageData, columns: list[int], shown: np.ndarray) -> JSON:
    view = data.view
    used = data.reader.used() if data.reader.raw else np.ones(view.frame.n_columns, dtype=bool)
    own = [packed_column(view.frame.column(place, shown), bool(used[place])) for place in columns]
    further = [packed_column(Column(c.name, c.kind, c.values[shown]), False) for c in data.beside]
    found: JSON = {
        "columns": further + own,
        "n_columns_left_off": view.frame.n_columns - len(columns) if data.pictures is None else 0,
        "rows": packed(shown, "i4"),
        "scores": [packed_scores(view.scores[shown, place]) for place in range(view.n_components)],
        "errors": packed(view.errors[shown], "f4"),
    }
    if data.pictures is not None:
        count = max(1, min(len(shown), PAGE.picture_bytes // view.encoded.shape[1]))
        low, high = data.gray_range
        every = np.linspace(0, len(shown) - 1, count).astype(int)
        rows = view.encoded_rows(shown[every])
        found["pictures"] = {**packed_pictures(rows, data.pictures, low, high), "rows": packed(every, "i4")}
    return found


def _amount(data: PageData, shown: np.ndarray) -> JSON:
    view = data.view
    found = scree(view, data.reader)
    curve = captured(view)
    tried = widths(view, shown)
    chosen = [place for place, width in enumerate(tried) if width.factor == 1.0]
    curves = [{"name": "this model", "sizes": list(curve), "shares": cells(curve.values())}]
    if data.options.curves is not None:
        curves = [{"name": name, **values} for name, values in data.options.curves.items()]
    return {
        "scree": None if found is None else _scree(found),
        "captured": {"chosen": int(view.model.n_support_), "curves": curves},
        "widths": {"chosen": chosen[0] if chosen else 0, "tried": [_width(width) for width in tried]},
    }


def _scree(found: Scree) -> JSON:
    return {
        "shares": cells(found.shares),
        "low": cells(found.low),
        "high": cells(found.high),
        "n_rows": found.n_rows,
        "n_above": found.n_above,
    }


def _width(width: Width) -> JSON:
    kept = range(min(width.scores.shape[1], PAGE.max_side_components)) if width.factor != 1.0 else range(0)
    return {
        "factor": width.factor,
        "gamma": cell(width.gamma),
        "explained": cell(width.explained),
        "shares": cells(width.shares),
        "agreement": cell(width.agreement),
        "scores": [packed_scores(width.scores[:, place]) for place in kept],
    }


def handling_section(data: PageData) -> list[tuple[str, str]]:
    """Descriptions of how the columns were encoded before the model, as pairs of a heading and a text."""
    view, reader = data.view, data.reader
    if view.of_objects:
        return [("rows", f"objects, which the model sees through {view.model.expansion_.kernel!r} alone")]
    if view.front is None:
        return [("columns", "as they are: the model was fitted to these numbers directly")]
    lines: list[tuple[str, str]] = []
    for name, step in view.front.steps:
        if hasattr(step, "describe"):
            lines += [(str(heading), str(text)) for heading, text in step.describe()]
        else:
            lines.append((name, repr(step)))
    unused = [name for name, used in zip(reader.names, reader.used(), strict=True) if not used]
    if reader.raw and unused and not any(heading == "left out" for heading, _ in lines):
        rest = f" and {len(unused) - PAGE.names_left_out} more" if len(unused) > PAGE.names_left_out else ""
        lines.append(("left out", ", ".join(unused[: PAGE.names_left_out]) + rest))
    return lines
