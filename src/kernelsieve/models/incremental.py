"""partial_fit: rows that come a few at a time and are not kept.

Three things are kept: the points, the moments of all rows over them, and a reservoir, a sample of the rows.  Every row
adds to the moments and is offered to the reservoir; when the rows since the last choice weigh half of what all do, the
points are chosen again from the reservoir, and the moments are carried over to them.  While the reservoir still holds
all rows a choice is a fit to them.  Components are found when they are first asked for.

Nothing of this depends on how the rows are cut into calls.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context

from ..arrays import take_rows
from ..errors import warn
from ..fit.parameters import unchanged_on_failure
from ..fit.sample import default_sample_size
from ..fit.span import PointSpan
from ..fit.transfer import faded, rows_until_choice
from ..kernels import Kernel, kernel_type
from ..rows import RowRules, some_rows
from ..rows.memory import ArrayRows, SampledRows, row_bytes
from ..rows.reservoir import Reservoir
from ..rules.base import Choice
from ..search.chooser import FIRST_EXTRA_POINTS, ROWS_TO_CHOOSE_FROM, Effort
from ..selection.again import against_current
from ..threads import one_blas_thread
from .reading import StreamReading
from .settled import check_settled, settle
from .stream import KeptRows, StreamState, start_anew

# The median of distances is known to a few percent: a width that changes by less has not changed.
SAME_WIDTH = math.log(1.1)
# The width is settled again until the stream is so many times as long as its reservoir.
WIDTH_SETTLED = 2


class Incremental(StreamReading):
    """partial_fit and refresh of SparseKernelPCA, which every `self` here is."""

    _stale: ClassVar[tuple[str, ...]] = ("_stream", "_settled")

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Add rows to the model.

        Points are first chosen when twice as many different rows as points have come (at once where `selection` gives
        them as an array), and again whenever the rows since the last choice weigh half of what all rows do: without
        `half_life` that is each doubling of the stream, else every 0.72 half-lives.  They are chosen from a sample of
        the rows, as many as `n_optimization_samples`, and the moments of all rows are carried over to them.  A
        `gamma` that is a rule is settled with each choice, until twice as many rows have come as are kept.  Kernel,
        centring, `n_components` and `half_life` stay what they were in the first call; a change is refused.

        The model depends on the rows and their order, not on how they are cut into calls.  Components are found when
        they are first read, so that a call costs little more than a `transform` of its rows.  `captured_ratio_` is
        measured when points are chosen.  On a stream that is sorted, call `refresh` at its end.  `fit` keeps no
        moments to add to: after it, partial_fit starts anew, and says so.

        Cost: O(n m (d + m)) for n rows; O(R m (d + m)) for each choice, R the rows kept; O(m^3) for each reading.

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
        with unchanged_on_failure(self):
            if "_stream" not in vars(self) and "expansion_" in vars(self):
                start_anew(self, "keeps no moments to add to: partial_fit starts anew, without those rows")
            rows = some_rows(X, RowRules.of(self), sample_weight, first="n_samples_seen_" not in vars(self))
            if "_stream" in vars(self):
                check_settled(self)
            else:
                settle(self)
            self._stream = self._state()
            self._follow(rows)
            self.n_samples_seen_ = self._stream.reservoir.n_seen
            if self.record_drift and self._stream.moments is not None:
                self._record()
        return self

    def refresh(self: Any) -> Any:
        """Choose the points, and the width of the kernel, again, from the sample of the rows that `partial_fit` keeps.

        Worth its price where a stream was sorted or has ended: components become those of points that know all of it.

        Returns
        -------
        self
        """
        state = vars(self).get("_stream")
        if state is None or not self._enough(state.reservoir):
            raise ValueError("refresh chooses from the rows that partial_fit has seen: too few have come so far")
        check_settled(self)
        with unchanged_on_failure(self), one_blas_thread():
            self._choose(settle=True)
        return self

    def __add__(self: Any, other: Any) -> Any:
        """The model of both streams: moments add, samples of rows merge (see `kernelsieve.models.merging`)."""
        from .merging import merged

        return merged(self, other) if isinstance(other, Incremental) else NotImplemented

    # Rows come.

    def _follow(self: Any, rows: ArrayRows) -> None:
        """Take rows in, up to each choice of points and beyond."""
        start = 0
        while start < rows.n_samples:
            rest = _part(rows, slice(start, None)) if start else rows
            count = self._rows_until_choice(rest)
            self._take_in(rest if count is None else _part(rest, slice(count)))
            if count is None:
                return
            start += count
            with one_blas_thread():
                self._choose_or_stay()

    def _take_in(self: Any, rows: ArrayRows) -> None:
        self._stream = self._stream.with_rows(rows, self._n_threads())
        self._drop_components()
        if self._stream.moments is not None:
            self._measured_on_a_sample()

    def _rows_until_choice(self: Any, rows: ArrayRows) -> int | None:
        """How many of these rows come before the next choice of points; None where it is not among them."""
        state = self._stream
        weights = np.ones(rows.n_samples) if rows.weights is None else rows.weights
        if state.moments is None:
            count = self._rows_until_enough(rows)
        else:
            count = rows_until_choice(state.since, state.reservoir.weight, weights, state.rate)
        if not state.reservoir.whole:
            return count
        # While all rows are kept, each choice starts afresh from all of them and leaves nothing of those before it: of
        # the choices that are due among these rows only the last need be made.
        while count is not None:
            so_far = faded(state.reservoir.weight, weights[:count], state.rate)
            more = rows_until_choice(0.0, so_far, weights[count:], state.rate)
            if more is None:
                break
            if state.reservoir.n_kept + np.count_nonzero(weights[: count + more]) > state.reservoir.size:
                break
            count += more
        return count

    def _choose_or_stay(self: Any) -> None:
        """Choose points; where the rows of late allow no other choice, stay with those there are."""
        if self._stream.moments is None:
            self._choose()
            return
        if not self._enough(self._stream.reservoir):  # hardly any different rows: every one would become a point
            self._stream = replace(self._stream, since=0.0)
            return
        before = dict(vars(self))
        try:
            self._choose()
        except ValueError as error:
            vars(self).clear()
            vars(self).update(before)
            self._stream = replace(self._stream, since=0.0)
            warn(f"the points stay as they are, the rows kept allow no other choice: {error}")

    # Points are chosen.

    def _empty_stream(self: Any) -> StreamState:
        least = self._least_rows()
        size = self.n_optimization_samples or default_sample_size(self._points_wanted())
        if size < least:
            raise ValueError(
                f"n_optimization_samples={size} rows are too few to choose points from: give at least {least}"
            )
        seed = int(self._rng().integers(2**63))
        return StreamState(Reservoir.empty(size, seed, self.half_life), None)

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
        return len(_different(reservoir)) >= self._least_rows()

    def _rows_until_enough(self: Any, rows: ArrayRows) -> int | None:
        """How many of these rows make different rows enough to choose points from."""
        different, least = _different(self._stream.reservoir), self._least_rows()
        counting = np.arange(rows.n_samples) if rows.weights is None else np.flatnonzero(rows.weights)
        for number, row in zip(counting, row_bytes(take_rows(rows.X, counting)), strict=True):
            different.add(row)
            if len(different) >= least:
                return int(number) + 1
        return None

    def _choose(self: Any, *, settle: bool = False) -> None:
        """Points by the rows kept, and moments of all rows over them; `settle`: the kernel's width is free again."""
        state = self._state()
        state = replace(state, reservoir=state.reservoir.in_order())
        self._stream = replace(state, chosen=None) if settle else state
        kept = KeptRows(state.reservoir)
        # numbers that depend on the stream alone, so that a model read from a file goes on as the one saved
        rng = np.random.default_rng([state.reservoir.seed, state.reservoir.n_seen])
        choice = self._points(self._problem_on(kept, rng, self._kernel_of_stream))
        if state.chosen is not None and state.moments is not None and not state.reservoir.whole:
            effort = Effort(self.n_optimization_samples, self.max_iter, self.tol)
            choice = against_current(choice, state.chosen.points, effort)
        span = self._span_over(choice, state)
        found = self._components(choice, span)
        if found.support is not None:
            found = replace(found, support=kept.numbers[found.support])
        self._store(choice, span, found)
        self._measure(choice, span)
        if not state.reservoir.whole:
            self._measured_on_a_sample()
        self._stream = StreamState(state.reservoir, span.moments, span.negative_share, self.expansion_)
        self.chosen_at_ = state.reservoir.n_seen

    def _span_over(self: Any, choice: Choice, state: StreamState) -> PointSpan:
        """The span of chosen points with the moments of all rows that have come."""
        # Points that are all rows so far get the span of any few points: when more rows come they are not all any more.
        selection = replace(choice.selection, exhaustive=False)
        span = self._span(replace(choice, selection=selection, span=None))
        return replace(span, moments=state.moments_over(span, self._n_threads()))

    def _kernel_of_stream(self: Any, rows: SampledRows) -> tuple[Kernel, float]:
        """The kernel that these rows settle, or the one there is, where that is settled or hardly another."""
        state = self._stream
        chosen = state.chosen if state.moments is not None else None
        if chosen is not None and state.reservoir.n_seen > WIDTH_SETTLED * state.reservoir.size:
            return chosen.kernel, self.gamma_
        kernel, gamma = self._kernel_on(rows)
        if chosen is None or state.reservoir.whole or abs(math.log(gamma / self.gamma_)) > SAME_WIDTH:
            return kernel, gamma
        return chosen.kernel, self.gamma_


def _different(reservoir: Reservoir) -> set[bytes]:
    """The different rows of a reservoir; those that weigh nothing are not kept."""
    rows = reservoir.in_order().rows
    return set() if rows is None else set(row_bytes(rows))


def _part(rows: ArrayRows, part: slice) -> ArrayRows:
    return ArrayRows(rows.X[part, :], None if rows.weights is None else rows.weights[part])
