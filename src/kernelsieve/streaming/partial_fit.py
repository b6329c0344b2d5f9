"""partial_fit, which adds rows to a model without keeping all of them; and update, which does so through a pipeline.

The model keeps three things: the points, the moments of all rows over them, and a reservoir, which is a random sample
of the rows.  Every row is added to the moments and offered to the reservoir.  When the rows since the last choice of
points have half of the weight of all rows, the points are chosen again from the reservoir, and the moments are
transferred to them.  As long as the reservoir holds all rows, a choice is a fit to all rows.  Points given by the user
stay as they are.

The result does not depend on how the rows are divided into calls.

`fit` with `keep_stream=True` keeps the same three things, with its sample as the reservoir, so that `partial_fit`
continues where `fit` ended.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..arrays import on_host, take_rows
from ..errors import warn
from ..fit.captured_ratio import CAPTURED, CapturedRatio
from ..fit.moments import faded, rows_until_choice
from ..fit.parameters import refuse_what_is_not_finite, unchanged_on_failure
from ..fit.plan import PLAN
from ..fit.span import PointSpan, Span
from ..fit.stages import printing
from ..kernels import Kernel, kernel_of
from ..rows.checks import naming_gaps
from ..rows.dispatch import RowRules, some_rows
from ..rows.reservoir import Reservoir
from ..rows.rows import ArrayRows
from ..rows.sampling import SampledRows, row_keys
from ..rules.base import Choice
from ..search.chooser import against_current
from ..threads import one_blas_thread
from .state import (
    STORED,
    FromStream,
    LastChoice,
    Measured,
    ReservoirRows,
    StreamState,
    check_frozen,
    check_frozen_in_file,
    frozen_parameters,
    moments_on_host,
    start_anew,
)

# The median distance is known only to a few percent, so gamma is kept if it would change by a smaller factor than this.
SAME_WIDTH = math.log(1.1)
# The width is determined again at each choice, until the stream is this many times as long as its reservoir.
WIDTH_SETTLED = 2
# Attributes that `fit` stores, except with keep_stream=True, when they are read from the state of the stream.
STORED_BY_FIT = (
    "n_samples_seen_", "expansion_", "support_", "gamma_", "explained_variance_", "explained_variance_ratio_",
    "eigenvalues_", "mean_outside_", *CAPTURED, "selection_report_", "n_iter_", "converged_", "_inverse_map",
)  # fmt: skip
DRIFT_RECORD = ("n_samples_seen", "drift", "explained", "chosen_at")


class PartialFit:
    """partial_fit and refresh, a mixin for SparseKernelPCA."""

    _stream: StreamState | None = None
    _stale: ClassVar[tuple[str, ...]] = ("_stream",)

    # Attributes that `fit` stores and that, after `partial_fit`, are read from the state of the stream.
    n_samples_seen_: Any = FromStream("reservoir.n_seen", always=True)
    expansion_: Any = FromStream("expansion")
    support_: Any = FromStream("choice.support")
    gamma_: Any = FromStream("choice.gamma")
    explained_variance_: Any = FromStream("components.variances")
    explained_variance_ratio_: Any = FromStream("explained_variance_ratio")
    eigenvalues_: Any = FromStream("eigenvalues")
    mean_outside_: Any = FromStream("mean_outside")
    captured_ratio_: Any = FromStream("captured.value")
    captured_ratio_interval_: Any = FromStream("captured.interval")
    captured_ratio_kind_: Any = FromStream("captured.kind")
    captured_ratio_n_samples_: Any = FromStream("captured.n_samples")
    selection_report_: Any = FromStream("choice.report")
    n_iter_: Any = FromStream("choice.n_iter")
    converged_: Any = FromStream("choice.converged")
    chosen_at_: Any = FromStream("choice.at")
    _inverse_map: Any = FromStream("inverse_map")
    _settled: Any = FromStream("parameters")  # the name of the parameters in model files

    @property
    def drift_(self: Any) -> float:
        """The largest principal angle, in radians, between the components now and those when points were last chosen.

        If the last `partial_fit` chose points again, it is the angle between the components before and after that call.
        Only models made by `partial_fit` have this attribute.
        """
        if self._stream is None or not self._stream.ready:
            raise AttributeError("drift_ is that of a model that partial_fit has followed a stream with")
        return float(self._stream.drift)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Add rows to the model.

        Points are first chosen when twice as many different rows as points have arrived (if `selection` gives the
        points as an array, as soon as there are more different rows than components).  They are chosen again whenever
        the rows since the last choice have half of the weight of all rows: without `half_life` at each doubling of the
        stream, otherwise every 0.72 half-lives.  A choice uses the rule that `selection` names, on a sample of
        `n_optimization_samples` rows that the model keeps, and the moments of all rows are transferred to the new
        points.  Points given as an array stay as they are.  If `gamma` names a rule, it is computed again with each
        choice, until twice as many rows have arrived as are kept.  Kernel, centring, `n_components` and `half_life`
        must not be changed after the first call.

        The model depends on the rows and their order, but not on how they are divided into calls.  Components and
        `captured_ratio_` are computed when they are first read, for the rows that have arrived by then, so a call costs
        little more than a `transform` of its rows.  After a stream in sorted order, call `refresh`.  After a `fit` with
        `keep_stream=True`, the rows are added to those of the fit; after any other fit, partial_fit starts from the
        beginning, with a warning.

        Cost: O(n m (d + m)) for n rows, and O(R m (d + m)) for each choice from R kept rows.  Reading the components
        takes O(m^3); reading `captured_ratio_` takes as long as exact kernel PCA of 1,000 rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            New rows, or blocks of rows: a list, an iterator, a function that returns an iterator, or a torch
            DataLoader.  Blocks are added one by one; if one is refused, the model is restored to its state before the
            call.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight 2 counts as two rows, a row of weight 0 does not count.

        Returns
        -------
        self
        """
        self._check_stream()
        with unchanged_on_failure(self), naming_gaps(X):
            first = self._stream is None
            if first and hasattr(self, "expansion_"):
                start_anew(
                    self,
                    "keeps no moments to add to: partial_fit starts anew, without those rows. "
                    "Fit with keep_stream=True to go on from them",
                )
            if not first:
                check_frozen(self, self._stream.parameters)
            rules = RowRules.of(self)
            for rows in some_rows(printing(self, X, rules, "partial_fit"), rules, sample_weight, first=first):
                earlier = self._stream = self._empty_stream() if self._stream is None else self._stream
                self._follow(rows)
                if earlier.ready and self._stream.chosen is not earlier.chosen:
                    turn = self._stream.turned_since(earlier, self._n_threads())
                    self._stream = replace(self._stream, turn=turn)
                if self.record_drift and self._stream.ready:
                    self._record()
        return self

    def refresh(self: Any) -> Any:
        """Choose the points and the width of the kernel again, from the sample of rows that `partial_fit` keeps.

        This is worth its cost after a sorted stream or at the end of a stream: the points then suit the whole stream.
        Points that were given as an array stay as they are.

        The variances of rows that are no longer kept are then estimated from the kept rows.  As these chose the points,
        the estimates are a little too large: with only 400 kept rows, the sum of `explained_variance_` is 1 to 7 % too
        large, and single components are off by up to a third.

        Returns
        -------
        self
        """
        if self._stream is None or not self._enough(self._stream.reservoir):
            raise ValueError("refresh chooses from the rows that partial_fit has seen: too few have come so far")
        check_frozen(self, self._stream.parameters)
        with unchanged_on_failure(self), one_blas_thread():
            self._choose(self._stream, settle=True)
        return self

    def __add__(self: Any, other: Any) -> Any:
        """The model of the rows of both streams (see `kernelsieve.streaming.merge`)."""
        from .merge import merged

        return merged(self, other) if isinstance(other, PartialFit) else NotImplemented

    def __sklearn_is_fitted__(self) -> bool:
        if self._stream is None:
            return hasattr(self, "expansion_")
        return self._stream.ready  # False while there are too few rows to choose points

    # The start of a stream by a fit.

    def _check_parameters(self: Any, sample_weight: Any) -> None:
        super()._check_parameters(sample_weight)  # type: ignore[misc]
        if self.keep_stream:
            self._check_stream()
            self._empty_stream()

    def _check_stream(self: Any) -> None:
        if kernel_of(self.kernel).precomputed:
            raise ValueError("partial_fit needs rows: a precomputed kernel has no values for points of earlier calls")

    def _keep(self: Any, choice: Choice, span: Span) -> None:
        """With keep_stream=True, store the result of a fit as the state of a stream, from which attributes are read."""
        if not self.keep_stream:
            return
        problem = choice.problem
        if not isinstance(span, PointSpan):  # all rows are points; more rows may follow
            span = problem.span(replace(choice.selection, exhaustive=False), keep_negative=self._policy.keeps_negative)
        assert isinstance(span, PointSpan)
        sampled, n_seen = problem.sample.rows, problem.rows.n_samples
        rows = take_rows(sampled.X if problem.short is None else problem.short.X, sampled.indices)
        size = max(self._empty_stream().reservoir.size if sampled.whole else 0, len(sampled.indices))
        reservoir = Reservoir.empty(size, int(problem.rng.integers(2**63)), self.half_life).filled(
            on_host(rows),
            sampled.numbers_of(sampled.indices),
            sampled.counts,
            n_seen,
            float(span.weight),
            whole=sampled.whole,
        )
        self._stream = StreamState(
            reservoir,
            moments_on_host(span.moments),
            span.negative_share,
            self.expansion_.on_host(),
            0.0,
            frozen_parameters(self),
            LastChoice(self.gamma_, self.support_, n_seen, self.selection_report_, self.n_iter_, self.converged_),
            measured=_measured_in({name: getattr(self, name, None) for name in STORED_BY_FIT}),
        )
        for name in STORED_BY_FIT:
            delattr(self, name)

    # Adding rows.

    def _follow(self: Any, rows: ArrayRows) -> None:
        """Add rows to the stream, and choose points whenever a choice is due."""
        start = 0
        while start < rows.n_samples:
            rest = _part(rows, slice(start, None)) if start else rows
            count = self._rows_until_choice(rest)
            self._stream = self._stream.with_rows(
                rest if count is None else _part(rest, slice(count)), self._n_threads()
            )
            if count is None:
                return
            start += count
            with one_blas_thread():
                self._choose_or_stay(self._stream)

    def _rows_until_choice(self: Any, rows: ArrayRows) -> int | None:
        """How many of these rows are added before the next choice of points; None if no choice is due among them."""
        state = self._stream
        weights = np.ones(rows.n_samples) if rows.weights is None else rows.weights
        if not state.ready:
            count = self._rows_until_enough(rows)
        else:
            count = rows_until_choice(state.since, state.reservoir.weight, weights, state.rate)
        # As long as all rows are kept, each choice is a fit to all of them that does not depend on earlier choices. So
        # only the last of the choices that are due among these rows needs to be made.
        while count is not None:
            so_far = faded(state.reservoir.weight, weights[:count], state.rate)
            more = rows_until_choice(0.0, so_far, weights[count:], state.rate)
            if more is None:
                break
            if state.reservoir.n_kept + np.count_nonzero(weights[: count + more]) > state.reservoir.size:
                break
            count += more
        return count

    def _choose_or_stay(self: Any, state: StreamState) -> None:
        """Choose points; if the rows kept do not allow it, keep the current ones."""
        if not state.ready:
            self._choose(state)
        elif not self._enough(state.reservoir):  # nearly every different row would become a point
            self._stream = replace(state, since=0.0)
        else:
            try:
                self._choose(state)
            except ValueError as error:
                self._stream = replace(state, since=0.0)
                warn(f"the points stay as they are, the rows kept allow no other choice: {error}")

    # Choosing points.

    def _empty_stream(self: Any) -> StreamState:
        least = self._least_rows()
        size = self.n_optimization_samples or PLAN.sample_size(self._points_wanted())
        if size < least:
            raise ValueError(
                f"n_optimization_samples={size} rows are too few to choose points from: give at least {least}"
            )
        seed = int(self._rng().integers(2**63))
        return StreamState(Reservoir.empty(size, seed, self.half_life), parameters=frozen_parameters(self))

    def _points_wanted(self: Any) -> int:
        if isinstance(self.n_support, str):
            return (self._wanted_components or 1) + PLAN.first_extra_points
        if isinstance(self.n_support, float):
            raise ValueError("n_support as a fraction needs to know all rows: give a number of points to partial_fit")
        return int(self.n_support)

    def _least_rows(self: Any) -> int:
        """How many different rows must have arrived before points are chosen."""
        if isinstance(self.selection, str) or callable(self.selection):
            return PLAN.rows_to_choose_from * self._points_wanted()
        if np.ndim(self.selection) == 1:
            raise ValueError("selection as row numbers needs all rows at hand: give partial_fit the points themselves")
        return (self._wanted_components or 1) + 1

    def _enough(self: Any, reservoir: Reservoir) -> bool:
        return len(_different(reservoir)) >= self._least_rows()

    def _rows_until_enough(self: Any, rows: ArrayRows) -> int | None:
        """How many of these rows are needed until points can be chosen; None if all of them are not enough."""
        different, least = _different(self._stream.reservoir), self._least_rows()
        counting = np.arange(rows.n_samples) if rows.weights is None else np.flatnonzero(rows.weights)
        for number, row in zip(counting, row_keys(take_rows(rows.X, counting)), strict=True):
            different.add(row)
            if len(different) >= least:
                return int(number) + 1
        return None

    def _choose(self: Any, state: StreamState, *, settle: bool = False) -> None:
        """Choose points from the reservoir and transfer the moments to them; `settle`: determine the width again."""
        if self.device is not None:
            warn(f"device={self.device!r} has no effect on partial_fit and refresh: they work on the host")
        state = replace(state, reservoir=state.reservoir.in_order())
        reservoir, rows = state.reservoir, ReservoirRows(state.reservoir, getattr(self, "feature_names_in_", None))
        # Seeded by the stream alone, so that a model read from a file continues like the saved model.
        rng = np.random.default_rng([reservoir.seed, reservoir.n_seen])
        choice = self._points(self._problem_on(rows, rng, partial(self._kernel_of_stream, state, settle)))
        moved = isinstance(self.selection, str) and self.selection == "optimized"
        if moved and not settle and state.chosen is not None and not reservoir.whole:
            choice = against_current(choice, state.chosen.points, self._effort)
        span = self._span_over(choice, state)
        found = self._components(choice, span)
        expansion, said = found.expansion, found.attributes
        refuse_what_is_not_finite({"explained_variance_": found.variances, "dual_coef_": expansion.coef})
        support = None if found.support is None else rows.numbers[found.support]
        report = LastChoice(
            choice.problem.gamma,
            support,
            reservoir.n_seen,
            said["selection_report_"],
            said["n_iter_"],
            said["converged_"],
        )
        self._stream = StreamState(
            reservoir, span.moments, span.negative_share, expansion, 0.0, state.parameters, report
        )
        self._warn_about_kernel(choice.problem.sample, span)

    def _span_over(self: Any, choice: Choice, state: StreamState) -> PointSpan:
        """The span of chosen points with the moments of all rows so far."""
        # Even if all rows so far are points, they are treated as if chosen from more rows, because more may arrive.
        selection = replace(choice.selection, exhaustive=False)
        span = self._span(replace(choice, selection=selection, span=None))
        return replace(span, moments=state.moments_over(span, self._n_threads()))

    def _kernel_of_stream(self: Any, state: StreamState, settle: bool, rows: SampledRows) -> tuple[Kernel, float]:
        """The kernel determined on these rows; the current kernel if its width is final or would hardly change."""
        last = None if settle else state.choice
        if last is not None and state.reservoir.n_seen > WIDTH_SETTLED * state.reservoir.size:
            return state.chosen.kernel, last.gamma  # type: ignore[union-attr]
        kernel, gamma = self._symmetric_kernel_on(rows)
        if last is None or state.reservoir.whole or abs(math.log(gamma / last.gamma)) > SAME_WIDTH:
            return kernel, gamma
        return state.chosen.kernel, last.gamma  # type: ignore[union-attr]

    def _record(self: Any) -> None:
        """Append an entry to `drift_record_`."""
        record = getattr(self, "drift_record_", None) or {name: [] for name in DRIFT_RECORD}
        span, variances = self._stream.span, self._stream.components.variances
        # The share is computed from the moments alone. `explained_variance_ratio_` also needs measurements on the
        # reservoir, which would cost more than the whole call.
        explained = float(variances.sum()) / max(span.total_variance, float(variances.sum()))
        line = (self.n_samples_seen_, self.drift_, explained, self.chosen_at_)
        for name, value in zip(DRIFT_RECORD, line, strict=True):
            record[name].append(value)
        self.drift_record_ = record

    # Files.

    def _before_saving(self: Any) -> None:
        if self._stream is not None:
            self._stream = replace(self._stream, reservoir=self._stream.reservoir.in_order())

    def _resumed(self: Any, state: dict[str, Any], error: type[ValueError]) -> dict[str, Any]:
        """Restore the stream if the file contains one, and return the other attributes of the model."""
        stream, begun = state.get("_stream"), state.get("_settled")
        if stream is None:
            return state
        check_frozen_in_file(self, begun, stream.reservoir, error)
        chosen = stream.chosen
        if chosen is None and stream.moments is not None:  # files of version 0.1.0 have it elsewhere
            chosen = state["expansion_"]
        defaults = {"selection_report_": {}, "n_iter_": 1, "converged_": True}
        names = ("gamma_", "support_", "chosen_at_", "selection_report_", "n_iter_", "converged_")
        said = {**defaults, "chosen_at_": stream.reservoir.n_seen, **state}
        self._stream = replace(
            stream,
            chosen=chosen,
            parameters={**frozen_parameters(self), **(begun or {})},
            choice=LastChoice(*(said[name] for name in names)),
            measured=_measured_in(state),
        )
        return {name: state[name] for name in STORED if name in state}

    def _refuse_last_choice(self: Any, stream: StreamState) -> None:
        """Raise ValueError if no further choice of points could follow the last choice that is in a file."""
        if stream.choice is not None and not 0 < stream.choice.gamma < math.inf:
            raise ValueError(f"its points were chosen with gamma={stream.choice.gamma}")
        if isinstance(self.selection, str) and self.selection == "optimized" and stream.chosen is not None:
            kernel = stream.chosen.kernel
            if kernel.moves and kernel.definite is not False:
                self._effort.check("optimized")

    def check_loaded(self: Any, error: type[ValueError]) -> None:
        """Raise `error` unless the parameters of a stream read from a file allow points to be chosen again."""
        if self._stream is None:
            return
        try:
            self._empty_stream()
            self._request(ReservoirRows(self._stream.reservoir))
            self._refuse_last_choice(self._stream)
        except ValueError as reason:
            raise error(f"the stream in the file cannot go on: {reason}") from reason
        given = self.selection
        if not isinstance(given, str) and not callable(given):
            shape, kind = np.shape(given), np.asarray(given).dtype.kind
            if shape[1:] != (self.n_features_in_,) or kind not in "fiu":
                raise error(f"the stream in the file cannot go on: its points have shape {shape}")


