"""Limits that hold on unseen rows, and what they say of themselves."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.stats import binom

from kernelsieve import ElasticNetPCA, KernelMonitor, SparseKernelPCA
from kernelsieve.monitor.statistics import fold_of, limit_of, run_bounds, runs_of, smoothed, smoothed_runs


def ring(n_rows, seed):
    """A noisy circle in three dimensions."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, n_rows)
    circle = np.stack([np.cos(angle), np.sin(angle), np.cos(2 * angle)], axis=1)
    return circle + 0.1 * rng.standard_normal((n_rows, 3))


def test_held_out_limits_alarm_as_often_as_asked_and_training_quantiles_more_often():
    fresh = ring(4000, 100)
    held_out, training = [], []
    for seed in range(6):
        monitor = KernelMonitor(random_state=seed).fit(ring(300, seed))
        spe = monitor.statistics(fresh).spe
        held_out.append(np.mean(spe > monitor.limits_["spe"]))
        training.append(np.mean(spe > monitor.training_limits_["spe"]))
    assert 0.03 < np.mean(held_out) < 0.07
    assert np.mean(training) > 1.3 * np.mean(held_out)


def test_the_limit_is_the_quantile_of_models_fitted_without_each_fold():
    """By hand: five contiguous folds, standardised and fitted anew without each."""
    rows = ring(250, 0)
    monitor = KernelMonitor(4, 20, gamma=0.5, random_state=3, false_alarm_rate=0.1).fit(rows)
    seed = np.random.RandomState(3).randint(2**31 - 1)
    values = []
    for fold in np.array_split(np.arange(250), 5):
        others = np.delete(rows, fold, axis=0)
        center, factor = others.mean(axis=0), 1 / others.std(axis=0)  # to the bit: a search amplifies rounding
        model = SparseKernelPCA(4, n_support=20, gamma=0.5, random_state=seed).fit((others - center) * factor)
        values.append(model.reconstruction_error((rows[fold] - center) * factor))
    ordered = np.sort(np.concatenate(values))
    assert monitor.limits_["spe"] == pytest.approx(ordered[int(np.ceil(251 * 0.9)) - 1], rel=1e-9)


@pytest.mark.parametrize(("n", "rate"), [(20, 0.05), (100, 0.05), (500, 0.01), (37, 0.3)])
def test_the_rate_of_a_limit_and_its_interval_are_those_of_order_statistics(n, rate):
    """Uniform values: the share above a limit is one minus the limit itself."""
    rng = np.random.default_rng(0)
    limits = [limit_of(rng.uniform(size=n), rate) for _ in range(2000)]
    shares = np.array([1 - limit.value for limit in limits])
    assert shares.mean() == pytest.approx(limits[0].rate, rel=0.1)
    assert limits[0].rate <= rate + 1e-12
    low, high = limits[0].interval
    assert np.mean((shares > low) & (shares < high)) == pytest.approx(0.9, abs=0.03)


def test_too_few_rows_for_the_rate_take_the_largest_value_and_say_so():
    with pytest.warns(UserWarning, match=r"30 held-out rows are too few for false_alarm_rate=0.01") as caught:
        monitor = KernelMonitor(3, 10, false_alarm_rate=0.01, random_state=0).fit(ring(30, 0))
    assert caught[0].filename == __file__
    assert monitor.false_alarm_rate_ == pytest.approx(1 / 31)
    low, high = monitor.false_alarm_interval_
    assert low < 1 / 31 < high


def test_decision_predict_and_offset_agree():
    rows = ring(200, 0)
    monitor = KernelMonitor(4, 20, random_state=0).fit(rows)
    assert monitor.offset_ == -monitor.limits_["spe"]
    decision = monitor.decision_function(rows)
    np.testing.assert_allclose(decision, monitor.score_samples(rows) - monitor.offset_)
    np.testing.assert_array_equal(monitor.predict(rows), np.where(decision < 0, -1, 1))
    np.testing.assert_array_equal(monitor.statistics(rows).alarm, decision < 0)


