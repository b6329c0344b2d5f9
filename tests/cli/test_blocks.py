"""Files that are read in blocks are read as they would be whole."""

import gzip

import numpy as np
import polars as pl
import polars.testing
import pytest
from calling import COLUMNS, EXTENSIONS, assert_fails, core, fit_text, read_scores, run
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelsieve
from kernelsieve import SparseKernelPCA
from kernelsieve.tables import csv, files

STREAMED = [".csv", ".tsv", ".parquet"]


@pytest.fixture
def small_blocks(monkeypatch):
    """CSV files are cut every few hundred bytes."""
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(csv, "CSV_BLOCK_BYTES", 300)


@pytest.mark.parametrize("extension", STREAMED)
def test_a_fit_in_blocks_is_the_fit(extension, rows, folder, tmp_path, small_blocks):
    out, data = tmp_path / "model.ks", folder / f"rows{extension}"
    # rows, not moved points: a mean added up in blocks differs in its last bit, and thirteen steps uphill see that
    result = run(
        "fit", data, "-x", "id,label", "-c", 3, "-s", 12, "--selection", "targeted", "--batch-size", 40, "-o", out
    )
    assert result.exit_code == 0, result.output
    assert "150 rows" in result.output
    assert core(out).batch_size == 40
    model = kernelsieve.load(out)
    assert model.feature_names_in_.tolist() == COLUMNS
    expected = make_pipeline(
        StandardScaler(), SparseKernelPCA(3, n_support=12, selection="targeted", random_state=0)
    ).fit(rows)
    np.testing.assert_allclose(model.transform(pl.DataFrame(rows, schema=COLUMNS)), expected.transform(rows), atol=1e-8)
    assert run("fit", data, "--columns", "c,a", "-s", 5, "--batch-size", 40, "-o", out).exit_code == 0
    assert kernelsieve.load(out).feature_names_in_.tolist() == ["c", "a"]


@pytest.mark.parametrize("extension", STREAMED)
def test_text_gaps_and_names_are_handled_in_blocks_as_in_whole_tables(extension, folder, tmp_path, small_blocks):
    frame = pl.read_csv(folder / "rows.csv").with_columns(a=pl.when(pl.col("id") % 7 != 3).then(pl.col("a")))
    data = tmp_path / f"gaps{extension}"
    if extension == ".parquet":
        frame.write_parquet(data)
    else:
        frame.write_csv(data, separator="\t" if extension == ".tsv" else ",")
    whole, blocks = tmp_path / "whole.ks", tmp_path / "blocks.ks"
    # points that move would make the most of the last bit of a mean
    fit = ["fit", data, "-s", 8, "--selection", "uniform"]
    assert run(*fit, "-o", whole).exit_code == 0
    assert run(*fit, "--batch-size", 31, "-o", blocks).exit_code == 0
    one, other = kernelsieve.load(whole), kernelsieve.load(blocks)
    assert one[0].describe() == other[0].describe()
    assert one[0].kinds_.tolist() == ["number"] * 4 + ["left out", "category"]
    np.testing.assert_allclose(one.transform(frame), other.transform(frame), atol=1e-8)


@pytest.mark.parametrize("target", EXTENSIONS)
@pytest.mark.parametrize("extension", STREAMED)
def test_a_transform_in_blocks_is_the_transform(extension, target, folder, tmp_path, small_blocks):
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
        found, expected = read(blocks, **options), read(whole, **options)
        assert found.schema == expected.schema
        numbers = [name for name, kind in found.schema.items() if kind.is_float()]
        np.testing.assert_allclose(found.select(numbers), expected.select(numbers), atol=1e-12)
        assert found.drop(numbers).equals(expected.drop(numbers))
    if target == ".npz":
        np.testing.assert_array_equal(np.load(blocks)["label"], np.load(whole)["label"])
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_large_files_are_read_in_blocks_and_small_ones_are_not(extension, folder, monkeypatch):
    pytest.importorskip("pyarrow")
    for most, whole in ((10**6, True), (100, extension not in STREAMED)):
        monkeypatch.setattr(files, "STREAMED_BYTES", most)
        table = files.open_table(folder / f"rows{extension}")
        assert (table.data is not None) == whole
        assert table.n_rows == 150


