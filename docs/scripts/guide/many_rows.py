"""
Many rows, Dask, GPU
====================

My rows do not fit into memory; I have a cluster; I have a GPU. The same three lines run on all of them, because a fit
asks rows for two things only: a sample, by which points are chosen, and sums over all rows, which add up.
"""

# %%
# What it costs
# -------------
#
# Time grows with the rows, once they are more than the sample, and memory does not grow at all. Made rows of ten
# columns, 100 points, ten components:

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pictures
import shown

from kernelsieve import SparseKernelPCA

rng = np.random.default_rng(0)
mixing = rng.standard_normal((4, 10))
everything = np.sin(rng.standard_normal((shown.amount(1_000_000, 20_000), 4)) @ mixing).astype(np.float32)

print(f"made rows: {everything.shape[0]:,} x {everything.shape[1]}")
sizes = [10**k for k in range(4, 7)] if not shown.SMALL else [2000, 20_000]
seconds, megabytes = [], []
for size in sizes:
    model = SparseKernelPCA(10, n_support=shown.amount(100, 20), random_state=0)
    _, time, memory = shown.measured(lambda model=model, size=size: model.fit(everything[:size]))
    seconds.append(time)
    megabytes.append(memory)
    print(f"{size:>9,} rows: {time:.2f} s, {memory:.0f} MB beyond the rows")

figure, axes = pictures.panels(2, 4.4)
pictures.curve(axes[0], sizes, {"fit": seconds}, "rows", "seconds")
pictures.curve(axes[1], sizes, {"fit": megabytes}, "rows", "MB beyond the rows")
exact = [8 * size**2 / 1e6 for size in sizes]
axes[1].plot(sizes, exact, color=pictures.COLORS[3], linestyle="--", label="N x N matrix of exact kernel PCA")
axes[1].legend(fontsize=8)
for ax in axes:
    ax.set(xscale="log", yscale="log")
plt.show()

# %%
# Wherever the rows are
# ---------------------
#
# A memmap, a function that returns blocks, a dask array: the components are the same. (Also zarr, Parquet and CSV
# datasets of pyarrow, torch and cupy arrays; :doc:`/scale` has the list.)

rows = everything[: shown.amount(200_000, 5000)]
points = SparseKernelPCA(10, n_support=50, random_state=0).fit(rows).support_vectors_
settings = {"n_support": 50, "selection": points, "gamma": 0.1, "random_state": 0}

with tempfile.TemporaryDirectory() as folder:
    place = Path(folder) / "rows.npy"
    np.save(place, rows)
    from_memory = SparseKernelPCA(10, **settings).fit(rows)
    on_disk = np.load(place, mmap_mode="r")
    from_disk = SparseKernelPCA(10, **settings).fit(on_disk)
    from_blocks = SparseKernelPCA(10, **settings).fit(lambda rows=on_disk: iter(np.array_split(rows, 7)))
    del on_disk

import dask.array

chunks = dask.array.from_array(rows, chunks=(len(rows) // 4, -1))
from_dask = SparseKernelPCA(10, **settings).fit(chunks)
few = rows[:1000]
for name, model in (("memmap", from_disk), ("blocks", from_blocks), ("dask", from_dask)):
    difference = np.abs(np.abs(model.transform(few)) - np.abs(from_memory.transform(few))).max()
    print(f"{name}: scores differ from those of the array in memory by {difference:.0e}")
print("dask's transform is lazy:", type(from_dask.transform(chunks)).__name__)

# %%
# On a GPU
# --------
#
# Give the tensor that is there, or say ``device="cuda"`` for rows on the host, which are then copied block by block::
#
#     SparseKernelPCA(20, n_support=200).fit(torch_tensor_on_the_gpu)   # scores are tensors there, too
#     SparseKernelPCA(20, n_support=200, device="cuda").fit(host_array)
#
# On one H200, ten million rows of 64 columns with 200 points took 0.27 s when the rows were there and 0.38 s from the
# host.
#
# .. admonition:: In short
#
#    Give ``fit`` the rows as they are. Everything measured is on :doc:`/scale`; a cluster is in
#    :doc:`/gallery/dask_cluster`.
