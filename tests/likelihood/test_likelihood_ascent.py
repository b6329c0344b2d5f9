"""Every rule climbs to the same top; a noise variance for so many points."""

from __future__ import annotations

import likelihood_cases as cases
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import gram_of

from kernelsieve.solvers.likelihood import Likelihood, LikelihoodFit, coordinate_ascent, largest_within, sweeps

# Uphill, to the top


@pytest.mark.parametrize("rule", cases.RULES)
def test_every_step_goes_uphill(rule, rows):
    """Each step's weights, by stopping there, under the density itself."""
    features = cases.poly_features(rows, **cases.POLY)
    likelihood, noise_variance = cases.likelihood_of(features @ features.T), 0.15
    whole = cases.RULES[rule](likelihood, noise_variance, max_iter=50)
    values = []
    for n_steps in range(whole.n_iter + 1):
        found = cases.RULES[rule](likelihood, noise_variance, max_iter=n_steps)
        values.append(cases.log_density(features, features, found.weights, noise_variance).sum())
        assert found.n_iter == n_steps
        assert np.all(found.weights >= 0)
    assert np.all(np.diff(values) >= -1e-9)
    assert values[-1] > values[0] + 1
    np.testing.assert_allclose(whole.log_likelihood, values, rtol=1e-10)


@pytest.mark.parametrize("rule", cases.RULES)
def test_uphill_on_wild_rows(rule):
    """Where the published fast rule and a whole joint step both overshoot."""
    for seed in range(60):
        likelihood, features, points, noise_variance, start = cases.wild_problem(seed)
        found = cases.RULES[rule](likelihood, noise_variance, start, max_iter=40)
        values = found.log_likelihood
        assert np.all(np.diff(values) >= -1e-9 * abs(values[0]))
        truth = [cases.log_density(features, points, w, noise_variance).sum() for w in (start, found.weights)]
        np.testing.assert_allclose(values[[0, -1]], truth, rtol=1e-6)


@pytest.mark.parametrize("seed", [6, 10, 12, 15])
def test_fast_falls_back_to_em_where_it_would_fall(seed):
    """Without pruning, a weight next to nothing is thrown far up by the fast rule."""
    likelihood, _, _, noise_variance, _ = cases.wild_problem(seed)
    found = sweeps(likelihood, noise_variance, prune_tol=0.0, max_iter=40)
    assert np.all(np.diff(found.log_likelihood) >= 0)


@pytest.mark.parametrize("rule", cases.RULES)
@pytest.mark.parametrize("noise_fraction", [0.02, 0.2, 0.8])
def test_no_reported_likelihood_ever_falls(rule, noise_fraction, cloud):
    likelihood = cases.likelihood_of(gram_of("rbf", cloud, gamma=0.3))
    noise_variance = noise_fraction * likelihood.largest_noise_variance
    found = cases.RULES[rule](likelihood, noise_variance, max_iter=300)
    assert np.all(np.diff(found.log_likelihood) >= 0)
    assert found.log_likelihood[-1] == pytest.approx(likelihood.log_likelihood(found.weights, noise_variance), rel=1e-9)


@pytest.mark.parametrize("noise_fraction", [1e-4, 1e-7])
def test_the_reported_likelihood_is_the_likelihood_at_the_smallest_noise(noise_fraction, rows):
    """What is reported is reached, also where 1 / s2^2 makes rounding large."""
    likelihood = cases.likelihood_of(gram_of("poly", rows, **cases.POLY))
    noise_variance = noise_fraction * likelihood.largest_noise_variance
    found = coordinate_ascent(likelihood, noise_variance, max_iter=2000)
    truth = likelihood.log_likelihood(found.weights, noise_variance)
    assert found.log_likelihood[-1] == pytest.approx(truth, rel=1e-6)
    assert truth >= likelihood.log_likelihood(np.full(50, 1 / 50), noise_variance) - 1e-6 * abs(truth)


@pytest.mark.parametrize("noise_fraction", [0.05, 0.1])
def test_the_rules_reach_the_same_likelihood(noise_fraction, cloud):
    likelihood = cases.likelihood_of(gram_of("rbf", cloud, gamma=0.3))
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
    likelihood = cases.likelihood_of(gram_of("rbf", clusters, gamma=16.0))
    best, fast = coordinate_ascent(likelihood, noise_variance), sweeps(likelihood, noise_variance)
    assert fast.log_likelihood[-1] == pytest.approx(best.log_likelihood[-1], rel=1e-4)


@pytest.mark.parametrize("kernel", ["poly", "rbf"])
def test_no_change_of_one_weight_is_better(kernel, rows):
    """Every weight of the result on a grid, zero and far larger included: by the density for the polynomial kernel."""
    params = cases.POLY if kernel == "poly" else {"gamma": 0.3}
    likelihood, features = cases.likelihood_of(gram_of(kernel, rows, **params)), cases.poly_features(rows, **cases.POLY)
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
                assert cases.log_density(features, features, weights, noise_variance).sum() <= top + most


@pytest.mark.parametrize("rule", cases.RULES)
def test_the_gradient_vanishes_where_a_weight_is_and_points_down_where_none_is(rule, rows):
    """dL/dw_i = (Q_i - N S_i) / 2, Q and S by inversion; the published rules are on their way there."""
    features = cases.poly_features(rows, **cases.POLY)
    found = cases.RULES[rule](cases.likelihood_of(features @ features.T), 0.15, max_iter=2000, tol=1e-12)
    S, Q = cases.direct_statistics(features, found.weights, 0.15)
    relative = (Q / 50 - S) / S
    within = {"coordinate": 1e-4, "fast": 2e-2, "em": 0.2}[rule]
    assert np.all(np.abs(relative[found.weights > 0.01]) < within)
    assert np.all(relative[found.weights == 0] < within)


