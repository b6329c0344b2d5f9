"""Rows from anywhere: scipy.sparse, memory maps, data frames, a precomputed gram."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from oracles import KERNELS, assert_same_up_to_sign, exact_kernel_pca, gram_of

from kernelsieve import SparseKernelPCA
from kernelsieve.errors import PoorComponentsWarning

CONTAINERS = [scipy.sparse.csr_matrix, scipy.sparse.csr_array, scipy.sparse.csc_matrix, scipy.sparse.coo_array]
PSD_KERNELS = sorted(set(KERNELS) - {"sigmoid"})


@pytest.fixture(scope="module")
def words():
    """(train, test): 300 and 60 rows like word counts, 40 features, four in five zero, topics that make a spectrum."""
    rng = np.random.default_rng(0)
    topics = rng.gamma(0.3, size=(5, 40))
    rates = rng.dirichlet(np.ones(5) * 0.3, 360) @ topics
    rows = rng.poisson(rates).astype(float)
    rows[:, 0] += 1  # no row without a word
    return rows[:300], rows[300:]


pytestmark = pytest.mark.filterwarnings("ignore::kernelsieve.KernelWarning")  # few rows, narrow kernels: on purpose


# Sparse


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("name", PSD_KERNELS)
def test_sparse_rows_as_support_equal_dense(name, container, words):
    train, test = words
    options = {"kernel": name, "selection": np.arange(0, 60, 4), "random_state": 0}
    dense = SparseKernelPCA(3, **options).fit(train)
    sparse = SparseKernelPCA(3, **options).fit(container(train))
    assert scipy.sparse.issparse(sparse.support_vectors_)
    np.testing.assert_array_equal(sparse.support_vectors_.toarray(), dense.support_vectors_)
    assert sparse.gamma_ == pytest.approx(dense.gamma_, rel=1e-6)
    scale = np.abs(dense.transform(test)).max()
    np.testing.assert_allclose(sparse.transform(container(test)), dense.transform(test), atol=1e-5 * scale)
    np.testing.assert_allclose(sparse.transform(test), dense.transform(test), atol=1e-5 * scale)
    np.testing.assert_allclose(dense.transform(container(test)), dense.transform(test), atol=1e-8 * scale)
    np.testing.assert_allclose(sparse.eigenvalues_, dense.eigenvalues_, rtol=1e-5)
    np.testing.assert_allclose(
        sparse.reconstruction_error(container(test)), dense.reconstruction_error(test), atol=1e-4 * scale**2
    )


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("name", PSD_KERNELS)
def test_sparse_all_rows_is_exact_kernel_pca(name, center, words):
    train, test = words[0][:100], words[1]
    params = {**KERNELS[name]} | ({"gamma": 0.05} if "gamma" in KERNELS[name] else {})
    model = SparseKernelPCA(3, kernel=name, selection=np.arange(100), center=center, **params)
    model.fit(scipy.sparse.csr_matrix(train))
    gram, cross = gram_of(name, train, **params), gram_of(name, test, train, **params)
    values, components, offset = exact_kernel_pca(gram, 3, center=center)
    truth = cross @ components - offset
    assert_same_up_to_sign(model.transform(scipy.sparse.csr_matrix(test)), truth, 1e-8 * max(1, np.abs(truth).max()))
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-8)


@pytest.mark.parametrize("selection", ["optimized", "targeted", "kmeans", "rpcholesky", "uniform"])
@pytest.mark.parametrize("name", PSD_KERNELS)
def test_every_rule_takes_sparse_rows(name, selection, words):
    """What is captured is what dense rows give: to rounding for rows, to the search's own noise for moved points."""
    train, _ = words
    options = {"kernel": name, "selection": selection, "n_support": 15, "random_state": 0}
    dense = SparseKernelPCA(3, **options).fit(train)
    sparse = SparseKernelPCA(3, **options).fit(scipy.sparse.csr_matrix(train))
    rtol = 0.02 if selection == "optimized" else 1e-3
    assert sparse.eigenvalues_.sum() == pytest.approx(dense.eigenvalues_.sum(), rel=rtol)
    assert sparse.captured_ratio_ == pytest.approx(dense.captured_ratio_, abs=0.02)


def test_free_points_of_sparse_rows_are_dense_and_good(words):
    train, test = words
    model = SparseKernelPCA(3, n_support=10, random_state=0).fit(scipy.sparse.csr_matrix(train))
    rows = SparseKernelPCA(3, n_support=10, selection="targeted").fit(scipy.sparse.csr_matrix(train))
    assert model.selection_report_["rule"] == "optimized"
    assert isinstance(model.support_vectors_, np.ndarray)
    assert model.eigenvalues_.sum() > rows.eigenvalues_.sum()
    assert model.transform(scipy.sparse.csr_matrix(test)).shape == (60, 3)


