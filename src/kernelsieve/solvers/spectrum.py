"""The spectrum of a gram: a basis of the span of its points by whitening, and exact kernel PCA of its rows.

Whitening is over the eigenvalues that are more than rounding:

    K = U L U',    W = U L^-1/2,    W' K W = I

An eigenvector is known to the rounding of the largest eigenvalue, so that W' K W is off by u l_1 / l_q, more than the
rounding of the kernel values themselves asks for where l_q is small: components would be longer than one, and the
variance along them too large.  There W is corrected by the Cholesky factor of what W' K W is:

    W' K W = C C',    W <- W C^-T

Where K = L L' shows by itself that all eigenvalues are more than rounding, W = L^-T is a whitening, too, for a tenth of
what eigenvectors cost:  1 / |L^-1|^2 = 1 / tr K^-1 <= l_q  and  l_1 <= max_i sum_j |K_ij|.

A kernel that is not positive semi-definite is the inner product of a space with a signature (a Krein space), and its
negative part may be kept.  With W = U |L|^-1/2 and J = sign(L), rows have coordinates F = k(X, S) W, and with C the
covariance of F the covariance operator is C J.  Its eigenpairs come from a symmetric matrix,

    C^1/2 J C^1/2 q = mu q,      component J C^1/2 q / sqrt(mu) for mu > 0

and with all rows as points they are scikit-learn's KernelPCA to rounding, which takes the positive eigenvalues of the
centred gram.  Dropping the negative part first, as a positive semi-definite kernel's rounding is dropped, loses the
components that it balances.

Exact kernel PCA is the top of the weighted, centred spectrum.  With weights omega (sum 1) and E = diag(omega)^1/2,
C = I - omega 1' (or I when not centred), the nonzero spectrum of the feature-space covariance is that of

    B = E C' K C E,        B u = lambda u,        component v = Phi' d / sqrt(lambda),  d = C E u

The top few pairs come from a block Krylov space with Rayleigh-Ritz (Musco & Musco 2015): a handful of matrix-matrix
products, where ARPACK would read the whole matrix once a vector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.linalg

from ..arrays import (
    Array,
    as_float64,
    cholesky,
    inner,
    is_numpy,
    is_torch,
    like,
    namespace,
    solve_lower,
    take_columns,
    take_rows,
    to_numpy,
    top_eigh,
)
from ..threads import matmul, ordered_map, row_ranges
from .krylov_on_device import krylov_space

# Eigenvalues of K_DD below this share of the largest are rounding, in float64 and in float32 blocks.
RANK_TOLERANCE = 1e-11
RANK_TOLERANCE_FLOAT32 = 1e-6
# Eigenvalues above this share of the largest come with eigenvectors that are good to ten digits.
WELL_KNOWN = 1e-6
SOLVED_AT_ONCE = 125  # right sides of a triangular system that a thread takes, where there are more of them
SMALLEST_LENGTH = 1e-140  # of k(x, x): below it squares lose digits, and cubes are zero
NO_POSITIVE_PART = "the kernel matrix of the support points has no positive part: nothing to model"
MORE_NEGATIVE = (
    "the kernel is far from positive semi-definite on these rows: its matrix for the support points has negative "
    "eigenvalues larger than all positive ones, and this method, which drops them and what is no larger, is left with "
    "nothing to model. Use SparseKernelPCA or KernelPCA, which count them, or another coef0"
)
DROPPED_WITH_NEGATIVE = (
    "the kernel is not positive semi-definite on these rows, and this method drops what is no larger than its negative "
    "part. Use SparseKernelPCA or KernelPCA, which count that part, another coef0, or fewer components"
)


@dataclass(frozen=True)
class Whitening:
    """W with W' K W = I, and what was dropped on the way."""

    matrix: Array  # (r, q)
    negative_share: float  # |negative eigenvalues| / all: above rounding, the kernel is indefinite


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of a gram, descending, and its eigenvectors."""

    gram: Array  # (r, r)
    values: Array  # (r,)
    vectors: Array  # (r, r)

    @classmethod
    def of(cls, gram: Array) -> Spectrum:
        """The spectrum of kernel values that can be worked with."""
        check_kernel_values(gram)
        gram = (gram + gram.T) / 2
        return cls(gram, *top_eigh(gram))

    def rank(self, tolerance: float) -> int:
        """Eigenvalues above `tolerance` of the largest, and above the most negative one."""
        xp = namespace(self.values)
        floor = max(tolerance * max(float(self.values[0]), 0.0), -float(self.values[-1]))
        return int(xp.sum(xp.astype(self.values > floor, xp.int64)))

    def whitening(self, tolerance: float = RANK_TOLERANCE, *, signed: bool = False, n_threads: int = 1) -> Whitening:
        """W = U L^-1/2 over the eigenvalues above `tolerance` of the largest.

        Where the kernel is indefinite, eigenvalues smaller than the most negative one go too: they are no better
        known than it is, and dividing by them would let captured variance grow without bound.  `signed` keeps the
        negative ones beside the positive: W = U |L|^-1/2, W'K W = diag(+-1).
        """
        values, vectors = self.values, self.vectors
        xp = namespace(values)
        if signed:
            size = xp.abs(values)
            places = np.flatnonzero(to_numpy(size > tolerance * xp.max(size)))
            kept = take_columns(vectors, places) / xp.sqrt(take_rows(size, places))
            return Whitening(kept, share_of_negative(values))
        rank = self.rank(tolerance)
        if rank == 0:
            raise ValueError(NO_POSITIVE_PART if not float(values[0]) > 0 else MORE_NEGATIVE)
        matrix = vectors[:, :rank] / xp.sqrt(values[:rank])
        if float(values[rank - 1]) < WELL_KNOWN * float(values[0]):
            corrected = orthonormal(matrix, self.gram, n_threads)
            matrix = matrix if corrected is None else corrected
        return Whitening(matrix, share_of_negative(values))


def orthonormal(basis: Array, gram: Array, n_threads: int = 1) -> Array | None:
    """B C^-T with B' K B = C C', which has the span of B and is orthonormal; None where B is dependent."""
    metric = matmul(basis.T, matmul(gram, basis, n_threads), n_threads)
    factor = cholesky((metric + metric.T) / 2)
    if factor is None or not is_numpy(basis) or len(basis) < DENSE_LIMIT:
        return None if factor is None else solve_lower(factor, basis.T).T
    parts = row_ranges(len(basis), SOLVED_AT_ONCE)  # whatever the number of threads: the same bits
    return np.concatenate(list(ordered_map(lambda rows: solve_lower(factor, basis[rows].T).T, parts, n_threads)))


def triangular_whitening(gram: np.ndarray) -> np.ndarray | None:
    """L^-T for gram = L L', where that shows every eigenvalue to be above RANK_TOLERANCE of the largest; else None."""
    factor = cholesky(gram)
    if factor is None:
        return None
    inverse, _ = scipy.linalg.lapack.dtrtri(factor, lower=True, overwrite_c=True)
    most = float(np.abs(gram).sum(axis=0).max()) * inner(inverse.T, inverse.T)
    return inverse.T if most * RANK_TOLERANCE < 1 else None


