"""Rows at random: drawn as their rule says."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import exact_kernel_pca, gram_of
from scipy.stats import chisquare
from selection_cases import Counter, schur
from sklearn.metrics import pairwise_distances

from kernelsieve import SparseKernelPCA
from kernelsieve.fit.plan import PLAN
from kernelsieve.fit.sample import Sample
from kernelsieve.kernels import CallableKernel, named_kernel
from kernelsieve.rows.sampling import sample_rows
from kernelsieve.rules.distances import kmeans_centers
from kernelsieve.rules.residual import draw_without_replacement, randomly_pivoted_cholesky
from kernelsieve.solvers.greedy import StoredGram, greedy, worst_explained
from kernelsieve.threads import one_blas_thread

# Rows at random


def test_rpcholesky_draws_by_the_residual():
    """The first pick follows k(x, x), the second the diagonal of the residual after it: two chi-square tests."""
    X = np.random.default_rng(0).standard_normal((6, 2)) * np.arange(1, 7)[:, None]
    gram = gram_of("linear", X) + 0.5 * np.eye(6)
    rng, n_draws = np.random.default_rng(1), 4000
    with one_blas_thread():  # once, not for each of the small problems
        picks = np.array([randomly_pivoted_cholesky(StoredGram(gram), 2, rng).chosen for _ in range(n_draws)])
    first = np.bincount(picks[:, 0], minlength=6)
    assert chisquare(first, n_draws * np.diagonal(gram) / np.trace(gram)).pvalue > 1e-3
    given = int(np.argmax(first))
    residual = np.diagonal(gram - np.outer(gram[given], gram[given]) / gram[given, given]).copy()
    others = np.arange(6) != given
    second = np.bincount(picks[picks[:, 0] == given, 1], minlength=6)
    assert second[given] == 0
    expected = residual[others] / residual[others].sum() * second.sum()
    assert chisquare(second[others], expected).pvalue > 1e-3


def test_rpcholesky_with_weights_draws_by_both():
    gram, weights = np.diag([1.0, 2.0, 3.0, 4.0]), np.array([4.0, 3.0, 2.0, 1.0])
    rng = np.random.default_rng(0)
    with one_blas_thread():
        first = [randomly_pivoted_cholesky(StoredGram(gram), 1, rng, weights=weights).chosen[0] for _ in range(4000)]
    mass = np.diagonal(gram) * weights
    assert chisquare(np.bincount(first, minlength=4), 4000 * mass / mass.sum()).pvalue > 1e-3


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("proposals", [2, 128], ids=["many blocks", "one block"])
def test_blocks_with_rejection_draw_as_one_by_one(proposals, weighted, monkeypatch):
    """All ordered triples of five rows, with the probabilities of drawing by the residual one after another."""
    monkeypatch.setattr("kernelsieve.rules.residual.PROPOSALS", proposals)
    rng, n_draws = np.random.default_rng(0), 4000
    gram = gram_of("rbf", rng.standard_normal((5, 2)), gamma=0.4) * np.outer([1, 2, 1, 1.5, 1], [1, 2, 1, 1.5, 1])
    weights = np.array([3.0, 1.0, 2.0, 1.0, 1.0]) if weighted else np.ones(5)
    triples = list(permutations(range(5), 3))
    expected = []
    for triple in triples:
        probability = 1.0
        for k, i in enumerate(triple):
            mass = weights * np.diagonal(schur(gram, list(triple[:k])))
            mass[list(triple[:k])] = 0
            probability *= mass[i] / mass.sum()
        expected.append(probability)
    counts = dict.fromkeys(triples, 0)
    with one_blas_thread():
        for _ in range(n_draws):
            state = randomly_pivoted_cholesky(StoredGram(gram), 3, rng, weights=weights if weighted else None)
            counts[tuple(state.chosen)] += 1
    assert chisquare(list(counts.values()), n_draws * np.array(expected)).pvalue > 1e-3


def test_blocks_leave_the_residual_of_their_rows(digits):
    gram = gram_of("rbf", digits[0][:300], gamma=0.05)
    state = randomly_pivoted_cholesky(StoredGram(gram), 180, np.random.default_rng(0))
    assert len(set(state.chosen)) == 180
    left = schur(gram, state.chosen)
    others = np.setdiff1d(np.arange(300), state.chosen)
    np.testing.assert_allclose(state.diagonal[others], np.diagonal(left)[others], atol=1e-9)
    np.testing.assert_allclose(gram - state.factor @ state.factor.T, left, atol=1e-9)


def test_blocks_stop_at_the_rank():
    factor = np.random.default_rng(0).standard_normal((30, 4))
    assert len(randomly_pivoted_cholesky(StoredGram(factor @ factor.T), 20, np.random.default_rng(0)).chosen) == 4


@pytest.mark.parametrize("weighted", [False, True])
def test_leverage_is_that_of_the_whole_gram(weighted, cloud):
    """l_i = [W^1/2 K W^1/2 (W^1/2 K W^1/2 + ridge I)^-1]_ii with Musco & Musco's ridge for M components."""
    weights = np.random.default_rng(0).integers(1, 4, 80).astype(float) if weighted else None
    rows = sample_rows(cloud, 80, np.random.default_rng(0), weights, merge=True)
    sample = Sample.of(rows, CallableKernel(Counter()), 3, center=False)
    mass = np.ones(80) if weights is None else weights / weights.mean()
    gram = np.sqrt(mass)[:, None] * gram_of("rbf", cloud, gamma=0.3) * np.sqrt(mass)
    values = np.linalg.eigvalsh(gram)
    ridge = values[:-3].sum() / 3
    truth = np.diagonal(gram @ np.linalg.inv(gram + ridge * np.eye(80)))
    np.testing.assert_allclose(sample.ridge_leverage, truth[rows.indices], rtol=1e-6)


