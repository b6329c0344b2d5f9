"""Solvers of elastic-net sparse kernel PCA, against the least that other ways must pay.

The functions take a Report, as those of bench.py do.
"""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import lars_path_gram
from sklearn.metrics.pairwise import rbf_kernel

from experiments.datasets import load_file
from kernelsieve.kernels import named_kernel
from kernelsieve.solvers.alternation import Alternation, ImitationProblem, admm, alternate, kernel_pca_directions
from kernelsieve.solvers.greedy import pivoted_cholesky
from kernelsieve.solvers.lasso import lasso
from kernelsieve.solvers.path import descend
from kernelsieve.solvers.quadratic import HessianQuadratic, elastic_net_quadratic, largest_alpha
from kernelsieve.threads import one_blas_thread

from .report import Report
from .timing import in_new_process, race

GAMMA, L2, ALPHA, PENALTY = 2.0, 0.05, 0.05, 0.09  # the paper's parabola: sigma = .5
N_COMPONENTS = 4
REPEATS = 7


def parabola(n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, n)
    return np.column_stack([x, x**2 + 0.2 * rng.standard_normal(n)])


def coordinates(rows: np.ndarray) -> np.ndarray:
    cross_gram = named_kernel("rbf", gamma=GAMMA).bind(rows)
    found = pivoted_cholesky(lambda j: cross_gram(rows[j : j + 1])[0], np.ones(len(rows)))
    return np.ascontiguousarray(found.filled)


def end_to_end(rows: np.ndarray) -> Alternation:
    """Factor, kernel PCA and one a-step for each component, from the rows."""
    with one_blas_thread():
        factor = coordinates(rows)
        moment = factor.T @ factor
        start = kernel_pca_directions(moment, N_COMPONENTS)
        return alternate(ImitationProblem(factor, moment, L2), start, [ALPHA] * N_COMPONENTS)


def parabola_speed(report: Report) -> None:
    report.section(
        "Elastic-net a-steps",
        "The paper's parabola, 4 components, alpha = .05, from the rows to coefficients with a duality gap of 1e-6; "
        "against one numpy.linalg.eigh of the N x N gram, and against literal ADMM (gram given, one outer pass).",
    )
    for n, target in ((500, 1.5), (1000, 0.6), (2000, 0.12)):
        rows = parabola(n)
        gram = rbf_kernel(rows, gamma=GAMMA)
        times = race(
            {"ours": lambda r=rows: end_to_end(r), "eigh": lambda g=gram: np.linalg.eigh(g)}, 3 if n > 1000 else REPEATS
        )
        found = end_to_end(rows)
        note = (
            f" ({times['ours'] * 1e3:.0f} ms; eigh {times['eigh'] * 1e3:.0f} ms; nonzeros "
            f"{', '.join(map(str, np.count_nonzero(found.coef, axis=0)))}; largest relative gap {found.gap.max():.0e})"
        )
        report.at_most(f"N = {n}: time / eigh", times["ours"] / times["eigh"], target, "{:.2f}x", note)
        against_admm(report, gram, found.objective[0], times["ours"])


def against_admm(report: Report, gram: np.ndarray, objective: float, seconds: float) -> None:
    alphas = [ALPHA] * N_COMPONENTS
    results = []
    times = race(
        {"admm": lambda: results.append(admm(gram, alphas, L2, penalty=PENALTY, outer_max_iter=1))},
        1 if len(gram) > 1000 else 3,
    )
    literal = results[0]
    counts = ", ".join(map(str, np.count_nonzero(literal.coef, axis=0)))
    note = f" ({times['admm']:.2f} s; J {literal.objective.sum():.4f} against {objective:.4f}; nonzeros {counts})"
    report.line(
        f"N = {len(gram)}: times faster than literal ADMM, with J no higher",
        "J no higher",
        f"{times['admm'] / seconds:.0f}x{note}",
        bool(objective <= literal.objective.sum()),
    )