@pytest.mark.parametrize("extension", STREAMED)
def test_nothing_whole_is_held_when_blocks_are_read(extension, folder, small_blocks):
    table = files.open_table(folder / f"rows{extension}", batch_size=7)
    heights = [len(block) for block in table.blocks(["a", "label"], 10**6)]
    assert table.data is None
    assert max(heights) <= 7
    assert sum(heights) == 150


def test_blocks_without_a_header(rows, tmp_path, small_blocks):
    pl.DataFrame(rows).write_csv(tmp_path / "rows.csv", include_header=False)
    out, scores = tmp_path / "model.ks", tmp_path / "scores.npy"
    options = ["--no-header", "--batch-size", 40]
    assert run("fit", tmp_path / "rows.csv", "-c", 3, "-s", 12, "--scale", "none", *options, "-o", out).exit_code == 0
    assert core(out).n_samples_seen_ == 150
    assert run("transform", out, tmp_path / "rows.csv", *options, "-o", scores).exit_code == 0
    expected = SparseKernelPCA(3, n_support=12, random_state=0).fit(rows).transform(rows)
    np.testing.assert_allclose(np.load(scores), expected, atol=1e-8)
    assert run("fit", tmp_path / "rows.csv", "--columns", "column_1,column_2", *options, "-o", out).exit_code == 0


# --- the same rules whole and in blocks ---------------------------------------------------------------------------

