"""captured_ratio_: how much of exact kernel PCA's variance a model keeps.

The captured variance of the model and that of exact kernel PCA are measured on the same evaluation rows.  Exact kernel
PCA of n of the N rows fits these rows better than a model of all N rows can, so the measured ratio r(n) is too small by
an amount proportional to 1/n.  With r(n/2), the mean ratio of two halves of the rows, the ratio is extrapolated
linearly in 1/n to 1/N:

    r(N) = r(n) + (r(n) - r(n/2)) (1 - n/N)

If the evaluation rows are all rows, r(n) is exact.  Otherwise it is an estimate.  With z_i and e_i the scores of
evaluation row i on the model's components and on those of exact kernel PCA, omega_i its weight (sum 1) and p_i the
probability with which it was drawn,

    r = sum omega |z|^2 / sum omega |e|^2
    error^2 = sum omega_i^2 (1 - p_i) (|z_i|^2 - r |e_i|^2)^2 / (sum omega |e|^2)^2

Seeds, the rows at which moved points started, are explained better than other rows.  They are a larger share of the
evaluation rows than of all N rows, so their weight is lowered accordingly.  Points that were chosen to
explain the evaluation rows keep more of these than of other rows, as exact kernel PCA does; which of the two effects is
larger is unknown, so the whole step counts as its error.  A stream chooses points from rows that it keeps, and measures
them on these and later rows.  With f the share of the n_kept rows kept that took part in the choice, of which n are
measured, the step is then multiplied by

    1 - CHOSEN_STEP f^2 min(1, MANY_POINTS M / m)^1/2 n / n_kept

a rule found from 384 streams, each also after `refresh`: nine tables, sorted and shuffled, 120 to 1,000 rows kept.

The pass over all rows then corrects the estimate.  It gives three numbers for all N rows, which the evaluation rows
only sample: the captured variance c, the variance elsewhere in the span, and the variance outside it.  Let x_i hold the
contributions of row i to these three, and a constant, and let d_i = |e_i|^2 - |z_i|^2 / r be what the model misses of
row i.  Then

    B = argmin sum omega (d - B'x)^2,        r = c / (c / r(N) + B'(mean of x over all rows - sum omega x))

as in the regression estimators of survey sampling.  In the error, d - B'x replaces d, and half of the correction is
added.  In 1,721 fits (21 tables, gamma from 1/16 to 4 times that of the median rule, seven rules, samples from 100 rows
to the default number) this lowered the root mean square error of r from .0070 to .0048.

The interval is r -+ 1.6 errors, which contains the true ratio at least nine times in ten.  The reported value is
conservative: r itself if the error is small, a smaller value otherwise.  A lower bound is proved by the variance of all
rows that lies outside the span.

With few rows the interval is wide.  Exact kernel PCA of one half of the evaluation rows adapts to those rows: it
captures the variance `own` on them, and `other` on the other half, drawn in the same way.  The share that is lost,

    optimism = 1 - other / own

is near zero if there are many rows for the width of the kernel, and one if no two rows are alike.  In the latter case
a few rows say nothing about what exact kernel PCA of all rows would capture, and extrapolating from halves is useless.

Under heavy tails, a few rows may also hold too little of the variance.  Then `own` and `other` differ, in either
direction.  So the upper end of the interval from n rows is raised by

    (1 - min(own, other) / max(own, other)) min(1, 100/n) (1 - r)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ..arrays import TINY, Array, as_float64, float64_like, is_numpy, like, namespace, row_dot, to_numpy
from ..kernels import Kernel
from ..numerics import DEPENDENT, HALF_THE_DIGITS
from ..rows.sampling import unit_weights
from ..spectrum.top import Operator, exact_components, is_large, top
from ..spectrum.whitening import RANK_TOLERANCE, triangular_whitening
from ..threads import CACHED_ROWS, cached_property, matmul, one_blas_thread, ordered_map, row_ranges
from .expansion import KernelExpansion
from .indefinite import agreement, best_cut, variances_at
from .moments import points_like
from .rowset import LITTLE_OF_OWN, RowSet, cross_gram_of
from .sample import Sample
from .span import Points, PointSpan, Span

# optimism^8 is added to the error of a captured ratio: .004 for an optimism of .5, .17 for .8, 1 for 1. In 132 fits to
# samples of 100 to 800 of 1,900 rows, under wide and narrow kernels, 11 intervals missed the truth with this term, and
# 40 without it.
OPTIMISM_POWER = 8
# Halves with fewer rows than this do not show how shares of the variance depend on the number of rows.
LEAST_HALF = 50
MEAN_ERRORS = 4.0  # the rounding error of a mean is bounded by this many standard errors
# In standard errors: half the width of the interval, and the distance of the reported value below the estimate. The
# first KNOWN_WELL of an error do not lower the reported value. Of the 1,721 intervals mentioned above, 95 % contain the
# true ratio (92 to 97 % for each width, 93 to 96 % for each rule, 91 to 96 % for each number of rows), and 1.1 % of the
# reported ratios are too high by more than .003.
CONFIDENCE_ERRORS, SAFE_ERRORS, KNOWN_WELL = 1.6, 1.5, 0.001
# The ratio is only nearly linear in 1/n, so this share of the step of the extrapolation counts as an error.
EXTRAPOLATION_ERROR = 0.3
# Points keep more of the rows that chose them than of others, by more than exact kernel PCA of these rows does.  So for
# such rows 1.6 times the step is subtracted, which lowers the ratio by .6 of the step if all rows chose the points, and
# .6 of the step counts as an error.  Points that are many for the components adapt less.
CHOSEN_STEP, CHOSEN_ERROR, MANY_POINTS = 1.6, 0.6, 3
CORRECTION_ERROR = 0.5  # standard error of the correction from all rows, as a share of the correction
LEAST_FOR_CORRECTION = 40  # rows needed for a correction: ten for each coefficient of the regression
# The fitted attributes that report a captured ratio.
CAPTURED = ("captured_ratio_", "captured_ratio_interval_", "captured_ratio_kind_", "captured_ratio_n_samples_")


@dataclass(frozen=True)
class CapturedRatio:
    """A captured ratio, how it was measured, and on how many rows."""

    value: float
    kind: str  # "exact", "all rows", "sample" or "sample, extrapolated"
    n_samples: int
    interval: tuple[float, float]  # contains the true ratio with 90 % confidence
    n_real: int  # number of components whose variance exceeds rounding
    estimate: Estimate | None = None  # set for an estimate, which the pass over all rows may correct

    @classmethod
    def known(cls, value: float, kind: str, n_samples: int, n_real: int) -> CapturedRatio:
        """A ratio that is known without error."""
        value = min(max(value, 0.0), 1.0)
        return cls(value, kind, n_samples, (value, value), n_real)

    @classmethod
    def stored(cls, state: Mapping[str, Any]) -> CapturedRatio:
        """The ratio among the fitted attributes of an estimator, given by name."""
        value, interval, kind, n_samples = (state[name] for name in CAPTURED)
        return cls(value, kind, n_samples, tuple(interval), n_real(state["explained_variance_"]))

    def store(self, estimator: Any) -> None:
        """Set the fitted attributes that report this ratio."""
        for name, value in zip(CAPTURED, (self.value, self.interval, self.kind, self.n_samples), strict=True):
            setattr(estimator, name, value)

    def at_least(self, bound: float) -> CapturedRatio:
        """This ratio raised to `bound`, a lower bound that is proved from all rows.

        A bound above the whole interval refutes the estimate, so the interval is moved: nothing says that the ratio is
        no larger than the bound.
        """
        bound, (low, high) = min(bound, 1.0), self.interval
        high = high if bound <= high else min(bound + high - low, 1.0)
        return replace(self, value=max(self.value, bound), interval=(max(low, bound), high), estimate=None)

    def corrected(self, span: Span, expansion: KernelExpansion, captured: float) -> CapturedRatio:
        """This ratio, corrected by the moments of all rows.

        `captured` is the variance that the best components on the span capture on all rows.
        """
        found = self
        if self.estimate is not None and isinstance(span, PointSpan) and span.signs is None:
            found = self.estimate.corrected(span, expansion, captured)
        # With all rows as points, the span's covariance would cost more than the fit, and the bound would be one.
        return found if found.kind == "exact" else found.at_least(span.surely_captured(captured))


@dataclass(frozen=True)
class RowComponents:
    """The components in the span of a basis that capture most variance of the rows of a set."""

    variances: np.ndarray  # (M,)
    vectors: Array  # (q, M), in the coordinates of the basis
    scores: np.ndarray  # (n, M)


def components_of(features: Array, unit: np.ndarray, rows: RowSet, near: Array | None = None) -> RowComponents:
    """The best components for rows whose coordinates in a basis are `features`, with weights `unit` that sum to one.

    `near` holds approximate components, if some are known, from which the eigensolver starts.
    """
    omega, n = like(unit, features), features.shape[0]
    mean = omega @ features if rows.center else None

    def product_of(part: slice, y: Array) -> Array:
        block = features[part, :]
        return block.T @ (omega[part][:, None] * (block @ y))

    def apply(y: Array) -> Array:
        blocks = row_ranges(n, CACHED_ROWS if is_numpy(features) else n)
        with one_blas_thread():
            whole = reduce(add, ordered_map(lambda part: product_of(part, y), blocks, rows.n_threads))
        return whole if mean is None else whole - mean[:, None] * (mean @ y)

    def covariance() -> Array:
        about = features if mean is None else features - mean
        return about.T @ (omega[:, None] * about)

    values, vectors = top(Operator(features[0, :], apply, covariance), rows.n_components, near=near)
    scores = matmul(features, vectors, rows.n_threads)
    return RowComponents(
        np.maximum(values, 0.0), vectors, to_numpy(scores if mean is None else scores - mean @ vectors)
    )


@dataclass(frozen=True)
class PointsOnRows:
    """Points, with their kernel values at the rows of a set."""

    kernel: Kernel
    points: Array  # (m, d)
    rows: RowSet

    @cached_property
    def cross_gram(self) -> Array:
        """(n, m) kernel values k(rows, points)."""
        rows = as_float64(self.rows.given)
        return cross_gram_of(self.kernel, rows, points_like(self.points, rows), self.rows.n_threads)

    def features(self, whitening: Array) -> Array:
        """(n, q) coordinates of the rows in the basis that a whitening of the points' gram gives."""
        cross_gram = self.cross_gram
        return as_float64(matmul(cross_gram, float64_like(whitening, cross_gram), self.rows.n_threads))


