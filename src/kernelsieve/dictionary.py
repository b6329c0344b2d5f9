"""A dictionary: rows that may become support, and all that a fit on them needs of the other rows.

With D the r dictionary rows, K_DD their gram and W its whitening, every row is seen as f(x) = W' k(D, x), so that

    k(D, x) = K_DD W f(x)          sum_n w_n k(D, x_n) k(D, x_n)' = F F',      F = K_DD W (sum_n w_n f_n f_n')^1/2

Few rows are all their own dictionary: then F is their gram itself, times the square roots of their weights, and no
eigenproblem is solved.  With centring, f is centred and K_DD is not: expansions are over uncentred features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._array import Array, to_numpy, top_eigh
from .blocks import finite
from .kernels import Kernel
from .moments import RANK_TOLERANCE, check_kernel_values, gram_of, whiten
from .sample import Sample
from .selection.base import Selection
from .selection.rules import SELECTORS
from .sources import Source

MAX_ALL_ROWS = 2000  # so many different rows are all taken
DEFAULT_SIZE = 512
ROWS_PER_POINT, MIN_ROWS = 20, 5000  # that a dictionary is chosen from


@dataclass(frozen=True)
class Dictionary:
    """Candidate rows and second moments of all rows over them."""

    kernel: Kernel  # the kernel in which `points` are meant
    points: Array  # (r, d)
    indices: np.ndarray  # (r,) numbers of training rows
    gram: np.ndarray  # (r, r), K_DD; its positive part where the kernel is indefinite
    features: np.ndarray  # (r, p), F F' = sum_n w_n k_n k_n', centred where asked
    mean: np.ndarray | None  # (r,) weighted mean of k(D, x), None when not centred
    weight: float  # of all rows
    length: float  # sum_n w_n |phi(x_n)|^2, about the mean where centred
    mean_length: float  # mean of k(x, x)
    negative_share: float  # of the gram's spectrum

    def at(self, places: np.ndarray) -> tuple[Kernel, Array]:
        """The kernel and the points at these places of the dictionary."""
        return self.kernel.part(self.points, places)

    @property
    def total_variance(self) -> float:
        return self.length / self.weight


def rows_to_choose_from(n_dictionary: int | None) -> int:
    """The number of rows that a dictionary of so many is chosen from."""
    return max(MIN_ROWS, ROWS_PER_POINT * (n_dictionary or DEFAULT_SIZE))


def build_dictionary(source: Source, sample: Sample, n_dictionary: int | None, rng: np.random.Generator) -> Dictionary:
    """All of the sample's rows where they are all there are and few, else rows by randomly pivoted Cholesky.

    One pass over all rows, O(N r (d + r)), unless the dictionary is all rows.
    """
    size = n_dictionary or (MAX_ALL_ROWS if sample.rows.whole and sample.size <= MAX_ALL_ROWS else DEFAULT_SIZE)
    if sample.rows.whole and sample.size <= size:
        return _of_all_rows(sample)
    selection = SELECTORS["rpcholesky"](sample, size, rng)
    return _of_some_rows(source, selection, sample)


def _of_all_rows(sample: Sample) -> Dictionary:
    order = np.argsort(sample.rows.indices)
    indices = sample.rows.indices[order]
    kernel, points = sample.kernel.at(sample.rows.X, indices)
    finite(points)
    gram = to_numpy(gram_of(kernel, points))
    check_kernel_values(gram)
    weights = np.ones(len(indices)) if sample.rows.weights is None else sample.rows.weights[order]
    root = None if sample.rows.weights is None else np.sqrt(weights)
    negative_share = 0.0
    if not kernel.definite:
        whitening = whiten(gram, RANK_TOLERANCE)
        negative_share = whitening.negative_share
        coordinates = gram @ to_numpy(whitening.matrix)
        gram = coordinates @ coordinates.T
    weight = float(weights.sum())
    length = float(weights @ np.diagonal(gram))
    mean, features = None, gram
    mean_length = length / weight
    if sample.center:
        mean = gram @ weights / weight
        features = gram - mean[:, None]
        length -= float(weights @ mean)
    return Dictionary(
        kernel,
        points,
        sample.rows.numbers_of(indices),
        gram,
        features if root is None else features * root,
        mean,
        weight,
        length,
        mean_length,
        negative_share,
    )


def _of_some_rows(source: Source, selection: Selection, sample: Sample) -> Dictionary:
    assert selection.indices is not None
    kernel, points = selection.kernel, selection.points
    gram = gram_of(kernel, points)
    whitening = whiten(gram, max(source.rank_tolerance, sample.indefiniteness))
    moments = source.moments(kernel, points, whitening.matrix, sample.n_threads)
    coordinates = to_numpy(gram @ whitening.matrix)
    values, vectors = top_eigh(to_numpy(moments.covariance(sample.center)) * moments.weight)
    return Dictionary(
        kernel,
        points,
        selection.indices,
        coordinates @ coordinates.T,
        coordinates @ (vectors * np.sqrt(np.maximum(values, 0.0))),
        coordinates @ to_numpy(moments.mean) if sample.center else None,
        moments.weight,
        moments.weight * moments.total_variance(sample.center),
        moments.trace / moments.weight,
        whitening.negative_share,
    )
