"""Rows, wherever they are: in memory, in blocks, in files, on a cluster or on a device."""

from .dispatch import (
    RowRules,
    in_blocks,
    mapped,
    new_rows,
    ordered_rows,
    rows_of,
    settle_columns,
    some_rows,
    watched,
    weights_of,
)
from .rows import Rows

__all__ = [
    "RowRules",
    "Rows",
    "in_blocks",
    "mapped",
    "new_rows",
    "ordered_rows",
    "rows_of",
    "settle_columns",
    "some_rows",
    "watched",
    "weights_of",
]
