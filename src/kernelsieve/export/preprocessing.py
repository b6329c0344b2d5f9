"""What happens to a row before the kernel: the scalers of a pipeline, as steps that any target can write.

    Affine   u = (x - shift) * factor        StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler
    Clip     u = min(max(x, lower), upper)   MinMaxScaler(clip=True)
    Mix      u = x @ matrix                  PCA, and the whitening of a monitor
    Spread   u = x, or x is NaN, or x = code a TableEncoder's columns, indicators of gaps and of labels
    Fill     u = x, or a value if x is NaN   the numbers that a TableEncoder puts into gaps
    Squash   u = x / sqrt(1 + (x / 3)^2)     TableEncoder(scale="robust")
    Turn     u = r sin(2 pi (x + phase))     the circles of a TableEncoder's hours, weekdays, months and dates

Each is a function of (ops, rows), in the operations of ops.py.  Consecutive affine steps are merged.  NaN passes
through them, so that a fill can be moved behind them, where the value to fill in is of the size of the other values.  A
shift is kept in float64 and, if the target computes in float32, written as the sum of two float32 numbers: rows of
1,000,000 +- 1 lose nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from ..rows.frames import BOOLEAN, column_names
from ..tables.calendar import CYCLE, circle_phases
from ..tables.columns import calendar_parts, circle_periods, circle_radius
from ..tables.encoder import TableEncoder
from ..tables.plan import CATEGORY, LEFT_OUT, SQUASHED
from .ops import NUMPY


class ExportError(ValueError):
    """A model, or a part of one, cannot be exported."""


def arrays_of(part: Any) -> dict[str, np.ndarray]:
    """The fields of a dataclass that are arrays, by name."""
    return {one.name: value for one in fields(part) if isinstance(value := getattr(part, one.name), np.ndarray)}


class Step:
    """A function of rows.  Its arrays are fields, so that torch can replace them by tensors."""

    def __call__(self, ops: Any, rows: Any) -> Any:
        """The rows after this step."""
        raise NotImplementedError

    def on_windows(self, n_rows: int) -> Step:
        """This step for windows, in which several rows stand side by side."""
        repeated = {name: np.tile(value, n_rows) for name, value in arrays_of(self).items()}
        return replace(self, **repeated)  # type: ignore[type-var]  # all steps are dataclasses

    def in_float32(self, largest: float) -> Step:
        """This step with numbers that float32 can represent, for points whose largest number is `largest`."""
        return self

    def taken_back(self, rows: np.ndarray) -> np.ndarray:
        """Rows that this step maps to these; one choice of them if there are several."""
        return rows


@dataclass(frozen=True)
class Affine(Step):
    """u = (x - shift) * factor, column by column."""

    shift: np.ndarray  # (d,)
    factor: np.ndarray  # (d,)
    low: np.ndarray | None = None  # (d,), subtracted after `shift`, which has been rounded to float32

    def __call__(self, ops: Any, rows: Any) -> Any:
        if not isinstance(self.shift, np.ndarray) or self.shift.any():
            rows = rows - self.shift
        if self.low is not None:
            rows = rows - self.low
        if isinstance(self.factor, np.ndarray) and np.all(self.factor == 1):
            return rows
        return rows * self.factor

    def then(self, other: Affine) -> Affine:
        """This step followed by the other, as one step."""
        return Affine(self.shift + other.shift / self.factor, self.factor * other.factor)

    @property
    def can_be_joined(self) -> bool:
        """Whether another shift may be added to this one.  If the shift were 50 standard deviations or more, rounding
        of the sum would show in the scores."""
        return bool(np.all(self.factor != 0) and np.max(np.abs(self.shift * self.factor)) < 50)

    def in_float32(self, largest: float) -> Affine:
        with np.errstate(over="ignore", invalid="ignore"):
            high = self.shift.astype(np.float32).astype(np.float64)
            low = self.shift - high
            low = np.where(np.abs(low * self.factor) > 1e-9 * largest, low, 0.0)  # smaller differences are invisible
        return replace(self, shift=high, low=low if np.any(low) else None)

    def taken_back(self, rows: np.ndarray) -> np.ndarray:
        return rows / self.factor + self.shift


@dataclass(frozen=True)
class Clip(Step):
    """u = x, but no less than `lower` and no more than `upper`."""

    lower: float
    upper: float

    def __call__(self, ops: Any, rows: Any) -> Any:
        return ops.clip(rows, self.lower, self.upper)


@dataclass(frozen=True)
class Mix(Step):
    """u = x @ matrix."""

    matrix: np.ndarray  # (d, q)

    def __call__(self, ops: Any, rows: Any) -> Any:
        return rows @ self.matrix

    def on_windows(self, n_rows: int) -> Mix:
        return Mix(block_diag(*[self.matrix] * n_rows))

    def taken_back(self, rows: np.ndarray) -> np.ndarray:
        return rows @ np.linalg.pinv(self.matrix)


NO_TEXT = ""  # the text that means a gap


@dataclass(frozen=True)
class InputColumn:
    """A column of the table that rows come from."""

    name: str
    kind: str  # "number", "boolean", "date" or "category"
    labels: tuple[str, ...] = ()  # of a category; in rows of numbers a label is given by its place here, its code
    other: bool = False  # whether all other labels share an indicator; their code is len(labels)
    unit: str = ""  # unit of the numbers that stand for a duration or a time of day

    def words(self, *, texts: bool) -> str:
        """A description of this column's values, with labels as texts or by their codes; empty for plain numbers."""
        if self.kind == "category" and texts:
            known = ", ".join(f'"{label}"' for label in self.labels)
            gap = "empty for a gap" if NO_TEXT not in self.labels else "empty is a label, a gap cannot be given"
            return f"text: {known}{', or any other' if self.other else ''}; {gap}"
        if self.kind == "category":
            known = ", ".join(f"{code}={label}" for code, label in enumerate(self.labels))
            return f"{known}, {len(self.labels)}=any other; NaN for a gap"
        return {"date": "days since 1970-01-01", "boolean": "0 or 1"}.get(self.kind, self.unit)


