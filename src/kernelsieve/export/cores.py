"""The numbers of a fitted model: points, coefficients and offset of a kernel, or the weights of a linear map.

z = k(u, S) A - b        with any kernel that a formula gives
z = (u - mu) W + c       with the linear one, W = S'A, and for sparse PCA in input space
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..arrays import to_numpy
from ..fit.expansion import KernelExpansion
from ..kernels import CallableKernel, Kernel, Linear, Precomputed
from ..kernels.base import dense
from .steps import ExportError

EXPORTABLE = "rbf, laplacian, poly, linear, sigmoid and cosine kernels"


@dataclass(frozen=True)
class KernelCore:
    """z = k(u, S) A - b, all in float64."""

    kernel: Kernel
    points: np.ndarray  # (m, d)
    coef: np.ndarray  # (m, M)
    offset: np.ndarray  # (M,)
    mean_coef: np.ndarray | None  # (m,)
    mean_square: float  # c'K_SS c
    mixing: np.ndarray | None  # (M, rank), T; None where the components are orthonormal
    units: np.ndarray | None = None  # (d,), by which differences of columns are multiplied; None for 1

    @property
    def n_components(self) -> int:
        return self.coef.shape[1]

    @property
    def largest(self) -> float:
        """The largest number of the points, which roundings of rows are measured by."""
        return float(np.abs(self.points).max())

    @property
    def expansion(self) -> KernelExpansion:
        return KernelExpansion(self.kernel, self.points, self.coef, self.offset, self.mean_coef, self.mixing is None)


@dataclass(frozen=True)
class LinearCore:
    """z = (u - centre) W + constant, all in float64."""

    center: np.ndarray  # (d,)
    weights: np.ndarray  # (d, M)
    constant: np.ndarray  # (M,)
    mixing: np.ndarray | None
    largest = 1.0

    @property
    def n_components(self) -> int:
        return self.weights.shape[1]


Core: TypeAlias = KernelCore | LinearCore


def not_ours(model: Any) -> str:
    """That this cannot be exported, and what can."""
    return (
        f"{type(model).__name__} cannot be exported: the estimators of kernelsieve can (with {EXPORTABLE}), and "
        "pipelines of scikit-learn's scalers that end in one. kernelsieve.compress makes one of a KernelPCA of theirs"
    )


def core_of(model: Any) -> Core:
    """What a fitted model computes of prepared rows."""
    expansion = getattr(model, "expansion_", None)
    if isinstance(expansion, KernelExpansion):
        return _kernel_core(expansion)
    if hasattr(model, "components_") and hasattr(model, "_inverse_overlap"):
        return _input_space_core(model)
    raise ExportError(not_ours(model))


def _kernel_core(expansion: KernelExpansion) -> Core:
    kernel = expansion.kernel
    if isinstance(kernel, Precomputed | CallableKernel):
        what = "a precomputed kernel has no points" if isinstance(kernel, Precomputed) else "a callable kernel is code"
        raise ExportError(f"{what}, so this model cannot be exported: only {EXPORTABLE} can")
    points = to_numpy(dense(expansion.points)).astype(np.float64)
    coef, offset = (to_numpy(values).astype(np.float64) for values in (expansion.coef, expansion.offset))
    mean_coef = None if expansion.mean_coef is None else to_numpy(expansion.mean_coef).astype(np.float64)
    mixing = None if expansion.orthogonal else to_numpy(expansion._mixing).astype(np.float64)
    if not all(np.isfinite(values).all() for values in (points, coef, offset)):
        raise ExportError("the model holds NaN or infinity: nothing sensible can be exported")
    if isinstance(kernel, Linear):
        weights = points.T @ coef
        center = np.zeros(points.shape[1]) if mean_coef is None else mean_coef @ points
        return LinearCore(center, weights, center @ weights - offset, mixing)
    mean_square = 0.0 if mean_coef is None else float(mean_coef @ kernel(points, points) @ mean_coef)
    return KernelCore(kernel, points, coef, offset, mean_coef, mean_square, mixing)


def _input_space_core(model: Any) -> LinearCore:
    components = np.asarray(model.components_, dtype=np.float64)
    overlap = model._inverse_overlap()
    projects = model.transform_method == "projection"
    weights = components.T if projects else components.T @ overlap
    # |z T| is the length of the row's projection on the plane: T T' = (V V')^+ for projections, V V' for coordinates
    values, vectors = np.linalg.eigh(overlap if projects else components @ components.T)
    mixing = vectors * np.sqrt(np.maximum(values, 0))
    return LinearCore(np.asarray(model.mean_, dtype=np.float64), weights, np.zeros(len(components)), mixing)
