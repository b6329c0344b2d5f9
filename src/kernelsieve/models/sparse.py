"""SparseKernelPCA, the main estimator of the package.

An option that has no effect in combination with the others is never ignored silently: a warning names it.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse
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
from ..rows.rows import ArrayRows, Rows
from ..rows.sampling import SampledRows
from ..rules.base import Choice, Selection
from ..rules.registry import ALIASES, RULE_OPTIONS, SELECTORS
from ..search.chooser import Chooser, Effort, own_points
from ..search.lbfgs import LITTLE
from ..spectrum.whitening import check_kernel_values
from ..streaming.partial_fit import PartialFit
from .base import Found, KernelTransformer, Policy, RowRequest


@estimator
class SparseKernelPCA(PartialFit, BlockParameters, KernelTransformer):
    """Kernel PCA on a few support points, moved to where they capture most variance.

    Finds m points S and M components in span(phi(S)) that maximise the captured variance

        sum_k var(v_k' phi(x)),    v_k = sum_i A_ik phi(s_i),   v_k' v_l = delta_kl

    over the rows.  For given points, the components are optimal: they solve an m x m eigenproblem on moments gathered
    in one pass over the rows.  The points are chosen by `selection`; by default they are moved freely by L-BFGS to
    maximise the captured variance.  If all rows are support points, the result is exact kernel PCA.

    Cost: a fit takes O(N m (d + m)) time and O(m^2) memory, in one pass over the rows after the search for points on a
    sample of a few thousand.  A transform takes O(m (d + M)) time per row.  No N x N or N x m matrix is ever stored.

    Parameters
    ----------
    n_components : int, float or None, default=2
        Number of components M.  A float between 0 and 1 takes as many components as exact kernel PCA, on the sampled
        rows, needs to explain that share of the total variance.  None takes `variance` as that share.
    n_support : int, float or "auto", default="auto"
        Number of support points m, or a fraction of the rows.  "auto" takes the fewest points that keep the share
        `variance` of what exact kernel PCA with as many components captures.
    selection : str, array or callable, default="optimized"
        How points are chosen.  "optimized" moves points freely; for a kernel without a gradient it takes the best of
        several rules that choose rows.  "kmeans" takes k-means centres.  The other rules choose rows.  "targeted"
        takes the rows that best explain the leading components.  "gain" (also called "sgma", "matching-pursuit" or
        "akfa"), "improved" (with the ridge of IKPCA) and "skfa" take the rows that best explain all rows.  "residual"
        takes, one after the other, the row that is explained worst so far.  "dissimilar" (the nodes of ESKPCA) and
        "farthest" (k-centre) take rows that are far from each other.  "rpcholesky", "leverage" and "uniform" draw rows
        at random: by residual, by ridge leverage score, or uniformly.  An integer array (m,) gives row numbers, an
        array (m, d) gives the points themselves, and a callable ``f(X, n_support, *, kernel, rng)`` returns either.
    variance : float, default=0.99
        For n_support="auto" without `max_residual`: the share of the variance captured by exact kernel PCA that the
        points should keep, on new rows like the training rows.  Points fit the rows by which they were chosen a little
        better than others, so more points are taken if few rows carry most of the variance.
    agreement : float or None, default=None
        For n_support="auto": the scores of each component must also have at least this correlation with those of exact
        kernel PCA (`component_agreement_`), on the sampled rows.
    kernel : str, Kernel or callable, default="rbf"
        "rbf", "matern", "poly", "linear", "sigmoid", "cosine", "laplacian" or "precomputed"; a kernel from
        `kernelsieve.kernels`, which has its own parameters; a kernel of scikit-learn's Gaussian processes; or a
        callable, either vectorised, ``k(X, Y) -> (n, m)``, or on two rows, ``k(x, y) -> float``.  Several threads may
        call it at the same time; if it keeps state between calls, give ``n_jobs=1``.
    gamma : float, "median", "0.3 median", "scale", "auto" or None, default="median"
        Kernel coefficient.  "median": 1/(2 median distance^2) over a random sample of rows; "0.3 median": 0.3 times
        this value, or any other multiple of it; "scale": 1/(n_features * X.var()); "auto": the multiple of the
        "median" value that reconstructs held-out rows best; None: 1/n_features.
    degree, coef0 : float, default=3, 1
        `degree` is the degree of the "poly" kernel, `coef0` the constant term of the "poly" and "sigmoid" kernels.
    kernel_params : dict, optional
        Keyword arguments of a callable kernel.
    center : bool, default=True
        Centre the features.
    n_optimization_samples : int, optional
        Number of sampled rows from which points are chosen; by default max(5000, 54 m).  Time is proportional to it,
        and no other parameter has as much effect on accuracy.  With the number of rows of X, every rule chooses from
        all rows.
    max_evaluations : int, float, "auto" or None, default="auto"
        For a kernel that is a function, whose values dominate the cost of a fit: how many values a fit may compute.  An
        int is this number; a float is in units of n_samples * n_support, which is what the pass over all rows takes.
        The values that the pass leaves are spent on the whole gram of a few rows, by which points are chosen and
        measured.  "auto" limits only kernels of objects, and functions of vectors so slow that the gram of the sampled
        rows would take over a minute (estimated from a few values): in addition to the pass, they may compute the gram
        of 1,000 rows, or half as many values as the pass if that is more.  None sets no limit.
    n_candidates : int or None, default=None
        For "gain", "improved" and "skfa": compare this many random rows in each step instead of all.  With 59 rows, the
        best of them is among the best 5 % of all with probability 0.95 (Smola & Schoelkopf 2000).
    n_swaps : int, default=0
        For "targeted": at the end, exchange the least useful row for the best other row, at most this many times.
    max_residual : float or None, default=None
        For "residual": the stopping rule of Franc & Hlavac.  No more rows are taken, even if there are fewer than
        `n_support`, once the squared distance of every sampled row from the span of the rows taken, in feature space,
        is at most this.
    max_iter : int, default=13
        Number of L-BFGS steps when points are moved.  Steps with m > 400 points cost more, so only the fraction
        (400/m)^2 of them is taken, but at least 2.
    tol : float, default=5e-3
        The search has converged if the last quarter of its steps gained less than this share of the captured variance;
        otherwise a ConvergenceWarning is issued.  The search ends early when a step gains less than the share
        0.1 tol^2, or when the points keep .9995 of what exact kernel PCA captures.
    half_life : float or None, default=None
        For `partial_fit`: the weight of a row is halved after this many further rows.  None: all rows weigh the same.
    keep_stream : bool, default=False
        Whether `fit` keeps what `partial_fit` needs to add more rows: the moments of all rows, and the sample of at
        most `n_optimization_samples` rows.  A saved model then contains these rows, and its file is larger.
    record_drift : bool, default=False
        For `partial_fit`: record in `drift_record_`, after every call, how far the components have turned.  This adds
        O(m^3) time to every call.
    frozen_columns : list of ints or strs, or slice, optional
        Columns in which moved points keep the values of rows, such as categories or design variables: column numbers,
        or the column names of a dataframe.
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Number of threads for passes over the rows: None for as many as BLAS uses, -1 for all cores.  The result does
        not depend on it.
    batch_size : int or None, default=None
        Number of rows read at a time from files and arrays on disk; None for 32 MB of rows.
    device : str or None, default=None
        The torch device on which rows from the host are processed, such as "cuda"; dask rows are processed on such a
        device of each worker.  Arrays that are already on a device are always processed there.
    verbose : bool, default=False
        Print how long each stage took.  For rows in blocks, also print how many have been read, how many per second,
        and the remaining time if their number is known.  scikit-learn's callbacks receive the same information.

    Attributes
    ----------
    expansion_ : KernelExpansion
        The fitted model.
    support_vectors_ : ndarray of shape (m, n_features)
    support_ : ndarray of shape (m,) or None
        Row numbers of the support points; None if the points are not rows.
    n_support_ : int
    dual_coef_ : ndarray of shape (m, M)
    offset_ : ndarray of shape (M,)
    eigenvalues_ : ndarray of shape (M,)
        n_samples times the variance, as in scikit-learn's KernelPCA.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (M,)
        Variance of the scores on the training rows, and its share of the total feature-space variance.
    captured_ratio_ : float
        Captured variance divided by that of exact kernel PCA on the same rows.  These are all rows or, for larger data,
        a sample; in the latter case the ratio is extrapolated to all rows, from the sample and its halves.
    captured_ratio_interval_ : tuple of two floats
        A 90 % confidence interval for the captured ratio, from the spread of the rows it was measured on.  If it was
        measured on all rows, both ends are the ratio itself.  If the interval is wide, `captured_ratio_` lies towards
        its lower end.
    component_agreement_ : ndarray of shape (M,)
        Correlation of each component's scores with those of exact kernel PCA.  For at most 2,000 rows, the fit measures
        it.  For more rows, it is measured when it is first read, which takes about as long as a fit and requires that X
        is still in memory; the result is then kept in the model.  After `partial_fit`, it is measured on the rows that
        the model keeps.  If `max_evaluations` is a number, it is available only if the fit has measured it.
        `component_agreement(X)` measures it on any rows.
    subspace_agreement_ : float
        The smallest canonical correlation between the scores and those of exact kernel PCA.  If it is near one,
        components with a low agreement have only traded places.
    captured_ratio_kind_ : "exact", "all rows", "sample" or "sample, extrapolated"
        How `captured_ratio_` is known.
    captured_ratio_n_samples_ : int
        Number of rows on which `captured_ratio_` was measured.
    selection_report_ : dict
        The rule by which points were chosen, the start that won and the variance each start captured, and the numbers
        of points that n_support="auto" tried.
    gamma_ : float
    n_evaluations_ : int
        After `fit` with a kernel that is a function: how many kernel values were computed.
    n_iter_ : int
    converged_ : bool
    n_samples_seen_, n_features_in_ : int
    drift_ : float
        After `partial_fit`: the largest principal angle, in radians, between the components now and those when points
        were last chosen.  If the last call chose points again, the angle between the components before and after it.
    chosen_at_ : int
        After `partial_fit`: the number of rows that had arrived when points were last chosen.
    drift_record_ : dict of lists
        After `partial_fit` with `record_drift`: lists "n_samples_seen", "drift", "explained" (the share of the variance
        that the components explain) and "chosen_at", with one value for each call.

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

    _policy = Policy(keeps_negative=True, dense=True)
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
    tol: float = parameter(LITTLE, at_least(0, Real))
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
        """The kernel determined on these rows; if it is a user's function, it remembers its values between them."""
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
        if (
            by_rule
            and n_support is None
            and self.n_optimization_samples is None
            and is_sparse(rows, plan.sparse_evaluated)
        ):
            n_rows, plan = plan.sparse_evaluated, plan.for_sparse()
        budget = self._budget(rows, n_support, n_rows)
        if budget is not None:
            plan = budget.plan(plan, rows.n_samples, most)
            n_rows = rows.n_samples if budget.covers_all(rows.n_samples, most) else budget.n_chosen_from(most)
        return RowRequest(
            n_rows,
            self.variance if self.n_components is None else self.n_components,
            least_rows=self._least_points,
            # Fresh rows are not needed for points given by the user or moved on many rows: these fit the sampled rows
            # hardly better than others.
            fresh=by_rule and (few or not moved or not (kernel.differentiable and kernel.moves)),
            row_space=by_rule and self.frozen_columns is None,
            plan=plan,
            n_moved=n_support if moved else None,
            frozen_columns=self.frozen_columns,
            kernel_on=self._remembered_kernel,
        )

    def _budget(self, rows: Rows, n_support: int | None, n_rows: int) -> Budget | None:
        """The limit on kernel values for choosing points; None if there is no limit.

        With max_evaluations="auto", only costly kernels have a limit: kernels of objects, and functions that are slow
        on the `n_rows` rows that would be sampled.  There is none if the user gives the number of rows to sample.
        """
        kernel, asked = kernel_of(self.kernel), self.max_evaluations
        if asked is None or not kernel.costly or kernel.differentiable or not isinstance(self.selection, str):
            return None
        if asked == "auto" and (self.n_optimization_samples is not None or not self._is_costly(kernel, rows, n_rows)):
            return None
        if self.n_optimization_samples is not None:
            raise ValueError("n_optimization_samples and max_evaluations both say how many rows to look at: give one")
        return Budget.of(asked, rows.n_samples, n_support, kernel.row_values)

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
        if by_rule:  # n_swaps is not checked for "optimized", because only some kernels make it choose rows
            effort, ignored = self._effort, {"n_swaps": 0} if self.selection == "optimized" else {}
            replace(effort, options={**effort.options, **ignored}).check(ALIASES.get(self.selection, self.selection))

    def _points(self, problem: Problem) -> Choice:
        rows = problem.sample.measured_on
        check_kernel_values(rows.gram)
        diagonal = to_numpy(namespace(rows.gram).linalg.diagonal(rows.gram))
        if not rows.exact.captured > DEPENDENT * float(np.abs(diagonal).mean()):
            raise ValueError(nothing_to_explain(rows))
        effort, sample = self._effort, problem.sample
        # Sampling more rows than these would exceed the budget.
        if sample.plan.all_evaluate and not sample.rows.whole:
            effort = replace(effort, n_samples=sample.size)
        chooser = Chooser(problem, effort, self.selection)
        choice = self._chosen(chooser)
        if "rule" not in choice.history:
            # If all sparse rows were taken, the rule was not needed; to know it would cost a projection of the rows.
            unneeded = choice.selection.exhaustive and scipy.sparse.issparse(sample.rows.X)
            by_name = unneeded and isinstance(self.selection, str) and not is_function(self.kernel)
            choice = choice.noting(rule=ALIASES.get(self.selection, self.selection) if by_name else chooser.rule_name)
        for name, why in idle_options(self, choice.history["rule"]).items():
            warn(f"{name}={getattr(self, name)!r} has no effect: {why}")
        if isinstance(self.selection, str) and self.selection == "optimized" and is_function(self.kernel):
            moved = choice.history["rule"] == "optimized"
            said = "of the kernel by torch" if moved else "none: points are rows, or centres of rows"
            choice = choice.noting(derivative=said)
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
            "selection_report_": choice.history,
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
        """A phrase that says how many steps `max_iter` allows for this number of points."""
        if selection.n_support <= (many := self._plan.many_points):
            return f"max_iter={self.max_iter} steps"
        share = (selection.n_support / many) ** 2
        return (
            f"{selection.n_steps} steps, as many as max_iter={self.max_iter} allows {selection.n_support} points, "
            f"1/{share:.3g} of it: give max_iter={math.ceil(share * self.max_iter)} for {self.max_iter} steps"
        )


CENTRES = ("optimized", "kmeans")  # rules whose points need not be rows


def is_sparse(rows: Rows, most: int) -> bool:
    """Whether the rows are a sparse matrix of at most `most` rows."""
    return isinstance(rows, ArrayRows) and scipy.sparse.issparse(rows.X) and rows.n_samples <= most


def idle_options(model: Any, rule_name: str) -> dict[str, str]:
    """Options of a SparseKernelPCA that were given but have no effect, each with the reason.

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


def _given(value: Any, default: Any) -> bool:
    if value is None or default is None:
        return value is not default
    return bool(value != default)
