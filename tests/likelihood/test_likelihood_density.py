"""The likelihood against a Gaussian density, and steps of one weight against brute force."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
import scipy.sparse.linalg
from likelihood_cases import (
    POLY,
    RULES,
    direct_statistics,
    likelihood_of,
    log_density,
    poly_features,
    some_weights,
    wild_problem,
)
from oracles import gram_of
from scipy.stats import multivariate_normal
from sklearn.decomposition import PCA

from kernelsieve.solvers.likelihood import Likelihood, _CoordinateState, coordinate_ascent, sweeps

# The likelihood


def test_the_feature_map_is_the_kernels(rows):
    features = poly_features(rows, **POLY)
    assert features.shape == (50, 10)
    np.testing.assert_allclose(features @ features.T, gram_of("poly", rows, **POLY), atol=1e-12)


@pytest.mark.parametrize("noise_variance", [2.0, 0.1, 1e-3])
@pytest.mark.parametrize("n_active", [0, 1, 6, 50])
def test_the_likelihood_is_a_gaussian_density(n_active, noise_variance, rows):
    features, weights = poly_features(rows, **POLY), some_weights(50, n_active)
    value = likelihood_of(gram_of("poly", rows, **POLY)).log_likelihood(weights, noise_variance)
    assert value == pytest.approx(log_density(features, features, weights, noise_variance).sum(), rel=1e-9)


def test_the_likelihood_of_weighted_rows_over_other_points(rows, cloud):
    """Candidate points need not be the rows, and a row may count more than once."""
    points, mass = cloud[50:65, :3], np.random.default_rng(0).integers(1, 5, 50)
    cross_gram, weights = gram_of("poly", points, rows, **POLY), some_weights(15, 6)
    length = float(mass @ np.diagonal(gram_of("poly", rows, **POLY)))
    likelihood = Likelihood(gram_of("poly", points, **POLY), cross_gram * np.sqrt(mass), float(mass.sum()), length)
    density = log_density(poly_features(rows, **POLY), poly_features(points, **POLY), weights, 0.2)
    assert likelihood.log_likelihood(weights, 0.2) == pytest.approx(mass @ density, rel=1e-10)


@pytest.mark.parametrize("n_components", [1, 2, 4])
@pytest.mark.parametrize("rule", [coordinate_ascent, sweeps])
def test_arbitrary_vectors_give_probabilistic_pca(rule, n_components, cloud):
    """The paper's remark: outer products of any vectors, not of the rows, make the model Tipping & Bishop's, in which
    the weights of the covariance's eigenvectors are lambda_i - s2, and zero where lambda_i is below s2.  Truth is
    scikit-learn's PCA, whose covariance and score are probabilistic PCA's."""
    rows = np.vstack([cloud, -cloud])  # of mean zero, so that nothing hangs on centring
    n, d = rows.shape
    truth = PCA(n_components).fit(rows)
    s2 = float(truth.noise_variance_) * (n - 1) / n  # scikit-learn divides by n - 1, the likelihood by n
    vectors = PCA().fit(rows).components_
    values = np.var(rows @ vectors.T, axis=0)

    def fit(kept):
        likelihood = Likelihood(np.eye(len(kept)), kept @ rows.T, float(n), float(np.sum(rows**2)))
        return rule(likelihood, s2, tol=1e-12).weights

    np.testing.assert_allclose(fit(vectors), np.maximum(values - s2, 0), atol=1e-3 * values[0])
    leading = vectors[:n_components]
    covariance = s2 * np.eye(d) + leading.T * fit(leading) @ leading
    np.testing.assert_allclose(covariance, truth.get_covariance() * (n - 1) / n, atol=1e-5 * values[0])
    density = multivariate_normal(np.zeros(d), covariance).logpdf(rows).mean()
    assert density >= truth.score(rows)  # whose n - 1 costs it the maximum
    assert density == pytest.approx(truth.score(rows), abs=1e-3)


def test_the_posterior_is_an_inverse(rows):
    gram, weights = gram_of("rbf", rows, gamma=0.3), some_weights(50, 9)
    active = np.flatnonzero(weights)
    half, logdet = likelihood_of(gram).posterior(active, weights, 0.05)
    precision = np.diag(1 / weights[active]) + gram[np.ix_(active, active)] / 0.05
    np.testing.assert_allclose(half.T @ half, np.linalg.inv(precision), rtol=1e-9, atol=1e-14)
    assert logdet == pytest.approx(np.linalg.slogdet(np.diag(weights[active]) @ precision)[1], rel=1e-10)


def test_above_the_upper_end_no_point_is_worth_its_weight(rows):
    features, likelihood = poly_features(rows, **POLY), likelihood_of(gram_of("poly", rows, **POLY))
    limit = likelihood.largest_noise_variance
    assert limit == pytest.approx(max(np.mean((features @ point) ** 2) / (point @ point) for point in features))

    def gains(noise_variance):
        empty = log_density(features, features, np.zeros(50), noise_variance).sum()
        small = 1e-5 * np.eye(50)
        return np.array([log_density(features, features, w, noise_variance).sum() for w in small]) - empty

    assert np.all(gains(1.001 * limit) < 0)
    assert np.sum(gains(0.999 * limit) > 0) == 1


def test_points_without_length_have_no_say():
    """A zero row under a linear kernel."""
    X = np.vstack([np.zeros(2), [[3.0, 0.0], [0.0, 1.0]]])
    likelihood = likelihood_of(X @ X.T)
    assert likelihood.largest_noise_variance == pytest.approx(3)
    for rule in RULES.values():
        found = rule(likelihood, 0.1, max_iter=500)
        assert np.all(np.isfinite(found.weights))
    assert found.weights[1] > 0
    assert coordinate_ascent(likelihood, 0.1).weights[0] == 0


# Steps of one weight


@pytest.mark.parametrize("n_start", [0, 7])
def test_rank_one_updates_are_direct_inversion(n_start, rows):
    """Points added, changed, deleted, added again."""
    features, likelihood = poly_features(rows, **POLY), likelihood_of(gram_of("poly", rows, **POLY))
    start = some_weights(50, n_start, seed=3)
    state = _CoordinateState(likelihood, 0.2, start)
    changes = [(4, 0.3), (9, 0.1), (30, 0.7), (9, 0.4), (4, 0.02), (30, 0.0), (41, 0.2), (9, 0.0), (9, 0.5), (30, 0.1)]
    for i, weight in changes:
        state.change(i, weight)
        start[i] = weight
        np.testing.assert_array_equal(state.weights, start)
        S, Q = direct_statistics(features, start, 0.2)
        np.testing.assert_allclose(state.S, S, rtol=1e-9)
        np.testing.assert_allclose(state.Q, Q, rtol=1e-9)
    drifted = state.S.copy(), state.Q.copy()
    state.refresh()
    np.testing.assert_allclose(state.S, drifted[0], rtol=1e-9)
    np.testing.assert_allclose(state.Q, drifted[1], rtol=1e-9)


def test_a_step_so_short_that_it_is_none_changes_nothing(rows):
    state = _CoordinateState(likelihood_of(gram_of("poly", rows, **POLY)), 0.2, some_weights(50, 5, seed=1))
    i = int(state.active[0])
    weight = next(w for w in np.linspace(1.0, 2.0, 100) if 1.0 / np.nextafter(w, 3.0) == 1.0 / w)
    state.change(i, weight)
    before = state._sigma.copy()
    state.change(i, float(np.nextafter(weight, 3.0)))
    np.testing.assert_array_equal(state._sigma, before)


def test_each_proposal_is_the_best_weight_and_its_gain_is_true(rows):
    features = poly_features(rows, **POLY)
    weights = some_weights(50, 5, seed=1)
    proposed, gains = _CoordinateState(likelihood_of(features @ features.T), 0.2, weights).proposals()
    now = log_density(features, features, weights, 0.2).sum()

    def loss(weight, i):
        changed = weights.copy()
        changed[i] = weight
        return -log_density(features, features, changed, 0.2).sum()

    for i in [*np.flatnonzero(weights), *np.flatnonzero(weights == 0)[:12]]:
        best = scipy.optimize.minimize_scalar(loss, args=(i,), bounds=(0, 5), method="bounded", options={"xatol": 1e-9})
        assert -loss(proposed[i], i) - now == pytest.approx(gains[i], abs=1e-8)
        assert -loss(proposed[i], i) >= -best.fun - 1e-8
        assert proposed[i] == pytest.approx(best.x, abs=1e-4)
    assert np.any(proposed[weights > 0] == 0) or np.any(proposed[weights == 0] > 0)


def test_a_joint_step_gains_what_it_says(rows):
    features = poly_features(rows, **POLY)
    weights = some_weights(50, 12, seed=2)
    state = _CoordinateState(likelihood_of(features @ features.T), 0.2, weights)
    before = log_density(features, features, weights, 0.2).sum()
    gain = state.joint_step()
    assert gain > 1
    after = log_density(features, features, state.weights, 0.2).sum()
    assert after - before == pytest.approx(gain, rel=1e-9)
    assert set(np.flatnonzero(state.weights)) == set(state.active) <= set(np.flatnonzero(weights))
    S, Q = direct_statistics(features, state.weights, 0.2)
    np.testing.assert_allclose(state.S, S, rtol=1e-9)
    np.testing.assert_allclose(state.Q, Q, rtol=1e-9)


def test_a_joint_step_never_goes_down():
    """Far from the top the quadratic model leads too far: the step is halved until it gains, or not taken."""
    for seed in range(300):
        likelihood, features, points, noise_variance, start = wild_problem(seed)
        state = _CoordinateState(likelihood, noise_variance, start)
        before = log_density(features, points, start, noise_variance).sum()
        gain = state.joint_step()
        after = log_density(features, points, state.weights, noise_variance).sum()
        assert after >= before - 1e-8 * abs(before)
        assert after - before == pytest.approx(gain, abs=1e-7 * abs(before))


def test_joint_steps_are_what_copies_need(clusters):
    """Near-copies hand weight to one another: a few hundred steps, where single weights alone take thousands."""
    found = coordinate_ascent(likelihood_of(gram_of("rbf", clusters, gamma=16.0)), 0.0625, tol=1e-12)
    assert found.converged
    assert found.n_iter < 500