def test_leverage_from_rows_drawn_by_what_they_carry_counts_each_for_the_rows_it_stands_for():
    """By the printed expression, with the weights of the draw, on rows of which a few are heavy."""
    X = np.random.default_rng(1).standard_t(2, (400, 3))
    rows = sample_rows(X, 400, np.random.default_rng(0), None, merge=True)
    kernel, plan = named_kernel("rbf", gamma=1e-3), replace(PLAN, all_evaluated=100)
    sample = Sample.of(rows, kernel, 3, center=False, n_evaluation=100, plan=plan).representative
    n, drawn = sample.n_evaluation, sample.drawn
    assert n == len(drawn.weights) < 400
    assert drawn.weights.max() > 2 * drawn.weights.min()
    X, mass = X[sample.rows.indices], drawn.weights / drawn.weights.mean()
    gram = gram_of("rbf", X, X[:n], gamma=1e-3)
    ridge = 400 * (1 - exact_kernel_pca(gram[:n], 3, center=False, weights=mass)[0].sum() / n) / 3
    nearest = np.linalg.solve(gram[:n] + np.diag(ridge * n / 400 / mass), gram.T)
    np.testing.assert_allclose(sample.ridge_leverage, (1 - np.sum(gram.T * nearest, axis=0)) / ridge, rtol=1e-5)


def test_leverage_from_a_part_of_the_rows_is_close(blobs):
    X = blobs[0]
    scores = []
    for size in (1000, 999):  # all rows, and half of so many
        rows = sample_rows(X, size, np.random.default_rng(0), None, merge=True)
        sample = Sample.of(rows, CallableKernel(lambda X, Y: gram_of("rbf", X, Y, gamma=0.02)), 5, center=True)
        scores.append(dict(zip(rows.indices, sample.ridge_leverage, strict=True)))
    ratio = np.array([scores[1][i] / scores[0][i] for i in scores[1]])
    assert 0.95 < np.median(ratio) < 1.05
    assert 0.8 < ratio.min() < ratio.max() < 1.25


