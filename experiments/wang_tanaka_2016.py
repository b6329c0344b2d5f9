"""Wang & Tanaka (2016), Sparse kernel PCA based on elastic net regularization: its figures, and which statements hold.

    three clusters, 90 rows   Fig. 1: contours of eight components, kernel PCA's and sparse, the rows they use marked
    parabola, 500 rows        Fig. 2: the same for four components and two choices of alpha
    MNIST, 500 rows           Fig. 3: coefficients of three components; Fig. 4: mean squared error, and of test rows

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
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.metrics.pairwise import rbf_kernel

from kernelsieve import ElasticNetKernelPCA, KernelPCA, KernelWarning, SparseKernelPCA, elastic_net_path
from kernelsieve.solvers.admm import JITTER, admm
from kernelsieve.threads import one_blas_thread

from . import wang_tanaka_2016_pictures as pictures
from .datasets import MissingData, load_file
from .report import Report

CENTERS = np.array([(-0.5, -0.2), (0.0, 0.6), (0.5, 0.0)])
ROWS_A_CLUSTER, SPREAD = 30, 0.1
N_PARABOLA, PARABOLA_NOISE, N_FRESH = 500, 0.2, 2000
N_MNIST = 500
CLUSTER_SEEDS, PARABOLA_SEEDS, MNIST_SEEDS = range(10), range(5), range(5)  # the first is drawn
EPS_REL, ADMM_CAP = 1e-4, 300  # the same in all of the paper's experiments
MAX_PASSES = 50  # of p and a in turn: more than any of the problems needs

PENALTY_FACTORS = (0.1, 1.0, 10.0)  # of the paper's rho
LARGE_N = (500, 1000, 2000)
LONG_RUN = 3000  # ADMM iterations, ten times the paper's cap
MINIMUM_GAP = 1e-9  # to which a long run's minimum is known, relative
SIZES = (5, 10, 20)  # nonzeros a component, for what the path keeps

EXACT, ALGORITHM, PSEUDO, MINIMISER = "kernel PCA", "Algorithm 1", "with pseudo-inverse", "minimiser"
ALTERNATING, SAME_SIZE = "minimiser, alternating", "minimiser, as many nonzeros"
TRAIN, TEST = "training rows", "test rows"

ALIKE = 0.9  # cosine of two components that count as alike
SMALL_PART = 0.3  # of the rows
SLIGHTLY = 0.01  # of the optimal error
CLOSE = 1.5  # ratio of nonzeros up to which two counts are taken for the same


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


CLUSTERS = Setting(1 / (2 * 0.05), (0.02, 0.02, 0.009, 0.008, 0.006, 0.007, 0.01, 0.01), 0.1, penalty=0.01)
EQUAL = Setting(1 / (2 * 0.5**2), (0.05,) * 4, 0.05, penalty=0.09, outer_max_iter=60)
RISING = replace(EQUAL, alphas=(0.05, 0.07, 0.08, 0.09))
MNIST = Setting(
    1 / (2 * 700**2), (0.002, 0.002, 0.004), 0.001, penalty=0.01, eps_abs=1e-2, outer_max_iter=30, outer_tol=1e-6
)


class Claim(NamedTuple):
    """A statement of the paper, what was found, and whether it holds."""

    statement: str
    found: str
    holds: bool


class Artefact(NamedTuple):
    """Something seen in Algorithm 1's output, a possible cause, what was found, and whether it is the cause."""

    effect: str
    cause: str
    found: str
    shown: bool


def run(report: Report) -> None:
    """All figures, then what reproduces and what is an artefact."""
    report.text("# Sparse kernel PCA based on elastic net regularization (Wang & Tanaka 2016)")
    claims, artefacts = clusters(report)
    drawn = {"parabola": (parabola_problem(0), parabola_rows(len(PARABOLA_SEEDS), N_FRESH))}
    parts = [parabola(report)]
    try:
        drawn["MNIST"] = mnist_problem(0), mnist_test_rows()
        parts.append(mnist(report))
    except MissingData as missing:
        report.text(f"Skipped: needs {missing}.")
    for more_claims, more_artefacts in parts:
        claims, artefacts = claims + more_claims, artefacts + more_artefacts
    artefacts.append(large_n(report))
    long_runs(report, [clusters_problem(0), *(problem for problem, _ in drawn.values())])
    paths(report, drawn)
    verdict(report, claims, artefacts)


