"""What tables may look like."""

import datetime
import warnings

import numpy as np
import polars as pl
import polars.testing
import pytest
from calling import assert_fails, core, fit_text, run

import kernelsieve
from kernelsieve.cli import outputs
from kernelsieve.tables import csv


def test_other_separators_integers_and_booleans(tmp_path):
    lines = "\n".join(f"{i};{i % 7 + 0.5};{'true' if i % 3 else 'false'}" for i in range(30))
    result = fit_text(f"n;x;flag\n{lines}\n", tmp_path, "--columns", "n,x,flag")
    assert result.exit_code == 0, result.output
    assert kernelsieve.load(tmp_path / "model.ks").feature_names_in_.tolist() == ["n", "x", "flag"]


def test_columns_without_a_name_are_called_by_their_number(tmp_path):
    lines = "\n".join(f"{i},{i % 7},{i % 5},{i % 3}" for i in range(30))
    result = fit_text(f",,column_1, a\n{lines}\n", tmp_path)
    assert result.exit_code == 0, result.output
    names = kernelsieve.load(tmp_path / "model.ks").feature_names_in_.tolist()
    assert names == ["column_1_", "column_2", "column_1", "a"]


def test_a_late_decimal_point_is_no_error(tmp_path):
    lines = "\n".join(f"{i},{i % 5}" for i in range(2000))
    assert fit_text(f"a,b\n{lines}\n0.5,1.25\n", tmp_path).exit_code == 0


def test_first_line_of_data(tmp_path):
    text = "".join(f"{i * 0.5},{i % 4}\n" for i in range(1, 30))
    result = fit_text(text, tmp_path)
    assert result.exit_code == 0
    assert "warning: " in result.output
    assert "--no-header" in result.output
    assert core(tmp_path / "model.ks").n_samples_seen_ == 28
    result = fit_text(text, tmp_path, "--no-header")
    assert "warning" not in result.output
    assert core(tmp_path / "model.ks").n_samples_seen_ == 29
    assert "warning" not in fit_text("0,1\n" + text, tmp_path).output
    mixed = "".join(
        f"{'?' if i == 1 else i * 0.5},{i % 7}.5%,{'abc'[i % 3]},2024-01-{i:02},{i % 4}\n" for i in range(1, 30)
    )
    assert "--no-header" in fit_text(mixed, tmp_path).output


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
    real.write_text("")
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
    monkeypatch.setattr(outputs, "_write_csv", full)
    result = run("transform", folder / "model.ks", folder / "rows.csv", "-o", out, "--force")
    assert_fails(result, "No space left on device")
    assert out.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["scores.csv"]


def test_a_missing_header_is_noticed_where_only_some_columns_are_numbers(tmp_path):
    lines = "".join(f"{i % 7},x{i % 3},{i * i % 50}\n" for i in range(1, 40))
    assert "--no-header" in fit_text("39,State,77516\n" + lines, tmp_path).output
    for header in ("a,State,77516", "1,State,2"):
        assert "--no-header" not in fit_text(f"{header}\n{lines}", tmp_path).output
    years = "".join(f"x{i % 3},{i},{i % 5},{i % 7}\n" for i in range(30))
    assert "--no-header" not in fit_text(f"country,1990,2000,2010\n{years}", tmp_path).output


def test_percentages_are_numbers(tmp_path):
    (tmp_path / "rows.csv").write_text("share;other\n12,5%;1\n 7 %;2\n?;3\n-1%;4\n")
    frame = kernelsieve.read_table(tmp_path / "rows.csv")
    assert frame["share"].to_list() == [12.5, 7.0, None, -1.0]
    (tmp_path / "rows.csv").write_text("share,other\n12.5%,1\n7,2\n")
    assert kernelsieve.read_table(tmp_path / "rows.csv")["share"].to_list() == ["12.5%", "7"]


