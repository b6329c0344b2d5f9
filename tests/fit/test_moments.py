"""Moments: merged in any order they are the moments of the whole, and those of explicit features."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import KERNELS, captured_by, exact_kernel_pca, gram_of, quadratic_features

from kernelsieve import threads
from kernelsieve.fit.moments import MomentSum
from kernelsieve.fit.moments import gram_of as gram_of_points
from kernelsieve.fit.span import PointSpan
from kernelsieve.kernels import named_kernel
from kernelsieve.rows.checks import LARGEST, finite
from kernelsieve.spectrum.whitening import triangular_whitening, whiten


def moments_over(kernel, points, X, sample_weight=None, n_threads=1):
    whitening = whiten(gram_of_points(kernel, points)).matrix
    return MomentSum(kernel, points, whitening).over(X, sample_weight, n_threads)


def refit(kernel, points, X, n_components, *, center):
    """(expansion, variances): the best components on these points."""
    span = PointSpan(kernel, points, None, center, moments_over(kernel, points, X))
    best = span.best(n_components)
    return span.expansion(best), best.variances


def assert_equal_moments(left, right, rtol=1e-12):
    assert left.weight == pytest.approx(right.weight, rel=rtol)
    assert left.trace == pytest.approx(right.trace, rel=rtol)
    np.testing.assert_allclose(left.mean, right.mean, rtol=0, atol=rtol * np.abs(right.mean).max())
    np.testing.assert_allclose(left.scatter, right.scatter, rtol=0, atol=rtol * np.abs(right.scatter).max())


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_blocks_in_any_order_make_the_whole(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16), label="seed"))
    n = data.draw(st.integers(8, 60), label="rows")
    name = data.draw(st.sampled_from(["rbf", "poly", "linear", "cosine", "laplacian"]), label="kernel")
    X = rng.standard_normal((n, 3)) + data.draw(st.sampled_from([0.0, 3.0]), label="offset")
    weights = rng.uniform(0.1, 2, n) if data.draw(st.booleans(), label="weighted") else None
    cuts = data.draw(st.lists(st.integers(1, n - 1), max_size=6, unique=True), label="cuts")
    parts = np.split(data.draw(st.permutations(range(n)), label="row order"), sorted(cuts))
    kernel, points = named_kernel(name, **KERNELS[name]), rng.standard_normal((6, 3))

    def over(rows):
        return moments_over(kernel, points, X[rows], sample_weight=None if weights is None else weights[rows])

    pieces = [over(np.asarray(part)) for part in parts]
    order = data.draw(st.permutations(range(len(pieces))), label="merge order")
    merged = reduce(add, [pieces[i] for i in order])
    assert_equal_moments(merged, over(np.arange(n)))


def test_merging_is_associative(cloud):
    kernel = named_kernel("rbf", gamma=0.3)
    a, b, c = (moments_over(kernel, cloud[:7], cloud[part]) for part in np.split(np.arange(80), [11, 50]))
    assert_equal_moments((a + b) + c, a + (b + c))
    assert_equal_moments(a + b, b + a)


def test_a_pass_in_many_blocks_over_threads_is_the_same(monkeypatch, cloud):
    kernel, X = named_kernel("rbf", gamma=0.3), np.tile(cloud, (40, 1)) + np.arange(3200)[:, None] * 1e-4
    whole = moments_over(kernel, cloud[:9], X)
    monkeypatch.setattr(threads, "MAX_BLOCK_ROWS", 77)
    monkeypatch.setattr(threads, "MIN_BLOCK_ROWS", 10)
    assert_equal_moments(moments_over(kernel, cloud[:9], X), whole)
    one, four = (moments_over(kernel, cloud[:9], X, n_threads=n) for n in (1, 4))
    np.testing.assert_array_equal(one.scatter, four.scatter)  # the order of sums is fixed: the same bits
    np.testing.assert_array_equal(one.mean, four.mean)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["linear", "poly"])
def test_covariance_of_explicit_features(name, weighted, center, cloud):
    """Points that span the feature space: the spectrum is that of numpy's covariance of the features."""
    params = {"gamma": 0.4, "degree": 2, "coef0": 1.0}
    features = cloud if name == "linear" else quadratic_features(cloud, 0.4, 1.0)
    points = np.random.default_rng(5).standard_normal((40, 5))
    weights = np.random.default_rng(6).uniform(0, 2, len(cloud)) if weighted else None
    moments = moments_over(named_kernel(name, **params), points, cloud, sample_weight=weights)

    w = np.ones(len(cloud)) if weights is None else weights
    covariance = np.cov(features.T, aweights=w, ddof=0)
    if not center:
        mean = np.average(features, axis=0, weights=w)
        covariance = covariance + np.outer(mean, mean)
    truth = np.linalg.eigvalsh(covariance)
    found = np.linalg.eigvalsh(moments.covariance(center))
    assert moments.whitening.shape[1] == features.shape[1]
    np.testing.assert_allclose(found, truth, atol=1e-9 * truth[-1])
    assert PointSpan(named_kernel("rbf", gamma=1.0), None, None, center, moments).total_variance == pytest.approx(
        np.trace(covariance), rel=1e-10
    )
    assert moments.trace == pytest.approx(np.sum(w[:, None] * features**2), rel=1e-12)
    assert moments.weight == pytest.approx(w.sum())


