"""The principal coordinates in which free points are moved.

Let points s lie in an affine subspace that holds most of the rows' variance.  With x_r a row's coordinates in it and
e(x) the rest of the row,

    Gaussian:           k(x, s) = exp(-gamma |e(x)|^2) exp(-gamma |x_r - s_r|^2)
    function of x's:    k(x, s) = f(x_r's_r)
    cosine:             k(x, s) = |x_r| / |x| cos(x_r, s_r)

holds exactly.  So the rest of a row contributes a single factor, `row_scale`, and points are moved in, say, 30
coordinates instead of 784 pixels.  At the end, one pass over the full rows gives the gradient dS in all input
directions.  With V the principal directions and B the Gauss-Newton matrix of captured variance (search/objective.py),
which is the same for every coordinate, a last step leaves the subspace,

    S <- S + a B^-1 dS (I - V V')

where a <= 1 limits the step's length; the step is dropped if captured variance does not increase.  It gains more than
twice as many coordinates would, and costs less than a step in those.

For linear and cosine kernels the best points themselves lie along the principal directions of the (normalised) rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from sklearn.utils.extmath import randomized_svd

from ..arrays import (
    TINY,
    Array,
    add_to_diagonal,
    as_float64,
    cholesky,
    is_numpy,
    is_torch,
    like,
    namespace,
    row_dot,
    solve_factored,
    to_numpy,
    top_eigh,
)
from ..fit.rowset import POINTS_FOR_THREADS, RowSet
from ..fit.sample import Sample
from ..kernels import Kernel, held
from ..kernels.blocks import dense
from ..numerics import HALF_THE_DIGITS
from ..rows.sampling import unit_weights
from ..threads import CACHED_ROWS, cached_property, ordered_map, row_ranges, side_by_side
from .lbfgs import Ascent
from .objective import CapturedVariance
from .objective_cuda import images_on_device

SHORT_SIDE = 1000  # for at most this many rows, a basis of their span is computed from their gram
# Added to the diagonal of the points' gram before a linear system is solved with it, relative to the largest diagonal
# value (on a device: to the mean).
NUGGET = 1e-9

# Sparse rows with at most this many values, zeros included, are made dense if they cannot be projected on a subspace.
MAX_DENSE_VALUES = 2**22


@dataclass(frozen=True)
class Coordinates:
    """The coordinates in which points are moved: a subspace, in units of the kernel's width; and the rows in them."""

    kernel: Kernel  # the kernel in these coordinates, with width one
    rows: Array  # (n, r)
    row_scale: Array | None  # (n,) factors of the rows' kernel values; None if all are one
    scale: Any  # rows are multiplied by it: a number, or one for each column
    origin: Array | None  # (d,) subtracted from rows; None if it is zero
    basis: Array | None  # (d, r) orthonormal columns; None if the subspace is the whole input space
    lost_exponent: float = 0.0  # mean of gamma |e(x)|^2

    def cross_gram(self, moved: Array, rows: slice) -> Array:
        """k(rows, points) for a slice of the rows and points in these coordinates."""
        cross = self.kernel(self.rows[rows, :], moved)
        return cross if self.row_scale is None else cross * self.row_scale[rows, None]

    def images_of_exact(self, moved: Array, evaluation: RowSet) -> tuple[Array, Array | None]:
        """k(S, X) d for the `row_coef` d of exact kernel PCA, (m, M), and its components' coefficients over the points.

        These are the coefficients of their projections on the span; None if K_SS has no Cholesky factor.
        """
        n, row_coef = evaluation.size, like(evaluation.exact.row_coef, moved)
        if is_torch(moved) and self._near:
            return images_on_device(self.kernel, moved, self.rows[:n, :], row_coef, NUGGET)
        gram, xp = self.kernel(moved, moved), namespace(moved)
        factor = cholesky(add_to_diagonal(gram, NUGGET * float(xp.max(xp.linalg.diagonal(gram)))))
        parts = row_ranges(n, CACHED_ROWS if is_numpy(moved) and len(moved) >= POINTS_FOR_THREADS else n)
        n_threads = evaluation.n_threads
        images = ordered_map(lambda part: self.cross_gram(moved, part).T @ row_coef[part, :], parts, n_threads)
        image = reduce(add, images)
        return image, None if factor is None else solve_factored(factor, image)

    @cached_property
    def _near(self) -> bool:
        return self.row_scale is None and self.kernel.is_near(self.rows)

    def points(self, moved: Array) -> Array:
        """Moved points, converted from these coordinates to input space."""
        points = self.kernel.within(moved) / self.scale
        if self.basis is not None:
            points = points @ self.basis.T
        return points if self.origin is None else points + self.origin

    def inside(self, points: Array) -> np.ndarray:
        """Points of input space, projected on the subspace and converted to these coordinates."""
        inside = as_float64(points)
        if self.origin is not None:
            inside = inside - self.origin
        if self.basis is not None:
            inside = inside @ self.basis
        return np.asarray(dense(inside) * self.scale)


