"""Rows, models and comparisons that the tests of model files share."""

import pytest
from model_file_cases import make_rows

from kernelsieve import (
    SparseKernelPCA,
)


@pytest.fixture(scope="module")
def model():
    return SparseKernelPCA(2, n_support=6, selection="kmeans", random_state=0).fit(make_rows())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.ks"
