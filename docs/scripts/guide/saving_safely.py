"""
Saving safely
=============

Is it safe to load a model from someone else? Yes: a model file holds numbers and plain words, and nothing in it is ever
executed.
"""

# %%
# A pickle runs whatever its author wrote. A file of kernelsieve is a zip of JSON and arrays; a name in it can only
# choose from a fixed list of classes, and every attribute is checked when the file is read.

import json
import tempfile
import zipfile
from pathlib import Path

import matplotlib.pyplot as plt
import pictures
import shown
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelsieve
from kernelsieve import SparseKernelPCA

data = shown.digits()
print(data.source)
features = SparseKernelPCA(20, n_support=60, random_state=0)
pipeline = make_pipeline(StandardScaler(), features, RidgeClassifier(1e-3)).fit(data.train, data.train_labels)

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "digits.ks"
kernelsieve.save(pipeline, path)
loaded = kernelsieve.load(path)
print("the same answers:", bool((loaded.predict(data.test) == pipeline.predict(data.test)).all()))

# %%
# Look inside
# -----------

with zipfile.ZipFile(path) as archive:
    header = json.loads(archive.read("header.json"))
    print("header:", ", ".join(header))
    for member in archive.infolist()[: shown.amount(8, 3)]:
        print(f"{member.file_size:>8} bytes  {member.filename}")

# %%
# What it weighs
# --------------
#
# A model is as large as its points, not as its rows:

import pickle

from sklearn.decomposition import KernelPCA

exact = KernelPCA(20, kernel="rbf", gamma=features.gamma_).fit(data.train)
sizes = {
    "scikit-learn's KernelPCA, pickled": len(pickle.dumps(exact)) / 1000,
    "ours: the whole pipeline": path.stat().st_size / 1000,
}
figure, (ax,) = pictures.panels(1, 7, 1.7)
pictures.bars(ax, list(sizes), list(sizes.values()), "kB", "{:.0f}")
plt.show()

# %%
# What is refused
# ---------------
#
# A file that was cut, edited, or whose numbers do not fit together is refused when it is read, not when it is used:

damaged = Path(folder.name) / "damaged.ks"
damaged.write_bytes(path.read_bytes()[:-200])
try:
    kernelsieve.load(damaged)
except ValueError as error:
    print(type(error).__name__, str(error).replace(folder.name, "..."))
folder.cleanup()

# %%
# Saving is atomic: a crash or a full disk leaves the old file. A callable kernel, or a step that is a function, is code
# and cannot be in a file; saving says so by name. The list of scikit-learn's classes that a pipeline may hold, and why
# this is not skops, are on :doc:`/model-files`.
#
# .. admonition:: In short
#
#    ``kernelsieve.save(pipeline, "model.ks")`` and ``kernelsieve.load("model.ks")``. A digest finds damage; it is no
#    signature, so a stranger's file gives you a stranger's numbers, and no more than that.
