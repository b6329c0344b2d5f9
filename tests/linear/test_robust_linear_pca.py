"""RobustElasticNetPCA: the loss against its formula, the stages against brute force, the whole against outliers."""

from __future__ import annotations

import math
import tracemalloc
import warnings

import numpy as np
import pytest
from oracles import assert_same_up_to_sign
from scipy.linalg import subspace_angles
from scipy.spatial.distance import pdist
from scipy.special import expit
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import enet_path

import kernelsieve
from kernelsieve import ElasticNetPCA, RobustElasticNetPCA
from kernelsieve.linear.robust_weights import (
    LogisticLoss,
    ResidualForm,
    cutoff,
    fit_plane,
    isometric_coordinates,
    nearest_half,
    outlyingness,
    reweight,
    two_stage_weights,
)

SIZES = (6, 5)  # nonzero loadings of the true components


def contaminated(n_samples, n_features, share, kind, seed=0):
    """Rows with two sparse components in noise of variance 1, the first ones replaced by outliers along other
    variables; the components; how many outliers there are."""
    rng = np.random.default_rng(seed)
    truth = np.zeros((2, n_features))
    truth[0, :6], truth[1, 6:11] = rng.choice([-1, 1], 6) / np.sqrt(6), rng.choice([-1, 1], 5) / np.sqrt(5)
    rows = rng.standard_normal((n_samples, 2)) * (8, 6) @ truth + rng.standard_normal((n_samples, n_features))
    count = round(share * n_samples)
    away = np.zeros((count, n_features))
    away[:, 11:] = rng.standard_normal((1 if kind == "clustered" else count, n_features - 11))
    away *= 50 / np.linalg.norm(away, axis=1, keepdims=True)
    rows[:count] = away + 0.5 * rng.standard_normal((count, n_features))
    return rows, truth, count


def angle(components, truth):
    return float(np.degrees(subspace_angles(components.T, truth.T)[0]))


def fit(rows, **options):
    return RobustElasticNetPCA(2, **{"n_nonzero": SIZES, "random_state": 0, **options}).fit(rows)


# The loss


def test_loss_and_weight_are_the_papers():
    delta, c = 2.5, 8.0
    mu, r = c / delta, np.linspace(0.01, 4, 50)
    loss = LogisticLoss(delta)
    rho = -(np.log(1 + np.exp(mu * delta - mu * r**2)) - np.log(1 + np.exp(mu * delta))) / (2 * mu)
    np.testing.assert_allclose([loss.value(np.array([x**2])) for x in r], rho, atol=1e-12)
    omega = np.exp(mu * delta - mu * r**2) / (1 + np.exp(mu * delta - mu * r**2))
    np.testing.assert_allclose(loss.weights(r**2), omega, rtol=1e-10)
    step = 1e-5
    slope = [
        (loss.value(np.array([(x + step) ** 2])) - loss.value(np.array([(x - step) ** 2]))) / (2 * step) for x in r
    ]
    np.testing.assert_allclose(loss.weights(r**2), slope / r, atol=1e-8)
    assert loss.weights(np.array([delta])) == pytest.approx(0.5)
    assert loss.weights(np.array([1e300])) == 0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["clustered", "scattered"])
def test_reweighting_lowers_the_loss(kind, seed):
    rows, _, _ = contaminated(100, 15, 0.25, kind, seed)
    bad_start = fit_plane(rows[:40], np.ones(40), 2)
    good_start = fit_plane(rows[30:], np.ones(70), 2)
    for plane in (bad_start, good_start):
        found = reweight(rows, plane)
        assert found.converged
        assert len(found.losses) > 1
        assert np.all(np.diff(found.losses) <= 1e-9 * found.losses[0])


def test_cutoff_of_normal_noise():
    """Squared distances in q dimensions are chi-squared: about 1.25 % lie beyond."""
    squared = np.random.default_rng(0).chisquare(12, 100_000)
    assert np.mean(squared > cutoff(squared)) == pytest.approx(0.0125, abs=0.002)
    z = squared ** (1 / 3)
    by_hand = (np.median(z) + 2.24 * 1.4826 * np.median(np.abs(z - np.median(z)))) ** 3
    assert cutoff(squared) == pytest.approx(by_hand)


