"""Rows that are kernel values with landmarks, against PCA in an orthonormal basis of the landmarks' span."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import rbf_kernel

from kernelsieve import SparseKernelPCA, export, load, save
from kernelsieve.kernels import RBF, landmarks

X = np.random.default_rng(0).standard_normal((400, 3))
S = X[::16]
VALUES, GRAM = rbf_kernel(X, S, gamma=0.3), rbf_kernel(S, S, gamma=0.3)


def model(**options):
    return SparseKernelPCA(3, n_support=8, kernel=landmarks(GRAM), random_state=0, **options)


def test_components_are_those_of_pca_in_the_span_of_the_landmarks():
    sizes, axes = np.linalg.eigh(GRAM)
    features = VALUES @ axes / np.sqrt(sizes)
    truth = PCA(3).fit(features)
    fitted = model().fit(VALUES)
    scores, expected = fitted.transform(VALUES), truth.transform(features)
    signs = np.sign((scores * expected).sum(axis=0))
    np.testing.assert_allclose(scores * signs, expected, atol=1e-8)
    np.testing.assert_allclose(fitted.explained_variance_ratio_, truth.explained_variance_ratio_, rtol=1e-6)
    linear = SparseKernelPCA(3, n_support=8, kernel="linear", random_state=0).fit(features)
    left = linear.reconstruction_error(features)
    np.testing.assert_allclose(fitted.reconstruction_error(VALUES), left, atol=1e-6)


def test_with_all_rows_as_landmarks_it_is_kernel_pca():
    gram = rbf_kernel(X[:120], gamma=0.3)
    ours = SparseKernelPCA(3, n_support=8, kernel=landmarks(gram), random_state=0).fit(gram)
    exact = SparseKernelPCA(3, n_support=120, kernel="precomputed", random_state=0).fit(gram)
    np.testing.assert_allclose(np.abs(ours.transform(gram)), np.abs(exact.transform(gram)), atol=1e-6)
    np.testing.assert_allclose(ours.explained_variance_ratio_, exact.explained_variance_ratio_, rtol=1e-6)


def test_the_kernel_is_k_itself_where_a_row_is_a_landmark():
    np.testing.assert_allclose(landmarks(GRAM)(VALUES, GRAM), VALUES, atol=1e-9)
    np.testing.assert_array_equal(landmarks(scipy.sparse.csr_array(GRAM)).gram, GRAM)


def test_streams_blocks_and_files(tmp_path):
    whole = model().fit(VALUES)
    stream = model()
    for part in np.array_split(VALUES, 4):
        stream.partial_fit(part)
    assert stream.score(VALUES) == pytest.approx(whole.score(VALUES), rel=1e-2)
    blocks = model().fit(np.array_split(VALUES, 4))
    np.testing.assert_allclose(blocks.explained_variance_, whole.explained_variance_, rtol=1e-6)
    save(whole, tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").transform(VALUES), whole.transform(VALUES))
    with pytest.raises(export.ExportError, match="come from elsewhere"):
        export.to_c(whole, tmp_path / "model.h")


def test_landmarks_are_a_part_of_other_kernels():
    both = np.hstack([VALUES, X])
    kernel = landmarks(GRAM).on(slice(0, len(S))) + RBF().on(slice(len(S), None))
    assert SparseKernelPCA(3, n_support=15, kernel=kernel, random_state=0).fit(both).captured_ratio_ > 0.95


@pytest.mark.parametrize(
    ("gram", "words"),
    [
        (VALUES, "a square matrix, and this one has shape"),
        (np.diag([1.0, -1.0]), "has the eigenvalue -1 beside 1"),
        (np.array([[1.0, 0.5], [0.2, 1.0]]), "not symmetric: 0.5 and 0.2 at 0, 1"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "has nan for the pair 0, 1"),
        (np.zeros((3, 3)), "and not zero"),
    ],
)
def test_a_gram_that_is_none_is_refused(gram, words):
    with pytest.raises(ValueError, match=words):
        landmarks(gram)


def test_rows_of_another_number_of_values_are_refused():
    with pytest.raises(ValueError, match=r"rows have 24 values, and k\(S, S\) of landmarks\(\) is of 25"):
        model().fit(VALUES[:, 1:])


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_landmarks_twice_count_once_in_any_unit(unit):
    """What whitening keeps of k(S, S) is its rank: eigenvalues that are rounding beside the largest are left out."""
    twice = np.tile(GRAM, (2, 2)) * unit
    rank = np.linalg.matrix_rank(GRAM)
    kernel = landmarks(twice)
    assert kernel.whitening.shape == (len(twice), rank)
    np.testing.assert_allclose(kernel.whitening.T @ twice @ kernel.whitening, np.eye(rank), atol=1e-5)


def test_a_gram_in_single_precision_may_be_off_by_its_rounding():
    single, off = GRAM.astype(np.float32), GRAM.copy()
    single[0, 1], off[0, 1] = single[0, 1] + 2e-5, off[0, 1] + 2e-5
    np.testing.assert_allclose(landmarks(single)(VALUES, GRAM), VALUES, atol=1e-3)
    with pytest.raises(ValueError, match="not symmetric"):
        landmarks(off)
