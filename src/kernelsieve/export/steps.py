"""What happens to a row before the kernel sees it: the scalers of a pipeline, as steps that any language can write.

    Affine   u = (x - shift) * factor        StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler
    Clip     u = min(max(x, lower), upper)   MinMaxScaler(clip=True)
    Mix      u = x @ matrix                  PCA, and the whitening of a monitor

Affine steps in a row become one.  A shift is kept in float64 and, where the target computes in float32, written as the
sum of two float32 numbers: rows of 1,000,000 +- 1 lose nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np


class ExportError(ValueError):
    """A model, or a part of one, that cannot leave Python."""


@dataclass(frozen=True)
class Affine:
    """u = (x - shift) * factor, column by column."""

    shift: np.ndarray  # (d,)
    factor: np.ndarray  # (d,)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return (rows - self.shift) * self.factor

    def then(self, other: Affine) -> Affine:
        """This step and the other as one."""
        return Affine(self.shift + other.shift / self.factor, self.factor * other.factor)


@dataclass(frozen=True)
class Clip:
    """u = x, but no less than `lower` and no more than `upper`."""

    lower: float
    upper: float

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return np.clip(rows, self.lower, self.upper)


@dataclass(frozen=True)
class Mix:
    """u = x @ matrix."""

    matrix: np.ndarray  # (d, q)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return rows @ self.matrix


Step: TypeAlias = Affine | Clip | Mix


def joined(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The same steps with neighbouring affine ones made one, and without those that do nothing."""
    result: list[Step] = []
    for step in steps:
        if isinstance(step, Affine):
            if result and isinstance(result[-1], Affine) and np.all(result[-1].factor != 0):
                step = result.pop().then(step)  # type: ignore[union-attr]
            if not np.any(step.shift) and np.all(step.factor == 1):
                continue
        result.append(step)
    return tuple(result)


def apply(steps: Iterable[Step], rows: np.ndarray) -> np.ndarray:
    """The rows after all steps."""
    for step in steps:
        rows = step(rows)
    return rows


def split(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """float64 values as the sum of two float32 arrays: the nearest, and what it leaves."""
    high = values.astype(np.float32)
    return high, (values - high.astype(np.float64)).astype(np.float32)


def can_fold(transformer: Any) -> bool:
    """Whether `steps_of` knows this fitted transformer."""
    if transformer in (None, "passthrough"):
        return True
    return type(transformer).__name__ in _READERS and type(transformer).__module__.split(".")[0] == "sklearn"


def steps_of(transformer: Any) -> tuple[Step, ...]:
    """A fitted scaler (or PCA) of scikit-learn as steps."""
    if transformer in (None, "passthrough"):
        return ()
    if not can_fold(transformer):
        raise ExportError(
            f"{type(transformer).__name__} cannot be folded into an exported model: {', '.join(_READERS)} can; "
            "to_onnx also takes every step that skl2onnx converts"
        )
    return _READERS[type(transformer).__name__](transformer)


def _number_or(value: Any, default: float, n_columns: int) -> np.ndarray:
    if value is None:
        return np.full(n_columns, default)
    return np.array(np.broadcast_to(np.asarray(value, dtype=np.float64), (n_columns,)))


def _standard(scaler: Any) -> tuple[Step, ...]:
    d = scaler.n_features_in_
    mean = scaler.mean_ if scaler.with_mean else None
    return (Affine(_number_or(mean, 0.0, d), 1 / _number_or(scaler.scale_, 1.0, d)),)


def _robust(scaler: Any) -> tuple[Step, ...]:
    d = scaler.n_features_in_
    center = scaler.center_ if scaler.with_centering else None
    scale = scaler.scale_ if scaler.with_scaling else None
    return (Affine(_number_or(center, 0.0, d), 1 / _number_or(scale, 1.0, d)),)


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
        # scikit-learn's own floor under the standard deviations, for components of no variance
        matrix = matrix / np.maximum(np.sqrt(pca.explained_variance_), np.finfo(pca.components_.dtype).eps)
    return Affine(np.asarray(pca.mean_, dtype=np.float64), np.ones(len(pca.mean_))), Mix(matrix)


_READERS = {
    "StandardScaler": _standard,
    "MinMaxScaler": _min_max,
    "MaxAbsScaler": _max_abs,
    "RobustScaler": _robust,
    "PCA": _pca,
}
