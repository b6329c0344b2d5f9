"""Rows far out, close together, of one kind, of one column: what long runs of the fault campaign found in them.

Each test is the smallest call that showed a fault; the truth is the definition, or the same rows in other units.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse
from oracles import exact_kernel_pca, failure_of
from scipy.linalg import LinAlgWarning
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel
from torture.invariants import exact_variances
from torture.rounding import rounding_of

import kernelsieve as ks
from kernelsieve.compression.error import LeastSquares, ScoreObjective
from kernelsieve.compression.methods import l1_path
from kernelsieve.fit.plan import PLAN
from kernelsieve.fit.problem import split_captured
from kernelsieve.fit.rowset import tails
from kernelsieve.fit.sample import Sample
from kernelsieve.kernels import RBF, Linear, inner_products
from kernelsieve.rows.sampling import sample_rows
from kernelsieve.spectrum.top import exact_components
from kernelsieve.streaming.online_rules import coherence_with

pytestmark = pytest.mark.filterwarnings("ignore::kernelsieve.KernelWarning")


@pytest.fixture
def rows():
    return np.random.default_rng(0).standard_normal((60, 4))


def quietly(call):
    """The result of a call that must not warn of numbers gone wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        return call()


# One column, few kinds


@pytest.mark.parametrize("kernel", ["linear", "cosine", "rbf", "poly"])
def test_one_sparse_column_is_enough_for_a_component(kernel, rows):
    dense, sparse = rows[:, :1], scipy.sparse.csr_matrix(rows[:, :1])
    model = ks.SparseKernelPCA(1, kernel=kernel, n_support=6, random_state=0)
    here, there = (model.fit(X).explained_variance_ratio_ for X in (dense, sparse))
    np.testing.assert_allclose(there, here, rtol=0.02)


def test_a_sample_without_variance_is_refused_in_words(rows):
    model = ks.SparseKernelPCA(1, kernel="sigmoid", gamma=5e-4, selection=[0, 5, 9], n_optimization_samples=4)
    with pytest.raises(ValueError, match="all the same to this kernel: give more rows"):
        model.set_params(random_state=0).fit(rows[:, :2])


def test_copies_of_long_rows_are_merged():
    wide = np.random.default_rng(0).standard_normal((30, 2000))
    copies = np.concatenate([wide, wide[::-1], 0.0 * wide[:1], -0.0 * wide[:1]])
    counts = np.concatenate([np.full(30, 2.0), [2.0]])
    model = ks.SparseKernelPCA(2, n_support=8, random_state=0)
    weighted = model.fit(np.concatenate([wide, 0.0 * wide[:1]]), sample_weight=counts).explained_variance_
    np.testing.assert_allclose(model.fit(copies).explained_variance_, weighted, rtol=1e-9)


def test_rows_that_lie_in_a_plane_exactly_do_so_in_blocks_too():
    rng = np.random.default_rng(0)
    flat = np.exp(2 * rng.standard_normal((5, 7))) + 1e3
    model = ks.RobustSparseKernelPCA(2, kernel="poly", degree=1, coef0=-1.0, gamma=0.5, random_state=0)
    model.fit([flat[i : i + 1] for i in range(5)])
    assert np.isfinite(model.transform(flat)).all()
    assert (model.weights_ > 0.99).sum() >= 3  # as many rows lie in any plane of two components


def test_one_row_again_and_again_may_be_too_short_to_be_squared(rows):
    for X in (np.tile(1e-88 * rows[:1], (20, 1)), scipy.sparse.csr_matrix(np.tile(1e-88 * rows[:1], (20, 1)))):
        with pytest.raises(ValueError, match=r"column \d of X .* too small to compute with"):
            ks.LikelihoodKernelPCA(1, kernel="linear", center=False).fit(X)


# Rows far out


def test_gamma_beyond_all_numbers_is_refused(rows):
    for kernel in ("rbf", "laplacian", "poly"):
        with pytest.raises(ValueError, match=r"gamma=1e\+308 is too large"):
            ks.SparseKernelPCA(2, kernel=kernel, gamma=1e308, n_support=9).fit(rows)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_rows_unlike_any_other_have_the_identity_for_a_gram(kernel, dtype, rows):
    far = (rows * 1e12).astype(dtype)
    model = quietly(lambda: ks.SparseKernelPCA(2, kernel=kernel, gamma=1e29, selection=np.arange(60)).fit(far))
    np.testing.assert_allclose(model.expansion_.kernel(far, far), np.eye(60), atol=1e-7)
    np.testing.assert_allclose(model.explained_variance_ratio_, 1 / 59, rtol=1e-5)


