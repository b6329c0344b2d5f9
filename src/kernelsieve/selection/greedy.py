"""Greedy choice of rows: one loop on the residual kernel, a rule says which row is next.

Pivoted Cholesky keeps R = K - F F', the kernel of what the chosen rows do not explain.  Taking row j,

    c = (K_.j - F F_j')/sqrt(R_jj + ridge),    F <- [F, c],    diag R <- diag R - c^2

and, for targets t_k in feature space with values T = <phi(x), t_k>, T <- T - c T_j'/sqrt(R_jj).  Kernel
columns are all that is read, one for each row chosen: O(n m^2) time and O(n m) memory for m of n rows.  Every
smaller choice is a prefix of a larger one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

# Rows whose residual is below this share of the largest diagonal are already explained.
EXPLAINED = 1e-11


@dataclass
class Residual:
    """What the rows chosen so far leave over."""

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


def greedy(
    column: Callable[[int], np.ndarray],
    diagonal: np.ndarray,
    n_rows: int,
    rule: Rule,
    *,
    targets: np.ndarray | None = None,
    explained: np.ndarray | None = None,
    noise: float = 0.0,
    ridge: float = 0.0,
) -> np.ndarray:
    """Up to `n_rows` rows in order of choice; fewer when the rest is explained to rounding.

    `explained` (n, q) are whitened features of points that are already there; residuals below the share `noise` of the
    largest diagonal mean nothing (an indefinite kernel's), and dividing by them would choose noise.
    """
    state = eliminate(column, diagonal, n_rows, rule, targets=targets, explained=explained, noise=noise, ridge=ridge)
    return np.asarray(state.chosen, dtype=np.intp)


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
    """`greedy`, with all that it leaves behind."""
    state = start(diagonal, n_rows, targets=targets, noise=noise)
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
        max(EXPLAINED, noise) * float(diagonal.max(initial=0.0)),
    )


def append(state: Residual, j: int, c: np.ndarray, pivot: float) -> None:
    """Row j, whose normalised residual is c, is chosen."""
    k = len(state.chosen)
    if state.targets is not None and state.target_coef is not None:
        state.target_coef[k] = state.targets[j] / pivot
        state.targets -= c[:, None] * state.target_coef[k]
    state.diagonal -= c * c
    state.diagonal[j] = 0.0
    state.factor[:, k] = c
    state.chosen.append(j)


def best_for_targets(state: Residual, eligible: np.ndarray) -> int:
    """argmax |T_j|^2 / R_jj: the row whose direction explains most of the targets."""
    assert state.targets is not None
    explained = np.einsum("ij,ij->i", state.targets, state.targets)[eligible]
    return int(eligible[np.argmax(explained / state.diagonal[eligible])])


def worst_explained(state: Residual, eligible: np.ndarray) -> int:
    """argmax R_jj: the row with the largest residual."""
    return int(eligible[np.argmax(state.diagonal[eligible])])


def random_by_residual(rng: np.random.Generator, weights: np.ndarray | None = None) -> Rule:
    """A random row, with probability proportional to its (weighted) residual R_jj."""

    def rule(state: Residual, eligible: np.ndarray) -> int:
        mass = state.diagonal[eligible]
        cumulative = np.cumsum(mass if weights is None else mass * weights[eligible])
        return int(eligible[np.searchsorted(cumulative, rng.random() * cumulative[-1])])

    return rule
