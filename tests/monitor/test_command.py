"""What `kernelsieve monitor` and the commands beside it say of monitors, and of rows that are too few."""

from __future__ import annotations

import json

import numpy as np
import pytest
from calling import run
from monitor_cases import NAMES, plant

from kernelsieve import load

pl = pytest.importorskip("polars")


def written(path, rows):
    pl.DataFrame(rows, schema=NAMES).write_csv(path)
    return path


@pytest.fixture
def normal(tmp_path):
    return written(tmp_path / "normal.csv", plant(300))


@pytest.fixture
def calm(tmp_path):
    return written(tmp_path / "calm.csv", np.zeros((5, 4)))


def test_info_describes_a_saved_monitor(normal, calm, tmp_path):
    saved = tmp_path / "plant.ks"
    options = ["-c", 4, "-s", 20, "--lags", 2, "--smoothing", 0.5, "--rule", "2/3", "-a", 0.1]
    assert run("monitor", normal, calm, *options, "--save", saved).exit_code == 0
    model = load(saved)
    shown = run("info", saved)
    assert shown.exit_code == 0, shown.output
    cells = [line.split("│") for line in shown.output.splitlines() if "│" in line]
    lines = {name.strip(): value.strip() for _, name, value, _ in cells}
    assert lines["model"] == "KernelMonitor"
    assert lines["kernel"].startswith("rbf")
    assert lines["components"] == "4"
    assert lines["support"].startswith("20 ")
    assert lines["columns"] == "4: flow, level, heat, steam"
    assert f"SPE {model.limits_['spe']:.4g}, T2 {model.limits_['t2']:.4g}" in lines["limits"]
    assert lines["false alarms"].startswith(f"{model.false_alarm_rate_:.1%} of normal rows")
    assert lines["lags"] == "2"
    assert lines["smoothing"].startswith("0.5")
    assert lines["rule"].startswith("2 of the last 3 rows")
    told = json.loads(run("info", saved, "--json").stdout)
    assert told["limits"] == model.limits_
    assert told["columns"] == NAMES
    assert (told["n_components"], told["n_support"], told["lags"], told["smoothing"]) == (4, 20, 2, 0.5)
    assert told["alarm_rule"] == [2, 3]
    assert told["false_alarm_rate"] == model.false_alarm_rate_


def test_a_table_without_one_row_that_can_be_judged_has_an_exit_code_of_its_own(normal, calm, tmp_path):
    gaps = tmp_path / "gaps.csv"
    gaps.write_text("flow,level,heat,steam\n1,,3,4\n,2,3,4\n")
    short = ["--lags", 5]  # and five rows to judge
    for new, options, said in ((gaps, [], "2 rows"), (calm, short, "fewer than 5 whole rows before it (--lags 5)")):
        ended = run("monitor", normal, new, *options)
        assert ended.exit_code == 4
        assert ended.stderr.startswith("error: ")
        assert "could be judged" in ended.stderr
        assert said in ended.stderr
        told = run("monitor", normal, new, *options, "--json")
        assert told.exit_code == 4
        assert json.loads(told.stdout)["judged"] == 0
    assert run("monitor", normal, calm, "--lags", 4).exit_code == 0  # one row can be
    assert "4: not one row could be judged" in " ".join(run("monitor", "--help").output.split())


@pytest.mark.parametrize("kernel", ["linear", "cosine"])
def test_kernels_linear_in_the_rows_take_fewer_components_than_columns_or_refuse(kernel, normal, tmp_path):
    new, saved = written(tmp_path / "new.csv", plant(400, seed=3)), tmp_path / "plant.ks"
    for options, n_components in (([], 2), (["--lags", 1], 4), (["-c", 3], 3)):
        ended = run("monitor", normal, new, "-k", kernel, *options, "--json", "--save", saved, "--force")
        assert ended.exit_code == 3
        assert "means nothing" not in ended.output
        assert load(saved).n_components_ == n_components
        assert json.loads(ended.stdout)["alarms"] < 0.12 * 400  # normal rows, 5 % of which may alarm
    ended = run("monitor", normal, new, "-k", kernel, "-c", 4)
    assert ended.exit_code == 1
    assert f"a {kernel} kernel of 4 columns that vary has no more than 4. Give --components 2" in ended.stderr
    ended = run("monitor", normal, new, "-k", kernel, "--columns", "flow")
    assert ended.exit_code == 1
    assert "1 column that varies has no more than 1. Give more columns" in ended.stderr


