"""Few rows of very many columns: fitted in the space that they span, with the same result as in all columns."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import exact_kernel_pca, gram_of
from scipy.spatial.distance import pdist

import kernelsieve.rows.sampling
from kernelsieve import KernelPCA, SparseKernelPCA, load
from kernelsieve.rows.sampling import short_side

pytestmark = pytest.mark.filterwarnings("ignore::kernelsieve.KernelWarning")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((60, 6)) @ rng.standard_normal((6, 5000)) + 0.3 * rng.standard_normal((60, 5000)) + 4


@pytest.mark.parametrize("about_origin", [True, False])
@pytest.mark.parametrize("scale", [1e-50, 1.0, 1e50])
def test_rows_in_their_own_space_are_as_far_apart_and_come_back(scale, about_origin, rows):
    short = short_side(rows * scale, about_origin=about_origin)
    assert short.rows.shape[1] <= 60
    np.testing.assert_allclose(pdist(short.rows), pdist(rows * scale), rtol=1e-8)
    if not about_origin:
        np.testing.assert_allclose(short.rows @ short.rows.T, rows @ rows.T * scale**2, rtol=1e-8)
    np.testing.assert_allclose(short.lifted(short.rows, None), rows * scale, rtol=1e-6)
    np.testing.assert_array_equal(short.lifted(short.rows[:2], np.array([7, 3])), (rows * scale)[[7, 3]])


OPTIONS = [
    {"n_support": 10},
    {"n_support": 10, "selection": "targeted"},
    {"n_support": 10, "selection": "kmeans"},
    {"n_support": 10, "gamma": "scale"},
    {"n_support": 10, "center": False},
    {"kernel": "linear"},
    {},
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_fit_on_the_short_side_is_one_in_all_columns(options, weighted, rows, monkeypatch, tmp_path):
    weights = np.linspace(0, 1, 60) if weighted else None
    short = SparseKernelPCA(2, random_state=0, **options).fit(rows, sample_weight=weights)
    monkeypatch.setattr(kernelsieve.rows.sampling, "FEW_WIDE_ROWS", 0)
    long = SparseKernelPCA(2, random_state=0, **options).fit(rows, sample_weight=weights)
    assert short.gamma_ == pytest.approx(long.gamma_, rel=1e-6)
    assert short.n_support_ == pytest.approx(long.n_support_, abs=2)
    assert short.support_vectors_.shape[1] == short.n_features_in_ == 5000
    np.testing.assert_allclose(short.explained_variance_.sum(), long.explained_variance_.sum(), rtol=5e-3)
    scores = short.transform(rows)
    away = scores - np.average(scores, axis=0, weights=weights) if short.center else scores
    np.testing.assert_allclose(np.average(away**2, axis=0, weights=weights), short.explained_variance_, rtol=1e-6)
    assert short.inverse_transform(scores).shape == rows.shape
    short.save(tmp_path / "model.ks")
    np.testing.assert_array_equal(load(tmp_path / "model.ks").transform(rows), scores)


def test_captured_ratio_on_the_short_side_is_true(rows):
    model = SparseKernelPCA(2, n_support=10, random_state=0).fit(rows)
    exact = exact_kernel_pca(gram_of("rbf", rows, gamma=model.gamma_), 2)[0].sum() / 60
    captured = model.transform(rows).var(axis=0).sum() / exact
    assert model.captured_ratio_ == pytest.approx(captured, abs=1e-6)


def test_the_median_leaves_out_the_distance_of_a_row_to_itself(rows):
    """Summed up over many columns in float32, rows were a little apart from themselves."""
    truth = 1 / (2 * np.median(pdist(rows, "sqeuclidean")))
    assert KernelPCA(2, kernel="rbf", gamma="median").fit(rows).gamma_ == pytest.approx(truth, rel=1e-5)
    assert SparseKernelPCA(2, n_support=5).fit(rows).gamma_ == pytest.approx(truth, rel=1e-5)
