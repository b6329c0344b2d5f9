"""
Clustering on the scores
========================

Can I cluster afterwards? Yes: run any clustering method on the scores. Curved
clusters that k-means cannot separate in the original columns become separable.
"""

# %%
# Curved clusters
# ---------------
#
# k-means cuts space into convex cells. A ring is not convex, so it cuts both
# rings in two. Kernel PCA moves the rings apart, and k-means on the scores
# finds them. Narrow the kernel for this, because clusters are about neighbours:
# half the median width, which is four times its gamma, is a good first try.
# Take about as many components as you expect clusters.

import matplotlib.pyplot as plt
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_circles
from sklearn.metrics import adjusted_rand_score

from kernelsieve import SparseKernelPCA

X, ring = make_circles(600, factor=0.3, noise=0.05, random_state=0)
median = SparseKernelPCA(2, n_support=20, random_state=0).fit(X).gamma_
model = SparseKernelPCA(3, n_support=30, gamma=4 * median, random_state=0)
scores = model.fit_transform(X)

fig, axes = plt.subplots(1, 2, figsize=(7.2, 3.2), layout="constrained")
for ax, (name, rows) in zip(
    axes, {"raw columns": X, "3 scores": scores}.items(), strict=True
):
    found = KMeans(2, n_init=10, random_state=0).fit_predict(rows)
    agreement = adjusted_rand_score(ring, found)
    print(f"k-means on {name}: adjusted Rand index {agreement:.2f}")
    ax.scatter(X[:, 0], X[:, 1], c=found, cmap="cividis", s=6)
    ax.set_title(f"k-means on {name}")
plt.show()

# %%
# Many columns
# ------------
#
# On real data with many columns the gain is smaller. Divide each score by its
# standard deviation (*whiten* it) if later components should count as much as
# the first:

digits = load_digits()
model = SparseKernelPCA(30, n_support=100, random_state=0)
scores = model.fit_transform(digits.data / 16)
for name, rows in (
    ("64 pixels", digits.data / 16),
    ("30 scores", scores),
    ("30 scores, whitened", scores / scores.std(axis=0)),
):
    found = KMeans(10, n_init=10, random_state=0).fit_predict(rows)
    agreement = adjusted_rand_score(digits.target, found)
    print(f"k-means on {name:<20} adjusted Rand index {agreement:.2f}")

# %%
# How many clusters?
# ------------------
#
# The silhouette needs no labels and may be computed on the scores:

from sklearn.metrics import silhouette_score

for n_clusters in (5, 10, 15):
    found = KMeans(n_clusters, n_init=10, random_state=0).fit_predict(scores)
    value = silhouette_score(scores, found)
    print(f"{n_clusters} clusters: silhouette {value:.3f}")

# %%
# What to watch for
# -----------------
#
# * Any method works on the scores: ``KMeans``, ``GaussianMixture``,
#   ``AgglomerativeClustering``, ``HDBSCAN``. Clusters in scores are often
#   long and thin; ``GaussianMixture`` copes with that, k-means may not.
# * Spectral clustering is this recipe with a very narrow kernel and a different
#   normalisation. scikit-learn's ``SpectralClustering`` assigns no new rows;
#   here ``model.transform`` followed by ``KMeans.predict`` does.
# * For a *picture* of clusters use UMAP: :doc:`/coming_from/umap` compares.
#
# .. admonition:: In short
#
#    ``KMeans(k).fit(SparseKernelPCA(30).fit_transform(X))``, with a narrower
#    kernel if the clusters are curved.
