"""Tipping's sparse kernel PCA: the likelihood against a Gaussian density in a feature space that can be written down,
each rule against the density, against the others and against brute force, the dictionary against sums over the rows,
and the estimator against all of them."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import fields, replace
from itertools import combinations_with_replacement
from math import factorial, prod

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
import scipy.sparse.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import KERNELS, dictionary_span, exact_kernel_pca, gram_of, subspace_gap
from scipy.stats import multivariate_normal
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from kernelsieve import LikelihoodKernelPCA, likelihood_path
from kernelsieve.fit.captured import ratio_of_model
from kernelsieve.fit.expansion import KernelExpansion
from kernelsieve.fit.sample import Sample
from kernelsieve.kernels import named_kernel
from kernelsieve.rows.memory import ArrayRows
from kernelsieve.rows.sampled import sample_rows
from kernelsieve.selection.dictionary import rows_to_choose_from
from kernelsieve.solvers.coordinate_ascent import _CoordinateState, coordinate_ascent
from kernelsieve.solvers.likelihood import Likelihood, LikelihoodFit, largest_within, sweeps
from kernelsieve.threads import one_blas_thread

POLY = {"gamma": 0.5, "degree": 2, "coef0": 1.0}  # on three features: ten dimensions
RULES = {
    "coordinate": coordinate_ascent,
    "fast": sweeps,
    "em": lambda *arguments, **options: sweeps(*arguments, fast=False, **options),
}
CENTERED = pytest.mark.parametrize("center", [False, True], ids=["uncentred", "centred"])


@pytest.fixture(autouse=True)
def _one_blas_thread():
    """Solvers leave it to the estimator."""
    with one_blas_thread():
        yield


@pytest.fixture(scope="module")
def rows(cloud):
    """50 rows of three features, for the polynomial kernel whose feature space is written down."""
    return cloud[:50, :3]


@pytest.fixture(scope="module")
def clusters():
    """Tipping's three clusters of 30, as METHODS' figures have them."""
    centers = np.array([(-0.5, -0.2), (0.0, 0.6), (0.5, 0.0)])
    return np.repeat(centers, 30, axis=0) + 0.1 * np.random.default_rng(0).standard_normal((90, 2))


def poly_features(X, *, gamma, degree, coef0):
    """phi with phi(x)'phi(y) = (gamma x'y + coef0)^degree: the monomials of (sqrt(gamma) x, sqrt(coef0))."""
    extended = np.column_stack([np.sqrt(gamma) * X, np.full(len(X), np.sqrt(coef0))])
    columns = []
    for chosen in combinations_with_replacement(range(extended.shape[1]), degree):
        ways = factorial(degree) / prod(factorial(count) for count in Counter(chosen).values())
        columns.append(np.sqrt(ways) * extended[:, chosen].prod(axis=1))
    return np.stack(columns, axis=1)


def covariance(points, weights, noise_variance):
    """C = s2 I + sum_i w_i phi_i phi_i'."""
    return noise_variance * np.eye(points.shape[1]) + (points.T * weights) @ points


def log_density(features, points, weights, noise_variance):
    """log N(phi; 0, C) of each row, less the constant -D/2 log(2 pi s2)."""
    constant = -0.5 * features.shape[1] * np.log(2 * np.pi * noise_variance)
    model = multivariate_normal(cov=covariance(points, weights, noise_variance))
    return model.logpdf(features) - constant


def likelihood_of(gram):
    """The likelihood of rows that are all their own dictionary."""
    return Likelihood(gram, gram, float(len(gram)), float(np.trace(gram)))


def some_weights(n, n_active, seed=0):
    rng = np.random.default_rng(seed)
    weights = np.zeros(n)
    weights[rng.choice(n, n_active, replace=False)] = rng.uniform(0.01, 0.5, n_active)
    return weights


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


def direct_statistics(features, weights, noise_variance):
    """S_i = phi_i' C^-1 phi_i and Q_i = sum_n (phi_i' C^-1 phi_n)^2, by inverting C."""
    products = features @ np.linalg.inv(covariance(features, weights, noise_variance)) @ features.T
    return np.diagonal(products), np.sum(products**2, axis=1)


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


def wild_problem(seed):
    """A few points and rows of very different lengths, their features written down, and weights as different."""
    rng = np.random.default_rng(seed)
    n_points, n_rows, n_dimensions = rng.integers(2, 9), rng.integers(1, 6), rng.integers(1, 5)
    points = rng.standard_normal((n_points, n_dimensions)) * 10 ** rng.uniform(-1, 1, (n_points, 1))
    features = rng.standard_normal((n_rows, n_dimensions)) * 10 ** rng.uniform(-1, 1, (n_rows, 1))
    likelihood = Likelihood(points @ points.T, points @ features.T, float(n_rows), float(np.sum(features**2)))
    return likelihood, features, points, 10 ** rng.uniform(-2, 1), 10 ** rng.uniform(-3, 1.5, n_points)


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


# Uphill, to the top


@pytest.mark.parametrize("rule", RULES)
def test_every_step_goes_uphill(rule, rows):
    """Each step's weights, by stopping there, under the density itself."""
    features = poly_features(rows, **POLY)
    likelihood, noise_variance = likelihood_of(features @ features.T), 0.15
    whole = RULES[rule](likelihood, noise_variance, max_iter=50)
    values = []
    for n_steps in range(whole.n_iter + 1):
        found = RULES[rule](likelihood, noise_variance, max_iter=n_steps)
        values.append(log_density(features, features, found.weights, noise_variance).sum())
        assert found.n_iter == n_steps
        assert np.all(found.weights >= 0)
    assert np.all(np.diff(values) >= -1e-9)
    assert values[-1] > values[0] + 1
    np.testing.assert_allclose(whole.log_likelihood, values, rtol=1e-10)


@pytest.mark.parametrize("rule", RULES)
def test_uphill_on_wild_rows(rule):
    """Where the published fast rule and a whole joint step both overshoot."""
    for seed in range(60):
        likelihood, features, points, noise_variance, start = wild_problem(seed)
        found = RULES[rule](likelihood, noise_variance, start, max_iter=40)
        values = found.log_likelihood
        assert np.all(np.diff(values) >= -1e-9 * abs(values[0]))
        truth = [log_density(features, points, w, noise_variance).sum() for w in (start, found.weights)]
        np.testing.assert_allclose(values[[0, -1]], truth, rtol=1e-6)


@pytest.mark.parametrize("seed", [6, 10, 12, 15])
def test_fast_falls_back_to_em_where_it_would_fall(seed):
    """Without pruning, a weight next to nothing is thrown far up by the fast rule."""
    likelihood, _, _, noise_variance, _ = wild_problem(seed)
    found = sweeps(likelihood, noise_variance, prune_tol=0.0, max_iter=40)
    assert np.all(np.diff(found.log_likelihood) >= 0)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("noise_fraction", [0.02, 0.2, 0.8])
def test_no_reported_likelihood_ever_falls(rule, noise_fraction, cloud):
    likelihood = likelihood_of(gram_of("rbf", cloud, gamma=0.3))
    noise_variance = noise_fraction * likelihood.largest_noise_variance
    found = RULES[rule](likelihood, noise_variance, max_iter=300)
    assert np.all(np.diff(found.log_likelihood) >= 0)
    assert found.log_likelihood[-1] == pytest.approx(likelihood.log_likelihood(found.weights, noise_variance), rel=1e-9)


