"""ElasticNetKernelPCA after a refit, after more passes, and by the published algorithm."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from elastic_net_cases import RBF, TIGHT, Criterion, by_component, centrings, sparsities, whole_coef
from oracles import assert_same_up_to_sign, captured_by, gram_of, match_signs, three_clusters
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from kernelsieve import ElasticNetKernelPCA, SparseKernelPCA
from kernelsieve.solvers.alternation import admm

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
    X = three_clusters()
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


def literal_pseudo_inverse(gram, alphas, l2, rho, n_inner, n_outer):
    """Algorithm 1, line by line, with numpy's pseudo-inverses; no stopping rule."""
    values, vectors = np.linalg.eigh(gram)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    inverse = np.linalg.pinv(gram, rcond=1e-12, hermitian=True)
    inverse_root = root @ inverse
    kept, coefs = np.zeros((len(gram), 0)), []
    for k, alpha in enumerate(alphas):
        p = vectors[:, ::-1][:, k]
        for _ in range(n_outer):
            a, t = np.zeros(len(gram)), np.zeros(len(gram))
            for _ in range(n_inner):
                left = gram + l2 * np.eye(len(gram)) + rho * inverse
                q = np.linalg.solve(left, gram @ p + rho * inverse_root @ (a - t / rho))
                shifted = inverse_root @ q + t / rho
                a = np.sign(shifted) * np.maximum(np.abs(shifted) - alpha / rho, 0)
                t = t + rho * (inverse_root @ q - a)
            p = gram @ q / np.linalg.norm(q)
            p -= kept @ (kept.T @ p)
            p /= np.linalg.norm(p)
        kept = np.column_stack([kept, p])
        coefs.append(a)
    return np.stack(coefs, axis=1)


@pytest.mark.filterwarnings("ignore")
@centrings
def test_the_pseudo_inverse_is_that_of_the_paper_s_text(center):
    """A polynomial kernel, whose gram has rank 6 and a wide gap below it."""
    X, alphas, kernel = three_clusters(), [0.004, 0.002], {"degree": 2, "gamma": 1.0, "coef0": 1.0}
    model = ElasticNetKernelPCA(
        2,
        solver="admm",
        inverse="pseudo-inverse",
        center=center,
        kernel="poly",
        alpha=alphas,
        l2=0.1,
        alpha_scale="absolute",
        eps_abs=0,
        eps_rel=0,
        outer_tol=0,
        admm_max_iter=20,
        admm_outer_max_iter=2,
        **kernel,
    ).fit(X)
    gram, cross = gram_of("poly", X, **kernel), gram_of("poly", X[:9] + 0.1, X, **kernel)
    if center:  # of the rows, and of new rows by the training rows' means
        means = gram.mean(axis=0)
        cross = cross - means - cross.mean(axis=1, keepdims=True) + means.mean()
        gram = gram - means - means[:, None] + means.mean()
    assert np.linalg.matrix_rank(gram, hermitian=True) == 6 - center
    coef = literal_pseudo_inverse(gram, alphas, 0.1, 0.01, 20, 2)
    assert 0 < np.count_nonzero(coef) < coef.size
    np.testing.assert_array_equal(model.n_nonzero_, np.count_nonzero(coef, axis=0))
    scores = cross @ coef / np.sqrt(np.sum(coef * (gram @ coef), axis=0))
    np.testing.assert_allclose(match_signs(model.transform(X[:9] + 0.1), scores), scores, atol=1e-6)
    assert model.n_support_ == (len(X) if center else np.count_nonzero(coef.any(axis=1)))


def test_converged_admm_is_the_active_set():
    X = three_clusters()[::3]
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
