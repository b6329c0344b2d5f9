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
from experiments.datasets import IDA_NAMES, MissingData, load_file
from experiments.report import (
    CHANGED,
    CONTRADICTED,
    IN_SETTING,
    NOT_TESTABLE,
    OURS,
    OUTCOMES,
    UNEXPLAINED,
    YES,
    Report,
    Verdict,
    read_page,
    write_index,
)
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
    "wang_cheng_2012": [
        "Fig. 1(a)",
        "Fig. 1(b)",
        "Fig. 1(c)",
        "Fig. 2",
        "Fig. 3",
        "Table 1",
        "Theorems 1 and 2",
        "kernels",
    ],
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
    "tennessee_eastman": ["Lee et al. 2004, numerical example", "Lee et al. 2004, wastewater treatment"],
    "novelty": ["Hoffmann 2007, handwritten digits", "Hoffmann 2007, breast-cancer cytology", "two-dimensional"],
    "online": ["Honeine 2012", "Washizawa 2012", "Chin & Suter 2007"],
}
RECORDED = Path(experiments.__file__).with_name("results")
FILES = {"wang_tanaka_2016": "mnist", "xu_2011": "ida_heart", "zou_2006": "pitprops"}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_page_opens_with_verdicts_on_all_that_its_paper_has_and_says_what_was_recorded(name, tmp_path):
    """One test, so that no page is made twice: made in the shortened form, then held against the recorded results.

    They are of these experiments: the same statements, and every number that the site may quote.
    """
    if name in FILES:
        try:
            load_file(FILES[name])
        except MissingData as missing:
            pytest.skip(f"needs {missing}")
    text, _ = run_one(name, tmp_path, quick=True, echo=False)
    title, _, heading = text.splitlines()[:3]
    assert title.startswith("# ")
    assert heading == "## Verdicts"
    verdicts = json.loads((tmp_path / f"{name}.json").read_text())["verdicts"]
    for item in ITEMS[name]:
        assert any(item in verdict["item"] for verdict in verdicts), item
    for verdict in verdicts:
        assert verdict["outcome"] in OUTCOMES
        assert verdict["evidence"] or verdict["outcome"] == YES
        assert re.search(r"\d", verdict["found"]), verdict
        assert verdict["tried"]
        assert "nan" not in re.split(r"\W+", verdict["found"].replace("standard error nan", ""))
    for picture in re.findall(r"\]\((\S+\.png)\)", text):
        assert (tmp_path / picture).stat().st_size > 1000
    index = write_index(tmp_path, EXPERIMENTS).read_text()
    assert all(item in index for item in ITEMS[name])
    short, whole = read_page(tmp_path, name), read_page(RECORDED, name)
    assert whole is not None
    assert not whole["skipped"]
    assert short["title"] == whole["title"]
    assert set(short["facts"]) <= set(whole["facts"])
    said = {(verdict["item"], verdict["statement"]) for verdict in whole["verdicts"]}
    assert {(verdict["item"], verdict["statement"]) for verdict in short["verdicts"]} <= said


def test_the_index_is_not_shorter_than_the_list_of_papers():
    assert set(PAPERS) < set(ITEMS) == set(EXPERIMENTS)


