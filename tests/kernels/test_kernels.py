"""Kernels: blocks, diagonals and derivatives against scikit-learn and finite differences; widths by brute force."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import KERNELS, finite_difference, gram_of
from scipy.spatial.distance import cdist, pdist
from sklearn.gaussian_process.kernels import RBF as GaussianProcessRBF
from sklearn.svm import SVC

from kernelsieve.kernels import NAMED_KERNELS, bind_callable, kernel_from_params, named_kernel, overwritten_blocks
from kernelsieve.kernels.width import MEDIAN_ROWS, resolve_gamma

DIFFERENTIABLE = [name for name in KERNELS if named_kernel(name).differentiable]


def dtype_tolerance(dtype):
    return 1e-12 if dtype == np.float64 else 2e-5


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", KERNELS)
def test_blocks_equal_scikit_learn(name, dtype, cloud, new_rows):
    kernel = named_kernel(name, **KERNELS[name])
    rows, points = cloud.astype(dtype), new_rows.astype(dtype)
    block = kernel(rows, points)
    truth = gram_of(name, rows.astype(float), points.astype(float), **KERNELS[name])
    assert block.dtype == dtype
    np.testing.assert_allclose(block, truth, rtol=0, atol=dtype_tolerance(dtype) * np.abs(truth).max())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("container", [scipy.sparse.csr_matrix, scipy.sparse.csr_array])
@pytest.mark.parametrize("sparse_points", [False, True], ids=["dense points", "sparse points"])
@pytest.mark.parametrize("name", KERNELS)
def test_sparse_rows_equal_dense(name, sparse_points, container, dtype, cloud, new_rows):
    kernel = named_kernel(name, **KERNELS[name])
    rows, points = np.where(cloud > 0.3, cloud, 0).astype(dtype), np.where(new_rows > 0.3, new_rows, 0).astype(dtype)
    truth = gram_of(name, rows.astype(float), points.astype(float), **KERNELS[name])
    block = kernel(container(rows), container(points) if sparse_points else points)
    assert isinstance(block, np.ndarray)
    assert block.dtype == dtype
    np.testing.assert_allclose(block, truth, rtol=0, atol=dtype_tolerance(dtype) * np.abs(truth).max())
    np.testing.assert_allclose(
        kernel.diagonal(container(rows)), kernel.diagonal(rows), rtol=dtype_tolerance(dtype), atol=1e-7
    )


def test_sparse_points_too_many_to_be_made_dense(monkeypatch, cloud, new_rows):
    monkeypatch.setattr("kernelsieve.kernels.blocks.MAX_DENSE_POINTS", 10)
    rows, points = scipy.sparse.csr_matrix(cloud), scipy.sparse.csr_matrix(new_rows)
    for name in ("rbf", "poly", "linear", "sigmoid", "cosine"):
        kernel = named_kernel(name, **KERNELS[name])
        np.testing.assert_allclose(kernel(rows, points), kernel(cloud, new_rows), atol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_diagonal_is_the_grams(name, cloud):
    diagonal = named_kernel(name, **KERNELS[name]).diagonal(cloud)
    np.testing.assert_allclose(diagonal, np.diagonal(gram_of(name, cloud, **KERNELS[name])), rtol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_rows_are_not_written_to(name, cloud, new_rows):
    rows, points = cloud.copy(), new_rows.copy()
    named_kernel(name, **KERNELS[name])(rows, points)
    np.testing.assert_array_equal(rows, cloud)
    np.testing.assert_array_equal(points, new_rows)


@pytest.mark.parametrize(("dtype", "atol"), [(np.float64, 1e-9), (np.float32, 2e-3)])
@pytest.mark.parametrize("name", ["rbf", "laplacian", "matern"])
def test_far_from_the_origin(name, dtype, atol, cloud, new_rows):
    """Differences count, not places: 10,000 added to every feature costs the digits of the rows, no more.

    float32 rows at 1e4 are known to 5e-4 each, so the truth is the kernel of the rounded rows in float64.
    """
    rows, points = (cloud + 1e4).astype(dtype), (new_rows + 1e4).astype(dtype)
    truth = gram_of(name, rows.astype(float) - 1e4, points.astype(float) - 1e4, **KERNELS[name])
    block = named_kernel(name, **KERNELS[name])(rows, points)
    np.testing.assert_allclose(block, truth, rtol=0, atol=1e-5 if dtype == np.float32 else atol)
    exact_rows = gram_of(name, cloud, new_rows, **KERNELS[name])
    np.testing.assert_allclose(block, exact_rows, rtol=0, atol=atol)


@pytest.mark.parametrize(("dtype", "atol"), [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_blocks_in_overwritten_memory_are_those_in_fresh_memory(dtype, atol):
    """Few and many columns, long and short blocks, far and near rows in turn: none sees what the last one left."""
    rng = np.random.default_rng(0)
    kernel = named_kernel("rbf", gamma=0.2)
    for n_rows, n_features, far in [(40, 3, 0), (9, 3, 0), (50, 3, 2), (30, 4, 0), (12, 3, 1), (20, 25, 0), (60, 4, 5)]:
        rows, points = rng.standard_normal((n_rows, n_features)), rng.standard_normal((12, n_features))
        rows[:far] *= 1e6
        rows, points = rows.astype(dtype), points.astype(dtype)
        truth = gram_of("rbf", rows.astype(float), points.astype(float), gamma=0.2)
        with overwritten_blocks():
            np.testing.assert_allclose(kernel(rows, points), truth, rtol=0, atol=atol)


@settings(max_examples=15, deadline=None)
@given(offset=st.floats(-1e5, 1e5), seed=st.integers(0, 100))
def test_gaussian_does_not_see_translation(offset, seed):
    rng = np.random.default_rng(seed)
    rows, points = rng.standard_normal((9, 3)), rng.standard_normal((4, 3))
    kernel = named_kernel("rbf", gamma=0.5)
    np.testing.assert_allclose(kernel(rows + offset, points + offset), kernel(rows, points), atol=1e-8)


def test_zero_rows_have_cosine_zero():
    kernel = named_kernel("cosine")
    rows = np.array([[0.0, 0.0], [3.0, 4.0]])
    np.testing.assert_allclose(kernel(rows, rows), [[0, 0], [0, 1]], atol=1e-15)
    np.testing.assert_allclose(kernel.diagonal(rows), [0, 1])


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 7, 9, 2.5])
def test_polynomial_degrees(degree, cloud):
    rows = np.abs(cloud)
    kernel = named_kernel("poly", gamma=0.2, degree=degree, coef0=0.5)
    truth = gram_of("poly", rows, gamma=0.2, degree=degree, coef0=0.5)
    np.testing.assert_allclose(kernel(rows, rows), truth, rtol=1e-12)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_pullback_is_the_derivative(name, cloud, new_rows):
    kernel = named_kernel(name, **KERNELS[name])
    points = new_rows[:6]
    weights = np.random.default_rng(0).standard_normal((len(cloud), 6))
    pulled = kernel.pullback(cloud, points, kernel(cloud, points), weights)
    truth = finite_difference(lambda s: np.sum(weights * gram_of(name, cloud, s, **KERNELS[name])), points)
    np.testing.assert_allclose(pulled, truth, rtol=1e-6, atol=1e-6 * np.abs(truth).max())


@pytest.mark.parametrize("name", sorted(set(DIFFERENTIABLE) - {"laplacian"}))
def test_pullback_of_sparse_rows(name, cloud, new_rows):
    kernel = named_kernel(name, **KERNELS[name])
    points, weights = new_rows[:4], np.random.default_rng(0).standard_normal((len(cloud), 4))
    cross = kernel(cloud, points)
    sparse = kernel.pullback(scipy.sparse.csr_matrix(cloud), points, cross, weights)
    np.testing.assert_allclose(sparse, kernel.pullback(cloud, points, cross, weights), atol=1e-12)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_unit_is_the_same_kernel_in_other_units(name, cloud, new_rows):
    kernel = named_kernel(name, **KERNELS[name])
    scale, unit = kernel.unit(cloud)
    ratio = unit(cloud * scale, new_rows * scale) / kernel(cloud, new_rows)
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_parameters_go_round(name, cloud):
    kernel = named_kernel(name, **KERNELS[name])
    again = kernel_from_params(kernel.name, kernel.params())
    np.testing.assert_array_equal(again(cloud, cloud), kernel(cloud, cloud))


def test_unknown_names_are_told_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown kernel 'gauss'.*rbf.*callable"):
        named_kernel("gauss")
    with pytest.raises(ValueError, match="unknown kernel"):
        kernel_from_params("gauss", {})
    assert set(KERNELS) | {"precomputed"} == set(NAMED_KERNELS)


# Callables


def pair_kernel(x, y, width=2.0):
    return float(np.exp(-np.sum((x - y) ** 2) / width))


def block_kernel(X, Y, width=2.0):
    return np.exp(-((X[:, None] - Y[None]) ** 2).sum(-1) / width)


@pytest.mark.parametrize("keywords", [None, {"width": 3.0}])
@pytest.mark.parametrize("function", [pair_kernel, block_kernel])
def test_both_forms_of_callables(function, keywords, cloud, new_rows):
    kernel = bind_callable(function, keywords, cloud)
    assert kernel.vectorized == (function is block_kernel)
    gamma = 1 / (keywords or {"width": 2.0})["width"]
    np.testing.assert_allclose(kernel(cloud, new_rows), gram_of("rbf", cloud, new_rows, gamma=gamma), atol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(cloud), 1.0)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x @ y.T,  # both forms at once: a matrix of two matrices, a number of two rows
        lambda x, y: np.dot(x, y.T),
        GaussianProcessRBF(1.3),
    ],
)
def test_callables_that_serve_both_forms_are_vectorised(function, cloud, new_rows):
    kernel = bind_callable(function, None, cloud)
    assert kernel.vectorized
    assert kernel(cloud, new_rows).shape == (80, 30)
    np.testing.assert_allclose(kernel.diagonal(cloud), np.diagonal(function(cloud, cloud)), atol=1e-12)


def test_callables_on_fewer_than_five_rows(cloud):
    assert bind_callable(block_kernel, None, cloud[:2]).vectorized
    assert not bind_callable(pair_kernel, None, cloud[:2]).vectorized


def test_pair_form_that_sums_over_everything_is_not_taken_for_a_block(cloud):
    kernel = bind_callable(lambda x, y: float(np.minimum(x, y).sum()), None, cloud)
    assert not kernel.vectorized
    truth = [[np.minimum(x, y).sum() for y in cloud[:4]] for x in cloud[:3]]
    np.testing.assert_allclose(kernel(cloud[:3], cloud[:4]), truth)


# Kernel widths


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_median_rule_is_the_median_over_pairs(offset, cloud):
    cloud = cloud[:78]  # an odd number of pairs: the median of squares is the square of the median
    truth = 1 / (2 * np.median(pdist(cloud)) ** 2)
    assert resolve_gamma("median", named_kernel("rbf"), cloud + offset) == pytest.approx(truth, rel=1e-5)
    manhattan = 1 / np.median(pdist(cloud, "cityblock"))
    assert resolve_gamma("median", named_kernel("laplacian"), cloud + offset) == pytest.approx(manhattan, rel=1e-5)


def test_median_rule_on_float32_and_sparse_rows(cloud):
    rows = np.where(cloud > 0, cloud, 0)[:78]
    distances = pdist(rows)
    truth = 1 / (2 * np.median(distances[distances > 0]) ** 2)
    assert resolve_gamma("median", named_kernel("rbf"), rows.astype(np.float32)) == pytest.approx(truth, rel=1e-5)
    assert resolve_gamma("median", named_kernel("rbf"), scipy.sparse.csr_matrix(rows)) == pytest.approx(truth, rel=1e-5)


def _table(kind, rng):
    rows = rng.standard_normal((78, 5)) * [1.0, 0.8, 1.2, 0.5, 1.5]
    if kind == "few entries":
        return np.where(rng.random((78, 5)) < 0.05, rows, 0)
    if kind == "one far out":
        rows[3] = 1e25
    return {"below zero": -50 - np.abs(rows), "huge": 1e30 * rows, "tiny": 1e-30 * rows}.get(kind, rows)


@pytest.mark.parametrize("kind", ["below zero", "huge", "tiny", "few entries", "one far out"])
def test_median_rule_whatever_the_rows_are(kind):
    """By scipy, in float64: whatever unit, origin and single rows do to the float32 that it is computed in."""
    rows = _table(kind, np.random.default_rng(5))
    distances = pdist(rows)
    truth = 1 / (2 * np.median(distances[distances > 0] ** 2))
    assert resolve_gamma("median", named_kernel("rbf"), rows) == pytest.approx(truth, rel=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_median_rule_on_many_rows_holds_one_half_against_the_other(weighted):
    n = MEDIAN_ROWS + 10
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((n, 3))
    weights = rng.uniform(0.1, 3, n) if weighted else np.full(n, 2.0)
    half = MEDIAN_ROWS // 2
    squared = cdist(rows[:half], rows[half : 2 * half], "sqeuclidean").ravel()
    pairs = (weights[:half, None] * weights[half : 2 * half]).ravel()
    order = np.argsort(squared)
    shares = np.cumsum(pairs[order]) / pairs.sum()
    truth = 1 / (2 * squared[order][np.searchsorted(shares, 0.5)])
    found = resolve_gamma("median", named_kernel("rbf"), rows, weights)
    assert found == pytest.approx(truth, rel=1e-4)


def test_median_rule_on_a_sample_is_near_the_truth():
    rows = np.random.default_rng(0).standard_normal((3000, 4))
    truth = 1 / (2 * np.median(pdist(rows)) ** 2)
    assert resolve_gamma("median", named_kernel("rbf"), rows) == pytest.approx(truth, rel=0.05)


def test_median_rule_passes_over_copies(cloud):
    """A row and its copies are no distance; four rows of five alike must not make the width zero."""
    rows = np.concatenate([np.zeros((200, 5)), cloud[:40]])
    distances = pdist(rows)
    truth = 1 / (2 * np.median(distances[distances > 0]) ** 2)
    assert resolve_gamma("median", named_kernel("rbf"), rows) == pytest.approx(truth, rel=1e-5)


def test_median_rule_with_weights_is_that_of_repeated_rows(cloud):
    weights = np.random.default_rng(1).integers(1, 5, len(cloud))
    repeated = np.repeat(cloud, weights, axis=0)
    distances = pdist(repeated)
    truth = 1 / (2 * np.median(distances[distances > 0]) ** 2)
    assert resolve_gamma("median", named_kernel("rbf"), cloud, weights.astype(float)) == pytest.approx(truth, rel=1e-2)


def test_scale_rule_is_that_of_svc(cloud):
    truth = SVC(gamma="scale").fit(cloud, np.arange(80) % 2)._gamma
    for rows in (cloud, scipy.sparse.csr_matrix(cloud)):
        assert resolve_gamma("scale", named_kernel("rbf"), rows) == pytest.approx(truth, rel=1e-10)


def test_no_gamma_is_scikit_learns_default(cloud):
    assert resolve_gamma(None, named_kernel("rbf"), cloud) == pytest.approx(1 / 5)
    np.testing.assert_allclose(named_kernel("rbf", gamma=1 / 5)(cloud, cloud), gram_of("rbf", cloud), atol=1e-12)
    assert resolve_gamma(0.7, named_kernel("rbf"), cloud) == 0.7


def test_rows_all_alike_have_some_gamma():
    rows = np.ones((6, 3))
    for rule in ("median", "scale"):
        assert np.isfinite(resolve_gamma(rule, named_kernel("rbf"), rows))
