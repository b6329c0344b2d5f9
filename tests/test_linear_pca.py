"""ElasticNetPCA: against Zou, Hastie & Tibshirani's printed table, slow solvers, optimality and scikit-learn's PCA."""

from __future__ import annotations

import math
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import assert_same_up_to_sign
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import lars_path_gram
from sklearn.utils.estimator_checks import parametrize_with_checks

import kernelsieve
from kernelsieve import ElasticNetPCA, sparse_pca_path
from kernelsieve.linear import alternation, elastic_net
from kernelsieve.linear.alternation import Stop, _nearest_axes, adjusted_variance, polar, sparse_pca, unit_rows
from kernelsieve.linear.elastic_net import Penalty, solve_loadings
from kernelsieve.linear.scatter import GramScatter, RowScatter, leading_eigenpairs, row_mean, scatter_of
from kernelsieve.threads import one_blas_thread

INF = math.inf


def sparse_signals(n_samples, n_features, size=5, seed=0, deviations=(3.0, 2.0)):
    """Rows with two components of disjoint support in noise, and those components."""
    rng = np.random.default_rng(seed)
    truth = np.zeros((2, n_features))
    for j in range(2):
        truth[j, j * size : (j + 1) * size] = rng.choice([-1, 1], size) / np.sqrt(size)
    scores = rng.standard_normal((n_samples, 2)) * deviations
    return scores @ truth + 0.4 * rng.standard_normal((n_samples, n_features)) + rng.standard_normal(n_features), truth


@pytest.fixture(scope="module")
def tall():
    return sparse_signals(90, 14)[0]


@pytest.fixture(scope="module")
def wide():
    return sparse_signals(25, 60)[0]


@pytest.fixture(scope="module")
def pitprops():
    datasets = pytest.importorskip("experiments.datasets")
    try:
        return datasets.load_file("pitprops")["corr"]
    except datasets.MissingData as missing:
        pytest.skip(f"needs {missing}")


# The published table


def test_pitprops_to_the_printed_digit(pitprops):
    alpha = [0.06, 0.16, 0.1, 0.5, 0.5, 0.5]
    model = ElasticNetPCA(6, alpha=alpha, alpha_scale="absolute", l2=0).fit_covariance(pitprops)
    assert model.n_nonzero_.tolist() == [7, 4, 4, 1, 1, 1]
    percent = 100 * model.explained_variance_ratio_
    assert [f"{value:.1f}" for value in percent] == ["28.0", "14.0", "13.3", "7.4", "6.8", "6.2"]
    assert f"{percent.sum():.1f}" == "75.8"
    assert model.converged_


def test_pitprops_sequentially(pitprops):
    model = ElasticNetPCA(6, n_nonzero=[7, 4, 4, 1, 1, 1], l2=0, mode="sequential").fit_covariance(pitprops)
    assert model.n_nonzero_.tolist() == [7, 4, 4, 1, 1, 1]
    assert f"{100 * model.explained_variance_ratio_.sum():.1f}" == "64.3"


@pytest.mark.parametrize("l2", [0.0, 1.0, 100.0, INF])
def test_zou_s_three_factors(l2):
    """Their section 5.2, from the exact covariance: PCA explains 60.0 and 39.6 %, two components of four loadings
    find the first two factors and 40.9 and 39.5 %.  Variables of a factor are exchangeable: all ties."""
    loads = np.repeat(np.eye(3), [4, 4, 2], axis=0)
    factors = np.diag([290.0, 300.0, 0.0])
    factors[2] = factors[:, 2] = [-0.3 * 290, 0.925 * 300, 0.3**2 * 290 + 0.925**2 * 300 + 1]
    covariance = loads @ factors @ loads.T + np.eye(10)
    dense = ElasticNetPCA(2, alpha=0, l2=l2).fit_covariance(covariance)
    assert [f"{100 * value:.1f}" for value in dense.explained_variance_ratio_] == ["60.0", "39.6"]
    model = ElasticNetPCA(2, n_nonzero=4, l2=l2).fit_covariance(covariance)
    np.testing.assert_allclose(model.components_, [[0] * 4 + [0.5] * 4 + [0] * 2, [0.5] * 4 + [0] * 6], atol=1e-6)
    assert [f"{100 * value:.1f}" for value in model.explained_variance_ratio_] == ["40.9", "39.5"]
    assert model.converged_


