"""
Pre-images and denoising
========================

How do I get rows back from scores? ``inverse_transform`` finds the row whose scores these are, as nearly as there is
one. What components do not know, noise above all, is then gone.
"""

# %%
# Scores are numbers in feature space. A row with exactly these scores need not exist; the *pre-image* is the row that
# comes nearest. For Gaussian kernels it is a weighted mean of the support points, found by iterating
#
# .. math:: x \leftarrow \frac{\sum_i c_i\, k(x, s_i)\, s_i}{\sum_i c_i\, k(x, s_i)}
#
# and for other kernels a regression from scores to rows. No setting such as scikit-learn's
# ``fit_inverse_transform=True`` is needed, and nothing of the size of the data is kept.

import matplotlib.pyplot as plt
import numpy as np
import pictures
import shown
from sklearn.decomposition import PCA

from kernelsieve import SparseKernelPCA

data = shown.usps(n_train=1500, n_test=150)
print(data.source)
rng = np.random.default_rng(0)
noisy = data.test + 0.3 * rng.standard_normal(data.test.shape)

n_components = shown.amount(64, 20)
model = SparseKernelPCA(n_components, n_support=shown.amount(150, 60), random_state=0).fit(data.train)
pca = PCA(n_components).fit(data.train)
restored = model.inverse_transform(model.transform(noisy))
linear = pca.inverse_transform(pca.transform(noisy))

figure, axes = pictures.panels(1, 7, 1.1, rows=4)
for ax, rows, title in zip(
    axes,
    (data.test, noisy, linear, restored),
    ("clean", "noise added", f"PCA, {n_components} components", f"kernel PCA, {n_components} components"),
    strict=True,
):
    pictures.images(ax, np.clip(rows[:12], 0, 1), data.shape, title)
plt.show()

# %%
# How much of the noise is gone
# -----------------------------
#
# The error is in the units of the data, so it can be compared between kernels, widths and numbers of components, which
# variance in feature space cannot. One minus it, relative to the spread of the rows, is a *denoising score*:


def denoising_score(model, clean, noisy):
    """1 where noise is all gone, 0 where the mean would be as good."""
    error = np.sum((clean - model.inverse_transform(model.transform(noisy))) ** 2)
    return 1 - error / np.sum((clean - clean.mean(axis=0)) ** 2)


numbers = [8, 16, 32, 64][: shown.amount(4, 2)]
curves = {"PCA": [], "kernel PCA": []}
for number in numbers:
    curves["PCA"].append(denoising_score(PCA(number).fit(data.train), data.test, noisy))
    sparse = SparseKernelPCA(number, n_support=max(60, 2 * number), random_state=0).fit(data.train)
    curves["kernel PCA"].append(denoising_score(sparse, data.test, noisy))
figure, (ax,) = pictures.panels(1, 6, 3.4)
pictures.curve(ax, numbers, curves, "components", "denoising score")
ax.set_title("Held-out digits with noise of 0.3")
plt.show()

# %%
# Pitfalls
# --------
#
# * Pre-images are *not* an inverse: even with all components a row comes back only as nearly as the points allow.
# * For ``"precomputed"`` kernels there is no row to return, and for a function of yours a regression stands in.
# * Rows far from all points have no likeness to any of them; their scores are those of nothing, and so is their
#   pre-image. ``reconstruction_error`` tells which rows these are.
#
# .. admonition:: In short
#
#    ``model.inverse_transform(model.transform(noisy))``, with more components than you would take for a map.