def verdict(report: Report, claims: list[Claim], artefacts: list[Artefact]) -> None:
    report.text("## What reproduces")
    answers = [(*claim[:-1], yes_no(claim.holds)) for claim in claims]
    report.table(("the paper's statement", "found", "holds"), answers)
    report.text("## What is an artefact\n\nOf stopping before the minimum of the criterion, or of the pseudo-inverse.")
    causes = [(*item[:-1], yes_no(item.shown)) for item in artefacts]
    report.table(("in the output of Algorithm 1", "is it due to", "found", "answer"), causes)


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

    def cross_gram(self, rows: np.ndarray) -> np.ndarray:
        block: np.ndarray = rbf_kernel(rows, self.rows, gamma=self.setting.gamma)
        return block

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

    def errors(self, coef: np.ndarray, cross_gram: np.ndarray) -> np.ndarray:
        """Mean squared errors for the first 1, 2, ... components, of rows with these kernel values."""
        inner = coef.T @ self.gram @ coef
        inner[np.diag_indices_from(inner)] += ~coef.any(axis=0)  # a zero component adds nothing
        scores = solve_triangular(np.linalg.cholesky(inner), (cross_gram @ coef).T, lower=True)
        errors: np.ndarray = 1.0 - np.cumsum(np.mean(scores**2, axis=1))
        return errors


@dataclass(frozen=True)
class Loops:
    """How the loops of Algorithm 1 ended, component by component."""

    n_passes: list[int] = field(default_factory=list)
    n_inner: list[int] = field(default_factory=list)  # ADMM iterations of the last pass
    inner_capped: list[bool] = field(default_factory=list)
    outer_capped: list[bool] = field(default_factory=list)


@dataclass(frozen=True)
class Solution:
    """Sparse components of a problem."""

    name: str
    problem: Problem
    coef: np.ndarray  # (N, M): of unit length in feature space, zero where zero, signs as kernel PCA's
    objective: float  # J summed over components, each at its last p
    loops: Loops

    @property
    def n_nonzero(self) -> list[int]:
        counts: list[int] = np.count_nonzero(self.coef, axis=0).tolist()
        return counts

    @property
    def n_support(self) -> int:
        """Rows that any component uses."""
        return int(np.count_nonzero(self.coef.any(axis=1)))

    @cached_property
    def cosines(self) -> list[float]:
        """Of each component with kernel PCA's."""
        cosines: list[float] = np.sum(self.coef * (self.problem.gram @ self.problem.kernel_pca), axis=0).tolist()
        return cosines

    @cached_property
    def error(self) -> float:
        """Mean squared error of the rows with all components."""
        return float(self.problem.errors(self.coef, self.problem.gram)[-1])

    @property
    def excess(self) -> float:
        """The same over kernel PCA's, less one."""
        return self.error / float(self.problem.errors(self.problem.kernel_pca, self.problem.gram)[-1]) - 1.0


def solution(name: str, problem: Problem, coef: np.ndarray, objective: float, loops: Loops) -> Solution:
    """With components of unit length and of kernel PCA's signs."""
    image = problem.gram @ coef
    lengths = np.sqrt(np.maximum(np.sum(coef * image, axis=0), 0.0))
    signs = np.where(np.sum(problem.kernel_pca * image, axis=0) < 0, -1.0, 1.0)
    return Solution(name, problem, coef * signs / np.where(lengths > 0, lengths, 1.0), objective, loops)


def four_ways(problem: Problem) -> list[Solution]:
    return [
        algorithm_1(problem),
        in_eigenvectors(problem, PSEUDO, pseudo=True),
        minimiser(problem),
        minimiser(problem, ALTERNATING, max_iter=MAX_PASSES),
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelWarning)  # the report says how narrow MNIST's kernel is
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
        values = values + JITTER
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


# Tables and verdicts that all data sets share


