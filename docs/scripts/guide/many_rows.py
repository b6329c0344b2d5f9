"""
Many rows, Dask, GPU
====================

My rows do not fit into memory; I have a cluster; I have a GPU. The same three
lines run on all of them, because a fit needs only two things from the rows: a
sample to choose support points from, and sums over all rows, which add up.
"""

# %%
# What it costs
# -------------
#
# Beyond the size of the sample, time grows in proportion to the rows. Memory
# does not grow at all. Ten columns, 100 support points, ten components:

import tempfile
import time
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from kernelsieve import SparseKernelPCA

n_rows = 1_000_000
rng = np.random.default_rng(0)
rows = np.sin(rng.standard_normal((n_rows, 4)) @ rng.standard_normal((4, 10)))
rows = rows.astype(np.float32)

sizes = [n_rows // 100, n_rows // 10, n_rows]
seconds, megabytes = [], []
for size in sizes:
    model = SparseKernelPCA(10, n_support=100, random_state=0)
    start = time.perf_counter()
    model.fit(rows[:size])
    seconds.append(time.perf_counter() - start)
    tracemalloc.start()
    model.fit(rows[:size])
    megabytes.append(tracemalloc.get_traced_memory()[1] / 1e6)
    tracemalloc.stop()

fig, axes = plt.subplots(1, 2, figsize=(7.2, 3), layout="constrained")
axes[0].loglog(sizes, seconds, marker="o")
axes[0].set(title="seconds of a fit", xlabel="rows")
axes[1].loglog(sizes, megabytes, marker="o", label="this fit")
gram = [8 * size**2 / 1e6 for size in sizes]
axes[1].loglog(sizes, gram, linestyle="--", label="exact kernel PCA")
axes[1].set(title="MB beyond the rows", xlabel="rows")
axes[1].legend()
plt.show()

# %%
# Wherever the rows are
# ---------------------
#
# A file, a list of blocks, a Dask array: the components are the same, up to
# rounding. :doc:`/scale` lists everything that ``fit`` takes.

import dask.array

part = rows[: n_rows // 5]
points = SparseKernelPCA(10, n_support=50, random_state=0).fit(part)
settings = {"n_support": 50, "selection": points.support_vectors_, "gamma": 0.1}
in_memory = SparseKernelPCA(10, **settings).fit(part).transform(part[:1000])


def difference(rows_elsewhere):
    """Fit elsewhere; the largest difference of a score, up to sign."""
    model = SparseKernelPCA(10, **settings).fit(rows_elsewhere)
    scores = model.transform(part[:1000])
    return f"{np.abs(np.abs(scores) - np.abs(in_memory)).max():.0e}"


with tempfile.TemporaryDirectory() as folder:
    np.save(Path(folder) / "rows.npy", part)
    on_disk = np.load(Path(folder) / "rows.npy", mmap_mode="r")
    print("a file:          ", difference(on_disk))
    print("a list of blocks:", difference(np.array_split(on_disk, 7)))
    del on_disk
chunks = dask.array.from_array(part, chunks=(len(part) // 4, -1))
print("a Dask array:    ", difference(chunks))

# %%
# On a GPU
# --------
#
# Pass a tensor that is on the device, or say ``device="cuda"`` for rows on the
# host, which are then copied block by block::
#
#     SparseKernelPCA(20, n_support=200).fit(tensor_on_the_gpu)
#     SparseKernelPCA(20, n_support=200, device="cuda").fit(host_array)
#
# :doc:`/scale` has measured times for 16 cores, for one H200 and for clusters.
#
# .. admonition:: In short
#
#    Give ``fit`` the rows as they are. A cluster is in
#    :doc:`/gallery/dask_cluster`.
