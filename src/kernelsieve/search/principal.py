"""Linear and cosine kernels: the best points there are lie along the principal directions of the (normalised) rows."""

from __future__ import annotations

import numpy as np
import scipy.sparse.linalg

from ..arrays import Array, like, namespace, top_eigh
from ..fit.sample import Sample
from ..kernels import Kernel
from ..rows.sampling import shares_of
from .objective import CapturedVariance


def principal_points(objective: CapturedVariance, n_points: int) -> Array:
    """The best points for a kernel that is linear in rows; fewer if the rows span fewer dimensions."""
    rows = objective.kernel.linear_features(objective.rows)
    if objective.row_scale is not None:
        rows = rows * objective.row_scale[:, None]
    directions = _principal_directions(rows, objective.weights, min(n_points, *rows.shape), objective.center)
    return objective.kernel.with_features(directions)


def _principal_directions(rows: Array, weights: Array | None, n_directions: int, center: bool) -> Array:
    """The leading principal directions of the rows, (n_directions, r), through the smaller of their two grams."""
    xp = namespace(rows)
    n, r = rows.shape
    omega = xp.full_like(rows[:, 0], 1.0 / n) if weights is None else like(weights, rows)
    if center:
        rows = rows - omega @ rows
    rows = rows * xp.sqrt(omega)[:, None]
    if r <= n:
        return top_eigh(rows.T @ rows, n_directions)[1].T
    values, vectors = top_eigh(rows @ rows.T, n_directions)
    floor = 1e-30 + 1e-14 * float(values[0])
    return (rows.T @ (vectors / xp.sqrt(xp.where(values > floor, values, xp.full_like(values, floor))))).T


def directions_of_sparse(rows: Array, unit: Kernel, sample: Sample, n_directions: int) -> np.ndarray:
    """Principal directions (r, d) of sparse rows under a linear or cosine kernel, the direction of their mean
    included."""
    rows = unit.linear_features(rows)
    omega = shares_of(sample.rows.weights, rows.shape[0])
    root = np.sqrt(omega)
    mean = np.asarray(omega @ rows).ravel() if sample.center else np.zeros(rows.shape[1])
    operator = scipy.sparse.linalg.LinearOperator(
        rows.shape,
        matvec=lambda x: root * (rows @ x.ravel() - mean @ x.ravel()),
        rmatvec=lambda y: rows.T @ (root * y.ravel()) - mean * float(root @ y.ravel()),
        dtype=np.float64,
    )
    if n_directions < min(rows.shape):
        start = np.random.default_rng(0).standard_normal(min(rows.shape))
        _, _, directions = scipy.sparse.linalg.svds(operator, n_directions, tol=1e-4, v0=start)
    else:  # a single column or row, for which ARPACK finds too few directions
        _, _, directions = np.linalg.svd(root[:, None] * (rows.toarray() - mean), full_matrices=False)
    basis, _ = np.linalg.qr(np.vstack([directions, mean]).T)
    return np.asarray(basis.T)