def methods_table(report: Report, solutions: Sequence[Solution]) -> None:
    """One seed, method by method."""
    problem = solutions[0].problem
    n, best = len(problem.rows), problem.errors(problem.kernel_pca, problem.gram)[-1]
    rows: list[tuple[Any, ...]] = [(EXACT, joined([n] * problem.n_components), n, "1", f"{best:.4f}", *[""] * 4)]
    for found in solutions:
        loops = found.loops
        counts = joined(found.n_nonzero), found.n_support, span(found.cosines), f"{found.error:.4f}", found.objective
        ends = span(loops.n_passes), span(loops.n_inner), caps(loops)
        rows.append((found.name, *counts, *ends))
    quality = ("nonzeros of each component", "rows used", "cosines with kernel PCA", "MSE", "J")
    report.table(("method", *quality, "passes", "ADMM iterations, last pass", "components at a cap"), rows)


def seeds_table(report: Report, by_seed: Sequence[Sequence[Solution]]) -> None:
    """All seeds, method by method."""
    rows = []
    for found in zip(*by_seed, strict=True):
        flags = [flag for each in found for flag in each.loops.inner_capped]
        rows.append(
            (
                found[0].name,
                span(count for each in found for count in each.n_nonzero),
                float(np.mean(totals(found))),
                span(each.n_support for each in found),
                f"{min(min(each.cosines) for each in found):.3f}",
                percent([each.excess for each in found]),
                out_of(flags) if flags else "",
            )
        )
    counts = ("nonzeros a component", "of all components, mean", "rows used")
    report.table(("method", *counts, "smallest cosine", "MSE above the optimal", "at the ADMM cap"), rows)


def by_method(by_seed: Sequence[Sequence[Solution]], name: str) -> list[Solution]:
    return [each for solutions in by_seed for each in solutions if each.name == name]


def totals(solutions: Iterable[Solution]) -> list[int]:
    """Nonzeros of all components."""
    return [sum(each.n_nonzero) for each in solutions]


def resembles(figure: str, by_seed: Sequence[Sequence[Solution]], name: str) -> Claim:
    found = by_method(by_seed, name)
    smallest = min(min(each.cosines) for each in found)
    share = percent(each.n_support / len(each.problem.rows) for each in found)
    return Claim(
        f"{figure}: the sparse components closely resemble kernel PCA's ({name})",
        f"cosines of at least {smallest:.3f}, {span(count for each in found for count in each.n_nonzero)} nonzeros a "
        f"component, all components together {share} of the rows; {len(found)} seeds",
        smallest > ALIKE,
    )


def stopped_early(by_seed: Sequence[Sequence[Solution]]) -> Artefact:
    """Whether Algorithm 1 has another number of nonzeros than the minimiser that it heads for."""
    literal, exact = (by_method(by_seed, name) for name in (ALGORITHM, MINIMISER))
    counts = [float(np.mean(totals(found))) for found in (literal, exact)]
    above = [one.objective / other.objective for one, other in zip(literal, exact, strict=True)]
    flags = [flag for each in literal for flag in each.loops.inner_capped]
    return Artefact(
        f"{literal[0].problem.name}: its number of nonzeros",
        "early stopping",
        f"{counts[0]:.0f} in all components, the minimiser has {counts[1]:.0f} (means); it stops after "
        f"{span(n for each in literal for n in each.loops.n_inner)} iterations of ADMM, {out_of(flags)} times at the "
        f"cap, where J is {span(above)} times that of the minimiser",
        max(counts) > CLOSE * min(counts),
    )


def pseudo_inverse(by_seed: Sequence[Sequence[Solution]]) -> Artefact:
    jitter, pseudo = (float(np.mean(totals(by_method(by_seed, name)))) for name in (ALGORITHM, PSEUDO))
    first = [by_method(by_seed, name)[0].n_nonzero[0] for name in (PSEUDO, ALGORITHM, MINIMISER)]
    problem = by_seed[0][0].problem
    rank = np.count_nonzero(inverse_roots(problem, True)[1])
    return Artefact(
        f"{problem.name}: nonzeros when it has K^+ for K^-1",
        "the pseudo-inverse",
        f"{pseudo:.0f} in all components, {jitter:.0f} with the jitter (means); first component of the first seed: "
        f"{first[0]}, {first[1]} with the jitter, {first[2]} at the minimum; K has numerical rank {rank} of "
        f"{len(problem.rows)}",
        pseudo > CLOSE * jitter,
    )


# Fig. 1


def clusters_problem(seed: int) -> Problem:
    noise = np.random.default_rng(seed).standard_normal((3 * ROWS_A_CLUSTER, 2))
    return Problem("three clusters", CLUSTERS, np.repeat(CENTERS, ROWS_A_CLUSTER, axis=0) + SPREAD * noise)