# The stages


def test_coordinates_keep_all_distances():
    for shape in ((12, 40), (40, 12)):
        rows = np.random.default_rng(0).standard_normal(shape) + 5
        found = isometric_coordinates(rows)
        assert found.shape[1] <= min(shape)
        np.testing.assert_allclose(pdist(found), pdist(rows))


def test_outlyingness_on_a_line_is_distance_from_the_median():
    values = np.random.default_rng(0).standard_normal(31)
    found = outlyingness(values[:, None], 5, np.random.default_rng(0))
    median = np.median(values)
    truth = np.abs(values - median) / np.median(np.abs(values - median))
    np.testing.assert_allclose(found, truth, rtol=1e-4)


def test_outlyingness_is_the_largest_along_pairs_of_rows():
    """With all pairs among few rows drawn for sure, it is the maximum over all of them."""
    rows = np.random.default_rng(1).standard_normal((9, 4))
    truth = np.zeros(9)
    for i in range(9):
        for j in range(i):
            along = rows @ (rows[i] - rows[j])
            off = np.abs(along - np.median(along))
            truth = np.maximum(truth, off / np.median(off))
    np.testing.assert_allclose(outlyingness(rows, 5000, np.random.default_rng(0)), truth, rtol=1e-3)


def test_copies_of_a_row_do_not_stop_it():
    rows = np.zeros((20, 3))
    assert np.all(np.isfinite(outlyingness(rows, 50, np.random.default_rng(0))))
    rows[:3] = np.eye(3)
    assert np.all(np.isfinite(outlyingness(rows, 50, np.random.default_rng(0))))


def test_nearest_half():
    distances = np.array([5.0, 1, 4, 2, 3, 0])
    assert sorted(nearest_half(distances, 1)) == [1, 3, 5]
    assert len(nearest_half(distances, 4)) == 5


@pytest.mark.parametrize("shape", [(40, 7), (12, 30)])
def test_planes_are_weighted_pca(shape):
    rng = np.random.default_rng(0)
    rows, counts = rng.standard_normal(shape) @ rng.standard_normal((shape[1], shape[1])), rng.integers(1, 4, shape[0])
    plane = fit_plane(rows, counts.astype(float), 2)
    repeated = np.repeat(rows, counts, axis=0)
    truth = PCA(2).fit(repeated)
    np.testing.assert_allclose(plane.location, truth.mean_)
    assert_same_up_to_sign(plane.axes, truth.components_.T, 1e-6)
    off = rows - truth.inverse_transform(truth.transform(rows))
    np.testing.assert_allclose(plane.squared_distances(rows), (off**2).sum(axis=1), rtol=1e-6)


def test_pairs_of_rows_find_a_cluster_of_forty_percent():
    for seed in range(5):
        rows, _, count = contaminated(200, 24, 0.4, "clustered", seed)
        weights = two_stage_weights(rows, 2, 500, np.random.default_rng(seed)).values
        assert weights[:count].max() < 1e-3
        assert np.mean(weights[count:] > 0.5) > 0.97


# The whole


@pytest.mark.parametrize("kind", ["clustered", "scattered"])
@pytest.mark.parametrize("shape", [(200, 20), (100, 200)])
def test_outliers_do_not_turn_it(shape, kind):
    """Mean of 5 data sets at most 3 degrees from the truth; plain sparse PCA is carried away by a cluster."""
    for share in (0, 0.05, 0.1, 0.2, 0.3):
        angles, plain = [], []
        for seed in range(5):
            rows, truth, count = contaminated(*shape, share, kind, seed)
            model = fit(rows)
            angles.append(angle(model.components_, truth))
            plain.append(angle(ElasticNetPCA(2, n_nonzero=SIZES).fit(rows).components_, truth))
            assert model.outliers_[:count].all()
            assert model.outliers_[count:].mean() < 0.06
            assert np.all(model.weights_[:count] < 1e-3)
        assert np.mean(angles) <= 3
        if share and kind == "clustered":
            assert min(plain) > 80


