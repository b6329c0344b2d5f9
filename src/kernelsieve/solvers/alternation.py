"""Elastic-net sparse kernel PCA by exact alternation (Wang & Tanaka 2016), in coordinates.

G (n x q) are the candidates' coordinates, K = G G', and M is the training rows' scatter (see `quadratic`).  Component k
is found by alternating two steps,

    a-step:  a = argmin J(u, a),   J = 1/2 (u - G'a)'M(u - G'a) + (l2/2)|G'a|^2 + alpha sum_i w_i |a_i|
    b-step:  u ~ M G'a - sum_{j<k} u_j (u_j'M G'a),   |u| = 1

which start from u = the k-th eigenvector of M, kernel PCA's component.  With u = G'b, these are the steps of the paper
for p = K^1/2 b, without a root or an inverse: M G'a = G'(K a), u_j'M G'a = b_j'K K a.

J is the printed criterion.  The b-step maximises u'M G'a, that is, it minimises the left side of the paper's (10),

    J + (tr M - u'M u)/2

(the printed equality omits the last term).  So this `criterion` decreases from pass to pass, while J itself need not.

`alternate` computes one component after the other.  If all components are updated together, a U-step for
U = [u_1 ... u_M] replaces the b-steps,

    M G'A = Y D V'   ->   U = Y V'

The polar factor Y V' is the orthonormal U with the largest tr U'(M G'A), and so the one that minimises the left side
of (10) for all components together, as in Zou, Hastie & Tibshirani's sparse PCA.

`admm` is Algorithm 1 of Wang & Tanaka (2016), as printed.

    J = 1/2 |K^1/2 p - K^1/2 q|^2 + (l2/2)|q|^2 + alpha |a|_1,      q = K^1/2 a,      p orthonormal

For each component, starting from p = its eigenvector in kernel PCA, repeat until |q_new - q_old|^2 < outer_tol or a cap
is reached:

    q <- (K + l2 I + rho K^-1)^-1 [K p + rho K^-1/2 (a - t/rho)]
    a <- S_{alpha/rho}(K^-1/2 q + t/rho)                              S the soft threshold
    t <- t + rho (K^-1/2 q - a)
       until |K^-1/2 q - a|            <= sqrt(N) eps_abs + eps_rel max(|K^-1/2 q|, |a|)
         and |rho K^-1/2 (a - a_old)|  <= sqrt(N) eps_abs + eps_rel |K^-1/2 t|,   or a cap is reached
    q <- q/|q|,    p <- (I - P P') K q,    p <- p/|p|                 P the earlier components' p

Where the paper leaves room, it is read as follows.  The roots of K are symmetric, by an eigendecomposition.  q, a and t
start afresh in every outer pass (line 4), a and t from zero; q_old of the first pass is p.  The resulting a belongs to
q before its normalisation, so the component of unit length is a / sqrt(a'K a).  A singular K has no inverse; there are
two remedies:

    jitter            A small multiple of I is added to K.  With center=True, features in the expansion stay uncentred
                      and only the covariance is centred: K p and K q become K^1/2 H K^1/2 p and K^1/2 H K^1/2 q,
                      H = I - 11'/N.
    pseudo-inverse    The paper's text: K^+ for K^-1, and with center=True the centred gram H K H for K.  Then a is the
                      coefficient vector of *centred* features.  The component, sum_i a_i (phi(x_i) - mean), has the
                      coefficients H a over the rows, which are not sparse: the mean involves all N rows.  K^-1/2 q
                      lies in the range of K, and fewer of its entries are small.

Errors in the paper: the equality in its (10) drops tr K - tr P'K P (see above).  "t = argmin L" must be a step of
ascent, as in Algorithm 1.  And because of the K^-1/2 in the dual rule, the rule is hardly ever met for a kernel whose
spectrum decays, so the cap ends the iterations.  With rho fixed and a cap of 300, first components are zero for a few
thousand rows.  None of this is corrected here; `lasso` solves the same problem exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..arrays import top_eigh
from ..spectrum.whitening import RANK_TOLERANCE
from .lasso import TOLERANCE, LassoResult
from .path import solve
from .quadratic import elastic_net_quadratic

Move: TypeAlias = Callable[[np.ndarray, np.ndarray], np.ndarray]  # a function (M G'A, old directions) -> new directions


@dataclass(frozen=True)
class ImitationProblem:
    """The problem of imitating kernel PCA's components by sparse ones, and when to stop."""

    coordinates: np.ndarray  # (n, q), G: coordinates of the candidates
    moment: np.ndarray  # (q, q), M: scatter of the training rows
    l2: float
    weights: np.ndarray | None = None  # (n,) penalty weights; infinity bars a candidate
    max_iter: int = 1  # most passes; with 1 there is a single a-step, from kernel PCA's components
    tol: float = TOLERANCE  # duality gap of every a-step, relative to its objective
    passes_tol: float = 1e-6  # relative decrease of the criterion at which a component's passes end