def clusters(report: Report) -> tuple[list[Claim], list[Artefact]]:
    report.text("## Three clusters: 90 rows, sigma^2 = .05, eight components (Fig. 1)\n\n### Seed 0")
    by_seed = [four_ways(clusters_problem(seed)) for seed in CLUSTER_SEEDS]
    drawn = by_seed[0]
    methods_table(report, drawn)
    report.text(same_algorithm(drawn[0]))
    for numbers in (range(4), range(4, 8)):
        which = f"{numbers[0] + 1} to {numbers[-1] + 1}"
        caption = f"Fig. 1, components {which}: rows with nonzero coefficients are circled"
        name = f"fig1_components_{which.replace(' ', '_')}"
        pictures.component_panels(report, [drawn[0], drawn[2]], numbers, name, caption)
    report.text(f"### {len(by_seed)} seeds")
    seeds_table(report, by_seed)
    claims = [resembles("Fig. 1", by_seed, name) for name in (ALGORITHM, MINIMISER)]
    return claims, [stopped_early(by_seed), pseudo_inverse(by_seed)]


def same_algorithm(found: Solution) -> str:
    """How far the estimator, and Algorithm 1 in the eigenvectors' coordinates, are from the solver called directly."""
    setting = found.problem.setting
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the caps were hit is in the table
        options: dict[str, Any] = {"penalty": setting.penalty, "eps_abs": setting.eps_abs}
        estimator = minimiser(found.problem, solver="admm", outer_tol=setting.outer_tol, **options)
    rotated = in_eigenvectors(found.problem, ALGORITHM, pseudo=False)
    far = [component_distance(found, other) for other in (estimator, rotated)]
    return (
        'The tables call the solver itself, for its account of every loop. `ElasticNetKernelPCA(solver="admm")` gives '
        f"the same components to {far[0]:.0e} in feature space; the form in which the pseudo-inverse and the long runs "
        f"below are done gives, with the jitter, the same to {far[1]:.0e}."
    )


def component_distance(one: Solution, other: Solution) -> float:
    """The largest feature-space distance between components of the same number."""
    difference = one.coef - other.coef
    squares = np.sum(difference * (one.problem.gram @ difference), axis=0)
    return float(np.sqrt(np.maximum(squares, 0.0)).max())


# Fig. 2


def parabola_rows(seed: int, n: int = N_PARABOLA) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    return np.column_stack([x, x**2 + PARABOLA_NOISE * rng.standard_normal(n)])


def parabola_problem(seed: int, setting: Setting = EQUAL, n: int = N_PARABOLA) -> Problem:
    return Problem("parabola", setting, parabola_rows(seed, n))


def parabola(report: Report) -> tuple[list[Claim], list[Artefact]]:
    report.text("## A parabola: 500 rows, sigma = .5, four components (Fig. 2)")
    equal, rising = (
        parabola_setting(report, name, setting) for name, setting in (("equal", EQUAL), ("rising", RISING))
    )
    claims = []
    for method in (ALGORITHM, MINIMISER):
        claims += [small_part(name, by_seed, method) for name, by_seed in (("equal", equal), ("rising", rising))]
    for method in (ALGORITHM, MINIMISER):
        counts = [float(np.mean(totals(by_method(by_seed, method)))) for by_seed in (equal, rising)]
        found = f"{counts[0]:.1f} nonzeros with equal, {counts[1]:.1f} with rising alpha, means of {len(equal)} seeds"
        claims.append(Claim(f"Fig. 2: the sparsity depends on alpha ({method})", found, counts[1] < counts[0]))
    on_rho, due_to_stopping = penalties(report)
    return [*claims, on_rho], [stopped_early(equal), due_to_stopping, pseudo_inverse(equal)]


def parabola_setting(report: Report, name: str, setting: Setting) -> list[list[Solution]]:
    """All seeds with one choice of alpha."""
    spelled = f"alpha = ({', '.join(f'{alpha:g}' for alpha in setting.alphas)})"
    by_seed = [four_ways(parabola_problem(seed, setting)) for seed in PARABOLA_SEEDS]
    drawn = by_seed[0]
    report.text(f"### {spelled}, seed 0")
    methods_table(report, drawn)
    caption = f"Fig. 2, {spelled}: rows with nonzero coefficients are circled"
    pictures.component_panels(report, [drawn[0], drawn[2]], range(4), f"fig2_{name}_alpha", caption)
    report.text(f"### {spelled}, {len(by_seed)} seeds")
    seeds_table(report, by_seed)
    return by_seed


