"""Data that the tests share."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_blobs
from sklearn.model_selection import train_test_split


@pytest.fixture(scope="session")
def cloud():
    """80 rows in 5 features, away from the origin and from symmetry."""
    rng = np.random.default_rng(7)
    return rng.standard_normal((80, 5)) * [1.0, 0.8, 1.2, 0.5, 1.5] + [0.3, 0.0, -0.4, 0.2, 0.1]


@pytest.fixture(scope="session")
def new_rows():
    """30 rows of the kind of `cloud`, not among them."""
    rng = np.random.default_rng(8)
    return rng.standard_normal((30, 5)) + 0.1


@pytest.fixture(scope="session")
def digits():
    """(train, test) of scikit-learn's digits, pixels in [0, 1]."""
    return train_test_split(load_digits().data / 16, test_size=1 / 3, random_state=0)


@pytest.fixture(scope="session")
def blobs():
    """(train, test): 1500 rows about 12 centres in 6 features."""
    X, _ = make_blobs(1500, n_features=6, centers=12, cluster_std=1.5, random_state=3)
    return train_test_split(X, test_size=1 / 3, random_state=0)