# The regression step


def slow_elastic_net(gram, target, alpha, l2):
    """Cyclic coordinate descent until nothing moves."""
    b = np.zeros(len(target))
    for _ in range(100_000):
        largest = 0.0
        for i in range(len(b)):
            old = b[i]
            rest = target[i] - gram[i] @ b + gram[i, i] * old
            b[i] = np.sign(rest) * max(abs(rest) - alpha / 2, 0) / (gram[i, i] + l2)
            largest = max(largest, abs(b[i] - old))
        if largest < 1e-13:
            return b
    raise AssertionError("the oracle did not converge")


def both_forms(X):
    centred = X - X.mean(axis=0)
    ones = np.ones(len(X))
    return {
        "gram": GramScatter(centred.T @ centred),
        "rows": RowScatter(centred, ones, None),
        "sparse rows": RowScatter(scipy.sparse.csc_matrix(X), ones, X.mean(axis=0)),
    }


@pytest.mark.parametrize("l2", [0.0, 0.7, 50.0])
@pytest.mark.parametrize("form", ["gram", "rows", "sparse rows"])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.8])
@pytest.mark.parametrize("warm", ["cold", "wrong", "dense"])
def test_loadings_are_the_elastic_nets(form, l2, share, warm, tall):
    scatter, gram = both_forms(tall)[form], both_forms(tall)["gram"].gram
    axes = np.linalg.eigh(gram)[1][:, [-1, -2]].T
    alpha = share * 2 * np.abs(axes @ gram).max(axis=1)
    start = {"cold": np.zeros_like(axes), "wrong": np.where(axes > 0.1, -1.0, 0.0), "dense": axes.copy()}[warm]
    found = solve_loadings(scatter, Penalty(l2, alpha=alpha), axes, start)
    for j in range(2):
        truth = slow_elastic_net(gram, gram @ axes[j], alpha[j], l2)
        np.testing.assert_allclose(found.values[j], truth, atol=1e-8)
        assert np.array_equal(found.values[j] != 0, np.abs(truth) > 1e-10)
    np.testing.assert_allclose(found.images, found.values @ gram, atol=1e-9 * np.abs(gram).max())


@pytest.mark.parametrize("l2", [0.0, 1e-3, 5.0])
def test_loadings_are_optimal_for_more_features_than_rows(l2, wide):
    """The conditions of the optimum, for any number of nonzeros up to all."""
    centred = wide - wide.mean(axis=0)
    scatter = scatter_of(wide, None, wide.mean(axis=0))
    axes = scatter.leading(3)[1]
    for share in (0.5, 0.1, 0.01):
        alpha = share * 2 * np.abs(axes @ centred.T @ centred).max(axis=1)
        found = solve_loadings(scatter, Penalty(l2, alpha=alpha), axes, np.zeros_like(axes)).values
        for b, a, price in zip(found, axes, alpha, strict=True):
            correlations = centred.T @ (centred @ (a - b)) - l2 * b
            slack = 1e-4 * price
            assert np.all(np.abs(correlations) <= price / 2 + slack)
            np.testing.assert_allclose(correlations[b != 0], price / 2 * np.sign(b[b != 0]), atol=slack)