def test_the_command_runs_experiments_side_by_side_and_names_what_is_missing(tmp_path):
    empty, out = tmp_path / "data", tmp_path / "out"
    empty.mkdir()
    names = ["tennessee_eastman", "zou_2006"]
    command = [sys.executable, "-m", "experiments", "--quick", "--jobs", "2", "--data", empty, "--out", out, *names]
    done = subprocess.run(command, cwd=Path(experiments.__file__).parents[1], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = (out / "tennessee_eastman.md").read_text()
    assert text.startswith("# Process monitoring")
    assert "Left out: Tennessee Eastman. It needs tep_braatz.npz" in text
    assert "left out of tennessee_eastman: Tennessee Eastman, which needs tep_braatz.npz" in done.stdout
    index = (out / "index.md").read_text()
    assert "This is the shortened form" in index
    assert "## Left out for want of data" in index
    whole = sum(len(read_page(RECORDED, name)["verdicts"]) for name in names)
    assert f"verdicts of the {whole} that a whole run with all data gives" in index


def test_a_verdict_names_its_class(tmp_path):
    report = Report("page", tmp_path, echo=False)
    report.title("A page")
    some, none = [True, False, False], [False, False]
    report.verdict("Fig. 1", "all seeds", found="1", holds=[True, True], tried="2 seeds")
    report.verdict("Fig. 2", "after a change", found="3", holds=np.array([True]).tolist(), change="another width")
    report.verdict("Fig. 3", "some", found="9", holds=some, printed="9", setting="on its own split", in_setting=True)
    report.verdict("Fig. 4", "none", found="0", holds=none, proof="put Q = 0", setting="nowhere", in_setting=False)
    report.verdict("Fig. 5", "unknown data", found="0", holds=none, needs="the series")
    report.verdict("Fig. 6", "ours", found="0", holds=[True], ours="the paper does not ask")
    report.verdict("Fig. 7", "nobody knows", found="0", holds=some, explored="six scalings")
    report.verdict("Fig. 8", "proved wrong, and yet it holds", found="0", holds=[True], proof="it cannot")
    classes = [YES, CHANGED, IN_SETTING, CONTRADICTED, NOT_TESTABLE, OURS, UNEXPLAINED, YES]
    assert [verdict.outcome for verdict in report.verdicts] == classes
    report.text("the rest")
    lines = report.write().read_text().splitlines()
    assert lines[:3] == ["# A page", "", "## Verdicts"]
    cells = "| Fig. 3 | some | 9 | 9; holds for 1 of 3 | one computation | **holds in the paper's setting** [2] |"
    assert cells in lines
    assert "2. Fig. 3, some: on its own split; elsewhere for 1 of 3." in lines
    assert "3. Fig. 4, none: put Q = 0." in lines
    assert lines[-1] == "the rest"
    index = write_index(tmp_path, ["page", "missing"]).read_text()
    assert "| [A page](page.md) | 2 | 1 | 1 | 1 | 1 | 1 | 1 | 8 |" in index
    assert "| all | 2 | 1 | 1 | 1 | 1 | 1 | 1 | 8 |" in index
    assert "shortened" not in index


@pytest.mark.parametrize("outcome", [outcome for outcome in OUTCOMES if outcome != YES])
def test_no_class_but_the_first_goes_without_evidence(outcome):
    with pytest.raises(ValueError, match="needs its evidence"):
        Verdict("Fig. 1", "a statement", "-", "1", "1 seed", outcome)


def test_a_page_without_verdicts_says_why(tmp_path):
    report = Report("page", tmp_path, echo=False)
    report.title("A page")
    report.skip("all of it", MissingData("rows.npz"))
    assert "No verdicts: all of it needs rows.npz." in report.write().read_text()
    assert "| A page | all of it | rows.npz |" in write_index(tmp_path, ["page"]).read_text()


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
    mean, deviation, error = expected(mistakes, data)
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
    # the mean of 9 random subsets varies by spread / 9; that of all 100, of which 99 are random, by 0.99 spread / 100
    assert error**2 == pytest.approx(0.99 * 9 * np.var(means) / 100, rel=0.1)


def test_ties_between_copies_of_rows_are_a_range():
    """By brute force over all ways to choose among the copies."""
    from itertools import product

    from experiments.xu_2011.errors import mistakes

    rows = np.array([[0.0], [0.0], [1.0], [2.0], [2.0], [0.1], [1.9], [1.1]])
    labels = np.array([1, -1, 1, -1, -1, 1, 1, -1])
    train = np.arange(5)
    found = mistakes(rows, labels, train)
    counts = []
    for first, last in product((0, 1), (3, 4)):  # which of the copies at 0 and at 2 is taken
        nearest = [first, first, 2, last, last, first, last, 2]
        counts.append(labels[nearest] != labels)
    np.testing.assert_array_equal(found.surely, np.all(counts, axis=0))
    np.testing.assert_array_equal(found.possibly, np.any(counts, axis=0))


def test_a_realisation_that_is_there_twice_counts_twice():
    from experiments.datasets import Realisations
    from experiments.xu_2011.errors import expected

    wrong = np.arange(40) % 4 == 0
    test = np.array([[0, 4, 8, 1], [1, 2, 3, 4], [8, 4, 0, 1]])
    data = Realisations("image", np.zeros((40, 1)), np.zeros(40), np.zeros((3, 1), int), test)
    assert expected(wrong, data)[0] == pytest.approx(100 * (18 / 20 * 0.25 + 2 / 20 * 0.75))


def test_comparators_of_the_robust_experiment_find_the_plane():
    """R1-PCA and principal component pursuit on rows of rank two with scattered outliers and single wrong entries."""
    from scipy.linalg import subspace_angles

    from experiments.wang_cheng_2012.outliers import pursuit, rotational_l1

    rng = np.random.default_rng(0)
    plane = np.linalg.qr(rng.standard_normal((30, 2)))[0].T
    rows = rng.standard_normal((120, 2)) @ plane * 5
    outlying, entries = rows.copy(), rows.copy()
    outlying[:6] = 20 * rng.standard_normal((6, 30))
    entries[rng.random(rows.shape) < 0.03] += 30
    assert np.degrees(subspace_angles(rotational_l1(outlying).T, plane.T)[0]) < 5
    assert np.degrees(subspace_angles(pursuit(entries).T, plane.T)[0]) < 1
    plain = np.linalg.svd(entries - entries.mean(axis=0), full_matrices=False)[2][:2]
    assert np.degrees(subspace_angles(plain.T, plane.T)[0]) > 10


def test_bagged_rows_are_those_with_most_votes_among_the_first_picks():
    from experiments.xu_2011.frontier import most_often

    picks = [np.array(each) for each in ([3, 1, 0], [3, 2, 1], [1, 3, 2])]
    assert most_often(picks, 1, 5).tolist() == [3]  # two votes of three
    assert most_often(picks, 2, 5).tolist() == [3, 1]  # three votes, two votes
    assert most_often(picks, 3, 5).tolist() == [3, 1, 2]  # 3 and 1 have three votes each, and 3 was earlier


def test_the_largest_sum_of_distances_is_where_a_node_adds_least_to_the_variance_of_all_features():
    """The proof on the page of ESKPCA: the features' variances by (6) sum to the trace of K'K'^T."""
    from kernelsieve import DissimilarityKernelPCA

    rows = np.vstack([np.random.default_rng(0).standard_normal((60, 2)), [[9.0, 0.0]]])
    gram = np.exp(-0.5 * ((rows[:, None] - rows) ** 2).sum(axis=2))
    counts = (gram**2).sum(axis=0)
    model = DissimilarityKernelPCA(5, n_nodes=6, gamma=0.5).fit(rows)
    nodes = model.support_vectors_
    np.testing.assert_array_equal(nodes[1], rows[np.argmin(counts)])  # the first node is the mean of the rows
    assert counts.min() == pytest.approx(1.0)
    cross = np.exp(-0.5 * ((nodes[:, None] - rows) ** 2).sum(axis=2))
    assert np.linalg.eigvalsh(cross @ cross.T).sum() == pytest.approx((cross**2).sum())


def test_the_penalty_of_the_printed_robust_algorithm_falls_to_zero():
    """The proof on the page: each step may copy the other's loadings, so that its penalty cannot be larger."""
    from experiments.datasets import contaminated
    from experiments.wang_cheng_2012.table_1 import GAMMA, LAMBDA, printed_component

    rows = contaminated(200, 20, 0, "clustered", 0).rows
    first = np.linalg.svd(rows, full_matrices=False)[2][0]
    ending = printed_component(rows, GAMMA)
    assert np.all(np.diff([LAMBDA + GAMMA * np.abs(first).sum(), *ending.penalties]) < 0)
    assert ending.penalties[-1] == 0
    assert ending.empty_after == len(ending.penalties) > 1


def test_the_file_about_data_names_every_file_that_is_read():
    folder = Path(experiments.__file__).parent
    named = (folder / "DATA.md").read_text()
    asked = {name for path in folder.rglob("*.py") for name in re.findall(r'load_file\("(\w+)"\)', path.read_text())}
    asked |= {f"ida_{name}" for name in IDA_NAMES}
    assert asked
    for name in asked:
        assert f"`{name}`" in named, name
    for name in EXPERIMENTS:
        assert f"| `{name}` |" in named, name
