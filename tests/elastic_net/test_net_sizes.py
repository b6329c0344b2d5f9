"""ElasticNetKernelPCA: as many nonzeros as asked for, on any number of rows, down to none at all."""

from __future__ import annotations

import numpy as np
import pytest
from elastic_net_cases import RBF, TIGHT, Criterion, assert_same_model, assert_solves, centrings, sparsities
from oracles import KERNELS, gram_of, three_clusters
from sklearn.base import clone

from kernelsieve import ElasticNetKernelPCA

# Sizes


def rows_by_name():
    rng = np.random.default_rng(5)
    line = rng.uniform(-1, 1, (200, 1)) @ np.ones((1, 2)) + 0.1 * rng.standard_normal((200, 2))
    return {"clusters": three_clusters(), "line": line}


@sparsities
@pytest.mark.parametrize("n_nonzero", [1, 3, 8, 15])
@pytest.mark.parametrize("name", ["clusters", "line"])
def test_never_more_nonzeros_than_asked_for(name, n_nonzero, sparsity):
    """A line's kernel is so smooth that solutions with more nonzeros are as good to any tolerance."""
    X = rows_by_name()[name]
    for gamma in ("median", 5.0):
        model = ElasticNetKernelPCA(3, n_nonzero=n_nonzero, sparsity=sparsity, gamma=gamma).fit(X)
        assert np.all(model.n_nonzero_ <= n_nonzero)
        assert np.all(model.n_nonzero_ >= 1)
        assert model.converged_


@centrings
def test_the_nonzeros_asked_for_are_reached(center, cloud):
    options = {"center": center, **RBF}
    model = ElasticNetKernelPCA(3, n_nonzero=7, **options).fit(cloud)
    np.testing.assert_array_equal(model.n_nonzero_, [7, 7, 7])
    each = ElasticNetKernelPCA(3, n_nonzero=[4, 9, 12], **options).fit(cloud)
    np.testing.assert_array_equal(each.n_nonzero_, [4, 9, 12])
    joint = ElasticNetKernelPCA(3, n_nonzero=9, sparsity="joint", **options).fit(cloud)
    np.testing.assert_array_equal(joint.n_nonzero_, [9, 9, 9])
    assert joint.n_support_ == 9


@sparsities
def test_a_size_is_an_alpha(sparsity, cloud):
    """What n_nonzero finds is the solution for the alpha it reports."""
    options = {"sparsity": sparsity, "tol": TIGHT, **RBF}
    sized = ElasticNetKernelPCA(3, n_nonzero=8, **options).fit(cloud)
    assert_solves(Criterion(gram_of("rbf", cloud, **RBF), 3, sized.l2_, center=True), sized, 80, sparsity)
    shares = sized.alpha_ / sized.alpha_max_
    assert np.all((shares > 0) & (shares < 1))
    by_alpha = ElasticNetKernelPCA(3, alpha=shares if sparsity == "component" else shares[0], **options).fit(cloud)
    np.testing.assert_array_equal(by_alpha.support_, sized.support_)
    np.testing.assert_allclose(by_alpha.dual_coef_, sized.dual_coef_, atol=1e-7)
    np.testing.assert_allclose(by_alpha.objective_, sized.objective_, rtol=1e-9)


def test_more_nonzeros_than_rows(cloud):
    model = ElasticNetKernelPCA(2, n_nonzero=1000, **RBF).fit(cloud)
    assert np.all(model.n_nonzero_ <= 80)
    assert model.captured_ratio_ > 0.999


@sparsities
@centrings
def test_relative_weights_mean_the_same_for_any_number_of_rows(center, sparsity, cloud, new_rows):
    model = ElasticNetKernelPCA(3, center=center, sparsity=sparsity, tol=TIGHT, **RBF)
    once = clone(model).fit(cloud)
    assert_same_model(once, clone(model).fit(np.repeat(cloud, 3, axis=0)), new_rows, times=3)
    assert_same_model(once, clone(model).fit(cloud, sample_weight=np.full(80, 3.0)), new_rows, times=3)
    assert_same_model(once, clone(model).fit(cloud, sample_weight=np.full(80, 0.01)), new_rows, times=0.01)


@sparsities
@centrings
def test_a_weight_is_a_repetition(center, sparsity, cloud, new_rows):
    counts = np.random.default_rng(0).integers(0, 4, 80)
    model = ElasticNetKernelPCA(3, center=center, sparsity=sparsity, tol=TIGHT, **RBF)
    weighted = clone(model).fit(cloud, sample_weight=counts)
    repeated = clone(model).fit(np.repeat(cloud, counts, axis=0))
    assert_same_model(weighted, repeated, new_rows)
    assert np.all(counts[weighted.support_] > 0)
    assert weighted.n_samples_seen_ == 80


