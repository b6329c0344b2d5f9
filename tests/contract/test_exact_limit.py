"""With all rows as support every sparse model is scikit-learn's KernelPCA; with fewer, its components are sound."""

from __future__ import annotations

import numpy as np
import pytest
from contract_cases import ROW_RULES
from oracles import KERNELS, assert_same_up_to_sign, exact_kernel_pca, gram_of
from sklearn.decomposition import PCA, KernelPCA

from kernelsieve import (
    SparseKernelPCA,
)

ALL = np.arange(80)  # every row of `cloud` as support


def exact_of(gram, cross, n_components, *, center):
    """Scores of training and new rows by scikit-learn (centred) or numpy (uncentred), and the eigenvalues."""
    if center:
        truth = KernelPCA(n_components, kernel="precomputed", eigen_solver="dense").fit(gram)
        return truth.transform(gram), truth.transform(cross), truth.eigenvalues_
    values, components, _ = exact_kernel_pca(gram, n_components, center=False)
    return gram @ components, cross @ components, values


def assert_equals_exact(model, rows, new, truth):
    train_scores, new_scores, eigenvalues = truth
    assert_same_up_to_sign(model.transform(rows), train_scores, 1e-8)
    assert_same_up_to_sign(model.transform(new), new_scores, 1e-8)
    np.testing.assert_allclose(model.eigenvalues_, eigenvalues, rtol=1e-9)
    np.testing.assert_allclose(model.explained_variance_, eigenvalues / len(rows), rtol=1e-9)


@pytest.mark.parametrize("center", [True, False], ids=["centred", "uncentred"])
@pytest.mark.parametrize("name", sorted(set(KERNELS) - {"sigmoid"}))
def test_all_rows_as_support_is_exact_kernel_pca(name, center, cloud, new_rows):
    params = KERNELS[name]
    model = SparseKernelPCA(4, selection=ALL, kernel=name, center=center, **params).fit(cloud)
    gram, cross = gram_of(name, cloud, **params), gram_of(name, new_rows, cloud, **params)
    assert_equals_exact(model, cloud, new_rows, exact_of(gram, cross, 4, center=center))
    assert model.captured_ratio_ == pytest.approx(1, abs=1e-9)
    total = np.trace(gram) / 80 - (gram.mean() if center else 0)
    assert model.explained_variance_ratio_.sum() == pytest.approx(model.explained_variance_.sum() / total, rel=1e-8)


@pytest.mark.parametrize("name", ["rbf", "poly", "linear", "cosine"])
def test_the_same_arguments_as_scikit_learns(name, cloud, new_rows):
    """The kernel parameters mean what they mean in scikit-learn, its default gamma included."""
    model = SparseKernelPCA(4, selection=ALL, kernel=name, gamma=None, degree=2, coef0=0.5).fit(cloud)
    theirs = KernelPCA(4, kernel=name, degree=2, coef0=0.5, eigen_solver="dense").fit(cloud)
    assert_same_up_to_sign(model.transform(new_rows), theirs.transform(new_rows), 1e-8)
    np.testing.assert_allclose(model.eigenvalues_, theirs.eigenvalues_, rtol=1e-9)


@pytest.mark.parametrize("center", [True, False], ids=["centred", "uncentred"])
def test_indefinite_kernel_is_scikit_learns_too(center, cloud, new_rows):
    """The sigmoid is not positive semi-definite: of its (centred) gram the leading eigenvectors are kept, all of
    positive eigenvalues, and the negative part is dropped, which the user is told."""
    gram, cross = (gram_of("sigmoid", rows, cloud, **KERNELS["sigmoid"]) for rows in (cloud, new_rows))
    assert np.linalg.eigvalsh(gram)[0] < -1e-3
    with pytest.warns(UserWarning, match=r"not positive semi-definite.*negative and was dropped"):
        model = SparseKernelPCA(4, selection=ALL, kernel="sigmoid", center=center, **KERNELS["sigmoid"]).fit(cloud)
    assert_equals_exact(model, cloud, new_rows, exact_of(gram, cross, 4, center=center))


