"""The regression step of sparse PCA: loadings b_j for fixed axes a_j.

With the scatter S = X'X and the target t = S a, each component minimises

    |X a - X b|^2 + l2 |b|^2 + alpha |b|_1   =   b'(S + l2 I) b - 2 t'b + alpha |b|_1 + constant

At the minimum, with the correlations g = t - S b - l2 b,

    g_i = (alpha / 2) sign(b_i)  where b_i is not 0,        |g_i| <= alpha / 2  elsewhere,

so that once support and signs are known, b is the solution of one small linear system.  Between two steps of the
alternation they hardly ever change, so those of the last step are tried first.  Only if the conditions above fail does
an active-set method find others (`solvers.lasso`, which solves half of this problem: H = S + l2 I, linear term t,
penalty alpha/2).

As l2 goes to infinity the problem, rescaled, becomes  |b|^2 - 2 t'b + alpha |b|_1, whose solution is soft(t, alpha/2):
no regression at all.  If a number of nonzeros is given instead of alpha, the path of the same problem, which starts at
b = 0, is stopped where one more variable would enter.  That path starts at alpha_max = 2 max_i |t_i|, of which a
relative alpha is a share, so that it follows the target from step to step.  With a fixed alpha, the strongest component
would replace a weaker one, whose loadings cost less.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import lars_path_gram

from ..numerics import SOLVED
from ..solvers.lasso import lasso
from .scatter import Scatter, solve_ridge

# The path to a number of nonzeros is first computed on 4 times as many columns, but at least 50.
PATH_COLUMNS, MIN_PATH_COLUMNS = 4, 50


@dataclass(frozen=True)
class Penalty:
    """The l2 penalty, and what makes loadings sparse: an l1 penalty, a number of nonzeros or a given support."""

    l2: float
    alpha: np.ndarray | None = None  # (k,) as Zou et al. write it, without factors of one half
    share: np.ndarray | None = None  # (k,) alpha as a share of the value that empties the component
    n_nonzero: np.ndarray | None = None  # (k,)
    support: np.ndarray | None = None  # (k, p) no l1 penalty, and no loadings outside it

    def only(self, component: int) -> Self:
        """The penalty of one component."""
        given = {name: getattr(self, name) for name in ("alpha", "share", "n_nonzero", "support")}
        one = slice(component, component + 1)
        return replace(self, **{name: value[one] for name, value in given.items() if value is not None})

    def alpha_for(self, targets: np.ndarray) -> np.ndarray:
        """The absolute alphas for these targets; with 2 max_i |t_i| or more a component is empty, for any l2."""
        if self.alpha is not None:
            return self.alpha
        if self.share is not None:
            return self.share * 2 * np.abs(targets).max(axis=1)
        assert self.n_nonzero is not None
        sized = zip(np.abs(targets), self.n_nonzero, strict=True)
        return 2 * np.array([_entry_threshold(row, int(count)) for row, count in sized])


@dataclass(frozen=True)
class Loadings:
    """Loadings B of all components, their images B S, and the alphas for which they are optimal."""

    values: np.ndarray  # (k, p)
    images: np.ndarray  # (k, p)
    alpha: np.ndarray  # (k,)


def solve_loadings(scatter: Scatter, penalty: Penalty, axes: np.ndarray, warm: np.ndarray) -> Loadings:
    """The best loadings for given axes (both (k, p)), starting from `warm` ones."""
    if penalty.support is not None:
        values = _on_support(scatter, penalty.l2, penalty.support, axes)
        return Loadings(values, scatter.multiply(values), np.zeros(len(axes)))
    targets = scatter.multiply(axes)
    if math.isinf(penalty.l2):
        values, alpha = thresholded(penalty, targets)
        return Loadings(values, scatter.multiply(values), alpha)
    if penalty.n_nonzero is not None:
        return _counted(scatter, penalty.l2, penalty.n_nonzero, targets, warm)
    return _penalised(scatter, penalty.l2, penalty.alpha_for(targets), axes, targets, warm)


def thresholded(
    penalty: Penalty, targets: np.ndarray, support: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Loadings for infinite l2, without a penalty on a given support, and the alphas for which they are optimal."""
    if support is not None:
        return np.where(support, targets, 0.0), np.zeros(len(targets))
    alpha = penalty.alpha_for(targets)
    return np.sign(targets) * np.maximum(np.abs(targets) - alpha[:, None] / 2, 0.0), alpha  # soft(t, alpha/2)


def _entry_threshold(sizes: np.ndarray, count: int) -> float:
    """The (count + 1)-th largest size, at which the next entry would become nonzero."""
    entered = sizes.size - count  # place, in ascending order, of the last entry that enters
    if entered == 0:
        return 0.0
    last = np.partition(sizes, entered)[entered]
    return float(sizes[sizes < (1 - 1e-9) * last].max(initial=0.0))  # entries of equal size enter together