@pytest.mark.parametrize("noise_fraction", [1e-4, 1e-7])
def test_the_reported_likelihood_is_the_likelihood_at_the_smallest_noise(noise_fraction, rows):
    """What is reported is reached, also where 1 / s2^2 makes rounding large."""
    likelihood = likelihood_of(gram_of("poly", rows, **POLY))
    noise_variance = noise_fraction * likelihood.largest_noise_variance
    found = coordinate_ascent(likelihood, noise_variance, max_iter=2000)
    truth = likelihood.log_likelihood(found.weights, noise_variance)
    assert found.log_likelihood[-1] == pytest.approx(truth, rel=1e-6)
    assert truth >= likelihood.log_likelihood(np.full(50, 1 / 50), noise_variance) - 1e-6 * abs(truth)


@pytest.mark.parametrize("noise_fraction", [0.05, 0.1])
def test_the_rules_reach_the_same_likelihood(noise_fraction, cloud):
    likelihood = likelihood_of(gram_of("rbf", cloud, gamma=0.3))
    noise_variance = noise_fraction * likelihood.largest_noise_variance
    best = coordinate_ascent(likelihood, noise_variance)
    fast = sweeps(likelihood, noise_variance)
    em = sweeps(likelihood, noise_variance, fast=False, max_iter=1000)
    assert best.converged
    assert fast.converged
    top = best.log_likelihood[-1]
    assert fast.log_likelihood[-1] == pytest.approx(top, rel=1e-4)
    assert em.log_likelihood[-1] == pytest.approx(top, rel=1e-3)
    assert em.log_likelihood[-1] < top
    assert len(best.active) <= len(fast.active) <= len(em.active)


@pytest.mark.parametrize("noise_variance", [0.0625, 0.1])
def test_coordinate_and_fast_on_the_clusters(noise_variance, clusters):
    likelihood = likelihood_of(gram_of("rbf", clusters, gamma=16.0))
    best, fast = coordinate_ascent(likelihood, noise_variance), sweeps(likelihood, noise_variance)
    assert fast.log_likelihood[-1] == pytest.approx(best.log_likelihood[-1], rel=1e-4)


@pytest.mark.parametrize("kernel", ["poly", "rbf"])
def test_no_change_of_one_weight_is_better(kernel, rows):
    """Every weight of the result on a grid, zero and far larger included: by the density for the polynomial kernel."""
    params = POLY if kernel == "poly" else {"gamma": 0.3}
    likelihood, features = likelihood_of(gram_of(kernel, rows, **params)), poly_features(rows, **POLY)
    noise_variance = 0.1 * likelihood.largest_noise_variance
    found = coordinate_ascent(likelihood, noise_variance)
    assert 5 < len(found.active) < 40
    top = likelihood.log_likelihood(found.weights, noise_variance)
    most = 1e-8 * 50 + 1e-9 * abs(top)  # tol a row, and rounding
    for i in range(50):
        own = found.weights[i]
        scale = own or 1 / 50
        for factor in (0.0, 1e-3, 0.1, 0.5, 0.9, 0.99, 1.01, 1.1, 2.0, 10.0, 1e3):
            weights = found.weights.copy()
            weights[i] = factor * scale
            assert likelihood.log_likelihood(weights, noise_variance) <= top + most
            if kernel == "poly":
                assert log_density(features, features, weights, noise_variance).sum() <= top + most


@pytest.mark.parametrize("rule", RULES)
def test_the_gradient_vanishes_where_a_weight_is_and_points_down_where_none_is(rule, rows):
    """dL/dw_i = (Q_i - N S_i) / 2, Q and S by inversion; the published rules are on their way there."""
    features = poly_features(rows, **POLY)
    found = RULES[rule](likelihood_of(features @ features.T), 0.15, max_iter=2000, tol=1e-12)
    S, Q = direct_statistics(features, found.weights, 0.15)
    relative = (Q / 50 - S) / S
    within = {"coordinate": 1e-4, "fast": 2e-2, "em": 0.2}[rule]
    assert np.all(np.abs(relative[found.weights > 0.01]) < within)
    assert np.all(relative[found.weights == 0] < within)


def test_any_start_leads_to_the_same_top(cloud):
    likelihood = likelihood_of(gram_of("rbf", cloud, gamma=0.3))
    noise_variance = 0.2 * likelihood.largest_noise_variance
    top = coordinate_ascent(likelihood, noise_variance).log_likelihood[-1]
    rng = np.random.default_rng(0)
    for start in (np.full(80, 1 / 80), rng.uniform(0, 1, 80), some_weights(80, 5)):
        mine = start.copy()
        found = coordinate_ascent(likelihood, noise_variance, start)
        assert found.log_likelihood[0] == pytest.approx(likelihood.log_likelihood(mine, noise_variance))
        assert found.log_likelihood[-1] == pytest.approx(top, rel=1e-6)
        np.testing.assert_array_equal(start, mine)


def test_copies_share_one_weight(rows):
    """Three copies of every point are no better than one, and no trouble."""
    gram = gram_of("rbf", rows[:20], gamma=0.3)
    once = Likelihood(gram, np.sqrt(3) * gram, 60.0, 60.0)
    thrice = likelihood_of(np.tile(gram, (3, 3)))
    noise_variance = 0.1 * once.largest_noise_variance
    assert thrice.largest_noise_variance == pytest.approx(once.largest_noise_variance)
    top = coordinate_ascent(once, noise_variance).log_likelihood[-1]
    for rule in (coordinate_ascent, sweeps):
        found = rule(thrice, noise_variance)
        assert found.converged
        assert found.log_likelihood[-1] == pytest.approx(top, rel=1e-5)


def test_pruning_drops_what_is_next_to_nothing_and_costs_no_likelihood(cloud):
    likelihood = likelihood_of(gram_of("rbf", cloud, gamma=0.3))
    noise_variance = 0.4 * likelihood.largest_noise_variance
    kept = sweeps(likelihood, noise_variance, prune_tol=0.0, max_iter=100)
    pruned = sweeps(likelihood, noise_variance, prune_tol=1e-3, max_iter=400)
    assert len(kept.active) == 80 > 2 * len(pruned.active)
    assert np.all(pruned.weights[pruned.active] >= 1e-3 * noise_variance)  # k_ii = 1
    assert np.all(np.diff(pruned.log_likelihood) >= 0)


@pytest.mark.parametrize("prune_tol", [0.01, 0.1, 10.0])
def test_pruning_never_empties_a_model(prune_tol, cloud):
    """Where all weights are small at once, as at the start they may be."""
    likelihood = likelihood_of(gram_of("rbf", cloud, gamma=0.3))
    found = sweeps(likelihood, 0.4 * likelihood.largest_noise_variance, prune_tol=prune_tol, max_iter=400)
    assert 1 <= len(found.active) <= 80
    assert np.all(np.diff(found.log_likelihood) >= 0)


def test_pruning_is_against_the_noise_not_against_the_largest_weight():
    """Three directions, the first a million times longer, the third with less variance than noise: it alone goes."""
    lengths, variances, noise_variance = np.array([1e6, 1.0, 1.0]), np.array([0.5e6, 0.5, 0.001]), 0.01
    features = np.diag(np.sqrt(20 * lengths * variances))
    found = sweeps(Likelihood(np.diag(lengths), features, 20.0, 20 * variances.sum()), noise_variance, max_iter=500)
    expected = np.maximum(variances - noise_variance, 0)  # one direction at a time: w k = variance - s2
    np.testing.assert_allclose(found.weights * lengths, expected, rtol=1e-3)
    assert found.weights[2] == 0


