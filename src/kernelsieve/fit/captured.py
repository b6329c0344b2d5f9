"""captured_ratio_: how much of exact kernel PCA's variance a model keeps.

Both are measured on the same reference rows.  On n of N rows exact kernel PCA fits the rows it sees more than a
model of all N can, and the ratio r(n) falls short by an amount that goes as 1/n.  With the mean ratio r(n/2) of
two halves the line through both is followed to 1/N:

    r(N) = r(n) + (r(n) - r(n/2)) (1 - n/N)

Where the reference rows are all rows there are, r(n) is the truth; up to a few thousand rows, all of them are taken
where some would leave a doubt.  Else it is an estimate.  With z_i and e_i the scores of reference row i on the model's
components and on exact kernel PCA's, omega_i its weight (sum 1) and p_i its chance of being a reference row,

    r = sum omega |z|^2 / sum omega |e|^2
    error^2 = sum omega_i^2 (1 - p_i) (|z_i|^2 - r |e_i|^2)^2 / (sum omega |e|^2)^2

Rows that points were started from are explained better than rows like them: of all N they are a smaller share than of
the reference, and count so much less.

The interval is r(N) -+ 1.64 errors: it holds the truth nine times in ten.  What is reported is on its safe side: r(N)
itself where it is known well, less where it is not.  What all rows together leave unexplained bounds it from below.

Few rows make it wide.  Exact kernel PCA of one half of the reference rows follows the rows that it sees: on them its
components capture `own`, on the other half, drawn alike, `other`.  The share that is lost from one to the other,

    optimism = 1 - other / own

is near zero where the rows are many for the kernel, and one where every row is like no other: then a few rows say
nothing of what exact kernel PCA of all rows would capture, and no line from half of them to all of them leads there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ..arrays import (
    Array,
    as_float64,
    float64_like,
    is_accelerated,
    is_numpy,
    like,
    namespace,
    row_dot,
    to_numpy,
    top_eigh,
)
from ..kernels import Kernel
from ..rows.memory import shares_of
from ..solvers.krylov import block_krylov
from ..solvers.spectrum import RANK_TOLERANCE, exact_components, triangular_whitening
from ..threads import matmul, one_blas_thread, ordered_map, row_ranges
from .expansion import KernelExpansion
from .indefinite import agreement, best_cut, variances_at
from .moments import points_like
from .sample import Sample, cross_gram_of, gram_times
from .span import Points, PointSpan, Span

# An optimism of .5 adds .004 to the error of a captured ratio, one of .8 adds .17, one of 1 adds 1.  Of 132 fits that
# look at 100 to 800 rows of 1,900, under wide and narrow kernels, 11 intervals then miss the truth, and 40 without.
OPTIMISM_POWER = 8
# Variances below this share of the largest are rounding: the rows have no such component.
NO_VARIANCE = 1e-10
MEAN_ERRORS = 4.0  # standard errors of a mean of rounded values
CONFIDENCE_ERRORS = 1.645  # standard errors to each side: nine times in ten
# The line to 1/N is only nearly straight: so much of the step along it counts as an error.
EXTRAPOLATION_ERROR = 0.3
# A ratio is reported SAFE_ERRORS below the estimate, less what an error of KNOWN_WELL would take off.
SAFE_ERRORS, KNOWN_WELL = 1.25, 0.0015
# From so many features on their components come from a Krylov space: the covariance alone would cost more.
MANY_FEATURES, MANY_FEATURES_PER_COMPONENT = 400, 6
FEATURE_BLOCK_ROWS = 250  # of so many features, which stay in the cache between two products
EIGENVECTORS_ON_DEVICE = 128  # from so many on a device finds them sooner than they are copied and found on the host


@dataclass(frozen=True)
class CapturedRatio:
    """A ratio, how it was come by, and on how many rows."""

    value: float
    kind: str  # "exact", "all rows", "sample" or "sample, extrapolated"
    n_samples: int
    interval: tuple[float, float]  # holds the truth with 90 % confidence
    n_directions: int  # components with a variance that is not rounding

    @classmethod
    def known(cls, value: float, kind: str, n_samples: int, n_directions: int) -> CapturedRatio:
        """A ratio without error."""
        value = min(max(value, 0.0), 1.0)
        return cls(value, kind, n_samples, (value, value), n_directions)

    @property
    def attributes(self) -> dict[str, Any]:
        """The fitted attributes that say it."""
        return {
            "captured_ratio_": self.value,
            "captured_ratio_interval_": self.interval,
            "captured_ratio_kind_": self.kind,
            "captured_ratio_n_samples_": self.n_samples,
        }

    def at_least(self, bound: float) -> CapturedRatio:
        """The same, where all rows together say that it is no less than `bound`."""
        if self.interval[0] == self.interval[1]:
            return self
        low, high = (min(max(end, bound), 1.0) for end in self.interval)
        return replace(self, value=min(max(self.value, bound), 1.0), interval=(low, high))


def ratio_of_known(ratio: CapturedRatio, sample: Sample, variance: float) -> CapturedRatio:
    """A ratio of all rows, with the variance of the model's own scores, which float32 may have made a little less."""
    everything = sample if sample.reference_is_all else vars(sample).get("on_all_rows")  # where they were measured
    if ratio.kind != "all rows" or everything is None or sample.indefiniteness:
        return ratio
    own = min(ratio.value, variance / everything.exact.captured)
    return CapturedRatio.known(own, ratio.kind, ratio.n_samples, ratio.n_directions)


