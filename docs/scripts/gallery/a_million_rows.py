"""
A million rows
==============

One pass, a few megabytes. Where does the time go, and what do more rows buy?
"""

import time

import matplotlib.pyplot as plt
import numpy as np

from kernelsieve import SparseKernelPCA

n_rows = 1_000_000
rng = np.random.default_rng(0)
angle = rng.uniform(0, 4 * np.pi, n_rows)
rows = np.empty((n_rows, 10), dtype=np.float32)
rows[:, 0], rows[:, 1], rows[:, 2] = np.cos(angle), np.sin(angle), angle / 6
rows[:, 3:] = 0.3 * rng.standard_normal((n_rows, 7))

model = SparseKernelPCA(4, n_support=100, random_state=0)
start = time.perf_counter()
model.fit(rows)
print(f"fit: {time.perf_counter() - start:.2f} s")
start = time.perf_counter()
scores = model.transform(rows)
print(f"transform: {time.perf_counter() - start:.2f} s")
print(f"captured_ratio_: {model.captured_ratio_:.4f}")
print(f"exact kernel PCA would need {8e-12 * n_rows**2:,.1f} TB")

# %%
# What it finds
# -------------
#
# The rows lie on a spiral in three of ten columns. The leading components
# follow it, which no straight direction can.

some = rng.choice(n_rows, 4000, replace=False)
fig, axes = plt.subplots(1, 3, figsize=(7.2, 2.8), layout="constrained")
for ax, x, y, title in (
    (axes[0], rows[:, 0], rows[:, 1], "two of the columns"),
    (axes[1], scores[:, 0], scores[:, 1], "components 1 and 2"),
    (axes[2], scores[:, 1], scores[:, 2], "components 2 and 3"),
):
    ax.scatter(x[some], y[some], c=angle[some], s=2, cmap="twilight_shifted")
    ax.set(title=title, xticks=[], yticks=[])
plt.show()

# %%
# What more rows buy
# ------------------
#
# Support points are chosen from a sample of a few thousand rows. All other rows
# only make the components' weights and variances more certain. How much
# variance is lost by components found on fewer rows, with the same points?

held_out = rows[-100_000:]
best = model.score(held_out)
settings = {"selection": model.support_vectors_, "gamma": model.gamma_}
for size in (1000, 10_000, n_rows // 10):
    fewer = SparseKernelPCA(4, n_support=100, **settings).fit(rows[:size])
    lost = 1 - fewer.score(held_out) / best
    print(f"{size:>7,} rows lose {lost:.2%} of the variance captured")
