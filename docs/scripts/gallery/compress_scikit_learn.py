"""
Compressing a fitted scikit-learn model
=======================================

You have a fitted ``KernelPCA`` that is too slow: it compares every new row with
all the rows it was fitted to. :func:`~kernelsieve.compress` moves it onto a few
support points, with the same scores.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import KernelPCA
from sklearn.model_selection import train_test_split

from kernelsieve import compress

train, test = train_test_split(
    load_digits().data / 16, test_size=1 / 3, random_state=0
)
exact = KernelPCA(10, kernel="rbf", gamma=0.05, random_state=0).fit(train)
small = compress(exact, n_support=50, random_state=0)


def timed_transform(model):
    """Scores of the held-out rows, and the fastest of five times in ms."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        scores = model.transform(test)
        times.append(1000 * (time.perf_counter() - start))
    return scores, min(times)


theirs, their_time = timed_transform(exact)
ours, our_time = timed_transform(small)
print(f"scikit-learn: {len(train)} points, transform {their_time:.1f} ms")
print(f"compressed:   {small.n_support_} points, transform {our_time:.1f} ms")

# %%
# The same scores
# ---------------

fig, axes = plt.subplots(1, 3, figsize=(7.2, 2.7), layout="constrained")
for component, ax in zip((0, 4, 9), axes, strict=True):
    ax.scatter(theirs[:, component], ours[:, component], s=4)
    ax.set(title=f"component number {component + 1}", xlabel="scikit-learn")
axes[0].set_ylabel("compressed")
plt.show()

# %%
# How small can it be?
# --------------------
#
# Ask for a number of support points, or for an error:
# ``compress(exact, target_error=0.02)`` finds the number. ``compression_``
# states the error of each component.

sizes = [15, 25, 50, 100]
spread = np.linalg.norm(theirs - theirs.mean(axis=0))
errors = []
for size in sizes:
    scores = compress(exact, n_support=size, random_state=0).transform(test)
    errors.append(100 * np.linalg.norm(scores - theirs) / spread)
plt.loglog(sizes, errors, marker="o")
plt.xticks(sizes, sizes)
plt.minorticks_off()
plt.xlabel("support points")
plt.ylabel("%")
plt.title("relative error of held-out scores")
plt.show()
