"""Captured variance of points on a device: the objective of points.py in few operations, and one look at a result.

A device is waited for longer than it works on so few points.  So all that is asked of it is put in line at once: kernel
values, the Cholesky factor of K_SS, and, for a basis Y of the components at points near by,

    B = [Y, K_SS^-1 A Y - Y diag(rho)],      A = K_NS' C' diag(omega) C K_NS,      rho_i = y_i'A y_i / y_i'K_SS y_i

of which the small matrices B'K_SS B and B'A B alone come to the host.  There the pairs are found (see subspace.py), and
what follows of them, gradient and Gauss-Newton matrix, is put in line again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array, like, namespace, solve_factored, to_numpy, unlooked_cholesky
from ..threads import cached_property
from .ascent import Evaluation
from .points import JITTER, METRIC_RIDGE, CapturedVariance, uphill
from .subspace import ritz

# Up to so many points for each vector of the basis, the points themselves are one, of no more vectors than B has.
POINTS_PER_VECTOR = 3


@dataclass(frozen=True)
class Guess:
    """A basis near the components' span, one step towards it, and what decides where in both the components are."""

    basis: Array  # (m, 2 p)
    scores: Array  # (n, 2 p) of the rows, about their mean if centred
    products: np.ndarray  # (2 p, 4 p), [B'K_SS B, B'A B]


@dataclass(frozen=True)
class CapturedOnDevice(CapturedVariance):
    """The objective of free support points on a torch device."""

    def has_many(self, points: Array) -> bool:
        """Always: eigenvectors take longer there than all the rest."""
        return True

    def light(self, points: Array) -> None:
        """None: so few rows take no longer in float64."""
        return

    def evaluate(self, points: Array, basis: Array | None = None) -> Evaluation:
        """Captured variance, its gradient in the points, and the Gauss-Newton matrix."""
        found = self._from(points, basis) if basis is not None and self._near else None
        return super().evaluate(points, basis) if found is None else found

    @cached_property
    def _near(self) -> bool:
        return self.row_scale is None and self.kernel.is_near(self.rows)

    def _from(self, points: Array, basis: Array) -> Evaluation | None:
        """The objective here from a basis near by; None where K_SS is singular."""
        cross_gram = self.kernel.bind_near(points)
        gram, cross = cross_gram(points), cross_gram(self.rows)
        guess = self._guess(gram, cross, basis)
        if guess is None:
            return None
        if not np.isfinite(guess.products).all():  # the kernel overflows there: no place to go
            return Evaluation(-np.inf, namespace(points).zeros_like(points))
        values, mixing = ritz(guess.products, self._n_kept)
        values, top = values[: self.n_components], mixing[:, : self.n_components]
        found = guess.basis @ like(np.hstack([mixing, top * values]), points)
        basis, coef = found[:, : mixing.shape[1]], found[:, : top.shape[1]]
        spread = found[:, mixing.shape[1] :] @ coef.T
        weighted = self._weighted(guess.scores @ like(2.0 * top, points))
        slopes = [self.kernel.slopes(self.rows, points, cross, weighted @ coef.T)]
        gradient = uphill(slopes, self.kernel.slopes(points, points, gram, -2 * spread))
        return Evaluation(float(values.sum()), gradient, self._metric(points, gram, spread), True, basis)

    def _guess(self, gram: Array, cross: Array, basis: Array) -> Guess | None:
        xp = namespace(gram)
        if self.center:
            cross = cross - (cross.mean(0) if self.weights is None else self.weights @ cross)
        if gram.shape[0] <= POINTS_PER_VECTOR * self._n_kept:
            products = xp.concat([gram, cross.T @ self._weighted(cross)], axis=1)
            return Guess(like(np.eye(gram.shape[0]), gram), cross, to_numpy(products))
        factor, failed = unlooked_cholesky(gram, JITTER)
        scores = cross @ basis
        image, own = cross.T @ self._weighted(scores), gram @ basis
        step = solve_factored(factor, image) - basis * ((basis * image).sum(0) / (basis * own).sum(0))
        more = cross @ step
        basis, scores = xp.concat([basis, step], axis=1), xp.concat([scores, more], axis=1)
        images = xp.concat([own, gram @ step, image, cross.T @ self._weighted(more)], axis=1)
        answer = to_numpy(xp.concat([(basis.T @ images).reshape(-1), failed.reshape(-1)]))
        return None if answer[-1] else Guess(basis, scores, answer[:-1].reshape(basis.shape[1], -1))

    def _weighted(self, scores: Array) -> Array:
        return scores / self.n_rows if self.weights is None else scores * self.weights[:, None]

    def _metric(self, points: Array, gram: Array, spread: Array) -> Array | None:
        tangents: Any = self.kernel.tangents(points, gram)
        return None if tangents is None else unlooked_cholesky(2 * spread * tangents, METRIC_RIDGE)[0]
