"""
A Dask cluster
==============

Rows that lie in chunks on many machines stay there: only points go out, and only sums come back. Here the cluster is a
local one; the code for a real one differs in the address.
"""

import matplotlib.pyplot as plt
import numpy as np
import pictures
import shown
from dask import array
from distributed import Client, LocalCluster

from kernelsieve import SparseKernelPCA

source, rows = shown.flights(shown.amount(200_000, 4000))
print(source)
cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0")
client = Client(cluster)  # or Client("scheduler:8786")

chunks = array.from_array(rows, chunks=(len(rows) // 8, -1))
print("chunks:", chunks.numblocks[0], "of", chunks.chunksize)

# %%
# The same three lines
# --------------------

model, seconds = shown.timed(lambda: SparseKernelPCA(5, n_support=60, random_state=0).fit(chunks))
lazy = model.transform(chunks)
print(f"fit on the cluster: {seconds:.1f} s; kept of exact: {model.captured_ratio_:.4f}")
print("transform is lazy:", lazy)
first = lazy[:2000].compute()

# %%
# The same answer
# ---------------
#
# Moments add up, so the cluster's answer is that of one machine, to rounding, for the same points.

local = SparseKernelPCA(5, n_support=60, selection=model.support_vectors_, gamma=model.gamma_).fit(rows)
difference = np.abs(np.abs(local.transform(rows[:2000])) - np.abs(first)).max()
print(f"scores on the cluster and on one machine differ by {difference:.0e}")

client.close()
cluster.close()

figure, axes = pictures.panels(2, 4.2, 3.4)
axes[0].scatter(first[:, 0], first[:, 1], s=4, color=pictures.COLORS[0], linewidths=0)
axes[0].set(title="2000 departures", xlabel="component 0", ylabel="component 1")
shares = 100 * model.explained_variance_ratio_
pictures.bars(axes[1], [f"component {k}" for k in range(5)], shares, "variance explained, %", "{:.1f}")
plt.show()

# %%
# What it costs beyond one machine, and why the tree of additions is not what limits it, is on :doc:`/scale`.
