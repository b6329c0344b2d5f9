"""Sparse PCA of Zou, Hastie & Tibshirani (2006) by alternation.

Axes A (orthonormal rows a_j) and loadings B (rows b_j) minimise, for the rows x_i of X,

    sum_i |x_i - A'B x_i|^2 + sum_j (l2 |b_j|^2 + alpha_j |b_j|_1)

For fixed A each b_j is an elastic net of X a_j on X (`regression`); for fixed B the best A is the polar factor of
B X'X.  Both steps lower the objective for fixed alphas (relative alphas change with the axes).  B is normalised once,
after the last step: inside the loop, normalising would undo the shrinkage that the next step relies on.

    simultaneous    all components at once, as published
    sequential      one after another, a_k orthogonal to a_1 .. a_k-1 (Sjoestrand et al.'s SpaSM): the first
                    components do not depend on how many follow

If there are few rows R (n of them, S = R'R) and l2 is infinite, the steps do not need the axes themselves.  With the
scores Z = B R' of the loadings, the images B S are Z R, their polar factor is T Z R with T = (Z R R' Z')^-1/2, k x k,
and the targets of the next step are (T Z R R') R.  So each step takes one product of size p instead of three, and none
if the support is given.

`fit_components` goes from the arguments of an estimator (`SparseRequest`) to components with their variances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeGuard

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..errors import TooManyComponents, warn
from ..numerics import ROUNDING
from .regression import Loadings, Penalty, solve_loadings, thresholded
from .scatter import DENSE_LIMIT, RowScatter, Scatter, deflated, used_columns


@dataclass(frozen=True)
class Stop:
    """When the alternation ends: by the relative change of all loadings, or after a number of steps."""

    tol: float
    max_iter: int

    def reached(self, before: np.ndarray, values: np.ndarray) -> bool:
        """Whether a step has changed the loadings by no more than the tolerance."""
        return float(np.linalg.norm(values - before)) <= self.tol * float(np.linalg.norm(values))


@dataclass(frozen=True)
class SparseSolution:
    """The result of the alternation."""

    axes: np.ndarray  # (k, p) orthonormal
    loadings: np.ndarray  # (k, p) B of the objective, not normalised
    images: np.ndarray  # (k, p) B S
    alpha: np.ndarray  # (k,)
    n_iter: int
    converged: bool

    def objective(self, scatter: Scatter, l2: float) -> float:
        """The objective (see the top); for infinite l2 its limit,  sum_j |b_j|^2 - 2 a_j'S b_j + alpha_j |b_j|_1."""
        fit = -2 * float(np.vdot(self.axes, self.images))
        size = float(np.vdot(self.loadings, self.loadings))
        price = float(self.alpha @ np.abs(self.loadings).sum(axis=1))
        if math.isinf(l2):
            return fit + size + price
        return scatter.trace + fit + float(np.vdot(self.loadings, self.images)) + l2 * size + price


def sparse_pca(
    scatter: Scatter,
    penalty: Penalty,
    axes: np.ndarray,
    *,
    sequential: bool,
    stop: Stop,
    warm: np.ndarray | None = None,
) -> SparseSolution:
    """Sparse components from starting axes (k, p), and from `warm` loadings if they are given."""
    warm = np.zeros_like(axes) if warm is None else warm
    if not sequential:
        return _alternate(scatter, penalty, axes, warm, stop, np.empty((0, axes.shape[1])))
    found: list[SparseSolution] = []
    for j in range(len(axes)):
        earlier = np.concatenate([s.axes for s in found]) if found else np.empty((0, axes.shape[1]))
        start = _nearest_axes(axes[j : j + 1], axes[j : j + 1], earlier)
        found.append(_alternate(scatter, penalty.only(j), start, warm[j : j + 1], stop, earlier))
    return together(found)


def refit(scatter: Scatter, solution: SparseSolution, l2: float, *, sequential: bool, stop: Stop) -> SparseSolution:
    """Solve again without the l1 penalty on the given supports, which undoes the shrinkage."""
    penalty = Penalty(l2, support=solution.loadings != 0)
    return sparse_pca(scatter, penalty, solution.axes, sequential=sequential, stop=stop, warm=solution.loadings)


