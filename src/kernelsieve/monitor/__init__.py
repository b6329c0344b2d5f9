"""Monitoring: is this row normal, and if not, which variables make it unusual?

estimator    KernelMonitor
recipe       from its parameters to a fit
table        raw tables before it: encoded, judged where that is possible, read by column
causes       why a row is odd, in words
series       rows in order, wherever they are
inputs       windows of rows, standardised or whitened
statistics   T2, SPE and the contributions of the inputs
limits       quantiles of held-out folds, smoothing, the rule of k of n
crossfit     a detector and its held-out values, by refits or by the moments of folds
online       live rows judged one after another, and the state kept between them
warnings     what a monitor says of its own limit
"""

from .estimator import KernelMonitor, MonitorStatistics
from .online import Record

__all__ = ["KernelMonitor", "MonitorStatistics", "Record"]