@pytest.mark.parametrize("l2", [0.0, 0.5, 20.0])
@pytest.mark.parametrize("n_nonzero", [1, 3, 9])
def test_number_of_nonzeros_is_a_point_of_the_lars_path(l2, n_nonzero, wide):
    """The row form looks at some columns only; the oracle runs LARS on all of them."""
    centred = wide - wide.mean(axis=0)
    gram = centred.T @ centred
    scatter = scatter_of(wide, None, wide.mean(axis=0))
    axes = scatter.leading(2)[1]
    found = solve_loadings(scatter, Penalty(l2, n_nonzero=np.array([n_nonzero] * 2)), axes, np.zeros_like(axes))
    for j in range(2):
        knots, _, path = lars_path_gram(
            gram @ axes[j], gram + l2 * np.eye(60), n_samples=1, method="lasso", max_iter=40
        )
        knot = np.flatnonzero(np.count_nonzero(path, axis=0) == n_nonzero)[0]
        np.testing.assert_allclose(found.values[j], path[:, knot], atol=1e-8)
        assert found.alpha[j] == pytest.approx(2 * knots[knot])
        assert np.count_nonzero(found.values[j]) == n_nonzero


def test_candidates_are_taken_in_until_none_is_wanted(wide, monkeypatch):
    """Starting with one candidate column, the path is still that over all columns."""
    scatter = scatter_of(wide, None, wide.mean(axis=0))
    axes, counts = scatter.leading(2)[1], np.array([9, 5])
    many = solve_loadings(scatter, Penalty(0.5, n_nonzero=counts), axes, np.zeros_like(axes))
    monkeypatch.setattr(elastic_net, "CANDIDATES", 0)
    monkeypatch.setattr(elastic_net, "MIN_CANDIDATES", 1)
    few = solve_loadings(scatter, Penalty(0.5, n_nonzero=counts), axes, np.zeros_like(axes))
    np.testing.assert_allclose(few.values, many.values, atol=1e-8)


