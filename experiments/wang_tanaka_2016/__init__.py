"""Wang & Tanaka (2016), Sparse kernel PCA based on elastic net regularization: its figures, and which statements hold.

    figures    Fig. 1, three clusters; Fig. 2, a parabola; Figs. 3 and 4, MNIST
    criteria   J[P, Q] and J[p_k, q_k], the equality (10), centring with the pseudo-inverse
    limits     more rows, other rho, ADMM run on: what in Algorithm 1's output is due to where it stops
    review     what section I says of others: compression sets, reduced sets; and what a few nonzeros keep

Each data set is solved from the same gram K (features not centred) with the paper's parameters, in the ways that
`solvers` names.
"""

from __future__ import annotations

from ..datasets import MissingData
from ..report import Report
from .criteria import criteria
from .figures import clusters, mnist, parabola
from .limits import Artefact, artefact_table, large_n, long_runs, penalties
from .problems import (
    N_MNIST,
    N_PARABOLA,
    Problem,
    clusters_problem,
    mnist_problem,
    mnist_test_rows,
    parabola_problem,
    parabola_rows,
    rows_for,
)
from .review import compression, paths, reduced_sets

N_FRESH, FRESH_SEED = 2000, 5  # rows of the parabola that no model has seen


def run(report: Report) -> None:
    """All figures, then what is an artefact, then what is reviewed."""
    report.title(
        "Sparse kernel PCA based on elastic net regularization (Wang & Tanaka 2016)",
        "Parameters are the paper's. Its rows are not known: drawn anew, seed by seed. **Readings**: features are not "
        "centred, a singular K gets a jitter of 1e-10 where nothing else is said (the pseudo-inverse that the paper "
        'asks for stands beside it), "t = argmin" is an ascent, the coefficients are rescaled with q. What the paper '
        "shows is Algorithm 1 where it stops; the minimiser of its criterion, which it heads for, is our question.",
    )
    artefacts = clusters(report) + parabola(report)
    n_parabola, n_mnist = (rows_for(report, n) for n in (N_PARABOLA, N_MNIST))
    drawn = {"parabola": (parabola_problem(0, n=n_parabola), parabola_rows(FRESH_SEED, N_FRESH))}
    try:
        drawn["MNIST"] = mnist_problem(0, n_mnist), mnist_test_rows()[: 500 if report.quick else None]
        artefacts += mnist(report)
    except MissingData as missing:
        report.skip("MNIST, Figs. 3 and 4", missing)
    problems = [clusters_problem(0), *(problem for problem, _ in drawn.values())]
    artefacts += limits(report, problems)
    artefact_table(report, artefacts)
    criteria(report)
    compression(report, problems)
    reduced_sets(report)
    paths(report, drawn)


def limits(report: Report, problems: list[Problem]) -> list[Artefact]:
    """What depends on where ADMM stops."""
    found = [penalties(report), large_n(report)]
    long_runs(report, problems)
    return found
