"""Wang & Tanaka (2016), Sparse kernel PCA based on elastic net regularization: its figures, and which statements hold.

    three clusters, 90 rows   Fig. 1: contours of eight components of kernel PCA and of the sparse ones, their rows marked
    parabola, 500 rows        Fig. 2: the same for four components and two choices of alpha
    MNIST, 500 rows           Fig. 3: coefficients of three components; Fig. 4: mean squared error, here also on test rows

Each is solved from the same gram K (features not centred) with the paper's parameters, in four ways:

    Algorithm 1               as printed, with the paper's rho, tolerances and caps; a singular K gets a jitter
    with pseudo-inverse       the same with K^+ for K^-1, which the paper asks for where K is singular
    minimiser                 of the printed criterion at p = kernel PCA's components, to a duality gap of 1e-6
    minimiser, alternating    p and a in turn until the criterion rests

A component v_k = sum_i a_ik phi(x_i) is scaled to unit length.  k(x, x) = 1, so the mean squared error of the first M
components, by projection on their span with orthonormal basis U, is 1 - mean_n |U'phi(x_n)|^2.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.metrics.pairwise import rbf_kernel

from kernelsieve import ElasticNetKernelPCA, KernelPCA, SparseKernelPCA, elastic_net_path
from kernelsieve._threads import one_blas_thread
from kernelsieve.solvers.admm import JITTER, admm

from . import wang_tanaka_2016_pictures as pictures
from .datasets import MissingData, load_file
from .report import Report

CENTERS = np.array([(-0.5, -0.2), (0.0, 0.6), (0.5, 0.0)])
ROWS_A_CLUSTER, SPREAD = 30, 0.1
N_PARABOLA, PARABOLA_NOISE = 500, 0.2
N_MNIST = 500
CLUSTER_SEEDS, PARABOLA_SEEDS, MNIST_SEEDS = range(10), range(5), range(5)  # the first is drawn
EPS_REL, ADMM_CAP = 1e-4, 300  # the same in all of the paper's experiments
PASSES = 50  # of p and a in turn; each of the settings rests long before

PENALTY_FACTORS = (0.1, 1.0, 10.0)  # of the paper's rho
LARGE_N = (500, 1000, 2000)
LONG_RUN = 3000  # ADMM iterations, ten times the paper's cap
SIZES = (5, 10, 20)  # nonzeros a component, for what the path keeps

ALGORITHM, PSEUDO, MINIMISER, ALTERNATING = (
    "Algorithm 1",
    "with pseudo-inverse",
    "minimiser",
    "minimiser, alternating",
)
SAME_SIZE = "minimiser, as many nonzeros"

ALIKE = 0.9  # cosine of two components that count as alike
SMALL_PART = 0.3  # of the rows
SLIGHTLY = 0.05  # more than the optimal error
CLOSE = 1.5  # ratio of nonzeros up to which a stopped run is taken for the minimiser


@dataclass(frozen=True)
class Setting:
    """Parameters of one experiment of the paper."""

    gamma: float
    alphas: tuple[float, ...]
    l2: float
    penalty: float
    eps_abs: float = 1e-4
    outer_max_iter: int = 300
    outer_tol: float = 1e-2


CLUSTERS = Setting(1 / (2 * 0.05), (0.02, 0.02, 0.009, 0.008, 0.006, 0.007, 0.01, 0.01), l2=0.1, penalty=0.01)
EQUAL = Setting(1 / (2 * 0.5**2), (0.05,) * 4, l2=0.05, penalty=0.09, outer_max_iter=60)
RISING = replace(EQUAL, alphas=(0.05, 0.07, 0.08, 0.09))
MNIST = Setting(
    1 / (2 * 700**2),
    (0.002, 0.002, 0.004),
    l2=0.001,
    penalty=0.01,
    eps_abs=1e-2,
    outer_max_iter=30,
    outer_tol=1e-6,
)


class Claim(NamedTuple):
    """A statement of the paper, what was found, and whether it holds."""

    statement: str
    found: str
    holds: bool


class Artefact(NamedTuple):
    """Something seen in Algorithm 1's output, what was found of its cause, and whether it is the cause."""

    effect: str
    found: str
    cause: str
    shown: bool


def run(report: Report) -> None:
    """All figures, then what reproduces and what is an artefact."""
    report.text("# Sparse kernel PCA based on elastic net regularization (Wang & Tanaka 2016)")
    cluster_claims, cluster_artefacts = clusters(report)
    parabola_claims, parabola_artefacts = parabola(report)
    claims, artefacts = cluster_claims + parabola_claims, cluster_artefacts + parabola_artefacts
    problems = {"parabola": (parabola_problem(0), parabola_rows(len(PARABOLA_SEEDS), 2000))}
    try:
        mnist_claims, mnist_artefacts = mnist(report)
        claims, artefacts = claims + mnist_claims, artefacts + mnist_artefacts
        problems["MNIST"] = mnist_problem(0), mnist_test_rows()
    except MissingData as missing:
        report.text(f"Skipped: needs {missing}.")
    artefacts.append(large_n(report))
    early_stopping(report, [clusters_problem(0), *(problem for problem, _ in problems.values())])
    paths(report, problems)
    verdict(report, claims, artefacts)


