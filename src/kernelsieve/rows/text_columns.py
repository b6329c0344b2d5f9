"""scikit-learn's check of rows, with the column named where a table holds text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.utils.validation import validate_data

from .frames import MAX_NAMES, OTHER, TEXT, block_of, collected, is_frame


def validate_rows(estimator: Any, X: Any, **checks: Any) -> Any:
    """As scikit-learn's `validate_data`; text in a frame is an error that says where, and what helps."""
    X = collected(X)
    with text_columns_named(estimator, X):
        return validate_data(estimator, X, **checks)


@contextmanager
def text_columns_named(estimator: Any, X: Any) -> Iterator[None]:
    """An error of scikit-learn about rows that hold text, in words that name the column."""
    try:
        yield
    except (ValueError, TypeError) as error:
        told = _text_columns(X)
        if told is None:
            raise
        name = type(estimator).__name__
        raise ValueError(
            f"{told}, and {name} needs numbers: leave text out, or encode the table with "
            f"make_pipeline(TableEncoder(), {name}(...))"
        ) from error


def _text_columns(X: Any) -> str | None:
    """Which column of a frame is no number, and what it holds; None where that is not the trouble."""
    if not is_frame(X):
        return None
    block = block_of(X)
    wrong = [j for j, kind in enumerate(block.kinds) if kind in (TEXT, OTHER)]
    if not wrong:
        return None
    first = wrong[0]
    held = "text"
    if block.kinds[first] == OTHER:
        held = block.others[first]
    elif block.texts[first].labels:
        held = f"text (first {block.texts[first].labels[0]!r})"
    names = ", ".join(repr(block.names[j]) for j in wrong[:MAX_NAMES]) + ", ..." * (len(wrong) > MAX_NAMES)
    return f"column {names} holds {held}" if len(wrong) == 1 else f"columns {names} hold {held}"
