"""Sample: the random sample of rows from which a fit chooses its points, under a kernel.

Choosing points needs far fewer rows than the fit itself: a few thousand show where the variance is.  The first rows of
a `Sample` are its evaluation rows, on which results are measured; the others guide the search (all rows do if the
sample is the whole data).  An origin near the rows is subtracted from them, and they are rounded to float32 if the
kernel is bounded.  That is precise enough, because the sample only steers the fit or measures it to five digits; the
model itself is fitted to the rows as given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from ..arrays import (
    Array,
    add_to_diagonal,
    as_float64,
    cholesky,
    is_numpy,
    itemsize,
    origin_of,
    solve_lower,
    take_rows,
    to_numpy,
)
from ..kernels import Kernel
from ..numerics import DEPENDENT, FLOAT32_SEES
from ..rows.checks import LARGEST, SMALLEST, finite
from ..rows.sampling import SampledRows
from ..threads import CACHED_ROWS, cached_property, row_ranges
from .plan import PLAN, SearchPlan
from .rowset import Drawn, RowSet, carried_variance, draw, tails

# Multiplications that the gram of a whole sample may cost, and how many of them one difference |x - y| costs.
MAX_GRAM_WORK, DIFFERENCE_COST = 2e10, 10.0
EXACT_ROWS = 500  # a sample of at most this many rows is not rounded to float32


@dataclass(frozen=True)
class Sample:
    """Sampled rows under a kernel."""

    rows: SampledRows
    kernel: Kernel
    n_components: int
    center: bool
    n_threads: int
    given: Array  # (n_evaluation, d) the evaluation rows, the first of the sample, as the user gave them
    origin: Array | None  # (d,) subtracted from the rows; None if the kernel depends on more than differences
    dtype: Any  # the dtype to which rows are converted; None to keep their own
    n_population: int = 0  # number of training rows, if the sample is only a part of them
    # How the evaluation rows were drawn, if some rows carry far more of the variance than others.
    drawn: Drawn | None = None
    plan: SearchPlan = PLAN
    guides: bool = True  # False if no rows are needed to guide a search, so that all may be evaluation rows

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
        """A sample whose first rows, about `n_evaluation` of them (by default as in the plan), are evaluation rows."""
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

        If the sample is the whole data, all rows guide the search.  Otherwise most evaluation rows do not, because they
        measure its result.  The result should hold for all training rows, some of which guided the search.  So the same
        share of the evaluation rows guides the search as of the other training rows.
        """
        if self.rows.whole:
            return slice(0, self.size)
        if self.drawn is not None:
            return slice(self._n_pool, self.size)
        others = max(self.n_population - self.size, 0)
        return slice(round(self.n_evaluation * others / max(self.n_population - self.n_evaluation, 1)), self.size)

    @property
    def unit_weights(self) -> np.ndarray | None:
        """(n,) weights scaled to sum one; None if all are equal."""
        weights = self.rows.weights
        return None if weights is None else weights / weights.sum()

    # The row sets that results are measured on.

    @cached_property
    def evaluation(self) -> RowSet:
        """The evaluation rows, the first of the sample."""
        n, drawn = self.n_evaluation, self.drawn
        weights = self.rows.weights if drawn is None else drawn.weights
        # The probability that a training row is in the sample, in which a row and its copies count as one row.
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
        """Columns in which points keep the values of rows.

        These are the columns frozen by the user, and those in which the kernel is a step function and has no gradient.
        """
        still = self.kernel.still_columns(int(self.rows.X.shape[1]))
        return tuple(sorted({*still, *self.plan.frozen_columns}))

    @cached_property
    def all_rows(self) -> RowSet | None:
        """All rows of the data; None if the sample is only a part of them, or if their gram would cost too much."""
        cost = 1.0 if self.kernel.metric == "euclidean" else DIFFERENCE_COST
        if self.evaluation.is_all:
            return self.evaluation
        if not self.rows.whole or cost * self.rows.X.shape[1] * self.size**2 > MAX_GRAM_WORK:
            return None
        return self._row_set(slice(0, self.size), self.rows.values, self.rows.weights, is_all=True, chance=1.0)

    @cached_property
    def measured_on(self) -> RowSet:
        """Rows on which the result is measured: fresh rows if there are any, otherwise the evaluation rows.

        Fresh rows took no part in choosing the points.  They are preferred because points fit the rows by which they
        were chosen better than other rows.
        """
        rows = self.rows.fresh
        if rows is None:
            return self.evaluation
        n_rows = len(rows.indices) if rows.whole else self.plan.fresh_rows
        fresh = replace(self, rows=rows, given=rows.first(n_rows), drawn=None, guides=False)
        return fresh.representative.evaluation

    @cached_property
    def other_rows(self) -> RowSet:
        """The last rows of the sample, as many as there are evaluation rows.

        They measure decisions that were made on the evaluation rows.
        """
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
        """This sample with evaluation rows drawn to include heavy rows (fit/rowset.py); itself if no rows are heavy.

        The result is not cached: a sample that refers to itself would keep its rows in memory, perhaps on a device,
        after the fit.
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

    # Access to the rows in the precision of the search.

    @property
    def _n_pool(self) -> int:
        """Number of rows, the first of the sample, from which the evaluation rows are drawn."""
        most = self.plan.pool_per_evaluation_row * self.n_evaluation
        return self.size if self.rows.whole or not self.guides else min(most, self.size // 2)

    @cached_property
    def _pool(self) -> Array:
        return self._read(slice(0, self._n_pool))

    @cached_property
    def all_values(self) -> Array:
        """All rows, relative to the origin."""
        return self._pool if self._n_pool == self.size else self._read(slice(0, self.size))

    def values(self, rows: slice) -> Array:
        """Rows of a slice, relative to the origin, for callers that need only a few at a time."""
        return self._pool[rows, :] if rows.stop <= self._n_pool else self._read(rows)

    def _read(self, rows: slice) -> Array:
        X, origin, indices = self.rows.X, self.origin, self.rows.indices[rows]
        if self.dtype != np.float32:
            values = self.rows.values if len(indices) == self.size else take_rows(X, indices)
            values = values if self.dtype is None else as_float64(values)
            return finite(values if origin is None else values - origin)
        light = np.empty((len(indices), X.shape[1]), dtype=np.float32)
        away = X.dtype.type(0) if origin is None else origin.astype(X.dtype, copy=False)
        for part in row_ranges(len(indices), CACHED_ROWS):
            # The subtraction is done in the precision of the rows, so that the result is rounded only once.
            np.subtract(X[indices[part]], away, out=light[part], casting="same_kind")
            finite(light[part])
        return light

    @property
    def precise_enough(self) -> Sample:
        """This sample, in float64 if the kernel needs it: float32 cannot tell rows apart if all kernel values are
        nearly 1."""
        rows = self.measured_on  # whose gram every fit needs
        if self.kernel.precomputed or not is_numpy(rows.values) or itemsize(rows.values) == 8:
            return self
        length = float(np.abs(np.diagonal(rows.gram)).mean(dtype=np.float64))
        return self.in_float64 if rows.exact.captured < FLOAT32_SEES * length else self

    @property
    def in_float64(self) -> Sample:
        """This sample in float64 throughout."""
        return self if self.dtype == np.float64 else self._in_float64

    @cached_property
    def _in_float64(self) -> Sample:
        return replace(self, dtype=np.float64)

    # Greedy rules read the gram of all sampled rows column by column. If that gram is known, columns are taken from it;
    # otherwise the kernel computes each column, so that size^2 numbers are never stored.

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
        """(n, M) scores of all sampled rows by exact kernel PCA of the evaluation rows, as `RowSet.targets`."""
        if self.n_evaluation == self.size:
            return to_numpy(self.evaluation.targets)
        return self._cross_gram(slice(0, self.n_evaluation)) @ to_numpy(self.evaluation.exact.row_coef)

    @cached_property
    def ridge_leverage(self) -> np.ndarray:
        """(n,) ridge leverage scores of all sampled rows: how much of a row no combination of other rows can replace.

            l_i = w_i [K (W K + ridge I)^-1]_ii = (w_i / ridge) (k_ii - k_iR (K_RR + ridge share W_R^-1)^-1 k_Ri)

        The second expression, in O(n r^2) for r evaluation rows R, is exact if these are all rows (share = 1).  If they
        are a random share of the rows, it is right up to a constant factor (Musco & Musco 2017).  The ridge is theirs
        for M components: the variance that kernel PCA leaves unexplained, divided by M.
        """
        n_counted, weights, diagonal = self.n_evaluation, self.rows.weights, self.diagonal
        mass = np.ones(self.size) if weights is None else weights * (self.size / weights.sum())
        gram = as_float64(self.evaluation.gram_on_host)
        counted_mass = mass[:n_counted]
        if self.drawn is not None:
            counted_mass = self.drawn.weights * (n_counted / self.drawn.weights.sum())
        omega = counted_mass / counted_mass.sum()
        explained = self.evaluation.exact.captured + (float(omega @ gram @ omega) if self.center else 0.0)
        left = max(float(mass @ diagonal) / self.size - explained, 0.0)
        ridge = self.size * max(left / self.n_components, DEPENDENT * float(np.abs(diagonal).mean()))
        counted = gram + np.diag(ridge * n_counted / self.size / counted_mass)
        factor = cholesky(counted)
        if factor is None:  # for an indefinite kernel, the ridge must exceed the size of the most negative eigenvalue
            lowest = float(np.linalg.eigvalsh(counted)[0])
            factor = cholesky(add_to_diagonal(counted, ridge - 2.0 * lowest))
        cross_gram = gram if n_counted == self.size else self._cross_gram(slice(0, n_counted))
        whitened = solve_lower(factor, as_float64(cross_gram).T)
        return mass * np.maximum(diagonal - np.einsum("ij,ij->j", whitened, whitened), 0.0) / ridge

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
    """The dtype to which rows are converted; None to keep their own.

    It is float32 for large samples under a bounded kernel, unless the squares of the rows, relative to their origin,
    would overflow or underflow in float32.
    """
    if is_numpy(rows.X) and kernel.bounded and len(rows.indices) > EXACT_ROWS:
        about = 0.0 if origin is None else origin
        away = np.maximum(given.max(axis=0) - about, about - given.min(axis=0)).max(initial=0.0)
        if SMALLEST[4] < away < LARGEST[4]:
            return np.float32
    return None if origin is None else np.float64
