"""How much of exact kernel PCA a likelihood model keeps; bad input, and what is said of a fit that is little."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
import scipy.sparse.linalg
from likelihood_cases import (
    CENTERED,
    RULES,
    captured_on,
    fitted,
)
from oracles import exact_kernel_pca, gram_of
from sklearn.exceptions import ConvergenceWarning

from kernelsieve import LikelihoodKernelPCA, likelihood_path
from kernelsieve.fit.captured_ratio import ratio_of_model
from kernelsieve.fit.expansion import KernelExpansion
from kernelsieve.fit.sample import Sample
from kernelsieve.kernels import named_kernel
from kernelsieve.rows.sampling import sample_rows

# How much of exact kernel PCA


@CENTERED
@pytest.mark.parametrize("noise_fraction", [0.1, 0.6])
def test_captured_ratio_of_all_rows(noise_fraction, center, cloud):
    model = fitted(cloud, gamma=0.3, noise_fraction=noise_fraction, center=center)
    truth = captured_on(gram_of("rbf", cloud, gamma=0.3), model, center)
    assert model.captured_ratio_ == pytest.approx(truth, abs=1e-9)
    assert (model.captured_ratio_kind_, model.captured_ratio_n_samples_) == ("all rows", 80)
    assert model.n_samples_seen_ == 80


@CENTERED
def test_captured_ratio_of_a_sample(center):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2600, 4)) @ rng.standard_normal((4, 9)) + 0.2 * rng.standard_normal((2600, 9))
    model = fitted(X, n_components=6, center=center, noise_fraction=0.1, n_dictionary=150)
    assert model.captured_ratio_kind_ == "sample, extrapolated"
    assert model.captured_ratio_n_samples_ == 1000
    truth = captured_on(gram_of("rbf", X, gamma=model.gamma_), model, center)
    assert model.captured_ratio_ == pytest.approx(truth, abs=0.01)


@CENTERED
def test_captured_ratio_of_any_coefficients(center, cloud, new_rows):
    """Of the span of the components, whatever basis it is given in."""
    rng = np.random.default_rng(0)
    coef = rng.standard_normal((6, 3))
    coef = np.column_stack([coef, coef @ [1.0, -2.0, 0.5]])  # a fourth that adds nothing
    kernel = named_kernel("rbf", gamma=0.3)
    sample = Sample.of(sample_rows(cloud, 2000, rng, None, merge=True), kernel, 4, center=center)
    found = ratio_of_model(sample, KernelExpansion(kernel, new_rows[:6], coef, np.zeros(4), orthogonal=False), 80)
    gram, cross = gram_of("rbf", new_rows[:6], gamma=0.3), gram_of("rbf", cloud, new_rows[:6], gamma=0.3)
    root = np.linalg.cholesky(coef[:, :3].T @ gram @ coef[:, :3])
    scores = np.linalg.solve(root, coef[:, :3].T @ cross.T).T
    captured = np.sum((scores - center * scores.mean(axis=0)) ** 2)
    exact = exact_kernel_pca(gram_of("rbf", cloud, gamma=0.3), 4, center=center)[0].sum()
    assert found.value == pytest.approx(captured / exact, rel=1e-9)


def test_orthonormal_components_of_the_same_span(cloud):
    gram, rng = gram_of("rbf", cloud[:8], gamma=0.3), np.random.default_rng(0)
    coef = rng.standard_normal((8, 3))
    doubled = np.column_stack([coef, 2 * coef[:, 1], coef @ rng.standard_normal(3)])
    for given_coef in (coef, doubled, 1e-6 * coef):
        given_model = KernelExpansion(
            named_kernel("rbf", gamma=0.3), cloud[:8], given_coef, np.zeros(given_coef.shape[1]), orthogonal=False
        )
        found = given_model.orthonormal.coef
        assert found.shape == (8, 3)
        np.testing.assert_allclose(found.T @ gram @ found, np.eye(3), atol=1e-9)
        inside = found @ (found.T @ gram @ coef)
        np.testing.assert_allclose(inside, coef, atol=1e-8)


# Bad input, and what is said of a fit that is little


def test_noise_variances_that_leave_nothing(cloud):
    limit = fitted(cloud, gamma=0.3).noise_variance_limit_
    for noise_variance in (limit, 1.5 * limit, 1e6):
        with pytest.raises(ValueError, match=rf"noise_variance=.* leaves nothing.*between 0 and {limit:.6g}"):
            fitted(cloud, gamma=0.3, noise_variance=noise_variance)
    for noise_variance in (0, -0.1, np.nan):
        with pytest.raises(ValueError, match="'noise_variance' parameter of LikelihoodKernelPCA must be"):
            fitted(cloud, gamma=0.3, noise_variance=noise_variance)


@pytest.mark.parametrize(
    "options",
    [{"noise_fraction": 0.99999}, {"tol": 1.0}, {"update": "fast", "noise_fraction": 0.99999}],
    ids=["next to the upper end", "no step is enough", "fast"],
)
def test_an_empty_model_is_no_model(options, cloud):
    """Where no step gains as much as asked, one vector (warned) or an error that says what to do."""
    model = LikelihoodKernelPCA(gamma=0.3, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(cloud)
        except ValueError as error:
            assert "noise_variance" in str(error) or "tol" in str(error)  # noqa: PT017
        else:
            assert model.n_support_ >= 1


def test_an_empty_model_on_a_path(cloud):
    limit = fitted(cloud, gamma=0.3).noise_variance_limit_
    try:
        path = likelihood_path(LikelihoodKernelPCA(gamma=0.3), cloud, noise_variance=[0.99999 * limit, 0.5 * limit])
    except ValueError as error:
        assert "noise_variance" in str(error)  # noqa: PT017
    else:
        assert path.n_support[0] <= 1 < path.n_support[1]


def test_two_ways_to_say_how_sparse(cloud):
    with pytest.raises(ValueError, match=r"noise_variance and n_support are two ways.*give one"):
        fitted(cloud, noise_variance=0.1, n_support=5)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_components", 0),
        ("n_components", 1.5),
        ("noise_fraction", 0.0),
        ("noise_fraction", 1.0),
        ("n_support", 0),
        ("n_support", 0.5),
        ("update", "slow"),
        ("n_dictionary", 0),
        ("prune_tol", -1.0),
        ("tol", -1.0),
        ("max_iter", 0),
        ("center", "yes"),
        ("kernel", "gauss"),
    ],
)
def test_parameters_out_of_range(name, value, cloud):
    with pytest.raises(ValueError, match=f"The '{name}' parameter of LikelihoodKernelPCA must be"):
        fitted(cloud, **{name: value})


@pytest.mark.parametrize("n_repeats", [1, 150], ids=["small", "larger than any sample"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity(value, n_repeats, cloud):
    bad = np.tile(cloud, (n_repeats, 1))
    bad[-3, 2] = value
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        fitted(bad, n_dictionary=20)
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        fitted(scipy.sparse.csr_matrix(bad))
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        fitted(cloud).score_samples(bad)
    gram = gram_of("rbf", cloud)
    gram[3, 5] = gram[5, 3] = value
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        fitted(gram, kernel="precomputed")


@pytest.mark.parametrize("n", [20, 12_000], ids=["small", "larger than any sample"])
def test_constant_rows(n):
    """Centred there is nothing left; uncentred one vector is all there is."""
    same = np.full((n, 3), 2.0)
    with pytest.raises(ValueError, match="all the same to this kernel"):
        fitted(same, center=True)
    with pytest.raises(ValueError, match="no positive part"):
        fitted(0 * same, kernel="linear")
    with pytest.warns(UserWarning, match="collapsed to one vector"):
        model = fitted(same)
    assert model.n_support_ == 1
    np.testing.assert_allclose(np.abs(model.transform(same)), 1)
    np.testing.assert_allclose(model.explained_variance_ratio_, [1])
    assert model.weights_ == pytest.approx([1 - model.noise_variance_])  # w k = mean square - s2


@CENTERED
@pytest.mark.parametrize("update", RULES)
def test_two_rows(update, center, cloud):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LikelihoodKernelPCA(update=update, center=center, max_iter=2000).fit(cloud[:2])
    assert 1 <= model.n_support_ <= 2
    assert np.all(np.isfinite(model.score_samples(cloud)))
    assert 0 < model.captured_ratio_ <= 1
    with pytest.raises(ValueError, match=r"1 sample.*minimum of 2 is required"):
        fitted(cloud[:1])


def test_a_model_that_collapsed_says_so(cloud):
    with pytest.warns(UserWarning, match=r"collapsed to one vector.*below 0\.1\d+ \(of at most 0\.176\)") as caught:
        model = fitted(cloud, gamma=0.3, noise_fraction=0.97)
    assert model.n_support_ == model.n_components_ == 1
    assert caught[0].filename == fitted.__code__.co_filename
    with pytest.warns(UserWarning, match="collapsed to one vector"):
        assert fitted(cloud, gamma=0.3, n_support=1).n_support_ == 1


def test_more_components_than_axes(cloud):
    with pytest.warns(UserWarning, match=r"has 8 axes, fewer than n_components=40\..*below 0.07") as caught:
        model = fitted(cloud, n_components=40, gamma=0.3, noise_fraction=0.4)
    assert model.n_components_ == 8 == model.transform(cloud).shape[1] == len(model.get_feature_names_out())
    assert caught[0].filename == fitted.__code__.co_filename


@pytest.mark.parametrize("update", RULES)
def test_a_likelihood_that_still_rises_is_said_to(update, cloud):
    message = rf"still rising after max_iter=2 steps of update='{update}'"
    with pytest.warns(ConvergenceWarning, match=message) as caught:
        model = LikelihoodKernelPCA(gamma=0.3, update=update, max_iter=2).fit(cloud)
    assert caught[0].filename == __file__
    assert not model.converged_
    assert model.n_iter_ == 2
    assert len(model.log_likelihood_) == 3
    with pytest.warns(ConvergenceWarning):
        LikelihoodKernelPCA(gamma=0.3, update=update, max_iter=1).fit(cloud)


def test_no_warning_on_ordinary_rows(cloud, digits):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for options in ({}, {"center": True}, {"update": "fast"}, {"kernel": "laplacian"}):
            assert fitted(cloud, n_components=2, gamma=0.3, noise_fraction=0.2, **options).converged_
        fitted(cloud, n_components=2, n_support=12)
        fitted(digits[0][:400], n_components=5)


def test_warnings_of_a_path_point_at_the_users_line(rows):
    with pytest.warns(UserWarning, match="not positive semi-definite") as caught:
        likelihood_path(LikelihoodKernelPCA(kernel="sigmoid", gamma=0.05, coef0=0.2), rows, n_points=2)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("kind", ["normal", "heavy tails", "far from the origin", "wide", "linear"])
@pytest.mark.filterwarnings("ignore")
def test_the_default_does_not_collapse(kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 5))
    options = {"wide": {"gamma": 0.01}, "linear": {"kernel": "linear"}, "far from the origin": {"kernel": "cosine"}}
    X = {"heavy tails": rng.lognormal(0, 2, (600, 4)), "far from the origin": X + 10, "linear": X + 10}.get(kind, X)
    model = LikelihoodKernelPCA(random_state=0, **options.get(kind, {})).fit(X)
    assert 4 <= model.n_support_ <= 60


@pytest.mark.filterwarnings("ignore")
def test_predict_calls_few_rows_like_the_training_rows_novel_and_all_others(digits):
    train, test = digits
    model = LikelihoodKernelPCA(random_state=0, false_alarm_rate=0.1).fit(train[:500])
    np.testing.assert_allclose(model.decision_function(test), model.score_samples(test) - model.threshold_)
    assert 0.05 < np.mean(model.predict(test) < 0) < 0.17
    assert np.all(model.predict(np.random.default_rng(0).uniform(size=(100, 64))) == -1)
    gram = model.expansion_.kernel(train[:500], train[:500])
    same = LikelihoodKernelPCA(random_state=0, false_alarm_rate=0.1, kernel="precomputed").fit(gram)
    assert same.threshold_ == pytest.approx(model.threshold_, rel=1e-6)
