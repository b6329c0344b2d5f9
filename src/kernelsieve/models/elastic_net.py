"""ElasticNetKernelPCA: kernel PCA with an elastic net on the coefficients."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from ..arrays import top_eigh
from ..fit.dictionary import AllRows, Dictionary
from ..fit.expansion import component_signs
from ..fit.moments import RANK_TOLERANCE, whiten
from ..solvers.admm import admm
from ..solvers.alternation import alternate, alternate_jointly, kernel_pca_directions
from ..solvers.path import alpha_for_nonzeros
from ..solvers.quadratic import FactorQuadratic, elastic_net_quadratic, largest_alpha
from ..threads import one_blas_thread
from .on_dictionary import DictionaryTransformer, Problem
from .progress import Stages


class ElasticNetKernelPCA(DictionaryTransformer):
    """Kernel PCA whose components are sparse by an elastic net (Wang & Tanaka 2016).

    Component k imitates kernel PCA's unit component u_k by v = sum_i a_i phi(x_i) with few nonzero a_i:

        min_a  1/2 sum_n <phi(x_n), u_k - v>^2 + (l2/2) |v|^2 + alpha_k |a|_1

    (the paper's criterion without its roots and inverses of K), scaled to unit length afterwards.  With more than one
    pass u_k then follows v, orthogonal to the earlier ones, and so on.  Each component has a support of its own, or,
    with sparsity="joint", all share one.

    Cost: with r candidate rows (all up to 2000, else `n_dictionary`) in q <= r coordinates, one pass of O(N r (d + r)),
    then O(r q) a working set and O(m^2) a step for m nonzeros; m (d + M) a row to transform, m the size of the union of
    supports.  solver="admm" is O(N^3).

    Parameters
    ----------
    n_components : int, default=2
    alpha : float or sequence of n_components floats, default=0.1
        Weight of the l1 penalty.
    l2 : float, default=1e-3
        Weight of the l2 penalty.
    alpha_scale : {"relative", "absolute"}, default="relative"
        "relative": alpha is a share of alpha_max, from which on a component is zero, and l2 one of the largest
        eigenvalue of the gram; both then mean the same for any number of rows.  "absolute": as the paper prints them.
    n_nonzero : int or sequence of n_components ints, optional
        Nonzero coefficients of each component, instead of alpha: the most found that are at most so many.
    solver : {"active-set", "admm"}, default="active-set"
        "active-set": the minimiser, to a duality gap of `tol`.  "admm": Algorithm 1 of the paper as printed, on all
        rows.
    sparsity : {"component", "joint"}, default="component"
        A support for each component, or (an l2,1 penalty on the rows of coefficients) one for all.
    refit : bool, default=False
        Replace the components by the best there are on the rows that were found: orthonormal, without shrinkage.
    max_iter : int, default=1
        Passes: 1 is the single step at kernel PCA's components.
    tol : float, default=1e-6
        Duality gap relative to the objective.
    penalty, eps_abs, eps_rel, admm_max_iter, admm_outer_max_iter, outer_tol
        Of solver="admm": the paper's rho, the two tolerances of its residual rules, the caps of its loops, its epsilon.
    kernel, gamma, degree, coef0, kernel_params, center, random_state, n_jobs, batch_size, device
        As in SparseKernelPCA.
    n_dictionary : int or None, default=None
        Candidate rows, chosen by randomly pivoted Cholesky; None: all rows up to 2000 different ones, else 512.

    Attributes
    ----------
    n_nonzero_ : ndarray of shape (M,)
        Nonzero coefficients of each component before any refit.
    alpha_, alpha_max_ : ndarray of shape (M,)
        Absolute l1 weights used, and those from which on each component is zero.
    l2_ : float
        Absolute l2 weight used.
    objective_ : ndarray
        The criterion summed over components, at each pass ("admm": at the end).
    dual_gap_ : ndarray of shape (M,)
        Duality gap of each component's last step, relative to its objective; NaN for "admm".
    explained_variance_, explained_variance_ratio_ : ndarray of shape (M,)
        Variance of the scores on the training rows, and its share of the total.  Components that are not orthogonal
        share some: `captured_ratio_` and `score` count it once.
    expansion_, support_vectors_, support_, n_support_, dual_coef_, offset_, eigenvalues_, gamma_, captured_ratio_,
    captured_ratio_kind_, captured_ratio_n_samples_, n_samples_seen_, n_iter_, converged_
        As in SparseKernelPCA; the support is the union of all components'.

    References
    ----------
    Wang & Tanaka (2016), Sparse kernel principal component analysis based on elastic net regularization, IJCNN.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernelsieve import ElasticNetKernelPCA
    >>> X = load_iris().data
    >>> model = ElasticNetKernelPCA(2, n_nonzero=5).fit(X)
    >>> model.n_nonzero_
    array([5, 5])
    >>> model.transform(X).shape
    (150, 2)
    """

    _parameter_constraints: dict[str, Any] = {
        **DictionaryTransformer._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither"), "array-like"],
        "l2": [Interval(Real, 0, None, closed="left")],
        "alpha_scale": [StrOptions({"relative", "absolute"})],
        "n_nonzero": [Interval(Integral, 1, None, closed="left"), "array-like", None],
        "solver": [StrOptions({"active-set", "admm"})],
        "sparsity": [StrOptions({"component", "joint"})],
        "refit": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "penalty": [Interval(Real, 0, None, closed="neither")],
        "eps_abs": [Interval(Real, 0, None, closed="left")],
        "eps_rel": [Interval(Real, 0, None, closed="left")],
        "admm_max_iter": [Interval(Integral, 1, None, closed="left")],
        "admm_outer_max_iter": [Interval(Integral, 1, None, closed="left")],
        "outer_tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        alpha: float | Sequence[float] = 0.1,
        l2: float = 1e-3,
        alpha_scale: str = "relative",
        n_nonzero: int | Sequence[int] | None = None,
        solver: str = "active-set",
        sparsity: str = "component",
        refit: bool = False,
        max_iter: int = 1,
        tol: float = 1e-6,
        penalty: float = 0.01,
        eps_abs: float = 1e-4,
        eps_rel: float = 1e-4,
        admm_max_iter: int = 300,
        admm_outer_max_iter: int = 300,
        outer_tol: float = 1e-2,
        kernel: Any = "rbf",
        gamma: float | str | None = "median",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        center: bool = True,
        n_dictionary: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        batch_size: int | None = None,
        device: str | None = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.l2 = l2
        self.alpha_scale = alpha_scale
        self.n_nonzero = n_nonzero
        self.solver = solver
        self.sparsity = sparsity
        self.refit = refit
        self.max_iter = max_iter
        self.tol = tol
        self.penalty = penalty
        self.eps_abs = eps_abs
        self.eps_rel = eps_rel
        self.admm_max_iter = admm_max_iter
        self.admm_outer_max_iter = admm_outer_max_iter
        self.outer_tol = outer_tol
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.center = center
        self.n_dictionary = n_dictionary
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.batch_size = batch_size
        self.device = device

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find sparse components.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows; the square gram for a precomputed kernel.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight 2 counts as two rows, one of weight 0 not at all.

        Returns
        -------
        self
        """
        self._check_options(sample_weight)
        with self._unchanged_on_failure():
            stages = Stages(self, 3, X, y)
            with stages.stage("moments"), one_blas_thread():
                problem = self._problem(X, sample_weight)
            with stages.stage("sparse components"), one_blas_thread():
                start = self._start(problem.dictionary)
                found = self._solve(problem.dictionary, start)
            with stages.stage("report"), one_blas_thread():
                self._store(problem, start, found)
                self._measure(problem, self.n_components)
            stages.finish(X, y)
        return self

    def _checked(self, problem: Problem) -> Problem:
        if problem.sample.size < 2:
            raise ValueError("the rows are all the same to this kernel: there is no variance to explain")
        return super()._checked(problem)

    def _start(self, dictionary: Dictionary) -> Start:
        return start_at_kernel_pca(dictionary, self.n_components, self.l2, self.alpha_scale)

    def _check_options(self, sample_weight: Any) -> None:
        joint, sized = self.sparsity == "joint", self.n_nonzero is not None
        self._per_component("alpha", self.alpha, float)
        if sized:
            self._per_component("n_nonzero", self.n_nonzero, int)
        if joint and not (np.isscalar(self.alpha) and (not sized or np.isscalar(self.n_nonzero))):
            raise ValueError("sparsity='joint' has one support for all components: give one alpha, or one n_nonzero")
        if sized and self.max_iter > 1:
            raise ValueError("n_nonzero is reached at kernel PCA's own components: give max_iter=1 with it, or alpha")
        if self.solver == "admm" and (joint or sized or sample_weight is not None):
            raise ValueError(
                "solver='admm' is the published algorithm, with alpha, for one component after the other, without "
                "sample_weight: give solver='active-set' for anything else"
            )

    def _per_component(self, name: str, values: Any, kind: type) -> np.ndarray:
        """One value for each component, all positive."""
        array = np.asarray(values)
        if array.ndim > 1 or (array.ndim == 1 and len(array) != self.n_components):
            raise ValueError(
                f"{name} has shape {array.shape}: give one number, or {self.n_components}, one for each component"
            )
        if not np.issubdtype(array.dtype, np.number) or not np.all(array > 0) or not np.all(np.isfinite(array)):
            raise ValueError(f"{name} must be positive, got {values!r}")
        if kind is int and np.any(array != np.round(array)):
            raise ValueError(f"{name} must be whole numbers, got {values!r}")
        return np.full(self.n_components, array, dtype=kind)

    def _solve(self, dictionary: Dictionary, start: Start) -> Solution:
        alphas = self._per_component("alpha", self.alpha, float)
        if self.alpha_scale == "relative":
            largest = start.joint_alpha_max if self.sparsity == "joint" else start.alpha_max
            alphas = alphas * largest
        if self.solver == "admm":
            return self._admm(dictionary, start, alphas)
        if self.n_nonzero is not None:
            return self._of_size(start)
        options: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol, "weights": start.penalty}
        if self.sparsity == "joint":
            found = alternate_jointly(
                dictionary.coordinates, dictionary.moment, start.directions, float(alphas[0]), start.l2, **options
            )
        else:
            found = alternate(dictionary.coordinates, dictionary.moment, start.directions, alphas, start.l2, **options)
        problems = [] if found.exact else [self._inexact]
        if not found.settled:
            problems.append(f"the components were still moving after max_iter={self.max_iter} passes")
        gap = np.broadcast_to(found.gap, alphas.shape).copy()
        return Solution(found.coef, alphas, found.objective, gap, found.n_iter, problems)

    @property
    def _inexact(self) -> str:
        return f"a duality gap of tol={self.tol} was not reached"

    def _of_size(self, start: Start) -> Solution:
        """Of the solutions with at most `n_nonzero` nonzeros those that have most, as they were found: another
        solution for the same alpha, equal to `tol`, can have more."""
        sizes = self._per_component("n_nonzero", self.n_nonzero, int)
        quadratics = [start.joint_quadratic] if self.sparsity == "joint" else start.quadratics
        found = [
            alpha_for_nonzeros(q, int(n), weights=start.penalty, tol=self.tol)
            for q, n in zip(quadratics, sizes, strict=False)
        ]
        results = [solution.result for solution in found]
        return Solution(
            np.column_stack([result.coef for result in results]),
            np.full(self.n_components, [solution.alpha for solution in found]),
            np.array([sum(result.objective for result in results)]),
            np.full(self.n_components, [result.gap / result.objective for result in results]),
            1,
            [] if all(result.converged for result in results) else [self._inexact],
        )

    def _admm(self, dictionary: Dictionary, start: Start, alphas: np.ndarray) -> Solution:
        if not isinstance(dictionary, AllRows):
            raise ValueError(
                "solver='admm' works on the gram of all rows, and these are too many or the kernel is not known to be "
                "positive definite: give n_dictionary=n_samples where that is affordable, or solver='active-set'"
            )
        if not dictionary.unrepeated:
            raise ValueError(
                "solver='admm' counts every row once, and X has copies of rows: drop them, or give solver='active-set'"
            )
        found = admm(
            dictionary.gram,
            alphas,
            start.l2,
            penalty=self.penalty,
            eps_abs=self.eps_abs,
            eps_rel=self.eps_rel,
            max_iter=self.admm_max_iter,
            outer_max_iter=self.admm_outer_max_iter,
            outer_tol=self.outer_tol,
            center=self.center,
        )
        problems = []
        for name, capped in (("admm_max_iter", found.inner_capped), ("admm_outer_max_iter", found.outer_capped)):
            if capped.any():
                which = ", ".join(str(k) for k in np.flatnonzero(capped))
                problems.append(f"{name}={getattr(self, name)} was hit by component(s) {which}")
        n_iter = sum(sum(inner) for inner in found.n_inner)
        gap = np.full(self.n_components, np.nan)
        return Solution(found.coef, alphas, np.array([found.objective.sum()]), gap, n_iter, problems)

    def _store(self, problem: Problem, start: Start, found: Solution) -> None:
        dictionary = problem.dictionary
        self.n_nonzero_ = np.count_nonzero(found.coef, axis=0)
        active = np.flatnonzero(found.coef.any(axis=1))
        active = active[np.argsort(dictionary.indices[active])] if active.size else np.zeros(1, dtype=np.intp)
        coef = unit_components(dictionary, active, found.coef[active])
        if self.refit and self.n_nonzero_.any():
            coef = best_components(dictionary, active, self.n_components)
        variances = score_variances(dictionary, active, coef)
        self._store_support(problem, active, coef, variances, orthogonal=self.refit)
        self.eigenvalues_ = variances * dictionary.weight
        self.alpha_ = found.alphas
        largest = start.joint_alpha_max if self.sparsity == "joint" else start.alpha_max
        self.alpha_max_ = np.full(self.n_components, largest)
        self.l2_ = start.l2
        self.objective_ = found.objective
        self.dual_gap_ = found.gap
        self.n_iter_ = found.n_iter
        self.converged_ = not found.problems
        self._warn_about(found, coef)

    def _warn_about(self, found: Solution, coef: np.ndarray) -> None:
        zero = np.flatnonzero(~coef.any(axis=0))
        if zero.size:
            which = ", ".join(str(k) for k in zero)
            warnings.warn(
                f"component(s) {which} are zero, and so are their scores: {self._why_zero(found, zero)}. "
                "Give a smaller alpha, or n_nonzero",
                stacklevel=5,
            )
        if found.problems:
            warnings.warn("; ".join(found.problems), ConvergenceWarning, stacklevel=5)

    def _why_zero(self, found: Solution, zero: np.ndarray) -> str:
        if self.refit and found.coef.any():
            return "the rows found have no more directions"
        if self.solver == "admm" and np.all(found.alphas[zero] < self.alpha_max_[zero]):
            return "ADMM ended before any of their coefficients left zero"
        return "alpha is at or above alpha_max for them"


