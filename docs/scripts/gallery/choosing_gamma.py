"""
Choosing gamma without labels
=============================

Without labels, which width? The median rule needs no choice. Where a choice is wanted, the error of denoising is in the
units of the data and can be compared across widths; explained variance cannot.
"""

import matplotlib.pyplot as plt
import numpy as np
import pictures
import shown
from sklearn.neighbors import KNeighborsClassifier

from kernelsieve import SparseKernelPCA

data = shown.digits()
print(data.source)
median = SparseKernelPCA(2, n_support=20, random_state=0).fit(data.train).gamma_
factors = np.logspace(-1.5, 1, shown.amount(7, 3))
noisy = data.test + 0.25 * np.random.default_rng(0).standard_normal(data.test.shape)
spread = np.sum((data.test - data.test.mean(axis=0)) ** 2)

curves = {"denoising score": [], "variance explained (score)": [], "neighbours' accuracy (needs labels)": []}
for factor in factors:
    model = SparseKernelPCA(20, n_support=60, gamma=factor * median, random_state=0)
    model, _ = shown.warned(lambda model=model: model.fit(data.train))
    restored = model.inverse_transform(model.transform(noisy))
    neighbours = KNeighborsClassifier(5).fit(model.transform(data.train), data.train_labels)
    curves["denoising score"].append(1 - np.sum((data.test - restored) ** 2) / spread)
    curves["variance explained (score)"].append(model.score(data.test))
    curves["neighbours' accuracy (needs labels)"].append(neighbours.score(model.transform(data.test), data.test_labels))

figure, (ax,) = pictures.panels(1, 7, 4)
pictures.curve(ax, factors, curves, "gamma / median gamma", "higher is better, or so it seems")
ax.set(xscale="log", title="Only explained variance asks for the widest kernel")
ax.axvline(1, color=pictures.COLORS[8], linestyle=":")
plt.show()

# %%
# What each would pick
# --------------------
#
# Labels, where there are some, are the judge. Explained variance is always largest for the widest kernel on offer,
# because a wide kernel leaves less to explain. Denoising looks at rows as they are, and agrees with the labels within
# the flat part of their curve.

for name, values in curves.items():
    best = int(np.argmax(values))
    accuracy = 100 * curves["neighbours' accuracy (needs labels)"][best]
    print(f"{name:<36} picks {factors[best]:.2f} x median; neighbours there: {accuracy:.1f} %")
middle = int(np.argmin(np.abs(np.log(factors))))
print(f"{'the median itself':<36} {'':>19} neighbours there: {100 * curves[next(reversed(curves))][middle]:.1f} %")

# %%
# The kernels themselves
# ----------------------
#
# What the width does can be seen in the distances to a row: too wide and all rows are alike, too narrow and none is.

figure, axes = pictures.panels(3, 3.6, 2.6)
distances = ((data.train[:1] - data.train[1:]) ** 2).sum(axis=1)
for ax, factor in zip(axes, (0.03, 1.0, 10.0), strict=True):
    ax.hist(np.exp(-factor * median * distances), bins=np.linspace(0, 1, 30), color=pictures.COLORS[0])
    ax.set(title=f"{factor:g} x median gamma", xlabel="likeness to one row", yticks=[])
plt.show()
