"""Models that the command line fits to raw tables, exported by it: the scores of `kernelsieve transform` come out."""

import datetime
import json
import warnings

import numpy as np
import polars as pl
import pytest
from export_oracles import compiled, run_onnx
from raw_tables import FAR, ODD, as_numbers, changed, feeds, numbers, onnx, table, worst
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import kernelsieve
from kernelsieve import KernelMonitor, SparseKernelPCA, TableEncoder
from kernelsieve.cli.commands import app
from kernelsieve.export import to_c, to_onnx

SCALES = ("standard", "robust", "none")
KERNELS = {
    "rbf": (),
    "laplacian": (),
    "linear": (),
    "poly": ("--degree", 2, "--coef0", 1, "--gamma", 0.01),
    "cosine": (),
    "sigmoid": ("--gamma", 0.05, "--coef0", 0.1),
}
LIMITS = {"float32": 2e-6, "float64": 1e-13}


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result.output


def fitted(folder, frame, *options):
    frame.write_csv(folder / "table.csv")
    run("fit", folder / "table.csv", "-o", folder / "m.ks", "-c", 3, "-s", 10, *options)


def transformed(folder, frame):
    frame.write_csv(folder / "new.csv")
    run("transform", folder / "m.ks", folder / "new.csv", "-o", folder / "z.npy", "--force")
    return np.load(folder / "z.npy")


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_numbers_go_into_all_three_formats(kernel, scale, tmp_path):
    # products of columns that nothing scales lose digits in `transform` itself where the columns are far from zero
    shift = 1000 if scale == "none" else 0
    frame, new = (numbers(n, seed).with_columns(pl.col("pressure") - shift) for n, seed in ((200, 0), (40, 1)))
    fitted(tmp_path, frame, "--kernel", kernel, "--scale", scale, *KERNELS[kernel])
    new = changed(new, *FAR, (5, "price", None), (6, "pressure", None))
    scores = transformed(tmp_path, new)
    for dtype, limit in LIMITS.items():
        run("export", tmp_path / "m.ks", "-o", tmp_path / "m.onnx", "--dtype", dtype)
        proto = onnx.load(tmp_path / "m.onnx")
        assert [value.name for value in proto.graph.input] == new.columns
        rows = feeds(proto, new)
        (found,) = run_onnx(proto, None, **{k: v.astype(dtype) for k, v in rows.items()})
        assert worst(found, scores) <= limit
        run("export", tmp_path / "m.ks", "-o", tmp_path / "m.h", "--dtype", dtype)
        folder = tmp_path / dtype
        folder.mkdir()
        call = compiled((tmp_path / "m.h").read_text(), folder, "m")
        assert worst(call(new.fill_null(np.nan).to_numpy())[0], scores) <= max(limit, 5e-6 if dtype == "float32" else 0)


