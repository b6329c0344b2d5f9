"""
An elastic-net path
===================

How sparse should a component be? A path of penalties shows what each nonzero
coefficient buys.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from kernelsieve import ElasticNetKernelPCA, elastic_net_path, plots

rows = load_digits().data[:600] / 16
path = elastic_net_path(
    ElasticNetKernelPCA(3, random_state=0), rows, n_alphas=25
)
plots.path(path)
plt.show()

# %%
# A number instead of a penalty
# -----------------------------
#
# Ask for a number of nonzero coefficients, and refit: the components are then
# the best there are on the chosen rows, orthonormal and without shrinkage.

numbers = [5, 10, 20, 40]
variants = {
    "elastic net": {},
    "refitted": {"refit": True},
    "one support for all, refitted": {"refit": True, "sparsity": "joint"},
}
for name, options in variants.items():
    kept = []
    for number in numbers:
        model = ElasticNetKernelPCA(
            3, n_nonzero=number, random_state=0, **options
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some numbers cannot be reached
            kept.append(model.fit(rows).captured_ratio_)
    plt.plot(numbers, kept, marker="o", label=name)
plt.xlabel("nonzero coefficients of each component")
plt.title("variance captured, relative to exact kernel PCA")
plt.legend()
plt.show()

# %%
# Which rows is it built from? Here are those of the first component at ten
# coefficients:

model = ElasticNetKernelPCA(3, n_nonzero=10, random_state=0).fit(rows)
chosen = model.support_[np.flatnonzero(model.dual_coef_[:, 0])]
fig, ax = plt.subplots(figsize=(7.2, 1.2), layout="constrained")
ax.imshow(np.hstack(rows[chosen].reshape(-1, 8, 8)), cmap="gray_r")
ax.axis("off")
plt.show()
print("duality gaps, which bound the error:", model.dual_gap_)
