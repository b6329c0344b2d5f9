"""A monitor's statistics of rows some of which have missing values, as `KernelMonitor.update` would give them.

A row with a gap has no statistic, no window reaches over it, and smoothing goes on behind it where it stopped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from ..monitor.estimator import MonitorStatistics
from ..monitor.limits import smoothed


def statistics_with_gaps(monitor: Any, X: Any) -> MonitorStatistics:
    """SPE and T2 of each row, NaN where a value is missing."""
    whole = _rows_without_gaps(X)
    if whole is None or whole.all():
        found: MonitorStatistics = monitor.statistics(X)
        return found
    spe, t2 = np.full((2, len(whole)), np.nan)
    limits = monitor.limits_["spe"], monitor.limits_["t2"]
    if not whole.any():
        return MonitorStatistics(spe, t2, *limits)
    labels = np.cumsum(~whole)[whole]  # rows with a gap between them are of different series
    t2[whole], spe[whole], _ = monitor._row_statistics(_safe_indexing(X, np.flatnonzero(whole)), labels)
    return MonitorStatistics(smoothed(spe, monitor._fitted_smoothing, monitor.spe_mean_), t2, *limits)


def _rows_without_gaps(X: Any) -> np.ndarray | None:
    """Whether each row has all its values; None where X is no table of numbers in memory."""
    if not (isinstance(X, list | np.ndarray) or hasattr(X, "columns")) or hasattr(X, "dask"):
        return None
    try:
        values = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return None if values.ndim != 2 else np.asarray(~np.isnan(values).any(axis=1))
