"""The mutator: it changes what it says, keeps lines where they are, and names the lines whose tests judge a change."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .inside import MutantFinder
from .mutants import Names, mutants_of

SOURCE = '''"""Text with 1 + 1 in it."""
LIMIT = 4

def larger(values, least=0):
    """The larger of two: é."""
    if values[0] < least and not (
        values[1] > LIMIT
    ):
        raise ValueError(f"{values[0] + 1}")
    total = -max(values)
    total += 1.5
    return total
'''


@pytest.fixture
def package(tmp_path):
    (tmp_path / "module.py").write_text(SOURCE)
    return tmp_path


@pytest.fixture
def mutants(package):
    return [mutant for place in mutants_of(package / "module.py", package, Names(package)) for mutant in place]


def test_every_kind_of_change_is_made_and_no_word_is_changed(mutants):
    assert {(mutant.kind, mutant.before.split("\n")[0], mutant.after) for mutant in mutants} == {
        ("constant", "4", "9"),
        ("constant", "0", "1"),
        ("constant", "1", "2"),
        ("constant", "1.5", "4.0"),
        ("branch", "values[0] < least and not ( values[1] > LIMIT )", "False"),
        ("logic", "values[0] < least and not ( values[1] > LIMIT )", "values[0] < least or not values[1] > LIMIT"),
        ("comparison", "values[0] < least", "values[0] <= least"),
        ("comparison", "values[0] < least", "values[0] >= least"),
        ("sign", "not ( values[1] > LIMIT )", "values[1] > LIMIT"),
        ("comparison", "values[1] > LIMIT", "values[1] >= LIMIT"),
        ("comparison", "values[1] > LIMIT", "values[1] <= LIMIT"),
        ("sign", "-max(values)", "max(values)"),
        ("extreme", "max(values)", "min(values)"),
        ("update", "total += 1.5", "total -= 1.5"),
        ("return", "total", "None"),
    }


def test_how_numbers_are_copied_is_not_changed(package):
    (package / "module.py").write_text("def f(x):\n    return x.astype(int, copy=False).clip(min=3)\n")
    (constants,) = [m for place in mutants_of(package / "module.py", package, Names(package)) for m in place][1:]
    assert (constants.before, constants.after) == ("3", "4")


def test_a_mutant_is_the_file_with_one_change_and_as_many_lines(mutants):
    for mutant in mutants:
        changed = mutant.source(SOURCE.encode())
        assert changed != SOURCE.encode()
        assert changed.count(b"\n") == SOURCE.count("\n")
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(SOURCE))
        assert changed.decode().replace(mutant.after, "", 1) != SOURCE


def test_a_constant_is_judged_where_it_is_read_and_a_condition_where_it_stands(mutants):
    lines = {(m.line, m.kind): [line for _, line in m.lines] for m in mutants}
    assert lines[2, "constant"] == [7]
    assert lines[4, "constant"] == list(range(5, 13))
    assert lines[6, "branch"] == [6, 7, 8]
    assert lines[12, "return"] == [12]


def test_the_changed_module_is_what_is_imported(package, mutants, monkeypatch):
    mutant = next(mutant for mutant in mutants if mutant.kind == "extreme")
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    sys.meta_path.insert(0, MutantFinder("module", package / "module.py", mutant.source(SOURCE.encode())))
    import module

    monkeypatch.delitem(sys.modules, "module")
    assert module.larger([2, 3]) == 1.5 - 2
    assert not list(package.rglob("*.pyc"))


def test_the_whole_way_on_two_lines(tmp_path):
    """Lines are recorded, mutants made and judged: a test of values notices them, one that only calls does not."""
    package = tmp_path / "small"
    package.mkdir()
    line = "    return n_rows // max(1, size)\n"
    (package / "__init__.py").write_text(f"def strict(n_rows, size):\n{line}def lax(n_rows, size):\n{line}")
    tests = "from small import lax, strict\ndef test_strict():\n    assert [strict(7, 3), strict(2, 0)] == [2, 2]\n"
    (tmp_path / "test_small.py").write_text(f"{tests}def test_lax():\n    lax(7, 3)\n")
    (tmp_path / "test_nothing.py").write_text("import pytest\npytest.importorskip('no_such_package')\n")
    command = [
        sys.executable,
        "-m",
        "mutation",
        "--tests",
        *(str(tmp_path / f"test_{n}.py") for n in ("small", "nothing")),
    ]
    command += ["--at", "__init__.py:2", "__init__.py:4"]
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths, "MUTATED_PACKAGE": str(package)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"no test of {tmp_path / 'test_nothing.py'} passes" in done.stderr
    assert "test_small.py passes" not in done.stderr
    survivors = [row.split(" | ")[:2] for row in done.stdout.splitlines() if "`__init__" in row]
    assert {tuple(row) for row in survivors} == {
        ("| `__init__.py:4`", kind) for kind in ("constant", "extreme", "arithmetic", "return")
    }