def test_stopping_early_is_not_converged(cloud):
    likelihood = likelihood_of(gram_of("rbf", cloud, gamma=0.3))
    for rule in RULES.values():
        found = rule(likelihood, 0.02, max_iter=3)
        assert not found.converged
        assert found.n_iter == 3 == len(found.log_likelihood) - 1
    loose, tight = (coordinate_ascent(likelihood, 0.02, tol=tol) for tol in (1e-3, 1e-10))
    assert loose.converged
    assert tight.converged
    assert loose.n_iter < tight.n_iter


# A noise variance for so many points


def counted(counts):
    """A solver whose number of points is a function of the noise variance, and the calls it got."""
    calls = []

    def solve(noise_variance, start):
        calls.append((noise_variance, None if start is None else len(start)))
        return LikelihoodFit(np.ones(counts(noise_variance)), np.zeros(1), noise_variance, True)

    return solve, calls


def test_the_search_finds_a_count_that_occurs():
    solve, calls = counted(lambda noise: int(10 / noise))
    for wanted in (1, 3, 17, 200):
        calls.clear()
        found = largest_within(wanted, 10.0, solve)
        assert len(found.active) == wanted
        assert len(calls) < 40
    assert calls[0][1] is None
    assert calls[-1][1] is not None  # warm


def test_the_search_gives_the_largest_count_below_one_that_never_occurs():
    solve, _ = counted(lambda noise: 4 * int(2 / noise))
    assert len(largest_within(7, 2.0, solve).active) == 4
    assert len(largest_within(15, 2.0, solve).active) == 12


def test_the_search_keeps_the_largest_count_it_met():
    """Counts are not monotone: 3, 5, 4 and then too many."""
    solve, calls = counted(lambda noise: 3 if noise > 0.5 else 5 if noise > 0.3 else 4 if noise > 0.2 else 9)
    assert len(largest_within(6, 1.0, solve).active) == 5
    assert min(noise for noise, _ in calls) < 0.2


def test_the_search_says_when_there_is_none():
    solve, _ = counted(lambda noise: 5)
    with pytest.raises(ValueError, match=r"as few as n_support=4 vectors: give more, or .* close to its upper end 2"):
        largest_within(4, 2.0, solve)
    assert len(largest_within(5, 2.0, solve).active) == 5


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), wanted=st.integers(1, 30))
def test_the_search_gives_the_best_of_what_it_met(seed, wanted):
    """For counts that rise, on the whole, as the noise falls."""
    rng = np.random.default_rng(seed)
    steps = np.cumsum(rng.integers(-2, 4, 60)).clip(1)
    met = []

    def solve(noise_variance, start):
        count = int(steps[min(int(-4 * np.log(noise_variance)), 59)])
        met.append(count)
        return LikelihoodFit(np.ones(count), np.zeros(1), noise_variance, True)

    if steps[0] > wanted:
        return
    assert len(largest_within(wanted, 1.0, solve).active) == max(count for count in met if count <= wanted)


# The dictionary


def sampled(X, kernel, n_dictionary=None, weights=None, *, center=False, seed=0):
    rng = np.random.default_rng(seed)
    rows = ArrayRows(X, weights).sample(rows_to_choose_from(n_dictionary), rng)
    return Sample(rows, kernel, 1, center), rng


@CENTERED
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("n_dictionary", [12, 50], ids=["some rows", "all rows"])
def test_a_dictionary_is_sums_over_the_rows(n_dictionary, weighted, center, rows):
    """In the feature space itself; of centred features the mean's part in the span is taken off."""
    weights = np.random.default_rng(0).uniform(0.2, 3, 50) if weighted else None
    w = np.ones(50) if weights is None else weights
    sample, rng = sampled(rows, named_kernel("rbf", gamma=0.3), n_dictionary, weights, center=center)
    found = dictionary_span(ArrayRows(rows, weights), sample, n_dictionary, rng)
    assert len(np.unique(found.indices)) == n_dictionary
    np.testing.assert_array_equal(found.points, rows[found.indices])
    gram, cross = gram_of("rbf", found.points, gamma=0.3), gram_of("rbf", found.points, rows, gamma=0.3)
    mean = cross @ w / w.sum() if center else np.zeros(n_dictionary)
    np.testing.assert_allclose(found.gram, gram, atol=1e-10)
    second = (cross - mean[:, None]) * w @ (cross - mean[:, None]).T
    np.testing.assert_allclose(found.features @ found.features.T, second, atol=1e-9 * np.abs(second).max())
    np.testing.assert_allclose(found.mean_cross_gram, cross @ w / w.sum(), atol=1e-10)
    assert found.weight == pytest.approx(w.sum())
    assert found.weight * found.total_variance == pytest.approx(
        w.sum() * (1 - mean @ np.linalg.solve(gram, mean)), rel=1e-8
    )
    assert found.total_variance == pytest.approx(found.weight * found.total_variance / w.sum())
    assert found.mean_length == pytest.approx(1)


@CENTERED
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_all_rows_by_either_path_are_the_same(weighted, center, rows):
    """As the gram itself, and whitened through a pass: the same dictionary, and the same model on it."""
    weights = np.random.default_rng(0).uniform(0.2, 3, 50) if weighted else None
    sample, rng = sampled(rows, named_kernel("rbf", gamma=0.3), None, weights, center=center)
    direct = dictionary_span(ArrayRows(rows, weights), sample, None, rng)
    passed = dictionary_span(ArrayRows(rows, weights), replace(sample, rows=replace(sample.rows, whole=False)), 50, rng)
    assert direct.features.shape == (50, 50)
    order = np.argsort(passed.indices)
    np.testing.assert_array_equal(direct.indices, passed.indices[order])
    np.testing.assert_allclose(direct.gram, passed.gram[np.ix_(order, order)], atol=1e-10)
    energies = [d.features @ d.features.T for d in (direct, passed)]
    np.testing.assert_allclose(energies[0], energies[1][np.ix_(order, order)], atol=1e-8)
    for name in ("weight", "mean_length", "total_variance"):
        assert getattr(direct, name) == pytest.approx(getattr(passed, name), rel=1e-8)
    problems = [Likelihood(d.gram, d.features, d.weight, d.weight * d.total_variance) for d in (direct, passed)]
    noise_variance = 0.2 * problems[0].largest_noise_variance
    fits = [coordinate_ascent(problem, noise_variance) for problem in problems]
    assert fits[0].log_likelihood[-1] == pytest.approx(fits[1].log_likelihood[-1], rel=1e-8)
    np.testing.assert_allclose(fits[0].weights, fits[1].weights[order], atol=1e-5)


def test_copies_of_rows_are_one_candidate_that_weighs_more(rows):
    counts = np.random.default_rng(0).integers(1, 4, 50)
    X = np.repeat(rows, counts, axis=0)
    sample, rng = sampled(X, named_kernel("rbf", gamma=0.3))
    found = dictionary_span(ArrayRows(X, None), sample, None, rng)
    assert len(found.gram) == 50
    cross = gram_of("rbf", found.points, X, gamma=0.3)
    np.testing.assert_allclose(found.features @ found.features.T, cross @ cross.T, rtol=1e-10)
    assert found.weight == pytest.approx(len(X))


@pytest.mark.parametrize("times", [1, 3])
def test_the_weight_is_that_of_all_rows_however_equal(times, rows):
    """Every row three times, or with weight three, is three times the likelihood."""
    kernel = named_kernel("rbf", gamma=0.3)
    for X, weights in ((np.repeat(rows, times, axis=0), None), (rows, np.full(50, float(times)))):
        sample, rng = sampled(X, kernel, None, weights)
        assert dictionary_span(ArrayRows(X, weights), sample, None, rng).weight == pytest.approx(50 * times)
        sample, rng = sampled(X, kernel, 20, weights)
        assert dictionary_span(ArrayRows(X, weights), sample, 20, rng).weight == pytest.approx(50 * times)


