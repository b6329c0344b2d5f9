"""partial_fit: rows that come a few at a time and are not kept.

The first rows choose the points; from then on every row only adds to the moments over them, and the components are
those of all rows so far.  A reservoir, a uniform sample of the stream, is kept, so that `refresh` can choose again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from sklearn.base import _fit_context

from ..arrays import take_rows
from ..fit.moments import Moments, MomentSum
from ..fit.preimage import RidgeMap, learn_ridge_map
from ..fit.sample import REFERENCE_ROWS, default_sample_size
from ..fit.span import PointSpan
from ..fit.unchanged import unchanged_on_failure
from ..kernels import kernel_type
from ..rows import some_rows
from ..rows.base import Summand
from ..rows.memory import ArrayRows
from ..rows.reservoir import Reservoir
from ..rows.sampled import row_bytes
from ..selection.choose import FIRST_EXTRA_POINTS, ROWS_TO_CHOOSE_FROM
from ..threads import one_blas_thread
from ..warn import warn


@dataclass(frozen=True)
class StreamState:
    """What is kept of the rows that have gone by."""

    reservoir: Reservoir
    moments: Moments | None  # of all rows over the points, None before these are chosen
    negative_share: float = 0.0  # of the spectrum of the points' gram, which was dropped

    _file_sizes = ("m", "d")
    _file_layout = {"reservoir": "Reservoir[d]", "moments": "Moments[m]?", "negative_share": "float"}


class Incremental:
    """partial_fit and refresh of SparseKernelPCA, which every `self` here is."""

    _inverse_map: RidgeMap | None

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Add rows to the model.

        Points are chosen as soon as twice as many different rows as points have come (usually by the first call; at
        once where `selection` gives them as an array) and stay; every row, the first included, counts in the moments
        over them.  Once the points are chosen the result does not depend on how the rows are cut into calls.  A sample
        of the rows is kept, as many as `n_optimization_samples`, for `refresh`.  `captured_ratio_` is measured when
        the points are chosen.  `fit` keeps no moments to add to: after it, partial_fit starts anew, and says so.

        Cost: O(n m (d + m)) for n rows, then O(m^3).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        if kernel_type(self.kernel).precomputed:
            raise ValueError("partial_fit needs rows: a precomputed kernel has no values for points of earlier calls")
        with unchanged_on_failure(self), one_blas_thread():
            if hasattr(self, "expansion_") and not hasattr(self, "_stream"):
                self._start_anew()
            rows = some_rows(X, self._row_rules(), sample_weight, first=not hasattr(self, "n_samples_seen_"))
            state = getattr(self, "_stream", None) or self._empty_stream()
            reservoir = state.reservoir.add(rows.X, rows.weights)
            if state.moments is not None:
                summand = MomentSum(self.expansion_.kernel, self.expansion_.points, state.moments.whitening)
                moments = state.moments + rows.add_up(summand, self._n_threads())
                self._update(replace(state, reservoir=reservoir, moments=moments))
            elif self._enough(reservoir):
                self._choose_from(reservoir, [_KeptRows(state.reservoir), rows])
            else:
                self._stream = replace(state, reservoir=reservoir)
            self.n_samples_seen_ = reservoir.n_seen
        return self

    def refresh(self: Any) -> Any:
        """Choose the points again, from the sample of all rows seen that `partial_fit` keeps.

        From here on moments are those of that sample, scaled up to all rows seen, and of the rows to come.

        Returns
        -------
        self
        """
        state = getattr(self, "_stream", None)
        if state is None or not self._enough(state.reservoir):
            raise ValueError("refresh chooses from the rows that partial_fit has seen: too few have come so far")
        with unchanged_on_failure(self), one_blas_thread():
            self._choose_from(state.reservoir, [_KeptRows(state.reservoir)])
        return self

    def __sklearn_is_fitted__(self: Any) -> bool:
        state = getattr(self, "_stream", None)
        if state is not None:
            return state.moments is not None  # else rows have come, but too few to choose points
        return any(name.endswith("_") and not name.startswith("__") for name in vars(self))

    def _start_anew(self: Any) -> None:
        """Forget what `fit` left."""
        warn(
            f"{type(self).__name__} was fitted by fit, which keeps no moments to add to: partial_fit starts anew, "
            "without those rows"
        )
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)

    def _empty_stream(self: Any) -> StreamState:
        least = self._least_rows()
        size = self.n_optimization_samples or default_sample_size(self._points_wanted())
        if size < least:
            raise ValueError(
                f"n_optimization_samples={size} rows are too few to choose points from: give at least {least}"
            )
        return StreamState(Reservoir.empty(size, int(self._rng().integers(2**63))), None)

    def _points_wanted(self: Any) -> int:
        if isinstance(self.n_support, str):
            return (self._wanted_components or 1) + FIRST_EXTRA_POINTS
        if isinstance(self.n_support, float):
            raise ValueError("n_support as a fraction needs to know all rows: give a number of points to partial_fit")
        return int(self.n_support)

    def _least_rows(self: Any) -> int:
        """So many different rows must have come before points can be chosen."""
        if isinstance(self.selection, str) or callable(self.selection):
            return ROWS_TO_CHOOSE_FROM * self._points_wanted()
        if np.ndim(self.selection) == 1:
            raise ValueError("selection as row numbers needs all rows at hand: give partial_fit the points themselves")
        return (self._wanted_components or 1) + 1

    def _enough(self: Any, reservoir: Reservoir) -> bool:
        rows = take_rows(reservoir.rows, np.flatnonzero(reservoir.weights))
        least = self._least_rows()
        return rows.shape[0] >= least and len(set(row_bytes(rows))) >= least

    def _choose_from(self: Any, reservoir: Reservoir, seen: list[ArrayRows]) -> None:
        """Points by the rows in the reservoir, and moments of the rows seen over them."""
        kept = _KeptRows(reservoir)
        choice = self._points(self._problem_on(kept, self._rng()))
        # all rows so far are no longer all rows when more come: their points are some, like any others
        selection = replace(choice.selection, exhaustive=False)
        span = self._span(replace(choice, selection=selection))
        summand = MomentSum(span.kernel, span.points, span.moments.whitening)
        parts = [rows.add_up(summand, self._n_threads()) for rows in seen if rows.n_samples]
        span = replace(span, moments=reduce(Moments.__add__, parts))
        found = self._components(choice, span)
        if found.support is not None:
            found = replace(found, support=kept.numbers[found.support])
        self._store(choice, span, found)
        self._measure(choice, span)
        self._stream = StreamState(reservoir, span.moments, span.negative_share)
        if not reservoir.whole:
            self._measured_on_a_sample()

    def _measured_on_a_sample(self: Any) -> None:
        """What was measured on all rows there were is measured on some of those that there are now."""
        if self.captured_ratio_kind_ in ("exact", "all rows"):
            self.captured_ratio_kind_ = "sample"

    def _update(self: Any, state: StreamState) -> None:
        """Components of the moments as they now are, on the points as they were."""
        assert state.moments is not None
        model = self.expansion_
        span = PointSpan(model.kernel, model.points, self.support_, self.center, state.moments, state.negative_share)
        best = span.best(self.expansion_.n_components)
        self.expansion_ = span.expansion(best)
        self.explained_variance_ = best.variances
        self.eigenvalues_ = best.variances * span.weight
        self.explained_variance_ratio_ = best.variances / span.total_variance
        self._stream = state
        self._measured_on_a_sample()
        if self._inverse_map is not None:
            rows, weights = state.reservoir.rows[:REFERENCE_ROWS], state.reservoir.weights[:REFERENCE_ROWS]
            self._inverse_map = learn_ridge_map(self.expansion_, rows, weights)

    def _forget(self: Any) -> None:
        self.__dict__.pop("_stream", None)


class _KeptRows(ArrayRows):
    """The rows of a reservoir in the order in which they came; their moments count as those of all rows seen."""

    def __init__(self, reservoir: Reservoir) -> None:
        order = np.argsort(reservoir.numbers)
        rows = np.empty((0, 0)) if reservoir.rows is None else take_rows(reservoir.rows, order)
        weights = reservoir.weights[order]
        super().__init__(rows, None if np.all(weights == 1) else weights)
        self.n_samples = reservoir.n_seen
        self.numbers = reservoir.numbers[order]
        self._weight_seen = None if reservoir.whole else reservoir.weight

    def add_up(self, summand: Summand, n_threads: int) -> Any:
        kept = super().add_up(summand, n_threads)
        if self._weight_seen is None:
            return kept
        factor = self._weight_seen / kept.weight
        return replace(kept, weight=self._weight_seen, scatter=kept.scatter * factor, trace=kept.trace * factor)
