"""The row that explains most of all rows: the exact decrease of the residual trace.

Taking row i lowers  tr R = sum_n R_nn  by |R_.i|^2 / R_ii.  The largest fall is the choice of sparse greedy matrix
approximation (Smola & Schoelkopf 2000), of matching pursuit for kernel PCA (Hussain & Shawe-Taylor 2008) and of
accelerated kernel feature analysis (Jiang et al. 2006), which are one rule.  Without the division it is sparse kernel
feature analysis (Smola et al. 1999); with a ridge, |R_.i|^2 / (R_ii + ridge), improved KPCA (Xu et al. 2007), whose
criterion tr((K_SS + ridge I)^-1 K_SN K_NS) rises by just that when i joins S.

The squared column norms follow R <- R - c c' without R being formed,

    |R_.i|^2 <- |R_.i|^2 - 2 c_i (R c)_i + c_i^2 |c|^2,        R c = K c - F F'c

so that a candidate costs one product of length n, not a matrix.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..solvers.greedy import Gram, Residual

# Updated norms lose digits as they shrink: below this share of their last full value they are recomputed.
FRESH = 1e-4


@dataclass
class LargestGain:
    """argmax_i of |R_.i|^2 / (R_ii + ridge), or of |R_.i|^2, over all rows."""

    cross_gram: np.ndarray  # (n, r): kernel values of all rows with the first r, over which the norms are taken
    weights: np.ndarray | None = None  # (r,) weights of the rows in the norms
    ridge: float = 0.0
    divided: bool = True
    _norms: np.ndarray = field(init=False)  # (n,) |R_.i|^2
    _scale: float = field(init=False)  # the largest norm when all were last recomputed
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
        """The norms after R <- R - c c', where R = K - F F' and `before` is F."""
        n_counted = self.cross_gram.shape[1]
        weighted = c[:n_counted] if self.weights is None else self.weights * c[:n_counted]
        product = self.cross_gram @ weighted - before @ (before[:n_counted].T @ weighted)
        self._norms += c * (c * float(weighted @ c[:n_counted]) - 2.0 * product)


@dataclass
class SampledGain:
    """argmax of the same score among `n_candidates` random rows: that many kernel columns a step, and no n x n matrix.

    The best of 59 random rows is among the best 5 % of all rows with probability 0.95, because 0.95^59 < 0.05.
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