def ratio_of_points(sample: Sample, chosen: Points, n_samples: int) -> CapturedRatio:
    """The ratio of the best components on chosen points."""
    if chosen.exhaustive:
        return CapturedRatio.known(1.0, "exact", sample.n_reference, sample.n_components)
    if chosen.optimal and sample.rows.whole:
        return CapturedRatio.known(1.0, "all rows", sample.size, n_real(sample.exact.variances))
    everything = sample.on_all_rows
    if sample.indefiniteness:
        sample = everything or sample
        cut, variances = best_cut(sample, chosen)
        if not sample.reference_is_all:  # the cut was chosen on these rows: what it reached is measured on others
            sample = sample.afresh
            variances = variances_at((cut,), sample, chosen)[0]
        return _agreed(sample, variances)
    # Reference rows that points were chosen or started from are explained better than rows like them, and the standard
    # error does not know of that: where all rows are at hand, the ratio is measured on all of them.
    by_reference = chosen.by_reference or (chosen.seeds is not None and len(chosen.seeds) > 0)
    if everything is None or not by_reference:
        best = _best_span(sample, chosen, RANK_TOLERANCE)
        ratio = _ratio(sample, best, n_samples, as_it_is=chosen.by_reference, seeds=chosen.seeds)
        if everything is None or ratio.interval[1] - ratio.interval[0] <= 2 * CONFIDENCE_ERRORS * KNOWN_WELL:
            return ratio
    return _ratio(everything, _best_span(everything, chosen, RANK_TOLERANCE), n_samples)


def ratio_of_model(sample: Sample, expansion: KernelExpansion, n_samples: int) -> CapturedRatio:
    """The ratio of a fitted model's components, made orthonormal."""
    expansion = expansion.orthonormal
    coef = float64_like(expansion.coef, sample.reference)
    features = _features(sample, expansion.kernel, expansion.points, coef)
    span = _SeenSpan(expansion.points, coef, features)
    return (
        _agreed(sample, span.components(sample).variances) if sample.indefiniteness else _ratio(sample, span, n_samples)
    )


def _agreed(sample: Sample, variances: np.ndarray) -> CapturedRatio:
    """Of an indefinite kernel: more variance than exact kernel PCA's is as wrong as less."""
    known = CapturedRatio.known(agreement(variances, sample), "all rows", sample.n_reference, n_real(variances))
    return known if sample.reference_is_all else replace(known, kind="sample", interval=(known.value, 1.0))


def components_for(share: float, sample: Sample) -> int:
    """Components that exact kernel PCA of the reference rows needs to explain a share of their total variance."""
    whole = exact_components(
        sample.gram, sample.n_reference, center=sample.center, weights=sample.reference_weights, dense=True
    )
    explained = np.cumsum(whole.variances) / whole.variances.sum()
    return int(np.searchsorted(explained, share)) + 1


