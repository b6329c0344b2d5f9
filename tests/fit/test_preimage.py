"""The way back: pre-images, reconstruction errors and scores against explicit features and simple rivals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from oracles import KERNELS, gram_of, quadratic_features
from sklearn.decomposition import PCA
from sklearn.metrics import pairwise_distances

from kernelsieve import SparseKernelPCA


def squared_error(rows, truth):
    return float(np.mean(np.sum((rows - truth) ** 2, axis=1)))


# Pre-images


@pytest.mark.parametrize("center", [True, False])
def test_linear_preimage_is_pcas(center, cloud, new_rows):
    model = SparseKernelPCA(3, n_support=6, kernel="linear", center=center, random_state=0).fit(cloud)
    found = model.inverse_transform(model.transform(new_rows))
    if center:
        pca = PCA(3).fit(cloud)
        truth = pca.inverse_transform(pca.transform(new_rows))
    else:
        axes = np.linalg.svd(cloud, full_matrices=False)[2][:3]
        truth = new_rows @ axes.T @ axes
    np.testing.assert_allclose(found, truth, atol=1e-8)


def test_linear_preimage_of_all_components_is_the_row(cloud, new_rows):
    model = SparseKernelPCA(5, n_support=6, kernel="linear", random_state=0).fit(cloud)
    np.testing.assert_allclose(model.inverse_transform(model.transform(new_rows)), new_rows, atol=1e-8)


@pytest.mark.parametrize("n_support", [20, 50])
def test_gaussian_preimages_of_unseen_digits(n_support, digits):
    """Closer to the digit than the mean digit, and than the nearest support point."""
    train, test = digits
    model = SparseKernelPCA(15, n_support=n_support, random_state=0).fit(train)
    error = squared_error(model.inverse_transform(model.transform(test)), test)
    nearest = pairwise_distances(test, model.support_vectors_).min(axis=1)
    assert error < 0.8 * squared_error(train.mean(axis=0), test)
    assert error < np.mean(nearest**2)


def test_gaussian_preimage_of_a_training_row_is_that_row(cloud):
    """All rows as support and nearly all components: the row itself explains the scores best."""
    model = SparseKernelPCA(70, selection=np.arange(80), gamma=0.5).fit(cloud)
    found = model.inverse_transform(model.transform(cloud))
    errors = np.linalg.norm(found - cloud, axis=1)
    assert np.median(errors) < 1e-2
    assert errors.max() < 0.3


def test_gaussian_preimage_is_a_maximum(cloud, new_rows):
    """No small step away brings the pre-image's features closer to what the scores stand for."""
    model = SparseKernelPCA(4, n_support=12, gamma=0.2, random_state=0).fit(cloud)
    scores = model.transform(new_rows)
    found = model.inverse_transform(scores)

    def closeness(rows):
        # <phi(x), mean + sum_k z_k v_k>, with the mean's projection by pseudo-inverse
        gram = gram_of("rbf", model.support_vectors_, gamma=0.2)
        mean = np.linalg.pinv(gram) @ gram_of("rbf", model.support_vectors_, cloud, gamma=0.2).mean(axis=1)
        weights = mean + scores @ model.dual_coef_.T
        return np.sum(weights * gram_of("rbf", rows, model.support_vectors_, gamma=0.2), axis=1)

    here, rng = closeness(found), np.random.default_rng(0)
    for _ in range(20):
        assert np.all(closeness(found + 0.01 * rng.standard_normal(found.shape)) <= here + 1e-6)


def test_gaussian_preimages_far_from_the_origin(cloud, new_rows):
    near = SparseKernelPCA(4, n_support=12, random_state=0).fit(cloud)
    far = SparseKernelPCA(4, n_support=12, random_state=0).fit(cloud + 1e3)
    expected = squared_error(near.inverse_transform(near.transform(new_rows)), new_rows)
    found = squared_error(far.inverse_transform(far.transform(new_rows + 1e3)), new_rows + 1e3)
    assert found == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("name", ["poly", "laplacian", "cosine", "sigmoid"])
@pytest.mark.filterwarnings("ignore:.*positive semi-definite")
def test_ridge_preimages_beat_the_mean(name, digits):
    train, test = digits
    options = {"gamma": 0.01, "coef0": 0.0} if name == "sigmoid" else {}
    model = SparseKernelPCA(10, n_support=40, kernel=name, random_state=0, **options).fit(train)
    error = squared_error(model.inverse_transform(model.transform(test)), test)
    assert error < 0.75 * squared_error(train.mean(axis=0), test)


def test_callables_have_preimages_too(cloud, new_rows):
    model = SparseKernelPCA(4, n_support=20, kernel=lambda X, Y: gram_of("rbf", X, Y, gamma=0.2)).fit(cloud)
    error = squared_error(model.inverse_transform(model.transform(new_rows)), new_rows)
    assert error < 0.8 * squared_error(cloud.mean(axis=0), new_rows)


