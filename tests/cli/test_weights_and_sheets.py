"""`--weights`, which is no feature, and .xlsx sheets, which are read as CSV files are."""

import datetime
import sys

import numpy as np
import polars as pl
import pytest
from calling import assert_fails, core, run

import kernelsieve
from kernelsieve.tables import files


@pytest.fixture
def weighted(tmp_path):
    """Rows of weight 0, 1 and 2, and the same rows repeated as often."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(rng.standard_normal((60, 3)), schema=["a", "b", "c"])
    counts = rng.integers(0, 3, 60)
    frame.with_columns(count=pl.Series(counts)).write_csv(tmp_path / "weighted.csv")
    frame[np.repeat(np.arange(60), counts)].write_csv(tmp_path / "repeated.csv")
    return tmp_path


def test_a_weight_counts_as_that_many_rows(weighted):
    options = ["-c", 2, "-s", 10, "--scale", "none", "--gamma", 0.3]
    first, second = weighted / "weighted.ks", weighted / "repeated.ks"
    assert run("fit", weighted / "weighted.csv", "--weights", "count", *options, "-o", first).exit_code == 0
    assert run("fit", weighted / "repeated.csv", *options, "-o", second).exit_code == 0
    np.testing.assert_allclose(core(first).explained_variance_, core(second).explained_variance_, rtol=1e-8)
    assert core(first).n_features_in_ == 3


def test_weights_are_read_in_blocks_as_they_are_whole(weighted):
    options = ["--weights", "count", "-c", 2, "-s", 10, "--gamma", 0.3]
    whole, blocks = weighted / "whole.ks", weighted / "blocks.ks"
    assert run("fit", weighted / "weighted.csv", *options, "-o", whole).exit_code == 0
    assert run("fit", weighted / "weighted.csv", *options, "--batch-size", 7, "-o", blocks).exit_code == 0
    np.testing.assert_allclose(core(whole).explained_variance_, core(blocks).explained_variance_, rtol=1e-6)


def test_weights_that_cannot_be_are_refused(weighted):
    table, model = weighted / "weighted.csv", weighted / "m.ks"
    assert_fails(run("fit", table, "--weights", "cuont", "-o", model), "no column 'cuont'", "--weights", "'count'")
    assert_fails(run("fit", table, "--weights", "a", "-o", model), "--weights a is -", "in row", "0 or positive")
    result = run("fit", table, "--weights", "count", "--method", "exact", "-o", model)
    assert result.exit_code == 2
    assert "does not apply to --method exact" in result.output
    (weighted / "text.csv").write_text("a,b,w\n1,2,x\n2,5,y\n4,3,z\n")
    assert_fails(run("fit", weighted / "text.csv", "--weights", "w", "-o", model), "'w' is not numeric")
    assert not model.exists()


def test_without_a_reader_of_sheets_the_error_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "rows.xlsx").write_bytes(b"PK")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    monkeypatch.setattr("kernelsieve.tables.csv.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install openpyxl, or save the sheet as"):
        kernelsieve.read_table(tmp_path / "rows.xlsx")
    assert_fails(run("fit", tmp_path / "rows.xlsx", "-o", tmp_path / "m.ks"), "openpyxl", ".csv")


def test_no_table_is_written_as_a_sheet(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n2,5\n4,3\n7,1\n")
    assert run("fit", tmp_path / "rows.csv", "-c", 1, "-s", 3, "-o", tmp_path / "m.ks").exit_code == 0
    result = run("transform", tmp_path / "m.ks", tmp_path / "rows.csv", "-o", tmp_path / "z.xlsx")
    assert_fails(result, "unknown format '.xlsx'")


def test_a_sheet_is_read_as_the_same_cells_in_a_csv_file_are(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    days = [datetime.datetime(2024, 3, day) for day in range(1, 6)]
    sheet.append([])
    sheet.append(["size", "cut", "sold", "new", "share"])
    cuts, sizes = [" a", "?", "b", "a", "b"], [1.5, None, 3, "#DIV/0!", 5]
    for size, cut, day, new in zip(sizes, cuts, days, [True, False, True, True, False], strict=True):
        sheet.append([size, cut, day, new, "12.5%"])
    other = book.create_sheet("other")
    other.append([1, 2])
    other.append([3, 4])
    book.save(tmp_path / "rows.xlsx")
    lines = ["size,cut,sold,new,share", "1.5, a,2024-03-01,true,12.5%", ",?,2024-03-02,false,12.5%"]
    lines += ["3,b,2024-03-03,true,12.5%", ",a,2024-03-04,true,12.5%", "5,b,2024-03-05,false,12.5%"]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    read = kernelsieve.read_table(tmp_path / "rows.xlsx")
    assert read.equals(kernelsieve.read_table(tmp_path / "rows.csv"))
    bare = kernelsieve.read_table(tmp_path / "rows.xlsx", key="other", header=False, names=["p", "q"])
    assert bare.to_dict(as_series=False) == {"p": [1, 3], "q": [2, 4]}
    with pytest.raises(files.TableError, match="no sheet 'third', only 'Sheet', 'other'"):
        kernelsieve.read_table(tmp_path / "rows.xlsx", key="third")
    (tmp_path / "broken.xlsx").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(files.TableError, match="cannot be read as XLSX"):
        kernelsieve.read_table(tmp_path / "broken.xlsx")
