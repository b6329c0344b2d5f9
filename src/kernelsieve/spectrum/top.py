"""The largest eigenvalues and their vectors: the eigenproblem of all fits, and the choice of how it is solved.

The best components on a basis of span(phi(S)), for rows whose coordinates there have the covariance C, are

    C v = mu v,      mu_1 >= ... >= mu_M        captured variance = mu_1 + ... + mu_M

For coefficients g over the points, the same problem is A g = mu K g, with K = K_SS = L L'.

A kernel that is not positive semi-definite is the inner product of a space with a signature (a Krein space), and its
negative part may be kept.  Let K_SS = U L U' be the eigendecomposition, W = U |L|^-1/2 and J = sign(L).  Then rows have
the coordinates F = k(X, S) W, and with C the covariance of F, the covariance operator is C J.  Its eigenpairs come from
a symmetric matrix,

    C^1/2 J C^1/2 q = mu q,      component J C^1/2 q / sqrt(mu) for mu > 0

If all rows are points, these are the components of scikit-learn's KernelPCA up to rounding, which takes the positive
eigenvalues of the centred gram.  For a positive semi-definite kernel, the negative part of K_SS is rounding and is
dropped first.  For an indefinite kernel, dropping it would change the components that it takes part in.

Exact kernel PCA is the top of the weighted, centred spectrum of a gram.  With weights omega (sum 1) and
E = diag(omega)^1/2, C = I - omega 1' (or I when not centred), the nonzero spectrum of the covariance is that of

    B = E C' K C E,        B u = lambda u,        component v = Phi' d / sqrt(lambda),  d = C E u

The top eigenpairs of a large operator B are computed in a block Krylov space (Musco & Musco 2015).  This takes a few
products with blocks of vectors, where ARPACK would read the whole matrix once for each vector.  From a random block Y,
the orthonormal basis

    q = [Q_1, ..., Q_k],      Q_1 = orth(B Y),      Q_i+1 = orth(B Q_i - q q'B Q_i)

is extended until the sum of the top eigenvalues of q'B q has converged (Rayleigh-Ritz).  On a device, a fixed number of
blocks is computed without waiting for intermediate results.  The leading part of q'B q belongs to the first blocks, so
the host can see afterwards how many blocks were needed.  On a device, a block is orthonormalised by the Cholesky factor
of its gram, twice.  This fails, and is reported, if the vectors are linearly dependent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from inspect import signature

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from ..arrays import (
    Array,
    arpack_restarts,
    as_float64,
    inner,
    is_accelerated,
    is_numpy,
    is_torch,
    like,
    namespace,
    solve_lower,
    to_numpy,
    top_eigh,
    unchecked_cholesky,
)
from ..numerics import HALF_THE_DIGITS
from ..threads import matmul
from .cuda_graphs import recorded
from .whitening import orthonormal, whiten

# Up to this many rows, a dense eigensolver is used if the Krylov space does not converge because the spectrum is flat.
DENSE_AT_LAST = 1000
OVERSAMPLING = 8  # vectors in a block beyond the eigenvectors wanted
MOST_RESTARTS = 40  # after this many, a dense eigendecomposition would have been as fast
BLOCKS = 5  # blocks of vectors that a device computes without waiting: most spectra need three to five


def block_krylov(
    apply: Callable[[Array], Array], example: Array, n_top: int, near: Array | None = None
) -> tuple[np.ndarray, Array, bool]:
    """The top eigenpairs of a symmetric operator on vectors like `example`, and whether they have converged.

    The space starts from the image of a random block, in which vectors `near` the top ones replace some if they are
    known.  Starting from columns of the operator itself would save a product.  But if each row is similar to few others
    only, these columns are nearly zero for all other rows, and eigenvectors on those would be missed.  The eigenvalues
    are on the host.
    """
    xp = namespace(example)
    block, _ = xp.linalg.qr(apply(_first_block(example, n_top, near)))
    basis, images = [], []
    totals = _first_totals(near)
    for _ in range(16):
        basis.append(block)
        images.append(apply(block))
        q, bq = xp.concat(basis, axis=1), xp.concat(images, axis=1)
        ritz = to_numpy(q.T @ bq)  # the host solves a small eigenproblem faster than a device
        totals.append(_sum_of_top(ritz, n_top))
        if converged := _sum_converged(totals, q.shape[0]):
            break
        block = _new_directions(images[-1], q)
        if converged := block.shape[1] == 0:  # the space cannot be extended, so its eigenpairs are exact
            break
    values, small = top_eigh((ritz + ritz.T) / 2, n_top)
    return values, q @ like(small, q), converged


def converged_pairs(matrix: Array, n_top: int, tolerance: float) -> tuple[np.ndarray, Array] | None:
    """The top eigenpairs of a large symmetric matrix on a device, to all digits; None if they do not converge.

    It computes one block Krylov space after the other, each started from the Ritz vectors of the last, until
    |B v - lambda v| is at most `tolerance` lambda_1 for every pair.  A space costs BLOCKS products of the matrix with
    n_top + OVERSAMPLING vectors.  Convergence is too slow if eigenvalues are very close to each other.
    """
    xp = namespace(matrix)
    block, _ = xp.linalg.qr(matrix @ _first_block(matrix[0, :], n_top, None))
    for _ in range(MOST_RESTARTS):
        basis, images = [block], [matrix @ block]
        for _ in range(BLOCKS - 1):
            more = _new_directions(images[-1], xp.concat(basis, axis=1))
            if more.shape[1] == 0:  # the space cannot be extended
                break
            basis.append(more)
            images.append(matrix @ more)
        q, bq = xp.concat(basis, axis=1), xp.concat(images, axis=1)
        ritz = to_numpy(q.T @ bq)
        values, small = top_eigh((ritz + ritz.T) / 2, n_top + OVERSAMPLING)
        small = like(small, q)
        block = q @ small
        left = (bq @ small - block * like(values, block))[:, :n_top]
        if float(xp.max(xp.sum(left * left, axis=0))) ** 0.5 <= tolerance * abs(float(values[0])):
            return values[:n_top], block[:, :n_top]
    return None


def _sum_of_top(ritz: np.ndarray, n_top: int) -> float:
    """The sum of the largest `n_top` eigenvalues; without eigenvectors it takes a fraction of the time."""
    return float(np.linalg.eigvalsh((ritz + ritz.T) / 2)[-n_top:].sum())


def krylov_of_matrix(matrix: Array, n_top: int, near: Array | None) -> tuple[np.ndarray, Array, bool] | None:
    """`block_krylov` of a matrix on a device, with BLOCKS blocks computed without waiting; None if more are needed."""
    block = _first_block(matrix[0, :], n_top, near)
    space = _space_of(as_float64(matrix), as_float64(block))
    if space is None:
        return None
    q, ritz, totals = space[0], to_numpy(space[1]), _first_totals(near)
    for size in range(block.shape[1], q.shape[1] + 1, block.shape[1]):
        totals.append(_sum_of_top(ritz[:size, :size], n_top))
        if _sum_converged(totals, q.shape[0]):
            values, small = top_eigh(ritz[:size, :size], n_top)
            return values, like(q[:, :size] @ like(small, q), matrix), True
    return None


def _first_block(example: Array, n_top: int, near: Array | None) -> Array:
    """Random vectors, of which some are replaced by vectors `near` the top ones if these are known."""
    block = like(_draws(example.shape[0], n_top + OVERSAMPLING), example)
    return block if near is None else namespace(near).concat([near, block[:, near.shape[1] :]], axis=1)


@lru_cache(maxsize=4)
def _draws(n_rows: int, n_vectors: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n_rows, n_vectors))


def _first_totals(near: Array | None) -> list[float]:
    """The sums of eigenvalues before the first space: zero for a random block, none for a block with `near` vectors.

    Sums that start from vectors `near` the top ones change little at first, which says nothing about later changes.
    """
    return [0.0] if near is None else []


def _sum_converged(totals: list[float], n_rows: int) -> bool:
    """Whether a growing sum has converged: little was added last, and little more is to be expected.

    What is still to come is estimated by assuming that the changes go on shrinking at the same rate.  It may be at most
    the share `to_come` of the sum.
    """
    if len(totals) < 3:
        return False
    to_come = 2e-5 if n_rows > DENSE_AT_LAST else 2e-7  # if there are few rows, more digits cost little
    before, last = totals[-2] - totals[-3], totals[-1] - totals[-2]
    limit = abs(totals[-1])
    if last <= to_come**2 * limit:
        return True
    # The remaining error is two to three digits smaller than the last change.
    return last <= 1e-3 * limit and last * last <= to_come * limit * (before - last)


def _new_directions(image: Array, basis: Array) -> Array:
    """An orthonormal basis of the part of `image` outside the span of `basis`, without directions that are rounding.

    Once the Krylov space cannot be extended, the remainder of `image` is rounding.  Normalised to unit length, it could
    point anywhere, even into the span, and variance along it would be counted twice.
    """
    xp = namespace(image)
    rounding = xp.finfo(image.dtype).eps * image.shape[0] ** 0.5 * inner(image, image) ** 0.5
    block = image
    for _ in range(2):  # one projection leaves rounding errors in the span; the second removes them
        block = block - basis @ (basis.T @ block)
    n_more = max(0, basis.shape[0] - basis.shape[1])
    directions, triangle = xp.linalg.qr(block)
    # If all remainders are 100 times longer than rounding, they are already orthogonal to the basis to one percent.
    if block.shape[1] <= n_more and float(xp.min(xp.abs(xp.linalg.diagonal(triangle)))) > 100 * rounding:
        return directions
    rotation, lengths, _ = xp.linalg.svd(triangle, full_matrices=False)
    rank = min(int(xp.sum(xp.astype(lengths > rounding, xp.int64))), n_more)
    block = directions @ rotation[:, :rank]
    # Short remainders are orthogonal to the basis to a few digits only, so project them again.
    block, _ = xp.linalg.qr(block - basis @ (basis.T @ block))
    return block


def _space_of(matrix: Array, block: Array) -> tuple[Array, Array] | None:
    """q (n, k p) and q'B q for a symmetric matrix B (n, n) and a first block (n, p).

    None if B is too small for so many vectors, or if the blocks are linearly dependent.
    """
    if BLOCKS * block.shape[1] > matrix.shape[0]:
        return None
    q, ritz, off = recorded("Krylov space", _space, matrix, block)
    return (q, ritz) if float(off) <= 1e-9 else None


def _space(matrix: Array, block: Array) -> tuple[Array, ...]:
    """q, q'B q, and the largest element of |q'q - I|."""
    import torch

    block = _orthonormal(matrix @ block)
    q, image = block, matrix @ block
    for _ in range(BLOCKS - 1):
        for _ in range(2):  # one projection leaves rounding errors in the span; the second removes them
            image = image - q @ (q.T @ image)
        block = _orthonormal(image)
        q = torch.cat([q, block], dim=1)
        image = matrix @ block
    identity = torch.eye(q.shape[1], dtype=q.dtype, device=q.device)
    ritz = q.T @ (matrix @ q)
    return q, (ritz + ritz.T) / 2, (q.T @ q - identity).abs().max()


def _orthonormal(block: Array) -> Array:
    """An orthonormal basis of the block's columns; if these are linearly dependent, the result is not orthonormal."""
    import torch

    for _ in range(2):  # the first pass is inexact for an ill-conditioned block; the second removes its error
        block = block / torch.linalg.vector_norm(block, dim=0)
        factor, _ = unchecked_cholesky(block.T @ block, 1e-15)
        block = torch.linalg.solve_triangular(factor, block.T, upper=False).T
    return block


