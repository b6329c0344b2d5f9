"""A monitor with lags looks at windows: the newest row, then the one before it, and so on, side by side.

Steps before such a monitor see single rows; on a window they are done to each of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from scipy.linalg import block_diag

from .steps import Affine, Column, Fill, Mix, Spread, Squash, Step


def lagged_names(names: Iterable[str], n_lags: int) -> tuple[str, ...]:
    """The names of a window's columns."""
    known = list(names)
    return tuple(name if lag == 0 else f"{name} (lag {lag})" for lag in range(n_lags + 1) for name in known)


def on_windows(step: Step, n_lags: int) -> Step:
    """The step, done to each row of a window."""
    times = n_lags + 1
    if isinstance(step, Affine):
        return Affine(np.tile(step.shift, times), np.tile(step.factor, times))
    if isinstance(step, Mix):
        return Mix(block_diag(*[step.matrix] * times))
    if isinstance(step, Fill):
        return Fill(np.tile(step.values, times))
    if isinstance(step, Squash):
        return replace(step, where=np.tile(step.where, times))
    if isinstance(step, Spread):
        width = len(step.columns)
        source = np.concatenate([step.source + lag * width for lag in range(times)])
        return Spread(lagged_columns(step.columns, n_lags), source, np.tile(step.test, times))
    return step  # a clip is the same in every column


def lagged_columns(columns: tuple[Column, ...], n_lags: int) -> tuple[Column, ...]:
    """What a window's columns hold."""
    names = lagged_names((column.name for column in columns), n_lags)
    held = columns * (n_lags + 1)
    return tuple(replace(column, name=name) for column, name in zip(held, names, strict=True))