def _measured_in(state: dict[str, Any]) -> Measured | None:
    """The measurements among fitted attributes, given by name; None if they are not complete."""
    if any(name not in state for name in (*CAPTURED, "mean_outside_", "explained_variance_")):
        return None
    return Measured(float(state["mean_outside_"]), CapturedRatio.stored(state), state.get("_inverse_map"))


def _different(reservoir: Reservoir) -> set[bytes]:
    """The set of different rows in a reservoir, as keys; rows of weight zero are never in a reservoir."""
    rows = reservoir.in_order().rows
    return set() if rows is None else set(row_keys(rows))


def _part(rows: ArrayRows, part: slice) -> ArrayRows:
    return ArrayRows(rows.X[part, :], None if rows.weights is None else rows.weights[part])


def update(model: Any, X: Any, sample_weight: Any = None) -> Any:
    """Add rows to a fitted model, as `partial_fit` does, or to the model at the end of a fitted pipeline.

    scikit-learn's pipelines have no `partial_fit`.  The steps before the last stay as they were fitted, so columns are
    scaled and categories encoded as before; the last step adds the rows.

    Cost: that of transforming the rows by the first steps, and that of `SparseKernelPCA.partial_fit`.

    Parameters
    ----------
    model : SparseKernelPCA or OnlineKernelPCA, or a fitted pipeline that ends in one
        Fitted by `partial_fit`, or by `fit` with `keep_stream=True`.
    X : array-like or frame of shape (n_samples, n_features)
        New rows, as input of the first step.
    sample_weight : array-like of shape (n_samples,), optional

    Returns
    -------
    model
        The object `model` itself.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.pipeline import make_pipeline
    >>> import kernelsieve
    >>> from kernelsieve import SparseKernelPCA, TableEncoder
    >>> table = pd.DataFrame({"size": range(60), "cut": ["a", "b", "c"] * 20})
    >>> model = make_pipeline(TableEncoder(), SparseKernelPCA(2, keep_stream=True, random_state=0))
    >>> model = model.fit(table[:50])
    >>> kernelsieve.update(model, table[50:])[-1].n_samples_seen_
    60
    """
    last = model[-1] if isinstance(model, Pipeline) else model
    if not hasattr(last, "partial_fit") or not hasattr(last, "n_samples_seen_"):
        check_is_fitted(last)
        raise TypeError(
            f"a {type(last).__name__} cannot take new rows: fit SparseKernelPCA(keep_stream=True), or fit it anew to "
            "all rows"
        )
    if getattr(last, "_stream", None) is None:
        how = "with keep_stream=True" if hasattr(last, "keep_stream") else "by partial_fit"
        raise ValueError(f"this {type(last).__name__} keeps nothing that new rows can be added to: fit it {how}")
    for _, step in model.steps[:-1] if isinstance(model, Pipeline) else []:
        X = X if step in (None, "passthrough") else step.transform(X)
    last.partial_fit(X, sample_weight=sample_weight)
    return model
