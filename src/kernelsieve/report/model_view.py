"""A fitted model on the rows that a report shows, and the way from its encoded columns back to those of the table.

    raw columns  --front-->  encoded columns  --model-->  scores

The model sees encoded columns (scaled, one-hot); readers see raw ones.  `ModelView` holds both.  `ColumnReader` knows
which encoded columns each raw column becomes.  Of the steps before the model it needs only `transform`, so any of
scikit-learn's will do: a row is copied, one of its columns is set to several values, and the encoded columns that
change belong to it:

    groups[j] = { e : encoded e changes when raw column j alone changes }

The columns of a calendar, which a TableEncoder joins into one date, move the same encoded columns, and the encoder says
which belongs to which.  If these sets do not overlap, a number is read back by interpolation between rows whose raw and
encoded values are known, a class by the level whose code is nearest.  If they overlap (a PCA among the steps), raw
columns cannot be separated, and the encoded columns themselves are shown.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline

from ..arrays import to_numpy
from ..kernels import is_function
from ..kernels.base import dense
from ..rows.frames import Column, Frame
from ..threads import cached_property
from .limits import PAGE


@contextmanager
def quietly() -> Iterator[None]:
    """Without warnings, for the report's own small fits and for rows that were stripped of their names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def split(model: Any) -> tuple[Pipeline | None, Any]:
    """The steps before the kernel estimator, None where there are none, and the estimator itself."""
    if not isinstance(model, Pipeline):
        return None, _checked(model)
    places = [place for place, (_, step) in enumerate(model.steps) if is_kernel_estimator(step)]
    if not places:
        _checked(model.steps[-1][1])
    place = places[-1]
    front = [(name, step) for name, step in model.steps[:place] if step not in (None, "passthrough")]
    return (Pipeline(front) if front else None), _checked(model.steps[place][1])


def is_kernel_estimator(step: Any) -> bool:
    """Whether this is a kernel estimator, fitted or not; linear estimators and monitors have no input gradients."""
    return hasattr(type(step), "input_gradient")


def _checked(model: Any) -> Any:
    name = model.__name__ if isinstance(model, type) else type(model).__name__
    if isinstance(model, type) or not is_kernel_estimator(model):
        raise TypeError(
            f"a report needs a fitted kernel estimator of kernelsieve, or a pipeline that ends in one, not {name}"
        )
    if not hasattr(model, "expansion_"):
        raise NotFittedError(f"this {name} is not fitted yet: call fit(X) before report(model, X)")
    if model.expansion_.kernel.precomputed:
        raise ValueError("a precomputed kernel has no columns to report on: fit with a named or a callable kernel")
    return model