def refined(
    apply: Callable[[Array], Array], gram: Array, factor: Array, guess: Array, n_top: int
) -> tuple[np.ndarray, Array]:
    """The top `n_top` eigenpairs of A g = mu K g; `gram` is K, and `factor` its lower Cholesky factor.

    With a guess Y (m, p) near the span of the top vectors,

        Rayleigh-Ritz over [Y, K^-1 A Y - Y (Y'A Y)]

    squares the error of the guess.  There are at most 2 p pairs.  A is applied twice to p vectors.  For A = K_SN K_NS
    these are 8 n m p operations; forming A would take 2 n m^2, and its eigendecomposition about m^3.
    """
    # Approximately orthonormal is enough here, because Rayleigh-Ritz uses the exact metric below.
    found = orthonormal(guess, gram)
    if found is None:
        found = guess @ like(whiten(to_numpy(guess.T @ (gram @ guess)), HALF_THE_DIGITS).matrix, guess)
    guess = found
    image, weighed = apply(guess), gram @ guess
    step = solve_lower(factor, solve_lower(factor, image), transpose=True) - guess @ (guess.T @ image)
    xp, step_weighed = namespace(step), gram @ step
    lengths = xp.sqrt(xp.abs(xp.sum(step * step_weighed, axis=0)))
    # A step shorter than this is the rounding of float32 products, and its direction means nothing.
    least = 1e-5 * xp.max(xp.abs(xp.linalg.diagonal(guess.T @ image)))
    scale = xp.where(lengths > least, 1.0 / xp.maximum(lengths, least), xp.zeros_like(lengths))
    step, step_weighed = step * scale, step_weighed * scale
    basis = xp.concat([guess, step], axis=1)
    images = xp.concat([weighed, step_weighed, image, apply(step)], axis=1)
    # The host solves this small problem, for which a device would take milliseconds.
    metric, inner = np.split(to_numpy(basis.T @ images), 2, axis=1)
    mixing = whiten(metric, HALF_THE_DIGITS).matrix
    inner = mixing.T @ inner @ mixing
    values, vectors = top_eigh((inner + inner.T) / 2, n_top)
    return values, basis @ like(mixing @ vectors, basis)


