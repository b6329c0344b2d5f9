"""
What users of other packages ask for
====================================

Kernel PCA has open requests in many issue trackers. Each section below names
some, and the code under it is our answer.
"""

import importlib.util
import pickle
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn import decomposition
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.metrics.pairwise import chi2_kernel

from kernelsieve import KernelMonitor, SparseKernelPCA, kernels, load

digits = load_digits().data / 16
rng = np.random.default_rng(0)

# %%
# Kernel PCA runs out of memory
# -----------------------------
#
# scikit-learn `#9690 <https://github.com/scikit-learn/scikit-learn/issues/9690>`__
# and `#19479 <https://github.com/scikit-learn/scikit-learn/issues/19479>`__:
# exact kernel PCA of 100,000 rows needs a matrix of 80 GB.

rows = rng.standard_normal((100_000, 10))
rows[:, 0] = rows[:, 1] ** 2 + 0.1 * rows[:, 0]
start = time.perf_counter()
model = SparseKernelPCA(5, n_support=50, random_state=0).fit(rows)
seconds = time.perf_counter() - start
print(f"{seconds:.1f} s, {len(pickle.dumps(model)) / 1e3:.0f} kB")
print(f"{model.captured_ratio_:.3f} of exact kernel PCA's variance")

# %%
# Kernel PCA of a stream
# ----------------------
#
# scikit-learn `#18013 <https://github.com/scikit-learn/scikit-learn/issues/18013>`__:
# ``partial_fit``.

stream = SparseKernelPCA(5, n_support=50, random_state=0)
for block in np.array_split(rows, 20):
    stream.partial_fit(block)
print(f"variance explained: {stream.score(rows):.3f}")
print(f"by one fit of all rows: {model.score(rows):.3f}")

# %%
# A precomputed kernel with few points
# ------------------------------------
#
# scikit-learn `#14641 <https://github.com/scikit-learn/scikit-learn/issues/14641>`__
# and `#29353 <https://github.com/scikit-learn/scikit-learn/issues/29353>`__:
# a square matrix gives a model that needs twenty of its columns. With
# ``landmarks``, kernel values with twenty points are all that is ever computed.

gram = chi2_kernel(digits, gamma=0.02)
model = SparseKernelPCA(5, n_support=20, kernel="precomputed", random_state=0)
model.fit(gram)
print(f"captured ratio {model.captured_ratio_:.3f}")
print(f"support points: rows {model.support_[:5]} ...")
few = model.support_
kernel = kernels.landmarks(gram[np.ix_(few, few)])
model = SparseKernelPCA(5, n_support=20, kernel=kernel, random_state=0)
model.fit(gram[:, few])
print(model.transform(gram[:3, few]).shape)

# %%
# Another kernel for other columns
# --------------------------------
#
# scikit-learn `#6868 <https://github.com/scikit-learn/scikit-learn/issues/6868>`__
# and `#7047 <https://github.com/scikit-learn/scikit-learn/issues/7047>`__:
# kernels act on columns, add and multiply.

colours = rng.integers(0, 4, (2000, 1))
sizes = rng.standard_normal((2000, 3)) + colours
table = np.hstack([sizes, colours])
kernel = kernels.RBF().on([0, 1, 2]) * kernels.Hamming().on([3])
model = SparseKernelPCA(3, n_support=30, kernel=kernel, random_state=0)
print(model.fit(table).kernel)
print(f"captured ratio {model.captured_ratio_:.3f}")

# %%
# Rows that are strings
# ---------------------
#
# scikit-learn `#10713 <https://github.com/scikit-learn/scikit-learn/issues/10713>`__
# and `#13936 <https://github.com/scikit-learn/scikit-learn/issues/13936>`__,
# UMAP `#419 <https://github.com/lmcinnes/umap/issues/419>`__: a kernel of
# objects takes a list of them.

stems = ["ACGT", "TTAGGC", "GATTACA", "CCGCGG"]
texts = ["".join(rng.choice(stems, 12)) for _ in range(800)]
model = SparseKernelPCA(
    3, n_support=20, kernel=kernels.Spectrum(4), random_state=0
)
print(model.fit_transform(texts).shape, model.support_objects_[0][:20])

# %%
# Back from scores to rows
# ------------------------
#
# scikit-learn `#18902 <https://github.com/scikit-learn/scikit-learn/issues/18902>`__
# and `#26280 <https://github.com/scikit-learn/scikit-learn/issues/26280>`__:
# ``inverse_transform`` needs no option, no ridge to choose and no matrix of
# all rows. With a well chosen ridge, theirs is closer here: it learns a map
# from all training rows.