@pytest.mark.parametrize("name", KERNELS)
def test_features_are_the_projections(name, cloud, new_rows):
    """f(x)'f(y) = k(x, S) K_SS^+ k(S, y): the second moment's trace by numpy's pseudo-inverse."""
    points = new_rows[:8]
    gram, cross = gram_of(name, points, **KERNELS[name]), gram_of(name, cloud, points, **KERNELS[name])
    moments = moments_over(named_kernel(name, **KERNELS[name]), points, cloud)
    # of an indefinite kernel the negative part is dropped, and what is positive but smaller than that
    values, vectors = np.linalg.eigh(gram)
    keep = values > max(1e-11 * values[-1], -values[0])
    features = cross @ (vectors[:, keep] / np.sqrt(values[keep]))
    np.testing.assert_allclose(np.trace(moments.covariance(False)), np.mean(np.sum(features**2, axis=1)), rtol=1e-8)
    np.testing.assert_allclose(np.trace(moments.covariance(True)), np.sum(np.var(features, axis=0)), rtol=1e-8)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000))
def test_whole_weights_are_repetitions(seed):
    rng = np.random.default_rng(seed)
    X, counts = rng.standard_normal((25, 3)), rng.integers(0, 4, 25)
    counts[0] += counts.sum() == 0
    kernel, points = named_kernel("rbf", gamma=0.5), rng.standard_normal((5, 3))
    weighted = moments_over(kernel, points, X, sample_weight=counts.astype(float))
    assert_equal_moments(weighted, moments_over(kernel, points, np.repeat(X, counts, axis=0)))


def test_a_block_of_weight_zero_adds_nothing(cloud):
    kernel = named_kernel("rbf", gamma=0.3)
    some = moments_over(kernel, cloud[:5], cloud[:40])
    nothing = moments_over(kernel, cloud[:5], cloud[40:], sample_weight=np.zeros(40))
    assert_equal_moments(some + nothing, some)
    assert_equal_moments(nothing + some, some)
    assert (nothing + nothing).weight == 0


@pytest.mark.parametrize("first", [1, 40])
def test_rows_that_do_not_count_cost_no_digits_wherever_they_lie(first, cloud):
    kernel, points = named_kernel("linear"), cloud[:3]
    counting = moments_over(kernel, points, cloud, np.ones(len(cloud)))
    rows = np.vstack([np.full((first, cloud.shape[1]), 1e9), cloud])
    weights = np.repeat([0.0, 1.0], [first, len(cloud)])
    assert_equal_moments(moments_over(kernel, points, rows, weights), counting, rtol=1e-13)
    whitening = whiten(gram_of_points(kernel, points)).matrix
    blocks = ((start, rows[start : start + 40]) for start in range(0, len(rows), 40))
    in_blocks = MomentSum(kernel, points, whitening).over_blocks(blocks, weights)
    assert_equal_moments(in_blocks, counting, rtol=1e-13)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_may_be_beyond_what_float32_holds_and_some_zero(dtype, scale, cloud):
    weights = np.arange(len(cloud)) % 3.0
    rows, kernel = cloud.astype(dtype), named_kernel("rbf", gamma=0.3)
    points = rows[:5]
    whitening = whiten(gram_of_points(kernel, points)).matrix
    expected, found = (MomentSum(kernel, points, whitening).over(rows, unit * weights, 1) for unit in (1.0, scale))
    assert found.weight == pytest.approx(scale * weights.sum())
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-6)
    np.testing.assert_allclose(found.covariance(True), expected.covariance(True), rtol=1e-5, atol=1e-9)


def test_a_mean_far_away_costs_no_digits(cloud):
    """The scatter is kept about the mean: a linear kernel 10,000 away loses nothing that float64 rows still have."""
    far, points = cloud + 1e4, np.eye(5) * 1e4
    spectrum = np.linalg.eigvalsh(moments_over(named_kernel("linear"), points, far).covariance(True))
    np.testing.assert_allclose(spectrum, np.linalg.eigvalsh(np.cov(cloud.T, ddof=0)), rtol=1e-8)


