"""ElasticNetKernelPCA on candidates from rows of every kind, and what is done with its components."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from elastic_net_cases import RBF, TIGHT, Criterion, assert_same_model, assert_solves, centrings, sparsities, whole_coef
from oracles import KERNELS, exact_kernel_pca, gram_of
from sklearn.base import clone

from kernelsieve import ElasticNetKernelPCA, SparseKernelPCA

# Candidates, wherever they come from


@sparsities
@centrings
@pytest.mark.parametrize("weighted", [False, True])
def test_both_kinds_of_dictionary(weighted, center, sparsity, cloud, new_rows):
    """A function is not known to be positive definite, so all rows are summed up over all rows."""
    weights = np.random.default_rng(0).uniform(0, 2, 80) if weighted else None
    options = {"center": center, "sparsity": sparsity, "tol": TIGHT}
    own = ElasticNetKernelPCA(3, **options, **RBF).fit(cloud, sample_weight=weights)
    kernel = lambda X, Y: gram_of("rbf", X, Y, **RBF)  # noqa: E731
    summed = ElasticNetKernelPCA(3, kernel=kernel, **options).fit(cloud, sample_weight=weights)
    np.testing.assert_array_equal(summed.support_, own.support_)
    np.testing.assert_allclose(summed.dual_coef_, own.dual_coef_, atol=1e-7)
    assert_same_model(own, summed, new_rows)


@centrings
def test_a_few_candidates(center):
    """Kernel PCA on the candidates' span is imitated, and only candidates are support."""
    X = np.random.default_rng(0).standard_normal((300, 3))
    options = {"n_dictionary": 25, "center": center, "random_state": 0, "tol": TIGHT, **RBF}
    model = ElasticNetKernelPCA(2, alpha=1e-3, refit=True, **options).fit(X)
    assert 10 < model.n_support_ <= 25
    truth = SparseKernelPCA(2, selection=model.support_, center=center, **RBF).fit(X)
    np.testing.assert_allclose(model.transform(X), truth.transform(X), atol=1e-7)
    model = ElasticNetKernelPCA(2, alpha=0.1, **options).fit(X)
    assert model.n_support_ < truth.n_support_
    scores = model.transform(X)
    spread = np.var(scores, axis=0) if center else np.mean(scores**2, axis=0)
    np.testing.assert_allclose(model.explained_variance_, spread, rtol=1e-7)
    np.testing.assert_allclose(scores.mean(axis=0) * center, 0, atol=1e-9)
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])


@centrings
def test_precomputed_and_row_pairs(center, cloud, new_rows):
    options = {"center": center, "tol": TIGHT}
    truth = ElasticNetKernelPCA(3, **options, **RBF).fit(cloud)
    gram, cross = gram_of("rbf", cloud, **RBF), gram_of("rbf", new_rows, cloud, **RBF)
    given = ElasticNetKernelPCA(3, kernel="precomputed", **options).fit(gram)
    pairs = ElasticNetKernelPCA(3, kernel=lambda x, y: float(np.exp(-0.3 * np.sum((x - y) ** 2))), **options).fit(cloud)
    assert_same_model(truth, pairs, new_rows)
    np.testing.assert_array_equal(given.support_, truth.support_)
    for columns in (cross, cross[:, given.support_]):
        np.testing.assert_allclose(given.transform(columns), truth.transform(new_rows), atol=1e-7)
    errors = given.reconstruction_error(cross, diagonal=np.ones(30))
    np.testing.assert_allclose(errors, truth.reconstruction_error(new_rows), atol=1e-7)
    assert given.score(cross, diagonal=np.ones(30)) == pytest.approx(truth.score(new_rows))
    assert given.captured_ratio_ == pytest.approx(truth.captured_ratio_)


@centrings
def test_indefinite_kernel(center, cloud):
    """Of the sigmoid the positive part is imitated; the user is told of the rest."""
    gram = gram_of("sigmoid", cloud, **KERNELS["sigmoid"])
    values, vectors = np.linalg.eigh(gram)
    kept = values > -values[0]
    positive = (vectors[:, kept] * values[kept]) @ vectors[:, kept].T
    with pytest.warns(UserWarning, match=r"not positive semi-definite.*negative and was dropped"):
        model = ElasticNetKernelPCA(2, kernel="sigmoid", center=center, tol=TIGHT, **KERNELS["sigmoid"]).fit(cloud)
    assert_solves(Criterion(positive, 2, model.l2_, center=center), model, 80)
    coef = whole_coef(model, 80)
    np.testing.assert_allclose(np.diagonal(coef.T @ positive @ coef), 1, atol=1e-8)
    assert np.all(np.isfinite(model.transform(cloud)))


