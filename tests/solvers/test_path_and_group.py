"""Paths of the lasso, and one support for all components."""

from __future__ import annotations

import numpy as np
import pytest
import solver_cases as cases
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import gram_of, three_clusters

from kernelsieve.solvers import group_lasso as group
from kernelsieve.solvers.alternation import kernel_pca_directions
from kernelsieve.solvers.group_lasso import group_lasso
from kernelsieve.solvers.lasso import LassoResult, lasso
from kernelsieve.solvers.path import alpha_for_nonzeros, descend, most_within
from kernelsieve.solvers.quadratic import HessianQuadratic, elastic_net_quadratic, largest_alpha

# Path


def test_path_is_each_solution_alone():
    gram = gram_of("rbf", cases.parabola(150), gamma=2.0)
    b, _ = cases.kernel_pca(gram, 1)
    problem = cases.hessian_problem(gram, b[:, 0], 0.05)
    alphas = largest_alpha(problem) * np.geomspace(1.0, 0.01, 40)
    path = list(descend(problem, alphas, tol=1e-9))
    assert all(result.converged for result in path)
    assert len(path[0].active) == 0
    for i in (5, 20, 39):
        alone = lasso(problem, alphas[i], tol=1e-9)
        np.testing.assert_allclose(path[i].coef, alone.coef, atol=1e-6)
        assert path[i].objective == pytest.approx(alone.objective, rel=1e-8)
        assert len(path[i].active) == len(alone.active)
    assert np.all(np.diff([result.objective for result in path]) < 0)
    assert all(result.gap <= 1e-9 * result.objective for result in path)


def test_alpha_for_nonzeros_gives_at_most_what_was_asked_for():
    gram = gram_of("rbf", three_clusters(), gamma=10.0)
    b, _ = cases.kernel_pca(gram, 1)
    problem = cases.hessian_problem(gram, b[:, 0], 0.1)
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
    counts, asked = {8.0: 1, 4.0: 3, 2.0: 2, 1.0: 6}, []

    def solve(alpha, best):
        asked.append(alpha)
        return LassoResult(np.zeros(9), np.arange(counts.get(alpha, 6)), 1, 1.0, 0.0, True)

    alpha, found = most_within(4, 8.0, counts, solve, 2)
    assert (alpha, len(found.active)) == (4.0, 3)
    np.testing.assert_allclose(asked, [8.0, 4.0, 2.0, 1.0, 2**0.5, 2**0.75])  # between what fits and what does not


def test_the_search_ends_at_the_number_asked_for():
    """The largest alpha that gives it is the answer, and no other is tried after it."""
    asked = []

    def solve(alpha, best):
        asked.append(alpha)
        return LassoResult(np.zeros(9), np.arange(len(asked)), 1, 1.0, 0.0, True)

    alpha, found = most_within(2, 8.0, [8.0, 4.0, 2.0, 1.0], solve, 5)
    assert (alpha, len(found.active), asked) == (4.0, 2, [8.0, 4.0])


# One support for all


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_group_is_optimal_and_its_gap_is_true(seed):
    problem, weights, alpha = cases.random_problem(seed, n_components=1 + seed % 4)
    rows = np.arange(len(weights))
    hessian = problem.block(rows, rows)
    result = group_lasso(problem, alpha, weights=weights)
    assert result.converged
    gap, objective = cases.dual_gap(hessian, problem.linear, problem.target_square, result.coef, alpha, weights)
    assert gap <= 2e-6 * objective
    assert result.objective == pytest.approx(objective, rel=1e-7)
    tight = group_lasso(problem, alpha, weights=weights, tol=1e-10, start=result.coef)
    cases.assert_optimal(hessian, problem.linear, tight, alpha, weights, atol=1e-3)


@pytest.mark.parametrize("alpha", [0.05, 0.1, 1.0])
def test_group_where_points_are_near_copies(alpha):
    """500 points on a curve, four components: whole Newton steps, or sweeps alone, do not get there."""
    gram = gram_of("rbf", cases.parabola(), gamma=2.0)
    b, _ = cases.kernel_pca(gram, 4)
    problem = cases.hessian_problem(gram, b, 0.05)
    result = group_lasso(problem, alpha, max_iter=600)
    assert result.converged
    gap, objective = cases.dual_gap(
        problem.hessian, problem.linear, problem.target_square, result.coef, alpha, np.ones(len(gram))
    )
    assert gap <= 2e-6 * objective


