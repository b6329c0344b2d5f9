"""Captured variance as a function of the support points' positions, and its gradient.

For points S with gram K_SS, rows with weights omega (sum 1), and the centring matrix C = I - 1 omega':

    K_NS' C' diag(omega) C K_NS g = mu K_SS g,     G = top M eigenvectors, G' K_SS G = I
    captured variance = mu_1 + ... + mu_M

and, since the eigenvalues are stationary in G,

    d captured = sum_nj P_nj dk(x_n, s_j) + sum_ij Q_ij dk(s_i, s_j)
    Z = C K_NS G,    P = 2 diag(omega) Z G',    Q = -G diag(mu) G'

so the only derivative that a kernel has to supply is its pull-back.  If rows are given by a few principal coordinates,
`row_scale` multiplies the kernel values of a row by the factor that the rest of the row contributes.

The curvature of captured variance is also known approximately: the loss |Phi - projection|^2 is a sum of squares,
whose Gauss-Newton matrix couples the points i and j by

    B_ij = 2 (G diag(mu) G')_ij <dphi(s_i), dphi(s_j)>

Cross terms between coordinates are neglected, so B is the same for every coordinate.  L-BFGS that starts from B^-1
instead of a multiple of I needs about half as many steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import TypeVar

import numpy as np

from ..arrays import (
    TINY,
    Array,
    add_to_diagonal,
    as_float64,
    cholesky,
    is_numpy,
    like,
    namespace,
    take_rows,
)
from ..kernels import FixedRows, Kernel, uphill
from ..numerics import FLOAT32_SEES
from ..spectrum.top import Operator, is_large, top
from ..spectrum.whitening import whiten
from ..threads import SPARE_THREADS, cached_property, ordered_map, row_ranges, side_by_side
from .lbfgs import Ascent, Evaluation

Result = TypeVar("Result")
Other = TypeVar("Other")

GRAM_JITTER = 1e-10  # added to K_SS, relative to its mean diagonal
# Number of kernel values in a block, and the least number of its rows.  Such a block stays in a core's cache between
# the two passes, and there are enough blocks for many threads.
VALUES_AT_ONCE, LEAST_ROWS_AT_ONCE = 2**16, 250
FEW_THREADS, POINTS_A_THREAD = 4, 25  # threads used for any number of points, and points that justify one more thread
# An eigensolver that starts from the basis at nearby points converges faster with this many vectors beyond the
# components.
EXTRA_VECTORS = 8
# If a row is further than this from the origin, in kernel widths, float32 may not represent its squared distances.
FLOAT32_WIDTHS = 1e12
# If all rows are further than this from the origin, as sparse rows may be, float32 loses their differences.
NEAREST_WIDTHS = 100.0
# Added to the Gauss-Newton matrix, relative to its mean diagonal, so that idle points do not move far away.
METRIC_RIDGE = 0.05


@dataclass(frozen=True)
class KernelBlock:
    """A block of rows, and their kernel values with the points, multiplied by the rows' scale."""

    rows: slice
    cross: Array


@dataclass(frozen=True)
class FirstPass:
    """The kernel values of all rows, their mean and, if requested, their second moment."""

    blocks: list[KernelBlock]
    mean: Array  # (m,)
    second: Array | None  # (m, m)


