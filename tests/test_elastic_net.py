"""ElasticNetKernelPCA and its path: the printed criterion, by brute force, and what the model does with it.

A model keeps components of unit length.  How long the solution itself is follows from the criterion, which is
quadratic along them: `stretched` finds it, so that the criterion and its subgradient can be evaluated on the gram.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from oracles import KERNELS, assert_same_up_to_sign, captured_by, exact_kernel_pca, gram_of, match_signs
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from kernelsieve import ElasticNetKernelPCA, SparseKernelPCA, elastic_net_path
from kernelsieve.solvers.admm import admm

TIGHT = 1e-10  # duality gap at which a solution's support is settled
RBF = {"gamma": 0.3}
centrings = pytest.mark.parametrize("center", [True, False], ids=["centred", "uncentred"])
sparsities = pytest.mark.parametrize("sparsity", ["component", "joint"])


def clusters():
    """The paper's 90 points."""
    centers = np.repeat([(-0.5, -0.2), (0, 0.6), (0.5, 0)], 30, axis=0)
    return centers + 0.1 * np.random.default_rng(0).standard_normal((90, 2))


def whole_coef(model, n_rows):
    """The components over all rows, (n, M)."""
    coef = np.zeros((n_rows, model.dual_coef_.shape[1]))
    coef[model.support_] = model.dual_coef_
    return coef


class Criterion:
    """METHODS section 4 on a gram: J(a) = 1/2 (b-a)'K H K (b-a) + (l2/2) a'K a + alpha |a|_1, b kernel PCA's."""

    def __init__(self, gram, n_components, l2, *, center, weights=None):
        self.gram, self.l2 = gram, l2
        w = np.ones(len(gram)) if weights is None else weights
        about = gram - (gram @ w / w.sum())[:, None] if center else gram
        self.scatter = (about * w) @ about.T  # K H K
        self.b = exact_kernel_pca(gram, n_components, center=center, weights=weights)[1]

    @property
    def alpha_max(self):
        return np.abs(self.scatter @ self.b).max(axis=0)

    def smooth(self, a):
        return 0.5 * np.sum((self.b - a) * (self.scatter @ (self.b - a))) + 0.5 * self.l2 * np.sum(a * (self.gram @ a))

    def pull(self, a):
        """Minus the gradient of the smooth part."""
        return self.scatter @ (self.b - a) - self.l2 * self.gram @ a

    def stretched(self, unit, penalty):
        """The best a among the multiples of each column of `unit`."""
        unit = unit * np.sign(np.sum(unit * (self.scatter @ self.b), axis=0))
        used = unit.any(axis=0)

        def value(lengths):
            return self.smooth(unit * lengths) + penalty(unit * lengths)

        start = np.where(used, 0.5, 0.0)
        found = scipy.optimize.minimize(value, start, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-12})
        return unit * np.where(used, found.x, 0.0)


def by_component(alphas):
    return lambda a: float(np.sum(alphas * np.abs(a)))


def by_row(alpha):
    return lambda a: float(alpha * np.linalg.norm(a, axis=1).sum())


def assert_solves(criterion, model, n_rows, sparsity="component", atol=1e-3):
    """`objective_` is J at the model's components, and no coefficient wants to move."""
    penalty = by_row(model.alpha_[0]) if sparsity == "joint" else by_component(model.alpha_)
    a = criterion.stretched(whole_coef(model, n_rows), penalty)
    assert model.objective_[0] == pytest.approx(criterion.smooth(a) + penalty(a), rel=1e-6)
    pull = criterion.pull(a)
    lengths = np.linalg.norm(a, axis=1, keepdims=True) if sparsity == "joint" else np.abs(a)
    pulls = np.linalg.norm(pull, axis=1, keepdims=True) if sparsity == "joint" else np.abs(pull)
    assert np.all(pulls <= model.alpha_[: pulls.shape[1]] * (1 + atol))
    wanted = model.alpha_ * a / np.where(lengths > 0, lengths, 1)
    np.testing.assert_allclose(np.where(lengths > 0, pull - wanted, 0), 0, atol=atol * model.alpha_.max())


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
    model = ElasticNetKernelPCA(8, **options).fit(clusters())
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
    np.testing.assert_allclose(model.explained_variance_ratio_, spread / total, rtol=1e-9)
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


# Sizes


