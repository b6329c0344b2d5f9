"""
A lecture's three experiments
=============================

The experiments with which kernel PCA is usually taught: a parabola with a
polynomial kernel, three clusters with a Gaussian one, and handwritten digits
for a linear classifier. :doc:`/reports/kernel_pca_lecture` has more.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from kernelsieve import KernelPCA, SparseKernelPCA, plots


def draw(model, rows):
    """Two components over the plane."""
    _, axes = plt.subplots(1, 2, figsize=(7.2, 3), layout="constrained")
    for component, ax in enumerate(axes):
        plots.contours(model, rows, component=component, resolution=80, ax=ax)
        ax.set_title(("1st component", "2nd component")[component])
    plt.show()


# %%
# The parabola
# ------------
#
# With a polynomial kernel of degree 2, the first component is the place along
# the curve, the second the distance from its middle. Six support points are
# enough.

rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, 150)
parabola = np.column_stack([x, x**2 + 0.1 * rng.standard_normal(150)])
model = SparseKernelPCA(
    2, n_support=6, kernel="poly", degree=2, gamma=1.0, random_state=0
).fit(parabola)
print(f"captured_ratio_: {model.captured_ratio_:.4f}")
draw(model, parabola)

# %%
# Three clusters
# --------------
#
# With a Gaussian kernel two components separate three clusters.

centres = np.repeat([(-0.5, -0.2), (0.0, 0.6), (0.5, 0.0)], 30, axis=0)
clusters = centres + 0.1 * rng.standard_normal((90, 2))
model = SparseKernelPCA(2, n_support=8, gamma=1 / (2 * 0.05), random_state=0)
draw(model.fit(clusters), clusters)

# %%
# Digits
# ------
#
# Logistic regression on raw pixels, on PCA's scores, and on kernel PCA's.
# Curved scores let a linear classifier draw curved borders.

digits = load_digits()
train, test, train_labels, test_labels = train_test_split(
    digits.data / 16, digits.target, test_size=1 / 3, random_state=0
)


def accuracy(train_rows, test_rows):
    """Held-out accuracy of logistic regression on rows of one scale."""
    scale = train_rows.std(axis=0).max()
    classifier = LogisticRegression(C=100, max_iter=1000)
    classifier.fit(train_rows / scale, train_labels)
    return classifier.score(test_rows / scale, test_labels)


numbers = [5, 10, 20, 40, 60]
models = {
    "PCA": PCA(60),
    "exact kernel PCA": KernelPCA(60, kernel="rbf", gamma="median"),
    "150 support points": SparseKernelPCA(60, n_support=150, random_state=0),
}
for name, model in models.items():
    train_scores = model.fit_transform(train)
    test_scores = model.transform(test)
    values = [
        accuracy(train_scores[:, :n], test_scores[:, :n]) for n in numbers
    ]
    plt.plot(numbers, values, marker="o", label=name)
plt.axhline(accuracy(train, test), linestyle="--", label="raw pixels")
plt.xlabel("components")
plt.title("held-out accuracy")
plt.legend()
plt.show()