@dataclass(frozen=True)
class Factored:
    """K_SS at some points and, if the kernel is definite there, its lower Cholesky factor.

    A small multiple of I is added first, so that coinciding points do not stop the search.
    """

    gram: Array
    factor: Array | None

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")
    def of(cls, kernel: Kernel, points: Array) -> Factored:
        """K_SS at these points, and its factor."""
        gram = kernel(points, points)
        xp = namespace(gram)
        jitter = GRAM_JITTER * float(xp.mean(xp.abs(xp.linalg.diagonal(gram))))
        return cls(gram, cholesky(add_to_diagonal(gram, jitter)))

    def allows_float32(self, captured: float, largest: float) -> bool:
        """Whether float32 kernel values are precise enough, if they are at most `largest` and points capture this much.

        Rounding of float32 kernel values is multiplied by about sum_i 1 / L_ii^2, with L the Cholesky factor of K_SS.
        If the product approaches the captured variance, the gradient is off by a few percent, and the ascent follows
        rounding errors.  The product is proportional to the square of the kernel's largest value: one factor comes from
        the rounding of the values, the other from the variance.
        """
        if self.factor is None:
            return False
        xp = namespace(self.factor)
        return FLOAT32_SEES * largest**2 * float(xp.sum(xp.linalg.diagonal(self.factor) ** -2)) <= captured


