"""Where strangers stumbled on their first day, from a raw file to an exported model."""

import subprocess
import sys
import warnings

import numpy as np
import polars as pl
import pytest
from calling import run

import kernelsieve


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "kernelsieve", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"kernelsieve {kernelsieve.__version__}\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a;b\n6.327,98;1\n523,23;2\n1.000.000,50;3\n", [6327.98, 523.23, 1000000.5]),
        ('a,b\n"1,234.50",1\n12,2\n-7.5,3\n', [1234.5, 12, -7.5]),
        ('a,b\n"1,234",1\n"56,789",2\n', [1234, 56789]),
        ("a\tb\n1,234.50\t1\n12.00\t2\n", [1234.5, 12]),
        ("a;b\n1.234;1\n2.345;2\n", [1.234, 2.345]),  # a decimal fraction, as anywhere else
        ("a\tb\n1,234\t1\n2,345\t2\n", ["1,234", "2,345"]),  # either is possible: it stays as it is
        ('a,b\n"0,123",1\n"1,234",2\n', ["0,123", "1,234"]),
        ("a;b\n1.23.456,7;1\n2,5;2\n", ["1.23.456,7", "2,5"]),
    ],
)
def test_marks_between_thousands_are_read_where_they_are_beyond_doubt(tmp_path, text, expected):
    (tmp_path / "a.csv").write_text(text)
    assert kernelsieve.read_table(tmp_path / "a.csv")["a"].to_list() == expected


@pytest.fixture
def plant(tmp_path):
    """Rows without a header, the last of today's odd; a third of the rows each from three lines."""
    rng = np.random.default_rng(0)
    first = rng.standard_normal(400)
    frame = pl.DataFrame({"x": first, "y": first + 0.1 * rng.standard_normal(400), "line": list("abca" * 100)})
    frame.write_csv(tmp_path / "normal.csv", include_header=False)
    frame[:9].vstack(pl.DataFrame({"x": [6.0], "y": [-6.0], "line": ["c"]})).write_csv(
        tmp_path / "today.csv", include_header=False
    )
    return tmp_path


def test_a_monitor_calls_the_columns_of_a_headerless_file_as_fit_does(plant):
    names = ("normal.csv", "today.csv")
    result = run("monitor", *[plant / name for name in names], "--no-header", "-x", "column_3", "-a", "0.01")
    assert "column_1 is 6" in result.output
    assert "x0" not in result.output
    assert "1 alarm, 0 not judged" in result.output


def test_a_label_is_called_usual_only_if_most_rows_have_it():
    from kernelsieve.monitor.table import UsualValues, table_block

    frame = pl.DataFrame({"carrier": ["UA", "UA", "B6", "EV", "DL"], "paid": ["yes", "yes", "yes", "no", "yes"]})
    words = UsualValues.of(table_block(frame)).words(table_block(frame))
    assert [words(3, 0), words(3, 1), words(0, 1)] == [
        "carrier is EV, as in 20 % of normal rows",
        "paid is no, usually yes",
        "paid is yes, which is usual by itself",
    ]


def test_a_monitor_is_refused_where_kernel_pca_is_compressed(plant):
    run("monitor", plant / "normal.csv", plant / "today.csv", "--no-header", "--save", plant / "m.ks")
    result = run("compress", plant / "m.ks", "-s", "8", "-o", plant / "c.ks")
    assert result.exit_code == 1
    assert "only kernel PCA can be compressed" in result.output
    assert "fault" not in result.output


def test_a_column_with_several_circles_is_warned_of_once(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"2021-{1 + i % 12:02d}-{1 + i % 28:02d} {i % 24:02d}:30,{rng.normal():.3f}" for i in range(3000)]
    (tmp_path / "a.csv").write_text("\n".join(["when,x", *lines]))
    run("monitor", tmp_path / "a.csv", tmp_path / "a.csv", "--save", tmp_path / "m.ks")
    result = run("export", tmp_path / "m.ks", "-o", tmp_path / "m.h")
    assert result.output.count("'when'") == 1


