"""Moments: what one pass over the data leaves behind.

For dictionary points D with gram K_DD and whitening W (W' K_DD W = I), rows x are seen as

    f(x) = W' k(D, x)            coordinates of phi(x) projected on span(phi(D))

and the moments are

    weight = sum w      mean = sum w f / weight      scatter = sum w (f - mean)(f - mean)'
    trace = sum w k(x, x)

They add, so blocks, threads, workers and days combine in any order.  The scatter is kept about the mean and merged by
the pairwise rule of Chan, Golub & LeVeque (1979), so that a mean far from the origin costs no digits.  Features are
whitened before they are summed, because k(D, X) k(X, D) has the condition number of K_DD squared.  If K_DD is
conditioned so well that this loses no digits, as is usual in float64, kernel values are summed and the sums are
whitened at the end: a block then takes one product of (n, r) and (r, q) less.

A pass adds up, with one shift c for all blocks (the mean of the first),

    sum w,    sum w (f - c),    sum w (f - c)(f - c)',    sum w k(x, x)

which give mean and scatter at the end: a block costs one product and one addition of (q, q).  Weights are divided by a
power of two near the largest of their block, which loses no digits: they may be outside the range of float32. On a
device the sums stay there until the pass is over, and only then is it checked that all rows were finite: to look at a
value earlier, the host would have to wait for the device.

Moments that outlive their points: forgetting, and the change to other points without the rows.

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
import operator
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse

from ..arrays import (
    Array,
    as_float64,
    float64_like,
    is_foreign,
    is_numpy,
    itemsize,
    like,
    namespace,
    numbers,
    take_rows,
    to_numpy,
    top_eigh,
)
from ..kernels import Kernel, overwritten_blocks, overwritten_product
from ..numerics import EPS
from ..rows.checks import FiniteCheck
from ..rows.rows import cut_for_device, with_smaller_blocks
from ..spectrum.whitening import RANK_TOLERANCE_FLOAT32
from ..threads import cached_property, one_blas_thread, ordered_map, row_groups


@dataclass(frozen=True)
class Moments:
    """Weight, mean and scatter of whitened features, and the summed kernel diagonal."""

    whitening: Array  # (r, q), q = numerical rank of K_DD
    weight: float
    mean: Array  # (q,)
    scatter: Array  # (q, q)
    trace: float

    _file_sizes = ("r",)
    _file_layout = {
        "whitening": "real[r, q]",
        "weight": "positive",
        "mean": "real[q]",
        "scatter": "real[q, q]",
        "trace": "float",
    }

    def __add__(self, other: Moments) -> Moments:
        weight = self.weight + other.weight
        if weight == 0:
            return self
        step = other.mean - self.mean
        share = other.weight / weight
        scatter = step[:, None] * ((self.weight * share) * step)  # between the two, and within them
        scatter += self.scatter
        scatter += other.scatter
        return Moments(self.whitening, weight, self.mean + share * step, scatter, self.trace + other.trace)

    @property
    def whitened(self) -> Moments:
        """Moments of whitened features, given that these are moments of k(D, x) itself."""
        scatter = self.whitening.T @ self.scatter @ self.whitening
        return replace(self, mean=self.mean @ self.whitening, scatter=(scatter + scatter.T) / 2)

    def covariance(self, center: bool) -> Array:
        """Covariance of the projected features (q, q), or their second moment when not centred."""
        within = self.scatter / self.weight
        return within if center else within + self.mean[:, None] * self.mean


# Sums are whitened at the end only if this bounds the rounding in the covariance of features, whose lengths are at
# most one. The rounding observed in float64 was a hundredth of the bound or less; in float32 it would hide small
# components.
LOST_TO_WHITENING = 1e-7


# Parts of a stream's block that a thread adds up before it hands on their moments. One thread merges the moments of
# all groups, and a stream has many more groups than an array.
GROUPED_IN_STREAMS = 8


class FeatureSums:
    """Sums of weights, features (or k(D, x), to be whitened), their products and k(x, x), kept where features are."""

    def __init__(self, whitening: Array, *, whitened: bool = True) -> None:
        xp = namespace(whitening)
        self.whitening = whitening
        self.whitened = whitened
        self.weight = 0.0
        self.total = xp.zeros_like(whitening[0, :] if whitened else whitening[:, 0])
        self.products: Array | None = None
        self.trace = xp.sum(xp.zeros_like(whitening[0, :]))
        self.shift: Array | None = None  # the mean of the first block of positive weight
        self._ones: Array | None = None

    def add(self, features: Array, lengths: Array | None, weights: Array | None) -> None:
        """Add one block: its features, which are overwritten, and k(x, x) for each row, None where it is not needed."""
        xp = namespace(features)
        unit, mass = 1.0, float(features.shape[0])
        if weights is not None:
            largest = float(namespace(weights).max(weights))
            unit = math.ldexp(1.0, math.frexp(largest)[1]) if largest > 0 else 1.0
            weights = like(weights / unit, features)
            mass = float(xp.sum(weights))
        if mass == 0:
            return
        self.weight += unit * mass
        if self.shift is None:
            # The weighted mean: a row of weight zero may lie anywhere, and a shift far away would cost digits.
            self.shift = xp.mean(features, axis=0) if weights is None else (weights / mass) @ features
        features -= self.shift
        if lengths is not None:
            lengths = lengths if weights is None else weights * lengths
            self.trace = self.trace + unit * xp.sum(lengths, dtype=self.whitening.dtype)
        if weights is None:
            # A product in the features' own precision takes a quarter of the time of a sum in float64.
            self.total += like(self._ones_like(features[:, 0]) @ features, self.whitening)
        else:
            self.total += unit * like(weights @ features, self.whitening)
            features *= xp.sqrt(weights)[:, None]
        self._add_products(features, unit)

    def _ones_like(self, column: Array) -> Array:
        if self._ones is None or self._ones.shape[0] < column.shape[0]:
            self._ones = namespace(column).ones_like(column)
        return self._ones[: column.shape[0]]

    def _add_products(self, features: Array, unit: float) -> None:
        if self.products is not None and is_numpy(features):
            products = overwritten_product(features.T, features, "scatter")
        else:
            products = like(features.T @ features, self.whitening)
        if unit != 1:
            products = unit * like(products, self.whitening)
        if self.products is None:
            self.products = products
        else:
            self.products += products

    def moments(self) -> Moments:
        """The moments of everything that was added; not whitened if the features were not."""
        if self.shift is None or self.products is None:  # all weights were zero
            mean, scatter = self.total, self.total[:, None] * self.total
        else:
            off = self.total / self.weight  # the mean, seen from the shift
            mean, scatter = off + like(self.shift, off), self.products - self.weight * (off[:, None] * off)
        return Moments(self.whitening, self.weight, mean, scatter, float(self.trace))


def gram_of(kernel: Kernel, points: Array) -> Array:
    """K_SS in float64, whatever the dtype of the points."""
    points = as_float64(points)
    return kernel(points, points)


def points_like(points: Array, X: Array) -> Array:
    """The points in the dtype and on the device of X; sparse points stay sparse."""
    return points.astype(X.dtype, copy=False) if scipy.sparse.issparse(points) else like(points, X)


@dataclass(frozen=True)
class MomentSum:
    """The sum over rows that gives their moments over `points`: O(N r (d + q)) time, O(r^2) memory."""

    kernel: Kernel
    points: Array  # (r, d)
    whitening: Array  # (r, q)
    with_trace: bool = True  # False leaves the trace at zero, if it is not known or not needed

    @property
    def width(self) -> int:
        """Numbers computed for each row: kernel values and features."""
        return int(self.whitening.shape[0] + self.whitening.shape[1])

    @cached_property
    def _lengths_of_columns(self) -> tuple[float, float]:
        """The largest and the smallest squared length of a column of the whitening: 1 / eigenvalue of K_DD."""
        xp = namespace(self.whitening)
        lengths = xp.sum(self.whitening**2, axis=0)
        largest, smallest = numbers(xp.max(lengths), xp.min(lengths))
        return largest, smallest

    @property
    def in_float64(self) -> bool:
        """Whether the whitening divides by eigenvalues that are mere rounding in float32, so that float64 is needed."""
        largest, smallest = self._lengths_of_columns
        return largest * RANK_TOLERANCE_FLOAT32 > 1.001 * smallest

    def whitens_first(self, block: Array) -> bool:
        """Whether summing kernel values, in the precision of this block, would lose digits or take longer.

        Kernel values between 0 and 1 give sums that are rounded by r eps, which whitening divides by an eigenvalue.
        """
        (r, q), rounding = self.whitening.shape, self.whitening.shape[0] * EPS * self._lengths_of_columns[0]
        fits = self.kernel.stationary and itemsize(block) == 8 and rounding <= LOST_TO_WHITENING
        return not (fits and 2 * q > r)

    def _block(self, rows: Array) -> Array:
        return as_float64(rows) if self.in_float64 else rows

    def over(self, X: Array, weights: Array | None, n_threads: int) -> Moments:
        """The moments of the rows of X, computed where X is."""
        diagonal = self.kernel.diagonal_of(X) if self.with_trace and self.kernel.precomputed else None
        if not is_foreign(X):
            return self._on_host(X[:1, :], [(0, X)], weights, n_threads, FiniteCheck(), diagonal)
        return with_smaller_blocks(lambda halvings: self._there(X, weights, halvings, diagonal))

    def _there(self, X: Array, weights: Array | None, halvings: int, diagonal: Array | None) -> Moments:
        """The moments of an array on a device."""
        check = FiniteCheck()
        found = self._on_device(X[:1, :], cut_for_device([(0, X)], self.width, halvings), weights, check, diagonal)
        check.finish()
        return found

    def over_blocks(
        self,
        blocks: Iterable[tuple[int, Array]],
        weights: Array | None,
        n_threads: int = 1,
        check: FiniteCheck | None = None,
    ) -> Moments:
        """The moments of blocks, each given with the number of its first row, checked by `check` during the pass.

        The caller who passes a check also finishes it.
        """
        blocks, check = iter(blocks), check or FiniteCheck()
        number, first = next(blocks)
        example, blocks = take_rows(first, np.zeros(1, dtype=np.intp)), chain([(number, first)], blocks)
        del first  # else this frame would keep the first block in memory during the whole pass
        if is_foreign(example):
            return self._on_device(example, blocks, weights, check, None)
        return self._on_host(example, blocks, weights, n_threads, check, None)

    def _on_host(
        self,
        example: Array,
        blocks: Iterable[tuple[int, Array]],
        weights: Array | None,
        n_threads: int,
        check: FiniteCheck,
        diagonal: Array | None,
    ) -> Moments:
        """Groups of cache-sized parts of the blocks go to threads; the next block is asked for before all are done."""
        example = self._block(example)
        cross_gram = self.kernel.bind(points_like(self.points, example))
        block_whitening, whitened = like(self.whitening, example), self.whitens_first(example)

        def group_moments(group: tuple[int, Array, list[slice]]) -> Moments:
            first, X, ranges = group
            sums = FeatureSums(self.whitening, whitened=whitened)
            for part in ranges:
                rows = slice(first + part.start, first + part.stop)
                block = self._block(check(X[part, :], rows.start))
                with overwritten_blocks():
                    features = cross_gram(block)
                    if whitened:
                        features = overwritten_product(features, block_whitening)
                block_weights = None if weights is None else weights[rows]
                sums.add(features, self._lengths(block, rows, diagonal), block_weights)
            return sums.moments()

        whole = isinstance(blocks, list)  # rows in one array: the number of groups is known
        least = 1 if whole else GROUPED_IN_STREAMS
        groups: Iterable[Any] = (
            (first, X, ranges) for first, X in blocks for ranges in row_groups(X, self.width, least)
        )
        groups = list(groups) if whole else groups
        with one_blas_thread():
            found = reduce(operator.add, ordered_map(group_moments, groups, n_threads))
        return found if whitened else found.whitened

    def _on_device(
        self,
        example: Array,
        blocks: Iterable[tuple[int, Array]],
        weights: Array | None,
        check: FiniteCheck,
        diagonal: Array | None,
    ) -> Moments:
        """Sums are kept on the device of the blocks.

        The result is returned where the whitening is, which may be the host if the points were chosen row by row.
        """
        example = self._block(example)
        there = not is_foreign(self.whitening)
        whitening = float64_like(self.whitening, example) if there else self.whitening
        sums = FeatureSums(whitening, whitened=self.whitens_first(example))
        cross_gram = self.kernel.bind(points_like(self.points, example))
        block_whitening = like(self.whitening, example)
        for start, given in blocks:
            rows = slice(start, start + int(given.shape[0]))
            block = self._block(check(given, start))
            block_weights, features = None if weights is None else weights[rows], cross_gram(block)
            features = features @ block_whitening if sums.whitened else features
            sums.add(features, self._lengths(block, rows, diagonal), block_weights)
        found = sums.moments() if sums.whitened else sums.moments().whitened
        if there:
            found = replace(found, whitening=self.whitening, mean=to_numpy(found.mean), scatter=to_numpy(found.scatter))
        return found

    def _lengths(self, block: Array, rows: slice, diagonal: Array | None) -> Array | None:
        """k(x, x) for each row of a block, None where it is not needed."""
        if not self.with_trace:
            return None
        return self.kernel.diagonal(block) if diagonal is None else like(diagonal[rows], block)


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
