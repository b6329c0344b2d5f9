"""Six ways to solve one problem of the paper.

Algorithm 1               as printed, with the paper's rho, tolerances and caps; a singular K gets a jitter
with pseudo-inverse       the same with K^+ for K^-1, which the paper asks for where K is singular
minimiser                 of the printed criterion at p = kernel PCA's components, to a duality gap of 1e-6
minimiser, alternating    p and a in turn until the criterion rests, one component after the other
simultaneous              the same for J[P, Q], all components together
centred, pseudo-inverse   Algorithm 1 on the centred gram, whose inverse is a pseudo-inverse
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kernelsieve import ElasticNetKernelPCA, KernelWarning
from kernelsieve.solvers.alternation import admm
from kernelsieve.threads import one_blas_thread

from .problems import Loops, Problem, Solution, solution

EPS_REL, ADMM_CAP = 1e-4, 300  # the same in all of the paper's experiments
MAX_PASSES = 50  # of p and a in turn: more than any of the problems needs one component after the other
EXACT, ALGORITHM, PSEUDO, MINIMISER = "kernel PCA", "Algorithm 1", "with pseudo-inverse", "minimiser"
ALTERNATING, SIMULTANEOUS = "minimiser, alternating", "minimiser, simultaneous"
CENTRED = "centred, pseudo-inverse"


def all_ways(problem: Problem) -> list[Solution]:
    """All but the centred."""
    return [
        algorithm_1(problem),
        in_eigenvectors(problem, PSEUDO, pseudo=True),
        minimiser(problem),
        minimiser(problem, ALTERNATING, max_iter=MAX_PASSES),
        minimiser(problem, SIMULTANEOUS, max_iter=MAX_PASSES, mode="simultaneous"),
    ]


def algorithm_1(problem: Problem) -> Solution:
    """What solver="admm" runs, called directly for its account of every loop."""
    setting = problem.setting
    with one_blas_thread():
        found = admm(
            problem.gram,
            setting.alphas,
            setting.l2,
            penalty=setting.penalty,
            eps_abs=setting.eps_abs,
            eps_rel=EPS_REL,
            max_iter=ADMM_CAP,
            outer_max_iter=setting.outer_max_iter,
            outer_tol=setting.outer_tol,
        )
    counts = [len(inner) for inner in found.n_inner], [inner[-1] for inner in found.n_inner]
    loops = Loops(*counts, found.inner_capped.tolist(), found.outer_capped.tolist())
    return solution(ALGORITHM, problem, found.coef, float(found.objective.sum()), loops)


def elastic_net(problem: Problem, **options: Any) -> ElasticNetKernelPCA:
    """The estimator with the paper's parameters."""
    setting = problem.setting
    penalties = {"alpha": setting.alphas, "l2": setting.l2, "alpha_scale": "absolute"}
    given: dict[str, Any] = {**penalties, "gamma": setting.gamma, "center": False, **options}
    return ElasticNetKernelPCA(problem.n_components, **given)


def minimiser(problem: Problem, name: str = MINIMISER, **options: Any) -> Solution:
    """The minimum of the printed criterion, by the active set."""
    model = fitted(elastic_net(problem, **options), problem)
    coef = np.zeros((len(problem.rows), problem.n_components))
    coef[model.support_] = model.dual_coef_
    loops = Loops([model.n_iter_], outer_capped=[not model.converged_] * (model.max_iter > 1))
    return solution(name, problem, coef, float(model.objective_[-1]), loops)


def fitted(model: Any, problem: Problem) -> Any:
    """The model, fitted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelWarning)  # the report says how narrow MNIST's kernel is
        warnings.simplefilter("ignore", ConvergenceWarning)  # and which passes ended at their cap
        return model.fit(problem.rows)


# Algorithm 1 in the coordinates of K's eigenvectors, where functions of K are diagonal


class Iterate(NamedTuple):
    """One ADMM iteration."""

    coef: np.ndarray  # a
    q: np.ndarray  # in the eigenvectors' coordinates
    objective: float  # J at a
    settled: bool  # both residual rules are met


def inverse_roots(problem: Problem, pseudo: bool) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of K and K^-1/2: with a jitter, or those of K^+1/2, cut where numpy and MATLAB cut."""
    values = problem.spectrum[0]
    if not pseudo:
        values = values + 1e-10  # the jitter of `admm`
        return values, 1.0 / np.sqrt(values)
    kept = values > len(values) * np.finfo(np.float64).eps * values[0]
    return values * kept, np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)


