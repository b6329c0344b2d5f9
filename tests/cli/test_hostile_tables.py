"""Tables that are damaged, or that try to steer the terminal."""

import gzip
import random

import numpy as np
import polars as pl
import pytest
from calling import assert_fails, fit_text, program, run

from kernelsieve.errors import TableError
from kernelsieve.tables.files import ParquetRows


def test_damaged_parquet_files_are_refused_in_one_line(folder, tmp_path):
    """Whatever bytes are changed: an error in one line and nothing of the reader's own, or a table."""
    whole = (folder / "rows.parquet").read_bytes()
    rng = random.Random(0)
    path, out = tmp_path / "bad.parquet", tmp_path / "model.ks"
    refused = 0
    for number in range(40):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 5, 50])):
            data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
        if number % 4 == 0:
            data = data[: rng.randrange(len(data))]
        path.write_bytes(data)
        result = run("fit", path, "-c", 1, "-s", 3, "-o", out, *(["--batch-size", 50] if number % 2 else []))
        assert result.exit_code in (0, 1), result.output
        if result.exit_code:
            refused += 1
            assert [line for line in result.output.splitlines() if line.startswith("error: ")]
            assert "panicked" not in result.output
            assert "fault of kernelsieve" not in result.output
    assert refused > 20


def test_damaged_packed_files_and_arrays_are_refused_in_one_line(tmp_path):
    rng = np.random.default_rng(0)
    text = "a,b,c\n" + "".join(f"{i % 7},{i % 5},{i % 3}\n" for i in range(200))
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).standard_normal((40, 3)))
    whole = {"bad.csv.gz": gzip.compress(text.encode()), "bad.npy": (tmp_path / "rows.npy").read_bytes()}
    refused = dict.fromkeys(whole, 0)
    for name, data in list(whole.items()) * 25:
        changed = bytearray(data)
        for place in rng.integers(10, min(len(data), 120), 3):
            changed[place] ^= int(rng.integers(1, 256))
        (tmp_path / name).write_bytes(changed)
        result = run("fit", tmp_path / name, "-c", 1, "-s", 3, "-o", tmp_path / "model.ks", "--force")
        assert result.exit_code in (0, 1, 2), result.output
        assert "fault of kernelsieve" not in result.output
        refused[name] += result.exit_code != 0
    assert min(refused.values()) > 10


@pytest.mark.parametrize("where", ["name", "cell", "file"])
def test_escape_sequences_of_a_file_do_not_reach_the_terminal(where, tmp_path):
    evil = "\x1b]0;owned\x07\x1b[31m"
    name = f"{evil}b" if where == "name" else "b"
    cell = f"{evil}x" if where == "cell" else "x"
    path = tmp_path / (f"r{evil}.csv".replace("/", "") if where == "file" else "rows.csv")
    lines = "".join(f"{i % 7},{cell if i % 2 else 'y'},{i % 3}\n" for i in range(40))
    path.write_text(f"a,{name},c\n{lines}")
    outputs = []
    for arguments in (
        ["fit", path, "-s", 4, "-o", tmp_path / "m.ks", "--force"],
        ["info", tmp_path / "m.ks"],
        ["fit", path, "--columns", name, "-k", "precomputed", "-o", tmp_path / "n.ks"],
        ["fit", path, "-x", f"{evil}nothing", "-o", tmp_path / "n.ks"],
        ["transform", tmp_path / "m.ks", path, "-o", tmp_path / f"{evil[1:4]}o.csv", "--keep", "none"],
        ["compare", path, "-c", 1, "-s", 4],
    ):
        done = program(*arguments)
        outputs.append((done.stdout + done.stderr).decode())
    assert all("\x1b" not in text and "\x07" not in text for text in outputs)
    assert any("\\x1b" in text for text in outputs)