train, test = digits[:1200], digits[1200:]
theirs = decomposition.KernelPCA(
    50, kernel="rbf", gamma=0.03, fit_inverse_transform=True, alpha=0.01
)
ours = SparseKernelPCA(50, n_support=150, gamma=0.03, random_state=0)
for model in (theirs, ours):
    model.fit(train)
    start = time.perf_counter()
    back = model.inverse_transform(model.transform(test))
    seconds = time.perf_counter() - start
    error = np.mean((back - test) ** 2) / np.var(test)
    print(f"{type(model).__name__:16} {error:.3f} {1e3 * seconds:.0f} ms")

# %%
# Which columns matter
# --------------------
#
# UMAP `#402 <https://github.com/lmcinnes/umap/issues/402>`__ and
# `#505 <https://github.com/lmcinnes/umap/issues/505>`__, PyOD
# `#652 <https://github.com/yzhao062/pyod/pull/652>`__ and
# `#116 <https://github.com/yzhao062/pyod/issues/116>`__: how much each column
# moves each component, and which columns make a row odd.

cancer = load_breast_cancer()
scaled = (cancer.data - cancer.data.mean(axis=0)) / cancer.data.std(axis=0)
model = SparseKernelPCA(2, n_support=30, random_state=0).fit(scaled)
sensitivity = model.sensitivity(scaled)
for number, order in enumerate(np.argsort(-sensitivity, axis=1), 1):
    print(f"component {number}:", ", ".join(cancer.feature_names[order[:3]]))
monitor = KernelMonitor(5, random_state=0).fit(scaled[cancer.target == 1])
odd = scaled[cancer.target == 0][:1]
causes = np.asarray(monitor.contributions(odd))[0]
print("odd because of:", ", ".join(cancer.feature_names[causes.argsort()[-3:]]))

# %%
# Small models, quick answers
# ---------------------------
#
# UMAP `#1049 <https://github.com/lmcinnes/umap/issues/1049>`__ and
# `#219 <https://github.com/lmcinnes/umap/issues/219>`__, PyOD
# `#88 <https://github.com/yzhao062/pyod/issues/88>`__: the size of a saved
# model, the time of one new row, and a way to save every model.

model = SparseKernelPCA(10, n_support=50, random_state=0).fit(digits)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "digits.ks"
    model.save(path)
    print(f"{path.stat().st_size / 1e3:.0f} kB on disk, no pickle")
    model = load(path)
start = time.perf_counter()
for row in digits[:200]:
    model.transform(row[None, :])
print(f"{(time.perf_counter() - start) / 200 * 1e6:.0f} us a row")

# %%
# An outlier detector that goes on learning
# -----------------------------------------
#
# PyOD `#370 <https://github.com/yzhao062/pyod/issues/370>`__ (kernel PCA as a
# detector), `#323 <https://github.com/yzhao062/pyod/issues/323>`__ and
# `#478 <https://github.com/yzhao062/pyod/issues/478>`__ (one that goes on
# learning), `#127 <https://github.com/yzhao062/pyod/issues/127>`__ (trained on
# normal rows alone): a monitor's limit is chosen on rows that it was not fitted
# to, with no share of outliers to guess, and ``update`` takes rows as they
# come.

normal = scaled[cancer.target == 1]
monitor = KernelMonitor(5, random_state=0).fit(normal[:250])
monitor.update(normal[250:])
found = monitor.predict(scaled[cancer.target == 0]) == -1
print(f"{found.mean():.0%} of the malignant rows are flagged")

# %%
# Tanimoto on fingerprints
# ------------------------
#
# GPyTorch `#1986 <https://github.com/cornellius-gp/gpytorch/issues/1986>`__.

bits = (rng.random((2000, 128)) < rng.random((2000, 1)) / 2).astype(float)
model = SparseKernelPCA(
    3, n_support=30, kernel=kernels.Tanimoto(), random_state=0
)
print(f"captured ratio {model.fit(bits).captured_ratio_:.3f}")

# %%
# Columns that do not move
# ------------------------
#
# GPyTorch `#2268 <https://github.com/cornellius-gp/gpytorch/issues/2268>`__:
# inducing points whose categories stay categories.

model = SparseKernelPCA(
    3, n_support=30, frozen_columns=[3], gamma=0.1, random_state=0
)
model.fit(table)
print(np.unique(model.support_vectors_[:, 3]))

# %%
# Tensors in, tensors out
# -----------------------
#
# cuML `#1317 <https://github.com/rapidsai/cuml/issues/1317>`__: arrays of
# torch and cupy are worked on where they are, on a GPU as on the host.

if importlib.util.find_spec("torch"):
    import torch

    model = SparseKernelPCA(3, n_support=30, random_state=0)
    print(type(model.fit_transform(torch.asarray(digits))))
else:
    print("torch is not installed here")

# %%
# What we cannot do
# -----------------
#
# A supervised projection (UMAP's ``fit(X, y)``), a map for the eye in two
# dimensions that keeps clusters apart, components that change smoothly with a
# parameter, R's formulas. A kernel that is a plain numpy function has no
# derivative: its support points are rows, and a model of it cannot be exported.
