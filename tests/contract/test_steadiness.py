"""A model does not depend on what it should not: batches, seeds, threads, the order, form, place and units of rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from contract_cases import ROW_RULES
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import KERNELS, CountingKernel, gram_of, state_of
from sklearn.base import clone

from kernelsieve import (
    ElasticNetKernelPCA,
    LikelihoodKernelPCA,
    SparseKernelPCA,
)

# Every estimator that keeps rows as its support: what holds whatever the method is asked of each.
ESTIMATORS = {
    "sparse": SparseKernelPCA(3, n_support=7, selection="targeted", random_state=0),
    "likelihood": LikelihoodKernelPCA(3, noise_fraction=0.1, random_state=0),
    "likelihood, centred": LikelihoodKernelPCA(3, noise_fraction=0.4, center=True, random_state=0),
    "likelihood, dictionary": LikelihoodKernelPCA(3, noise_fraction=0.1, n_dictionary=30, random_state=0),
    "elastic net": ElasticNetKernelPCA(3, n_nonzero=7, sparsity="joint", random_state=0),
    "elastic net, refitted": ElasticNetKernelPCA(3, n_nonzero=7, sparsity="joint", refit=True, random_state=0),
}


each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS)


def make(estimator, **options):
    return clone(ESTIMATORS[estimator]).set_params(**options)


# What a transform may touch


@pytest.mark.parametrize("use", ["transform", "inverse", "error", "density"])
@each_estimator
def test_only_the_support_is_touched(estimator, use, cloud, new_rows):
    kernel = CountingKernel()
    model = make(estimator, kernel=kernel).fit(cloud)
    m = model.n_support_
    assert 3 <= m < 60
    if not model.expansion_.orthogonal:
        model.score(new_rows)  # the support's gram is needed once
    kernel.evaluations, kernel.points = 0, []
    if use == "density" and not hasattr(model, "score_samples"):
        return
    if use == "inverse":
        model.inverse_transform(np.zeros((4, 3)))
        assert kernel.evaluations == 0
        return
    if use == "transform":
        model.transform(new_rows)
        assert kernel.evaluations == len(new_rows) * m
    else:
        (model.score_samples if use == "density" else model.reconstruction_error)(new_rows)
        assert kernel.evaluations <= len(new_rows) * (m + 16) + m * m
    allowed = np.concatenate([model.support_vectors_, new_rows])
    for points in kernel.points:
        distances = np.abs(points[:, None] - allowed[None]).sum(axis=-1)
        assert np.all(distances.min(axis=1) == 0)


def test_passes_over_the_data_cost_one_evaluation_a_row_and_point():
    """Fitting with given points: N m evaluations for the moments, and a sample's worth for the report."""
    X, kernel = np.random.default_rng(0).standard_normal((10_000, 3)), CountingKernel()
    SparseKernelPCA(2, selection=np.arange(10), kernel=kernel, random_state=0).fit(X)
    assert kernel.evaluations < 10_000 * (10 + 16) + 5e6  # against 1e8 of a whole gram


# Steadiness


def fit_digits(train, **options):
    return SparseKernelPCA(**{"n_components": 5, "n_support": 15, "random_state": 0, **options}).fit(train)


@pytest.mark.parametrize("name", [*sorted(set(KERNELS) - {"sigmoid"}), "pairs"])
def test_a_batch_is_its_rows(name, cloud, new_rows):
    options = {"kernel": lambda x, y: float(np.exp(-np.abs(x - y).sum()))} if name == "pairs" else {"kernel": name}
    options.update(KERNELS.get(name, {}))
    model = SparseKernelPCA(3, n_support=5, random_state=0, **options).fit(cloud)
    assert_batch_invariant(model.transform, new_rows)


@pytest.mark.parametrize("name", ["rbf", "poly", "laplacian"])
@each_estimator
def test_a_batch_is_its_rows_in_every_estimator(estimator, name, cloud, new_rows):
    model = make(estimator, kernel=name, **KERNELS[name]).fit(cloud)
    assert_batch_invariant(model.transform, new_rows)
    assert_batch_invariant(model.reconstruction_error, new_rows)
    if hasattr(model, "score_samples"):
        assert_batch_invariant(model.score_samples, new_rows)