# For operators of at least this size, products cost less than an eigendecomposition, unless many vectors are needed.
# With 400, fits of 300 to 390 rows, or on 260 to 380 points, took 1.2 times as long.
LARGE = 250
LARGE_FOR_LANCZOS = 1000  # from here on, ARPACK takes less than half of the time of a dense solver for all digits
OUTSIDE_BLOCKS = 3
SOLVED_ON_DEVICE = 128  # smaller matrices are copied to the host, which solves them faster


@dataclass(frozen=True)
class Operator:
    """A symmetric operator: its products with vectors, and its matrix, each computed only if it is needed."""

    example: Array  # (n,) a vector that the operator can be applied to
    apply: Callable[[Array], Array]
    matrix: Callable[[], Array]
    metric: tuple[Array, Array] | None = None  # K and its lower Cholesky factor, for the problem A g = mu K g

    @classmethod
    def of(cls, matrix: Array) -> Operator:
        """The operator with this matrix."""
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
    | a metric, and vectors `near` the top ones      | by one Rayleigh-Ritz step from these vectors (`refined`)      |
    | a metric                                       | densely, by L^-1 A L^-T                                       |
    | `precise`, at least LARGE_FOR_LANCZOS, on the  | by ARPACK; if that does not converge, or misses an            |
    | host                                           | eigenvalue, densely                                           |
    | `precise`, or an operator that is not large    | densely, on the host or, from SOLVED_ON_DEVICE on, the device |
    | a large operator                               | by a block Krylov space, which contains vectors `near` the    |
    |                                                | top ones; if that does not converge and there are at most     |
    |                                                | DENSE_AT_LAST rows, densely                                   |

    A Krylov space gives the sum of the eigenvalues to five digits and the span of the vectors to a few; `precise` asks
    for all digits.  On a device, captured variance is computed without this function (search/objective_cuda.py).
    """
    if signature is not None:
        return _signed(to_numpy(operator.matrix()), signature, n_top)
    if operator.metric is not None:
        return _over_points(operator, operator.metric, n_top, near)
    n = int(operator.example.shape[0])
    n_top = min(n_top, n)
    if not precise and is_large(n, n_top):
        values, vectors, converged = _from_products(operator, n_top, near)
        if converged or n > DENSE_AT_LAST:
            return values, vectors
    if precise and n >= LARGE_FOR_LANCZOS and is_large(n, n_top) and is_numpy(operator.example):
        found = _by_arpack(operator, n_top, near)
        if found is not None:
            return found
    matrix = operator.matrix()
    on_device = is_accelerated(matrix) and n >= SOLVED_ON_DEVICE
    values, vectors = top_eigh(matrix if on_device else to_numpy(matrix), n_top)
    return to_numpy(values), like(vectors, matrix)


def _by_arpack(operator: Operator, n_top: int, near: Array | None) -> tuple[np.ndarray, Array] | None:
    """The top eigenpairs by ARPACK, to all digits; None if they do not converge, or if one may have been missed.

    Of an eigenvalue that occurs several times, ARPACK may miss a vector.  So a few products with vectors outside the
    span of those found must not find a larger eigenvalue than the last one.
    """
    n, rng = int(operator.example.shape[0]), np.random.default_rng(0)
    # Any combination of vectors near the top ones is a better start than a random vector.
    start = rng.uniform(-1, 1, n) if near is None else near @ np.ones(near.shape[1])
    products = LinearOperator((n, n), matvec=lambda x: operator.apply(x.reshape(n, 1))[:, 0], dtype=np.float64)
    seeded = {"rng": rng} if "rng" in signature(eigsh).parameters else {}
    try:
        limit = arpack_restarts(n, n_top)
        values, vectors = eigsh(products, n_top, which="LA", v0=start, maxiter=limit, **seeded)
    except ArpackError:
        return None
    order = np.argsort(-values)
    values, vectors = values[order], vectors[:, order]
    basis = np.empty((n, 0))
    image = _draws(n, OVERSAMPLING)
    for _ in range(OUTSIDE_BLOCKS):
        block = np.linalg.qr(image - vectors @ (vectors.T @ image))[0]
        basis, image = np.hstack([basis, block]), operator.apply(block)
    basis = np.linalg.qr(basis - vectors @ (vectors.T @ basis))[0]
    outside = np.linalg.eigvalsh(basis.T @ operator.apply(basis))[-1]
    return None if outside > values[-1] + HALF_THE_DIGITS * values[0] else (values, vectors)


def _from_products(operator: Operator, n_top: int, near: Array | None) -> tuple[np.ndarray, Array, bool]:
    found = krylov_of_matrix(operator.matrix(), n_top, near) if is_torch(operator.example) else None
    return found or block_krylov(operator.apply, operator.example, n_top, near)


def _over_points(
    operator: Operator, metric: tuple[Array, Array], n_top: int, near: Array | None
) -> tuple[np.ndarray, Array]:
    """The top eigenpairs of A g = mu K g, with g'K g = 1."""
    gram, factor = metric
    if near is not None:
        return refined(operator.apply, gram, factor, near, n_top)
    half = solve_lower(factor, operator.matrix())
    reduced = solve_lower(factor, half.T)
    n_top = min(n_top, int(gram.shape[0]))
    if not bool(namespace(gram).isfinite(namespace(gram).sum(reduced))):  # k overflows because points are far away
        return np.full(n_top, -np.inf), namespace(gram).zeros_like(gram[:, :n_top])
    values, vectors = top_eigh((reduced + reduced.T) / 2, n_top)
    return to_numpy(values), solve_lower(factor, vectors, transpose=True)