def verdict(report: Report, claims: list[Claim], artefacts: list[Artefact]) -> None:
    report.text("## What reproduces")
    rows = [(claim.statement, claim.found, yes_no(claim.holds)) for claim in claims]
    report.table(("the paper's statement", "found", "holds"), rows)
    report.text("## What is an artefact\n\nOf stopping before the minimum of the criterion, or of the pseudo-inverse.")
    rows = [(item.effect, item.found, item.cause, yes_no(item.shown)) for item in artefacts]
    report.table(("in the output of Algorithm 1", "found", "cause looked for", "is it"), rows)


# Problems and solutions


@dataclass(frozen=True)
class Problem:
    """Rows with a setting."""

    name: str
    setting: Setting
    rows: np.ndarray

    @property
    def n_components(self) -> int:
        return len(self.setting.alphas)

    @cached_property
    def gram(self) -> np.ndarray:
        return self.cross_gram(self.rows)

    @cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues of the gram from the largest down, and its eigenvectors."""
        with one_blas_thread():
            values, vectors = np.linalg.eigh(self.gram)
        return np.maximum(values[::-1], 0.0), vectors[:, ::-1]

    @cached_property
    def kernel_pca(self) -> np.ndarray:
        """Coefficients of kernel PCA's components, (N, M)."""
        values, vectors = (part[..., : self.n_components] for part in self.spectrum)
        coef: np.ndarray = vectors * np.sign(vectors.sum(axis=0)) / np.sqrt(values)
        return coef

    def cross_gram(self, rows: np.ndarray) -> np.ndarray:
        block: np.ndarray = rbf_kernel(rows, self.rows, gamma=self.setting.gamma)
        return block


@dataclass(frozen=True)
class Solution:
    """Sparse components of a problem, and how they were come by."""

    name: str
    problem: Problem
    coef: np.ndarray  # (N, M): of unit length in feature space, zero where zero, signs as kernel PCA's
    objective: float  # J summed over components, each at its last p
    n_passes: list[int]  # of each component, or of the one that took most
    n_inner: list[int]  # ADMM iterations of each component's last pass; empty where there are none
    inner_capped: np.ndarray  # for each component
    outer_capped: np.ndarray

    @property
    def n_nonzero(self) -> list[int]:
        counts: list[int] = np.count_nonzero(self.coef, axis=0).tolist()
        return counts

    @property
    def n_support(self) -> int:
        """Rows that any component uses."""
        return int(np.count_nonzero(self.coef.any(axis=1)))

    @cached_property
    def cosines(self) -> np.ndarray:
        """Of each component with kernel PCA's."""
        cosines: np.ndarray = np.abs(np.sum(self.coef * (self.problem.gram @ self.problem.kernel_pca), axis=0))
        return cosines

    @cached_property
    def errors(self) -> np.ndarray:
        """Mean squared errors of the rows for the first 1, 2, ... components."""
        return mean_squared_errors(self.problem, self.coef, self.problem.gram)

    @cached_property
    def excess(self) -> float:
        """Mean squared error of all components over the optimal one, less one."""
        return float(self.errors[-1] / optimal_errors(self.problem)[-1] - 1.0)


def mean_squared_errors(problem: Problem, coef: np.ndarray, cross_gram: np.ndarray) -> np.ndarray:
    """For the first 1, 2, ... components, of the rows whose kernel values with the training rows are given."""
    inner = coef.T @ problem.gram @ coef
    inner[np.diag_indices_from(inner)] += ~coef.any(axis=0)  # a zero component adds nothing
    scores = solve_triangular(np.linalg.cholesky(inner), (cross_gram @ coef).T, lower=True)
    errors: np.ndarray = 1.0 - np.cumsum(np.mean(scores**2, axis=1))
    return errors


def optimal_errors(problem: Problem) -> np.ndarray:
    return mean_squared_errors(problem, problem.kernel_pca, problem.gram)


def finished(
    name: str,
    problem: Problem,
    coef: np.ndarray,
    objective: float,
    n_passes: list[int],
    n_inner: list[int],
    inner_capped: np.ndarray,
    outer_capped: np.ndarray,
) -> Solution:
    """A solution with components of unit length and of kernel PCA's signs."""
    image = problem.gram @ coef
    lengths = np.sqrt(np.maximum(np.sum(coef * image, axis=0), 0.0))
    signs = np.where(np.sum(problem.kernel_pca * image, axis=0) < 0, -1.0, 1.0)
    coef = coef * signs / np.where(lengths > 0, lengths, 1.0)
    return Solution(name, problem, coef, objective, n_passes, n_inner, inner_capped, outer_capped)


