"""Columns in which points do not move: the user's, and those of kernels that have steps there."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from kernelsieve import SparseKernelPCA
from kernelsieve.kernels import RBF, Cauchy, Hamming, Jaccard, Linear, Matern, Polynomial, Tanimoto

RNG = np.random.default_rng(0)
ROWS = np.column_stack([RNG.standard_normal((300, 3)), RNG.integers(0, 4, 300) * 1.1])


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", Matern().on([0, 3]) + RBF()])
@pytest.mark.parametrize("frozen", [[3], [1, 3], slice(2, 4)])
def test_frozen_columns_have_the_values_of_rows_and_the_others_move(kernel, frozen):
    model = SparseKernelPCA(3, n_support=8, kernel=kernel, frozen_columns=frozen, random_state=0).fit(ROWS)
    columns = list(range(4))[frozen] if isinstance(frozen, slice) else frozen
    points = model.support_vectors_
    for column in range(4):
        away = np.abs(points[:, [column]] - ROWS[:, column]).min(axis=1).max()
        assert (away < 1e-12) == (column in columns)
    rows = SparseKernelPCA(3, n_support=8, kernel=kernel, selection="targeted", random_state=0).fit(ROWS)
    assert model.captured_ratio_ >= rows.captured_ratio_


@pytest.mark.parametrize("selection", ["optimized", "kmeans"])
def test_categories_stay_categories_to_the_last_bit(selection):
    kernel = RBF().on([0, 1, 2]) * Hamming().on([3]) + 0.1 * RBF(width=0.37)
    model = SparseKernelPCA(3, n_support=12, kernel=kernel, selection=selection, random_state=0).fit(ROWS)
    assert model.support_ is None
    assert np.isin(model.support_vectors_[:, 3], ROWS[:, 3]).all()
    rows = SparseKernelPCA(3, n_support=12, kernel=kernel, selection="targeted", random_state=0).fit(ROWS)
    assert selection == "kmeans" or model.captured_ratio_ > rows.captured_ratio_


def test_frozen_columns_stay_to_the_last_bit_whatever_the_kernel_scales_them_by():
    rows = np.abs(RNG.standard_normal((300, 4)))
    for kernel in (2.0 * Tanimoto() + 1.0, Jaccard() * Cauchy(), RBF(width="median per column"), Polynomial(), "rbf"):
        for dtype in (np.float64, np.float32):
            model = SparseKernelPCA(3, n_support=30, kernel=kernel, frozen_columns=[0, 2], random_state=0)
            model.fit(rows.astype(dtype))
            assert model.support_ is None
            for column in (0, 2):
                assert np.isin(model.support_vectors_[:, column], rows.astype(dtype)[:, column]).all()


def test_categories_alone_are_chosen_among_rows():
    model = SparseKernelPCA(2, n_support=4, kernel=Hamming().on([3]), random_state=0).fit(ROWS)
    assert model.support_ is not None
    assert model.selection_report_["rule"] == "targeted"
    assert model.captured_ratio_ == pytest.approx(1.0)


def test_names_and_refusals():
    frame = pd.DataFrame(ROWS, columns=list("abcd"))
    model = SparseKernelPCA(2, n_support=8, frozen_columns=["d"], random_state=0).fit(frame)
    by_number = SparseKernelPCA(2, n_support=8, frozen_columns=[3], random_state=0).fit(ROWS)
    np.testing.assert_allclose(model.support_vectors_, by_number.support_vectors_)
    for frozen, words in (
        (["z"], "frozen_columns names column 'z', and the rows have 'a', 'b', 'c', 'd'"),
        ([7], "frozen_columns names column 7, and the rows have 4 columns"),
        ([0, 1, 2, 3], "no column to move"),
    ):
        with pytest.raises(ValueError, match=words):
            SparseKernelPCA(2, frozen_columns=frozen).fit(frame)
    moved = SparseKernelPCA(2, n_support=8, kernel=Linear(), random_state=0).fit(ROWS)
    assert moved.selection_report_["winner"] == "principal directions"
