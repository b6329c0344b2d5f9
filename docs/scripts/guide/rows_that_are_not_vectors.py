"""
Rows that are not vectors
=========================

Strings, lists of tokens, graphs and series of different lengths are not rows of
numbers, but there are kernels for them: functions that say how similar two of
them are. With such a kernel, :class:`~kernelsieve.SparseKernelPCA` is fitted to
a list of objects.

The kernel says that rows are objects. Nothing is guessed from the list, and
nothing averages objects or moves them: support points are always some of them.
"""

# %%
# Strings
# -------
#
# The names in a few modules are strings that everyone has. ``Spectrum(2)``
# counts the pairs of neighbouring letters that two strings share.

import ast
import os

import matplotlib.pyplot as plt
import numpy as np

from kernelsieve import SparseKernelPCA
from kernelsieve.kernels import Spectrum, of_objects

modules = (np, np.linalg, np.random, plt, ast, os)
found = {name.lower() for module in modules for name in dir(module)}
names = sorted(name for name in found if len(name) > 4 and name[0] != "_")
model = SparseKernelPCA(4, n_support=40, kernel=Spectrum(2), random_state=0)
scores = model.fit_transform(names)
print(
    f"{len(names)} names, {model.n_support_} kept, {model.captured_ratio_:.3f}"
)
print(model.support_objects_[:6])

# %%
# A new string costs as many kernel values as there are support points, here 40:

print(model.transform(["arctangent", "histogram3d"]).round(2))

# %%
# At both ends of a component are the strings that it tells apart:

for component in range(3):
    order = np.argsort(scores[:, component])
    low, high = ([names[i] for i in part] for part in (order[:4], order[-4:]))
    print(f"component {component + 1}: {', '.join(low)}")
    print(f"         and: {', '.join(high)}")

# %%
# Built-in kernels
# ----------------
#
# ============================  ======================================  ========
# kernel                        rows                                    definite
# ============================  ======================================  ========
# ``Spectrum(k)``               strings, lists of tokens                yes
# ``Subsequence(k, decay)``     strings, lists of tokens; gaps allowed  yes
# ``Levenshtein(width)``        strings, lists of tokens                no
# ``GlobalAlignment(width)``    series of numbers of different lengths  yes
# ``Fingerprint()``             rdkit's bit vectors, sets of bits       yes
# ``WeisfeilerLehman(depth)``   networkx graphs, adjacency lists        yes
# ============================  ======================================  ========
#
# If a kernel is not positive semidefinite, a fit keeps its positive part, and a
# warning says how much was dropped.
#
# Kernels of other libraries
# --------------------------
#
# ``of_objects(f, blocks=True)`` takes any function of two lists that returns
# all their kernel values at once, the form in which other libraries offer them.
# rapidfuzz computes edit distances a hundred times faster than ``Levenshtein``:
#
# .. code-block:: python
#
#     from rapidfuzz.distance import Levenshtein
#     from rapidfuzz.process import cdist
#
#     def alike(left, right):
#         return np.exp(cdist(left, right, scorer=Levenshtein.distance) / -3.0)
#
#     kernel = of_objects(alike, blocks=True, diagonal=1.0)
#
# grakel has some twenty graph kernels. Here graphs are pairs ``(adjacency,
# labels)``:
#
# .. code-block:: python
#
#     from grakel import Graph, WeisfeilerLehman
#
#     def graphs(pairs):
#         return [Graph(edges, node_labels=names) for edges, names in pairs]
#
#     def alike(left, right):
#         kernel = WeisfeilerLehman(normalize=True).fit(graphs(right))
#         return kernel.transform(graphs(left))
#
# tslearn's ``cdist_gak`` can be used in the same way; its values are those of
# ``GlobalAlignment``. Molecules of rdkit need no bridge: ``Fingerprint()``
# takes the bit vectors that ``GetFingerprint`` of its generators returns.
#
# A function of your own
# ----------------------
#
# ``of_objects`` makes a kernel of any symmetric function of two objects. Here
# the objects are syntax trees, and two are alike if they share kinds of nodes:


def kinds(tree):
    return {type(node).__name__ for node in ast.walk(tree)}


def alike(a, b):
    left, right = kinds(a), kinds(b)
    return len(left & right) / len(left | right)


