"""
How many components
===================

How many components should a model have? As many as the next step can use: about
30 for nearest neighbours and novelty, 50 to 80 for linear models on the scores,
2 only for pictures. This page shows how to find out on your data.
"""

# %%
# The number of components is the setting that affects downstream results most,
# more than the width of the kernel. Variance alone will not tell you: a
# Gaussian kernel spreads variance over many directions, so there is rarely an
# elbow.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from kernelsieve import KernelWarning, SparseKernelPCA, plots

# A warning says that some of the last of 80 components are not those of exact
# kernel PCA; model.component_agreement_ has the figures.
warnings.simplefilter("ignore", KernelWarning)

digits = load_digits()
train, test, train_labels, test_labels = train_test_split(
    digits.data / 16, digits.target, test_size=1 / 3, random_state=0
)
model = SparseKernelPCA(80, n_support=160, random_state=0).fit(train)
plots.spectrum(model)
plt.show()

# %%
# One fit answers for all smaller numbers
# ---------------------------------------
#
# Components come in order, and each is the best there is after those before it.
# So fit once with many components and leave columns of the scores out:

train_scores, test_scores = model.transform(train), model.transform(test)
numbers = [2, 5, 10, 20, 30, 50, 80]
for classifier in (KNeighborsClassifier(5), RidgeClassifier(1e-3)):
    accuracy = []
    for n in numbers:
        classifier.fit(train_scores[:, :n], train_labels)
        accuracy.append(classifier.score(test_scores[:, :n], test_labels))
    plt.plot(numbers, accuracy, marker="o", label=type(classifier).__name__)
plt.xlabel("components")
plt.title("held-out accuracy")
plt.legend()
plt.show()

# %%
# Nearest neighbours have enough at 20 to 30. A linear model wants more.
#
# A share of the variance
# -----------------------
#
# Without a task, ask for a share of the total variance. ``n_components=0.5``
# takes as many as exact kernel PCA needs for half of it. ``n_components=None``
# takes as many as ``variance`` asks for.

for share in (0.4, 0.6, 0.75):
    fitted = SparseKernelPCA(share, n_support=100, random_state=0).fit(train)
    n_components = fitted.dual_coef_.shape[1]
    print(f"{share:.0%} of the variance: {n_components} components")

# %%
# Better than chance
# ------------------
#
# A component is worth keeping if it explains more than it would on data without
# structure. Shuffling each column independently destroys all relations between
# columns and keeps everything else:

shuffled = np.random.default_rng(0).permuted(train, axis=0)
chance = SparseKernelPCA(20, n_support=60, gamma=model.gamma_, random_state=0)
chance.fit(shuffled)
plt.plot(range(1, 21), model.explained_variance_ratio_[:20], label="data")
plt.plot(range(1, 21), chance.explained_variance_ratio_, label="shuffled")
plt.xlabel("component")
plt.xticks([1, 5, 10, 15, 20])
plt.title("share of the variance explained")
plt.legend()
plt.show()

# %%
# Components above the shuffled curve are real. :func:`kernelsieve.report` draws
# this comparison for any model. One limit is hard: with centring, :math:`M`
# components need at least :math:`M + 1` support points.
#
# .. admonition:: In short
#
#    Fit once with 80, look at the task for 10, 20, 30, 50 and 80, and keep the
#    smallest number that is as good.