def test_moving_points_of_rows_far_out_is_quiet(rows):
    model = quietly(lambda: ks.SparseKernelPCA(2, gamma=600.0, n_support=10, random_state=0).fit(rows * 1e33))
    assert np.isfinite(model.transform(rows * 1e33)).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_tensor_row_is_one_with_itself_however_far_out(dtype, rows):
    torch = pytest.importorskip("torch")
    far = torch.as_tensor(rows * 1e6).to(getattr(torch, dtype))
    gram = ks.SparseKernelPCA(2, gamma=30.0, selection=np.arange(60)).fit(far).expansion_.kernel(far, far)
    np.testing.assert_allclose(np.asarray(gram), np.eye(60), atol=1e-6)


def test_squared_distances_of_a_million_widths_keep_their_digits():
    """Columns of 1e6 beside columns of 1: rows that differ in the small ones only are as near as they are."""
    rng = np.random.default_rng(0)
    X = np.column_stack([1e6 * rng.standard_normal(8)[rng.integers(8, size=60)], rng.standard_normal((60, 2))])
    model = ks.SparseKernelPCA(2, gamma=0.08, n_support=30, selection="uniform", random_state=0).fit(X)
    truth = np.exp(-0.08 * cdist(X, model.support_vectors_, "sqeuclidean"))
    np.testing.assert_allclose(model.expansion_.kernel(X, model.support_vectors_), truth, atol=1e-7)


def test_whole_numbers_of_any_size_under_a_polynomial_are_quiet():
    big = np.random.default_rng(0).integers(-(2**40), 2**40, (18, 2))
    model = ks.RobustSparseKernelPCA(1, kernel="poly", gamma=None, n_directions=50, random_state=0)
    assert np.isfinite(quietly(lambda: model.fit(big)).transform(big)).all()


# float32


