"""Tables in, models and scores out."""

import numpy as np
import polars as pl
import polars.testing
import pytest
from calling import COLUMNS, EXTENSIONS, core, read_scores, run
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelsieve
from kernelsieve import KernelPCA, SparseKernelPCA


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_every_format_in_and_out(extension, rows, folder, tmp_path):
    named = ["--exclude", "id,label"] if extension in (".csv", ".tsv", ".parquet") else []
    model_path, out = tmp_path / "model.ks", tmp_path / f"scores{extension}"
    data = folder / f"rows{extension}"
    result = run("fit", data, "-c", 3, "-s", 12, "-o", model_path, *named)
    assert result.exit_code == 0, result.output
    assert run("transform", model_path, data, "-o", out).exit_code == 0
    expected = make_pipeline(StandardScaler(), SparseKernelPCA(3, n_support=12, random_state=0)).fit_transform(rows)
    np.testing.assert_allclose(read_scores(out), expected, atol=1e-8)
    assert hasattr(kernelsieve.load(model_path), "feature_names_in_") == bool(named)
    assert run("fit", data, "-c", 3, "-s", 12, "-o", model_path, "--scale", "none", *named).exit_code == 0
    assert run("transform", model_path, data, "-o", out, "--force").exit_code == 0
    expected = SparseKernelPCA(3, n_support=12, random_state=0).fit_transform(rows)
    np.testing.assert_allclose(read_scores(out), expected, atol=1e-8)


def test_scores_are_named_and_columns_kept(folder, tmp_path):
    for extension in (".csv", ".parquet"):
        out = tmp_path / f"scores{extension}"
        assert (
            run("transform", folder / "model.ks", folder / "rows.csv", "-o", out, "--keep", "id,label").exit_code == 0
        )
        frame = pl.read_csv(out) if extension == ".csv" else pl.read_parquet(out)
        assert frame.columns == ["id", "label", "sparsekernelpca0", "sparsekernelpca1", "sparsekernelpca2"]
        assert frame["id"].to_list() == list(range(150))
    out = tmp_path / "scores.npz"
    assert run("transform", folder / "model.ks", folder / "rows.csv", "-o", out, "--keep", "label").exit_code == 0
    arrays = np.load(out)
    assert arrays["X"].shape == (150, 3)
    assert arrays["label"][:2].tolist() == ["red", "blue"]


def test_columns_are_found_by_name_in_any_order(folder, tmp_path):
    frame = pl.read_csv(folder / "rows.csv")
    frame.select(["d", "label", "b", "a", "id", "c"]).write_csv(tmp_path / "mixed.csv")
    assert run("transform", folder / "model.ks", folder / "rows.csv", "-o", tmp_path / "one.npy").exit_code == 0
    assert run("transform", folder / "model.ks", tmp_path / "mixed.csv", "-o", tmp_path / "two.npy").exit_code == 0
    np.testing.assert_array_equal(np.load(tmp_path / "one.npy"), np.load(tmp_path / "two.npy"))


def test_arrays_for_a_model_with_names_are_taken_in_order(rows, folder, tmp_path):
    result = run("transform", folder / "model.ks", folder / "rows.npy", "-o", tmp_path / "out.npy")
    assert result.exit_code == 0
    assert [line for line in result.output.splitlines() if line.startswith("warning: ") and "no column names" in line]
    expected = kernelsieve.load(folder / "model.ks").transform(pl.DataFrame(rows, schema=COLUMNS))
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, atol=1e-12)


def test_chosen_columns_reach_the_model(folder, tmp_path):
    result = run("fit", folder / "rows.csv", "--columns", "c, a", "-c", 1, "-s", 5, "-o", tmp_path / "model.ks")
    assert result.exit_code == 0
    assert kernelsieve.load(tmp_path / "model.ks").feature_names_in_.tolist() == ["c", "a"]


def test_options_reach_the_model(folder, tmp_path):
    out = tmp_path / "model.ks"
    options = ["-k", "poly", "--degree", 2, "--coef0", 0.5, "--gamma", 0.1, "--selection", "targeted", "--seed", 7]
    assert run("fit", folder / "rows.npy", "-c", 2, "-s", "0.1", "--variance", 0.9, *options, "-o", out).exit_code == 0
    model = core(out)
    params = {"degree": 2, "coef0": 0.5, "gamma": 0.1, "selection": "targeted", "random_state": 7, "variance": 0.9}
    assert params.items() <= model.get_params().items()
    assert model.n_support_ == 15
    assert run("fit", folder / "rows.npy", "-g", "none", "-o", out).exit_code == 0
    assert core(out).gamma_ == 0.25


