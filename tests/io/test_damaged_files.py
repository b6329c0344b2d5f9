"""Model files: no harm from any bytes."""

import hashlib
import io
import json
import os
import pickle
import sys
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_file_cases import make_rows, same
from sklearn.metrics.pairwise import rbf_kernel

from kernelsieve import (
    KernelPCA,
    LikelihoodKernelPCA,
    SparseKernelPCA,
    load,
)
from kernelsieve.io import ModelFileError, container

pytestmark = pytest.mark.filterwarnings("ignore:the kernel is not positive", "ignore::kernelsieve.KernelWarning")


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
        (edit_expansion(kernel={"$kernel": {"name": "rbf", "params": {"gamma": "x"}}}), "positive number"),
        (edit_expansion(kernel={"$kernel": {"name": "rbf", "params": {"gamma": {"$float": "nan"}}}}), "positive"),
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