def whiten(gram: Array, tolerance: float = RANK_TOLERANCE) -> Whitening:
    """The whitening of a gram that is needed once (see `Spectrum.whitening`)."""
    return Spectrum.of(gram).whitening(tolerance)


def negative_share(gram: Array) -> float:
    """|negative eigenvalues| / all of them."""
    return share_of_negative(namespace(gram).linalg.eigvalsh((gram + gram.T) / 2))


def share_of_negative(values: Array) -> float:
    """|negative ones| / all of some eigenvalues."""
    xp = namespace(values)
    magnitude = xp.abs(values)
    total = float(xp.sum(magnitude))
    return float(xp.sum(xp.where(values < 0, magnitude, xp.zeros_like(values)))) / total if total > 0 else 0.0


def signed_components(covariance: np.ndarray, signs: np.ndarray, n_components: int) -> tuple[np.ndarray, np.ndarray]:
    """(mu, J v): variances of the best components of positive length, and what features are multiplied by.

    Zeros where there are fewer than `n_components`.
    """
    values, vectors = top_eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    found, small = top_eigh(root @ (signs[:, None] * root), n_components)
    variances, directions = np.zeros(n_components), np.zeros((len(signs), n_components))
    n_real = int(np.sum(found > 0))
    variances[:n_real] = found[:n_real]
    directions[:, :n_real] = signs[:, None] * (root @ small[:, :n_real]) / np.sqrt(found[:n_real])
    return variances, directions


