"""captured_ratio_: how much of exact kernel PCA's variance a model keeps.

Both are measured on the same reference rows.  On n of N rows exact kernel PCA fits the rows it sees more than a
model of all N can, and the ratio r(n) falls short by an amount that goes as 1/n.  With the mean ratio r(n/2) of
two halves the line through both is followed to 1/N:

    r(N) = r(n) + (r(n) - r(n/2)) (1 - n/N)

Where the reference rows are all rows there are, r(n) is the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from ..arrays import float64_like, to_numpy
from .expansion import KernelExpansion
from .moments import Moments, accumulate
from .sample import Sample


@dataclass(frozen=True)
class CapturedRatio:
    """A ratio, how it was come by, and on how many rows."""

    value: float
    kind: str  # "all rows" or "sample, extrapolated"
    n_samples: int


def extrapolated(whole: float, halves: float, share: float) -> float:
    """The ratio on all rows, from that on a share of them and the mean of that on its two halves."""
    return min(whole + (whole - halves) * (1 - share), 1.0)


def captured_ratio(sample: Sample, expansion: KernelExpansion, n_samples: int) -> CapturedRatio:
    """Captured variance of a fitted model over exact kernel PCA's with as many components.

    Cost: one pass over the reference rows, and exact kernel PCA of them and of their halves.
    """
    everything = sample.rows.whole and sample.n_reference == sample.size
    expansion = expansion.orthonormal
    halves = [_moments(sample, expansion, part) for part in sample.halves]
    whole = _captured(reduce(add, halves), sample.center) / sample.exact.captured
    if everything:
        return CapturedRatio(min(whole, 1.0), "all rows", sample.n_reference)
    half = np.mean([_captured(m, sample.center) / e.captured for m, e in zip(halves, sample.exact_halves, strict=True)])
    value = extrapolated(whole, float(half), sample.n_reference / n_samples)
    return CapturedRatio(value, "sample, extrapolated", sample.n_reference)


def _moments(sample: Sample, expansion: KernelExpansion, part: slice) -> Moments:
    rows, weights = sample.reference[part, :], sample.rows.weights
    return accumulate(
        expansion.kernel,
        expansion.points_like(rows),
        float64_like(expansion.coef, rows),
        rows,
        sample_weight=None if weights is None else weights[part],
        diagonal=np.zeros(rows.shape[0]),
        n_threads=sample.n_threads,
    )


def _captured(moments: Moments, center: bool) -> float:
    return float(np.trace(to_numpy(moments.covariance(center))))
