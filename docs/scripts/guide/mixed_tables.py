"""
Numbers and categories
======================

My table has numbers and categories: must I make one-hot columns? You can, and
:class:`~kernelsieve.TableEncoder` does. A kernel can also look at the
categories themselves. Then a category stays one column, support points are
rows that people can read, and the weight of the categories is a parameter.
"""

# %%
# A table of machines
# -------------------
#
# Readings of machines, made up here so that the page needs no file. How load
# and temperature go together depends on the kind of machine; the site says
# nothing of it.

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from kernelsieve import SparseKernelPCA
from kernelsieve.kernels import RBF, Hamming

rng = np.random.default_rng(0)
n = 1500
kind = rng.choice(["pump", "fan", "mill", "press", "saw"], n)
slope = pd.Series(kind).map(
    {"pump": 2.0, "fan": -2.0, "mill": 0.5, "press": -0.5, "saw": 1.0}
)
load, heat = rng.standard_normal((2, n))
table = pd.DataFrame(
    {
        "load": 50 + 10 * load,
        "heat": 20 + 5 * heat,
        "kind": kind,
        "site": rng.choice(["north", "south", "east"], n),
    }
)
wear = slope * load + np.sin(2 * heat) + 0.1 * rng.standard_normal(n)

# %%
# One column for each category, or one for each value
# ---------------------------------------------------
#
# :class:`~kernelsieve.kernels.Hamming` counts the columns in which two rows
# differ, so any numbers that stand for the categories will do: scikit-learn's
# ``OrdinalEncoder`` makes them. ``*`` asks for rows that are alike in both
# parts. ``on`` takes the names of a frame, or numbers of columns.

numbers, categories = ["load", "heat"], ["kind", "site"]
coded = make_column_transformer(
    (StandardScaler(), numbers),
    (OrdinalEncoder(), categories),
    verbose_feature_names_out=False,
).set_output(transform="pandas")
one_hot = make_column_transformer(
    (StandardScaler(), numbers),
    (OneHotEncoder(sparse_output=False), categories),
)
mixed = RBF().on(numbers) * Hamming().on(categories)


def pipeline(encoder, kernel):
    """An encoder and sparse kernel PCA on 60 points."""
    return make_pipeline(
        encoder,
        SparseKernelPCA(20, n_support=60, kernel=kernel, random_state=0),
    )


for name, model in {
    "one-hot, RBF": pipeline(one_hot, RBF()),
    "RBF * Hamming": pipeline(coded, mixed),
}.items():
    fitted = model.fit(table)[-1]
    score = cross_val_score(
        make_pipeline(model, KNeighborsRegressor(10)), table, wear, cv=3
    ).mean()
    print(
        f"{name:14} {fitted.n_features_in_:2} columns, "
        f"{fitted.captured_ratio_:.1%} of exact kernel PCA, "
        f"R^2 of wear {score:.2f}"
    )

# %%
# The points are moved in the columns of numbers only. In those of categories
# they keep the values of rows, so that each can be read:

points = pd.DataFrame(
    model[-1].support_vectors_, columns=model[0].get_feature_names_out()
)
codes = coded.named_transformers_["ordinalencoder"]
points[categories] = codes.inverse_transform(points[categories])
print(points.head(4).round(2).to_string())

# %%
# How much the categories count
# -----------------------------
#
# A wider ``Hamming`` makes rows of different categories more alike. Its width
# is a parameter like any other, which a search can reach:
# ``sparsekernelpca__kernel__k2__kernel__width``.

for width in (0.5, 1.0, 2.0, 4.0):
    model.set_params(sparsekernelpca__kernel__k2__kernel__width=width)
    score = cross_val_score(
        make_pipeline(model, KNeighborsRegressor(10)), table, wear, cv=3
    ).mean()
    print(f"width {width}: R^2 = {score:.2f}")

# %%
# .. admonition:: In short
#
#    ``RBF().on(numbers) * Hamming().on(categories)`` on ordinal codes for
#    categories with many values, or when the support points are to be read.
#    :class:`~kernelsieve.TableEncoder` and one-hot columns for everything
#    else: dates, gaps, text.
