"""A kernel is one file: the Matern kernel in every use that a kernel has, against scikit-learn's own of that name.

Its values, derivatives and exports are under the tests of all kernels (`oracles.KERNELS`, `export_oracles.KERNELS`).
"""

from __future__ import annotations

import numpy as np
import pytest
from oracles import finite_difference, matern
from scipy.spatial.distance import cdist
from sklearn.decomposition import KernelPCA as ScikitKernelPCA

import kernelsieve
from kernelsieve import KernelMonitor, KernelPCA, SparseKernelPCA
from kernelsieve.kernels import named_kernel

GAMMA = 0.2


def test_the_default_width_is_the_median_distance(cloud):
    median = np.median(cdist(cloud, cloud)[np.triu_indices(len(cloud), 1)])
    model = SparseKernelPCA(2, n_support=10, kernel="matern", random_state=0).fit(cloud)
    assert model.gamma_ == pytest.approx(1 / (2 * median**2), rel=0.05)


@pytest.mark.parametrize("estimator", [KernelPCA, SparseKernelPCA])
def test_on_all_points_it_is_kernel_pca_of_the_gram(estimator, cloud, new_rows):
    exact = ScikitKernelPCA(3, kernel="precomputed").fit(matern(cloud, gamma=GAMMA))
    truth = exact.transform(matern(new_rows, cloud, gamma=GAMMA))
    more = {} if estimator is KernelPCA else {"n_support": len(cloud), "selection": "uniform"}
    model = estimator(3, kernel="matern", gamma=GAMMA, random_state=0, **more).fit(cloud)
    np.testing.assert_allclose(np.abs(model.transform(new_rows)), np.abs(truth), atol=1e-8)


def test_points_are_moved_to_where_they_capture_more_than_any_rows(cloud):
    ratios = {
        selection: SparseKernelPCA(
            3, n_support=8, kernel="matern", gamma=GAMMA, selection=selection, random_state=0
        ).fit(cloud)
        for selection in ("optimized", "targeted", "kmeans")
    }
    moved = ratios["optimized"]
    assert moved.support_ is None
    assert moved.captured_ratio_ > max(ratios[name].captured_ratio_ for name in ("targeted", "kmeans"))


def test_sensitivity_and_gradients_are_those_of_the_scores(cloud, new_rows):
    model = SparseKernelPCA(2, n_support=10, kernel="matern", gamma=GAMMA, random_state=0).fit(cloud)
    gradient = model.input_gradient(new_rows[:4])
    for k in range(2):
        truth = finite_difference(lambda x, k=k: float(model.transform(x)[:, k].sum()), new_rows[:4])
        np.testing.assert_allclose(gradient[:, k], truth, rtol=1e-5, atol=1e-8)
    squares = np.mean(model.input_gradient(cloud) ** 2, axis=0)
    np.testing.assert_allclose(model.sensitivity(cloud), np.sqrt(squares) * cloud.std(axis=0), rtol=1e-9)


def test_pre_images_of_rows_on_the_support_come_back():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(center, 0.05, (40, 3)) for center in ([0, 0, 0], [3, 0, 0], [0, 3, 1])])
    model = SparseKernelPCA(6, n_support=40, kernel="matern", random_state=0).fit(rows)
    back = model.inverse_transform(model.transform(rows))
    assert np.mean((back - rows) ** 2) < 0.05 * rows.var(axis=0).mean()


def test_a_monitor_names_the_column_behind_an_alarm(cloud):
    rng = np.random.default_rng(1)
    normal = rng.standard_normal((300, 4)) @ np.diag([1.0, 0.8, 1.2, 1.0])
    monitor = KernelMonitor(n_components=8, n_support=40, kernel="matern", random_state=0).fit(normal)
    odd = np.zeros((3, 4))
    odd[np.arange(3), [0, 2, 3]] = [9.0, -9.0, 40.0]
    assert (monitor.predict(odd) == -1).all()
    assert np.argmax(monitor.contributions(odd), axis=1).tolist() == [0, 2, 3]


def test_contributions_of_rows_so_far_that_all_kernel_values_are_zero():
    normal = np.random.default_rng(1).standard_normal((300, 4))
    monitor = KernelMonitor(n_components=8, n_support=40, kernel="matern", random_state=0).fit(normal)
    far = np.array([[0.0, 1e6, 0.0, 0.0]])
    assert not monitor.estimator_.expansion_.kernel(far, monitor.estimator_.expansion_.points).any()
    assert np.argmax(monitor.contributions(far)) == 1


@pytest.mark.parametrize("estimator", [KernelPCA, SparseKernelPCA])
def test_a_safe_file_gives_the_model_back(estimator, cloud, tmp_path):
    model = estimator(2, kernel="matern", gamma=GAMMA, random_state=0).fit(cloud)
    kernelsieve.save(model, tmp_path / "m.ks")
    again = kernelsieve.load(tmp_path / "m.ks")
    np.testing.assert_array_equal(again.transform(cloud), model.transform(cloud))
    assert again.expansion_.kernel == named_kernel("matern", gamma=GAMMA)


def test_sparse_rows_few_wide_rows_and_a_stream(cloud):
    import scipy.sparse

    model = SparseKernelPCA(2, n_support=8, kernel="matern", gamma=GAMMA, random_state=0)
    dense, sparse = model.fit(cloud).transform(cloud), model.fit(scipy.sparse.csr_matrix(cloud)).transform(cloud)
    np.testing.assert_allclose(np.abs(sparse), np.abs(dense), atol=0.2)
    wide = np.random.default_rng(0).standard_normal((30, 5000))
    exact = ScikitKernelPCA(2, kernel="precomputed").fit(matern(wide, gamma=1e-4))
    found = SparseKernelPCA(2, n_support=30, kernel="matern", gamma=1e-4, random_state=0).fit(wide)
    np.testing.assert_allclose(found.eigenvalues_, exact.eigenvalues_, rtol=1e-6)
    parts = SparseKernelPCA(2, n_support=8, kernel="matern", gamma=GAMMA, random_state=0)
    for part in np.array_split(np.tile(cloud, (5, 1)), 4):
        parts.partial_fit(part)
    assert parts.captured_ratio_ > 0.7