def best_on(on_rows: PointsOnRows, chosen: Points, tolerance: float = RANK_TOLERANCE) -> tuple[Array, RowComponents]:
    """The coordinates of the rows in a basis of span(phi(S)), and the best components in that span."""
    whitening = None
    if is_large(chosen.n_support, on_rows.rows.n_components) and is_numpy(chosen.gram) and tolerance == RANK_TOLERANCE:
        whitening = triangular_whitening(chosen.gram)
    if whitening is None:
        whitening = chosen.spectrum.whitening(tolerance, n_threads=on_rows.rows.n_threads).matrix
    features = on_rows.features(whitening)
    return features, components_of(features, on_rows.rows.unit_weights, on_rows.rows)


def captured_on(rows: RowSet, chosen: Points, tolerance: float = RANK_TOLERANCE) -> float:
    """The variance of these rows that the best components on chosen points capture."""
    on_rows = PointsOnRows(chosen.kernel, chosen.points, rows)
    return float(best_on(on_rows, chosen, max(tolerance, rows.indefiniteness))[1].variances.sum())


def ratio_of_points(on_rows: PointsOnRows, sample: Sample, chosen: Points, n_samples: int) -> CapturedRatio:
    """The captured ratio of the best components on chosen points; `on_rows` has their values at evaluation rows."""
    evaluation = sample.evaluation
    if chosen.exhaustive:
        return CapturedRatio.known(1.0, "exact", evaluation.size, sample.n_components)
    if chosen.optimal and sample.rows.whole:
        return CapturedRatio.known(1.0, "all rows", sample.size, n_real(evaluation.exact.variances))
    everything = sample.all_rows
    if sample.indefiniteness:
        rows = everything or evaluation
        cut, variances = best_cut(rows, chosen)
        if not rows.is_all:  # the cut was chosen on these rows, so the ratio is measured on other rows
            rows = sample.other_rows if sample.rows.fresh is None else sample.measured_on
            variances = variances_at((cut,), rows, chosen)[0]
        return _agreed(rows, variances)
    if sample.rows.fresh is not None:
        return _ratio(on_rows, *best_on(on_rows, chosen), n_samples)
    # Points that the evaluation rows chose explain these better than other rows, so all rows are used if affordable.
    if chosen.by_evaluation and everything is not None:
        evaluation = everything
    on_rows = on_rows if on_rows.rows is evaluation else PointsOnRows(chosen.kernel, chosen.points, evaluation)
    return _ratio(
        on_rows,
        *best_on(on_rows, chosen),
        n_samples,
        fitted=float(chosen.by_evaluation),
        all_chose=chosen.by_evaluation,
        seeds=chosen.seeds,
    )


