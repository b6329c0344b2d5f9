"""From a scatter and the arguments of an estimator to sparse components: start, penalty, alternation, report."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..errors import TooManyComponents, warn
from .alternation import NO_VARIANCE, SparseSolution, Stop, adjusted_variance, refit, sparse_pca, together, unit_rows
from .elastic_net import Penalty
from .scatter import Scatter, deflated

# Relative alpha where nothing is asked for: a fifth of what empties a component.
DEFAULT_ALPHA = 0.2


@dataclass(frozen=True)
class Request:
    """What the arguments of an estimator ask of its components."""

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
        """What an estimator with these arguments asks."""
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
        """The same of rows that are counted in this unit: l2 and absolute alphas are in that of variances."""
        if unit == 1 or self.alpha is None or self.alpha_scale == "relative":
            return replace(self, l2=self.l2 / unit**2)
        return replace(self, l2=self.l2 / unit**2, alpha=np.asarray(self.alpha, dtype=np.float64) / unit**2)


@dataclass(frozen=True)
class SparseComponents:
    """Components with what there is to say about them.  Variances are those of the scatter, not yet divided."""

    components: np.ndarray  # (M, p) unit rows
    variance: np.ndarray  # (M,) adjusted
    total_variance: float
    n_nonzero: np.ndarray  # (M,)
    alpha: np.ndarray  # (M,) absolute
    objective: float
    n_iter: int
    converged: bool

    def times(self, unit: float, l2: float) -> SparseComponents:
        """The same components for rows counted in another unit: that of their variances is its square.

        So is that of the objective; but in its limit of infinite l2 loadings are variances, and it is of their squares.
        """
        return replace(
            self,
            variance=self.variance * unit**2,
            total_variance=self.total_variance * unit**2,
            alpha=self.alpha * unit**2,
            objective=self.objective * unit ** (4 if math.isinf(l2) else 2),
        )


def fit_components(scatter: Scatter, request: Request) -> SparseComponents:
    """Sparse components of a scatter."""
    axes = starting_axes(scatter, request.n_components)
    penalty = make_penalty(scatter.n_features, request)
    if request.deflation != "axes":
        return describe(scatter, *_deflating(scatter, penalty, request), request)
    solution = sparse_pca(scatter, penalty, axes, sequential=request.sequential, stop=request.stop)
    return describe(scatter, solution, refitted(scatter, solution, request), request)


def refitted(scatter: Scatter, solution: SparseSolution, request: Request) -> SparseSolution:
    """The solution, refitted on its supports where that is asked for."""
    if not request.refit:
        return solution
    return refit(scatter, solution, request.l2, sequential=request.sequential, stop=request.stop)


def _deflating(scatter: Scatter, penalty: Penalty, request: Request) -> tuple[SparseSolution, SparseSolution]:
    """One component after another, each from what the loadings of the earlier ones leave; and the same, refitted."""
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
        if how == "orthogonalized":  # only what no earlier direction has taken away
            how, direction = "projection", direction - (taken @ direction) @ taken
            length = float(np.linalg.norm(direction))
            direction = direction / length if length > NO_VARIANCE else np.zeros_like(direction)
            taken = np.vstack([taken, direction])
        left = deflated(left, direction, how)
    return together(found), together(final)


def describe(scatter: Scatter, solution: SparseSolution, final: SparseSolution, request: Request) -> SparseComponents:
    """What there is to say about the components of a solution; `final` is that solution after any refit."""
    components = unit_rows(final.loadings)
    return SparseComponents(
        components,
        adjusted_variance(scatter, components),
        scatter.trace,
        np.count_nonzero(components, axis=1),
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
    n_real = int(np.sum(values > NO_VARIANCE * values[0]))
    if n_real < n_components:
        why = f"these data have {n_real} directions of variance"
        raise TooManyComponents(n_components, n_real, "is more than the rank allows", why)
    return axes


def make_penalty(n_features: int, request: Request) -> Penalty:
    """The penalty that was asked for."""
    if request.alpha is not None and request.n_nonzero is not None:
        raise ValueError("alpha and n_nonzero both set the sparsity: give one of them and leave the other None")
    if request.n_nonzero is not None:
        counts = one_each(request.n_nonzero, request.n_components, "n_nonzero")
        if np.any(counts != np.round(counts)) or counts.min() < 1 or counts.max() > n_features:
            raise ValueError(f"n_nonzero={request.n_nonzero} must be whole numbers from 1 to n_features={n_features}")
        return Penalty(request.l2, n_nonzero=counts.astype(np.intp))
    if request.alpha is None and request.alpha_scale == "absolute":
        raise ValueError('alpha_scale="absolute" needs an alpha: there is no default that fits all scales')
    asked = DEFAULT_ALPHA if request.alpha is None else request.alpha
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


def warn_about(found: SparseComponents, request: Request) -> None:
    """Empty components by number, and an alternation that was cut short."""
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