def rows_by_name():
    rng = np.random.default_rng(5)
    line = rng.uniform(-1, 1, (200, 1)) @ np.ones((1, 2)) + 0.1 * rng.standard_normal((200, 2))
    return {"clusters": clusters(), "line": line}


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


# Any number of rows


def assert_same_model(one, other, new_rows, times=1.0, atol=1e-7):
    np.testing.assert_array_equal(one.n_nonzero_, other.n_nonzero_)
    np.testing.assert_allclose(other.transform(new_rows), one.transform(new_rows), atol=atol)
    np.testing.assert_allclose(other.reconstruction_error(new_rows), one.reconstruction_error(new_rows), atol=atol)
    np.testing.assert_allclose(other.explained_variance_, one.explained_variance_, rtol=1e-6)
    np.testing.assert_allclose(other.eigenvalues_, times * one.eigenvalues_, rtol=1e-6)
    np.testing.assert_allclose(other.alpha_max_, times * one.alpha_max_, rtol=1e-6)
    np.testing.assert_allclose(other.objective_, times * one.objective_, rtol=1e-6)
    assert other.l2_ == pytest.approx(times * one.l2_, rel=1e-6)
    assert other.captured_ratio_ == pytest.approx(one.captured_ratio_, abs=1e-7)


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


# After a refit


@sparsities
@centrings
@pytest.mark.parametrize("weighted", [False, True])
def test_refit_is_subset_kernel_pca_on_the_support(weighted, center, sparsity, cloud, new_rows):
    weights = np.random.default_rng(2).uniform(0.2, 2, 80) if weighted else None
    options = {"center": center, **RBF}
    model = ElasticNetKernelPCA(3, n_nonzero=6, refit=True, sparsity=sparsity, **options)
    model.fit(cloud, sample_weight=weights)
    truth = SparseKernelPCA(3, selection=model.support_, **options).fit(cloud, sample_weight=weights)
    np.testing.assert_array_equal(model.support_vectors_, truth.support_vectors_)
    np.testing.assert_allclose(model.dual_coef_, truth.dual_coef_, atol=1e-8)
    np.testing.assert_allclose(model.transform(new_rows), truth.transform(new_rows), atol=1e-8)
    np.testing.assert_allclose(model.reconstruction_error(new_rows), truth.reconstruction_error(new_rows), atol=1e-8)
    np.testing.assert_allclose(model.explained_variance_, truth.explained_variance_, rtol=1e-8)
    assert model.captured_ratio_ == pytest.approx(truth.captured_ratio_, abs=1e-8)
    assert model.score(new_rows) == pytest.approx(truth.score(new_rows), abs=1e-8)
    unrefitted = clone(model).set_params(refit=False).fit(cloud, sample_weight=weights)
    np.testing.assert_array_equal(model.n_nonzero_, unrefitted.n_nonzero_)
    assert model.captured_ratio_ > unrefitted.captured_ratio_


def test_refit_on_fewer_rows_than_components(cloud, new_rows):
    with pytest.warns(UserWarning, match=r"component\(s\) 2 are zero.*the rows found have no more directions"):
        model = ElasticNetKernelPCA(3, n_nonzero=2, sparsity="joint", refit=True, **RBF).fit(cloud)
    np.testing.assert_array_equal(model.n_nonzero_, [2, 2, 2])
    scores = model.transform(new_rows)
    np.testing.assert_array_equal(scores[:, 2], 0)
    points = model.support_vectors_
    most = captured_by(gram_of("rbf", points, **RBF), gram_of("rbf", cloud, points, **RBF), 2)
    assert model.explained_variance_.sum() == pytest.approx(most)
    assert np.all(np.isfinite(model.inverse_transform(scores)))


def test_refit_on_rows_that_vary_in_one_direction_only():
    """Two rows that differ in the first feature alone: the other direction of their span is a constant."""
    small = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    X = np.column_stack([np.concatenate([[[10.0, 0.0], [-10.0, 0.0]], small]), np.ones(42)])
    with pytest.warns(UserWarning, match=r"component\(s\) 1 are zero.*the rows found have no more directions"):
        model = ElasticNetKernelPCA(2, kernel="linear", n_nonzero=2, sparsity="joint", refit=True).fit(X)
    np.testing.assert_array_equal(model.support_, [0, 1])
    np.testing.assert_array_equal(model.transform(X)[:, 1], 0)
    assert_same_up_to_sign(model.transform(X)[:, :1], X[:, :1] - X[:, 0].mean(), 1e-10)


