"""The spectrum of a gram, and an orthonormal basis of the span of its points computed from it: whitening.

Whitening uses the eigenvalues that are above rounding:

    K = U L U',    W = U L^-1/2,    W' K W = I

The rounding error of an eigenvector is proportional to the largest eigenvalue l_1, so W' K W is off by u l_1 / l_q,
with the unit roundoff u and the smallest eigenvalue used, l_q.  If l_q is small, this exceeds the error from the kernel
values themselves.  Components would be longer than one, and the variance along them too large.  Then W is corrected by
the Cholesky factor of the actual W' K W:

    W' K W = C C',    W <- W C^-T

The Cholesky factor L of K = L L' gives another whitening, W = L^-T, for a tenth of the cost of eigenvectors.  It is
used if all eigenvalues are proved to be above rounding by the bounds  1 / |L^-1|^2 = 1 / tr K^-1 <= l_q  and
l_1 <= max_i sum_j |K_ij|.

If the negative part of an indefinite kernel is kept, W = U |L|^-1/2 and W'K W = J, a diagonal of signs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..arrays import (
    Array,
    cholesky,
    inner,
    is_numpy,
    namespace,
    solve_lower,
    take_columns,
    take_rows,
    to_numpy,
    top_eigh,
)
from ..threads import matmul, ordered_map, row_ranges

# Eigenvalues of a gram below this share of the largest are rounding; keyed by the bytes of a kernel value.
RANK_TOLERANCES = {4: 1e-6, 8: 1e-11}
RANK_TOLERANCE = RANK_TOLERANCES[8]
DROPPED_WITH_NEGATIVE = (
    "the kernel is not positive semi-definite on these rows, and this method drops negative eigenvalues and positive "
    "ones that are no larger. Use SparseKernelPCA or KernelPCA, which keep them, another coef0, or fewer components"
)


@dataclass(frozen=True)
class Whitening:
    """W with W' K W = I (a diagonal of signs if the negative part was kept), and the size of the negative part."""

    matrix: Array  # (r, q)
    # Sum of |negative eigenvalues| / sum of all |eigenvalues|.  If it is above rounding, the kernel is indefinite.
    negative_share: float


@dataclass(frozen=True)
class GramSpectrum:
    """Eigenvalues of a gram, descending, and its eigenvectors."""

    gram: Array  # (r, r)
    values: Array  # (r,)
    vectors: Array  # (r, r)

    @classmethod
    def of(cls, gram: Array) -> GramSpectrum:
        """The spectrum of a gram; an error if the gram's values cannot be used."""
        check_kernel_values(gram)
        gram = (gram + gram.T) / 2
        return cls(gram, *top_eigh(gram))

    def rank(self, tolerance: float) -> int:
        """The number of eigenvalues above `tolerance` times the largest and above the size of the most negative one."""
        xp = namespace(self.values)
        floor = max(tolerance * max(float(self.values[0]), 0.0), -float(self.values[-1]))
        return int(xp.sum(xp.astype(self.values > floor, xp.int64)))

    def whitening(
        self, tolerance: float = RANK_TOLERANCE, *, keep_negative: bool = False, n_threads: int = 1
    ) -> Whitening:
        """W = U L^-1/2 over the eigenvalues above `tolerance` times the largest.

        If the kernel is indefinite, eigenvalues below the size of the most negative one are dropped as well.  Dividing
        by them would let captured variance grow without bound.  With `keep_negative`, negative eigenvalues are kept
        beside the positive ones: W = U |L|^-1/2, W'K W = diag(+-1).
        """
        values, vectors = self.values, self.vectors
        xp = namespace(values)
        if keep_negative:
            size = xp.abs(values)
            places = np.flatnonzero(to_numpy(size > tolerance * xp.max(size)))
            kept = take_columns(vectors, places) / xp.sqrt(take_rows(size, places))
            return Whitening(kept, share_of_negative(values))
        rank = self.rank(tolerance)
        if rank == 0 and not float(values[0]) > 0:
            raise ValueError("the kernel matrix of the support points has no positive part: nothing to model")
        if rank == 0:
            raise ValueError(
                "the kernel is far from positive semi-definite on these rows: its matrix for the support points has a "
                "negative eigenvalue larger in size than all positive ones. This method drops negative eigenvalues and "
                "positive ones that are no larger, so nothing is left to model. Use SparseKernelPCA or KernelPCA, "
                "which keep them, or another coef0"
            )
        matrix = vectors[:, :rank] / xp.sqrt(values[:rank])
        if float(values[rank - 1]) < 1e-6 * float(values[0]):  # otherwise eigenvectors are accurate to ten digits
            corrected = orthonormal(matrix, self.gram, n_threads)
            matrix = matrix if corrected is None else corrected
        return Whitening(matrix, share_of_negative(values))


