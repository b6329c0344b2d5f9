"""Rows, models and comparisons that the tests of model files share."""

from dataclasses import fields, is_dataclass

import numpy as np
import scipy.sparse as sp
from numpy.testing import assert_array_equal


def make_rows(n=120, d=4, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


def same(a, b):
    """Equal in type, shape and every bit; estimators, records and containers by their parts."""
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert_array_equal(a, b)
    elif sp.issparse(a):
        assert a.shape == b.shape
        assert_array_equal(a.toarray(), b.toarray())
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, dict):
        assert set(a) == set(b)
        for key in a:
            same(a[key], b[key])
    elif is_dataclass(a):  # what it has computed from its fields since is no part of it
        for field in fields(a):
            same(getattr(a, field.name), getattr(b, field.name))
    elif hasattr(a, "__dict__"):
        same(vars(a), vars(b))
    else:
        assert a == b or (a != a and b != b)
