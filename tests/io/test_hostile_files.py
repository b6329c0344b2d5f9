"""Files that are well sealed and wrong, things that are no files, and what a killed process leaves behind."""

import contextlib
import copy
import json
import os
import random
import signal
import socket
import subprocess
import sys
import textwrap
import time
import tracemalloc
import zipfile

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelsieve
from kernelsieve import SparseKernelPCA, TableEncoder, load, save
from kernelsieve.io import ModelFileError
from kernelsieve.io.codec import Decoder
from kernelsieve.io.container import header_digest

ROWS = np.random.default_rng(0).standard_normal((60, 3))


def models():
    rbf = SparseKernelPCA(2, n_support=5, random_state=0)
    return {
        "sparse": rbf.fit(ROWS),
        "stream": SparseKernelPCA(2, n_support=5, random_state=0).partial_fit(ROWS),
        "laplacian": SparseKernelPCA(2, n_support=5, kernel="laplacian", random_state=0).fit(ROWS),
        "likelihood": kernelsieve.LikelihoodKernelPCA(n_support=5).fit(ROWS),
        "exact": kernelsieve.KernelPCA(2, kernel="rbf").fit(ROWS),
        "linear": kernelsieve.ElasticNetPCA(2).fit(ROWS),
        "table": make_pipeline(TableEncoder(), rbf).fit(ROWS),
        "pipeline": make_pipeline(StandardScaler(), rbf, LogisticRegression()).fit(ROWS, np.arange(60) % 3),
    }


WRONG = [None, True, 0, -1, 7, 1.5, 1e300, "x", "", [], {}, [1], {"$float": "nan"}, {"$tuple": []}, {"$dict": []},
         {"$strings": ["a"]}, {"$unicode": []}, {"$objects": [None]}, {"$slice": [0, 1, 1]}]  # fmt: skip


def places(node, path=()):
    """Every place in a JSON tree."""
    if path:
        yield path
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


def mutated(header, rng):
    """The header with one value replaced, dropped, renamed or swapped."""
    changed = copy.deepcopy(header)
    where = rng.choice([p for part in ("params", "state") for p in places(changed[part], (part,)) if len(p) > 1])
    parent = changed
    for key in where[:-1]:
        parent = parent[key]
    action = rng.choice(["replace", "drop", "rename", "array"])
    if action == "drop":
        del parent[where[-1]]
    elif action == "rename" and isinstance(parent, dict):
        parent[rng.choice(["transform", "_rows", "fit", "x_", "__class__", "n_jobs"])] = parent.pop(where[-1])
    elif action == "array" and changed["arrays"]:
        parent[where[-1]] = {"$array": rng.choice(sorted(changed["arrays"]))}
    else:
        parent[where[-1]] = copy.deepcopy(rng.choice(WRONG))
    return changed


def rewritten(path, header, members):
    header["sha256"] = header_digest(header)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, json.dumps(header) if name == "header.json" else data)


@pytest.mark.parametrize("kind", sorted(models()))
@pytest.mark.filterwarnings("ignore")
def test_a_sealed_file_that_is_wrong_is_refused_or_works(kind, tmp_path):
    """Whatever one value is changed to: an error at load, or a model whose methods answer with finite numbers."""
    path, rng = tmp_path / "model.ks", random.Random(sum(map(ord, kind)))
    model = models()[kind]
    save(model, path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["header.json"])
    refused = 0
    for _ in range(150):
        changed = mutated(header, rng)
        rewritten(path, changed, members)
        try:
            loaded = load(path)
        except ModelFileError:
            refused += 1
            continue
        assert type(loaded) is type(model)
        answer = loaded.transform(ROWS) if hasattr(loaded, "transform") else loaded.predict(ROWS)
        assert len(answer) == len(ROWS)
        if hasattr(model, "inverse_transform") and kind != "exact":  # which was not asked to learn a way back
            loaded.inverse_transform(np.zeros((2, answer.shape[1])))
        repr(loaded)
        save(loaded, tmp_path / "again.ks")
    assert refused > 50


