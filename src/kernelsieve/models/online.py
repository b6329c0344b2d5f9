"""OnlineKernelPCA: the published rules for kernel PCA one row at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import _fit_context

from ..arrays import to_numpy
from ..errors import TooFewPoints, TooManyComponents
from ..fit.captured_ratio import CapturedRatio, ratio_of_points
from ..fit.indefinite import is_indefinite
from ..fit.moments import gram_of
from ..fit.parameters import BlockParameters, at_least, estimator, more_than, one_of, parameter, unchanged_on_failure
from ..fit.problem import Problem
from ..fit.sample import EVALUATION_ROWS, Sample, default_sample_size
from ..fit.span import Span
from ..kernels import Kernel, kernel_type
from ..rows import RowRules, Rows, some_rows
from ..rows.memory import SampledRows, sample_rows
from ..rows.reservoir import Reservoir, forgetting_rate
from ..rules.base import Choice
from ..solvers.online import RULES, Rule, Settings
from ..threads import one_blas_thread
from .base import Found, KernelTransformer
from .following import Following, following_layout, in_order, least_lost_last
from .published import AsPublished
from .settled import as_settled, check_settled, check_settled_file, settle
from .stream import KeptRows, start_anew

# Rows that a first call needs for a width that is a rule: of fewer, distances say nothing.
LEAST_ROWS_FOR_WIDTH = 10
# What is found, from a sample of the rows, when it is first asked for after partial_fit.
REPORT = (
    "expansion_",
    "support_",
    "explained_variance_",
    "explained_variance_ratio_",
    "eigenvalues_",
    "captured_ratio_",
    "captured_ratio_interval_",
    "captured_ratio_kind_",
    "captured_ratio_n_samples_",
    "selection_report_",
    "_inverse_map",
)
OUTSIDE = 1e-10  # share of a component's squared length that may lie outside the span's numerical rank
OVERLAP = 1e-6  # of two components that count as orthogonal, as a share of their lengths


@estimator
class OnlineKernelPCA(AsPublished, BlockParameters, KernelTransformer):
    """Kernel PCA one row at a time, by the published rules, as published.

    For comparison and citation: for results, `SparseKernelPCA.partial_fit` ends within half a percent of a batch fit.
    Each row is seen once, through its kernel values with the points kept.  How far below batch each rule ends, as its
    share of what exact kernel PCA captures of held-out rows, 4000 of USPS in one pass, shuffled / sorted by class
    (`experiments/online.py`; batch with 50 points .996, `partial_fit` and `refresh` .992 / .991):

    "coherence"    Honeine (2012).  Rows unlike all points, max |k(x, d)| <= `coherence`, become points, others are
                   projected; coefficients follow a gradient (Sanger's rule).  50 points .86 / .61, 300 .96 / .68: a
                   gradient that sees each row once forgets what came first.
    "hebbian"      Kim, Franz & Schoelkopf (2005).  The same gradient with every row a point; with a `budget` the points
                   of smallest coefficients go.  300 points .93 / .64.
    "subset"       Washizawa (2009, 2012), Tanaka (2015).  The coherence dictionary with the moments of all rows over
                   it, and so the best components there are on that dictionary: what is missing is due to the choice of
                   points.  50 points .87 / .74, 300 .98 / .93.
    "incremental"  Chin & Suter (2007).  An eigenspace into which rows are merged, points cut back to `budget` by a
                   reduced set.  50 points .87 / .77, 150 .96 / .92; exact kernel PCA where neither `rank` nor `budget`
                   cuts.

    Cost a row, m points: m kernel values and O(m M) ("hebbian"), O(m^2) ("coherence", "subset"), O(m r^2) for rank r
    ("incremental").

    Parameters
    ----------
    n_components : int, default=2
        Number of components M.
    rule : "coherence", "hebbian", "subset" or "incremental", default="subset"
    budget : int or None, default=100
        The most points that are kept.  "coherence" and "subset" then admit no more ("subset" with `half_life`
        replaces the point that is missed least), "hebbian" and "incremental" leave out others.  None: no limit.
    coherence : float, default=0.8
        Of "coherence" and "subset": mu_0, the likeness up to which a row becomes a point.
    learning_rate, learning_decay : float, default=2, 1000
        Of "coherence" and "hebbian": step t is learning_rate / (1 + t / learning_decay).
    rank : int or None, default=None
        Of "incremental": eigenvectors carried along; None for 2 M.
    half_life : float or None, default=None
        After so many more rows a row weighs half of what it did, in means, moments and eigenvalues.
    kernel, gamma, degree, coef0, kernel_params, center, random_state, n_jobs, batch_size, device
        As in SparseKernelPCA.  The rules run on the host, one thread.  `partial_fit` settles a `gamma` that is a rule
        by the rows of its first call.  The rules are for positive semi-definite kernels: for another one the points
        are rows that are independent of those before them, and the components the best on these.

    Attributes
    ----------
    n_evaluations_ : int
        Kernel evaluations that the rule has made so far, k(x, x) included.
    expansion_, support_, support_vectors_, n_support_, dual_coef_, offset_, eigenvalues_, explained_variance_,
    explained_variance_ratio_, captured_ratio_, captured_ratio_kind_, captured_ratio_n_samples_, gamma_,
    n_samples_seen_, n_features_in_
        As in SparseKernelPCA; after `partial_fit` measured on a uniform sample of the rows.  The components of
        "coherence" and "hebbian" are given in unit length, and come near to being orthogonal as they converge.

    References
    ----------
    Honeine (2012), Online kernel principal component analysis: a reduced-order model.
    Kim, Franz & Schoelkopf (2005), Iterative kernel principal component analysis for image modeling.
    Washizawa (2012), Adaptive subset kernel principal component analysis for time-varying patterns.
    Tanaka (2015), Dictionary-based online kernel principal subspace analysis with double orthogonality preservation.
    Chin & Suter (2007), Incremental kernel principal component analysis.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kernelsieve import OnlineKernelPCA
    >>> X = load_digits().data
    >>> model = OnlineKernelPCA(5, rule="subset", budget=60, random_state=0)
    >>> for block in (X[:600], X[600:1200], X[1200:]):
    ...     model = model.partial_fit(block)
    >>> model.transform(X).shape, model.n_support_ <= 60
    ((1797, 5), True)
    """

    _stale = ("_online", "_kept", "_kernel", "_ready", "_settled")
    _file_layout = {
        "_online": "dict",
        "_kept": "Reservoir[d] optional",
        "_kernel": "kernel",
        "_ready": "bool",
        "n_evaluations_": "count",
        "_settled": "dict optional",
    }
    _keeps_negative_part = True
    rule: str = parameter("subset", one_of(*RULES))
    budget: int | None = parameter(100, at_least(1), None)
    coherence: float = parameter(0.8, more_than(0))
    learning_rate: float = parameter(2.0, more_than(0))
    learning_decay: float = parameter(1000.0, more_than(0))
    rank: int | None = parameter(None, at_least(1), None)
    half_life: float | None = parameter(None, more_than(0), None)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Feed rows to the rule, in their order.

        The result does not depend on how they are cut into calls, but for a `gamma` that is a rule: the first call
        settles it.  Kernel, centring, `n_components`, `rule`, `budget` and `half_life` stay what they were in that
        call; a change is refused.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight 2 takes a step twice as long, or counts twice in means and moments; one of weight 0 is
            passed over.

        Returns
        -------
        self
        """
        self._check_parameters(sample_weight)
        with unchanged_on_failure(self), one_blas_thread():
            reservoir = vars(self).get("_kept")
            if reservoir is None and "n_samples_seen_" in vars(self):
                start_anew(self, "ends the stream: partial_fit starts anew, without those rows")
            rows = some_rows(X, RowRules.of(self), sample_weight, first=reservoir is None)
            if reservoir is None:
                reservoir = Reservoir.empty(EVALUATION_ROWS, int(self._rng().integers(2**63)), self.half_life)
                self._settle_kernel(rows.X, rows.weights)
                settle(self)
            check_settled(self)
            following = self._following(self._looks_indefinite(rows.X))
            following.feed(rows.X, rows.weights, reservoir.n_seen)
            self._keep(following)
            self._kept = reservoir.add(rows.X, rows.weights)
            self.n_samples_seen_ = self._kept.n_seen
            for name in REPORT:
                self.__dict__.pop(name, None)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return "_online" in vars(self) and self._ready

    def __getattr__(self, name: str) -> Any:
        if name in REPORT and "_kept" in vars(self) and "_online" in vars(self) and self._ready:
            self._report()
            return vars(self)[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _before_saving(self) -> None:
        if "_kept" in vars(self):  # after partial_fit what is reported is only found when it is read: read it now
            self._kept = self._kept.in_order()
            _ = self.expansion_

    def check_loaded(self, error: type[ValueError]) -> None:
        """Raise `error` unless the stream in a file is one that its rule can go on with."""
        if "_kept" not in vars(self):
            return
        check_settled_file(self, self._kept, error)
        try:
            self._check_parameters(None)
        except ValueError as problem:
            raise error(str(problem)) from None
        if self._kept.size <= self.n_components:
            raise error(f"a sample of {self._kept.size} rows is too small to report {self.n_components} components by")
        if self._kernel != self.expansion_.kernel or not self._following().whole or not self._ready:
            raise error("the points, the kernel and what the rule keeps of them do not fit together in the file")

    def _dict_layouts(self) -> dict[str, Any]:
        return {"_online": following_layout(self.rule, vars(self)["_online"])} if "_kept" in vars(self) else {}

    def _report(self) -> None:
        """What `fit` says of all rows, of a sample of those that have come."""
        with one_blas_thread(), as_settled(self):
            problem = self._problem_on(KeptRows(self._kept), np.random.default_rng(self._kept.seed))
            choice = Choice(self._following().selection(), problem)
            span = self._span(choice)
            self._store(choice, span, self._components(choice, span))
            self._measure(choice, span)
            if not self._kept.whole and self.captured_ratio_kind_ == "all rows":
                self.captured_ratio_kind_ = "sample"

    # The way of every fit.

    def _check_parameters(self, sample_weight: Any) -> None:
        if kernel_type(self.kernel).precomputed:
            raise ValueError("OnlineKernelPCA needs rows, one at a time: give a kernel of rows, not a precomputed one")
        least = self.n_components + int(self.center and self.rule in ("subset", "incremental"))
        if self.budget is not None and self.budget < least:
            raise TooFewPoints(
                "budget",
                self.budget,
                f"is too few points for n_components={self.n_components}",
                f"give at least {least}",
            )
        if self.rank is not None and self.rank < self.n_components:
            raise TooFewPoints(
                "rank", self.rank, f"is less than n_components={self.n_components}", "give at least as many"
            )

    def _sample_size(self, rows: Rows) -> int:
        return default_sample_size(self.n_components)

    def _kernel_on(self, rows: SampledRows) -> tuple[Kernel, float]:
        if "_kept" in vars(self):
            return vars(self)["_kernel"], self.gamma_
        kernel, gamma = super()._kernel_on(rows)
        self._kernel = kernel
        return kernel, gamma

    def _points(self, problem: Problem) -> Choice:
        following = self._following(bool(problem.sample.indefiniteness))
        for start, block, weights in in_order(problem.rows):
            following.feed(block, weights, start)
        self._keep(following)
        if not self._ready:
            raise TooManyComponents(
                self.n_components,
                len(following.numbers),
                "needs more rows that are different to this kernel than came",
                f"{len(following.numbers)} of {problem.rows.n_samples} became points",
            )
        return Choice(following.selection(), problem)

    def _components(self, choice: Choice, span: Span) -> Found:
        following, history = self._following(), dict(choice.selection.history)
        # of an indefinite kernel the rule's coordinates L^-1 k(D, x) are none, and blow up
        if choice.problem.sample.indefiniteness or not isinstance(following.rule, Rule):
            return Found.best(choice, span, self.n_components, {"selection_report_": history})
        gram = to_numpy(choice.selection.gram)
        expansion = following.expansion(gram)
        coef = np.asarray(expansion.coef)
        variances, captured = (np.maximum(v, 0.0) for v in (span.variances(coef), span.variances_in_order(coef)))
        metric = coef.T @ gram @ coef
        lengths = np.diagonal(metric)
        if np.abs(metric - np.diag(lengths)).max() > OVERLAP * lengths.max():  # by rounding, where rows are far apart
            expansion = replace(expansion, orthogonal=False)
        if np.any(np.abs(lengths - np.sum(span.directions(coef) ** 2, axis=0)) > OUTSIDE * lengths):
            variances = choice.problem.variances_of_scores(expansion)  # components leave the range of the points' gram
            captured = variances if expansion.orthogonal else captured
        return Found(
            expansion,
            choice.selection.indices,
            variances,
            variances * span.weight,
            captured=captured,
            attributes={"selection_report_": history},
        )

    def _ratio(self, choice: Choice, sample: Sample) -> CapturedRatio:
        if sample.indefiniteness:
            seen = choice.problem.seen(choice.selection)
            return ratio_of_points(seen, sample, choice.selection, self.n_samples_seen_)
        return super()._ratio(choice, sample)

    # The rule, made from what is kept of it and back.

    def _following(self, indefinite: bool = False) -> Following:
        """The rule as it is kept; at first, the one for a kernel that rows show to be indefinite, or none."""
        indefinite = indefinite or self._kernel.definite is False
        return Following(self._kernel, self.rule, self._settings(), vars(self).get("_online"), indefinite=indefinite)

    def _looks_indefinite(self, X: Any) -> bool:
        """Whether the first rows of a stream say so of a kernel of which it is not known."""
        if "_online" in vars(self) or self._kernel.definite is not None:
            return False
        return is_indefinite(self._kernel, gram_of(self._kernel, X[:EVALUATION_ROWS, :]))

    def _settings(self) -> Settings:
        return Settings(
            self.n_components,
            self.center,
            self.budget,
            self.coherence,
            self.learning_rate,
            self.learning_decay,
            2 * self.n_components if self.rank is None else self.rank,
            forgetting_rate(self.half_life),
            least_lost_last,
        )

    def _keep(self, following: Following) -> None:
        self._online = following.state()
        self._ready = following.rule.ready
        self.n_evaluations_ = following.n_evaluations

    def _settle_kernel(self, X: Any, weights: np.ndarray | None) -> None:
        by_rule = self.gamma in ("median", "scale") and kernel_type(self.kernel).uses_gamma
        if by_rule and X.shape[0] < LEAST_ROWS_FOR_WIDTH:
            raise ValueError(
                f"gamma={self.gamma!r} cannot be settled by the {X.shape[0]} rows of the first call: give gamma as a "
                f"number, or at least {LEAST_ROWS_FOR_WIDTH} rows"
            )
        _, self.gamma_ = self._kernel_on(sample_rows(X, EVALUATION_ROWS, self._rng(), weights, merge=False))
