"""Orders of the candidates: by how much is lost without them, where every size is a prefix of the next, and by a lasso.

Backward elimination.  With H = (F'F)^-1 and B the refit on the points that are left, leaving out point i and
refitting the others raises the squared error by exactly

    sum_k b_ik^2 / H_ii          and          B <- B - H_.i b_i' / H_ii,     H <- H - H_.i H_i. / H_ii

Schoelkopf et al. (1999): with beta the unit eigenvector of the gram's smallest eigenvalue lambda (in magnitude, where
the kernel is indefinite), |sum_j beta_j phi(s_j)| = sqrt(lambda) is nearly nothing, so that any point can be written
through the others at an error of sqrt(lambda) |a_i / beta_i|; the point where that is smallest goes, and
A <- A - beta a_i' / beta_i.

The l1 programme: a group lasso over the candidates, one group for the coefficients of each.

    min_B  |Y - F B|^2 / 2 + alpha sum_i |F_i| |b_i|_2

Its path runs from no point to many as alpha falls.  Only the choice of points is taken from it: the lasso shrinks
coefficients, and the refit that follows undoes that.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import MultiTaskLasso

from .error import LeastSquares

SHRINK = 0.8  # from one alpha of the path to the next


def removal_order(problem: LeastSquares) -> np.ndarray:
    """Candidates by backward elimination, the last to go first.  O(r^3) for r of them."""
    columns = problem.columns
    active = np.arange(columns.shape[1])
    removed: list[int] = []
    while len(active) > 1:
        alive = _eliminate(columns[:, active], problem.target, removed, active)
        active = active[alive]
    return np.asarray([*active, *reversed(removed)], dtype=np.intp)


def least_lost_last(columns: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Candidates, those without which the target loses most first: every beginning of them is a reduced set."""
    return removal_order(LeastSquares(columns, target, 0.0, float(np.sum(target**2))))


def _eliminate(columns: np.ndarray, target: np.ndarray, removed: list[int], names: np.ndarray) -> np.ndarray:
    """Remove points until the inverse has to be made anew, or half of them are gone; which are left."""
    inverse, coef = _inverse_and_refit(columns, target)
    alive = np.ones(len(names), dtype=bool)
    floor = 1e-8 * np.diagonal(inverse)  # below it, subtraction has left less than half of the digits
    while True:
        diagonal = np.where(alive, np.diagonal(inverse), np.inf)
        increase = np.where(alive, np.einsum("ij,ij->i", coef, coef), np.inf) / np.where(alive, diagonal, 1.0)
        i = int(np.argmin(increase))
        column = inverse[:, i] / diagonal[i]
        coef -= column[:, None] * coef[i]
        inverse -= column[:, None] * inverse[i]
        coef[i] = inverse[i] = inverse[:, i] = 0.0
        alive[i] = False
        removed.append(int(names[i]))
        worn = np.any(np.diagonal(inverse)[alive] < floor[alive])
        if worn or 2 * np.count_nonzero(alive) <= max(len(names), 3):
            return alive


def _inverse_and_refit(columns: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(F'F)^-1 and the refit, through R of F = Q R: the condition number is not squared."""
    n_columns = columns.shape[1]
    # so that nothing is divided by the length of a point without effect (centring leaves one)
    ridge = 1e-11 * np.sqrt(np.mean(np.sum(columns**2, axis=0)))
    q, r = np.linalg.qr(np.vstack([columns, ridge * np.eye(n_columns)]))
    half = scipy.linalg.solve_triangular(r, np.eye(n_columns), check_finite=False)
    return half @ half.T, half @ (q[: len(columns)].T @ target)


def eigen_order(gram: np.ndarray, coef: np.ndarray, n_keep: int) -> np.ndarray:
    """Candidates by the smallest-eigenvector rule, removed down to `n_keep`.  O(r^3) for each point removed."""
    active = np.arange(len(gram))
    coef = np.array(coef, dtype=np.float64)
    removed: list[int] = []
    while len(active) > n_keep:
        values, vectors = np.linalg.eigh(gram[np.ix_(active, active)])
        beta = vectors[:, np.argmin(np.abs(values))]
        cost = np.linalg.norm(coef, axis=1) / np.maximum(np.abs(beta), np.finfo(np.float64).tiny)
        i = int(np.argmin(cost))
        coef -= (beta / beta[i])[:, None] * coef[i]
        removed.append(int(active[i]))
        active, coef = np.delete(active, i), np.delete(coef, i, axis=0)
    return np.asarray([*active, *reversed(removed)], dtype=np.intp)


def prefix_errors(problem: LeastSquares, order: np.ndarray) -> np.ndarray:
    """Relative error of the refit on the first 0, 1, ..., r candidates of an order: one QR gives them all."""
    q, _ = np.linalg.qr(problem.columns[:, order])
    inside = q.T @ problem.target
    unreachable = problem.outside + float(np.sum((problem.target - q @ inside) ** 2))
    # |inside_j|^2 is what candidate j adds: summed from the end, small errors keep their digits
    gains = np.zeros(len(order))
    gains[: len(inside)] = np.sum(inside**2, axis=1)
    left = np.concatenate([np.cumsum(gains[::-1])[::-1], [0.0]])
    return np.sqrt((left + unreachable) / problem.scale)


def l1_path(problem: LeastSquares) -> Iterator[np.ndarray]:
    """Ever longer choices of candidates as alpha falls, each by the weight of its members."""
    lengths = np.linalg.norm(problem.columns, axis=0)
    columns = problem.columns / np.where(lengths > 0, lengths, 1.0)
    pull = np.linalg.norm(columns.T @ problem.target, axis=1)
    if not pull.any():  # components of zeros: any candidate expands them
        yield np.zeros(1, dtype=np.intp)
        return
    alpha = float(pull.max()) / len(columns)  # scikit-learn divides the squares by the number of rows
    smallest = 1e-7 * alpha
    # a loose tolerance: which points are chosen is settled long before the digits of their coefficients are
    lasso = MultiTaskLasso(fit_intercept=False, warm_start=True, tol=1e-3, max_iter=200)
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