# More passes


def after_b_step(criterion, model):
    """The criterion with (tr M - u'M u)/2 at u from the b-step b ~ H K a, b'K b = 1, and a, for one component."""
    gram, unit = criterion.gram, whole_coef(model, len(criterion.gram))
    b = gram @ unit - (gram @ unit).mean()
    criterion.b = b / np.sqrt(b.T @ gram @ b)
    a = criterion.stretched(unit, by_component(model.alpha_))
    trace = np.trace(gram) - len(gram) * gram.mean()
    missing = trace - float(np.sum(criterion.b * (criterion.scatter @ criterion.b)))
    return criterion.smooth(a) + by_component(model.alpha_)(a) + missing / 2, a


def test_the_criterion_falls_to_a_fixed_point(cloud):
    """At the end a solves its problem at the u that follows from it."""
    options = {"alpha": 0.8, "l2": 0.05, "alpha_scale": "absolute", "tol": TIGHT, **RBF}
    first, second, last = (ElasticNetKernelPCA(1, max_iter=n, **options) for n in (1, 2, 100))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for model in (first, second, last):
            model.fit(cloud)
    assert last.converged_
    assert len(last.objective_) == last.n_iter_ > 2
    np.testing.assert_allclose(last.objective_[:1], first.objective_, rtol=1e-12)
    np.testing.assert_allclose(last.objective_[:2], second.objective_, rtol=1e-12)
    criterion = Criterion(gram_of("rbf", cloud, **RBF), 1, 0.05, center=True)
    reached = [after_b_step(criterion, model)[0] for model in (first, second, last)]
    assert reached[0] > reached[1] > reached[2]
    _, a = after_b_step(criterion, last)
    pull, used = criterion.pull(a), a != 0
    assert np.all(np.abs(pull) <= 0.8 * 1.01)
    np.testing.assert_allclose(pull[used], 0.8 * np.sign(a[used]), rtol=0.01)


def test_passes_that_do_not_settle_are_named(cloud):
    options = {"alpha": [0.3, 0.5], **RBF}
    with pytest.warns(ConvergenceWarning, match="components were still moving after max_iter=2 passes"):
        model = ElasticNetKernelPCA(2, max_iter=2, **options).fit(cloud)
    assert not model.converged_
    assert model.n_iter_ == len(model.objective_) == 2


def test_joint_passes(cloud):
    model = ElasticNetKernelPCA(2, sparsity="joint", max_iter=60, **RBF).fit(cloud)
    assert model.converged_
    assert model.n_iter_ > 1
    single = ElasticNetKernelPCA(2, sparsity="joint", **RBF).fit(cloud)
    assert model.objective_[0] == pytest.approx(single.objective_[0], rel=1e-9)
    assert abs(model.captured_ratio_ - single.captured_ratio_) < 0.05


@pytest.mark.filterwarnings("ignore:the components were still moving")
def test_simultaneous_components_give_way_to_each_other_and_sequential_ones_do_not(cloud):
    options = {"alpha": 0.4, **RBF}
    one_pass = [ElasticNetKernelPCA(3, mode=mode, **options).fit(cloud) for mode in ("sequential", "simultaneous")]
    np.testing.assert_array_equal(one_pass[0].dual_coef_, one_pass[1].dual_coef_)
    for mode, nested in (("sequential", True), ("simultaneous", False)):
        few, many = (ElasticNetKernelPCA(n, mode=mode, max_iter=200, **options).fit(cloud) for n in (2, 4))
        assert few.converged_
        assert few.n_iter_ > 1
        same = np.allclose(whole_coef(few, len(cloud)), whole_coef(many, len(cloud))[:, :2], atol=1e-6)
        assert same == nested


# The published algorithm


