"""Moments: what one pass over the data leaves behind.

For dictionary points D with gram K_DD and whitening W (W' K_DD W = I), a row x is represented by

    f(x) = W' k(D, x)            coordinates of phi(x) projected on span(phi(D))

and the moments are

    weight = sum w      mean = sum w f / weight      scatter = sum w (f - mean)(f - mean)'
    trace = sum w k(x, x)

Moments add, so those of blocks, threads, workers and days combine in any order.  The scatter is kept about the mean and
merged by the pairwise rule of Chan, Golub & LeVeque (1979), so that a mean far from the origin costs no digits.
Features are whitened before they are summed, because the condition number of k(D, X) k(X, D) is the square of that of
K_DD.  If K_DD is conditioned so well that this loses no digits, as is usual in float64, kernel values are summed
instead, and the sums are whitened at the end: this saves a product of (n, r) and (r, q) for every block.

With one shift c for several blocks (the mean of the first one), a pass adds up

    sum w,    sum w (f - c),    sum w (f - c)(f - c)',    sum w k(x, x)

which give mean and scatter at the end: a block costs one product and one addition of (q, q).  Weights may be outside
the range of float32, so those of a block are first divided by a power of two near the largest, which loses no digits.
Threads wait for each other wherever numpy hands the interpreter's lock on, which it does in every call on a block.  So
few calls are best: k(x, x) is not summed row by row if it is the same for all.  On a device, the sums stay there until
the pass is over.  Only then is it checked that all rows were finite, because the host would have to wait for the device
to look at a value earlier.

A stream also needs to forget old rows, and to change to other points without having all rows.

Forgetting: when n rows arrive, the weight of all earlier rows is multiplied by lam^n, 0 < lam <= 1.

Transfer: given the moments of all rows over old points S_o, and some of those rows (a reservoir), the moments over new
points S_n follow by the method of control variates.  The reservoir's rows are known over both sets of points.  As far
as the spans agree, its error over S_o is also its error over S_n:

    T = W_n' K(S_n, S_o) W_o                         coordinates of the old basis in the new one
    mean_n = mean_n^kept + T (mean_o - mean_o^kept)
    C_n    = T C_o T' + s (C_n^kept - T C_o^kept T')     clipped to be positive semi-definite

The reservoir alone would lose what is known about the other rows, and the projection T C_o T' alone would lose what
lies outside the old span.  How far rows lie from the old span, in the mean square, is known for all of them.  Where the
kept rows lie further, s is the ratio of the two; elsewhere it is one, because the new points fit the kept rows better
than the others.  Weight and trace do not depend on the points.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from typing import Annotated, Any

import numpy as np
import scipy.sparse

from ..arrays import (
    Array,
    as_float64,
    float64_like,
    has_fast_float64,
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
from ..spectrum.whitening import RANK_TOLERANCES
from ..threads import CACHE_BYTES, cached_property, one_blas_thread, ordered_map, row_groups


@dataclass(frozen=True)
class Moments:
    """Weight, mean and scatter of whitened features, and the summed kernel diagonal."""

    whitening: Annotated[Array, "real[r, q]"]  # (r, q), q = numerical rank of K_DD
    weight: Annotated[float, "positive"]
    mean: Annotated[Array, "real[q]"]  # (q,)
    scatter: Annotated[Array, "real[q, q]"]  # (q, q)
    trace: Annotated[float, "float"]

    _file_sizes = ("r",)

    def __add__(self, other: Moments) -> Moments:
        weight = self.weight + other.weight
        if weight == 0:
            return self
        step = other.mean - self.mean
        share = other.weight / weight
        scatter = step[:, None] * ((self.weight * share) * step)  # between the two means
        scatter += self.scatter
        scatter += other.scatter
        return Moments(self.whitening, weight, self.mean + share * step, scatter, self.trace + other.trace)

    @property
    def whitened(self) -> Moments:
        """The moments of whitened features, if the present ones are those of the kernel values k(D, x)."""
        scatter = self.whitening.T @ self.scatter @ self.whitening
        return replace(self, mean=self.mean @ self.whitening, scatter=(scatter + scatter.T) / 2)

    def covariance(self, center: bool) -> Array:
        """Covariance of the projected features (q, q), or their second moment when not centred."""
        within = self.scatter / self.weight
        return within if center else within + self.mean[:, None] * self.mean


# Sums are whitened at the end only if the rounding error of the covariance of features, whose lengths are at most one,
# is bounded by this. The errors observed in float64 were at most a hundredth of the bound; in float32 they would hide
# small components.
LOST_TO_WHITENING = 1e-7


# A thread adds up at least this many parts of a stream's block before it hands on their moments. A single thread merges
# the moments of all such groups, and a stream would otherwise have far more groups than an array.
GROUPED_IN_STREAMS = 8


class FeatureSums:
    """Sums of weights, features, products of features, and k(x, x), on the device of the features.

    If `whitened` is False, the features are kernel values k(D, x), and the sums are whitened at the end.
    """

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

    def add(self, features: Array, lengths: Array | float | None, weights: Array | None) -> None:
        """Add one block: its features, which are overwritten, and k(x, x) of its rows, or of each row, if needed."""
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
            # The mean is weighted, because rows of weight zero may be far away, and a shift far away costs digits.
            self.shift = xp.mean(features, axis=0) if weights is None else _sum_of(features, weights / mass)
        features -= self.shift
        if isinstance(lengths, float):
            self.trace = self.trace + unit * mass * lengths
        elif lengths is not None:
            lengths = lengths if weights is None else weights * lengths
            self.trace = self.trace + unit * xp.sum(lengths, dtype=self.whitening.dtype)
        if weights is None:
            # A product with ones, in the precision of the features, takes a quarter of the time of a sum in float64.
            self.total += like(_sum_of(features, self._ones_like(features[:, 0])), self.whitening)
        else:
            self.total += unit * like(_sum_of(features, weights), self.whitening)
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
        """The moments of everything that was added; they are whitened only if the features were."""
        if self.shift is None or self.products is None:  # all weights were zero
            mean, scatter = self.total, self.total[:, None] * self.total
        else:
            off = self.total / self.weight  # the mean minus the shift
            mean, scatter = off + like(self.shift, off), self.products - self.weight * (off[:, None] * off)
        return Moments(self.whitening, self.weight, mean, scatter, float(self.trace))


def _sum_of(features: Array, weights: Array) -> Array:
    """The weighted sum of features; numpy's `matmul` would keep the interpreter's lock (kernels/blocks.py)."""
    return np.dot(weights, features) if is_numpy(features) else weights @ features


def gram_of(kernel: Kernel, points: Array) -> Array:
    """The gram of the points in float64, for points of any dtype."""
    points = as_float64(points)
    return kernel(points, points)


def points_like(points: Array, X: Array) -> Array:
    """The points in the dtype and on the device of X; sparse points stay sparse."""
    return points.astype(X.dtype, copy=False) if scipy.sparse.issparse(points) else like(points, X)


@dataclass(frozen=True)
class MomentSum:
    """Sums over rows that give their moments over `points`, in O(N r (d + q)) time and O(r^2) memory."""

    kernel: Kernel
    points: Array  # (r, d)
    whitening: Array  # (r, q)
    with_trace: bool = True  # if False, the trace is left at zero because it is not known or not needed

    @property
    def width(self) -> int:
        """How many numbers are computed for each row: kernel values and features."""
        return int(self.whitening.shape[0] + self.whitening.shape[1])

    @cached_property
    def _lengths_of_columns(self) -> tuple[float, float]:
        """The largest and the smallest squared length of a column of the whitening, each 1 / an eigenvalue of K_DD."""
        xp = namespace(self.whitening)
        lengths = xp.sum(self.whitening**2, axis=0)
        largest, smallest = numbers(xp.max(lengths), xp.min(lengths))
        return largest, smallest

    @property
    def in_float64(self) -> bool:
        """Whether float64 is needed because the whitening divides by eigenvalues that would be rounding in float32."""
        largest, smallest = self._lengths_of_columns
        return largest * RANK_TOLERANCES[4] > 1.001 * smallest

    def whitens_first(self, block: Array) -> bool:
        """Whether to whiten features before summing them, because sums of kernel values would cost digits or time.

        Sums of kernel values between 0 and 1 have rounding errors of r eps, which whitening divides by an eigenvalue.
        """
        (r, q), rounding = self.whitening.shape, self.whitening.shape[0] * EPS * self._lengths_of_columns[0]
        fits = self.kernel.stationary and itemsize(block) == 8 and rounding <= LOST_TO_WHITENING
        return not (fits and 2 * q > r)

    def _block(self, rows: Array) -> Array:
        """The rows in the precision of the pass: float64 where it is needed, and where a device is faster with it.

        A device with fast float64 saves more by whitening at the end than it gains by float32 products.
        """
        if itemsize(rows) == 8 or self.in_float64:
            return as_float64(rows)
        return as_float64(rows) if has_fast_float64(rows) and not self.whitens_first(as_float64(rows[:1, :])) else rows

    def over(self, X: Array, weights: Array | None, n_threads: int) -> Moments:
        """The moments of the rows of X, computed on the device of X."""
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
        """The moments of blocks, each given with the number of its first row.

        During the pass, `check` collects whether all rows are finite; a caller that passes it must call its `finish`.
        """
        blocks, check = iter(blocks), check or FiniteCheck()
        number, first = next(blocks)
        example, blocks = take_rows(first, np.zeros(1, dtype=np.intp)), chain([(number, first)], blocks)
        del first  # otherwise the first block would stay in memory during the whole pass
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
        """The moments of blocks on the host, computed by threads.

        Each thread takes groups of parts that fit the cache; the next block is requested before all parts are done.
        """
        example = self._block(example)
        cross_gram = self.kernel.bind(points_like(self.points, example))
        block_whitening, whitened = like(self.whitening, example), self.whitens_first(example)

        def group_moments(group: tuple[int, Array, list[slice]]) -> Moments:
            first, X, ranges = group
            sums = FeatureSums(self.whitening, whitened=whitened)
            for part, block in _checked(X, ranges, first, check):
                rows, block = slice(first + part.start, first + part.stop), self._block(block)
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
        """The moments of blocks on a device, where the sums are kept during the pass.

        The result is moved to the device of the whitening, which may be the host if the points were chosen row by row.
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

    def _lengths(self, block: Array, rows: slice, diagonal: Array | None) -> Array | float | None:
        """k(x, x) for each row of a block, or for any row; None if the trace is not needed."""
        if not self.with_trace:
            return None
        if self.kernel.unit_length:
            return 1.0
        return self.kernel.diagonal(block) if diagonal is None else like(diagonal[rows], block)