@dataclass(frozen=True)
class ModelView:
    """A fitted model with the rows that it is shown on."""

    front: Pipeline | None
    model: Any
    frame: Frame
    encoded: Any  # (n_rows, n_encoded) dense or sparse, as the model takes it
    seed: int

    @classmethod
    def of(cls, model: Any, X: Any, seed: int) -> ModelView:
        """Check a model and its rows, and encode the rows."""
        front, estimator = split(model)
        first = estimator if front is None else front.steps[0][1]
        names = getattr(first, "feature_names_in_", None)
        frame = Frame(X, None if names is None else [str(name) for name in names])
        if frame.n_rows < 1:
            raise ValueError("the report needs at least one row, X has none")
        with quietly():
            encoded = frame.table if front is None else front.transform(frame.table)
            encoded = encoded.tocsr() if scipy.sparse.issparse(encoded) else as_numbers(encoded)
        if encoded.shape[1] != estimator.n_features_in_:
            raise ValueError(
                f"X has {encoded.shape[1]} columns, the model was fitted to {estimator.n_features_in_}: "
                "give the report the same columns"
            )
        return cls(front, estimator, frame, encoded, seed)

    @property
    def of_objects(self) -> bool:
        """Whether rows are objects, of which nothing is known but kernel values."""
        return bool(self.model.expansion_.kernel.of_objects)

    @property
    def lead(self) -> str | None:
        """What the page begins with, where that is not the number of rows and columns."""
        return None

    @property
    def n_components(self) -> int:
        return int(self.model.expansion_.n_components)

    @cached_property
    def kernel_settings(self) -> dict[str, float]:
        """gamma, degree and coef0, if the kernel has them; empty for a callable."""
        kernel = self.model.expansion_.kernel
        if is_function(getattr(self.model, "kernel", None)):
            return {}
        return {name: float(value) for name, value in kernel.params().items() if name in ("gamma", "degree", "coef0")}

    @property
    def n_rows(self) -> int:
        return self.frame.n_rows

    @cached_property
    def scores(self) -> np.ndarray:
        """Scores of all rows, (n_rows, M)."""
        with quietly():
            return np.asarray(self.model.transform(self.encoded), dtype=np.float64)

    @cached_property
    def errors(self) -> np.ndarray:
        """Squared feature-space distance of every row to its reconstruction."""
        with quietly():
            return np.asarray(self.model.reconstruction_error(self.encoded), dtype=np.float64)

    @cached_property
    def encoded_names(self) -> list[str]:
        """Names of the model's columns."""
        if self.front is None:
            return self.frame.names
        try:
            return [str(name) for name in self.front.get_feature_names_out()]
        except (AttributeError, ValueError):
            return [f"input {place}" for place in range(self.encoded.shape[1])]

    @cached_property
    def sample(self) -> np.ndarray:
        """Some encoded rows, dense, for the report's own small fits."""
        return self.encoded_rows(self.some_rows(PAGE.small_fit_rows))

    def some_rows(self, count: int) -> np.ndarray:
        """At most `count` row numbers, drawn at random, in order."""
        if self.n_rows <= count:
            return np.arange(self.n_rows)
        rng = np.random.default_rng(self.seed)
        return np.sort(rng.choice(self.n_rows, count, replace=False))

    def encoded_rows(self, places: np.ndarray) -> np.ndarray:
        """Rows as the model sees them."""
        return np.asarray(dense(self.encoded[places]), dtype=np.float64)

    @cached_property
    def points(self) -> np.ndarray:
        """The support points, dense, (m, n_encoded)."""
        return np.asarray(to_numpy(dense(self.model.support_vectors_)), dtype=np.float64)

    def nearest_points(self) -> np.ndarray:
        """The point that is nearest to each of some rows."""
        # |x - s|^2 is smallest where x's - |s|^2 / 2 is largest
        return np.argmax(self.sample @ self.points.T - (self.points**2).sum(axis=1) / 2, axis=1)

    def preimages(self, scores: np.ndarray) -> np.ndarray | None:
        """Encoded rows that these scores stand for; None if the kernel has no pre-images."""
        try:
            with quietly():
                return np.asarray(self.model.inverse_transform(scores), dtype=np.float64)
        except (ValueError, AttributeError, NotImplementedError):
            return None


def as_numbers(rows: Any) -> np.ndarray:
    """Rows as an array of floats; text in a column is named."""
    try:
        values = np.asarray(rows)
        return values if values.dtype.kind == "f" else values.astype(np.float64)
    except (TypeError, ValueError) as error:
        frame = Frame(rows)
        texts = [name for place, name in enumerate(frame.names) if frame.column(place, np.arange(1)).kind == "class"]
        raise ValueError(
            f"columns with text need a step that makes numbers of them: {', '.join(map(repr, texts[:5]))}. "
            "Give the report the whole pipeline, not its last step"
        ) from error


Decoder = Callable[[np.ndarray], np.ndarray]  # encoded columns of one raw column (n, e) -> its values (n,)


@dataclass(frozen=True)
class ColumnReader:
    """Columns that people read, and the encoded columns that each of them becomes."""

    names: list[str]
    kinds: list[str]  # "number", "date" or "class"
    groups: list[np.ndarray]  # numbers of encoded columns; empty if the model does not use the column
    decoders: list[Decoder]
    raw: bool = True  # whether these are the user's own columns

    def used(self) -> np.ndarray:
        """Which columns the model uses."""
        return np.array([len(group) > 0 for group in self.groups], dtype=bool)

    def by_column(self, squares: np.ndarray) -> np.ndarray:
        """Sums over the encoded columns of each column, (..., n_columns), of (..., n_encoded)."""
        if all(len(group) == 1 for group in self.groups):
            return squares[..., np.concatenate(self.groups)]
        return np.stack([squares[..., group].sum(axis=-1) for group in self.groups], axis=-1)

    def read(self, encoded: np.ndarray) -> list[np.ndarray]:
        """The values of each column in these encoded rows: floats or strings, NaN if the model does not use it."""
        return [decode(encoded[:, group]) for decode, group in zip(self.decoders, self.groups, strict=True)]