def test_draws_without_replacement_follow_the_scores():
    scores, rng, n = np.array([1.0, 2.0, 3.0, 0.0, 4.0]), np.random.default_rng(0), 6000
    pairs = np.array([draw_without_replacement(scores, rng)[:2] for _ in range(n)])
    expected, observed = [], []
    for i, j in permutations([0, 1, 2, 4], 2):
        expected.append(n * scores[i] / 10 * scores[j] / (10 - scores[i]))
        observed.append(np.sum((pairs == (i, j)).all(axis=1)))
    assert chisquare(observed, expected).pvalue > 1e-3
    assert len(draw_without_replacement(scores, rng)) == 4


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), n_rows=st.integers(2, 25))
def test_every_pick_explains_more_and_none_comes_twice(seed, n_rows):
    """The trace of the Schur complement, by orthogonal projection, falls with every pick."""
    rng = np.random.default_rng(seed)
    gram = gram_of("rbf", rng.standard_normal((25, 2)), gamma=0.7)
    picks = greedy(lambda j: gram[:, j], np.diagonal(gram), n_rows, lambda state, eligible: int(rng.choice(eligible)))
    assert len(set(picks)) == len(picks)
    values, vectors = np.linalg.eigh(gram)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    traces = [np.trace(gram)]
    for m in range(1, len(picks) + 1):
        basis = np.linalg.qr(root[picks[:m]].T)[0]
        traces.append(np.sum((root - root @ basis @ basis.T) ** 2))
    assert np.all(np.diff(traces) < 0)


def test_greedy_stops_at_the_rank():
    factor = np.random.default_rng(0).standard_normal((30, 4))
    gram = factor @ factor.T
    for rule in (worst_explained, lambda state, eligible: int(eligible[0])):
        assert len(greedy(lambda j: gram[:, j], np.diagonal(gram), 20, rule)) == 4


@pytest.mark.parametrize("rule", ["uniform", "rpcholesky", "leverage"])
def test_random_rows_are_rows_and_depend_on_the_seed(rule, cloud):
    supports = [
        SparseKernelPCA(2, n_support=10, selection=rule, random_state=seed).fit(cloud).support_ for seed in range(4)
    ]
    for support in supports:
        assert len(set(support)) == 10
        assert min(support) >= 0
        assert max(support) < 80
    assert len({tuple(sorted(support)) for support in supports}) == 4


def test_uniform_is_uniform(cloud):
    counts = np.zeros(20)
    for seed in range(200):
        model = SparseKernelPCA(1, n_support=4, selection="uniform", gamma=0.3, random_state=seed).fit(cloud[:20])
        counts[model.support_] += 1
    assert chisquare(counts).pvalue > 1e-3


# k-means centres


def test_kmeans_step_is_lloyds(cloud):
    """One more step from converged centres moves nothing, and each centre is the mean of the rows nearest to it."""
    centers = kmeans_centers(cloud, 5, 200, np.random.default_rng(0))
    nearest = np.argmin(pairwise_distances(cloud, centers), axis=1)
    means = np.stack([cloud[nearest == j].mean(axis=0) for j in range(5)])
    np.testing.assert_allclose(centers, means, atol=1e-10)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_kmeans_moves_with_the_unit_of_the_rows(scale, cloud):
    """Squared distances of such rows are beyond float32."""
    plain, scaled = (kmeans_centers(rows, 5, 20, np.random.default_rng(0)) for rows in (cloud, scale * cloud))
    np.testing.assert_allclose(scaled, scale * plain, rtol=1e-9)


def test_kmeans_with_weights_is_that_of_repeated_rows(cloud):
    counts = np.random.default_rng(3).integers(1, 4, 80)
    centers = kmeans_centers(cloud, 4, 200, np.random.default_rng(0), counts.astype(float))
    nearest = np.argmin(pairwise_distances(cloud, centers), axis=1)
    means = [np.average(cloud[nearest == j], axis=0, weights=counts[nearest == j]) for j in range(4)]
    np.testing.assert_allclose(centers, means, atol=1e-10)


def test_kmeans_selection_gives_points_that_are_no_rows(blobs):
    train, _ = blobs
    model = SparseKernelPCA(3, n_support=12, selection="kmeans", random_state=0).fit(train)
    assert model.support_ is None
    assert model.support_vectors_.shape == (12, 6)
    assert pairwise_distances(train, model.support_vectors_).min(axis=1).mean() < 6
