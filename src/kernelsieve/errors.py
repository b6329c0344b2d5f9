"""What can go wrong, as types: who catches an error or silences a warning asks for its class, never for its words.

Every error here is a ValueError.  Parameters are written as `name=value` in all messages of the library, so that a
front end with other names for them (the command line has --components for n_components) can spell them its own way.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# Frames of these packages are not the user's: ours, and scikit-learn's pipelines, searches and decorators around us.
_NOT_THE_USER = tuple(f"{Path(str(find_spec(name).origin)).parent}/" for name in (__name__, "sklearn"))  # type: ignore[union-attr]
SPELLED_NAMES = 5  # spelled out in a message


class ParameterError(ValueError):
    """A parameter has a value that the data, or another parameter, do not allow."""

    def __init__(self, name: str, value: Any, problem: str, advice: str = "") -> None:
        super().__init__(name, value, problem, advice)  # as `args`, so that the error can be pickled
        self.name, self.value, self.problem, self.advice = name, value, problem, advice

    def __str__(self) -> str:
        return f"{self.name}={self.value} {self.problem}" + (f": {self.advice}" if self.advice else "")


class TooManyComponents(ParameterError):
    """More components were asked for than the rows, the points or the kernel have directions.

    `rank` is how many there are, None where that was not counted.
    """

    def __init__(self, asked: Any, rank: int | None, problem: str, advice: str = "") -> None:
        super().__init__("n_components", asked, problem, advice)
        self.args = (asked, rank, problem, advice)
        self.asked, self.rank = asked, rank


class TooFewPoints(ParameterError):
    """Fewer points were allowed than the components need."""


class ColumnError(ValueError):
    """A column of a table, or all of them, cannot be used; `row` counts from 0 and is None where no row is to blame."""

    def __init__(self, name: str | None, row: int | None, message: str) -> None:
        super().__init__(name, row, message)
        self.name, self.row, self.message = name, row, message

    def __str__(self) -> str:
        return self.message


class TableError(ValueError):
    """A file is not a table, or not the table that is needed."""


class TooFewRows(ValueError):
    """Too few rows for so many folds; `window` says which rows a fold needs if one is not enough."""

    def __init__(self, n_rows: int, n_folds: int, needed: int, window: str = "") -> None:
        super().__init__(n_rows, n_folds, needed, window)
        self.n_rows, self.n_folds, self.needed, self.window = n_rows, n_folds, needed, window

    def __str__(self) -> str:
        return (
            f"n_samples={self.n_rows} is too few for cv={self.n_folds}: every fold needs a row{self.window}. Give more "
            f"rows (at least {self.needed}){', fewer lags' if self.window else ''}, or a smaller cv"
        )


class KernelWarning(UserWarning):
    """The kernel, as it is set, fits these data badly."""


class PoorComponentsWarning(KernelWarning):
    """The components explain little of the variance, or follow single rows."""


def quoted(names: Sequence[Any]) -> str:
    """The first few names, and how many more there are, for a message."""
    more = f" and {len(names) - SPELLED_NAMES} more" if len(names) > SPELLED_NAMES else ""
    return ", ".join(repr(str(name)) for name in names[:SPELLED_NAMES]) + more


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the user's own line: the innermost frame that is neither this library's nor scikit-learn's."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USER):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)