def algorithm_1(problem: Problem) -> Solution:
    """The library's solver="admm", called directly for its account of every loop."""
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
    return finished(
        ALGORITHM,
        problem,
        found.coef,
        float(found.objective.sum()),
        [len(inner) for inner in found.n_inner],
        [inner[-1] for inner in found.n_inner],
        found.inner_capped,
        found.outer_capped,
    )


def minimiser(problem: Problem, name: str = MINIMISER, **options: Any) -> Solution:
    """The minimum of the printed criterion, by the active set."""
    model = elastic_net(problem, **options).fit(problem.rows)
    coef = np.zeros((len(problem.rows), problem.n_components))
    coef[model.support_] = model.dual_coef_
    none = np.zeros(problem.n_components, dtype=bool)
    restless = np.full(problem.n_components, not model.converged_)
    return finished(name, problem, coef, float(model.objective_[-1]), [model.n_iter_], [], none, restless)


def elastic_net(problem: Problem, **options: Any) -> ElasticNetKernelPCA:
    setting = problem.setting
    given = {
        "alpha": setting.alphas,
        "l2": setting.l2,
        "alpha_scale": "absolute",
        "gamma": setting.gamma,
        "center": False,
    }
    return ElasticNetKernelPCA(problem.n_components, **(given | options))


def four_ways(problem: Problem) -> list[Solution]:
    return [
        algorithm_1(problem),
        with_pseudo_inverse(problem),
        minimiser(problem),
        minimiser(problem, ALTERNATING, max_iter=PASSES),
    ]


# Algorithm 1 in the coordinates of K's eigenvectors, where any function of K is a diagonal


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
        values = values + JITTER
        return values, 1.0 / np.sqrt(values)
    kept = values > len(values) * np.finfo(np.float64).eps * values[0]
    return values * kept, np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)


def iterates(
    setting: Setting, alpha: float, p: np.ndarray, values: np.ndarray, inverse_root: np.ndarray, vectors: np.ndarray
) -> Iterator[Iterate]:
    """Lines 5 to 9 of Algorithm 1, without end; p in the eigenvectors' coordinates."""
    rho, absolute = setting.penalty, np.sqrt(len(p)) * setting.eps_abs
    t, a_rotated, t_rotated = (np.zeros_like(p) for _ in range(3))
    while True:
        q = (values * p + inverse_root * (rho * a_rotated - t_rotated)) / (values + setting.l2 + rho * inverse_root**2)
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
        quadratic = values @ (p - reached) ** 2 + setting.l2 * (reached @ reached)
        yield Iterate(a, q, float(quadratic / 2 + alpha * np.abs(a).sum()), bool(settled))


def with_pseudo_inverse(problem: Problem) -> Solution:
    return in_eigenvectors(problem, PSEUDO, pseudo=True)


def in_eigenvectors(problem: Problem, name: str, *, pseudo: bool) -> Solution:
    """All of Algorithm 1."""
    values, inverse_root = inverse_roots(problem, pseudo)
    earlier = np.zeros((len(values), 0))
    last: list[Iterate] = []
    n_inner: list[list[int]] = []
    outer_capped = []
    with one_blas_thread():
        for k, alpha in enumerate(problem.setting.alphas):
            p = q_old = np.eye(len(values))[k]
            n_inner.append([])
            for _ in range(problem.setting.outer_max_iter):
                run = iterates(problem.setting, alpha, p, values, inverse_root, problem.spectrum[1])
                for count, iterate in enumerate(islice(run, ADMM_CAP), start=1):
                    if iterate.settled:
                        break
                n_inner[-1].append(count)
                q = iterate.q / np.linalg.norm(iterate.q)
                p = values * q
                p -= earlier @ (earlier.T @ p)
                p /= np.linalg.norm(p)
                moved, q_old = float(np.sum((q - q_old) ** 2)), q
                if moved < problem.setting.outer_tol:
                    break
            last.append(iterate)
            outer_capped.append(moved >= problem.setting.outer_tol)
            earlier = np.column_stack([earlier, p])
    return finished(
        name,
        problem,
        np.stack([iterate.coef for iterate in last], axis=1),
        sum(iterate.objective for iterate in last),
        [len(inner) for inner in n_inner],
        [inner[-1] for inner in n_inner],
        np.array([not iterate.settled for iterate in last]),
        np.array(outer_capped),
    )


