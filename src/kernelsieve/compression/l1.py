"""The l1 programme: a group lasso over the candidates, one group for the coefficients of each.

    min_B  |Y - F B|^2 / 2 + alpha sum_i |F_i| |b_i|_2

Its path runs from no point to many as alpha falls.  Only the choice of points is taken from it: the lasso shrinks
coefficients, and the refit that follows undoes that.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import MultiTaskLasso

from .error import LeastSquares

SHRINK = 0.8  # from one alpha of the path to the next
MAX_SWEEPS = 200  # of coordinate descent at each alpha: which points are chosen is settled long before the digits are
TOLERANCE = 1e-3
SMALLEST_ALPHA = 1e-7  # of the largest


def l1_path(problem: LeastSquares) -> Iterator[np.ndarray]:
    """Ever longer choices of candidates as alpha falls, each by the weight of its members."""
    lengths = np.linalg.norm(problem.columns, axis=0)
    columns = problem.columns / np.where(lengths > 0, lengths, 1.0)
    pull = np.linalg.norm(columns.T @ problem.target, axis=1)
    if not pull.any():  # components of zeros: any candidate expands them
        yield np.zeros(1, dtype=np.intp)
        return
    alpha = float(pull.max()) / len(columns)  # scikit-learn divides the squares by the number of rows
    smallest = SMALLEST_ALPHA * alpha
    lasso = MultiTaskLasso(fit_intercept=False, warm_start=True, tol=TOLERANCE, max_iter=MAX_SWEEPS)
    longest = 0
    while alpha > smallest:
        alpha *= SHRINK
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            lasso.set_params(alpha=alpha).fit(columns, problem.target)
        weight = np.linalg.norm(lasso.coef_, axis=0)
        order = np.argsort(-weight, kind="stable")[: np.count_nonzero(weight)]
        if len(order) > longest:
            longest = len(order)
            yield order