@dataclass(frozen=True)
class Alternation:
    """Sparse coefficients of all components, after the last a-step.

    The component v_k = sum_i coef_ik phi(x_i) is not of unit length, because the lasso shrinks it.  Divide by
    |G'coef_k| to normalise it.
    """

    coef: np.ndarray  # (n, n_components), exactly zero off the supports
    directions: np.ndarray  # (q, n_components): u after the last b-step
    objective: np.ndarray  # (n_passes,): J after the a-step, summed over components
    criterion: np.ndarray  # (n_passes,): J + (tr M - u'M u)/2, summed over components; never rises
    gap: np.ndarray  # duality gaps of the last a-steps, relative to J: (n_components,), or (1,) for one support
    n_iter: int  # the largest number of passes of any component
    exact: bool  # every a-step reached its duality gap
    passes_converged: bool  # the criterion has converged; True if there was only one pass

    @property
    def converged(self) -> bool:
        return self.exact and self.passes_converged


def kernel_pca_directions(moment: np.ndarray, n_components: int) -> np.ndarray:
    """The top eigenvectors of M, (q, n_components), which are the coordinates of kernel PCA's components."""
    return top_eigh(moment, n_components)[1]


def alternate(problem: ImitationProblem, directions: np.ndarray, alphas: Sequence[float] | np.ndarray) -> Alternation:
    """Compute one component after the other, each by up to `max_iter` passes of a-step and b-step.

    Parameters
    ----------
    problem : ImitationProblem
    directions : ndarray of shape (q, n_components)
        The first u of each component: `kernel_pca_directions(moment, n_components)`.
    alphas : sequence of n_components floats
        The penalties alpha, not relative to the data: from `largest_alpha` of the quadratic at a direction on, the
        component is zero.

    Examples
    --------
    >>> import numpy as np
    >>> G = np.random.default_rng(0).standard_normal((60, 5))
    >>> M = G.T @ G
    >>> found = alternate(ImitationProblem(G, M, l2=0.1, max_iter=20), kernel_pca_directions(M, 2), [5.0, 5.0])
    >>> found.coef.shape, found.converged, bool(np.all(np.diff(found.criterion) <= 0))
    ((60, 2), True, True)
    """
    directions, parts = np.array(directions, dtype=np.float64), []
    for k, alpha in enumerate(alphas):
        parts.append(_passes(problem, directions, [k], [alpha], partial(_b_step, k=k)))
        directions = parts[-1].directions
    return Alternation(
        np.concatenate([part.coef for part in parts], axis=1),
        directions,
        _summed([part.objective for part in parts]),
        _summed([part.criterion for part in parts]),
        np.concatenate([part.gap for part in parts]),
        max(part.n_iter for part in parts),
        all(part.exact for part in parts),
        all(part.passes_converged for part in parts),
    )


def alternate_jointly(problem: ImitationProblem, directions: np.ndarray, alpha: float) -> Alternation:
    """Compute all components at once, on one common support: the penalty is alpha sum_i w_i |A_i.|."""
    return _passes(problem, np.asarray(directions, dtype=np.float64), [slice(None)], [alpha], _polar)


def alternate_simultaneously(
    problem: ImitationProblem, directions: np.ndarray, alphas: Sequence[float] | np.ndarray
) -> Alternation:
    """Compute all components at once, each with its own alpha and support.

    This minimises the paper's criterion J[P, Q] for all components together.  The paper's Algorithm 1 does not, because
    it never changes a component in favour of a later one.
    """
    return _passes(problem, np.asarray(directions, dtype=np.float64), range(len(alphas)), alphas, _polar)


def _passes(
    problem: ImitationProblem,
    directions: np.ndarray,
    blocks: Sequence[int | slice],
    alphas: Sequence[float] | np.ndarray,
    move: Move,
) -> Alternation:
    """Alternate a-steps and `move`, which updates the directions; components in the same block share one support."""
    trace = float(np.trace(problem.moment))
    objective: list[float] = []
    criterion: list[float] = []
    results: list[LassoResult] = []
    exact = passes_converged = True
    while len(criterion) < problem.max_iter:
        at = [elastic_net_quadratic(problem.coordinates, problem.moment, directions[:, b], problem.l2) for b in blocks]
        starts: list[np.ndarray | None] = [result.coef for result in results] or [None] * len(at)
        results = [
            solve(quadratic, float(alpha), weights=problem.weights, start=start, tol=problem.tol)
            for quadratic, alpha, start in zip(at, alphas, starts, strict=True)
        ]
        objective.append(sum(result.objective for result in results))
        criterion.append(objective[-1] + (trace - sum(quadratic.target_square for quadratic in at)) / 2)
        exact = exact and all(result.converged for result in results)
        coef = np.column_stack([result.coef for result in results])
        rows = np.flatnonzero(coef.any(axis=1))
        directions = move(problem.moment @ (problem.coordinates[rows].T @ coef[rows]), directions)
        if len(criterion) > 1:
            passes_converged = criterion[-2] - criterion[-1] <= problem.passes_tol * criterion[-2]
            if passes_converged:
                break
    gap = np.array([result.gap / result.objective for result in results])
    passes = np.array(objective), np.array(criterion)
    return Alternation(coef, directions, *passes, gap, len(objective), exact, passes_converged)


