"""The code on a report page makes the model that the page shows."""

import gzip
import json
import os

import numpy as np
import polars as pl
import pytest
from calling import run

import kernelsieve
from kernelsieve.cli.options import METHODS

pytestmark = pytest.mark.filterwarnings("ignore::kernelsieve.KernelWarning")
LINEAR = ("linear", "robust-linear")


@pytest.fixture(scope="module")
def tables(folder, tmp_path_factory):
    """One table as people have it, in many forms."""
    path = tmp_path_factory.mktemp("forms")
    frame = pl.read_csv(folder / "rows.csv").with_columns(
        a=pl.when(pl.col("id") % 11 == 3).then(pl.lit(" ?")).otherwise(pl.format(" {}", pl.col("a"))),
        sold=pl.lit("2024-03-") + (pl.col("id") % 28 + 1).cast(pl.String).str.zfill(2),
    )
    text = frame.write_csv()
    (path / "mixed.csv").write_text(text)
    (path / "bare.csv").write_text(text.split("\n", 1)[1])
    (path / "packed.csv.gz").write_bytes(gzip.compress(text.encode()))
    numbers = [name for name in frame.columns if name not in ("label", "sold")]
    commas = frame.with_columns(pl.col(numbers).cast(pl.String).str.replace(".", ",", literal=True))
    (path / "commas.csv").write_text(commas.write_csv(separator=";"))
    np.save(path / "positive.npy", np.abs(np.load(folder / "rows.npy")))
    for name in ("rows.parquet", "rows.npy", "rows.npz"):
        (path / name).write_bytes((folder / name).read_bytes())
    return path


@pytest.fixture
def code_of(tables, tmp_path, monkeypatch):
    """code_of(file, *options) -> the names that the code on the page leaves."""

    def made(name, *options, model=None):
        monkeypatch.chdir(tables)
        page = tmp_path / "page.html"
        result = run("report", name, *options, *(["--model", model] if model else []), "-o", page, "--force")
        assert result.exit_code == 0, result.output
        shown = json.loads(page.read_text(encoding="utf-8").split('id="contents">')[1].split("</script>")[0])
        found = {}
        assert max(map(len, shown["code"].splitlines())) <= 80  # so that the page shows it whole
        exec(shown["code"], found)
        assert os.path.getsize("report.html") > 500_000
        os.remove("report.html")
        return found

    return made


FORMS = {
    "target left out": ("mixed.csv", "--exclude", "label,id"),
    "some columns": ("mixed.csv", "--columns", "d,label,b"),
    "robust": ("mixed.csv", "-x", "label", "--scale", "robust"),
    "without a header": ("bare.csv", "--no-header", "-x", "column_6"),
    "with names": ("bare.csv", "--no-header", "--names", "p,q,r,s,t,u,v", "-x", "u"),
    "packed": ("packed.csv.gz", "-x", "label"),
    "decimal commas": ("commas.csv", "-x", "label"),
    "parquet": ("rows.parquet", "-x", "label"),
    "array": ("rows.npy",),
    "one of several arrays": ("rows.npz", "--key", "X", "-x", "1"),
    "gamma": ("rows.npy", "--gamma", "auto"),
    "weights": ("mixed.csv", "-x", "label", "--weights", "id"),
    "weights of an array": ("positive.npy", "--weights", "0"),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_code_makes_the_model_of_the_page(form, code_of, tables, tmp_path):
    name, *options = FORMS[form]
    options += ["-c", 2, "-s", 8]
    found = code_of(name, *options)
    model, scores = tmp_path / "model.ks", tmp_path / "scores.npy"
    assert run("fit", tables / name, *options, "-o", model).exit_code == 0
    reading = [option for option in ("--no-header", "--names", "--key") if option in options]
    reading = [part for flag in reading for part in options[options.index(flag) :][: 1 + (flag != "--no-header")]]
    kept = {".npz": "-x", "tive.npy": "--weights"}.get(
        next((end for end in (".npz", "tive.npy") if name.endswith(end)), "")
    )
    if kept:  # an array has no names to find columns by
        rows = kernelsieve.read_table(tables / name).to_numpy()
        expected = kernelsieve.load(model).transform(np.delete(rows, int(options[options.index(kept) + 1]), axis=1))
    else:
        assert run("transform", model, tables / name, *reading, "-o", scores).exit_code == 0
        expected = np.load(scores)
    np.testing.assert_allclose(found["scores"], expected, atol=1e-8)


@pytest.mark.parametrize("method", sorted(set(METHODS) - set(LINEAR)))
def test_the_code_makes_the_model_of_every_method(method, code_of, tables, tmp_path):
    options = ["-x", "label,id", "--method", method]
    found = code_of("mixed.csv", *options)
    assert run("fit", tables / "mixed.csv", *options, "-c", 5, "-o", tmp_path / "m.ks").exit_code == 0
    assert run("transform", tmp_path / "m.ks", tables / "mixed.csv", "-o", tmp_path / "s.npy").exit_code == 0
    np.testing.assert_allclose(found["scores"], np.load(tmp_path / "s.npy"), atol=1e-6)


def test_the_code_loads_a_model_that_was_loaded(code_of, tables, tmp_path):
    assert run("fit", tables / "mixed.csv", "-x", "label", "-s", 8, "-o", tables / "m.ks").exit_code == 0
    found = code_of("mixed.csv", model="m.ks")
    assert run("transform", tables / "m.ks", tables / "mixed.csv", "-o", tmp_path / "s.npy").exit_code == 0
    np.testing.assert_array_equal(found["scores"], np.load(tmp_path / "s.npy"))


def test_a_report_of_another_kind_of_model_is_refused_in_words(folder, tmp_path):
    table = folder / "rows.csv"
    result = run("report", table, "--method", "linear", "-c", 2, "-x", "id,label", "-o", tmp_path / "r.html")
    assert result.exit_code == 1
    assert "a report shows kernel models" in result.output
    assert "fault of kernelsieve" not in result.output