def ratio_of_model(
    sample: Sample, expansion: KernelExpansion, n_samples: int, *, chose: float = 0.0, n_kept: int = 1
) -> CapturedRatio:
    """The captured ratio of a model's components, after these have been made orthonormal.

    The measured rows are some of `n_kept` rows, of which the share `chose` took part in choosing the points.
    """
    expansion, rows = expansion.orthonormal, sample.measured_on
    few_points = min(1.0, MANY_POINTS * expansion.n_components / expansion.points.shape[0])
    adapted = chose**2 * few_points**0.5 * rows.size / n_kept
    on_rows = PointsOnRows(expansion.kernel, expansion.points, rows)
    features = on_rows.features(expansion.coef)
    found = components_of(features, rows.unit_weights, rows)
    if sample.indefiniteness:
        return _agreed(rows, found.variances)
    return _ratio(on_rows, features, found, n_samples, adapted=adapted, all_chose=chose == 1)


def _agreed(rows: RowSet, variances: np.ndarray) -> CapturedRatio:
    """The ratio under an indefinite kernel, for which too much variance is as wrong as too little."""
    known = CapturedRatio.known(agreement(variances, rows), "all rows", rows.size, n_real(variances))
    return known if rows.is_all else replace(known, kind="sample", interval=(known.value, 1.0))


