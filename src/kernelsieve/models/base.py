"""The one way every kernel estimator is fitted.

    rows -> problem -> points -> span -> components -> stored -> measured

An estimator is its docstring, its parameters and two hooks: `_points` chooses support points, `_components` finds the
components on their span.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, _fit_context

from ..arrays import Array, on_host, take_rows
from ..errors import TooManyComponents, warn
from ..fit.captured_ratio import CapturedRatio, SeenPoints, mean_outside, n_real, ratio_of_model
from ..fit.expansion import KernelExpansion
from ..fit.indefinite import positive_variance
from ..fit.parameters import (
    CallbackSupportMixin,
    KernelParameters,
    MeantParameters,
    Stages,
    estimator,
    forget_fit,
    generator_of,
    unchanged_on_failure,
)
from ..fit.preimage import learned_preimage
from ..fit.problem import (
    SHOWS_ROUNDING,
    GammaAdvice,
    Problem,
    split_captured,
    warn_about_kernel,
    warn_about_scales,
    warn_of_rounding,
)
from ..fit.rowset import INDEFINITE
from ..fit.sample import Sample
from ..fit.saving import SavesItself
from ..fit.span import Span
from ..kernels import Kernel, bind_callable, kernel_type, named_kernel
from ..kernels.base import check_coef0
from ..kernels.width import resolve_gamma
from ..rows import RowRules, Rows, rows_of, settle_columns
from ..rows.memory import ArrayRows, SampledRows, check_spread, finite
from ..rows.row_space import MOST_WIDTHS, ShortSide
from ..rules.base import Choice
from ..threads import effective_n_threads, one_blas_thread
from .expansion_api import ExpansionTransform, FittedExpansion

KernelOn = Callable[[SampledRows], tuple[Kernel, float]]

FEW_ROWS = 1000  # enough for the scales of columns and the width of the kernel


@dataclass(frozen=True)
class Found:
    """What a method found on a span."""

    expansion: KernelExpansion
    support: np.ndarray | None  # row numbers of its points, None where they are no rows
    variances: np.ndarray  # (M,) of the scores on the training rows
    eigenvalues: np.ndarray  # (M,) as the method has them
    # (M,) what each component adds to those before it, where that is not its variance
    captured: np.ndarray | None = None
    attributes: dict[str, Any] = field(default_factory=dict)  # fitted attributes that the method alone has

    @classmethod
    def best(cls, choice: Choice, span: Span, n_components: int, attributes: dict[str, Any]) -> Found:
        """The best components on the chosen points, if there are so many."""
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
        """The same with the variances of the scores, from one more pass over the rows.

        The span of an indefinite kernel is that of its positive part, and scores are made of all of its values.
        """
        variances = choice.problem.variances_of_scores(self.expansion)
        if self.captured is None:
            return replace(self, variances=variances)
        of_span = np.where(self.variances > 0, self.variances, 1.0)
        return replace(self, variances=variances, captured=self.captured * variances / of_span)


@estimator
class KernelTransformer(
    ExpansionTransform,
    FittedExpansion,
    SavesItself,
    KernelParameters,
    MeantParameters,
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    BaseEstimator,
):
    """Validation, fitting and use of the sparse kernel estimators."""

    _keeps_negative_part = False  # of an indefinite kernel's spectrum
    _stale: ClassVar[tuple[str, ...]] = ()  # private attributes that an earlier fit may leave
    _file_layout = {
        "_inverse_map": "RidgeMap[M, d]?",
        "n_iter_": "int optional",
        "converged_": "bool optional",
        "selection_report_": "dict optional",
    }

    _judges_kernel = True  # warns where the kernel says little of the rows; published methods take it as it is

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the support points and find the components on them.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows; the square gram for a precomputed kernel.  Also arrays of torch and cupy, which are worked on where
            they are; dask arrays and dataframes; and rows in blocks: a list of blocks, a function that returns an
            iterator of blocks, a zarr array, a pyarrow dataset.  Rows in blocks are read twice, for a sample and for
            the moments; once more where a larger sample is needed, or to count them for a fraction.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight 2 counts as two rows, one of weight 0 not at all.

        Returns
        -------
        self
        """
        self._check_parameters(sample_weight)
        with unchanged_on_failure(self):
            forget_fit(self)
            stages = Stages(self, 3, X, y)
            with stages.stage("choose points"), one_blas_thread():
                choice = self._points(self._problem(X, sample_weight))
            with stages.stage("components"), self._blas_threads(choice):
                span = self._span(choice)
                found = self._components(choice, span)
            with stages.stage("report"), one_blas_thread():
                self._store(choice, span, found)
                self._measure(choice, span)
                if (short := choice.problem.short) is not None:
                    points = short.lifted(self.expansion_.points, self.support_)
                    self.expansion_ = replace(self.expansion_, points=points)
            stages.finish(X, y)
        return self

    # The hooks.

    @abstractmethod
    def _sample_size(self, rows: Rows) -> int:
        """Rows that the choice of points looks at."""

    @abstractmethod
    def _points(self, problem: Problem) -> Choice:
        """The support points, or the rows among which the method finds them."""

    @abstractmethod
    def _components(self, choice: Choice, span: Span) -> Found:
        """The components on the span of the points."""

    def _check_parameters(self, sample_weight: Any) -> None:
        """Refuse parameters that do not go together, before anything is read."""

    def _check_sample(self, rows: SampledRows) -> None:
        """Refuse rows that are too few."""

    def _check_problem(self, problem: Problem) -> None:
        """Refuse rows in which there is nothing to find."""

    def _blas_threads(self, choice: Choice) -> AbstractContextManager[None]:
        """The thread policy while components are found."""
        return one_blas_thread()

    def _ratio(self, choice: Choice, sample: Sample) -> CapturedRatio:
        """How much of exact kernel PCA's variance the fitted model keeps."""
        return ratio_of_model(sample, self.expansion_, self.n_samples_seen_)

    @property
    def _wanted_components(self) -> int | None:
        """The number of components asked for, where it is a number."""
        return self.n_components

    def _with_components(self, sample: Sample) -> Sample:
        """The sample for the number of components that is wanted, where the sample settles that."""
        return sample

    def _look_ahead(self, rows: Rows, sample: Sample) -> Any:
        """What choosing points will ask of the sample, made while there are threads without work."""
        return None

    def _bounded(self, ratio: CapturedRatio, sample: Sample, span: Span) -> CapturedRatio:
        """The ratio within what all rows say of it: no less than the share of the total variance."""
        return ratio.at_least(float(np.sum(self.explained_variance_ratio_)) if span.kernel.definite else 0.0)

    # What they share.

    def _problem(self, X: Any, sample_weight: Any) -> Problem:
        """The training rows, and a sample of them under the kernel that it settles."""
        rows = rows_of(X, RowRules.of(self), sample_weight)
        return self._problem_on(rows, self._rng())

    def _problem_on(self, rows: Rows, rng: np.random.Generator, kernel_on: KernelOn | None = None) -> Problem:
        """The problem of these rows, whose kernel is what a sample of them, or else `kernel_on` it, settles."""
        sampled = rows.sample(self._sample_size(rows), rng)
        if rows.n_samples < 2:
            raise ValueError(f"X has {rows.n_samples} row: at least 2 are needed")
        if not isinstance(rows, ArrayRows):  # the pass for the sample has told the columns, and their names
            settle_columns(self, rows.n_features, rows.names)
        self._check_sample(sampled)
        short = self._short_side(rows)
        sampled = replace(sampled, turned=None if short is None else short.rows)
        kernel, gamma = (kernel_on or self._kernel_on)(sampled)
        if short is not None and kernel.stationary and gamma * short.largest > MOST_WIDTHS:
            short = None
        if short is not None:
            sampled = replace(sampled, X=short.rows, turned=None)
            rows = ArrayRows(short.rows, rows.weights, merge_copies=rows.merge_copies)
        n_threads = effective_n_threads(self.n_jobs)
        n_components = self._wanted_components or 1
        sample = Sample.of(
            sampled, kernel, n_components, center=self.center, n_threads=n_threads, n_population=rows.n_samples
        )
        sample = self._with_components(sample).representative
        coordinates, settled = self._look_ahead(rows, sample), sample.settled
        problem = Problem(rows, settled, gamma, rng, short, coordinates if settled is sample else None)
        self._check_problem(problem)
        return problem

    def _short_side(self, rows: Rows) -> ShortSide | None:
        """The rows in their own space, where they are few, of very many columns, and the method sees no other."""
        return None

    def _rng(self) -> np.random.Generator:
        return generator_of(self.random_state)

    def _kernel_on(self, rows: SampledRows) -> tuple[Kernel, float]:
        """The kernel, and its gamma, as these rows settle them."""
        kind, all_of_them = kernel_type(self.kernel), rows.X.shape[0] == len(rows.indices) <= FEW_ROWS
        few = finite(rows.X if all_of_them and rows.turned is not None else rows.first(FEW_ROWS))
        on_the_host = on_host(few)  # where so few are looked at sooner
        if not kind.precomputed:
            check_spread(on_the_host)
        if kind.uses_gamma:
            warn_about_scales(on_the_host)
        if rows.turned is not None and self.gamma == "median":  # the distances between rows are all that it asks for
            few = take_rows(rows.turned, rows.indices[:FEW_ROWS])
        return self._kernel_for(few, rows.weights)

    def _kernel_for(self, few: Array, weights: np.ndarray | None) -> tuple[Kernel, float]:
        """The kernel and its gamma, where these rows can be given to it."""
        kind = kernel_type(self.kernel)
        gamma = resolve_gamma(self.gamma, kind, few, weights, effective_n_threads(self.n_jobs))
        check_coef0(self.coef0, kind, few)
        if callable(self.kernel):
            return bind_callable(self.kernel, self.kernel_params, few), gamma
        return named_kernel(self.kernel, gamma=gamma, degree=self.degree, coef0=self.coef0), gamma

    def _span(self, choice: Choice) -> Span:
        """The span of the chosen points, where choosing them has not made it already."""
        span = choice.span or choice.problem.span(choice.selection, signed=self._keeps_negative_part)
        if _indefinite(choice, span):
            share = max(span.negative_share, choice.problem.sample.evaluation.negative_share)
            warn(
                f"the kernel is not positive semi-definite on these rows: {100 * share:.3g}% of its spectrum is "
                "negative and was dropped"
            )
        return span

    def _store(self, choice: Choice, span: Span, found: Found) -> None:
        most = 0.0
        if _indefinite(choice, span) and not self._keeps_negative_part:
            found, most = found.as_scored(choice), positive_variance(choice.problem.sample.evaluation)
        expansion = found.expansion
        if getattr(self, "device", None) is not None and not isinstance(expansion.points, np.ndarray):
            expansion = expansion.on_host()  # the user's rows are there: the device was only lent for the work
        self.expansion_ = expansion
        self.support_ = found.support
        self.explained_variance_ = found.variances
        captured = found.variances if found.captured is None else found.captured
        # Of an indefinite kernel only the positive part is modelled: its total, the negative part counted, can be less.
        alone = found.captured is None and not expansion.orthogonal
        most = max(most, float(captured.max() if alone else captured.sum()))
        sample = choice.problem.sample
        seen = choice.seen or SeenPoints(span.kernel, span.points, sample.evaluation)
        outside = mean_outside(seen, span, indefinite=bool(sample.indefiniteness))
        self.explained_variance_ratio_ = captured / max(span.total_variance - outside, most)
        self.mean_outside_ = outside + span.mean_beyond(found.expansion)
        self.eigenvalues_ = found.eigenvalues
        self.gamma_ = choice.problem.gamma
        self.n_samples_seen_ = choice.problem.rows.n_samples
        for name, value in found.attributes.items():
            setattr(self, name, value)

    def _measure(self, choice: Choice, span: Span) -> None:
        """How much of exact kernel PCA the components keep, and the way back where the kernel needs one learned."""
        sample, n_components = choice.problem.sample, len(self.explained_variance_)
        if sample.n_components != n_components:
            sample = replace(sample, n_components=n_components)
        if self._judges_kernel:
            self._warn_about_kernel(sample, span)
        elif self.center:
            spread = span.spread
            if spread < SHOWS_ROUNDING[4 if choice.problem.rows.single_precision else 8]:
                warn_of_rounding(spread)
        ratio = choice.ratio or self._ratio(choice, sample)
        self._bounded(ratio, sample, span).store(self)
        self._inverse_map = None
        if sample.kernel.preimage == "ridge":  # else the kernel finds rows by itself
            self._inverse_map = learned_preimage(self.expansion_, sample.evaluation.given, sample.evaluation.weights)

    def _warn_about_kernel(self, sample: Sample, span: Span) -> None:
        """Warn where the kernel says little of these rows, with what to do about gamma where it is a width."""
        explained = float(self.explained_variance_ratio_.sum())
        if explained == 0:
            return  # components of zeros have been warned about
        kernel = sample.kernel
        warn_about_kernel(
            explained,
            span.spread if self.center else 1.0,
            split_captured(sample.evaluation),
            GammaAdvice(self.gamma_, self.gamma != "median") if kernel.stationary else None,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = kernel_type(self.kernel).precomputed
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _indefinite(choice: Choice, span: Span) -> bool:
    """Whether the kernel is not positive semi-definite, on the points or on the rows that were looked at."""
    return max(span.negative_share, choice.problem.sample.indefiniteness) > INDEFINITE
