"""Randomly pivoted Cholesky, in blocks: rows drawn with probability proportional to their residual R_ii.

Column by column, every draw waits for the residual after the last one.  In blocks (Epperly, Tropp & Webber 2024) many
rows are proposed at once from the current residual, and a proposal is accepted with probability

    R_ii after the proposals accepted before it / R_ii when it was proposed

which needs only the small gram of the proposals.  Accepted rows have the same distribution as rows drawn one by one,
and the columns of a block are eliminated together, by matrix products: n m kernel values, O(n m^2) time, O(n m)
memory.
"""

from __future__ import annotations

import numpy as np

from ..solvers.greedy import Gram, Residual, start
from .targeted import eliminate_together

PROPOSALS = 128  # in a block, however many rows are wanted, so that shorter choices are prefixes of longer ones


def randomly_pivoted_cholesky(
    gram: Gram, n_rows: int, rng: np.random.Generator, *, weights: np.ndarray | None = None, noise: float = 0.0
) -> Residual:
    """Up to `n_rows` rows drawn by their (weighted) residual; fewer if the others are explained to rounding."""
    state = start(gram.diagonal, n_rows, noise=noise)
    total = float(state.diagonal.sum())
    while len(state.chosen) < n_rows:
        eligible = np.flatnonzero(state.diagonal > state.floor)
        if not eligible.size:
            break
        proposed = _draw(state, eligible, rng, weights)
        accepted, factor = _accept(gram, state, proposed, rng, n_rows - len(state.chosen))
        if accepted.size:
            traces = eliminate_together(gram, state, accepted, factor)
            state.unexplained.extend(traces / total)
    return state


def _draw(state: Residual, eligible: np.ndarray, rng: np.random.Generator, weights: np.ndarray | None) -> np.ndarray:
    """Proposals, drawn independently of each other."""
    mass = state.diagonal[eligible]
    cumulative = np.cumsum(mass if weights is None else mass * weights[eligible])
    places = np.searchsorted(cumulative, rng.random(PROPOSALS) * cumulative[-1])
    return eligible[np.minimum(places, len(eligible) - 1)]


def _accept(
    gram: Gram, state: Residual, proposed: np.ndarray, rng: np.random.Generator, n_wanted: int
) -> tuple[np.ndarray, np.ndarray]:
    """The accepted proposals, at most `n_wanted`, and the Cholesky factor of their residual gram."""
    left = state.filled[proposed]
    residual = gram.among(proposed) - left @ left.T
    current = state.diagonal[proposed]
    before = current.copy()
    chances = rng.random(len(proposed))
    factor = np.zeros((len(proposed), min(n_wanted, len(proposed))))
    accepted: list[int] = []
    for i in range(len(proposed)):
        if len(accepted) == n_wanted:
            break
        if current[i] <= state.floor or chances[i] * before[i] >= current[i]:
            continue
        k = len(accepted)
        c = (residual[:, i] - factor[:, :k] @ factor[i, :k]) / np.sqrt(current[i])
        factor[:, k] = c
        current = current - c * c
        current[proposed == proposed[i]] = 0.0
        accepted.append(i)
    return proposed[accepted], np.tril(factor[accepted, : len(accepted)])
