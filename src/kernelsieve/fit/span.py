"""Span: points, the span of their features, and the moments of all rows over it.

The points S have the gram K_SS = G G', where the rows of G (m x q) are the coordinates of the points in an orthonormal
basis of span(phi(S)).  In this basis, the projection of a row x on the span has coordinates f(x) with

    k(S, x) = G f(x)

The mean and covariance of f over all training rows are all that a method needs to know about the data from here on:
they give the best components, the variance along given ones, their offset, the captured variance, and the problems of
the elastic net and of maximum likelihood.

    a few points    PointSpan: G = K_SS W by whitening, f(x) = W'k(S, x); mean and covariance from a pass over all rows
    all rows        AllRowsSpan: G by pivoted Cholesky, f(x_n) = row n of G; the N x N gram is computed only on request

An indefinite kernel may keep its negative part: then W'K_SS W = J, a diagonal of signs (`spectrum/whitening.py`).
With centring, the covariance is centred but K_SS is not, because expansions are over uncentred features.  If a method
keeps only some of the points, `places` are the positions of these.
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
from ..spectrum.top import ExactComponents, Operator, component_signs, exact_components, top
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
    """span(phi(S)) with the moments of all rows over it: all that a method needs to know about the data."""

    kernel: Kernel  # the kernel that the `points` belong to
    points: Array  # (m, d)
    indices: np.ndarray | None  # (m,) numbers of training rows, or None if the points are not rows
    center: bool

    @property
    @abstractmethod
    def coordinates(self) -> np.ndarray:
        """(m, q) matrix G."""

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
        """Sum of the weights of all rows."""

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
        """(m, m) gram K_SS, or its positive part if the kernel is indefinite."""
        return self.coordinates @ self.coordinates.T

    @cached_property
    def moment(self) -> np.ndarray:
        """(q, q) matrix sum_n w_n f_n f_n', with f_n relative to the mean if the model is centred."""
        return self.covariance * self.weight

    @cached_property
    def features(self) -> np.ndarray:
        """(m, p) matrix F with F F' = sum_n w_n k_n k_n', where k_n = k(S, x_n), centred if the model is."""
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
        # Under an indefinite kernel the total can be less than the variance of the positive part.
        return total if self.kernel.definite else max(total, float(np.trace(self.covariance)))

    @property
    def spread(self) -> float:
        """The total variance as a share of |mean of k(x, x)|; the mean may be negative under an indefinite kernel."""
        return self.total_variance / max(abs(self.mean_length), TINY)

    def surely_captured(self, captured: float) -> float:
        """A lower bound on the captured ratio of the best components, whose variances sum to `captured`.

        Exact kernel PCA captures at most what these components capture plus all variance outside the span.  (By Ky
        Fan's theorem, the cross terms of a positive semi-definite operator cannot add more.)  Both are known from all
        rows.
        """
        if not self.kernel.definite or not captured > 0:
            return 0.0
        return float(captured / (captured + max(self.total_variance - np.trace(self.covariance), 0.0)))

    def mean_beyond(self, expansion: KernelExpansion) -> float:
        """Squared length of the part of the mean that is in this span but outside the span of a model's own points."""
        if expansion.mean_coef is None or expansion.points.shape[0] == self.n_support:
            return 0.0
        coef = to_numpy(expansion.mean_coef)
        kept = float(coef @ to_numpy(gram_of(expansion.kernel, expansion.points)) @ coef)
        return max(self.mean_square - kept, 0.0)

    def gram_at(self, places: np.ndarray) -> np.ndarray:
        """The gram of the points at these places."""
        coordinates = self.coordinates[places]
        return coordinates @ coordinates.T

    def directions(self, coef: np.ndarray, places: np.ndarray | None = None) -> np.ndarray:
        """(q, M) coordinates in the basis of the span of the components sum_i coef_i phi(s_i)."""
        return (self.coordinates if places is None else self.coordinates[places]).T @ coef

    def variances(self, coef: np.ndarray, places: np.ndarray | None = None) -> np.ndarray:
        """(M,) variances of the training rows' scores on given components."""
        return quadratic_forms(self.covariance, self.directions(coef, places))

    def variances_in_order(self, coef: np.ndarray, places: np.ndarray | None = None) -> np.ndarray:
        """(M,) variance that each component adds to the components before it, which need not be orthonormal."""
        return quadratic_forms(self.covariance, orthonormal_in_order(self.directions(coef, places)))

    def captured(self, coef: np.ndarray, places: np.ndarray | None = None) -> float:
        """Variance captured by the span of the given components."""
        left, lengths, _ = np.linalg.svd(self.directions(coef, places), full_matrices=False)
        basis = left[:, lengths > 1e-10 * lengths[0]]
        return float(np.trace(basis.T @ self.covariance @ basis))

    @abstractmethod
    def best(self, n_components: int) -> Components:
        """The components in the whole span that capture most variance."""

    def best_at(self, places: np.ndarray, n_components: int) -> np.ndarray:
        """Coefficients of the best components in the span of the points at these places, over these points.

        The last columns are zero if that span has fewer than `n_components` directions.
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
        """The model with these components, which keeps all points."""

    def expansion_at(self, places: np.ndarray, coef: np.ndarray, *, orthogonal: bool = True) -> KernelExpansion:
        """The model with these coefficients, which keeps only the points at these places.

        Of the mean, it keeps the projection on the span of these points.
        """
        kernel, points = self.kernel.part(self.points, places)
        offset, mean_coef = np.zeros(coef.shape[1]), None
        if self.center:
            mean = self.mean_cross_gram[places]
            whitening = whiten(self.gram_at(places)).matrix
            offset, mean_coef = mean @ coef, whitening @ (whitening.T @ mean)
        return KernelExpansion.of(kernel, points, coef, offset, mean_coef, orthogonal=orthogonal)


def quadratic_forms(matrix: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """v'Mv for every column v, for a positive semi-definite M; negative results are due to rounding and become zero."""
    return np.maximum(np.sum(vectors * (matrix @ vectors), axis=0), 0.0)


