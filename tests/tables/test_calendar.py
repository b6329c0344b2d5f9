"""Year, month, day and hour in columns of their own are one date, and its season, weekday and hour are circles."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline

import kernelsieve as ks
from kernelsieve import SparseKernelPCA, TableEncoder
from kernelsieve.errors import ColumnError
from kernelsieve.export import to_c, to_onnx
from kernelsieve.export.preprocessing import ExportError

START, END = "2010-01-01", "2012-06-30 23:00"
CIRCLES = {"season": 365.2425, "weekday": 7.0, "hour": 1.0}


def weather(every=7, seed=0):
    """Temperature by season and hour, and noise, every so many hours; the calendar in four columns."""
    when = pd.date_range(START, END, freq=f"{every}h")
    rng = np.random.default_rng(seed)
    days = (when - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    season = np.cos(2 * np.pi * (days / 365.2425 - 0.55))
    frame = pd.DataFrame({"year": when.year, "month": when.month, "day": when.day, "hour": when.hour})
    frame["temp"] = 10 * season + 3 * np.sin(2 * np.pi * days) + rng.standard_normal(len(when))
    frame["pres"] = -5 * season + rng.standard_normal(len(when))
    frame["wind"] = rng.exponential(2, len(when))
    return frame, when, np.asarray(days)


def circles_of(days, names, n_parts):
    columns = []
    for name in names:
        angle = 2 * np.pi * days / CIRCLES[name]
        columns += [np.sin(angle), np.cos(angle)]
    return np.stack(columns, axis=1) / np.sqrt(n_parts)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_four_columns_are_one_date_with_circles(library):
    frame, _, days = weather()
    table = frame if library == "pandas" else pl.from_pandas(frame)
    encoder = TableEncoder().fit(table)
    names = [
        "year",
        "month_season_sin",
        "month_season_cos",
        "day_weekday_sin",
        "day_weekday_cos",
        "hour_sin",
        "hour_cos",
    ]
    assert encoder.get_feature_names_out().tolist() == [*names, "temp", "pres", "wind"]
    assert encoder.kinds_.tolist() == ["date", "joined", "joined", "joined", "number", "number", "number"]
    assert encoder.source_columns().tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 5, 6]
    assert encoder.joined_ == {"year": 0, "month": 1, "day": 2, "hour": 3}
    found = encoder.transform(table)
    assert_allclose(found[:, 0], (days - days.mean()) / days.std() / 2, atol=1e-9)
    assert_allclose(found[:, 1:7], circles_of(days, CIRCLES, 4), atol=1e-9)
    assert_allclose(found[:, :7].var(axis=0).sum(), 1.0, atol=0.02)  # a date counts as one column
    told = dict(encoder.describe())
    assert told["calendar"] == "year, month, day, hour joined into one date; circles for season, weekday, hour"
    assert "dates" not in told
    back = encoder.inverse_transform(found)
    back = back if library == "pandas" else back.to_pandas()
    for name in ("year", "month", "day", "hour"):
        assert (back[name] == frame[name]).all()


def test_a_column_of_dates_is_encoded_as_the_joined_one():
    frame, when, _ = weather()
    dated = frame.drop(columns=["year", "month", "day", "hour"])
    dated.insert(0, "when", when)
    joined, real = TableEncoder().fit(frame), TableEncoder().fit(dated)
    assert_allclose(joined.transform(frame), real.transform(dated), atol=1e-9)
    assert real.get_feature_names_out()[:3].tolist() == ["when", "when_season_sin", "when_season_cos"]
    assert dict(real.describe())["calendar"] == "circles for season of when, weekday of when, hour of when"


def test_the_first_direction_is_the_season():
    frame, _, days = weather()
    scores = make_pipeline(TableEncoder(), SparseKernelPCA(2, random_state=0)).fit_transform(frame)
    season = circles_of(days, ["season"], 1)
    fit = season @ np.linalg.lstsq(season, scores[:, 0], rcond=None)[0]
    assert np.corrcoef(fit, scores[:, 0])[0, 1] > 0.9


def test_circles_need_rows_that_go_round_them():
    def parts(start, end, freq):
        when = pd.date_range(start, end, freq=freq)
        return TableEncoder().fit(pd.DataFrame({"when": when, "x": np.arange(len(when)) % 7})).calendar_[0]

    assert parts("2020-01-01", "2020-01-01 12:00", "h") == "time"
    assert parts("2020-01-01", "2020-01-03", "h") == "time hour"
    assert parts("2020-01-01", "2020-01-20", "h") == "time weekday hour"
    assert parts("2020-01-01", "2020-12-31", "D") == "time season weekday"
    assert parts("2018-01-01", "2020-12-31", "MS") == "time season"  # first days of months have no weekday to speak of
    assert parts("2018-01-01", "2020-12-31", "W") == "time season"


def test_without_the_calendar_columns_are_numbers():
    frame, when, _ = weather()
    encoder = TableEncoder(calendar=False).fit(frame)
    assert encoder.get_feature_names_out().tolist() == frame.columns.tolist()
    assert_allclose(
        encoder.transform(frame)[:, 1], (frame["month"] - frame["month"].mean()) / frame["month"].std(ddof=0)
    )
    dated = TableEncoder(calendar=False).fit(pd.DataFrame({"when": when, "x": frame["temp"]}))
    assert dated.get_feature_names_out().tolist() == ["when", "x"]


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({"month": 13}, "numbers"),  # no month
        ({"month": 2, "day": 30}, "numbers"),  # no such day
        ({"day": 1.5}, "joined"),  # not whole: year and month are joined without it
    ],
)
def test_what_makes_no_date_is_not_joined(change, kept):
    frame, _, _ = weather()
    frame = frame.astype(float)
    frame.loc[7, list(change)] = list(change.values())
    encoder = TableEncoder().fit(frame)
    assert (encoder.joined_ != {}) == (kept == "joined")
    whole = encoder.get_feature_names_out().tolist()
    blocks = [frame[:5], frame[5:300], frame[300:]]
    apart = TableEncoder().fit_blocks(blocks)
    if kept == "numbers":
        assert apart.get_feature_names_out().tolist() == whole


def test_a_table_in_blocks_is_encoded_as_whole():
    frame, _, _ = weather()
    whole, apart = TableEncoder().fit(frame), TableEncoder().fit_blocks([frame[:11], frame[11:900], frame[900:]])
    assert apart.joined_ == whole.joined_
    assert apart.calendar_.tolist() == whole.calendar_.tolist()
    assert_allclose(apart.transform(frame), whole.transform(frame), atol=1e-9)


def test_new_rows_that_make_no_date_are_named():
    frame, _, _ = weather()
    encoder = TableEncoder().fit(frame)
    wrong = frame[:5].assign(month=2, day=[1, 2, 30, 3, 4])
    with pytest.raises(ColumnError, match=r"columns 'year', 'month', 'day', 'hour' give no valid date in row 3"):
        encoder.transform(wrong)
    with pytest.raises(ColumnError, match=r"column 'month' is not numeric"):
        encoder.transform(frame[:5].assign(month="May"))


def test_a_gap_in_a_part_is_a_gap_in_the_date():
    frame, _, _ = weather()
    frame.loc[[3, 9], "hour"] = np.nan
    encoder = TableEncoder().fit(frame)
    assert encoder.get_feature_names_out()[7] == "year_missing"
    assert np.flatnonzero(encoder.transform(frame)[:, 7]).tolist() == [3, 9]
    assert encoder.inverse_transform(encoder.transform(frame))["hour"].isna().to_numpy().nonzero()[0].tolist() == [3, 9]
    with pytest.raises(ValueError, match="missing"):
        TableEncoder(missing="error").fit(frame)


def test_hours_months_and_weekdays_by_themselves_are_circles():
    n = 400
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "yr": rng.integers(0, 2, n),  # the first or the second year, which is no date
            "mnth": rng.integers(1, 13, n),
            "hr": rng.integers(0, 24, n),
            "weekday": rng.integers(0, 7, n),
            "day": rng.choice(["Mon", "Tue"], n),
            "count": rng.poisson(9, n),
        }
    )
    encoder = TableEncoder().fit(frame)
    assert encoder.joined_ == {}
    assert encoder.kinds_.tolist() == ["number", "cycle", "cycle", "cycle", "category", "number"]
    found = encoder.transform(frame)
    for name, period in (("mnth", 12), ("hr", 24), ("weekday", 7)):
        place = encoder.get_feature_names_out().tolist().index(f"{name}_sin")
        angle = 2 * np.pi * frame[name].to_numpy() / period
        assert_allclose(found[:, place : place + 2], np.stack([np.sin(angle), np.cos(angle)], axis=1), atol=1e-12)
        assert (encoder.inverse_transform(found)[name] == frame[name]).all()
    assert dict(encoder.describe())["calendar"] == "circles for mnth, hr, weekday"
    # 23:00 is as near to midnight as 1:00 is
    rows = pd.concat([frame[:1]] * 3).assign(hr=[23, 0, 1])
    night, midnight, one = encoder.transform(rows)
    assert_allclose(np.linalg.norm(night - midnight), np.linalg.norm(one - midnight))


def test_names_alone_do_not_make_a_calendar():
    frame = pd.DataFrame({"hour": [1.5, 2.5, 30.0, 4.0] * 5, "month": [0, 1, 2, 55] * 5, "x": np.arange(20) % 3})
    assert TableEncoder().fit(frame).kinds_.tolist() == ["number"] * 3


@pytest.mark.parametrize("scale", ["standard", "robust", "none"])
def test_scales_reach_the_time_and_not_the_circles(scale):
    frame, _, days = weather()
    found = TableEncoder(scale).fit(frame).transform(frame)
    assert_allclose(np.hypot(found[:, 1], found[:, 2]), 0.5)  # of four parts, or unscaled
    if scale == "none":
        assert_allclose(found[:, 0], days)


def test_without_trend_dates_are_circles_and_counters_are_left_out():
    frame, _, _ = weather()
    frame["meter"] = np.cumsum(np.abs(frame["wind"]))
    frame["left"] = -frame["meter"].round()
    frame["switch"] = (np.arange(len(frame)) > 500).astype(int)  # changes once, and is no counter
    frame.loc[4, "meter"] = np.nan
    encoder = TableEncoder(trend=False).fit(frame)
    out = dict(zip(frame.columns, encoder.reasons_, strict=True))
    assert {name for name, reason in out.items() if reason} == {"meter", "left"}
    assert out["meter"].startswith("a counter")
    assert encoder.calendar_[0] == "season weekday hour"
    assert "year" not in encoder.get_feature_names_out()
    kept = TableEncoder(trend=False, keep=["meter"]).fit(frame)
    assert "meter" in kept.get_feature_names_out()
    assert "meter" not in TableEncoder(trend=False).fit_blocks([frame[:40], frame[40:]]).get_feature_names_out()
    shuffled = frame.sample(frac=1.0, random_state=0)
    assert "meter" in TableEncoder(trend=False).fit(shuffled).get_feature_names_out()
    assert "year" not in encoder.inverse_transform(encoder.transform(frame)).columns
    years = pd.DataFrame({"year": [2010, 2011, 2012] * 7, "x": np.arange(21) % 4}).sort_values("year")
    assert TableEncoder(trend=False).fit(years).kinds_.tolist() == ["left out", "number"]


def test_a_calendar_is_kept_in_a_file(tmp_path):
    frame, _, _ = weather(every=50)
    model = make_pipeline(TableEncoder(), SparseKernelPCA(2, n_support=10, random_state=0)).fit(frame)
    ks.save(model, tmp_path / "model.ks")
    loaded = ks.load(tmp_path / "model.ks")
    assert (loaded.transform(frame) == model.transform(frame)).all()
    model[0].joined_ = {"year": 0, "month": 9}
    with pytest.raises(ValueError, match="calendar"):
        model[0].check_loaded(ValueError)


def test_circles_are_exported_and_joined_dates_are_refused_in_words(tmp_path):
    frame, _, _ = weather(every=50)
    model = make_pipeline(TableEncoder(), SparseKernelPCA(2, n_support=10, random_state=0))
    joins = r"joins year, month, day, hour into a date.*calendar=False"
    for export in (to_onnx, to_c):
        with pytest.raises(ExportError, match=joins):
            export(model.fit(frame))
    torch = pytest.importorskip("torch")
    from kernelsieve.export import to_torch

    with pytest.raises(ExportError, match=joins):
        to_torch(model.fit(frame))
    hours = frame[["hour", "temp", "wind"]]
    module = to_torch(model.fit(hours), dtype=torch.float64)
    found = module(torch.tensor(hours.to_numpy(dtype=float)))
    assert_allclose(found.detach().numpy(), model.transform(hours), atol=1e-12)


def test_a_report_shows_the_columns_of_the_calendar():
    from kernelsieve.report.model_view import ModelView, reader_of

    frame, _, _ = weather(every=20)
    model = make_pipeline(TableEncoder(), SparseKernelPCA(2, n_support=10, random_state=0)).fit(frame)
    view = ModelView.of(model, frame, 0)
    reader = reader_of(view)
    assert reader.raw
    assert reader.names == frame.columns.tolist()
    assert [len(group) for group in reader.groups] == [1, 2, 2, 2, 1, 1, 1]
    read = dict(zip(reader.names, reader.read(view.encoded[:200]), strict=True))
    assert_allclose(read["temp"], frame["temp"][:200], atol=1e-6)
    assert (read["hour"] == frame["hour"][:200]).all()
    assert np.abs((read["month"] - frame["month"][:200] + 6) % 12 - 6).max() <= 1  # the season knows days, not months


def test_the_command_line_joins_and_has_a_word_to_switch_it_off(tmp_path):
    testing = pytest.importorskip("typer.testing")
    from kernelsieve.cli.commands import app

    frame, _, _ = weather(every=50)
    frame.to_csv(tmp_path / "weather.csv", index=False)
    for options, joined, trend in (([], True, True), (["--no-calendar"], False, True), (["--no-trend"], True, False)):
        model = tmp_path / "m.ks"
        ended = testing.CliRunner().invoke(
            app, ["fit", str(tmp_path / "weather.csv"), "-o", str(model), *options], env={"COLUMNS": "200"}
        )
        assert ended.exit_code == 0, ended.output
        assert ("joined into one date" in ended.output) == joined
        encoder = ks.load(model)[0]
        assert (encoder.joined_ != {}) == joined
        assert encoder.trend == trend
        assert ("year" in encoder.get_feature_names_out()) == trend


def test_dates_before_1970_and_parts_to_the_second():
    when = [dt.datetime(1969, 12, 31, 23, 59, 59) + dt.timedelta(seconds=977 * k) for k in range(300)]
    frame = pd.DataFrame({part: [getattr(one, part) for one in when] for part in ("year", "month", "day", "hour")})
    frame["minute"], frame["second"] = [one.minute for one in when], [one.second for one in when]
    encoder = TableEncoder().fit(frame)
    assert list(encoder.joined_) == ["year", "month", "day", "hour", "minute", "second"]
    back = encoder.inverse_transform(encoder.transform(frame))
    assert (back == frame).all().all()


@pytest.mark.parametrize("shift", [0, -5])  # in hours: the same time, and that of another time zone
def test_a_date_that_is_there_twice_counts_once(shift, tmp_path):
    frame, when, _ = weather()
    both = frame.assign(stamp=when + pd.Timedelta(hours=shift))
    alone = both.drop(columns=["year", "month", "day", "hour"])
    encoder, one = TableEncoder().fit(both), TableEncoder().fit(alone)
    assert encoder.get_feature_names_out().tolist() == one.get_feature_names_out().tolist()
    assert_allclose(encoder.transform(both), one.transform(alone), rtol=0, atol=1e-9)
    assert encoder.reasons_[:4].tolist() == ["a part of the date in stamp"] * 4
    assert encoder.joined_ == {}
    ks.save(make_pipeline(encoder), tmp_path / "e.ks")
    assert_allclose(ks.load(tmp_path / "e.ks").transform(both), encoder.transform(both), rtol=0, atol=0)


def test_dates_that_say_different_things_both_count():
    frame, when, _ = weather()
    other = frame.assign(paid=when[::-1])
    assert TableEncoder().fit(other).joined_ == {"year": 0, "month": 1, "day": 2, "hour": 3}
    days = frame.assign(day_only=when.normalize())  # coarser than the four columns, which know the hour
    assert TableEncoder().fit(days).kinds_[0] == "date"
    kept = frame.assign(stamp=when)
    assert TableEncoder(keep=["hour"]).fit(kept).kinds_[0] == "date"