VALUE, IS_GAP = -1, -2  # tests of a Spread that are not codes of labels


@dataclass(frozen=True)
class Spread(Step):
    """Output k, with s = source_k: x_s itself (VALUE); or 1 if x_s is NaN (IS_GAP), or is the code test_k, else 0."""

    columns: tuple[InputColumn, ...]  # of the rows that come in
    source: np.ndarray  # (q,) int
    test: np.ndarray  # (q,) int

    def __call__(self, ops: Any, rows: Any) -> Any:
        taken = ops.take(rows, self.source)
        if isinstance(self.test, np.ndarray) and np.all(self.test == VALUE):
            return taken
        found = ops.where(self.test == IS_GAP, ops.number(ops.isnan(taken)), ops.equal(taken, self.test))
        return ops.where(self.test == VALUE, taken, found)

    @property
    def does_nothing(self) -> bool:
        """Whether the step leaves rows unchanged."""
        same = np.array_equal(self.source, np.arange(len(self.columns)))
        return same and bool(np.all(self.test == VALUE))

    def on_windows(self, n_rows: int) -> Spread:
        width = len(self.columns)
        source = np.concatenate([self.source + lag * width for lag in range(n_rows)])
        names = lagged_names((column.name for column in self.columns), n_rows - 1)
        columns = [replace(held, name=name) for held, name in zip(self.columns * n_rows, names, strict=True)]
        return Spread(tuple(columns), source, np.tile(self.test, n_rows))


def lagged_names(names: Iterable[str], n_lags: int) -> tuple[str, ...]:
    """The names of the columns of a window: the newest row, then the one before it, and so on."""
    known = list(names)
    return tuple(name if lag == 0 else f"{name} (lag {lag})" for lag in range(n_lags + 1) for name in known)


@dataclass(frozen=True)
class Fill(Step):
    """u = x, or the column's value where x is NaN."""

    values: np.ndarray  # (d,)

    def __call__(self, ops: Any, rows: Any) -> Any:
        return ops.where(ops.isnan(rows), self.values, rows)


# Values are clipped here before they are squashed: beyond it, the result is 3 to the last digit of float64, and the
# square may overflow in float32.
SQUASH_FROM = 1e15


