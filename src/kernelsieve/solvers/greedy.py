"""Greedy choice of rows: one loop on the residual kernel, in which a rule picks the next row.

The loop is a pivoted Cholesky factorisation.  It maintains R = K - F F', the kernel of those parts of the features that
the chosen rows do not explain.  Choosing row j updates

    c = (K_.j - F F_j')/sqrt(R_jj + ridge),    F <- [F, c],    diag R <- diag R - c^2

and, for targets t_k in feature space with values T = <phi(x), t_k>, T <- T - c T_j'/sqrt(R_jj + ridge).  Only kernel
columns are read, one for each chosen row: O(n m^2) time and O(n m) memory for m of n rows.  Every smaller choice is a
prefix of a larger one.  Columns come from a `Gram`.  The cost of a rule is its number of kernel values: n for a column,
b^2 for the gram of b rows.

Row i of F holds the coordinates of phi(x_i) in an orthonormal basis of the span of the chosen phi(x_j).  So a loop that
always takes the row with the largest residual factorises a kernel matrix without forming it: K = F F' + R
(`pivoted_cholesky`).

After a targeted choice, rows may be swapped.  A swap removes one row and adds another; of all such pairs, the one with
the largest gain is taken.  The chosen rows S span a space with orthonormal basis functions F (n, m), in which the
targets have coordinates C (m, M).  The residual kernel has the diagonal d, and T (n, M) is the unexplained part of the
targets.  The part of the space that only row i contributes is the direction orthogonal to all other rows of S, which
has the values g_i = F q_i on the rows,

    q_i = y_i / |y_i|,      y_i the columns of F_S^-1,      b_i = q_i' C

So removing row i loses |b_i|^2 of the targets, and adding row j then gains

    |T_j + g_ij b_i|^2 / (d_j + g_ij^2)

A reflection that moves q_i to the last column of F turns "remove i" into "drop the last column".  It is orthogonal, so
it loses no digits, however often it is repeated.  Every swap increases the explained part of the targets, so there are
only finitely many swaps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import scipy.linalg

from ..numerics import DEPENDENT
from ..spectrum.whitening import RANK_TOLERANCE
from ..threads import cached_property


class Gram(Protocol):
    """The parts of a gram that a rule may read."""

    @property
    def n_threads(self) -> int:
        """Number of threads that blocks of rows may be divided among."""

    @property
    def diagonal(self) -> np.ndarray:
        """k(x, x), (n,)."""

    def column(self, j: int) -> np.ndarray:
        """k(x, x_j), (n,)."""

    def columns(self, chosen: np.ndarray) -> np.ndarray:
        """k(x, x_j) for the chosen j, (n, b)."""

    def bind(self, chosen: np.ndarray) -> Callable[[slice], np.ndarray]:
        """The map from a block of rows to its part of `columns(chosen)`."""

    def among(self, chosen: np.ndarray) -> np.ndarray:
        """k(x_i, x_j) for the chosen i and j, (b, b)."""


@dataclass(frozen=True)
class StoredGram:
    """A gram that has been computed and is kept in memory."""

    matrix: np.ndarray  # (n, n)
    n_threads: int = 1

    @cached_property
    def diagonal(self) -> np.ndarray:
        return np.diagonal(self.matrix).astype(np.float64)

    def column(self, j: int) -> np.ndarray:
        return self.matrix[:, j]

    def columns(self, chosen: np.ndarray) -> np.ndarray:
        return self.matrix[:, chosen]

    def bind(self, chosen: np.ndarray) -> Callable[[slice], np.ndarray]:
        return lambda block: self.matrix[block, chosen]

    def among(self, chosen: np.ndarray) -> np.ndarray:
        return self.matrix[np.ix_(chosen, chosen)]


@dataclass
class Residual:
    """The residual kernel and targets after the rows chosen so far."""

    factor: np.ndarray  # (n, capacity): F is in its first columns
    diagonal: np.ndarray  # (n,) the diagonal of R; 0 for chosen rows
    targets: np.ndarray | None  # (n, M) T, the unexplained part of the targets
    target_coef: np.ndarray | None  # (capacity, M) C, with which the whole targets are T + F C
    floor: float  # a row whose residual is not above this counts as explained
    chosen: list[int] = field(default_factory=list)
    unexplained: list[float] = field(default_factory=list)  # tr R / tr K after each choice

    @property
    def filled(self) -> np.ndarray:
        """F, (n, number of rows chosen)."""
        return self.factor[:, : len(self.chosen)]


Rule = Callable[[Residual, np.ndarray], int]  # a function (state, eligible rows) -> next row


def eliminate(
    column: Callable[[int], np.ndarray],
    diagonal: np.ndarray,
    n_rows: int,
    rule: Rule,
    *,
    targets: np.ndarray | None = None,
    explained: np.ndarray | None = None,
    noise: float = 0.0,
    ridge: float = 0.0,
) -> Residual:
    """Choose up to `n_rows` rows; fewer once all other rows are explained up to rounding.

    `explained` (n, q) are the rows' whitened features over points that have been chosen already.  Residuals below
    `noise` times the largest diagonal value are errors, for example of an indefinite kernel; a rule that divides by
    them would choose rows by chance.
    """
    return choose(start(diagonal, n_rows, targets=targets, noise=noise), column, n_rows, rule, explained, ridge)


def greedy(*args: Any, **options: Any) -> np.ndarray:
    """The rows that `eliminate` chooses, in order of choice."""
    return np.asarray(eliminate(*args, **options).chosen, dtype=np.intp)


def pivoted_cholesky(column: Callable[[int], np.ndarray], diagonal: np.ndarray) -> Residual:
    """Factorise a positive semi-definite matrix, given its diagonal and a function that computes its columns.

    A factor of q columns takes n q kernel values and O(n q^2) time.  No n x n matrix is formed.

    Parameters
    ----------
    column : callable
        column(j) is the j-th column of K, of shape (n,).
    diagonal : ndarray of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).standard_normal((50, 3))
    >>> gram = rows @ rows.T
    >>> found = pivoted_cholesky(lambda j: gram[:, j], np.diagonal(gram))
    >>> found.filled.shape
    (50, 3)
    >>> bool(np.allclose(found.filled @ found.filled.T, gram))
    True
    """
    if not np.max(diagonal, initial=0.0) > 0:
        raise ValueError("k(x, x) is zero or negative for every row: there is nothing to factorise")
    state = start(diagonal, min(len(diagonal), 128), noise=DEPENDENT)  # `append` makes room for more columns
    return choose(state, column, len(diagonal), worst_explained)


def choose(
    state: Residual,
    column: Callable[[int], np.ndarray],
    n_rows: int,
    rule: Rule,
    explained: np.ndarray | None = None,
    ridge: float = 0.0,
) -> Residual:
    """Run the loop: the rule chooses up to `n_rows` rows, one after the other."""
    total = float(state.diagonal.sum())
    if explained is not None:
        state.diagonal -= np.einsum("ij,ij->i", explained, explained)
    for _ in range(n_rows):
        eligible = np.flatnonzero(state.diagonal > state.floor)
        if not eligible.size:
            break
        j = rule(state, eligible)
        pivot = np.sqrt(state.diagonal[j] + ridge)
        c = column(j) - state.filled @ state.factor[j, : len(state.chosen)]
        if explained is not None:
            c -= explained @ explained[j]
        c /= pivot
        append(state, int(j), c, pivot)
        state.unexplained.append(max(float(state.diagonal.sum()), 0.0) / total)
    return state


def start(diagonal: np.ndarray, n_rows: int, *, targets: np.ndarray | None = None, noise: float = 0.0) -> Residual:
    """The state before any row is chosen, with room for `n_rows`."""
    diagonal = np.array(diagonal, dtype=np.float64)
    return Residual(
        np.empty((len(diagonal), n_rows), order="F"),
        diagonal,
        None if targets is None else np.array(targets, dtype=np.float64),
        None if targets is None else np.zeros((n_rows, targets.shape[1])),
        max(RANK_TOLERANCE, noise) * float(diagonal.max(initial=0.0)),
    )


def append(state: Residual, j: int, c: np.ndarray, pivot: float) -> None:
    """Choose row j, and update the state; c is the normalised column j of the residual kernel."""
    k = len(state.chosen)
    if state.targets is not None and state.target_coef is not None:
        state.target_coef[k] = state.targets[j] / pivot
        state.targets -= c[:, None] * state.target_coef[k]
    state.diagonal -= c * c
    state.diagonal[j] = 0.0
    if k == state.factor.shape[1]:
        wider = np.empty((len(c), 2 * k), order="F")
        wider[:, :k] = state.factor
        state.factor = wider
    state.factor[:, k] = c
    state.chosen.append(j)


def best_for_targets(state: Residual, eligible: np.ndarray) -> int:
    """argmax |T_j|^2 / R_jj: the row whose direction explains most of the targets."""
    assert state.targets is not None
    explained = np.einsum("ij,ij->i", state.targets, state.targets)[eligible]
    return int(eligible[np.argmax(explained / state.diagonal[eligible])])


def worst_explained(state: Residual, eligible: np.ndarray) -> int:
    """argmax R_jj: the row with the largest residual."""
    return int(state.diagonal.argmax())  # the loop has made sure that some row is eligible, so this one is


def swap(state: Residual, column: Callable[[int], np.ndarray], n_swaps: int) -> int:
    """Make up to `n_swaps` swaps in place; return how many.  Each takes a kernel column and O(n m (m + M)) time."""
    for count in range(n_swaps if state.chosen else 0):
        place, j, direction = _best_pair(state)
        if direction is None:
            return count
        _remove(state, place, direction)
        pivot = float(np.sqrt(state.diagonal[j]))
        append(state, j, (column(j) - state.filled @ state.filled[j]) / pivot, pivot)
    return n_swaps if state.chosen else 0


def _best_pair(state: Residual) -> tuple[int, int, np.ndarray | None]:
    """The best swap: the place of the row to remove, the row to add, and q_i of the removed row.

    q_i is None if no swap gains.
    """
    assert state.targets is not None
    assert state.target_coef is not None
    basis, coef, left = state.filled[state.chosen], state.target_coef[: len(state.chosen)], state.targets
    inverse, *_ = scipy.linalg.lstsq(basis, np.eye(len(basis)), check_finite=False)
    directions = inverse / np.linalg.norm(inverse, axis=0)
    lost = directions.T @ coef  # (m, M), b in the module's text
    loss = np.einsum("ij,ij->i", lost, lost)
    own = state.filled @ directions  # (n, m), g in the module's text
    brought = own * (2.0 * (left @ lost.T) + own * loss) + np.einsum("ij,ij->i", left, left)[:, None]
    diagonal = state.diagonal[:, None] + own * own
    gain = np.where(diagonal > state.floor, brought / np.maximum(diagonal, state.floor), 0.0) - loss
    gain[state.chosen] = -np.inf
    j, place = np.unravel_index(int(np.argmax(gain)), gain.shape)
    worthwhile = gain[j, place] > 1e-9 * float(np.sum(coef**2))  # a share of the variance explained
    return int(place), int(j), directions[:, place] if worthwhile else None


def _remove(state: Residual, place: int, direction: np.ndarray) -> None:
    """Remove the row at `place`, and its direction q_i from the basis."""
    assert state.targets is not None
    assert state.target_coef is not None
    last = len(state.chosen) - 1
    mirror = direction.copy()
    mirror[last] += np.copysign(1.0, direction[last])
    mirror /= np.linalg.norm(mirror)
    factor, coef = state.filled, state.target_coef[: last + 1]
    factor -= np.outer(factor @ mirror, 2.0 * mirror)
    coef -= np.outer(2.0 * mirror, mirror @ coef)
    dropped = factor[:, last]
    state.targets += dropped[:, None] * coef[last]
    state.diagonal += dropped * dropped
    state.chosen.pop(place)
    state.diagonal[state.chosen] = 0.0
