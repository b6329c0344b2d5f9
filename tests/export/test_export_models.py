"""Every estimator leaves Python, and what cannot says so; names, metadata, files."""

import json
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from export_oracles import compiled, run_onnx
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

import kernelsieve as ks
from kernelsieve.export import ExportError, to_c, to_onnx

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytestmark = pytest.mark.filterwarnings("error", "ignore::UserWarning")

MODELS = {
    "sparse": ks.SparseKernelPCA(3, n_support=12, random_state=0),
    "exact": ks.KernelPCA(3, kernel="rbf", gamma=0.1),
    "uncentred": ks.SparseKernelPCA(3, n_support=12, center=False, random_state=0),
    "elastic net": ks.ElasticNetKernelPCA(3, alpha=0.1, refit=False, random_state=0),
    "likelihood": ks.LikelihoodKernelPCA(noise_variance=0.05, random_state=0),
    "nodes": ks.DissimilarityKernelPCA(3, n_nodes=10),
    "improved nodes": ks.ImprovedKernelPCA(3, n_nodes=10),
    "feature analysis": ks.KernelFeatureAnalysis(3),
    "robust": ks.RobustSparseKernelPCA(3, random_state=0),
    "compressed": ks.CompressedKernelPCA(3, n_support=10, random_state=0),
    "sparse PCA": ks.ElasticNetPCA(3, n_nonzero=3),
    "sparse PCA by projection": ks.ElasticNetPCA(3, n_nonzero=3, transform_method="projection"),
    "robust sparse PCA": ks.RobustElasticNetPCA(2, n_nonzero=3, random_state=0),
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    return (rng.standard_normal((90, 3)) @ rng.standard_normal((3, 6)) + 0.3 * rng.standard_normal((90, 6))).astype(
        "f4"
    )


@pytest.fixture(scope="module")
def model(rows):
    return ks.SparseKernelPCA(3, n_support=12, random_state=0).fit(rows.astype(np.float64))


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_estimator_is_exported(name, rows, tmp_path):
    model = MODELS[name].fit(rows.astype(np.float64))
    scores, error = model.transform(rows.astype(np.float64)), model.reconstruction_error(rows.astype(np.float64))
    scale, length = np.abs(scores).max(), np.abs(error).max() + np.abs(scores).max() ** 2
    for dtype, limit in (("float32", 2e-6), ("float64", 1e-13)):
        found, found_error = run_onnx(to_onnx(model, dtype, ("scores", "error")), rows, dtype)
        assert np.abs(found - scores).max() <= limit * scale
        assert np.abs(found_error - error).max() <= 3 * limit * length
        found, found_error = compiled(to_c(model, name=f"m_{dtype}", dtype=dtype), tmp_path, f"m_{dtype}")(rows)
        assert np.abs(found - scores).max() <= 2.5 * limit * scale
        assert np.abs(found_error - error).max() <= 7.5 * limit * length
    found, _ = compiled(to_c(model, name="b", dtype="int8"), tmp_path, "b")(rows)
    assert np.abs(found - scores).max() <= 0.01 * np.ptp(scores, axis=0).max()


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "cosine", "linear"])
def test_a_model_of_sparse_float32_rows_is_exported(kernel, rows):
    counts = scipy.sparse.csr_array(np.maximum(rows - 0.5, 0))
    model = ks.SparseKernelPCA(2, n_support=8, kernel=kernel, selection="uniform", random_state=0).fit(counts)
    (found,) = run_onnx(to_onnx(model), counts.toarray())
    truth = model.transform(counts.astype(np.float64))
    assert np.abs(found - truth).max() <= 2e-6 * np.abs(truth).max()


