"""A stream's sample of rows against its definition; units, weights and repeated entries of ordinary rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from oracles import assert_same_up_to_sign

from kernelsieve import KernelPCA, SparseKernelPCA
from kernelsieve.rows.checks import unit_of_variances
from kernelsieve.rows.dispatch import weights_of
from kernelsieve.rows.reservoir import Reservoir


@pytest.mark.parametrize("n_block", [1, 7, 50])
@pytest.mark.parametrize("half_life", [None, 40.0])
def test_a_reservoir_keeps_the_largest_priorities_and_knows_the_next(n_block, half_life):
    """Priorities w / u, by hand: the rows with the `size` largest stay, and the largest of the others is remembered."""
    rows, size = np.random.default_rng(0).standard_normal((200, 2)), 25
    weights = np.random.default_rng(1).uniform(0.5, 2, 200)
    sample = Reservoir.empty(size, 5, half_life)
    for start in range(0, 200, n_block):
        sample = sample.add(rows[start : start + n_block], weights[start : start + n_block])
    sample = sample.in_order()
    growth = 0.0 if half_life is None else np.log(2) / half_life * np.arange(200)
    priorities = np.log(weights) + growth - np.log(np.random.Generator(np.random.PCG64(5)).random(200))
    order = np.argsort(-priorities)
    assert sorted(sample.numbers) == sorted(order[:size])
    assert sample.dropped == pytest.approx(priorities[order[size]], rel=1e-12)


def test_blocks_of_which_no_row_stays_leave_nothing_behind():
    sample = Reservoir.empty(5, 0)
    for block in np.random.default_rng(0).standard_normal((300, 20, 2)):
        sample = sample.add(block)
        assert all(len(numbers) for _, _, numbers, _ in sample.pending)
    assert len(sample.in_order().numbers) == 5


def test_a_reservoir_holds_all_rows_until_there_are_more_of_them_than_it_keeps():
    """Rows that are not sorted in yet count, because some of them will be dropped."""
    rows, sample = np.random.default_rng(0).standard_normal((130, 2)), Reservoir.empty(90, 0)
    for start in range(0, 130, 5):
        sample = sample.add(rows[start : start + 5])
        assert sample.whole == (sample.n_seen <= 90) == sample.in_order().whole


@pytest.mark.parametrize("largest", [0.0, 1e-6, 1.0, 300.0])
def test_variances_of_ordinary_size_need_no_other_unit(largest):
    assert unit_of_variances(largest) == 1.0


@pytest.mark.parametrize("largest", [1e-200, 1e200])
def test_variances_far_from_one_have_a_unit_in_which_they_are_of_order_one(largest):
    unit = unit_of_variances(largest)
    assert np.log2(unit) == round(np.log2(unit))
    assert 0.4 < largest / unit / unit < 2.5


def test_rows_without_weights_have_none():
    assert weights_of(np.ones((3, 2)), None) is None


@pytest.mark.parametrize("kind", ["rows", "gram"])
def test_sparse_rows_whose_entries_are_given_in_parts_are_their_sums(kind):
    """Coordinates may come twice; their values add up, in a fit as in scipy."""
    rows = np.random.default_rng(0).standard_normal((40, 6)) * (np.random.default_rng(1).random((40, 6)) < 0.5)
    values = rows if kind == "rows" else rows @ rows.T + 5 * np.eye(40)
    i, j = np.nonzero(values)
    half = values[i, j] / 2
    twice = scipy.sparse.csr_matrix((40, values.shape[1]))
    twice.indptr = np.concatenate([[0], np.cumsum(2 * np.count_nonzero(values, axis=1))])
    twice.indices = np.concatenate([np.tile(np.flatnonzero(row), 2) for row in values]).astype(np.int32)
    twice.data = np.concatenate([np.tile(row[row != 0] / 2, 2) for row in values])
    assert len(twice.data) == 2 * len(half)
    np.testing.assert_allclose(twice.toarray(), values)
    if kind == "gram":
        model = SparseKernelPCA(2, n_support=6, kernel="precomputed", selection="targeted", random_state=0)
        found, truth = model.fit(twice).transform(values), model.fit(values).transform(values)
    else:
        model = SparseKernelPCA(2, n_support=40, selection="targeted", gamma=0.3, random_state=0)
        found, truth = model.fit(twice).transform(rows), KernelPCA(2, kernel="rbf", gamma=0.3).fit(rows).transform(rows)
    assert_same_up_to_sign(found, truth, 1e-6)
