"""
Robust versus plain kernel PCA on data with outliers
====================================================

Outliers distort components of unbounded kernels.
:class:`~kernelsieve.RobustSparseKernelPCA` finds them and gives them no weight;
:class:`~kernelsieve.RobustElasticNetPCA` does so for sparse PCA in input space.
To *find* outliers, use :doc:`KernelMonitor </guide/novelty_and_monitoring>`.
"""

# %%
# Three clusters, a tenth of the rows far away
# --------------------------------------------

import matplotlib.pyplot as plt
import numpy as np

from kernelsieve import (
    ElasticNetPCA,
    KernelPCA,
    RobustElasticNetPCA,
    RobustSparseKernelPCA,
    plots,
)

rng = np.random.default_rng(0)
centres = np.repeat([(-0.5, -0.2), (0.0, 0.6), (0.5, 0.0)], 80, axis=0)
clean = centres + 0.1 * rng.standard_normal((240, 2))
far = np.array([2.5, -2.5]) + 0.15 * rng.standard_normal((24, 2))
dirty = np.vstack([clean, far])

kernel = {"kernel": "poly", "degree": 2, "gamma": 1.0, "coef0": 1.0}
truth = KernelPCA(2, **kernel).fit(clean)
plain = KernelPCA(2, **kernel).fit(dirty)
robust = RobustSparseKernelPCA(2, n_nonzero=20, random_state=0, **kernel)
robust.fit(dirty)
found = robust.outliers_
print(f"outliers found: {found[240:].sum()} of 24")
print(f"good rows called outliers: {found[:240].sum()} of 240")

models = {"clean rows": truth, "plain": plain, "robust": robust}
fig, axes = plt.subplots(1, 3, figsize=(7.2, 2.8), layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    plots.contours(model, clean, component=0, resolution=80, ax=ax)
    ax.collections[0].colorbar.remove()
    ax.get_legend().remove()
    ax.set(title=name, xlabel="", ylabel="", xlim=(-1, 1), ylim=(-0.6, 1))
plt.show()

# %%
# The scores of the clean rows show how far each component was turned:

reference = truth.transform(clean)
for name, model in (("plain", plain), ("robust", robust)):
    scores = model.transform(clean)
    agreement = [
        abs(np.corrcoef(reference[:, k], scores[:, k])[0, 1]) for k in (0, 1)
    ]
    print(f"{name:<7} correlation with the truth:", np.round(agreement, 3))

# %%
# With a *bounded* kernel, such as the Gaussian, an outlier is similar to no
# other row and counts as one row. Plain kernel PCA withstands a few of them,
# and robust weights are not needed. That is why they are a separate class and
# not the default. Many outliers in one place are another matter: they are a
# cluster like any other, which takes a component
# (:doc:`how many </methods/robust_sparse_kernel_pca>`).
#
# In input space
# --------------
#
# Two sparse components in twenty variables, and a share of rows in a tight
# cluster far away:


def contaminated(share):
    """Rows with two sparse components, and the components."""
    rng = np.random.default_rng(1)
    truth = np.zeros((2, 20))
    truth[0, :6], truth[1, 6:11] = 1 / np.sqrt(6), 1 / np.sqrt(5)
    rows = rng.standard_normal((200, 2)) * (8, 6) @ truth
    rows += rng.standard_normal((200, 20))
    rows[: round(200 * share), 11:] += 15 * rng.standard_normal(9)
    return rows, truth


def degrees_off(components, truth):
    """The mean angle between a true component and the nearest one found."""
    lengths = np.linalg.norm(components, axis=1, keepdims=True)
    components = components / np.where(lengths > 0, lengths, 1)
    cosines = np.abs(truth @ components.T).max(axis=1)
    return np.degrees(np.arccos(np.minimum(cosines, 1))).mean()


shares = [0.0, 0.05, 0.1, 0.2, 0.3]
for estimator in (ElasticNetPCA, RobustElasticNetPCA):
    angles = []
    for share in shares:
        rows, components = contaminated(share)
        fitted = estimator(2, n_nonzero=6).fit(rows)
        angles.append(degrees_off(fitted.components_, components))
    plt.plot(shares, angles, marker="o", label=estimator.__name__)
plt.xlabel("share of outliers")
plt.ylabel("degrees")
plt.title("angle to the true components")
plt.legend()
plt.show()