@pytest.mark.parametrize("factor", [1, 4, 16, 44], ids="{} x the median gamma".format)
@pytest.mark.parametrize("container", [np.asarray, scipy.sparse.csr_matrix])
def test_free_points_of_wide_rows_never_lose_to_rows(container, factor):
    """Points are moved in a few directions only; a narrow kernel needs the others, and then rows must stay rows."""
    rng = np.random.default_rng(0)
    topics, mixes = rng.dirichlet(np.full(800, 0.02), 10), rng.dirichlet(np.full(10, 0.2), 500)
    counts = np.stack([rng.multinomial(60, rates) for rates in mixes @ topics])
    rows = container(np.sqrt(counts))
    gamma = factor * SparseKernelPCA(2, n_support=8, selection="uniform", random_state=0).fit(rows).gamma_
    moved, chosen = (
        SparseKernelPCA(5, n_support=20, gamma=gamma, selection=rule, random_state=0).fit(rows).eigenvalues_.sum()
        for rule in ("optimized", "targeted")
    )
    assert moved >= chosen * (1 - 1e-3)


@pytest.mark.parametrize("name", ["rbf", "cosine", "linear", "poly"])
def test_too_many_features_fall_back_to_rows(name):
    """300,000 features: free points would be dense, so rows are chosen, and the support stays sparse."""
    X = scipy.sparse.random(120, 300_000, density=2e-4, format="csr", random_state=0)
    model = SparseKernelPCA(2, n_support=20, kernel=name, random_state=0).fit(X)
    assert model.selection_report_["rule"] == "targeted"
    assert scipy.sparse.issparse(model.support_vectors_)
    assert len(set(model.support_)) == 20
    gram = gram_of(name, X, **({} if name in ("cosine", "linear") else {"gamma": model.gamma_}))
    truth = exact_kernel_pca(gram, 2)[0].sum()
    assert 0 < model.eigenvalues_.sum() <= truth * (1 + 1e-9)


def test_float32_sparse_rows(words):
    train, test = words
    options = {"selection": np.arange(12), "gamma": 0.05}
    full = SparseKernelPCA(3, **options).fit(scipy.sparse.csr_matrix(train))
    light = SparseKernelPCA(3, **options).fit(scipy.sparse.csr_matrix(train.astype(np.float32)))
    scores = light.transform(scipy.sparse.csr_matrix(test.astype(np.float32)))
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, full.transform(test), atol=1e-4)


def test_sparse_points_given(words):
    train, test = words
    points = scipy.sparse.csr_matrix(train[:9])
    sparse = SparseKernelPCA(2, selection=points, gamma=0.05).fit(scipy.sparse.csr_matrix(train))
    dense = SparseKernelPCA(2, selection=train[:9], gamma=0.05).fit(train)
    np.testing.assert_allclose(sparse.transform(test), dense.transform(test), atol=1e-10)


def test_explicit_zeros_and_unsorted_indices_are_nothing_special(words):
    train, test = words
    tidy = scipy.sparse.csr_matrix(train)
    untidy = scipy.sparse.csr_matrix(np.where(train == 0, 7.0, train))
    untidy.data[(train == 0).ravel()] = 0.0
    options = {"n_support": 12, "selection": "targeted", "random_state": 0}
    expected = SparseKernelPCA(2, **options).fit(tidy).transform(test)
    np.testing.assert_allclose(SparseKernelPCA(2, **options).fit(untidy).transform(test), expected, atol=1e-9)


# Memory maps


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_memory_maps_are_read_in_place(tmp_path):
    """The file is larger than all that the fit may allocate."""
    rng = np.random.default_rng(0)
    path = tmp_path / "rows.npy"
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(600_000, 32))
    for start in range(0, 600_000, 50_000):
        rows[start : start + 50_000] = rng.standard_normal((50_000, 32), dtype=np.float32)
    rows.flush()
    X = np.load(path, mmap_mode="r")
    model = SparseKernelPCA(4, n_support=20, random_state=0)
    model.fit(X[:500])
    tracemalloc.start()
    model.fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.75 * X.nbytes
    few = np.array(X[:1000])
    np.testing.assert_array_equal(model.transform(X[:1000]), model.transform(few))


# Data frames


