"""Limits that are valid for rows which the model has not seen.

A quantile of the training rows' own statistic alarms two to ten times too often, because the model was fitted to them.
So the rows are cut into `cv` contiguous folds, each is scored by a model of the others, and the limit is an order
statistic of those held-out values,

    limit = the k-th smallest of n,     k = ceil((n + 1)(1 - alpha))

which a new row of the same kind exceeds with probability (n + 1 - k)/(n + 1) <= alpha.  The probability for *this*
limit is uncertain if n is small: it follows Beta(n + 1 - k, k), of which the central 90 % are reported. Neighbouring
rows are similar, and smoothed values more so: for the interval, n values count as

    n / tau,     tau = 1 + 2 sum_j rho_j,     rho_j the correlation of ranks that are j values apart,

and at least as few as smoothing with weight w leaves, tau >= (2 - w) / w.  Folds are contiguous for the same reason: a
random fold would be predicted from its own neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.stats import beta, rankdata

CONFIDENCE = 0.9  # of the interval of the false alarm rate
CHANCE = 2.0  # a correlation within this many standard errors, 1 / sqrt(n), may be zero


@dataclass(frozen=True)
class Limit:
    """A limit, and how often rows of the training kind exceed it."""

    value: float
    rate: float  # expected share of new rows above it
    interval: tuple[float, float]  # contains the share with probability CONFIDENCE
    n_held_out: int
    n_effective: float  # number of independent values that are worth as much


def limit_of(values: np.ndarray, false_alarm_rate: float, smoothing: float | None = None) -> Limit:
    """The limit from held-out values, in order; they may have been smoothed."""
    n = len(values)
    place = min(n, math.ceil((n + 1) * (1 - false_alarm_rate)))
    above = n + 1 - place
    memory = 1.0 if smoothing is None else (2 - smoothing) / smoothing
    count = n / max(memory, correlation_time(values))
    tail, rate = (1 - CONFIDENCE) / 2, above / (n + 1)
    low, high = beta.ppf([tail, 1 - tail], rate * (count + 1), (1 - rate) * (count + 1))
    value = float(np.partition(values, place - 1)[place - 1])
    return Limit(value, rate, (float(low), float(high)), n, count)


def correlation_time(values: np.ndarray) -> float:
    """How many consecutive values are worth one: 1 + 2 sum_j rho_j, up to the first rho_j that may be chance."""
    ranks = rankdata(values) - (len(values) + 1) / 2
    spectrum = np.abs(np.fft.rfft(ranks, 2 * len(ranks))) ** 2
    products = np.fft.irfft(spectrum)[: len(ranks)] / np.arange(len(ranks), 0, -1)  # mean product at each distance
    if not products[0] > 0:  # all values are equal
        return 1.0
    correlations = products / products[0]
    ends = np.flatnonzero(correlations <= CHANCE / math.sqrt(len(ranks)))
    return float(1 + 2 * correlations[1 : ends[0] if len(ends) else len(ranks)].sum())


def fold_of(numbers: np.ndarray, n_rows: int, n_folds: int) -> np.ndarray:
    """The fold of each row number: `n_folds` contiguous stretches of nearly equal length."""
    bounds = [n_rows * fold // n_folds for fold in range(1, n_folds)]
    return np.searchsorted(bounds, numbers, side="right")


def runs_of(numbers: np.ndarray, labels: np.ndarray | None = None) -> np.ndarray:
    """The number of the unbroken run that each row is in: of consecutive row numbers, and of one label."""
    breaks = np.diff(numbers) != 1
    if labels is not None:
        breaks |= np.diff(labels) != 0
    return np.cumsum(np.concatenate([[False], breaks]))


def run_bounds(runs: np.ndarray) -> np.ndarray:
    """Where each run begins; the last element is the number of rows."""
    return np.concatenate([[0], np.flatnonzero(np.diff(runs)) + 1, [len(runs)]])


def smoothed(values: np.ndarray, weight: float | None, start: float) -> np.ndarray:
    """The exponentially weighted mean  s_t = weight v_t + (1 - weight) s_(t-1),  s_0 = start; NaN leaves
    it unchanged."""
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


def smoothed_runs(values: np.ndarray, bounds: np.ndarray, weight: float | None, start: float) -> np.ndarray:
    """`smoothed`, restarted in every run."""
    parts = [smoothed(values[low:high], weight, start) for low, high in pairwise(bounds.tolist())]
    return np.concatenate(parts)