def assert_batch_invariant(method, rows):
    batch = method(rows)
    alone = np.concatenate([method(row[None]) for row in rows])
    np.testing.assert_allclose(batch, alone, rtol=0, atol=1e-12 * max(1, np.abs(batch).max()))


@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.parametrize("n_dictionary", [None, 30])
def test_an_elastic_net_is_as_steady(n_dictionary, refit, cloud, new_rows):
    """A batch is its rows; the same random_state gives the same model; threads and memory layout change nothing."""
    estimator = ElasticNetKernelPCA(3, n_dictionary=n_dictionary, refit=refit, gamma=0.3, random_state=0)
    model, again = (clone(estimator).fit(cloud) for _ in range(2))
    np.testing.assert_array_equal(again.dual_coef_, model.dual_coef_)
    batch = model.transform(new_rows)
    alone = np.concatenate([model.transform(row[None]) for row in new_rows])
    np.testing.assert_allclose(batch, alone, rtol=0, atol=1e-12)
    threaded = clone(estimator).set_params(n_jobs=3).fit(np.asfortranarray(cloud))
    np.testing.assert_allclose(threaded.transform(np.asfortranarray(new_rows)), batch, rtol=0, atol=1e-8)
    shuffled = clone(estimator).fit(cloud[np.random.default_rng(9).permutation(80)])
    if n_dictionary is None:
        np.testing.assert_allclose(shuffled.transform(new_rows), batch, rtol=0, atol=1e-6)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000), n_rows=st.integers(1, 9000))
def test_any_batch_of_any_size(digits_model, seed, n_rows):
    model, pool, scores = digits_model
    rows = np.random.default_rng(seed).integers(0, len(pool), n_rows)
    np.testing.assert_allclose(model.transform(pool[rows]), scores[rows], rtol=0, atol=1e-12)


@pytest.fixture(scope="module")
def digits_model(digits):
    train, test = digits
    model = fit_digits(train)
    return model, test, np.concatenate([model.transform(row[None]) for row in test])


@pytest.mark.parametrize("selection", ["optimized", "kmeans", *ROW_RULES])
def test_the_same_random_state_gives_the_same_model(selection, digits):
    train, test = digits
    models = [fit_digits(train, selection=selection) for _ in range(2)]
    np.testing.assert_array_equal(models[0].transform(test), models[1].transform(test))
    np.testing.assert_array_equal(models[0].dual_coef_, models[1].dual_coef_)


@each_estimator
def test_the_same_random_state_gives_the_same_estimator(estimator, digits):
    train, test = digits[0][:400], digits[1]
    models = [make(estimator).fit(train) for _ in range(2)]
    assert_same_state(*models)
    np.testing.assert_array_equal(models[0].transform(test), models[1].transform(test))


def assert_same_state(model, other):
    np.testing.assert_equal(state_of(model), state_of(other))


@pytest.mark.parametrize("other", [{}, {"center": True}, {"kernel": "laplacian"}, {"n_components": 2}])
@each_estimator
def test_a_refit_leaves_nothing_of_the_fit_before(estimator, other, cloud, new_rows):
    model = make(estimator, **other).fit(new_rows[:, :3])
    model.set_params(**make(estimator).get_params()).fit(cloud)
    assert_same_state(model, make(estimator).fit(cloud))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda rows: np.where(np.arange(rows.size).reshape(rows.shape) == 7, np.nan, rows),
        lambda rows: np.zeros((30, 4)),
        lambda rows: rows[:1, :3],
        lambda rows: np.array([["a", "b"]] * 9),
    ],
    ids=["NaN", "zeros", "one row", "words"],
)
@each_estimator
def test_a_failed_refit_leaves_the_fit_before(estimator, spoil, cloud):
    model = make(estimator, kernel="linear").fit(cloud)
    fresh = make(estimator, kernel="linear").fit(cloud)
    with pytest.raises(ValueError, match=r"."):
        model.fit(spoil(cloud))
    assert_same_state(model, fresh)
    unfitted = make(estimator, kernel="linear")
    with pytest.raises(ValueError, match=r"."):
        unfitted.fit(spoil(cloud))
    assert_same_state(unfitted, make(estimator, kernel="linear"))