def _alternate(
    scatter: Scatter, penalty: Penalty, axes: np.ndarray, warm: np.ndarray, stop: Stop, earlier: np.ndarray
) -> SparseSolution:
    loadings = Loadings(warm, warm, np.zeros(len(axes)))
    converged, n_iter = False, 0
    if math.isinf(penalty.l2) and not len(earlier) and _few_rows(scatter):
        axes, loadings, n_iter, converged = _in_rows(scatter, penalty, axes, loadings, stop)
    while not converged and n_iter < stop.max_iter:
        n_iter += 1
        before = loadings.values
        loadings = solve_loadings(scatter, penalty, axes, before)
        axes = _nearest_axes(loadings.images, axes, earlier)
        converged = stop.reached(before, loadings.values)
    return SparseSolution(axes, loadings.values, loadings.images, loadings.alpha, n_iter, converged)


def _few_rows(scatter: Scatter) -> TypeGuard[RowScatter]:
    return isinstance(scatter, RowScatter) and scatter.mean is None and scatter.n_rows <= DENSE_LIMIT


def _in_rows(
    scatter: RowScatter, penalty: Penalty, axes: np.ndarray, loadings: Loadings, stop: Stop
) -> tuple[np.ndarray, Loadings, int, bool]:
    """The alternation in terms of the rows' scores: axes, loadings, number of steps and whether they converged.

    It ends early if components are empty or dependent, because their scores do not determine the axes.
    """
    used = slice(None) if penalty.support is None else np.flatnonzero(penalty.support.any(axis=0))
    support = None if penalty.support is None else penalty.support[:, used]
    columns = scatter.rows[:, used]  # (n, c): all other loadings are zero
    values, alpha = loadings.values[:, used], loadings.alpha
    last: np.ndarray | None = None  # (k, n) scores of the last loadings; times the rows they are the images
    converged, n_iter, seen = False, 0, axes @ scatter.rows.T
    while not converged and n_iter < stop.max_iter:
        found, prices = thresholded(penalty, seen @ columns, support)
        chosen = used_columns(found)
        scores = found @ columns.T if chosen is None else found[:, chosen] @ columns[:, chosen].T
        products = scores @ scatter.row_gram
        root = _inverse_root(products @ scores.T)
        if root is None:
            break
        n_iter += 1
        converged = stop.reached(values, found)
        values, alpha, last, seen = found, prices, scores, root @ products
    if last is None:
        return axes, loadings, 0, False
    images, whole = last @ scatter.rows, np.zeros_like(axes)
    whole[:, used] = values
    return polar(images), Loadings(whole, images, alpha), n_iter, converged


def _nearest_axes(images: np.ndarray, axes: np.ndarray, earlier: np.ndarray) -> np.ndarray:
    """The orthonormal rows A, orthogonal to `earlier`, of the largest tr(A images').

    An empty component does not determine its axis, so a small multiple of the last axes is added to keep it in place.
    """
    scale = float(np.linalg.norm(images)) or 1.0
    pulled = images + 1e-10 * scale * axes  # too small to have any other effect
    return polar(pulled - (pulled @ earlier.T) @ earlier if len(earlier) else pulled)


def polar(rows: np.ndarray) -> np.ndarray:
    """The orthonormal rows nearest to the given rows Y, (Y Y')^-1/2 Y."""
    root = _inverse_root(rows @ rows.T)  # many times faster than a singular value decomposition
    if root is not None:
        return root @ rows
    left, _, right = np.linalg.svd(rows, full_matrices=False)
    return left @ right


def _inverse_root(gram: np.ndarray) -> np.ndarray | None:
    """gram^-1/2, symmetric; None if that costs too many digits."""
    values, vectors = np.linalg.eigh(gram)
    if not values[0] > 1e-4 * values[-1]:  # above it, squared singular values lose at most four digits
        return None
    return (vectors / np.sqrt(values)) @ vectors.T


def together(parts: Sequence[SparseSolution]) -> SparseSolution:
    """Components that were found one after another, as a single solution."""
    return SparseSolution(
        np.concatenate([s.axes for s in parts]),
        np.concatenate([s.loadings for s in parts]),
        np.concatenate([s.images for s in parts]),
        np.concatenate([s.alpha for s in parts]),
        max(s.n_iter for s in parts),
        all(s.converged for s in parts),
    )


