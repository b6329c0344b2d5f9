"""
Kernels of your own, strings, graphs
====================================

My rows are not vectors, or I have a kernel of my own. For vectors, combine the
kernels of this library, or pass a function. For strings, graphs and other
objects there are :doc:`kernels of their own <rows_that_are_not_vectors>`, or
you compute the values and pass the matrix.
"""

# %%
# Kernels made of kernels
# -----------------------
#
# Kernels add, multiply and act on columns, and what comes of it is a kernel in
# every respect: points are moved, models are saved and exported.
# :doc:`/kernels` lists them. Here are two groups of the chemical analysis of
# 178 wines, each with a width of its own:

import textwrap
import warnings

import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from kernelsieve import SparseKernelPCA
from kernelsieve.kernels import RBF, Matern

wine = load_wine()
X = StandardScaler().fit_transform(wine.data)
kernel = RBF().on(slice(0, 5)) * Matern(nu=2.5).on(slice(5, 13))
model = SparseKernelPCA(3, n_support=30, kernel=kernel, random_state=0).fit(X)
print(f"30 points keep {model.captured_ratio_:.1%} of exact kernel PCA")

# %%
# Kernels of scikit-learn's Gaussian processes may be given as they are.
#
# A function of two matrices
# --------------------------
#
# ``kernel`` also takes any function ``k(X, Y)`` that returns a matrix of kernel
# values. It must be symmetric and should be positive semidefinite. It is
# called by several threads at once; give ``n_jobs=1`` if it cannot bear that.
# Without a derivative its points are not moved, and the fit says so:


def matern(X, Y):
    """A Matern kernel of width 5."""
    apart = np.linalg.norm(X[:, None] - Y, axis=2) * np.sqrt(3) / 5
    return (1 + apart) * np.exp(-apart)


model = SparseKernelPCA(3, n_support=30, kernel=matern, random_state=0)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model.fit(X)
print(f"30 points keep {model.captured_ratio_:.1%}")
print(textwrap.fill(str(caught[0].message), 78))

# %%
# A function that is written in torch gets its derivative from torch if the rows
# are tensors, ``fit(torch.tensor(X))``; then points are moved.
#
# Distances
# ---------
#
# ``kernelsieve.kernels.from_distance`` makes a kernel of a distance: minus the
# distance is conditionally positive definite, which is all that centred kernel
# PCA asks for.
#
# Strings: compute the matrix
# ---------------------------
#
# Objects that are not rows of numbers can be given as they are, with a kernel
# of such objects: :doc:`rows_that_are_not_vectors`. If you already have a
# matrix of kernel values, pass it with ``kernel="precomputed"``. This one
# counts pairs of neighbouring letters that two words share. The components tell
# the three families of words apart:

families = (
    "analysis analyst paralysis catalysis dialysis",
    "component opponent exponent proponent",
    "metric matrix symmetric geometric",
)
words = " ".join(families).split()


def pairs(word):
    """The pairs of neighbouring letters of a word."""
    padded = f" {word} "
    return {padded[i : i + 2] for i in range(len(padded) - 1)}


def similarity(first, second):
    """Shared pairs, relative to all pairs of both words."""
    a, b = pairs(first), pairs(second)
    return len(a & b) / len(a | b)


gram = np.array([[similarity(a, b) for b in words] for a in words])
model = SparseKernelPCA(2, n_support=8, kernel="precomputed", random_state=0)
scores = model.fit_transform(gram)
print("support words:", *np.array(words)[model.support_[:5]], "...")

import matplotlib.pyplot as plt

fig, axes = plt.subplots(
    1, 2, figsize=(7.2, 3.6), sharey=True, layout="constrained"
)
for ax, column, name in zip(axes, scores.T, ("1st", "2nd"), strict=True):
    ax.barh(words, column)
    ax.set_title(f"{name} component")
axes[0].invert_yaxis()
plt.show()

# %%
# New objects
# -----------
#
# With a precomputed kernel the support points are rows of the matrix. A new
# word is compared with all training words; only the columns of the support
# words count.

new = ["metrical", "postponement"]
cross = np.array([[similarity(word, other) for other in words] for word in new])
nearest = [
    np.argmin(((scores - z) ** 2).sum(axis=1)) for z in model.transform(cross)
]
for word, place in zip(new, nearest, strict=True):
    print(f"{word} lies next to {words[place]}")

# %%
# What such kernels cannot do
# ---------------------------
#
# .. list-table::
#    :header-rows: 1
#    :widths: 40 30 30
#
#    * -
#      - a function
#      - a matrix
#    * - moved support points
#      - only in torch, on tensors
#      - no: rows
#    * - ``inverse_transform``
#      - yes, by regression
#      - no: there is no row to return
#    * - ``save``
#      - no: a function is code
#      - yes
#    * - ONNX, C
#      - no
#      - no
#
# .. admonition:: In short
#
#    ``SparseKernelPCA(10, kernel=RBF().on([0, 1]) * Matern().on([2]))``, or a
#    function, for vectors; ``kernel="precomputed"`` and a matrix for anything
#    else.
