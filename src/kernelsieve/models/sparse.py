"""SparseKernelPCA: the front door."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..arrays import namespace, to_numpy
from ..errors import TooFewPoints, TooManyComponents, warn
from ..fit.captured_ratio import NO_VARIANCE, CapturedRatio, components_for, ratio_of_points
from ..fit.parameters import INNER_SHARE, SHARE, BlockParameters, at_least, estimator, more_than, one_of, parameter
from ..fit.problem import Problem, nothing_to_explain
from ..fit.sample import Sample, default_sample_size
from ..fit.span import Span
from ..kernels import kernel_type
from ..rows import Rows
from ..rows.memory import ArrayRows, SampledRows
from ..rows.row_space import ShortSide, short_side
from ..rules.base import Choice
from ..rules.registry import ALIASES, SELECTORS
from ..search.chooser import FIRST_EXTRA_POINTS, Chooser, Effort
from ..search.subspace import Coordinates, coordinates_beside_exact
from ..search.user_points import own_points
from ..spectrum.whitening import check_kernel_values
from ..streaming.partial_fit import PartialFit
from ..threads import one_blas_thread
from .base import Found, KernelTransformer


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
        Number of components M.  A float between 0 and 1: as many as exact kernel PCA, on the reference rows, needs to
        explain that share of the total variance; None: the same for the share `variance`.
    n_support : int, float or "auto", default="auto"
        Number of support points m: an int, a fraction of the rows, or "auto", the fewest points that keep `variance`
        of what exact kernel PCA with the same `n_components` keeps.
    selection : str, array or callable, default="optimized"
        How points are chosen.  "optimized": moved freely (rows by "targeted" for kernels without a gradient).
        "kmeans": centres.  Rows that explain most of the leading components: "targeted"; of all rows: "gain" (also
        known as "sgma", "matching-pursuit", "akfa"), "improved" (with IKPCA's ridge), "skfa"; worst explained so far:
        "residual"; far from each other: "dissimilar" (ESKPCA's nodes), "farthest" (k-centre); at random: "rpcholesky"
        (by residual), "leverage" (by ridge leverage score), "uniform".  Or an integer array (m,): these rows; an
        array (m, d): these points; a callable ``f(X, n_support, *, kernel, rng)`` that returns either.
    variance : float, default=0.99
        Share of exact kernel PCA's captured variance that "auto" keeps of rows like the training rows.  Points fit the
        rows they were chosen for a little better than others, so where few rows carry the variance it takes more.
    kernel : str or callable, default="rbf"
        "rbf", "matern", "poly", "linear", "sigmoid", "cosine", "laplacian", "precomputed", or a callable: vectorised,
        ``k(X, Y) -> (n, m)``, or on two rows, ``k(x, y) -> float``.
    gamma : float, "median", "scale" or None, default="median"
        Kernel coefficient.  "median": 1/(2 median distance^2) over a random sample of rows; "scale":
        1/(n_features * X.var()); None: 1/n_features.
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
    n_candidates : int or None, default=None
        For "gain", "improved" and "skfa": look at so many random rows a step, not at all; 59 are enough for one of
        the best 5 % with probability 0.95 (Smola & Schoelkopf 2000).
    n_swaps : int, default=0
        For "targeted": afterwards exchange the least useful row for the best one up to so many times.
    max_residual : float or None, default=None
        For "residual": take rows, at most `n_support`, until none looked at is further (squared, in feature space)
        from the span of those taken: Franc & Hlavac's own stop.
    max_iter : int, default=13
        L-BFGS steps when points are moved.
    tol : float, default=5e-3
        The search has converged when its last quarter of steps gained less than this share of the captured variance.
    half_life : float or None, default=None
        For `partial_fit`: after so many more rows a row weighs half of what it did.  None: all rows weigh the same.
    record_drift : bool, default=False
        For `partial_fit`: after every call, note in `drift_record_` how far the components have turned.  Every call
        then costs O(m^3) more.
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Threads for passes over the rows: None for as many as BLAS uses, -1 for all cores.  The result does not
        depend on it.
    batch_size : int or None, default=None
        Rows read at once from files and arrays on disk; None for 32 MB of them.
    device : str or None, default=None
        Where rows on the host are worked on: a torch device such as "cuda"; for dask rows, each worker's.  Arrays that
        are on a device already stay there whatever this says.

    Attributes
    ----------
    expansion_ : KernelExpansion
        The fitted model.
    support_vectors_ : ndarray of shape (m, n_features)
    support_ : ndarray of shape (m,) or None
        Row numbers of the support points; None for points that are no rows.
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
    captured_ratio_kind_ : "exact", "all rows", "sample" or "sample, extrapolated"
    captured_ratio_n_samples_ : int
        Number of those rows.
    selection_report_ : dict
        The rule that ran, the start that won and what each start captured, the sizes that "auto" tried.
    gamma_ : float
    n_iter_ : int
    converged_ : bool
    n_samples_seen_, n_features_in_ : int
    drift_ : float
        After `partial_fit`: the largest principal angle, in radians, between the components and what they were when
        points were last chosen.
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

    _keeps_negative_part = True
    _file_layout = {"_stream": "StreamState[m, d]? optional", "_settled": "dict optional"}

    n_components: Any = parameter(2, at_least(1), INNER_SHARE, None, positional=True)
    n_support: int | float | str = parameter("auto", at_least(1), SHARE, one_of("auto"))
    selection: Any = parameter("optimized", one_of("optimized", *SELECTORS), "array-like", "sparse matrix", callable)
    variance: float = parameter(0.99, INNER_SHARE)
    n_optimization_samples: int | None = parameter(None, at_least(2), None)
    n_candidates: int | None = parameter(None, at_least(1), None)
    n_swaps: int = parameter(0, at_least(0))
    max_residual: float | None = parameter(None, more_than(0), None)
    max_iter: int = parameter(13, at_least(1))
    tol: float = parameter(5e-3, at_least(0, Real))
    half_life: float | None = parameter(None, more_than(0), None)
    record_drift: bool = parameter(False, "boolean")

    def _n_support(self, rows: Rows) -> int | None:
        """The number of points asked for; None for "auto"."""
        asked: Any = self.n_support
        if isinstance(asked, str):
            return None
        return int(asked) if isinstance(asked, Integral) else math.ceil(asked * rows.n_samples)

    @property
    def _wanted_components(self) -> int | None:
        """The number of components asked for; None where a share of the variance settles it."""
        return int(self.n_components) if isinstance(self.n_components, Integral) else None

    def _with_components(self, sample: Sample) -> Sample:
        if self._wanted_components is not None:
            return sample
        share = self.variance if self.n_components is None else float(self.n_components)
        return replace(sample, n_components=components_for(share, sample.evaluation))

    @property
    def _least_points(self) -> int:
        return (self._wanted_components or 1) + int(self.center)

    def _sample_size(self, rows: Rows) -> int:
        n_support = self._n_support(rows) or (self._wanted_components or 1) + FIRST_EXTRA_POINTS
        if isinstance(self.selection, str) and n_support < self._least_points:
            raise TooFewPoints(
                "n_support",
                self.n_support,
                f"({n_support} points) is too few for n_components={self.n_components}"
                f"{' with centring' if self.center else ''}",
                f"give at least {self._least_points}",
            )
        most = min(n_support, rows.n_samples) if rows.length_known else n_support
        return self.n_optimization_samples or default_sample_size(most)

    def _check_sample(self, rows: SampledRows) -> None:
        if rows.whole and len(rows.indices) < self._least_points:
            raise TooManyComponents(
                self.n_components,
                len(rows.indices),
                f"needs at least {self._least_points} different rows{' with centring' if self.center else ''}",
                f"X has {len(rows.indices)}",
            )

    @property
    def _effort(self) -> Effort:
        names = ("max_iter", "tol", "n_candidates", "n_swaps", "max_residual")
        return Effort(self.n_optimization_samples, **{name: getattr(self, name) for name in names})

    def _validate_params(self) -> None:
        super()._validate_params()
        if isinstance(self.selection, str):  # whether "optimized" points are rows to be swapped depends on the kernel
            effort = replace(self._effort, n_swaps=0) if self.selection == "optimized" else self._effort
            effort.check(ALIASES.get(self.selection, self.selection))

    def _short_side(self, rows: Rows) -> ShortSide | None:
        if type(rows) is not ArrayRows or not rows.wide or not isinstance(self.selection, str):
            return None
        kind = kernel_type(self.kernel)
        return short_side(rows.X, about_origin=kind.stationary) if kind.in_row_space else None

    def _look_ahead(self, rows: Rows, sample: Sample) -> Coordinates | None:
        if isinstance(self.selection, str) and self.selection == "optimized" and (n_support := self._n_support(rows)):
            return coordinates_beside_exact(sample, n_support)
        return None

    def _check_problem(self, problem: Problem) -> None:
        rows = problem.sample.evaluation
        check_kernel_values(rows.gram)
        diagonal = to_numpy(namespace(rows.gram).linalg.diagonal(rows.gram))
        if not rows.exact.captured > NO_VARIANCE * float(np.abs(diagonal).mean()):
            raise ValueError(nothing_to_explain(rows))

    def _points(self, problem: Problem) -> Choice:
        chooser = Chooser(problem, self._effort, self.selection)
        choice = self._chosen(chooser)
        choice.selection.history.setdefault("rule", chooser.rule_name)
        return choice

    def _chosen(self, chooser: Chooser) -> Choice:
        problem = chooser.problem
        n_support, n_samples = self._n_support(problem.rows), problem.rows.n_samples
        if not isinstance(self.selection, str):
            selection = own_points(self.selection, problem, n_support)
            if selection.n_support < self._least_points:
                given, least = selection.n_support, self._least_points
                raise ValueError(f"selection gives {given} points, at least {least} are needed")
            return Choice(selection, problem)
        if n_support is None:
            return chooser.automatic(self.variance)
        if n_support > n_samples:
            warn(
                f"n_support={n_support} is more than the {n_samples} rows: all of them are support, which is exact "
                "kernel PCA"
            )
        return chooser.fixed(min(n_support, n_samples))

    def _blas_threads(self, choice: Choice) -> AbstractContextManager[None]:
        # all rows as support are the one large dense problem there is: there BLAS may have its threads
        return nullcontext() if choice.selection.exhaustive else one_blas_thread()

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
                f"moving the points had not converged after max_iter={self.max_iter} steps: more would still gain over "
                f"tol={self.tol} of the captured variance",
                ConvergenceWarning,
            )
        return found

    def _ratio(self, choice: Choice, sample: Sample) -> CapturedRatio:
        seen = choice.problem.seen(choice.selection)
        return ratio_of_points(seen, sample, choice.selection, choice.problem.rows.n_samples)

    def _bounded(self, ratio: CapturedRatio, sample: Sample, span: Span) -> CapturedRatio:
        return ratio.at_least(span.surely_captured(float(self.explained_variance_.sum())))
