"""LikelihoodKernelPCA: its axes and its density."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from likelihood_cases import (
    CENTERED,
    POLY,
    RULES,
    fitted,
    log_density,
    poly_features,
)
from oracles import KERNELS, exact_kernel_pca, gram_of, subspace_gap
from sklearn.exceptions import ConvergenceWarning

from kernelsieve import LikelihoodKernelPCA

# The estimator: its axes


@pytest.mark.parametrize("update", RULES)
@pytest.mark.parametrize("name", [*sorted(set(KERNELS) - {"sigmoid"}), "narrow"])
@CENTERED
def test_axes_are_orthonormal(center, name, update, cloud):
    kernel, params = ("rbf", {"gamma": 3.0}) if name == "narrow" else (name, KERNELS[name])
    model = LikelihoodKernelPCA(kernel=kernel, update=update, center=center, max_iter=60, noise_fraction=0.1, **params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(cloud)
    gram = gram_of(kernel, cloud[model.support_], **params)
    found = model.dual_coef_.T @ gram @ model.dual_coef_
    np.testing.assert_allclose(found, np.eye(model.n_components_), rtol=0, atol=1e-8)


@pytest.mark.parametrize("gamma", [0.03, 0.003])
@pytest.mark.parametrize("update", ["coordinate", "em"])
@pytest.mark.filterwarnings("ignore")
def test_axes_of_a_wide_kernel_are_orthonormal(update, gamma, cloud):
    """Its eigenvalues fall by ten orders of magnitude: what cannot be told from rounding is no axis."""
    model = fitted(cloud, gamma=gamma, update=update, noise_fraction=1e-4, max_iter=60)
    gram = gram_of("rbf", cloud[model.support_], gamma=gamma)
    found = model.dual_coef_.T @ gram @ model.dual_coef_
    np.testing.assert_allclose(found, np.eye(model.n_components_), rtol=0, atol=1e-8)


def test_axes_are_the_models(poly_model, rows):
    """Eigenvectors and eigenvalues of sum_i w_i phi_i phi_i', in the ten dimensions."""
    model, points = poly_model, poly_features(rows[poly_model.support_], **POLY)
    values, vectors = np.linalg.eigh((points.T * model.weights_) @ points)
    assert model.n_components_ == min(10, model.n_support_)
    np.testing.assert_allclose(model.eigenvalues_, values[::-1][: model.n_components_], rtol=1e-8)
    axes = points.T @ model.dual_coef_
    cosines = np.sum(axes * vectors[:, ::-1][:, : model.n_components_], axis=0)
    np.testing.assert_allclose(np.abs(cosines), 1, atol=1e-8)
    assert np.all(np.diff(model.eigenvalues_) < 0)
    largest = model.dual_coef_[np.argmax(np.abs(model.dual_coef_), axis=0), np.arange(model.n_components_)]
    assert np.all(largest > 0)


@CENTERED
def test_scores_errors_and_variances(center, rows, cloud):
    """All from the ten dimensions: projections on the axes about the mean, and what they leave."""
    model = fitted(rows, n_components=3, kernel="poly", noise_variance=0.2, center=center, **POLY)
    features, points = poly_features(rows, **POLY), poly_features(rows[model.support_], **POLY)
    axes = points.T @ model.dual_coef_
    mean = features.mean(axis=0) if center else np.zeros(10)
    scores = (features - mean) @ axes
    np.testing.assert_allclose(model.transform(rows), scores, atol=1e-9)
    np.testing.assert_allclose(model.explained_variance_, np.mean(scores**2, axis=0), rtol=1e-9)
    total = np.mean(np.sum((features - mean) ** 2, axis=1))
    np.testing.assert_allclose(model.explained_variance_ratio_, model.explained_variance_ / total, rtol=1e-9)
    span = np.linalg.qr(points.T)[0]
    new = poly_features(cloud[50:, :3], **POLY)
    origin = span @ (span.T @ mean)  # all of the mean that the vectors can tell
    left = np.sum((new - origin - ((new - mean) @ axes) @ axes.T) ** 2, axis=1)
    np.testing.assert_allclose(model.reconstruction_error(cloud[50:, :3]), left, rtol=1e-8)


def test_fewer_components_are_the_first_of_all(poly_model, rows):
    few = fitted(rows, n_components=2, kernel="poly", noise_variance=0.2, **POLY)
    np.testing.assert_allclose(few.transform(rows), poly_model.transform(rows)[:, :2], atol=1e-10)
    assert few.n_components_ == 2
    assert few.weights_.shape == (few.n_support_,)
    np.testing.assert_array_equal(few.score_samples(rows), poly_model.score_samples(rows))


def test_less_and_less_noise_ends_in_kernel_pca(cloud):
    """Uncentred: the covariance of the rows is then itself in the model, w = 1/N."""
    gram = gram_of("rbf", cloud, gamma=0.3)
    values, components, _ = exact_kernel_pca(gram, 4, center=False)
    gaps = []
    for noise_fraction in (1e-3, 1e-4, 1e-5, 1e-6):
        model = fitted(cloud, n_components=4, noise_fraction=noise_fraction, gamma=0.3)
        coef = np.zeros((80, 4))
        coef[model.support_] = model.dual_coef_
        gaps.append(subspace_gap(gram, coef, components))
    assert np.all(np.diff(gaps) < 0)
    assert gaps[-1] < 2e-3
    np.testing.assert_allclose(model.eigenvalues_, values / 80, rtol=2e-3)
    np.testing.assert_allclose(model.weights_, 1 / 80, rtol=5e-2)
    assert model.captured_ratio_ > 1 - 1e-6


