"""Models in scikit-learn's company: everything promised is there, and what a fit and an import cost."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import run_python
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelsieve import (
    ElasticNetKernelPCA,
    LikelihoodKernelPCA,
    SparseKernelPCA,
)

# In scikit-learn's company


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


@pytest.mark.filterwarnings("ignore::kernelsieve.KernelWarning")
def test_in_a_pipeline_and_a_grid_search(digits):
    train = digits[0][:300]
    model = make_pipeline(StandardScaler(), SparseKernelPCA(3, n_support=12, random_state=0))
    search = GridSearchCV(model, {"sparsekernelpca__gamma": [1e-4, 1e-2]}, cv=2, error_score="raise").fit(train)
    scores = search.cv_results_["mean_test_score"]  # the share of variance captured on held-out rows
    assert scores[0] > scores[1] > 0
    assert search.transform(train).shape == (300, 3)


# Cost


def test_peak_memory_of_a_large_fit():
    """200,000 rows, 50 points: nothing of size N x m is held."""
    out = run_python("""
        import tracemalloc
        import numpy as np
        from kernelsieve import ElasticNetKernelPCA, SparseKernelPCA
        X = np.random.default_rng(0).standard_normal((200_000, 10), dtype=np.float32)
        SparseKernelPCA(5, n_support=12, random_state=0).fit(X[:500])  # imports are no cost of a fit
        tracemalloc.start()
        SparseKernelPCA(5, n_support=50, random_state=0).fit(X)
        print(tracemalloc.get_traced_memory()[1])
    """)
    assert int(out) < 60e6


def test_peak_memory_of_a_likelihood():
    """200,000 rows, 200 candidates: nothing of size N x r is held."""
    out = run_python("""
        import tracemalloc
        import numpy as np
        from kernelsieve import LikelihoodKernelPCA
        X = np.random.default_rng(0).standard_normal((200_000, 10), dtype=np.float32)
        LikelihoodKernelPCA(random_state=0).fit(X[:500])  # imports are no cost of a fit
        tracemalloc.start()
        LikelihoodKernelPCA(n_dictionary=200, noise_fraction=0.3, random_state=0).fit(X)
        print(tracemalloc.get_traced_memory()[1])
    """)
    assert int(out) < 60e6  # against 160e6 of a float32 cross-gram


def test_importing_brings_nothing_that_scikit_learn_does_not():
    out = run_python("""
        import sys
        import sklearn.decomposition
        before = set(sys.modules)
        import kernelsieve
        print(*sorted({name.split(".")[0] for name in set(sys.modules) - before}))
    """)
    assert set(out.split()) <= {"kernelsieve", "array_api_compat"}