def components_for(share: float, rows: RowSet) -> int:
    """The number of components that exact kernel PCA needs to explain a share of the total variance of all rows.

    The share of n rows that their components explain is higher, by c/n - c/N, than the share of all N rows that as many
    components explain.  The constant c is measured with halves of the n rows: there the share is higher by c/n.
    """
    explained = _shares_explained(rows.gram, rows.center, rows.weights)
    if not rows.is_all and rows.size >= 2 * LEAST_HALF:
        halves = [_shares_explained(gram, rows.center, w) for gram, w in rows.grams_of_halves]
        of_halves = np.mean([np.pad(half, (0, rows.size - len(half)), constant_values=1.0) for half in halves], axis=0)
        explained = explained - np.maximum(of_halves - explained, 0.0) * (1 - min(rows.chance, 1.0))
        explained = np.maximum.accumulate(explained)
    return min(int(np.searchsorted(explained, share)) + 1, rows.size)


def _shares_explained(gram: Array, center: bool, weights: np.ndarray | None) -> np.ndarray:
    """(n,) share of the variance of n rows that their first 1, 2, ..., n components explain."""
    whole = exact_components(gram, int(gram.shape[0]), center=center, weights=weights, precise=True)
    return np.cumsum(whole.variances) / whole.variances.sum()


def carriers(sample: Sample) -> float:
    """The effective number of rows that carry the variance of the components.

    A sum over that many rows of equal contributions would vary as much as the sum over these rows.  With |e_i|^2 the
    squared score of evaluation row i, w_i its weight and p_i its chance of being an evaluation row,

        carriers = (sum_i w_i |e_i|^2 / p_i)^2 / sum_i n_i (w_i |e_i|^2 / n_i)^2 / p_i

    where n_i is the number of copies of row i: w_i divided by the smallest weight if all weights are whole numbers,
    otherwise 1.  So a table that is concatenated with itself gives the same number.
    """
    rows, counts = sample.evaluation, sample.rows.counts
    squares = rows.exact_squares
    times = np.ones(rows.size) if counts is None else counts[: rows.size]
    copies = times / times.min() if np.array_equal(times, np.round(times)) and times.min() else np.ones(rows.size)
    carried, stands_for = times * squares, 1.0 / rows.chances
    return float(stands_for @ carried) ** 2 / max(float((stands_for / copies) @ carried**2), 1e-300)