def test_how_many_rows_are_candidates():
    X, kernel = np.random.default_rng(0).standard_normal((2100, 2)), named_kernel("rbf", gamma=5.0)
    for given_rows, n_dictionary, expected in ((X[:2000], None, 2000), (X, None, 512), (X, 30, 30), (X[:20], 30, 20)):
        sample, rng = sampled(given_rows, kernel, n_dictionary)
        found = dictionary_span(ArrayRows(given_rows, None), sample, n_dictionary, rng)
        assert len(found.indices) == len(found.gram) == expected
    copies = np.tile(X[:300], (10, 1))  # 3000 rows, 300 of them different
    sample, rng = sampled(copies, kernel)
    assert len(dictionary_span(ArrayRows(copies, None), sample, None, rng).gram) == 300


def test_float32_rows_give_a_float64_dictionary(rows):
    sample, rng = sampled(rows.astype(np.float32), named_kernel("rbf", gamma=0.3), 12)
    found = dictionary_span(ArrayRows(sample.rows.X, None), sample, 12, rng)
    cross = gram_of("rbf", found.points.astype(float), rows, gamma=0.3)
    assert found.gram.dtype == found.features.dtype == np.float64
    np.testing.assert_allclose(found.features @ found.features.T, cross @ cross.T, rtol=1e-4)


def test_an_indefinite_gram_loses_its_negative_part(rows):
    gram = gram_of("sigmoid", rows, gamma=0.05, coef0=0.2)
    values, vectors = np.linalg.eigh(gram)
    assert values[0] < -1e-3
    kept = values > -values[0]
    sample, rng = sampled(rows, named_kernel("sigmoid", gamma=0.05, coef0=0.2))
    found = dictionary_span(ArrayRows(rows, None), sample, None, rng)
    np.testing.assert_allclose(found.gram, (vectors[:, kept] * values[kept]) @ vectors[:, kept].T, atol=1e-10)
    assert found.negative_share == pytest.approx(-values[values < 0].sum() / np.abs(values).sum())


# The estimator: its axes


def fitted(X, **options):
    return LikelihoodKernelPCA(**{"random_state": 0, **options}).fit(X)


@pytest.fixture(scope="module")
def poly_model(rows):
    with one_blas_thread():
        return fitted(rows, kernel="poly", noise_variance=0.2, **POLY)


@pytest.mark.parametrize("update", RULES)
@pytest.mark.parametrize("name", [*sorted(set(KERNELS) - {"sigmoid"}), "narrow"])
@CENTERED
def test_axes_are_orthonormal(center, name, update, cloud):
    kernel, params = ("rbf", {"gamma": 3.0}) if name == "narrow" else (name, KERNELS[name])
    model = LikelihoodKernelPCA(kernel=kernel, update=update, center=center, max_iter=60, noise_fraction=0.1, **params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(cloud)
    gram = gram_of(kernel, cloud[model.support_], **params)
    found = model.dual_coef_.T @ gram @ model.dual_coef_
    np.testing.assert_allclose(found, np.eye(model.n_components_), rtol=0, atol=1e-8)


@pytest.mark.parametrize("gamma", [0.03, 0.003])
@pytest.mark.parametrize("update", ["coordinate", "em"])
@pytest.mark.filterwarnings("ignore")
def test_axes_of_a_wide_kernel_are_orthonormal(update, gamma, cloud):
    """Its eigenvalues fall by ten orders of magnitude: what cannot be told from rounding is no axis."""
    model = fitted(cloud, gamma=gamma, update=update, noise_fraction=1e-4, max_iter=60)
    gram = gram_of("rbf", cloud[model.support_], gamma=gamma)
    found = model.dual_coef_.T @ gram @ model.dual_coef_
    np.testing.assert_allclose(found, np.eye(model.n_components_), rtol=0, atol=1e-8)


def test_axes_are_the_models(poly_model, rows):
    """Eigenvectors and eigenvalues of sum_i w_i phi_i phi_i', in the ten dimensions."""
    model, points = poly_model, poly_features(rows[poly_model.support_], **POLY)
    values, vectors = np.linalg.eigh((points.T * model.weights_) @ points)
    assert model.n_components_ == min(10, model.n_support_)
    np.testing.assert_allclose(model.eigenvalues_, values[::-1][: model.n_components_], rtol=1e-8)
    axes = points.T @ model.dual_coef_
    cosines = np.sum(axes * vectors[:, ::-1][:, : model.n_components_], axis=0)
    np.testing.assert_allclose(np.abs(cosines), 1, atol=1e-8)
    assert np.all(np.diff(model.eigenvalues_) < 0)
    largest = model.dual_coef_[np.argmax(np.abs(model.dual_coef_), axis=0), np.arange(model.n_components_)]
    assert np.all(largest > 0)


@CENTERED
def test_scores_errors_and_variances(center, rows, cloud):
    """All from the ten dimensions: projections on the axes about the mean, and what they leave."""
    model = fitted(rows, n_components=3, kernel="poly", noise_variance=0.2, center=center, **POLY)
    features, points = poly_features(rows, **POLY), poly_features(rows[model.support_], **POLY)
    axes = points.T @ model.dual_coef_
    mean = features.mean(axis=0) if center else np.zeros(10)
    scores = (features - mean) @ axes
    np.testing.assert_allclose(model.transform(rows), scores, atol=1e-9)
    np.testing.assert_allclose(model.explained_variance_, np.mean(scores**2, axis=0), rtol=1e-9)
    total = np.mean(np.sum((features - mean) ** 2, axis=1))
    np.testing.assert_allclose(model.explained_variance_ratio_, model.explained_variance_ / total, rtol=1e-9)
    span = np.linalg.qr(points.T)[0]
    new = poly_features(cloud[50:, :3], **POLY)
    origin = span @ (span.T @ mean)  # all of the mean that the vectors can tell
    left = np.sum((new - origin - ((new - mean) @ axes) @ axes.T) ** 2, axis=1)
    np.testing.assert_allclose(model.reconstruction_error(cloud[50:, :3]), left, rtol=1e-8)


def test_fewer_components_are_the_first_of_all(poly_model, rows):
    few = fitted(rows, n_components=2, kernel="poly", noise_variance=0.2, **POLY)
    np.testing.assert_allclose(few.transform(rows), poly_model.transform(rows)[:, :2], atol=1e-10)
    assert few.n_components_ == 2
    assert few.weights_.shape == (few.n_support_,)
    np.testing.assert_array_equal(few.score_samples(rows), poly_model.score_samples(rows))


def test_less_and_less_noise_ends_in_kernel_pca(cloud):
    """Uncentred: the covariance of the rows is then itself in the model, w = 1/N."""
    gram = gram_of("rbf", cloud, gamma=0.3)
    values, components, _ = exact_kernel_pca(gram, 4, center=False)
    gaps = []
    for noise_fraction in (1e-3, 1e-4, 1e-5, 1e-6):
        model = fitted(cloud, n_components=4, noise_fraction=noise_fraction, gamma=0.3)
        coef = np.zeros((80, 4))
        coef[model.support_] = model.dual_coef_
        gaps.append(subspace_gap(gram, coef, components))
    assert np.all(np.diff(gaps) < 0)
    assert gaps[-1] < 2e-3
    np.testing.assert_allclose(model.eigenvalues_, values / 80, rtol=2e-3)
    np.testing.assert_allclose(model.weights_, 1 / 80, rtol=5e-2)
    assert model.captured_ratio_ > 1 - 1e-6


def test_less_and_less_noise_in_ten_dimensions(cloud):
    """There fewer vectors than rows are enough, and the distance to kernel PCA goes as the noise."""
    X = cloud[:, :3]
    gram = gram_of("poly", X, **POLY)
    _, components, _ = exact_kernel_pca(gram, 4, center=False)
    for noise_variance in (1e-2, 1e-3, 1e-4):
        model = fitted(X, n_components=4, kernel="poly", noise_variance=noise_variance, **POLY)
        coef = np.zeros((80, 4))
        coef[model.support_] = model.dual_coef_
        assert subspace_gap(gram, coef, components) < noise_variance
        assert model.n_support_ < 60


# The estimator: its density


def test_score_samples_are_the_density(poly_model, rows, cloud):
    """Rows far out and rows near: the kernel is unbounded."""
    new = np.vstack([cloud[50:, :3], 5 * cloud[50:60, :3], np.zeros((1, 3))])
    points = poly_features(rows[poly_model.support_], **POLY)
    truth = log_density(poly_features(new, **POLY), points, poly_model.weights_, 0.2)
    np.testing.assert_allclose(poly_model.score_samples(new), truth, rtol=1e-9)
    assert poly_model.score_samples(new)[30:40].max() < poly_model.score_samples(rows).min()


def test_centred_score_samples_are_the_density_about_the_mean(rows, cloud):
    """As much of the mean as the vectors can tell."""
    model = fitted(rows, kernel="poly", noise_variance=0.2, center=True, **POLY)
    points, new = poly_features(rows[model.support_], **POLY), cloud[50:, :3]
    span = np.linalg.qr(points.T)[0]
    mean = poly_features(rows, **POLY).mean(axis=0)
    truth = log_density(poly_features(new, **POLY) - span @ (span.T @ mean), points, model.weights_, 0.2)
    np.testing.assert_allclose(model.score_samples(new), truth, rtol=1e-8)


def test_the_centred_likelihood_is_the_density_about_the_mean(rows):
    model = fitted(rows, kernel="poly", noise_variance=0.2, center=True, **POLY)
    features = poly_features(rows, **POLY)
    truth = log_density(features - features.mean(axis=0), features[model.support_], model.weights_, 0.2)
    assert model.log_likelihood_[-1] == pytest.approx(truth.sum(), rel=1e-9)


@pytest.mark.parametrize("update", RULES)
@pytest.mark.parametrize("n_dictionary", [None, 25])
@pytest.mark.parametrize(
    ("times", "weights"),
    [
        (1, None),
        (3, None),
        (1, np.full(80, 2.0)),
        (1, np.r_[np.zeros(10), np.full(70, 2.0)]),
        (1, np.linspace(0, 3, 80)),
    ],
    ids=["plain", "every row three times", "weight 2", "weights 0 and 2", "weights"],
)
def test_the_scores_of_the_training_rows_add_up_to_their_likelihood(times, weights, n_dictionary, update, cloud):
    X = np.repeat(cloud, times, axis=0)
    model = LikelihoodKernelPCA(gamma=0.3, n_dictionary=n_dictionary, update=update, max_iter=60, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, sample_weight=weights)
    scores = model.score_samples(X)
    total = scores.sum() if weights is None else weights @ scores
    assert model.log_likelihood_[-1] == pytest.approx(total, rel=1e-9)


def test_novel_rows_score_low(digits):
    train, test = digits
    model = fitted(train[:300], noise_fraction=0.3)
    noise = np.random.default_rng(0).uniform(size=(100, 64))
    assert np.median(model.score_samples(noise)) < np.quantile(model.score_samples(test), 0.05)


def test_score_samples_of_a_precomputed_kernel(cloud, new_rows):
    gram, cross = gram_of("poly", cloud, **POLY), gram_of("poly", new_rows, cloud, **POLY)
    diagonal = np.diagonal(gram_of("poly", new_rows, **POLY))
    model, named = fitted(gram, kernel="precomputed"), fitted(cloud, kernel="poly", **POLY)
    np.testing.assert_allclose(model.score_samples(cross, diagonal=diagonal), named.score_samples(new_rows), rtol=1e-7)
    with pytest.raises(ValueError, match="diagonal="):
        model.score_samples(cross)
    with pytest.raises(ValueError, match=r"diagonal has shape \(3,\), expected \(30,\)"):
        model.score_samples(cross, diagonal=np.ones(3))


@pytest.mark.parametrize("noise_variance", [0.05, np.float64(0.05)], ids=["float", "numpy float"])
def test_score_samples_in_float32(noise_variance, cloud, new_rows):
    """float32 in, float32 out, whatever kind of number the noise variance is."""
    light = fitted(cloud.astype(np.float32), gamma=0.3, noise_variance=noise_variance)
    scores = light.score_samples(new_rows.astype(np.float32))
    full = fitted(cloud, gamma=0.3, noise_variance=noise_variance)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, full.score_samples(new_rows), rtol=1e-3)
    assert full.score_samples(new_rows).dtype == np.float64


