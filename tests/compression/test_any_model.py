"""compress of any model under any kernel."""

import numpy as np
import pytest
import scipy.sparse
from compression_cases import score_errors, sklearn_model, squared_error
from oracles import KERNELS, assert_same_up_to_sign, gram_of
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as SklearnKernelPCA

from kernelsieve import CompressedKernelPCA, KernelPCA, LikelihoodKernelPCA, SparseKernelPCA, compress
from kernelsieve.kernels import RBF, RationalQuadratic

CHOICES = ["removal", "l1", "eigen-removal"]


pytestmark = pytest.mark.filterwarnings("ignore:the kernel is not positive", "ignore::kernelsieve.KernelWarning")


# Any model, any kernel


def precomputed_model(cloud, **options):
    gram = gram_of("rbf", cloud, gamma=0.3)
    return SklearnKernelPCA(4, kernel="precomputed", eigen_solver="dense", **options).fit(gram.copy())


@pytest.mark.parametrize("default_gamma", [True, False], ids=["default gamma", "gamma"])
@pytest.mark.parametrize("name", sorted(set(KERNELS) - {"laplacian", "matern"}))
def test_all_points_of_scikit_learns_model_give_its_scores(name, default_gamma, cloud, new_rows):
    model = sklearn_model(name, cloud, default_gamma=default_gamma)
    small = compress(model, 80)
    np.testing.assert_allclose(small.transform(new_rows), model.transform(new_rows), atol=1e-9)
    assert small.compression_["total_error"] == 0
    np.testing.assert_array_equal(small.support_, np.arange(80))
    np.testing.assert_array_equal(small.eigenvalues_, model.eigenvalues_)
    gram = model._get_kernel(cloud)
    total = np.trace(gram) - gram.mean() * 80
    np.testing.assert_allclose(small.explained_variance_ratio_, model.eigenvalues_ / total, rtol=1e-9)
    assert (small.captured_ratio_, small.captured_ratio_kind_) == (1.0, "exact")


@pytest.mark.parametrize("method", ["auto", *CHOICES])
@pytest.mark.parametrize("name", sorted(set(KERNELS) - {"laplacian", "matern"}))
def test_every_kernel_of_scikit_learn_can_be_compressed(name, method, cloud, new_rows):
    """Better than random rows with the same regression; the published rule is not always."""
    model = sklearn_model(name, cloud)
    small = compress(model, 30, method=method, random_state=0)
    assert small.n_support_ <= 30
    rng, scores, by_chance = np.random.default_rng(0), model.transform(cloud), []
    for _ in range(5):
        columns = gram_of(name, cloud, cloud[rng.choice(80, 30, replace=False)], **KERNELS[name])
        left = squared_error(columns - columns.mean(axis=0), scores - scores.mean(axis=0))
        by_chance.append(np.sqrt(left / np.sum((scores - scores.mean(axis=0)) ** 2)))
    if method != "eigen-removal":
        assert score_errors(model, small, cloud)[1] < max(np.mean(by_chance), 1e-8)
    assert score_errors(model, small, new_rows)[1] < 0.2
    if method == "auto":
        assert small.compression_["method"] == "optimized"
    else:
        np.testing.assert_array_equal(small.support_vectors_, cloud[small.support_])


def test_a_linear_model_needs_no_more_points_than_components(cloud, new_rows):
    """scikit-learn's default kernel: PCA, whose components themselves can be the points."""
    model = SklearnKernelPCA(2).fit(cloud)
    small = compress(model, 2, random_state=0)
    assert score_errors(model, small, new_rows)[1] < 1e-4
    assert_same_up_to_sign(small.transform(new_rows), PCA(2).fit(cloud).transform(new_rows), 1e-3)
    for method in ("removal", "optimized"):
        rows = compress(model, 40, method=method, random_state=0)
        assert rows.n_support_ <= 5
        assert score_errors(model, rows, new_rows)[1] < 1e-6


