"""T2, SPE and contributions against scikit-learn's kernel PCA, finite differences and known causes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as SklearnKernelPCA
from sklearn.metrics.pairwise import rbf_kernel

from kernelsieve import (
    ElasticNetKernelPCA,
    KernelMonitor,
    KernelPCA,
    LikelihoodKernelPCA,
    RobustSparseKernelPCA,
    SparseKernelPCA,
)


def correlated(n_rows, seed=0, n_columns=8):
    """Rows near a plane, columns in very different units."""
    mixing = np.random.default_rng(99).standard_normal((2, n_columns))
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n_rows, 2)) @ mixing + 0.2 * rng.standard_normal((n_rows, n_columns))
    return rows * 10.0 ** np.arange(-3, n_columns - 3) + 5.0


def test_exact_kernel_pca_gives_the_textbook_statistics():
    rows, new = correlated(150), correlated(40, seed=1)
    gamma = 0.05
    monitor = KernelMonitor(estimator=KernelPCA(4, kernel="rbf", gamma=gamma)).fit(rows)
    scaled, new_scaled = ((x - rows.mean(axis=0)) / rows.std(axis=0) for x in (rows, new))
    peer = SklearnKernelPCA(4, kernel="rbf", gamma=gamma).fit(scaled)
    scores = peer.transform(new_scaled)
    gram, cross = rbf_kernel(scaled, gamma=gamma), rbf_kernel(new_scaled, scaled, gamma=gamma)
    distance = 1 - 2 * cross.mean(axis=1) + gram.mean()
    found = monitor.statistics(new)
    np.testing.assert_allclose(found.spe, distance - np.sum(scores**2, axis=1), atol=1e-10)
    np.testing.assert_allclose(found.t2, np.sum(scores**2 / (peer.eigenvalues_ / 150), axis=1), rtol=1e-8)
    np.testing.assert_allclose(monitor.score_samples(new), -found.spe)


def test_a_linear_kernel_gives_the_linear_chart():
    rows, new = correlated(300), correlated(50, seed=1)
    monitor = KernelMonitor(2, 20, kernel="linear", random_state=0).fit(rows)
    scaled, new_scaled = ((x - rows.mean(axis=0)) / rows.std(axis=0) for x in (rows, new))
    peer = PCA(2).fit(scaled)
    residual = new_scaled - peer.inverse_transform(peer.transform(new_scaled))
    np.testing.assert_allclose(monitor.statistics(new).spe, np.sum(residual**2, axis=1), rtol=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear", "cosine", "laplacian"])
@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_contributions_are_squared_slopes_by_finite_differences(kernel, whiten):
    rows, new = correlated(200, n_columns=4), correlated(20, seed=1, n_columns=4)
    monitor = KernelMonitor(3, 15, kernel=kernel, gamma=0.1, whiten=whiten, random_state=0).fit(rows)
    spread, columns = rows.std(axis=0), []
    for j in range(4):
        move = np.zeros(4)
        move[j] = 1e-5 * spread[j]
        ahead, behind = (monitor.statistics(new + sign * move).spe for sign in (1, -1))
        columns.append((ahead - behind) / (2e-5 * spread[j]))
    factor = monitor.input_map_.factor
    metric = np.sum(factor**2, axis=1) if whiten else factor**2
    squares = np.stack(columns, axis=1) ** 2 / metric
    spe = monitor.statistics(new).spe
    truth = squares / squares.sum(axis=1, keepdims=True) * spe[:, None]
    inside = spe > 1e-5
    assert inside.sum() > 5
    np.testing.assert_allclose(monitor.contributions(new)[inside], truth[inside], atol=2e-5 * truth[inside].max())


def test_contributions_add_up_to_spe_and_survive_rows_far_from_everything():
    rows = correlated(300)
    monitor = KernelMonitor(4, 20, random_state=0).fit(rows)
    far = np.tile(rows.mean(axis=0), (3, 1))
    far[:, 2] += np.array([1e2, 1e4, 1e6]) * rows[:, 2].std()
    found = monitor.contributions(far)
    np.testing.assert_allclose(found.sum(axis=1), monitor.statistics(far).spe, rtol=1e-9)
    assert found.argmax(axis=1).tolist() == [2, 2, 2]
    assert np.all(found.max(axis=1) > 0.8 * found.sum(axis=1))
    assert np.all(monitor.predict(far) == -1)


def test_a_biased_sensor_is_named_whatever_its_unit():
    rows, new = correlated(500), correlated(400, seed=1)
    monitor = KernelMonitor(5, 30, whiten=True, random_state=0).fit(rows)
    for j in range(8):
        biased = new.copy()
        biased[:, j] += 3 * rows[:, j].std()
        assert np.mean(monitor.contributions(biased).argmax(axis=1) == j) > 0.6


def test_lags_are_added_up_to_the_input_that_they_are_of():
    rows = correlated(400)
    monitor = KernelMonitor(4, 30, lags=2, random_state=0).fit(rows)
    faulty = rows[:50].copy()
    faulty[20:, 5] += 8 * rows[:, 5].std()
    found = monitor.contributions(faulty)
    assert found.shape == (50, 8)
    assert np.isnan(found[:2]).all()
    assert np.all(found[25:].argmax(axis=1) == 5)


def test_whitening_gives_all_directions_unit_variance_and_drops_repeated_columns():
    rows = correlated(500)
    doubled = np.hstack([rows, 2 * rows[:, :1] + 3])
    monitor = KernelMonitor(4, 30, whiten=True, random_state=0).fit(doubled)
    prepared = monitor.input_map_(doubled)
    assert prepared.shape == (500, 8)
    np.testing.assert_allclose(np.cov(prepared.T, bias=True), np.eye(8), atol=1e-8)


@pytest.mark.parametrize(
    "estimator",
    [
        SparseKernelPCA(3, n_support=15, random_state=0),
        KernelPCA(3, kernel="rbf", gamma="median"),
        LikelihoodKernelPCA(noise_fraction=0.05, random_state=0),
        ElasticNetKernelPCA(3, n_nonzero=10, random_state=0),
        RobustSparseKernelPCA(3, n_nonzero=10, random_state=0),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_every_kernel_estimator_can_be_monitored(estimator):
    rows, fresh = correlated(300), correlated(1000, seed=1)
    monitor = KernelMonitor(estimator=estimator).fit(rows)
    assert type(monitor.estimator_) is type(estimator)
    prepared = monitor.input_map_(fresh)
    np.testing.assert_allclose(
        monitor.statistics(fresh).spe, monitor.estimator_.reconstruction_error(prepared), atol=1e-9
    )
    assert 0.01 < np.mean(monitor.predict(fresh) < 0) < 0.12
    faulty = fresh.copy()
    faulty[:, 3] += 6 * rows[:, 3].std()
    assert np.mean(monitor.predict(faulty) < 0) > 0.9
    assert np.mean(monitor.contributions(faulty).argmax(axis=1) == 3) > 0.5


def test_a_fitted_estimator_stays_as_it_is_and_new_rows_set_its_limits():
    rows, fresh = correlated(300), correlated(500, seed=1)
    fitted = SparseKernelPCA(3, n_support=15, gamma=1e-10, random_state=0).fit(rows)
    monitor = KernelMonitor(estimator=fitted, cv="prefit", false_alarm_rate=0.1).fit(fresh)
    assert monitor.estimator_ is fitted
    errors = fitted.reconstruction_error(fresh)
    np.testing.assert_allclose(monitor.statistics(fresh).spe, errors, atol=1e-12)
    assert np.mean(errors > monitor.limits_["spe"]) == pytest.approx(0.1, abs=0.003)


def tanh_of_products(x, y):
    return np.tanh(0.5 * x @ y.T - 0.5)


def gaussian(x, y):
    return rbf_kernel(x, y, gamma=0.1)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "sigmoid"},
        {"kernel": tanh_of_products},
        {"estimator": SparseKernelPCA(3, n_support=15, kernel="sigmoid", random_state=0)},
        {"estimator": SparseKernelPCA(3, n_support=15, kernel="poly", gamma=0.5, coef0=-0.1, random_state=0)},
        {"estimator": KernelPCA(3, kernel="sigmoid", gamma=0.5)},
        {"estimator": KernelPCA(3, kernel="poly", degree=2.5, coef0=200.0)},
        {"estimator": KernelPCA(3, kernel=tanh_of_products)},
    ],
    ids=["named", "function", "sparse", "poly", "exact", "fractional degree", "exact function"],
)
@pytest.mark.filterwarnings("ignore")
def test_kernels_without_distances_are_refused_and_change_nothing(options):
    """Of an indefinite kernel SPE is negative for ordinary rows: cut off at zero it would say that nothing is odd."""
    rows = correlated(200)
    monitor = KernelMonitor(3, 15, random_state=0).fit(rows)
    before = monitor.limits_
    with pytest.raises(ValueError, match="positive semi-definite"):
        monitor.set_params(**options).fit(rows)
    assert monitor.limits_ is before


@pytest.mark.filterwarnings("ignore")
def test_a_fitted_estimator_without_distances_is_refused_and_a_function_that_has_them_is_taken():
    rows = correlated(200)
    scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    fitted = KernelPCA(3, kernel="sigmoid", gamma=0.5).fit(scaled)
    with pytest.raises(ValueError, match="the sigmoid kernel, not being positive semi-definite"):
        KernelMonitor(estimator=fitted, cv="prefit").fit(scaled)
    found, truth = (
        KernelMonitor(3, 15, random_state=0, **how).fit(rows) for how in ({"kernel": gaussian}, {"gamma": 0.1})
    )
    assert found.limits_["spe"] == pytest.approx(truth.limits_["spe"], rel=0.2)


def test_a_fitted_estimator_must_have_seen_the_columns_that_set_its_limits():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.random.default_rng(0).standard_normal((100, 3)), columns=list("abc"))
    monitor = KernelMonitor(estimator=SparseKernelPCA(2, n_support=10, random_state=0).fit(frame), cv="prefit")
    with pytest.raises(ValueError, match="names should match"):
        monitor.fit(frame[list("cba")])
    with pytest.raises(ValueError, match="X has 2 features"):
        monitor.fit(frame.to_numpy()[:, :2])
    assert monitor.fit(frame).limits_["spe"] > 0
