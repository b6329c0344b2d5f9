"""How the model would change with more or fewer components or points, or with another width of the kernel.

Two questions are answered on a sample of the rows with the model's own kernel, so that they cost little compared with
the fit: how many components stand out from chance, and how many points they need.

    scree       shares of variance of exact kernel PCA on n rows, and on the same rows with every column shuffled
                independently.  The shuffled rows give a band; components above it show structure between columns
    captured    the share of exact kernel PCA's variance that m points capture, for several m

For several narrower and wider kernels, the best components in the span of some rows are computed from the moments of a
sample.  The moments of the two halves of the sample are computed separately, then added.  Components are also computed
for each half: comparing them shows how much the map depends on the rows that happened to be drawn,

    agreement = |Z_1' Z_2|^2 / (|Z_1' Z_1| |Z_2' Z_2|)         linear CKA; Z_1, Z_2 are the scores of the same rows

which is 1 if the scores differ only by a rotation.  The explained variance is no criterion for the width, because it
grows with the width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..fit.moments import MomentSum, gram_of
from ..fit.span import PointSpan
from ..kernels import Kernel, is_function
from ..spectrum.whitening import whiten
from ..threads import one_blas_thread
from .limits import PAGE
from .model_view import ColumnReader, ModelView, quietly


@dataclass(frozen=True)
class Scree:
    """Shares of variance of the leading components, and the band of those with shuffled columns."""

    shares: np.ndarray  # (K,) of exact kernel PCA on the sample
    low: np.ndarray  # (K,) lower end of the band
    high: np.ndarray  # (K,) upper end of the band
    n_rows: int

    @property
    def n_above(self) -> int:
        """The number of leading components whose shares are above the band."""
        below = np.flatnonzero(self.shares <= self.high)
        return int(below[0]) if len(below) else len(self.shares)


def scree(view: ModelView, reader: ColumnReader) -> Scree | None:
    """The spectrum of a sample, and those of the sample with its columns shuffled independently.

    None if there are fewer than 4 rows, and for objects, which have no columns.
    """
    if view.of_objects:
        return None
    rows = view.sample[:: max(1, len(view.sample) // PAGE.scree_rows)][: PAGE.scree_rows]
    if len(rows) < 4:
        return None
    count = min(max(PAGE.min_scree, view.n_components + 4), PAGE.max_scree, len(rows) - 1)
    count = max(count, min(view.n_components, len(rows) - 1))
    rng = np.random.default_rng(view.seed)
    with one_blas_thread():
        shares = _spectrum(view, rows)[:count]
        shuffled = np.array([_spectrum(view, _shuffled(rows, reader, rng))[:count] for _ in range(PAGE.n_shuffles)])
    low, high = np.quantile(shuffled, PAGE.shuffled_band, axis=0)
    return Scree(shares, low, high, len(rows))


def _shuffled(rows: np.ndarray, reader: ColumnReader, rng: np.random.Generator) -> np.ndarray:
    """Shuffle every column independently; the encoded columns of one raw column stay together."""
    if all(len(group) == 1 for group in reader.groups):
        return rng.permuted(rows, axis=0)
    mixed = rows.copy()
    for group in reader.groups:
        if len(group):
            mixed[:, group] = rows[np.ix_(rng.permutation(len(rows)), group)]
    return mixed


def _spectrum(view: ModelView, rows: np.ndarray) -> np.ndarray:
    """Eigenvalues of the gram (centred if the model is) as shares of its trace, the largest first."""
    expansion = view.model.expansion_
    gram = np.asarray(expansion.kernel(rows, rows), dtype=np.float64)
    if expansion.mean_coef is not None:
        mean = gram.mean(axis=0)
        gram = gram - mean - mean[:, None] + mean.mean()
    total = float(np.trace(gram))
    values = np.maximum(np.linalg.eigvalsh((gram + gram.T) / 2)[::-1], 0.0)
    return values / total if total > 0 else np.zeros_like(values)


def small_fit(view: ModelView, n_support: int) -> Any:
    """SparseKernelPCA with this model's kernel, fitted to the sample; None if the fit fails, as for too few rows."""
    from .. import SparseKernelPCA

    model = view.model
    given = getattr(model, "kernel", "rbf")
    estimator = SparseKernelPCA(
        view.n_components,
        n_support=n_support,
        kernel=given if is_function(given) else model.expansion_.kernel,
        kernel_params=getattr(model, "kernel_params", None) if is_function(given) else None,
        center=model.expansion_.mean_coef is not None,
        random_state=view.seed,
    )
    with quietly():
        try:
            return estimator.fit(view.sample)
        except (ValueError, np.linalg.LinAlgError):
            return None