# The estimator: how sparse


def test_noise_fraction_is_of_the_upper_end(cloud):
    gram = gram_of("rbf", cloud, gamma=0.3)
    for center in (False, True):
        model = fitted(cloud, gamma=0.3, noise_fraction=0.4, center=center)
        centred = gram - center * gram.mean(axis=1)[:, None]
        limit = np.max(np.mean(centred**2, axis=1) / np.diagonal(gram))
        assert model.noise_variance_limit_ == pytest.approx(limit, rel=1e-10)
        assert model.noise_variance_ == pytest.approx(0.4 * limit, rel=1e-10)
    same = fitted(cloud, gamma=0.3, noise_variance=model.noise_variance_, center=True)
    np.testing.assert_array_equal(same.support_, model.support_)
    np.testing.assert_allclose(same.weights_, model.weights_, rtol=1e-6)


def test_a_noise_variance_goes_before_the_fraction(cloud):
    model = fitted(cloud, gamma=0.3, noise_variance=0.05, noise_fraction=0.9)
    assert model.noise_variance_ == 0.05


def test_more_noise_fewer_vectors_on_the_clusters(clusters):
    """The published picture, and what METHODS prints beside it."""
    models = {s2: fitted(clusters, gamma=16.0, noise_variance=s2) for s2 in (0.05, 0.0625, 0.1)}
    assert models[0.1].noise_variance_limit_ == pytest.approx(0.2205, abs=5e-5)
    assert 9 <= models[0.05].n_support_ <= 12
    assert 6 <= models[0.0625].n_support_ <= 9
    assert 3 <= models[0.1].n_support_ <= 6
    outside = 1 - models[0.0625].explained_variance_ratio_.sum()
    assert outside == pytest.approx(0.135, abs=0.03)
    nearest = np.linalg.norm(models[0.0625].support_vectors_[:, None] - clusters[[0, 30, 60]], axis=-1).argmin(axis=1)
    assert set(nearest) == {0, 1, 2}  # every cluster is represented


@CENTERED
@pytest.mark.parametrize("n_support", [2, 3, 6, 11, 25, 79])
def test_at_most_n_support_vectors(n_support, center, cloud):
    model = fitted(cloud, gamma=0.3, n_support=n_support, center=center)
    assert n_support - 2 <= model.n_support_ <= n_support
    assert model.n_support_ == len(model.support_) == len(model.weights_) == len(model.support_vectors_)
    assert model.n_support == n_support
    assert 0 < model.noise_variance_ < model.noise_variance_limit_
    assert model.converged_
    alone = fitted(cloud, gamma=0.3, noise_variance=model.noise_variance_, center=center)
    assert model.log_likelihood_[-1] == pytest.approx(alone.log_likelihood_[-1], rel=1e-6)


