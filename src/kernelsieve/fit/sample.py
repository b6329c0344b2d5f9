"""The rows that points are chosen by: a random sample under a kernel.

Choosing points needs far fewer rows than fitting them: a few thousand show where the variance is.  The first rows of a
`Sample` are its evaluation rows, on which results are measured; the others guide the search (all of them do if the
sample is the whole data).  Rows are taken relative to an origin among them, in float32 if the kernel is bounded: what
is computed from them only steers the fit or measures it to five digits, and the model itself is fitted to the rows as
given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from ..arrays import Array, as_float64, is_numpy, itemsize, origin_of, take_rows, to_numpy
from ..kernels import Kernel
from ..numerics import FLOAT32_SEES
from ..rows.checks import LARGEST, SMALLEST, finite
from ..rows.sampling import SampledRows
from ..threads import CACHED_ROWS, cached_property, row_ranges
from .plan import PLAN, SearchPlan
from .rowset import Drawn, RowSet, carried_variance, draw, tails

# Multiplications that the gram of a whole sample may cost, and how many of them one difference |x - y| costs.
MAX_GRAM_WORK, DIFFERENCE_COST = 2e10, 10.0
EXACT_ROWS = 500  # samples no larger than this are kept in their own precision


@dataclass(frozen=True)
class Sample:
    """Sampled rows under a kernel."""

    rows: SampledRows
    kernel: Kernel
    n_components: int
    center: bool
    n_threads: int
    given: Array  # (n_evaluation, d) the evaluation rows, the first of the sample, as the user gave them
    origin: Array | None  # (d,) subtracted from the rows if only their differences matter
    dtype: Any  # the dtype in which rows are used; None to keep their own
    n_population: int = 0  # number of all training rows, if the sample is not all of them
    # how the evaluation rows were drawn, if rows carry very different shares of the variance
    drawn: Drawn | None = None
    plan: SearchPlan = PLAN
    guides: bool = True  # whether rows after the evaluation rows guide a search

    @classmethod
    def of(
        cls,
        rows: SampledRows,
        kernel: Kernel,
        n_components: int,
        *,
        center: bool,
        n_threads: int = 1,
        n_evaluation: int | None = None,
        n_population: int = 0,
        plan: SearchPlan = PLAN,
    ) -> Sample:
        """A sample of which about `n_evaluation` rows, the first, are for evaluation; by default as the plan says."""
        size, n_evaluation = len(rows.indices), n_evaluation or plan.evaluation_rows
        if plan.all_evaluate:
            n_evaluation = size
        elif not rows.whole:
            n_evaluation = min(size // 2, n_evaluation)  # leave at least as many rows to guide the search
        elif size <= max(plan.all_evaluated, n_evaluation):
            n_evaluation = size
        given = rows.first(n_evaluation)
        origin = _origin_for(given, rows.X, kernel)
        dtype = _dtype_for(given, rows, kernel, origin)
        return cls(
            rows,
            kernel,
            n_components,
            center,
            n_threads,
            given,
            origin,
            dtype,
            n_population,
            plan=plan,
        )

    @property
    def n_evaluation(self) -> int:
        """Number of evaluation rows, the first of the sample."""
        return int(self.given.shape[0])

    @property
    def size(self) -> int:
        return len(self.rows.indices)

    @property
    def search(self) -> slice:
        """Rows that guide the search for points.

        Evaluation rows measure the result of the search, so they do not guide it, unless the sample is the whole data.
        But the share of the training rows that guides the search is taken of the evaluation rows as well, so that
        these still represent all rows.
        """
        if self.rows.whole:
            return slice(0, self.size)
        if self.drawn is not None:
            return slice(self._n_pool, self.size)
        others = max(self.n_population - self.size, 0)
        return slice(round(self.n_evaluation * others / max(self.n_population - self.n_evaluation, 1)), self.size)

    @property
    def shares(self) -> np.ndarray | None:
        """Weights with sum one, or None when all are equal."""
        weights = self.rows.weights
        return None if weights is None else weights / weights.sum()

    # The row sets that results are measured on.

    @cached_property
    def evaluation(self) -> RowSet:
        """The evaluation rows, the first of the sample."""
        n, drawn = self.n_evaluation, self.drawn
        weights = self.rows.weights if drawn is None else drawn.weights
        # probability of a row of the sample among all rows; copies of a row are one row of the sample
        chance = 1.0 if self.rows.whole else self.size / max(self.n_population, self.size)
        return self._row_set(
            slice(0, n),
            self.given,
            None if weights is None else weights[:n],
            is_all=self.rows.whole and n == self.size,
            chance=chance * (n / self.size if drawn is None else 1.0),
            drawn=drawn,
        )

    @property
    def held_columns(self) -> tuple[int, ...]:
        """Columns in which points do not move: those frozen by the user, and those in which the kernel is a step
        function."""
        still = self.kernel.still_columns(int(self.rows.X.shape[1]))
        return tuple(sorted({*still, *self.plan.frozen_columns}))

    @cached_property
    def all_rows(self) -> RowSet | None:
        """All rows of the data; None if the sample is only some of them, or if their gram would cost too much."""
        cost = 1.0 if self.kernel.metric == "euclidean" else DIFFERENCE_COST
        if self.evaluation.is_all:
            return self.evaluation
        if not self.rows.whole or cost * self.rows.X.shape[1] * self.size**2 > MAX_GRAM_WORK:
            return None
        return self._row_set(slice(0, self.size), self.rows.values, self.rows.weights, is_all=True, chance=1.0)

    @cached_property
    def measured_on(self) -> RowSet:
        """Rows on which the result is measured: fresh ones if there are any, otherwise the evaluation rows.

        Fresh rows are better because points fit the rows by which they were chosen better than others.
        """
        rows = self.rows.fresh
        if rows is None:
            return self.evaluation
        n_rows = len(rows.indices) if rows.whole else self.plan.fresh_rows
        fresh = replace(self, rows=rows, given=rows.first(n_rows), drawn=None, guides=False)
        return fresh.representative.evaluation

    @cached_property
    def other_rows(self) -> RowSet:
        """The last rows, as many as the evaluation rows, to measure decisions that were made on the evaluation rows."""
        n, weights = self.n_evaluation, self.rows.weights
        last = slice(self.size - n, self.size)
        share = 1.0 if self.rows.whole else self.size / max(self.n_population, self.size)
        given, weights = take_rows(self.rows.X, self.rows.indices[last]), None if weights is None else weights[last]
        return self._row_set(last, given, weights, is_all=False, chance=share * n / self.size)

    def _row_set(
        self,
        rows: slice,
        given: Array,
        weights: np.ndarray | None,
        *,
        is_all: bool,
        chance: float,
        drawn: Drawn | None = None,
    ) -> RowSet:
        indices, kernel = self.rows.indices[rows], self.kernel
        return RowSet(
            given=given,
            values=self.values(rows),
            origin=self.origin,
            weights=weights,
            is_all=is_all,
            chance=chance,
            drawn=drawn,
            kernel=kernel,
            n_components=self.n_components,
            center=self.center,
            n_threads=self.n_threads,
            known_gram=kernel.at(self.rows.X, indices)[1] if kernel.precomputed else None,
        )

    @property
    def indefiniteness(self) -> float:
        """|most negative| / largest eigenvalue of the gram of the evaluation rows; 0 for a definite kernel."""
        return self.evaluation.indefiniteness

    @property
    def representative(self) -> Sample:
        """This sample with evaluation rows that include the heavy ones (fit/rowset.py); itself if no rows are
        heavy.

        The result is not cached: a sample that refers to itself would keep its rows, perhaps on a device, after the
        fit.
        """
        is_all = self.rows.whole and self.n_evaluation == self.size
        if is_all or not self.kernel.differentiable or scipy.sparse.issparse(self.rows.X):
            return self
        rows, weights = self._pool, self.rows.weights
        weights = None if weights is None else weights[: rows.shape[0]]
        carried = carried_variance(self.kernel, rows, weights)
        if tails(carried, weights) <= self.plan.uneven_tails:
            return self
        drawn = draw(carried, weights, self.n_evaluation)
        rows = self.rows.at(np.concatenate([drawn.places, np.setdiff1d(np.arange(self.size), drawn.places)]))
        given = rows.first(len(drawn.places))
        dtype = _dtype_for(given, rows, self.kernel, self.origin) if self.dtype == np.float32 else self.dtype
        return replace(self, rows=rows, drawn=drawn, given=given, dtype=dtype)

    # The rows in the precision of the search, and columns of their gram.

    @property
    def _n_pool(self) -> int:
        """Number of rows that the evaluation rows are drawn from, the first of the sample."""
        most = self.plan.pool_per_evaluation_row * self.n_evaluation
        return self.size if self.rows.whole or not self.guides else min(most, self.size // 2)

    @cached_property
    def _pool(self) -> Array:
        return self._seen(slice(0, self._n_pool))

    @cached_property
    def all_values(self) -> Array:
        """All rows, relative to the origin."""
        return self._pool if self._n_pool == self.size else self._seen(slice(0, self.size))

    def values(self, rows: slice) -> Array:
        """Some rows relative to the origin, for callers that need only a few at a time."""
        return self._pool[rows, :] if rows.stop <= self._n_pool else self._seen(rows)

    def _seen(self, rows: slice) -> Array:
        X, origin, indices = self.rows.X, self.origin, self.rows.indices[rows]
        if self.dtype != np.float32:
            values = self.rows.values if len(indices) == self.size else take_rows(X, indices)
            values = values if self.dtype is None else as_float64(values)
            return finite(values if origin is None else values - origin)
        light = np.empty((len(indices), X.shape[1]), dtype=np.float32)
        away = X.dtype.type(0) if origin is None else origin.astype(X.dtype, copy=False)
        for part in row_ranges(len(indices), CACHED_ROWS):
            # subtracted in the rows' own precision and rounded once
            np.subtract(X[indices[part]], away, out=light[part], casting="same_kind")
            finite(light[part])
        return light

    @property
    def settled(self) -> Sample:
        """This sample in the precision that its kernel needs: float32 cannot tell rows apart whose kernel values are
        nearly 1."""
        seen = self.evaluation
        if self.kernel.precomputed or not is_numpy(seen.values) or itemsize(seen.values) == 8:
            return self
        length = float(np.abs(np.diagonal(seen.gram)).mean())
        return self.in_float64 if seen.exact.captured < FLOAT32_SEES * length else self

    @property
    def in_float64(self) -> Sample:
        """This sample in float64 throughout."""
        return self if self.dtype == np.float64 else self._in_float64

    @cached_property
    def _in_float64(self) -> Sample:
        return replace(self, dtype=np.float64)

    # Greedy rules read the gram of all sampled rows column by column. If the gram of all of them is known, columns
    # come from it, otherwise from the kernel, so that nothing of size^2 is ever needed.

    @cached_property
    def diagonal(self) -> np.ndarray:
        """k(x, x) of all sampled rows."""
        if self.n_evaluation == self.size:
            return np.diagonal(self.evaluation.gram_on_host).astype(np.float64)
        if self.kernel.precomputed:
            indices = self.rows.indices
            return np.asarray(self.rows.X[indices, indices], dtype=np.float64).ravel()
        return to_numpy(self.kernel.diagonal(self.all_values)).astype(np.float64)

    def column(self, j: int) -> np.ndarray:
        """k(x, x_j) of all sampled rows."""
        if self.n_evaluation == self.size:
            return to_numpy(self.evaluation.gram[:, j])
        return self._cross_gram(slice(j, j + 1))[:, 0]

    @cached_property
    def all_targets(self) -> np.ndarray:
        """`RowSet.targets` of the evaluation rows, for all sampled rows."""
        if self.n_evaluation == self.size:
            return to_numpy(self.evaluation.targets)
        return self._cross_gram(slice(0, self.n_evaluation)) @ to_numpy(self.evaluation.exact.directions)

    def _cross_gram(self, columns: slice) -> np.ndarray:
        kernel, points = self.kernel, self.all_values[columns, :]
        if kernel.precomputed:
            kernel, points = kernel.at(self.rows.X, self.rows.indices[columns])
        return to_numpy(kernel(self.all_values, points))


def _origin_for(given: Array, X: Array, kernel: Kernel) -> Array | None:
    """The origin that is subtracted from rows; None if the kernel depends on more than differences."""
    if not kernel.stationary or scipy.sparse.issparse(X):
        return None
    origin = origin_of(as_float64(given))
    # The origin is rounded to float32, so that subtracting it from float32 rows rounds only once.
    return as_float64(origin.astype(np.float32)) if X.dtype == np.float32 else origin


def _dtype_for(given: Array, rows: SampledRows, kernel: Kernel, origin: Array | None) -> Any:
    """The dtype in which rows are used; None to keep their own.

    In float32 where the kernel is bounded, if the rows, about their origin, can be squared there.
    """
    if is_numpy(rows.X) and kernel.bounded and len(rows.indices) > EXACT_ROWS:
        about = 0.0 if origin is None else origin
        away = np.maximum(given.max(axis=0) - about, about - given.min(axis=0)).max(initial=0.0)
        if SMALLEST[4] < away < LARGEST[4]:
            return np.float32
    return None if origin is None else np.float64