def unit_rows(loadings: np.ndarray) -> np.ndarray:
    """Loadings of unit length, the largest of each component positive; empty components stay zero."""
    lengths = np.linalg.norm(loadings, axis=1)
    largest = loadings[np.arange(len(loadings)), np.argmax(np.abs(loadings), axis=1)]
    signs_over_lengths = np.sign(largest) / np.where(lengths > 0, lengths, 1.0)
    return loadings * signs_over_lengths[:, None] + 0.0  # no negative zeros


def adjusted_variance(scatter: Scatter, components: np.ndarray) -> np.ndarray:
    """The variance that each component adds to those before it: the squared diagonal of R in X B' = QR.

    The scores of sparse components are correlated, so the sum of their variances would count shared parts twice.
    """
    values, vectors = np.linalg.eigh(components @ scatter.multiply(components).T)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T  # has the same R as the scores
    return np.diag(np.linalg.qr(root, mode="r")) ** 2


@dataclass(frozen=True)
class SparseRequest:
    """The components that an estimator's parameters ask for."""

    n_components: int
    alpha: Any  # number, one for each component, or None
    n_nonzero: Any  # number, one for each component, or None
    alpha_scale: str
    l2: float
    sequential: bool
    refit: bool
    stop: Stop
    deflation: str = "axes"

    @classmethod
    def of(cls, estimator: Any) -> Self:
        """The request in the parameters of an estimator."""
        return cls(
            estimator.n_components,
            estimator.alpha,
            estimator.n_nonzero,
            estimator.alpha_scale,
            float(estimator.l2),
            estimator.mode == "sequential",
            estimator.refit,
            Stop(estimator.tol, estimator.max_iter),
        )

    def over(self, unit: float) -> Self:
        """This request for rows divided by `unit`: l2 and absolute alphas have the units of variances."""
        if unit == 1 or self.alpha is None or self.alpha_scale == "relative":
            return replace(self, l2=self.l2 / unit**2)
        return replace(self, l2=self.l2 / unit**2, alpha=np.asarray(self.alpha, dtype=np.float64) / unit**2)


@dataclass(frozen=True)
class SparseComponents:
    """Components with their variances, which are those of the scatter, not yet divided by the number of rows."""

    components: np.ndarray  # (M, p) unit rows
    variance: np.ndarray  # (M,) adjusted
    total_variance: float
    alpha: np.ndarray  # (M,) absolute
    objective: float
    n_iter: int
    converged: bool

    @property
    def n_nonzero(self) -> np.ndarray:
        """(M,) nonzero loadings of each component."""
        return np.count_nonzero(self.components, axis=1)

    def times(self, unit: float, l2: float) -> SparseComponents:
        """These components for rows `unit` times as large: variances, and the objective, grow by its square.

        In the limit of infinite l2, loadings have the unit of variances, so the objective grows by the fourth power.
        """
        return replace(
            self,
            variance=self.variance * unit**2,
            total_variance=self.total_variance * unit**2,
            alpha=self.alpha * unit**2,
            objective=self.objective * unit ** (4 if math.isinf(l2) else 2),
        )


def fit_components(scatter: Scatter, request: SparseRequest) -> SparseComponents:
    """Sparse components of a scatter."""
    axes = starting_axes(scatter, request.n_components)
    penalty = make_penalty(scatter.n_features, request)
    if request.deflation != "axes":
        return describe(scatter, *_deflating(scatter, penalty, request), request)
    solution = sparse_pca(scatter, penalty, axes, sequential=request.sequential, stop=request.stop)
    return describe(scatter, solution, refitted(scatter, solution, request), request)


def refitted(scatter: Scatter, solution: SparseSolution, request: SparseRequest) -> SparseSolution:
    """The solution, refitted on its supports if requested."""
    if not request.refit:
        return solution
    return refit(scatter, solution, request.l2, sequential=request.sequential, stop=request.stop)


def _deflating(scatter: Scatter, penalty: Penalty, request: SparseRequest) -> tuple[SparseSolution, SparseSolution]:
    """Components found one after another, each in the scatter deflated by earlier ones: before and after any refit."""
    if not request.sequential:
        raise ValueError(
            f"deflation={request.deflation!r} takes one component after another: give mode='sequential' with it"
        )
    if request.deflation == "hotelling" and math.isfinite(request.l2):
        raise ValueError(
            f"deflation='hotelling' can leave negative variances, for which the elastic net with l2={request.l2:g} has "
            "no minimum: give l2=inf, or another deflation"
        )
    left, taken = scatter, np.zeros((0, scatter.n_features))
    found: list[SparseSolution] = []
    final: list[SparseSolution] = []
    for j in range(request.n_components):
        found.append(sparse_pca(left, penalty.only(j), starting_axes(left, 1), sequential=False, stop=request.stop))
        final.append(refitted(left, found[-1], request))
        direction, how = unit_rows(final[-1].loadings)[0], request.deflation
        if how == "orthogonalized":  # remove only the part orthogonal to all earlier loadings
            how, direction = "projection", direction - (taken @ direction) @ taken
            length = float(np.linalg.norm(direction))
            direction = direction / length if length > ROUNDING[8] else np.zeros_like(direction)
            taken = np.vstack([taken, direction])
        left = deflated(left, direction, how)
    return together(found), together(final)