def captured(view: ModelView) -> dict[int, float]:
    """The captured share for numbers of points around the model's own, and for those that `fit` tried itself."""
    model = view.model
    chosen = int(model.n_support_)
    fewest = view.n_components + 1
    most = min(PAGE.max_tried_points, len(view.sample) // 2)
    report = getattr(model, "selection_report_", None) or {}
    known = {int(size): float(share) for size, share in report.get("curve", [])}
    factors = PAGE.more_sizes if len(known) > 1 else PAGE.sizes
    ratio = getattr(model, "captured_ratio_", None)
    if ratio is not None:
        known[chosen] = float(ratio)
    curve = dict(known)
    fewest_too = [] if factors is PAGE.more_sizes else [fewest]
    sizes = set() if view.of_objects else {*fewest_too, *(round(chosen * factor) for factor in factors)}
    for size in sizes - set(known):  # empty for objects: their kernel values cost too much for further fits
        found = small_fit(view, size) if fewest <= size <= most else None
        if found is not None:
            curve[size] = float(found.captured_ratio_)
    return dict(sorted(curve.items()))


@dataclass(frozen=True)
class Width:
    """The components at one width of the kernel."""

    factor: float  # the width as a multiple of the model's own
    gamma: float
    shares: np.ndarray  # (M,) share of the variance in each component, on the sample
    agreement: float  # of the components of two halves of the sample, 0 to 1
    scores: np.ndarray  # (n_shown, M) of the rows shown on the page

    @property
    def explained(self) -> float:
        """The share of the variance in all components together."""
        return float(self.shares.sum())


def widths(view: ModelView, shown: np.ndarray) -> list[Width]:
    """Components for kernels of several widths, from narrow to wide; empty without a width, or with too few rows."""
    kernel = view.model.expansion_.kernel
    gamma = view.kernel_settings.get("gamma")
    if gamma is None or len(view.sample) < max(8, 2 * (view.n_components + 1)):
        return []
    power = 1.0 if kernel.metric == "manhattan" else 2.0
    # Single precision is enough, because the page keeps only two bytes of each score.
    rows, own = view.encoded_rows(shown).astype(np.float32), view.scores[shown]
    found = []
    with one_blas_thread():
        for factor in PAGE.widths:
            width = _width(view, gamma / factor**power, factor, rows, own)
            if width is not None:
                found.append(width)
    return found if len(found) > 1 and any(width.factor == 1.0 for width in found) else []


def _width(view: ModelView, gamma: float, factor: float, rows: np.ndarray, own: np.ndarray) -> Width | None:
    kernel = view.model.expansion_.kernel.with_params(gamma=gamma)
    spans = _spans(view, kernel)
    found = [span.best(view.n_components) for span in spans]
    if found[0].coef.shape[1] < view.n_components or not spans[0].total_variance > 0:
        return None
    whole, *halves = (span.expansion(components) for span, components in zip(spans, found, strict=True))
    few = rows[:: max(1, len(rows) // PAGE.agreement_rows)]
    agreement = agree(*(half.transform(few) for half in halves))
    if factor == 1.0:
        scores = own
    else:  # with signs that agree with the model's own, so that the map does not flip from one width to the next
        scores = np.asarray(whole.transform(rows))
        scores = scores * np.where(np.sum(scores * own, axis=0) < 0, -1.0, 1.0)
    return Width(factor, gamma, found[0].variances / spans[0].total_variance, agreement, scores)


def _spans(view: ModelView, kernel: Kernel) -> list[PointSpan]:
    """The span of some points, once with the moments of the whole sample, and once with those of each half."""
    sample, center = view.sample, view.model.expansion_.mean_coef is not None
    own = view.points[: PAGE.width_points // 2]
    points = np.vstack([own, sample[:: max(1, -(-len(sample) // (PAGE.width_points - len(own))))]])
    whitening = whiten(gram_of(kernel, points))
    total = MomentSum(kernel, points, whitening.matrix)
    first, second = (total.over(sample[part::2], None, n_threads=1) for part in (0, 1))
    return [PointSpan(kernel, points, None, center, moments) for moments in (first + second, first, second)]


def agree(first: np.ndarray, second: np.ndarray) -> float:
    """Linear CKA of two sets of scores of the same rows."""
    first, second = first - first.mean(axis=0), second - second.mean(axis=0)
    across = float(np.sum((first.T @ second) ** 2))
    within = float(np.linalg.norm(first.T @ first) * np.linalg.norm(second.T @ second))
    return across / within if within > 0 else 0.0
