"""The solvers of elastic-net sparse kernel PCA.

Truth comes from optimality conditions, scikit-learn's LARS, long coordinate descent and printed counts.
"""

from __future__ import annotations

import os
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles import gram_of
from scipy.linalg.lapack import dpstrf
from sklearn.linear_model import lars_path_gram

from kernelsieve.solvers.active_set import Support
from kernelsieve.solvers.admm import admm
from kernelsieve.solvers.alternation import alternate, kernel_pca_directions
from kernelsieve.solvers.cholesky import ActiveCholesky
from kernelsieve.solvers.greedy import pivoted_cholesky
from kernelsieve.solvers.group import group_lasso
from kernelsieve.solvers.lasso import LassoResult, lasso
from kernelsieve.solvers.path import _Search, alpha_for_nonzeros, lasso_path
from kernelsieve.solvers.quadratic import FactorQuadratic, HessianQuadratic, elastic_net_quadratic, largest_alpha
from kernelsieve.solvers.simultaneous import alternate_jointly, alternate_simultaneously
from kernelsieve.threads import one_blas_thread


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_blas_thread():
        yield


CLUSTER_ALPHAS = (0.02, 0.02, 0.009, 0.008, 0.006, 0.007, 0.01, 0.01)


def clusters():
    """The paper's 90 points."""
    centers = np.repeat([(-0.5, -0.2), (0, 0.6), (0.5, 0)], 30, axis=0)
    return centers + 0.1 * np.random.default_rng(0).standard_normal((90, 2))


