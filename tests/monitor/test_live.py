"""Rows one after another: windows, smoothing, alarm rules, missing values, drift, files."""

from __future__ import annotations

import numpy as np
import pytest

import kernelsieve
from kernelsieve import KernelMonitor


def plant(n_rows, seed=0):
    """Five sensors of two states."""
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(42).standard_normal((2, 5))
    return rng.standard_normal((n_rows, 2)) @ mixing + 0.2 * rng.standard_normal((n_rows, 5))


def monitor(**options):
    return KernelMonitor(4, 20, **{"random_state": 0, **options})


def test_records_are_the_statistics_of_the_same_rows_however_they_are_cut():
    rows, new = plant(400), plant(60, seed=1)
    options = {"lags": 2, "smoothing": 0.4, "alarm_rule": (2, 3)}
    whole = monitor(**options).fit(rows)
    truth = whole.statistics(new)
    records = whole.update(new)
    np.testing.assert_allclose([record.spe for record in records], truth.spe, rtol=1e-12)
    np.testing.assert_allclose([record.t2 for record in records], truth.t2, rtol=1e-12)
    assert [record.exceeded for record in records] == truth.alarm.tolist()
    single = monitor(**options).fit(rows)
    pieces = [single.update(row) for row in new[:7]] + single.update(new[7:8]) + single.update(new[8:])
    for one, other in zip(records, pieces, strict=True):
        assert one.number == other.number
        assert (one.alarm, one.missing, one.exceeded) == (other.alarm, other.missing, other.exceeded)
        np.testing.assert_allclose(one.spe, other.spe, rtol=1e-12)


def test_a_record_names_the_limit_the_causes_and_their_shares():
    found = monitor().fit(plant(400))
    row = plant(1, seed=1)[0]
    row[3] += 10
    record = found.update(row)
    assert record.alarm
    assert record.exceeded
    assert record.limit == found.limits_["spe"]
    assert record.top[0][0] == "x3"
    assert record.top[0][1] == pytest.approx(found.contributions(row[None])[0, 3] / record.spe)
    assert "ALARM" in str(record)
    assert "x3" in str(record)


def test_alarms_follow_the_rule_of_k_of_n():
    found = monitor(alarm_rule=(3, 4)).fit(plant(400))
    good, bad = np.zeros(5), np.array([0, 0, 0, 20.0, 0])
    rows = [bad, good, bad, bad, good, good, good, bad]
    assert [found.update(row).alarm for row in rows] == [False, False, False, True, False, False, False, False]


@pytest.mark.parametrize(("k", "n"), [(1, 1), (2, 3), (5, 5), (3, 8)])
def test_k_of_n_by_brute_force(k, n):
    exceeded = np.random.default_rng(0).uniform(size=60) < 0.4
    rows = np.where(exceeded[:, None], [0, 0, 0, 20.0, 0], np.zeros(5))
    alarms = [record.alarm for record in monitor(alarm_rule=(k, n)).fit(plant(400)).update(rows)]
    assert alarms == [exceeded[t] and sum(exceeded[max(0, t - n + 1) : t + 1]) >= k for t in range(60)]


def test_a_missing_value_is_recorded_gives_no_alarm_and_breaks_nothing():
    rows, new = plant(400), plant(30, seed=1)
    found = monitor(lags=2).fit(rows)
    holed = new.copy()
    holed[10, 2] = np.nan
    holed[20, 0] = np.inf
    records = found.update(holed)
    assert [record.number for record in records if record.missing] == [0, 1, 10, 11, 12, 20, 21, 22]
    assert not any(record.alarm for record in records if record.missing)
    assert all(record.top == () for record in records if record.missing)
    apart = found.statistics(new[11:20]).spe
    np.testing.assert_allclose([record.spe for record in records[11:20]], apart)
    assert str(records[10]) == "row 10: not judged (missing values)"


def test_nothing_but_missing_rows_is_no_error():
    found = monitor(smoothing=0.2, half_life=50).fit(plant(300))
    assert all(record.missing for record in found.update(np.full((5, 5), np.nan)))
    assert not found.update(np.zeros(5)).missing


