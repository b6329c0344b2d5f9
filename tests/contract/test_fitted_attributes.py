"""Every attribute that the documentation promises is there after `fit`, in the shape that it states."""

import numpy as np
import pytest

from kernelsieve import ElasticNetKernelPCA, LikelihoodKernelPCA, SparseKernelPCA
from kernelsieve.rules.registry import SELECTORS


def test_everything_promised_is_there(cloud):
    model = SparseKernelPCA(2, n_support=8, random_state=0).fit(cloud)
    assert model.support_vectors_.shape == (8, 5)
    assert model.support_ is None or model.support_.shape == (8,)
    assert model.n_support_ == 8
    assert model.dual_coef_.shape == (8, 2)
    assert model.offset_.shape == (2,)
    assert model.expansion_.n_components == 2
    assert model.eigenvalues_.shape == model.explained_variance_.shape == model.explained_variance_ratio_.shape == (2,)
    assert 0 < model.captured_ratio_ <= 1
    assert model.captured_ratio_kind_ == "all rows"
    assert model.captured_ratio_n_samples_ == model.n_samples_seen_ == 80
    assert model.gamma_ > 0
    assert model.n_iter_ >= 1
    assert model.converged_ in (True, False)
    assert model.selection_report_["rule"] == "optimized"


@pytest.mark.parametrize("rule", sorted({*SELECTORS} - {"optimized"}))
def test_rules_that_choose_rows_need_no_steps_to_converge(rule, cloud):
    model = SparseKernelPCA(2, n_support=10, selection=rule, random_state=0).fit(cloud)
    assert model.converged_ is True
    assert model.n_iter_ == 1
    assert model.n_support_ == 10


def test_everything_promised_by_the_likelihood_is_there(cloud):
    model = LikelihoodKernelPCA(2, noise_fraction=0.2, random_state=0).fit(cloud)
    m = model.n_support_
    assert model.support_vectors_.shape == (m, 5)
    assert np.all(np.diff(model.support_) > 0)
    np.testing.assert_array_equal(model.support_vectors_, cloud[model.support_])
    assert model.dual_coef_.shape == (m, 2)
    assert model.weights_.shape == (m,)
    assert np.all(model.weights_ > 0)
    assert model.offset_.shape == (2,)
    assert model.eigenvalues_.shape == model.explained_variance_.shape == model.explained_variance_ratio_.shape == (2,)
    assert 0 < model.captured_ratio_ <= 1
    assert model.captured_ratio_n_samples_ == model.n_samples_seen_ == 80
    assert model.gamma_ > 0
    assert 0 < model.noise_variance_ < model.noise_variance_limit_
    assert len(model.log_likelihood_) == model.n_iter_ + 1 > 1
    assert model.converged_ is True
    assert model.n_components_ == 2
    assert list(model.get_feature_names_out()) == ["likelihoodkernelpca0", "likelihoodkernelpca1"]
    assert model.score_samples(cloud).shape == model.reconstruction_error(cloud).shape == (80,)
    assert 0 < model.score(cloud) < 1
    assert model.inverse_transform(model.transform(cloud)).shape == cloud.shape


def test_everything_promised_of_an_elastic_net_is_there(cloud):
    model = ElasticNetKernelPCA(2, n_nonzero=5, gamma=0.3).fit(cloud)
    m = model.n_support_
    assert model.support_vectors_.shape == (m, 5)
    assert model.support_.shape == (m,)
    assert model.dual_coef_.shape == (m, 2)
    assert model.offset_.shape == (2,)
    for name in ("n_nonzero_", "alpha_", "alpha_max_", "dual_gap_", "eigenvalues_", "explained_variance_"):
        assert getattr(model, name).shape == (2,)
    assert model.explained_variance_ratio_.shape == (2,)
    assert model.objective_.shape == (1,)
    assert model.l2_ > 0
    assert model.gamma_ == 0.3
    assert 0 < model.captured_ratio_ <= 1
    assert model.captured_ratio_kind_ == "all rows"
    assert model.captured_ratio_n_samples_ == model.n_samples_seen_ == 80
    assert model.n_iter_ == 1
    assert model.converged_ is True
    assert list(model.get_feature_names_out()) == ["elasticnetkernelpca0", "elasticnetkernelpca1"]


@pytest.mark.parametrize("n_samples", [80, 6000])
def test_a_ratio_and_its_interval_are_plain_floats(n_samples):
    # numpy's own would be printed as np.float64(...)
    X = np.random.default_rng(0).standard_t(3, size=(n_samples, 5))
    model = SparseKernelPCA(3, n_support=8, random_state=0).fit(X)
    assert {type(value) for value in (model.captured_ratio_, *model.captured_ratio_interval_)} == {float}