def test_more_vectors_than_rows_give_what_there_is(cloud):
    assert fitted(cloud, gamma=0.3, n_support=500).n_support_ == 80


def test_n_support_with_the_fast_rule(cloud):
    model = fitted(cloud, gamma=0.3, n_support=6, update="fast", max_iter=2000)
    assert 4 <= model.n_support_ <= 6


@pytest.mark.parametrize("update", ["coordinate", "fast"])
def test_a_path_is_single_fits(update, cloud):
    values = [0.05, 0.12, 0.08]
    estimator = LikelihoodKernelPCA(gamma=0.3, update=update, random_state=0)
    path = likelihood_path(estimator, cloud, noise_variance=values)
    np.testing.assert_array_equal(path.noise_variance, sorted(values, reverse=True))
    for i, noise_variance in enumerate(path.noise_variance):
        model = fitted(cloud, gamma=0.3, update=update, noise_variance=noise_variance)
        assert path.noise_variance_limit == pytest.approx(model.noise_variance_limit_)
        assert path.n_support[i] == model.n_support_
        np.testing.assert_array_equal(path.support[i], model.support_)
        assert path.log_likelihood[i] == pytest.approx(model.log_likelihood_[-1], rel=1e-6)
        assert path.explained_variance_ratio[i] == pytest.approx(model.explained_variance_ratio_.sum(), abs=1e-4)
    assert path.converged.all()
    with pytest.raises(NotFittedError):
        estimator.transform(cloud)


def test_the_default_path(cloud):
    path = likelihood_path(LikelihoodKernelPCA(gamma=0.3, noise_variance=9.0, n_support=2), cloud, n_points=7)
    shares = path.noise_variance / path.noise_variance_limit
    assert (shares[0], shares[-1]) == (pytest.approx(0.95), pytest.approx(0.01))
    np.testing.assert_allclose(shares[1:] / shares[:-1], shares[1] / shares[0])
    assert path.n_support[0] < 3 < 60 < path.n_support[-1]
    assert np.all(np.diff(path.explained_variance_ratio) > 0)
    assert all(len(path) == 7 for path in (path.n_support, path.log_likelihood, path.support, path.converged))


def test_a_path_with_weights_and_few_components(cloud):
    counts = np.random.default_rng(0).integers(0, 4, 80)
    estimator = LikelihoodKernelPCA(2, gamma=0.3, center=True, random_state=0)
    weighted = likelihood_path(estimator, cloud, n_points=4, sample_weight=counts)
    repeated = likelihood_path(estimator, np.repeat(cloud, counts, axis=0), n_points=4)
    for field in fields(weighted):
        if field.name != "support":
            np.testing.assert_allclose(getattr(weighted, field.name), getattr(repeated, field.name), rtol=1e-8)
    assert weighted.explained_variance_ratio[-1] < 0.8  # of two components


def test_a_path_that_did_not_converge_says_so(cloud):
    path = likelihood_path(LikelihoodKernelPCA(gamma=0.3, max_iter=2), cloud, n_points=3)
    assert not path.converged[-1]


@pytest.mark.parametrize("values", [[0.1, 5.0], [0.1, 0.0], [-0.1], [], [np.nan]])
def test_paths_over_values_that_are_none(values, cloud):
    with pytest.raises(ValueError, match=r"values between 0 and 0\.176\d*, the upper end"):
        likelihood_path(LikelihoodKernelPCA(gamma=0.3), cloud, noise_variance=values)
    with pytest.raises(ValueError, match="n_points=0: give at least one"):
        likelihood_path(LikelihoodKernelPCA(gamma=0.3), cloud, n_points=0)
    with pytest.raises(ValueError, match="'update' parameter"):
        likelihood_path(LikelihoodKernelPCA(update="slow"), cloud)


# The estimator: candidates, weights, kernels


@CENTERED
def test_a_dictionary_of_all_rows_is_no_dictionary(center, cloud, new_rows):
    plain = fitted(cloud, gamma=0.3, center=center)
    for n_dictionary in (80, 1000):
        model = fitted(cloud, gamma=0.3, center=center, n_dictionary=n_dictionary)
        np.testing.assert_array_equal(model.support_, plain.support_)
        np.testing.assert_allclose(model.score_samples(new_rows), plain.score_samples(new_rows), rtol=1e-10)


def test_more_candidates_are_better(blobs):
    """The likelihood is that of all rows, whatever the candidates; 300 of 1000 lose a few per cent of it."""
    train, _ = blobs
    whole = fitted(train)
    some, few = (fitted(train, n_dictionary=n, noise_variance=whole.noise_variance_) for n in (300, 30))
    assert np.all(np.diff(some.support_) > 0)  # in the order of the rows
    assert few.n_support_ <= 30
    top = whole.log_likelihood_[-1]
    assert top * 1.05 < some.log_likelihood_[-1] < top  # they are negative
    assert few.log_likelihood_[-1] < some.log_likelihood_[-1]


