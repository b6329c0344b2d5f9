"""The top of a spectrum: one eigenproblem, and the only place that decides how it is solved.

The best components on a basis of span(phi(S)), for rows whose coordinates there have the covariance C, are

    C v = mu v,      mu_1 >= ... >= mu_M        captured variance = mu_1 + ... + mu_M

For coefficients g over the points, the same problem is A g = mu K g, with K = K_SS = L L'.

A kernel that is not positive semi-definite is the inner product of a space with a signature (a Krein space), and its
negative part may be kept.  With W = U |L|^-1/2 and J = sign(L), rows have coordinates F = k(X, S) W, and with C the
covariance of F the covariance operator is C J.  Its eigenpairs come from a symmetric matrix,

    C^1/2 J C^1/2 q = mu q,      component J C^1/2 q / sqrt(mu) for mu > 0

and with all rows as points they are those of scikit-learn's KernelPCA to rounding, which takes the positive
eigenvalues of the centred gram.  Dropping the negative part of K_SS first, as is right for the rounding of a positive
semi-definite kernel, loses the components that it balances.

Exact kernel PCA is the top of the weighted, centred spectrum of a gram.  With weights omega (sum 1) and
E = diag(omega)^1/2, C = I - omega 1' (or I when not centred), the nonzero spectrum of the covariance is that of

    B = E C' K C E,        B u = lambda u,        component v = Phi' d / sqrt(lambda),  d = C E u
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..arrays import Array, is_accelerated, is_torch, like, namespace, solve_lower, to_numpy, top_eigh
from ..threads import matmul
from .krylov import DENSE_AT_LAST, OVERSAMPLING, block_krylov, krylov_of_matrix, refined

# From this size on, products with an operator cost less than its eigendecomposition, unless many vectors are needed.
LARGE = 400
SOLVED_ON_DEVICE = 128  # smaller matrices are copied to the host, where they are solved faster


@dataclass(frozen=True)
class Operator:
    """A symmetric operator, given by its products and as a matrix, each computed only if it is needed."""

    example: Array  # (n,) a vector that it can be applied to
    apply: Callable[[Array], Array]
    matrix: Callable[[], Array]
    metric: tuple[Array, Array] | None = None  # K and its lower Cholesky factor, for the problem A g = mu K g

    @classmethod
    def of(cls, matrix: Array) -> Operator:
        """The operator that is this matrix."""
        return cls(matrix[0, :], lambda block: matrix @ block, lambda: matrix)


def is_large(size: int, n_top: int) -> bool:
    """Whether products with an operator of this size cost less than its eigendecomposition."""
    return size >= max(LARGE, 6 * (n_top + OVERSAMPLING))


def top(
    operator: Operator,
    n_top: int,
    *,
    signature: np.ndarray | None = None,
    near: Array | None = None,
    precise: bool = False,
) -> tuple[np.ndarray, Array]:
    """The largest `n_top` eigenvalues, descending, on the host, and their vectors, on the operator's device.

    | what is given                                  | how it is solved                                              |
    |------------------------------------------------|---------------------------------------------------------------|
    | a `signature`                                  | densely, by the symmetric matrix C^1/2 J C^1/2                |
    | a metric, vectors `near` the top ones          | one step of subspace iteration from them (krylov.refined)     |
    | a metric                                       | densely, by L^-1 A L^-T                                       |
    | `precise`, or an operator that is not large    | densely; on a device from SOLVED_ON_DEVICE on, else the host  |
    | a large one                                    | a block Krylov space, with vectors `near` the top ones in it; |
    |                                                | densely where its spectrum is flat and it is not very large   |

    A Krylov space gives the sum of the eigenvalues to five digits and the span of the vectors to a few; `precise` asks
    for all digits.  On a device, captured variance is computed without vectors (search/objective_cuda.py).
    """
    if signature is not None:
        return _signed(to_numpy(operator.matrix()), signature, n_top)
    if operator.metric is not None:
        return _over_points(operator, operator.metric, n_top, near)
    n = int(operator.example.shape[0])
    n_top = min(n_top, n)
    if not precise and is_large(n, n_top):
        values, vectors, settled = _from_products(operator, n_top, near)
        if settled or n > DENSE_AT_LAST:
            return values, vectors
    matrix = operator.matrix()
    on_device = is_accelerated(matrix) and n >= SOLVED_ON_DEVICE
    values, vectors = top_eigh(matrix if on_device else to_numpy(matrix), n_top)
    return to_numpy(values), like(vectors, matrix)


def _from_products(operator: Operator, n_top: int, near: Array | None) -> tuple[np.ndarray, Array, bool]:
    found = krylov_of_matrix(operator.matrix(), n_top, near) if is_torch(operator.example) else None
    return found or block_krylov(operator.apply, operator.example, n_top, near)


def _over_points(
    operator: Operator, metric: tuple[Array, Array], n_top: int, near: Array | None
) -> tuple[np.ndarray, Array]:
    """The top pairs of A g = mu K g, with g'K g = 1."""
    gram, factor = metric
    if near is not None:
        return refined(operator.apply, gram, factor, near, n_top)
    half = solve_lower(factor, operator.matrix())
    reduced = solve_lower(factor, half.T)
    n_top = min(n_top, int(gram.shape[0]))
    if not bool(namespace(gram).isfinite(namespace(gram).sum(reduced))):  # the points are so far away that k overflows
        return np.full(n_top, -np.inf), namespace(gram).zeros_like(gram[:, :n_top])
    values, vectors = top_eigh((reduced + reduced.T) / 2, n_top)
    return to_numpy(values), solve_lower(factor, vectors, transpose=True)


