"""The state of a stream, and the attributes that are computed from it.

A model made by `partial_fit` is one frozen `StreamState`: a sample of the rows (the reservoir), the points with the
moments of all rows over them, and the parameters of the first call.  More rows make a new state; a state is never
changed, so a call that fails leaves the model as it was.  Components, variances and `captured_ratio_` are computed
when they are first read, for the rows that have arrived by then.  Components come from the moments of all rows, and
comparisons with exact kernel PCA from the rows in the reservoir.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Annotated, Any

import numpy as np
import scipy.sparse

from ..arrays import Array, take_rows, to_numpy
from ..errors import warn
from ..fit.agreement import Agreement, agreement_with_exact, rows_for_agreement
from ..fit.captured_ratio import CapturedRatio, PointsOnRows, mean_outside, n_real, ratio_of_model, ratio_of_points
from ..fit.expansion import BOUND_FOR_ROWS, KernelExpansion
from ..fit.interpret import RidgeMap, learned_preimage
from ..fit.moments import FeatureSums, Moments, MomentSum, ages, forgotten, overlap, transferred, turned, weighing
from ..fit.parameters import forget_fit
from ..fit.plan import PLAN
from ..fit.sample import Sample
from ..fit.span import Components, Points, PointSpan
from ..rows.reservoir import SAME_WEIGHT, Reservoir, forgetting_rate
from ..rows.rows import ArrayRows, Rows, Summand
from ..rows.sampling import SampledRows
from ..spectrum.whitening import RANK_TOLERANCE
from ..threads import cached_property, one_blas_thread

# Parameters on which the stored moments and rows depend; the last two belong to OnlineKernelPCA.
KERNEL = ("kernel", "gamma", "degree", "coef0", "kernel_params")
FROZEN = (*KERNEL, "center", "n_components", "half_life", "rule", "budget")
NOT_SAVED = {"saved": False}  # metadata of fields that are not part of a saved state
# Attributes that a model of a stream stores in addition to its state.
STORED = ("n_features_in_", "feature_names_in_", "drift_record_", "_sklearn_output_config")


class FromStream:
    """A fitted attribute that `fit` stores and that, after `partial_fit`, is read from the state `_stream`.

    `path` is its name within the state.  Reading it raises AttributeError until the stream has a model; `always` is set
    for attributes that exist from the first row on.
    """

    def __init__(self, path: str, *, always: bool = False) -> None:
        self._read, self._always = attrgetter(path), always

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, model: Any, owner: type) -> Any:
        state = None if model is None else model._stream
        if state is None or not (state.ready or self._always):
            raise AttributeError(f"{owner.__name__!r} object has no attribute {self._name!r}")
        return self._read(state)


class ReservoirRows(Rows):
    """The rows in a reservoir, in their order in the stream, which represent all rows of the stream.

    The stream has `n_samples` rows; `X` holds those in the reservoir.  Sums over them are scaled to the weight of all
    rows.
    """

    def __init__(self, reservoir: Reservoir, names: Any = None) -> None:
        reservoir = reservoir.in_order()
        order = np.argsort(reservoir.numbers)
        weights = reservoir.kept_weights[order]
        rows = np.empty((0, 0)) if reservoir.rows is None else take_rows(reservoir.rows, order)
        self._kept = ArrayRows(rows, None if np.all(weights == 1) else weights)
        self.X, self.weights = self._kept.X, self._kept.weights
        self.n_features, self.single_precision = self._kept.n_features, self._kept.single_precision
        self.n_samples, self.names = reservoir.n_seen, names
        self.numbers = reservoir.numbers[order]  # row numbers in the stream
        self._weight_of_all = None if reservoir.whole else reservoir.weight

    def sample(self, size: int, rng: np.random.Generator) -> SampledRows:
        return self._kept.sample(size, rng)

    def take(self, numbers: np.ndarray) -> Array:
        return self._kept.take(numbers)

    def add_up(self, summand: Summand, n_threads: int) -> Any:
        kept = self._kept.add_up(summand, n_threads)
        return kept if self._weight_of_all is None else weighing(kept, self._weight_of_all)

    def each(self, function: Callable[[Array], Array], n_columns: int, n_threads: int) -> np.ndarray:
        return self._kept.each(function, n_columns, n_threads)


@dataclass(frozen=True)
class LastChoice:
    """The results of the last choice of points."""

    gamma: float
    support: np.ndarray | None  # row numbers of the points in the stream; None if the points are not rows
    at: int  # number of rows that had arrived
    report: dict[str, Any] = field(default_factory=dict)
    n_iter: int = 1
    converged: bool = True


@dataclass(frozen=True)
class Measured:
    """Results that moments cannot give, measured on the rows in the reservoir."""

    mean_outside: float
    captured: CapturedRatio
    inverse_map: RidgeMap | None


@dataclass(frozen=True)
class StreamState:
    """The state of a stream: its reservoir, its points, and the moments of all rows over the points."""

    reservoir: Annotated[Reservoir, "Reservoir[d]"]
    moments: Annotated[Moments | None, "Moments[m]?"] = None  # None before points are chosen
    negative_share: Annotated[float, "float"] = 0.0  # negative share of the gram's spectrum, which was dropped
    chosen: Annotated[KernelExpansion | None, "KernelExpansion[m, d, M]?"] = None  # right after its points were chosen
    since: Annotated[float, "float"] = 0.0  # weight of the rows that have arrived since the points were chosen
    # Fields marked NOT_SAVED are saved as attributes of the estimator, or not at all.
    parameters: dict[str, Any] = field(default_factory=dict, metadata=NOT_SAVED)
    choice: LastChoice | None = field(default=None, metadata=NOT_SAVED)
    # Set if the fit has measured these results, or a file holds them.
    measured: Measured | None = field(default=None, metadata=NOT_SAVED)
    # An expansion whose scores are the whitened features; it is kept so that calls need not make it again.
    basis: KernelExpansion | None = field(default=None, metadata=NOT_SAVED)
    # The angle between the components before and after the last call, if that call chose points again.
    turn: Annotated[float | None, "float? optional"] = None

    _file_sizes = ("m", "d")

    def __getstate__(self) -> dict[str, Any]:
        return own_fields(self)

    def check_loaded(self, error: type[ValueError]) -> None:
        """Raise `error` unless the parts read from a file belong to one stream."""
        if self.chosen is not None and self.moments is None:
            raise error("the stream in the file has points, but no moments over them")
        if self.since < 0 or not 0 <= self.negative_share <= 1:
            raise error("the stream in the file has weights below zero")
        if self.moments is not None and not math.isclose(
            self.moments.weight, self.reservoir.weight, rel_tol=SAME_WEIGHT
        ):
            raise error("the moments and the sample of rows in the file are of different streams")

    @property
    def ready(self) -> bool:
        """Whether points have been chosen."""
        return self.moments is not None

    @property
    def rate(self) -> float:
        """The rate of forgetting, ln 2 / half_life."""
        return self.reservoir.rate

    # More rows.

    def with_rows(self, rows: ArrayRows, n_threads: int) -> StreamState:
        """The state after more rows, with the same points."""
        n, own = rows.n_samples, rows.weights
        came = float(n) if own is None else float(own.sum())
        state = replace(
            self, reservoir=self.reservoir.add(rows.X, own), since=self.since + came, measured=None, turn=None
        )
        if self.moments is None:
            return state
        by_age = ages(n, self.rate)
        if by_age is not None:
            rows = ArrayRows(rows.X, by_age if own is None else own * by_age)
        share = 1.0 if by_age is None else float(np.exp(-self.rate * n))
        basis = self.basis or self._whitened_features()
        moments = forgotten(self.moments, share) + _moments_over(basis, rows, n_threads)
        return replace(state, moments=moments, basis=basis)

    def _whitened_features(self) -> KernelExpansion:
        assert self.moments is not None
        assert self.chosen is not None
        whitening = self.moments.whitening
        return KernelExpansion(self.chosen.kernel, self.chosen.points, whitening, np.zeros(whitening.shape[1]))

    def moments_over(self, span: PointSpan, n_threads: int) -> Moments:
        """Moments of all rows over the points of another span: exact if all rows are kept, otherwise by transfer."""
        old, before = self.chosen, self.moments
        if not self.reservoir.whole and old is not None and before is not None and old.kernel == span.kernel:
            if same_points(old.points, span.points):
                return before
        else:
            before = None
        kept, new = ReservoirRows(self.reservoir), span.moments.whitening
        on_new = kept.add_up(MomentSum(span.kernel, span.points, new), n_threads)
        # Transfer projects by the kernel's inner product, which an indefinite kernel does not have.
        if old is None or before is None or span.kernel.definite is False:
            return on_new
        on_old = kept.add_up(MomentSum(old.kernel, old.points, before.whitening), n_threads)
        basis = overlap(span.kernel, (span.points, new), (old.points, before.whitening))
        return transferred(before, on_old, on_new, basis)

    # What is computed from a state.

    @cached_property
    def span(self) -> PointSpan:
        """The span of the points with the moments of all rows over it."""
        assert self.moments is not None
        assert self.chosen is not None
        support = None if self.choice is None else self.choice.support
        return PointSpan(
            self.chosen.kernel,
            self.chosen.points,
            support,
            bool(self.parameters["center"]),
            self.moments,
            dropped=self.negative_share,
        )

    @cached_property
    def components(self) -> Components:
        assert self.chosen is not None
        with one_blas_thread():
            return self.span.best(self.chosen.n_components)

    @cached_property
    def expansion(self) -> KernelExpansion:
        with one_blas_thread():
            return self.span.expansion(self.components)

    @property
    def eigenvalues(self) -> np.ndarray:
        """(M,) n_samples times the variance of each component."""
        return self.components.variances * self.span.weight

    @cached_property
    def explained_variance_ratio(self) -> np.ndarray:
        variances = self.components.variances
        return variances / max(self.span.total_variance - self.mean_outside, float(variances.sum()))

    @property
    def mean_outside(self) -> float:
        """Squared length of the part of the mean that lies outside the span of the points."""
        return self._measured[0]

    @property
    def captured(self) -> CapturedRatio:
        """The captured ratio of the components."""
        return self._measured[1]

    @cached_property
    def _measured(self) -> tuple[float, CapturedRatio]:
        """The mean outside the span and the captured ratio, measured on the rows in the reservoir.

        If these are too few or too similar, the results are bounds that the moments alone prove, if these are exact.
        """
        if self.measured is not None:
            return self.measured.mean_outside, self.measured.captured
        captured = float(self.components.variances.sum())
        surely = self.span.surely_captured(captured)
        try:
            with one_blas_thread():
                sample, points = self._sample(), Points(self.span.kernel, self.span.points, None)
                on_rows = PointsOnRows(points.kernel, points.points, sample.evaluation)
                indefinite = sample.indefiniteness
                if indefinite:
                    ratio = ratio_of_points(on_rows, sample, points, self.reservoir.n_seen)
                else:
                    ratio = ratio_of_model(
                        sample, self.expansion, self.reservoir.n_seen, chose=self._share_that_chose, n_kept=sample.size
                    )
                if self._moments_are_exact:
                    ratio = ratio.corrected(self.span, self.expansion, captured)
                return mean_outside(on_rows, self.span, indefinite=bool(indefinite)), ratio
        except ValueError:
            real, least = n_real(self.components.variances), surely if self._moments_are_exact else 0.0
            return 0.0, CapturedRatio(least, "sample", self.reservoir.n_kept, (least, 1.0), real)

    @property
    def _share_that_chose(self) -> float:
        """The share of the rows in the reservoir that took part in choosing the points."""
        if self.reservoir.whole or self.choice is None or self.choice.report.get("rule") == "given":
            return 0.0
        return float(np.mean(self.reservoir.in_order().numbers < self.choice.at))

    @property
    def _moments_are_exact(self) -> bool:
        """Whether the moments are those of all rows, because all were kept when the points were chosen."""
        return self.reservoir.whole or (self.choice is not None and self.choice.at <= self.reservoir.size)

    def _sample(self) -> Sample:
        """The rows in the reservoir as a Sample, on which the model is measured as in `fit`."""
        assert self.chosen is not None
        rows, rng = ReservoirRows(self.reservoir), np.random.default_rng(self.reservoir.seed)
        sampled = replace(rows.sample(self.reservoir.size, rng), whole=self.reservoir.whole)
        n_evaluation = PLAN.evaluation_rows_for(self.chosen.n_support)
        sample = Sample.of(
            sampled,
            self.chosen.kernel,
            self.chosen.n_components,
            center=bool(self.parameters["center"]),
            n_evaluation=n_evaluation,
            n_population=rows.n_samples,
        )
        if not sampled.whole:  # all rows may be evaluation rows, because no search follows
            sample = replace(sample, given=sampled.first(n_evaluation), guides=False)
        return sample.representative.precise_enough

    @cached_property
    def agreement(self) -> Agreement:
        """Agreement of the components with those of exact kernel PCA of the rows in the reservoir."""
        return agreement_on_reservoir(self.expansion, self.reservoir)

    @cached_property
    def inverse_map(self) -> RidgeMap | None:
        """The ridge map from scores to rows, fitted to a random part of the rows in the reservoir."""
        if self.measured is not None:
            return self.measured.inverse_map
        reservoir = self.reservoir.in_order()
        rows, weights = reservoir.rows[: PLAN.evaluation_rows], reservoir.kept_weights[: PLAN.evaluation_rows]
        return learned_preimage(self.expansion, rows, weights)

    @property
    def drift(self) -> float:
        """The largest principal angle between the components now and those when the points were chosen.

        If the last call chose points again, it is the angle between the components before and after this call.
        """
        assert self.chosen is not None
        if self.turn is not None:
            return self.turn
        before = np.linalg.qr(self.span.directions(to_numpy(self.chosen.coef)))[0]
        return turned(before, to_numpy(self.components.directions))

    def turned_since(self, earlier: StreamState, n_threads: int) -> float:
        """The angle between the components now and those of an earlier state of the stream, perhaps on other points.

        Components on different points are compared in feature space.  If the width of the kernel has changed, the
        earlier components are first computed again under the new kernel, from the rows then in the reservoir.
        """
        if self.chosen is earlier.chosen:
            return self.drift
        now, before = self.span, earlier.span
        with one_blas_thread():
            if before.kernel != now.kernel:
                whitening = Points(now.kernel, before.points, None).spectrum.whitening(RANK_TOLERANCE).matrix
                sums = MomentSum(now.kernel, before.points, whitening)
                moments = ReservoirRows(earlier.reservoir).add_up(sums, n_threads)
                before = replace(before, kernel=now.kernel, moments=moments)
            basis = overlap(now.kernel, (now.points, now.moments.whitening), (before.points, before.moments.whitening))
            old = to_numpy(before.best(earlier.expansion.n_components).directions)
            cosines = np.linalg.svd(to_numpy(self.components.directions).T @ basis @ old, compute_uv=False)
        return math.acos(min(float(cosines[-1]), 1.0))


def agreement_on_reservoir(expansion: KernelExpansion, reservoir: Reservoir) -> Agreement:
    """Agreement of an expansion with exact kernel PCA of the rows in a stream's reservoir."""
    rows = ReservoirRows(reservoir)
    most = rows_for_agreement(expansion.kernel, rows.n_features, expansion.n_components)
    found = agreement_with_exact(expansion, rows.sample(most, np.random.default_rng(reservoir.seed)))
    found.warn()
    return found