@pytest.mark.parametrize("n_dictionary", [None, 30])
def test_sparse_rows(n_dictionary, cloud, new_rows):
    rows, new = (np.where(X > 0, X, 0.0) for X in (cloud, new_rows))
    model = ElasticNetKernelPCA(2, n_dictionary=n_dictionary, random_state=0, tol=TIGHT, **RBF)
    dense, sparse = clone(model).fit(rows), clone(model).fit(scipy.sparse.csr_matrix(rows))
    assert scipy.sparse.issparse(sparse.support_vectors_)
    np.testing.assert_array_equal(sparse.support_, dense.support_)
    np.testing.assert_allclose(sparse.transform(scipy.sparse.csr_matrix(new)), dense.transform(new), atol=1e-7)


@pytest.mark.parametrize("n_dictionary", [None, 30])
@pytest.mark.parametrize("refit", [False, True])
def test_float32(refit, n_dictionary, cloud, new_rows):
    options = {"alpha": 0.2, "refit": refit, "n_dictionary": n_dictionary, "random_state": 0, **RBF}
    full = ElasticNetKernelPCA(2, **options).fit(cloud)
    light = ElasticNetKernelPCA(2, **options).fit(cloud.astype(np.float32))
    scores = light.transform(new_rows.astype(np.float32))
    assert scores.dtype == np.float32
    assert light.support_vectors_.dtype == np.float32
    assert light.dual_coef_.dtype == np.float64
    np.testing.assert_allclose(scores, full.transform(new_rows), atol=1e-4)
    np.testing.assert_allclose(light.explained_variance_, full.explained_variance_, rtol=1e-4)
    for values in (light.reconstruction_error(new_rows.astype(np.float32)), light.inverse_transform(scores)):
        assert values.dtype == np.float32


@sparsities
@pytest.mark.parametrize("n_dictionary", [None, 30])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_in_blocks(weighted, n_dictionary, sparsity, cloud, new_rows):
    weights = np.random.default_rng(0).integers(1, 4, 80).astype(float) if weighted else None
    model = ElasticNetKernelPCA(2, n_dictionary=n_dictionary, sparsity=sparsity, random_state=0, tol=TIGHT, **RBF)
    here = clone(model).fit(cloud, sample_weight=weights)
    blocks = clone(model).fit([cloud[:30], cloud[30:]], sample_weight=weights)
    assert_same_model(here, blocks, new_rows)
    np.testing.assert_array_equal(blocks.support_, here.support_)
    assert blocks.n_samples_seen_ == 80
    scores = np.concatenate(list(blocks.transform([new_rows[:7], new_rows[7:]])))
    np.testing.assert_allclose(scores, here.transform(new_rows), atol=1e-7)


@pytest.mark.parametrize("n_dictionary", [None, 30])
def test_rows_in_dask(n_dictionary, cloud, new_rows):
    dask = pytest.importorskip("dask.array")
    model = ElasticNetKernelPCA(2, n_dictionary=n_dictionary, random_state=0, tol=TIGHT, **RBF)
    here, lazy = clone(model).fit(cloud), clone(model).fit(dask.from_array(cloud, chunks=(25, -1)))
    assert_same_model(here, lazy, new_rows)
    np.testing.assert_array_equal(lazy.support_, here.support_)
    scores = lazy.transform(dask.from_array(new_rows, chunks=(9, -1)))
    np.testing.assert_allclose(scores.compute(), here.transform(new_rows), atol=1e-7)


# Components that are not orthogonal


def polynomial_features(X, gamma):
    """phi with phi(x)'phi(y) = (gamma x'y + 1)^2."""
    squares = gamma * np.einsum("ni,nj->nij", X, X).reshape(len(X), -1)
    return np.column_stack([np.ones(len(X)), np.sqrt(2 * gamma) * X, squares])


