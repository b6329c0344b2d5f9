"""ElasticNetKernelPCA solves the criterion as printed, by brute force: its minimiser, sizes, weights and passes."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from elastic_net_cases import (
    RBF,
    TIGHT,
    Criterion,
    assert_solves,
    by_component,
    centrings,
    sparsities,
    whole_coef,
)
from oracles import KERNELS, assert_same_up_to_sign, exact_kernel_pca, gram_of, three_clusters

from kernelsieve import ElasticNetKernelPCA

# The criterion


def test_the_criterion_as_printed(cloud):
    """J = 1/2 |K^1/2 p - K^1/2 q|^2 + (l2/2)|q|^2 + alpha |a|_1 with symmetric roots, p = K^1/2 b, q = K^1/2 a."""
    alphas, l2, gram = np.array([0.4, 0.2, 0.3]), 0.05, gram_of("rbf", cloud, **RBF)
    model = ElasticNetKernelPCA(3, alpha=alphas, l2=l2, alpha_scale="absolute", center=False, tol=TIGHT, **RBF)
    model.fit(cloud)
    criterion = Criterion(gram, 3, l2, center=False)
    a = criterion.stretched(whole_coef(model, 80), by_component(alphas))
    values, vectors = np.linalg.eigh(gram)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    p, q = root @ criterion.b, root @ a
    np.testing.assert_allclose(p.T @ p, np.eye(3), atol=1e-8)
    fit, ridge = 0.5 * np.sum((root @ p - root @ q) ** 2), 0.5 * l2 * np.sum(q**2)
    assert model.objective_ == pytest.approx([fit + ridge + np.sum(alphas * np.abs(a))], rel=1e-8)
    np.testing.assert_array_equal(model.alpha_, alphas)
    assert model.l2_ == l2


@sparsities
@centrings
@pytest.mark.parametrize("name", ["rbf", "poly", "linear", "laplacian"])
def test_the_minimiser(name, center, sparsity, cloud):
    gram = gram_of(name, cloud, **KERNELS[name])
    options = {"kernel": name, "center": center, "sparsity": sparsity, "tol": TIGHT, **KERNELS[name]}
    model = ElasticNetKernelPCA(3, alpha=0.1, l2=1e-2, **options).fit(cloud)
    top = exact_kernel_pca(gram, 1, center=center)[0][0]
    assert model.l2_ == pytest.approx(1e-2 * top)
    criterion = Criterion(gram, 3, model.l2_, center=center)
    if sparsity == "component":
        np.testing.assert_allclose(model.alpha_max_, criterion.alpha_max, rtol=1e-6)
    else:
        largest = np.linalg.norm(criterion.scatter @ criterion.b, axis=1).max()
        np.testing.assert_allclose(model.alpha_max_, [largest] * 3, rtol=1e-6)
    np.testing.assert_allclose(model.alpha_, 0.1 * model.alpha_max_)
    assert_solves(criterion, model, 80, sparsity)
    assert model.converged_
    assert model.n_iter_ == 1
    assert np.all(model.dual_gap_ <= TIGHT)


def test_l2_of_zero(cloud):
    model = ElasticNetKernelPCA(2, l2=0.0, tol=TIGHT, **RBF).fit(cloud)
    assert_solves(Criterion(gram_of("rbf", cloud, **RBF), 2, 0.0, center=True), model, 80)


def test_the_published_counts():
    """Exact minimiser at the paper's settings for its 90 points (METHODS section 4)."""
    alphas = (0.02, 0.02, 0.009, 0.008, 0.006, 0.007, 0.01, 0.01)
    options = {"alpha": alphas, "l2": 0.1, "alpha_scale": "absolute", "gamma": 10.0, "center": False}
    model = ElasticNetKernelPCA(8, **options).fit(three_clusters())
    np.testing.assert_array_equal(model.n_nonzero_, [10, 16, 20, 17, 15, 13, 15, 13])


# Components


