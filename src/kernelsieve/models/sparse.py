"""SparseKernelPCA: the front door.

An option without effect in combination with the others is named in a warning, never silently ignored.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..arrays import namespace, take_rows, to_numpy
from ..errors import TooFewPoints, warn
from ..fit.parameters import INNER_SHARE, SHARE, BlockParameters, at_least, estimator, more_than, one_of, parameter
from ..fit.plan import DEFAULT_VALUES, Budget
from ..fit.problem import Problem, nothing_to_explain
from ..fit.span import Span
from ..fit.values import TIMED_ROWS, is_remembered, is_slow, remembered
from ..kernels import Kernel, bind_callable, is_function, kernel_of
from ..numerics import DEPENDENT
from ..rows import Rows
from ..rows.rows import ArrayRows
from ..rows.sampling import SampledRows
from ..rules.base import Choice, Selection
from ..rules.registry import ALIASES, RULE_OPTIONS, SELECTORS
from ..search.chooser import Chooser, Effort, own_points
from ..spectrum.whitening import check_kernel_values
from ..streaming.partial_fit import PartialFit
from .base import Found, KernelTransformer, Policy, RowRequest


@estimator
class SparseKernelPCA(PartialFit, BlockParameters, KernelTransformer):
    """Kernel PCA on a few support points, moved to where they capture most variance.

    Finds m points S and M components in span(phi(S)) that maximise the captured variance

        sum_k var(v_k' phi(x)),    v_k = sum_i A_ik phi(s_i),   v_k' v_l = delta_kl

    over the rows.  For given points the components are the best there are (an m x m eigenproblem on moments
    gathered in one pass); the points themselves are chosen by `selection`, by default moved freely by L-BFGS on
    the captured variance.  With all rows as support it is exact kernel PCA.

    Cost: O(N m (d + m)) to fit, in one pass over the rows after a sample of a few thousand has been looked at, and
    O(m^2) memory; m (d + M) a row to transform.  Nothing of size N x N or N x m is ever held.

    Parameters
    ----------
    n_components : int, float or None, default=2
        Number of components M.  A float between 0 and 1: as many as exact kernel PCA, on the sampled rows, needs to
        explain that share of the total variance; None: the same for the share `variance`.
    n_support : int, float or "auto", default="auto"
        Number of support points m: an int, a fraction of the rows, or "auto", the fewest points that keep `variance`
        of what exact kernel PCA with the same `n_components` keeps.
    selection : str, array or callable, default="optimized"
        How points are chosen.  "optimized": moved freely (or rows by "targeted", if the kernel has no gradient).
        "kmeans": centres.  Rows that explain most of the leading components: "targeted"; of all rows: "gain" (also
        known as "sgma", "matching-pursuit", "akfa"), "improved" (with IKPCA's ridge), "skfa"; worst explained so far:
        "residual"; far from each other: "dissimilar" (ESKPCA's nodes), "farthest" (k-centre); at random: "rpcholesky"
        (by residual), "leverage" (by ridge leverage score), "uniform".  Or an integer array (m,): these rows; an
        array (m, d): these points; a callable ``f(X, n_support, *, kernel, rng)`` that returns either.
    variance : float, default=0.99
        For "auto" without `max_residual`: share of exact kernel PCA's captured variance to keep of rows like the
        training rows.  Points fit the rows they were chosen by a little better than others, so if few rows carry
        the variance it takes more.
    agreement : float or None, default=None
        For "auto": each component must also reach this correlation of its scores with those of exact kernel PCA
        (`component_agreement_`), on the sampled rows.
    kernel : str, Kernel or callable, default="rbf"
        "rbf", "matern", "poly", "linear", "sigmoid", "cosine", "laplacian", "precomputed"; a kernel of
        `kernelsieve.kernels`, which has its own parameters, or one of scikit-learn's for Gaussian processes; or a
        callable: vectorised, ``k(X, Y) -> (n, m)``, or on two rows, ``k(x, y) -> float``.  Several threads may call it
        at once: give ``n_jobs=1`` where it keeps anything between calls.
    gamma : float, "median", "0.3 median", "scale", "auto" or None, default="median"
        Kernel coefficient.  "median": 1/(2 median distance^2) over a random sample of rows; "0.3 median": 0.3 times
        that, or any other multiple; "scale": 1/(n_features * X.var()); "auto": the multiple of the median's with which
        held-out rows are reconstructed best; None: 1/n_features.
    degree, coef0 : float, default=3, 1
        Of the "poly" (and "sigmoid") kernel.
    kernel_params : dict, optional
        Keyword arguments of a callable kernel.
    center : bool, default=True
        Centre the features.
    n_optimization_samples : int, optional
        Rows that the choice of points looks at; by default max(5000, 54 m).  More rows cost time in proportion
        and are the strongest lever on accuracy.  With the number of rows of X every rule looks at, and chooses from,
        all of them.
    max_evaluations : int, float, "auto" or None, default="auto"
        For a kernel that is a function, whose values are what a fit costs: how many of them it may compute, as a number
        or, as a float, in units of n_samples * n_support, which the pass over all rows takes.  What is left beside the
        pass is spent on the whole gram of a few rows, from which points are chosen and on which they are measured.
        "auto": as much as the gram of 1,000 rows, or half of the pass, for kernels of objects, and for functions of
        vectors so slow (by the time of a few values) that the gram of the rows looked at would take over a minute; no
        limit for others.  None: no limit.
    n_candidates : int or None, default=None
        For "gain", "improved" and "skfa": look at this many random rows a step instead of all; 59 are enough for one of
        the best 5 % with probability 0.95 (Smola & Schoelkopf 2000).
    n_swaps : int, default=0
        For "targeted": afterwards exchange the least useful row for the best one, at most this many times.
    max_residual : float or None, default=None
        For "residual": take rows, at most `n_support`, until none looked at is further (squared, in feature space)
        from the span of those taken: Franc & Hlavac's own stop.
    max_iter : int, default=13
        L-BFGS steps when points are moved.  Steps of m > 400 points cost more: (400/m)^2 of them are taken, at least 2.
    tol : float, default=5e-3
        The search has converged when its last quarter of steps gained less than this share of the captured variance;
        else a warning says so.  Points are moved no further once a step gains less than 1.2 tol^2 of it, or once they
        keep .9995 of what exact kernel PCA captures.
    half_life : float or None, default=None
        For `partial_fit`: after this many more rows a row weighs half of what it did.  None: all rows weigh the same.
    keep_stream : bool, default=False
        Whether `fit` keeps what `partial_fit` needs to add rows to it: the moments of all rows, and a sample, which is
        the `n_optimization_samples` rows (or fewer) that it looked at.  A saved model then holds these rows, and its
        file is that much larger.
    record_drift : bool, default=False
        For `partial_fit`: after every call, note in `drift_record_` how far the components have turned.  Every call
        then costs O(m^3) more.
    frozen_columns : list of ints or strs, or slice, optional
        Columns in which moved points keep the values of rows: categories, design variables.  Numbers of columns, or
        names of the columns of a frame.
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Threads for passes over the rows: None for as many as BLAS uses, -1 for all cores.  The result does not
        depend on it.
    batch_size : int or None, default=None
        Rows read at once from files and arrays on disk; None for 32 MB of them.
    device : str or None, default=None
        Where rows on the host are worked on: a torch device such as "cuda"; for dask rows, each worker's.  Arrays that
        are on a device already stay there whatever this says.
    verbose : bool, default=False
        Print how long each stage took, and of rows in blocks how many have been read, how many a second, and how long
        the rest takes if their number is known.  scikit-learn's callbacks are told the same.

    Attributes
    ----------
    expansion_ : KernelExpansion
        The fitted model.
    support_vectors_ : ndarray of shape (m, n_features)
    support_ : ndarray of shape (m,) or None
        Row numbers of the support points; None for points that are not rows.
    n_support_ : int
    dual_coef_ : ndarray of shape (m, M)
    offset_ : ndarray of shape (M,)
    eigenvalues_ : ndarray of shape (M,)
        As scikit-learn's KernelPCA: n_samples times the variance.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (M,)
        Variance of the scores on the training rows, and its share of the total feature-space variance.
    captured_ratio_ : float
        Captured variance over exact kernel PCA's, both on the same rows: all of them, or a sample and its halves,
        extrapolated to all.
    captured_ratio_interval_ : tuple of two floats
        Where that ratio lies with 90 % confidence, from the spread of the rows it was measured on; both ends are the
        ratio itself where it was measured on all rows.  Where the interval is wide, `captured_ratio_` is on its low
        side.
    component_agreement_ : ndarray of shape (M,)
        Correlation of each component's scores with exact kernel PCA's.  With at most 2,000 rows it is known from the
        fit; of more rows it is measured when it is first read, while X is still in memory, which costs about as much as
        a fit, and then belongs to the model.  After `partial_fit`: on the rows kept.  Where `max_evaluations` is a
        number, it is there only if the fit knows it.  `component_agreement(X)` measures it on any rows.
    subspace_agreement_ : float
        The smallest canonical correlation between all scores and exact kernel PCA's: near one where components that
        disagree have only traded places.
    captured_ratio_kind_ : "exact", "all rows", "sample" or "sample, extrapolated"
    captured_ratio_n_samples_ : int
        Number of those rows.
    selection_report_ : dict
        The rule that ran, the start that won and what each start captured, the sizes that "auto" tried.
    gamma_ : float
    n_evaluations_ : int
        After `fit` with a kernel that is a function: how many of its values were computed.
    n_iter_ : int
    converged_ : bool
    n_samples_seen_, n_features_in_ : int
    drift_ : float
        After `partial_fit`: the largest principal angle, in radians, between the components and what they were when
        points were last chosen; where the last call chose points again, what they were before that call.
    chosen_at_ : int
        After `partial_fit`: the number of rows that had come by then.
    drift_record_ : dict of lists
        After `partial_fit` with `record_drift`: "n_samples_seen", "drift", "explained" (the components' share of
        variance) and "chosen_at", one value a call.

    References
    ----------
    Schoelkopf, Smola & Mueller (1998), Nonlinear component analysis as a kernel eigenvalue problem.
    Williams & Seeger (2001), Using the Nystroem method to speed up kernel machines.
    Smola & Schoelkopf (2000), Sparse greedy matrix approximation for machine learning ("gain").
    Franc & Hlavac (2003), Greedy algorithm for a training set reduction in the kernel methods ("residual").
    Epperly, Tropp & Webber (2024), Embrace rejection: kernel matrix approximation by accelerated randomly pivoted
    Cholesky ("rpcholesky").
    Musco & Musco (2017), Recursive sampling for the Nystroem method ("leverage").

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kernelsieve import SparseKernelPCA
    >>> X = load_digits().data
    >>> model = SparseKernelPCA(n_components=10, n_support=20, random_state=0).fit(X)
    >>> model.transform(X).shape
    (1797, 10)
    >>> bool(model.captured_ratio_ > 0.98)
    True
    """

    _policy = Policy(keeps_negative=True)
    _file_layout = {
        "_stream": "StreamState[m, d]? optional",
        "_settled": "dict optional",
        "n_evaluations_": "int optional",
    }

    n_components: Any = parameter(2, at_least(1), INNER_SHARE, None, positional=True)
    n_support: int | float | str = parameter("auto", at_least(1), SHARE, one_of("auto"))
    selection: Any = parameter("optimized", one_of("optimized", *SELECTORS), "array-like", "sparse matrix", callable)
    variance: float = parameter(0.99, INNER_SHARE)
    agreement: float | None = parameter(None, INNER_SHARE, None)
    n_optimization_samples: int | None = parameter(None, at_least(2), None)
    max_evaluations: int | float | str | None = parameter("auto", at_least(1), more_than(0), one_of("auto"), None)
    n_candidates: int | None = parameter(None, at_least(1), None)
    n_swaps: int = parameter(0, at_least(0))
    max_residual: float | None = parameter(None, more_than(0), None)
    max_iter: int = parameter(13, at_least(1))
    tol: float = parameter(5e-3, at_least(0, Real))
    half_life: float | None = parameter(None, more_than(0), None)
    keep_stream: bool = parameter(False, "boolean")
    record_drift: bool = parameter(False, "boolean")
    frozen_columns: Any = parameter(None, "array-like", slice, None)

    def _n_support(self, rows: Rows) -> int | None:
        """The requested number of points; None for "auto"."""
        asked: Any = self.n_support
        if isinstance(asked, str):
            return None
        return int(asked) if isinstance(asked, Integral) else math.ceil(asked * rows.n_samples)

    @property
    def _wanted_components(self) -> int | None:
        """The requested number of components; None if a share of the variance determines it."""
        return int(self.n_components) if isinstance(self.n_components, Integral) else None

    @property
    def _least_points(self) -> int:
        return (self._wanted_components or 1) + int(self.center)

    def _remembered_kernel(self, rows: SampledRows) -> tuple[Kernel, float]:
        """The kernel determined on these rows; if its values are costly, it remembers those among them."""
        kernel, gamma = self._kernel_on(rows)
        limited = self.max_evaluations not in (None, "auto")
        return remembered(kernel.thrifty if limited else kernel, rows), gamma

    def _request(self, rows: Rows) -> RowRequest:
        by_rule, n_support = isinstance(self.selection, str), self._n_support(rows)
        n_points = n_support or (self._wanted_components or 1) + self._plan.first_extra_points
        if by_rule and n_points < self._least_points:
            raise TooFewPoints(
                "n_support",
                self.n_support,
                f"({n_points} points) is too few for n_components={self.n_components}"
                f"{' with centring' if self.center else ''}",
                f"give at least {self._least_points}",
            )
        kernel = kernel_of(self.kernel)
        most = min(n_points, rows.n_samples) if rows.length_known else n_points
        moved = by_rule and self.selection == "optimized"
        few = self.n_optimization_samples is not None and self.n_optimization_samples < 2 * self._plan.evaluation_rows
        n_rows, plan = self.n_optimization_samples or self._plan.sample_size(most), self._plan
        budget = self._budget(rows, n_support, n_rows)
        if budget is not None:
            plan = budget.plan(plan, rows.n_samples, most)
            n_rows = rows.n_samples if budget.covers_all(rows.n_samples, most) else budget.n_chosen_from(most)
        return RowRequest(
            n_rows,
            self.variance if self.n_components is None else self.n_components,
            least_rows=self._least_points,
            # user-given points, and points moved on many rows, fit the rows they were chosen by hardly better than
            # others
            fresh=by_rule and (few or not moved or not (kernel.differentiable and kernel.moves)),
            row_space=by_rule and self.frozen_columns is None,
            plan=plan,
            n_moved=n_support if moved else None,
            frozen_columns=self.frozen_columns,
            kernel_on=self._remembered_kernel,
        )

    def _budget(self, rows: Rows, n_support: int | None, n_rows: int) -> Budget | None:
        """The limit on kernel values for choosing points; None if they are not counted, or the number of rows is
        given.

        Without a number from the user, kernels of objects are treated as costly, and functions that are slow on the
        `n_rows` rows that would be looked at.
        """
        kernel, asked = kernel_of(self.kernel), self.max_evaluations
        if asked is None or not kernel.costly or kernel.differentiable or not isinstance(self.selection, str):
            return None
        if asked == "auto" and (self.n_optimization_samples is not None or not self._is_costly(kernel, rows, n_rows)):
            return None
        if self.n_optimization_samples is not None:
            raise ValueError("n_optimization_samples and max_evaluations both say how many rows to look at: give one")
        return Budget.of(asked, rows.n_samples, n_support)

    def _is_costly(self, kernel: Kernel, rows: Rows, n_rows: int) -> bool:
        if kernel.of_objects or not isinstance(rows, ArrayRows) or not is_remembered(rows.X):
            return kernel.of_objects
        n_rows = min(n_rows, rows.n_samples)
        n_values = n_rows * (n_rows + 1) / 2
        if n_values <= DEFAULT_VALUES:
            return False
        few = take_rows(rows.X, np.arange(2 * TIMED_ROWS))
        return is_slow(bind_callable(self.kernel, self.kernel_params, few), few, n_values)

    @property
    def _effort(self) -> Effort:
        options = {name: getattr(self, name) for name in RULE_OPTIONS}
        return Effort(self.n_optimization_samples, self.max_iter, self.tol, options)

    def _validate_params(self) -> None:
        super()._validate_params()
        by_rule = isinstance(self.selection, str)
        if self.agreement is not None and (self.n_support != "auto" or self.max_residual is not None or not by_rule):
            raise ValueError(
                f"agreement={self.agreement} is a target for n_support='auto' and a rule, without max_residual: with "
                f"n_support={self.n_support!r}{'' if by_rule else ' and points of your own'} leave it None, and read "
                "component_agreement_"
            )
        if by_rule:  # whether "optimized" chooses rows, which could be swapped, depends on the kernel
            effort, ignored = self._effort, {"n_swaps": 0} if self.selection == "optimized" else {}
            replace(effort, options={**effort.options, **ignored}).check(ALIASES.get(self.selection, self.selection))

    def _points(self, problem: Problem) -> Choice:
        rows = problem.sample.evaluation
        check_kernel_values(rows.gram)
        diagonal = to_numpy(namespace(rows.gram).linalg.diagonal(rows.gram))
        if not rows.exact.captured > DEPENDENT * float(np.abs(diagonal).mean()):
            raise ValueError(nothing_to_explain(rows))
        effort, sample = self._effort, problem.sample
        # looking at more rows than these would exceed the budget
        if sample.plan.all_evaluate and not sample.rows.whole:
            effort = replace(effort, n_samples=sample.size)
        chooser = Chooser(problem, effort, self.selection)
        warn_of_idle_options(self, chooser.rule_name)
        choice = self._chosen(chooser)
        history = choice.selection.history
        history.setdefault("rule", chooser.rule_name)
        if isinstance(self.selection, str) and self.selection == "optimized" and is_function(self.kernel):
            moved = history["rule"] == "optimized"
            history["derivative"] = "of the kernel by torch" if moved else "none: points are rows, or centres of rows"
            if not moved:
                warn(
                    "selection='optimized' moves no points of this kernel, which is a function without a derivative: "
                    "it chose among rows. Write it with kernelsieve.kernels, or in torch and give torch rows; or give "
                    "selection='targeted'"
                )
        return choice

    def _chosen(self, chooser: Chooser) -> Choice:
        problem = chooser.problem
        n_support, n_samples = self._n_support(problem.rows), problem.rows.n_samples
        if not isinstance(self.selection, str):
            selection = own_points(self.selection, problem, n_support)
            if selection.n_support < self._least_points:
                given, least = selection.n_support, self._least_points
                raise ValueError(f"selection gives {given} points, at least {least} are needed")
            if n_support is not None and selection.n_support != n_support:
                warn(
                    f"n_support={self.n_support} asks for {n_support} points, and selection gives "
                    f"{selection.n_support}: these are taken. Leave n_support='auto' where selection gives the points"
                )
            return Choice(selection, problem)
        if n_support is None:
            return chooser.automatic(self.variance, self.agreement)
        if n_support > n_samples:
            warn(
                f"n_support={n_support} is more than the {n_samples} rows: all of them are support, which is exact "
                "kernel PCA"
            )
        return chooser.fixed(min(n_support, n_samples))

    def _components(self, choice: Choice, span: Span) -> Found:
        selection = choice.selection
        attributes = {
            "selection_report_": selection.history,
            "n_iter_": max(1, selection.n_steps),  # at least the one pass over the rows
            "converged_": selection.converged,
        }
        found = Found.best(choice, span, choice.problem.sample.n_components, attributes)
        if not selection.converged:
            warn(
                f"moving the points had not converged after {self._steps_allowed(selection)}: "
                f"more would still gain over tol={self.tol} of the captured variance",
                ConvergenceWarning,
            )
        return replace(found, best_on_points=True)

    def _steps_allowed(self, selection: Selection) -> str:
        """How many steps `max_iter` allows for this number of points, in words."""
        if selection.n_support <= (many := self._plan.many_points):
            return f"max_iter={self.max_iter} steps"
        share = (selection.n_support / many) ** 2
        return (
            f"{selection.n_steps} steps, as many as max_iter={self.max_iter} allows {selection.n_support} points, "
            f"1/{share:.3g} of it: give max_iter={math.ceil(share * self.max_iter)} for {self.max_iter} steps"
        )


CENTRES = ("optimized", "kmeans")  # rules whose points need not be rows


def idle_options(model: Any, rule_name: str) -> dict[str, str]:
    """Names of options of a SparseKernelPCA that were given and have no effect, each with the reason.

    `rule_name` is the rule that runs, which for "optimized" depends on the kernel.
    """
    kernel, by_rule = kernel_of(model.kernel), isinstance(model.selection, str)
    found: dict[str, str] = {}
    if rule_name != "optimized":
        asked = model.selection if by_rule else f"a {rule_name} selection"
        found |= dict.fromkeys(("max_iter", "tol"), f"no points are moved with selection={asked!r} under this kernel")
    if not by_rule or kernel.rows_only or model.selection not in CENTRES:
        found["frozen_columns"] = "no points are moved, and none are centres"
    if model.n_components is not None:  # otherwise `variance` determines the number of components
        if not by_rule:
            found["variance"] = "selection gives the points"
        elif model.max_residual is not None:
            found["variance"] = f"max_residual={model.max_residual} says how many points"
        elif model.n_support != "auto":
            found["variance"] = f"n_support={model.n_support} says how many points"
    if model.max_evaluations is not None and (not by_rule or not kernel.costly or kernel.differentiable):
        found["max_evaluations"] = "it is for a kernel that is a function, and for points that are rows, by a rule"
    if kernel.precomputed or is_function(model.kernel):
        found |= dict.fromkeys(("gamma", "degree", "coef0"), "the kernel's values are given, by a gram or a function")
    defaults = {field.name: field.default for field in dataclasses.fields(model)}
    return {name: why for name, why in found.items() if _given(getattr(model, name), defaults[name])}


def warn_of_idle_options(model: Any, rule_name: str) -> None:
    """Warn of each option that has no effect, with the reason."""
    for name, why in idle_options(model, rule_name).items():
        warn(f"{name}={getattr(model, name)!r} has no effect: {why}")


def _given(value: Any, default: Any) -> bool:
    if value is None or default is None:
        return value is not default
    return bool(value != default)
