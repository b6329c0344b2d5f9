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


def test_the_whole_way_on_one_line(tmp_path):
    """A test that asks for the lengths of row ranges notices what changes them; one that only calls them does not."""
    threads = Path(__file__).parents[2] / "src" / "kernelsieve" / "threads.py"
    text = "return _cut(n_rows, max(1, -(-n_rows // size)))"
    line = next(n for n, found in enumerate(threads.read_text().splitlines(), 1) if text in found)
    call = "from kernelsieve.threads import row_ranges\ndef test_ranges():\n    found = row_ranges(7, 3)\n"
    (tmp_path / "test_strict.py").write_text(f"{call}    assert [r.stop for r in found] == [2, 4, 7]\n")
    (tmp_path / "test_lax.py").write_text(f"{call}    assert len(found) != 5\n")
    for name, survivors in (("strict", {"constant"}), ("lax", {"constant", "extreme", "arithmetic", "sign"})):
        command = [sys.executable, "-m", "mutation", "--tests", str(tmp_path / f"test_{name}.py")]
        command += ["--at", f"threads.py:{line}"]
        paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert {row.split(" | ")[1] for row in done.stdout.splitlines() if "`threads" in row} == survivors
