"""A fitted model and the rows of a report, and the decoding of its encoded columns to the columns of the table.

    raw columns  --front-->  encoded columns  --model-->  scores

The inputs of the model are encoded columns (scaled, one-hot); the page shows raw columns.  `ModelView` holds both.
`ColumnReader` knows which encoded columns belong to each raw column.  They are found with only the `transform` of the
steps before the model, so these can be any transformers of scikit-learn.  A row is copied, one of its raw columns is
set to several values, and the encoded columns that change belong to that raw column:

    groups[j] = { e : encoded column e changes if only raw column j changes }

If these sets do not overlap, raw values can be decoded: a number by interpolation between rows whose raw and encoded
values are known, a class as the level with the nearest code.  Calendar columns that a TableEncoder joins into one date
change the same encoded columns; the encoder itself says which belong to which.  If the sets overlap otherwise (a PCA
among the steps), raw values cannot be decoded, and the page shows the encoded columns.
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
from ..kernels.blocks import dense
from ..rows.frames import Column, Frame
from ..tables.columns import OTHER_LABEL
from ..threads import cached_property
from .limits import PAGE


@contextmanager
def quietly() -> Iterator[None]:
    """Suppress warnings, of the report's own small fits and about rows without the column names of the fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def split(model: Any) -> tuple[Pipeline | None, Any]:
    """The steps of a pipeline before its kernel estimator (None if there are none), and the estimator."""
    if not isinstance(model, Pipeline):
        return None, _checked(model)
    places = [place for place, (_, step) in enumerate(model.steps) if is_kernel_estimator(step)]
    if not places:
        _checked(model.steps[-1][1])
    place = places[-1]
    front = [(name, step) for name, step in model.steps[:place] if step not in (None, "passthrough")]
    return (Pipeline(front) if front else None), _checked(model.steps[place][1])


def is_kernel_estimator(step: Any) -> bool:
    """Whether this is a kernel estimator, fitted or not: only these have `input_gradient`."""
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
    """A fitted model and the rows that the report is about."""

    front: Pipeline | None
    model: Any
    frame: Frame
    encoded: Any  # (n_rows, n_encoded) dense or sparse: the model's input
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
        """Whether rows are objects, which have no columns and are compared only by their kernel values."""
        return bool(self.model.expansion_.kernel.of_objects)

    @property
    def lead(self) -> str | None:
        """The first paragraph of the page; None for the usual one, which names the numbers of rows and columns."""
        return None

    @property
    def n_components(self) -> int:
        return int(self.model.expansion_.n_components)

    @cached_property
    def kernel_settings(self) -> dict[str, float]:
        """The values of gamma, degree and coef0, as far as the kernel has them; empty for a callable."""
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
        """Names of the encoded columns."""
        if self.front is None:
            return self.frame.names
        try:
            return [str(name) for name in self.front.get_feature_names_out()]
        except (AttributeError, ValueError):
            return [f"input {place}" for place in range(self.encoded.shape[1])]

    @cached_property
    def sample(self) -> np.ndarray:
        """A sample of encoded rows, dense, for the report's own small fits."""
        return self.encoded_rows(self.some_rows(PAGE.small_fit_rows))

    def some_rows(self, count: int) -> np.ndarray:
        """The numbers of at most `count` rows, drawn at random, in ascending order."""
        if self.n_rows <= count:
            return np.arange(self.n_rows)
        rng = np.random.default_rng(self.seed)
        return np.sort(rng.choice(self.n_rows, count, replace=False))

    def encoded_rows(self, places: np.ndarray) -> np.ndarray:
        """The encoded rows with these numbers, dense."""
        return np.asarray(dense(self.encoded[places]), dtype=np.float64)

    @cached_property
    def points(self) -> np.ndarray:
        """The support points, dense, (m, n_encoded)."""
        return np.asarray(to_numpy(dense(self.model.support_vectors_)), dtype=np.float64)

    def nearest_points(self) -> np.ndarray:
        """For each of some random rows, the number of the nearest support point."""
        # |x - s|^2 is smallest for the point s with the largest x's - |s|^2 / 2.
        return np.argmax(self.sample @ self.points.T - (self.points**2).sum(axis=1) / 2, axis=1)

    def preimages(self, scores: np.ndarray) -> np.ndarray | None:
        """The pre-images of these scores, as encoded rows; None if the kernel has none."""
        try:
            with quietly():
                return np.asarray(self.model.inverse_transform(scores), dtype=np.float64)
        except (ValueError, AttributeError, NotImplementedError):
            return None