@centrings
def test_projections_in_an_explicit_feature_space(center, cloud, new_rows):
    gamma = 0.4
    model = ElasticNetKernelPCA(3, alpha=0.3, kernel="poly", degree=2, gamma=gamma, coef0=1, center=center).fit(cloud)
    train, new, points = (polynomial_features(X, gamma) for X in (cloud, new_rows, model.support_vectors_))
    components = points.T @ model.dual_coef_
    overlap = components.T @ components
    assert np.abs(overlap - np.eye(3)).max() > 0.05  # else there would be nothing to test
    basis, _ = np.linalg.qr(components)
    span, _ = np.linalg.qr(points.T)
    mean = span @ (span.T @ train.mean(axis=0)) if center else np.zeros(train.shape[1])
    distances = np.sum((new - mean) ** 2, axis=1)
    captured = np.sum(((new - mean) @ basis) ** 2, axis=1)
    np.testing.assert_allclose(model.reconstruction_error(new_rows), distances - captured, rtol=1e-9)
    # variance is about the mean itself, whose part outside of the points' span every distance to its projection holds
    outside = np.sum((train.mean(axis=0) - mean) ** 2) if center else 0.0
    assert model.score(new_rows) == pytest.approx(captured.sum() / (distances - outside).sum(), rel=1e-9)
    kept = (train - mean) @ basis
    variance = np.var(kept, axis=0).sum() if center else np.mean(kept**2, axis=0).sum()
    exact = exact_kernel_pca(train @ train.T, 3, center=center)[0].sum() / 80
    assert model.captured_ratio_ == pytest.approx(variance / exact, rel=1e-9)
    np.testing.assert_allclose(model.transform(new_rows), (new - (train.mean(axis=0) if center else 0)) @ components)


@centrings
def test_inverse_transform_of_the_linear_kernel(center, cloud, new_rows):
    """The projection on the components, which are rows' combinations, about the mean."""
    model = ElasticNetKernelPCA(2, alpha=0.2, kernel="linear", center=center).fit(cloud)
    components = model.support_vectors_.T @ model.dual_coef_
    assert abs(components[:, 0] @ components[:, 1]) > 0.01
    span, _ = np.linalg.qr(model.support_vectors_.T)
    mean = span @ (span.T @ cloud.mean(axis=0)) if center else np.zeros(5)
    basis, _ = np.linalg.qr(components)
    truth = mean + (new_rows - mean) @ basis @ basis.T
    np.testing.assert_allclose(model.inverse_transform(model.transform(new_rows)), truth, atol=1e-10)
    np.testing.assert_allclose(np.sum((new_rows - truth) ** 2, axis=1), model.reconstruction_error(new_rows))


def test_inverse_transform_of_the_gaussian(cloud):
    """A row that the components describe well comes back near to itself."""
    model = ElasticNetKernelPCA(6, alpha=0.02, gamma=0.02).fit(cloud)
    back = model.inverse_transform(model.transform(cloud))
    assert np.mean((back - cloud) ** 2) < 0.1 * np.mean((cloud - cloud.mean(axis=0)) ** 2)


def test_components_that_repeat_each_other_count_once(cloud, new_rows):
    model = ElasticNetKernelPCA(2, **RBF).fit(cloud)
    once = model.expansion_
    twice = replace(once, coef=once.coef[:, [0, 1, 0]], offset=once.offset[[0, 1, 0]])
    assert twice.orthonormal.n_components == 2
    np.testing.assert_allclose(twice.reconstruction_error(new_rows), once.reconstruction_error(new_rows), atol=1e-10)
    vectors = [e.weights_of(e.transform(new_rows)) @ e.coef.T for e in (once, twice)]
    np.testing.assert_allclose(vectors[1], vectors[0], atol=1e-8)
    assert model.expansion_.orthonormal is model.expansion_.orthonormal.orthonormal
    refitted = ElasticNetKernelPCA(2, refit=True, **RBF).fit(cloud).expansion_
    assert refitted.orthonormal is refitted


def test_refitted_components_are_the_same_in_a_tiny_unit(cloud):
    """Whether a direction has variance is asked of its share of the largest, not of its size."""
    in_units = [ElasticNetKernelPCA(2, kernel="linear", n_nonzero=6, refit=True).fit(cloud * s) for s in (1.0, 1e-12)]
    expected, found = (model.explained_variance_ for model in in_units)
    np.testing.assert_allclose(found, expected * 1e-24, rtol=1e-6)
