"""
Sparse loadings: what scikit-learn's SparsePCA is not
=====================================================

Loadings on a few input columns, by the method of Zou, Hastie and Tibshirani.
scikit-learn's ``SparsePCA`` solves another problem, dictionary learning, whose
penalty has no fixed scale.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA, SparsePCA
from sklearn.preprocessing import StandardScaler

from kernelsieve import ElasticNetPCA, plots, sparse_pca_path

wine = load_wine()
X = StandardScaler().fit_transform(wine.data)
names = [name.replace("_", " ")[:20] for name in wine.feature_names]

# %%
# PCA's components use every column. Sparse ones show which columns matter, and
# keep most of the variance.

pca, sparse = PCA(3).fit(X), ElasticNetPCA(3, n_nonzero=5).fit(X)
fig, axes = plt.subplots(1, 2, figsize=(7.2, 4.2), layout="constrained")
for ax, model in zip(axes, (pca, sparse), strict=True):
    picture = ax.imshow(
        model.components_.T, cmap="PuOr_r", vmin=-0.7, vmax=0.7, aspect="auto"
    )
    ax.set(title=type(model).__name__, xlabel="component")
    ax.set_xticks(range(3), [1, 2, 3])
    ax.set_yticks(range(13), names if ax is axes[0] else [])
fig.colorbar(picture, ax=axes, label="loading")
plt.show()
print("variance explained, PCA:   ", pca.explained_variance_ratio_.round(3))
print("variance explained, sparse:", sparse.explained_variance_ratio_.round(3))

# %%
# As the penalty falls
# --------------------

path = sparse_pca_path(X, 3, alphas=40)
fig, ax = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
plots.loading_path(path, component=0, feature_names=names, ax=ax)
ax.set_title("1st component")
plt.show()

# %%
# The scale of the penalty
# ------------------------
#
# Multiply the data by ten. Ours selects the same columns, because ``alpha`` is
# relative. scikit-learn's does not: the same ``alpha`` now means another
# penalty.

for factor in (1, 10):
    ours = ElasticNetPCA(3, alpha=0.3).fit(factor * X)
    theirs = SparsePCA(3, alpha=3, random_state=0).fit(factor * X)
    print(
        f"X times {factor:>2}: nonzero loadings",
        f"ours {np.count_nonzero(ours.components_, axis=1)},",
        f"scikit-learn's {np.count_nonzero(theirs.components_, axis=1)}",
    )