@pytest.mark.parametrize("scale", SCALES)
def test_a_torch_program_takes_the_raw_rows(scale, tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    fitted(tmp_path, table(200, 0).drop("day"), "--scale", scale)
    new = changed(table(40, 1).drop("day"), *FAR, *ODD[:-1])
    scores = transformed(tmp_path, new)
    run("export", tmp_path / "m.ks", "-o", tmp_path / "m.pt")
    rows = as_numbers(new, kernelsieve.load(tmp_path / "m.ks")[0])
    program = torch.export.load(tmp_path / "m.pt").module()
    assert worst(program(torch.tensor(rows, dtype=torch.float32)).numpy(), scores) <= 5e-6


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear", "cosine"])
def test_text_dates_truths_and_gaps_are_inputs_of_their_own_in_onnx(kernel, scale, tmp_path):
    fitted(tmp_path, table(300, 0), "--kernel", kernel, "--scale", scale)
    new = changed(table(40, 1), *FAR, *ODD)
    scores = transformed(tmp_path, new)
    for dtype, limit in LIMITS.items():
        run("export", tmp_path / "m.ks", "-o", tmp_path / "m.onnx", "--dtype", dtype)
        proto = onnx.load(tmp_path / "m.onnx")
        assert {value.name for value in proto.graph.input} == set(new.columns) - {"id"}
        assert {entry.domain for entry in proto.opset_import} == {""}
        (found,) = run_onnx(proto, None, **feeds(proto, new))
        assert worst(found, scores) <= limit
        (one,) = run_onnx(proto, None, **feeds(proto, new[6:7]))
        assert worst(one, scores[6:7], 0) <= limit


@pytest.mark.parametrize("scale", SCALES)
def test_labels_by_their_codes_in_c_and_in_a_matrix(scale, tmp_path):
    fitted(tmp_path, table(300, 0), "--scale", scale)
    new = changed(table(40, 1), *FAR, *ODD)
    scores = transformed(tmp_path, new)
    rows = as_numbers(new, kernelsieve.load(tmp_path / "m.ks")[0])
    run("export", tmp_path / "m.ks", "-o", tmp_path / "m.onnx", "--dtype", "float64", "--inputs", "matrix")
    (found,) = run_onnx(onnx.load(tmp_path / "m.onnx"), rows, "float64")
    assert worst(found, scores) <= 1e-13
    run("export", tmp_path / "m.ks", "-o", tmp_path / "m.h", "--dtype", "float64")
    text = (tmp_path / "m.h").read_text(encoding="utf-8")
    assert worst(compiled(text, tmp_path, "m")(rows)[0], scores) <= 1e-13
    assert "colour: 0=blue, 1=green, tea, 2=red, 3=any other; NaN for a gap" in text
    assert "day: days since 1970-01-01" in text
    usual = np.setdiff1d(np.arange(40), range(4))
    call = compiled(to_c(kernelsieve.load(tmp_path / "m.ks"), name="small", dtype="int8"), tmp_path, "small")
    assert np.abs(call(rows[usual])[0] - scores[usual]).max() <= 0.01 * np.ptp(scores, axis=0).max()


def test_scores_much_smaller_than_those_of_the_points_keep_their_digits(tmp_path):
    """Rows in a narrow cone, components from points all about it: float32 alone would lose 1e-4 of the scores."""
    fitted(tmp_path, numbers(200, 0), "--kernel", "cosine", "--scale", "none")
    new = numbers(40, 1)
    scores = transformed(tmp_path, new)
    run("export", tmp_path / "m.ks", "-o", tmp_path / "m.onnx")
    proto = onnx.load(tmp_path / "m.onnx")
    assert worst(run_onnx(proto, None, **feeds(proto, new))[0], scores, 0) <= 2e-6


def test_the_file_says_what_its_columns_are(tmp_path):
    fitted(tmp_path, table(300, 0))
    run("export", tmp_path / "m.ks", "-o", tmp_path / "m.onnx")
    proto = onnx.load(tmp_path / "m.onnx")
    words = {value.name: value.doc_string for value in proto.graph.input}
    assert words["colour"] == 'text: "blue", "green, tea", "red"; empty for a gap'
    assert words["day"] == "days since 1970-01-01"
    assert words["open"] == "0 or 1"
    assert words["pressure"] == ""
    facts = {entry.key: entry.value for entry in proto.metadata_props}
    assert json.loads(facts["columns"])["city"].endswith("or any other; empty for a gap")
    assert "TableEncoder -> SparseKernelPCA" in facts["pipeline"]


def test_durations_and_times_of_day_say_their_unit(tmp_path):
    rng = np.random.default_rng(0)
    hours, minutes = rng.integers(1, 200, 60).tolist(), rng.integers(0, 1440, 60).tolist()
    frame = pl.DataFrame(
        {
            "took": [datetime.timedelta(hours=h) for h in hours],
            "at": [datetime.time(m // 60, m % 60) for m in minutes],
            "size": rng.standard_normal(60),
        }
    )
    model = make_pipeline(TableEncoder(), SparseKernelPCA(2, n_support=8, random_state=0)).fit(frame)
    kernelsieve.save(model, tmp_path / "m.ks")
    model = kernelsieve.load(tmp_path / "m.ks")
    proto = to_onnx(model, "float64")
    words = {value.name: value.doc_string for value in proto.graph.input}
    assert words == {"took": "days", "at": "hours since midnight", "size": ""}
    given = {"took": np.array(hours) / 24, "at": np.array(minutes) / 60, "size": frame["size"].to_numpy()}
    (found,) = run_onnx(proto, None, **{name: values[:, None] for name, values in given.items()})
    assert worst(found, model.transform(frame), 0) <= 1e-13
    text = to_c(model, name="m")
    assert "took: days" in text
    assert "at: hours since midnight" in text


def test_empty_texts_and_gaps_in_one_column_need_a_matrix(tmp_path):
    rng = np.random.default_rng(0)
    texts = [("", "a", "b", None)[i] for i in rng.integers(0, 4, 80)]
    frame = pl.DataFrame({"label": texts, "size": rng.standard_normal(80)})
    model = make_pipeline(TableEncoder(), SparseKernelPCA(2, n_support=8, random_state=0)).fit(frame)
    with pytest.raises(ValueError, match=r"'label': .*both empty texts and gaps.*inputs='matrix'"):
        to_onnx(model)
    kernelsieve.save(model, tmp_path / "m.ks")
    assert "--inputs matrix" in run("export", tmp_path / "m.ks", "-o", tmp_path / "m.onnx", code=1)
    rows = as_numbers(frame, model[0])
    (found,) = run_onnx(to_onnx(model, "float64", inputs="matrix"), rows, "float64")
    assert worst(found, model.transform(frame), 0) <= 1e-13
    whole = frame.drop_nulls()
    model = make_pipeline(TableEncoder(), SparseKernelPCA(2, n_support=8, random_state=0)).fit(whole)
    proto = to_onnx(model, "float64")
    assert worst(run_onnx(proto, None, **feeds(proto, whole))[0], model.transform(whole), 0) <= 1e-13
    assert proto.graph.input[0].doc_string == 'text: "", "a", "b"; empty is a label, a gap cannot be given'


def test_gaps_that_the_model_refuses_give_no_number(tmp_path):
    fitted(tmp_path, numbers(100, 0), "--missing", "error")
    run("export", tmp_path / "m.ks", "-o", tmp_path / "m.onnx")
    new = changed(numbers(5, 1), (2, "price", None))
    proto = onnx.load(tmp_path / "m.onnx")
    (found,) = run_onnx(proto, None, **feeds(proto, new))
    assert np.isnan(found[2]).all()
    assert np.isfinite(found[[0, 1, 3, 4]]).all()


@pytest.mark.parametrize("columns", [("price",), ("colour",), ("colour", "city"), ("open",), ("day",)])
def test_one_column_of_any_kind(columns, tmp_path):
    frame = table(200, 0)
    frame.write_csv(tmp_path / "table.csv")
    run("fit", tmp_path / "table.csv", "-c", 1, "-s", 2, "--columns", ",".join(columns), "-o", tmp_path / "m.ks")
    new = changed(table(12, 1), *(cell for cell in ODD if cell[1] in columns))
    scores = transformed(tmp_path, new)
    run("export", tmp_path / "m.ks", "-o", tmp_path / "m.onnx", "--dtype", "float64")
    proto = onnx.load(tmp_path / "m.onnx")
    assert worst(run_onnx(proto, None, **feeds(proto, new.select(columns)))[0], scores, 0) <= 1e-13


def test_an_array_keeps_its_columns_and_those_left_out_are_not_looked_at():
    rows = np.random.default_rng(0).standard_normal((100, 4))
    rows[:, 1] = 7.0
    model = make_pipeline(TableEncoder(), SparseKernelPCA(2, n_support=8, random_state=0)).fit(rows)
    proto = to_onnx(model, "float64")
    assert proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value == 4
    assert worst(run_onnx(proto, rows, "float64")[0], model.transform(rows), 0) <= 1e-13


def test_a_classifier_after_a_table_gives_the_same_labels():
    frame, new = table(300, 0), changed(table(40, 1), *FAR, *ODD)
    labels = (frame["pressure"] > 1000).to_numpy()
    model = make_pipeline(TableEncoder(), SparseKernelPCA(5, n_support=15, random_state=0), LogisticRegression())
    model.fit(frame, labels)
    proto = to_onnx(model)
    found, chances = run_onnx(proto, None, **feeds(proto, new))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of labels that were not there
        np.testing.assert_array_equal(found.astype(bool), model.predict(new))
        np.testing.assert_allclose(chances, model.predict_proba(new), rtol=0, atol=2e-6)


@pytest.mark.parametrize("options", [(), ("--whiten",), ("--lags", 2), ("--smoothing", 0.2)])
def test_monitors_that_the_command_line_saves(options, tmp_path):
    numbers(200, 0).write_csv(tmp_path / "normal.csv")
    numbers(20, 1).write_csv(tmp_path / "new.csv")
    files = [tmp_path / "normal.csv", tmp_path / "new.csv"]
    result = CliRunner().invoke(
        app, ["monitor", *map(str, files), "-c", "5", "--save", str(tmp_path / "m.ks"), *map(str, options)]
    )
    assert result.exit_code in (0, 3), result.output
    run("export", tmp_path / "m.ks", "-o", tmp_path / "m.onnx", "--outputs", "error", "--dtype", "float64")
    monitor = kernelsieve.load(tmp_path / "m.ks")
    rows, lags = numbers(20, 1).to_numpy(), int(monitor.lags or 0)
    windows = np.hstack([rows[lags - lag : len(rows) - lag] for lag in range(lags + 1)])
    proto = onnx.load(tmp_path / "m.onnx")
    names = [value.name for value in proto.graph.input]
    (error,) = run_onnx(proto, None, **{name: windows[:, [j]] for j, name in enumerate(names)})
    if "--smoothing" not in options:
        truth = monitor.statistics(numbers(20, 1)).spe[lags:]
        np.testing.assert_allclose(error, truth, rtol=1e-9, atol=1e-12)
    run("export", tmp_path / "m.ks", "-o", tmp_path / "m.h")
    pytest.importorskip("torch", reason="torch is not installed")
    run("export", tmp_path / "m.ks", "-o", tmp_path / "m.pt")


@pytest.mark.parametrize("first", [StandardScaler(), PCA(3, whiten=True), TableEncoder(), TableEncoder("robust")])
def test_what_comes_before_a_monitor_with_lags_is_done_to_each_row_of_a_window(first, tmp_path):
    rows = np.random.default_rng(0).standard_normal((120, 4)) + 3
    model = make_pipeline(first, KernelMonitor(2, 8, lags=2, random_state=0)).fit(rows)
    windows = np.hstack([rows[2 - lag : len(rows) - lag] for lag in range(3)])
    (decision,) = run_onnx(to_onnx(model, "float64", "decision"), windows, "float64")
    np.testing.assert_allclose(decision, model.decision_function(rows)[2:], rtol=0, atol=1e-13)
    call = compiled(to_c(model, name="model", dtype="float64"), tmp_path, decision=True)
    np.testing.assert_allclose(call(windows)[2], decision, rtol=0, atol=1e-13)


@pytest.mark.parametrize("unit", [1e-30, 1e-15, 1e15, 1e30])
def test_columns_of_any_unit_fit_into_c(unit, tmp_path):
    """Squares of such units overflow in float32, or vanish: a row is scaled before it is compared."""
    rows = (unit * np.random.default_rng(0).standard_normal((100, 3))).astype(np.float32)
    model = make_pipeline(StandardScaler(), SparseKernelPCA(2, n_support=8, random_state=0)).fit(rows.astype(float))
    found = compiled(to_c(model, name="model"), tmp_path)(rows)[0]
    assert worst(found, model.transform(rows.astype(float)), 0) <= 5e-6


@pytest.mark.parametrize(
    ("kernel", "scale"), [*(("rbf", scale) for scale in SCALES), ("linear", "standard"), ("linear", "robust")]
)
def test_columns_too_coarse_in_float32_are_named(kernel, scale, tmp_path):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"near": rng.standard_normal(200), "far": 1e6 + rng.standard_normal(200)})
    model = make_pipeline(TableEncoder(scale), SparseKernelPCA(2, n_support=10, kernel=kernel, random_state=0))
    scores = model.fit(frame).transform(frame)
    with pytest.warns(UserWarning, match=r"too coarse for 'far':.*% of the scores.*dtype='float64'"):
        proto = to_onnx(model)
    assert worst(run_onnx(proto, None, **feeds(proto, frame))[0], scores, 0) > 1e-4  # so the warning is due
    with pytest.warns(UserWarning, match="too coarse for 'far'"):
        to_c(model, name="m")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        to_onnx(model, "float64")
        to_c(model, name="m", dtype="float64")
    model.fit(numbers(200, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        to_onnx(model)
        to_c(model, name="m")


def test_rows_that_float32_holds_are_not_warned_of():
    rows = (1e6 + np.random.default_rng(0).standard_normal((100, 2))).astype(np.float32)
    model = kernelsieve.KernelPCA(2, kernel="rbf", gamma=1.0).fit(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        to_onnx(model)
    model.fit(rows + 1e-3 * np.random.default_rng(1).standard_normal(rows.shape))
    with pytest.warns(UserWarning, match="too coarse for 'x0', 'x1'"):
        to_onnx(model)