def test_without_outliers_it_is_elastic_net_pca():
    rows, truth, _ = contaminated(200, 20, 0, "clustered")
    robust, plain = fit(rows), ElasticNetPCA(2, n_nonzero=SIZES, refit=True).fit(rows)
    assert angle(robust.components_, plain.components_) < 0.5
    np.testing.assert_allclose(robust.explained_variance_, plain.explained_variance_, rtol=0.05)
    assert angle(robust.components_, truth) < 3


def test_it_is_elastic_net_pca_of_the_weighted_rows():
    rows, _, _ = contaminated(100, 30, 0.2, "scattered")
    for options in ({}, {"mode": "sequential", "l2": 1.0, "refit": False}, {"n_nonzero": None, "alpha": 0.3}):
        model = fit(rows, **options)
        settings = {"n_nonzero": SIZES, "refit": True, **options}
        plain = ElasticNetPCA(2, **settings).fit(rows, sample_weight=model.weights_)
        np.testing.assert_allclose(model.components_, plain.components_, atol=1e-10)
        np.testing.assert_allclose(model.location_, np.average(rows, axis=0, weights=model.weights_))
        np.testing.assert_allclose(model.explained_variance_ratio_, plain.explained_variance_ratio_)
        np.testing.assert_allclose(model.transform(rows), plain.transform(rows), atol=1e-8)


def test_distances_cutoff_and_new_rows():
    rows, _, _ = contaminated(200, 20, 0.2, "scattered")
    model = fit(rows)
    rebuilt = model.inverse_transform(model.transform(rows))
    distances = np.linalg.norm(rows - rebuilt, axis=1)
    np.testing.assert_allclose(model.orthogonal_distance_, distances, rtol=1e-8)
    assert model.cutoff_ == pytest.approx(math.sqrt(cutoff(distances**2)))
    np.testing.assert_array_equal(model.outliers_, distances > model.cutoff_)
    np.testing.assert_allclose(model.score_samples(rows), -distances, rtol=1e-8)
    np.testing.assert_allclose(model.decision_function(rows), model.score_samples(rows) - model.offset_)
    np.testing.assert_array_equal(model.predict(rows), np.where(model.outliers_, -1, 1))
    np.testing.assert_array_equal(model.fit_predict(rows), np.where(model.outliers_, -1, 1))
    rng = np.random.default_rng(9)
    good = rng.standard_normal((500, 2)) * (8, 6) @ model.components_ + rng.standard_normal((500, 20)) + model.location_
    assert np.mean(model.predict(good) == 1) > 0.95
    far = good.copy()
    far[:, 15] += 30
    assert np.all(model.predict(far) == -1)
    along = model.location_ + 1000 * model.components_[:1]  # a row in the plane is no outlier, however far
    assert model.predict(along) == 1


def test_scores_of_float32_rows():
    rows = contaminated(100, 20, 0.1, "scattered")[0].astype(np.float32)
    model = fit(rows)
    assert model.transform(rows).dtype == np.float32
    np.testing.assert_array_equal(model.predict(rows) == -1, model.outliers_)
    full = fit(rows.astype(np.float64))
    np.testing.assert_allclose(model.components_, full.components_, atol=1e-5)


def test_random_state(tmp_path):
    rows = contaminated(100, 20, 0.3, "clustered")[0]
    one, two = fit(rows, random_state=3), fit(rows, random_state=3)
    np.testing.assert_array_equal(one.components_, two.components_)
    np.testing.assert_array_equal(one.weights_, two.weights_)
    one.save(tmp_path / "model.ks")
    loaded = kernelsieve.load(tmp_path / "model.ks")
    np.testing.assert_array_equal(loaded.transform(rows), one.transform(rows))
    np.testing.assert_array_equal(loaded.predict(rows), one.predict(rows))
    np.testing.assert_array_equal(loaded.weights_, one.weights_)


# The paper's scheme, repaired


