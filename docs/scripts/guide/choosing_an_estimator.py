"""
Choosing an estimator
=====================

Which class should you take? For nine readers in ten the answer is
:class:`~kernelsieve.SparseKernelPCA`, and this page shows how to tell whether
you are the tenth. It starts with what kernel PCA is, for readers who have not
met it.
"""

# %%
# What kernel PCA does
# --------------------
#
# PCA describes each row by a few numbers, its *scores*: how far the row lies
# along the directions in which the rows vary most. Those directions are
# straight. If the rows lie on a curve or around a ring, no straight direction
# describes them well.
#
# Kernel PCA replaces directions by similarities. A *kernel* :math:`k(x, y)`
# says how similar two rows are: 1 for identical rows, near 0 for rows that have
# nothing in common. A score is then a weighted sum of similarities to a few
# points, and such a sum can follow any curve.
#
# Two rings show the difference. No straight line separates them, so PCA cannot
# help a linear classifier. Kernel PCA can:

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_circles
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from kernelsieve import SparseKernelPCA

X, ring = make_circles(600, factor=0.3, noise=0.05, random_state=0)
models = {
    "PCA": PCA(2),
    "kernel PCA": SparseKernelPCA(2, n_support=20, gamma=4, random_state=0),
}
fig, axes = plt.subplots(1, 3, figsize=(7.2, 2.6), layout="constrained")
axes[0].scatter(X[:, 0], X[:, 1], c=ring, cmap="cividis", s=6)
axes[0].set_title("rows")
for ax, (name, model) in zip(axes[1:], models.items(), strict=True):
    scores = model.fit_transform(X)
    accuracy = cross_val_score(LogisticRegression(), scores, ring).mean()
    print(f"{name}: a linear classifier is right for {accuracy:.0%} of rows")
    ax.scatter(scores[:, 0], scores[:, 1], c=ring, cmap="cividis", s=6)
    ax.set_title(f"{name} scores")
plt.show()

# %%
# Would PCA do?
# -------------
#
# Often it would, and then you should use it: PCA is exact, easier to explain,
# and its loadings can be read. Two checks take a minute.
#
# 1. *Compare downstream performance.* If a model on PCA's scores is as good as
#    one on kernel PCA's, curvature does not matter for your purpose.
# 2. *Widen the kernel.* With a kernel much wider than the data, kernel PCA
#    becomes PCA. If nothing changes on the way there, the structure is linear.
#
# Handwritten digits are such a case. How well can a 5-nearest-neighbour
# classifier recognise unseen digits from just ten scores?

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

digits = load_digits()
train, test, train_labels, test_labels = train_test_split(
    digits.data / 16, digits.target, test_size=1 / 3, random_state=0
)
sparse = SparseKernelPCA(10, n_support=50, random_state=0)
for name, model in {"PCA": PCA(10), "kernel PCA": sparse}.items():
    classifier = KNeighborsClassifier(5)
    classifier.fit(model.fit_transform(train), train_labels)
    accuracy = classifier.score(model.transform(test), test_labels)
    print(f"{name}: {accuracy:.1%} of held-out digits classified correctly")

# %%
# With ten components PCA is as good here, so take PCA. Kernel PCA pays off with
# more components and a linear model on top (:doc:`how_many_components`), for
# :doc:`finding odd rows <novelty_and_monitoring>` and for :doc:`removing noise
# <preimages_and_denoising>`.
#
# Which class
# -----------
#
# .. list-table::
#    :header-rows: 1
#    :widths: 55 45
#
#    * - you have, or want
#      - take
#    * - anything that is not listed below
#      - :class:`~kernelsieve.SparseKernelPCA`
#    * - to know whether a row is normal
#      - :class:`~kernelsieve.KernelMonitor`
#    * - a table with text, dates and gaps
#      - :class:`~kernelsieve.TableEncoder` before either of them
#    * - a fitted scikit-learn ``KernelPCA`` that is too slow
#      - :func:`compress(model, 50) <kernelsieve.compress>`
#    * - a few hundred rows, and exact kernel PCA
#      - :class:`~kernelsieve.KernelPCA`
#    * - an unbounded kernel, and outliers that spoil the fit
#      - :class:`~kernelsieve.RobustSparseKernelPCA`
#    * - sparse loadings on the input columns
#      - :class:`~kernelsieve.ElasticNetPCA`
#    * - a published method, to compare with
#      - :doc:`the methods </methods/index>` have a page for each
#
# What all of them share
# ----------------------
#
# Every kernel estimator ends in the same object: a few *support points*
# :math:`s_1, \dots, s_m`, a table of coefficients and an offset. A score costs
# :math:`m` kernel values, no matter how many rows the model was fitted to:
#
# .. math:: z_k(x) = \sum_{i=1}^m A_{ik}\, k(x, s_i) - b_k
#
# This is why every model can be saved, exported, plotted and monitored in the
# same way, and why you can change your mind by changing one line.

squares = ((test[:, None, :] - sparse.support_vectors_) ** 2).sum(axis=-1)
by_hand = np.exp(-sparse.gamma_ * squares) @ sparse.dual_coef_ - sparse.offset_
difference = np.abs(by_hand - sparse.transform(test)).max()
print("support points, components:", sparse.dual_coef_.shape)
print(f"formula against transform: largest difference {difference:.0e}")

# %%
# .. admonition:: In short
#
#    Take ``SparseKernelPCA``. Compare it with ``PCA`` once, and keep ``PCA`` if
#    nothing is lost. The next page is about the setting that matters most for a
#    kernel, its :doc:`width <kernel_and_width>`.