def decoder_of(column: Column, codes: np.ndarray) -> Decoder:
    """The function that reads one column back, from rows whose values and codes are known."""
    present = ~column.missing
    if not codes.shape[1] or not present.any():
        return lambda encoded: np.full(len(encoded), np.nan)
    if column.kind == "class":
        levels = np.array(column.levels, dtype=object)
        known = codes[[int(np.flatnonzero(column.values == level)[0]) for level in levels]]
        return lambda encoded: levels[np.argmin(((encoded[:, None] - known) ** 2).sum(axis=2), axis=1)]
    values = column.values[present]
    if column.kind == "number" and codes.shape[1] > 1 and _is_turning(codes[present], values):
        numbers, first = np.unique(values, return_index=True)
        places = codes[present][first]
        return lambda encoded: numbers[np.argmin(((encoded[:, None] - places) ** 2).sum(axis=2), axis=1)]
    lead = _leading(codes[present], values)
    order = np.argsort(codes[present, lead], kind="stable")
    known, values = codes[present, lead][order], values[order]
    whole_days = column.kind == "date" and bool(np.all(values == np.round(values)))

    def decode(encoded: np.ndarray) -> np.ndarray:
        read = np.interp(encoded[:, lead], known, values)
        return np.round(read) if whole_days else read

    return decode


def _is_turning(codes: np.ndarray, values: np.ndarray) -> bool:
    """Whether a number is encoded as a circle, on which no encoded column follows it all the way round."""
    order = np.argsort(values, kind="stable")
    steps = np.diff(codes[order], axis=0)[np.diff(values[order]) > 0]
    follows = (steps >= 0).all(axis=0) | (steps <= 0).all(axis=0)
    return len(np.unique(values)) > 2 and not (follows & (np.ptp(codes, axis=0) > 0)).any()


def _leading(codes: np.ndarray, values: np.ndarray) -> int:
    """The encoded column that follows a number; the others say whether it is missing."""
    if codes.shape[1] == 1:
        return 0
    spread = np.std(codes, axis=0) * (np.std(values) or 1.0)
    covariance = np.abs(np.mean((codes - codes.mean(axis=0)) * (values - values.mean())[:, None], axis=0))
    return int(np.argmax(np.where(spread > 0, covariance / np.where(spread > 0, spread, 1.0), -1.0)))


def reader_of(view: ModelView) -> ColumnReader:
    """The reader for this model's columns."""
    frame = view.frame
    if view.front is None:
        return _plain(frame.names, raw=True)
    if frame.n_columns <= PAGE.max_tried_columns:
        rows = view.some_rows(PAGE.known_rows)
        known = _columns(frame, rows)
        groups = _groups(view, known, rows)
        if groups is not None:
            encoded = view.encoded_rows(rows)
            decoders = [decoder_of(column, encoded[:, group]) for column, group in zip(known, groups, strict=True)]
            return ColumnReader(frame.names, [column.kind for column in known], groups, decoders)
    return _plain(view.encoded_names, raw=False)


def _plain(names: list[str], *, raw: bool) -> ColumnReader:
    """A reader for encoded columns that are numbers and stand for themselves."""
    groups = [np.array([place]) for place in range(len(names))]
    return ColumnReader(names, ["number"] * len(names), groups, [lambda encoded: encoded[:, 0]] * len(names), raw)


def _columns(frame: Frame, rows: np.ndarray) -> list[Column]:
    return [frame.column(place, rows) for place in range(frame.n_columns)]


def _groups(view: ModelView, known: list[Column], rows: np.ndarray) -> list[np.ndarray] | None:
    """The encoded columns of each raw column; None if they overlap or the steps refuse such rows."""
    front = view.front
    assert front is not None
    tried = [rows[_different(column)] for column in known]
    stops = np.cumsum([len(places) for places in tried])
    lines = np.full((stops[-1], len(known)), rows[0])
    for column, (places, stop) in enumerate(zip(tried, stops, strict=True)):
        lines[stop - len(places) : stop, column] = places
    with quietly():
        try:
            moved = front.transform(view.frame.gather(lines))
        except (ValueError, TypeError):
            return None
    moved = np.asarray(dense(moved), dtype=np.float64)
    blocks = np.split(moved, stops[:-1])
    groups = [np.flatnonzero(np.ptp(block, axis=0) > 0) if len(block) else np.array([], int) for block in blocks]
    if getattr(front[-1], "joined_", None) and len(front.steps) == 1:
        sources = front[-1].source_columns()
        groups = [np.flatnonzero(sources == j) for j in range(len(known))]
    times = np.bincount(np.concatenate(groups), minlength=moved.shape[1])
    return None if times.max(initial=0) > 1 else groups


def _different(column: Column) -> np.ndarray:
    """Places of a few different values, and of a missing one if there is one."""
    missing = np.flatnonzero(column.missing)[:1]
    present = np.flatnonzero(~column.missing)
    if not len(present):
        return missing
    if column.kind == "class":
        _, first = np.unique(column.values[present].astype(str), return_index=True)
        return np.concatenate([present[first[: PAGE.tried_levels]], missing])
    order = present[np.argsort(column.values[present], kind="stable")]
    return np.concatenate([order[np.linspace(0, len(order) - 1, PAGE.tried_numbers).astype(int)], missing])