@dataclass(frozen=True)
class Squash(Step):
    """u = x / sqrt(1 + (x / bound)^2) in some columns, x in the others."""

    bound: float
    where: np.ndarray  # (d,) bool

    def __call__(self, ops: Any, rows: Any) -> Any:
        near = ops.clip(rows, -SQUASH_FROM, SQUASH_FROM)
        share = near * (1 / self.bound)
        return ops.where(self.where, near / ops.sqrt(1.0 + share * share), rows)

    def taken_back(self, rows: np.ndarray) -> np.ndarray:
        inside = np.clip(rows / self.bound, -0.98, 0.98)  # a value at the bound would be taken back to infinity
        return np.where(self.where, self.bound * inside / np.sqrt(1 - inside**2), rows)


@dataclass(frozen=True)
class Turn(Step):
    """u = radius sin(2 pi (x + phase)) in columns whose radius is not zero, x in the others."""

    radius: np.ndarray  # (d,)
    phase: np.ndarray  # (d,)

    def __call__(self, ops: Any, rows: Any) -> Any:
        turned = self.radius * ops.sin(2 * np.pi * (rows + self.phase))
        return ops.where(self.radius != 0, turned, rows)

    def taken_back(self, rows: np.ndarray) -> np.ndarray:
        radius = np.where(self.radius != 0, self.radius, 1.0)
        angle = np.arcsin(np.clip(rows / radius, -1, 1)) / (2 * np.pi) - self.phase
        return np.where(self.radius != 0, angle, rows)


