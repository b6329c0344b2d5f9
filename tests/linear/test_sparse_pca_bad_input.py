"""ElasticNetPCA: what cannot be done is named."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from linear_cases import INF
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from kernelsieve import ElasticNetPCA

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
