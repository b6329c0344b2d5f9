"""Greedy choice of rows: one loop on the residual kernel, in which a rule picks the next row.

Pivoted Cholesky keeps R = K - F F', the kernel of the parts that the chosen rows do not explain.  Taking row j,

    c = (K_.j - F F_j')/sqrt(R_jj + ridge),    F <- [F, c],    diag R <- diag R - c^2

and, for targets t_k in feature space with values T = <phi(x), t_k>, T <- T - c T_j'/sqrt(R_jj).  Only kernel columns
are read, one for each chosen row: O(n m^2) time and O(n m) memory for m of n rows.  Every smaller choice is a prefix
of a larger one.  Columns come from a `Gram`; kernel evaluations are the cost of a rule, n for a column, b^2 for the
gram of b rows.

Row i of F holds the coordinates of phi(x_i) in an orthonormal basis of the span of the chosen phi(x_j).  So the same
loop, always taking the row with the largest residual, factorises a kernel matrix without forming it: K = F F' + R
(`pivoted_cholesky`).

After a targeted choice rows may be swapped: of all pairs (a row to remove, a row to add), the one with the largest
gain. The chosen rows S span a space with orthonormal basis functions F (n, m), in which the targets have coordinates C
(m, M); the residual kernel has diagonal d, and T (n, M) is what is left of the targets.  The part of the space that
belongs to row i alone is the direction orthogonal to all other rows of S, with values g_i = F q_i on the rows,

    q_i = y_i / |y_i|,      y_i the columns of F_S^-1,      b_i = q_i' C

so without row i the targets lose |b_i|^2, and adding row j then gains

    |T_j + g_ij b_i|^2 / (d_j + g_ij^2)

A reflection that moves q_i to the last place turns "remove i" into "drop the last column"; being orthogonal, it loses
no digits, however often it is repeated.  The explained part of the targets increases with every swap, so they come to
an end.
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
        """Threads that blocks of rows may be spread over."""

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
    """A gram that has been computed."""

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

    factor: np.ndarray  # (n, capacity): F in its first columns
    diagonal: np.ndarray  # (n,) of R; 0 for chosen rows
    targets: np.ndarray | None  # (n, M), T
    target_coef: np.ndarray | None  # (capacity, M): targets = T + F target_coef
    floor: float  # rows with a smaller residual are explained
    chosen: list[int] = field(default_factory=list)
    unexplained: list[float] = field(default_factory=list)  # tr R / tr K after each choice

    @property
    def filled(self) -> np.ndarray:
        """F, (n, number of rows chosen)."""
        return self.factor[:, : len(self.chosen)]


Rule = Callable[[Residual, np.ndarray], int]  # (state, eligible rows) -> next row


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
    """Choose up to `n_rows` rows; fewer when the rest is explained to rounding.

    `explained` (n, q) are whitened features of points that are already there; residuals below the share `noise` of the
    largest diagonal mean nothing (an indefinite kernel's), and dividing by them would choose noise.
    """
    return choose(start(diagonal, n_rows, targets=targets, noise=noise), column, n_rows, rule, explained, ridge)


def greedy(*args: Any, **options: Any) -> np.ndarray:
    """The rows that `eliminate` chooses, in order of choice."""
    return np.asarray(eliminate(*args, **options).chosen, dtype=np.intp)


def pivoted_cholesky(column: Callable[[int], np.ndarray], diagonal: np.ndarray) -> Residual:
    """Factor of a positive semi-definite matrix that is known by its diagonal and, on demand, its columns.

    With q columns it reads n q kernel values and costs O(n q^2); nothing n x n is ever formed.

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
        raise ValueError("the kernel is zero or negative on every row's own diagonal: nothing to factorise")
    state = start(diagonal, min(len(diagonal), 128), noise=DEPENDENT)  # room for more is made when it is needed
    return choose(state, column, len(diagonal), worst_explained)


def choose(
    state: Residual,
    column: Callable[[int], np.ndarray],
    n_rows: int,
    rule: Rule,
    explained: np.ndarray | None = None,
    ridge: float = 0.0,
) -> Residual:
    """The loop: up to `n_rows` rows, each by the rule."""
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
    """Nothing chosen yet, and room for `n_rows`."""
    diagonal = np.array(diagonal, dtype=np.float64)
    return Residual(
        np.empty((len(diagonal), n_rows), order="F"),
        diagonal,
        None if targets is None else np.array(targets, dtype=np.float64),
        None if targets is None else np.zeros((n_rows, targets.shape[1])),
        max(RANK_TOLERANCE, noise) * float(diagonal.max(initial=0.0)),
    )


def append(state: Residual, j: int, c: np.ndarray, pivot: float) -> None:
    """Row j, whose normalised residual is c, is chosen."""
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
    return int(state.diagonal.argmax())  # some row is eligible, or the loop would have ended, and so this one is


def swap(state: Residual, column: Callable[[int], np.ndarray], n_swaps: int) -> int:
    """Make up to `n_swaps` swaps, in place, and return their number.  Each costs a kernel column and O(n m (m + M))."""
    for count in range(n_swaps if state.chosen else 0):
        place, j, direction = _best_pair(state)
        if direction is None:
            return count
        _remove(state, place, direction)
        pivot = float(np.sqrt(state.diagonal[j]))
        append(state, j, (column(j) - state.filled @ state.filled[j]) / pivot, pivot)
    return n_swaps if state.chosen else 0


def _best_pair(state: Residual) -> tuple[int, int, np.ndarray | None]:
    """The place of the row that leaves, the row that enters, and the direction of the first; None if no pair gains."""
    assert state.targets is not None
    assert state.target_coef is not None
    basis, coef, left = state.filled[state.chosen], state.target_coef[: len(state.chosen)], state.targets
    inverse, *_ = scipy.linalg.lstsq(basis, np.eye(len(basis)), check_finite=False)
    directions = inverse / np.linalg.norm(inverse, axis=0)
    lost = directions.T @ coef  # b, (m, M)
    loss = np.einsum("ij,ij->i", lost, lost)
    own = state.filled @ directions  # g, (n, m)
    brought = own * (2.0 * (left @ lost.T) + own * loss) + np.einsum("ij,ij->i", left, left)[:, None]
    diagonal = state.diagonal[:, None] + own * own
    gain = np.where(diagonal > state.floor, brought / np.maximum(diagonal, state.floor), 0.0) - loss
    gain[state.chosen] = -np.inf
    j, place = np.unravel_index(int(np.argmax(gain)), gain.shape)
    worthwhile = gain[j, place] > 1e-9 * float(np.sum(coef**2))  # relative to the variance explained
    return int(place), int(j), directions[:, place] if worthwhile else None


def _remove(state: Residual, place: int, direction: np.ndarray) -> None:
    """Remove the row at `place`, and its direction from the basis."""
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
