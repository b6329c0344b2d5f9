"""Captured variance of points on a device: the objective of points.py as one line of operations that nobody waits for.

A device is waited for longer than it works on so few points.  So nothing is asked of it before all is done, and no
eigenvectors are looked for: captured variance needs the span of the components alone.  With K_SS = L L' and

    R = L^-1 A L^-T,      A = K_NS' C' diag(omega) C K_NS,      Y = L'G

for the components' coefficients G at points near by, Y is turned towards the top of R's spectrum by orthogonal
iteration, Y <- orth(R^k Y), and

    captured variance = tr Y'R Y,      G = L^-T Y

is as good as the span is, never more, and its gradient at fixed G is that of points.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, to_numpy, unlooked_cholesky
from ..kernels import uphill
from ..threads import cached_property
from .ascent import Evaluation
from .points import JITTER, METRIC_RIDGE, CapturedVariance
from .recorded import Recorder

# Powers of R that Y is multiplied by, one after the other, and made orthonormal.  What the last column has left of the
# first component comes back larger by such a power of how much more that one has; by the turns before it is as much
# smaller, down to rounding, which the largest power must not bring back.
TURNS = (1, 2, 4, 4)
ROUNDING = 1e-14  # added to the gram of unit vectors before it is divided by
# Kernel values up to which launches take longer than work.  Recordings keep their memory, some 100 MB for so many.
LAUNCH_BOUND = 2**21


@dataclass(frozen=True)
class CapturedOnDevice(CapturedVariance):
    """The objective of free support points on a torch device."""

    def has_many(self, points: Array) -> bool:
        """Always: eigenvectors take longer there than all the rest."""
        return True

    def light(self, points: Array) -> CapturedOnDevice:
        """Itself: so few rows take no longer in float64."""
        return self

    def evaluate(self, points: Array, basis: Array | None = None) -> Evaluation:
        """Captured variance, its gradient in the points, and the Gauss-Newton matrix."""
        if basis is None or not self._near:
            return super().evaluate(points, basis)
        start = basis[:, : self.n_components]
        small = self.n_rows * points.shape[0] <= LAUNCH_BOUND
        result, gradient, coef, *metric = (
            self._recorder.run(self._put_in_line, points, start) if small else self._put_in_line(points, start)
        )
        value, failed, kernel_values = to_numpy(result)
        if not np.isfinite(kernel_values):  # the kernel overflows there: no place to go
            return Evaluation(-np.inf, gradient)
        if failed or not np.isfinite(value):
            return super().evaluate(points)
        return Evaluation(float(value), gradient, metric[0] if metric else None, True, coef)

    @cached_property
    def _recorder(self) -> Recorder:
        return Recorder()

    @cached_property
    def _near(self) -> bool:
        return self.row_scale is None and self.kernel.is_near(self.rows)

    def _put_in_line(self, points: Array, coef: Array) -> tuple[Array, ...]:
        """[captured variance, whether it is none, kernel values], gradient, G, a factor of the Gauss-Newton matrix."""
        import torch

        cross_gram = self.kernel.bind_near(points)
        gram, cross = cross_gram(points), cross_gram(self.rows)
        centred = cross
        if self.center:
            centred = cross - (cross.mean(0) if self.weights is None else self.weights @ cross)
        factor, failed = unlooked_cholesky(gram, JITTER)
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
        return result, gradient, coef, *self._metric(points, gram, spread)

    @staticmethod
    def _turned(reduced: Array, vectors: Array) -> tuple[Array, Array]:
        """The vectors turned towards the top of the spectrum, orthonormal, and 0 where that could be done."""
        import torch

        powers, lost = {1: reduced}, 0
        for power in TURNS:
            if power not in powers:
                powers[power] = powers[power // 2] @ powers[power // 2]
            vectors = powers[power] @ vectors
            vectors = vectors / torch.linalg.vector_norm(vectors, dim=0)
            factor, failed = unlooked_cholesky(vectors.T @ vectors, ROUNDING)
            vectors = torch.linalg.solve_triangular(factor, vectors.T, upper=False).T
            lost = lost + failed
        return vectors, lost

    def _weighted(self, scores: Array) -> Array:
        return scores / self.n_rows if self.weights is None else scores * self.weights[:, None]

    def _metric(self, points: Array, gram: Array, spread: Array) -> tuple[Array, ...]:
        """One array, or none where the kernel knows no such matrix."""
        tangents = self.kernel.tangents(points, gram)
        return () if tangents is None else unlooked_cholesky(2 * spread * tangents, METRIC_RIDGE)[:1]
