"""Monitoring: is this row normal, and if not, which variables make it unusual?

estimator    KernelMonitor
table        raw tables: their rows are encoded; contributions are reported by column, and causes of an alarm in words
series       rows in order, from any source, and windows over them
statistics   standardised or whitened windows, their T2 and SPE, and the contributions of the inputs; limits as
             quantiles of held-out folds; smoothing
crossfit     fits a detector and its held-out values from a monitor's parameters, by refits or from moments of folds
online       judges live rows one after another (drift, the k-of-n rule), and keeps the state between them
"""

from .estimator import KernelMonitor, MonitorStatistics
from .online import Record

__all__ = ["KernelMonitor", "MonitorStatistics", "Record"]
