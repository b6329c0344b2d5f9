"""Which encoded columns a raw column becomes, and the way back: encoded rows that people can read.

Nothing is asked of the steps before the model but `transform`, so that any of scikit-learn's will do.  To see what
becomes of a column, one row is copied, that column is taken through several of its values, and the encoded columns
that move are its own:

    groups[j] = { e : encoded e changes when raw column j alone changes }

Where these sets do not overlap, a number is read back by interpolation between rows whose raw and encoded values are
known, a class by the level whose code is nearest.  Where they do overlap (a PCA among the steps) no raw column can be
told from another, and the encoded columns themselves are shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..kernels.base import dense
from .frames import Column, Frame
from .subject import Subject, quietly

# More raw columns than this are not tried one by one.
MAX_TRIED_COLUMNS = 2000
TRIED_LEVELS = 256  # different values of a class that are tried
TRIED_NUMBERS = 5
KNOWN_ROWS = 2000  # between which numbers are read back


Decoder = Callable[[np.ndarray], np.ndarray]  # encoded columns of one raw column (n, e) -> its values (n,)


@dataclass(frozen=True)
class Reader:
    """Columns that people read, and which encoded columns each is made of."""

    names: list[str]
    kinds: list[str]  # "number", "date" or "class"
    groups: list[np.ndarray]  # of encoded columns; empty where the model does not use the column
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
        """For each column its values in these encoded rows: floats, strings of a class, NaN where it is not used."""
        return [decode(encoded[:, group]) for decode, group in zip(self.decoders, self.groups, strict=True)]


def decoder_of(column: Column, codes: np.ndarray) -> Decoder:
    """The way back for one column, from rows whose values and codes are known."""
    present = ~column.missing
    if not codes.shape[1] or not present.any():
        return lambda encoded: np.full(len(encoded), np.nan)
    if column.kind == "class":
        levels = np.array(column.levels, dtype=object)
        known = codes[[int(np.flatnonzero(column.values == level)[0]) for level in levels]]
        return lambda encoded: levels[np.argmin(((encoded[:, None] - known) ** 2).sum(axis=2), axis=1)]
    values = column.values[present]
    lead = _leading(codes[present], values)
    order = np.argsort(codes[present, lead], kind="stable")
    known, values = codes[present, lead][order], values[order]
    whole_days = column.kind == "date" and bool(np.all(values == np.round(values)))

    def decode(encoded: np.ndarray) -> np.ndarray:
        read = np.interp(encoded[:, lead], known, values)
        return np.round(read) if whole_days else read

    return decode


def _leading(codes: np.ndarray, values: np.ndarray) -> int:
    """Of the encoded columns of a number, the one that follows it (the others say whether it is missing)."""
    if codes.shape[1] == 1:
        return 0
    spread = np.std(codes, axis=0) * (np.std(values) or 1.0)
    covariance = np.abs(np.mean((codes - codes.mean(axis=0)) * (values - values.mean())[:, None], axis=0))
    return int(np.argmax(np.where(spread > 0, covariance / np.where(spread > 0, spread, 1.0), -1.0)))


def reader_of(subject: Subject) -> Reader:
    """How to read this model's rows."""
    frame = subject.frame
    if subject.front is None:
        return _plain(frame.names, raw=True)
    if frame.n_columns <= MAX_TRIED_COLUMNS:
        rows = subject.some_rows(KNOWN_ROWS)
        known = _columns(frame, rows)
        groups = _groups(subject, known, rows)
        if groups is not None:
            encoded = subject.encoded_rows(rows)
            decoders = [decoder_of(column, encoded[:, group]) for column, group in zip(known, groups, strict=True)]
            return Reader(frame.names, [column.kind for column in known], groups, decoders)
    return _plain(subject.encoded_names, raw=False)


def _plain(names: list[str], *, raw: bool) -> Reader:
    """Every encoded column is a number that is read as it is."""
    groups = [np.array([place]) for place in range(len(names))]
    return Reader(names, ["number"] * len(names), groups, [lambda encoded: encoded[:, 0]] * len(names), raw)


def _columns(frame: Frame, rows: np.ndarray) -> list[Column]:
    return [frame.column(place, rows) for place in range(frame.n_columns)]


def _groups(subject: Subject, known: list[Column], rows: np.ndarray) -> list[np.ndarray] | None:
    """The encoded columns of each raw column; None where they overlap, or the steps refuse such rows."""
    front = subject.front
    assert front is not None
    tried = [rows[_different(column)] for column in known]
    stops = np.cumsum([len(places) for places in tried])
    lines = np.full((stops[-1], len(known)), rows[0])
    for column, (places, stop) in enumerate(zip(tried, stops, strict=True)):
        lines[stop - len(places) : stop, column] = places
    with quietly():
        try:
            moved = front.transform(subject.frame.gather(lines))
        except (ValueError, TypeError):
            return None
    moved = np.asarray(dense(moved), dtype=np.float64)
    blocks = np.split(moved, stops[:-1])
    groups = [np.flatnonzero(np.ptp(block, axis=0) > 0) if len(block) else np.array([], int) for block in blocks]
    times = np.bincount(np.concatenate(groups), minlength=moved.shape[1])
    return None if times.max(initial=0) > 1 else groups


def _different(column: Column) -> np.ndarray:
    """Places of a few different values, a missing one among them where there is one."""
    missing = np.flatnonzero(column.missing)[:1]
    present = np.flatnonzero(~column.missing)
    if not len(present):
        return missing
    if column.kind == "class":
        _, first = np.unique(column.values[present].astype(str), return_index=True)
        return np.concatenate([present[first[:TRIED_LEVELS]], missing])
    order = present[np.argsort(column.values[present], kind="stable")]
    return np.concatenate([order[np.linspace(0, len(order) - 1, TRIED_NUMBERS).astype(int)], missing])