@dataclass(frozen=True)
class Trajectory:
    """The first component's ADMM iterations at p = kernel PCA, run on past where the paper stops."""

    problem: Problem
    n_nonzero: dict[str, np.ndarray]  # by kind of inverse, after 1, 2, ... iterations
    excess: dict[str, np.ndarray]  # J over its minimum, less one
    stopped: int  # the iteration at which the paper's rules or its cap end it
    n_nonzero_minimiser: int


def trajectory(problem: Problem) -> Trajectory:
    first = replace(problem, setting=replace(problem.setting, alphas=problem.setting.alphas[:1]))
    vectors = problem.spectrum[1]
    minimum = minimiser(first, tol=1e-9)
    runs = {}
    with one_blas_thread():
        for name, pseudo in ((ALGORITHM, False), (PSEUDO, True)):
            start, parts = np.eye(len(vectors))[0], inverse_roots(problem, pseudo)
            runs[name] = [
                (np.count_nonzero(iterate.coef), iterate.objective, iterate.settled)
                for iterate in islice(
                    iterates(problem.setting, first.setting.alphas[0], start, *parts, vectors), LONG_RUN
                )
            ]
    settled = [done for _, _, done in runs[ALGORITHM][:ADMM_CAP]]
    return Trajectory(
        problem,
        {name: np.array([count for count, _, _ in run]) for name, run in runs.items()},
        {name: np.array([value for _, value, _ in run]) / minimum.objective - 1.0 for name, run in runs.items()},
        settled.index(True) + 1 if any(settled) else ADMM_CAP,
        minimum.n_nonzero[0],
    )


# Tables that all data sets share


def methods_table(report: Report, problem: Problem, solutions: Sequence[Solution]) -> None:
    """One seed, method by method."""
    optimal = float(optimal_errors(problem)[-1])
    rows: list[tuple[Any, ...]] = [
        (
            "kernel PCA",
            joined([len(problem.rows)] * problem.n_components),
            len(problem.rows),
            "1",
            f"{optimal:.4f}",
            *[""] * 5,
        )
    ]
    for found in solutions:
        rows.append(
            (
                found.name,
                joined(found.n_nonzero),
                found.n_support,
                span(found.cosines.tolist()),
                f"{found.errors[-1]:.4f}",
                found.objective,
                span(found.n_passes),
                span(found.n_inner),
                capped(found.inner_capped) if found.n_inner else "",
                capped(found.outer_capped),
            )
        )
    header = (
        "method",
        "nonzeros of each component",
        "rows used",
        "cosines with kernel PCA",
        "MSE",
        "J",
        "passes",
        "ADMM iterations, last pass",
        "at the ADMM cap",
        "at the cap of passes",
    )
    report.table(header, rows)


def seeds_table(report: Report, by_seed: Sequence[Sequence[Solution]]) -> None:
    """All seeds, method by method."""
    rows = []
    for found in zip(*by_seed, strict=True):
        inner = np.concatenate([solution.inner_capped for solution in found])
        rows.append(
            (
                found[0].name,
                span(count for solution in found for count in solution.n_nonzero),
                float(np.mean([sum(solution.n_nonzero) for solution in found])),
                span(solution.n_support for solution in found),
                f"{min(solution.cosines.min() for solution in found):.3f}",
                percent_span([solution.excess for solution in found]),
                capped(inner) if found[0].n_inner else "",
            )
        )
    header = (
        "method",
        "nonzeros a component",
        "nonzeros, all components, mean",
        "rows used",
        "smallest cosine",
        "MSE above the optimal",
        "components at the ADMM cap",
    )
    report.table(header, rows)


def by_method(by_seed: Sequence[Sequence[Solution]], name: str) -> list[Solution]:
    return [solution for solutions in by_seed for solution in solutions if solution.name == name]


def resembles(where: str, by_seed: Sequence[Sequence[Solution]], name: str) -> Claim:
    found = by_method(by_seed, name)
    smallest = min(float(solution.cosines.min()) for solution in found)
    shares = [solution.n_support / len(solution.problem.rows) for solution in found]
    return Claim(
        f"{where}: few rows give components that closely resemble kernel PCA's ({name})",
        f"cosines of at least {smallest:.3f} from {percent_span(shares)} of the rows, {len(found)} seeds",
        smallest > ALIKE and max(shares) < SMALL_PART,
    )


def pseudo_inverse(where: str, by_seed: Sequence[Sequence[Solution]]) -> Artefact:
    jitter, pseudo, exact = (
        [sum(solution.n_nonzero) for solution in by_method(by_seed, name)] for name in (ALGORITHM, PSEUDO, MINIMISER)
    )
    problem = by_seed[0][0].problem
    rank = int(np.count_nonzero(inverse_roots(problem, True)[1]))
    ratio = float(np.mean(pseudo) / np.mean(jitter))
    return Artefact(
        f"{where}: nonzeros with K^+ for K^-1",
        f"K has numerical rank {rank} of {len(problem.rows)}; nonzeros of all components {np.mean(pseudo):.0f} with "
        f"the pseudo-inverse, {np.mean(jitter):.0f} with the jitter, {np.mean(exact):.0f} at the minimum (means)",
        "pseudo-inverse",
        ratio > CLOSE,
    )


