"""The papers' experiments in their shortened form: they run, open with verdicts, and leave nothing of a paper out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import experiments
from experiments.datasets import MissingData, load_file
from experiments.report import CHANGED, NO, OUTCOMES, YES, Report, write_index
from experiments.running import EXPERIMENTS, PAPERS, run_one

# Every figure, table, algorithm and numbered claim of the seed papers, as a reader lists them.
ITEMS = {
    "wang_tanaka_2016": [
        "Algorithm 1",
        "Fig. 1",
        "Fig. 2",
        "Fig. 3",
        "Fig. 4",
        "equation (10)",
        "section II-C",
        "section III, J[P, Q]",
        "section I on [6]",
        "section I on [12]",
    ],
    "tipping_2000": [
        "Fig. 1",
        "Fig. 2",
        "Fig. 3",
        "Fig. 4, left",
        "Fig. 4, right",
        "EM rule",
        "fast rule",
        "remark",
        "section 4",
    ],
    "wang_cheng_2012": ["Fig. 1(a)", "Fig. 1(b)", "Fig. 1(c)", "Fig. 2", "Fig. 3", "Table 1", "Theorems 1 and 2"],
    "kernel_pca_lecture": ["slides 4-6", "slide 14", "slide 15", "slides 8-13", "slides 16-17", "slide 19", "summary"],
    "xu_2011": [
        "Table 1",
        "Table 3",
        "Table 4",
        "Table 8",
        "Figs. 1-3",
        "section 3.3",
        "section 5",
        "section 1 on [18]",
    ],
    "vollgraf_obermayer_2006": ["section I on [9]"],
    "zou_2006": ["section 5.2", "section 5.1"],
}
FILES = {"wang_tanaka_2016": "mnist", "xu_2011": "ida_heart", "zou_2006": "pitprops"}


@pytest.fixture(scope="module", params=PAPERS)
def page(request, tmp_path_factory):
    """(name, folder, text) of one paper's page, made in the shortened form."""
    if request.param in FILES:
        try:
            load_file(FILES[request.param])
        except MissingData as missing:
            pytest.skip(f"needs {missing}")
    folder = tmp_path_factory.mktemp("papers")
    text, _ = run_one(request.param, folder, quick=True, echo=False)
    return request.param, folder, text


def test_a_page_opens_with_verdicts_on_all_that_its_paper_has(page):
    name, folder, text = page
    title, _, heading = text.splitlines()[:3]
    assert title.startswith("# ")
    assert heading == "## Verdicts"
    verdicts = json.loads((folder / f"{name}.json").read_text())["verdicts"]
    for item in ITEMS[name]:
        assert any(item in verdict["item"] for verdict in verdicts), item
    for verdict in verdicts:
        assert verdict["outcome"] in OUTCOMES
        assert re.search(r"\d", verdict["found"]), verdict
        assert verdict["tried"]
        assert "nan" not in re.split(r"\W+", verdict["found"].replace("standard error nan", ""))
    for picture in re.findall(r"\]\((\S+\.png)\)", text):
        assert (folder / picture).stat().st_size > 1000
    index = write_index(folder, EXPERIMENTS).read_text()
    assert all(item in index for item in ITEMS[name])


def test_the_index_is_not_shorter_than_the_list_of_papers():
    assert set(ITEMS) == set(PAPERS) <= set(EXPERIMENTS)


def test_the_command_runs_experiments_side_by_side_and_names_what_is_missing(tmp_path):
    empty, out = tmp_path / "data", tmp_path / "out"
    empty.mkdir()
    names = ["tennessee_eastman", "tennessee_eastman"]  # two, so that processes are started
    command = [sys.executable, "-m", "experiments", "--jobs", "2", "--data", empty, "--out", out, *names]
    done = subprocess.run(command, cwd=Path(experiments.__file__).parents[1], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Skipped: needs tep_braatz.npz" in (out / "tennessee_eastman.md").read_text()
    assert (out / "index.md").is_file()


def test_yes_is_only_said_of_what_holds_for_all(tmp_path):
    report = Report("page", tmp_path, echo=False)
    report.title("A page")
    report.verdict("Fig. 1", "all seeds", found="1", holds=[True, True], tried="2 seeds")
    report.verdict("Fig. 2", "some seeds", found="9", holds=[True, False, False], tried="3 seeds", printed="9")
    report.verdict("Fig. 3", "after a change", found="3", holds=np.array([True]).tolist(), change="another width")
    assert [verdict.outcome for verdict in report.verdicts] == [YES, NO, CHANGED]
    report.text("the rest")
    lines = report.write().read_text().splitlines()
    assert lines[:3] == ["# A page", "", "## Verdicts"]
    assert "| Fig. 2 | some seeds | 9 | 9; holds for 1 of 3 | 3 seeds | **does not reproduce** |" in lines
    assert lines[-1] == "the rest"
    index = write_index(tmp_path, ["page", "missing"]).read_text()
    assert "| [A page](page.md) | 1 | 1 | 1 |" in index
    assert "**reproduces with a stated change**: another width" in index


def test_a_pipe_in_a_statement_does_not_break_the_table(tmp_path):
    report = Report("page", tmp_path, echo=False)
    report.verdict("Fig. 1", "|a| = 1", found="1", holds=True)
    assert r"\|a\| = 1" in report.write().read_text()


def test_standard_deviations_over_test_subsets_are_those_of_drawn_subsets():
    """The formula of the report against subsets drawn outright: the first is given, the others are random rows."""
    from experiments.datasets import Realisations
    from experiments.xu_2011.errors import expected

    rng = np.random.default_rng(0)
    mistakes = rng.random(300) < 0.15
    test = np.flatnonzero(mistakes)[:20].tolist() + np.flatnonzero(~mistakes)[:80].tolist()
    data = Realisations("heart", np.zeros((300, 1)), np.zeros(300), np.zeros((1, 1), int), np.array([test]))
    mean, deviation = expected(mistakes, data)
    means, variances = [], []
    for _ in range(4000):
        errors = [100 * mistakes[test].mean()]
        errors += [100 * mistakes[rng.permutation(300)[:100]].mean() for _ in range(9)]
        means.append(np.mean(errors[1:]))
        variances.append(np.var(errors[1:]))
    # of 100 subsets 99 are random: their mean and spread, and the first
    assert mean == pytest.approx(0.99 * np.mean(means) + 0.01 * 20, abs=0.05)
    spread = np.mean(variances) * 9 / 8  # unbiased
    assert deviation**2 == pytest.approx(0.99 * spread + 0.01 * 0.99 * (20 - np.mean(means)) ** 2, rel=0.03)
