"""Monitors of raw tables: text, gaps, calendars and counters in, causes by column and in words out."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from calling import run

import kernelsieve
from kernelsieve import KernelMonitor, TableEncoder, load, plots
from kernelsieve.kernels import RBF, Hamming
from kernelsieve.monitor.table import LEAST_SHARE, causes_of

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

USED = ["month", "day", "hour", "pm2.5", "DEWP", "TEMP", "PRES", "cbwd", "Iws", "Is", "Ir"]


def noise(n, memory, rng):
    """A stationary series that forgets by exp(-1/memory) an hour."""
    from scipy.signal import lfilter

    kept = np.exp(-1 / memory)
    return lfilter([np.sqrt(1 - kept**2)], [1, -kept], rng.standard_normal(n))


def run_sums(values, starts):
    """Sums that begin anew at each start."""
    total = np.cumsum(values)
    before = np.concatenate([[0.0], total[:-1]])
    return total - np.maximum.accumulate(np.where(starts, before, 0.0))


def pollution(first, last, every=4, seed=0):
    """A stand-in for Beijing's hourly PM2.5 (UCI), every few hours.

    Row number, calendar in four columns, season and day, weather that stays, wind summed up while its direction lasts,
    hours of snow and rain, gaps in the dust, and a little more of it each year.
    """
    when = pd.date_range(f"{first}-01-01", f"{last}-12-31 23:00", freq="h")
    n, rng = len(when), np.random.default_rng([seed, first, last])
    days = np.asarray((when - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1))
    season, hours = np.cos(2 * np.pi * (days / 365.2425 - 0.55)), np.cos(2 * np.pi * (days - 0.6))
    weather = noise(n, 60, rng)
    temp = 12 + 15 * season + 4 * hours + 3 * weather
    frame = pd.DataFrame({"No": 24 * (days[0] - 14610) + np.arange(n) + 1}).astype(int)
    frame["year"], frame["month"], frame["day"], frame["hour"] = when.year, when.month, when.day, when.hour
    frame["pm2.5"] = np.exp(4.2 + 0.03 * (when.year - 2010) - 0.3 * season + 0.9 * noise(n, 30, rng)).round()
    frame.loc[rng.random(n) < 0.05, "pm2.5"] = np.nan
    frame["DEWP"] = (temp - 10 + 4 * noise(n, 20, rng)).round()
    frame["TEMP"] = temp.round()
    frame["PRES"] = (1016 - 9 * season - 4 * weather + 1.5 * noise(n, 20, rng)).round()
    turn = noise(n, 12, rng)
    frame["cbwd"] = np.select([turn < -0.8, turn < 0.1, turn < 0.7], ["NE", "NW", "cv"], "SE")
    changes = np.concatenate([[True], frame["cbwd"].to_numpy()[1:] != frame["cbwd"].to_numpy()[:-1]])
    frame["Iws"] = run_sums(rng.exponential(1.8, n), changes).round(2)
    falls = noise(n, 5, rng) > 2.0
    starts = np.concatenate([[True], ~falls[:-1]])
    frame["Is"] = np.where(falls & (temp < 0), run_sums(falls, starts), 0).astype(int)
    frame["Ir"] = np.where(falls & (temp >= 0), run_sums(falls, starts), 0).astype(int)
    return frame[::every].reset_index(drop=True).assign(No=lambda f: np.arange(len(f)) + 1)


@pytest.fixture(scope="module")
def normal():
    return pollution(2010, 2012)


@pytest.fixture(scope="module")
def later():
    return pollution(2014, 2014, seed=1)


@pytest.fixture(scope="module")
def monitor(normal):
    return KernelMonitor(20, 40, false_alarm_rate=0.01, random_state=0).fit(normal)


@pytest.fixture
def fresh(monitor, tmp_path):
    monitor.save(tmp_path / "m.ks")
    return load(tmp_path / "m.ks")


def test_a_later_year_of_a_raw_table_alarms_about_as_often_as_asked(monitor, later):
    found = monitor.statistics(later)
    assert np.mean(found.alarm) < 0.05
    assert not np.isnan(found.spe).any()  # gaps in pm2.5 are in the normal rows, too
    assert monitor.n_features_in_ == 13
    assert monitor.encoder_.kinds_[0] == "left out"


def test_a_year_that_leaves_its_range_is_said_once(monitor, normal, later):
    assert monitor.notes(later) == [
        "year has left its range, 2010 to 2012 in the normal rows and 2014 here: not judged"
    ]
    assert monitor.notes(normal) == []


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_contributions_are_by_column_of_the_table_and_add_up(monitor, later, library):
    rows = later[:50] if library == "pandas" else pl.from_pandas(later[:50])
    found = monitor.contributions(rows)
    assert list(found.columns) == list(later.columns)
    values = np.asarray(found)
    np.testing.assert_allclose(values.sum(axis=1), monitor.statistics(rows).spe, rtol=1e-9)
    used = [name in USED for name in later.columns]
    assert (values[:, ~np.array(used)] == 0).all()
    # against the detector itself, on the rows that the encoder makes
    encoded = monitor.encoder_.transform(rows)
    parts = monitor._detector.contributions(encoded)[2]
    wind = [k for k, name in enumerate(monitor.encoder_.get_feature_names_out()) if name.startswith("cbwd=")]
    np.testing.assert_allclose(values[:, list(later.columns).index("cbwd")], parts[:, wind].sum(axis=1))


def test_causes_are_told_in_words_and_stop_at_a_few_per_cent(fresh, later):
    row = later.iloc[40].to_dict()
    record = fresh.update({**row, "Is": 80})
    assert record.alarm
    assert record.causes[0].startswith("Is is 80, usually 0 (")
    assert all(share >= LEAST_SHARE for _, share in record.top[1:])
    assert str(record).endswith("; ".join(record.causes))
    hot = fresh.update({**row, "TEMP": 70})
    told = next(cause for cause in hot.causes if cause.startswith("TEMP"))
    low, high = later["TEMP"].quantile([0.05, 0.95])
    words = told.removeprefix("TEMP is 70, usually ").split(" (")[0].split(" to ")
    np.testing.assert_allclose([float(word) for word in words], [low, high], atol=3)
    assert causes_of(np.array([0.98, 0.01, 0.01])) == [(0, 0.98)]
    assert causes_of(np.zeros(3)) == []


def test_the_calendar_is_no_cause(fresh, later):
    frost = later[later["month"] == 7].iloc[:1].assign(TEMP=-14, DEWP=-24)
    (record,) = fresh.update(frost)
    assert {name for name, _ in record.top} <= set(USED) - {"month", "day", "hour"}
    assert record.top[0][0] in ("TEMP", "DEWP")
    assert np.asarray(fresh.contributions(frost))[0, later.columns.get_loc("month")] > 0
    hours = pd.DataFrame({"hour": np.arange(300) % 12, "same": 1, "text": "a"})
    assert KernelMonitor(2, 10, random_state=0).fit(hours).update({"hour": 18}).top[0][0] == "hour"


def test_texts_gaps_truths_and_values_that_are_usual_by_themselves():
    rng = np.random.default_rng(0)
    n = 600
    x = rng.standard_normal(n)
    frame = pd.DataFrame({"x": x, "y": x + 0.05 * rng.standard_normal(n), "on": rng.random(n) < 0.01})
    frame["wind"] = np.where(rng.random(n) < 0.01, "NW", "SE")
    frame.loc[::100, "y"] = np.nan
    words = KernelMonitor(5, 20, random_state=0).fit(frame)._usual.words
    from kernelsieve.rows.frames import block_of

    table = pd.DataFrame({"x": [0.5, 90.0], "y": [np.nan, 0.0], "on": [True, False], "wind": ["NW", "SE"]})
    said = words(block_of(table))
    assert said(0, 3) == "wind is NW, usually SE"
    assert said(1, 3) == "wind is SE, which is usual by itself"
    assert said(0, 1) == "y is missing, as in 1 % of normal rows"
    assert said(0, 2) == "on is true, usually false"
    assert said(0, 0) == "x is 0.5, which is usual by itself"
    assert said(1, 0).startswith("x is 90, usually -1.")


def test_rows_that_lack_what_every_normal_row_had_are_not_judged(fresh, later):
    rows = later[:30].copy()
    rows.loc[4, "TEMP"] = np.nan
    rows.loc[5, "cbwd"] = None
    rows.loc[6, "pm2.5"] = np.nan  # as some normal rows
    rows.loc[7, "hour"] = np.nan
    rows.loc[8, "PRES"] = np.inf
    records = fresh.update(rows)
    assert [record.number for record in records if record.missing] == [4, 5, 7, 8]
    assert str(records[4]) == "row 4: not judged (missing values)"
    rows.loc[8, "PRES"] = np.nan
    assert np.flatnonzero(np.isnan(fresh.statistics(rows).spe)).tolist() == [4, 5, 7, 8]
    assert fresh.predict(rows)[4] == 1
    whole = fresh.statistics(later[:30]).spe
    np.testing.assert_allclose(fresh.statistics(rows).spe[[0, 9, 29]], whole[[0, 9, 29]])


@pytest.mark.parametrize("options", [{"lags": 2}, {"smoothing": 0.3}, {"lags": 1, "smoothing": 0.3}])
def test_windows_and_smoothing_pass_over_rows_that_are_not_judged(normal, later, options):
    found = KernelMonitor(5, 20, random_state=0, **options).fit(normal[:800])
    rows = later[:60].copy()
    rows.loc[[10, 30], "TEMP"] = np.nan
    records = found.update(rows)
    np.testing.assert_allclose([record.spe for record in records], found.statistics(rows).spe, rtol=1e-9)
    chart = plots.monitor_chart(found, rows)[0].get_lines()[0].get_ydata()
    np.testing.assert_allclose(chart, [record.spe for record in records], rtol=1e-9)
    labels = np.arange(60) // 20
    split = found.statistics(rows, series=labels).spe
    np.testing.assert_allclose(split[20:40], found.statistics(rows[20:40]).spe, rtol=1e-9)


def test_a_monitor_of_a_table_is_kept_in_a_file_with_its_windows(normal, later, tmp_path):
    found = KernelMonitor(5, 20, lags=2, half_life=500, random_state=0).fit(pl.from_pandas(normal[:800]))
    found.update(pl.from_pandas(later[:10]))
    found.save(tmp_path / "m.ks")
    loaded = load(tmp_path / "m.ks")
    for one, other in zip(*(m.update(pl.from_pandas(later[10:20])) for m in (found, loaded)), strict=True):
        assert one == other


def test_rows_of_numbers_stay_as_they_are_and_encoders_can_be_given():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 3))
    frame = pd.DataFrame(rows, columns=list("abc"))
    plain = KernelMonitor(4, 15, random_state=0).fit(frame)
    assert plain.encoder_ is None
    assert plain.notes(frame) == []
    np.testing.assert_allclose(
        plain.statistics(frame).spe, KernelMonitor(4, 15, random_state=0).fit(rows).statistics(rows).spe
    )
    own = KernelMonitor(4, 15, random_state=0, encoder=TableEncoder("robust")).fit(frame)
    assert own.encoder_.scale == "robust"
    truth = KernelMonitor(4, 15, random_state=0, standardize=False).fit(TableEncoder("robust").fit_transform(frame))
    np.testing.assert_allclose(
        own.statistics(frame).spe, truth.statistics(own.encoder_.transform(frame)).spe, atol=1e-9
    )
    assert own.update([0.1, 0.2, None]).missing
    with pytest.raises(ValueError, match="3 values"):
        own.update([0.1, 0.2])
    with pytest.raises(ValueError, match="holds text"):
        KernelMonitor(4, 15, encoder=None).fit(frame.assign(t="a"))


def test_a_constant_that_changes_is_said_once():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.standard_normal(300), "state": "ok", "unit": 7, "t": np.arange(300) * 2.5})
    found = KernelMonitor(3, 15, random_state=0).fit(frame)
    new = frame[:20].assign(unit=[7] * 15 + [9] * 5, state=["ok"] * 19 + ["fault"])
    assert found.notes(new) == [
        "state is ok in all normal rows, and so is not judged; here it is not in 1 of 20 rows (first fault, in row 20)",
        "unit is 7 in all normal rows, and so is not judged; here it is not in 5 of 20 rows (first 9, in row 16)",
    ]
    assert found.notes(new.assign(state="ok", unit=7, t=np.arange(800, 820))) == [
        "t has left its range, 0 to 747.5 in the normal rows and 800 to 819 here: not judged"
    ]


def test_a_monitor_of_a_table_is_exported_as_a_pipeline(normal):
    torch = pytest.importorskip("torch")
    frame = normal[["hour", "TEMP", "PRES"]].assign(TEMP=lambda f: f["TEMP"].astype(float))[:500]
    found = KernelMonitor(4, 15, random_state=0, encoder=TableEncoder(trend=False)).fit(frame)
    module = kernelsieve.export.to_torch(found, dtype=torch.float64)
    decision = module.decision(torch.tensor(frame.to_numpy(dtype=float)))
    np.testing.assert_allclose(decision.numpy(), found.decision_function(frame), atol=1e-9)
    with pytest.raises(ValueError, match="joins year, month, day, hour into a date"):
        kernelsieve.export.to_torch(KernelMonitor(4, 15, random_state=0).fit(normal[:500]))


def test_the_command_takes_the_table_as_it_is_and_says_why(normal, later, tmp_path):
    late = later.copy()
    late.loc[100:109, "Is"] = np.arange(40, 50)
    late.loc[3, "TEMP"] = np.nan
    for name, frame in (("normal", normal), ("late", late)):
        frame.to_csv(tmp_path / f"{name}.csv", index=False, na_rep="NA")
    options = ["-a", 0.01, "-c", 20, "-s", 40, "--save", tmp_path / "plant.ks", "-o", tmp_path / "alarms.csv"]
    ended = run("monitor", tmp_path / "normal.csv", tmp_path / "late.csv", *options)
    assert ended.exit_code == 3, ended.output
    said = " ".join(ended.output.split())
    assert "calendar: year, month, day, hour joined into one date" in said
    assert "left out: No (identifier-like" in said
    assert said.count("year has left its range, 2010 to 2012 in the normal rows and 2014 here") == 1
    assert "1 not judged (missing values)" in said
    assert "101 to 110" in said
    assert re.search(r"Is is 4\d, usually 0", said)
    alarms = pl.read_csv(tmp_path / "alarms.csv")
    assert alarms.height < 0.05 * len(late)
    assert set(range(101, 111)) <= set(alarms["row"])
    without = late.drop(columns="No")
    without.to_csv(tmp_path / "without.csv", index=False, na_rep="NA")
    again = run("monitor", tmp_path / "plant.ks", tmp_path / "without.csv", "--json")
    told = json.loads(again.stdout)
    assert (told["alarms"], told["missing"]) == (alarms.height, 1)
    assert told["first"][0]["words"]
    assert len(told["notes"]) == 1
    plain = run("monitor", tmp_path / "normal.csv", tmp_path / "late.csv", "--no-calendar", "-c", 5, "-s", 20)
    assert "joined" not in plain.output
    refused = run("monitor", tmp_path / "plant.ks", tmp_path / "late.csv", "--no-calendar")
    assert refused.exit_code == 2
    assert "leave out --no-calendar" in refused.stderr


def test_infinity_in_a_raw_table_is_refused_by_row_and_column_and_never_judged_normal():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.standard_normal(300), "b": rng.standard_normal(300), "c": ["x", "y", "y"] * 100})
    monitor = KernelMonitor(n_components=3, n_support=20, random_state=0).fit(table)
    new = table[:5].copy()
    new.loc[2, "b"] = -np.inf
    for method in (monitor.predict, monitor.statistics, monitor.score_samples, monitor.contributions):
        with pytest.raises(ValueError, match="column 'b' is infinite in row 3"):
            method(new)
    assert monitor.update(new)[2].missing


def test_a_kernel_names_columns_of_the_table_whatever_the_encoder_makes_of_them():
    """Against the same kernel with the numbers of the encoded columns."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"load": rng.normal(size=80), "kind": rng.choice(["a", "b", "c"], 80), "t": rng.normal(size=80)}
    )
    named, numbered = (
        KernelMonitor(kernel=RBF().on(numbers) * Hamming().on(kind), encoder="auto", random_state=0).fit(table)
        for numbers, kind in ((["load", "t"], "kind"), ([0, 4], [1, 2, 3]))
    )
    np.testing.assert_array_equal(named.score_samples(table), numbered.score_samples(table))
    lagged, by_number = (
        KernelMonitor(kernel=RBF().on(columns), lags=1, random_state=0).fit(table[["load", "t"]])
        for columns in ("t", [1, 3])
    )
    np.testing.assert_array_equal(
        lagged.score_samples(table[["load", "t"]]), by_number.score_samples(table[["load", "t"]])
    )
    with pytest.raises(ValueError, match="names column 'weight', and the rows have 'load', 't'"):
        KernelMonitor(kernel=RBF().on("weight")).fit(table[["load", "t"]])


def test_a_label_that_most_rows_lack_is_not_called_usual():
    from kernelsieve.monitor.table import UsualValues, table_block

    notes = pl.DataFrame({"note": ["call", "call", "call", None, None, None, None], "state": ["on"] * 6 + ["off"]})
    block = table_block(notes)
    assert list(UsualValues.of(block).labels) == ["", "on"]
