"""The error that a compression keeps small: that of scores on rows, or of the components in feature space.

The error depends on the positions of the points.  With the best B for every position, its derivative is the partial
derivative at fixed B (variable projection).  On rows, with R = Y - F B the residuals of the scores,

    d |R|^2 = -2 sum_nj (R B')_nj dk(x_n, s_j)

and in feature space, with A the original's coefficients on its points x_n,

    d sum |v - v'|^2 = -2 sum_nj (A B')_nj dk(x_n, s_j) + sum_ij (B B')_ij dk(s_i, s_j)

so the gradient takes only the pull-back that every differentiable kernel has.

The points are moved by L-BFGS on that error: a few steps from every start, then from the best of them to the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import scipy.linalg

from ..arrays import Array, add_to_diagonal, as_float64, to_numpy
from ..fit.expansion import KernelExpansion
from ..fit.moments import gram_of
from ..kernels import Kernel
from ..rows.checks import finite
from ..rows.rows import in_one_array
from ..search.lbfgs import LITTLE, Ascent, Evaluation
from ..search.subspace import Coordinates
from ..spectrum.whitening import RANK_TOLERANCES, whiten
from ..threads import cached_property


@dataclass(frozen=True)
class ScoreObjective:
    """The minimum over B of |Y - F B|^2 on rows, relative to the variation of the scores."""

    kernel: Kernel
    rows: np.ndarray  # (n, r)
    row_scale: np.ndarray  # (n,)
    target: np.ndarray  # (n, M)
    center: bool
    scale: float

    def __call__(self, points: np.ndarray) -> tuple[float, np.ndarray]:
        plain = self.kernel(self.rows, points)
        features = plain * self.row_scale[:, None]
        if self.center:
            features -= features.mean(axis=0)
        coef = _solve(features.T @ features, features.T @ self.target)
        residual = self.target - features @ coef
        pull = (residual * (-2.0 * self.row_scale)[:, None]) @ coef.T
        gradient = self.kernel.pullback(self.rows, points, plain, pull)
        return float(np.sum(residual**2)) / self.scale, gradient / self.scale

    def part(self, n_rows: int) -> ScoreObjective:
        """This objective on about `n_rows` of the rows, evenly spaced."""
        rows = slice(None, None, max(1, round(len(self.rows) / n_rows)))
        target = self.target[rows]
        target = target - target.mean(axis=0) if self.center else target
        scale = self.scale * len(target) / len(self.target)
        return replace(self, rows=self.rows[rows], row_scale=self.row_scale[rows], target=target, scale=scale)


@dataclass(frozen=True)
class FeatureObjective:
    """The minimum over B of sum |v - v'|^2, relative to sum |v|^2."""

    kernel: Kernel
    rows: np.ndarray  # (m, r), the original's points
    source_coef: np.ndarray  # (m, M)
    scale: float

    def __call__(self, points: np.ndarray) -> tuple[float, np.ndarray]:
        plain, gram = self.kernel(self.rows, points), self.kernel(points, points)
        inner = plain.T @ self.source_coef
        coef = _solve(gram, inner)
        gradient = self.kernel.pullback(self.rows, points, plain, -2.0 * (self.source_coef @ coef.T))
        gradient += 2.0 * self.kernel.pullback(points, points, gram, coef @ coef.T)
        value = self.scale - 2.0 * float(np.sum(inner * coef)) + float(np.sum(coef * (gram @ coef)))
        return value / self.scale, gradient / self.scale

    def part(self, n_rows: int) -> FeatureObjective:
        """This objective itself, which has no more rows than the original has points."""
        return self


Objective: TypeAlias = ScoreObjective | FeatureObjective


def _solve(normal: np.ndarray, right: np.ndarray) -> np.ndarray:
    mean = float(np.mean(np.diagonal(normal)))
    if mean < 1e-200:  # points so far from all rows explain nothing, and dividing by their kernel values would overflow
        return np.zeros_like(right)
    return np.linalg.solve(add_to_diagonal(normal, 1e-11 * mean), right)  # the ridge is for points that coincide