def _signed(covariance: np.ndarray, signature: np.ndarray, n_top: int) -> tuple[np.ndarray, np.ndarray]:
    """(mu, J v) of the best components of positive length; zeros if there are fewer than `n_top`."""
    values, vectors = top_eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    found, small = top_eigh(root @ (signature[:, None] * root), n_top)
    variances, directions = np.zeros(n_top), np.zeros((len(signature), n_top))
    n_real = int(np.sum(found > 0))
    variances[:n_real] = found[:n_real]
    directions[:, :n_real] = signature[:, None] * (root @ small[:, :n_real]) / np.sqrt(found[:n_real])
    return variances, directions


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
    precise: bool = False,
    near: Array | None = None,
) -> ExactComponents:
    """The top `n_components` of exact kernel PCA on `gram`; negative eigenvalues count as zero.

    `near` and `precise` as in `top`.
    """
    xp = namespace(gram)
    if weights is None:
        omega = xp.full_like(gram[:, 0], 1.0 / gram.shape[0])
    else:
        omega = like(weights / namespace(weights).sum(weights), gram)  # float32 can hold their ratios
    root = xp.sqrt(omega)

    def right(block: Array) -> Array:  # C E block
        block = root[:, None] * block
        return block - omega[:, None] * xp.sum(block, axis=0) if center else block

    def left(block: Array) -> Array:  # E C' block
        return root[:, None] * (block - omega @ block if center else block)

    def matrix() -> Array:
        whole = left(left(gram).T)
        return (whole + whole.T) / 2

    operator = Operator(gram[0, :], lambda block: left(matmul(gram, right(block), n_threads)), matrix)
    values, vectors = top(operator, n_components, near=near, precise=precise)
    return ExactComponents(np.maximum(values.astype(np.float64), 0.0), right(vectors))


def component_signs(coef: Array) -> Array:
    """+-1 for each component, such that its largest coefficient becomes positive."""
    xp = namespace(coef)
    largest = xp.argmax(xp.abs(coef), axis=0)
    places = like(xp.arange(coef.shape[0]), largest)
    picked = xp.sum(xp.where(places[:, None] == largest, coef, xp.zeros_like(coef)), axis=0)
    return xp.where(picked < 0, -xp.ones_like(picked), xp.ones_like(picked))
