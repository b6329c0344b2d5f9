"""Alternation and ADMM: they fall, settle, and end where the printed criterion says."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from oracles import gram_of, three_clusters
from sklearn.linear_model import lars_path_gram
from solver_cases import CLUSTER_ALPHAS, factor_of, kernel_pca

from kernelsieve.solvers.alternation import (
    ImitationProblem,
    admm,
    alternate,
    alternate_jointly,
    alternate_simultaneously,
    kernel_pca_directions,
)

# Alternation


@pytest.mark.parametrize("center", [False, True])
def test_alternation_falls_and_settles(center):
    gram = gram_of("rbf", three_clusters(), gamma=10.0)
    factor = factor_of(gram)
    centred = factor - center * factor.mean(axis=0)
    moment = centred.T @ centred
    start = kernel_pca_directions(moment, 4)
    found = alternate(ImitationProblem(factor, moment, 0.1, max_iter=50), start, [0.05] * 4)
    assert found.converged
    assert 1 < found.n_iter == len(found.objective) < 50
    assert np.all(np.diff(found.criterion) <= 1e-9)
    assert found.criterion[-1] < found.criterion[0]
    np.testing.assert_allclose(found.directions.T @ found.directions, np.eye(4), atol=1e-9)
    joint = alternate_jointly(ImitationProblem(factor, moment, 0.1, max_iter=50), start, 0.1)
    assert joint.converged
    assert np.all(np.diff(joint.criterion) <= 1e-9)
    np.testing.assert_allclose(joint.directions.T @ joint.directions, np.eye(4), atol=1e-9)
    # of the polar factor: symmetric, no negative eigenvalue
    inner = joint.directions.T @ moment @ factor.T @ joint.coef
    np.testing.assert_allclose(inner, inner.T, atol=1e-9 * np.abs(inner).max())
    assert np.linalg.eigvalsh(inner)[0] > 0
    one = alternate(ImitationProblem(factor, moment, 0.1, max_iter=1), start, [0.05] * 4)
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
        found = alternate_simultaneously(
            ImitationProblem(factor, moment, 0.1, max_iter=n_passes, tol=1e-12, passes_tol=0.0), start, alphas
        )
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
        ImitationProblem(rows, moment, 0.5, max_iter=500, tol=1e-12, passes_tol=1e-14),
        kernel_pca_directions(moment, 2),
        alphas,
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
    gram = gram_of("rbf", three_clusters(), gamma=10.0)
    factor = factor_of(gram)
    moment = factor.T @ factor
    start = kernel_pca_directions(moment, 4)
    for alphas in ([0.05, 1e9, 0.05, 0.05], [1e9] * 4):
        found = alternate_simultaneously(ImitationProblem(factor, moment, 0.1, max_iter=50), start, alphas)
        assert np.array_equal(found.coef.any(axis=0), np.less(alphas, 1))
        np.testing.assert_allclose(found.directions.T @ found.directions, np.eye(4), atol=1e-9)
        assert np.all(np.diff(found.criterion) <= 1e-9)


def test_alternation_with_a_component_that_is_zero():
    gram = gram_of("rbf", three_clusters(), gamma=10.0)
    factor = factor_of(gram)
    moment = factor.T @ factor
    start = kernel_pca_directions(moment, 2)
    for found in (
        alternate(ImitationProblem(factor, moment, 0.1, max_iter=50), start, [0.05, 1e9]),
        alternate_jointly(ImitationProblem(factor, moment, 0.1, max_iter=5), start, 1e9),
    ):
        assert found.converged
        assert not found.coef[:, 1].any()
        assert np.isfinite(found.directions).all()
        assert np.isfinite(found.objective).all()


# ADMM


def test_admm_on_the_papers_three_clusters():
    """METHODS: literal nonzeros about 7-20 each, |cos| to kernel PCA .99+, MSE .0632 against .0596."""
    gram = gram_of("rbf", three_clusters(), gamma=10.0)
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
    gram = gram_of("rbf", three_clusters()[::3], gamma=100.0)
    n = len(gram)
    h = np.eye(n) - center / n
    tight = {"eps_abs": 1e-12, "eps_rel": 1e-12, "max_iter": 200_000, "outer_tol": 0.0, "jitter": 0.0}
    literal = admm(gram, [0.3, 0.3], 0.1, penalty=0.05, center=center, outer_max_iter=n_passes, **tight)
    factor = np.linalg.cholesky(gram)
    moment = factor.T @ h @ factor
    start = kernel_pca_directions(moment, 2)
    exact = alternate(
        ImitationProblem(factor, moment, 0.1, tol=1e-10, max_iter=n_passes, passes_tol=0.0), start, [0.3, 0.3]
    )
    assert not literal.inner_capped.any()
    assert literal.outer_capped.all()
    assert literal.objective.sum() == pytest.approx(exact.objective[-1], rel=1e-6)
    np.testing.assert_allclose(np.abs(literal.coef), np.abs(exact.coef), atol=1e-6)


def test_admm_first_iteration_is_lines_6_to_8():
    """One ADMM iteration from a = t = 0, by matrix inverses as printed."""
    gram = gram_of("rbf", three_clusters()[::9], gamma=100.0)
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
