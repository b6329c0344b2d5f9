"""Elastic-net sparse kernel PCA by ADMM: Algorithm 1 of Wang & Tanaka (2016), as printed.

    J = 1/2 |K^1/2 p - K^1/2 q|^2 + (l2/2)|q|^2 + alpha |a|_1,      q = K^1/2 a,      p orthonormal

For each component, from p = its kernel PCA eigenvector, until |q_new - q_old|^2 < outer_tol or a cap is reached:

    q <- (K + l2 I + rho K^-1)^-1 [K p + rho K^-1/2 (a - t/rho)]
    a <- S_{alpha/rho}(K^-1/2 q + t/rho)                              S the soft threshold
    t <- t + rho (K^-1/2 q - a)
       until |K^-1/2 q - a|            <= sqrt(N) eps_abs + eps_rel max(|K^-1/2 q|, |a|)
         and |rho K^-1/2 (a - a_old)|  <= sqrt(N) eps_abs + eps_rel |K^-1/2 t|,   or a cap is reached
    q <- q/|q|,    p <- (I - P P') K q,    p <- p/|p|                 P the earlier components' p

Readings.  The roots are symmetric, by an eigendecomposition.  q, a, t start afresh in every outer pass (line 4), a and
t from zero; q_old of the first pass is p.  The a that comes out belongs to q before its normalisation: the component
of unit length is a / sqrt(a'K a).

    jitter            A singular K gets a little on its diagonal.  With center=True the expansion stays one of uncentred
                      features and only the covariance is centred: K p and K q become K^1/2 H K^1/2 p and
                      K^1/2 H K^1/2 q, H = I - 11'/N.
    pseudo-inverse    The paper's text: K^+ for K^-1, and with center=True the centred gram H K H for K.  a is then the
                      coefficient vector of *centred* features, so that the component, sum_i a_i (phi(x_i) - mean), has
                      coefficients H a over the rows: all N rows return in the mean.  K^-1/2 q lies in the range of K,
                      and fewer of its entries are small.

What is wrong in the paper: the equality in its (10) drops tr K - tr P'K P (see `alternation`); "t = argmin L" must be
a step of ascent, as Algorithm 1 has it; and the K^-1/2 in the dual rule makes it nearly unreachable for a kernel whose
spectrum decays, so that the cap ends the iterations.  With rho fixed and a cap of 300, first components come out as
zero for a few thousand rows.  None of this is corrected here; `lasso` solves the same problem exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..arrays import top_eigh


@dataclass(frozen=True)
class Rules:
    """Stopping rules of the loops: the keywords of `admm` besides the problem."""

    eps_abs: float = 1e-4  # of the two residual rules
    eps_rel: float = 1e-4
    max_iter: int = 300  # cap of ADMM
    outer_max_iter: int = 300  # of the whole loop: 300, 60 or 30 in the paper
    outer_tol: float = 1e-2  # the paper's epsilon


@dataclass(frozen=True)
class AdmmResult:
    """The result of Algorithm 1, and how it ended."""

    coef: np.ndarray  # (N, n_components): a, not normalised
    n_inner: list[list[int]]  # ADMM iterations of each outer pass, for each component
    inner_capped: np.ndarray  # (n_components,): whether the last outer pass ended at the ADMM cap
    outer_capped: np.ndarray  # (n_components,): whether the outer loop ended at its cap
    primal_residual: np.ndarray  # (n_components,): |K^-1/2 q - a| at the end
    dual_residual: np.ndarray  # (n_components,): |rho K^-1/2 (a - a_old)| at the end
    objective: np.ndarray  # (n_components,): J at the last p before its update, q = K^1/2 a

    @property
    def converged(self) -> bool:
        return not (self.inner_capped.any() or self.outer_capped.any())


def admm(
    gram: np.ndarray,
    alphas: Sequence[float] | np.ndarray,
    l2: float,
    *,
    penalty: float,
    center: bool = False,
    jitter: float = 1e-10,
    pseudo_inverse: bool = False,
    **rules: Any,
) -> AdmmResult:
    """Algorithm 1 of Wang & Tanaka (2016): O(N^3) once, O(N^2) an iteration, O(N^2) memory.

    Parameters
    ----------
    gram : ndarray of shape (N, N)
    alphas : sequence of n_components floats
        lambda_1 of each component, absolute.
    l2 : float
        lambda.
    penalty : float
        rho.
    center : bool
        See the module's text.
    jitter : float, default=1e-10
        Added to the diagonal, relative to its mean: enough for K^-1/2 to exist, too little to be seen in K.
    pseudo_inverse : bool
        In place of the jitter; see the module's text.
    **rules
        `eps_abs`, `eps_rel`, `max_iter`, `outer_max_iter`, `outer_tol`: the fields of `Rules`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics.pairwise import rbf_kernel
    >>> gram = rbf_kernel(np.random.default_rng(0).standard_normal((40, 2)), gamma=2.0)
    >>> found = admm(gram, [0.1], l2=0.1, penalty=0.1)
    >>> bool(0 < np.count_nonzero(found.coef) < 40)
    True
    """
    if pseudo_inverse and center:
        means = gram.mean(axis=0)
        gram, center = gram - means - means[:, None] + means.mean(), False
    matrices, limits = _Matrices(gram, l2, penalty, center, None if pseudo_inverse else jitter), Rules(**rules)
    starts = top_eigh(matrices.scatter, len(alphas))[1]
    earlier = np.zeros((len(gram), 0))
    runs = []
    for alpha, start in zip(alphas, starts.T, strict=True):
        run = _Component(matrices, float(alpha), start, earlier)
        run.loop(limits)
        earlier = np.column_stack([earlier, run.p])
        runs.append(run)
    return AdmmResult(
        np.stack([run.a for run in runs], axis=1),
        [run.n_inner for run in runs],
        np.array([run.inner_capped for run in runs]),
        np.array([run.outer_capped for run in runs]),
        np.array([run.primal for run in runs]),
        np.array([run.dual for run in runs]),
        np.array([run.objective for run in runs]),
    )


class _Matrices:
    """K's roots, the covariance in their coordinates (K itself, or K^1/2 H K^1/2), and the q-update's factor.

    A jitter of None selects the pseudo-inverse, with the tolerance of numpy and MATLAB.  Outside the range of K the
    right side of the q-update is zero, so its matrix may have any positive number there.
    """

    def __init__(self, gram: np.ndarray, l2: float, penalty: float, center: bool, jitter: float | None) -> None:
        n = len(gram)
        values, vectors = np.linalg.eigh(gram)
        if jitter is None:
            kept = values > n * np.finfo(np.float64).eps * values[-1]
            values, divisors = np.where(kept, values, 0.0), np.where(kept, values, np.inf)
        else:
            values = divisors = np.maximum(values, 0.0) + jitter * float(np.mean(np.diagonal(gram)))
        self.l2, self.penalty = l2, penalty
        self.root = (vectors * np.sqrt(values)) @ vectors.T
        self.inverse_root = (vectors / np.sqrt(divisors)) @ vectors.T
        self.scatter = (vectors * values) @ vectors.T
        if center:
            self.scatter -= np.outer(self.root.mean(axis=0), self.root.sum(axis=0))
        inverse = (vectors * np.where(np.isfinite(divisors), 1.0 / divisors, 1.0)) @ vectors.T
        self._q_update = cho_factor(self.scatter + l2 * np.eye(n) + penalty * inverse, check_finite=False)

    def solve(self, right: np.ndarray) -> np.ndarray:
        return cho_solve(self._q_update, right, check_finite=False)

    def objective(self, p: np.ndarray, a: np.ndarray, alpha: float) -> float:
        q = self.root @ a
        return float((p - q) @ self.scatter @ (p - q) + self.l2 * (q @ q)) / 2 + alpha * float(np.abs(a).sum())


class _Component:
    """The loops of one component."""

    def __init__(self, matrices: _Matrices, alpha: float, start: np.ndarray, earlier: np.ndarray) -> None:
        self.matrices, self.alpha, self.earlier = matrices, alpha, earlier
        self.p = self.q = start
        self.a = np.zeros_like(start)
        self.n_inner: list[int] = []
        self.inner_capped = self.outer_capped = True
        self.primal = self.dual = np.inf
        self.objective = np.inf

    def loop(self, rules: Rules) -> None:
        """Lines 3 to 13."""
        for _ in range(rules.outer_max_iter):
            q_old = self.q
            q = self._admm(rules)
            self.objective = self.matrices.objective(self.p, self.a, self.alpha)
            length = np.linalg.norm(q)
            if not length > 0:
                return
            self.q = q / length
            p = self.matrices.scatter @ self.q
            p -= self.earlier @ (self.earlier.T @ p)
            self.p = p / np.linalg.norm(p)
            if np.sum((self.q - q_old) ** 2) < rules.outer_tol:
                self.outer_capped = False
                return

    def _admm(self, rules: Rules) -> np.ndarray:
        """Lines 4 to 9; q, not normalised."""
        matrices, rho, inverse_root = self.matrices, self.matrices.penalty, self.matrices.inverse_root
        a, t = np.zeros_like(self.p), np.zeros_like(self.p)
        pull = matrices.scatter @ self.p
        absolute, eps_rel = np.sqrt(len(a)) * rules.eps_abs, rules.eps_rel
        self.inner_capped = True
        self.n_inner.append(0)
        for _ in range(rules.max_iter):
            self.n_inner[-1] += 1
            q = matrices.solve(pull + rho * (inverse_root @ (a - t / rho)))
            image, a_old = inverse_root @ q, a
            shifted = image + t / rho
            a = np.sign(shifted) * np.maximum(np.abs(shifted) - self.alpha / rho, 0.0)
            t = t + rho * (image - a)
            self.primal = float(np.linalg.norm(image - a))
            self.dual = float(rho * np.linalg.norm(inverse_root @ (a - a_old)))
            if self.primal <= absolute + eps_rel * max(
                np.linalg.norm(image), np.linalg.norm(a)
            ) and self.dual <= absolute + eps_rel * np.linalg.norm(inverse_root @ t):
                self.inner_capped = False
                break
        self.a = a
        return q
