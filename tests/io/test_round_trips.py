"""Model files: the same model back."""

import hashlib
import io
import json
import pickle
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from model_file_cases import make_rows, same
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

import kernelsieve
from kernelsieve import (
    DissimilarityKernelPCA,
    ElasticNetKernelPCA,
    ImprovedKernelPCA,
    KernelFeatureAnalysis,
    KernelPCA,
    LikelihoodKernelPCA,
    SparseKernelPCA,
    load,
)
from kernelsieve.io import save

NAMED = ["rbf", "poly", "linear", "sigmoid", "cosine", "laplacian"]


pytestmark = pytest.mark.filterwarnings("ignore:the kernel is not positive", "ignore::kernelsieve.KernelWarning")


def assert_round_trip(model, path, *rows):
    model.save(path)
    loaded = load(path)
    same(model, loaded)
    for X in rows:
        expected = np.asarray(model.transform(X))
        found = np.asarray(loaded.transform(X))
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()
    return loaded


# --- the same model back ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", NAMED)
def test_sparse_kernel_pca(kernel, dtype, path):
    X, new = make_rows(dtype=dtype), make_rows(31, dtype=dtype, seed=1)
    coef0 = 0 if kernel == "sigmoid" else 1  # nearly positive semi-definite
    model = SparseKernelPCA(2, n_support=8, kernel=kernel, coef0=coef0, random_state=0).fit(X)
    loaded = assert_round_trip(model, path, X, new, new.astype(np.float64))
    assert_array_equal(loaded.reconstruction_error(new), model.reconstruction_error(new))
    assert_array_equal(loaded.inverse_transform(model.transform(new)), model.inverse_transform(model.transform(new)))
    assert loaded.score(new) == model.score(new)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize(
    "make", [DissimilarityKernelPCA(3, n_nodes=9), ImprovedKernelPCA(3, n_nodes=9), KernelFeatureAnalysis(3)]
)
def test_kernel_pca_on_nodes(make, kernel, center, path):
    X, new = make_rows(), make_rows(31, seed=1)
    model = clone(make).set_params(kernel=kernel, center=center, random_state=0).fit(X)
    loaded = assert_round_trip(model, path, X, new)
    assert_array_equal(loaded.reconstruction_error(new), model.reconstruction_error(new))
    assert_array_equal(loaded.inverse_transform(model.transform(new)), model.inverse_transform(model.transform(new)))
    assert loaded.score(new) == model.score(new)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("kernel", NAMED)
def test_likelihood_kernel_pca(kernel, center, dtype, path):
    X, new = make_rows(dtype=dtype), make_rows(31, dtype=dtype, seed=1)
    coef0 = 0 if kernel == "sigmoid" else 1
    model = LikelihoodKernelPCA(kernel=kernel, noise_fraction=0.3, center=center, coef0=coef0, random_state=0).fit(X)
    loaded = assert_round_trip(model, path, X, new, new.astype(np.float64))
    assert loaded.score_samples(new).tobytes() == model.score_samples(new).tobytes()
    assert loaded.score(new) == model.score(new)
    assert_array_equal(loaded.log_likelihood_, model.log_likelihood_)
    assert_array_equal(loaded.inverse_transform(model.transform(new)), model.inverse_transform(model.transform(new)))
    assert loaded._density.points is loaded.expansion_.points


@pytest.mark.parametrize("options", [{"n_support": 7}, {"n_dictionary": 20}, {"noise_variance": np.float64(0.1)}])
def test_likelihood_kernel_pca_refitted(options, path):
    model = LikelihoodKernelPCA(random_state=0, **options).fit(make_rows())
    loaded = assert_round_trip(model, path, make_rows())
    assert_array_equal(loaded.fit(make_rows()).transform(make_rows()), model.transform(make_rows()))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("kernel", NAMED)
def test_exact_kernel_pca(kernel, center, dtype, path):
    X, new = make_rows(dtype=dtype), make_rows(31, dtype=dtype, seed=1)
    model = KernelPCA(2, kernel=kernel, gamma=np.float64(0.3), center=center).fit(X)
    loaded = assert_round_trip(model, path, X, new, new.astype(np.float64))
    assert loaded.expansion_.points is loaded.X_fit_
    assert loaded.dual_coef_ is loaded.expansion_.coef
    assert loaded.score(new) == model.score(new)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("options", [{}, {"refit": True}, {"sparsity": "joint"}, {"alpha": [0.1, 2.0]}, {"alpha": 3.0}])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear", "sigmoid"])