def carriers(sample: Sample) -> float:
    """How many rows carry the components' variance: as many rows of equal shares would make its sum vary as much.

    With |e_i|^2 the squared score of reference row i, w_i its weight and p_i its chance of being one of them,

        carriers = (sum_i w_i |e_i|^2 / p_i)^2 / sum_i n_i (w_i |e_i|^2 / n_i)^2 / p_i

    where n_i is the number of rows that it is: 1, or w_i where weights are numbers of rows, as those of copies are, so
    many times that of the row with fewest: a table that is there twice says no more than once.
    """
    squares, counts = _exact_squares(sample), sample.rows.counts
    times = np.ones(len(squares)) if counts is None else counts[: len(squares)]
    copies = times / times.min() if np.array_equal(times, np.round(times)) and times.min() else np.ones(len(squares))
    carried, stands_for = times * squares, 1.0 / sample.chances
    return float(stands_for @ carried) ** 2 / max(float((stands_for / copies) @ carried**2), 1e-300)


def mean_outside(sample: Sample, span: Span) -> float:
    """Squared length of the mean feature outside a span: the total variance is less by that than the span can tell.

    Pairs of different reference rows give the mean's squared length without bias, and so they do in the span; the
    difference is what lies outside.  Where the reference rows are all rows there are, it is exact.
    """
    if not span.center or sample.indefiniteness or not isinstance(span, PointSpan):
        return 0.0
    gram, n = sample.gram, sample.n_reference
    omega = shares_of(sample.reference_weights, n)
    features = _features(sample, span.kernel, span.points, span.moments.whitening)
    inside = to_numpy(like(omega, features) @ features)
    whole, part = float(omega @ gram_times(gram, omega)), float(inside @ inside)
    if not sample.reference_is_all:
        squares = omega**2
        whole -= float(squares @ to_numpy(namespace(gram).linalg.diagonal(gram)))
        part -= float(squares @ to_numpy(row_dot(features, features)))
        if not float(squares.sum()) < 1:
            raise ValueError(
                f"the {sample.n_reference} rows that the result is measured on are too few: give more rows, or more of "
                "them to look at (n_optimization_samples)"
            )
        whole, part = (value / (1 - float(squares.sum())) for value in (whole, part))
    spare = span.total_variance - float(np.trace(span.covariance))  # the variance outside the span cannot be negative
    # of a gram in float32 the mean of n^2 values is off by this much: rather too little is outside than too much
    outside = whole - part - MEAN_ERRORS * sample.rounding * span.mean_length / n
    return min(outside, max(spare, 0.0)) if outside > sample.rounding * whole else 0.0


def variances_on_reference(sample: Sample, chosen: Points, *tolerances: float) -> list[np.ndarray]:
    """Variances of the reference rows along the best components on chosen points, at each rank tolerance."""
    return [_best_span(sample, chosen, tolerance).components(sample).variances for tolerance in tolerances]


def surely_kept(sample: Sample, chosen: Points, tolerance: float, loss: float) -> bool:
    """Whether no component loses more than a share of its variance in the span to a larger rank tolerance, by a bound.

    Of components with coefficients G there is W (W'K G) in that span, W being its whitening: what they capture is no
    more than the best there do.  False where that says nothing, or where the points are so few that these are found
    as soon.
    """
    if not _are_many(chosen) or chosen.spectrum.rank(tolerance) < sample.n_components:
        return False
    best, whitening = _best_span(sample, chosen, RANK_TOLERANCE), chosen.spectrum.whitening(tolerance).matrix
    found = best.components(sample)
    inside, _ = np.linalg.qr(whitening.T @ (chosen.gram @ (best.whitening @ found.vectors)))
    scores = _features(sample, chosen.kernel, chosen.points, whitening @ inside)
    kept = _components(scores, sample.reference_weights, sample).variances
    return bool(np.all(found.variances - kept <= loss * found.variances))