def test_any_start_leads_to_the_same_top(cloud):
    likelihood = cases.likelihood_of(gram_of("rbf", cloud, gamma=0.3))
    noise_variance = 0.2 * likelihood.largest_noise_variance
    top = coordinate_ascent(likelihood, noise_variance).log_likelihood[-1]
    rng = np.random.default_rng(0)
    for start in (np.full(80, 1 / 80), rng.uniform(0, 1, 80), cases.some_weights(80, 5)):
        mine = start.copy()
        found = coordinate_ascent(likelihood, noise_variance, start)
        assert found.log_likelihood[0] == pytest.approx(likelihood.log_likelihood(mine, noise_variance))
        assert found.log_likelihood[-1] == pytest.approx(top, rel=1e-6)
        np.testing.assert_array_equal(start, mine)


def test_copies_share_one_weight(rows):
    """Three copies of every point are no better than one, and no trouble."""
    gram = gram_of("rbf", rows[:20], gamma=0.3)
    once = Likelihood(gram, np.sqrt(3) * gram, 60.0, 60.0)
    thrice = cases.likelihood_of(np.tile(gram, (3, 3)))
    noise_variance = 0.1 * once.largest_noise_variance
    assert thrice.largest_noise_variance == pytest.approx(once.largest_noise_variance)
    top = coordinate_ascent(once, noise_variance).log_likelihood[-1]
    for rule in (coordinate_ascent, sweeps):
        found = rule(thrice, noise_variance)
        assert found.converged
        assert found.log_likelihood[-1] == pytest.approx(top, rel=1e-5)


def test_pruning_drops_what_is_next_to_nothing_and_costs_no_likelihood(cloud):
    likelihood = cases.likelihood_of(gram_of("rbf", cloud, gamma=0.3))
    noise_variance = 0.4 * likelihood.largest_noise_variance
    kept = sweeps(likelihood, noise_variance, prune_tol=0.0, max_iter=100)
    pruned = sweeps(likelihood, noise_variance, prune_tol=1e-3, max_iter=400)
    assert len(kept.active) == 80 > 2 * len(pruned.active)
    assert np.all(pruned.weights[pruned.active] >= 1e-3 * noise_variance)  # k_ii = 1
    assert np.all(np.diff(pruned.log_likelihood) >= 0)


@pytest.mark.parametrize("prune_tol", [0.01, 0.1, 10.0])
def test_pruning_never_empties_a_model(prune_tol, cloud):
    """Where all weights are small at once, as at the start they may be."""
    likelihood = cases.likelihood_of(gram_of("rbf", cloud, gamma=0.3))
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
    likelihood = cases.likelihood_of(gram_of("rbf", cloud, gamma=0.3))
    for rule in cases.RULES.values():
        found = rule(likelihood, 0.02, max_iter=3)
        assert not found.converged
        assert found.n_iter == 3 == len(found.log_likelihood) - 1
    loose, tight = (coordinate_ascent(likelihood, 0.02, tol=tol) for tol in (1e-3, 1e-10))
    assert loose.converged
    assert tight.converged
    assert loose.n_iter < tight.n_iter


# A noise variance for so many points


def test_the_search_finds_a_count_that_occurs():
    solve, calls = cases.counted(lambda noise: int(10 / noise))
    for wanted in (1, 3, 17, 200):
        calls.clear()
        found = largest_within(wanted, 10.0, solve)
        assert len(found.active) == wanted
        assert len(calls) < 40
    assert calls[0][1] is None
    assert calls[-1][1] is not None  # warm


def test_the_search_gives_the_largest_count_below_one_that_never_occurs():
    solve, _ = cases.counted(lambda noise: 4 * int(2 / noise))
    assert len(largest_within(7, 2.0, solve).active) == 4
    assert len(largest_within(15, 2.0, solve).active) == 12


def test_the_search_keeps_the_largest_count_it_met():
    """Counts are not monotone: 3, 5, 4 and then too many."""
    solve, calls = cases.counted(lambda noise: 3 if noise > 0.5 else 5 if noise > 0.3 else 4 if noise > 0.2 else 9)
    assert len(largest_within(6, 1.0, solve).active) == 5
    assert min(noise for noise, _ in calls) < 0.2


def test_the_search_says_when_there_is_none():
    solve, _ = cases.counted(lambda noise: 5)
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


def test_the_record_is_the_likelihood_after_every_step(cloud):
    """The joint step of all weights is a step like the others: what runs of k steps reach is recorded."""
    likelihood = cases.likelihood_of(gram_of("rbf", cloud, gamma=0.3))
    noise_variance = 0.05 * likelihood.largest_noise_variance
    record = coordinate_ascent(likelihood, noise_variance, max_iter=60).log_likelihood
    for n_steps in (15, 16, 17, 40):
        stopped = coordinate_ascent(likelihood, noise_variance, max_iter=n_steps)
        truth = likelihood.log_likelihood(stopped.weights, noise_variance)
        assert record[n_steps] == pytest.approx(truth, rel=1e-9)