def test_a_list_of_names_may_be_given_in_parts(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,b,c,d\n" + "".join(f"{i * 7 % 31},{i * 5 % 23},{i % 4},{i * 3 % 17}\n" for i in range(60)))
    assert run("fit", path, "-x", "a", "-x", "b", "-o", tmp_path / "m.ks").exit_code == 0
    assert kernelsieve.load(tmp_path / "m.ks").feature_names_in_.tolist() == ["c", "d"]
    units = tmp_path / "units.csv"
    units.write_text("a,b\n°C,mm\n" + "".join(f"{i * 7 % 31},{i * 5 % 23}\n" for i in range(60)))
    assert run("fit", units, "--na", "°C", "--na", "mm", "-o", tmp_path / "m.ks").exit_code == 0
    assert kernelsieve.load(tmp_path / "m.ks")[0].describe()[1][1] == "2: a, b"


def test_dates_that_may_begin_with_the_day_or_the_month_are_text_and_are_said_to_be(tmp_path):
    rows = "\n".join(f"{1 + i % 12:02}/{1 + i % 11:02}/2024 0{1 + i % 9}:30 PM,{i % 7}" for i in range(60))
    (tmp_path / "a.csv").write_text(f"when,size\n{rows}\n")
    with pytest.warns(UserWarning, match="'when' is read as text: dates such as '01/01/2024 01:30 PM' do not say"):
        frame = kernelsieve.read_table(tmp_path / "a.csv")
    assert frame["when"].dtype == pl.String


def test_a_rare_gap_is_not_called_one_of_no_rows():
    from kernelsieve.monitor.table import UsualValues, table_block

    frame = pl.DataFrame({"port": [None, *("S" * 999)], "size": np.arange(1000.0)})
    words = UsualValues.of(table_block(frame)).words(table_block(frame[:1]))
    assert words(0, 0) == "port is missing, as in less than 1 % of normal rows"


def test_a_label_that_few_or_no_normal_rows_have_is_said_to_be_rare():
    from kernelsieve.monitor.table import UsualValues, table_block

    normal = pl.DataFrame({"team": ["A"] * 400 + ["B"] * 400 + ["C"] * 195 + ["D"] * 5, "other": ["D", "E"] * 500})
    words = UsualValues.of(table_block(normal)).words(table_block(pl.DataFrame({"team": ["C", "D", "Z"]})))
    assert [words(row, 0) for row in range(3)] == [
        "team is C, as in 20 % of normal rows",
        "team is D, as in less than 1 % of normal rows",
        "team is Z, as in less than 1 % of normal rows",
    ]


def test_the_summary_says_that_rare_labels_share_one_indicator():
    frame = pl.DataFrame({"town": [f"t{i % 40}" for i in range(400)], "kind": list("ab" * 200)})
    said = dict(kernelsieve.TableEncoder().fit(frame).describe())
    assert said["categories"] == "2: town (29 labels and one for all rarer ones), kind (2 labels)"


@pytest.mark.parametrize(
    "line",
    ["a;12,5;;3", "a;1.234,5;40 %;7", '"x, y";1,5;NA;12'],
    ids=["a gap in the first row", "thousands and per cent", "a missing value"],
)
def test_a_first_line_of_data_is_noticed_however_its_numbers_are_written(line, tmp_path):
    lines = [line, *(f"b;{k},25;{k} %;{k % 4}" for k in range(30))]
    (tmp_path / "bare.csv").write_text("\n".join(lines) + "\n")
    with pytest.warns(UserWarning, match="looks like data"):
        kernelsieve.read_table(tmp_path / "bare.csv")


def test_numbered_and_blank_names_are_names(tmp_path):
    for head in ("name;;b;c", "name;column_2;2010;2011", "name;a;b;"):
        (tmp_path / "named.csv").write_text("\n".join([head, *(f"b;{k},25;{k};{k % 4}" for k in range(30))]) + "\n")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            kernelsieve.read_table(tmp_path / "named.csv")


def test_following_reads_a_file_as_all_commands_do(tmp_path):
    """Decimal commas, gaps and dates; the rows that come later are read like the first."""
    lines = [
        "1,5;?;2024-03-05;x",
        *(f"{k % 17},{k % 7};{k * 37 % 101},25;2024-03-{k % 28 + 1:02d};x" for k in range(99)),
    ]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    options = ["--no-header", "--names", "a,b,day,c", "-x", "c", "-s", "8", "-o", tmp_path / "m.ks"]
    done = run("fit", tmp_path / "log.csv", "--follow", "--idle", "0.1", "--every", "40", *options)
    assert done.exit_code == 0, done.output
    followed = kernelsieve.load(tmp_path / "m.ks")
    assert followed[0].feature_names_in_.tolist() == ["a", "b", "day"]
    assert followed[0].kinds_.tolist() == ["number", "number", "date"]
    assert followed[0].n_missing_.tolist() == [0, 1, 0]
    frame = kernelsieve.read_table(tmp_path / "log.csv", header=False, names=["a", "b", "day", "c"], exclude=["c"])
    scores = followed.transform(frame)
    assert scores.shape == (100, 2)
    np.testing.assert_allclose(scores.mean(axis=0), 0, atol=1e-12)  # all rows were counted, as they are read here


@pytest.mark.parametrize(
    ("line", "told"), [("1;2", "row 1 has 2 cells"), ("x;2", "column 'a' holds values of another kind")]
)
def test_following_names_what_does_not_fit(line, told, tmp_path):
    lines = ["a;b;c", *(f"{k};{k * 7 % 5};{k * 3 % 7}" for k in range(20)), line if line == "1;2" else f"{line};3"]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    options = ["--follow", "--idle", "0.1", "--every", "20", "-s", "5", "-o", tmp_path / "m.ks"]
    done = run("fit", tmp_path / "log.csv", *options)
    assert done.exit_code == 1
    assert "after its first 20 rows: " + told in " ".join(done.output.split())