def _ratio(
    sample: Sample, span: _SeenSpan, n_samples: int, *, as_it_is: bool = False, seeds: np.ndarray | None = None
) -> CapturedRatio:
    found = span.components(sample)
    values = found.variances
    _check_apart(sample.exact.captured, sample)
    if sample.reference_is_all and sample.kernel.definite is False:  # positive on the rows, perhaps not beside points
        return _agreed(sample, values)
    whole = float(values.sum()) / sample.exact.captured
    if sample.reference_is_all:
        return CapturedRatio.known(whole, "all rows", sample.n_reference, n_real(values))
    squares = _Squares((found.scores**2).sum(axis=1), _exact_squares(sample))
    _check_apart(float(squares.exact.sum()), sample)
    left = 1 - sample.n_reference / n_samples
    step = 0.0 if as_it_is else (whole - _ratio_of_halves(span.features, found, sample)) * left
    error = float(np.hypot(squares.error(sample), EXTRAPOLATION_ERROR * step))
    value = min(whole + step - (0.0 if seeds is None else squares.owed_to(seeds, sample)), 1.0)
    safe = min(max(value - SAFE_ERRORS * max(error - KNOWN_WELL, 0.0), 0.0), 1.0)
    unknown = CONFIDENCE_ERRORS * float(np.hypot(error, error_of_few(sample)))
    low, high = (min(max(value + sign * unknown, 0.0), 1.0) for sign in (-1, 1))
    kind = "sample" if as_it_is else "sample, extrapolated"
    return CapturedRatio(safe, kind, sample.n_reference, (min(low, safe), max(high, safe)), n_real(values))


def _check_apart(variance: float, sample: Sample) -> None:
    """Raise where exact kernel PCA finds no variance among the reference rows: a share of nothing is no number."""
    if not variance > 0:
        raise ValueError(
            f"the {sample.n_reference} rows that the result is measured on, or half of them, are all the same to this "
            "kernel: give more rows, or more of them to look at (n_optimization_samples)"
        )


@dataclass(frozen=True)
class _Squares:
    """Squared lengths of the reference rows' scores, on the model's components and on exact kernel PCA's."""

    model: np.ndarray  # (n,)
    exact: np.ndarray  # (n,)

    def ratio(self, omega: np.ndarray) -> float:
        return float(omega @ self.model) / float(omega @ self.exact)

    def error(self, sample: Sample) -> float:
        """The standard error of the ratio."""
        omega = shares_of(sample.reference_weights, len(self.model))
        left = self.model - self.ratio(omega) * self.exact
        return float(np.sqrt(np.sum(omega**2 * (1 - sample.chances) * left**2))) / float(omega @ self.exact)

    def owed_to(self, seeds: np.ndarray, sample: Sample) -> float:
        """By how much the ratio is too high, because rows that points were started from count as often as others."""
        omega = shares_of(sample.reference_weights, len(self.model))
        less = omega.copy()
        less[seeds] *= sample.chances[seeds]
        return self.ratio(omega) - self.ratio(less)


def _exact_squares(sample: Sample) -> np.ndarray:
    """Squared lengths of the reference rows' scores by exact kernel PCA."""
    exact, targets = sample.exact, to_numpy(sample.targets).astype(np.float64)
    real = exact.variances > 1e-12 * exact.variances[0]
    if sample.center:
        targets = targets - shares_of(sample.reference_weights, len(targets)) @ targets
    return (targets[:, real] ** 2 / exact.variances[real]).sum(axis=1)


def _ratio_of_halves(features: Array, whole: _Found, sample: Sample) -> float:
    """The mean ratio of the two halves of the reference rows, whose components are near those of the whole."""
    ratios = []
    for half, exact in zip(sample.halves, sample.exact_halves, strict=True):
        _check_apart(exact.captured, sample)
        found = _components(sample.part_of(features, half), half.weights, sample, whole.vectors)
        ratios.append(float(found.variances.sum()) / exact.captured)
    return float(np.mean(ratios))


def n_real(variances: np.ndarray) -> int:
    """Components with a variance that is not rounding."""
    return int(np.sum(variances > NO_VARIANCE * variances.max(initial=0.0)))


@dataclass(frozen=True)
class _Found:
    """The best components in a span, as some rows have them."""

    variances: np.ndarray  # (M,)
    scores: np.ndarray  # (n, M)
    vectors: Array  # (q, M), in the coordinates of the span


@dataclass
class _SeenSpan:
    """The reference rows of a sample in the span of points, and what their best components there are, found once."""

    points: Array
    whitening: Array  # (m, q)
    features: Array  # (n, q)
    tolerance: float = RANK_TOLERANCE
    nested: bool = True  # the first columns are those to a larger tolerance
    found: _Found | None = None

    def components(self, sample: Sample) -> _Found:
        """Of all reference rows."""
        if self.found is None:
            self.found = _components(self.features, sample.reference_weights, sample)
        return self.found

    def to_rank(self, rank: int, tolerance: float) -> _SeenSpan:
        """The span of the first columns."""
        if rank == self.features.shape[1]:
            return self
        return _SeenSpan(self.points, self.whitening[:, :rank], self.features[:, :rank], tolerance)


