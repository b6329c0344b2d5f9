"""The factors that the elastic-net solvers stand on, against LAPACK."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles import gram_of, three_clusters
from scipy.linalg.lapack import dpstrf
from solver_cases import factor_of, hessian_problem, kernel_pca, parabola

from kernelsieve.solvers.alternation import ImitationProblem, alternate, kernel_pca_directions
from kernelsieve.solvers.greedy import eliminate, pivoted_cholesky
from kernelsieve.solvers.lasso import ActiveCholesky
from kernelsieve.solvers.quadratic import elastic_net_quadratic, largest_alpha
from kernelsieve.spectrum.top import _sum_converged
from kernelsieve.spectrum.whitening import orthonormal, triangular_whitening

# Pivoted Cholesky


def test_pivoted_cholesky_is_lapacks(cloud):
    gram = gram_of("rbf", cloud, gamma=0.3)
    found = pivoted_cholesky(lambda j: gram[:, j], np.diagonal(gram))
    lapack, order, *_ = dpstrf(gram, lower=1)
    first = found.chosen[:20]
    np.testing.assert_array_equal(first[1:], order[1:20] - 1)  # the first pivot is a tie of all ones
    np.testing.assert_allclose(np.abs(found.filled[first, :20]), np.abs(np.tril(lapack)[:20, :20]), atol=1e-12)
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


def test_the_residual_beside_points_that_are_there_already(cloud):
    """Rows 3 and 11 chosen after 0, 7 and 20, or beside their whitened features: one residual kernel."""
    gram = gram_of("rbf", cloud, gamma=0.3)
    given = np.array([0, 7, 20])
    features = gram[:, given] @ np.linalg.inv(np.linalg.cholesky(gram[np.ix_(given, given)])).T
    rows = iter([3, 11])
    found = eliminate(lambda j: gram[:, j], np.diagonal(gram), 2, lambda *_: next(rows), explained=features)
    chosen = np.append(given, [3, 11])
    left = gram - gram[:, chosen] @ np.linalg.solve(gram[np.ix_(chosen, chosen)], gram[chosen])
    np.testing.assert_allclose(found.diagonal, np.diagonal(left), atol=1e-10)
    assert found.unexplained[-1] == pytest.approx(np.trace(left) / np.trace(gram), rel=1e-8)


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
    gram = gram_of("rbf", three_clusters(), gamma=10.0)
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
    gram = gram_of("rbf", three_clusters(), gamma=10.0)
    n = len(gram)
    h = np.eye(n) - center / n
    factor = factor_of(gram)
    moment = factor.T @ h @ factor
    start = kernel_pca_directions(moment, 2)
    b = np.linalg.lstsq(factor.T, start, rcond=None)[0]  # G'b = u
    quadratic = elastic_net_quadratic(factor, moment, start[:, 0], 0.1)
    assert largest_alpha(quadratic) == pytest.approx(np.abs(gram @ h @ gram @ b[:, 0]).max(), rel=1e-6)
    found = alternate(ImitationProblem(factor, moment, 0.1), start, [0.02, 0.02])
    earlier = None
    for k in range(2):
        a = found.coef[:, k]
        new = h @ gram @ a
        if earlier is not None:
            new = new - earlier * (earlier @ gram @ h @ gram @ a)
        new = new / np.sqrt(new @ gram @ new)
        earlier = new
        np.testing.assert_allclose(np.abs(factor.T @ new), np.abs(found.directions[:, k]), atol=1e-6)


# Whitening, and the end of a Krylov space


def test_points_that_depend_on_each_other_have_no_triangular_whitening():
    dependent = np.ones((4, 2))
    assert orthonormal(dependent, np.eye(4)) is None
    assert triangular_whitening(dependent @ dependent.T - 1e-3 * np.eye(4)) is None


def test_a_sum_that_only_rounding_adds_to_has_settled():
    """A last change that is larger than the one before it tells nothing where both are rounding."""
    assert _sum_converged([1.0, 1.0 + 1e-14, 1.0 + 3e-14], 2000)
    assert not _sum_converged([1.0, 1.01, 1.03], 2000)


def test_a_sum_has_not_settled_while_its_third_digit_changes():
    """Two changes say little of the rate at which the next ones shrink."""
    assert not _sum_converged([0.0, 1.0, 1.002], 2000)
    assert _sum_converged([0.0, 1.0, 1.0005], 2000)


@pytest.mark.parametrize("n", [30, 399, 400, 523])
def test_orthonormal_vectors_span_what_they_did(n):
    """Few and many, which are solved in parts."""
    rng = np.random.default_rng(n)
    root = rng.standard_normal((n, n)) / np.sqrt(n)
    gram, basis = root @ root.T + np.eye(n), rng.standard_normal((n, 7))
    found = orthonormal(basis, gram, 2)
    np.testing.assert_allclose(found.T @ gram @ found, np.eye(7), atol=1e-10)
    coef = np.linalg.lstsq(basis, found, rcond=None)[0]
    np.testing.assert_allclose(basis @ coef, found, atol=1e-10)
