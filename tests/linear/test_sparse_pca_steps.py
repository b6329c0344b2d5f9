"""ElasticNetPCA: Zou, Hastie & Tibshirani's printed table, and the regression step against slow solvers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from linear_cases import INF, both_forms
from sklearn.linear_model import lars_path_gram

from kernelsieve import ElasticNetPCA
from kernelsieve.linear import regression
from kernelsieve.linear.regression import Penalty, solve_loadings
from kernelsieve.linear.scatter import GramScatter, scatter_of


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
    monkeypatch.setattr(regression, "PATH_COLUMNS", 0)
    monkeypatch.setattr(regression, "MIN_PATH_COLUMNS", 1)
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


def test_components_without_loadings_yet_solve_no_system(wide, capfd):
    """LAPACK writes to the screen where it is given a system without equations."""
    scatter = scatter_of(wide, None, wide.mean(axis=0))
    axes = scatter.leading(2)[1]
    found = solve_loadings(scatter, Penalty(0.0, share=np.full(2, 0.2)), axes, np.zeros_like(axes))
    assert found.values.any(axis=1).all()
    assert capfd.readouterr() == ("", "")