@pytest.mark.parametrize("update", RULES)
def test_few_candidates_for_many_rows(update):
    """The published start, w = 1/N, is next to nothing where N is large."""
    X = np.random.default_rng(0).standard_normal((20_000, 3))
    model = LikelihoodKernelPCA(update=update, noise_fraction=0.7, n_dictionary=64, max_iter=100, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
        best = fitted(X, noise_fraction=0.7, n_dictionary=64)
    assert model.n_support_ >= 1
    assert model.log_likelihood_[0] < model.log_likelihood_[-1] <= best.log_likelihood_[-1] + 1e-4
    empty = -0.5 * 20_000 / model.noise_variance_  # of the Gaussian kernel's unit lengths
    assert update == "em" or model.log_likelihood_[-1] > empty  # EM is still far from the top


@CENTERED
@pytest.mark.parametrize("n_dictionary", [None, 40])
def test_a_weight_is_repetition(n_dictionary, center, cloud, new_rows):
    counts = np.random.default_rng(1).integers(0, 4, 80)
    options = {"center": center, "n_dictionary": n_dictionary, "n_components": 2}
    repeated = fitted(np.repeat(cloud, counts, axis=0), **options)
    weighted = LikelihoodKernelPCA(random_state=0, **options).fit(cloud, sample_weight=counts)
    assert weighted.gamma_ == pytest.approx(repeated.gamma_, rel=1e-9)
    np.testing.assert_allclose(weighted.support_vectors_, repeated.support_vectors_)
    np.testing.assert_allclose(weighted.transform(new_rows), repeated.transform(new_rows), atol=1e-7)
    np.testing.assert_allclose(weighted.score_samples(new_rows), repeated.score_samples(new_rows), rtol=1e-7)
    assert weighted.log_likelihood_[-1] == pytest.approx(repeated.log_likelihood_[-1], rel=1e-8)
    for name in ("weights_", "eigenvalues_", "explained_variance_", "explained_variance_ratio_"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-6)
    assert weighted.captured_ratio_ == pytest.approx(repeated.captured_ratio_, abs=1e-6)


@pytest.mark.parametrize("n_dictionary", [None, 40])
def test_a_row_without_weight_is_no_row(n_dictionary, cloud, new_rows):
    weights = np.ones(80)
    weights[[0, 5, 6, 33, 70]] = 0
    far = cloud.copy()
    far[weights == 0] = 1e3
    options = {"n_dictionary": n_dictionary, "gamma": 0.3}
    model = LikelihoodKernelPCA(random_state=0, **options).fit(far, sample_weight=weights)
    removed = fitted(cloud[weights > 0], **options)
    assert np.all(weights[model.support_] > 0)
    np.testing.assert_allclose(model.score_samples(new_rows), removed.score_samples(new_rows), rtol=1e-8)
    assert model.log_likelihood_[-1] == pytest.approx(removed.log_likelihood_[-1], rel=1e-9)
    with pytest.raises(ValueError, match="at least two rows must have a positive sample_weight"):
        LikelihoodKernelPCA().fit(cloud, sample_weight=np.eye(80)[3])


def test_the_scale_of_weights_scales_the_likelihood_alone(cloud, new_rows):
    weights = np.random.default_rng(0).uniform(0.5, 2, 80)
    plain = LikelihoodKernelPCA(gamma=0.3).fit(cloud, sample_weight=weights)
    for factor in (1e-3, 7.0):
        scaled = LikelihoodKernelPCA(gamma=0.3).fit(cloud, sample_weight=factor * weights)
        np.testing.assert_allclose(scaled.score_samples(new_rows), plain.score_samples(new_rows), rtol=1e-7)
        assert scaled.log_likelihood_[-1] == pytest.approx(factor * plain.log_likelihood_[-1], rel=1e-8)


@pytest.mark.parametrize("update", RULES)
def test_copies_of_rows_are_no_trouble(update, cloud):
    copies = np.concatenate([np.repeat(cloud[:1], 40, axis=0), cloud, cloud[:20]])
    model = LikelihoodKernelPCA(gamma=0.3, update=update, max_iter=200)
    gram_model = LikelihoodKernelPCA(kernel="precomputed", update=update, max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(copies)
        gram_model.fit(gram_of("rbf", copies, gamma=0.3))
    assert len(np.unique(model.support_vectors_, axis=0)) == model.n_support_
    assert np.all(np.isfinite(model.score_samples(copies)))
    assert gram_model.log_likelihood_[-1] == pytest.approx(model.log_likelihood_[-1], rel=1e-2)
    if update == "coordinate":
        assert gram_model.log_likelihood_[-1] == pytest.approx(model.log_likelihood_[-1], rel=1e-6)


def test_an_indefinite_kernel_is_said_to_be(rows):
    with pytest.warns(UserWarning, match=r"not positive semi-definite.*negative and was dropped"):
        model = fitted(rows, kernel="sigmoid", gamma=0.05, coef0=0.2)
    assert np.all(np.isfinite(model.transform(rows)))
    assert 0 < model.captured_ratio_ <= 1
    assert model.explained_variance_ratio_.sum() <= 1 + 1e-9


def test_an_indefinite_kernel_on_a_dictionary(cloud):
    with pytest.warns(UserWarning, match="not positive semi-definite"):
        model = fitted(cloud, kernel="sigmoid", gamma=0.05, coef0=0.2, n_dictionary=30)
    assert model.explained_variance_ratio_.sum() <= 1 + 1e-9


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "laplacian"])
def test_sparse_rows_are_rows(kernel, cloud, new_rows):
    X, new = np.where(cloud > 0, cloud, 0), np.where(new_rows > 0, new_rows, 0)
    options = {"kernel": kernel, **KERNELS[kernel], "n_components": 2}
    dense, sparse = fitted(X, **options), fitted(scipy.sparse.csr_matrix(X), **options)
    np.testing.assert_array_equal(sparse.support_, dense.support_)
    assert scipy.sparse.issparse(sparse.support_vectors_)
    scores = sparse.score_samples(scipy.sparse.csr_matrix(new))
    np.testing.assert_allclose(scores, dense.score_samples(new), rtol=1e-7)


# How much of exact kernel PCA


def captured_on(gram, model, center):
    """The variance of the model's scores over exact kernel PCA's (by ARPACK), on the rows of the gram."""
    scores = gram[:, model.support_] @ model.dual_coef_ - model.offset_
    centred = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean() if center else gram
    values = scipy.sparse.linalg.eigsh(centred, k=model.n_components_, return_eigenvectors=False)
    return np.sum(scores**2) / values.sum()


@CENTERED
@pytest.mark.parametrize("noise_fraction", [0.1, 0.6])
def test_captured_ratio_of_all_rows(noise_fraction, center, cloud):
    model = fitted(cloud, gamma=0.3, noise_fraction=noise_fraction, center=center)
    truth = captured_on(gram_of("rbf", cloud, gamma=0.3), model, center)
    assert model.captured_ratio_ == pytest.approx(truth, abs=1e-9)
    assert (model.captured_ratio_kind_, model.captured_ratio_n_samples_) == ("all rows", 80)
    assert model.n_samples_seen_ == 80


@CENTERED
def test_captured_ratio_of_a_sample(center):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2600, 4)) @ rng.standard_normal((4, 9)) + 0.2 * rng.standard_normal((2600, 9))
    model = fitted(X, n_components=6, center=center, noise_fraction=0.1, n_dictionary=150)
    assert model.captured_ratio_kind_ == "sample, extrapolated"
    assert model.captured_ratio_n_samples_ == 1000
    truth = captured_on(gram_of("rbf", X, gamma=model.gamma_), model, center)
    assert model.captured_ratio_ == pytest.approx(truth, abs=0.01)


@CENTERED
def test_captured_ratio_of_any_coefficients(center, cloud, new_rows):
    """Of the span of the components, whatever basis it is given in."""
    rng = np.random.default_rng(0)
    coef = rng.standard_normal((6, 3))
    coef = np.column_stack([coef, coef @ [1.0, -2.0, 0.5]])  # a fourth that adds nothing
    kernel = named_kernel("rbf", gamma=0.3)
    sample = Sample(sample_rows(cloud, 2000, rng, None, merge=True), kernel, 4, center)
    found = ratio_of_model(sample, KernelExpansion(kernel, new_rows[:6], coef, np.zeros(4), orthogonal=False), 80)
    gram, cross = gram_of("rbf", new_rows[:6], gamma=0.3), gram_of("rbf", cloud, new_rows[:6], gamma=0.3)
    root = np.linalg.cholesky(coef[:, :3].T @ gram @ coef[:, :3])
    scores = np.linalg.solve(root, coef[:, :3].T @ cross.T).T
    captured = np.sum((scores - center * scores.mean(axis=0)) ** 2)
    exact = exact_kernel_pca(gram_of("rbf", cloud, gamma=0.3), 4, center=center)[0].sum()
    assert found.value == pytest.approx(captured / exact, rel=1e-9)


def test_orthonormal_components_of_the_same_span(cloud):
    gram, rng = gram_of("rbf", cloud[:8], gamma=0.3), np.random.default_rng(0)
    coef = rng.standard_normal((8, 3))
    doubled = np.column_stack([coef, 2 * coef[:, 1], coef @ rng.standard_normal(3)])
    for given_coef in (coef, doubled, 1e-6 * coef):
        given_model = KernelExpansion(
            named_kernel("rbf", gamma=0.3), cloud[:8], given_coef, np.zeros(given_coef.shape[1]), orthogonal=False
        )
        found = given_model.orthonormal.coef
        assert found.shape == (8, 3)
        np.testing.assert_allclose(found.T @ gram @ found, np.eye(3), atol=1e-9)
        inside = found @ (found.T @ gram @ coef)
        np.testing.assert_allclose(inside, coef, atol=1e-8)


# Bad input, and what is said of a fit that is little


def test_noise_variances_that_leave_nothing(cloud):
    limit = fitted(cloud, gamma=0.3).noise_variance_limit_
    for noise_variance in (limit, 1.5 * limit, 1e6):
        with pytest.raises(ValueError, match=rf"noise_variance=.* leaves nothing.*between 0 and {limit:.6g}"):
            fitted(cloud, gamma=0.3, noise_variance=noise_variance)
    for noise_variance in (0, -0.1, np.nan):
        with pytest.raises(ValueError, match="'noise_variance' parameter of LikelihoodKernelPCA must be"):
            fitted(cloud, gamma=0.3, noise_variance=noise_variance)


