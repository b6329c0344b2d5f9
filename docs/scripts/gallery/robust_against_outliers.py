"""
Robust against plain, with outliers
===================================

Outliers turn components of unbounded kernels. :class:`~kernelsieve.RobustSparseKernelPCA` finds weights that leave them
out, and
:class:`~kernelsieve.RobustElasticNetPCA` does so for sparse PCA in input space.
"""

# %%
# Three clusters, a tenth of the rows thrown far away
# ---------------------------------------------------

import matplotlib.pyplot as plt
import numpy as np
import pictures
import shown

from kernelsieve import ElasticNetPCA, KernelPCA, RobustElasticNetPCA, RobustSparseKernelPCA, plots

print("made rows: three clusters, and outliers")
rng = np.random.default_rng(0)
centres = np.array([(-0.5, -0.2), (0.0, 0.6), (0.5, 0.0)])
clean = np.vstack([centre + 0.1 * rng.standard_normal((shown.amount(80, 40), 2)) for centre in centres])
far = np.array([2.5, -2.5]) + 0.15 * rng.standard_normal((len(clean) // 10, 2))
dirty = np.vstack([clean, far])

kernel = {"kernel": "poly", "degree": 2, "gamma": 1.0, "coef0": 1.0}
truth = KernelPCA(2, **kernel).fit(clean)
plain = KernelPCA(2, **kernel).fit(dirty)
robust = RobustSparseKernelPCA(2, n_nonzero=20, random_state=0, **kernel).fit(dirty)
print(
    "outliers found:",
    int(robust.outliers_.sum()),
    "of",
    len(far),
    "; good rows called outliers:",
    int(robust.outliers_[: len(clean)].sum()),
)

figure, axes = pictures.panels(3, 4, 3.4)
for ax, model, title in zip(
    axes, (truth, plain, robust), ("clean rows", "with outliers: plain", "with outliers: robust"), strict=True
):
    plots.contours(model, clean, component=0, resolution=shown.amount(120, 40), ax=ax)
    ax.set_title(title)
plt.show()

# %%
# By how much a component is turned is told by the scores of the clean rows:

for name, model in (("plain", plain), ("robust", robust)):
    cosines = [abs(np.corrcoef(truth.transform(clean)[:, k], model.transform(clean)[:, k])[0, 1]) for k in range(2)]
    print(f"{name}: correlation with the components of clean rows {cosines[0]:.3f}, {cosines[1]:.3f}")

# %%
# With a *bounded* kernel, the Gaussian one, an outlier is like no other row and counts as one row: plain kernel PCA
# mostly survives, and robust weights are not needed. That is why they are a class of their own and not the default.
#
# In input space
# --------------
#
# Two sparse components in twenty variables, and a share of rows in a tight cluster far off.

from numpy.linalg import norm


def contaminated(share, seed):
    """Rows with two sparse components, `share` of them outliers; and the components."""
    rng = np.random.default_rng(seed)
    truth = np.zeros((2, 20))
    truth[0, :6], truth[1, 6:11] = 1 / np.sqrt(6), 1 / np.sqrt(5)
    rows = rng.standard_normal((200, 2)) * (8, 6) @ truth + rng.standard_normal((200, 20))
    count = round(share * len(rows))
    rows[:count, 11:] += 15 * rng.standard_normal(9)
    return rows, truth


def degrees_off(components, truth):
    """The mean angle between each true component and the nearest one found."""
    lengths = norm(components, axis=1, keepdims=True)
    cosines = np.abs(truth @ (components / np.where(lengths > 0, lengths, 1)).T).max(axis=1)
    return np.degrees(np.arccos(np.minimum(cosines, 1))).mean()


shares = [0.0, 0.05, 0.1, 0.2, 0.3][:: shown.amount(1, 2)]
curves = {"ElasticNetPCA": [], "RobustElasticNetPCA": []}
for share in shares:
    rows, truth_loadings = contaminated(share, seed=1)
    curves["ElasticNetPCA"].append(degrees_off(ElasticNetPCA(2, n_nonzero=6).fit(rows).components_, truth_loadings))
    fitted = RobustElasticNetPCA(2, n_nonzero=6).fit(rows)
    curves["RobustElasticNetPCA"].append(degrees_off(fitted.components_, truth_loadings))
figure, (ax,) = pictures.panels(1, 6, 3.4)
pictures.curve(ax, [100 * share for share in shares], curves, "outliers, %", "degrees off the true components")
ax.set_title("Sparse PCA with outliers in a cluster")
plt.show()