def test_a_sensor_gone_mad_is_an_alarm_and_no_error():
    found = monitor().fit(plant(300))
    record = found.update([0, 0, 1e300, 0, 0])
    assert record.alarm
    assert record.top[0][0] == "x2"


def test_a_kernel_without_a_derivative_names_no_causes():
    def kernel(x, y):
        return np.exp(-0.1 * ((x[:, None] - y) ** 2).sum(axis=2))

    found = monitor(kernel=kernel).fit(plant(300))
    record = found.update([0, 0, 90.0, 0, 0])
    assert record.alarm
    assert record.top == ()
    with pytest.raises(TypeError, match="no derivative"):
        found.contributions(plant(3))


def test_restart_begins_a_new_series():
    found = monitor(lags=1, smoothing=0.3).fit(plant(400))
    found.update(plant(10, seed=1))
    records = found.restart().update(plant(10, seed=2))
    np.testing.assert_allclose([record.spe for record in records], found.statistics(plant(10, seed=2)).spe)
    assert records[0].number == 10


def test_wrong_rows_are_refused_and_leave_the_monitor_as_it_was():
    found = monitor(lags=2).fit(plant(400))
    found.update(plant(3, seed=1))
    for bad in (np.zeros(4), np.zeros((2, 6)), ["a", "b", "c", "d", "e"], np.zeros((1, 2, 5))):
        with pytest.raises(ValueError, match="5"):
            found.update(bad)
    assert found.update(plant(1, seed=2)[0]).number == 3
    assert found.update(np.zeros((0, 5))) == []


def test_frames_and_tensors_are_taken_and_columns_matched_by_name():
    pd = pytest.importorskip("pandas")
    torch = pytest.importorskip("torch")
    frame = pd.DataFrame(plant(400), columns=list("abcde"))
    found = monitor().fit(frame)
    record = found.update(frame[:2])[1]
    assert record.top[0][0] in "abcde"
    assert found.update(torch.as_tensor(frame.to_numpy()[1])).spe == pytest.approx(record.spe)
    with pytest.raises(ValueError, match="feature names should match"):
        found.update(frame[:2][list("bacde")])


def test_a_row_that_bears_names_is_read_by_them():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(plant(400), columns=list("abcde"))
    found = monitor().fit(frame)
    row = frame.iloc[3]
    truth = found.update(row.to_numpy()).spe
    for form in (row, row[list("edcba")], row.to_dict(), dict(reversed(row.to_dict().items()))):
        assert found.update(form).spe == truth
    assert found.update({"a": 1.0, "c": None}).missing
    with pytest.raises(ValueError, match=r"no place for \['f'\]"):
        found.update({**row.to_dict(), "f": 1.0})
    with pytest.raises(ValueError, match="5 values by name"):
        found.update({})
    unnamed = monitor().fit(frame.to_numpy())
    assert unnamed.update(pd.Series(row.to_numpy())).spe == pytest.approx(truth)
    assert unnamed.update({f"x{j}": value for j, value in enumerate(row)}).spe == pytest.approx(truth)


def test_a_masked_value_is_missing():
    found = monitor().fit(plant(300))
    assert found.update(np.ma.array(np.zeros(5), mask=[1, 0, 0, 0, 0])).missing
    assert not found.update(np.ma.array(np.zeros(5))).missing


def test_parameters_set_after_the_fit_change_no_fitted_window_and_a_bad_rule_is_refused():
    found = monitor(lags=1).fit(plant(300))
    new = plant(20, seed=1)
    truth = found.statistics(new).spe
    found.set_params(lags=4)
    np.testing.assert_array_equal(found.statistics(new).spe, truth)
    np.testing.assert_allclose([record.spe for record in found.update(new)], truth)
    with pytest.raises(ValueError, match="1 <= k <= n"):
        found.set_params(alarm_rule=(3, 2)).update(new)


def test_a_memory_too_short_for_the_components_is_said_to_alarm():
    with pytest.warns(UserWarning, match="half_life=3 remembers about 5 rows, too few for 4 components"):
        monitor(half_life=3).fit(plant(300))


