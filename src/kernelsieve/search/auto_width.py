"""gamma="auto": the width of the kernel with which held-out rows are reconstructed best from their scores.

For several widths around the median distance, a small model is fitted to some rows, and held-out rows are reconstructed
from their scores:

    error(gamma) = mean over held-out rows of |x - preimage(scores(x))|^2

With a kernel that is too narrow, no row is similar to any other, so a new row cannot be reconstructed.  With a kernel
that is too wide, the model does no better than linear PCA.  The gamma with the smallest error is taken.  (M. A. Alam
and K. Fukumizu, "Hyperparameter selection in kernel principal component analysis", Journal of Computer Science 10
(2014) 1139-1150.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..fit.interpret import learned_preimage, preimage
from ..fit.problem import span_of
from ..fit.span import Points
from ..kernels import Kernel, kernel_of, named_kernel, names_of_kernels
from ..kernels.width import resolve_gamma
from ..rows.rows import ArrayRows
from ..rules.distances import kmeans_centers
from ..threads import one_blas_thread


@dataclass(frozen=True)
class WidthTrial:
    """The widths that are tried, and the rows and models that they are tried on."""

    factors: tuple[float, ...] = (1 / 16, 1 / 4, 1 / 2, 1, 2, 4, 16)  # multiples of the median rule's gamma
    max_rows: int = 2000  # most rows that the small models are fitted to; as many again are held out
    least_points: int = 30  # least number of support points of a small model, which are k-means centres
    points_a_component: int = 5  # support points for each component, if these are more than `least_points`
    kmeans_steps: int = 10  # steps of Lloyd's iteration
    n_components: int = 10  # number of components, if the estimator does not know its own yet
    nearly_as_good: float = 1.001  # the widest kernel within this factor of the smallest error is taken


TRIAL = WidthTrial()


@dataclass(frozen=True)
class TriedGamma:
    """A gamma that was tried, and its error: the share of the held-out rows' variance that reconstructions lose."""

    gamma: float
    error: float


def tried_widths(
    rows: np.ndarray, kernel: str, n_components: int | None, seed: int, weights: np.ndarray | None = None
) -> list[TriedGamma]:
    """Try several gammas, and return each with its error.

    Parameters
    ----------
    rows : dense rows, of which at most 2 `TRIAL.max_rows` are used
    kernel : name of a kernel that has a width
    n_components : number of components of the small models; None for `TRIAL.n_components`
    seed : seed of the random split into rows to fit to and held-out rows
    weights : weights of the rows, or None
    """
    with_width = names_of_kernels(lambda kind: kind.stationary)
    if kernel not in with_width:
        raise ValueError(f"gamma='auto' chooses the width of {', '.join(with_width)} kernels: give gamma='median'")
    rng = np.random.default_rng(seed)
    candidates = np.arange(len(rows)) if weights is None else np.flatnonzero(weights)
    order = rng.permutation(candidates)[: 2 * TRIAL.max_rows]
    half = max(2, len(order) // 2)
    if len(order) - half < 2:
        raise ValueError(f"{len(rows)} rows are too few to choose the width of the kernel: give gamma='median'")
    train, test = (np.asarray(rows[part], dtype=np.float64) for part in (order[:half], order[half:]))
    own, others = (None if weights is None else weights[part] for part in (order[:half], order[half:]))
    wanted = n_components or TRIAL.n_components
    n_points = min(max(TRIAL.least_points, TRIAL.points_a_component * wanted), len(np.unique(train, axis=0)))
    with one_blas_thread():
        centers = kmeans_centers(train, n_points, TRIAL.kmeans_steps, rng, own)
        median = resolve_gamma("median", kernel_of(kernel), train, own)
        total = _squares(test - np.average(train, axis=0, weights=own), others)
        tried = []
        for gamma in (factor * median for factor in TRIAL.factors):
            back = _there_and_back(named_kernel(kernel, gamma=gamma), centers, ArrayRows(train, own), test, wanted)
            tried.append(TriedGamma(gamma, _squares(test - back, others) / total if total > 0 else 0.0))
    return tried


def _there_and_back(
    kernel: Kernel, points: np.ndarray, train: ArrayRows, test: np.ndarray, n_components: int
) -> np.ndarray:
    """Reconstructions of held-out rows from their scores on the best components over these points."""
    span = span_of(train, Points(kernel, points, None), center=True)
    expansion = span.expansion(span.best(n_components))
    learned = learned_preimage(expansion, train.X, train.weights)
    return preimage(expansion, np.asarray(expansion.transform(test)), learned)


def _squares(differences: np.ndarray, weights: np.ndarray | None) -> float:
    squares = np.square(differences).sum(axis=1)
    return float(squares.sum() if weights is None else weights @ squares)


def best_width(widths: list[TriedGamma]) -> float:
    """The gamma of the widest kernel among those whose error is nearly the smallest."""
    smallest = min(width.error for width in widths)
    return min(width.gamma for width in widths if width.error <= TRIAL.nearly_as_good * smallest)
