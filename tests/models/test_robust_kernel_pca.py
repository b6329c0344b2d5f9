"""RobustSparseKernelPCA: outliers neither turn the components nor carry them.

Truth is kernel PCA of the clean rows alone, in the explicit feature map of a polynomial of degree 2.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse
from scipy.linalg import subspace_angles

from kernelsieve import ElasticNetKernelPCA, RobustSparseKernelPCA, load

POLY = {"kernel": "poly", "degree": 2, "gamma": 1.0, "coef0": 1.0}


def feature_map(rows):
    """phi with phi(x)'phi(y) = (x'y + 1)^2 in the plane."""
    a, b = np.asarray(rows).T
    root = np.sqrt(2)
    return np.column_stack([a * a, b * b, root * a * b, root * a, root * b, np.ones_like(a)])


def contaminated(share, seed=0, n=200):
    """Three clusters in the plane; the first rows are outliers far off."""
    rng = np.random.default_rng(seed)
    X = np.array([(-1, 0), (1, 0), (0, 1.5)])[rng.integers(0, 3, n)] + 0.2 * rng.standard_normal((n, 2))
    n_outliers = round(share * n)
    X[:n_outliers] = [6, -6] + 0.5 * rng.standard_normal((n_outliers, 2))
    return X, n_outliers


def angle_to_clean(model, X, n_outliers, n_components=2):
    """Degrees between the model's components and kernel PCA's of the clean rows."""
    clean = feature_map(X[n_outliers:])
    truth = np.linalg.svd(clean - clean.mean(axis=0), full_matrices=False)[2][:n_components].T
    components = feature_map(model.support_vectors_).T @ model.dual_coef_
    return float(np.degrees(subspace_angles(truth, components)[0]))


def fitted(X, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return RobustSparseKernelPCA(2, **{"random_state": 0, **POLY, **options}).fit(X)


@pytest.mark.parametrize("share", [0.05, 0.1, 0.2, 0.3])
def test_outliers_do_not_turn_the_components(share):
    for seed in range(3):
        X, k = contaminated(share, seed)
        plain = ElasticNetKernelPCA(2, n_nonzero=5, refit=True, random_state=0, **POLY).fit(X)
        robust = fitted(X, n_nonzero=5)
        assert angle_to_clean(plain, X, k) > 60
        assert angle_to_clean(robust, X, k) < 3


def test_clean_rows_are_as_by_the_plain_elastic_net():
    X, _ = contaminated(0.0)
    robust, plain = fitted(X, n_nonzero=5), ElasticNetKernelPCA(2, n_nonzero=5, refit=True, **POLY).fit(X)
    assert angle_to_clean(robust, X, 0) < angle_to_clean(plain, X, 0) + 3
    assert robust.outliers_.mean() < 0.05


def test_outliers_are_named_and_are_no_support():
    X, k = contaminated(0.2)
    model = fitted(X)
    np.testing.assert_array_equal(np.flatnonzero(model.outliers_), np.arange(k))
    np.testing.assert_array_equal(model.outliers_, model.weights_ < 0.5)
    assert np.all(model.support_ >= k)
    assert np.all((model.weights_ >= 0) & (model.weights_ <= 1))


def test_predict_and_scores_of_new_rows():
    X, _ = contaminated(0.2)
    new, k_new = contaminated(0.5, seed=9)
    model = fitted(X)
    predicted = model.predict(new)
    assert np.all(predicted[:k_new] == -1)
    assert np.mean(predicted[k_new:] == 1) > 0.9
    np.testing.assert_allclose(model.score_samples(new), -np.sqrt(model.reconstruction_error(new)))
    np.testing.assert_allclose(model.decision_function(new), model.score_samples(new) + model.cutoff_)


def test_the_frozen_weights_make_the_moments():
    """Given its weights, the refitted model is weighted kernel PCA on its support."""
    X, _ = contaminated(0.1)
    model = fitted(X, n_nonzero=6)
    w = model.weights_
    support, rows = feature_map(model.support_vectors_), feature_map(X)
    basis = np.linalg.qr(support.T)[0][:, : np.linalg.matrix_rank(support)]
    inside = rows @ basis
    centred = inside - w @ inside / w.sum()
    values, vectors = np.linalg.eigh(centred.T @ (centred * w[:, None]) / w.sum())
    truth = basis @ vectors[:, ::-1][:, :2]
    components = support.T @ model.dual_coef_
    np.testing.assert_allclose(np.abs(np.sum(truth * components, axis=0)), 1, atol=1e-6)
    np.testing.assert_allclose(model.explained_variance_, values[::-1][:2], rtol=1e-6)


def test_far_rows_are_not_cheap():
    """The penalty of a candidate grows with its length in feature space."""
    X, _ = contaminated(0.1)
    model = fitted(X)
    penalty = model._penalty(*model._path_span(X, None))
    lengths = np.linalg.norm(feature_map(X), axis=1)
    inliers = ~model.outliers_
    np.testing.assert_allclose(penalty[inliers], lengths[inliers], rtol=1e-8)
    assert np.all(np.isinf(penalty[model.outliers_]))


@pytest.mark.parametrize("kind", ["dictionary", "blocks", "function"])
def test_rows_through_a_dictionary_and_in_blocks(kind):
    X, k = contaminated(0.1, n=3000)
    given = {"dictionary": X, "blocks": [X[:1000], X[1000:]], "function": lambda: iter([X[:700], X[700:]])}[kind]
    model = fitted(given, n_dictionary=100)
    assert model.outliers_[:k].all()
    assert model.outliers_[k:].mean() < 0.05
    assert np.all(model.support_ >= k)
    assert angle_to_clean(model, X, k) < 25


def test_blocks_give_what_the_rows_in_memory_give():
    X, _ = contaminated(0.1, n=3000)
    here, there = fitted(X, n_dictionary=50), fitted([X[:1000], X[1000:]], n_dictionary=50)
    np.testing.assert_allclose(there.weights_, here.weights_, atol=1e-8)
    np.testing.assert_allclose(there.transform(X[:100]), here.transform(X[:100]), atol=1e-8)


def test_dask_rows_give_what_the_rows_in_memory_give():
    da = pytest.importorskip("dask.array")
    X, _ = contaminated(0.1, n=3000)
    here, there = fitted(X, n_dictionary=50), fitted(da.from_array(X, chunks=(900, 2)), n_dictionary=50)
    np.testing.assert_allclose(there.weights_, here.weights_, atol=1e-8)


def test_a_precomputed_gram():
    X, k = contaminated(0.1)
    gram = (X @ X.T + 1) ** 2
    model = fitted(gram, kernel="precomputed", n_nonzero=5)
    assert model.outliers_[:k].all()
    assert np.all(model.support_ >= k)
    np.testing.assert_array_equal(model.predict(gram, diagonal=np.diagonal(gram))[:k], -1)
    with pytest.raises(ValueError, match="diagonal="):
        model.predict(gram)


def test_float32_and_sparse_rows():
    X, k = contaminated(0.1)
    light = fitted(X.astype(np.float32), n_nonzero=5)
    assert light.transform(X.astype(np.float32)).dtype == np.float32
    assert light.outliers_[:k].all()
    sparse = fitted(scipy.sparse.csr_matrix(X), n_nonzero=5)
    assert sparse.outliers_[:k].all()


def test_saved_and_loaded(tmp_path):
    X, _ = contaminated(0.1)
    model = fitted(X)
    model.save(tmp_path / "model.ks")
    again = load(tmp_path / "model.ks")
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.weights_, model.weights_)


def test_more_outliers_than_rows_is_said():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 2)) * [1.0, 0.02]
    X[:45, 1] += rng.uniform(3, 9, 45)
    with pytest.warns(UserWarning, match="the weights rule out"):
        RobustSparseKernelPCA(1, kernel="linear", random_state=0).fit(X)


def test_bad_input_leaves_no_half_fit():
    X, _ = contaminated(0.1)
    broken = X.copy()
    broken[17, 1] = np.nan
    model = RobustSparseKernelPCA(2, **POLY)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(broken)
    assert not hasattr(model, "weights_")
    with pytest.raises(ValueError, match="all the same to this kernel"):
        RobustSparseKernelPCA(2, **POLY).fit(np.ones((20, 2)))