def describe(
    scatter: Scatter, solution: SparseSolution, final: SparseSolution, request: SparseRequest
) -> SparseComponents:
    """The components of a solution with their variances; `final` is that solution after any refit."""
    components = unit_rows(final.loadings)
    return SparseComponents(
        components,
        adjusted_variance(scatter, components),
        scatter.trace,
        solution.alpha,
        solution.objective(scatter, request.l2),
        solution.n_iter,
        solution.converged and final.converged,
    )


def starting_axes(scatter: Scatter, n_components: int) -> np.ndarray:
    """The leading eigenvectors of the scatter, as rows."""
    n_features, rank = scatter.n_features, min(scatter.n_features, scatter.n_rows)
    if n_components > rank:
        sizes = f"n_features={n_features}" + ("" if rank == n_features else f", n_samples={rank}")
        raise TooManyComponents(n_components, rank, "is more than the data have", sizes)
    values, axes = scatter.leading(n_components)
    if not values[0] > 0:
        raise ValueError("all columns are constant: there is no variance to explain")
    n_real = int(np.sum(values > ROUNDING[8] * values[0]))
    if n_real < n_components:
        why = f"these data have {n_real} directions of variance"
        raise TooManyComponents(n_components, n_real, "is more than the rank allows", why)
    return axes


def make_penalty(n_features: int, request: SparseRequest) -> Penalty:
    """The requested penalty."""
    if request.alpha is not None and request.n_nonzero is not None:
        raise ValueError("alpha and n_nonzero both set the sparsity: give one of them and leave the other None")
    if request.n_nonzero is not None:
        counts = one_each(request.n_nonzero, request.n_components, "n_nonzero")
        if np.any(counts != np.round(counts)) or counts.min() < 1 or counts.max() > n_features:
            raise ValueError(f"n_nonzero={request.n_nonzero} must be whole numbers from 1 to n_features={n_features}")
        return Penalty(request.l2, n_nonzero=counts.astype(np.intp))
    if request.alpha is None and request.alpha_scale == "absolute":
        raise ValueError('alpha_scale="absolute" needs an alpha: there is no default that fits all scales')
    asked = 0.2 if request.alpha is None else request.alpha  # by default a fifth of the value that empties a component
    alpha = one_each(asked, request.n_components, "alpha")
    if alpha.min() < 0 or not np.isfinite(alpha).all():
        raise ValueError(f"alpha={request.alpha} must be finite and not negative")
    return Penalty(request.l2, share=alpha) if request.alpha_scale == "relative" else Penalty(request.l2, alpha=alpha)


def one_each(value: Any, n_components: int, name: str) -> np.ndarray:
    """One number for each component, from one for all or from a sequence."""
    try:
        values = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}={value!r} is no number: give one, or one for each component") from error
    if values.ndim == 0:
        return np.full(n_components, float(values))
    if values.shape != (n_components,):
        raise ValueError(
            f"{name} has shape {values.shape}: give one number, or one for each of the {n_components} components"
        )
    return values


def warn_about(found: SparseComponents, request: SparseRequest) -> None:
    """Warn of empty components, by their numbers, and of an alternation that did not converge."""
    empty = np.flatnonzero(found.n_nonzero == 0)
    if empty.size:
        warn(
            f"component(s) {', '.join(map(str, empty))} are empty: all their loadings are zero. Give a smaller alpha, "
            "or n_nonzero"
        )
    if not found.converged:
        warn(
            f"sparse PCA had not converged after {found.n_iter} steps: loadings still change by more than "
            f"tol={request.stop.tol}. Give a larger max_iter (now {request.stop.max_iter}) or tol",
            ConvergenceWarning,
        )
