"""RowSet: some rows under a kernel, and exact kernel PCA of them.

A fit uses several sets of rows: it searches for points on one, measures the result on another, and sums over all rows
in the end.  A `RowSet` holds the weight of each of its rows and the probability with which the row was drawn.  On first
use it computes what several callers share: the gram, and exact kernel PCA of the set and of two halves of it.

Samples must not miss heavy rows.  Under heavy tails, a few rows carry far more of the variance than others.  The
variance that a row carries is its squared distance from the mean in feature space.  It is approximated by the squared
distance from the feature of the mean row c,

    b_n = k(x_n, x_n) - 2 k(x_n, c) + k(c, c)

which is exact for a linear kernel and a good guide for others, and costs one column of kernel values.  A uniform sample
would miss a few rows that carry much.  So rows are drawn with probabilities p_n and get the weights omega_n / p_n,

    p_n = min(1, size (1/2 omega_n / sum omega + 1/2 omega_n b_n / sum omega b))

The heaviest rows are then certain to be drawn, and sums over the drawn rows are unbiased, however heavy the tails.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy.sparse

from ..arrays import (
    TINY,
    Array,
    add_to_diagonal,
    as_float64,
    cholesky,
    is_numpy,
    itemsize,
    like,
    namespace,
    number_dtype,
    product,
    solve_lower,
    take_columns,
    take_rows,
    to_numpy,
)
from ..kernels import CrossGram, Kernel
from ..numerics import HALF_THE_DIGITS
from ..rows.sampling import unit_weights
from ..spectrum.top import LARGE_FOR_LANCZOS, ExactComponents, exact_components
from ..spectrum.whitening import RANK_TOLERANCE, check_finite_kernel, share_of_negative
from ..threads import CACHED_ROWS, cached_property, matmul, one_blas_thread, ordered_map, row_ranges, side_by_side


@dataclass(frozen=True)
class Half:
    """Half of the rows of a set: their places in the set, and their weights."""

    places: np.ndarray
    weights: np.ndarray | None


@dataclass(frozen=True)
class Drawn:
    """Rows drawn with probabilities that grow with the variance they carry."""

    places: np.ndarray  # (size,), ascending
    weights: np.ndarray  # (size,) omega_n / p_n
    chances: np.ndarray  # probability of being drawn; 1 for rows so heavy that every draw takes them

    def halves(self, *, of_all: bool) -> list[Half]:
        """Two halves of the rows, each of which represents all rows, so that weights are doubled.

        `of_all` says that the rows were drawn from all training rows.  Then rows so heavy that every draw takes them
        are in both halves, with their weights unchanged.  If the rows were drawn from only some of the training rows,
        the others may include rows as heavy, so no row is in both halves.
        """
        certain, others = np.flatnonzero(self.chances >= 1.0), np.flatnonzero(self.chances < 1.0)
        if not of_all:
            parts = [np.concatenate([certain[i::2], others[i::2]]) for i in (0, 1)]
            return [Half(part, 2 * self.weights[part]) for part in parts]
        return [
            Half(np.concatenate([certain, part]), np.concatenate([self.weights[certain], 2 * self.weights[part]]))
            for part in (others[::2], others[1::2])
        ]


def carried_variance(
    kernel: Kernel, rows: Array, weights: np.ndarray | None, row_scale: Array | None = None
) -> np.ndarray:
    """(n,) variance b that each row carries; `row_scale` multiplies the kernel values of a row with other rows."""
    xp = namespace(rows)
    if weights is None:
        center = xp.mean(rows, axis=0)
    else:
        center = like(weights / weights.sum(), rows) @ rows
    center = center[None, :]
    cross = kernel(rows, center)[:, 0]
    if row_scale is not None:
        cross = cross * row_scale
    return np.maximum(to_numpy(kernel.diagonal(rows) - 2 * cross + kernel.diagonal(center)[0]), 0.0).astype(np.float64)


def tails(carried: np.ndarray, weights: np.ndarray | None) -> float:
    """n sum (w b)^2 / (sum w b)^2: 1 if all rows carry the same variance, 2 if it is distributed exponentially."""
    mass = unit_weights(weights, len(carried)) * carried  # a row of large weight is heavy, like one that is far out
    total = float(mass.sum())
    return len(mass) * float(np.sum((mass / total) ** 2)) if total > 0 else 0.0


def draw(carried: np.ndarray, weights: np.ndarray | None, size: int) -> Drawn:
    """Draw about `size` rows by systematic sampling in their given order, which is assumed to be random."""
    omega = np.ones(len(carried)) if weights is None else np.asarray(weights, dtype=np.float64)
    mass = omega / omega.sum() / 2 + omega * carried / (2 * float(omega @ carried))
    chance = _chances(mass, size)
    ends = np.floor(np.cumsum(chance) + 0.5 + 1e-9)
    places = np.flatnonzero(np.diff(ends, prepend=0.0) > 0)
    return Drawn(places, omega[places] / chance[places], chance[places])


def _chances(mass: np.ndarray, size: int) -> np.ndarray:
    """The probabilities min(1, c mass), with the factor c that makes their sum `size`."""
    size = min(size, len(mass))
    certain = np.zeros(len(mass), dtype=bool)
    while True:
        left = size - int(certain.sum())
        rest = float(mass[~certain].sum())
        chance = np.where(certain, 1.0, mass * (left / rest if rest > 0 else 0.0))
        more = ~certain & (chance >= 1.0)
        if not more.any():
            return chance
        certain |= more


POINTS_FOR_THREADS = 400  # for fewer points, starting threads takes longer than the kernel values of a row set
# With a smaller `RowSet.share_of_own`, the variances that components of one half of the rows capture on the two halves
# never differ by a factor of two. Of 336 tables made to find a counterexample, some with heavy tails and weights, 223
# had halves that differed, and their shares were .176 or more.
LITTLE_OF_OWN = 0.15
# The distance of a row from the span of ROWS_OF_SPAN others is measured for ROWS_APART rows.
ROWS_OF_SPAN, ROWS_APART = 250, 200
INDEFINITE = 1e-6  # negative eigenvalues below this share of the largest variance are ignored


def cross_gram_of(kernel: Kernel, rows: Array, points: Array, n_threads: int) -> Array:
    """k(rows, points); for many points, several threads share the rows."""
    if not is_numpy(rows) or points.shape[0] < POINTS_FOR_THREADS:
        return kernel(rows, points)
    cross_gram = kernel.bind(points)
    with one_blas_thread():
        return np.concatenate(
            list(ordered_map(lambda part: cross_gram(rows[part]), row_ranges(len(rows), CACHED_ROWS), n_threads))
        )


def gram_times(gram: Array, right: np.ndarray) -> np.ndarray:
    """gram @ right on the host, a few rows at a time, because numpy would convert a whole float32 gram to float64."""
    parts = row_ranges(gram.shape[0], CACHED_ROWS if is_numpy(gram) else gram.shape[0])
    return np.concatenate([to_numpy(product(gram[rows, :], right)) for rows in parts])


@dataclass(frozen=True)
class RowSet:
    """Rows under a kernel."""

    given: Array  # (n, d) as the user gave them
    values: Array  # (n, d) relative to `origin`, in the precision of the search
    origin: Array | None  # (d,), set if only differences of rows matter
    weights: np.ndarray | None  # (n,) the weight of each row; None if all are equal
    is_all: bool  # these are all training rows
    # The probability that a training row is in this set or, if rows were `drawn`, among the rows they were drawn from.
    chance: float
    drawn: Drawn | None  # how the rows were drawn, if they carry very different shares of the variance
    kernel: Kernel
    n_components: int
    center: bool
    n_threads: int = 1
    known_gram: Array | None = None  # the gram of these rows, if the kernel is precomputed

    @property
    def size(self) -> int:
        return int(self.values.shape[0])

    @property
    def unit_weights(self) -> np.ndarray:
        """(n,) weights with sum one."""
        return unit_weights(self.weights, self.size)

    @property
    def chances(self) -> np.ndarray:
        """(n,) the probability that each row, as one of all training rows, had of being in this set."""
        return np.full(self.size, self.chance) if self.drawn is None else self.drawn.chances * self.chance

    @property
    def in_float64(self) -> RowSet:
        """These rows in float64, converted from the rows as given."""
        if itemsize(self.values) == 8 or self.known_gram is not None:
            return self
        values = as_float64(self.given)
        return replace(self, values=values if self.origin is None else values - self.origin)

    @cached_property
    def gram(self) -> Array:
        """(n, n) gram of the rows."""
        if self.known_gram is not None:
            return self.known_gram
        rows = self.values
        if not is_numpy(rows):
            return self.kernel(rows, rows)
        gram = np.empty((self.size, self.size), dtype=number_dtype(rows))

        def fill(tile: tuple[slice, slice, CrossGram]) -> None:
            left, right, cross_gram = tile
            gram[left, right] = part = cross_gram(rows[left])
            if left != right:
                gram[right, left] = part.T

        blocks = row_ranges(self.size, CACHED_ROWS)
        with one_blas_thread():
            bound = list(ordered_map(lambda block: self.kernel.bind(rows[block]), blocks, self.n_threads))
            # k(x, y) = k(y, x): only the tiles up to the diagonal are computed
            tiles = [(blocks[i], blocks[j], bound[j]) for i in range(len(blocks)) for j in range(i + 1)]
            list(ordered_map(fill, tiles, self.n_threads))
        return gram

    @cached_property
    def gram_on_host(self) -> np.ndarray:
        """The gram as a numpy array, copied once from a device."""
        return to_numpy(self.gram)

    @cached_property
    def positive_gram(self) -> np.ndarray:
        """The positive semi-definite matrix nearest to the gram: negative eigenvalues are set to zero."""
        values, vectors = np.linalg.eigh(as_float64(self.gram_on_host))
        real = values > 0
        return np.asarray((vectors[:, real] * values[real]) @ vectors[:, real].T)

    @cached_property
    def lengths(self) -> np.ndarray:
        """(n,) k(x, x), in float64."""
        if self.known_gram is not None:
            return to_numpy(namespace(self.known_gram).linalg.diagonal(self.known_gram)).astype(np.float64)
        return to_numpy(self.kernel.diagonal(as_float64(self.values)))

    @cached_property
    def rounding(self) -> float:
        """Estimated rounding error of the gram, as a share of its largest diagonal value.

        Like its other values, the diagonal of the computed gram comes from products that cancel; the further a row is
        from the origin, the more digits are lost.  The difference between this diagonal and k(x, x), which is known
        without rounding, shows the error.
        """
        gram = self.gram
        if itemsize(gram) == 8 or self.known_gram is not None:
            return 0.0
        truth = self.lengths
        largest = float(np.abs(truth).max())
        diagonal = to_numpy(namespace(gram).linalg.diagonal(gram))
        return 4 * float(np.finfo(np.float32).eps) + 2 * float(np.abs(diagonal - truth).max()) / largest

    @cached_property
    def indefiniteness(self) -> float:
        """|most negative| / largest eigenvalue of the gram; 0 if no negative eigenvalue exceeds rounding.

        Positive eigenvalues of K_SS below this share of the largest are noise as well: dividing by them would let the
        captured variance under an indefinite kernel grow without bound.
        """
        if self.kernel.definite or self._proven_definite:
            return 0.0
        gram, values = self.gram, self._eigenvalues
        lowest, largest = float(values[0]), float(values[-1])
        if not largest > 0:
            raise ValueError("the kernel matrix of these rows has no positive part: nothing to model")
        # Compare with the centred variance too: a large constant gives one huge eigenvalue that would hide real
        # negative ones.
        # A user's kernel may return rounded values, so more is tolerated.
        little = INDEFINITE if self.kernel.definite is None else RANK_TOLERANCE
        little *= min(self.size * float(self.exact.variances[0]), largest)
        # The two terms bound the rounding of the kernel values and that of the eigenvalues.
        error = 4 * self.size**0.5 * float(namespace(gram).max(gram)) + 10 * largest
        single = itemsize(gram) < 8
        error *= 2.0 ** (-23 if single else -52)
        if single and little < -lowest <= error and self.known_gram is None:
            return self.in_float64.indefiniteness  # in float32 it could be rounding
        return -lowest / largest if -lowest > max(little, error) else 0.0

    @property
    def negative_share(self) -> float:
        """Sum of |negative eigenvalues| of the gram, as a share of the sum of all |eigenvalues|."""
        return 0.0 if self.kernel.definite or self._proven_definite else share_of_negative(self._eigenvalues)

    @cached_property
    def _proven_definite(self) -> bool:
        """Whether a Cholesky factorisation proves that all negative eigenvalues are small enough to be ignored.

        It takes a fifth of the time of the eigenvalues.
        """
        if self.kernel.definite is not None or not is_numpy(self.gram):
            return False
        gram = as_float64(self.gram)
        check_finite_kernel(gram)
        largest = max(float(np.diagonal(gram).max()), float(gram.mean(axis=0).sum()))  # at most the largest eigenvalue
        ignored = INDEFINITE * min(self.size * float(self.exact.variances[0]), largest)
        return ignored > 0 and cholesky(add_to_diagonal(gram, ignored)) is not None

    @cached_property
    def _eigenvalues(self) -> Array:
        gram = as_float64(self.gram)
        check_finite_kernel(gram)
        return namespace(gram).linalg.eigvalsh((gram + gram.T) / 2)

    @cached_property
    def exact(self) -> ExactComponents:
        """Exact kernel PCA of the rows."""
        product = None
        if self.is_exact and self.kernel.linear_in_rows:  # the gram has far more numbers than the rows
            features = self.kernel.linear_features(self.values)

            def product(block: Array) -> Array:
                return features @ (features.T @ block)

        return exact_components(
            self.gram,
            self.n_components,
            center=self.center,
            weights=self.weights,
            n_threads=self.n_threads,
            precise=self.is_exact,
            product=product,
        )

    @property
    def is_exact(self) -> bool:
        """Whether `exact` has all digits: of many sparse rows, all may be needed as points."""
        return scipy.sparse.issparse(self.given) and self.size >= LARGE_FOR_LANCZOS and itemsize(self.gram) == 8

    @cached_property
    def means(self) -> np.ndarray:
        """(n,) weighted mean of each row's kernel values, in float64."""
        return gram_times(self.gram, self.unit_weights)

    @cached_property
    def targets(self) -> Array:
        """(n, M) targets of greedy selection: uncentred scores by exact kernel PCA, each times sqrt(lambda_k)."""
        return matmul(self.gram, self.exact.row_coef, self.n_threads)

    @cached_property
    def exact_squares(self) -> np.ndarray:
        """(n,) squared lengths of the rows' scores by exact kernel PCA."""
        exact, targets = self.exact, to_numpy(self.targets).astype(np.float64)
        real = exact.variances > 1e-12 * exact.variances[0]
        if self.center:
            targets = targets - self.unit_weights @ targets
        return (targets[:, real] ** 2 / exact.variances[real]).sum(axis=1)

    @cached_property
    def share_of_own(self) -> float:
        """The share of the components' variance that rows have only because they took part in the fit, to first order.

        If row i, of centred length |phi_i| and weight omega_i, were left out of the fit, its score on component k would
        be about z_ik (1 - omega_i |phi_i|^2 / lambda_k).
        """
        omega, exact = self.unit_weights, self.exact
        lengths = to_numpy(namespace(self.gram).linalg.diagonal(self.gram)).astype(np.float64)
        squares = to_numpy(self.targets).astype(np.float64)
        if self.center:
            lengths, squares = lengths - 2 * self.means + omega @ self.means, squares - omega @ squares
        real = exact.variances > 1e-12 * exact.variances[0]
        squares = squares[:, real] ** 2 / exact.variances[real]
        kept = np.maximum(1 - (omega * lengths)[:, None] / exact.variances[real], 0.0)
        variance = float(omega @ squares.sum(axis=1))
        return 1 - float(omega @ (squares * kept**2).sum(axis=1)) / variance if variance > 0 else 0.0

    def misses_more(self, share: float, n_points: int, n_rows: int) -> bool:
        """Whether `n_points` points are expected to miss more than a share of the components' variance on all rows.

        It is an estimate, and always False but for Gaussian kernels.  `n_rows` counts all rows.  A row may hold
        variance that it has in common with no other row, as documents with rare words do.  A few points capture all
        that is linear in the rows, which is, relative to the mean row c and with h(x) = k(x, c), the kernel
        h(x) h(y) (1 + u), u = log(k(x, y) / h(x) h(y)).  What is left
        of phi(x_i) outside the span of other rows, of squared length d_i, is captured only by a point at the row.
        With omega_i the weight and z_ik the scores of row i, this is

            sum over i and k of  omega_i^2 z_ik^2 d_i / lambda_k

        for the rows without a point, which at best are those of least variance.  d_i is measured for a few rows.
        """
        variances, scores = self.exact.variances, to_numpy(self.targets).astype(np.float64)
        if not self.kernel.lifts or not is_numpy(self.gram):
            return False
        if self.center:
            scores = scores - self.unit_weights @ scores
        real = variances > 1e-12 * variances[0]
        by_row = self.unit_weights**2 * ((scores[:, real] / variances[real]) ** 2).sum(axis=1)
        allowed = share * self.exact.captured * n_rows / self.size
        mean = np.asarray(self.values.mean(axis=0)).reshape(1, -1)
        h = as_float64(self.kernel(self.values, mean)[:, 0])
        lengths = self.lengths - h**2 * (1 + np.log(self.lengths / np.maximum(h, HALF_THE_DIGITS) ** 2))
        if (1 - n_points / n_rows) * float(by_row @ lengths) <= allowed:  # d_i is at most the whole length
            return False
        n_span = min(ROWS_OF_SPAN, self.size // 2)
        others = slice(n_span, min(n_span + ROWS_APART, self.size))
        known = as_float64(self.gram[:n_span, : others.stop])
        flat = np.maximum(np.outer(h[:n_span], h[: others.stop]), TINY)
        curved = known - flat * (1 + np.log(np.maximum(known, TINY) / flat))
        factor = cholesky(add_to_diagonal(curved[:, :n_span], RANK_TOLERANCE * float(lengths.max())))
        if factor is None:
            return False
        inside = solve_lower(factor, curved[:, n_span:])
        own = np.sort(by_row[others] * np.maximum(lengths[others] - (inside**2).sum(axis=0), 0.0))
        least = own[: round(len(own) * (1 - n_points / n_rows))]
        return float(least.sum()) / len(own) * self.size > allowed

    def check_apart(self, variance: float) -> None:
        """Raise if exact kernel PCA captures no variance on the rows, because a share of zero is undefined."""
        if not variance > 0:
            raise ValueError(
                f"the {self.size} rows that the result is measured on, or half of them, are all the same to this "
                "kernel: give more rows, or more of them to look at (n_optimization_samples)"
            )

    # Two halves of the rows show how strongly results depend on the number of rows.

    @cached_property
    def halves(self) -> list[Half]:
        """Two halves of the rows; rows that are certain to be drawn are in both (see `Drawn.halves`)."""
        if self.drawn is not None:
            return self.drawn.halves(of_all=self.chance >= 1.0)
        places = np.arange(self.size)
        parts = [places[part] for part in row_ranges(self.size, -(-self.size // 2))]
        return [Half(part, None if self.weights is None else self.weights[part]) for part in parts]

    @cached_property
    def exact_halves(self) -> list[ExactComponents]:
        """Exact kernel PCA of each half."""
        n_threads = self.n_threads if is_numpy(self.gram) else 1
        return side_by_side([partial(self._exact_of, half) for half in self.halves], n_threads)

    def _exact_of(self, half: Half) -> ExactComponents:
        gram, near = self._gram_of(half.places, half.places), take_rows(self.exact.row_coef, half.places)
        return exact_components(gram, self.n_components, center=self.center, weights=half.weights, near=near)

    @property
    def grams_of_halves(self) -> list[tuple[Array, np.ndarray | None]]:
        """The gram of each half, and the weights of its rows."""
        return [(self._gram_of(half.places, half.places), half.weights) for half in self.halves]

    def _gram_of(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        if self.drawn is None:  # consecutive rows, so a slice of the gram will do
            return self.gram[slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)]
        return take_columns(take_rows(self.gram, rows), columns)

    def part_of(self, values: Array, half: Half) -> Array:
        """The part of `values`, an array with one row for each row of the set, that belongs to a half."""
        return values[half.places[0] : half.places[-1] + 1, :] if self.drawn is None else take_rows(values, half.places)

    @cached_property
    def captured_across(self) -> tuple[float, float]:
        """Variance that exact kernel PCA of one half captures on that half and on the other; (0, 0) if it finds
        none."""
        if self.size < 2:
            return 0.0, 0.0
        found = self._exact_of(self.halves[0]) if self.is_all else self.exact_halves[0]
        positive = found.variances > 1e-12 * found.variances[0]
        if not positive.any():
            return 0.0, 0.0
        coef = to_numpy(found.row_coef)[:, positive] / np.sqrt(found.variances[positive])
        first, second = (half.places for half in self.halves)
        scores = gram_times(self._gram_of(second, first), coef)
        omega = self.halves[1].weights
        mean = np.average(scores, axis=0, weights=omega) if self.center else 0.0
        variance = np.average((scores - mean) ** 2, axis=0, weights=omega)
        return found.captured, float(variance.sum())
