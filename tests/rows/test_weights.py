"""sample_weight: a row of weight 2 is two rows, a row of weight 0 is none."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import KERNELS, assert_same_up_to_sign, exact_kernel_pca, gram_of
from sklearn.base import clone
from sklearn.decomposition import KernelPCA

from kernelsieve import ElasticNetKernelPCA, OnlineKernelPCA, SparseKernelPCA


def both_ways(X, counts, new_rows, **options):
    """Scores of new rows by the weighted and by the repeated rows, and the two models."""
    options = {"n_components": 3, "random_state": 0, **options}
    weighted = SparseKernelPCA(**options).fit(X, sample_weight=counts)
    repeated = SparseKernelPCA(**options).fit(np.repeat(X, counts, axis=0))
    return weighted.transform(new_rows), repeated.transform(new_rows), weighted, repeated


def assert_same_model(weighted, repeated, atol):
    np.testing.assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=atol)
    np.testing.assert_allclose(weighted.explained_variance_ratio_, repeated.explained_variance_ratio_, rtol=atol)
    assert weighted.captured_ratio_ == pytest.approx(repeated.captured_ratio_, abs=atol)
    assert weighted.gamma_ == pytest.approx(repeated.gamma_, rel=1e-9)


@pytest.mark.parametrize("center", [True, False], ids=["centred", "uncentred"])
@pytest.mark.parametrize("name", sorted(set(KERNELS) - {"sigmoid"}))
def test_given_points(name, center, cloud, new_rows):
    counts = np.random.default_rng(0).integers(0, 4, 80)
    options = {"kernel": name, "selection": new_rows[:5], "center": center, **KERNELS[name]}
    weighted, repeated, a, b = both_ways(cloud, counts, new_rows, **options)
    np.testing.assert_allclose(weighted, repeated, atol=1e-8 * np.abs(repeated).max())
    assert_same_model(a, b, 1e-9)


@pytest.mark.parametrize("center", [True, False], ids=["centred", "uncentred"])
def test_all_rows_as_support_against_weighted_exact_kernel_pca(center, cloud, new_rows):
    """The truth is an eigendecomposition of the weighted gram by LAPACK; weights need not be whole."""
    weights = np.random.default_rng(1).uniform(0.1, 3, 80)
    model = SparseKernelPCA(4, selection=np.arange(80), gamma=0.3, center=center)
    model.fit(cloud, sample_weight=weights)
    gram, cross = gram_of("rbf", cloud, gamma=0.3), gram_of("rbf", new_rows, cloud, gamma=0.3)
    values, components, offset = exact_kernel_pca(gram, 4, center=center, weights=weights)
    assert_same_up_to_sign(model.transform(new_rows), cross @ components - offset, 1e-8)
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-9)
    np.testing.assert_allclose(model.explained_variance_, values / weights.sum(), rtol=1e-9)
    assert model.captured_ratio_ == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("selection", ["optimized", "targeted", "kmeans"])
@pytest.mark.parametrize("n_support", ["auto", 9])
def test_the_whole_fit(selection, n_support, cloud, new_rows):
    """The median width, the choice of points and the components: all the same, weighted or repeated."""
    counts = np.random.default_rng(2).integers(0, 4, 80)
    weighted, repeated, a, b = both_ways(cloud, counts, new_rows, selection=selection, n_support=n_support)
    assert a.n_support_ == b.n_support_
    np.testing.assert_allclose(weighted, repeated, atol=1e-6)
    assert_same_model(a, b, 1e-7)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1000), n_features=st.integers(1, 9))
def test_the_default_settings_on_any_rows(seed, n_features):
    rng = np.random.default_rng(seed)
    X, counts, new_rows = (
        rng.standard_normal((30, n_features)),
        rng.integers(0, 4, 30),
        rng.standard_normal((5, n_features)),
    )
    counts[:6] = np.maximum(counts[:6], 1)
    weighted, repeated, _, _ = both_ways(X, counts, new_rows, n_components=2)
    np.testing.assert_allclose(weighted, repeated, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"selection": "targeted"}, {"selection": "rpcholesky", "n_support": 8}])
def test_weight_zero_is_a_row_removed(options, cloud, new_rows):
    weights = np.ones(80)
    weights[[0, 5, 6, 33, 70]] = 0
    far = cloud.copy()
    far[weights == 0] = 1e3  # what has no weight may be anything
    with_zeros = SparseKernelPCA(3, random_state=0, **options).fit(far, sample_weight=weights)
    removed = SparseKernelPCA(3, random_state=0, **options).fit(cloud[weights > 0])
    np.testing.assert_allclose(with_zeros.transform(new_rows), removed.transform(new_rows), atol=1e-6)
    np.testing.assert_allclose(with_zeros.eigenvalues_, removed.eigenvalues_, rtol=1e-7)
    if with_zeros.support_ is not None:
        assert np.all(weights[with_zeros.support_] > 0)


@pytest.mark.parametrize("factor", [1e-3, 1e6])
def test_only_the_ratio_of_weights_counts(factor, cloud, new_rows):
    """Rows: to rounding.  Moved points: the search carries rounding on, but not what it captures."""
    weights = np.random.default_rng(0).uniform(0.5, 2, 80)
    for selection, rtol in (("targeted", 1e-7), ("optimized", 1e-3)):
        options = {"n_support": 12, "selection": selection, "random_state": 0}
        plain = SparseKernelPCA(3, **options).fit(cloud, sample_weight=weights)
        scaled = SparseKernelPCA(3, **options).fit(cloud, sample_weight=weights * factor)
        np.testing.assert_allclose(scaled.explained_variance_, plain.explained_variance_, rtol=rtol)
        if selection == "targeted":
            np.testing.assert_allclose(scaled.transform(new_rows), plain.transform(new_rows), atol=1e-7)


@pytest.mark.parametrize("in_blocks", [False, True])
@pytest.mark.parametrize("exponent", [-190, 190])
@pytest.mark.parametrize(
    "model",
    [
        OnlineKernelPCA(2, budget=12, rule="incremental", random_state=0),
        SparseKernelPCA(2, n_support=6, random_state=0),
        ElasticNetKernelPCA(2, kernel="sigmoid", gamma=0.01, center=False, refit=True, max_iter=20, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore::kernelsieve.KernelWarning", "ignore:the kernel is not positive")
def test_weights_that_float32_cannot_hold_count_by_their_ratios(model, exponent, in_blocks, cloud):
    """Weights are numbers of their own: float32 rows take all that float64 rows do."""
    rows = cloud.astype(np.float32)
    X = [rows[:50], rows[50:]] if in_blocks else rows
    weights = np.random.default_rng(4).uniform(0.5, 2, len(rows))
    here, there = (clone(model).fit(X, sample_weight=unit * weights) for unit in (1.0, 2.0**exponent))
    np.testing.assert_allclose(there.explained_variance_, here.explained_variance_, rtol=1e-6)
    np.testing.assert_allclose(there.transform(rows), here.transform(rows), atol=1e-6)


def test_equal_weights_are_no_weights(cloud, new_rows):
    plain = SparseKernelPCA(3, random_state=0).fit(cloud)
    weighted = SparseKernelPCA(3, random_state=0).fit(cloud, sample_weight=np.ones(80))
    np.testing.assert_allclose(weighted.transform(new_rows), plain.transform(new_rows), atol=1e-6)


def test_repeating_rows_does_not_move_the_model(cloud, new_rows):
    """Every row twice is the same distribution: the same variances, twice the eigenvalues."""
    once = SparseKernelPCA(3, random_state=0).fit(cloud)
    twice = SparseKernelPCA(3, random_state=0).fit(np.repeat(cloud, 2, axis=0))
    np.testing.assert_allclose(twice.transform(new_rows), once.transform(new_rows), atol=1e-6)
    np.testing.assert_allclose(twice.eigenvalues_, 2 * once.eigenvalues_, rtol=1e-7)


def test_the_order_of_rows_does_not_matter(cloud, new_rows):
    order = np.random.default_rng(9).permutation(80)
    straight = SparseKernelPCA(3, random_state=0).fit(cloud)
    shuffled = SparseKernelPCA(3, random_state=0).fit(cloud[order])
    np.testing.assert_allclose(shuffled.transform(new_rows), straight.transform(new_rows), atol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "n_features", "shared", "outlier"),
    [
        (np.float64, 3, 1.6e9, 0.0),  # a time stamp
        (np.float64, 3, 1.6e18, 0.0),
        (np.float32, 1, 0.0, -999_999.0),  # a missing value, coded
        (np.float64, 2, 0.0, -1e17),
    ],
)
def test_rows_that_differ_are_not_copies(dtype, n_features, shared, outlier):
    """Only equal rows are one row, however large what they share or how far off another is."""
    rows = np.random.default_rng(0).standard_normal((1500, n_features)).astype(dtype)
    if outlier:
        rows[7] = outlier
    wide = np.column_stack([rows, np.full(1500, shared, dtype=dtype)])
    n_distinct = len(np.unique(wide, axis=0))
    assert n_distinct > 1490
    model = SparseKernelPCA(2, n_support=10, selection="uniform", gamma=0.3, random_state=0).fit(wide)
    assert model.captured_ratio_n_samples_ == n_distinct


def test_sparse_rows_with_weights(cloud, new_rows):
    counts, rows = np.random.default_rng(0).integers(0, 4, 80), np.where(cloud > 0, cloud, 0)
    weighted, repeated, _, _ = both_ways(rows, counts, new_rows, selection="targeted", n_support=12)
    sparse = SparseKernelPCA(3, selection="targeted", n_support=12, random_state=0)
    sparse.fit(scipy.sparse.csr_matrix(rows), sample_weight=counts)
    np.testing.assert_allclose(weighted, repeated, atol=1e-6)
    np.testing.assert_allclose(sparse.transform(scipy.sparse.csr_matrix(new_rows)), weighted, atol=1e-6)


def test_precomputed_gram_with_weights(cloud):
    weights = np.random.default_rng(0).uniform(0.1, 2, 80)
    gram = gram_of("rbf", cloud, gamma=0.3)
    options = {"selection": "targeted", "n_support": 12, "random_state": 0}
    by_gram = SparseKernelPCA(3, kernel="precomputed", **options).fit(gram, sample_weight=weights)
    by_rows = SparseKernelPCA(3, gamma=0.3, **options).fit(cloud, sample_weight=weights)
    np.testing.assert_array_equal(by_gram.support_, by_rows.support_)
    np.testing.assert_allclose(by_gram.transform(gram), by_rows.transform(cloud), atol=1e-8)


def test_scores_are_centred_about_the_weighted_mean(cloud):
    weights = np.random.default_rng(0).uniform(0, 2, 80)
    scores = SparseKernelPCA(3, random_state=0).fit(cloud, sample_weight=weights).transform(cloud)
    np.testing.assert_allclose(np.average(scores, axis=0, weights=weights), 0, atol=1e-10)
    spread = np.cov(scores.T, aweights=weights, ddof=0)
    np.testing.assert_allclose(spread, np.diag(np.diagonal(spread)), atol=1e-10)


@pytest.mark.parametrize("n_support", [60, 20])
def test_rows_that_all_count_twice_count_twice(n_support):
    """Every row repeated, or of weight two: eigenvalues as scikit-learn's KernelPCA has them for the repeated rows."""
    X = np.random.default_rng(0).standard_normal((60, 3))
    twice = np.repeat(X, 2, axis=0)
    truth = KernelPCA(2, kernel="rbf", gamma=0.3).fit(twice).eigenvalues_
    model = SparseKernelPCA(2, n_support=n_support, selection="targeted", gamma=0.3, random_state=0)
    repeated, weighted = clone(model).fit(twice), clone(model).fit(X, sample_weight=np.full(60, 2.0))
    np.testing.assert_allclose(repeated.eigenvalues_, truth, rtol=1e-10 if n_support == 60 else 2e-2)
    np.testing.assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=1e-10)
