"""What people see: charts and the command line."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from calling import run
from monitor_cases import NAMES, plant

from kernelsieve import KernelMonitor, SparseKernelPCA, load, plots

pl = pytest.importorskip("polars")
matplotlib = pytest.importorskip("matplotlib")
typer_testing = pytest.importorskip("typer.testing")
matplotlib.use("Agg")

command = partial(run, "monitor")


@pytest.fixture(scope="module")
def monitor():
    return KernelMonitor(4, 20, random_state=0).fit(pl.DataFrame(plant(300), schema=NAMES))


@pytest.fixture
def faulty():
    rows = plant(60, seed=1)
    rows[40:, 2] += 8
    return pl.DataFrame(rows, schema=NAMES)


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def test_the_chart_shows_both_statistics_their_limits_the_alarms_and_the_fault(monitor, faulty):
    upper, lower = plots.monitor_chart(monitor, faulty, fault=40)
    found = monitor.statistics(faulty)
    lines = {line.get_label(): line for line in upper.get_lines()}
    np.testing.assert_allclose(lines["SPE"].get_ydata(), found.spe)
    np.testing.assert_allclose(lines["limit"].get_ydata(), monitor.limits_["spe"])
    marked = next(line for name, line in lines.items() if name.startswith("alarm"))
    assert marked.get_xdata().tolist() == np.flatnonzero(found.alarm).tolist()
    assert len(upper.patches) == 1
    assert lower.get_ylabel() == "T²"
    figure, axes = matplotlib.pyplot.subplots(2)
    assert plots.monitor_chart(monitor, faulty, fault=(40, 50), axes=axes)[0].figure is figure


@pytest.mark.parametrize("options", [{}, {"lags": 2}, {"smoothing": 0.3}, {"lags": 1, "smoothing": 0.3}])
@pytest.mark.parametrize("kind", ["polars", "pandas", "numpy"])
def test_rows_with_missing_values_are_gaps_in_the_chart(options, kind, faulty):
    given = KernelMonitor(4, 20, random_state=0, **options).fit(plant(300))
    values = faulty.to_numpy().copy()
    values[[0, 7, 20, 21, 45], [0, 3, 1, 2, 2]] = np.nan
    rows = {"numpy": lambda v: v, "polars": pl.DataFrame, "pandas": pytest.importorskip("pandas").DataFrame}[kind](
        values
    )
    upper, lower = plots.monitor_chart(given, rows)
    records = given.restart().update(values)
    for ax, name in ((upper, "spe"), (lower, "t2")):
        drawn = ax.get_lines()[0].get_ydata()
        np.testing.assert_allclose(drawn, [getattr(record, name) for record in records], rtol=1e-9)
        assert np.isnan(drawn[[0, 7, 20, 21, 45]]).all()
    assert given.smoothing == options.get("smoothing")
    nothing = plots.monitor_chart(given, np.full((6, 4), np.nan))
    assert np.isnan(nothing[0].get_lines()[0].get_ydata()).all()


def test_the_chart_needs_two_axes_and_a_fault_within_the_rows(monitor, faulty):
    axes = matplotlib.pyplot.figure().subplots(3)
    for given in ([axes[0]], axes, axes[0]):
        with pytest.raises(ValueError, match="give two matplotlib Axes"):
            plots.monitor_chart(monitor, faulty, axes=given)
    for fault in (60, -1, (50, 40), (40, 61), (40, 40)):
        with pytest.raises(ValueError, match="no stretch of the 60 rows"):
            plots.monitor_chart(monitor, faulty, fault=fault)
    for fault in (np.int64(40), (0, 60), np.array([40, 50])):
        assert len(plots.monitor_chart(monitor, faulty, fault=fault)[0].patches) == 1


def test_contributions_are_bars_for_a_row_and_a_map_over_time(monitor, faulty):
    bars = plots.contributions(monitor, faulty, row=45)
    assert bars.get_yticklabels()[0].get_text() == "heat"
    shares = [patch.get_width() for patch in bars.patches]
    assert sum(shares) == pytest.approx(100)
    heat = plots.contributions(monitor, faulty)
    assert heat.images[0].get_array().shape == (4, 60)
    assert heat.get_yticklabels()[0].get_text() == "heat"
    with pytest.raises(ValueError, match="row=60 does not exist"):
        plots.contributions(monitor, faulty, row=60)


def test_sensitivity_and_traversal_are_drawn_with_names():
    frame = pl.DataFrame(plant(300), schema=NAMES)
    model = SparseKernelPCA(3, n_support=15, random_state=0).fit(frame)
    heat = plots.sensitivity(model, frame)
    assert [label.get_text() for label in heat.get_yticklabels()] == NAMES
    np.testing.assert_allclose(heat.images[0].get_array().max(axis=0), 1.0)
    lines = plots.traversal(model, 1)
    assert {text.get_text() for text in lines.get_legend().get_texts()} == set(NAMES)
    film = plots.traversal(model, 0, image_shape=(2, 2), n_steps=5)
    assert film.images[0].get_array().shape == (2, 14)
    with pytest.raises(ValueError, match="component=3 does not exist"):
        plots.traversal(model, 3)
    with pytest.raises(ValueError, match="image_shape"):
        plots.traversal(model, 0, image_shape=(3, 3))


@pytest.fixture
def files(tmp_path, faulty):
    pl.DataFrame(plant(300), schema=NAMES).write_csv(tmp_path / "normal.csv")
    faulty.select(NAMES[::-1]).with_row_index("id").write_csv(tmp_path / "new.csv")
    pl.DataFrame(np.zeros((5, 4)), schema=NAMES).write_csv(tmp_path / "calm.csv")
    return tmp_path


def test_the_command_writes_alarms_and_exits_with_three(files):
    ended = run(
        "monitor", files / "normal.csv", files / "new.csv", "-o", files / "alarms.csv", "--save", files / "plant.ks"
    )
    assert ended.exit_code == 3
    alarms = pl.read_csv(files / "alarms.csv")
    assert set(range(41, 61)) <= set(alarms["row"].to_list())
    assert alarms["alarm"].all()
    assert alarms.filter(pl.col("row") == 46)["causes"][0].startswith("heat")
    assert "heat" in ended.output
    again = command(files / "plant.ks", files / "calm.csv", "-o", files / "none.csv", "--all")
    assert again.exit_code == 0
    assert pl.read_csv(files / "none.csv")["row"].to_list() == [1, 2, 3, 4, 5]  # of this file, not since the fit
    assert load(files / "plant.ks").feature_names_in_.tolist() == NAMES


def test_a_saved_monitor_keeps_its_options_but_for_the_rule(files):
    command(files / "normal.csv", files / "calm.csv", "--save", files / "plant.ks")
    ended = command(files / "plant.ks", files / "new.csv", "--whiten", "-a", "0.01")
    assert ended.exit_code == 2
    assert "leave out --false-alarm-rate, --whiten" in " ".join(ended.output.replace("│", " ").split())
    assert command(files / "plant.ks", files / "new.csv", "--rule", "20/20").exit_code == 3
    assert command(files / "plant.ks", files / "new.csv", "--rule", "40/40").exit_code == 0


def test_large_tables_are_judged_in_blocks_that_join(files, monkeypatch):
    whole = run(
        "monitor", files / "normal.csv", files / "new.csv", "-o", files / "whole.csv", "--lags", 2, "--smoothing", 0.5
    )
    monkeypatch.setattr("kernelsieve.cli.monitor.JUDGED_ROWS", 7)
    parts = run(
        "monitor", files / "normal.csv", files / "new.csv", "-o", files / "parts.csv", "--lags", 2, "--smoothing", 0.5
    )
    assert whole.exit_code == parts.exit_code == 3
    one, other = (pl.read_csv(files / name) for name in ("whole.csv", "parts.csv"))
    assert one["row"].to_list() == other["row"].to_list()
    np.testing.assert_allclose(one["spe"], other["spe"], rtol=1e-9)
    command(files / "normal.csv", files / "new.csv", "-o", files / "parts.parquet")
    assert pl.read_parquet(files / "parts.parquet").columns == one.columns


def test_packed_tables_standard_input_and_json_are_taken_and_given(files):
    import gzip
    import json

    (files / "normal.csv.gz").write_bytes(gzip.compress((files / "normal.csv").read_bytes()))
    ended = command(files / "normal.csv.gz", files / "new.csv", "--json")
    assert ended.exit_code == 3
    facts = json.loads(ended.stdout)
    assert facts["rows"] == 60
    assert facts["alarms"] >= 20
    assert facts["first"][-1]["row"] <= 60
    from kernelsieve.cli.commands import app

    piped = typer_testing.CliRunner().invoke(
        app,
        ["monitor", str(files / "normal.csv"), "-", "-o", "-"],
        input=(files / "new.csv").read_text(),
    )
    assert piped.exit_code == 3
    assert piped.stdout.splitlines()[0] == "row,alarm,missing,causes,spe,limit,t2,t2_limit"
    assert len(piped.stdout.splitlines()) == facts["alarms"] + 1


def test_missing_values_are_no_alarm_and_rules_are_kept_to(files):
    text = (files / "calm.csv").read_text().splitlines()
    (files / "holes.csv").write_text("\n".join([text[0], "0,,0,0", *text[1:]]))
    ended = command(files / "normal.csv", files / "holes.csv")
    assert ended.exit_code == 0
    assert "1 not judged (missing values)" in ended.output
    alone = pl.DataFrame(np.vstack([np.zeros((3, 4)), [[0, 0, 30.0, 0]], np.zeros((3, 4))]), schema=NAMES)
    alone.write_csv(files / "alone.csv")
    assert command(files / "normal.csv", files / "alone.csv").exit_code == 3
    assert command(files / "normal.csv", files / "alone.csv", "--rule", "2/3").exit_code == 0


def test_the_command_refuses_what_would_lose_data_or_make_no_sense(files):
    assert command(files / "normal.csv", files / "new.csv", "--rule", "3/2").exit_code == 2
    before = (files / "new.csv").read_bytes()
    assert command(files / "normal.csv", files / "new.csv", "-o", files / "new.csv").exit_code == 2
    assert (files / "new.csv").read_bytes() == before
    assert command(files / "normal.csv", files / "nowhere.csv").exit_code == 1
    (files / "mine.csv").write_text("my,work\n1,2\n")
    assert command(files / "normal.csv", files / "new.csv", "-o", files / "mine.csv").exit_code == 2
    assert (files / "mine.csv").read_text() == "my,work\n1,2\n"
    assert command(files / "normal.csv", files / "new.csv", "--save", files / "plant.csv").exit_code == 2
    for option, value in (("--kernel", "sigmoid"), ("--gamma", "auto"), ("--smoothing", 0), ("-a", 1.5), ("-c", 0)):
        assert command(files / "normal.csv", files / "new.csv", option, value).exit_code == 2
    SparseKernelPCA(2, n_support=10, random_state=0).fit(plant(100)).save(files / "other.ks")
    ended = command(files / "other.ks", files / "new.csv")
    assert ended.exit_code == 1
    (files / "text.csv").write_text("flow,level,heat,steam\n1,2,3,warm\n")
    assert command(files / "normal.csv", files / "text.csv").exit_code == 1
    (files / "short.csv").write_text("flow,level\n1,2\n")
    assert command(files / "normal.csv", files / "short.csv").exit_code == 1
