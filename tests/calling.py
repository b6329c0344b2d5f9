"""The command line, called from tests; what it wrote, read back."""

import io
import signal
import subprocess
import sys
from unittest import mock

import numpy as np
import polars as pl
from typer.testing import CliRunner

import kernelsieve
from kernelsieve.cli import main
from kernelsieve.cli.commands import app

COLUMNS = ["a", "b", "c", "d"]
EXTENSIONS = [".csv", ".tsv", ".parquet", ".npy", ".npz"]


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})


def program(*arguments, given=b""):
    """The whole program, from its entry point to its exit code, in this process; its output as bytes.

    Unlike `run` it leaves escape sequences in the output, and standard input and output are streams of bytes.
    """
    given, said, complained = (io.TextIOWrapper(io.BytesIO(start), encoding="utf-8") for start in (given, b"", b""))
    before = signal.getsignal(signal.SIGTERM)  # which the program sets
    with (
        mock.patch.multiple(sys, argv=["kernelsieve", *map(str, arguments)]),
        mock.patch.multiple(sys, stdin=given, stdout=said, stderr=complained),
    ):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        finally:
            signal.signal(signal.SIGTERM, before)
            said.flush()
            complained.flush()
    return subprocess.CompletedProcess(arguments, code, said.buffer.getvalue(), complained.buffer.getvalue())


def shell(*arguments, **keywords):
    """The program in an interpreter of its own, which takes a second or two to start."""
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


def fit_text(text, tmp_path, *options, name="rows.csv"):
    (tmp_path / name).write_text(text)
    return run("fit", tmp_path / name, "-c", 1, "-s", 3, "-o", tmp_path / "model.ks", *options)


def core(path):
    """The kernel model at the end of the pipeline in a file."""
    model = kernelsieve.load(path)
    return model[-1] if hasattr(model, "steps") else model
