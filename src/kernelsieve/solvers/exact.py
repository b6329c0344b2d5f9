"""Exact kernel PCA of a gram matrix: the top of its (weighted, centred) spectrum.

With weights omega (sum 1) and E = diag(omega)^1/2, C = I - omega 1' (or I when not centred), the nonzero
spectrum of the feature-space covariance is that of

    B = E C' K C E,        B u = lambda u,        component v = Phi' d / sqrt(lambda),  d = C E u

The top few pairs come from a block Krylov space with Rayleigh-Ritz (Musco & Musco 2015): a handful of
matrix-matrix products, where ARPACK would read the whole matrix once a vector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..arrays import Array, inner, like, namespace, to_numpy, top_eigh
from ..threads import matmul

DENSE_LIMIT = 400  # below this many rows a dense eigensolver is as fast
DENSE_AT_LAST = 1000  # and below this many it is called where Krylov spaces do not get to the end of a flat spectrum
OVERSAMPLING = 8
# The last change of the sum of the top eigenvalues; its error is then two to three digits smaller.
SUM_TOLERANCE = 1e-3
# What is still to come of the sum, were the changes to shrink on as they did: more where the spectrum is flat.
SUM_TO_COME = 2e-5
MAX_KRYLOV_BLOCKS = 16
# Remainders so many times longer than rounding are orthogonal to what is there, to one over that, as they come.
FULL_RANK = 100.0


@dataclass(frozen=True)
class ExactComponents:
    """The top of the spectrum of the covariance, and its vectors over the rows of the gram."""

    variances: np.ndarray  # (M,) variance along each component
    directions: Array  # (n, M): sqrt(lambda) v = Phi' directions

    @property
    def captured(self) -> float:
        return float(self.variances.sum())


def exact_components(
    gram: Array,
    n_components: int,
    *,
    center: bool,
    weights: Array | None = None,
    n_threads: int = 1,
    dense: bool = False,
    near: Array | None = None,
) -> ExactComponents:
    """The top `n_components` of exact kernel PCA on `gram`; negative eigenvalues count as zero.

    `dense` asks for the vectors to full precision; without it their span is good to a few digits.  `near` are vectors,
    one for each of them, that they are thought to be near.
    """
    n = gram.shape[0]
    xp = namespace(gram)
    omega = _normalised(gram, weights)
    root = xp.sqrt(omega)

    def right(block: Array) -> Array:  # C E block
        block = root[:, None] * block
        return block - omega[:, None] * xp.sum(block, axis=0) if center else block

    def left(block: Array) -> Array:  # E C' block
        return root[:, None] * (block - omega @ block if center else block)

    n_components = min(n_components, n)
    dense = dense or n <= max(DENSE_LIMIT, 4 * (n_components + OVERSAMPLING))
    if not dense:
        values, vectors, settled = block_krylov(
            lambda y: left(matmul(gram, right(y), n_threads)), gram[0, :], n_components, near
        )
        dense = not settled and n <= DENSE_AT_LAST
    if dense:
        identity = xp.eye(n, dtype=gram.dtype)
        b = left(gram @ right(like(identity, gram)))
        values, vectors = top_eigh((b + b.T) / 2, n_components)
    variances = np.maximum(to_numpy(values).astype(np.float64), 0.0)
    return ExactComponents(variances, right(vectors))


def _normalised(gram: Array, weights: Array | None) -> Array:
    xp = namespace(gram)
    if weights is None:
        return xp.full_like(gram[:, 0], 1.0 / gram.shape[0])
    return like(weights / namespace(weights).sum(weights), gram)  # their ratios fit float32, they need not


def block_krylov(
    apply: Callable[[Array], Array], example: Array, n_top: int, near: Array | None = None
) -> tuple[np.ndarray, Array, bool]:
    """The top pairs of a symmetric operator on vectors like `example`, values on the host; and whether they settled.

    The space is that of a random block's images, with vectors `near` the top ones in it where some are known.  Columns
    of the operator itself would save a product, but where every row is like few others they say nothing of the rest:
    what they cannot reach would be taken for not there.
    """
    xp = namespace(example)
    draws = np.random.default_rng(0).standard_normal((example.shape[0], n_top + OVERSAMPLING))
    block = like(draws, example)
    if near is not None:
        block = xp.concat([near, block[:, near.shape[1] :]], axis=1)
    block, _ = xp.linalg.qr(apply(block))
    basis, images = [], []
    totals = [0.0] if near is None else []  # from vectors that are nearly right the first step is no measure of others
    for _ in range(MAX_KRYLOV_BLOCKS):
        basis.append(block)
        images.append(apply(block))
        q, bq = xp.concat(basis, axis=1), xp.concat(images, axis=1)
        ritz = q.T @ bq
        values, small = top_eigh(to_numpy(ritz + ritz.T) / 2, n_top)  # so small a matrix is quicker on the host
        totals.append(float(values.sum()))
        if settled := _settled(totals):
            break
        block = _new_directions(images[-1], q)
        if settled := block.shape[1] == 0:  # the space is exhausted: what it holds is exact
            break
    return values, q @ like(small, q), settled


def _settled(totals: list[float]) -> bool:
    """Whether a growing sum has come to its end: little was added, and little is to be expected."""
    if len(totals) < 3:
        return False
    before, last = totals[-2] - totals[-3], totals[-1] - totals[-2]
    limit = abs(totals[-1])
    if last <= SUM_TO_COME**2 * limit:
        return True
    return last <= SUM_TOLERANCE * limit and last * last <= SUM_TO_COME * limit * (before - last)


def _new_directions(image: Array, basis: Array) -> Array:
    """An orthonormal basis of what `image` has outside the span of `basis`, rounding left out.

    Once the Krylov space is exhausted the remainder is rounding: brought to unit length it would lie anywhere, inside
    the span too, and its variance would be counted twice.
    """
    xp = namespace(image)
    rounding = xp.finfo(image.dtype).eps * image.shape[0] ** 0.5 * inner(image, image) ** 0.5
    block = image
    for _ in range(2):  # twice is enough
        block = block - basis @ (basis.T @ block)
    n_more = max(0, basis.shape[0] - basis.shape[1])
    directions, triangle = xp.linalg.qr(block)
    if block.shape[1] <= n_more and float(xp.min(xp.abs(xp.linalg.diagonal(triangle)))) > FULL_RANK * rounding:
        return directions
    directions, lengths, _ = xp.linalg.svd(block, full_matrices=False)
    rank = min(int(xp.sum(xp.astype(lengths > rounding, xp.int64))), n_more)
    block = directions[:, :rank]
    block, _ = xp.linalg.qr(block - basis @ (basis.T @ block))  # short remainders were orthogonal to a few digits only
    return block
