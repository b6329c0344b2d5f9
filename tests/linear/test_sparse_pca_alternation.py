"""ElasticNetPCA: the alternation by optimality and scikit-learn's PCA, and the scale of alpha."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_cases import INF, both_forms, sparse_signals
from oracles import assert_same_up_to_sign
from sklearn.decomposition import PCA

from kernelsieve import ElasticNetPCA
from kernelsieve.linear import alternation
from kernelsieve.linear.alternation import Stop, _nearest_axes, adjusted_variance, polar, sparse_pca, unit_rows
from kernelsieve.linear.regression import Penalty
from kernelsieve.linear.scatter import GramScatter, leading_eigenpairs
from kernelsieve.threads import one_blas_thread

# The alternation


def random_axes(n_components, n_features, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n_features, n_components)))[0].T


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("l2", [0.0, 3.0, INF])
def test_every_step_lowers_the_objective(l2, sequential, tall):
    """The objective, written out over the rows, along the alternation from a bad start."""
    centred = tall - tall.mean(axis=0)
    scatter = GramScatter(centred.T @ centred)
    axes = random_axes(1 if sequential else 3, 14)
    penalty = Penalty(l2, alpha=np.full(len(axes), 0.1 * np.abs(scatter.gram).max()))
    values = []
    for n_steps in range(1, 30):
        found = sparse_pca(scatter, penalty, axes, sequential=sequential, stop=Stop(0.0, n_steps))
        a, b = found.axes, found.loadings
        np.testing.assert_allclose(a @ a.T, np.eye(len(a)), atol=1e-10)
        price = float((penalty.alpha[:, None] * np.abs(b)).sum())
        if math.isinf(l2):
            truth = float((b**2).sum()) - 2 * np.sum((centred @ a.T) * (centred @ b.T)) + price
        else:
            truth = float(((centred - centred @ b.T @ a) ** 2).sum()) + l2 * float((b**2).sum()) + price
        assert found.objective(scatter, l2) == pytest.approx(truth, rel=1e-9, abs=1e-6)
        values.append(truth)
    assert np.all(np.diff(values) <= 1e-9 * abs(values[0]))
    assert values[-1] < values[0]


@pytest.mark.parametrize("smallest", [1.0, 1e-1, 1e-3, 1e-6])
def test_polar_factor(smallest):
    rng = np.random.default_rng(0)
    left, right = np.linalg.qr(rng.standard_normal((3, 3)))[0], random_axes(3, 9)
    rows = left * [1.0, 0.7, smallest] @ right
    np.testing.assert_allclose(polar(rows), left @ right, atol=1e-9)


def test_axes_of_empty_or_equal_components_stay_where_they_were():
    axes = np.array([[1.0, 0, 0], [0, 0.6, 0.8]])
    none = np.empty((0, 3))
    np.testing.assert_allclose(_nearest_axes(np.array([[3.0, 0, 0], [0, 0, 0]]), axes, none), axes, atol=1e-5)
    found = _nearest_axes(np.array([[1.0, 0, 0], [1.0, 0, 0]]), axes, none)
    np.testing.assert_allclose(found @ found.T, np.eye(2), atol=1e-10)
    np.testing.assert_allclose(found @ [0, -0.8, 0.6], 0, atol=1e-5)  # nothing outside of what there was
    np.testing.assert_allclose(_nearest_axes(np.zeros((2, 3)), axes, none), axes, atol=1e-10)


@pytest.mark.parametrize("mode", ["simultaneous", "sequential"])
@pytest.mark.parametrize("l2", [0.0, 2.0, INF])
@pytest.mark.parametrize("name", ["tall", "wide"])
def test_without_l1_penalty_it_is_pca(name, mode, l2, request):
    X = request.getfixturevalue(name)
    model = ElasticNetPCA(3, alpha=0, l2=l2, mode=mode).fit(X)
    truth = PCA(3).fit(X)
    assert_same_up_to_sign(model.components_.T, truth.components_.T, 1e-5)
    np.testing.assert_allclose(model.explained_variance_ratio_, truth.explained_variance_ratio_, rtol=1e-6)
    np.testing.assert_allclose(model.explained_variance_, truth.explained_variance_ * (len(X) - 1) / len(X), rtol=1e-6)
    np.testing.assert_allclose(model.mean_, truth.mean_)


@pytest.mark.parametrize("name", ["tall", "wide"])
@pytest.mark.parametrize("l2", [0.5, INF])
def test_finds_the_signals(name, l2):
    X, truth = sparse_signals(*{"tall": (90, 14), "wide": (40, 120)}[name])
    model = ElasticNetPCA(2, n_nonzero=5, refit=True, l2=l2).fit(X)
    assert np.array_equal(model.components_ != 0, truth != 0)
    assert np.all(np.abs(np.sum(model.components_ * truth, axis=1)) > 0.98)
    assert np.all(model.components_[np.arange(2), np.argmax(np.abs(model.components_), axis=1)] > 0)


def test_sequential_components_are_nested(tall):
    few, many = (ElasticNetPCA(k, n_nonzero=4, mode="sequential").fit(tall) for k in (2, 4))
    np.testing.assert_array_equal(many.components_[:2], few.components_)
    np.testing.assert_allclose(many.explained_variance_[:2], few.explained_variance_)


@pytest.mark.parametrize("name", ["tall", "wide"])
@pytest.mark.parametrize("l2", [0.0, 1.0, INF])
def test_refit_is_optimal_on_the_support(name, l2, request):
    """One component, free on its support: a stationary point of the criterion without alpha.  With a = S b / |S b|
    that is the leading solution of (S S)_ss b = value (S + l2 I)_ss b, or of (S S)_ss b = value b for infinite l2."""
    X = request.getfixturevalue(name)
    centred = X - X.mean(axis=0)
    scatter = centred.T @ centred
    model = ElasticNetPCA(1, n_nonzero=5, refit=True, l2=l2, tol=1e-10, max_iter=5000).fit(X)
    chosen = np.flatnonzero(model.components_[0])
    assert chosen.size == 5
    right = np.eye(5) if math.isinf(l2) else (scatter + l2 * np.eye(X.shape[1]))[np.ix_(chosen, chosen)]
    truth = scipy.linalg.eigh((scatter @ scatter)[np.ix_(chosen, chosen)], right)[1][:, -1]
    assert_same_up_to_sign(model.components_[0, chosen], truth / np.linalg.norm(truth), 1e-5)


@pytest.mark.parametrize("name", ["tall", "wide"])
def test_explained_variance_is_qr_adjusted(name, request):
    X = request.getfixturevalue(name)
    model = ElasticNetPCA(3, n_nonzero=[4, 6, 2]).fit(X)
    scores = (X - X.mean(axis=0)) @ model.components_.T
    truth = np.diag(np.linalg.qr(scores)[1]) ** 2 / len(X)
    np.testing.assert_allclose(model.explained_variance_, truth, rtol=1e-8)
    np.testing.assert_allclose(model.explained_variance_ratio_, truth / X.var(axis=0).sum(), rtol=1e-8)


def test_adjusted_variance_of_empty_and_equal_components(tall):
    scatter = both_forms(tall)["gram"]
    one = unit_rows(np.array([[1.0] * 5 + [0.0] * 9, [0.0] * 14, [2.0] * 5 + [0.0] * 9]))
    found = adjusted_variance(scatter, one)
    assert found[0] == pytest.approx(one[0] @ scatter.gram @ one[0])
    np.testing.assert_allclose(found[1:], 0, atol=1e-6 * found[0])


def test_leading_eigenpairs_of_a_large_matrix():
    X = np.random.default_rng(0).standard_normal((500, 320)) * np.linspace(3, 1, 320)
    with one_blas_thread():
        values, vectors = leading_eigenpairs(X.T @ X, 3)
        truth = np.linalg.eigh(X.T @ X)
    np.testing.assert_allclose(values, truth[0][::-1][:3])
    assert_same_up_to_sign(vectors, truth[1][:, ::-1][:, :3], 1e-6)


# Scale


@settings(max_examples=10, deadline=None)
@given(scale=st.floats(1e-4, 1e4), n_copies=st.integers(1, 3))
def test_relative_alpha_knows_neither_units_nor_numbers(scale, n_copies):
    X = sparse_signals(40, 12)[0]
    plain = ElasticNetPCA(2, alpha=0.3).fit(X)
    other = ElasticNetPCA(2, alpha=0.3).fit(np.repeat(X * scale, n_copies, axis=0))
    np.testing.assert_allclose(other.components_, plain.components_, atol=1e-6)
    np.testing.assert_allclose(other.explained_variance_, scale**2 * plain.explained_variance_, rtol=1e-6)


@pytest.mark.parametrize("l2", [0.0, 1.0, INF])
def test_relative_is_a_share_of_what_empties_a_component(l2, tall):
    centred = tall - tall.mean(axis=0)
    gram = centred.T @ centred
    axes = np.linalg.eigh(gram)[1][:, [-1, -2]].T
    stop = Stop(1e-9, 1000)
    found = sparse_pca(GramScatter(gram), Penalty(l2, share=np.full(2, 0.25)), axes, sequential=False, stop=stop)
    np.testing.assert_allclose(found.alpha, 0.25 * 2 * np.abs(found.axes @ gram).max(axis=1), rtol=1e-6)
    model = ElasticNetPCA(2, alpha=0.25, l2=l2, tol=1e-9).fit(tall)
    np.testing.assert_allclose(model.alpha_, found.alpha, rtol=1e-6)
    absolute = ElasticNetPCA(2, alpha=model.alpha_, alpha_scale="absolute", l2=l2, tol=1e-9).fit(tall)
    np.testing.assert_allclose(absolute.components_, model.components_, atol=1e-5)
    assert ElasticNetPCA(2, alpha=0.99, l2=l2).fit(tall).n_nonzero_.min() > 0
    with pytest.warns(UserWarning, match=r"component\(s\) 0, 1 are empty"):
        model = ElasticNetPCA(2, alpha=1.0, l2=l2).fit(tall)
    assert not model.components_.any()


def test_a_strong_component_stays_in_its_place():
    """Were alphas shares of what empties the components at the start, a strong one would be cheaper as a weak one."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4)) * 0.1
    X[:, :2] += 30 * rng.standard_normal((300, 1))
    X[:, 2:] += rng.standard_normal((300, 1))
    model = ElasticNetPCA(2).fit(X)
    assert np.array_equal(model.components_ != 0, [[True, True, False, False], [False, False, True, True]])


