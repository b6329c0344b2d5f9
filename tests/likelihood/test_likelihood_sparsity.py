"""LikelihoodKernelPCA: how sparse it is, and what it may choose from."""

from __future__ import annotations

import time
import warnings
from dataclasses import fields

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
import scipy.sparse.linalg
from likelihood_cases import (
    CENTERED,
    RULES,
    fitted,
)
from oracles import KERNELS, gram_of
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from kernelsieve import LikelihoodKernelPCA, likelihood_path

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
    with pytest.raises(ValueError, match="n_points=0 must be a whole number from 1"):
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


def test_few_vectors_of_rows_that_are_like_no_other_are_refused_soon():
    """All rows gain the same, so any model takes nearly all of them: to see that, it need not be finished."""
    rows = 1e3 * np.random.default_rng(0).standard_normal((600, 4))
    started = time.process_time()
    with pytest.raises(ValueError, match="no noise variance was found that leaves as few as n_support=7"):
        LikelihoodKernelPCA(gamma=0.25, n_support=7).fit(rows)
    assert time.process_time() - started < 5  # 30 s where each was finished