def own_fields(state: Any) -> dict[str, Any]:
    """The fields of a state, without the cached results that its instance also stores; used for pickling."""
    return {field.name: getattr(state, field.name) for field in fields(state)}


def _moments_over(basis: KernelExpansion, rows: ArrayRows, n_threads: int) -> Moments:
    """Moments of rows over the points of `basis`, an expansion whose scores are the whitened features."""
    if rows.n_samples > BOUND_FOR_ROWS or not isinstance(rows.X, np.ndarray):
        return rows.add_up(MomentSum(basis.kernel, basis.points, basis.coef), n_threads)
    sums = FeatureSums(basis.coef)
    sums.add(basis.transform(rows.X), basis.kernel.diagonal(rows.X), rows.weights)
    return sums.moments()


def same_points(some: Array, others: Array) -> bool:
    """Whether both arrays hold the same points in the same order."""
    if some is others:
        return True
    if some.shape != others.shape or scipy.sparse.issparse(some) != scipy.sparse.issparse(others):
        return False
    if scipy.sparse.issparse(some):
        return (some != others).nnz == 0
    return bool(np.array_equal(some, others))


def moments_on_host(moments: Moments) -> Moments:
    """The moments with numpy arrays."""
    return replace(
        moments,
        whitening=to_numpy(moments.whitening),
        mean=to_numpy(moments.mean),
        scatter=to_numpy(moments.scatter),
        trace=float(moments.trace),
    )


