"""
Saving safely
=============

Is it safe to load a model from someone else? Yes: a model file holds numbers
and plain words, and nothing in it is ever executed.
"""

# %%
# A pickle runs whatever its author wrote. A kernelsieve file is a zip of JSON
# and arrays. A name in it can only choose from a fixed list of classes, and
# every attribute is checked when the file is read.

import json
import pickle
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from sklearn.datasets import load_digits
from sklearn.decomposition import KernelPCA
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelsieve
from kernelsieve import SparseKernelPCA

X, y = load_digits(return_X_y=True)
features = SparseKernelPCA(20, n_support=60, random_state=0)
pipeline = make_pipeline(StandardScaler(), features, RidgeClassifier(1e-3))
pipeline.fit(X, y)

folder = TemporaryDirectory()
path = Path(folder.name) / "digits.ks"
kernelsieve.save(pipeline, path)
loaded = kernelsieve.load(path)
print("same predictions:", (loaded.predict(X) == pipeline.predict(X)).all())

# %%
# Look inside
# -----------

with zipfile.ZipFile(path) as archive:
    header = json.loads(archive.read("header.json"))
    print("header:", ", ".join(header))
    for member in archive.infolist()[:8]:
        print(f"{member.file_size:>8} bytes  {member.filename}")

# %%
# How large it is
# ---------------
#
# A model is as large as its support points, not as its training rows:

exact = KernelPCA(20, kernel="rbf", gamma=features.gamma_).fit(X)
print(f"scikit-learn, pickled: {len(pickle.dumps(exact)) / 1000:,.0f} kB")
print(f"this whole pipeline:   {path.stat().st_size / 1000:,.0f} kB")

# %%
# What is refused
# ---------------
#
# A file that was cut, edited, or whose numbers do not fit together is refused
# when it is read, not when it is used:

damaged = Path(folder.name) / "damaged.ks"
damaged.write_bytes(path.read_bytes()[:-200])
try:
    kernelsieve.load(damaged)
except ValueError as error:
    print(type(error).__name__, str(error).replace(folder.name, "..."))
folder.cleanup()

# %%
# Saving is atomic: a crash or a full disk leaves the old file. A callable
# kernel, or a step that is a function, is code and cannot be in a file; saving
# says so by name. :doc:`/model-files` lists the scikit-learn classes that a
# pipeline may hold.
#
# .. admonition:: In short
#
#    ``kernelsieve.save(pipeline, "model.ks")`` and
#    ``kernelsieve.load("model.ks")``. A digest detects damage. It is no
#    signature, so a stranger's file gives you a stranger's numbers, and no more
#    than that.
