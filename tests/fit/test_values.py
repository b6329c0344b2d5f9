"""Kernel values that a fit remembers: each pair is computed once, and what was computed is counted."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from kernelsieve import SparseKernelPCA
from kernelsieve.fit.values import KernelValues, RememberedKernel, keys_of, rectangles
from kernelsieve.kernels import bind_callable, gram_by_number
from kernelsieve.rows.kinds import object_rows


class Recorded:
    """A Gaussian kernel that notes every pair of rows it is asked for, and counts."""

    def __init__(self, X, vectorized=True):
        self.numbers = {row.tobytes(): i for i, row in enumerate(np.asarray(X, dtype=float))}
        self.vectorized, self.pairs = vectorized, []

    def __call__(self, X, Y):
        if self.vectorized and X.ndim == 2:
            self._note(X, Y)
            return np.exp(-0.1 * ((X[:, None] - Y[None]) ** 2).sum(-1))
        if X.ndim == 2:
            raise TypeError("a pair of rows, please")
        self._note(X[None], Y[None])
        return float(np.exp(-0.1 * ((X - Y) ** 2).sum()))

    def _note(self, X, Y):
        left, right = ([self.numbers.get(np.asarray(row, dtype=float).tobytes(), -1) for row in Z] for Z in (X, Y))
        self.pairs += [(min(i, j), max(i, j)) for i in left for j in right]


@pytest.fixture(scope="module")
def table():
    return np.random.default_rng(0).standard_normal((400, 3))


@pytest.mark.parametrize("vectorized", [True, False])
def test_a_fit_asks_for_no_pair_twice(table, vectorized):
    kernel = Recorded(table, vectorized)
    model = SparseKernelPCA(3, n_support=12, kernel=kernel, random_state=0, n_jobs=1).fit(table)
    n, pairs = len(table), [pair for pair in kernel.pairs if pair[0] >= 0]
    asked = len(kernel.pairs)
    assert asked - len(pairs) <= 2.5 * n * 12  # with centres, which are no rows: to measure them, and to span them
    # Beforehand four pairs are asked for in both orders, and a pair function is tried on one pair, a vectorised one on
    # six; squares of four rows on the diagonal are computed whole.
    assert len(pairs) - len(set(pairs)) <= 8 + (6 + 6 * n / 4 if vectorized else 1)
    assert len(set(pairs)) <= n * (n + 1) / 2
    assert model.n_evaluations_ == pytest.approx(asked, abs=7)
    assert not isinstance(model.expansion_.kernel, RememberedKernel)


def test_remembered_values_change_no_result(table):
    def gaussian(X, Y):
        return np.exp(-0.1 * ((X[:, None] - Y[None]) ** 2).sum(-1))

    by_call = SparseKernelPCA(3, n_support=12, kernel=gaussian, selection="targeted", random_state=0).fit(table)
    named = SparseKernelPCA(3, n_support=12, gamma=0.1, selection="targeted", random_state=0).fit(table)
    assert np.array_equal(by_call.support_, named.support_)
    np.testing.assert_allclose(by_call.transform(table), named.transform(table), atol=1e-8)


def test_a_remembered_block_is_the_kernels_whatever_is_known_of_it(table):
    rng = np.random.default_rng(1)
    kernel = bind_callable(Recorded(table), None, table)
    store = KernelValues(kernel, table[:200])
    remembered = RememberedKernel(kernel, store)
    for _ in range(30):
        rows, points = (table[rng.choice(250, rng.integers(1, 40))] for _ in range(2))
        np.testing.assert_allclose(remembered(rows, points), kernel(rows, points), rtol=0, atol=1e-15)
        np.testing.assert_allclose(remembered(rows, rows), kernel(rows, rows), rtol=0, atol=1e-15)
        np.testing.assert_allclose(remembered.diagonal(rows), kernel.diagonal(rows), rtol=0, atol=1e-15)
    before = store.n_evaluations
    remembered(table[:200], table[:200])
    between = store.n_evaluations
    remembered(table[50:150], table[:100])
    assert before < between == store.n_evaluations


@pytest.mark.parametrize("vectorized", [True, False])
def test_the_diagonal_of_rows_is_asked_for_once(table, vectorized):
    kernel = Recorded(table, vectorized)
    values = KernelValues(bind_callable(kernel, None, table[:300]), table[:300])
    kernel.pairs.clear()
    first, again = values.diagonal(table), values.diagonal(table)
    np.testing.assert_allclose(first, 1.0)
    np.testing.assert_array_equal(again, first)
    own = [pair for pair in kernel.pairs if pair[0] == pair[1]]
    assert len(set(own)) == 400
    assert len(own) == 400 + 100  # the rows that have no place are computed as they come
    assert values.n_evaluations == len(kernel.pairs)


def test_columns_of_the_same_rows_look_their_places_up_once(table, monkeypatch):
    looked_up = []
    monkeypatch.setattr("kernelsieve.fit.values.keys_of", lambda rows: looked_up.append(len(rows)) or keys_of(rows))
    kernel = bind_callable(Recorded(table), None, table)
    remembered = RememberedKernel(kernel, KernelValues(kernel, table[:200]))
    for i in range(5):
        np.testing.assert_allclose(remembered(table, table[[i]]), kernel(table, table[[i]]), atol=1e-15)
    assert looked_up == [200, 1, 400, 1, 1, 1, 1]
    np.testing.assert_allclose(remembered(table[::-1], table[:3]), kernel(table[::-1], table[:3]), atol=1e-15)


def test_rectangles_cover_every_wanted_element_once():
    wanted = np.random.default_rng(0).random((20, 7)) < 0.5
    covered = np.zeros(wanted.shape, dtype=int)
    for rows, columns in rectangles(wanted):
        covered[np.ix_(rows, columns)] += 1
    assert np.array_equal(covered, wanted)


def test_a_noise_term_counts_in_the_total_variance_alone(table):
    noisy = ConstantKernel(1.0) * RBF(2.0) + WhiteKernel(0.5)
    plain = SparseKernelPCA(3, n_support=12, kernel=RBF(2.0), selection="targeted", random_state=0).fit(table)
    model = SparseKernelPCA(3, n_support=12, kernel=noisy, selection="targeted", random_state=0).fit(table)
    np.testing.assert_allclose(model.explained_variance_, plain.explained_variance_, rtol=1e-6)


@pytest.mark.parametrize("form", [lambda X: scipy.sparse.csr_array(X * (X > 0)), lambda X: X.astype(np.float32)])
def test_sparse_rows_and_single_precision_are_remembered_too(table, form):
    asked = []

    def linear(X, Y):
        asked.append(X.shape[0] * Y.shape[0])
        product = X @ Y.T
        return (product.toarray() if scipy.sparse.issparse(product) else product) + 1.0

    model = SparseKernelPCA(2, n_support=10, kernel=linear, selection="uniform", random_state=0).fit(form(table))
    assert model.n_evaluations_ == pytest.approx(sum(asked), abs=7)
    assert model.n_evaluations_ <= 400 * 401 / 2 + 4 * 400


def test_a_remembered_kernel_is_pickled_as_the_kernel_alone(table):
    kernel = RememberedKernel(
        bind_callable(RBF(2.0), None, table), KernelValues(bind_callable(RBF(2.0), None, table), table)
    )
    assert type(pickle.loads(pickle.dumps(kernel))) is type(kernel.plain)


def test_a_function_on_rows_has_its_diagonal_in_one_value_a_row(table):
    kernel = Recorded(table, vectorized=False)
    bound = bind_callable(kernel, None, table)
    kernel.pairs.clear()
    bound.diagonal(table)
    assert kernel.pairs == [(i, i) for i in range(len(table))]


@pytest.mark.parametrize("vectorized", [True, False])
def test_values_of_rows_with_themselves_that_a_block_held_are_not_asked_for_again(table, vectorized):
    kernel = Recorded(table, vectorized)
    values = KernelValues(bind_callable(kernel, None, table[:300]), table[:300])
    values.block(table[:50], table[:50], values.places(table[:50]))
    kernel.pairs.clear()
    np.testing.assert_allclose(values.diagonal(table[:80]), 1.0)
    assert {pair for pair in kernel.pairs if pair[0] == pair[1]} == {(i, i) for i in range(50, 80)}


@pytest.mark.parametrize("definite", [True, False, None])
def test_what_is_known_of_a_kernels_definiteness_is_remembered(table, definite):
    gram = np.exp(-0.1 * ((table[:, None] - table) ** 2).sum(-1))
    kernel = gram_by_number(gram, definite=definite)
    rows = object_rows(range(len(table)))
    assert RememberedKernel(kernel, KernelValues(kernel, rows)).definite is definite