@each_estimator
def test_other_forms_of_the_same_rows(estimator, cloud, new_rows):
    """Sparse, as a gram, under a function: the same model."""
    rows, new = np.where(cloud > 0, cloud, 0), np.where(new_rows > 0, new_rows, 0)
    gram, cross = gram_of("rbf", rows, gamma=0.3), gram_of("rbf", new, rows, gamma=0.3)
    plain = make(estimator, gamma=0.3).fit(rows)
    sparse = make(estimator, gamma=0.3).fit(scipy.sparse.csr_matrix(rows))
    called = make(estimator, kernel=lambda X, Y: gram_of("rbf", X, Y, gamma=0.3)).fit(rows)
    by_pairs = make(estimator, kernel=lambda x, y: float(np.exp(-0.3 * np.sum((x - y) ** 2)))).fit(rows)
    given = make(estimator, kernel="precomputed").fit(gram)
    others = [(sparse, scipy.sparse.csr_matrix(new)), (called, new), (by_pairs, new)]
    if "dictionary" in estimator:  # other random rows: the gram's are in another order
        assert given.captured_ratio_ == pytest.approx(plain.captured_ratio_, abs=0.05)
    else:
        others += [(given, cross), (given, cross[:, given.support_])]
    for model, rows_of_it in others:
        np.testing.assert_array_equal(np.sort(model.support_), np.sort(plain.support_))
        np.testing.assert_allclose(model.transform(rows_of_it), plain.transform(new), atol=1e-6)
        assert model.captured_ratio_ == pytest.approx(plain.captured_ratio_, abs=1e-6)


@pytest.mark.parametrize("gamma", [0.3, "median"])
@each_estimator
def test_a_weight_is_a_number_of_copies(estimator, gamma, cloud, new_rows):
    counts = np.random.default_rng(0).integers(0, 4, 80)
    weighted = make(estimator, gamma=gamma).fit(cloud, sample_weight=counts)
    repeated = make(estimator, gamma=gamma).fit(np.repeat(cloud, counts, axis=0))
    np.testing.assert_allclose(weighted.transform(new_rows), repeated.transform(new_rows), atol=1e-6)
    np.testing.assert_allclose(weighted.explained_variance_ratio_, repeated.explained_variance_ratio_, rtol=1e-6)
    assert np.all(counts[weighted.support_] > 0)


@each_estimator
def test_the_order_of_rows_is_nothing(estimator, cloud, new_rows):
    order = np.random.default_rng(9).permutation(80)
    straight, shuffled = make(estimator).fit(cloud), make(estimator).fit(cloud[order])
    np.testing.assert_allclose(shuffled.transform(new_rows), straight.transform(new_rows), atol=1e-6)
    np.testing.assert_array_equal(np.sort(order[shuffled.support_]), np.sort(straight.support_))


@pytest.mark.parametrize("selection", ["optimized", "targeted"])
def test_the_number_of_threads_changes_nothing(selection, digits):
    """Blocks and the order of their sums do not depend on the number of threads.  What does is the shape of some
    matrix products, whose last bits the search for points can carry to 1e-6 of the scores."""
    train, test = digits
    one, other = (fit_digits(train, selection=selection, n_jobs=n).transform(test) for n in (1, 3))
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-6 * np.abs(one).max())
    model = fit_digits(train, selection=selection)
    model.n_jobs = 1
    alone = model.transform(test)
    model.n_jobs = 3
    np.testing.assert_array_equal(model.transform(test), alone)


@each_estimator
def test_the_number_of_threads_changes_no_estimator(estimator, digits):
    train, test = digits[0][:600], digits[1]
    one, other = (make(estimator, n_jobs=n).fit(train).transform(test) for n in (1, 3))
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-6 * np.abs(one).max())


def test_signs_are_fixed(digits):
    """The largest coefficient of every component is positive, so that no run turns a component round."""
    train, _ = digits
    for seed in range(3):
        coef = fit_digits(train, random_state=seed, selection=np.arange(0, 200, 7)).dual_coef_
        assert np.all(coef[np.argmax(np.abs(coef), axis=0), np.arange(5)] > 0)


