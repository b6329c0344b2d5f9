"""Help, and the program as it is called."""

import subprocess
import sys

import pytest
from calling import program, run, shell

import kernelsieve


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


def test_how_a_command_ends_that_fails_or_is_misused(folder, tmp_path):
    failed = program("info", tmp_path / "absent.ks")
    assert (failed.returncode, failed.stdout) == (1, b"")
    assert failed.stderr.startswith(b"error: ")
    assert failed.stderr.count(b"\n") == 1
    misused = program("fit", folder / "rows.csv")
    assert misused.returncode == 2
    assert b"--output" in misused.stderr
    assert b"Traceback" not in misused.stderr


@pytest.mark.parametrize("missing", ["typer", "rich", "polars"])
def test_without_the_extra_says_what_to_install(missing):
    program = f"import sys; sys.modules[{missing!r}] = None; from kernelsieve.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr == f"error: the command line needs {missing}: pip install {missing.replace(',', '')}\n"