def drifting(n_rows, distance, seed=1):
    """The plant while the level of two sensors moves by `distance` standard deviations."""
    rows = plant(n_rows, seed)
    rows[:, 1] += np.linspace(0, distance, n_rows) * rows[:, 1].std()
    rows[:, 4] -= np.linspace(0, distance, n_rows) * rows[:, 4].std()
    return rows


def test_a_monitor_with_a_half_life_follows_slow_drift_and_one_without_does_not():
    rows, new = plant(500), drifting(6000, 6.0)
    still, following = monitor().fit(rows), monitor(half_life=200).fit(rows)
    late = slice(3000, None)
    alarms = [np.mean([record.exceeded for record in model.update(new)[late]]) for model in (still, following)]
    assert alarms[0] > 0.9
    assert alarms[1] < 0.1


def test_a_monitor_that_follows_drift_does_not_follow_a_fault():
    found = monitor(half_life=100).fit(plant(500))
    found.update(plant(300, seed=1))
    fault = plant(2000, seed=2)
    fault[:, 3] += 8.0
    before = found._detector
    alarms = [record.exceeded for record in found.update(fault)]
    assert np.mean(alarms) > 0.98
    assert np.mean(alarms[-500:]) > 0.98
    moved = found.input_map_.center - before.inputs.center
    assert np.abs(moved).max() < 0.2


def test_forgetting_is_the_weighted_batch():
    """Moments after n rows are those of all rows, a row of age a weighing 2^(-a/h)."""
    from kernelsieve.fit.moments import MomentSum

    rows, new = plant(400), plant(37, seed=1) * 0.3
    found = monitor(half_life=740.0, standardize=False, false_alarm_rate=0.001, gamma=0.05)
    with pytest.warns(UserWarning, match="too few"):
        found.fit(rows)
    start, inputs, expansion = found._drift.moments, found.input_map_, found.expansion_
    records = found.update(new)
    assert not any(record.exceeded for record in records)
    keep = 2.0 ** (-37 / 740)
    fresh = MomentSum(expansion.kernel, expansion.points, start.whitening).over(inputs(new), None, 1)
    weight = keep * start.weight + 37
    assert found._drift.moments.weight == pytest.approx(weight)
    mean = (keep * start.weight * start.mean + 37 * fresh.mean) / weight
    np.testing.assert_allclose(found._drift.moments.mean, mean, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"whiten": True, "lags": 2, "smoothing": 0.3, "half_life": 80}])
def test_a_loaded_monitor_goes_on_where_the_saved_one_stopped(options, tmp_path):
    found = monitor(**options).fit(plant(400))
    found.update(plant(50, seed=1))
    found.save(tmp_path / "plant.ks")
    loaded = kernelsieve.load(tmp_path / "plant.ks")
    new = plant(100, seed=2)
    assert found.limits_ == loaded.limits_
    np.testing.assert_array_equal(found.score_samples(new), loaded.score_samples(new))
    for one, other in zip(found.update(new), loaded.update(new), strict=True):
        np.testing.assert_equal(one, other)


@pytest.mark.filterwarnings("ignore")
def test_monitors_of_other_estimators_are_saved_with_them(tmp_path):
    rows = plant(200)
    for estimator in (kernelsieve.KernelPCA(3, kernel="rbf"), kernelsieve.LikelihoodKernelPCA(n_support=8)):
        found = KernelMonitor(estimator=estimator).fit(rows)
        found.save(tmp_path / "other.ks")
        loaded = kernelsieve.load(tmp_path / "other.ks")
        assert type(loaded.estimator_) is type(estimator)
        assert loaded.estimator.get_params() == estimator.get_params()
        np.testing.assert_array_equal(found.score_samples(rows), loaded.score_samples(rows))


def test_pipelines_and_clones_work():
    from sklearn.base import clone
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import RobustScaler

    rows = plant(300)
    pipeline = make_pipeline(RobustScaler(), monitor()).fit(rows)
    assert set(pipeline.predict(rows)) == {-1, 1}
    assert pipeline.score_samples(rows).shape == (300,)
    assert clone(pipeline[-1]).get_params() == pipeline[-1].get_params()
    assert set(monitor().fit_predict(rows)) == {-1, 1}
