"""The page of a monitor: charts, alarms with their causes, the limit and how precisely it is known."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest

import kernelsieve
from kernelsieve import KernelMonitor

pd = pytest.importorskip("pandas")


def plant(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    load = rng.standard_normal(n_rows)
    frame = pd.DataFrame({"when": pd.date_range("2024-03-01", periods=n_rows, freq="3h"), "flow <b>": load})
    frame["level"] = 2 * load + 0.1 * rng.standard_normal(n_rows)
    frame["state"] = np.where(load > 1, "high", "low")
    frame.loc[::40, "level"] = np.nan
    return frame


@pytest.fixture(scope="module")
def monitor():
    return KernelMonitor(5, 20, false_alarm_rate=0.02, random_state=0).fit(plant(400))


@pytest.fixture(scope="module")
def faulty():
    rows = plant(200, seed=1).assign(when=pd.date_range("2024-06-01", periods=200, freq="3h"))
    rows.loc[60:65, "level"] = 30.0
    rows.loc[100, "state"] = None
    return rows


def test_the_page_holds_what_update_says(monitor, faulty):
    page = kernelsieve.report(monitor, faulty, source="faulty.csv", model_file="plant.ks")
    before = monitor._live
    records = monitor.update(faulty)
    monitor._live = before
    found = page.contents
    assert found["n_alarms"] == sum(record.alarm for record in records)
    assert found["n_missing"] == 1
    stretch = next(one for one in found["stretches"] if one["first"] <= 61 <= one["last"])
    assert "2024-06-08 12:00" in stretch["dates"]
    worst = records[stretch["worst"] - 1]
    assert stretch["causes"] == list(worst.causes)
    assert stretch["times"] == pytest.approx(worst.spe / worst.limit)
    assert found["causes"][0]["name"] == "level"
    spe = np.array([np.nan if value is None else value for value in found["charts"]["spe"]["values"]])
    np.testing.assert_allclose(spe, [record.spe for record in records], rtol=1e-5)  # six digits are drawn
    assert found["charts"]["spe"]["alarms"] == [row for row, record in enumerate(records) if record.alarm]
    assert found["interval"] == pytest.approx(monitor.false_alarm_interval_, rel=1e-5)
    assert repr(page).startswith("<Report 'faulty.csv'")


def test_the_page_is_whole_escaped_and_runs_nothing(monitor, faulty, tmp_path):
    kernelsieve.report(monitor, faulty, source="faulty.csv", model_file="plant.ks").save(tmp_path / "m.html")
    text = (tmp_path / "m.html").read_text()
    for heading in (
        "Over time",
        "Alarms, and why",
        "Which columns the alarms come from",
        "The limit, and how precisely it is known",
    ):
        assert f"<h2>{heading}</h2>" in text
    assert "flow &lt;b&gt;" in text
    assert "<b>" not in re.sub(r"<li><b>[\d.,]+(\s%)?</b>", "", text)
    assert "<script" not in text
    assert "default-src 'none'" in text
    assert "kernelsieve.load(&#x27;plant.ks&#x27;)" in text
    assert "rows not judged (missing values)" in text
    assert "NaN" not in text
    assert "nan" not in re.sub(r"[a-z]*nan[a-z]+", "", text.lower())


def test_calm_rows_arrays_and_long_tables_have_a_page(faulty):
    rng = np.random.default_rng(0)
    found = KernelMonitor(3, 15, kernel="linear", random_state=0).fit(rng.standard_normal((300, 5)))
    calm = kernelsieve.report(found, np.zeros((4, 5)))
    assert "No row is flagged." in calm.html
    wild = kernelsieve.report(found, 1e3 * rng.standard_normal((5000, 5)))
    assert "logarithmic axis" in wild.html
    assert len(wild.contents["charts"]["spe"]["values"]) == 1000
    assert len(wild.contents["stretches"]) == 1
    gaps = kernelsieve.report(found, np.full((3, 5), np.nan))
    assert gaps.contents["n_missing"] == 3
    assert "nan" not in gaps.html.replace("font-variant-numeric", "")
    with pytest.raises(ValueError, match="not fitted"):
        kernelsieve.report(KernelMonitor(), np.zeros((4, 5)))


def test_report_on_a_saved_monitor_is_its_page(monitor, faulty, tmp_path):
    testing = pytest.importorskip("typer.testing")
    from kernelsieve.cli.commands import app

    monitor.save(tmp_path / "plant.ks")
    faulty.to_csv(tmp_path / "faulty.csv", index=False)
    page = tmp_path / "m.html"
    arguments = ["report", tmp_path / "faulty.csv", "--model", tmp_path / "plant.ks", "-o", page]
    ended = testing.CliRunner().invoke(app, [str(one) for one in arguments])
    assert ended.exit_code == 0, ended.output
    assert "open it in a browser" in ended.output
    assert "Alarms, and why" in page.read_text()


def test_the_code_reads_the_file_as_the_command_did(tmp_path, monkeypatch):
    pytest.importorskip("polars")
    from calling import run

    rows = plant(300)
    for name, part in (("normal.csv", rows[:200]), ("new.csv", rows[200:])):
        part.to_csv(tmp_path / name, header=False, index=False)
    monkeypatch.chdir(tmp_path)
    reading = ["--no-header", "--names", "when,flow,level,state"]
    assert run("monitor", "normal.csv", "new.csv", *reading, "-x", "state", "--save", "m.ks").exit_code in (0, 3)
    assert run("report", "new.csv", "--model", "m.ks", *reading, "-o", "page.html").exit_code == 0
    code = (tmp_path / "page.html").read_text().split("<pre>")[1].split("</pre>")[0]
    found = {}
    exec(html.unescape(code), found)
    assert list(found["X"].columns) == ["when", "flow", "level"]
    assert len(found["X"]) == 100


def test_row_numbers_have_no_thousands_separator(monitor):
    rows = plant(1200, seed=2)
    rows.loc[1100:1105, "level"] = 30.0
    page = kernelsieve.report(monitor, rows).html
    assert "<h3>rows 1101 to 1106</h3>" in page