@dataclass(frozen=True)
class Moved:
    """Where the points ended, in the search's coordinates."""

    points: np.ndarray  # (m, r)
    n_steps: int
    converged: bool


def move(objective: Objective, starts: Sequence[np.ndarray], max_iter: int) -> Moved:
    """Take a fifth of the steps from every start, on about 2,000 rows; then go on from the best result, on all rows.

    A step that removes less than 1e-9 of the squared error at the start is the last.
    """
    part, least = objective.part(2000), 1e-9
    runs = [Descent(part, start) for start in starts]
    for run in runs:
        run.run(max(1, round(0.2 * max_iter)), least)
    best = min(runs, key=lambda run: run.error)
    rest, n_steps = Descent(objective, best.points), max_iter - best.n_steps
    before = rest.error_at(rest.finish(n_steps, min(n_steps, max(1, round(max_iter / 4))), least))
    converged = n_steps > 0 and before - rest.error <= LITTLE  # without steps on all rows, nothing shows it
    return Moved(rest.points, best.n_steps + rest.n_steps, rest.converged or converged)


class Descent(Ascent):
    """L-BFGS on an error; it remembers more steps than usual, which cost little compared with the kernel values."""

    MEMORY = 20

    def __init__(self, objective: Objective, start: np.ndarray) -> None:
        self._first = max(objective(start)[0], np.finfo(np.float64).tiny)
        super().__init__(ErrorGone(objective, self._first), start)

    @property
    def error(self) -> float:
        """The relative error at the current points."""
        return self.error_at(self.value)

    def error_at(self, value: float) -> float:
        """The relative error, if the share `value` of the squared error at the start has been removed."""
        return float(np.sqrt(max((1.0 - value) * self._first, 0.0)))


@dataclass(frozen=True)
class ErrorGone:
    """The objective of the ascent: 1 - squared error / squared error at the start."""

    objective: Objective
    first: float

    @np.errstate(over="ignore", invalid="ignore")  # a trial may move points to where the kernel overflows
    def evaluate(self, points: np.ndarray, basis: Array | None = None) -> Evaluation:
        """The share of the error that is removed at these points, and its gradient."""
        value, gradient = self.objective(points)
        return Evaluation(1.0 - value / self.first, gradient / -self.first)

    @property
    def exact(self) -> ErrorGone:
        """This objective itself, because it is computed in float64."""
        return self


@dataclass(frozen=True)
class ReducedPoints:
    """Points of a compressed expansion, and the kernel they belong to."""

    kernel: Kernel
    points: Array  # (m, d)
    indices: np.ndarray | None  # (m,) places in the original's support, None for moved points

    @property
    def size(self) -> int:
        return int(self.points.shape[0])


@dataclass(frozen=True)
class Refit:
    """The best coefficients on a support, and the error that is left."""

    coef: np.ndarray  # (m, M)
    offset: np.ndarray  # (M,)
    error: np.ndarray  # (M,), relative
    total: float  # of all components together

    @classmethod
    def leaving(cls, squares: np.ndarray, variation: np.ndarray, coef: np.ndarray, offset: np.ndarray) -> Refit:
        """The refit whose squared errors are `squares`, relative to each component's squared `variation`.

        The error of a component without variation is 0 if it is reproduced exactly, otherwise infinite.
        """
        lost = np.where(squares > 0, np.inf, 0.0)
        error = np.sqrt(np.divide(squares, variation, out=lost, where=variation > 0))
        return cls(coef, offset, error, float(np.sqrt(squares.sum() / variation.sum())))


@dataclass(frozen=True)
class LeastSquares:
    """min_B |target - columns B|^2 + outside, with a column for each candidate; errors are relative to `scale`."""

    columns: np.ndarray  # (q, r)
    target: np.ndarray  # (q, M)
    outside: float  # squared error that no B can reduce
    scale: float


def chosen(source: KernelExpansion, indices: np.ndarray) -> ReducedPoints:
    """The source's points with these indices, as a support."""
    kernel, points = source.kernel.at(source.points, indices)
    return ReducedPoints(kernel, points, indices)


