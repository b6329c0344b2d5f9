"""Points given by the user: row numbers, points, or a function that chooses either."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from ..arrays import to_numpy
from ..fit.problem import Problem
from ..rules.base import Selection


def own_points(selection: Any, problem: Problem, n_support: int | None) -> Selection:
    """Points given by the user: row numbers, points, or a function that chooses either."""
    kernel = problem.kernel
    if callable(selection):
        selection = selection(problem.sample.rows.X, n_support, kernel=kernel, rng=problem.rng)
        if isinstance(selection, Selection):
            return selection
        if np.ndim(selection) == 1:  # numbers of the rows that the function was given
            selection = problem.sample.rows.numbers_of(np.asarray(selection))
    if scipy.sparse.issparse(selection):
        points = selection.tocsr()
    else:
        points = to_numpy(selection) if hasattr(selection, "shape") else np.asarray(selection)
    if points.ndim == 1:
        return _own_rows(points, problem)
    if kernel.rows_only:
        raise ValueError(f"selection must be row numbers with a {kernel.name} kernel: its points cannot be given")
    n_features = problem.rows.n_features
    if points.ndim != 2 or points.shape[1] != n_features:
        raise ValueError(f"selection has shape {points.shape}: give row numbers (m,), or points (m, {n_features})")
    if not np.issubdtype(points.dtype, np.number):
        raise ValueError(f"selection points must be numbers, got dtype {points.dtype}")
    values = points.data if scipy.sparse.issparse(points) else points
    if not np.all(np.isfinite(values)):
        raise ValueError("selection points contain NaN or infinity")
    return Selection(kernel, points.astype(np.float64), None, {"winner": "given points"})  # a copy of the user's


def _own_rows(rows: np.ndarray, problem: Problem) -> Selection:
    n, weights = problem.rows.n_samples, problem.rows.weights
    if rows.dtype == bool and rows.shape[0] == n:
        rows = np.flatnonzero(rows)
    if not np.issubdtype(rows.dtype, np.integer):
        raise ValueError(f"selection row numbers must be integers, got dtype {rows.dtype}")
    if rows.size == 0 or rows.min() < -n or rows.max() >= n:
        raise ValueError(f"selection row numbers must lie in [0, {n})")
    rows = rows % n
    if len(np.unique(rows)) != len(rows):
        raise ValueError("selection names a row more than once")
    sampled = problem.sample.rows
    # the sample of a precomputed kernel has all rows, and its points are represented by columns of the gram
    in_sample = sampled.numbers is None
    kernel, points = problem.kernel.at(sampled.X, rows) if in_sample else (problem.kernel, problem.rows.take(rows))
    return Selection(
        kernel,
        points,
        rows,
        {"winner": "given rows"},
        exhaustive=len(rows) == n,
        counts=None if weights is None else weights[rows],
    )
