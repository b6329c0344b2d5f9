"""Captured variance of points on a device: the objective of objective.py without waiting for the device.

With a few hundred points, waiting for a device takes longer than its computations.  So no value is read from it until
everything is done, and no eigenvectors are computed: captured variance needs only the span of the components.  Let
G be the components' coefficients at nearby points, K_SS = L L' and

    R = L^-1 A L^-T,      A = K_NS' C' diag(omega) C K_NS,      Y = L'G

Orthogonal iteration, Y <- orth(R^k Y), turns Y towards the leading eigenvectors of R.  Then

    captured variance = tr Y'R Y,      G = L^-T Y

This value is as accurate as the span of Y, and never too large.  Its gradient at fixed G is that of objective.py.

A whole step of the ascent (its direction, how far a point may move, and the objective at its end) is computed in the
same way.  A `line` is a function that runs such a sequence of operations and can be recorded (spectrum/cuda_graphs.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from ..arrays import Array, solve_factored, to_numpy, unchecked_cholesky
from ..kernels import Kernel, uphill
from ..numerics import ROUNDING
from ..spectrum.cuda_graphs import recorded
from ..threads import cached_property
from .lbfgs import Ahead, Ascent, Evaluation, Memory
from .objective import GRAM_JITTER, METRIC_RIDGE, CapturedVariance

# Powers of R that Y is multiplied by, one after the other, with orthonormalisation in between.  A power p multiplies
# the error of the last column along the first component by (mu_1 / mu_M)^p.  Earlier turns have reduced this error by
# as much, but not below rounding, and a larger power would make that rounding large again.
TURNS = (1, 2, 4, 4)
TURN_JITTER = 1e-14  # added to the diagonal of the gram of unit vectors, so that it can be factorised
# Up to this many kernel values, launching operations takes longer than running them, so they are recorded.  Larger
# problems are not: a recording keeps its memory, which is about 100 MB at this size.
LAUNCH_BOUND = 2**21


@dataclass(frozen=True)
class CapturedOnDevice(CapturedVariance):
    """The objective of free support points on a torch device."""

    def has_many(self, points: Array) -> bool:
        """Always true: on a device, an eigendecomposition takes longer than everything else."""
        return True

    def light(self, points: Array, captured: float) -> CapturedOnDevice:
        """This objective itself: for the few thousand rows of a sample, a device is as fast in float64."""
        return self

    def ascent(self, points: Array, basis: Array | None = None) -> Ascent:
        """An ascent from these points, in which every step is one recorded line."""
        return AscentOnDevice(self, points, basis)

    def evaluate(self, points: Array, basis: Array | None = None) -> Evaluation:
        """Captured variance, its gradient in the points, and the Gauss-Newton matrix."""
        if basis is None or not self._near:
            return super().evaluate(points, basis)
        result, *found = self._run("_evaluated", points, basis[:, : self.n_components])
        return self._evaluation(points, to_numpy(result).tolist(), found)

    def captured(self, points: Array, basis: Array | None = None) -> float:
        """The captured variance; by the recorded line of `evaluate` if components nearby are known."""
        near = basis is not None and self._near
        return self.evaluate(points, basis).value if near else super().captured(points, basis)

    def ahead(self, points: Array, at: Evaluation, memory: PaddedMemory) -> AheadOnDevice | None:
        """The next step from points where the objective is `at`, with the objective at its end.

        None if the step cannot be computed as one line.
        """
        if at.basis is None or at.metric is None or not self._near:
            return None
        start = at.basis[:, : self.n_components]
        result, direction, moves, changes, *found = self._run(
            "_stepped", points, at.gradient, at.metric, start, memory.moves, memory.changes
        )
        slope, *result = to_numpy(result).tolist()
        end = self._evaluation(points + direction, result, found)
        return AheadOnDevice(direction, slope, end, memory=PaddedMemory(moves, changes))

    def _evaluation(self, points: Array, result: list[float], found: list[Array]) -> Evaluation:
        """The results of a line at these points as an `Evaluation`; computed without a line if it failed."""
        (value, failed, kernel_values), (gradient, coef, *metric) = result, found
        if not np.isfinite(kernel_values):  # the kernel overflows at these points: the step is refused
            return Evaluation(-np.inf, gradient)
        if failed or not np.isfinite(value):
            return super().evaluate(points)
        return Evaluation(value, gradient, metric[0] if metric else None, True, coef)

    def _run(self, line: str, *given: Array) -> tuple[Array, ...]:
        """Run the named line on these arrays; as a recording if launching operations takes longer than running them."""
        n_given = len(given)

        def on_rows(*arrays: Array) -> tuple[Array, ...]:
            rows, *weights = arrays[n_given:]
            found = getattr(replace(self, rows=rows, weights=weights[0] if weights else None), line)(*arrays[:n_given])
            return tuple(found)

        whole = (*given, self.rows) if self.weights is None else (*given, self.rows, self.weights)
        if self.n_rows * given[0].shape[0] > LAUNCH_BOUND:
            return on_rows(*whole)
        return recorded((line, self.kernel, self.n_components, self.center), on_rows, *whole)

    @cached_property
    def _near(self) -> bool:
        return self.row_scale is None and self.kernel.is_near(self.rows)

    def _stepped(
        self, points: Array, gradient: Array, metric: Array, coef: Array, moves: Array, changes: Array
    ) -> tuple[Array, ...]:
        """The line of a step: [slope, value and two checks], direction, memory after the step, then as `_evaluated`."""
        import torch

        memory = PaddedMemory(moves, changes)
        direction = memory.direction(gradient, lambda g: solve_factored(metric, g))
        direction = direction.masked_fill(gradient == 0, 0.0)  # stay on kinks, where a move to either side loses
        furthest = (direction * direction).sum(1).max().sqrt()
        further = Ascent.MAX_MOVE * (1 + (points * points).sum(1).mean().sqrt())
        longest = further.masked_fill(~changes[-1].any(), Ascent.FIRST_MOVE_AT_MOST)
        direction = direction * (longest / furthest).clamp(max=1.0)
        result, at_end, *found = self._evaluated(points + direction, coef)
        result = torch.cat([(direction * gradient).sum()[None], result])
        after = memory.after(direction, gradient - at_end)
        return result, direction, after.moves, after.changes, at_end, *found

    def _evaluated(self, points: Array, coef: Array) -> tuple[Array, ...]:
        """The line of an evaluation: [value, two checks], gradient, G, and a factor of the Gauss-Newton matrix.

        The first check is 0 if all factorisations succeeded; the second is finite if no kernel value overflows.
        """
        import torch

        cross_gram = self.kernel.bind_near(points)
        gram, cross = cross_gram(points), cross_gram(self.rows)
        centred = cross
        if self.center:
            centred = cross - (cross.mean(0) if self.weights is None else self.weights @ cross)
        factor, failed = unchecked_cholesky(gram, GRAM_JITTER)
        identity = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
        inverse = torch.linalg.solve_triangular(factor, identity, upper=False)
        reduced = inverse @ (centred.T @ self._weighted(centred)) @ inverse.T
        turned, lost = self._turned(reduced, factor.T @ coef)
        within = turned.T @ reduced @ turned
        coef = inverse.T @ turned
        spread = coef @ within @ coef.T
        slopes = [self.kernel.slopes(self.rows, points, cross, self._weighted(centred @ (2.0 * coef)) @ coef.T)]
        gradient = uphill(slopes, self.kernel.slopes(points, points, gram, -2 * spread))
        result = torch.stack([within.trace(), (failed + lost).double(), gram.sum() + centred.sum()])
        return result, gradient, coef, *self._metric_in_line(points, gram, spread)

    @staticmethod
    def _turned(reduced: Array, vectors: Array) -> tuple[Array, Array]:
        """The vectors turned towards the leading eigenvectors and made orthonormal, and a flag that is 0 on success."""
        import torch

        powers, lost = {1: reduced}, 0
        for power in TURNS:
            if power not in powers:
                powers[power] = powers[power // 2] @ powers[power // 2]
            vectors = powers[power] @ vectors
            vectors = vectors / torch.linalg.vector_norm(vectors, dim=0)
            factor, failed = unchecked_cholesky(vectors.T @ vectors, TURN_JITTER)
            vectors = torch.linalg.solve_triangular(factor, vectors.T, upper=False).T
            lost = lost + failed
        return vectors, lost

    def _weighted(self, scores: Array) -> Array:
        return scores / self.n_rows if self.weights is None else scores * self.weights[:, None]

    def _metric_in_line(self, points: Array, gram: Array, spread: Array) -> tuple[Array, ...]:
        """The Cholesky factor of the Gauss-Newton matrix in a tuple, which is empty if the kernel has no `tangents`."""
        tangents = self.kernel.tangents(points, gram)
        return () if tangents is None else unchecked_cholesky(2 * spread * tangents, METRIC_RIDGE)[:1]


def images_on_device(
    kernel: Kernel, points: Array, rows: Array, row_coef: Array, nugget: float
) -> tuple[Array, Array | None]:
    """k(S, X) d for d = `row_coef`, (m, M), and (K_SS + c I)^-1 of it; None if this matrix has no Cholesky factor.

    c is `nugget` times the mean diagonal of K_SS.
    """

    def line(points: Array, rows: Array, row_coef: Array) -> tuple[Array, ...]:
        cross_gram = kernel.bind_near(points)
        images = cross_gram(rows).T @ row_coef
        factor, failed = unchecked_cholesky(cross_gram(points), nugget)
        return images, solve_factored(factor, images), failed

    images, coef, failed = recorded(("images", kernel, nugget), line, points, rows, row_coef)
    return images, None if bool(failed) else coef


class PaddedMemory(Memory):
    """An L-BFGS memory in arrays of fixed shape, zero where there are no steps yet, so that steps can be recorded."""

    def __init__(self, moves: Array, changes: Array) -> None:
        self.moves, self.changes = moves, changes  # (k, m r)

    @classmethod
    def of(cls, size: int, points: Array) -> PaddedMemory:
        """An empty memory with room for this many steps."""
        nothing = points.new_zeros((size, points.numel()))
        return cls(nothing, nothing)

    def __bool__(self) -> bool:
        return bool(self.changes[-1].any())

    def add(self, move: Array, change: Array) -> None:
        """`Memory.add` for arrays of fixed shape."""
        after = self.after(move, change)
        self.moves, self.changes = after.moves, after.changes

    def after(self, move: Array, change: Array) -> PaddedMemory:
        """The memory with one more step, which is ignored if the objective is not concave along it."""
        import torch

        move, change = move.reshape(1, -1), change.reshape(1, -1)
        bends = (move * change).sum() > ROUNDING[8] * (change * change).sum()
        moves, changes = (
            torch.where(bends, torch.cat([old[1:], new]), old)
            for old, new in ((self.moves, move), (self.changes, change))
        )
        return PaddedMemory(moves, changes)

    def direction(self, gradient: Array, metric: Callable[[Array], Array]) -> Array:
        """`Memory.direction`, H g, for arrays of fixed shape."""
        import torch

        r, solve = gradient.shape[1], torch.linalg.solve_triangular
        products = self.moves @ self.changes.T
        curvatures = products.diagonal()
        # A diagonal of one for steps that are missing makes the solution for them zero.
        upper = products.triu() + torch.diag((curvatures == 0).to(products.dtype))
        weights = solve(upper, self.moves @ gradient.reshape(-1, 1), upper=True)
        rest = gradient - (weights.T @ self.changes).reshape(gradient.shape)
        latest = self.changes[-1:, :]
        both = metric(torch.cat([rest, latest.reshape(gradient.shape)], dim=1))
        scale = curvatures[-1:] / (latest @ both[:, r:].reshape(-1, 1))
        rest = scale.masked_fill(curvatures[-1:] <= 0, 1.0) * both[:, :r]
        steps = solve(upper.T, curvatures[:, None] * weights - self.changes @ rest.reshape(-1, 1), upper=False)
        return rest + (steps.T @ self.moves).reshape(gradient.shape)


@dataclass(frozen=True)
class AheadOnDevice(Ahead):
    """A step with the objective at its end, and the memory after it, which is kept if it is taken at full length."""

    memory: PaddedMemory = field(kw_only=True)


class AscentOnDevice(Ascent):
    """L-BFGS in which each step is one recorded line, if the objective allows it."""

    _memory: PaddedMemory

    def _new_memory(self) -> PaddedMemory:
        return PaddedMemory.of(self.MEMORY, self.points)

    def _ahead(self) -> Ahead:
        assert isinstance(self.objective, CapturedOnDevice)
        return self.objective.ahead(self.points, self.at, self._memory) or super()._ahead()

    def _remember(self, ahead: Ahead, length: float, found: Evaluation) -> None:
        if isinstance(ahead, AheadOnDevice) and found is ahead.end:
            self._memory = ahead.memory
        else:
            super()._remember(ahead, length, found)
