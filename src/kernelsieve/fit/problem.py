"""A problem: the training rows, and a sample of them under a kernel.  Every hook of a fit is handed one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..kernels import Kernel
from ..rows.memory import Rows, finite
from ..solvers.spectrum import RANK_TOLERANCE, RANK_TOLERANCE_FLOAT32
from .all_rows import AllRowsSpan
from .captured import variances_on_reference
from .indefinite import best_cut
from .moments import MomentSum
from .sample import Sample, default_reference_rows, default_sample_size
from .span import Points, PointSpan, Span

FLOAT32_LOSS = 1e-3  # of any component's variance, which is worth a pass in float64


@dataclass(frozen=True)
class Problem:
    """Training rows as a fit sees them."""

    rows: Rows
    sample: Sample
    gamma: float
    rng: np.random.Generator

    @property
    def kernel(self) -> Kernel:
        return self.sample.kernel

    @property
    def rank_tolerance(self) -> float:
        """Share of the largest eigenvalue of K_SS below which others are rounding, or an indefinite kernel's noise."""
        return max(rank_tolerance(self.rows), self.sample.indefiniteness)

    def span(self, chosen: Points, *, signed: bool = False) -> Span:
        """The span of chosen points with the moments of all rows over it.

        `signed` keeps the negative part of an indefinite kernel.
        """
        sample = self.sample
        if signed and sample.indefiniteness and not chosen.exhaustive:
            cut, _ = best_cut(sample, chosen)
            return span_of(
                self.rows, chosen, center=sample.center, tolerance=cut, signed=True, n_threads=sample.n_threads
            )
        tolerance = self.rank_tolerance if self._enough(chosen) else max(RANK_TOLERANCE, sample.indefiniteness)
        span = span_of(self.rows, chosen, center=sample.center, tolerance=tolerance, n_threads=sample.n_threads)
        gram = vars(sample).get("gram")
        if chosen.exhaustive and sample.reference_is_all and isinstance(gram, np.ndarray) and gram.dtype == np.float64:
            order = np.argsort(sample.rows.indices)  # the points, being all rows, are in the order of the rows
            vars(span)["gram"] = gram[np.ix_(order, order)]
        return span

    def _enough(self, chosen: Points) -> bool:
        """Whether the tolerance for float32 rows drops no variance that counts: else the rows are summed in float64."""
        if not self.rows.single_precision or chosen.exhaustive:
            return True
        sample = self.sample
        few, many = (max(share, sample.indefiniteness) for share in (RANK_TOLERANCE_FLOAT32, RANK_TOLERANCE))
        if chosen.spectrum.rank(few) == chosen.spectrum.rank(many):
            return True
        all_of_it, kept = variances_on_reference(sample, chosen, many, few)
        if len(kept) < len(all_of_it):
            return False
        return bool(np.all(all_of_it - kept <= FLOAT32_LOSS * all_of_it))

    def for_points(self, n_support: int, n_samples: int | None = None) -> Problem:
        """The same problem with a sample large enough for so many points, or of `n_samples` rows where that is given.

        Itself, with all that its sample has already computed, where that will do.
        """
        sample, rows = self.sample, self.sample.rows
        wanted = n_samples or default_sample_size(n_support)
        if not rows.whole and wanted > len(rows.indices):
            rows = self.rows.sample(wanted, self.rng)
        reference = default_reference_rows(n_support)
        if sample.rows is rows and sample.n_reference >= min(reference, len(rows.indices)):
            return self
        return replace(self, sample=replace(sample, rows=rows, reference_rows=reference, drawn=None).representative)


def rank_tolerance(rows: Rows) -> float:
    """Share of the largest eigenvalue of K_SS below which others are rounding, by the precision of the rows."""
    return RANK_TOLERANCE_FLOAT32 if rows.single_precision else RANK_TOLERANCE


def span_of(
    rows: Rows, chosen: Points, *, center: bool, tolerance: float = 0.0, signed: bool = False, n_threads: int = 1
) -> Span:
    """The span of the chosen points with the moments of all rows over it: one pass, unless they are all rows.

    Eigenvalues of K_SS below the share `tolerance` of the largest, or below rounding, are dropped; `signed` keeps those
    of an indefinite kernel that are negative.
    """
    if chosen.exhaustive:
        return AllRowsSpan(chosen.kernel, finite(chosen.points), chosen.indices, center, chosen.counts)
    whitening = chosen.spectrum.whitening(tolerance or rank_tolerance(rows), signed=signed)
    moments = rows.add_up(MomentSum(chosen.kernel, chosen.points, whitening.matrix), n_threads)
    span = PointSpan(chosen.kernel, chosen.points, chosen.indices, center, moments, whitening.negative_share)
    vars(span)["point_gram"] = chosen.gram  # made already
    return span