def test_auto_support_is_the_default(folder, tmp_path):
    assert run("fit", folder / "rows.npy", "-o", tmp_path / "model.ks").exit_code == 0
    model = core(tmp_path / "model.ks")
    assert model.n_support == "auto"
    assert model.captured_ratio_ > 0.98


def test_float32_stays_float32(rows, tmp_path):
    pl.DataFrame(rows.astype(np.float32), schema=COLUMNS).write_parquet(tmp_path / "rows.parquet")
    assert run("fit", tmp_path / "rows.parquet", "-s", 8, "-o", tmp_path / "model.ks").exit_code == 0
    assert run("transform", tmp_path / "model.ks", tmp_path / "rows.parquet", "-o", tmp_path / "out.npy").exit_code == 0
    assert np.load(tmp_path / "out.npy").dtype == np.float32


def test_long_tables_are_transformed_in_chunks(folder, tmp_path, monkeypatch):
    from kernelsieve.cli import inputs

    assert run("transform", folder / "model.ks", folder / "rows.csv", "-o", tmp_path / "one.npy").exit_code == 0
    monkeypatch.setattr(inputs, "TRANSFORMED_ROWS", 32)
    assert run("transform", folder / "model.ks", folder / "rows.csv", "-o", tmp_path / "two.npy").exit_code == 0
    np.testing.assert_array_equal(np.load(tmp_path / "one.npy"), np.load(tmp_path / "two.npy"))


def test_precomputed_kernel(rows, tmp_path):
    gram = np.exp(-0.2 * ((rows[:, None] - rows) ** 2).sum(axis=-1))
    np.save(tmp_path / "gram.npy", gram)
    assert run("fit", tmp_path / "gram.npy", "-k", "precomputed", "-s", 10, "-o", tmp_path / "model.ks").exit_code == 0
    assert run("info", tmp_path / "model.ks").exit_code == 0
    support = core(tmp_path / "model.ks").support_
    np.save(tmp_path / "few.npy", gram[:, support])
    for name in ("gram", "few"):
        result = run("transform", tmp_path / "model.ks", tmp_path / f"{name}.npy", "-o", tmp_path / f"{name}-out.npy")
        assert result.exit_code == 0
    np.testing.assert_allclose(np.load(tmp_path / "gram-out.npy"), np.load(tmp_path / "few-out.npy"), atol=1e-12)


def test_info_says_what_a_model_is(folder, rows, tmp_path):
    output = run("info", folder / "model.ks").output
    told = (
        "SparseKernelPCA",
        "rbf (gamma = ",
        "│ 12 ",
        "standard (mean 0",
        "4: a, b, c, d",
        "150 rows",
        "of what exact",
    )
    for words in told:
        assert words in output
    KernelPCA(2, kernel="rbf").fit(rows).save(tmp_path / "exact.ks")
    output = run("info", tmp_path / "exact.ks").output
    assert "KernelPCA" in output
    assert "150 rows" in output


def test_a_file_without_a_header_for_a_model_with_names_is_taken_in_order(folder, tmp_path):
    """By itself, and with the columns that the encoder leaves out among the others."""
    frame = pl.read_csv(folder / "rows.csv")
    for columns, model in ((COLUMNS, folder / "model.ks"), (frame.columns, tmp_path / "all.ks")):
        named, bare = tmp_path / "named.csv", tmp_path / "bare.csv"
        frame.select(columns).write_csv(named)
        frame.select(columns).write_csv(bare, include_header=False)
        if not model.exists():
            assert run("fit", named, "-c", 3, "-s", 8, "-o", model).exit_code == 0
        assert run("transform", model, named, "-o", tmp_path / "one.npy", "--force").exit_code == 0
        for options in ([], ["--batch-size", 40]):
            result = run("transform", model, bare, "--no-header", *options, "-o", tmp_path / "two.npy", "--force")
            assert result.exit_code == 0, result.output
            assert "no column names" in result.output
            np.testing.assert_allclose(np.load(tmp_path / "two.npy"), np.load(tmp_path / "one.npy"), atol=1e-12)


