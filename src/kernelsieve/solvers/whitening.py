"""Whitening: an orthonormal basis of the span of points, from their gram.

    K = U L U',    W = U L^-1/2,    W' K W = I

over the eigenvalues that are more than rounding.  An eigenvector is known to the rounding of the largest eigenvalue, so
that W' K W is off by u l_1 / l_q, more than the rounding of the kernel values themselves asks for where l_q is small:
components would be longer than one, and the variance along them too large.  There W is corrected by the Cholesky
factor of what W' K W is:

    W' K W = C C',    W <- W C^-T

A kernel that is not positive semi-definite is the inner product of a space with a signature (a Krein space), and its
negative part may be kept.  With W = U |L|^-1/2 and J = sign(L), rows have coordinates F = k(X, S) W, and with C the
covariance of F the covariance operator is C J.  Its eigenpairs come from a symmetric matrix,

    C^1/2 J C^1/2 q = mu q,      component J C^1/2 q / sqrt(mu) for mu > 0

and with all rows as points they are scikit-learn's KernelPCA to rounding, which takes the positive eigenvalues of the
centred gram.  Dropping the negative part first, as a positive semi-definite kernel's rounding is dropped, loses the
components that it balances.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, cholesky, namespace, solve_lower, take_columns, take_rows, to_numpy, top_eigh

# Eigenvalues of K_DD below this share of the largest are rounding, in float64 and in float32 blocks.
RANK_TOLERANCE = 1e-11
RANK_TOLERANCE_FLOAT32 = 1e-6
# Eigenvalues above this share of the largest come with eigenvectors that are good to ten digits.
WELL_KNOWN = 1e-6
NO_POSITIVE_PART = "the kernel matrix of the support points has no positive part: nothing to model"
MORE_NEGATIVE = (
    "the kernel is far from positive semi-definite on these rows: its matrix for the support points has negative "
    "eigenvalues larger than all positive ones, and this method, which drops them and what is no larger, is left with "
    "nothing to model. Use SparseKernelPCA or KernelPCA, which count them, or another coef0"
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

    def whitening(self, tolerance: float = RANK_TOLERANCE, *, signed: bool = False) -> Whitening:
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
            return Whitening(kept, _negative_share(values))
        rank = self.rank(tolerance)
        if rank == 0:
            raise ValueError(NO_POSITIVE_PART if not float(values[0]) > 0 else MORE_NEGATIVE)
        matrix = vectors[:, :rank] / xp.sqrt(values[:rank])
        if float(values[rank - 1]) < WELL_KNOWN * float(values[0]):
            corrected = orthonormal(matrix, self.gram)
            matrix = matrix if corrected is None else corrected
        return Whitening(matrix, _negative_share(values))


def orthonormal(basis: Array, gram: Array) -> Array | None:
    """B C^-T with B' K B = C C', which has the span of B and is orthonormal; None where B is dependent."""
    metric = basis.T @ (gram @ basis)
    factor = cholesky((metric + metric.T) / 2)
    return None if factor is None else solve_lower(factor, basis.T).T


def whiten(gram: Array, tolerance: float = RANK_TOLERANCE) -> Whitening:
    """The whitening of a gram that is needed once (see `Spectrum.whitening`)."""
    return Spectrum.of(gram).whitening(tolerance)


def negative_share(gram: Array) -> float:
    """|negative eigenvalues| / all of them."""
    return _negative_share(namespace(gram).linalg.eigvalsh((gram + gram.T) / 2))


def _negative_share(values: Array) -> float:
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
    """Kernel values that can be worked with: some of them, all finite, some positive on the diagonal."""
    check_finite_kernel(gram)
    check_kernel_diagonal(namespace(gram).linalg.diagonal(gram))


def check_kernel_diagonal(diagonal: Array) -> None:
    """k(x, x) that can be worked with: finite, and some positive."""
    check_finite_kernel(diagonal)
    if diagonal.shape[0] == 0 or not float(namespace(diagonal).max(diagonal)) > 0:
        raise ValueError(
            "the kernel matrix of these rows has no positive part for points to carry: k(x, x) > 0 for none of them. "
            "Give a larger coef0, another kernel, or KernelPCA, which centres first"
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
