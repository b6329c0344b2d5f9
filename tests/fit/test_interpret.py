"""Gradients, sensitivities and traversals against finite differences and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from oracles import KERNELS
from sklearn.datasets import load_digits

import kernelsieve as ks
from kernelsieve.fit.interpret import column_spread, traversal

ESTIMATORS = {
    "sparse": ks.SparseKernelPCA(2, n_support=12, random_state=0),
    "exact": ks.KernelPCA(2, kernel="rbf", gamma="median"),
    "elastic net": ks.ElasticNetKernelPCA(2, n_nonzero=8, random_state=0),
    "likelihood": ks.LikelihoodKernelPCA(2, n_support=8, random_state=0),
    "dissimilarity": ks.DissimilarityKernelPCA(2, n_nodes=10),
    "improved": ks.ImprovedKernelPCA(2, n_nodes=10),
    "feature analysis": ks.KernelFeatureAnalysis(2),
    "robust": ks.RobustSparseKernelPCA(2, n_nonzero=8, random_state=0),
}


def numeric_gradient(transform, rows, step=1e-5):
    """(n, M, d) by central differences, one feature at a time."""
    parts = []
    for j in range(rows.shape[1]):
        move = np.zeros(rows.shape[1])
        move[j] = step
        parts.append((transform(rows + move) - transform(rows - move)) / (2 * step))
    return np.stack(parts, axis=2)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.filterwarnings("ignore")
def test_gradient_agrees_with_finite_differences_for_every_kernel(kernel, cloud, new_rows):
    model = ks.SparseKernelPCA(2, n_support=12, kernel=kernel, random_state=0, **KERNELS[kernel]).fit(cloud)
    found = model.input_gradient(new_rows)
    assert found.shape == (30, 2, 5)
    np.testing.assert_allclose(found, numeric_gradient(model.transform, new_rows), atol=1e-6)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.filterwarnings("ignore")
def test_gradient_agrees_with_finite_differences_for_every_estimator(name, cloud, new_rows):
    model = ESTIMATORS[name].fit(cloud)
    np.testing.assert_allclose(model.input_gradient(new_rows), numeric_gradient(model.transform, new_rows), atol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_gradient_of_a_compressed_model(cloud, new_rows):
    model = ks.compress(ks.KernelPCA(2, kernel="rbf", gamma="median").fit(cloud), 15, random_state=0)
    np.testing.assert_allclose(model.input_gradient(new_rows), numeric_gradient(model.transform, new_rows), atol=1e-6)


def test_gradient_of_sparse_and_float32_rows_and_of_many_blocks(cloud, new_rows):
    model = ks.SparseKernelPCA(2, n_support=12, random_state=0).fit(cloud)
    truth = model.input_gradient(new_rows)
    np.testing.assert_allclose(model.input_gradient(scipy.sparse.csr_matrix(new_rows)), truth, atol=1e-12)
    single = model.input_gradient(new_rows.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, truth, atol=1e-5)
    many = np.tile(new_rows, (400, 1))
    np.testing.assert_allclose(model.input_gradient(many)[-30:], truth, atol=1e-12)


def test_sensitivity_is_the_root_mean_square_gradient_times_the_spread(cloud):
    model = ks.SparseKernelPCA(2, n_support=12, random_state=0).fit(cloud)
    gradient = numeric_gradient(model.transform, cloud)
    np.testing.assert_allclose(
        model.sensitivity(cloud), np.sqrt((gradient**2).mean(axis=0)) * cloud.std(axis=0), rtol=1e-5
    )
    np.testing.assert_allclose(model.sensitivity(scipy.sparse.csr_matrix(cloud)), model.sensitivity(cloud), rtol=1e-8)


def test_an_input_that_the_scores_do_not_depend_on_has_no_sensitivity():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 3)) * [3.0, 3.0, 0.0]
    model = ks.SparseKernelPCA(2, n_support=20, random_state=0).fit(rows)
    found = model.sensitivity(rows)
    assert np.all(found[:, 2] == 0)
    assert np.all(found[:, :2] > 0)


def test_a_linear_kernel_traversal_is_a_straight_line_along_the_component(cloud):
    model = ks.SparseKernelPCA(2, n_support=12, kernel="linear", random_state=0).fit(cloud)
    walk = model.traversal(1, n_steps=5, span=1.5, row=cloud[3])
    np.testing.assert_allclose(np.diff(walk.rows, n=2, axis=0), 0, atol=1e-10)
    scores = model.transform(walk.rows)
    np.testing.assert_allclose(scores[:, 1], walk.scores, atol=1e-8)
    np.testing.assert_allclose(scores[:, 0], model.transform(cloud[3:4])[0, 0], atol=1e-8)


@pytest.mark.filterwarnings("ignore")
def test_a_traversal_of_digits_moves_its_own_score_and_exact_kernel_pca_has_one_too():
    rows = load_digits().data
    for model in (ks.SparseKernelPCA(5, n_support=60, random_state=0), ks.KernelPCA(5, kernel="rbf", gamma="median")):
        walk = model.fit(rows).traversal(0, n_steps=7)
        along = model.transform(walk.rows)[:, 0]
        assert walk.rows.shape == (7, 64)
        assert np.all(np.diff(along) > 0)


def test_bad_traversals_say_what_is_wrong(cloud):
    model = ks.SparseKernelPCA(2, n_support=12, random_state=0).fit(cloud)
    with pytest.raises(ValueError, match="component=2 does not exist: the model has 2"):
        model.traversal(2)
    with pytest.raises(ValueError, match="n_steps=1 must be a whole number from 2"):
        model.traversal(0, n_steps=1)


def test_kernels_without_a_derivative_say_so(cloud):
    model = ks.SparseKernelPCA(2, n_support=12, kernel=lambda x, y: np.exp(-np.abs(x - y).sum())).fit(cloud)
    with pytest.raises(TypeError, match="no derivative"):
        model.input_gradient(cloud)


def test_torch_rows_keep_their_gradients_on_their_side(cloud):
    torch = pytest.importorskip("torch")
    rows = torch.as_tensor(cloud)
    model = ks.SparseKernelPCA(2, n_support=12, random_state=0).fit(rows)
    found = model.input_gradient(rows)
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(
        found.numpy(), numeric_gradient(lambda x: model.transform(torch.as_tensor(x)).numpy(), cloud), atol=1e-6
    )


def test_the_spread_of_columns_is_numpys_standard_deviation(cloud):
    sparse = scipy.sparse.csr_array(np.where(cloud > 0.3, cloud, 0.0))
    for X in (cloud, cloud.astype(np.float32), sparse):
        dense = X.toarray() if scipy.sparse.issparse(X) else X
        np.testing.assert_allclose(column_spread(X), np.std(dense, axis=0, dtype=np.float64), rtol=1e-6)


@pytest.mark.parametrize("row", [None, 3])
def test_a_traversal_has_scores_to_both_sides_of_a_row(cloud, row):
    model = ks.SparseKernelPCA(3, n_support=10, gamma=0.3, random_state=0).fit(cloud)
    given = None if row is None else cloud[row : row + 1]
    found = traversal(model, 1, 5, 1.5, given)
    middle = 0.0 if row is None else model.transform(given)[0, 1]
    reach = 1.5 * np.sqrt(model.explained_variance_[1])
    np.testing.assert_allclose(found.scores, middle + reach * np.array([-1, -0.5, 0, 0.5, 1]), atol=1e-12)
    scores = np.tile(np.zeros(3) if row is None else model.transform(given)[0], (5, 1))
    scores[:, 1] = found.scores
    np.testing.assert_allclose(found.rows, model.inverse_transform(scores), atol=1e-6)
    assert len(traversal(model, 0, 2).rows) == 2
    with pytest.raises(ValueError, match="n_steps=1"):
        traversal(model, 0, 1)