@pytest.mark.filterwarnings("ignore:component")
def test_elastic_net(kernel, options, dtype, path):
    """Components that are not orthogonal, and components of zeros, do after loading what they did before."""
    X = make_rows(dtype=dtype)
    new = make_rows(31, dtype=dtype, seed=1)
    coef0 = 0 if kernel == "sigmoid" else 1
    model = ElasticNetKernelPCA(2, kernel=kernel, coef0=coef0, **options).fit(X)
    loaded = assert_round_trip(model, path, X, new)
    assert loaded.expansion_.orthogonal is options.get("refit", False)
    assert_array_equal(loaded.reconstruction_error(new), model.reconstruction_error(new))
    assert_array_equal(loaded.inverse_transform(model.transform(new)), model.inverse_transform(model.transform(new)))
    assert loaded.score(new) == model.score(new)


def test_elastic_net_by_admm(path):
    options = {"solver": "admm", "admm_max_iter": 3, "admm_outer_max_iter": 1, "penalty": 1.0}
    with pytest.warns(UserWarning, match="admm_max_iter"):
        model = ElasticNetKernelPCA(2, **options).fit(make_rows(40))
    assert_round_trip(model, path, make_rows(9, seed=1))  # its duality gap is NaN


def test_exact_kernel_pca_with_inverse_map(path):
    model = KernelPCA(2, kernel="rbf", fit_inverse_transform=True).fit(make_rows())
    loaded = assert_round_trip(model, path)
    scores = model.transform(make_rows(9, seed=2))
    assert_array_equal(loaded.inverse_transform(scores), model.inverse_transform(scores))


