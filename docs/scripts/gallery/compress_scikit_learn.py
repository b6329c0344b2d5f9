"""
Compressing a fitted scikit-learn model
=======================================

You have a fitted ``KernelPCA`` that is too slow to use: every row is compared with all the rows it was fitted to.
:func:`~kernelsieve.compress` puts it on few points, with the same scores.
"""

import matplotlib.pyplot as plt
import numpy as np
import pictures
import shown
from sklearn.decomposition import KernelPCA

from kernelsieve import SparseKernelPCA, compress

data = shown.usps(n_train=2500)
print(data.source)
gamma = SparseKernelPCA(10, n_support=30, random_state=0).fit(data.train).gamma_
exact = KernelPCA(10, kernel="rbf", gamma=gamma, eigen_solver="arpack", random_state=0).fit(data.train)

small, seconds = shown.timed(lambda: compress(exact, n_support=50, random_state=0))
theirs, their_time = shown.timed(lambda: exact.transform(data.test))
ours, our_time = shown.timed(lambda: small.transform(data.test))
error = np.linalg.norm(ours - theirs) / np.linalg.norm(theirs - theirs.mean(axis=0))
print(
    f"compressed in {seconds:.1f} s: {len(data.train):,} rows -> {small.n_support_} points, "
    f"transform {their_time / our_time:.0f} times faster"
)
print(f"relative difference of held-out scores: {100 * error:.2f} %")

# %%
# The same scores
# ---------------

figure, axes = pictures.panels(3)
for component, ax in zip((0, 4, 9), axes, strict=True):
    ax.scatter(theirs[:, component], ours[:, component], s=5, color=pictures.COLORS[0], linewidths=0)
    ax.set(title=f"component {component}", xlabel="scikit-learn's KernelPCA", ylabel="compressed")
plt.show()

# %%
# How small can it be?
# --------------------
#
# Ask for a number of points, or for an error: ``compress(exact, target_error=0.02)`` finds the number. ``compression_``
# states the error of each component.

sizes = [15, 25, 50, 100][: shown.amount(4, 2)]
errors = []
for size in sizes:
    scores = compress(exact, n_support=size, random_state=0).transform(data.test)
    errors.append(100 * np.linalg.norm(scores - theirs) / np.linalg.norm(theirs - theirs.mean(axis=0)))
figure, (ax,) = pictures.panels(1, 6, 3.2)
pictures.curve(ax, sizes, {"moved points": errors}, "points", "relative error of held-out scores, %")
ax.set(yscale="log", title=f"A model of {len(data.train):,} rows on fewer points")
plt.show()
