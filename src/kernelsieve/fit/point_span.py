"""The span of a few points, over which one pass has summed up all rows.

The points' gram is whitened, W'K_SS W = I on its numerical range, so that a row's coordinates are f(x) = W'k(S, x) and
the moments of f are what the pass leaves.  An indefinite kernel may keep its negative part: then W'K_SS W = J, a
diagonal of signs (`solvers/whitening.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arrays import Array, like, namespace, to_numpy, top_eigh
from ..kernels import Kernel
from ..solvers.whitening import Spectrum, signed_components, signs_of
from ..threads import cached_property
from .expansion import KernelExpansion, component_signs
from .moments import Moments, gram_of
from .span import Components, Span


@dataclass(frozen=True)
class Points:
    """Chosen points: all that a span is made of."""

    kernel: Kernel  # the kernel in which `points` are meant
    points: Array  # (m, d)
    indices: np.ndarray | None  # (m,) numbers of training rows, or None for points that are no rows
    exhaustive: bool = field(default=False, kw_only=True)  # the points are all the (different) rows there are
    counts: np.ndarray | None = field(default=None, kw_only=True)  # (m,) how often each of all rows counts; None: once
    by_reference: bool = field(default=False, kw_only=True)  # chosen by the reference rows' own components
    optimal: bool = field(default=False, kw_only=True)  # no points are better, for the rows of the sample
    seeds: np.ndarray | None = field(default=None, kw_only=True)  # reference rows, by place, that points started from

    @property
    def n_support(self) -> int:
        return int(self.points.shape[0])

    @cached_property
    def gram(self) -> Array:
        """K_SS in float64."""
        return gram_of(self.kernel, self.points)

    @cached_property
    def spectrum(self) -> Spectrum:
        """Of K_SS, found once: the span and what is measured on the points whiten by it, each to its own tolerance."""
        return Spectrum.of(self.gram)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("gram", "spectrum")}


@dataclass(frozen=True)
class PointSpan(Span):
    """The span of a few points, over which one pass has summed up all rows."""

    moments: Moments
    dropped: float = 0.0  # share of the gram's spectrum that is negative

    @cached_property
    def point_gram(self) -> Array:
        """(m, m), K_SS, where the points are."""
        return gram_of(self.kernel, self.points)

    @cached_property
    def coordinates(self) -> np.ndarray:
        return to_numpy(self.point_gram @ self.moments.whitening)

    @cached_property
    def mean(self) -> np.ndarray:
        return to_numpy(self.moments.mean)

    @cached_property
    def covariance(self) -> np.ndarray:
        return to_numpy(self.moments.covariance(self.center))

    @property
    def whitening(self) -> np.ndarray:
        """(m, q), W."""
        return to_numpy(self.moments.whitening)

    @property
    def weight(self) -> float:
        return self.moments.weight

    @property
    def mean_length(self) -> float:
        return self.moments.trace / self.moments.weight

    @property
    def negative_share(self) -> float:
        return self.dropped

    @cached_property
    def signs(self) -> np.ndarray | None:
        """J with W'K_SS W = J, where some are negative: an indefinite kernel's, with its negative part kept."""
        if getattr(self.kernel, "definite", True):
            return None
        signs = signs_of(self.whitening, to_numpy(self.point_gram))
        return None if np.all(signs > 0) else signs

    @property
    def mean_square(self) -> float:
        return float(self.mean @ (self.mean if self.signs is None else self.signs * self.mean))

    @property
    def total_variance(self) -> float:
        if self.signs is None:
            return super().total_variance
        total = self.mean_length - (self.mean_square if self.center else 0.0)
        positive, _ = signed_components(self.covariance, self.signs, len(self.signs))
        return max(total, float(positive.sum()))

    def best(self, n_components: int) -> Components:
        """With C the covariance of whitened features, C V = V diag(variance): coefficients W V."""
        if self.signs is not None:
            variances, directions = signed_components(self.covariance, self.signs, n_components)
            coef = self.whitening @ directions
            signs = component_signs(coef)
            return Components(coef * signs, variances, directions * signs)
        values, vectors = top_eigh(self.moments.covariance(self.center), n_components)
        coef = self.moments.whitening @ vectors
        signs = component_signs(coef)
        return Components(coef * signs, np.maximum(to_numpy(values), 0.0), vectors * signs)

    def expansion(self, found: Components, *, orthogonal: bool = True) -> KernelExpansion:
        moments, coef = self.moments, like(found.coef, self.moments.whitening)
        offset, mean_coef = namespace(coef).zeros_like(coef[0, :]), None
        if self.center:
            directions = like(self.directions(found.coef) if found.directions is None else found.directions, coef)
            mean = moments.mean if self.signs is None else moments.mean * like(self.signs, moments.mean)
            offset, mean_coef = moments.mean @ directions, moments.whitening @ mean
        return KernelExpansion(self.kernel, self.points, coef, offset, mean_coef, orthogonal=orthogonal)