def mean_outside(on_rows: PointsOnRows, span: Span, *, indefinite: bool) -> float:
    """Squared length of the part of the mean feature that lies outside a span.

    The total variance is smaller by this amount than the mean squared distance to the mean's projection on the span.
    The mean of k(x, y) over pairs of different rows estimates the squared length of the mean without bias, and so does
    the mean of f(x)'f(y) for its projection; their difference is the part outside.  For all rows it is exact.
    """
    if not span.center or indefinite or not isinstance(span, PointSpan):
        return 0.0
    rows, gram = on_rows.rows, on_rows.rows.gram
    omega, features = rows.unit_weights, on_rows.features(span.moments.whitening)
    inside = to_numpy(like(omega, features) @ features)
    whole, part = float(omega @ rows.means), float(inside @ inside)
    if not rows.is_all:
        squares = omega**2
        whole -= float(squares @ to_numpy(namespace(gram).linalg.diagonal(gram)))
        part -= float(squares @ to_numpy(row_dot(features, features)))
        if not float(squares.sum()) < 1:
            raise ValueError(
                f"the {rows.size} rows that the result is measured on are too few: give more rows, or more of "
                "them to look at (n_optimization_samples)"
            )
        whole, part = (value / (1 - float(squares.sum())) for value in (whole, part))
    spare = span.total_variance - float(np.trace(span.covariance))  # the variance outside the span cannot be negative
    # The last term bounds the rounding error of the mean of n^2 float32 kernel values. It is subtracted, because too
    # small a result does less harm than too large a one.
    outside = whole - part - MEAN_ERRORS * rows.rounding * span.mean_length / rows.size
    return min(outside, max(spare, 0.0)) if outside > rows.rounding * whole else 0.0


def _ratio(
    on_rows: PointsOnRows,
    features: Array,
    found: RowComponents,
    n_samples: int,
    *,
    fitted: float = 0.0,
    adapted: float = 0.0,
    all_chose: bool = False,
    seeds: np.ndarray | None = None,
) -> CapturedRatio:
    rows, values = on_rows.rows, found.variances
    rows.check_apart(rows.exact.captured)
    # The kernel is positive semi-definite on these rows, but perhaps not on rows and points together.
    if rows.is_all and rows.kernel.definite is False:
        return _agreed(rows, values)
    whole = float(values.sum()) / rows.exact.captured
    if rows.is_all:
        return CapturedRatio.known(whole, "all rows", rows.size, n_real(values))
    squares = _Squares(rows, (found.scores**2).sum(axis=1))
    rows.check_apart(float(rows.exact_squares.sum()))
    # If at most .001 is missed and no row carries much, halves are not computed: all that is missed counts as an error.
    nearly_one = not adapted and 1 - whole <= KNOWN_WELL and rows.share_of_own < LITTLE_OF_OWN
    to_all = 0.0 if nearly_one else (whole - _ratio_of_halves(rows, features, found)) * (1 - rows.size / n_samples)
    step = to_all * (1 - fitted - CHOSEN_STEP * adapted)
    doubt = abs(to_all) * float(np.hypot(EXTRAPOLATION_ERROR * (1 - fitted - adapted), fitted + CHOSEN_ERROR * adapted))
    doubt = max(1 - whole, 0.0) if nearly_one else doubt
    owed = 0.0 if seeds is None else squares.owed_to(seeds)
    kind = "sample" if all_chose else "sample, extrapolated"
    estimate = Estimate(on_rows, squares, whole + step - owed, step, doubt, kind, n_real(values), nearly_one)
    return estimate.reported(estimate.value, squares.error(squares.missed))