@pytest.mark.parametrize("center", [True, False], ids=["centred", "uncentred"])
def test_precomputed_and_callables(center, cloud, new_rows):
    gram, cross = gram_of("rbf", cloud, gamma=0.3), gram_of("rbf", new_rows, cloud, gamma=0.3)
    truth = exact_of(gram, cross, 4, center=center)
    given = SparseKernelPCA(4, selection=ALL, kernel="precomputed", center=center).fit(gram)
    assert_equals_exact(given, gram, cross, truth)
    for function in (
        lambda X, Y: gram_of("rbf", X, Y, gamma=0.3),
        lambda x, y: float(np.exp(-0.3 * np.sum((x - y) ** 2))),
    ):
        model = SparseKernelPCA(4, selection=ALL, kernel=function, center=center).fit(cloud)
        assert_equals_exact(model, cloud, new_rows, truth)


def test_linear_kernel_is_pca(cloud, new_rows):
    model = SparseKernelPCA(4, kernel="linear", n_support=5).fit(cloud)
    assert_same_up_to_sign(model.transform(new_rows), PCA(4).fit(cloud).transform(new_rows), 1e-8)


def test_more_support_than_rows_is_exact_and_says_so(cloud, new_rows):
    with pytest.warns(UserWarning, match="n_support=200 is more than the 80 rows.*exact kernel PCA"):
        model = SparseKernelPCA(4, n_support=200, gamma=0.3).fit(cloud)
    gram, cross = gram_of("rbf", cloud, gamma=0.3), gram_of("rbf", new_rows, cloud, gamma=0.3)
    assert_equals_exact(model, cloud, new_rows, exact_of(gram, cross, 4, center=True))
    np.testing.assert_array_equal(np.sort(model.support_), ALL)


@pytest.mark.parametrize("n_support", [80, 1.0])
@pytest.mark.parametrize("selection", ["optimized", *ROW_RULES])
def test_every_rule_ends_in_exact_kernel_pca(selection, n_support, cloud, new_rows):
    model = SparseKernelPCA(3, n_support=n_support, selection=selection, gamma=0.3, random_state=0).fit(cloud)
    gram, cross = gram_of("rbf", cloud, gamma=0.3), gram_of("rbf", new_rows, cloud, gamma=0.3)
    assert_equals_exact(model, cloud, new_rows, exact_of(gram, cross, 3, center=True))


# Components, whatever the support


@pytest.mark.parametrize("selection", ["optimized", "kmeans", *ROW_RULES])
@pytest.mark.parametrize("name", ["rbf", "poly", "laplacian", "cosine", "linear"])
def test_components_are_orthonormal_and_scores_uncorrelated(name, selection, cloud):
    params = KERNELS[name]
    model = SparseKernelPCA(3, n_support=5, selection=selection, kernel=name, random_state=0, **params).fit(cloud)
    gram = gram_of(name, model.support_vectors_, **params)
    np.testing.assert_allclose(model.dual_coef_.T @ gram @ model.dual_coef_, np.eye(3), atol=1e-8)
    scores = model.transform(cloud)
    np.testing.assert_allclose(scores.mean(axis=0), 0, atol=1e-9 * np.abs(scores).max())
    variances = model.explained_variance_
    np.testing.assert_allclose(np.cov(scores.T, ddof=0), np.diag(variances), atol=1e-8 * variances[0])
    np.testing.assert_allclose(model.eigenvalues_, 80 * variances)
    by_hand = gram_of(name, cloud, model.support_vectors_, **params) @ model.dual_coef_ - model.offset_
    np.testing.assert_allclose(scores, by_hand, atol=1e-9 * np.abs(scores).max())
    exact = exact_kernel_pca(gram_of(name, cloud, **params), 3)[0].sum()
    assert model.eigenvalues_.sum() <= exact * (1 + 1e-10)
    assert model.captured_ratio_ == pytest.approx(model.eigenvalues_.sum() / exact, abs=1e-6)
    for row in model.support_ if model.support_ is not None else []:
        assert np.any(np.all(model.support_vectors_ == cloud[row], axis=1))
