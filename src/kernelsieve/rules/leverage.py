"""Ridge leverage scores: how much of a row no combination of other rows can replace.

    l_i = w_i [K (W K + ridge I)^-1]_ii = (w_i / ridge) (k_ii - k_iR (K_RR + ridge share W_R^-1)^-1 k_Ri)

exactly if R is all rows; if R is a random part of them, a `share`, up to a constant factor (Musco & Musco 2017). The
ridge is the one that they use for M components: the variance that kernel PCA leaves unexplained, divided by M.  Rows
are drawn without replacement with probabilities proportional to their scores.
"""

from __future__ import annotations

import numpy as np

from ..arrays import add_to_diagonal, as_float64, cholesky, solve_lower, to_numpy
from ..fit.sample import Sample
from ..numerics import DEPENDENT
from .base import gram_of_sample


def ridge_leverage(sample: Sample) -> np.ndarray:
    """The leverage of every sampled row, O(n r^2) for r evaluation rows."""
    n_counted, weights = sample.n_evaluation, sample.rows.weights
    mass = np.ones(sample.size) if weights is None else weights * (sample.size / weights.sum())
    diagonal = sample.diagonal
    gram = as_float64(to_numpy(sample.evaluation.gram))
    counted_mass = mass[:n_counted]
    if sample.drawn is not None:
        counted_mass = sample.drawn.weights * (n_counted / sample.drawn.weights.sum())
    left = max(float(mass @ diagonal) / sample.size - _explained(sample, gram, counted_mass), 0.0)
    ridge = sample.size * max(left / sample.n_components, DEPENDENT * float(np.abs(diagonal).mean()))
    counted = gram + np.diag(ridge * n_counted / sample.size / counted_mass)
    factor = cholesky(counted)
    if factor is None:  # indefinite kernel: the ridge must exceed the size of its most negative eigenvalue
        lowest = float(np.linalg.eigvalsh(counted)[0])
        factor = cholesky(add_to_diagonal(counted, ridge - 2.0 * lowest))
    cross_gram = gram if n_counted == sample.size else gram_of_sample(sample).columns(np.arange(n_counted))
    whitened = solve_lower(factor, cross_gram.T)
    return mass * np.maximum(diagonal - np.einsum("ij,ij->j", whitened, whitened), 0.0) / ridge


def _explained(sample: Sample, gram: np.ndarray, mass: np.ndarray) -> float:
    """Mean square explained by the leading components, and by the mean if it is subtracted."""
    omega = mass / mass.sum()
    return sample.evaluation.exact.captured + (float(omega @ gram @ omega) if sample.center else 0.0)


def draw_without_replacement(scores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """All rows of positive score, drawn one after another in proportion to it (Efraimidis & Spirakis 2006)."""
    waiting = rng.exponential(size=len(scores))
    possible = np.flatnonzero(scores > 0)
    return possible[np.argsort(waiting[possible] / scores[possible], kind="stable")]
