"""ElasticNetKernelPCA: what cannot be done is named, what is hard is no trouble."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from elastic_net_cases import RBF, centrings, sparsities
from oracles import assert_same_up_to_sign, exact_kernel_pca, gram_of
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from kernelsieve import ElasticNetKernelPCA
from kernelsieve.models.elastic_net import _warn_of_correlation

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
    ("n_components", "center", "rank"), [(6, True, 4), (6, False, 5), (5, True, 4)], ids=["6 of 4", "6 of 5", "5 of 4"]
)
def test_more_components_than_rows_have_directions(n_components, center, rank, cloud):
    """N different rows have N directions, and N - 1 about their mean."""
    for rows in (cloud[:5], np.repeat(cloud[:5], 4, axis=0)):
        with pytest.raises(
            ValueError, match=f"n_components={n_components} is more than the rank.*, {rank}: ask for fewer"
        ):
            ElasticNetKernelPCA(n_components, center=center, **RBF).fit(rows)
    fitting = ElasticNetKernelPCA(rank, center=center, **RBF).fit(cloud[:5])
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


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize(("correlation", "said"), [(-0.72, True), (0.69, False)])
def test_scores_that_earlier_ones_explain_by_half_are_told_of_in_any_unit(correlation, said, unit):
    """The second component's scores share correlation^2 of their variance with those of the first."""
    directions = np.array([[1.0, correlation, 0.0], [0.0, np.sqrt(1 - correlation**2), 0.0], [0.0, 0.0, 1.0]])
    span = SimpleNamespace(covariance=unit * np.eye(3), spread=0.5)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        _warn_of_correlation(directions @ np.diag([2.0, 1.0, 0.0]), span)
    assert [str(one.message)[:49] for one in told] == said * ["the scores of component(s) 1 are mostly those of "]


def test_a_gap_that_is_not_reached_is_said(cloud):
    with pytest.warns(ConvergenceWarning, match="a duality gap of tol=1e-300 was not reached"):
        model = ElasticNetKernelPCA(2, alpha=0.3, tol=1e-300, **RBF).fit(cloud)
    assert not model.converged_


def test_no_warning_on_ordinary_data(digits):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for options in ({}, {"n_nonzero": 10, "refit": True}, {"sparsity": "joint"}, {"kernel": "cosine"}):
            ElasticNetKernelPCA(5, random_state=0, **options).fit(digits[0][:400])
    assert [str(warning.message) for warning in caught] == []