def test_one_empty_component_is_named_and_harmless(tall):
    with pytest.warns(UserWarning, match=r"component\(s\) 1 are empty: all their loadings are zero\. Give a smaller"):
        model = ElasticNetPCA(3, alpha=[0.2, 1.5, 0.2]).fit(tall)
    assert model.n_nonzero_[1] == 0
    assert not model.components_[1].any()
    assert model.explained_variance_[1] == pytest.approx(0, abs=1e-9)
    assert model.n_nonzero_[[0, 2]].min() > 0
    scores = model.transform(tall)
    assert np.all(np.isfinite(scores))
    assert not scores[:, 1].any()
    truth = ElasticNetPCA(1, alpha=0.2).fit(tall)
    np.testing.assert_allclose(np.abs(model.components_[0] @ truth.components_[0]), 1, atol=1e-3)


@pytest.mark.parametrize("penalty", [{"n_nonzero": 5}, {"n_nonzero": 60}, {"alpha": 0.3}, {"alpha": [0.2, 0.3, 1.0]}])
@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.filterwarnings("ignore:component")
def test_few_rows_by_their_scores_are_the_alternation_itself(penalty, refit, monkeypatch):
    """With an empty component, too, where the scores hand over to the axes."""
    X, _ = sparse_signals(30, 120, 5, seed=3)
    by_scores = ElasticNetPCA(3, refit=refit, **penalty).fit(X)
    monkeypatch.setattr(alternation, "_few_rows", lambda scatter: False)
    by_axes = ElasticNetPCA(3, refit=refit, **penalty).fit(X)
    np.testing.assert_array_equal(by_scores.components_ != 0, by_axes.components_ != 0)
    np.testing.assert_allclose(by_scores.components_, by_axes.components_, atol=1e-10)
    np.testing.assert_allclose(by_scores.objective_, by_axes.objective_, rtol=1e-10)
    np.testing.assert_allclose(by_scores.alpha_, by_axes.alpha_, rtol=1e-10)
    assert by_scores.n_iter_ == by_axes.n_iter_


