"""What the sections of a page are made from, and which rows and columns of the table the page has room for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .frames import Column
from .packing import JSON, column_bytes, is_text
from .reading import Reader
from .subject import Subject

MAX_COLUMNS = 60  # of the table that are put into the page
MAX_TEXTS = 6  # of them that hold texts
MAX_BESIDE = 20  # further columns that the model does not use
FEW_ROWS = 200  # that tell what a column is like
MAX_SIDE_COMPONENTS = 10  # that the other widths bring
ROW_BYTES = 3_200_000  # that rows and columns may take in the page, of 5 MB with the chart library


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

    @property
    def gray_range(self) -> tuple[float, float]:
        """Values that are drawn white and black."""
        sample = self.subject.sample
        return float(sample.min()), float(sample.max())


def shown_columns(material: Material) -> list[int]:
    """The columns of the table that go into the page: those that the components listen to first."""
    if material.pictures is not None:
        return []
    frame, reader = material.subject.frame, material.reader
    if frame.n_columns <= MAX_COLUMNS:
        return _without_many_texts(material, range(frame.n_columns))
    weight = (
        np.var(material.subject.sample, axis=0) if material.sensitivity is None else material.sensitivity.max(axis=0)
    )
    if not reader.raw or len(weight) != frame.n_columns:
        return _without_many_texts(material, range(MAX_COLUMNS))
    return _without_many_texts(material, sorted(np.argsort(-weight, kind="stable")[:MAX_COLUMNS].tolist()))


def _without_many_texts(material: Material, places: Sequence[int]) -> list[int]:
    """Columns of long texts, each row its own, are no more than a few: they take the room of ten others."""
    few = material.subject.some_rows(FEW_ROWS)
    texts = [place for place in places if is_text(material.subject.frame.column(place, few))]
    return [place for place in places if place not in texts[MAX_TEXTS:]]


def few_beside(columns: list[Column], few: np.ndarray) -> list[Column]:
    """Of further columns as many as the page has room for, and as few of them texts."""
    texts = [column.name for column in columns if is_text(Column(column.name, column.kind, column.values[few]))]
    return [column for column in columns if column.name not in texts[MAX_TEXTS:]][:MAX_BESIDE]


def shown_rows(material: Material, columns: list[int], worst: np.ndarray) -> np.ndarray:
    """As many random rows as the page has room for, the odd ones among them."""
    subject = material.subject
    few = subject.some_rows(FEW_ROWS)
    a_row = sum(column_bytes(subject.frame.column(place, few)) for place in columns) + sum(
        column_bytes(Column(column.name, column.kind, column.values[few])) for column in material.beside
    )
    a_row += 2.7 * (subject.n_components + 8 * min(subject.n_components, MAX_SIDE_COMPONENTS)) + 12
    count = max(1, min(material.options.max_rows, int(ROW_BYTES / a_row)))
    if count >= subject.n_rows:
        return np.arange(subject.n_rows)
    worst = worst[: max(1, count // 2)]
    others = np.setdiff1d(subject.some_rows(count), worst)
    rng = np.random.default_rng(subject.seed)
    return np.union1d(rng.choice(others, max(0, count - len(worst)), replace=False), worst)