def signs_of(whitening: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """J, from W'K_SS W = J."""
    return np.where(np.sum(whitening * (gram @ whitening), axis=0) < 0, -1.0, 1.0)


def check_kernel_values(gram: Array) -> None:
    """Kernel values that can be worked with: some of them, all finite, some on the diagonal not zero."""
    check_finite_kernel(gram)
    check_kernel_diagonal(namespace(gram).linalg.diagonal(gram))


def check_kernel_diagonal(diagonal: Array) -> None:
    """k(x, x) that can be worked with: finite, and some not zero.

    All of them may be negative: an indefinite kernel can have a positive part all the same.
    """
    check_finite_kernel(diagonal)
    xp = namespace(diagonal)
    if diagonal.shape[0] == 0 or not float(xp.max(xp.abs(diagonal))) > 0:
        raise ValueError(
            "the kernel matrix of these rows has no positive part for points to carry: k(x, x) is zero for all of "
            "them. Give another coef0 or another kernel"
        )
    if float(xp.max(xp.abs(diagonal))) < SMALLEST_LENGTH:
        raise ValueError(
            f"k(x, x) is at most {float(xp.max(xp.abs(diagonal))):.3g} on these rows: products of such numbers are too "
            "small to compute with. Multiply the kernel's values, or the rows, by a power of ten"
        )


def check_finite_kernel(values: Array) -> None:
    """Kernel values without NaN and infinity, small enough to be squared."""
    xp = namespace(values)
    with np.errstate(over="ignore", invalid="ignore"):
        squared = xp.sum(values * values)
    if not bool(xp.isfinite(squared)):
        raise ValueError(
            "the kernel gives NaN or infinity (or nearly so) on these rows: scale the rows, or give a smaller gamma or "
            "degree (a whole one, where the polynomial's base can be negative)"
        )


DENSE_LIMIT = 400  # below this many rows a dense eigensolver is as fast
DENSE_AT_LAST = 1000  # and below this many it is called where Krylov spaces do not get to the end of a flat spectrum
OVERSAMPLING = 8
# The last change of the sum of the top eigenvalues; its error is then two to three digits smaller.
SUM_TOLERANCE = 1e-3
# What is still to come of the sum, were the changes to shrink on as they did: more where the spectrum is flat.
SUM_TO_COME, SUM_TO_COME_OF_FEW = 2e-5, 2e-7  # of few rows more costs little
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
        found = None
        if is_torch(gram):
            found = _krylov_on_device(left(left(gram).T), n_components, near)
        values, vectors, settled = found or block_krylov(
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
    block, _ = xp.linalg.qr(apply(_first_block(example, n_top, near)))
    basis, images = [], []
    totals = _first_totals(near)
    for _ in range(MAX_KRYLOV_BLOCKS):
        basis.append(block)
        images.append(apply(block))
        q, bq = xp.concat(basis, axis=1), xp.concat(images, axis=1)
        ritz = to_numpy(q.T @ bq)  # so small a matrix is quicker on the host
        totals.append(_sum_of_top(ritz, n_top))
        if settled := _settled(totals, q.shape[0]):
            break
        block = _new_directions(images[-1], q)
        if settled := block.shape[1] == 0:  # the space is exhausted: what it holds is exact
            break
    values, small = top_eigh((ritz + ritz.T) / 2, n_top)
    return values, q @ like(small, q), settled


def _sum_of_top(ritz: np.ndarray, n_top: int) -> float:
    """The sum of the largest eigenvalues, for a fraction of what the vectors cost."""
    return float(np.linalg.eigvalsh((ritz + ritz.T) / 2)[-n_top:].sum())


def _krylov_on_device(matrix: Array, n_top: int, near: Array | None) -> tuple[np.ndarray, Array, bool] | None:
    """`block_krylov` of a matrix on a device that makes the blocks at once; None where it does not come to its end."""
    block = _first_block(matrix[0, :], n_top, near)
    space = krylov_space(as_float64(matrix), as_float64(block))
    if space is None:
        return None
    q, ritz, totals = space[0], to_numpy(space[1]), _first_totals(near)
    for size in range(block.shape[1], q.shape[1] + 1, block.shape[1]):
        totals.append(_sum_of_top(ritz[:size, :size], n_top))
        if _settled(totals, q.shape[0]):
            values, small = top_eigh(ritz[:size, :size], n_top)
            return values, like(q[:, :size] @ like(small, q), matrix), True
    return None


def _first_block(example: Array, n_top: int, near: Array | None) -> Array:
    """Random vectors, with those that are near the top ones among them where some are known."""
    block = like(_draws(example.shape[0], n_top + OVERSAMPLING), example)
    return block if near is None else namespace(near).concat([near, block[:, near.shape[1] :]], axis=1)


@lru_cache(maxsize=4)
def _draws(n_rows: int, n_vectors: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n_rows, n_vectors))


def _first_totals(near: Array | None) -> list[float]:
    """What the sums begin with: from vectors that are nearly right the first step is no measure of others."""
    return [0.0] if near is None else []


def _settled(totals: list[float], n_rows: int) -> bool:
    """Whether a growing sum has come to its end: little was added, and hardly more is to be expected."""
    if len(totals) < 3:
        return False
    to_come = SUM_TO_COME if n_rows > DENSE_AT_LAST else SUM_TO_COME_OF_FEW
    before, last = totals[-2] - totals[-3], totals[-1] - totals[-2]
    limit = abs(totals[-1])
    if last <= to_come**2 * limit:
        return True
    return last <= SUM_TOLERANCE * limit and last * last <= to_come * limit * (before - last)


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


def component_signs(coef: Array) -> Array:
    """+-1 for each component, such that its largest coefficient becomes positive."""
    xp = namespace(coef)
    largest = xp.argmax(xp.abs(coef), axis=0)
    places = like(xp.arange(coef.shape[0]), largest)
    picked = xp.sum(xp.where(places[:, None] == largest, coef, xp.zeros_like(coef)), axis=0)
    return xp.where(picked < 0, -xp.ones_like(picked), xp.ones_like(picked))
