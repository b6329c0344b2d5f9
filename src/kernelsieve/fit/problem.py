"""Problem: the training rows and a sample of them under a kernel, which is the input of every hook of a fit.

The module also has the warnings, with advice, for kernels that suit the rows badly.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from ..arrays import TINY, Array, is_numpy, is_torch, to_numpy
from ..errors import KernelWarning, PoorComponentsWarning, warn
from ..kernels import Kernel
from ..kernels.blocks import dense
from ..rows.rows import Rows
from ..rows.sampling import ShortSide
from ..spectrum.cuda_graphs import side_by_side_on
from ..spectrum.whitening import RANK_TOLERANCE
from ..threads import SPARE_THREADS, row_ranges, side_by_side
from .captured_ratio import CapturedRatio, PointsOnRows, ratio_of_points
from .expansion import KernelExpansion
from .indefinite import best_cut
from .moments import MomentSum
from .rowset import LITTLE_OF_OWN, RowSet
from .sample import Sample
from .span import AllRowsSpan, Points, PointSpan, Span

MIN_EXPLAINED = 0.05  # a fit warns if the components explain a smaller share of the variance
FAR_ABOVE = 2.0  # a fit warns if variance captured in sample / variance captured on unseen rows exceeds this
MIN_HALF, MIN_HALF_PER_COMPONENT = 50, 10  # halves with fewer rows are not compared
NEARLY_CONSTANT = 1e-3  # a kernel is nearly constant if total variance / mean k(x, x) is below this
# Rounding shows in the scores if the variance is below this share of k(x, x); keyed by the bytes of a number.
SHOWS_ROUNDING = {2: 1e-3, 4: 1e-3, 8: 1e-7}
SCALE_ROWS, SCALE_COLUMNS = 500, 256  # rows whose scale is checked, and columns checked at a time
WILD_SCALES = 100.0  # a fit warns if the largest standard deviation of a column / the lower quartile exceeds this
NEGATIVE = "k(x, x) is below zero for all rows looked at: a kernel is larger for rows that are alike; try its negative"
NOTHING_TO_EXPLAIN = "the rows are all the same to this kernel: there is no variance to explain"
LOST_IN_LENGTH = (
    "the rows differ, but by so little, compared with their distance from the origin, that rounding hides it in the "
    "products that this kernel is made of: subtract the mean of every column first"
)
# Products lose the differences between rows if the largest difference from a column's mean, divided by the largest
# absolute value, is below this.
FAR_OUT = 1e-3


@dataclass(frozen=True)
class Problem:
    """Training rows, their sample, and everything else that a fit knows before it chooses points."""

    rows: Rows
    sample: Sample
    gamma: float
    rng: np.random.Generator
    # Set if there are many more columns than rows, so that the rows are represented in the space that they span.
    short: ShortSide | None = None
    coordinates: Any = None  # of the search for points (search/subspace.py), if already computed

    @property
    def kernel(self) -> Kernel:
        return self.sample.kernel

    @property
    def rank_tolerance(self) -> float:
        """Eigenvalues of K_SS below this share of the largest are rounding errors, or noise of an indefinite kernel."""
        return max(RANK_TOLERANCE, self.sample.indefiniteness)

    def span(self, chosen: Points, *, keep_negative: bool = False, dense: bool = False) -> Span:
        """The span of chosen points with the moments of all rows over it.

        `keep_negative` keeps the negative part of an indefinite kernel.  `dense` matters if all rows were chosen: their
        whole gram is then computed, which the components are found from.
        """
        sample, tolerance = self.sample, self.rank_tolerance
        if chosen.exhaustive:
            return AllRowsSpan.of(chosen, sample.center, dense=dense)
        if keep_negative and sample.indefiniteness:
            tolerance = best_cut(sample.evaluation, chosen)[0]
        else:
            keep_negative = False
        return span_of(
            self.rows,
            chosen,
            center=sample.center,
            tolerance=tolerance,
            keep_negative=keep_negative,
            n_threads=sample.n_threads,
        )

    def on_evaluation(self, chosen: Points) -> PointsOnRows:
        """Chosen points with their kernel values at the evaluation rows."""
        return PointsOnRows(chosen.kernel, chosen.points, self.sample.measured_on)

    def ratio(self, on_rows: PointsOnRows, chosen: Points) -> CapturedRatio:
        """The captured ratio of the best components on chosen points."""
        return ratio_of_points(on_rows, self.sample, chosen, self.rows.n_samples)

    def ratio_and_span(self, on_rows: PointsOnRows, chosen: Points) -> tuple[CapturedRatio, Span | None]:
        """The captured ratio of chosen points and, if it can be computed at the same time, their span.

        The ratio keeps one thread busy, or a device waiting; the pass over all rows for the span keeps many threads or
        the device busy.  The span is None if too few threads are free, or if the kernel may be indefinite, because then
        the method may need a span with other signs.
        """
        n_threads, X = self.sample.n_threads, self.sample.rows.X
        ratio, span = partial(self.ratio, on_rows, chosen), partial(self.span, chosen)
        if self.rows.in_memory and self.kernel.definite and not chosen.exhaustive:
            if is_torch(X) and X.device.type == "cuda":
                chosen.spectrum.rank(self.rank_tolerance)  # both use the spectrum, so it is computed before
                with suppress(RuntimeError):  # the device may have too little memory for both at once
                    return side_by_side_on(X.device, ratio, span)
            if is_numpy(X) and n_threads >= SPARE_THREADS:
                found = side_by_side([ratio, span], n_threads)
                return found[0], found[1]
        return ratio(), None

    def variances_of_scores(self, expansion: KernelExpansion) -> np.ndarray:
        """(M,) variances of the scores of all rows, by one more pass over the rows.

        This is for components that do not lie in the span.
        """
        over_scores = MomentSum(expansion.kernel, expansion.points, expansion.coef, with_trace=False)
        found = self.rows.add_up(over_scores, self.sample.n_threads)
        return np.maximum(np.diagonal(to_numpy(found.covariance(self.sample.center))), 0.0)

    def for_points(self, n_support: int, n_samples: int | None = None) -> Problem:
        """This problem with a sample that is large enough for `n_support` points, or has `n_samples` rows if given.

        If the present sample is large enough, the problem itself is returned, with everything already computed.
        """
        sample, rows = self.sample, self.sample.rows
        wanted = n_samples or sample.plan.sample_size(n_support)
        if not rows.whole and wanted > len(rows.indices):
            n_fresh = 0 if rows.fresh is None else len(rows.fresh.indices)
            rows = self.rows.sample(wanted + n_fresh, self.rng).split(wanted, sample.plan.all_evaluated)
        n_evaluation = sample.plan.evaluation_rows_for(n_support)
        if sample.rows is rows and sample.n_evaluation >= min(n_evaluation, len(rows.indices)):
            return self
        again = Sample.of(
            rows,
            sample.kernel,
            sample.n_components,
            center=sample.center,
            n_threads=sample.n_threads,
            n_evaluation=n_evaluation,
            n_population=sample.n_population,
            plan=sample.plan,
        )
        return replace(self, sample=again.representative, coordinates=None)


def span_of(
    rows: Rows,
    chosen: Points,
    *,
    center: bool,
    tolerance: float = RANK_TOLERANCE,
    keep_negative: bool = False,
    n_threads: int = 1,
) -> PointSpan:
    """The span of the chosen points with the moments of all rows, by one pass over the rows.

    Eigenvalues of K_SS below the share `tolerance` of the largest, or below rounding, are dropped.  With
    `keep_negative`, the negative eigenvalues of an indefinite kernel are kept.
    """
    whitening = chosen.spectrum.whitening(tolerance, keep_negative=keep_negative)
    moments = rows.add_up(MomentSum(chosen.kernel, chosen.points, whitening.matrix), n_threads)
    return PointSpan(
        chosen.kernel, chosen.points, chosen.indices, center, moments, whitening.negative_share, chosen.gram
    )


def nothing_to_explain(rows: RowSet) -> str:
    """The reason why rows have no variance under a kernel, as an error message.

    Either all rows are equal to the kernel, or they are so far from the origin that rounding hides their differences.
    """
    kernel = rows.kernel
    if kernel.definite is not True and not kernel.precomputed and float(np.max(np.diagonal(to_numpy(rows.gram)))) < 0:
        return NEGATIVE
    if kernel.stationary or not kernel.isotropic:  # only kernels of products lose small differences between long rows
        return NOTHING_TO_EXPLAIN
    values = to_numpy(dense(rows.given))
    away = float(np.abs(values - values.mean(axis=0)).max())
    drowned = bool(np.any(values != values[:1])) and away < FAR_OUT * float(np.abs(values).max())
    return LOST_IN_LENGTH if drowned else NOTHING_TO_EXPLAIN


def warn_about_scales(rows: Array) -> None:
    """Warn of columns in very different units: only the largest columns affect a distance."""
    if scipy.sparse.issparse(rows) or rows.shape[1] < 2:
        return
    some = to_numpy(rows[:SCALE_ROWS, :])
    # a few columns at a time, so that the temporary arrays of np.std stay in the cache
    deviations = np.concatenate([np.std(some[:, part], axis=0) for part in row_ranges(some.shape[1], SCALE_COLUMNS)])
    varying = np.sort(deviations[deviations > 1e-12 * max(float(deviations.max()), TINY)])
    if varying.size < 2:
        return
    low, high = float(varying[(varying.size - 1) // 4]), float(varying[-1])
    if high > WILD_SCALES * low:
        warn(
            f"column scales differ wildly (standard deviations from {low:.3g} to {high:.3g}): the kernel sees only the "
            "largest columns. Standardise them first, as StandardScaler and TableEncoder do",
            KernelWarning,
        )


def warn_of_rounding(spread: float) -> None:
    """Warn if the kernel values of rows are so nearly equal that rounding hides the differences."""
    warn(
        f"the kernel is nearly constant on these rows (variance {spread:.1e} of k(x, x)): the scores show rounding. "
        "Centre and scale the rows, or give another gamma",
        KernelWarning,
    )


@dataclass(frozen=True)
class GammaAdvice:
    """The current gamma, and whether the advice should mention the median rule."""

    gamma: float
    try_median: bool

    def towards(self, direction: str) -> str:
        median = ", or gamma='median'" if self.try_median else ""
        return f" Give a {direction} gamma than {self.gamma:.3g}{median}."


def warn_about_kernel(
    explained: float, exact: float, spread: float, own_and_other: tuple[float, float], advice: GammaAdvice | None
) -> None:
    """Warn of a kernel that is nearly the identity (no two rows alike) or nearly constant (all rows alike).

    Parameters
    ----------
    explained : share of the total variance that the components capture
    exact : share that exact kernel PCA captures, approximately; needed only if `explained` is below MIN_EXPLAINED
    spread : total variance divided by the mean of k(x, x)
    own_and_other : variance that components found on some rows capture on these rows, and on others
    advice : advice about gamma; None for kernels without a width
    """
    own, other = own_and_other
    narrower, wider = (advice.towards("larger"), advice.towards("smaller")) if advice else ("", "")
    message: str | None = None
    category: type[KernelWarning] = PoorComponentsWarning
    if spread < NEARLY_CONSTANT:
        message = f"the kernel is nearly constant on these rows (variance {spread:.1e} of k(x, x)).{narrower}"
        category = KernelWarning
    elif explained < MIN_EXPLAINED <= exact:
        message = (
            f"the components explain {explained:.1%} of the variance, exact kernel PCA explains about {exact:.1%}: the "
            "points are too few, or badly chosen. Give more of them (n_support)"
        )
    elif explained < MIN_EXPLAINED:
        message = (
            f"the components explain {explained:.1%} of the variance: to this kernel every row is like no other."
            f"{wider} More components help too."
        )
    elif own > FAR_ABOVE * other:
        message = (
            f"the components capture {own / max(other, TINY):.1f} times as much variance on the rows they were "
            f"found on as on others: they follow single rows.{wider} Fewer components or more rows help too."
        )
    warn(message, category)


def split_captured(rows: RowSet) -> tuple[float, float]:
    """Variance that exact kernel PCA of one half of the rows captures on that half, and on the other."""
    n_least = max(MIN_HALF, MIN_HALF_PER_COMPONENT * rows.n_components)
    if rows.size < 2 or len(rows.halves[0].places) < n_least:
        return 1.0, 1.0  # too few rows for a comparison
    if rows.share_of_own < LITTLE_OF_OWN:
        return 1.0, 1.0  # the halves cannot differ by the factor FAR_ABOVE
    own, other = rows.captured_across
    return (own, other) if own > 0 else (1.0, 1.0)
