"""What a fitted expansion says about its inputs: gradients, sensitivities, and walks along a component.

Scores are z(x) = k(x, S) A - b, so their gradient in the row needs nothing but the support points,

    dz_k/dx = sum_i A_ik dk(x, s_i)/dx

and because kernels are symmetric, dk(x, s)/dx is the derivative that moves support points, with the roles of rows and
points exchanged: `Kernel.pullback(S, x, ...)`.  A gradient takes the kernel values of one transform, n m of them, and
M products of n x m by m x d (for the Gaussian kernel, one product).

    input_gradient   (n, M, d)   dz_k/dx_j at each row
    sensitivity      (M, d)      root mean square of it over the rows, times the column's standard deviation:
                                 how far a component moves when an input moves as much as it usually does
    traversal                    rows for increasing scores on one component, the other scores held fixed
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from ..arrays import Array, like, namespace, to_numpy
from ..kernels.base import dense
from ..rows.checks import finite
from ..rows.rows import map_row_blocks
from .expansion import KernelExpansion
from .parameters import check_component, positive_number, whole_number
from .preimage import preimage


@dataclass(frozen=True)
class Traversal:
    """Rows along one component."""

    component: int
    scores: np.ndarray  # (n_steps,) of the component, ascending
    rows: np.ndarray  # (n_steps, d)


def weighted_gradient(expansion: KernelExpansion, rows: Array, cross_gram: Array, weights: Array) -> Array:
    """d/dx_n of sum_i weights_ni k(x_n, s_i), (n, d), for dense rows with cross-gram k(rows, S), (n, m)."""
    return expansion.kernel.pullback(expansion.points_like(rows), rows, cross_gram.T, weights.T)


def input_gradient(expansion: KernelExpansion, X: Array, n_threads: int = 1) -> Array:
    """dz_k/dx_j at each row, (n, M, d)."""
    blocks = list(_gradient_blocks(expansion, X, n_threads, lambda gradient: gradient))
    return namespace(blocks[0]).concat(blocks, axis=0)


def sensitivity(expansion: KernelExpansion, X: Array, n_threads: int = 1) -> np.ndarray:
    """sqrt(mean_n (dz_k/dx_j)^2) times the standard deviation of column j, (M, d)."""

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
    """reduced(gradient), block by block of rows."""
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
    """Pre-images of scores that differ in one component only, `span` standard deviations to both sides.

    Without a row the other scores are zero, the training mean's; with one they are the row's.
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
    """Rows with these scores: pre-images on the support if the kernel allows it, else the model's own inverse map."""
    if model.expansion_.kernel.preimage == "ridge" and getattr(model, "_inverse_map", None) is None:
        return np.asarray(model.inverse_transform(scores))  # scikit-learn's inverse, if the user asked for it
    return preimage(model.expansion_, scores, getattr(model, "_inverse_map", None))