@pytest.mark.filterwarnings("ignore:component")
@centrings
def test_admm_is_algorithm_1_on_the_gram(center):
    X = clusters()
    settings = {"penalty": 0.01, "eps_abs": 1e-3, "eps_rel": 1e-3, "outer_tol": 0.02}
    options = {"gamma": 10.0, "center": center, "alpha": [0.02, 0.01], "l2": 0.1, "alpha_scale": "absolute"}
    with pytest.warns(ConvergenceWarning) as caught:
        model = ElasticNetKernelPCA(
            2, solver="admm", admm_max_iter=50, admm_outer_max_iter=3, **settings, **options
        ).fit(X)
    gram = gram_of("rbf", X, gamma=10.0)
    found = admm(gram, [0.02, 0.01], 0.1, max_iter=50, outer_max_iter=3, center=center, **settings)
    lengths = np.sqrt(np.einsum("ik,ij,jk->k", found.coef, gram, found.coef))
    coef = found.coef / np.where(lengths > 0, lengths, 1)
    np.testing.assert_array_equal(whole_coef(model, 90) != 0, coef != 0)
    np.testing.assert_allclose(match_signs(whole_coef(model, 90), coef), coef, atol=1e-6)  # K^-1/2 is of order 1e5
    assert model.objective_ == pytest.approx([found.objective.sum()], rel=1e-6)
    assert model.n_iter_ == sum(map(sum, found.n_inner))
    assert not model.converged_
    assert np.all(np.isnan(model.dual_gap_))
    text = str(next(w.message for w in caught if w.category is ConvergenceWarning))
    assert found.inner_capped.any()
    for name, capped in (("admm_max_iter=50", found.inner_capped), ("admm_outer_max_iter=3", found.outer_capped)):
        named = re.search(rf"{name} was hit by component\(s\) ([\d, ]*\d)", text)
        hit = [int(k) for k in named[1].split(", ")] if named else []
        assert hit == list(np.flatnonzero(capped))