@pytest.mark.parametrize("classifier", [LogisticRegression(), RidgeClassifier()])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_a_classifier_whose_classes_do_not_fit_its_planes_is_refused(classifier, n_classes, tmp_path):
    """scikit-learn would look up a class that is not there, at the first row that asks for it."""
    model = make_pipeline(StandardScaler(), classifier).fit(ROWS, np.arange(60) % n_classes)
    save(model, tmp_path / "model.ks")
    np.testing.assert_array_equal(load(tmp_path / "model.ks").predict(ROWS), model.predict(ROWS))
    for wrong in {1, 2, 3, 4} - {n_classes}:
        for holder in {getattr(classifier, "_label_binarizer", classifier), classifier}:
            with contextlib.suppress(AttributeError):  # where it is read off the one that holds it
                holder.classes_ = np.arange(wrong)
        with pytest.raises(ValueError, match=f"for {wrong} classes"):  # what is written is read first
            save(model, tmp_path / "model.ks")


def test_what_is_no_regular_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "socket"))
        for path in (tmp_path / "pipe", tmp_path / "socket", "/dev/zero", "/dev/null", tmp_path):
            start = time.perf_counter()
            with pytest.raises(ModelFileError, match="not a model file"):
                load(path)
            assert time.perf_counter() - start < 1


def test_large_headers_are_refused_quickly(tmp_path):
    path = tmp_path / "model.ks"
    save(models()["sparse"], path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["header.json"])
    for much in ({f"name{i}_": {} for i in range(250_000)}, {"_x": [[]] * 1_000_000}):
        rewritten(path, header | {"state": header["state"] | much}, members)
        assert path.stat().st_size > 4e6
        start = time.process_time()
        with pytest.raises(ModelFileError, match=r"names that no model has|more than any model has|more values than"):
            load(path)
        assert time.process_time() - start < 4
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", b"[" + b"0," * 2**24 + b"0]")
    with pytest.raises(ModelFileError, match="header is larger"):
        load(path)


@pytest.mark.parametrize("values", [b"[],", b"{},", b"0,", b'"a",'])
def test_a_header_of_many_values_is_refused_before_it_is_parsed(values, tmp_path):
    """Some 32 MB of empty lists became 850 MB."""
    path = tmp_path / "model.ks"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", b"[" + values * (2**25 // len(values) - 4) + b"0]")
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="more values than"):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 1e8
    finally:
        tracemalloc.stop()


# --- temporary files ---------------------------------------------------------------------------------------------

WRITER = """
import sys, time
from kernelsieve.io.container import replacing
with replacing(sys.argv[1]) as temporary:
    temporary.write_bytes(b"half")
    print("writing", flush=True)
    time.sleep(60)
"""


def started_writer(path):
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(WRITER), str(path)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    return process