def test_files_have_only_standard_operators_of_opset_18_and_say_what_the_model_is(model):
    proto = to_onnx(model)
    assert [(entry.domain, entry.version) for entry in proto.opset_import] == [("", 18)]
    assert {node.domain for node in proto.graph.node} == {""}
    facts = {entry.key: entry.value for entry in proto.metadata_props}
    assert facts["model"] == "SparseKernelPCA"
    assert facts["kernel"] == "rbf"
    assert float(facts["kernel_gamma"]) == model.gamma_
    assert (facts["n_support"], facts["n_components"], facts["n_features"]) == ("12", "3", "6")
    assert facts["n_samples_seen"] == "90"
    assert float(facts["captured_ratio"]) == model.captured_ratio_
    assert json.loads(facts["output_names"]) == list(model.get_feature_names_out())
    assert [value.name for value in proto.graph.input] == ["X"]
    assert [value.name for value in proto.graph.output] == ["scores"]
    assert proto.producer_name == "kernelsieve"


ODD = ["a b", "scores", "x'); DROP TABLE", "Größe µ", "ks_sub_1", 'q"*/uote\\']


def test_columns_of_any_name_become_inputs_of_that_name(rows, tmp_path):
    frame = pd.DataFrame(rows.astype(np.float64), columns=ODD)
    model = ks.SparseKernelPCA(2, n_support=10, random_state=0).fit(frame)
    proto = to_onnx(model, outputs=("scores", "error"))
    assert [value.name for value in proto.graph.input] == ODD
    assert [value.name for value in proto.graph.output] == ["scores_1", "error"]  # a column has the other name
    columns = {name: frame[[name]].to_numpy(np.float32) for name in ODD}
    found, _ = run_onnx(proto, None, **columns)
    truth = model.transform(frame)
    assert np.abs(found - truth).max() <= 2e-6 * np.abs(truth).max()
    (found,) = run_onnx(to_onnx(model, inputs="matrix"), rows)
    assert np.abs(found - truth).max() <= 2e-6 * np.abs(truth).max()
    facts = {entry.key: entry.value for entry in to_onnx(model, inputs="matrix").metadata_props}
    assert json.loads(facts["input_names"]) == ODD
    found, _ = compiled(to_c(model, name="m"), tmp_path, "m")(rows)  # names in the comment do not end it
    assert np.abs(found - truth).max() <= 5e-6 * np.abs(truth).max()


def test_a_pipeline_fitted_to_a_frame_has_its_columns_as_inputs(rows):
    frame = pd.DataFrame(rows.astype(np.float64), columns=list("abcdef"))
    pipeline = make_pipeline(StandardScaler(), ks.SparseKernelPCA(2, n_support=10, random_state=0)).fit(frame)
    proto = to_onnx(pipeline)
    assert [value.name for value in proto.graph.input] == list("abcdef")
    (found,) = run_onnx(proto, None, **{name: frame[[name]].to_numpy(np.float32) for name in frame})
    np.testing.assert_allclose(found, pipeline.transform(frame), rtol=0, atol=2e-6)


def test_principal_components_before_the_kernel_are_folded_in(rows, tmp_path):
    pipeline = make_pipeline(PCA(4, whiten=True), ks.SparseKernelPCA(2, n_support=10, random_state=0))
    truth = pipeline.fit(rows.astype(np.float64)).transform(rows.astype(np.float64))
    (found,) = run_onnx(to_onnx(pipeline), rows)
    assert np.abs(found - truth).max() <= 2e-6 * np.abs(truth).max()
    for dtype, limit in (("float32", 5e-6), ("float64", 1e-13), ("int8", 0.02)):
        found, _ = compiled(to_c(pipeline, name=f"m_{dtype}", dtype=dtype), tmp_path, f"m_{dtype}")(rows)
        assert np.abs(found - truth).max() <= limit * np.abs(truth).max()


def test_kernels_that_are_code_or_a_matrix_are_refused_by_name_with_what_can_be_exported(rows, tmp_path):
    gram = rows @ rows.T
    precomputed = ks.SparseKernelPCA(2, n_support=8, kernel="precomputed", random_state=0).fit(gram)
    function = ks.SparseKernelPCA(2, n_support=8, kernel=lambda X, Y: (X @ Y.T + 1) ** 2, random_state=0).fit(rows)
    for wrong, words in ((precomputed, "precomputed kernel has no points"), (function, "callable kernel is code")):
        for export in (to_onnx, lambda model: to_c(model, tmp_path / "m.h")):
            with pytest.raises(ExportError, match=f"{words}.*rbf, matern, laplacian, poly, linear, cosine and sigmoid"):
                export(wrong)
    assert not list(tmp_path.iterdir())


