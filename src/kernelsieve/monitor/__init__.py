"""Monitoring: is this row normal, and which variables say so.

inputs       windows of rows, standardised or whitened
statistics   T2, SPE and the contributions of the inputs
limits       quantiles of held-out folds, smoothing, the rule of k of n
series       rows in order, wherever they are
fitting      a detector and its held-out values, by refits or by the moments of folds
advice       what a monitor says of its own limit
live         what is kept between two rows of a running process
estimator    KernelMonitor
"""

from .estimator import KernelMonitor, MonitorStatistics
from .live import Record

__all__ = ["KernelMonitor", "MonitorStatistics", "Record"]