def local_source(expansion: KernelExpansion) -> KernelExpansion:
    """The expansion in float64 numpy arrays; the columns of a precomputed kernel are renumbered by support point."""
    points = as_float64(expansion.points)
    return KernelExpansion(
        expansion.kernel.of_rows(expansion.n_support),
        points if hasattr(points, "toarray") else to_numpy(points),
        to_numpy(as_float64(expansion.coef)),
        to_numpy(as_float64(expansion.offset)),
        None if expansion.mean_coef is None else to_numpy(as_float64(expansion.mean_coef)),
    )


def cross_gram(kernel: Kernel, rows: Array, points: Array, n_threads: int) -> np.ndarray:
    """k(rows, points), block by block."""
    bound, n_points = kernel.bind(points), points.shape[0]
    return in_one_array(lambda block: bound(finite(rows[block, :])), rows, n_points, n_points, n_threads)


@dataclass(frozen=True)
class ScoreError:
    """The error of the scores on rows; the offset is the regression's intercept if the model is centred."""

    source: KernelExpansion
    rows: Array  # (n, d)
    kind: str
    n_bytes: int = 8  # of a number of the original's points
    n_threads: int = 1

    on_rows = True

    @property
    def n_rows(self) -> int:
        """Rows on which the error is measured."""
        return int(self.rows.shape[0])

    @property
    def center(self) -> bool:
        return self.source.mean_coef is not None

    @property
    def search_rows(self) -> Array:
        return self.rows

    @cached_property
    def scores(self) -> np.ndarray:
        """The original's scores (n, M)."""
        return to_numpy(self.source.transform(self.rows, self.n_threads))

    @cached_property
    def target(self) -> np.ndarray:
        """What k(., S) B has to reproduce: the scores about their mean, or the scores themselves without centring."""
        return self.scores - self.scores.mean(axis=0) if self.center else self.scores

    @cached_property
    def variation(self) -> np.ndarray:
        """sum_n (z_k - mean z_k)^2, (M,)."""
        return np.sum((self.scores - self.scores.mean(axis=0)) ** 2, axis=0)

    @property
    def scale(self) -> float:
        return float(self.variation.sum())

    @property
    def largest_support(self) -> int:
        """The largest number of points whose coefficients are determined: the problem has no more directions."""
        return self.n_rows - int(self.center)

    def least_squares(self, candidates: ReducedPoints) -> LeastSquares:
        features, _ = self._features(candidates)
        q, r = np.linalg.qr(features)
        inside = q.T @ self.target
        outside = float(np.sum((self.target - q @ inside) ** 2))
        return LeastSquares(r, inside, outside, self.scale)

    def refit(self, support: ReducedPoints) -> Refit:
        features, mean = self._features(support)
        lengths = np.linalg.norm(features, axis=0)
        lengths = np.where(lengths > 0, lengths, 1.0)
        # Singular values below this share of the largest are rounding.
        cutoff = RANK_TOLERANCES[self.n_bytes]
        coef, *_ = scipy.linalg.lstsq(features / lengths, self.target, cond=cutoff, check_finite=False)
        coef = coef / lengths[:, None]
        squares = np.sum((self.target - features @ coef) ** 2, axis=0)
        offset = mean @ coef - self.scores.mean(axis=0) if self.center else np.zeros(coef.shape[1])
        return Refit.leaving(squares, self.variation, coef, offset)

    def objective(self, c: Coordinates) -> ScoreObjective:
        """The squared relative error and its gradient, as a function of points in these coordinates."""
        return ScoreObjective(c.kernel, c.rows, _row_scales(c), self.target, self.center, self.scale)

    def captured_share(self, support: ReducedPoints, coef: np.ndarray) -> float:
        """The variance along the orthonormalised compressed components, over that of the original's scores."""
        features, _ = self._features(support)
        components = KernelExpansion(support.kernel, support.points, coef, np.zeros(coef.shape[1]), orthogonal=False)
        directions = to_numpy(components.orthonormal.coef)
        return float(np.sum((features @ directions) ** 2) / np.sum(self.target**2))

    def _features(self, support: ReducedPoints) -> tuple[np.ndarray, np.ndarray]:
        """k(rows, S), with its mean subtracted if the model is centred, and that mean."""
        features = cross_gram(support.kernel, self.rows, support.points, self.n_threads)
        mean = features.mean(axis=0)
        if self.center:
            features -= mean
        return features, mean