@dataclass(frozen=True)
class Start:
    """Kernel PCA's components in the dictionary's coordinates, and the problems of imitating them."""

    directions: np.ndarray  # (q, M)
    l2: float  # absolute
    quadratics: list[FactorQuadratic]
    joint_quadratic: FactorQuadratic
    penalty: np.ndarray | None = None  # (r,) what alpha is multiplied by for each candidate; infinity bars it

    @property
    def alpha_max(self) -> np.ndarray:
        """Absolute alphas from which on each component is zero, (M,)."""
        return np.array([largest_alpha(quadratic, self.penalty) for quadratic in self.quadratics])

    @property
    def joint_alpha_max(self) -> float:
        """The same for all components on one support."""
        return largest_alpha(self.joint_quadratic, self.penalty)


@dataclass(frozen=True)
class Solution:
    """What a solver found."""

    coef: np.ndarray  # (r, M), not of unit length
    alphas: np.ndarray  # (M,), absolute
    objective: np.ndarray
    gap: np.ndarray  # (M,)
    n_iter: int
    problems: list[str]  # why it has not converged


def start_at_kernel_pca(dictionary: Dictionary, n_components: int, l2: float, alpha_scale: str) -> Start:
    """The first M eigenvectors of the rows' moment."""
    coordinates, moment = dictionary.coordinates, dictionary.moment
    directions = kernel_pca_directions(moment, n_components)
    scatter = np.einsum("ik,ik->k", directions, moment @ directions)
    n_real = int(np.sum(scatter > RANK_TOLERANCE * scatter[0]))
    if n_real < n_components:
        raise ValueError(
            f"n_components={n_components} is more than the rank of the kernel on these rows, {n_real}: ask for fewer "
            "components"
        )
    if alpha_scale == "relative":
        l2 = l2 * float(scatter[0])
    quadratics = [elastic_net_quadratic(coordinates, moment, u, l2) for u in directions.T]
    return Start(directions, l2, quadratics, elastic_net_quadratic(coordinates, moment, directions, l2))


def unit_components(dictionary: Dictionary, active: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """Coefficients over the active rows, each component of unit length in feature space; zero ones stay zero."""
    lengths = np.linalg.norm(dictionary.coordinates[active].T @ coef, axis=0)
    coef = coef / np.where(lengths > 0, lengths, 1.0)
    return coef * component_signs(coef)


def best_components(dictionary: Dictionary, active: np.ndarray, n_components: int) -> np.ndarray:
    """The components in the span of the active rows that capture most; zeros where it has not so many directions."""
    whitening = whiten(dictionary.gram_at(active)).matrix
    features = whitening.T @ dictionary.coordinates[active]
    values, vectors = top_eigh(features @ dictionary.moment @ features.T, n_components)
    real = values > np.finfo(np.float64).eps * max(float(values[0]), 0.0)
    coef = np.zeros((len(active), n_components))
    coef[:, : len(values)] = (whitening @ vectors) * real
    return coef * component_signs(coef)


def score_variances(dictionary: Dictionary, active: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """Variances of the training rows' scores on components over the active rows."""
    directions = dictionary.coordinates[active].T @ coef
    return np.einsum("ik,ij,jk->k", directions, dictionary.moment, directions, optimize=True) / dictionary.weight
