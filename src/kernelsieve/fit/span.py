"""Span: points, the span of their features, and the moments of all rows over it.

For points S with gram K_SS = G G' (G, m x q: the points' own coordinates in an orthonormal basis of span(phi(S))), a
row x, projected on that span, has coordinates f(x) with

    k(S, x) = G f(x)

and the mean and covariance of f over all training rows are all that a method needs to know of the data from here on:
the best components, the variance along given ones, their offset, the captured variance, the elastic-net and likelihood
problems.

    a few points    PointSpan: G = K_SS W by whitening, f(x) = W'k(S, x); mean and covariance from a pass over all rows
    all rows        AllRowsSpan: G by pivoted Cholesky, f the rows of G themselves; nothing N x N unless it is asked for

An indefinite kernel may keep its negative part: then W'K_SS W = J, a diagonal of signs (`spectrum/whitening.py`).
With centring the covariance is centred and K_SS is not: expansions are over uncentred features.  Where a method keeps
only some of the points, `places` says which.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..arrays import TINY, Array, as_float64, is_foreign, like, namespace, to_numpy, top_eigh
from ..kernels import CrossGram, Kernel
from ..numerics import HALF_THE_DIGITS
from ..rows.checks import finite
from ..solvers.greedy import pivoted_cholesky
from ..spectrum.top import Operator, component_signs, exact_components, top
from ..spectrum.whitening import (
    GramSpectrum,
    check_finite_kernel,
    check_kernel_diagonal,
    check_kernel_values,
    negative_share,
    signs_of,
    whiten,
)
from ..threads import cached_property
from .expansion import KernelExpansion
from .moments import Moments, gram_of


@dataclass(frozen=True)
class Components:
    """Components over the points of a span, and the variance of the scores along each."""

    coef: Array  # (m, M)
    variances: np.ndarray  # (M,)
    # (q, M) in whitened coordinates: more accurate than coef if K_SS is ill-conditioned
    directions: Array | None = None


@dataclass(frozen=True)
class Span(ABC):
    """span(phi(S)) with the moments of all rows over it: all that a method needs to know of the data."""

    kernel: Kernel  # the kernel that the `points` belong to
    points: Array  # (m, d)
    indices: np.ndarray | None  # (m,) numbers of training rows, or None if the points are not rows
    center: bool

    @property
    @abstractmethod
    def coordinates(self) -> np.ndarray:
        """(m, q), G."""

    @property
    @abstractmethod
    def mean(self) -> np.ndarray:
        """(q,) weighted mean of f."""

    @property
    @abstractmethod
    def covariance(self) -> np.ndarray:
        """(q, q) covariance of f over all rows; its second moment when not centred."""

    @property
    @abstractmethod
    def weight(self) -> float:
        """The weight of all rows."""

    @property
    @abstractmethod
    def mean_length(self) -> float:
        """Mean of k(x, x)."""

    @property
    @abstractmethod
    def negative_share(self) -> float:
        """Share of the gram's spectrum that was negative and has been dropped."""

    @property
    def n_support(self) -> int:
        return int(self.points.shape[0])

    @cached_property
    def gram(self) -> np.ndarray:
        """(m, m), K_SS, or its positive part if the kernel is indefinite."""
        return self.coordinates @ self.coordinates.T

    @cached_property
    def moment(self) -> np.ndarray:
        """(q, q), sum_n w_n f_n f_n', about the mean where centred."""
        return self.covariance * self.weight

    @cached_property
    def features(self) -> np.ndarray:
        """(m, p), F with F F' = sum_n w_n k_n k_n', k_n = k(S, x_n), centred if the model is."""
        values, vectors = top_eigh(self.moment)
        return self.coordinates @ (vectors * np.sqrt(np.maximum(values, 0.0)))

    @property
    def mean_cross_gram(self) -> np.ndarray:
        """(m,) weighted mean of k(S, x) over all rows."""
        return self.coordinates @ self.mean

    @property
    def mean_square(self) -> float:
        """Squared length of the mean feature's projection on the span."""
        return float(self.mean @ self.mean)

    @property
    def total_variance(self) -> float:
        """Mean squared distance of phi(x) from the mean, or from the origin when not centred."""
        total = self.mean_length - (self.mean_square if self.center else 0.0)
        # the total of an indefinite kernel can be less than the variance of its positive part
        return total if self.kernel.definite else max(total, float(np.trace(self.covariance)))

    @property
    def spread(self) -> float:
        """The total variance as a share of the mean of |k(x, x)|, which may be negative under an indefinite kernel."""
        return self.total_variance / max(abs(self.mean_length), TINY)

    def surely_captured(self, captured: float) -> float:
        """A lower bound on the captured ratio of the best components, whose variances sum to `captured`.

        Exact kernel PCA captures at most what they do plus all variance outside the span (Ky Fan; the cross terms of a
        positive semi-definite operator cannot add more), and both are known from all rows.
        """
        if not self.kernel.definite or not captured > 0:
            return 0.0
        return captured / (captured + max(self.total_variance - float(np.trace(self.covariance)), 0.0))

    def mean_beyond(self, expansion: KernelExpansion) -> float:
        """Squared length of the part of the mean that is in this span but outside the span of a model's own points."""
        if expansion.mean_coef is None or expansion.points.shape[0] == self.n_support:
            return 0.0
        coef = to_numpy(expansion.mean_coef)
        kept = float(coef @ to_numpy(gram_of(expansion.kernel, expansion.points)) @ coef)
        return max(self.mean_square - kept, 0.0)

    def gram_at(self, places: np.ndarray) -> np.ndarray:
        """K over the points at these places."""
        coordinates = self.coordinates[places]
        return coordinates @ coordinates.T

    def directions(self, coef: np.ndarray, places: np.ndarray | None = None) -> np.ndarray:
        """(q, M) coordinates, in this span, of the components sum_i coef_i phi(s_i)."""
        return (self.coordinates if places is None else self.coordinates[places]).T @ coef

    def variances(self, coef: np.ndarray, places: np.ndarray | None = None) -> np.ndarray:
        """(M,) variances of the training rows' scores on given components."""
        return quadratic_forms(self.covariance, self.directions(coef, places))

    def variances_in_order(self, coef: np.ndarray, places: np.ndarray | None = None) -> np.ndarray:
        """(M,) the variance that each component adds to those before it, whether or not they are orthonormal."""
        return quadratic_forms(self.covariance, orthonormal_in_order(self.directions(coef, places)))

    def captured(self, coef: np.ndarray, places: np.ndarray | None = None) -> float:
        """Variance captured by the span of the given components."""
        left, lengths, _ = np.linalg.svd(self.directions(coef, places), full_matrices=False)
        basis = left[:, lengths > 1e-10 * lengths[0]]
        return float(np.trace(basis.T @ self.covariance @ basis))

    @abstractmethod
    def best(self, n_components: int) -> Components:
        """The components in the whole span that capture most."""

    def best_at(self, places: np.ndarray, n_components: int) -> np.ndarray:
        """Coefficients over the points at these places, for the components in their span that capture most.

        Columns are zero if that span has fewer directions.
        """
        whitening = whiten(self.gram_at(places)).matrix
        features = whitening.T @ self.coordinates[places]
        covariance = Operator.of(features @ self.covariance @ features.T)
        values, vectors = top(covariance, n_components, precise=True)
        real = values > np.finfo(np.float64).eps * max(float(values[0]), 0.0)
        coef = np.zeros((len(places), n_components))
        coef[:, : len(values)] = (whitening @ vectors) * real
        return coef * component_signs(coef)

    @abstractmethod
    def expansion(self, found: Components, *, orthogonal: bool = True) -> KernelExpansion:
        """The model with these components, over all points."""

    def expansion_at(self, places: np.ndarray, coef: np.ndarray, *, orthogonal: bool = True) -> KernelExpansion:
        """The model with these coefficients over the points at these places, and no others.

        Only the mean's projection on their span is kept.
        """
        kernel, points = self.kernel.part(self.points, places)
        offset, mean_coef = np.zeros(coef.shape[1]), None
        if self.center:
            mean = self.mean_cross_gram[places]
            whitening = whiten(self.gram_at(places)).matrix
            offset, mean_coef = mean @ coef, whitening @ (whitening.T @ mean)
        return KernelExpansion.of(kernel, points, coef, offset, mean_coef, orthogonal=orthogonal)


