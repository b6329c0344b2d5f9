"""Limits that hold on rows which the model has not seen.

A quantile of the training rows' own statistic alarms two to ten times too often, because the model was fitted to them.
So the rows are cut into `cv` contiguous folds, each is scored by a model of the others, and the limit is an order
statistic of those held-out values,

    limit = the k-th smallest of n,     k = ceil((n + 1)(1 - alpha))

for which a new row of the same kind lies above with probability (n + 1 - k)/(n + 1) <= alpha.  What the chance is for
*this* limit is uncertain where n is small: it follows Beta(n + 1 - k, k), of which the central 90 % are reported.
Folds are contiguous because neighbours in time are alike: a random fold would be predicted from its own neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.stats import beta

CONFIDENCE = 0.9  # of the interval of the false alarm rate


@dataclass(frozen=True)
class Limit:
    """A limit, and how often rows of the training kind exceed it."""

    value: float
    rate: float  # expected share of new rows above it
    interval: tuple[float, float]  # that holds the share with probability CONFIDENCE
    n_held_out: int


def limit_of(values: np.ndarray, false_alarm_rate: float) -> Limit:
    """The limit that held-out values give."""
    n = len(values)
    place = min(n, math.ceil((n + 1) * (1 - false_alarm_rate)))
    above = n + 1 - place
    tail = (1 - CONFIDENCE) / 2
    low, high = beta.ppf([tail, 1 - tail], above, place)
    value = float(np.partition(values, place - 1)[place - 1])
    return Limit(value, above / (n + 1), (float(low), float(high)), n)


def fold_of(numbers: np.ndarray, n_rows: int, n_folds: int) -> np.ndarray:
    """The fold of each row number: `n_folds` contiguous stretches of nearly equal length."""
    bounds = [n_rows * fold // n_folds for fold in range(1, n_folds)]
    return np.searchsorted(bounds, numbers, side="right")


def stretch_bounds(ends: np.ndarray, *labels: np.ndarray) -> np.ndarray:
    """Where runs of consecutive row numbers, within which no label changes, begin; at last, their number."""
    breaks = np.diff(ends) != 1
    for label in labels:
        breaks |= np.diff(label) != 0
    return np.concatenate([[0], np.flatnonzero(breaks) + 1, [len(ends)]])


def smoothed(values: np.ndarray, weight: float | None, start: float) -> np.ndarray:
    """The exponentially weighted mean  s_t = weight v_t + (1 - weight) s_(t-1),  s_0 = start; a NaN leaves it still."""
    if weight is None:
        return values
    out, state = np.empty(len(values)), start
    for t, value in enumerate(values.tolist()):
        if value == value:
            state += weight * (value - state)
            out[t] = state
        else:
            out[t] = math.nan
    return out


def smoothed_stretches(values: np.ndarray, bounds: np.ndarray, weight: float | None, start: float) -> np.ndarray:
    """`smoothed`, begun anew in every stretch."""
    if weight is None:
        return values
    parts = [smoothed(values[low:high], weight, start) for low, high in pairwise(bounds.tolist())]
    return np.concatenate(parts)


def k_of_n(exceeded: np.ndarray, rule: tuple[int, int]) -> np.ndarray:
    """Whether at least k of the last n rows, this one among them, exceeded their limit."""
    k, n = rule
    counts = np.cumsum(np.concatenate([np.zeros(n, dtype=np.intp), exceeded.astype(np.intp)]))
    return np.asarray(counts[n:] - counts[:-n] >= k)
