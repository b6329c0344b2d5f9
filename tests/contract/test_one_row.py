"""A single row: the short way through `transform` gives the same scores, and refuses the same rows."""

import copy
import pickle

import numpy as np
import pytest
from oracles import KERNELS, gram_of

from kernelsieve import SparseKernelPCA

pytestmark = pytest.mark.filterwarnings("error", "ignore::UserWarning")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_one_row_again_and_again_has_the_scores_of_the_formula(cloud, new_rows, kernel, dtype):
    params = KERNELS[kernel]
    model = SparseKernelPCA(2, n_support=9, kernel=kernel, random_state=0, **params).fit(cloud.astype(dtype))
    points = model.support_vectors_.astype(np.float64)
    rows = new_rows[:5].astype(dtype)
    truth = gram_of(kernel, rows.astype(np.float64), points, **params) @ model.dual_coef_ - model.offset_
    tolerance = {np.float64: 1e-12, np.float32: 2e-5}[dtype] * np.abs(truth).max()
    for row, expected in zip(rows, truth, strict=True):
        found = model.transform(row[None])
        assert found.dtype == dtype
        np.testing.assert_allclose(found[0], expected, rtol=0, atol=tolerance)


def test_rows_of_both_precisions_take_turns_on_one_model(cloud, new_rows):
    model = SparseKernelPCA(2, n_support=9, random_state=0).fit(cloud)
    double = model.transform(new_rows[:1])
    single = model.transform(new_rows[:1].astype(np.float32))
    assert (double.dtype, single.dtype) == (np.float64, np.float32)
    assert np.array_equal(model.transform(new_rows[:1]), double)
    np.testing.assert_allclose(single, double, rtol=0, atol=1e-5)


def test_the_short_way_refuses_what_the_long_way_does(cloud):
    model = SparseKernelPCA(2, n_support=9, random_state=0).fit(cloud)
    bad = cloud[:2].copy()
    bad[1, 0] = np.nan
    for wrong, words in (
        (bad, "NaN"),
        (cloud[:2, :-1], "features"),
        (cloud[:0], "minimum of 1"),
        (cloud[0], "2D array"),
    ):
        with pytest.raises(ValueError, match=words):
            model.transform(wrong)


def test_a_model_is_copied_and_pickled_after_a_transform(cloud, new_rows):
    model = SparseKernelPCA(2, n_support=9, random_state=0).fit(cloud)
    scores = model.transform(new_rows[:1])
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert np.array_equal(again.transform(new_rows[:1]), scores)