def _b_step(image: np.ndarray, directions: np.ndarray, k: int) -> np.ndarray:
    """The directions after the b-step: the k-th is M G'a, made orthogonal to the earlier ones and of unit length.

    If that is zero, the k-th direction does not change.
    """
    earlier, moved = directions[:, :k], directions.copy()
    rest = image[:, 0] - earlier @ (earlier.T @ image[:, 0])
    rest -= earlier @ (earlier.T @ rest)
    length = np.linalg.norm(rest)
    if length > 0:
        moved[:, k] = rest / length
    return moved


def _summed(histories: list[np.ndarray]) -> np.ndarray:
    """Sum over components, pass by pass; a component that has converged contributes its last value."""
    n_passes = max(map(len, histories))
    return np.sum([np.pad(history, (0, n_passes - len(history)), mode="edge") for history in histories], axis=0)


def _polar(images: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """The orthonormal U with the largest tr U'(M G'A).

    If components are zero or repeat each other, the images are rank deficient and do not determine all of U.  The
    undetermined part is taken from the old directions, made orthogonal to the rest.
    """
    left, values, right = np.linalg.svd(images, full_matrices=False)
    real = values > RANK_TOLERANCE * values[0]
    if real.all():
        return left @ right
    fixed, free = left[:, real], right[~real]  # free: combinations of components whose image is zero
    open_ = directions @ free.T
    open_ -= fixed @ (fixed.T @ open_)
    filled, _, turned = np.linalg.svd(open_, full_matrices=False)
    return fixed @ right[real] + filled @ turned @ free


@dataclass(frozen=True)
class Rules:
    """Stopping rules of the loops, which are keywords of `admm`."""

    eps_abs: float = 1e-4  # absolute tolerance in the rules for both residuals
    eps_rel: float = 1e-4  # relative tolerance in the same rules
    max_iter: int = 300  # cap on the ADMM iterations in an outer pass
    outer_max_iter: int = 300  # cap on the outer passes: 300, 60 or 30 in the paper
    outer_tol: float = 1e-2  # the paper's epsilon


@dataclass(frozen=True)
class AdmmResult:
    """The result of Algorithm 1, and how its loops ended."""

    coef: np.ndarray  # (N, n_components): a, not normalised
    n_inner: list[list[int]]  # number of ADMM iterations, for each component and each outer pass
    inner_capped: np.ndarray  # (n_components,): whether ADMM ended at its cap in the last outer pass
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
    """Algorithm 1 of Wang & Tanaka (2016), which takes O(N^3) once, O(N^2) an iteration, and O(N^2) memory.

    Parameters
    ----------
    gram : ndarray of shape (N, N)
        The kernel matrix K.
    alphas : sequence of n_components floats
        The paper's lambda_1 for each component.
    l2 : float
        The paper's lambda.
    penalty : float
        The paper's rho.
    center : bool
        Whether to centre the covariance; see the module's text.
    jitter : float, default=1e-10
        Added to the diagonal of K, relative to its mean: enough for K^-1/2 to exist, too little to change K noticeably.
    pseudo_inverse : bool
        Use the pseudo-inverse of K instead of the jitter; see the module's text.
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
    """The matrices of Algorithm 1: K^1/2, K^-1/2, the scatter (K, or K^1/2 H K^1/2), and the q-update's factor.

    A jitter of None selects the pseudo-inverse, with the tolerance of numpy and MATLAB.  Outside the range of K the
    right side of the q-update is zero, so its matrix may have any positive eigenvalues there.
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
    """The loops of Algorithm 1 for one component."""

    def __init__(self, matrices: _Matrices, alpha: float, start: np.ndarray, earlier: np.ndarray) -> None:
        self.matrices, self.alpha, self.earlier = matrices, alpha, earlier
        self.p = self.q = start
        self.a = np.zeros_like(start)
        self.n_inner: list[int] = []
        self.inner_capped = self.outer_capped = True
        self.primal = self.dual = np.inf
        self.objective = np.inf

    def loop(self, rules: Rules) -> None:
        """Run lines 3 to 13 of Algorithm 1."""
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
        """Run lines 4 to 9 of Algorithm 1; return q, not normalised."""
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