def as_numbers(rows: Any) -> np.ndarray:
    """Rows as an array of floats; if columns hold text, the error names them."""
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
    """The columns that the page shows, and for each its encoded columns and how to decode them."""

    names: list[str]
    kinds: list[str]  # "number", "date" or "class"
    groups: list[np.ndarray]  # for each column, the numbers of its encoded columns; empty if the model does not use it
    decoders: list[Decoder]
    raw: bool = True  # whether these are the columns of the user's table; otherwise they are encoded columns

    def used(self) -> np.ndarray:
        """For each column, whether the model uses it."""
        return np.array([len(group) > 0 for group in self.groups], dtype=bool)

    def by_column(self, squares: np.ndarray) -> np.ndarray:
        """Values for encoded columns, (..., n_encoded), summed for each column of the table, (..., n_columns)."""
        if all(len(group) == 1 for group in self.groups):
            return squares[..., np.concatenate(self.groups)]
        return np.stack([squares[..., group].sum(axis=-1) for group in self.groups], axis=-1)

    def read(self, encoded: np.ndarray) -> list[np.ndarray]:
        """The decoded values of each column in these rows, as floats or texts; NaN for a column that is not used."""
        return [decode(encoded[:, group]) for decode, group in zip(self.decoders, self.groups, strict=True)]


def decoder_of(column: Column, codes: np.ndarray, names: list[str]) -> Decoder:
    """The function that decodes one column.

    `codes` are its encoded columns, called `names`, in rows whose values are known.  Labels that share an indicator,
    TableEncoder's or OneHotEncoder's for rare labels, are all decoded as "other values".
    """
    present = ~column.missing
    if not codes.shape[1] or not present.any():
        return lambda encoded: np.full(len(encoded), np.nan)
    if column.kind == "class":
        levels = np.array(column.levels, dtype=object)
        known = codes[[int(np.flatnonzero(column.values == level)[0]) for level in levels]]
        shared = [name.endswith((f"={OTHER_LABEL}", "_infrequent_sklearn")) for name in names]
        levels[(known[:, shared] > 0).any(axis=1)] = OTHER_LABEL
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
    """Whether a number is encoded as a circle: then it is not a monotone function of any encoded column."""
    order = np.argsort(values, kind="stable")
    steps = np.diff(codes[order], axis=0)[np.diff(values[order]) > 0]
    follows = (steps >= 0).all(axis=0) | (steps <= 0).all(axis=0)
    return len(np.unique(values)) > 2 and not (follows & (np.ptp(codes, axis=0) > 0)).any()


def _leading(codes: np.ndarray, values: np.ndarray) -> int:
    """The encoded column that correlates most with a number; others may be indicators of missing values."""
    if codes.shape[1] == 1:
        return 0
    spread = np.std(codes, axis=0) * (np.std(values) or 1.0)
    covariance = np.abs(np.mean((codes - codes.mean(axis=0)) * (values - values.mean())[:, None], axis=0))
    return int(np.argmax(np.where(spread > 0, covariance / np.where(spread > 0, spread, 1.0), -1.0)))


def reader_of(view: ModelView) -> ColumnReader:
    """The reader for raw columns if they can be decoded, otherwise one for encoded columns."""
    frame = view.frame
    if view.front is None:
        return _plain(frame.names, raw=True)
    if frame.n_columns <= PAGE.max_tried_columns:
        rows = view.some_rows(PAGE.known_rows)
        known = _columns(frame, rows)
        groups = _groups(view, known, rows)
        if groups is not None:
            encoded, names = view.encoded_rows(rows), view.encoded_names
            decoders = [
                decoder_of(column, encoded[:, group], [names[place] for place in group])
                for column, group in zip(known, groups, strict=True)
            ]
            return ColumnReader(frame.names, [column.kind for column in known], groups, decoders)
    return _plain(view.encoded_names, raw=False)


def _plain(names: list[str], *, raw: bool) -> ColumnReader:
    """A reader for columns of numbers that need no decoding."""
    groups = [np.array([place]) for place in range(len(names))]
    return ColumnReader(names, ["number"] * len(names), groups, [lambda encoded: encoded[:, 0]] * len(names), raw)


def _columns(frame: Frame, rows: np.ndarray) -> list[Column]:
    return [frame.column(place, rows) for place in range(frame.n_columns)]


def _groups(view: ModelView, known: list[Column], rows: np.ndarray) -> list[np.ndarray] | None:
    """The encoded columns of each raw column; None if the sets overlap, or if a step raises for the changed rows."""
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
    """Places of a few different values of a column, and of one missing value if there is one."""
    missing = np.flatnonzero(column.missing)[:1]
    present = np.flatnonzero(~column.missing)
    if not len(present):
        return missing
    if column.kind == "class":
        _, first = np.unique(column.values[present].astype(str), return_index=True)
        return np.concatenate([present[first[: PAGE.tried_levels]], missing])
    order = present[np.argsort(column.values[present], kind="stable")]
    return np.concatenate([order[np.linspace(0, len(order) - 1, PAGE.tried_numbers).astype(int)], missing])
