"""captured_ratio_: how much of exact kernel PCA's variance a model keeps.

Both are measured on the same reference rows.  On n of N rows exact kernel PCA fits the rows it sees more than a
model of all N can, and the ratio r(n) falls short by an amount that goes as 1/n.  With the mean ratio r(n/2) of
two halves the line through both is followed to 1/N:

    r(N) = r(n) + (r(n) - r(n/2)) (1 - n/N)

Where the reference rows are all rows there are, r(n) is the truth.  Rows that the reference rows themselves chose fit
those as exact kernel PCA does, and their ratio stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from ..arrays import Array, float64_like, to_numpy, top_eigh
from ..kernels import Kernel
from .expansion import KernelExpansion
from .moments import Moments, MomentSum, gram_of, points_like, whiten
from .sample import Sample
from .span import Points


@dataclass(frozen=True)
class CapturedRatio:
    """A ratio, how it was come by, and on how many rows."""

    value: float
    kind: str  # "exact", "all rows", "sample" or "sample, extrapolated"
    n_samples: int


def ratio_of_points(
    sample: Sample, chosen: Points, n_samples: int, *, tolerance: float, by_reference: bool
) -> CapturedRatio:
    """The ratio of the best components on chosen points; `by_reference`: the reference rows chose them."""
    if chosen.exhaustive:
        return CapturedRatio(1.0, "exact", sample.n_reference)
    points = points_like(chosen.points, sample.reference)
    whitening = whiten(gram_of(chosen.kernel, points), max(tolerance, sample.indefiniteness)).matrix
    return _ratio(sample, _halves(sample, chosen.kernel, points, whitening), n_samples, as_it_is=by_reference)


def ratio_of_model(sample: Sample, expansion: KernelExpansion, n_samples: int) -> CapturedRatio:
    """The ratio of a fitted model's components, made orthonormal."""
    expansion = expansion.orthonormal
    points = points_like(expansion.points, sample.reference)
    halves = _halves(sample, expansion.kernel, points, float64_like(expansion.coef, sample.reference))
    return _ratio(sample, halves, n_samples)


def captured_on_reference(sample: Sample, chosen: Points, tolerance: float) -> float:
    """Variance of the reference rows that the best components on chosen points capture."""
    points = points_like(chosen.points, sample.reference)
    whitening = whiten(gram_of(chosen.kernel, points), max(tolerance, sample.indefiniteness)).matrix
    return _captured(reduce(add, _halves(sample, chosen.kernel, points, whitening)), sample)


def _ratio(sample: Sample, halves: list[Moments], n_samples: int, *, as_it_is: bool = False) -> CapturedRatio:
    whole = _captured(reduce(add, halves), sample) / sample.exact.captured
    if sample.reference_is_all or as_it_is:
        kind = "all rows" if sample.reference_is_all else "sample"
        return CapturedRatio(min(whole, 1.0), kind, sample.n_reference)
    parts = [_captured(m, sample) / e.captured for m, e in zip(halves, sample.exact_halves, strict=True)]
    value = whole + (whole - float(np.mean(parts))) * (1 - sample.n_reference / n_samples)
    return CapturedRatio(min(value, 1.0), "sample, extrapolated", sample.n_reference)


def _halves(sample: Sample, kernel: Kernel, points: Array, whitening: Array) -> list[Moments]:
    """Moments of the two halves of the reference rows; `whitening` gives unit vectors orthogonal to each other."""
    summand, weights = MomentSum(kernel, points, whitening, with_trace=False), sample.rows.weights
    return [
        summand.over(sample.reference[part, :], None if weights is None else weights[part], sample.n_threads)
        for part in sample.halves
    ]


def _captured(moments: Moments, sample: Sample) -> float:
    """The variance along the best components in the span of the whitened features."""
    values, _ = top_eigh(moments.covariance(sample.center), sample.n_components)
    return float(np.maximum(to_numpy(values), 0.0).sum())