@dataclass(frozen=True)
class FeatureError:
    """The error of the components themselves, |v - v'|, which needs no rows."""

    source: KernelExpansion
    n_bytes: int = 8  # of a number of the original's points
    n_threads: int = 1
    kind = "feature space"
    on_rows = False
    n_rows = 0

    @property
    def search_rows(self) -> Array:
        return self.source.points

    @cached_property
    def values(self) -> np.ndarray:
        """v_k' phi(s) of the original's points, (m, M)."""
        return to_numpy(self.source.transform(self.source.points, self.n_threads)) + self.source.offset

    @cached_property
    def variation(self) -> np.ndarray:
        """|v_k|^2."""
        return np.maximum(np.einsum("ij,ij->j", self.source.coef, self.values), 0.0)

    @property
    def scale(self) -> float:
        return float(self.variation.sum())

    @property
    def largest_support(self) -> int:
        """The largest number of points whose coefficients are determined: the problem has no more directions."""
        return self.source.n_support

    def least_squares(self, candidates: ReducedPoints) -> LeastSquares:
        gram = gram_of(candidates.kernel, candidates.points)
        whitening = to_numpy(whiten(gram).matrix)
        target = whitening.T @ self._inner_products(candidates)
        return LeastSquares(whitening.T @ gram, target, max(self.scale - float(np.sum(target**2)), 0.0), self.scale)

    def refit(self, support: ReducedPoints) -> Refit:
        gram = gram_of(support.kernel, support.points)
        whitening = to_numpy(whiten(gram, RANK_TOLERANCES[self.n_bytes]).matrix)
        inner = self._inner_products(support)
        coef = whitening @ (whitening.T @ inner)
        squares = self.variation - 2 * np.sum(coef * inner, axis=0) + np.einsum("ij,ij->j", coef, gram @ coef)
        squares = np.maximum(squares, 0.0)
        offset = self.source.offset.copy()
        if self.source.mean_coef is not None:
            mean = self.source.mean_coef
            offset += (mean @ self._cross(support)) @ coef - mean @ self.values
        return Refit.leaving(squares, self.variation, coef, offset)

    def objective(self, c: Coordinates) -> FeatureObjective:
        """The squared relative error and its gradient, as a function of points in these coordinates."""
        # in these coordinates the kernel may be a multiple of the source's: errors are divided by that factor
        lengths = np.sum(self.source.kernel.diagonal(self.source.points)), np.sum(c.kernel.diagonal(c.rows))
        factor = float(lengths[0] / lengths[1]) if c.row_scale is None else 1.0
        return FeatureObjective(c.kernel, c.rows, self.source.coef * _row_scales(c)[:, None], self.scale / factor)

    def captured_share(self, support: ReducedPoints, coef: np.ndarray) -> None:
        """None, because the share is unknown without rows."""

    def _cross(self, support: ReducedPoints) -> np.ndarray:
        return cross_gram(support.kernel, self.source.points, support.points, self.n_threads)

    def _inner_products(self, support: ReducedPoints) -> np.ndarray:
        """v_k' phi(s') of the new points."""
        return self._cross(support).T @ self.source.coef


ExpansionError: TypeAlias = ScoreError | FeatureError


def projected_mean(source: KernelExpansion, support: ReducedPoints, n_threads: int) -> np.ndarray | None:
    """Coefficients of the training mean's projection on the new support."""
    if source.mean_coef is None:
        return None
    mean = source.mean_coef @ cross_gram(support.kernel, source.points, support.points, n_threads)
    whitening = to_numpy(whiten(gram_of(support.kernel, support.points)).matrix)
    return whitening @ (whitening.T @ mean)


def _row_scales(c: Coordinates) -> np.ndarray:
    """(n,) factors that the rows' kernel values have in these coordinates."""
    return np.ones(len(c.rows)) if c.row_scale is None else c.row_scale
