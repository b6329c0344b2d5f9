"""Monitoring: is this row normal, and if not, which variables make it unusual?

estimator    KernelMonitor
table        raw tables before it: encoded, judged where that is possible, read by column; why a row is odd, in words
series       rows in order, wherever they are
statistics   windows standardised or whitened, T2 and SPE of them, the contributions of the inputs; limits as
             quantiles of held-out folds, smoothing, the rule of k of n
crossfit     from a monitor's parameters to a detector and its held-out values, by refits or by the moments of folds
online       live rows judged one after another, and the state kept between them
"""

from .estimator import KernelMonitor, MonitorStatistics
from .online import Record

__all__ = ["KernelMonitor", "MonitorStatistics", "Record"]
