"""KernelTransformer: the steps by which every kernel estimator is fitted.

    rows -> problem -> points -> span -> components -> stored -> measured

An estimator consists of its docstring, its parameters, a policy and three hooks: `_request` says what the fit needs
from its rows, `_points` chooses support points, and `_components` finds the components on their span.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, _fit_context

from ..arrays import TINY, Array, on_host, take_rows, to_numpy
from ..errors import TooManyComponents, warn
from ..fit.agreement import agreement_on_all
from ..fit.captured_ratio import (
    CapturedRatio,
    PointsOnRows,
    components_for,
    mean_outside,
    n_real,
    ratio_of_model,
    ratio_of_points,
)
from ..fit.expansion import KernelExpansion
from ..fit.indefinite import positive_variance
from ..fit.interpret import learned_preimage
from ..fit.parameters import (
    KernelParameters,
    MeantParameters,
    SavesItself,
    estimator,
    forget_fit,
    generator_of,
    unchanged_on_failure,
)
from ..fit.plan import PLAN, SearchPlan
from ..fit.problem import (
    MIN_EXPLAINED,
    SHOWS_ROUNDING,
    GammaAdvice,
    Problem,
    nothing_to_explain,
    split_captured,
    warn_about_kernel,
    warn_about_scales,
    warn_of_rounding,
)
from ..fit.rowset import INDEFINITE
from ..fit.sample import Sample
from ..fit.span import Span
from ..fit.stages import CallbackSupportMixin, Stages
from ..fit.values import RememberedKernel, check_symmetry
from ..kernels import Kernel, bind_callable, is_function, kernel_object, kernel_of, named_kernel
from ..kernels.base import check_coef0
from ..kernels.blocks import dense
from ..kernels.registry import warn_about_noise
from ..kernels.width import KernelRows, column_numbers, multiple_of_median, resolve_gamma
from ..numerics import DEPENDENT
from ..rows.checks import check_spread, finite, naming_gaps
from ..rows.dispatch import RowRules, rows_of, store_columns, watched
from ..rows.rows import ArrayRows, Rows
from ..rows.sampling import MOST_WIDTHS, SampledRows, ShortSide, has_short_side, short_side
from ..rules.base import Choice
from ..search.auto_width import best_width, tried_widths
from ..search.subspace import coordinates_beside_exact
from ..threads import effective_n_threads, one_blas_thread
from .expansion_api import ExpansionTransform, FittedExpansion, MeasuresAgreement, remember_rows

KernelOn = Callable[[SampledRows], tuple[Kernel, float]]

AUTO_SEED = 0  # seed of gamma="auto", fixed so that gamma does not depend on random_state
SETTLING_ROWS = 1000  # rows on which the scales of columns are checked and the width of the kernel is determined


@dataclass(frozen=True)
class Policy:
    """How the fits of one class differ from those of others."""

    keeps_negative: bool = False  # model the negative part of an indefinite kernel's spectrum instead of dropping it
    dense: bool = False  # if all rows are points, find the components from their whole gram, as exact kernel PCA does
    judges_kernel: bool = True  # warn if the kernel explains little of the rows; False for published methods
    needs_variance: bool = False  # refuse a dictionary over which the rows have no variance to explain
    merges_copies: bool = True  # merge equal rows into one row with the sum of their weights


@dataclass(frozen=True)
class RowRequest:
    """What a fit needs from its rows before points are chosen."""

    n_rows: int  # number of rows to sample
    # A number, a share of the variance that determines the number, or None if the method determines it.
    n_components: float | None
    least_rows: int = 0  # the fit fails if there are fewer different rows
    fresh: bool = True  # set some rows aside, to measure the result on rows that did not choose the points
    row_space: bool = False  # allow few rows with very many columns to be represented in the space that they span
    plan: SearchPlan | None = None  # numbers that steer the search; None for the plan of the class
    # Number of points to move, if any: the coordinates of the search are then computed beside exact kernel PCA.
    n_moved: int | None = None
    frozen_columns: Any = None  # names or numbers of columns in which points are not moved
    kernel_on: KernelOn | None = None  # determines the kernel on the sampled rows; None for the default


@dataclass(frozen=True)
class Found:
    """The components that a method found on a span."""

    expansion: KernelExpansion
    support: np.ndarray | None  # row numbers of the points; None if they are not rows
    variances: np.ndarray  # (M,) variances of the scores on the training rows
    eigenvalues: np.ndarray  # (M,) eigenvalues, as the method defines them
    # (M,) variance that each component adds to the components before it; None if that is its own variance.
    captured: np.ndarray | None = None
    attributes: dict[str, Any] = field(default_factory=dict)  # fitted attributes that only this method has
    # Whether no other components on these points capture more, so that the captured ratio is that of the points.
    best_on_points: bool = False

    @classmethod
    def best(cls, choice: Choice, span: Span, n_components: int, attributes: dict[str, Any]) -> Found:
        """The best components on the chosen points; raise TooManyComponents if their span has too few."""
        best, chosen = span.best(n_components), choice.selection
        if (n_directions := n_real(best.variances)) < n_components:
            raise TooManyComponents(
                n_components,
                n_directions,
                "is more than the rank allows",
                f"on these rows and {chosen.n_support} points the kernel has {n_directions} directions of variance",
            )
        weighted = best.variances * span.weight
        return cls(span.expansion(best), chosen.indices, best.variances, weighted, attributes=attributes)

    def as_scored(self, choice: Choice) -> Found:
        """This result with the variances of the actual scores, computed in one more pass over the rows.

        Under an indefinite kernel, the span has variances by the positive part of the kernel alone, but scores depend
        on the whole kernel.
        """
        variances = choice.problem.variances_of_scores(self.expansion)
        if self.captured is None:
            return replace(self, variances=variances)
        of_span = np.where(self.variances > 0, self.variances, 1.0)
        return replace(self, variances=variances, captured=self.captured * variances / of_span)


@estimator
class KernelTransformer(
    ExpansionTransform,
    MeasuresAgreement,
    FittedExpansion,
    SavesItself,
    KernelParameters,
    MeantParameters,
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    BaseEstimator,
):
    """Base class of the kernel estimators: validation, the steps of a fit, and the methods of a fitted model."""

    _policy: ClassVar[Policy] = Policy()
    _plan: ClassVar[SearchPlan] = PLAN  # the numbers that steer the search for points
    _stale: ClassVar[tuple[str, ...]] = ()  # private attributes that an earlier fit may leave
    _file_layout = {
        "_inverse_map": "RidgeMap[M, d]?",
        "n_iter_": "int optional",
        "converged_": "bool optional",
        "selection_report_": "dict optional",
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the support points and find the components on them.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows; for a precomputed kernel their square gram.  Arrays of torch and cupy are accepted, and are processed
            on their device; so are dask arrays and dataframes.  Rows may also come in blocks: a list of blocks, a
            function that returns an iterator of blocks, a torch DataLoader, a zarr array or a pyarrow dataset.  All
            blocks must belong to one library.  Blocks are read twice: for a sample (from a list, only the sampled rows
            are read) and for the moments.  They are read once more if a larger sample is needed, or if rows must be
            counted because `n_support` is a fraction.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight 2 counts as two rows, a row of weight 0 does not count.

        Returns
        -------
        self
        """
        self._check_parameters(sample_weight)
        with unchanged_on_failure(self), naming_gaps(X):
            forget_fit(self)
            stages = Stages(self, 3, X, y)
            with stages.stage("choose points"), one_blas_thread():
                choice = self._points(self._problem(self._watched(X, stages), sample_weight))
            with stages.stage("components"), self._blas_threads(choice):
                span = self._span(choice)
                found = self._components(choice, span)
            with stages.stage("report"), one_blas_thread():
                self._report(choice, span, found)
                self._keep(choice, span)
            stages.finish(X, y)
        remember_rows(self, X, sample_weight)
        return self

    # The hooks.

    @abstractmethod
    def _request(self, rows: Rows) -> RowRequest:
        """How many rows, components and points this fit needs."""

    @abstractmethod
    def _points(self, problem: Problem) -> Choice:
        """The support points, or the rows among which the method finds them."""

    @abstractmethod
    def _components(self, choice: Choice, span: Span) -> Found:
        """The components on the span of the points, with their variances."""

    def _check_parameters(self, sample_weight: Any) -> None:
        """Raise if parameters are incompatible, before any row is read."""

    def _keep(self, choice: Choice, span: Span) -> None:
        """Keep what `partial_fit` needs to add rows to this fit."""

    # The steps that all estimators share.

    def _watched(self, X: Any, stages: Stages) -> Any:
        """X; if progress is reported, its passes report how many rows have been read."""
        return watched(X, RowRules.of(self), stages.reading) if stages.watched else X

    def _problem(self, X: Any, sample_weight: Any) -> Problem:
        """The training rows, and a sample of them under the kernel that is determined on it."""
        rows = rows_of(X, RowRules.of(self, merge_copies=self._policy.merges_copies), sample_weight)
        return self._problem_on(rows, self._rng())

    def _problem_on(self, rows: Rows, rng: np.random.Generator, kernel_on: KernelOn | None = None) -> Problem:
        """The problem of these rows, with the kernel determined on a sample of them (by `kernel_on`, if given)."""
        request = self._request(rows)
        plan = request.plan or self._plan
        n_fresh = plan.fresh_pool(dear=kernel_of(self.kernel).costly) if request.fresh else 0
        sampled = rows.sample(request.n_rows + n_fresh, rng).split(request.n_rows, plan.all_evaluated)
        if rows.n_samples < 2:
            raise ValueError(f"X has {rows.n_samples} row: at least 2 are needed")
        # For rows in blocks, the columns and their names become known only when the sample is read.
        if not isinstance(rows, ArrayRows):
            store_columns(self, rows.n_features, rows.names)
        if sampled.whole and len(sampled.indices) < request.least_rows:
            raise TooManyComponents(
                self.n_components,
                len(sampled.indices),
                f"needs at least {request.least_rows} different rows{' with centring' if self.center else ''}",
                f"X has {len(sampled.indices)}",
            )
        short = self._short_side(rows) if request.row_space else None
        sampled = replace(sampled, turned=None if short is None else short.rows)
        kernel, gamma = (kernel_on or request.kernel_on or self._symmetric_kernel_on)(sampled)
        if short is not None and kernel.stationary and gamma * short.largest > MOST_WIDTHS:
            short = None
        if short is not None:
            sampled = replace(sampled, X=short.rows, turned=None)
            rows = ArrayRows(short.rows, rows.weights, merge_copies=rows.merge_copies)
        if request.frozen_columns is not None:
            names, n_columns = getattr(self, "feature_names_in_", None), sampled.X.shape[1]
            columns = column_numbers(request.frozen_columns, n_columns, names, "frozen_columns")
            plan = plan.with_frozen(columns, n_columns)
        sample = self._sample(sampled, kernel, request.n_components, rows.n_samples, plan)
        coordinates = None if request.n_moved is None else coordinates_beside_exact(sample, request.n_moved)
        precise = sample.precise_enough
        return Problem(rows, precise, gamma, rng, short, coordinates if precise is sample else None)

    def _sample(
        self, rows: SampledRows, kernel: Kernel, n_components: float | None, n_population: int, plan: SearchPlan
    ) -> Sample:
        """The sample, with the number of components, which may have to be found from a share of the variance."""
        known = n_components is None or isinstance(n_components, Integral)
        sample = Sample.of(
            rows,
            kernel,
            int(n_components or 1) if known else 1,
            center=self.center,
            n_threads=effective_n_threads(self.n_jobs),
            n_population=n_population,
            plan=plan,
        )
        if not known:
            sample = replace(sample, n_components=components_for(float(n_components or 0), sample.evaluation))
        return sample.representative

    def _short_side(self, rows: Rows) -> ShortSide | None:
        """The rows in the space that they span, if they are few with very many columns and the kernel allows it."""
        kind = kernel_of(self.kernel)
        if type(rows) is not ArrayRows or not has_short_side(rows.X) or not kind.in_row_space:
            return None
        return short_side(rows.X, about_origin=kind.stationary)

    def _blas_threads(self, choice: Choice) -> AbstractContextManager[None]:
        """The number of BLAS threads while components are computed: one, or BLAS's own for a large dense problem."""
        # If all rows are support points, there may be one large dense problem.
        return nullcontext() if choice.selection.exhaustive and self._policy.dense else one_blas_thread()

    def _rng(self) -> np.random.Generator:
        return generator_of(self.random_state)

    def _symmetric_kernel_on(self, rows: SampledRows) -> tuple[Kernel, float]:
        """As `_kernel_on`, and raise if a user's kernel is not symmetric on a few pairs of rows."""
        kernel, gamma = self._kernel_on(rows)
        check_symmetry(kernel, rows.first(4))
        return kernel, gamma

    def _kernel_on(self, rows: SampledRows) -> tuple[Kernel, float]:
        """The kernel and its gamma, determined on these rows."""
        kind, all_of_them = kernel_of(self.kernel), rows.X.shape[0] == len(rows.indices) <= SETTLING_ROWS
        few = finite(rows.X if all_of_them and rows.turned is not None else rows.first(SETTLING_ROWS))
        on_the_host = on_host(few)  # few rows are processed faster on the host
        if not kind.rows_only:
            check_spread(on_the_host)
        if kind.uses_gamma:
            warn_about_scales(on_the_host)
        by_distances = isinstance(self.gamma, str) and multiple_of_median(self.gamma) is not None
        if rows.turned is not None and by_distances:  # only the distances between rows are needed
            few = take_rows(rows.turned, rows.indices[:SETTLING_ROWS])
        return self._kernel_for(few, rows.weights)

    def _kernel_for(self, few: Array, weights: np.ndarray | None) -> tuple[Kernel, float]:
        """The kernel and its gamma, determined on these rows; raise if the kernel is not defined on them."""
        given, n_threads = kernel_object(self.kernel), effective_n_threads(self.n_jobs)
        if given is not None:
            names = getattr(self, "feature_names_in_", None)
            kernel = given.settled(KernelRows(few, weights, n_threads, None if names is None else tuple(names)))
            return kernel, getattr(kernel, "gamma", 1.0)
        kind = kernel_of(self.kernel)
        if self.gamma == "auto":
            wanted = int(self.n_components) if isinstance(self.n_components, Integral) else None
            own = None if weights is None else weights[: few.shape[0]]
            gamma = best_width(tried_widths(to_numpy(dense(few)), self.kernel, wanted, AUTO_SEED, own))
        else:
            gamma = resolve_gamma(self.gamma, kind, few, weights, n_threads)
        check_coef0(self.coef0, kind, few)
        if is_function(self.kernel):
            warn_about_noise(self.kernel)
            return bind_callable(self.kernel, self.kernel_params, few), gamma
        return named_kernel(self.kernel, gamma=gamma, degree=self.degree, coef0=self.coef0), gamma

    def _span(self, choice: Choice) -> Span:
        """The span of the chosen points, which may already have been computed while they were chosen."""
        policy = self._policy
        span = choice.span or choice.problem.span(
            choice.selection, keep_negative=policy.keeps_negative, dense=policy.dense
        )
        if _indefinite(choice, span):
            share = max(span.negative_share, choice.problem.sample.evaluation.negative_share)
            warn(
                f"the kernel is not positive semi-definite on these rows: {100 * share:.3g}% of its spectrum is "
                "negative and was dropped"
            )
        if policy.needs_variance and not span.total_variance > DEPENDENT * span.mean_length:
            raise ValueError(nothing_to_explain(choice.problem.sample.evaluation))
        return span

    def _report(self, choice: Choice, span: Span, found: Found) -> None:
        """Set the fitted attributes."""
        if getattr(self, "device", None) is not None and not isinstance(found.expansion.points, np.ndarray):
            # The user's rows are on the host; `device` was only used for the fit.
            found = replace(found, expansion=found.expansion.on_host())
        self._store(choice, span, found)
        self._measure(choice, span, found)
        expansion, short, kernel = found.expansion, choice.problem.short, choice.problem.kernel
        if short is not None:
            expansion = replace(expansion, points=short.lifted(expansion.points, found.support))
        if isinstance(kernel, RememberedKernel):
            self.n_evaluations_ = kernel.store.n_evaluations
            expansion = replace(expansion, kernel=kernel.plain)
        self.expansion_ = expansion

    def _store(self, choice: Choice, span: Span, found: Found) -> None:
        """Store the components that were found, and their variances."""
        most = 0.0
        if _indefinite(choice, span) and not self._policy.keeps_negative:
            found, most = found.as_scored(choice), positive_variance(choice.problem.sample.evaluation)
        expansion = found.expansion
        self.support_ = found.support
        self.explained_variance_ = found.variances
        captured = found.variances if found.captured is None else found.captured
        # The total variance of an indefinite kernel includes the negative part, so it can be smaller than the variance
        # of the components, which model the positive part.  The total is then at least what the components capture.
        # Variances of components that are not orthogonal overlap: only the largest is sure to be captured.
        alone = found.captured is None and not expansion.orthogonal
        most = max(most, float(captured.max() if alone else captured.sum()))
        sample = choice.problem.sample
        on_rows = choice.on_evaluation or PointsOnRows(span.kernel, span.points, sample.measured_on)
        outside = mean_outside(on_rows, span, indefinite=bool(sample.indefiniteness))
        self.explained_variance_ratio_ = captured / max(span.total_variance - outside, most)
        self.mean_outside_ = outside + span.mean_beyond(expansion)
        self.eigenvalues_ = found.eigenvalues
        self.gamma_ = choice.problem.gamma
        self.n_samples_seen_ = choice.problem.rows.n_samples
        for name, value in found.attributes.items():
            setattr(self, name, value)

    def _measure(self, choice: Choice, span: Span, found: Found) -> None:
        """Measure the captured ratio and the agreement, and learn a map from scores to rows if the kernel needs one."""
        sample, n_components = choice.problem.sample, len(self.explained_variance_)
        if sample.n_components != n_components:
            sample = replace(sample, n_components=n_components)
        if self._policy.judges_kernel:
            self._warn_about_kernel(sample, span)
        elif self.center:
            spread = span.spread
            if spread < SHOWS_ROUNDING[4 if choice.problem.rows.single_precision else 8]:
                warn_of_rounding(spread)
        self._ratio(choice, sample, span, found).store(self)
        if self.captured_ratio_kind_ != "exact":  # for exact kernel PCA the agreement is one
            on_rows = choice.on_evaluation if found.best_on_points else None
            self._agreement = agreement_on_all(found.expansion, sample.evaluation, on_rows)
            if self._agreement is not None and found.best_on_points:  # other methods find other components on purpose
                self._agreement.warn()
        self._inverse_map = None
        if sample.kernel.preimage == "ridge":  # other kernels find pre-images without a learned map
            self._inverse_map = learned_preimage(found.expansion, sample.evaluation.given, sample.evaluation.weights)

    def _ratio(self, choice: Choice, sample: Sample, span: Span, found: Found) -> CapturedRatio:
        """The captured ratio of the model, raised to the lower bound that the moments of all rows prove."""
        if not found.best_on_points:
            ratio = ratio_of_model(sample, found.expansion, self.n_samples_seen_)
            return ratio.at_least(float(np.sum(self.explained_variance_ratio_)) if span.kernel.definite else 0.0)
        problem, chosen = choice.problem, choice.selection
        measured = choice.ratio or ratio_of_points(
            problem.on_evaluation(chosen), sample, chosen, problem.rows.n_samples
        )
        return measured.corrected(span, found.expansion, float(self.explained_variance_.sum()))

    def _warn_about_kernel(self, sample: Sample, span: Span) -> None:
        """Warn if the kernel suits these rows badly, with advice about gamma if the kernel has a width."""
        explained = float(self.explained_variance_ratio_.sum())
        if explained == 0:
            return  # another warning has been issued for components that are zero
        kernel = sample.kernel
        # The fewer rows, the more their own components follow single ones: the larger set says more of the fit.
        rows, exact = max(sample.measured_on, sample.evaluation, key=lambda rows: rows.size), explained
        if explained < MIN_EXPLAINED:
            # Components of a few rows explain more of the variance of these rows than of others.  So unless these are
            # all rows, what components of one half explain of the other half is used.
            exact = rows.exact.captured if rows.is_all else rows.captured_across[1]
            exact /= max(span.total_variance, TINY)
        warn_about_kernel(
            explained,
            exact,
            span.spread if self.center else 1.0,
            split_captured(rows),
            GammaAdvice(self.gamma_, self.gamma != "median") if kernel.stationary else None,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = kernel_of(self.kernel).precomputed
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _indefinite(choice: Choice, span: Span) -> bool:
    """Whether the kernel is not positive semi-definite, on the points or on the sampled rows."""
    return max(span.negative_share, choice.problem.sample.indefiniteness) > INDEFINITE