@pytest.mark.parametrize("next_call", ["save", "load"])
@pytest.mark.parametrize("killed_by", [signal.SIGKILL, signal.SIGTERM])
def test_what_a_killed_process_left_is_removed_by_the_next_call(next_call, killed_by, tmp_path):
    path = tmp_path / "model.ks"
    model = models()["sparse"]
    save(model, path)
    before = path.read_bytes()
    with started_writer(path) as process:
        assert len(list(tmp_path.iterdir())) == 2
        load(path)
        save(model, path)
        assert len(list(tmp_path.iterdir())) == 2  # another process is still writing
        process.send_signal(killed_by)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2
    load(path) if next_call == "load" else save(model, path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.ks"]


def test_files_that_only_look_like_leftovers_stay(tmp_path):
    path = tmp_path / "model.ks"
    names = [".model.ks.tmp", ".model.ks.12.tmp", ".other.ks.999999999.0123abcd.tmp", "model.ks.999999999.0123abcd.tmp"]
    for name in names:
        (tmp_path / name).write_text("mine")
    save(models()["sparse"], path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted([*names, "model.ks"])


def test_a_read_only_file_is_not_replaced(tmp_path):
    path = tmp_path / "model.ks"
    save(models()["sparse"], path)
    path.chmod(0o444)
    before = path.read_bytes()
    with pytest.raises(PermissionError, match="read-only"):
        save(models()["exact"], path)
    assert path.read_bytes() == before


def test_owner_and_permissions_are_kept_where_the_system_lets_us(tmp_path):
    path = tmp_path / "model.ks"
    save(models()["sparse"], path)
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 1234, 1234)
    before = path.stat()
    save(models()["exact"], path)
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def with_changed(name, value):
    """A function that puts a value at a place like "_detector.inputs.factor" of a model, frozen or not."""
    *path, last = name.split(".")

    def change(model):
        for part in path:
            model = getattr(model, part)
        object.__setattr__(model, last, value(getattr(model, last, None)))

    return change


LATE = [  # a model and what is wrong with it: each was read from a sealed file once, and failed later
    (kernelsieve.KernelPCA(2, kernel="rbf", fit_inverse_transform=True), with_changed("dual_coef_", lambda _: None)),
    (kernelsieve.KernelPCA(2, kernel="rbf"), with_changed("fit_inverse_transform", lambda _: True)),
    (kernelsieve.KernelPCA(2, kernel="rbf"), with_changed("eigenvalues_", lambda values: values * np.nan)),
    (kernelsieve.KernelPCA(2, kernel="rbf"), with_changed("eigenvalues_", lambda values: -values)),
    (kernelsieve.KernelPCA(2, kernel="rbf"), with_changed("_centerer.K_fit_all_", lambda _: 1e308)),
    (
        kernelsieve.KernelPCA(2, kernel="rbf"),
        with_changed("_centerer._sklearn_output_config", lambda _: {"transform": None}),
    ),
    (kernelsieve.LikelihoodKernelPCA(2), with_changed("noise_variance_", lambda _: 0.0)),
    (SparseKernelPCA(2, n_support=5).partial_fit(ROWS), with_changed("_stream.moments.weight", lambda _: 0.0)),
    (SparseKernelPCA(2, n_support=5).partial_fit(ROWS), with_changed("n_support", lambda _: 2)),
    (SparseKernelPCA(2, n_support=5), with_changed("coef_", lambda _: kernelsieve.kernels.RBF(gamma=1.0))),
    (SparseKernelPCA(2, n_support=5), with_changed("device", lambda _: "text")),
    (SparseKernelPCA(2, n_support=5, kernel="laplacian"), with_changed("_inverse_map.gamma", lambda _: -1.0)),
    (kernelsieve.KernelMonitor(2, 5), with_changed("_detector.inputs.factor", lambda values: values * np.nan)),
    (kernelsieve.KernelMonitor(2, 5), with_changed("_detector.expansion.mean_coef", lambda _: {})),
    (kernelsieve.KernelMonitor(2, 5), with_changed("_live.recent", lambda _: ("no",))),
]


@pytest.mark.parametrize(("model", "spoil"), LATE, ids=range(len(LATE)))
@pytest.mark.filterwarnings("ignore")
def test_what_would_fail_later_is_no_model(model, spoil, tmp_path):
    """`save` asks what `load` asks, so that what it refuses could not be loaded either."""
    model = model if "_stream" in vars(model) else model.fit(ROWS)
    save(model, tmp_path / "model.ks")
    spoil(model)
    with pytest.raises(ValueError, match="cannot be saved: "):
        save(model, tmp_path / "model.ks")
    assert type(load(tmp_path / "model.ks")) is type(model)  # the one from before


@pytest.mark.parametrize("dtype", [np.uint64, np.uint32, np.float64, np.int16])
def test_places_of_sparse_rows_are_signed_whole_numbers(dtype):
    """Pointers that fall, as unsigned numbers, pass scipy's own check and make its compiled code read elsewhere."""
    arrays = {"data": np.ones(3), "indices": np.arange(3), "indptr": np.array([0, 3, 1, 3]).astype(dtype)}
    parts = {name: {"$array": name} for name in arrays}
    with pytest.raises(ValueError, match="not whole numbers"):
        Decoder(arrays).decode({"$csr": {"container": "csr_matrix", "shape": [3, 3], **parts}})
