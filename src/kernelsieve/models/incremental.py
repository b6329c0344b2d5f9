"""partial_fit: rows that come a few at a time and are not kept.

The first rows choose the points; from then on every row only adds to the moments over them, and the components are
those of all rows so far.  A reservoir, a uniform sample of the stream, is kept, so that `refresh` can choose again.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from sklearn.base import _fit_context

from ..arrays import Array, take_rows
from ..fit.expansion import subset_components
from ..fit.moments import Moments, Whitening, accumulate, gram_of, whiten
from ..fit.preimage import RidgeMap, learn_ridge_map
from ..fit.sample import REFERENCE_ROWS, default_sample_size, row_bytes
from ..kernels import Kernel
from ..rows.memory import ArraySource
from ..rows.reservoir import Reservoir
from ..selection.choose import FIRST_EXTRA_POINTS, ROWS_TO_CHOOSE_FROM, points_for
from ..threads import one_blas_thread


@dataclass(frozen=True)
class StreamState:
    """What is kept of the rows that have gone by."""

    reservoir: Reservoir
    moments: Moments | None  # None before the points are chosen
    negative_share: float = 0.0


class IncrementalMixin:
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
        if self.kernel == "precomputed":
            raise ValueError("partial_fit needs rows: a precomputed kernel has no values for points of earlier calls")
        with self._unchanged_on_failure(), one_blas_thread():
            if hasattr(self, "expansion_") and not hasattr(self, "_stream"):
                self._start_anew()
            X, weights = self._partial_rows(X, sample_weight)
            state = getattr(self, "_stream", None) or self._empty_stream()
            reservoir = state.reservoir.add(X, weights)
            if state.moments is not None:
                moments = state.moments + self._moments_of(X, weights, state.moments.whitening)
                self._update(replace(state, reservoir=reservoir, moments=moments))
            elif self._enough(reservoir):
                self._choose_from(reservoir, [_KeptRows(state.reservoir), ArraySource(X, weights)])
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
        with self._unchanged_on_failure(), one_blas_thread():
            self._choose_from(state.reservoir, [_KeptRows(state.reservoir)])
        return self

    def __sklearn_is_fitted__(self: Any) -> bool:
        state = getattr(self, "_stream", None)
        if state is not None:
            return state.moments is not None  # else rows have come, but too few to choose points
        return any(name.endswith("_") and not name.startswith("__") for name in vars(self))

    def _start_anew(self: Any) -> None:
        """Forget what `fit` left."""
        warnings.warn(
            f"{type(self).__name__} was fitted by fit, which keeps no moments to add to: partial_fit starts anew, "
            "without those rows",
            stacklevel=5,
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
            return self.n_components + FIRST_EXTRA_POINTS
        if isinstance(self.n_support, float):
            raise ValueError("n_support as a fraction needs to know all rows: give a number of points to partial_fit")
        return int(self.n_support)

    def _least_rows(self: Any) -> int:
        """So many different rows must have come before points can be chosen."""
        if isinstance(self.selection, str) or callable(self.selection):
            return ROWS_TO_CHOOSE_FROM * self._points_wanted()
        if np.ndim(self.selection) == 1:
            raise ValueError("selection as row numbers needs all rows at hand: give partial_fit the points themselves")
        return self.n_components + 1

    def _enough(self: Any, reservoir: Reservoir) -> bool:
        rows = take_rows(reservoir.rows, np.flatnonzero(reservoir.weights))
        least = self._least_rows()
        return rows.shape[0] >= least and len(set(row_bytes(rows))) >= least

    def _choose_from(self: Any, reservoir: Reservoir, seen: list[ArraySource]) -> None:
        """Points by the rows in the reservoir, and moments of the rows seen over them."""
        kept = _KeptRows(reservoir)
        chooser = self._chooser(kept)
        selection = self._choose(chooser)
        kernel, points = selection.kernel, points_for(selection, kept.X)
        whitening = whiten(gram_of(kernel, points), chooser.rank_tolerance)
        parts = [
            rows.moments(kernel, points_for(selection, rows.X), whitening.matrix, chooser.n_threads)
            for rows in seen
            if rows.n_samples
        ]
        moments = reduce(Moments.__add__, parts)
        found = subset_components(kernel, points, whitening, moments, self.n_components, center=self.center)
        self._warn_if_indefinite(max(whitening.negative_share, chooser.sample.indefiniteness))
        self._check_rank(found, selection.n_support)
        report = self._measure(chooser, selection, found)
        if selection.indices is not None:
            selection = replace(selection, indices=kept.numbers[selection.indices])
        self._store(found, selection, report)
        self.gamma_ = chooser.gamma
        self._stream = StreamState(reservoir, moments, whitening.negative_share)
        if not reservoir.whole:
            self._measured_on_a_sample()

    def _measured_on_a_sample(self: Any) -> None:
        """What was measured on all rows there were is measured on some of those that there are now."""
        if self.captured_ratio_kind_ in ("exact", "all rows"):
            self.captured_ratio_kind_ = "sample"

    def _moments_of(self: Any, X: Array, weights: np.ndarray | None, whitening: Array) -> Moments:
        expansion = self.expansion_
        return accumulate(
            expansion.kernel,
            expansion.points_like(X),
            whitening,
            X,
            sample_weight=weights,
            n_threads=self._n_threads(),
        )

    def _update(self: Any, state: StreamState) -> None:
        """Components of the moments as they now are, on the points as they were."""
        assert state.moments is not None
        whitening = Whitening(state.moments.whitening, state.negative_share)
        found = subset_components(
            self.expansion_.kernel,
            self.expansion_.points,
            whitening,
            state.moments,
            self.n_components,
            center=self.center,
        )
        self._store_components(found)
        self._stream = state
        self._measured_on_a_sample()
        if self._inverse_map is not None:
            rows, weights = state.reservoir.rows[:REFERENCE_ROWS], state.reservoir.weights[:REFERENCE_ROWS]
            self._inverse_map = learn_ridge_map(found.expansion, rows, weights)


class _KeptRows(ArraySource):
    """The rows of a reservoir in the order in which they came; their moments count as those of all rows seen."""

    def __init__(self, reservoir: Reservoir) -> None:
        order = np.argsort(reservoir.numbers)
        rows = np.empty((0, 0)) if reservoir.rows is None else take_rows(reservoir.rows, order)
        weights = reservoir.weights[order]
        super().__init__(rows, None if np.all(weights == 1) else weights)
        self.n_samples = reservoir.n_seen
        self.numbers = reservoir.numbers[order]
        self._weight_seen = None if reservoir.whole else reservoir.weight

    def moments(self, kernel: Kernel, points: Array, whitening: Array, n_threads: int) -> Moments:
        kept = super().moments(kernel, points, whitening, n_threads)
        if self._weight_seen is None:
            return kept
        factor = self._weight_seen / kept.weight
        return replace(kept, weight=self._weight_seen, scatter=kept.scatter * factor, trace=kept.trace * factor)
