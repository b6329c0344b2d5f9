"""OnlineKernelPCA: published rules for kernel PCA that process one row at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context, clone

from ..arrays import to_numpy
from ..compression.methods import least_lost_last
from ..errors import TooFewPoints, TooManyComponents
from ..fit.agreement import Agreement
from ..fit.indefinite import is_indefinite
from ..fit.moments import gram_of
from ..fit.parameters import BlockParameters, at_least, estimator, more_than, one_of, parameter, unchanged_on_failure
from ..fit.plan import PLAN
from ..fit.problem import Problem
from ..fit.span import Span
from ..fit.stages import printing
from ..kernels import Kernel, kernel_of
from ..numerics import DEPENDENT
from ..rows.dispatch import RowRules, some_rows
from ..rows.reservoir import Reservoir, forgetting_rate
from ..rows.rows import ArrayRows, Rows
from ..rows.sampling import sample_rows
from ..rules.base import Choice
from ..streaming.online_driver import OnlineDriver, driver_layout
from ..streaming.online_rules import RULES, Rule, Settings
from ..streaming.state import (
    STORED,
    FromStream,
    ReservoirRows,
    agreement_on_reservoir,
    check_frozen,
    check_frozen_in_file,
    frozen_parameters,
    own_fields,
    start_anew,
)
from ..threads import cached_property, one_blas_thread
from .base import Found, KernelTransformer, Policy, RowRequest
from .published import check_values

# The first call of partial_fit must have this many rows to determine gamma: fewer distances are not representative.
LEAST_ROWS_FOR_WIDTH = 10
OVERLAP = 1e-6  # components are orthogonal if no inner product exceeds this share of the largest squared length


@dataclass(frozen=True)
class OnlineState:
    """The state of a stream: the state of its rule, and a sample of the rows on which the model is measured."""

    reservoir: Reservoir
    begun: Any  # an unfitted estimator with the parameters of the first call
    parameters: dict[str, Any]
    kernel: Kernel
    gamma: float
    rule: dict[str, Any] | None = None  # the state of the driver
    ready: bool = False  # whether enough rows have arrived for the number of components
    n_evaluations: int = 0

    def __getstate__(self) -> dict[str, Any]:
        return own_fields(self)

    @cached_property
    def agreement(self) -> Agreement:
        """Agreement of the components with those of exact kernel PCA of the rows in the reservoir."""
        return agreement_on_reservoir(self.report.expansion_, self.reservoir)

    @cached_property
    def report(self) -> Any:
        """A fitted estimator with the points and components of the rule; all else is measured on the reservoir."""
        return clone(self.begun)._reported(self)


class OfStream:
    """Fitted attributes of OnlineKernelPCA, which `fit` stores and which are computed after `partial_fit`."""

    _stream: OnlineState | None = None
    _stale: ClassVar[tuple[str, ...]] = ("_stream", "_online", "_kernel", "_ready")

    n_samples_seen_: Any = FromStream("reservoir.n_seen", always=True)
    n_evaluations_: Any = FromStream("n_evaluations", always=True)
    gamma_: Any = FromStream("gamma", always=True)
    expansion_: Any = FromStream("report.expansion_")
    support_: Any = FromStream("report.support_")
    explained_variance_: Any = FromStream("report.explained_variance_")
    explained_variance_ratio_: Any = FromStream("report.explained_variance_ratio_")
    eigenvalues_: Any = FromStream("report.eigenvalues_")
    mean_outside_: Any = FromStream("report.mean_outside_")
    captured_ratio_: Any = FromStream("report.captured_ratio_")
    captured_ratio_interval_: Any = FromStream("report.captured_ratio_interval_")
    captured_ratio_kind_: Any = FromStream("report.captured_ratio_kind_")
    captured_ratio_n_samples_: Any = FromStream("report.captured_ratio_n_samples_")
    selection_report_: Any = FromStream("report.selection_report_")
    _inverse_map: Any = FromStream("report._inverse_map")
    # The names of further parts of the state in model files.
    _kept: Any = FromStream("reservoir", always=True)
    _online: Any = FromStream("rule", always=True)
    _kernel: Any = FromStream("kernel", always=True)
    _ready: Any = FromStream("ready", always=True)
    _settled: Any = FromStream("parameters", always=True)


@estimator
class OnlineKernelPCA(OfStream, BlockParameters, KernelTransformer):
    """Kernel PCA that processes one row at a time, by published rules exactly as published.

    This class is meant for comparisons.  For good results, use `SparseKernelPCA.partial_fit`, which ends within half a
    percent of a batch fit.  Each row is used once, through its kernel values with the points kept.

    The numbers below say how much of the variance captured by exact kernel PCA on held-out rows each rule keeps, after
    one pass over 4000 rows of USPS, first shuffled, then sorted by class (`experiments/online.py`).  For comparison, a
    batch fit with 50 points keeps .996, and `partial_fit` with `refresh` keeps .992 (shuffled) and .991 (sorted).

    "coherence"    Honeine (2012).  Rows unlike all points, max |k(x, d)| <= `coherence`, become points; other rows are
                   projected.  Coefficients follow a gradient (Sanger's rule), which sees each row only once and so
                   forgets the first ones.  50 points keep .86 and .61, 300 points .96 and .68.
    "hebbian"      Kim, Franz & Schoelkopf (2005).  Sanger's rule with every row as a point; with a `budget`, the points
                   with the smallest coefficients are removed.  300 points keep .93 and .64.
    "subset"       Washizawa (2009, 2012), Tanaka (2015).  The moments of all rows over the dictionary of "coherence",
                   which give the best components on this dictionary; only the choice of points can be improved.
                   50 points keep .87 and .74, 300 points .98 and .93.
    "incremental"  Chin & Suter (2007).  An eigenspace into which rows are merged one by one; a reduced set keeps the
                   points within `budget`.  50 points keep .87 and .77, 150 points .96 and .92.  If neither `rank` nor
                   `budget` limits it, this is exact kernel PCA.

    Cost per row, for m points: m kernel values, and time O(m M) ("hebbian"), O(m^2) ("coherence", "subset") or O(m r^2)
    for rank r ("incremental").

    Parameters
    ----------
    n_components : int, default=2
        Number of components M.
    rule : "coherence", "hebbian", "subset" or "incremental", default="subset"
    budget : int or None, default=100
        Largest number of points that are kept; None for no limit.  When it is reached, "coherence" and "subset" accept
        no further points, except that "subset" with a `half_life` replaces the point whose removal loses least;
        "hebbian" and "incremental" remove points.
    coherence : float, default=0.8
        For "coherence" and "subset": the threshold mu_0; a row becomes a point if its coherence with all points is at
        most this.
    learning_rate, learning_decay : float, default=2, 1000
        For "coherence" and "hebbian": the length of step t is learning_rate / (1 + t / learning_decay).
    rank : int or None, default=None
        For "incremental": number of eigenvectors that are updated; None for 2 M.
    half_life : float or None, default=None
        The weight of a row in means, moments and eigenvalues is halved after this many further rows.
    kernel, gamma, degree, coef0, kernel_params, center, random_state, n_jobs, batch_size, device, verbose
        As in SparseKernelPCA.  The rules run on the host in one thread.  If `gamma` names a rule, `partial_fit` applies
        it to the rows of the first call.  The rules require a positive semi-definite kernel; with another kernel, a row
        becomes a point if it is linearly independent of the points so far, and the components are the best on these
        points.

    Attributes
    ----------
    n_evaluations_ : int
        Number of kernel values that the rule has computed so far, including k(x, x).
    expansion_, support_, support_vectors_, n_support_, dual_coef_, offset_, eigenvalues_, explained_variance_,
    explained_variance_ratio_, captured_ratio_, captured_ratio_kind_, captured_ratio_n_samples_, gamma_,
    n_samples_seen_, n_features_in_
        As in SparseKernelPCA; after `partial_fit`, variances and ratios are measured on a uniform sample of the rows.
        The components of "coherence" and "hebbian" are scaled to unit length; they become orthogonal as they converge.

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

    _file_layout = {
        "_online": "dict",
        "_kept": "Reservoir[d] optional",
        "_kernel": "kernel",
        "_ready": "bool",
        "n_evaluations_": "count",
        "_settled": "dict optional",
    }
    _policy = Policy(keeps_negative=True, dense=True, judges_kernel=False)

    rule: str = parameter("subset", one_of(*RULES))
    budget: int | None = parameter(100, at_least(1), None)
    coherence: float = parameter(0.8, more_than(0))
    learning_rate: float = parameter(2.0, more_than(0))
    learning_decay: float = parameter(1000.0, more_than(0))
    rank: int | None = parameter(None, at_least(1), None)
    half_life: float | None = parameter(None, more_than(0), None)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Process rows one by one, in their order.

        The result does not depend on how the rows are divided into calls, unless `gamma` names a rule, which is applied
        to the rows of the first call.  Kernel, centring, `n_components`, `rule`, `budget` and `half_life` must not be
        changed after the first call.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight 2 takes a step twice as long, or counts twice in means and moments; a row of weight 0 is
            skipped.

        Returns
        -------
        self
        """
        self._check_parameters(sample_weight)
        with unchanged_on_failure(self), one_blas_thread():
            first = self._stream is None
            if first and hasattr(self, "n_samples_seen_"):
                start_anew(self, "ends the stream: partial_fit starts anew, without those rows")
            rules = RowRules.of(self)
            for rows in some_rows(printing(self, X, rules, "partial_fit"), rules, sample_weight, first=first):
                self._stream = self._follow(rows)
        return self

    def _follow(self, rows: ArrayRows) -> OnlineState:
        """The state of the stream after these rows."""
        first = self._stream is None
        state = self._begun(rows) if self._stream is None else self._stream
        check_frozen(self, state.parameters)
        kernel, indefinite = state.kernel, False
        if first and kernel.definite is None:  # the first rows of the stream decide
            indefinite = is_indefinite(kernel, gram_of(kernel, rows.X[: PLAN.evaluation_rows, :]))
        driver = self._driver(kernel, state.rule, indefinite)
        driver.feed(rows.X, rows.weights, state.reservoir.n_seen)
        return replace(
            state,
            reservoir=state.reservoir.add(rows.X, rows.weights),
            rule=driver.state(),
            ready=driver.rule.ready,
            n_evaluations=driver.n_evaluations,
        )

    def __sklearn_is_fitted__(self) -> bool:
        return getattr(self, "_ready", False)

    def _begun(self, rows: ArrayRows) -> OnlineState:
        """The state before the first row, with the kernel determined on the rows of the first call."""
        reservoir = Reservoir.empty(PLAN.evaluation_rows, int(self._rng().integers(2**63)), self.half_life)
        by_rule = isinstance(self.gamma, str) and kernel_of(self.kernel).uses_gamma
        if by_rule and rows.n_samples < LEAST_ROWS_FOR_WIDTH:
            raise ValueError(
                f"gamma={self.gamma!r} cannot be settled by the {rows.n_samples} rows of the first call: give gamma as "
                f"a number, or at least {LEAST_ROWS_FOR_WIDTH} rows"
            )
        sampled = sample_rows(rows.X, PLAN.evaluation_rows, self._rng(), rows.weights, merge=False)
        kernel, gamma = self._symmetric_kernel_on(sampled)
        return OnlineState(reservoir, clone(self), frozen_parameters(self), kernel, gamma)

    def _reported(self, state: OnlineState) -> Self:
        """This estimator, with the attributes that `fit` stores computed from a state and its sample of the rows."""
        self._online, self._kernel, self._ready = state.rule, state.kernel, state.ready
        with one_blas_thread():
            rows, rng = ReservoirRows(state.reservoir), np.random.default_rng(state.reservoir.seed)
            problem = self._problem_on(rows, rng, lambda _: (state.kernel, state.gamma))
            check_values(problem)
            choice = Choice(self._driver(self._kernel, self._online).selection(), problem)
            span = self._span(choice)
            found = self._components(choice, span)
            self._report(choice, span, found)
            if not state.reservoir.whole and self.captured_ratio_kind_ == "all rows":
                self.captured_ratio_kind_ = "sample"
        return self

    # Files.

    def _before_saving(self) -> None:
        if self._stream is not None:
            self._stream = replace(self._stream, reservoir=self._stream.reservoir.in_order())

    def _dict_layouts(self, state: dict[str, Any]) -> dict[str, Any]:
        return {"_online": driver_layout(self.rule, state["_online"])} if "_kept" in state else {}

    def _resumed(self, state: dict[str, Any], error: type[ValueError]) -> dict[str, Any]:
        """Restore a stream from a file, and return the model's other attributes; raise if the rule cannot continue."""
        reservoir = state.get("_kept")
        if reservoir is None:
            return state
        check_frozen_in_file(self, state.get("_settled"), reservoir, error)
        try:
            self._check_parameters(None)
        except ValueError as problem:
            raise error(str(problem)) from None
        if reservoir.size <= self.n_components:
            raise error(f"a sample of {reservoir.size} rows is too small to report {self.n_components} components by")
        kernel, rule = state["_kernel"], state["_online"]
        if kernel != state["expansion_"].kernel or not self._driver(kernel, rule).whole or not state["_ready"]:
            raise error("the points, the kernel and what the rule keeps of them do not fit together in the file")
        counted = {"ready": True, "n_evaluations": state["n_evaluations_"]}
        self._stream = OnlineState(
            reservoir, clone(self), frozen_parameters(self), kernel, state["gamma_"], rule, **counted
        )
        return {name: state[name] for name in STORED if name in state}

    # The hooks of a fit.

    def _check_parameters(self, sample_weight: Any) -> None:
        if kernel_of(self.kernel).rows_only:
            raise ValueError("OnlineKernelPCA needs rows, one at a time: give a kernel of vectors")
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

    def _request(self, rows: Rows) -> RowRequest:
        return RowRequest(self._plan.sample_size(self.n_components), self.n_components)

    def _points(self, problem: Problem) -> Choice:
        check_values(problem)
        driver, weights = self._driver(problem.kernel, None, bool(problem.sample.indefiniteness)), problem.rows.weights
        for start, block in problem.rows.blocks():
            driver.feed(block, None if weights is None else weights[start : start + block.shape[0]], start)
        self._online, self._kernel, self._ready = driver.state(), problem.kernel, driver.rule.ready
        self.n_evaluations_ = driver.n_evaluations
        if not self._ready:
            raise TooManyComponents(
                self.n_components,
                len(driver.numbers),
                "needs more rows that are different to this kernel than came",
                f"{len(driver.numbers)} of {problem.rows.n_samples} became points",
            )
        return Choice(driver.selection(), problem)

    def _components(self, choice: Choice, span: Span) -> Found:
        driver, history = self._driver(self._kernel, self._online), choice.history
        # Under an indefinite kernel, K_DD has no Cholesky factor, so the rule has no coordinates L^-1 k(D, x).
        if choice.problem.sample.indefiniteness or not isinstance(driver.rule, Rule):
            best = Found.best(choice, span, self.n_components, {"selection_report_": history})
            return replace(best, best_on_points=bool(choice.problem.sample.indefiniteness))
        gram = to_numpy(choice.selection.gram)
        expansion = driver.expansion(gram)
        coef = np.asarray(expansion.coef)
        variances, captured = (np.maximum(v, 0.0) for v in (span.variances(coef), span.variances_in_order(coef)))
        metric = coef.T @ gram @ coef
        lengths = np.diagonal(metric)
        # Rounding can make components overlap if the rows are far apart.
        if np.abs(metric - np.diag(lengths)).max() > OVERLAP * lengths.max():
            expansion = replace(expansion, orthogonal=False)
        # The variances of components that lie partly outside the span take another pass over the rows.
        if np.any(np.abs(lengths - np.sum(span.directions(coef) ** 2, axis=0)) > DEPENDENT * lengths):
            variances = choice.problem.variances_of_scores(expansion)
            captured = variances if expansion.orthogonal else captured
        return Found(
            expansion,
            choice.selection.indices,
            variances,
            variances * span.weight,
            captured=captured,
            attributes={"selection_report_": history},
        )

    def _driver(self, kernel: Kernel, state: dict[str, Any] | None, indefinite: bool = False) -> OnlineDriver:
        """The driver of the rule, rebuilt from a state, or new if there is no state."""
        indefinite = indefinite or kernel.definite is False
        return OnlineDriver(kernel, self.rule, self._settings(), state, indefinite=indefinite)

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
