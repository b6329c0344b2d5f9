"""Pictures of fitted models, each drawn on an Axes and returned as one.

    contours        a component over the plane, with the rows and the support points (the papers' figures)
    scores          rows in two components
    support         the support points: as images, as points of the plane, or as a heat map
    captured_curve  captured variance against the number of support points
    spectrum        explained variance of each component, and their sum
    likelihood_path representing vectors and explained variance against the noise variance
    path            nonzero coefficients and captured variance along an elastic net's path
    loading_path    the loadings of a sparse component as its penalty falls
    monitor_chart   SPE and T2 of rows in time, with limits and alarms
    contributions   which inputs a monitor's SPE comes from: bars for a row, a heat map over time
    sensitivity     which inputs each component depends on
    traversal       how a row changes as one component grows
    drift           how far the components of a stream have turned since points were chosen

Nothing here is needed to fit or to use a model, so matplotlib is imported only when a picture is drawn.
Colour-blind readers can tell the colours apart, and no meaning rests on colour alone: markers or labels repeat it.
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
