"""
Deployment
==========

How do I run a model in a browser, in a database, on a microcontroller? A fitted model is a few dozen points, their
coefficients and an offset; ``kernelsieve.export`` writes these few numbers down for others to run.
"""

# %%
# One model, three forms
# ----------------------

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pictures
import shown
from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelsieve import SparseKernelPCA
from kernelsieve.export import to_c, to_onnx

X = load_breast_cancer().data
print("breast cancer: 569 rows, 30 measurements, part of scikit-learn")
pipeline = make_pipeline(StandardScaler(), SparseKernelPCA(5, n_support=20, random_state=0)).fit(X)

folder = tempfile.TemporaryDirectory()
place = Path(folder.name)
to_onnx(pipeline, path=place / "cells.onnx")
to_c(pipeline, place / "cells.h")
to_c(pipeline, place / "small.h", dtype="int8")
for file in sorted(place.iterdir()):
    print(f"{file.name}: {file.stat().st_size / 1000:.1f} kB of text or graph")

# %%
# ONNX: servers, databases, browsers
# ----------------------------------
#
# Standard operators only, so any runtime takes it. It is tested to give the scores that ``transform`` gives:

import onnxruntime

session = onnxruntime.InferenceSession(place / "cells.onnx")
scores = session.run(None, {session.get_inputs()[0].name: X.astype(np.float32)})[0]
difference = np.abs(scores - pipeline.transform(X)).max()
print(f"largest difference of a score: {difference:.0e}, scores are up to {np.abs(scores).max():.2f}")

figure, (ax,) = pictures.panels(1, 4, 3.6)
ax.scatter(pipeline.transform(X)[:, 0], scores[:, 0], s=8, color=pictures.COLORS[0], linewidths=0)
ax.set(xlabel="transform in Python", ylabel="onnxruntime", title="the first component, twice")
plt.show()

# %%
# How fast is one row? In Python, most of the time of ``transform`` is checking what it was given; a runtime has less to
# ask.

row, times = X[:1], {}
single = row.astype(np.float32)
for name, call in (
    ("transform", lambda: pipeline.transform(row)),
    ("ours: onnxruntime", lambda: session.run(None, {session.get_inputs()[0].name: single})),
):
    times[name] = 1e6 * min(shown.timed(lambda call=call: [call() for _ in range(20)])[1] / 20 for _ in range(5))
figure, (ax,) = pictures.panels(1, 6, 1.6)
pictures.bars(ax, list(times), list(times.values()), "microseconds for one row", "{:.0f}")
plt.show()

# %%
# C: microcontrollers
# -------------------
#
# One C99 header that needs only ``math.h``; ``dtype="int8"`` stores points in a byte a value and states the error in
# its comment.

print("\n".join((place / "small.h").read_text().splitlines()[: shown.amount(16, 4)]))
folder.cleanup()

# %%
# torch: where training goes on
# -----------------------------
#
# ``to_torch(model, trainable=True)`` is a module whose forward is ``transform`` and whose points and coefficients are
# parameters::
#
#     network = torch.nn.Sequential(to_torch(model, trainable=True), torch.nn.Linear(5, 2))
#
# Tables go with their encoder: ``kernelsieve export sales.ks -o sales.onnx`` takes the table's own columns. A web page
# that projects digits as you draw them is in ``examples/onnx_web``; what can be exported, and how close it stays, is on
# :doc:`/export`.
#
# .. admonition:: In short
#
#    ``to_onnx(pipeline, path="model.onnx")``.