@dataclass(frozen=True)
class CapturedVariance:
    """Captured variance on a fixed sample of rows: the objective of free support points."""

    kernel: Kernel
    rows: Array  # (n, r)
    row_scale: Array | None  # (n,)
    weights: Array | None  # (n,), sum 1
    n_components: int
    center: bool
    n_threads: int = 1
    heavy: CapturedVariance | None = None  # the same objective in float64, if this one is in float32

    @property
    def exact(self) -> CapturedVariance:
        """This objective with its rows in float64."""
        return self if self.heavy is None else self.heavy

    def ascent(self, points: Array, basis: Array | None = None) -> Ascent:
        """An ascent that begins at these points; `basis` as in `evaluate`."""
        return Ascent(self, points, basis)

    @np.errstate(over="ignore", invalid="ignore")  # values of far points may overflow, which is checked below
    def evaluate(self, points: Array, basis: Array | None = None) -> Evaluation:
        """Captured variance, its gradient in the points, and the Gauss-Newton matrix: two passes over the rows.

        The eigensolver starts from `basis`, that of an evaluation at nearby points.
        """
        beside = self.n_threads if self.n_threads >= SPARE_THREADS and is_numpy(points) and self.has_many(points) else 1
        at, first = _both(
            lambda: Factored.of(self.kernel, points),
            lambda: self._first_pass(points, with_second=basis is None),
            beside,
        )
        gram, (values, coef, basis) = at.gram, self._top(at, first, basis)
        if not bool(namespace(values).isfinite(values[0])):  # the kernel overflows at these points: the step is refused
            return Evaluation(-np.inf, namespace(points).zeros_like(points))
        spread = (coef * values) @ coef.T
        light_points, twice = like(points, self.rows), 2 * like(coef, self.rows).T

        def slopes_of(block: KernelBlock, scores: Array) -> tuple[Array, Array | None]:
            return self._fixed.slopes(block.rows, light_points, block.cross, scores @ twice)

        slopes, metric = _both(
            lambda: self._each_block(first, coef, slopes_of), lambda: self._metric(points, gram, spread), beside
        )
        gradient = uphill(slopes, self.kernel.slopes(points, points, gram, -2 * spread))
        value = float(namespace(values).sum(values))
        reliable = self.heavy is None or at.allows_float32(value, self._largest)
        return Evaluation(value, gradient, metric, reliable, basis)

    def _each_block(
        self, first: FirstPass, coef: Array, function: Callable[[KernelBlock, Array], Result]
    ) -> list[Result]:
        """function(block, scores) for every block of rows; scores are the block's rows of diag(omega) C K_NS coef."""
        light, offset = like(coef, self.rows), like(first.mean @ coef, self.rows)

        def of_block(block: KernelBlock) -> Result:
            scores = block.cross @ light
            if self.center:
                scores -= offset
            scores *= 1.0 / self.n_rows if self.weights is None else self.weights[block.rows, None]
            return function(block, scores)

        return list(ordered_map(of_block, first.blocks, self._threads_for(coef)))

    def beyond(self, points: Array, rows_at: Callable[[slice], Array]) -> Evaluation:
        """Captured variance, with its gradient in the input directions outside the search's subspace.

        `rows_at(slice)` returns the full rows.  The kernel must have `lifts`.
        """
        at, first = Factored.of(self.kernel, points), self._first_pass(points)
        gram, (values, coef, _) = at.gram, self._top(at, first, None)
        twice = 2 * like(coef, self.rows).T
        pulled = self._each_block(
            first, coef, lambda b, scores: as_float64(self.kernel.lift(rows_at(b.rows), b.cross, scores @ twice))
        )
        metric = self._metric(points, gram, (coef * values) @ coef.T)
        return Evaluation(float(values.sum()), reduce(add, pulled), metric)

    @np.errstate(over="ignore", invalid="ignore")
    def _metric(self, points: Array, gram: Array, spread: Array) -> Array | None:
        """The Cholesky factor of the Gauss-Newton matrix B; None if the kernel does not know its `tangents`."""
        tangents = self.kernel.tangents(points, gram)
        if tangents is None:
            return None
        coupling = 2 * spread * tangents
        mean_diagonal = float(namespace(gram).mean(namespace(gram).linalg.diagonal(coupling)))
        return cholesky(add_to_diagonal(coupling, METRIC_RIDGE * mean_diagonal))

    @cached_property
    def _fixed(self) -> FixedRows:
        return self.kernel.fixed(self.rows, self.row_scale)

    @cached_property
    def _largest(self) -> float:
        """An upper bound on the rows' kernel values."""
        return float(namespace(self.rows).max(self.kernel.diagonal(self.rows)))

    def _threads_for(self, points: Array) -> int:
        """Number of threads for blocks of rows; if there are few points, more threads would wait for each other."""
        return min(self.n_threads, max(FEW_THREADS, points.shape[0] // POINTS_A_THREAD))

    @property
    def n_rows(self) -> int:
        """Number of rows of this objective."""
        return int(self.rows.shape[0])

    def part(self, rows: slice) -> CapturedVariance:
        """This objective on some of the rows."""
        row_scale = None if self.row_scale is None else self.row_scale[rows]
        weights = None if self.weights is None else self.weights[rows]
        if weights is not None:
            weights = weights / namespace(weights).sum(weights)
        return replace(self, rows=self.rows[rows, :], row_scale=row_scale, weights=weights, heavy=None)

    def drawn(self, places: Array, weights: Array) -> CapturedVariance:
        """This objective on the rows at these places, with these weights."""
        weights = like(weights / weights.sum(), self.rows)
        row_scale = None if self.row_scale is None else take_rows(self.row_scale, places)
        return replace(self, rows=take_rows(self.rows, places), row_scale=row_scale, weights=weights, heavy=None)

    def light(self, points: Array, captured: float) -> CapturedVariance:
        """This objective with its rows in float32, twice as fast, if that is precise enough for these points."""
        parts = self._in_float32
        if parts is None or not Factored.of(self.kernel, points).allows_float32(captured, self._largest):
            return self
        rows, row_scale, weights = parts
        return replace(self, rows=rows, row_scale=row_scale, weights=weights, heavy=self)

    @cached_property
    def _in_float32(self) -> list[Array] | None:
        """Rows, row_scale and weights in float32; None if the kernel or the distances of rows need float64."""
        if self.kernel.needs_double:
            return None
        xp = namespace(self.rows)
        reach = xp.max(xp.abs(self.rows), axis=1)
        if float(xp.max(reach)) > FLOAT32_WIDTHS or float(xp.min(reach)) > NEAREST_WIDTHS:
            return None
        parts = (self.rows, self.row_scale, self.weights)
        return [None if part is None else xp.astype(part, xp.float32) for part in parts]

    def captured(self, points: Array, basis: Array | None = None) -> float:
        """The captured variance alone; `basis` as in `evaluate`."""
        values, _ = self.components(points, basis)
        return float(namespace(values).sum(values))

    def components(self, points: Array, basis: Array | None = None) -> tuple[Array, Array]:
        """Variances and coefficients (m, M) of the best components on these points."""
        first = self._first_pass(points, with_second=basis is None)
        values, coef, _ = self._top(Factored.of(self.kernel, points), first, basis)
        return values, coef

    def _first_pass(self, points: Array, *, with_second: bool = True) -> FirstPass:
        """Kernel values in blocks, their mean, and (if wanted) their second moment, about the mean if centred."""
        bound = self._fixed.bind(like(points, self.rows))
        n, n_points = self.n_rows, int(points.shape[0])

        def block_values(rows: slice) -> tuple[KernelBlock, float, Array, Array | None]:
            block = KernelBlock(rows, bound(rows))
            xp, count = namespace(block.cross), rows.stop - rows.start
            mass, weights = count / n, xp.full_like(block.cross[:, 0], 1.0 / count)
            if self.weights is not None:
                weights = self.weights[rows]
                mass = float(xp.sum(weights))
                weights = weights / max(mass, TINY)
            mean = weights @ block.cross
            if not with_second:
                return block, mass, mean, None
            about = block.cross - mean  # centred first: products of nearly equal float32 values would lose differences
            if self.weights is None:
                return block, mass, mean, about.T @ about / n
            return block, mass, mean, about.T @ (about * (mass * weights)[:, None])

        at_once = max(LEAST_ROWS_AT_ONCE, VALUES_AT_ONCE // n_points) if is_numpy(points) else n
        parts = list(ordered_map(block_values, row_ranges(n, at_once), self._threads_for(points)))
        means = namespace(points).stack([as_float64(mean) for _, _, mean, _ in parts])
        masses = like([mass for _, mass, _, _ in parts], means)
        mean, second = masses @ means, None
        if with_second:
            about = means - mean
            second = reduce(add, (as_float64(part) for *_, part in parts)) + (about.T * masses) @ about
            second = second if self.center else second + mean[:, None] * mean
        return FirstPass([block for block, *_ in parts], mean, second)

    def _top(self, at: Factored, first: FirstPass, basis: Array | None) -> tuple[Array, Array, Array | None]:
        """Variances and coefficients of the best components, and a basis for the eigensolver at nearby points.

        The basis is None if there are few points.
        """
        gram, factor = at.gram, at.factor
        if factor is None:  # an indefinite kernel: its negative part is dropped
            whitening = whiten(gram).matrix
            covariance = whitening.T @ self._second(first) @ whitening
            values, vectors = top(Operator.of(covariance), self.n_components, precise=True)
            return like(values, gram), whitening @ vectors, None
        operator = Operator(gram[0, :], lambda y: self._applied(first, y), lambda: self._second(first), (gram, factor))
        many = basis is not None or self.has_many(gram)
        values, coef = top(operator, self.n_components + EXTRA_VECTORS * many, near=basis)
        variances, components = like(values[: self.n_components], gram), coef[:, : self.n_components]
        return variances, components, coef if many else None

    def has_many(self, points: Array) -> bool:
        """Whether there are enough points that it pays to start the eigensolver from the basis at nearby points."""
        return is_large(int(points.shape[0]), self.n_components)

    def _second(self, first: FirstPass) -> Array:
        """K_NS' C' diag(omega) C K_NS."""
        if first.second is not None:
            return first.second
        return self._applied(first, like(namespace(first.mean).eye(first.mean.shape[0]), first.mean))

    def _applied(self, first: FirstPass, vectors: Array) -> Array:
        """K_NS' C' diag(omega) C K_NS vectors."""
        parts = self._each_block(first, vectors, lambda block, scores: block.cross.T @ scores)
        return reduce(add, (as_float64(part) for part in parts))


def _both(one: Callable[[], Result], other: Callable[[], Other], n_threads: int) -> tuple[Result, Other]:
    """Both results, at the same time if there are threads for it; for few points, asking for threads takes too long."""
    if n_threads == 1:
        return one(), other()
    first, second = side_by_side([one, other], n_threads)
    return first, second