def orthonormal(basis: Array, gram: Array, n_threads: int = 1) -> Array | None:
    """B C^-T with B' K B = C C': an orthonormal basis of the span of B; None if B is linearly dependent."""
    metric = matmul(basis.T, matmul(gram, basis, n_threads), n_threads)
    factor = cholesky((metric + metric.T) / 2)
    if factor is None:
        return None
    if not is_numpy(basis) or len(basis) < 400:  # one thread solves a small system faster
        return solve_lower(factor, basis.T).T
    parts = row_ranges(len(basis), 125)  # parts do not depend on the number of threads, so results have the same bits
    return np.concatenate(list(ordered_map(lambda rows: solve_lower(factor, basis[rows].T).T, parts, n_threads)))


def triangular_whitening(gram: np.ndarray) -> np.ndarray | None:
    """L^-T for gram = L L', if L proves that every eigenvalue is above RANK_TOLERANCE times the largest; else None."""
    factor = cholesky(gram)
    if factor is None:
        return None
    inverse, _ = scipy.linalg.lapack.dtrtri(factor, lower=True, overwrite_c=True)
    most = float(np.abs(gram).sum(axis=0).max()) * inner(inverse.T, inverse.T)
    return inverse.T if most * RANK_TOLERANCE < 1 else None


def whiten(gram: Array, tolerance: float = RANK_TOLERANCE) -> Whitening:
    """The whitening of a gram whose spectrum is not needed again (see `GramSpectrum.whitening`)."""
    return GramSpectrum.of(gram).whitening(tolerance)


def negative_share(gram: Array) -> float:
    """Sum of |negative eigenvalues| / sum of all |eigenvalues|."""
    return share_of_negative(namespace(gram).linalg.eigvalsh((gram + gram.T) / 2))


def share_of_negative(values: Array) -> float:
    """The share of negative values in the sum of the absolute values of some eigenvalues."""
    xp = namespace(values)
    magnitude = xp.abs(values)
    total = float(xp.sum(magnitude))
    return float(xp.sum(xp.where(values < 0, magnitude, xp.zeros_like(values)))) / total if total > 0 else 0.0


def signs_of(whitening: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """The signs on the diagonal of J = W'K_SS W."""
    return np.where(np.sum(whitening * (gram @ whitening), axis=0) < 0, -1.0, 1.0)


def check_kernel_values(gram: Array) -> None:
    """Raise an error unless all kernel values are finite and some on the diagonal are not zero."""
    check_finite_kernel(gram)
    check_kernel_diagonal(namespace(gram).linalg.diagonal(gram))


def check_kernel_diagonal(diagonal: Array) -> None:
    """Raise an error unless all values k(x, x) are finite and some are not zero.

    All of them may be negative, because an indefinite kernel can still have a positive part.
    """
    check_finite_kernel(diagonal)
    xp = namespace(diagonal)
    if diagonal.shape[0] == 0 or not float(xp.max(xp.abs(diagonal))) > 0:
        raise ValueError(
            "the kernel matrix of these rows has no positive part for points to carry: k(x, x) is zero for all of "
            "them. Give another coef0 or another kernel"
        )
    if float(xp.max(xp.abs(diagonal))) < 1e-140:  # squares of such numbers lose digits, and their cubes are zero
        raise ValueError(
            f"k(x, x) is at most {float(xp.max(xp.abs(diagonal))):.3g} on these rows: products of such numbers are too "
            "small to compute with. Multiply the kernel's values, or the rows, by a power of ten"
        )


def check_finite_kernel(values: Array) -> None:
    """Raise an error if kernel values are NaN or infinity, or so large that the sum of their squares overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        squared = inner(values, values)
    if not math.isfinite(squared):
        raise ValueError(
            "the kernel gives NaN or infinity (or nearly so) on these rows: scale the rows, or give a smaller gamma or "
            "degree (a whole one, where the polynomial's base can be negative)"
        )
