"""
Choosing gamma without labels
=============================

Without labels, which width? The median rule needs no choice. If you want to
choose, use the error of denoising: it is in the units of the data and can be
compared across widths. Explained variance cannot.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from kernelsieve import SparseKernelPCA

digits = load_digits()
train, test, train_labels, test_labels = train_test_split(
    digits.data / 16, digits.target, test_size=1 / 3, random_state=0
)
noisy = test + 0.25 * np.random.default_rng(0).standard_normal(test.shape)
spread = np.sum((test - test.mean(axis=0)) ** 2)
median = SparseKernelPCA(2, n_support=20, random_state=0).fit(train).gamma_
factors = np.logspace(-1.5, 1, 7)

curves = {"denoising": [], "explained variance": [], "accuracy (labels)": []}
for factor in factors:
    model = SparseKernelPCA(
        20, n_support=60, gamma=factor * median, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # narrow kernels warn
        model.fit(train)
    restored = model.inverse_transform(model.transform(noisy))
    classifier = KNeighborsClassifier(5)
    classifier.fit(model.transform(train), train_labels)
    accuracy = classifier.score(model.transform(test), test_labels)
    curves["denoising"].append(1 - np.sum((test - restored) ** 2) / spread)
    curves["explained variance"].append(model.score(test))
    curves["accuracy (labels)"].append(accuracy)

for name, values in curves.items():
    plt.semilogx(factors, values, marker="o", label=name)
plt.axvline(1, color="gray", linestyle=":")
plt.xlabel("gamma / median gamma")
plt.legend()
plt.show()

# %%
# What each would pick
# --------------------
#
# Labels, where there are any, decide. Explained variance always picks the
# widest kernel on offer, because a wide kernel leaves less to explain.
# Denoising compares rows in their own units, and its pick costs little
# accuracy:

best = max(curves["accuracy (labels)"])
for name, values in curves.items():
    pick = int(np.argmax(values))
    lost = best - curves["accuracy (labels)"][pick]
    print(f"{name:<20} picks {factors[pick]:.2f} x median, loses {lost:.1%}")
middle = int(np.argmin(np.abs(np.log(factors))))
lost = best - curves["accuracy (labels)"][middle]
print(f"{'the median itself':<20} {'':>22} loses {lost:.1%}")

# %%
# What the width does
# -------------------
#
# Look at the similarities of all rows to one row. Too wide, and all rows are
# alike; too narrow, and none is.

distances = ((train[:1] - train[1:]) ** 2).sum(axis=1)
fig, axes = plt.subplots(1, 3, figsize=(7.2, 2.4), layout="constrained")
for ax, factor in zip(axes, (0.03, 1.0, 10.0), strict=True):
    similarity = np.exp(-factor * median * distances)
    ax.hist(similarity, bins=np.linspace(0, 1, 30))
    ax.set(title=f"{factor:g} x median", xlabel="similarity", yticks=[])
plt.show()