def test_what_is_no_fitted_model_is_refused_in_words(rows, model):
    with pytest.raises(NotFittedError, match="SparseKernelPCA is not fitted: call fit"):
        to_onnx(ks.SparseKernelPCA())
    with pytest.raises(ExportError, match="is a class: fit a model"):
        to_onnx(ks.SparseKernelPCA)
    with pytest.raises(ExportError, match="PCA cannot be exported: the estimators of kernelsieve can"):
        to_onnx(PCA(2).fit(rows))
    with pytest.raises(ExportError, match="int cannot be exported"):
        to_c(5, name="m")
    pipeline = make_pipeline(FunctionTransformer(np.abs), ks.SparseKernelPCA(2, n_support=8, random_state=0)).fit(rows)
    with pytest.raises(ExportError, match=r"FunctionTransformer cannot be folded.*StandardScaler"):
        to_c(pipeline, name="m")
    classifier = Pipeline([("model", model), ("last", LogisticRegression().fit(rows[:, :3], rows[:, 0] > 0))])
    with pytest.raises(ExportError, match="LogisticRegression cannot be exported"):
        to_c(classifier, name="m")
    with pytest.raises(ExportError, match="decides nothing"):
        to_onnx(model, outputs=("scores", "decision"))
    for wrong in (("nonsense",), (), ("scores", "scores")):
        with pytest.raises(ValueError, match="give one or more of"):
            to_onnx(model, outputs=wrong)
    with pytest.raises(ValueError, match="dtype='float16' is neither"):
        to_onnx(model, "float16")
    with pytest.raises(ValueError, match="dtype=None is neither"):
        to_onnx(model, None)
    with pytest.raises(ValueError, match="dtype='int4' is none of"):
        to_c(model, name="m", dtype="int4")
    with pytest.raises(ValueError, match="inputs='rows' is neither"):
        to_onnx(model, inputs="rows")


@pytest.mark.parametrize("name", ["", "2d", "a-b", "_hidden", "x" * 41, "a b", "naïve", "a;system"])
def test_names_that_c_does_not_take_are_refused(name, model):
    with pytest.raises(ValueError, match="cannot begin names in C"):
        to_c(model, name=name)


@pytest.mark.parametrize("name", ["int", "exp", "float", "double", "Model_2", "x" * 40])
def test_names_that_mean_something_in_c_still_make_names(name, model, rows, tmp_path):
    found, _ = compiled(to_c(model, name=name), tmp_path, name)(rows)
    assert np.isfinite(found).all()


def test_the_header_is_named_after_its_file(model, tmp_path):
    for file, name in (("plant.h", "plant"), ("my model-2.h", "my_model_2"), ("2d.h", "model_2d"), ("é.h", "model")):
        to_c(model, tmp_path / file)
        assert f"static inline void {name}_scores(" in (tmp_path / file).read_text(encoding="utf-8")


def test_two_headers_live_in_one_program(model, rows, tmp_path):
    (tmp_path / "one.h").write_text(to_c(model, name="one"))
    text = to_c(model, name="two", dtype="int8")
    found, _ = compiled(f'#include "one.h"\n{text}', tmp_path, "two")(rows)
    assert np.isfinite(found).all()


def test_numbers_too_large_for_float32_are_computed_in_double_or_refused(rows):
    model = ks.SparseKernelPCA(2, n_support=8, kernel="linear", random_state=0).fit(rows.astype(np.float64) * 1e40)
    with pytest.raises(ExportError, match="does not fit into float32: export with dtype='float64'"):
        to_c(model, name="m")
    x = rows.astype(np.float64) * 1e40
    (found,) = run_onnx(to_onnx(model, "float64"), x, "float64")
    truth = model.transform(x)
    assert np.abs(found - truth).max() <= 1e-13 * np.abs(truth).max()