def quadratic_forms(matrix: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """v'Mv for every column v, M positive semi-definite; negative results are rounding and become zero."""
    return np.maximum(np.sum(vectors * (matrix @ vectors), axis=0), 0.0)


def orthonormal_in_order(inside: np.ndarray) -> np.ndarray:
    """Q of inside = Q R; a column that depends linearly on earlier ones is zero in Q."""
    basis, mixing = np.linalg.qr(inside)
    missing = inside.shape[1] - basis.shape[1]
    if missing:
        basis, mixing = np.pad(basis, ((0, 0), (0, missing))), np.pad(mixing, ((0, missing), (0, 0)))
    dependent = np.abs(np.diagonal(mixing)) <= HALF_THE_DIGITS * np.linalg.norm(inside, axis=0)
    basis[:, dependent] = 0.0
    return basis


@dataclass(frozen=True)
class Points:
    """Chosen points: all that is needed to make a span."""

    kernel: Kernel  # the kernel that the `points` belong to
    points: Array  # (m, d)
    indices: np.ndarray | None  # (m,) numbers of training rows, or None if the points are not rows
    exhaustive: bool = field(default=False, kw_only=True)  # the points are all (distinct) rows of the data
    counts: np.ndarray | None = field(default=None, kw_only=True)  # (m,) multiplicity of each row; None if all are 1
    by_evaluation: bool = field(default=False, kw_only=True)  # chosen by exact components of the evaluation rows
    optimal: bool = field(default=False, kw_only=True)  # no points are better for the rows of the sample
    # places of the evaluation rows that points started from
    seeds: np.ndarray | None = field(default=None, kw_only=True)

    @property
    def n_support(self) -> int:
        return int(self.points.shape[0])

    @cached_property
    def gram(self) -> Array:
        """K_SS in float64."""
        return gram_of(self.kernel, self.points)

    @cached_property
    def spectrum(self) -> GramSpectrum:
        """The spectrum of K_SS, computed once; the span and the measurements whiten it to their own tolerances."""
        return GramSpectrum.of(self.gram)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("gram", "spectrum")}


