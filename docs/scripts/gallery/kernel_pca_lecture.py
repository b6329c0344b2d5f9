"""
A lecture's three experiments
=============================

The experiments with which kernel PCA is usually taught: a parabola with a polynomial kernel, three clusters with a
Gaussian one, and handwritten digits for a linear classifier. The report is
:doc:`/reports/kernel_pca_lecture`.
"""

import matplotlib.pyplot as plt
import numpy as np
import pictures
import shown
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

from kernelsieve import KernelPCA, SparseKernelPCA, plots

print("made rows: a parabola, three clusters; then the digits of scikit-learn")
rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, 150)
parabola = np.column_stack([x, x**2 + 0.1 * rng.standard_normal(150)])
centres = np.array([(-0.5, -0.2), (0.0, 0.6), (0.5, 0.0)])
clusters = np.vstack([centre + 0.1 * rng.standard_normal((30, 2)) for centre in centres])

# %%
# The parabola
# ------------
#
# With a polynomial kernel of degree 2, the first component is the place along the curve, the second the distance from
# its middle. Six points are enough.

model = SparseKernelPCA(2, n_support=6, kernel="poly", degree=2, gamma=1.0, random_state=0).fit(parabola)
figure, axes = pictures.panels(2, 4.4, 3.4)
for component, ax in enumerate(axes):
    plots.contours(model, parabola, component=component, resolution=shown.amount(120, 40), ax=ax)
plt.show()
print(f"kept of exact: {model.captured_ratio_:.4f}")

# %%
# Three clusters
# --------------
#
# With a Gaussian kernel two components split three clusters.

model = SparseKernelPCA(2, n_support=8, gamma=1 / (2 * 0.05), random_state=0).fit(clusters)
figure, axes = pictures.panels(3, 3.6, 3)
for component, ax in enumerate(axes[:2]):
    plots.contours(model, clusters, component=component, resolution=shown.amount(120, 40), ax=ax)
pictures.classes(axes[2], model.transform(clusters), np.repeat([0, 1, 2], 30), "scores")
plt.show()
print(f"kept of exact: {model.captured_ratio_:.4f}")

# %%
# Digits
# ------
#
# A logistic regression on raw pixels, on PCA's scores, and on kernel PCA's. Curved scores let a straight classifier
# draw curved borders.

data = shown.digits()
numbers = [5, 10, 20, 40, 60][: shown.amount(5, 2)]


def accuracy(train, test):
    return 100 * LogisticRegression(C=shown.amount(100, 1), max_iter=1000).fit(train, data.train_labels).score(
        test, data.test_labels
    )


raw = accuracy(data.train, data.test)
pca, kernel = PCA(numbers[-1]).fit(data.train), KernelPCA(numbers[-1], kernel="rbf", gamma="median").fit(data.train)
sparse = SparseKernelPCA(numbers[-1], n_support=shown.amount(150, 40), random_state=0).fit(data.train)
curves = {"PCA": [], "exact kernel PCA": [], f"{sparse.n_support_} points": []}
for name, model in zip(curves, (pca, kernel, sparse), strict=True):
    train, test = model.transform(data.train), model.transform(data.test)
    scale = train[:, 0].std()
    curves[name] = [accuracy(train[:, :n] / scale, test[:, :n] / scale) for n in numbers]
figure, (ax,) = pictures.panels(1, 6, 3.6)
pictures.curve(ax, numbers, curves, "components", "held-out accuracy, %")
ax.axhline(raw, color=pictures.COLORS[8], linestyle="--")
ax.text(numbers[0], raw, "raw pixels", va="bottom", ha="left", fontsize=9)
plt.show()
