"""
A Dask cluster
==============

Rows that lie in chunks on many machines stay there: only support points go out,
and only sums come back. The cluster here is local. For a real one, change the
address.
"""

import time

import numpy as np
from dask import array
from distributed import Client, LocalCluster

from kernelsieve import SparseKernelPCA

n_rows = 100_000
rng = np.random.default_rng(0)
rows = np.sin(rng.standard_normal((n_rows, 3)) @ rng.standard_normal((3, 10)))
cluster = LocalCluster(
    n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
)
client = Client(cluster)  # or Client("scheduler:8786")
chunks = array.from_array(rows, chunks=(n_rows // 8, -1))
print(chunks.numblocks[0], "chunks of", chunks.chunksize)

# %%
# The same three lines
# --------------------

start = time.perf_counter()
model = SparseKernelPCA(5, n_support=60, random_state=0).fit(chunks)
print(f"fit on the cluster: {time.perf_counter() - start:.1f} s")
print(f"captured_ratio_: {model.captured_ratio_:.4f}")
lazy = model.transform(chunks)
print("transform is lazy:", type(lazy).__name__, lazy.shape)
first = lazy[:2000].compute()

# %%
# The same answer
# ---------------
#
# Moments add up, so with the same support points the cluster's answer is that
# of one machine, up to rounding:

settings = {"selection": model.support_vectors_, "gamma": model.gamma_}
local = SparseKernelPCA(5, n_support=60, **settings).fit(rows)
difference = np.abs(np.abs(local.transform(rows[:2000])) - np.abs(first)).max()
print(f"scores on the cluster and on one machine differ by {difference:.0e}")

client.close()
cluster.close()

# %%
# :doc:`/scale` shows what a cluster costs beyond one machine.
