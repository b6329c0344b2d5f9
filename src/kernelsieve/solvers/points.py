"""Captured variance as a function of where the support points are, and its gradient.

For points S with gram K_SS and rows with weights omega (sum 1), centring C = I - 1 omega':

    K_NS' C' diag(omega) C K_NS g = mu K_SS g,     G = top M eigenvectors, G' K_SS G = I
    captured variance = mu_1 + ... + mu_M

and, since the eigenvalues are stationary in G,

    d captured = sum_nj P_nj dk(x_n, s_j) + sum_ij Q_ij dk(s_i, s_j)
    Z = C K_NS G,    P = 2 diag(omega) Z G',    Q = -G diag(mu) G'

so every differentiable kernel needs only its own pull-back.  `row_scale` multiplies the kernel values of
a row: with it, rows are seen in a few principal coordinates and the rest of their length is not lost.

How captured variance bends is known too, nearly: what is lost is |Phi - projection|^2, a sum of squares, whose
Gauss-Newton matrix couples the points i and j by

    B_ij = 2 (G diag(mu) G')_ij <dphi(s_i), dphi(s_j)>        the same for every coordinate, its cross terms left out

and L-BFGS that starts from B^-1, not from a multiple of I, needs about half as many steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Protocol

import numpy as np

from ..arrays import (
    Array,
    add_to_diagonal,
    as_float64,
    cholesky,
    inner,
    is_numpy,
    like,
    namespace,
    row_dot,
    solve_lower,
    take_rows,
    top_eigh,
)
from ..kernels import Kernel
from ..threads import ordered_map, row_ranges
from .whitening import whiten

# Added to K_SS, relative to its mean diagonal, so that coinciding points do not stop the search.
JITTER = 1e-10
# Rows that a thread takes at once: their kernel values stay in its cache between the two passes.
ROWS_AT_ONCE = 4000
# Smallest squared Cholesky pivot of K_SS (unit diagonal) down to which float32 rows lose nothing.
FLOAT32_PIVOT = 1e-3
# Rounding of float32 kernel values times tr(K_SS^-1) bounds what they can add to the captured variance: above this
# share of it the search would climb rounding.
FLOAT32_ROUNDING, MAX_ROUNDING = 6e-8, 1e-4
# Added to the Gauss-Newton matrix, relative to its mean diagonal: points that carry no component are not sent far off.
METRIC_RIDGE = 0.05


@dataclass(frozen=True)
class Evaluation:
    """An objective at some points: its value, its gradient, and how it bends."""

    value: float
    gradient: Array  # (m, r)
    metric: Array | None = None  # lower Cholesky factor of B (m, m); None where nothing is known
    reliable: bool = True  # False where rounding would be climbed: `objective.exact` is to go on


class Objective(Protocol):
    """What is maximised."""

    def evaluate(self, points: Array) -> Evaluation:
        """The objective at these points."""

    @property
    def exact(self) -> Objective:
        """The same without shortcuts in precision."""


@dataclass(frozen=True)
class CapturedVariance:
    """The objective of free support points, on a fixed sample of rows."""

    kernel: Kernel
    rows: Array  # (n, r)
    row_scale: Array | None  # (n,)
    weights: Array | None  # (n,), sum 1
    n_components: int
    center: bool
    n_threads: int = 1
    heavy: CapturedVariance | None = None  # in float64, where this is in float32

    def __call__(self, points: Array) -> tuple[float, Array]:
        """(captured variance, its gradient in the points)."""
        found = self.evaluate(points)
        return found.value, found.gradient

    @property
    def exact(self) -> CapturedVariance:
        """This objective with its rows in float64."""
        return self if self.heavy is None else self.heavy

    def evaluate(self, points: Array) -> Evaluation:
        """Captured variance, its gradient in the points, and the Gauss-Newton matrix: two passes over the rows."""
        gram = self.kernel(points, points)
        blocks, mean, second = self._first_pass(points)
        values, coef, rounding = self._top(gram, second)
        if not bool(namespace(values).isfinite(values[0])):  # the kernel overflows there: no place to go
            return Evaluation(-np.inf, namespace(points).zeros_like(points))
        light_points, light_coef = like(points, self.rows), like(coef, self.rows)
        offset = like(mean @ coef, self.rows) if self.center else 0.0

        def block_slopes(block: tuple[slice, Array, Array]) -> tuple[Array, Array | None]:
            rows, plain, cross = block
            scores = cross @ light_coef
            scores -= offset
            scores *= 2.0 / self.rows.shape[0] if self.weights is None else 2.0 * self.weights[rows, None]
            if self.row_scale is not None:
                scores *= self.row_scale[rows, None]
            return self.kernel.slopes(self.rows[rows, :], light_points, plain, scores @ light_coef.T)

        spread = (coef * values) @ coef.T
        slopes = list(ordered_map(block_slopes, blocks, self.n_threads))
        gradient = _uphill(slopes, self.kernel.slopes(points, points, gram, -2 * spread))
        value = float(namespace(values).sum(values))
        reliable = self.heavy is None or rounding <= MAX_ROUNDING * value
        return Evaluation(value, gradient, self._metric(points, gram, spread), reliable)

    def _metric(self, points: Array, gram: Array, spread: Array) -> Array | None:
        """The Cholesky factor of B."""
        tangents = self.kernel.tangents(points, gram)
        if tangents is None:
            return None
        coupling = 2 * spread * tangents
        mean_diagonal = float(namespace(gram).mean(namespace(gram).linalg.diagonal(coupling)))
        return cholesky(add_to_diagonal(coupling, METRIC_RIDGE * mean_diagonal)) if mean_diagonal > 0 else None

    @property
    def n_rows(self) -> int:
        """Rows that the objective looks at."""
        return int(self.rows.shape[0])

    def part(self, rows: slice) -> CapturedVariance:
        """The same objective on some of the rows."""
        row_scale = None if self.row_scale is None else self.row_scale[rows]
        weights = None if self.weights is None else self.weights[rows]
        if weights is not None:
            weights = weights / namespace(weights).sum(weights)
        heavy = None if self.heavy is None else self.heavy.part(rows)
        return replace(self, rows=self.rows[rows, :], row_scale=row_scale, weights=weights, heavy=heavy)

    def drawn(self, places: Array, weights: Array) -> CapturedVariance:
        """The same objective on some of the rows, each counted as often as its weight says."""
        weights = like(weights / weights.sum(), self.rows)
        row_scale = None if self.row_scale is None else take_rows(self.row_scale, places)
        heavy = None if self.heavy is None else self.heavy.drawn(places, weights)
        return replace(self, rows=take_rows(self.rows, places), row_scale=row_scale, weights=weights, heavy=heavy)

    def light(self, points: Array) -> CapturedVariance | None:
        """This objective with its rows in float32, twice as fast, where these points allow it."""
        if not self.kernel.bounded:
            return None
        xp = namespace(points)
        factor = cholesky(self.kernel(points, points))
        if factor is None or float(xp.min(xp.linalg.diagonal(factor))) ** 2 < FLOAT32_PIVOT:
            return None
        rows, row_scale, weights = (
            None if part is None else xp.astype(part, xp.float32) for part in (self.rows, self.row_scale, self.weights)
        )
        return replace(self, rows=rows, row_scale=row_scale, weights=weights, heavy=self)

    def captured(self, points: Array) -> float:
        """The captured variance alone."""
        values, _ = self.components(points)
        return float(namespace(values).sum(values))

    def components(self, points: Array) -> tuple[Array, Array]:
        """Variances and coefficients (m, M) of the best components on these points."""
        _, _, second = self._first_pass(points)
        values, coef, _ = self._top(self.kernel(points, points), second)
        return values, coef

    def _first_pass(self, points: Array) -> tuple[list[tuple[slice, Array, Array]], Array, Array]:
        """Kernel values block by block, their mean, and their second moment (about it if centred)."""
        cross_gram = self.kernel.bind(like(points, self.rows))

        def block_values(rows: slice) -> tuple[slice, Array, Array, Array, Array]:
            plain = cross_gram(self.rows[rows, :])
            cross = plain if self.row_scale is None else plain * self.row_scale[rows, None]
            if self.weights is None:
                n = self.rows.shape[0]
                return rows, plain, cross, namespace(cross).sum(cross, axis=0) / n, (cross.T @ cross) / n
            weights = self.weights[rows]
            return rows, plain, cross, weights @ cross, cross.T @ (cross * weights[:, None])

        ranges = row_ranges(self.rows.shape[0], ROWS_AT_ONCE if is_numpy(points) else self.rows.shape[0])
        parts = list(ordered_map(block_values, ranges, self.n_threads))
        mean = as_float64(reduce(add, (part[3] for part in parts)))
        second = as_float64(reduce(add, (part[4] for part in parts)))
        if self.center:
            second = second - mean[:, None] * mean
        return [part[:3] for part in parts], mean, second

    def _top(self, gram: Array, second: Array) -> tuple[Array, Array, float]:
        """Top pairs of second g = mu gram g, g' gram g = 1, and what rounding of float32 rows can add to their sum."""
        xp = namespace(gram)
        mean_diagonal = float(xp.mean(xp.abs(xp.linalg.diagonal(gram))))
        factor = cholesky(add_to_diagonal(gram, JITTER * mean_diagonal))
        if factor is None:  # an indefinite kernel: its negative part is dropped
            matrix = whiten(gram).matrix
            values, vectors = top_eigh(matrix.T @ second @ matrix, self.n_components)
            return values, matrix @ vectors, 0.0
        half = solve_lower(factor, second)
        reduced = solve_lower(factor, half.T)
        if not bool(xp.isfinite(xp.sum(reduced))):  # points so far off that their kernel values overflow
            worst = xp.zeros_like(gram[0, : self.n_components]) - np.inf
            return worst, xp.zeros_like(gram[:, : self.n_components]), 0.0
        values, vectors = top_eigh((reduced + reduced.T) / 2, self.n_components)
        rounding = 0.0
        if self.heavy is not None:
            inverse = solve_lower(factor, like(xp.eye(gram.shape[0], dtype=gram.dtype), gram))
            rounding = FLOAT32_ROUNDING * inner(inverse, inverse)
        return values, solve_lower(factor, vectors, transpose=True), rounding


