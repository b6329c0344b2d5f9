"""skl2onnx with our estimators anywhere in a pipeline."""

import numpy as np
import pandas as pd
import pytest
from export_oracles import run_onnx
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits, load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler

from kernelsieve import ElasticNetPCA, KernelPCA, SparseKernelPCA
from kernelsieve.export import ExportError, register_onnx_converters, to_onnx

skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
pytestmark = pytest.mark.filterwarnings("error", "ignore::UserWarning")


@pytest.fixture(scope="module")
def digits_and_labels():
    X, y = load_digits(return_X_y=True)
    return X.astype(np.float32), y


@pytest.fixture(scope="module")
def letters():
    """20,000 rows in 16 columns and 26 classes, as the letters of UCI are: shapes of the benchmark without its file."""
    rng = np.random.default_rng(0)
    labels = rng.integers(26, size=20000)
    centers = rng.normal(7, 2, (26, 3, 16))
    rows = centers[labels, rng.integers(3, size=20000)] + rng.normal(0, 1.3, (20000, 16))
    return np.clip(np.rint(rows), 0, 15).astype(np.float32), np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))[labels]


def test_labels_of_a_pipeline_on_letters_are_equal_on_every_row_that_has_one_best(letters):
    X, y = letters
    rows = X.astype(np.float64)
    pipeline = make_pipeline(
        StandardScaler(), SparseKernelPCA(20, n_support=60, random_state=0), LogisticRegression(max_iter=100)
    ).fit(rows[:3000], y[:3000])
    labels, chances = pipeline.predict(rows), pipeline.predict_proba(rows)
    for dtype, limit in (("float32", 5e-6), ("float64", 1e-13)):
        label, probabilities = run_onnx(to_onnx(pipeline, dtype), X, dtype)
        assert np.abs(probabilities - chances).max() <= limit
        first, second = np.sort(chances, axis=1)[:, :-3:-1].T
        apart = first - second > limit  # nearer chances than that are the same in this precision
        assert np.array_equal(label[apart], labels[apart])
        assert np.mean(apart) >= 0.999


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly", "linear", "cosine", "sigmoid"])
def test_skl2onnx_itself_converts_every_kernel_once_it_is_told(digits_and_labels, kernel):
    X, y = digits_and_labels
    gamma = 1e-4 if kernel == "sigmoid" else "median"
    pipeline = make_pipeline(
        MinMaxScaler((0, 16)),
        SparseKernelPCA(8, n_support=40, kernel=kernel, gamma=gamma, random_state=0),
        KNeighborsClassifier(3),
    ).fit(X, y)
    register_onnx_converters()
    proto = skl2onnx.to_onnx(pipeline, X[:1], options={"zipmap": False})
    label, _ = run_onnx(proto, X[:300])
    assert np.array_equal(label, pipeline.predict(X[:300]))


@pytest.mark.parametrize("opset", [13, 15, 17, 18, 21])
def test_older_and_newer_opsets_are_served(digits_and_labels, opset):
    X, y = digits_and_labels
    union = FeatureUnion([("ours", SparseKernelPCA(5, n_support=20, random_state=0)), ("sparse", ElasticNetPCA(3))])
    pipeline = make_pipeline(Normalizer(), union, Ridge()).fit(X[:500], y[:500])
    register_onnx_converters()
    proto = skl2onnx.to_onnx(pipeline, X[:1], target_opset={"": opset, "ai.onnx.ml": 3})
    (found,) = run_onnx(proto, X[:100])
    np.testing.assert_allclose(found.ravel(), pipeline.predict(X[:100].astype(np.float64)), rtol=0, atol=2e-3)


def test_an_opset_before_13_is_refused(digits_and_labels):
    X, _ = digits_and_labels
    model = SparseKernelPCA(2, n_support=10, random_state=0).fit(X)
    register_onnx_converters()
    with pytest.raises(ExportError, match="target_opset=12 is too old: give 13 or more"):
        skl2onnx.to_onnx(model, X[:1], target_opset=12)


def test_columns_of_a_frame_reach_a_model_inside_a_column_transformer():
    frame = load_wine(as_frame=True).data
    columns = list(frame.columns)
    inner = ColumnTransformer(
        [
            ("map", make_pipeline(StandardScaler(), KernelPCA(2, kernel="rbf", gamma=0.05)), columns[:6]),
            ("rest", StandardScaler(), columns[6:]),
        ]
    )
    pipeline = make_pipeline(inner, SparseKernelPCA(2, n_support=15, random_state=0)).fit(frame)
    proto = to_onnx(pipeline, "float64")
    assert [value.name for value in proto.graph.input] == columns
    assert [value.name for value in proto.graph.output] == ["scores"]
    (found,) = run_onnx(proto, None, **{name: frame[[name]].to_numpy() for name in columns})
    truth = pipeline.transform(frame)
    assert np.abs(found - truth).max() <= 1e-12 * np.abs(truth).max()


def test_a_pipeline_that_ends_elsewhere_has_no_error_to_ask_for(digits_and_labels):
    X, y = digits_and_labels
    pipeline = make_pipeline(SparseKernelPCA(2, n_support=10, random_state=0), Ridge()).fit(X, y)
    with pytest.raises(ExportError, match="ends in Ridge and has that step's outputs"):
        to_onnx(pipeline, outputs=("scores", "error"))


def test_scaled_rows_far_from_zero_keep_their_digits_in_float32(digits_and_labels):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((200, 4)) + 1e5).astype(np.float32)
    y = np.where((X - X.mean(axis=0))[:, 0] > 0, "right", "left")
    pipeline = make_pipeline(
        StandardScaler(), SparseKernelPCA(4, n_support=20, random_state=0), LogisticRegression()
    ).fit(pd.DataFrame(X.astype(np.float64)).to_numpy(), y)
    label, probabilities = run_onnx(to_onnx(pipeline), X)
    assert np.array_equal(label, pipeline.predict(X.astype(np.float64)))
    assert np.abs(probabilities - pipeline.predict_proba(X.astype(np.float64))).max() <= 5e-6