def small_part(name: str, by_seed: Sequence[Sequence[Solution]], method: str) -> Claim:
    """The resemblance, and that few rows give it."""
    claim = resembles(f"Fig. 2, {name} alpha", by_seed, method)
    shares = [each.n_support / len(each.problem.rows) for each in by_method(by_seed, method)]
    statement = f"Fig. 2, {name} alpha: a small part of the data captures the same structure ({method})"
    return Claim(statement, claim.found, claim.holds and max(shares) < SMALL_PART)


def penalties(report: Report) -> tuple[Claim, Artefact]:
    """Algorithm 1 with smaller and larger rho."""
    report.text("### Algorithm 1 with other rho (equal alpha, seed 0)")
    values = [factor * EQUAL.penalty for factor in PENALTY_FACTORS]
    found = [algorithm_1(parabola_problem(0, replace(EQUAL, penalty=value))) for value in values]
    exact = minimiser(found[0].problem)
    rows = [
        (name, joined(each.n_nonzero), f"{each.error:.4f}", each.objective, caps(each.loops))
        for name, each in zip([*(f"rho = {value:g}" for value in values), MINIMISER], [*found, exact], strict=True)
    ]
    report.table(("", "nonzeros of each component", "MSE", "J", "components at a cap"), rows)
    counts = totals(found)
    spelled = ", ".join(f"{count} nonzeros at rho = {value:g}" for count, value in zip(counts, values, strict=True))
    differ = max(counts) > CLOSE * min(counts)
    why = f"{spelled}; rho is not in the criterion, whose minimiser has {sum(exact.n_nonzero)}"
    return (
        Claim("Fig. 2: the sparsity depends on rho (Algorithm 1)", spelled, differ),
        Artefact("parabola: its sparsity depends on rho", "early stopping", why, differ),
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
    report.text("## MNIST: 500 raw images, sigma = 700, three components (Figs. 3 and 4)\n\n### Choice 0 of the rows")
    by_seed = [four_ways(mnist_problem(seed)) for seed in MNIST_SEEDS]
    for solutions in by_seed:
        literal = solutions[0]
        solutions.append(minimiser(literal.problem, SAME_SIZE, n_nonzero=literal.n_nonzero))
    drawn = by_seed[0]
    methods_table(report, drawn)
    pictures.coefficient_panels(report, [drawn[0], drawn[2]])
    report.text(f"### {len(by_seed)} choices of the rows")
    seeds_table(report, by_seed)
    claims = [mostly_zero(by_method(by_seed, name)) for name in (ALGORITHM, MINIMISER)]
    return claims + errors_on_mnist(report, by_seed), [stopped_early(by_seed), pseudo_inverse(by_seed)]


def mostly_zero(found: Sequence[Solution]) -> Claim:
    counts = [count for each in found for count in each.n_nonzero]
    spelled = f"{span(counts)} nonzeros of {N_MNIST}; {len(found)} choices of rows"
    return Claim(f"Fig. 3: most of the coefficients are zero ({found[0].name})", spelled, max(counts) < N_MNIST / 2)


def errors_on_mnist(report: Report, by_seed: Sequence[Sequence[Solution]]) -> list[Claim]:
    report.text("### Mean squared error against the number of components (Fig. 4)")
    test, names = mnist_test_rows(), (ALGORITHM, MINIMISER, SAME_SIZE)
    curves: dict[tuple[str, str], list[np.ndarray]] = {(w, n): [] for w in (TRAIN, TEST) for n in (EXACT, *names)}
    for solutions in by_seed:
        problem = solutions[0].problem
        coefs = {EXACT: problem.kernel_pca} | {each.name: each.coef for each in solutions if each.name in names}
        for where, block in ((TRAIN, problem.gram), (TEST, problem.cross_gram(test))):
            for name, coef in coefs.items():
                curves[where, name].append(problem.errors(coef, block))
    rows = [
        (where, name, *(f"{value:.4f}" for value in found[0]), span([float(curve[-1]) for curve in found], digits=4))
        for (where, name), found in curves.items()
    ]
    numbers = [f"{k} PC, choice 0" for k in range(1, len(MNIST.alphas) + 1)]
    report.table(("rows", "method", *numbers, f"{len(MNIST.alphas)} PC, {len(by_seed)} choices"), rows)
    pictures.error_curves(report, {key: found[0] for key, found in curves.items()})
    report.text(narrow_kernel(by_seed[0][0].problem, curves))
    return [slightly_higher(curves, where, name) for where in (TRAIN, TEST) for name in (ALGORITHM, MINIMISER)]


def narrow_kernel(problem: Problem, curves: dict[tuple[str, str], list[np.ndarray]]) -> str:
    between = np.median(problem.gram[np.triu_indices(len(problem.gram), 1)])
    train, test = (100 * (1 - np.mean([curve[-1] for curve in curves[where, EXACT]])) for where in (TRAIN, TEST))
    return (
        f"At sigma = 700 two different images have a median kernel value of {between:.2g}: K is close to the identity, "
        f"and three components of kernel PCA itself take {train:.1f} % off the error of none on the training rows, "
        f"{test:.1f} % on the test rows (means over the choices)."
    )


def slightly_higher(curves: dict[tuple[str, str], list[np.ndarray]], where: str, name: str) -> Claim:
    found, best = (np.array(curves[where, which])[:, -1] for which in (name, EXACT))
    excess, lost = found / best - 1, (found - best) / (1 - best)
    left_out = "" if where == TRAIN else "; not in the paper"
    return Claim(
        f"Fig. 4: MSE slightly above kernel PCA's ({name}, {where}{left_out})",
        f"{percent(excess)} above with three components: {percent(lost)} of what kernel PCA takes off is lost",
        bool(np.all(excess < SLIGHTLY)),
    )


# More rows, longer runs


def large_n(report: Report) -> Artefact:
    report.text("## More rows: the parabola's first component, parameters of Fig. 2")
    rows = []
    for n in LARGE_N:
        problem = parabola_problem(0, replace(EQUAL, alphas=EQUAL.alphas[:1]), n)
        for solve in (algorithm_1, minimiser):
            start = time.perf_counter()
            found = solve(problem)
            seconds = f"{time.perf_counter() - start:.2f}"
            quality = found.n_nonzero[0], found.objective, f"{found.cosines[0]:.3f}"
            rows.append((n, found.name, *quality, span(found.loops.n_inner), seconds))
    report.table(("rows", "method", "nonzeros", "J", "cosine", "ADMM iterations", "seconds"), rows)
    (_, _, stopped, value, *_, iterations, _), (_, _, count, least, cosine, *_) = rows[-2:]
    return Artefact(
        f"parabola, {LARGE_N[-1]} rows: its first component is zero",
        "early stopping",
        f"{stopped} nonzeros after {iterations} iterations of ADMM, where J is {value / least:.0f} times its minimum; "
        f"the minimiser has {count}, and cosine {cosine} with kernel PCA",
        stopped == 0 < count,
    )


@dataclass(frozen=True)
class LongRun:
    """The first component's ADMM iterations at p = kernel PCA, run on past where the paper stops."""

    name: str
    n_nonzero: dict[str, np.ndarray]  # by kind of inverse, after 1, 2, ... iterations
    excess: dict[str, np.ndarray]  # J over its minimum, less one; no smaller than the minimum is known
    n_paper: int  # iterations at which the paper's rules or its cap end it
    n_nonzero_minimiser: int


def long_run(problem: Problem) -> LongRun:
    first = replace(problem, setting=replace(problem.setting, alphas=problem.setting.alphas[:1]))
    alpha, start = first.setting.alphas[0], np.eye(len(problem.rows))[0]
    minimum = minimiser(first, tol=MINIMUM_GAP)
    counts, excess = {}, {}
    with one_blas_thread():
        n_paper = len(until_settled(iterates(first, alpha, start, pseudo=False)))
        for name, pseudo in ((ALGORITHM, False), (PSEUDO, True)):
            done = list(islice(iterates(first, alpha, start, pseudo), LONG_RUN))
            counts[name] = np.array([np.count_nonzero(iterate.coef) for iterate in done])
            values = np.array([iterate.objective for iterate in done])
            excess[name] = np.maximum(values / minimum.objective - 1.0, MINIMUM_GAP)
    return LongRun(problem.name, counts, excess, n_paper, minimum.n_nonzero[0])


def long_runs(report: Report, problems: Sequence[Problem]) -> None:
    report.text(
        f"## The first component's ADMM, run on to {LONG_RUN} iterations\n\nOne pass at p = kernel PCA, parameters as "
        "above. The excess is J over its minimum, less one."
    )
    found = [long_run(problem) for problem in problems]
    rows = []
    for each in found:
        for name in each.n_nonzero:
            places = [n for iteration in (each.n_paper, LONG_RUN) for n in reading(each, name, iteration)]
            rows.append((each.name, name, each.n_paper, *places, each.n_nonzero_minimiser))
    there = ("the paper stops at", "nonzeros there", "excess there")
    later = (f"nonzeros at {LONG_RUN}", f"excess at {LONG_RUN}")
    report.table(("data", "inverse", *there, *later, "nonzeros of the minimiser"), rows)
    pictures.long_runs(report, found)


def reading(run: LongRun, name: str, iteration: int) -> tuple[int, str]:
    excess = float(run.excess[name][iteration - 1])
    return int(run.n_nonzero[name][iteration - 1]), f"< {MINIMUM_GAP:g}" if excess <= MINIMUM_GAP else f"{excess:.2g}"


# The path


def paths(report: Report, problems: dict[str, tuple[Problem, np.ndarray]]) -> None:
    report.text(
        "## The path, and what a few nonzeros keep\n\n"
        "Lost: per cent of what kernel PCA captures, on training rows / on rows not seen. `rows used` is what "
        "`n_nonzero` a component come to together; the models of the last two columns have as many support points."
    )
    rows = [
        (name, size, *lost(problem, unseen, size)) for name, (problem, unseen) in problems.items() for size in SIZES
    ]
    sieve = ('SparseKernelPCA, "targeted"', 'SparseKernelPCA, "optimized"')
    report.table(("data", "n_nonzero", "rows used", "lost, as found", "lost, refit=True", *sieve), rows)
    drawn = {
        f"{name}, {problem.n_components} components": elastic_net_path(elastic_net(problem), problem.rows)
        for name, (problem, _) in problems.items()
    }
    pictures.paths(report, drawn)


def lost(problem: Problem, unseen: np.ndarray, size: int) -> list[Any]:
    """Rows used by so many nonzeros a component, and what models of that size lose."""
    shared: dict[str, Any] = {"gamma": problem.setting.gamma, "center": False}
    exact = fitted(KernelPCA(problem.n_components, kernel="rbf", **shared), problem)
    sparse, refit = (fitted(elastic_net(problem, n_nonzero=size, refit=refit), problem) for refit in (False, True))
    others = (
        SparseKernelPCA(problem.n_components, n_support=sparse.n_support_, selection=rule, random_state=0, **shared)
        for rule in ("targeted", "optimized")
    )
    shares = [
        [100 * (1 - model.score(rows) / exact.score(rows)) for rows in (problem.rows, unseen)]
        for model in (sparse, refit, *(fitted(other, problem) for other in others))
    ]
    return [sparse.n_support_, *(" / ".join(f"{share:.2g}" for share in pair) for pair in shares)]


# Numbers as text


def span(values: Iterable[float], digits: int = 3) -> str:
    """Smallest and largest, or the one value there is; counts in full."""
    ordered = sorted(values)
    ends = [f"{v:.{digits}g}" if isinstance(v, float) else str(v) for v in (*ordered[:1], *ordered[-1:])]
    return " to ".join(dict.fromkeys(ends))


def percent(shares: Iterable[float]) -> str:
    return f"{span([100 * float(share) for share in shares], digits=2)} %"


def joined(values: Sequence[Any]) -> str:
    return " ".join(str(value) for value in values)


def out_of(flags: Sequence[bool]) -> str:
    return f"{sum(flags)} of {len(flags)}"


def caps(loops: Loops) -> str:
    """Components stopped by each cap, where there is one."""
    pairs = (("ADMM", loops.inner_capped), ("passes", loops.outer_capped))
    return ", ".join(f"{name} {out_of(flags)}" for name, flags in pairs if flags)


def yes_no(value: bool) -> str:
    return "yes" if value else "no"