def test_a_default_number_of_components_shrinks_for_a_tiny_table(tmp_path):
    (tmp_path / "three.csv").write_text("a,b\n1,2\n3,5\n4,1\n")
    out = ["-o", tmp_path / "three.html"]
    result = run("report", tmp_path / "three.csv", *out)
    assert result.exit_code == 0, result.output
    assert_fails(run("report", tmp_path / "three.csv", "-c", 5, *out, "--force"), "--components 5", "at least 6")


def read_text(text, tmp_path, **options):
    (tmp_path / "table.csv").write_text(text, encoding="utf-8")
    return kernelsieve.read_table(tmp_path / "table.csv", **options)


def test_points_are_thousands_in_a_file_of_decimal_commas(tmp_path):
    frame = read_text("pieces;price;share\n5;28,66;1,5 %\n4.000;1.200,00;38,0 %\n12;7,5;0,0 %\n", tmp_path)
    assert frame["pieces"].to_list() == [5, 4000, 12]
    assert frame["price"].to_list() == [28.66, 1200, 7.5]
    assert frame["share"].to_list() == [1.5, 38, 0]
    assert read_text("a;b\n1.234;5,5\n2.345;6\n", tmp_path)["a"].to_list() == [1234, 2345]
    assert read_text("a;b\n1.234;x\n0.5;y\n", tmp_path)["a"].to_list() == [1.234, 0.5]
    both = read_text("a;b\n1.25;5,5\n1.234;6\n", tmp_path)  # points and commas in one file: each column for itself
    assert (both["a"].to_list(), both["b"].to_list()) == ([1.25, 1.234], [5.5, 6])
    assert read_text("a\tb\n1,25\t3\n2,5\t4\n", tmp_path)["a"].to_list() == [1.25, 2.5]
    assert read_text("a\tb\n1,250\t3\n2,500\t4\n", tmp_path)["a"].dtype == pl.String  # either: left alone


def test_money_and_dates_with_the_name_of_a_month(tmp_path):
    frame = read_text('fee,joined\n"$1,234.50","Aug 01, 2023"\n$-3,"March 5, 2024"\n', tmp_path)
    assert frame["fee"].to_list() == [1234.5, -3]
    assert frame["joined"].cast(str).to_list() == ["2023-08-01", "2024-03-05"]
    assert read_text("a;b\n1.234,50 €;2-Feb-2024\n3 €;03-Mar-2024\n", tmp_path).row(0)[0] == 1234.5
    assert read_text("a,b\n$5,1\n€6,2\n", tmp_path)["a"].dtype == pl.String  # dollars and euros are not one scale


def test_a_word_among_numbers_is_noticed_and_can_be_a_gap(tmp_path):
    lines = "\n".join(f"{'unknown' if i % 9 == 4 else i % 8},{i % 5}.5" for i in range(60))
    result = fit_text(f"days,b\n{lines}\n", tmp_path)
    assert "column 'days' holds numbers and the word 'unknown'" in result.output
    assert "--na unknown" in result.output
    result = fit_text(f"days,b\n{lines}\n", tmp_path, "--na", "unknown")
    assert "warning" not in result.output
    assert list(kernelsieve.load(tmp_path / "model.ks")[0].kinds_) == ["number", "number"]
    frame = read_text(f"days,b\n{lines}\n", tmp_path, na="unknown")
    assert frame["days"].null_count() == 7
    sizes = "\n".join(f"{['small', 'large', 1, 2, 3, 4, 5, 6][i % 8]},{i % 5}" for i in range(60))
    assert "read as text" not in fit_text(f"size,b\n{sizes}\n", tmp_path).output


def test_read_table_warns_once_and_at_the_line_that_called_it(tmp_path):
    path = tmp_path / "latin.csv"
    path.write_bytes(b"town,size\n" + "Köln,1\n".encode("latin-1") * 9)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        kernelsieve.read_table(path)
    assert [(str(one.message)[:26], one.filename) for one in said] == [("latin.csv is not in UTF-8:", __file__)]