@pytest.mark.parametrize("name", sorted(set(KERNELS) - {"sigmoid"}))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_shapes_and_types(name, dtype, cloud):
    model = SparseKernelPCA(3, n_support=6, kernel=name, random_state=0, **KERNELS[name]).fit(cloud.astype(dtype))
    rows = model.inverse_transform(model.transform(cloud[:7].astype(dtype)))
    assert rows.shape == (7, 5)
    assert rows.dtype == dtype
    assert np.all(np.isfinite(rows))


def test_extreme_scores_give_finite_rows(cloud):
    model = SparseKernelPCA(3, n_support=8, random_state=0).fit(cloud)
    for size in (0.0, 1e-8, 10.0, 1e6):
        rows = model.inverse_transform(size * np.array([[1.0, -1, 1], [-1, -1, -1], [0, 0, 1]]))
        assert np.all(np.isfinite(rows))


@pytest.mark.parametrize("name", ["rbf", "poly", "linear", "cosine"])
@pytest.mark.parametrize("selection", ["targeted", "optimized"])
def test_sparse_rows_go_back_to_dense_ones(name, selection, cloud):
    rows = scipy.sparse.csr_matrix(np.where(cloud > 0, cloud, 0))
    options = {"kernel": name, "n_support": 6, "selection": selection, "random_state": 0}
    model = SparseKernelPCA(3, **options, **KERNELS[name]).fit(rows)
    back = model.inverse_transform(model.transform(rows))
    assert isinstance(back, np.ndarray)
    assert squared_error(back, rows.toarray()) < squared_error(rows.toarray().mean(axis=0), rows.toarray())


# Reconstruction error and score


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("name", ["linear", "poly"])
def test_reconstruction_error_in_explicit_features(name, center, cloud, new_rows):
    """|phi(x) - mean - V z|^2 with phi written out; the points span the features, so the mean is in their span."""
    features = (lambda X: X) if name == "linear" else quadratic_features
    options = {"kernel": name, "gamma": 0.4, "degree": 2, "center": center}
    model = SparseKernelPCA(3, selection=np.arange(40), **options).fit(cloud)
    axes = features(model.support_vectors_).T @ model.dual_coef_
    mean = features(cloud).mean(axis=0) * center
    scores = (features(new_rows) - mean) @ axes
    error = np.sum((features(new_rows) - mean - scores @ axes.T) ** 2, axis=1)
    np.testing.assert_allclose(model.transform(new_rows), scores, atol=1e-8 * np.abs(scores).max())
    np.testing.assert_allclose(model.reconstruction_error(new_rows), error, atol=1e-8 * error.max())
    total = np.sum((features(new_rows) - mean) ** 2)
    assert model.score(new_rows) == pytest.approx(np.sum(scores**2) / total, rel=1e-9)


@pytest.mark.parametrize("selection", ["optimized", "targeted", "uniform"])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("name", sorted(set(KERNELS) - {"sigmoid"}))
def test_score_on_the_training_rows_is_the_explained_share(name, center, selection, cloud):
    options = {"n_support": 6, "kernel": name, "center": center, "selection": selection, "random_state": 0}
    model = SparseKernelPCA(3, **options, **KERNELS[name]).fit(cloud)
    share = model.explained_variance_ratio_.sum()
    assert 0 < share <= 1 + 1e-12
    assert model.score(cloud) == pytest.approx(share, rel=1e-9)
    error = model.reconstruction_error(cloud)
    assert np.all(error >= 0)
    total = model.explained_variance_.sum() / share
    # errors are to the mean's projection, variance is about the mean itself
    assert error.mean() == pytest.approx(total * (1 - share) + model.mean_outside_, rel=1e-7)


def test_reconstruction_error_of_a_gaussian_by_brute_force(cloud, new_rows):
    """k(x, x) - 2 <phi(x), r> + <r, r> with r = sum_i c_i phi(s_i), its c by a least-squares fit of the mean."""
    model = SparseKernelPCA(3, selection=np.arange(10), gamma=0.3).fit(cloud)
    points = model.support_vectors_
    gram, cross = gram_of("rbf", points, gamma=0.3), gram_of("rbf", new_rows, points, gamma=0.3)
    mean = np.linalg.solve(gram, gram_of("rbf", points, cloud, gamma=0.3).mean(axis=1))
    weights = mean + model.transform(new_rows) @ model.dual_coef_.T
    error = 1 - 2 * np.sum(cross * weights, axis=1) + np.sum(weights @ gram * weights, axis=1)
    np.testing.assert_allclose(model.reconstruction_error(new_rows), error, atol=1e-9)


def test_error_falls_with_more_components(cloud):
    errors = [
        SparseKernelPCA(m, selection=np.arange(30), gamma=0.3).fit(cloud).reconstruction_error(cloud).mean()
        for m in (1, 3, 6, 12)
    ]
    assert np.all(np.diff(errors) < 0)


def test_outliers_stand_out(digits):
    """What monitoring needs: noise is reconstructed worse than digits are."""
    train, test = digits
    model = SparseKernelPCA(10, n_support=30, random_state=0).fit(train)
    noise = np.random.default_rng(0).uniform(0, 1, test.shape)
    assert model.reconstruction_error(noise).min() > np.quantile(model.reconstruction_error(test), 0.95)