@pytest.mark.parametrize("name", KERNELS)
def test_sparse_and_float32_rows(name, cloud):
    kernel, rows = named_kernel(name, **KERNELS[name]), np.where(cloud > 0.2, cloud, 0)
    dense = moments_over(kernel, rows[:6], rows)
    sparse = moments_over(kernel, rows[:6], scipy.sparse.csr_matrix(rows))
    assert_equal_moments(sparse, dense, rtol=1e-11)
    whitening = whiten(gram_of_points(kernel, rows[:6]), 1e-6).matrix
    light = MomentSum(kernel, rows[:6], whitening).over(rows.astype(np.float32), None, 1)
    assert light.scatter.dtype == np.float64
    full = MomentSum(kernel, rows[:6], whitening).over(rows, None, 1)
    assert_equal_moments(light, full, rtol=1e-4)


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("offset", [0.0, 100.0])
@pytest.mark.parametrize("gamma", [1e-3, 0.05, 2.0])
@pytest.mark.parametrize(("dtype", "atol"), [(np.float64, 1e-10), (np.float32, 2e-6)])
def test_sums_that_are_whitened_at_the_end_are_those_of_whitened_features(dtype, atol, gamma, offset, weighted):
    """Against features written out in extended precision; which of both ways was gone is not asked."""
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((3000, 4)) @ rng.standard_normal((4, 8)) + offset).astype(dtype)
    weights = rng.uniform(0, 2, len(X)) if weighted else None
    kernel, points = named_kernel("rbf", gamma=gamma), X[:25].astype(np.float64)
    whitening = whiten(gram_of_points(kernel, points), 1e-11 if dtype is np.float64 else 1e-6).matrix
    found = MomentSum(kernel, points, whitening).over(X, weights, 2)
    features = gram_of("rbf", X.astype(np.float64), points, gamma=gamma).astype(np.longdouble) @ whitening
    mean = np.average(features, axis=0, weights=weights)
    spread = np.sqrt(np.ones(len(X)) if weights is None else weights)[:, None] * (features - mean)
    np.testing.assert_allclose(found.mean, mean, atol=10 * atol)
    np.testing.assert_allclose(found.covariance(True), spread.T @ spread / found.weight, rtol=0, atol=atol)
    assert np.array_equal(found.scatter, found.scatter.T)


def test_sums_are_whitened_at_the_end_where_that_costs_no_digits(cloud):
    ways = {}
    for gamma in (1e-5, 0.02, 1.0):
        kernel = named_kernel("rbf", gamma=gamma)
        summed = MomentSum(kernel, cloud[:12], whiten(gram_of_points(kernel, cloud[:12])).matrix)
        ways[gamma] = [summed.whitens_first(cloud.astype(dtype)) for dtype in (np.float64, np.float32)]
        assert replace(summed, whitening=summed.whitening[:, :3]).whitens_first(cloud)  # a few directions cost less
    assert ways == {1e-5: [True, True], 0.02: [False, True], 1.0: [False, True]}
    product = MomentSum(named_kernel("linear"), cloud[:3], np.eye(3))
    assert product.whitens_first(cloud)  # its values may be anything


def test_float32_rows_keep_small_components():
    """Three tight clusters: the last component has a ten-thousandth of the variance, and is no rounding."""
    rng = np.random.default_rng(3)
    X = (3 * rng.standard_normal((3, 20))[rng.integers(0, 3, 400)] + 0.02 * rng.standard_normal((400, 20))).astype("f4")
    kernel, points = named_kernel("rbf", gamma=0.3), X[:5].astype(np.float64)
    whitening = whiten(gram_of_points(kernel, points), 1e-6).matrix
    light, full = (
        np.linalg.eigvalsh(MomentSum(kernel, points, whitening).over(rows, None, 1).covariance(True))[-3:]
        for rows in (X, X.astype(np.float64))
    )
    np.testing.assert_allclose(light, full, rtol=0.02)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize(("smallest", "needed"), [(1e-2, False), (3e-6, False), (3e-7, True), (1e-10, True)])
def test_float64_is_needed_where_an_eigenvalue_would_be_rounding_in_float32(smallest, needed, unit):
    """The limit is a share of 1e-6 of the largest eigenvalue of the points' gram."""
    vectors = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))[0]
    whitening = vectors / np.sqrt(unit * np.geomspace(smallest, 1.0, 5))
    assert MomentSum(named_kernel("rbf", gamma=0.3), np.eye(5), whitening).in_float64 is needed


