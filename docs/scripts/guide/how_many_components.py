"""
How many components
===================

How many components should a model have? As many as what comes after them can use: about 30 for neighbours and novelty,
50 to 80 for linear models on the scores, 2 only for pictures. This page shows how to see it on your data.
"""

# %%
# The number of components is the strongest setting of kernel PCA behind a task, stronger than the width. Variance alone
# does not tell it: there is rarely an elbow, because a Gaussian kernel spreads variance over many directions.

import matplotlib.pyplot as plt
import numpy as np
import pictures
import shown
from sklearn.linear_model import RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier

from kernelsieve import SparseKernelPCA, plots

data = shown.digits()
print(data.source)
most = shown.amount(80, 20)
model = SparseKernelPCA(most, n_support=shown.amount(160, 50), random_state=0).fit(data.train)
plots.spectrum(model)
plt.show()

# %%
# Components come in order and each is the best there is after those before it. So one fit with many components answers
# the question for all smaller numbers: leave columns of the scores out.

train, test = model.transform(data.train), model.transform(data.test)
numbers = [n for n in (2, 5, 10, 20, 30, 50, 80) if n <= most]
curves = {"5 neighbours": [], "ridge classifier": []}
for number in numbers:
    for name, predictor in (("5 neighbours", KNeighborsClassifier(5)), ("ridge classifier", RidgeClassifier(1e-3))):
        predictor.fit(train[:, :number], data.train_labels)
        curves[name].append(100 * predictor.score(test[:, :number], data.test_labels))

figure, (ax,) = pictures.panels(1, 6, 3.6)
pictures.curve(ax, numbers, curves, "components", "held-out accuracy, %")
ax.set_title("Neighbours have enough at 20 to 30, a linear model wants more")
plt.show()

# %%
# By a share of the variance
# --------------------------
#
# Where there is no task, ask for a share of the total variance: ``n_components=0.5`` takes as many as exact kernel PCA
# needs for half of it, and ``n_components=None`` as many as for ``variance``.

for share in (0.4, 0.6, 0.75):
    fitted = SparseKernelPCA(share, n_support=shown.amount(100, 60), random_state=0).fit(data.train)
    print(f"{share:.0%} of the variance: {fitted.dual_coef_.shape[1]} components")

# %%
# More than chance
# ----------------
#
# A component is worth having if it explains more than it would on rows without structure. Shuffling each column by
# itself destroys all relations between columns and keeps everything else:

rng = np.random.default_rng(0)
shuffled = rng.permuted(data.train, axis=0)
chance = SparseKernelPCA(20, n_support=60, gamma=model.gamma_, random_state=0).fit(shuffled).explained_variance_ratio_
real = model.explained_variance_ratio_[:20]
figure, (ax,) = pictures.panels(1, 6, 3.2)
shares = {"data": 100 * real, "columns shuffled": 100 * chance}
pictures.curve(ax, np.arange(1, len(real) + 1), shares, "component", "variance explained, %")
ax.set_title("Components above the shuffled ones are real")
plt.show()
print("components above chance:", int(np.argmax(real < chance)) or f"{len(real)} or more")

# %%
# :func:`kernelsieve.report` makes the same comparison for any model and draws it. One limit is hard: with
# centring, :math:`M` components need at least :math:`M + 1` points.
#
# .. admonition:: In short
#
#    Fit once with 80, look at the task for 10, 20, 30, 50 and 80, and keep the smallest that is as good.
