"""Plots of fitted models; every function draws on matplotlib Axes and returns them.

    contours        a component as a function on the plane, with the rows and the support points
    scores          the rows by their scores in two components
    support         the support points: as images, as points in the plane, or as a heat map
    captured_curve  captured variance against the number of support points
    spectrum        explained variance of each component, and their sum
    likelihood_path representing vectors and explained variance against the noise variance
    path            nonzero coefficients and captured variance along an elastic net's path
    loading_path    the loadings of a sparse component as its penalty falls
    monitor_chart   SPE and T2 of rows over time, with limits and alarms
    contributions   how much each input contributes to a monitor's SPE: bars for a row, or a heat map over time
    sensitivity     how strongly each component depends on each input
    traversal       how a row changes as one component grows
    drift           how far the components of a stream have turned since its points were chosen
    agreement       how well the scores of each component agree with those of exact kernel PCA

Models can be fitted and used without this package, so matplotlib is imported only when a plot is drawn.  Colour-blind
readers can tell the colours apart, and as far as possible markers or labels say the same as the colours.
"""

from .curves import agreement, captured_curve, drift, likelihood_path, loading_path, path, spectrum
from .maps import contours, scores, support
from .monitor import contributions, monitor_chart, sensitivity, traversal
from .style import COLORS, MARGIN, MARKERS, ROW_COLOR

__all__ = [
    "COLORS",
    "MARGIN",
    "MARKERS",
    "ROW_COLOR",
    "agreement",
    "captured_curve",
    "contours",
    "contributions",
    "drift",
    "likelihood_path",
    "loading_path",
    "monitor_chart",
    "path",
    "scores",
    "sensitivity",
    "spectrum",
    "support",
    "traversal",
]