# Deflation


def deflated_by_hand(S, v, earlier, how):
    """Mackey (2008), table 1, from the formulas."""
    eye = np.eye(len(S))
    if how == "hotelling":
        return S - np.outer(v, v) * (v @ S @ v)
    if how == "schur":
        return S - np.outer(S @ v, S @ v) / (v @ S @ v)
    if how == "orthogonalized":
        basis = np.linalg.qr(np.column_stack([*earlier, v]))[0]
        v = basis[:, -1]
    return (eye - np.outer(v, v)) @ S @ (eye - np.outer(v, v))


def soft_threshold_component(S, count):
    """The fixed point of a = S b / |S b|, b the `count` largest entries of S a less the next one."""
    a = np.linalg.eigh(S)[1][:, -1]
    for _ in range(3000):
        target = S @ a
        threshold = np.sort(np.abs(target))[-count - 1]
        b = np.sign(target) * np.maximum(np.abs(target) - threshold, 0)
        a = S @ b / np.linalg.norm(S @ b)
    return b / np.linalg.norm(b)


@pytest.mark.parametrize("how", ["projection", "hotelling", "schur", "orthogonalized"])
@pytest.mark.parametrize("shape", [(60, 9), (20, 30)], ids=["p < n", "p > n"])
def test_deflation_is_mackey_s(how, shape):
    rng = np.random.default_rng(0)
    X = rng.standard_normal(shape) @ np.diag(np.linspace(3, 1, shape[1])) @ rng.standard_normal((shape[1],) * 2)
    model = ElasticNetPCA(3, mode="sequential", n_nonzero=4, deflation=how, tol=1e-12).fit(X)
    centred = X - X.mean(axis=0)
    left, found = centred.T @ centred, []
    for _ in range(3):
        v = soft_threshold_component(left, 4)
        left = deflated_by_hand(left, v, found, how)
        found.append(v)
    np.testing.assert_allclose(np.abs(model.components_), np.abs(found), atol=1e-6)