lines = ["x = 1", "x = y + 1", "def f(x): return x", "for i in x: print(i)"]
lines += [f"{word} = [{word}_ for {word}_ in range(9)]" for word in "abcdef"]
lines += [f"while {word}: {word} -= 1" for word in "abcdef"]
trees = [ast.parse(line) for line in lines]
kernel = of_objects(alike, diagonal=1.0)
model = SparseKernelPCA(2, n_support=5, kernel=kernel, random_state=0).fit(
    trees
)
scores = model.transform(trees)
fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.scatter(scores[:, 0], scores[:, 1], c=np.arange(len(trees)), cmap="cividis")
ax.set(xlabel="component 0", ylabel="component 1", title="syntax trees")
plt.show()

# %%
# A function of two lists that returns all values at once is given with
# ``blocks=True``, and one that takes long in Python can be shared out with
# ``n_processes=4``. A distance ``d`` of two objects becomes a kernel by
# ``from_distance(of_objects(d))``; ``from_distance("levenshtein")`` is that of
# the edit distance of strings. Functions of other packages come in the same
# way:
#
# .. code-block:: python
#
#     of_objects(rapidfuzz.fuzz.ratio)
#     of_objects(tslearn.metrics.gak)
#     of_objects(lambda a, b: grakel_kernel.fit_transform([a, b])[0, 1])
#
# What it costs
# -------------
#
# Where one value takes a millisecond, values are what a fit costs. None is
# computed twice, and ``n_evaluations_`` counts them. ``max_evaluations`` bounds
# them: as a number, or as a float in units of :math:`N m`, which the pass over
# :math:`N` rows with :math:`m` points takes. By default, kernels of objects may
# take as many beyond the pass as the gram of 1,000 rows has, or half of the
# pass; so may functions of vectors that are slow, judged by the time of a few
# values.

for budget in (1.5, 3.0, None):
    model = SparseKernelPCA(
        3,
        n_support=20,
        kernel=Spectrum(1),
        max_evaluations=budget,
        random_state=0,
    ).fit(names)
    low, high = model.captured_ratio_interval_
    print(
        f"max_evaluations={budget}: {model.n_evaluations_:,} values, "
        f"captured ratio between {low:.2f} and {high:.2f}"
    )

# %%
# With a small budget few rows are looked at, and the interval of
# ``captured_ratio_`` is as wide as that makes it. All
# :math:`N (N + 1) / 2` values, which exact kernel PCA needs, would be:

print(f"{len(names) * (len(names) + 1) // 2:,}")

# %%
# A gram that is on disk
# ----------------------
#
# ``kernel="precomputed"`` needs all :math:`N^2` values in memory. With
# ``gram_by_number`` rows are numbers, and only the values that a fit asks for
# are read from a memory map or a zarr array, or computed by a function of two
# arrays of row numbers:
#
# .. code-block:: python
#
#     gram = np.memmap("gram.dat", dtype=float, shape=(100_000, 100_000))
#     SparseKernelPCA(10, kernel=gram_by_number(gram)).fit(range(100_000))
#
# Where kernel values are computed elsewhere, those with a few landmarks are
# enough: rows are then :math:`k(x, S)`, one number for each landmark, and
# ``landmarks`` takes :math:`k(S, S)`. Such rows are vectors, so that blocks,
# ``partial_fit`` and model files work on them; what the landmarks do not span
# is not seen:
#
# .. code-block:: python
#
#     SparseKernelPCA(10, kernel=landmarks(k_SS)).fit(k_XS)
#
# What works on objects
# ---------------------
#
# ``transform``, ``score``, ``reconstruction_error``, ``partial_fit``,
# :func:`~kernelsieve.compress`, :class:`~kernelsieve.KernelMonitor` and pickle
# work on objects, and :func:`~kernelsieve.report` shows each as its ``str``, or
# as the text that ``show=`` makes of it. What does not: ``inverse_transform``,
# ``input_gradient`` and whatever else would need a point between two objects.
#
# .. admonition:: In short
#
#    ``SparseKernelPCA(10, kernel=Spectrum(3)).fit(strings)``, or
#    ``kernel=of_objects(f)`` with a function of two objects.