def _checked(X: Array, ranges: list[slice], first: int, check: FiniteCheck) -> Iterator[tuple[slice, Array]]:
    """The ranges with their rows of X; `check` is called on those of several together, as many as fit in the cache."""
    n_bytes = (ranges[0].stop - ranges[0].start) * X.shape[1] * itemsize(X)
    together = 1 if scipy.sparse.issparse(X) else max(1, CACHE_BYTES // max(1, n_bytes))
    for i in range(0, len(ranges), together):
        joined = ranges[i : i + together]
        rows = slice(joined[0].start, joined[-1].stop)
        block = check(X[rows, :], first + rows.start)
        for one in joined:
            yield one, block[one.start - rows.start : one.stop - rows.start, :] if together > 1 else block


def forgotten(moments: Moments, share: float) -> Moments:
    """These moments with their weight multiplied by `share`."""
    if share == 1.0:
        return moments
    return replace(moments, weight=moments.weight * share, scatter=moments.scatter * share, trace=moments.trace * share)


def weighing(moments: Moments, weight: float) -> Moments:
    """These moments scaled to the weight `weight`; mean and covariance stay as they are."""
    return forgotten(moments, weight / moments.weight)


def ages(n_rows: int, rate: float) -> np.ndarray | None:
    """(n_rows,) factors by which forgetting shrinks the weights of rows, 1 for the last; None without forgetting."""
    return None if rate == 0 else np.exp(-rate * np.arange(n_rows - 1, -1, -1))


def faded(weight: float, weights: np.ndarray, rate: float) -> float:
    """The total weight, after forgetting, when rows of these weights are added to rows of total weight `weight`."""
    by_age = ages(len(weights), rate)
    if by_age is None:
        return weight + float(weights.sum())
    return weight * math.exp(-rate * len(weights)) + float(weights @ by_age)


def overlap(kernel: Kernel, new: tuple[Array, Array], old: tuple[Array, Array]) -> np.ndarray:
    """T, the coordinates of the old orthonormal basis in the new one; each basis is given as (points, whitening)."""
    cross_gram = kernel(as_float64(new[0]), as_float64(old[0]))
    return to_numpy(new[1].T @ (cross_gram @ old[1]))


def transferred(all_rows: Moments, kept_before: Moments, kept_now: Moments, basis: np.ndarray) -> Moments:
    """The moments of all rows over new points, by transfer (see the top of the module).

    `all_rows` and `kept_before` are moments over the old points, of all rows and of the reservoir; `kept_now` are
    moments of the reservoir over the new points; `basis` is T.
    """
    mean = kept_now.mean + basis @ (all_rows.mean - kept_before.mean)
    outside, kept_outside = _square_outside(all_rows), _square_outside(kept_before)
    scale = min(1.0, max(outside, 0.0) / kept_outside) if kept_outside > 0 else 1.0
    further = kept_now.covariance(True) - basis @ kept_before.covariance(True) @ basis.T
    covariance = basis @ all_rows.covariance(True) @ basis.T + scale * further
    values, vectors = top_eigh((covariance + covariance.T) / 2)
    covariance = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return Moments(kept_now.whitening, all_rows.weight, mean, covariance * all_rows.weight, all_rows.trace)


def _square_outside(moments: Moments) -> float:
    """The mean squared distance of the rows from the span of the points, in feature space."""
    inside = float(moments.mean @ moments.mean) + float(np.trace(moments.covariance(True)))
    return moments.trace / moments.weight - inside


def rows_until_choice(since: float, weight: float, weights: np.ndarray, rate: float) -> int | None:
    """How many rows, of these weights, come before points are chosen again; None if no choice is due among them.

    A choice is due when the rows since the last choice have half the weight of all rows.  `since` is the weight of the
    rows since the last choice, not discounted; `weight` is that of all rows, each discounted by its age.  Without
    forgetting, a choice is due whenever the weight has doubled, otherwise every 0.72 half-lives.
    """
    if rate == 0:
        since_then = since + np.cumsum(weights)
        due = since_then >= (weight + np.cumsum(weights)) / 2
        return int(np.argmax(due)) + 1 if due.any() else None
    step = max(1, math.ceil(1.0 / rate))  # rows at a time: exp(rate * step) must not overflow
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
