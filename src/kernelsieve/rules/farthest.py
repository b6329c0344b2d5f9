"""Rows far from those chosen: the largest sum, or the largest minimum, of squared feature-space distances.

    d^2(x, s) = k(x, x) + k(s, s) - 2 k(x, s)

The sum is the node choice of ESKPCA (Xu et al. 2011), the minimum the k-centre rule of Gonzalez (1985), whose radius
is at most twice the optimal one.  Both need one kernel column for each row chosen: n m kernel values, O(n m) time,
O(n) memory.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse

from ..arrays import Array, as_float64, like, namespace, on_host, row_dot, to_numpy
from ..fit.sample import Sample
from .base import KernelGram, Selection

# Rows closer than this share of their squared lengths are copies of each other, in float64 and in float32.
COPIES = 1e-13
COPIES_FLOAT32 = 1e-6

Combine = np.ufunc  # (distance to the rows so far, distance to the new one) -> distance


def far_rows(
    column: Callable[[int], np.ndarray],
    diagonal: np.ndarray,
    distances: np.ndarray,
    n_rows: int,
    combine: Combine,
    tolerance: float = COPIES,
) -> np.ndarray:
    """Up to `n_rows` rows, each the farthest from those before it; fewer when only copies of those are left.

    `distances` are the squared distances to a first point; `combine` is np.add or np.minimum.
    """
    far = np.where(distances > tolerance * diagonal, distances, -np.inf)
    largest = diagonal.max(initial=0.0)
    chosen: list[int] = []
    while len(chosen) < n_rows:
        j = int(np.argmax(far))
        if far[j] == -np.inf:
            break
        chosen.append(j)
        if len(chosen) == n_rows:
            break
        distance = np.multiply(column(j), -2.0, dtype=np.float64)
        distance += diagonal
        distance += diagonal[j]
        distance[j] = np.inf
        combine(far, distance, out=far)
        if distance.min() <= tolerance * (largest + diagonal[j]):
            far[distance <= tolerance * (diagonal + diagonal[j])] = -np.inf
        far[j] = -np.inf
    return np.asarray(chosen, dtype=np.intp)


def spread_rows(sample: Sample, n_rows: int, combine: Combine) -> np.ndarray:
    """Places, within the sample, of the row nearest to the mean and of rows far from those before them."""
    first, diagonal = central_row_of(sample), sample.diagonal
    column = sample.column(first)
    distances = diagonal + diagonal[first] - 2.0 * column
    distances[first] = 0.0
    others = far_rows(sample.column, diagonal, distances, n_rows - 1, combine, copies_tolerance(column))
    return np.append(first, others)


def copies_tolerance(values: Array) -> float:
    """How far apart copies of a row may appear, by the precision of the rows or kernel values."""
    return COPIES_FLOAT32 if values.dtype == np.float32 else COPIES


def mean_of(rows: Array, weights: np.ndarray | None) -> np.ndarray:
    """The (weighted) mean of the rows, (d,)."""
    rows = as_float64(on_host(rows))
    if weights is None:
        return np.asarray(rows.mean(axis=0)).ravel()
    return np.asarray((weights / weights.sum()) @ rows).ravel()


def central_row(rows: Array, weights: np.ndarray | None) -> int:
    """The row (of positive weight) nearest to the mean of the rows."""
    mean = mean_of(rows, weights)
    if scipy.sparse.issparse(rows):
        return _smallest(row_dot(rows, rows) - 2.0 * (rows @ mean), weights)
    offsets = to_numpy(rows) - mean
    return _smallest(row_dot(offsets, offsets), weights)


def central_of_gram(gram: Array, weights: np.ndarray | None) -> int:
    """The row nearest to the mean of the rows in feature space, by their gram."""
    mass = np.ones(gram.shape[0]) if weights is None else weights
    return _smallest(gram.diagonal() - 2.0 * np.asarray(gram @ mass).ravel() / mass.sum(), weights)


def _central(gram: KernelGram, weights: np.ndarray | None) -> int:
    """The row nearest to the mean of the rows; for rows without a mean, to the mean of their features."""
    if not gram.kernel.rows_only:
        return central_row(gram.rows, weights)
    whole = gram.rows if gram.kernel.precomputed else gram.among(np.arange(gram.rows.shape[0]))
    return central_of_gram(whole, weights)


def _smallest(distances: np.ndarray, weights: np.ndarray | None) -> int:
    return int(np.argmin(distances if weights is None else np.where(weights > 0, distances, np.inf)))


def central_row_of(sample: Sample) -> int:
    """The sampled row nearest to the mean; for rows without a mean, to the mean of their features."""
    weights = sample.rows.weights
    if not sample.kernel.rows_only:
        return central_row(sample.all_values, weights)
    return central_of_gram(to_numpy(sample.evaluation.gram), sample.evaluation.weights)


def dissimilar_nodes(gram: KernelGram, n_nodes: int, weights: np.ndarray | None, *, mean: bool) -> Selection:
    """The mean of the rows, or the row nearest to it, then rows with the largest sum of distances to the
    nodes so far."""
    rows, diagonal = gram.rows, gram.diagonal
    mean = mean and not gram.kernel.rows_only
    if mean:
        point = like(mean_of(rows, weights)[None, :], rows)
        point = type(rows)(point) if scipy.sparse.issparse(rows) else point
        first = -1
        distances = diagonal + float(gram.kernel.diagonal(point)[0]) - 2.0 * gram.at_point(point)
    else:
        first = _central(gram, weights)
        distances = diagonal + diagonal[first] - 2.0 * gram.column(first)
        distances[first] = 0.0
    if weights is not None:
        distances[weights == 0] = 0.0
    others = far_rows(gram.column, diagonal, distances, n_nodes - 1, np.add, copies_tolerance(rows))
    nodes = np.append(first, others)
    kernel, points = gram.kernel.at(rows, nodes[1:] if mean else nodes)
    if mean:
        stack = scipy.sparse.vstack if scipy.sparse.issparse(rows) else namespace(rows).concat
        points = stack([point, points])
    return Selection(kernel, points, None if mean else nodes, {"rule": "dissimilar", "nodes": nodes})
