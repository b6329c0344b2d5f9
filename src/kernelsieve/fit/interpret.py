"""How the scores of a fitted expansion depend on its inputs: gradients, sensitivities, traversals, pre-images.

Scores are z(x) = k(x, S) A - b, so their gradient with respect to the row needs only the support points,

    dz_k/dx = sum_i A_ik dk(x, s_i)/dx

and because kernels are symmetric, dk(x, s)/dx is the derivative by which support points are moved, with the roles of
rows and points exchanged: `Kernel.pullback(S, x, ...)`.  The gradients of n rows take n m kernel values and M products
of n x m by m x d (for the Gaussian kernel, one product).

    input_gradient   (n, M, d)   dz_k/dx_j at each row
    sensitivity      (M, d)      root mean square of the gradient over the rows, times the column's standard deviation:
                                 how far a score moves when an input moves by its standard deviation
    traversal                    rows for increasing scores on one component, the other scores held fixed

A pre-image is the row whose features come closest to what the scores reconstruct.

Scores z stand for the feature vector P = sum_i c_i phi(s_i), c = mean_coef + A z.

Gaussian kernel: |phi(x) - P|^2 is smallest where sum_i c_i k(x, s_i) is largest, which is at a fixed point of

    x = sum_i c_i k(x, s_i) s_i / sum_i c_i k(x, s_i)                    (Mika et al. 1999)

Other kernels of the distance have a similar fixed point, with q k in place of k (kernels/radial.py).

Linear kernel: x = sum_i c_i s_i.  Other kernels: a map from scores to rows learned by ridge regression,
x = f(z) B with f(z) = (1, z, k(z, Z_S)), where Z_S are the scores of the support points and k is a Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import scipy.sparse

from ..arrays import TINY, Array, as_float64, like, namespace, to_numpy
from ..kernels import named_kernel
from ..kernels.blocks import dense
from ..numerics import HALF_THE_DIGITS
from ..rows.checks import finite
from ..rows.rows import map_row_blocks
from .expansion import KernelExpansion
from .parameters import check_component, positive_number, whole_number

MAX_FIXED_POINT_STEPS = 200
# A denominator below this share of sum |c_i| means the iterate has left the region of the expansion.
MIN_DENOMINATOR = 1e-6
RIDGE = 1e-3  # ridge penalty, relative to the mean diagonal of the normal equations
MAX_INVERSE_MAP = 10**8  # a map with more elements than this (800 MB) is not learned


def preimage(expansion: KernelExpansion, scores: np.ndarray, learned: RidgeMap | None) -> np.ndarray:
    """Pre-images of scores, by the method that suits the kernel; `learned` is the map that the fit learned, if any."""
    match expansion.kernel.preimage:
        case "fixed-point":
            return fixed_point(expansion, scores)
        case "linear":
            return _weights(expansion, scores) @ _dense_points(expansion)
    if learned is None:
        raise ValueError(f"a {expansion.kernel.name} kernel has no rows to go back to")
    return learned(scores)


def learned_preimage(expansion: KernelExpansion, rows: Array, weights: np.ndarray | None) -> RidgeMap | None:
    """The ridge map from scores to rows; None if it would be too large, or if the kernel has a better pre-image."""
    if expansion.kernel.preimage != "ridge" or rows.shape[1] * expansion.n_support > MAX_INVERSE_MAP:
        return None
    return learn_ridge_map(expansion, rows, weights)


def fixed_point(expansion: KernelExpansion, scores: np.ndarray) -> np.ndarray:
    """Pre-images by fixed-point iteration from the weighted mean of the support points.

    Rows whose iteration leaves the region of the support restart at their best support point.
    """
    kernel: Any = expansion.kernel
    points = _dense_points(expansion)
    weights = _weights(expansion, scores)  # (n, m)
    cross_gram = kernel.bind(points)

    positive = np.maximum(weights, 0.0)
    x = (positive @ points) / np.maximum(positive.sum(axis=1, keepdims=True), TINY)
    # Start at the best single support point instead of the mean if it is closer in feature space.
    at_points = weights @ kernel(points, points)
    best = np.argmax(at_points, axis=1)
    better = at_points[np.arange(len(best)), best] > np.sum(weights * cross_gram(x), axis=1)
    x[better] = points[best[better]]

    moving = np.arange(len(x))
    for _ in range(MAX_FIXED_POINT_STEPS):
        pull = weights[moving] * kernel.attraction(x[moving], points, cross_gram(x[moving]))
        mass = pull.sum(axis=1)
        lost = mass <= MIN_DENOMINATOR * np.abs(weights[moving]).sum(axis=1)
        following = (pull @ points) / np.where(lost, 1.0, mass)[:, None]
        following[lost] = points[best[moving[lost]]]
        change = np.linalg.norm(following - x[moving], axis=1)
        x[moving] = following
        moving = moving[change > HALF_THE_DIGITS * (1.0 + np.linalg.norm(following, axis=1))]
        if not moving.size:
            break
    return x


@dataclass(frozen=True)
class RidgeMap:
    """A map from scores to rows, learned by ridge regression."""

    centers: Annotated[np.ndarray, "float[k, M]"]  # (m, M) scores of the support
    gamma: Annotated[float, "float"]
    coef: Annotated[np.ndarray, "float[1+M+k, d]"]  # (1 + M + m, d)

    _file_sizes = ("M", "d")

    def check_loaded(self, error: type[ValueError]) -> None:
        """Raise `error` unless the gamma read from a file is a positive finite number."""
        if not 0 < self.gamma < math.inf:
            raise error(f"damaged model file: the inverse map has gamma={self.gamma!r}")

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        return _ridge_features(scores, self.centers, self.gamma) @ self.coef


def learn_ridge_map(expansion: KernelExpansion, rows: Array, weights: np.ndarray | None = None) -> RidgeMap:
    """The ridge map that minimises sum w |x - f(z(x)) B|^2 + ridge |B|^2 over the given rows."""
    values = rows if scipy.sparse.issparse(rows) else to_numpy(rows)
    scores = to_numpy(as_float64(expansion.transform(rows)))
    points = expansion.points
    centers = to_numpy(as_float64(expansion.transform(points)))
    spread = float(np.mean(np.var(scores, axis=0))) * scores.shape[1]
    gamma = 1.0 / (2.0 * spread) if spread > 0 else 1.0
    features = _ridge_features(scores, centers, gamma)
    weighted = features if weights is None else features * weights[:, None]
    normal = features.T @ weighted
    penalty = RIDGE * np.trace(normal) / len(normal)
    normal[np.diag_indices_from(normal)] += penalty * (np.arange(len(normal)) > 0)
    # Solved by eigenvectors, because scores of very different sizes make the matrix too ill-conditioned for a
    # triangular solve.
    units = 1.0 / np.sqrt(np.maximum(np.diagonal(normal), TINY))
    eigenvalues, vectors = np.linalg.eigh(normal * units * units[:, None])
    kept = eigenvalues > len(normal) * np.finfo(np.float64).eps * eigenvalues[-1]
    inverse = (vectors[:, kept] / eigenvalues[kept]) @ vectors[:, kept].T * units * units[:, None]
    return RidgeMap(centers, gamma, inverse @ (weighted.T @ values))


def _ridge_features(scores: np.ndarray, centers: np.ndarray, gamma: float) -> np.ndarray:
    ones = np.ones((len(scores), 1))
    return np.hstack([ones, scores, named_kernel("rbf", gamma=gamma)(scores, centers)])


def _weights(expansion: KernelExpansion, scores: np.ndarray) -> np.ndarray:
    weights = expansion.weights_of(scores) @ to_numpy(expansion.coef).T
    return weights if expansion.mean_coef is None else weights + to_numpy(expansion.mean_coef)


def _dense_points(expansion: KernelExpansion) -> np.ndarray:
    return to_numpy(dense(expansion.points)).astype(np.float64, copy=False)


@dataclass(frozen=True)
class Traversal:
    """Rows along one component: pre-images of increasing scores."""

    component: int
    scores: np.ndarray  # (n_steps,) scores on the component, ascending
    rows: np.ndarray  # (n_steps, d)


def weighted_gradient(expansion: KernelExpansion, rows: Array, cross_gram: Array, weights: Array) -> Array:
    """(n, d) gradients of sum_i weights_ni k(x_n, s_i) in x_n, for dense rows with cross-gram k(rows, S), (n, m)."""
    return expansion.kernel.pullback(expansion.points_like(rows), rows, cross_gram.T, weights.T)


def input_gradient(expansion: KernelExpansion, X: Array, n_threads: int = 1) -> Array:
    """(n, M, d) derivatives dz_k/dx_j at each row."""
    blocks = list(_gradient_blocks(expansion, X, n_threads, lambda gradient: gradient))
    return namespace(blocks[0]).concat(blocks, axis=0)


def sensitivity(expansion: KernelExpansion, X: Array, n_threads: int = 1) -> np.ndarray:
    """(M, d) values of sqrt(mean_n (dz_k/dx_j)^2) times the standard deviation of column j."""

    def squares(gradient: Array) -> np.ndarray:
        values = to_numpy(gradient)
        return np.einsum("nkd,nkd->kd", values, values, dtype=np.float64)

    total = sum(_gradient_blocks(expansion, X, n_threads, squares))
    return np.sqrt(total / X.shape[0]) * column_spread(X)


def column_spread(X: Array) -> np.ndarray:
    """The standard deviation of each column, in float64."""
    if scipy.sparse.issparse(X):
        mean = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
        mean_square = np.asarray(X.multiply(X).mean(axis=0), dtype=np.float64).ravel()
        return np.sqrt(np.maximum(mean_square - mean**2, 0.0))
    return np.std(to_numpy(X), axis=0, dtype=np.float64)


def _gradient_blocks(
    expansion: KernelExpansion, X: Array, n_threads: int, reduced: Callable[[Array], Any]
) -> Iterator[Any]:
    """Yield reduced(gradient) for each block of rows."""
    points = expansion.points_like(X)
    bound = expansion.kernel.bind(points)

    def of_block(rows: slice) -> Any:
        block = finite(X[rows, :])
        cross_gram = bound(block)
        block = dense(block)
        coef = like(expansion.coef, cross_gram)
        return reduced(expansion.kernel.gradients(block, points, cross_gram, coef))

    width = expansion.n_support + expansion.n_components * X.shape[1]
    yield from map_row_blocks(of_block, X, width, n_threads)


def traversal(
    model: Any, component: int = 0, n_steps: int = 9, span: float = 2.0, row: np.ndarray | None = None
) -> Traversal:
    """Pre-images of scores that differ in one component only, up to `span` standard deviations to either side.

    The scores are varied about those of `row`, or about zero (the scores of the training mean) if it is None.
    """
    n_components = model.expansion_.n_components
    component = check_component(component, n_components)
    n_steps, span = whole_number("n_steps", n_steps, 2), positive_number("span", span)
    at = np.zeros(n_components) if row is None else to_numpy(model.transform(row))[0].astype(np.float64)
    reach = span * float(np.sqrt(model.explained_variance_[component]))
    along = at[component] + np.linspace(-reach, reach, n_steps)
    scores = np.tile(at, (n_steps, 1))
    scores[:, component] = along
    return Traversal(component, along, rows_of_scores(model, scores))


def rows_of_scores(model: Any, scores: np.ndarray) -> np.ndarray:
    """Pre-images of scores under a model; scikit-learn's inverse map where the fit learned no other."""
    if model.expansion_.kernel.preimage == "ridge" and getattr(model, "_inverse_map", None) is None:
        return np.asarray(model.inverse_transform(scores))  # scikit-learn's inverse map, if there is one
    return preimage(model.expansion_, scores, getattr(model, "_inverse_map", None))
