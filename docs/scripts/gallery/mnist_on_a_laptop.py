"""
MNIST, 60,000 rows, on a laptop
===============================

Exact kernel PCA of MNIST needs a matrix of 29 GB. Fifty points keep 99 % of it, in the time that PCA takes.
"""

import matplotlib.pyplot as plt
import pictures
import shown
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline

from kernelsieve import SparseKernelPCA, plots

data = shown.mnist()
print(data.source)

# %%
# Time and memory
# ---------------

ours = SparseKernelPCA(10, n_support=50, random_state=0)
gamma = SparseKernelPCA(10, n_support=50, random_state=0).fit(data.train[:2000]).gamma_
models = {
    "PCA": PCA(10, random_state=0),
    "Nystroem(50) + PCA": make_pipeline(Nystroem(gamma=gamma, n_components=50, random_state=0), PCA(10)),
    "ours: 50 points": ours,
}
seconds = [shown.timed(lambda model=model: model.fit(data.train))[1] for model in models.values()]
transform = [shown.timed(lambda model=model: model.transform(data.train))[1] for model in models.values()]
figure, axes = pictures.panels(2, 4.6, 2)
pictures.bars(axes[0], list(models), seconds, "fit, s", "{:.2f}")
pictures.bars(axes[1], list(models), transform, f"transform of {len(data.train):,} rows, s", "{:.2f}")
axes[1].set_yticks([])
plt.show()
print(f"exact kernel PCA would hold {8 * len(data.train) ** 2 / 1e9:,.0f} GB")

# %%
# What is kept
# ------------
#
# Against exact kernel PCA, which cannot be had here, ``captured_ratio_`` is measured on a sample, and says how sure it
# is.

low, high = ours.captured_ratio_interval_
print(
    f"kept of exact kernel PCA: {ours.captured_ratio_:.4f} ({ours.captured_ratio_kind_}; "
    f"90 % interval {low:.4f} .. {high:.4f})"
)

plots.support(ours, image_shape=data.shape)
plt.show()

# %%
# The map
# -------
#
# Two of the ten components. They are directions of most variance and not a map of clusters: for that, run UMAP on the
# ten scores.

figure, axes = pictures.panels(2, 4.8, 4.2)
scores = ours.transform(data.test)
pictures.classes(axes[0], scores[:, :2], data.test_labels, "components 0 and 1", legend=True)
pictures.classes(axes[1], scores[:, 2:4], data.test_labels, "components 2 and 3")
plt.show()
