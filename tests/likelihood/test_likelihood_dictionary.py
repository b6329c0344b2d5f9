"""The likelihood over a dictionary against sums over the rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from likelihood_cases import (
    CENTERED,
    sampled,
)
from oracles import dictionary_span, gram_of

from kernelsieve.kernels import named_kernel
from kernelsieve.rows.rows import ArrayRows
from kernelsieve.solvers.likelihood import Likelihood, coordinate_ascent

# The dictionary


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