def _on_support(scatter: Scatter, l2: float, support: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """Loadings free on their support, zero elsewhere."""
    used = np.flatnonzero(support.any(axis=0))
    targets = np.zeros_like(axes)
    targets[:, used] = scatter.multiply_at(axes, used)
    if math.isinf(l2):
        return np.where(support, targets, 0.0)
    values = np.zeros_like(axes)
    for row, allowed, axis, target in zip(values, support, axes, targets, strict=True):
        chosen = np.flatnonzero(allowed)
        if chosen.size:
            row[chosen] = scatter.regress(axis, chosen, l2, target[chosen])
    return values


def _penalised(
    scatter: Scatter, l2: float, alpha: np.ndarray, axes: np.ndarray, targets: np.ndarray, warm: np.ndarray
) -> Loadings:
    values = np.array(
        [_same_support(scatter, l2, a, target, b) for a, target, b in zip(alpha, targets, warm, strict=True)]
    )
    images = scatter.multiply(values)
    for j, target in enumerate(targets):
        if not _is_optimal(target - images[j] - l2 * values[j], values[j], alpha[j], target):
            values[j] = _found_anew(scatter, l2, alpha[j], axes[j], target, warm[j])
            images[j] = scatter.multiply(values[j : j + 1])[0]
    return Loadings(values, images, alpha)


def _same_support(scatter: Scatter, l2: float, alpha: float, target: np.ndarray, guess: np.ndarray) -> np.ndarray:
    """The loadings that are optimal if support and signs are those of `guess`; `guess` if that has no unique answer."""
    support = np.flatnonzero(guess)
    if not support.size or (l2 == 0 and support.size > scatter.n_rows):  # nothing to solve, or no unique solution
        return guess
    right = target[support] - alpha / 2 * np.sign(guess[support])
    values = np.zeros_like(guess)
    values[support] = solve_ridge(scatter.block(support, support), l2, right)
    return values


def _is_optimal(correlations: np.ndarray, values: np.ndarray, alpha: float, target: np.ndarray) -> bool:
    slack = SOLVED * float(np.abs(target).max())
    on_support = np.abs(correlations - alpha / 2 * np.sign(values)) <= slack
    return bool(np.all(np.where(values != 0, on_support, np.abs(correlations) <= alpha / 2 + slack)))


def _found_anew(
    scatter: Scatter, l2: float, alpha: float, axis: np.ndarray, target: np.ndarray, warm: np.ndarray
) -> np.ndarray:
    """The loadings that the active-set method of `solvers.lasso` finds, starting from the support of `warm`."""
    if alpha == 0:
        return _on_support(scatter, l2, np.ones((1, len(target)), dtype=bool), axis[None])[0]
    problem = ScatterQuadratic(scatter, l2, target, float(axis @ target))
    # only support and signs are used, but these must be exact
    return lasso(problem, alpha / 2, start=warm, tol=1e-12).coef


@dataclass(frozen=True)
class ScatterQuadratic:
    """Half of the problem above, in the form of `solvers.quadratic`: H = S + l2 I, linear term t, penalty alpha/2."""

    scatter: Scatter
    l2: float
    linear: np.ndarray  # (p,), t
    target_square: float  # |X a|^2

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """H over the given rows and columns."""
        return self.scatter.block(rows, columns) + self.l2 * np.equal.outer(rows, columns)

    def dot(self, active: np.ndarray, values: np.ndarray) -> np.ndarray:
        """H[:, active] @ values, for all p rows."""
        loadings = np.zeros(len(self.linear))
        loadings[active] = values
        return self.scatter.multiply(loadings[None])[0] + self.l2 * loadings


def _counted(scatter: Scatter, l2: float, n_nonzero: np.ndarray, targets: np.ndarray, warm: np.ndarray) -> Loadings:
    """For each component the point of the elastic-net path at which variable n_nonzero + 1 would enter."""
    values, alpha = np.zeros_like(targets), np.zeros(len(targets))
    for j, (count, target) in enumerate(zip(n_nonzero, targets, strict=True)):
        n_candidates = min(max(PATH_COLUMNS * int(count), MIN_PATH_COLUMNS), scatter.n_features)
        candidates = warm[j] != 0
        candidates[np.argpartition(-np.abs(target), n_candidates - 1)[:n_candidates]] = True
        while True:
            columns = np.flatnonzero(candidates)
            values[j] = 0.0
            values[j, columns], alpha[j] = _path_point(scatter.block(columns, columns), l2, target[columns], int(count))
            correlations = target - scatter.multiply(values[j : j + 1])[0]
            wanted = ~candidates & (np.abs(correlations) > alpha[j] / 2 * (1 + SOLVED))
            if not wanted.any():
                break
            candidates |= wanted
    return Loadings(values, scatter.multiply(values), alpha)


def _path_point(block: np.ndarray, l2: float, target: np.ndarray, count: int) -> tuple[np.ndarray, float]:
    """The first knot of the LARS path with `count` nonzeros, or else the end of the path; and the alpha there."""
    system = block + l2 * np.eye(len(block))
    size = float(np.abs(target).max())
    if size == 0:
        return np.zeros(len(target)), 0.0
    # LARS expects numbers of order one; dividing by powers of two is exact
    unit, length = 2.0 ** round(math.log2(size)), 2.0 ** round(math.log2(float(np.diagonal(system).max())))
    system, target = system / length, target / unit
    # LARS skips variables that would enter at exactly the same alpha, so targets are perturbed, by less than the
    # difference up to which `_entry_threshold` takes sizes to be equal
    target = target * (1 + 1e-10 * np.random.default_rng(0).uniform(size=len(target)))
    steps = count
    while True:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # LARS warns when it leaves out copies of variables
            knots, _, path = lars_path_gram(target, system, n_samples=1, max_iter=steps, method="lasso")
        counts = np.count_nonzero(path, axis=0)
        reached = np.flatnonzero(counts == count)
        if reached.size or len(knots) <= steps:
            knot = int(reached[0]) if reached.size else len(knots) - 1
            return path[:, knot] * (unit / length), 2 * unit * float(knots[knot])
        steps *= 2  # variables that entered and left again took steps, too