# Fig. 1


def clusters_problem(seed: int) -> Problem:
    noise = np.random.default_rng(seed).standard_normal((3 * ROWS_A_CLUSTER, 2))
    rows = np.repeat(CENTERS, ROWS_A_CLUSTER, axis=0) + SPREAD * noise
    return Problem("three clusters", CLUSTERS, rows)


def clusters(report: Report) -> tuple[list[Claim], list[Artefact]]:
    report.text("## Three clusters: 90 rows, sigma^2 = .05, eight components (Fig. 1)")
    by_seed = [four_ways(clusters_problem(seed)) for seed in CLUSTER_SEEDS]
    problem, drawn = by_seed[0][0].problem, by_seed[0]
    report.text("### Seed 0")
    methods_table(report, problem, drawn)
    report.text(estimator_agrees(drawn[0]))
    shown = [drawn[0], drawn[2]]
    for numbers in (range(4), range(4, 8)):
        name = f"fig1_components_{numbers[0] + 1}_to_{numbers[-1] + 1}"
        caption = f"Fig. 1: components {numbers[0] + 1} to {numbers[-1] + 1}; rows with nonzero coefficients circled"
        pictures.component_panels(report, problem, shown, numbers, name, caption)
    report.text(f"### {len(by_seed)} seeds")
    seeds_table(report, by_seed)
    claims = [resembles("Fig. 1", by_seed, name) for name in (ALGORITHM, MINIMISER)]
    literal, exact = (
        [sum(solution.n_nonzero) for solution in by_method(by_seed, name)] for name in (ALGORITHM, MINIMISER)
    )
    ratio = float(np.mean(literal) / np.mean(exact))
    stopped = Artefact(
        "three clusters: its number of nonzeros",
        f"{np.mean(literal):.0f} in all components, the minimiser has {np.mean(exact):.0f} (means of {len(by_seed)} "
        f"seeds), though {capped(all_capped(by_method(by_seed, ALGORITHM)))} components are stopped by the cap",
        "early stopping",
        max(ratio, 1 / ratio) > CLOSE,
    )
    return claims, [stopped, pseudo_inverse("three clusters", by_seed)]


def estimator_agrees(solution: Solution) -> str:
    """How far the estimator, and Algorithm 1 in the eigenvectors' coordinates, are from the solver called directly."""
    problem, setting = solution.problem, solution.problem.setting
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the caps were hit is in the table
        options = {"penalty": setting.penalty, "eps_abs": setting.eps_abs, "outer_tol": setting.outer_tol}
        estimator = minimiser(problem, solver="admm", **options)
    rotated = in_eigenvectors(problem, ALGORITHM, pseudo=False)
    distances = [component_distance(solution, other) for other in (estimator, rotated)]
    return (
        f'The tables call the solver itself, for its account of every loop. `ElasticNetKernelPCA(solver="admm")` gives '
        f"the same components to {distances[0]:.1e} in feature space, and the coordinates in which the "
        f"pseudo-inverse and the long runs below are done to {distances[1]:.1e}."
    )


def component_distance(one: Solution, other: Solution) -> float:
    """The largest feature-space distance between two components of the same number."""
    difference = one.coef - other.coef
    squares = np.sum(difference * (one.problem.gram @ difference), axis=0)
    return float(np.sqrt(np.maximum(squares, 0.0)).max())


def all_capped(solutions: Iterable[Solution]) -> np.ndarray:
    return np.concatenate([solution.inner_capped for solution in solutions])


# Fig. 2


def parabola_rows(seed: int, n: int = N_PARABOLA) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    return np.column_stack([x, x**2 + PARABOLA_NOISE * rng.standard_normal(n)])


def parabola_problem(seed: int, setting: Setting = EQUAL, n: int = N_PARABOLA) -> Problem:
    return Problem("parabola", setting, parabola_rows(seed, n))


