"""
Sparse loadings: what scikit-learn's SparsePCA is not
=====================================================

Loadings on a few input columns, by the method of Zou, Hastie and Tibshirani. scikit-learn's ``SparsePCA`` solves
another problem, dictionary learning, whose penalty has no fixed scale.
"""

import matplotlib.pyplot as plt
import numpy as np
import pictures
import shown
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA, SparsePCA
from sklearn.preprocessing import StandardScaler

from kernelsieve import ElasticNetPCA, plots, sparse_pca_path

wine = load_wine()
X = StandardScaler().fit_transform(wine.data)
names = [name.replace("_", " ") for name in wine.feature_names]
print("wine: 178 rows, 13 measurements, part of scikit-learn")

# %%
# PCA's components use every column; sparse ones say which columns matter, and keep most of the variance.

sparse = ElasticNetPCA(3, n_nonzero=5).fit(X)
figure, axes = pictures.panels(2, 4.6, 4.2)
for ax, components, title in (
    (axes[0], PCA(3).fit(X).components_, "PCA"),
    (axes[1], sparse.components_, "ElasticNetPCA, 5 columns each"),
):
    picture = ax.imshow(components.T, cmap="PuOr_r", vmin=-0.7, vmax=0.7, aspect="auto")
    ax.set(title=title, xticks=range(3), xlabel="component")
    ax.set_yticks(range(13), names if ax is axes[0] else [""] * 13, fontsize=8)
figure.colorbar(picture, ax=axes[1], label="loading")
plt.show()
print("variance explained, PCA:          ", np.round(PCA(3).fit(X).explained_variance_ratio_, 3))
print("variance explained, 5 columns each:", np.round(sparse.explained_variance_ratio_, 3))

# %%
# As the penalty falls
# --------------------

path = sparse_pca_path(X, 3, alphas=shown.amount(40, 10))
figure, (ax,) = pictures.panels(1, 7, 4)
plots.loading_path(path, component=0, feature_names=names, ax=ax)
plt.show()

# %%
# The scale of the penalty
# ------------------------
#
# Multiply the data by ten. Ours has the same support, because alpha is relative; with scikit-learn's the same ``alpha``
# is another one.

for factor in (1, 10):
    ours = ElasticNetPCA(3, alpha=0.3).fit(factor * X).components_
    theirs = SparsePCA(3, alpha=3, random_state=0, max_iter=shown.amount(300, 50)).fit(factor * X).components_
    numbers = [np.sum(components != 0, axis=1) for components in (ours, theirs)]
    print(f"X times {factor:>2}: nonzero loadings, ours {numbers[0]}, scikit-learn's {numbers[1]}")
