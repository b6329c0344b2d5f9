"""Tables that reports are made of."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from kernelsieve import SparseKernelPCA

# Estimators that say what they listen to and what lies along their components.
needs_interpretation = pytest.mark.skipif(
    not hasattr(SparseKernelPCA, "sensitivity"), reason="input gradients are not in this version"
)


def sales(n_rows=300, seed=0):
    """A table as people have it: numbers, a gap, classes, an identifier, dates, and one odd row, number 7."""
    rng = np.random.default_rng(seed)
    big = rng.random(n_rows) < 0.5
    table = pd.DataFrame(
        {
            "id": [f"S{i:05d}" for i in range(n_rows)],
            "price": np.where(big, 100.0, 20.0) + 5 * rng.standard_normal(n_rows),
            "weight": np.where(big, 9.0, 2.0) + 0.5 * rng.standard_normal(n_rows),
            "cut": np.where(rng.random(n_rows) < 0.5, "plain", "fancy"),
            "size": np.where(big, "large", "small"),
            "sold": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n_rows), unit="D"),
        }
    )
    table.loc[table.index[3:9], "weight"] = np.nan
    table.loc[7, "price"] = 900.0
    return table


def encoder():
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    return make_column_transformer(
        (numbers, ["price", "weight"]), (OneHotEncoder(sparse_output=False), ["cut", "size"])
    )
