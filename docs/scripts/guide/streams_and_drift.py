"""
Streams and drift
=================

My rows keep coming, and they change. ``partial_fit`` takes them block by block and keeps none but a sample;
``half_life`` lets it forget.
"""

# %%
# One pass, block by block
# ------------------------
#
# What is kept is the points, the moments of all rows over them, and a sample. The result does not depend on how rows
# are cut into calls, and ends where a fit on all rows at once would.

import matplotlib.pyplot as plt
import numpy as np
import pictures
import shown

from kernelsieve import SparseKernelPCA, plots

data = shown.usps(n_train=4000)
print(data.source)
order = np.random.default_rng(0).permutation(len(data.train))
stream = SparseKernelPCA(10, n_support=40, random_state=0)
for block in np.array_split(data.train[order], shown.amount(30, 4)):
    stream.partial_fit(block)
batch = SparseKernelPCA(10, n_support=40, random_state=0).fit(data.train)
ratio = stream.score(data.test) / batch.score(data.test)
print(f"{stream.n_samples_seen_:,} rows in blocks; held-out variance relative to one fit on all of them: {ratio:.4f}")

# %%
# Rows in a bad order
# -------------------
#
# Streams are rarely shuffled. Sorted by digit, the last block knows nothing of the first. ``refresh()`` chooses points
# once more from the sample of everything that has come:

by_digit = np.argsort(data.train_labels, kind="stable")
stream = SparseKernelPCA(10, n_support=40, random_state=0)
for block in np.array_split(data.train[by_digit], shown.amount(30, 4)):
    stream.partial_fit(block)
before = stream.score(data.test) / batch.score(data.test)
after = stream.refresh().score(data.test) / batch.score(data.test)
print(f"sorted by digit: {before:.4f} of the batch fit before refresh(), {after:.4f} after")

# %%
# Rows that change
# ----------------
#
# With ``half_life=1000`` a row weighs half after 1000 more have come. The table of departures from New York's airports
# in 2013 goes on from January to October at about its 27,000th row: a sudden change. A model that forgets has learnt
# the new month after two blocks; one that remembers all has not. Each block is scored *before* it is learnt:

source, rows = shown.flights(shown.amount(30000, 2000))
print(source)
blocks = np.array_split(rows, shown.amount(20, 5))
models = {
    "forgets (half_life=2000)": SparseKernelPCA(5, n_support=40, half_life=2000, record_drift=True, random_state=0),
    "remembers all": SparseKernelPCA(5, n_support=40, random_state=0),
}
explained = {name: [] for name in models}
for number, block in enumerate(blocks):
    for name, model in models.items():
        if number:
            explained[name].append(100 * model.score(block))
        model.partial_fit(block)

figure, axes = pictures.panels(2, 4.8, 3.4)
pictures.curve(axes[0], range(1, len(blocks)), explained, "block", "variance explained on the next block, %")
axes[0].set_title("prediction before learning")
plots.drift(models["forgets (half_life=2000)"], ax=axes[1])
plt.show()

# %%
# ``drift_`` is the angle by which the components have turned since points were last chosen; ``record_drift=True`` notes
# it after each call. A large angle says that the stream is not what it was.
#
# Many devices
# ------------
#
# Models of different streams add: ``a + b`` is the model of both, so that devices can send models of a few kilobytes
# and keep their rows. With the same points it is exact.

half = len(data.train) // 2
points = batch.support_vectors_
here, there = (
    SparseKernelPCA(10, n_support=40, selection=points, gamma=batch.gamma_).partial_fit(part)
    for part in (data.train[:half], data.train[half:])
)
both = here + there
whole = SparseKernelPCA(10, n_support=40, selection=points, gamma=batch.gamma_).fit(data.train)
same = np.abs(np.abs(both.transform(data.test)) - np.abs(whole.transform(data.test))).max()
print(f"two devices and one: scores differ by {same:.0e}")

# %%
# .. admonition:: In short
#
#    ``partial_fit`` for every block; ``refresh()`` at the end if rows came sorted; ``half_life`` if they drift.
#    :doc:`/gallery/drifting_stream` compares with the published online rules, and :doc:`/streams` has the details.
