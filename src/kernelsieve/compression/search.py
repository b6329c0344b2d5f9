"""From a request (a method, and a number of points or an error) to a compressed expansion."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse

from ..arrays import Array, as_float64
from ..fit.expansion import KernelExpansion
from ..fit.indefinite import is_indefinite
from ..fit.moments import gram_of
from ..fit.sample import Sample
from ..rows.sampling import SampledRows
from ..search.subspace import Coordinates, coordinates, movable
from .error import ExpansionError, FeatureError, ScoreError, local_source, projected_mean
from .methods import (
    Candidates,
    Lasso,
    Method,
    Moving,
    Nested,
    ReducedSet,
    eigen_order,
    fewest_within,
    find_candidates,
    removal_order,
)

COMPRESSION_METHODS = ("optimized", "removal", "l1", "eigen-removal")


@dataclass(frozen=True)
class CompressionRequest:
    """What the caller of `compress` asked for."""

    method: str  # one of COMPRESSION_METHODS, or "auto"
    n_support: int | None
    target_error: float | None
    max_iter: int


@dataclass(frozen=True)
class Compression:
    """A compressed expansion, what it lost, and how it was found."""

    expansion: KernelExpansion
    indices: np.ndarray | None  # (m,) places in the original's support, None for moved points
    method: str
    error: np.ndarray  # (M,), relative
    total_error: float
    captured_share: float | None  # of the variance on the rows that the original captures; None where not measured
    curve: np.ndarray | None  # error of the first 0, 1, 2, ... points in the order of "removal"
    n_steps: int
    converged: bool


def error_on(expansion: KernelExpansion, rows: Array | None, kind: str, n_threads: int) -> ExpansionError:
    """The error to keep small: that of scores on rows; without rows, in feature space.

    An indefinite kernel has no distance in feature space, so the scores of the support points are used instead.
    """
    source = local_source(expansion)
    float32 = expansion.points.dtype == np.float32
    if rows is not None:
        if expansion.kernel.precomputed:
            rows = expansion.kernel.bind(expansion.points)(rows)
        return ScoreError(source, as_float64(rows), kind, float32, n_threads)
    if not source.kernel.definite and is_indefinite(source.kernel, gram_of(source.kernel, source.points)):
        return ScoreError(source, source.points, "support points", float32, n_threads)
    return FeatureError(source, float32, n_threads)


def coordinates_for(error: ExpansionError) -> Coordinates | None:
    """The coordinates in which points are moved, or None if the kernel does not allow that."""
    rows, kernel = error.search_rows, error.source.kernel
    sampled = SampledRows(rows, np.arange(rows.shape[0]), None, True)
    sample = Sample.of(sampled, kernel, error.source.n_components, center=True)
    if not kernel.differentiable or (scipy.sparse.issparse(rows) and not movable(sample, lambda: coordinates(sample))):
        return None
    return coordinates(sample, for_good=True)


def compress_expansion(
    expansion: KernelExpansion, error: ExpansionError, request: CompressionRequest, rng: np.random.Generator
) -> Compression:
    """The expansion on fewer points."""
    if not error.scale > 0:
        raise ValueError("the model's components are all zero: there is nothing to compress")
    moved_in = coordinates_for(error) if request.method in ("auto", "optimized") else None
    method = request.method
    if method == "auto":
        method = "removal" if moved_in is None else "optimized"
    candidates = find_candidates(error, _n_candidates(method, request.n_support), rng)
    way = _method(method, candidates, moved_in, request, rng)
    if request.n_support is not None:
        found = way.at(request.n_support)
    else:
        assert request.target_error is not None
        found = fewest_within(way, request.target_error)
    curve = way.curve if method == "removal" and isinstance(way, Nested) else None
    return _compression(expansion, error, found, method, curve)


def _n_candidates(method: str, n_support: int | None) -> int:
    """How many candidates targeted greedy selection leaves."""
    most = 1000 if n_support is None else max(200, 4 * n_support)
    # "eigen-removal" solves an eigenproblem for each point that it removes
    return min(most, max(300, 2 * (n_support or 0))) if method == "eigen-removal" else most


def _method(
    name: str,
    candidates: Candidates,
    coordinates: Coordinates | None,
    request: CompressionRequest,
    rng: np.random.Generator,
) -> Method:
    error = candidates.error
    if name == "removal":
        return Nested(candidates, removal_order(candidates.problem))
    if name == "eigen-removal":
        coef = error.refit(candidates.support).coef
        return Nested(candidates, eigen_order(candidates.gram, coef, request.n_support or 1))
    if name == "l1":
        return Lasso(candidates)
    if coordinates is None:
        raise ValueError(
            f"points of a {error.source.kernel.name} kernel cannot be moved, which method='optimized' does: give "
            "method='removal', which keeps some of the model's own points"
        )
    return Moving(candidates, coordinates, request.max_iter, rng)


def _compression(
    expansion: KernelExpansion, error: ExpansionError, found: ReducedSet, method: str, curve: np.ndarray | None
) -> Compression:
    support, refit, kernel, points = found.support, found.refit, found.support.kernel, found.support.points
    if support.indices is not None:
        kernel, points = expansion.kernel.part(expansion.points, support.indices)
    compressed = replace(
        expansion,
        kernel=kernel,
        points=points,
        coef=refit.coef,
        offset=refit.offset,
        mean_coef=projected_mean(error.source, support, error.n_threads),
        orthogonal=False,  # scores are what is preserved: the refit does not normalise the components
    )
    share = error.captured_share(support, refit.coef)
    return Compression(
        compressed, support.indices, method, refit.error, refit.total, share, curve, found.n_steps, found.converged
    )


def unchanged(expansion: KernelExpansion) -> Compression:
    """The expansion itself, if it has no more points than requested."""
    indices = np.arange(expansion.n_support)
    return Compression(expansion, indices, "none", np.zeros(expansion.n_components), 0.0, None, None, 1, True)
