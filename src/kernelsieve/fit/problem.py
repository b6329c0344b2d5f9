"""A problem: the training rows, and a sample of them under a kernel.  Every hook of a fit is handed one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..kernels import Kernel
from ..rows.base import Rows
from .sample import Sample, default_reference_rows, default_sample_size
from .span import Points, Span, rank_tolerance, span_of


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

    def span(self, chosen: Points) -> Span:
        """The span of chosen points with the moments of all rows over it."""
        sample = self.sample
        return span_of(
            self.rows, chosen, center=sample.center, tolerance=self.rank_tolerance, n_threads=sample.n_threads
        )

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