def test_less_and_less_noise_in_ten_dimensions(cloud):
    """There fewer vectors than rows are enough, and the distance to kernel PCA goes as the noise.

    No model is likelier than the rows' own covariance; what the stopping rule leaves of that likelihood, a sum over 80
    rows, turns the subspace by its square root.
    """
    X = cloud[:, :3]
    gram, features = gram_of("poly", X, **POLY), poly_features(X, **POLY)
    log_volume = np.linalg.slogdet(features.T @ features / 80)[1]
    _, components, _ = exact_kernel_pca(gram, 4, center=False)
    for noise_variance in (1e-2, 1e-3, 1e-4):
        model = fitted(X, n_components=4, kernel="poly", noise_variance=noise_variance, **POLY)
        most = 40 * (10 * np.log(noise_variance) - log_volume - 10)
        left = most - model.log_likelihood_[-1]
        assert 0 < left < 1e-5 * abs(most)
        coef = np.zeros((80, 4))
        coef[model.support_] = model.dual_coef_
        assert subspace_gap(gram, coef, components) < max(noise_variance, 2 * np.sqrt(left / 80))
        assert model.n_support_ < 60


# The estimator: its density


def test_score_samples_are_the_density(poly_model, rows, cloud):
    """Rows far out and rows near: the kernel is unbounded."""
    new = np.vstack([cloud[50:, :3], 5 * cloud[50:60, :3], np.zeros((1, 3))])
    points = poly_features(rows[poly_model.support_], **POLY)
    truth = log_density(poly_features(new, **POLY), points, poly_model.weights_, 0.2)
    np.testing.assert_allclose(poly_model.score_samples(new), truth, rtol=1e-9)
    assert poly_model.score_samples(new)[30:40].max() < poly_model.score_samples(rows).min()


def test_centred_score_samples_are_the_density_about_the_mean(rows, cloud):
    """As much of the mean as the vectors can tell."""
    model = fitted(rows, kernel="poly", noise_variance=0.2, center=True, **POLY)
    points, new = poly_features(rows[model.support_], **POLY), cloud[50:, :3]
    span = np.linalg.qr(points.T)[0]
    mean = poly_features(rows, **POLY).mean(axis=0)
    truth = log_density(poly_features(new, **POLY) - span @ (span.T @ mean), points, model.weights_, 0.2)
    np.testing.assert_allclose(model.score_samples(new), truth, rtol=1e-8)


def test_the_centred_likelihood_is_the_density_about_the_mean(rows):
    model = fitted(rows, kernel="poly", noise_variance=0.2, center=True, **POLY)
    features = poly_features(rows, **POLY)
    truth = log_density(features - features.mean(axis=0), features[model.support_], model.weights_, 0.2)
    assert model.log_likelihood_[-1] == pytest.approx(truth.sum(), rel=1e-9)


@pytest.mark.parametrize("update", RULES)
@pytest.mark.parametrize("n_dictionary", [None, 25])
@pytest.mark.parametrize(
    ("times", "weights"),
    [
        (1, None),
        (3, None),
        (1, np.full(80, 2.0)),
        (1, np.r_[np.zeros(10), np.full(70, 2.0)]),
        (1, np.linspace(0, 3, 80)),
    ],
    ids=["plain", "every row three times", "weight 2", "weights 0 and 2", "weights"],
)
def test_the_scores_of_the_training_rows_add_up_to_their_likelihood(times, weights, n_dictionary, update, cloud):
    X = np.repeat(cloud, times, axis=0)
    model = LikelihoodKernelPCA(gamma=0.3, n_dictionary=n_dictionary, update=update, max_iter=60, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, sample_weight=weights)
    scores = model.score_samples(X)
    total = scores.sum() if weights is None else weights @ scores
    assert model.log_likelihood_[-1] == pytest.approx(total, rel=1e-9)


def test_novel_rows_score_low(digits):
    train, test = digits
    model = fitted(train[:300], noise_fraction=0.3)
    noise = np.random.default_rng(0).uniform(size=(100, 64))
    assert np.median(model.score_samples(noise)) < np.quantile(model.score_samples(test), 0.05)


def test_score_samples_of_a_precomputed_kernel(cloud, new_rows):
    gram, cross = gram_of("poly", cloud, **POLY), gram_of("poly", new_rows, cloud, **POLY)
    diagonal = np.diagonal(gram_of("poly", new_rows, **POLY))
    model, named = fitted(gram, kernel="precomputed"), fitted(cloud, kernel="poly", **POLY)
    np.testing.assert_allclose(model.score_samples(cross, diagonal=diagonal), named.score_samples(new_rows), rtol=1e-7)
    with pytest.raises(ValueError, match="diagonal="):
        model.score_samples(cross)
    with pytest.raises(ValueError, match=r"diagonal has shape \(3,\), expected \(30,\)"):
        model.score_samples(cross, diagonal=np.ones(3))


@pytest.mark.parametrize("noise_variance", [0.05, np.float64(0.05)], ids=["float", "numpy float"])
def test_score_samples_in_float32(noise_variance, cloud, new_rows):
    """float32 in, float32 out, whatever kind of number the noise variance is."""
    light = fitted(cloud.astype(np.float32), gamma=0.3, noise_variance=noise_variance)
    scores = light.score_samples(new_rows.astype(np.float32))
    full = fitted(cloud, gamma=0.3, noise_variance=noise_variance)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, full.score_samples(new_rows), rtol=1e-3)
    assert full.score_samples(new_rows).dtype == np.float64
