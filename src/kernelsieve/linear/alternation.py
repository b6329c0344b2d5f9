"""Sparse PCA of Zou, Hastie & Tibshirani (2006) by alternation.

Axes A (orthonormal rows a_j) and loadings B (rows b_j) minimise, for the rows x_i of X,

    sum_i |x_i - A'B x_i|^2 + sum_j (l2 |b_j|^2 + alpha_j |b_j|_1)

For fixed A each b_j is an elastic net of X a_j on X (`elastic_net`); for fixed B the best A is the polar factor of
B X'X.  Both steps lower the objective for given alphas (relative ones move with the axes).  B is normalised once, after
the last step: inside the loop that would undo the shrinkage which the next step relies on.

    simultaneous    all components at once, as published
    sequential      one after another, a_k orthogonal to a_1 .. a_k-1 (Sjoestrand et al.'s SpaSM): the first
                    components do not depend on how many follow

Few rows R (n of them, S = R'R) and infinite l2 need no axes on the way.  With the scores Z = B R' of the loadings the
images are Z R, their polar factor T Z R has T = (Z R R' Z')^-1/2, k x k, and the next step's targets are (T Z R R') R:
of size p there is one product a step instead of three, and none where the support is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from .elastic_net import Loadings, Penalty, solve_loadings, thresholded
from .scatter import DENSE_LIMIT, RowScatter, Scatter, used_columns

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
    return together(found)


def refit(scatter: Scatter, solution: SparseSolution, l2: float, *, sequential: bool, stop: Stop) -> SparseSolution:
    """The same problem without the l1 penalty, on the supports that it found: undoes the shrinkage."""
    penalty = Penalty(l2, support=solution.loadings != 0)
    return sparse_pca(scatter, penalty, solution.axes, sequential=sequential, stop=stop, warm=solution.loadings)


def _alternate(
    scatter: Scatter, penalty: Penalty, axes: np.ndarray, warm: np.ndarray, stop: Stop, earlier: np.ndarray
) -> SparseSolution:
    loadings = Loadings(warm, warm, np.zeros(len(axes)))
    converged, n_iter = False, 0
    if math.isinf(penalty.l2) and not len(earlier) and _few_rows(scatter):
        axes, loadings, n_iter, converged = _in_rows(scatter, penalty, axes, loadings, stop)
    while not converged and n_iter < stop.max_iter:
        n_iter += 1
        before = loadings.values
        loadings = solve_loadings(scatter, penalty, axes, before)
        axes = _nearest_axes(loadings.images, axes, earlier)
        converged = _settled(before, loadings.values, stop)
    return SparseSolution(axes, loadings.values, loadings.images, loadings.alpha, n_iter, converged)


def _settled(before: np.ndarray, values: np.ndarray, stop: Stop) -> bool:
    return float(np.linalg.norm(values - before)) <= stop.tol * float(np.linalg.norm(values))


def _few_rows(scatter: Scatter) -> TypeGuard[RowScatter]:
    return isinstance(scatter, RowScatter) and scatter.mean is None and scatter.n_rows <= DENSE_LIMIT


def _in_rows(
    scatter: RowScatter, penalty: Penalty, axes: np.ndarray, loadings: Loadings, stop: Stop
) -> tuple[np.ndarray, Loadings, int, bool]:
    """The steps above by scores of the rows: axes, loadings, number of steps and whether they settled.

    They end early where components are empty or alike: what is to become of those axes, scores do not say.
    """
    used = slice(None) if penalty.support is None else np.flatnonzero(penalty.support.any(axis=0))
    support = None if penalty.support is None else penalty.support[:, used]
    columns = scatter.rows[:, used]  # (n, c): no loadings elsewhere
    values, alpha = loadings.values[:, used], loadings.alpha
    last: np.ndarray | None = None  # (k, n): the axes are its product with the rows
    converged, n_iter, seen = False, 0, axes @ scatter.rows.T
    while not converged and n_iter < stop.max_iter:
        found, prices = thresholded(penalty, seen @ columns, support)
        chosen = used_columns(found)
        scores = found @ columns.T if chosen is None else found[:, chosen] @ columns[:, chosen].T
        products = scores @ scatter.row_gram
        root = _inverse_root(products @ scores.T)
        if root is None:
            break
        n_iter += 1
        converged = _settled(values, found, stop)
        values, alpha, last, seen = found, prices, scores, root @ products
    if last is None:
        return axes, loadings, 0, False
    images, whole = last @ scatter.rows, np.zeros_like(axes)
    whole[:, used] = values
    return polar(images), Loadings(whole, images, alpha), n_iter, converged


def _nearest_axes(images: np.ndarray, axes: np.ndarray, earlier: np.ndarray) -> np.ndarray:
    """The orthonormal rows A, orthogonal to `earlier`, of the largest tr(A images').

    Empty components leave some of A open: a trace of the last axes keeps those where they were.
    """
    scale = float(np.linalg.norm(images)) or 1.0
    pulled = images + INERTIA * scale * axes
    return polar(pulled - (pulled @ earlier.T) @ earlier if len(earlier) else pulled)


def polar(rows: np.ndarray) -> np.ndarray:
    """The orthonormal rows nearest to given ones, (Y Y')^-1/2 Y."""
    root = _inverse_root(rows @ rows.T)  # many times faster than a singular value decomposition
    if root is not None:
        return root @ rows
    left, _, right = np.linalg.svd(rows, full_matrices=False)
    return left @ right


def _inverse_root(gram: np.ndarray) -> np.ndarray | None:
    """gram^-1/2, symmetric; None where that costs too many digits."""
    values, vectors = np.linalg.eigh(gram)
    if not values[0] > WELL_CONDITIONED * values[-1]:
        return None
    return (vectors / np.sqrt(values)) @ vectors.T


def together(parts: Sequence[SparseSolution]) -> SparseSolution:
    """Components that were found one after another, as one solution."""
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
