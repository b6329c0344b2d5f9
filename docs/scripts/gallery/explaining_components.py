"""
Explaining components
=====================

Which measurements does a component listen to, for all rows and for one? Breast-cancer cells, thirty measurements each.
"""

import matplotlib.pyplot as plt
import numpy as np
import pictures
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from kernelsieve import SparseKernelPCA, plots

bunch = load_breast_cancer(as_frame=True)
rows = StandardScaler().set_output(transform="pandas").fit_transform(bunch.data)
print("breast cancer: 569 rows, 30 measurements, part of scikit-learn")
model = SparseKernelPCA(4, n_support=40, random_state=0).fit(rows)
plots.scores(model, rows, labels=np.array(["malignant", "benign"])[bunch.target])
plt.show()

# %%
# For all rows
# ------------

figure, (ax,) = pictures.panels(1, 7, 7)
plots.sensitivity(model, rows, ax=ax)
plt.show()

# %%
# For one row
# -----------
#
# ``input_gradient`` is the slope of each score in each input at a row. A curved component can listen to other inputs
# there than it does on average: here for a typical benign and a typical malignant cell.

scores = model.transform(rows)
figure, axes = pictures.panels(2, 5.2, 3.4)
for ax, target, name in zip(axes, (1, 0), ("benign", "malignant"), strict=True):
    centre = np.median(scores[bunch.target == target], axis=0)
    typical = int(np.argmin(((scores - centre) ** 2).sum(axis=1)))
    slope = model.input_gradient(rows.iloc[[typical]])[0, 0]
    first = np.argsort(-np.abs(slope))[:8]
    pictures.bars(
        ax,
        [bunch.feature_names[i] for i in first],
        np.abs(slope[first]),
        "size of the slope of the first score",
        "{:.3f}",
    )
    ax.set_title(f"a typical {name} cell (row {typical})")
plt.show()

# %%
# What changes along a component
# ------------------------------

plots.traversal(model, component=1)
plt.show()

# %%
# Is it right? A check by brute force: move one measurement of many cells a little, and see how far the scores move.

step, column = 1e-4, 7
moved = rows.copy()
moved.iloc[:, column] += step
slope = (model.transform(moved) - model.transform(rows))[:, 0] / step
claimed = model.input_gradient(rows)[:, 0, column]
print(f"largest difference between slope by brute force and input_gradient: {np.abs(slope - claimed).max():.0e}")
