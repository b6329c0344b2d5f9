"""Moments: what one pass over the data leaves behind.

For dictionary points D with gram K_DD and whitening W (W' K_DD W = I), rows x are seen as

    f(x) = W' k(D, x)            coordinates of phi(x) projected on span(phi(D))

and the moments are

    weight = sum w      mean = sum w f / weight      scatter = sum w (f - mean)(f - mean)'
    trace = sum w k(x, x)

They add, so blocks, threads, workers and days combine in any order.  The scatter is kept about the
mean and merged by the pairwise rule of Chan, Golub & LeVeque (1979), so that a mean far from the origin
costs no digits.  Whitening comes before accumulating: forming k(D, X) k(X, D) first would square the
condition number of K_DD.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..arrays import Array, as_float64, is_foreign, is_numpy, itemsize, like, namespace, top_eigh
from ..kernels import Kernel, product_in_scratch, reused_blocks
from ..rows.blocks import finite, map_row_blocks
from ..rows.device import Sums, device_blocks, device_sums, with_smaller_blocks

# Eigenvalues of K_DD below this share of the largest are rounding, in float64 and in float32 blocks.
RANK_TOLERANCE = 1e-11
RANK_TOLERANCE_FLOAT32 = 1e-6


@dataclass(frozen=True)
class Moments:
    """Weight, mean and scatter of whitened features, and the summed kernel diagonal."""

    whitening: Array  # (r, q), q = numerical rank of K_DD
    weight: float
    mean: Array  # (q,)
    scatter: Array  # (q, q)
    trace: float

    def __add__(self, other: Moments) -> Moments:
        weight = self.weight + other.weight
        if weight == 0:
            return self
        step = other.mean - self.mean
        share = other.weight / weight
        between = (self.weight * share) * (step[:, None] * step)
        return Moments(
            self.whitening,
            weight,
            self.mean + share * step,
            self.scatter + other.scatter + between,
            self.trace + other.trace,
        )

    def covariance(self, center: bool) -> Array:
        """Covariance of the projected features (q, q), or their second moment when not centred."""
        within = self.scatter / self.weight
        return within if center else within + self.mean[:, None] * self.mean

    def total_variance(self, center: bool) -> float:
        """Mean squared length of phi(x), less that of the mean's projection when centred."""
        mean_square = float(namespace(self.mean).vecdot(self.mean, self.mean)) if center else 0.0
        return self.trace / self.weight - mean_square


@dataclass(frozen=True)
class Whitening:
    """W with W' K W = I, and what was dropped on the way."""

    matrix: Array  # (r, q)
    negative_share: float  # |negative eigenvalues| / all: above rounding, the kernel is indefinite


def whiten(gram: Array, tolerance: float = RANK_TOLERANCE) -> Whitening:
    """K = U L U', W = U L^-1/2 over the eigenvalues above `tolerance` of the largest.

    Where the kernel is indefinite, eigenvalues smaller than the most negative one go too: they are no better
    known than it is, and dividing by them would let captured variance grow without bound.
    """
    xp = namespace(gram)
    check_kernel_values(gram)
    values, vectors = top_eigh((gram + gram.T) / 2)
    floor = max(tolerance * max(float(values[0]), 0.0), -float(values[-1]))
    rank = int(xp.sum(xp.astype(values > floor, xp.int64)))
    if rank == 0:
        raise ValueError("the kernel matrix of the support points has no positive part: nothing to model")
    return Whitening(vectors[:, :rank] / xp.sqrt(values[:rank]), _negative_share(values))


def negative_share(gram: Array) -> float:
    """|negative eigenvalues| / all of them."""
    return _negative_share(namespace(gram).linalg.eigvalsh((gram + gram.T) / 2))


def _negative_share(values: Array) -> float:
    xp = namespace(values)
    magnitude = xp.abs(values)
    total = float(xp.sum(magnitude))
    return float(xp.sum(xp.where(values < 0, magnitude, xp.zeros_like(values)))) / total if total > 0 else 0.0


def check_kernel_values(gram: Array) -> None:
    """Kernel values that can be worked with: some of them, all finite, some positive on the diagonal."""
    check_finite_kernel(gram)
    check_kernel_diagonal(namespace(gram).linalg.diagonal(gram))


def check_kernel_diagonal(diagonal: Array) -> None:
    """k(x, x) that can be worked with: finite, and some positive."""
    check_finite_kernel(diagonal)
    if diagonal.shape[0] == 0 or not float(namespace(diagonal).max(diagonal)) > 0:
        raise ValueError("the kernel matrix of these rows has no positive part: nothing to model")