def movable(sample: Sample, found: Callable[[], Coordinates]) -> bool:
    """Whether points can be moved.

    The kernel must be differentiable and must not be known to be indefinite, because captured variance would then have
    no upper bound.  Sparse rows must have few columns or be close to a subspace.  `found`, which computes coordinates,
    is called only for sparse rows.
    """
    X, kernel, held_columns = sample.rows.X, sample.kernel, sample.held_columns
    if not (kernel.differentiable and kernel.moves) or kernel.definite is False or len(held_columns) == X.shape[1]:
        return False
    if not scipy.sparse.issparse(X):
        return True
    # Without `factors`, as for sums of absolute differences, the rows cannot be projected on a subspace.
    if held_columns or not sample.kernel.factors:
        return sample.size * X.shape[1] <= MAX_DENSE_VALUES
    if X.shape[1] * sample.plan.most_sparse_directions > sample.plan.most_dense_values:
        return False
    return found().lost_exponent <= sample.plan.max_lost_of_sparse


def coordinates_beside_exact(sample: Sample, n_points: int) -> Coordinates | None:
    """`coordinates` of the sample, computed in one thread while another computes exact kernel PCA, which is cached.

    None, and nothing is computed, if there is only one thread, if `n_points` need more evaluation rows, if the kernel
    has no `lifts`, or if the rows are not a numpy array.
    """
    rows = sample.evaluation
    later = rows.size < min(sample.plan.evaluation_rows_for(n_points), sample.size)
    if sample.n_threads > 1 and not later and sample.kernel.lifts and is_numpy(sample.rows.X):
        _ = rows.gram  # computed first, because this uses all threads

        def exact() -> None:
            _ = rows.exact

        found = side_by_side([exact, lambda: coordinates(sample)], sample.n_threads)
        return found[1]
    return None


def coordinates(sample: Sample, *, for_good: bool = False) -> Coordinates:
    """The coordinates in which points are moved; `for_good` if no last step will lead out of the subspace."""
    scale, unit = sample.kernel.unit(sample.evaluation.given)
    if sample.held_columns:
        values = as_float64(dense(sample.rows.values))
        # Scaling by powers of two is exact, so values in held columns do not change.
        exact = 2.0 ** np.round(np.log2(to_numpy(scale) * np.ones(values.shape[1])))
        unit, scale = sample.kernel.stretched(tuple(1.0 / exact)), like(exact, values)
        return Coordinates(held(unit, sample.held_columns), values * scale, None, scale, None, None)
    if scipy.sparse.issparse(sample.rows.X) and not sample.kernel.factors:  # `unit` has lost widths of columns
        return Coordinates(unit, as_float64(dense(sample.rows.values)) * scale, None, scale, None, None)
    if scipy.sparse.issparse(sample.rows.X):
        return _sparse_coordinates(sample, scale, unit)
    if not sample.kernel.lifts:
        values = as_float64(sample.rows.values)
        short = is_numpy(values) and unit.isotropic and _is_short(*values.shape)
        basis = _row_space(values) if short else None  # in the span of the rows, inner products are the same
        values = values if basis is None else values @ basis
        return Coordinates(unit, values * scale, None, scale, None, basis)
    max_lost = sample.plan.max_lost_exponent / scale**2
    found = _in_subspace(sample, max_lost, for_good) if is_numpy(sample.rows.X) else None
    if found is None:
        return Coordinates(unit, as_float64(sample.all_values) * scale, None, scale, sample.origin, None)
    projected, lengths, basis = found
    lost = np.maximum(lengths - row_dot(projected, projected), 0.0)
    projected = as_float64(projected) * scale
    row_scale = unit.row_scale(row_dot(projected, projected), as_float64(lost) * scale**2)
    return Coordinates(unit, projected, row_scale, scale, sample.origin, as_float64(basis))


