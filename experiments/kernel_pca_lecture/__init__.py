"""Kernel PCA as a lecture teaches it (CS5489, lecture 8.2): its panels, its algorithms, its claims.

    a curve           what PCA cannot see, and what kernel PCA with a polynomial kernel makes of it
    three algorithms  a feature map with an SVD, with the covariance's eigenvectors, and the kernel trick: one result
    three clusters    two components of an RBF kernel split them
    8 x 8 digits      logistic regression on 1 .. 60 components, beside PCA's and the pixels
    preprocessing     for clustering and for regression

Each with exact kernel PCA, and with a few support points.
"""

from __future__ import annotations

from ..report import Report
from .panels import clusters, parabola, three_algorithms
from .preprocessing import clustering, digits, regression


def run(report: Report) -> None:
    """All of it."""
    report.title(
        "Kernel PCA: the lecture (CS5489, 8.2)",
        "The slides print no numbers: what is checked is what they say in words and show in their panels. Data are "
        "made after the panels' look; every number is over seeds.",
    )
    parabola(report)
    three_algorithms(report)
    clusters(report)
    digits(report)
    clustering(report)
    regression(report)