@pytest.mark.parametrize("counts", [np.full(80, 2), np.repeat([2, 1], 40)], ids=["every row", "some rows"])
def test_copies_in_the_criterion_as_printed(counts, cloud):
    """The gram of all rows, copies included, with the coefficients on the first of each."""
    rows = np.repeat(cloud, counts, axis=0)
    options = {"alpha": 0.8, "l2": 0.02, "alpha_scale": "absolute", "tol": TIGHT, **RBF}
    model = ElasticNetKernelPCA(3, **options).fit(rows)
    assert len(np.unique(rows[model.support_], axis=0)) == model.n_support_
    assert_solves(Criterion(gram_of("rbf", rows, **RBF), 3, 0.02, center=True), model, len(rows))


def test_weights_in_the_criterion(cloud):
    weights = np.random.default_rng(3).uniform(0.1, 3, 80)
    model = ElasticNetKernelPCA(3, tol=TIGHT, **RBF).fit(cloud, sample_weight=weights)
    criterion = Criterion(gram_of("rbf", cloud, **RBF), 3, model.l2_, center=True, weights=weights)
    assert_solves(criterion, model, 80)
    np.testing.assert_allclose(np.average(model.transform(cloud), axis=0, weights=weights), 0, atol=1e-10)


# Nothing left


@centrings
@pytest.mark.parametrize("name", ["rbf", "linear", "poly"])
def test_one_component_of_zeros(name, center, cloud, new_rows):
    options = {"kernel": name, "center": center, **KERNELS[name]}
    with pytest.warns(UserWarning, match=r"component\(s\) 1 are zero, and so are their scores: alpha is at or above"):
        model = ElasticNetKernelPCA(3, alpha=[0.1, 1.0, 0.1], **options).fit(cloud)
    others = ElasticNetKernelPCA(3, alpha=0.1, **options).fit(cloud)
    np.testing.assert_array_equal(model.n_nonzero_, others.n_nonzero_ * [1, 0, 1])
    scores = model.transform(new_rows)
    np.testing.assert_array_equal(scores[:, 1], 0)
    np.testing.assert_allclose(scores[:, [0, 2]], others.transform(new_rows)[:, [0, 2]], atol=1e-10)
    assert model.explained_variance_[1] == 0
    assert 0 < model.score(new_rows) <= others.score(new_rows)
    assert 0 < model.captured_ratio_ < others.captured_ratio_
    for values in (model.reconstruction_error(new_rows), model.inverse_transform(scores), model.dual_gap_):
        assert np.all(np.isfinite(values))


@sparsities
@centrings
@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.parametrize("name", ["rbf", "linear", "poly"])
def test_nothing_but_zeros(name, refit, center, sparsity, cloud, new_rows):
    options = {"kernel": name, "center": center, "refit": refit, "sparsity": sparsity, **KERNELS[name]}
    with pytest.warns(UserWarning, match=r"component\(s\) 0, 1 are zero.*Give a smaller alpha, or n_nonzero"):
        model = ElasticNetKernelPCA(2, alpha=1.5, **options).fit(cloud)
    np.testing.assert_array_equal(model.n_nonzero_, 0)
    np.testing.assert_array_equal(model.transform(new_rows), np.zeros((30, 2)))
    np.testing.assert_array_equal(model.explained_variance_, 0)
    np.testing.assert_array_equal(model.dual_coef_, 0)
    assert model.score(new_rows) == 0
    assert model.captured_ratio_ == 0
    assert np.all(np.isfinite(model.inverse_transform(np.zeros((3, 2)))))
    errors = model.reconstruction_error(new_rows)
    if not center:
        np.testing.assert_allclose(errors, np.diagonal(gram_of(name, new_rows, **KERNELS[name])), rtol=1e-10)
    assert np.all(np.isfinite(errors))
    np.testing.assert_allclose(
        model.objective_,
        Criterion(gram_of(name, cloud, **KERNELS[name]), 2, 0.0, center=center).smooth(np.zeros((80, 2))),
        rtol=1e-6,
    )


def test_absolute_alpha_max_is_where_it_ends(cloud):
    largest = ElasticNetKernelPCA(2, **RBF).fit(cloud).alpha_max_
    options = {"alpha_scale": "absolute", "l2": 0.0, **RBF}
    with pytest.warns(UserWarning, match=r"component\(s\) 0, 1 are zero"):
        ElasticNetKernelPCA(2, alpha=largest * 1.0001, **options).fit(cloud)
    np.testing.assert_array_equal(
        ElasticNetKernelPCA(2, alpha=largest * 0.999, **options).fit(cloud).n_nonzero_, [1, 1]
    )
