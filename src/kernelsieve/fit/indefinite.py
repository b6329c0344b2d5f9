"""Where to cut the spectrum of K_SS under an indefinite kernel (spectrum/whitening.py has the mathematics).

Whitening divides by eigenvalues of K_SS, and under an indefinite kernel some are close to zero by chance.  So
eigenvalues below a cut are dropped.  Of a few cuts, the one is chosen whose variances mu_k differ least from the
variances lambda_k by exact kernel PCA of the sampled rows:

    agreement = 1 - sum_k |mu_k - lambda_k| / sum_k lambda_k
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array, as_float64, to_numpy
from ..kernels import Kernel
from ..spectrum.top import Operator, top
from ..spectrum.whitening import RANK_TOLERANCE, negative_share, signs_of
from .moments import points_like
from .rowset import INDEFINITE, RowSet
from .span import Points

# Candidate cuts, as shares of the largest |eigenvalue| of K_SS.
CUTS = (RANK_TOLERANCE, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3)


def best_cut(rows: RowSet, chosen: Points) -> tuple[float, np.ndarray]:
    """The cut that agrees best with exact kernel PCA of these rows, and the variances of the components under it.

    A cut may leave fewer directions than components are wanted, so only the cuts that leave the most components are
    compared.
    """
    found = variances_at(CUTS, rows, chosen)
    best = max(range(len(CUTS)), key=lambda i: (np.count_nonzero(found[i]), agreement(found[i], rows)))
    return CUTS[best], found[best]


def variances_at(cuts: tuple[float, ...], rows: RowSet, chosen: Points) -> list[np.ndarray]:
    """Variances of these rows along the best components on the points, for each cut."""
    gram, given, omega = to_numpy(chosen.gram), as_float64(rows.given), rows.unit_weights
    cross_gram = to_numpy(chosen.kernel(given, points_like(chosen.points, given)))
    if rows.center:
        cross_gram = cross_gram - omega @ cross_gram
    second = cross_gram.T @ (omega[:, None] * cross_gram)
    found = []
    for cut in cuts:
        whitening = to_numpy(chosen.spectrum.whitening(cut, keep_negative=True).matrix)
        covariance = Operator.of(whitening.T @ second @ whitening)
        found.append(top(covariance, rows.n_components, signature=signs_of(whitening, gram))[0])
    return found


def positive_variance(rows: RowSet) -> float:
    """The sum of all positive eigenvalues of exact kernel PCA of these rows."""
    gram, omega = to_numpy(as_float64(rows.gram)), rows.unit_weights
    if rows.center:
        means = omega @ gram
        gram = gram - means - means[:, None] + float(omega @ means)
    root = np.sqrt(omega)
    return float(np.maximum(np.linalg.eigvalsh(root[:, None] * gram * root), 0.0).sum())


def agreement(variances: np.ndarray, rows: RowSet) -> float:
    """1 - sum_k |mu_k - lambda_k| / sum_k lambda_k, with mu the given variances, lambda those of exact kernel PCA."""
    exact = rows.exact.variances
    rows.check_apart(float(exact.sum()))
    found = np.zeros(len(exact))  # components that a model does not have capture nothing
    found[: len(variances)] = variances[: len(exact)]
    return 1.0 - float(np.abs(found - exact).sum()) / float(exact.sum())


def is_indefinite(kernel: Kernel, gram: Array) -> bool:
    """Whether this gram has significant negative eigenvalues, for a kernel that is not known to be definite."""
    return not kernel.definite and negative_share(gram) > INDEFINITE
