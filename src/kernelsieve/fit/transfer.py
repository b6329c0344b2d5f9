"""Moments that outlive their points: forgetting, and the change to other points without the rows.

Forgetting multiplies: when n rows arrive, the weight of all rows before them is multiplied by lam^n.

Transfer.  Given the moments of all rows over old points S_o, and some of those rows (a reservoir), the moments over
new points S_n follow by control variates: the reservoir's rows are known over both sets of points, and as far as the
spans agree, its error over S_o is also its error over S_n:

    T = W_n' K(S_n, S_o) W_o                         the old basis as the new one sees it
    mean_n = mean_n^kept + T (mean_o - mean_o^kept)
    C_n    = C_n^kept + T (C_o - C_o^kept) T'        clipped to be positive semi-definite

The reservoir alone would lose what is known of the other rows, and the projection T C_o T' alone loses what lies
outside the old span.  Weight and trace do not depend on points.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..arrays import Array, as_float64, to_numpy, top_eigh
from ..kernels import Kernel
from .moments import Moments


def forgotten(moments: Moments, share: float) -> Moments:
    """These moments with their weight multiplied by `share`."""
    if share == 1.0:
        return moments
    return replace(moments, weight=moments.weight * share, scatter=moments.scatter * share, trace=moments.trace * share)


def weighing(moments: Moments, weight: float) -> Moments:
    """These moments with their weight set to `weight`; mean and covariance stay."""
    return forgotten(moments, weight / moments.weight)


def ages(n_rows: int, rate: float) -> np.ndarray | None:
    """The weights of rows by age, the last of age zero; None without forgetting."""
    return None if rate == 0 else np.exp(-rate * np.arange(n_rows - 1, -1, -1))


def faded(weight: float, weights: np.ndarray, rate: float) -> float:
    """The weight of all rows after rows of these weights have followed rows that weighed `weight`."""
    by_age = ages(len(weights), rate)
    if by_age is None:
        return weight + float(weights.sum())
    return weight * math.exp(-rate * len(weights)) + float(weights @ by_age)


def overlap(kernel: Kernel, new: tuple[Array, Array], old: tuple[Array, Array]) -> np.ndarray:
    """T: the orthonormal basis of the old span in that of the new; each is (points, whitening)."""
    cross_gram = kernel(as_float64(new[0]), as_float64(old[0]))
    return to_numpy(new[1].T @ (cross_gram @ old[1]))


def transferred(all_rows: Moments, kept_before: Moments, kept_now: Moments, basis: np.ndarray) -> Moments:
    """Moments of all rows over new points.

    `all_rows` and `kept_before` are over the old points, `kept_now` over the new; `basis` is T.
    """
    mean = kept_now.mean + basis @ (all_rows.mean - kept_before.mean)
    missed = basis @ (all_rows.covariance(True) - kept_before.covariance(True)) @ basis.T
    covariance = kept_now.covariance(True) + missed
    values, vectors = top_eigh((covariance + covariance.T) / 2)
    covariance = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return Moments(kept_now.whitening, all_rows.weight, mean, covariance * all_rows.weight, all_rows.trace)


def rows_until_choice(since: float, weight: float, weights: np.ndarray, rate: float) -> int | None:
    """How many of the rows to come, of these weights, until points are chosen again; None if more than all of them.

    That is when the rows since the last choice, of weight `since` so far, have half the weight of all rows together,
    `weight` so far, each discounted by its age.  Without forgetting that is at each doubling, otherwise every 0.72
    half-lives.
    """
    if rate == 0:
        since_then = since + np.cumsum(weights)
        due = since_then >= (weight + np.cumsum(weights)) / 2
        return int(np.argmax(due)) + 1 if due.any() else None
    step = max(1, math.ceil(1.0 / rate))  # so few that their ages do not overflow
    for start in range(0, len(weights), step):
        part = weights[start : start + step]
        growth = np.exp(rate * np.arange(1, len(part) + 1))
        all_rows = (weight + np.cumsum(part * growth)) / growth
        since_then = since + np.cumsum(part)
        due = since_then >= all_rows / 2
        if due.any():
            return start + int(np.argmax(due)) + 1
        since, weight = float(since_then[-1]), float(all_rows[-1])
    return None


def turned(before: np.ndarray, now: np.ndarray) -> float:
    """The largest principal angle between two subspaces, each given by orthonormal columns."""
    inside = before.T @ now
    sine = float(np.linalg.norm(now - before @ inside, 2))
    cosine = float(np.linalg.svd(inside, compute_uv=False)[-1])
    return math.atan2(sine, cosine)
