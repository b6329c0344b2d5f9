"""
Explaining components
=====================

Which measurements does a component depend on, overall and for a single row?
Breast-cancer cells, thirty measurements each.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from kernelsieve import SparseKernelPCA, plots

cells = load_breast_cancer(as_frame=True)
scaler = StandardScaler().set_output(transform="pandas")
rows = scaler.fit_transform(cells.data)
kind = np.array(["malignant", "benign"])[cells.target]
model = SparseKernelPCA(4, n_support=40, random_state=0).fit(rows)
plots.scores(model, rows, labels=kind)
plt.show()

# %%
# For all rows
# ------------

fig, ax = plt.subplots(figsize=(7.2, 7.2), layout="constrained")
plots.sensitivity(model, rows, ax=ax)
plt.show()

# %%
# For one row
# -----------
#
# ``input_gradient`` is the slope of each score in each input at one row. A
# curved component can depend on other inputs there than it does on average.
# Here are a typical benign and a typical malignant cell:

scores = model.transform(rows)
fig, axes = plt.subplots(2, 1, figsize=(7.2, 5), layout="constrained")
for ax, name in zip(axes, ("benign", "malignant"), strict=True):
    centre = np.median(scores[kind == name], axis=0)
    typical = int(np.argmin(((scores - centre) ** 2).sum(axis=1)))
    slope = np.abs(model.input_gradient(rows.iloc[[typical]])[0, 0])
    first = np.argsort(slope)[-6:]
    ax.barh([cells.feature_names[i] for i in first], slope[first])
    ax.set_title(f"a typical {name} cell: slope of the 1st score")
plt.show()

# %%
# Is it right? Check by brute force: move one measurement of all cells a little,
# and see how far the scores move.

step, column = 1e-4, 7
moved = rows.copy()
moved.iloc[:, column] += step
slope = (model.transform(moved) - model.transform(rows))[:, 0] / step
claimed = model.input_gradient(rows)[:, 0, column]
print(f"largest difference: {np.abs(slope - claimed).max():.0e}")