def test_a_model_of_a_file_without_a_header_takes_that_file(folder, tmp_path):
    """With the flags of the fit, although a column was left out there."""
    bare, model = tmp_path / "bare.csv", tmp_path / "model.ks"
    pl.read_csv(folder / "rows.csv").write_csv(bare, include_header=False)
    assert run("fit", bare, "--no-header", "-x", "column_5,column_6", "-s", 12, "-c", 3, "-o", model).exit_code == 0
    result = run("transform", model, bare, "--no-header", "-o", tmp_path / "bare.npy")
    assert result.exit_code == 0, result.output
    assert "warning" not in result.output
    assert run("transform", folder / "model.ks", folder / "rows.csv", "-o", tmp_path / "named.npy").exit_code == 0
    np.testing.assert_allclose(np.load(tmp_path / "bare.npy"), np.load(tmp_path / "named.npy"), atol=1e-12)
    for fitted in (model, folder / "model.ks"):  # which has other names for the columns
        left_out = ["--no-header", "-x", "column_5,column_6"]
        assert run("transform", fitted, bare, *left_out, "-o", tmp_path / "x.npy", "--force").exit_code == 0
        np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), np.load(tmp_path / "bare.npy"))
    result = run("transform", folder / "model.ks", bare, "--no-header", "-o", tmp_path / "y.npy")
    assert "the model needs 4: name the other 2 with --exclude" in result.output
    names = "a,b,c,d,id,label"
    assert run("transform", folder / "model.ks", bare, "--no-header", "--names", names, "-o", tmp_path / "n.npy")
    np.testing.assert_allclose(np.load(tmp_path / "n.npy"), np.load(tmp_path / "named.npy"), atol=1e-12)


@pytest.mark.parametrize("cells", [[b"a"] * 150, [[1, 2]] * 150], ids=["bytes", "lists"])
def test_what_a_csv_file_cannot_hold_is_named(cells, folder, tmp_path):
    pl.read_csv(folder / "rows.csv").with_columns(pl.Series("held", cells)).write_parquet(tmp_path / "rows.parquet")
    transform = ["transform", folder / "model.ks", tmp_path / "rows.parquet", "--keep", "held"]
    result = run(*transform, "-o", tmp_path / "kept.csv")
    assert result.exit_code == 1
    assert "CSV cannot hold lists or bytes, and column 'held' has them: leave it out" in " ".join(result.output.split())
    assert not (tmp_path / "kept.csv").exists()
    assert run(*transform, "-o", tmp_path / "kept.parquet").exit_code == 0


def test_cells_that_a_spreadsheet_would_run_are_guarded_if_asked_for(folder, tmp_path):
    texts = ["=1+1", "+1", "-1", "@a", "\tb", "plain", None]
    frame = pl.read_csv(folder / "rows.csv").head(7).with_columns(pl.Series("=note", texts), number=pl.lit(-1.5))
    frame = frame.with_columns(
        kind=pl.Series(texts, dtype=pl.Categorical), level=pl.Series(["@a"] * 7, dtype=pl.Enum(["@a"]))
    )
    frame.write_parquet(tmp_path / "rows.parquet")
    kept = "=note,number,kind,level"
    transform = ["transform", folder / "model.ks", tmp_path / "rows.parquet", "--keep", kept, "--force"]
    assert run(*transform, "-o", tmp_path / "plain.csv").exit_code == 0
    assert pl.read_csv(tmp_path / "plain.csv")["=note"].to_list() == texts
    assert run(*transform, "--guard-formulas", "-o", tmp_path / "safe.csv").exit_code == 0
    safe = pl.read_csv(tmp_path / "safe.csv")
    assert safe.columns[:2] == ["'=note", "number"]
    assert safe["'=note"].to_list() == ["'=1+1", "'+1", "'-1", "'@a", "'\tb", "plain", None]
    assert safe["kind"].to_list() == safe["'=note"].to_list()
    assert safe["level"].to_list() == ["'@a"] * 7
    assert safe["number"].to_list() == [-1.5] * 7  # a number is not run
    assert run(*transform, "--guard-formulas", "-o", tmp_path / "safe.parquet").exit_code == 2