def check_finite_kernel(values: Array) -> None:
    """Kernel values without NaN and infinity."""
    xp = namespace(values)
    if not bool(xp.isfinite(xp.sum(values))) and not bool(xp.all(xp.isfinite(values))):
        raise ValueError(
            "the kernel gives NaN or infinity on these rows: scale the rows, or give a smaller gamma or degree (a "
            "whole one, where the polynomial's base can be negative)"
        )


def gram_of(kernel: Kernel, points: Array) -> Array:
    """K_SS in float64, whatever the dtype of the blocks."""
    points = as_float64(points)
    return kernel(points, points)


def accumulate(
    kernel: Kernel,
    points: Array,
    whitening: Array,
    X: Array,
    *,
    sample_weight: Array | None = None,
    diagonal: Array | None = None,
    n_threads: int = 1,
) -> Moments:
    """The moments of the rows of X over `points`: one pass, O(N r (d + q)) time, O(r^2) memory."""
    if is_foreign(X):
        return _accumulate_there(kernel, points, whitening, X, sample_weight, diagonal)
    cross_gram = kernel.bind(points)
    block_whitening = like(whitening, points)

    # one thread's blocks are added up one by one: their products too can lie in one place
    product = partial(product_in_scratch, name="scatter") if n_threads == 1 else operator.matmul

    def block_moments(rows: slice) -> Moments:
        block = finite(X[rows, :])
        weights = None if sample_weight is None else sample_weight[rows]
        block_diagonal = kernel.diagonal(block) if diagonal is None else like(diagonal[rows], block)
        with reused_blocks():
            features = product_in_scratch(cross_gram(block), block_whitening)
        return _block_moments(features, whitening, weights, block_diagonal, product)

    return _added_up(map_row_blocks(block_moments, X, whitening.shape[0] + whitening.shape[1], n_threads))


def _added_up(parts: Iterator[Moments]) -> Moments:
    """Their sum, by the rule of `Moments.__add__`, in the memory of the first: fresh pages cost more than additions."""
    total = next(parts)
    weight, mean, scatter, trace = total.weight, total.mean, total.scatter.copy(), total.trace
    between = np.empty_like(scatter)
    for part in parts:
        both = weight + part.weight
        share = part.weight / both if both else 0.0
        step = part.mean - mean
        np.multiply((weight * share) * step[:, None], step, out=between)
        scatter += part.scatter
        scatter += between
        mean = mean + share * step
        weight, trace = both, trace + part.trace
    return Moments(total.whitening, weight, mean, scatter, trace)


def _accumulate_there(
    kernel: Kernel, points: Array, whitening: Array, X: Array, sample_weight: Array | None, diagonal: Array | None
) -> Moments:
    """`accumulate` for rows of another array library, on the device they are on."""
    width = whitening.shape[0] + whitening.shape[1]

    def attempt(halvings: int) -> Sums:
        ranges = device_blocks(X.shape[0], width, itemsize(X), halvings)
        blocks = ((rows.start, X[rows, :]) for rows in ranges)
        return device_sums(kernel, points, whitening, blocks, sample_weight, diagonal)

    return moments_of(with_smaller_blocks(attempt))


def moments_of(sums: Sums) -> Moments:
    """The moments that a pass on a device leaves."""
    mean, scatter = sums.mean_and_scatter()
    return Moments(sums.whitening, sums.weight, mean, scatter, float(sums.trace))


def _block_moments(
    features: Array,
    whitening: Array,
    weights: Array | None,
    diagonal: Array,
    product: Callable[[Array, Array], Array],
) -> Moments:
    xp = namespace(features)
    if weights is None:
        weight, trace = float(features.shape[0]), float(xp.sum(diagonal, dtype=whitening.dtype))
        mean = xp.mean(features, axis=0)
        features -= mean
    else:
        weights = like(weights, features)
        weight, trace = float(xp.sum(weights)), float(xp.sum(weights * diagonal))
        mean = (weights @ features) / (weight or 1.0)
        features -= mean
        features *= xp.sqrt(weights)[:, None]
    scatter = product(features.T, features)
    if not is_numpy(scatter) or scatter.dtype != whitening.dtype:
        mean, scatter = like(mean, whitening), like(scatter, whitening)
    return Moments(whitening, weight, mean, scatter, trace)