@pytest.mark.parametrize("copy_X", [True, False])
def test_precomputed(copy_X, cloud, new_rows):
    """scikit-learn keeps the gram centred; the compressed model wants kernel values against its support only."""
    model = precomputed_model(cloud, copy_X=copy_X)
    vectors = sklearn_model("rbf", cloud)
    cross = gram_of("rbf", new_rows, cloud, gamma=0.3)
    for method in ("auto", *CHOICES):
        small = compress(model, 12, method=method)
        same = compress(vectors, 12, method="removal" if method == "auto" else method)
        np.testing.assert_array_equal(small.support_, same.support_)
        np.testing.assert_allclose(small.transform(cross), same.transform(new_rows), atol=1e-7)
        np.testing.assert_array_equal(small.transform(cross[:, small.support_]), small.transform(cross))
        np.testing.assert_allclose(small.explained_variance_ratio_, same.explained_variance_ratio_, rtol=1e-8)
    again = compress(small, 6, method="removal", X=cross)
    assert set(again.support_) <= set(small.support_)
    np.testing.assert_array_equal(again.transform(cross), again.transform(cross[:, again.support_]))
    assert score_errors(small, again, cross)[1] == pytest.approx(again.compression_["total_error"])
    assert compress(small, 6, X=cross[:, small.support_]).n_support_ == 6
    with pytest.raises(ValueError, match=r"points of a precomputed kernel cannot be moved.*method='removal'"):
        compress(model, 12, method="optimized")


def laplacian_of_a_pair(x, y, gamma=0.25):
    return float(np.exp(-gamma * np.abs(x - y).sum()))


def test_callable_kernels(cloud, new_rows):
    model = SklearnKernelPCA(3, kernel=laplacian_of_a_pair, kernel_params={"gamma": 0.2}, eigen_solver="dense")
    small = compress(model.fit(cloud), 25)
    named = compress(KernelPCA(3, kernel="laplacian", gamma=0.2, eigen_solver="dense").fit(cloud), 25, method="removal")
    assert small.compression_["method"] == "removal"
    np.testing.assert_array_equal(small.support_, named.support_)
    assert_same_up_to_sign(small.transform(new_rows), named.transform(new_rows), 1e-8)
    assert small.inverse_transform(small.transform(new_rows)).shape == new_rows.shape
    with pytest.raises(ValueError, match=r"points of a callable kernel cannot be moved.*method='removal'"):
        compress(model, 25, method="optimized")


def test_only_the_support_is_touched(cloud, new_rows):
    seen = []

    def kernel(X, Y):
        seen.append((len(X), len(Y)))
        return gram_of("rbf", X, Y, gamma=0.3)

    small = compress(KernelPCA(3, kernel=kernel).fit(cloud), 7)
    seen.clear()
    small.transform(new_rows)
    assert seen == [(30, 7)]


@pytest.mark.parametrize("container", [scipy.sparse.csr_matrix, scipy.sparse.csr_array])
def test_sparse_rows(container, cloud, new_rows):
    rows, new = container(np.maximum(cloud, 0)), container(np.maximum(new_rows, 0))
    model = sklearn_model("rbf", rows)
    dense = sklearn_model("rbf", rows.toarray())
    for method in ("removal", "optimized"):
        small = compress(model, 20, method=method, random_state=0)
        assert score_errors(model, small, new)[1] < 0.05
        assert small.compression_["measured_on"] == "training rows"
    removal = compress(model, 20, method="removal")
    np.testing.assert_array_equal(removal.support_, compress(dense, 20, method="removal").support_)


@pytest.mark.parametrize("container", [scipy.sparse.csr_matrix, scipy.sparse.csr_array])
def test_sparse_rows_in_units_of_their_columns(container, cloud):
    """scipy's matrices multiply by a vector as matrices do, and each column has its own scale here."""
    rows = np.maximum(cloud, 0)
    dense, sparse = (
        KernelPCA(2, kernel=RBF().on([0]) * RationalQuadratic()).fit(rows) for rows in (rows, container(rows))
    )
    moved = [compress(model, 8, method="optimized", random_state=0) for model in (dense, sparse)]
    np.testing.assert_allclose(moved[1].compression_["total_error"], moved[0].compression_["total_error"], rtol=1e-2)


