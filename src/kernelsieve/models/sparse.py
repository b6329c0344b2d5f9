"""SparseKernelPCA: the front door."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from ..fit.advice import split_captured
from ..fit.expansion import Components, all_rows_components, subset_components
from ..fit.moments import check_kernel_values, gram_of, whiten
from ..fit.preimage import RidgeMap
from ..fit.sample import Rows, Sample, default_sample_size
from ..rows.blocks import finite
from ..rows.memory import Source
from ..selection.base import Selection
from ..selection.choose import FIRST_EXTRA_POINTS, Chooser, own_points, points_for
from ..selection.rules import SELECTORS
from ..threads import one_blas_thread
from .base import BLOCK_CONSTRAINTS, KernelTransformer
from .incremental import IncrementalMixin
from .progress import Stages

# Variances below this share of the largest are rounding: the rows have no such component.
NO_VARIANCE = 1e-10


class SparseKernelPCA(IncrementalMixin, KernelTransformer):
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
    n_components : int, default=2
        Number of components M.
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
        Share of exact kernel PCA's captured variance that "auto" keeps.
    kernel : str or callable, default="rbf"
        "rbf", "poly", "linear", "sigmoid", "cosine", "laplacian", "precomputed", or a callable: vectorised,
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
    max_iter : int, default=13
        L-BFGS steps when points are moved.
    tol : float, default=5e-3
        The search has converged when its last quarter of steps gained less than this share of the captured variance.
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Threads for passes over the rows: None for as many as BLAS uses, -1 for all cores.  The result does not
        depend on it.
    batch_size : int or None, default=None
        Rows read at once from files and arrays on disk; None for 32 MB of them.
    device : str or None, default=None
        Where rows on the host are worked on: a torch device such as "cuda".  Arrays that are on a device already stay
        there whatever this says.

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
    captured_ratio_kind_ : "exact", "all rows", "sample" or "sample, extrapolated"
    captured_ratio_n_samples_ : int
        Number of those rows.
    selection_report_ : dict
        The rule that ran, the start that won and what each start captured, the sizes that "auto" tried.
    gamma_ : float
    n_iter_ : int
    converged_ : bool
    n_samples_seen_, n_features_in_ : int

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

    _parameter_constraints: dict[str, Any] = {
        **KernelTransformer._parameter_constraints,
        **BLOCK_CONSTRAINTS,
        "n_support": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="right"),
            StrOptions({"auto"}),
        ],
        "selection": [StrOptions({"optimized", *SELECTORS}), "array-like", "sparse matrix", callable],
        "variance": [Interval(Real, 0, 1, closed="neither")],
        "n_optimization_samples": [Interval(Integral, 2, None, closed="left"), None],
        "n_candidates": [Interval(Integral, 1, None, closed="left"), None],
        "n_swaps": [Interval(Integral, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_support: int | float | str = "auto",
        selection: Any = "optimized",
        variance: float = 0.99,
        kernel: Any = "rbf",
        gamma: float | str | None = "median",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        center: bool = True,
        n_optimization_samples: int | None = None,
        n_candidates: int | None = None,
        n_swaps: int = 0,
        max_iter: int = 13,
        tol: float = 5e-3,
        random_state: Any = None,
        n_jobs: int | None = None,
        batch_size: int | None = None,
        device: str | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_support = n_support
        self.selection = selection
        self.variance = variance
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.center = center
        self.n_optimization_samples = n_optimization_samples
        self.n_candidates = n_candidates
        self.n_swaps = n_swaps
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.batch_size = batch_size
        self.device = device

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the support points and find the components on them.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows; the square gram for a precomputed kernel.  Also arrays of torch and cupy, which are worked on where
            they are; dask arrays and dataframes; and rows in blocks: a list of blocks, a function that returns an
            iterator of blocks, a zarr array, a pyarrow dataset.  Rows in blocks are read twice, for a sample and for
            the moments; once more where n_support="auto" needs a larger sample, or to count them for a fraction.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight 2 counts as two rows, one of weight 0 not at all.

        Returns
        -------
        self
        """
        with self._unchanged_on_failure():
            self.__dict__.pop("_stream", None)
            source = self._source(X, sample_weight)
            stages = Stages(self, 3, X, y)
            with stages.stage("choose points"), one_blas_thread():
                chooser = self._chooser(source)
                selection = self._choose(chooser)
            with stages.stage("components"):
                found = self._components(chooser, selection)
            with stages.stage("report"), one_blas_thread():
                report = self._measure(chooser, selection, found)
            self._store(found, selection, report)
            self.gamma_ = chooser.gamma
            self.n_samples_seen_ = source.n_samples
            stages.finish(X, y)
        return self

    def _chooser(self, source: Source) -> Chooser:
        rng = self._rng()
        first = self.n_components + FIRST_EXTRA_POINTS if isinstance(self.n_support, str) else self._n_support(source)
        most = min(first, source.n_samples) if source.length_known else first
        size = self.n_optimization_samples or default_sample_size(most)
        rows = self._sampled(source, size, rng)
        self._check_sizes(rows, first)
        kernel, gamma = self._kernel_on(rows)
        chooser = Chooser(
            source,
            kernel,
            gamma,
            rows,
            self.n_components,
            self.center,
            rng,
            self._n_threads(),
            self.n_optimization_samples,
            self.max_iter,
            self.tol,
            self.n_candidates,
            self.n_swaps,
        )
        chooser.check_options(self.selection)
        self._check_variance(chooser.sample)
        return chooser

    def _check_variance(self, sample: Sample) -> None:
        finite(sample.light_rows)
        check_kernel_values(sample.gram)
        if not sample.exact.captured > NO_VARIANCE * float(np.abs(sample.diagonal).mean()):
            raise ValueError("the rows are all the same to this kernel: there is no variance to explain")

    def _n_support(self, source: Source) -> int:
        asked: Any = self.n_support
        return int(asked) if isinstance(asked, Integral) else math.ceil(asked * source.n_samples)

    def _check_sizes(self, rows: Rows, n_support: int) -> None:
        least = self.n_components + int(self.center)
        if rows.whole and len(rows.indices) < least:
            raise ValueError(
                f"n_components={self.n_components} needs at least {least} different rows"
                f"{' with centring' if self.center else ''}: X has {len(rows.indices)}"
            )
        if isinstance(self.selection, str) and n_support < least:
            raise ValueError(
                f"n_support={self.n_support} ({n_support} points) is too few for n_components={self.n_components}"
                f"{' with centring' if self.center else ''}: give at least {least}"
            )

    def _choose(self, chooser: Chooser) -> Selection:
        n_samples = chooser.source.n_samples
        if not isinstance(self.selection, str):
            n_support = None if isinstance(self.n_support, str) else self._n_support(chooser.source)
            selection = own_points(self.selection, chooser, n_support)
            least = self.n_components + int(self.center)
            if selection.n_support < least:
                raise ValueError(f"selection gives {selection.n_support} points, at least {least} are needed")
            return selection
        if isinstance(self.n_support, str):
            return chooser.automatic(self.selection, self.variance)
        n_support = self._n_support(chooser.source)
        if n_support > n_samples:
            warnings.warn(
                f"n_support={n_support} is more than the {n_samples} rows: all of them are support, which is exact "
                "kernel PCA",
                stacklevel=4,
            )
        return chooser.fixed(self.selection, min(n_support, n_samples))

    def _components(self, chooser: Chooser, selection: Selection) -> Components:
        if selection.exhaustive:  # the one large dense problem there is: BLAS may have its threads
            finite(selection.points)
            found = all_rows_components(
                selection.kernel,
                points_for(selection, chooser.rows.X),
                self.n_components,
                center=self.center,
                weights=selection.weights,
            )
        else:
            with one_blas_thread():
                found = self._subset_components(chooser, selection)
        self._warn_if_indefinite(max(found.negative_share, chooser.sample.indefiniteness))
        self._check_rank(found, selection.n_support)
        return found

    def _subset_components(self, chooser: Chooser, selection: Selection) -> Components:
        kernel, points = selection.kernel, points_for(selection, chooser.rows.X)
        whitening = whiten(gram_of(kernel, points), chooser.rank_tolerance)
        moments = chooser.source.moments(kernel, points, whitening.matrix, chooser.n_threads)
        return subset_components(kernel, points, whitening, moments, self.n_components, center=self.center)

    def _check_rank(self, found: Components, n_support: int) -> None:
        n_real = int(np.sum(found.variances > NO_VARIANCE * found.variances[0]))
        if n_real < self.n_components:
            raise ValueError(
                f"n_components={self.n_components} is more than the rank allows: on these rows and {n_support} "
                f"points the kernel has {n_real} directions of variance"
            )

    def _measure(self, chooser: Chooser, selection: Selection, found: Components) -> FitReport:
        """What the fit reached, by exact kernel PCA of the reference rows; warnings where that is little."""
        sample = chooser.sample
        self._warn_about_kernel(
            explained=float(found.variances.sum()) / found.total_variance,
            spread=found.total_variance / found.mean_length if self.center else 1.0,
            seen_and_unseen=split_captured(sample),
            gamma=chooser.gamma,
        )
        if not selection.converged:
            warnings.warn(
                f"moving the points had not converged after max_iter={self.max_iter} steps: more would still gain over "
                f"tol={self.tol} of the captured variance",
                ConvergenceWarning,
                stacklevel=4,
            )
        return FitReport(
            captured_ratio=1.0 if selection.exhaustive else chooser.sample_ratio(selection),
            kind=chooser.ratio_kind(selection),
            n_samples=sample.n_reference,
            selection={"rule": chooser.rule_name(self.selection), **selection.history},
            inverse_map=self._learned_inverse(found.expansion, sample),
        )

    def _store(self, found: Components, selection: Selection, report: FitReport) -> None:
        self._store_components(found)
        self.support_ = selection.indices
        self.captured_ratio_ = report.captured_ratio
        self.captured_ratio_kind_ = report.kind
        self.captured_ratio_n_samples_ = report.n_samples
        self.selection_report_ = report.selection
        self.n_iter_ = max(1, selection.n_steps)  # at least the one pass over the rows
        self.converged_ = selection.converged
        self._inverse_map = report.inverse_map

    def _store_components(self, found: Components) -> None:
        self.expansion_ = self._kept(found.expansion)
        self.explained_variance_ = found.variances
        self.eigenvalues_ = found.variances * found.weight
        self.explained_variance_ratio_ = found.variances / found.total_variance


@dataclass(frozen=True)
class FitReport:
    """What a fit reached."""

    captured_ratio: float
    kind: str
    n_samples: int
    selection: dict[str, Any]
    inverse_map: RidgeMap | None