@pytest.mark.parametrize("how", ["projection", "hotelling", "schur", "orthogonalized"])
def test_without_a_penalty_every_deflation_is_pca(how):
    X = np.random.default_rng(1).standard_normal((80, 6)) * np.arange(1, 7)
    model = ElasticNetPCA(3, mode="sequential", alpha=0.0, deflation=how, tol=1e-12).fit(X)
    truth = PCA(3).fit(X)
    np.testing.assert_allclose(np.abs(model.components_), np.abs(truth.components_), atol=1e-5)
    np.testing.assert_allclose(model.explained_variance_ratio_, truth.explained_variance_ratio_, rtol=1e-8)


def test_what_a_schur_complement_leaves_is_uncorrelated_with_what_it_took():
    """Of sparse rows too: they are made dense where loadings are taken out of them."""
    X = scipy.sparse.random(30, 50, density=0.3, random_state=0, format="csr")
    models = [
        ElasticNetPCA(2, mode="sequential", n_nonzero=5, deflation="schur").fit(rows) for rows in (X, X.toarray())
    ]
    np.testing.assert_allclose(models[0].components_, models[1].components_, atol=1e-6)
    centred = X.toarray() - X.toarray().mean(axis=0)
    scores = centred @ models[0].components_[0]
    left = centred - np.outer(scores, scores @ centred) / (scores @ scores)
    np.testing.assert_allclose(left.T @ scores, 0, atol=1e-12)
    np.testing.assert_allclose(
        np.abs(models[0].components_[1]), np.abs(soft_threshold_component(left.T @ left, 5)), atol=1e-4
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deflation": "schur"}, "give mode='sequential'"),
        ({"deflation": "hotelling", "mode": "sequential", "l2": 1.0}, "give l2=inf, or another deflation"),
    ],
)
def test_what_a_deflation_needs(options, message, tall):
    with pytest.raises(ValueError, match=message):
        ElasticNetPCA(2, **options).fit(tall)


@pytest.mark.parametrize("l2", [3.0, INF])
def test_components_that_move_together_are_a_polar_factor_of_their_images(l2, tall):
    """The stationarity of all axes at once, which axes that were found one after another do not have."""
    centred = tall - tall.mean(axis=0)
    gram = centred.T @ centred
    axes = np.linalg.eigh(gram)[1][:, [-1, -2, -3]].T
    penalty, off = Penalty(l2, share=np.full(3, 0.3)), {}
    for sequential in (False, True):
        found = sparse_pca(GramScatter(gram), penalty, axes, sequential=sequential, stop=Stop(1e-12, 5000))
        left, _, right = np.linalg.svd(found.loadings @ gram, full_matrices=False)
        off[sequential] = np.abs(found.axes - left @ right).max()
    assert off[False] < 1e-6
    assert off[True] > 1e-3