def written(path, dates, form="%m/%d/%Y"):
    """A table of these dates beside two numbers."""
    rows = "\n".join(f"{when.strftime(form)},{i % 7},{i * i % 11}" for i, when in enumerate(dates))
    path.write_text(f"when,a,b\n{rows}\n")
    return path


MARCH = [datetime.date(2024, 3, 1) + datetime.timedelta(days=i) for i in range(60)]


@pytest.mark.parametrize("form", ["%m/%d/%Y", "%d/%m/%Y", "%m/%d/%Y %H:%M", "%d/%m/%Y %I:%M:%S %p"])
def test_dates_with_slashes_are_read_in_the_order_that_their_column_decides(tmp_path, form):
    """Even if the first block of the file does not decide it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = kernelsieve.read_table(written(tmp_path / "rows.csv", MARCH, form))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(csv, "CSV_BLOCK_BYTES", 64)
            in_blocks = kernelsieve.read_table(tmp_path / "rows.csv")
    assert found["when"].cast(pl.Date).to_list() == in_blocks["when"].cast(pl.Date).to_list() == MARCH


@pytest.mark.parametrize("cells", [["1/2/2024", "11/12/2024"], ["1/13/2024", "13/1/2024"]])
def test_dates_that_decide_no_order_or_two_stay_text(tmp_path, cells):
    path = tmp_path / "rows.csv"
    path.write_text("when,a\n" + "".join(f"{cell},{i}\n" for i, cell in enumerate(cells)))
    with pytest.warns(UserWarning, match="do not say whether the day or the month comes first"):
        assert kernelsieve.read_table(path)["when"].to_list() == cells


def test_new_tables_are_read_in_the_order_of_dates_that_the_model_was_fitted_to(tmp_path):
    """Three days of April decide nothing by themselves, or would decide for another order."""
    model, out = tmp_path / "model.ks", tmp_path / "out.csv"
    assert run("fit", written(tmp_path / "old.csv", MARCH), "-s", 20, "-o", model).exit_code == 0
    new = [datetime.date(2024, 4, day) for day in (1, 2, 3)]
    iso = run("transform", model, written(tmp_path / "iso.csv", new, "%Y-%m-%d"), "-o", tmp_path / "iso_out.csv")
    assert iso.exit_code == 0
    result = run("transform", model, written(tmp_path / "new.csv", new), "-o", out)
    assert result.exit_code == 0, result.output
    assert "warning" not in result.output
    assert out.read_text() == (tmp_path / "iso_out.csv").read_text()
    order = kernelsieve.load(model)[0].date_order
    assert kernelsieve.read_table(tmp_path / "new.csv", dates=order)["when"].to_list() == new
    page = tmp_path / "page.html"
    assert run("report", tmp_path / "new.csv", "--model", model, "-o", page).exit_code == 0
    assert "month first" in page.read_text().split("read_table(")[1][:100]
    other = written(tmp_path / "other.csv", MARCH, "%d/%m/%Y")
    assert_fails(run("transform", model, other, "-o", out, "--force"), "'when' is not numeric", "needs dates there")


def test_a_monitor_and_a_followed_stream_remember_the_order_of_dates(tmp_path):
    old, new = written(tmp_path / "old.csv", MARCH), written(tmp_path / "new.csv", MARCH[31:36])
    saved, out = tmp_path / "saved.mon", tmp_path / "out.csv"
    assert run("monitor", old, new, "-a", 0.2, "--save", saved, "-o", out).exit_code in (0, 1, 3)
    assert kernelsieve.load(saved).encoder_.date_order == {"when": "month first"}
    assert "read as text" not in run("monitor", saved, new, "-o", out, "--force").output
    model = tmp_path / "model.ks"
    result = run("fit", old, "--follow", "--every", 30, "--idle", 0.1, "-s", 5, "-o", model)
    assert result.exit_code == 0, result.output
    assert kernelsieve.load(model)[0].date_order == {"when": "month first"}
    assert kernelsieve.load(model)[0].kinds_.tolist()[0] == "date"
