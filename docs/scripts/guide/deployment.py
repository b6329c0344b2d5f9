"""
Deployment
==========

How do I run a model in a browser, in a database, on a microcontroller? A fitted
model is a few dozen support points, their coefficients and an offset.
``kernelsieve.export`` writes these numbers down for others to run.
"""

# %%
# One model, three forms
# ----------------------

import textwrap
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime
from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelsieve import SparseKernelPCA
from kernelsieve.export import to_c, to_onnx

X = load_breast_cancer().data
model = SparseKernelPCA(5, n_support=20, random_state=0)
pipeline = make_pipeline(StandardScaler(), model).fit(X)

folder = TemporaryDirectory()
place = Path(folder.name)
to_onnx(pipeline, path=place / "cells.onnx")
to_c(pipeline, place / "cells.h")
to_c(pipeline, place / "small.h", dtype="int8")
for file in sorted(place.iterdir()):
    print(f"{file.name}: {file.stat().st_size / 1000:.1f} kB")

# %%
# ONNX: servers, databases, browsers
# ----------------------------------
#
# The file uses standard operators only, so any runtime can run it. It gives the
# scores that ``transform`` gives:

session = onnxruntime.InferenceSession(place / "cells.onnx")
name = session.get_inputs()[0].name
scores = session.run(None, {name: X.astype(np.float32)})[0]
difference = np.abs(scores - pipeline.transform(X)).max()
print(f"largest difference of a score: {difference:.0e}")

# %%
# A single row is much faster than in Python, where ``transform`` spends most of
# its time validating its input, which a runtime skips:

row, single = X[:1], X[:1].astype(np.float32)
for label, call in (
    ("transform", lambda: pipeline.transform(row)),
    ("onnxruntime", lambda: session.run(None, {name: single})),
):
    start = time.perf_counter()
    for _ in range(200):
        call()
    seconds = (time.perf_counter() - start) / 200
    print(f"{label:<12} {1e6 * seconds:>6.0f} microseconds a row")

# %%
# C: microcontrollers
# -------------------
#
# One C99 header that needs only ``math.h``. ``dtype="int8"`` stores each value
# of a support point in one byte and states the error in its comment:

for line in (place / "small.h").read_text().splitlines()[:10]:
    print(textwrap.fill(line, 78, subsequent_indent=" *             "))
folder.cleanup()

# %%
# :doc:`/export` has a whole program to compile.
#
# torch: where training goes on
# -----------------------------
#
# ``to_torch(model, trainable=True)`` is a module whose forward is
# ``transform``. Its support points and coefficients are parameters::
#
#     network = torch.nn.Sequential(
#         to_torch(model, trainable=True), torch.nn.Linear(5, 2)
#     )
#
# Tables keep their encoder: ``kernelsieve export sales.ks -o sales.onnx`` takes
# the table's own columns. ``examples/onnx_web`` is a web page that projects
# digits as you draw them.
#
# .. admonition:: In short
#
#    ``to_onnx(pipeline, path="model.onnx")``.