@pytest.mark.parametrize(
    "options",
    [{"noise_fraction": 0.99999}, {"tol": 1.0}, {"update": "fast", "noise_fraction": 0.99999}],
    ids=["next to the upper end", "no step is enough", "fast"],
)
def test_an_empty_model_is_no_model(options, cloud):
    """Where no step gains as much as asked, one vector (warned) or an error that says what to do."""
    model = LikelihoodKernelPCA(gamma=0.3, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(cloud)
        except ValueError as error:
            assert "noise_variance" in str(error) or "tol" in str(error)  # noqa: PT017
        else:
            assert model.n_support_ >= 1


def test_an_empty_model_on_a_path(cloud):
    limit = fitted(cloud, gamma=0.3).noise_variance_limit_
    try:
        path = likelihood_path(LikelihoodKernelPCA(gamma=0.3), cloud, noise_variance=[0.99999 * limit, 0.5 * limit])
    except ValueError as error:
        assert "noise_variance" in str(error)  # noqa: PT017
    else:
        assert path.n_support[0] <= 1 < path.n_support[1]


def test_two_ways_to_say_how_sparse(cloud):
    with pytest.raises(ValueError, match=r"noise_variance and n_support are two ways.*give one"):
        fitted(cloud, noise_variance=0.1, n_support=5)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_components", 0),
        ("n_components", 1.5),
        ("noise_fraction", 0.0),
        ("noise_fraction", 1.0),
        ("n_support", 0),
        ("n_support", 0.5),
        ("update", "slow"),
        ("n_dictionary", 0),
        ("prune_tol", -1.0),
        ("tol", -1.0),
        ("max_iter", 0),
        ("center", "yes"),
        ("kernel", "gauss"),
    ],
)
def test_parameters_out_of_range(name, value, cloud):
    with pytest.raises(ValueError, match=f"The '{name}' parameter of LikelihoodKernelPCA must be"):
        fitted(cloud, **{name: value})


@pytest.mark.parametrize("n_repeats", [1, 150], ids=["small", "larger than any sample"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity(value, n_repeats, cloud):
    bad = np.tile(cloud, (n_repeats, 1))
    bad[-3, 2] = value
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        fitted(bad, n_dictionary=20)
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        fitted(scipy.sparse.csr_matrix(bad))
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        fitted(cloud).score_samples(bad)
    gram = gram_of("rbf", cloud)
    gram[3, 5] = gram[5, 3] = value
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        fitted(gram, kernel="precomputed")


@pytest.mark.parametrize("n", [20, 12_000], ids=["small", "larger than any sample"])
def test_constant_rows(n):
    """Centred there is nothing left; uncentred one vector is all there is."""
    same = np.full((n, 3), 2.0)
    with pytest.raises(ValueError, match="all the same to this kernel"):
        fitted(same, center=True)
    with pytest.raises(ValueError, match="no positive part"):
        fitted(0 * same, kernel="linear")
    with pytest.warns(UserWarning, match="collapsed to one vector"):
        model = fitted(same)
    assert model.n_support_ == 1
    np.testing.assert_allclose(np.abs(model.transform(same)), 1)
    np.testing.assert_allclose(model.explained_variance_ratio_, [1])
    assert model.weights_ == pytest.approx([1 - model.noise_variance_])  # w k = mean square - s2


@CENTERED
@pytest.mark.parametrize("update", RULES)
def test_two_rows(update, center, cloud):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LikelihoodKernelPCA(update=update, center=center, max_iter=2000).fit(cloud[:2])
    assert 1 <= model.n_support_ <= 2
    assert np.all(np.isfinite(model.score_samples(cloud)))
    assert 0 < model.captured_ratio_ <= 1
    with pytest.raises(ValueError, match=r"1 sample.*minimum of 2 is required"):
        fitted(cloud[:1])


def test_a_model_that_collapsed_says_so(cloud):
    with pytest.warns(UserWarning, match=r"collapsed to one vector.*below 0\.1\d+ \(of at most 0\.176\)") as caught:
        model = fitted(cloud, gamma=0.3, noise_fraction=0.97)
    assert model.n_support_ == model.n_components_ == 1
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="collapsed to one vector"):
        assert fitted(cloud, gamma=0.3, n_support=1).n_support_ == 1


def test_more_components_than_axes(cloud):
    with pytest.warns(UserWarning, match=r"has 8 axes, fewer than n_components=40\..*below 0.07") as caught:
        model = fitted(cloud, n_components=40, gamma=0.3, noise_fraction=0.4)
    assert model.n_components_ == 8 == model.transform(cloud).shape[1] == len(model.get_feature_names_out())
    assert caught[0].filename == __file__


@pytest.mark.parametrize("update", RULES)
def test_a_likelihood_that_still_rises_is_said_to(update, cloud):
    message = rf"still rising after max_iter=2 steps of update='{update}'"
    with pytest.warns(ConvergenceWarning, match=message) as caught:
        model = LikelihoodKernelPCA(gamma=0.3, update=update, max_iter=2).fit(cloud)
    assert caught[0].filename == __file__
    assert not model.converged_
    assert model.n_iter_ == 2
    assert len(model.log_likelihood_) == 3
    with pytest.warns(ConvergenceWarning):
        LikelihoodKernelPCA(gamma=0.3, update=update, max_iter=1).fit(cloud)


def test_no_warning_on_ordinary_rows(cloud, digits):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for options in ({}, {"center": True}, {"update": "fast"}, {"kernel": "laplacian"}):
            assert fitted(cloud, n_components=2, gamma=0.3, noise_fraction=0.2, **options).converged_
        fitted(cloud, n_components=2, n_support=12)
        fitted(digits[0][:400], n_components=5)


def test_warnings_of_a_path_point_at_the_users_line(rows):
    with pytest.warns(UserWarning, match="not positive semi-definite") as caught:
        likelihood_path(LikelihoodKernelPCA(kernel="sigmoid", gamma=0.05, coef0=0.2), rows, n_points=2)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("kind", ["normal", "heavy tails", "far from the origin", "wide", "linear"])
@pytest.mark.filterwarnings("ignore")
def test_the_default_does_not_collapse(kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 5))
    options = {"wide": {"gamma": 0.01}, "linear": {"kernel": "linear"}, "far from the origin": {"kernel": "cosine"}}
    X = {"heavy tails": rng.lognormal(0, 2, (600, 4)), "far from the origin": X + 10, "linear": X + 10}.get(kind, X)
    model = LikelihoodKernelPCA(random_state=0, **options.get(kind, {})).fit(X)
    assert 4 <= model.n_support_ <= 60


@pytest.mark.filterwarnings("ignore")
def test_predict_calls_few_rows_like_the_training_rows_novel_and_all_others(digits):
    train, test = digits
    model = LikelihoodKernelPCA(random_state=0, false_alarm_rate=0.1).fit(train[:500])
    np.testing.assert_allclose(model.decision_function(test), model.score_samples(test) - model.threshold_)
    assert 0.05 < np.mean(model.predict(test) < 0) < 0.17
    assert np.all(model.predict(np.random.default_rng(0).uniform(size=(100, 64))) == -1)
    gram = model.expansion_.kernel(train[:500], train[:500])
    same = LikelihoodKernelPCA(random_state=0, false_alarm_rate=0.1, kernel="precomputed").fit(gram)
    assert same.threshold_ == pytest.approx(model.threshold_, rel=1e-6)