def parabola(report: Report) -> tuple[list[Claim], list[Artefact]]:
    report.text("## A parabola: 500 rows, sigma = .5, four components (Fig. 2)")
    claims, totals = [], {}
    all_solutions = {}
    for name, setting in (("equal", EQUAL), ("rising", RISING)):
        spelled = f"alpha = {joined([f'{alpha:g}' for alpha in setting.alphas])}"
        by_seed = all_solutions[name] = [four_ways(parabola_problem(seed, setting)) for seed in PARABOLA_SEEDS]
        problem, drawn = by_seed[0][0].problem, by_seed[0]
        report.text(f"### {spelled}, seed 0")
        methods_table(report, problem, drawn)
        caption = f"Fig. 2, {spelled}; rows with nonzero coefficients circled"
        pictures.component_panels(report, problem, [drawn[0], drawn[2]], range(4), f"fig2_{name}_alpha", caption)
        report.text(f"### {spelled}, {len(by_seed)} seeds")
        seeds_table(report, by_seed)
        claims += [resembles(f"Fig. 2, {name} alpha", by_seed, method) for method in (ALGORITHM, MINIMISER)]
        for method in (ALGORITHM, MINIMISER):
            counts = [sum(solution.n_nonzero) for solution in by_method(by_seed, method)]
            totals[name, method] = float(np.mean(counts))
    for method in (ALGORITHM, MINIMISER):
        equal, rising = totals["equal", method], totals["rising", method]
        found = f"{equal:.1f} nonzeros with equal, {rising:.1f} with rising alpha, means of {len(PARABOLA_SEEDS)} seeds"
        claims.append(Claim(f"Fig. 2: larger alpha, fewer nonzeros ({method})", found, rising < equal))
    rho_claim, rho_artefact = penalties(report)
    by_seed = all_solutions["equal"]
    more = Artefact(
        "parabola: its number of nonzeros",
        f"{totals['equal', ALGORITHM]:.0f} in all components, the minimiser has {totals['equal', MINIMISER]:.0f} "
        f"(means); {capped(all_capped(by_method(by_seed, ALGORITHM)))} components are stopped by the cap",
        "early stopping",
        totals["equal", ALGORITHM] > CLOSE * totals["equal", MINIMISER],
    )
    return [*claims, rho_claim], [more, rho_artefact, pseudo_inverse("parabola", by_seed)]


def penalties(report: Report) -> tuple[Claim, Artefact]:
    """Algorithm 1 with smaller and larger rho."""
    report.text("### Algorithm 1 with other rho (equal alpha, seed 0)")
    settings = [replace(EQUAL, penalty=factor * EQUAL.penalty) for factor in PENALTY_FACTORS]
    found = [algorithm_1(parabola_problem(0, setting)) for setting in settings]
    exact = minimiser(found[0].problem)
    rows = [
        (f"rho = {solution.problem.setting.penalty:g}", joined(solution.n_nonzero), f"{solution.errors[-1]:.4f}")
        + (solution.objective, capped(solution.inner_capped))
        for solution in found
    ]
    rows.append(("minimiser", joined(exact.n_nonzero), f"{exact.errors[-1]:.4f}", exact.objective, ""))
    report.table(("", "nonzeros of each component", "MSE", "J", "at the ADMM cap"), rows)
    counts = [sum(solution.n_nonzero) for solution in found]
    differ = max(counts) > CLOSE * max(min(counts), 1)
    spelled = f"{joined(counts)} nonzeros at rho = {joined([f'{setting.penalty:g}' for setting in settings])}"
    return (
        Claim("Fig. 2: the sparsity depends on rho (Algorithm 1)", spelled, differ),
        Artefact(
            "parabola: sparsity depends on rho",
            f"{spelled}; rho is not in the criterion, whose minimiser has {sum(exact.n_nonzero)}",
            "early stopping",
            differ,
        ),
    )


# Figs. 3 and 4


def mnist_problem(seed: int) -> Problem:
    images = load_file("mnist")["x_train"]
    chosen = np.random.default_rng(seed).choice(len(images), N_MNIST, replace=False)
    return Problem("MNIST", MNIST, images[chosen].reshape(N_MNIST, -1).astype(np.float64))


def mnist_test_rows() -> np.ndarray:
    images = load_file("mnist")["x_test"]
    return images.reshape(len(images), -1).astype(np.float64)


def mnist(report: Report) -> tuple[list[Claim], list[Artefact]]:
    report.text("## MNIST: 500 raw images, sigma = 700, three components (Figs. 3 and 4)")
    by_seed = []
    for seed in MNIST_SEEDS:
        solutions = four_ways(mnist_problem(seed))
        as_many = minimiser(solutions[0].problem, SAME_SIZE, n_nonzero=solutions[0].n_nonzero)
        by_seed.append([*solutions, as_many])
    problem, drawn = by_seed[0][0].problem, by_seed[0]
    report.text("### Choice 0 of the rows")
    methods_table(report, problem, drawn)
    pictures.coefficient_panels(report, problem, [drawn[0], drawn[2]])
    report.text(f"### {len(by_seed)} choices of the rows")
    seeds_table(report, by_seed)
    return (
        [*(mostly_zero(by_seed, name) for name in (ALGORITHM, MINIMISER)), *errors_on_mnist(report, by_seed)],
        [stopped_on_mnist(by_seed), pseudo_inverse("MNIST", by_seed)],
    )


