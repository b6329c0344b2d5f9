"""The command line: files in and out, what it prints, and how it ends when something is wrong."""

import io
import json
import subprocess
import sys

import numpy as np
import polars as pl
import polars.testing
import pytest
from rich.console import Console
from typer.testing import CliRunner

import kernelsieve
from kernelsieve import KernelPCA, SparseKernelPCA, cli
from kernelsieve.cli import comparison, demo, streaming, tables
from kernelsieve.cli.commands import app
from kernelsieve.rows.files import Stream

COLUMNS = ["a", "b", "c", "d"]
EXTENSIONS = [".csv", ".tsv", ".parquet", ".npy", ".npz"]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    centers = 2 * rng.standard_normal((5, 4))
    return centers[rng.integers(5, size=150)] + 0.5 * rng.standard_normal((150, 4))


@pytest.fixture(scope="module")
def folder(rows, tmp_path_factory):
    """The same rows in every format, tables with an id and a label beside them, and a model of them."""
    path = tmp_path_factory.mktemp("data")
    frame = pl.DataFrame(rows, schema=COLUMNS).with_columns(
        id=pl.int_range(pl.len()), label=pl.Series(["red", "blue", "green"] * 50)
    )
    frame.write_csv(path / "rows.csv")
    frame.write_csv(path / "rows.tsv", separator="\t")
    frame.write_parquet(path / "rows.parquet")
    np.save(path / "rows.npy", rows)
    np.savez(path / "rows.npz", X=rows, label=np.arange(150))
    assert run("fit", path / "rows.csv", "-x", "id,label", "-c", 3, "-s", 12, "-o", path / "model.ks").exit_code == 0
    return path


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})