@dataclass(frozen=True)
class PointSpan(Span):
    """The span of a few points, with moments from one pass over all rows."""

    moments: Moments
    dropped: float = 0.0  # share of the gram's spectrum that is negative
    known_gram: Array | None = None  # K_SS, if it has been computed already

    @cached_property
    def point_gram(self) -> Array:
        """(m, m), K_SS, on the device of the points."""
        return gram_of(self.kernel, self.points) if self.known_gram is None else self.known_gram

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
        """The signature J, W'K_SS W = J, if an indefinite kernel's negative part is kept; None otherwise."""
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
        positive, _ = top(Operator.of(self.covariance), len(self.signs), signature=self.signs)
        return max(total, float(positive.sum()))

    def best(self, n_components: int) -> Components:
        """With C the covariance of whitened features, C V = V diag(variance): coefficients W V."""
        covariance = Operator.of(self.moments.covariance(self.center))
        values, vectors = top(covariance, n_components, signature=self.signs, precise=True)
        vectors = like(vectors, self.moments.whitening)
        coef = self.moments.whitening @ vectors
        signs = component_signs(coef)
        return Components(coef * signs, np.maximum(values, 0.0), vectors * signs)

    def expansion(self, found: Components, *, orthogonal: bool = True) -> KernelExpansion:
        moments, coef = self.moments, like(found.coef, self.moments.whitening)
        offset, mean_coef = namespace(coef).zeros_like(coef[0, :]), None
        if self.center:
            directions = like(self.directions(found.coef) if found.directions is None else found.directions, coef)
            mean = moments.mean if self.signs is None else moments.mean * like(self.signs, moments.mean)
            offset, mean_coef = moments.mean @ directions, moments.whitening @ mean
        return KernelExpansion(self.kernel, self.points, coef, offset, mean_coef, orthogonal=orthogonal)


