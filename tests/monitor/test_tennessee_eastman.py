"""The figures of the Tennessee Eastman experiment, where its data are at hand."""

from __future__ import annotations

import numpy as np
import pytest

datasets = pytest.importorskip("experiments.datasets")
tennessee = pytest.importorskip("experiments.tennessee_eastman")


@pytest.fixture(scope="module")
def data():
    try:
        return tennessee.tables()
    except datasets.MissingData as missing:
        pytest.skip(f"needs {missing}")


def test_linear_methods_detect_what_others_have_published(data):
    for components, lags, expected in ((11, 0, (51.1, 63.3)), (29, 2, (54.0, 65.2))):
        for statistic, percent in zip(tennessee.linear(data["d00"], components, lags), expected, strict=True):
            _, found, _ = tennessee.rates(data, tennessee.Statistic("", statistic))
            assert np.mean(found) == pytest.approx(percent, abs=0.5)


def test_the_whitened_monitor_detects_at_few_false_alarms_and_names_the_causes(data):
    options = {"n_components": 10, "n_support": 50, "whiten": True, "false_alarm_rate": 0.01}
    statistic, model = tennessee.monitored(data["d00"], "", **options)
    false_alarms, found, _ = tennessee.rates(data, statistic)
    assert false_alarms <= 1.5
    assert np.mean(found) >= 78.5
    for fault, causes in ((4, {50, 8}), (5, {51}), (6, {0, 43}), (14, {20})):
        rows = data[f"d{fault:02d}_te"][tennessee.FAULT_START :]
        alarms = np.flatnonzero(model.predict(rows) < 0)[:50]
        top = np.argsort(-model.contributions(rows[alarms]).mean(axis=0))
        assert set(top[: len(causes)].tolist()) == causes
