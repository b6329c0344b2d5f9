"""Model files: the same model back, the old one kept when a write fails, and no harm from any bytes."""

import errno
import hashlib
import io
import json
import os
import pickle
import stat
import subprocess
import sys
import textwrap
import zipfile
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
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
from kernelsieve import io as model_io
from kernelsieve.io import ModelFileError, container, save

NAMED = ["rbf", "poly", "linear", "sigmoid", "cosine", "laplacian"]

pytestmark = pytest.mark.filterwarnings("ignore:the kernel is not positive", "ignore::kernelsieve.KernelWarning")


def make_rows(n=120, d=4, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


def same(a, b):
    """Equal in type, shape and every bit; estimators, records and containers by their parts."""
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert_array_equal(a, b)
    elif sp.issparse(a):
        assert a.shape == b.shape
        assert_array_equal(a.toarray(), b.toarray())
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, dict):
        assert set(a) == set(b)
        for key in a:
            same(a[key], b[key])
    elif is_dataclass(a):  # what it has computed from its fields since is no part of it
        for field in fields(a):
            same(getattr(a, field.name), getattr(b, field.name))
    elif hasattr(a, "__dict__"):
        same(vars(a), vars(b))
    else:
        assert a == b or (a != a and b != b)


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


@pytest.fixture(scope="module")
def model():
    return SparseKernelPCA(2, n_support=6, selection="kmeans", random_state=0).fit(make_rows())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.ks"


# --- the same model back ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", NAMED)
def test_sparse_kernel_pca(kernel, dtype, path):
    X = make_rows(dtype=dtype)
    new = make_rows(31, dtype=dtype, seed=1)
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
    X = make_rows(dtype=dtype)
    new = make_rows(31, dtype=dtype, seed=1)
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
    X = make_rows(dtype=dtype)
    new = make_rows(31, dtype=dtype, seed=1)
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
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_data_in_a_fitted_attribute_comes_back(path, value):
    model = KernelPCA(1).fit(np.eye(3))
    model.extra_ = value
    model.save(path)
    same(load(path).extra_, value)


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


# --- what cannot be saved --------------------------------------------------------------------------------------


def test_unfitted_model(path):
    for unfitted in (SparseKernelPCA(), KernelPCA(), LikelihoodKernelPCA()):
        with pytest.raises(NotFittedError):
            unfitted.save(path)
    assert not path.exists()


@pytest.mark.parametrize(
    "make", [SparseKernelPCA(2, n_support=5), ElasticNetKernelPCA(2), KernelPCA(2), LikelihoodKernelPCA(2)]
)
@pytest.mark.parametrize("kernel", [rbf_kernel, lambda x, y: float(x @ y)])
def test_callable_kernel(make, kernel, tmp_path):
    model = make.set_params(kernel=kernel).fit(make_rows())
    with pytest.raises(TypeError, match="callable kernel cannot be saved"):
        model.save(tmp_path / "model.ks")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [object(), {1, 2}, np.array([1, "a"], dtype=object), np.ones(2, complex), len])
def test_no_data(value, tmp_path):
    model = KernelPCA(1).fit(np.eye(3))
    model.extra_ = value
    with pytest.raises(TypeError, match="extra_"):
        model.save(tmp_path / "model.ks")
    assert list(tmp_path.iterdir()) == []


def test_other_classes(path):
    class Mine(KernelPCA):
        pass

    with pytest.raises(TypeError, match="Mine cannot be saved"):
        Mine(1).fit(np.eye(3)).save(path)


# --- writing: all or nothing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["fsync", "replace", "write"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_keeps_the_old_file(model, tmp_path, monkeypatch, where, error):
    path = tmp_path / "model.ks"
    KernelPCA(1).fit(np.eye(3)).save(path)
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise error

    with monkeypatch.context() as patch:
        if where == "write":
            patch.setattr(np.lib.format, "write_array", fail)
        else:
            patch.setattr(model_io.os, where, fail)
        with pytest.raises(type(error)) as caught:
            model.save(path)
    if isinstance(error, OSError):
        assert caught.value.errno == errno.ENOSPC
        assert caught.value.filename == str(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="needs resource limits")