@dataclass(frozen=True)
class AllRowsSpan(Span):
    """The span of all rows of a small data set: by their gram if it is `dense`, else by its Cholesky factor."""

    counts: np.ndarray | None  # (m,) how often each row counts, None where each does once
    known_coordinates: np.ndarray | None = None
    dense: bool = False

    @classmethod
    def of(cls, chosen: Points, center: bool, *, dense: bool) -> AllRowsSpan:
        """The span of all rows."""
        rows = finite(chosen.points)
        return cls(chosen.kernel, rows, chosen.indices, center, chosen.counts, None, dense)

    @cached_property
    def _weights(self) -> np.ndarray:
        return np.ones(self.n_support) if self.counts is None else self.counts

    @cached_property
    def _diagonal(self) -> np.ndarray:
        rows = self._host_rows
        diagonal = to_numpy(self.kernel.diagonal_of(rows))
        check_kernel_diagonal(diagonal)
        return diagonal

    @cached_property
    def _host_rows(self) -> Array:
        """The rows on the host, where they are factorised."""
        rows = as_float64(self.points)
        return to_numpy(rows) if is_foreign(rows) else rows

    @property
    def weight(self) -> float:
        return float(self._weights.sum())

    @cached_property
    def mean_length(self) -> float:
        return float(self._weights @ self._diagonal) / self.weight

    @cached_property
    def negative_share(self) -> float:
        return 0.0 if self.kernel.definite else negative_share(self.gram)

    @cached_property
    def gram(self) -> np.ndarray:
        gram = to_numpy(gram_of(self.kernel, self.points))
        check_kernel_values(gram)
        return gram

    def gram_at(self, places: np.ndarray) -> np.ndarray:
        return to_numpy(gram_of(*self.kernel.part(self.points, places)))

    @cached_property
    def features(self) -> np.ndarray:
        features = self.gram - self.mean_cross_gram[:, None] if self.center else self.gram
        return features if self.counts is None else features * np.sqrt(self.counts)

    @cached_property
    def coordinates(self) -> np.ndarray:
        if self.known_coordinates is not None:
            return self.known_coordinates
        factor = np.ascontiguousarray(pivoted_cholesky(self._column, self._diagonal).filled)
        check_finite_kernel(factor)
        return factor

    def _column(self, j: int) -> np.ndarray:
        if self.dense:
            return self.gram[:, j]
        return self._cross_gram(self._host_rows[j : j + 1, :])[0]

    @cached_property
    def _cross_gram(self) -> CrossGram:
        return self.kernel.bind(self._host_rows)

    @cached_property
    def mean(self) -> np.ndarray:
        return self._weights @ self.coordinates / self.weight

    @cached_property
    def covariance(self) -> np.ndarray:
        rows = self.coordinates - self.mean if self.center else self.coordinates
        return rows.T @ (rows if self.counts is None else rows * self.counts[:, None]) / self.weight

    @cached_property
    def mean_cross_gram(self) -> np.ndarray:
        if self.dense:
            return self.gram @ (self._weights / self.weight)
        return super().mean_cross_gram

    @property
    def mean_square(self) -> float:
        return float(self._weights @ self.mean_cross_gram) / self.weight

    @property
    def total_variance(self) -> float:
        return self.mean_length - (self.mean_square if self.center else 0.0)

    def reweighted(self, counts: np.ndarray) -> AllRowsSpan:
        """These rows with other weights; the coordinates are kept."""
        return replace(self, counts=counts, known_coordinates=self.coordinates)

    def best(self, n_components: int) -> Components:
        """Exact kernel PCA: the eigenproblem is that of the rows' (weighted) gram.

        As in scikit-learn's KernelPCA, an indefinite kernel loses its negative part after centring, not before.
        """
        found = exact_components(self.gram, n_components, center=self.center, weights=self.counts, precise=True)
        real = found.variances > np.finfo(np.float64).eps * found.variances[0]
        scale = np.where(real, 1.0 / np.sqrt(np.where(real, found.variances, 1.0)), 0.0)
        coef = found.directions * scale
        return Components(coef * component_signs(coef), found.variances)

    def expansion(self, found: Components, *, orthogonal: bool = True) -> KernelExpansion:
        coef, mean_coef = to_numpy(found.coef), self._weights / self.weight if self.center else None
        offset = self.mean_cross_gram @ coef if self.center else np.zeros(coef.shape[1])
        return KernelExpansion.of(self.kernel, self.points, coef, offset, mean_coef, orthogonal=orthogonal)
