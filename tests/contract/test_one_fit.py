"""One fit for all kernel estimators: what used to differ from class to class, and should not have."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from oracles import gram_of
from sklearn.base import clone

from kernelsieve import (
    DissimilarityKernelPCA,
    ElasticNetKernelPCA,
    ImprovedKernelPCA,
    KernelFeatureAnalysis,
    RobustSparseKernelPCA,
    SparseKernelPCA,
    elastic_net_path,
)
from kernelsieve.fit import captured_ratio as captured
from kernelsieve.rows.rows import ArrayRows


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).standard_normal((400, 4))


def with_outliers():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((120, 2)) * [2.0, 0.3]
    X[:12] = rng.normal([0.0, 25.0], 1.0, (12, 2))
    return X


def test_the_robust_path_keeps_outliers_from_being_support():
    """As the fit does: the path takes the estimator's own penalty, infinite for outliers."""
    X = with_outliers()
    model = RobustSparseKernelPCA(2, gamma=1.0, random_state=0)
    outliers = np.flatnonzero(clone(model).fit(X).outliers_)
    assert len(outliers) >= 12
    path = elastic_net_path(model, X, n_alphas=8)
    assert path.n_support[-1] > 3
    for support in path.support:
        assert not np.isin(support, outliers).any()


def test_the_path_of_one_alpha_is_the_fit(rows):
    """For the plain and for the robust estimator: the same rows, the same coefficients."""
    for model in (ElasticNetKernelPCA(2, alpha=0.3), RobustSparseKernelPCA(2, alpha=0.3, refit=False, random_state=0)):
        fitted, path = clone(model).fit(rows), elastic_net_path(model, rows, alpha=[0.3])
        np.testing.assert_array_equal(path.support[0], fitted.support_)
        np.testing.assert_allclose(path.coefs[0], fitted.dual_coef_, atol=1e-9)


@pytest.mark.parametrize(
    "model", [ImprovedKernelPCA(3, n_nodes=12), KernelFeatureAnalysis(4)], ids=["improved", "skfa"]
)
def test_published_methods_on_rows_out_of_memory(model, rows):
    model.set_params(gamma=0.2, random_state=0)
    truth = clone(model).fit(rows).transform(rows)
    blocks = clone(model).fit([rows[:150], rows[150:]])
    chunks = clone(model).fit(da.from_array(rows, chunks=(100, 4)))
    for other in (blocks, chunks):
        np.testing.assert_allclose(other.transform(rows), truth, atol=1e-8 * np.abs(truth).max())


def test_a_method_that_needs_all_rows_at_once_says_so(rows):
    for given in ([rows[:200], rows[200:]], da.from_array(rows, chunks=(100, 4))):
        with pytest.raises(TypeError, match="must be in memory"):
            DissimilarityKernelPCA(2, n_nodes=5).fit(given)


def test_rows_of_a_gram_are_never_merged():
    """Two rows of a gram that are equal are two rows all the same: their columns differ from everyone else's."""
    X = np.repeat(np.random.default_rng(0).standard_normal((15, 2)), 2, axis=0)
    gram = gram_of("rbf", X, gamma=0.3)
    rng = np.random.default_rng(0)
    assert len(ArrayRows(gram).sample(100, rng).indices) < 30
    assert len(ArrayRows(gram, merge_copies=False).sample(100, rng).indices) == 30
    model = SparseKernelPCA(2, kernel="precomputed", n_support=30, random_state=0).fit(gram)
    np.testing.assert_array_equal(np.sort(model.support_), np.arange(30))


def test_the_ratio_that_the_search_found_is_not_measured_again(rows, monkeypatch):
    measured = []
    ratio = captured._ratio
    monkeypatch.setattr(captured, "_ratio", lambda *given, **options: measured.append(1) or ratio(*given, **options))
    model = SparseKernelPCA(2, random_state=0).fit(rows)
    assert len(measured) == len(model.selection_report_["curve"])


def test_transform_on_a_device_that_runs_out_of_memory_takes_smaller_blocks(rows, monkeypatch):
    strict = pytest.importorskip("array_api_strict")
    there = strict.asarray(rows, device=strict.Device("device1"))
    model = SparseKernelPCA(2, n_support=8, gamma=0.2, random_state=0).fit(rows)
    truth = model.transform(rows)

    class OutOfMemoryError(RuntimeError):
        pass

    bind, sizes = type(model.expansion_.kernel).bind, []

    def small_device(kernel, points):
        cross_gram = bind(kernel, points)

        def limited(block):
            sizes.append(block.shape[0])
            if block.shape[0] > 300:
                raise OutOfMemoryError("out of memory")
            return cross_gram(block)

        return limited

    monkeypatch.setattr(type(model.expansion_.kernel), "bind", small_device)
    monkeypatch.setattr("kernelsieve.rows.rows.DEVICE_BLOCK_BYTES", 2**15)
    scores = model.transform(there)
    assert max(sizes) > 300 >= sizes[-1]
    np.testing.assert_allclose(np.asarray(strict.asarray(scores, device=strict.Device("CPU_DEVICE"))), truth, atol=1e-9)
