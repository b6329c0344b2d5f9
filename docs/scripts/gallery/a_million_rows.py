"""
A million rows
==============

One pass, a few megabytes. Where does the time go, and what do more rows buy?
"""

import matplotlib.pyplot as plt
import numpy as np
import pictures
import shown

from kernelsieve import SparseKernelPCA

rng = np.random.default_rng(0)
n_rows = shown.amount(1_000_000, 20_000)
angle = rng.uniform(0, 4 * np.pi, n_rows)
rows = np.empty((n_rows, 10), dtype=np.float32)
rows[:, 0], rows[:, 1], rows[:, 2] = np.cos(angle), np.sin(angle), angle / 6
rows[:, 3:] = 0.3 * rng.standard_normal((n_rows, 7))
print(f"made rows: {n_rows:,} on a spiral in ten columns, {rows.nbytes / 1e6:.0f} MB")

model = SparseKernelPCA(5, n_support=100, random_state=0)
_, seconds, megabytes = shown.measured(lambda: model.fit(rows))
print(f"fit: {seconds:.2f} s, {megabytes:.0f} MB beyond the rows; kept of exact: {model.captured_ratio_:.4f}")
print(f"exact kernel PCA would hold {8e-12 * n_rows**2:,.1f} TB")

# %%
# What it finds
# -------------
#
# The leading components follow the spiral, which no straight direction does.

scores, seconds = shown.timed(lambda: model.transform(rows))
print(f"transform: {seconds:.2f} s, {n_rows / seconds:,.0f} rows a second")
some = rng.choice(n_rows, min(n_rows, 6000), replace=False)
figure, axes = pictures.panels(3, 3.6, 3.2)
for ax, (first, second), values, title in (
    (axes[0], (0, 1), rows, "two of the columns"),
    (axes[1], (0, 1), scores, "components 0 and 1"),
    (axes[2], (1, 2), scores, "components 1 and 2"),
):
    points = ax.scatter(
        values[some, first], values[some, second], c=angle[some], s=3, cmap="twilight_shifted", linewidths=0
    )
    ax.set(title=title, xticks=[], yticks=[])
figure.colorbar(points, ax=axes[2], label="place along the spiral")
plt.show()

# %%
# What more rows buy
# ------------------
#
# Points are chosen by a sample of a few thousand rows; the others make the components' weights and variances sure. How
# much variance do components lose that were found on fewer rows, with the same points?

sizes = [10**k for k in range(3, 6)] if not shown.SMALL else [1000, 5000]
best, lost = model.score(rows[some]), []
for size in sizes:
    fewer = SparseKernelPCA(5, n_support=100, selection=model.support_vectors_, gamma=model.gamma_).fit(rows[:size])
    lost.append(100 * max(1 - fewer.score(rows[some]) / best, 1e-7))
figure, (ax,) = pictures.panels(1, 6, 3)
pictures.curve(ax, sizes, {"lost": lost}, "rows", "variance lost, %")
ax.set(xscale="log", yscale="log", title="Components from fewer rows, against those from all")
plt.show()
