"""Data with known sparse components."""

from __future__ import annotations

import pytest
from linear_cases import sparse_signals


@pytest.fixture(scope="module")
def tall():
    return sparse_signals(90, 14)[0]


@pytest.fixture(scope="module")
def wide():
    return sparse_signals(25, 60)[0]