@pytest.mark.parametrize(("seed", "n_nonzero"), [(101, 4), (5, 5), (15, 6)])
def test_variables_that_leave_the_path_again(seed, n_nonzero):
    """Data on whose path a variable leaves before n_nonzero have entered: more steps than variables are needed."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((8, 6)) @ rng.standard_normal((6, 6))
    gram, axis = rows.T @ rows, rng.standard_normal(6)
    found = solve_loadings(
        GramScatter(gram), Penalty(0.0, n_nonzero=np.array([n_nonzero])), axis[None], np.zeros((1, 6))
    )
    b, alpha = found.values[0], found.alpha[0]
    assert np.count_nonzero(b) == n_nonzero
    np.testing.assert_allclose(b, slow_elastic_net(gram, gram @ axis, alpha, 0.0), atol=1e-6)


def test_infinite_l2_is_a_soft_threshold(tall):
    gram = both_forms(tall)["gram"].gram
    axes = np.linalg.eigh(gram)[1][:, [-1, -2]].T
    targets = axes @ gram
    alpha = np.array([0.4, 0.6]) * np.abs(targets).max(axis=1)
    found = solve_loadings(GramScatter(gram), Penalty(INF, alpha=alpha), axes, np.zeros_like(axes)).values
    for b, t, price in zip(found, targets, alpha, strict=True):
        np.testing.assert_allclose(b, [math.copysign(max(abs(v) - price / 2, 0), v) for v in t])
    counted = solve_loadings(GramScatter(gram), Penalty(INF, n_nonzero=np.array([4, 14])), axes, np.zeros_like(axes))
    assert np.count_nonzero(counted.values, axis=1).tolist() == [4, 14]
    np.testing.assert_allclose(counted.values[1], targets[1])
    assert np.sort(np.abs(targets[0]))[-5] == pytest.approx(counted.alpha[0] / 2)


def test_equal_targets_enter_together():
    covariance = np.diag([4.0, 4.0, 1.0, 1.0])
    covariance[:2, :2] = 4.0
    model = ElasticNetPCA(1, n_nonzero=1).fit_covariance(covariance)
    np.testing.assert_allclose(model.components_, [[np.sqrt(0.5), np.sqrt(0.5), 0, 0]])
    assert model.n_nonzero_.tolist() == [2]


def test_infinite_l2_is_the_limit(tall):
    options = {"alpha": 0.3, "tol": 1e-9}
    limit = ElasticNetPCA(2, **options).fit(tall)
    large = ElasticNetPCA(2, l2=1e7 * np.var(tall) * tall.size, **options).fit(tall)
    np.testing.assert_allclose(large.components_, limit.components_, atol=1e-6)


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


# Rows of all kinds


@pytest.mark.parametrize("name", ["tall", "wide"])
@pytest.mark.parametrize("options", [{"alpha": 0.2}, {"alpha": 0.05, "l2": 1.0}, {"n_nonzero": 4, "l2": 0.1}])
def test_sparse_rows_are_the_same_rows(name, options, request):
    X = request.getfixturevalue(name).copy()
    X[np.abs(X) < 0.3] = 0
    dense = ElasticNetPCA(2, refit=True, **options).fit(X)
    for container in (scipy.sparse.csr_matrix, scipy.sparse.csc_array):
        model = ElasticNetPCA(2, refit=True, **options).fit(container(X))
        np.testing.assert_allclose(model.components_, dense.components_, atol=1e-6)
        np.testing.assert_allclose(model.explained_variance_, dense.explained_variance_, rtol=1e-7)
        np.testing.assert_allclose(model.explained_variance_ratio_, dense.explained_variance_ratio_, rtol=1e-7)
        np.testing.assert_allclose(model.transform(container(X)), dense.transform(X), atol=1e-5)
        np.testing.assert_allclose(model.reconstruction_error(container(X)), dense.reconstruction_error(X), atol=1e-5)
        assert model.score(container(X)) == pytest.approx(dense.score(X))


@pytest.mark.parametrize("shape", [(40, 12), (15, 40)])
@pytest.mark.parametrize("container", [np.asarray, scipy.sparse.csr_matrix])
@pytest.mark.parametrize("options", [{"alpha": 0.2}, {"alpha": 0.1, "l2": 1.0}])
def test_weights_are_repetitions(shape, container, options):
    X = sparse_signals(*shape)[0]
    counts = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = ElasticNetPCA(2, **options).fit(container(X), sample_weight=counts)
    repeated = ElasticNetPCA(2, **options).fit(np.repeat(X, counts, axis=0))
    np.testing.assert_allclose(weighted.components_, repeated.components_, atol=1e-6)
    np.testing.assert_allclose(weighted.mean_, repeated.mean_)
    np.testing.assert_allclose(weighted.explained_variance_, repeated.explained_variance_, rtol=1e-6)
    np.testing.assert_allclose(weighted.alpha_, repeated.alpha_)


@pytest.mark.parametrize("name", ["tall", "wide"])
def test_float32(name, request):
    X = request.getfixturevalue(name)
    full, light = ElasticNetPCA(2).fit(X), ElasticNetPCA(2).fit(X.astype(np.float32))
    scores = light.transform(X.astype(np.float32))
    assert scores.dtype == np.float32
    assert light.inverse_transform(scores).dtype == np.float32
    np.testing.assert_allclose(scores, full.transform(X), atol=1e-4)
    np.testing.assert_allclose(light.components_, full.components_, atol=1e-5)


def test_far_from_the_origin(tall):
    near, far = ElasticNetPCA(2).fit(tall), ElasticNetPCA(2).fit(tall + 1e6)
    np.testing.assert_allclose(far.components_, near.components_, atol=1e-5)
    np.testing.assert_allclose(far.transform(tall + 1e6), near.transform(tall), atol=1e-4)


def test_a_covariance_is_all_it_needs(tall):
    rows = ElasticNetPCA(3, alpha=0.2, refit=True).fit(tall)
    covariance = ElasticNetPCA(3, alpha=0.2, refit=True).fit_covariance(np.cov(tall.T, ddof=0))
    np.testing.assert_allclose(covariance.components_, rows.components_, atol=1e-8)
    np.testing.assert_allclose(covariance.explained_variance_, rows.explained_variance_, rtol=1e-8)
    np.testing.assert_allclose(covariance.explained_variance_ratio_, rows.explained_variance_ratio_, rtol=1e-8)
    np.testing.assert_array_equal(covariance.mean_, np.zeros(14))
    np.testing.assert_allclose(covariance.transform(tall - rows.mean_), rows.transform(tall), atol=1e-8)


def test_many_rows_are_taken_in_parts():
    X = sparse_signals(5000, 8, size=3)[0]
    centred = X - X.mean(axis=0)
    scatter = scatter_of(X, None, row_mean(X, None))
    np.testing.assert_allclose(scatter.gram, centred.T @ centred, rtol=1e-10)


def run_python(code):
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_nothing_of_size_p_by_p_for_p_above_n():
    """p x p numbers would be 1.2 GB."""
    out = run_python("""
        import tracemalloc, warnings
        import numpy as np
        from kernelsieve import ElasticNetPCA
        warnings.simplefilter("ignore")
        X = np.random.default_rng(0).standard_normal((40, 12_000))
        for options in ({}, {"l2": 1.0, "alpha": 0.5}, {"l2": 1.0, "n_nonzero": 20, "refit": True}):
            model = ElasticNetPCA(2, max_iter=3, **options)
            model.fit(X[:, :50])  # imports are no cost of a fit
            tracemalloc.start()
            model.fit(X)
            print(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    """)
    assert max(int(line) for line in out.split()) < 5 * 40 * 12_000 * 8


# After the fit


@pytest.mark.parametrize("name", ["tall", "wide"])
def test_scores_and_rows_back(name, request):
    X = request.getfixturevalue(name)
    new = X[::-1] + 0.1
    least, plain = (ElasticNetPCA(3, n_nonzero=6, transform_method=m).fit(X) for m in ("least-squares", "projection"))
    V, centred = least.components_, new - X.mean(axis=0)
    by_hand = np.linalg.lstsq(V.T, centred.T, rcond=None)[0].T
    np.testing.assert_allclose(least.transform(new), by_hand, atol=1e-8)
    np.testing.assert_allclose(plain.transform(new), centred @ V.T, atol=1e-10)
    rebuilt = by_hand @ V + X.mean(axis=0)
    for model in (least, plain):
        np.testing.assert_allclose(model.inverse_transform(model.transform(new)), rebuilt, atol=1e-8)
        np.testing.assert_allclose(model.reconstruction_error(new), ((new - rebuilt) ** 2).sum(axis=1), rtol=1e-7)
        assert model.score(new) == pytest.approx(1 - ((new - rebuilt) ** 2).sum() / (centred**2).sum())


def test_names_and_frames(tall):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(tall, columns=[f"x{i}" for i in range(14)])
    model = ElasticNetPCA(2).set_output(transform="pandas").fit(frame)
    assert list(model.transform(frame).columns) == ["elasticnetpca0", "elasticnetpca1"]
    assert list(model.feature_names_in_) == list(frame.columns)
    assert list(ElasticNetPCA(2).fit_covariance(frame.cov()).feature_names_in_) == list(frame.columns)


@pytest.mark.parametrize("options", [{}, {"alpha": [0.1, 0.3], "l2": 0.5}, {"n_nonzero": np.array([3, 4])}])
def test_save_and_load(options, tall, tmp_path):
    model = ElasticNetPCA(2, **options).fit(tall)
    model.save(tmp_path / "model.ks")
    loaded = kernelsieve.load(tmp_path / "model.ks")
    assert isinstance(loaded, ElasticNetPCA)
    np.testing.assert_array_equal(loaded.transform(tall), model.transform(tall))
    np.testing.assert_array_equal(loaded.inverse_transform(np.ones((3, 2))), model.inverse_transform(np.ones((3, 2))))
    for name, value in vars(model).items():
        np.testing.assert_array_equal(getattr(loaded, name), value)


def test_the_same_fit_twice_is_the_same(wide):
    models = [ElasticNetPCA(3, alpha=0.1, l2=0.5).fit(wide) for _ in range(2)]
    np.testing.assert_array_equal(models[0].components_, models[1].components_)


# The path


@pytest.mark.parametrize("name", ["tall", "wide"])
@pytest.mark.parametrize("options", [{}, {"l2": 1.0}, {"mode": "sequential", "refit": True}])
def test_the_path_is_a_fit_for_every_alpha(name, options):
    X = sparse_signals(*{"tall": (200, 14), "wide": (80, 100)}[name], deviations=(4.0, 2.0))[0]
    alphas = [0.7, 0.3, 0.1] if "l2" not in options else [0.3, 0.05, 0.02]
    path = sparse_pca_path(X, 2, alphas=alphas, **options)
    assert path.alphas.tolist() == alphas
    for i, alpha in enumerate(alphas):
        model = ElasticNetPCA(2, alpha=alpha, **options).fit(X)
        np.testing.assert_allclose(path.components[i], model.components_, atol=1e-4)
        np.testing.assert_array_equal(path.n_nonzero[i], model.n_nonzero_)
        np.testing.assert_allclose(path.explained_variance_ratio[i], model.explained_variance_ratio_, rtol=1e-3)
    assert path.converged.all()


def test_the_path_runs_from_empty_to_dense(tall):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = sparse_pca_path(tall, 2, alphas=12)
    assert path.alphas[0] == 1.0
    assert np.all(np.diff(path.alphas) < 0)
    assert path.n_nonzero[0].tolist() == [0, 0]
    assert path.n_nonzero[-1].min() > 8
    assert path.components.shape == (12, 2, 14)
    total = path.explained_variance_ratio.sum(axis=1)
    assert total[-1] == pytest.approx(PCA(2).fit(tall).explained_variance_ratio_.sum(), rel=1e-3)
    covariance = sparse_pca_path(np.cov(tall.T), 2, alphas=12, covariance=True)
    np.testing.assert_allclose(covariance.components, path.components, atol=1e-5)
    counts = np.random.default_rng(0).integers(0, 4, 90)
    weighted = sparse_pca_path(tall, 2, alphas=12, sample_weight=counts)
    repeated = sparse_pca_path(np.repeat(tall, counts, axis=0), 2, alphas=12)
    np.testing.assert_allclose(weighted.components, repeated.components, atol=1e-5)


def test_each_start_of_the_path_is_the_last_end(tall):
    alphas = np.linspace(0.6, 0.2, 60)
    path = sparse_pca_path(tall, 3, alphas=alphas)
    cold = [ElasticNetPCA(3, alpha=alpha).fit(tall).n_iter_ for alpha in alphas]
    assert path.n_iter.sum() < 0.75 * sum(cold)


def test_wrong_paths_are_named(tall):
    for alphas, message in ((0, "whole number"), ([], "sequence"), ([0.5, -1], "negative"), ([np.nan], "finite")):
        with pytest.raises(ValueError, match=message):
            sparse_pca_path(tall, alphas=alphas)
    with pytest.raises(ValueError, match="needs the alphas themselves"):
        sparse_pca_path(tall, alphas=5, alpha_scale="absolute")
    with pytest.raises(ValueError, match="a covariance has its weights in it"):
        sparse_pca_path(np.cov(tall.T), covariance=True, sample_weight=np.ones(14))
    with pytest.raises(ValueError, match="'mode' parameter"):
        sparse_pca_path(tall, mode="both")


def test_a_picture_of_the_path(tall):
    plots = pytest.importorskip("kernelsieve.plots")
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    path = sparse_pca_path(tall, 2, alphas=8)
    names = [f"x{i}" for i in range(14)]
    figure, ax = plt.subplots()
    assert plots.loading_path(path, 1, names, ax=ax) is ax
    figure.canvas.draw()
    largest = np.argmax(np.abs(path.components[-1, 1]))
    assert names[largest] in {text.get_text() for text in ax.texts}
    drawn = {tuple(line.get_ydata()) for line in ax.lines}
    assert tuple(path.components[:, 1, largest]) in drawn
    assert ax.get_xlabel() == "alpha"
    with pytest.raises(ValueError, match="component=2 does not exist: the path has 2"):
        plots.loading_path(path, 2)
    with pytest.raises(ValueError, match="3 feature_names for 14 features"):
        plots.loading_path(path, 0, ["a", "b", "c"])
    plots.loading_path(path).figure.canvas.draw()
    plt.close("all")


# Bad input


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity(value, tall):
    bad = tall.copy()
    bad[3, 2] = value
    for X in (bad, scipy.sparse.csr_matrix(bad)):
        with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
            ElasticNetPCA(2).fit(X)
        with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
            ElasticNetPCA(2).fit(tall).transform(X)


def test_a_failed_fit_leaves_the_estimator_as_it_was(tall):
    model = ElasticNetPCA(2).fit(tall)
    before = model.transform(tall)
    with pytest.raises(ValueError, match="all columns are constant"):
        model.fit(np.ones((20, 6)))
    np.testing.assert_array_equal(model.transform(tall), before)
    fresh = ElasticNetPCA(2)
    with pytest.raises(ValueError, match="all columns are constant"):
        fresh.fit(np.ones((20, 6)))
    with pytest.raises(NotFittedError):
        fresh.transform(tall)
    assert not hasattr(fresh, "n_features_in_")


def test_one_feature():
    X = np.arange(10.0)[:, None]
    model = ElasticNetPCA(1).fit(X)
    np.testing.assert_allclose(model.components_, [[1.0]])
    assert model.explained_variance_ratio_[0] == pytest.approx(1)
    np.testing.assert_allclose(model.transform(X)[:, 0], X[:, 0] - 4.5)
    with pytest.raises(ValueError, match="n_components=2 is more than the data have: n_features=1"):
        ElasticNetPCA(2).fit(X)


@pytest.mark.parametrize("options", [{"alpha": 0.1}, {"alpha": 0.01, "l2": 0.0}, {"n_nonzero": 6, "l2": 0.0}])
def test_constant_columns_get_no_loadings(options, tall):
    X = tall.copy()
    X[:, [0, 7]] = 5.0
    model = ElasticNetPCA(2, **options).fit(X)
    assert not model.components_[:, [0, 7]].any()
    assert np.all(np.isfinite(model.transform(X)))


@pytest.mark.parametrize("l2", [0.0, INF])
def test_copies_of_columns_are_no_trouble(l2, tall):
    X = np.hstack([tall, tall[:, :3]])
    for options in ({"alpha": 0.1}, {"n_nonzero": 4}):
        model = ElasticNetPCA(2, l2=l2, refit=True, **options).fit(X)
        assert np.all(np.isfinite(model.components_))
        np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1)


def test_components_that_want_the_same_variable():
    """Both first axes load most on one large variable: the polar factor of equal loadings is not unique."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 6))
    X[:, 0] = 10 * (X[:, 1] + X[:, 2])
    X[:, 1] += X[:, 0]
    model = ElasticNetPCA(2, n_nonzero=1).fit(X)
    assert np.all(np.isfinite(model.components_))
    np.testing.assert_array_equal(model.n_nonzero_, [1, 1])


def test_more_components_than_directions(tall):
    with pytest.raises(ValueError, match=r"n_components=15 is more than the data have: n_features=14"):
        ElasticNetPCA(15).fit(tall)
    with pytest.raises(ValueError, match=r"n_components=5 is more than the data have: n_features=14, n_samples=4"):
        ElasticNetPCA(5).fit(tall[:4])
    copies = np.repeat(tall[:3], 10, axis=0)
    with pytest.raises(ValueError, match="n_components=3 is more than the rank allows: these data have 2 directions"):
        ElasticNetPCA(3).fit(copies)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.1, "n_nonzero": 3}, "give one of them and leave the other None"),
        ({"alpha": [0.1, 0.2, 0.3]}, r"alpha has shape \(3,\): give one number, or one for each of the 2 components"),
        ({"alpha": [0.1, -0.2]}, "must be finite and not negative"),
        ({"alpha": [0.1, np.nan]}, "must be finite and not negative"),
        ({"n_nonzero": 15}, "must be whole numbers from 1 to n_features=14"),
        ({"n_nonzero": [3, 0]}, "must be whole numbers from 1 to n_features=14"),
        ({"n_nonzero": [3, 2.5]}, "must be whole numbers"),
        ({"alpha_scale": "absolute"}, "needs an alpha"),
        ({"alpha": -1}, "'alpha' parameter"),
        ({"l2": -1}, "'l2' parameter"),
        ({"mode": "both"}, "'mode' parameter"),
        ({"transform_method": "lasso"}, "'transform_method' parameter"),
    ],
)
def test_wrong_arguments_are_named(options, message, tall):
    with pytest.raises(ValueError, match=message):
        ElasticNetPCA(2, **options).fit(tall)