def test_too_few_normal_rows_are_told_in_the_words_of_the_command_line(calm, tmp_path):
    few = written(tmp_path / "few.csv", plant(4))
    ended = run("monitor", few, calm)
    assert ended.exit_code == 1
    assert ended.stderr.startswith("error: 4 rows are too few: each of 5 parts held out in turn needs a row.")
    assert ended.stderr.endswith("Give more rows (at least 5)\n")
    lagged = run("monitor", few, calm, "--lags", 2)
    assert lagged.exit_code == 1
    assert "a row of 3 consecutive rows (--lags 2), and only 2 such windows are left" in lagged.stderr
    assert lagged.stderr.endswith("Give more rows (at least 15), or fewer lags\n")
    told = run("monitor", written(tmp_path / "more.csv", plant(12)), calm).stderr
    assert "12 held-out rows are too few for --false-alarm-rate 0.05" in told


@pytest.mark.parametrize("smoothing", [[], ["--smoothing", 0.5]])
def test_a_monitor_that_no_far_row_alarms_says_so_whenever_it_judges(smoothing, normal, tmp_path):
    """A kernel so narrow that every normal row is alone, and then a row of 9999s."""
    saved, page = tmp_path / "plant.ks", tmp_path / "page.html"
    far = written(tmp_path / "far.csv", np.full((1, 4), 9999.0))
    options = ["-g", 1e6, "-c", 4, "-s", 20, *smoothing]
    blind = "a row unlike all others would not alarm"
    for judging in ([normal, far, *options, "--save", saved], [saved, far], [saved, far, "-o", "-"]):
        ended = run("monitor", *judging)
        assert ended.exit_code == 0
        assert ended.stderr.count(blind) == 1
        assert blind not in ended.stdout
    for judging in ([normal, far, *options], [saved, far]):
        told = json.loads(run("monitor", *judging, "--json").stdout)
        assert told["alarms"] == 0
        assert [blind in note for note in told["notes"]] == [True]
    assert run("report", far, "--model", saved, "-o", page).exit_code == 0
    assert blind in page.read_text()
    assert "a row unlike all others" in run("info", saved).stdout


def test_a_share_of_one_is_refused_as_the_message_says_and_a_weight_of_one_is_taken(normal, calm):
    refused = run("monitor", normal, calm, "-a", 1)
    assert refused.exit_code == 2
    assert "1 is not a share: give a number above 0 and below 1" in " ".join(refused.stderr.replace("│", " ").split())
    assert run("monitor", normal, calm, "--smoothing", 1, "-c", 4, "-s", 20).exit_code == 0
    refused = run("monitor", normal, calm, "--smoothing", 1.5)
    assert refused.exit_code == 2
    assert "at most 1" in refused.stderr


def test_score_warns_of_a_limit_from_few_normal_rows(normal, calm, tmp_path):
    model = tmp_path / "model.ks"
    assert run("fit", normal, "-c", 2, "-s", 10, "-o", model).exit_code == 0
    for n_rows in (1, 3, 59):
        few = written(tmp_path / "few.csv", plant(n_rows, seed=5))
        told = run("score", model, calm, "--normal", few).stderr
        assert f"warning: a limit from {n_rows} normal row" in told
        assert "means little" in told
        if n_rows == 1:  # above a single row lies any share of the others, all equally likely
            assert "from 5.0 % to 95.0 % of normal rows" in told
    assert "means little" not in run("score", model, calm, "--normal", normal).stderr
