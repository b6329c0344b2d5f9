"""The span of all rows, for small data: exact kernel PCA, and the candidates of methods that choose among all rows.

A row's coordinates are its row of the pivoted Cholesky factor G, K = G G', so their mean and covariance need no pass
over the data.  The gram and its factor are computed only when they are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..arrays import Array, as_float64, is_foreign, to_numpy
from ..kernels import CrossGram
from ..rows.checks import finite
from ..solvers.greedy import pivoted_cholesky
from ..spectrum.top import component_signs, exact_components
from ..spectrum.whitening import check_finite_kernel, check_kernel_diagonal, check_kernel_values, negative_share
from ..threads import cached_property
from .expansion import KernelExpansion
from .moments import gram_of
from .span import Components, Points, Span


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