def test_wrong_weights(tall):
    with pytest.raises(ValueError, match=r"sample_weight.*shape"):
        ElasticNetPCA(2).fit(tall, sample_weight=np.ones(5))
    with pytest.raises(ValueError, match="Negative values"):
        ElasticNetPCA(2).fit(tall, sample_weight=-np.ones(90))
    with pytest.raises(ValueError, match="at least two rows must have a positive"):
        ElasticNetPCA(2).fit(tall, sample_weight=np.eye(90)[0])


def test_matrices_that_are_no_covariance(tall):
    good = np.cov(tall.T)
    with pytest.raises(ValueError, match=r"a covariance is square, this matrix is 90 x 14: rows go to fit\(X\)"):
        ElasticNetPCA(2).fit_covariance(tall)
    skewed = good.copy()
    skewed[2, 5] += 1
    with pytest.raises(ValueError, match=r"not symmetric: C\[2, 5\]"):
        ElasticNetPCA(2).fit_covariance(skewed)
    with pytest.raises(ValueError, match="not positive semi-definite: its smallest eigenvalue is -"):
        ElasticNetPCA(2).fit_covariance(good - 0.5 * np.eye(14))
    with pytest.raises(ValueError, match="contains NaN"):
        ElasticNetPCA(2).fit_covariance(np.where(np.eye(14) == 1, np.nan, good))
    np.testing.assert_allclose(
        ElasticNetPCA(2).fit_covariance(good.astype(np.float32)).components_,
        ElasticNetPCA(2).fit_covariance(good).components_,
        atol=1e-4,
    )


def test_scores_of_another_model(tall):
    with pytest.raises(ValueError, match="scores have 3 columns, the model has 2 components"):
        ElasticNetPCA(2).fit(tall).inverse_transform(np.ones((4, 3)))


def test_a_fit_cut_short_says_so(tall):
    with pytest.warns(ConvergenceWarning, match=r"not converged after 1 steps.*larger max_iter \(now 1\)"):
        model = ElasticNetPCA(2, alpha=0.2, max_iter=1).fit(tall)
    assert not model.converged_
    assert model.n_iter_ == 1


@parametrize_with_checks(
    [
        ElasticNetPCA(),
        ElasticNetPCA(l2=10.0, alpha=0.1),
        ElasticNetPCA(1, mode="sequential", n_nonzero=1, l2=0.0, transform_method="projection", refit=True),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


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
