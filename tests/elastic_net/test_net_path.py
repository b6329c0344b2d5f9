"""The path of an elastic net is its single fits."""

from __future__ import annotations

import numpy as np
import pytest
from elastic_net_cases import RBF, TIGHT, sparsities
from sklearn.base import clone

from kernelsieve import ElasticNetKernelPCA, elastic_net_path

# The path


@sparsities
@pytest.mark.parametrize("weighted", [False, True])
def test_path_is_single_fits(weighted, sparsity, cloud):
    weights = np.random.default_rng(0).integers(1, 3, 80) if weighted else None
    model = ElasticNetKernelPCA(3, sparsity=sparsity, tol=TIGHT, **RBF)
    path = elastic_net_path(model, cloud, alpha=[0.3, 0.05, 0.7, 1.0], sample_weight=weights)
    np.testing.assert_array_equal(path.alpha, [1.0, 0.7, 0.3, 0.05])
    assert not hasattr(model, "expansion_")
    for i, alpha in enumerate(path.alpha[1:], start=1):
        single = clone(model).set_params(alpha=alpha).fit(cloud, sample_weight=weights)
        np.testing.assert_array_equal(path.n_nonzero[i], single.n_nonzero_)
        assert path.n_support[i] == single.n_support_
        np.testing.assert_array_equal(path.support[i], single.support_)
        np.testing.assert_allclose(path.coefs[i], single.dual_coef_, atol=1e-6)
        np.testing.assert_allclose(path.alpha_max, single.alpha_max_)
        assert path.captured_ratio[i] == pytest.approx(single.captured_ratio_, abs=1e-8)
        refitted = clone(single).set_params(refit=True).fit(cloud, sample_weight=weights)
        assert path.refit_ratio[i] == pytest.approx(refitted.captured_ratio_, abs=1e-8)
    assert np.all(path.refit_ratio >= path.captured_ratio - 1e-12)
    assert np.all(path.dual_gap <= TIGHT)
    assert path.n_support[0] == path.n_nonzero[0].sum() == path.captured_ratio[0] == path.refit_ratio[0] == 0
    assert path.coefs[0].shape == (0, 3)


def test_path_of_its_own_alphas(cloud):
    model = ElasticNetKernelPCA(2, alpha=[0.1, 0.2], n_nonzero=4, **RBF)  # of its own, and of no concern
    path = elastic_net_path(model, cloud, n_alphas=7)
    np.testing.assert_allclose(path.alpha, np.geomspace(1, 0.01, 7))
    assert path.n_nonzero.shape == path.dual_gap.shape == (7, 2)
    assert path.captured_ratio[-1] > 0.95
    assert len(elastic_net_path(model, cloud).alpha) == 40
    absolute = elastic_net_path(clone(model).set_params(alpha_scale="absolute", l2=0.5), cloud, n_alphas=7)
    np.testing.assert_allclose(absolute.alpha, path.alpha)  # the scale concerns l2 alone
    assert absolute.captured_ratio[-1] != path.captured_ratio[-1]


def test_path_on_a_few_candidates_counts_kernel_pca_on_them():
    X = np.random.default_rng(0).standard_normal((300, 3))
    model = ElasticNetKernelPCA(2, n_dictionary=12, l2=0.0, random_state=0, **RBF)
    path = elastic_net_path(model, X, alpha=[1e-6])
    assert path.n_support[0] <= 12
    assert path.refit_ratio[0] == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": [0.0, 0.5]}, "between 0 and 1, shares of alpha_max"),
        ({"alpha": [0.5, 1.1]}, "between 0 and 1"),
        ({"alpha": [np.nan]}, "between 0 and 1"),
        ({"alpha": []}, "between 0 and 1"),
        ({"n_alphas": 0}, "n_alphas=0 must be a whole number from 1"),
    ],
)
def test_paths_that_are_none(options, message, cloud):
    with pytest.raises(ValueError, match=message):
        elastic_net_path(ElasticNetKernelPCA(2, **RBF), cloud, **options)
    with pytest.raises(ValueError, match="The 'kernel' parameter"):
        elastic_net_path(ElasticNetKernelPCA(2, kernel="gauss"), cloud)
