"""
Scaling and tables
==================

My data has strings, dates and gaps; do I have to scale it? Yes: a kernel compares rows by distance, and a column in
dollars drowns one in carats. :class:`~kernelsieve.TableEncoder` does it for tables as people have them.
"""

# %%
# A table as people have it
# -------------------------

import matplotlib.pyplot as plt
import numpy as np
import pictures
import shown
from sklearn.pipeline import make_pipeline

from kernelsieve import SparseKernelPCA, TableEncoder

source, table = shown.diamonds(shown.amount(5000, 400))
print(source)
print(table.head(4).to_string())

# %%
# An estimator names the text column rather than guessing:

try:
    SparseKernelPCA(2).fit(table)
except ValueError as error:
    print(error)

# %%
# With an encoder before it, the table goes in as it is. Numbers are scaled; each category is one-hot, and all of its
# columns together count as one; dates become numbers; gaps are filled in, with an indicator beside them. Columns that
# are constant or that only name rows are left out, and :meth:`~kernelsieve.TableEncoder.describe` tells all of it.

pipeline = make_pipeline(TableEncoder(), SparseKernelPCA(6, n_support=40, random_state=0)).fit(table)
for what, columns in pipeline[0].describe():
    print(f"{what:>12}: {columns}")

# %%
# What the map shows
# ------------------

scores = pipeline.transform(table)
figure, axes = pictures.panels(2, 4.6, 3.6)
price = np.log10(np.asarray(table["price"], dtype=float))
picture = axes[0].scatter(scores[:, 0], scores[:, 1], c=price, s=5, cmap="cividis", linewidths=0)
figure.colorbar(picture, ax=axes[0], label="log10 price")
axes[0].set(title="coloured by price", xlabel="component 0", ylabel="component 1")
pictures.classes(axes[1], scores[:, :2], np.asarray(table["cut"], dtype=str), "the same, by cut", legend=True)
plt.show()

# %%
# What happens without scaling
# ----------------------------
#
# The same numbers, not scaled: price, in thousands, is all that the kernel sees, and the first component is price. The
# fit warns of it.

numbers = table.select_dtypes("number")
raw = SparseKernelPCA(2, n_support=30, random_state=0)
raw, warnings = shown.warned(lambda: raw.fit(numbers.to_numpy(dtype=float)))
print(*warnings, sep="\n")
scaled = make_pipeline(TableEncoder(), SparseKernelPCA(2, n_support=30, random_state=0)).fit(numbers)
figure, axes = pictures.panels(2, 4.8, 3.4)
for ax, model, rows, title in (
    (axes[0], raw, numbers.to_numpy(dtype=float), "raw: one column decides"),
    (axes[1], scaled[-1], scaled[0].transform(numbers), "scaled: all are heard"),
):
    heard = model.sensitivity(np.asarray(rows))[0]
    names = list(numbers.columns) if len(heard) == numbers.shape[1] else list(map(str, model.feature_names_in_))
    pictures.bars(ax, names, heard / heard.sum() * 100, "share of the first component's sensitivity, %", "{:.0f}")
    ax.set_title(title)
plt.show()

# %%
# Which scaling
# -------------
#
# ============================= ======================================================================================
# ``scale="standard"``          mean 0, variance 1: the default
# ``scale="robust"``            median and quartiles: when a few values are huge (incomes, counts)
# ``scale="none"``              when all columns have the same unit already: pixels, spectra
# ============================= ======================================================================================
#
# scikit-learn's own scalers and ``ColumnTransformer`` work as well, and a pipeline of them can be
# :doc:`saved <saving_safely>` and :doc:`exported <deployment>`. On the command line the encoder is built in:
# ``kernelsieve fit sales.csv -o sales.ks``.
#
# .. admonition:: In short
#
#    ``make_pipeline(TableEncoder(), SparseKernelPCA(10)).fit(frame)``.
