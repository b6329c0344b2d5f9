"""The lasso: optimality conditions, scikit-learn's LARS, long coordinate descent and printed counts."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import gram_of, three_clusters
from sklearn.linear_model import lars_path_gram
from solver_cases import (
    CLUSTER_ALPHAS,
    assert_optimal,
    coordinate_descent,
    dual_gap,
    factor_of,
    hessian_problem,
    kernel_pca,
    parabola,
    printed_objective,
    random_problem,
)

from kernelsieve.solvers.alternation import ImitationProblem, admm, alternate, kernel_pca_directions
from kernelsieve.solvers.group_lasso import group_lasso
from kernelsieve.solvers.lasso import Support, lasso
from kernelsieve.solvers.quadratic import FactorQuadratic, HessianQuadratic, elastic_net_quadratic, largest_alpha

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
    gram = gram_of("rbf", three_clusters()[::3], gamma=100.0)
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
    rows = np.tile(three_clusters()[::6], (3, 1))
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
        (three_clusters(), 10.0, 0.1, CLUSTER_ALPHAS, [10, 16, 20, 17, 15, 13, 15, 13]),
        (parabola(), 2.0, 0.05, (0.05,) * 4, [14, 11, 12, 11]),
        (parabola(), 2.0, 0.05, (0.05, 0.07, 0.08, 0.09), [14, 11, 12, 11]),
    ],
    ids=["clusters", "parabola", "parabola, second setting"],
)
def test_printed_counts(rows, gamma, l2, alphas, counts):
    gram = gram_of("rbf", rows, gamma=gamma)
    factor = factor_of(gram)
    moment = factor.T @ factor
    found = alternate(ImitationProblem(factor, moment, l2), kernel_pca_directions(moment, len(alphas)), alphas)
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


def test_the_lasso_ends_where_only_rounding_is_left():
    """Six candidates, copies to 1e-7, under a penalty of 4e-8: one enters and leaves again, and nothing is gained."""
    rng = np.random.default_rng(312)
    n, r, noise = int(rng.integers(5, 80)), int(rng.integers(2, 8)), 10.0 ** rng.uniform(-9, -3)
    base = rng.standard_normal((r, 3 + n // 6))
    design = base[:, rng.integers(0, base.shape[1], n)] + noise * rng.standard_normal((r, n))
    y = rng.standard_normal(r)
    problem = HessianQuadratic(design.T @ design, design.T @ y, float(y @ y))
    alpha = largest_alpha(problem) * 10.0 ** rng.uniform(-8, -0.3)
    start = rng.standard_normal(n) * (rng.random(n) < 0.3)
    result = lasso(problem, alpha, start=start, tol=1e-13, max_iter=2000)
    assert result.n_iter < 500
    assert result.objective < y @ y / 2
