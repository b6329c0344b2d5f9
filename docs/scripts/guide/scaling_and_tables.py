"""
Scaling and tables
==================

My data has strings, dates and gaps; do I have to scale it? Yes: a kernel
compares rows by distance, and a column in dollars drowns one in years.
:class:`~kernelsieve.TableEncoder` takes tables as people have them.
"""

# %%
# A table as people have it
# -------------------------
#
# Trips of a bicycle rental, made up here so that the page needs no file. There
# are numbers in different units, text, dates and gaps:

import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline

from kernelsieve import SparseKernelPCA, TableEncoder

rng = np.random.default_rng(0)
n = 2000
commuter = rng.random(n) < 0.5
days = rng.integers(0, 365, n)
summer = np.cos((days - 200) / 365 * 2 * np.pi)
minutes = np.where(commuter, 12, 45) * rng.lognormal(0, 0.3, n)
trips = pd.DataFrame(
    {
        "started": pd.Timestamp("2025-01-01") + pd.to_timedelta(days, "D"),
        "minutes": minutes.round(1),
        "metres": (minutes * rng.normal(220, 30, n)).round(),
        "temperature": (10 + 9 * summer + rng.normal(0, 3, n)).round(1),
        "bike": np.where(commuter, "plain", rng.choice(["cargo", "tandem"], n)),
        "paid": np.where(commuter, "monthly", "single"),
    }
)
trips.loc[rng.random(n) < 0.1, "temperature"] = np.nan
print(trips.head(4).to_string())

# %%
# An estimator names the text column instead of guessing:

try:
    SparseKernelPCA(2).fit(trips)
except ValueError as error:
    print(textwrap.fill(str(error), 78))

# %%
# With an encoder in front, the table goes in as it is. Numbers are scaled. Each
# category becomes one-hot columns that together count as one column. Dates
# become numbers. Gaps are filled in, with an indicator beside them. Columns
# that are constant or that only name rows are left out.
# :meth:`~kernelsieve.TableEncoder.describe` lists what was done.

model = SparseKernelPCA(6, n_support=40, random_state=0)
pipeline = make_pipeline(TableEncoder(), model).fit(trips)
for what, columns in pipeline[0].describe():
    print(f"{what:>12}: {columns}")

# %%
# What the map shows
# ------------------
#
# The first component separates commuters from day trippers. The second follows
# the season: it is a date and a temperature, with gaps in the latter.

scores = pipeline.transform(trips)
fig, axes = plt.subplots(1, 2, figsize=(7.2, 3.2), layout="constrained")
for ax, column in zip(axes, ("minutes", "temperature"), strict=True):
    dots = ax.scatter(scores[:, 0], scores[:, 1], c=trips[column], s=5)
    fig.colorbar(dots, ax=ax, location="bottom", label=column)
    ax.set(xlabel="1st component", ylabel="2nd component")
plt.show()

# %%
# What happens without scaling
# ----------------------------
#
# Given the raw numbers, the kernel sees only the column in metres. The fit
# warns about it:

numbers = trips[["minutes", "metres", "temperature"]].dropna()
raw = SparseKernelPCA(2, n_support=30, random_state=0)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    raw.fit(numbers)
for warning in caught:
    print(textwrap.fill(f"Warning: {warning.message}", 78))

scaled = make_pipeline(
    TableEncoder().set_output(transform="pandas"),
    SparseKernelPCA(2, n_support=30, random_state=0),
).fit(numbers)
for name, sensitivity in (
    ("raw", raw.sensitivity(numbers)),
    ("scaled", scaled[-1].sensitivity(scaled[0].transform(numbers))),
):
    shares = sensitivity[0] / sensitivity[0].sum()
    listed = zip(numbers.columns, shares, strict=True)
    print(f"{name}:", *(f"{column} {share:.0%}" for column, share in listed))

# %%
# Which scaling
# -------------
#
# .. list-table::
#    :widths: 30 70
#
#    * - ``scale="standard"``
#      - mean 0, variance 1: the default
#    * - ``scale="robust"``
#      - median and quartiles: when a few values are huge (incomes, counts)
#    * - ``scale="none"``
#      - when all columns share a unit already: pixels, spectra
#
# scikit-learn's own scalers and ``ColumnTransformer`` work as well, and a
# pipeline of them can be :doc:`saved <saving_safely>` and :doc:`exported
# <deployment>`. On the :doc:`command line </command_line>` the encoder is built
# in: ``kernelsieve fit trips.csv -o trips.ks``.
#
# .. admonition:: In short
#
#    ``make_pipeline(TableEncoder(), SparseKernelPCA(10)).fit(frame)``.