def test_converged_admm_is_the_active_set():
    X = clusters()[::3]
    options = {"gamma": 10.0, "alpha": 0.2, "l2": 0.1, "max_iter": 1}
    loop = {"admm_max_iter": 20_000, "eps_abs": 1e-10, "eps_rel": 1e-10, "admm_outer_max_iter": 1, "penalty": 1.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        literal = ElasticNetKernelPCA(2, solver="admm", outer_tol=10.0, **loop, **options).fit(X)
    exact = ElasticNetKernelPCA(2, tol=TIGHT, **options).fit(X)
    np.testing.assert_allclose(literal.alpha_, exact.alpha_, rtol=1e-9)
    np.testing.assert_allclose(literal.objective_, exact.objective_, rtol=1e-5)
    np.testing.assert_allclose(literal.transform(X), exact.transform(X), atol=1e-3)


def test_admm_that_ends_before_anything_has_happened(cloud):
    """The cap, not alpha, is why the components are zero: the warnings say so."""
    options = {"solver": "admm", "admm_max_iter": 2, "admm_outer_max_iter": 1, "penalty": 1e-4}
    with (
        pytest.warns(ConvergenceWarning, match="admm_max_iter=2 was hit"),
        pytest.warns(UserWarning, match="ADMM ended"),
    ):
        model = ElasticNetKernelPCA(2, alpha=0.9, **options, **RBF).fit(cloud)
    np.testing.assert_array_equal(model.n_nonzero_, 0)


@pytest.mark.parametrize(
    ("options", "weights", "message"),
    [
        ({"sparsity": "joint"}, None, "give solver='active-set' for anything else"),
        ({"mode": "simultaneous"}, None, "give solver='active-set' for anything else"),
        ({"n_nonzero": 5}, None, "give solver='active-set' for anything else"),
        ({}, np.ones(80), "without sample_weight"),
        ({"n_dictionary": 30}, None, "works on the gram of all rows, and these are too many"),
        ({"kernel": lambda X, Y: gram_of("rbf", X, Y)}, None, "not known to be positive definite"),
    ],
)
def test_what_admm_cannot_do(options, weights, message, cloud):
    with pytest.raises(ValueError, match=message):
        ElasticNetKernelPCA(2, solver="admm", **{**RBF, **options}).fit(cloud, sample_weight=weights)


@pytest.mark.parametrize("n_copies", [10, 80])
def test_admm_counts_every_row_once(n_copies, cloud):
    with pytest.raises(ValueError, match=r"counts every row once, and X has copies of rows: drop them"):
        ElasticNetKernelPCA(2, solver="admm", **RBF).fit(np.concatenate([cloud, cloud[:n_copies]]))


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


# The path


@sparsities
@pytest.mark.parametrize("weighted", [False, True])
def test_path_is_single_fits(weighted, sparsity, cloud):
    weights = np.random.default_rng(0).integers(1, 3, 80) if weighted else None
    model = ElasticNetKernelPCA(3, sparsity=sparsity, tol=TIGHT, **RBF)
    path = elastic_net_path(model, cloud, alpha=[0.3, 0.05, 0.7, 1.0], sample_weight=weights)
    np.testing.assert_array_equal(path.alpha, [1.0, 0.7, 0.3, 0.05])
    assert not hasattr(model, "expansion_")
    for i, alpha in enumerate(path.alpha[1:], start=1):
        single = clone(model).set_params(alpha=alpha).fit(cloud, sample_weight=weights)
        np.testing.assert_array_equal(path.n_nonzero[i], single.n_nonzero_)
        assert path.n_support[i] == single.n_support_
        np.testing.assert_array_equal(path.support[i], single.support_)
        np.testing.assert_allclose(path.coefs[i], single.dual_coef_, atol=1e-6)
        np.testing.assert_allclose(path.alpha_max, single.alpha_max_)
        assert path.captured_ratio[i] == pytest.approx(single.captured_ratio_, abs=1e-8)
        refitted = clone(single).set_params(refit=True).fit(cloud, sample_weight=weights)
        assert path.refit_ratio[i] == pytest.approx(refitted.captured_ratio_, abs=1e-8)
    assert np.all(path.refit_ratio >= path.captured_ratio - 1e-12)
    assert np.all(path.dual_gap <= TIGHT)
    assert path.n_support[0] == path.n_nonzero[0].sum() == path.captured_ratio[0] == path.refit_ratio[0] == 0
    assert path.coefs[0].shape == (0, 3)


def test_path_of_its_own_alphas(cloud):
    model = ElasticNetKernelPCA(2, alpha=[0.1, 0.2], n_nonzero=4, **RBF)  # of its own, and of no concern
    path = elastic_net_path(model, cloud, n_alphas=7)
    np.testing.assert_allclose(path.alpha, np.geomspace(1, 0.01, 7))
    assert path.n_nonzero.shape == path.dual_gap.shape == (7, 2)
    assert path.captured_ratio[-1] > 0.95
    assert len(elastic_net_path(model, cloud).alpha) == 40
    absolute = elastic_net_path(clone(model).set_params(alpha_scale="absolute", l2=0.5), cloud, n_alphas=7)
    np.testing.assert_allclose(absolute.alpha, path.alpha)  # the scale concerns l2 alone
    assert absolute.captured_ratio[-1] != path.captured_ratio[-1]


def test_path_on_a_few_candidates_counts_kernel_pca_on_them():
    X = np.random.default_rng(0).standard_normal((300, 3))
    model = ElasticNetKernelPCA(2, n_dictionary=12, l2=0.0, random_state=0, **RBF)
    path = elastic_net_path(model, X, alpha=[1e-6])
    assert path.n_support[0] <= 12
    assert path.refit_ratio[0] == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": [0.0, 0.5]}, "between 0 and 1, shares of alpha_max"),
        ({"alpha": [0.5, 1.1]}, "between 0 and 1"),
        ({"alpha": [np.nan]}, "between 0 and 1"),
        ({"alpha": []}, "between 0 and 1"),
        ({"n_alphas": 0}, "n_alphas=0: give at least one"),
    ],
)
def test_paths_that_are_none(options, message, cloud):
    with pytest.raises(ValueError, match=message):
        elastic_net_path(ElasticNetKernelPCA(2, **RBF), cloud, **options)
    with pytest.raises(ValueError, match="The 'kernel' parameter"):
        elastic_net_path(ElasticNetKernelPCA(2, kernel="gauss"), cloud)


# Bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": [0.1]}, r"alpha has shape \(1,\): give one number, or 2, one for each component"),
        ({"alpha": [[0.1, 0.1]]}, r"alpha has shape \(1, 2\)"),
        ({"alpha": [0.1, 0.0]}, "alpha must be positive"),
        ({"alpha": [0.1, -0.1]}, "alpha must be positive"),
        ({"alpha": [0.1, np.nan]}, "alpha must be positive"),
        ({"alpha": [0.1, np.inf]}, "alpha must be positive"),
        ({"alpha": ["a", "b"]}, "alpha must be positive"),
        ({"alpha": 0.0}, "The 'alpha' parameter"),
        ({"alpha": -1.0}, "The 'alpha' parameter"),
        ({"alpha": np.nan}, "The 'alpha' parameter"),
        ({"alpha": "small"}, "The 'alpha' parameter"),
        ({"n_nonzero": 0}, "The 'n_nonzero' parameter"),
        ({"n_nonzero": 2.5}, "The 'n_nonzero' parameter"),
        ({"n_nonzero": [3, 4, 5]}, r"n_nonzero has shape \(3,\): give one number, or 2"),
        ({"n_nonzero": [3, 0]}, "n_nonzero must be positive"),
        ({"n_nonzero": [3, 2.5]}, "n_nonzero must be whole numbers"),
        ({"n_nonzero": 3, "max_iter": 2}, "give max_iter=1 with it, or alpha"),
        (
            {"sparsity": "joint", "alpha": [0.1, 0.2]},
            "one support for all components: give one alpha, or one n_nonzero",
        ),
        ({"sparsity": "joint", "n_nonzero": [3, 3]}, "one support for all components"),
        ({"l2": -1.0}, "The 'l2' parameter"),
        ({"l2": np.nan}, "The 'l2' parameter"),
        ({"max_iter": 0}, "The 'max_iter' parameter"),
        ({"tol": 0.0}, "The 'tol' parameter"),
        ({"penalty": 0.0}, "The 'penalty' parameter"),
        ({"n_dictionary": 0}, "The 'n_dictionary' parameter"),
        ({"solver": "fista"}, "The 'solver' parameter"),
        ({"sparsity": "group"}, "The 'sparsity' parameter"),
        ({"alpha_scale": "log"}, "The 'alpha_scale' parameter"),
        ({"n_dictionary": 1}, "n_components=2 is more than the rank of the kernel on these rows, 1: ask for fewer"),
    ],
)
def test_parameters_that_are_none(options, message, cloud):
    model = ElasticNetKernelPCA(2, **options)
    with pytest.raises(ValueError, match=message):
        model.fit(cloud)
    with pytest.raises(NotFittedError):
        model.transform(cloud)


@pytest.mark.parametrize(
    ("n_components", "center", "rank"), [(6, True, 5), (6, False, 5), (5, True, 4)], ids=["6 of 5", "6 of 5", "5 of 4"]
)
def test_more_components_than_rows_have_directions(n_components, center, rank, cloud):
    """N different rows have N directions, and N - 1 about their mean."""
    for rows in (cloud[:5], np.repeat(cloud[:5], 4, axis=0)):
        with pytest.raises(
            ValueError, match=f"n_components={n_components} is more than the rank.*, {rank}: ask for fewer"
        ):
            ElasticNetKernelPCA(n_components, center=center, **RBF).fit(rows)
    fitting = ElasticNetKernelPCA(rank - (n_components == 6 and center), center=center, **RBF).fit(cloud[:5])
    assert np.all(fitting.explained_variance_ > 1e-6)


@pytest.mark.parametrize("n_components", [4, 7])
def test_more_components_than_the_rank(n_components, cloud):
    with pytest.raises(ValueError, match=f"n_components={n_components} is more than the rank.*, 3: ask for fewer"):
        ElasticNetKernelPCA(n_components, kernel="linear").fit(cloud[:, :3])


@centrings
@sparsities
def test_a_kernel_of_rank_one(sparsity, center, cloud):
    model = ElasticNetKernelPCA(1, kernel="linear", center=center, sparsity=sparsity).fit(cloud[:, :1])
    np.testing.assert_array_equal(model.n_nonzero_, [1])
    truth = cloud[:, :1] - (cloud[:, :1].mean() if center else 0)
    assert_same_up_to_sign(model.transform(cloud[:, :1]), truth, 1e-12)
    assert model.captured_ratio_ == pytest.approx(1)
    sized = ElasticNetKernelPCA(1, kernel="linear", center=center, sparsity=sparsity, n_nonzero=3).fit(cloud[:, :1])
    assert 1 <= sized.n_nonzero_[0] <= 3
    assert_same_up_to_sign(sized.transform(cloud[:, :1]), truth, 1e-12)


def test_a_constant_kernel(cloud):
    def ones(X, Y):
        return np.ones((len(X), len(Y)))

    with pytest.raises(ValueError, match="the rows are all the same to this kernel"):
        ElasticNetKernelPCA(1, kernel=ones).fit(cloud)
    model = ElasticNetKernelPCA(1, kernel=ones, center=False).fit(cloud)
    np.testing.assert_array_equal(model.n_nonzero_, [1])
    np.testing.assert_allclose(model.transform(cloud), 1)
    with pytest.raises(ValueError, match="n_components=2 is more than the rank"):
        ElasticNetKernelPCA(2, kernel=ones, center=False).fit(cloud)


