"""The compression methods: each finds a support of a given size, and one that reaches a target error.

All methods except "optimized" choose among candidates, which targeted greedy selection takes from the original's
points.

Candidates are either put in an order, of which every size is a prefix, or chosen by a lasso.

Backward elimination.  With H = (F'F)^-1 and B the refit on the remaining points, leaving out point i and refitting the
others raises the squared error by exactly

    sum_k b_ik^2 / H_ii          and          B <- B - H_.i b_i' / H_ii,     H <- H - H_.i H_i. / H_ii

Schoelkopf et al. (1999): with beta the unit eigenvector of the gram's smallest eigenvalue lambda (in magnitude, for an
indefinite kernel), |sum_j beta_j phi(s_j)| = sqrt(lambda) is nearly zero, so any point can be expressed by the others
with an error of sqrt(lambda) |a_i / beta_i|.  The point with the smallest error is removed, and A <- A - beta a_i' /
beta_i.

The l1 programme: a group lasso over the candidates, one group for the coefficients of each.

    min_B  |Y - F B|^2 / 2 + alpha sum_i |F_i| |b_i|_2

Its path runs from no points to many as alpha falls.  Only the choice of points is taken from it: the lasso shrinks
coefficients, and the refit that follows undoes that.

`compress_expansion` leads from a request (a method, and a number of points or an error) to a compressed expansion.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

import numpy as np
import scipy.linalg
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import MultiTaskLasso

from ..arrays import Array, as_float64, itemsize, to_numpy
from ..fit.expansion import KernelExpansion
from ..fit.indefinite import is_indefinite
from ..fit.moments import gram_of
from ..fit.sample import Sample
from ..rows.sampling import SampledRows
from ..rules.distances import kmeans_centers
from ..search.subspace import Coordinates, coordinates, movable
from ..solvers.greedy import best_for_targets, greedy
from ..threads import cached_property
from .error import (
    ExpansionError,
    FeatureError,
    LeastSquares,
    ReducedPoints,
    Refit,
    ScoreError,
    chosen,
    local_source,
    move,
    projected_mean,
)

SHRINK = 0.8  # ratio of successive alphas on the path


def removal_order(problem: LeastSquares) -> np.ndarray:
    """Candidates in the order of backward elimination, the last removed first.  O(r^3) for r of them."""
    columns = problem.columns
    active = np.arange(columns.shape[1])
    removed: list[int] = []
    while len(active) > 1:
        alive = _eliminate(columns[:, active], problem.target, removed, active)
        active = active[alive]
    return np.asarray([*active, *reversed(removed)], dtype=np.intp)


def least_lost_last(columns: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Candidates in the order of backward elimination, the last removed first: every prefix is a reduced set."""
    return removal_order(LeastSquares(columns, target, 0.0, float(np.sum(target**2))))


def _eliminate(columns: np.ndarray, target: np.ndarray, removed: list[int], names: np.ndarray) -> np.ndarray:
    """Remove points until the inverse must be recomputed, or half of them are gone; return those that are left."""
    inverse, coef = _inverse_and_refit(columns, target)
    alive = np.ones(len(names), dtype=bool)
    floor = 1e-8 * np.diagonal(inverse)  # below this, subtractions have left fewer than half of the digits
    while True:
        diagonal = np.where(alive, np.diagonal(inverse), np.inf)
        increase = np.where(alive, np.einsum("ij,ij->i", coef, coef), np.inf) / np.where(alive, diagonal, 1.0)
        i = int(np.argmin(increase))
        column = inverse[:, i] / diagonal[i]
        coef -= column[:, None] * coef[i]
        inverse -= column[:, None] * inverse[i]
        coef[i] = inverse[i] = inverse[:, i] = 0.0
        alive[i] = False
        removed.append(int(names[i]))
        worn = np.any(np.diagonal(inverse)[alive] < floor[alive])
        if worn or 2 * np.count_nonzero(alive) <= max(len(names), 3):
            return alive