LINES = "".join(f"{i * 7919 % 4001},{i % 5}\n" for i in range(400))
ODD = {
    "late decimal point": (f"a,b\n{LINES}0.5,1.25\n", 401, None),
    "late text": (f"a,b\n{LINES}7,many\n", 401, None),
    "too few cells": (f"a,b\n{LINES}7\n", None, "row 401 has 1 cell where the table has 2 columns"),
    "too many cells": (f"a,b\n{LINES}7,8,9\n", None, "row 401 has 3 cells where the table has 2 columns"),
    "text above the names": (f"exported on Monday\na,b\n{LINES}", None, "1 column; if lines of text come before the"),
    "open quote": (f'a,b\n{LINES}7,"8\n', None, "quote"),
    "infinite": (f"a,b\n{LINES}7,inf\n", None, "column 'b' is infinite in row 401"),
    "blank lines": (f"a,b\n\n{LINES}\n\n7,8\n\n\n", 401, None),
    "blank lines of one column": ("a\n" + "1.5\n2\n\n7\n" * 100, 400, None),
    "gaps": (f"a,b\n{LINES},\nNA,?\n", 402, None),
    "numbers over 2^64": (f"a,b\n{LINES}99999999999999999999999,1\n", 401, None),
    "numbers of 60 digits": (f"a,b,c\n{LINES.replace(chr(10), ',x' + chr(10))}{'9' * 60},1,{'9' * 60}\n", 401, None),
    "quotes": (f'a,b,c\n{LINES.replace(chr(10), ",x" + chr(10))}7,8,"a ""b"",\nc"\n', 401, None),
    "double names": ("a,a\n" + LINES, 400, None),
    "header that is data": (LINES, 399, None),
    "windows": (f"a,b\n{LINES}".replace("\n", "\r\n"), 400, None),
    "blanks": ("a, b\n" + LINES.replace(",", ", "), 400, None),
    "decimal commas": ("a;b\n" + LINES.replace(",", ",5;"), 400, None),
    "dates": (
        "when,b\n" + "".join(f"2024-01-{i % 28 + 1:02} 10:{i % 60:02},{i % 9}\n" for i in range(2000)),
        2000,
        None,
    ),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("case", sorted(ODD))
def test_a_file_is_read_by_the_same_rules_whole_and_in_blocks(case, packed, tmp_path, small_blocks):
    text, n_rows, fault = ODD[case]
    path = tmp_path / ("rows.csv.gz" if packed else "rows.csv")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    results = []
    for options in ([], ["--batch-size", 37]):
        out = tmp_path / f"model{len(options)}.ks"
        result = run("fit", path, "-c", 1, "-s", 3, "--selection", "uniform", "-o", out, *options)
        if fault:
            assert_fails(result, path.name, fault)
            assert not out.exists()
            continue
        assert result.exit_code == 0, result.output
        assert core(out).n_samples_seen_ == n_rows
        scores = tmp_path / f"scores{len(options)}.npy"
        assert run("transform", out, path, "-o", scores, *options).exit_code == 0
        results.append((kernelsieve.load(out)[0].describe(), np.load(scores)))
        assert len(np.load(scores)) == n_rows
    if not fault:
        assert results[0][0] == results[1][0]
        np.testing.assert_allclose(results[0][1], results[1][1], atol=1e-6)


def test_a_blank_line_late_in_a_single_column_is_a_row_with_a_gap(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a\n" + "".join(f"{i % 97}\n" for i in range(12_000)) + "\n" + "1\n" * 10)
    out, scores = tmp_path / "model.ks", tmp_path / "scores.csv"
    assert run("fit", path, "-c", 1, "-s", 3, "--batch-size", 1000, "-o", out).exit_code == 0
    for options in ([], ["--batch-size", 1000]):
        assert run("transform", out, path, "-o", scores, *options).exit_code == 0
        assert pl.read_csv(scores).height == 12_011


def test_separators_booleans_quotes_and_double_names(tmp_path, small_blocks):
    long = "x" * 2000
    lines = "".join(f'{i};{i % 7 + 0.5};{"true" if i % 3 else "false"};"a;\n""b"";{long}"\n' for i in range(90))
    result = fit_text(
        f"n;x;x;note\n{lines}", tmp_path, "-x", "note", "--columns", "n,x,x_duplicated_0,note", "--batch-size", 7
    )
    assert result.exit_code == 0, result.output
    model = kernelsieve.load(tmp_path / "model.ks")
    assert model[0].n_samples_seen_ == 90
    assert model.feature_names_in_.tolist() == ["n", "x", "x_duplicated_0"]
    out = tmp_path / "scores.parquet"
    data = tmp_path / "rows.csv"
    result = run("transform", tmp_path / "model.ks", data, "--batch-size", 7, "--keep", "note,n", "-o", out)
    assert result.exit_code == 0, result.output
    frame = pl.read_parquet(out)
    assert frame["note"].unique().to_list() == [f'a;\n"b";{long}']
    assert frame["n"].to_list() == list(range(90))


def test_float32_stays_float32_in_blocks(rows, tmp_path, small_blocks):
    pl.DataFrame(rows.astype(np.float32), schema=COLUMNS).write_parquet(tmp_path / "rows.parquet")
    options = ["--batch-size", 40, "-o"]
    assert run("fit", tmp_path / "rows.parquet", "-s", 8, *options, tmp_path / "model.ks").exit_code == 0
    transform = ["transform", tmp_path / "model.ks", tmp_path / "rows.parquet"]
    assert run(*transform, *options, tmp_path / "out.npy").exit_code == 0
    assert np.load(tmp_path / "out.npy").dtype == np.float32


def test_errors_in_blocks_are_those_of_whole_tables(folder, tmp_path, small_blocks):
    out = ["--batch-size", 40, "-o", tmp_path / "out"]
    table = ["--batch-size", 40, "-o", tmp_path / "out.csv"]
    for extension in STREAMED:
        data = folder / f"rows{extension}"
        assert_fails(run("fit", data, "--columns", "a,z", *out), "'z'", "--columns")
        assert_fails(run("transform", folder / "model.ks", data, "--keep", "name", *table), "'name'", "--keep")
    pl.read_csv(folder / "rows.csv").drop("b").write_csv(tmp_path / "new.csv")
    assert_fails(
        run("transform", folder / "model.ks", tmp_path / "new.csv", *table), "no column 'b'", "the model needs"
    )
    assert_fails(run("fit", tmp_path / "absent.csv", *out), "no such file", "absent.csv")
    (tmp_path / "noise.parquet").write_bytes(b"noise" * 20)
    assert_fails(run("fit", tmp_path / "noise.parquet", *out), "noise.parquet", "cannot be read")
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("target", [".csv", ".parquet", ".npz"])
def test_a_transform_that_fails_late_leaves_the_old_file(target, rows, folder, tmp_path, small_blocks):
    bad = rows.copy()
    bad[120, 1] = np.inf
    (tmp_path / "in").mkdir()
    data, out = tmp_path / "in" / "bad.parquet", tmp_path / f"scores{target}"
    pl.DataFrame(bad, schema=COLUMNS).write_parquet(data)
    out.write_text("old")
    result = run("transform", folder / "model.ks", data, "--batch-size", 40, "-o", out, "--force")
    assert_fails(result, "column 'b'", "infinite", "row 121")
    assert out.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", out.name]


def test_parquet_in_blocks_needs_pyarrow(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "find_spec", lambda _: None)
    out = tmp_path / "model.ks"
    result = run("fit", folder / "rows.parquet", "--batch-size", 40, "-o", out)
    assert_fails(result, "pip install pyarrow")
    monkeypatch.setattr(files, "STREAMED_BYTES", 100)  # large, but it may fit in memory
    assert run("fit", folder / "rows.parquet", "-s", 5, "-o", out).exit_code == 0


def test_a_precomputed_kernel_is_read_whole(rows, tmp_path):
    gram = np.exp(-0.2 * ((rows[:, None] - rows) ** 2).sum(axis=-1))
    pl.DataFrame(gram, schema=[str(j) for j in range(150)]).write_parquet(tmp_path / "gram.parquet")
    options = ["--batch-size", 40, "-o"]
    fit = ["fit", tmp_path / "gram.parquet", "-k", "precomputed", "-s", 10]
    assert run(*fit, *options, tmp_path / "model.ks").exit_code == 0
    transform = ["transform", tmp_path / "model.ks", tmp_path / "gram.parquet"]
    assert run(*transform, *options, tmp_path / "out.npy").exit_code == 0


def test_no_progress_where_nobody_looks(folder, tmp_path, small_blocks):
    result = run("fit", folder / "rows.csv", "-x", "id,label", "--batch-size", 40, "-o", tmp_path / "model.ks")
    assert result.exit_code == 0
    assert "fitting" not in result.output


@pytest.mark.parametrize("names", [["a", "", "c"], ["a", "b", "a"], ["", "", "a"]])
@pytest.mark.parametrize("options", [[], ["--batch-size", 20]])
def test_parquet_columns_without_a_name_of_their_own_get_one(names, options, rows, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table(list(rows[:, :3].T), names=names), tmp_path / "rows.parquet")
    (tmp_path / "rows.csv").write_text(
        ",".join(names) + "\n" + "\n".join(",".join(map(repr, map(float, r))) for r in rows[:, :3])
    )
    found = []
    for name in ("rows.parquet", "rows.csv"):
        out = tmp_path / f"{name}.ks"
        result = run("fit", tmp_path / name, "-s", 6, "--selection", "uniform", "-o", out, *options)
        assert result.exit_code == 0, result.output
        assert run("transform", out, tmp_path / name, "-o", tmp_path / f"{name}.npy", *options).exit_code == 0
        found.append((kernelsieve.load(out).feature_names_in_.tolist(), np.load(tmp_path / f"{name}.npy")))
    assert found[0][0] == found[1][0]
    assert len(set(found[0][0])) == 3
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-9)


@pytest.mark.parametrize("extension", [".parquet", ".csv.gz"])
def test_a_file_is_judged_by_what_it_holds_and_not_by_its_packed_size(extension, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    path, frame = tmp_path / f"rows{extension}", pl.DataFrame({name: np.zeros(20_000) for name in "abcd"})
    if extension == ".parquet":
        frame.write_parquet(path)
    else:
        path.write_bytes(gzip.compress(frame.write_csv().encode()))
    assert path.stat().st_size < 20_000
    monkeypatch.setattr(files, "STREAMED_BYTES", 500_000)  # of the 640,000 that the table takes
    table = files.open_table(path)
    assert table.data is None
    assert sum(len(block) for block in table.blocks(["a", "d"], 1000)) == 20_000
