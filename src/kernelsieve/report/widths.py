"""Narrower and wider kernels: what else the map could have looked like.

For each width the best components in the span of some rows are computed from the moments of a sample over them.  The
moments of the sample's two halves are computed separately and added: the components of the halves show how far the
map depends on the rows that happened to be drawn,

    agreement = |Z_1' Z_2|^2 / (|Z_1' Z_1| |Z_2' Z_2|)         linear CKA of the two halves' scores of the same rows

which is 1 if one is a rotation of the other.  The share of variance explained is no reason to choose a width,
because it grows with the width.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..fit.moments import MomentSum, gram_of
from ..fit.span import PointSpan
from ..kernels import Kernel
from ..spectrum.whitening import whiten
from ..threads import one_blas_thread
from .limits import PAGE
from .model_view import ModelView


@dataclass(frozen=True)
class Width:
    """The components at one width of the kernel."""

    factor: float  # of the model's own width
    gamma: float
    shares: np.ndarray  # (M,) of the variance in each component, on the sample
    agreement: float  # between two halves of the sample, on the scores of the same rows, 0 to 1
    scores: np.ndarray  # (n_shown, M)

    @property
    def explained(self) -> float:
        """Share of the variance in all components."""
        return float(self.shares.sum())


def widths(view: ModelView, shown: np.ndarray) -> list[Width]:
    """Components at narrower and wider kernels, in order; empty if the kernel has no width or rows are too few."""
    kernel = view.model.expansion_.kernel
    gamma = view.kernel_settings.get("gamma")
    if gamma is None or len(view.sample) < max(8, 2 * (view.n_components + 1)):
        return []
    power = 1.0 if kernel.metric == "manhattan" else 2.0
    # the page keeps only two bytes of each score
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
    scores = own if factor == 1.0 else turned_to(np.asarray(whole.transform(rows)), own)
    return Width(factor, gamma, found[0].variances / spans[0].total_variance, agreement, scores)


def _spans(view: ModelView, kernel: Kernel) -> list[PointSpan]:
    """The span of some points with the moments of the whole sample, and of each half."""
    sample, center = view.sample, view.model.expansion_.mean_coef is not None
    own = view.points[: PAGE.width_points // 2]
    points = np.vstack([own, sample[:: max(1, -(-len(sample) // (PAGE.width_points - len(own))))]])
    whitening = whiten(gram_of(kernel, points))
    total = MomentSum(kernel, points, whitening.matrix)
    first, second = (total.over(sample[part::2], None, n_threads=1) for part in (0, 1))
    return [PointSpan(kernel, points, None, center, moments) for moments in (first + second, first, second)]


def turned_to(scores: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Scores with the signs of the others, so that the map does not flip between widths."""
    return scores * np.where(np.sum(scores * others, axis=0) < 0, -1.0, 1.0)


def agree(first: np.ndarray, second: np.ndarray) -> float:
    """Linear CKA of two sets of scores of the same rows."""
    first, second = first - first.mean(axis=0), second - second.mean(axis=0)
    across = float(np.sum((first.T @ second) ** 2))
    within = float(np.linalg.norm(first.T @ first) * np.linalg.norm(second.T @ second))
    return across / within if within > 0 else 0.0