@pytest.mark.parametrize(
    "make",
    [
        SparseKernelPCA(2, n_support=7, random_state=0),
        ElasticNetKernelPCA(2, n_nonzero=5),
        KernelPCA(2),
        LikelihoodKernelPCA(2, random_state=0),
    ],
)
def test_precomputed(make, path):
    X = make_rows()
    gram, cross = rbf_kernel(X), rbf_kernel(make_rows(9, seed=1), X)
    model = make.set_params(kernel="precomputed").fit(gram)
    loaded = assert_round_trip(model, path, gram, cross)
    ones = np.ones(9)
    assert_array_equal(
        loaded.reconstruction_error(cross, diagonal=ones), model.reconstruction_error(cross, diagonal=ones)
    )
    if not isinstance(model, KernelPCA):
        assert_array_equal(loaded.transform(cross[:, loaded.support_]), model.transform(cross))
    if isinstance(model, LikelihoodKernelPCA):
        assert_array_equal(loaded.score_samples(cross, diagonal=ones), model.score_samples(cross, diagonal=ones))


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize(
    "make",
    [
        SparseKernelPCA(2, n_support=7, selection="targeted", random_state=0),
        ElasticNetKernelPCA(2, n_nonzero=5),
        KernelPCA(2),
        LikelihoodKernelPCA(2, noise_fraction=0.05, random_state=0),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_support(make, container, dtype, path):
    X = make_rows(d=9, dtype=dtype)
    X = container(np.where(abs(X) < 1, 0, X))
    model = make.set_params(kernel="rbf").fit(X)
    assert sp.issparse(model.support_vectors_)
    loaded = assert_round_trip(model, path, X)
    assert isinstance(loaded.support_vectors_, container)


def test_automatic_size_and_its_report(path):
    model = SparseKernelPCA(2, random_state=0).fit(make_rows(200))
    assert model.selection_report_["curve"]
    loaded = assert_round_trip(model, path, make_rows())
    assert loaded.selection_report_ == model.selection_report_
    assert list(loaded.selection_report_) == list(model.selection_report_)


@pytest.mark.parametrize(
    "selection",
    [
        make_rows(8),
        make_rows(8).astype(np.float32).T.copy().T,
        np.arange(8),
        [3, 5, 7, 11],
        sp.csr_matrix(np.where(make_rows(8) > 0, make_rows(8), 0)),
        "targeted",
    ],
    ids=["points", "fortran", "rows", "list", "sparse", "name"],
)
def test_selection_parameter(selection, path):
    model = SparseKernelPCA(2, n_support=4, selection=selection, random_state=0).fit(make_rows())
    loaded = assert_round_trip(model, path, make_rows())
    assert_array_equal(loaded.fit(make_rows()).transform(make_rows()), model.fit(make_rows()).transform(make_rows()))


@pytest.mark.parametrize("rows", [True, False])
def test_callable_selection_becomes_what_it_chose(rows, path):
    def choose(X, n_support, *, kernel, rng):
        return np.arange(5) if rows else X[:5] + 0.5

    model = SparseKernelPCA(2, selection=choose, random_state=0).fit(make_rows())
    model.save(path)
    loaded = load(path)
    assert_array_equal(loaded.selection, np.arange(5) if rows else make_rows()[:5] + 0.5)
    assert_array_equal(loaded.transform(make_rows()), model.transform(make_rows()))
    assert_array_equal(loaded.fit(make_rows()).transform(make_rows()), model.transform(make_rows()))


def test_parameters(path):
    X = make_rows()
    model = SparseKernelPCA(
        np.int64(2), n_support=0.1, kernel=np.str_("poly"), gamma=np.float64(0.25), degree=2.0, random_state=7
    ).fit(X)
    model.save(path)
    assert load(path).get_params() == model.get_params()
    for generator in (np.random.RandomState(0), np.random.mtrand._rand):
        model = SparseKernelPCA(2, n_support=5, selection="uniform", random_state=generator).fit(X)
        model.save(path)
        assert load(path).random_state is None


def test_column_names_and_output_kind(path):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(make_rows(), columns=["a", "b", "é", "d"])
    model = SparseKernelPCA(2, n_support=6, selection="kmeans", random_state=0).set_output(transform="pandas").fit(X)
    loaded = assert_round_trip(model, path, X)
    assert loaded.feature_names_in_.dtype == object
    assert list(loaded.transform(X).columns) == ["sparsekernelpca0", "sparsekernelpca1"]
    with pytest.raises(ValueError, match="feature names"):
        loaded.transform(X[["b", "a", "é", "d"]])


def test_callbacks_are_no_part_of_the_model(path):
    callbacks = pytest.importorskip("sklearn.callback")
    model = SparseKernelPCA(2, n_support=6, selection="uniform", random_state=0)
    model.set_callbacks(callbacks.ProgressBar()).fit(make_rows())
    model.save(path)
    assert_array_equal(load(path).transform(make_rows()), model.transform(make_rows()))


def test_no_components_left(path):
    model = KernelPCA(kernel="rbf").fit(np.ones((5, 2)))
    assert model.eigenvalues_.shape == (0,)
    assert_round_trip(model, path, np.eye(2))


odd_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.floats().map(np.float64)
    | st.integers(0, 255).map(np.uint8) | st.floats(width=32).map(np.float32) | st.booleans().map(np.bool_),
    lambda inner: st.lists(inner, max_size=3)
    | st.lists(inner, max_size=3).map(tuple)
    | st.dictionaries(st.text(max_size=3) | st.integers() | st.just("$array"), inner, max_size=3)
    | st.lists(st.floats(), max_size=3).map(np.array),
    max_leaves=8,
)  # fmt: skip


@given(odd_values)
@example({"\0": np.zeros(2), "_": np.ones(2)})
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_data_in_a_fitted_attribute_comes_back(path, value):
    model = KernelPCA(1).fit(np.eye(3))
    model.extra_ = value
    model.save(path)
    same(load(path).extra_, value)


def test_a_net_of_rows_in_a_tiny_unit_is_saved(path):
    """Its alphas go with the rows' third power: the fit went well and could not be saved."""
    rows = np.random.default_rng(0).standard_normal((27, 3)) * 1e58
    model = ElasticNetKernelPCA(1, kernel="linear", alpha=0.1).fit(rows)
    assert np.max(model.alpha_) > 1e154
    assert_round_trip(model, path, rows)


def test_a_loaded_model_is_writable_and_saves_to_the_same_bytes(model, path, tmp_path):
    model.save(path)
    loaded = load(path)
    assert loaded.expansion_.coef.flags.writeable
    loaded.save(tmp_path / "again.ks")
    save(pickle.loads(pickle.dumps(model)), tmp_path / "pickled.ks")
    assert path.read_bytes() == (tmp_path / "again.ks").read_bytes() == (tmp_path / "pickled.ks").read_bytes()


def test_header(model, path):
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("header.json"))
        assert set(header) == {"format", "version", "kernelsieve", "class", "params", "state", "arrays", "sha256"}
        assert (header["format"], header["version"]) == ("kernelsieve-model", 1)
        assert (header["kernelsieve"], header["class"]) == (kernelsieve.__version__, "SparseKernelPCA")
        assert header["params"]["n_components"] == 2
        for name, about in header["arrays"].items():
            data = archive.read(f"{name}.npy")
            array = np.load(io.BytesIO(data), allow_pickle=False)
            assert about == {
                "dtype": array.dtype.str,
                "shape": list(array.shape),
                "sha256": hashlib.sha256(data).hexdigest(),
            }
    assert path.stat().st_size < 10_000
