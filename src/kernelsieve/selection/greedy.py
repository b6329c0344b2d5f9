"""Greedy choice of rows: one loop on the residual kernel, a rule says which row is next.

Pivoted Cholesky keeps R = K - F F', the kernel of what the chosen rows do not explain.  Taking row j,

    c = (K_.j - F F_j')/sqrt(R_jj),    F <- [F, c],    diag R <- diag R - c^2

and, for targets t_k in feature space with values T = <phi(x), t_k>, T <- T - c T_j'/sqrt(R_jj).  Kernel
columns are all that is read; every smaller choice is a prefix of a larger one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# Rows whose residual is below this share of the largest diagonal are already explained.
EXPLAINED = 1e-11


@dataclass
class Residual:
    """What the rows chosen so far leave over."""

    factor: np.ndarray  # (n, capacity)
    diagonal: np.ndarray  # (n,) of R
    targets: np.ndarray | None  # (n, M), T
    chosen: list[int]


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
) -> np.ndarray:
    """Up to `n_rows` rows in order of choice; fewer when the rest is explained to rounding.

    `explained` (n, q) are whitened features of points that are already there; residuals below the share `noise` of the
    largest diagonal mean nothing (an indefinite kernel's), and dividing by them would choose noise.
    """
    diagonal = np.array(diagonal, dtype=np.float64)
    floor = max(EXPLAINED, noise) * diagonal.max(initial=0.0)
    if explained is not None:
        diagonal -= np.einsum("ij,ij->i", explained, explained)
    state = Residual(
        np.empty((len(diagonal), n_rows), order="F"),
        diagonal,
        None if targets is None else np.array(targets, dtype=np.float64),
        [],
    )
    for k in range(n_rows):
        eligible = np.flatnonzero(state.diagonal > floor)
        if not eligible.size:
            break
        j = rule(state, eligible)
        pivot = np.sqrt(state.diagonal[j])
        c = column(j) - state.factor[:, :k] @ state.factor[j, :k]
        if explained is not None:
            c -= explained @ explained[j]
        c /= pivot
        if state.targets is not None:
            state.targets -= c[:, None] * (state.targets[j] / pivot)
        state.diagonal -= c * c
        state.diagonal[j] = 0.0
        state.factor[:, k] = c
        state.chosen.append(int(j))
    return np.asarray(state.chosen, dtype=np.intp)


def best_for_targets(state: Residual, eligible: np.ndarray) -> int:
    """argmax |T_j|^2 / R_jj: the row whose direction explains most of the targets."""
    assert state.targets is not None
    explained = np.einsum("ij,ij->i", state.targets, state.targets)[eligible]
    return int(eligible[np.argmax(explained / state.diagonal[eligible])])


def random_by_residual(rng: np.random.Generator, weights: np.ndarray | None = None) -> Rule:
    """A random row, with probability proportional to its (weighted) residual R_jj."""

    def rule(state: Residual, eligible: np.ndarray) -> int:
        mass = state.diagonal[eligible]
        cumulative = np.cumsum(mass if weights is None else mass * weights[eligible])
        return int(eligible[np.searchsorted(cumulative, rng.random() * cumulative[-1])])

    return rule