@dataclass(frozen=True)
class Estimate:
    """A captured ratio that was measured on some of the rows and extrapolated to all."""

    on_rows: PointsOnRows
    squares: _Squares
    value: float
    step: float  # the change of the ratio by the extrapolation to all rows
    doubt: float  # standard error of that extrapolation
    kind: str
    n_real: int
    nearly_one: bool = False  # so little is missed that halves of the rows, which show how much, were not computed

    def reported(self, value: float, error: float) -> CapturedRatio:
        """The captured ratio to report, given the estimate and its standard error from sampling."""
        rows, value = self.on_rows.rows, min(value, 1.0)
        error = float(np.hypot(error, self.doubt))
        safe = min(max(value - SAFE_ERRORS * max(error - KNOWN_WELL, 0.0), 0.0), 1.0)
        few, apart = (0.0, 0.0) if self.nearly_one else (error_of_few(rows), disagreement(rows))
        unknown = CONFIDENCE_ERRORS * float(np.hypot(error, few))
        # Under narrow kernels the ratio falls short of its limit by an amount proportional to n^-1/2 rather than 1/n.
        # The step to all rows is then 1/(2^1/2 - 1) = 2.41 times as long, so the upper end is raised by one more step.
        high = value + unknown + max(self.step, 0.0) + apart * (1 - value)
        low, high = (min(max(end, 0.0), 1.0) for end in (value - unknown, high))
        return CapturedRatio(safe, self.kind, rows.size, (min(low, safe), max(high, safe)), self.n_real, self)

    def corrected(self, span: PointSpan, expansion: KernelExpansion, captured: float) -> CapturedRatio:
        """The captured ratio to report after the correction by the pass over all rows."""
        rows, omega = self.on_rows.rows, self.on_rows.rows.unit_weights
        if rows.size < LEAST_FOR_CORRECTION or not self.value > 0:
            return self.reported(self.value, self.squares.error(self.squares.missed))
        within, everywhere = float(np.trace(span.covariance)), span.mean_square if span.center else 0.0
        of_all = np.array([captured, within - captured, span.mean_length - within - everywhere, 1.0])
        told = np.column_stack([*self._parts(span, expansion), np.ones(rows.size)])
        scale = np.maximum(np.abs(told).max(axis=0), TINY)
        root, missed = np.sqrt(omega), self.squares.missed
        line = np.linalg.lstsq(root[:, None] * (told / scale), root * missed, rcond=HALF_THE_DIGITS)[0] / scale
        correction = float(line @ (of_all - omega @ told))
        exact = max(captured / self.value + correction, captured)
        value = float(captured / exact)
        error = self.squares.error(missed - told @ line)
        return self.reported(value, float(np.hypot(error, CORRECTION_ERROR * value * correction / exact)))

    def _parts(self, span: PointSpan, expansion: KernelExpansion) -> list[np.ndarray]:
        """For each row, the squared lengths of its scores, of the rest within the span, and of the part outside it."""
        on_rows, rows = self.on_rows, self.on_rows.rows
        scores = to_numpy(on_rows.features(expansion.coef)) - to_numpy(expansion.offset)
        features = to_numpy(on_rows.features(span.whitening))
        outside = rows.lengths - (features**2).sum(axis=1)
        if span.center:
            features = features - span.mean
        captured = (scores**2).sum(axis=1)
        return [captured, (features**2).sum(axis=1) - captured, outside]


@dataclass(frozen=True)
class _Squares:
    """Squared lengths of the scores of some rows, on the components of a model and on those of exact kernel PCA."""

    rows: RowSet
    model: np.ndarray  # (n,)

    def ratio(self, omega: np.ndarray) -> float:
        return float(omega @ self.model) / float(omega @ self.rows.exact_squares)

    @property
    def missed(self) -> np.ndarray:
        """(n,) how much more of the squared exact scores the model misses in each row than on average."""
        return self.rows.exact_squares - self.model / self.ratio(self.rows.unit_weights)

    def error(self, missed: np.ndarray) -> float:
        """The standard error of the ratio, given what the model misses in each row."""
        omega, exact, ratio = self.rows.unit_weights, self.rows.exact_squares, self.ratio(self.rows.unit_weights)
        return ratio * float(np.sqrt(np.sum(omega**2 * (1 - self.rows.chances) * missed**2))) / float(omega @ exact)

    def owed_to(self, seeds: np.ndarray) -> float:
        """How much the ratio is too high because the seeds are overrepresented among the evaluation rows."""
        less = self.rows.unit_weights.copy()
        less[seeds] *= self.rows.chances[seeds]
        return self.ratio(self.rows.unit_weights) - self.ratio(less)


def _ratio_of_halves(rows: RowSet, features: Array, whole: RowComponents) -> float:
    """The mean ratio of two halves of the rows; their eigensolver starts from the components of all the rows."""
    ratios = []
    for half, exact in zip(rows.halves, rows.exact_halves, strict=True):
        rows.check_apart(exact.captured)
        omega = unit_weights(half.weights, len(half.places))
        found = components_of(rows.part_of(features, half), omega, rows, whole.vectors)
        ratios.append(float(found.variances.sum()) / exact.captured)
    return float(np.mean(ratios))


def n_real(variances: np.ndarray) -> int:
    """Number of components whose variance exceeds rounding."""
    return int(np.sum(variances > DEPENDENT * variances.max(initial=0.0)))


def error_of_few(rows: RowSet) -> float:
    """Extra standard error of the extrapolation when the evaluation rows are too few: optimism^8."""
    own, other = rows.captured_across
    return min(max(1.0 - other / own, 0.0), 1.0) ** OPTIMISM_POWER if own > 0 else 1.0


def disagreement(rows: RowSet) -> float:
    """Relative difference of the variance captured on the two halves, times min(1, 100/n): between 0 and 1."""
    least, most = sorted(rows.captured_across)
    apart = 1.0 - max(least, 0.0) / most if most > 0 else 1.0
    return apart * min(1.0, 2 * LEAST_HALF / rows.size)