def mostly_zero(by_seed: Sequence[Sequence[Solution]], name: str) -> Claim:
    counts = [count for solution in by_method(by_seed, name) for count in solution.n_nonzero]
    found = f"{span(counts)} nonzeros of {N_MNIST}, {len(by_seed)} choices of rows"
    return Claim(f"Fig. 3: most coefficients are zero ({name})", found, max(counts) < N_MNIST / 2)


def stopped_on_mnist(by_seed: Sequence[Sequence[Solution]]) -> Artefact:
    literal, exact = by_method(by_seed, ALGORITHM), by_method(by_seed, MINIMISER)
    counts = [[count for solution in found for count in solution.n_nonzero] for found in (literal, exact)]
    above = [stopped.objective / least.objective for stopped, least in zip(literal, exact, strict=True)]
    return Artefact(
        "MNIST: its number of nonzeros",
        f"{span(counts[0])} a component after {span(n for solution in literal for n in solution.n_inner)} iterations "
        f"of ADMM, where J is {span(above)} times its minimum; the minimiser has {span(counts[1])}",
        "early stopping",
        bool(np.mean(counts[1]) > CLOSE * np.mean(counts[0])),
    )


def errors_on_mnist(report: Report, by_seed: Sequence[Sequence[Solution]]) -> list[Claim]:
    report.text("### Mean squared error against the number of components (Fig. 4)")
    test = mnist_test_rows()
    curves: dict[tuple[str, str], list[np.ndarray]] = {}
    for solutions in by_seed:
        problem = solutions[0].problem
        blocks = {"training rows": problem.gram, "test rows": problem.cross_gram(test)}
        coefs = {"kernel PCA": problem.kernel_pca} | {found.name: found.coef for found in solutions}
        for (where, block), (name, coef) in ((b, c) for b in blocks.items() for c in coefs.items()):
            curves.setdefault((where, name), []).append(mean_squared_errors(problem, coef, block))
    header = ("rows", "method", *(f"{k + 1} PC, choice 0" for k in range(3)), f"3 PC, {len(by_seed)} choices")
    rows = [
        (where, name, *(f"{value:.4f}" for value in found[0]), span((float(c[-1]) for c in found), digits=4))
        for (where, name), found in curves.items()
    ]
    report.table(header, rows)
    pictures.error_curves(report, {key: found[0] for key, found in curves.items()})
    off_diagonal = by_seed[0][0].problem.gram[np.triu_indices(N_MNIST, 1)]
    gains = {
        where: float(np.mean([1 - c[-1] for c in curves[where, "kernel PCA"]]))
        for where in ("training rows", "test rows")
    }
    report.text(
        f"At sigma = 700 two different images have a median kernel value of {np.median(off_diagonal):.2g}: K is close to "
        f"the identity, and three components of kernel PCA itself take {100 * gains['training rows']:.1f} % off the error "
        f"of no component on the training rows, {100 * gains['test rows']:.1f} % on the test rows."
    )
    return [
        slightly_higher(curves, where, name)
        for where in ("training rows", "test rows")
        for name in (ALGORITHM, MINIMISER)
    ]


def slightly_higher(curves: dict[tuple[str, str], list[np.ndarray]], where: str, name: str) -> Claim:
    found, best = (np.array(curves[where, which]) for which in (name, "kernel PCA"))
    excess, lost = found[:, -1] / best[:, -1] - 1, (found[:, -1] - best[:, -1]) / (1 - best[:, -1])
    left_out = "" if where == "training rows" else "; not in the paper"
    return Claim(
        f"Fig. 4: MSE slightly above kernel PCA's ({name}, {where}{left_out})",
        f"{percent_span(excess)} above with three components, which is {percent_span(lost)} of what kernel PCA gains",
        bool(np.all(found >= best - 1e-12) and np.all(excess < SLIGHTLY))
        if where == "training rows"
        else bool(np.all(excess < SLIGHTLY)),
    )


# More rows, longer runs


