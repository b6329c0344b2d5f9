"""
Streams and drift
=================

My rows keep coming, and they change. ``partial_fit`` takes them block by block
and keeps only a sample; ``half_life`` lets the model forget.
"""

# %%
# One pass, block by block
# ------------------------
#
# The model keeps its support points, the moments of all rows over them, and a
# sample of rows. The result does not depend on how the rows are cut into calls,
# and it ends close to where a fit on all rows at once would:

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from kernelsieve import SparseKernelPCA, plots

digits = load_digits()
train, test, train_labels, _ = train_test_split(
    digits.data / 16, digits.target, test_size=1 / 3, random_state=0
)
stream = SparseKernelPCA(10, n_support=40, random_state=0)
for block in np.array_split(train, 20):
    stream.partial_fit(block)
batch = SparseKernelPCA(10, n_support=40, random_state=0).fit(train)
ratio = stream.score(test) / batch.score(test)
print(f"held-out variance, stream relative to one fit: {ratio:.4f}")

# %%
# Rows in a bad order
# -------------------
#
# Streams are rarely shuffled. Sorted by digit, the last block has nothing in
# common with the first. ``refresh()`` chooses support points once more from the
# sample of everything that has come:

stream = SparseKernelPCA(10, n_support=40, random_state=0)
for block in np.array_split(train[np.argsort(train_labels)], 20):
    stream.partial_fit(block)
before = stream.score(test) / batch.score(test)
after = stream.refresh().score(test) / batch.score(test)
print(f"sorted by digit: {before:.4f} before refresh(), {after:.4f} after")

# %%
# Rows that change
# ----------------
#
# With ``half_life=1000`` a row counts half after 1000 more have come. Here are
# eight sensors whose correlations change abruptly after 12 of 24 blocks. Each
# block is scored *before* the model learns it:

rng = np.random.default_rng(0)
mixing = rng.standard_normal((2, 3, 8))
blocks = [
    np.tanh(rng.standard_normal((500, 3)) @ mixing[int(number >= 12)])
    for number in range(24)
]
models = {
    "half_life=1000": SparseKernelPCA(
        5, n_support=40, half_life=1000, record_drift=True, random_state=0
    ),
    "remembers everything": SparseKernelPCA(5, n_support=40, random_state=0),
}
fig, axes = plt.subplots(2, 1, figsize=(7.2, 5.4), layout="constrained")
for name, model in models.items():
    explained = []
    for number, block in enumerate(blocks):
        if number:
            explained.append(model.score(block))
        model.partial_fit(block)
    axes[0].plot(range(1, 24), explained, marker="o", label=name)
axes[0].set(xlabel="block", title="variance explained on the next block")
axes[0].legend()
plots.drift(models["half_life=1000"], ax=axes[1])
plt.show()

# %%
# Both models fall at the change. The one that forgets recovers within a few
# blocks; the other is still behind at the end. ``drift_`` is the angle by which
# the components have turned since points were last chosen;
# ``record_drift=True`` records it after each call. A large angle says that the
# stream has changed.
#
# A model that is updated every day
# ---------------------------------
#
# Save after each day and go on the next morning. To the last bit, this is the
# same as one long stream::
#
#     model = SparseKernelPCA(10, n_support=50, half_life=100_000)
#     model.partial_fit(first_day).save("model.ks")
#
#     model = kernelsieve.load("model.ks")        # the next morning
#     model.partial_fit(second_day).save("model.ks")
#
# Start with ``partial_fit``, or with ``fit`` and ``keep_stream=True``. On the
# :doc:`command line </command_line>`, ``kernelsieve fit --follow`` does this
# for a file that grows. :doc:`/streams` has the details.
#
# Many devices
# ------------
#
# Models of different streams add. ``a + b`` is the model of both, so devices
# can send a few kilobytes and keep their rows. With the same support points the
# sum is exact:

settings = {"n_support": 40, "selection": batch.support_vectors_}
settings["gamma"] = batch.gamma_
half = len(train) // 2
here = SparseKernelPCA(10, **settings).partial_fit(train[:half])
there = SparseKernelPCA(10, **settings).partial_fit(train[half:])
both = (here + there).transform(test)
whole = SparseKernelPCA(10, **settings).fit(train).transform(test)
difference = np.abs(np.abs(both) - np.abs(whole)).max()
print(f"two devices against one: scores differ by {difference:.0e}")

# %%
# .. admonition:: In short
#
#    ``partial_fit`` for every block; ``refresh()`` at the end if rows came
#    sorted; ``half_life`` if they drift. :doc:`/gallery/drifting_stream`
#    compares with the published online rules.
