"""Sparse PCA of Zou, Hastie & Tibshirani (2006) by alternation.

Axes A (orthonormal rows a_j) and loadings B (rows b_j) minimise, for the rows x_i of X,

    sum_i |x_i - A'B x_i|^2 + sum_j (l2 |b_j|^2 + alpha_j |b_j|_1)

For fixed A each b_j is an elastic net of X a_j on X (`elastic_net`); for fixed B the best A is the polar factor of
B X'X.  Both steps lower the objective for given alphas (relative ones move with the axes).  B is normalised once, after
the last step: inside the loop that would undo the shrinkage which the next step relies on.

    simultaneous    all components at once, as published
    sequential      one after another, a_k orthogonal to a_1 .. a_k-1 (Sjoestrand et al.'s SpaSM): the first
                    components do not depend on how many follow
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .elastic_net import Loadings, Penalty, solve_loadings
from .scatter import Scatter

# Weight of the last axes in the next ones: decides where components are empty or alike, and nowhere else.
INERTIA = 1e-10
# Where the squares of singular values stay above this share of the largest, forming them costs four digits at most.
WELL_CONDITIONED = 1e-4
# Eigenvalues below this share of the largest are rounding.
NO_VARIANCE = 1e-12


@dataclass(frozen=True)
class Stop:
    """When the alternation ends: the relative change of all loadings, or a number of steps."""

    tol: float
    max_iter: int


@dataclass(frozen=True)
class SparseSolution:
    """Where the alternation ended."""

    axes: np.ndarray  # (k, p) orthonormal
    loadings: np.ndarray  # (k, p) as the objective has them
    images: np.ndarray  # (k, p) loadings S
    alpha: np.ndarray  # (k,)
    n_iter: int
    converged: bool

    def objective(self, scatter: Scatter, l2: float) -> float:
        """The objective above; for infinite l2 that of its limit,  sum_j |b_j|^2 - 2 a_j'S b_j + alpha_j |b_j|_1."""
        fit = -2 * float(np.vdot(self.axes, self.images))
        size = float(np.vdot(self.loadings, self.loadings))
        price = float(self.alpha @ np.abs(self.loadings).sum(axis=1))
        if math.isinf(l2):
            return fit + size + price
        return scatter.trace + fit + float(np.vdot(self.loadings, self.images)) + l2 * size + price


def sparse_pca(
    scatter: Scatter,
    penalty: Penalty,
    axes: np.ndarray,
    *,
    sequential: bool,
    stop: Stop,
    warm: np.ndarray | None = None,
) -> SparseSolution:
    """Sparse components from starting axes (k, p), and from `warm` loadings where there are some."""
    warm = np.zeros_like(axes) if warm is None else warm
    if not sequential:
        return _alternate(scatter, penalty, axes, warm, stop, np.empty((0, axes.shape[1])))
    found: list[SparseSolution] = []
    for j in range(len(axes)):
        earlier = np.concatenate([s.axes for s in found]) if found else np.empty((0, axes.shape[1]))
        start = _nearest_axes(axes[j : j + 1], axes[j : j + 1], earlier)
        found.append(_alternate(scatter, penalty.only(j), start, warm[j : j + 1], stop, earlier))
    return _together(found)


def refit(scatter: Scatter, solution: SparseSolution, l2: float, *, sequential: bool, stop: Stop) -> SparseSolution:
    """The same problem without the l1 penalty, on the supports that it found: undoes the shrinkage."""
    penalty = Penalty(l2, support=solution.loadings != 0)
    return sparse_pca(scatter, penalty, solution.axes, sequential=sequential, stop=stop, warm=solution.loadings)


def _alternate(
    scatter: Scatter, penalty: Penalty, axes: np.ndarray, warm: np.ndarray, stop: Stop, earlier: np.ndarray
) -> SparseSolution:
    loadings = Loadings(warm, warm, np.zeros(len(axes)))
    converged, n_iter = False, 0
    while not converged and n_iter < stop.max_iter:
        n_iter += 1
        before = loadings.values
        loadings = solve_loadings(scatter, penalty, axes, before)
        axes = _nearest_axes(loadings.images, axes, earlier)
        change = float(np.linalg.norm(loadings.values - before))
        converged = change <= stop.tol * float(np.linalg.norm(loadings.values))
    return SparseSolution(axes, loadings.values, loadings.images, loadings.alpha, n_iter, converged)


def _nearest_axes(images: np.ndarray, axes: np.ndarray, earlier: np.ndarray) -> np.ndarray:
    """The orthonormal rows A, orthogonal to `earlier`, of the largest tr(A images').

    Empty components leave some of A open: a trace of the last axes keeps those where they were.
    """
    scale = float(np.linalg.norm(images)) or 1.0
    pulled = images + INERTIA * scale * axes
    return polar(pulled - (pulled @ earlier.T) @ earlier if len(earlier) else pulled)


def polar(rows: np.ndarray) -> np.ndarray:
    """The orthonormal rows nearest to given ones, (Y Y')^-1/2 Y."""
    values, vectors = np.linalg.eigh(rows @ rows.T)
    if values[0] > WELL_CONDITIONED * values[-1]:  # many times faster than a singular value decomposition
        return (vectors / np.sqrt(values)) @ (vectors.T @ rows)
    left, _, right = np.linalg.svd(rows, full_matrices=False)
    return left @ right


def _together(parts: Sequence[SparseSolution]) -> SparseSolution:
    return SparseSolution(
        np.concatenate([s.axes for s in parts]),
        np.concatenate([s.loadings for s in parts]),
        np.concatenate([s.images for s in parts]),
        np.concatenate([s.alpha for s in parts]),
        max(s.n_iter for s in parts),
        all(s.converged for s in parts),
    )


def unit_rows(loadings: np.ndarray) -> np.ndarray:
    """Loadings of unit length, the largest of each component positive; empty components stay zero."""
    lengths = np.linalg.norm(loadings, axis=1)
    largest = loadings[np.arange(len(loadings)), np.argmax(np.abs(loadings), axis=1)]
    signs_over_lengths = np.sign(largest) / np.where(lengths > 0, lengths, 1.0)
    return loadings * signs_over_lengths[:, None] + 0.0  # no negative zeros


def adjusted_variance(scatter: Scatter, components: np.ndarray) -> np.ndarray:
    """What each component adds to those before it: the squared diagonal of R in X B' = QR.

    The scores of sparse components are correlated, so that their variances would count shared parts twice.
    """
    values, vectors = np.linalg.eigh(components @ scatter.multiply(components).T)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T  # of the same R as the scores
    return np.diag(np.linalg.qr(root, mode="r")) ** 2
