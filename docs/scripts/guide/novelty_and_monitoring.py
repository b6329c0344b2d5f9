"""
Novelty and monitoring
======================

Is this row normal, and which variables say that it is not?
:class:`~kernelsieve.KernelMonitor` learns from normal rows and sets a limit
that keeps the rate of false alarms you ask for.
"""

# %%
# One number decides
# ------------------
#
# Kernel PCA of normal rows is a model of what is normal. A new row is judged by
# the part of it that the components do not explain, its *squared prediction
# error* (SPE).
#
# Here is a small simulated plant. Three hidden states move slowly and twelve
# sensors respond to them. In the last 400 rows the fifth sensor reads too high.
# ``whiten=True`` is explained below.

import matplotlib.pyplot as plt
import numpy as np

from kernelsieve import KernelMonitor, plots

rng = np.random.default_rng(0)
n_rows = 6400
states = np.zeros((n_rows, 3))
for row in range(1, n_rows):
    states[row] = 0.8 * states[row - 1] + 0.6 * rng.standard_normal(3)
sensors = np.tanh(states @ rng.standard_normal((3, 12)) / 2)
sensors += 0.1 * rng.standard_normal(sensors.shape)
sensors[6000:, 4] += 1  # the fault
normal, new = sensors[:3000], sensors[3000:]
fault = 3000  # its first row in `new`

monitor = KernelMonitor(
    10, n_support=60, whiten=True, false_alarm_rate=0.01, random_state=0
).fit(normal)
verdict = monitor.predict(new)  # -1 is an alarm
print(f"alarms before the fault: {np.mean(verdict[:fault] < 0):.1%}")
print(f"alarms after it:         {np.mean(verdict[fault:] < 0):.1%}")

fig, axes = plt.subplots(2, 1, figsize=(7.2, 4.6), layout="constrained")
plots.monitor_chart(monitor, new, fault=fault, axes=axes)
plt.show()

# %%
# The lower chart shows Hotelling's T2, how far a row lies *along* the
# components. It never decides: for a Gaussian kernel it falls again far from
# all training rows, where an alarm is needed most.
#
# Limits that hold
# ----------------
#
# The limit is a quantile of SPE on *held-out* blocks of normal rows. A model
# fits its own training rows too well, so a limit taken from them raises too
# many alarms. The monitor reports both limits, and how certain the rate is:

print(f"limit from held-out rows: {monitor.limits_['spe']:.4f}")
print(f"limit from training rows: {monitor.training_limits_['spe']:.4f}")
low, high = monitor.false_alarm_interval_
print(
    f"false alarms to expect: {monitor.false_alarm_rate_:.1%} "
    f"(90 % interval {low:.1%} to {high:.1%})"
)

# %%
# Which variables
# ---------------
#
# ``contributions`` divides SPE among the inputs. On average over the faulty
# rows, the fifth sensor stands out:

shares = monitor.contributions(new[fault:]).mean(axis=0)
plt.figure(figsize=(7.2, 2.6), layout="constrained")
plt.bar(range(1, 13), 100 * shares / shares.sum())
plt.xticks(range(1, 13))
plt.xlabel("sensor")
plt.ylabel("share of SPE, %")
plt.show()

# %%
# Live data
# ---------
#
# ``update`` takes one row at a time and returns a record:

for row in new[fault - 1 : fault + 2]:
    record = monitor.update(row)
    print(
        f"SPE {record.spe:.3f}, limit {record.limit:.3f}, alarm {record.alarm}"
    )

# %%
# Three options for plants:
#
# * ``whiten=True`` compares rows by Mahalanobis distance. It finds changed
#   correlations among many linearly related sensors. Leave it off where normal
#   rows lie on a curve in few variables: there it hurts.
# * ``lags=2`` judges each row together with the two before it.
# * ``smoothing=0.3`` averages SPE over time: slower, with fewer single alarms.
#
# :doc:`/results/tennessee_eastman` shows what whitening does on the classic
# benchmark.
#
# Tables as they are
# ------------------
#
# A frame may hold text, dates and gaps. It is encoded as ``TableEncoder`` does,
# without what only counts up: identifiers, constants, counters and the year are
# left out, and a counter that leaves its range is mentioned once, not as an
# alarm in every row. Causes are named by column, in words. The calendar says
# what is normal when, and is never named as a cause:

import pandas as pd

hours = pd.date_range("2023-01-01", "2024-12-31 23:00", freq="2h")
warmth = -np.cos(2 * np.pi * hours.day_of_year / 365)
wind = rng.choice(["NW", "SE"], len(hours), p=[0.3, 0.7])
table = pd.DataFrame(
    {
        "row": range(len(hours)),
        "year": hours.year,
        "month": hours.month,
        "day": hours.day,
        "hour": hours.hour,
        "temperature": 10 + 12 * warmth + 3 * rng.standard_normal(len(hours)),
        "wind": wind,
    }
)
table.loc[::30, "wind"] = None
weather = KernelMonitor(20, false_alarm_rate=0.01, random_state=0)
weather.fit(table[hours.year == 2023])
later = table[hours.year == 2024].copy()
later.loc[later.index[2000], "temperature"] = -15  # in June
records = weather.update(later)
alarms = [record for record in records if record.alarm]
print(f"{len(alarms) / len(records):.1%} of 2024 alarms; the worst:")
print(max(alarms, key=lambda record: record.spe).causes[0])
print(*weather.notes(later), sep="\n")

# %%
# ``kernelsieve.report(weather, later)`` draws a page: SPE and T2 over time, the
# alarms with their causes, the limit and how sure it is. A row that lacks a
# value which every normal row had is not judged.
#
# Rows with no time order
# -----------------------
#
# Without a time order the monitor is an outlier detector like scikit-learn's,
# with ``fit``, ``predict`` and ``score_samples``. Trained on zeros alone, it
# tells zeros from other digits:

from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

digits = load_digits()
train, test, train_labels, test_labels = train_test_split(
    digits.data / 16, digits.target, test_size=1 / 3, random_state=0
)
zeros = train[train_labels == 0]
inked = zeros.std(axis=0) > 0  # constant pixels carry no information
detector = KernelMonitor(30, random_state=0).fit(zeros[:, inked])
area = roc_auc_score(test_labels == 0, detector.score_samples(test[:, inked]))
print(f"zeros against all other digits: area under the ROC curve {area:.3f}")

# %%
# Over 44 one-class tasks (:doc:`/reports/novelty`) the mean area was .863 with
# 60 support points; exact kernel PCA on all rows reached .862, five nearest
# neighbours .859, ``OneClassSVM`` .845 and ``IsolationForest`` .839.
#
# .. admonition:: In short
#
#    Fit ``KernelMonitor`` to normal rows in time order and use its limit. Try
#    ``whiten=True`` for plants with many sensors.