def large_n(report: Report) -> Artefact:
    report.text("## More rows: the parabola's first component, parameters of Fig. 2")
    rows, literal, exact = [], {}, {}
    for n in LARGE_N:
        problem = parabola_problem(0, replace(EQUAL, alphas=EQUAL.alphas[:1]), n)
        start = time.perf_counter()
        literal[n] = algorithm_1(problem)
        middle = time.perf_counter()
        exact[n] = minimiser(problem)
        seconds = middle - start, time.perf_counter() - middle
        rows.append(
            (n, literal[n].n_nonzero[0], exact[n].n_nonzero[0], literal[n].objective, exact[n].objective)
            + (f"{literal[n].cosines[0]:.3f}", f"{exact[n].cosines[0]:.3f}", span(literal[n].n_inner))
            + tuple(f"{s:.2f}" for s in seconds)
        )
    names = ("Algorithm 1", "minimiser")
    header = ("rows", *(f"{what}, {name}" for what in ("nonzeros", "J", "cosine") for name in names))
    report.table((*header, "ADMM iterations", *(f"seconds, {name}" for name in names)), rows)
    most = LARGE_N[-1]
    return Artefact(
        f"parabola, {most} rows: the first component is zero",
        f"{literal[most].n_nonzero[0]} nonzeros after {literal[most].n_inner[0]} iterations, where J is "
        f"{literal[most].objective / exact[most].objective:.0f} times its minimum; the minimiser has "
        f"{exact[most].n_nonzero[0]} and cosine {exact[most].cosines[0]:.3f}",
        "early stopping",
        literal[most].n_nonzero[0] == 0 < exact[most].n_nonzero[0],
    )


def early_stopping(report: Report, problems: Sequence[Problem]) -> None:
    report.text(
        f"## The first component's ADMM, run on to {LONG_RUN} iterations\n\nOne pass at p = kernel PCA, parameters as "
        "above; `excess` is J over its minimum, less one."
    )
    found = [trajectory(problem) for problem in problems]
    rows = []
    for run in found:
        for name, counts in run.n_nonzero.items():
            excess = run.excess[name]
            rows.append(
                (run.problem.name, name, run.stopped, counts[run.stopped - 1], float(excess[run.stopped - 1]))
                + (counts[-1], float(excess[-1]), run.n_nonzero_minimiser)
            )
    header = ("data", "inverse", "the paper stops at", "nonzeros there", "excess there")
    report.table((*header, f"nonzeros at {LONG_RUN}", f"excess at {LONG_RUN}", "nonzeros of the minimiser"), rows)
    pictures.trajectories(report, found)


# The path


def paths(report: Report, problems: dict[str, tuple[Problem, np.ndarray]]) -> None:
    report.text(
        "## The path, and what a few nonzeros keep\n\n"
        "All are shares of what kernel PCA captures of the same rows (training / other rows). `rows used` is what "
        "`n_nonzero` a component come to together; the last two columns have as many support points."
    )
    rows = []
    for name, (problem, other) in problems.items():
        exact = KernelPCA(problem.n_components, kernel="rbf", gamma=problem.setting.gamma, center=False)
        exact.fit(problem.rows)
        for size in SIZES:
            rows.append((name, size, *kept(problem, other, exact, size)))
    header = ("data", "n_nonzero", "rows used", "as found", "refit=True", "targeted rows", "free points")
    report.table(header, rows)
    drawn = {
        name: elastic_net_path(elastic_net(problem), problem.rows, n_alphas=40)
        for name, (problem, _) in problems.items()
    }
    pictures.paths(report, drawn, {name: problem.n_components for name, (problem, _) in problems.items()})


def kept(problem: Problem, other: np.ndarray, exact: KernelPCA, size: int) -> list[Any]:
    """Rows used, and what of kernel PCA's captured variance each model keeps."""
    sparse, refitted = (elastic_net(problem, n_nonzero=size, refit=refit).fit(problem.rows) for refit in (False, True))
    options: dict[str, Any] = {"n_support": sparse.n_support_, "gamma": problem.setting.gamma, "center": False}
    beside = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that MNIST's kernel is narrow is said above
        for selection in ("targeted", "optimized"):
            model = SparseKernelPCA(problem.n_components, selection=selection, random_state=0, **options)
            beside.append(model.fit(problem.rows))
    shares = [
        " / ".join(f"{model.score(rows) / exact.score(rows):.3f}" for rows in (problem.rows, other))
        for model in (sparse, refitted, *beside)
    ]
    return [sparse.n_support_, *shares]


# Numbers as text


def span(values: Iterable[float], digits: int = 3) -> str:
    """Smallest and largest, or the one value there is; counts in full."""
    ordered = sorted(values)
    if not ordered:
        return ""
    low, high = (
        f"{value:.{digits}g}" if isinstance(value, float) else str(value) for value in (ordered[0], ordered[-1])
    )
    return low if low == high else f"{low} to {high}"


def percent_span(shares: Iterable[float]) -> str:
    low, high = (f"{100 * share:.2g}" for share in (min(shares), max(shares)))
    return f"{low} %" if low == high else f"{low} to {high} %"


def joined(values: Sequence[Any]) -> str:
    return " ".join(str(value) for value in values)


def capped(flags: np.ndarray) -> str:
    return f"{np.count_nonzero(flags)} of {len(flags)}"


def yes_no(value: bool) -> str:
    return "yes" if value else "no"
