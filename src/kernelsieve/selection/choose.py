"""From what the user asked for to chosen points: any rule, any way of saying how many.

`n_support="auto"` looks for the fewest points whose captured variance, on the sample, reaches a share of exact
kernel PCA's on the same rows.  The share missing falls like a power of m, so the search is a secant on
log(1 - ratio) against log m, every size starting from the points of the last.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np
import scipy.sparse

from ..arrays import Array, like, to_numpy, top_eigh
from ..fit.captured import extrapolated
from ..fit.moments import Moments, accumulate, gram_of, whiten
from ..fit.sample import Rows, Sample, default_reference_rows, default_sample_size
from ..kernels import Kernel
from ..rows.memory import Source
from .base import Selection, Selector
from .coordinates import MAX_LOST_EXPONENT, movable
from .free import Candidate, FreePoints
from .rules import ALIASES, SELECTORS, check_options, selector

FIRST_EXTRA_POINTS = 8  # the search starts at n_components + this
FIRST_EXPONENT = 1.5  # of 1 - ratio ~ m^-exponent, before two sizes are known
MAX_EXPONENT = 5.0
HOPELESS = 0.2  # an exponent so small means that no few points will do
MAX_SIZES = 5
MIN_GROWTH, MAX_GROWTH = 1.15, 4.0  # of the size while none is enough
MAX_AUTO_SUPPORT = 1000  # more points are not looked for, they must be asked for
MAX_AUTO_EXACT = 2000  # so few rows are all taken instead
ROWS_TO_CHOOSE_FROM = 2  # for each point, at the least
CLOSE_ENOUGH = 1.12  # stop when the size that fails is within this factor of the one that does


@dataclass
class Chooser:
    """Chooses support points among all training rows for one kernel."""

    source: Source
    kernel: Kernel
    gamma: float
    rows: Rows
    n_components: int
    center: bool
    rng: np.random.Generator
    n_threads: int
    n_samples: int | None  # rows to look at, None for the default
    max_iter: int
    tol: float
    n_candidates: int | None = None
    n_swaps: int = 0

    @cached_property
    def sample(self) -> Sample:
        return Sample(self.rows, self.kernel, self.n_components, self.center, self.n_threads)

    def rule_name(self, selection: Any) -> str:
        """The rule that runs: free points fall back to rows where the kernel has no gradient."""
        if not isinstance(selection, str):
            return "callable" if callable(selection) else "given"
        if selection == "optimized" and not movable(self.sample):
            return "targeted"
        return ALIASES.get(selection, selection)

    def check_options(self, selection: Any) -> None:
        """Refuse options that the rule does not take."""
        check_options(self.rule_name(selection), self.n_candidates, self.n_swaps)

    def selector(self, name: str) -> Selector:
        """The rule of that name with the user's options for it."""
        return selector(name, n_candidates=self.n_candidates, n_swaps=self.n_swaps)

    def fixed(self, name: str, n_support: int) -> Selection:
        """`n_support` points by the rule `name`."""
        self.prepare(n_support)
        if n_support >= self.sample.size and self.rows.whole:
            return self.everything()
        name = self.rule_name(name)
        if name == "optimized":
            search = FreePoints(self.sample, self.max_iter, self.tol, self.rng)
            return self._moved(search, search.search(n_support))
        return self.selector(name)(self.sample, n_support, self.rng)

    def everything(self) -> Selection:
        """All distinct rows: exact kernel PCA."""
        order = np.argsort(self.rows.indices)
        indices = self.rows.indices[order]
        kernel, points = self.kernel.at(self.rows.X, indices)
        weights = None if self.rows.counts is None else self.rows.counts[order]
        indices = self.rows.numbers_of(indices)
        return Selection(kernel, points, indices, {"winner": "all rows"}, exhaustive=True, weights=weights)

    def prepare(self, n_support: int) -> None:
        """See to it that the sample is large enough for so many points."""
        if self.n_samples and not self.rows.whole and self.n_samples < ROWS_TO_CHOOSE_FROM * n_support:
            raise ValueError(
                f"n_optimization_samples={self.n_samples} rows are too few to choose {n_support} points from: give at "
                f"least {ROWS_TO_CHOOSE_FROM * n_support}"
            )
        wanted = self.n_samples or default_sample_size(n_support)
        if not self.rows.whole and wanted > len(self.rows.indices):
            self.rows = self.source.sample(wanted, self.rng, merge=True)
        reference = default_reference_rows(n_support)
        if self.sample.rows is not self.rows or self.sample.n_reference < min(reference, len(self.rows.indices)):
            self.sample = Sample(self.rows, self.kernel, self.n_components, self.center, self.n_threads, reference)

    def automatic(self, name: str, variance: float) -> Selection:
        """The fewest points that keep `variance` of what exact kernel PCA keeps."""
        name = self.rule_name(name)
        first = self.n_components + FIRST_EXTRA_POINTS
        self.prepare(first)
        n_rows = self.sample.size if self.rows.whole else self.source.n_samples
        if first >= n_rows:
            return self.everything()
        largest = min(n_rows, MAX_AUTO_SUPPORT)
        if self.n_samples and not self.rows.whole:
            largest = min(largest, self.n_samples // ROWS_TO_CHOOSE_FROM)
        least = self.n_components + int(self.center)
        sizes = self._free_sizes() if name == "optimized" else self._rule_sizes(self.selector(name))
        curve, best = _search(sizes, first, least, largest, variance)
        if best is None:
            if n_rows <= MAX_AUTO_EXACT:
                best = self.everything()
            else:
                ratio, best = sizes(largest)
                curve.append((largest, ratio))
                warnings.warn(
                    f"n_support='auto' stopped at {largest} points, which keep {ratio:.1%} of what exact kernel PCA "
                    f"keeps, not variance={variance}: the kernel is too narrow for few points. Give a smaller gamma, "
                    "or n_support as a number",
                    stacklevel=5,
                )
        best.history["curve"] = curve
        return best

    def _free_sizes(self) -> Callable[[int], tuple[float, Selection]]:
        search: FreePoints | None = None
        last: Candidate | None = None

        def at(n_support: int) -> tuple[float, Selection]:
            nonlocal search, last
            self.prepare(n_support)
            if search is None or last is None or search.sample is not self.sample:
                search = FreePoints(self.sample, self.max_iter, self.tol, self.rng)
                last = search.search(n_support)
            else:
                last = search.resize(last, n_support)
            selection = self._moved(search, last)
            return self.sample_ratio(selection), selection

        return at

    def _rule_sizes(self, select: Selector) -> Callable[[int], tuple[float, Selection]]:
        longest: Selection | None = None

        def at(n_support: int) -> tuple[float, Selection]:
            nonlocal longest
            self.prepare(n_support)
            if longest is None or longest.n_support < n_support or not longest.nested:
                longest = select(self.sample, n_support, self.rng)
            selection = longest.prefix(n_support) if longest.nested else longest
            return self.sample_ratio(selection), selection

        return at

    def sample_ratio(self, selection: Selection) -> float:
        """Captured variance over exact kernel PCA's, both on the same reference rows, for all N rows.

        `captured.py` says why a ratio on few rows is extrapolated.  Rows that the reference rows themselves chose fit
        those as exact kernel PCA does, and their ratio stands.
        """
        sample = self.sample
        halves = self._reference_moments(selection, sample.halves)
        whole = self._captured(reduce(add, halves)) / sample.exact.captured
        if self.ratio_kind(selection) != "sample, extrapolated":
            return min(whole, 1.0)
        half = np.mean([self._captured(m) / e.captured for m, e in zip(halves, sample.exact_halves, strict=True)])
        return extrapolated(whole, float(half), sample.n_reference / self.source.n_samples)

    @property
    def rank_tolerance(self) -> float:
        """Share of the largest eigenvalue of K_SS below which others are rounding, or an indefinite kernel's noise."""
        return max(self.source.rank_tolerance, self.sample.indefiniteness)

    def ratio_kind(self, selection: Selection) -> str:
        """How `sample_ratio` comes to its number."""
        if selection.exhaustive:
            return "exact"
        if self.reference_is_all:
            return "all rows"
        return "sample" if selection.by_reference else "sample, extrapolated"

    @property
    def reference_is_all(self) -> bool:
        """Whether the reference rows are all rows there are."""
        return self.rows.whole and self.sample.n_reference == self.sample.size

    def _reference_moments(self, selection: Selection, parts: list[slice]) -> list[Moments]:
        """Moments of parts of the reference rows over the selection's points."""
        sample = self.sample
        points = points_for(selection, sample.reference)
        whitening = whiten(gram_of(selection.kernel, points), self.rank_tolerance).matrix
        weights = sample.rows.weights
        return [
            accumulate(
                selection.kernel,
                points,
                whitening,
                sample.reference[part, :],
                sample_weight=None if weights is None else weights[part],
                diagonal=np.zeros(part.stop - part.start),
                n_threads=self.n_threads,
            )
            for part in parts
        ]

    def _captured(self, moments: Moments) -> float:
        values, _ = top_eigh(moments.covariance(self.center), self.n_components)
        return float(np.maximum(to_numpy(values), 0.0).sum())

    def _moved(self, search: FreePoints, found: Candidate) -> Selection:
        history = {"winner": found.winner, "starts": found.starts}
        if found.rows is not None:
            indices = self.rows.indices[found.rows]
            kernel, points = self.kernel.at(self.rows.X, indices)
            indices = self.rows.numbers_of(indices)
            return Selection(
                kernel, points, indices, history, n_steps=found.n_steps, converged=found.converged, by_reference=True
            )
        points = self.sample.coordinates.points(found.points)
        moved = Selection(self.kernel, points, None, history, n_steps=found.n_steps, converged=found.converged)
        if self.sample.coordinates.lost_exponent <= MAX_LOST_EXPONENT:
            return moved
        # the points were moved in too few directions to be sure that they beat the rows they could have been
        rows = SELECTORS["targeted"](self.sample, found.n_support, self.rng)
        everything = [slice(0, self.sample.n_reference)]
        captured = [self._captured(self._reference_moments(s, everything)[0]) for s in (moved, rows)]
        if captured[0] >= captured[1]:
            return moved
        return replace(rows, history={**history, "winner": "rows"}, n_steps=found.n_steps, converged=True)


def points_for(selection: Selection, X: Array) -> Array:
    """The selection's points in the dtype of X, dense or sparse as they are."""
    points = selection.points
    return points.astype(X.dtype, copy=False) if scipy.sparse.issparse(points) else like(points, X)


def _search(
    at: Callable[[int], tuple[float, Selection]], first: int, least: int, largest: int, target: float
) -> tuple[list[tuple[int, float]], Selection | None]:
    """The sizes tried with their ratios, and the smallest selection that reached the target."""
    curve: list[tuple[int, float]] = []
    best: Selection | None = None
    m = first
    while len(curve) < MAX_SIZES or best is None:
        ratio, selection = at(m)
        curve.append((m, ratio))
        if ratio >= target and (best is None or m < best.n_support):
            best = selection
        following = _next_size(curve, least, largest, target)
        if following is None:
            break
        if following >= largest:
            return curve, best
        m = following
    return curve, best


def _next_size(curve: list[tuple[int, float]], least: int, largest: int, target: float) -> int | None:
    """Where the secant through the two nearest sizes meets the target, well inside what is still open."""
    failing = max((m for m, ratio in curve if ratio < target), default=least - 1)
    enough = min((m for m, ratio in curve if ratio >= target), default=largest)
    exponent = _exponent(curve, target)
    m, ratio = _nearest(curve, target)[0]
    guess = m * math.exp((_missing(ratio) - _missing(target)) / max(exponent, HOPELESS))
    if all(ratio < target for _, ratio in curve):
        if exponent <= HOPELESS:
            return largest
        return min(math.ceil(min(max(guess, MIN_GROWTH * failing), MAX_GROWTH * failing)), largest)
    if enough - failing <= 1 or enough <= CLOSE_ENOUGH * failing:
        return None
    low, high = failing**0.75 * enough**0.25, failing**0.25 * enough**0.75
    return min(max(round(min(max(guess, low), high)), failing + 1), enough - 1)


def _exponent(curve: list[tuple[int, float]], target: float) -> float:
    """How fast what is missing falls: 1 - ratio ~ m^-exponent between the two sizes nearest the target."""
    nearest = _nearest(curve, target)
    if len(nearest) < 2:
        return FIRST_EXPONENT
    (m, ratio), (other, other_ratio) = nearest
    return min((_missing(ratio) - _missing(other_ratio)) / (math.log(other) - math.log(m)), MAX_EXPONENT)


def _nearest(curve: list[tuple[int, float]], target: float) -> list[tuple[int, float]]:
    return sorted(curve, key=lambda size: abs(_missing(size[1]) - _missing(target)))[:2]


def _missing(ratio: float) -> float:
    return math.log(max(1.0 - ratio, 1e-9))


def own_points(selection: Any, chooser: Chooser, n_support: int | None) -> Selection:
    """Points given by the user: row numbers, points, or a function that chooses either."""
    kernel = chooser.kernel
    if callable(selection):
        selection = selection(chooser.rows.X, n_support, kernel=kernel, rng=chooser.rng)
        if isinstance(selection, Selection):
            return selection
        if np.ndim(selection) == 1:  # numbers among the rows that it was shown
            selection = chooser.rows.numbers_of(np.asarray(selection))
    if scipy.sparse.issparse(selection):
        points = selection.tocsr()
    else:
        points = to_numpy(selection) if hasattr(selection, "shape") else np.asarray(selection)
    if points.ndim == 1:
        return _own_rows(points, chooser)
    if kernel.name == "precomputed":
        raise ValueError("selection must be row numbers with a precomputed kernel: its points cannot be given")
    n_features = chooser.source.n_features
    if points.ndim != 2 or points.shape[1] != n_features:
        raise ValueError(f"selection has shape {points.shape}: give row numbers (m,), or points (m, {n_features})")
    if not np.issubdtype(points.dtype, np.number):
        raise ValueError(f"selection points must be numbers, got dtype {points.dtype}")
    values = points.data if scipy.sparse.issparse(points) else points
    if not np.all(np.isfinite(values)):
        raise ValueError("selection points contain NaN or infinity")
    return Selection(kernel, points.astype(np.float64), None, {"winner": "given points"})  # a copy of the user's


def _own_rows(rows: np.ndarray, chooser: Chooser) -> Selection:
    n, weights = chooser.source.n_samples, chooser.source.weights
    if rows.dtype == bool and rows.shape[0] == n:
        rows = np.flatnonzero(rows)
    if not np.issubdtype(rows.dtype, np.integer):
        raise ValueError(f"selection row numbers must be integers, got dtype {rows.dtype}")
    if rows.size == 0 or rows.min() < -n or rows.max() >= n:
        raise ValueError(f"selection row numbers must lie in [0, {n})")
    rows = rows % n
    if len(np.unique(rows)) != len(rows):
        raise ValueError("selection names a row more than once")
    kernel, points = _at_numbers(chooser, rows)
    return Selection(
        kernel,
        points,
        rows,
        {"winner": "given rows"},
        exhaustive=len(rows) == n,
        weights=None if weights is None else weights[rows],
    )


def _at_numbers(chooser: Chooser, rows: np.ndarray) -> tuple[Kernel, Array]:
    """The kernel and the points that stand for these training rows."""
    if chooser.rows.numbers is None:
        return chooser.kernel.at(chooser.rows.X, rows)
    return chooser.kernel, chooser.source.take(rows)