def shell(*arguments, **keywords):
    command = [sys.executable, "-c", "from kernelsieve.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **keywords)


def assert_fails(result, *words, code=1):
    assert result.exit_code == code, result.output
    errors = [line for line in result.output.splitlines() if not line.startswith("warning: ")]
    assert len(errors) == 1
    assert errors[0].startswith("error: ")
    for word in words:
        assert str(word) in errors[0]


def read_scores(path):
    """Whatever was written, as an array."""
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".npz":
        return np.load(path)["X"]
    if path.suffix == ".parquet":
        return pl.read_parquet(path).to_numpy()
    return pl.read_csv(path, separator="\t" if path.suffix == ".tsv" else ",").to_numpy()


# --- fit, transform, info ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_every_format_in_and_out(extension, rows, folder, tmp_path):
    named = ["--exclude", "id,label"] if extension in (".csv", ".tsv", ".parquet") else []
    model_path, out = tmp_path / "model.ks", tmp_path / f"scores{extension}"
    data = folder / f"rows{extension}"
    result = run("fit", data, "-c", 3, "-s", 12, "-o", model_path, *named)
    assert result.exit_code == 0, result.output
    assert run("transform", model_path, data, "-o", out).exit_code == 0
    expected = SparseKernelPCA(3, n_support=12, random_state=0).fit(rows).transform(rows)
    np.testing.assert_allclose(read_scores(out), expected, atol=1e-9)
    assert hasattr(kernelsieve.load(model_path), "feature_names_in_") == bool(named)


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
    model = kernelsieve.load(out)
    params = {"degree": 2, "coef0": 0.5, "gamma": 0.1, "selection": "targeted", "random_state": 7, "variance": 0.9}
    assert params.items() <= model.get_params().items()
    assert model.n_support_ == 15
    assert run("fit", folder / "rows.npy", "-g", "none", "-o", out).exit_code == 0
    assert kernelsieve.load(out).gamma_ == 0.25


def test_auto_support_is_the_default(folder, tmp_path):
    assert run("fit", folder / "rows.npy", "-o", tmp_path / "model.ks").exit_code == 0
    model = kernelsieve.load(tmp_path / "model.ks")
    assert model.n_support == "auto"
    assert model.captured_ratio_ > 0.98


def test_float32_stays_float32(rows, tmp_path):
    pl.DataFrame(rows.astype(np.float32), schema=COLUMNS).write_parquet(tmp_path / "rows.parquet")
    assert run("fit", tmp_path / "rows.parquet", "-s", 8, "-o", tmp_path / "model.ks").exit_code == 0
    assert run("transform", tmp_path / "model.ks", tmp_path / "rows.parquet", "-o", tmp_path / "out.npy").exit_code == 0
    assert np.load(tmp_path / "out.npy").dtype == np.float32


def test_long_tables_are_transformed_in_chunks(folder, tmp_path, monkeypatch):
    from kernelsieve.cli import commands

    assert run("transform", folder / "model.ks", folder / "rows.csv", "-o", tmp_path / "one.npy").exit_code == 0
    monkeypatch.setattr(commands, "CHUNK_ROWS", 32)
    assert run("transform", folder / "model.ks", folder / "rows.csv", "-o", tmp_path / "two.npy").exit_code == 0
    np.testing.assert_array_equal(np.load(tmp_path / "one.npy"), np.load(tmp_path / "two.npy"))


def test_precomputed_kernel(rows, tmp_path):
    gram = np.exp(-0.2 * ((rows[:, None] - rows) ** 2).sum(axis=-1))
    np.save(tmp_path / "gram.npy", gram)
    assert run("fit", tmp_path / "gram.npy", "-k", "precomputed", "-s", 10, "-o", tmp_path / "model.ks").exit_code == 0
    assert run("info", tmp_path / "model.ks").exit_code == 0
    support = kernelsieve.load(tmp_path / "model.ks").support_
    np.save(tmp_path / "few.npy", gram[:, support])
    for name in ("gram", "few"):
        result = run("transform", tmp_path / "model.ks", tmp_path / f"{name}.npy", "-o", tmp_path / f"{name}-out.npy")
        assert result.exit_code == 0
    np.testing.assert_allclose(np.load(tmp_path / "gram-out.npy"), np.load(tmp_path / "few-out.npy"), atol=1e-12)


def test_info_says_what_a_model_is(folder, rows, tmp_path):
    output = run("info", folder / "model.ks").output
    for words in ("SparseKernelPCA", "rbf (gamma = ", "12 free points", "4: a, b, c, d", "150 rows", "of what exact"):
        assert words in output
    KernelPCA(2, kernel="rbf").fit(rows).save(tmp_path / "exact.ks")
    output = run("info", tmp_path / "exact.ks").output
    assert "KernelPCA" in output
    assert "150 rows" in output


# --- reading tables ---------------------------------------------------------------------------------------------


def fit_text(text, tmp_path, *options, name="rows.csv"):
    (tmp_path / name).write_text(text)
    return run("fit", tmp_path / name, "-c", 1, "-s", 3, "-o", tmp_path / "model.ks", *options)


def test_other_separators_integers_and_booleans(tmp_path):
    lines = "\n".join(f"{i};{i % 7 + 0.5};{'true' if i % 3 else 'false'}" for i in range(30))
    result = fit_text(f"n;x;flag\n{lines}\n", tmp_path)
    assert result.exit_code == 0, result.output
    assert kernelsieve.load(tmp_path / "model.ks").feature_names_in_.tolist() == ["n", "x", "flag"]


def test_a_late_decimal_point_is_no_error(tmp_path):
    lines = "\n".join(f"{i},{i % 5}" for i in range(2000))
    assert fit_text(f"a,b\n{lines}\n0.5,1.25\n", tmp_path).exit_code == 0


def test_first_line_of_data(tmp_path):
    text = "".join(f"{i * 0.5},{i % 4}\n" for i in range(1, 30))
    result = fit_text(text, tmp_path)
    assert result.exit_code == 0
    assert "warning: " in result.output
    assert "--no-header" in result.output
    assert kernelsieve.load(tmp_path / "model.ks").n_samples_seen_ == 28
    result = fit_text(text, tmp_path, "--no-header")
    assert "warning" not in result.output
    model = kernelsieve.load(tmp_path / "model.ks")
    assert model.n_samples_seen_ == 29
    assert not hasattr(model, "feature_names_in_")
    assert "warning" not in fit_text("0,1\n" + text, tmp_path).output


def test_npz_keys(rows, tmp_path):
    np.savez(tmp_path / "one.npz", table=rows, label=np.arange(150))
    np.savez(tmp_path / "two.npz", first=rows, second=rows[:, :2])
    out = tmp_path / "model.ks"
    assert run("fit", tmp_path / "one.npz", "-s", 5, "-o", out).exit_code == 0
    assert_fails(run("fit", tmp_path / "two.npz", "-s", 5, "-o", out), "'first', 'second'", "--key")
    assert_fails(run("fit", tmp_path / "two.npz", "--key", "third", "-o", out), "no array 'third'")
    assert run("fit", tmp_path / "two.npz", "--key", "second", "-s", 5, "-o", out).exit_code == 0
    assert kernelsieve.load(out).n_features_in_ == 2


def test_columns_of_arrays_go_by_number(folder, tmp_path):
    assert run("fit", folder / "rows.npy", "--exclude", "1,3", "-s", 5, "-o", tmp_path / "model.ks").exit_code == 0
    assert kernelsieve.load(tmp_path / "model.ks").n_features_in_ == 2


def test_output_replaces_whole_files_through_links(folder, tmp_path):
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    assert run("transform", folder / "model.ks", folder / "rows.csv", "-o", link).exit_code == 0
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert pl.read_csv(real).shape == (150, 3)


def test_a_failed_write_leaves_the_old_file_alone(folder, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    out = tmp_path / "scores.csv"
    out.write_text("old")
    monkeypatch.setattr(tables, "_write_frame", full)
    assert_fails(run("transform", folder / "model.ks", folder / "rows.csv", "-o", out), "No space left on device")
    assert out.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["scores.csv"]


# --- files in blocks --------------------------------------------------------------------------------------------


@pytest.fixture
def few_rows_tell(monkeypatch):
    """What the columns hold is told from ten rows, so that the other 140 can surprise."""
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(streaming, "HEAD_ROWS", 10)


STREAMED = [".csv", ".tsv", ".parquet"]


@pytest.mark.parametrize("extension", STREAMED)
def test_a_fit_in_blocks_is_the_fit(extension, rows, folder, tmp_path, few_rows_tell):
    out, data = tmp_path / "model.ks", folder / f"rows{extension}"
    result = run("fit", data, "-x", "id,label", "-c", 3, "-s", 12, "--batch-size", 40, "-o", out)
    assert result.exit_code == 0, result.output
    assert "150 rows" in result.output
    model = kernelsieve.load(out)
    assert model.batch_size == 40
    assert model.feature_names_in_.tolist() == COLUMNS
    expected = SparseKernelPCA(3, n_support=12, random_state=0).fit(rows)
    np.testing.assert_allclose(model.transform(pl.DataFrame(rows, schema=COLUMNS)), expected.transform(rows), atol=1e-8)
    assert run("fit", data, "--columns", "c,a", "-s", 5, "--batch-size", 40, "-o", out).exit_code == 0
    assert kernelsieve.load(out).feature_names_in_.tolist() == ["c", "a"]


@pytest.mark.parametrize("target", EXTENSIONS)
@pytest.mark.parametrize("extension", STREAMED)
def test_a_transform_in_blocks_is_the_transform(extension, target, folder, tmp_path, few_rows_tell):
    """Kept columns and their types too; the columns of the model are found by name."""
    keep = [] if target == ".npy" else ["--keep", "label,id"]
    frame = pl.read_csv(folder / "rows.csv").select(["d", "label", "b", "a", "id", "c"])
    data = tmp_path / f"mixed{extension}"
    if extension == ".parquet":
        frame.write_parquet(data)
    else:
        frame.write_csv(data, separator="\t" if extension == ".tsv" else ",")
    whole, blocks = tmp_path / f"whole{target}", tmp_path / f"blocks{target}"
    assert run("transform", folder / "model.ks", data, "-o", whole, *keep).exit_code == 0
    result = run("transform", folder / "model.ks", data, "-o", blocks, "--batch-size", 40, *keep)
    assert result.exit_code == 0, result.output
    assert "150 rows, 3 components" in result.output
    if target in (".npy", ".npz"):
        np.testing.assert_allclose(read_scores(blocks), read_scores(whole), atol=1e-12)
    else:
        read = pl.read_parquet if target == ".parquet" else pl.read_csv
        options = {"separator": "\t"} if target == ".tsv" else {}
        pl.testing.assert_frame_equal(read(blocks, **options), read(whole, **options), abs_tol=1e-12)
    if target == ".npz":
        np.testing.assert_array_equal(np.load(blocks)["label"], np.load(whole)["label"])
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_large_files_are_read_in_blocks_and_small_ones_are_not(extension, folder, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    opened = []
    open_table = streaming.StreamedTable.open
    monkeypatch.setattr(
        streaming.StreamedTable, "open", lambda *args, **options: opened.append(args) or open_table(*args, **options)
    )
    named = ["--columns", "a,b,c,d"] if extension in STREAMED else []
    for most, blocks in ((10**6, False), (100, extension in STREAMED)):
        opened.clear()
        monkeypatch.setattr(streaming, "STREAMED_BYTES", most)
        model, data = tmp_path / "model.ks", folder / f"rows{extension}"
        assert run("fit", data, "-s", 5, "-o", model, *named).exit_code == 0
        assert run("transform", model, data, "-o", tmp_path / "out.csv").exit_code == 0
        assert len(opened) == (2 if blocks else 0)


def test_nothing_whole_is_held_when_blocks_are_read(folder, tmp_path, monkeypatch, few_rows_tell):
    """No frame that polars reads, and no array that is transformed, has more rows than the head or a block."""
    read_csv, heights = pl.read_csv, []

    def counted(*args, **options):
        heights.append((frame := read_csv(*args, **options)).height)
        return frame

    monkeypatch.setattr(pl, "read_csv", counted)
    monkeypatch.setattr(tables, "_gathered", lambda _: pytest.fail("held all scores"))
    data = folder / "rows.csv"
    assert run("transform", folder / "model.ks", data, "--batch-size", 7, "-o", tmp_path / "o.csv").exit_code == 0
    assert run("fit", data, "-x", "id,label", "-s", 5, "--batch-size", 7, "-o", tmp_path / "m.ks").exit_code == 0
    assert heights == [10, 10]


def test_blocks_without_a_header(rows, tmp_path, few_rows_tell):
    pl.DataFrame(rows).write_csv(tmp_path / "rows.csv", include_header=False)
    out, scores = tmp_path / "model.ks", tmp_path / "scores.npy"
    options = ["--no-header", "--batch-size", 40]
    assert run("fit", tmp_path / "rows.csv", "-c", 3, "-s", 12, *options, "-o", out).exit_code == 0
    assert not hasattr(kernelsieve.load(out), "feature_names_in_")
    assert kernelsieve.load(out).n_samples_seen_ == 150
    assert run("transform", out, tmp_path / "rows.csv", *options, "-o", scores).exit_code == 0
    expected = SparseKernelPCA(3, n_support=12, random_state=0).fit(rows).transform(rows)
    np.testing.assert_allclose(np.load(scores), expected, atol=1e-8)
    assert run("fit", tmp_path / "rows.csv", "--columns", "column_1,column_2", *options, "-o", out).exit_code == 0


def streamed_text(text, tmp_path, *options):
    return fit_text(text, tmp_path, "--batch-size", 7, *options)


def test_late_surprises_in_blocks(tmp_path, few_rows_tell):
    """A decimal point after whole numbers is none; text after numbers is an error that names the file."""
    lines = "".join(f"{i},{i % 5}\n" for i in range(2000))
    assert streamed_text(f"a,b\n{lines}0.5,1.25\n", tmp_path).exit_code == 0
    assert kernelsieve.load(tmp_path / "model.ks").n_samples_seen_ == 2001
    assert_fails(streamed_text(f"a,b\n{lines}7,many\n", tmp_path), "rows.csv cannot be read", "'many'")
    assert_fails(streamed_text(f"a,b\n{lines}7\n", tmp_path), "rows.csv cannot be read", "columns")
    for cell, word in (("", "missing"), ("NaN", "missing"), ("inf", "infinite")):
        assert_fails(streamed_text(f"a,b\n{lines}7,{cell}\n", tmp_path), "column 'b'", word, "row 2001")


def test_blocks_of_separators_booleans_quotes_and_double_names(tmp_path, few_rows_tell):
    long = "x" * 20_000  # so that pyarrow cuts the file, and not between rows
    lines = "".join(f'{i};{i % 7 + 0.5};{"true" if i % 3 else "false"};"a;\n""b"";{long}"\n' for i in range(90))
    result = streamed_text(f"n;x;x;note\n{lines}", tmp_path, "-x", "note")
    assert result.exit_code == 0, result.output
    model = kernelsieve.load(tmp_path / "model.ks")
    assert model.n_samples_seen_ == 90
    assert model.feature_names_in_.tolist() == ["n", "x", "x_duplicated_0"]
    out = tmp_path / "scores.parquet"
    data = tmp_path / "rows.csv"
    result = run("transform", tmp_path / "model.ks", data, "--batch-size", 7, "--keep", "note,n", "-o", out)
    assert result.exit_code == 0, result.output
    frame = pl.read_parquet(out)
    assert frame["note"].unique().to_list() == [f'a;\n"b";{long}']
    assert frame["n"].to_list() == list(range(90))


def test_float32_stays_float32_in_blocks(rows, tmp_path, few_rows_tell):
    pl.DataFrame(rows.astype(np.float32), schema=COLUMNS).write_parquet(tmp_path / "rows.parquet")
    options = ["--batch-size", 40, "-o"]
    assert run("fit", tmp_path / "rows.parquet", "-s", 8, *options, tmp_path / "model.ks").exit_code == 0
    transform = ["transform", tmp_path / "model.ks", tmp_path / "rows.parquet"]
    assert run(*transform, *options, tmp_path / "out.npy").exit_code == 0
    assert np.load(tmp_path / "out.npy").dtype == np.float32


def test_errors_in_blocks_are_those_of_whole_tables(folder, tmp_path, few_rows_tell):
    out = ["--batch-size", 40, "-o", tmp_path / "out.csv"]
    for extension in STREAMED:
        data = folder / f"rows{extension}"
        assert_fails(run("fit", data, *out), "'label'", "--exclude label", "--columns")
        assert_fails(run("fit", data, "--columns", "a,z", *out), "'z'", "--columns")
        assert_fails(run("transform", folder / "model.ks", data, "--keep", "name", *out), "'name'", "--keep")
    pl.read_csv(folder / "rows.csv").drop("b").write_csv(tmp_path / "new.csv")
    assert_fails(run("transform", folder / "model.ks", tmp_path / "new.csv", *out), "no column 'b'", "the model needs")
    assert_fails(run("fit", tmp_path / "absent.csv", *out), "no such file", "absent.csv")
    (tmp_path / "noise.parquet").write_bytes(b"noise" * 20)
    assert_fails(run("fit", tmp_path / "noise.parquet", *out), "noise.parquet", "cannot be read")
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("target", [".csv", ".parquet", ".npz"])
def test_a_transform_that_fails_late_leaves_the_old_file(target, rows, folder, tmp_path, few_rows_tell):
    bad = rows.copy()
    bad[120, 1] = np.nan
    (tmp_path / "in").mkdir()
    data, out = tmp_path / "in" / "bad.parquet", tmp_path / f"scores{target}"
    pl.DataFrame(bad, schema=COLUMNS).write_parquet(data)
    out.write_text("old")
    result = run("transform", folder / "model.ks", data, "--batch-size", 40, "-o", out)
    assert_fails(result, "column 'b'", "missing", "row 121")
    assert out.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", out.name]


def test_blocks_need_pyarrow(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(streaming, "find_spec", lambda _: None)
    out = tmp_path / "model.ks"
    result = run("fit", folder / "rows.csv", "-x", "id,label", "--batch-size", 40, "-o", out)
    assert_fails(result, "pyarrow", "kernelsieve[files]")
    monkeypatch.setattr(streaming, "STREAMED_BYTES", 100)  # large, but it may fit in memory
    assert run("fit", folder / "rows.csv", "-x", "id,label", "-s", 5, "-o", out).exit_code == 0


def test_a_precomputed_kernel_is_read_whole(rows, tmp_path):
    gram = np.exp(-0.2 * ((rows[:, None] - rows) ** 2).sum(axis=-1))
    pl.DataFrame(gram, schema=[str(j) for j in range(150)]).write_parquet(tmp_path / "gram.parquet")
    options = ["--batch-size", 40, "-o"]
    fit = ["fit", tmp_path / "gram.parquet", "-k", "precomputed", "-s", 10]
    assert run(*fit, *options, tmp_path / "model.ks").exit_code == 0
    transform = ["transform", tmp_path / "model.ks", tmp_path / "gram.parquet"]
    assert run(*transform, *options, tmp_path / "out.npy").exit_code == 0


def test_progress_counts_the_rows_of_each_pass(rows):
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    stream = Stream(lambda: iter(np.split(rows, [40])), 150)
    with streaming.row_progress(console) as progress:
        SparseKernelPCA(3, n_support=5, n_optimization_samples=60).fit(streaming.watched(stream, progress))
    assert [(task.description, task.completed, task.total) for task in progress.tasks] == [
        ("pass 1", 150, 150),
        ("pass 2", 150, 150),
    ]
    assert "150 of 150 rows" in console.file.getvalue()


def test_no_progress_where_nobody_looks(folder, tmp_path, few_rows_tell):
    result = run("fit", folder / "rows.csv", "-x", "id,label", "--batch-size", 40, "-o", tmp_path / "model.ks")
    assert result.exit_code == 0
    assert "pass 1" not in result.output


# --- errors -----------------------------------------------------------------------------------------------------


def test_text_columns_are_named(folder, tmp_path):
    result = run("fit", folder / "rows.csv", "-o", tmp_path / "model.ks")
    assert_fails(result, "'label'", "'red'", "--exclude label", "--columns")
    assert not (tmp_path / "model.ks").exists()


def test_missing_columns_are_named(folder, tmp_path):
    pl.read_csv(folder / "rows.csv").drop("b").write_csv(tmp_path / "new.csv")
    result = run("transform", folder / "model.ks", tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    assert_fails(result, "no column 'b'", "the model needs")
    assert_fails(run("fit", folder / "rows.csv", "--columns", "a,z", "-o", tmp_path / "m"), "'z'", "--columns")
    assert_fails(run("fit", folder / "rows.csv", "-x", "y", "-o", tmp_path / "m"), "'y'", "--exclude")
    result = run("transform", folder / "model.ks", folder / "rows.csv", "-o", tmp_path / "out.csv", "--keep", "name")
    assert_fails(result, "'name'", "--keep")
    assert_fails(
        run("fit", folder / "rows.csv", "--columns", "a", "-x", "a", "-o", tmp_path / "m"), "no columns are left"
    )


def test_a_text_column_that_the_model_needs(folder, tmp_path):
    pl.read_csv(folder / "rows.csv").with_columns(b=pl.lit("many")).write_csv(tmp_path / "new.csv")
    result = run("transform", folder / "model.ks", tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    assert_fails(result, "'b'", "'many'", "the model needs numbers")


@pytest.mark.parametrize(("cell", "word"), [("", "missing"), ("NaN", "missing"), ("inf", "infinite")])
def test_missing_and_infinite_values_are_placed(cell, word, tmp_path):
    text = "a,b\n" + "".join(f"{i},{cell if i == 5 else i % 3 + 0.5}\n" for i in range(20))
    assert_fails(fit_text(text, tmp_path), "column 'b'", word, "row 6")


def test_nan_in_an_array(rows, folder, tmp_path):
    bad = rows.copy()
    bad[17, 2] = np.nan
    np.save(tmp_path / "bad.npy", bad)
    assert_fails(run("fit", tmp_path / "bad.npy", "-o", tmp_path / "m"), "column '2'", "row 18")
    assert_fails(run("transform", folder / "model.ks", tmp_path / "bad.npy", "-o", tmp_path / "o.npy"), "row 18")


def test_files_that_are_no_tables(folder, tmp_path):
    out = tmp_path / "model.ks"
    for name in ("noise.npy", "noise.npz", "noise.parquet"):
        (tmp_path / name).write_bytes(b"noise" * 20)
        assert_fails(run("fit", tmp_path / name, "-o", out), name, "cannot be read")
    np.save(tmp_path / "objects.npy", np.array([["a", {}]], dtype=object), allow_pickle=True)
    assert_fails(run("fit", tmp_path / "objects.npy", "-o", out), "Python objects")
    np.save(tmp_path / "line.npy", np.arange(5.0))
    assert_fails(run("fit", tmp_path / "line.npy", "-o", out), "shape (5,)", "2-D")
    np.save(tmp_path / "none.npy", np.empty((0, 3)))
    assert_fails(run("fit", tmp_path / "none.npy", "-o", out), "empty")
    for text in ("", "a,b\n"):
        assert_fails(fit_text(text, tmp_path), "rows.csv")
    (tmp_path / "rows.xlsx").write_text("")
    assert_fails(run("fit", tmp_path / "rows.xlsx", "-o", out), "'.xlsx'", ".parquet")
    assert_fails(run("fit", tmp_path / "absent.csv", "-o", out), "no such file", "absent.csv")
    (tmp_path / "folder.csv").mkdir()
    assert_fails(run("fit", tmp_path / "folder.csv", "-o", out), "folder")


def test_outputs_that_cannot_be_written_fail_before_the_work(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(SparseKernelPCA, "fit", lambda *_: pytest.fail("fitted in vain"))
    monkeypatch.setattr(SparseKernelPCA, "transform", lambda *_: pytest.fail("transformed in vain"))
    assert_fails(run("fit", folder / "rows.npy", "-o", tmp_path / "no" / "model.ks"), "there is no folder")
    assert_fails(run("fit", folder / "rows.npy", "-o", tmp_path), "it is a folder")
    transform = ["transform", folder / "model.ks", folder / "rows.csv", "-o"]
    assert_fails(run(*transform, tmp_path / "no" / "out.csv"), "there is no folder")
    assert_fails(run(*transform, tmp_path / "out.txt"), "'.txt'")
    assert_fails(run(*transform, tmp_path / "out.npy", "--keep", "id"), "'id'", ".npy")


def test_model_files_that_are_none(folder, tmp_path):
    whole = (folder / "model.ks").read_bytes()
    (tmp_path / "cut.ks").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "noise.ks").write_bytes(b"noise")
    for command in (["info"], ["transform"]):
        rest = [] if command == ["info"] else [folder / "rows.csv", "-o", tmp_path / "out.csv"]
        assert_fails(run(*command, tmp_path / "cut.ks", *rest), "cut.ks", "damaged")
        assert_fails(run(*command, tmp_path / "noise.ks", *rest), "noise.ks", "not a kernelsieve model")
        assert_fails(run(*command, tmp_path / "absent.ks", *rest), "absent.ks")
        assert_fails(run(*command, tmp_path, *rest), "folder")


def test_what_the_estimator_refuses(folder, tmp_path):
    out = tmp_path / "model.ks"
    assert_fails(run("fit", folder / "rows.npy", "-c", 5, "-s", 3, "-o", out), "n_support=3", "at least 6")
    assert_fails(run("fit", folder / "rows.npy", "--variance", 1.5, "-o", out), "variance")
    np.save(tmp_path / "narrow.npy", np.zeros((10, 3)))
    assert_fails(
        run("transform", folder / "model.ks", tmp_path / "narrow.npy", "-o", tmp_path / "o.npy"), "3 columns", "4"
    )


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--kernel", "gaussian", "rbf"),
        ("--selection", "best", "targeted"),
        ("--support", "many", "auto"),
        ("--support", "1.5", "fraction"),
        ("--gamma", "wide", "median"),
        ("--gamma", "-1", "positive"),
        ("--components", "0", "--components"),
        ("--seed", "x", "--seed"),
    ],
)
def test_options_that_are_not_understood(option, value, words, folder, tmp_path):
    result = run("fit", folder / "rows.npy", option, value, "-o", tmp_path / "model.ks")
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output


def test_unexpected_errors_are_one_line_too(folder, monkeypatch):
    def fault(*_):
        raise KeyError("oops")

    monkeypatch.setattr(kernelsieve, "load", fault)
    assert_fails(run("info", folder / "model.ks"), "KeyError", "please report")
    monkeypatch.setenv(cli.DEBUG_VARIABLE, "1")
    assert isinstance(run("info", folder / "model.ks").exception, KeyError)


def test_interrupts(folder, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(kernelsieve, "load", interrupt)
    assert run("info", folder / "model.ks").exit_code == 130


def test_library_warnings_are_one_line(folder, tmp_path):
    result = run("fit", folder / "rows.npy", "-g", 1e6, "-s", 10, "-o", tmp_path / "model.ks")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert [line for line in lines if line.startswith("warning: ")]
    assert not [line for line in lines if "Warning" in line]


# --- compare and demo -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear", "cosine", "sigmoid", "laplacian"])
def test_compare(kernel, folder):
    result = run("compare", folder / "rows.csv", "-x", "id,label", "-c", 2, "-s", 10, "-k", kernel)
    assert result.exit_code == 0, result.output
    for words in ("100 rows to fit, 50 held out", "exact KernelPCA", "kernelsieve", "Nystroem + PCA", "100.0 %"):
        assert words in result.output
    assert ("gamma" in result.output) == (kernel not in ("linear", "cosine"))


def test_compare_says_why_exact_is_left_out(folder, monkeypatch):
    result = run("compare", folder / "rows.npy", "-c", 2, "-s", 10, "--max-gram", "0.00001")
    assert result.exit_code == 0
    assert "left out: its gram of 100 x 100" in result.output
    monkeypatch.setattr(comparison, "available_memory", lambda: 1000)
    result = run("compare", folder / "rows.npy", "-c", 2, "-s", 10)
    assert "of memory are free" in result.output


def test_compare_refuses_what_it_cannot_do(folder, tmp_path):
    assert run("compare", folder / "rows.npy", "-k", "precomputed").exit_code == 2
    np.save(tmp_path / "few.npy", np.eye(4))
    assert_fails(run("compare", tmp_path / "few.npy"), "4 rows are too few")


def test_captured_variance_is_a_share_of_the_total(rows):
    """Exact kernel PCA with every component captures all of the variance of its own rows."""
    setting = comparison.Setting(rows.shape[0] - 1, "rbf", 0.5)
    model = KernelPCA(setting.n_components, kernel="rbf", gamma=0.5, eigen_solver="dense").fit(rows)
    captured = comparison.captured_variance(model, rows)
    assert captured == pytest.approx(comparison.total_variance(setting, rows), rel=1e-6)


def test_all_methods_capture_the_same_with_all_points(rows):
    setting = comparison.Setting(3, "rbf", 0.2)
    methods = [
        comparison.exact(setting, len(rows)),
        comparison.ours(setting, len(rows), selection="uniform"),
        comparison.nystroem(setting, len(rows)),
    ]
    captured = [result.captured for result in comparison.measure(methods, rows, rows[:50])]
    np.testing.assert_allclose(captured, captured[0], rtol=1e-6)


def test_demo(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "CURVE_SIZES", (11, 20))
    monkeypatch.setattr(demo, "CURVE_SEEDS", 1)
    monkeypatch.setattr(demo, "TIMING_REPEATS", 1)
    monkeypatch.setattr(demo, "MATCH_STEP", 80)
    out = tmp_path / "new folder" / "page.html"
    result = run("demo", "--out", out)
    assert result.exit_code == 0, result.output
    for words in ("exact KernelPCA", "kernelsieve", "Nystroem + PCA", "98.", "page.html"):
        assert words in result.output
    text = out.read_text(encoding="utf-8")
    shown = json.loads(text.split('id="contents">')[1].split("</script>")[0])
    assert shown["points"]["pictures"]["count"] == 20
    assert [line[0] for line in shown["tables"][0]["rows"]] == [
        "exact KernelPCA",
        "kernelsieve",
        "Nystroem + PCA",
        "Nystroem + PCA",
    ]
    assert [curve["name"] for curve in shown["captured"]["curves"]] == ["kernelsieve", "Nystroem + PCA"]
    assert not [word for word in ("@import", "url(http", 'src="http', 'href="http') if word in text]


def test_demo_page_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    assert_fails(run("demo", "--out", tmp_path / "file" / "page.html"), "file")


def test_demo_example_runs(tmp_path, monkeypatch, capsys):
    from kernelsieve.cli.demo_page import EXAMPLE

    monkeypatch.chdir(tmp_path)
    exec(EXAMPLE, {})
    assert float(capsys.readouterr().out) > 0.98
    assert (tmp_path / "digits.ks").stat().st_size < 50_000


def test_demo_without_the_chart_library(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "find_spec", lambda _: None)
    assert_fails(run("demo", "-o", tmp_path / "page.html"), "pip install 'kernelsieve[cli,report]'")


# --- help, and the program as it is called ----------------------------------------------------------------------


@pytest.mark.parametrize("command", ["fit", "transform", "info", "compare", "demo"])
def test_help_has_examples(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"kernelsieve {command} " in result.output.split("Example")[1]


def test_help_of_all():
    result = run("--help")
    assert result.exit_code == 0
    for command in ("fit", "transform", "info", "compare", "demo", "--version"):
        assert command in result.output


def test_version():
    assert run("--version").output == f"kernelsieve {kernelsieve.__version__}\n"


def test_in_a_shell(folder, tmp_path):
    done = shell("transform", folder / "model.ks", folder / "rows.csv", "-o", tmp_path / "out.csv")
    assert (done.returncode, done.stderr) == (0, "")
    assert "150 rows, 3 components" in done.stdout
    failed = shell("info", tmp_path / "absent.ks")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith("error: ")
    assert failed.stderr.count("\n") == 1
    misused = shell("fit", folder / "rows.csv")
    assert misused.returncode == 2
    assert "--output" in misused.stderr
    assert "Traceback" not in misused.stderr


@pytest.mark.parametrize("missing", ["typer", "rich", "polars"])
def test_without_the_extra_says_what_to_install(missing):
    program = f"import sys; sys.modules[{missing!r}] = None; from kernelsieve.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr == f"error: the command line needs {missing}: pip install 'kernelsieve[cli]'\n"
