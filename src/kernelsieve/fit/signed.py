"""Kernels that are not positive semi-definite: kernel PCA with the negative part kept.

Such a kernel is the inner product of a space with a signature (a Krein space).  With K_SS = U L U', W = U |L|^-1/2 and
J = sign(L), rows have coordinates F = k(X, S) W, and with C the covariance of F the covariance operator is C J.  Its
eigenpairs come from a symmetric matrix,

    C^1/2 J C^1/2 q = mu q,      component J C^1/2 q / sqrt(mu) for mu > 0

and with all rows as points they are scikit-learn's KernelPCA to rounding, which takes the positive eigenvalues of the
centred gram.  Dropping the negative part first, as a positive semi-definite kernel's rounding is dropped, loses the
components that it balances.
"""

from __future__ import annotations

import numpy as np

from ..arrays import top_eigh


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
