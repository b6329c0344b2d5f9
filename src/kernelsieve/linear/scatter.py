"""All that sparse PCA needs of the data: products with the scatter S = X'X of centred, weighted rows.

    gram form     p <= n, or a covariance is given: S itself, p x p
    row form      p > n: the rows, and S v = X'(X v); nothing of size p x p is ever made.  Also if p is not much less
                  than n and only products are needed (l2 = inf), because S would cost more than they do

Rows of weight w enter as sqrt(w) (x - mean).  Sparse rows stay sparse: the mean is subtracted from products, not from
the rows.  In both forms S = R'R for some rows R, `n_rows` of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg

from ..arrays import Array, arpack_restarts, cholesky, solve_factored, to_numpy, top_eigh
from ..threads import cached_property, row_ranges

# Up to this size a dense eigensolver is as fast as Lanczos steps.
DENSE_LIMIT = 300


@dataclass(frozen=True)
class GramScatter:
    """S as a matrix.  `RowScatter` has the same methods, which are all that the solvers need of S = R'R."""

    gram: np.ndarray  # (p, p)

    @property
    def n_features(self) -> int:
        return len(self.gram)

    @property
    def n_rows(self) -> int:
        """Number of rows of R: larger blocks of S are singular."""
        return len(self.gram)

    @property
    def trace(self) -> float:
        """Sum of all variances."""
        return float(np.trace(self.gram))

    def multiply(self, loadings: np.ndarray) -> np.ndarray:
        """The product loadings @ S, for loadings (k, p)."""
        used = used_columns(loadings)
        if used is None:
            return loadings @ self.gram
        return loadings[:, used] @ self.gram[used]

    def multiply_at(self, axes: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """axes S[:, columns], for (k, p) axes."""
        return axes @ self.gram[columns].T

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """S[rows, columns]."""
        return self.gram[rows[:, None], columns]

    def regress(self, axis: np.ndarray, columns: np.ndarray, l2: float, target: np.ndarray) -> np.ndarray:
        """The shortest b on these columns that minimises |R axis - R b|^2 + l2 |b|^2; target = S[columns] axis."""
        return solve_ridge(self.block(columns, columns), l2, target)

    def leading(self, n_components: int) -> tuple[np.ndarray, np.ndarray]:
        """The largest eigenvalues of S, descending, and their eigenvectors as (n_components, p) rows."""
        values, vectors = leading_eigenpairs(self.gram, n_components)
        return values, np.ascontiguousarray(vectors.T)


@dataclass(frozen=True)
class RowScatter:
    """S through its rows, R = rows - root_weight mean' (dense rows are centred already: mean is None)."""

    rows: Array  # (n, p), dense or sparse by columns
    root_weight: np.ndarray  # (n,)
    mean: np.ndarray | None

    @property
    def n_features(self) -> int:
        return int(self.rows.shape[1])

    @property
    def n_rows(self) -> int:
        return int(self.rows.shape[0])

    @cached_property
    def row_gram(self) -> np.ndarray:
        """R R', (n, n)."""
        if self.mean is None:
            return self.rows @ self.rows.T
        gram = (self.rows @ self.rows.T).toarray()
        cross = np.outer(self.rows @ self.mean, self.root_weight)
        return gram - cross - cross.T + (self.mean @ self.mean) * np.outer(self.root_weight, self.root_weight)

    @cached_property
    def trace(self) -> float:
        return float(np.vdot(self.rows, self.rows) if self.mean is None else np.trace(self.row_gram))

    def multiply(self, loadings: np.ndarray) -> np.ndarray:
        used = used_columns(loadings)
        return self._back(self._all_scores(loadings) if used is None else loadings[:, used] @ self.columns(used).T)

    def multiply_at(self, axes: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return self._all_scores(axes) @ self.columns(columns)

    def _all_scores(self, axes: np.ndarray) -> np.ndarray:
        """axes R', for (k, p) axes."""
        scores = axes @ self.rows.T
        return scores if self.mean is None else scores - (axes @ self.mean)[:, None] * self.root_weight

    def _back(self, scores: np.ndarray) -> np.ndarray:
        """scores R, for (k, n) scores of centred rows.

        Such scores are orthogonal to `root_weight`, so subtracting the mean from the rows would change nothing.
        """
        return scores @ self.rows

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        left = self.columns(rows)
        return left.T @ (left if columns is rows else self.columns(columns))

    def columns(self, columns: np.ndarray) -> np.ndarray:
        """R[:, columns], dense."""
        if self.mean is None:
            return self.rows[:, columns]
        return self.rows[:, columns].toarray() - np.outer(self.root_weight, self.mean[columns])

    @property
    def dense_rows(self) -> np.ndarray:
        """R, dense."""
        return self.rows if self.mean is None else self.columns(np.arange(self.n_features))

    def regress(self, axis: np.ndarray, columns: np.ndarray, l2: float, target: np.ndarray) -> np.ndarray:
        if columns.size <= self.n_rows:
            return solve_ridge(self.block(columns, columns), l2, target)
        # There are fewer equations than unknowns.  Of all solutions, the shortest is a combination of the rows.
        chosen = self.columns(columns)
        system = chosen @ chosen.T + l2 * np.eye(len(chosen))
        return chosen.T @ (scipy.linalg.pinvh(system) @ self._all_scores(axis[None])[0])

    def leading(self, n_components: int) -> tuple[np.ndarray, np.ndarray]:
        n_rows = self.n_rows
        # if the rows stay in the cache, the few dozen products of a Lanczos iteration cost less than the gram
        if self.mean is None and n_rows > DENSE_LIMIT and self.rows.size <= 2**21:
            gram = scipy.sparse.linalg.LinearOperator((n_rows, n_rows), lambda v: self.rows @ (v @ self.rows))
        else:
            gram = self.row_gram
        values, vectors = leading_eigenpairs(gram, n_components)
        lengths = np.sqrt(np.maximum(values, np.finfo(np.float64).tiny))
        return values, self._back(vectors.T / lengths[:, None])


Scatter: TypeAlias = GramScatter | RowScatter


def deflated(scatter: Scatter, direction: np.ndarray, how: str) -> Scatter:
    """What a deflation by a component of unit direction v leaves of S; for v = 0 it leaves all of S.

    projection    (I - v v') S (I - v v')
    schur         S - S v v'S / (v'S v)         what linear regression on the scores X v leaves
    hotelling     S - v v' (v'S v)              negative along some directions, unless v is an eigenvector
    """
    if isinstance(scatter, RowScatter) and how != "hotelling":
        rows = scatter.dense_rows
        scores = rows @ direction
        if how == "projection":
            return RowScatter(rows - np.outer(scores, direction), scatter.root_weight, None)
        square = float(scores @ scores) or 1.0
        return RowScatter(rows - np.outer(scores, scores @ rows) / square, scatter.root_weight, None)
    gram = scatter.gram if isinstance(scatter, GramScatter) else scatter.dense_rows.T @ scatter.dense_rows
    image = gram @ direction
    variance = float(direction @ image)
    outer = np.outer(direction, direction)
    if how == "hotelling":
        return GramScatter(gram - variance * outer)
    if how == "schur":
        return GramScatter(gram - np.outer(image, image) / (variance or 1.0))
    cross = np.outer(image, direction)
    return GramScatter(gram - cross - cross.T + variance * outer)


def solve_ridge(block: np.ndarray, l2: float, right: np.ndarray) -> np.ndarray:
    """(block + l2 I)^-1 right; the shortest solution if the matrix is singular."""
    system = block + l2 * np.eye(len(block))
    factor = cholesky(system)
    if factor is None:
        return np.linalg.lstsq(system, right, rcond=None)[0]
    return solve_factored(factor, right)


def used_columns(loadings: np.ndarray) -> np.ndarray | None:
    """Columns with a nonzero loading if working on these alone saves time; None if they are too many."""
    if np.count_nonzero(loadings) >= 0.25 * loadings.shape[1]:
        return None
    return np.flatnonzero(loadings.any(axis=0))


def leading_eigenpairs(matrix: Any, n_top: int) -> tuple[np.ndarray, np.ndarray]:
    """The `n_top` largest eigenvalues of a symmetric matrix, descending, and unit eigenvectors as columns."""
    size = matrix.shape[0]
    if size <= DENSE_LIMIT or n_top > 0.1 * size:
        return top_eigh(_dense(matrix), n_top)
    start = np.random.default_rng(0).standard_normal(size)
    try:
        values, vectors = scipy.sparse.linalg.eigsh(matrix, n_top, v0=start, maxiter=arpack_restarts(size, n_top))
    except scipy.sparse.linalg.ArpackNoConvergence:
        return top_eigh(_dense(matrix), n_top)
    order = np.argsort(-values)
    return values[order], vectors[:, order]


def _dense(matrix: Any) -> np.ndarray:
    return matrix if isinstance(matrix, np.ndarray) else matrix @ np.eye(matrix.shape[0])


def row_mean(X: Array, weights: np.ndarray | None) -> np.ndarray:
    """The (weighted) mean of the rows, in float64."""
    if weights is None:
        return np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
    return np.asarray(weights @ X).ravel() / weights.sum()


def cancels(X: Array, mean: np.ndarray) -> bool:
    """Whether rounding would hide the variance of sparse rows if the square of their mean were subtracted last.

    Such rows have few zeros, so that they can be made dense.
    """
    if not scipy.sparse.issparse(X):
        return False
    squares = np.asarray(X.multiply(X).mean(axis=0)).ravel()
    return bool(np.any(squares - mean**2 < 1e-8 * squares))  # half of the digits are lost


def scatter_of(X: Array, weights: np.ndarray | None, mean: np.ndarray, *, products_only: bool = False) -> Scatter:
    """The scatter of the rows of X about `mean`, in the form that suits their shape.

    `products_only` says that no blocks of S will be needed, as for l2 = inf.
    """
    n_samples, n_features = X.shape
    if cancels(X, mean):
        X = X.toarray()
    # With many columns, the products of an alternation with the rows cost less than computing S.
    many_columns = n_features >= 500 and n_samples <= 2 * n_features
    in_rows = n_features > n_samples or (products_only and many_columns and not scipy.sparse.issparse(X))
    if not in_rows:
        return GramScatter(_gram(X, weights, mean))
    root_weight = np.ones(n_samples) if weights is None else np.sqrt(weights)
    if scipy.sparse.issparse(X):
        rows = X.astype(np.float64).multiply(root_weight[:, None]).tocsc()
        return RowScatter(rows, root_weight, mean)
    return RowScatter(_weighted_rows(X, mean, None if weights is None else root_weight), root_weight, None)


def _weighted_rows(X: Array, mean: np.ndarray, root_weight: np.ndarray | None) -> np.ndarray:
    rows = np.subtract(X, mean, dtype=np.float64)
    if root_weight is not None:
        rows *= root_weight[:, None]
    return rows


def _gram(X: Array, weights: np.ndarray | None, mean: np.ndarray) -> np.ndarray:
    if scipy.sparse.issparse(X):
        rows = X.astype(np.float64)
        weighted = rows if weights is None else rows.multiply(weights[:, None]).tocsr()
        total = X.shape[0] if weights is None else weights.sum()
        return to_numpy((rows.T @ weighted).toarray()) - total * np.outer(mean, mean)
    gram: np.ndarray | None = None
    for part in row_ranges(X.shape[0], 2048):  # in parts, so that the copy stays small compared with the rows
        rows = _weighted_rows(X[part], mean, None if weights is None else np.sqrt(weights[part]))
        gram = rows.T @ rows if gram is None else gram + rows.T @ rows
    assert gram is not None
    return gram