def _uphill(slopes: list[tuple[Array, Array | None]], own: tuple[Array, Array | None]) -> Array:
    """The gradient from its parts: those of blocks of rows, and that of the points among themselves.

    On a kink of the kernel the slope to either side is what the gradient says less what leaving the kink costs; a
    point that would lose on both sides stays.
    """
    gradient = as_float64(reduce(add, (slope for slope, _ in slopes))) + own[0]
    costs = [kink for _, kink in slopes if kink is not None]
    if not costs or own[1] is None:
        return gradient
    xp = namespace(gradient)
    left = xp.abs(gradient) - (as_float64(reduce(add, costs)) + own[1])
    return xp.sign(gradient) * xp.where(left > 0, left, xp.zeros_like(left))


class Ascent:
    """L-BFGS on an objective to be maximised, which can be paused, compared with others, and resumed.

    Two-loop recursion (Nocedal 1980) over the last `MEMORY` steps, from the objective's own metric where it has one;
    steps are accepted on sufficient increase, shortened by the parabola through the values, and pairs without
    curvature are skipped.
    """

    MEMORY = 10
    SUFFICIENT = 1e-4
    MAX_TRIALS = 12
    FIRST_MOVE = 0.2  # root-mean-square move of a point in the first step without a metric, in kernel widths
    FIRST_MOVE_AT_MOST = 0.4  # of a point in the first step with one: the metric is right near by
    MAX_MOVE = 2.0  # of a point in one step, in lengths of a point: further off the kernel says nothing
    GRADIENT_TOLERANCE = 1e-10

    def __init__(self, objective: Objective, points: Array) -> None:
        self.objective = objective
        self.points = points
        self.at = self._evaluate(points)
        self.n_steps = 0
        self.n_evaluations = 1
        self.converged = False
        self._pairs: list[tuple[Array, Array, float]] = []

    @property
    def value(self) -> float:
        """The objective here."""
        return self.at.value

    @property
    def gradient(self) -> Array:
        """Its gradient here."""
        return self.at.gradient

    def run(self, n_steps: int, tolerance: float = 0.0) -> Ascent:
        """Up to `n_steps` more steps; fewer when a step gains no more than `tolerance` of the value."""
        for _ in range(n_steps):
            before = self.value
            if self.converged or not self._step():
                self.converged = True
                break
            if not self.at.reliable:
                self.continue_on(self.objective.exact)
            else:
                self.converged = self.value - before <= tolerance * abs(self.value)
        return self

    def continue_on(self, objective: Objective) -> Ascent:
        """Go on from here on another form of the objective; its curvature is taken to be the same."""
        self.objective, self.converged = objective, False
        self.at = self._evaluate(self.points)
        self.n_evaluations += 1
        return self

    def _evaluate(self, points: Array) -> Evaluation:
        found = self.objective.evaluate(points)
        if not found.reliable:
            self.objective = self.objective.exact
            found = self.objective.evaluate(points)
        return found

    def _step(self) -> bool:
        """One step uphill; False where none can be found."""
        direction = self._off_kinks(self._direction())
        furthest = float(namespace(direction).max(row_dot(direction, direction))) ** 0.5
        limit = self._longest_move()
        if furthest > limit:
            direction = direction * (limit / furthest)
        slope = inner(direction, self.gradient)
        if not slope > self.GRADIENT_TOLERANCE * abs(self.value):
            return False
        length = 1.0
        for _ in range(self.MAX_TRIALS):
            points = self.points + length * direction
            found = self.objective.evaluate(points)
            self.n_evaluations += 1
            if found.value >= self.value + self.SUFFICIENT * length * slope:
                self._remember(length * direction, self.gradient - found.gradient)
                self.points, self.at = points, found
                self.n_steps += 1
                return True
            curvature = 2 * (self.value + length * slope - found.value)
            shorter = slope * length**2 / curvature if np.isfinite(found.value) else 0.1 * length
            length = min(0.5 * length, max(0.1 * length, shorter))
        return False

    def _longest_move(self) -> float:
        """How far a point may go in one step."""
        if not self._pairs and self.at.metric is not None:
            return self.FIRST_MOVE_AT_MOST
        return self.MAX_MOVE * (1 + (inner(self.points, self.points) / self.points.shape[0]) ** 0.5)

    def _direction(self) -> Array:
        """The gradient times the inverse of minus the second derivative, as far as that is known."""
        direction = self.gradient
        if not self._pairs:
            if self.at.metric is not None:
                return self._by_metric(direction)
            norm = inner(direction, direction) ** 0.5
            return direction * (self.FIRST_MOVE * direction.shape[0] ** 0.5 / norm if norm > 0 else 0.0)
        shares = []
        for move, change, inverse in reversed(self._pairs):
            share = inverse * inner(move, direction)
            direction = direction - share * change
            shares.append(share)
        move, change, inverse = self._pairs[-1]
        direction = self._by_metric(direction) * (1.0 / (inverse * inner(change, self._by_metric(change))))
        for (move, change, inverse), share in zip(self._pairs, reversed(shares), strict=True):
            direction = direction + (share - inverse * inner(change, direction)) * move
        return direction

    def _off_kinks(self, direction: Array) -> Array:
        """The direction without the coordinates that lose either way."""
        xp = namespace(direction)
        return xp.where(self.gradient == 0, xp.zeros_like(direction), direction)

    def _by_metric(self, direction: Array) -> Array:
        """B^-1 direction, or the direction itself where no metric is known."""
        factor = self.at.metric
        if factor is None:
            return direction
        return solve_lower(factor, solve_lower(factor, direction), transpose=True)

    def _remember(self, move: Array, change: Array) -> None:
        curvature = inner(move, change)
        if curvature > 1e-12 * inner(change, change):
            self._pairs = [*self._pairs[1 - self.MEMORY :], (move, change, 1.0 / curvature)]
