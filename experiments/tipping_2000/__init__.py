"""Tipping (2000), Sparse kernel principal component analysis: its figures, and which of its statements hold.

    clusters    three clusters, 90 rows: contours of nine components from all kernels and from the few that are left,
                the reconstruction error over the plane, vectors kept against the noise variance
    diabetes    Pima, 200 + 332 rows: reconstruction error and test errors of a linear SVM for 1 .. 25 components

Features are not centred, as in the paper.  The kernel is exp(-|x - y|^2 / r^2), so k(x, x) = 1 and the mean square
reconstruction error of the first M components is 1 - mean_n |z_n|^2.
"""

from __future__ import annotations

from ..datasets import MissingData
from ..report import Report
from .clusters import clusters
from .diabetes import diabetes

IN_TEXT, OUTSIDE = "said in words", "number from outside the text at hand"
SETTINGS = (
    ("clusters", "three Gaussian clusters in two dimensions", IN_TEXT, "Gaussian kernel, features not centred"),
    ("clusters", "90 rows, kernel width .25", OUTSIDE, "the centres and the spread of .1 are Wang & Tanaka's"),
    ("clusters", "noise variance .0625", OUTSIDE, "said in words: chosen to give a certain number of kernels"),
    ("clusters", "nine components, nine vectors", OUTSIDE, "as many panels as vectors, for comparison"),
    ("Pima", "Ripley's 200 training and 332 test rows", OUTSIDE, "said in words: Pima Indians diabetes"),
    ("Pima", "standardised on the training rows", "a reading", "the text does not say; raw units give another kernel"),
    ("Pima", "kernel width 10, up to 25 components", OUTSIDE, "said in words: near optimal for an SVM"),
    ("Pima", "noise variance .012", "a reading", "said in words: chosen to use a certain number of kernels"),
    ("Pima", "linear SVM, C = 1, standardised scores", "a reading", "the text names neither; other settings below"),
)


def run(report: Report) -> None:
    """Both data sets."""
    report.title("Sparse kernel principal component analysis (Tipping 2000)")
    report.text(
        "The text at hand has lost all of its digits and formulas. What it says in words is checked as the paper's; "
        "numbers that come from elsewhere, and readings where it says nothing, are named here."
    )
    report.table(("experiment", "setting", "where it is from", "remark"), SETTINGS)
    clusters(report)
    try:
        diabetes(report)
    except MissingData as missing:
        report.skip("Pima, Fig. 4", missing)
