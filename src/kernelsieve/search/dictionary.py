"""A dictionary: the rows that may become support of an estimator that finds its support among them.

All rows where they are few, else rows by randomly pivoted Cholesky of a sample.
"""

from __future__ import annotations

from dataclasses import replace

from ..fit.problem import Problem
from ..rules.base import Selection
from ..rules.registry import SELECTORS
from .chooser import everything

MAX_ALL_ROWS = 2000  # if no more rows than this are different, all of them are taken
DEFAULT_SIZE = 512
ROWS_PER_POINT, MIN_ROWS = 20, 5000  # that a dictionary is chosen from


def rows_to_choose_from(n_dictionary: int | None) -> int:
    """How many rows a dictionary of `n_dictionary` rows is chosen from."""
    return max(MIN_ROWS, ROWS_PER_POINT * (n_dictionary or DEFAULT_SIZE))


def dictionary(problem: Problem, n_dictionary: int | None) -> Selection:
    """`n_dictionary` rows; by default all where they are few, else DEFAULT_SIZE of them.

    All rows of a kernel that is not known to be definite are taken as some rows, so that its negative part is found
    and dropped.
    """
    sample = problem.sample
    few = sample.rows.whole and sample.size <= MAX_ALL_ROWS
    size = n_dictionary or (MAX_ALL_ROWS if few else DEFAULT_SIZE)
    if not (sample.rows.whole and sample.size <= size):
        return SELECTORS["rpcholesky"](sample, size, problem.rng)
    return replace(everything(problem), exhaustive=problem.kernel.definite is True)