def a_step_speed(report: Report) -> None:
    report.section("One a-step", "Parabola, relative alpha .01, factor and kernel PCA given; slowest of 4 components.")
    factor = coordinates(parabola(4000))
    moment = factor.T @ factor
    problems = [elastic_net_quadratic(factor, moment, u, L2) for u in kernel_pca_directions(moment, N_COMPONENTS).T]
    with one_blas_thread():
        times = race(
            {str(k): lambda p=p: lasso(p, 0.01 * largest_alpha(p)) for k, p in enumerate(problems)}, 3 * REPEATS
        )
    report.at_most("N = 4000", max(times.values()) * 1e3, 10.0, "{:.1f} ms")


def path_speed(report: Report) -> None:
    report.section("Path", "40 alphas from alpha_max to .01 alpha_max, 10,000 candidates, against one solve at .01.")
    factor = coordinates(parabola(10_000))
    moment = factor.T @ factor
    for k, u in enumerate(kernel_pca_directions(moment, 2).T, start=1):
        problem = elastic_net_quadratic(factor, moment, u, L2)
        alphas = largest_alpha(problem) * np.geomspace(1.0, 0.01, 40)
        with one_blas_thread():
            times = race(
                {
                    "one": lambda p=problem, alphas=alphas: lasso(p, alphas[-1]),
                    "path": lambda p=problem, alphas=alphas: list(descend(p, alphas)),
                },
                REPEATS,
            )
        note = f" ({times['path'] * 1e3:.0f} ms; one solve {times['one'] * 1e3:.1f} ms)"
        report.at_most(f"component {k}: path / one solve", times["path"] / times["one"], 20.0, "{:.1f}x", note)


def large_support_speed(report: Report) -> None:
    report.section("Large supports", "500 raw MNIST digits, the paper's parameters, Hessian given.")
    pixels = load_file("mnist")["x_train"]
    chosen = np.random.default_rng(0).choice(len(pixels), 500, replace=False)
    gram = rbf_kernel(pixels[chosen].reshape(500, -1).astype(float), gamma=1 / (2 * 700**2))
    hessian = gram @ gram + 0.001 * gram
    values, vectors = np.linalg.eigh(gram)
    for k, alpha in enumerate((0.002, 0.002, 0.004), start=1):
        linear = gram @ gram @ vectors[:, -k] / np.sqrt(values[-k])
        problem = HessianQuadratic(hessian, linear, float(values[-k]))
        with one_blas_thread():
            times = race(
                {
                    "ours": lambda p=problem, a=alpha: lasso(p, a),
                    "lars": lambda c=linear, a=alpha: lars_path_gram(
                        c, hessian, n_samples=1, alpha_min=a, method="lasso", return_path=False
                    ),
                },
                REPEATS,
            )
        found = len(lasso(problem, alpha).active)
        note = f" ({times['ours'] * 1e3:.1f} ms; lars_path_gram {times['lars'] * 1e3:.1f} ms)"
        report.at_most(
            f"component {k}, {found} nonzeros: time / LARS", times["ours"] / times["lars"], 1.0, "{:.2f}x", note
        )


LARGE = """
import numpy as np, time, warnings
warnings.simplefilter("ignore")
from kernelsieve import ElasticNetKernelPCA
def peak(): return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1]) / 2**20
X = np.random.default_rng(0).standard_normal((N, 10))
before = peak()
best = 9e9
for _ in range(2):
    start = time.perf_counter()
    ElasticNetKernelPCA(4, alpha=0.1, n_dictionary=256, random_state=0).fit(X)
    best = min(best, time.perf_counter() - start)
print(best / 4, peak() - before)
"""


def many_rows(report: Report) -> None:
    report.section("Many rows", "10 features, dictionary of 256 rows, 4 components, whole fit, best of 2.")
    for n_rows, target in ((100_000, 1.0), (1_000_000, 8.0)):
        seconds, gigabytes = map(float, in_new_process(LARGE.replace("N,", f"{n_rows},")).split())
        report.at_most(f"{n_rows:,} rows: seconds a component", seconds, target, "{:.2f} s")
        report.at_most(f"{n_rows:,} rows: memory beyond the rows", gigabytes, 2.5, "{:.2f} GB")