def test_a_disk_that_fills_up_keeps_the_old_file(tmp_path):
    script = """
        import errno, os, resource, sys
        import numpy as np
        from kernelsieve import KernelPCA
        path = sys.argv[1]
        KernelPCA(1).fit(np.eye(3)).save(path)
        before = open(path, "rb").read()
        model = KernelPCA(2).fit(np.random.default_rng(0).normal(size=(300, 50)))
        for limit in (0, 1, 100, 5_000, 60_000):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            try:
                model.save(path)
            except OSError as error:
                assert error.errno == errno.EFBIG and error.filename == path, error
            else:
                raise AssertionError(limit)
            assert open(path, "rb").read() == before
            assert os.listdir(os.path.dirname(path)) == ["model.ks"]
    """
    path = os.path.realpath(tmp_path / "model.ks")
    subprocess.run([sys.executable, "-c", textwrap.dedent(script), path], check=True, timeout=120)


def test_modes_and_links(model, tmp_path):
    path, link = tmp_path / "model.ks", tmp_path / "link.ks"
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    model.save(path)
    assert path.stat().st_mode == plain.stat().st_mode
    if sys.platform == "win32":
        return
    path.chmod(0o640)
    link.symlink_to(path)
    model.save(link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_unwritable_places(model, tmp_path):
    with pytest.raises(IsADirectoryError):
        model.save(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        model.save(tmp_path / "nowhere" / "model.ks")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(FileExistsError, match="not a file"):
            model.save(tmp_path / "pipe")
    model.save(tmp_path / ("x" * 200 + ".ks"))
    model.save(str(tmp_path / "a string.ks"))
    model.save(os.fsencode(tmp_path / "bytes.ks"))
    assert not [p for p in tmp_path.iterdir() if p.name.endswith(".tmp")]


# --- reading: a clear error for anything else --------------------------------------------------------------------


def rewrite(path, header=None, replace=None, drop=(), extra=None, compress=zipfile.ZIP_STORED, sign=True):
    """Change a model file: `header` edits the parsed header, `replace` gives new bytes or arrays of members."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    parsed = json.loads(members["header.json"])
    for name, content in (replace or {}).items():
        if isinstance(content, np.ndarray):
            buffer = io.BytesIO()
            np.save(buffer, content, allow_pickle=True)
            content = buffer.getvalue()
        members[name] = content
        if sign:
            parsed["arrays"][name.removesuffix(".npy")]["sha256"] = hashlib.sha256(content).hexdigest()
    if header is not None:
        header(parsed)
    if sign:
        parsed["sha256"] = container.header_digest(parsed)
    members["header.json"] = json.dumps(parsed).encode()
    members = {**{k: v for k, v in members.items() if k not in drop}, **(extra or {})}
    with zipfile.ZipFile(path, "w", compress) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def refused(path, match):
    with pytest.raises(ModelFileError, match=match) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message


def test_missing_and_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.ks")
    refused(tmp_path, "a folder")


def test_foreign_files(path):
    for content in (b"", b"PK", b"hello", b"\x93NUMPY", pickle.dumps(KernelPCA()), b"a,b\n1,2\n" * 1000):
        path.write_bytes(content)
        refused(path, "not a kernelsieve model file")
    with open(path, "wb") as file:
        np.savez(file, a=np.ones(3))
    refused(path, "NumPy .npz")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    refused(path, "other zip")
    for header in ("{}", "[]", '"kernelsieve-model"', '{"format": "other"}'):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("header.json", header)
        refused(path, "not a kernelsieve model file")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", "{")
    refused(path, "damaged")


def test_every_truncation_is_refused(model, path):
    model.save(path)
    content = path.read_bytes()
    for length in [*range(0, 200), *range(200, len(content), 37), *range(len(content) - 100, len(content))]:
        path.write_bytes(content[:length])
        refused(path, "truncated|damaged|not a kernelsieve model")


@given(st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_flipped_bytes_are_refused_or_harmless(model, path, data):
    model.save(path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    try:
        loaded = load(path)
    except ModelFileError:
        return
    same(loaded, model)  # a date or a mode in the zip's directory


def test_newer_version(model, path):
    model.save(path)
    rewrite(path, lambda h: h.update(version=3, kernelsieve="9.0"), sign=False)
    refused(path, r"newer kernelsieve \(9.0, file version 3\).*upgrade")
    for version in (None, "1", 0, -1, 1.5):
        rewrite(path, lambda h, v=version: h.update(version=v))
        refused(path, "version")


def test_edited_header_and_arrays(model, path):
    model.save(path)
    rewrite(path, lambda h: h["state"].update(gamma_=2.0), sign=False)
    refused(path, "header.json was changed")
    model.save(path)
    rewrite(path, replace={"expansion_.coef.npy": model.dual_coef_ + 1}, sign=False)
    refused(path, "expansion_.coef was changed")


@pytest.mark.parametrize(
    ("array", "match"),
    [
        (np.zeros((6, 3)), "coef: .* bytes are no array|header says"),
        (np.zeros((2, 6)), "header says"),
        (np.zeros((6, 2), dtype="<i8"), "header says"),
        (np.zeros((6, 2), dtype=">f8"), "header says"),
        (np.full((6, 2), None), "bytes are no array|header says"),
        (np.zeros(6, dtype=[("a", "<f8"), ("b", "<f8")]), "header says"),
    ],
)
def test_arrays_that_are_not_as_the_header_says(model, path, array, match):
    model.save(path)
    rewrite(path, replace={"expansion_.coef.npy": array})
    refused(path, match)


class Explosive:
    fired = False

    def __reduce__(self):
        return (setattr, (Explosive, "fired", True))


def test_object_arrays_are_never_unpickled(model, path):
    model.save(path)
    array = np.array([Explosive()] * 12).reshape(6, 2)
    for dtype in ("|O", "<f8"):
        rewrite(path, lambda h, d=dtype: h["arrays"]["expansion_.coef"].update(dtype=d))
        rewrite(path, replace={"expansion_.coef.npy": array})
        refused(path, "expansion_.coef")
    assert not Explosive.fired


def test_members_missing_added_twice_or_compressed(model, path):
    for change in (
        {"drop": ["expansion_.coef.npy"]},
        {"extra": {"other.npy": b""}},
        {"extra": {"../escape.py": b"print()"}},
    ):
        model.save(path)
        rewrite(path, **change)
        refused(path, "missing from the file, or others were added")
    model.save(path)
    rewrite(path, compress=zipfile.ZIP_DEFLATED)
    refused(path, "compressed")
    model.save(path)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("header.json", "{}")
    refused(path, "overlap")


def test_bombs_are_refused_before_they_unfold(model, path):
    model.save(path)
    zeros = np.zeros((6, 2)).tobytes() + bytes(50_000_000)
    rewrite(path, replace={"expansion_.coef.npy": zeros}, compress=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 100_000
    refused(path, "compressed")
    model.save(path)
    rewrite(path, replace={"expansion_.coef.npy": zeros})
    refused(path, "bytes are no array")
    model.save(path)
    rewrite(path, lambda h: h["arrays"]["expansion_.coef"].update(shape=[10**9, 10**9]))
    refused(path, "bytes are no array")
    for shape in ([-1, 2], ["6", 2], [6.0, 2]):
        model.save(path)
        rewrite(path, lambda h, s=shape: h["arrays"]["expansion_.coef"].update(shape=s))
        refused(path, "none that a model has")


def set_array(name, array):
    """An edit, well signed, that puts another array in place of one."""

    def edit(path):
        def header(parsed):
            parsed["arrays"][name].update(dtype=array.dtype.str, shape=list(array.shape))

        rewrite(path, header, {f"{name}.npy": array})

    return edit


@pytest.mark.parametrize(
    "edit",
    [
        set_array("expansion_.coef", np.zeros((5, 2))),
        set_array("expansion_.coef", np.zeros((6, 3))),
        set_array("expansion_.coef", np.zeros(6)),
        set_array("expansion_.offset", np.zeros(3)),
        set_array("expansion_.mean_coef", np.zeros(7)),
        set_array("expansion_.points", np.zeros((6, 3))),
        set_array("expansion_.points", np.zeros((7, 4))),
        set_array("explained_variance_", np.zeros(3)),
    ],
)
def test_arrays_of_sizes_that_do_not_fit_together(model, path, edit):
    model.save(path)
    edit(path)
    refused(path, "do not fit together")


@pytest.mark.parametrize("name", ["weights_", "_density.coef", "_density.offset", "_density.mean_coef"])
def test_sizes_of_a_density_that_do_not_fit_together(name, path):
    LikelihoodKernelPCA(2, noise_fraction=0.3, center=True, random_state=0).fit(make_rows()).save(path)
    set_array(name, np.zeros((3, 2) if name == "_density.coef" else 3))(path)
    refused(path, "do not fit together")


def edit_state(**changes):
    return lambda header: header["state"].update(changes)


def edit_expansion(**changes):
    return lambda header: header["state"]["expansion_"]["$record"]["fields"].update(changes)


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        (lambda h: h.update({"class": "KernelExpansion"}), "this kernelsieve knows"),
        (lambda h: h.update({"class": "os.system"}), "this kernelsieve knows"),
        (lambda h: h.update({"class": ["KernelPCA"]}), "damaged"),
        (lambda h: h["params"].update(no_such=1), "parameters do not fit"),
        (lambda h: h.update(params=[1]), "parameters do not fit"),
        (lambda h: h.update(state=[]), "not fitted"),
        (lambda h: h.update(state=[1]), "damaged"),
        (lambda h: h.update(state={}), "not fitted"),
        (lambda h: h.update(arrays=[]), "added"),
        (lambda h: h["state"].pop("expansion_"), "no kernel expansion"),
        (edit_state(expansion_=None), "no kernel expansion"),
        (edit_state(__class__="x"), "names that no model has"),
        (edit_state(n_components=3), "names that no model has"),
        (edit_state(n_features_in_=5), "do not fit together"),
        (edit_state(support_={"$array": "expansion_.coef"}), "int is needed"),
        (edit_state(x_={"$array": "none"}), "damaged"),
        (edit_state(x_={"$scalar": ["|O", 1]}), "dtype"),
        (edit_state(x_={"$float": "1"}), "damaged"),
        (edit_state(x_={"$record": {"class": "Popen", "fields": {}}}), "damaged"),
        (edit_state(x_={"$record": {"class": "RidgeMap", "fields": {}}}), "damaged"),
        (edit_state(_inverse_map={"$record": {"class": "Uncentered", "fields": {}}}), "damaged"),
        (edit_expansion(kernel=None), "no kernel expansion"),
        (edit_expansion(kernel={"$kernel": {"name": "callable", "params": {}}}), "unknown kernel"),
        (edit_expansion(kernel={"$kernel": {"name": "rbf", "params": {"gamma": "x"}}}), "not numbers"),
        (edit_expansion(kernel={"$kernel": {"name": "rbf", "params": {"gamma": {"$float": "nan"}}}}), "not numbers"),
        (edit_expansion(kernel={"$kernel": {"name": "rbf", "params": {"gama": 1.0}}}), "damaged"),
        (edit_expansion(coef=[[1.0]]), "damaged"),
        (edit_expansion(more=1), "damaged"),
    ],
)
def test_well_signed_nonsense(model, path, edit, match):
    model.save(path)
    rewrite(path, edit)
    refused(path, match)


def test_sparse_indices_are_checked_before_compiled_code_sees_them(path):
    X = sp.csr_matrix(np.eye(20, 7))
    KernelPCA(2, kernel="linear").fit(X).save(path)
    with zipfile.ZipFile(path) as archive:
        names = json.loads(archive.read("header.json"))["arrays"]
    indices = next(name for name in names if name.endswith("indices"))
    for bad in (np.full(7, 10**6, np.int32), np.full(7, -5, np.int32)):
        rewrite(path, replace={f"{indices}.npy": bad})
        refused(path, "damaged")


@pytest.mark.parametrize("columns", [[0, 1, 2, 3, 4, 500], [0, 1, 2], [0, 1, 2, 3, 4, -1], ["a"] * 6, [True] * 6])
def test_precomputed_columns_are_checked(path, columns):
    model = SparseKernelPCA(2, n_support=6, selection="uniform", kernel="precomputed").fit(rbf_kernel(make_rows()))
    model.save(path)
    kernel = {"name": "precomputed", "params": {"columns": {"$tuple": columns}, "n_columns": 120}}
    rewrite(path, edit_expansion(kernel={"$kernel": kernel}))
    if columns == [True] * 6:
        assert load(path).n_support_ == 6  # True is 1: odd, but within bounds
    else:
        refused(path, "columns|not numbers")


def test_deep_nesting(model, path):
    model.save(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", "[" * 100_000 + "]" * 100_000)
    refused(path, "damaged|not a kernelsieve")


def test_unreadable_file(model, path):
    if sys.platform == "win32" or os.geteuid() == 0:
        pytest.skip("needs a user whom modes stop")
    model.save(path)
    path.chmod(0)
    with pytest.raises(PermissionError):
        load(path)
