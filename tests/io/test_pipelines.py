"""Pipelines in the safe file: the same answers back from every class that a file can hold, and nothing else let in."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import FastICA
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler

from kernelsieve import SparseKernelPCA, TableEncoder, load, save
from kernelsieve.io import ModelFileError
from kernelsieve.io.container import header_digest
from kernelsieve.io.registry import CLASSES

pytestmark = pytest.mark.filterwarnings("ignore::kernelsieve.KernelWarning", "ignore::FutureWarning")

ROWS = np.random.default_rng(0).standard_normal((90, 4))
LABELS = np.array(["red", "green", "blue"])[np.random.default_rng(1).integers(3, size=90)]
TARGETS = ROWS @ [1.0, -2.0, 0.5, 3.0]
PARTS = {"Pipeline", "ColumnTransformer", "LabelBinarizer", "MissingIndicator"}  # tested through what holds them
ARGUMENTS = {
    "PCA": {"n_components": 3},
    "IncrementalPCA": {"n_components": 3},
    "QuantileTransformer": {"n_quantiles": 20},
}


def reduced():
    return SparseKernelPCA(3, n_support=6, random_state=0)


def table(n=90):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(ROWS[:n], columns=list("abcd")).assign(cut=rng.choice(["x", "y", "z"], n))
    frame.loc[3, "a"] = np.nan
    return frame


def answers(model, X):
    outputs = [
        np.asarray(getattr(model, name)(X))
        for name in ("transform", "predict", "predict_proba", "decision_function")
        if hasattr(model, name)
    ]
    assert outputs
    return outputs


def assert_same_after_file(model, X, path):
    save(model, path)
    loaded = load(path)
    for expected, found in zip(answers(model, X), answers(loaded, X), strict=True):
        assert expected.dtype == found.dtype
        if expected.dtype.kind == "f":  # scikit-learn multiplies arrays of other strides in another order
            assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
        else:
            assert_array_equal(found, expected)
    again = path.with_suffix(".again")
    save(loaded, again)
    assert path.read_bytes() == again.read_bytes()
    return loaded


@pytest.mark.parametrize("name", sorted(set(CLASSES) - PARTS))
def test_every_class_that_a_file_can_hold_gives_the_same_answers(name, tmp_path):
    step = CLASSES[name].cls(**ARGUMENTS.get(name, {}))
    rows = ROWS
    if name in ("OneHotEncoder", "OrdinalEncoder"):
        rows = np.random.default_rng(3).choice(["p", "q", "r"], (90, 4)).astype(object)
    if name in ("SimpleImputer", "KNNImputer"):
        rows = ROWS.copy()
        rows[5, 1] = np.nan
        step.set_params(add_indicator=True)
    final = is_classifier(step) or is_regressor(step)
    model = make_pipeline(reduced(), step) if final else make_pipeline(step, StandardScaler(with_mean=False), reduced())
    model.fit(rows, LABELS if is_classifier(step) else TARGETS)
    assert_same_after_file(model, rows, tmp_path / "model.ks")


def test_a_whole_table_with_a_column_transformer(tmp_path):
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    columns = ColumnTransformer(
        [
            ("numbers", numbers, make_column_selector(dtype_include="number")),
            ("cut", OneHotEncoder(handle_unknown="ignore"), ["cut"]),
            ("beside", "passthrough", [1]),
            ("not", "drop", ["b"]),
        ]
    )
    model = make_pipeline(columns, reduced(), LogisticRegression()).fit(table(), LABELS)
    loaded = assert_same_after_file(model, table(), tmp_path / "model.ks")
    assert_array_equal(loaded.feature_names_in_, model.feature_names_in_)
    assert_array_equal(loaded[:-1].get_feature_names_out(), model[:-1].get_feature_names_out())
    with pytest.raises(ValueError, match="missing"):
        loaded.predict(table().drop(columns="cut"))


@pytest.mark.parametrize("scale", ["standard", "robust", "none"])
def test_a_table_encoder_and_its_way_back(scale, tmp_path):
    model = make_pipeline(TableEncoder(scale, keep=["a"]), reduced()).fit(table())
    loaded = assert_same_after_file(model, table(), tmp_path / "model.ks")
    encoded = model[0].transform(table())
    pd.testing.assert_frame_equal(loaded[0].inverse_transform(encoded), model[0].inverse_transform(encoded))
    assert loaded[0].describe() == model[0].describe()


@pytest.mark.parametrize("algorithm", ["brute", "kd_tree", "ball_tree"])
def test_nearest_neighbours_find_the_same_ones(algorithm, tmp_path):
    for final, targets in (
        (KNeighborsClassifier(algorithm=algorithm, weights="distance"), LABELS),
        (KNeighborsRegressor(algorithm=algorithm), np.stack([TARGETS, -TARGETS], axis=1)),
    ):
        model = make_pipeline(StandardScaler(), reduced(), final).fit(ROWS, targets)
        assert_same_after_file(model, ROWS, tmp_path / "model.ks")


def test_encoders_with_gaps_rare_labels_and_labels_that_were_dropped(tmp_path):
    labels = pd.DataFrame({"a": ["x", None, "y", "x", "z"] * 18, "b": np.random.default_rng(4).integers(3, size=90)})
    for encoder in (
        OneHotEncoder(drop="first", sparse_output=False),
        OneHotEncoder(min_frequency=30, handle_unknown="infrequent_if_exist", sparse_output=False),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2),
        OneHotEncoder(dtype=np.float32, sparse_output=False),
    ):
        model = make_pipeline(encoder, reduced()).fit(labels)
        assert_same_after_file(model, labels, tmp_path / "model.ks")


def test_sparse_rows_and_what_set_output_asked_for(tmp_path):
    rows = sp.random(80, 30, density=0.2, random_state=0, format="csr")
    model = make_pipeline(CLASSES["TruncatedSVD"].cls(6, random_state=0), reduced()).fit(rows)
    assert_same_after_file(model, rows, tmp_path / "model.ks")
    model = (
        make_pipeline(StandardScaler(), reduced())
        .set_output(transform="pandas")
        .fit(table().drop(columns=["cut", "a"]))
    )
    save(model, tmp_path / "model.ks")
    found = load(tmp_path / "model.ks").transform(table().drop(columns=["cut", "a"]))
    assert list(found.columns) == ["sparsekernelpca0", "sparsekernelpca1", "sparsekernelpca2"]


def test_what_a_file_cannot_hold_is_named(tmp_path):
    path = tmp_path / "model.ks"

    class Mine(BaseEstimator):
        def fit(self, X, y=None):
            self.fitted_ = True
            return self

        def transform(self, X):
            return X

    for step, word in (
        (Mine(), "Mine"),
        (FastICA(2, random_state=0, max_iter=1000), "FastICA"),
        (FunctionTransformer(np.abs), "func"),
    ):
        with pytest.raises(TypeError, match=word):
            save(make_pipeline(step, reduced()).fit(ROWS), path)
    with pytest.raises(TypeError, match="metric or weights"):
        save(make_pipeline(reduced(), KNeighborsRegressor(weights=np.negative)).fit(ROWS, TARGETS), path)
    with pytest.raises(TypeError, match="StandardScaler cannot be saved"):
        save(StandardScaler().fit(ROWS), path)
    assert not path.exists()


def edited(path, edit):
    """The same file after `edit` of its header, with digests that match."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["header.json"])
    edit(header)
    header["sha256"] = header_digest(header)
    members["header.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def scaler(header):
    return header["params"]["steps"][0]["$tuple"][1]["$estimator"]


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        (lambda h: scaler(h).update({"class": "FunctionTransformer", "params": {"func": {"$array": "x"}}}), "."),
        (lambda h: scaler(h).update({"class": "os.system"}), "cannot make"),
        (lambda h: scaler(h)["state"].pop("scale_"), "must have scale_"),
        (lambda h: scaler(h)["state"].update(transform=1), "names that no model has"),
        (lambda h: scaler(h)["state"].update(n_features_in_=7), "do not fit together"),
        (lambda h: scaler(h)["state"].update(mean_="x"), "array"),
        (lambda h: scaler(h)["params"].update(with_mean="x"), "do not fit StandardScaler"),
        (lambda h: scaler(h)["params"].update(copy=None), "do not fit StandardScaler"),
        (lambda h: h["params"].update(steps=[]), "no steps"),
        (lambda h: h["params"].update(steps=[1]), "steps"),
        (lambda h: h["params"]["steps"].reverse(), "do not fit"),
        (lambda h: h["params"]["steps"].pop(), "."),
    ],
)
def test_well_signed_nonsense_in_a_pipeline_is_refused(edit, match, tmp_path):
    path = tmp_path / "model.ks"
    save(make_pipeline(StandardScaler(), reduced(), Ridge()).fit(ROWS, TARGETS), path)
    edited(path, edit)
    if match == ".":  # either refused, or a pipeline that works
        try:
            load(path)
        except ModelFileError:
            return
        return
    with pytest.raises(ModelFileError, match=match):
        load(path)


def test_an_unfitted_pipeline_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        save(Pipeline([("scale", StandardScaler()), ("pca", reduced())]), tmp_path / "model.ks")