def orthonormal_in_order(inside: np.ndarray) -> np.ndarray:
    """The factor Q of the QR decomposition of `inside`, with zero columns where a column depends on earlier ones."""
    basis, mixing = np.linalg.qr(inside)
    missing = inside.shape[1] - basis.shape[1]
    if missing:
        basis, mixing = np.pad(basis, ((0, 0), (0, missing))), np.pad(mixing, ((0, missing), (0, 0)))
    dependent = np.abs(np.diagonal(mixing)) <= HALF_THE_DIGITS * np.linalg.norm(inside, axis=0)
    basis[:, dependent] = 0.0
    return basis


@dataclass(frozen=True)
class SolvedRows:
    """Exact kernel PCA of all rows to all digits, with what else a model of all rows needs of their gram."""

    components: ExactComponents
    mean_cross_gram: np.ndarray  # (m,) weighted mean of k(S, x) over all rows


@dataclass(frozen=True)
class Points:
    """Chosen points, with what is needed to compute their span."""

    kernel: Kernel  # the kernel that the `points` belong to
    points: Array  # (m, d)
    indices: np.ndarray | None  # (m,) numbers of training rows, or None if the points are not rows
    exhaustive: bool = field(default=False, kw_only=True)  # the points are all (distinct) rows of the data
    counts: np.ndarray | None = field(default=None, kw_only=True)  # (m,) weight of each row; None if all are 1
    by_evaluation: bool = field(default=False, kw_only=True)  # chosen to explain the evaluation rows' exact components
    optimal: bool = field(default=False, kw_only=True)  # no other points capture more variance of the sample
    # Places of the evaluation rows at which points started.
    seeds: np.ndarray | None = field(default=None, kw_only=True)
    solved: SolvedRows | None = field(default=None, kw_only=True)  # exact kernel PCA, if the points are all rows

    @property
    def n_support(self) -> int:
        return int(self.points.shape[0])

    @cached_property
    def gram(self) -> Array:
        """K_SS in float64."""
        return gram_of(self.kernel, self.points)

    @cached_property
    def spectrum(self) -> GramSpectrum:
        """The spectrum of K_SS, computed once; the span and the measurements whiten it with tolerances of their own."""
        return GramSpectrum.of(self.gram)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("gram", "spectrum")}


@dataclass(frozen=True)
class PointSpan(Span):
    """The span of a few points, with moments from one pass over all rows."""

    moments: Moments
    dropped: float = 0.0  # share of the gram's spectrum that was negative and has been dropped
    known_gram: Array | None = None  # K_SS, if it has been computed already

    @cached_property
    def point_gram(self) -> Array:
        """(m, m) gram K_SS, on the device of the points."""
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
        """(m, q) whitening W."""
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
        """The diagonal of the signature J = W'K_SS W if the kernel's negative part is kept; None otherwise."""
        if self.kernel.definite:
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
        """The best components: coefficients W V, with V the eigenvectors of the covariance of whitened features."""
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
    """The span of all rows of a small data set.

    With `dense`, the whole gram is computed and everything else comes from it; otherwise only the columns that pivoted
    Cholesky asks for.
    """

    counts: np.ndarray | None  # (m,) weight of each row; None if all are one
    known_coordinates: np.ndarray | None = None
    dense: bool = False
    solved: SolvedRows | None = None

    @classmethod
    def of(cls, chosen: Points, center: bool, *, dense: bool = False) -> AllRowsSpan:
        """The span of all rows."""
        rows = finite(chosen.points)
        return cls(chosen.kernel, rows, chosen.indices, center, chosen.counts, None, dense, chosen.solved)

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
        """The rows on the host, where the Cholesky factor is computed."""
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
        if self.solved is not None:
            return self.solved.mean_cross_gram
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
        """This span with other weights of its rows; the coordinates are reused."""
        return replace(self, counts=counts, known_coordinates=self.coordinates, solved=None)

    def best(self, n_components: int) -> Components:
        """The components of exact kernel PCA, from the eigenvectors of the (weighted) gram of the rows.

        As in scikit-learn's KernelPCA, the negative part of an indefinite kernel is dropped after centring, not before.
        """
        if self.solved is not None and len(self.solved.components.variances) == n_components:
            found = self.solved.components
        else:
            found = exact_components(self.gram, n_components, center=self.center, weights=self.counts, precise=True)
        real = found.variances > np.finfo(np.float64).eps * found.variances[0]
        scale = np.where(real, 1.0 / np.sqrt(np.where(real, found.variances, 1.0)), 0.0)
        coef = found.row_coef * scale
        return Components(coef * component_signs(coef), found.variances)

    def expansion(self, found: Components, *, orthogonal: bool = True) -> KernelExpansion:
        coef, mean_coef = to_numpy(found.coef), self._weights / self.weight if self.center else None
        offset = self.mean_cross_gram @ coef if self.center else np.zeros(coef.shape[1])
        return KernelExpansion.of(self.kernel, self.points, coef, offset, mean_coef, orthogonal=orthogonal)
