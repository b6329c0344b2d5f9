"""Points that move, and points by the user."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import KERNELS, captured_by, exact_kernel_pca, gram_of, held_out_ratio
from selection_cases import ROW_RULES
from threadpoolctl import threadpool_limits

from kernelsieve import SparseKernelPCA

# Nested rules rise with m, and none rises above exact


@pytest.mark.parametrize("rule", ROW_RULES)
@pytest.mark.parametrize("name", ["rbf", "poly"])
def test_captured_variance_rises_with_nested_support(name, rule, cloud):
    exact = exact_kernel_pca(gram_of(name, cloud, **KERNELS[name]), 3)[0].sum()
    previous, support = 0.0, np.array([], dtype=int)
    for m in (4, 8, 16, 32, 50):
        options = {"kernel": name, "n_support": m, "selection": rule, "random_state": 0}
        model = SparseKernelPCA(3, **options, **KERNELS[name]).fit(cloud)
        np.testing.assert_array_equal(model.support_[: len(support)], support)
        support, captured = model.support_, model.eigenvalues_.sum()
        assert previous * (1 - 1e-10) <= captured <= exact * (1 + 1e-10)
        previous = captured


def test_free_points_beat_rows(digits):
    """What the frontier table says: moved points capture more, in and out of sample, than the same number of rows."""
    train, test = digits
    gram, cross = gram_of("rbf", train, gamma=0.05), gram_of("rbf", test, train, gamma=0.05)
    ratios = []
    for rule in ("uniform", "targeted", "optimized"):
        model = SparseKernelPCA(10, n_support=20, gamma=0.05, selection=rule, random_state=0).fit(train)
        assert model.captured_ratio_ <= 1
        ratios.append(held_out_ratio(model, gram, cross, model.transform(test)))
    assert ratios[0] < ratios[1] < ratios[2]
    assert ratios[2] > 0.98


@pytest.mark.parametrize("name", ["poly", "laplacian", "cosine", "linear"])
def test_free_points_under_other_kernels(name, cloud):
    """Moved points capture at least what targeted rows do."""
    options = {"n_support": 5, "kernel": name, "random_state": 0, **KERNELS[name]}
    moved = SparseKernelPCA(2, **options).fit(cloud)
    rows = SparseKernelPCA(2, selection="targeted", **options).fit(cloud)
    assert moved.eigenvalues_.sum() >= rows.eigenvalues_.sum() * (1 - 1e-3)
    assert moved.selection_report_["rule"] == "optimized"


@pytest.mark.filterwarnings("ignore:.*positive semi-definite")
@pytest.mark.parametrize("selection", ["optimized", *ROW_RULES])
@pytest.mark.parametrize("n_support", [5, 20])
def test_an_indefinite_kernel_stays_within_reason(n_support, selection, digits):
    """Nothing bounds the captured variance of an indefinite kernel; what is captured must still be near that of its
    positive part, for small positive eigenvalues of K_SS would otherwise blow it up without limit."""
    train = digits[0][:400]
    options = {"kernel": "sigmoid", "gamma": 0.05, "coef0": 0.2}
    model = SparseKernelPCA(2, n_support=n_support, selection=selection, random_state=0, **options).fit(train)
    with threadpool_limits(1):
        values, vectors = np.linalg.eigh(gram_of("sigmoid", train, gamma=0.05, coef0=0.2))
    positive = values > 0
    exact = exact_kernel_pca((vectors[:, positive] * values[positive]) @ vectors[:, positive].T, 2)[0].sum()
    assert 0.5 < model.eigenvalues_.sum() / exact < 1.5
    assert 0.5 < model.captured_ratio_ <= 1


@pytest.mark.filterwarnings("ignore::kernelsieve.KernelWarning")
def test_narrow_kernel_keeps_the_better_start(cloud):
    """Where k-means centres fall between the rows, the race falls to the targeted start."""
    model = SparseKernelPCA(3, n_support=6, gamma=20.0, random_state=0).fit(cloud)
    targeted = SparseKernelPCA(3, n_support=6, gamma=20.0, selection="targeted").fit(cloud)
    assert model.eigenvalues_.sum() >= targeted.eigenvalues_.sum() * (1 - 1e-6)
    assert set(model.selection_report_["starts"]) >= {"kmeans", "targeted"}


# Points by the user


def test_rows_a_mask_points_and_a_callable_are_the_same(cloud, new_rows):
    rows = np.array([3, 9, 27, 41, 60])
    mask = np.zeros(80, dtype=bool)
    mask[rows] = True
    seen = {}

    def choose(X, n_support, *, kernel, rng):
        seen.update(shape=X.shape, n_support=n_support, value=float(kernel(X[:1], X[:1])[0, 0]), rng=rng)
        return rows

    by_rows = SparseKernelPCA(3, selection=rows, gamma=0.3).fit(cloud)
    for selection in (mask, cloud[rows], choose, list(rows), lambda X, n_support, **_: X[rows], rows - 80):
        model = SparseKernelPCA(3, selection=selection, n_support=5, gamma=0.3).fit(cloud)
        np.testing.assert_allclose(model.transform(new_rows), by_rows.transform(new_rows), atol=1e-10)
        if getattr(selection, "ndim", 0) == 2:
            assert model.support_ is None
    np.testing.assert_array_equal(by_rows.support_, rows)
    assert seen["shape"] == (80, 5)
    assert seen["n_support"] == 5
    assert seen["value"] == 1
    assert isinstance(seen["rng"], np.random.Generator)
    gram, cross = gram_of("rbf", cloud[rows], gamma=0.3), gram_of("rbf", cloud, cloud[rows], gamma=0.3)
    assert by_rows.explained_variance_.sum() == pytest.approx(captured_by(gram, cross, 3), rel=1e-9)


def test_own_points_need_not_be_rows(cloud, new_rows):
    model = SparseKernelPCA(3, selection=new_rows[:8], gamma=0.3).fit(cloud)
    assert model.support_ is None
    np.testing.assert_array_equal(model.support_vectors_, new_rows[:8])


def test_row_numbers_of_a_precomputed_kernel_are_those_of_its_rows(cloud, new_rows):
    rows = [3, 9, 27, 41, 60]
    gram, cross = gram_of("rbf", cloud, gamma=0.3), gram_of("rbf", new_rows, cloud, gamma=0.3)
    by_rows = SparseKernelPCA(3, selection=rows, gamma=0.3).fit(cloud)
    by_gram = SparseKernelPCA(3, selection=rows, kernel="precomputed").fit(gram)
    np.testing.assert_allclose(by_gram.transform(cross), by_rows.transform(new_rows), atol=1e-10)
