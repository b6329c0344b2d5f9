"""ElasticNetKernelPCA: kernel PCA with an elastic net on the coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..errors import warn
from ..fit.parameters import at_least, estimator, more_than, one_of, parameter
from ..fit.problem import NOTHING_TO_EXPLAIN
from ..fit.span import AllRowsSpan, Span, orthonormal_in_order
from ..rules.base import Choice
from ..solvers.alternation import admm
from .base import Found, KernelTransformer
from .elastic_net_problem import ElasticNet, Solution, Start, in_row_order, unit_components
from .published import OnDictionary

# A component repeats earlier ones if less than this share of its squared length lies outside their span.
REPEATED = 0.01
# The scores of a component repeat earlier ones if these explain more than 1 - OWN_SCORES of their variance.
OWN_SCORES = 0.5


@estimator
class NetParameters:
    """Parameters of estimators with an elastic net, and the fitted attributes that they share."""

    alpha: float | Sequence[float] = parameter(0.1, more_than(0), "array-like")
    l2: float = parameter(1e-3, at_least(0, Real))
    alpha_scale: str = parameter("relative", one_of("relative", "absolute"))
    n_nonzero: int | Sequence[int] | None = parameter(None, at_least(1), "array-like", None)
    sparsity: str = parameter("component", one_of("component", "joint"))
    mode: str = parameter("sequential", one_of("sequential", "simultaneous"))
    refit: bool = parameter(False, "boolean")
    max_iter: int = parameter(1, at_least(1))
    tol: float = parameter(1e-6, more_than(0))

    def _net(self: Any) -> ElasticNet:
        """The elastic-net problem with these parameters."""
        names = ("n_components", "alpha", "l2", "alpha_scale", "n_nonzero", "sparsity", "mode", "max_iter", "tol")
        return ElasticNet(**{name: getattr(self, name) for name in names})

    def _penalty(self, choice: Choice, span: Span) -> np.ndarray | None:
        """(r,) factors of alpha for the candidate rows, infinite for excluded rows; None if all factors are one."""
        return None

    def _check_parameters(self, sample_weight: Any) -> None:
        self._net().check()

    def _components(self: Any, choice: Choice, span: Span) -> Found:
        if choice.problem.sample.size < 2:
            raise ValueError(NOTHING_TO_EXPLAIN)
        net = self._net()
        start = net.start(span, self._penalty(choice, span))
        solution = self._solution(net, span, start)
        n_nonzero = np.count_nonzero(solution.coef, axis=0)
        row_coef = solution.row_coef
        places = in_row_order(span, solution.coef if self.refit else row_coef)
        if not places.size:
            places = np.zeros(1, dtype=np.intp)
        coef = unit_components(span, places, row_coef[places])
        if self.refit and n_nonzero.any():
            coef = span.best_at(places, self.n_components)
        largest = net.largest_alphas(start)
        variances = span.variances(coef, places)
        captured = variances if self.refit else span.variances_in_order(coef, places)
        self._warn_about(solution, coef, largest)
        _warn_of_repeats(span.directions(coef, places), span)
        assert span.indices is not None
        return Found(
            span.expansion_at(places, coef, orthogonal=self.refit),
            span.indices[places],
            variances,
            variances * span.weight,
            captured=captured,
            attributes={
                "n_nonzero_": n_nonzero,
                "alpha_": solution.alphas,
                "alpha_max_": largest,
                "l2_": start.l2,
                "objective_": solution.objective,
                "dual_gap_": solution.gap,
                "n_iter_": solution.n_iter,
                "converged_": not solution.problems,
            },
        )

    def _solution(self, net: ElasticNet, span: Span, start: Start) -> Solution:
        return net.solve(span, start)

    def _warn_about(self: Any, found: Solution, coef: np.ndarray, largest: np.ndarray) -> None:
        zero = np.flatnonzero(~coef.any(axis=0))
        if zero.size:
            which = ", ".join(str(k) for k in zero)
            why = "alpha is at or above alpha_max for them"
            if self.refit and found.coef.any():
                why = "the rows found have no more directions"
            elif getattr(self, "solver", None) == "admm" and np.all(found.alphas[zero] < largest[zero]):
                why = "ADMM ended before any of their coefficients left zero"
            warn(f"component(s) {which} are zero, and so are their scores: {why}. Give a smaller alpha, or n_nonzero")
        if found.problems:
            warn("; ".join(found.problems), ConvergenceWarning)


def _warn_of_repeats(directions: np.ndarray, span: Span) -> None:
    """Warn if unit components, or their scores, are nearly linear combinations of earlier ones.

    This happens if rows far from the origin of feature space all have nearly the same direction.  Only large
    coefficients of both signs give components without this direction, and the l1 penalty prevents these.
    """
    outside = np.sum(directions * orthonormal_in_order(directions), axis=0) ** 2
    repeated = np.flatnonzero((outside < REPEATED) & directions.any(axis=0))
    if not repeated.size:
        _warn_of_correlation(directions, span)
    else:
        which = ", ".join(str(k) for k in repeated)
        warn(
            f"component(s) {which} have nearly the direction of those before them: to turn away from it takes larger "
            "coefficients, or more of them, than are allowed. Give a smaller alpha or a larger n_nonzero, rows about "
            "their mean, or refit=True"
        )


def _warn_of_correlation(directions: np.ndarray, span: Span) -> None:
    """Warn of components whose scores are mostly explained by the scores of earlier ones."""
    values, vectors = np.linalg.eigh(directions.T @ span.covariance @ directions)
    # Inner products of the columns of `scores` are covariances of the components' scores.
    scores = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    lengths = np.sum(scores**2, axis=0)
    own = np.sum(scores * orthonormal_in_order(scores), axis=0) ** 2
    shared = np.flatnonzero((own < OWN_SCORES * lengths) & (lengths > 0))
    if shared.size:
        warn(
            f"the scores of component(s) {', '.join(str(k) for k in shared)} are mostly those of the components before "
            f"them (the rows' variance is {100 * min(span.spread, 1.0):.2g}% of the mean k(x, x): the less it is, the "
            "less do sparse components turn away from the mean). Subtract the mean of every column first, or give a "
            "smaller alpha, a larger n_nonzero or refit=True"
        )


@estimator
class ElasticNetKernelPCA(NetParameters, OnDictionary, KernelTransformer):
    """Kernel PCA with components made sparse by an elastic net (Wang & Tanaka 2016).

    The unit component u_k of kernel PCA is approximated by v = sum_i a_i phi(x_i) with few nonzero a_i:

        min_a  1/2 sum_n <phi(x_n), u_k - v>^2 + (l2/2) |v|^2 + alpha_k |a|_1

    This is the criterion of the paper, written without roots and inverses of K; v is scaled to unit length afterwards.
    With more than one pass, u_k is then updated from v, and so on.  With mode="sequential", the components are found
    one after the other, and u_k is kept orthogonal to the earlier ones.  With mode="simultaneous", the u_k are updated
    together, to the orthonormal set that is nearest to all v.  Each component has its own support, or, with
    sparsity="joint", all share one.

    Cost: with r candidate rows (all of up to 2000, otherwise `n_dictionary`) in q <= r coordinates, one pass over the
    rows takes O(N r (d + r)) time.  Then each working set takes O(r q), and each step with m nonzeros O(m^2).  A
    transform takes O(m (d + M)) time per row, with m the number of rows in the union of the supports.  solver="admm"
    takes O(N^3).

    Parameters
    ----------
    n_components : int, default=2
    alpha : float or sequence of n_components floats, default=0.1
        Weight of the l1 penalty.
    l2 : float, default=1e-3
        Weight of the l2 penalty.
    alpha_scale : {"relative", "absolute"}, default="relative"
        "relative": alpha is a share of alpha_max, the smallest value at which a component is zero, and l2 is a share of
        the largest eigenvalue of the gram; both then have the same meaning for any number of rows.  "absolute": alpha
        and l2 as in the paper.
    n_nonzero : int or sequence of n_components ints, optional
        Number of nonzero coefficients wanted for each component, instead of alpha.  If no alpha is found that gives
        this number, the component has the largest number found below it.
    solver : {"active-set", "admm"}, default="active-set"
        "active-set" finds the minimiser, up to a duality gap of `tol`.  "admm" is Algorithm 1 of the paper as printed,
        on all rows.
    sparsity : {"component", "joint"}, default="component"
        "component": each component has its own support.  "joint": all components share one support, by an l2,1 penalty
        on the rows of the coefficient matrix.
    mode : {"sequential", "simultaneous"}, default="sequential"
        How the u_k are updated between passes.  "sequential": the paper's J[p_k, q_k], in which a component does not
        depend on later ones, so that the first k are the same for any `n_components`.  "simultaneous": the paper's
        J[P, Q], by the polar step of Zou, Hastie & Tibshirani, which sparsity="joint" always uses.  With max_iter=1,
        both give the same result.
    refit : bool, default=False
        Replace the components by the best components on the rows that were found, which are orthonormal and not shrunk.
    max_iter : int, default=1
        Largest number of passes.  A single pass approximates the components of kernel PCA themselves; for most problems
        further passes change little.
    tol : float, default=1e-6
        Duality gap relative to the objective.
    penalty, eps_abs, eps_rel, admm_max_iter, admm_outer_max_iter, outer_tol
        For solver="admm", in the terms of the paper: rho, the two tolerances of the residuals, the largest numbers of
        iterations of the inner and the outer loop, and epsilon.
    inverse : {"jitter", "pseudo-inverse"}, default="jitter"
        For solver="admm": what replaces K^-1 if K is singular.  "pseudo-inverse" is that of the paper.  With
        center=True, it also replaces K by the centred gram; `n_nonzero_` then counts coefficients of centred features.
        As each of these contains the mean, every row is a support point, however few coefficients are nonzero.
    kernel, gamma, degree, coef0, kernel_params, center, random_state, n_jobs, batch_size, device, verbose
        As in SparseKernelPCA.
    n_dictionary : int or None, default=None
        Number of candidate rows, chosen by randomly pivoted Cholesky.  None takes all rows if at most 2000 are
        different, otherwise 512.

    Attributes
    ----------
    n_nonzero_ : ndarray of shape (M,)
        Number of nonzero coefficients of each component, before any refit.
    alpha_, alpha_max_ : ndarray of shape (M,)
        The absolute alpha of each component, and the smallest absolute alpha at which the component is zero.
    l2_ : float
        The absolute weight of the l2 penalty.
    objective_ : ndarray
        The criterion, summed over components, after each pass (for "admm", at the end).
    dual_gap_ : ndarray of shape (M,)
        Duality gap of each component's last step, relative to its objective; NaN for "admm".
    explained_variance_, explained_variance_ratio_ : ndarray of shape (M,)
        Variance of the scores on the training rows, and the share of the total variance that each component adds to the
        components before it.  Components that are not orthogonal share some variance, which is counted only once.
    expansion_, support_vectors_, support_, n_support_, dual_coef_, offset_, eigenvalues_, gamma_, captured_ratio_,
    captured_ratio_kind_, captured_ratio_n_samples_, n_samples_seen_, n_iter_, converged_
        As in SparseKernelPCA; the support is the union of the supports of all components.

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

    _file_layout = {
        "n_nonzero_": "int[M]",
        "alpha_": "float | float[M]~",  # goes with the third power of the rows
        "alpha_max_": "float~ | float[*]~",
        "l2_": "float",
        "objective_": "float~ | float[*]~ | none",
        "dual_gap_": "float~ | float[*]~ | none",
        "n_iter_": "int",
        "converged_": "bool",
    }

    solver: str = parameter("active-set", one_of("active-set", "admm"))
    penalty: float = parameter(0.01, more_than(0))
    eps_abs: float = parameter(1e-4, at_least(0, Real))
    eps_rel: float = parameter(1e-4, at_least(0, Real))
    admm_max_iter: int = parameter(300, at_least(1))
    admm_outer_max_iter: int = parameter(300, at_least(1))
    outer_tol: float = parameter(1e-2, at_least(0, Real))
    inverse: str = parameter("jitter", one_of("jitter", "pseudo-inverse"))

    def _check_parameters(self, sample_weight: Any) -> None:
        super()._check_parameters(sample_weight)
        if self.solver == "admm" and (
            self.sparsity == "joint"
            or self.mode == "simultaneous"
            or self.n_nonzero is not None
            or sample_weight is not None
        ):
            raise ValueError(
                "solver='admm' is the published algorithm, with alpha, for one component after the other, without "
                "sample_weight: give solver='active-set' for anything else"
            )

    def _solution(self, net: ElasticNet, span: Span, start: Start) -> Solution:
        if self.solver == "active-set":
            return net.solve(span, start)
        return self._as_published(net, span, start)

    def _as_published(self, net: ElasticNet, span: Span, start: Start) -> Solution:
        """The result of Algorithm 1 of the paper as printed, which is not always the minimiser."""
        if not isinstance(span, AllRowsSpan):
            raise ValueError(
                "solver='admm' works on the gram of all rows, and these are too many or the kernel is not known to be "
                "positive definite: give n_dictionary=n_samples where that is affordable, or solver='active-set'"
            )
        if span.counts is not None:
            raise ValueError(
                "solver='admm' counts every row once, and X has copies of rows: drop them, or give solver='active-set'"
            )
        alphas = net.alphas(start)
        found = admm(
            span.gram,
            alphas,
            start.l2,
            penalty=self.penalty,
            eps_abs=self.eps_abs,
            eps_rel=self.eps_rel,
            max_iter=self.admm_max_iter,
            outer_max_iter=self.admm_outer_max_iter,
            outer_tol=self.outer_tol,
            center=span.center,
            pseudo_inverse=self.inverse == "pseudo-inverse",
        )
        problems = []
        for name, capped in (("admm_max_iter", found.inner_capped), ("admm_outer_max_iter", found.outer_capped)):
            if capped.any():
                which = ", ".join(str(k) for k in np.flatnonzero(capped))
                problems.append(f"{name}={getattr(self, name)} was hit by component(s) {which}")
        n_iter = sum(sum(inner) for inner in found.n_inner)
        gap = np.full(len(alphas), np.nan)
        centred = span.center and self.inverse == "pseudo-inverse"
        return Solution(found.coef, alphas, np.array([found.objective.sum()]), gap, n_iter, problems, centred)
