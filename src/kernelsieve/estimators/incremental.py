"""partial_fit: rows that come a few at a time and are not kept.

The first rows choose the points; from then on every row only adds to the moments over them, and the components are
those of all rows so far.  A reservoir, a uniform sample of the stream, is kept, so that `refresh` can choose again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import _fit_context

from .._array import Array
from .._threads import one_blas_thread
from ..expansion import subset_components
from ..moments import Moments, Whitening, accumulate, gram_of, whiten
from ..reservoir import Reservoir
from ..sample import default_sample_size
from ..selection.base import Selection
from ..selection.choose import FIRST_EXTRA_POINTS, ROWS_TO_CHOOSE_FROM, Chooser, points_for
from ..sources import ArraySource


@dataclass(frozen=True)
class StreamState:
    """What is kept of the rows that have gone by."""

    reservoir: Reservoir
    moments: Moments | None  # None before the points are chosen
    negative_share: float = 0.0


class IncrementalMixin:
    """partial_fit and refresh of SparseKernelPCA, which every `self` here is."""

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Add rows to the model.

        Points are chosen as soon as twice as many rows as points have come (usually by the first call; at once where
        `selection` gives them as an array) and stay; every row, the first included, counts in the moments over
        them.  Once the points are chosen the result does not depend on how the rows are cut into calls.  A sample of
        the rows is kept, as many as `n_optimization_samples`, for `refresh`.

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
        if hasattr(self, "expansion_") and not hasattr(self, "_stream"):
            raise ValueError("this model was fitted by fit, which keeps no moments to add to: start with partial_fit")
        with self._unchanged_on_failure(), one_blas_thread():
            X, weights = self._partial_rows(X, sample_weight)
            state = getattr(self, "_stream", None) or self._empty_stream()
            reservoir = state.reservoir.add(X, weights)
            if state.moments is not None:
                moments = state.moments + self._moments_of(X, weights, state.moments.whitening)
                self._update(replace(state, reservoir=reservoir, moments=moments))
            elif self._enough(reservoir):
                self._choose_from(reservoir)
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
            self._choose_from(state.reservoir)
        return self

    def __sklearn_is_fitted__(self: Any) -> bool:
        return hasattr(self, "expansion_")  # rows may have come, but too few to choose points

    def _empty_stream(self: Any) -> StreamState:
        size = self.n_optimization_samples or default_sample_size(self._points_wanted())
        return StreamState(Reservoir.empty(size, int(self._rng().integers(2**63))), None)

    def _points_wanted(self: Any) -> int:
        if isinstance(self.n_support, str):
            return self.n_components + FIRST_EXTRA_POINTS
        if isinstance(self.n_support, float):
            raise ValueError("n_support as a fraction needs to know all rows: give a number of points to partial_fit")
        return int(self.n_support)

    def _enough(self: Any, reservoir: Reservoir) -> bool:
        given = not isinstance(self.selection, str) and not callable(self.selection)
        least = self.n_components + 1 if given else ROWS_TO_CHOOSE_FROM * self._points_wanted()
        return len(reservoir.keys) >= least

    def _choose_from(self: Any, reservoir: Reservoir) -> None:
        """Points from the rows in the reservoir, and moments that count as all rows seen."""
        equal = not reservoir.weights.size or np.ptp(reservoir.weights) == 0
        weights = None if equal else reservoir.weights
        order = np.argsort(reservoir.numbers)
        rows = reservoir.rows[order]
        chooser = self._chooser(ArraySource(rows, None if weights is None else weights[order]))
        selection = self._choose(chooser)
        kernel, points = selection.kernel, points_for(selection, rows)
        whitening = whiten(gram_of(kernel, points), chooser.rank_tolerance)
        moments = chooser.source.moments(kernel, points, whitening.matrix, chooser.n_threads)
        if not reservoir.whole:
            moments = _scaled(moments, reservoir.n_seen / len(reservoir.keys))
        self._store_chosen(chooser, selection, whitening, moments)
        self._stream = StreamState(reservoir, moments, whitening.negative_share)
        self.n_samples_seen_ = reservoir.n_seen

    def _store_chosen(
        self: Any,
        chooser: Chooser,
        selection: Selection,
        whitening: Whitening,
        moments: Moments,
    ) -> None:
        points = points_for(selection, chooser.rows.X)
        found = subset_components(selection.kernel, points, whitening, moments, self.n_components, center=self.center)
        self._check_rank(found, selection.n_support)
        report = self._measure(chooser, selection, found)
        self._store(found, selection, report)
        self.gamma_ = chooser.gamma

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


def _scaled(moments: Moments, factor: float) -> Moments:
    """Moments of `factor` times as many such rows."""
    return replace(
        moments, weight=moments.weight * factor, scatter=moments.scatter * factor, trace=moments.trace * factor
    )