def test_residual_weights_are_the_papers():
    e = np.random.default_rng(0).standard_normal(11)
    for tau, c in ((0.5, 8.0), (0.8, 3.0), (1.0, 8.0)):
        delta = np.sort(e**2)[math.floor(tau * 11) - 1]
        mu = c / delta
        truth = np.exp(mu * delta - mu * e**2) / (1 + np.exp(mu * delta - mu * e**2))
        np.testing.assert_allclose(ResidualForm(tau, c).weights(e), truth, rtol=1e-9)
    np.testing.assert_array_equal(ResidualForm().weights(np.zeros(4)), np.ones(4))


def scheme_by_scikit_learn(rows, n_passes, gamma1, gamma2, l2, l2_alpha, tau, c):
    """Table 1 of the paper for the first component, alpha scaled to unit length: weights (8), then (13) and (14), each
    by scikit-learn's coordinate descent."""

    def elastic_net(X, y, penalty, gamma):
        total = gamma / 2 + penalty
        return enet_path(X, y, l1_ratio=gamma / 2 / total, alphas=[total / len(y)], tol=1e-14, max_iter=100_000)[1][
            :, 0
        ]

    X = rows - rows.mean(axis=0)
    alpha, predicted = np.linalg.svd(X)[2][0], X.mean(axis=1)
    for _ in range(n_passes):
        squared = (X @ alpha - predicted) ** 2
        delta = np.sort(squared)[int(tau * len(squared)) - 1]
        weighted = np.sqrt(expit(c * (1 - squared / delta)))[:, None] * X
        beta = elastic_net(weighted, weighted @ alpha, l2, gamma1)
        predicted = X @ beta
        alpha = elastic_net(weighted, weighted @ beta, l2_alpha, gamma2)
        alpha /= np.linalg.norm(alpha)
    return beta / np.linalg.norm(beta)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("unit", [1.0, 100.0])
@pytest.mark.parametrize(("gamma2", "l2_alpha", "tau", "c"), [(60.0, 20.0, 0.5, 8.0), (30.0, 5.0, 0.8, 3.0)])
def test_the_papers_own_parameters_are_those_of_its_table(gamma2, l2_alpha, tau, c, unit):
    rows = contaminated(80, 14, 0, "scattered")[0]
    truth = scheme_by_scikit_learn(rows, 3, 80.0, gamma2, 10.0, l2_alpha, tau, c)
    scale = unit**2
    model = RobustElasticNetPCA(
        1,
        weights="residual",
        alpha=80.0 * scale,
        l2=10.0 * scale,
        alpha_scale="absolute",
        gamma2=gamma2 * scale,
        l2_alpha=l2_alpha * scale,
        tau=tau,
        c=c,
        refit=False,
        max_iter=3,
    ).fit(unit * rows)
    assert_same_up_to_sign(model.components_.T, truth[:, None], atol=1e-5)
    assert 0 < np.count_nonzero(truth) < 14


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("options", [{"alpha": 0.2}, {"n_nonzero": SIZES}, {"alpha": [0.1, 0.3], "refit": False}])
def test_residual_scheme_does_not_collapse(options):
    rows, truth, _ = contaminated(200, 20, 0, "clustered")
    model = RobustElasticNetPCA(2, weights="residual", **options).fit(rows)
    assert model.n_nonzero_.min() > 0
    assert angle(model.components_, truth) < 15
    assert model.weights_.shape == (200,)
    assert 0 <= model.weights_.min() < model.weights_.max() <= 1
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1)
    np.testing.assert_allclose(model.location_, rows.mean(axis=0))


# Bad input