@pytest.mark.parametrize("scale", [1e-30, 1e50])
def test_points_beyond_the_range_of_float32_are_kept_in_double(scale, rows, tmp_path):
    x = rows.astype(np.float64) * scale
    model = ks.SparseKernelPCA(2, n_support=8, gamma=0.1 / scale**2, selection="uniform", random_state=0).fit(x)
    truth = model.transform(x)
    (found,) = run_onnx(to_onnx(model, "float64"), x, "float64")
    assert np.abs(found - truth).max() <= 1e-13 * np.abs(truth).max()
    found, _ = compiled(to_c(model, name="m", dtype="float64"), tmp_path, "m")(x)
    assert np.abs(found - truth).max() <= 1e-13 * np.abs(truth).max()
    if scale < 1:
        truth = model.transform(x.astype(np.float32).astype(np.float64))
        (found,) = run_onnx(to_onnx(model), x)
        assert np.abs(found - truth).max() <= 2e-6 * np.abs(truth).max()
        found, _ = compiled(to_c(model, name="s"), tmp_path, "s")(x)
        assert np.abs(found - truth).max() <= 5e-6 * np.abs(truth).max()
    else:
        with pytest.raises(ExportError, match="do not fit into float32"):
            to_c(model, name="m", dtype="int8")


def test_unfitted_and_empty_pipelines_and_columns_without_a_name_are_refused(rows):
    with pytest.raises(NotFittedError, match="this pipeline is not fitted"):
        to_onnx(make_pipeline(Normalizer(), ks.SparseKernelPCA()))
    with pytest.raises(NotFittedError, match="this SparseKernelPCA is not fitted"):
        to_onnx(make_pipeline(StandardScaler(), ks.SparseKernelPCA()))
    with pytest.raises(ExportError, match="an empty pipeline"):
        to_onnx(Pipeline([]))
    frame = pd.DataFrame(rows.astype(np.float64), columns=["", *"abcde"])
    model = ks.SparseKernelPCA(2, n_support=8, random_state=0).fit(frame)
    with pytest.raises(ExportError, match=r"columns without a name.*inputs='matrix'"):
        to_onnx(model)
    assert [value.name for value in to_onnx(model, inputs="matrix").graph.input] == ["X"]


def test_a_model_fitted_to_tensors_is_exported(rows):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = rows.astype(np.float64)
    model = ks.SparseKernelPCA(2, n_support=8, random_state=0).fit(torch.tensor(x))
    (found,) = run_onnx(to_onnx(model, "float64"), x, "float64")
    np.testing.assert_allclose(found, model.transform(torch.tensor(x)).numpy(), rtol=0, atol=1e-13)


def test_files_are_written_whole_or_not_at_all(model, tmp_path):
    for name, write in (("m.onnx", lambda p: to_onnx(model, path=p)), ("m.h", lambda p: to_c(model, p))):
        path = tmp_path / name
        path.write_text("before")
        write(path)
        assert path.read_bytes() != b"before"
        assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
        with pytest.raises(OSError, match="No such file"):
            write(tmp_path / "nowhere" / name)
    assert onnx.load(tmp_path / "m.onnx").graph.output[0].name == "scores"


def test_many_writers_of_one_file_leave_one_whole_file(model, tmp_path):
    path = tmp_path / "m.onnx"
    expected = to_onnx(model).SerializeToString(deterministic=True)
    threads = [threading.Thread(target=to_onnx, args=(model,), kwargs={"path": path}) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() == expected
    assert [p.name for p in Path(tmp_path).iterdir()] == ["m.onnx"]


def test_exports_are_found_without_importing_what_they_need():
    assert set(dir(ks.export)) == {"ExportError", "register_onnx_converters", "to_c", "to_onnx", "to_torch"}