def _inverse_and_refit(columns: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(F'F)^-1 and the refit, through R of F = Q R, which does not square the condition number."""
    n_columns = columns.shape[1]
    # The ridge avoids a division by zero for points without effect, whose columns are zero (perhaps after centring).
    ridge = 1e-11 * np.sqrt(np.mean(np.sum(columns**2, axis=0)))
    q, r = np.linalg.qr(np.vstack([columns, ridge * np.eye(n_columns)]))
    half = scipy.linalg.solve_triangular(r, np.eye(n_columns), check_finite=False)
    return half @ half.T, half @ (q[: len(columns)].T @ target)


def eigen_order(gram: np.ndarray, coef: np.ndarray, n_keep: int) -> np.ndarray:
    """Candidates in the order of the eigenvector rule, which removes all but `n_keep`.  O(r^3) for each removal."""
    active = np.arange(len(gram))
    coef = np.array(coef, dtype=np.float64)
    removed: list[int] = []
    while len(active) > n_keep:
        values, vectors = np.linalg.eigh(gram[np.ix_(active, active)])
        beta = vectors[:, np.argmin(np.abs(values))]
        cost = np.linalg.norm(coef, axis=1) / np.maximum(np.abs(beta), np.finfo(np.float64).tiny)
        i = int(np.argmin(cost))
        coef -= (beta / beta[i])[:, None] * coef[i]
        removed.append(int(active[i]))
        active, coef = np.delete(active, i), np.delete(coef, i, axis=0)
    return np.asarray([*active, *reversed(removed)], dtype=np.intp)


def prefix_errors(problem: LeastSquares, order: np.ndarray) -> np.ndarray:
    """Relative error of the refit on the first 0, 1, ..., r candidates of an order: one QR gives them all."""
    q, _ = np.linalg.qr(problem.columns[:, order])
    inside = q.T @ problem.target
    unreachable = problem.outside + float(np.sum((problem.target - q @ inside) ** 2))
    # |inside_j|^2 is the gain of candidate j: summed from the end, small errors keep their digits
    gains = np.zeros(len(order))
    gains[: len(inside)] = np.sum(inside**2, axis=1)
    left = np.concatenate([np.cumsum(gains[::-1])[::-1], [0.0]])
    return np.sqrt((left + unreachable) / problem.scale)


def l1_path(problem: LeastSquares) -> Iterator[np.ndarray]:
    """Ever larger choices of candidates as alpha falls, each ordered by the weight of its members."""
    lengths = np.linalg.norm(problem.columns, axis=0)
    columns = problem.columns / np.where(lengths > 0, lengths, 1.0)
    pull = np.linalg.norm(columns.T @ problem.target, axis=1)
    if not pull.any():  # zero components: any candidate can expand them
        yield np.zeros(1, dtype=np.intp)
        return
    alpha = float(pull.max()) / len(columns)  # scikit-learn divides the squares by the number of rows
    smallest = 1e-7 * alpha
    # a loose tolerance, because the choice of points is settled long before the digits of their coefficients
    lasso = MultiTaskLasso(fit_intercept=False, warm_start=True, tol=1e-3, max_iter=200)
    longest = 0
    while alpha > smallest:
        alpha *= SHRINK
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            lasso.set_params(alpha=alpha).fit(columns, problem.target)
        weight = np.linalg.norm(lasso.coef_, axis=0)
        order = np.argsort(-weight, kind="stable")[: np.count_nonzero(weight)]
        if len(order) > longest:
            longest = len(order)
            yield order


MAX_POOL = 2000  # greedy selection starts from at most this many of the original's points, chosen at random


@dataclass(frozen=True)
class ReducedSet:
    """A support with its refit, and how it was found."""

    support: ReducedPoints
    refit: Refit
    n_steps: int = 1
    converged: bool = True


@dataclass(frozen=True)
class Candidates:
    """Points of the original that a compression may keep."""

    error: ExpansionError
    support: ReducedPoints

    @property
    def size(self) -> int:
        return self.support.size

    @cached_property
    def problem(self) -> LeastSquares:
        return self.error.least_squares(self.support)

    @cached_property
    def gram(self) -> np.ndarray:
        return to_numpy(gram_of(self.support.kernel, self.support.points))

    def kept(self, places: np.ndarray) -> ReducedSet:
        """The refit on some of the candidates."""
        assert self.support.indices is not None
        support = chosen(self.error.source, np.sort(self.support.indices[places]))
        return ReducedSet(support, self.error.refit(support))


def find_candidates(error: ExpansionError, most: int, rng: np.random.Generator) -> Candidates:
    """Up to `most` of the original's points, by targeted greedy selection, which leaves out near-copies."""
    source = error.source
    most = min(most, error.largest_support)
    pool = _random_points(source, MAX_POOL, rng)
    support = chosen(source, pool)
    gram = to_numpy(gram_of(support.kernel, support.points))
    if is_indefinite(
        source.kernel, gram
    ):  # an indefinite kernel's residuals are meaningless, so random points are as good
        return Candidates(error, chosen(source, _random_points(source, most, rng)))
    values = to_numpy(source.transform(source.points[pool], error.n_threads)) + source.offset
    order = greedy(lambda j: gram[:, j], np.diagonal(gram), min(most, len(pool)), best_for_targets, targets=values)
    return Candidates(error, chosen(source, pool[order]))


def _random_points(source: KernelExpansion, most: int, rng: np.random.Generator) -> np.ndarray:
    n_points = source.n_support
    return np.arange(n_points) if n_points <= most else np.sort(rng.choice(n_points, most, replace=False))


@dataclass
class Nested:
    """Prefixes of one order of the candidates, whose errors are all known at once."""

    candidates: Candidates
    order: np.ndarray
    enough_is_fewest: ClassVar[bool] = True  # whether no size below that of `enough` needs to be tried

    @cached_property
    def curve(self) -> np.ndarray:
        """Relative error on the first 0, 1, ..., r candidates."""
        return prefix_errors(self.candidates.problem, self.order)

    def at(self, n_support: int) -> ReducedSet:
        """A support of that size, or a smaller one if fewer candidates already leave no error."""
        return self.candidates.kept(self.order[:n_support])

    def enough(self, target: float) -> ReducedSet | None:
        """A support whose error is at most `target`, or None; the curve suggests a size, its refit decides."""
        first = int(np.argmax(self.curve <= target)) if np.any(self.curve <= target) else len(self.order)
        return _first_within(target, (self.at(m) for m in range(max(first, 1), len(self.order) + 1)))


@dataclass
class Lasso:
    """The heaviest candidates at the first alpha of the group lasso's path that selects enough of them."""

    candidates: Candidates
    enough_is_fewest: ClassVar[bool] = False

    @cached_property
    def path(self) -> list[np.ndarray]:
        return list(l1_path(self.candidates.problem))

    def at(self, n_support: int) -> ReducedSet:
        long_enough = (choice for choice in self.path if len(choice) >= n_support)
        return self.candidates.kept(next(long_enough, self.path[-1])[:n_support])

    def enough(self, target: float) -> ReducedSet | None:
        return _first_within(target, (self.candidates.kept(choice) for choice in self.path))


@dataclass
class Moving:
    """Points that are moved from several starts: candidates that removal leaves, k-means centres, a larger solution."""

    candidates: Candidates
    coordinates: Coordinates
    max_iter: int
    rng: np.random.Generator
    known: dict[int, np.ndarray] = field(default_factory=dict)  # points found so far, by their number
    enough_is_fewest: bool = False

    @cached_property
    def rows(self) -> Nested:
        return Nested(self.candidates, removal_order(self.candidates.problem))

    def at(self, n_support: int) -> ReducedSet:
        n_support = min(n_support, self.candidates.size)
        rows, error, c = self.rows.at(n_support), self.candidates.error, self.coordinates
        found = move(error.objective(c), self._starts(rows, n_support), self.max_iter)
        support = ReducedPoints(error.source.kernel, c.points(found.points), None)
        refit = error.refit(support)
        if not refit.total < rows.refit.total:
            return ReducedSet(rows.support, rows.refit, found.n_steps, found.converged)
        self.known[n_support] = found.points
        return ReducedSet(support, refit, found.n_steps, found.converged)

    def enough(self, target: float) -> ReducedSet | None:
        """Unmoved points that reach the target; or, if these are many, nine tenths as many moved ones that reach it."""
        found = self.rows.enough(target)
        if found is None or found.support.size <= 100:
            return found
        # Moving points takes seconds for each size that is tried.  If moving nine tenths of the points lowers their
        # error by less than one percent, as happens when no two rows are alike, no other size is tried.
        n_support = round(0.9 * found.support.size)
        tried, unmoved = self.at(n_support), self.rows.at(n_support)
        self.enough_is_fewest = tried.refit.total > max(target, 0.99 * unmoved.refit.total)
        return tried if tried.refit.total <= target else found

    def _starts(self, rows: ReducedSet, n_support: int) -> list[np.ndarray]:
        # the centres need not have converged, because they are moved afterwards
        centers = kmeans_centers(self.coordinates.rows, n_support, 3, self.rng)
        starts = [self.coordinates.inside(rows.support.points), centers]
        larger = min((m for m in self.known if m > n_support), default=None)
        if larger is not None:
            starts.append(self._shrunk(self.known[larger], n_support))
        return starts

    def _shrunk(self, points: np.ndarray, n_support: int) -> np.ndarray:
        """The points without those whose removal costs least."""
        error = self.candidates.error
        problem = error.least_squares(ReducedPoints(error.source.kernel, self.coordinates.points(points), None))
        return points[np.sort(removal_order(problem)[:n_support])]


Method: TypeAlias = Nested | Lasso | Moving


def fewest_within(method: Method, target: float) -> ReducedSet:
    """The fewest points whose error is at most `target`: a nested method knows them; others try several sizes."""
    found = method.enough(target)
    if found is None:
        reached = method.at(method.candidates.size)
        raise ValueError(
            f"target_error={target:.3g} is not reached: {reached.support.size} points leave an error of "
            f"{reached.refit.total:.3g}, and more are not tried. Give a larger target_error, or n_support"
        )
    if method.enough_is_fewest:
        return found
    failing, enough = 0, found.support.size
    while enough - failing > max(1, int(0.02 * enough)):  # the fewest to within two percent
        middle = max(failing + 1, min(round(math.sqrt(max(failing, 1) * enough)), enough - 1))
        tried = method.at(middle)
        if tried.refit.total <= target:
            found, enough = tried, tried.support.size
        else:
            failing = middle
    return found


def _first_within(target: float, tries: Iterable[ReducedSet]) -> ReducedSet | None:
    return next((found for found in tries if found.refit.total <= target), None)


COMPRESSION_METHODS = ("optimized", "removal", "l1", "eigen-removal")


@dataclass(frozen=True)
class CompressionRequest:
    """The arguments of `compress`."""

    method: str  # one of COMPRESSION_METHODS, or "auto"
    n_support: int | None
    target_error: float | None
    max_iter: int


@dataclass(frozen=True)
class Compression:
    """A compressed expansion, what it lost, and how it was found."""

    expansion: KernelExpansion
    indices: np.ndarray | None  # (m,) places in the original's support, None for moved points
    method: str
    error: np.ndarray  # (M,), relative
    total_error: float
    captured_share: float | None  # of the variance that the original captures on the rows; None if not measured
    curve: np.ndarray | None  # error with the first 0, 1, 2, ... points in the order of "removal"
    n_steps: int
    converged: bool


def error_on(expansion: KernelExpansion, rows: Array | None, kind: str, n_threads: int) -> ExpansionError:
    """The error that a compression keeps small: that of the scores, on rows, or without rows that of the components.

    An indefinite kernel has no distance in feature space, so the scores of the support points are used instead.
    """
    source = local_source(expansion)
    n_bytes = itemsize(expansion.points)
    if rows is not None:
        if expansion.kernel.precomputed:
            rows = expansion.kernel.bind(expansion.points)(rows)
        return ScoreError(source, as_float64(rows), kind, n_bytes, n_threads)
    if not source.kernel.definite and is_indefinite(source.kernel, gram_of(source.kernel, source.points)):
        return ScoreError(source, source.points, "support points", n_bytes, n_threads)
    return FeatureError(source, n_bytes, n_threads)


def coordinates_for(error: ExpansionError) -> Coordinates | None:
    """The coordinates in which points are moved, or None if the kernel does not allow that."""
    rows, kernel = error.search_rows, error.source.kernel
    sampled = SampledRows(rows, np.arange(rows.shape[0]), None, True)
    sample = Sample.of(sampled, kernel, error.source.n_components, center=True)
    if not kernel.differentiable or (scipy.sparse.issparse(rows) and not movable(sample, lambda: coordinates(sample))):
        return None
    return coordinates(sample, for_good=True)


def compress_expansion(
    expansion: KernelExpansion, error: ExpansionError, request: CompressionRequest, rng: np.random.Generator
) -> Compression:
    """The expansion on fewer points."""
    if not error.scale > 0:
        raise ValueError("the model's components are all zero: there is nothing to compress")
    moved_in = coordinates_for(error) if request.method in ("auto", "optimized") else None
    method = request.method
    if method == "auto":
        method = "removal" if moved_in is None else "optimized"
    candidates = find_candidates(error, _n_candidates(method, request.n_support), rng)
    way = _method(method, candidates, moved_in, request, rng)
    if request.n_support is not None:
        found = way.at(request.n_support)
    else:
        assert request.target_error is not None
        found = fewest_within(way, request.target_error)
    curve = way.curve if method == "removal" and isinstance(way, Nested) else None
    return _compression(expansion, error, found, method, curve)


def _n_candidates(method: str, n_support: int | None) -> int:
    """How many candidates targeted greedy selection is to choose."""
    most = 1000 if n_support is None else max(200, 4 * n_support)
    # "eigen-removal" solves an eigenproblem for each point that it removes
    return min(most, max(300, 2 * (n_support or 0))) if method == "eigen-removal" else most


def _method(
    name: str,
    candidates: Candidates,
    coordinates: Coordinates | None,
    request: CompressionRequest,
    rng: np.random.Generator,
) -> Method:
    error = candidates.error
    if name == "removal":
        return Nested(candidates, removal_order(candidates.problem))
    if name == "eigen-removal":
        coef = error.refit(candidates.support).coef
        return Nested(candidates, eigen_order(candidates.gram, coef, request.n_support or 1))
    if name == "l1":
        return Lasso(candidates)
    if coordinates is None:
        raise ValueError(
            f"points of a {error.source.kernel.name} kernel cannot be moved, which method='optimized' does: give "
            "method='removal', which keeps some of the model's own points"
        )
    return Moving(candidates, coordinates, request.max_iter, rng)


def _compression(
    expansion: KernelExpansion, error: ExpansionError, found: ReducedSet, method: str, curve: np.ndarray | None
) -> Compression:
    support, refit, kernel, points = found.support, found.refit, found.support.kernel, found.support.points
    if support.indices is not None:
        kernel, points = expansion.kernel.part(expansion.points, support.indices)
    compressed = replace(
        expansion,
        kernel=kernel,
        points=points,
        coef=refit.coef,
        offset=refit.offset,
        mean_coef=projected_mean(error.source, support, error.n_threads),
        orthogonal=False,  # the refit preserves the scores, but does not normalise the components
    )
    share = error.captured_share(support, refit.coef)
    return Compression(
        compressed, support.indices, method, refit.error, refit.total, share, curve, found.n_steps, found.converged
    )


def unchanged(expansion: KernelExpansion) -> Compression:
    """The expansion itself, if it has no more points than requested."""
    indices = np.arange(expansion.n_support)
    return Compression(expansion, indices, "none", np.zeros(expansion.n_components), 0.0, None, None, 1, True)