def test_group_where_many_rows_are_nearly_zero():
    """Five components, narrow in alpha: rows on their way to zero must not hold up the others."""
    rng = np.random.default_rng(20)
    n = int(rng.integers(5, 120))
    rows = rng.standard_normal((n, int(rng.integers(1, 4))))
    gram = gram_of("rbf", rows, gamma=0.5 / 10 ** rng.uniform(-1, 1))
    factor = cases.factor_of(gram)
    moment = factor.T @ factor
    directions = kernel_pca_directions(moment, int(rng.integers(1, 7)))
    problem = elastic_net_quadratic(factor, moment, directions, 10 ** rng.uniform(-3, 1))
    assert group_lasso(problem, 1e-3 * largest_alpha(problem)).converged


def test_group_agrees_with_block_coordinate_descent():
    gram = gram_of("rbf", three_clusters()[::3], gamma=100.0)
    b, _ = cases.kernel_pca(gram, 3)
    problem = cases.hessian_problem(gram, b, 0.1)
    truth = cases.coordinate_descent(problem.hessian, problem.linear, 0.1, np.ones(30))
    result = group_lasso(problem, 0.1, tol=1e-10)
    np.testing.assert_array_equal(result.active, np.flatnonzero(np.linalg.norm(truth, axis=1)))
    np.testing.assert_allclose(result.coef, truth, atol=1e-6)
    assert cases.printed_objective(gram, b, result.coef, 0.1, 0.1) == pytest.approx(result.objective, rel=1e-8)


def test_group_with_one_column_is_the_lasso_where_points_are_near_copies():
    gram = gram_of("rbf", cases.parabola(), gamma=2.0)
    b, _ = cases.kernel_pca(gram, 1)
    joint = group_lasso(cases.hessian_problem(gram, b, 0.05), 0.05)
    alone = lasso(cases.hessian_problem(gram, b[:, 0], 0.05), 0.05)
    assert joint.converged
    assert joint.objective == pytest.approx(alone.objective, rel=1e-6)
    np.testing.assert_array_equal(joint.active, alone.active)


def test_a_sweep_sets_each_row_to_its_best_value_with_the_others_fixed():
    """By one row's optimality condition: H_ii a + alpha w a / |a| = r, or |r| <= alpha w where the row is zero."""
    rng = np.random.default_rng(0)
    root, linear, weights, alpha = rng.standard_normal((12, 9)), rng.standard_normal((9, 3)), rng.uniform(1, 2, 9), 2.0
    hessian, values = root.T @ root / 4, rng.standard_normal((9, 3))
    support = group._Support(HessianQuadratic(hessian, linear, 1.0), alpha, weights, np.arange(9), values.copy())
    support.relax(np.arange(2, 9))
    for i in range(2, 9):
        values[i] = 0
        left = linear[i] - hessian[i] @ values
        share = 1 - alpha * weights[i] / np.linalg.norm(left)
        if share > 0:
            values[i] = share * left / hessian[i, i]
    kept = np.flatnonzero(values.any(axis=1))
    assert 2 < len(kept) < 9
    np.testing.assert_array_equal(support.members, kept)
    np.testing.assert_allclose(support.values, values[kept], rtol=1e-12)
    np.testing.assert_array_equal(support.hessian, hessian[np.ix_(kept, kept)])


def test_a_row_that_a_step_leaves_on_zero_is_gone(monkeypatch):
    """By rounding a step may carry a row to zero and not through it; the next one would divide by its length."""
    rng = np.random.default_rng(0)
    for _ in range(1000):
        values = rng.standard_normal((2, 3))
        length = np.linalg.norm(values[0])
        if (values[0] / length) @ values[0] / length < 1:
            break
    move = np.stack([-values[0], np.zeros(3)])
    monkeypatch.setattr(group, "_newton_step", lambda *given: move)
    quadratic = HessianQuadratic(np.eye(2), np.zeros((2, 3)), 1.0)
    support = group._Support(quadratic, 0.1, np.ones(2), np.arange(2), values)
    assert support._step()
    np.testing.assert_array_equal(support.members, [1])
    np.testing.assert_array_equal(support.values, values[1:])


def test_group_ends_where_only_rounding_is_left():
    """No gap is small enough for tol=0: steps end when neither Newton's nor a sweep lowers the objective."""
    gram = gram_of("rbf", cases.parabola(120), gamma=2.0)
    b, _ = cases.kernel_pca(gram, 3)
    result = group_lasso(cases.hessian_problem(gram, b, 0.05), 0.1, tol=0.0)
    assert result.n_iter < 500
    assert result.gap <= 1e-9 * result.objective