def test_whitening_drops_what_is_rounding():
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((10, 4))
    gram = factor @ factor.T  # rank 4
    found = whiten(gram)
    assert found.matrix.shape == (10, 4)
    assert found.negative_share < 1e-14
    np.testing.assert_allclose(found.matrix.T @ gram @ found.matrix, np.eye(4), atol=1e-10)


@pytest.mark.parametrize("smallest", [1e-3, 1e-7, 1e-10, 3e-12, 0.0, -1e-6])
def test_a_triangular_whitening_is_one_or_is_not_given(smallest):
    """Never where an eigenvalue is rounding, and always where the smallest is far above it."""
    rng = np.random.default_rng(0)
    basis, _ = np.linalg.qr(rng.standard_normal((60, 60)))
    values = np.r_[np.geomspace(1.0, 1e-3, 59), smallest]
    gram = (basis * values) @ basis.T
    found = triangular_whitening((gram + gram.T) / 2)
    if smallest < 1e-11:
        assert found is None
    elif smallest >= 1e-7:
        assert found is not None
    if found is not None:
        np.testing.assert_allclose(found.T @ gram @ found, np.eye(60), atol=1e-15 / smallest)
        assert np.array_equal(found, np.triu(found))


def test_whitening_of_an_indefinite_gram():
    """The negative part goes, and what is positive but no larger: nothing says that it is more than error."""
    values = np.array([3.0, 2.0, 0.4, -0.6, -0.5])
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))[0]
    found = whiten(rotation * values @ rotation.T)
    assert found.matrix.shape == (5, 2)
    assert found.negative_share == pytest.approx(1.1 / 6.5)
    with pytest.raises(ValueError, match="no positive part"):
        whiten(-np.eye(3))


# The refit: the best components in the span of given points


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("name", KERNELS)
def test_refit_is_optimal_in_the_span(name, center, cloud, new_rows):
    params, points = KERNELS[name], new_rows[:9]
    kernel = named_kernel(name, **params)
    expansion, variances = refit(kernel, points, cloud, 3, center=center)
    gram, cross = gram_of(name, points, **params), gram_of(name, cloud, points, **params)
    np.testing.assert_allclose(expansion.coef.T @ gram @ expansion.coef, np.eye(3), atol=1e-8)
    if name != "sigmoid":
        assert variances.sum() == pytest.approx(captured_by(gram, cross, 3, center=center), rel=1e-8)
        exact, _, _ = exact_kernel_pca(gram_of(name, cloud, **params), 3, center=center)
        assert variances.sum() <= exact.sum() / len(cloud) * (1 + 1e-10)
    scores = cross @ expansion.coef - expansion.offset
    np.testing.assert_allclose(expansion.transform(cloud), scores, atol=1e-9)
    spread = np.cov(scores.T, ddof=0) if center else scores.T @ scores / len(scores)
    np.testing.assert_allclose(spread, np.diag(variances), atol=1e-8 * variances[0])
    if center:
        np.testing.assert_allclose(scores.mean(axis=0), 0, atol=1e-9 * np.sqrt(variances[0]))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.floats(1e-3, 3.0))
def test_no_other_coefficients_capture_more(seed, size):
    rng = np.random.default_rng(seed)
    X, points = rng.standard_normal((40, 3)), rng.standard_normal((7, 3))
    kernel = named_kernel("rbf", gamma=0.4)
    expansion, variances = refit(kernel, points, X, 2, center=True)
    other = expansion.coef + size * rng.standard_normal(expansion.coef.shape)
    gram, cross = gram_of("rbf", points, gamma=0.4), gram_of("rbf", X, points, gamma=0.4)
    orthonormal = other @ np.linalg.inv(np.linalg.cholesky(other.T @ gram @ other)).T
    assert np.var(cross @ orthonormal, axis=0).sum() <= variances.sum() * (1 + 1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["rows", "columns", "every other"])
def test_a_block_is_taken_unless_a_number_in_it_is_too_large(dtype, layout):
    """Sums of squares settle it where they can; where many numbers add up to much, each is looked at."""
    limit = LARGEST[np.dtype(dtype).itemsize]
    block = np.full((64, 6), 0.9 * limit, dtype=dtype)
    block = {"rows": block, "columns": np.asfortranarray(block), "every other": block[::2, ::2]}[layout]
    with np.errstate(all="raise"):
        assert finite(block) is block
        assert finite(1e-3 * block) is not None
        block[1, 1] = 1.1 * limit
        with pytest.raises(ValueError, match="column 1 of X reaches"):
            finite(block)
        block[:] = 1.0
        block[1, 2] = -1.01 * limit
        with pytest.raises(ValueError, match="column 2 of X reaches"):
            finite(block)
    for value in (np.nan, np.inf, -np.inf):
        block[1, 2] = value
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            finite(block)
