"""
An elastic-net path
===================

How sparse should a component be? A path of penalties shows what each nonzero coefficient buys.
"""

import matplotlib.pyplot as plt
import numpy as np
import pictures
import shown

from kernelsieve import ElasticNetKernelPCA, elastic_net_path, plots

data = shown.digits()
rows = data.train[: shown.amount(600, 150)]
print(data.source)
estimator = ElasticNetKernelPCA(3, random_state=0)
path = elastic_net_path(estimator, rows, n_alphas=shown.amount(25, 8))
plots.path(path)
plt.show()

# %%
# Ask for a number of coefficients instead of a penalty, and refit: the components are then the best there are on the
# rows that were found, orthonormal and without shrinkage.

numbers = [5, 10, 20, 40][: shown.amount(4, 2)]
curves = {"elastic net": [], "elastic net, refitted": [], "joint (one support), refitted": []}
for number in numbers:
    for name, options in (
        ("elastic net", {}),
        ("elastic net, refitted", {"refit": True}),
        ("joint (one support), refitted", {"refit": True, "sparsity": "joint"}),
    ):
        model, _ = shown.warned(
            lambda options=options, number=number: ElasticNetKernelPCA(
                3, n_nonzero=number, random_state=0, **options
            ).fit(rows)
        )
        curves[name].append(100 * model.captured_ratio_)
figure, (ax,) = pictures.panels(1, 6, 3.6)
pictures.curve(ax, numbers, curves, "nonzero coefficients asked for, each component", "variance kept of exact, %")
plt.show()

# %%
# Which rows does it rest on? The support of the first component at ten coefficients:

model = ElasticNetKernelPCA(3, n_nonzero=10, random_state=0).fit(rows)
chosen = model.support_[np.flatnonzero(model.dual_coef_[:, 0])]
figure, (ax,) = pictures.panels(1, 6, 1.6)
pictures.images(ax, rows[chosen], data.shape, f"the {len(chosen)} rows of the first component")
plt.show()
print("duality gaps:", model.dual_gap_)