def test_more_outliers_than_rows_is_said():
    rows = contaminated(200, 20, 0.6, "clustered")[0]
    with pytest.warns(UserWarning, match="the weights rule out 40% of the rows: with that many, rows and outliers"):
        fit(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(contaminated(200, 20, 0.3, "clustered")[0])


def test_rows_in_a_plane():
    """Nothing but rounding is off the plane: no outliers; and one row off it is one."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((50, 2)) @ rng.standard_normal((2, 6)) + 3
    model = RobustElasticNetPCA(2, alpha=0.0, random_state=0).fit(rows)
    assert not model.outliers_.any()
    assert model.cutoff_ == 0
    rows[7] += [0, 0, 0, 0, 0, 5]
    model = RobustElasticNetPCA(2, alpha=0.0, random_state=0).fit(rows)
    assert np.flatnonzero(model.outliers_).tolist() == [7]
    assert model.weights_[7] == 0


def test_one_feature_and_few_rows():
    model = RobustElasticNetPCA(1, random_state=0).fit(np.arange(10.0)[:, None])
    np.testing.assert_allclose(model.components_, [[1.0]])
    assert not model.outliers_.any()
    with pytest.raises(ValueError, match="n_components=2 is more than the data have: n_samples=10, n_features=1"):
        RobustElasticNetPCA(2).fit(np.arange(10.0)[:, None])
    with pytest.raises(ValueError, match="1 sample"):
        RobustElasticNetPCA(1).fit(np.ones((1, 3)))


def test_constant_columns_and_constant_rows():
    rows = contaminated(100, 20, 0.2, "scattered")[0]
    rows[:, [3, 19]] = 7.0
    model = fit(rows)
    assert not model.components_[:, [3, 19]].any()
    for weights in ("two-stage", "residual"):
        with pytest.raises(ValueError, match="no variance to explain"):
            RobustElasticNetPCA(2, weights=weights).fit(np.full((20, 4), 3.0))


def test_wrong_input_is_named_and_leaves_nothing():
    rows = contaminated(60, 20, 0, "scattered")[0]
    model = RobustElasticNetPCA(2, alpha=0.1, n_nonzero=3)
    with pytest.raises(ValueError, match="give one of them"):
        model.fit(rows)
    with pytest.raises(NotFittedError):
        model.predict(rows)
    for options, message in (
        ({"weights": "both"}, "'weights' parameter"),
        ({"n_directions": 0}, "'n_directions' parameter"),
        ({"weights": "residual", "tau": 0}, "'tau' parameter"),
        ({"gamma2": 0.1}, "give weights='residual' with them, or leave them as they are"),
        ({"n_nonzero": 21}, "must be whole numbers from 1 to n_features=20"),
    ):
        with pytest.raises(ValueError, match=message):
            RobustElasticNetPCA(2, **options).fit(rows)
    with pytest.raises(ValueError, match="contains NaN"):
        fit(np.where(np.eye(60, 20) == 1, np.nan, rows))
    with pytest.warns(UserWarning, match=r"component\(s\) 1 are empty"):
        fit(rows, n_nonzero=None, alpha=[0.1, 2.0])
    with pytest.warns(ConvergenceWarning, match="not converged after 1 steps"):
        assert not fit(rows, max_iter=1).converged_


def test_constant_rows_are_refused_in_words():
    with pytest.raises(ValueError, match="all columns are constant"):
        RobustElasticNetPCA(2, n_directions=50, random_state=0).fit(np.ones((46, 200)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["clustered", "scattered"])
def test_weights_that_have_converged_are_those_of_their_own_plane(kind, seed):
    """Weighted PCA by an eigendecomposition, distances to it and the loss's weights, by hand, give the weights back.

    Rows far out keep their weight of zero from the first step on: it is the row that changes most that counts.
    """
    rows, _, _ = contaminated(120, 15, 0.25, kind, seed)
    found = reweight(rows, fit_plane(rows[25:90], np.ones(65), 2))
    assert found.converged
    location = np.average(rows, axis=0, weights=found.values)
    centred = rows - location
    _, vectors = np.linalg.eigh((centred * found.values[:, None]).T @ centred)
    off_plane = centred - centred @ vectors[:, -2:] @ vectors[:, -2:].T
    weights = expit(8.0 * (1 - (off_plane**2).sum(axis=1) / found.delta))
    np.testing.assert_allclose(weights, found.values, rtol=0, atol=2e-4)


def test_many_rows_of_few_columns_need_no_matrix_of_all_pairs():
    rows = np.random.default_rng(0).standard_normal((4000, 3))
    tracemalloc.start()
    isometric_coordinates(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * rows.nbytes
