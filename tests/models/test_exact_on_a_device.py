"""Exact kernel PCA of rows on a device: scikit-learn's, found there.  A stand-in for CUDA runs on any machine."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import KernelPCA as Theirs
from sklearn.metrics.pairwise import rbf_kernel

from kernelsieve import KernelPCA, SparseKernelPCA, kernels, load
from kernelsieve.models import sklearn_kernel_pca
from kernelsieve.spectrum.top import converged_pairs

torch = pytest.importorskip("torch")
from stand_in import OnDevice, on_device  # noqa: E402


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((500, 3)) @ rng.standard_normal((3, 6)) + 0.1 * rng.standard_normal((500, 6))


@pytest.mark.parametrize(
    ("options", "n_rows"),
    [
        ({"n_components": 5, "kernel": "rbf", "gamma": 0.1}, 500),
        ({"n_components": 5, "kernel": "rbf", "gamma": 0.1, "eigen_solver": "dense"}, 500),
        ({"n_components": 3, "kernel": "poly", "degree": 2}, 500),
        ({"kernel": "rbf", "gamma": 0.1}, 60),
        ({"n_components": 4, "kernel": "cosine", "remove_zero_eig": True}, 60),
    ],
)
def test_it_is_scikit_learns(options, n_rows, rows, monkeypatch):
    grams = []
    found = KernelPCA._fit_on_device
    monkeypatch.setattr(KernelPCA, "_fit_on_device", lambda self, K: grams.append(type(K)) or found(self, K))
    X = rows[:n_rows]
    theirs, ours = Theirs(**options, random_state=0).fit(X), KernelPCA(**options).fit(on_device(X))
    assert grams == [OnDevice]
    n = len(ours.eigenvalues_)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_[:n], rtol=1e-9, atol=1e-9 * ours.eigenvalues_[0])
    scores = ours.transform(on_device(X))
    assert isinstance(scores, OnDevice)
    large = theirs.eigenvalues_[:n] > 1e-3 * theirs.eigenvalues_[0]  # vectors of close eigenvalues are not determined
    expected = theirs.transform(X)[:, :n][:, large]
    np.testing.assert_allclose(np.abs(scores.cpu().numpy()[:, large]), np.abs(expected), atol=1e-6)
    np.testing.assert_allclose(ours.transform(X)[:, large], scores.cpu().numpy()[:, large], atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_gram_of_low_rank_has_no_more_directions_to_look_in(rows, dtype):
    few = (rows @ np.eye(6)[:, :2]).astype(dtype)
    there, here = (KernelPCA(3, kernel="linear").fit(X) for X in (on_device(few), few.astype(np.float64)))
    np.testing.assert_allclose(there.eigenvalues_[:2], here.eigenvalues_[:2], rtol=1e-5)
    np.testing.assert_allclose(np.abs(there.transform(few)[:, :2]), np.abs(here.transform(few)[:, :2]), atol=1e-3)


def test_uncentred_and_saved(rows, tmp_path):
    options = {"n_components": 3, "kernel": kernels.RBF(width=2.0), "center": False}
    here, there = KernelPCA(**options).fit(rows), KernelPCA(**options).fit(on_device(rows))
    np.testing.assert_allclose(there.eigenvalues_, here.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(there.explained_variance_ratio_, here.explained_variance_ratio_, rtol=1e-9)
    there.save(tmp_path / "model.ks")
    np.testing.assert_allclose(load(tmp_path / "model.ks").transform(rows), here.transform(rows), atol=1e-8)


def test_the_inverse_map_and_float32(rows):
    options = {"n_components": 3, "kernel": "rbf", "gamma": 0.1, "fit_inverse_transform": True}
    here, there = KernelPCA(**options).fit(rows), KernelPCA(**options).fit(on_device(rows))
    found = there.inverse_transform(here.transform(rows))
    np.testing.assert_allclose(found, here.inverse_transform(here.transform(rows)), atol=1e-6)
    single = KernelPCA(3, kernel="rbf", gamma=0.1).fit(on_device(rows.astype(np.float32)))
    np.testing.assert_allclose(single.eigenvalues_, here.eigenvalues_, rtol=1e-4)


def test_a_flat_spectrum_is_left_to_the_dense_solver(monkeypatch):
    rows = 50.0 * np.random.default_rng(0).standard_normal((450, 8))
    asked = []
    monkeypatch.setattr(sklearn_kernel_pca, "converged_pairs", lambda *given: asked.append(converged_pairs(*given)))
    model = KernelPCA(2, kernel="rbf", gamma=1.0).fit(on_device(rows))
    np.testing.assert_allclose(model.eigenvalues_, 1.0, rtol=1e-9)
    assert len(asked) == 1


def test_a_gram_too_large_for_the_device(rows, monkeypatch):
    class OutOfMemoryError(RuntimeError):
        """As torch's is called."""

    def full(self, X, Y=None):
        raise OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(KernelPCA, "_get_kernel", full)
    model = KernelPCA(2, kernel="rbf")
    with pytest.raises(MemoryError, match=r"gram of all 500 rows, 0\.0 GB.*give SparseKernelPCA"):
        model.fit(on_device(rows))
    assert not [name for name in vars(model) if name.endswith("_") or name == "_there"]


def test_a_gap_on_the_device(rows):
    bad = rows.copy()
    bad[7, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        KernelPCA(2, kernel="rbf").fit(on_device(bad))


def host(values):
    return values.cpu().numpy() if isinstance(values, torch.Tensor) else values


@pytest.mark.parametrize("estimator", [KernelPCA, SparseKernelPCA])
@pytest.mark.parametrize("function", [rbf_kernel, lambda x, y: float(np.exp(-np.sum((x - y) ** 2)))])
def test_a_function_that_was_fitted_on_the_host_is_given_rows_of_the_host(function, estimator, rows):
    """KernelPCA computes the gram of a function there, wherever the rows are; new rows on a device broke it."""
    few = rows[:40]
    model = estimator(2, kernel=function).fit(on_device(few) if estimator is KernelPCA else few)
    scores = model.transform(on_device(rows[40:60]))
    assert isinstance(scores, torch.Tensor)
    np.testing.assert_allclose(host(scores), model.transform(rows[40:60]), atol=1e-12)
    own = model.reconstruction_error(on_device(rows[40:60]))
    np.testing.assert_allclose(host(own), model.reconstruction_error(rows[40:60]), atol=1e-12)