def _components(features: Array, weights: np.ndarray | None, sample: Sample, near: Array | None = None) -> _Found:
    """The best components in the span of whitened features; `near` are vectors thought to be near them."""
    omega = like(shares_of(weights, features.shape[0]), features)
    n_components, n_features = sample.n_components, features.shape[1]
    if n_features >= max(MANY_FEATURES, MANY_FEATURES_PER_COMPONENT * n_components):
        return _components_of_many(features, omega, sample, near)
    rows = features - omega @ features if sample.center else features
    covariance = rows.T @ (omega[:, None] * rows)
    if not (is_accelerated(rows) and n_features >= EIGENVECTORS_ON_DEVICE):
        covariance = to_numpy(covariance)
    values, vectors = top_eigh(covariance, n_components)
    return _Found(np.maximum(to_numpy(values), 0.0), to_numpy(rows @ like(vectors, rows)), vectors)


def _components_of_many(features: Array, omega: Array, sample: Sample, near: Array | None) -> _Found:
    """The same by products with the covariance, which is not formed; each of them reads the features once."""
    n, center = features.shape[0], sample.center
    mean = omega @ features

    def product_of(rows: slice, y: Array) -> Array:
        block = features[rows, :]
        return block.T @ (omega[rows][:, None] * (block @ y))

    def covariance(y: Array) -> Array:
        blocks = row_ranges(n, FEATURE_BLOCK_ROWS if is_numpy(features) else n)
        with one_blas_thread():
            whole = reduce(add, ordered_map(lambda rows: product_of(rows, y), blocks, sample.n_threads))
        return whole - mean[:, None] * (mean @ y) if center else whole

    values, vectors, _ = block_krylov(covariance, features[0, :], sample.n_components, near)
    scores = matmul(features, vectors, sample.n_threads)
    return _Found(np.maximum(values, 0.0), to_numpy(scores - mean @ vectors if center else scores), vectors)


def _are_many(chosen: Points) -> bool:
    """Whether there are so many points, on the host, that a second way to whiten them pays."""
    return chosen.n_support >= MANY_FEATURES and is_numpy(chosen.gram) and not chosen.exhaustive


def _best_span(sample: Sample, chosen: Points, tolerance: float) -> _SeenSpan:
    """The reference rows in the span of chosen points; at a larger tolerance fewer of the same columns, to rounding."""
    tolerance = max(tolerance, sample.indefiniteness)
    kept: _SeenSpan | None = vars(sample).get("_in_best_span")  # of the points that were asked for last
    if kept is not None and kept.points is chosen.points:
        if kept.tolerance == tolerance:
            return kept
        rank = chosen.spectrum.rank(tolerance)
        if kept.nested and kept.features.shape[1] >= max(rank, 1):
            return kept.to_rank(rank, tolerance)
    whitening = None
    if tolerance == RANK_TOLERANCE and _are_many(chosen):
        whitening = triangular_whitening(chosen.gram)
    nested = whitening is None
    if whitening is None:
        whitening = chosen.spectrum.whitening(tolerance, n_threads=sample.n_threads).matrix
    features = _features(sample, chosen.kernel, chosen.points, whitening)
    kept = vars(sample)["_in_best_span"] = _SeenSpan(chosen.points, whitening, features, tolerance, nested)
    return kept


def _features(sample: Sample, kernel: Kernel, points: Array, whitening: Array) -> Array:
    """(n_reference, q), the reference rows in the span of the points; `whitening` gives orthonormal vectors."""
    kept = vars(sample).get("_with_points")  # of the points that were asked for last, which are asked for again
    if kept is None or kept[0] is not points:
        rows = as_float64(sample.reference)
        cross_gram = cross_gram_of(kernel, rows, points_like(points, rows), sample.n_threads)
        kept = vars(sample)["_with_points"] = (points, cross_gram)
    cross_gram = kept[1]
    return as_float64(matmul(cross_gram, float64_like(whitening, cross_gram), sample.n_threads))


def error_of_few(sample: Sample) -> float:
    """Of a ratio to exact kernel PCA, by how much the line to all rows can lead astray: optimism^8."""
    own, other = sample.captured_across
    return min(max(1.0 - other / own, 0.0), 1.0) ** OPTIMISM_POWER if own > 0 else 1.0
