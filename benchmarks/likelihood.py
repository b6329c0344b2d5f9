"""LikelihoodKernelPCA: the coordinate rule against the published one, and a million rows."""

from __future__ import annotations

import time

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from experiments.datasets import median_gamma, usps
from kernelsieve import LikelihoodKernelPCA
from kernelsieve.fit.plan import PLAN
from kernelsieve.fit.problem import Problem
from kernelsieve.fit.sample import Sample
from kernelsieve.kernels import RBF
from kernelsieve.rows.rows import ArrayRows
from kernelsieve.search.chooser import dictionary
from kernelsieve.solvers.likelihood import Likelihood, coordinate_ascent, sweeps
from kernelsieve.threads import effective_n_threads, one_blas_thread

from .report import Report
from .timing import race

SWEEPS = 60


def clusters(n_rows: int) -> np.ndarray:
    """Tipping's three clusters, with more rows."""
    rng = np.random.default_rng(0)
    centers = np.array([(-0.5, -0.2), (0.0, 0.6), (0.5, 0.0)])
    return centers[rng.integers(0, 3, n_rows)] + 0.1 * rng.standard_normal((n_rows, 2))


def published_rule(report: Report) -> None:
    report.section(
        "Likelihood: the coordinate rule",
        f"2000 rows, all candidates, noise variance 0.25 of its upper end. The published fast rule does {SWEEPS} "
        "sweeps from w = 1/N, BLAS threads as they come; ours starts empty and ends when no step gains 1e-8 a row.",
    )
    digits = usps().train[:2000]
    for name, X, gamma in (("three clusters", clusters(2000), 16.0), ("USPS", digits, median_gamma(digits))):
        gram = rbf_kernel(X, gamma=gamma)
        likelihood = Likelihood(gram, gram, float(len(X)), float(len(X)))
        noise_variance = 0.25 * likelihood.largest_noise_variance

        def ours(likelihood: Likelihood = likelihood, noise_variance: float = noise_variance) -> float:
            with one_blas_thread():
                return float(coordinate_ascent(likelihood, noise_variance).log_likelihood[-1])

        start = time.perf_counter()
        published = sweeps(likelihood, noise_variance, max_iter=SWEEPS, tol=0.0)
        slow = time.perf_counter() - start
        quick = race({"ours": ours}, 3)["ours"]
        gain = ours() - float(published.log_likelihood[-1])
        report.at_least(f"{name}: log-likelihood above the fast rule's", gain, 0.0, "{:.3f}")
        note = f" ({quick:.2f} s; {SWEEPS} sweeps {slow:.0f} s)"
        report.at_least(f"{name}: times faster", slow / quick, 20.0, "{:.0f}x", note)


def million_rows(report: Report) -> None:
    report.section("Likelihood: a million rows", "1,000,000 x 10 float32, dictionary of 512 rows.")
    X = np.random.default_rng(0).standard_normal((1_000_000, 10), dtype=np.float32)
    rng = np.random.default_rng(0)
    source = ArrayRows(X, None)
    rows = source.sample(PLAN.rows_for_dictionary(512), rng)
    sample = Sample.of(rows, RBF(gamma=median_gamma(X[:2000])), 1, center=False, n_threads=effective_n_threads(None))
    start = time.perf_counter()
    with one_blas_thread():
        problem = Problem(source, sample, sample.kernel.gamma, rng)
        problem.span(dictionary(problem, 512))
    one_pass = time.perf_counter() - start
    start = time.perf_counter()
    model = LikelihoodKernelPCA(n_dictionary=512, random_state=0).fit(X)
    whole = time.perf_counter() - start
    note = f" (fit {whole:.1f} s, of which dictionary and pass {one_pass:.1f} s; {model.n_support_} vectors)"
    report.at_most("fit beyond the pass", max(whole - one_pass, 0.0), 10.0, "{:.1f} s", note)