@sparsities
@centrings
def test_components_and_their_scores(center, sparsity, cloud, new_rows):
    model = ElasticNetKernelPCA(3, alpha=0.15, center=center, sparsity=sparsity, **RBF).fit(cloud)
    gram, coef = gram_of("rbf", cloud, **RBF), whole_coef(model, 80)
    np.testing.assert_array_equal(np.count_nonzero(coef, axis=0), model.n_nonzero_)
    assert np.all(model.n_nonzero_ < 40)
    np.testing.assert_array_equal(model.support_, np.flatnonzero(coef.any(axis=1)))  # ascending, none idle
    if sparsity == "component":
        assert model.n_support_ > model.n_nonzero_.max()
    else:
        np.testing.assert_array_equal(model.n_nonzero_, [model.n_support_] * 3)
    np.testing.assert_array_equal(model.support_vectors_, cloud[model.support_])
    np.testing.assert_allclose(np.diagonal(coef.T @ gram @ coef), 1, atol=1e-10)
    assert np.all(coef[np.argmax(np.abs(coef), axis=0), np.arange(3)] > 0)
    scores = model.transform(cloud)
    spread = np.var(scores, axis=0) if center else np.mean(scores**2, axis=0)
    if center:
        np.testing.assert_allclose(scores.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(model.explained_variance_, spread, rtol=1e-9)
    np.testing.assert_allclose(model.eigenvalues_, 80 * spread, rtol=1e-9)
    total = np.mean(np.diagonal(gram)) - (gram.mean() if center else 0)
    values, vectors = np.linalg.eigh(gram)
    features = vectors * np.sqrt(np.maximum(values, 0))  # of the rows: what a component adds is along its part outside
    features = features - features.mean(axis=0) if center else features
    added = features @ np.linalg.qr((vectors * np.sqrt(np.maximum(values, 0))).T @ coef)[0]
    np.testing.assert_allclose(model.explained_variance_ratio_, np.mean(added**2, axis=0) / total, rtol=1e-7)
    by_hand = gram_of("rbf", new_rows, cloud, **RBF) @ coef
    by_hand -= (gram @ coef).mean(axis=0) if center else 0
    np.testing.assert_allclose(model.transform(new_rows), by_hand, atol=1e-12)


def test_little_penalty_is_kernel_pca(cloud):
    """Uncentred: about the mean, one direction of the rows' span has no variance and costs nothing without l2."""
    model = ElasticNetKernelPCA(3, alpha=1e-7, l2=0.0, center=False, **RBF).fit(cloud)
    _, components, _ = exact_kernel_pca(gram_of("rbf", cloud, **RBF), 3, center=False)
    assert_same_up_to_sign(model.transform(cloud), gram_of("rbf", cloud, **RBF) @ components, 1e-4)
    assert model.captured_ratio_ == pytest.approx(1, abs=1e-6)


def test_an_alpha_for_each_component(cloud):
    both = ElasticNetKernelPCA(2, alpha=[0.05, 0.4], tol=TIGHT, **RBF).fit(cloud)
    alone = [ElasticNetKernelPCA(2, alpha=alpha, tol=TIGHT, **RBF).fit(cloud) for alpha in (0.05, 0.4)]
    assert both.n_nonzero_[0] > both.n_nonzero_[1]
    for k in range(2):
        np.testing.assert_allclose(whole_coef(both, 80)[:, k], whole_coef(alone[k], 80)[:, k], atol=1e-9)


@pytest.mark.parametrize(("offset", "warned"), [(0, False), (3, False), (30, True)])
def test_components_with_the_scores_of_those_before_them_are_named(offset, warned):
    """Sparse components of rows far from the origin keep the direction of the mean, and had correlated scores."""
    rows = np.random.default_rng(0).standard_normal((300, 5)) * [3, 2, 1, 1, 0.5] + offset
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scores = ElasticNetKernelPCA(3, kernel="linear").fit(rows).transform(rows)
    correlated = np.abs(np.corrcoef(scores.T)[0, 1:]).max() > 0.7
    told = any(re.search(r"component\(s\) 1, 2 are mostly .*Subtract the mean", str(one.message)) for one in caught)
    assert (correlated, told) == (warned, warned)


@pytest.mark.parametrize("seed", [0, 2, 3])
@sparsities
def test_components_of_nearly_one_direction_are_counted_once_and_named(sparsity, seed):
    """Far from the origin all rows have nearly one direction, and so has what a large alpha leaves of any component."""
    rows = np.random.default_rng(seed).standard_normal((300, 2)) + 1e4
    model = ElasticNetKernelPCA(2, kernel="poly", sparsity=sparsity)
    with pytest.warns(UserWarning, match=r"component\(s\) 1 have nearly the direction of those before"):
        model.fit(rows)
    assert np.corrcoef(model.transform(rows).T)[0, 1] ** 2 > 0.99
    truth = exact_kernel_pca(gram_of("poly", rows, gamma=model.gamma_, degree=3, coef0=1), 2)[0]
    share = model.explained_variance_ratio_
    assert share[0] == pytest.approx(truth[0] / truth.sum(), abs=1e-3)
    # two rows span the plane that all rows lie in, to rounding; one row is one direction
    assert share[1] == pytest.approx(truth[1] / truth.sum() if model.n_support_ == 2 else 0.0, abs=1e-3)
    assert share.sum() <= 1 + 1e-9
    assert model.captured_ratio_ <= 1


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "cosine", "laplacian"])
@pytest.mark.parametrize("offset", [0.0, 3.0, 100.0])
def test_shares_are_shares_for_any_penalty(kernel, offset, cloud):
    for options in ({"alpha": 0.5}, {"alpha": 0.01}, {"n_nonzero": 2}, {"alpha": 0.1, "max_iter": 5}):
        model = ElasticNetKernelPCA(2, kernel=kernel, gamma=0.3, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(cloud + offset)
        share = model.explained_variance_ratio_
        assert share.min() >= 0
        assert share.sum() <= 1 + 1e-6  # kernel values of 1e15 keep so much of their differences