@pytest.mark.parametrize("name", sorted(set(KERNELS) - {"sigmoid"}))
def test_float32(name, cloud, new_rows):
    """float32 in, float32 out, and within 1e-4 of float64."""
    options = {"kernel": name, "selection": new_rows[:5], **KERNELS[name]}
    full = SparseKernelPCA(3, **options).fit(cloud)
    light = SparseKernelPCA(3, **options).fit(cloud.astype(np.float32))
    scores = light.transform(new_rows.astype(np.float32))
    truth = full.transform(new_rows)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, truth, rtol=0, atol=1e-4 * np.abs(truth).max())
    np.testing.assert_allclose(light.eigenvalues_, full.eigenvalues_, rtol=1e-4)
    assert light.inverse_transform(scores).dtype == np.float32
    assert light.reconstruction_error(new_rows.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("name", ["rbf", "poly", "laplacian"])
@each_estimator
def test_float32_in_every_estimator(estimator, name, cloud, new_rows):
    full = make(estimator, kernel=name, **KERNELS[name]).fit(cloud)
    light = make(estimator, kernel=name, **KERNELS[name]).fit(cloud.astype(np.float32))
    scores, truth = light.transform(new_rows.astype(np.float32)), full.transform(new_rows)
    assert scores.dtype == np.float32
    assert light.inverse_transform(scores).dtype == np.float32
    assert light.reconstruction_error(new_rows.astype(np.float32)).dtype == np.float32
    np.testing.assert_array_equal(np.sort(light.support_), np.sort(full.support_))
    np.testing.assert_allclose(scores, truth, rtol=0, atol=2e-3 * np.abs(truth).max())


@pytest.mark.parametrize("selection", ["optimized", "targeted"])
def test_float32_on_the_digits_with_the_search(selection, digits):
    train, test = digits
    full = fit_digits(train, selection=selection, n_support=30)
    light = fit_digits(train.astype(np.float32), selection=selection, n_support=30)
    truth = np.var(full.transform(test), axis=0).sum()
    assert np.var(light.transform(test.astype(np.float32)), axis=0).sum() == pytest.approx(truth, rel=2e-3)
    assert light.captured_ratio_ == pytest.approx(full.captured_ratio_, abs=2e-3)


def test_rows_may_lie_anywhere_in_memory(cloud, new_rows):
    model = SparseKernelPCA(2, n_support=6, random_state=0).fit(cloud)
    for rows in (np.asfortranarray(new_rows), np.repeat(new_rows, 2, axis=0)[::2], new_rows.tolist()):
        np.testing.assert_allclose(model.transform(rows), model.transform(new_rows), atol=1e-13)
    again = SparseKernelPCA(2, n_support=6, random_state=0).fit(np.asfortranarray(cloud))
    np.testing.assert_allclose(again.transform(new_rows), model.transform(new_rows), atol=1e-8)


@pytest.mark.parametrize("selection", ["targeted", "optimized"])
def test_far_from_the_origin(selection, cloud, new_rows):
    """A Gaussian sees differences only: 10,000 added to every feature costs what the rows lose in rounding."""
    options = {"n_support": 10, "selection": selection, "random_state": 0}
    near = SparseKernelPCA(3, **options).fit(cloud)
    far = SparseKernelPCA(3, **options).fit(cloud + 1e4)
    light = SparseKernelPCA(3, **options).fit((cloud + 1e4).astype(np.float32))
    assert far.gamma_ == pytest.approx(near.gamma_, rel=1e-5)
    np.testing.assert_allclose(far.eigenvalues_.sum(), near.eigenvalues_.sum(), rtol=1e-3)
    np.testing.assert_allclose(light.eigenvalues_.sum(), near.eigenvalues_.sum(), rtol=5e-3)
    if selection == "targeted":
        np.testing.assert_allclose(far.transform(new_rows + 1e4), near.transform(new_rows), atol=1e-6)
        scores = light.transform((new_rows + 1e4).astype(np.float32))
        np.testing.assert_allclose(scores, near.transform(new_rows), atol=5e-3)


@settings(max_examples=8, deadline=None)
@given(scale=st.floats(1e-3, 1e3))
def test_units_do_not_matter_to_the_median_rule(scale):
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((60, 4)), rng.standard_normal((10, 4))
    options = {"n_support": 10, "selection": "targeted", "random_state": 0}
    one, other = SparseKernelPCA(2, **options).fit(X), SparseKernelPCA(2, **options).fit(X * scale)
    np.testing.assert_allclose(other.transform(new * scale), one.transform(new), atol=1e-5)
