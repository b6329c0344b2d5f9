"""The report of a large table: how long it takes beside the fit, and how large the page is."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import kernelsieve
from kernelsieve import SparseKernelPCA

from .report import Report
from .timing import race

N_ROWS, N_COLUMNS = 50_000, 20
COMPONENTS = (5, 10)  # the command line's number for a report, and that of the other sections
LARGEST_PAGE = 5.0  # MB


def grouped_rows() -> np.ndarray:
    """Four groups of correlated columns."""
    rng = np.random.default_rng(0)
    centers = 2 * rng.standard_normal((4, N_COLUMNS))
    mixing = rng.standard_normal((N_COLUMNS, N_COLUMNS)) / N_COLUMNS**0.5
    return centers[rng.integers(0, 4, N_ROWS)] + rng.standard_normal((N_ROWS, N_COLUMNS)) @ mixing


def report_of_many_rows(report: Report) -> None:
    report.section(
        "Report",
        "50,000 x 20 rows: computing and writing the page against the fit alone, in turns. How fast the page reacts is "
        "tested in a browser (tests/report).",
    )
    rows = grouped_rows()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        kernelsieve.report(SparseKernelPCA(2).fit(rows[:500]), rows[:500]).save(path)  # the chart library is kept now
        for n_components in COMPONENTS:
            estimator = SparseKernelPCA(n_components, random_state=0)
            fitted = SparseKernelPCA(n_components, random_state=0).fit(rows)
            times = race(
                {
                    "fit": lambda estimator=estimator: estimator.fit(rows),
                    "report": lambda fitted=fitted: kernelsieve.report(fitted, rows).save(path),
                },
                repeats=7,
            )
            note = f" ({times['report']:.2f} s, fit {times['fit']:.2f} s)"
            name = f"report / fit, {n_components} components"
            report.at_most(name, times["report"] / times["fit"], 3.0, note=note)
        report.at_most("size of the page, MB", path.stat().st_size / 1e6, LARGEST_PAGE)
