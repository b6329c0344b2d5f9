"""
Tennessee Eastman: 21 faults of a chemical plant
================================================

The classic test of process monitoring: 52 variables, 21 kinds of faults, the fault from row 160 on. How many faulty
rows are found, at which rate of false alarms, and which variable is named?
"""

import matplotlib.pyplot as plt
import numpy as np
import pictures
import shown
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from kernelsieve import KernelMonitor, plots

faults = range(1, shown.amount(22, 4))
plants = {fault: shown.tennessee_eastman(fault) for fault in faults}
print(plants[1].source.split(", fault")[0])
normal, names = plants[1].normal, plants[1].names

# %%
# Detection
# ---------
#
# PCA's SPE against the monitor with and without whitening. All are asked for one false alarm in a hundred, and all have
# their limit from held-out folds.

n_axes = min(11, normal.shape[1] - 1)


def residual_of(train):
    """PCA's squared prediction error, learnt from `train`, as a function of rows."""
    scaler = StandardScaler().fit(train)
    pca = PCA(n_axes).fit(scaler.transform(train))

    def residual(rows):
        scaled = scaler.transform(rows)
        return ((scaled - pca.inverse_transform(pca.transform(scaled))) ** 2).sum(axis=1)

    return residual


folds = np.array_split(np.arange(len(normal)), 5)
held_out = [residual_of(np.delete(normal, fold, axis=0))(normal[fold]) for fold in folds]
residual, pca_limit = residual_of(normal), np.quantile(np.concatenate(held_out), 0.99)
monitors = {
    "kernel": KernelMonitor(30, 60, false_alarm_rate=0.01, random_state=0),
    "kernel, whitened": KernelMonitor(10, 50, whiten=True, false_alarm_rate=0.01, random_state=0),
}
for name, monitor in monitors.items():
    for message in shown.warned(lambda monitor=monitor: monitor.fit(normal))[1]:
        print(f"{name}: {message}")
found = {"PCA": [], **{name: [] for name in monitors}}
false = {name: [] for name in found}
for plant in plants.values():
    alarms = {"PCA": residual(plant.series) > pca_limit}
    alarms |= {name: monitor.predict(plant.series) < 0 for name, monitor in monitors.items()}
    for name, alarm in alarms.items():
        found[name].append(100 * alarm[plant.fault_from :].mean())
        false[name].append(100 * alarm[: plant.fault_from].mean())

figure, (ax,) = pictures.panels(1, 9, 3.4)
width = 0.27
for number, (name, values) in enumerate(found.items()):
    label = f"{name}: mean {np.mean(values):.0f} %, false alarms {np.mean(false[name]):.1f} %"
    ax.bar(
        np.array(faults) + (number - 1) * width, values, width, color=pictures.COLORS[(8, 5, 0)[number]], label=label
    )
ax.set(xlabel="fault", ylabel="faulty rows found, %", xticks=list(faults), title="Detection of each fault")
ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=1)
plt.show()

# %%
# Honest reading: on this plant the gain is the whitening, not the kernel. Sensors are many and linearly related, and
# faults change their correlations. Faults 3, 9 and 15 are found by no method of this kind. On a curve in few variables
# it is the other way round: there the kernel gains and whitening hurts.
#
# Which variable
# --------------
#
# Fault 4 is a step in the temperature of the reactor's cooling water. The monitor names the valve that answers it.

fault = 4 if 4 in plants else max(plants)
monitor, plant = monitors["kernel, whitened"], plants[fault]
figure, axes = pictures.panels(1, 8, 2.6, rows=2)
plots.monitor_chart(monitor, plant.series, fault=plant.fault_from, axes=axes)
plt.show()

shares = monitor.contributions(plant.series[plant.fault_from : plant.fault_from + 40]).mean(axis=0)
first = np.argsort(-shares)[:8]
figure, (ax,) = pictures.panels(1, 6, 2.8)
pictures.bars(ax, [names[i] for i in first], 100 * shares[first] / shares.sum(), "share of SPE, %", "{:.0f}")
ax.set_title(f"Fault {fault}: the first forty rows")
plt.show()