def test_float32(digits, digits_model):
    train, test = (part.astype(np.float32) for part in digits)
    model = SklearnKernelPCA(6, kernel="rbf", gamma=0.05, eigen_solver="arpack", random_state=0).fit(train[:600])
    for method in ("optimized", "removal"):
        small = compress(model, 30, method=method, random_state=0)
        assert small.transform(test).dtype == np.float32
        np.testing.assert_allclose(small.transform(test), small.transform(test.astype(np.float64)), atol=2e-5)
        wide = compress(digits_model, 30, method=method, random_state=0)
        assert small.compression_["total_error"] == pytest.approx(wide.compression_["total_error"], rel=0.1)
    assert small.support_vectors_.dtype == np.float32


@pytest.mark.parametrize("solver", ["randomized", "arpack"])
def test_solvers_and_zero_components(solver, cloud, new_rows):
    model = SklearnKernelPCA(4, kernel="rbf", gamma=0.3, eigen_solver=solver, random_state=0).fit(cloud)
    np.testing.assert_allclose(compress(model, 80).transform(new_rows), model.transform(new_rows), atol=1e-9)
    linear = SklearnKernelPCA(8, kernel="linear", eigen_solver="dense").fit(cloud)  # five are there
    small = compress(linear, 20, method="removal")
    assert np.all(small.compression_["error"][:5] < 1e-8)
    assert small.compression_["total_error"] < 1e-8
    assert SklearnKernelPCA(kernel="linear", remove_zero_eig=True).fit(cloud).eigenvalues_.size >= 5


def fitted_models(X):
    return [
        KernelPCA(3, kernel="rbf", gamma=0.3).fit(X),
        KernelPCA(3, kernel="laplacian", gamma=0.2).fit(X),
        SparseKernelPCA(3, n_support=40, gamma=0.3, random_state=0).fit(X),
        SparseKernelPCA(3, n_support=40, gamma=0.3, selection="targeted", kernel="laplacian").fit(X),
        SparseKernelPCA(3, n_support=4, kernel="linear", random_state=0).fit(X),
        LikelihoodKernelPCA(3, gamma=0.3, n_support=30).fit(X),
        CompressedKernelPCA(3, gamma=0.3, n_support=40, random_state=0).fit(X),
    ]


def test_models_of_this_package(cloud, new_rows):
    for model in fitted_models(cloud):
        before = model.transform(new_rows)
        n_support = min(20, model.n_support_ - 1)
        small = compress(model, n_support, random_state=0)
        assert isinstance(small, CompressedKernelPCA)
        assert small.n_support_ == n_support
        exact = isinstance(model, KernelPCA)
        assert small.compression_["measured_on"] == ("training rows" if exact else "feature space")
        with_rows = compress(model, n_support, X=cloud, random_state=0)
        assert with_rows.compression_["measured_on"] == "X"
        assert score_errors(model, small, new_rows)[1] < 0.2
        assert score_errors(model, with_rows, new_rows)[1] < 0.1
        assert hasattr(small, "captured_ratio_") == exact
        assert 0.7 < with_rows.captured_ratio_ <= 1
        np.testing.assert_array_equal(model.transform(new_rows), before)


def test_moved_points_without_rows_lower_the_feature_space_error(cloud):
    model = SparseKernelPCA(3, selection=np.arange(60), gamma=0.3).fit(cloud)
    moved, rows = (compress(model, 12, method=method, random_state=0) for method in ("optimized", "removal"))
    assert moved.compression_["total_error"] < 0.7 * rows.compression_["total_error"]
    # the components' error bounds that of the scores, k(x, x) being one
    difference = model.transform(cloud) + model.offset_ - moved.transform(cloud) - moved.offset_
    assert np.abs(difference).max() <= moved.compression_["error"].max() * (1 + 1e-6)


def test_an_indefinite_kernel_without_rows_is_measured_on_its_points(cloud, new_rows):
    model = SparseKernelPCA(2, selection=np.arange(40), kernel="sigmoid", **KERNELS["sigmoid"]).fit(cloud)
    small = compress(model, 25, method="removal")
    assert small.compression_["measured_on"] == "support points"
    each, _ = score_errors(model, small, model.support_vectors_)
    np.testing.assert_allclose(small.compression_["error"], each, rtol=1e-5)