def test_brackets_in_names_are_shown_as_they_are(tmp_path):
    lines = "".join(f"{i % 7},{i % 3}\n" for i in range(40))
    result = fit_text(f"[red]a[/red],[/b]\n{lines}", tmp_path)
    assert result.exit_code == 0, result.output
    assert "[red]a[/red], [/b]" in result.output


def test_columns_named_twice_are_an_error(folder, tmp_path):
    for option in ("--columns", "--exclude"):
        assert_fails(run("fit", folder / "rows.csv", option, "a,a", "-o", tmp_path / "m.ks"), option, "'a'", "twice")
    transform = ["transform", folder / "model.ks", folder / "rows.csv", "-o", tmp_path / "o.csv"]
    assert_fails(run(*transform, "--keep", "id,id"), "--keep", "'id'", "twice")


def test_names_with_commas_stand_in_quotes(tmp_path):
    lines = "".join(f"{i % 7},{i % 3}\n" for i in range(40))
    result = fit_text(f'"a, first",b\n{lines}', tmp_path, "--columns", '"a, first"')
    assert result.exit_code == 0, result.output
    assert "1: a, first" in result.output


def test_files_in_other_encodings_are_read_and_said(tmp_path):
    text = "naïve,b\n" + "".join(f"{i % 7},{'Müller' if i % 2 else 'x'}\n" for i in range(40))
    for encoding, warned in (("utf-8-sig", False), ("utf-16", False), ("cp1252", True)):
        (tmp_path / "rows.csv").write_bytes(text.encode(encoding))
        result = run("fit", tmp_path / "rows.csv", "-c", 1, "-s", 3, "-o", tmp_path / "m.ks")
        assert result.exit_code == 0, result.output
        assert "naïve" in result.output
        assert result.output.count("Windows-1252") == warned


def test_numbers_too_large_to_scale_are_named(tmp_path):
    lines = "".join(f"{i % 7},{1e300 * (-1) ** i}\n" for i in range(40))
    assert_fails(fit_text(f"a,b\n{lines}", tmp_path), "rows.csv", "column 'b'", "too large")


def test_a_table_of_nothing_but_constants_says_so(tmp_path):
    result = fit_text("a,b\n" + "1,x\n" * 30, tmp_path)
    assert_fails(result, "rows.csv", "no column", "'a' is the same in every row", "'b' is the same in every row")


def test_arrays_of_any_kind_are_tables(tmp_path):
    rng = np.random.default_rng(0)
    for dtype in (bool, np.uint8, np.int64, np.float16, np.float32):
        np.save(tmp_path / "rows.npy", (rng.integers(3, size=(60, 4)) * 1.0).astype(dtype))
        result = run("fit", tmp_path / "rows.npy", "-c", 1, "-s", 3, "-o", tmp_path / "m.ks")
        assert result.exit_code == 0, result.output


def test_unseen_labels_are_told_once(folder, tmp_path):
    assert run("fit", folder / "rows.csv", "-s", 6, "-o", tmp_path / "m.ks").exit_code == 0
    frame = pl.read_csv(folder / "rows.csv").with_columns(label=pl.lit("violet"))
    frame.write_csv(tmp_path / "new.csv")
    options = ["--batch-size", 10, "-o", tmp_path / "o.csv"]
    result = run("transform", tmp_path / "m.ks", tmp_path / "new.csv", *options)
    assert result.exit_code == 0
    assert result.output.count("'violet'") == 1


def test_what_the_reader_panics_at_is_refused_block_by_block(folder, monkeypatch):
    class PanicException(BaseException):
        """As polars raises it where bytes of a name are no text: no Exception."""

    def panic(batch):
        raise PanicException("called `Result::unwrap()` on an `Err` value: Utf8Error")

    monkeypatch.setattr(pl, "from_arrow", panic)
    path = folder / "rows.parquet"
    with pytest.raises(TableError, match=r"rows\.parquet cannot be read as PARQUET: it is damaged"):
        list(ParquetRows(path, path, tuple(pl.read_parquet(path).columns), 10).frames())
