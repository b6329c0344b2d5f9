"""A dictionary: the candidate rows of an estimator that finds its support among them.

All rows of small data, otherwise rows chosen by randomly pivoted Cholesky from a sample.
"""

from __future__ import annotations

from dataclasses import replace

from ..fit.problem import Problem
from ..rules.base import Selection
from ..rules.registry import SELECTORS
from .chooser import everything

MAX_ALL_ROWS = 2000  # with at most this many distinct rows, all of them are taken
DEFAULT_SIZE = 512
ROWS_PER_POINT, MIN_ROWS = 20, 5000  # rows that a dictionary is chosen from


def rows_to_choose_from(n_dictionary: int | None) -> int:
    """How many rows a dictionary of `n_dictionary` rows is chosen from."""
    return max(MIN_ROWS, ROWS_PER_POINT * (n_dictionary or DEFAULT_SIZE))


def dictionary(problem: Problem, n_dictionary: int | None) -> Selection:
    """`n_dictionary` rows; by default all rows of small data, otherwise DEFAULT_SIZE of them.

    If the kernel is not known to be definite, even all rows are passed on as if they were some rows, because then the
    negative part of its spectrum is found and dropped.
    """
    sample = problem.sample
    few = sample.rows.whole and sample.size <= MAX_ALL_ROWS
    size = n_dictionary or (MAX_ALL_ROWS if few else DEFAULT_SIZE)
    if not (sample.rows.whole and sample.size <= size):
        return SELECTORS["rpcholesky"](sample, size, problem.rng)
    return replace(everything(problem), exhaustive=problem.kernel.definite is True)
