"""A model that follows a stream, as it is read: components are found when they are first asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..arrays import to_numpy
from ..fit.preimage import RidgeMap, learned_preimage
from ..fit.sample import EVALUATION_ROWS
from ..fit.span import PointSpan
from ..fit.transfer import turned
from ..threads import one_blas_thread
from .settled import as_settled, check_settled_file
from .stream import KeptRows, StreamState

# What follows from the moments, and is found when it is first asked for.
COMPONENTS = ("expansion_", "explained_variance_", "explained_variance_ratio_", "eigenvalues_")
DRIFT_RECORD = ("n_samples_seen", "drift", "explained", "chosen_at")


class FromMoments:
    """An attribute that `fit` stores, and that of a stream's model is found when it is first read."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        state = None if model is None else vars(model).get("_stream")  # of the class itself nothing is to be read
        if state is None or state.moments is None:
            raise AttributeError(f"{type(model).__name__!r} object has no attribute {self.name!r}")
        if self.name in COMPONENTS:
            model._solve()
        else:
            model._inverse_map = model._way_back(state)
        return vars(model)[self.name]


class StreamReading:
    """What is read of a stream's model, which every `self` here is."""

    expansion_: Any = FromMoments()
    explained_variance_: Any = FromMoments()
    explained_variance_ratio_: Any = FromMoments()
    eigenvalues_: Any = FromMoments()
    _inverse_map: Any = FromMoments()

    @property
    def drift_(self: Any) -> float:
        """How far the components have turned since the points were last chosen: the largest principal angle, radians.

        Only of a model that `partial_fit` made.
        """
        state = vars(self).get("_stream")
        if state is None or state.moments is None:
            raise AttributeError("drift_ is that of a model that partial_fit has followed a stream with")
        chosen, span = self._state().chosen, self._span_now()
        now = to_numpy(span.best(self._state().chosen.n_components).directions)
        return turned(np.linalg.qr(span.directions(to_numpy(chosen.coef)))[0], now)

    def __sklearn_is_fitted__(self: Any) -> bool:
        state = vars(self).get("_stream")
        if state is None:
            return any(name.endswith("_") and not name.startswith("__") for name in vars(self))
        return state.moments is not None  # else rows have come, but too few to choose points

    def _before_saving(self: Any) -> None:
        """Compute what is computed only when it is read, so that a file holds all of the model."""
        state = vars(self).get("_stream")
        if state is not None and state.moments is not None:  # before that there is no model, only rows
            self._stream = replace(self._state(), reservoir=state.reservoir.in_order())
            self._solve()
            _ = self._inverse_map

    def check_loaded(self: Any, error: type[ValueError]) -> None:
        """Raise `error` unless the parameters in a file are those that the stream in it was begun with."""
        if "_stream" in vars(self):
            check_settled_file(self, self._stream.reservoir, error)
            self._check_goes_on(error)

    def _check_goes_on(self: Any, error: type[ValueError]) -> None:
        """Raise `error` unless points can be chosen again as the parameters say."""
        try:
            self._empty_stream()
            self._sample_size(KeptRows(self._stream.reservoir))
        except ValueError as reason:
            raise error(f"the stream in the file cannot go on: {reason}") from reason
        given = self.selection
        if not isinstance(given, str) and not callable(given):
            shape, kind = np.shape(given), np.asarray(given).dtype.kind
            if shape[1:] != (self.n_features_in_,) or kind not in "fiu":
                raise error(f"the stream in the file cannot go on: its points have shape {shape}")

    def _state(self: Any) -> StreamState:
        """What is kept of the stream so far."""
        state = vars(self).get("_stream")
        if state is None:
            empty: StreamState = self._empty_stream()
            return empty
        if state.chosen is None and state.moments is not None:  # from a file of version 0.1.0
            return replace(state, chosen=self.expansion_)
        return state

    def _span_now(self: Any) -> PointSpan:
        with as_settled(self):
            return self._state().span(self.support_, self.center)

    def _solve(self: Any) -> None:
        """Components of the moments as they now are."""
        if all(name in vars(self) for name in COMPONENTS):
            return
        with one_blas_thread():
            span = self._span_now()
            best = span.best(self._state().chosen.n_components)
            self.explained_variance_ = best.variances
            self.eigenvalues_ = best.variances * span.weight
            self.explained_variance_ratio_ = best.variances / span.total_variance
            self.expansion_ = span.expansion(best)

    def _drop_components(self: Any) -> None:
        """Have them found again when they are asked for."""
        for name in (*COMPONENTS, "_inverse_map"):
            vars(self).pop(name, None)

    def _way_back(self: Any, state: StreamState) -> RidgeMap | None:
        """The map from scores to rows, by the latest of the rows kept."""
        reservoir = state.reservoir.in_order()
        rows, weights = reservoir.rows[:EVALUATION_ROWS], reservoir.kept_weights[:EVALUATION_ROWS]
        return learned_preimage(self.expansion_, rows, weights)

    def _measured_on_a_sample(self: Any) -> None:
        """What was measured on all rows there were is measured on some of those that there are now."""
        if vars(self).get("captured_ratio_kind_") in ("exact", "all rows"):
            self.captured_ratio_kind_ = "sample"

    def _record(self: Any) -> None:
        """One more line of what `record_drift` asks for."""
        record = vars(self).setdefault("drift_record_", {name: [] for name in DRIFT_RECORD})
        line = (self.n_samples_seen_, self.drift_, float(self.explained_variance_ratio_.sum()), self.chosen_at_)
        for name, value in zip(DRIFT_RECORD, line, strict=True):
            record[name].append(value)
