"""Selection rules by name."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from .._array import as_float64
from ..sample import Sample
from .base import Selection, Selector, select_rows
from .greedy import best_for_targets, greedy, random_by_residual
from .kmeans import kmeans_centers

KMEANS_SELECTION_STEPS = 20


def uniform(sample: Sample, n_support: int, rng: np.random.Generator) -> Selection:
    """Rows at random: the Nystroem method's choice.  The sample is in random order already."""
    return select_rows(sample, np.arange(min(n_support, sample.size)), nested=True)


def targeted(sample: Sample, n_support: int, rng: np.random.Generator) -> Selection:
    """Rows that best explain the leading components: argmax |T_i|^2 / R_ii."""
    count = min(n_support, sample.size)
    chosen = greedy(
        sample.column,
        sample.diagonal,
        count,
        best_for_targets,
        targets=sample.all_targets,
        noise=sample.indefiniteness,
    )
    return select_rows(sample, _filled(chosen, count, sample, rng), nested=True, by_reference=True)


def rpcholesky(sample: Sample, n_support: int, rng: np.random.Generator) -> Selection:
    """Rows drawn with probability proportional to the residual kernel's diagonal (Chen et al. 2024)."""
    count = min(n_support, sample.size)
    rule = random_by_residual(rng, sample.rows.weights)
    chosen = greedy(sample.column, sample.diagonal, count, rule, noise=sample.indefiniteness)
    return select_rows(sample, _filled(chosen, count, sample, rng), nested=True, by_reference=True)


def _filled(chosen: np.ndarray, count: int, sample: Sample, rng: np.random.Generator) -> np.ndarray:
    """Random rows after those chosen, where an indefinite kernel's residuals ended before the points did."""
    if len(chosen) == count or not sample.indefiniteness:
        return chosen
    others = np.setdiff1d(np.arange(sample.size), chosen)
    return np.concatenate([chosen, rng.permutation(others)[: count - len(chosen)]])


def kmeans(sample: Sample, n_support: int, rng: np.random.Generator) -> Selection:
    """k-means centres: points that are no rows, where the rows are dense."""
    if sample.kernel.name == "precomputed":
        raise ValueError(
            "selection='kmeans' gives points that are no rows, for which a precomputed kernel has no values: give "
            "'targeted', 'rpcholesky' or 'uniform'"
        )
    values = sample.rows.values
    values = as_float64(values.toarray() if scipy.sparse.issparse(values) else values)
    count = min(n_support, sample.size)
    centers = kmeans_centers(values, count, KMEANS_SELECTION_STEPS, rng, sample.rows.weights)
    return Selection(sample.kernel, centers, None)


SELECTORS: dict[str, Selector] = {
    "targeted": targeted,
    "kmeans": kmeans,
    "rpcholesky": rpcholesky,
    "uniform": uniform,
}