def start_anew(model: Any, why: str) -> None:
    """Delete the results of `fit`, to which no rows can be added, with a warning that says `why`."""
    warn(f"{type(model).__name__} was fitted by fit, which {why}")
    forget_fit(model)


# The first call of partial_fit freezes some parameters. Moments under one kernel say nothing about the rows under
# another, so the kernel cannot change between calls; neither can centring, n_components or half_life.


def frozen_parameters(model: Any) -> dict[str, Any]:
    """The present values of the parameters that must not change while a stream continues."""
    return {name: getattr(model, name) for name in FROZEN if hasattr(model, name)}


def check_frozen(model: Any, parameters: dict[str, Any], error: type[ValueError] = ValueError) -> None:
    """Raise if a parameter of the model differs from its value when the stream began."""
    for name, begun in parameters.items():
        now = getattr(model, name, None)
        if not same_value(begun, now):
            raise error(
                f"{name}={now!r}, but the rows so far were taken in with {name}={begun!r}, which what is kept of them "
                f"depends on: set it back, or call fit, or partial_fit of a new {type(model).__name__}, on all rows"
            )


def check_frozen_in_file(model: Any, parameters: Any, reservoir: Reservoir, error: type[ValueError]) -> None:
    """Raise `error` if the parameters of a model read from a file differ from those with which its stream began.

    Older files do not contain the latter; then `parameters` is None, and only `half_life` is checked.
    """
    check_frozen(model, parameters or {}, error)
    if reservoir.rate != forgetting_rate(model.half_life):
        raise error(f"the sample of rows in the file was not drawn with half_life={model.half_life!r}")


def same_value(one: Any, other: Any) -> bool:
    """Whether two values of a parameter are equal; they may be arrays, or dicts that contain arrays."""
    if one is other:
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_value(one[key], other[key]) for key in one)
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return bool(np.array_equal(one, other))
    return bool(one == other)