def _in_subspace(sample: Sample, max_lost: float, for_good: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The rows' coordinates along a few principal directions, their squared lengths, and the directions (d, r).

    There are as few directions as leave at most `max_lost` of the rows' mean squared length outside.  None if they are
    too many to save anything.
    """
    n, d, plan = sample.size, sample.rows.X.shape[1], sample.plan
    if d <= plan.min_features:
        return None
    some = sample.values(slice(0, sample.n_evaluation))
    length = float(np.vdot(some, some)) / len(some)
    max_lost = plan.lost_of_wide * length if max_lost > plan.wide_kernel * length else max_lost
    least = plan.least_directions(sample.n_components)
    n_directions = max(plan.first_directions, least)
    while n_directions <= min(n, d) // 2:
        rows = _some_rows(sample, n if for_good else plan.rows_per_direction * n_directions)
        basis, lost = _leading_directions(rows, n_directions)
        if lost <= max_lost:
            found = _cut(sample, *_projected(sample, basis), least, max_lost)
            if found is not None:
                return found
        n_directions *= 2
    if not _is_short(n, d):
        return None
    return _projected(sample, _row_space(sample.all_values[sample.search, :]))


def _some_rows(sample: Sample, n_rows: int) -> np.ndarray:
    """About `n_rows` of the search rows, to estimate directions from."""
    if sample.rows.whole:
        return sample.all_values[:: max(1, sample.size // n_rows)]
    start = sample.n_evaluation
    return sample.values(slice(start, min(start + n_rows, sample.size)))


def _leading_directions(rows: np.ndarray, n_directions: int) -> tuple[np.ndarray, float]:
    """Approximate leading principal directions (d, r), and an upper estimate of the mean squared length that they lose.

    They take two passes of subspace iteration.  The estimate is what the directions of the first pass lose.
    """
    d = rows.shape[1]
    basis = np.random.default_rng(0).standard_normal((d, min(d, n_directions + 8))).astype(rows.dtype)
    few = rows[::4]  # a quarter of the rows is enough for the first pass; without it, .1 % of captured variance is lost
    basis, _ = np.linalg.qr(few.T @ (few @ basis))
    scores = rows @ basis
    lost = (float(np.vdot(rows, rows)) - float(np.vdot(scores, scores))) / len(rows)
    return np.linalg.qr(rows.T @ scores)[0], lost


def _projected(sample: Sample, basis: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The coordinates of all rows of the sample along a basis, their squared lengths, and the basis."""
    scores = np.empty((sample.size, basis.shape[1]), dtype=basis.dtype)
    lengths = np.empty(sample.size, dtype=basis.dtype)

    def project(part: slice) -> None:  # a few rows at a time, because all full rows at once would take much memory
        rows = sample.values(part)
        np.matmul(rows, basis, out=scores[part])
        lengths[part] = row_dot(rows, rows)

    list(ordered_map(project, row_ranges(sample.size, CACHED_ROWS), sample.n_threads))
    return scores, lengths, basis


def _cut(
    sample: Sample, scores: np.ndarray, lengths: np.ndarray, basis: np.ndarray, least: int, max_lost: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The results of `_projected`, for the fewest principal directions that lose at most `max_lost`, at least `least`.

    None if all directions of the basis lose more than that.
    """
    searched = scores[sample.search]
    variances, rotation = top_eigh((searched.T @ searched).astype(np.float64) / len(searched))
    lost = float(lengths[sample.search].mean(dtype=np.float64)) - np.cumsum(variances)
    if lost[-1] > max_lost:
        return None
    rotation = rotation[:, : max(int(np.argmax(lost <= max_lost)) + 1, least)].astype(basis.dtype)
    return scores @ rotation, lengths, basis @ rotation


def lifted(sample: Sample, c: Coordinates, objective: CapturedVariance, moved: np.ndarray) -> np.ndarray:
    """Points in input space, moved once more in the directions outside the subspace of the search."""
    assert c.basis is not None
    narrow = objective.light(moved, sample.evaluation.exact.captured)
    points = moved @ (c.basis / c.scale).T

    def rows_at(rows: slice) -> np.ndarray:
        first = sample.search.start
        return sample.values(slice(first + rows.start, first + rows.stop, rows.step))

    found = narrow.beyond(moved, rows_at)
    step = found.by_metric(found.gradient)
    step -= (step @ c.basis) @ c.basis.T
    longest = c.scale * float(row_dot(step, step).max()) ** 0.5
    step *= min(1.0, Ascent.FIRST_MOVE_AT_MOST / max(longest, TINY))
    # Every k-th row, which contains heavy rows in proportion.
    some = slice(0, objective.n_rows, max(1, objective.n_rows // sample.plan.trial_rows))
    before = narrow.part(some)
    trial = replace(before, rows=(rows_at(some) * c.scale).astype(narrow.rows.dtype, copy=False), row_scale=None)
    least = before.captured(moved)
    if trial.captured(c.scale * (points + step)) > least:
        points = points + step
    return points if c.origin is None else points + c.origin


def _is_short(n_rows: int, n_columns: int) -> bool:
    """Whether rows are few and columns many, so that the rows are best represented in the space that they span."""
    return n_rows <= SHORT_SIDE and 2 * n_rows < n_columns


def _row_space(rows: np.ndarray) -> np.ndarray:
    """An orthonormal basis (d, r) of the span of a few rows, computed from their n x n gram."""
    exact = as_float64(rows)
    values, vectors = top_eigh(exact @ exact.T)
    real = values > len(rows) * np.finfo(np.float64).eps * values[0]
    return np.asarray((exact.T @ (vectors[:, real] / np.sqrt(values[real]))).astype(rows.dtype, copy=False))


def _sparse_coordinates(sample: Sample, scale: float, unit: Kernel) -> Coordinates:
    rows = sample.rows.values.astype(np.float64) * scale
    n_directions = min(sample.plan.most_sparse_directions, min(rows.shape) - 1)
    if unit.linear_in_rows:
        least = sample.plan.least_directions(sample.n_components)
        if sample.evaluation.is_all:
            directions = _directions_of_exact(unit.linear_features(rows), sample)
        else:
            directions = directions_of_sparse(rows, unit, sample, max(1, min(least, n_directions)))
    else:
        # Along the components of exact kernel PCA, what is linear in them is captured whole.
        n_exact = min(sample.n_components + 1, n_directions - 1) if sample.evaluation.is_all else 0
        _, _, directions = randomized_svd(rows, max(1, n_directions - n_exact), n_iter=2, random_state=0)
        if n_exact:
            directions = np.vstack([directions, _directions_of_exact(rows, sample, directions)[:n_exact]])
    projected = np.asarray(rows @ directions.T)
    lengths = row_dot(rows, rows)
    inside = np.einsum("ij,ij->i", projected, projected)
    lost = np.maximum(lengths - inside, 0.0)
    lost_exponent = float(lost.mean()) if unit.lifts else 0.0
    return Coordinates(unit, projected, unit.row_scale(inside, lost), scale, None, directions.T, lost_exponent)


def _directions_of_exact(rows: Array, sample: Sample, others: np.ndarray | None = None) -> np.ndarray:
    """Directions of the components of exact kernel PCA of all rows, as far as they are linear, and of the mean.

    They are orthogonal to `others`, which are orthonormal.  A mean of zero, for example, has no direction.
    """
    over = sample.evaluation
    wanted = np.hstack([rows.T @ to_numpy(over.exact.row_coef), np.asarray(rows.T @ over.unit_weights)[:, None]])
    least = HALF_THE_DIGITS * np.linalg.norm(wanted, axis=0)
    if others is not None:
        for _ in range(2):  # one projection leaves rounding errors in the span
            wanted = wanted - others.T @ (others @ wanted)
    return np.asarray(np.linalg.qr(wanted[:, np.linalg.norm(wanted, axis=0) > least])[0].T)


def principal_points(objective: CapturedVariance, n_points: int) -> Array:
    """The best points for a kernel that is linear in rows; fewer if the rows span fewer dimensions."""
    rows = objective.kernel.linear_features(objective.rows)
    if objective.row_scale is not None:
        rows = rows * objective.row_scale[:, None]
    directions = _principal_directions(rows, objective.weights, min(n_points, *rows.shape), objective.center)
    return objective.kernel.with_features(directions)


def _principal_directions(rows: Array, weights: Array | None, n_directions: int, center: bool) -> Array:
    """The leading principal directions of the rows, (n_directions, r), from the rows' scatter or, if smaller, gram."""
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
    """Principal directions of sparse rows under a linear or cosine kernel, and the direction of their mean, (r, d)."""
    rows = unit.linear_features(rows)
    omega = unit_weights(sample.rows.weights, rows.shape[0])
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
    else:  # all directions are wanted (of a single row or column, for example), which ARPACK does not compute
        _, _, directions = np.linalg.svd(root[:, None] * (rows.toarray() - mean), full_matrices=False)
    basis, _ = np.linalg.qr(np.vstack([directions, mean]).T)
    return np.asarray(basis.T)