def test_points_for_float32_rows_are_numbers_that_float32_holds():
    """Far from the origin there are few of them, and a ratio measured on others would be of another model."""
    rng = np.random.default_rng(0)
    X = (rng.standard_t(1.5, (50, 5)) + 1.2e8).astype(np.float32)
    model = ks.SparseKernelPCA(2, n_support=7, random_state=0).fit(X)
    points = model.support_vectors_
    np.testing.assert_array_equal(points, points.astype(np.float32))
    gram = np.exp(-model.gamma_ * cdist(X.astype(float), X.astype(float), "sqeuclidean"))
    centring = np.eye(50) - 1 / 50
    best = np.linalg.eigvalsh(centring @ gram @ centring)[-2:].sum() / 50
    np.testing.assert_allclose(model.captured_ratio_, model.explained_variance_.sum() / best, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_short_rows_have_directions_too(dtype, rows):
    """scikit-learn's cosine takes them for zero."""
    unit = 2.0**-60 if dtype == np.float64 else 2.0**-23
    here, there = (ks.KernelPCA(2, kernel="cosine").fit((rows * c).astype(dtype)) for c in (1.0, unit))
    np.testing.assert_allclose(there.eigenvalues_, here.eigenvalues_, rtol=1e-4)
    shares = there.transform((rows * unit).astype(dtype)).var(axis=0)
    np.testing.assert_allclose(shares, here.explained_variance_, rtol=1e-4)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_values_whose_sum_float32_does_not_hold_are_refused_in_words_alone():
    X = np.random.default_rng(0).uniform(0.65e6, 1.3e6, (80, 3)).astype(np.float32)
    with pytest.raises(ValueError, match=r"infinity \(or nearly so\) on these rows"):
        ks.SparseKernelPCA(2, n_support=10, kernel="poly", gamma=1.0, random_state=0).fit(X)


def test_scores_whose_squares_float32_does_not_hold_can_be_scored(rows):
    X = (rows + 3.6e6).astype(np.float32)
    model = ks.LikelihoodKernelPCA(2, kernel="poly", noise_fraction=0.7, random_state=0).fit(X)
    assert 0 <= model.score(X) <= 1 + 1e-6
    assert np.isfinite(model.reconstruction_error(X)).all()


# Words


def test_an_inverse_map_that_overflows_is_refused_in_words(rows):
    X = (rows * 2e-8).astype(np.float32)
    model = ks.KernelPCA(1, kernel="poly", gamma=1e25, center=False, fit_inverse_transform=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        with pytest.raises(ValueError, match=r"inverse map cannot be found|kernel"):
            model.fit(X)


def test_published_methods_say_that_their_scores_are_rounding(rows):
    for model in (ks.OnlineKernelPCA(2), ks.ImprovedKernelPCA(2, n_nodes=10)):
        with pytest.warns(ks.KernelWarning, match="scores show rounding"):
            model.set_params(kernel="sigmoid", coef0=10.0, gamma=1e-2, center=True).fit(rows)


@pytest.mark.parametrize("alpha", [1.0, 30.0, 1e3])
def test_an_inverse_map_that_is_hardly_determined_says_so(alpha):
    """By a warning, or where LAPACK finds no inverse at all by an error; which of them is a matter of last digits."""
    rows = 0.083 * np.random.default_rng(5).poisson(1.0, (37, 3))
    model = ks.KernelPCA(kernel="poly", degree=5, gamma="median", fit_inverse_transform=True, alpha=alpha)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        error = failure_of(model.fit, rows)
    heard = str(error) if error else " ".join(str(one.message) for one in caught)
    assert "inverse map is badly determined" in heard or "inverse map cannot be found" in heard
    assert not any(issubclass(one.category, LinAlgWarning) for one in caught)


@pytest.mark.parametrize("name", ["n_nonzero", "alpha"])
def test_penalties_that_are_no_numbers_are_refused_in_words(name, rows):
    with pytest.raises(TypeError, match=f"{name}.*(is no number|must be)"):
        ks.RobustElasticNetPCA(2, **{name: {"a": 1}}).fit(rows)


def test_a_likelihood_of_rows_that_are_one_to_the_kernel_is_refused_in_words():
    def constant(X, Y):
        return np.ones((len(X), len(Y)))

    with pytest.raises(ValueError, match="the rows are all the same to this kernel"):
        ks.LikelihoodKernelPCA(1, kernel=constant, center=True, n_support=3).fit(np.zeros((9, 1)))


def test_components_of_zeros_are_expanded_by_any_candidate(rows):
    nothing = LeastSquares(rows, np.zeros((60, 1)), 0.0, 0.0)
    assert [len(choice) for choice in l1_path(nothing)] == [1]


def test_rows_of_hardly_any_length_carry_no_likelihood(rows):
    X = np.concatenate([rows, 1e-90 * rows[:5]])
    model = quietly(lambda: ks.LikelihoodKernelPCA(2, kernel="linear", noise_fraction=0.6).fit(X))
    assert set(model.support_) <= set(range(60))


def test_shares_of_an_online_rule_that_is_not_orthonormal_are_shares(rows):
    X = rows * [1e5, 1.0, 1e-3, 1.0] + 4.5e7
    model = ks.OnlineKernelPCA(2, kernel="linear", rule="hebbian", budget=22, random_state=0).fit(X)
    variances = np.linalg.eigvalsh(np.cov(X.T, bias=True))[::-1]
    assert model.explained_variance_ratio_.sum() <= variances[:2].sum() / variances.sum() + 1e-6


def test_variances_of_an_online_rule_are_those_of_its_scores():
    """Its components may lie along directions that the points' gram has no rank for."""
    X = np.sort(np.random.default_rng(0).standard_normal((124, 2)), axis=0)
    options = {"kernel": "poly", "gamma": None, "half_life": 3.6, "budget": 29, "random_state": 0}
    model = ks.OnlineKernelPCA(3, rule="incremental", **options).fit(X)
    np.testing.assert_allclose(model.explained_variance_, model.transform(X).var(axis=0), rtol=1e-6)


def test_products_of_blas_are_quiet_whatever_flags_it_leaves():
    left, right = np.array([[np.inf, -np.inf]]), np.ones((2, 1))
    assert np.isnan(quietly(lambda: inner_products(left, right))).all()
    with pytest.warns(RuntimeWarning, match="overflow"):
        inner_products(np.full((1, 2), 1e200), np.full((2, 1), 1e200))


def test_points_tried_where_a_kernel_has_no_value_are_quiet():
    rows = np.random.default_rng(5).poisson(1.0, (102, 4)).astype(float)
    model = ks.CompressedKernelPCA(
        2, kernel="poly", degree=2.5, coef0=0.0, gamma=0.0016, max_iter=10, n_support=6, method="optimized"
    )
    assert np.isfinite(quietly(lambda: model.fit(rows).transform(rows))).all()


def test_more_folds_than_can_be_counted_are_too_many(rows):
    with pytest.raises(ValueError, match="n_samples=60 is too few for cv=1000000000"):
        ks.KernelMonitor(2, 5, cv=10**9).fit(rows)
    with pytest.raises(ValueError, match="'cv' parameter of KernelMonitor must be at most"):
        ks.KernelMonitor(2, 5, cv=10**12).fit(rows)


# One row far out


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
@pytest.mark.parametrize(("n", "dtype"), [(40, np.float64), (700, np.float64), (700, np.float32)])
@pytest.mark.parametrize("far", [1e3, 1e7, 1e14])
def test_the_median_distance_is_that_of_the_other_rows(n, dtype, kernel, far):
    X = np.random.default_rng(0).standard_normal((n, 3))
    X[n // 2] += far
    X = X.astype(dtype)
    metric = "sqeuclidean" if kernel == "rbf" else "cityblock"
    apart = cdist(X, X, metric)[np.triu_indices(n, 1)]
    gamma = ks.SparseKernelPCA(2, kernel=kernel, n_support=10, selection="uniform", random_state=0).fit(X).gamma_
    truth = 1 / (2 * np.median(apart)) if kernel == "rbf" else 1 / np.median(apart)
    assert gamma == pytest.approx(truth, rel=1e-6 if n < 100 else 0.1)  # of more rows, some are looked at


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
@pytest.mark.parametrize("n", [40, 700])
@pytest.mark.parametrize("far", [1e9, 1e12, 1e15])
def test_a_row_far_out_costs_the_others_no_digits(far, n, kernel):
    """All were seen from the mean, which one row moves as far as it likes: a ratio of 1 was claimed where it was .7."""
    X = np.random.default_rng(0).standard_normal((n, 3))
    X[n // 2] += far
    model = ks.SparseKernelPCA(2, kernel=kernel, gamma=0.3, n_support=20, random_state=0).fit(X)
    truth = exact_variances(model, X, None)[:2].sum()
    scores = model.transform(X)
    np.testing.assert_allclose(model.explained_variance_, scores.var(axis=0), rtol=1e-9)
    assert model.captured_ratio_ == pytest.approx(scores.var(axis=0).sum() / truth, abs=1e-6)
    whole = ks.SparseKernelPCA(2, kernel=kernel, gamma=0.3, n_support=n, random_state=0).fit(X)
    assert whole.explained_variance_.sum() == pytest.approx(truth, rel=1e-9)


def test_components_on_nearly_dependent_points_are_of_unit_length():
    """Eigenvectors of small eigenvalues are known to the rounding of the largest: lengths were off by 1e-7."""
    X = np.random.default_rng(0).standard_normal((15, 2))
    for seed in range(8):
        model = ks.SparseKernelPCA(
            5, kernel="poly", degree=5, coef0=0.0, n_support=6, selection="uniform", random_state=seed
        ).fit(X)
        gram, coef = (
            pairwise_kernels(model.support_vectors_, metric="poly", degree=5, coef0=0.0, gamma=model.gamma_),
            np.asarray(model.dual_coef_),
        )
        rounding = np.finfo(float).eps * np.sum(np.abs(coef) * (np.abs(gram) @ np.abs(coef)), axis=0)
        assert np.all(np.abs(np.sum(coef * (gram @ coef), axis=0) - 1) < 20 * rounding)


def test_a_likelihood_of_kernel_values_that_float32_divides_beyond_itself(rows):
    X = (rows[np.arange(60) % 5] + 5e5).astype(np.float32)
    model = ks.LikelihoodKernelPCA(1, kernel="poly", gamma="scale", noise_variance=2e-9, random_state=0)
    quietly(lambda: model.fit(X))
    assert np.isfinite(model.threshold_)
    assert np.isfinite(quietly(lambda: model.score_samples(X))).all()


def test_a_monitor_of_tensors_is_the_same_after_it_was_saved(rows, tmp_path):
    torch = pytest.importorskip("torch")
    X = torch.as_tensor(rows + 1e5)
    for seed in range(5):
        monitor = ks.KernelMonitor(2, 25, standardize=False, random_state=seed).fit(X)
        monitor.save(tmp_path / "monitor.ks")
        loaded = ks.load(tmp_path / "monitor.ks")
        np.testing.assert_array_equal(loaded.score_samples(X), monitor.score_samples(X))


@pytest.mark.parametrize("seed", range(5))
def test_the_oracle_holds_shares_of_compressed_models_to_the_distances_that_they_come_from(seed):
    """Exact kernel PCA leaves distances to scikit-learn up to a million squared widths off the origin."""
    X = np.random.default_rng(seed).standard_t(2, (12, 7)) + 7e3
    model = ks.CompressedKernelPCA(1, gamma=0.002, center=False, max_iter=10, random_state=0).fit(X)
    values = np.linalg.eigvalsh(pairwise_kernels(X, metric="rbf", gamma=0.002))
    np.testing.assert_allclose(model.explained_variance_ratio_, values[-1] / values.sum(), rtol=1e-12)
    truth, rounding = exact_variances(model, X, None), rounding_of(model, X, single=False)
    gap = abs(float(model.explained_variance_ratio_[0]) - truth[0] / truth.sum())
    assert gap <= rounding.share(truth.sum()) < 1e-7


def test_components_of_half_the_rows_that_have_no_variance_compare_with_none():
    sample = Sample.of(
        sample_rows(np.zeros((300, 1)), 300, np.random.default_rng(0), None, merge=False), Linear(), 2, center=True
    )
    assert split_captured(sample.evaluation) == (1.0, 1.0)


def test_a_point_like_no_row_explains_nothing_quietly():
    """Kernel values of 1e-160, whose squares are zero: no coefficient can be had from them."""
    objective = ScoreObjective(RBF(gamma=1.0), np.zeros((5, 2)), np.ones(5), np.ones((5, 1)), False, 5.0)
    value, gradient = quietly(lambda: objective(np.full((1, 2), 13.6)))
    assert value == 1.0
    assert not gradient.any()


def test_a_point_in_no_direction_of_its_own_is_the_first_to_go():
    rows = np.random.default_rng(0).standard_normal((124, 1))
    rows[40] *= 1e6
    model = quietly(lambda: ks.SparseKernelPCA(1, kernel="poly", center=False, random_state=0).fit(rows))
    assert model.captured_ratio_ == pytest.approx(1)


def test_online_components_that_rounding_has_turned_are_not_called_orthogonal():
    rows = np.random.default_rng(0).standard_normal((34, 6))
    rows[20] *= 1e6
    model = ks.OnlineKernelPCA(3, kernel="poly", gamma=None, rule="incremental", random_state=0).fit(rows)
    gram = pairwise_kernels(rows[model.support_], metric="poly")
    lengths = model.dual_coef_.T @ gram @ model.dual_coef_
    if model.expansion_.orthogonal:
        assert np.abs(lengths - np.diag(np.diagonal(lengths))).max() <= 1e-5 * np.diagonal(lengths).max()
    assert 0 <= model.captured_ratio_ <= 1


def test_points_of_tensors_keep_their_order_in_memory_in_a_file(tmp_path):
    """Products of the same numbers in another order differ in their last digits."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    rows = torch.from_numpy(np.random.default_rng(563).lognormal(size=(42, 200)))
    model = ks.SparseKernelPCA(1, kernel="linear", random_state=563).fit(rows)
    model.save(tmp_path / "m.ks")
    np.testing.assert_array_equal(ks.load(tmp_path / "m.ks").transform(rows), model.transform(rows))


def test_coefficients_whose_squares_overflow_are_used_quietly(rows):
    small, larger = 1e-59 * rows, 1e-20 * rows
    model = ks.ImprovedKernelPCA(1, kernel="linear", n_nodes=2, random_state=0).fit(small)
    assert np.abs(model.dual_coef_).max() > 1e154
    scores = quietly(lambda: model.transform(small))
    other = ks.ImprovedKernelPCA(1, kernel="linear", n_nodes=2, random_state=0).fit(larger).transform(larger)
    np.testing.assert_allclose(scores / np.abs(scores).max(), other / np.abs(other).max(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("estimator", [ks.ElasticNetKernelPCA, ks.RobustSparseKernelPCA])
def test_a_ridge_beyond_all_numbers_is_refused_in_words(estimator, rows):
    with pytest.raises(ValueError, match=r"l2=1e\+308 is too large"):
        estimator(2, l2=1e308, n_nonzero=5).fit(rows)


def test_paths_of_tiny_rows_are_those_of_larger_ones(rows):
    rows[:, 1] = 0.0
    tiny, large = (ks.ElasticNetPCA(3, n_nonzero=2).fit(unit * rows).components_ for unit in (1e-54, 1.0))
    np.testing.assert_allclose(tiny, large, rtol=1e-9, atol=1e-12)


def test_tiny_rows_of_a_monitor_are_moved_quietly():
    """Their unit is beyond float32: it multiplies the rows before they are rounded."""
    rows = np.random.default_rng(0).standard_normal((110, 28))
    monitor = ks.KernelMonitor(n_components=1, lags=3, n_support=27, standardize=False, random_state=0)
    tiny = quietly(lambda: clone(monitor).fit(3e-45 * rows))
    assert tiny.limits_["spe"] == pytest.approx(clone(monitor).fit(rows).limits_["spe"], rel=1e-2)


def test_variance_beyond_numbers_that_can_be_squared_has_tails_too():
    carried = np.r_[np.full(99, 1e200), 1e203]
    assert tails(carried, None) > PLAN.heavy_tails
    assert tails(carried[:99], None) < PLAN.uneven_tails


def test_rows_without_length_are_like_all_that_is_there():
    assert coherence_with(np.zeros(2), 0.0, np.eye(2)) == 1.0
    assert coherence_with(np.array([0.0, 0.5]), 1.0, np.diag([0.0, 1.0])) == 0.5
    rows = np.random.default_rng(0).poisson(1.0, (62, 3)).astype(float)
    quietly(lambda: ks.OnlineKernelPCA(kernel="poly", degree=2, coef0=0.0, random_state=0).fit(rows))


@pytest.mark.parametrize("scale", [1e-54, 1e-20, 1e20, 1e54])
def test_a_joint_support_is_the_same_in_every_unit(scale):
    """Gradients go with the third power of a linear kernel's unit: their squares are no numbers long before."""
    rows = np.random.default_rng(0).standard_normal((104, 5))
    net = ks.ElasticNetKernelPCA(3, kernel="linear", n_dictionary=24, n_nonzero=14, sparsity="joint", random_state=0)
    expected = net.fit(rows)
    support, scores = expected.support_, expected.transform(rows)
    found = net.fit(scale * rows)
    np.testing.assert_array_equal(found.support_, support)
    np.testing.assert_allclose(found.transform(scale * rows) / scale, scores, atol=1e-11)


# What is said where nothing can be computed


@pytest.mark.parametrize("kernel", ["linear", "poly", "cosine"])
@pytest.mark.parametrize(
    "estimator", [ks.SparseKernelPCA(2), ks.ElasticNetKernelPCA(2), ks.RobustSparseKernelPCA(2)], ids=str
)
def test_rows_that_differ_are_not_called_the_same_where_an_offset_drowns_them(estimator, kernel, rows):
    model = clone(estimator).set_params(kernel=kernel, random_state=0)
    for form in (np.asarray, scipy.sparse.csr_array):
        with pytest.raises(ValueError, match=r"differ, but by so little.*subtract the mean of every column first"):
            model.fit(form(rows + 1e8))


def test_rows_on_one_ray_are_the_same_to_the_cosine(rows):
    ray = np.linspace(1, 2, 60)[:, None] * np.abs(rows[:1])
    with pytest.raises(ValueError, match="all the same to this kernel"):
        ks.ElasticNetKernelPCA(1, kernel="cosine").fit(ray)


def test_a_noise_variance_that_cannot_be_squared_is_refused_quietly(rows):
    for noise_variance in (1e-300, 1e-155, 1e-120):
        with pytest.raises(ValueError, match=r"too small to compute with.*give a larger noise_variance"):
            quietly(lambda noise=noise_variance: ks.LikelihoodKernelPCA(noise_variance=noise).fit(rows))
        with pytest.raises(ValueError, match="too small to compute with"):
            quietly(
                lambda noise=noise_variance: ks.likelihood_path(ks.LikelihoodKernelPCA(), rows, noise_variance=[noise])
            )
    assert quietly(lambda: ks.LikelihoodKernelPCA(noise_variance=1e-90).fit(rows)).n_support_ > 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [4, 13, 16])
def test_few_heavy_rows_do_not_hide_that_a_polynomial_is_indefinite(seed):
    """Beside their eigenvalue the negative ones are 1e-8 of it, and points may have smaller ones than that."""
    rows = np.random.default_rng(seed).standard_t(2, (85, 4))
    options = {"gamma": 0.3, "degree": 5, "coef0": -1.0}
    exact = exact_kernel_pca(pairwise_kernels(rows, metric="poly", **options), 2)[0] / len(rows)
    model = ks.SparseKernelPCA(2, kernel="poly", random_state=0, **options).fit(rows)
    off = np.abs(model.explained_variance_ - exact).sum() / exact.sum()
    assert model.captured_ratio_ == pytest.approx(1 - off, abs=1e-3)
    assert off < 0.02


def test_a_flat_spectrum_is_followed_to_its_end():
    """Every row is nearly alone: the largest eigenvalues are hardly larger than the rest."""
    rows = np.random.default_rng(0).standard_normal((600, 6))
    gram = pairwise_kernels(rows, metric="rbf", gamma=10.0)
    found = exact_components(gram, 3, center=True).variances
    np.testing.assert_allclose(found, exact_kernel_pca(gram, 3)[0] / 600, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-130, 1e-60, 1e60, 1e-160, 1e-200, 1e-300, 1e200])
@pytest.mark.parametrize(
    "estimator",
    [
        ks.KernelPCA,
        ks.SparseKernelPCA,
        ks.KernelFeatureAnalysis,
        ks.LikelihoodKernelPCA,
        ks.ElasticNetKernelPCA,
        ks.RobustSparseKernelPCA,
    ],
)
def test_given_grams_of_extreme_scale_are_right_or_refused(estimator, scale):
    """Below 1e-150 products of kernel values are zero: variances were off, and the lasso did not end."""
    rows = np.random.default_rng(0).standard_normal((60, 4))
    gram = rbf_kernel(rows, gamma=0.2)
    options = {"kernel": "precomputed", "random_state": 0}
    if estimator is ks.SparseKernelPCA:
        options["n_support"] = 10
    plain = estimator(2, **options).fit(gram)
    if not 1e-140 <= scale <= 1e100 and not (estimator is ks.KernelPCA and scale < 1):
        with pytest.raises(ValueError, match=r"power of ten|too large to compute with"):
            estimator(2, **options).fit(gram * scale)
        return
    scaled = estimator(2, **options).fit(gram * scale)
    np.testing.assert_allclose(scaled.explained_variance_ / scale, plain.explained_variance_, rtol=1e-6)
    np.testing.assert_allclose(scaled.explained_variance_ratio_, plain.explained_variance_ratio_, rtol=1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [{"kernel": "cosine"}, {"kernel": "rbf", "gamma": 1e-7}], ids=str)
@pytest.mark.parametrize(
    "model",
    [
        ks.OnlineKernelPCA(1),
        ks.SparseKernelPCA(1, n_support=3, selection="uniform", random_state=0),
        ks.KernelFeatureAnalysis(1, center=True),
        ks.ElasticNetKernelPCA(1, refit=True),
    ],
    ids=lambda model: type(model).__name__,
)
def test_ratios_of_rows_that_are_nearly_one_to_the_kernel_are_true(model, options):
    """Beside k(x, x) the variance is 1e-6 and less: in float32 exact kernel PCA of 501 rows and more was off by 1 %."""
    rows = 0.3 * np.random.default_rng(0).standard_normal((600, 7)) + 133
    model = clone(model).set_params(**options).fit(rows)
    gram = pairwise_kernels(rows, metric=options["kernel"], **{k: v for k, v in options.items() if k == "gamma"})
    truth = exact_kernel_pca(gram, 1)[0].sum() / len(rows)
    assert model.captured_ratio_ == pytest.approx(model.explained_variance_.sum() / truth, rel=1e-4)


# The oracle itself


@pytest.mark.parametrize("model", [ks.ElasticNetKernelPCA(2, kernel="linear"), ks.SparseKernelPCA(2, kernel="linear")])
def test_what_rounding_may_do_grows_with_the_units_of_the_rows(rows, model):
    """Kernel values of rows a million times as long are 1e12 times as large, and so is their rounding."""
    small, large = (
        rounding_of(clone(model).set_params(random_state=0).fit(X), X, single=False) for X in (rows, rows * 2.0**20)
    )
    assert large.kernel == pytest.approx(2.0**40 * small.kernel)
    np.testing.assert_allclose(large.left_out, 2.0**20 * small.left_out)
    np.testing.assert_allclose(large.scores, 2.0**20 * small.scores)
