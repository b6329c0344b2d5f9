"""
Interpretation
==============

What does a component mean? It has no loadings, because it is curved: an input may matter for some rows and not for
others. Three tools say what it listens to, what changes along it, and which points it rests on.
"""

# %%
# What a component listens to
# ---------------------------
#
# ``sensitivity`` is the root mean square slope of each score in each input, times the spread of that input: how far the
# score moves when the input moves by its standard deviation. The chemical analysis of 178 wines shows it:

import matplotlib.pyplot as plt
import numpy as np
import pictures
import shown
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from kernelsieve import SparseKernelPCA, plots

wine = load_wine(as_frame=True)
scaler = StandardScaler().set_output(transform="pandas")
rows = scaler.fit_transform(wine.data)
model = SparseKernelPCA(3, n_support=30, random_state=0).fit(rows)
print("wine: 178 rows, 13 measurements, part of scikit-learn")

figure, axes = pictures.panels(2, 5, 4.2)
plots.scores(model, rows, labels=wine.target, ax=axes[0])
plots.sensitivity(model, rows, ax=axes[1])
plt.show()

# %%
# What changes along it
# ---------------------
#
# ``traversal`` walks along one component from the mean and looks at the pre-images on the way: rows of the same kind as
# the data, in which this score grows and the others stay.

plots.traversal(model, component=0)
plt.show()

# %%
# In units that people know, undo the scaling:

walk = model.traversal(component=0, n_steps=5)
natural = scaler.inverse_transform(walk.rows)
moved = np.argsort(-np.abs(np.ptp(np.asarray(walk.rows), axis=0)))[:4]
print("along component 0:", *(f"{wine.feature_names[i]:>16}" for i in moved))
for step, values in zip(walk.scores[:, 0] if walk.scores.ndim > 1 else walk.scores, natural, strict=True):
    print(f"     score {step:+.2f}  ", *(f"{values[i]:>16.2f}" for i in moved))

# %%
# Images say it at a glance. Along the first component of the digits one digit turns into another:

data = shown.digits()
digits = SparseKernelPCA(10, n_support=shown.amount(60, 30), random_state=0).fit(data.train)
figure, axes = pictures.panels(1, 7, 1.3, rows=3)
for component, ax in enumerate(axes):
    plots.traversal(digits, component=component, image_shape=data.shape, ax=ax)
plt.show()

# %%
# Which points it rests on
# ------------------------
#
# With ``selection="targeted"`` the support points are rows, and rows can be shown to people. Each score is a weighted
# sum of likenesses to them: the rows with the largest weights are what the component compares with.

rows_only = SparseKernelPCA(3, n_support=15, selection="targeted", random_state=0).fit(rows)
weights = rows_only.dual_coef_[:, 0]
for place in np.argsort(-np.abs(weights))[:5]:
    number = rows_only.support_[place]
    print(f"wine {number:>3} (cultivar {wine.target[number]}): weight {weights[place]:+.2f}")

# %%
# For one row rather than for all, ``input_gradient`` has the slope of every score in every input *at that row*. A whole
# page of such pictures, to brush and to send around, is ``kernelsieve.report(model, X).save("report.html")``.
#
# .. admonition:: In short
#
#    ``plots.sensitivity`` first, ``plots.traversal`` next, ``selection="targeted"`` when points must be rows. If you
#    need loadings on the input columns, that is :class:`~kernelsieve.ElasticNetPCA`.
