"""From encoded rows back to a table: scales undone, the likeliest label of a category, gaps where they are likelier."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..rows.frames import column_names
from .plan import BOOLEAN, CATEGORY, DATE, LEFT_OUT, SQUASHED

LIKELY = 0.5  # an indicator above this says yes
NEARLY = 1 - 1e-9  # of the bound: a pre-image on it would be infinitely far out


def decoded(encoder: Any, rows: np.ndarray) -> Any:
    """The table, as a frame of the library that the encoder was fitted to."""
    width = len(encoder.get_feature_names_out())
    if rows.ndim != 2 or rows.shape[1] != width:
        raise ValueError(f"encoded rows have shape {rows.shape}, {width} columns are needed")
    names, columns, at, category = [], [], 0, 0
    for j, (name, kind) in enumerate(zip(column_names(encoder), encoder.kinds_, strict=True)):
        gaps = bool(encoder.n_missing_[j])
        if kind == LEFT_OUT:
            continue
        if kind == CATEGORY:
            labels = encoder.categories_[category]
            n_indicators = len(labels) + encoder.has_other_[category] + gaps
            columns.append(_labels(rows[:, at : at + n_indicators], labels))
            category += 1
        else:
            n_indicators = 1 + gaps
            values = _number(encoder, j, kind, rows[:, at])
            columns.append(_gapped(values, rows[:, at + 1] > LIKELY) if gaps else values)
        names.append(name)
        at += n_indicators
    zoned = {column_names(encoder)[j] for j in getattr(encoder, "zoned_", ())}  # files of older versions do not tell
    return _framed(names, columns, encoder.library_, zoned)


def _number(encoder: Any, j: int, kind: str, values: np.ndarray) -> np.ndarray:
    if encoder.scale == "robust" and kind != BOOLEAN:
        values = np.clip(values, -SQUASHED * NEARLY, SQUASHED * NEARLY)
        values = values / np.sqrt(1 - np.square(values / SQUASHED))
    values = values * encoder.scale_[j] + encoder.center_[j]
    if kind == BOOLEAN:
        return np.asarray(values > LIKELY)
    if kind == DATE:
        days = np.clip(values, -100_000_000, 100_000_000)  # within what a datetime64 of microseconds can say
        return (days * 86_400e6).astype(np.int64).astype("datetime64[us]")
    return values


def _gapped(values: np.ndarray, missing: np.ndarray) -> np.ndarray:
    if not missing.any():
        return values
    if values.dtype.kind == "M":
        return np.where(missing, np.datetime64("NaT", "us"), values)
    if values.dtype.kind == "b":
        return np.where(missing, np.array(None), values.astype(object))
    return np.where(missing, np.nan, values)


def _labels(indicators: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The label with the largest indicator; none where that is the one of rarer labels or of gaps."""
    choices = np.concatenate([labels, np.full(indicators.shape[1] - len(labels), None, dtype=object)])
    return np.asarray(choices[indicators.argmax(axis=1)])


def _framed(names: list[str], columns: list[np.ndarray], library: str, zoned: set[str]) -> Any:
    """A frame of these columns; those that had a time zone are in Greenwich's."""
    if library == "numpy":
        plain = all(column.dtype.kind in "fb" for column in columns)
        return np.stack([column.astype(float) if plain else column.astype(object) for column in columns], axis=1)
    if library == "pandas":
        import pandas as pd

        frame = pd.DataFrame(dict(zip(names, columns, strict=True)))
        return frame.assign(**{name: frame[name].dt.tz_localize("UTC") for name in zoned & set(names)})
    lists = {
        name: column.tolist() if column.dtype == object else column for name, column in zip(names, columns, strict=True)
    }
    if library == "polars":
        import polars as pl

        frame = pl.DataFrame(lists)
        return frame.with_columns(pl.col(name).dt.replace_time_zone("UTC") for name in zoned & set(names))
    import pyarrow as pa

    in_greenwich = pa.timestamp("us", tz="UTC")
    return pa.table(
        {name: pa.array(lists[name], type=in_greenwich) if name in zoned else lists[name] for name in lists}
    )
