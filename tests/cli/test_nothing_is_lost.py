"""Nothing of the user's is ever lost: outputs that are inputs, files of others, commands that are killed."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest
from calling import assert_fails, run, shell

import kernelsieve


@pytest.fixture
def table(folder, tmp_path):
    """A table of the user's own, and what it looked like."""
    path = tmp_path / "sat.csv"
    path.write_bytes((folder / "rows.csv").read_bytes())
    return path


def links_to(path):
    hard, soft, chain = path.with_name("hard.ks"), path.with_name("soft.ks"), path.with_name("chain.ks")
    os.link(path, hard)
    soft.symlink_to(path)
    chain.symlink_to(soft)
    return [hard, soft, chain]


def test_a_model_is_not_written_over_the_table_by_any_name(table):
    before = table.read_bytes()
    for out in (table, *links_to(table)):
        for force in ([], ["--force"]):
            assert_fails(run("fit", table, "-o", out, *force), "it would be lost", code=2)
    assert table.read_bytes() == before


def test_scores_are_not_written_over_the_table_or_the_model(table, folder, tmp_path):
    before = table.read_bytes()
    model = tmp_path / "model.csv"  # a model by a misleading name
    model.write_bytes((folder / "model.ks").read_bytes())
    for command in ("transform", "score"):
        for out in (table, model):
            assert_fails(run(command, model, table, "-o", out, "--force"), "it would be lost", code=2)
    assert run("transform", model, table, "-o", tmp_path / "scores.csv").exit_code == 0
    assert_fails(run("inverse", model, tmp_path / "scores.csv", "-o", tmp_path / "scores.csv"), "lost", code=2)
    assert_fails(run("compress", model, "-s", 4, "-o", model, "--force"), "it would be lost", code=2)
    assert_fails(run("report", table, "-o", table, "--force"), "it would be lost", code=2)
    assert_fails(run("score", model, table, "--normal", tmp_path / "scores.csv", "-o", tmp_path / "scores.csv"), code=1)
    assert table.read_bytes() == before
    assert kernelsieve.load(model).n_features_in_ == 4


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.parquet", "x.npy", "x.npz", "x.csv.gz", "X.CSV"])
def test_a_model_is_not_written_under_the_name_of_a_table(name, table, tmp_path):
    assert_fails(run("fit", table, "-o", tmp_path / name), "a model is no", ".ks", code=2)
    assert_fails(run("fit", table, "-o", tmp_path / name, "--force"), "a model is no", code=2)
    assert not (tmp_path / name).exists()


def test_files_of_others_are_replaced_only_by_force(table, folder, tmp_path):
    thesis = tmp_path / "thesis.ks"
    thesis.write_text("years of work")
    assert_fails(run("fit", table, "-s", 5, "-o", thesis), "cannot be recognised as a model", "--force", code=2)
    assert thesis.read_text() == "years of work"
    assert run("fit", table, "-s", 5, "-o", thesis, "--force").exit_code == 0
    assert run("fit", table, "-s", 5, "-o", thesis).exit_code == 0  # now it is a model
    for name in ("mine.csv", "mine.parquet", "mine.npz", "mine.npy"):
        mine = tmp_path / name
        {
            ".csv": lambda path: path.write_text("sparsekernelpca0,note\n1,mine\n"),
            ".parquet": lambda path: pl.DataFrame({"a": [1.0]}).write_parquet(path),
            ".npz": lambda path: np.savez(path, X=np.ones((2, 3))),
            ".npy": lambda path: np.save(path, np.ones((2, 3))),
        }[mine.suffix](mine)
        before = mine.read_bytes()
        transform = ["transform", folder / "model.ks", table, "-o", mine]
        assert_fails(run(*transform), name, "--force", code=2)
        assert mine.read_bytes() == before
        assert run(*transform, "--force").exit_code == 0
        assert run(*transform).exit_code == (2 if name == "mine.npy" else 0)  # which holds nothing but numbers
    page = tmp_path / "page.html"
    page.write_text("<html>my page</html>")
    assert_fails(run("report", table, "-o", page), "page.html", "--force", code=2)
    assert_fails(run("demo", "--out", page), "page.html", "--force", code=2)
    picture = tmp_path / "photo.png"
    picture.write_bytes(b"\x89PNG of a child")
    assert_fails(run("plot", folder / "model.ks", table, "-o", picture), "photo.png", "--force", code=2)
    assert picture.read_bytes() == b"\x89PNG of a child"


def test_a_table_that_gained_columns_since_is_not_replaced(table, folder, tmp_path):
    scores = tmp_path / "scores.csv"
    transform = ["transform", folder / "model.ks", table, "-o", scores]
    assert run(*transform).exit_code == 0
    assert run(*transform).exit_code == 0
    frame = pl.read_csv(scores).with_columns(comment=pl.lit("looked at by hand"))
    frame.write_csv(scores)
    assert_fails(run(*transform), "--force", code=2)
    assert pl.read_csv(scores).equals(frame)


KILLED = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background is started without
from kernelsieve.cli import main, outputs
slow = outputs._write_csv
def write(file, frames, separator):
    done = slow(file, frames, separator)
    file.flush()
    print("half way", flush=True)
    time.sleep(60)
    return done
outputs._write_csv = write
main()
"""


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_command_leaves_the_old_file_and_the_next_one_tidies_up(by, table, folder, tmp_path):
    (tmp_path / "out").mkdir()
    scores = tmp_path / "out" / "scores.csv"
    transform = ["transform", str(folder / "model.ks"), str(table), "-o", str(scores)]
    assert run(*transform).exit_code == 0
    before = scores.read_bytes()
    command = [sys.executable, "-c", KILLED, *transform]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        assert process.stdout.readline() == b"half way\n"
        process.send_signal(by)
        process.communicate()
    assert process.returncode == {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}[by]
    assert scores.read_bytes() == before
    assert len(list(scores.parent.iterdir())) == (2 if by == signal.SIGKILL else 1)
    assert run(*transform).exit_code == 0
    assert [path.name for path in scores.parent.iterdir()] == ["scores.csv"]


def test_pipes_and_devices_are_refused_at_once(folder, tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    start = time.perf_counter()
    assert_fails(run("fit", tmp_path / "pipe.csv", "-o", tmp_path / "m.ks"), "pipe", "standard input")
    assert_fails(run("fit", "/dev/zero", "-o", tmp_path / "m.ks"), "device")
    assert_fails(run("info", tmp_path / "pipe.csv"), "not a model file")
    assert_fails(run("transform", folder / "model.ks", tmp_path / "pipe.csv", "-o", tmp_path / "o.csv"), "pipe")
    assert_fails(run("transform", folder / "model.ks", folder / "rows.csv", "-o", tmp_path / "pipe.csv"), "plain file")
    assert time.perf_counter() - start < 20


def test_a_full_disk_is_said_in_one_line(folder):
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    for arguments in (["--help"], ["info", folder / "model.ks"], ["--version"]):
        with open("/dev/full", "wb") as full:
            command = [sys.executable, "-c", "from kernelsieve.cli import main; main()", *map(str, arguments)]
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        assert done.returncode == 1
        assert done.stderr.startswith("error: ")
        assert done.stderr.endswith("No space left on device\n")
        assert done.stderr.count("\n") == 1


def test_a_reader_that_has_seen_enough_is_no_error(folder):
    done = shell("info", folder / "model.ks")
    assert done.returncode == 0
    command = f"{sys.executable} -c 'from kernelsieve.cli import main; main()' --help | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
