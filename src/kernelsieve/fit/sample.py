"""The rows that selection looks at: a random sample, its gram, and exact kernel PCA on it.

Choosing points needs far fewer rows than fitting them: a few thousand say where the variance is.  A `Sample` holds
those rows with their weights and computes once, when first asked, what several users share: the gram of (a part of) the
rows, and exact kernel PCA on it, which gives targeted selection its targets and `captured_ratio_` its denominator.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy.sparse

from ..arrays import Array, as_float64, is_numpy, itemsize, namespace, product, take_columns, take_rows, to_numpy
from ..kernels import CrossGram, Kernel
from ..rows.memory import SampledRows
from ..solvers.spectrum import (
    RANK_TOLERANCE,
    ExactComponents,
    check_finite_kernel,
    exact_components,
    share_of_negative,
)
from ..threads import cached_property, matmul, one_blas_thread, ordered_map, row_ranges, side_by_side
from .reference import Drawn, Half, LightRows, carried_variance, draw, heavy_tailed

# Rows looked at for m points.  On the first of them, the reference, the result is measured; the rest guide the search.
STEERING_ROWS, STEERING_ROWS_PER_POINT = 4000, 50
# Many points cost m^2 a row: beyond MANY_POINTS every further one brings fewer rows.
MANY_POINTS, ROWS_PER_FURTHER_POINT = 200, 4
REFERENCE_ROWS, REFERENCE_ROWS_PER_POINT = 1000, 4
SMALL_SAMPLE = 2000  # a whole data set up to this size is its own reference
GRAM_BLOCK_ROWS = 250
POINTS_FOR_THREADS = 400  # with fewer the kernel values of the reference rows cost no more than threads do
# Multiplications that the gram of a whole sample may cost, and how many of them one difference |x - y| costs.
MAX_GRAM_WORK, DIFFERENCE_COST = 2e10, 10.0
UNEVEN = 1.6  # tails (fit/reference.py) from which on the reference rows are drawn by what they carry
FLOAT32_SEES = 1e-5  # of k(x, x): a captured variance that is less is known to two or three digits in float32
INDEFINITE = 1e-6  # a negative eigenvalue below this share of the largest variance counts for nothing


def cross_gram_of(kernel: Kernel, rows: Array, points: Array, n_threads: int) -> Array:
    """k(rows, points), the rows spread over threads where the points are many."""
    if not is_numpy(rows) or points.shape[0] < POINTS_FOR_THREADS:
        return kernel(rows, points)
    cross_gram = kernel.bind(points)
    with one_blas_thread():
        return np.concatenate(
            list(ordered_map(lambda part: cross_gram(rows[part]), row_ranges(len(rows), GRAM_BLOCK_ROWS), n_threads))
        )


def gram_times(gram: Array, right: np.ndarray) -> np.ndarray:
    """gram @ right on the host, a few rows at a time: a float32 gram times float64 numbers would be copied whole."""
    parts = row_ranges(gram.shape[0], GRAM_BLOCK_ROWS if is_numpy(gram) else gram.shape[0])
    return np.concatenate([to_numpy(product(gram[rows, :], right)) for rows in parts])


def default_sample_size(n_support: int) -> int:
    """Rows to look at when choosing `n_support` points."""
    further = max(n_support - MANY_POINTS, 0)
    steering = STEERING_ROWS_PER_POINT * (n_support - further) + ROWS_PER_FURTHER_POINT * further
    return max(STEERING_ROWS, steering) + default_reference_rows(n_support)


def default_reference_rows(n_support: int) -> int:
    """Rows of the sample that go into its gram."""
    return max(REFERENCE_ROWS, REFERENCE_ROWS_PER_POINT * n_support)


@dataclass(frozen=True)
class Sample:
    """Sampled rows under a kernel."""

    rows: SampledRows
    kernel: Kernel
    n_components: int
    center: bool
    n_threads: int = 1
    reference_rows: int = REFERENCE_ROWS
    in_float64: bool = False  # no shortcut in precision
    n_population: int = 0  # all training rows, where the sample is not all of them
    drawn: Drawn | None = None  # how the reference rows were drawn, where rows carry very different shares of variance

    @property
    def size(self) -> int:
        return len(self.rows.indices)

    @property
    def n_reference(self) -> int:
        """Rows in the gram and in exact kernel PCA: the first so many of the sample."""
        if self.rows.whole:
            return self.size if self.size <= SMALL_SAMPLE else min(self.size, self.reference_rows)
        return min(self.size // 2, self.reference_rows)  # at least as many are left to guide the search

    @property
    def reference_is_all(self) -> bool:
        """Whether the reference rows are all rows there are."""
        return self.rows.whole and self.n_reference == self.size

    @property
    def steering(self) -> slice:
        """Rows that guide the search for points.

        The reference rows measure what the search reached, so they do not guide it, unless the sample is all there is.
        But for one share of them: as large a share of all training rows guides the search, and they stand for all.
        """
        if self.rows.whole:
            return slice(0, self.size)
        if self.drawn is not None:
            return slice(self.light.n_pool, self.size)
        others = max(self.n_population - self.size, 0)
        return slice(round(self.n_reference * others / max(self.n_population - self.n_reference, 1)), self.size)

    @property
    def omega(self) -> np.ndarray | None:
        """Weights with sum one, or None when all are equal."""
        weights = self.rows.weights
        return None if weights is None else weights / weights.sum()

    @property
    def reference_weights(self) -> np.ndarray | None:
        """How much each reference row counts, or None when all count the same."""
        if self.drawn is not None:
            return self.drawn.weights
        return None if self.rows.weights is None else self.rows.weights[: self.n_reference]

    @property
    def chances(self) -> np.ndarray:
        """(n_reference,) the chance that each row, as one of all training rows, had of being a reference row."""
        # of the sample among all rows; copies are one row of the sample
        share = 1.0 if self.rows.whole else self.size / max(self.n_population, self.size)
        if self.drawn is not None:
            return self.drawn.chances * share
        return np.full(self.n_reference, share * self.n_reference / self.size)

    @property
    def representative(self) -> Sample:
        """The same sample with reference rows that miss no heavy ones (fit/reference.py); itself where none are heavy.

        It is not remembered: a sample that holds itself would hold the rows, on a device perhaps, after the fit.
        """
        if self.reference_is_all or not self.kernel.differentiable or scipy.sparse.issparse(self.rows.X):
            return self
        rows, weights = self.light.pool, self.rows.weights
        weights = None if weights is None else weights[: rows.shape[0]]
        carried = carried_variance(self.kernel, rows, weights)
        if not heavy_tailed(carried, weights, UNEVEN):
            return self
        drawn = draw(carried, weights, self.n_reference)
        places = np.concatenate([drawn.places, np.setdiff1d(np.arange(self.size), drawn.places)])
        again = replace(self, rows=self.rows.at(places), drawn=drawn, reference_rows=len(drawn.places))
        vars(again)["light"] = self.light.with_reference(again.rows, again.n_reference)
        return again

    @cached_property
    def on_all_rows(self) -> Sample | None:
        """The same sample with all its rows as the reference; None where they are not all there are, or too many."""
        X, kernel = self.rows.X, self.kernel
        cost = 1.0 if kernel.metric == "euclidean" else DIFFERENCE_COST
        if not self.rows.whole or self.reference_is_all or cost * X.shape[1] * self.size**2 > MAX_GRAM_WORK:
            return None
        again = replace(self, reference_rows=self.size, drawn=None)
        vars(again)["light"] = self.light.with_reference(self.rows, self.size)
        vars(again)["indefiniteness"] = self.indefiniteness
        return again

    @cached_property
    def afresh(self) -> Sample:
        """The same sample with its last rows as the reference, in place of the first."""
        again = replace(self, rows=self.rows.at(np.arange(self.size)[::-1]), drawn=None)
        vars(again)["indefiniteness"] = self.indefiniteness
        return again

    @cached_property
    def light(self) -> LightRows:
        """The rows about their origin, in float32 where that will do."""
        return LightRows(self.rows, self.kernel, self.n_reference, self.in_float64)

    @property
    def reference(self) -> Array:
        """The reference rows as given."""
        return self.light.reference

    @cached_property
    def gram(self) -> Array:
        """K of the reference rows."""
        if self.kernel.precomputed:
            return self.kernel.at(self.rows.X, self.rows.indices[: self.n_reference])[1]
        rows = self.light.pool[: self.n_reference, :]
        if not is_numpy(rows):
            return self.kernel(rows, rows)
        gram = np.empty((self.n_reference, self.n_reference), dtype=rows.dtype)

        def fill(tile: tuple[slice, slice, CrossGram]) -> None:
            left, right, cross_gram = tile
            gram[left, right] = part = cross_gram(rows[left])
            if left != right:
                gram[right, left] = part.T

        blocks = row_ranges(self.n_reference, GRAM_BLOCK_ROWS)
        with one_blas_thread():
            bound = list(ordered_map(lambda block: self.kernel.bind(rows[block]), blocks, self.n_threads))
            # k(x, y) = k(y, x): only the tiles up to the diagonal are computed
            tiles = [(blocks[i], blocks[j], bound[j]) for i in range(len(blocks)) for j in range(i + 1)]
            list(ordered_map(fill, tiles, self.n_threads))
        return gram

    @cached_property
    def gram_on_host(self) -> np.ndarray:
        """The same as a numpy array: from a device it is copied once."""
        return to_numpy(self.gram)

    @cached_property
    def rounding(self) -> float:
        """How far rounding has moved the gram, as a share of its largest diagonal value.

        k(x, x) is known without rounding, and on the gram's diagonal it has come out like every other value: from
        products that cancel, the more so the further a row is from the origin.
        """
        gram = self.gram
        if itemsize(gram) == 8 or self.kernel.precomputed:
            return 0.0
        truth = to_numpy(self.kernel.diagonal(as_float64(self.light.pool[: self.n_reference, :])))
        largest = float(np.abs(truth).max())
        diagonal = to_numpy(namespace(gram).linalg.diagonal(gram))
        return 4 * float(np.finfo(np.float32).eps) + 2 * float(np.abs(diagonal - truth).max()) / largest

    @property
    def settled(self) -> Sample:
        """The same sample in the precision that its kernel needs: float32 sees nothing of rows that are nearly one."""
        pool = self.light.pool
        if not self.center or self.kernel.precomputed or not is_numpy(pool) or itemsize(pool) == 8:
            return self
        length = float(np.abs(np.diagonal(self.gram)).mean())
        return self.exactly if self.exact.captured < FLOAT32_SEES * length else self

    @property
    def exactly(self) -> Sample:
        """The same sample without shortcuts in precision."""
        return self if self.in_float64 else self._in_float64

    @cached_property
    def _in_float64(self) -> Sample:
        return replace(self, in_float64=True)

    @cached_property
    def indefiniteness(self) -> float:
        """|most negative| / largest eigenvalue of the gram: what is smaller is no better known than that.

        Dividing by such eigenvalues of K_SS would let an indefinite kernel's captured variance grow without bound.
        """
        if self.kernel.definite:
            return 0.0
        gram, values = self.gram, self._eigenvalues
        lowest, largest = float(values[0]), float(values[-1])
        if not largest > 0:
            raise ValueError("the kernel matrix of these rows has no positive part: nothing to model")
        # beside the variance: a kernel with a large constant has little of that, and a very large eigenvalue
        little = INDEFINITE if self.kernel.definite is None else RANK_TOLERANCE  # given values are rounded
        little *= min(self.n_reference * float(self.exact.variances[0]), largest)
        error = 4 * self.n_reference**0.5 * float(namespace(gram).max(gram)) + 10 * largest  # of values, of eigenvalues
        single = itemsize(self.gram) < 8
        error *= 2.0 ** (-23 if single else -52)
        if single and little < -lowest <= error and not self.kernel.precomputed:
            return self.exactly.indefiniteness  # float32 cannot tell it from rounding
        return -lowest / largest if -lowest > max(little, error) else 0.0

    @property
    def negative_share(self) -> float:
        """|negative eigenvalues| / all of them, of the gram."""
        return 0.0 if self.kernel.definite else share_of_negative(self._eigenvalues)

    @cached_property
    def _eigenvalues(self) -> Array:
        gram = as_float64(self.gram)
        check_finite_kernel(gram)
        return namespace(gram).linalg.eigvalsh((gram + gram.T) / 2)

    @cached_property
    def exact(self) -> ExactComponents:
        """Exact kernel PCA of the reference rows."""
        return exact_components(
            self.gram, self.n_components, center=self.center, weights=self.reference_weights, n_threads=self.n_threads
        )

    @cached_property
    def exact_halves(self) -> list[ExactComponents]:
        """Exact kernel PCA of each half of the reference rows."""
        directions, n_threads = self.exact.directions, self.n_threads if is_numpy(self.gram) else 1

        def exact_of(half: Half) -> ExactComponents:
            gram, near = self._gram_of(half.places, half.places), take_rows(directions, half.places)
            return exact_components(gram, self.n_components, center=self.center, weights=half.weights, near=near)

        return side_by_side([partial(exact_of, half) for half in self.halves], n_threads)

    def _gram_of(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        if self.drawn is None:  # neighbours
            return self.gram[slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)]
        return take_columns(take_rows(self.gram, rows), columns)

    def part_of(self, values: Array, half: Half) -> Array:
        """What half of the reference rows have of some values, a row each."""
        return values[half.places[0] : half.places[-1] + 1, :] if self.drawn is None else take_rows(values, half.places)

    @cached_property
    def halves(self) -> list[Half]:
        """The two halves of the reference rows; rows that no draw could have missed are in both."""
        if self.drawn is not None:
            return self.drawn.halves
        weights, places = self.reference_weights, np.arange(self.n_reference)
        parts = [places[part] for part in row_ranges(self.n_reference, -(-self.n_reference // 2))]
        return [Half(part, None if weights is None else weights[part]) for part in parts]

    @cached_property
    def captured_across(self) -> tuple[float, float]:
        """Variance that exact kernel PCA of one half captures on that half, and on the other; (0, 0) of none."""
        if self.n_reference < 2:
            return 0.0, 0.0
        found = self.exact_halves[0]
        positive = found.variances > 1e-12 * found.variances[0]
        if not positive.any():
            return 0.0, 0.0
        directions = to_numpy(found.directions)[:, positive] / np.sqrt(found.variances[positive])
        first, second = (half.places for half in self.halves)
        scores = gram_times(self._gram_of(second, first), directions)
        omega = self.halves[1].weights
        mean = np.average(scores, axis=0, weights=omega) if self.center else 0.0
        variance = np.average((scores - mean) ** 2, axis=0, weights=omega)
        return found.captured, float(variance.sum())

    @cached_property
    def targets(self) -> Array:
        """sqrt(lambda_k) v_k(x) for the reference rows, uncentred: what greedy selection explains."""
        return matmul(self.gram, self.exact.directions, self.n_threads)

    # Greedy rules read the gram of all sampled rows column by column: from the gram where that is all of
    # them, else from the kernel, so that nothing of size^2 is ever needed.

    @cached_property
    def diagonal(self) -> np.ndarray:
        """k(x, x) of all sampled rows."""
        if self.n_reference == self.size:
            return np.diagonal(self.gram_on_host).astype(np.float64)
        if self.kernel.precomputed:
            indices = self.rows.indices
            return np.asarray(self.rows.X[indices, indices], dtype=np.float64).ravel()
        return to_numpy(self.kernel.diagonal(self.light.all)).astype(np.float64)

    def column(self, j: int) -> np.ndarray:
        """k(x, x_j) of all sampled rows."""
        if self.n_reference == self.size:
            return to_numpy(self.gram[:, j])
        return self._cross_gram(slice(j, j + 1))[:, 0]

    @cached_property
    def all_targets(self) -> np.ndarray:
        """`targets` for all sampled rows."""
        if self.n_reference == self.size:
            return to_numpy(self.targets)
        return self._cross_gram(slice(0, self.n_reference)) @ to_numpy(self.exact.directions)

    def _cross_gram(self, columns: slice) -> np.ndarray:
        kernel, points = self.kernel, self.light.all[columns, :]
        if kernel.precomputed:
            kernel, points = kernel.at(self.rows.X, self.rows.indices[columns])
        return to_numpy(kernel(self.light.all, points))
