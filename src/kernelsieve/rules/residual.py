"""Rules that read residuals: R_ii is the squared length of row i that the rows chosen so far leave unexplained.

Largest gain: choose the row that explains most of all rows.

Taking row i lowers  tr R = sum_n R_nn  by |R_.i|^2 / R_ii.  Sparse greedy matrix approximation (Smola & Schoelkopf
2000), matching pursuit for kernel PCA (Hussain & Shawe-Taylor 2008) and accelerated kernel feature analysis (Jiang et
al. 2006) all choose the row that lowers it most, so they are one rule.  Two others differ in the denominator: sparse
kernel feature analysis (Smola et al. 1999) has none, and improved KPCA (Xu et al. 2007) adds a ridge,
|R_.i|^2 / (R_ii + ridge), which is how much its criterion tr((K_SS + ridge I)^-1 K_SN K_NS) rises when i joins S.

The squared column norms are updated for R <- R - c c' without forming R,

    |R_.i|^2 <- |R_.i|^2 - 2 c_i (R c)_i + c_i^2 |c|^2,        R c = K c - F F'c

so that a candidate costs one product of length n, not a matrix.

Randomly pivoted Cholesky, in blocks: draw rows with probability proportional to their residual R_ii.

If rows are drawn one by one, every draw needs the residual after the last one.  In blocks (Epperly, Tropp & Webber
2024), many rows are proposed at once from the current residual, and a proposal is accepted with probability

    R_ii after the proposals accepted before it / R_ii when it was proposed

which needs only the small gram of the proposals.  Accepted rows have the same distribution as rows drawn one by one,
and the columns of a block are eliminated together, by matrix products: n m kernel values, O(n m^2) time, O(n m)
memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..solvers.greedy import Gram, Residual, start
from .targeted import eliminate_together

# Updated norms lose digits as they shrink.  If the largest falls below this share of the largest when they were last
# computed from scratch, all norms are computed from scratch again.
FRESH = 1e-4


@dataclass
class LargestGain:
    """Chooses the row i with the largest |R_.i|^2 / (R_ii + ridge), or |R_.i|^2 unless `divided`, among all rows."""

    cross_gram: np.ndarray  # (n, r) kernel values of all rows with the first r; norms are sums over these r
    weights: np.ndarray | None = None  # (r,) weights of the rows in the norms
    ridge: float = 0.0
    divided: bool = True
    _norms: np.ndarray = field(init=False)  # (n,) |R_.i|^2
    _scale: float = field(init=False)  # the largest of them when all were last computed from scratch
    _n_seen: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._norms = self._squared(self.cross_gram)
        self._scale = float(self._norms.max())

    def __call__(self, state: Residual, eligible: np.ndarray) -> int:
        while self._n_seen < len(state.chosen):
            self._follow(state.filled[:, : self._n_seen], state.filled[:, self._n_seen])
            self._n_seen += 1
        if self._norms[eligible].max() < FRESH * self._scale:
            n_counted = self.cross_gram.shape[1]
            self._norms = self._squared(self.cross_gram - state.filled @ state.filled[:n_counted].T)
            self._scale = float(self._norms[eligible].max())
        scores = self._norms[eligible]
        if self.divided:
            scores = scores / (state.diagonal[eligible] + self.ridge)
        return int(eligible[np.argmax(scores)])

    def _squared(self, residual: np.ndarray) -> np.ndarray:
        if self.weights is None:
            return np.einsum("ij,ij->i", residual, residual)
        return np.einsum("ij,ij,j->i", residual, residual, self.weights)

    def _follow(self, before: np.ndarray, c: np.ndarray) -> None:
        """Update the norms for R <- R - c c', where R = K - F F' and `before` is F."""
        n_counted = self.cross_gram.shape[1]
        weighted = c[:n_counted] if self.weights is None else self.weights * c[:n_counted]
        product = self.cross_gram @ weighted - before @ (before[:n_counted].T @ weighted)
        self._norms += c * (c * float(weighted @ c[:n_counted]) - 2.0 * product)


@dataclass
class SampledGain:
    """The score of `LargestGain`, maximised over `n_candidates` random rows only.

    A step costs `n_candidates` kernel columns, and no n x n matrix is needed.  The best of 59 random rows is among the
    best 5 % of all rows with probability 0.95, because 0.95^59 < 0.05.
    """

    gram: Gram
    n_candidates: int
    rng: np.random.Generator
    weights: np.ndarray | None = None  # (n,)
    ridge: float = 0.0
    divided: bool = True

    def __call__(self, state: Residual, eligible: np.ndarray) -> int:
        count = min(self.n_candidates, len(eligible))
        drawn = eligible[self.rng.choice(len(eligible), count, replace=False)]
        residual = self.gram.columns(drawn) - state.filled @ state.filled[drawn].T
        squares = residual * residual
        scores = squares.sum(axis=0) if self.weights is None else self.weights @ squares
        if self.divided:
            scores = scores / (state.diagonal[drawn] + self.ridge)
        return int(drawn[np.argmax(scores)])


# Proposals in a block.  Their number does not depend on how many rows are wanted, so shorter choices are prefixes of
# longer ones.
PROPOSALS = 128


def randomly_pivoted_cholesky(
    gram: Gram, n_rows: int, rng: np.random.Generator, *, weights: np.ndarray | None = None, noise: float = 0.0
) -> Residual:
    """Up to `n_rows` rows drawn by their (weighted) residuals; fewer once all other residuals are rounding."""
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
    """A block of proposals, drawn independently of each other with probabilities proportional to their residuals."""
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


def draw_without_replacement(scores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """All rows of positive score, drawn one after another in proportion to it (Efraimidis & Spirakis 2006)."""
    waiting = rng.exponential(size=len(scores))
    possible = np.flatnonzero(scores > 0)
    return possible[np.argsort(waiting[possible] / scores[possible], kind="stable")]
