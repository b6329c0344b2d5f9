"""
Choosing an estimator
=====================

Which class should you take? For nine readers in ten the answer is :class:`~kernelsieve.SparseKernelPCA`, and this page
says how to know whether you are the tenth. It begins with what kernel PCA is, for readers who have not met it.
"""

# %%
# What kernel PCA does
# --------------------
#
# PCA describes rows by a few numbers, their scores: how far each row lies along the directions in which the rows differ
# most. A direction is straight. Where rows lie on a curve or around a ring, no straight direction tells them apart.
#
# Kernel PCA asks another question. A *kernel* :math:`k(x, y)` says how alike two rows are: 1 for the same row, near 0
# for rows that have nothing in common. Kernel PCA finds the few *patterns of likeness* along which rows differ most. A
# score is then a weighted sum of likenesses to some points, and it can follow any curve.
#
# The handwritten digits of scikit-learn show it. How
# well do the nearest neighbours know a held-out digit from ten numbers alone?

import matplotlib.pyplot as plt
import numpy as np
import pictures
import shown
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier

from kernelsieve import SparseKernelPCA

data = shown.digits()
print(data.source)

models = {
    "PCA": PCA(10, random_state=0),
    "ours: SparseKernelPCA": SparseKernelPCA(10, n_support=50, random_state=0),
}
accuracies = {}
for name, model in models.items():
    train, test = model.fit_transform(data.train), model.transform(data.test)
    neighbours = KNeighborsClassifier(5).fit(train, data.train_labels)
    accuracies[name] = 100 * neighbours.score(test, data.test_labels)
    print(f"{name}: {accuracies[name]:.1f} % of held-out digits are known by their neighbours")

# %%
# Would PCA do?
# -------------
#
# Often it would, and then you should take it: it is exact, faster to explain, and its loadings can be read. Two checks
# take a minute.
#
# 1. *Compare what comes after.* If a model on PCA's scores is as good as one on kernel PCA's, the curvature does not
#    matter for your purpose. Ten components of the digits are such a case: PCA's are as good for neighbours, or better.
# 2. *Widen the kernel.* With a kernel ten times as wide as the data, kernel PCA **is** PCA. If the results do not
#    change on the way there, the structure is linear.
#
# Two rings are data on which it matters: no straight line separates them.

from sklearn.datasets import make_circles

rings, ring = make_circles(shown.amount(600, 200), factor=0.3, noise=0.05, random_state=0)
figure, axes = pictures.panels(3)
pictures.classes(axes[0], rings, ring, "rows")
pictures.classes(axes[1], PCA(2).fit_transform(rings), ring, "PCA: the same, turned")
kernel_scores = SparseKernelPCA(2, n_support=20, gamma=10.0, random_state=0).fit_transform(rings)
pictures.classes(axes[2], kernel_scores, ring, "kernel PCA: apart")
plt.show()

# %%
# The decision
# ------------
#
# One figure for the rest. Each box ends in a class; :doc:`the methods </methods/index>` have a page for each.


pictures.decision()
plt.show()

# %%
# What every choice has in common
# -------------------------------
#
# All kernel estimators end in the same object: a few *support points* :math:`s_1, \dots, s_m`, a table of coefficients
# and an offset. A score costs :math:`m` comparisons, however many rows there were to learn from:
#
# .. math:: z_k(x) = \sum_{i=1}^m A_{ik}\, k(x, s_i) - b_k
#
# So all of them can be saved, exported, drawn and monitored in the same way, and you can change your mind later by
# changing one line.

model = models["ours: SparseKernelPCA"]
print("points, components:", model.dual_coef_.shape)
print("share of exact kernel PCA's variance:", round(model.captured_ratio_, 4))
print("largest difference between transform and the formula:", end=" ")
squares = ((data.test[:, None, :] - model.support_vectors_) ** 2).sum(axis=-1)
by_hand = np.exp(-model.gamma_ * squares) @ model.dual_coef_ - model.offset_
print(f"{np.abs(by_hand - model.transform(data.test)).max():.0e}")

# %%
# .. admonition:: In short
#
#    Take ``SparseKernelPCA``. Compare with ``PCA`` once, and keep ``PCA`` if nothing is lost. The next page is about
#    the one setting that matters most, the :doc:`width of the kernel <kernel_and_width>`.
