"""What in Algorithm 1's output is due to where it stops: other rho, more rows, longer runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from kernelsieve.threads import one_blas_thread

from ..report import Report, span
from . import pictures
from .problems import EQUAL, N_PARABOLA, Problem, Solution, caps, joined, out_of, parabola_problem, rows_for
from .solvers import ALGORITHM, MINIMISER, PSEUDO, algorithm_1, inverse_roots, iterates, minimiser, until_settled
from .tables import by_method, totals

PENALTY_FACTORS = (0.1, 1.0, 10.0)  # of the paper's rho
LARGE_N = (500, 1000, 2000)
LONG_RUN = 3000  # ADMM iterations, ten times the paper's cap
MINIMUM_GAP = 1e-9  # to which a long run's minimum is known, relative
CLOSE = 1.5  # ratio of nonzeros up to which two counts are taken for the same


class Artefact(NamedTuple):
    """Something seen in Algorithm 1's output, a possible cause, what was found, and whether it is the cause."""

    effect: str
    cause: str
    found: str
    shown: bool


def artefact_table(report: Report, artefacts: Sequence[Artefact]) -> None:
    report.text("## What is an artefact\n\nOf stopping before the minimum of the criterion, or of the pseudo-inverse.")
    causes = [(*item[:-1], "yes" if item.shown else "no") for item in artefacts]
    report.table(("in the output of Algorithm 1", "is it due to", "found", "answer"), causes)


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


def penalties(report: Report) -> Artefact:
    """Algorithm 1 with smaller and larger rho."""
    report.text("## The parabola, Algorithm 1 with other rho (equal alpha, seed 0)")
    values, n = [factor * EQUAL.penalty for factor in PENALTY_FACTORS], rows_for(report, N_PARABOLA)
    found = [algorithm_1(parabola_problem(0, replace(EQUAL, penalty=value), n)) for value in values]
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
    report.verdict(
        "Fig. 2", "the sparsity depends on rho (Algorithm 1)", found=why, holds=differ, tried="seed 0", key="rho"
    )
    return Artefact("parabola: its sparsity depends on rho", "early stopping", why, differ)


def large_n(report: Report) -> Artefact:
    report.text("## More rows: the parabola's first component, parameters of Fig. 2")
    rows = []
    sizes = (rows_for(report, LARGE_N[0]),) if report.quick else LARGE_N
    for n in sizes:
        problem = parabola_problem(0, replace(EQUAL, alphas=EQUAL.alphas[:1]), n)
        for solve in (algorithm_1, minimiser):
            found = solve(problem)
            quality = found.n_nonzero[0], found.objective, f"{found.cosines[0]:.3f}"
            rows.append((n, found.name, *quality, span(found.loops.n_inner)))
    report.table(("rows", "method", "nonzeros", "J", "cosine", "ADMM iterations"), rows)
    (_, _, stopped, value, *_, iterations), (_, _, count, least, cosine, *_) = rows[-2:]
    report.fact(large_n=sizes[-1], large_n_algorithm=stopped, large_n_minimiser=count)
    return Artefact(
        f"parabola, {sizes[-1]} rows: its first component is zero",
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


def long_run(problem: Problem, length: int) -> LongRun:
    first = replace(problem, setting=replace(problem.setting, alphas=problem.setting.alphas[:1]))
    alpha, start = first.setting.alphas[0], np.eye(len(problem.rows))[0]
    minimum = minimiser(first, tol=MINIMUM_GAP)
    counts, excess = {}, {}
    with one_blas_thread():
        n_paper = len(until_settled(iterates(first, alpha, start, pseudo=False)))
        for name, pseudo in ((ALGORITHM, False), (PSEUDO, True)):
            done = list(islice(iterates(first, alpha, start, pseudo), length))
            counts[name] = np.array([np.count_nonzero(iterate.coef) for iterate in done])
            values = np.array([iterate.objective for iterate in done])
            excess[name] = np.maximum(values / minimum.objective - 1.0, MINIMUM_GAP)
    return LongRun(problem.name, counts, excess, n_paper, minimum.n_nonzero[0])


def long_runs(report: Report, problems: Sequence[Problem]) -> None:
    length = LONG_RUN // 10 if report.quick else LONG_RUN
    report.text(
        f"## The first component's ADMM, run on to {length} iterations\n\nOne pass at p = kernel PCA, parameters as "
        "above. The excess is J over its minimum, less one."
    )
    found = [long_run(problem, length) for problem in report.some(problems, 2)]
    rows = []
    for each in found:
        for name in each.n_nonzero:
            places = [n for iteration in (each.n_paper, length) for n in reading(each, name, iteration)]
            rows.append((each.name, name, each.n_paper, *places, each.n_nonzero_minimiser))
    there = ("the paper stops at", "nonzeros there", "excess there")
    later = (f"nonzeros at {length}", f"excess at {length}")
    report.table(("data", "inverse", *there, *later, "nonzeros of the minimiser"), rows)
    pictures.long_runs(report, found)


def reading(run: LongRun, name: str, iteration: int) -> tuple[int, str]:
    excess = float(run.excess[name][iteration - 1])
    return int(run.n_nonzero[name][iteration - 1]), f"< {MINIMUM_GAP:g}" if excess <= MINIMUM_GAP else f"{excess:.2g}"