def test_no_window_of_a_fold_reaches_into_another():
    """A level shift at every seam: windows over a seam would be far off all others, and set the limit."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((500, 2)) * 0.1 + np.repeat([0.0, 5, 0, 5, 0], 100)[:, None]
    monitor = KernelMonitor(4, 20, lags=3, false_alarm_rate=0.01, random_state=0).fit(rows)
    assert monitor.n_held_out_ == 500 - 5 * 3


def test_smoothing_is_the_exponentially_weighted_mean_started_at_the_held_out_mean():
    rows = ring(300, 0)
    plain = KernelMonitor(4, 20, random_state=0).fit(rows)
    monitor = KernelMonitor(4, 20, smoothing=0.2, random_state=0).fit(rows)
    truth, state = [], monitor.spe_mean_
    for value in plain.statistics(rows[:50]).spe:
        state = 0.2 * value + 0.8 * state
        truth.append(state)
    np.testing.assert_allclose(monitor.statistics(rows[:50]).spe, truth, rtol=1e-9)
    assert monitor.limits_["spe"] < plain.limits_["spe"]
    np.testing.assert_allclose(smoothed(np.array([1.0, np.nan, 1.0]), 0.5, 0.0), [0.5, np.nan, 0.75])


def test_folds_and_runs_are_contiguous():
    folds = fold_of(np.arange(11), 11, 3)
    assert folds.tolist() == sorted(folds.tolist())
    assert np.bincount(folds).tolist() == [3, 4, 4]
    runs = runs_of(np.array([0, 1, 2, 5, 6, 7]), np.array([0, 0, 1, 1, 1, 1]))
    assert runs.tolist() == [0, 0, 1, 2, 2, 2]
    assert run_bounds(runs).tolist() == [0, 2, 3, 6]


def test_few_directions_give_fewer_components_than_asked():
    rows = np.random.default_rng(0).standard_normal((100, 2))
    monitor = KernelMonitor(30, 60, kernel="linear", random_state=0).fit(rows)
    assert monitor.n_components_ == 2
    assert KernelMonitor(random_state=0).fit(rows[:12]).n_components_ < 12


def correlated_values(n, rng, persistence, smoothing=None):
    """Squares of a slow process, and their smoothed mean: as SPE of a plant goes."""
    from scipy.signal import lfilter

    noise = rng.standard_normal((n + 200, 3))
    states = lfilter([np.sqrt(1 - persistence**2)], [1, -persistence], noise, axis=0)[200:]
    return smoothed(np.sum(states**2, axis=1), smoothing, 3.0)


@pytest.mark.parametrize(
    ("n", "persistence", "smoothing"), [(500, 0.0, None), (500, 0.9, None), (2000, 0.95, None), (500, 0.0, 0.05)]
)
def test_the_interval_of_the_rate_holds_for_rows_that_follow_each_other(n, persistence, smoothing):
    """Truth by a series long enough to know the rate of every limit; taken as independent, half of them miss."""
    rng = np.random.default_rng(0)
    long = np.sort(correlated_values(200_000, rng, persistence, smoothing))
    inside = 0
    for _ in range(150):
        limit = limit_of(correlated_values(n, rng, persistence, smoothing), 0.05, smoothing)
        rate = 1 - np.searchsorted(long, limit.value) / len(long)
        inside += limit.interval[0] <= rate <= limit.interval[1]
    assert inside / 150 > 0.83


def test_values_that_are_all_the_same_or_few_have_a_limit():
    for values in (np.zeros(50), np.arange(2.0), np.ones(1)):
        limit = limit_of(values, 0.05)
        assert limit.value == values[-1]
        assert 0 <= limit.interval[0] < limit.interval[1] <= 1


def test_smoothing_alarms_as_often_as_asked_on_a_long_series():
    rates = []
    for seed in range(8):
        monitor = KernelMonitor(4, 20, smoothing=0.1, random_state=seed).fit(ring(500, seed))
        rates.append(np.mean(monitor.statistics(ring(4000, 100 + seed)).alarm))
    assert np.mean(rates) == pytest.approx(0.05, abs=0.02)


def test_smoothing_that_remembers_more_rows_than_there_are_is_said_to_leave_the_limit_open():
    with pytest.warns(UserWarning, match=r"300 of them count as 1, too few .* or less smoothing"):
        KernelMonitor(4, 20, smoothing=0.001, random_state=0).fit(ring(300, 0))


def test_smoothing_starts_anew_in_every_series():
    """Two series, far apart in level, and windows of one row: a mean that ran on would set the limit by the jump."""
    rows = np.vstack([ring(200, 0), ring(200, 1)])
    labels = np.repeat([0, 1], 200)
    monitor = KernelMonitor(4, 20, smoothing=0.1, random_state=0)
    rows_of_both = monitor._series(rows, labels, fits=True)
    assert np.flatnonzero(np.diff(rows_of_both.sample(1000, 256, 0).runs)).tolist() == [199]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", ["linear", "cosine"])
def test_components_that_leave_nothing_over_are_said_to_make_the_limit_meaningless(kernel, dtype):
    rows = ring(300, 0).astype(dtype)
    with pytest.warns(UserWarning, match="n_components=3 leaves nothing over"):
        KernelMonitor(30, kernel=kernel, random_state=0).fit(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelMonitor(1, kernel=kernel, random_state=0).fit(rows)


def test_a_limit_that_no_row_can_reach_is_told():
    """A kernel so narrow that every row is alone: held-out rows are as far as a row can be."""
    rows = ring(200, 0)
    with pytest.warns(UserWarning, match="a row unlike all others would not alarm"):
        found = KernelMonitor(4, 20, gamma=1e6, random_state=0).fit(rows)
    far = np.full((1, 3), 1e3)
    assert found._detector.farthest == pytest.approx(-found.score_samples(far)[0])
    assert found.predict(far) == 1
    assert all("a row unlike all others would not alarm" in note for note in found.notes(far))
    assert len(found.notes(far)) == 1


def test_a_sorted_table_is_told_to_be_shuffled_rather_than_to_have_more_rows():
    """Its folds are unlike each other and its neighbours alike; shuffled, the rows give no warning."""
    rng = np.random.default_rng(0)
    age = np.sort(rng.uniform(0, 10, 1200))
    rows = np.column_stack([age, age**2 / 10, np.sqrt(age)]) + 0.001 * rng.standard_normal((1200, 3))
    with pytest.warns(UserWarning, match=r"1,200 of them.* 0\.0 % to .* %\. .*, or shuffle the rows if they are"):
        KernelMonitor(2, 20, false_alarm_rate=0.02, random_state=0).fit(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelMonitor(2, 20, false_alarm_rate=0.02, random_state=0).fit(rng.permutation(rows))


def test_whitening_with_few_rows_a_column_is_said_to_have_no_limit_that_holds():
    rows = np.random.default_rng(0).standard_normal((60, 40))
    with pytest.warns(UserWarning, match="60 rows for 40 columns: below 5 rows a column the limit does not hold"):
        KernelMonitor(5, 20, whiten=True, random_state=0).fit(rows)


@pytest.mark.filterwarnings("ignore:.*held-out rows")
def test_bad_input_says_what_is_needed_and_changes_nothing():
    rows = ring(100, 0)
    monitor = KernelMonitor(3, 10, random_state=0).fit(rows)
    before = monitor.score_samples(rows)
    for bad, message in [
        (rows[:3], r"n_samples=3 is too few for cv=5"),
        (np.where(np.arange(300).reshape(100, 3) == 7, np.nan, rows), "NaN"),
        (np.zeros((50, 3)), "no variance"),
        (rows[:1], "minimum of 2"),
        (np.vstack([np.zeros((50, 3)), np.ones((1, 3))]), r"no model without rows 40 to 50, fold 5 of cv=5"),
    ]:
        with pytest.raises(ValueError, match=message):
            monitor.fit(bad)
        np.testing.assert_array_equal(monitor.score_samples(rows), before)
    with pytest.raises(ValueError, match=r"is too few for cv=5: every fold needs a row of 31 consecutive rows"):
        KernelMonitor(3, 10, lags=30).fit(rows)
    with pytest.raises(ValueError, match=r"only 1 such window is left. Give more rows \(at least 500\), fewer lags"):
        KernelMonitor(3, 10, lags=99).fit(rows)
    with pytest.raises(ValueError, match="lags=200 needs more rows"):
        KernelMonitor(3, 10, lags=200).fit(rows)
    for options, message in [
        ({"alarm_rule": (3, 2)}, "1 <= k <= n"),
        ({"cv": "prefit"}, "needs estimator="),
        ({"estimator": SparseKernelPCA(kernel="precomputed")}, "needs rows"),
        ({"estimator": SparseKernelPCA(), "half_life": 50}, "give estimator=None"),
        ({"estimator": object()}, "no kernel estimator"),
        ({"estimator": ElasticNetPCA()}, "ElasticNetPCA is no kernel estimator"),
        ({"estimator": SparseKernelPCA}, "SparseKernelPCA is a class: give an instance"),
        ({"false_alarm_rate": 1.5}, "false_alarm_rate"),
        ({"smoothing": 0.0}, "smoothing"),
        ({"kernel": "precomputed"}, "kernel"),
    ]:
        with pytest.raises(ValueError, match=message):
            KernelMonitor(**options).fit(rows)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("cv", [2, 3, 5])
@pytest.mark.parametrize("lags", [0, 1, 4])
def test_the_fewest_rows_that_a_refusal_names_are_enough_and_one_less_is_not(cv, lags):
    rows, monitor = ring(100, 0), KernelMonitor(1, 2, cv=cv, lags=lags, random_state=0)
    with pytest.raises(ValueError, match="at least") as refused:
        monitor.fit(rows[: lags + 2])
    needed = int(str(refused.value).split("at least ")[1].split(")")[0])
    monitor.fit(rows[:needed])
    with pytest.raises(ValueError, match=f"n_samples={needed - 1} is too few for cv={cv}"):
        monitor.fit(rows[: needed - 1])


def test_constant_columns_are_named_and_a_change_in_one_is_seen_unless_whitened():
    rows = np.hstack([ring(200, 0), np.full((200, 1), 7.0)])
    with pytest.warns(UserWarning, match=r"1 constant column \(x3\): they keep their own unit"):
        monitor = KernelMonitor(4, 20, random_state=0).fit(rows)
    moved = rows[:20] + np.array([0, 0, 0, 4.0])
    assert np.all(monitor.predict(moved) == -1)
    assert np.all(monitor.contributions(moved).argmax(axis=1) == 3)
    with pytest.warns(UserWarning, match="a change in them is not seen"):
        blind = KernelMonitor(4, 20, whiten=True, random_state=0).fit(rows)
    np.testing.assert_allclose(blind.score_samples(moved), blind.score_samples(rows[:20]))


def test_the_false_alarms_of_many_rows_are_those_asked_for():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40_000, 4)) @ rng.standard_normal((4, 4))
    monitor = KernelMonitor(5, 20, false_alarm_rate=0.02, random_state=0).fit(rows[:30_000])
    count = int(np.sum(monitor.predict(rows[30_000:]) < 0))
    assert binom.ppf(1e-4, 10_000, 0.017) < count < binom.ppf(1 - 1e-4, 10_000, 0.023)
    assert monitor.n_held_out_ == 20_000


@pytest.mark.parametrize("name", ["n_components", "gamma", "lags", "smoothing", "half_life"])
def test_a_truth_value_is_no_number_to_a_monitor_either(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' parameter of KernelMonitor must not be a bool"):
        KernelMonitor(**{name: True}).fit(np.random.default_rng(0).standard_normal((200, 3)))


def test_a_memory_longer_than_any_series_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'smoothing' parameter of KernelMonitor must be a float in the range"):
        KernelMonitor(smoothing=1e-300).fit(np.random.default_rng(0).standard_normal((200, 3)))


def test_the_limit_of_t2_is_that_of_t2():
    """New rows of the same kind exceed it as often as asked, and it is no limit of the residuals."""
    fresh, shares = ring(4000, 100), []
    for seed in range(4):
        monitor = KernelMonitor(random_state=seed).fit(ring(300, seed))
        shares.append(np.mean(monitor.statistics(fresh).t2 > monitor.limits_["t2"]))
        assert monitor.limits_["t2"] > 5 * monitor.limits_["spe"]
    assert 0.02 < np.mean(shares) < 0.09


def test_smoothing_begins_anew_in_every_run():
    values = np.random.default_rng(0).standard_normal(20)
    bounds = np.array([0, 8, 20])
    for weight in (0.3, None):
        apart = np.concatenate([smoothed(values[:8], weight, 0.5), smoothed(values[8:], weight, 0.5)])
        np.testing.assert_array_equal(smoothed_runs(values, bounds, weight, 0.5), apart)


def test_ordinary_rows_are_fitted_without_a_word():
    """What the model inside would advise on its own, on its steps or on components that follow rows, is not said."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelMonitor(random_state=0).fit(ring(300, 0))
        KernelMonitor(8, 12, random_state=0).fit(ring(300, 0))