def iterates(problem: Problem, alpha: float, p: np.ndarray, pseudo: bool) -> Iterator[Iterate]:
    """Lines 5 to 9 of Algorithm 1, without end; p in the eigenvectors' coordinates."""
    vectors, (values, inverse_root) = problem.spectrum[1], inverse_roots(problem, pseudo)
    rho, l2, absolute = problem.setting.penalty, problem.setting.l2, np.sqrt(len(p)) * problem.setting.eps_abs
    t, a_rotated, t_rotated = (np.zeros_like(p) for _ in range(3))
    while True:
        pull = values * p + inverse_root * (rho * a_rotated - t_rotated)
        q = pull / (values + l2 + rho * inverse_root**2)
        image = vectors @ (inverse_root * q)
        shifted = image + t / rho
        a = np.sign(shifted) * np.maximum(np.abs(shifted) - alpha / rho, 0.0)
        t = t + rho * (image - a)
        before, a_rotated = a_rotated, vectors.T @ a
        t_rotated = t_rotated + rho * (inverse_root * q - a_rotated)
        primal, dual = np.linalg.norm(image - a), rho * np.linalg.norm(inverse_root * (a_rotated - before))
        settled = primal <= absolute + EPS_REL * max(np.linalg.norm(image), np.linalg.norm(a))
        settled &= dual <= absolute + EPS_REL * np.linalg.norm(inverse_root * t_rotated)
        reached = np.sqrt(values) * a_rotated
        smooth = (values @ (p - reached) ** 2 + l2 * (reached @ reached)) / 2
        yield Iterate(a, q, float(smooth + alpha * np.abs(a).sum()), bool(settled))


def until_settled(run: Iterator[Iterate]) -> list[Iterate]:
    """ADMM iterations up to the paper's stop."""
    done = []
    for iterate in islice(run, ADMM_CAP):
        done.append(iterate)
        if iterate.settled:
            break
    return done


def in_eigenvectors(problem: Problem, name: str, *, pseudo: bool) -> Solution:
    """All of Algorithm 1."""
    values, loops, last = inverse_roots(problem, pseudo)[0], Loops(), []
    earlier = np.zeros((len(values), 0))
    with one_blas_thread():
        for k, alpha in enumerate(problem.setting.alphas):
            p = q = np.eye(len(values))[k]
            n_inner: list[int] = []
            moving = True
            while moving and len(n_inner) < problem.setting.outer_max_iter:
                done = until_settled(iterates(problem, alpha, p, pseudo))
                n_inner.append(len(done))
                q_old, q = q, done[-1].q / np.linalg.norm(done[-1].q)
                p = values * q - earlier @ (earlier.T @ (values * q))
                p /= np.linalg.norm(p)
                moving = bool(np.sum((q - q_old) ** 2) >= problem.setting.outer_tol)
            earlier = np.column_stack([earlier, p])
            last.append(done[-1])
            loops.n_passes.append(len(n_inner))
            loops.n_inner.append(n_inner[-1])
            loops.inner_capped.append(not done[-1].settled)
            loops.outer_capped.append(moving)
    coef = np.stack([iterate.coef for iterate in last], axis=1)
    return solution(name, problem, coef, sum(iterate.objective for iterate in last), loops)


@dataclass(frozen=True)
class CentredProblem(Problem):
    """The same rows with the centred gram, over whose features a component is then expanded."""

    @cached_property
    def gram(self) -> np.ndarray:
        """(I - 1 J')K(I - J 1')."""
        means = self.uncentred.mean(axis=0)
        centred: np.ndarray = self.uncentred - means - means[:, None] + means.mean()
        return centred

    @cached_property
    def uncentred(self) -> np.ndarray:
        """K."""
        return self.cross_gram(self.rows)


def centred(problem: Problem) -> Solution:
    """Algorithm 1 as the paper asks for it where the data are not centred."""
    return in_eigenvectors(CentredProblem(problem.name, problem.setting, problem.rows), CENTRED, pseudo=True)