def as_frame(library, values, names):
    module = pytest.importorskip(library)
    if library == "polars":
        return module.DataFrame(values, schema=list(names), orient="row")
    return module.DataFrame(values, columns=list(names))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_in(library, cloud, new_rows):
    frame, new = as_frame(library, cloud, "abcde"), as_frame(library, new_rows, "abcde")
    options = {"n_support": 8, "random_state": 0}
    model = SparseKernelPCA(2, **options).fit(frame)
    plain = SparseKernelPCA(2, **options).fit(cloud)
    np.testing.assert_allclose(model.transform(new), plain.transform(new_rows), atol=1e-7)
    assert list(model.feature_names_in_) == list("abcde")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_out(library, cloud):
    module = pytest.importorskip(library)
    model = SparseKernelPCA(2, n_support=8, random_state=0).set_output(transform=library)
    for scores in (model.fit_transform(cloud), model.transform(cloud)):
        assert isinstance(scores, module.DataFrame)
        assert list(scores.columns) == ["sparsekernelpca0", "sparsekernelpca1"]
        np.testing.assert_array_equal(scores.to_numpy(), model.expansion_.transform(cloud))


def test_names_of_the_scores(cloud):
    model = SparseKernelPCA(3, n_support=8, random_state=0).fit(cloud)
    assert list(model.get_feature_names_out()) == [f"sparsekernelpca{k}" for k in range(3)]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_other_or_reordered_names_are_refused(library, cloud):
    model = SparseKernelPCA(2, n_support=8, random_state=0).fit(as_frame(library, cloud, "abcde"))
    with pytest.raises(ValueError, match="feature names should match those that were passed during fit"):
        model.transform(as_frame(library, cloud, "abcdf"))
    with pytest.raises(ValueError, match="Feature names must be in the same order as they were in fit"):
        model.transform(as_frame(library, cloud[:, ::-1], "edcba"))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.transform(cloud)


# Precomputed grams


@pytest.mark.parametrize("container", [np.asarray, scipy.sparse.csr_matrix])
@pytest.mark.parametrize("selection", ["optimized", "targeted", "rpcholesky", "uniform"])
def test_a_precomputed_gram_is_its_kernel(selection, container, cloud, new_rows):
    """The same rows are chosen from the gram as from the rows; and transform takes all columns or the support's."""
    gram, cross = gram_of("rbf", cloud, gamma=0.3), gram_of("rbf", new_rows, cloud, gamma=0.3)
    options = {"n_support": 9, "selection": selection, "random_state": 0}
    model = SparseKernelPCA(3, kernel="precomputed", **options).fit(container(gram))
    assert model.selection_report_["rule"] == ("targeted" if selection == "optimized" else selection)
    by_rows = SparseKernelPCA(3, gamma=0.3, selection=model.support_).fit(cloud)
    truth = by_rows.transform(new_rows)
    np.testing.assert_allclose(model.transform(container(cross)), truth, atol=1e-8)
    np.testing.assert_allclose(model.transform(container(cross[:, model.support_])), truth, atol=1e-8)
    np.testing.assert_allclose(model.eigenvalues_, by_rows.eigenvalues_, rtol=1e-9)
    error = model.reconstruction_error(cross, diagonal=np.ones(30))
    np.testing.assert_allclose(error, by_rows.reconstruction_error(new_rows), atol=1e-8)
    assert model.score(cross, diagonal=np.ones(30)) == pytest.approx(by_rows.score(new_rows), rel=1e-9)


def test_auto_on_a_precomputed_gram(digits):
    train, _ = digits
    gram = gram_of("rbf", train[:600], gamma=0.05)
    model = SparseKernelPCA(4, kernel="precomputed", random_state=0).fit(gram)
    exact = exact_kernel_pca(gram, 4)[0].sum()
    assert model.eigenvalues_.sum() >= 0.985 * exact
    assert model.n_support_ < 200


def test_a_number_of_points_that_is_not_the_number_given_is_said(cloud):
    for selection in (np.arange(8), cloud[:8], lambda X, n_support, *, kernel, rng: X[:8]):
        assert SparseKernelPCA(2, n_support=8, gamma=0.3, selection=selection).fit(cloud).n_support_ == 8
        assert SparseKernelPCA(2, gamma=0.3, selection=selection).fit(cloud).n_support_ == 8
        with pytest.warns(
            UserWarning, match=r"n_support=20 asks for 20 points, and selection gives 8: these are taken"
        ):
            SparseKernelPCA(2, n_support=20, gamma=0.3, selection=selection).fit(cloud)


def test_points_that_are_too_few_are_not_blamed_on_the_kernel():
    """Twenty clusters far apart: ten components explain half of the variance, two points next to nothing of it."""
    rng = np.random.default_rng(0)
    X = 30 * rng.standard_normal((40, 6))[rng.integers(0, 40, 1500)] + 0.1 * rng.standard_normal((1500, 6))
    with pytest.warns(PoorComponentsWarning, match="exact kernel PCA explains about .*n_support"):
        SparseKernelPCA(2, gamma=0.05, selection=X[:3] + 2.5).fit(X)