def joined(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Equivalent steps: adjacent affine ones merged, fills after them, and steps without effect removed."""
    result: list[Step] = []
    for step in steps:
        if isinstance(step, Spread) and step.does_nothing:
            continue
        if not isinstance(step, Affine):
            result.append(step)
            continue
        fill = result.pop() if result and isinstance(result[-1], Fill) else None
        after = [Fill(step(NUMPY, fill.values))] if isinstance(fill, Fill) else []
        last = result[-1] if result else None
        if isinstance(last, Affine) and last.can_be_joined:
            step = last.then(step)
            result.pop()
        if np.any(step.shift) or np.any(step.factor != 1):
            result.append(step)
        result += after
    return tuple(result)


def can_fold(transformer: Any) -> bool:
    """Whether `steps_of` knows this fitted transformer."""
    if transformer in (None, "passthrough") or isinstance(transformer, TableEncoder):
        return True
    return type(transformer).__name__ in _READERS and type(transformer).__module__.split(".")[0] == "sklearn"


def steps_of(transformer: Any) -> tuple[Step, ...]:
    """A fitted TableEncoder, or a fitted scaler (or PCA) of scikit-learn, as steps."""
    if transformer in (None, "passthrough"):
        return ()
    if not can_fold(transformer):
        raise ExportError(
            f"{type(transformer).__name__} cannot be folded into an exported model: {', '.join(_READERS)} can, and "
            "TableEncoder; to_onnx also takes every step that skl2onnx converts"
        )
    if isinstance(transformer, TableEncoder):
        return _table(transformer)
    return _READERS[type(transformer).__name__](transformer)


def _centred_and_scaled(scaler: Any, center: Any, scale: Any) -> tuple[Step, ...]:
    zeros = np.zeros(scaler.n_features_in_)
    return (Affine(zeros + center, 1 / (zeros + (1.0 if scale is None else scale))),)


def _standard(scaler: Any) -> tuple[Step, ...]:
    return _centred_and_scaled(scaler, scaler.mean_ if scaler.with_mean else 0.0, scaler.scale_)


def _robust(scaler: Any) -> tuple[Step, ...]:
    center = scaler.center_ if scaler.with_centering else 0.0
    return _centred_and_scaled(scaler, center, scaler.scale_ if scaler.with_scaling else None)


def _max_abs(scaler: Any) -> tuple[Step, ...]:
    affine = Affine(np.zeros(scaler.n_features_in_), 1 / np.asarray(scaler.scale_, dtype=np.float64))
    return (affine, Clip(-1.0, 1.0)) if getattr(scaler, "clip", False) else (affine,)


def _min_max(scaler: Any) -> tuple[Step, ...]:
    scale = np.asarray(scaler.scale_, dtype=np.float64)
    affine = Affine(-np.asarray(scaler.min_, dtype=np.float64) / scale, scale)
    return (affine, Clip(*map(float, scaler.feature_range))) if scaler.clip else (affine,)


def _pca(pca: Any) -> tuple[Step, ...]:
    matrix = np.asarray(pca.components_, dtype=np.float64).T
    if pca.whiten:
        # scikit-learn's own lower bound on standard deviations, for components of no variance
        matrix = matrix / np.maximum(np.sqrt(pca.explained_variance_), np.finfo(pca.components_.dtype).eps)
    return Affine(np.asarray(pca.mean_, dtype=np.float64), np.ones(len(pca.mean_))), Mix(matrix)


@dataclass(frozen=True)
class _Part:
    """One encoded column of a table."""

    source: int  # place of the table's column that it comes from
    test: int  # VALUE, IS_GAP or a code
    shift: float = 0.0
    factor: float = 1.0
    fill: float = 0.0
    squashed: bool = False
    radius: float = 0.0  # of a circle
    phase: float = 0.0  # in turns


def _table(encoder: TableEncoder) -> tuple[Step, ...]:
    """The encoder's steps; their inputs are the columns that it uses, or all columns of an array of numbers."""
    if getattr(encoder, "joined_", None):  # model files of older versions lack it
        raise ExportError(
            f"this model joins {', '.join(encoder.joined_)} into a date, which an exported model cannot: give the "
            "table one column of dates in their place, or fit with TableEncoder(calendar=False), --no-calendar"
        )
    named = hasattr(encoder, "feature_names_in_") or CATEGORY in encoder.kinds_
    units = getattr(encoder, "units_", [""] * len(encoder.kinds_))  # encoders saved by older versions have no units
    categories = iter(zip(encoder.categories_, encoder.has_other_, strict=True))
    columns: list[InputColumn] = []
    parts: list[_Part] = []
    for j, (name, kind) in enumerate(zip(column_names(encoder), encoder.kinds_, strict=True)):
        if kind == LEFT_OUT:
            columns += [] if named else [InputColumn(name, "number")]
            continue
        labels, other = next(categories) if kind == CATEGORY else ((), False)
        place, unit = len(columns), 1 / encoder.scale_[j]
        told = "number" if kind == CYCLE else str(kind)
        columns.append(InputColumn(name, told, tuple(map(str, labels)), bool(other), str(units[j])))
        if kind == CATEGORY:
            parts += [_Part(place, code, factor=unit) for code in range(len(labels) + bool(other))]
        else:
            parts += _measured_parts(encoder, j, place)
        if encoder.n_missing_[j]:
            parts.append(_Part(place, IS_GAP, factor=unit if kind == CATEGORY else 1.0))

    def each(name: str) -> np.ndarray:
        return np.array([getattr(part, name) for part in parts])

    affine = Affine(each("shift"), each("factor"))
    steps: list[Step] = [Spread(tuple(columns), each("source"), each("test")), affine]
    if encoder.missing == "impute":
        steps.append(Fill(affine(NUMPY, each("fill"))))
    if encoder.scale == "robust":
        steps.append(Squash(SQUASHED, each("squashed")))
    return (*steps, Turn(each("radius"), each("phase"))) if each("radius").any() else tuple(steps)


def _measured_parts(encoder: TableEncoder, j: int, place: int) -> list[_Part]:
    """A number or a date: its own value, and a sine and a cosine for each of its circles."""
    center, fill, kind = float(encoder.center_[j]), float(encoder.fill_[j]), encoder.kinds_[j]
    periods, parts = circle_periods(encoder, j), []
    if len(calendar_parts(encoder, j)) > len(periods):
        parts.append(_Part(place, VALUE, center, 1 / encoder.scale_[j], fill, squashed=kind != BOOLEAN))
    for period in periods:
        for phase in circle_phases(center, period):
            radius = circle_radius(encoder, j)
            parts.append(_Part(place, VALUE, center, 1 / period, fill, radius=radius, phase=phase))
    return parts


_READERS = {
    "StandardScaler": _standard,
    "MinMaxScaler": _min_max,
    "MaxAbsScaler": _max_abs,
    "RobustScaler": _robust,
    "PCA": _pca,
}