def parabola(n=500):
    """The paper's second example: all x first, then all noise."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, n)
    return np.column_stack([x, x**2 + 0.2 * rng.standard_normal(n)])


def kernel_pca(gram, n_components):
    """b with b'K b = 1, (n, n_components), and K's eigenvalues."""
    values, vectors = np.linalg.eigh(gram)
    values, vectors = values[::-1][:n_components], vectors[:, ::-1][:, :n_components]
    return vectors / np.sqrt(values), values


def hessian_problem(gram, b, l2):
    """METHODS section 4's K-only form, dense: H = K(K + l2 I), linear = K^2 b, constant b'K^2 b."""
    return HessianQuadratic(gram @ gram + l2 * gram, gram @ (gram @ b), float(np.vdot(b, gram @ (gram @ b))))


def factor_of(gram):
    return np.ascontiguousarray(pivoted_cholesky(lambda j: gram[:, j], np.diagonal(gram)).filled)


def printed_objective(gram, b, a, l2, alpha, weights=1.0):
    """J as METHODS section 4 prints it, with symmetric roots of K."""
    values, vectors = np.linalg.eigh(gram)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    p, q = root @ b, root @ a
    rows = np.abs(a) if a.ndim == 1 else np.linalg.norm(a, axis=1)
    return 0.5 * np.sum((root @ (p - q)) ** 2) + 0.5 * l2 * np.sum(q**2) + alpha * np.sum(weights * rows)


def dual_gap(hessian, linear, target_square, a, alpha, weights):
    """(primal - dual, primal) of the (group) lasso on an explicit design X and target y with X'X = H, X'y = linear and
    y'y = target_square: nothing of the code's formulas."""
    values, vectors = np.linalg.eigh(hessian)
    keep = values > 1e-13 * values[-1]
    matrix, linear = a.reshape(len(a), -1), linear.reshape(len(a), -1)
    design = np.sqrt(values[keep])[:, None] * vectors[:, keep].T
    target = (vectors[:, keep].T @ linear) / np.sqrt(values[keep])[:, None]
    outside = np.zeros((1, matrix.shape[1]))
    outside[0, 0] = np.sqrt(max(target_square - np.sum(target**2), 0.0))
    design, target = np.vstack([design, np.zeros((1, len(a)))]), np.vstack([target, outside])
    residual = target - design @ matrix
    theta = residual * min(1.0, alpha / np.max(np.linalg.norm(design.T @ residual, axis=1) / weights))
    primal = 0.5 * np.sum(residual**2) + alpha * np.sum(weights * np.linalg.norm(matrix, axis=1))
    return primal - 0.5 * np.sum(target**2) + 0.5 * np.sum((target - theta) ** 2), primal


def coordinate_descent(hessian, linear, alpha, weights, n_sweeps=20_000):
    """The slow obvious minimiser, one coordinate (or row) after another."""
    a = np.zeros_like(linear)
    for _ in range(n_sweeps):
        before = a.copy()
        for i in range(len(a)):
            g = linear[i] - hessian[i] @ a + hessian[i, i] * a[i]
            length = np.linalg.norm(g)
            a[i] = max(0.0, 1 - alpha * weights[i] / length) * g / hessian[i, i] if length > 0 else 0.0
        if np.abs(a - before).max() < 1e-15:
            break
    return a


def assert_optimal(hessian, linear, result, alpha, weights, atol):
    """0 in the subdifferential: c_i = alpha w_i a_i/|a_i| on the support, |c_i| <= alpha w_i off it."""
    a = result.coef if result.coef.ndim == 2 else result.coef[:, None]
    c = (linear if linear.ndim == 2 else linear[:, None]) - hessian @ a
    lengths = np.linalg.norm(a, axis=1)
    support = lengths > 0
    np.testing.assert_array_equal(np.flatnonzero(support), result.active)
    wanted = alpha * weights[support, None] * a[support] / lengths[support, None]
    np.testing.assert_allclose(c[support], wanted, rtol=0, atol=atol * alpha)
    assert np.all(np.linalg.norm(c[~support], axis=1) <= alpha * weights[~support] * (1 + atol))


def random_problem(seed, n_components=None):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 40))
    rows = rng.standard_normal((n, 2))
    if seed % 3 == 0:
        rows[n // 2 :] = rows[: n - n // 2]  # every point twice
    gram = gram_of("rbf", rows, gamma=10 ** rng.uniform(-1, 1))
    factor = factor_of(gram)
    moment = factor.T @ factor
    directions = kernel_pca_directions(moment, min(n_components or 1, len(moment)))
    l2 = 10 ** rng.uniform(-3, 0)
    problem = elastic_net_quadratic(factor, moment, directions if n_components else directions[:, 0], l2)
    weights = rng.uniform(0.5, 2, n) if seed % 2 else np.ones(n)
    return problem, weights, 10 ** rng.uniform(-2, -0.1) * largest_alpha(problem, weights)


# Pivoted Cholesky


def test_pivoted_cholesky_is_lapacks(cloud):
    gram = gram_of("rbf", cloud, gamma=0.3)
    found = pivoted_cholesky(lambda j: gram[:, j], np.diagonal(gram), max_rank=20)
    lapack, order, *_ = dpstrf(gram, lower=1)
    np.testing.assert_array_equal(found.chosen[1:], order[1:20] - 1)  # the first pivot is a tie of all ones
    np.testing.assert_allclose(np.abs(found.filled[found.chosen]), np.abs(np.tril(lapack)[:20, :20]), atol=1e-12)
    left = np.diagonal(gram) - np.sum(found.filled**2, axis=1)
    np.testing.assert_allclose(found.diagonal, left, atol=1e-12)


@pytest.mark.parametrize("n", [60, 400])
def test_pivoted_cholesky_stops_at_tolerance_and_rank(n):
    gram = gram_of("rbf", parabola(n), gamma=2.0)
    found = pivoted_cholesky(lambda j: gram[:, j], np.diagonal(gram))
    assert np.abs(gram - found.filled @ found.filled.T).max() < 2e-10
    assert found.filled.shape[1] == len(set(found.chosen)) < n
    narrow = gram_of("rbf", parabola(n), gamma=1e4)  # full rank: past the first capacity
    wide = pivoted_cholesky(lambda j: narrow[:, j], np.diagonal(narrow)).filled
    np.testing.assert_allclose(wide @ wide.T, narrow, atol=1e-9)
    with pytest.raises(ValueError, match="nothing to factorise"):
        pivoted_cholesky(lambda j: np.zeros(3), np.zeros(3))


# The Cholesky factor of the support


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
@example(seed=7895)
def test_factor_follows_entering_and_leaving(seed):
    rng = np.random.default_rng(seed)
    design = rng.standard_normal((12, 15))
    hessian, members, factor = design.T @ design, np.zeros(0, dtype=int), ActiveCholesky()
    for _ in range(12):
        outside = np.setdiff1d(np.arange(15), members)
        if len(members) > 2 and rng.random() < 0.5:
            keep = rng.random(len(members)) < 0.7
            if keep.all():
                keep[rng.integers(len(keep))] = False
            factor.leave(keep)
            members = members[keep]
        elif len(outside):
            new = rng.permutation(outside)[: rng.integers(1, 4)]
            if len(new) == 1:
                entered = new[: factor.enter_one(hessian[members, new[0]], hessian[new[0], new[0]])]
            else:
                entered = new[factor.enter(hessian[np.ix_(members, new)], hessian[np.ix_(new, new)])]
            members = np.concatenate([members, entered])
        assert len(members) <= 12
        block = hessian[np.ix_(members, members)]
        np.testing.assert_allclose(factor.lower @ factor.lower.T, block, atol=1e-9)
        right = rng.standard_normal(len(members))
        np.testing.assert_allclose(block @ factor.solve(right), right, atol=1e-4)


def test_rounding_is_not_taken_for_a_direction():
    """Of a column in the span of nearly dependent ones, rounding leaves a pivot far above that of its own length."""
    for seed in range(50):
        rng = np.random.default_rng(seed)
        design = rng.standard_normal((12, 13))
        design[:, 11] = design[:, :11] @ rng.standard_normal(11) + 1e-4 * design[:, 11]
        hessian = design.T @ design
        factor = ActiveCholesky()
        for j in range(12):
            assert factor.enter_one(hessian[:j, j], hessian[j, j])
        assert not factor.enter_one(hessian[:12, 12], hessian[12, 12])
        assert len(factor.enter(hessian[:12, 12:], hessian[12:, 12:])) == 0


def test_a_column_in_the_span_does_not_enter():
    hessian = np.ones((2, 2))
    factor = ActiveCholesky()
    assert len(factor.enter(np.zeros((0, 2)), hessian)) == 1
    assert len(factor.enter(hessian[:1, :1], hessian[:1, :1])) == 0
    assert not factor.enter_one(hessian[:1, 0], hessian[0, 0])
    assert len(factor) == 1


# The two quadratics


def test_factor_and_hessian_are_the_same_problem():
    gram = gram_of("rbf", clusters(), gamma=10.0)
    b, _ = kernel_pca(gram, 3)
    factor = factor_of(gram)
    given, found = hessian_problem(gram, b, 0.1), elastic_net_quadratic(factor, factor.T @ factor, factor.T @ b, 0.1)
    np.testing.assert_allclose(found.linear, given.linear, atol=1e-8)
    assert found.target_square == pytest.approx(given.target_square, rel=1e-9)
    rows, columns, values = np.array([3, 7, 50]), np.array([1, 2]), np.array([[1.0, 2, 3], [0, -1, 4]])
    np.testing.assert_allclose(found.block(rows, columns), given.block(rows, columns), atol=1e-8)
    np.testing.assert_allclose(found.dot(columns, values), given.dot(columns, values), atol=1e-8)


@pytest.mark.parametrize("center", [False, True])
def test_b_step_and_alpha_max_are_those_of_methods(center):
    """u ~ M G'a is b ~ (H) K a - sum_j b_j (b_j' K (H) K a); alpha_max = max |K (H) K b|."""
    gram = gram_of("rbf", clusters(), gamma=10.0)
    n = len(gram)
    h = np.eye(n) - center / n
    factor = factor_of(gram)
    moment = factor.T @ h @ factor
    start = kernel_pca_directions(moment, 2)
    b = np.linalg.lstsq(factor.T, start, rcond=None)[0]  # G'b = u
    quadratic = elastic_net_quadratic(factor, moment, start[:, 0], 0.1)
    assert largest_alpha(quadratic) == pytest.approx(np.abs(gram @ h @ gram @ b[:, 0]).max(), rel=1e-6)
    found = alternate(factor, moment, start, [0.02, 0.02], 0.1)
    earlier = None
    for k in range(2):
        a = found.coef[:, k]
        new = h @ gram @ a
        if earlier is not None:
            new = new - earlier * (earlier @ gram @ h @ gram @ a)
        new = new / np.sqrt(new @ gram @ new)
        earlier = new
        np.testing.assert_allclose(np.abs(factor.T @ new), np.abs(found.directions[:, k]), atol=1e-6)


# The lasso


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_lasso_is_optimal_and_its_gap_is_true(seed):
    problem, weights, alpha = random_problem(seed)
    rows = np.arange(len(weights))
    hessian = problem.block(rows, rows)
    result = lasso(problem, alpha, weights=weights, tol=1e-9)
    assert result.converged
    assert_optimal(hessian, problem.linear, result, alpha, weights, atol=1e-5)
    gap, objective = dual_gap(hessian, problem.linear, problem.target_square, result.coef, alpha, weights)
    assert gap <= 1e-7 * objective
    assert result.objective == pytest.approx(objective, rel=1e-7)


def test_reported_gap_is_an_independent_evaluation_far_from_the_optimum():
    problem, weights, alpha = random_problem(5)
    rows = np.arange(len(weights))
    start = np.random.default_rng(0).standard_normal(len(weights)) * 0.1
    result = lasso(problem, alpha, weights=weights, start=start, max_iter=0)
    gap, objective = dual_gap(
        problem.block(rows, rows), problem.linear, problem.target_square, result.coef, alpha, weights
    )
    assert not result.converged
    assert result.gap == pytest.approx(gap, rel=1e-6)
    assert result.objective == pytest.approx(objective, rel=1e-8)


def test_solvers_agree_with_coordinate_descent_and_admm():
    """One well-conditioned problem, five ways: active set on the factor and on the Hessian, group with one column, long
    coordinate descent, converged ADMM; J by its printed formula to 1e-6."""
    gram = gram_of("rbf", clusters()[::3], gamma=100.0)
    b, _ = kernel_pca(gram, 1)
    l2, alpha, weights = 0.1, 0.05, np.ones(30)
    factor = factor_of(gram)
    dense = hessian_problem(gram, b[:, 0], l2)
    matrix = hessian_problem(gram, b, l2)
    literal = admm(
        gram, [alpha], l2, penalty=0.05, eps_abs=1e-12, eps_rel=1e-12, max_iter=200_000, outer_max_iter=1, jitter=0.0
    )
    assert not literal.inner_capped[0]
    coefs = {
        "factor": lasso(elastic_net_quadratic(factor, factor.T @ factor, factor.T @ b[:, 0], l2), alpha).coef,
        "hessian": lasso(dense, alpha).coef,
        "group": group_lasso(matrix, alpha).coef[:, 0],
        "descent": coordinate_descent(dense.hessian, dense.linear, alpha, weights),
        "admm": literal.coef[:, 0] * np.sign(literal.coef[:, 0] @ gram @ b[:, 0]),
    }
    values = {name: printed_objective(gram, b[:, 0], a, l2, alpha) for name, a in coefs.items()}
    for name, value in values.items():
        assert value == pytest.approx(values["descent"], rel=1e-6), name
        assert np.count_nonzero(coefs[name]) == np.count_nonzero(coefs["descent"]), name
    assert literal.objective[0] == pytest.approx(values["descent"], rel=1e-6)


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-10])
def test_gap_asked_for_is_reached(tol):
    gram = gram_of("rbf", parabola(), gamma=2.0)
    b, _ = kernel_pca(gram, 1)
    result = lasso(hessian_problem(gram, b[:, 0], 0.05), 0.05, tol=tol)
    best = lasso(hessian_problem(gram, b[:, 0], 0.05), 0.05, tol=1e-11)
    assert result.converged
    assert result.objective - best.objective <= tol * result.objective


def test_large_supports_against_lars():
    """Two thirds of the candidates nonzero: batches."""
    rng = np.random.default_rng(0)
    design = rng.standard_normal((300, 200)) + rng.standard_normal((300, 1))
    hessian, linear = design.T @ design, design.T @ rng.standard_normal(300)
    alpha = 0.05 * np.abs(linear).max()
    _, _, truth = lars_path_gram(linear, hessian, n_samples=1, alpha_min=alpha, method="lasso", return_path=False)
    result = lasso(HessianQuadratic(hessian, linear, 300.0), alpha, tol=1e-10)
    assert len(result.active) > 100
    assert result.n_iter < 100
    np.testing.assert_allclose(result.coef, truth, atol=1e-8)


def test_zero_from_alpha_max_on_and_something_below_it():
    problem, weights, _ = random_problem(5)
    largest = largest_alpha(problem, weights)
    for alpha in (largest, 2 * largest):
        result = lasso(problem, alpha, weights=weights)
        assert result.converged
        assert not result.coef.any()
        assert result.objective == pytest.approx(problem.target_square / 2)
    assert lasso(problem, 0.99 * largest, weights=weights).coef.any()


def test_warm_start_is_cold_start():
    gram = gram_of("rbf", parabola(200), gamma=2.0)
    b, _ = kernel_pca(gram, 2)
    problem, other = (hessian_problem(gram, b[:, k], 0.05) for k in range(2))
    cold = lasso(problem, 0.05, tol=1e-10)
    far = np.random.default_rng(0).standard_normal(200) * (np.arange(200) % 9 == 0)
    for start in (cold.coef, lasso(problem, 0.2).coef, lasso(other, 0.01).coef, far, -cold.coef):
        warm = lasso(problem, 0.05, start=start, tol=1e-10)
        assert warm.converged
        np.testing.assert_array_equal(warm.active, cold.active)
        np.testing.assert_allclose(warm.coef, cold.coef, atol=1e-6)
    assert lasso(problem, 0.05, start=cold.coef, tol=1e-10).n_iter == 0


def test_duplicates_exchange_places_by_weight():
    """Every candidate three times: the cheapest copy is the only one used, whichever was there first."""
    rows = np.tile(clusters()[::6], (3, 1))
    gram = gram_of("rbf", rows, gamma=10.0)
    n = len(rows) // 3
    b, _ = kernel_pca(gram, 1)
    problem = hessian_problem(gram, b[:, 0], 0.1)
    weights = np.repeat([2.0, 1.0, 3.0], n)
    start = np.zeros(3 * n)
    start[:n] = lasso(problem, 0.1, weights=np.repeat([1.0, np.inf, np.inf], n)).coef[:n]
    alone = lasso(problem, 0.1, weights=np.repeat([np.inf, 1.0, np.inf], n), tol=1e-9)
    for begin in (None, start):
        result = lasso(problem, 0.1, weights=weights, start=begin, tol=1e-9)
        assert result.converged
        assert np.all(result.active // n == 1)
        np.testing.assert_allclose(result.coef, alone.coef, atol=1e-7)
    even = lasso(problem, 0.1, tol=1e-9)
    assert even.converged
    assert len(set(even.active % n)) == len(even.active)


def test_a_cheaper_candidate_in_the_span_takes_a_place():
    """e1 + e2 costs half of e1 and e2 together; a cheaper copy costs half of the dearer: no other way leads there."""
    design = np.array([[1.0, 0, 1], [0, 1, 1]])
    problem = HessianQuadratic(design.T @ design, design.T @ np.ones(2), 2.0)
    result = lasso(problem, 0.1, start=np.array([0.9, 0.9, 0]), tol=1e-12)
    np.testing.assert_allclose(result.coef, [0, 0, 0.95], atol=1e-12)
    copies = HessianQuadratic(np.ones((2, 2)), np.ones(2), 1.0)
    result = lasso(copies, 0.1, weights=np.array([2.0, 1.0]), start=np.array([0.8, 0.0]), tol=1e-12)
    np.testing.assert_allclose(result.coef, [0, 0.9], atol=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_exchange_leaves_the_quadratic_alone(sign):
    """x_3 = x_0 + 2 x_1 - x_2: X a stays, one member is at zero, and no coefficient changes sign on the way."""
    design = np.random.default_rng(0).standard_normal((6, 4))
    design[:, 3] = design[:, :3] @ [1, 2, -1]
    problem = HessianQuadratic(design.T @ design, np.zeros(4), 0.0)
    before = np.array([0.5, -0.3, 0.7, 0.0])
    support = Support.of(problem, before, np.ones(4))
    assert support.exchange(3, sign, problem.hessian[3, support.members], problem.hessian[3, 3])
    after = np.zeros(4)
    after[support.members] = support.values
    np.testing.assert_allclose(design @ after, design @ before, atol=1e-12)
    assert len(support.members) == 3
    assert np.sign(after[3]) == sign
    assert np.all(after[:3] * before[:3] >= 0)


def test_rank_one():
    z = np.array([1.0, -2.0, 0.5, 3.0])
    factor = z[:, None]
    problem = elastic_net_quadratic(factor, factor.T @ factor, np.ones(1), 0.5)
    alpha = 0.1 * largest_alpha(problem)
    result = lasso(problem, alpha, tol=1e-12)
    np.testing.assert_array_equal(result.active, [3])  # the longest row is the cheapest
    square = z @ z
    assert result.coef[3] == pytest.approx((3 * square - alpha) / (9 * (square + 0.5)))
    joint = group_lasso(FactorQuadratic(factor, problem.curvature, problem.linear[:, None], square), alpha, tol=1e-12)
    np.testing.assert_allclose(joint.coef[:, 0], result.coef, atol=1e-9)


def test_barred_candidates_stay_out():
    problem, weights, alpha = random_problem(7)
    weights = weights.copy()
    weights[::2] = np.inf
    start = np.ones(len(weights))
    for solver, quadratic, begin in (
        (lasso, problem, start),
        (
            group_lasso,
            FactorQuadratic(problem.coordinates, problem.curvature, problem.linear[:, None], 1e3),
            start[:, None],
        ),
    ):
        result = solver(quadratic, alpha, weights=weights, start=begin)
        assert result.converged
        assert len(result.active)
        assert np.all(result.active % 2 == 1)


@pytest.mark.parametrize("solver", [lasso, group_lasso])
@pytest.mark.parametrize("alpha", [0.0, -1.0, np.inf, np.nan])
def test_bad_alpha_and_weights_are_named(solver, alpha):
    linear = np.ones(3) if solver is lasso else np.ones((3, 1))
    problem = HessianQuadratic(np.eye(3), linear, 3.0)
    with pytest.raises(ValueError, match="alpha="):
        solver(problem, alpha)
    for weights in (np.ones(2), np.array([1.0, 0.0, 1.0]), np.array([1.0, np.nan, 1.0])):
        with pytest.raises(ValueError, match="3 positive numbers"):
            solver(problem, 0.5, weights=weights)


# Counts that METHODS prints for the exact minimiser


@pytest.mark.parametrize(
    ("rows", "gamma", "l2", "alphas", "counts"),
    [
        (clusters(), 10.0, 0.1, CLUSTER_ALPHAS, [10, 16, 20, 17, 15, 13, 15, 13]),
        (parabola(), 2.0, 0.05, (0.05,) * 4, [14, 11, 12, 11]),
        (parabola(), 2.0, 0.05, (0.05, 0.07, 0.08, 0.09), [14, 11, 12, 11]),
    ],
    ids=["clusters", "parabola", "parabola, second setting"],
)
def test_printed_counts(rows, gamma, l2, alphas, counts):
    gram = gram_of("rbf", rows, gamma=gamma)
    factor = factor_of(gram)
    moment = factor.T @ factor
    found = alternate(factor, moment, kernel_pca_directions(moment, len(alphas)), alphas, l2)
    np.testing.assert_array_equal(np.count_nonzero(found.coef, axis=0), counts)
    b, _ = kernel_pca(gram, len(alphas))
    printed = sum(
        min(printed_objective(gram, sign * b[:, k], found.coef[:, k], l2, alpha) for sign in (1, -1))
        for k, alpha in enumerate(alphas)
    )
    assert found.objective[0] == pytest.approx(printed, rel=1e-6)


def test_printed_counts_mnist():
    """500 raw digits, chosen by default_rng(0): the exact minimiser and the literal algorithm, which stops early."""
    path = Path(os.environ.get("KERNELSIEVE_DATA", "")) / "mnist.npz"
    if not path.is_file():
        pytest.skip("needs mnist.npz in the folder KERNELSIEVE_DATA names")
    pixels = np.load(path)["x_train"]
    rows = pixels[np.random.default_rng(0).choice(60_000, 500, replace=False)].reshape(500, -1).astype(float)
    gram = gram_of("rbf", rows, gamma=1 / (2 * 700**2))
    b, _ = kernel_pca(gram, 3)
    alphas = (0.002, 0.002, 0.004)
    exact = [len(lasso(hessian_problem(gram, b[:, k], 0.001), alphas[k]).active) for k in range(3)]
    assert exact == [310, 265, 331]
    literal = admm(gram, alphas, 0.001, penalty=0.01, eps_abs=0.01, outer_max_iter=30, outer_tol=1e-6)
    np.testing.assert_array_equal(np.count_nonzero(literal.coef, axis=0), [30, 37, 37])
    assert max(map(max, literal.n_inner)) <= 9


# Path


def test_path_is_each_solution_alone():
    gram = gram_of("rbf", parabola(150), gamma=2.0)
    b, _ = kernel_pca(gram, 1)
    problem = hessian_problem(gram, b[:, 0], 0.05)
    path = lasso_path(problem, tol=1e-9)
    assert path.converged
    assert path.alphas[0] == pytest.approx(largest_alpha(problem))
    assert path.alphas[-1] == pytest.approx(0.01 * path.alphas[0])
    assert path.n_nonzero[0] == 0
    for i in (5, 20, 39):
        alone = lasso(problem, path.alphas[i], tol=1e-9)
        np.testing.assert_allclose(path.coefs[:, [i]].toarray()[:, 0], alone.coef, atol=1e-6)
        assert path.objectives[i] == pytest.approx(alone.objective, rel=1e-8)
        assert path.n_nonzero[i] == len(alone.active)
    assert np.all(np.diff(path.objectives) < 0)
    assert np.all(path.gaps <= 1e-9 * path.objectives)


def test_alpha_for_nonzeros_gives_at_most_what_was_asked_for():
    gram = gram_of("rbf", clusters(), gamma=10.0)
    b, _ = kernel_pca(gram, 1)
    problem = hessian_problem(gram, b[:, 0], 0.1)
    reached = []
    for asked in (1, 3, 7, 12, 20):
        found = alpha_for_nonzeros(problem, asked)
        assert found.n_nonzero == len(lasso(problem, found.alpha).active) <= asked
        reached.append(found.n_nonzero)
    assert reached[1:] == [3, 7, 12, 20]
    with pytest.raises(ValueError, match="n_nonzero=0"):
        alpha_for_nonzeros(problem, 0)


def test_alpha_for_nonzeros_says_when_a_number_does_not_occur():
    """Two equal pulls enter together: one nonzero never occurs, and more than the rank cannot."""
    linear = np.array([2.0, 2.0, 1.0])
    problem = HessianQuadratic(np.eye(3), linear, linear @ linear)
    assert alpha_for_nonzeros(problem, 1).n_nonzero == 0
    assert alpha_for_nonzeros(problem, 10).n_nonzero == 3


def test_alpha_for_nonzeros_looks_between_the_alphas_of_the_grid():
    linear = np.array([2.0, 1.99, 1.0])
    found = alpha_for_nonzeros(HessianQuadratic(np.eye(3), linear, linear @ linear), 1)
    assert found.n_nonzero == 1
    assert 1.99 <= found.alpha < 2.0


def test_the_search_keeps_the_largest_support_that_is_not_too_large():
    """Counts are not monotone: 3 was better than the 2 that came after it."""
    search = _Search(4)
    results = [LassoResult(np.zeros(9), np.arange(count), 1, 1.0, 0.0, True) for count in (1, 3, 2, 6)]
    enough = [search.record(alpha, result) for alpha, result in zip((8.0, 4.0, 2.0, 1.0), results, strict=True)]
    assert enough == [False, False, False, True]
    assert (search.alpha, len(search.best.active)) == (4.0, 3)
    assert (search.too_few, search.too_many) == (2.0, 1.0)


# One support for all


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_group_is_optimal_and_its_gap_is_true(seed):
    problem, weights, alpha = random_problem(seed, n_components=1 + seed % 4)
    rows = np.arange(len(weights))
    hessian = problem.block(rows, rows)
    result = group_lasso(problem, alpha, weights=weights)
    assert result.converged
    gap, objective = dual_gap(hessian, problem.linear, problem.target_square, result.coef, alpha, weights)
    assert gap <= 2e-6 * objective
    assert result.objective == pytest.approx(objective, rel=1e-7)
    tight = group_lasso(problem, alpha, weights=weights, tol=1e-10, start=result.coef)
    assert_optimal(hessian, problem.linear, tight, alpha, weights, atol=1e-3)


@pytest.mark.parametrize("alpha", [0.05, 0.1, 1.0])
def test_group_where_points_are_near_copies(alpha):
    """500 points on a curve, four components: whole Newton steps, or sweeps alone, do not get there."""
    gram = gram_of("rbf", parabola(), gamma=2.0)
    b, _ = kernel_pca(gram, 4)
    problem = hessian_problem(gram, b, 0.05)
    result = group_lasso(problem, alpha, max_iter=600)
    assert result.converged
    gap, objective = dual_gap(
        problem.hessian, problem.linear, problem.target_square, result.coef, alpha, np.ones(len(gram))
    )
    assert gap <= 2e-6 * objective


def test_group_where_many_rows_are_nearly_zero():
    """Five components, narrow in alpha: rows on their way to zero must not hold up the others."""
    rng = np.random.default_rng(20)
    n = int(rng.integers(5, 120))
    rows = rng.standard_normal((n, int(rng.integers(1, 4))))
    gram = gram_of("rbf", rows, gamma=0.5 / 10 ** rng.uniform(-1, 1))
    factor = factor_of(gram)
    moment = factor.T @ factor
    directions = kernel_pca_directions(moment, int(rng.integers(1, 7)))
    problem = elastic_net_quadratic(factor, moment, directions, 10 ** rng.uniform(-3, 1))
    assert group_lasso(problem, 1e-3 * largest_alpha(problem)).converged


def test_group_agrees_with_block_coordinate_descent():
    gram = gram_of("rbf", clusters()[::3], gamma=100.0)
    b, _ = kernel_pca(gram, 3)
    problem = hessian_problem(gram, b, 0.1)
    truth = coordinate_descent(problem.hessian, problem.linear, 0.1, np.ones(30))
    result = group_lasso(problem, 0.1, tol=1e-10)
    np.testing.assert_array_equal(result.active, np.flatnonzero(np.linalg.norm(truth, axis=1)))
    np.testing.assert_allclose(result.coef, truth, atol=1e-6)
    assert printed_objective(gram, b, result.coef, 0.1, 0.1) == pytest.approx(result.objective, rel=1e-8)


def test_group_with_one_column_is_the_lasso_where_points_are_near_copies():
    gram = gram_of("rbf", parabola(), gamma=2.0)
    b, _ = kernel_pca(gram, 1)
    joint = group_lasso(hessian_problem(gram, b, 0.05), 0.05)
    alone = lasso(hessian_problem(gram, b[:, 0], 0.05), 0.05)
    assert joint.converged
    assert joint.objective == pytest.approx(alone.objective, rel=1e-6)
    np.testing.assert_array_equal(joint.active, alone.active)


# Alternation


@pytest.mark.parametrize("center", [False, True])
def test_alternation_falls_and_settles(center):
    gram = gram_of("rbf", clusters(), gamma=10.0)
    factor = factor_of(gram)
    centred = factor - center * factor.mean(axis=0)
    moment = centred.T @ centred
    start = kernel_pca_directions(moment, 4)
    found = alternate(factor, moment, start, [0.05] * 4, 0.1, max_iter=50)
    assert found.converged
    assert 1 < found.n_iter == len(found.objective) < 50
    assert np.all(np.diff(found.criterion) <= 1e-9)
    assert found.criterion[-1] < found.criterion[0]
    np.testing.assert_allclose(found.directions.T @ found.directions, np.eye(4), atol=1e-9)
    joint = alternate_jointly(factor, moment, start, 0.1, 0.1, max_iter=50)
    assert joint.converged
    assert np.all(np.diff(joint.criterion) <= 1e-9)
    np.testing.assert_allclose(joint.directions.T @ joint.directions, np.eye(4), atol=1e-9)
    inner = (
        joint.directions.T @ moment @ factor.T @ joint.coef
    )  # of the polar factor: symmetric, no negative eigenvalue
    np.testing.assert_allclose(inner, inner.T, atol=1e-9 * np.abs(inner).max())
    assert np.linalg.eigvalsh(inner)[0] > 0
    one = alternate(factor, moment, start, [0.05] * 4, 0.1, max_iter=1)
    assert one.converged
    assert len(one.objective) == 1


def by_the_printed_criterion(gram, alphas, l2, n_passes):
    """J[P, Q] as printed, with roots of K: lassos by LARS at the columns of P, then K Q = U D V', P = U V'."""
    values, vectors = np.linalg.eigh(gram)
    values, vectors = values[::-1], vectors[:, ::-1]
    root, cube = (vectors * values**power @ vectors.T for power in (0.5, 1.5))
    P = vectors[:, : len(alphas)]
    for _ in range(n_passes):
        A = np.zeros((len(gram), len(alphas)))
        for k, alpha in enumerate(alphas):
            # LARS divides its correlations by no number of rows when told of one
            A[:, k] = lars_path_gram(
                cube @ P[:, k], gram @ (gram + l2 * np.eye(len(gram))), n_samples=1, alpha_min=alpha, method="lasso"
            )[2][:, -1]
        left, _, right = np.linalg.svd(gram @ (root @ A), full_matrices=False)
        P = left @ right
    return A, P


def test_simultaneous_passes_are_those_of_the_printed_criterion():
    gram = gram_of("rbf", np.random.default_rng(3).standard_normal((25, 2)), gamma=0.7) + 0.05 * np.eye(25)
    factor = factor_of(gram)
    moment = factor.T @ factor
    alphas, start = (0.3, 0.5, 0.2), kernel_pca_directions(moment, 3)
    for n_passes in (1, 2, 5):
        found = alternate_simultaneously(factor, moment, start, alphas, 0.1, max_iter=n_passes, tol=1e-12, settled=0.0)
        truth, axes = by_the_printed_criterion(gram, alphas, 0.1, n_passes)
        signs = np.sign(np.sum(truth * (gram @ found.coef), axis=0))
        np.testing.assert_allclose(found.coef * signs, truth, atol=1e-5)
        assert np.array_equal(found.coef != 0, np.abs(truth) > 1e-8)
    # P = K^1/2 b and U = G'b are the same directions: their scatters p'K p and u'M u agree
    scatters = [
        np.sort(np.linalg.eigvalsh(m)) for m in (axes.T @ gram @ axes, found.directions.T @ moment @ found.directions)
    ]
    np.testing.assert_allclose(*scatters, rtol=1e-6)


def test_no_turn_of_the_axes_betters_the_simultaneous_minimum():
    """Brute force: for rows in three dimensions, two axes turned a little any way, the loadings found anew."""
    rows = np.random.default_rng(1).standard_normal((6, 3)) * (3.0, 2.0, 1.0)
    gram = rows @ rows.T
    moment = rows.T @ rows
    alphas = (9.0, 4.0)
    found = alternate_simultaneously(
        rows, moment, kernel_pca_directions(moment, 2), alphas, 0.5, max_iter=500, tol=1e-12, settled=1e-14
    )
    assert found.converged
    assert found.n_iter > 3

    hessian = gram @ gram + 0.5 * gram
    places = [np.array(c) for size in (1, 2, 3) for c in combinations(range(len(rows)), size)]
    tried = [(used, np.array(signs)) for used in places for signs in product((-1, 1), repeat=len(used))]

    def value(axes):
        """min over A of J + (tr M - tr U'M U)/2: every support with every pattern of signs is tried."""
        total = (np.trace(moment) - np.trace(axes.T @ moment @ axes)) / 2
        for u, alpha in zip(axes.T, alphas, strict=True):
            linear, least = rows @ (moment @ u), 0.0
            for used, signs in tried:
                a = np.linalg.solve(hessian[np.ix_(used, used)], linear[used] - alpha * signs)
                if np.all(a * signs > 0):
                    least = min(least, (alpha * signs - linear[used]) @ a / 2)
            total += u @ moment @ u / 2 + least
        return total

    reached = value(found.directions)
    assert reached == pytest.approx(found.criterion[-1], rel=1e-6)
    for plane in ((0, 1), (0, 2), (1, 2)):
        for angle in (-0.05, 0.05):
            turn = np.eye(3)
            turn[np.ix_(plane, plane)] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
            assert value(turn @ found.directions) > reached


def test_simultaneous_axes_stay_orthonormal_where_components_are_zero():
    gram = gram_of("rbf", clusters(), gamma=10.0)
    factor = factor_of(gram)
    moment = factor.T @ factor
    start = kernel_pca_directions(moment, 4)
    for alphas in ([0.05, 1e9, 0.05, 0.05], [1e9] * 4):
        found = alternate_simultaneously(factor, moment, start, alphas, 0.1, max_iter=50)
        assert np.array_equal(found.coef.any(axis=0), np.less(alphas, 1))
        np.testing.assert_allclose(found.directions.T @ found.directions, np.eye(4), atol=1e-9)
        assert np.all(np.diff(found.criterion) <= 1e-9)


def test_alternation_with_a_component_that_is_zero():
    gram = gram_of("rbf", clusters(), gamma=10.0)
    factor = factor_of(gram)
    moment = factor.T @ factor
    start = kernel_pca_directions(moment, 2)
    for found in (
        alternate(factor, moment, start, [0.05, 1e9], 0.1, max_iter=50),
        alternate_jointly(factor, moment, start, 1e9, 0.1, max_iter=5),
    ):
        assert found.converged
        assert not found.coef[:, 1].any()
        assert np.isfinite(found.directions).all()
        assert np.isfinite(found.objective).all()
    with pytest.raises(ValueError, match="n_components=91 is more than the rank"):
        kernel_pca_directions(moment, 91)


# ADMM


def test_admm_on_the_papers_clusters():
    """METHODS: literal nonzeros about 7-20 each, |cos| to kernel PCA .99+, MSE .0632 against .0596."""
    gram = gram_of("rbf", clusters(), gamma=10.0)
    found = admm(gram, CLUSTER_ALPHAS, 0.1, penalty=0.01)
    counts = np.count_nonzero(found.coef, axis=0)
    assert counts.min() >= 7
    assert counts.max() <= 20
    unit = found.coef / np.sqrt(np.einsum("ij,ij->j", found.coef, gram @ found.coef))
    b, values = kernel_pca(gram, 8)
    assert np.abs(np.einsum("ij,ij->j", unit, gram @ b)).min() > 0.99
    within = np.linalg.solve(unit.T @ gram @ unit, unit.T @ gram @ gram @ unit)
    assert 1 - np.trace(within) / np.trace(gram) == pytest.approx(0.0632, abs=2e-4)
    assert 1 - values.sum() / np.trace(gram) == pytest.approx(0.0596, abs=1e-4)
    assert found.inner_capped.any()  # the dual rule is out of reach
    assert not found.outer_capped.any()
    assert max(map(len, found.n_inner)) <= 3
    assert not found.converged


@pytest.mark.parametrize("n_passes", [1, 2])
@pytest.mark.parametrize("center", [False, True])
def test_converged_admm_is_exact_alternation(center, n_passes):
    """Two components, the second deflated, with as many outer passes for both solvers."""
    gram = gram_of("rbf", clusters()[::3], gamma=100.0)
    n = len(gram)
    h = np.eye(n) - center / n
    tight = {"eps_abs": 1e-12, "eps_rel": 1e-12, "max_iter": 200_000, "outer_tol": 0.0, "jitter": 0.0}
    literal = admm(gram, [0.3, 0.3], 0.1, penalty=0.05, center=center, outer_max_iter=n_passes, **tight)
    factor = np.linalg.cholesky(gram)
    moment = factor.T @ h @ factor
    start = kernel_pca_directions(moment, 2)
    exact = alternate(factor, moment, start, [0.3, 0.3], 0.1, tol=1e-10, max_iter=n_passes, settled=0.0)
    assert not literal.inner_capped.any()
    assert literal.outer_capped.all()
    assert literal.objective.sum() == pytest.approx(exact.objective[-1], rel=1e-6)
    np.testing.assert_allclose(np.abs(literal.coef), np.abs(exact.coef), atol=1e-6)


def test_admm_first_iteration_is_lines_6_to_8():
    """One ADMM iteration from a = t = 0, by matrix inverses as printed."""
    gram = gram_of("rbf", clusters()[::9], gamma=100.0)
    values, vectors = np.linalg.eigh(gram)
    p, rho, l2, alpha = vectors[:, -1], 0.3, 0.1, 0.01
    q = np.linalg.inv(gram + l2 * np.eye(10) + rho * np.linalg.inv(gram)) @ gram @ p
    image = (vectors / np.sqrt(values)) @ vectors.T @ q
    a = np.sign(image) * np.maximum(np.abs(image) - alpha / rho, 0)
    found = admm(gram, [alpha], l2, penalty=rho, max_iter=1, outer_max_iter=1, jitter=0.0)
    np.testing.assert_allclose(np.abs(found.coef[:, 0]), np.abs(a), atol=1e-10)
    assert found.primal_residual[0] == pytest.approx(np.linalg.norm(image - a))
    dual = rho * np.linalg.norm((vectors / np.sqrt(values)) @ vectors.T @ a)
    assert found.dual_residual[0] == pytest.approx(dual)
