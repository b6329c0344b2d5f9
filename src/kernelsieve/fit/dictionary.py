"""A dictionary: rows that may become support, and all that a fit on them needs of the other rows.

The dictionary's r rows D have coordinates G (r x q) in an orthonormal basis of span(phi(D)), K_DD = G G'; every
training row, projected on that span, has coordinates f, and

    M = sum_n w_n f_n f_n'          (about their mean when centred)          k(D, x_n) = G f_n

is all that the training rows leave behind.  Where the likelihood wants sum_n w_n k_n k_n' it is G M G'.

    some rows    coordinates by whitening, G = K_DD W, f = W'k(D, x); M from one pass over all rows
    all rows     coordinates by pivoted Cholesky, f the rows of G themselves; nothing N x N unless it is asked for

With centring, M is centred and K_DD is not: expansions are over uncentred features.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np

from ..arrays import Array, as_float64, is_foreign, to_numpy, top_eigh
from ..kernels import CrossGram, Kernel
from ..rows.blocks import finite
from ..rows.memory import Source
from ..selection.rules import SELECTORS
from ..solvers.pivoted import pivoted_cholesky
from .moments import Moments, check_finite_kernel, check_kernel_diagonal, check_kernel_values, gram_of, whiten
from .sample import Sample

MAX_ALL_ROWS = 2000  # so many different rows are all taken
DEFAULT_SIZE = 512
ROWS_PER_POINT, MIN_ROWS = 20, 5000  # that a dictionary is chosen from


class Dictionary(ABC):
    """Candidate rows and second moments of all rows over them."""

    negative_share = 0.0  # of the gram's spectrum, dropped

    def __init__(self, kernel: Kernel, points: Array, indices: np.ndarray, *, center: bool) -> None:
        self.kernel = kernel  # the kernel in which `points` are meant
        self.points = points  # (r, d)
        self.indices = indices  # (r,) numbers of training rows
        self.center = center

    coordinates: np.ndarray | cached_property[np.ndarray]  # (r, q), G
    moment: np.ndarray | cached_property[np.ndarray]  # (q, q), M
    weight: float  # of all rows
    mean_length: float  # mean of k(x, x)

    @property
    @abstractmethod
    def mean(self) -> np.ndarray:
        """(r,) weighted mean of k(D, x) over all rows."""

    @property
    @abstractmethod
    def mean_square(self) -> float:
        """Squared length of the mean feature, as far as it is in the span."""

    @cached_property
    def gram(self) -> np.ndarray:
        """(r, r), K_DD, its positive part where the kernel is indefinite."""
        return self.coordinates @ self.coordinates.T

    @cached_property
    def features(self) -> np.ndarray:
        """(r, p), F with F F' = sum_n w_n k_n k_n', centred where asked."""
        values, vectors = top_eigh(self.moment)
        return self.coordinates @ (vectors * np.sqrt(np.maximum(values, 0.0)))

    def gram_at(self, places: np.ndarray) -> np.ndarray:
        """K over the rows at these places."""
        if "gram" in vars(self):
            return self.gram[np.ix_(places, places)]
        coordinates = self.coordinates[places]
        return coordinates @ coordinates.T

    @property
    def length(self) -> float:
        """sum_n w_n |phi(x_n)|^2, about the mean where centred."""
        return self.weight * (self.mean_length - (self.mean_square if self.center else 0.0))

    @property
    def total_variance(self) -> float:
        return self.length / self.weight

    def at(self, places: np.ndarray) -> tuple[Kernel, Array]:
        """The kernel and the points at these places of the dictionary."""
        return self.kernel.part(self.points, places)


class SomeRows(Dictionary):
    """Dictionary rows over which one pass has summed up all rows."""

    def __init__(
        self,
        kernel: Kernel,
        points: Array,
        indices: np.ndarray,
        coordinates: np.ndarray,
        moments: Moments,
        *,
        center: bool,
        negative_share: float,
    ) -> None:
        super().__init__(kernel, points, indices, center=center)
        self.coordinates = coordinates
        self.moment = to_numpy(moments.covariance(center)) * moments.weight
        self.weight = moments.weight
        self.mean_length = moments.trace / moments.weight
        self.negative_share = negative_share
        self._mean = to_numpy(moments.mean)

    @property
    def mean(self) -> np.ndarray:
        return self.coordinates @ self._mean

    @property
    def mean_square(self) -> float:
        return float(self._mean @ self._mean)

    @property
    def length(self) -> float:
        return max(super().length, float(np.trace(self.moment)))  # less only where the kernel is indefinite


class AllRows(Dictionary):
    """All rows as their own dictionary; their gram, or its factor, is made when first asked for."""

    def __init__(
        self, kernel: Kernel, points: Array, indices: np.ndarray, weights: np.ndarray | None, *, center: bool
    ) -> None:
        super().__init__(kernel, finite(points), indices, center=center)
        self.unrepeated = weights is None  # every row counts once
        self._weights = np.ones(len(indices)) if weights is None else weights
        self.weight = float(self._weights.sum())
        self._diagonal = kernel.diagonal(self._rows)
        check_kernel_diagonal(self._diagonal)
        self.mean_length = float(self._weights @ self._diagonal) / self.weight

    def reweighted(self, weights: np.ndarray) -> AllRows:
        """The same rows with other weights; coordinates are not made again."""
        other = AllRows(self.kernel, self.points, self.indices, weights, center=self.center)
        vars(other)["coordinates"] = self.coordinates
        return other

    @cached_property
    def gram(self) -> np.ndarray:
        gram = to_numpy(gram_of(self.kernel, self.points))
        check_kernel_values(gram)
        return gram

    @cached_property
    def features(self) -> np.ndarray:
        features = self.gram - self.mean[:, None] if self.center else self.gram
        return features if self.unrepeated else features * np.sqrt(self._weights)

    @cached_property
    def coordinates(self) -> np.ndarray:  # type: ignore[override]
        factor = pivoted_cholesky(self._column, self._diagonal).factor
        check_finite_kernel(factor)
        return factor

    def _column(self, j: int) -> np.ndarray:
        return self._cross_gram(self._rows[j : j + 1, :])[0]

    @cached_property
    def _rows(self) -> Array:
        """The rows on the host, where they are factorised."""
        rows = as_float64(self.points)
        return to_numpy(rows) if is_foreign(rows) else rows

    @cached_property
    def _cross_gram(self) -> CrossGram:
        return self.kernel.bind(self._rows)

    @cached_property
    def moment(self) -> np.ndarray:  # type: ignore[override]
        rows = self.coordinates
        if self.center:
            rows = rows - self._weights @ rows / self.weight
        return rows.T @ (rows if self.unrepeated else rows * self._weights[:, None])

    @cached_property
    def mean(self) -> np.ndarray:
        share = self._weights / self.weight
        if "gram" in vars(self):
            return self.gram @ share
        return self.coordinates @ (self.coordinates.T @ share)

    @property
    def mean_square(self) -> float:
        return float(self._weights @ self.mean) / self.weight


def rows_to_choose_from(n_dictionary: int | None) -> int:
    """The number of rows that a dictionary of so many is chosen from."""
    return max(MIN_ROWS, ROWS_PER_POINT * (n_dictionary or DEFAULT_SIZE))


def build_dictionary(source: Source, sample: Sample, n_dictionary: int | None, rng: np.random.Generator) -> Dictionary:
    """All of the sample's rows where they are all there are and few, else rows by randomly pivoted Cholesky.

    One pass over all rows, O(N r (d + r)), unless the dictionary is all rows.
    """
    kernel, points, indices, everything = dictionary_points(sample, n_dictionary, rng)
    if not (everything and kernel.definite):  # an indefinite kernel's negative part has to be found and dropped
        return summed_dictionary(source, sample, kernel, points, indices)
    weights = sample.rows.counts
    weights = None if weights is None else weights[np.argsort(sample.rows.indices)]
    return AllRows(kernel, points, indices, weights, center=sample.center)


def dictionary_points(
    sample: Sample, n_dictionary: int | None, rng: np.random.Generator
) -> tuple[Kernel, Array, np.ndarray, bool]:
    """Kernel, points and row numbers of a dictionary, and whether these are all rows there are."""
    size = n_dictionary or (MAX_ALL_ROWS if sample.rows.whole and sample.size <= MAX_ALL_ROWS else DEFAULT_SIZE)
    if not (sample.rows.whole and sample.size <= size):
        selection = SELECTORS["rpcholesky"](sample, size, rng)
        assert selection.indices is not None
        return selection.kernel, selection.points, selection.indices, False
    indices = np.sort(sample.rows.indices)
    kernel, points = sample.kernel.at(sample.rows.X, indices)
    return kernel, points, sample.rows.numbers_of(indices), True


def summed_dictionary(source: Source, sample: Sample, kernel: Kernel, points: Array, indices: np.ndarray) -> SomeRows:
    """Moments of all rows over these points, in one pass."""
    gram = gram_of(kernel, points)
    check_finite_kernel(gram)
    whitening = whiten(gram, max(source.rank_tolerance, sample.indefiniteness))
    moments = source.moments(kernel, points, whitening.matrix, sample.n_threads)
    return SomeRows(
        kernel,
        points,
        indices,
        to_numpy(gram @ whitening.matrix),
        moments,
        center=sample.center,
        negative_share=whitening.negative_share,
    )
