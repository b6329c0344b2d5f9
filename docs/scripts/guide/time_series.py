"""
Time series
===========

My rows are a time series. Cut it into windows, let hours and seasons be
circles, and split it by time when you measure anything.
"""

# %%
# Windows
# -------
#
# One value says little about a series; a window of values says what it is
# doing. ``sliding_window_view`` makes one row of each window. Here is a
# heart-like signal that misses a beat:

import matplotlib.pyplot as plt
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from kernelsieve import KernelMonitor, SparseKernelPCA, TableEncoder

rng = np.random.default_rng(0)
t = np.arange(24_000)
phase = 2 * np.pi * t / 40
signal = np.exp(4 * (np.cos(phase) - 1)) + 0.3 * np.sin(phase / 2) ** 2
signal += 0.05 * rng.standard_normal(len(t))
signal[22_000:22_040] = 0.05 * rng.standard_normal(40)  # a missing beat

windows = sliding_window_view(signal, 40)
print("rows of 40 values each:", windows.shape)
model = SparseKernelPCA(3, n_support=40, random_state=0).fit(windows[:3000])
scores = model.transform(windows)

fig, axes = plt.subplots(1, 2, figsize=(7.2, 3), layout="constrained")
axes[0].plot(t[21_900:22_150], signal[21_900:22_150])
axes[0].set(title="the signal", xlabel="time")
axes[1].plot(scores[:3000, 0], scores[:3000, 1], linewidth=0.3)
axes[1].plot(scores[21_960:22_040, 0], scores[21_960:22_040, 1], linewidth=2)
axes[1].set(title="windows: a loop, and the missing beat")
axes[1].set(xlabel="1st component", ylabel="2nd component")
plt.show()

# %%
# A periodic signal becomes a closed loop in the scores, and the missing beat
# leaves it.
#
# Alarms
# ------
#
# :class:`~kernelsieve.KernelMonitor` builds the windows itself: ``lags=39``
# judges each row together with the 39 before it. Its limit comes from held-out
# *blocks* of the normal series, because neighbouring windows are almost the
# same. They count as few independent rows, so give a long normal series; the
# fit warns if it is too short. See :doc:`novelty_and_monitoring`.

monitor = KernelMonitor(
    6, n_support=40, lags=39, false_alarm_rate=0.01, random_state=0
).fit(signal[:20_000, None])
alarms = np.flatnonzero(monitor.predict(signal[20_000:, None]) < 0) + 20_000
missed_beat = (alarms >= 22_000) & (alarms < 22_080)
print(
    f"alarms while a window holds the missing beat: {missed_beat.sum()} of 80"
)
print(f"alarms elsewhere: {(~missed_beat).sum() / 3920:.1%} of the rows")

# %%
# Dates and circles
# -----------------
#
# Hours, weekdays and months repeat: 23 h is next to 0 h, and December next to
# January. :class:`~kernelsieve.TableEncoder` knows this. Columns named
# ``year``, ``month``, ``day`` and ``hour`` are joined into one date, and of
# every date the season, the weekday and the hour become points on circles, if
# the rows cover at least one turn. An hour without a date is a circle by
# itself.
# ``calendar=False`` switches this off. Here is electricity use by hour, with
# one peak in the evening:

import pandas as pd

hours = pd.date_range("2025-01-01", periods=24 * 60, freq="h")
angle = 2 * np.pi * hours.hour.to_numpy() / 24
use = 5 + 2 * np.cos(angle - 2 * np.pi * 20 / 24)
use += rng.normal(0, 0.3, len(hours))
frame = pd.DataFrame({"hour": hours.hour, "use": use})

fig, axes = plt.subplots(1, 2, figsize=(7.2, 3), layout="constrained")
encoders = {
    "hour as a number": TableEncoder(calendar=False),
    "hour on a circle": TableEncoder(),
}
for ax, (name, encoder) in zip(axes, encoders.items(), strict=True):
    rows = encoder.fit_transform(frame)
    scores = SparseKernelPCA(2, random_state=0).fit_transform(rows)
    dots = ax.scatter(
        scores[:, 0], scores[:, 1], c=hours.hour, cmap="twilight", s=6
    )
    ax.set(title=name, xlabel="1st component", ylabel="2nd component")
fig.colorbar(dots, ax=axes, label="hour")
plt.show()

# %%
# On the left midnight is torn apart. On the right the day closes.
#
# What only tells how late a row is, the time itself and counters, is of no use
# to a model of rows to come. ``TableEncoder(trend=False)`` leaves it out, and
# ``KernelMonitor`` does so for tables.
#
# Measure by time
# ---------------
#
# Neighbouring windows overlap, so a random split puts almost the same row into
# both halves and every number looks too good. Train on the past and test on the
# future, or use ``sklearn.model_selection.TimeSeriesSplit``. If the series
# drifts, let the model forget: :doc:`streams_and_drift`.
#
# .. admonition:: In short
#
#    ``sliding_window_view(series, width)``, circles for what repeats, and
#    ``KernelMonitor(lags=...)`` for alarms.
