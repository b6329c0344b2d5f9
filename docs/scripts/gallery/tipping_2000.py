"""
Tipping 2000: sparse kernel PCA by maximum likelihood
=====================================================

The main figure of the paper: nine vectors represent three clusters.
:doc:`/reports/tipping_2000` has the diabetes data and every table.
"""

import time
import warnings

import matplotlib.pyplot as plt
import numpy as np

from kernelsieve import KernelPCA, LikelihoodKernelPCA, likelihood_path, plots

rng = np.random.default_rng(0)
centres = np.repeat([(-0.5, -0.2), (0.0, 0.6), (0.5, 0.0)], 30, axis=0)
X = centres + 0.1 * rng.standard_normal((90, 2))

# %%
# The kernel is :math:`\exp(-|x-y|^2 / 0.25^2)`, features are not centred, and
# the noise variance decides how many vectors remain.

settings = {"kernel": "rbf", "gamma": 1 / 0.25**2}
exact = KernelPCA(4, center=False, **settings).fit(X)
sparse = LikelihoodKernelPCA(4, noise_variance=0.0625, **settings).fit(X)
print(sparse.n_support_, "vectors (the paper shows nine)")

models = {"90 rows": exact, f"{sparse.n_support_} vectors": sparse}
fig, axes = plt.subplots(2, 3, figsize=(7.2, 4.4), layout="constrained")
for line, (name, model) in enumerate(models.items()):
    for component, ax in enumerate(axes[line]):
        plots.contours(model, X, component=component, resolution=60, ax=ax)
        ax.collections[0].colorbar.remove()
        ax.get_legend().remove()
        ax.set(xlabel="", ylabel="", xticks=[], yticks=[])
        ax.set_title(f"{name}, component {component + 1}", fontsize=10)
plt.show()

# %%
# The noise variance
# ------------------
#
# This is the variance in each direction, not the share of variance that is left
# over. The number of vectors is not monotone in it, and some numbers never
# occur. ``likelihood_path`` shows which do:

path = likelihood_path(LikelihoodKernelPCA(4, **settings), X, n_points=20)
plots.likelihood_path(path)
plt.show()

# %%
# What the paper claims, and what we found
# ----------------------------------------
#
# The picture comes out. How many vectors are left depends on the rows: the
# paper chose its noise variance for nine on its own, and chosen in the same way
# for other draws it gives nine there too. The published updates get there
# slowly, the one derived by EM most of all; exact steps in one coordinate at a
# time, the default here, are quicker. :doc:`/methods/likelihood_kernel_pca` has
# the numbers.

for update, steps in (("coordinate", 10_000), ("fast", 2000)):
    model = LikelihoodKernelPCA(
        4, noise_variance=0.0625, update=update, max_iter=steps, **settings
    )
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fast rule does not converge
        model.fit(X)
    seconds = time.perf_counter() - start
    print(
        f"update={update!r}: {model.n_support_} vectors after "
        f"{model.n_iter_} steps, {1000 * seconds:.0f} ms"
    )
