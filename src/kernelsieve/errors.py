"""The classes of the library's errors and warnings, by which they can be caught or silenced, rather than by their text.

Every error here is a ValueError.  All messages of the library write parameters as `name=value`, so that a front end
with other names for them (the command line has --components for n_components) can replace them by its own.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

# Code in these folders is not the user's: this package, and scikit-learn, whose pipelines and searches call it.
_NOT_THE_USER = tuple(f"{Path(str(find_spec(name).origin)).parent}/" for name in (__name__, "sklearn"))  # type: ignore[union-attr]
SPELLED_NAMES = 5  # how many names of a list a message writes out


class ParameterError(ValueError):
    """A parameter has a value that the data or another parameter does not allow."""

    def __init__(self, name: str, value: Any, problem: str, advice: str = "") -> None:
        super().__init__(name, value, problem, advice)  # as `args`, so that the error can be pickled
        self.name, self.value, self.problem, self.advice = name, value, problem, advice

    def __str__(self) -> str:
        return f"{self.name}={self.value} {self.problem}" + (f": {self.advice}" if self.advice else "")


class TooManyComponents(ParameterError):
    """More components were asked for than there are directions in the rows, the points or the kernel.

    `rank` is the number of directions, None if it was not counted.
    """

    def __init__(self, asked: Any, rank: int | None, problem: str, advice: str = "") -> None:
        super().__init__("n_components", asked, problem, advice)
        self.args = (asked, rank, problem, advice)
        self.asked, self.rank = asked, rank


class TooFewPoints(ParameterError):
    """Fewer points are allowed than the components need."""


class ColumnError(ValueError):
    """A column of a table, or all of them, cannot be used; `row`, from 0, is None if no single row is to blame."""

    def __init__(self, name: str | None, row: int | None, message: str) -> None:
        super().__init__(name, row, message)
        self.name, self.row, self.message = name, row, message

    def __str__(self) -> str:
        return self.message


class UnusableColumn(ValueError):
    """A column of the rows, known by its number, cannot be computed with."""

    of = ""  # what the column is one of, said after its number

    def __init__(self, column: int, problem: str, name: str | None = None) -> None:
        super().__init__(column, problem, name)
        self.column, self.problem, self.name = column, problem, name

    def __str__(self) -> str:
        return f"column {f'{self.column}{self.of}' if self.name is None else repr(self.name)} {self.problem}"

    def named(self, names: Sequence[Any] | None) -> Self:
        """This error with the column's name in place of its number, if it has one."""
        if names is None or self.column >= len(names):
            return self
        return type(self)(self.column, self.problem, str(names[self.column]))


class OutsideDomain(UnusableColumn):
    """A column has numbers for which the kernel has no values."""

    def among(self, columns: Sequence[int]) -> OutsideDomain:
        """This error with the column's number in the rows; the kernel that raised it sees only `columns` of them."""
        return OutsideDomain(columns[self.column], self.problem)


class ScaleError(UnusableColumn):
    """A column's numbers are too large or too small to be squared."""

    of = " of X"


class TableError(ValueError):
    """A file is not a table, or not the table that is needed."""


class TooFewRows(ValueError):
    """Too few rows for the number of folds; `window` says which rows a fold needs if one is not enough."""

    def __init__(self, n_rows: int, n_folds: int, needed: int, window: str = "") -> None:
        super().__init__(n_rows, n_folds, needed, window)
        self.n_rows, self.n_folds, self.needed, self.window = n_rows, n_folds, needed, window

    def __str__(self) -> str:
        return (
            f"n_samples={self.n_rows} is too few for cv={self.n_folds}: every fold needs a row{self.window}. Give more "
            f"rows (at least {self.needed}){', fewer lags' if self.window else ''}, or a smaller cv"
        )


class KernelWarning(UserWarning):
    """The kernel with its present parameters suits these data badly."""


class PoorComponentsWarning(KernelWarning):
    """The components explain little of the variance, or each follows a single row."""


class CompressionWarning(UserWarning):
    """A compressed model has lost much of one of its scores."""


def quoted(names: Sequence[Any]) -> str:
    """The first few names in quotes, and the number of the others, for a message."""
    more = f" and {len(names) - SPELLED_NAMES} more" if len(names) > SPELLED_NAMES else ""
    return ", ".join(repr(str(name)) for name in names[:SPELLED_NAMES]) + more


def needed(module: str, use: str) -> Any:
    """An optional package, or a module of it, which `use` (such as "plots need matplotlib") needs."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{use}: pip install {module.partition('.')[0]}") from error


def warn(message: str | None, category: type[Warning] = UserWarning) -> None:
    """Warn at the user's own line: the innermost frame that is neither this library's nor scikit-learn's.

    Without a message there is nothing to warn of.
    """
    if message is None:
        return
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USER):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)
