"""
Interpretation
==============

What does a component mean? It has no loadings, because it is curved: an input
may matter for some rows and not for others. Three tools show which inputs it
depends on, what changes along it, and which points it is built from.
"""

# %%
# Which inputs a component depends on
# -----------------------------------
#
# ``sensitivity`` is the root mean square slope of each score in each input,
# times the spread of that input: how far the score moves when the input moves
# by one standard deviation. Here is the chemical analysis of 178 wines:

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.preprocessing import StandardScaler

from kernelsieve import SparseKernelPCA, plots

wine = load_wine(as_frame=True)
scaler = StandardScaler().set_output(transform="pandas")
rows = scaler.fit_transform(wine.data)
model = SparseKernelPCA(3, n_support=30, random_state=0).fit(rows)

fig, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
plots.sensitivity(model, rows, ax=ax)
plt.show()

# %%
# What changes along it
# ---------------------
#
# ``traversal`` walks along one component from the mean and takes the pre-images
# on the way: rows like those of the data, in which this score grows and the
# others stay. In natural units, along the first component:

walk = model.traversal(component=0, n_steps=5)
natural = scaler.inverse_transform(walk.rows)
moved = np.argsort(-np.ptp(np.asarray(walk.rows), axis=0))[:4]
print("   score", *(f"{wine.feature_names[i][:13]:>14}" for i in moved))
for score, values in zip(walk.scores, natural, strict=True):
    print(f"{score:>8.2f}", *(f"{values[i]:>14.2f}" for i in moved))

# %%
# Images show it at a glance. Along the first component of the digits, one digit
# turns into another:

digits = SparseKernelPCA(10, n_support=60, random_state=0)
digits.fit(load_digits().data / 16)
fig, axes = plt.subplots(3, 1, figsize=(7.2, 3.6), layout="constrained")
for component, ax in enumerate(axes):
    plots.traversal(digits, component=component, image_shape=(8, 8), ax=ax)
    ax.set_title(f"along component number {component + 1}", fontsize=10)
plt.show()

# %%
# Which points it is built from
# -----------------------------
#
# With ``selection="targeted"`` the support points are rows, and rows can be
# shown to people. Each score is a weighted sum of similarities to them. The
# rows with the largest weights are what the component compares with:

model = SparseKernelPCA(
    3, n_support=15, selection="targeted", random_state=0
).fit(rows)
weights = model.dual_coef_[:, 0]
for place in np.argsort(-np.abs(weights))[:5]:
    row = model.support_[place]
    print(
        f"wine {row:>3} (cultivar {wine.target[row]}): "
        f"weight {weights[place]:+.2f}"
    )

# %%
# For one row, ``input_gradient`` gives the slope of every score in every input
# *at that row*; :doc:`/gallery/explaining_components` shows it. For a whole
# page of such pictures, use ``kernelsieve.report(model, X).save("page.html")``.
#
# .. admonition:: In short
#
#    ``plots.sensitivity`` first, ``plots.traversal`` next, and
#    ``selection="targeted"`` when support points must be rows. If you need
#    loadings on the input columns, use :class:`~kernelsieve.ElasticNetPCA`.
