"""What is wrong is said in one line."""

import numpy as np
import polars as pl
import polars.testing
import pytest
from calling import assert_fails, fit_text, run

import kernelsieve
from kernelsieve import SparseKernelPCA, cli


def test_text_columns_are_named_where_numbers_are_needed(folder, rows, tmp_path):
    """A gram is numbers; and so are the rows of a model that was saved without a table's encoder."""
    result = run("fit", folder / "rows.csv", "-k", "precomputed", "-o", tmp_path / "model.ks")
    assert_fails(result, "'label'", "'red'", "--exclude label", "--columns")
    assert not (tmp_path / "model.ks").exists()
    SparseKernelPCA(2, n_support=5).fit(pl.DataFrame(rows, schema=["a", "b", "c", "label"])).save(tmp_path / "plain.ks")
    result = run("transform", tmp_path / "plain.ks", folder / "rows.csv", "-o", tmp_path / "out.csv")
    assert_fails(result, "'label'", "'red'", "the model needs numbers")


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


def test_the_cell_that_is_no_number_is_named(folder, tmp_path):
    lines = (folder / "rows.csv").read_text().splitlines()
    cells = lines[4].split(",")
    lines[4] = ",".join([cells[0], "old", *cells[2:]])
    (tmp_path / "new.csv").write_text("\n".join(lines))
    result = run("transform", folder / "model.ks", tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    assert_fails(result, "'b'", "(first 'old' in row 4)")
    scores = tmp_path / "scores.csv"
    scores.write_text("x,y,z\n1,2,3\n1,old,3\n")
    assert_fails(run("inverse", folder / "model.ks", scores, "-o", tmp_path / "out.csv"), "'y'", "(first 'old')")


@pytest.mark.parametrize("command", ["transform", "score", "update"])
def test_a_number_too_large_to_compute_with_is_named(command, folder, tmp_path):
    model = tmp_path / "model.ks"
    fitted = run("fit", folder / "rows.csv", "-x", "id,label", "-s", 12, "--keep-stream", "-o", model)
    assert fitted.exit_code == 0, fitted.output
    frame = pl.read_csv(folder / "rows.csv")
    frame[3, "c"] = 1e300
    frame.write_csv(tmp_path / "new.csv")
    output = tmp_path / ("out.ks" if command == "update" else "out.csv")
    result = run(command, model, tmp_path / "new.csv", "-o", output)
    assert_fails(result, "new.csv", "column 'c' is 1e+300 in row 4, too large to compute with")


def test_thousands_of_components_are_warned_of_before_the_fit(folder, tmp_path):
    result = run("fit", folder / "rows.csv", "-c", 4000, "-o", tmp_path / "many.ks")
    assert "4,000 components need at least as many support points: the fit may take 1,000 times" in result.output
    result = run("fit", folder / "rows.csv", "-c", 4, "-o", tmp_path / "few.ks")
    assert "support points: the fit" not in result.output


@pytest.mark.parametrize(("cell", "word"), [("", "missing"), ("NaN", "missing"), ("inf", "infinite")])
def test_missing_and_infinite_values_are_placed(cell, word, tmp_path):
    text = "a,b\n" + "".join(f"{i},{cell if i == 5 else i % 3 + 0.5}\n" for i in range(20))
    assert_fails(fit_text(text, tmp_path, "--missing", "error"), "rows.csv", "column 'b'", word, "row 6")
    result = fit_text(text, tmp_path)
    assert result.exit_code == (1 if cell == "inf" else 0)
    assert ("b (1 of 20)" in result.output) == (cell != "inf")


def test_nan_in_an_array(rows, folder, tmp_path):
    bad = rows.copy()
    bad[17, 2] = np.nan
    np.save(tmp_path / "bad.npy", bad)
    result = run("fit", tmp_path / "bad.npy", "--missing", "error", "-o", tmp_path / "m")
    assert_fails(result, "column 'x2'", "row 18")
    assert run("fit", folder / "rows.npy", "--missing", "error", "-o", tmp_path / "m").exit_code == 0
    assert_fails(run("transform", tmp_path / "m", tmp_path / "bad.npy", "-o", tmp_path / "o.npy"), "row 18")


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
    (tmp_path / "rows.docx").write_text("")
    assert_fails(run("fit", tmp_path / "rows.docx", "-o", out), "'.docx'", ".parquet")
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
    assert_fails(run(*transform, tmp_path / "out.doc"), "'.doc'")
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
    assert_fails(run("fit", folder / "rows.npy", "-c", 5, "-s", 3, "-o", out), "--support 3", "at least 6")
    result = run("fit", folder / "rows.npy", "--variance", 1.5, "-o", out)
    assert (result.exit_code, "not a share" in result.output) == (2, True)
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