@centrings
@pytest.mark.parametrize("kernel", ["rbf", "linear", "laplacian"])
def test_constant_rows(kernel, center):
    with pytest.raises(ValueError, match=r"the rows are all the same to this kernel|different rows"):
        ElasticNetKernelPCA(1, kernel=kernel, center=center, gamma=0.3).fit(np.ones((20, 3)))


@sparsities
def test_equal_eigenvalues(sparsity):
    """On a ring they come in pairs, and each pair's directions are anybody's choice."""
    angles = 2 * np.pi * np.arange(40) / 40
    ring = np.column_stack([np.cos(angles), np.sin(angles)])
    values = exact_kernel_pca(gram_of("rbf", ring, gamma=1.0), 4)[0]
    assert values[0] == pytest.approx(values[1], rel=1e-10)
    for max_iter in (1, 50):
        model = ElasticNetKernelPCA(4, gamma=1.0, sparsity=sparsity, max_iter=max_iter).fit(ring)
        assert model.converged_
        assert np.all(np.isfinite(model.transform(ring)))
        assert 0.9 < model.captured_ratio_ <= 1
    assert ElasticNetKernelPCA(4, gamma=1.0, sparsity=sparsity, n_nonzero=6).fit(ring).captured_ratio_ > 0.8


@sparsities
def test_every_row_like_no_other(sparsity, cloud):
    """The gram is the identity: nothing to choose by, and still a model that is what it says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = ElasticNetKernelPCA(3, kernel="precomputed", sparsity=sparsity).fit(np.eye(30))
    assert np.all(np.isfinite(model.transform(np.eye(30))))
    np.testing.assert_allclose(np.sum(model.dual_coef_**2, axis=0), 1)


def test_duplicates_are_no_trouble(cloud, new_rows):
    rows = np.concatenate([np.repeat(cloud[:1], 40, axis=0), cloud, cloud[:20]])
    model = ElasticNetKernelPCA(3, n_nonzero=8, **RBF).fit(rows)
    assert len(np.unique(model.support_vectors_, axis=0)) == model.n_support_
    np.testing.assert_array_equal(model.n_nonzero_, 8)
    near = ElasticNetKernelPCA(3, n_nonzero=8, **RBF).fit(
        rows + 1e-9 * np.random.default_rng(0).standard_normal(rows.shape)
    )
    np.testing.assert_allclose(near.transform(new_rows), model.transform(new_rows), atol=1e-4)


def test_nan_in_any_form(cloud):
    gram = gram_of("rbf", cloud, **RBF)
    gram[3, 5] = gram[5, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        ElasticNetKernelPCA(2, kernel="precomputed").fit(gram)
    broken = cloud.copy()
    broken[-1, 1] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        ElasticNetKernelPCA(2, **RBF).fit(broken)


def test_a_failed_refit_leaves_the_model_as_it_was(cloud, new_rows):
    model = ElasticNetKernelPCA(3, **RBF).fit(cloud)
    before, attributes = model.transform(new_rows), set(vars(model))
    for bad in (cloud[:3], np.ones((20, 5)), cloud[:, :2] * np.nan):
        with pytest.raises(ValueError, match=r"rank|all the same|NaN"):
            model.fit(bad)
        np.testing.assert_array_equal(model.transform(new_rows), before)
        assert set(vars(model)) == attributes


def test_warnings_point_at_the_users_line(cloud):
    options = {"alpha": 2.0, **RBF}
    with pytest.warns(UserWarning, match="are zero") as caught:
        ElasticNetKernelPCA(2, **options).fit(cloud)
    assert {warning.filename for warning in caught} == {__file__}
    with pytest.warns(ConvergenceWarning) as caught:
        ElasticNetKernelPCA(2, alpha=[0.3, 0.5], max_iter=2, **RBF).fit(cloud)
    assert {warning.filename for warning in caught} == {__file__}


def test_no_warning_on_ordinary_data(digits):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for options in ({}, {"n_nonzero": 10, "refit": True}, {"sparsity": "joint"}, {"kernel": "cosine"}):
            ElasticNetKernelPCA(5, random_state=0, **options).fit(digits[0][:400])
