"""Robust sparse PCA via weighted elastic net, Wang & Cheng (2012).

losses      Fig. 1: a line through points with outliers, by squared, absolute and bounded loss; equations (7)-(9)
table_1     the algorithm as printed, and how it ends; Theorems 1 and 2
sources     Figs. 2 and 3: three sources in three kinds of noise, over gamma and l2
outliers    what the paper is about, and does not measure: 0 to 40 % of them, clustered and scattered; beside R1-PCA and
            principal component pursuit, which its introduction names
feature_space   our question: the same weight under a kernel
"""

from __future__ import annotations

import warnings

from ..report import Report
from .feature_space import feature_space
from .losses import figure_1
from .outliers import outlier_study
from .sources import sources
from .table_1 import printed_algorithm


def run(report: Report) -> None:
    """All five."""
    warnings.simplefilter("ignore")  # the paper's weights circle, and are said to
    report.title(
        "Robust sparse PCA via weighted elastic net (Wang & Cheng 2012)",
        "**Readings.** The paper names gamma_1 = gamma_2 = 100, tau = .5, c = 8, n = 500, D = 500 and noise levels, "
        "but neither l2 (lambda_1, lambda_2), nor filters, nor a stopping rule: coloured noise is "
        "autoregressive with coefficient .5, pink noise has power 1/f, one noise level is set by the weakest source, "
        "and l2 is varied. As (15) is printed x1 has no noise where it is off; where that matters, noise everywhere "
        'stands beside it. `weights="residual"` is the scheme with |alpha| = 1 and unit beta in the deflation, '
        "without which it ends at zero.",
    )
    figure_1(report)
    printed_algorithm(report)
    sources(report)
    outlier_study(report)
    feature_space(report)
