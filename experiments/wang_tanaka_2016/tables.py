"""Tables that the figures share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..report import Report, span
from .problems import Solution, caps, joined, out_of, percent
from .solvers import EXACT


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