def _signed(covariance: np.ndarray, signature: np.ndarray, n_top: int) -> tuple[np.ndarray, np.ndarray]:
    """mu and J C^1/2 q / sqrt(mu) for the `n_top` largest mu > 0 (see the module's text); zeros if there are fewer."""
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
    """The components of exact kernel PCA, as coefficients over the rows of the gram, and their variances."""

    variances: np.ndarray  # (M,) variance along each component
    row_coef: Array  # (n, M): sqrt(lambda) v = Phi' row_coef

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
    product: Callable[[Array], Array] | None = None,
) -> ExactComponents:
    """The top `n_components` components of exact kernel PCA on `gram`; negative eigenvalues count as zero.

    `near` and `precise` as in `top`; `product` multiplies the gram by a block, if there is a faster way.
    """
    xp = namespace(gram)
    if weights is None:
        omega = xp.full_like(gram[:, 0], 1.0 / gram.shape[0])
    else:
        omega = like(weights / namespace(weights).sum(weights), gram)  # divided first: float32 can represent ratios
    root = xp.sqrt(omega)

    def right(block: Array) -> Array:  # C E block
        block = root[:, None] * block
        return block - omega[:, None] * xp.sum(block, axis=0) if center else block

    def left(block: Array) -> Array:  # E C' block
        return root[:, None] * (block - omega @ block if center else block)

    def matrix() -> Array:
        whole = left(left(gram).T)
        return (whole + whole.T) / 2

    times = product or (lambda block: matmul(gram, block, n_threads))
    operator = Operator(gram[0, :], lambda block: left(times(right(block))), matrix)
    values, vectors = top(operator, n_components, near=near, precise=precise)
    return ExactComponents(np.maximum(values.astype(np.float64), 0.0), right(vectors))


def component_signs(coef: Array) -> Array:
    """The sign +-1 for each component by which its coefficient of largest size becomes positive."""
    xp = namespace(coef)
    largest = xp.argmax(xp.abs(coef), axis=0)
    places = like(xp.arange(coef.shape[0]), largest)
    picked = xp.sum(xp.where(places[:, None] == largest, coef, xp.zeros_like(coef)), axis=0)
    return xp.where(picked < 0, -xp.ones_like(picked), xp.ones_like(picked))
