"""Rows that are Python objects: an array (n, 1) of them, which numerical code passes on without looking inside."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ..arrays import is_foreign, on_host
from ..kernels.objects import shown


def object_rows(X: Any, least: int = 1) -> np.ndarray:
    """A list, tuple, array or column of objects as rows: (n, 1), objects of one kind."""
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 2 and X.shape[1] == 1:
        objects = X[:, 0].tolist()
    else:
        objects = _listed(X)
    if len(objects) < least:
        raise ValueError(f"X has {len(objects)} objects, at least {least} are needed")
    _check_kind(objects)
    rows = np.empty((len(objects), 1), dtype=object)
    for number, one in enumerate(objects):  # a single assignment would turn lists of equal length into a table
        rows[number, 0] = one
    return rows


def key_of(one: Any) -> Any:
    """What identifies an object: its content if it is text or a number, otherwise its identity."""
    return one if isinstance(one, str | bytes | Real) else id(one)


def check_like(rows: np.ndarray, known: np.ndarray) -> None:
    """Refuse rows of another type than the model's: text for text, numbers for numbers, otherwise objects."""
    expected = _kind(known[0, 0])
    for number, one in enumerate(rows[:, 0]):
        if _kind(one) is not expected:
            raise ValueError(f"row {number} is {shown(one)}, and the model was fitted to such as {shown(known[0, 0])}")


def _kind(one: Any) -> type:
    return next((kind for kind in (str, bytes, Real) if isinstance(one, kind)), object)


def _listed(X: Any) -> list[Any]:
    """The objects that X holds."""
    # unlike a set, whose order is arbitrary, and a sparse matrix, which has a __len__ that raises
    listed = all(hasattr(X, name) for name in ("__len__", "__iter__", "__getitem__")) and not issparse(X)
    if isinstance(X, str | bytes | dict) or not listed:
        raise TypeError(f"X is {shown(X)}: a kernel of objects needs a list of them, in an order")
    if hasattr(X, "columns"):  # a column of a frame holds objects; with several columns it would be a guess which
        if len(X.columns) != 1:
            raise ValueError(f"X is a frame of {len(X.columns)} columns: give the column that holds the objects")
        X = X[X.columns[0]]
    X = on_host(X) if is_foreign(X) else X
    if isinstance(X, np.ndarray) and X.ndim > 1:
        return list(X)  # the objects are the slices of the array: series, or tables
    if hasattr(X, "tolist"):
        return list(X.tolist())
    if hasattr(X, "to_list"):
        return list(X.to_list())
    return list(X) if isinstance(X, Sequence) else [X[i] for i in range(len(X))]


def _check_kind(objects: list[Any]) -> None:
    """Refuse objects of mixed types: a gap among strings, numbers among lists."""
    kinds: dict[type, int] = {}
    for number, one in enumerate(objects):
        if type(one) not in kinds:
            kinds[type(one)] = number
            if one is None:
                raise ValueError(f"row {number} is None: leave out rows without an object")
    if len(kinds) < 2 or all(issubclass(kind, Real) for kind in kinds):
        return
    first, *others = kinds
    for other in others:
        if not (set(first.__mro__) & set(other.__mro__)) - {object}:
            i, j = kinds[first], kinds[other]
            raise ValueError(
                f"objects of different kinds: row {i} is {shown(objects[i])} ({first.__name__}), row {j} is "
                f"{shown(objects[j])} ({other.__name__})"
            )
